//! Passes, loss and all gradients as two kernels in tf32: `kernels/step_fused_tf32_sm90a.cu`.

use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUtensorMapDataType_enum::CU_TENSOR_MAP_DATA_TYPE_FLOAT32 as F32;
use cudarc::driver::sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B as WIDE;
use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg};
use ml_cuda::kernels::{KernelSource, function, load};
use ml_cuda::{CudaError, DeviceMemory};

use super::fused::{FusedArguments, function_with_shared, hopper_source, tiles_in_turn};
use super::memory::StepMemory;
use super::tensor_map::tensor_map;
use super::{GradientParts, Parts, SOURCE, shape};
use crate::network::Layer;

/// The kernel's text.
pub const FUSED_TF32_SOURCE: KernelSource = hopper_source(
    "step_fused_tf32_sm90a.cu",
    include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../kernels/step_fused_tf32_sm90a.cu"
    )),
);

/// Rows of a block; `ROWS` there.
const TILE: usize = 128;
/// `STEP_SHARED_BYTES` and `WEIGHTS_SHARED_BYTES` there.
const STEP_SHARED_BYTES: u32 = 224_328;
const WEIGHTS_SHARED_BYTES: u32 = 196_672;
/// Rows of a stage; `GROUP` there.
const GROUP: usize = 32;
/// `WEIGHT_BLOCKS` there.
const WEIGHT_BLOCKS: u32 = 132;
/// `SPLITS_FIRST`, `SPLITS_SQUARE` and `SPLITS_LAST` there.
const SPLITS: [u32; 3] = [8, 13, 6];
const MOST_SPLITS: usize = 13;
/// Units of a fragment, and steps of k.
const FRAGMENT: (usize, usize) = (16, 8);
/// Fragments side by side for one step: what a warp owns of a hidden layer, and of the outputs.
const SIDE: [usize; 2] = [3, 1];
/// Values of the fragments of a whole network, W4 filled up to 64 rows, and of W4, W3 and W2 the other way round;
/// `AT_END` and `BACK_END` there.
const FORWARD: usize = 350_208;
const BACK: usize = 313_344;
const PARTS: usize = 11;
/// Words of `masks` for each layer and 128 rows: a bit for each of 384 columns.
const MASK_WORDS: usize = 3 * 256 * 2;

/// As `StepMaps` there: x of the states and of the next states.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct StepMaps([sys::CUtensorMap; 2]);

/// The states' x for the other kernel.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct InputMap(sys::CUtensorMap);

/// As `Saved` there: gradients of what is before each ReLU, from the first to the last, and of the outputs; hidden
/// activations from the first to the last. Addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Saved([u64; 7]);

/// Columns of each, in chunks of 32.
const SAVED_COLUMNS: [usize; 7] = [384, 384, 384, 64, 384, 384, 384];

/// As `Step` there, field by field; addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Step {
    shared: FusedArguments,
    online: u64,
    target: u64,
    back: u64,
    bias_partial: u64,
    masks: u64,
    saved: Saved,
}

/// As `FragmentPart` in `step_kernels.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct FragmentPart {
    from: u64,
    to: u64,
    units: u32,
    k: u32,
    unit_step: u32,
    k_step: u32,
    lanes: u32,
    side: u32,
}

/// As `FragmentPlan` there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct FragmentPlan([FragmentPart; PARTS]);

// SAFETY: plain bytes, as the kernel's struct has them: maps of 128 bytes each.
unsafe impl DeviceRepr for StepMaps {}
// SAFETY: plain numbers without padding.
unsafe impl DeviceRepr for Step {}
// SAFETY: as above.
unsafe impl DeviceRepr for Saved {}
// SAFETY: as for the maps.
unsafe impl DeviceRepr for InputMap {}
// SAFETY: as above.
unsafe impl DeviceRepr for FragmentPlan {}
const _: () = assert!(
    size_of::<StepMaps>() == 256 && size_of::<Step>() == 200 && size_of::<FragmentPlan>() == 440
);

