//! Times a whole training step, phase by phase, for several sizes and each precision.
//!
//! ```text
//! cargo bench -p ml --bench step -- [transitions[,transitions]] [fp32|tf32|bf16] [--batch B,B]
//! ```
//!
//! The network is the reference one, 80 → 384 → 384 → {192 → 1, 192 → 45}. TD errors are compared with the f64 oracle
//! before anything is timed. Then, as lines for the table of `gpu-run` (`tests/gpu/README.md`):
//!
//! * each phase: event pairs with every batch timed, minus an empty pair, the host ahead of the GPU; `learn` is upload,
//!   forward, backward and update of the same batch;
//! * `step`: one outer pair of events around 200 whole steps, each a graph of its own, sampling included; p99 of the
//!   times between events behind each;
//! * `step_by_parts`: the same with sampling, training and update enqueued one by one;
//! * `first_step_cold` and `first_step_warm`: a process of its own from its start to the end of its first step, with an
//!   empty cache of kernels and with a filled one.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaSlice, CudaStream};
use ml::oracle::{HostBatch, Oracle};
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions};
use ml_cuda::{CudaError, Phase, PhaseTimer, PhaseTimerOptions, Precision};
use ml_dqn::gpu_replay_buffer::DeviceSteps;
use ml_dqn::{DqnAgent, DqnConfig, DqnError, GpuReplayBuffer, GpuReplayBufferConfig};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Rows of one push.
const CHUNK: usize = 1 << 18;
/// Steps of a timed run.
const STEPS: usize = 200;
/// Rows whose TD errors are compared with the oracle, which is slow.
const CHECKED: usize = 128;
/// Stands before the seconds that a process with `--first-step` prints.
const FIRST_STEP: &str = "first step after: ";

struct Arguments {
    transitions: Vec<usize>,
    batches: Vec<usize>,
    precision: Option<Precision>,
    /// Take one step, say when it was done, and end.
    first_step: bool,
}

fn main() {
    let began = Instant::now();
    let outcome = parse().and_then(|arguments| {
        if let Err(error) = ml_cuda::device_count() {
            println!("nothing was timed: no CUDA device: {error}");
            let required = std::env::var_os("FOXHUNT_REQUIRE_GPU").is_some_and(|v| v == "1");
            return if required { Err(error.into()) } else { Ok(()) };
        }
        if arguments.first_step {
            return first_step(&arguments, began);
        }
        run(&arguments)
    });
    if let Err(error) = outcome {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn parse() -> Outcome<Arguments> {
    let mut arguments = Arguments {
        transitions: vec![1_000_000, 24_700_000],
        batches: vec![16_384, 512],
        precision: None,
        first_step: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--batch" => {
                arguments.batches = numbers(&given.next().ok_or("`--batch` needs a value")?)?;
            }
            "--first-step" => arguments.first_step = true,
            // Cargo adds it.
            "--bench" => {}
            other => match precision_of(other) {
                Some(precision) => arguments.precision = Some(precision),
                None => arguments.transitions = numbers(other)?,
            },
        }
    }
    Ok(arguments)
}

fn numbers(text: &str) -> Outcome<Vec<usize>> {
    let number = |part: &str| {
        part.trim()
            .parse()
            .map_err(|why| format!("`{part}` of `{text}`: {why}").into())
    };
    text.split(',').map(number).collect()
}

fn name_of(precision: Precision) -> String {
    format!("{precision:?}").to_lowercase()
}

fn precision_of(name: &str) -> Option<Precision> {
    let all = [Precision::Fp32, Precision::Tf32, Precision::Bf16];
    all.into_iter()
        .find(|precision| name_of(*precision) == name)
}

