//! Gathers: `i64_to_u32`, `gather_u32`, `gather_f32`, `gather_states`, `gather_batch`.

use ml_dqn::launch::LaunchShape;
use ml_dqn::launch::per::{STATUS_ZERO_TOTAL, SUPER_SLOTS, shape};
use ml_dqn::oracle::per::{Step, normalized_weights, window};

use crate::cases::tree::{Rows, Tree};
use crate::cases::{Argument, Backend, Buffer, Case, Random, address, fields, value};

pub fn cases() -> Vec<Case> {
    vec![
        ("i64_to_u32/narrows", narrows),
        ("gather_u32_f32/fields_of_records", fields_of_records),
        ("gather_states/every_width_and_type", every_width_and_type),
        ("gather_batch/equals_its_parts", batch_equals_its_parts),
        ("gather_batch/n_step_by_hand", n_step_by_hand),
        (
            "gather_batch/n_step_equals_the_oracle",
            n_step_equals_the_oracle,
        ),
        ("gather_batch/nothing_drawn", nothing_drawn),
        (
            "sample_batch/equals_its_parts",
            sample_batch_equals_its_parts,
        ),
        (
            "sample_batch/over_super_groups",
            sample_batch_over_super_groups,
        ),
        ("sample_batch/nothing_to_draw", sample_batch_nothing_to_draw),
    ]
}

fn narrows(backend: &dyn Backend) {
    let mut tree = Tree::new(1, &[1.0]);
    let index = tree
        .program
        .buffer(&[0i64, 1, -1, 24_699_999, 0xffff_fffe, 0xffff_ffff, 1 << 40]);
    let out: Buffer<u32> = tree.program.unwritten(7);
    tree.program.launch(
        "i64_to_u32",
        shape::rows(7),
        vec![address(index), value(7u32), address(out)],
    );
    tree.program.run(backend);
    let none = u32::MAX;
    assert_eq!(
        tree.program.read(out),
        [0, 1, none, 24_699_999, 0xffff_fffe, none, none]
    );
}

/// Rows whose every value tells which it is.
pub fn telling_rows(first: usize, count: usize, state_dim: usize) -> Rows {
    let state = |row: usize, next: bool| {
        (0..state_dim).map(move |c| (row * 1000 + c) as f32 + if next { 0.5 } else { 0.0 })
    };
    let rows = first..first + count;
    Rows {
        states: rows.clone().flat_map(|row| state(row, false)).collect(),
        next_states: rows.clone().flat_map(|row| state(row, true)).collect(),
        actions: rows.clone().map(|row| row as u32 % 45).collect(),
        rewards: rows.clone().map(|row| row as f32 / 8.0).collect(),
        terminated: rows.clone().map(|row| u8::from(row % 5 == 4)).collect(),
        truncated: rows.clone().map(|row| u8::from(row % 7 == 6)).collect(),
        env_ids: vec![0; count],
    }
}

fn fields_of_records(backend: &dyn Backend) {
    let mut tree = Tree::with_states(50, &[], 5, false, 1);
    tree.push(&telling_rows(0, 50, 5), 0, false);
    let slots = [49i64, 0, -1, 7, 7];
    let index = tree.program.buffer(&slots);
    let actions: Buffer<u32> = tree.program.unwritten(5);
    let rewards: Buffer<f32> = tree.program.unwritten(5);
    let layout = tree.layout_argument();
    for (kernel, word, out) in [
        ("gather_u32", tree.layout.action_word(), address(actions)),
        ("gather_f32", tree.layout.reward_word(), address(rewards)),
    ] {
        let arguments = vec![
            address(index),
            value(5u32),
            address(tree.records),
            layout.clone(),
            value(word),
            out,
        ];
        tree.program.launch(kernel, shape::rows(5), arguments);
    }
    tree.program.run(backend);
    assert_eq!(tree.program.read(actions), [4, 0, 0, 7, 7]);
    assert_eq!(
        tree.program.read(rewards),
        [49.0 / 8.0, 0.0, 0.0, 7.0 / 8.0, 7.0 / 8.0]
    );
}

/// bf16 to nearest, ties to even, as the kernels round.
fn bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

