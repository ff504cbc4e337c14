//! Launches the kernels of `kernels/per_kernels.cu`, and holds the device memory that they share.
//!
//! The structs here are twins of those in the kernel files, field by field; both sides assert their sizes.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DeviceRepr, PushKernelArg};
use ml_cuda::arguments;
use ml_cuda::kernels::{KernelSource, function, launch_behind, load};

use super::memory::DeviceValue;
use super::{LaunchShape, check_length};
use crate::error::DqnError;
use ml_cuda::DeviceMemory;

/// The kernel file and what it includes.
pub const SOURCE: KernelSource = KernelSource {
    name: "per_kernels.cu",
    source: include_str!("../../../../kernels/per_kernels.cu"),
    includes: &[
        ("common.cuh", include_str!("../../../../kernels/common.cuh")),
        ("philox.cuh", include_str!("../../../../kernels/philox.cuh")),
        ("replay.cuh", include_str!("../../../../kernels/replay.cuh")),
    ],
    options: &[],
};

/// Slots whose priorities add up to one tile.
pub const TILE: usize = 128;
/// Tiles in a group.
pub const GROUP: usize = 64;
/// Groups in a super-group.
pub const SUPER: usize = 64;
/// Slots in a super-group: as many as one block of `per_prefix_scan` adds up.
pub const SUPER_SLOTS: usize = TILE * GROUP * SUPER;
/// Largest batch: beyond it, a stratum's number and its random part do not fit one f64.
pub const MAX_BATCH: usize = 1 << 20;

/// Bit of `PerState::status`: the total was zero.
pub const STATUS_ZERO_TOTAL: u32 = 1;
/// Bit of `PerState::status`: the total was not finite.
pub const STATUS_NOT_FINITE: u32 = 2;
/// Bit of a row's flags: no value lies beyond it.
pub const TERMINATED: u32 = 1;
/// Bit of a row's flags: the episode was cut off.
pub const TRUNCATED: u32 = 2;

/// Twin of `PerState`: what kernels and host share about one buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerState {
    /// Sum of all priorities, as of the last scan.
    pub total: f64,
    /// Filled slots.
    pub size: u64,
    /// Rows ever stored.
    pub written: u64,
    /// Seed of the draws.
    pub seed: u64,
    /// Batches drawn before the last scan: the generator's counter.
    pub draws: u64,
    /// TD errors that were NaN, infinite, or negative where that is not allowed.
    pub bad_td_errors: u64,
    /// Updates of slots that were overwritten since the draw.
    pub stale_rows: u64,
    /// Rows with an environment number that the buffer does not have.
    pub bad_env_ids: u64,
    /// Exponent of the importance weights.
    pub beta: f32,
    /// Bits of the largest priority so far.
    pub max_priority: u32,
    /// Bits of the smallest priority in the newest batch.
    pub min_drawn: u32,
    /// Entries of `touched`.
    pub n_touched: u32,
    /// `STATUS_*` bits that the host has not read yet.
    pub status: u32,
    /// Nothing yet.
    pub reserved: u32,
    /// What the next scan sets `draws` to.
    pub next_draw: u64,
}
const _: () = assert!(size_of::<PerState>() == 96);

/// Twin of `PerLevels`: addresses of the arrays that a draw reads.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PerLevels {
    /// Whole tiles of priorities.
    pub priority: u64,
    /// Sums of tiles.
    pub tile_sum: u64,
    /// Inclusive within the group.
    pub tile_end: u64,
    /// Sums of groups.
    pub group_sum: u64,
    /// Inclusive within the super-group.
    pub group_end: u64,
    /// Sums of super-groups.
    pub super_sum: u64,
    /// Inclusive over all, as of the last `per_total`.
    pub super_end: u64,
    /// Super-groups.
    pub n_super: u64,
}
const _: () = assert!(size_of::<PerLevels>() == 64);

/// Twin of `RecordLayout`: how one transition lies in memory, in words of 4 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLayout {
    /// Slots.
    pub capacity: u64,
    /// Components of a state.
    pub state_dim: u32,
    /// Words of one padded state: a multiple of 4.
    pub state_words: u32,
    /// Words of one record: state, next state, and 4 words of action, reward, flags and link.
    pub record_words: u32,
    /// 0: states are stored as f32; 1: as bf16.
    pub dtype: u32,
}
const _: () = assert!(size_of::<RecordLayout>() == 24);

