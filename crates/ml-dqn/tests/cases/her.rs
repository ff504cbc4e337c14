//! `kernels/her_kernels.cu`.

use ml_dqn::launch::her::HerState;
use ml_dqn::launch::per::shape;
use ml_dqn::oracle::her::{judge, rest_of_episode};
use ml_dqn::oracle::per::Step;

use super::tree::{Rows, Tree};
use super::{Backend, Buffer, Case, Random, address, fields, value};

pub fn cases() -> Vec<Case> {
    vec![
        (
            "her_relabel/goals_of_the_same_episode_only",
            same_episode_only,
        ),
        ("her_relabel/equals_the_oracle", equals_the_oracle),
        ("her_relabel/share_of_rows", share_of_rows),
        ("her_relabel/each_future_as_likely", each_future_as_likely),
        (
            "her_relabel/overwritten_slots_keep_their_goal",
            overwritten_slots,
        ),
        ("her_relabel/final_goal", final_goal),
    ]
}

/// States are [achieved x2, noise, goal x2]; achieved and goal tell which row they are of.
const DIM: usize = 5;
const GOAL: usize = 3;

fn rows(steps: &[Step], first: usize) -> Rows {
    let numbers = first..first + steps.len();
    let state = |row: usize, next: f32| [row as f32 + next, 2.0 * row as f32, 0.25, -1.0, -2.0];
    Rows {
        states: numbers.clone().flat_map(|row| state(row, 0.0)).collect(),
        next_states: numbers.clone().flat_map(|row| state(row, 0.5)).collect(),
        actions: vec![0; steps.len()],
        rewards: vec![7.0; steps.len()],
        terminated: steps.iter().map(|s| u8::from(s.terminated)).collect(),
        truncated: steps.iter().map(|s| u8::from(s.truncated)).collect(),
        env_ids: steps.iter().map(|s| s.env_id).collect(),
    }
}

fn achieved(row: usize) -> [f32; 2] {
    [row as f32 + 0.5, 2.0 * row as f32]
}

struct Relabelled {
    chosen: Vec<i64>,
    states: Vec<f32>,
    next_states: Vec<f32>,
    rewards: Vec<f32>,
    dones: Vec<f32>,
    state: HerState,
}

/// Relabels the given slots, `calls` times over; gives the last.
fn relabel(
    backend: &dyn Backend,
    tree: &mut Tree,
    slots: &[i64],
    drawn_at: u64,
    k: u32,
    strategy: u32,
    calls: usize,
) -> Relabelled {
    let n = slots.len();
    let index = tree.program.buffer(slots);
    let drawn_at = tree.program.buffer(&[drawn_at]);
    let states = tree.program.buffer(&vec![-9.0f32; n * DIM]);
    let next_states = tree.program.buffer(&vec![-9.0f32; n * DIM]);
    let rewards = tree.program.buffer(&vec![7.0f32; n]);
    let dones = tree.program.buffer(&vec![0.5f32; n]);
    let chosen: Buffer<i64> = tree.program.unwritten(n);
    let seed = HerState {
        seed: 5,
        ..HerState::default()
    };
    let state = tree.program.buffer(&[seed]);
    let batch = fields([
        address(index),
        address(drawn_at),
        address(states),
        address(next_states),
        address(rewards),
        address(dones),
        value(n as u32),
        value(0u32),
        value(k),
        value(2u32),
        value(0u32),
        value(GOAL as u32),
        value(strategy),
        value(1u32),
        value(0.25f32),
        value(0.0f32),
        value(-1.0f32),
        value(0u32),
    ]);
    let layout = tree.layout_argument();
    for _ in 0..calls {
        let arguments = vec![
            batch.clone(),
            address(tree.records),
            layout.clone(),
            address(tree.places),
            address(tree.ends),
            address(tree.state),
            address(state),
            address(chosen),
        ];
        tree.program
            .launch("her_relabel", shape::rows(n), arguments);
    }
    tree.program.run(backend);
    Relabelled {
        chosen: tree.program.read(chosen),
        states: tree.program.read(states),
        next_states: tree.program.read(next_states),
        rewards: tree.program.read(rewards),
        dones: tree.program.read(dones),
        state: tree.program.read(state)[0],
    }
}

