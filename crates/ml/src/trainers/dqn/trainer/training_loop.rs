//! Epochs: sample, step, and at the end one synchronize and one line of phase times.

use crate::error::TrainError;
use crate::trainers::dqn::trainer::constructor::DqnTrainer;

impl DqnTrainer {
    /// Trains for `n_epochs` on what the replay buffer holds; returns the mean loss of the last epoch.
    ///
    /// The mean is over the losses that had arrived when each step was enqueued.
    ///
    /// # Errors
    /// Those of sampling and of [`FusedTrainingCtx::run_full_step`].
    ///
    /// [`FusedTrainingCtx::run_full_step`]: crate::trainers::dqn::fused_training::FusedTrainingCtx::run_full_step
    pub fn train(&mut self, n_epochs: usize) -> Result<f32, TrainError> {
        let mut mean_loss = 0.0;
        for _epoch in 0..n_epochs {
            let mut total_loss = 0.0;
            for _ in 0..self.steps_per_epoch {
                let batch = self
                    .agent
                    .memory()
                    .sample_profiled(self.batch_size, self.fused.phases())?;
                let output = self.fused.run_full_step(&self.agent, &batch)?;
                total_loss += f64::from(output.loss);
            }
            self.stream.synchronize()?;
            self.fused.phases().finish_epoch();
            mean_loss = (total_loss / self.steps_per_epoch as f64) as f32;
        }
        Ok(mean_loss)
    }
}
