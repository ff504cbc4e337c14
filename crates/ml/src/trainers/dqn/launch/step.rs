//! The kernels and products of a training step, in the order in which they run.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use ml_cuda::kernels::{function, launch_behind, load};
use ml_cuda::matmul::{Epilogue, Output, Plan, Precision, Product, Products};
use ml_cuda::{CudaError, arguments};

use super::fused::Fused;
use super::memory::{NetworkMemory, StepMemory};
use super::{GradientParts, Parts, SOURCE, norm_blocks, shape, stored_bytes, threads};
use crate::error::TrainError;
use crate::network::Layer;

/// Device addresses of a sampled batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchAddresses {
    pub rows: usize,
    pub states: u64,
    pub next_states: u64,
    /// Whether states are bf16, else f32.
    pub bf16: bool,
    pub actions: u64,
    pub rewards: u64,
    pub weights: u64,
    pub dones: u64,
    /// Zero: one step each.
    pub step_counts: u64,
    /// One u32: not zero where the batch could not be drawn.
    pub status: u64,
}

/// The kernels and planned products of one step.
#[derive(Debug)]
pub struct StepKernels {
    stream: Arc<CudaStream>,
    upload_f32: CudaFunction,
    upload_bf16: CudaFunction,
    td_loss: CudaFunction,
    relu_backward: CudaFunction,
    grad_norm: CudaFunction,
    adam_step: CudaFunction,
    round_to_bf16: CudaFunction,
    /// Instead of the products, where device and sizes allow.
    fused: Option<Fused>,
    /// One for each layer.
    online: Vec<Plan>,
    target: Vec<Plan>,
    weight_gradient: Vec<Plan>,
    /// One for each layer but the first, from the second on.
    input_gradient: Vec<Plan>,
}

impl StepKernels {
    /// `fused`: whether the fused kernels may be used.
    pub fn new(
        stream: &Arc<CudaStream>,
        memory: &StepMemory,
        fused: bool,
    ) -> Result<Self, TrainError> {
        let module = load(stream.context(), &SOURCE)?;
        let find = |name: &str| function(&module, &SOURCE, name);
        let (loss, relu, upload_f32, upload_bf16) = match memory.precision {
            Precision::Bf16 => (
                "td_loss_bf16",
                "relu_backward_bf16",
                "upload_batch_f32_bf16",
                "upload_batch_bf16_bf16",
            ),
            Precision::Fp32 | Precision::Tf32 => (
                "td_loss_f32",
                "relu_backward_f32",
                "upload_batch_f32_f32",
                "upload_batch_bf16_f32",
            ),
        };
        let products = Products::new(stream)?;
        let fused = if fused {
            Fused::new(stream, memory)?
        } else {
            None
        };
        let layers = &memory.layers;
        let gradient = |product: Product, output: Output, layers: &[Layer]| {
            layers
                .iter()
                .map(|layer| {
                    let sizes = (memory.capacity, layer.inputs, layer.outputs);
                    products.plan(product, sizes, memory.precision, output, Epilogue::Nothing)
                })
                .collect::<Result<Vec<_>, CudaError>>()
        };
        Ok(Self {
            upload_f32: find(upload_f32)?,
            upload_bf16: find(upload_bf16)?,
            td_loss: find(loss)?,
            relu_backward: find(relu)?,
            grad_norm: find("grad_norm")?,
            adam_step: find("adam_step")?,
            round_to_bf16: find("round_to_bf16")?,
            online: forward_plans(&products, layers, 2 * memory.capacity, &memory.online)?,
            target: forward_plans(&products, layers, memory.capacity, &memory.target)?,
            weight_gradient: gradient(Product::WeightGradient, Output::F32, layers)?,
            input_gradient: gradient(Product::InputGradient, Output::AsInputs, &layers[1..])?,
            fused,
            stream: Arc::clone(stream),
        })
    }

