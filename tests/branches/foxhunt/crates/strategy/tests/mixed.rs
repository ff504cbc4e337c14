//! What holds for every kind of memory, and what for the device alone.

mod common;

use foxhunt_strategy::journal::{self, Journal};
use foxhunt_strategy::memory::{describe, into_device, open_all, recycle, roomiest};
use foxhunt_strategy::{OnlineTrainer, StrategyConfig, StrategyError};
use ml_dqn::ReplayBufferType;

type Opener = fn(usize) -> ReplayBufferType;

const KINDS: &[(&str, Opener)] = &[
    ("uniform", common::uniform),
    ("tree", common::tree), // slower, but closer to the device
];

#[test]
fn a_short_config_is_enough() {
    let config: StrategyConfig = "capacity = 32".parse().unwrap();
    assert_eq!(config.capacity, 32);
    assert_eq!(config.n_launches(1), 1);
}

#[test]
fn host_kinds_are_described() {
    for (name, open) in KINDS {
        let mut memory = open(32);
        common::fill(&mut memory, 40);
        assert!(describe(&memory).starts_with(name));
        assert_eq!(Journal::default().look(&memory, 8).unwrap(), 8);
    }
}

#[test]
fn the_device_is_described_and_emptied() {
    let Some(stream) = common::stream() else { return eprintln!("skipped: no CUDA device") };
    let config = StrategyConfig { capacity: 64, batch_size: 8, ..Default::default() };
    let mut memories = open_all(&config, &[stream]).unwrap();
    assert_eq!(describe(&memories[0]), "device, empty");
    common::fill(&mut memories[0], 40);
    assert!(memories[0].is_gpu(), "opened with a stream");
    assert_eq!(describe(&memories[0]), "device, 40 of 64");
    assert_eq!(roomiest(&memories).map(|gpu| gpu.len()), Some(40));

    let mut journal = Journal::default();
    assert_eq!(journal.look(&memories[0], 8).unwrap(), 8);
    let seen: journal::Seen = vec![(0, None), (1, memories[0].sample(4).ok())];
    assert_eq!((journal.n_draws(), journal::rows(&seen)), (1, 4));

    let kept = recycle(memories, 0.5);
    assert!(kept.iter().all(|gpu| gpu.is_empty()));
}

#[test]
fn a_device_memory_needs_a_stream() {
    let Some(stream) = common::stream() else { return eprintln!("skipped: no CUDA device") };
    let memory = foxhunt_strategy::device_memory!(64, 5, stream).unwrap();
    let err = OnlineTrainer::new(&StrategyConfig::default(), memory, None).err();
    assert!(matches!(err, Some(StrategyError::NoDevice)));
}

#[test]
fn the_host_s_is_no_device_memory() {
    let refused = into_device(common::tree(8));
    assert!(refused.is_err_and(|why| why.contains("tree")));
}
