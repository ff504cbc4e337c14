//! The agent: what it remembers, and how it acts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::CudaSlice;

use crate::error::DqnError;
use crate::gpu_replay_buffer::{GpuBatchPtrs, GpuReplayBuffer};
use crate::oracle::philox::{DOMAIN_ACT, philox4x32};

/// The part of the configuration that callers build literally.
#[derive(Debug, Clone, PartialEq)]
pub struct DqnConfig {
    /// Components of a state.
    pub state_dim: usize,
    /// Actions to choose from.
    pub num_actions: usize,
    /// Rows of a training batch.
    pub batch_size: usize,
    /// Discount of a reward one step later.
    pub gamma: f32,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            state_dim: 80,
            num_actions: 45,
            batch_size: 16_384,
            gamma: 0.99,
        }
    }
}

/// States to act in, row by row.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum States<'a> {
    /// In host memory, `[rows, state_dim]`.
    Host(&'a [f32]),
    /// In device memory, `[rows, state_dim]`.
    Device(&'a CudaSlice<f32>),
}

impl States<'_> {
    /// Values, all rows together.
    pub fn len(&self) -> usize {
        match self {
            Self::Host(states) => states.len(),
            Self::Device(states) => states.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [f32]> for States<'a> {
    fn from(states: &'a [f32]) -> Self {
        Self::Host(states)
    }
}

impl<'a> From<&'a Vec<f32>> for States<'a> {
    fn from(states: &'a Vec<f32>) -> Self {
        Self::Host(states)
    }
}

impl<'a> From<&'a CudaSlice<f32>> for States<'a> {
    fn from(states: &'a CudaSlice<f32>) -> Self {
        Self::Device(states)
    }
}

/// What estimates the value of each action: the network that training owns, as the agent sees it.
///
/// The trainer implements it for the parameters that its step updates and hands it over with
/// [`DqnAgent::set_network`]; this crate knows no network.
pub trait ActingNetwork: fmt::Debug + Send + Sync {
    /// Values of all actions in each of `rows` states, `[rows, num_actions]` row by row, on the host.
    ///
    /// # Errors
    /// What the network's own launches ran into.
    fn q_values(&self, states: States<'_>, rows: usize) -> Result<Vec<f32>, DqnError>;
}

/// Probability of a random action, falling linearly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpsilonSchedule {
    /// At the first choice.
    pub start: f32,
    /// After `choices` choices, and from then on.
    pub end: f32,
    /// Choices, one a state, over which it falls.
    pub choices: u64,
}

impl EpsilonSchedule {
    /// Always the same probability; 0 acts greedily.
    pub fn constant(epsilon: f32) -> Self {
        Self {
            start: epsilon,
            end: epsilon,
            choices: 1,
        }
    }

    /// The probability after `made` choices.
    pub fn at(&self, made: u64) -> f32 {
        if made >= self.choices {
            return self.end;
        }
        let part = made as f64 / self.choices as f64;
        (f64::from(self.start) + (f64::from(self.end) - f64::from(self.start)) * part) as f32
    }
}

impl Default for EpsilonSchedule {
    /// That of Mnih et al. 2015: from 1 to 0.1 over a million choices.
    fn default() -> Self {
        Self {
            start: 1.0,
            end: 0.1,
            choices: 1_000_000,
        }
    }
}

/// A deep Q-learning agent: a replay buffer and a policy.
#[derive(Debug)]
pub struct DqnAgent {
    config: DqnConfig,
    memory: GpuReplayBuffer,
    network: Option<Arc<dyn ActingNetwork>>,
    epsilon: EpsilonSchedule,
    seed: u64,
    /// States acted in so far: the generator's counter and the schedule's clock.
    choices: AtomicU64,
}

