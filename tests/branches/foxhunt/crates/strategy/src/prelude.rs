//! One `use` for everything that a strategy needs.
//!
//! The memory is [`Memory`] or, by its long name, [`ReplayBufferType`]; what is drawn from it a [`BatchSample`].

pub use crate::market::{Bar, MeanRevertingMarket};
pub use crate::{LearnReport, MeanReversion, OnlineTrainer, StrategyConfig, StrategyError};

pub use ml_dqn::{
    DqnAgent,
    DqnConfig,
    DqnError,
    // what it is made of
    experience::Experience,
    gpu_replay_buffer::{self, GpuBatchPtrs, GpuReplayBufferConfig},
    hindsight_replay::{self, GoalStrategy, HindsightReplayBuffer as HostHer}, // for the notebooks
    replay_buffer_type::{BatchSample, ReplayBufferType, ReplayBufferType as Memory},
};

/// The segment tree, for comparisons.
#[doc(hidden)]
pub use ml_dqn::prioritized_replay::*;

/// What actors and learner share.
pub type SharedMemory<M = ReplayBufferType> = std::sync::Arc<std::sync::Mutex<M>>;
