use std::fmt;

use ml::TrainError;
use ml_dqn::DqnError;

#[derive(Debug)]
#[non_exhaustive]
pub enum StrategyError {
    /// A line of the configuration, and what is wrong with it.
    Config {
        line: usize,
        what: String,
    },
    /// The memory is on a device, but there is no stream to learn on.
    NoDevice,
    Dqn(DqnError),
    Train(TrainError),
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { line, what } => write!(f, "line {line} of the configuration: {what}"),
            Self::NoDevice => {
                write!(f, "the memory is on a device, but the trainer was made without a stream")
            }
            Self::Dqn(err) => err.fmt(f),
            Self::Train(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for StrategyError {}

impl From<DqnError> for StrategyError {
    fn from(err: DqnError) -> Self {
        Self::Dqn(err)
    }
}

impl From<TrainError> for StrategyError {
    fn from(err: TrainError) -> Self {
        Self::Train(err)
    }
}

impl From<cudarc::driver::DriverError> for StrategyError {
    fn from(err: cudarc::driver::DriverError) -> Self {
        Self::Train(TrainError::from(err))
    }
}
