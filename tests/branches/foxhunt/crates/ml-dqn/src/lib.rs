//! Replay memory and agent of the DQN trainers.
//!
//! Three replay buffers hide behind [`ReplayBufferType`]: uniform and prioritized replay on the CPU, and
//! prioritized replay on the GPU.
//! Whatever was drawn comes back as a [`BatchSample`].
//!
//! ```no_run
//! use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBufferConfig, ReplayBufferType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = cudarc::driver::CudaContext::new(0)?.new_stream()?;
//! let memory = ReplayBufferType::gpu_prioritized(GpuReplayBufferConfig::default(), stream)?;
//! let agent = DqnAgent::new(DqnConfig::default(), memory)?;
//! assert!(agent.memory().is_empty());
//! # Ok(())
//! # }
//! ```

pub mod dqn;
pub mod error;
pub mod experience;
pub mod gpu_her;
pub mod gpu_replay_buffer;
/// Hindsight relabelling on the CPU.
///
/// The device has its own: [`gpu_her`].
#[doc(alias = "her")]
pub mod hindsight_replay;
pub mod prioritized_replay; // segment tree
pub mod prioritized_replay_staleness;
pub mod replay_buffer;
pub mod replay_buffer_type;
pub mod schedule;

pub use dqn::{DqnAgent, DqnConfig};
pub use error::DqnError;
pub use experience::Experience;
pub use gpu_her::{GpuHer, GpuHerConfig};
pub use gpu_replay_buffer::{GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig};
pub use hindsight_replay::{GoalStrategy, HindsightReplayBuffer, HindsightReplayConfig};
pub use prioritized_replay::{PrioritizedReplayBuffer, PrioritizedReplayConfig};
pub use prioritized_replay_staleness::{StalenessConfig, StalenessTracker};
pub use replay_buffer::{ReplayBuffer, ReplayBufferConfig};
pub use replay_buffer_type::{BatchSample, ReplayBufferType};
pub use schedule::BetaSchedule;
