//! How beta rises while a run goes on. Ours, not upstream's.

use crate::replay_buffer_type::ReplayBufferType;

/// Linear from `start` to one.
#[derive(Debug, Clone, Copy)]
pub struct BetaSchedule {
    pub start: f32,
    pub n_steps: u32,
}

impl BetaSchedule {
    pub fn at(&self, step: u32) -> f32 {
        let share = step.min(self.n_steps) as f32 / self.n_steps.max(1) as f32;
        self.start + (1.0 - self.start) * share
    }

    /// Sets the beta of `step`.
    pub fn apply(&self, memory: &mut ReplayBufferType, step: u32) {
        let beta = self.at(step);
        match memory {
            ReplayBufferType::GpuPrioritized(gpu) => gpu.set_beta(beta),
            ReplayBufferType::Prioritized(tree) => tree.set_beta(beta),
            ReplayBufferType::Uniform(_) => {} // has none
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_one() {
        let schedule = BetaSchedule { start: 0.4, n_steps: 10 };
        assert_eq!(schedule.at(0), 0.4);
        assert!((schedule.at(5) - 0.7).abs() < 1e-6);
        assert_eq!(schedule.at(99), 1.0);
    }

    #[test]
    fn uniform_replay_takes_no_beta() {
        let mut memory = ReplayBufferType::uniform(Default::default());
        BetaSchedule { start: 0.4, n_steps: 2 }.apply(&mut memory, 1);
        assert!(!memory.is_prioritized());
    }
}
