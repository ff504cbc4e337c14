//! Draws of a batch, for each kind. `cargo bench -p foxhunt-strategy --bench draws`

use std::hint::black_box;
use std::time::Instant;

use cudarc::driver::CudaContext;
use ml_dqn::{Experience, GpuReplayBufferConfig, ReplayBufferConfig, ReplayBufferType};

const CAPACITY: usize = 1 << 12;

const BENCHES: &[(&str, fn())] = &[
    ("uniform", uniform),
    ("device", device), // the one that counts
];

fn fill(memory: &mut ReplayBufferType) {
    for at in 0..CAPACITY {
        let state = vec![at as f32; 5];
        let experience = Experience { next_state: state.clone(), state, action: 0, reward: 0.0, done: false };
        memory.push(&experience).expect("a state has five values");
    }
}

fn time(name: &str, memory: &ReplayBufferType) {
    let start = Instant::now();
    for _ in 0..100 {
        black_box(memory.sample(512)).expect("the memory is full");
    }
    println!("{name:>8}: {:?} for 512 rows", start.elapsed() / 100);
}

fn uniform() {
    let mut memory =
        ReplayBufferType::uniform(ReplayBufferConfig { capacity: CAPACITY, ..Default::default() });
    fill(&mut memory);
    time("uniform", &memory);
}

fn device() {
    let Ok(Ok(context)) = std::panic::catch_unwind(|| CudaContext::new(0)) else {
        return println!("  device: skipped, there is none");
    };
    let config = GpuReplayBufferConfig { capacity: CAPACITY, state_dim: 5, ..Default::default() };
    let stream = context.new_stream().expect("a stream");
    let mut memory = ReplayBufferType::gpu_prioritized(config, stream).expect("room for 4,096 transitions");
    fill(&mut memory);
    time("device", &memory);
}

fn main() {
    for (name, bench) in BENCHES {
        println!("{name}");
        bench();
    }
}