/// A number of transitions as the figures name it: `24.7M`.
fn size(transitions: usize) -> String {
    if transitions.is_multiple_of(100_000) {
        format!("{}M", transitions as f64 / 1e6)
    } else {
        transitions.to_string()
    }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (context, stream) = ml_cuda::open(0)?;
    println!("{}, reference network", context.name().unwrap_or_default());
    let precisions = arguments.precision.map_or(
        vec![Precision::Fp32, Precision::Tf32, Precision::Bf16],
        |precision| vec![precision],
    );
    let most = arguments.transitions.iter().copied().max().unwrap_or(0);
    for &transitions in &arguments.transitions {
        let config = DqnConfig::default();
        let memory = match filled(&stream, &config, transitions) {
            Ok(memory) => memory,
            Err(error) => match error.downcast_ref::<DqnError>() {
                Some(DqnError::Cuda(why @ CudaError::NotEnoughMemory { .. })) => {
                    println!("skipped: {transitions} transitions: {why}");
                    continue;
                }
                _ => return Err(error),
            },
        };
        let agent = DqnAgent::new(config, memory)?;
        for &batch in &arguments.batches {
            for &precision in &precisions {
                // What a precision changes does not depend on the size of the buffer.
                if transitions < most && precision != Precision::Bf16 && precisions.len() > 1 {
                    continue;
                }
                let case = Case {
                    transitions,
                    precision,
                    config: DqnConfig {
                        batch_size: batch,
                        ..DqnConfig::default()
                    },
                };
                case.measure(&stream, &agent)?;
            }
        }
    }
    for precision in precisions {
        if precision != Precision::Fp32 {
            first_steps(precision)?;
        }
    }
    Ok(())
}

/// A process of its own with an empty cache of kernels, and one that finds what the first has left.
fn first_steps(precision: Precision) -> Outcome<()> {
    let cache = tempfile::tempdir()?;
    for state in ["cold", "warm"] {
        let output = Command::new(std::env::current_exe()?)
            .args(["--first-step", &name_of(precision)])
            .env(ml_cuda::kernels::CACHE_VARIABLE, cache.path())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let seconds: f64 = text
            .lines()
            .find_map(|line| line.strip_prefix(FIRST_STEP))
            .ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?
            .parse()?;
        println!(
            "figure: first_step_{state} 16384 x 16384 {} by foxhunt = {seconds:.3} s | from the start of the process, cache of kernels {}",
            name_of(precision),
            if state == "cold" { "empty" } else { "filled" }
        );
    }
    Ok(())
}

fn first_step(arguments: &Arguments, began: Instant) -> Outcome<()> {
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig::default();
    let memory = filled(&stream, &config, config.batch_size)?;
    let agent = DqnAgent::new(config.clone(), memory)?;
    let mut options = StepOptions::default();
    options.precision = arguments.precision.unwrap_or(options.precision);
    let mut fused = FusedTrainingCtx::with_options(&config, options, Arc::clone(&stream))?;
    let batch = agent
        .memory()
        .sample_profiled(config.batch_size, fused.phases())?;
    fused.run_full_step(&agent, &batch)?;
    let state = fused.state_to_host()?;
    if state.applied != 1 {
        return Err(format!("the first step updated nothing: {state:?}").into());
    }
    println!("{FIRST_STEP}{}", began.elapsed().as_secs_f64());
    Ok(())
}

/// A buffer full of transitions that differ, written from the device.
fn filled(
    stream: &Arc<CudaStream>,
    config: &DqnConfig,
    transitions: usize,
) -> Outcome<GpuReplayBuffer> {
    let memory_config = GpuReplayBufferConfig {
        capacity: transitions,
        state_dim: config.state_dim,
        ..Default::default()
    };
    let mut memory = GpuReplayBuffer::new(memory_config, Arc::clone(stream))?;
    let dim = config.state_dim;
    let chunk = CHUNK.min(transitions);
    let wave = |at: usize, by: f32| (at as f32 * by).sin();
    let states: Vec<f32> = (0..chunk * dim).map(|at| wave(at, 0.37)).collect();
    let next_states: Vec<f32> = (0..chunk * dim).map(|at| wave(at, 0.73)).collect();
    let actions: Vec<u32> = (0..chunk)
        .map(|at| (at % config.num_actions) as u32)
        .collect();
    let rewards: Vec<f32> = (0..chunk).map(|at| 2.0 * wave(at, 1.3)).collect();
    let flags: Vec<u8> = (0..chunk).map(|at| u8::from(at % 20 == 0)).collect();
    let states = stream.clone_htod(&states)?;
    let next_states = stream.clone_htod(&next_states)?;
    let actions = stream.clone_htod(&actions)?;
    let rewards = stream.clone_htod(&rewards)?;
    let terminated = stream.clone_htod(&flags)?;
    let truncated = stream.alloc_zeros::<u8>(chunk)?;
    let env_id = stream.alloc_zeros::<u32>(chunk)?;
    for _ in 0..transitions.div_ceil(chunk) {
        memory.push_steps(DeviceSteps {
            states: &states,
            actions: &actions,
            rewards: &rewards,
            next_states: &next_states,
            terminated: &terminated,
            truncated: &truncated,
            env_id: &env_id,
        })?;
    }
    stream.synchronize()?;
    Ok(memory)
}

