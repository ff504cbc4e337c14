//! The buffer as a user meets it, one stream, no graphs.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{
    BadTdError, DeviceSteps, DqnAgent, DqnConfig, DqnError, Experience, GpuBatchPtrs,
    GpuReplayBuffer, GpuReplayBufferConfig, HostSteps, ReplayOptions, StateType,
};

use crate::Test;
use crate::cases::Random;

pub fn tests() -> Vec<Test> {
    vec![
        (
            "buffer/a_push_larger_than_the_buffer",
            larger_than_the_buffer,
        ),
        ("buffer/too_little_data", too_little_data),
        ("buffer/at_most_three_batches", at_most_three_batches),
        (
            "buffer/a_held_batch_is_never_overwritten",
            held_batches_stay,
        ),
        ("buffer/updates_by_name_and_number", updates),
        ("buffer/bad_td_errors_are_counted", bad_td_errors),
        ("buffer/stale_rows_are_passed_over", stale_rows),
        ("buffer/two_updates_between_draws", two_updates),
        ("buffer/all_zero_is_told_once", all_zero),
        ("buffer/clear", clear),
        ("buffer/beta", beta),
        ("buffer/host_and_device_steps_agree", host_and_device_steps),
        ("buffer/bf16_states", bf16_states),
        ("buffer/saved_and_restored", saved_and_restored),
        ("buffer/damaged_and_foreign_files", damaged_files),
        ("buffer/same_seed_same_indices", same_seed),
        ("buffer/agent_holds_it", agent),
        ("buffer/too_little_memory_is_told_before", too_little_memory),
        ("buffer/misuse_is_told", misuse),
    ]
}

pub fn config(capacity: usize, state_dim: usize) -> GpuReplayBufferConfig {
    GpuReplayBufferConfig {
        capacity,
        state_dim,
        alpha: 1.0,
        beta: 0.4,
    }
}

pub fn options(change: impl FnOnce(&mut ReplayOptions)) -> ReplayOptions {
    let mut options = ReplayOptions::default();
    options.eps = 0.0;
    options.min_size = Some(1);
    change(&mut options);
    options
}

pub fn buffer(stream: &Arc<CudaStream>, capacity: usize, state_dim: usize) -> GpuReplayBuffer {
    GpuReplayBuffer::with_options(
        config(capacity, state_dim),
        options(|_| {}),
        Arc::clone(stream),
    )
    .unwrap()
}

/// Rows that tell which they are: states and rewards are their number.
pub fn numbered(rows: std::ops::Range<usize>, state_dim: usize) -> Vec<Experience> {
    rows.map(|row| Experience {
        state: vec![row as f32; state_dim],
        action: row as u32,
        reward: row as f32,
        next_state: vec![row as f32 + 0.5; state_dim],
        done: row % 10 == 9,
    })
    .collect()
}

/// Sets the priorities of slots 0 to len - 1, with alpha 1 and eps 0, by drawing each of them.
pub fn set_priorities(buffer: &GpuReplayBuffer, priorities: &[f32]) {
    assert_eq!(buffer.len(), priorities.len());
    // Of equal priorities, as many draws as slots are each slot once; else the same again until all are equal.
    let batch = buffer.sample(priorities.len()).unwrap();
    let slots = batch.indices_to_host().unwrap();
    let td_errors: Vec<f32> = slots
        .iter()
        .map(|&slot| priorities[slot as usize])
        .collect();
    let td_errors = buffer.stream().clone_htod(&td_errors).unwrap();
    buffer.update_priorities_gpu(&batch, &td_errors).unwrap();
    assert_eq!(buffer.priorities_to_host().unwrap(), priorities);
}

