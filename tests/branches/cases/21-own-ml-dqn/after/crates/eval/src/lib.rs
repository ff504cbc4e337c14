use ml_dqn::{GpuBatchPtrs, DqnAgent, DqnError, GpuReplayBuffer};

/// Draws `n` batches and counts their rows.
pub fn rows(agent: &DqnAgent, n: usize) -> Result<usize, DqnError> {
    let batches = (0..n).map(|_| agent.sample(8)).collect::<Result<Vec<GpuBatchPtrs>, _>>()?;
    Ok(batches.iter().map(|batch| batch.len()).sum())
}

pub fn on_gpu(memory: &GpuReplayBuffer) -> bool {
    agent_kind(memory) == "gpu"
}

fn agent_kind(memory: &GpuReplayBuffer) -> &'static str {
    ml_dqn::dqn::kind(memory)
}
