//! Hindsight relabelling on the device.
//!
//! Replaces the CPU's `HindsightReplayBuffer` where the memory is on the GPU: whole episodes stay there.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};

use crate::error::DqnError;

#[derive(Debug, Clone)]
pub struct GpuHerConfig {
    /// Relabelled copies of each transition.
    pub k: usize,
    /// How many of a state's last values are the goal.
    pub goal_dim: usize,
}

impl Default for GpuHerConfig {
    fn default() -> Self {
        Self { k: 4, goal_dim: 2 }
    }
}

pub struct GpuHer {
    config: GpuHerConfig,
    stream: Arc<CudaStream>,
}

impl GpuHer {
    pub fn new(config: GpuHerConfig, stream: Arc<CudaStream>) -> Result<Self, DqnError> {
        if config.goal_dim == 0 {
            return Err(DqnError::Config("goal_dim must be positive".into()));
        }
        Ok(Self { config, stream })
    }

    pub fn config(&self) -> &GpuHerConfig {
        &self.config
    }

    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Gives every row of `states` (`[n][state_dim]`) the goal that row `source` of `reached` ends in.
    ///
    /// A copy per row: meant for single episodes, not for batches.
    pub fn relabel_from(
        &self,
        states: &mut CudaSlice<f32>,
        reached: &CudaSlice<f32>,
        source: usize,
        state_dim: usize,
    ) -> Result<(), DqnError> {
        let goal_dim = self.config.goal_dim;
        if state_dim < goal_dim
            || reached.len() < (source + 1) * state_dim
            || !states.len().is_multiple_of(state_dim)
        {
            return Err(DqnError::Config(format!(
                "states of {state_dim} values with goals of {goal_dim}: {} and {} values do not fit",
                states.len(),
                reached.len(),
            )));
        }
        let goal = reached.slice((source + 1) * state_dim - goal_dim..(source + 1) * state_dim);
        for row in 1..=states.len() / state_dim {
            let end = row * state_dim;
            self.stream.memcpy_dtod(&goal, &mut states.slice_mut(end - goal_dim..end))?;
        }
        Ok(())
    }
}
