//! One whole training step on the device: copy the batch, forward, backward, Adam, new priorities.
//!
//! Everything is enqueued on one stream and nothing waits for the host, but for `read_back`
//! every few steps.
//! The batch comes as a [`GpuBatchPtrs`]; only its `gpu_batch` is looked at.

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, DriverError, LaunchConfig, PushKernelArg, result,
};
use ml_dqn::dqn::{DqnAgent, DqnConfig};
use ml_dqn::gpu_replay_buffer::GpuBatchPtrs;
use ml_dqn::{Phase, PhaseTimer};

use super::kernels::StepKernels;
pub use crate::error::TrainError;

/// Loss and gradient are read back this seldom: it makes the host wait.
const READ_BACK_EVERY: u64 = 64;

/// The newest figures that were read back.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepOutput {
    pub loss: f32,
    pub grad_norm: f32,
}

/// How a step is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepMode {
    /// Forward and backward as one kernel.
    #[default]
    Mega,
    /// One after the other, to look in between.
    Split,
}

/// Copies of what was drawn: the next draw may write over the batch while the step still runs.
struct Staged {
    states: CudaSlice<f32>,
    next_states: CudaSlice<f32>,
    actions: CudaSlice<u32>,
    rewards: CudaSlice<f32>,
    dones: CudaSlice<f32>,
    weights: CudaSlice<f32>,
    n_rows: usize,
}

/// Everything that one training step touches.
pub struct FusedTrainingCtx {
    kernels: StepKernels,
    staged: Staged,

    // The network and its optimizer.
    params: CudaSlice<f32>,
    grads: CudaSlice<f32>,
    moments: [CudaSlice<f32>; 2],
    learning_rate: f32,
    gamma: f32,

    td_errors: CudaSlice<f32>,
    scalars: [CudaSlice<f32>; 2], // loss, squared norm of the gradient
    newest: StepOutput,

    mode: StepMode,
    state_dim: usize,
    num_actions: usize,
    step: u64,
    /// All of the above is used on this stream only.
    stream: Arc<CudaStream>,
    phases: PhaseTimer,
}

