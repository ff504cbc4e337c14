//! Trades against a simulated market, with a memory on the host. Runs anywhere.

use foxhunt_strategy::prelude::*;
use ml_dqn::prioritized_replay::{PrioritizedReplayBuffer, PrioritizedReplayConfig};

fn main() -> Result<(), StrategyError> {
    let config = StrategyConfig { capacity: 4_096, ..Default::default() };
    let tree = PrioritizedReplayBuffer::new(PrioritizedReplayConfig {
        capacity: config.capacity,
        ..Default::default()
    });
    let memory = ReplayBufferType::Prioritized(Box::new(tree));
    let trainer = OnlineTrainer::new(&config, memory, None)?;
    let mut strategy = MeanReversion::new(config, trainer);
    for bar in MeanRevertingMarket::new(100.0, 9).take(10_000) {
        strategy.on_bar(bar)?;
    }
    println!("{} trades, result {:.2}", strategy.n_trades(), strategy.result());
    strategy.journal().lines().iter().rev().take(3).for_each(|line| println!("{line}"));
    Ok(())
}