fn larger_than_the_buffer(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 4, 3);
    memory.push_batch(&numbered(0..10, 3)).unwrap();
    assert_eq!(memory.len(), 4);
    // The last four, in ring order: slots 0 to 3 hold 8, 9, 6, 7.
    let batch = memory.sample(64).unwrap();
    let (slots, rewards) = (
        batch.indices_to_host().unwrap(),
        batch.rewards_to_host().unwrap(),
    );
    let states = batch.states_to_host().unwrap();
    for (row, (&slot, &reward)) in slots.iter().zip(&rewards).enumerate() {
        assert_eq!(reward, [8.0, 9.0, 6.0, 7.0][slot as usize]);
        assert_eq!(states[row * 3..row * 3 + 3], [reward; 3]);
    }
    memory.push(&numbered(10..11, 3)[0]).unwrap();
    let rewards = memory.sample(64).unwrap().rewards_to_host().unwrap();
    assert!(
        rewards.contains(&10.0) && !rewards.contains(&6.0),
        "the next push goes on at slot 2"
    );
    // More than the staging takes at a time.
    let mut memory = buffer(stream, 10_000, 2);
    memory.push_batch(&numbered(0..25_000, 2)).unwrap();
    let batch = memory.sample(10_000).unwrap();
    let slots = batch.indices_to_host().unwrap();
    for (slot, reward) in slots.iter().zip(batch.rewards_to_host().unwrap()) {
        let row = if *slot < 5000 {
            slot + 20_000
        } else {
            slot + 10_000
        };
        assert_eq!(reward, row as f32);
    }
}

fn too_little_data(stream: &Arc<CudaStream>) {
    let with = |min_size: Option<usize>, rows: usize| {
        let options = options(|options| options.min_size = min_size);
        let mut memory =
            GpuReplayBuffer::with_options(config(1000, 1), options, Arc::clone(stream)).unwrap();
        memory.push_batch(&numbered(0..rows, 1)).unwrap();
        memory
    };
    let refused = |memory: &GpuReplayBuffer, n: usize| match memory.sample(n) {
        Err(DqnError::NotEnoughData { have, need }) => {
            assert!(!memory.can_sample(n));
            (have, need)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&with(Some(1), 0), 64), (0, 1));
    assert_eq!(refused(&with(None, 0), 64), (0, 64));
    assert_eq!(refused(&with(None, 3), 64), (3, 64));
    assert_eq!(refused(&with(Some(100), 3), 64), (3, 100));
    // No draw was counted: no kernel ran.
    let memory = with(Some(100), 3);
    refused(&memory, 64);
    assert_eq!(memory.stats().unwrap().draws, 0);
    // Drawn with replacement, and never an unfilled slot.
    let memory = with(Some(1), 3);
    assert!(memory.can_sample(64));
    let mut slots = memory.sample(64).unwrap().indices_to_host().unwrap();
    slots.dedup();
    assert_eq!(slots, [0, 1, 2]);
}

fn at_most_three_batches(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 100, 1);
    memory.push_batch(&numbered(0..100, 1)).unwrap();
    let mut held: Vec<GpuBatchPtrs> = (0..3).map(|_| memory.sample(10).unwrap()).collect();
    let clone = held[1].clone();
    assert!(matches!(
        memory.sample(10),
        Err(DqnError::BatchesHeld { limit: 3 })
    ));
    held.remove(1);
    assert!(
        matches!(memory.sample(10), Err(DqnError::BatchesHeld { .. })),
        "a clone holds it too"
    );
    drop(clone);
    // A larger one takes the place of the free, smaller one.
    assert_eq!(memory.sample(50).unwrap().len(), 50);
}

fn held_batches_stay(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 1000, 4);
    memory.push_batch(&numbered(0..1000, 4)).unwrap();
    let held = memory.sample(100).unwrap();
    let before = (
        held.indices_to_host().unwrap(),
        held.states_to_host().unwrap(),
    );
    for round in 0..20 {
        let other = memory.sample(100).unwrap();
        assert_ne!(other.states(), held.states());
        memory
            .push_batch(&numbered(round * 100..round * 100 + 100, 4))
            .unwrap();
    }
    assert_eq!(
        (
            held.indices_to_host().unwrap(),
            held.states_to_host().unwrap()
        ),
        before
    );
}

fn updates(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 1000, 2);
    memory.push_batch(&numbered(0..4, 2)).unwrap();
    set_priorities(&memory, &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(memory.stats().unwrap().total_priority, 10.0);
    assert_eq!(memory.stats().unwrap().max_priority, 4.0);
    // A new transition gets the largest priority so far, once.
    memory.push(&numbered(4..5, 2)[0]).unwrap();
    assert_eq!(
        memory.priorities_to_host().unwrap(),
        [1.0, 2.0, 3.0, 4.0, 4.0]
    );
    // Frequencies of many draws, against the priorities.
    let mut counts = [0.0f64; 5];
    for _ in 0..200 {
        let batch = memory.sample(1).unwrap();
        counts[batch.indices_to_host().unwrap()[0] as usize] += 1.0;
        let weight = batch.weights_to_host().unwrap()[0];
        assert_eq!(weight, 1.0, "a batch of one");
    }
    let expected = [1.0, 2.0, 3.0, 4.0, 4.0].map(|p: f64| 200.0 * p / 14.0);
    let chi_square: f64 = counts
        .iter()
        .zip(expected)
        .map(|(c, e)| (c - e).powi(2) / e)
        .sum();
    // 4 degrees of freedom: 18.5 is passed with probability 0.001, and the seed is fixed.
    assert!(chi_square < 18.5, "{counts:?}");
}

