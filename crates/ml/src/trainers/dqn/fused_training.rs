//! One training step of a dueling double DQN, enqueued without waiting, its phases timed.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use ml_cuda::context::check_memory;
use ml_cuda::{CapturedGraph, Phase, PhaseTimer, Readback, capture};
use ml_dqn::dqn::{DqnAgent, DqnConfig};
use ml_dqn::gpu_replay_buffer::{GpuBatchPtrs, StateType};

use super::acting::Policy;
use super::checkpoint::Snapshot;
use super::launch::{BatchAddresses, StepKernels, StepMemory};
use super::options::LearningRate;
pub use super::options::{Execution, StepOptions, TargetUpdate};
use super::state::StepSettings;
pub use super::state::StepState;
use super::whole_step::WholeStep;
pub use crate::error::TrainError;
use crate::network::NetworkShape;

/// Results that can be on their way to the host at a time.
const READBACK_SLOTS: usize = 64;

/// Loss and gradient norm of the newest step whose copy has arrived; 0 before the first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepOutput {
    /// Mean over the batch of the weighted Huber loss.
    pub loss: f32,
    /// Global norm of the gradient before clipping.
    pub grad_norm: f32,
}

/// Networks, optimizer, inputs and captured graphs of one training step.
///
/// A step enqueues its work and returns. The network, its options and what is computed are described
/// by [`StepOptions`] and by `kernels/step_kernels.cu`.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ml::trainers::dqn::fused_training::FusedTrainingCtx;
/// use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBuffer, GpuReplayBufferConfig};
///
/// let (_context, stream) = ml_cuda::open(0)?;
/// let config = DqnConfig::default();
/// let memory = GpuReplayBuffer::new(GpuReplayBufferConfig::default(), stream.clone())?;
/// let agent = DqnAgent::new(config.clone(), memory)?;
/// let mut fused = FusedTrainingCtx::new(&config, stream.clone())?;
/// // ... push transitions ...
/// for _ in 0..178 {
///     let batch = agent.memory().sample_profiled(config.batch_size, fused.phases())?;
///     fused.run_full_step(&agent, &batch)?;
/// }
/// stream.synchronize()?;
/// println!("{}", fused.phases().finish_epoch().verdict());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FusedTrainingCtx {
    // Graphs hold addresses of what stands below, and are dropped first.
    graphs: Graphs,
    pub(super) whole: Option<WholeStep>,
    pub(super) kernels: StepKernels,
    pub(super) memory: StepMemory,
    pub(super) td_errors: CudaSlice<f32>,
    pub(super) td_address: u64,
    readback: Readback<StepState>,
    shape: NetworkShape,
    options: StepOptions,
    gamma: f32,
    step: u64,
    stream: Arc<CudaStream>,
    phases: PhaseTimer,
}

#[derive(Debug)]
enum Graphs {
    Mega {
        mega: CapturedGraph,
        adam: CapturedGraph,
    },
    Parts {
        forward: CapturedGraph,
        backward: CapturedGraph,
        adam: CapturedGraph,
    },
    Eager,
}

