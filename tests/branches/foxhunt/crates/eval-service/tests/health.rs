//! Health of a device memory; skips where there is no device.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use foxhunt_eval::health::{self, Grade};
use foxhunt_eval::replay::{Counter, Queue, draw_bare, draw_wrapped};
use foxhunt_eval::{EvalService, dry_run};
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig, ReplayBufferType};

fn stream() -> Option<Arc<CudaStream>> {
    let context = std::panic::catch_unwind(|| CudaContext::new(0)).ok()?.ok()?;
    context.new_stream().ok()
}

fn experiences(n: usize) -> Vec<Experience> {
    let of = |at: usize| Experience {
        state: vec![at as f32; 3],
        action: 0,
        reward: 1.0,
        next_state: vec![at as f32; 3],
        done: false,
    };
    (0..n).map(of).collect()
}

fn device_agent(stream: &Arc<CudaStream>, n: usize) -> DqnAgent {
    let config = GpuReplayBufferConfig { capacity: 100, state_dim: 3, ..Default::default() };
    let mut gpu = GpuReplayBuffer::new(config, Arc::clone(stream)).expect("room for 100 transitions");
    gpu.push_batch(&experiences(n)).expect("states have three values");
    DqnAgent::new(DqnConfig { state_dim: 3, ..Default::default() }, gpu.into())
        .expect("a sound configuration")
}

#[test]
fn a_device_memory_is_graded_by_its_fill() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    for (n, grade) in [(0, Grade::Empty), (5, Grade::Filling), (50, Grade::Good)] {
        let agent = device_agent(&stream, n);
        let health = health::check(agent.memory());
        assert_eq!((health.grade, health.place), (grade, "device"));
        assert!(health::require_device(agent.memory(), 1).is_ok());
        assert_eq!(health::best(&agent, None, 20).is_some(), n >= 20);
    }
}

#[test]
fn the_queue_hands_out_addresses() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let mut agent = device_agent(&stream, 50);
    assert_eq!(health::anneal(&mut agent, 0.5), Some(0.7));
    let mut queue = Queue::default();
    queue.draw(&agent, 2, 10).unwrap();
    assert_eq!(queue.n_rows(), 20);
    assert!(queue.next_on_device().is_some_and(|ptrs| ptrs.len() == 10));
    let mut counter = Counter::default();
    assert_eq!(queue.drain_into(&mut counter).unwrap(), 1);
    assert_eq!(counter, Counter { n_batches: 1, n_rows: 10 });

    let ReplayBufferType::GpuPrioritized(gpu) = agent.memory() else {
        unreachable!("it was made on the device")
    };
    let batch = draw_wrapped(gpu, 7).unwrap();
    assert!(health::agree(agent.memory(), &batch));
    drop(batch);
    assert_eq!(draw_bare(agent.memory(), 8).unwrap().len(), 8);
}

#[test]
fn dry_steps_are_timed() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let agent = device_agent(&stream, 50);
    let mut dry = dry_run::FusedTrainingCtx::with_micro_batches(16, 3, 2, &stream).unwrap();
    let timing = dry_run::time_steps(&agent, &mut dry, 16, 10).unwrap();
    assert!(timing.done >= timing.queued);
}

#[test]
fn the_service_counts_what_it_draws() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let config = GpuReplayBufferConfig { capacity: 100, state_dim: 3, ..Default::default() };
    let memory = ReplayBufferType::gpu_prioritized(config, stream).unwrap();
    let service = EvalService::start(memory);
    service.push(experiences(30)).unwrap();
    assert_eq!(service.draw(10).unwrap(), Counter { n_batches: 1, n_rows: 10 });
    assert!(service.on_device());
    assert_eq!(service.stop().unwrap(), 2);
}