/// The launches between a step's inputs and its optimizer, with all that they read and write baked in.
#[derive(Debug)]
pub struct FusedTf32 {
    stream: Arc<CudaStream>,
    fragments: CudaFunction,
    step: CudaFunction,
    weight_gradients: CudaFunction,
    plan: FragmentPlan,
    maps: StepMaps,
    /// All but the address of the TD errors.
    arguments: Step,
    blocks: u32,
    tiles: usize,
    weights: i32,
    inputs: InputMap,
    /// Sums over shares of the batch of the weights' gradients.
    partial: DeviceMemory<f32>,
    /// Sums over each tile of the gradients of all pre-activations.
    bias_partial: DeviceMemory<f32>,
    /// Which hidden activations are positive; `arguments` has their address, as of what follows.
    _masks: DeviceMemory<u32>,
    _saved: [DeviceMemory<f32>; 7],
    _fragments: [DeviceMemory<f32>; 3],
}

impl FusedTf32 {
    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes_needed(layers: &[Layer], capacity: usize) -> u64 {
        let last = &layers[layers.len() - 1];
        let (weights, flat) = (last.weight.end, last.bias.end);
        let tiles = capacity.div_ceil(TILE);
        let of_tile = TILE * SAVED_COLUMNS.iter().sum::<usize>() + flat - weights + 3 * MASK_WORDS;
        let words = 2 * FORWARD + BACK + MOST_SPLITS * weights + tiles * of_tile;
        4 * words as u64
    }

    /// The layers have the kernel's sizes, and the device is a Hopper, which the caller checked.
    pub fn new(stream: &Arc<CudaStream>, memory: &StepMemory) -> Result<Self, CudaError> {
        let context = stream.context();
        let module = load(context, &FUSED_TF32_SOURCE)?;
        let find = |name, shared| function_with_shared(&module, &FUSED_TF32_SOURCE, name, shared);
        let fragments = function(&load(context, &SOURCE)?, &SOURCE, "weight_fragments")?;
        let rows = memory.capacity;
        let tiles = rows.div_ceil(TILE);
        let iterations = tiles_in_turn(context, tiles)?;
        let zeroed = |len| DeviceMemory::<f32>::zeroed(stream, len);
        let fragments_of = [zeroed(FORWARD)?, zeroed(FORWARD)?, zeroed(BACK)?];
        let saved = SAVED_COLUMNS.map(|columns| zeroed(tiles * TILE * columns));
        let [z1, z2, z3, dout, h1, h2, h3] = saved;
        let saved = [z1?, z2?, z3?, dout?, h1?, h2?, h3?];
        let saved_addresses = [0, 1, 2, 3, 4, 5, 6].map(|at: usize| saved[at].address());
        let weights = memory.weights();
        let bias_partial = zeroed(tiles * memory.biases())?;
        let masks = DeviceMemory::zeroed(stream, 3 * tiles * MASK_WORDS)?;
        let arguments = Step {
            shared: FusedArguments::new(memory, iterations),
            online: fragments_of[0].address(),
            target: fragments_of[1].address(),
            back: fragments_of[2].address(),
            bias_partial: bias_partial.address(),
            masks: masks.address(),
            saved: Saved(saved_addresses),
        };
        let addresses = [0, 1, 2].map(|at: usize| fragments_of[at].address());
        Ok(Self {
            fragments,
            step: find("fused_step_tf32", STEP_SHARED_BYTES)?,
            weight_gradients: find("fused_weight_gradients_tf32", WEIGHTS_SHARED_BYTES)?,
            plan: fragment_plan(memory, addresses),
            maps: step_maps(memory)?,
            inputs: InputMap(inputs(memory, memory.x.address(), GROUP)?),
            arguments,
            blocks: tiles.div_ceil(iterations) as u32,
            tiles,
            weights: weights as i32,
            partial: zeroed(MOST_SPLITS * weights)?,
            bias_partial,
            _masks: masks,
            _saved: saved,
            _fragments: fragments_of,
            stream: Arc::clone(stream),
        })
    }

