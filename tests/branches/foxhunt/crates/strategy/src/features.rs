//! Bars to states.

use std::collections::VecDeque;

use crate::market::Bar;

/// z-score, its change, volume ratio, position, one.
pub const N_FEATURES: usize = 5;

/// The last bars, and what they say.
#[derive(Debug, Clone)]
pub struct Window {
    bars: VecDeque<Bar>,
    size: usize,
    last_z: f32,
}

impl Window {
    pub fn new(size: usize) -> Self {
        Self { bars: VecDeque::with_capacity(size), size: size.max(2), last_z: 0.0 }
    }

    /// The state after `bar` with the given position; `None` until the window is full.
    pub fn push(&mut self, bar: Bar, position: f32) -> Option<Vec<f32>> {
        if self.bars.len() == self.size {
            self.bars.pop_front();
        }
        self.bars.push_back(bar);
        if self.bars.len() < self.size {
            return None;
        }
        let n = self.size as f32;
        let mean = self.bars.iter().map(|bar| bar.close).sum::<f32>() / n;
        let variance = self.bars.iter().map(|bar| (bar.close - mean).powi(2)).sum::<f32>() / n;
        let volume = self.bars.iter().map(|bar| bar.volume).sum::<f32>() / n;
        let z = (bar.close - mean) / variance.sqrt().max(1e-6);
        let change = z - std::mem::replace(&mut self.last_z, z);
        Some(vec![z, change, bar.volume / volume.max(1e-6) - 1.0, position, 1.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z_score_of_a_jump() {
        let mut window = Window::new(4);
        let bar = |close| Bar { close, volume: 10.0 };
        for close in [1.0, 1.0, 1.0] {
            assert!(window.push(bar(close), 0.0).is_none());
        }
        let state = window.push(bar(5.0), 0.5).unwrap();
        assert_eq!(state.len(), N_FEATURES);
        // mean 2, deviation sqrt(3)
        assert!((state[0] - 3.0f32.sqrt()).abs() < 1e-5);
        assert_eq!(state[2..], [0.0, 0.5, 1.0]);
    }
}
