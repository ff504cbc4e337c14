//! Times a whole training step at the reference sizes, phase by phase.
//!
//! `step [transitions] [fp32|tf32|bf16]`: batch 16,384, network 80 → 384 → 384 → {192 → 1, 192 → 45}, 24.7 million
//! transitions. For each precision: the median of the phases with every batch timed, and the time of a
//! step by one outer pair of events around 200 steps with the timer's own stride.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUevent_flags;
use ml::trainers::dqn::fused_training::{Execution, FusedTrainingCtx, StepOptions};
use ml_cuda::{Phase, PhaseTimer, PhaseTimerOptions, Precision};
use ml_dqn::gpu_replay_buffer::DeviceSteps;
use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBuffer, GpuReplayBufferConfig};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Rows of one push.
const CHUNK: usize = 1 << 18;

fn main() {
    let transitions = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(24_700_000);
    let (context, stream) = match ml_cuda::open(0) {
        Ok(opened) => opened,
        Err(error) => return println!("ignored: {error}"),
    };
    println!(
        "{}, {transitions} transitions, batch 16384, reference network",
        context.name().unwrap_or_default()
    );
    if let Err(error) = run(&stream, transitions) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run(stream: &Arc<CudaStream>, transitions: usize) -> Outcome<()> {
    let config = DqnConfig::default();
    let memory = filled(stream, &config, transitions)?;
    let agent = DqnAgent::new(config.clone(), memory)?;
    let wanted = |precision: &Precision| {
        let name = format!("{precision:?}").to_lowercase();
        let names = ["fp32", "tf32", "bf16"];
        let mut given = std::env::args().filter(|argument| names.contains(&argument.as_str()));
        given.next().is_none_or(|given| given == name)
    };
    let precisions = [Precision::Fp32, Precision::Tf32, Precision::Bf16];
    for precision in precisions.into_iter().filter(wanted) {
        for execution in [Execution::Mega, Execution::Eager] {
            measure(stream, &config, &agent, precision, execution)?;
        }
    }
    Ok(())
}

/// A buffer full of transitions that differ, written from the device.
fn filled(
    stream: &Arc<CudaStream>,
    config: &DqnConfig,
    transitions: usize,
) -> Outcome<GpuReplayBuffer> {
    let began = Instant::now();
    let memory_config = GpuReplayBufferConfig {
        capacity: transitions,
        state_dim: config.state_dim,
        ..Default::default()
    };
    let mut memory = GpuReplayBuffer::new(memory_config, Arc::clone(stream))?;
    let dim = config.state_dim;
    let wave = |at: usize, by: f32| (at as f32 * by).sin();
    let states: Vec<f32> = (0..CHUNK * dim).map(|at| wave(at, 0.37)).collect();
    let next_states: Vec<f32> = (0..CHUNK * dim).map(|at| wave(at, 0.73)).collect();
    let actions: Vec<u32> = (0..CHUNK)
        .map(|at| (at % config.num_actions) as u32)
        .collect();
    let rewards: Vec<f32> = (0..CHUNK).map(|at| 2.0 * wave(at, 1.3)).collect();
    let flags: Vec<u8> = (0..CHUNK).map(|at| u8::from(at % 20 == 0)).collect();
    let states = stream.clone_htod(&states)?;
    let next_states = stream.clone_htod(&next_states)?;
    let actions = stream.clone_htod(&actions)?;
    let rewards = stream.clone_htod(&rewards)?;
    let terminated = stream.clone_htod(&flags)?;
    let truncated = stream.alloc_zeros::<u8>(CHUNK)?;
    let env_id = stream.alloc_zeros::<u32>(CHUNK)?;
    for _ in 0..transitions.div_ceil(CHUNK) {
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
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    Ok(memory)
}

fn measure(
    stream: &Arc<CudaStream>,
    config: &DqnConfig,
    agent: &DqnAgent,
    precision: Precision,
    execution: Execution,
) -> Outcome<()> {
    let mut options = StepOptions::default();
    options.precision = precision;
    options.execution = execution;
    let mut fused = FusedTrainingCtx::with_options(config, options, Arc::clone(stream))?;
    let steps = |fused: &mut FusedTrainingCtx, count: usize| -> Outcome<()> {
        for _ in 0..count {
            let batch = agent
                .memory()
                .sample_profiled(config.batch_size, fused.phases())?;
            fused.run_full_step(agent, &batch)?;
        }
        Ok(())
    };
    // Warm: clocks, caches, the timer's stride.
    steps(&mut fused, 100)?;
    stream.synchronize()?;
    fused.phases().finish_epoch();

    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let began = Instant::now();
    let begin = stream.record_event(timed)?;
    steps(&mut fused, 200)?;
    let enqueued = began.elapsed();
    let end = stream.record_event(timed)?;
    let whole_ms = f64::from(begin.elapsed_ms(&end)?) / 200.0;
    let strided = fused.phases().finish_epoch();

    // Every batch, on a timer of its own.
    let mut every = PhaseTimerOptions::default();
    every.stride = Some(1);
    fused.set_phases(PhaseTimer::with_options(stream, every)?);
    steps(&mut fused, 200)?;
    stream.synchronize()?;
    let report = fused.phases().finish_epoch();
    let state = fused.state_to_host()?;
    println!(
        "\n{precision:?}, {execution:?}: {:.1} µs a step by an outer pair ({:.1} µs of host to enqueue); loss {:.4}, {} of {} updates",
        whole_ms * 1e3,
        enqueued.as_secs_f64() * 1e6 / 200.0,
        state.loss,
        state.applied,
        state.attempts
    );
    for phase in Phase::ALL {
        let stats = report.phase(phase);
        println!(
            "  {:<11} median {:7.1} µs   min {:7.1}   p99 {:7.1}",
            phase.name(),
            stats.median_ms * 1e3,
            stats.min_ms * 1e3,
            stats.p99_ms * 1e3
        );
    }
    println!("  {}\n  {}", strided.line(), report.line());
    println!("  verdict: {}", report.verdict());
    Ok(())
}
