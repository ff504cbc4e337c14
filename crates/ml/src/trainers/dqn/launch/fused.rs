//! Forward and backward pass as fused kernels, where device and sizes allow: `kernels/step_forward_sm90a.cu` and
//! `kernels/step_backward_sm90a.cu`.

use std::sync::Arc;

use cudarc::driver::sys::CUtensorMapSwizzle_enum::{
    self as Swizzle, CU_TENSOR_MAP_SWIZZLE_32B as NARROW, CU_TENSOR_MAP_SWIZZLE_128B as WIDE,
};
use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute};
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg};
use ml_cuda::kernels::{KernelSource, function, load};
use ml_cuda::matmul::Precision;
use ml_cuda::{CudaError, DeviceMemory};

use super::memory::{NetworkMemory, StepMemory};
use super::{GradientParts, ROW_TILE};
use crate::network::Layer;

const HOPPER_HEADER: (&str, &str) = (
    "hopper.cuh",
    include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/hopper.cuh"
    )),
);

/// The forward kernel's text.
pub const FORWARD_SOURCE: KernelSource = KernelSource {
    name: "step_forward_sm90a.cu",
    source: include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_forward_sm90a.cu"
    )),
    includes: &[HOPPER_HEADER],
    options: &[],
};

/// The backward kernels' text.
pub const BACKWARD_SOURCE: KernelSource = KernelSource {
    name: "step_backward_sm90a.cu",
    source: include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_backward_sm90a.cu"
    )),
    includes: &[HOPPER_HEADER],
    options: &[],
};

/// Inputs and outputs of each layer, padded: the kernels are written for these.
const SIZES: [(usize, usize); 4] = [(80, 384), (384, 384), (384, 384), (384, 48)];
/// Rows of a block; `TM` there.
const TILE: usize = 128;
/// `FUSED_SHARED_BYTES`, `BACKWARD_SHARED_BYTES` and `WEIGHTS_SHARED_BYTES` there.
const FORWARD_SHARED_BYTES: u32 = 227_088;
const BACKWARD_SHARED_BYTES: u32 = 222_288;
const WEIGHTS_SHARED_BYTES: u32 = 197_696;
/// `WEIGHT_BLOCKS` there.
const WEIGHT_BLOCKS: u32 = 132;
/// `SPLITS_FIRST`, `SPLITS_SQUARE` and `SPLITS_LAST` there.
const SPLITS: [u32; 3] = [10, 12, 8];
const MOST_SPLITS: usize = 12;
/// Words of `masks` for each layer and 64 rows: a bit for each of 384 columns.
const MASK_WORDS: usize = 6 * 128;

/// Tensor maps of one launch, as `Maps` in the forward kernel's file: x (columns 0 to 63, then 64 to 79),
/// W1 likewise, W2, W3, W4, and the hidden activations to be saved.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct Maps([sys::CUtensorMap; 10]);

/// As `BackwardMaps`: gradient of the outputs, W4, W3, W2, then the gradients to be written, from the last
/// hidden layer to the first.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct BackwardMaps([sys::CUtensorMap; 7]);

/// As `WeightMaps`: gradients of the hidden layers and their activations, each from the last to the first,
/// x, and the gradient of the outputs.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct WeightMaps([sys::CUtensorMap; 8]);

// SAFETY: plain bytes, as the kernels' structs have them: maps of 128 bytes each.
unsafe impl DeviceRepr for Maps {}
// SAFETY: as above.
unsafe impl DeviceRepr for BackwardMaps {}
// SAFETY: as above.
unsafe impl DeviceRepr for WeightMaps {}
const _: () = assert!(
    size_of::<Maps>() == 1280
        && size_of::<BackwardMaps>() == 896
        && size_of::<WeightMaps>() == 1024
);

/// The launches of a step's forward and backward pass, with all that they read and write baked in.
#[derive(Debug)]
pub struct FusedKernels {
    stream: Arc<CudaStream>,
    forward: CudaFunction,
    forward_saving: CudaFunction,
    backward: CudaFunction,
    weight_gradients: CudaFunction,
    /// Online network, states; activations are saved for the backward pass.
    states: Launch,
    /// Online network, next states.
    next_states: Launch,
    /// Target network, next states.
    target: Launch,
    backward_maps: BackwardMaps,
    weight_maps: WeightMaps,
    /// Which hidden activations are positive.
    masks: DeviceMemory<u32>,
    /// Gradients of the hidden layers' pre-activations, which the maps name.
    _gradients: [DeviceMemory<u16>; 3],
    /// Sums over shares of the batch of the weights' gradients.
    partial: DeviceMemory<f32>,
    bias_partial: u64,
    biases: i32,
    weights: i32,
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

impl FusedKernels {
    /// Whether precision and sizes are those of the kernels; the device has a say too.
    fn fit(layers: &[Layer], precision: Precision) -> bool {
        let sizes = layers.iter().map(|layer| (layer.inputs, layer.outputs));
        precision == Precision::Bf16 && sizes.eq(SIZES)
    }