fn every_width_and_type(backend: &dyn Backend) {
    for state_dim in [1, 3, 4, 5, 80] {
        for stored_bf16 in [false, true] {
            let mut tree = Tree::with_states(40, &[], state_dim, stored_bf16, 1);
            let rows = telling_rows(0, 40, state_dim);
            tree.push(&rows, 0, false);
            let slots = [39i64, 0, -1, 17];
            let index = tree.program.buffer(&slots);
            let layout = tree.layout_argument();
            let mut outs = Vec::new();
            for which in 0..2u32 {
                for out_bf16 in [false, true] {
                    let components = slots.len() * state_dim;
                    let wide: Buffer<f32> = tree.program.unwritten(components);
                    let half: Buffer<u16> = tree.program.unwritten(components);
                    let out = if out_bf16 {
                        address(half)
                    } else {
                        address(wide)
                    };
                    let arguments = vec![
                        address(index),
                        value(slots.len() as u32),
                        address(tree.records),
                        layout.clone(),
                        value(which),
                        value(u32::from(out_bf16)),
                        out,
                    ];
                    // One block, so that the kernel must stride.
                    let one = LaunchShape {
                        grid: 1,
                        block: 256,
                    };
                    tree.program.launch("gather_states", one, arguments);
                    outs.push((which, out_bf16, wide, half));
                }
            }
            tree.program.run(backend);
            for (which, out_bf16, wide, half) in outs {
                let got: Vec<f32> = if out_bf16 {
                    let halves = tree.program.read(half);
                    halves
                        .iter()
                        .map(|&h| f32::from_bits(u32::from(h) << 16))
                        .collect()
                } else {
                    tree.program.read(wide)
                };
                let source = if which == 0 {
                    &rows.states
                } else {
                    &rows.next_states
                };
                let expected = slots
                    .iter()
                    .flat_map(|&slot| (0..state_dim).map(move |c| (slot, c)));
                for (got, (slot, component)) in got.iter().zip(expected) {
                    let mut value = if slot < 0 {
                        0.0
                    } else {
                        source[slot as usize * state_dim + component]
                    };
                    if stored_bf16 || out_bf16 {
                        value = bf16(value);
                    }
                    assert_eq!(
                        *got, value,
                        "{state_dim} components, stored as bf16: {stored_bf16}, given as bf16: {out_bf16}, \
                         array {which}, slot {slot}, component {component}"
                    );
                }
            }
        }
    }
}

/// The buffers of one gathered batch.
struct Gathered {
    states: Buffer<f32>,
    next_states: Buffer<f32>,
    actions: Buffer<u32>,
    rewards: Buffer<f32>,
    dones: Buffer<f32>,
    weights: Buffer<f32>,
    step_counts: Buffer<u32>,
}

/// Unwritten arrays for a batch, and the `GatherBatch` that names them.
fn batch_of(
    tree: &mut Tree,
    index: Buffer<i64>,
    drawn: Buffer<f32>,
    n: usize,
    n_steps: u32,
    gamma: f32,
) -> (Gathered, Argument) {
    let state_dim = tree.layout.state_dim as usize;
    let out = Gathered {
        states: tree.program.unwritten(n * state_dim),
        next_states: tree.program.unwritten(n * state_dim),
        actions: tree.program.unwritten(n),
        rewards: tree.program.unwritten(n),
        dones: tree.program.unwritten(n),
        weights: tree.program.unwritten(n),
        step_counts: tree.program.unwritten(n),
    };
    let batch = fields([
        address(index),
        address(drawn),
        address(out.states),
        address(out.next_states),
        address(out.actions),
        address(out.rewards),
        address(out.dones),
        address(out.weights),
        address(out.step_counts),
        value(n as u32),
        value(n_steps),
        value(gamma),
        value(0u32),
    ]);
    (out, batch)
}

fn gather(
    tree: &mut Tree,
    index: Buffer<i64>,
    drawn: Buffer<f32>,
    n: usize,
    n_steps: u32,
    gamma: f32,
) -> Gathered {
    let (out, batch) = batch_of(tree, index, drawn, n, n_steps, gamma);
    let layout = tree.layout_argument();
    let arguments = vec![batch, address(tree.records), layout, address(tree.state)];
    let shape = shape::gather_batch(n, tree.layout.state_dim as usize);
    tree.program.launch("gather_batch", shape, arguments);
    out
}