impl RecordLayout {
    /// Pads states to 16 bytes, so that they are read 16 bytes at a time.
    pub fn new(capacity: usize, state_dim: usize, bf16: bool) -> Self {
        let words = if bf16 {
            state_dim.div_ceil(2)
        } else {
            state_dim
        };
        let state_words = words.next_multiple_of(4) as u32;
        Self {
            capacity: capacity as u64,
            state_dim: state_dim as u32,
            state_words,
            record_words: 2 * state_words + 4,
            dtype: u32::from(bf16),
        }
    }

    /// Word of a record that holds the action.
    pub fn action_word(&self) -> u32 {
        2 * self.state_words
    }

    /// Word of a record that holds the reward.
    pub fn reward_word(&self) -> u32 {
        self.action_word() + 1
    }
}

/// Twin of `GatherBatch`: addresses that `gather_batch` reads and writes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GatherBatch {
    /// `[n]` i64 in.
    pub index: u64,
    /// `[n]` f32 in.
    pub drawn: u64,
    /// `[n, state_dim]` out.
    pub states: u64,
    /// `[n, state_dim]` out.
    pub next_states: u64,
    /// `[n]` u32 out.
    pub actions: u64,
    /// `[n]` f32 out.
    pub rewards: u64,
    /// `[n]` f32 out.
    pub dones: u64,
    /// `[n]` f32 out.
    pub weights: u64,
    /// `[n]` u32 out.
    pub step_counts: u64,
    /// Rows.
    pub n: u32,
    /// Most steps of a window.
    pub n_steps: u32,
    /// Discount inside a window.
    pub gamma: f32,
    /// 0: f32 states; 1: bf16.
    pub out_dtype: u32,
}
const _: () = assert!(size_of::<GatherBatch>() == 88);

/// Twin of `NewRows`: addresses of rows that arrive.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct NewRows {
    /// `[count, state_dim]` f32.
    pub states: u64,
    /// `[count, state_dim]` f32.
    pub next_states: u64,
    /// `[count]` u32.
    pub actions: u64,
    /// `[count]` f32.
    pub rewards: u64,
    /// `[count]` u8, not zero where terminated.
    pub terminated: u64,
    /// `[count]` u8, not zero where truncated.
    pub truncated: u64,
    /// `[count]` u32.
    pub env_ids: u64,
    /// Rows stored before the first of these.
    pub first: u64,
    /// Rows, at most the capacity.
    pub count: u32,
    /// Padding, zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<NewRows>() == 72);

/// Twin of `EnvCursor`: where an environment stands.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnvCursor {
    /// Rows stored before its newest row.
    pub last: u64,
    /// 1 where that row has not ended its episode.
    pub open: u32,
    /// Of the newest row within its episode.
    pub step: u32,
    /// Number of the episode: its first row, mod 2^32.
    pub episode: u32,
    /// Padding, zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<EnvCursor>() == 24);

/// Twin of `EpisodePlace`: which episode a slot belongs to.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EpisodePlace {
    /// Number of the episode.
    pub episode: u32,
    /// Step within it.
    pub step: u32,
}
const _: () = assert!(size_of::<EpisodePlace>() == 8);

// SAFETY: plain numbers in C layout without hidden padding, as asserted above.
unsafe impl DeviceValue for PerState {}
// SAFETY: as above.
unsafe impl DeviceRepr for PerState {}
// SAFETY: as above.
unsafe impl DeviceValue for EnvCursor {}
// SAFETY: as above.
unsafe impl DeviceRepr for EnvCursor {}
// SAFETY: as above.
unsafe impl DeviceValue for EpisodePlace {}
// SAFETY: as above.
unsafe impl DeviceRepr for EpisodePlace {}
// SAFETY: as above; passed to kernels by value.
unsafe impl DeviceRepr for RecordLayout {}
// SAFETY: as above.
unsafe impl DeviceRepr for PerLevels {}
// SAFETY: as above.
unsafe impl DeviceRepr for GatherBatch {}
// SAFETY: as above.
unsafe impl DeviceRepr for NewRows {}

/// What a bad TD error does to its slot: twin of `BAD_TD_*`.
#[derive(Debug, Clone, Copy)]
pub struct UpdateRule {
    /// Exponent of the priorities.
    pub alpha: f32,
    /// Added to the magnitude of a TD error.
    pub eps: f32,
    /// Whether a bad TD error gives the largest priority so far; else the slot keeps its own.
    pub bad_takes_max: bool,
    /// Whether negative TD errors count by their magnitude; else they are bad.
    pub signed: bool,
}