    /// Bytes that [`new`](Self::new) allocates where the device is a Hopper.
    pub fn bytes_needed(layers: &[Layer], capacity: usize, precision: Precision) -> u64 {
        if !Self::fit(layers, precision) {
            return 0;
        }
        let weights = layers[layers.len() - 1].weight.end;
        let masks = 3 * capacity.div_ceil(ROW_TILE) * MASK_WORDS;
        (3 * capacity * 384 * 2 + 4 * (MOST_SPLITS * weights + masks)) as u64
    }

    /// `None` where the device is no Hopper, or precision or sizes are not those of the kernels.
    pub fn new(stream: &Arc<CudaStream>, memory: &StepMemory) -> Result<Option<Self>, CudaError> {
        let context = stream.context();
        if !Self::fit(&memory.layers, memory.precision) || context.compute_capability()? != (9, 0) {
            return Ok(None);
        }
        let find = |source: &KernelSource, name: &str, shared: u32| {
            let found = function(&load(context, source)?, source, name)?;
            let dynamic = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            found.set_attribute(dynamic, shared as i32)?;
            Ok::<_, CudaError>(found)
        };
        let processors =
            context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let rows = memory.capacity;
        let tiles = rows.div_ceil(TILE);
        let iterations = tiles.div_ceil(processors.max(1) as usize);
        let half = (rows * 80 * 2) as u64;
        let out_half = (rows * 48 * 4) as u64;
        let launch = |network: &NetworkMemory, x: u64, out: u64| {
            Ok::<_, CudaError>(Launch {
                maps: forward_maps(memory, network, x)?,
                bias: network.master(memory.layers[0].bias.start),
                out,
            })
        };
        let (x, out) = (memory.x.address(), memory.online_out.address());
        let gradients = || DeviceMemory::<u16>::zeroed(stream, rows * 384);
        let gradients = [gradients()?, gradients()?, gradients()?];
        let gradient_addresses = [0, 1, 2].map(|at: usize| gradients[at].address());
        let weights = memory.weights();
        Ok(Some(Self {
            forward: find(&FORWARD_SOURCE, "fused_forward", FORWARD_SHARED_BYTES)?,
            forward_saving: find(&FORWARD_SOURCE, "fused_forward_save", FORWARD_SHARED_BYTES)?,
            backward: find(&BACKWARD_SOURCE, "fused_backward", BACKWARD_SHARED_BYTES)?,
            weight_gradients: find(
                &BACKWARD_SOURCE,
                "fused_weight_gradients",
                WEIGHTS_SHARED_BYTES,
            )?,
            states: launch(&memory.online, x, out)?,
            next_states: launch(&memory.online, x + half, out + out_half)?,
            target: launch(&memory.target, x + half, memory.target_out.address())?,
            backward_maps: backward_maps(memory, gradient_addresses)?,
            weight_maps: weight_maps(memory, gradient_addresses)?,
            masks: DeviceMemory::zeroed(stream, 3 * rows.div_ceil(ROW_TILE) * MASK_WORDS)?,
            _gradients: gradients,
            partial: DeviceMemory::zeroed(stream, MOST_SPLITS * weights)?,
            bias_partial: memory.bias_partial.address(),
            biases: memory.biases() as i32,
            weights: weights as i32,
            rows: rows as i32,
            blocks: tiles.div_ceil(iterations) as u32,
            iterations: iterations as i32,
            stream: Arc::clone(stream),
        }))
    }

    /// Outputs of both networks, and the online network's hidden activations for the states.
    pub fn enqueue_forward(&self) -> Result<(), CudaError> {
        let masks = self.masks.address();
        self.launch_forward(&self.forward_saving, &self.states, Some(masks))?;
        self.launch_forward(&self.forward, &self.next_states, None)?;
        self.launch_forward(&self.forward, &self.target, None)
    }

