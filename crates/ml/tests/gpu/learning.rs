//! A problem whose values are known: a chain of states, with the reward at its end.

use std::sync::Arc;

use ml::trainers::dqn::fused_training::{StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml::trainers::dqn::trainer::{DqnTrainer, TrainerOptions};
use ml_cuda::Precision;
use ml_dqn::{DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig};

use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[("a_chain_gets_its_values_in_every_precision", chain)];

const LENGTH: usize = 6;
const GAMMA: f32 = 0.8;

fn state(at: usize) -> Vec<f32> {
    (0..LENGTH)
        .map(|place| f32::from(u8::from(place == at)))
        .collect()
}

/// Action 0 goes on, and from the last state to the reward of 1; action 1 leaves with 0.2.
fn transitions() -> Vec<Experience> {
    let mut all = Vec::new();
    for at in 0..LENGTH {
        let last = at + 1 == LENGTH;
        all.push(Experience {
            state: state(at),
            action: 0,
            reward: f32::from(u8::from(last)),
            next_state: state((at + 1) % LENGTH),
            done: last,
        });
        all.push(Experience {
            state: state(at),
            action: 1,
            reward: 0.2,
            next_state: state(at),
            done: true,
        });
    }
    all
}

fn chain() -> Outcome {
    for (precision, target, tolerance) in [
        (Precision::Tf32, TargetUpdate::Polyak { tau: 0.02 }, 0.02),
        (Precision::Fp32, TargetUpdate::Periodic { every: 50 }, 0.02),
        (Precision::Bf16, TargetUpdate::Polyak { tau: 0.02 }, 0.05),
    ] {
        let (_context, stream) = ml_cuda::open(0)?;
        let config = DqnConfig {
            state_dim: LENGTH,
            num_actions: 2,
            batch_size: 64,
            gamma: GAMMA,
        };
        let memory_config = GpuReplayBufferConfig {
            capacity: 1024,
            state_dim: LENGTH,
            ..Default::default()
        };
        let mut memory = GpuReplayBuffer::new(memory_config, Arc::clone(&stream))?;
        for _ in 0..64 {
            memory.push_batch(&transitions())?;
        }
        let mut options = TrainerOptions::default();
        let mut step = StepOptions::default();
        step.hidden = vec![64, 64];
        step.head = 32;
        step.precision = precision;
        step.target = target;
        step.learning_rate = LearningRate::linear(1e-3, 1e-5, 2000);
        options.step = step;
        options.steps_per_epoch = 500;
        let mut trainer = DqnTrainer::with_options(config, options, memory, stream)?;
        trainer.train(5)?;
        let states: Vec<f32> = (0..LENGTH).flat_map(state).collect();
        let values = trainer.agent().q_values(&states)?;
        for at in 0..LENGTH {
            // Going on is worth the discounted reward, or leaving later where that is worth more.
            let onward = GAMMA.powi((LENGTH - 1 - at) as i32);
            let onward = (at + 1..LENGTH)
                .map(|leave| GAMMA.powi((leave - at) as i32) * 0.2)
                .fold(onward, f32::max);
            for (action, expected) in [(0, onward), (1, 0.2)] {
                let got = values[2 * at + action];
                check((got - expected).abs() < tolerance, || {
                    format!("{precision:?}: Q({at}, {action}) is {got}, not {expected}: {values:?}")
                })?;
            }
        }
    }
    Ok(())
}
