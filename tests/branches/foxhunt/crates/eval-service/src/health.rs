//! Whether a memory can be learned from.

use std::fmt;

use ml_dqn::{BatchSample, DqnAgent, GpuReplayBuffer, ReplayBufferType};

use crate::error::EvalError;

/// Below this share a memory is still filling.
const FILLING: f32 = 0.1;

/// A tree that holds more takes longer to update than a device takes for everything.
const TREE_LIMIT: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Good,
    Filling,
    /// It works, but not as fast as it should.
    Slow,
    Empty,
}

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHealth {
    pub grade: Grade,
    pub len: usize,
    pub capacity: usize,
    pub place: &'static str,
}

impl fmt::Display for MemoryHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grade, len, capacity, place } = self;
        write!(f, "{grade:?}: {len} of {capacity} on the {place}")
    }
}

/// Grades `memory`; a [`ReplayBufferType`] on the host is slow at best.
pub fn check(memory: &ReplayBufferType) -> MemoryHealth {
    let (len, capacity) = (memory.len(), memory.capacity());
    let grade = match memory {
        ReplayBufferType::GpuPrioritized(gpu) => grade_device(gpu),
        ReplayBufferType::Prioritized(tree) if tree.len() > TREE_LIMIT => Grade::Slow,
        ReplayBufferType::Prioritized(_) | ReplayBufferType::Uniform(_) => grade_host(len, capacity),
    };
    let place = if memory.is_gpu() { "device" } else { "host" };
    MemoryHealth { grade, len, capacity, place }
}

fn grade_device(gpu: &GpuReplayBuffer) -> Grade {
    match gpu.len() as f32 / gpu.capacity() as f32 {
        fill if fill <= 0.0 => Grade::Empty,
        fill if fill < FILLING => Grade::Filling,
        _ => Grade::Good,
    }
}

/// Never better than slow.
fn grade_host(len: usize, capacity: usize) -> Grade {
    if len == 0 {
        Grade::Empty
    } else if len * 10 < capacity {
        Grade::Filling
    } else {
        Grade::Slow
    }
}

/// One line for the console.
pub fn line(memory: &ReplayBufferType) -> String {
    match memory {
        #[cfg(feature = "verbose-health")]
        ReplayBufferType::GpuPrioritized(gpu) => {
            format!("{} transitions, room for {}", gpu.len(), gpu.capacity() - gpu.len())
        }
        #[cfg(feature = "verbose-health")]
        ReplayBufferType::Prioritized(tree) => format!("{} transitions in a tree", tree.len()),
        _ => format!("{} transitions", memory.len()),
    }
}

/// The better of the agent's memory and a spare one.
pub fn best<'a>(
    agent: &'a DqnAgent,
    spare: Option<&'a ReplayBufferType>,
    n: usize,
) -> Option<&'a GpuReplayBuffer> {
    match (agent.memory(), spare) {
        (ReplayBufferType::GpuPrioritized(gpu), _) if gpu.can_sample(n) => Some(gpu),
        (_, Some(ReplayBufferType::GpuPrioritized(gpu))) if gpu.can_sample(n) => Some(gpu),
        _ => None,
    }
}

/// Complains about a memory that a run of `n_steps` cannot use.
pub fn require_device(memory: &ReplayBufferType, n_steps: usize) -> Result<&GpuReplayBuffer, EvalError> {
    let Some(gpu) = memory.as_gpu() else {
        eprintln!("{n_steps} steps on the host would take too long");
        return Err(EvalError::HostMemory);
    };
    Ok(gpu)
}

/// Whether both belong together: a device batch from a device memory, or neither.
pub fn agree(memory: &ReplayBufferType, batch: &BatchSample) -> bool {
    use ReplayBufferType::{GpuPrioritized, Prioritized, Uniform};

    let host = matches!(memory, Uniform(_) | Prioritized(_));
    let fits = matches!(memory, GpuPrioritized(gpu) if gpu.len() >= batch.len());
    (host && !batch.is_gpu()) || (batch.gpu_batch.is_some() && fits)
}

/// Sets beta where there is one, returns what it was set to.
pub fn anneal(agent: &mut DqnAgent, share: f32) -> Option<f32> {
    let beta = 0.4 + 0.6 * share.clamp(0.0, 1.0);
    if let ReplayBufferType::GpuPrioritized(gpu) = agent.memory_mut() {
        gpu.set_beta(beta);
        Some(beta)
    } else if agent.memory().is_prioritized() {
        // half as fast: the tree's weights are not clipped
        agent.memory_mut().set_beta(beta / 2.0);
        Some(beta / 2.0)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::{DqnConfig, PrioritizedReplayConfig, ReplayBufferConfig};

    fn uniform() -> ReplayBufferType {
        ReplayBufferType::uniform(ReplayBufferConfig { capacity: 20, ..Default::default() })
    }

    #[test]
    fn prints_itself() {
        let health = MemoryHealth { grade: Grade::Good, len: 3, capacity: 4, place: "device" };
        assert_eq!(health.to_string(), "Good: 3 of 4 on the device");
    }

    #[test]
    fn the_host_is_slow_at_best() {
        let memory = uniform();
        assert_eq!(check(&memory).grade, Grade::Empty);
        assert_eq!((grade_host(1, 20), grade_host(2, 20)), (Grade::Filling, Grade::Slow));
        assert!(require_device(&memory, 1).is_err());
        assert!(agree(&memory, &BatchSample::default()));
    }

    #[test]
    fn only_priorities_have_a_beta() {
        let tree = ReplayBufferType::prioritized(PrioritizedReplayConfig::default());
        let mut agents = [uniform(), tree].map(|memory| DqnAgent::new(DqnConfig::default(), memory).unwrap());
        assert_eq!(agents.each_mut().map(|agent| anneal(agent, 1.0)), [None, Some(0.5)]);
        assert!(best(&agents[0], None, 1).is_none());
        assert_eq!(line(agents[1].memory()).split(' ').next(), Some("0"));
    }
}
