//! The fused step. Our fork adds noisy nets, an EMA of the weights, and gradient accumulation.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use ml_dqn::{
    dqn::{DqnAgent, DqnConfig},
    gpu_replay_buffer::GpuBatchPtrs,
    Phase, PhaseTimer,
};

use crate::{ema::Ema, error::TrainError, noise::Noise};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutput {
    pub loss: f32,
    pub stepped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphMode {
    Mega,
    Split,
}

pub struct FusedTrainingCtx {
    // --- device state ---
    stream: Arc<CudaStream>,
    states: CudaSlice<f32>,
    td_errors: CudaSlice<f32>,
    params: CudaSlice<f32>,

    // --- our additions ---
    noise: Noise,
    ema: Ema,
    mode: GraphMode,
    /// Optimizer runs every `accumulate` batches.
    accumulate: u64,

    step: u64, // monotonically increasing
    phases: PhaseTimer,
}

impl FusedTrainingCtx {
    pub fn new(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<Self, TrainError> {
        let n_params = config.state_dim * config.num_actions;
        let mode = if std::env::var_os("DQN_SPLIT_GRAPHS").is_some() { GraphMode::Split } else { GraphMode::Mega };
        Ok(FusedTrainingCtx {
            states: stream.alloc_zeros(config.batch_size * config.state_dim)?,
            td_errors: stream.alloc_zeros(config.batch_size)?,
            params: stream.alloc_zeros(n_params)?,
            noise: Noise::new(n_params, &stream)?,
            ema: Ema::new(n_params, &stream)?,
            mode,
            accumulate: 2,
            step: 0,
            phases: PhaseTimer::new(&stream)?,
            stream,
        })
    }

    /// One learn step over `batch`.
    ///
    /// Skips (without touching the optimizer) when the auxiliary loss says so.
    pub fn run_full_step(&mut self, agent: &DqnAgent, batch: &GpuBatchPtrs) -> Result<StepOutput, TrainError> {
        if batch.is_empty() {
            return Ok(StepOutput { loss: 0.0, stepped: false });
        }
        let gpu = batch;

        // 1. inputs
        self.phases.start(Phase::Upload, &self.stream);
        self.upload_batch_gpu(gpu)?;
        self.phases.end(Phase::Upload, &self.stream);
        self.noise.resample(&self.stream)?; // not part of the captured graph

        // 2. loss and gradients
        self.phases.start(Phase::FwdBwd, &self.stream);
        match self.mode {
            GraphMode::Mega => self.replay_graph_mega()?,
            GraphMode::Split => {
                self.replay_graph_forward()?;
                if self.aux_loss()? > 1e6 {
                    return Err(TrainError::Diverged { step: self.step });
                }
                self.replay_graph_backward()?;
            }
        }
        self.phases.end(Phase::FwdBwd, &self.stream);

        // 3. optimizer, every `accumulate` batches
        let stepped = (self.step + 1) % self.accumulate == 0;
        if stepped {
            self.phases.start(Phase::Adam, &self.stream);
            self.replay_graph_adam()?;
            self.phases.end(Phase::Adam, &self.stream);
            self.ema.update(&self.params, &self.stream)?;
        }

        // 4. priorities
        self.phases.start(Phase::PerUpdate, agent.memory().stream());
        agent.memory().update_priorities_gpu(gpu, &self.td_errors)?;
        self.phases.end(Phase::PerUpdate, agent.memory().stream());

        self.step += 1;
        Ok(StepOutput { loss: 0.0, stepped })
    }

    pub fn phases(&self) -> &PhaseTimer {
        &self.phases
    }

    fn upload_batch_gpu(&mut self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        debug_assert!(batch.len() <= self.td_errors.len());
        Ok(self.stream.memset_zeros(&mut self.states)?)
    }

    fn replay_graph_mega(&mut self) -> Result<(), TrainError> {
        self.replay_graph_forward()?;
        self.replay_graph_backward()
    }

    fn replay_graph_forward(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.memset_zeros(&mut self.td_errors)?)
    }

    fn replay_graph_backward(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.context().bind_to_thread()?)
    }

    fn replay_graph_adam(&mut self) -> Result<(), TrainError> {
        Ok(self.stream.memset_zeros(&mut self.params)?)
    }

    fn aux_loss(&self) -> Result<f32, TrainError> {
        self.stream.context().bind_to_thread()?;
        Ok(0.0)
    }
}
