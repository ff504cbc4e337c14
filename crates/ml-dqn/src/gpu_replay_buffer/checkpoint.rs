//! Saving a buffer, and going on with it bit for bit.
//!
//! The file holds a header, the shared state (sums excepted, which are recomputed), priorities, records of the filled
//! slots, and where each environment stands; all little-endian, with a checksum at the end. What is read is checked
//! against this buffer before anything on the device changes.

use std::io::{Read, Write};

use super::{GpuReplayBuffer, Pending, lock, next_identity};
use crate::error::DqnError;
use crate::launch::memory::{DeviceValue, as_bytes, as_bytes_mut};
use crate::launch::per::{EnvCursor, PerState};
use ml_cuda::DeviceMemory;

#[cfg(target_endian = "big")]
compile_error!("saved buffers are little-endian, as every host of an NVIDIA GPU is");

const MAGIC: [u8; 8] = *b"FXREPLAY";
const VERSION: u64 = 1;
/// Bytes that go through host memory at a time.
const CHUNK: usize = 8 << 20;

/// What must fit this buffer, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    capacity: u64,
    state_dim: u64,
    /// 0: f32; 1: bf16.
    stored_states: u64,
    n_envs: u64,
    track_episodes: u64,
    alpha_bits: u64,
    emptied_at: u64,
}

impl Header {
    fn words(&self) -> [u64; 7] {
        [
            self.capacity,
            self.state_dim,
            self.stored_states,
            self.n_envs,
            self.track_episodes,
            self.alpha_bits,
            self.emptied_at,
        ]
    }

    /// Refuses a file of another buffer, naming what differs.
    fn check(&self, here: &Header) -> Result<(), DqnError> {
        if self.capacity != here.capacity {
            return Err(DqnError::CapacityMismatch {
                saved: self.capacity as usize,
                here: here.capacity as usize,
            });
        }
        let alpha = |bits: u64| f32::from_bits(bits as u32);
        let differ = [
            ("state_dim", self.state_dim, here.state_dim),
            ("stored_states", self.stored_states, here.stored_states),
            ("n_envs", self.n_envs, here.n_envs),
            ("track_episodes", self.track_episodes, here.track_episodes),
        ];
        for (name, saved, here) in differ {
            if saved != here {
                return Err(DqnError::Checkpoint(format!(
                    "its `{name}` is {saved}, this buffer's {here}; build the buffer as it was"
                )));
            }
        }
        if self.alpha_bits != here.alpha_bits {
            return Err(DqnError::Checkpoint(format!(
                "its priorities are powers with `alpha` {}, this buffer's `alpha` is {}; build the buffer as it was",
                alpha(self.alpha_bits),
                alpha(here.alpha_bits)
            )));
        }
        Ok(())
    }
}

impl GpuReplayBuffer {
    /// Writes everything that a resumed run needs: transitions, priorities, counters of the generator, open episodes.
    /// Waits for the GPU. A buffer that is restored from it draws the same batches as this one.
    ///
    /// # Errors
    /// [`DqnError::Io`] where writing fails, or what the driver refused.
    pub fn save(&self, to: &mut impl Write) -> Result<(), DqnError> {
        self.refuse_capture("save")?;
        let mut shared = lock(&self.shared);
        // Afterwards no priority carries a mark, and the sums are those that a rebuild gives.
        self.scan_whole(&mut shared)?;
        let mut state = [PerState::default()];
        self.memory.state.read(&mut state)?;

        let mut file = Checked::new(to);
        file.write(&MAGIC)?;
        file.write(as_bytes(&[VERSION]))?;
        file.write(as_bytes(&self.header().words()))?;
        file.write(as_bytes(&state))?;
        let (slots, words) = (self.len(), self.memory.layout.record_words as usize);
        let tracked = if self.options.track_episodes {
            slots
        } else {
            0
        };
        copy_out(&mut file, &self.memory.priority, slots)?;
        copy_out(&mut file, &self.memory.records, slots * words)?;
        copy_out(&mut file, &self.memory.cursors, self.options.n_envs)?;
        copy_out(&mut file, &self.memory.places, tracked)?;
        copy_out(&mut file, &self.memory.episode_ends, tracked)?;
        let sum = file.sum;
        file.to.write_all(&sum.to_le_bytes())?;
        file.to.flush()?;
        Ok(())
    }

