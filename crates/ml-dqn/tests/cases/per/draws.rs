//! Draws: `per_find`, `per_sample`, `is_weights`.

use ml_dqn::launch::per::{STATUS_NOT_FINITE, STATUS_ZERO_TOTAL, SUPER_SLOTS, TILE};
use ml_dqn::oracle::per as oracle;

use crate::cases::tree::{MAX_BATCH, Tree};
use crate::cases::{Backend, Case, Random};

pub fn cases() -> Vec<Case> {
    vec![
        ("per_find/half_open_shares", half_open_shares),
        ("per_find/middles_of_all_shares", middles_of_all_shares),
        ("per_find/any_capacity", any_capacity),
        (
            "per_find/never_a_slot_without_mass",
            never_a_slot_without_mass,
        ),
        ("per_find/nothing_to_find", nothing_to_find),
        ("per_sample/equals_the_oracle", equals_the_oracle),
        ("per_sample/each_stratum_once", each_stratum_once),
        ("per_sample/each_call_draws_anew", each_call_draws_anew),
        ("per_sample/frequencies", frequencies),
        ("per_sample/nothing_to_draw", nothing_to_draw),
        ("is_weights/by_hand", weights_by_hand),
        ("is_weights/equal_the_oracle", weights_equal_the_oracle),
    ]
}

fn found(backend: &dyn Backend, capacity: usize, priorities: &[f32], targets: &[f64]) -> Vec<i64> {
    let mut tree = Tree::new(capacity, priorities);
    tree.rebuild();
    let index = tree.find(targets, false);
    let by_sums = tree.find(targets, true);
    tree.program.run(backend);
    let (index, by_sums) = (tree.program.read(index), tree.program.read(by_sums));
    // Two ways to the same slot; at the very edge of a share rounding may decide otherwise.
    let differ = index.iter().zip(&by_sums).filter(|(a, b)| a != b).count();
    assert!(
        differ * 2 <= targets.len(),
        "{differ} of {} differ by sums",
        targets.len()
    );
    assert!(
        by_sums
            .iter()
            .all(|&slot| slot == -1 || priorities[slot as usize] > 0.0),
        "by sums: a slot without mass"
    );
    index
}

/// pytorch/pytorch issue 871: a target that equals the total must not fall off the end.
fn half_open_shares(backend: &dyn Backend) {
    let targets = [
        0.0,
        0.999_999_94,
        1.0,
        9.999_999,
        10.0,
        11.0,
        f64::INFINITY,
        f64::NAN,
        -1.0,
    ];
    let slots = found(backend, 8, &[1.0, 2.0, 3.0, 4.0], &targets);
    assert_eq!(slots[..5], [0, 0, 1, 3, 3]);
    // Outside of the range, and no number at all: some slot with mass.
    assert_eq!(slots[5..7], [3, 3]);
    assert!(slots[7] == 3 && slots[8] == 0, "{:?}", &slots[7..]);
}

/// The middle of each slot's share names that slot, whatever the magnitudes around it.
fn middles_of_all_shares(backend: &dyn Backend) {
    let n = 2 * SUPER_SLOTS / 16 + 777;
    let mut random = Random(3);
    let priorities: Vec<f32> = (0..n).map(|_| 0.001 + random.unit()).collect();
    let prefix = oracle::prefix(&priorities);
    let slots: Vec<usize> = (0..3000).map(|_| random.below(n)).collect();
    let middle = |&slot: &usize| prefix[slot] - f64::from(priorities[slot]) / 2.0;
    let targets: Vec<f64> = slots.iter().map(middle).collect();
    let expected: Vec<i64> = slots.iter().map(|&slot| slot as i64).collect();
    assert_eq!(found(backend, n, &priorities, &targets), expected);
}

/// vwxyzjn/cleanrl issue 546: slots keep their order where the capacity is no power of two.
fn any_capacity(backend: &dyn Backend) {
    for capacity in [3, 5, 6, 1000, 1_000_003] {
        let picked: Vec<usize> = if capacity <= 1000 {
            (0..capacity).collect()
        } else {
            (0..500)
                .map(|i| i * 2000 + 13)
                .chain([capacity - 1])
                .collect()
        };
        let targets: Vec<f64> = picked.iter().map(|&slot| slot as f64 + 0.5).collect();
        let expected: Vec<i64> = picked.iter().map(|&slot| slot as i64).collect();
        let slots = found(backend, capacity, &vec![1.0; capacity], &targets);
        assert_eq!(slots, expected, "capacity {capacity}");
    }
}

