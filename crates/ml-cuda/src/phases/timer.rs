//! Records the events, and reads them when the GPU has passed; the part that talks to the driver.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, result, sys};

use super::Phase;
use super::in_graph::{GraphPhases, Nodes};
use super::ledger::Ledger;
use super::report::{BatchSpans, PhaseReport, Samples, Span, stride_for};
use crate::error::driver_error_name;
use crate::graph::{is_capturing, make_current};

/// How a timer is built; [`PhaseTimer::new`] takes the defaults.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PhaseTimerOptions {
    /// Sets of 12 events, one for each batch that can be in flight. 256: more than the 178 batches
    /// of an epoch that the host may enqueue before the GPU has passed the first.
    pub sets: usize,
    /// Further pairs, for phases that come again within a batch.
    pub spare_pairs: usize,
    /// Times every k-th batch. `None`: chosen so that the events cost less than 1 % of the step.
    pub stride: Option<u32>,
    /// What a recorded pair costs the GPU, for that choice. Measured on an H200: 3.5 µs.
    pub pair_cost_ms: f64,
    /// Timed batches that a report keeps for its timeline.
    pub timeline: usize,
}

impl Default for PhaseTimerOptions {
    fn default() -> Self {
        Self {
            sets: 256,
            spare_pairs: 256,
            stride: None,
            pair_cost_ms: 0.004,
            timeline: 64,
        }
    }
}

/// Event pairs around the phases of each batch; always on, never waiting.
///
/// All events are allocated when the timer is built. Recording is enqueued on the stream of the
/// kernels that are bracketed, and a batch is read when the driver says that the GPU has passed it,
/// or at [`finish_epoch`](Self::finish_epoch). Nothing here synchronizes, and nothing fails: a driver
/// error is kept and told by the report.
///
/// A batch begins at the first `start` of a phase that stands earlier in the order of [`Phase`] than
/// the one that ended last. A phase that comes again within a batch adds up. A start without an end,
/// as after an early return, is dropped and counted, never mis-timed.
///
/// Events cost the GPU 3 to 4 µs a pair (measured), which is nothing in a step of 30 ms and a tenth
/// of one of 250 µs. So every k-th batch alone is timed where steps are short; the line then says so.
///
/// On a stream that is being captured nothing is recorded, as a plain record holds no time there:
/// bracket the launch of the graph instead, or take [`graph_phases`](Self::graph_phases).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ml_cuda::{Phase, PhaseTimer};
/// let (_context, stream) = ml_cuda::open(0)?;
/// let phases = PhaseTimer::new(&stream)?;
/// for _batch in 0..178 {
///     phases.start(Phase::FwdBwd, &stream);
///     // ... enqueue kernels on `stream` ...
///     phases.end(Phase::FwdBwd, &stream);
///     let _update = phases.scope(Phase::Adam, &stream);
///     // ... and more ...
/// }
/// stream.synchronize()?;
/// let report = phases.finish_epoch();
/// println!("{}", report.verdict());
/// # Ok(()) }
/// ```
pub struct PhaseTimer(Arc<Inner>);

pub(super) struct Inner {
    /// Two for each pair: `2 pair` starts it, `2 pair + 1` ends it.
    events: Vec<CudaEvent>,
    /// Recorded before the first pair of an epoch; the timeline counts from it.
    origin: CudaEvent,
    options: PhaseTimerOptions,
    state: Mutex<State>,
    /// Brackets inside of graphs, which an epoch's end reads.
    graphs: Mutex<Vec<Weak<Nodes>>>,
}

pub(super) struct State {
    pub ledger: Ledger,
    samples: Samples,
    timeline: VecDeque<BatchSpans>,
    /// Totals of the newest timed batches, for the stride.
    recent_ms: VecDeque<f64>,
    origin_recorded: bool,
    pub error: Option<DriverError>,
}

