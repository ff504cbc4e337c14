//! Devices, contexts and streams, asked for in a way that never panics.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, CudaStream, result, sys};
use libloading::Library as Handle;

use crate::error::CudaError;
use crate::library::Library;

/// `cuEventElapsedTime_v2`, which the bindings for CUDA 13 call, came with CUDA 12.8 (driver 570).
const LEAST_DRIVER: c_int = 12_080;

/// Number of GPUs that the driver sees; at least one.
///
/// The driver is asked through a handle of our own first, because cudarc panics where a library or
/// a symbol is missing. The answer is kept for the life of the process.
///
/// # Errors
/// [`CudaError::NoDriver`], [`CudaError::NoDevice`] or [`CudaError::DriverTooOld`].
pub fn device_count() -> Result<usize, CudaError> {
    static COUNT: OnceLock<Result<usize, Refusal>> = OnceLock::new();
    Library::Driver.ensure()?;
    let count = COUNT.get_or_init(probe_driver);
    count.clone().map_err(|refusal| match refusal {
        Refusal::NoDriver(detail) => CudaError::NoDriver { detail },
        Refusal::NoDevice(detail) => CudaError::NoDevice { detail },
        Refusal::TooOld(found) => CudaError::DriverTooOld {
            found: version_text(found),
            needed: version_text(LEAST_DRIVER),
            why: "(driver 570 or newer)",
        },
    })
}

/// Opens a device: its primary context and one new stream of it.
///
/// Event tracking, which costs several driver calls per kernel argument and breaks graph capture,
/// is off for this context, and memory that is freed stays in the device's pool. Work on several
/// streams is therefore ordered by the caller, with events.
///
/// # Errors
/// Those of [`device_count`], [`CudaError::NoSuchDevice`], or what the driver refused.
pub fn open(ordinal: usize) -> Result<(Arc<CudaContext>, Arc<CudaStream>), CudaError> {
    let count = device_count()?;
    if ordinal >= count {
        return Err(CudaError::NoSuchDevice { ordinal, count });
    }
    let context = CudaContext::new(ordinal)?;
    // SAFETY: no slice of this context exists yet; all crates here order their streams themselves.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    keep_freed_memory(&context)?;
    Ok((context, stream))
}

/// Driver's CUDA version as `major * 1000 + minor * 10`, such as 13000.
///
/// # Errors
/// [`CudaError::NoDriver`], or what the driver refused.
pub fn driver_version() -> Result<i32, CudaError> {
    device_count()?;
    let mut version = 0;
    // SAFETY: the pointer is to a live integer; the symbol was seen by `probe_driver`.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

/// Compares bytes needed with bytes free, before anything is allocated.
///
/// # Errors
/// [`CudaError::NotEnoughMemory`] with both figures, or what the driver refused.
pub fn check_memory(context: &CudaContext, what: &str, needed: u64) -> Result<(), CudaError> {
    let (free, total) = context.mem_get_info()?;
    // Memory that was freed stays in the pool and is not "free" for the driver, but is for us.
    let free = free as u64 + pooled_bytes(context).unwrap_or(0);
    if needed > free {
        return Err(CudaError::NotEnoughMemory {
            what: what.to_owned(),
            needed,
            free,
            total: total as u64,
        });
    }
    Ok(())
}

/// The device's name for the compiler, with the features of its own architecture: `sm_90a`, `sm_80`.
///
/// # Errors
/// What the driver refused.
pub fn architecture(context: &CudaContext) -> Result<String, CudaError> {
    let (major, minor) = context.compute_capability()?;
    let suffix = if major >= 9 { "a" } else { "" };
    Ok(format!("sm_{major}{minor}{suffix}"))
}

#[derive(Debug, Clone)]
enum Refusal {
    NoDriver(String),
    NoDevice(String),
    TooOld(c_int),
}

fn probe_driver() -> Result<usize, Refusal> {
    let names = cudarc::get_lib_name_candidates("cuda");
    // SAFETY: `Library::Driver` keeps the same library open already; this adds a reference.
    let handle = names
        .iter()
        .find_map(|name| unsafe { Handle::new(name) }.ok());
    let handle = handle.ok_or_else(|| Refusal::NoDriver("libcuda could not be opened".into()))?;
    let missing = |error: libloading::Error| Refusal::NoDriver(format!("a stub libcuda: {error}"));
    // SAFETY: the signatures are those of cuda.h; the handle outlives the calls.
    let outcome = unsafe {
        let version = handle
            .get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion")
            .map_err(missing)?;
        let init = handle
            .get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit")
            .map_err(missing)?;
        let count = handle
            .get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount")
            .map_err(missing)?;
        let mut found = 0;
        let code = version(&mut found);
        if code != 0 {
            return Err(Refusal::NoDriver(format!(
                "cuDriverGetVersion gave CUDA error {code} (34: a stub library)"
            )));
        }
        if found < LEAST_DRIVER {
            return Err(Refusal::TooOld(found));
        }
        let code = init(0);
        match code {
            0 => {}
            100 => return Err(Refusal::NoDevice("cuInit found none".into())),
            _ => {
                return Err(Refusal::NoDriver(format!(
                    "cuInit gave CUDA error {code} (803: driver and library differ, 804 and 999: the driver is not running)"
                )));
            }
        }
        let mut devices = 0;
        let code = count(&mut devices);
        (code, devices)
    };
    match outcome {
        (0, devices) if devices > 0 => Ok(devices as usize),
        (0, _) => Err(Refusal::NoDevice("the driver counts none".into())),
        (code, _) => Err(Refusal::NoDevice(format!(
            "cuDeviceGetCount gave CUDA error {code}"
        ))),
    }
}

/// Without a threshold the pool gives its memory back at every synchronize.
fn keep_freed_memory(context: &CudaContext) -> Result<(), CudaError> {
    let mut keep = u64::MAX;
    // SAFETY: the pool belongs to a device that is open, and the attribute is a u64.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        result::mem_pool::set_attribute(
            pool,
            sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            (&mut keep as *mut u64).cast(),
        )?;
    }
    Ok(())
}

/// Bytes that the device's pool holds and nobody uses.
fn pooled_bytes(context: &CudaContext) -> Option<u64> {
    let read = |attribute| {
        let mut bytes = 0u64;
        // SAFETY: the pool belongs to an open device, and both attributes are u64.
        unsafe {
            let pool = result::device::get_default_mem_pool(context.cu_device()).ok()?;
            sys::cuMemPoolGetAttribute(pool, attribute, (&mut bytes as *mut u64).cast())
                .result()
                .ok()?;
        }
        Some(bytes)
    };
    let reserved = read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
    let used = read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    Some(reserved.saturating_sub(used))
}

/// `12080` as `12.8`.
pub(crate) fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_nvidia_writes_them() {
        assert_eq!(version_text(12_080), "12.8");
        assert_eq!(version_text(13_000), "13.0");
    }

    /// Passes with and without a GPU: what is asserted is that no path panics and errors have text.
    #[test]
    fn asking_never_panics() {
        match device_count() {
            Ok(count) => assert!(matches!(
                open(count),
                Err(CudaError::NoSuchDevice { count: seen, .. }) if seen == count
            )),
            Err(error) => {
                assert!(
                    error.to_string().contains("driver") || error.to_string().contains("device")
                );
                assert_eq!(open(0).unwrap_err().to_string(), error.to_string());
            }
        }
    }
}
