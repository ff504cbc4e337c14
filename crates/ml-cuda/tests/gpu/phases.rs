//! The timer against spins of known length.

use std::time::{Duration, Instant};

use cudarc::driver::sys::CUevent_flags;
use ml_cuda::phases::PhaseTimerOptions;
use ml_cuda::{Phase, PhaseTimer, Verdict, capture};

use crate::{Gpu, Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("phases_last_as_long_as_their_kernels", durations),
    ("nothing_waits_for_the_gpu", no_wait),
    ("a_slow_kernel_dominates", slow_kernel),
    ("a_sleeping_host_is_a_stall", sleeping_host),
    (
        "a_short_step_is_timed_now_and_then_at_under_one_percent",
        cost,
    ),
    ("an_early_return_is_dropped_not_mistimed", early_return),
    ("a_scope_ends_its_phase", scope),
    ("phases_sum_to_one_outer_pair", outer_pair),
    ("a_capture_is_left_alone", in_capture),
    ("phases_inside_of_a_graph_are_timed", in_graph),
    ("a_full_ring_counts_what_it_leaves_out", full_ring),
    ("two_streams_are_timed_each_on_its_own", two_streams),
];

fn near(what: &str, got: f64, expected: f64, share: f64) -> Outcome {
    check((got - expected).abs() <= share * expected, || {
        format!("{what}: {got:.4} ms and not {expected:.4}")
    })
}

/// How long a spin of `milliseconds` lasts on this device, by one outer pair.
fn spin_ms(gpu: &Gpu, milliseconds: f64) -> Result<f64, libtest_mimic::Failed> {
    let spin = gpu.kernel("spin")?;
    // The clock rises under load.
    gpu.spin(&spin, 20.0)?;
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let begin = gpu.stream.record_event(timed)?;
    for _ in 0..20 {
        gpu.spin(&spin, milliseconds)?;
    }
    let end = gpu.stream.record_event(timed)?;
    Ok(f64::from(begin.elapsed_ms(&end)?) / 20.0)
}

fn durations(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let one = spin_ms(gpu, 1.0)?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    for _ in 0..20 {
        for (phase, times) in [(Phase::PerScan, 1), (Phase::FwdBwd, 3), (Phase::Adam, 2)] {
            timer.start(phase, &gpu.stream);
            for _ in 0..times {
                gpu.spin(&spin, 1.0)?;
            }
            timer.end(phase, &gpu.stream);
        }
    }
    gpu.stream.synchronize()?;
    let report = timer.finish_epoch();
    check(report.batches == 20 && report.timed == 20, || report.line())?;
    check(report.error.is_none() && report.dropped == 0, || {
        format!("{report:?}")
    })?;
    near("scan", report.phase(Phase::PerScan).median_ms, one, 0.05)?;
    near(
        "fwd_bwd",
        report.phase(Phase::FwdBwd).median_ms,
        3.0 * one,
        0.05,
    )?;
    near("adam", report.phase(Phase::Adam).median_ms, 2.0 * one, 0.05)?;
    near("upload", report.phase(Phase::Upload).max_ms, 0.0, 0.0)?;
    let first = report.timeline[0].spans[1].start_ms;
    near("second bracket of the timeline", first, one, 0.2)?;
    // The next epoch begins with nothing.
    let empty = timer.finish_epoch();
    check(empty.batches == 0 && empty.timeline.is_empty(), || {
        format!("{empty:?}")
    })
}

fn no_wait(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    gpu.stream.synchronize()?;
    gpu.spin(&spin, 200.0)?;
    let began = Instant::now();
    for _ in 0..30 {
        for phase in Phase::ALL {
            timer.start(phase, &gpu.stream);
            timer.end(phase, &gpu.stream);
        }
    }
    let report = timer.finish_epoch();
    let waited = began.elapsed();
    check(waited < Duration::from_millis(100), || {
        format!("{waited:?} behind a spin of 200 ms")
    })?;
    // Not passed by the GPU: told, not waited for.
    check(
        report.batches == 30 && report.timed == 0 && report.not_timed == 30,
        || format!("{report:?}"),
    )?;
    gpu.stream.synchronize()?;
    Ok(())
}

fn epoch(
    gpu: &Gpu,
    pause: Option<Duration>,
) -> Result<ml_cuda::PhaseReport, libtest_mimic::Failed> {
    let spin = gpu.kernel("spin")?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    for _ in 0..20 {
        timer.start(Phase::PerSample, &gpu.stream);
        gpu.spin(&spin, 0.2)?;
        timer.end(Phase::PerSample, &gpu.stream);
        timer.start(Phase::FwdBwd, &gpu.stream);
        gpu.spin(&spin, 2.0)?;
        timer.end(Phase::FwdBwd, &gpu.stream);
        if let Some(pause) = pause {
            std::thread::sleep(pause);
        }
    }
    gpu.stream.synchronize()?;
    Ok(timer.finish_epoch())
}

