//! Rows that arrive: from the host or the device, from one environment or many.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};

use crate::error::DqnError;
use crate::experience::Experience;
use crate::launch::memory::{PinnedBytes, as_bytes};
use crate::launch::per::NewRows;
use ml_cuda::DeviceMemory;

/// Steps of one or several environments, field by field; see [`HostSteps`] and [`DeviceSteps`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Steps<'a> {
    /// From host memory.
    Host(HostSteps<'a>),
    /// From device memory.
    Device(DeviceSteps<'a>),
}

/// Steps in host memory. All fields have one entry a step; states have `state_dim` components a step.
///
/// Steps of one environment stand in the order in which they happened; steps of different
/// environments may be mixed.
#[derive(Debug, Clone, Copy)]
pub struct HostSteps<'a> {
    /// States before the actions, `[rows, state_dim]`.
    pub states: &'a [f32],
    /// Actions, `[rows]`.
    pub actions: &'a [u32],
    /// Rewards, `[rows]`.
    pub rewards: &'a [f32],
    /// States after the actions, `[rows, state_dim]`.
    pub next_states: &'a [f32],
    /// Whether the episode ended in a terminal state: no value lies beyond it.
    pub terminated: &'a [bool],
    /// Whether the episode was cut off, by a time limit say: the value beyond it counts.
    pub truncated: &'a [bool],
    /// Which environment the step is of, below `ReplayOptions::n_envs`.
    pub env_id: &'a [u32],
}

/// Steps in device memory of the buffer's device, as [`HostSteps`]; flags are bytes, not zero for true.
///
/// The buffer's stream waits for the stream of each slice, and the slices' streams for the copy, so that
/// they may be dropped or written at once. An `env_id` beyond `ReplayOptions::n_envs` is counted in the
/// statistics and stored without links.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSteps<'a> {
    /// States before the actions, `[rows, state_dim]`.
    pub states: &'a CudaSlice<f32>,
    /// Actions, `[rows]`.
    pub actions: &'a CudaSlice<u32>,
    /// Rewards, `[rows]`.
    pub rewards: &'a CudaSlice<f32>,
    /// States after the actions, `[rows, state_dim]`.
    pub next_states: &'a CudaSlice<f32>,
    /// Terminal state reached, `[rows]`.
    pub terminated: &'a CudaSlice<u8>,
    /// Cut off, `[rows]`.
    pub truncated: &'a CudaSlice<u8>,
    /// Environment, `[rows]`.
    pub env_id: &'a CudaSlice<u32>,
}

impl<'a> From<HostSteps<'a>> for Steps<'a> {
    fn from(steps: HostSteps<'a>) -> Self {
        Self::Host(steps)
    }
}

impl<'a> From<DeviceSteps<'a>> for Steps<'a> {
    fn from(steps: DeviceSteps<'a>) -> Self {
        Self::Device(steps)
    }
}

impl HostSteps<'_> {
    /// Rows, if all fields agree on their number and every environment exists.
    pub(super) fn check(&self, state_dim: usize, n_envs: usize) -> Result<usize, DqnError> {
        let rows = self.actions.len();
        check_lengths(
            rows,
            state_dim,
            [self.states.len(), self.next_states.len()],
            [
                self.rewards.len(),
                self.terminated.len(),
                self.truncated.len(),
                self.env_id.len(),
            ],
        )?;
        if let Some(row) = self.env_id.iter().position(|&id| id as usize >= n_envs) {
            return Err(DqnError::Config(format!(
                "`env_id[{row}]` is {}, and the buffer was built for {n_envs} environments; set `ReplayOptions::n_envs`",
                self.env_id[row]
            )));
        }
        Ok(rows)
    }
}

impl DeviceSteps<'_> {
    pub(super) fn check(&self, state_dim: usize) -> Result<usize, DqnError> {
        let rows = self.actions.len();
        check_lengths(
            rows,
            state_dim,
            [self.states.len(), self.next_states.len()],
            [
                self.rewards.len(),
                self.terminated.len(),
                self.truncated.len(),
                self.env_id.len(),
            ],
        )?;
        if rows > u32::MAX as usize {
            return Err(DqnError::Config(format!(
                "{rows} rows in one push; at most 2^32 - 1 are possible"
            )));
        }
        Ok(rows)
    }

    /// The streams that write the fields.
    pub(super) fn streams(&self) -> [&Arc<CudaStream>; 7] {
        [
            self.states.stream(),
            self.actions.stream(),
            self.rewards.stream(),
            self.next_states.stream(),
            self.terminated.stream(),
            self.truncated.stream(),
            self.env_id.stream(),
        ]
    }
}

fn check_lengths(
    rows: usize,
    state_dim: usize,
    states: [usize; 2],
    others: [usize; 4],
) -> Result<(), DqnError> {
    for (name, length) in ["states", "next_states"].into_iter().zip(states) {
        if length != rows * state_dim {
            return Err(DqnError::Config(format!(
                "`{name}` holds {length} values; {rows} rows of {state_dim} components are {}",
                rows * state_dim
            )));
        }
    }
    let names = ["rewards", "terminated", "truncated", "env_id"];
    for (name, length) in names.into_iter().zip(others) {
        if length != rows {
            return Err(DqnError::Config(format!(
                "`{name}` holds {length} values, `actions` {rows}; all fields have one entry a row"
            )));
        }
    }
    Ok(())
}