fn bad_td_errors(stream: &Arc<CudaStream>) {
    for (rule, expected) in [(BadTdError::Refuse, 1.0), (BadTdError::UseMaximum, 8.0)] {
        let options = options(|options| options.bad_td_error = rule);
        let mut memory =
            GpuReplayBuffer::with_options(config(100, 1), options, Arc::clone(stream)).unwrap();
        memory.push_batch(&numbered(0..100, 1)).unwrap();
        let batch = memory.sample(100).unwrap();
        let mut td_errors = vec![8.0f32; 100];
        td_errors[0] = 1.0;
        let device = stream.clone_htod(&td_errors).unwrap();
        memory.update_priorities_gpu(&batch, &device).unwrap();
        td_errors[0] = f32::NAN;
        td_errors[50] = f32::INFINITY;
        let device = stream.clone_htod(&td_errors).unwrap();
        memory.update_priorities_gpu(&batch, &device).unwrap();
        let stats = memory.stats().unwrap();
        assert_eq!(stats.bad_td_errors, 2);
        assert_eq!(
            memory.priorities_to_host().unwrap()[0],
            expected,
            "{rule:?}"
        );
        assert_eq!(stats.total_priority, 8.0 * 99.0 + f64::from(expected));
    }
}

fn stale_rows(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 4, 1);
    memory.push_batch(&numbered(0..4, 1)).unwrap();
    let batch = memory.sample(4).unwrap();
    memory.push_batch(&numbered(4..6, 1)).unwrap();
    let td_errors = stream.clone_htod(&[99.0f32; 4]).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    assert_eq!(memory.priorities_to_host().unwrap(), [1.0, 1.0, 99.0, 99.0]);
    assert_eq!(memory.stats().unwrap().stale_rows, 2);
    // A whole ring later, and after a clear, all of it is stale.
    memory.push_batch(&numbered(6..14, 1)).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    assert_eq!(memory.stats().unwrap().stale_rows, 6);
    let batch = memory.sample(4).unwrap();
    memory.clear();
    memory.push_batch(&numbered(0..4, 1)).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    assert_eq!(memory.stats().unwrap().stale_rows, 10);
    assert_eq!(memory.priorities_to_host().unwrap(), [1.0; 4]);
}

/// The second update replaces the first, though no draw lies between them.
fn two_updates(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 1000, 1);
    memory.push_batch(&numbered(0..1000, 1)).unwrap();
    let batch = memory.sample(1000).unwrap();
    for value in [5.0f32, 2.0, 3.0] {
        let td_errors = stream.clone_htod(&vec![value; 1000]).unwrap();
        memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    }
    assert_eq!(memory.priorities_to_host().unwrap(), vec![3.0; 1000]);
    // An update, rows pushed over the same tiles, and a draw.
    let td_errors = stream.clone_htod(&vec![7.0f32; 1000]).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    memory.push_batch(&numbered(1000..1010, 1)).unwrap();
    let kept = memory.sums_to_host().unwrap();
    memory.rebuild_sums().unwrap();
    assert_eq!(memory.sums_to_host().unwrap(), kept);
    assert_eq!(memory.stats().unwrap().total_priority, 7000.0);
}

fn all_zero(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 8, 2);
    memory.push_batch(&numbered(0..8, 2)).unwrap();
    set_priorities(&memory, &[0.0; 8]);
    let batch = memory.sample(4).unwrap();
    assert!(matches!(
        batch.indices_to_host(),
        Err(DqnError::ZeroTotalPriority)
    ));
    assert!(matches!(
        batch.weights_to_host(),
        Err(DqnError::ZeroTotalPriority)
    ));
    assert!(matches!(
        memory.synchronize(),
        Err(DqnError::ZeroTotalPriority)
    ));
    memory.synchronize().unwrap();
    // A transition with mass makes it well again, and the updates of the empty batch change nothing.
    let td_errors = stream.clone_htod(&[5.0f32; 4]).unwrap();
    memory.update_priorities_gpu(&batch, &td_errors).unwrap();
    memory.push(&numbered(8..9, 2)[0]).unwrap();
    assert_eq!(memory.sample(4).unwrap().indices_to_host().unwrap(), [0; 4]);
    assert_eq!(memory.priorities_to_host().unwrap()[1..], [0.0; 7]);
}

