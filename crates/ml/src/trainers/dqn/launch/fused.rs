//! The whole forward pass as one kernel, where device and sizes allow: `kernels/step_forward_sm90a.cu`.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as Attribute, CUtensorMapSwizzle_enum as Swizzle,
};
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg};
use ml_cuda::CudaError;
use ml_cuda::kernels::{KernelSource, function, load};
use ml_cuda::matmul::Precision;

use super::memory::{NetworkMemory, StepMemory};

/// The kernel's text.
pub const FORWARD_SOURCE: KernelSource = KernelSource {
    name: "step_forward_sm90a.cu",
    source: include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_forward_sm90a.cu"
    )),
    includes: &[],
    options: &[],
};

/// Inputs and outputs of each layer, padded: the kernel is written for these.
const SIZES: [(usize, usize); 4] = [(80, 384), (384, 384), (384, 384), (384, 48)];
/// Rows of a block; `TM` there.
const TILE: usize = 128;
/// `FUSED_SHARED_BYTES` there.
const SHARED_BYTES: u32 = 227_088;

/// Tensor maps of one launch, as `Maps` in the kernel's file: x (columns 0 to 63, then 64 to 79), W1
/// likewise, W2, W3, W4, and the hidden activations to be saved.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct Maps([sys::CUtensorMap; 10]);

// SAFETY: plain bytes, as the kernel's struct has them: ten maps of 128 bytes each.
unsafe impl DeviceRepr for Maps {}
const _: () = assert!(size_of::<Maps>() == 1280);

/// The three launches of a step's forward passes, with all that they read and write baked in.
#[derive(Debug)]
pub struct FusedForward {
    stream: Arc<CudaStream>,
    plain: CudaFunction,
    saving: CudaFunction,
    /// Online network, states; activations are saved for the backward pass.
    states: Launch,
    /// Online network, next states.
    next_states: Launch,
    /// Target network, next states.
    target: Launch,
    rows: i32,
    blocks: u32,
    /// Tiles that each block takes in turn.
    iterations: i32,
}

#[derive(Debug)]
struct Launch {
    maps: Maps,
    bias: u64,
    out: u64,
}

impl FusedForward {
    /// `None` where the device is no Hopper, or precision or sizes are not those of the kernel.
    pub fn new(stream: &Arc<CudaStream>, memory: &StepMemory) -> Result<Option<Self>, CudaError> {
        let sizes: Vec<_> = memory
            .layers
            .iter()
            .map(|layer| (layer.inputs, layer.outputs))
            .collect();
        let context = stream.context();
        if memory.precision != Precision::Bf16
            || sizes != SIZES
            || context.compute_capability()? != (9, 0)
        {
            return Ok(None);
        }
        let module = load(context, &FORWARD_SOURCE)?;
        let find = |name: &str| {
            let found = function(&module, &FORWARD_SOURCE, name)?;
            let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            found.set_attribute(dynamic, SHARED_BYTES as i32)?;
            Ok::<_, CudaError>(found)
        };
        let processors =
            context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let tiles = memory.capacity.div_ceil(TILE);
        let iterations = tiles.div_ceil(processors.max(1) as usize);
        let half = (memory.capacity * 80 * 2) as u64;
        let out_half = (memory.capacity * 48 * 4) as u64;
        let saved = [&memory.hidden[0], &memory.hidden[1], &memory.hidden[2]];
        let saved = saved.map(|hidden| hidden.address());
        let launch = |network: &NetworkMemory, x: u64, out: u64| {
            Ok::<_, CudaError>(Launch {
                maps: maps(memory, network, x, saved)?,
                bias: network.master(memory.layers[0].bias.start),
                out,
            })
        };
        let (x, out) = (memory.x.address(), memory.online_out.address());
        Ok(Some(Self {
            plain: find("fused_forward")?,
            saving: find("fused_forward_save")?,
            states: launch(&memory.online, x, out)?,
            next_states: launch(&memory.online, x + half, out + out_half)?,
            target: launch(&memory.target, x + half, memory.target_out.address())?,
            rows: memory.capacity as i32,
            blocks: tiles.div_ceil(iterations) as u32,
            iterations: iterations as i32,
            stream: Arc::clone(stream),
        }))
    }

    /// Outputs of both networks, and the online network's hidden activations for the states.
    pub fn enqueue(&self) -> Result<(), CudaError> {
        self.launch(&self.saving, &self.states)?;
        self.launch(&self.plain, &self.next_states)?;
        self.launch(&self.plain, &self.target)
    }

    fn launch(&self, kernel: &CudaFunction, launch: &Launch) -> Result<(), CudaError> {
        let shape = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (384, 1, 1),
            shared_mem_bytes: SHARED_BYTES,
        };
        let mut builder = self.stream.launch_builder(kernel);
        builder.arg(&launch.maps).arg(&launch.bias).arg(&launch.out);
        builder.arg(&self.rows).arg(&self.iterations);
        // SAFETY: order and types match fused_forward; the maps describe arrays of `rows` rows, biases of
        // all layers lie one behind the other, and `out` holds `rows` rows of 48.
        unsafe { builder.launch(shape) }?;
        Ok(())
    }
}

fn maps(
    memory: &StepMemory,
    network: &NetworkMemory,
    x: u64,
    saved: [u64; 3],
) -> Result<Maps, CudaError> {
    use Swizzle::{CU_TENSOR_MAP_SWIZZLE_32B as NARROW, CU_TENSOR_MAP_SWIZZLE_128B as WIDE};
    let weight = |layer: usize| network.stored(memory.layers[layer].weight.start);
    let rows = memory.capacity;
    Ok(Maps([
        map(x, (80, rows), (64, TILE), WIDE)?,
        map(x, (80, rows), (16, TILE), NARROW)?,
        map(weight(0), (80, 384), (64, 192), WIDE)?,
        map(weight(0), (80, 384), (16, 192), NARROW)?,
        map(weight(1), (384, 384), (64, 192), WIDE)?,
        map(weight(2), (384, 384), (64, 192), WIDE)?,
        map(weight(3), (384, 48), (64, 48), WIDE)?,
        map(saved[0], (384, rows), (64, 64), WIDE)?,
        map(saved[1], (384, rows), (64, 64), WIDE)?,
        map(saved[2], (384, rows), (64, 64), WIDE)?,
    ]))
}

/// A row-major bf16 matrix of (columns, rows), read or written in boxes of (columns, rows).
fn map(
    address: u64,
    (columns, rows): (usize, usize),
    (box_columns, box_rows): (usize, usize),
    swizzle: Swizzle,
) -> Result<sys::CUtensorMap, CudaError> {
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    let extent = [columns as u64, rows as u64];
    let stride = [2 * columns as u64];
    let boxes = [box_columns as u32, box_rows as u32];
    let steps = [1u32, 1];
    // SAFETY: all arrays have the lengths that rank 2 asks for and live through the call; the address is
    // only written into the map.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut map,
            sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            2,
            address as *mut std::ffi::c_void,
            extent.as_ptr(),
            stride.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .result()?;
    Ok(map)
}
