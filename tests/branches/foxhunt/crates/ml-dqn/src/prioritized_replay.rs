//! Prioritized replay on the CPU (Schaul et al. 2016): a segment tree of priorities, stratified draws.

use std::cell::{Cell, RefCell};

use crate::error::DqnError;
use crate::experience::Experience;
use crate::prioritized_replay_staleness::{StalenessConfig, StalenessTracker};
use crate::replay_buffer::{Ring, SplitMix};

#[derive(Debug, Clone)]
pub struct PrioritizedReplayConfig {
    pub capacity: usize,
    /// How much priorities count: 0 is uniform.
    pub alpha: f32,
    /// How much of the bias is corrected: 1 is all of it.
    pub beta: f32,
    /// Added to each error, so that none is never drawn again.
    pub epsilon: f32,
}

impl Default for PrioritizedReplayConfig {
    fn default() -> Self {
        Self { capacity: 100_000, alpha: 0.6, beta: 0.4, epsilon: 1e-5 }
    }
}

/// Transitions, importance weights (largest 1), slots.
pub type Drawn = (Vec<Experience>, Vec<f32>, Vec<usize>);

#[derive(Debug)]
pub struct PrioritizedReplayBuffer {
    config: PrioritizedReplayConfig,
    ring: Ring,
    tree: RefCell<SegmentTree>,
    staleness: RefCell<StalenessTracker>,
    max_priority: Cell<f64>,
    draws: SplitMix,
}

impl PrioritizedReplayBuffer {
    pub fn new(config: PrioritizedReplayConfig) -> Self {
        Self {
            ring: Ring::new(config.capacity),
            tree: RefCell::new(SegmentTree::new(config.capacity)),
            staleness: RefCell::new(StalenessTracker::new(StalenessConfig::default(), config.capacity)),
            max_priority: Cell::new(1.0),
            draws: SplitMix::new(config.capacity as u64),
            config,
        }
    }

    /// New transitions get the largest priority so far: each is drawn soon.
    pub fn push(&mut self, experience: Experience) {
        let slot = self.ring.push(experience);
        self.tree.get_mut().set(slot, self.max_priority.get());
        self.staleness.get_mut().touch(slot);
    }

    /// One draw from each of `batch_size` equal slices of the priority mass.
    pub fn sample(&self, batch_size: usize) -> Result<Drawn, DqnError> {
        self.ring.require(batch_size)?;
        let tree = self.tree.borrow();
        let slice = tree.total() / batch_size as f64;
        let indices: Vec<usize> = (0..batch_size)
            .map(|row| tree.find((row as f64 + self.draws.unit()) * slice).min(self.ring.len() - 1))
            .collect();

        let mut weights: Vec<f32> = indices
            .iter()
            .map(|&index| {
                let probability = tree.get(index) / tree.total();
                (self.ring.len() as f64 * probability).powf(-f64::from(self.config.beta)) as f32
            })
            .collect();
        let largest = weights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        weights.iter_mut().for_each(|weight| *weight /= largest);
        Ok((self.ring.gather(&indices), weights, indices))
    }

    pub fn update_priorities(&self, indices: &[usize], td_errors: &[f32]) -> Result<(), DqnError> {
        if indices.len() != td_errors.len() {
            let (n_indices, n_errors) = (indices.len(), td_errors.len());
            return Err(DqnError::Config(format!("{n_indices} indices, but {n_errors} TD errors")));
        }
        if let Some(index) = indices.iter().find(|&&index| index >= self.ring.len()) {
            return Err(DqnError::Config(format!("no transition at {index}")));
        }
        let mut tree = self.tree.borrow_mut();
        let mut staleness = self.staleness.borrow_mut();
        for (&index, &td_error) in indices.iter().zip(td_errors) {
            let priority = f64::from(td_error.abs() + self.config.epsilon).powf(f64::from(self.config.alpha));
            self.max_priority.set(self.max_priority.get().max(priority));
            tree.set(index, priority);
            staleness.touch(index);
        }
        staleness.advance();
        Ok(())
    }

    /// The share of priorities that no update has renewed for long.
    pub fn stale_share(&self) -> f32 {
        self.staleness.borrow().stale_share(self.ring.len())
    }

