//! Launches the kernel of `kernels/her_kernels.cu`.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, PushKernelArg};
use ml_cuda::kernels::{KernelSource, function, load};

use super::memory::DeviceValue;
use super::per::{PerMemory, shape};
use crate::error::DqnError;
use crate::gpu_replay_buffer::BatchSet;
use ml_cuda::DeviceMemory;

/// The kernel file and what it includes.
pub const SOURCE: KernelSource = KernelSource {
    name: "her_kernels.cu",
    source: include_str!("../../../../kernels/her_kernels.cu"),
    includes: super::per::SOURCE.includes,
    options: &[],
};

/// Twin of `HerState`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HerState {
    /// Seed of the choices.
    pub seed: u64,
    /// Launches so far: the generator's counter.
    pub calls: u64,
    /// Rows that got another goal.
    pub relabelled: u64,
    /// Rows that were to get one, and whose slot was overwritten since the draw.
    pub skipped: u64,
    /// Blocks that have finished; zero between launches.
    pub ticket: u32,
    /// Padding, zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<HerState>() == 40);
// SAFETY: plain numbers in C layout without hidden padding, as asserted above.
unsafe impl DeviceValue for HerState {}
// SAFETY: as above.
unsafe impl DeviceRepr for HerState {}

/// Twin of `HerBatch`: addresses and rules of one relabelling.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct HerBatch {
    /// `[n]` i64 in.
    pub index: u64,
    /// `[1]` u64 in.
    pub drawn_at: u64,
    /// `[n, state_dim]` in and out.
    pub states: u64,
    /// `[n, state_dim]` in and out.
    pub next_states: u64,
    /// `[n]` f32 out.
    pub rewards: u64,
    /// `[n]` f32 out.
    pub dones: u64,
    /// Rows.
    pub n: u32,
    /// 0: f32 states; 1: bf16.
    pub out_dtype: u32,
    /// Hindsight goals for one of its own.
    pub k: u32,
    /// Components of a goal.
    pub goal_dim: u32,
    /// Where the next state holds what was reached.
    pub achieved_offset: u32,
    /// Where a state holds the goal.
    pub goal_offset: u32,
    /// 0: future; 1: final.
    pub strategy: u32,
    /// Not 0: reaching the goal ends the episode.
    pub terminate: u32,
    /// Greatest distance at which a goal counts as reached.
    pub tolerance: f32,
    /// Reward where it is reached.
    pub success_reward: f32,
    /// Reward where it is not.
    pub step_reward: f32,
    /// Padding, zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<HerBatch>() == 96);
// SAFETY: plain numbers in C layout without hidden padding, as asserted above; passed by value.
unsafe impl DeviceRepr for HerBatch {}

/// The loaded kernel.
#[derive(Debug)]
pub struct HerKernels {
    relabel: CudaFunction,
}

impl HerKernels {
    /// Compiles the kernel for the stream's device, or takes it from the cache.
    ///
    /// # Errors
    /// Those of [`ml_cuda::kernels::load`].
    pub fn new(stream: &CudaStream) -> Result<Self, DqnError> {
        let module = load(stream.context(), &SOURCE)?;
        Ok(Self {
            relabel: function(&module, &SOURCE, "her_relabel")?,
        })
    }

    /// Relabels `n` rows of a set that was sampled from `memory`. The addresses of `rules` are filled in here.
    ///
    /// # Errors
    /// Memory without tracked episodes, offsets beyond the state, or what the driver refused.
    pub(crate) fn relabel(
        &self,
        memory: &PerMemory,
        set: &BatchSet,
        n: usize,
        rules: HerBatch,
        state: &DeviceMemory<HerState>,
    ) -> Result<(), DqnError> {
        if n == 0 {
            return Ok(());
        }
        super::check_length("her_relabel", "index", set.rows, n)?;
        super::check_length(
            "her_relabel",
            "places",
            memory.places.len(),
            memory.layout.capacity as usize,
        )?;
        let last = rules.achieved_offset.max(rules.goal_offset) as usize + rules.goal_dim as usize;
        super::check_length(
            "her_relabel",
            "states",
            memory.layout.state_dim as usize,
            last,
        )?;
        let gathered = set.gather(n, 1, 0.0);
        let batch = HerBatch {
            index: gathered.index,
            drawn_at: set.drawn_at.address(),
            states: gathered.states,
            next_states: gathered.next_states,
            rewards: gathered.rewards,
            dones: gathered.dones,
            n: gathered.n,
            out_dtype: gathered.out_dtype,
            ..rules
        };
        let stream: &Arc<CudaStream> = &set.stream;
        let (records, places) = (memory.records.address(), memory.places.address());
        let (ends, replay) = (memory.episode_ends.address(), memory.state.address());
        let (state, chosen) = (state.address(), 0u64);
        let mut launch = stream.launch_builder(&self.relabel);
        launch.arg(&batch).arg(&records).arg(&memory.layout);
        launch.arg(&places).arg(&ends).arg(&replay);
        launch.arg(&state).arg(&chosen);
        // SAFETY: order and types match her_relabel in her_kernels.cu; lengths and offsets were checked above; the set's indices
        // are slots of this memory or -1; null stands for "nobody asks".
        unsafe { launch.launch(shape::rows(n).config()) }?;
        Ok(())
    }
}