/// Device memory of one buffer.
#[derive(Debug)]
pub struct PerMemory {
    /// How records lie.
    pub layout: RecordLayout,
    /// One.
    pub state: DeviceMemory<PerState>,
    /// Scratch copy of `state` that the host reads.
    pub state_copy: DeviceMemory<PerState>,
    /// Whole tiles; zero beyond the capacity.
    pub priority: DeviceMemory<f32>,
    /// Whole super-groups; zero where there is no tile.
    pub tile_sum: DeviceMemory<f64>,
    /// Inclusive sums of tiles within their group.
    pub tile_end: DeviceMemory<f64>,
    /// Sums of `GROUP` tiles.
    pub group_sum: DeviceMemory<f64>,
    /// Inclusive sums of groups within their super-group.
    pub group_end: DeviceMemory<f64>,
    /// Sums of super-groups.
    pub super_sum: DeviceMemory<f64>,
    /// Inclusive over all.
    pub super_end: DeviceMemory<f64>,
    /// `capacity * record_words`.
    pub records: DeviceMemory<u32>,
    /// Tiles of the last update, one entry a row of the largest batch.
    pub touched: DeviceMemory<i32>,
    /// One an environment.
    pub cursors: DeviceMemory<EnvCursor>,
    /// Where hindsight is wanted: one a slot, else empty.
    pub places: DeviceMemory<EpisodePlace>,
    /// Likewise: newest step of the episode that began in the slot.
    pub episode_ends: DeviceMemory<u64>,
}

/// Sizes of a [`PerMemory`], known before anything is allocated.
#[derive(Debug, Clone, Copy)]
pub struct PerSizes {
    /// How records lie.
    pub layout: RecordLayout,
    /// Largest batch.
    pub max_batch: usize,
    /// Environments.
    pub n_envs: usize,
    /// Whether episodes are tracked for hindsight.
    pub track_episodes: bool,
}

impl PerSizes {
    /// Super-groups.
    pub fn n_super(&self) -> usize {
        (self.layout.capacity as usize).div_ceil(SUPER_SLOTS)
    }

    /// Tiles with slots.
    pub fn n_tiles(&self) -> usize {
        (self.layout.capacity as usize).div_ceil(TILE)
    }

    /// Entries of the list of touched tiles, which is read several at a time.
    fn n_touched(&self) -> usize {
        self.max_batch.next_multiple_of(TILES as usize)
    }

    /// Bytes that [`PerMemory::new`] allocates.
    pub fn bytes(&self) -> u64 {
        let capacity = self.layout.capacity;
        let supers = self.n_super() as u64;
        let tracked = if self.track_episodes { capacity } else { 0 };
        2 * size_of::<PerState>() as u64
            + 4 * (self.n_tiles() * TILE) as u64
            + 8 * supers * (2 * (GROUP * SUPER) as u64 + 2 * SUPER as u64 + 2)
            + 4 * capacity * u64::from(self.layout.record_words)
            + 4 * self.n_touched() as u64
            + (size_of::<EnvCursor>() * self.n_envs) as u64
            + tracked * (size_of::<EpisodePlace>() + size_of::<u64>()) as u64
    }
}

