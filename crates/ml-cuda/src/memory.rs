//! Device memory that cudarc does not track.
//!
//! cudarc's slices follow the event-tracking flag of the caller's context: each use then waits for and
//! records events, which a capture does not bear. Work on this memory is ordered by its stream alone.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr, result};

use crate::error::CudaError;
use crate::graph::make_current;

/// `len` values on the device, allocated and freed in the order of one stream.
///
/// `T` must be plain: no padding that matters, every bit pattern a value, which `DeviceRepr` stands for.
pub struct DeviceMemory<T: DeviceRepr + Copy> {
    address: u64,
    len: usize,
    stream: Arc<CudaStream>,
    values: PhantomData<fn() -> T>,
}

impl<T: DeviceRepr + Copy> DeviceMemory<T> {
    /// Allocates `len` values whose bytes are zero.
    ///
    /// # Errors
    /// What the driver refused, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn zeroed(stream: &Arc<CudaStream>, len: usize) -> Result<Self, CudaError> {
        make_current(stream)?;
        // An empty allocation would have no address.
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the context is current and the stream alive; the value below owns the memory.
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

    /// Sets every byte to zero, in stream order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn clear(&self) -> Result<(), CudaError> {
        make_current(&self.stream)?;
        let bytes = self.len.max(1) * size_of::<T>();
        // SAFETY: the memory is owned and so many bytes long.
        unsafe { result::memset_d8_async(self.address, 0, bytes, self.stream.cu_stream()) }?;
        Ok(())
    }

    /// Allocates a copy of host values.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn from_host(stream: &Arc<CudaStream>, values: &[T]) -> Result<Self, CudaError> {
        let memory = Self::zeroed(stream, values.len())?;
        memory.write(values)?;
        Ok(memory)
    }

    /// Copies host values to the front, in stream order. They are read before the call returns.
    ///
    /// # Errors
    /// [`CudaError::Length`] where they do not fit, or what the driver refused.
    pub fn write(&self, values: &[T]) -> Result<(), CudaError> {
        self.write_at(0, values)
    }

    /// Copies host values to places `at..`, as [`write`](Self::write).
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_at(&self, at: usize, values: &[T]) -> Result<(), CudaError> {
        self.check(at + values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        make_current(&self.stream)?;
        let to = self.address + (at * size_of::<T>()) as u64;
        // SAFETY: the range was checked; the driver stages pageable memory before it returns.
        unsafe { result::memcpy_htod_async(to, values, self.stream.cu_stream()) }?;
        Ok(())
    }

    /// Copies the first values to the host. Waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Length`] where there are not as many, or what the driver refused.
    pub fn read(&self, values: &mut [T]) -> Result<(), CudaError> {
        self.read_at(0, values)
    }

    /// Copies the values at places `at..` to the host. Waits for the stream.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_at(&self, at: usize, values: &mut [T]) -> Result<(), CudaError> {
        self.check(at + values.len())?;
        make_current(&self.stream)?;
        if !values.is_empty() {
            let from = self.address + (at * size_of::<T>()) as u64;
            // SAFETY: the range was checked, and `values` lives until the wait below is over.
            unsafe { result::memcpy_dtoh_async(values, from, self.stream.cu_stream()) }?;
        }
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.stream.cu_stream()) }?;
        Ok(())
    }

    /// All values on the host. Waits for the stream.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn to_vec(&self) -> Result<Vec<T>, CudaError>
    where
        T: Default,
    {
        let mut values = vec![T::default(); self.len];
        self.read(&mut values)?;
        Ok(values)
    }

    /// Copies all values of `other` here, in stream order.
    ///
    /// # Errors
    /// [`CudaError::Length`] where they do not fit, or what the driver refused.
    pub fn copy_from(&self, other: &Self) -> Result<(), CudaError> {
        self.check(other.len)?;
        make_current(&self.stream)?;
        let bytes = other.len * size_of::<T>();
        // SAFETY: both hold so many bytes and are alive.
        unsafe {
            result::memcpy_dtod_async(self.address, other.address, bytes, self.stream.cu_stream())
        }?;
        Ok(())
    }

    /// Device address of the first value; 256-byte aligned.
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

    fn check(&self, asked: usize) -> Result<(), CudaError> {
        if asked > self.len {
            return Err(CudaError::Length {
                asked,
                held: self.len,
            });
        }
        Ok(())
    }
}

impl<T: DeviceRepr + Copy> Drop for DeviceMemory<T> {
    fn drop(&mut self) {
        let _ = make_current(&self.stream);
        // SAFETY: allocated in `zeroed`, freed once, behind all work on the stream.
        let _ = unsafe { result::free_async(self.address, self.stream.cu_stream()) };
    }
}

impl<T: DeviceRepr + Copy> fmt::Debug for DeviceMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceMemory")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .finish()
    }
}
