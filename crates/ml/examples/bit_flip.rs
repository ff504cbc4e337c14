//! Bit-flipping with and without hindsight, on the GPU.
//!
//! `bit_flip [--alone N,…] [--hindsight N,…] [--seeds N] [--iterations N] [--out DIR]`
//!
//! Trains DQN alone and DQN with hindsight (`GpuHer`, future goals, k = 4) on the numbers of bits given,
//! then plays 200 greedy episodes with the last weights on seeds that training never saw. In figure 1 of
//! Andrychowicz et al. 2017 DQN alone fails beyond about 13 bits, and with hindsight 50 are solved.
//! It is an error where 20 or more bits are solved alone, or fewer than 95 % with hindsight.
//! Into DIR go `bit_flip.json` and `bit_flip.svg`.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use ml::environments::{BitFlip, Environment, ManyEnvironments};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_dqn::dqn::EpsilonSchedule;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, GpuHer, GpuHerConfig, GpuReplayBuffer, GpuReplayBufferConfig};

const ENVIRONMENTS: usize = 256;
const BATCH: usize = 1024;
const EPISODES: usize = 200;
/// Share of episodes that counts as solved.
const BAR: f64 = 0.95;
/// Iterations between two points of a curve.
const EPOCH: usize = 1000;

struct Run {
    bits: usize,
    hindsight: bool,
    seed: u64,
    success: f64,
    seconds: f64,
    curve: support::Curve,
}

fn main() -> Result<(), Box<dyn Error>> {
    let known = ["--alone", "--hindsight", "--seeds", "--iterations", "--out"];
    let mut given = support::arguments(&known)?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    let alone = numbers(&take("--alone", "8,20"))?;
    let hindsight = numbers(&take("--hindsight", "8,20,30"))?;
    let seeds: u64 = take("--seeds", "1").parse()?;
    let iterations: usize = take("--iterations", "24000").parse()?;
    let out = PathBuf::from(take("--out", "bit_flip"));
    std::fs::create_dir_all(&out)?;
    let plan = alone.iter().map(|bits| (*bits, false));
    let plan = plan.chain(hindsight.iter().map(|bits| (*bits, true)));
    let mut runs = Vec::new();
    for (bits, hindsight) in plan {
        for seed in 0..seeds {
            let run = train(bits, hindsight, seed, iterations)?;
            println!(
                "{}, seed {seed}: {:.1} % of {EPISODES} episodes solved, {:.1} s",
                run.curve.name,
                100.0 * run.success,
                run.seconds
            );
            runs.push(run);
        }
    }
    std::fs::write(out.join("bit_flip.json"), json(&runs))?;
    let failed = failures(&runs);
    let curves: Vec<_> = runs.into_iter().map(|run| run.curve).collect();
    let title = "Bit-flipping: share of training episodes solved";
    std::fs::write(
        out.join("bit_flip.svg"),
        support::svg(title, &curves, 1.0, BAR),
    )?;
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    Ok(())
}

