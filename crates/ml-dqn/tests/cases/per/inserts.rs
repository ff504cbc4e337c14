//! Inserts: `store_rows`, `link_steps`, `per_insert`, and the small kernels that set the shared state.

use ml_dqn::launch::LaunchShape;
use ml_dqn::launch::per::{EpisodePlace, PerState, TERMINATED, TILE, TRUNCATED};

use super::gathers::telling_rows;
use crate::cases::tree::Tree;
use crate::cases::{Backend, Buffer, Case, Random, address, assert_same_bits, value};

pub fn cases() -> Vec<Case> {
    vec![
        ("per_insert/around_the_ring", around_the_ring),
        ("per_insert/sums_stay_those_of_a_rebuild", sums_stay),
        ("store_rows/around_the_ring", rows_around_the_ring),
        ("link_steps/links_of_two_environments", two_environments),
        (
            "link_steps/many_environments_and_episodes",
            many_environments,
        ),
        (
            "link_steps/an_environment_that_does_not_exist",
            no_such_environment,
        ),
        ("per_state/set_reset_and_take", set_reset_and_take),
    ]
}

const ONE: LaunchShape = LaunchShape { grid: 1, block: 1 };

fn around_the_ring(backend: &dyn Backend) {
    // Sizes around a tile; pushes from one row to a whole buffer, at all kinds of places.
    for capacity in [1usize, 4, TILE - 1, TILE, TILE + 1, 3 * TILE + 5] {
        let mut random = Random(capacity as u64);
        let mut tree = Tree::new(capacity, &[]);
        let mut expected = vec![0.0f32; capacity];
        let mut first = 0u64;
        for round in 0..12 {
            let count = if round % 4 == 3 {
                capacity
            } else {
                1 + random.below(capacity)
            };
            let largest = 1.0 + round as f32;
            tree.set_state(|state| state.max_priority = largest.to_bits());
            tree.insert(first, count as u64);
            tree.program.run(backend);
            for row in first..first + count as u64 {
                expected[(row % capacity as u64) as usize] = largest;
            }
            first += count as u64;
            let what = format!("capacity {capacity}, round {round}");
            assert_eq!(tree.priorities(), expected, "{what}");
            let state = tree.state();
            assert_eq!(
                (state.written, state.size),
                (first, first.min(capacity as u64)),
                "{what}"
            );
        }
        // Padding behind the last slot stays without mass.
        let padded = tree.program.read(tree.priority);
        assert!(padded[capacity..].iter().all(|&p| p == 0.0));
    }
}

fn sums_stay(backend: &dyn Backend) {
    for capacity in [5usize, TILE, 2 * TILE + 3, 10 * TILE] {
        let mut random = Random(capacity as u64);
        let mut tree = Tree::new(capacity, &random.units(capacity));
        tree.rebuild();
        let mut first = capacity as u64;
        for _ in 0..20 {
            let count = 1 + random.below(capacity) as u64;
            tree.insert(first, count);
            first += count;
        }
        tree.scan();
        tree.program.run(backend);
        let kept = tree.program.read(tree.tile_sum);
        tree.rebuild();
        tree.program.run(backend);
        assert_same_bits(
            &format!("capacity {capacity}"),
            &kept,
            &tree.program.read(tree.tile_sum),
        );
    }
}

fn rows_around_the_ring(backend: &dyn Backend) {
    let (capacity, state_dim) = (10, 3);
    let mut tree = Tree::with_states(capacity, &[], state_dim, false, 1);
    tree.push(&telling_rows(0, 7, state_dim), 0, false);
    tree.push(&telling_rows(7, 7, state_dim), 7, false);
    tree.program.run(backend);
    let records = tree.program.read(tree.records);
    for slot in 0..capacity {
        let row = if slot < 4 { slot + 10 } else { slot };
        let rows = telling_rows(row, 1, state_dim);
        let at = slot * tree.layout.record_words as usize;
        let next = at + tree.layout.state_words as usize;
        let words = |at: usize| {
            records[at..at + state_dim]
                .iter()
                .map(|&w| f32::from_bits(w))
                .collect::<Vec<_>>()
        };
        assert_eq!(words(at), rows.states, "state of slot {slot}");
        assert_eq!(words(next), rows.next_states, "next state of slot {slot}");
        let (action, reward, flags, _) = tree.meta(slot);
        assert_eq!(
            (action, reward),
            (rows.actions[0], rows.rewards[0]),
            "slot {slot}"
        );
        let expected =
            u32::from(rows.terminated[0]) * TERMINATED + u32::from(rows.truncated[0]) * TRUNCATED;
        assert_eq!(flags, expected, "flags of slot {slot}");
    }
}