fn clear(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 5, 1);
    memory.push_batch(&numbered(0..8, 1)).unwrap();
    memory.clear();
    assert!(memory.is_empty() && !memory.can_sample(1));
    assert!(matches!(
        memory.sample(1),
        Err(DqnError::NotEnoughData { have: 0, .. })
    ));
    memory.push_batch(&numbered(20..22, 1)).unwrap();
    let batch = memory.sample(10).unwrap();
    let mut rewards = batch.rewards_to_host().unwrap();
    rewards.dedup();
    assert_eq!(rewards, [20.0, 21.0]);
    let stats = memory.stats().unwrap();
    assert_eq!((stats.len, stats.total_priority), (2, 2.0));
}

fn beta(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10, 1);
    memory.push_batch(&numbered(0..2, 1)).unwrap();
    set_priorities(&memory, &[1.0, 4.0]);
    let weights = |memory: &GpuReplayBuffer| {
        let batch = memory.sample(10).unwrap();
        assert_eq!(batch.indices_to_host().unwrap()[2..], [1; 8]);
        batch.weights_to_host().unwrap()[9]
    };
    assert!((weights(&memory) - 0.574_349).abs() < 1e-5);
    memory.set_beta(1.0);
    assert_eq!((memory.beta(), weights(&memory)), (1.0, 0.25));
    memory.set_beta(f32::NAN);
    assert_eq!(
        (memory.beta(), weights(&memory)),
        (1.0, 0.25),
        "refused, with a warning"
    );
    memory.set_beta(0.0);
    assert_eq!(weights(&memory), 1.0);
}

fn host_and_device_steps(stream: &Arc<CudaStream>) {
    let (rows, dim, n_envs) = (777usize, 3usize, 5usize);
    let mut random = Random(3);
    let states = random.units(rows * dim);
    let next_states = random.units(rows * dim);
    let rewards = random.units(rows);
    let actions: Vec<u32> = (0..rows).map(|_| random.below(45) as u32).collect();
    let env_id: Vec<u32> = (0..rows).map(|_| random.below(n_envs) as u32).collect();
    let terminated: Vec<bool> = (0..rows).map(|_| random.below(8) == 0).collect();
    let truncated: Vec<bool> = (0..rows).map(|_| random.below(8) == 0).collect();
    let build = || {
        let options = options(|options| {
            options.n_envs = n_envs;
            options.n_steps = 3;
            options.gamma = 0.9;
        });
        GpuReplayBuffer::with_options(config(500, dim), options, Arc::clone(stream)).unwrap()
    };
    let mut from_host = build();
    let host = HostSteps {
        states: &states,
        actions: &actions,
        rewards: &rewards,
        next_states: &next_states,
        terminated: &terminated,
        truncated: &truncated,
        env_id: &env_id,
    };
    from_host.push_steps(host).unwrap();
    let mut from_device = build();
    let flags = |flags: &[bool]| {
        stream
            .clone_htod(&flags.iter().map(|&f| u8::from(f)).collect::<Vec<_>>())
            .unwrap()
    };
    let device = DeviceSteps {
        states: &stream.clone_htod(&states).unwrap(),
        actions: &stream.clone_htod(&actions).unwrap(),
        rewards: &stream.clone_htod(&rewards).unwrap(),
        next_states: &stream.clone_htod(&next_states).unwrap(),
        terminated: &flags(&terminated),
        truncated: &flags(&truncated),
        env_id: &stream.clone_htod(&env_id).unwrap(),
    };
    from_device.push_steps(device).unwrap();
    let batch = |memory: &GpuReplayBuffer| {
        let batch = memory.sample(500).unwrap();
        (
            batch.indices_to_host().unwrap(),
            batch.states_to_host().unwrap(),
            batch.next_states_to_host().unwrap(),
            batch.rewards_to_host().unwrap(),
            batch.dones_to_host().unwrap(),
            batch.actions_to_host().unwrap(),
            batch.step_counts_to_host().unwrap(),
        )
    };
    let drawn = batch(&from_host);
    assert_eq!(drawn, batch(&from_device));
    assert!(drawn.6.contains(&3) && drawn.6.contains(&1));
    // The rows are those that were pushed last.
    for (slot, state) in drawn.0.iter().zip(drawn.1.chunks(dim)) {
        let slot = *slot as usize;
        let row = if slot < 277 { slot + 500 } else { slot };
        assert_eq!(state, &states[row * dim..(row + 1) * dim]);
    }
}