/// One pass gives what drawing and gathering one after the other give, bit for bit.
fn sample_batch_equals_its_parts(backend: &dyn Backend) {
    for (state_dim, bf16, n_steps, batch) in [
        (80, false, 1, 130),
        (3, false, 3, 7),
        (5, true, 2, 64),
        (1, false, 1, 1),
        (80, true, 4, 33),
    ] {
        let n = 900;
        let build = || {
            let mut tree = Tree::with_states(n, &[], state_dim, bf16, 1);
            tree.push(&telling_rows(0, n, state_dim), 0, false);
            let slots: Vec<i64> = (0..n as i64).collect();
            let td_errors: Vec<f32> = Random(3).units(n).iter().map(|u| u + 0.01).collect();
            tree.update(&slots, &td_errors, n as u64, Default::default());
            tree.scan_for_a_draw();
            tree
        };
        let mut apart = build();
        apart.total();
        let (index, drawn, ..) = apart.sample(batch);
        let parts = gather(&mut apart, index, drawn, batch, n_steps, 0.9);
        apart.program.run(backend);
        let mut tree = build();
        let (one_index, one_drawn) = (tree.program.unwritten(batch), tree.program.unwritten(batch));
        let (whole, argument) = batch_of(&mut tree, one_index, one_drawn, batch, n_steps, 0.9);
        let status = tree.sample_batch(argument, batch);
        tree.program.run(backend);
        let what = format!("{state_dim} components, bf16 {bf16}, {n_steps} steps, {batch} rows");
        assert_eq!(
            tree.program.read(one_index),
            apart.program.read(index),
            "{what}: slots"
        );
        let pairs = [
            (one_drawn, drawn),
            (whole.states, parts.states),
            (whole.next_states, parts.next_states),
            (whole.rewards, parts.rewards),
            (whole.dones, parts.dones),
        ];
        for (array, (one, other)) in pairs.into_iter().enumerate() {
            assert_eq!(
                tree.program.read(one),
                apart.program.read(other),
                "{what}: array {array}"
            );
        }
        for (one, other) in [
            (whole.actions, parts.actions),
            (whole.step_counts, parts.step_counts),
        ] {
            assert_eq!(
                tree.program.read(one),
                apart.program.read(other),
                "{what}: actions, counts"
            );
        }
        assert_eq!(tree.program.read(status), [0]);
        assert_eq!(
            tree.state().min_drawn,
            apart.state().min_drawn,
            "{what}: smallest priority"
        );
        assert_eq!(tree.state().next_draw, 1);
        assert_eq!(tree.state().total, apart.state().total, "{what}: total");
    }
}

/// The mass lies in the first and the last of three super-groups, and each is found by the ends that the draw adds up itself.
fn sample_batch_over_super_groups(backend: &dyn Backend) {
    let n = 2 * SUPER_SLOTS + 77;
    let build = || {
        let mut tree = Tree::with_states(n, &vec![0.0; n], 1, false, 1);
        let slots: Vec<i64> = [0, 5, SUPER_SLOTS - 1, 2 * SUPER_SLOTS, n - 1]
            .map(|slot| slot as i64)
            .to_vec();
        let td_errors = [0.5, 2.0, 1.0, 0.25, 3.0];
        tree.update(&slots, &td_errors, n as u64, Default::default());
        tree.scan_for_a_draw();
        (tree, slots)
    };
    let batch = 64;
    let (mut apart, slots) = build();
    apart.total();
    let (index, drawn, ..) = apart.sample(batch);
    apart.program.run(backend);
    let (mut tree, _) = build();
    let (one_index, one_drawn) = (tree.program.unwritten(batch), tree.program.unwritten(batch));
    let (_, argument) = batch_of(&mut tree, one_index, one_drawn, batch, 1, 0.9);
    let status = tree.sample_batch(argument, batch);
    tree.program.run(backend);
    let found = tree.program.read(one_index);
    assert_eq!(found, apart.program.read(index));
    assert_eq!(tree.program.read(one_drawn), apart.program.read(drawn));
    assert_eq!(tree.program.read(status), [0]);
    assert_eq!(tree.state().total, apart.state().total);
    let mut distinct = found;
    distinct.dedup();
    assert_eq!(distinct, slots, "each has its share");
}

fn sample_batch_nothing_to_draw(backend: &dyn Backend) {
    let mut tree = Tree::with_states(9, &[0.0; 9], 3, false, 1);
    tree.scan_for_a_draw();
    let (index, drawn) = (tree.program.unwritten(5), tree.program.unwritten(5));
    let (out, argument) = batch_of(&mut tree, index, drawn, 5, 2, 0.9);
    let status = tree.sample_batch(argument, 5);
    tree.program.run(backend);
    assert_eq!(tree.program.read(index), [-1; 5]);
    assert_eq!(tree.program.read(drawn), [0.0; 5]);
    assert_eq!(tree.program.read(out.states), [0.0; 15]);
    assert_eq!(tree.program.read(out.next_states), [0.0; 15]);
    assert_eq!(
        tree.program.read(out.dones),
        [1.0; 5],
        "nothing is bootstrapped from"
    );
    assert_eq!(tree.program.read(out.step_counts), [0; 5]);
    assert_eq!(tree.program.read(status), [STATUS_ZERO_TOTAL]);
    assert_eq!(tree.state().status, STATUS_ZERO_TOTAL, "the host is told");
}

