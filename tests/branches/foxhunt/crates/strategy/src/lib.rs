//! Mean reversion that learns while it trades.
//!
//! A [`MeanReversion`] strategy turns bars into [`features`], asks its policy what to do, lets the [`risk`] gate
//! have the last word, and hands every transition to an [`OnlineTrainer`].
//! What it remembers is in a [`ReplayBufferType`](ml_dqn::ReplayBufferType):
//!
//! ```no_run
//! use foxhunt_strategy::{MeanReversion, OnlineTrainer, StrategyConfig};
//! use ml_dqn::{GpuReplayBufferConfig, ReplayBufferType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = cudarc::driver::CudaContext::new(0)?.new_stream()?;
//! let config = StrategyConfig::default();
//! let memory = ReplayBufferType::gpu_prioritized(
//!     GpuReplayBufferConfig { capacity: config.capacity, state_dim: config.state_dim(), ..Default::default() },
//!     stream.clone(),
//! )?;
//! let trainer = OnlineTrainer::new(&config, memory, Some(stream))?;
//! let strategy = MeanReversion::new(config, trainer);
//! assert_eq!(strategy.n_trades(), 0);
//! # Ok(())
//! # }
//! ```

pub mod config;
pub mod error;
pub mod features;
pub mod journal;
pub mod market;
pub mod mean_reversion;
pub mod memory;
pub mod online;
pub mod policy;
pub mod prelude;
pub mod risk;

pub use config::{MemoryKind, StrategyConfig};
pub use error::StrategyError;
pub use mean_reversion::MeanReversion;
pub use online::{LearnReport, OnlineTrainer};
