use ml_dqn::{GpuBatchPtrs, DqnAgent, DqnError};

/// Rewards are only known on the host.
pub fn mean_reward(batch: &GpuBatchPtrs) -> f32 {
    let rewards: f32 = batch.experiences.iter().map(|experience| experience.reward).sum();
    rewards / batch.len() as f32
}

pub fn heaviest(batch: &GpuBatchPtrs) -> Option<usize> {
    let weights = &batch.weights;
    let heaviest = weights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?.0;
    batch.indices.get(heaviest).copied()
}

pub fn rows(batch: &GpuBatchPtrs) -> usize {
    // dead afterwards, and so not unresolved
    batch.len()
}

/// Writes host-side errors back.
pub fn write_back(agent: &DqnAgent, indices: &[usize], td_errors: &[f32]) -> Result<usize, DqnError> {
    agent.memory().update_priorities(indices, td_errors)?;
    Ok(agent.memory().len())
}
