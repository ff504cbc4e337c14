//! The step's own phases: the verdicts that they lead to, and their sum against one outer pair.

use std::time::{Duration, Instant};

use cudarc::driver::sys::CUevent_flags;
use libtest_mimic::Failed;
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions};
use ml_cuda::{Phase, PhaseReport, PhaseTimer, PhaseTimerOptions, Precision, Verdict};

use crate::setup::{Setup, Spin};
use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("verdict_of_a_host_that_sleeps_is_a_stall", host_stall),
    ("verdict_of_a_slow_kernel_names_its_phase", slow_kernel),
    ("phases_of_a_step_sum_to_one_outer_pair", outer_pair),
    ("one_graph_is_no_slower_than_its_parts", whole_step),
];

/// Report over forty steps, after each of which something else happens.
fn epoch(
    after: impl Fn(&FusedTrainingCtx, &Setup, &Spin) -> Outcome,
) -> Result<PhaseReport, Failed> {
    let setup = Setup::new(80, 45, 512, 2000)?;
    let spin = Spin::new(&setup.stream)?;
    let mut step = setup.step(&StepOptions::default())?;
    // Every batch: a stride of two would meet the same one of two kinds each time.
    let mut every = PhaseTimerOptions::default();
    every.stride = Some(1);
    step.set_phases(PhaseTimer::with_options(&setup.stream, every)?);
    let mut run = |steps: usize| -> Result<PhaseReport, Failed> {
        for _ in 0..steps {
            let batch = setup.agent.memory().sample_profiled(512, step.phases())?;
            step.run_full_step(&setup.agent, &batch)?;
            after(&step, &setup, &spin)?;
        }
        setup.stream.synchronize()?;
        Ok(step.phases().finish_epoch())
    };
    // The first steps load kernels.
    run(10)?;
    run(40)
}

fn host_stall() -> Outcome {
    let report = epoch(|_, _, _| {
        std::thread::sleep(Duration::from_millis(3));
        Ok(())
    })?;
    let verdict = report.verdict();
    check(matches!(verdict, Verdict::Stall { .. }), || {
        format!("{verdict}, {}", report.line())
    })?;
    check(verdict.to_string().contains("stall"), || {
        verdict.to_string()
    })
}

fn slow_kernel() -> Outcome {
    for slow in [Phase::PerUpdate, Phase::FwdBwd] {
        let report = epoch(|step, setup, spin| {
            // A phase that comes again in the same batch adds up; an earlier one begins a batch of its own.
            step.phases().start(slow, &setup.stream);
            spin.enqueue(4_000_000)?;
            step.phases().end(slow, &setup.stream);
            Ok(())
        })?;
        let verdict = report.verdict();
        let found = matches!(verdict, Verdict::Dominated { phase, .. } if phase == slow);
        check(found, || format!("{verdict}, {}", report.line()))?;
        check(verdict.to_string().contains(slow.name()), || {
            verdict.to_string()
        })?;
    }
    Ok(())
}

/// Every batch timed: what the phases sum to, and the measured time between their records, is the whole step.
fn outer_pair() -> Outcome {
    const STEPS: u32 = 50;
    const ROWS: usize = 16_384;
    let setup = Setup::new(80, 45, ROWS, 100_000)?;
    let spin = Spin::new(&setup.stream)?;
    let mut step = setup.step(&StepOptions::default())?;
    let mut options = PhaseTimerOptions::default();
    options.stride = Some(1);
    options.sets = 2 * STEPS as usize;
    step.set_phases(PhaseTimer::with_options(&setup.stream, options)?);
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let mut whole = |full: bool| -> Result<(f64, PhaseReport), Failed> {
        // The host is ahead, so that its own time does not show.
        spin.enqueue(80_000_000)?;
        let begin = setup.stream.record_event(timed)?;
        for _ in 0..STEPS {
            if full {
                let batch = setup.agent.memory().sample_profiled(ROWS, step.phases())?;
                step.run_full_step(&setup.agent, &batch)?;
                continue;
            }
            for phase in Phase::ALL {
                step.phases().start(phase, &setup.stream);
                step.phases().end(phase, &setup.stream);
            }
        }
        let end = setup.stream.record_event(timed)?;
        setup.stream.synchronize()?;
        let outer = f64::from(begin.elapsed_ms(&end)?) / f64::from(STEPS);
        let report = step.phases().finish_epoch();
        check(report.timed == u64::from(STEPS), || report.line())?;
        Ok((outer, report))
    };
    whole(true)?;
    let (outer, report) = whole(true)?;
    // What records cost beside what they time, by a step of nothing else.
    let (empty_outer, empty) = whole(false)?;
    let between = empty_outer - empty.total.mean_ms;
    let sum = report.total.mean_ms + between;
    println!(
        "\nfigure: phases of a step, sum = {:.2} us | outer pair {:.2} us, of it {:.2} us between records, {ROWS} rows, tf32",
        1e3 * sum,
        1e3 * outer,
        1e3 * between
    );
    check((sum - outer).abs() <= 0.05 * outer, || {
        format!(
            "the phases sum to {sum:.5} ms ({between:.5} between records), the step lasts {outer:.5}: {}",
            report.line()
        )
    })
}

/// The same steps one by one and as one graph, by one pair of events around many, with the host ahead.
fn whole_step() -> Outcome {
    const STEPS: usize = 200;
    const ROWS: usize = 16_384;
    let setup = Setup::new(80, 45, ROWS, 1_000_000)?;
    let mut options = StepOptions::default();
    options.precision = Precision::Bf16;
    let mut step = setup.step(&options)?;
    let spin = Spin::new(&setup.stream)?;
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let mut run = |whole: bool| -> Result<(f64, f64), Failed> {
        // The first captures; the others warm up.
        for _ in 0..20 {
            step.run_whole_step(&setup.agent, ROWS)?;
        }
        setup.stream.synchronize()?;
        spin.enqueue(80_000_000)?;
        let begin = setup.stream.record_event(timed)?;
        let began = Instant::now();
        for _ in 0..STEPS {
            if whole {
                step.run_whole_step(&setup.agent, ROWS)?;
            } else {
                let batch = setup.agent.memory().sample_profiled(ROWS, step.phases())?;
                step.run_full_step(&setup.agent, &batch)?;
            }
        }
        let host = began.elapsed().as_secs_f64() * 1e6 / STEPS as f64;
        let end = setup.stream.record_event(timed)?;
        setup.stream.synchronize()?;
        Ok((
            1e3 * f64::from(begin.elapsed_ms(&end)?) / STEPS as f64,
            host,
        ))
    };
    let (parts, parts_host) = run(false)?;
    let (whole, whole_host) = run(true)?;
    println!(
        "\nfigure: a step in one graph = {whole:.1} us | {ROWS} rows, bf16, 1M transitions; {whole_host:.1} us of host; one by one {parts:.1} us, {parts_host:.1} of host"
    );
    check(whole <= 1.05 * parts, || {
        format!("one graph takes {whole:.1} us, its parts {parts:.1}")
    })
}
