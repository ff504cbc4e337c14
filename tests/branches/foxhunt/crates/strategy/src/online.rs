//! Learning while trading: transitions go in, and every few bars a few steps are taken.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOutput};
use ml_dqn::prioritized_replay::PrioritizedReplayConfig;
use ml_dqn::replay_buffer_type::*;
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuBatchPtrs};

use crate::config::StrategyConfig;
use crate::error::StrategyError;
use crate::policy::{LinearPolicy, N_ACTIONS};

/// Learning rate of the host's steps; the device has Adam.
const HOST_RATE: f32 = 0.05;

/// What one round of learning came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LearnReport {
    pub n_steps: usize,
    pub n_rows: usize,
    pub loss: f32,
}

impl LearnReport {
    fn add(&mut self, n_rows: usize, loss: f32) {
        self.n_steps += 1;
        self.n_rows += n_rows;
        self.loss = loss;
    }
}

/// What is needed to learn on a device.
struct Device {
    fused: FusedTrainingCtx,
    stream: Arc<CudaStream>,
}

pub struct OnlineTrainer {
    agent: DqnAgent,
    device: Option<Device>,
    policy: LinearPolicy,
    gamma: f32,
    batch_size: usize,
    n_steps: usize,
    last: Option<BatchSample>,
}

impl OnlineTrainer {
    /// `stream` is needed where `memory` is on a device.
    pub fn new(
        config: &StrategyConfig,
        memory: ReplayBufferType,
        stream: Option<Arc<CudaStream>>,
    ) -> Result<Self, StrategyError> {
        let agent_config = DqnConfig {
            state_dim: config.state_dim(),
            num_actions: N_ACTIONS,
            batch_size: config.batch_size,
            ..DqnConfig::default()
        };
        let device = match (&memory, stream) {
            (ReplayBufferType::GpuPrioritized(_), Some(stream)) => {
                let fused = FusedTrainingCtx::new(&agent_config, Arc::clone(&stream))?;
                Some(Device { fused, stream })
            }
            (ReplayBufferType::GpuPrioritized(_), None) => return Err(StrategyError::NoDevice),
            (ReplayBufferType::Prioritized(tree), _) => {
                warn_about_small_tree(tree.capacity(), config.batch_size);
                None
            }
            (ReplayBufferType::Uniform(_), _) => None,
        };
        let gamma = agent_config.gamma;
        Ok(Self {
            policy: LinearPolicy::new(agent_config.state_dim),
            agent: DqnAgent::new(agent_config, memory)?,
            device,
            gamma,
            batch_size: config.batch_size,
            n_steps: config.steps_per_update,
            last: None,
        })
    }

    pub fn remember(&mut self, experience: &Experience) -> Result<(), StrategyError> {
        Ok(self.agent.memory_mut().push(experience)?)
    }

    pub fn policy(&self) -> &LinearPolicy {
        &self.policy
    }

    pub fn memory(&self) -> &ReplayBufferType {
        self.agent.memory()
    }

    /// What a gain one bar later is worth now.
    pub fn discount(&self) -> f32 {
        self.gamma
    }

    /// Rows of the batch that was learned from last.
    pub fn last_rows(&self) -> usize {
        self.last.as_ref().and_then(|batch| batch.gpu_batch.as_ref()).map_or(0, GpuBatchPtrs::len)
    }

    /// One round; nothing where the memory holds less than a batch.
    pub fn learn(&mut self) -> Result<LearnReport, StrategyError> {
        if !self.agent.memory().can_sample(self.batch_size) {
            return Ok(LearnReport::default());
        }
        let report = match self.agent.memory() {
            ReplayBufferType::GpuPrioritized(_) => self.learn_on_device()?,
            ReplayBufferType::Uniform(_) | ReplayBufferType::Prioritized(_) => self.learn_on_host()?,
        };
        if cfg!(feature = "trace-draws") {
            println!("learned from {} rows, loss {}", report.n_rows, report.loss);
        }
        Ok(report)
    }

