//! Sums: `per_all_tiles`, `per_touched_tiles`, `per_prefix_scan`, `per_total`.

use ml_dqn::launch::per::{GROUP, STATUS_NOT_FINITE, STATUS_ZERO_TOTAL, SUPER_SLOTS, TILE};
use ml_dqn::oracle::per as oracle;

use crate::cases::tree::{Rule, Tree};
use crate::cases::{Backend, Case, Random, assert_same_bits};

pub fn cases() -> Vec<Case> {
    vec![
        ("per_prefix_scan/equals_the_oracle", equals_the_oracle),
        ("per_prefix_scan/same_bits_each_time", same_bits_each_time),
        ("per_prefix_scan/status_of_the_total", status_of_the_total),
        ("per_touched_tiles/kept_equals_rebuilt", kept_equals_rebuilt),
    ]
}

/// One slot, around a tile, a prime, around a group, and more than one super-group.
const SIZES: [usize; 9] = [
    1,
    TILE - 1,
    TILE,
    TILE + 1,
    8191,
    TILE * GROUP - 1,
    TILE * GROUP + 1,
    70_001,
    SUPER_SLOTS + 1,
];

fn kinds(n: usize) -> Vec<(&'static str, Vec<f32>)> {
    let mut random = Random(n as u64);
    let mut one_hot = vec![0.0; n];
    one_hot[random.below(n)] = 3.5;
    vec![
        ("random", random.units(n)),
        ("equal", vec![1.0 / 3.0; n]),
        ("one-hot", one_hot),
        (
            "huge range",
            (0..n)
                .map(|_| 10f32.powf(60.0 * random.unit() - 30.0))
                .collect(),
        ),
        ("zeros", vec![0.0; n]),
    ]
}

fn equals_the_oracle(backend: &dyn Backend) {
    for n in SIZES {
        for (kind, priorities) in kinds(n) {
            // The largest size once: a million threads take their time as fibers.
            if n == SUPER_SLOTS + 1 && kind != "random" {
                continue;
            }
            let mut tree = Tree::new(n, &priorities);
            tree.rebuild();
            tree.program.run(backend);
            let what = format!("{n} {kind} priorities");
            let tile_sum = tree.program.read(tree.tile_sum);
            let group_sum = tree.program.read(tree.group_sum);
            let super_end = tree.program.read(tree.super_end);
            let check = |level: &str, slots: usize, sums: &[f64], inclusive: bool| {
                for (i, &sum) in sums.iter().enumerate() {
                    let from = if inclusive { 0 } else { (i * slots).min(n) };
                    let until = ((i + 1) * slots).min(n);
                    let expected: f64 = priorities[from..until].iter().map(|&p| f64::from(p)).sum();
                    // All terms are positive, so the f64 sums differ by a few roundings only.
                    assert!(
                        (sum - expected).abs() <= 1e-12 * expected,
                        "{what}: {level} {i} is {sum}, the oracle has {expected}"
                    );
                }
            };
            check("tile", TILE, &tile_sum, false);
            check("group", TILE * GROUP, &group_sum, false);
            check("super-group end", SUPER_SLOTS, &super_end, true);
            let state = tree.state();
            assert_eq!(state.total, *super_end.last().unwrap(), "{what}: total");
            assert!(super_end.is_sorted(), "{what}: ends go down");
        }
    }
}

fn same_bits_each_time(backend: &dyn Backend) {
    let priorities = Random(5).units(SUPER_SLOTS / 8 + 77);
    let mut tree = Tree::new(priorities.len(), &priorities);
    tree.rebuild();
    tree.program.run(backend);
    let first = (tree.program.read(tree.tile_sum), tree.state().total);
    for _ in 0..10 {
        tree.scan_above();
    }
    tree.rebuild();
    tree.program.run(backend);
    assert_same_bits("tile sums", &first.0, &tree.program.read(tree.tile_sum));
    assert_same_bits("total", &[first.1], &[tree.state().total]);
}

fn status_of_the_total(backend: &dyn Backend) {
    let status = |priorities: &[f32], size: u64| {
        let mut tree = Tree::new(300, priorities);
        tree.set_state(|state| state.size = size);
        tree.rebuild();
        tree.program.run(backend);
        tree.state().status
    };
    assert_eq!(status(&[1.0; 8], 8), 0);
    assert_eq!(status(&[0.0; 8], 8), STATUS_ZERO_TOTAL);
    assert_eq!(status(&[0.0; 8], 0), 0, "an empty buffer is no fault");
    assert_eq!(status(&[1.0, f32::NAN], 2), STATUS_NOT_FINITE);
    assert_eq!(status(&[f32::INFINITY], 1), STATUS_NOT_FINITE);
}

/// Random updates, with zeros and repeated slots; afterwards the kept sums are those of a rebuild, to the bit.
fn kept_equals_rebuilt(backend: &dyn Backend) {
    let n = TILE * GROUP * 3 + 61;
    let mut random = Random(11);
    let mut tree = Tree::new(n, &random.units(n));
    tree.rebuild();
    for round in 0..30 {
        let batch = 1 + random.below(700);
        let slots: Vec<i64> = (0..batch).map(|_| random.below(n) as i64).collect();
        let td_errors: Vec<f32> = (0..batch)
            .map(|i| if i % 9 == 0 { 0.0 } else { random.unit() * 4.0 })
            .collect();
        tree.update(&slots, &td_errors, n as u64, Rule::default());
        if round % 7 == 3 {
            tree.insert(n as u64 + round, 1 + random.below(300) as u64);
        }
        tree.scan();
    }
    tree.program.run(backend);
    let read = |tree: &Tree| {
        [
            tree.program.read(tree.tile_sum),
            tree.program.read(tree.group_sum),
            tree.program.read(tree.super_end),
        ]
    };
    let kept = read(&tree);
    let stored = tree.program.read(tree.priority);
    assert!(
        stored.iter().all(|p| p.is_sign_positive()),
        "a scan leaves no mark"
    );
    tree.rebuild();
    tree.program.run(backend);
    for (level, (kept, rebuilt)) in ["tile", "group", "super"]
        .iter()
        .zip(kept.iter().zip(read(&tree)))
    {
        assert_same_bits(level, kept, &rebuilt);
    }
    let expected = *oracle::prefix(&tree.priorities()).last().unwrap();
    let total = tree.state().total;
    assert!(
        (total - expected).abs() <= 1e-12 * expected,
        "{total} {expected}"
    );
}
