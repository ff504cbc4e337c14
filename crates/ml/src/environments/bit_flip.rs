//! Bit-flipping: the example of Andrychowicz et al. 2017, "Hindsight Experience Replay", section 3.1.

use super::{Environment, EpisodeRandom, Step};

/// State: `bits` numbers, then as many of the goal, each -1 or 1. Action i flips bit i.
///
/// Bits and goal are drawn uniformly. Reward 0 where the bits equal the goal, which terminates; else -1.
/// Truncated after as many steps as there are bits.
#[derive(Debug, Clone)]
pub struct BitFlip {
    bits: Vec<f32>,
    goal: Vec<f32>,
    steps: usize,
}

impl BitFlip {
    /// # Panics
    /// Without a bit.
    pub fn new(bits: usize) -> Self {
        assert!(bits > 0, "at least one bit");
        Self {
            bits: vec![1.0; bits],
            goal: vec![-1.0; bits],
            steps: 0,
        }
    }

    /// Whether the bits equal the goal.
    pub fn solved(&self) -> bool {
        self.bits == self.goal
    }
}

impl Environment for BitFlip {
    fn state_dim(&self) -> usize {
        2 * self.bits.len()
    }

    fn num_actions(&self) -> usize {
        self.bits.len()
    }

    fn reset(&mut self, seed: u64) {
        let mut random = EpisodeRandom::new(seed);
        // An episode that begins at its goal has no step to take.
        loop {
            for bit in self.bits.iter_mut().chain(&mut self.goal) {
                *bit = if random.next() >> 63 == 1 { 1.0 } else { -1.0 };
            }
            if !self.solved() {
                break;
            }
        }
        self.steps = 0;
    }

    fn step(&mut self, action: u32) -> Step {
        let bit = &mut self.bits[action as usize];
        *bit = -*bit;
        self.steps += 1;
        let solved = self.solved();
        Step {
            reward: if solved { 0.0 } else { -1.0 },
            terminated: solved,
            truncated: !solved && self.steps >= self.bits.len(),
        }
    }

    fn observe(&self, state: &mut [f32]) {
        let (bits, goal) = state.split_at_mut(self.bits.len());
        bits.copy_from_slice(&self.bits);
        goal.copy_from_slice(&self.goal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flipping_what_differs_solves_it() {
        let mut flip = BitFlip::new(12);
        flip.reset(5);
        let mut state = vec![0.0; 24];
        flip.observe(&mut state);
        let differ: Vec<u32> = (0..12)
            .filter(|at| state[*at] != state[12 + at])
            .map(|at| at as u32)
            .collect();
        assert!(!differ.is_empty());
        for (at, action) in differ.iter().enumerate() {
            let last = at + 1 == differ.len();
            let step = flip.step(*action);
            assert_eq!(step.terminated, last);
            assert_eq!(step.reward, if last { 0.0 } else { -1.0 });
            assert!(!step.truncated);
        }
    }

    #[test]
    fn an_episode_lasts_as_long_as_there_are_bits() {
        let mut flip = BitFlip::new(3);
        flip.reset(1);
        // The same bit to and fro never helps where two or more differ, so find such an episode.
        let mut seed = 1;
        while flip
            .bits
            .iter()
            .zip(&flip.goal)
            .filter(|(bit, goal)| bit != goal)
            .count()
            < 2
        {
            seed += 1;
            flip.reset(seed);
        }
        let steps: Vec<Step> = (0..3).map(|_| flip.step(0)).collect();
        assert!(!steps[1].truncated && steps[2].truncated && !steps[2].terminated);
    }
}
