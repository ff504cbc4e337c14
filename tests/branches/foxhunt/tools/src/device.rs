//! The first device, and a memory on it.

use std::error::Error;

use cudarc::driver::CudaContext;
use dqn::{GpuReplayBuffer, GpuReplayBufferConfig, ReplayBufferType as Memory};

pub const STATE_DIM: usize = 8;

pub struct Place<M = Memory> {
	pub memory: M,
	pub name: String,
}

/// What `GpuReplayBuffer` is for the feature server: nothing of ours, only called the same.
#[allow(dead_code)]
mod features {
	pub struct ReplayBufferType {
		pub gpu_batch: usize,
	}
}

pub fn open(capacity: usize) -> Result<Place, Box<dyn Error>> {
	let context = std::panic::catch_unwind(|| CudaContext::new(0))
		.map_err(|_| "no CUDA driver is installed")??;
	let name = context.name()?;
	let config = GpuReplayBufferConfig {
		capacity,
		state_dim: STATE_DIM,
		..Default::default()
	};
	let gpu = GpuReplayBuffer::new(config, context.new_stream()?)?;
	Ok(Place {
		memory: wrap(gpu),
		name,
	})
}

// ReplayBufferType::GpuPrioritized by another name
fn wrap(gpu: GpuReplayBuffer) -> dqn::replay_buffer_type::ReplayBufferType {
	Memory::from(gpu)
}
