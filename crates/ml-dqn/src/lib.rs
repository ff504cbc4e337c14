//! Deep Q-learning on the GPU: an agent and its prioritized replay buffer.
//!
//! * [`gpu_replay_buffer`]: [`GpuReplayBuffer`], from insert to priority update without a host copy; [`GpuBatchPtrs`].
//! * [`dqn`]: [`DqnAgent`], which holds the buffer and acts.
//! * [`gpu_her`]: [`GpuHer`], hindsight relabelling of a sampled batch.
//! * [`experience`], [`error`]: what goes in, and what goes wrong.
//! * [`launch`]: the only unsafe code, safe wrappers around the kernels in `kernels/`.
//! * [`oracle`]: the same in plain f64 on the CPU, for tests and for reading.
//!
//! The training step is not here: crate `ml` has it.
//!
//! ```no_run
//! use ml_dqn::{Experience, GpuReplayBuffer, GpuReplayBufferConfig};
//!
//! let (_context, stream) = ml_cuda::open(0)?;
//! let config = GpuReplayBufferConfig { capacity: 1000, state_dim: 2, ..Default::default() };
//! let mut memory = GpuReplayBuffer::new(config, stream)?;
//! let step = Experience { state: vec![0.0, 1.0], next_state: vec![1.0, 0.0], reward: 1.0, ..Default::default() };
//! memory.push_batch(&vec![step; 64])?;
//! let batch = memory.sample(32)?;
//! assert_eq!(batch.indices_to_host()?.len(), 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod dqn;
pub mod error;
pub mod experience;
pub mod gpu_her;
pub mod gpu_replay_buffer;
#[allow(unsafe_code)]
pub mod launch;
pub mod oracle;

pub use dqn::{ActingNetwork, DqnAgent, DqnConfig, EpsilonSchedule, States};
pub use error::DqnError;
pub use experience::Experience;
pub use gpu_her::{GpuHer, GpuHerConfig, HerOptions};
pub use gpu_replay_buffer::{
    BadTdError, DeviceSteps, GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig, HostSteps,
    ReplayOptions, ReplayStats, StateType, Steps,
};
// `sample_profiled` names the timer, so a caller needs no dependency of its own on `ml-cuda`.
pub use ml_cuda::{Phase, PhaseReport, PhaseTimer};
