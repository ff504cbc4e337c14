//! Draws from each kind of buffer.
use std::time::Instant;

use ml_dqn::{GpuReplayBufferConfig, GpuReplayBuffer};

const BENCHES: &[(&str, fn())] = &[
    ("gpu", gpu), // the one that counts
];

fn gpu() {
    let stream = cudarc::driver::CudaContext::new(0).unwrap().default_stream();
    let mut memory = GpuReplayBuffer::new(GpuReplayBufferConfig::default(), stream.clone()).unwrap();
    test_tree::fill(&mut memory, 1 << 10).unwrap();
    for _ in 0..100 {
        memory.sample(64).unwrap();
    }
    stream.synchronize().unwrap();
}

fn main() {
    for (name, bench) in BENCHES {
        let began = Instant::now();
        bench();
        println!("{name}: {:?}", began.elapsed());
    }
}
