//! DQN on the GPU: the fused step, and a trainer around it.

pub mod acting;
pub mod checkpoint;
pub mod fused_training;
mod launch;
pub mod options;
mod state;
pub mod trainer;

pub use launch::{
    BACKWARD_SOURCE as BACKWARD_KERNELS, FORWARD_SOURCE as FORWARD_KERNELS, SOURCE as STEP_KERNELS,
};
