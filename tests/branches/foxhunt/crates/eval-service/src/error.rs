use std::fmt;

use ml::TrainError;
use ml_dqn::DqnError;

#[derive(Debug)]
#[non_exhaustive]
pub enum EvalError {
    /// The batch is not on a device; says how many rows it has.
    HostBatch {
        rows: usize,
    },
    /// The memory is not on a device.
    HostMemory,
    /// The service's thread is gone.
    Stopped,
    Dqn(DqnError),
    Train(TrainError),
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostBatch { rows } => write!(f, "a batch of {rows} rows is on the host"),
            Self::HostMemory => write!(f, "the memory is on the host"),
            Self::Stopped => write!(f, "the evaluation service has stopped"),
            Self::Dqn(err) => err.fmt(f),
            Self::Train(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for EvalError {}

impl From<DqnError> for EvalError {
    fn from(err: DqnError) -> Self {
        Self::Dqn(err)
    }
}

impl From<TrainError> for EvalError {
    fn from(err: TrainError) -> Self {
        Self::Train(err)
    }
}
