//! How beta rises. Ours.

use crate::gpu_replay_buffer::GpuReplayBuffer;

/// Linear in `step`.
pub fn anneal(memory: &mut GpuReplayBuffer, step: u32, steps: u32) {
    let beta = 0.4 + 0.6 * step as f32 / steps as f32;
    memory.set_beta(beta)
}
