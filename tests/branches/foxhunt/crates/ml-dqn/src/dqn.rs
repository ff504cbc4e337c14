//! The agent: what it is configured with, and what it remembers.

use crate::error::DqnError;
use crate::replay_buffer_type::{BatchSample, ReplayBufferType};

#[derive(Debug, Clone)]
pub struct DqnConfig {
    pub state_dim: usize,
    pub num_actions: usize,
    pub batch_size: usize,
    /// Discount per step.
    pub gamma: f32,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self { state_dim: 80, num_actions: 45, batch_size: 16_384, gamma: 0.99 }
    }
}

/// Owns the replay memory; the trainers own the network.
pub struct DqnAgent {
    config: DqnConfig,
    memory: ReplayBufferType,
}

impl DqnAgent {
    pub fn new(config: DqnConfig, memory: ReplayBufferType) -> Result<Self, DqnError> {
        if config.state_dim == 0 || config.num_actions == 0 {
            return Err(DqnError::Config("state_dim and num_actions must be positive".into()));
        }
        if !(0.0..=1.0).contains(&config.gamma) {
            return Err(DqnError::Config(format!("gamma must lie in 0..=1, not {}", config.gamma)));
        }
        Ok(Self { config, memory })
    }

    pub fn config(&self) -> &DqnConfig {
        &self.config
    }

    pub fn memory(&self) -> &ReplayBufferType {
        &self.memory
    }

    pub fn memory_mut(&mut self) -> &mut ReplayBufferType {
        &mut self.memory
    }

    /// Draws `batch_size` transitions from [`memory`](Self::memory); see [`ReplayBufferType::sample`].
    pub fn sample(&self, batch_size: usize) -> Result<BatchSample, DqnError> {
        self.memory.sample(batch_size)
    }

    /// Empties the memory, says how much there was. Our addition, for walk-forward runs.
    pub fn forget(&mut self) -> usize {
        let n_forgotten = self.memory.len();
        match &mut self.memory {
            ReplayBufferType::GpuPrioritized(gpu) => gpu.clear(),
            // Both are cleared by dropping what they hold.
            cpu => cpu.clear(),
        }
        n_forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::Experience;
    use crate::replay_buffer::ReplayBufferConfig;

    fn small(gamma: f32) -> Result<DqnAgent, DqnError> {
        let memory = ReplayBufferType::uniform(ReplayBufferConfig { capacity: 4, seed: 2 });
        DqnAgent::new(DqnConfig { state_dim: 1, num_actions: 2, batch_size: 1, gamma }, memory)
    }

    #[test]
    fn defaults_are_sound() {
        let config = DqnConfig::default();
        assert!(config.batch_size > 0 && (0.0..=1.0).contains(&config.gamma));
    }

    #[test]
    fn gamma_is_checked() {
        assert!(small(1.5).is_err());
        assert!(small(0.9).is_ok());
    }

    #[test]
    fn forgets() {
        let mut agent = small(0.9).unwrap();
        let experience =
            Experience { state: vec![0.0], action: 0, reward: 0.0, next_state: vec![0.0], done: true };
        agent.memory_mut().push(&experience).unwrap();
        assert_eq!((agent.forget(), agent.forget()), (1, 0));
    }
}