    /// Whether fused kernels stand for the products.
    pub fn is_fused(&self) -> bool {
        self.fused.is_some()
    }

    /// Copies a batch into the step's inputs. `batch.rows` is at most the capacity, which the caller checked.
    pub fn upload(
        &self,
        memory: &StepMemory,
        batch: &BatchAddresses,
        gamma: f32,
    ) -> Result<(), TrainError> {
        let kernel = if batch.bf16 {
            &self.upload_bf16
        } else {
            &self.upload_f32
        };
        let width = memory.layers[0].inputs;
        // A thread copies 16 values: `UPLOADS_AT_ONCE`.
        let work = 2 * memory.capacity * width / 16;
        let [rows, capacity, state_dim, width] =
            [batch.rows, memory.capacity, memory.state_dim, width].map(|size| size as u32);
        let x = memory.x.address();
        let (action, reward) = (memory.action.address(), memory.reward.address());
        let (weight, discount) = (memory.weight.address(), memory.discount.address());
        let state = memory.state.address();
        let mut arguments = arguments![
            &batch.states,
            &batch.next_states,
            &batch.actions,
            &batch.rewards,
            &batch.weights,
            &batch.dones,
            &batch.step_counts,
            &batch.status,
            &x,
            &action,
            &reward,
            &weight,
            &discount,
            &state,
            &gamma,
            &rows,
            &capacity,
            &state_dim,
            &width,
        ];
        // SAFETY: order and types match upload_batch in step_kernels.cu, which waits first; the batch holds
        // `rows` rows of `state_dim` and lives in the caller's hands; outputs are allocated for `capacity`
        // rows.
        unsafe { launch_behind(&self.stream, kernel, threads(work), &mut arguments) }?;
        Ok(())
    }

    /// Forward passes of both networks, and the loss. Fused kernels go on to the gradients of all
    /// pre-activations, as these need nothing from outside.
    pub fn forward(&self, memory: &StepMemory, td: u64) -> Result<(), TrainError> {
        if let Some(fused) = &self.fused {
            return Ok(fused.enqueue_step(td)?);
        }
        self.forward_products(memory)?;
        self.loss(memory, td)
    }

    fn forward_products(&self, memory: &StepMemory) -> Result<(), TrainError> {
        let last = memory.layers.len() - 1;
        let next_states = memory.x.address()
            + (memory.capacity * memory.layers[0].inputs * stored_bytes(memory.precision)) as u64;
        let mut online_input = memory.x.address();
        let mut target_input = next_states;
        for (at, layer) in memory.layers.iter().enumerate() {
            let (online_output, target_output) = if at == last {
                (memory.online_out.address(), memory.target_out.address())
            } else {
                (
                    memory.hidden[at].address(),
                    memory.target_hidden[at % 2].address(),
                )
            };
            let online_weight = memory.online.stored(layer.weight.start);
            let target_weight = memory.target.stored(layer.weight.start);
            // SAFETY: the plans have the layers' sizes, and every array was allocated for them.
            unsafe {
                self.online[at].enqueue(online_weight, online_input, online_output)?;
                self.target[at].enqueue(target_weight, target_input, target_output)?;
            }
            (online_input, target_input) = (online_output, target_output);
        }
        Ok(())
    }

