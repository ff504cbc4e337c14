//! Trainers, one module an algorithm.

pub mod dqn;
