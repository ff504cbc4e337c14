//! What a strategy is configured with, and the little format that it is written in.

use std::str::FromStr;

use crate::error::StrategyError;
use crate::risk::RiskLimits;

/// Where transitions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// Prioritized, on the device.
    #[default]
    Device,
    /// Prioritized, on the host.
    Tree,
    /// Uniform, on the host.
    Uniform,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StrategyConfig {
    /// Bars that the mean is taken over.
    pub window: usize,
    /// Deviations from the mean, in standard deviations, that count as far.
    pub entry_z: f32,
    pub memory: MemoryKind,
    pub capacity: usize,
    pub batch_size: usize,
    /// Rows per launch of the feature kernels; has nothing to do with how the memory is drawn from.
    pub gpu_batch: usize,
    /// Bars between two updates.
    pub update_every: usize,
    pub steps_per_update: usize,
    /// Share of actions that are tried at random.
    pub epsilon: f32,
    pub limits: RiskLimits,
}

impl Default for StrategyConfig {
    fn default() -> Self {
        Self {
            window: 20,
            entry_z: 1.0,
            memory: MemoryKind::default(),
            capacity: 1 << 14,
            batch_size: 64,
            gpu_batch: 1 << 12,
            update_every: 32,
            steps_per_update: 8,
            epsilon: 0.1,
            limits: RiskLimits::default(),
        }
    }
}

impl StrategyConfig {
    /// Values in a state; see [`crate::features`].
    pub fn state_dim(&self) -> usize {
        crate::features::N_FEATURES
    }

    /// Launches of the feature kernels for `n_bars`.
    pub fn n_launches(&self, n_bars: usize) -> usize {
        n_bars.div_ceil(self.gpu_batch.max(1))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        fn number<T: FromStr>(value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("`{value}` is no number that fits"))
        }
        match key {
            "window" => self.window = number(value)?,
            "entry_z" => self.entry_z = number(value)?,
            "capacity" => self.capacity = number(value)?,
            "batch_size" => self.batch_size = number(value)?,
            "gpu_batch" => self.gpu_batch = number(value)?,
            "update_every" => self.update_every = number(value)?,
            "steps_per_update" => self.steps_per_update = number(value)?,
            "epsilon" => self.epsilon = number(value)?,
            "max_position" => self.limits.max_position = number(value)?,
            "max_loss" => self.limits.max_loss = number(value)?,
            "memory" => {
                self.memory = match value {
                    "device" => MemoryKind::Device,
                    "tree" => MemoryKind::Tree,
                    "uniform" => MemoryKind::Uniform,
                    _ => return Err(format!("`{value}` is none of device, tree, uniform")),
                }
            }
            _ => return Err(format!("`{key}` is not a setting")),
        }
        Ok(())
    }
}

/// `key = value` lines; `#` starts a comment.
impl FromStr for StrategyConfig {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let mut config = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at_line = |what| StrategyError::Config { line: at + 1, what };
            let (key, value) = line.split_once('=').ok_or_else(|| at_line(format!("`{line}` has no `=`")))?;
            config.set(key.trim(), value.trim()).map_err(at_line)?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows() {
        let config: StrategyConfig = "window = 5 # short\n\nmemory=tree\ngpu_batch = 100\n".parse().unwrap();
        assert_eq!((config.window, config.memory, config.gpu_batch), (5, MemoryKind::Tree, 100));
        assert_eq!(config.n_launches(250), 3);
    }

    #[test]
    fn says_where_it_does_not() {
        for (text, needle) in
            [("window = 5\nwindow", "line 2"), ("memory = disk", "device, tree"), ("colour = 3", "`colour`")]
        {
            let err = text.parse::<StrategyConfig>().unwrap_err();
            assert!(err.to_string().contains(needle), "{err}");
        }
    }
}
