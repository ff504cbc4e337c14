//! `if let`, `let … else`, `matches!`, `is_gpu` and `as_gpu` in the places where people put them.
#![deny(unused_must_use)]

use ml_dqn::{DqnAgent, DqnConfig, DqnError, Experience, GpuBatchPtrs, GpuReplayBuffer};

mod ladder;
pub use ladder::{Route, route, rows};

#[derive(Debug)]
pub enum AppError {
    NotOnGpu { len: usize },
    Dqn(DqnError),
}

impl From<DqnError> for AppError {
    fn from(err: DqnError) -> Self {
        Self::Dqn(err)
    }
}

pub fn ready(agent: &DqnAgent, n: usize) -> bool {
    agent.memory().can_sample(n)
}

pub fn blocked(memory: &GpuReplayBuffer, n: usize) -> bool {
    !memory.can_sample(n)
}

pub fn gpu_of(agent: &DqnAgent) -> Result<&GpuReplayBuffer, AppError> {
    Ok(agent.memory())
}

pub fn capacity(agent: &DqnAgent) -> Result<usize, AppError> {
    let gpu = agent.memory();
    Ok(gpu.capacity() - gpu.len())
}

/// A chain over several lines, with a comment in it.
pub fn fill_level(agent: &DqnAgent) -> f32 {
    agent
        .memory().len() as f32 / agent
        .memory().capacity() as f32
}

pub fn largest<'a>(agents: &'a [DqnAgent]) -> Option<&'a GpuReplayBuffer> {
    agents.iter().map(|agent| agent.memory()).max_by_key(|gpu| gpu.len())
}

pub fn draw(agent: &DqnAgent, n: usize) -> Option<GpuBatchPtrs> {
    agent.memory().sample(n).ok()
}

pub fn rebuild(config: DqnConfig, memory: GpuReplayBuffer) -> Result<DqnAgent, AppError> {
    let mut gpu = memory;
    gpu.clear();
    Ok(DqnAgent::new(config, gpu)?)
}

pub fn anneal(agent: &mut DqnAgent, beta: f32) {
    agent.memory_mut().set_beta(beta);
}

pub fn drain_to(memories: &mut Vec<GpuReplayBuffer>, keep: usize) -> usize {
    let mut cleared = 0;
    while let Some(mut gpu) = memories.pop() {
        if memories.len() < keep {
            break;
        }
        cleared += gpu.len();
        gpu.clear();
    }
    cleared
}

pub fn wrap_all(buffers: Vec<GpuReplayBuffer>) -> Vec<Option<GpuReplayBuffer>> {
    buffers.into_iter().map(Some).collect()
}

pub fn collect(agent: &mut DqnAgent, experiences: &[Experience]) -> Result<usize, AppError> {
    let gpu = agent.memory_mut();
    gpu.push_batch(experiences)?;
    Ok(gpu.len())
}

pub fn check(agent: &DqnAgent, n: usize) {
    assert!(agent.memory().can_sample(n));
}

pub fn kind(_memory: &GpuReplayBuffer, verbose: bool) -> &'static str {
    if verbose { "prioritized replay on the GPU" } else { "gpu" }
}
