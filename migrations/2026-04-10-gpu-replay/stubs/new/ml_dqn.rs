//! `ml_dqn` after the migration: one buffer.

include!("../kept.rs");

pub use ml_cuda::{Phase, PhaseReport, PhaseTimer};

impl GpuReplayBuffer {
    pub fn sample_profiled(&self, batch_size: usize, _phases: &PhaseTimer) -> Result<GpuBatchPtrs> {
        self.sample(batch_size)
    }

    pub fn stream(&self) -> &std::sync::Arc<cudarc::driver::CudaStream> {
        &self.stream
    }
}

impl Default for GpuBatchPtrs {
    fn default() -> Self {
        Self { len: 0, owner: Default::default() }
    }
}

pub mod dqn {
    use crate::{DqnError, GpuBatchPtrs, GpuReplayBuffer};

    #[derive(Debug, Clone, Default)]
    pub struct DqnConfig {
        pub state_dim: usize,
        pub num_actions: usize,
        pub batch_size: usize,
        pub gamma: f32,
    }

    #[derive(Debug)]
    pub struct DqnAgent {
        pub config: DqnConfig,
        memory: GpuReplayBuffer,
    }

    impl DqnAgent {
        pub fn new(config: DqnConfig, memory: GpuReplayBuffer) -> Result<Self, DqnError> {
            Ok(Self { config, memory })
        }
        pub fn memory(&self) -> &GpuReplayBuffer {
            &self.memory
        }
        pub fn memory_mut(&mut self) -> &mut GpuReplayBuffer {
            &mut self.memory
        }
        pub fn sample(&self, batch_size: usize) -> Result<GpuBatchPtrs, DqnError> {
            self.memory.sample(batch_size)
        }
    }
}
