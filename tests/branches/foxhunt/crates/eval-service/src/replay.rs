//! Draws from a memory, and what comes of it.

use std::collections::VecDeque;

use ml_dqn::{
    DqnAgent, DqnError, GpuBatchPtrs, GpuReplayBuffer,
    replay_buffer_type::{BatchSample, ReplayBufferType},
};

use crate::error::EvalError;
use crate::metrics::effective_size;

/// Counts rows, wherever they are.
pub trait Rows {
    fn rows(&self) -> usize;
}

impl Rows for BatchSample {
    fn rows(&self) -> usize {
        self.gpu_batch.as_ref().map_or_else(|| self.experiences.len(), |ptrs| ptrs.len())
    }
}

/// Takes batches, one after the other.
pub trait Sink<B = BatchSample> {
    fn take(&mut self, batch: &B) -> Result<(), EvalError>;
}

/// Counts batches and rows.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Counter {
    pub n_batches: usize,
    pub n_rows: usize,
}

impl Sink<BatchSample> for Counter {
    fn take(&mut self, batch: &BatchSample) -> Result<(), EvalError> {
        let ptrs = batch.gpu_batch.as_ref().ok_or(EvalError::HostBatch { rows: batch.len() })?;
        self.n_batches += 1;
        self.n_rows += ptrs.len();
        Ok(())
    }
}

/// A batch in the queue, with its number.
#[must_use = "a BatchSample that nobody looks at was drawn for nothing"]
#[derive(Debug)]
pub struct Ticket {
    pub number: usize,
    batch: BatchSample,
}

impl Ticket {
    pub fn new(number: usize, batch: BatchSample) -> Self {
        Self { number, batch }
    }

    /// The addresses alone.
    pub fn into_ptrs(self) -> Result<GpuBatchPtrs, EvalError> {
        let rows = self.batch.len();
        let BatchSample { gpu_batch, .. } = self.batch;
        gpu_batch.ok_or(EvalError::HostBatch { rows })
    }
}

impl AsRef<BatchSample> for Ticket {
    fn as_ref(&self) -> &BatchSample {
        &self.batch
    }
}

impl From<Ticket> for BatchSample {
    fn from(ticket: Ticket) -> Self {
        ticket.batch
    }
}

/// Batches that were drawn but not looked at yet.
#[derive(Debug, Default)]
pub struct Queue {
    tickets: VecDeque<Ticket>,
    n_drawn: usize,
}

impl Queue {
    /// Draws `n_batches` of `n_rows` rows each.
    pub fn draw(&mut self, agent: &DqnAgent, n_batches: usize, n_rows: usize) -> Result<(), DqnError> {
        let batches =
            (0..n_batches).map(|_| agent.sample(n_rows)).collect::<Result<Vec<BatchSample>, _>>()?;
        self.tickets.reserve(batches.len());
        for batch in batches {
            self.tickets.push_back(Ticket::new(self.n_drawn, batch));
            self.n_drawn += 1;
        }
        Ok(())
    }

    /// Hands out what is on a device, oldest first; what is not is dropped.
    pub fn next_on_device(&mut self) -> Option<GpuBatchPtrs> {
        while let Some(ticket) = self.tickets.pop_front() {
            if let Some(ptrs) = ticket.batch.gpu_batch {
                return Some(ptrs);
            }
        }
        None
    }

    pub fn drain_into(&mut self, sink: &mut impl Sink) -> Result<usize, EvalError> {
        let n_tickets = self.tickets.len();
        for ticket in self.tickets.drain(..) {
            sink.take(ticket.as_ref())?;
        }
        Ok(n_tickets)
    }

    pub fn n_rows(&self) -> usize {
        self.tickets.iter().filter(|ticket| ticket.batch.is_gpu()).map(|ticket| ticket.batch.rows()).sum()
    }

    pub fn bytes(&self) -> usize {
        self.tickets.len() * size_of::<BatchSample>()
    }
}

/// One draw, wrapped.
pub fn draw_wrapped(gpu: &GpuReplayBuffer, n_rows: usize) -> Result<BatchSample, DqnError> {
    gpu.sample(n_rows).map(BatchSample::from_gpu)
}

/// One draw of the bare addresses, where there are any.
pub fn draw_bare(memory: &ReplayBufferType, n_rows: usize) -> Result<GpuBatchPtrs, EvalError> {
    let batch = memory.sample(n_rows)?;
    let Some(ptrs) = batch.gpu_batch else {
        let rows = batch.experiences.len();
        return Err(EvalError::HostBatch { rows });
    };
    Ok(ptrs)
}

/// How many of the rows of `batch` count.
pub fn effective_rows(batch: &BatchSample) -> Result<f32, EvalError> {
    if batch.is_empty() {
        return Ok(0.0);
    }
    let weights = &batch.weights;
    Ok(effective_size(weights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::Experience;
    use ml_dqn::prioritized_replay_staleness::{self as staleness, StalenessTracker};

    /// How many of `n` priorities are stale when only every second one is renewed.
    fn stale_after(n: usize, n_updates: u64) -> usize {
        let mut tracker = StalenessTracker::new(staleness::StalenessConfig { max_age: n_updates / 2 }, n);
        for _ in 0..n_updates {
            tracker.advance();
            (0..n).step_by(2).for_each(|index| tracker.touch(index));
        }
        (0..n).filter(|&index| tracker.is_stale(index)).count()
    }

    fn host_batch(n: usize) -> BatchSample {
        let experience =
            Experience { state: vec![0.0], action: 0, reward: 0.0, next_state: vec![0.0], done: true };
        BatchSample::from_experiences(vec![experience; n], vec![0.5; n], (0..n).collect())
    }

    #[test]
    fn an_empty_queue_has_nothing() {
        let (mut queue, mut counter) = (Queue::default(), Counter::default());
        assert_eq!(queue.drain_into(&mut counter).unwrap(), 0);
        assert!(queue.next_on_device().is_none());
        assert_eq!((queue.n_rows(), queue.bytes(), counter.n_batches), (0, 0, 0));
    }

    #[test]
    fn nothing_has_no_effective_rows() {
        assert_eq!(effective_rows(&BatchSample::default()).unwrap(), 0.0);
    }

    #[test]
    fn host_batches_count_but_are_not_taken() {
        let ticket = Ticket::new(0, host_batch(3));
        assert_eq!(ticket.as_ref().rows(), 3);
        assert_eq!(effective_rows(ticket.as_ref()).unwrap(), 3.0);
        assert!(Counter::default().take(ticket.as_ref()).is_err());
        assert!(ticket.into_ptrs().is_err());
    }

    #[test]
    fn half_is_stale() {
        assert_eq!(stale_after(10, 8), 5);
    }
}
