//! How a step behaves: the same bits on every path, no waiting, clear refusals.

use std::sync::Arc;
use std::time::Instant;

use libtest_mimic::Failed;
use ml::TrainError;
use ml::trainers::dqn::fused_training::{Execution, FusedTrainingCtx, StepOptions};
use ml::trainers::dqn::options::LearningRate;
use ml::trainers::dqn::trainer::{DqnTrainer, TrainerOptions};
use ml_cuda::{CudaError, PhaseTimer, PhaseTimerOptions, Precision};
use ml_dqn::gpu_replay_buffer::GpuBatchPtrs;
use ml_dqn::{DqnConfig, DqnError, Experience};

use crate::setup::{GAMMA, Setup, Spin, experiences, memory, small_options};
use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("graphs_and_no_graphs_give_the_same_bits", same_bits),
    ("one_graph_and_step_by_step_give_the_same_bits", whole_steps),
    ("two_runs_give_the_same_bits", two_runs),
    ("a_step_does_not_wait_for_the_gpu", no_wait),
    ("nan_rewards_skip_the_update_and_are_told", nan),
    ("batches_that_do_not_fit_are_refused", refused),
    (
        "the_default_stream_works_without_graphs_only",
        default_stream,
    ),
    ("a_learning_rate_set_later_reaches_the_graphs", later_rate),
    ("tracked_events_of_the_caller_do_no_harm", tracked),
    ("a_buffer_on_another_stream_is_waited_for", other_stream),
    (
        "sizes_too_large_for_the_device_name_both_figures",
        too_large,
    ),
    ("a_restored_step_goes_on_bit_for_bit", resume),
    ("five_thousand_steps_leave_the_memory_flat", flat_memory),
    ("a_trainer_logs_one_report_an_epoch", trainer),
];

/// Parameters after some steps.
fn trained(
    execution: Execution,
    precision: Precision,
) -> Result<(Vec<f32>, Vec<f32>, f32), Failed> {
    let setup = Setup::new(80, 45, 512, 2000)?;
    let mut options = StepOptions::default();
    options.execution = execution;
    options.precision = precision;
    let mut step = setup.step(&options)?;
    for _ in 0..15 {
        let batch = setup.sample()?;
        step.run_full_step(&setup.agent, &batch)?;
    }
    let state = step.state_to_host()?;
    check(state.applied == 15, || format!("{state:?}"))?;
    Ok((step.parameters()?, step.target_parameters()?, state.loss))
}

fn same_bits() -> Outcome {
    for precision in [Precision::Fp32, Precision::Tf32, Precision::Bf16] {
        let eager = trained(Execution::Eager, precision)?;
        for execution in [Execution::Mega, Execution::ForwardBackward] {
            let graphs = trained(execution, precision)?;
            check(graphs == eager, || {
                format!("{execution:?} differs from eager in {precision:?}")
            })?;
        }
    }
    Ok(())
}

/// Steps in one graph, eager ones between them, pushes, another batch size: the same bits as step by step.
fn whole_steps() -> Outcome {
    let fresh = || -> Result<_, Failed> {
        let setup = Setup::new(80, 45, 512, 2000)?;
        let mut options = StepOptions::default();
        options.precision = Precision::Bf16;
        let mut step = setup.step(&options)?;
        // Every replay is timed, as the GPU has passed the one before.
        let mut every = PhaseTimerOptions::default();
        every.stride = Some(1);
        step.set_phases(PhaseTimer::with_options(&setup.stream, every)?);
        Ok((setup, step))
    };
    let (mut eager, mut eager_step) = fresh()?;
    let (mut whole, mut whole_step) = fresh()?;
    let more = experiences(80, 45, 300);
    for round in 0..30 {
        let rows = if round < 20 { 512 } else { 300 };
        let batch = eager.agent.memory().sample(rows)?;
        eager_step.run_full_step(&eager.agent, &batch)?;
        if round == 10 {
            let batch = whole.agent.memory().sample(rows)?;
            whole_step.run_full_step(&whole.agent, &batch)?;
        } else {
            whole_step.run_whole_step(&whole.agent, rows)?;
        }
        whole.stream.synchronize()?;
        if round % 7 == 3 {
            eager.agent.memory_mut().push_batch(&more)?;
            whole.agent.memory_mut().push_batch(&more)?;
        }
    }
    check(whole_step.steps() == 30, || "thirty steps".into())?;
    check(
        whole_step.state_to_host()? == eager_step.state_to_host()?
            && whole_step.parameters()? == eager_step.parameters()?
            && whole_step.target_parameters()? == eager_step.target_parameters()?,
        || "one graph differs from step by step".into(),
    )?;
    let priorities = |setup: &Setup| setup.agent.memory().priorities_to_host();
    check(priorities(&whole)? == priorities(&eager)?, || {
        "priorities".into()
    })?;
    // Another buffer: captured anew, and the old graph is not replayed.
    let other = Setup::on(Arc::clone(&whole.stream), 80, 45, 512, 1000)?;
    for _ in 0..3 {
        whole_step.run_whole_step(&other.agent, 512)?;
        whole.stream.synchronize()?;
    }
    check(
        whole.agent.memory().stats()? == eager.agent.memory().stats()?,
        || "the first buffer is left alone".into(),
    )?;
    whole.stream.synchronize()?;
    let report = whole_step.phases().finish_epoch();
    // The eager step in between counts too, though nobody timed its draw.
    check(
        (report.batches, report.dropped, report.timed) == (33, 0, 33),
        || report.line(),
    )?;
    let (_context, elsewhere) = ml_cuda::open(0)?;
    let elsewhere = Setup::on(elsewhere, 80, 45, 512, 1000)?;
    check(
        whole_step.run_whole_step(&elsewhere.agent, 512).is_err(),
        || "another stream is refused".into(),
    )
}

