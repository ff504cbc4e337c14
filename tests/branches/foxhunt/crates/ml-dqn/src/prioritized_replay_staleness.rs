//! How old a priority is.
//!
//! A transition whose TD error was large once keeps its priority until it is drawn again, however much the
//! network has changed since.

#[derive(Debug, Clone)]
pub struct StalenessConfig {
    /// A priority that was written longer ago than this many updates is stale.
    pub max_age: u64,
}

impl Default for StalenessConfig {
    fn default() -> Self {
        Self { max_age: 50_000 }
    }
}

/// Remembers at which update each priority was written.
#[derive(Debug)]
pub struct StalenessTracker {
    config: StalenessConfig,
    written_at: Vec<u64>,
    now: u64,
}

impl StalenessTracker {
    pub fn new(config: StalenessConfig, capacity: usize) -> Self {
        Self { config, written_at: vec![0; capacity], now: 0 }
    }

    /// The priority at `index` was written just now.
    pub fn touch(&mut self, index: usize) {
        self.written_at[index] = self.now;
    }

    /// One more update of the network.
    pub fn advance(&mut self) {
        self.now += 1;
    }

    pub fn age(&self, index: usize) -> u64 {
        self.now - self.written_at[index]
    }

    pub fn is_stale(&self, index: usize) -> bool {
        self.age(index) > self.config.max_age
    }

    /// The share of the first `len` priorities that are stale.
    pub fn stale_share(&self, len: usize) -> f32 {
        let stale = (0..len).filter(|&index| self.is_stale(index)).count();
        stale as f32 / len.max(1) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_is_renewed() {
        let mut tracker = StalenessTracker::new(StalenessConfig { max_age: 1 }, 2);
        tracker.advance();
        assert!(!tracker.is_stale(0));
        tracker.advance();
        tracker.touch(1);
        assert!(tracker.is_stale(0) && !tracker.is_stale(1));
        assert_eq!(tracker.age(0), 2);
        assert_eq!(tracker.stale_share(2), 0.5);
    }
}
