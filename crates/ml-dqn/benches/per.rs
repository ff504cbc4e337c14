//! Prioritized replay: checks against the f64 oracle first, then times each phase, for several sizes.
//!
//! ```text
//! cargo bench -p ml-dqn --bench per -- [--report FILE.json] [--slots N,N] [--batch B,B] [--state-dim D]
//! ```
//!
//! A phase's figure is the median of event pairs minus the median of empty pairs, with the host far enough ahead that
//! the GPU never waits for a launch. `per` is scan, sample, gather and update in one graph: its median is of replays
//! back to back, its p99 of single replays between two events, minus an empty pair. The figures are lines for the table
//! of `gpu-run` (`tests/gpu/README.md`). A size for which the memory is short is passed over, with a line.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, sys::CUevent_flags};
use ml_cuda::{CudaError, PhaseTimerOptions, capture};
use ml_dqn::oracle::per as oracle;
use ml_dqn::{
    DeviceSteps, DqnError, GpuBatchPtrs, GpuReplayBuffer, GpuReplayBufferConfig, Phase, PhaseTimer,
    ReplayOptions,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Batches of a run whose phases are timed; all are enqueued before the GPU begins with the first.
const ROUNDS: usize = 100;
const RUNS: usize = 5;

struct Arguments {
    report: Option<PathBuf>,
    slots: Vec<usize>,
    batches: Vec<usize>,
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
        slots: vec![1_000_000, 24_700_000, 100_000_000],
        batches: vec![16_384, 512],
        state_dim: 80,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or(format!("`{flag}` needs a value"));
        match flag.as_str() {
            "--report" => arguments.report = Some(value()?.into()),
            "--slots" => arguments.slots = numbers(&value()?)?,
            "--batch" => arguments.batches = numbers(&value()?)?,
            "--state-dim" => arguments.state_dim = value()?.parse()?,
            // Cargo adds it.
            "--bench" => {}
            other => return Err(format!("`{other}` is no flag of this bench").into()),
        }
    }
    Ok(arguments)
}

fn numbers(text: &str) -> Result<Vec<usize>> {
    let number = |part: &str| {
        part.trim()
            .parse()
            .map_err(|why| format!("`{part}` of `{text}`: {why}").into())
    };
    text.split(',').map(number).collect()
}

