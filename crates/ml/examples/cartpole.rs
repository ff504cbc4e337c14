//! Learns CartPole-v1 on the GPU, and shows that it did.
//!
//! `cartpole [--seeds N] [--iterations N] [--out DIR]`
//!
//! For each seed: trains, then plays 100 greedy episodes with the last weights, on episode seeds that
//! training never saw. Gymnasium's bar is a mean return of 475. Into DIR go `cartpole.json` with the
//! results, `cartpole.svg` with the learning curves, and a checkpoint for each seed.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use ml::environments::{CartPole, Environment, ManyEnvironments};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_dqn::dqn::EpsilonSchedule;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBuffer, GpuReplayBufferConfig};

const ENVIRONMENTS: usize = 256;
const BATCH: usize = 1024;
/// Episodes of an evaluation.
const EPISODES: usize = 100;
/// Gymnasium's bar.
const BAR: f64 = 475.0;
/// Iterations between two lines.
const EPOCH: usize = 1000;

struct Arguments {
    seeds: u64,
    iterations: usize,
    out: PathBuf,
}

/// One seed's result.
struct Run {
    seed: u64,
    mean_return: f64,
    least_return: f64,
    seconds: f64,
    /// Mean returns of training episodes.
    curve: support::Curve,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    std::fs::create_dir_all(&arguments.out)?;
    let mut runs = Vec::new();
    for seed in 0..arguments.seeds {
        let run = train(seed, &arguments)?;
        println!(
            "seed {seed}: mean return {:.1} over {EPISODES} episodes (least {:.0}), {:.1} s: {}",
            run.mean_return,
            run.least_return,
            run.seconds,
            if run.mean_return >= BAR {
                "solved"
            } else {
                "not solved"
            }
        );
        runs.push(run);
    }
    let solved = runs.iter().filter(|run| run.mean_return >= BAR).count();
    println!("{solved} of {} seeds reach {BAR}", runs.len());
    let least = runs
        .iter()
        .map(|run| run.mean_return)
        .fold(f64::MAX, f64::min);
    println!(
        "figure: cartpole, least mean return = {least:.1} steps | {} seeds, {EPISODES} unseen episodes each, last weights, greedy",
        runs.len()
    );
    std::fs::write(arguments.out.join("cartpole.json"), json(&runs))?;
    let curves: Vec<_> = runs.into_iter().map(|run| run.curve).collect();
    let title = "CartPole-v1: mean return of training episodes";
    let picture = support::svg(title, &curves, 500.0, BAR);
    std::fs::write(arguments.out.join("cartpole.svg"), picture)?;
    if solved < curves.len() {
        return Err("not every seed reached the bar".into());
    }
    Ok(())
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut given = support::arguments(&["--seeds", "--iterations", "--out"])?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    Ok(Arguments {
        seeds: take("--seeds", "5").parse()?,
        iterations: take("--iterations", "10000").parse()?,
        out: take("--out", "cartpole").into(),
    })
}

