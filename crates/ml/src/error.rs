//! What can go wrong in training.

use cudarc::driver::DriverError;
use ml_cuda::{CudaError, driver_error_name};
use ml_dqn::DqnError;

/// An error of the training step, the trainer or a checkpoint.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Of the agent or its replay buffer.
    #[error(transparent)]
    Dqn(DqnError),
    /// Of the CUDA floor: a missing library, a kernel that does not compile, too little memory.
    #[error(transparent)]
    Cuda(CudaError),
    /// The driver refused a call.
    #[error("CUDA driver: {}", driver_error_name(.0))]
    Driver(DriverError),
    /// Sizes or settings that cannot be.
    #[error("bad configuration: {0}")]
    Config(String),
    /// A batch that the step cannot take.
    #[error("bad batch: {0}")]
    Batch(String),
    /// A checkpoint could not be written or read; an older file is as it was.
    #[error("checkpoint `{}`: {what}", path.display())]
    Checkpoint {
        path: std::path::PathBuf,
        what: String,
    },
    /// Loss or gradient was not finite for so many steps in a row; none of them changed a parameter.
    #[error(
        "loss or gradient was not finite in {in_row} steps in a row, the last of them step {step}; lower the learning rate, or look for NaN in states and rewards"
    )]
    NotFinite { step: u64, in_row: u64 },
}

/// As `Display`, for the driver's errors cannot be formatted with `Debug` where there is no driver.
impl std::fmt::Debug for TrainError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrainError({self})")
    }
}

impl From<DqnError> for TrainError {
    fn from(error: DqnError) -> Self {
        Self::Dqn(error)
    }
}

impl From<CudaError> for TrainError {
    fn from(error: CudaError) -> Self {
        Self::Cuda(error)
    }
}

impl From<DriverError> for TrainError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}
