//! Prices: where they come from, and samples of them.

/// One minute of trading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub close: f32,
    pub volume: f32,
}

/// A price that is pulled back to its mean (Uhlenbeck, Ornstein 1930), for paper trading and for tests.
#[derive(Debug, Clone)]
pub struct MeanRevertingMarket {
    price: f32,
    mean: f32,
    pull: f32,
    noise: f32,
    state: u32,
}

impl MeanRevertingMarket {
    pub fn new(mean: f32, seed: u32) -> Self {
        Self { price: mean, mean, pull: 0.1, noise: 0.5, state: seed | 1 }
    }

    /// About normal: the sum of four uniform draws, scaled to deviation one.
    fn draw(&mut self) -> f32 {
        let mut sum = -2.0;
        for _ in 0..4 {
            self.state = self.state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            sum += (self.state >> 8) as f32 / (1u32 << 24) as f32;
        }
        sum * 3.0f32.sqrt()
    }
}

impl Iterator for MeanRevertingMarket {
    type Item = Bar;

    fn next(&mut self) -> Option<Bar> {
        self.price += self.pull * (self.mean - self.price) + self.noise * self.draw();
        let volume = 100.0 + 50.0 * (self.price - self.mean).abs();
        Some(Bar { close: self.price, volume })
    }
}

/// Every n-th bar of a longer series. Not what the agent draws: that is `ml_dqn`'s.
#[derive(Debug, Clone, Default)]
pub struct BatchSample {
    pub bars: Vec<Bar>,
    pub weights: Vec<f32>,
}

impl BatchSample {
    /// Weighted by volume.
    pub fn every_nth(bars: &[Bar], n: usize) -> Self {
        let bars: Vec<Bar> = bars.iter().step_by(n.max(1)).copied().collect();
        let total: f32 = bars.iter().map(|bar| bar.volume).sum();
        let weights = bars.iter().map(|bar| bar.volume / total).collect();
        Self { bars, weights }
    }

    pub fn is_gpu(&self) -> bool {
        false
    }

    pub fn mean_close(&self) -> f32 {
        self.bars.iter().zip(&self.weights).map(|(bar, weight)| bar.close * weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_to_its_mean() {
        let bars: Vec<Bar> = MeanRevertingMarket::new(100.0, 5).take(5_000).collect();
        let batch = BatchSample::every_nth(&bars, 10);
        assert_eq!(batch.bars.len(), 500);
        assert!((batch.mean_close() - 100.0).abs() < 0.5, "{}", batch.mean_close());
        assert!(!batch.is_gpu());
        assert!(bars.iter().all(|bar| (bar.close - 100.0).abs() < 10.0));
    }
}
