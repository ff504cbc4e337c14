//! Passes, loss and all gradients as two kernels in bf16: `kernels/step_fused_sm90a.cu`.

use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 as BF16;
use cudarc::driver::sys::CUtensorMapSwizzle_enum::{
    CU_TENSOR_MAP_SWIZZLE_32B as NARROW, CU_TENSOR_MAP_SWIZZLE_128B as WIDE,
};
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, PushKernelArg};
use ml_cuda::kernels::{KernelSource, load};
use ml_cuda::{CudaError, DeviceMemory};

use super::fused::{FusedArguments, function_with_shared, hopper_source, tiles_in_turn};
use super::memory::{NetworkMemory, StepMemory};
use super::tensor_map::tensor_map;
use super::{GradientParts, Parts, ROW_TILE, shape};
use crate::network::Layer;

/// The kernels' text.
pub const FUSED_BF16_SOURCE: KernelSource = hopper_source(
    "step_fused_sm90a.cu",
    include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_fused_sm90a.cu"
    )),
);

/// Rows of a block; `TM` there.
const TILE: usize = 128;
/// `STEP_SHARED_BYTES` and `WEIGHTS_SHARED_BYTES` there.
const STEP_SHARED_BYTES: u32 = 231_952;
const WEIGHTS_SHARED_BYTES: u32 = 197_696;
/// `WEIGHT_BLOCKS` there.
const WEIGHT_BLOCKS: u32 = 132;
/// `SPLITS_FIRST`, `SPLITS_SQUARE` and `SPLITS_LAST` there.
const SPLITS: [u32; 3] = [10, 12, 8];
const MOST_SPLITS: usize = 12;
/// Words of `masks` for each layer and 64 rows: a bit for each of 384 columns.
const MASK_WORDS: usize = 6 * 128;

/// As `StepMaps` there: x of the states and of the next states (columns 0 to 63, then 64 to 79); W1 (likewise),
/// W2, W3, W4 of the online and of the target network; H1, H2, H3 and the gradient of the outputs; W3 and W2
/// for the way back; and the gradients of the hidden layers, from the last to the first.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct StepMaps([sys::CUtensorMap; 23]);

/// As `WeightMaps`: gradients of the hidden layers and their activations, each from the last to the first,
/// x, and the gradient of the outputs.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct WeightMaps([sys::CUtensorMap; 8]);

/// As `Loss` there; `masks` is an address.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Loss {
    shared: FusedArguments,
    masks: u64,
}

// SAFETY: plain bytes, as the kernels' structs have them: maps of 128 bytes each.
unsafe impl DeviceRepr for StepMaps {}
// SAFETY: as above.
unsafe impl DeviceRepr for WeightMaps {}
// SAFETY: plain numbers without padding.
unsafe impl DeviceRepr for Loss {}
const _: () = assert!(
    size_of::<StepMaps>() == 2944 && size_of::<WeightMaps>() == 1024 && size_of::<Loss>() == 112
);

/// The two launches between a step's inputs and its optimizer, with all that they read and write baked in.
#[derive(Debug)]
pub struct FusedBf16 {
    stream: Arc<CudaStream>,
    step: CudaFunction,
    weight_gradients: CudaFunction,
    step_maps: StepMaps,
    weight_maps: WeightMaps,
    /// All but the address of the TD errors.
    loss: Loss,
    blocks: u32,
    weights: i32,
    rows: i32,
    /// Which hidden activations are positive; `loss` has its address.
    _masks: DeviceMemory<u32>,
    /// Gradients of the hidden layers' pre-activations, which the maps name.
    _gradients: [DeviceMemory<u16>; 3],
    /// Sums over shares of the batch of the weights' gradients.
    partial: DeviceMemory<f32>,
    /// And of those of the biases. Rows of shares that a layer does not have stay zero.
    bias_partial: DeviceMemory<f32>,
}

impl FusedBf16 {
    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes_needed(layers: &[Layer], capacity: usize) -> u64 {
        let flat = layers[layers.len() - 1].bias.end;
        let masks = 3 * capacity.div_ceil(ROW_TILE) * MASK_WORDS;
        (3 * capacity * 384 * 2 + 4 * (MOST_SPLITS * flat + masks)) as u64
    }

    /// The layers have the kernels' sizes, and the device is a Hopper, which the caller checked.
    pub fn new(stream: &Arc<CudaStream>, memory: &StepMemory) -> Result<Self, CudaError> {
        let context = stream.context();
        let module = load(context, &FUSED_BF16_SOURCE)?;
        let find = |name, shared| function_with_shared(&module, &FUSED_BF16_SOURCE, name, shared);
        let rows = memory.capacity;
        let tiles = rows.div_ceil(TILE);
        let iterations = tiles_in_turn(context, tiles)?;
        let gradients = || DeviceMemory::<u16>::zeroed(stream, rows * 384);
        let gradients = [gradients()?, gradients()?, gradients()?];
        let gradient_addresses = [0, 1, 2].map(|at: usize| gradients[at].address());
        let masks = DeviceMemory::zeroed(stream, 3 * rows.div_ceil(ROW_TILE) * MASK_WORDS)?;
        let weights = memory.weights();
        let loss = Loss {
            shared: FusedArguments::new(memory, iterations),
            masks: masks.address(),
        };
        Ok(Self {
            step: find("fused_step", STEP_SHARED_BYTES)?,
            weight_gradients: find("fused_weight_gradients", WEIGHTS_SHARED_BYTES)?,
            step_maps: step_maps(memory, gradient_addresses)?,
            weight_maps: weight_maps(memory, gradient_addresses)?,
            loss,
            blocks: tiles.div_ceil(iterations) as u32,
            weights: weights as i32,
            rows: rows as i32,
            _masks: masks,
            _gradients: gradients,
            partial: DeviceMemory::zeroed(stream, MOST_SPLITS * weights)?,
            bias_partial: DeviceMemory::zeroed(stream, MOST_SPLITS * memory.biases())?,
            stream: Arc::clone(stream),
        })
    }