impl PerMemory {
    /// Allocates everything, zeroed, in stream order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn new(stream: &Arc<CudaStream>, sizes: PerSizes) -> Result<Self, DqnError> {
        let capacity = sizes.layout.capacity as usize;
        let supers = sizes.n_super();
        let tracked = if sizes.track_episodes { capacity } else { 0 };
        Ok(Self {
            layout: sizes.layout,
            state: DeviceMemory::zeroed(stream, 1)?,
            state_copy: DeviceMemory::zeroed(stream, 1)?,
            priority: DeviceMemory::zeroed(stream, sizes.n_tiles() * TILE)?,
            tile_sum: DeviceMemory::zeroed(stream, supers * GROUP * SUPER)?,
            tile_end: DeviceMemory::zeroed(stream, supers * GROUP * SUPER)?,
            group_sum: DeviceMemory::zeroed(stream, supers * SUPER)?,
            group_end: DeviceMemory::zeroed(stream, supers * SUPER)?,
            super_sum: DeviceMemory::zeroed(stream, supers)?,
            super_end: DeviceMemory::zeroed(stream, supers)?,
            records: DeviceMemory::zeroed(stream, capacity * sizes.layout.record_words as usize)?,
            touched: DeviceMemory::zeroed(stream, sizes.n_touched())?,
            cursors: DeviceMemory::zeroed(stream, sizes.n_envs)?,
            places: DeviceMemory::zeroed(stream, tracked)?,
            episode_ends: DeviceMemory::zeroed(stream, tracked)?,
        })
    }

    fn levels(&self) -> PerLevels {
        PerLevels {
            priority: self.priority.address(),
            tile_sum: self.tile_sum.address(),
            tile_end: self.tile_end.address(),
            group_sum: self.group_sum.address(),
            group_end: self.group_end.address(),
            super_sum: self.super_sum.address(),
            super_end: self.super_end.address(),
            n_super: self.super_end.len() as u64,
        }
    }
}

/// Tiles that one warp of `per_touched_tiles` and `per_all_tiles` sums side by side: twin of `TILES`.
const TILES: u64 = 4;

/// Super-groups that `sample_batch` adds up by itself: twin of `SUPERS_AT_HAND`.
const SUPERS_AT_HAND: usize = 64;

/// Rows that one warp of `per_sample` and `sample_batch` draws side by side: twin of `DRAWS`.
const DRAWS: u64 = 4;

/// Blocks that fill the largest GPU several times over; kernels stride over what is beyond.
const MOST_BLOCKS: u32 = 1 << 14;

/// Geometry of each kernel, shared with the tests that run kernels alone.
pub mod shape {
    use super::{DRAWS, LaunchShape, MOST_BLOCKS, TILE, TILES};

    /// `per_touched_tiles`: one warp for `TILES` entries.
    pub fn touched_tiles(n: usize) -> LaunchShape {
        LaunchShape::warps((n as u64).div_ceil(TILES), MOST_BLOCKS)
    }
    /// `per_all_tiles`: one warp for `TILES` tiles.
    pub fn all_tiles(n_tiles: usize) -> LaunchShape {
        LaunchShape::warps((n_tiles as u64).div_ceil(TILES), MOST_BLOCKS)
    }
    /// `per_prefix_scan`: one block a super-group.
    pub fn prefix_scan(n_super: usize) -> LaunchShape {
        LaunchShape {
            grid: n_super as u32,
            block: 1024,
        }
    }
    /// `per_total`: one warp.
    pub fn total() -> LaunchShape {
        LaunchShape { grid: 1, block: 32 }
    }
    /// `per_find`: one warp a target.
    pub fn find(n: usize) -> LaunchShape {
        LaunchShape::warps(n as u64, MOST_BLOCKS)
    }
    /// `per_sample`: one warp for `DRAWS` rows.
    pub fn sample(n: usize) -> LaunchShape {
        LaunchShape::warps((n as u64).div_ceil(DRAWS), MOST_BLOCKS)
    }
    /// `sample_batch`: likewise, four warps a block.
    pub fn sample_batch(n: usize) -> LaunchShape {
        let blocks = (n as u64).div_ceil(4 * DRAWS);
        LaunchShape {
            grid: blocks.min(u64::from(MOST_BLOCKS)) as u32,
            block: 128,
        }
    }
    /// `is_weights`, `i64_to_u32`, `gather_u32`, `gather_f32`: one thread a row.
    pub fn rows(n: usize) -> LaunchShape {
        LaunchShape::threads(n as u64, u32::MAX)
    }
    /// `per_update_pa`: one thread a row, in small blocks, as it waits more than it computes.
    pub fn update(n: usize) -> LaunchShape {
        LaunchShape {
            grid: n.div_ceil(128) as u32,
            block: 128,
        }
    }
    /// `gather_states`: one thread for four components.
    pub fn gather_states(n: usize, state_dim: usize) -> LaunchShape {
        LaunchShape::threads((n * state_dim.div_ceil(4)) as u64, MOST_BLOCKS)
    }
    /// `gather_batch`: one thread for four components of one state.
    pub fn gather_batch(n: usize, state_dim: usize) -> LaunchShape {
        LaunchShape::threads((2 * n * state_dim.div_ceil(4)) as u64, MOST_BLOCKS)
    }
    /// `store_rows`: one thread a component.
    pub fn store_rows(count: usize, state_dim: usize) -> LaunchShape {
        LaunchShape::threads((2 * count * state_dim) as u64, MOST_BLOCKS)
    }
    /// `link_steps`: one thread an environment.
    pub fn link_steps(n_envs: usize) -> LaunchShape {
        LaunchShape::threads(n_envs as u64, u32::MAX)
    }
    /// `per_insert`: one block for each tile that the new rows lie in, before the ring's end and after it.
    pub fn insert(first: u64, count: u64, capacity: u64) -> LaunchShape {
        let start = first % capacity;
        let until = (start + count).min(capacity);
        let tile = TILE as u64;
        let straight = (until - 1) / tile - start / tile + 1;
        let wrapped = (start + count - until).div_ceil(tile);
        LaunchShape {
            grid: (straight + wrapped) as u32,
            block: TILE as u32,
        }
    }
}

