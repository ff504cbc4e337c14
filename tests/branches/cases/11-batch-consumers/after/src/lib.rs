//! Things that take batches.

#[macro_use]
mod trace;

pub mod pipeline;
pub mod sinks;

use std::collections::VecDeque;
use std::convert::Infallible;

use ml_dqn::{DqnError, GpuBatchPtrs};

pub type Batches = VecDeque<GpuBatchPtrs>;
pub type Hook = Box<dyn FnMut(&GpuBatchPtrs) -> bool + Send>;
type Drawn<B = GpuBatchPtrs> = Result<B, DqnError>;

/// Takes one [`GpuBatchPtrs`] after the other.
pub trait Consumer {
    type Error;

    fn consume(&mut self, batch: &GpuBatchPtrs) -> Result<(), Self::Error>;

    /// Rows of `batch`, as this consumer counts.
    fn rows(&self, batch: &GpuBatchPtrs) -> usize {
        batch.len()
    }
}

impl<F, E> Consumer for F
where
    F: FnMut(&GpuBatchPtrs) -> Result<(), E>,
{
    type Error = E;

    fn consume(&mut self, batch: &GpuBatchPtrs) -> Result<(), E> {
        self(batch)
    }
}

#[derive(Debug)]
pub struct Ticket {
    batch: GpuBatchPtrs,
    rows: usize,
}

impl From<GpuBatchPtrs> for Ticket {
    fn from(batch: GpuBatchPtrs) -> Self {
        let rows = batch.len();
        Self { batch, rows }
    }
}

impl AsRef<GpuBatchPtrs> for Ticket {
    fn as_ref(&self) -> &GpuBatchPtrs {
        &self.batch
    }
}

impl PartialEq<GpuBatchPtrs> for Ticket {
    fn eq(&self, other: &GpuBatchPtrs) -> bool {
        self.batch.len() == other.len() && self.rows == other.len()
    }
}

/// Runs every hook; `true` when all of them were content.
pub fn run_hooks(hooks: &mut [Hook], batch: &GpuBatchPtrs) -> bool {
    hooks.iter_mut().fold(true, |content, hook| hook(batch) && content)
}

pub fn consume_all<C, I>(consumer: &mut C, batches: I) -> Result<usize, C::Error>
where
    C: Consumer<Error = Infallible>,
    I: IntoIterator<Item = GpuBatchPtrs>,
{
    let mut rows = 0;
    for batch in batches {
        consumer.consume(&batch)?;
        rows += consumer.rows(&batch);
        info!(rows = batch.len(), "consumed");
    }
    Ok(rows)
}

pub fn draw_many(agent: &ml_dqn::DqnAgent, n: usize, times: usize) -> Drawn<Batches> {
    let mut batches: Batches = (0..times).map(|_| agent.sample(n)).collect::<Result<VecDeque<GpuBatchPtrs>, _>>()?;
    batches.retain(|batch| !batch.is_empty());
    Ok(batches)
}

pub fn draw_one(agent: &ml_dqn::DqnAgent, n: usize) -> Drawn {
    let gpu = agent.memory();
    gpu.sample(n)
}

pub fn biggest(batches: &[GpuBatchPtrs]) -> Option<&GpuBatchPtrs> {
    batches.iter().max_by_key(|ptrs| ptrs.len())
}
