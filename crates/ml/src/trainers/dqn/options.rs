//! What a user may choose about the step, beyond the fields of `DqnConfig`.

use ml_cuda::Precision;

use crate::error::TrainError;

/// Options of [`FusedTrainingCtx::with_options`]; its `new` takes the defaults.
///
/// [`FusedTrainingCtx::with_options`]: super::fused_training::FusedTrainingCtx::with_options
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepOptions {
    /// Widths of the hidden layers. `[384, 384]`.
    pub hidden: Vec<usize>,
    /// Units of the hidden layer of each head. 192.
    pub head: usize,
    /// How products are computed. TF32.
    pub precision: Precision,
    /// How the step is enqueued. One graph for forward and backward.
    pub execution: Execution,
    /// Runs forward and backward pass as fused kernels where there are some: `Bf16`, the reference sizes,
    /// Hopper. They give other last bits than the products do.
    pub fused_kernels: bool,
    /// Seed of the initial parameters.
    pub seed: u64,
    /// Learning rate and its course.
    pub learning_rate: LearningRate,
    /// Adam's decay of the first moment. 0.9.
    pub beta1: f64,
    /// Adam's decay of the second moment. 0.999.
    pub beta2: f64,
    /// Adam's epsilon. 1e-8.
    pub epsilon: f32,
    /// Decoupled weight decay (AdamW). 0: Adam.
    pub weight_decay: f32,
    /// Gradients are scaled down to this global norm. 10; 0: never.
    pub max_grad_norm: f32,
    /// Where the Huber loss goes from quadratic to linear. 1.
    pub huber_delta: f32,
    /// How the target network follows. Polyak with 0.005.
    pub target: TargetUpdate,
    /// The online network chooses the next action, the target network rates it (van Hasselt et al. 2016).
    pub double_dqn: bool,
    /// After so many steps in a row without a finite loss and gradient, `run_full_step` is an error. 100.
    pub max_skipped_in_row: u64,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self {
            hidden: vec![384, 384],
            head: 192,
            precision: Precision::default(),
            execution: Execution::default(),
            fused_kernels: true,
            seed: 0,
            learning_rate: LearningRate::default(),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            max_grad_norm: 10.0,
            huber_delta: 1.0,
            target: TargetUpdate::default(),
            double_dqn: true,
            max_skipped_in_row: 100,
        }
    }
}

/// How the kernels of a step reach the GPU. All give the same numbers to the bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// Forward and backward in one captured graph, the optimizer in another.
    #[default]
    Mega,
    /// Forward, backward and optimizer each in a graph of its own.
    ForwardBackward,
    /// No graphs: each kernel by itself. For debugging and for streams that cannot be captured.
    Eager,
}

/// The learning rate over the updates, computed on the device. Serves as a plain constant by default.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LearningRate {
    /// Reached after the warm-up. 1e-4.
    pub base: f32,
    /// Updates over which the rate rises linearly from zero. 0.
    pub warmup_steps: u64,
    /// Updates after the warm-up over which it falls linearly to `last`. 0: it does not fall.
    pub decay_steps: u64,
    /// Rate after the decay.
    pub last: f32,
}

impl Default for LearningRate {
    fn default() -> Self {
        Self::constant(1e-4)
    }
}

impl LearningRate {
    /// The same rate always.
    pub fn constant(rate: f32) -> Self {
        Self {
            base: rate,
            warmup_steps: 0,
            decay_steps: 0,
            last: rate,
        }
    }

    /// Falls linearly from `base` to `last` over so many updates.
    pub fn linear(base: f32, last: f32, decay_steps: u64) -> Self {
        Self {
            base,
            warmup_steps: 0,
            decay_steps,
            last,
        }
    }

    /// Rises from zero over so many updates first.
    #[must_use]
    pub fn with_warmup(self, warmup_steps: u64) -> Self {
        Self {
            warmup_steps,
            ..self
        }
    }
}

/// How the target network follows the online one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum TargetUpdate {
    /// After each update, `target += tau · (parameters − target)` (Lillicrap et al. 2016).
    Polyak { tau: f32 },
    /// A copy every so many updates (Mnih et al. 2015).
    Periodic { every: u32 },
}

impl Default for TargetUpdate {
    fn default() -> Self {
        Self::Polyak { tau: 0.005 }
    }
}

impl StepOptions {
    /// # Errors
    /// [`TrainError::Config`] with the field and its value.
    pub fn check(&self) -> Result<(), TrainError> {
        let share = |name: &str, value: f64, within: bool| {
            if within {
                return Ok(());
            }
            Err(TrainError::Config(format!("`{name}` cannot be {value}")))
        };
        let finite = |value: f32| value.is_finite() && value >= 0.0;
        share("beta1", self.beta1, (0.0..1.0).contains(&self.beta1))?;
        share("beta2", self.beta2, (0.0..1.0).contains(&self.beta2))?;
        share(
            "epsilon",
            self.epsilon.into(),
            finite(self.epsilon) && self.epsilon > 0.0,
        )?;
        share(
            "weight_decay",
            self.weight_decay.into(),
            finite(self.weight_decay),
        )?;
        share(
            "max_grad_norm",
            self.max_grad_norm.into(),
            finite(self.max_grad_norm),
        )?;
        share(
            "huber_delta",
            self.huber_delta.into(),
            finite(self.huber_delta) && self.huber_delta > 0.0,
        )?;
        let rate = self.learning_rate;
        share("learning_rate.base", rate.base.into(), finite(rate.base))?;
        share("learning_rate.last", rate.last.into(), finite(rate.last))?;
        match self.target {
            TargetUpdate::Polyak { tau } => {
                share("target.tau", tau.into(), tau > 0.0 && tau <= 1.0)
            }
            TargetUpdate::Periodic { every } => share("target.every", every.into(), every > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_are_named() {
        StepOptions::default().check().unwrap();
        type Spoil = fn(&mut StepOptions);
        let wrong: [(&str, Spoil); 6] = [
            ("beta1", |options| options.beta1 = 1.0),
            ("epsilon", |options| options.epsilon = 0.0),
            ("max_grad_norm", |options| options.max_grad_norm = f32::NAN),
            ("learning_rate.base", |options| {
                options.learning_rate.base = -1.0
            }),
            ("target.tau", |options| {
                options.target = TargetUpdate::Polyak { tau: 0.0 }
            }),
            ("target.every", |options| {
                options.target = TargetUpdate::Periodic { every: 0 }
            }),
        ];
        for (name, spoil) in wrong {
            let mut options = StepOptions::default();
            spoil(&mut options);
            let message = options.check().unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