    /// Replaces the contents by what [`save`](Self::save) wrote. Waits for the GPU.
    ///
    /// Device addresses stay, so captured graphs go on with the new contents. Batches drawn before are refused by
    /// [`update_priorities_gpu`](Self::update_priorities_gpu).
    ///
    /// # Errors
    /// [`DqnError::CapacityMismatch`] or [`DqnError::Checkpoint`] where the file is of another buffer: nothing has changed
    /// then. [`DqnError::Checkpoint`] or [`DqnError::Io`] where it is damaged or cut short: the buffer is empty then. Or what
    /// the driver refused.
    pub fn restore(&mut self, from: &mut impl Read) -> Result<(), DqnError> {
        self.refuse_capture("restore")?;
        let mut file = Checked::new(from);
        let mut magic = [0; 8];
        file.read(&mut magic)?;
        if magic != MAGIC {
            return Err(DqnError::Checkpoint(
                "it does not begin as one; was it written by `GpuReplayBuffer::save`?".into(),
            ));
        }
        let mut version = [0u64];
        file.read(as_bytes_mut(&mut version))?;
        if version[0] != VERSION {
            return Err(DqnError::Checkpoint(format!(
                "it is of version {}, this program reads version {VERSION}",
                version[0]
            )));
        }
        let mut words = [0u64; 7];
        file.read(as_bytes_mut(&mut words))?;
        let [
            capacity,
            state_dim,
            stored_states,
            n_envs,
            track_episodes,
            alpha_bits,
            emptied_at,
        ] = words;
        let saved = Header {
            capacity,
            state_dim,
            stored_states,
            n_envs,
            track_episodes,
            alpha_bits,
            emptied_at,
        };
        saved.check(&self.header())?;
        let mut state = [PerState::default()];
        file.read(as_bytes_mut(&mut state))?;
        let [state] = state;
        check_counts(&state, &saved)?;

        self.identity = next_identity();
        self.clear();
        let loaded = self.load(&mut file, state, emptied_at);
        if loaded.is_err() {
            self.clear();
        }
        loaded
    }

    fn load<R: Read>(
        &mut self,
        file: &mut Checked<&mut R>,
        state: PerState,
        emptied_at: u64,
    ) -> Result<(), DqnError> {
        let (slots, words) = (
            state.size as usize,
            self.memory.layout.record_words as usize,
        );
        let tracked = if self.options.track_episodes {
            slots
        } else {
            0
        };
        copy_in(file, &self.memory.priority, slots)?;
        copy_in(file, &self.memory.records, slots * words)?;
        copy_in(file, &self.memory.cursors, self.options.n_envs)?;
        copy_in(file, &self.memory.places, tracked)?;
        copy_in(file, &self.memory.episode_ends, tracked)?;
        let expected = file.sum;
        let mut sum = [0; 8];
        file.to.read_exact(&mut sum)?;
        if u64::from_le_bytes(sum) != expected {
            return Err(DqnError::Checkpoint(
                "its checksum is wrong: the file is damaged".into(),
            ));
        }
        // Tickets are zero between launches, whatever the file says.
        let state = PerState {
            reserved: 0,
            n_touched: 0,
            status: 0,
            ..state
        };
        self.memory.state.write(&[state])?;
        self.written = state.written;
        self.emptied_at = emptied_at;
        self.beta = state.beta;
        let mut shared = lock(&self.shared);
        shared.pending = Pending {
            entries: 0,
            ..shared.pending
        };
        self.kernels.all_tiles(&self.stream, &self.memory)?;
        self.scan_whole(&mut shared)?;
        Ok(self.stream.synchronize()?)
    }

    fn header(&self) -> Header {
        Header {
            capacity: self.config.capacity as u64,
            state_dim: self.config.state_dim as u64,
            stored_states: u64::from(self.memory.layout.dtype),
            n_envs: self.options.n_envs as u64,
            track_episodes: u64::from(self.options.track_episodes),
            alpha_bits: u64::from(self.config.alpha.to_bits()),
            emptied_at: self.emptied_at,
        }
    }
}