/// Zeros everywhere between, at all distances, and targets at the edges of shares, where rounding decides.
fn never_a_slot_without_mass(backend: &dyn Backend) {
    for (seed, density) in [(1u64, 2usize), (2, 40), (3, 3000)] {
        let n = 40_000;
        let mut random = Random(seed);
        let priorities: Vec<f32> = (0..n)
            .map(|_| {
                if random.below(density) == 0 {
                    10f32.powf(random.unit() * 12.0 - 6.0)
                } else {
                    0.0
                }
            })
            .collect();
        let prefix = oracle::prefix(&priorities);
        let total = *prefix.last().unwrap();
        let targets: Vec<f64> = (0..2000)
            .map(|i| match i % 3 {
                0 => prefix[random.below(n)],
                1 => prefix[random.below(n)].next_down(),
                _ => total * f64::from(random.unit()),
            })
            .collect();
        let slots = found(backend, n, &priorities, &targets);
        for (target, slot) in targets.iter().zip(slots) {
            assert!(
                slot >= 0 && priorities[slot as usize] > 0.0,
                "seed {seed}: target {target} found slot {slot}"
            );
            let (slot, here) = (slot as usize, *target);
            let begins = prefix[slot] - f64::from(priorities[slot]);
            // Sums associate differently on both sides: a few roundings of the total.
            let slack = 1e-13 * total;
            assert!(
                (begins - slack..=prefix[slot] + slack).contains(&here),
                "seed {seed}: target {here} found slot {slot}, whose share is {begins}..{}",
                prefix[slot]
            );
        }
    }
}

fn nothing_to_find(backend: &dyn Backend) {
    assert_eq!(found(backend, 8, &[0.0; 8], &[0.0, 1.0]), [-1, -1]);
    assert_eq!(found(backend, 8, &[1.0, f32::NAN], &[0.5]), [-1]);
}

fn equals_the_oracle(backend: &dyn Backend) {
    for n in [1, 5, TILE, 8191, 70_001, SUPER_SLOTS + 1] {
        let mut random = Random(n as u64 + 1);
        let priorities: Vec<f32> = (0..n).map(|_| 0.001 + random.unit()).collect();
        for batch in [1, 31, 64, 257, 1024] {
            let mut tree = Tree::new(n, &priorities);
            tree.set_state(|state| {
                state.seed = 99;
                state.next_draw = 1 << 33;
                state.written = 12_345;
            });
            tree.rebuild();
            let (index, drawn, drawn_at, status) = tree.sample(batch);
            tree.program.run(backend);
            let what = format!("{batch} draws of {n}");
            let slots: Vec<usize> = tree
                .program
                .read(index)
                .iter()
                .map(|&s| s as usize)
                .collect();
            let expected = oracle::sample(&priorities, 99, 1 << 33, batch).unwrap();
            assert_eq!(slots, expected, "{what}");
            let drawn = tree.program.read(drawn);
            for (&slot, &priority) in slots.iter().zip(&drawn) {
                assert_eq!(
                    priority, priorities[slot],
                    "{what}: priority of slot {slot}"
                );
            }
            let smallest = drawn.iter().copied().fold(f32::INFINITY, f32::min);
            let state = tree.state();
            assert_eq!(
                f32::from_bits(state.min_drawn),
                smallest,
                "{what}: smallest priority"
            );
            assert_eq!(state.next_draw, (1 << 33) + 1, "{what}: calls");
            assert_eq!(
                tree.program.read(drawn_at),
                [12_345],
                "{what}: rows at the draw"
            );
            assert_eq!(tree.program.read(status), [0], "{what}: status");
        }
    }
}

fn each_stratum_once(backend: &dyn Backend) {
    let n = 512;
    let mut tree = Tree::new(n, &vec![1.0; n]);
    tree.rebuild();
    let (index, ..) = tree.sample(n);
    tree.program.run(backend);
    // As many shares as slots of equal mass: every slot is drawn exactly once, in order.
    let expected: Vec<i64> = (0..n as i64).collect();
    assert_eq!(tree.program.read(index), expected);
}

/// NVIDIA/Megatron-LM pull 5697: a counter that does not move draws the same numbers for ever.
fn each_call_draws_anew(backend: &dyn Backend) {
    let draw = |seed: u64| {
        let mut tree = Tree::new(100_000, &vec![1.0; 100_000]);
        tree.set_state(|state| state.seed = seed);
        tree.rebuild();
        let batches = [0; 3].map(|_| {
            let batch = tree.sample(300);
            // A scan lies before each draw.
            tree.scan();
            batch
        });
        tree.program.run(backend);
        batches.map(|(index, ..)| tree.program.read(index))
    };
    let first = draw(1);
    assert_ne!(first[0], first[1]);
    assert_ne!(first[1], first[2]);
    assert_eq!(draw(1), first, "the same seed and calls draw the same");
    assert_ne!(draw(2)[0], first[0], "another seed draws something else");
}

/// Chi-square of drawn slots against their priorities.
fn frequencies(backend: &dyn Backend) {
    let n = 64;
    let mut random = Random(8);
    let priorities: Vec<f32> = (0..n).map(|_| random.unit().powi(2) + 0.01).collect();
    let total: f64 = priorities.iter().map(|&p| f64::from(p)).sum();
    let mut tree = Tree::new(n, &priorities);
    tree.rebuild();
    // Batches of one: nothing but chance decides.
    let draws: Vec<_> = (0..4000)
        .map(|_| {
            let draw = tree.sample(1).0;
            tree.scan_above();
            draw
        })
        .collect();
    tree.program.run(backend);
    let mut counts = vec![0.0; n];
    for draw in &draws {
        counts[tree.program.read(*draw)[0] as usize] += 1.0;
    }
    let chi_square: f64 = (0..n)
        .map(|slot| {
            let expected = draws.len() as f64 * f64::from(priorities[slot]) / total;
            (counts[slot] - expected).powi(2) / expected
        })
        .sum();
    // 63 degrees of freedom: 103.4 is passed with probability 0.001, and the seed is fixed.
    assert!(chi_square < 103.4, "chi-square {chi_square}");
}

