//! Sampling, training and new priorities as one captured graph.

use ml_cuda::{CapturedGraph, GraphPhases, Phase, capture};
use ml_dqn::dqn::DqnAgent;
use ml_dqn::gpu_replay_buffer::GpuBatchPtrs;

use super::fused_training::{FusedTrainingCtx, StepOutput};
use crate::error::TrainError;

/// The same work twice, with stamps at the borders of its phases and without.
#[derive(Debug)]
pub(super) struct WholeStep {
    timed: CapturedGraph,
    plain: CapturedGraph,
    phases: GraphPhases,
    /// What the replays draw into, held so that no other draw does.
    batch: GpuBatchPtrs,
}

impl WholeStep {
    /// Whether its graphs are of this buffer, as it is now, and of this many rows.
    fn fits(&self, agent: &DqnAgent, batch_size: usize) -> bool {
        self.batch.len() == batch_size && agent.memory().drew(&self.batch)
    }
}

impl FusedTrainingCtx {
    /// Draws `batch_size` transitions, trains on them and gives them new priorities, as
    /// [`sample_profiled`](ml_dqn::GpuReplayBuffer::sample_profiled) and [`run_full_step`](Self::run_full_step) do, to the bit,
    /// but in one graph: the host enqueues one launch, and the GPU has no gaps between the parts.
    ///
    /// The first call, and the first with another buffer, another `batch_size` or after a restore, runs step by step and
    /// then captures, which waits for nothing but takes milliseconds. Transitions may be pushed between calls. Of the three
    /// batches that a buffer lends at a time, the graph keeps one. Phases are timed as everywhere, by stamps in a second
    /// graph of the same work.
    ///
    /// # Errors
    /// Those of `sample_profiled` and `run_full_step`; [`TrainError::Config`] where buffer and step are on different streams;
    /// what a capture does not bear, such as the default stream.
    pub fn run_whole_step(
        &mut self,
        agent: &DqnAgent,
        batch_size: usize,
    ) -> Result<StepOutput, TrainError> {
        let memory = agent.memory();
        if memory.stream().cu_stream() != self.stream().cu_stream() {
            return Err(TrainError::Config(
                "one graph needs the buffer on the stream of the step; make both with the same one, or use `run_full_step`"
                    .into(),
            ));
        }
        if let Some(whole) = self.whole.as_mut().filter(|w| w.fits(agent, batch_size)) {
            memory.check_sample(batch_size)?;
            whole.phases.launch(&mut whole.timed, &mut whole.plain)?;
            return self.enqueued();
        }
        self.whole = None;
        // Step by step, which allocates and loads what a capture must not.
        let batch = memory.sample_profiled(batch_size, self.phases())?;
        let output = self.run_full_step(agent, &batch)?;
        self.whole = Some(self.capture_whole(agent, batch)?);
        Ok(output)
    }

    fn capture_whole(
        &self,
        agent: &DqnAgent,
        batch: GpuBatchPtrs,
    ) -> Result<WholeStep, TrainError> {
        let phases = self.phases().graph_phases(self.stream())?;
        Ok(WholeStep {
            timed: self.capture_with(agent, &batch, Some(&phases))?,
            plain: self.capture_with(agent, &batch, None)?,
            phases,
            batch,
        })
    }

    fn capture_with(
        &self,
        agent: &DqnAgent,
        batch: &GpuBatchPtrs,
        phases: Option<&GraphPhases>,
    ) -> Result<CapturedGraph, TrainError> {
        let stream = self.stream();
        let bracketed = |phase: Phase, work: &dyn Fn() -> Result<(), TrainError>| {
            if let Some(phases) = phases {
                phases.start(phase, stream);
            }
            work()?;
            if let Some(phases) = phases {
                phases.end(phase, stream);
            }
            Ok::<_, TrainError>(())
        };
        capture(stream, || {
            agent.memory().redraw(batch, phases)?;
            bracketed(Phase::Upload, &|| self.upload_batch_gpu(batch))?;
            bracketed(Phase::FwdBwd, &|| {
                self.kernels.forward(&self.memory, self.td_address)?;
                self.kernels.backward(&self.memory)
            })?;
            bracketed(Phase::Adam, &|| self.kernels.optimize(&self.memory))?;
            bracketed(Phase::PerUpdate, &|| {
                let memory = agent.memory();
                Ok(memory.update_priorities_gpu(batch, &self.td_errors)?)
            })
        })
    }
}
