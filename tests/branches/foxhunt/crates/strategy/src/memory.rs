//! Opens the memory that a configuration asks for, and says how it fares.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::gpu_replay_buffer::{GpuReplayBuffer, GpuReplayBufferConfig};
use ml_dqn::replay_buffer::ReplayBufferConfig;
use ml_dqn::{DqnError, ReplayBufferType as Memory};

use crate::config::StrategyConfig;

/// Device memory with the given shape; `$stream` is taken.
#[macro_export]
macro_rules! device_memory {
    ($capacity:expr, $state_dim:expr, $stream:expr) => {
        ::ml_dqn::ReplayBufferType::gpu_prioritized(
            ::ml_dqn::GpuReplayBufferConfig {
                capacity: $capacity,
                state_dim: $state_dim,
                ..::core::default::Default::default()
            },
            $stream,
        )
    };
}

/// How full a memory is.
pub trait Fill {
    /// From zero to one.
    fn fill(&self) -> f32;
}

impl Fill for ml_dqn::ReplayBufferType {
    fn fill(&self) -> f32 {
        self.len() as f32 / self.capacity() as f32
    }
}

impl<M: Fill> Fill for [M] {
    fn fill(&self) -> f32 {
        self.iter().map(Fill::fill).sum::<f32>() / self.len().max(1) as f32
    }
}

fn device_config(config: &StrategyConfig) -> GpuReplayBufferConfig {
    GpuReplayBufferConfig { capacity: config.capacity, state_dim: config.state_dim(), ..Default::default() }
}

/// On the device where there is a stream, uniform on the host where there is none.
pub fn open(config: &StrategyConfig, stream: Option<Arc<CudaStream>>) -> Result<Memory, DqnError> {
    match stream {
        Some(stream) => Memory::gpu_prioritized(device_config(config), stream),
        None => {
            eprintln!("no device: {} transitions on the host", config.capacity);
            Ok(ml_dqn::ReplayBufferType::uniform(ReplayBufferConfig { capacity: config.capacity, seed: 17 }))
        }
    }
}

/// One memory for each stream.
pub fn open_all(config: &StrategyConfig, streams: &[Arc<CudaStream>]) -> Result<Vec<Memory>, DqnError> {
    streams
        .iter()
        .map(|stream| {
            GpuReplayBuffer::new(device_config(config), Arc::clone(stream)).map(Memory::GpuPrioritized)
        })
        .collect()
}

/// Where a memory is, and how full.
pub fn describe(memory: &Memory) -> String {
    match memory {
        Memory::GpuPrioritized(gpu) if gpu.is_empty() => "device, empty".to_owned(),
        Memory::GpuPrioritized(gpu) => format!("device, {} of {}", gpu.len(), gpu.capacity()),
        Memory::Prioritized(tree) => host_line("tree", tree.len(), tree.capacity()),
        Memory::Uniform(ring) => host_line("uniform", ring.len(), ring.capacity()),
    }
}

/// Longer than what [`describe`] says of a device: the host's share of RAM matters.
fn host_line(kind: &str, len: usize, capacity: usize) -> String {
    let bytes = len * BYTES_PER_TRANSITION;
    format!("{kind}, {len} of {capacity}, about {} KiB", bytes >> 10)
}

/// Two states and the rest, without the allocator's share.
const BYTES_PER_TRANSITION: usize = 2 * 5 * 4 + 16;

/// Clears the memories that are fuller than `limit` and keeps those of the device only.
pub fn recycle(mut memories: Vec<Memory>, limit: f32) -> Vec<GpuReplayBuffer> {
    let mut kept = Vec::with_capacity(memories.len());
    while let Some(Memory::GpuPrioritized(mut gpu)) = memories.pop() {
        if gpu.len() as f32 > limit * gpu.capacity() as f32 {
            gpu.clear();
        }
        kept.push(gpu);
    }
    kept
}

/// The one with the most room, of those that can be drawn from on the device.
pub fn roomiest(memories: &[Memory]) -> Option<&GpuReplayBuffer> {
    memories.iter().filter_map(|memory| memory.as_gpu()).max_by_key(|gpu| gpu.capacity() - gpu.len())
}

/// How many more transitions the devices take.
pub fn room(memories: &[Memory]) -> usize {
    let mut n_host = 0;
    let mut room = 0;
    'memories: for memory in memories {
        let gpu = match memory {
            Memory::GpuPrioritized(gpu) => gpu,
            Memory::Uniform(_) | Memory::Prioritized(_) => {
                n_host += 1;
                continue 'memories;
            }
        };
        room += gpu.capacity() - gpu.len();
    }
    if n_host > 0 {
        eprintln!("{n_host} memories on the host do not count");
    }
    room
}

/// Takes the memory out of its wrapper, or says what is in there instead.
pub fn into_device(memory: Memory) -> Result<GpuReplayBuffer, String> {
    let line = describe(&memory);
    memory.into_gpu().ok_or_else(|| format!("a device memory is needed, not: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::Experience;

    #[test]
    fn device_config_has_the_strategy_s_shape() {
        let config = StrategyConfig { capacity: 99, ..Default::default() };
        let device = device_config(&config);
        assert_eq!((device.capacity, device.state_dim), (99, config.state_dim()));
    }

    #[test]
    fn falls_back_to_the_host() {
        let config = StrategyConfig { capacity: 4, ..Default::default() };
        let mut memory = open(&config, None).unwrap();
        assert!(!memory.is_gpu());
        memory
            .push(&Experience {
                state: vec![0.0; 5],
                action: 0,
                reward: 0.0,
                next_state: vec![0.0; 5],
                done: false,
            })
            .unwrap();
        assert_eq!(memory.fill(), 0.25);
        assert_eq!(describe(&memory), "uniform, 1 of 4, about 0 KiB");
        assert!(into_device(memory).is_err_and(|why| why.contains("uniform")));
    }

    #[test]
    fn nothing_to_recycle() {
        assert!(recycle(Vec::new(), 0.5).is_empty());
        assert!(roomiest(&[]).is_none());
        assert_eq!(room(&[]), 0);
        assert_eq!(<[Memory] as Fill>::fill(&[]), 0.0);
    }
}
