//! Blind Cliffwalk: how many updates uniform and prioritized replay need. Schaul et al. 2016, figure 1.
//!
//! `cliffwalk [--largest N] [--seeds N] [--most UPDATES] [--out DIR]`
//!
//! n states in a row; in each, one of two actions goes on and the other ends the episode with nothing.
//! Going on from the last state gives 1. The memory holds what all 2ⁿ sequences of actions meet, so the
//! one transition with a reward is one of 2ⁿ⁺¹ − 2. Counted are the updates until the mean squared error
//! of all values is below 10⁻³; the median over the seeds is given. The paper updates a table, or linear
//! values, from one transition at a time; here a small network learns from 32, so the numbers differ and
//! their growth is what compares. Into DIR goes `cliffwalk.json`.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig};

const BATCH: usize = 32;
/// Mean squared error that counts as learned, as in the paper.
const LEARNED: f64 = 1e-3;
/// Updates between two looks at the error.
const LOOK: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let known = ["--largest", "--seeds", "--most", "--out"];
    let mut given = support::arguments(&known)?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    let largest: usize = take("--largest", "16").parse()?;
    let seeds: u64 = take("--seeds", "3").parse()?;
    let most: usize = take("--most", "100000").parse()?;
    let out = PathBuf::from(take("--out", "cliffwalk"));
    std::fs::create_dir_all(&out)?;
    let mut rows = Vec::new();
    println!("states  transitions  uniform  prioritized  factor");
    for states in (2..=largest).step_by(2) {
        let median = |alpha: f32| -> Result<Option<usize>, Box<dyn Error>> {
            let mut counts = (0..seeds)
                .map(|seed| updates(states, alpha, seed, most))
                .collect::<Result<Vec<_>, _>>()?;
            // One that was not learned counts as more than any that was.
            counts.sort_by_key(|count| count.unwrap_or(usize::MAX));
            Ok(counts[counts.len() / 2])
        };
        let (uniform, prioritized) = (median(0.0)?, median(0.7)?);
        let text =
            |count: Option<usize>| count.map_or(format!(">{most}"), |count| count.to_string());
        let factor = match (uniform, prioritized) {
            (Some(uniform), Some(prioritized)) => {
                format!("{:.1}", uniform as f64 / prioritized as f64)
            }
            (None, Some(prioritized)) => format!(">{:.1}", most as f64 / prioritized as f64),
            _ => "-".to_owned(),
        };
        println!(
            "{states:6}  {:11}  {:>7}  {:>11}  {factor:>6}",
            (2usize << states) - 2,
            text(uniform),
            text(prioritized)
        );
        let number = |count: Option<usize>| count.map_or("null".into(), |count| count.to_string());
        rows.push(format!(
            "    {{ \"states\": {states}, \"uniform\": {}, \"prioritized\": {} }}",
            number(uniform),
            number(prioritized)
        ));
    }
    let json = format!(
        "{{\n  \"environment\": \"Blind Cliffwalk\",\n  \"seeds\": {seeds},\n  \"most_updates\": {most},\n  \"updates\": [\n{}\n  ]\n}}\n",
        rows.join(",\n")
    );
    std::fs::write(out.join("cliffwalk.json"), json)?;
    Ok(())
}

/// The place in the row as a vector with a single 1.
fn state(states: usize, at: usize) -> Vec<f32> {
    (0..states)
        .map(|place| f32::from(u8::from(place == at)))
        .collect()
}

/// The action that goes on; it alternates, so that it cannot be guessed from the last one.
fn onward(at: usize) -> u32 {
    (at % 2) as u32
}

/// What all sequences of actions meet: state i is left 2^(n-i) times, half of them the right way.
fn transitions(states: usize) -> Vec<Experience> {
    let mut all = Vec::new();
    for at in 0..states {
        let last = at + 1 == states;
        for action in [0, 1] {
            let right = action == onward(at);
            let transition = Experience {
                state: state(states, at),
                action,
                reward: f32::from(u8::from(right && last)),
                next_state: state(states, (at + 1) % states),
                done: !right || last,
            };
            let times = 1usize << (states - at - 1);
            all.extend(std::iter::repeat_n(transition, times));
        }
    }
    all
}

/// Updates until the values are learned, or `None` after `most`.
fn updates(
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
    let transitions = transitions(states);
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
    let gamma = f64::from(config.gamma);
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
                    let (at, action) = (place / 2, (place % 2) as u32);
                    let right = action == onward(at);
                    let truth = if right {
                        gamma.powi((states - 1 - at) as i32)
                    } else {
                        0.0
                    };
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
