//! Blind Cliffwalk with the fused training step: a small network, 32 transitions an update.

use std::error::Error;
use std::sync::Arc;

use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig};

use crate::table::{self, LEARNED};

const BATCH: usize = 32;
/// Updates between two looks at the error.
const LOOK: usize = 20;

/// The place in the row as a vector with a single 1.
fn state(states: usize, at: usize) -> Vec<f32> {
    (0..states)
        .map(|place| f32::from(u8::from(place == at)))
        .collect()
}

/// Updates until the values are learned, or `None` after `most`.
pub fn updates(
    states: usize,
    alpha: f32,
    seed: u64,
    most: usize,
) -> Result<Option<usize>, Box<dyn Error>> {
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig {
        state_dim: states,
        num_actions: 2,
        batch_size: BATCH,
        gamma: 1.0 - 1.0 / states as f32,
    };
    let transitions: Vec<Experience> = table::all(states)
        .into_iter()
        .map(|transition| Experience {
            state: state(states, transition.at),
            action: transition.action as u32,
            reward: transition.reward as f32,
            next_state: state(states, (transition.at + 1) % states),
            done: !transition.goes_on,
        })
        .collect();
    let memory_config = GpuReplayBufferConfig {
        capacity: transitions.len(),
        state_dim: states,
        alpha,
        // The draws alone are compared: what is learned has one answer, which weights do not move.
        beta: 0.0,
    };
    let mut replay = ReplayOptions::default();
    replay.seed = seed;
    replay.min_size = Some(1);
    let mut memory = GpuReplayBuffer::with_options(memory_config, replay, Arc::clone(&stream))?;
    memory.push_batch(&transitions)?;
    let mut options = StepOptions::default();
    options.hidden = vec![64];
    options.head = 32;
    options.seed = seed;
    options.learning_rate = LearningRate::constant(1e-3);
    options.target = TargetUpdate::Polyak { tau: 0.05 };
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let mut agent = DqnAgent::new(config, memory)?;
    agent.set_network(Arc::new(fused.policy()?));
    let all: Vec<f32> = (0..states).flat_map(|at| state(states, at)).collect();
    for update in 1..=most {
        let batch = agent.memory().sample(BATCH)?;
        fused.run_full_step(&agent, &batch)?;
        if update % LOOK == 0 {
            let values = agent.q_values(&all)?;
            let error: f64 = (0..2 * states)
                .map(|place| {
                    let truth = table::truth(states, place / 2, place % 2);
                    (f64::from(values[place]) - truth).powi(2)
                })
                .sum();
            if error / (2 * states) as f64 <= LEARNED {
                return Ok(Some(update));
            }
        }
    }
    Ok(None)
}
