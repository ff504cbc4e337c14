use std::sync::Arc;

use cudarc::driver::CudaContext;
use dqn as d;
use dqn::{GpuReplayBufferConfig, GpuReplayBuffer};

fn describe(memory: &::dqn::GpuReplayBuffer) -> String {
    if memory.is_empty() {
        "empty".to_owned()
    } else {
        format!("{} of {}", memory.len(), memory.capacity())
    }
}

fn wrap(buffer: GpuReplayBuffer) -> d::gpu_replay_buffer::GpuReplayBuffer {
    buffer
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stream = CudaContext::new(0)?.default_stream();
    let buffer = GpuReplayBuffer::new(GpuReplayBufferConfig::default(), Arc::clone(&stream))?;
    let memory = wrap(buffer);
    println!("{}", describe(&memory));
    Ok(())
}