fn train(seed: u64, arguments: &Arguments) -> Result<Run, Box<dyn Error>> {
    let began = Instant::now();
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig {
        state_dim: 4,
        num_actions: 2,
        batch_size: BATCH,
        gamma: 0.99,
    };
    let memory_config = GpuReplayBufferConfig {
        capacity: 1 << 19,
        state_dim: config.state_dim,
        ..Default::default()
    };
    let mut replay = ReplayOptions::default();
    replay.seed = seed;
    replay.n_envs = ENVIRONMENTS;
    replay.n_steps = 3;
    let memory = GpuReplayBuffer::with_options(memory_config, replay, Arc::clone(&stream))?;
    let mut options = StepOptions::default();
    options.hidden = vec![128, 128];
    options.head = 64;
    options.seed = seed;
    options.learning_rate = LearningRate::linear(1e-3, 1e-5, arguments.iterations as u64);
    options.target = TargetUpdate::Polyak { tau: 0.01 };
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let mut agent = DqnAgent::new(config, memory)?;
    agent.set_network(Arc::new(fused.policy()?));
    let falling = (arguments.iterations / 5 * ENVIRONMENTS) as u64;
    let mut epsilon = EpsilonSchedule::constant(0.02);
    epsilon.start = 1.0;
    epsilon.choices = falling;
    agent.set_exploration(epsilon, seed);

    // Training episodes take seeds from the lower half of the numbers, evaluation from the upper.
    let carts = vec![CartPole::default(); ENVIRONMENTS];
    let mut many = ManyEnvironments::new(carts, seed << 32);
    let bar = ProgressBar::new(arguments.iterations as u64);
    bar.set_style(ProgressStyle::with_template(
        "seed {prefix} {bar:30} {pos}/{len} {msg}",
    )?);
    bar.set_prefix(seed.to_string());
    let mut curve = Vec::new();
    for iteration in 1..=arguments.iterations {
        let actions = agent.select_actions(many.states())?;
        let steps = many.step(&actions);
        agent.memory_mut().push_steps(steps)?;
        if agent.memory().can_sample(BATCH) {
            let batch = agent.memory().sample_profiled(BATCH, fused.phases())?;
            fused.run_full_step(&agent, &batch)?;
        }
        if iteration % EPOCH == 0 {
            stream.synchronize()?;
            let report = fused.phases().finish_epoch();
            let finished = many.take_finished();
            let mean = finished.iter().sum::<f64>() / finished.len().max(1) as f64;
            curve.push((iteration * ENVIRONMENTS, mean));
            let loss = fused.last_loss()?.map_or(0.0, |state| state.loss);
            bar.set_message(format!("return {mean:.1}, loss {loss:.4}"));
            bar.println(report.line());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    fused.save(arguments.out.join(format!("cartpole-{seed}.safetensors")))?;
    let returns = evaluate(&mut agent)?;
    Ok(Run {
        seed,
        mean_return: returns.iter().sum::<f64>() / returns.len() as f64,
        least_return: returns.iter().copied().fold(f64::MAX, f64::min),
        seconds: began.elapsed().as_secs_f64(),
        curve: support::Curve {
            name: format!("seed {seed}"),
            points: curve,
        },
    })
}

/// Returns of 100 greedy episodes that training never saw.
fn evaluate(agent: &mut DqnAgent) -> Result<Vec<f64>, Box<dyn Error>> {
    agent.set_exploration(EpsilonSchedule::constant(0.0), 0);
    let mut carts = vec![CartPole::default(); EPISODES];
    for (at, cart) in carts.iter_mut().enumerate() {
        cart.reset((1 << 63) + at as u64);
    }
    let mut returns = vec![0.0; EPISODES];
    let mut running: Vec<usize> = (0..EPISODES).collect();
    while !running.is_empty() {
        let mut states = vec![0.0; running.len() * 4];
        for (place, at) in states.chunks_exact_mut(4).zip(&running) {
            carts[*at].observe(place);
        }
        let actions = agent.select_actions(&states)?;
        let mut action = actions.iter();
        running.retain(|at| {
            let step = carts[*at].step(*action.next().unwrap_or(&0));
            returns[*at] += f64::from(step.reward);
            !(step.terminated || step.truncated)
        });
    }
    Ok(returns)
}

fn json(runs: &[Run]) -> String {
    let runs: Vec<String> = runs
        .iter()
        .map(|run| {
            format!(
                "    {{ \"seed\": {}, \"mean_return\": {:.2}, \"least_return\": {:.0}, \"seconds\": {:.2}, \"curve\": {} }}",
                run.seed,
                run.mean_return,
                run.least_return,
                run.seconds,
                support::json_points(&run.curve)
            )
        })
        .collect();
    format!(
        "{{\n  \"environment\": \"CartPole-v1\",\n  \"runs\": [\n{}\n  ]\n}}\n",
        runs.join(",\n")
    )
}
