use rl_prelude::{
    types::{Batch, Memory},
    DqnError, Experience, MemoryResult, GpuReplayBuffer, SharedMemory,
};
use std::sync::{Arc, Mutex, PoisonError};

pub mod learner;

/// Shares `memory` between the actors.
pub fn share(memory: GpuReplayBuffer) -> SharedMemory {
    Arc::new(Mutex::new(memory))
}

pub fn unshare(memory: SharedMemory) -> Option<Memory> {
    Arc::into_inner(memory).map(|mutex| mutex.into_inner().unwrap_or_else(PoisonError::into_inner))
}

pub fn push_all(memory: &SharedMemory, experiences: &[Experience]) -> Result<usize, DqnError> {
    let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
    memory.push_batch(experiences)?;
    Ok(memory.len())
}

pub fn draw(memory: &SharedMemory, n: usize) -> MemoryResult<Batch> {
    memory.lock().unwrap_or_else(PoisonError::into_inner).sample(n)
}

pub fn checked(memory: Memory) -> MemoryResult {
    debug_assert!(memory.capacity() > 0, "a GPU buffer");
    Ok(memory)
}
