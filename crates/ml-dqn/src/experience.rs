//! One step of an environment, as it goes into the buffer.

/// A transition `(s, a, r, s', done)`.
///
/// The fields are those that callers build literally. For truncated episodes, several environments
/// or data on the device see [`Steps`](crate::gpu_replay_buffer::Steps).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Experience {
    /// State before the action, `[state_dim]`.
    pub state: Vec<f32>,
    /// Index of the action taken.
    pub action: u32,
    /// Reward of this step.
    pub reward: f32,
    /// State after the action, `[state_dim]`.
    pub next_state: Vec<f32>,
    /// Whether the episode ended in a terminal state: no value lies beyond it.
    pub done: bool,
}
