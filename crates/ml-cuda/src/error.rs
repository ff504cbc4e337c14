//! What can go wrong below the learning crates, each with what to do about it.

use cudarc::driver::{DriverError, sys::CUresult};
use cudarc::nvrtc::sys::nvrtcResult;

/// An error of the CUDA floor.
///
/// Driver errors are kept as their code. `DriverError` itself asks the driver for its text when it
/// is printed, and panics where there is no driver; this type prints on any machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// `libcuda` is not on the loader's path, or is a stub without the driver behind it.
    #[error("no NVIDIA driver: {detail}; install the driver, or run on a machine that has one")]
    NoDriver { detail: String },
    /// The driver is there, and sees no GPU.
    #[error("no CUDA device: {detail}; check `nvidia-smi` and CUDA_VISIBLE_DEVICES")]
    NoDevice { detail: String },
    /// The driver lacks entry points that are called here, or cannot load what NVRTC makes.
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {found}, {needed} is needed {why}; update the driver"
    )]
    DriverTooOld {
        found: String,
        needed: String,
        why: &'static str,
    },
    /// The device asked for does not exist.
    #[error("CUDA device {ordinal} does not exist: the driver sees {count}")]
    NoSuchDevice { ordinal: usize, count: usize },
    /// NVRTC or cuBLASLt could not be opened.
    #[error(
        "{library} is missing: {detail}; install the CUDA toolkit or the PyPI package `{package}`, and put its folder on LD_LIBRARY_PATH or in FOXHUNT_CUDA_LIBS"
    )]
    MissingLibrary {
        library: &'static str,
        package: &'static str,
        detail: String,
    },
    /// The bytes needed were compared with the bytes free before anything was allocated.
    #[error(
        "not enough GPU memory for {what}: {needed} bytes needed, {free} free of {total}; lower the sizes or free the device"
    )]
    NotEnoughMemory {
        what: String,
        needed: u64,
        free: u64,
        total: u64,
    },
    /// More values than the memory holds.
    #[error("{asked} values were asked of device memory that holds {held}")]
    Length { asked: usize, held: usize },
    /// A kernel did not compile; `log` is the compiler's own text.
    #[error("kernel source `{name}` does not compile for {arch}:\n{log}")]
    Compile {
        name: String,
        arch: String,
        log: String,
    },
    /// NVRTC failed in another way.
    #[error("NVRTC failed to {doing}: {code:?}")]
    Nvrtc {
        doing: &'static str,
        code: nvrtcResult,
    },
    /// A kernel that the host calls is not in the module that should hold it.
    #[error("kernel `{function}` is not in the module compiled from `{source_name}`")]
    NoSuchKernel {
        function: String,
        source_name: String,
    },
    /// cuBLASLt refused a call.
    #[error("cuBLASLt failed to {doing}: {status}")]
    Cublas { doing: &'static str, status: String },
    /// cuBLASLt has no algorithm for a product.
    #[error(
        "cuBLASLt has no algorithm for {product} ({status}); choose sizes that are multiples of 8, or another precision"
    )]
    NoAlgorithm { product: String, status: String },
    /// The legacy default stream cannot be captured.
    #[error(
        "the default stream cannot be captured into a graph; make one with `CudaContext::new_stream`"
    )]
    DefaultStreamCapture,
    /// Something inside the capture was not allowed there, and the driver dropped the graph.
    #[error(
        "the capture was invalidated: the captured work synchronized, allocated or touched another stream"
    )]
    CaptureInvalidated,
    /// The driver refused a call.
    #[error("CUDA driver: {} ({})", driver_code_name(*.0), *.0 as u32)]
    Driver(CUresult),
}

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error.0)
    }
}

/// The name of a driver error's code, such as `CUDA_ERROR_OUT_OF_MEMORY`.
///
/// Works without a driver, where formatting the error itself would panic.
pub fn driver_error_name(error: &DriverError) -> String {
    driver_code_name(error.0)
}

fn driver_code_name(code: CUresult) -> String {
    format!("{code:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_errors_print_without_a_driver() {
        let error = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        assert_eq!(driver_error_name(&error), "CUDA_ERROR_OUT_OF_MEMORY");
        assert_eq!(
            CudaError::from(error).to_string(),
            "CUDA driver: CUDA_ERROR_OUT_OF_MEMORY (2)"
        );
    }
}
