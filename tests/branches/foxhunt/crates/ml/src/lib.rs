//! Trainers of the DQN agent.

pub mod error;
pub mod trainers;

pub use error::TrainError;
pub use trainers::dqn::{fused_training::FusedTrainingCtx, trainer::DqnTrainer};
