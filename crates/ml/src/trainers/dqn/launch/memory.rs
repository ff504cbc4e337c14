//! Device memory of a step and of its networks.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_cuda::DeviceMemory;
use ml_cuda::matmul::Precision;

use super::fused::Fused;
use super::{ROW_TILE, norm_blocks, stored_bytes};
use crate::error::TrainError;
use crate::network::{Layer, NetworkShape};
use crate::trainers::dqn::state::{StepSettings, StepState};

/// Device memory of one step, all of it allocated once.
#[derive(Debug)]
pub struct StepMemory {
    pub layers: Vec<Layer>,
    pub capacity: usize,
    pub state_dim: usize,
    pub num_actions: usize,
    pub head: usize,
    pub precision: Precision,
    pub online: Arc<NetworkMemory>,
    pub target: NetworkMemory,
    pub first: DeviceMemory<f32>,
    pub second: DeviceMemory<f32>,
    pub gradient: DeviceMemory<f32>,
    /// Input of the states, then of the next states: `2 capacity` rows. Bytes of the stored type.
    pub x: DeviceMemory<u8>,
    pub action: DeviceMemory<u32>,
    pub reward: DeviceMemory<f32>,
    pub weight: DeviceMemory<f32>,
    pub discount: DeviceMemory<f32>,
    /// Output of each hidden layer for `2 capacity` rows.
    pub hidden: Vec<DeviceMemory<u8>>,
    /// Of the target network, `capacity` rows, two taken in turns.
    pub target_hidden: [DeviceMemory<u8>; 2],
    /// f32 outputs of the last layer.
    pub online_out: DeviceMemory<f32>,
    pub target_out: DeviceMemory<f32>,
    /// Gradient of the outputs, and of each hidden layer's output, two taken in turns.
    pub d_out: DeviceMemory<u8>,
    pub d_hidden: [DeviceMemory<u8>; 2],
    pub bias_partial: DeviceMemory<f32>,
    pub loss_partial: DeviceMemory<f64>,
    pub square_partial: DeviceMemory<f64>,
    pub state: DeviceMemory<StepState>,
    pub settings: DeviceMemory<StepSettings>,
}

impl StepMemory {
    /// Bytes that [`new`](Self::new) allocates, known before it does.
    pub fn bytes_needed(shape: &NetworkShape, capacity: usize, precision: Precision) -> u64 {
        let element = stored_bytes(precision) as u64;
        let layers = shape.layers();
        let flat = shape.flat_len() as u64;
        let (rows, capacity) = (capacity, capacity as u64);
        let widest = layers[..layers.len() - 1]
            .iter()
            .map(|layer| layer.outputs)
            .max()
            .unwrap_or(0) as u64;
        let hidden: u64 = layers[..layers.len() - 1]
            .iter()
            .map(|layer| layer.outputs as u64)
            .sum();
        let inputs = layers[0].inputs as u64;
        let outputs = layers[layers.len() - 1].outputs as u64;
        let biases: u64 = layers.iter().map(|layer| layer.outputs as u64).sum();
        let activations = 2 * (inputs + hidden) + 2 * widest + 2 * widest + outputs;
        let shadows = if precision == Precision::Bf16 {
            2 * 2
        } else {
            0
        };
        flat * (5 * 4 + shadows)
            + capacity * element * activations
            + capacity * (3 * outputs * 4 + 4 * 4)
            + capacity.div_ceil(ROW_TILE as u64) * (4 * biases + 8)
            + Fused::bytes_needed(&layers, rows, precision)
            // The products' workspace.
            + (32 << 20)
    }

