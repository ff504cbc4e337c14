use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{
    dqn::{DqnAgent, DqnConfig},
    gpu_her::{GpuHer, GpuHerConfig},
    gpu_replay_buffer::GpuReplayBuffer,
    hindsight_replay::{GoalStrategy, HindsightReplayConfig}, // CPU HER
    prioritized_replay::PrioritizedReplayConfig,
    replay_buffer_type::ReplayBufferType,
};

use crate::error::TrainError;
use crate::trainers::dqn::fused_training::FusedTrainingCtx;

/// The smallest memory that the CPU relabeller was tried with.
const MIN_CPU_HER_CAPACITY: usize = 1_000;

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
    /// A [`ReplayBufferType`] of any kind is taken; see [`from_gpu`](Self::from_gpu) for the usual one.
    pub fn new(
        config: DqnConfig,
        memory: ReplayBufferType,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        let her = match &memory {
            ReplayBufferType::GpuPrioritized(_) => {
                Some(GpuHer::new(GpuHerConfig::default(), Arc::clone(&stream))?)
            }
            // CPU HER relabels before it pushes: all that matters here is that its copies find room.
            ReplayBufferType::Prioritized(_) | ReplayBufferType::Uniform(_) => {
                let per = PrioritizedReplayConfig { capacity: memory.capacity(), ..Default::default() };
                check_cpu_her(&per, &HindsightReplayConfig::default());
                None
            }
        };
        // The tree anneals more carefully.
        let beta_start = if memory.is_gpu() || !memory.is_prioritized() { 0.4 } else { 0.6 };

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
        Self::new(config, ReplayBufferType::from(memory), stream)
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

/// Warns where the relabelled copies would crowd out the episode that they come from.
fn check_cpu_her(per: &PrioritizedReplayConfig, her: &HindsightReplayConfig) {
    let copies = match her.strategy {
        GoalStrategy::Final => 1,
        GoalStrategy::Future | GoalStrategy::Episode => her.k,
    };
    if per.capacity < MIN_CPU_HER_CAPACITY * (1 + copies) {
        eprintln!("CPU HER: {} transitions are few for {copies} copies of each", per.capacity);
    }
}
