//! A program that still has a CPU path on purpose: some of it cannot be migrated by a machine.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{DqnAgent, DqnConfig, DqnError, GpuReplayBuffer, GpuReplayBufferConfig};
use ml_dqn::{ReplayBufferConfig, ReplayBufferType};

pub mod config;
pub mod describe;
pub mod stats;

#[derive(Clone, Default)]
pub struct Settings {
    pub gpu: Option<GpuReplayBufferConfig>,
    pub capacity: usize,
}

/// GPU where there is one.
pub fn open(settings: &Settings, stream: Option<Arc<CudaStream>>) -> Result<GpuReplayBuffer, DqnError> {
    match (settings.gpu.clone(), stream) {
        (Some(config), Some(stream)) => GpuReplayBuffer::new(config, stream),
        _ => {
            eprintln!("no device: uniform replay");
            Ok(ReplayBufferType::uniform(ReplayBufferConfig { capacity: settings.capacity, ..Default::default() }))
        }
    }
}

pub fn agent(settings: &Settings, stream: Option<Arc<CudaStream>>) -> Result<DqnAgent, DqnError> {
    let memory = open(settings, stream)?;
    DqnAgent::new(DqnConfig::default(), memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_empty() {
        assert!(Settings::default().gpu.is_none());
    }
}
