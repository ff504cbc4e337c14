//! Small results on the host without waiting for the GPU.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DeviceRepr, result, sys};

use crate::error::CudaError;
use crate::graph::make_current;
use crate::memory::DeviceMemory;

/// Copies a small device value to the host again and again, and gives the newest that has arrived.
///
/// Each copy goes to a slot of its own in pinned memory, so that neither side waits for the other.
/// Where every slot is still on its way, a copy is left out.
pub struct Readback<T: DeviceRepr + Copy> {
    slots: Vec<Slot<T>>,
    /// Copies posted so far; the next goes to slot `posted % slots`.
    posted: u64,
    newest: Option<(u64, T)>,
    context: Arc<CudaContext>,
}

struct Slot<T> {
    host: *mut T,
    arrived: CudaEvent,
    /// Number of the copy that is on its way here.
    pending: Option<u64>,
}

// SAFETY: the pinned memory belongs to the slot alone, and is reached through `&mut self` only.
unsafe impl<T: DeviceRepr + Copy + Send> Send for Readback<T> {}
// SAFETY: `&self` reaches the copy in `newest` only.
unsafe impl<T: DeviceRepr + Copy + Sync> Sync for Readback<T> {}

impl<T: DeviceRepr + Copy> Readback<T> {
    /// Allocates `slots` slots; as many copies can be on their way.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn new(context: &Arc<CudaContext>, slots: usize) -> Result<Self, CudaError> {
        context.bind_to_thread()?;
        let mut readback = Self {
            slots: Vec::with_capacity(slots.max(1)),
            posted: 0,
            newest: None,
            context: Arc::clone(context),
        };
        for _ in 0..slots.max(1) {
            let arrived = context.new_event(None)?;
            // SAFETY: flags 0: cached memory, as the host reads it. Freed in `drop`.
            let host = unsafe { result::malloc_host(size_of::<T>(), 0) }?;
            readback.slots.push(Slot {
                host: host.cast(),
                arrived,
                pending: None,
            });
        }
        Ok(readback)
    }

    /// Enqueues a copy of the first element of `from`. Returns its number, from 1, or `None` where
    /// it was left out.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn post(
        &mut self,
        from: &DeviceMemory<T>,
        stream: &CudaStream,
    ) -> Result<Option<u64>, CudaError> {
        self.collect()?;
        let at = (self.posted % self.slots.len() as u64) as usize;
        self.posted += 1;
        let slot = &mut self.slots[at];
        if slot.pending.is_some() || from.is_empty() {
            return Ok(None);
        }
        make_current(stream)?;
        // SAFETY: the slot holds one `T`, no other copy is on its way to it, and it is read only
        // after the event.
        unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                slot.host.cast(),
                from.address(),
                size_of::<T>(),
                stream.cu_stream(),
            )
            .result()?;
            result::event::record(slot.arrived.cu_event(), stream.cu_stream())?;
        }
        slot.pending = Some(self.posted);
        Ok(Some(self.posted))
    }

    /// The newest value that has arrived, with its number. Never waits.
    ///
    /// # Errors
    /// What the driver refused, which may be an error of earlier work.
    pub fn newest(&mut self) -> Result<Option<(u64, T)>, CudaError> {
        self.collect()?;
        Ok(self.newest)
    }

    fn collect(&mut self) -> Result<(), CudaError> {
        if self.slots.iter().all(|slot| slot.pending.is_none()) {
            return Ok(());
        }
        if result::ctx::get_current()? != Some(self.context.cu_ctx()) {
            // SAFETY: the context is alive.
            unsafe { result::ctx::set_current(self.context.cu_ctx()) }?;
        }
        for slot in &mut self.slots {
            let Some(number) = slot.pending else {
                continue;
            };
            // SAFETY: the event is alive.
            match unsafe { result::event::query(slot.arrived.cu_event()) } {
                Ok(()) => {
                    slot.pending = None;
                    if self.newest.is_none_or(|(newest, _)| newest < number) {
                        // SAFETY: the copy has arrived; any bits are a `T` (`DeviceRepr`).
                        self.newest = Some((number, unsafe { slot.host.read_volatile() }));
                    }
                }
                Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl<T: DeviceRepr + Copy> Drop for Readback<T> {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        for slot in &self.slots {
            // A copy on its way must not land in memory that is somebody else's by then.
            if slot.pending.is_some() {
                let _ = slot.arrived.synchronize();
            }
            // SAFETY: allocated in `new`, freed once.
            let _ = unsafe { result::free_host(slot.host.cast()) };
        }
    }
}

impl<T: DeviceRepr + Copy> fmt::Debug for Readback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readback")
            .field("slots", &self.slots.len())
            .field("posted", &self.posted)
            .finish_non_exhaustive()
    }
}