impl FusedTrainingCtx {
    /// A step for batches of at most `config.batch_size` rows, with default options.
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options).
    pub fn new(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<Self, TrainError> {
        Self::with_options(config, StepOptions::default(), stream)
    }

    /// Checks the memory, allocates everything, compiles the kernels (or takes them from the cache),
    /// runs every path once on an empty batch, and captures the graphs. Waits for the GPU.
    ///
    /// # Errors
    /// [`TrainError::Config`] for sizes or settings that cannot be; [`TrainError::Cuda`] for a missing
    /// library, too little memory (with bytes needed and free), or a default stream where graphs are
    /// asked for; [`TrainError::Driver`].
    pub fn with_options(
        config: &DqnConfig,
        options: StepOptions,
        stream: Arc<CudaStream>,
    ) -> Result<Self, TrainError> {
        options.check()?;
        let shape = shape(config, &options)?;
        if config.batch_size == 0 {
            return Err(TrainError::Config("`batch_size` must be positive".into()));
        }
        if !(0.0..=1.0).contains(&config.gamma) {
            return Err(TrainError::Config(format!(
                "`gamma` is {}, and must be from 0 to 1",
                config.gamma
            )));
        }
        let needed = StepMemory::bytes_needed(&shape, config.batch_size, options.precision);
        check_memory(stream.context(), "the training step", needed)?;
        let memory = StepMemory::new(&stream, &shape, config.batch_size, options.precision)?;
        let kernels = StepKernels::new(&stream, &memory, options.fused_kernels)?;
        let td_errors = stream.alloc_zeros::<f32>(config.batch_size)?;
        let td_address = {
            let (address, _guard) = td_errors.device_ptr(&stream);
            address
        };
        let parameters = shape.initial_parameters(options.seed);
        memory.online.masters.write(&parameters)?;
        memory.target.masters.write(&parameters)?;
        memory.settings.write(&[StepSettings::from(&options)])?;
        kernels.refresh(&memory)?;
        // Libraries load their kernels at the first call, which a capture does not bear. With no rows
        // the optimizer changes nothing; what it counted is wiped.
        kernels.forward(&memory, td_address)?;
        kernels.backward(&memory)?;
        kernels.optimize(&memory)?;
        memory.state.write(&[StepState::default()])?;
        stream.synchronize()?;
        let forward = || kernels.forward(&memory, td_address);
        let graphs = match options.execution {
            Execution::Mega => Graphs::Mega {
                mega: capture(&stream, || {
                    forward()?;
                    kernels.backward(&memory)
                })?,
                adam: capture(&stream, || kernels.optimize(&memory))?,
            },
            Execution::ForwardBackward => Graphs::Parts {
                forward: capture(&stream, forward)?,
                backward: capture(&stream, || kernels.backward(&memory))?,
                adam: capture(&stream, || kernels.optimize(&memory))?,
            },
            Execution::Eager => Graphs::Eager,
        };
        Ok(Self {
            graphs,
            whole: None,
            readback: Readback::new(stream.context(), READBACK_SLOTS)?,
            phases: PhaseTimer::new(&stream)?,
            kernels,
            memory,
            td_errors,
            td_address,
            shape,
            options,
            gamma: config.gamma,
            step: 0,
            stream,
        })
    }

    /// Bytes of GPU memory that a step needs, before anything is allocated.
    ///
    /// # Errors
    /// [`TrainError::Config`] for sizes that cannot be.
    pub fn bytes_needed(config: &DqnConfig, options: &StepOptions) -> Result<u64, TrainError> {
        let shape = shape(config, options)?;
        Ok(StepMemory::bytes_needed(
            &shape,
            config.batch_size,
            options.precision,
        ))
    }

    /// Trains on one batch, and gives its rows new priorities. Returns as soon as all is enqueued.
    ///
    /// A loss or gradient that is not finite changes no parameter; it is counted on the device.
    ///
    /// # Errors
    /// [`TrainError::Batch`] for a batch with more rows than the context was made for, or with other
    /// states; a `DqnError` for an empty one; [`TrainError::NotFinite`] after
    /// [`StepOptions::max_skipped_in_row`] steps in a row that changed nothing; what the driver refused,
    /// which may be an error of an earlier step.
    pub fn run_full_step(
        &mut self,
        agent: &DqnAgent,
        batch: &GpuBatchPtrs,
    ) -> Result<StepOutput, TrainError> {
        self.check_batch(batch)?;
        batch.wait_on(&self.stream)?;

        self.phases.start(Phase::Upload, &self.stream);
        self.upload_batch_gpu(batch)?;
        self.phases.end(Phase::Upload, &self.stream);

        self.phases.start(Phase::FwdBwd, &self.stream);
        if self.options.execution == Execution::Mega {
            self.replay_graph_mega()?;
        } else {
            self.replay_graph_forward()?;
            self.replay_graph_backward()?;
        }
        self.phases.end(Phase::FwdBwd, &self.stream);

        self.phases.start(Phase::Adam, &self.stream);
        self.replay_graph_adam()?;
        self.phases.end(Phase::Adam, &self.stream);

        // On the buffer's own stream, as its kernels are.
        self.phases.start(Phase::PerUpdate, agent.memory().stream());
        agent
            .memory()
            .update_priorities_gpu(batch, &self.td_errors)?;
        self.phases.end(Phase::PerUpdate, agent.memory().stream());

        self.enqueued()
    }

    /// Counts a step, and asks for its results.
    pub(super) fn enqueued(&mut self) -> Result<StepOutput, TrainError> {
        self.step += 1;
        self.readback.post(&self.memory.state, &self.stream)?;
        self.output()
    }

    /// Steps enqueued so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// State after the newest step whose copy has arrived: its number, loss, norm, skipped updates.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn last_loss(&mut self) -> Result<Option<StepState>, TrainError> {
        Ok(self.readback.newest()?.map(|(_, state)| state))
    }

    /// State after the newest step. Waits for the GPU.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn state_to_host(&self) -> Result<StepState, TrainError> {
        let mut state = [StepState::default()];
        self.memory.state.read(&mut state)?;
        Ok(state[0])
    }

    /// TD errors `y − Q(s, a)` of the newest batch, one a row.
    pub fn td_errors(&self) -> &CudaSlice<f32> {
        &self.td_errors
    }

    /// The timer of the step's phases.
    pub fn phases(&self) -> &PhaseTimer {
        &self.phases
    }

    /// Takes another timer, such as one with options of its own.
    pub fn set_phases(&mut self, phases: PhaseTimer) {
        // Its graph reports to the timer that it was captured with.
        self.whole = None;
        self.phases = phases;
    }

    /// The stream of the step.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Whether forward and backward pass are fused kernels, rather than chains of products.
    pub fn is_fused(&self) -> bool {
        self.kernels.is_fused()
    }

    /// The options that it was made with.
    pub fn options(&self) -> &StepOptions {
        &self.options
    }

    /// The shape of its network.
    pub fn shape(&self) -> &NetworkShape {
        &self.shape
    }

    /// Changes the learning rate and its course for the steps that are enqueued from now on. Graphs
    /// stay as they are: they read it on the device.
    ///
    /// # Errors
    /// [`TrainError::Config`] for a rate that cannot be, or what the driver refused.
    pub fn set_learning_rate(&mut self, learning_rate: LearningRate) -> Result<(), TrainError> {
        let options = StepOptions {
            learning_rate,
            ..self.options.clone()
        };
        options.check()?;
        self.memory
            .settings
            .write(&[StepSettings::from(&options)])?;
        self.options = options;
        Ok(())
    }

    /// Online parameters on the host, in the padded flat layout that [`Oracle`] takes. Waits for the GPU.
    ///
    /// [`Oracle`]: crate::oracle::Oracle
    ///
    /// # Errors
    /// What the driver refused.
    pub fn parameters(&self) -> Result<Vec<f32>, TrainError> {
        Ok(self.memory.online.masters.to_vec()?)
    }

    /// Target parameters, as [`parameters`](Self::parameters).
    ///
    /// # Errors
    /// What the driver refused.
    pub fn target_parameters(&self) -> Result<Vec<f32>, TrainError> {
        Ok(self.memory.target.masters.to_vec()?)
    }

    /// Gradient of the newest step before clipping, as [`parameters`](Self::parameters).
    ///
    /// # Errors
    /// What the driver refused.
    pub fn gradient(&self) -> Result<Vec<f32>, TrainError> {
        Ok(self.memory.gradient.to_vec()?)
    }

    /// Sets both networks, in the layout of [`parameters`](Self::parameters). Optimizer state stays.
    ///
    /// # Errors
    /// [`TrainError::Config`] for another length, or what the driver refused.
    pub fn set_parameters(&mut self, online: &[f32], target: &[f32]) -> Result<(), TrainError> {
        let expected = self.memory.online.masters.len();
        if online.len() != expected || target.len() != expected {
            return Err(TrainError::Config(format!(
                "{} and {} parameters were given to a network of {expected} (with padding)",
                online.len(),
                target.len()
            )));
        }
        self.memory.online.masters.write(online)?;
        self.memory.target.masters.write(target)?;
        self.kernels.refresh(&self.memory)
    }

    /// The online network as an agent acts by it: what the step has enqueued so far, and all that it
    /// will. Hand it over with [`DqnAgent::set_network`].
    ///
    /// # Errors
    /// A missing library, or what the driver refused.
    pub fn policy(&self) -> Result<Policy, TrainError> {
        Policy::new(&self.stream, &self.shape, Arc::clone(&self.memory.online))
    }

    /// Everything that a checkpoint holds. Waits for the GPU.
    pub(super) fn snapshot(&self) -> Result<Snapshot, TrainError> {
        Ok(Snapshot {
            online: self.parameters()?,
            target: self.target_parameters()?,
            first: self.memory.first.to_vec()?,
            second: self.memory.second.to_vec()?,
            state: self.state_to_host()?,
            learning_rate: self.options.learning_rate,
        })
    }

    /// Takes over a snapshot of the same shape.
    pub(super) fn apply(&mut self, snapshot: &Snapshot) -> Result<(), TrainError> {
        self.set_parameters(&snapshot.online, &snapshot.target)?;
        self.set_learning_rate(snapshot.learning_rate)?;
        self.memory.first.write(&snapshot.first)?;
        self.memory.second.write(&snapshot.second)?;
        self.memory.state.write(&[snapshot.state])?;
        self.step = snapshot.state.attempts;
        Ok(())
    }

    fn check_batch(&self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        if batch.is_empty() {
            return Err(TrainError::Dqn(ml_dqn::DqnError::EmptyBatch));
        }
        if batch.len() > self.memory.capacity {
            return Err(TrainError::Batch(format!(
                "it has {} rows, and the step was made for at most {} (`batch_size`)",
                batch.len(),
                self.memory.capacity
            )));
        }
        if batch.state_dim() != self.memory.state_dim {
            return Err(TrainError::Batch(format!(
                "its states have {} values, the network takes {}",
                batch.state_dim(),
                self.memory.state_dim
            )));
        }
        Ok(())
    }

    pub(super) fn upload_batch_gpu(&self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        let addresses = BatchAddresses {
            rows: batch.len(),
            states: batch.states(),
            next_states: batch.next_states(),
            bf16: batch.state_type() == StateType::Bf16,
            actions: batch.actions(),
            rewards: batch.rewards(),
            weights: batch.weights(),
            dones: batch.dones(),
            step_counts: batch.step_counts(),
            status: batch.status(),
        };
        self.kernels.upload(&self.memory, &addresses, self.gamma)
    }

    fn replay_graph_mega(&mut self) -> Result<(), TrainError> {
        match &mut self.graphs {
            Graphs::Mega { mega, .. } => Ok(mega.launch()?),
            _ => {
                self.replay_graph_forward()?;
                self.replay_graph_backward()
            }
        }
    }

    fn replay_graph_forward(&mut self) -> Result<(), TrainError> {
        match &mut self.graphs {
            Graphs::Parts { forward, .. } => Ok(forward.launch()?),
            _ => self.kernels.forward(&self.memory, self.td_address),
        }
    }

    fn replay_graph_backward(&mut self) -> Result<(), TrainError> {
        match &mut self.graphs {
            Graphs::Parts { backward, .. } => Ok(backward.launch()?),
            _ => self.kernels.backward(&self.memory),
        }
    }

    fn replay_graph_adam(&mut self) -> Result<(), TrainError> {
        match &mut self.graphs {
            Graphs::Mega { adam, .. } | Graphs::Parts { adam, .. } => Ok(adam.launch()?),
            Graphs::Eager => self.kernels.optimize(&self.memory),
        }
    }

    fn output(&mut self) -> Result<StepOutput, TrainError> {
        let Some((_, state)) = self.readback.newest()? else {
            return Ok(StepOutput::default());
        };
        if state.skipped_in_row >= self.options.max_skipped_in_row.max(1) {
            return Err(TrainError::NotFinite {
                step: state.attempts,
                in_row: state.skipped_in_row,
            });
        }
        Ok(StepOutput {
            loss: state.loss,
            grad_norm: state.grad_norm,
        })
    }
}

fn shape(config: &DqnConfig, options: &StepOptions) -> Result<NetworkShape, TrainError> {
    NetworkShape::new(
        config.state_dim,
        config.num_actions,
        &options.hidden,
        options.head,
    )
}
