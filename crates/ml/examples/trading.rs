//! Learns to trade a mean-reverting price on the GPU, and compares with the best policy.
//!
//! `trading [--seeds N] [--iterations N] [--out DIR]`
//!
//! For each seed: trains, then plays 1,000 greedy episodes with the last weights, on price paths that training never
//! saw. The best policy, found by value iteration, plays the same paths, and so does one that always bets on the
//! return to the mean without a look at the costs. The bar is 95 % of the best policy's mean return.
//! Into DIR go `trading.json` with the results and `trading.svg` with the learning curves.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use ml::environments::{BestTrader, Environment, ManyEnvironments, MeanReverting};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_dqn::dqn::EpsilonSchedule;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBuffer, GpuReplayBufferConfig};

const ENVIRONMENTS: usize = 256;
const BATCH: usize = 2048;
const GAMMA: f32 = 0.97;
/// Episodes of an evaluation.
const EPISODES: usize = 1000;
/// Share of the best policy's mean return that counts as learned.
const BAR: f64 = 0.95;
/// Iterations between two lines.
const EPOCH: usize = 1000;

/// One seed's result.
struct Run {
    seed: u64,
    mean_return: f64,
    seconds: f64,
    /// Mean returns of training episodes.
    curve: support::Curve,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = support::arguments(&["--seeds", "--iterations", "--out"])?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    let seeds: u64 = take("--seeds", "5").parse()?;
    let iterations: usize = take("--iterations", "10000").parse()?;
    let out = PathBuf::from(take("--out", "trading"));
    std::fs::create_dir_all(&out)?;

    let best = MeanReverting::default().best_policy(GAMMA.into());
    let best_return = mean_return(|markets| Ok(best_actions(markets, &best)))?;
    let eager_return = mean_return(|markets| Ok(eager_actions(markets)))?;
    println!(
        "over {EPISODES} episodes of 200 steps the best policy gains {best_return:.2}, betting on the mean at any cost {eager_return:.2}"
    );
    let mut runs = Vec::new();
    for seed in 0..seeds {
        let run = train(seed, iterations)?;
        let share = run.mean_return / best_return;
        println!(
            "seed {seed}: mean return {:.2}, {:.1} % of the best, {:.1} s: {}",
            run.mean_return,
            100.0 * share,
            run.seconds,
            if share >= BAR {
                "learned"
            } else {
                "not learned"
            }
        );
        runs.push(run);
    }
    let least = runs
        .iter()
        .map(|run| run.mean_return)
        .fold(f64::MAX, f64::min)
        / best_return;
    println!(
        "figure: trading, least share of the best return = {:.1} % | {seeds} seeds, {EPISODES} unseen paths, last weights, greedy",
        100.0 * least
    );
    std::fs::write(
        out.join("trading.json"),
        json(&runs, best_return, eager_return),
    )?;
    let curves: Vec<_> = runs.into_iter().map(|run| run.curve).collect();
    let title = "Trading a mean-reverting price: mean return of training episodes";
    std::fs::write(
        out.join("trading.svg"),
        support::svg(title, &curves, best_return.ceil(), best_return),
    )?;
    if least < BAR {
        return Err(format!("not every seed reached {BAR} of the best return").into());
    }
    Ok(())
}

