//! Updates: `per_update_pa`.

use ml_dqn::launch::per::TILE;
use ml_dqn::oracle::per::{self as oracle, Bad};

use crate::cases::tree::{Rule, Tree};
use crate::cases::{Backend, Case, Random};

pub fn cases() -> Vec<Case> {
    vec![
        ("per_update_pa/equals_the_oracle", equals_the_oracle),
        (
            "per_update_pa/repeated_slots_get_the_largest",
            repeated_slots,
        ),
        ("per_update_pa/a_priority_may_fall", may_fall),
        ("per_update_pa/bad_td_errors", bad_td_errors),
        ("per_update_pa/negative_td_errors", negative_td_errors),
        ("per_update_pa/alpha_once", alpha_once),
        ("per_update_pa/stale_slots", stale_slots),
        ("per_update_pa/nothing_drawn", nothing_drawn),
    ]
}

fn equals_the_oracle(backend: &dyn Backend) {
    for (n, batch, alpha, eps) in [
        (1usize, 1usize, 0.6f32, 1e-6f32),
        (TILE + 1, 300, 1.0, 0.0),
        (5000, 257, 0.6, 0.01),
        (70_001, 1000, 0.3, 0.0),
    ] {
        let mut random = Random(batch as u64);
        let before = random.units(n);
        let slots: Vec<usize> = (0..batch).map(|_| random.below(n)).collect();
        let td_errors: Vec<f32> = (0..batch)
            .map(|i| {
                if i % 13 == 5 {
                    f32::NAN
                } else {
                    (random.unit() - 0.5) * 20.0
                }
            })
            .collect();
        let mut tree = Tree::new(n, &before);
        tree.rebuild();
        let rule = Rule {
            alpha,
            eps,
            ..Rule::default()
        };
        let signed: Vec<i64> = slots.iter().map(|&slot| slot as i64).collect();
        tree.update(&signed, &td_errors, n as u64, rule);
        tree.scan();
        tree.program.run(backend);
        let expected = oracle::update(
            &slots,
            &td_errors,
            n,
            n as u64,
            n as u64,
            alpha,
            eps,
            1.0,
            Bad::Keep,
        );
        let mut after: Vec<f64> = before.iter().map(|&p| f64::from(p)).collect();
        for &(slot, priority) in &expected.changed {
            after[slot] = priority;
        }
        for (slot, (got, want)) in tree.priorities().iter().zip(&after).enumerate() {
            // powf in f32: 2 ulp, on a sum that is rounded before.
            assert!(
                (f64::from(*got) - want).abs() <= 1e-5 * want,
                "{n} slots: slot {slot} is {got}, the oracle has {want}"
            );
        }
        let state = tree.state();
        assert_eq!((state.bad_td_errors, state.stale_rows), (expected.bad, 0));
        let largest = expected.changed.iter().map(|&(_, p)| p).fold(1.0, f64::max);
        assert!((f64::from(f32::from_bits(state.max_priority)) - largest).abs() <= 1e-5 * largest);
        let total: f64 = after.iter().sum();
        assert!((state.total - total).abs() <= 1e-5 * total);
    }
}

/// pytorch/pytorch issue 55516: the order of writes to one place is undefined on a GPU.
fn repeated_slots(backend: &dyn Backend) {
    for td_errors in [[3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 1.0]] {
        let mut tree = Tree::new(300, &[9.0; 300]);
        tree.rebuild();
        tree.update(&[7, 7, 7], &td_errors, 300, Rule::default());
        tree.scan();
        tree.program.run(backend);
        assert_eq!(tree.priorities()[7], 3.0);
        assert_eq!(tree.state().total, 9.0 * 299.0 + 3.0);
    }
    // Far apart in the batch, in other warps and blocks, among others.
    let mut random = Random(2);
    let (n, batch) = (1000, 2000);
    let slots: Vec<i64> = (0..batch).map(|_| random.below(50) as i64 * 19).collect();
    let td_errors = random.units(batch);
    let mut tree = Tree::new(n, &vec![5.0; n]);
    tree.rebuild();
    tree.update(&slots, &td_errors, n as u64, Rule::default());
    tree.scan();
    tree.program.run(backend);
    for slot in 0..n {
        let largest = (0..batch)
            .filter(|&i| slots[i] == slot as i64)
            .map(|i| td_errors[i])
            .reduce(f32::max);
        assert_eq!(
            tree.priorities()[slot],
            largest.unwrap_or(5.0),
            "slot {slot}"
        );
    }
}

/// The largest of the new ones, not of the new and the old.
fn may_fall(backend: &dyn Backend) {
    let mut tree = Tree::new(10, &[8.0; 10]);
    tree.rebuild();
    tree.update(&[3, 3], &[0.5, 0.25], 10, Rule::default());
    tree.scan();
    tree.update(&[3], &[0.125], 10, Rule::default());
    tree.scan();
    tree.update(&[4], &[0.0], 10, Rule::default());
    tree.scan();
    tree.program.run(backend);
    assert_eq!(tree.priorities()[3], 0.125);
    assert_eq!(tree.priorities()[4], 0.0);
    assert_eq!(tree.state().total, 8.0 * 8.0 + 0.125);
}