/// Prints the least and most of each kind, and names what contradicts the paper.
fn failures(runs: &[Run]) -> Vec<String> {
    let mut failed = Vec::new();
    let mut kinds: Vec<_> = runs.iter().map(|run| (run.bits, run.hindsight)).collect();
    kinds.dedup();
    for (bits, hindsight) in kinds {
        let of_kind = runs
            .iter()
            .filter(|run| (run.bits, run.hindsight) == (bits, hindsight));
        let shares: Vec<f64> = of_kind.map(|run| run.success).collect();
        let least = shares.iter().copied().fold(f64::MAX, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let how = if hindsight { "hindsight" } else { "alone" };
        let seeds = shares.len();
        let (which, shown) = if hindsight {
            ("least", least)
        } else {
            ("most", most)
        };
        println!(
            "figure: bit-flipping, {bits} bits, {how}, {which} solved = {:.1} % | {seeds} seeds, {EPISODES} unseen episodes each, last weights, greedy",
            100.0 * shown
        );
        if hindsight && least < BAR {
            failed.push(format!(
                "with hindsight {bits} bits were solved in {least:.3} only"
            ));
        }
        // Chance alone: 200 episodes of 20 random flips reach one of 2^20 goals about never.
        if !hindsight && bits >= 20 && most > 0.05 {
            failed.push(format!(
                "alone {bits} bits were solved in {most:.3}, which is not the problem of the paper"
            ));
        }
    }
    failed
}

fn numbers(list: &str) -> Result<Vec<usize>, Box<dyn Error>> {
    let listed = list.split(',').filter(|number| !number.is_empty());
    Ok(listed.map(str::parse).collect::<Result<_, _>>()?)
}

fn train(
    bits: usize,
    hindsight: bool,
    seed: u64,
    iterations: usize,
) -> Result<Run, Box<dyn Error>> {
    let began = Instant::now();
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig {
        state_dim: 2 * bits,
        num_actions: bits,
        batch_size: BATCH,
        gamma: 0.98,
    };
    let memory_config = GpuReplayBufferConfig {
        capacity: 1 << 19,
        state_dim: config.state_dim,
        // As in the paper, which draws uniformly.
        alpha: 0.0,
        ..Default::default()
    };
    let mut replay = ReplayOptions::default();
    replay.seed = seed;
    replay.n_envs = ENVIRONMENTS;
    replay.track_episodes = hindsight;
    let memory = GpuReplayBuffer::with_options(memory_config, replay, Arc::clone(&stream))?;
    let her = match hindsight {
        true => Some(GpuHer::new(
            GpuHerConfig {
                k: 4,
                goal_dim: bits,
            },
            Arc::clone(&stream),
        )?),
        false => None,
    };
    let mut options = StepOptions::default();
    options.hidden = vec![256, 256];
    options.head = 128;
    options.seed = seed;
    options.learning_rate = LearningRate::linear(1e-3, 1e-5, iterations as u64);
    options.target = TargetUpdate::Polyak { tau: 0.01 };
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let mut agent = DqnAgent::new(config, memory)?;
    agent.set_network(Arc::new(fused.policy()?));
    let mut epsilon = EpsilonSchedule::constant(0.05);
    epsilon.start = 1.0;
    epsilon.choices = (iterations / 4 * ENVIRONMENTS) as u64;
    agent.set_exploration(epsilon, seed);

    let mut many = ManyEnvironments::new(vec![BitFlip::new(bits); ENVIRONMENTS], seed << 32);
    let name = format!(
        "{bits} bits, {}",
        if hindsight { "hindsight" } else { "alone" }
    );
    let bar = ProgressBar::new(iterations as u64);
    bar.set_style(ProgressStyle::with_template(
        "{prefix} {bar:30} {pos}/{len} {msg}",
    )?);
    bar.set_prefix(name.clone());
    let mut points = Vec::new();
    let (mut ended, mut solved) = (0usize, 0usize);
    for iteration in 1..=iterations {
        let actions = agent.select_actions(many.states())?;
        let steps = many.step(&actions);
        solved += steps.terminated.iter().filter(|done| **done).count();
        ended += steps
            .terminated
            .iter()
            .zip(steps.truncated)
            .filter(|(a, b)| **a || **b)
            .count();
        agent.memory_mut().push_steps(steps)?;
        if agent.memory().can_sample(BATCH) {
            let batch = agent.memory().sample_profiled(BATCH, fused.phases())?;
            if let Some(her) = &her {
                her.relabel(agent.memory(), &batch)?;
            }
            fused.run_full_step(&agent, &batch)?;
        }
        if iteration % EPOCH == 0 {
            stream.synchronize()?;
            let report = fused.phases().finish_epoch();
            let share = solved as f64 / ended.max(1) as f64;
            points.push((iteration * ENVIRONMENTS, share));
            (ended, solved) = (0, 0);
            let loss = fused.last_loss()?.map_or(0.0, |state| state.loss);
            bar.set_message(format!("{:.0} % solved, loss {loss:.4}", 100.0 * share));
            bar.println(report.line());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Run {
        bits,
        hindsight,
        seed,
        success: evaluate(&mut agent, bits)?,
        seconds: began.elapsed().as_secs_f64(),
        curve: support::Curve { name, points },
    })
}

/// Share of greedy episodes that reach their goal; training never saw their seeds.
fn evaluate(agent: &mut DqnAgent, bits: usize) -> Result<f64, Box<dyn Error>> {
    agent.set_exploration(EpsilonSchedule::constant(0.0), 0);
    let mut flips = vec![BitFlip::new(bits); EPISODES];
    for (at, flip) in flips.iter_mut().enumerate() {
        flip.reset((1 << 63) + at as u64);
    }
    for _ in 0..bits {
        let mut states = vec![0.0; EPISODES * 2 * bits];
        for (flip, state) in flips.iter().zip(states.chunks_exact_mut(2 * bits)) {
            flip.observe(state);
        }
        let actions = agent.select_actions(&states)?;
        // One that has reached its goal stays there.
        for (flip, action) in flips
            .iter_mut()
            .zip(actions)
            .filter(|(flip, _)| !flip.solved())
        {
            flip.step(action);
        }
    }
    Ok(flips.iter().filter(|flip| flip.solved()).count() as f64 / EPISODES as f64)
}

fn json(runs: &[Run]) -> String {
    let runs: Vec<String> = runs
        .iter()
        .map(|run| {
            format!(
                "    {{ \"bits\": {}, \"hindsight\": {}, \"seed\": {}, \"success\": {:.4}, \"seconds\": {:.2}, \"curve\": {} }}",
                run.bits,
                run.hindsight,
                run.seed,
                run.success,
                run.seconds,
                support::json_points(&run.curve)
            )
        })
        .collect();
    format!(
        "{{\n  \"environment\": \"bit-flipping\",\n  \"runs\": [\n{}\n  ]\n}}\n",
        runs.join(",\n")
    )
}