/// Refuses counts that no buffer can have, before they size anything.
fn check_counts(state: &PerState, header: &Header) -> Result<(), DqnError> {
    let stored = state.written.checked_sub(header.emptied_at);
    if stored.map(|stored| stored.min(header.capacity)) != Some(state.size) {
        return Err(DqnError::Checkpoint(format!(
            "it says {} slots of {} after {} rows: the file is damaged",
            state.size, header.capacity, state.written
        )));
    }
    Ok(())
}

fn copy_out<T: DeviceValue + Default>(
    file: &mut Checked<&mut impl Write>,
    memory: &DeviceMemory<T>,
    count: usize,
) -> Result<(), DqnError> {
    let mut chunk = vec![T::default(); count.min(CHUNK / size_of::<T>())];
    let mut at = 0;
    while at < count {
        let here = chunk.len().min(count - at);
        memory.read_at(at, &mut chunk[..here])?;
        file.write(as_bytes(&chunk[..here]))?;
        at += here;
    }
    Ok(())
}

fn copy_in<T: DeviceValue + Default>(
    file: &mut Checked<&mut impl Read>,
    memory: &DeviceMemory<T>,
    count: usize,
) -> Result<(), DqnError> {
    let mut chunk = vec![T::default(); count.min(CHUNK / size_of::<T>())];
    let mut at = 0;
    while at < count {
        let here = chunk.len().min(count - at);
        file.read(as_bytes_mut(&mut chunk[..here]))?;
        memory.write_at(at, &chunk[..here])?;
        at += here;
    }
    Ok(())
}

/// A file with a running checksum: FNV-1a over words of 8 bytes, each part padded with zeros.
struct Checked<F> {
    to: F,
    sum: u64,
}

impl<F> Checked<F> {
    fn new(to: F) -> Self {
        Self {
            to,
            sum: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        for word in words.iter().chain(last) {
            self.sum = (self.sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl<W: Write> Checked<&mut W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DqnError> {
        self.add(bytes);
        Ok(self.to.write_all(bytes)?)
    }
}

impl<R: Read> Checked<&mut R> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), DqnError> {
        self.to.read_exact(bytes)?;
        self.add(bytes);
        Ok(())
    }
}

// The cursors' type appears in the file by its layout.
const _: () = assert!(size_of::<EnvCursor>() == 24 && size_of::<PerState>() == 96);

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            capacity: 10,
            state_dim: 80,
            stored_states: 0,
            n_envs: 1,
            track_episodes: 0,
            alpha_bits: u64::from(0.6f32.to_bits()),
            emptied_at: 0,
        }
    }

    #[test]
    fn a_file_of_another_buffer_is_refused_by_name() {
        let here = header();
        assert!(here.check(&here).is_ok());
        let larger = Header {
            capacity: 20,
            ..here
        };
        assert!(matches!(
            larger.check(&here),
            Err(DqnError::CapacityMismatch {
                saved: 20,
                here: 10
            })
        ));
        let wider = Header {
            state_dim: 81,
            ..here
        };
        let error = wider.check(&here).unwrap_err().to_string();
        assert!(
            error.contains("`state_dim` is 81, this buffer's 80"),
            "{error}"
        );
        let flatter = Header {
            alpha_bits: 0,
            ..here
        };
        let error = flatter.check(&here).unwrap_err().to_string();
        assert!(
            error.contains("`alpha` 0, this buffer's `alpha` is 0.6"),
            "{error}"
        );
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let state = |size, written| PerState {
            size,
            written,
            ..PerState::default()
        };
        assert!(check_counts(&state(3, 3), &header()).is_ok());
        assert!(check_counts(&state(10, 33), &header()).is_ok());
        assert!(check_counts(&state(11, 33), &header()).is_err());
        assert!(check_counts(&state(4, 3), &header()).is_err());
        let emptied = Header {
            emptied_at: 20,
            ..header()
        };
        assert!(check_counts(&state(3, 23), &emptied).is_ok());
        assert!(check_counts(&state(3, 3), &emptied).is_err());
    }

    #[test]
    fn the_checksum_sees_every_byte() {
        let sum = |bytes: &[u8]| {
            let mut file = Checked::new(std::io::sink());
            file.add(bytes);
            file.sum
        };
        let bytes: Vec<u8> = (0..100).collect();
        for at in 0..100 {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(sum(&bytes), sum(&other), "byte {at}");
        }
    }
}