/// What is measured together.
struct Case {
    transitions: usize,
    precision: Precision,
    config: DqnConfig,
}

impl Case {
    fn measure(&self, stream: &Arc<CudaStream>, agent: &DqnAgent) -> Outcome<()> {
        let mut options = StepOptions::default();
        options.precision = self.precision;
        let mut fused = FusedTrainingCtx::with_options(&self.config, options, Arc::clone(stream))?;
        self.check(stream, agent, &mut fused)?;
        // Warm: clocks, caches, the timer's stride.
        self.steps(agent, &mut fused, 100)?;
        stream.synchronize()?;
        fused.phases().finish_epoch();

        let by_parts = whole(stream, || self.steps(agent, &mut fused, 1))?;
        self.figure(
            "step_by_parts",
            by_parts.mean,
            by_parts.p99,
            &by_parts.detail(),
        );
        // Once, so that it is captured.
        fused.run_whole_step(agent, self.config.batch_size)?;
        stream.synchronize()?;
        fused.phases().finish_epoch();
        let one_graph = whole(stream, || {
            fused.run_whole_step(agent, self.config.batch_size)?;
            Ok(())
        })?;
        self.figure("step", one_graph.mean, one_graph.p99, &one_graph.detail());
        stream.synchronize()?;
        println!("  {}", fused.phases().finish_epoch().line());

        self.phases(stream, agent, &mut fused)?;
        let state = fused.state_to_host()?;
        println!(
            "  loss {:.4}, {} of {} updates",
            state.loss, state.applied, state.attempts
        );
        Ok(())
    }

    fn steps(&self, agent: &DqnAgent, fused: &mut FusedTrainingCtx, count: usize) -> Outcome<()> {
        for _ in 0..count {
            let batch = agent
                .memory()
                .sample_profiled(self.config.batch_size, fused.phases())?;
            fused.run_full_step(agent, &batch)?;
        }
        Ok(())
    }

    /// TD errors of the first rows of a batch against the f64 oracle.
    fn check(
        &self,
        stream: &Arc<CudaStream>,
        agent: &DqnAgent,
        fused: &mut FusedTrainingCtx,
    ) -> Outcome<()> {
        let batch = agent.memory().sample(self.config.batch_size)?;
        let rows = CHECKED.min(self.config.batch_size);
        let dim = self.config.state_dim;
        let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
        let first = |mut values: Vec<f32>, count: usize| {
            values.truncate(count);
            wide(values)
        };
        let actions = batch.actions_to_host()?;
        let dones = first(batch.dones_to_host()?, rows);
        let host = HostBatch {
            states: first(batch.states_to_host()?, rows * dim),
            next_states: first(batch.next_states_to_host()?, rows * dim),
            actions: actions[..rows].iter().map(|a| *a as usize).collect(),
            rewards: first(batch.rewards_to_host()?, rows),
            discounts: dones
                .iter()
                .map(|done| f64::from(self.config.gamma) * (1.0 - done))
                .collect(),
            weights: first(batch.weights_to_host()?, rows),
        };
        let online = Oracle::new(fused.shape(), &fused.parameters()?);
        let target = Oracle::new(fused.shape(), &fused.target_parameters()?);
        fused.run_full_step(agent, &batch)?;
        let got = first(stream.clone_dtoh(fused.td_errors())?, rows);
        let expected = online.gradients(&target, &host, 1.0, true).td_errors;
        let norm =
            |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let error = norm(&mut got.iter().zip(&expected).map(|(got, wanted)| got - wanted))
            / norm(&mut expected.iter().copied());
        // Those of the tests against the oracle.
        let tolerance = match self.precision {
            Precision::Fp32 => 1e-5,
            Precision::Tf32 => 2e-3,
            Precision::Bf16 => 2e-2,
        };
        // Not a number fails as well.
        if error.is_nan() || error > tolerance {
            return Err(format!(
                "{}: TD errors are off by {error:.2e} of the oracle's, {tolerance:.0e} is allowed",
                self.name("step")
            )
            .into());
        }
        println!(
            "\n{}: TD errors within {error:.1e} of the oracle's",
            self.name("step")
        );
        Ok(())
    }

