//! The CUDA floor that the learning crates stand on.
//!
//! * [`context`]: finds the driver and a GPU without ever panicking, opens a context and a stream.
//! * [`kernels`]: compiles `.cu` text for the device found, and keeps the result on disk.
//! * [`graph`]: captures work into a graph; the capture ends on every path.
//! * [`memory`]: device memory that is ordered by its stream alone.
//! * [`matmul`]: matrix products by cuBLASLt, planned once.
//! * [`readback`]: small results on the host without waiting.
//! * [`phases`]: [`PhaseTimer`], per-phase GPU times from pre-allocated CUDA events.
//! * [`error`]: [`CudaError`], which names what is missing and what to do.
//!
//! Nothing is linked: the NVIDIA libraries are opened when they are first needed, so a program that
//! uses these crates builds and starts on a machine without a GPU, and is told why it cannot go on.
//!
//! ```
//! match ml_cuda::open(0) {
//!     Ok((context, stream)) => println!("{:?}, stream {:?}", context.name(), stream.cu_stream()),
//!     Err(error) => println!("no GPU to work with: {error}"),
//! }
//! ```

pub mod context;
pub mod error;
pub mod graph;
pub mod kernels;
mod library;
pub mod matmul;
pub mod memory;
pub mod phases;
pub mod readback;

pub use context::{device_count, open};
pub use error::{CudaError, driver_error_name};
pub use graph::{CapturedGraph, capture};
pub use library::Library;
pub use matmul::Precision;
pub use memory::DeviceMemory;
pub use phases::{
    GraphPhases, Phase, PhaseReport, PhaseScope, PhaseStats, PhaseTimer, PhaseTimerOptions, Verdict,
};
pub use readback::Readback;
