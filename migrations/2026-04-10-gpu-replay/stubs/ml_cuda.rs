//! The timer's public face.

use cudarc::driver::{CudaStream, DriverError};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    PerScan,
    PerSample,
    Upload,
    FwdBwd,
    Adam,
    PerUpdate,
}

#[derive(Debug, Clone, Default)]
pub struct PhaseReport {
    pub batches: u64,
    pub dropped: u64,
}

#[derive(Debug)]
pub struct PhaseTimer(());

impl PhaseTimer {
    pub fn new(_stream: &CudaStream) -> Result<Self, DriverError> {
        Ok(Self(()))
    }

    pub fn start(&self, _phase: Phase, _stream: &CudaStream) {}

    pub fn end(&self, _phase: Phase, _stream: &CudaStream) {}

    pub fn scope(&self, _phase: Phase, stream: &Arc<CudaStream>) -> PhaseScope {
        PhaseScope(Arc::clone(stream))
    }

    pub fn finish_epoch(&self) -> PhaseReport {
        PhaseReport::default()
    }
}

/// Ends its phase when it is dropped.
#[derive(Debug)]
pub struct PhaseScope(Arc<CudaStream>);

impl Drop for PhaseScope {
    fn drop(&mut self) {}
}
