//! A trainer: an agent, its step, and epochs of both.

pub mod constructor;
pub mod training_loop;

pub use constructor::{DqnTrainer, TrainerOptions};
