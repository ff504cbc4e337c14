pub mod fused_training;
mod kernels;
pub mod trainer;
