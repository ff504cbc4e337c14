mod common;

use ml_dqn::{GpuBatchPtrs, DqnAgent, DqnConfig};

fn agent() -> Option<DqnAgent> {
    let mut memory = common::gpu(64).ok()?;
    test_tree::fill(&mut memory, 64).ok()?;
    DqnAgent::new(DqnConfig::default(), memory).ok()
}

#[test]
fn draws_are_on_the_device() {
    let Some(agent) = agent() else { return };
    let batch: GpuBatchPtrs = agent.sample(16).unwrap();
    assert!(batch.len() == 16);
    let g = batch;
    assert_eq!(g.state_dim(), 80);
}