/// The loaded kernels.
#[derive(Debug)]
pub struct PerKernels {
    touched_tiles: CudaFunction,
    all_tiles: CudaFunction,
    prefix_scan: CudaFunction,
    total: CudaFunction,
    sample_batch: CudaFunction,
    weights: CudaFunction,
    update_pa: CudaFunction,
    store_rows: CudaFunction,
    link_steps: CudaFunction,
    insert: CudaFunction,
    set_beta: CudaFunction,
    reset: CudaFunction,
    take_status: CudaFunction,
}

impl PerKernels {
    /// Compiles the kernels for the stream's device, or takes them from the cache.
    ///
    /// # Errors
    /// Those of [`ml_cuda::kernels::load`].
    pub fn new(stream: &CudaStream) -> Result<Self, DqnError> {
        let module = load(stream.context(), &SOURCE)?;
        let find = |name| function(&module, &SOURCE, name);
        Ok(Self {
            touched_tiles: find("per_touched_tiles")?,
            all_tiles: find("per_all_tiles")?,
            prefix_scan: find("per_prefix_scan")?,
            total: find("per_total")?,
            sample_batch: find("sample_batch")?,
            weights: find("is_weights")?,
            update_pa: find("per_update_pa")?,
            store_rows: find("store_rows")?,
            link_steps: find("link_steps")?,
            insert: find("per_insert")?,
            set_beta: find("per_set_beta")?,
            reset: find("per_reset")?,
            take_status: find("per_take_status")?,
        })
    }

