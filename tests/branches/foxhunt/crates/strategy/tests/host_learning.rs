//! The strategy with a memory on the host, over a day of paper trading.

use foxhunt_strategy::market::MeanRevertingMarket;
use foxhunt_strategy::memory::{self, Fill};
use foxhunt_strategy::{MeanReversion, OnlineTrainer, StrategyConfig};
use ml_dqn::{PrioritizedReplayConfig, ReplayBufferConfig, ReplayBufferType};

fn config() -> StrategyConfig {
    "window = 10\ncapacity = 500\nbatch_size = 32\nupdate_every = 16\nmax_loss = 1000".parse().unwrap()
}

#[test]
fn a_day_with_the_tree() {
    let config = config();
    let memory = ReplayBufferType::prioritized(PrioritizedReplayConfig {
        capacity: config.capacity,
        ..Default::default()
    });
    let trainer = OnlineTrainer::new(&config, memory, None).unwrap();
    let mut strategy = MeanReversion::new(config, trainer);
    for bar in MeanRevertingMarket::new(50.0, 77).take(1_440) {
        let position = strategy.on_bar(bar).unwrap();
        assert!(position.abs() <= 1.0);
    }
    assert!(strategy.n_trades() > 10);
    assert_eq!(strategy.memory().fill(), 1.0);
    assert!(!strategy.learns_on_device());
    assert!(strategy.journal().places().iter().all(|&place| place == "tree"));
}

#[test]
fn an_hour_of_uniform_replay() {
    let config = config();
    let memory = ReplayBufferType::uniform(ReplayBufferConfig { capacity: config.capacity, seed: 5 });
    assert_eq!(memory::describe(&memory), "uniform, 0 of 500, about 0 KiB");
    let trainer = OnlineTrainer::new(&config, memory, None).unwrap();
    let mut strategy = MeanReversion::new(config, trainer);
    for bar in MeanRevertingMarket::new(20.0, 3).take(60) {
        strategy.on_bar(bar).unwrap();
    }
    assert_eq!(strategy.memory().len(), 50, "the first ten bars only fill the window");
}