fn run(arguments: &Arguments) -> Result<()> {
    let (context, stream) = ml_cuda::open(0)?;
    println!(
        "{}: {} components of f32",
        context.name()?,
        arguments.state_dim
    );
    let mut figures = Figures::default();
    for &slots in &arguments.slots {
        let memory = match filled(&stream, slots, arguments.state_dim) {
            Ok(memory) => memory,
            Err(DqnError::Cuda(why @ CudaError::NotEnoughMemory { .. })) => {
                println!("skipped: {slots} slots: {why}");
                continue;
            }
            Err(why) => return Err(why.into()),
        };
        for &batch in &arguments.batches {
            measure(&memory, batch, &mut figures)?;
        }
        figures.add(
            &format!("per_rebuild {}", size(slots)),
            rebuild(&memory)?,
            "all sums from the priorities, never needed in between; single calls",
        );
    }
    if let Some(path) = &arguments.report {
        let report = serde_json::json!({
            "bench": "per",
            "device": context.name()?,
            "driver": ml_cuda::context::driver_version()?,
            "state_dim": arguments.state_dim,
            "unit": "microseconds",
            "figures": figures.json(),
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")
            .map_err(|why| format!("cannot write `{}`: {why}", path.display()))?;
    }
    Ok(())
}

fn measure(memory: &GpuReplayBuffer, batch: usize, figures: &mut Figures) -> Result<()> {
    let (slots, td_errors) = (memory.len(), td_errors(memory.stream(), batch)?);
    // As many updates as there are slots, up to a bound, so that priorities are all over.
    for round in 0..slots.div_ceil(batch).min(4000) {
        step(memory, &td_errors[round % td_errors.len()], batch)?;
    }
    check(memory, batch)?;
    println!("{slots} slots, batch {batch}: every draw is the oracle's, weights within 1e-5");
    phases(memory, &td_errors, batch, figures)?;
    graphs(memory, &td_errors[0], batch, figures)?;
    // Nothing that was timed has broken what it works on.
    check(memory, batch)
}

/// A number of slots as the figures name it: `24.7M`.
fn size(slots: usize) -> String {
    if slots.is_multiple_of(100_000) {
        format!("{}M", slots as f64 / 1e6)
    } else {
        slots.to_string()
    }
}

/// A full buffer with states that are not zero.
fn filled(
    stream: &Arc<CudaStream>,
    slots: usize,
    state_dim: usize,
) -> std::result::Result<GpuReplayBuffer, DqnError> {
    let config = GpuReplayBufferConfig {
        capacity: slots,
        state_dim,
        ..GpuReplayBufferConfig::default()
    };
    let mut memory =
        GpuReplayBuffer::with_options(config, ReplayOptions::default(), Arc::clone(stream))?;
    let chunk = slots.min(250_000);
    let states: Vec<f32> = (0..chunk * state_dim)
        .map(|i| ((i as u32).wrapping_mul(0x9E37_79B9) >> 8) as f32 / (1u32 << 24) as f32)
        .collect();
    let states = stream.clone_htod(&states)?;
    let zeros = stream.alloc_zeros::<u32>(chunk)?;
    let flags = stream.alloc_zeros::<u8>(chunk)?;
    let rewards = stream.clone_htod(&vec![1.0f32; chunk])?;
    while memory.len() < slots {
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

/// Pairs of events that are recorded around `work`, `count` times, with the host ahead of the GPU.
fn pairs(
    stream: &Arc<CudaStream>,
    count: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let event = || stream.context().new_event(flags);
    let pairs = (0..count)
        .map(|_| Ok((event()?, event()?)))
        .collect::<Result<Vec<(CudaEvent, CudaEvent)>>>()?;
    let mut block = stream.alloc_zeros::<u8>(1 << 30)?;
    head_start(stream, &mut block)?;
    for (start, end) in &pairs {
        start.record(stream)?;
        work()?;
        end.record(stream)?;
    }
    let time =
        |(start, end): &(CudaEvent, CudaEvent)| Ok(f64::from(start.elapsed_ms(end)?) * 1000.0);
    pairs.iter().map(time).collect()
}

fn empty_pair(stream: &Arc<CudaStream>) -> Result<f64> {
    Ok(at(&sorted(pairs(stream, 200, || Ok(()))?), 0.5))
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
    options.timeline = ROUNDS;
    let timer = PhaseTimer::with_options(stream, options)?;
    // Nothing between its events: what a pair costs by itself.
    let empty = Phase::Upload;
    let timed = [Phase::PerScan, Phase::PerSample, Phase::PerUpdate, empty];
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        head_start(stream, &mut block)?;
        for round in 0..ROUNDS {
            let batch = memory.sample_profiled(n, &timer)?;
            timer.start(empty, stream);
            timer.end(empty, stream);
            timer.start(Phase::PerUpdate, stream);
            memory.update_priorities_gpu(&batch, &td_errors[round % td_errors.len()])?;
            timer.end(Phase::PerUpdate, stream);
        }
        stream.synchronize()?;
        let report = timer.finish_epoch();
        for span in report.timeline.iter().flat_map(|batch| &batch.spans) {
            if let Some(i) = timed.iter().position(|phase| *phase == span.phase) {
                times[i].push(span.duration_ms * 1000.0);
            }
        }
    }
    if times.iter().any(Vec::is_empty) {
        return Err("the timer kept no spans".into());
    }
    let cost = at(&sorted(times[3].clone()), 0.5);
    for (phase, times) in timed.iter().zip(times) {
        if *phase == empty {
            continue;
        }
        let detail = format!(
            "event pairs minus an empty pair of {cost:.2}, {} batches",
            times.len()
        );
        let name = format!("{} {} x {n}", phase.name(), size(memory.len()));
        let times = times.iter().map(|time| time - cost).collect();
        figures.add(&name, times, &detail);
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
    let cost = empty_pair(stream)?;
    for (name, with_update) in [("per", true), ("per_without_update", false)] {
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
        for _ in 0..RUNS {
            let replays = 500;
            start.record(stream)?;
            for _ in 0..replays {
                graph.launch()?;
            }
            end.record(stream)?;
            runs.push(f64::from(start.elapsed_ms(&end)?) * 1000.0 / f64::from(replays));
        }
        let singles = pairs(stream, 500, || Ok(graph.launch()?))?;
        let singles = sorted(singles.iter().map(|time| time - cost).collect());
        figures.add_with_p99(
            &format!("{name} {} x {n}", size(memory.len())),
            runs,
            at(&singles, 0.99),
            "one graph: 5 runs of 500 replays; p99 of 500 replays one by one",
        );
    }
    Ok(())
}

fn rebuild(memory: &GpuReplayBuffer) -> Result<Vec<f64>> {
    let stream = memory.stream();
    let cost = empty_pair(stream)?;
    let times = pairs(stream, 50, || Ok(memory.rebuild_sums()?))?;
    Ok(times.iter().map(|time| time - cost).collect())
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// The value below which this share of the sorted times lies.
fn at(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted[index.min(sorted.len() - 1)]
}

/// Median and p99 by name, printed as they come: a run that is cut off leaves what it had.
#[derive(Default)]
struct Figures(serde_json::Map<String, serde_json::Value>);

impl Figures {
    fn add(&mut self, name: &str, times: Vec<f64>, detail: &str) {
        let times = sorted(times);
        let p99 = at(&times, 0.99);
        self.add_with_p99(name, times, p99, detail);
    }

    fn add_with_p99(&mut self, name: &str, times: Vec<f64>, p99: f64, detail: &str) {
        let times = sorted(times);
        let (median, least) = (at(&times, 0.5), times[0]);
        println!("figure: {name} by foxhunt = {median:.2} us | {detail}, least {least:.2}");
        println!("figure: {name} p99 by foxhunt = {p99:.2} us | {detail}");
        let value = serde_json::json!({ "median": median, "least": least, "p99": p99 });
        self.0.insert(name.to_owned(), value);
    }

    fn json(&self) -> serde_json::Value {
        serde_json::Value::Object(self.0.clone())
    }
}