fn batch_equals_its_parts(backend: &dyn Backend) {
    for state_dim in [2, 3, 80] {
        let (n, batch) = (700, 129);
        let mut tree = Tree::with_states(n, &[], state_dim, false, 1);
        let rows = telling_rows(0, n, state_dim);
        tree.push(&rows, 0, false);
        // Other priorities than those that inserting gave.
        let mut random = Random(4);
        let slots: Vec<i64> = (0..n as i64).collect();
        let td_errors: Vec<f32> = (0..n).map(|_| random.unit() + 0.01).collect();
        tree.update(&slots, &td_errors, n as u64, Default::default());
        tree.scan();
        let (index, drawn, ..) = tree.sample(batch);
        let out = gather(&mut tree, index, drawn, batch, 1, 0.9);
        let weight = tree.weights(drawn, batch, true);
        tree.program.run(backend);
        let slots = tree.program.read(index);
        let read = |buffer| tree.program.read(buffer);
        let (states, next_states) = (read(out.states), read(out.next_states));
        let (rewards, dones) = (read(out.rewards), read(out.dones));
        let actions = tree.program.read(out.actions);
        for (row, &slot) in slots.iter().enumerate() {
            let slot = slot as usize;
            let (here, there) = (row * state_dim, slot * state_dim);
            assert_eq!(
                states[here..here + state_dim],
                rows.states[there..there + state_dim]
            );
            assert_eq!(
                next_states[here..here + state_dim],
                rows.next_states[there..there + state_dim]
            );
            assert_eq!(actions[row], rows.actions[slot]);
            assert_eq!(rewards[row], rows.rewards[slot]);
            assert_eq!(
                dones[row],
                f32::from(rows.terminated[slot]),
                "a truncated step is not done"
            );
        }
        assert_eq!(
            read(out.weights),
            read(weight),
            "weights are those of is_weights"
        );
        assert_eq!(tree.program.read(out.step_counts), vec![1; batch]);
        let drawn = read(drawn);
        let oracle = normalized_weights(&drawn, n, tree.state().total, 0.4);
        for (weight, expected) in read(out.weights).iter().zip(oracle) {
            assert!((f64::from(*weight) - expected).abs() < 1e-5);
        }
    }
}

fn row(reward: f32, terminated: bool, truncated: bool, env_id: u32) -> Rows {
    Rows {
        states: vec![reward],
        next_states: vec![reward + 100.0],
        actions: vec![0],
        rewards: vec![reward],
        terminated: vec![u8::from(terminated)],
        truncated: vec![u8::from(truncated)],
        env_ids: vec![env_id],
    }
}

fn append(rows: &mut Rows, mut more: Rows) {
    rows.states.append(&mut more.states);
    rows.next_states.append(&mut more.next_states);
    rows.actions.append(&mut more.actions);
    rows.rewards.append(&mut more.rewards);
    rows.terminated.append(&mut more.terminated);
    rows.truncated.append(&mut more.truncated);
    rows.env_ids.append(&mut more.env_ids);
}

/// Windows that begin at each row: reward, steps, done, next state.
fn windows(
    backend: &dyn Backend,
    steps: &[(f32, bool, bool)],
    n_steps: u32,
    gamma: f32,
) -> Vec<(f32, u32, f32, f32)> {
    let mut rows = Rows::default();
    for &(reward, terminated, truncated) in steps {
        append(&mut rows, row(reward, terminated, truncated, 0));
    }
    let n = steps.len();
    let mut tree = Tree::new(n + 3, &[]);
    tree.push(&rows, 0, false);
    let index = tree.program.buffer(&(0..n as i64).collect::<Vec<_>>());
    let drawn = tree.program.buffer(&vec![1.0f32; n]);
    let out = gather(&mut tree, index, drawn, n, n_steps, gamma);
    tree.program.run(backend);
    let rewards = tree.program.read(out.rewards);
    let counts = tree.program.read(out.step_counts);
    let dones = tree.program.read(out.dones);
    let next = tree.program.read(out.next_states);
    (0..n)
        .map(|i| (rewards[i], counts[i], dones[i], next[i]))
        .collect()
}

