//! One type for all replay buffers, and one for all that they return.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::error::DqnError;
use crate::experience::Experience;
use crate::gpu_replay_buffer::{GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig};
use crate::prioritized_replay::{PrioritizedReplayBuffer, PrioritizedReplayConfig};
use crate::replay_buffer::{ReplayBuffer, ReplayBufferConfig};

/// A replay buffer of any kind.
///
/// ```
/// use ml_dqn::{Experience, ReplayBufferConfig, ReplayBufferType};
///
/// let mut memory = ReplayBufferType::uniform(ReplayBufferConfig { capacity: 16, seed: 1 });
/// let experience = Experience { state: vec![0.0], action: 0, reward: 1.0, next_state: vec![1.0], done: true };
/// memory.push(&experience)?;
/// assert_eq!(memory.sample(1)?.experiences, [experience]);
/// # Ok::<(), ml_dqn::DqnError>(())
/// ```
#[allow(clippy::large_enum_variant)] // one of them per process
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

    pub fn gpu_prioritized(config: GpuReplayBufferConfig, stream: Arc<CudaStream>) -> Result<Self, DqnError> {
        GpuReplayBuffer::new(config, stream).map(Self::GpuPrioritized)
    }

    pub fn push(&mut self, experience: &Experience) -> Result<(), DqnError> {
        match self {
            Self::Uniform(ring) => ring.push(experience.clone()),
            Self::Prioritized(tree) => tree.push(experience.clone()),
            Self::GpuPrioritized(gpu) => gpu.push(experience)?,
        }
        Ok(())
    }

    pub fn push_batch(&mut self, experiences: &[Experience]) -> Result<(), DqnError> {
        if let Self::GpuPrioritized(gpu) = self {
            return gpu.push_batch(experiences);
        }
        experiences.iter().try_for_each(|experience| self.push(experience))
    }

    pub fn sample(&self, batch_size: usize) -> Result<BatchSample, DqnError> {
        match self {
            Self::Uniform(ring) => {
                let (experiences, indices) = ring.sample(batch_size)?;
                Ok(BatchSample::from_experiences(experiences, vec![1.0; batch_size], indices))
            }
            Self::Prioritized(tree) => {
                let (experiences, weights, indices) = tree.sample(batch_size)?;
                Ok(BatchSample::from_experiences(experiences, weights, indices))
            }
            Self::GpuPrioritized(gpu) => gpu.sample(batch_size).map(BatchSample::from_gpu),
        }
    }

    /// Nothing to do for uniform replay. On the device it is `GpuReplayBuffer::update_priorities_gpu`.
    pub fn update_priorities(&self, indices: &[usize], td_errors: &[f32]) -> Result<(), DqnError> {
        match self {
            Self::Uniform(_) => Ok(()),
            Self::Prioritized(tree) => tree.update_priorities(indices, td_errors),
            Self::GpuPrioritized(_) => Err(DqnError::Unsupported("priorities from host slices")),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Uniform(ring) => ring.len(),
            Self::Prioritized(tree) => tree.len(),
            Self::GpuPrioritized(gpu) => gpu.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn capacity(&self) -> usize {
        match self {
            Self::Uniform(ring) => ring.capacity(),
            Self::Prioritized(tree) => tree.capacity(),
            Self::GpuPrioritized(gpu) => gpu.capacity(),
        }
    }

    pub fn can_sample(&self, batch_size: usize) -> bool {
        batch_size > 0 && batch_size <= self.len()
    }

    pub fn set_beta(&mut self, beta: f32) {
        match self {
            Self::Uniform(_) => {}
            Self::Prioritized(tree) => tree.set_beta(beta),
            Self::GpuPrioritized(gpu) => gpu.set_beta(beta),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Self::Uniform(ring) => ring.clear(),
            Self::Prioritized(tree) => tree.clear(),
            Self::GpuPrioritized(gpu) => gpu.clear(),
        }
    }

    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::GpuPrioritized(_))
    }

    pub fn is_prioritized(&self) -> bool {
        !matches!(self, Self::Uniform(_))
    }

    pub fn as_gpu(&self) -> Option<&GpuReplayBuffer> {
        match self {
            Self::GpuPrioritized(gpu) => Some(gpu),
            Self::Uniform(_) | Self::Prioritized(_) => None,
        }
    }

    pub fn as_gpu_mut(&mut self) -> Option<&mut GpuReplayBuffer> {
        match self {
            Self::GpuPrioritized(gpu) => Some(gpu),
            Self::Uniform(_) | Self::Prioritized(_) => None,
        }
    }

    pub fn into_gpu(self) -> Option<GpuReplayBuffer> {
        match self {
            Self::GpuPrioritized(gpu) => Some(gpu),
            Self::Uniform(_) | Self::Prioritized(_) => None,
        }
    }
}

impl From<GpuReplayBuffer> for ReplayBufferType {
    fn from(gpu: GpuReplayBuffer) -> Self {
        Self::GpuPrioritized(gpu)
    }
}

/// What was drawn: rows on the host, or addresses on the device.
#[derive(Debug, Default)]
pub struct BatchSample {
    /// Always empty on the GPU path.
    pub experiences: Vec<Experience>,
    /// Empty on the GPU path.
    pub weights: Vec<f32>,
    /// Empty on the GPU path.
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
        match &self.gpu_batch {
            Some(batch) => batch.len(),
            None => self.experiences.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn is_gpu(&self) -> bool {
        self.gpu_batch.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Experience {
        Experience { state: vec![1.0], action: 2, reward: 3.0, next_state: vec![4.0], done: false }
    }

    #[test]
    fn cpu_kinds_have_no_device_side() {
        let mut uniform = ReplayBufferType::uniform(ReplayBufferConfig { capacity: 2, seed: 0 });
        let mut tree =
            ReplayBufferType::prioritized(PrioritizedReplayConfig { capacity: 2, ..Default::default() });
        for memory in [&mut uniform, &mut tree] {
            memory.push_batch(&[one(), one(), one()]).unwrap();
            memory.set_beta(1.0);
            assert_eq!((memory.len(), memory.capacity(), memory.is_gpu()), (2, 2, false));
            assert!(memory.as_gpu().is_none() && memory.as_gpu_mut().is_none());
            let batch = memory.sample(2).unwrap();
            assert_eq!((batch.len(), batch.weights.len(), batch.is_gpu()), (2, 2, false));
            memory.update_priorities(&batch.indices, &[0.5, 0.5]).unwrap();
            memory.clear();
            assert!(memory.is_empty());
        }
        assert!(tree.is_prioritized() && !uniform.is_prioritized() && tree.into_gpu().is_none());
    }
}
