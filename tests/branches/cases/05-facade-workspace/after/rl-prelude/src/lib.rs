//! One import for the whole team.
//!
//! The buffer is [`GpuReplayBuffer`], a batch is [this](crate::GpuBatchPtrs); see also [`types::Memory`].

pub use ml_dqn::{
    dqn::{DqnAgent, DqnConfig},
    error::DqnError,
    gpu_replay_buffer::{self, GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig},
    Experience, // plain data
};

#[rustfmt::skip]
pub use ml_dqn::gpu_her::GpuHer;

/// Short names.
pub mod types {
    pub use super::{GpuBatchPtrs as Batch, GpuReplayBuffer as Memory};
}

/// What the actors write to and the learner reads from.
pub type SharedMemory = std::sync::Arc<std::sync::Mutex<GpuReplayBuffer>>;

pub type MemoryResult<T = GpuReplayBuffer> = Result<T, DqnError>;