    /// Brings the sums of the tiles that the last update touched up to date. `n` bounds their number.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn touched_tiles(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        n: usize,
    ) -> Result<(), DqnError> {
        if n == 0 {
            return Ok(());
        }
        let (state, touched) = (memory.state.address(), memory.touched.address());
        let (priority, tile_sum) = (memory.priority.address(), memory.tile_sum.address());
        // Not `n`: a graph may be replayed behind an update that is larger than those it was captured with.
        let most = memory.touched.len() as u32;
        let mut arguments = arguments![&state, &touched, &most, &priority, &tile_sum];
        let shape = shape::touched_tiles(n);
        // SAFETY: order and types match per_touched_tiles in per_kernels.cu; `touched` has `most` entries; those that count were
        // written by per_update_pa, which names tiles of `priority` only.
        unsafe { launch_behind(stream, &self.touched_tiles, shape.config(), &mut arguments) }?;
        Ok(())
    }

    /// Recomputes the sums of all tiles.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn all_tiles(&self, stream: &Arc<CudaStream>, memory: &PerMemory) -> Result<(), DqnError> {
        let n_tiles = (memory.priority.len() / TILE) as u64;
        let (priority, tile_sum) = (memory.priority.address(), memory.tile_sum.address());
        let mut launch = stream.launch_builder(&self.all_tiles);
        launch.arg(&priority).arg(&tile_sum).arg(&n_tiles);
        // SAFETY: order and types match per_all_tiles; `priority` is whole tiles, `tile_sum` at least as many.
        unsafe { launch.launch(shape::all_tiles(n_tiles as usize).config()) }?;
        Ok(())
    }

    /// Sums groups and super-groups. The total is [`sample_batch`](Self::sample_batch)'s or [`total`](Self::total)'s to find.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn prefix_scan(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
    ) -> Result<(), DqnError> {
        let levels = memory.levels();
        let state = memory.state.address();
        let mut arguments = arguments![
            &levels.tile_sum,
            &levels.tile_end,
            &levels.group_sum,
            &levels.group_end,
            &levels.super_sum,
            &state
        ];
        let shape = shape::prefix_scan(memory.super_end.len());
        // SAFETY: order and types match per_prefix_scan; the arrays are padded to whole super-groups by `PerMemory::new`.
        unsafe { launch_behind(stream, &self.prefix_scan, shape.config(), &mut arguments) }?;
        Ok(())
    }

    /// Adds super-groups up: the total and its status, as of the last scan.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn total(&self, stream: &Arc<CudaStream>, memory: &PerMemory) -> Result<(), DqnError> {
        let (levels, state) = (memory.levels(), memory.state.address());
        let mut arguments = arguments![
            &levels.super_sum,
            &levels.super_end,
            &levels.n_super,
            &state
        ];
        // SAFETY: order and types match per_total; both arrays have `n_super` entries.
        unsafe { launch_behind(stream, &self.total, shape::total().config(), &mut arguments) }?;
        Ok(())
    }

    /// Draws and gathers a batch from what a scan left, then weighs it. Also finds the total.
    ///
    /// # Errors
    /// What the driver refused.
    ///
    /// # Safety
    /// Every address in `batch` is that of an array with the length and type that `GatherBatch` names.
    pub unsafe fn sample_batch(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        batch: &GatherBatch,
        drawn_at: &DeviceMemory<u64>,
        status: &DeviceMemory<u32>,
    ) -> Result<(), DqnError> {
        if batch.n == 0 {
            return Ok(());
        }
        check_length("sample_batch", "drawn_at", drawn_at.len(), 1)?;
        check_length("sample_batch", "status", status.len(), 1)?;
        if memory.super_end.len() > SUPERS_AT_HAND {
            self.total(stream, memory)?;
        }
        let (levels, records) = (memory.levels(), memory.records.address());
        let (state, n) = (memory.state.address(), batch.n as usize);
        let (drawn_at, status) = (drawn_at.address(), status.address());
        let mut arguments = arguments![
            &levels,
            batch,
            &records,
            &memory.layout,
            &state,
            &drawn_at,
            &status
        ];
        // SAFETY: order and types match sample_batch; a draw finds slots of `memory` only; the rest is the caller's promise.
        unsafe {
            launch_behind(
                stream,
                &self.sample_batch,
                shape::sample_batch(n).config(),
                &mut arguments,
            )
        }?;
        let normalized = 1u32;
        let mut arguments = arguments![&state, &batch.drawn, &batch.n, &normalized, &batch.weights];
        // SAFETY: order and types match is_weights; the rest is the caller's promise.
        unsafe {
            launch_behind(
                stream,
                &self.weights,
                shape::rows(n).config(),
                &mut arguments,
            )
        }?;
        Ok(())
    }

    /// Gives `n` drawn slots new priorities.
    ///
    /// # Errors
    /// Arrays shorter than `n`, or what the driver refused.
    ///
    /// # Safety
    /// `td_errors` is the address of at least `n` f32 values of this device, written before this point of the stream.
    #[expect(clippy::too_many_arguments)]
    pub unsafe fn update_pa(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        n: usize,
        index: &DeviceMemory<i64>,
        td_errors: u64,
        drawn_at: &DeviceMemory<u64>,
        rule: UpdateRule,
    ) -> Result<(), DqnError> {
        if n == 0 {
            return Ok(());
        }
        check_length("per_update_pa", "index", index.len(), n)?;
        check_length("per_update_pa", "drawn_at", drawn_at.len(), 1)?;
        check_length("per_update_pa", "touched", memory.touched.len(), n)?;
        let (index, drawn_at, rows) = (index.address(), drawn_at.address(), n as u32);
        let capacity = memory.layout.capacity;
        let (bad, signed) = (u32::from(rule.bad_takes_max), u32::from(rule.signed));
        let (priority, touched) = (memory.priority.address(), memory.touched.address());
        let state = memory.state.address();
        let mut arguments = arguments![
            &index,
            &td_errors,
            &rows,
            &drawn_at,
            &capacity,
            &rule.alpha,
            &rule.eps,
            &bad,
            &signed,
            &priority,
            &touched,
            &state
        ];
        // SAFETY: order and types match per_update_pa; lengths checked above; indices come from sample_batch, so they are
        // slots of this buffer or -1; td_errors is the caller's promise.
        unsafe {
            launch_behind(
                stream,
                &self.update_pa,
                shape::update(n).config(),
                &mut arguments,
            )
        }?;
        Ok(())
    }

    /// Stores new rows: records, links, priorities, sums of their tiles, size.
    ///
    /// # Errors
    /// More rows than the buffer has slots, or what the driver refused.
    ///
    /// # Safety
    /// Every address in `rows` is that of an array with `rows.count` entries of the type that `NewRows` names, written
    /// before this point of the stream. `size` is the number of filled slots once they are in.
    pub unsafe fn store(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        rows: &NewRows,
        size: u64,
    ) -> Result<(), DqnError> {
        let (count, capacity) = (u64::from(rows.count), memory.layout.capacity);
        if count == 0 {
            return Ok(());
        }
        if count > capacity {
            return Err(DqnError::Config(format!(
                "kernel `store_rows`: {count} rows do not fit a buffer of {capacity} slots"
            )));
        }
        let (records, state) = (memory.records.address(), memory.state.address());
        let (cursors, n_envs) = (memory.cursors.address(), memory.cursors.len() as u32);
        let or_null = |address, empty| if empty { 0u64 } else { address };
        let places = or_null(memory.places.address(), memory.places.is_empty());
        let ends = or_null(
            memory.episode_ends.address(),
            memory.episode_ends.is_empty(),
        );
        let (priority, tile_sum) = (memory.priority.address(), memory.tile_sum.address());
        let state_dim = memory.layout.state_dim as usize;

        let mut launch = stream.launch_builder(&self.store_rows);
        launch.arg(rows).arg(&records).arg(&memory.layout);
        // SAFETY: order and types match store_rows; rows go to slots of `records`; the rest is the caller's promise.
        unsafe { launch.launch(shape::store_rows(rows.count as usize, state_dim).config()) }?;

        let mut launch = stream.launch_builder(&self.link_steps);
        launch.arg(rows).arg(&records).arg(&memory.layout);
        launch.arg(&cursors).arg(&n_envs).arg(&places).arg(&ends);
        launch.arg(&state);
        // SAFETY: order and types match link_steps; null stands for "not tracked".
        unsafe { launch.launch(shape::link_steps(memory.cursors.len()).config()) }?;

        let mut launch = stream.launch_builder(&self.insert);
        launch.arg(&rows.first).arg(&count).arg(&capacity);
        launch.arg(&size);
        launch.arg(&priority).arg(&tile_sum).arg(&state);
        // SAFETY: order and types match per_insert; 0 < count <= capacity was checked.
        unsafe { launch.launch(shape::insert(rows.first, count, capacity).config()) }?;
        Ok(())
    }

    /// Sets the exponent of the importance weights, in stream order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn set_beta(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        beta: f32,
    ) -> Result<(), DqnError> {
        let state = memory.state.address();
        let one = LaunchShape { grid: 1, block: 1 };
        let mut launch = stream.launch_builder(&self.set_beta);
        launch.arg(&state).arg(&beta);
        // SAFETY: order and types match per_set_beta.
        unsafe { launch.launch(one.config()) }?;
        Ok(())
    }

    /// Forgets all rows; the next one is number `written`.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn reset(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
        written: u64,
    ) -> Result<(), DqnError> {
        memory.priority.clear()?;
        memory.tile_sum.clear()?;
        memory.cursors.clear()?;
        let state = memory.state.address();
        let one = LaunchShape { grid: 1, block: 1 };
        let mut launch = stream.launch_builder(&self.reset);
        launch.arg(&state).arg(&written);
        // SAFETY: order and types match per_reset.
        unsafe { launch.launch(one.config()) }?;
        Ok(())
    }

    /// Reads the shared state and clears its status. Waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn take_state(
        &self,
        stream: &Arc<CudaStream>,
        memory: &PerMemory,
    ) -> Result<PerState, DqnError> {
        let (state, copy) = (memory.state.address(), memory.state_copy.address());
        let one = LaunchShape { grid: 1, block: 1 };
        let mut launch = stream.launch_builder(&self.take_status);
        launch.arg(&state).arg(&copy);
        // SAFETY: order and types match per_take_status.
        unsafe { launch.launch(one.config()) }?;
        let mut read = [PerState::default()];
        memory.state_copy.read(&mut read)?;
        Ok(read[0])
    }
}
