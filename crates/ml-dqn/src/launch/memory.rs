//! Device memory that cudarc does not track, and pinned host memory to fill it from.
//!
//! cudarc's slices follow the event-tracking flag of the caller's context, which costs driver calls a
//! launch and breaks captures. Memory of this crate is never tracked, whatever the flag says: the buffer
//! orders its streams itself.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, DriverError, result, sys};

/// Plain values that may be copied to and from the device byte by byte.
///
/// # Safety
/// No padding that matters, no pointers, and every bit pattern is a value.
pub unsafe trait DeviceValue: Copy + Send + Sync + 'static {}

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

/// `len` values on the device, freed in the order of the stream that they were made on.
///
/// Kernels write through `&self`: what orders them is the stream, and the lock of whoever enqueues.
#[derive(Debug)]
pub struct DeviceMemory<T> {
    address: u64,
    len: usize,
    stream: Arc<CudaStream>,
    values: PhantomData<T>,
}

impl<T: DeviceValue> DeviceMemory<T> {
    /// Allocates `len` values whose bytes are zero. At least one value is allocated, so that the address is real.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn zeroed(stream: &Arc<CudaStream>, len: usize) -> Result<Self, DriverError> {
        stream.context().bind_to_thread()?;
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the context is current, the stream alive; the memory is owned by the value below.
        let address = unsafe { result::malloc_async(stream.cu_stream(), bytes) }?;
        let memory = Self {
            address,
            len,
            stream: Arc::clone(stream),
            values: PhantomData,
        };
        memory.clear()?;
        Ok(memory)
    }

    /// Device address of the first value.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Sets every byte to zero, in stream order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn clear(&self) -> Result<(), DriverError> {
        self.stream.context().bind_to_thread()?;
        // SAFETY: the memory is owned and at least one value long.
        unsafe {
            result::memset_d8_async(
                self.address,
                0,
                self.len.max(1) * size_of::<T>(),
                self.stream.cu_stream(),
            )
        }
    }

    /// Copies host values to positions `at..`, in stream order. Pageable memory is read before the call returns.
    ///
    /// # Errors
    /// What the driver refused.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), DriverError> {
        assert!(
            at + values.len() <= self.len,
            "{} values at {at} do not fit into {}",
            values.len(),
            self.len
        );
        if values.is_empty() {
            return Ok(());
        }
        self.stream.context().bind_to_thread()?;
        let to = self.address + (at * size_of::<T>()) as u64;
        // SAFETY: the range was checked above; the driver stages pageable memory before it returns.
        unsafe { result::memcpy_htod_async(to, values, self.stream.cu_stream()) }
    }

    /// Copies the values at positions `at..` to the host. Waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn read(&self, at: usize, values: &mut [T]) -> Result<(), DriverError> {
        assert!(
            at + values.len() <= self.len,
            "{} values at {at} are not in {}",
            values.len(),
            self.len
        );
        self.stream.context().bind_to_thread()?;
        if !values.is_empty() {
            let from = self.address + (at * size_of::<T>()) as u64;
            // SAFETY: the range was checked above; `values` lives until the wait below is over.
            unsafe { result::memcpy_dtoh_async(values, from, self.stream.cu_stream()) }?;
        }
        self.stream.synchronize()
    }

    /// All values, on the host. Waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn to_vec(&self) -> Result<Vec<T>, DriverError>
    where
        T: Default,
    {
        let mut values = vec![T::default(); self.len];
        self.read(0, &mut values)?;
        Ok(values)
    }
}

impl<T> Drop for DeviceMemory<T> {
    fn drop(&mut self) {
        let context = self.stream.context();
        if let Err(error) = context.bind_to_thread() {
            context.record_err(Err::<(), _>(error));
        }
        // SAFETY: allocated by `zeroed` and freed once; work enqueued before on this stream goes first.
        let freed = unsafe { result::free_async(self.address, self.stream.cu_stream()) };
        context.record_err(freed);
    }
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
