//! How long draws from the segment tree take. `cargo bench -p ml-dqn --bench segment_tree`

use std::hint::black_box;
use std::time::Instant;

use ml_dqn::{Experience, PrioritizedReplayBuffer, PrioritizedReplayConfig};

fn main() {
    for capacity in [1 << 10, 1 << 14, 1 << 17] {
        let mut memory =
            PrioritizedReplayBuffer::new(PrioritizedReplayConfig { capacity, ..Default::default() });
        for at in 0..capacity {
            let state = vec![at as f32; 8];
            memory.push(Experience { next_state: state.clone(), state, action: 0, reward: 0.0, done: false });
        }
        let n_draws = 200;
        let start = Instant::now();
        for _ in 0..n_draws {
            let (_, _, indices) = black_box(memory.sample(512)).expect("the buffer is full");
            memory.update_priorities(&indices, &[0.5; 512]).expect("one error per index");
        }
        let per_draw = start.elapsed() / n_draws;
        println!("capacity {capacity:>7}: {per_draw:?} for 512 rows, drawn and updated");
    }
}
