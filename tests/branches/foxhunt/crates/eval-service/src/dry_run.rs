//! How long the host takes for a training step, without any arithmetic.
//!
//! [`FusedTrainingCtx`] has the shape of the trainer's and enqueues as many operations, but only clears memory.
//! It writes the TD errors that it never computed back: the memory must be a throwaway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaSlice, CudaStream};
use ml::TrainError;
use ml_dqn::{BatchSample, DqnAgent, GpuBatchPtrs};

use crate::error::EvalError;

/// The trainer's context without its kernels.
pub struct FusedTrainingCtx {
    stream: Arc<CudaStream>,
    rows: CudaSlice<f32>,
    td_errors: CudaSlice<f32>,
    params: CudaSlice<f32>,
    n_micro_batches: usize,
}

impl FusedTrainingCtx {
    pub fn new(n_rows: usize, state_dim: usize, stream: Arc<CudaStream>) -> Result<Self, TrainError> {
        let rows = stream.alloc_zeros::<f32>(n_rows * state_dim)?;
        let td_errors = stream.alloc_zeros::<f32>(n_rows)?;
        let params = stream.alloc_zeros::<f32>(state_dim)?;
        Ok(FusedTrainingCtx { stream, rows, td_errors, params, n_micro_batches: 1 })
    }

    /// Forward and backward `n` times for each step.
    pub fn with_micro_batches(
        n_rows: usize,
        state_dim: usize,
        n: usize,
        stream: &Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        let zeros = |n| stream.alloc_zeros::<f32>(n);
        Ok(Self {
            rows: zeros(n_rows * state_dim)?,
            td_errors: zeros(n_rows)?,
            params: zeros(state_dim)?,
            n_micro_batches: n.max(1),
            stream: Arc::clone(stream),
        })
    }

    pub fn run_full_step(&mut self, agent: &DqnAgent, batch: &BatchSample) -> Result<(), TrainError> {
        let ptrs = batch.gpu_batch.as_ref().ok_or(TrainError::CpuBatch)?;
        self.upload_batch_gpu(ptrs)?;
        for _ in 0..self.n_micro_batches {
            self.replay_graph_forward()?;
            self.replay_graph_backward()?;
        }
        self.replay_graph_adam()?;
        let memory = agent.memory().as_gpu().ok_or(TrainError::CpuBatch)?;
        Ok(memory.update_priorities_gpu(ptrs, &self.td_errors)?)
    }

    fn upload_batch_gpu(&mut self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        if batch.len() > self.td_errors.len() {
            return Err(TrainError::BatchTooLarge { rows: batch.len(), room: self.td_errors.len() });
        }
        Ok(self.stream.memset_zeros(&mut self.rows)?)
    }

    fn replay_graph_forward(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.memset_zeros(&mut self.td_errors)?)
    }

    fn replay_graph_backward(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.memset_zeros(&mut self.params)?)
    }

    fn replay_graph_adam(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.memset_zeros(&mut self.params)?)
    }
}

/// What [`time_steps`] measured.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Until all was enqueued.
    pub queued: Duration,
    /// Until all was done.
    pub done: Duration,
}

/// Times `n_steps` steps over batches of `n_rows`.
pub fn time_steps(
    agent: &DqnAgent,
    dry: &mut FusedTrainingCtx,
    n_rows: usize,
    n_steps: usize,
) -> Result<Timing, EvalError> {
    let start = Instant::now();
    let mut n_done = 0;
    loop {
        if n_done == n_steps {
            break;
        }
        let batch = agent.sample(n_rows).map_err(EvalError::from)?;
        dry.run_full_step(agent, &batch)?;
        n_done += 1;
    }
    let queued = start.elapsed();
    dry.stream.synchronize().map_err(TrainError::from)?;
    Ok(Timing { queued, done: start.elapsed() })
}