fn two_runs() -> Outcome {
    let one = trained(Execution::Mega, Precision::Tf32)?;
    let other = trained(Execution::Mega, Precision::Tf32)?;
    check(one == other, || "another run gave other bits".into())
}

fn no_wait() -> Outcome {
    let setup = Setup::new(80, 45, 512, 2000)?;
    let mut step = setup.step(&StepOptions::default())?;
    let spin = Spin::new(&setup.stream)?;
    let batch = setup.agent.memory().sample_profiled(512, step.phases())?;
    step.run_full_step(&setup.agent, &batch)?;
    drop(batch);
    setup.stream.synchronize()?;
    spin.enqueue(200_000_000)?;
    let began = Instant::now();
    for _ in 0..10 {
        let batch = setup.agent.memory().sample_profiled(512, step.phases())?;
        step.run_full_step(&setup.agent, &batch)?;
    }
    let enqueued = began.elapsed();
    setup.stream.synchronize()?;
    let all = began.elapsed();
    check(all.as_millis() >= 90, || {
        format!("the spin lasted {all:?} only")
    })?;
    check(enqueued.as_millis() < 60, || {
        format!("ten steps took {enqueued:?} to enqueue behind a spin")
    })
}

fn nan() -> Outcome {
    let setup = Setup::new(11, 6, 64, 64)?;
    let mut spoiled = Setup::new(11, 6, 64, 64)?;
    let mut rows: Vec<Experience> = experiences(11, 6, 64);
    for row in &mut rows {
        row.reward = f32::NAN;
    }
    spoiled.agent.memory_mut().push_batch(&rows)?;
    let mut options = small_options();
    options.max_skipped_in_row = 3;
    let mut step = setup.step(&options)?;
    step.run_full_step(&setup.agent, &setup.sample()?)?;
    let before = (step.parameters()?, step.target_parameters()?);
    for _ in 0..2 {
        step.run_full_step(&spoiled.agent, &spoiled.sample()?)?;
        setup.stream.synchronize()?;
        spoiled.stream.synchronize()?;
    }
    check(
        before == (step.parameters()?, step.target_parameters()?),
        || "a parameter changed".into(),
    )?;
    let state = step.state_to_host()?;
    check(
        (state.attempts, state.applied, state.skipped_in_row) == (3, 1, 2),
        || format!("{state:?}"),
    )?;
    // The third in a row is told, here or in the next step, whichever sees the copy arrive.
    let mut outcome = Ok(Default::default());
    for _ in 0..2 {
        if outcome.is_ok() {
            outcome = step.run_full_step(&spoiled.agent, &spoiled.sample()?);
            setup.stream.synchronize()?;
        }
    }
    check(
        matches!(outcome, Err(TrainError::NotFinite { in_row: 3, step: 4 })),
        || format!("{outcome:?}"),
    )
}

