#![allow(dead_code)] // not every test file uses every helper

use std::sync::Arc;

use ml_dqn::{GpuReplayBufferConfig, GpuReplayBuffer};

/// A device, or a reason to skip.
pub fn gpu(capacity: usize) -> Result<GpuReplayBuffer, String> {
    let context = std::panic::catch_unwind(|| cudarc::driver::CudaContext::new(0)).map_err(|_| "no driver")?;
    let stream = context.map_err(|err| format!("{err:?}"))?.default_stream();
    let config = GpuReplayBufferConfig { capacity, ..Default::default() };
    GpuReplayBuffer::new(config, Arc::clone(&stream)).map_err(|err| err.to_string())
}
