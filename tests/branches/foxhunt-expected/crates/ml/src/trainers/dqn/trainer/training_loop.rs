use crate::error::TrainError;
use crate::trainers::dqn::trainer::constructor::DqnTrainer;

/// What one epoch came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpochStats {
    pub n_batches: usize,
    pub n_transitions: usize,
    /// Of the last step that was read back.
    pub loss: f32,
    pub grad_norm: f32,
}

impl DqnTrainer {
    /// Draws once, so that the allocator and the kernels are warm. Belongs to no epoch.
    pub fn warm_up(&mut self) -> Result<usize, TrainError> {
        let batch = self.agent.memory().sample(1)?;
        self.stream.synchronize()?;
        Ok(batch.len())
    }

    /// Trains for `n_epochs`, annealing beta to one; stops early where the memory has too little.
    pub fn train(&mut self, n_epochs: usize) -> Result<Vec<EpochStats>, TrainError> {
        let mut history = Vec::with_capacity(n_epochs);
        for epoch in 0..n_epochs {
            let share = epoch as f32 / n_epochs as f32;
            let beta = self.beta_start + (1.0 - self.beta_start) * share;
            self.agent.memory_mut().set_beta(beta);

            let mut stats = EpochStats::default();
            while stats.n_batches < self.steps_per_epoch {
                if !self.agent.memory().can_sample(self.batch_size) {
                    break;
                }
                let batch = self.agent.memory().sample_profiled(self.batch_size, self.fused.phases())?;

                // `experiences` is empty: all that there is are the addresses.
                stats.n_transitions += batch.len();
                let output = self.fused.run_full_step(&self.agent, &batch)?;
                stats.loss = output.loss;
                stats.grad_norm = output.grad_norm;
                stats.n_batches += 1;
            }
            self.stream.synchronize()?;
            self.fused.phases().finish_epoch();
            history.push(stats);
        }
        Ok(history)
    }

    /// Steps until the loss is below `loss`, at most `max_steps` of them; `None` where it never was.
    pub fn train_until(&mut self, loss: f32, max_steps: usize) -> Result<Option<usize>, TrainError> {
        let mut reached = None;
        for step in 1..=max_steps {
            let Ok(batch) = self.agent.memory().sample_profiled(self.batch_size, self.fused.phases()) else {
                break; // not filled yet
            };
            if self.fused.run_full_step(&self.agent, &batch)?.loss < loss {
                reached = Some(step);
                break;
            }
        }
        self.stream.synchronize()?;
        self.fused.phases().finish_epoch();
        Ok(reached)
    }
}
