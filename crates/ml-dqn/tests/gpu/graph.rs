//! The buffer inside captured graphs: everything that changes between replays is read on the device.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use ml_dqn::{DqnError, GpuBatchPtrs, GpuReplayBuffer, PhaseTimer};

use crate::Test;
use crate::buffer::{buffer, numbered, set_priorities};
use crate::cases::Random;

pub fn tests() -> Vec<Test> {
    vec![
        ("graph/replays_equal_eager_steps", replays_equal_eager),
        ("graph/beta_is_live", beta_is_live),
        ("graph/pushes_between_replays", pushes_between),
        ("graph/an_update_alone", update_alone),
        ("graph/a_restored_buffer", restored),
        ("graph/what_a_capture_does_not_bear", not_in_a_capture),
        ("graph/profiled", profiled),
    ]
}

/// Draws a batch and gives it new priorities, as a training step does.
fn step(
    memory: &GpuReplayBuffer,
    td_errors: &CudaSlice<f32>,
    n: usize,
) -> Result<GpuBatchPtrs, DqnError> {
    let batch = memory.sample(n)?;
    memory.update_priorities_gpu(&batch, td_errors)?;
    Ok(batch)
}

/// A graph of one step, and the batch that each replay fills.
fn capture(
    memory: &GpuReplayBuffer,
    td_errors: &CudaSlice<f32>,
    n: usize,
) -> (ml_cuda::CapturedGraph, GpuBatchPtrs) {
    let mut batch = GpuBatchPtrs::default();
    let graph = ml_cuda::capture(memory.stream(), || {
        batch = step(memory, td_errors, n)?;
        Ok::<(), DqnError>(())
    })
    .unwrap();
    (graph, batch)
}

fn filled(stream: &Arc<CudaStream>, rows: usize) -> GpuReplayBuffer {
    let mut memory = buffer(stream, rows, 3);
    memory.push_batch(&numbered(0..rows, 3)).unwrap();
    memory
}

fn replays_equal_eager(stream: &Arc<CudaStream>) {
    let (rows, n) = (30_000, 500);
    let td_errors = stream.clone_htod(&Random(7).units(n)).unwrap();
    let eager = filled(stream, rows);
    let graphed = filled(stream, rows);
    // Both draw one batch first: the capture needs one.
    for memory in [&eager, &graphed] {
        step(memory, &td_errors, n).unwrap();
    }
    let (mut graph, batch) = capture(&graphed, &td_errors, n);
    for round in 0..20 {
        let expected = step(&eager, &td_errors, n).unwrap();
        graph.launch().unwrap();
        assert_eq!(
            batch.indices_to_host().unwrap(),
            expected.indices_to_host().unwrap(),
            "round {round}"
        );
        assert_eq!(
            batch.weights_to_host().unwrap(),
            expected.weights_to_host().unwrap()
        );
        assert_eq!(
            batch.states_to_host().unwrap(),
            expected.states_to_host().unwrap()
        );
    }
    assert_eq!(
        graphed.priorities_to_host().unwrap(),
        eager.priorities_to_host().unwrap()
    );
    // Eager steps after the replays, and replays after those.
    let expected = step(&eager, &td_errors, n)
        .unwrap()
        .indices_to_host()
        .unwrap();
    assert_eq!(
        step(&graphed, &td_errors, n)
            .unwrap()
            .indices_to_host()
            .unwrap(),
        expected
    );
    let expected = step(&eager, &td_errors, n)
        .unwrap()
        .indices_to_host()
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(batch.indices_to_host().unwrap(), expected);
    let kept = graphed.sums_to_host().unwrap();
    graphed.rebuild_sums().unwrap();
    assert_eq!(graphed.sums_to_host().unwrap(), kept, "to the bit");
}

fn beta_is_live(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10, 1);
    memory.push_batch(&numbered(0..2, 1)).unwrap();
    set_priorities(&memory, &[1.0, 4.0]);
    drop(memory.sample(10).unwrap());
    let mut batch = GpuBatchPtrs::default();
    let mut graph = ml_cuda::capture(stream, || {
        batch = memory.sample(10)?;
        Ok::<(), DqnError>(())
    })
    .unwrap();
    for (beta, expected) in [(0.4, 0.574_349), (1.0, 0.25), (0.0, 1.0)] {
        memory.set_beta(beta);
        graph.launch().unwrap();
        let weight = batch.weights_to_host().unwrap()[9];
        assert!((weight - expected).abs() < 1e-5, "beta {beta}: {weight}");
    }
}

