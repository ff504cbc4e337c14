//! Prioritized replay on the device: priorities, prefix sums and rows never leave it.
//!
//! This is what `ReplayBufferType::GpuPrioritized` holds. The kernels are in `kernels/per_kernels.cu`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};

use crate::error::DqnError;
use crate::experience::Experience;

const KERNELS: &str = include_str!("../kernels/per_kernels.cu");

#[derive(Debug, Clone)]
pub struct GpuReplayBufferConfig {
    pub capacity: usize,
    pub state_dim: usize,
    pub alpha: f32,
    pub beta: f32,
}

impl Default for GpuReplayBufferConfig {
    fn default() -> Self {
        Self { capacity: 1 << 16, state_dim: 80, alpha: 0.6, beta: 0.4 }
    }
}

/// Device addresses of the rows that were drawn last.
///
/// The next draw of the same buffer writes over them.
#[derive(Debug, Clone)]
pub struct GpuBatchPtrs {
    states: u64,
    next_states: u64,
    actions: u64,
    rewards: u64,
    dones: u64,
    weights: u64,
    indices: u64,
    len: usize,
    state_dim: usize,
}

impl GpuBatchPtrs {
    /// `[len][state_dim]` f32.
    pub fn states(&self) -> u64 {
        self.states
    }

    /// `[len][state_dim]` f32.
    pub fn next_states(&self) -> u64 {
        self.next_states
    }

    /// `[len]` u32.
    pub fn actions(&self) -> u64 {
        self.actions
    }

    /// `[len]` f32.
    pub fn rewards(&self) -> u64 {
        self.rewards
    }

    /// `[len]` f32: one where the episode ended.
    pub fn dones(&self) -> u64 {
        self.dones
    }

    /// `[len]` f32, the largest is one.
    pub fn weights(&self) -> u64 {
        self.weights
    }

    /// `[len]` i64.
    pub fn indices(&self) -> u64 {
        self.indices
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn state_dim(&self) -> usize {
        self.state_dim
    }
}

/// One row per transition, in device memory.
struct Rows {
    states: CudaSlice<f32>,
    next_states: CudaSlice<f32>,
    actions: CudaSlice<u32>,
    rewards: CudaSlice<f32>,
    dones: CudaSlice<f32>,
}

impl Rows {
    fn new(stream: &Arc<CudaStream>, n_rows: usize, state_dim: usize) -> Result<Self, DriverError> {
        Ok(Self {
            states: stream.alloc_zeros(n_rows * state_dim)?,
            next_states: stream.alloc_zeros(n_rows * state_dim)?,
            actions: stream.alloc_zeros(n_rows)?,
            rewards: stream.alloc_zeros(n_rows)?,
            dones: stream.alloc_zeros(n_rows)?,
        })
    }
}

/// What a draw is written to; made again when a larger batch is asked for.
struct Drawn {
    rows: Rows,
    weights: CudaSlice<f32>,
    indices: CudaSlice<i64>,
    n_rows: usize,
}

struct Kernels {
    prefix_scan: CudaFunction,
    sample: CudaFunction,
    gather_f32: CudaFunction,
    gather_u32: CudaFunction,
    is_weights: CudaFunction,
    update: CudaFunction,
}

impl Kernels {
    fn load(stream: &CudaStream) -> Result<Self, DqnError> {
        let ptx = cudarc::nvrtc::compile_ptx(KERNELS).map_err(|err| DqnError::Kernel(err.to_string()))?;
        let module = stream.context().load_module(ptx)?;
        Ok(Self {
            prefix_scan: module.load_function("per_prefix_scan")?,
            sample: module.load_function("per_sample")?,
            gather_f32: module.load_function("gather_f32")?,
            gather_u32: module.load_function("gather_u32")?,
            is_weights: module.load_function("is_weights")?,
            update: module.load_function("per_update_pa")?,
        })
    }
}

pub struct GpuReplayBuffer {
    config: GpuReplayBufferConfig,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    rows: Rows,
    priorities: CudaSlice<f32>,
    prefix: Mutex<CudaSlice<f64>>,
    drawn: Mutex<Option<Drawn>>,
    n_draws: AtomicU64,
    len: usize,
    next: usize,
    beta: f32,
}

impl GpuReplayBuffer {
    pub fn new(config: GpuReplayBufferConfig, stream: Arc<CudaStream>) -> Result<Self, DqnError> {
        if config.capacity == 0 || config.state_dim == 0 {
            return Err(DqnError::Config("capacity and state_dim must be positive".into()));
        }
        if u32::try_from(config.capacity).is_err() {
            return Err(DqnError::Config(format!("capacity {} does not fit in 32 bits", config.capacity)));
        }
        Ok(Self {
            kernels: Kernels::load(&stream)?,
            rows: Rows::new(&stream, config.capacity, config.state_dim)?,
            priorities: stream.alloc_zeros(config.capacity)?,
            prefix: Mutex::new(stream.alloc_zeros(config.capacity)?),
            drawn: Mutex::new(None),
            n_draws: AtomicU64::new(0),
            len: 0,
            next: 0,
            beta: config.beta,
            config,
            stream,
        })
    }