    pub fn set_beta(&mut self, beta: f32) {
        self.config.beta = beta;
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    pub fn can_sample(&self, batch_size: usize) -> bool {
        batch_size > 0 && batch_size <= self.len()
    }

    pub fn clear(&mut self) {
        self.ring.clear();
        self.tree.get_mut().clear();
    }
}

/// Sums over a power of two of leaves; node `n` has the children `2n` and `2n + 1`, the root is node 1.
#[derive(Debug)]
struct SegmentTree {
    sums: Vec<f64>,
    n_leaves: usize,
}

impl SegmentTree {
    fn new(capacity: usize) -> Self {
        let n_leaves = capacity.next_power_of_two();
        Self { sums: vec![0.0; 2 * n_leaves], n_leaves }
    }

    fn total(&self) -> f64 {
        self.sums[1]
    }

    fn get(&self, leaf: usize) -> f64 {
        self.sums[self.n_leaves + leaf]
    }

    fn set(&mut self, leaf: usize, priority: f64) {
        let mut node = self.n_leaves + leaf;
        self.sums[node] = priority;
        // Sums are taken anew rather than shifted by a difference: rounding errors do not pile up.
        while node > 1 {
            node /= 2;
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1];
        }
    }

    /// The leaf in whose slice of the mass `mass` falls.
    fn find(&self, mut mass: f64) -> usize {
        let mut node = 1;
        while node < self.n_leaves {
            let left = 2 * node;
            // Never into a side without mass, even where rounding would lead there.
            node = if mass < self.sums[left] || self.sums[left + 1] <= 0.0 {
                left
            } else {
                mass -= self.sums[left];
                left + 1
            };
        }
        node - self.n_leaves
    }

    fn clear(&mut self) {
        self.sums.fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(n: usize, config: PrioritizedReplayConfig) -> PrioritizedReplayBuffer {
        let mut memory = PrioritizedReplayBuffer::new(config);
        for at in 0..n {
            memory.push(Experience {
                state: vec![at as f32],
                action: at as u32,
                reward: 0.0,
                next_state: vec![],
                done: false,
            });
        }
        memory
    }

    #[test]
    fn tree_agrees_with_a_running_sum() {
        let mut tree = SegmentTree::new(5);
        let priorities = [0.5, 0.0, 2.0, 1.0, 0.25];
        for (leaf, &priority) in priorities.iter().enumerate() {
            tree.set(leaf, priority);
        }
        assert_eq!(tree.total(), 3.75);
        for step in 0..375 {
            let mass = f64::from(step) * 0.01;
            let mut below = 0.0;
            let expected = priorities
                .iter()
                .position(|priority| {
                    below += priority;
                    mass < below
                })
                .unwrap();
            assert_eq!(tree.find(mass), expected, "mass {mass}");
        }
    }

    #[test]
    fn large_errors_come_often_and_weigh_little() {
        let memory = filled(4, PrioritizedReplayConfig { capacity: 4, alpha: 1.0, beta: 1.0, epsilon: 0.0 });
        memory.update_priorities(&[0, 1, 2, 3], &[1.0, -1.0, 1.0, 5.0]).unwrap();
        let mut n_largest = 0;
        for _ in 0..500 {
            let (experiences, weights, indices) = memory.sample(4).unwrap();
            for ((experience, &weight), &index) in experiences.iter().zip(&weights).zip(&indices) {
                assert_eq!(experience.action as usize, index);
                assert!(weight > 0.0 && weight <= 1.0);
                n_largest += usize::from(index == 3);
            }
        }
        // Five eighths of 2,000 draws.
        assert!((1_150..1_350).contains(&n_largest), "{n_largest}");
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let memory = filled(2, PrioritizedReplayConfig { capacity: 4, ..Default::default() });
        assert!(memory.update_priorities(&[0], &[]).is_err());
        assert!(memory.update_priorities(&[2], &[1.0]).is_err());
        assert!(memory.sample(3).is_err());
        assert_eq!(memory.stale_share(), 0.0);
    }

    #[test]
    fn starts_over() {
        let mut memory = filled(6, PrioritizedReplayConfig { capacity: 4, ..Default::default() });
        assert_eq!(memory.len(), 4);
        memory.clear();
        assert!(memory.is_empty() && !memory.can_sample(1));
    }
}
