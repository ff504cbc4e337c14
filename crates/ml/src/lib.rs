//! The training step of a dueling double DQN on the GPU, and a trainer around it.
//!
//! * [`trainers::dqn::fused_training`]: [`FusedTrainingCtx`], one step, its phases timed by [`ml_cuda::PhaseTimer`].
//! * [`trainers::dqn::options`]: sizes, precision, optimizer, schedules.
//! * [`trainers::dqn::trainer`]: [`DqnTrainer`], epochs over a replay buffer.
//! * [`environments`]: Gymnasium's interface, CartPole, bit-flipping, trading a mean-reverting price, many environments at a time.
//! * [`network`]: the network's shape and its parameters' names.
//! * [`oracle`]: the same step in f64 on the host, for tests.
//!
//! [`FusedTrainingCtx`]: trainers::dqn::fused_training::FusedTrainingCtx
//! [`DqnTrainer`]: trainers::dqn::trainer::DqnTrainer

pub mod environments;
pub mod error;
pub mod network;
pub mod oracle;
pub mod trainers;

pub use error::TrainError;
pub use network::NetworkShape;

/// The examples of the guide, compiled with the crate's own.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
pub struct Guide;
