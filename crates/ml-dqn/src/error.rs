//! What can go wrong with the buffer, the agent and hindsight, each with what to do about it.

use std::fmt;
use std::io;

use cudarc::driver::DriverError;
use ml_cuda::{CudaError, driver_error_name};

/// An error of this crate.
///
/// It prints on any machine: `DriverError` asks the driver for its text and panics where there is no
/// driver, so its code is printed by name instead.
#[non_exhaustive]
pub enum DqnError {
    /// Fewer transitions are stored than were asked for, or than `ReplayOptions::min_size` demands.
    NotEnoughData {
        /// Transitions in the buffer.
        have: usize,
        /// Transitions that must be there.
        need: usize,
    },
    /// A value that the caller gave makes no sense, or does not fit the others.
    Config(String),
    /// The driver refused a call.
    Driver(DriverError),
    /// No GPU, no driver, a missing library, too little memory, or a kernel that does not compile.
    Cuda(CudaError),
    /// Every batch of the pool is still held.
    BatchesHeld {
        /// How many may live at a time.
        limit: usize,
    },
    /// A batch that was never sampled (`GpuBatchPtrs::default()`) was used as one.
    EmptyBatch,
    /// All stored priorities are zero, so nothing could be drawn; told by the first synchronizing call.
    ZeroTotalPriority,
    /// The sum of priorities is not finite, so nothing could be drawn; told likewise.
    NonFiniteTotalPriority,
    /// The call allocates, copies or waits, and the stream is being captured into a graph.
    Capturing {
        /// The call.
        call: &'static str,
    },
    /// A saved buffer has another capacity than this one.
    CapacityMismatch {
        /// Capacity of the saved buffer.
        saved: usize,
        /// Capacity of this one.
        here: usize,
    },
    /// A saved buffer cannot be read back.
    Checkpoint(String),
    /// Reading or writing a saved buffer failed.
    Io(io::Error),
}

impl fmt::Display for DqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnoughData { have, need } => write!(
                f,
                "the replay buffer holds {have} transitions and {need} are needed; push more before sampling, or lower `ReplayOptions::min_size`"
            ),
            Self::Config(what) => f.write_str(what),
            Self::Driver(error) => write!(f, "CUDA driver: {}", driver_error_name(error)),
            Self::Cuda(error) => error.fmt(f),
            Self::BatchesHeld { limit } => write!(
                f,
                "all {limit} batches of the pool are held; drop a `GpuBatchPtrs` (and its clones) before sampling again"
            ),
            Self::EmptyBatch => f.write_str(
                "the batch is empty: `GpuBatchPtrs::default()` holds no transitions; sample one first",
            ),
            Self::ZeroTotalPriority => f.write_str(
                "all stored priorities are zero, so nothing can be drawn; push transitions, or use `eps` > 0",
            ),
            Self::NonFiniteTotalPriority => f.write_str(
                "the sum of priorities is not finite; restore a saved buffer, or lower `alpha`",
            ),
            Self::Capturing { call } => write!(
                f,
                "`{call}` allocates, copies or waits, which a stream in capture does not bear; call it before the capture"
            ),
            Self::CapacityMismatch { saved, here } => write!(
                f,
                "the saved buffer has capacity {saved}, this one {here}; build it with the saved capacity"
            ),
            Self::Checkpoint(what) => write!(f, "saved replay buffer: {what}"),
            Self::Io(error) => write!(f, "saved replay buffer: {error}"),
        }
    }
}

impl fmt::Debug for DqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnoughData { have, need } => f
                .debug_struct("NotEnoughData")
                .field("have", have)
                .field("need", need)
                .finish(),
            Self::Config(what) => f.debug_tuple("Config").field(what).finish(),
            Self::Driver(error) => f
                .debug_tuple("Driver")
                .field(&format_args!("{}", driver_error_name(error)))
                .finish(),
            Self::Cuda(error) => f.debug_tuple("Cuda").field(error).finish(),
            Self::BatchesHeld { limit } => {
                f.debug_struct("BatchesHeld").field("limit", limit).finish()
            }
            Self::EmptyBatch => f.write_str("EmptyBatch"),
            Self::ZeroTotalPriority => f.write_str("ZeroTotalPriority"),
            Self::NonFiniteTotalPriority => f.write_str("NonFiniteTotalPriority"),
            Self::Capturing { call } => f.debug_struct("Capturing").field("call", call).finish(),
            Self::CapacityMismatch { saved, here } => f
                .debug_struct("CapacityMismatch")
                .field("saved", saved)
                .field("here", here)
                .finish(),
            Self::Checkpoint(what) => f.debug_tuple("Checkpoint").field(what).finish(),
            Self::Io(error) => f.debug_tuple("Io").field(error).finish(),
        }
    }
}

// `source` leaves the driver's error out: whoever prints the chain would ask a driver that may be missing.
impl std::error::Error for DqnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<DriverError> for DqnError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<CudaError> for DqnError {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::Driver(code) => Self::Driver(DriverError(code)),
            other => Self::Cuda(other),
        }
    }
}

impl From<io::Error> for DqnError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;

    #[test]
    fn driver_errors_print_without_a_driver() {
        let error = DqnError::from(DriverError(CUDA_ERROR_OUT_OF_MEMORY));
        assert_eq!(error.to_string(), "CUDA driver: CUDA_ERROR_OUT_OF_MEMORY");
        assert_eq!(format!("{error:?}"), "Driver(CUDA_ERROR_OUT_OF_MEMORY)");
        let wrapped = DqnError::from(CudaError::Driver(CUDA_ERROR_OUT_OF_MEMORY));
        assert!(matches!(wrapped, DqnError::Driver(_)));
    }

    #[test]
    fn an_error_crosses_threads() {
        fn crosses<T: std::error::Error + Send + Sync + 'static>() {}
        crosses::<DqnError>();
    }
}