impl PhaseTimer {
    /// Allocates the events in the stream's context.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn new(stream: &CudaStream) -> Result<Self, DriverError> {
        Self::with_options(stream, PhaseTimerOptions::default())
    }

    /// [`new`](Self::new) with options.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn with_options(
        stream: &CudaStream,
        options: PhaseTimerOptions,
    ) -> Result<Self, DriverError> {
        let context = stream.context();
        // cudarc's default would be an event without a time.
        let event = || context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT));
        let sets = options.sets.max(1);
        let pairs = sets * Phase::ALL.len() + options.spare_pairs;
        let events = (0..2 * pairs).map(|_| event()).collect::<Result<_, _>>()?;
        let mut ledger = Ledger::new(sets, options.spare_pairs);
        ledger.stride = options.stride.unwrap_or(1).max(1);
        Ok(Self(Arc::new(Inner {
            events,
            origin: event()?,
            state: Mutex::new(State {
                ledger,
                samples: Samples::default(),
                timeline: VecDeque::with_capacity(options.timeline),
                recent_ms: VecDeque::with_capacity(RECENT),
                origin_recorded: false,
                error: None,
            }),
            graphs: Mutex::default(),
            options,
        })))
    }

    /// Begins a phase at this point of the stream.
    ///
    /// Where the phase is open already, as after an early return, the open one is dropped and counted.
    pub fn start(&self, phase: Phase, stream: &CudaStream) {
        self.0.start(phase, stream);
    }

    /// Ends a phase at this point of the stream. Without a start it does nothing, and is counted.
    pub fn end(&self, phase: Phase, stream: &CudaStream) {
        self.0.end(phase, stream);
    }

    /// Begins a phase that ends when the guard is dropped. The guard borrows nothing.
    pub fn scope(&self, phase: Phase, stream: &Arc<CudaStream>) -> PhaseScope {
        self.start(phase, stream);
        PhaseScope {
            timer: Arc::clone(&self.0),
            phase,
            stream: Arc::clone(stream),
        }
    }

    /// Brackets that are captured into a graph, of which the batches count here.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn graph_phases(&self, stream: &CudaStream) -> Result<GraphPhases, DriverError> {
        GraphPhases::new(&self.0, stream)
    }

    /// Reads what the GPU has passed, logs the epoch's line at level `info`, and begins a new epoch.
    ///
    /// Call it after the stream was synchronized. It does not wait: a batch that the GPU has not
    /// passed counts as not timed.
    pub fn finish_epoch(&self) -> PhaseReport {
        let report = self.0.finish_epoch();
        if report.batches > 0 {
            tracing::info!("{}", report.line());
            tracing::debug!("GPU phase timing verdict: {}", report.verdict());
        }
        if report.not_timed > 0 {
            tracing::debug!(
                "GPU phase timing: {} batches could not be timed",
                report.not_timed
            );
        }
        if let Some(error) = &report.error {
            tracing::warn!("GPU phase timing is incomplete: {error}");
        }
        report
    }
}

impl fmt::Debug for PhaseTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("PhaseTimer")
            .field("events", &self.0.events.len())
            .field("stride", &state.ledger.stride)
            .field("counts", &state.ledger.counts)
            .finish_non_exhaustive()
    }
}

/// Ends its phase when it is dropped; from [`PhaseTimer::scope`].
#[must_use = "the phase ends when this is dropped"]
pub struct PhaseScope {
    timer: Arc<Inner>,
    phase: Phase,
    stream: Arc<CudaStream>,
}

impl Drop for PhaseScope {
    fn drop(&mut self) {
        self.timer.end(self.phase, &self.stream);
    }
}

impl fmt::Debug for PhaseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PhaseScope").field(&self.phase).finish()
    }
}

/// Batches whose mean total decides about the stride.
const RECENT: usize = 8;

impl Inner {
    fn start(&self, phase: Phase, stream: &CudaStream) {
        let mut state = self.lock();
        if !state.recordable(stream) {
            return;
        }
        if state.ledger.begins_batch(phase) {
            self.harvest(&mut state);
        }
        let pair = state.ledger.start(phase, Instant::now());
        let Some(pair) = pair else {
            return;
        };
        state.record_origin(self, stream);
        state.record(&self.events[2 * pair], stream);
    }

    fn end(&self, phase: Phase, stream: &CudaStream) {
        let mut state = self.lock();
        if !state.recordable(stream) {
            return;
        }
        if let Some(pair) = state.ledger.end(phase) {
            state.record(&self.events[2 * pair + 1], stream);
        }
    }

    fn finish_epoch(&self) -> PhaseReport {
        let mut state = self.lock();
        state.ledger.close();
        self.harvest(&mut state);
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.retain(|nodes| nodes.strong_count() > 0);
        for nodes in graphs.iter().filter_map(Weak::upgrade) {
            self.close_nodes(&mut state, &nodes);
        }
        drop(graphs);
        let began = state.ledger.epoch_began;
        let stride = state.ledger.stride;
        let counts = state.ledger.reset();
        let samples = std::mem::take(&mut state.samples);
        state.origin_recorded = false;
        PhaseReport {
            batches: counts.batches,
            timed: samples.count(),
            not_timed: counts.not_timed,
            dropped: counts.dropped,
            stride,
            phases: std::array::from_fn(|column| samples.stats(column)),
            total: samples.stats(Samples::TOTAL),
            wall_ms_per_batch: began.map_or(0.0, |began| {
                began.elapsed().as_secs_f64() * 1e3 / counts.batches.max(1) as f64
            }),
            timeline: state.timeline.drain(..).collect(),
            error: state.error.take().map(|error| driver_error_name(&error)),
        }
    }

