//! Blind Cliffwalk as the paper has it: a table of values, updated from one transition at a time.
//!
//! Schaul et al. 2016, appendix B.1: a step size of 1/4, values that begin near zero, a discount of 1 - 1/n, and a
//! memory with all that the 2ⁿ sequences of actions meet, in random order. The replay buffer on the GPU draws up to
//! 32 transitions at a time, of which each is one update here; their TD errors go back to it as priorities.

use std::error::Error;
use std::sync::Arc;

use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{Experience, GpuReplayBuffer, GpuReplayBufferConfig};

/// Mean squared error that counts as learned.
pub const LEARNED: f64 = 1e-3;
const STEP_SIZE: f64 = 0.25;

/// Place, action, reward, and whether the episode goes on to the next place.
#[derive(Debug, Clone, Copy)]
pub struct Transition {
    pub at: usize,
    pub action: usize,
    pub reward: f64,
    pub goes_on: bool,
}

/// The action that goes on; it alternates, so that it cannot be guessed from the last one.
pub fn onward(at: usize) -> usize {
    at % 2
}

/// Value of an action, once all is known.
pub fn truth(states: usize, at: usize, action: usize) -> f64 {
    let gamma = 1.0 - 1.0 / states as f64;
    if action == onward(at) {
        gamma.powi((states - 1 - at) as i32)
    } else {
        0.0
    }
}

/// The two transitions of each place.
pub fn distinct(states: usize) -> Vec<Transition> {
    let transition = |at: usize, action: usize| {
        let (right, last) = (action == onward(at), at + 1 == states);
        Transition {
            at,
            action,
            reward: f64::from(u8::from(right && last)),
            goes_on: right && !last,
        }
    };
    (0..states)
        .flat_map(|at| [transition(at, 0), transition(at, 1)])
        .collect()
}

/// What all sequences of actions meet: place i is left 2^(n-i) times, half of them the right way.
pub fn all(states: usize) -> Vec<Transition> {
    distinct(states)
        .into_iter()
        .flat_map(|transition| std::iter::repeat_n(transition, 1 << (states - transition.at - 1)))
        .collect()
}

/// Updates by transitions that the replay buffer draws, uniformly (`alpha` 0) or by priority; `None` after `most`.
pub fn replayed(
    states: usize,
    alpha: f32,
    seed: u64,
    most: usize,
) -> Result<Option<usize>, Box<dyn Error>> {
    let (_context, stream) = ml_cuda::open(0)?;
    let mut random = Random(seed);
    let mut transitions = all(states);
    for end in (1..transitions.len()).rev() {
        let other = (random.unit() * (end + 1) as f64) as usize;
        transitions.swap(end, other);
    }
    let config = GpuReplayBufferConfig {
        capacity: transitions.len(),
        state_dim: 1,
        alpha,
        beta: 0.0,
    };
    let mut options = ReplayOptions::default();
    options.seed = seed;
    options.min_size = Some(1);
    let mut memory = GpuReplayBuffer::with_options(config, options, Arc::clone(&stream))?;
    let experience = |transition: &Transition| Experience {
        state: vec![transition.at as f32],
        action: transition.action as u32,
        reward: transition.reward as f32,
        next_state: vec![(transition.at + 1) as f32],
        done: !transition.goes_on,
    };
    memory.push_batch(&transitions.iter().map(experience).collect::<Vec<_>>())?;
    // Far fewer than there are, so that a draw knows of the ones before it.
    let rows = (transitions.len() / 8).clamp(1, 32);
    let mut table = Table::new(states, &mut random);
    let mut updates = 0;
    while updates < most {
        let batch = memory.sample(rows)?;
        let mut td_errors = Vec::with_capacity(rows);
        for slot in batch.indices_to_host()? {
            let slot = usize::try_from(slot)?;
            td_errors.push(table.update(transitions[slot]) as f32);
            updates += 1;
            if table.error() <= LEARNED {
                return Ok(Some(updates));
            }
        }
        if alpha > 0.0 {
            let td_errors = stream.clone_htod(&td_errors)?;
            memory.update_priorities_gpu(&batch, &td_errors)?;
        }
    }
    Ok(None)
}

/// Updates by the oracle: each by the transition after which the error is least. A bound for any order of replay
/// that looks one update ahead; it needs the true values, so it is none to train with.
pub fn oracle(states: usize, seed: u64, most: usize) -> Option<usize> {
    let distinct = distinct(states);
    let mut table = Table::new(states, &mut Random(seed));
    for update in 1..=most {
        let error_after = |transition: &&Transition| {
            let mut tried = table.clone();
            tried.update(**transition);
            tried.error()
        };
        let best = distinct
            .iter()
            .min_by(|one, other| error_after(one).total_cmp(&error_after(other)))?;
        table.update(*best);
        if table.error() <= LEARNED {
            return Some(update);
        }
    }
    None
}

/// Values of all actions, and the true ones.
#[derive(Debug, Clone)]
struct Table {
    gamma: f64,
    values: Vec<f64>,
    truth: Arc<[f64]>,
}

impl Table {
    fn new(states: usize, random: &mut Random) -> Self {
        let places = (0..states).flat_map(|at| [(at, 0), (at, 1)]);
        Self {
            gamma: 1.0 - 1.0 / states as f64,
            values: (0..2 * states).map(|_| 0.1 * random.normal()).collect(),
            truth: places
                .map(|(at, action)| truth(states, at, action))
                .collect(),
        }
    }

    /// Takes a transition in, and returns its TD error from before.
    fn update(&mut self, transition: Transition) -> f64 {
        let place = 2 * transition.at + transition.action;
        let mut target = transition.reward;
        if transition.goes_on {
            let next = 2 * (transition.at + 1);
            target += self.gamma * self.values[next].max(self.values[next + 1]);
        }
        let td_error = target - self.values[place];
        self.values[place] += STEP_SIZE * td_error;
        td_error
    }

    fn error(&self) -> f64 {
        let squares = self.values.iter().zip(self.truth.iter());
        squares
            .map(|(value, truth)| (value - truth).powi(2))
            .sum::<f64>()
            / self.values.len() as f64
    }
}

/// Steele, Lea and Flood 2014.
struct Random(u64);

impl Random {
    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
