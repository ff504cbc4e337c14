//! A long run at full size: what a night of training must not lose, in a minute.
//!
//! `soak [--steps N] [--transitions N] [--rows N] [--seconds LIMIT] [--out DIR]`
//!
//! Fills a ring of 24.7 million transitions (80 components, bf16: 8.3 GB), then makes 100,000 whole training steps of
//! 16,384 rows, inserting 256 new transitions before each, so that the ring wraps and every slot is written anew.
//! It is an error where
//!
//! * the kept sums of the priorities differ in one bit from sums made anew (looked at four times on the way),
//! * the driver's figure of free memory moves by more than 1 MiB after step 1,000,
//! * a step changed nothing, a TD error was not finite, or the time limit is over.
//!
//! Into DIR goes `soak.json`.

mod support;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaSlice, CudaStream};
use indicatif::{ProgressBar, ProgressStyle};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions};
use ml_cuda::Precision;
use ml_dqn::gpu_replay_buffer::{DeviceSteps, ReplayOptions, StateType};
use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBuffer, GpuReplayBufferConfig};

/// Rows of one push while the ring is filled.
const CHUNK: usize = 1 << 17;
/// Steps after which memory must stay as it is.
const SETTLED: usize = 1000;
/// Steps of one epoch.
const EPOCH: usize = 178;
/// What the driver's figure of free memory may move.
const FLAT_BYTES: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let known = ["--steps", "--transitions", "--rows", "--seconds", "--out"];
    let mut given = support::arguments(&known)?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    let steps: usize = take("--steps", "100000").parse()?;
    let transitions: usize = take("--transitions", "24700000").parse()?;
    let rows: usize = take("--rows", "256").parse()?;
    let limit_s: f64 = take("--seconds", "240").parse()?;
    let out = PathBuf::from(take("--out", "soak"));
    std::fs::create_dir_all(&out)?;

    let began = Instant::now();
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig::default();
    let memory_config = GpuReplayBufferConfig {
        capacity: transitions,
        state_dim: config.state_dim,
        ..Default::default()
    };
    let mut replay = ReplayOptions::default();
    replay.stored_states = StateType::Bf16;
    replay.batch_states = StateType::Bf16;
    let memory = GpuReplayBuffer::with_options(memory_config, replay, Arc::clone(&stream))?;
    let mut options = StepOptions::default();
    options.precision = Precision::Bf16;
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let mut agent = DqnAgent::new(config.clone(), memory)?;
    let chunk = Rows::new(&stream, &config, CHUNK, 0)?;
    for _ in 0..transitions.div_ceil(CHUNK) {
        agent.memory_mut().push_steps(chunk.steps())?;
    }
    let news = (1..=8)
        .map(|seed| Rows::new(&stream, &config, rows, seed))
        .collect::<Result<Vec<_>, _>>()?;
    stream.synchronize()?;
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());

    let bar = ProgressBar::new(steps as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);
    let started = Instant::now();
    let mut settled_bytes = None;
    let mut moved_bytes = 0;
    let mut comparisons = 0;
    for step in 1..=steps {
        agent
            .memory_mut()
            .push_steps(news[step % news.len()].steps())?;
        let batch = agent
            .memory()
            .sample_profiled(config.batch_size, fused.phases())?;
        fused.run_full_step(&agent, &batch)?;
        drop(batch);
        if step % EPOCH == 0 {
            stream.synchronize()?;
            let report = fused.phases().finish_epoch();
            bar.set_message(report.line());
            bar.set_position(step as u64);
            if began.elapsed().as_secs_f64() > limit_s {
                return Err(format!("{step} of {steps} steps were made in {limit_s} s").into());
            }
        }
        if step % SETTLED == 0 {
            stream.synchronize()?;
            let free = stream.context().mem_get_info()?.0 as u64;
            let settled = *settled_bytes.get_or_insert(free);
            moved_bytes = moved_bytes.max(free.abs_diff(settled));
            if moved_bytes > FLAT_BYTES {
                return Err(format!(
                    "{settled} bytes were free at step {SETTLED}, {free} at {step}"
                )
                .into());
            }
        }
        if step % (steps / 4).max(1) == 0 {
            compare_sums(agent.memory(), step)?;
            comparisons += 1;
        }
    }
    stream.synchronize()?;
    let step_us = started.elapsed().as_secs_f64() * 1e6 / steps as f64;
    bar.finish_and_clear();
    let state = fused.state_to_host()?;
    let stats = agent.memory().stats()?;
    if state.applied != steps as u64 || stats.bad_td_errors > 0 || stats.len != transitions {
        return Err(format!("something was lost: {state:?}, {stats:?}").into());
    }
    let turns = (steps * rows) as f64 / transitions as f64;
    println!(
        "{steps} steps, {:.1} s: sums equal to the bit {comparisons} times, free memory within {moved_bytes} bytes, the ring written {turns:.2} times over, loss {:.4}",
        began.elapsed().as_secs_f64(),
        state.loss
    );
    println!(
        "figure: soak, a step with insert = {step_us:.1} us | {transitions} bf16 transitions, {rows} inserted, batch {}, {steps} steps, wall time",
        config.batch_size
    );
    println!(
        "figure: soak, free memory moved = {moved_bytes} bytes | after step {SETTLED} of {steps}"
    );
    let json = format!(
        "{{\n  \"steps\": {steps},\n  \"transitions\": {transitions},\n  \"inserted_per_step\": {rows},\n  \"ring_turns\": {turns:.3},\n  \"sums_compared\": {comparisons},\n  \"free_memory_moved_bytes\": {moved_bytes},\n  \"step_us\": {step_us:.2},\n  \"stale_rows\": {},\n  \"loss\": {}\n}}\n",
        stats.stale_rows, state.loss
    );
    std::fs::write(out.join("soak.json"), json)?;
    Ok(())
}

