//! Hindsight as a user meets it.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{Experience, GpuHer, GpuHerConfig, GpuReplayBuffer, HerOptions};

use crate::Test;
use crate::buffer::{buffer, config, numbered, options};

pub fn tests() -> Vec<Test> {
    vec![
        ("her/relabels_a_batch", relabels_a_batch),
        ("her/misuse_is_told", misuse),
    ]
}

/// States are [reached, goal]; episodes of ten steps count upwards from their number times a hundred.
fn count_up(episodes: std::ops::Range<usize>) -> Vec<Experience> {
    episodes
        .flat_map(|episode| {
            (0..10).map(move |step| {
                let reached = (episode * 100 + step) as f32;
                Experience {
                    state: vec![reached, -1.0],
                    next_state: vec![reached + 1.0, -1.0],
                    action: step as u32,
                    reward: -1.0,
                    done: step == 9,
                }
            })
        })
        .collect()
}

fn relabels_a_batch(stream: &Arc<CudaStream>) {
    let options = options(|options| options.track_episodes = true);
    let mut memory =
        GpuReplayBuffer::with_options(config(205, 2), options, Arc::clone(stream)).unwrap();
    // Around the ring: of episode 9 a half is left.
    memory.push_batch(&count_up(0..30)).unwrap();
    let her = GpuHer::new(GpuHerConfig { k: 4, goal_dim: 1 }, Arc::clone(stream)).unwrap();
    let mut relabelled = 0;
    for _ in 0..20 {
        let batch = memory.sample(205).unwrap();
        her.relabel(&memory, &batch).unwrap();
        let states = batch.states_to_host().unwrap();
        let next_states = batch.next_states_to_host().unwrap();
        let (rewards, dones) = (
            batch.rewards_to_host().unwrap(),
            batch.dones_to_host().unwrap(),
        );
        for row in 0..205 {
            let (reached, goal) = (next_states[2 * row], next_states[2 * row + 1]);
            assert_eq!(states[2 * row + 1], goal, "both states have the goal");
            if goal == -1.0 {
                assert_eq!(rewards[row], -1.0);
                continue;
            }
            relabelled += 1;
            let episode = (reached / 100.0).floor() * 100.0;
            assert!(
                goal >= reached && goal <= episode + 10.0,
                "{reached} got goal {goal}"
            );
            let success = goal == reached;
            assert_eq!(
                (rewards[row], dones[row]),
                if success { (0.0, 1.0) } else { (-1.0, 0.0) }
            );
        }
    }
    let stats = her.stats().unwrap();
    assert_eq!(
        (stats.calls, stats.relabelled, stats.skipped),
        (20, relabelled, 0)
    );
    // 4 of 5 rows; five standard deviations of a binomial with n = 4100 are 128.
    assert!(relabelled.abs_diff(3280) < 128, "{relabelled}");
}

fn misuse(stream: &Arc<CudaStream>) {
    let her = GpuHer::new(GpuHerConfig { k: 4, goal_dim: 2 }, Arc::clone(stream)).unwrap();
    let mut untracked = buffer(stream, 10, 3);
    untracked.push_batch(&numbered(0..10, 3)).unwrap();
    let batch = untracked.sample(2).unwrap();
    let refused = |her: &GpuHer, memory: &GpuReplayBuffer| {
        her.relabel(memory, &memory.sample(2).unwrap())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&her, &untracked).contains("track_episodes"));
    let tracked = |n_steps: usize| {
        let options = options(|options| {
            options.track_episodes = true;
            options.n_steps = n_steps;
        });
        let mut memory =
            GpuReplayBuffer::with_options(config(10, 3), options, Arc::clone(stream)).unwrap();
        memory.push_batch(&numbered(0..10, 3)).unwrap();
        memory
    };
    assert!(refused(&her, &tracked(2)).contains("n_steps"));
    assert!(
        her.relabel(&tracked(1), &batch)
            .unwrap_err()
            .to_string()
            .contains("another buffer")
    );
    let wide = GpuHer::new(GpuHerConfig { k: 4, goal_dim: 4 }, Arc::clone(stream)).unwrap();
    assert!(refused(&wide, &tracked(1)).contains("`goal_dim` is 4"));
    let mut options = HerOptions::default();
    options.goal_offset = Some(2);
    let beyond = GpuHer::with_options(
        GpuHerConfig { k: 4, goal_dim: 2 },
        options,
        Arc::clone(stream),
    )
    .unwrap();
    assert!(refused(&beyond, &tracked(1)).contains("`goal_offset` is 2"));
}