    /// Every batch, on a timer of its own.
    fn phases(
        &self,
        stream: &Arc<CudaStream>,
        agent: &DqnAgent,
        fused: &mut FusedTrainingCtx,
    ) -> Outcome<()> {
        let mut block = stream.alloc_zeros::<u8>(1 << 30)?;
        let cost = empty_pair(stream, &mut block)?;
        let mut every = PhaseTimerOptions::default();
        every.stride = Some(1);
        every.timeline = STEPS;
        fused.set_phases(PhaseTimer::with_options(stream, every)?);
        head_start(stream, &mut block)?;
        self.steps(agent, fused, STEPS)?;
        stream.synchronize()?;
        let report = fused.phases().finish_epoch();
        let detail = format!(
            "event pairs minus an empty pair of {cost:.2}, {} batches",
            report.timeline.len()
        );
        let times = |wanted: &[Phase]| {
            let batches = report.timeline.iter().map(|batch| {
                let spans = batch.spans.iter().filter(|s| wanted.contains(&s.phase));
                spans.map(|span| span.duration_ms * 1e3 - cost).sum()
            });
            sorted(batches.collect::<Vec<f64>>())
        };
        let rows = Phase::ALL.map(|phase| {
            let in_step = [Phase::PerScan, Phase::PerSample, Phase::PerUpdate].contains(&phase);
            // By themselves, these are measured by the bench of the buffer.
            let name = phase.name().to_owned() + if in_step { "_in_step" } else { "" };
            (name, vec![phase])
        });
        let learn = vec![Phase::Upload, Phase::FwdBwd, Phase::Adam];
        for (name, phases) in rows.into_iter().chain([("learn".to_owned(), learn)]) {
            let times = times(&phases);
            if times.is_empty() {
                return Err("the timer kept no spans".into());
            }
            self.figure(&name, at(&times, 0.5), at(&times, 0.99), &detail);
        }
        println!("  {}\n  verdict: {}", report.line(), report.verdict());
        Ok(())
    }

    fn name(&self, what: &str) -> String {
        format!(
            "{what} {} x {} {}",
            size(self.transitions),
            self.config.batch_size,
            name_of(self.precision)
        )
    }

    fn figure(&self, what: &str, median: f64, p99: f64, detail: &str) {
        let name = self.name(what);
        println!("figure: {name} by foxhunt = {median:.2} us | {detail}");
        println!("figure: {name} p99 by foxhunt = {p99:.2} us | {detail}");
    }
}

/// Microseconds of a step.
struct Whole {
    mean: f64,
    p99: f64,
    /// What the host takes to enqueue it, or to wait for room to do so.
    host: f64,
}

impl Whole {
    fn detail(&self) -> String {
        format!(
            "outer pair around {STEPS} steps, {:.1} us of host a step; p99 between events behind each",
            self.host
        )
    }
}

fn whole(stream: &Arc<CudaStream>, mut step: impl FnMut() -> Outcome<()>) -> Outcome<Whole> {
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let began = Instant::now();
    let begin = stream.record_event(timed)?;
    for _ in 0..STEPS {
        step()?;
    }
    let host = began.elapsed().as_secs_f64() * 1e6 / STEPS as f64;
    let end = stream.record_event(timed)?;
    let mean = f64::from(begin.elapsed_ms(&end)?) * 1e3 / STEPS as f64;
    let mut events = vec![stream.record_event(timed)?];
    for _ in 0..STEPS {
        step()?;
        events.push(stream.record_event(timed)?);
    }
    let mut singles = Vec::new();
    for pair in events.windows(2) {
        singles.push(f64::from(pair[0].elapsed_ms(&pair[1])?) * 1e3);
    }
    let p99 = at(&sorted(singles), 0.99);
    Ok(Whole { mean, p99, host })
}

/// Keeps the GPU busy for some 15 ms, so that the host gets ahead.
fn head_start(stream: &Arc<CudaStream>, block: &mut CudaSlice<u8>) -> Outcome<()> {
    for _ in 0..60 {
        stream.memset_zeros(block)?;
    }
    Ok(())
}

/// What a pair of events costs by itself.
fn empty_pair(stream: &Arc<CudaStream>, block: &mut CudaSlice<u8>) -> Outcome<f64> {
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    head_start(stream, block)?;
    let mut events = Vec::new();
    for _ in 0..STEPS {
        events.push((stream.record_event(timed)?, stream.record_event(timed)?));
    }
    let mut times = Vec::new();
    for (start, end) in &events {
        times.push(f64::from(start.elapsed_ms(end)?) * 1e3);
    }
    Ok(at(&sorted(times), 0.5))
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// The value below which this share of the sorted times lies.
fn at(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
