//! The GPU buffer on a real device; says that it was skipped where there is none.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use ml_dqn::{
    BatchSample, DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig, ReplayBufferConfig,
    ReplayBufferType,
};

const STATE_DIM: usize = 4;

fn numbered(at: usize) -> Experience {
    Experience {
        state: vec![at as f32; STATE_DIM],
        action: at as u32,
        reward: at as f32,
        next_state: vec![at as f32 + 1.0; STATE_DIM],
        done: false,
    }
}

/// cudarc panics where there is no driver to load.
fn stream() -> Option<Arc<CudaStream>> {
    let context = std::panic::catch_unwind(|| CudaContext::new(0)).ok()?.ok()?;
    context.new_stream().ok()
}

fn small_config() -> GpuReplayBufferConfig {
    GpuReplayBufferConfig { capacity: 64, state_dim: STATE_DIM, ..Default::default() }
}

fn uniform() -> ReplayBufferType {
    ReplayBufferType::uniform(ReplayBufferConfig { capacity: 64, seed: 11 })
}

#[test]
fn zero_capacity_is_refused_before_anything_is_allocated() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let config = GpuReplayBufferConfig { capacity: 0, ..small_config() };
    assert!(ReplayBufferType::gpu_prioritized(config, stream).is_err());
}

#[test]
fn draws_and_updates_on_the_device() {
    let Some(stream) = stream() else {
        eprintln!("skipped: no CUDA device");
        return;
    };
    let gpu = GpuReplayBuffer::new(small_config(), Arc::clone(&stream)).unwrap();
    let mut agent = DqnAgent::new(DqnConfig::default(), ReplayBufferType::GpuPrioritized(gpu)).unwrap();
    let experiences: Vec<_> = (0..80).map(numbered).collect();
    agent.memory_mut().push_batch(&experiences).unwrap();
    assert!(agent.memory().is_gpu());
    assert_eq!(agent.memory().len(), 64);

    let batch = agent.sample(16).unwrap();
    assert!(batch.is_gpu() && !batch.is_empty());
    let drawn = batch.gpu_batch.as_ref().expect("a GPU batch");
    assert_eq!((drawn.len(), drawn.state_dim()), (16, STATE_DIM));
    let td_errors = stream.clone_htod(&[0.5f32; 16]).unwrap();
    let ReplayBufferType::GpuPrioritized(gpu) = agent.memory() else { panic!("the memory is on the GPU") };
    gpu.update_priorities_gpu(drawn, &td_errors).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn uniform_memory_has_no_device_batch() {
    let mut memory = uniform();
    (0..8).for_each(|at| memory.push(&numbered(at)).unwrap());
    let batch: BatchSample = memory.sample(4).unwrap();
    assert!(batch.gpu_batch.is_none());
    assert_eq!(batch.experiences.len(), 4);
}
