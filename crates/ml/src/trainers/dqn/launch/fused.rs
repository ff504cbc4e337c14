//! Fused kernels instead of the chain of products, where device, precision and sizes allow.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_cuda::CudaError;
use ml_cuda::matmul::Precision;

use super::fused_bf16::FusedBf16;
use super::fused_tf32::FusedTf32;
use super::memory::StepMemory;
use crate::network::Layer;

/// Inputs and outputs of each layer, padded: the kernels are written for these.
const SIZES: [(usize, usize); 4] = [(80, 384), (384, 384), (384, 384), (384, 48)];

/// The kernels of a precision.
#[derive(Debug)]
pub enum Fused {
    /// Passes and all gradients.
    Bf16(Box<FusedBf16>),
    /// Passes and the gradients of pre-activations; those of the weights are products.
    Tf32(Box<FusedTf32>),
}

impl Fused {
    fn sizes_fit(layers: &[Layer]) -> bool {
        let sizes = layers.iter().map(|layer| (layer.inputs, layer.outputs));
        sizes.eq(SIZES)
    }

    /// Bytes that [`new`](Self::new) allocates where the device is a Hopper.
    pub fn bytes_needed(layers: &[Layer], capacity: usize, precision: Precision) -> u64 {
        match precision {
            _ if !Self::sizes_fit(layers) => 0,
            Precision::Bf16 => FusedBf16::bytes_needed(layers, capacity),
            Precision::Tf32 => FusedTf32::bytes_needed(layers, capacity),
            Precision::Fp32 => 0,
        }
    }

    /// `None` where the device is no Hopper, or precision or sizes are not those of a kernel.
    pub fn new(stream: &Arc<CudaStream>, memory: &StepMemory) -> Result<Option<Self>, CudaError> {
        if !Self::sizes_fit(&memory.layers) || stream.context().compute_capability()? != (9, 0) {
            return Ok(None);
        }
        Ok(match memory.precision {
            Precision::Bf16 => Some(Self::Bf16(Box::new(FusedBf16::new(stream, memory)?))),
            Precision::Tf32 => Some(Self::Tf32(Box::new(FusedTf32::new(stream, memory)?))),
            Precision::Fp32 => None,
        })
    }

    /// Forward passes, loss, and the gradients of all pre-activations.
    pub fn enqueue_step(&self, td: u64) -> Result<(), CudaError> {
        match self {
            Self::Bf16(kernels) => kernels.enqueue_step(td),
            Self::Tf32(kernels) => kernels.enqueue_step(td),
        }
    }
}