impl DqnAgent {
    /// An agent that remembers in `memory`.
    ///
    /// # Errors
    /// [`DqnError::Config`] where a size is zero, or configuration and memory disagree in `state_dim`, or in `gamma` while the
    /// memory sums n-step returns.
    pub fn new(config: DqnConfig, memory: GpuReplayBuffer) -> Result<Self, DqnError> {
        check(&config)?;
        let (theirs, options) = (memory.config(), memory.options());
        if theirs.state_dim != config.state_dim {
            return Err(DqnError::Config(format!(
                "`DqnConfig::state_dim` is {}, the replay buffer's {}",
                config.state_dim, theirs.state_dim
            )));
        }
        if options.n_steps > 1 && options.gamma != config.gamma {
            return Err(DqnError::Config(format!(
                "`DqnConfig::gamma` is {}, `ReplayOptions::gamma` {}; {}-step returns need one discount",
                config.gamma, options.gamma, options.n_steps
            )));
        }
        Ok(Self {
            seed: options.seed,
            config,
            memory,
            network: None,
            epsilon: EpsilonSchedule::default(),
            choices: AtomicU64::new(0),
        })
    }

    /// The settings that it was built with.
    pub fn config(&self) -> &DqnConfig {
        &self.config
    }

    /// What it remembers.
    pub fn memory(&self) -> &GpuReplayBuffer {
        &self.memory
    }

    /// What it remembers, to push to.
    pub fn memory_mut(&mut self) -> &mut GpuReplayBuffer {
        &mut self.memory
    }

    /// Draws a batch; [`GpuReplayBuffer::sample`].
    ///
    /// # Errors
    /// Those of [`GpuReplayBuffer::sample`].
    pub fn sample(&self, batch_size: usize) -> Result<GpuBatchPtrs, DqnError> {
        self.memory.sample(batch_size)
    }

    /// Gives the agent the network to act by.
    pub fn set_network(&mut self, network: Arc<dyn ActingNetwork>) {
        self.network = Some(network);
    }

    /// Sets how often it acts at random, and the seed of its choices (at first the buffer's).
    pub fn set_exploration(&mut self, epsilon: EpsilonSchedule, seed: u64) {
        self.epsilon = epsilon;
        self.seed = seed;
    }

    /// Probability with which the next choice is a random one.
    pub fn epsilon(&self) -> f32 {
        self.epsilon.at(self.choices.load(Ordering::Relaxed))
    }

    /// States acted in so far.
    pub fn choices(&self) -> u64 {
        self.choices.load(Ordering::Relaxed)
    }

    /// Goes on as if it had made so many choices: what a run that is taken up again sets from its checkpoint.
    pub fn set_choices(&mut self, made: u64) {
        *self.choices.get_mut() = made;
    }

    /// Values of all actions in each state, `[rows, num_actions]` row by row. Waits for the GPU.
    ///
    /// # Errors
    /// [`DqnError::Config`] without a network or with a broken row, or what the network ran into.
    pub fn q_values<'a>(&self, states: impl Into<States<'a>>) -> Result<Vec<f32>, DqnError> {
        let states = states.into();
        let state_dim = self.config.state_dim;
        if !states.len().is_multiple_of(state_dim) {
            return Err(DqnError::Config(format!(
                "{} values are no whole number of states of {state_dim} components",
                states.len()
            )));
        }
        let network = self.network.as_ref().ok_or_else(|| {
            DqnError::Config(
                "the agent has no network to act by; give it one with `DqnAgent::set_network`"
                    .into(),
            )
        })?;
        let rows = states.len() / state_dim;
        let values = network.q_values(states, rows)?;
        let expected = rows * self.config.num_actions;
        if values.len() != expected {
            return Err(DqnError::Config(format!(
                "the network gave {} values for {rows} states of {} actions",
                values.len(),
                self.config.num_actions
            )));
        }
        Ok(values)
    }

    /// Chooses an action for each state: at random with the schedule's probability, else the one with the largest value,
    /// the first of several. Waits for the GPU.
    ///
    /// The same seed and the same calls choose the same. Each state counts as one choice of the schedule.
    ///
    /// # Errors
    /// Those of [`q_values`](Self::q_values).
    pub fn select_actions<'a>(&self, states: impl Into<States<'a>>) -> Result<Vec<u32>, DqnError> {
        let values = self.q_values(states)?;
        let num_actions = self.config.num_actions;
        let rows = values.len() / num_actions;
        let first = self.choices.fetch_add(rows as u64, Ordering::Relaxed);
        let choose = |(row, values): (usize, &[f32])| {
            let choice = first + row as u64;
            choose_action(self.seed, choice, self.epsilon.at(choice), values)
        };
        Ok(values
            .chunks_exact(num_actions)
            .enumerate()
            .map(choose)
            .collect())
    }
}