fn pushes_between(stream: &Arc<CudaStream>) {
    let n = 64;
    let td_errors = stream.clone_htod(&vec![1.0f32; n]).unwrap();
    let mut memory = buffer(stream, 1000, 3);
    memory.push_batch(&numbered(0..100, 3)).unwrap();
    step(&memory, &td_errors, n).unwrap();
    let (mut graph, batch) = capture(&memory, &td_errors, n);
    for round in 1..30 {
        memory
            .push_batch(&numbered(round * 100..round * 100 + 100, 3))
            .unwrap();
        graph.launch().unwrap();
        let newest = (round * 100 + 99) as f32;
        let rewards = batch.rewards_to_host().unwrap();
        assert!(
            rewards.iter().all(|&r| r <= newest && r > newest - 1000.0),
            "round {round}"
        );
        // The last of 64 equal shares of at most 1000 slots lies in the last 16 slots of the ring, new or not.
        assert!(
            rewards.iter().any(|&r| r > newest - 100.0),
            "round {round}: new rows are drawn"
        );
    }
    assert_eq!(memory.stats().unwrap().stale_rows, 0);
}

/// Without a scan between them, a second replay still replaces the priorities of the first.
fn update_alone(stream: &Arc<CudaStream>) {
    let n = 1000;
    let memory = filled(stream, n);
    let batch = memory.sample(n).unwrap();
    let mut td_errors = stream.clone_htod(&vec![5.0f32; n]).unwrap();
    let mut graph =
        ml_cuda::capture(stream, || memory.update_priorities_gpu(&batch, &td_errors)).unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    assert_eq!(memory.priorities_to_host().unwrap(), vec![5.0; n]);
    for value in [2.0f32, 3.0, 1.0] {
        stream.memcpy_htod(&vec![value; n], &mut td_errors).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(memory.priorities_to_host().unwrap(), vec![1.0; n]);
    assert_eq!(memory.stats().unwrap().total_priority, n as f64);
}

fn restored(stream: &Arc<CudaStream>) {
    let n = 32;
    let td_errors = stream.clone_htod(&vec![1.0f32; n]).unwrap();
    // Slot 5 alone has mass.
    let mut source = buffer(stream, 10, 3);
    source.push_batch(&numbered(0..10, 3)).unwrap();
    let mut one_hot = [0.0; 10];
    one_hot[5] = 2.0;
    set_priorities(&source, &one_hot);
    let mut file = Vec::new();
    source.save(&mut file).unwrap();
    let mut memory = buffer(stream, 10, 3);
    memory.push_batch(&numbered(0..10, 3)).unwrap();
    step(&memory, &td_errors, n).unwrap();
    let (mut graph, batch) = capture(&memory, &td_errors, n);
    graph.launch().unwrap();
    memory.restore(&mut file.as_slice()).unwrap();
    graph.launch().unwrap();
    assert_eq!(batch.indices_to_host().unwrap(), vec![5; n]);
}

fn not_in_a_capture(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10, 3);
    memory.push_batch(&numbered(0..10, 3)).unwrap();
    let refused = |result: Result<ml_cuda::CapturedGraph, DqnError>| match result {
        Err(DqnError::Capturing { call }) => call,
        other => panic!("{other:?}"),
    };
    let first = ml_cuda::capture(stream, || memory.sample(5).map(|_| ()));
    assert!(refused(first).starts_with("sample"));
    drop(memory.sample(5).unwrap());
    assert_eq!(
        refused(ml_cuda::capture(stream, || memory.stats().map(|_| ()))),
        "stats"
    );
    assert_eq!(
        refused(ml_cuda::capture(stream, || memory.save(&mut Vec::new()))),
        "save"
    );
    let pushed = ml_cuda::capture(stream, || memory.push_batch(&numbered(0..1, 3)));
    assert_eq!(refused(pushed), "push");
    // The stream is as before.
    assert_eq!(
        memory.sample(5).unwrap().indices_to_host().unwrap().len(),
        5
    );
    assert_eq!(memory.len(), 10);
}

fn profiled(stream: &Arc<CudaStream>) {
    let memory = filled(stream, 10_000);
    let phases = PhaseTimer::new(stream).unwrap();
    let plain = memory.sample(100).unwrap().len();
    for _ in 0..5 {
        assert_eq!(memory.sample_profiled(100, &phases).unwrap().len(), plain);
    }
    stream.synchronize().unwrap();
    let report = phases.finish_epoch();
    assert_eq!(report.dropped, 0, "{report:?}");
    assert!(report.batches >= 5, "{report:?}");
    // Timing changes nothing that is drawn.
    let (timed, untimed) = (filled(stream, 500), filled(stream, 500));
    let timed = timed.sample_profiled(64, &phases).unwrap();
    let untimed = untimed.sample(64).unwrap();
    assert_eq!(
        timed.indices_to_host().unwrap(),
        untimed.indices_to_host().unwrap()
    );
}