fn refused() -> Outcome {
    let setup = Setup::new(11, 6, 64, 200)?;
    let mut step = setup.step(&small_options())?;
    let outcome = step.run_full_step(&setup.agent, &GpuBatchPtrs::default());
    check(
        matches!(outcome, Err(TrainError::Dqn(DqnError::EmptyBatch))),
        || format!("{outcome:?}"),
    )?;
    let large = setup.agent.memory().sample(65)?;
    let outcome = step.run_full_step(&setup.agent, &large);
    check(
        matches!(&outcome, Err(TrainError::Batch(what)) if what.contains("65") && what.contains("64")),
        || format!("{outcome:?}"),
    )?;
    let other = Setup::new(12, 6, 64, 200)?;
    let outcome = step.run_full_step(&other.agent, &other.sample()?);
    check(
        matches!(&outcome, Err(TrainError::Batch(what)) if what.contains("12") && what.contains("11")),
        || format!("{outcome:?}"),
    )?;
    drop(large);
    // None of them left a trace.
    step.run_full_step(&setup.agent, &setup.sample()?)?;
    let state = step.state_to_host()?;
    check(state.attempts == 1 && step.steps() == 1, || {
        format!("{state:?}")
    })
}

fn default_stream() -> Outcome {
    let (context, _stream) = ml_cuda::open(0)?;
    let setup = Setup::on(context.default_stream(), 11, 6, 64, 200)?;
    let stream = Arc::clone(&setup.stream);
    let outcome = FusedTrainingCtx::with_options(&setup.config, small_options(), stream);
    check(
        matches!(
            &outcome,
            Err(TrainError::Cuda(CudaError::DefaultStreamCapture))
        ),
        || format!("{:?}", outcome.map(|_| ())),
    )?;
    let mut options = small_options();
    options.execution = Execution::Eager;
    let mut step = setup.step(&options)?;
    step.run_full_step(&setup.agent, &setup.sample()?)?;
    let state = step.state_to_host()?;
    check(state.applied == 1, || format!("{state:?}"))
}

fn later_rate() -> Outcome {
    let setup = Setup::new(11, 6, 64, 200)?;
    let mut step = setup.step(&small_options())?;
    for rate in [1e-3, 5e-4, 0.0] {
        step.set_learning_rate(LearningRate::constant(rate))?;
        let before = step.parameters()?;
        step.run_full_step(&setup.agent, &setup.sample()?)?;
        let state = step.state_to_host()?;
        check(state.learning_rate == rate, || format!("{state:?}"))?;
        check((step.parameters()? == before) == (rate == 0.0), || {
            format!("at rate {rate}")
        })?;
    }
    let outcome = step.set_learning_rate(LearningRate::constant(f32::NAN));
    check(matches!(outcome, Err(TrainError::Config(_))), || {
        format!("{outcome:?}")
    })
}

fn tracked() -> Outcome {
    use cudarc::driver::CudaContext;
    ml_cuda::device_count()?;
    // cudarc's own defaults: tracking on, and several streams alive.
    let context = CudaContext::new(0)?;
    let (stream, _other) = (context.new_stream()?, context.new_stream()?);
    let setup = Setup::on(stream, 11, 6, 64, 200)?;
    let mut step = setup.step(&small_options())?;
    for _ in 0..5 {
        step.run_full_step(&setup.agent, &setup.sample()?)?;
    }
    check(context.is_event_tracking(), || {
        "the flag was changed".into()
    })?;
    setup.stream.synchronize()?;
    context.check_err()?;
    let state = step.state_to_host()?;
    check(state.applied == 5, || format!("{state:?}"))
}

/// The same numbers whether buffer and step share a stream or not.
fn other_stream() -> Outcome {
    let run = |shared: bool| -> Result<Vec<f32>, Failed> {
        let setup = Setup::new(80, 45, 512, 2000)?;
        let stream = if shared {
            Arc::clone(&setup.stream)
        } else {
            setup.stream.context().new_stream()?
        };
        let mut step = FusedTrainingCtx::new(&setup.config, stream)?;
        for _ in 0..20 {
            let batch = setup.agent.memory().sample_profiled(512, step.phases())?;
            step.run_full_step(&setup.agent, &batch)?;
        }
        step.stream().synchronize()?;
        setup.stream.synchronize()?;
        step.phases().finish_epoch();
        Ok(step.parameters()?)
    };
    check(run(true)? == run(false)?, || {
        "two streams gave other bits than one".into()
    })
}

