//! Fused kernels instead of the chain of products, where device, precision and sizes allow.

use std::mem::offset_of;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdevice_attribute as DeviceAttribute, CUfunction_attribute_enum as Attribute,
};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream};
use ml_cuda::CudaError;
use ml_cuda::kernels::{KernelSource, function};
use ml_cuda::matmul::Precision;

use super::Parts;
use super::fused_bf16::FusedBf16;
use super::fused_tf32::FusedTf32;
use super::memory::StepMemory;
use crate::network::Layer;
use crate::trainers::dqn::state::{StepSettings, StepState};

/// Inputs and outputs of each layer, padded: the kernels are written for these.
const SIZES: [(usize, usize); 4] = [(80, 384), (384, 384), (384, 384), (384, 48)];

/// The kernels of a precision: passes and loss, then all gradients.
#[derive(Debug)]
pub enum Fused {
    Bf16(Box<FusedBf16>),
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

    /// Parts of the gradients of all weights and biases.
    pub fn enqueue_weight_gradients(&self) -> Result<(), CudaError> {
        match self {
            Self::Bf16(kernels) => kernels.enqueue_weight_gradients(),
            Self::Tf32(kernels) => kernels.enqueue_weight_gradients(),
        }
    }

    /// Where they are.
    pub fn parts(&self, layers: &[Layer]) -> Parts {
        match self {
            Self::Bf16(kernels) => kernels.parts(layers),
            Self::Tf32(kernels) => kernels.parts(layers),
        }
    }
}

/// A kernel file for Hopper with what it includes.
pub const fn hopper_source(name: &'static str, source: &'static str) -> KernelSource {
    KernelSource {
        name,
        source,
        includes: &[
            (
                "hopper.cuh",
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../kernels/hopper.cuh"
                )),
            ),
            (
                "fused_step.cuh",
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../kernels/fused_step.cuh"
                )),
            ),
        ],
        options: &[],
    }
}

/// A kernel that takes so many bytes of dynamic shared memory.
pub fn function_with_shared(
    module: &Arc<CudaModule>,
    source: &KernelSource,
    name: &str,
    bytes: u32,
) -> Result<CudaFunction, CudaError> {
    let found = function(module, source, name)?;
    let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    found.set_attribute(dynamic, bytes as i32)?;
    Ok(found)
}

/// How many of so many tiles a block takes in turn, where each multiprocessor has one.
pub fn tiles_in_turn(context: &Arc<CudaContext>, tiles: usize) -> Result<usize, CudaError> {
    let processors =
        context.attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    Ok(tiles.div_ceil(processors.max(1) as usize))
}

/// As `FusedArguments` in `fused_step.cuh`, field by field; addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FusedArguments {
    action: u64,
    reward: u64,
    weight: u64,
    discount: u64,
    batch_rows: u64,
    huber_delta: u64,
    double_dqn: u64,
    /// Null until a launch names it.
    pub td: u64,
    loss_partial: u64,
    online_bias: u64,
    target_bias: u64,
    actions: u32,
    pub rows: u32,
    iterations: u32,
    pad: u32,
}

const _: () = assert!(size_of::<FusedArguments>() == 104);

impl FusedArguments {
    pub fn new(memory: &StepMemory, iterations: usize) -> Self {
        let (state, settings) = (memory.state.address(), memory.settings.address());
        let bias = memory.layers[0].bias.start;
        Self {
            action: memory.action.address(),
            reward: memory.reward.address(),
            weight: memory.weight.address(),
            discount: memory.discount.address(),
            batch_rows: state + offset_of!(StepState, rows) as u64,
            huber_delta: settings + offset_of!(StepSettings, huber_delta) as u64,
            double_dqn: settings + offset_of!(StepSettings, double_dqn) as u64,
            td: 0,
            loss_partial: memory.loss_partial.address(),
            online_bias: memory.online.master(bias),
            target_bias: memory.target.master(bias),
            actions: memory.num_actions as u32,
            rows: memory.capacity as u32,
            iterations: iterations as u32,
            pad: 0,
        }
    }
}