fn bf16_states(stream: &Arc<CudaStream>) {
    let value = 1.003_906_2f32; // halfway between two bf16 numbers; ties go to even: 1.0
    for (stored, given) in [
        (StateType::Bf16, StateType::F32),
        (StateType::F32, StateType::Bf16),
        (StateType::Bf16, StateType::Bf16),
    ] {
        let options = options(|options| {
            options.stored_states = stored;
            options.batch_states = given;
        });
        let mut memory =
            GpuReplayBuffer::with_options(config(10, 5), options, Arc::clone(stream)).unwrap();
        let row = Experience {
            state: vec![value, 2.0, -3.5, 1e30, 0.1],
            next_state: vec![0.0; 5],
            ..Experience::default()
        };
        memory.push(&row).unwrap();
        let batch = memory.sample(2).unwrap();
        assert_eq!(batch.state_type(), given);
        let states = batch.states_to_host().unwrap();
        assert_eq!(states[5..8], [1.0, 2.0, -3.5]);
        assert!((states[9] - 0.1).abs() < 0.1 / 256.0);
    }
}

fn saved_and_restored(stream: &Arc<CudaStream>) {
    // In the middle of a ring, at its very end, and half filled; with n-step windows open across the save.
    for pushed in [23usize, 20, 7] {
        let build = || {
            let options = options(|options| {
                options.n_steps = 3;
                options.seed = 9;
            });
            GpuReplayBuffer::with_options(config(10, 3), options, Arc::clone(stream)).unwrap()
        };
        let mut memory = build();
        memory.push_batch(&numbered(0..pushed, 3)).unwrap();
        memory.set_beta(0.7);
        let batch = memory.sample(8).unwrap();
        let td_errors = stream.clone_htod(&Random(4).units(8)).unwrap();
        memory.update_priorities_gpu(&batch, &td_errors).unwrap();
        let mut file = Vec::new();
        memory.save(&mut file).unwrap();
        let mut again = build();
        again.push_batch(&numbered(0..2, 3)).unwrap();
        again.restore(&mut file.as_slice()).unwrap();
        assert_eq!((again.len(), again.beta()), (memory.len(), 0.7));
        let bits = |memory: &GpuReplayBuffer| {
            memory
                .priorities_to_host()
                .unwrap()
                .iter()
                .map(|p| p.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&again), bits(&memory));
        assert_eq!(again.stats().unwrap(), memory.stats().unwrap());
        // From here on both go the same way.
        for round in 0..3 {
            let draw = |memory: &GpuReplayBuffer| {
                let batch = memory.sample(1000).unwrap();
                (
                    batch.indices_to_host().unwrap(),
                    batch.rewards_to_host().unwrap(),
                    batch.weights_to_host().unwrap(),
                    batch.step_counts_to_host().unwrap(),
                )
            };
            assert_eq!(draw(&again), draw(&memory));
            let more = numbered(100 + round * 4..104 + round * 4, 3);
            memory.push_batch(&more).unwrap();
            again.push_batch(&more).unwrap();
        }
        assert!(
            again.update_priorities_gpu(&batch, &td_errors).is_err(),
            "drawn from another buffer"
        );
    }
}

fn damaged_files(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10, 3);
    memory.push_batch(&numbered(0..10, 3)).unwrap();
    let mut file = Vec::new();
    memory.save(&mut file).unwrap();
    let mut larger = buffer(stream, 11, 3);
    larger.push_batch(&numbered(0..4, 3)).unwrap();
    let refused = larger.restore(&mut file.as_slice());
    assert!(matches!(
        refused,
        Err(DqnError::CapacityMismatch {
            saved: 10,
            here: 11
        })
    ));
    assert_eq!(larger.len(), 4, "nothing has changed");
    let mut other = buffer(stream, 10, 3);
    assert!(matches!(
        other.restore(&mut &b"something else"[..]),
        Err(DqnError::Checkpoint(_))
    ));
    let mut damaged = file.clone();
    let at = damaged.len() - 100;
    damaged[at] ^= 1;
    assert!(matches!(
        other.restore(&mut damaged.as_slice()),
        Err(DqnError::Checkpoint(_))
    ));
    assert!(other.is_empty());
    assert!(matches!(
        other.restore(&mut &file[..file.len() - 9]),
        Err(DqnError::Io(_))
    ));
    assert!(other.is_empty());
    other.restore(&mut file.as_slice()).unwrap();
    assert_eq!(other.len(), 10);
}

