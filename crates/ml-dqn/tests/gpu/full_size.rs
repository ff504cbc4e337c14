//! 24.7 million transitions, where f32 sums and 32-bit offsets break.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::oracle::per as oracle;
use ml_dqn::{DeviceSteps, GpuReplayBuffer};

use crate::Test;
use crate::buffer::{config, options};

pub fn tests() -> Vec<Test> {
    vec![
        ("full_size/sums_and_draws", sums_and_draws),
        ("full_size/kept_sums_equal_a_rebuild", kept_sums),
        ("full_size/offsets_beyond_32_bits", offsets),
    ]
}

const N: usize = 24_700_000;

/// A buffer whose rows have these states; the first two components tell the row's number.
fn filled(stream: &Arc<CudaStream>, state_dim: usize) -> GpuReplayBuffer {
    let mut memory = GpuReplayBuffer::with_options(
        config(N, state_dim),
        options(|options| options.max_batch = 1 << 20),
        Arc::clone(stream),
    )
    .unwrap();
    let chunk = 950_000;
    let mut states = vec![0.0f32; chunk * state_dim];
    let zeros = stream.alloc_zeros::<u32>(chunk).unwrap();
    let rewards = stream.alloc_zeros::<f32>(chunk).unwrap();
    let flags = stream.alloc_zeros::<u8>(chunk).unwrap();
    for first in (0..N).step_by(chunk) {
        for row in 0..chunk {
            states[row * state_dim] = ((first + row) / 4096) as f32;
            if state_dim > 1 {
                states[(row + 1) * state_dim - 1] = ((first + row) % 4096) as f32;
            }
        }
        let states = stream.clone_htod(&states).unwrap();
        let steps = DeviceSteps {
            states: &states,
            actions: &zeros,
            rewards: &rewards,
            next_states: &states,
            terminated: &flags,
            truncated: &flags,
            env_id: &zeros,
        };
        memory.push_steps(steps).unwrap();
    }
    assert_eq!(memory.len(), N);
    memory
}

/// numpy issue 14909 and pytorch issue 2576: f32 sums stop at 2^24, and f32 prefixes lose slots.
fn sums_and_draws(stream: &Arc<CudaStream>) {
    let memory = filled(stream, 1);
    assert_eq!(memory.stats().unwrap().total_priority, N as f64, "exactly");
    // A million draws from 24.7 million equal priorities: each in its own stretch of 23.6 slots.
    let slots = memory.sample(1 << 20).unwrap().indices_to_host().unwrap();
    let expected = oracle::targets(0, 0, 1 << 20, N as f64);
    for (draw, (&slot, target)) in slots.iter().zip(expected).enumerate() {
        assert_eq!(slot, target as u64, "draw {draw}");
    }
    assert!(slots.is_sorted());

    // Random priorities in most slots, then draws against the f64 oracle.
    for round in 0..40u32 {
        let batch = memory.sample(1 << 20).unwrap();
        let td_errors: Vec<f32> = (0..1u32 << 20)
            .map(|i| {
                let hash = (i ^ round << 20).wrapping_mul(0x9E37_79B9);
                0.001 + (hash >> 8) as f32 / (1u32 << 24) as f32
            })
            .collect();
        let td_errors = stream.clone_htod(&td_errors).unwrap();
        memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    }
    let priorities = memory.priorities_to_host().unwrap();
    let prefix = oracle::prefix(&priorities);
    let total = *prefix.last().unwrap();
    let stats = memory.stats().unwrap();
    assert!((stats.total_priority - total).abs() <= 1e-12 * total);
    let batch = memory.sample(16_384).unwrap();
    let slots = batch.indices_to_host().unwrap();
    let targets = oracle::targets(0, stats.draws, 16_384, stats.total_priority);
    for (draw, (&slot, target)) in slots.iter().zip(targets).enumerate() {
        let expected = oracle::find(&priorities, &prefix, target).unwrap();
        // Equal but where a target falls within the rounding of the two ways to sum.
        let near = (prefix[expected] - target)
            .min(target - prefix[expected] + f64::from(priorities[expected]));
        assert!(
            slot == expected as u64 || near.abs() < 1e-12 * total,
            "draw {draw}: {slot}, the oracle has {expected}"
        );
    }
    let weights = batch.weights_to_host().unwrap();
    let drawn = batch.priorities_to_host().unwrap();
    for (weight, expected) in weights
        .iter()
        .zip(oracle::normalized_weights(&drawn, N, total, 0.4))
    {
        assert!((f64::from(*weight) - expected).abs() < 1e-5);
    }
}

fn kept_sums(stream: &Arc<CudaStream>) {
    let memory = filled(stream, 1);
    let n = 16_384;
    // 3.3 million updates of single slots, and no rebuild in between.
    for round in 0..200u32 {
        let batch = memory.sample(n).unwrap();
        let td_errors: Vec<f32> = (0..n as u32)
            .map(|i| ((i.wrapping_mul(round | 1)).wrapping_mul(0x85EB_CA6B) >> 8) as f32 * 1e-6)
            .collect();
        let td_errors = stream.clone_htod(&td_errors).unwrap();
        memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    }
    let kept = memory.sums_to_host().unwrap();
    memory.rebuild_sums().unwrap();
    let rebuilt = memory.sums_to_host().unwrap();
    for (level, (kept, rebuilt)) in kept.iter().zip(&rebuilt).enumerate() {
        crate::cases::assert_same_bits(&format!("level {level}"), kept, rebuilt);
    }
}

/// microsoft/onnxruntime issue 28107: 24.7 million rows of 87 components pass 2^31 at row 24,683,721.
fn offsets(stream: &Arc<CudaStream>) {
    let dim = 87;
    let memory = filled(stream, dim);
    // Half a million rows of 350 bytes from all over the buffer, its last rows among them.
    let batch = memory.sample(1 << 19).unwrap();
    let slots = batch.indices_to_host().unwrap();
    assert!(*slots.last().unwrap() > 24_699_900);
    for states in [
        batch.states_to_host().unwrap(),
        batch.next_states_to_host().unwrap(),
    ] {
        for (slot, state) in slots.iter().zip(states.chunks(dim)) {
            let number = state[0] as u64 * 4096 + state[dim - 1] as u64;
            assert_eq!(number, *slot);
        }
    }
}
