//! Where a training step spends its time on the GPU.
//!
//! [`PhaseTimer`] brackets each [`Phase`] with a pair of CUDA events and never waits for the GPU:
//! `cuEventRecord` is enqueued like a kernel, and times are read once the GPU has passed them.
//! [`PhaseTimer::finish_epoch`] logs one line and returns a [`PhaseReport`].
//!
//! What needs no GPU is apart: `ledger` decides what is recorded, `report` turns times into
//! statistics and words, `trace` draws them. `timer` and `in_graph` alone talk to the driver.

mod in_graph;
mod ledger;
mod report;
mod timer;
mod trace;

use std::fmt;

pub use in_graph::GraphPhases;
pub use report::{BatchSpans, PhaseReport, PhaseStats, Span, Verdict};
pub use timer::{PhaseScope, PhaseTimer, PhaseTimerOptions};

/// The phases of a step, in the order in which a batch goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Prefix sums over the priorities.
    PerScan,
    /// Drawing indices, gathering rows, importance weights.
    PerSample,
    /// Copy from the replay buffer into the step's own inputs.
    Upload,
    /// Forward and backward pass.
    FwdBwd,
    /// Gradient norm, clipping, optimizer, target network.
    Adam,
    /// New priorities scattered into the buffer.
    PerUpdate,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Self; 6] = [
        Self::PerScan,
        Self::PerSample,
        Self::Upload,
        Self::FwdBwd,
        Self::Adam,
        Self::PerUpdate,
    ];

    /// Its name in logs and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerScan => "per_scan",
            Self::PerSample => "per_sample",
            Self::Upload => "upload",
            Self::FwdBwd => "fwd_bwd",
            Self::Adam => "adam",
            Self::PerUpdate => "per_update",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