    fn learn_on_device(&mut self) -> Result<LearnReport, StrategyError> {
        let Some(device) = &mut self.device else { return Err(StrategyError::NoDevice) };
        let mut report = LearnReport::default();
        for _ in 0..self.n_steps {
            let batch = match self.agent.memory().sample(self.batch_size) {
                Ok(batch) => batch,
                Err(err) => {
                    eprintln!("no draw after {} steps", report.n_steps);
                    return Err(err.into());
                }
            };
            let StepOutput { loss, .. } = device.fused.run_full_step(&self.agent, &batch)?;
            report.add(batch.len(), loss);
            self.last = Some(batch);
        }
        device.stream.synchronize()?;
        self.policy.set_params(device.fused.params_to_host()?);
        Ok(report)
    }

    /// Plain Q learning (Watkins 1989) with importance weights, one row after the other.
    fn learn_on_host(&mut self) -> Result<LearnReport, StrategyError> {
        let mut report = LearnReport::default();
        for _ in 0..self.n_steps {
            let batch = self.agent.sample(self.batch_size)?;
            let mut td_errors = Vec::with_capacity(batch.experiences.len());
            for (experience, weight) in batch.experiences.iter().zip(&batch.weights) {
                let error = self.host_td_error(experience);
                self.policy.nudge(&experience.state, experience.action as usize, HOST_RATE * weight, error);
                td_errors.push(error);
            }
            self.agent.memory().update_priorities(&batch.indices, &td_errors)?;
            let loss =
                td_errors.iter().map(|error| 0.5 * error * error).sum::<f32>() / td_errors.len() as f32;
            report.add(batch.len(), loss);
        }
        Ok(report)
    }

    fn host_td_error(&self, experience: &Experience) -> f32 {
        let best = self.policy.best(&experience.next_state);
        let future =
            if experience.done { 0.0 } else { self.gamma * self.policy.value(&experience.next_state, best) };
        experience.reward + future - self.policy.value(&experience.state, experience.action as usize)
    }
}

fn warn_about_small_tree(capacity: usize, batch_size: usize) {
    let usual = PrioritizedReplayConfig::default().capacity;
    if capacity < 10 * batch_size {
        eprintln!("a tree of {capacity} is small for batches of {batch_size}; {usual} is usual");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::ReplayBufferConfig;

    fn paying(action: u32) -> Experience {
        let state = vec![1.0, 0.0, 0.0, 0.0, 1.0];
        Experience { next_state: state.clone(), state, action, reward: action as f32, done: true }
    }

    fn host_trainer() -> OnlineTrainer {
        let config = StrategyConfig { batch_size: 8, ..Default::default() };
        let memory = ReplayBufferType::uniform(ReplayBufferConfig { capacity: 64, seed: 3 });
        OnlineTrainer::new(&config, memory, None).unwrap()
    }

    #[test]
    fn reports_add_up() {
        let mut report = LearnReport::default();
        report.add(4, 2.0);
        report.add(4, 1.0);
        assert_eq!(report, LearnReport { n_steps: 2, n_rows: 8, loss: 1.0 });
    }

    #[test]
    fn learns_on_the_host_what_pays() {
        let mut trainer = host_trainer();
        assert_eq!(trainer.learn().unwrap(), LearnReport::default(), "nothing to learn from");
        for at in 0..48 {
            trainer.remember(&paying(at % 3)).unwrap();
        }
        let first = trainer.learn().unwrap();
        let mut last = first;
        for _ in 0..20 {
            last = trainer.learn().unwrap();
        }
        assert!(last.loss < 0.1 * first.loss, "{first:?}, {last:?}");
        assert_eq!(trainer.policy().best(&paying(0).state), 2);
        assert_eq!(trainer.last_rows(), 0, "that is the device's");
    }
}