    pub fn new(
        stream: &Arc<CudaStream>,
        shape: &NetworkShape,
        capacity: usize,
        precision: Precision,
    ) -> Result<Self, TrainError> {
        let layers = shape.layers();
        let flat = shape.flat_len();
        if layers
            .iter()
            .any(|layer| capacity * 2 * layer.outputs.max(layer.inputs) >= 1 << 32)
        {
            return Err(TrainError::Config(format!(
                "a batch of {capacity} rows is too large for this network: its widest layer would hold 2^32 values"
            )));
        }
        let element = stored_bytes(precision);
        let rows_of =
            |rows: usize, width: usize| DeviceMemory::zeroed(stream, rows * width * element);
        let before_last = &layers[..layers.len() - 1];
        let widest = before_last
            .iter()
            .map(|layer| layer.outputs)
            .max()
            .unwrap_or(0);
        let last = &layers[layers.len() - 1];
        let tiles = capacity.div_ceil(ROW_TILE);
        let biases = flat - last.weight.end;
        let f32s = |len| DeviceMemory::<f32>::zeroed(stream, len);
        Ok(Self {
            online: Arc::new(NetworkMemory::new(stream, flat, precision)?),
            target: NetworkMemory::new(stream, flat, precision)?,
            first: f32s(flat)?,
            second: f32s(flat)?,
            gradient: f32s(flat)?,
            x: rows_of(2 * capacity, layers[0].inputs)?,
            action: DeviceMemory::zeroed(stream, capacity)?,
            reward: f32s(capacity)?,
            weight: f32s(capacity)?,
            discount: f32s(capacity)?,
            hidden: before_last
                .iter()
                .map(|layer| rows_of(2 * capacity, layer.outputs))
                .collect::<Result<_, _>>()?,
            target_hidden: [rows_of(capacity, widest)?, rows_of(capacity, widest)?],
            online_out: f32s(2 * capacity * last.outputs)?,
            target_out: f32s(capacity * last.outputs)?,
            d_out: rows_of(capacity, last.outputs)?,
            d_hidden: [rows_of(capacity, widest)?, rows_of(capacity, widest)?],
            bias_partial: f32s(tiles * biases)?,
            loss_partial: DeviceMemory::zeroed(stream, tiles)?,
            square_partial: DeviceMemory::zeroed(stream, norm_blocks(last.weight.end, biases))?,
            state: DeviceMemory::zeroed(stream, 1)?,
            settings: DeviceMemory::zeroed(stream, 1)?,
            layers,
            capacity,
            state_dim: shape.state_dim(),
            num_actions: shape.num_actions(),
            head: shape.head(),
            precision,
        })
    }

    pub fn weights(&self) -> usize {
        self.layers[self.layers.len() - 1].weight.end
    }

    pub fn biases(&self) -> usize {
        self.online.masters.len() - self.weights()
    }

    pub fn tiles(&self) -> usize {
        self.capacity.div_ceil(ROW_TILE)
    }
}

/// Parameters of one network.
#[derive(Debug)]
pub struct NetworkMemory {
    /// f32 masters, flat.
    pub masters: DeviceMemory<f32>,
    /// bf16 copies that products read; empty unless `Bf16`.
    pub copies: DeviceMemory<u16>,
    precision: Precision,
}

impl NetworkMemory {
    fn new(
        stream: &Arc<CudaStream>,
        flat: usize,
        precision: Precision,
    ) -> Result<Self, TrainError> {
        let copies = if precision == Precision::Bf16 {
            flat
        } else {
            0
        };
        Ok(Self {
            masters: DeviceMemory::zeroed(stream, flat)?,
            copies: DeviceMemory::zeroed(stream, copies)?,
            precision,
        })
    }

    /// How products read them.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Address of a place in what products read: the masters, or their bf16 copies.
    pub fn stored(&self, place: usize) -> u64 {
        match self.precision {
            Precision::Bf16 => self.copies.address() + 2 * place as u64,
            Precision::Fp32 | Precision::Tf32 => self.master(place),
        }
    }

    /// Address of a place in the masters.
    pub fn master(&self, place: usize) -> u64 {
        self.masters.address() + 4 * place as u64
    }

    /// Address of the copies, or null.
    pub fn copies_or_null(&self) -> u64 {
        if self.copies.is_empty() {
            0
        } else {
            self.copies.address()
        }
    }
}
