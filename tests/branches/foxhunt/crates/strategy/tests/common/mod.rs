//! Shared by the tests.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use ml_dqn::{Experience, PrioritizedReplayConfig, ReplayBufferConfig, ReplayBufferType};

pub fn uniform(capacity: usize) -> ReplayBufferType {
    ReplayBufferType::uniform(ReplayBufferConfig { capacity, seed: SEED })
}

pub fn tree(capacity: usize) -> ReplayBufferType {
    ReplayBufferType::prioritized(PrioritizedReplayConfig { capacity, ..Default::default() })
}

/// The same draws in every run.
const SEED: u64 = 23;

/// `None` where there is no driver (cudarc panics then) or no device.
pub fn stream() -> Option<Arc<CudaStream>> {
    let context = std::panic::catch_unwind(|| CudaContext::new(0)).ok()?.ok()?;
    context.new_stream().ok()
}

/// Pushes `n` numbered transitions.
pub fn fill(memory: &mut ReplayBufferType, n: usize) {
    for at in 0..n {
        let state = vec![at as f32; 5];
        let experience = Experience {
            next_state: state.clone(),
            state,
            action: (at % 3) as u32,
            reward: 0.0,
            done: false,
        };
        memory.push(&experience).expect("states have five values");
    }
}
