//! The forward pass of the online network alone, for a fixed number of rows.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use ml_cuda::kernels::{function, load};
use ml_cuda::matmul::{Plan, Precision, Products};
use ml_cuda::{CudaError, DeviceMemory};

use super::memory::NetworkMemory;
use super::step::forward_plans;
use super::{SOURCE, stored_bytes, threads};
use crate::network::{Layer, NetworkShape};

/// Kernels, products and scratch memory for at most `rows` states.
#[derive(Debug)]
pub struct ActingKernels {
    stream: Arc<CudaStream>,
    network: Arc<NetworkMemory>,
    pad_states: CudaFunction,
    dueling_q: CudaFunction,
    layers: Vec<Layer>,
    plans: Vec<Plan>,
    rows: usize,
    state_dim: usize,
    num_actions: usize,
    /// States from the host, `[rows][state_dim]`.
    states: DeviceMemory<f32>,
    /// Layer inputs and outputs, two taken in turns.
    activations: [DeviceMemory<u8>; 2],
    out: DeviceMemory<f32>,
    q: DeviceMemory<f32>,
}

impl ActingKernels {
    pub fn new(
        stream: &Arc<CudaStream>,
        shape: &NetworkShape,
        network: &Arc<NetworkMemory>,
        rows: usize,
    ) -> Result<Self, CudaError> {
        let module = load(stream.context(), &SOURCE)?;
        let pad = match network.precision() {
            Precision::Bf16 => "pad_states_bf16",
            Precision::Fp32 | Precision::Tf32 => "pad_states_f32",
        };
        let layers = shape.layers();
        let widths = layers.iter().map(|layer| layer.inputs.max(layer.outputs));
        let bytes = rows * widths.max().unwrap_or(0) * stored_bytes(network.precision());
        let outputs = layers[layers.len() - 1].outputs;
        let products = Products::new(stream)?;
        Ok(Self {
            pad_states: function(&module, &SOURCE, pad)?,
            dueling_q: function(&module, &SOURCE, "dueling_q")?,
            plans: forward_plans(&products, &layers, rows, network)?,
            rows,
            state_dim: shape.state_dim(),
            num_actions: shape.num_actions(),
            states: DeviceMemory::zeroed(stream, rows * shape.state_dim())?,
            activations: [
                DeviceMemory::zeroed(stream, bytes)?,
                DeviceMemory::zeroed(stream, bytes)?,
            ],
            out: DeviceMemory::zeroed(stream, rows * outputs)?,
            q: DeviceMemory::zeroed(stream, rows * shape.num_actions())?,
            layers,
            stream: Arc::clone(stream),
            network: Arc::clone(network),
        })
    }

    /// Most states of one call.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Q values of host states. Waits for the stream.
    pub fn of_host(&self, states: &[f32]) -> Result<Vec<f32>, CudaError> {
        self.states.write(states)?;
        self.q_values(self.states.address(), states.len() / self.state_dim)
    }

    /// Q values of device states. Waits for their stream's work so far, and for this stream.
    pub fn of_device(&self, states: &CudaSlice<f32>) -> Result<Vec<f32>, CudaError> {
        self.stream.join(states.stream())?;
        let (address, _guard) = states.device_ptr(&self.stream);
        self.q_values(address, states.len() / self.state_dim)
    }

    /// `states` is the address of `rows` states, alive until this returns.
    fn q_values(&self, states: u64, rows: usize) -> Result<Vec<f32>, CudaError> {
        if rows > self.rows {
            return Err(CudaError::Length {
                asked: rows,
                held: self.rows,
            });
        }
        let [first, second] = [self.activations[0].address(), self.activations[1].address()];
        let width = self.layers[0].inputs;
        let [n, state_dim, columns] = [rows, self.state_dim, width].map(|size| size as u32);
        let mut launch = self.stream.launch_builder(&self.pad_states);
        launch
            .arg(&states)
            .arg(&first)
            .arg(&n)
            .arg(&state_dim)
            .arg(&columns);
        // SAFETY: order and types match pad_states; `rows` states lie at the address, and the activation
        // holds more rows of the widest layer.
        unsafe { launch.launch(threads(rows * width / 4)) }?;
        let (mut input, mut output) = (first, second);
        for (at, layer) in self.layers.iter().enumerate() {
            let weight = self.network.stored(layer.weight.start);
            let to = if at + 1 == self.layers.len() {
                self.out.address()
            } else {
                output
            };
            // SAFETY: the plan has this layer's sizes and `self.rows` rows, for which all was allocated;
            // rows behind the states are computed from what lies there, and never read.
            unsafe { self.plans[at].enqueue(weight, input, to) }?;
            (input, output) = (output, input);
        }
        let last = &self.layers[self.layers.len() - 1];
        let (out, q) = (self.out.address(), self.q.address());
        let [actions, columns] = [self.num_actions, last.outputs].map(|size| size as u32);
        let mut launch = self.stream.launch_builder(&self.dueling_q);
        launch.arg(&out).arg(&q).arg(&n).arg(&actions).arg(&columns);
        let shape = LaunchConfig {
            grid_dim: (n.div_ceil(8).max(1), 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: order and types match dueling_q; both arrays hold at least `rows` rows.
        unsafe { launch.launch(shape) }?;
        let mut values = vec![0.0; rows * self.num_actions];
        self.q.read(&mut values)?;
        Ok(values)
    }
}