fn nothing_to_draw(backend: &dyn Backend) {
    for (priorities, expected) in [
        (vec![0.0; 8], STATUS_ZERO_TOTAL),
        (vec![1.0, f32::NAN, 1.0], STATUS_NOT_FINITE),
    ] {
        let mut tree = Tree::new(8, &priorities);
        tree.rebuild();
        let (index, drawn, _, status) = tree.sample(4);
        let weight = tree.weights(drawn, 4, true);
        tree.program.run(backend);
        assert_eq!(tree.program.read(index), [-1; 4]);
        assert_eq!(tree.program.read(drawn), [0.0; 4]);
        assert_eq!(tree.program.read(weight), [0.0; 4]);
        assert_eq!(tree.program.read(status), [expected]);
        assert_eq!(tree.state().status, expected);
    }
}

fn weights(
    backend: &dyn Backend,
    priorities: &[f32],
    drawn: &[f32],
    beta: f32,
    normalized: bool,
) -> Vec<f32> {
    let mut tree = Tree::new(1000, priorities);
    tree.rebuild();
    tree.program.run(backend);
    let smallest = drawn.iter().copied().fold(f32::INFINITY, f32::min);
    tree.set_state(|state| {
        state.beta = beta;
        state.min_drawn = smallest.to_bits();
    });
    let drawn_buffer = tree.program.buffer(drawn);
    let weight = tree.weights(drawn_buffer, drawn.len(), normalized);
    tree.program.run(backend);
    tree.program.read(weight)
}

fn weights_by_hand(backend: &dyn Backend) {
    // takoika/PrioritizedExperienceReplay issue 1: N is 4, the filled slots, not the capacity of 1000.
    let p = [1.0, 1.0, 2.0, 4.0];
    assert_eq!(weights(backend, &p, &p, 1.0, false), [2.0, 2.0, 1.0, 0.5]);
    // rlcode/per issue 4: tiny probabilities give finite weights.
    let tiny = [1e-38, 1.0, 1.0, 1.0];
    let plain = weights(backend, &tiny, &tiny[..2], 1.0, false);
    assert!(plain.iter().all(|w| w.is_finite()), "{plain:?}");
    let normalized = weights(backend, &tiny, &tiny[..2], 1.0, true);
    assert_eq!(normalized[0], 1.0);
    assert!((0.0..=1.1e-38).contains(&normalized[1]), "{normalized:?}");
    assert_eq!(weights(backend, &p, &p, 0.0, true), [1.0; 4], "beta 0");
    assert_eq!(weights(backend, &p, &p, 0.0, false), [1.0; 4], "beta 0");
    assert_eq!(
        weights(backend, &p, &p[3..], 1.0, true),
        [1.0],
        "a batch of one"
    );
    // keras-rl/keras-rl pull 212: beta comes from the state, not from the launch.
    for (beta, expected) in [(0.4, 0.574_349_2), (1.0, 0.25)] {
        let w = weights(backend, &[1.0, 4.0], &[1.0, 4.0], beta, true);
        assert_eq!(w[0], 1.0);
        assert!((w[1] - expected).abs() < 1e-5, "beta {beta}: {w:?}");
    }
}

fn weights_equal_the_oracle(backend: &dyn Backend) {
    let mut random = Random(21);
    let priorities: Vec<f32> = (0..900).map(|_| random.unit() + 1e-4).collect();
    let total: f64 = priorities.iter().map(|&p| f64::from(p)).sum();
    let drawn: Vec<f32> = (0..MAX_BATCH / 8)
        .map(|_| priorities[random.below(900)])
        .collect();
    for beta in [0.1, 0.4, 0.7, 1.0] {
        let plain = weights(backend, &priorities, &drawn, beta, false);
        let normalized = weights(backend, &priorities, &drawn, beta, true);
        let expected = oracle::weights(&drawn, 900, total, beta);
        let expected_normalized = oracle::normalized_weights(&drawn, 900, total, beta);
        for i in 0..drawn.len() {
            let (w, o) = (f64::from(plain[i]), expected[i]);
            // powf in f32 is good to 2 ulp, 2.4e-7; the bar is the one of docs/performance.md.
            assert!((w - o).abs() <= 1e-5 * o, "beta {beta}, row {i}: {w} {o}");
            let (w, o) = (f64::from(normalized[i]), expected_normalized[i]);
            assert!((w - o).abs() <= 1e-5, "beta {beta}, row {i}: {w} {o}");
        }
    }
}
