//! Figures of a run.

/// Gains per bar, and what they come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunMetrics {
    gains: Vec<f32>,
}

impl RunMetrics {
    pub fn push(&mut self, gain: f32) {
        self.gains.push(gain);
    }

    pub fn total(&self) -> f32 {
        self.gains.iter().sum()
    }

    /// Mean over deviation, not annualized; zero where there is no deviation.
    pub fn sharpe(&self) -> f32 {
        let n = self.gains.len() as f32;
        if n < 2.0 {
            return 0.0;
        }
        let mean = self.total() / n;
        let variance = self.gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f32>() / (n - 1.0);
        if variance > 0.0 { mean / variance.sqrt() } else { 0.0 }
    }

    /// The deepest fall from a height reached before.
    pub fn max_drawdown(&self) -> f32 {
        let (mut sum, mut height, mut deepest) = (0.0f32, 0.0f32, 0.0f32);
        for gain in &self.gains {
            sum += gain;
            height = height.max(sum);
            deepest = deepest.max(height - sum);
        }
        deepest
    }
}

impl FromIterator<f32> for RunMetrics {
    fn from_iter<I: IntoIterator<Item = f32>>(gains: I) -> Self {
        Self { gains: gains.into_iter().collect() }
    }
}

/// Kish's effective sample size: how many equal weights these weights are worth.
pub fn effective_size(weights: &[f32]) -> f32 {
    let (sum, squares) = weights.iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    if squares > 0.0 { sum * sum / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores() {
        let run: RunMetrics = [1.0, -2.0, 3.0, -1.0, -1.0].into_iter().collect();
        assert_eq!((run.total(), run.max_drawdown()), (0.0, 2.0));
        assert_eq!(run.sharpe(), 0.0);
        assert_eq!(RunMetrics::default().sharpe(), 0.0);
    }

    #[test]
    fn equal_weights_are_worth_themselves() {
        assert_eq!(effective_size(&[0.5; 8]), 8.0);
        assert_eq!(effective_size(&[1.0, 0.0, 0.0]), 1.0);
        assert_eq!(effective_size(&[]), 0.0);
    }
}