    /// Reads finished batches, oldest first, up to the first that the GPU has not passed.
    fn harvest(&self, state: &mut State) {
        while let Some(batch) = state.ledger.oldest_done() {
            let number = batch.number;
            let complete = batch.brackets.iter().filter(|bracket| bracket.complete);
            // The newest first: it is the one that the GPU has not passed, if any.
            for bracket in complete.clone().rev() {
                match self.passed(&self.events[2 * bracket.pair + 1]) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        // As the context is broken, no later batch can be read either.
                        state.error.get_or_insert(error);
                        state.ledger.retire_oldest(false);
                        return;
                    }
                }
            }
            let mut phases_ms = [0.0; Phase::ALL.len()];
            let mut spans = Vec::with_capacity(Phase::ALL.len());
            let mut read = Ok(());
            for bracket in complete {
                let pair = 2 * bracket.pair;
                match self.span(bracket.phase, &self.events[pair], &self.events[pair + 1]) {
                    Ok(span) => {
                        phases_ms[bracket.phase as usize] += span.duration_ms;
                        spans.push(span);
                    }
                    Err(error) => read = Err(error),
                }
            }
            state.ledger.retire_oldest(read.is_ok());
            match read {
                Ok(()) => self.keep(
                    state,
                    BatchSpans {
                        batch: number,
                        spans,
                    },
                    &phases_ms,
                ),
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
        }
    }

    pub(super) fn keep(&self, state: &mut State, spans: BatchSpans, phases_ms: &[f64; 6]) {
        state.samples.add(phases_ms);
        let brackets = spans.spans.len();
        if self.options.timeline > 0 {
            if state.timeline.len() == self.options.timeline {
                state.timeline.pop_front();
            }
            state.timeline.push_back(spans);
        }
        if state.recent_ms.len() == RECENT {
            state.recent_ms.pop_front();
        }
        state.recent_ms.push_back(phases_ms.iter().sum());
        if self.options.stride.is_none() {
            let busy_ms = state.recent_ms.iter().sum::<f64>() / state.recent_ms.len() as f64;
            state.ledger.stride = stride_for(brackets as f64 * self.options.pair_cost_ms, busy_ms);
        }
    }

    pub(super) fn passed(&self, event: &CudaEvent) -> Result<bool, DriverError> {
        // SAFETY: the event is alive.
        match unsafe { result::event::query(event.cu_event()) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Both events were passed by the GPU. Not through cudarc's event, which synchronizes.
    pub(super) fn span(
        &self,
        phase: Phase,
        start: &CudaEvent,
        end: &CudaEvent,
    ) -> Result<Span, DriverError> {
        // SAFETY: the events are alive and were made with timing on.
        unsafe {
            Ok(Span {
                phase,
                start_ms: f64::from(result::event::elapsed(
                    self.origin.cu_event(),
                    start.cu_event(),
                )?),
                duration_ms: f64::from(result::event::elapsed(start.cu_event(), end.cu_event())?),
            })
        }
    }

    /// Has an epoch's end read these.
    pub(super) fn watch(&self, nodes: &Arc<Nodes>) {
        let mut graphs = self.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        graphs.push(Arc::downgrade(nodes));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes the stream's context current. False on an error, which is kept, and in a capture.
    fn recordable(&mut self, stream: &CudaStream) -> bool {
        match make_current(stream) {
            Ok(()) => {}
            Err(error) => {
                self.error.get_or_insert(error);
                return false;
            }
        }
        // The default stream cannot be captured, and may not be asked while others are.
        stream.cu_stream().is_null() || matches!(is_capturing(stream), Ok(false))
    }

    /// The event that the timeline counts from, once an epoch.
    pub fn record_origin(&mut self, timer: &Inner, stream: &CudaStream) {
        if !self.origin_recorded {
            self.origin_recorded = true;
            self.record(&timer.origin, stream);
        }
    }

    fn record(&mut self, event: &CudaEvent, stream: &CudaStream) {
        // Not through cudarc's event, which would take errors that others parked in the context.
        // SAFETY: event and stream are alive; where their contexts differ, the driver says so.
        if let Err(error) = unsafe { result::event::record(event.cu_event(), stream.cu_stream()) } {
            self.error.get_or_insert(error);
        }
    }
}
