//! The replay buffer: prioritized, on the GPU, from insert to update.
//!
//! Calls in order: [`GpuReplayBuffer::new`], [`push`](GpuReplayBuffer::push) and its larger sisters,
//! [`sample`](GpuReplayBuffer::sample), [`update_priorities_gpu`](GpuReplayBuffer::update_priorities_gpu), again and again.
//! All of them enqueue on the buffer's stream and return; what waits says so (`…_to_host`, `stats`, `save`).
//!
//! Priorities are those of Schaul et al., "Prioritized Experience Replay" (ICLR 2016), the proportional variant: a
//! transition is drawn with probability `p / sum p`, one in each of `n` equal shares of the mass, and weighted by
//! `(N * P)^-beta` over the batch's largest. New transitions get the largest priority so far. How the sums are kept
//! exact at 24.7 million entries is told at the top of `kernels/per_kernels.cu`.
//!
//! The buffer does not know the network, the discount of plain Q-learning, or hindsight.

mod batch;
mod checkpoint;
mod insert;
mod options;
mod pool;
mod steps;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DevicePtr};
use ml_cuda::context::check_memory;
use ml_cuda::{GraphPhases, Phase, PhaseTimer};

pub use batch::GpuBatchPtrs;
pub(crate) use batch::{BatchSet, lock};
pub use options::{BadTdError, GpuReplayBufferConfig, ReplayOptions, StateType};
pub use steps::{DeviceSteps, HostSteps, Steps};

use crate::error::DqnError;
use crate::launch::memory::capture_number;
use crate::launch::per::{PerKernels, PerMemory, PerState};
use crate::launch::sample_into;
use batch::check_status;
use pool::Pool;
use steps::Staging;

/// Who takes the time at the borders of a draw's phases.
#[derive(Clone, Copy)]
enum Stamps<'a> {
    None,
    Timer(&'a PhaseTimer),
    Graph(&'a GraphPhases),
}

impl Stamps<'_> {
    fn start(self, phase: Phase, stream: &CudaStream) {
        match self {
            Stamps::None => {}
            Stamps::Timer(phases) => phases.start(phase, stream),
            Stamps::Graph(phases) => phases.start(phase, stream),
        }
    }

    fn end(self, phase: Phase, stream: &CudaStream) {
        match self {
            Stamps::None => {}
            Stamps::Timer(phases) => phases.end(phase, stream),
            Stamps::Graph(phases) => phases.end(phase, stream),
        }
    }
}

const OTHER_BUFFER: &str =
    "the batch was drawn from another buffer, or before this one was restored; sample again";

/// A ring of transitions on the GPU, drawn by priority.
///
/// `sample` and `update_priorities_gpu` take `&self` and may be called from several threads: a lock keeps their
/// launches together. What changes the contents takes `&mut self`.
#[derive(Debug)]
pub struct GpuReplayBuffer {
    config: GpuReplayBufferConfig,
    options: ReplayOptions,
    /// Host's copy of the exponent of the importance weights.
    beta: f32,
    /// Rows ever stored, gaps of `clear` included; the device has the same number.
    written: u64,
    /// `written` at the last `clear`.
    emptied_at: u64,
    /// Which buffer a batch is from; another one after a restore, so that older batches are refused.
    identity: u64,
    /// Batches, and what has been enqueued. Declared before the memory that they use.
    shared: Mutex<Shared>,
    memory: PerMemory,
    staging: Staging,
    kernels: PerKernels,
    stream: Arc<CudaStream>,
}

/// What `&self` calls change.
#[derive(Debug)]
struct Shared {
    pool: Pool,
    pending: Pending,
    /// Recorded on other streams, for the buffer's stream to wait for, and the other way round.
    crossing: CudaEvent,
}

/// Updates whose tiles no scan has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    /// Entries that the list of touched tiles may have: 0 for none.
    entries: usize,
    /// Capture in which the newest scan was enqueued with no update behind it.
    scanned_in: Option<u64>,
    /// An update lies in some graph, so replays may leave marks at any time.
    in_a_graph: bool,
}