    pub fn push(&mut self, experience: &Experience) -> Result<(), DqnError> {
        let (row, width) = (self.next, self.config.state_dim);
        if experience.state.len() != width || experience.next_state.len() != width {
            return Err(DqnError::Config(format!("a state has {width} values here")));
        }
        let values = row * width..(row + 1) * width;
        self.put(&experience.state, |rows| &mut rows.states, values.clone())?;
        self.put(&experience.next_state, |rows| &mut rows.next_states, values)?;
        self.put(&[experience.action], |rows| &mut rows.actions, row..row + 1)?;
        self.put(&[experience.reward], |rows| &mut rows.rewards, row..row + 1)?;
        self.put(&[f32::from(u8::from(experience.done))], |rows| &mut rows.dones, row..row + 1)?;
        // Errors are clipped to one, so one is the largest priority that there can be.
        self.stream.memcpy_htod(&[1.0], &mut self.priorities.slice_mut(row..row + 1))?;

        self.next = (row + 1) % self.config.capacity;
        self.len = (self.len + 1).min(self.config.capacity);
        Ok(())
    }

    fn put<T: DeviceRepr>(
        &mut self,
        values: &[T],
        column: impl Fn(&mut Rows) -> &mut CudaSlice<T>,
        at: std::ops::Range<usize>,
    ) -> Result<(), DriverError> {
        self.stream.memcpy_htod(values, &mut column(&mut self.rows).slice_mut(at))
    }

    pub fn push_batch(&mut self, experiences: &[Experience]) -> Result<(), DqnError> {
        experiences.iter().try_for_each(|experience| self.push(experience))
    }

    pub fn sample(&self, batch_size: usize) -> Result<GpuBatchPtrs, DqnError> {
        if !self.can_sample(batch_size) {
            return Err(DqnError::NotEnoughData { have: self.len, need: batch_size });
        }
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = match &mut *drawn {
            Some(fitting) if fitting.n_rows == batch_size => fitting,
            other => other.insert(Drawn {
                rows: Rows::new(&self.stream, batch_size, self.config.state_dim)?,
                weights: self.stream.alloc_zeros(batch_size)?,
                indices: self.stream.alloc_zeros(batch_size)?,
                n_rows: batch_size,
            }),
        };
        let mut prefix = self.prefix.lock().unwrap_or_else(PoisonError::into_inner);
        self.draw(drawn, &mut prefix)?;

        let address = |(address, _guard)| address;
        Ok(GpuBatchPtrs {
            states: address(drawn.rows.states.device_ptr(&self.stream)),
            next_states: address(drawn.rows.next_states.device_ptr(&self.stream)),
            actions: address(drawn.rows.actions.device_ptr(&self.stream)),
            rewards: address(drawn.rows.rewards.device_ptr(&self.stream)),
            dones: address(drawn.rows.dones.device_ptr(&self.stream)),
            weights: address(drawn.weights.device_ptr(&self.stream)),
            indices: address(drawn.indices.device_ptr(&self.stream)),
            len: batch_size,
            state_dim: self.config.state_dim,
        })
    }