fn n_step_by_hand(backend: &dyn Backend) {
    let open = |reward| (reward, false, false);
    // younggyoseo/FastTD3 issue 6: a window ends with its episode, and does not take the next one's reward.
    let w = windows(
        backend,
        &[open(1.0), (2.0, true, false), open(4.0), open(8.0)],
        3,
        0.5,
    );
    assert_eq!(w[0], (2.0, 2, 1.0, 102.0));
    assert_eq!(w[1], (2.0, 1, 1.0, 102.0));
    assert_eq!(w[2], (8.0, 2, 0.0, 108.0));
    // ray issue 4626: cut after two steps, so the bootstrap's factor is gamma^2, and it bootstraps.
    let w = windows(backend, &[open(1.0), (1.0, false, true)], 3, 0.9);
    assert_eq!((w[0].1, w[0].2), (2, 0.0));
    assert!((w[0].0 - 1.9).abs() < 1e-6);
    let target = w[0].0 + 0.9f32.powi(w[0].1 as i32) * 10.0;
    assert!((target - 10.0).abs() < 1e-5, "{target}");
    // cleanrl's rainbow: the tails of an episode are transitions too.
    let episode = [
        open(1.0),
        open(1.0),
        open(1.0),
        open(1.0),
        (1.0, true, false),
    ];
    let w = windows(backend, &episode, 3, 1.0);
    let counts: Vec<u32> = w.iter().map(|w| w.1).collect();
    let dones: Vec<f32> = w.iter().map(|w| w.2).collect();
    assert_eq!(counts, [3, 3, 3, 2, 1]);
    assert_eq!(dones, [0.0, 0.0, 1.0, 1.0, 1.0]);
}

/// Several environments, pushed in batches of random sizes around the ring several times.
fn n_step_equals_the_oracle(backend: &dyn Backend) {
    for (seed, n_envs, capacity) in [
        (1u64, 1usize, 64usize),
        (2, 3, 100),
        (3, 300, 1000),
        (4, 2, 5),
    ] {
        let mut random = Random(seed);
        let mut tree = Tree::with_states(capacity, &[], 1, false, n_envs);
        let mut log: Vec<Step> = Vec::new();
        while log.len() < 3 * capacity + 7 {
            let count = 1 + random.below((capacity / 2).clamp(1, 300));
            let mut rows = Rows::default();
            let first = log.len() as u64;
            for _ in 0..count {
                let step = Step {
                    env_id: random.below(n_envs) as u32,
                    reward: (log.len() % 1000) as f32,
                    terminated: random.below(9) == 0,
                    truncated: random.below(9) == 0,
                };
                append(
                    &mut rows,
                    row(step.reward, step.terminated, step.truncated, step.env_id),
                );
                log.push(step);
            }
            tree.push(&rows, first, false);
        }
        let index = tree
            .program
            .buffer(&(0..capacity as i64).collect::<Vec<_>>());
        let drawn = tree.program.buffer(&vec![1.0f32; capacity]);
        let out = gather(&mut tree, index, drawn, capacity, 4, 0.75);
        tree.program.run(backend);
        let rewards = tree.program.read(out.rewards);
        let next_states = tree.program.read(out.next_states);
        let counts = tree.program.read(out.step_counts);
        let dones = tree.program.read(out.dones);
        let newest = log.len() - 1;
        for slot in 0..capacity {
            let start = newest - (newest - slot) % capacity;
            let (reward, last, count, terminal) = window(&log, start, 4, 0.75);
            let what = format!("seed {seed}, slot {slot}, row {start}");
            assert!(
                (f64::from(rewards[slot]) - reward).abs() < 1e-3,
                "{what}: {} {reward}",
                rewards[slot]
            );
            assert_eq!(counts[slot], count, "{what}: steps");
            assert_eq!(dones[slot] == 1.0, terminal, "{what}: done");
            assert_eq!(
                next_states[slot],
                log[last].reward + 100.0,
                "{what}: next state"
            );
        }
    }
}

fn nothing_drawn(backend: &dyn Backend) {
    let mut tree = Tree::with_states(9, &[0.0; 9], 3, false, 1);
    tree.rebuild();
    let (index, drawn, ..) = tree.sample(4);
    let out = gather(&mut tree, index, drawn, 4, 3, 0.9);
    tree.program.run(backend);
    assert_eq!(tree.program.read(out.states), [0.0; 12]);
    assert_eq!(tree.program.read(out.next_states), [0.0; 12]);
    assert_eq!(tree.program.read(out.rewards), [0.0; 4]);
    assert_eq!(
        tree.program.read(out.dones),
        [1.0; 4],
        "nothing is bootstrapped from"
    );
    assert_eq!(tree.program.read(out.weights), [0.0; 4]);
    assert_eq!(tree.program.read(out.actions), [0; 4]);
    assert_eq!(tree.program.read(out.step_counts), [0; 4]);
}
