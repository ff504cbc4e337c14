//! Pushing transitions.

use cudarc::driver::DevicePtr;

use super::steps::{DeviceSteps, HostSteps, StagedRow, Steps, check_experience};
use super::{GpuReplayBuffer, lock};
use crate::error::DqnError;
use crate::experience::Experience;
use crate::launch::memory::capture_number;
use crate::launch::per::NewRows;
use crate::launch::store_rows;

impl GpuReplayBuffer {
    /// Stores one transition of environment 0, with the largest priority so far; `done` means terminated.
    ///
    /// Enqueues and returns. Many at once are cheaper by far: see [`push_batch`](Self::push_batch).
    ///
    /// # Errors
    /// [`DqnError::Config`] where a state has another length than the buffer's, or what the driver refused.
    pub fn push(&mut self, experience: &Experience) -> Result<(), DqnError> {
        self.push_batch(std::slice::from_ref(experience))
    }

    /// Stores consecutive transitions of environment 0; `done` means terminated.
    ///
    /// Nothing is stored where one of them is refused. Of more than `capacity` the last `capacity` stay, in ring order.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_batch(&mut self, experiences: &[Experience]) -> Result<(), DqnError> {
        for experience in experiences {
            check_experience(experience, self.config.state_dim)?;
        }
        self.push_rows(experiences.len(), |row| {
            let experience = &experiences[row];
            StagedRow {
                state: &experience.state,
                next_state: &experience.next_state,
                action: experience.action,
                reward: experience.reward,
                terminated: experience.done,
                truncated: false,
                env_id: 0,
            }
        })
    }

    /// Stores steps of one or several environments, from host or device memory.
    ///
    /// Each becomes a slot at once, and grows to an n-step transition as the next steps of its environment arrive: windows
    /// are put together when a batch is gathered, and end with their episode. Enqueues and returns. Of more than
    /// `capacity` rows the last `capacity` stay, in ring order.
    ///
    /// # Errors
    /// [`DqnError::Config`] where fields disagree in length or an environment does not exist, or what the driver refused.
    pub fn push_steps<'a>(&mut self, steps: impl Into<Steps<'a>>) -> Result<(), DqnError> {
        match steps.into() {
            Steps::Host(steps) => self.push_host(steps),
            Steps::Device(steps) => self.push_device(steps),
        }
    }

    fn push_host(&mut self, steps: HostSteps<'_>) -> Result<(), DqnError> {
        let state_dim = self.config.state_dim;
        let rows = steps.check(state_dim, self.options.n_envs)?;
        self.push_rows(rows, |row| {
            let state = row * state_dim..(row + 1) * state_dim;
            StagedRow {
                state: &steps.states[state.clone()],
                next_state: &steps.next_states[state],
                action: steps.actions[row],
                reward: steps.rewards[row],
                terminated: steps.terminated[row],
                truncated: steps.truncated[row],
                env_id: steps.env_id[row],
            }
        })
    }

    /// Copies rows over, as many at a time as the staging takes.
    fn push_rows<'a>(
        &mut self,
        rows: usize,
        row: impl Fn(usize) -> StagedRow<'a>,
    ) -> Result<(), DqnError> {
        self.refuse_capture("push")?;
        let mut next = self.skip_what_would_be_overwritten(rows);
        while next < rows {
            let count = (rows - next).min(self.staging.rows());
            let staged = (next..next + count).map(&row);
            let staged = self.staging.fill(staged, &self.stream)?;
            self.store(staged)?;
            next += count;
        }
        Ok(())
    }

    fn push_device(&mut self, steps: DeviceSteps<'_>) -> Result<(), DqnError> {
        self.refuse_capture("push_steps")?;
        let rows = steps.check(self.config.state_dim)?;
        if rows == 0 {
            return Ok(());
        }
        let own = &self.stream;
        let others = steps
            .streams()
            .map(|stream| (stream.cu_stream() != own.cu_stream()).then_some(stream));
        for other in others.iter().flatten() {
            if capture_number(other)?.is_some() {
                return Err(DqnError::Capturing { call: "push_steps" });
            }
            let shared = lock(&self.shared);
            shared.crossing.record(other)?;
            self.stream.wait(&shared.crossing)?;
        }
        let skipped = self.skip_what_would_be_overwritten(rows);
        let at = |bytes: usize| (skipped * bytes) as u64;
        let stream = std::sync::Arc::clone(&self.stream);
        {
            let (states, _g0) = steps.states.device_ptr(&stream);
            let (next_states, _g1) = steps.next_states.device_ptr(&stream);
            let (actions, _g2) = steps.actions.device_ptr(&stream);
            let (rewards, _g3) = steps.rewards.device_ptr(&stream);
            let (terminated, _g4) = steps.terminated.device_ptr(&stream);
            let (truncated, _g5) = steps.truncated.device_ptr(&stream);
            let (env_ids, _g6) = steps.env_id.device_ptr(&stream);
            let state = 4 * self.config.state_dim;
            self.store(NewRows {
                states: states + at(state),
                next_states: next_states + at(state),
                actions: actions + at(4),
                rewards: rewards + at(4),
                terminated: terminated + at(1),
                truncated: truncated + at(1),
                env_ids: env_ids + at(4),
                first: 0,
                count: (rows - skipped) as u32,
                reserved: 0,
            })?;
        }
        // The slices may be freed or written on their own streams as soon as this returns.
        for other in others.iter().flatten() {
            let shared = lock(&self.shared);
            shared.crossing.record(&self.stream)?;
            other.wait(&shared.crossing)?;
        }
        Ok(())
    }

    /// Counts rows that later ones of the same push would overwrite, and says how many they are.
    fn skip_what_would_be_overwritten(&mut self, rows: usize) -> usize {
        let skipped = rows.saturating_sub(self.config.capacity);
        self.written += skipped as u64;
        skipped
    }

    /// Stores rows that lie on the device.
    fn store(&mut self, mut rows: NewRows) -> Result<(), DqnError> {
        rows.first = self.written;
        let written = self.written + u64::from(rows.count);
        let size = (written - self.emptied_at).min(self.config.capacity as u64);
        {
            let _launches = lock(&self.shared);
            store_rows(&self.kernels, &self.stream, &self.memory, &rows, size)?;
        }
        self.written = written;
        Ok(())
    }
}