    /// Forward passes, loss, and the gradients of all pre-activations.
    pub fn enqueue_step(&self, td: u64) -> Result<(), CudaError> {
        let lanes = self.plan.0.iter().map(|part| part.lanes).max().unwrap_or(0);
        let mut builder = self.stream.launch_builder(&self.fragments);
        builder.arg(&self.plan);
        let grid = LaunchConfig {
            grid_dim: (lanes.div_ceil(256), PARTS as u32, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the type matches weight_fragments; each part reads a whole matrix, and writes `lanes` times 16
        // bytes, which lie side by side in arrays of as many.
        unsafe { builder.launch(grid) }?;
        let mut arguments = self.arguments;
        arguments.shared.td = td;
        let mut builder = self.stream.launch_builder(&self.step);
        builder.arg(&self.maps).arg(&arguments);
        // SAFETY: order and types match fused_step_tf32; the maps describe arrays of `rows` rows, and what
        // `arguments` names was allocated for as many, or for whole tiles; `td` holds them, as the caller promises.
        unsafe { builder.launch(shape(self.blocks, 256, STEP_SHARED_BYTES)) }?;
        Ok(())
    }

    /// Parts of the gradients of all weights; those of the biases are there already.
    pub fn enqueue_weight_gradients(&self) -> Result<(), CudaError> {
        let (partial, rows) = (self.partial.address(), self.arguments.shared.rows as i32);
        let mut builder = self.stream.launch_builder(&self.weight_gradients);
        builder.arg(&self.arguments.saved).arg(&self.inputs);
        builder.arg(&partial);
        builder.arg(&self.weights).arg(&rows);
        // SAFETY: order and types match fused_weight_gradients_tf32; what was saved covers whole tiles, and
        // `partial` has a row of all weights for each of its splits.
        unsafe { builder.launch(shape(WEIGHT_BLOCKS, 384, WEIGHTS_SHARED_BYTES)) }?;
        Ok(())
    }

    /// Where they are.
    pub fn parts(&self, layers: &[Layer]) -> Parts {
        Parts {
            of_weights: self.partial.address(),
            layout: GradientParts::new(layers, SPLITS),
            of_biases: self.bias_partial.address(),
            bias_rows: self.tiles as u32,
        }
    }
}

/// `to`: fragments of the online and of the target network, and of the online one the other way round.
fn fragment_plan(memory: &StepMemory, [online, target, back]: [u64; 3]) -> FragmentPlan {
    let mut parts = [FragmentPart::default(); PARTS];
    let mut part = parts.iter_mut();
    let mut add =
        |from: u64, to: &mut u64, units: (usize, usize), k: (usize, usize), side: usize| {
            let steps = k.0 / FRAGMENT.1;
            let blocks =
                units
                    .0
                    .div_ceil(FRAGMENT.0)
                    .next_multiple_of(if side == 1 { 4 } else { side });
            let lanes = blocks * steps * 32;
            if let Some(part) = part.next() {
                *part = FragmentPart {
                    from,
                    to: *to,
                    units: units.0 as u32,
                    k: k.0 as u32,
                    unit_step: units.1 as u32,
                    k_step: k.1 as u32,
                    lanes: lanes as u32,
                    side: side as u32,
                };
            }
            *to += 16 * lanes as u64;
        };
    for (network, mut to) in [(&*memory.online, online), (&memory.target, target)] {
        for (at, layer) in memory.layers.iter().enumerate() {
            let from = network.master(layer.weight.start);
            let side = SIDE[usize::from(at + 1 == memory.layers.len())];
            add(
                from,
                &mut to,
                (layer.outputs, layer.inputs),
                (layer.inputs, 1),
                side,
            );
        }
    }
    let mut to = back;
    for layer in memory.layers[1..].iter().rev() {
        let from = memory.online.master(layer.weight.start);
        add(
            from,
            &mut to,
            (layer.inputs, 1),
            (layer.outputs, layer.inputs),
            SIDE[0],
        );
    }
    FragmentPlan(parts)
}

fn step_maps(memory: &StepMemory) -> Result<StepMaps, CudaError> {
    let next_states = memory.x.address() + (memory.capacity * 80 * 4) as u64;
    let tile = |address: u64| inputs(memory, address, TILE);
    Ok(StepMaps([tile(memory.x.address())?, tile(next_states)?]))
}

/// Inputs in boxes of so many rows.
fn inputs(memory: &StepMemory, address: u64, rows: usize) -> Result<sys::CUtensorMap, CudaError> {
    tensor_map(F32, address, (80, memory.capacity), (32, rows), WIDE)
}
