//! Capture: what comes out, and what is left after something went wrong.

use ml_cuda::{CudaError, DeviceMemory, Readback, capture, graph::is_capturing};

use crate::{Gpu, Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("a_graph_replays_what_was_captured", replays),
    (
        "an_error_in_the_capture_leaves_the_stream_free",
        error_inside,
    ),
    (
        "a_panic_in_the_capture_leaves_the_stream_free",
        panic_inside,
    ),
    (
        "a_forbidden_call_is_named_and_leaves_the_stream_free",
        forbidden_inside,
    ),
    ("the_default_stream_is_refused", default_stream),
    ("a_parked_error_comes_out_before_the_capture", parked_error),
    ("readback_gives_the_newest_without_waiting", readback),
    ("memory_is_checked_before_it_is_asked_for", memory_check),
];

fn replays(gpu: &Gpu) -> Outcome {
    let add = gpu.kernel("add_one")?;
    let counter = DeviceMemory::from_host(&gpu.stream, &[0i32])?;
    let mut graph = capture(&gpu.stream, || {
        for _ in 0..3 {
            gpu.launch(&add, counter.address() as i64).map_err(lost)?;
        }
        Ok::<_, CudaError>(())
    })?;
    check(counter.to_vec()? == [0], || "the capture itself ran".into())?;
    check(graph.node_count()? == 3, || "three nodes".into())?;
    for _ in 0..5 {
        graph.launch()?;
    }
    let counted = counter.to_vec()?;
    check(counted == [15], || format!("{counted:?}"))
}

/// Works eagerly, and captures again.
fn still_works(gpu: &Gpu) -> Outcome {
    check(!is_capturing(&gpu.stream)?, || {
        "the stream still captures".into()
    })?;
    gpu.context.check_err()?;
    replays(gpu)
}

fn error_inside(gpu: &Gpu) -> Outcome {
    let add = gpu.kernel("add_one")?;
    let counter = DeviceMemory::from_host(&gpu.stream, &[0i32])?;
    let outcome = capture(&gpu.stream, || {
        gpu.launch(&add, counter.address() as i64).map_err(lost)?;
        Err(CudaError::Length { asked: 2, held: 1 })
    });
    check(matches!(outcome, Err(CudaError::Length { .. })), || {
        format!("{outcome:?}")
    })?;
    check(counter.to_vec()? == [0], || "nothing ran".into())?;
    still_works(gpu)
}

fn panic_inside(gpu: &Gpu) -> Outcome {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = capture::<CudaError>(&gpu.stream, || std::panic::panic_any("in the capture"));
    }));
    check(outcome.is_err(), || "the panic goes on".into())?;
    still_works(gpu)
}

fn forbidden_inside(gpu: &Gpu) -> Outcome {
    // The closure ignores the refusal of the driver, as sloppy code would.
    let outcome = capture::<CudaError>(&gpu.stream, || {
        let _ = gpu.stream.synchronize();
        Ok(())
    });
    check(
        matches!(outcome, Err(CudaError::CaptureInvalidated)),
        || format!("{outcome:?}"),
    )?;
    still_works(gpu)
}

fn default_stream(gpu: &Gpu) -> Outcome {
    let outcome = capture::<CudaError>(&gpu.context.default_stream(), || Ok(()));
    check(
        matches!(outcome, Err(CudaError::DefaultStreamCapture)),
        || format!("{outcome:?}"),
    )?;
    still_works(gpu)
}

fn parked_error(gpu: &Gpu) -> Outcome {
    use cudarc::driver::{DriverError, sys::CUresult};
    let parked = DriverError(CUresult::CUDA_ERROR_INVALID_VALUE);
    gpu.context.record_err(Err::<(), _>(parked));
    let mut ran = false;
    let outcome = capture::<CudaError>(&gpu.stream, || {
        ran = true;
        Ok(())
    });
    check(outcome.is_err() && !ran, || format!("{outcome:?}"))?;
    // One parked while the capture runs must not keep it open.
    let outcome = capture::<CudaError>(&gpu.stream, || {
        gpu.context.record_err(Err::<(), _>(parked));
        Ok(())
    });
    check(outcome.is_ok(), || format!("{outcome:?}"))?;
    let taken = gpu.context.check_err();
    check(taken.is_err(), || {
        "the parked error is still there to be told".into()
    })?;
    still_works(gpu)
}

fn readback(gpu: &Gpu) -> Outcome {
    let (spin, add) = (gpu.kernel("spin")?, gpu.kernel("add_one")?);
    let counter = DeviceMemory::from_host(&gpu.stream, &[0i32])?;
    let mut readback = Readback::new(&gpu.context, 2)?;
    check(readback.newest()?.is_none(), || "nothing was posted".into())?;
    gpu.stream.synchronize()?;
    gpu.spin(&spin, 50.0)?;
    let began = std::time::Instant::now();
    let mut posted = Vec::new();
    for _ in 0..4 {
        gpu.launch(&add, counter.address() as i64)?;
        posted.push(readback.post(&counter, &gpu.stream)?);
    }
    // Two slots: the other two copies are left out while the first are on their way.
    check(posted == [Some(1), Some(2), None, None], || {
        format!("{posted:?}")
    })?;
    check(readback.newest()?.is_none(), || {
        "nothing has arrived".into()
    })?;
    let waited = began.elapsed().as_millis();
    check(waited < 25, || {
        format!("it waited {waited} ms behind a spin of 50")
    })?;
    gpu.stream.synchronize()?;
    let newest = readback.newest()?;
    check(newest == Some((2, 2)), || format!("{newest:?}"))?;
    readback.post(&counter, &gpu.stream)?;
    gpu.stream.synchronize()?;
    let newest = readback.newest()?;
    check(newest == Some((5, 4)), || format!("{newest:?}"))
}

fn memory_check(gpu: &Gpu) -> Outcome {
    ml_cuda::context::check_memory(&gpu.context, "a little", 1 << 20)?;
    let outcome = ml_cuda::context::check_memory(&gpu.context, "too much", 1 << 50);
    let Err(CudaError::NotEnoughMemory { needed, free, .. }) = outcome else {
        return Err(format!("{outcome:?}").into());
    };
    check(needed == 1 << 50 && free > 0, || {
        format!("{needed} and {free}")
    })
}

/// An error of a launch inside of a capture, whose kind does not matter.
fn lost(_: libtest_mimic::Failed) -> CudaError {
    CudaError::CaptureInvalidated
}
