//! `ml_dqn` before the migration: three buffers behind an enum.

include!("../kept.rs");

macro_rules! host_memory {
    ($module:ident, $memory:ident, $config:ident) => {
        pub mod $module {
            use crate::{DqnError, Experience};

            #[derive(Debug, Clone, Default)]
            pub struct $config {
                pub capacity: usize,
            }

            #[derive(Debug)]
            pub struct $memory {
                config: $config,
                rows: Vec<Experience>,
            }

            impl $memory {
                pub fn new(config: $config) -> Self {
                    Self { config, rows: Vec::new() }
                }
                pub fn len(&self) -> usize {
                    self.rows.len()
                }
                pub fn is_empty(&self) -> bool {
                    self.rows.is_empty()
                }
                pub fn capacity(&self) -> usize {
                    self.config.capacity
                }
                pub fn push(&mut self, experience: Experience) {
                    self.rows.push(experience)
                }
                pub fn sample(&self, batch_size: usize) -> Result<(Vec<Experience>, Vec<usize>), DqnError> {
                    Ok((self.rows[..batch_size].to_vec(), (0..batch_size).collect()))
                }
                pub fn clear(&mut self) {
                    self.rows.clear()
                }
            }
        }
        pub use $module::{$config, $memory};
    };
}

host_memory!(replay_buffer, ReplayBuffer, ReplayBufferConfig);
host_memory!(prioritized_replay, PrioritizedReplayBuffer, PrioritizedReplayConfig);
host_memory!(hindsight_replay, HindsightReplayBuffer, HindsightReplayConfig);
host_memory!(prioritized_replay_staleness, StalenessTracker, StalenessConfig);

pub use replay_buffer_type::{BatchSample, ReplayBufferType};

pub mod replay_buffer_type {
    use crate::*;
    use cudarc::driver::CudaStream;
    use std::sync::Arc;

    #[derive(Debug)]
    pub enum ReplayBufferType {
        Uniform(Box<ReplayBuffer>),
        Prioritized(Box<PrioritizedReplayBuffer>),
        GpuPrioritized(GpuReplayBuffer),
    }

    impl ReplayBufferType {
        pub fn uniform(config: ReplayBufferConfig) -> Self {
            Self::Uniform(Box::new(ReplayBuffer::new(config)))
        }
        pub fn prioritized(config: PrioritizedReplayConfig) -> Self {
            Self::Prioritized(Box::new(PrioritizedReplayBuffer::new(config)))
        }
        pub fn gpu_prioritized(config: GpuReplayBufferConfig, stream: Arc<CudaStream>) -> Result<Self> {
            GpuReplayBuffer::new(config, stream).map(Self::GpuPrioritized)
        }
        pub fn push(&mut self, experience: &Experience) -> Result<()> {
            match self {
                Self::Uniform(memory) => memory.push(experience.clone()),
                Self::Prioritized(memory) => memory.push(experience.clone()),
                Self::GpuPrioritized(memory) => memory.push(experience)?,
            }
            Ok(())
        }
        pub fn push_batch(&mut self, experiences: &[Experience]) -> Result<()> {
            experiences.iter().try_for_each(|experience| self.push(experience))
        }
        pub fn sample(&self, batch_size: usize) -> Result<BatchSample> {
            let (experiences, indices) = match self {
                Self::Uniform(memory) => memory.sample(batch_size)?,
                Self::Prioritized(memory) => memory.sample(batch_size)?,
                Self::GpuPrioritized(memory) => return memory.sample(batch_size).map(BatchSample::from_gpu),
            };
            Ok(BatchSample::from_experiences(experiences, vec![1.0; batch_size], indices))
        }
        pub fn update_priorities(&self, _indices: &[usize], _td_errors: &[f32]) -> Result<()> {
            Ok(())
        }
        pub fn len(&self) -> usize {
            match self {
                Self::Uniform(memory) => memory.len(),
                Self::Prioritized(memory) => memory.len(),
                Self::GpuPrioritized(memory) => memory.len(),
            }
        }
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
        pub fn capacity(&self) -> usize {
            match self {
                Self::Uniform(memory) => memory.capacity(),
                Self::Prioritized(memory) => memory.capacity(),
                Self::GpuPrioritized(memory) => memory.capacity(),
            }
        }
        pub fn can_sample(&self, batch_size: usize) -> bool {
            self.len() >= batch_size
        }
        pub fn set_beta(&mut self, _beta: f32) {}
        pub fn clear(&mut self) {}
        pub fn is_gpu(&self) -> bool {
            matches!(self, Self::GpuPrioritized(_))
        }
        pub fn is_prioritized(&self) -> bool {
            !matches!(self, Self::Uniform(_))
        }
        pub fn as_gpu(&self) -> Option<&GpuReplayBuffer> {
            if let Self::GpuPrioritized(memory) = self { Some(memory) } else { None }
        }
        pub fn as_gpu_mut(&mut self) -> Option<&mut GpuReplayBuffer> {
            if let Self::GpuPrioritized(memory) = self { Some(memory) } else { None }
        }
        pub fn into_gpu(self) -> Option<GpuReplayBuffer> {
            if let Self::GpuPrioritized(memory) = self { Some(memory) } else { None }
        }
    }

    impl From<GpuReplayBuffer> for ReplayBufferType {
        fn from(memory: GpuReplayBuffer) -> Self {
            Self::GpuPrioritized(memory)
        }
    }

    #[derive(Debug, Default)]
    pub struct BatchSample {
        pub experiences: Vec<Experience>,
        pub weights: Vec<f32>,
        pub indices: Vec<usize>,
        pub gpu_batch: Option<GpuBatchPtrs>,
    }

    impl BatchSample {
        pub fn from_gpu(batch: GpuBatchPtrs) -> Self {
            Self { gpu_batch: Some(batch), ..Self::default() }
        }
        pub fn from_experiences(experiences: Vec<Experience>, weights: Vec<f32>, indices: Vec<usize>) -> Self {
            Self { experiences, weights, indices, gpu_batch: None }
        }
        pub fn len(&self) -> usize {
            self.gpu_batch.as_ref().map_or(self.experiences.len(), GpuBatchPtrs::len)
        }
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }
        pub fn is_gpu(&self) -> bool {
            self.gpu_batch.is_some()
        }
    }
}

pub mod dqn {
    use crate::{BatchSample, DqnError, ReplayBufferType};

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
        memory: ReplayBufferType,
    }

    impl DqnAgent {
        pub fn new(config: DqnConfig, memory: ReplayBufferType) -> Result<Self, DqnError> {
            Ok(Self { config, memory })
        }
        pub fn memory(&self) -> &ReplayBufferType {
            &self.memory
        }
        pub fn memory_mut(&mut self) -> &mut ReplayBufferType {
            &mut self.memory
        }
        pub fn sample(&self, batch_size: usize) -> Result<BatchSample, DqnError> {
            self.memory.sample(batch_size)
        }
    }
}
