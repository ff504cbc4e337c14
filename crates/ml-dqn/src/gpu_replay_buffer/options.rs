//! How a buffer is set up.

use crate::error::DqnError;
use crate::launch::per::{MAX_BATCH, PerSizes, RecordLayout, UpdateRule};

/// The part of the configuration that callers build literally.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuReplayBufferConfig {
    /// Slots; the oldest transition makes room when all are filled.
    pub capacity: usize,
    /// Components of a state.
    pub state_dim: usize,
    /// Exponent of the priorities, `p = (|td| + eps)^alpha`; 0 draws uniformly.
    pub alpha: f32,
    /// Exponent of the importance weights, `(N * P)^-beta`; annealed with
    /// [`set_beta`](super::GpuReplayBuffer::set_beta).
    pub beta: f32,
}

impl Default for GpuReplayBufferConfig {
    fn default() -> Self {
        Self {
            capacity: 1 << 16,
            state_dim: 80,
            // Schaul et al. 2016, table 3: the proportional variant.
            alpha: 0.6,
            beta: 0.4,
        }
    }
}

/// How states are held on the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateType {
    /// 4 bytes a component.
    #[default]
    F32,
    /// 2 bytes a component, rounded to nearest; half the memory and half the traffic.
    Bf16,
}

/// What a NaN, infinite or disallowed negative TD error does to its slot. It is counted either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadTdError {
    /// The slot keeps its priority.
    #[default]
    Refuse,
    /// The slot gets the largest priority so far, so that it is looked at again soon.
    UseMaximum,
}

/// Everything beyond [`GpuReplayBufferConfig`].
///
/// ```
/// let mut options = ml_dqn::gpu_replay_buffer::ReplayOptions::default();
/// options.seed = 7;
/// options.n_steps = 3;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// Seed of the draws: the same seed and the same calls draw the same indices, on any GPU.
    pub seed: u64,
    /// Added to the magnitude of a TD error, so that none has priority zero. At least 0.
    pub eps: f32,
    /// Transitions that must be there before a batch is drawn. `None`: as many as the batch has rows.
    /// Rows are drawn with replacement, so a smaller number is possible.
    pub min_size: Option<usize>,
    /// Steps summed into one return; 1 is plain Q-learning.
    pub n_steps: usize,
    /// Discount inside an n-step return. The agent's must be the same where `n_steps` > 1.
    pub gamma: f32,
    /// Environments that push; each has its own episodes. `push` and `push_batch` are for number 0.
    pub n_envs: usize,
    /// Largest batch that will be drawn, at most 2^20.
    pub max_batch: usize,
    /// How states are stored.
    pub stored_states: StateType,
    /// How states are handed out in a batch.
    pub batch_states: StateType,
    /// What a bad TD error does.
    pub bad_td_error: BadTdError,
    /// Whether a negative TD error counts by its magnitude, as `(|td| + eps)^alpha` says. Else it is bad.
    pub signed_td_errors: bool,
    /// Whether episodes are tracked, 16 bytes a slot, which hindsight relabelling needs.
    pub track_episodes: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            eps: 1e-6,
            min_size: None,
            n_steps: 1,
            gamma: 0.99,
            n_envs: 1,
            max_batch: 1 << 16,
            stored_states: StateType::F32,
            batch_states: StateType::F32,
            bad_td_error: BadTdError::Refuse,
            signed_td_errors: true,
            track_episodes: false,
        }
    }
}

/// Refuses what makes no sense, naming the field.
pub(super) fn validate(
    config: &GpuReplayBufferConfig,
    options: &ReplayOptions,
) -> Result<(), DqnError> {
    let refuse = |what: String| Err(DqnError::Config(what));
    if config.capacity == 0 || config.capacity > u32::MAX as usize {
        return refuse(format!(
            "`capacity` is {}; it must be from 1 to 2^32 - 1",
            config.capacity
        ));
    }
    if config.state_dim == 0 || config.state_dim > 1 << 20 {
        return refuse(format!(
            "`state_dim` is {}; it must be from 1 to 2^20",
            config.state_dim
        ));
    }
    for (name, value) in [
        ("alpha", config.alpha),
        ("beta", config.beta),
        ("eps", options.eps),
    ] {
        if !(value >= 0.0 && value.is_finite()) {
            return refuse(format!(
                "`{name}` is {value}; it must be finite and at least 0"
            ));
        }
    }
    if !(0.0..=1.0).contains(&options.gamma) {
        return refuse(format!(
            "`gamma` is {}; it must be from 0 to 1",
            options.gamma
        ));
    }
    if options.n_steps == 0 || options.n_steps > config.capacity {
        return refuse(format!(
            "`n_steps` is {}; it must be from 1 to the capacity, {}",
            options.n_steps, config.capacity
        ));
    }
    if options.n_envs == 0 || options.n_envs > 1 << 24 {
        return refuse(format!(
            "`n_envs` is {}; it must be from 1 to 2^24",
            options.n_envs
        ));
    }
    if options.max_batch == 0 || options.max_batch > MAX_BATCH {
        return refuse(format!(
            "`max_batch` is {}; it must be from 1 to {MAX_BATCH}",
            options.max_batch
        ));
    }
    Ok(())
}

pub(super) fn sizes(config: &GpuReplayBufferConfig, options: &ReplayOptions) -> PerSizes {
    PerSizes {
        layout: RecordLayout::new(
            config.capacity,
            config.state_dim,
            options.stored_states == StateType::Bf16,
        ),
        max_batch: options.max_batch,
        n_envs: options.n_envs,
        track_episodes: options.track_episodes,
    }
}

pub(super) fn update_rule(config: &GpuReplayBufferConfig, options: &ReplayOptions) -> UpdateRule {
    UpdateRule {
        alpha: config.alpha,
        eps: options.eps,
        bad_takes_max: options.bad_td_error == BadTdError::UseMaximum,
        signed: options.signed_td_errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_buffer_needs_what_arithmetic_says() {
        let config = GpuReplayBufferConfig {
            capacity: 24_700_000,
            ..Default::default()
        };
        let options = ReplayOptions::default();
        validate(&config, &options).unwrap();
        let bytes = sizes(&config, &options).bytes();
        // 24.7M * (2 * 80 + 4) * 4 bytes of records, 98.8 MB of priorities, and a few MB of sums.
        let records = 24_700_000u64 * 164 * 4;
        assert!(
            bytes > records + 98_800_000 && bytes < records + 103_000_000,
            "{bytes}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        type Break = fn(&mut GpuReplayBufferConfig, &mut ReplayOptions);
        let cases: [(&str, Break); 9] = [
            ("capacity", |c, _| c.capacity = 0),
            ("state_dim", |c, _| c.state_dim = 0),
            ("alpha", |c, _| c.alpha = f32::NAN),
            ("beta", |c, _| c.beta = -1.0),
            ("eps", |_, o| o.eps = -1e-6),
            ("gamma", |_, o| o.gamma = 1.5),
            ("n_steps", |_, o| o.n_steps = 0),
            ("n_envs", |_, o| o.n_envs = 0),
            ("max_batch", |_, o| o.max_batch = MAX_BATCH + 1),
        ];
        for (name, spoil) in cases {
            let (mut config, mut options) = Default::default();
            spoil(&mut config, &mut options);
            let error = validate(&config, &options).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}` is")), "{error}");
        }
    }
}