/// One NaN makes every sum above it NaN, if it gets in.
fn bad_td_errors(backend: &dyn Backend) {
    let update = |td_error: f32, bad_takes_max: bool| {
        let mut tree = Tree::new(4, &[1.0; 4]);
        tree.set_state(|state| state.max_priority = 6.0f32.to_bits());
        tree.rebuild();
        let rule = Rule {
            bad_takes_max,
            ..Rule::default()
        };
        tree.update(&[2], &[td_error], 4, rule);
        tree.scan();
        let (index, ..) = tree.sample(1000);
        tree.program.run(backend);
        let mut drawn = tree.program.read(index);
        drawn.dedup();
        (
            tree.priorities()[2],
            tree.state().total,
            tree.state().bad_td_errors,
            drawn,
        )
    };
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(
            update(bad, false),
            (1.0, 4.0, 1, vec![0, 1, 2, 3]),
            "{bad} refused"
        );
        assert_eq!(
            update(bad, true),
            (6.0, 9.0, 1, vec![0, 1, 2, 3]),
            "{bad} replaced"
        );
    }
    assert_eq!(update(f32::MAX, false).2, 0, "large is not bad");

    // Among good ones: those are applied.
    let n = 2048;
    let slots: Vec<i64> = (0..n).collect();
    let mut td_errors = vec![2.0; n as usize];
    td_errors[1000] = f32::NAN;
    let mut tree = Tree::new(n as usize, &vec![1.0; n as usize]);
    tree.rebuild();
    tree.update(&slots, &td_errors, n as u64, Rule::default());
    tree.scan();
    tree.program.run(backend);
    assert_eq!(tree.state().total, 2.0 * (n - 1) as f64 + 1.0);
    assert_eq!(tree.state().bad_td_errors, 1);
}

fn negative_td_errors(backend: &dyn Backend) {
    let update = |signed: bool| {
        let mut tree = Tree::new(4, &[1.0; 4]);
        tree.rebuild();
        tree.update(
            &[0, 1, 2],
            &[-3.0, 3.0, -0.0],
            4,
            Rule {
                signed,
                ..Rule::default()
            },
        );
        tree.scan();
        tree.program.run(backend);
        (tree.priorities(), tree.state().bad_td_errors)
    };
    assert_eq!(update(true), (vec![3.0, 3.0, 0.0, 1.0], 0));
    assert_eq!(update(false), (vec![1.0, 3.0, 0.0, 1.0], 1));
}

/// pytorch/rl pull 3925: the largest priority is kept after the power, and not raised again on insert.
fn alpha_once(backend: &dyn Backend) {
    let mut tree = Tree::new(4, &[]);
    tree.insert(0, 1);
    tree.update(
        &[0],
        &[16.0],
        1,
        Rule {
            alpha: 0.6,
            ..Rule::default()
        },
    );
    tree.insert(1, 1);
    tree.scan();
    tree.program.run(backend);
    let priorities = tree.priorities();
    assert!((priorities[0] - 5.278_03).abs() < 1e-5, "{priorities:?}");
    assert_eq!(priorities[1], priorities[0]);
}

/// ray-project/ray issue 6534: a TD error of a transition that is gone belongs to nobody.
fn stale_slots(backend: &dyn Backend) {
    let mut tree = Tree::new(4, &[1.0; 4]);
    tree.rebuild();
    // Drawn when 4 rows had been stored; rows 4 and 5 then took slots 0 and 1.
    tree.insert(4, 2);
    tree.update(&[1, 2], &[99.0, 7.0], 4, Rule::default());
    tree.scan();
    tree.program.run(backend);
    assert_eq!(tree.priorities(), [1.0, 1.0, 7.0, 1.0]);
    assert_eq!(tree.state().stale_rows, 1);
    // The oracle asks row by row; here for all distances around the ring.
    let capacity = 7usize;
    for drawn_at in [7u64, 9, 13, 14, 20] {
        for later in 0..10u64 {
            let written = drawn_at + later;
            let slots: Vec<usize> = (0..capacity).collect();
            let td_errors = vec![2.0; capacity];
            let expected = oracle::update(
                &slots,
                &td_errors,
                capacity,
                drawn_at,
                written,
                1.0,
                0.0,
                1.0,
                Bad::Keep,
            );
            let mut tree = Tree::new(capacity, &vec![1.0; capacity]);
            tree.set_state(|state| state.written = written);
            let signed: Vec<i64> = slots.iter().map(|&slot| slot as i64).collect();
            tree.update(&signed, &td_errors, drawn_at, Rule::default());
            tree.program.run(backend);
            let mut after = vec![1.0; capacity];
            for &(slot, _) in &expected.changed {
                after[slot] = 2.0;
            }
            let what = format!("drawn at {drawn_at}, {later} rows later");
            assert_eq!(tree.priorities(), after, "{what}");
            assert_eq!(tree.state().stale_rows, expected.stale, "{what}");
        }
    }
}

fn nothing_drawn(backend: &dyn Backend) {
    let mut tree = Tree::new(4, &[1.0; 4]);
    tree.rebuild();
    tree.update(&[-1, 2, -1], &[5.0, 3.0, 5.0], 4, Rule::default());
    tree.scan();
    tree.program.run(backend);
    assert_eq!(tree.priorities(), [1.0, 1.0, 3.0, 1.0]);
    assert_eq!(f32::from_bits(tree.state().max_priority), 3.0);
}