const ALWAYS: u32 = 1 << 20;

fn episode(length: usize, env_id: u32) -> Vec<Step> {
    (0..length)
        .map(|i| Step {
            env_id,
            reward: 0.0,
            terminated: i + 1 == length,
            truncated: false,
        })
        .collect()
}

/// thu-ml/tianshou issue 811: the ring has taken the first half of episode A.
fn same_episode_only(backend: &dyn Backend) {
    let mut tree = Tree::with_states(15, &[], DIM, false, 1);
    tree.push(&rows(&episode(10, 0), 0), 0, true);
    tree.push(&rows(&episode(10, 0), 10), 10, true);
    let draws = 3000;
    let slots: Vec<i64> = (0..draws).map(|i| i % 15).collect();
    let result = relabel(backend, &mut tree, &slots, 20, ALWAYS, 0, 1);
    let mut seen = std::collections::BTreeSet::new();
    for (&slot, &source) in slots.iter().zip(&result.chosen) {
        if source < 0 {
            // One in a million keeps its own.
            continue;
        }
        let row = if slot < 5 { slot + 15 } else { slot };
        let from = if source < 5 { source + 15 } else { source };
        let last = if row < 10 { 9 } else { 19 };
        assert!(
            (row..=last).contains(&from),
            "row {row} got the goal of row {from}"
        );
        seen.insert((row, from));
    }
    // 15 + 55 pairs are possible: rows 5 to 9, and 10 to 19.
    assert_eq!(seen.len(), 70, "every later step is chosen at some time");
}

fn equals_the_oracle(backend: &dyn Backend) {
    // Interleaved environments at uneven distances, so that the guess by one distance fails at times; around the ring.
    for (n_envs, capacity) in [(1usize, 97usize), (3, 200), (40, 500)] {
        let mut random = Random(capacity as u64);
        let mut tree = Tree::with_states(capacity, &[], DIM, false, n_envs);
        let mut log: Vec<Step> = Vec::new();
        while log.len() < 2 * capacity + 31 {
            let count = 1 + random.below(60);
            let steps: Vec<Step> = (0..count)
                .map(|_| Step {
                    env_id: random.below(n_envs) as u32,
                    reward: 0.0,
                    terminated: random.below(12) == 0,
                    truncated: random.below(20) == 0,
                })
                .collect();
            tree.push(&rows(&steps, log.len()), log.len() as u64, true);
            log.extend(steps);
        }
        let written = log.len();
        let slots: Vec<i64> = (0..2 * capacity as i64)
            .map(|i| i % capacity as i64)
            .collect();
        let result = relabel(backend, &mut tree, &slots, written as u64, 4, 0, 3);
        let row_of = |slot: i64| {
            let newest = written - 1;
            newest - (newest - slot as usize) % capacity
        };
        let mut kept = 0;
        for (i, (&slot, &source)) in slots.iter().zip(&result.chosen).enumerate() {
            let goal = [
                result.states[i * DIM + GOAL],
                result.states[i * DIM + GOAL + 1],
            ];
            if source < 0 {
                kept += 1;
                // An earlier of the three calls may have relabelled it.
                continue;
            }
            let (row, from) = (row_of(slot), row_of(source));
            assert!(
                rest_of_episode(&log, row).contains(&from),
                "row {row} got the goal of row {from}"
            );
            assert_eq!(goal, achieved(from));
            assert_eq!(result.next_states[i * DIM + GOAL..(i + 1) * DIM], goal);
            assert_eq!(
                result.states[i * DIM..i * DIM + GOAL],
                [-9.0; GOAL],
                "the rest of the state stays"
            );
            let (reward, reached) = judge(&achieved(row), &goal, 0.25, 0.0, -1.0);
            assert_eq!(
                (result.rewards[i], result.dones[i]),
                (reward, f32::from(u8::from(reached)))
            );
        }
        assert!(
            kept > 0 && kept < slots.len(),
            "{kept} of {} kept their goal",
            slots.len()
        );
        assert_eq!((result.state.calls, result.state.ticket), (3, 0));
        assert_eq!(result.state.skipped, 0);
    }
}

