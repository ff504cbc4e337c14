//! The trainer: what it is made of ([`constructor`]), and what it does ([`training_loop`]).

pub mod constructor;
pub mod training_loop;

pub use constructor::DqnTrainer;
pub use training_loop::EpochStats;
