//! A sampled batch: device memory that it shares, and how others wait for it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream};

use super::options::StateType;
use crate::error::DqnError;
use crate::launch::memory::as_bytes_mut;
use crate::launch::per::{GatherBatch, STATUS_NOT_FINITE, STATUS_ZERO_TOTAL};
use ml_cuda::DeviceMemory;

/// Memory of one batch. The pool of the buffer holds it, and each `GpuBatchPtrs` that was sampled into it.
#[derive(Debug)]
pub(crate) struct BatchSet {
    pub(crate) rows: usize,
    pub(crate) state_dim: usize,
    pub(crate) state_type: StateType,
    pub(crate) states: DeviceMemory<u8>,
    pub(crate) next_states: DeviceMemory<u8>,
    pub(crate) actions: DeviceMemory<u32>,
    pub(crate) rewards: DeviceMemory<f32>,
    pub(crate) dones: DeviceMemory<f32>,
    pub(crate) weights: DeviceMemory<f32>,
    pub(crate) step_counts: DeviceMemory<u32>,
    pub(crate) index: DeviceMemory<i64>,
    pub(crate) drawn: DeviceMemory<f32>,
    pub(crate) drawn_at: DeviceMemory<u64>,
    pub(crate) status: DeviceMemory<u32>,
    /// Recorded once the batch is written.
    pub(crate) ready: CudaEvent,
    /// Recorded on a reader's stream when the set is used again or freed.
    done_reading: CudaEvent,
    /// Other streams that were told to wait for `ready`: they may still read.
    readers: Mutex<Vec<Arc<CudaStream>>>,
    pub(crate) stream: Arc<CudaStream>,
}

impl BatchSet {
    pub(crate) fn new(
        stream: &Arc<CudaStream>,
        rows: usize,
        state_dim: usize,
        state_type: StateType,
    ) -> Result<Self, DqnError> {
        let component = match state_type {
            StateType::F32 => 4,
            StateType::Bf16 => 2,
        };
        let state_bytes = rows * state_dim * component;
        Ok(Self {
            rows,
            state_dim,
            state_type,
            states: DeviceMemory::zeroed(stream, state_bytes)?,
            next_states: DeviceMemory::zeroed(stream, state_bytes)?,
            actions: DeviceMemory::zeroed(stream, rows)?,
            rewards: DeviceMemory::zeroed(stream, rows)?,
            dones: DeviceMemory::zeroed(stream, rows)?,
            weights: DeviceMemory::zeroed(stream, rows)?,
            step_counts: DeviceMemory::zeroed(stream, rows)?,
            index: DeviceMemory::zeroed(stream, rows)?,
            drawn: DeviceMemory::zeroed(stream, rows)?,
            drawn_at: DeviceMemory::zeroed(stream, 1)?,
            status: DeviceMemory::zeroed(stream, 1)?,
            ready: stream.context().new_event(None)?,
            done_reading: stream.context().new_event(None)?,
            readers: Mutex::default(),
            stream: Arc::clone(stream),
        })
    }

    /// Bytes that a set of `rows` rows allocates.
    pub(crate) fn bytes(rows: usize, state_dim: usize, state_type: StateType) -> u64 {
        let component = match state_type {
            StateType::F32 => 4,
            StateType::Bf16 => 2,
        };
        rows as u64 * (2 * state_dim as u64 * component + 5 * 4 + 8 + 4) + 12
    }

    pub(crate) fn gather(&self, n: usize, n_steps: usize, gamma: f32) -> GatherBatch {
        GatherBatch {
            index: self.index.address(),
            drawn: self.drawn.address(),
            states: self.states.address(),
            next_states: self.next_states.address(),
            actions: self.actions.address(),
            rewards: self.rewards.address(),
            dones: self.dones.address(),
            weights: self.weights.address(),
            step_counts: self.step_counts.address(),
            n: n as u32,
            n_steps: n_steps as u32,
            gamma,
            out_dtype: u32::from(self.state_type == StateType::Bf16),
        }
    }

    pub(crate) fn has_readers(&self) -> bool {
        !lock(&self.readers).is_empty()
    }

    /// Makes the buffer's stream wait for all that other streams were given to do with this set.
    pub(crate) fn wait_for_readers(&self) -> Result<(), DqnError> {
        for reader in lock(&self.readers).drain(..) {
            self.done_reading.record(&reader)?;
            self.stream.wait(&self.done_reading)?;
        }
        Ok(())
    }
}

