//! How a trainer is made.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::dqn::{DqnAgent, DqnConfig};
use ml_dqn::gpu_her::GpuHer;
use ml_dqn::gpu_replay_buffer::GpuReplayBuffer;

use crate::error::TrainError;
use crate::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions};

/// Options of [`DqnTrainer::with_options`]; its `new` takes the defaults.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TrainerOptions {
    /// Of the step.
    pub step: StepOptions,
    /// Steps of one epoch, after which the stream is synchronized and the phases are logged. 178.
    pub steps_per_epoch: usize,
}

impl Default for TrainerOptions {
    fn default() -> Self {
        Self {
            step: StepOptions::default(),
            steps_per_epoch: 178,
        }
    }
}

/// An agent with its replay buffer, and the step that trains it. The agent acts by the step's network.
#[derive(Debug)]
pub struct DqnTrainer {
    pub(super) agent: DqnAgent,
    pub(super) fused: FusedTrainingCtx,
    pub(super) stream: Arc<CudaStream>,
    pub(super) batch_size: usize,
    pub(super) steps_per_epoch: usize,
    her: Option<GpuHer>,
}

impl DqnTrainer {
    /// # Errors
    /// Those of [`FusedTrainingCtx::new`] and [`DqnAgent::new`].
    pub fn new(
        config: DqnConfig,
        memory: GpuReplayBuffer,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        Self::with_options(config, TrainerOptions::default(), memory, stream)
    }

    /// # Errors
    /// [`TrainError::Config`] for an epoch without steps, and those of [`FusedTrainingCtx::with_options`]
    /// and [`DqnAgent::new`].
    pub fn with_options(
        config: DqnConfig,
        options: TrainerOptions,
        memory: GpuReplayBuffer,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        if options.steps_per_epoch == 0 {
            return Err(TrainError::Config(
                "`steps_per_epoch` must be positive".into(),
            ));
        }
        let fused = FusedTrainingCtx::with_options(&config, options.step, Arc::clone(&stream))?;
        let batch_size = config.batch_size;
        let mut agent = DqnAgent::new(config, memory)?;
        agent.set_network(Arc::new(fused.policy()?));
        Ok(Self {
            agent,
            fused,
            stream,
            batch_size,
            steps_per_epoch: options.steps_per_epoch,
            her: None,
        })
    }

    /// Keeps a hindsight relabeller with the trainer.
    #[must_use]
    pub fn with_her(mut self, her: GpuHer) -> Self {
        self.her = Some(her);
        self
    }

    /// The agent.
    pub fn agent(&self) -> &DqnAgent {
        &self.agent
    }

    /// The agent, for pushing transitions.
    pub fn agent_mut(&mut self) -> &mut DqnAgent {
        &mut self.agent
    }

    /// The step.
    pub fn fused(&self) -> &FusedTrainingCtx {
        &self.fused
    }

    /// The step, for changing its schedule or parameters.
    pub fn fused_mut(&mut self) -> &mut FusedTrainingCtx {
        &mut self.fused
    }

    /// The hindsight relabeller, if one was given.
    pub fn her(&self) -> Option<&GpuHer> {
        self.her.as_ref()
    }
}
