//! Prioritized replay at full size: checks against the f64 oracle first, then times each phase.
//!
//! ```text
//! cargo bench -p ml-dqn --bench per -- [--report FILE.json] [--slots N] [--batch B] [--state-dim D]
//! ```
//!
//! A phase's figure is the median of event pairs minus the median of empty pairs, with the host far enough ahead that
//! the GPU never waits for a launch. `graph` is one replay of scan, sample, gather and update together.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, sys::CUevent_flags};
use ml_cuda::{PhaseTimerOptions, capture};
use ml_dqn::oracle::per as oracle;
use ml_dqn::{
    DeviceSteps, DqnError, GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig, Phase, PhaseTimer,
    ReplayOptions,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Arguments {
    report: Option<PathBuf>,
    slots: usize,
    batch: usize,
    state_dim: usize,
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    if let Err(why) = ml_cuda::device_count() {
        println!("nothing was timed: no CUDA device: {why}");
        let required = std::env::var_os("FOXHUNT_REQUIRE_GPU").is_some_and(|v| v == "1");
        return ExitCode::from(u8::from(required));
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Arguments> {
    let mut arguments = Arguments {
        report: None,
        slots: 24_700_000,
        batch: 16_384,
        state_dim: 80,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or(format!("`{flag}` needs a value"));
        match flag.as_str() {
            "--report" => arguments.report = Some(value()?.into()),
            "--slots" => arguments.slots = value()?.parse()?,
            "--batch" => arguments.batch = value()?.parse()?,
            "--state-dim" => arguments.state_dim = value()?.parse()?,
            // Cargo adds it.
            "--bench" => {}
            other => return Err(format!("`{other}` is no flag of this bench").into()),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<()> {
    let (context, stream) = ml_cuda::open(0)?;
    let (n, batch_size) = (arguments.slots, arguments.batch);
    println!(
        "{}: {n} slots, batch {batch_size}, {} components of f32",
        context.name()?,
        arguments.state_dim
    );
    let memory = filled(&stream, arguments)?;
    let td_errors = td_errors(&stream, batch_size)?;
    // As many updates as there are slots, so that priorities are all over.
    for round in 0..n.div_ceil(batch_size).min(4000) {
        step(&memory, &td_errors[round % td_errors.len()], batch_size)?;
    }
    check(&memory, batch_size)?;
    println!("checked: every draw is the oracle's, weights within 1e-5");

    let mut figures = Figures::new();
    phases(&memory, &td_errors, batch_size, &mut figures)?;
    graphs(&memory, &td_errors[0], batch_size, &mut figures)?;
    figures.add("rebuild_of_all_sums", rebuild(&memory)?);
    check(&memory, batch_size)?;
    figures.print();
    if let Some(path) = &arguments.report {
        let report = serde_json::json!({
            "bench": "per",
            "device": context.name()?,
            "driver": ml_cuda::context::driver_version()?,
            "slots": n,
            "batch": batch_size,
            "state_dim": arguments.state_dim,
            "unit": "microseconds",
            "figures": figures.json(),
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")
            .map_err(|why| format!("cannot write `{}`: {why}", path.display()))?;
    }
    Ok(())
}

/// A full buffer with states that are not zero.
fn filled(stream: &Arc<CudaStream>, arguments: &Arguments) -> Result<GpuReplayBuffer> {
    let config = GpuReplayBufferConfig {
        capacity: arguments.slots,
        state_dim: arguments.state_dim,
        ..GpuReplayBufferConfig::default()
    };
    let mut memory =
        GpuReplayBuffer::with_options(config, ReplayOptions::default(), Arc::clone(stream))?;
    let chunk = arguments.slots.min(250_000);
    let states: Vec<f32> = (0..chunk * arguments.state_dim)
        .map(|i| ((i as u32).wrapping_mul(0x9E37_79B9) >> 8) as f32 / (1u32 << 24) as f32)
        .collect();
    let states = stream.clone_htod(&states)?;
    let zeros = stream.alloc_zeros::<u32>(chunk)?;
    let flags = stream.alloc_zeros::<u8>(chunk)?;
    let rewards = stream.clone_htod(&vec![1.0f32; chunk])?;
    while memory.len() < arguments.slots {
        memory.push_steps(DeviceSteps {
            states: &states,
            actions: &zeros,
            rewards: &rewards,
            next_states: &states,
            terminated: &flags,
            truncated: &flags,
            env_id: &zeros,
        })?;
    }
    Ok(memory)
}

/// Several sets, so that no two updates in a row write the same.
fn td_errors(stream: &Arc<CudaStream>, n: usize) -> Result<Vec<CudaSlice<f32>>> {
    let set = |set: u32| {
        let error =
            |i: u32| ((i ^ set << 24).wrapping_mul(0x85EB_CA6B) >> 8) as f32 / (1u32 << 24) as f32;
        Ok(stream.clone_htod(&(0..n as u32).map(error).collect::<Vec<_>>())?)
    };
    (0..8).map(set).collect()
}

fn step(
    memory: &GpuReplayBuffer,
    td_errors: &CudaSlice<f32>,
    n: usize,
) -> std::result::Result<GpuBatchPtrs, DqnError> {
    let batch = memory.sample(n)?;
    memory.update_priorities_gpu(&batch, td_errors)?;
    Ok(batch)
}

/// Every draw and weight of one batch against the f64 oracle.
fn check(memory: &GpuReplayBuffer, n: usize) -> Result<()> {
    let priorities = memory.priorities_to_host()?;
    let prefix = oracle::prefix(&priorities);
    let stats = memory.stats()?;
    let total = stats.total_priority;
    let sum = prefix.last().copied().unwrap_or_default();
    if (total - sum).abs() > 1e-12 * sum {
        return Err(format!("total is {total}, the oracle has {sum}").into());
    }
    let batch = memory.sample(n)?;
    let slots = batch.indices_to_host()?;
    let targets = oracle::targets(memory.options().seed, stats.draws, n, total);
    let mut differ = 0;
    for (&slot, target) in slots.iter().zip(&targets) {
        let expected =
            oracle::find(&priorities, &prefix, *target).ok_or("the oracle finds nothing")?;
        let edge = (prefix[expected] - target)
            .min(target - prefix[expected] + f64::from(priorities[expected]));
        // A target within the rounding of the two ways to sum may fall to either neighbour.
        differ += usize::from(slot != expected as u64 && edge.abs() > 1e-12 * total);
    }
    if differ > 0 {
        return Err(format!("{differ} of {n} draws are not the oracle's").into());
    }
    let drawn = batch.priorities_to_host()?;
    let expected = oracle::normalized_weights(&drawn, memory.len(), total, memory.beta());
    for (row, (weight, expected)) in batch.weights_to_host()?.iter().zip(expected).enumerate() {
        if (f64::from(*weight) - expected).abs() > 1e-5 {
            return Err(format!("weight {row} is {weight}, the oracle has {expected}").into());
        }
    }
    Ok(())
}

/// Keeps the GPU busy for some 15 ms, so that the host gets ahead.
fn head_start(stream: &Arc<CudaStream>, block: &mut CudaSlice<u8>) -> Result<()> {
    for _ in 0..60 {
        stream.memset_zeros(block)?;
    }
    Ok(())
}

fn phases(
    memory: &GpuReplayBuffer,
    td_errors: &[CudaSlice<f32>],
    n: usize,
    figures: &mut Figures,
) -> Result<()> {
    let stream = memory.stream();
    let mut block = stream.alloc_zeros::<u8>(1 << 30)?;
    let mut options = PhaseTimerOptions::default();
    options.stride = Some(1);
    let timer = PhaseTimer::with_options(stream, options)?;
    let mut medians = [[0.0; 4]; 5];
    for medians in &mut medians {
        head_start(stream, &mut block)?;
        for round in 0..60 {
            let batch = memory.sample_profiled(n, &timer)?;
            // Nothing: what a pair of events costs by itself.
            timer.start(Phase::Upload, stream);
            timer.end(Phase::Upload, stream);
            timer.start(Phase::PerUpdate, stream);
            memory.update_priorities_gpu(&batch, &td_errors[round % td_errors.len()])?;
            timer.end(Phase::PerUpdate, stream);
        }
        stream.synchronize()?;
        let report = timer.finish_epoch();
        let median = |phase: Phase| report.phase(phase).median_ms * 1000.0;
        let empty = median(Phase::Upload);
        *medians = [
            median(Phase::PerScan) - empty,
            median(Phase::PerSample) - empty,
            median(Phase::PerUpdate) - empty,
            empty,
        ];
    }
    for (i, name) in ["per_scan", "per_sample", "per_update", "empty_pair"]
        .iter()
        .enumerate()
    {
        figures.add(name, medians.iter().map(|m| m[i]).collect());
    }
    Ok(())
}

/// Replays of the whole step, and of the step without the update.
fn graphs(
    memory: &GpuReplayBuffer,
    td_errors: &CudaSlice<f32>,
    n: usize,
    figures: &mut Figures,
) -> Result<()> {
    let stream = memory.stream();
    for (name, with_update) in [("graph", true), ("graph_without_update", false)] {
        let mut held = GpuBatchPtrs::default();
        let mut graph = capture(stream, || {
            held = memory.sample(n)?;
            if with_update {
                memory.update_priorities_gpu(&held, td_errors)?;
            }
            Ok::<(), DqnError>(())
        })?;
        for _ in 0..20 {
            graph.launch()?;
        }
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let (start, end) = (
            stream.context().new_event(flags)?,
            stream.context().new_event(flags)?,
        );
        let mut runs = Vec::new();
        for _ in 0..5 {
            let replays = 500;
            start.record(stream)?;
            for _ in 0..replays {
                graph.launch()?;
            }
            end.record(stream)?;
            runs.push(f64::from(start.elapsed_ms(&end)?) * 1000.0 / f64::from(replays));
        }
        figures.add(name, runs);
    }
    Ok(())
}

fn rebuild(memory: &GpuReplayBuffer) -> Result<Vec<f64>> {
    let stream = memory.stream();
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let (start, end) = (
        stream.context().new_event(flags)?,
        stream.context().new_event(flags)?,
    );
    let mut block = stream.alloc_zeros::<u8>(1 << 30)?;
    let mut runs = Vec::new();
    for _ in 0..5 {
        head_start(stream, &mut block)?;
        start.record(stream)?;
        memory.rebuild_sums()?;
        end.record(stream)?;
        runs.push(f64::from(start.elapsed_ms(&end)?) * 1000.0);
    }
    Ok(runs)
}

/// Figures by name, each the median of its runs, with the spread.
struct Figures(Vec<(String, Vec<f64>)>);

impl Figures {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn add(&mut self, name: &str, mut runs: Vec<f64>) {
        runs.sort_by(f64::total_cmp);
        self.0.push((name.to_owned(), runs));
    }

    fn print(&self) {
        println!("{:<24} {:>9} {:>9} {:>9}", "µs", "median", "least", "most");
        for (name, runs) in &self.0 {
            let (least, most) = (runs[0], runs[runs.len() - 1]);
            println!(
                "{name:<24} {:>9.2} {least:>9.2} {most:>9.2}",
                runs[runs.len() / 2]
            );
        }
    }

    fn json(&self) -> serde_json::Value {
        let figure = |(name, runs): &(String, Vec<f64>)| {
            let value = serde_json::json!({ "median": runs[runs.len() / 2], "least": runs[0], "most": runs[runs.len() - 1] });
            (name.clone(), value)
        };
        serde_json::Value::Object(self.0.iter().map(figure).collect())
    }
}
