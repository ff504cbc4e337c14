//! The only `unsafe` of this crate: safe wrappers around `kernels/step_kernels.cu` and the products
//! between its kernels.
//!
//! A wrapper owns its geometry and the order of its arguments; sizes come from [`StepMemory`], which
//! allocates every array for the same shape and capacity, so that they fit by construction.

mod acting;
mod fused;
mod fused_bf16;
mod fused_tf32;
mod memory;
mod step;
mod tensor_map;

use cudarc::driver::{DeviceRepr, LaunchConfig};
use ml_cuda::kernels::KernelSource;
use ml_cuda::matmul::Precision;

use super::state::{StepSettings, StepState};
use crate::network::Layer;
pub(super) use acting::ActingKernels;
pub use fused_bf16::FUSED_BF16_SOURCE;
pub use fused_tf32::FUSED_TF32_SOURCE;
pub(super) use memory::{NetworkMemory, StepMemory};
pub(super) use step::{BatchAddresses, StepKernels};

/// The kernels of the step.
pub const SOURCE: KernelSource = KernelSource {
    name: "step_kernels.cu",
    source: include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_kernels.cu"
    )),
    includes: &[(
        "common.cuh",
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernels/common.cuh"
        )),
    )],
    options: &[],
};

/// Rows of one block of `td_loss` and `relu_backward`; `ROW_TILE` there.
const ROW_TILE: usize = 64;
/// Weights and biases of one block of `grad_norm`; named so there.
const WEIGHT_CHUNK: usize = 1024;
const BIAS_CHUNK: usize = 8;
/// Enough blocks to fill any device; the kernels stride.
const MOST_BLOCKS: usize = 2048;

// SAFETY: repr(C) structs of numbers without padding; every bit pattern is a value.
unsafe impl DeviceRepr for StepState {}
// SAFETY: as above.
unsafe impl DeviceRepr for StepSettings {}

/// Partial sums of the weights' gradients; `GradientParts` in the `.cu` file.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct GradientParts {
    stride: u32,
    of_first: u32,
    of_middle: u32,
    of_last: u32,
    first_end: u32,
    last: u32,
}

// SAFETY: a repr(C) struct of six u32.
unsafe impl DeviceRepr for GradientParts {}

impl GradientParts {
    /// `rows`: parts of the first layer, of those between, and of the last.
    fn new(layers: &[Layer], [of_first, of_middle, of_last]: [u32; 3]) -> Self {
        let last = &layers[layers.len() - 1].weight;
        Self {
            stride: last.end as u32,
            of_first,
            of_middle,
            of_last,
            first_end: layers[0].weight.end as u32,
            last: last.start as u32,
        }
    }
}

/// What the backward pass leaves to `grad_norm`: addresses of partial sums, and how many there are.
struct Parts {
    of_weights: u64,
    layout: GradientParts,
    of_biases: u64,
    bias_rows: u32,
}

/// Bytes of one value as products read it.
fn stored_bytes(precision: Precision) -> usize {
    match precision {
        Precision::Bf16 => 2,
        Precision::Fp32 | Precision::Tf32 => 4,
    }
}

/// Blocks of `grad_norm`.
fn norm_blocks(weights: usize, biases: usize) -> usize {
    biases.div_ceil(BIAS_CHUNK) + weights.div_ceil(WEIGHT_CHUNK)
}

/// One thread for each of `work` items, with a bound on the blocks: such kernels stride.
fn threads(work: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (work.div_ceil(256).clamp(1, MOST_BLOCKS) as u32, 1, 1),
        block_dim: (256, 1, 1),
        shared_mem_bytes: 0,
    }
}

fn shape(blocks: u32, threads: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes,
    }
}
