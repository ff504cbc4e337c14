use std::sync::Arc;

use cudarc::driver::CudaStream;
use ml_dqn::{DqnAgent, DqnConfig, GpuReplayBufferConfig, GpuReplayBuffer as Memory};

use crate::{BoxError, FusedTrainingCtx, Outcome};

pub fn build(stream: &Arc<CudaStream>) -> Result<(DqnAgent, FusedTrainingCtx), BoxError> {
    let config = DqnConfig::default();
    let memory = Memory::new(GpuReplayBufferConfig::default(), Arc::clone(stream))?;
    let ctx = FusedTrainingCtx::new(&config, Arc::clone(stream))?;
    Ok((DqnAgent::new(config, memory)?, ctx))
}

/// Returns how many batches were skipped in the last epoch.
pub fn run(agent: &DqnAgent, ctx: &mut FusedTrainingCtx, stream: &CudaStream, n: usize, epochs: usize) -> Result<usize, BoxError> {
    let mut skipped = 0;
    for epoch in 1..=epochs {
        skipped = 0;
        for _ in 0..178 {
            let batch = agent.memory().sample_profiled(n, ctx.phases())?;
            let ptrs = &batch;
            match ctx.run_full_step(agent, ptrs)? {
                Outcome::Stepped { loss } if loss.is_nan() => return Err(format!("epoch {epoch}: NaN").into()),
                Outcome::Stepped { .. } => {}
                Outcome::Skipped => skipped += 1,
            }
        }
        stream.synchronize()?;
        ctx.phases().finish_epoch();
        println!("epoch {epoch}: {skipped} skipped");
    }
    Ok(skipped)
}
