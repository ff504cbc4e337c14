//! What host and kernels share about a step; the twins of the structs in `kernels/step_kernels.cu`.

use super::options::{StepOptions, TargetUpdate};

/// What a step leaves behind on the device, and what arrives on the host some steps later.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepState {
    /// Steps run.
    pub attempts: u64,
    /// Updates made.
    pub applied: u64,
    /// Steps that updated nothing, as loss or gradient was not finite.
    pub skipped: u64,
    /// Of them, since the last update.
    pub skipped_in_row: u64,
    /// Of the newest step.
    pub loss: f32,
    /// Of the newest step, before clipping.
    pub grad_norm: f32,
    /// Of the newest update.
    pub learning_rate: f32,
    /// Rows of the newest batch.
    pub rows: u32,
    pub(crate) power1: f64,
    pub(crate) power2: f64,
    pub(crate) next_power1: f64,
    pub(crate) next_power2: f64,
    pub(crate) next_rate: f32,
    pub(crate) correction1: f32,
    pub(crate) correction2: f32,
    pub(crate) next_copies: u32,
}

/// What the host may change between steps without capturing anew.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepSettings {
    pub learning_rate: f32,
    pub final_rate: f32,
    pub warmup_steps: u64,
    pub decay_steps: u64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f32,
    pub weight_decay: f32,
    pub max_grad_norm: f32,
    pub huber_delta: f32,
    pub tau: f32,
    pub target_period: u32,
    pub double_dqn: u32,
    pub pad: u32,
}

// The `.cu` file asserts the same sizes.
const _: () = assert!(size_of::<StepState>() == 96 && size_of::<StepSettings>() == 72);

impl From<&StepOptions> for StepSettings {
    fn from(options: &StepOptions) -> Self {
        let rate = options.learning_rate;
        let (tau, target_period) = match options.target {
            TargetUpdate::Polyak { tau } => (tau, 0),
            TargetUpdate::Periodic { every } => (0.0, every),
        };
        Self {
            learning_rate: rate.base,
            final_rate: rate.last,
            warmup_steps: rate.warmup_steps,
            decay_steps: rate.decay_steps,
            beta1: options.beta1,
            beta2: options.beta2,
            epsilon: options.epsilon,
            weight_decay: options.weight_decay,
            max_grad_norm: options.max_grad_norm,
            huber_delta: options.huber_delta,
            tau,
            target_period,
            double_dqn: options.double_dqn.into(),
            pad: 0,
        }
    }
}
