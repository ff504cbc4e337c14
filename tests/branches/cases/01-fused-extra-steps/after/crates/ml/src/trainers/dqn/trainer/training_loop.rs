use super::DqnTrainer;
use crate::error::TrainError;

/// What one epoch came to.
#[derive(Debug, Default)]
pub struct EpochStats {
    pub n_batches: usize,
    pub n_transitions: usize,
    pub loss: f32,
}

impl DqnTrainer {
    /// Draws once, so that the allocator and the kernels are warm. Not part of any epoch.
    pub fn warm_up(&mut self) -> Result<(), TrainError> {
        let _batch = self.agent.memory().sample(1)?;
        self.stream.synchronize()?;
        Ok(())
    }

    pub fn train(&mut self, epochs: usize, batches_per_epoch: usize) -> Result<Vec<EpochStats>, TrainError> {
        self.warm_up()?;
        let mut history = Vec::with_capacity(epochs);
        for epoch in 0..epochs {
            let mut stats = EpochStats::default();
            while stats.n_batches < batches_per_epoch {
                let beta = 0.4 + 0.6 * self.her_ratio * epoch as f32 / epochs as f32;
                self.agent.memory_mut().set_beta(beta);
                let batch = self.agent.memory().sample_profiled(self.batch_size, self.ctx.phases())?;
                let gpu_batch = &batch;
                stats.n_transitions += gpu_batch.len();
                let out = self.ctx.run_full_step(&self.agent, &batch)?;
                stats.loss += out.loss;
                stats.n_batches += 1;
            }
            self.stream.synchronize()?;
            self.ctx.phases().finish_epoch();
            history.push(stats);
        }
        Ok(history)
    }
}