impl FusedTrainingCtx {
    pub fn new(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<Self, TrainError> {
        Self::with_mode(config, StepMode::default(), stream)
    }

    /// Like [`new`](Self::new), but launched as `mode` says.
    pub fn with_mode(
        config: &DqnConfig,
        mode: StepMode,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        let (n_rows, state_dim) = (config.batch_size, config.state_dim);
        let n_params = state_dim * config.num_actions;
        let zeros = |n: usize| stream.alloc_zeros::<f32>(n);
        let staged = Staged {
            states: zeros(n_rows * state_dim)?,
            next_states: zeros(n_rows * state_dim)?,
            actions: stream.alloc_zeros::<u32>(n_rows)?,
            rewards: zeros(n_rows)?,
            dones: zeros(n_rows)?,
            weights: zeros(n_rows)?,
            n_rows: 0,
        };

        Ok(Self {
            kernels: StepKernels::load(&stream)?,
            staged,
            params: zeros(n_params)?,
            grads: zeros(n_params)?,
            moments: [zeros(n_params)?, zeros(n_params)?],
            learning_rate: 1e-3,
            gamma: 0.99,
            td_errors: zeros(n_rows)?,
            scalars: [zeros(1)?, zeros(1)?],
            newest: StepOutput::default(),
            mode,
            state_dim,
            num_actions: config.num_actions,
            step: 0,
            phases: PhaseTimer::new(&stream)?,
            stream,
        })
    }

    /// One step over `batch`, which [`DqnAgent::sample`] drew from the memory of `agent`.
    pub fn run_full_step(
        &mut self,
        agent: &DqnAgent,
        batch: &GpuBatchPtrs,
    ) -> Result<StepOutput, TrainError> {
        if batch.len() > self.td_errors.len() {
            return Err(TrainError::BatchTooLarge { rows: batch.len(), room: self.td_errors.len() });
        }

        // 1. The rows, before anything else is drawn.
        self.phases.start(Phase::Upload, &self.stream);
        self.upload_batch_gpu(batch)?;
        self.phases.end(Phase::Upload, &self.stream);

        // 2. Loss and gradient.
        self.zero_accumulators()?;
        self.phases.start(Phase::FwdBwd, &self.stream);
        match self.mode {
            StepMode::Mega => self.replay_graph_mega()?,
            StepMode::Split => {
                self.replay_graph_forward()?;
                // A look at the errors belongs here.
                self.replay_graph_backward()?;
            }
        }
        self.phases.end(Phase::FwdBwd, &self.stream);

        // 3. Adam.
        self.step += 1;
        self.phases.start(Phase::Adam, &self.stream);
        self.replay_graph_adam()?;
        self.phases.end(Phase::Adam, &self.stream);

        // 4. What surprised us is drawn again sooner.
        self.phases.start(Phase::PerUpdate, agent.memory().stream());
        agent.memory().update_priorities_gpu(batch, &self.td_errors)?;
        self.phases.end(Phase::PerUpdate, agent.memory().stream());

        if self.step % READ_BACK_EVERY == 1 {
            self.read_back()?;
        }
        Ok(self.newest)
    }

    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub fn phases(&self) -> &PhaseTimer {
        &self.phases
    }

    /// How many steps were taken.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The weights of the linear Q function, `[num_actions][state_dim]`. Waits for the device.
    pub fn params_to_host(&self) -> Result<Vec<f32>, TrainError> {
        let params = self.stream.clone_dtoh(&self.params)?;
        self.stream.synchronize()?;
        Ok(params)
    }

    /// Waits for the step and fetches its figures.
    fn read_back(&mut self) -> Result<(), TrainError> {
        let [loss, norm2] = &self.scalars;
        let (loss, norm2) = (self.stream.clone_dtoh(loss)?, self.stream.clone_dtoh(norm2)?);
        self.stream.synchronize()?;
        self.newest = StepOutput { loss: loss[0], grad_norm: norm2[0].sqrt() };
        Ok(())
    }

    fn zero_accumulators(&mut self) -> Result<(), TrainError> {
        self.stream.memset_zeros(&mut self.grads)?;
        for scalar in &mut self.scalars {
            self.stream.memset_zeros(scalar)?;
        }
        Ok(())
    }

    /// Device to device.
    fn upload_batch_gpu(&mut self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        let (n_rows, staged, stream) = (batch.len(), &mut self.staged, &self.stream);
        copy_rows(stream, batch.states(), &mut staged.states, n_rows * self.state_dim)?;
        copy_rows(stream, batch.next_states(), &mut staged.next_states, n_rows * self.state_dim)?;
        copy_rows(stream, batch.actions(), &mut staged.actions, n_rows)?;
        copy_rows(stream, batch.rewards(), &mut staged.rewards, n_rows)?;
        copy_rows(stream, batch.dones(), &mut staged.dones, n_rows)?;
        copy_rows(stream, batch.weights(), &mut staged.weights, n_rows)?;
        staged.n_rows = n_rows;
        Ok(())
    }

    fn replay_graph_mega(&mut self) -> Result<(), TrainError> {
        let (rows, dim, n_actions) = self.shape();
        let staged = &self.staged;
        let mut mega = self.stream.launch_builder(&self.kernels.mega);
        mega.arg(&self.params).arg(&staged.states).arg(&staged.next_states).arg(&staged.actions);
        mega.arg(&staged.rewards).arg(&staged.dones).arg(&staged.weights);
        mega.arg(&mut self.td_errors).arg(&mut self.scalars[0]).arg(&mut self.grads);
        mega.arg(&self.gamma).arg(&rows).arg(&dim).arg(&n_actions);
        // SAFETY: order and types match graph_mega; `rows` is at most what the slices were made for.
        unsafe { mega.launch(LaunchConfig::for_num_elems(rows))? };
        Ok(())
    }

    fn replay_graph_forward(&mut self) -> Result<(), TrainError> {
        let (rows, dim, n_actions) = self.shape();
        let staged = &self.staged;
        let mut forward = self.stream.launch_builder(&self.kernels.forward);
        forward.arg(&self.params).arg(&staged.states).arg(&staged.next_states).arg(&staged.actions);
        forward.arg(&staged.rewards).arg(&staged.dones).arg(&staged.weights);
        forward.arg(&mut self.td_errors).arg(&mut self.scalars[0]);
        forward.arg(&self.gamma).arg(&rows).arg(&dim).arg(&n_actions);
        // SAFETY: as in replay_graph_mega.
        unsafe { forward.launch(LaunchConfig::for_num_elems(rows))? };
        Ok(())
    }

    fn replay_graph_backward(&mut self) -> Result<(), TrainError> {
        let (rows, dim, n_actions) = self.shape();
        let staged = &self.staged;
        let mut backward = self.stream.launch_builder(&self.kernels.backward);
        backward.arg(&staged.states).arg(&staged.actions).arg(&staged.weights);
        backward.arg(&self.td_errors).arg(&mut self.grads).arg(&rows).arg(&dim).arg(&n_actions);
        // SAFETY: as in replay_graph_mega.
        unsafe { backward.launch(LaunchConfig::for_num_elems(rows))? };
        Ok(())
    }

    fn replay_graph_adam(&mut self) -> Result<(), TrainError> {
        let (step, n_params) = (self.step as u32, self.params.len() as u32);
        let [m, v] = &mut self.moments;
        let mut adam = self.stream.launch_builder(&self.kernels.adam);
        adam.arg(&mut self.params).arg(&self.grads).arg(m).arg(v).arg(&mut self.scalars[1]);
        adam.arg(&self.learning_rate).arg(&step).arg(&n_params);
        // SAFETY: order and types match graph_adam; all four have `n_params` values.
        unsafe { adam.launch(LaunchConfig::for_num_elems(n_params))? };
        Ok(())
    }

    fn shape(&self) -> (u32, u32, u32) {
        (self.staged.n_rows as u32, self.state_dim as u32, self.num_actions as u32)
    }
}

/// Copies `n` values from the device address `from`.
fn copy_rows<T: DeviceRepr>(
    stream: &CudaStream,
    from: u64,
    to: &mut CudaSlice<T>,
    n: usize,
) -> Result<(), DriverError> {
    assert!(n <= to.len(), "{n} values do not fit into {}", to.len());
    let (to, _written) = to.device_ptr_mut(stream);
    // SAFETY: a batch has `n` values of `T` at `from` until the next draw, which this stream comes before.
    unsafe { result::memcpy_dtod_async(to, from, n * size_of::<T>(), stream.cu_stream()) }
}
