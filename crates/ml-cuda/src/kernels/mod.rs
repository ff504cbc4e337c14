//! Kernels as text: compiled for the device found, kept on disk, loaded once per context.
//!
//! The `.cu` files are embedded with `include_str!` by the crate that launches them, and described by
//! a [`KernelSource`]. [`load`] compiles one for the context's device, so that building needs no CUDA
//! toolkit; [`compile`] does the same for any architecture, and needs no GPU.

mod cache;
mod compiler;

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, LaunchConfig, sys};
use cudarc::nvrtc::Ptx;

use crate::context::{architecture, driver_version, version_text};
use crate::error::CudaError;
use crate::graph::make_current;
pub use cache::{CACHE_VARIABLE, Cache};
pub use compiler::{Compiled, compile, compiler_version};

/// A `.cu` file and what it includes.
#[derive(Debug, Clone, Copy)]
pub struct KernelSource {
    /// Name in error messages, such as `step_kernels.cu`.
    pub name: &'static str,
    /// Its text.
    pub source: &'static str,
    /// Headers by the name under which they are included, such as `("philox.cuh", text)`. They are
    /// given to the compiler in memory.
    pub includes: &'static [(&'static str, &'static str)],
    /// Options beyond the architecture and `--std=c++17`, such as `--use_fast_math`.
    pub options: &'static [&'static str],
}

/// Compiles `source` for the device of `context`, or takes it from the cache, and loads it.
///
/// The cache is [`Cache::from_environment`]; where it cannot be read or written, the kernel is
/// compiled and a warning logged.
///
/// # Errors
/// [`CudaError::MissingLibrary`] without NVRTC, [`CudaError::Compile`] with the compiler's text,
/// [`CudaError::DriverTooOld`] where NVRTC is newer than the driver, or what the driver refused.
pub fn load(
    context: &Arc<CudaContext>,
    source: &KernelSource,
) -> Result<Arc<CudaModule>, CudaError> {
    load_with(context, source, &Cache::from_environment())
}

/// [`load`] with a cache of the caller's.
///
/// # Errors
/// Those of [`load`].
pub fn load_with(
    context: &Arc<CudaContext>,
    source: &KernelSource,
    cache: &Cache,
) -> Result<Arc<CudaModule>, CudaError> {
    let arch = architecture(context)?;
    let compiler = compiler_version()?;
    let driver = driver_version()?;
    // Within one major version any driver loads any cubin; across one, none does.
    if compiler.0 > driver / 1000 {
        return Err(CudaError::DriverTooOld {
            found: version_text(driver),
            needed: format!("{}.0", compiler.0),
            why: "by the NVRTC library that was found",
        });
    }
    let key = cache::key(source, &arch, compiler);
    if let Some(binary) = cache.get(&key) {
        match context.load_module(Ptx::from_binary(binary)) {
            Ok(module) => return Ok(module),
            // Whole, but not for this device: compiled afresh below, and the entry replaced.
            Err(error) => tracing::warn!(
                kernel = source.name,
                "cached kernel does not load: {}",
                crate::driver_error_name(&error)
            ),
        }
    }
    let compiled = compile(source, &arch)?;
    cache.put(&key, &compiled.binary);
    Ok(context.load_module(Ptx::from_binary(compiled.binary))?)
}

/// Looks up a kernel by its `extern "C"` name.
///
/// # Errors
/// [`CudaError::NoSuchKernel`] with both names, or what the driver refused.
pub fn function(
    module: &Arc<CudaModule>,
    source: &KernelSource,
    name: &str,
) -> Result<CudaFunction, CudaError> {
    use cudarc::driver::sys::CUresult::CUDA_ERROR_NOT_FOUND;
    module.load_function(name).map_err(|error| match error.0 {
        CUDA_ERROR_NOT_FOUND => CudaError::NoSuchKernel {
            function: name.to_owned(),
            source_name: source.name.to_owned(),
        },
        code => CudaError::Driver(code),
    })
}

/// Addresses of a kernel's arguments, in order, for [`launch_behind`]. Each must outlive the launch.
#[macro_export]
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => {
        [$(::std::ptr::from_ref($argument).cast_mut().cast::<::std::ffi::c_void>()),*]
    };
}

/// Launches a kernel that waits for its predecessor by itself (`wait_for_previous_kernel` in `kernels/common.cuh`), so that its
/// blocks may take their places while the kernel before it on the stream still drains ([programmatic dependent launch]). GPUs
/// before sm_90 launch it like any other.
///
/// [programmatic dependent launch]: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#programmatic-dependent-launch-and-synchronization
///
/// # Errors
/// What the driver refused.
///
/// # Safety
/// The arguments point to values of the types that the kernel takes, in order, and what they say is true of the device's memory.
/// The kernel waits before it touches what its predecessor writes, or writes what that one touches.
pub unsafe fn launch_behind(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    shape: LaunchConfig,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    make_current(stream)?;
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        // SAFETY: a union of plain numbers, for which zero is a value.
        ..unsafe { std::mem::zeroed() }
    };
    attribute.value.programmaticStreamSerializationAllowed = 1;
    let config = sys::CUlaunchConfig {
        gridDimX: shape.grid_dim.0,
        gridDimY: shape.grid_dim.1,
        gridDimZ: shape.grid_dim.2,
        blockDimX: shape.block_dim.0,
        blockDimY: shape.block_dim.1,
        blockDimZ: shape.block_dim.2,
        sharedMemBytes: shape.shared_mem_bytes,
        hStream: stream.cu_stream(),
        attrs: &mut attribute,
        numAttrs: 1,
    };
    // SAFETY: the configuration and its attribute live until the call returns; the arguments are the caller's promise.
    unsafe {
        sys::cuLaunchKernelEx(
            &config,
            kernel.cu_function(),
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    }
    .result()?;
    Ok(())
}
