//! An agent whose replay buffer holds random transitions, and a step for it.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use libtest_mimic::Failed;
use ml::NetworkShape;
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions};
use ml_cuda::kernels::KernelSource;
use ml_dqn::gpu_replay_buffer::GpuBatchPtrs;
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig};

use crate::problem::{Batch, Random};

pub const GAMMA: f32 = 0.97;

#[derive(Debug)]
pub struct Setup {
    pub stream: Arc<CudaStream>,
    pub config: DqnConfig,
    pub agent: DqnAgent,
}

/// A shape small enough for the oracle, with no size that fits the alignment.
pub fn small_options() -> StepOptions {
    let mut options = StepOptions::default();
    options.hidden = vec![50, 37];
    options.head = 20;
    options
}

impl Setup {
    /// `transitions` random ones, of which `rows` make a batch.
    pub fn new(
        state_dim: usize,
        num_actions: usize,
        rows: usize,
        transitions: usize,
    ) -> Result<Self, Failed> {
        let (_context, stream) = ml_cuda::open(0)?;
        Self::on(stream, state_dim, num_actions, rows, transitions)
    }

    pub fn on(
        stream: Arc<CudaStream>,
        state_dim: usize,
        num_actions: usize,
        rows: usize,
        transitions: usize,
    ) -> Result<Self, Failed> {
        let config = DqnConfig {
            state_dim,
            num_actions,
            batch_size: rows,
            gamma: GAMMA,
        };
        let memory = memory(&stream, state_dim, num_actions, transitions)?;
        let agent = DqnAgent::new(config.clone(), memory)?;
        Ok(Self {
            stream,
            config,
            agent,
        })
    }

    pub fn step(&self, options: &StepOptions) -> Result<FusedTrainingCtx, Failed> {
        let stream = Arc::clone(&self.stream);
        Ok(FusedTrainingCtx::with_options(
            &self.config,
            options.clone(),
            stream,
        )?)
    }

    pub fn sample(&self) -> Result<GpuBatchPtrs, Failed> {
        Ok(self.agent.memory().sample(self.config.batch_size)?)
    }

    pub fn shape(&self, options: &StepOptions) -> Result<NetworkShape, Failed> {
        let config = &self.config;
        Ok(NetworkShape::new(
            config.state_dim,
            config.num_actions,
            &options.hidden,
            options.head,
        )?)
    }
}

/// A buffer that is full of random transitions.
pub fn memory(
    stream: &Arc<CudaStream>,
    state_dim: usize,
    num_actions: usize,
    transitions: usize,
) -> Result<GpuReplayBuffer, Failed> {
    let config = GpuReplayBufferConfig {
        capacity: transitions,
        state_dim,
        ..Default::default()
    };
    let mut memory = GpuReplayBuffer::new(config, Arc::clone(stream))?;
    memory.push_batch(&experiences(state_dim, num_actions, transitions))?;
    Ok(memory)
}

pub fn experiences(state_dim: usize, num_actions: usize, count: usize) -> Vec<Experience> {
    let mut random = Random(99);
    (0..count)
        .map(|_| Experience {
            state: (0..state_dim).map(|_| random.signed()).collect(),
            action: random.below(num_actions) as u32,
            reward: 2.0 * random.signed(),
            next_state: (0..state_dim).map(|_| random.signed()).collect(),
            done: random.below(5) == 0,
        })
        .collect()
}

/// What a sampled batch holds, on the host.
pub fn on_host(batch: &GpuBatchPtrs) -> Result<Batch, Failed> {
    Ok(Batch {
        states: batch.states_to_host()?,
        next_states: batch.next_states_to_host()?,
        actions: batch.actions_to_host()?,
        rewards: batch.rewards_to_host()?,
        weights: batch.weights_to_host()?,
        dones: batch.dones_to_host()?,
        step_counts: batch.step_counts_to_host()?,
    })
}

/// A kernel that lasts as long as it is told and does nothing.
#[derive(Debug)]
pub struct Spin {
    stream: Arc<CudaStream>,
    kernel: CudaFunction,
}

impl Spin {
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self, Failed> {
        const SOURCE: KernelSource = KernelSource {
            name: "spin.cu",
            source: "extern \"C\" __global__ void spin(long long n) { long long b = clock64(); while (clock64() - b < n) {} }",
            includes: &[],
            options: &[],
        };
        let module = ml_cuda::kernels::load(stream.context(), &SOURCE)?;
        Ok(Self {
            stream: Arc::clone(stream),
            kernel: ml_cuda::kernels::function(&module, &SOURCE, "spin")?,
        })
    }

    /// Enqueues a spin of so many of the GPU's clock cycles, about 2 million a millisecond.
    pub fn enqueue(&self, cycles: i64) -> Result<(), Failed> {
        let mut launch = self.stream.launch_builder(&self.kernel);
        launch.arg(&cycles);
        let one = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel takes one i64 and touches no memory.
        unsafe { launch.launch(one) }?;
        Ok(())
    }
}