    /// Parts of all weights' gradients, and the partial sums of those of the hidden biases.
    pub fn enqueue_backward(&self) -> Result<(), CudaError> {
        let (masks, partial) = (self.masks.address(), self.partial.address());
        let mut builder = self.stream.launch_builder(&self.backward);
        builder.arg(&self.backward_maps).arg(&masks);
        builder.arg(&self.bias_partial).arg(&self.biases);
        builder.arg(&self.rows).arg(&self.iterations);
        // SAFETY: order and types match fused_backward; the maps describe arrays of `rows` rows, `masks` has
        // its words and `bias_partial` a row of `biases` for each 64 of them.
        unsafe { builder.launch(shape(self.blocks, 384, BACKWARD_SHARED_BYTES)) }?;
        let mut builder = self.stream.launch_builder(&self.weight_gradients);
        builder.arg(&self.weight_maps).arg(&partial);
        builder.arg(&self.weights).arg(&self.rows);
        // SAFETY: order and types match fused_weight_gradients; `partial` has as many rows of `weights` as
        // the most of its splits.
        unsafe { builder.launch(shape(WEIGHT_BLOCKS, 512, WEIGHTS_SHARED_BYTES)) }?;
        Ok(())
    }

    /// Where [`enqueue_backward`](Self::enqueue_backward) leaves the weights' gradients.
    pub fn gradient_parts(&self, layers: &[Layer]) -> (u64, GradientParts) {
        let [first, middle, last] = SPLITS;
        let parts = GradientParts::new(layers, [first, middle, last]);
        (self.partial.address(), parts)
    }

    fn launch_forward(
        &self,
        kernel: &CudaFunction,
        launch: &Launch,
        masks: Option<u64>,
    ) -> Result<(), CudaError> {
        let mut builder = self.stream.launch_builder(kernel);
        builder.arg(&launch.maps).arg(&launch.bias).arg(&launch.out);
        if let Some(masks) = &masks {
            builder.arg(masks);
        }
        builder.arg(&self.rows).arg(&self.iterations);
        // SAFETY: order and types match fused_forward and, with masks, fused_forward_save; the maps describe
        // arrays of `rows` rows, biases of all layers lie one behind the other, `out` holds `rows` rows of
        // 48, and `masks` its words for each 64 of them.
        unsafe { builder.launch(shape(self.blocks, 384, FORWARD_SHARED_BYTES)) }?;
        Ok(())
    }
}

fn shape(blocks: u32, threads: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes,
    }
}

fn forward_maps(memory: &StepMemory, network: &NetworkMemory, x: u64) -> Result<Maps, CudaError> {
    let weight = |layer: usize| network.stored(memory.layers[layer].weight.start);
    let rows = memory.capacity;
    let saved = |layer: usize| map(memory.hidden[layer].address(), (384, rows), (64, 64), WIDE);
    Ok(Maps([
        map(x, (80, rows), (64, TILE), WIDE)?,
        map(x, (80, rows), (16, TILE), NARROW)?,
        map(weight(0), (80, 384), (64, 192), WIDE)?,
        map(weight(0), (80, 384), (16, 192), NARROW)?,
        map(weight(1), (384, 384), (64, 192), WIDE)?,
        map(weight(2), (384, 384), (64, 192), WIDE)?,
        map(weight(3), (384, 48), (64, 48), WIDE)?,
        saved(0)?,
        saved(1)?,
        saved(2)?,
    ]))
}

/// `gradients`: of the pre-activations, by layer.
fn backward_maps(memory: &StepMemory, gradients: [u64; 3]) -> Result<BackwardMaps, CudaError> {
    let weight = |layer: usize| memory.online.stored(memory.layers[layer].weight.start);
    let rows = memory.capacity;
    let gradient = |layer: usize| map(gradients[layer], (384, rows), (64, 64), WIDE);
    Ok(BackwardMaps([
        // Wider than its matrix: what lies behind a row reads as zero.
        map(memory.d_out.address(), (48, rows), (64, 64), WIDE)?,
        map(weight(3), (384, 48), (64, 48), WIDE)?,
        map(weight(2), (384, 384), (64, 64), WIDE)?,
        map(weight(1), (384, 384), (64, 64), WIDE)?,
        gradient(2)?,
        gradient(1)?,
        gradient(0)?,
    ]))
}

fn weight_maps(memory: &StepMemory, gradients: [u64; 3]) -> Result<WeightMaps, CudaError> {
    let rows = memory.capacity;
    let wide = |address: u64| map(address, (384, rows), (64, 64), WIDE);
    let saved = |layer: usize| wide(memory.hidden[layer].address());
    Ok(WeightMaps([
        wide(gradients[2])?,
        wide(gradients[1])?,
        wide(gradients[0])?,
        saved(2)?,
        saved(1)?,
        saved(0)?,
        map(memory.x.address(), (80, rows), (64, 64), WIDE)?,
        map(memory.d_out.address(), (48, rows), (64, 64), WIDE)?,
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
