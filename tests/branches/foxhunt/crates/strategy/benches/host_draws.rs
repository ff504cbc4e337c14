//! The two host kinds against each other.

use std::time::Instant;

use foxhunt_strategy::prelude::*;
use ml_dqn::ReplayBufferConfig;

fn main() {
    let kinds: [(&str, Memory); 2] = [
        ("uniform", Memory::uniform(ReplayBufferConfig::default())),
        ("tree", Memory::prioritized(PrioritizedReplayConfig::default())),
    ];
    for (name, mut memory) in kinds {
        for _ in 0..1_000 {
            let (state, next_state) = (vec![0.0; 5], vec![0.0; 5]);
            memory.push(&Experience { state, action: 0, reward: 0.0, next_state, done: false }).unwrap();
        }
        let start = Instant::now();
        let n_rows: usize =
            (0..100).map(|_| memory.sample(64).map_or(0, |batch| batch.experiences.len())).sum();
        println!("{name}: {n_rows} rows in {:?}", start.elapsed());
    }
}