    /// Forward passes, loss, and the gradients of all pre-activations.
    pub fn enqueue_step(&self, td: u64) -> Result<(), CudaError> {
        let mut loss = self.loss;
        loss.shared.td = td;
        let mut builder = self.stream.launch_builder(&self.step);
        builder.arg(&self.step_maps).arg(&loss);
        // SAFETY: order and types match fused_step; the maps describe arrays of `rows` rows, and what `loss`
        // names was allocated for as many; `td` holds them, as the caller promises.
        unsafe { builder.launch(shape(self.blocks, 384, STEP_SHARED_BYTES)) }?;
        Ok(())
    }

    /// Parts of the gradients of all weights and biases.
    pub fn enqueue_weight_gradients(&self) -> Result<(), CudaError> {
        let (partial, bias_partial) = (self.partial.address(), self.bias_partial.address());
        let mut builder = self.stream.launch_builder(&self.weight_gradients);
        builder.arg(&self.weight_maps);
        builder.arg(&partial).arg(&bias_partial);
        builder.arg(&self.weights).arg(&self.rows);
        // SAFETY: order and types match fused_weight_gradients; both partial sums have as many rows, of all
        // weights and of all biases, as the most of its splits.
        unsafe { builder.launch(shape(WEIGHT_BLOCKS, 512, WEIGHTS_SHARED_BYTES)) }?;
        Ok(())
    }

    /// Where they are.
    pub fn parts(&self, layers: &[Layer]) -> Parts {
        Parts {
            of_weights: self.partial.address(),
            layout: GradientParts::new(layers, SPLITS),
            of_biases: self.bias_partial.address(),
            bias_rows: MOST_SPLITS as u32,
        }
    }
}

/// `gradients`: of the pre-activations, by layer.
fn step_maps(memory: &StepMemory, gradients: [u64; 3]) -> Result<StepMaps, CudaError> {
    let rows = memory.capacity;
    let next_states = memory.x.address() + (rows * 80 * 2) as u64;
    let x = |at: u64| {
        Ok::<_, CudaError>([
            tensor_map(BF16, at, (80, rows), (64, TILE), WIDE)?,
            tensor_map(BF16, at, (80, rows), (16, TILE), NARROW)?,
        ])
    };
    let weights = |network: &NetworkMemory| {
        let weight = |layer: usize| network.stored(memory.layers[layer].weight.start);
        Ok::<_, CudaError>([
            tensor_map(BF16, weight(0), (80, 384), (64, 192), WIDE)?,
            tensor_map(BF16, weight(0), (80, 384), (16, 192), NARROW)?,
            tensor_map(BF16, weight(1), (384, 384), (64, 192), WIDE)?,
            tensor_map(BF16, weight(2), (384, 384), (64, 192), WIDE)?,
            tensor_map(BF16, weight(3), (384, 48), (64, 48), WIDE)?,
        ])
    };
    let wide = |address: u64| tensor_map(BF16, address, (384, rows), (64, 64), WIDE);
    let hidden = |layer: usize| wide(memory.hidden[layer].address());
    let back = |layer: usize| {
        let weight = memory.online.stored(memory.layers[layer].weight.start);
        tensor_map(BF16, weight, (384, 384), (64, 64), WIDE)
    };
    let [x0, x1] = x(memory.x.address())?;
    let [next0, next1] = x(next_states)?;
    let [o0, o1, o2, o3, o4] = weights(&memory.online)?;
    let [t0, t1, t2, t3, t4] = weights(&memory.target)?;
    Ok(StepMaps([
        x0,
        x1,
        next0,
        next1,
        o0,
        o1,
        o2,
        o3,
        o4,
        t0,
        t1,
        t2,
        t3,
        t4,
        hidden(0)?,
        hidden(1)?,
        hidden(2)?,
        outputs(memory)?,
        back(2)?,
        back(1)?,
        wide(gradients[2])?,
        wide(gradients[1])?,
        wide(gradients[0])?,
    ]))
}

fn weight_maps(memory: &StepMemory, gradients: [u64; 3]) -> Result<WeightMaps, CudaError> {
    let rows = memory.capacity;
    let wide = |address: u64| tensor_map(BF16, address, (384, rows), (64, 64), WIDE);
    let hidden = |layer: usize| wide(memory.hidden[layer].address());
    Ok(WeightMaps([
        wide(gradients[2])?,
        wide(gradients[1])?,
        wide(gradients[0])?,
        hidden(2)?,
        hidden(1)?,
        hidden(0)?,
        tensor_map(BF16, memory.x.address(), (80, rows), (64, 64), WIDE)?,
        outputs(memory)?,
    ]))
}

/// Gradient of the outputs. The box is wider than the matrix: what lies behind a row reads as zero, and is
/// not written.
fn outputs(memory: &StepMemory) -> Result<sys::CUtensorMap, CudaError> {
    let address = memory.d_out.address();
    tensor_map(BF16, address, (48, memory.capacity), (64, 64), WIDE)
}
