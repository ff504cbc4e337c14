//! Learning while trading: transitions go in, and every few bars a few steps are taken.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOutput};
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuBatchPtrs, GpuReplayBuffer};

use crate::config::StrategyConfig;
use crate::error::StrategyError;
use crate::policy::{LinearPolicy, N_ACTIONS};

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
    last: Option<GpuBatchPtrs>,
}

impl OnlineTrainer {
    /// `stream` is needed where `memory` is on a device.
    pub fn new(
        config: &StrategyConfig,
        memory: GpuReplayBuffer,
        stream: Option<Arc<CudaStream>>,
    ) -> Result<Self, StrategyError> {
        let agent_config = DqnConfig {
            state_dim: config.state_dim(),
            num_actions: N_ACTIONS,
            batch_size: config.batch_size,
            ..DqnConfig::default()
        };
        let device = match stream {
            Some(stream) => {
                let fused = FusedTrainingCtx::new(&agent_config, Arc::clone(&stream))?;
                Some(Device { fused, stream })
            }
            None => return Err(StrategyError::NoDevice),
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

    pub fn memory(&self) -> &GpuReplayBuffer {
        self.agent.memory()
    }

    /// What a gain one bar later is worth now.
    pub fn discount(&self) -> f32 {
        self.gamma
    }

    /// Rows of the batch that was learned from last.
    pub fn last_rows(&self) -> usize {
        self.last.as_ref().map_or(0, GpuBatchPtrs::len)
    }

    /// One round; nothing where the memory holds less than a batch.
    pub fn learn(&mut self) -> Result<LearnReport, StrategyError> {
        if !self.agent.memory().can_sample(self.batch_size) {
            return Ok(LearnReport::default());
        }
        let report = self.learn_on_device()?;
        if cfg!(feature = "trace-draws") {
            println!("learned from {} rows, loss {}", report.n_rows, report.loss);
        }
        Ok(report)
    }

    fn learn_on_device(&mut self) -> Result<LearnReport, StrategyError> {
        let Some(device) = &mut self.device else { return Err(StrategyError::NoDevice) };
        let mut report = LearnReport::default();
        for _ in 0..self.n_steps {
            let batch = match self.agent.memory().sample_profiled(self.batch_size, device.fused.phases()) {
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
        device.fused.phases().finish_epoch();
        self.policy.set_params(device.fused.params_to_host()?);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up() {
        let mut report = LearnReport::default();
        report.add(4, 2.0);
        report.add(4, 1.0);
        assert_eq!(report, LearnReport { n_steps: 2, n_rows: 8, loss: 1.0 });
    }
}
