//! Environments to learn in, many at a time.
//!
//! [`Environment`] follows Gymnasium: `terminated` (no value lies beyond the state) and `truncated` (a
//! time limit; the value goes on) are told apart. [`ManyEnvironments`] steps a number of them and hands
//! out what the replay buffer's `push_steps` takes.

mod bit_flip;
mod cartpole;
mod mean_reverting;

use ml_dqn::gpu_replay_buffer::HostSteps;

pub use bit_flip::BitFlip;
pub use cartpole::CartPole;
pub use mean_reverting::{BestTrader, MeanReverting};

/// What one step of an environment gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Reward of this step.
    pub reward: f32,
    /// The episode ended in a terminal state.
    pub terminated: bool,
    /// The episode was cut off; its last state is not terminal.
    pub truncated: bool,
}

/// One environment with vectors as states and numbered actions.
pub trait Environment {
    /// Components of a state.
    fn state_dim(&self) -> usize;

    /// Actions to choose from.
    fn num_actions(&self) -> usize;

    /// Begins an episode. The same seed begins the same one.
    fn reset(&mut self, seed: u64);

    /// Takes an action.
    fn step(&mut self, action: u32) -> Step;

    /// Writes the state, [`state_dim`](Self::state_dim) numbers.
    fn observe(&self, state: &mut [f32]);
}

/// Environments that step together; an episode that ends is followed by a new one at once.
#[derive(Debug)]
pub struct ManyEnvironments<E> {
    environments: Vec<E>,
    state_dim: usize,
    /// Of the next episode to begin.
    next_seed: u64,
    states: Vec<f32>,
    before: Vec<f32>,
    after: Vec<f32>,
    actions: Vec<u32>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    env_id: Vec<u32>,
    returns: Vec<f64>,
    finished: Vec<f64>,
}

impl<E: Environment> ManyEnvironments<E> {
    /// Begins an episode in each, with seeds from `first_seed` on; later episodes take the seeds after.
    ///
    /// # Panics
    /// Without an environment.
    pub fn new(mut environments: Vec<E>, first_seed: u64) -> Self {
        let count = environments.len();
        let state_dim = environments
            .first()
            .expect("at least one environment")
            .state_dim();
        let mut states = vec![0.0; count * state_dim];
        for (at, environment) in environments.iter_mut().enumerate() {
            environment.reset(first_seed + at as u64);
            environment.observe(&mut states[at * state_dim..(at + 1) * state_dim]);
        }
        Self {
            environments,
            state_dim,
            next_seed: first_seed + count as u64,
            before: states.clone(),
            after: states.clone(),
            states,
            actions: vec![0; count],
            rewards: vec![0.0; count],
            terminated: vec![false; count],
            truncated: vec![false; count],
            env_id: (0..count as u32).collect(),
            returns: vec![0.0; count],
            finished: Vec::new(),
        }
    }

    /// Present states, `[environments][state_dim]`.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    /// Takes one action in each. The result goes to `GpuReplayBuffer::push_steps`; its next states are
    /// those before an episode began anew.
    ///
    /// # Panics
    /// Where the number of actions is not that of the environments.
    pub fn step(&mut self, actions: &[u32]) -> HostSteps<'_> {
        assert_eq!(
            actions.len(),
            self.environments.len(),
            "one action an environment"
        );
        self.actions.copy_from_slice(actions);
        self.before.copy_from_slice(&self.states);
        let dim = self.state_dim;
        for (at, environment) in self.environments.iter_mut().enumerate() {
            let step = environment.step(actions[at]);
            let place = at * dim..(at + 1) * dim;
            environment.observe(&mut self.after[place.clone()]);
            self.rewards[at] = step.reward;
            self.terminated[at] = step.terminated;
            self.truncated[at] = step.truncated;
            self.returns[at] += f64::from(step.reward);
            if step.terminated || step.truncated {
                self.finished.push(std::mem::take(&mut self.returns[at]));
                environment.reset(self.next_seed);
                self.next_seed += 1;
            }
            environment.observe(&mut self.states[place]);
        }
        HostSteps {
            states: &self.before,
            actions: &self.actions,
            rewards: &self.rewards,
            next_states: &self.after,
            terminated: &self.terminated,
            truncated: &self.truncated,
            env_id: &self.env_id,
        }
    }

    /// Returns of the episodes that ended since the last call, undiscounted.
    pub fn take_finished(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.finished)
    }
}

/// Steele, Lea and Flood 2014: a small generator, one for each episode.
#[derive(Debug, Clone)]
pub(crate) struct EpisodeRandom(u64);

impl EpisodeRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In [low, high).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Normal, with mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        // In (0, 1], whose logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform(0.0, 1.0)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(0.0, 1.0)).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its steps; action 1 ends the episode, and the fifth step cuts it off.
    #[derive(Debug, Default)]
    struct Counter {
        steps: u32,
        seed: u64,
    }

    impl Environment for Counter {
        fn state_dim(&self) -> usize {
            2
        }
        fn num_actions(&self) -> usize {
            2
        }
        fn reset(&mut self, seed: u64) {
            *self = Self { steps: 0, seed };
        }
        fn step(&mut self, action: u32) -> Step {
            self.steps += 1;
            Step {
                reward: 1.0,
                terminated: action == 1,
                truncated: self.steps == 5,
            }
        }
        fn observe(&self, state: &mut [f32]) {
            state.copy_from_slice(&[self.steps as f32, self.seed as f32]);
        }
    }

    #[test]
    fn the_last_state_of_an_episode_is_kept_and_a_new_one_begins() {
        let mut many = ManyEnvironments::new(vec![Counter::default(), Counter::default()], 10);
        assert_eq!(many.states(), [0.0, 10.0, 0.0, 11.0]);
        let steps = many.step(&[0, 1]);
        assert_eq!(steps.states, [0.0, 10.0, 0.0, 11.0]);
        assert_eq!(steps.next_states, [1.0, 10.0, 1.0, 11.0]);
        assert_eq!(
            (steps.terminated, steps.truncated),
            (&[false, true][..], &[false, false][..])
        );
        // The second begins anew, with the next seed.
        assert_eq!(many.states(), [1.0, 10.0, 0.0, 12.0]);
        for _ in 0..3 {
            many.step(&[0, 0]);
        }
        let steps = many.step(&[0, 0]);
        assert_eq!(
            (steps.terminated, steps.truncated),
            (&[false, false][..], &[true, false][..])
        );
        assert_eq!(many.take_finished(), [1.0, 5.0]);
        assert!(many.take_finished().is_empty());
    }
}