/// The sums as they were kept, against sums made anew from all priorities.
fn compare_sums(memory: &GpuReplayBuffer, step: usize) -> Result<(), Box<dyn Error>> {
    let kept = memory.sums_to_host()?;
    memory.rebuild_sums()?;
    let rebuilt = memory.sums_to_host()?;
    for (level, (kept, rebuilt)) in kept.iter().zip(&rebuilt).enumerate() {
        let differs = kept
            .iter()
            .zip(rebuilt)
            .position(|(kept, rebuilt)| kept.to_bits() != rebuilt.to_bits());
        if let Some(place) = differs {
            return Err(format!(
                "step {step}: sum {place} of level {level} is {}, and {} when made anew",
                kept[place], rebuilt[place]
            )
            .into());
        }
    }
    Ok(())
}

/// Transitions on the device.
struct Rows {
    states: CudaSlice<f32>,
    next_states: CudaSlice<f32>,
    actions: CudaSlice<u32>,
    rewards: CudaSlice<f32>,
    terminated: CudaSlice<u8>,
    truncated: CudaSlice<u8>,
    env_id: CudaSlice<u32>,
}

impl Rows {
    /// Rows that differ, and differ from those of another seed.
    fn new(
        stream: &Arc<CudaStream>,
        config: &DqnConfig,
        rows: usize,
        seed: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let wave = |at: usize, by: f32| ((at + 977 * seed) as f32 * by).sin();
        let values = |count: usize, by: f32| (0..count).map(|at| wave(at, by)).collect::<Vec<_>>();
        let flags: Vec<u8> = (0..rows)
            .map(|at| u8::from((at + seed).is_multiple_of(20)))
            .collect();
        let actions: Vec<u32> = (0..rows)
            .map(|at| ((at + seed) % config.num_actions) as u32)
            .collect();
        Ok(Self {
            states: stream.clone_htod(&values(rows * config.state_dim, 0.37))?,
            next_states: stream.clone_htod(&values(rows * config.state_dim, 0.73))?,
            actions: stream.clone_htod(&actions)?,
            rewards: stream.clone_htod(&values(rows, 1.3))?,
            terminated: stream.clone_htod(&flags)?,
            truncated: stream.alloc_zeros(rows)?,
            env_id: stream.alloc_zeros(rows)?,
        })
    }

    fn steps(&self) -> DeviceSteps<'_> {
        DeviceSteps {
            states: &self.states,
            actions: &self.actions,
            rewards: &self.rewards,
            next_states: &self.next_states,
            terminated: &self.terminated,
            truncated: &self.truncated,
            env_id: &self.env_id,
        }
    }
}
