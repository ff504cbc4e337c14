//! Trades against a simulated market and learns on the first device.

use std::sync::{Arc, Mutex};

use cudarc::driver::CudaContext;
use foxhunt_strategy::{
    memory::{self, describe},
    prelude::{self as fox, MeanReversion, MeanRevertingMarket, OnlineTrainer, SharedMemory, StrategyConfig},
};

/// A second memory, which the next run starts from.
fn spare(config: &StrategyConfig, gpu: ml_dqn::GpuReplayBuffer) -> SharedMemory {
    println!("a spare for {} transitions", config.capacity);
    Arc::new(Mutex::new(fox::ReplayBufferType::from(gpu)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(context) = std::panic::catch_unwind(|| CudaContext::new(0)) else {
        println!("no CUDA driver: see the example paper_trading");
        return Ok(());
    };
    let stream = context?.new_stream()?;
    let config = StrategyConfig::default();
    let opened: fox::Memory = memory::open(&config, Some(stream.clone()))?;
    println!("{}", describe(&opened));

    let spares = memory::open_all(&config, std::slice::from_ref(&stream))?;
    let spares = memory::recycle(spares, 0.0).into_iter().map(|gpu| spare(&config, gpu)).collect::<Vec<_>>();

    let trainer = OnlineTrainer::new(&config, opened, Some(stream))?;
    let mut strategy = MeanReversion::new(config, trainer);
    for bar in MeanRevertingMarket::new(100.0, 9).take(10_000) {
        strategy.on_bar(bar)?;
    }
    println!("{} trades, result {:.2}; {} spares", strategy.n_trades(), strategy.result(), spares.len());
    Ok(())
}