fn two_environments(backend: &dyn Backend) {
    let mut tree = Tree::with_states(8, &[], 1, false, 2);
    let mut rows = telling_rows(0, 6, 1);
    rows.env_ids = vec![0, 1, 0, 1, 0, 1];
    rows.terminated = vec![0, 0, 0, 1, 0, 0];
    rows.truncated = vec![0; 6];
    tree.push(&rows, 0, true);
    // Environment 1 alone goes on, then environment 0, whose last row was row 4; slots wrap.
    let mut more = telling_rows(6, 3, 1);
    more.env_ids = vec![1, 1, 0];
    more.terminated = vec![0; 3];
    more.truncated = vec![0; 3];
    tree.push(&more, 6, true);
    tree.program.run(backend);
    let ahead: Vec<u32> = (0..8).map(|slot| tree.meta(slot).3).collect();
    // Slot 0 now holds row 8. Row 3 ended its episode; row 5 began the next one.
    assert_eq!(ahead, [0, 2, 2, 0, 4, 1, 1, 0]);
    let place = |episode, step| EpisodePlace { episode, step };
    let places = tree.program.read(tree.places);
    assert_eq!(places[1..4], [place(1, 0), place(0, 1), place(1, 1)]);
    assert_eq!(
        places[4..],
        [place(0, 2), place(5, 0), place(5, 1), place(5, 2)]
    );
    assert_eq!(places[0], place(0, 3));
    let ends = tree.program.read(tree.ends);
    assert_eq!(ends[1], 1 << 32 | 1, "episode 1 ended with its step 1");
    assert_eq!(ends[5], 5 << 32 | 2);
    assert_eq!(
        ends[0], 3,
        "episode 0 goes on beyond its first row, which was overwritten"
    );
}

fn many_environments(backend: &dyn Backend) {
    // More environments than a block has threads; each steps once a push, and ends at times of its own.
    let (n_envs, capacity) = (300usize, 1500usize);
    let mut random = Random(6);
    let mut tree = Tree::with_states(capacity, &[], 1, false, n_envs);
    let mut written = 0;
    let mut log: Vec<(u32, bool)> = Vec::new();
    for _ in 0..11 {
        let mut rows = telling_rows(written, n_envs, 1);
        rows.env_ids = (0..n_envs as u32).collect();
        rows.terminated = (0..n_envs)
            .map(|_| u8::from(random.below(4) == 0))
            .collect();
        rows.truncated = vec![0; n_envs];
        log.extend(
            rows.env_ids
                .iter()
                .zip(&rows.terminated)
                .map(|(&env, &end)| (env, end == 1)),
        );
        tree.push(&rows, written as u64, true);
        written += n_envs;
    }
    tree.program.run(backend);
    let places = tree.program.read(tree.places);
    for row in written - capacity..written {
        let slot = row % capacity;
        let goes_on = !log[row].1 && row + n_envs < written;
        assert_eq!(
            tree.meta(slot).3,
            if goes_on { n_envs as u32 } else { 0 },
            "row {row}"
        );
        let steps = (1..)
            .take_while(|k| row >= k * n_envs && !log[row - k * n_envs].1)
            .count();
        let expected = EpisodePlace {
            episode: (row - steps * n_envs) as u32,
            step: steps as u32,
        };
        assert_eq!(places[slot], expected, "row {row}");
    }
}

fn no_such_environment(backend: &dyn Backend) {
    let mut tree = Tree::with_states(8, &[], 1, false, 2);
    let mut rows = telling_rows(0, 4, 1);
    rows.env_ids = vec![0, 2, u32::MAX, 0];
    rows.terminated = vec![0; 4];
    rows.truncated = vec![0; 4];
    tree.push(&rows, 0, true);
    tree.program.run(backend);
    assert_eq!(tree.state().bad_env_ids, 2);
    let ahead: Vec<u32> = (0..4).map(|slot| tree.meta(slot).3).collect();
    assert_eq!(ahead, [3, 0, 0, 0]);
    assert_eq!(tree.program.read(tree.places)[1].episode, u32::MAX);
}

fn set_reset_and_take(backend: &dyn Backend) {
    let mut tree = Tree::new(300, &[2.0; 300]);
    tree.rebuild();
    tree.program.launch(
        "per_set_beta",
        ONE,
        vec![address(tree.state), value(0.75f32)],
    );
    tree.program.run(backend);
    assert_eq!(tree.state().beta, 0.75);
    tree.set_state(|state| state.status = 3);
    let copy: Buffer<PerState> = tree.program.unwritten(1);
    tree.program.launch(
        "per_take_status",
        ONE,
        vec![address(tree.state), address(copy)],
    );
    tree.program.run(backend);
    let copy = tree.program.read(copy)[0];
    assert_eq!((copy.status, copy.total), (3, 600.0));
    assert_eq!(tree.state().status, 0, "a fault is told once");
    tree.program
        .launch("per_reset", ONE, vec![address(tree.state), value(900u64)]);
    tree.program.run(backend);
    let state = tree.state();
    assert_eq!((state.size, state.written, state.total), (0, 900, 0.0));
    assert_eq!(f32::from_bits(state.max_priority), 1.0);
    assert_eq!((state.beta, state.seed), (0.75, copy.seed), "settings stay");
}