fn slow_kernel(gpu: &Gpu) -> Outcome {
    let report = epoch(gpu, None)?;
    let verdict = report.verdict();
    let found = matches!(
        verdict,
        Verdict::Dominated {
            phase: Phase::FwdBwd,
            ..
        }
    );
    check(found, || format!("{verdict}, {}", report.line()))
}

fn sleeping_host(gpu: &Gpu) -> Outcome {
    let report = epoch(gpu, Some(Duration::from_millis(20)))?;
    let verdict = report.verdict();
    check(matches!(verdict, Verdict::Stall { .. }), || {
        format!("{verdict}, {}", report.line())
    })
}

/// 250 µs of GPU work a batch, with the timer and without, in one run.
fn cost(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let batches = 1000;
    let run = |on: bool| -> Result<f64, libtest_mimic::Failed> {
        // Queued behind a spin, so that the host's own time does not show.
        gpu.spin(&spin, 30.0)?;
        let begin = gpu.stream.record_event(timed)?;
        for _ in 0..batches {
            for phase in Phase::ALL {
                if on {
                    timer.start(phase, &gpu.stream);
                }
                gpu.spin(&spin, 0.25 / 6.0)?;
                if on {
                    timer.end(phase, &gpu.stream);
                }
            }
        }
        let end = gpu.stream.record_event(timed)?;
        Ok(f64::from(begin.elapsed_ms(&end)?) / f64::from(batches))
    };
    run(true)?;
    timer.finish_epoch();
    // Alternating, for the clock moves; the least of each is the one that nothing disturbed.
    let (mut off, mut on) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        off = off.min(run(false)?);
        on = on.min(run(true)?);
    }
    let report = timer.finish_epoch();
    let share = on / off - 1.0;
    println!(
        "phase timer: {on:.5} ms a batch with it, {off:.5} without: {:.2} %, stride {}",
        100.0 * share,
        report.stride
    );
    check(share < 0.01, || {
        format!("the timer costs {:.2} %: {}", 100.0 * share, report.line())
    })?;
    check(report.stride > 1 && report.timed > 100, || report.line())?;
    check(report.timed + report.not_timed < report.batches, || {
        report.line()
    })
}

fn early_return(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let one = spin_ms(gpu, 1.0)?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    // A step that fails after its phase began, 5 ms of something else, and a step that does not fail.
    timer.start(Phase::FwdBwd, &gpu.stream);
    gpu.spin(&spin, 5.0)?;
    timer.start(Phase::FwdBwd, &gpu.stream);
    gpu.spin(&spin, 1.0)?;
    timer.end(Phase::FwdBwd, &gpu.stream);
    timer.end(Phase::Adam, &gpu.stream);
    gpu.stream.synchronize()?;
    let report = timer.finish_epoch();
    check(report.dropped == 2, || {
        format!("{} dropped", report.dropped)
    })?;
    near("fwd_bwd", report.phase(Phase::FwdBwd).max_ms, one, 0.1)
}

fn scope(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let one = spin_ms(gpu, 1.0)?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    {
        let _phase = timer.scope(Phase::Upload, &gpu.stream);
        gpu.spin(&spin, 1.0)?;
    }
    gpu.spin(&spin, 3.0)?;
    gpu.stream.synchronize()?;
    near(
        "upload",
        timer.finish_epoch().phase(Phase::Upload).max_ms,
        one,
        0.1,
    )
}

fn outer_pair(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let mut options = PhaseTimerOptions::default();
    options.stride = Some(1);
    let timer = PhaseTimer::with_options(&gpu.stream, options)?;
    let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let batches = 50u32;
    gpu.spin(&spin, 30.0)?;
    let begin = gpu.stream.record_event(timed)?;
    for _ in 0..batches {
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            timer.start(phase, &gpu.stream);
            gpu.spin(&spin, 0.1 * (at + 1) as f64)?;
            timer.end(phase, &gpu.stream);
        }
    }
    let end = gpu.stream.record_event(timed)?;
    let outer = f64::from(begin.elapsed_ms(&end)?) / f64::from(batches);
    let report = timer.finish_epoch();
    check(report.timed == 50, || report.line())?;
    near("sum of the phases", report.total.mean_ms, outer, 0.05)
}

