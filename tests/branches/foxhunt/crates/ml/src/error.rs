use std::fmt;

use cudarc::driver::DriverError;
use ml_dqn::DqnError;

#[derive(Debug)]
#[non_exhaustive]
pub enum TrainError {
    /// The fused step was given a batch that is not on the device.
    CpuBatch,
    /// More rows than the context was made for.
    BatchTooLarge {
        rows: usize,
        room: usize,
    },
    Kernel(String),
    Dqn(DqnError),
    Driver(DriverError),
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuBatch => write!(f, "the fused step needs a batch on the device"),
            Self::BatchTooLarge { rows, room } => {
                write!(f, "a batch of {rows} rows, where there is room for {room}")
            }
            Self::Kernel(log) => write!(f, "step kernels: {log}"),
            Self::Dqn(err) => err.fmt(f),
            Self::Driver(err) => write!(f, "CUDA driver: {err}"),
        }
    }
}

impl std::error::Error for TrainError {}

impl From<DqnError> for TrainError {
    fn from(err: DqnError) -> Self {
        Self::Dqn(err)
    }
}

impl From<DriverError> for TrainError {
    fn from(err: DriverError) -> Self {
        Self::Driver(err)
    }
}
