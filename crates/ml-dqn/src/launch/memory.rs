//! Plain values, pinned host memory to fill device memory from, and the number of a capture.
//!
//! Device memory is [`ml_cuda::DeviceMemory`], which cudarc does not track: the buffer orders its streams itself.

use cudarc::driver::{CudaEvent, CudaStream, DeviceRepr, DriverError, result, sys};
use ml_cuda::DeviceMemory;

/// Plain values that may be copied to and from the device byte by byte.
///
/// # Safety
/// No padding that matters, no pointers, and every bit pattern is a value.
pub unsafe trait DeviceValue: DeviceRepr + Copy + Send + Sync + 'static {}

macro_rules! device_values {
    ($($value:ty),*) => {
        // SAFETY: numbers: no padding, no pointers, every bit pattern is a value.
        $(unsafe impl DeviceValue for $value {})*
    };
}
device_values!(u8, u16, u32, i32, u64, i64, f32, f64);

/// The bytes of plain values.
pub fn as_bytes<T: DeviceValue>(values: &[T]) -> &[u8] {
    // SAFETY: `DeviceValue` promises plain values; a byte has no alignment, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of plain values, to be filled.
pub fn as_bytes_mut<T: DeviceValue>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`; every bit pattern is a value.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// Number of the capture that the stream is in, `None` outside of one.
///
/// # Errors
/// What the driver refused.
pub fn capture_number(stream: &CudaStream) -> Result<Option<u64>, DriverError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let mut number = 0;
    let nothing = std::ptr::null_mut();
    // SAFETY: the stream is alive, the two outputs are live, and null asks for nothing more.
    unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream.cu_stream(),
            &mut status,
            &mut number,
            nothing,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    }
    .result()?;
    Ok((status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE).then_some(number))
}

/// Pinned host bytes that are copied to the device while the host goes on.
#[derive(Debug)]
pub struct PinnedBytes {
    pointer: *mut u8,
    len: usize,
    /// Recorded after the last copy out of these bytes.
    copied: CudaEvent,
}

// SAFETY: the pointer is owned, and memory from cuMemHostAlloc is usable from every thread.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; `&self` gives no access to the bytes.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// Allocates `len` bytes.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn new(stream: &CudaStream, len: usize) -> Result<Self, DriverError> {
        stream.context().bind_to_thread()?;
        let copied = stream.context().new_event(None)?;
        // SAFETY: the context is current; the memory is owned by the value below. Write-combined memory (flag 4) is
        // right for bytes that the host only writes.
        let pointer = unsafe { result::malloc_host(len.max(1), 4) }?.cast::<u8>();
        // SAFETY: `len.max(1)` bytes were just allocated.
        unsafe { pointer.write_bytes(0, len.max(1)) };
        Ok(Self {
            pointer,
            len,
            copied,
        })
    }

    /// The bytes, once the last copy out of them is over.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], DriverError> {
        self.copied.synchronize()?;
        // SAFETY: owned, initialized in `new`, exclusive by `&mut self`; the GPU has read what it was to read.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) })
    }

    /// Copies the first `len` bytes to `to`, in stream order, without waiting.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn copy_to(
        &mut self,
        to: &DeviceMemory<u8>,
        len: usize,
        stream: &CudaStream,
    ) -> Result<(), DriverError> {
        assert!(len <= self.len && len <= to.len());
        // SAFETY: both ranges were checked; the bytes stay untouched until `copied` has passed.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.pointer, len);
            result::memcpy_htod_async(to.address(), bytes, stream.cu_stream())?;
        }
        self.copied.record(stream)
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        let _ = self.copied.synchronize();
        // SAFETY: allocated in `new`, freed once, no copy under way.
        let _ = unsafe { result::free_host(self.pointer.cast()) };
    }
}
