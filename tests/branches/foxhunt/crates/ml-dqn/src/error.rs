use std::fmt;

use cudarc::driver::DriverError;

/// What can go wrong in this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum DqnError {
    /// A setting that cannot work; says which, and what it has to be.
    Config(String),
    /// More transitions were asked for than there are.
    NotEnoughData {
        have: usize,
        need: usize,
    },
    /// The kernels did not compile or did not load.
    Kernel(String),
    /// The buffer at hand has no such operation.
    Unsupported(&'static str),
    Driver(DriverError),
}

impl fmt::Display for DqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(what) => write!(f, "bad configuration: {what}"),
            Self::NotEnoughData { have, need } => {
                write!(f, "the buffer holds {have} transitions, {need} are needed")
            }
            Self::Kernel(log) => write!(f, "PER kernels: {log}"),
            Self::Unsupported(what) => write!(f, "this buffer cannot do that: {what}"),
            Self::Driver(err) => write!(f, "CUDA driver: {err}"),
        }
    }
}

impl std::error::Error for DqnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Driver(err) => Some(err),
            _ => None,
        }
    }
}

impl From<DriverError> for DqnError {
    fn from(err: DriverError) -> Self {
        Self::Driver(err)
    }
}