/// Refuses a configuration that no agent can have.
fn check(config: &DqnConfig) -> Result<(), DqnError> {
    for (name, size) in [
        ("state_dim", config.state_dim),
        ("num_actions", config.num_actions),
        ("batch_size", config.batch_size),
    ] {
        if size == 0 {
            return Err(DqnError::Config(format!("`DqnConfig::{name}` is 0")));
        }
    }
    if !(0.0..=1.0).contains(&config.gamma) {
        return Err(DqnError::Config(format!(
            "`DqnConfig::gamma` is {}; it must be from 0 to 1",
            config.gamma
        )));
    }
    Ok(())
}

/// Epsilon-greedy, from random numbers that depend on (seed, choice) alone.
fn choose_action(seed: u64, choice: u64, epsilon: f32, values: &[f32]) -> u32 {
    let [explore, action, ..] = philox4x32(seed, 0, choice, DOMAIN_ACT);
    // 32 bits against a probability in f64: epsilon 0 never explores, epsilon 1 always does.
    if f64::from(explore) < f64::from(epsilon) * 4_294_967_296.0 {
        // The bias of this product is below num_actions / 2^32.
        return ((u64::from(action) * values.len() as u64) >> 32) as u32;
    }
    let mut best = 0;
    for (action, &value) in values.iter().enumerate() {
        if value > values[best] {
            best = action;
        }
    }
    best as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_falls_in_a_line_and_stays() {
        let schedule = EpsilonSchedule {
            start: 1.0,
            end: 0.1,
            choices: 10,
        };
        assert_eq!(schedule.at(0), 1.0);
        assert!((schedule.at(5) - 0.55).abs() < 1e-6);
        assert_eq!(schedule.at(10), 0.1);
        assert_eq!(schedule.at(u64::MAX), 0.1);
        assert_eq!(EpsilonSchedule::constant(0.3).at(0), 0.3);
    }

    #[test]
    fn greedy_takes_the_first_of_the_best() {
        for choice in 0..1000 {
            assert_eq!(choose_action(1, choice, 0.0, &[3.0, 3.0, -1.0]), 0);
            assert_eq!(choose_action(1, choice, 0.0, &[-1.0, 2.0, 2.0]), 1);
        }
    }

    #[test]
    fn exploring_is_uniform_and_reproducible() {
        let values = [9.0, 0.0, 0.0, 0.0];
        let mut counts = [0u32; 4];
        for choice in 0..40_000 {
            let action = choose_action(7, choice, 1.0, &values);
            assert_eq!(action, choose_action(7, choice, 1.0, &values));
            counts[action as usize] += 1;
        }
        // Five standard deviations of a binomial with n = 40,000 and p = 1/4 are 433.
        for count in counts {
            assert!(count.abs_diff(10_000) < 433, "{counts:?}");
        }
        let explored = (0..40_000)
            .filter(|&choice| choose_action(7, choice, 0.4, &values) != 0)
            .count();
        // 0.4 * 3/4 of the choices; five standard deviations are 458.
        assert!(explored.abs_diff(12_000) < 458, "{explored}");
    }

    #[test]
    fn sizes_of_zero_are_refused_by_name() {
        let config = DqnConfig {
            num_actions: 0,
            ..Default::default()
        };
        assert_eq!(
            check(&config).unwrap_err().to_string(),
            "`DqnConfig::num_actions` is 0"
        );
    }
}