fn train(seed: u64, iterations: usize) -> Result<Run, Box<dyn Error>> {
    let began = Instant::now();
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig {
        state_dim: 4,
        num_actions: 3,
        batch_size: BATCH,
        gamma: GAMMA,
    };
    let memory_config = GpuReplayBufferConfig {
        capacity: 1 << 20,
        state_dim: config.state_dim,
        // Rewards are mostly noise here, and priorities would draw by its size.
        alpha: 0.0,
        ..Default::default()
    };
    let mut replay = ReplayOptions::default();
    replay.seed = seed;
    replay.n_envs = ENVIRONMENTS;
    let memory = GpuReplayBuffer::with_options(memory_config, replay, Arc::clone(&stream))?;
    let mut options = StepOptions::default();
    options.hidden = vec![64, 64];
    options.head = 32;
    options.seed = seed;
    options.learning_rate = LearningRate::linear(1e-3, 1e-6, iterations as u64);
    // The mean of noisy targets is wanted, and Huber's linear part would pull towards their median.
    options.huber_delta = 10.0;
    options.target = TargetUpdate::Polyak { tau: 0.01 };
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let mut agent = DqnAgent::new(config, memory)?;
    agent.set_network(Arc::new(fused.policy()?));
    let mut epsilon = EpsilonSchedule::constant(0.1);
    epsilon.start = 1.0;
    epsilon.choices = (iterations / 5 * ENVIRONMENTS) as u64;
    agent.set_exploration(epsilon, seed);

    // Training episodes take seeds from the lower half of the numbers, evaluation from the upper.
    let markets = vec![MeanReverting::default(); ENVIRONMENTS];
    let mut many = ManyEnvironments::new(markets, seed << 32);
    let bar = ProgressBar::new(iterations as u64);
    bar.set_style(ProgressStyle::with_template(
        "seed {prefix} {bar:30} {pos}/{len} {msg}",
    )?);
    bar.set_prefix(seed.to_string());
    let mut points = Vec::new();
    for iteration in 1..=iterations {
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
            points.push((iteration * ENVIRONMENTS, mean));
            let loss = fused.last_loss()?.map_or(0.0, |state| state.loss);
            bar.set_message(format!("return {mean:.1}, loss {loss:.4}"));
            bar.println(report.line());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    agent.set_exploration(EpsilonSchedule::constant(0.0), 0);
    let mean_return = mean_return(|markets| {
        let mut states = vec![0.0; markets.len() * 4];
        for (market, state) in markets.iter().zip(states.chunks_exact_mut(4)) {
            market.observe(state);
        }
        Ok(agent.select_actions(&states)?)
    })?;
    Ok(Run {
        seed,
        mean_return,
        seconds: began.elapsed().as_secs_f64(),
        curve: support::Curve {
            name: format!("seed {seed}"),
            points,
        },
    })
}

/// Mean return on the paths of the evaluation, which are the same for every policy and never seen in training.
fn mean_return(
    mut act: impl FnMut(&[MeanReverting]) -> Result<Vec<u32>, Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut markets = vec![MeanReverting::default(); EPISODES];
    for (at, market) in markets.iter_mut().enumerate() {
        market.reset((1 << 63) + at as u64);
    }
    let mut total = 0.0;
    loop {
        let actions = act(&markets)?;
        let mut ended = true;
        for (market, action) in markets.iter_mut().zip(actions) {
            let step = market.step(action);
            total += f64::from(step.reward);
            // All paths are equally long.
            ended &= step.truncated;
        }
        if ended {
            return Ok(total / EPISODES as f64);
        }
    }
}

fn best_actions(markets: &[MeanReverting], best: &BestTrader) -> Vec<u32> {
    markets
        .iter()
        .map(|market| market.best_action(best))
        .collect()
}

/// Short above the mean, long below.
fn eager_actions(markets: &[MeanReverting]) -> Vec<u32> {
    let action = |market: &MeanReverting| {
        let mut state = [0.0; 4];
        market.observe(&mut state);
        if state[0] > 0.0 { 0 } else { 2 }
    };
    markets.iter().map(action).collect()
}

fn json(runs: &[Run], best: f64, eager: f64) -> String {
    let runs: Vec<String> = runs
        .iter()
        .map(|run| {
            format!(
                "    {{ \"seed\": {}, \"mean_return\": {:.3}, \"share_of_best\": {:.4}, \"seconds\": {:.2}, \"curve\": {} }}",
                run.seed,
                run.mean_return,
                run.mean_return / best,
                run.seconds,
                support::json_points(&run.curve)
            )
        })
        .collect();
    format!(
        "{{\n  \"environment\": \"trading a mean-reverting price\",\n  \"best_return\": {best:.3},\n  \"eager_return\": {eager:.3},\n  \"runs\": [\n{}\n  ]\n}}\n",
        runs.join(",\n")
    )
}