fn same_seed(stream: &Arc<CudaStream>) {
    let draws = |seed: u64| {
        let options = options(|options| options.seed = seed);
        let mut memory =
            GpuReplayBuffer::with_options(config(1000, 1), options, Arc::clone(stream)).unwrap();
        memory.push_batch(&numbered(0..1000, 1)).unwrap();
        let mut all = Vec::new();
        for _ in 0..5 {
            let batch = memory.sample(100).unwrap();
            let td_errors = stream
                .clone_htod(&batch.rewards_to_host().unwrap())
                .unwrap();
            memory.update_priorities_gpu(&batch, &td_errors).unwrap();
            all.extend(batch.indices_to_host().unwrap());
        }
        all
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
}

fn agent(stream: &Arc<CudaStream>) {
    let dqn = DqnConfig {
        state_dim: 3,
        num_actions: 2,
        batch_size: 4,
        gamma: 0.9,
    };
    let mut agent = DqnAgent::new(dqn.clone(), buffer(stream, 10, 3)).unwrap();
    agent.memory_mut().push_batch(&numbered(0..10, 3)).unwrap();
    assert_eq!(agent.sample(4).unwrap().len(), 4);
    assert_eq!(agent.memory().sample(4).unwrap().state_dim(), 3);
    assert!(
        agent
            .q_values(&vec![0.0; 3])
            .unwrap_err()
            .to_string()
            .contains("set_network")
    );
    let error = DqnAgent::new(dqn.clone(), buffer(stream, 10, 4))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`DqnConfig::state_dim` is 3, the replay buffer's 4"),
        "{error}"
    );
    let three_steps = options(|options| options.n_steps = 3);
    let memory =
        GpuReplayBuffer::with_options(config(10, 3), three_steps, Arc::clone(stream)).unwrap();
    let error = DqnAgent::new(dqn, memory).unwrap_err().to_string();
    assert!(
        error.contains("3-step returns need one discount"),
        "{error}"
    );
}

fn too_little_memory(stream: &Arc<CudaStream>) {
    let huge = config(u32::MAX as usize, 1 << 16);
    let free = || stream.context().mem_get_info().unwrap().0;
    let before = free();
    let error = GpuReplayBuffer::new(huge, Arc::clone(stream))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("not enough GPU memory for the replay buffer"),
        "{error}"
    );
    assert_eq!(free(), before, "nothing was allocated");
}

fn misuse(stream: &Arc<CudaStream>) {
    let mut memory = buffer(stream, 10, 3);
    memory.push_batch(&numbered(0..10, 3)).unwrap();
    let batch = memory.sample(5).unwrap();
    let refused = |result: Result<(), DqnError>| result.unwrap_err().to_string();
    let short = stream.clone_htod(&[1.0f32; 4]).unwrap();
    let error = refused(memory.update_priorities_gpu(&batch, &short));
    assert!(
        error.contains("`td_errors` holds 4 values, the batch has 5 rows"),
        "{error}"
    );
    let error = memory.update_priorities_gpu(&GpuBatchPtrs::default(), &short);
    assert!(matches!(error, Err(DqnError::EmptyBatch)));
    let other = buffer(stream, 10, 3);
    let long = stream.clone_htod(&[1.0f32; 5]).unwrap();
    assert!(refused(other.update_priorities_gpu(&batch, &long)).contains("another buffer"));
    let mut wrong = numbered(0..2, 3);
    wrong[1].next_state.pop();
    assert!(refused(memory.push_batch(&wrong)).contains("`next_state` has 2 components"));
    assert_eq!(memory.len(), 10);
    assert!(memory.sample(0).is_err());
    assert!(
        memory
            .sample(1 << 17)
            .unwrap_err()
            .to_string()
            .contains("max_batch")
    );
}