fn in_capture(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    let mut graph = capture::<ml_cuda::CudaError>(&gpu.stream, || {
        timer.start(Phase::FwdBwd, &gpu.stream);
        gpu.spin(&spin, 0.1)
            .map_err(|_| ml_cuda::CudaError::CaptureInvalidated)?;
        timer.end(Phase::FwdBwd, &gpu.stream);
        Ok(())
    })?;
    check(graph.node_count()? == 1, || {
        "nothing but the kernel is in the graph".into()
    })?;
    timer.start(Phase::FwdBwd, &gpu.stream);
    graph.launch()?;
    timer.end(Phase::FwdBwd, &gpu.stream);
    gpu.stream.synchronize()?;
    let report = timer.finish_epoch();
    check(report.batches == 1 && report.error.is_none(), || {
        format!("{report:?}")
    })?;
    check(report.phase(Phase::FwdBwd).max_ms > 0.05, || report.line())
}

fn in_graph(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let one = spin_ms(gpu, 1.0)?;
    let timer = PhaseTimer::new(&gpu.stream)?;
    let mut phases = timer.graph_phases(&gpu.stream)?;
    let spin_for = |milliseconds| {
        gpu.spin(&spin, milliseconds)
            .map_err(|_| ml_cuda::CudaError::CaptureInvalidated)
    };
    let mut plain = capture::<ml_cuda::CudaError>(&gpu.stream, || {
        spin_for(1.0)?;
        spin_for(2.0)
    })?;
    let mut timed = capture::<ml_cuda::CudaError>(&gpu.stream, || {
        phases.start(Phase::FwdBwd, &gpu.stream);
        spin_for(1.0)?;
        phases.end(Phase::FwdBwd, &gpu.stream);
        phases.start(Phase::Adam, &gpu.stream);
        spin_for(2.0)?;
        phases.end(Phase::Adam, &gpu.stream);
        Ok(())
    })?;
    check(plain.node_count()? == 2 && timed.node_count()? == 6, || {
        "event nodes".into()
    })?;
    let began = Instant::now();
    for _ in 0..20 {
        phases.launch(&mut timed, &mut plain)?;
    }
    let enqueued = began.elapsed();
    check(enqueued < Duration::from_millis(30), || {
        format!("it waited: {enqueued:?}")
    })?;
    gpu.stream.synchronize()?;
    let report = timer.finish_epoch();
    // The host is ahead: one replay with brackets is under way, and the others go without.
    check(report.batches == 20 && report.error.is_none(), || {
        format!("{report:?}")
    })?;
    check(
        report.timed >= 1 && report.timed + report.not_timed == 20,
        || report.line(),
    )?;
    near("fwd_bwd", report.phase(Phase::FwdBwd).max_ms, one, 0.05)?;
    near("adam", report.phase(Phase::Adam).max_ms, 2.0 * one, 0.05)?;
    // A host that keeps step has every replay timed.
    for _ in 0..5 {
        phases.launch(&mut timed, &mut plain)?;
        gpu.stream.synchronize()?;
    }
    let report = timer.finish_epoch();
    check(report.batches == 5 && report.timed == 5, || {
        format!("{report:?}")
    })?;
    near("fwd_bwd", report.phase(Phase::FwdBwd).median_ms, one, 0.05)
}

fn full_ring(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let mut options = PhaseTimerOptions::default();
    options.sets = 4;
    options.spare_pairs = 0;
    options.stride = Some(1);
    let timer = PhaseTimer::with_options(&gpu.stream, options)?;
    gpu.stream.synchronize()?;
    gpu.spin(&spin, 50.0)?;
    for _ in 0..10 {
        for phase in [Phase::PerScan, Phase::PerUpdate] {
            timer.start(phase, &gpu.stream);
            timer.end(phase, &gpu.stream);
        }
    }
    gpu.stream.synchronize()?;
    let report = timer.finish_epoch();
    check(
        (report.batches, report.timed, report.not_timed) == (10, 4, 6),
        || format!("{report:?}"),
    )
}

fn two_streams(gpu: &Gpu) -> Outcome {
    let spin = gpu.kernel("spin")?;
    let one = spin_ms(gpu, 2.0)?;
    let other = Gpu {
        context: gpu.context.clone(),
        stream: gpu.context.new_stream()?,
    };
    let timer = PhaseTimer::new(&gpu.stream)?;
    timer.start(Phase::FwdBwd, &gpu.stream);
    gpu.spin(&spin, 2.0)?;
    timer.end(Phase::FwdBwd, &gpu.stream);
    timer.start(Phase::PerUpdate, &other.stream);
    other.spin(&spin, 4.0)?;
    timer.end(Phase::PerUpdate, &other.stream);
    gpu.stream.synchronize()?;
    other.stream.synchronize()?;
    let report = timer.finish_epoch();
    near("fwd_bwd", report.phase(Phase::FwdBwd).max_ms, one, 0.1)?;
    near(
        "per_update",
        report.phase(Phase::PerUpdate).max_ms,
        2.0 * one,
        0.1,
    )
}
