//! Fills a buffer and looks at it.
//!
//! ```no_run
//! use ml_dqn::{GpuReplayBuffer, GpuReplayBufferConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = cudarc::driver::CudaContext::new(0)?.default_stream();
//! let mut memory = GpuReplayBuffer::new(GpuReplayBufferConfig::default(), stream)?;
//! assert_eq!(test_tree::fill(&mut memory, 10)?, 10);
//! # Ok(())
//! # }
//! ```

use ml_dqn::{DqnError, Experience, GpuReplayBuffer};

/// Pushes `n` numbered transitions; returns the length of the buffer.
///
/// See [`GpuReplayBuffer::push`].
pub fn fill(memory: &mut GpuReplayBuffer, n: usize) -> Result<usize, DqnError> {
    for at in 0..n {
        memory.push(&numbered(at))?;
    }
    Ok(memory.len())
}

/// A transition that carries its number in its reward.
pub fn numbered(at: usize) -> Experience {
    Experience { state: vec![0.0; 80], action: 0, reward: at as f32, next_state: vec![0.0; 80], done: at % 7 == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::GpuReplayBufferConfig;
    use std::sync::Arc;

    const CAPACITY: usize = 128;

    /// `None` where there is no device.
    fn gpu() -> Option<GpuReplayBuffer> {
        let context = std::panic::catch_unwind(|| cudarc::driver::CudaContext::new(0)).ok()?.ok()?;
        let stream = context.default_stream();
        GpuReplayBuffer::new(GpuReplayBufferConfig { capacity: CAPACITY, ..Default::default() }, Arc::clone(&stream)).ok()
    }

    #[test]
    fn numbers_are_rewards() {
        assert_eq!(numbered(5).reward, 5.0);
    }

    #[test]
    fn gpu_fills() {
        let Some(mut memory) = gpu() else { return };
        assert_eq!(fill(&mut memory, CAPACITY + 1).unwrap(), CAPACITY);
        let batch = memory.sample(8).unwrap();
        assert_eq!(batch.len(), 8);
    }

}
