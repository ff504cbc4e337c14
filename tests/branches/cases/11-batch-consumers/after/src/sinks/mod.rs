use crate::{GpuBatchPtrs as Batch, Consumer};
use ml_dqn::{DqnError, GpuBatchPtrs};

#[derive(Default)]
pub struct Counter {
    pub rows: usize,
    pub last: Option<GpuBatchPtrs>,
}

impl Consumer for Counter {
    type Error = DqnError;

    fn consume(&mut self, batch: &Batch) -> Result<(), DqnError> {
        let g = batch;
        self.rows += g.len();
        self.last = Some(batch.clone());
        info!(rows = self.rows, len = g.len(), "counted");
        Ok(())
    }
}

/// Takes batches apart.
pub struct Breaker;

impl Breaker {
    pub fn owned(batch: Batch) -> GpuBatchPtrs {
        batch
    }

    pub fn taken(batch: Batch) -> GpuBatchPtrs {
        batch
    }

    pub fn stolen(batch: &mut Batch) -> Option<GpuBatchPtrs> {
        Some(batch.clone())
    }

    pub fn rewrapped(batch: Batch) -> Batch {
        Self::owned(batch)
    }
}

impl Consumer for Breaker {
    type Error = String;

    fn consume(&mut self, batch: &Batch) -> Result<(), Self::Error> {
        let ptrs = batch;
        if ptrs.is_empty() {
            return Err(format!("{batch:?} is empty"));
        }
        Ok(())
    }

    fn rows(&self, batch: &Batch) -> usize {
        batch.len()
    }
}
