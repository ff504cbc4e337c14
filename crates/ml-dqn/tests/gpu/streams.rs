//! Other streams and threads: who waits for whom.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaSlice, CudaStream};
use ml_dqn::GpuReplayBuffer;

use crate::Test;
use crate::buffer::{buffer, numbered};

pub fn tests() -> Vec<Test> {
    vec![
        ("streams/td_errors_from_a_late_stream", late_td_errors),
        ("streams/a_late_reader_keeps_its_batch", late_reader),
        ("streams/device_steps_from_a_late_stream", late_steps),
        ("streams/nothing_waits_in_a_step", nothing_waits),
        ("streams/threads_share_the_buffer", threads),
    ]
}

/// Keeps a stream busy for tens of milliseconds by clearing gigabytes.
struct Delay {
    block: CudaSlice<u8>,
}

impl Delay {
    fn new(stream: &Arc<CudaStream>) -> Self {
        Self {
            block: stream.alloc_zeros(1 << 30).unwrap(),
        }
    }

    fn start(&mut self, stream: &Arc<CudaStream>) {
        for _ in 0..60 {
            stream.memset_zeros(&mut self.block).unwrap();
        }
    }
}

fn late_td_errors(stream: &Arc<CudaStream>) {
    let other = stream.context().new_stream().unwrap();
    let mut delay = Delay::new(&other);
    let mut one_hot = vec![0.0f32; 1000];
    one_hot[3] = 1.0;
    for _ in 0..3 {
        // All priorities equal, so that each slot is drawn once.
        let mut memory = buffer(stream, 1000, 1);
        memory.push_batch(&numbered(0..1000, 1)).unwrap();
        run(&memory, &other, &mut delay, &one_hot);
    }
}

/// The other stream is busy, then writes the TD errors; the draw right behind must see them.
fn run(memory: &GpuReplayBuffer, other: &Arc<CudaStream>, delay: &mut Delay, one_hot: &[f32]) {
    let batch = memory.sample(1000).unwrap();
    let mut td_errors = other.alloc_zeros::<f32>(1000).unwrap();
    other.synchronize().unwrap();
    delay.start(other);
    other.memcpy_htod(one_hot, &mut td_errors).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    // Freed on its own stream while the buffer has yet to read it.
    drop(td_errors);
    let after = memory.sample(500).unwrap();
    assert_eq!(after.indices_to_host().unwrap(), vec![3; 500]);
}

fn late_reader(stream: &Arc<CudaStream>) {
    let reader = stream.context().new_stream().unwrap();
    let mut delay = Delay::new(&reader);
    let mut memory = buffer(stream, 1000, 4);
    memory.push_batch(&numbered(0..1000, 4)).unwrap();
    let expected = {
        let mut twin = buffer(stream, 1000, 4);
        twin.push_batch(&numbered(0..1000, 4)).unwrap();
        twin.sample(100).unwrap().rewards_to_host().unwrap()
    };
    reader.synchronize().unwrap();
    let batch = memory.sample(100).unwrap();
    batch.wait_on(&reader).unwrap();
    delay.start(&reader);
    // The reader copies the rewards late; the batch is dropped at once, and its memory wanted again.
    let copy = reader.alloc_zeros::<f32>(100).unwrap();
    copy_late(&reader, batch.rewards(), &copy, 100);
    drop(batch);
    for _ in 0..10 {
        memory.sample(100).unwrap();
    }
    let copied = reader.clone_dtoh(&copy).unwrap();
    reader.synchronize().unwrap();
    assert_eq!(copied, expected);
}

fn copy_late(stream: &Arc<CudaStream>, from: u64, to: &CudaSlice<f32>, n: usize) {
    use cudarc::driver::{DevicePtr, result};
    let (to, _guard) = to.device_ptr(stream);
    // SAFETY: both addresses are of n f32 values; the batch's memory is kept by the buffer until this stream has read it, which is
    // what the test is about.
    unsafe { result::memcpy_dtod_async(to, from, 4 * n, stream.cu_stream()) }.unwrap();
}

fn late_steps(stream: &Arc<CudaStream>) {
    let other = stream.context().new_stream().unwrap();
    let mut delay = Delay::new(&other);
    let mut memory = buffer(stream, 100, 2);
    let mut states = other.alloc_zeros::<f32>(200).unwrap();
    let mut rewards = other.alloc_zeros::<f32>(100).unwrap();
    let actions = other.alloc_zeros::<u32>(100).unwrap();
    let flags = other.alloc_zeros::<u8>(100).unwrap();
    other.synchronize().unwrap();
    delay.start(&other);
    other.memcpy_htod(&vec![4.0f32; 200], &mut states).unwrap();
    other.memcpy_htod(&vec![5.0f32; 100], &mut rewards).unwrap();
    let steps = ml_dqn::DeviceSteps {
        states: &states,
        actions: &actions,
        rewards: &rewards,
        next_states: &states,
        terminated: &flags,
        truncated: &flags,
        env_id: &actions,
    };
    memory.push_steps(steps).unwrap();
    // Overwritten right away: the other stream must have waited for the copy.
    other.memset_zeros(&mut states).unwrap();
    drop(rewards);
    let batch = memory.sample(100).unwrap();
    assert_eq!(batch.states_to_host().unwrap(), vec![4.0; 200]);
    assert_eq!(batch.rewards_to_host().unwrap(), vec![5.0; 100]);
}

/// Ten steps are enqueued while the stream is still busy with what came before.
fn nothing_waits(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10_000, 4);
    memory.push_batch(&numbered(0..10_000, 4)).unwrap();
    let td_errors = stream.clone_htod(&vec![1.0f32; 512]).unwrap();
    let step = |memory: &GpuReplayBuffer| {
        let batch = memory.sample(512).unwrap();
        memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    };
    // Everything is allocated and loaded by the first.
    step(&memory);
    let mut delay = Delay::new(stream);
    stream.synchronize().unwrap();
    let begun = Instant::now();
    for _ in 0..4 {
        delay.start(stream);
    }
    for _ in 0..10 {
        step(&memory);
    }
    let enqueued = begun.elapsed();
    let event = stream.record_event(None).unwrap();
    assert!(
        !event.is_complete(),
        "the stream ended within {enqueued:?}: the delay was too short to tell"
    );
    stream.synchronize().unwrap();
    let finished = begun.elapsed();
    assert!(
        enqueued * 3 < finished,
        "enqueueing took {enqueued:?} of {finished:?}"
    );
}

fn threads(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10_000, 4);
    memory.push_batch(&numbered(0..10_000, 4)).unwrap();
    let td_errors = stream.clone_htod(&vec![1.0f32; 100]).unwrap();
    std::thread::scope(|scope| {
        // As many as batches may live.
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let batch = memory.sample(100).unwrap();
                    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
                    let (states, rewards) = (
                        batch.states_to_host().unwrap(),
                        batch.rewards_to_host().unwrap(),
                    );
                    let whole = states
                        .chunks(4)
                        .zip(&rewards)
                        .all(|(state, &reward)| state == [reward; 4]);
                    assert!(whole, "rows of two batches in one");
                }
            });
        }
    });
    let stats = memory.stats().unwrap();
    assert_eq!((stats.draws, stats.stale_rows), (150, 0));
    assert_eq!(stats.total_priority, 10_000.0);
}