/// Refuses an experience whose states have another length than the buffer's.
pub(super) fn check_experience(experience: &Experience, state_dim: usize) -> Result<(), DqnError> {
    for (name, state) in [
        ("state", &experience.state),
        ("next_state", &experience.next_state),
    ] {
        if state.len() != state_dim {
            return Err(DqnError::Config(format!(
                "`{name}` has {} components, the buffer's states have {state_dim}",
                state.len()
            )));
        }
    }
    Ok(())
}

/// Two pinned buffers and their device twins: while one is copied, the other is filled.
#[derive(Debug)]
pub(super) struct Staging {
    rows: usize,
    state_dim: usize,
    halves: [(PinnedBytes, DeviceMemory<u8>); 2],
    next: usize,
}

/// One row as the staging takes it.
pub(super) struct StagedRow<'a> {
    pub(super) state: &'a [f32],
    pub(super) next_state: &'a [f32],
    pub(super) action: u32,
    pub(super) reward: f32,
    pub(super) terminated: bool,
    pub(super) truncated: bool,
    pub(super) env_id: u32,
}

/// Bytes that one copy should have: large enough for the bus, small enough to stay out of the way.
const HALF_BYTES: usize = 4 << 20;

impl Staging {
    /// Rows of one half.
    fn rows_for(state_dim: usize, capacity: usize) -> usize {
        (HALF_BYTES / Self::row_bytes(state_dim))
            .clamp(1, 4096)
            .min(capacity)
    }

    fn row_bytes(state_dim: usize) -> usize {
        2 * 4 * state_dim + 3 * 4 + 2
    }

    /// Device bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(state_dim: usize, capacity: usize) -> u64 {
        2 * (Self::rows_for(state_dim, capacity) * Self::row_bytes(state_dim)) as u64
    }

    pub(super) fn new(
        stream: &Arc<CudaStream>,
        state_dim: usize,
        capacity: usize,
    ) -> Result<Self, DqnError> {
        let rows = Self::rows_for(state_dim, capacity);
        let bytes = rows * Self::row_bytes(state_dim);
        let half = || -> Result<_, DqnError> {
            Ok((
                PinnedBytes::new(stream, bytes)?,
                DeviceMemory::zeroed(stream, bytes)?,
            ))
        };
        Ok(Self {
            rows,
            state_dim,
            halves: [half()?, half()?],
            next: 0,
        })
    }

    /// Rows that fit one [`fill`](Self::fill).
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Copies up to `self.rows()` rows to the device in one copy, and gives the addresses of their fields.
    pub(super) fn fill<'a>(
        &mut self,
        rows: impl ExactSizeIterator<Item = StagedRow<'a>>,
        stream: &CudaStream,
    ) -> Result<NewRows, DqnError> {
        let count = rows.len();
        assert!(
            count <= self.rows,
            "{count} rows in a half of {}",
            self.rows
        );
        let state = 4 * self.state_dim;
        // One field after another, in the order of their alignment.
        let next_states = count * state;
        let actions = 2 * count * state;
        let rewards = actions + 4 * count;
        let env_ids = rewards + 4 * count;
        let terminated = env_ids + 4 * count;
        let truncated = terminated + count;

        let (pinned, device) = &mut self.halves[self.next];
        self.next = 1 - self.next;
        let bytes = pinned.bytes_mut()?;
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for (k, row) in rows.enumerate() {
            put(k * state, as_bytes(row.state));
            put(next_states + k * state, as_bytes(row.next_state));
            put(actions + 4 * k, &row.action.to_ne_bytes());
            put(rewards + 4 * k, &row.reward.to_ne_bytes());
            put(env_ids + 4 * k, &row.env_id.to_ne_bytes());
            put(terminated + k, &[u8::from(row.terminated)]);
            put(truncated + k, &[u8::from(row.truncated)]);
        }
        pinned.copy_to(device, truncated + count, stream)?;
        let base = device.address();
        Ok(NewRows {
            states: base,
            next_states: base + next_states as u64,
            actions: base + actions as u64,
            rewards: base + rewards as u64,
            terminated: base + terminated as u64,
            truncated: base + truncated as u64,
            env_ids: base + env_ids as u64,
            first: 0,
            count: count as u32,
            reserved: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps<'a>(states: &'a [f32], flags: &'a [bool], ids: &'a [u32]) -> HostSteps<'a> {
        HostSteps {
            states,
            actions: &[0, 1],
            rewards: &[0.0, 1.0],
            next_states: states,
            terminated: flags,
            truncated: flags,
            env_id: ids,
        }
    }

    #[test]
    fn fields_that_disagree_are_refused_by_name() {
        let states = [0.0; 6];
        let flags = [false; 2];
        assert_eq!(steps(&states, &flags, &[0, 1]).check(3, 2).unwrap(), 2);
        let error = steps(&states, &flags, &[0, 2]).check(3, 2).unwrap_err();
        assert!(error.to_string().contains("`env_id[1]` is 2"), "{error}");
        let error = steps(&states[..5], &flags, &[0, 0])
            .check(3, 2)
            .unwrap_err();
        assert!(
            error.to_string().contains("`states` holds 5 values"),
            "{error}"
        );
        let error = steps(&states, &flags[..1], &[0, 0])
            .check(3, 2)
            .unwrap_err();
        assert!(
            error.to_string().contains("`terminated` holds 1 values"),
            "{error}"
        );
    }

    #[test]
    fn a_half_is_small_and_never_larger_than_the_buffer() {
        assert_eq!(Staging::rows_for(80, 3), 3);
        assert_eq!(Staging::rows_for(1 << 20, 1000), 1);
        assert!(Staging::bytes(80, 1 << 20) <= 2 * HALF_BYTES as u64);
    }
}
