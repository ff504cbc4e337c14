//! The batches that may live at a time.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::batch::BatchSet;
use super::options::StateType;
use crate::error::DqnError;

/// Batches that may be held at a time.
const LIMIT: usize = 3;

/// Up to three sets of batch memory, made when they are first needed.
#[derive(Debug)]
pub(super) struct Pool {
    sets: Vec<Arc<BatchSet>>,
    largest: usize,
    state_dim: usize,
    state_type: StateType,
    stream: Arc<CudaStream>,
}

impl Pool {
    pub(super) fn new(stream: &Arc<CudaStream>, state_dim: usize, state_type: StateType) -> Self {
        Self {
            sets: Vec::with_capacity(LIMIT),
            largest: 0,
            state_dim,
            state_type,
            stream: Arc::clone(stream),
        }
    }

    /// Rows of the largest set ever made.
    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    /// A set for `rows` rows that no batch holds, safe to write on the buffer's stream.
    pub(super) fn free_set(
        &mut self,
        rows: usize,
        capturing: bool,
    ) -> Result<Arc<BatchSet>, DqnError> {
        // Only the pool can hand out a set that nobody else holds, and it is locked: the count cannot rise meanwhile.
        let is_free = |set: &Arc<BatchSet>| Arc::strong_count(set) == 1;
        let fits = |set: &&Arc<BatchSet>| is_free(set) && set.rows >= rows;
        if capturing {
            // Waiting for other streams and allocating belong outside.
            let found = self.sets.iter().find(|set| fits(set) && !set.has_readers());
            return found.cloned().ok_or(DqnError::Capturing {
                call: "sample (the first batch of this size)",
            });
        }
        if let Some(set) = self.sets.iter().find(fits) {
            set.wait_for_readers()?;
            return Ok(Arc::clone(set));
        }
        if self.sets.len() == LIMIT {
            // One that is free but too small makes room.
            let small = self.sets.iter().position(is_free);
            self.sets
                .swap_remove(small.ok_or(DqnError::BatchesHeld { limit: LIMIT })?);
        }
        let set = Arc::new(BatchSet::new(
            &self.stream,
            rows,
            self.state_dim,
            self.state_type,
        )?);
        self.largest = self.largest.max(rows);
        self.sets.push(Arc::clone(&set));
        Ok(set)
    }
}
