//! The trainer on a device, where there is one.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepMode};
use ml::{DqnTrainer, TrainError};
use ml_dqn::{
    BatchSample, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig, ReplayBufferConfig,
    ReplayBufferType,
};

fn config() -> DqnConfig {
    DqnConfig { state_dim: 2, num_actions: 2, batch_size: 32, ..Default::default() }
}

fn stream() -> Option<Arc<CudaStream>> {
    let context = std::panic::catch_unwind(|| CudaContext::new(0)).ok()?.ok()?;
    context.new_stream().ok()
}

/// The reward is one where the action is the sign of the first value.
fn experiences(n: usize) -> Vec<Experience> {
    (0..n)
        .map(|at| {
            let action = (at / 2 % 2) as u32;
            let side = if at % 2 == 0 { 1.0 } else { -1.0 };
            Experience {
                state: vec![side, 1.0],
                action,
                reward: f32::from(u8::from((action == 1) == (side > 0.0))),
                next_state: vec![side, 1.0],
                done: true,
            }
        })
        .collect()
}

fn gpu_memory(stream: &Arc<CudaStream>) -> GpuReplayBuffer {
    let config = GpuReplayBufferConfig { capacity: 256, state_dim: 2, ..Default::default() };
    let mut memory = GpuReplayBuffer::new(config, Arc::clone(stream)).unwrap();
    memory.push_batch(&experiences(256)).unwrap();
    memory
}

fn host_batch() -> BatchSample {
    let rows = experiences(4);
    BatchSample::from_experiences(rows, vec![1.0; 4], vec![0, 1, 2, 3])
}

#[test]
fn learns_which_side_pays() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let mut trainer = DqnTrainer::from_gpu(config(), gpu_memory(&stream), stream).unwrap();
    trainer.set_steps_per_epoch(400);
    assert_eq!(trainer.warm_up().unwrap(), 1);
    let history = trainer.train(3).unwrap();
    assert!(history.iter().all(|stats| stats.n_batches == 400 && stats.n_transitions == 400 * 32));
    let params = trainer.fused().params_to_host().unwrap();
    // Action 1 is worth more on the positive side, action 0 on the negative one.
    assert!(params[2] > params[0], "{params:?}");
}

/// The parameters after three steps over draws that are the same for every `mode`.
fn params_after(mode: StepMode, stream: &Arc<CudaStream>) -> Vec<f32> {
    let trainer = DqnTrainer::new(config(), gpu_memory(stream).into(), Arc::clone(stream)).unwrap();
    let mut fused = FusedTrainingCtx::with_mode(&config(), mode, Arc::clone(stream)).unwrap();
    for _ in 0..3 {
        let batch = trainer.agent().sample(32).unwrap();
        fused.run_full_step(trainer.agent(), &batch).unwrap();
    }
    stream.synchronize().unwrap();
    fused.params_to_host().unwrap()
}

#[test]
fn both_modes_take_the_same_steps() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let [mega, split] = [StepMode::Mega, StepMode::Split].map(|mode| params_after(mode, &stream));
    for (mega, split) in mega.iter().zip(&split) {
        // The order of the sums differs, no more.
        assert!((mega - split).abs() < 1e-4, "{mega} and {split}");
    }
}

#[test]
fn host_batches_are_refused() {
    let Some(stream) = stream() else { return eprintln!("skipped: no CUDA device") };
    let memory = ReplayBufferType::uniform(ReplayBufferConfig::default());
    let mut trainer = DqnTrainer::new(config(), memory, Arc::clone(&stream)).unwrap();
    trainer.agent_mut().memory_mut().push_batch(&experiences(64)).unwrap();
    let mut fused = FusedTrainingCtx::new(&config(), stream).unwrap();
    let err = fused.run_full_step(trainer.agent(), &host_batch()).unwrap_err();
    assert!(matches!(err, TrainError::CpuBatch));
}

#[test]
fn errors_say_how_much_room_there_is() {
    let text = TrainError::BatchTooLarge { rows: 9, room: 8 }.to_string();
    assert!(text.contains('9') && text.contains('8'), "{text}");
}
