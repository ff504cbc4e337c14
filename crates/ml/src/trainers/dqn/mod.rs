//! DQN on the GPU: the fused step, and a trainer around it.

pub mod acting;
pub mod checkpoint;
pub mod fused_training;
mod launch;
pub mod options;
mod state;
pub mod trainer;
mod whole_step;

pub use launch::{
    FUSED_BF16_SOURCE as FUSED_BF16_KERNELS, FUSED_TF32_SOURCE as FUSED_TF32_KERNELS,
    SOURCE as STEP_KERNELS,
};