fn too_large() -> Outcome {
    let setup = Setup::new(11, 6, 64, 200)?;
    let mut config = setup.config.clone();
    // 4096 wide layers of 2^18 rows, some of them twice, do not fit into 141 GB.
    config.batch_size = 1 << 18;
    let mut options = small_options();
    options.hidden = vec![4096; 24];
    let needed = FusedTrainingCtx::bytes_needed(&config, &options)?;
    let outcome = FusedTrainingCtx::with_options(&config, options, Arc::clone(&setup.stream));
    check(
        matches!(&outcome, Err(TrainError::Cuda(CudaError::NotEnoughMemory { needed: asked, .. })) if *asked == needed),
        || format!("{:?}", outcome.map(|_| ())),
    )
}

/// Ten steps, against five steps, a checkpoint of step and buffer, and five steps of new ones.
fn resume() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("step.safetensors");
    for precision in [Precision::Tf32, Precision::Bf16] {
        let mut options = small_options();
        options.precision = precision;
        options.learning_rate = LearningRate::linear(1e-3, 1e-5, 12).with_warmup(3);
        let run =
            |step: &mut FusedTrainingCtx, setup: &Setup, steps: usize| -> Result<(), Failed> {
                for _ in 0..steps {
                    step.run_full_step(&setup.agent, &setup.sample()?)?;
                }
                Ok(())
            };
        let setup = Setup::new(11, 6, 64, 200)?;
        let mut step = setup.step(&options)?;
        run(&mut step, &setup, 5)?;
        step.save(&path)?;
        let mut saved = Vec::new();
        setup.agent.memory().save(&mut saved)?;
        run(&mut step, &setup, 5)?;

        let mut resumed = Setup::new(11, 6, 64, 200)?;
        resumed.agent.memory_mut().restore(&mut &saved[..])?;
        let mut other = options.clone();
        other.seed = 77;
        // Its course is in the file.
        other.learning_rate = LearningRate::constant(0.5);
        let mut resumed_step = resumed.step(&other)?;
        resumed_step.restore(&path)?;
        run(&mut resumed_step, &resumed, 5)?;
        check(
            resumed_step.parameters()? == step.parameters()?
                && resumed_step.target_parameters()? == step.target_parameters()?,
            || format!("{precision:?}: other bits after a resume"),
        )?;
        let (one, other) = (step.state_to_host()?, resumed_step.state_to_host()?);
        check(one == other && resumed_step.steps() == 10, || {
            format!("{one:?} and {other:?}")
        })?;
        // A file that does not fit changes nothing.
        std::fs::write(&path, b"torn")?;
        let outcome = resumed_step.restore(&path);
        check(
            matches!(&outcome, Err(TrainError::Checkpoint { .. })),
            || format!("{outcome:?}"),
        )?;
        check(resumed_step.parameters()? == step.parameters()?, || {
            "a parameter changed".into()
        })?;
    }
    Ok(())
}

fn flat_memory() -> Outcome {
    let setup = Setup::new(80, 45, 512, 2000)?;
    let mut step = setup.step(&StepOptions::default())?;
    let mut run = |steps: usize| -> Result<usize, Failed> {
        for at in 0..steps {
            let batch = setup.agent.memory().sample_profiled(512, step.phases())?;
            step.run_full_step(&setup.agent, &batch)?;
            if at % 500 == 499 {
                setup.stream.synchronize()?;
                step.phases().finish_epoch();
            }
        }
        setup.stream.synchronize()?;
        Ok(setup.stream.context().mem_get_info()?.0)
    };
    let before = run(500)?;
    let after = run(5000)?;
    check(before.abs_diff(after) <= 1 << 20, || {
        format!("{before} bytes free, then {after}")
    })
}

fn trainer() -> Outcome {
    let (_context, stream) = ml_cuda::open(0)?;
    let config = DqnConfig {
        state_dim: 11,
        num_actions: 6,
        batch_size: 64,
        gamma: GAMMA,
    };
    let mut options = TrainerOptions::default();
    options.step = small_options();
    options.steps_per_epoch = 20;
    let memory = memory(&stream, 11, 6, 200)?;
    let mut trainer = DqnTrainer::with_options(config, options, memory, stream)?;
    let loss = trainer.train(2)?;
    check(loss > 0.0 && loss.is_finite(), || format!("{loss}"))?;
    check(trainer.fused().steps() == 40, || "40 steps".into())?;
    // The epochs were finished: nothing is left for the next.
    let left = trainer.fused().phases().finish_epoch();
    check(left.batches == 0, || "an epoch was left open".into())
}
