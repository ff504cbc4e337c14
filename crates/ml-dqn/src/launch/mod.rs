//! The only unsafe code of this crate: device memory and safe launch wrappers, one module per kernel file.
//!
//! A wrapper owns the geometry, checks lengths first, does nothing for an empty batch, and says why its
//! `unsafe` is sound. Everything here enqueues on a stream and returns; nothing waits unless its name
//! says so.

pub mod her;
pub mod memory;
pub mod per;

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::error::DqnError;
use crate::gpu_replay_buffer::BatchSet;

/// Blocks and threads of a launch; shared memory is static in all kernels of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks.
    pub grid: u32,
    /// Threads a block.
    pub block: u32,
}

impl LaunchShape {
    /// One thread for each of `work` items, 256 a block, and no more than `most` blocks: the kernel strides over the rest.
    pub fn threads(work: u64, most: u32) -> Self {
        let blocks = work.div_ceil(256).clamp(1, u64::from(most));
        Self {
            grid: blocks as u32,
            block: 256,
        }
    }

    /// One warp for each of `work` items, eight a block.
    pub fn warps(work: u64, most: u32) -> Self {
        Self::threads(work.saturating_mul(32), most)
    }

    fn config(self) -> cudarc::driver::LaunchConfig {
        cudarc::driver::LaunchConfig {
            grid_dim: (self.grid, 1, 1),
            block_dim: (self.block, 1, 1),
            shared_mem_bytes: 0,
        }
    }
}

/// Says which array of which kernel is too short.
fn check_length(kernel: &str, array: &str, have: usize, need: usize) -> Result<(), DqnError> {
    if have < need {
        return Err(DqnError::Config(format!(
            "kernel `{kernel}`: `{array}` holds {have} values, the call asks for {need}"
        )));
    }
    Ok(())
}

/// Draws and gathers `n` rows into one set of batch memory.
///
/// # Errors
/// A set smaller than `n`, or what the driver refused.
pub(crate) fn sample_into(
    kernels: &per::PerKernels,
    stream: &Arc<CudaStream>,
    memory: &per::PerMemory,
    set: &BatchSet,
    n: usize,
    n_steps: usize,
    gamma: f32,
) -> Result<(), DqnError> {
    check_length("sample_batch", "states", set.rows, n)?;
    let batch = set.gather(n, n_steps, gamma);
    // SAFETY: the addresses are those of `set`, whose arrays have `set.rows` >= n rows of the types that the kernel expects
    // (`BatchSet::new`).
    unsafe { kernels.sample_batch(stream, memory, &batch, &set.drawn_at, &set.status) }
}

/// Gives the slots of a set new priorities, from TD errors at a device address.
///
/// # Errors
/// A set smaller than `n`, or what the driver refused.
pub(crate) fn update_from(
    kernels: &per::PerKernels,
    stream: &Arc<CudaStream>,
    memory: &per::PerMemory,
    set: &BatchSet,
    n: usize,
    td_errors: u64,
    rule: per::UpdateRule,
) -> Result<(), DqnError> {
    // SAFETY: the caller is `update_priorities_gpu`, which checked the slice's length and made the stream wait for its writer.
    unsafe {
        kernels.update_pa(
            stream,
            memory,
            n,
            &set.index,
            td_errors,
            &set.drawn_at,
            rule,
        )
    }
}

/// Stores rows at device addresses.
///
/// # Errors
/// What the driver refused.
pub(crate) fn store_rows(
    kernels: &per::PerKernels,
    stream: &Arc<CudaStream>,
    memory: &per::PerMemory,
    rows: &per::NewRows,
    size: u64,
) -> Result<(), DqnError> {
    // SAFETY: the callers are `push_rows`, whose addresses are in the staging memory that it just filled for as many rows,
    // and `push_device`, which checked each slice's length and made the stream wait for its writer.
    unsafe { kernels.store(stream, memory, rows, size) }
}