impl Drop for BatchSet {
    fn drop(&mut self) {
        // The memory is freed in the order of the buffer's stream, so the readers must come before. Where even that
        // fails the context is lost, and the error comes out of the next call.
        if let Err(DqnError::Driver(error)) = self.wait_for_readers() {
            self.stream.context().record_err(Err::<(), _>(error));
        }
    }
}

/// Device addresses of one sampled batch, whose memory it shares.
///
/// Cloning is cheap and keeps the memory: no later sample writes into a batch that is held. Three may
/// be held at a time. `Default` is the empty batch, which no step accepts.
///
/// The addresses are valid once the buffer's stream has passed the sample: on that stream at once, on
/// another after [`wait_on`](Self::wait_on). Host copies are named for what they cost: each waits for
/// the stream.
#[derive(Clone, Default)]
pub struct GpuBatchPtrs {
    pub(crate) set: Option<Arc<BatchSet>>,
    pub(crate) len: usize,
    /// Which buffer drew it.
    pub(crate) drawn_by: u64,
}

macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident => $field:ident;)*) => {
        $($(#[$doc])* pub fn $name(&self) -> u64 {
            self.set.as_ref().map_or(0, |set| set.$field.address())
        })*
    };
}

impl GpuBatchPtrs {
    addresses! {
        /// Address of the states, `[len, state_dim]` of [`state_type`](Self::state_type); 0 in the empty batch, as for all addresses.
        states => states;
        /// Address of the states after the (last) step, `[len, state_dim]`.
        next_states => next_states;
        /// Address of the actions, `[len]` u32.
        actions => actions;
        /// Address of the rewards, `[len]` f32: the discounted sum over [`step_counts`](Self::step_counts) steps.
        rewards => rewards;
        /// Address of `[len]` f32: 1 where the episode ended in a terminal state, else 0. Truncated episodes bootstrap.
        dones => dones;
        /// Address of the importance weights, `[len]` f32 in (0, 1].
        weights => weights;
        /// Address of the slots, `[len]` i64; -1 in a batch that could not be drawn.
        indices => index;
        /// Address of the drawn slots' priorities, `[len]` f32.
        priorities => drawn;
        /// Address of `[len]` u32: steps summed into each reward, so the bootstrap's factor is gamma to that power.
        step_counts => step_counts;
        /// Address of one u32: 0 where the batch was drawn, else the sum of priorities was zero (1) or not finite (2), rows
        /// are zeros with weight 0, and a step must change nothing.
        status => status;
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Components of a state; 0 in the empty batch.
    pub fn state_dim(&self) -> usize {
        self.set.as_ref().map_or(0, |set| set.state_dim)
    }

    /// What the states are made of.
    pub fn state_type(&self) -> StateType {
        self.set
            .as_ref()
            .map_or(StateType::F32, |set| set.state_type)
    }

    /// Makes `stream` wait until the batch is written, and the buffer wait for `stream` before it writes there again.
    ///
    /// # Errors
    /// [`DqnError::EmptyBatch`], or what the driver refused.
    pub fn wait_on(&self, stream: &Arc<CudaStream>) -> Result<(), DqnError> {
        let set = self.set()?;
        if stream.cu_stream() == set.stream.cu_stream() {
            return Ok(());
        }
        stream.wait(&set.ready)?;
        let mut readers = lock(&set.readers);
        if !readers
            .iter()
            .any(|reader| reader.cu_stream() == stream.cu_stream())
        {
            readers.push(Arc::clone(stream));
        }
        Ok(())
    }

    /// Slots, on the host. Waits for the stream.
    ///
    /// # Errors
    /// [`DqnError::ZeroTotalPriority`] or [`DqnError::NonFiniteTotalPriority`] where nothing was drawn, or what the driver refused.
    pub fn indices_to_host(&self) -> Result<Vec<u64>, DqnError> {
        let slots = self.copy(|set| &set.index)?;
        Ok(slots.into_iter().map(|slot| slot as u64).collect())
    }

    /// Importance weights, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn weights_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy(|set| &set.weights)
    }

