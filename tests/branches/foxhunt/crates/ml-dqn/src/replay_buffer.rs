//! Uniform replay on the CPU: a ring of transitions, every one as likely as any other.

use std::cell::Cell;

use crate::error::DqnError;
use crate::experience::Experience;

#[derive(Debug, Clone)]
pub struct ReplayBufferConfig {
    /// How many transitions are kept; the oldest goes first.
    pub capacity: usize,
    pub seed: u64,
}

impl Default for ReplayBufferConfig {
    fn default() -> Self {
        Self { capacity: 100_000, seed: 0x5EED }
    }
}

#[derive(Debug)]
pub struct ReplayBuffer {
    ring: Ring,
    draws: SplitMix,
}

impl ReplayBuffer {
    pub fn new(config: ReplayBufferConfig) -> Self {
        Self { ring: Ring::new(config.capacity), draws: SplitMix::new(config.seed) }
    }

    pub fn push(&mut self, experience: Experience) {
        self.ring.push(experience);
    }

    /// Draws with replacement.
    pub fn sample(&self, batch_size: usize) -> Result<(Vec<Experience>, Vec<usize>), DqnError> {
        self.ring.require(batch_size)?;
        let indices: Vec<usize> = (0..batch_size).map(|_| self.draws.below(self.ring.len())).collect();
        Ok((self.ring.gather(&indices), indices))
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn capacity(&self) -> usize {
        self.ring.capacity
    }

    pub fn can_sample(&self, batch_size: usize) -> bool {
        batch_size > 0 && batch_size <= self.len()
    }

    pub fn clear(&mut self) {
        self.ring.clear();
    }
}

/// The last `capacity` transitions. Shared by both CPU buffers.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: Vec<Experience>,
    capacity: usize,
    next: usize,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a replay buffer needs room for one transition");
        Self { slots: Vec::new(), capacity, next: 0 }
    }

    /// Returns the slot that was written.
    pub(crate) fn push(&mut self, experience: Experience) -> usize {
        let slot = self.next;
        match self.slots.get_mut(slot) {
            Some(oldest) => *oldest = experience,
            None => self.slots.push(experience),
        }
        self.next = (slot + 1) % self.capacity;
        slot
    }

    pub(crate) fn gather(&self, indices: &[usize]) -> Vec<Experience> {
        indices.iter().map(|&index| self.slots[index].clone()).collect()
    }

    pub(crate) fn require(&self, batch_size: usize) -> Result<(), DqnError> {
        if batch_size == 0 {
            return Err(DqnError::Config("a batch has at least one row".into()));
        }
        if batch_size > self.slots.len() {
            return Err(DqnError::NotEnoughData { have: self.slots.len(), need: batch_size });
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.next = 0;
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to draw rows with.
#[derive(Debug)]
pub(crate) struct SplitMix(Cell<u64>);

impl SplitMix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    fn bits(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// In `0..n`; the bias of at most `n / 2^64` does not matter here.
    pub(crate) fn below(&self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// In `0.0..1.0`.
    pub(crate) fn unit(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(at: usize) -> Experience {
        Experience {
            state: vec![at as f32],
            action: 0,
            reward: at as f32,
            next_state: vec![at as f32 + 1.0],
            done: false,
        }
    }

    #[test]
    fn oldest_goes_first() {
        let mut memory = ReplayBuffer::new(ReplayBufferConfig { capacity: 3, seed: 1 });
        (0..5).for_each(|at| memory.push(numbered(at)));
        let (experiences, indices) = memory.sample(3).unwrap();
        assert!(experiences.iter().all(|experience| experience.reward >= 2.0));
        assert!(indices.iter().all(|&index| index < 3));
        assert_eq!((memory.len(), memory.capacity()), (3, 3));
    }

    #[test]
    fn every_slot_is_drawn_about_as_often() {
        let mut memory = ReplayBuffer::new(ReplayBufferConfig { capacity: 8, seed: 9 });
        (0..8).for_each(|at| memory.push(numbered(at)));
        let mut counts = [0u32; 8];
        for _ in 0..1_000 {
            for index in memory.sample(8).unwrap().1 {
                counts[index] += 1;
            }
        }
        // 1,000 expected, standard deviation about 30: five of them either way.
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn asks_for_enough() {
        let mut memory = ReplayBuffer::new(ReplayBufferConfig { capacity: 2, ..Default::default() });
        assert!(matches!(memory.sample(1), Err(DqnError::NotEnoughData { have: 0, need: 1 })));
        memory.push(numbered(0));
        assert!(memory.can_sample(1) && !memory.can_sample(0) && !memory.can_sample(2));
        memory.clear();
        assert!(memory.is_empty());
    }
}