/// Counters and sums, as of the call.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ReplayStats {
    /// Filled slots.
    pub len: usize,
    /// Sum of all priorities.
    pub total_priority: f64,
    /// Largest priority so far, after the power: what a new transition gets.
    pub max_priority: f32,
    /// Exponent of the importance weights, as the device has it.
    pub beta: f32,
    /// Batches drawn.
    pub draws: u64,
    /// TD errors that were NaN, infinite, or negative where `ReplayOptions::signed_td_errors` is off.
    pub bad_td_errors: u64,
    /// Rows of updates whose slot had been pushed over since the draw; they were passed over.
    pub stale_rows: u64,
    /// Rows pushed from the device with an environment number that the buffer does not have.
    pub bad_env_ids: u64,
}

impl GpuReplayBuffer {
    /// An empty buffer on the stream's device, with default [`ReplayOptions`].
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options).
    pub fn new(config: GpuReplayBufferConfig, stream: Arc<CudaStream>) -> Result<Self, DqnError> {
        Self::with_options(config, ReplayOptions::default(), stream)
    }

    /// An empty buffer on the stream's device. All work of the buffer goes to `stream`.
    ///
    /// # Errors
    /// [`DqnError::Config`] naming the field, [`DqnError::Cuda`] where memory does not suffice (compared before
    /// anything is allocated) or kernels do not compile, or what the driver refused.
    pub fn with_options(
        config: GpuReplayBufferConfig,
        options: ReplayOptions,
        stream: Arc<CudaStream>,
    ) -> Result<Self, DqnError> {
        let needed = Self::bytes_needed(&config, &options)?;
        check_memory(stream.context(), "the replay buffer", needed)?;
        let kernels = PerKernels::new(&stream)?;
        let memory = PerMemory::new(&stream, options::sizes(&config, &options))?;
        let first_state = PerState {
            seed: options.seed,
            beta: config.beta,
            max_priority: 1.0f32.to_bits(),
            min_drawn: f32::INFINITY.to_bits(),
            ..PerState::default()
        };
        memory.state.write(&[first_state])?;
        Ok(Self {
            beta: config.beta,
            written: 0,
            emptied_at: 0,
            identity: next_identity(),
            shared: Mutex::new(Shared {
                pool: Pool::new(&stream, config.state_dim, options.batch_states),
                pending: Pending {
                    entries: 0,
                    scanned_in: None,
                    in_a_graph: false,
                },
                crossing: stream.context().new_event(None)?,
            }),
            memory,
            staging: Staging::new(&stream, config.state_dim, config.capacity)?,
            kernels,
            stream,
            config,
            options,
        })
    }

    /// Bytes of device memory that a buffer with these settings allocates when it is built.
    ///
    /// Batches come on top, up to three of [`batch_bytes`](Self::batch_bytes).
    ///
    /// # Errors
    /// [`DqnError::Config`] for settings that no buffer can have.
    pub fn bytes_needed(
        config: &GpuReplayBufferConfig,
        options: &ReplayOptions,
    ) -> Result<u64, DqnError> {
        options::validate(config, options)?;
        let staging = Staging::bytes(config.state_dim, config.capacity);
        Ok(options::sizes(config, options).bytes() + staging)
    }

    /// Bytes of device memory of one batch of `rows` rows.
    pub fn batch_bytes(
        config: &GpuReplayBufferConfig,
        options: &ReplayOptions,
        rows: usize,
    ) -> u64 {
        BatchSet::bytes(rows, config.state_dim, options.batch_states)
    }

    /// Draws a batch by priority, with replacement, and gathers it.
    ///
    /// Enqueues and returns; see [`GpuBatchPtrs`] for who may read it when. In a graph capture it can be called once a
    /// batch of at least this size was drawn, and dropped, outside of one; each replay then draws anew.
    ///
    /// # Errors
    /// [`DqnError::NotEnoughData`] and [`DqnError::Config`] before any kernel is launched, [`DqnError::BatchesHeld`] while
    /// three batches are held, or what the driver refused.
    pub fn sample(&self, batch_size: usize) -> Result<GpuBatchPtrs, DqnError> {
        self.sample_with(batch_size, None)
    }

    /// [`sample`](Self::sample) with its two phases, [`Phase::PerScan`] and [`Phase::PerSample`], timed.
    ///
    /// # Errors
    /// Those of [`sample`](Self::sample).
    pub fn sample_profiled(
        &self,
        batch_size: usize,
        phases: &PhaseTimer,
    ) -> Result<GpuBatchPtrs, DqnError> {
        self.sample_with(batch_size, Some(phases))
    }

    /// Draws anew into the memory of a batch, inside of a capture: each replay of the graph draws there, and whoever holds the batch
    /// sees it change. For graphs of whole training steps, of which two are captured: one with `phases`, one without.
    ///
    /// # Errors
    /// Those of [`sample`](Self::sample); [`DqnError::EmptyBatch`]; [`DqnError::Config`] outside of a capture or where the batch is of
    /// another buffer.
    pub fn redraw(
        &self,
        batch: &GpuBatchPtrs,
        phases: Option<&GraphPhases>,
    ) -> Result<(), DqnError> {
        let set = batch.set()?;
        self.check_sample(batch.len())?;
        if !self.drew(batch) {
            return Err(DqnError::Config(OTHER_BUFFER.into()));
        }
        let capture = capture_number(&self.stream)?;
        if capture.is_none() {
            return Err(DqnError::Config(
                "a batch is drawn anew only inside of a capture; elsewhere `sample` gives a new one"
                    .into(),
            ));
        }
        let mut shared = lock(&self.shared);
        self.draw(
            &mut shared,
            capture,
            (set, batch.len()),
            phases.map_or(Stamps::None, Stamps::Graph),
        )
    }

    /// Whether the batch was drawn from this buffer, and since it was last restored.
    pub fn drew(&self, batch: &GpuBatchPtrs) -> bool {
        batch.drawn_by == self.identity
    }

    fn sample_with(
        &self,
        batch_size: usize,
        phases: Option<&PhaseTimer>,
    ) -> Result<GpuBatchPtrs, DqnError> {
        self.check_sample(batch_size)?;
        self.stream.context().bind_to_thread()?;
        let capture = capture_number(&self.stream)?;
        let mut shared = lock(&self.shared);
        let set = shared.pool.free_set(batch_size, capture.is_some())?;
        self.draw(
            &mut shared,
            capture,
            (&set, batch_size),
            phases.map_or(Stamps::None, Stamps::Timer),
        )?;
        if capture.is_none() {
            set.ready.record(&self.stream)?;
        }
        Ok(GpuBatchPtrs {
            set: Some(set),
            len: batch_size,
            drawn_by: self.identity,
        })
    }

    /// Scan, draw and gather, the borders of both phases stamped.
    fn draw(
        &self,
        shared: &mut Shared,
        capture: Option<u64>,
        (set, batch_size): (&BatchSet, usize),
        stamps: Stamps<'_>,
    ) -> Result<(), DqnError> {
        stamps.start(Phase::PerScan, &self.stream);
        self.scan(shared, capture)?;
        stamps.end(Phase::PerScan, &self.stream);

        stamps.start(Phase::PerSample, &self.stream);
        sample_into(
            &self.kernels,
            &self.stream,
            &self.memory,
            set,
            batch_size,
            self.options.n_steps,
            self.options.gamma,
        )?;
        stamps.end(Phase::PerSample, &self.stream);
        Ok(())
    }

    /// Whether [`sample`](Self::sample) would be refused, and why. Nothing is enqueued.
    ///
    /// # Errors
    /// [`DqnError::Config`] for a batch size that cannot be, [`DqnError::NotEnoughData`].
    pub fn check_sample(&self, batch_size: usize) -> Result<(), DqnError> {
        if batch_size == 0 || batch_size > self.options.max_batch {
            return Err(DqnError::Config(format!(
                "`batch_size` is {batch_size}; it must be from 1 to `ReplayOptions::max_batch`, {}",
                self.options.max_batch
            )));
        }
        let (have, need) = (self.len(), self.needed(batch_size));
        if have < need {
            return Err(DqnError::NotEnoughData { have, need });
        }
        Ok(())
    }

    fn needed(&self, batch_size: usize) -> usize {
        self.options.min_size.unwrap_or(batch_size).max(1)
    }

    /// Brings all sums up to date, and the total.
    fn scan_whole(&self, shared: &mut Shared) -> Result<(), DqnError> {
        self.scan(shared, None)?;
        self.kernels.total(&self.stream, &self.memory)
    }

    /// Brings all sums up to date that a draw needs, which finds the total by itself.
    fn scan(&self, shared: &mut Shared, capture: Option<u64>) -> Result<(), DqnError> {
        self.settle(shared, capture)?;
        self.kernels.prefix_scan(&self.stream, &self.memory)?;
        shared.pending.scanned_in = capture;
        Ok(())
    }

    /// Brings the sums of touched tiles up to date and clears the marks of the last update.
    fn settle(&self, shared: &mut Shared, capture: Option<u64>) -> Result<(), DqnError> {
        let pending = &mut shared.pending;
        // What a replayed graph leaves behind the host cannot see, so the list's own length decides there.
        let entries = if capture.is_some() || pending.in_a_graph {
            shared.pool.largest()
        } else {
            pending.entries
        };
        self.kernels
            .touched_tiles(&self.stream, &self.memory, entries)?;
        if capture.is_none() {
            pending.entries = 0;
        }
        Ok(())
    }

    /// Gives the transitions of a batch new priorities, `(|td| + eps)^alpha`.
    ///
    /// Enqueues and returns. The buffer's stream waits for the stream of `td_errors`, and that one for the read, so the slice
    /// may be written again at once. Rows whose slot was pushed over since the draw are passed over and counted, as are
    /// NaN and infinite TD errors (see [`BadTdError`]). A transition that is in the batch several times gets the
    /// largest of its new priorities.
    ///
    /// # Errors
    /// [`DqnError::EmptyBatch`]; [`DqnError::Config`] where the batch is of another buffer or `td_errors` too short; or what
    /// the driver refused.
    pub fn update_priorities_gpu(
        &self,
        batch: &GpuBatchPtrs,
        td_errors: &CudaSlice<f32>,
    ) -> Result<(), DqnError> {
        let set = batch.set()?;
        if !self.drew(batch) {
            return Err(DqnError::Config(OTHER_BUFFER.into()));
        }
        if td_errors.len() < batch.len() {
            return Err(DqnError::Config(format!(
                "`td_errors` holds {} values, the batch has {} rows",
                td_errors.len(),
                batch.len()
            )));
        }
        self.stream.context().bind_to_thread()?;
        let mut shared = lock(&self.shared);
        let other = td_errors.stream();
        let crosses = other.cu_stream() != self.stream.cu_stream();
        let capture = capture_number(&self.stream)?;
        if crosses {
            if capture.is_some() || capture_number(other)?.is_some() {
                return Err(DqnError::Config(
                    "inside a capture `td_errors` must be of the buffer's own stream".into(),
                ));
            }
            shared.crossing.record(other)?;
            self.stream.wait(&shared.crossing)?;
        }
        // Marks of an earlier update would be taken for this one's: its priorities could then only rise.
        let pending = shared.pending;
        let scanned_here = capture.is_some() && pending.scanned_in == capture;
        let clean = pending.entries == 0 && !pending.in_a_graph;
        if !(scanned_here || (capture.is_none() && clean)) {
            self.settle(&mut shared, capture)?;
        }
        {
            let (td_errors, _reading) = td_errors.device_ptr(&self.stream);
            crate::launch::update_from(
                &self.kernels,
                &self.stream,
                &self.memory,
                set,
                batch.len(),
                td_errors,
                options::update_rule(&self.config, &self.options),
            )?;
        }
        shared.pending.scanned_in = None;
        match capture {
            Some(_) => shared.pending.in_a_graph = true,
            None => shared.pending.entries = batch.len(),
        }
        if crosses {
            shared.crossing.record(&self.stream)?;
            other.wait(&shared.crossing)?;
        }
        Ok(())
    }

    /// Filled slots.
    pub fn len(&self) -> usize {
        (self.written - self.emptied_at).min(self.config.capacity as u64) as usize
    }

    /// Whether no slot is filled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots.
    pub fn capacity(&self) -> usize {
        self.config.capacity
    }

    /// Whether [`sample`](Self::sample) would find enough transitions.
    pub fn can_sample(&self, batch_size: usize) -> bool {
        self.check_sample(batch_size).is_ok()
    }

    /// Sets the exponent of the importance weights for the batches drawn from now on, those of captured graphs included.
    ///
    /// A value that is not finite, or below 0, is refused with a warning in the log.
    pub fn set_beta(&mut self, beta: f32) {
        if !(beta >= 0.0 && beta.is_finite()) {
            tracing::warn!(
                beta,
                kept = self.beta,
                "`beta` must be finite and at least 0"
            );
            return;
        }
        self.beta = beta;
        let set = self.kernels.set_beta(&self.stream, &self.memory, beta);
        self.tell_later(set);
    }

    /// Exponent of the importance weights.
    pub fn beta(&self) -> f32 {
        self.beta
    }

    /// Forgets all transitions and their priorities. Batches that are held stay readable; their updates are stale.
    pub fn clear(&mut self) {
        let capacity = self.config.capacity as u64;
        // The next multiple of the capacity behind which every earlier draw is stale.
        self.written = (self.written + capacity).next_multiple_of(capacity);
        self.emptied_at = self.written;
        let reset = self.kernels.reset(&self.stream, &self.memory, self.written);
        self.tell_later(reset);
        lock(&self.shared).pending.entries = 0;
    }

    /// Keeps an error of a call that returns nothing for the next one that does.
    fn tell_later(&self, result: Result<(), DqnError>) {
        match result {
            Err(DqnError::Driver(error)) => {
                self.stream.context().record_err(Err::<(), _>(error));
            }
            Err(error) => tracing::error!("replay buffer: {error}"),
            Ok(()) => {}
        }
    }

    /// The stream on which the buffer works.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The settings that it was built with.
    pub fn config(&self) -> &GpuReplayBufferConfig {
        &self.config
    }

    /// The options that it was built with.
    pub fn options(&self) -> &ReplayOptions {
        &self.options
    }

    /// Waits for the stream, and tells what went wrong on the device since the last such call.
    ///
    /// # Errors
    /// [`DqnError::ZeroTotalPriority`] or [`DqnError::NonFiniteTotalPriority`] where a batch could not be drawn, once; or what
    /// the driver refused.
    pub fn synchronize(&self) -> Result<(), DqnError> {
        self.take_state().map(|_| ())
    }

    /// Counters and sums. Brings the sums up to date, and waits for the stream.
    ///
    /// # Errors
    /// Those of [`synchronize`](Self::synchronize).
    pub fn stats(&self) -> Result<ReplayStats, DqnError> {
        self.refuse_capture("stats")?;
        {
            let mut shared = lock(&self.shared);
            self.scan_whole(&mut shared)?;
        }
        let state = self.take_state()?;
        Ok(ReplayStats {
            len: state.size as usize,
            total_priority: state.total,
            max_priority: f32::from_bits(state.max_priority),
            beta: state.beta,
            draws: state.draws,
            bad_td_errors: state.bad_td_errors,
            stale_rows: state.stale_rows,
            bad_env_ids: state.bad_env_ids,
        })
    }

    /// Priorities of the filled slots, `[len]`, after the power. Waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn priorities_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.refuse_capture("priorities_to_host")?;
        let mut shared = lock(&self.shared);
        self.settle(&mut shared, None)?;
        let mut priorities = vec![0.0; self.len()];
        self.memory.priority.read(&mut priorities)?;
        Ok(priorities)
    }

    /// Recomputes all sums from the priorities. Never needed in between: the kept sums are these, to the bit.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn rebuild_sums(&self) -> Result<(), DqnError> {
        self.refuse_capture("rebuild_sums")?;
        let mut shared = lock(&self.shared);
        self.settle(&mut shared, None)?;
        self.kernels.all_tiles(&self.stream, &self.memory)?;
        self.scan_whole(&mut shared)
    }

    /// Sums of tiles of 128 slots, groups of 64 tiles, and the inclusive sums of super-groups of 64 groups, as they are kept.
    /// Brings them up to date, and waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn sums_to_host(&self) -> Result<[Vec<f64>; 3], DqnError> {
        self.refuse_capture("sums_to_host")?;
        let mut shared = lock(&self.shared);
        self.scan_whole(&mut shared)?;
        Ok([
            self.memory.tile_sum.to_vec()?,
            self.memory.group_sum.to_vec()?,
            self.memory.super_end.to_vec()?,
        ])
    }

    fn take_state(&self) -> Result<PerState, DqnError> {
        self.refuse_capture("synchronize")?;
        let _launches = lock(&self.shared);
        let state = self.kernels.take_state(&self.stream, &self.memory)?;
        check_status(state.status)?;
        Ok(state)
    }

    fn refuse_capture(&self, call: &'static str) -> Result<(), DqnError> {
        self.stream.context().bind_to_thread()?;
        if capture_number(&self.stream)?.is_some() {
            return Err(DqnError::Capturing { call });
        }
        Ok(())
    }

    pub(crate) fn memory(&self) -> &PerMemory {
        &self.memory
    }
}

fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_crosses_threads() {
        fn shared<T: std::fmt::Debug + Send + Sync + 'static>() {}
        shared::<GpuReplayBuffer>();
        shared::<ReplayStats>();
    }
}
