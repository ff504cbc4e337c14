use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{
    dqn::{DqnAgent, DqnConfig},
    gpu_her::{GpuHer, GpuHerConfig},
    gpu_replay_buffer::GpuReplayBuffer,
};

use crate::error::TrainError;
use crate::trainers::dqn::fused_training::FusedTrainingCtx;

/// Steps, unless [`DqnTrainer::set_steps_per_epoch`] says otherwise.
const STEPS_PER_EPOCH: usize = 178;

pub struct DqnTrainer {
    pub(super) agent: DqnAgent,
    pub(super) fused: FusedTrainingCtx,
    pub(super) stream: Arc<CudaStream>,
    pub(super) batch_size: usize,
    pub(super) steps_per_epoch: usize,
    pub(super) beta_start: f32,
    her: Option<GpuHer>,
}

impl DqnTrainer {
    /// A trainer on `stream` with the given memory, which must be on the same device.
    ///
    /// A [`GpuReplayBuffer`] of any kind is taken; see [`from_gpu`](Self::from_gpu) for the usual one.
    pub fn new(
        config: DqnConfig,
        memory: GpuReplayBuffer,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        let her = Some(GpuHer::new(GpuHerConfig::default(), Arc::clone(&stream))?);
        // The tree anneals more carefully.
        let beta_start = 0.4;

        let fused = FusedTrainingCtx::new(&config, Arc::clone(&stream))?;
        let batch_size = config.batch_size;
        let agent = DqnAgent::new(config, memory)?;

        Ok(Self { agent, fused, stream, batch_size, steps_per_epoch: STEPS_PER_EPOCH, beta_start, her })
    }

    /// What everybody calls.
    pub fn from_gpu(
        config: DqnConfig,
        memory: GpuReplayBuffer,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        Self::new(config, memory, stream)
    }

    pub fn set_steps_per_epoch(&mut self, n_steps: usize) {
        self.steps_per_epoch = n_steps;
    }

    pub fn agent(&self) -> &DqnAgent {
        &self.agent
    }

    pub fn agent_mut(&mut self) -> &mut DqnAgent {
        &mut self.agent
    }

    pub fn fused(&self) -> &FusedTrainingCtx {
        &self.fused
    }

    pub fn her(&self) -> Option<&GpuHer> {
        self.her.as_ref()
    }
}