    fn loss(&self, memory: &StepMemory, td: u64) -> Result<(), TrainError> {
        let layer = &memory.layers[memory.layers.len() - 1];
        let bias_partial =
            memory.bias_partial.address() + 4 * (layer.bias.start - memory.weights()) as u64;
        let addresses = [
            memory.online_out.address(),
            memory.target_out.address(),
            memory.action.address(),
            memory.reward.address(),
            memory.weight.address(),
            memory.discount.address(),
            memory.d_out.address(),
            td,
            bias_partial,
            memory.loss_partial.address(),
            memory.state.address(),
            memory.settings.address(),
        ];
        let [capacity, actions, width, stride] = [
            memory.capacity,
            memory.num_actions,
            layer.outputs,
            memory.biases(),
        ]
        .map(|size| size as u32);
        let mut launch = self.stream.launch_builder(&self.td_loss);
        for address in &addresses {
            launch.arg(address);
        }
        launch.arg(&capacity).arg(&actions).arg(&width).arg(&stride);
        let shape = LaunchConfig {
            grid_dim: (memory.tiles() as u32, 1, 1),
            block_dim: (512, 1, 1),
            shared_mem_bytes: 16 * width * 4,
        };
        // SAFETY: order and types match td_loss; arrays hold `capacity` rows, `td` as the context
        // allocated it; partials have a row for each block.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// Gradients of all weights, and the partial sums of those of the biases.
    pub fn backward(&self, memory: &StepMemory) -> Result<(), TrainError> {
        match &self.fused {
            Some(fused) => Ok(fused.enqueue_weight_gradients()?),
            None => self.backward_products(memory),
        }
    }

    fn backward_products(&self, memory: &StepMemory) -> Result<(), TrainError> {
        let mut d = memory.d_out.address();
        for at in (0..memory.layers.len()).rev() {
            let layer = &memory.layers[at];
            let input = if at == 0 {
                memory.x.address()
            } else {
                memory.hidden[at - 1].address()
            };
            let gradient = memory.gradient.address() + 4 * layer.weight.start as u64;
            // SAFETY: as in `forward`; of `2 capacity` rows of activations the first half is read,
            // which are those of the states.
            unsafe { self.weight_gradient[at].enqueue(input, d, gradient) }?;
            if at == 0 {
                break;
            }
            let before = memory.d_hidden[at % 2].address();
            let weight = memory.online.stored(layer.weight.start);
            // SAFETY: as above; `before` is the array of the two that does not hold `d`.
            unsafe { self.input_gradient[at - 1].enqueue(weight, d, before) }?;
            self.relu(memory, at - 1, before)?;
            d = before;
        }
        Ok(())
    }

    fn relu(&self, memory: &StepMemory, layer: usize, d: u64) -> Result<(), TrainError> {
        let place = &memory.layers[layer];
        let activation = memory.hidden[layer].address();
        let bias_partial =
            memory.bias_partial.address() + 4 * (place.bias.start - memory.weights()) as u64;
        // A thread takes 16 bytes of a row.
        let pieces = place.outputs * stored_bytes(memory.precision) / 16;
        let groups = (384 / pieces).max(1);
        let [rows, width, stride] =
            [memory.capacity, place.outputs, memory.biases()].map(|size| size as u32);
        let shape = LaunchConfig {
            grid_dim: (memory.tiles() as u32, 1, 1),
            block_dim: ((pieces * groups) as u32, 1, 1),
            shared_mem_bytes: (groups * place.outputs * 4) as u32,
        };
        let mut launch = self.stream.launch_builder(&self.relu_backward);
        launch.arg(&d).arg(&activation).arg(&bias_partial);
        launch.arg(&rows).arg(&width).arg(&stride);
        // SAFETY: order and types match relu_backward; both arrays hold `rows` rows of `width`, a
        // multiple of 8 and at most 4096, so that the block has at most 1024 threads.
        unsafe { launch.launch(shape) }?;
        Ok(())
    }

    /// Whole gradients and their norm, then the decision about the update, and the update.
    pub fn optimize(&self, memory: &StepMemory) -> Result<(), TrainError> {
        let layers = &memory.layers;
        let tiles = memory.tiles() as u32;
        let parts = match &self.fused {
            Some(fused) => fused.parts(layers),
            // The products leave whole sums of the weights, each in its place.
            None => Parts {
                of_weights: memory.gradient.address(),
                layout: GradientParts::new(layers, [1, 1, 1]),
                of_biases: memory.bias_partial.address(),
                bias_rows: tiles,
            },
        };
        let blocks = norm_blocks(memory.weights(), memory.biases()) as u32;
        let gradient = memory.gradient.address();
        let square_partial = memory.square_partial.address();
        let (state, settings) = (memory.state.address(), memory.settings.address());
        let [weights, biases, last_width, head] = [
            memory.weights(),
            memory.biases(),
            layers[layers.len() - 1].inputs,
            memory.head,
        ]
        .map(|size| size as u32);
        let mut of_norm = arguments![
            &parts.of_weights,
            &parts.layout,
            &gradient,
            &parts.of_biases,
            &square_partial,
            &state,
            &settings,
            &weights,
            &biases,
            &parts.bias_rows,
            &last_width,
            &head,
        ];
        // SAFETY: order and types match grad_norm, which waits first; the parts are where they are said
        // to be, and `square_partial` one value for each block.
        unsafe {
            launch_behind(
                &self.stream,
                &self.grad_norm,
                blocks_of_256(blocks),
                &mut of_norm,
            )
        }?;

        let online = memory.online.masters.address();
        let (first, second) = (memory.first.address(), memory.second.address());
        let target = memory.target.masters.address();
        let online_copies = memory.online.copies_or_null();
        let target_copies = memory.target.copies_or_null();
        let loss_partial = memory.loss_partial.address();
        let count = memory.online.masters.len() as u32;
        let mut of_adam = arguments![
            &gradient,
            &online,
            &first,
            &second,
            &target,
            &online_copies,
            &target_copies,
            &square_partial,
            &loss_partial,
            &state,
            &settings,
            &count,
            &blocks,
            &tiles,
        ];
        let shape = blocks_of_256(count.div_ceil(1024));
        // SAFETY: order and types match adam_step; all arrays hold `count` values, a multiple of 8, or one
        // for each block of grad_norm, or each tile; null where there are no bf16 copies. What it touches
        // before it waits, grad_norm does not.
        unsafe { launch_behind(&self.stream, &self.adam_step, shape, &mut of_adam) }?;
        Ok(())
    }

    /// Renews the bf16 copies, after parameters were written from the host.
    pub fn refresh(&self, memory: &StepMemory) -> Result<(), TrainError> {
        for network in [&*memory.online, &memory.target] {
            if network.copies.is_empty() {
                continue;
            }
            let (from, to) = (&network.masters, &network.copies);
            let count = to.len() as u32;
            let (from, to) = (from.address(), to.address());
            let mut launch = self.stream.launch_builder(&self.round_to_bf16);
            launch.arg(&from).arg(&to).arg(&count);
            let shape = blocks_of_256(count.div_ceil(256));
            // SAFETY: order and types match round_to_bf16; both arrays hold `count` values.
            unsafe { launch.launch(shape) }?;
        }
        Ok(())
    }
}

fn blocks_of_256(blocks: u32) -> LaunchConfig {
    shape(blocks, 256, 0)
}

/// One product a layer, with bias and ReLU in its epilogue; the last without ReLU, in f32.
pub(super) fn forward_plans(
    products: &Arc<Products>,
    layers: &[Layer],
    rows: usize,
    network: &NetworkMemory,
) -> Result<Vec<Plan>, CudaError> {
    let last = layers.len() - 1;
    let plan = |(at, layer): (usize, &Layer)| {
        let (output, epilogue) = if at == last {
            // An f32 output takes an f32 bias.
            (
                Output::F32,
                Epilogue::Bias(network.master(layer.bias.start)),
            )
        } else {
            let bias = network.stored(layer.bias.start);
            (Output::AsInputs, Epilogue::BiasRelu(bias))
        };
        let sizes = (rows, layer.inputs, layer.outputs);
        products.plan(
            Product::Forward,
            sizes,
            network.precision(),
            output,
            epilogue,
        )
    };
    layers.iter().enumerate().map(plan).collect()
}