    fn draw(&self, drawn: &mut Drawn, prefix: &mut CudaSlice<f64>) -> Result<(), DriverError> {
        let (n, batch, width) = (self.len as u32, drawn.n_rows as u32, self.config.state_dim as u32);
        let seed = self.n_draws.fetch_add(1, Ordering::Relaxed);
        let (one, beta) = (1u32, self.beta);
        let block = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1024, 1, 1), shared_mem_bytes: 0 };
        let per_row = LaunchConfig::for_num_elems(batch);
        let (k, stream) = (&self.kernels, &self.stream);

        // SAFETY: order and types match per_prefix_scan; `n` is at most the length of both.
        unsafe {
            stream
                .launch_builder(&k.prefix_scan)
                .arg(&self.priorities)
                .arg(&mut *prefix)
                .arg(&n)
                .launch(block)?
        };
        let mut sample = stream.launch_builder(&k.sample);
        sample.arg(&*prefix).arg(&mut drawn.indices).arg(&seed).arg(&n).arg(&batch);
        // SAFETY: order and types match per_sample; it writes `batch` indices below `n`.
        unsafe { sample.launch(per_row)? };

        let columns = [
            (&self.rows.states, &mut drawn.rows.states, &width),
            (&self.rows.next_states, &mut drawn.rows.next_states, &width),
            (&self.rows.rewards, &mut drawn.rows.rewards, &one),
            (&self.rows.dones, &mut drawn.rows.dones, &one),
        ];
        for (from, to, width) in columns {
            let mut gather = stream.launch_builder(&k.gather_f32);
            gather.arg(from).arg(&drawn.indices).arg(to).arg(&batch).arg(width);
            // SAFETY: order and types match gather_f32; `to` has `batch * width` values, indices are below `n`.
            unsafe { gather.launch(LaunchConfig::for_num_elems(batch * width))? };
        }
        let mut gather = stream.launch_builder(&k.gather_u32);
        gather.arg(&self.rows.actions).arg(&drawn.indices).arg(&mut drawn.rows.actions).arg(&batch);
        // SAFETY: order and types match gather_u32; as above.
        unsafe { gather.launch(per_row)? };

        let mut weigh = stream.launch_builder(&k.is_weights);
        weigh.arg(&self.priorities).arg(&*prefix).arg(&drawn.indices).arg(&mut drawn.weights);
        weigh.arg(&beta).arg(&n).arg(&batch);
        // SAFETY: order and types match is_weights; it writes `batch` weights.
        unsafe { weigh.launch(block)? };
        Ok(())
    }

    /// `td_errors[row]` becomes the priority of the transition that row `row` of `batch` was drawn from.
    pub fn update_priorities_gpu(
        &self,
        batch: &GpuBatchPtrs,
        td_errors: &CudaSlice<f32>,
    ) -> Result<(), DqnError> {
        if td_errors.len() < batch.len() {
            let (n_errors, n_rows) = (td_errors.len(), batch.len());
            return Err(DqnError::Config(format!("{n_errors} TD errors for {n_rows} rows")));
        }
        let n_rows = batch.len() as u32;
        let mut update = self.stream.launch_builder(&self.kernels.update);
        update.arg(&self.priorities).arg(&batch.indices).arg(td_errors).arg(&self.config.alpha).arg(&n_rows);
        // SAFETY: order and types match per_update_pa; indices came from `draw`, and only this stream writes
        // priorities.
        unsafe { update.launch(LaunchConfig::for_num_elems(n_rows))? };
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn capacity(&self) -> usize {
        self.config.capacity
    }

    pub fn can_sample(&self, batch_size: usize) -> bool {
        batch_size > 0 && batch_size <= self.len
    }

    pub fn set_beta(&mut self, beta: f32) {
        self.beta = beta;
    }

    pub fn clear(&mut self) {
        self.len = 0;
        self.next = 0;
    }
}