    /// Rewards, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn rewards_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy(|set| &set.rewards)
    }

    /// Actions, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn actions_to_host(&self) -> Result<Vec<u32>, DqnError> {
        self.copy(|set| &set.actions)
    }

    /// 1 where an episode ended in a terminal state, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn dones_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy(|set| &set.dones)
    }

    /// Steps summed into each reward, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn step_counts_to_host(&self) -> Result<Vec<u32>, DqnError> {
        self.copy(|set| &set.step_counts)
    }

    /// Priorities of the drawn slots, on the host. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn priorities_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy(|set| &set.drawn)
    }

    /// States, `[len, state_dim]` row by row, on the host, as f32. Waits for the stream.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn states_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy_states(|set| &set.states)
    }

    /// States after the (last) step, likewise.
    ///
    /// # Errors
    /// As [`indices_to_host`](Self::indices_to_host).
    pub fn next_states_to_host(&self) -> Result<Vec<f32>, DqnError> {
        self.copy_states(|set| &set.next_states)
    }

    pub(crate) fn set(&self) -> Result<&Arc<BatchSet>, DqnError> {
        self.set.as_ref().ok_or(DqnError::EmptyBatch)
    }

    /// The set, once the stream has passed it and the draw is known to be good. `None` in the empty batch.
    fn drawn(&self) -> Result<Option<&Arc<BatchSet>>, DqnError> {
        let Some(set) = &self.set else {
            return Ok(None);
        };
        let mut status = [0];
        set.status.read(&mut status)?;
        check_status(status[0])?;
        Ok(Some(set))
    }

    fn copy<T: Default + Copy + crate::launch::memory::DeviceValue>(
        &self,
        field: impl Fn(&BatchSet) -> &DeviceMemory<T>,
    ) -> Result<Vec<T>, DqnError> {
        let Some(set) = self.drawn()? else {
            return Ok(Vec::new());
        };
        let mut values = vec![T::default(); self.len];
        field(set).read(&mut values)?;
        Ok(values)
    }

    fn copy_states(
        &self,
        field: impl Fn(&BatchSet) -> &DeviceMemory<u8>,
    ) -> Result<Vec<f32>, DqnError> {
        let Some(set) = self.drawn()? else {
            return Ok(Vec::new());
        };
        let components = self.len * set.state_dim;
        match set.state_type {
            StateType::F32 => {
                let mut values = vec![0.0f32; components];
                field(set).read(as_bytes_mut(&mut values))?;
                Ok(values)
            }
            StateType::Bf16 => {
                let mut halves = vec![0u16; components];
                field(set).read(as_bytes_mut(&mut halves))?;
                let widen = |half: u16| f32::from_bits(u32::from(half) << 16);
                Ok(halves.into_iter().map(widen).collect())
            }
        }
    }
}

impl fmt::Debug for GpuBatchPtrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuBatchPtrs")
            .field("len", &self.len)
            .field("state_dim", &self.state_dim())
            .field("states", &format_args!("{:#x}", self.states()))
            .field("indices", &format_args!("{:#x}", self.indices()))
            .finish_non_exhaustive()
    }
}

/// What a status of the device means to the host.
pub(crate) fn check_status(status: u32) -> Result<(), DqnError> {
    if status & STATUS_NOT_FINITE != 0 {
        return Err(DqnError::NonFiniteTotalPriority);
    }
    if status & STATUS_ZERO_TOTAL != 0 {
        return Err(DqnError::ZeroTotalPriority);
    }
    Ok(())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while the lock was held left at worst a batch that nobody has.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_the_surface_promises() {
        fn shared<T: fmt::Debug + Clone + Default + Send + Sync + 'static>() {}
        shared::<GpuBatchPtrs>();
    }

    #[test]
    fn the_empty_batch_has_no_addresses_and_no_rows() {
        let batch = GpuBatchPtrs::default();
        assert!(batch.is_empty());
        assert_eq!((batch.states(), batch.weights(), batch.status()), (0, 0, 0));
        assert_eq!(batch.state_dim(), 0);
        assert!(matches!(batch.set(), Err(DqnError::EmptyBatch)));
        assert_eq!(batch.rewards_to_host().unwrap(), Vec::<f32>::new());
    }

    #[test]
    fn a_status_is_told_by_name() {
        assert!(check_status(0).is_ok());
        assert!(matches!(
            check_status(STATUS_ZERO_TOTAL),
            Err(DqnError::ZeroTotalPriority)
        ));
        let both = STATUS_ZERO_TOTAL | STATUS_NOT_FINITE;
        assert!(matches!(
            check_status(both),
            Err(DqnError::NonFiniteTotalPriority)
        ));
    }
}