fn share_of_rows(backend: &dyn Backend) {
    let n = 4000;
    for (k, expected) in [(0u32, 0usize), (4, 3200), (1, 2000)] {
        let mut tree = Tree::with_states(50, &[], DIM, false, 1);
        tree.push(&rows(&episode(50, 0), 0), 0, true);
        let slots: Vec<i64> = (0..n).map(|i| i % 50).collect();
        let result = relabel(backend, &mut tree, &slots, 50, k, 0, 1);
        let relabelled = result.chosen.iter().filter(|&&source| source >= 0).count();
        // Five standard deviations of a binomial with n = 4000 are at most 158.
        assert!(
            relabelled.abs_diff(expected) <= if k == 0 { 0 } else { 158 },
            "k {k}: {relabelled}"
        );
        assert_eq!(result.state.relabelled, relabelled as u64);
    }
}

/// Chi-square of the step that is chosen, over an episode of 20.
fn each_future_as_likely(backend: &dyn Backend) {
    let mut tree = Tree::with_states(32, &[], DIM, false, 1);
    tree.push(&rows(&episode(20, 0), 0), 0, true);
    let slots = vec![0i64; 4000];
    let result = relabel(backend, &mut tree, &slots, 20, ALWAYS, 0, 1);
    let mut counts = [0.0f64; 20];
    for &source in result.chosen.iter().filter(|&&source| source >= 0) {
        counts[source as usize] += 1.0;
    }
    let chi_square: f64 = counts
        .iter()
        .map(|count| (count - 200.0).powi(2) / 200.0)
        .sum();
    // 19 degrees of freedom: 43.8 is passed with probability 0.001, and the seed is fixed.
    assert!(chi_square < 43.8, "chi-square {chi_square}");
}

fn overwritten_slots(backend: &dyn Backend) {
    let mut tree = Tree::with_states(10, &[], DIM, false, 1);
    tree.push(&rows(&episode(10, 0), 0), 0, true);
    tree.push(&rows(&episode(3, 0), 10), 10, true);
    let slots: Vec<i64> = (-1..10).collect();
    let result = relabel(backend, &mut tree, &slots, 10, ALWAYS, 0, 1);
    assert_eq!(
        result.chosen[..4],
        [-1; 4],
        "nothing drawn, and three slots pushed over"
    );
    assert_eq!(result.state.skipped, 3);
    assert!(
        result.chosen[4..]
            .iter()
            .enumerate()
            .all(|(i, &source)| source >= i as i64 + 3)
    );
    assert_eq!(result.rewards[..4], [7.0; 4]);
}

fn final_goal(backend: &dyn Backend) {
    let mut tree = Tree::with_states(40, &[], DIM, false, 1);
    tree.push(&rows(&episode(12, 0), 0), 0, true);
    // An episode that goes on: its last step so far.
    let mut open = episode(5, 0);
    open[4].terminated = false;
    tree.push(&rows(&open, 12), 12, true);
    let slots: Vec<i64> = (0..17).collect();
    let result = relabel(backend, &mut tree, &slots, 17, ALWAYS, 1, 1);
    let expected: Vec<i64> = (0..17)
        .map(|slot| if slot < 12 { 11 } else { 16 })
        .collect();
    assert_eq!(result.chosen, expected);
    assert_eq!((result.rewards[11], result.dones[11]), (0.0, 1.0));
    assert_eq!((result.rewards[10], result.dones[10]), (-1.0, 0.0));
}
