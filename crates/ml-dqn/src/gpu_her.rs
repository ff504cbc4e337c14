//! Hindsight: a sampled batch is relabelled with goals that its episodes reached.
//!
//! Andrychowicz et al., "Hindsight Experience Replay" (NeurIPS 2017). The goal is part of the state, and what was reached
//! is part of the next state; [`HerOptions`] says where. Relabelling happens in the batch, after the draw and before the
//! step, so the buffer keeps what really happened, and a transition can serve many goals:
//!
//! ```no_run
//! # fn step(memory: &ml_dqn::GpuReplayBuffer, her: &ml_dqn::GpuHer) -> Result<(), ml_dqn::DqnError> {
//! let batch = memory.sample(1024)?;
//! her.relabel(memory, &batch)?;
//! # Ok(())
//! # }
//! ```
//!
//! A goal is never taken from another episode, nor from a slot that was pushed over: slots are followed along the links
//! of their episode, and a row whose slot was overwritten since the draw keeps its own goal.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::error::DqnError;
use crate::gpu_replay_buffer::{GpuBatchPtrs, GpuReplayBuffer};
use crate::launch::her::{HerBatch, HerKernels, HerState};
use crate::launch::memory::capture_number;
use ml_cuda::DeviceMemory;

/// The part of the configuration that callers build literally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHerConfig {
    /// Hindsight goals for each goal of the row's own: a row is relabelled with probability `k / (k + 1)`.
    pub k: usize,
    /// Components of a goal.
    pub goal_dim: usize,
}

impl Default for GpuHerConfig {
    /// `k = 4`, the best of the paper's figure 6.
    fn default() -> Self {
        Self { k: 4, goal_dim: 2 }
    }
}

/// Which later step of the episode gives the goal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GoalChoice {
    /// Any, the row's own included, each as likely.
    #[default]
    Future,
    /// The last one so far.
    Final,
}

/// Everything beyond [`GpuHerConfig`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HerOptions {
    /// Seed of the choices: the same seed and the same calls choose the same goals, on any GPU.
    pub seed: u64,
    /// Which step gives the goal.
    pub goal_choice: GoalChoice,
    /// First component of the next state that holds what was reached.
    pub achieved_offset: usize,
    /// First component of a state that holds the goal. `None`: the last `goal_dim` components.
    pub goal_offset: Option<usize>,
    /// Greatest Euclidean distance at which a goal counts as reached.
    pub tolerance: f32,
    /// Reward of a step that reaches the goal.
    pub success_reward: f32,
    /// Reward of one that does not.
    pub step_reward: f32,
    /// Whether reaching the goal ends the episode.
    pub terminate_on_success: bool,
}

impl Default for HerOptions {
    /// The paper's sparse reward: 0 where the goal is reached, else -1.
    fn default() -> Self {
        Self {
            seed: 0,
            goal_choice: GoalChoice::Future,
            achieved_offset: 0,
            goal_offset: None,
            tolerance: 1e-6,
            success_reward: 0.0,
            step_reward: -1.0,
            terminate_on_success: true,
        }
    }
}

/// Relabels batches on the GPU.
#[derive(Debug)]
pub struct GpuHer {
    config: GpuHerConfig,
    options: HerOptions,
    state: DeviceMemory<HerState>,
    kernels: HerKernels,
    stream: Arc<CudaStream>,
}

/// What relabelling has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HerStats {
    /// Batches.
    pub calls: u64,
    /// Rows that got another goal.
    pub relabelled: u64,
    /// Rows that were to get one, and whose slot had been pushed over since the draw; they kept their own.
    pub skipped: u64,
}

impl GpuHer {
    /// Hindsight with default [`HerOptions`].
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options).
    pub fn new(config: GpuHerConfig, stream: Arc<CudaStream>) -> Result<Self, DqnError> {
        Self::with_options(config, HerOptions::default(), stream)
    }

    /// Hindsight for buffers of the stream's device.
    ///
    /// # Errors
    /// [`DqnError::Config`] naming the field, [`DqnError::Cuda`] where the kernel does not compile, or what the driver refused.
    pub fn with_options(
        config: GpuHerConfig,
        options: HerOptions,
        stream: Arc<CudaStream>,
    ) -> Result<Self, DqnError> {
        validate(&config, &options)?;
        let kernels = HerKernels::new(&stream)?;
        let state = DeviceMemory::zeroed(&stream, 1)?;
        let first_state = HerState {
            seed: options.seed,
            ..HerState::default()
        };
        state.write(&[first_state])?;
        // The kernel runs on the buffer's stream, which may be another one.
        stream.synchronize()?;
        Ok(Self {
            config,
            options,
            state,
            kernels,
            stream,
        })
    }

    /// Gives rows of the batch goals that their episodes reached later, and the rewards that follow.
    ///
    /// Enqueues on the buffer's stream and returns. Call it after the draw, before anyone reads the batch: streams that
    /// waited for the batch before do not see it.
    ///
    /// # Errors
    /// [`DqnError::Config`] where the buffer does not track episodes, sums n-step returns, has too short states or did not draw
    /// the batch; [`DqnError::EmptyBatch`]; or what the driver refused.
    pub fn relabel(&self, memory: &GpuReplayBuffer, batch: &GpuBatchPtrs) -> Result<(), DqnError> {
        let set = batch.set()?;
        if !memory.drew(batch) {
            return Err(DqnError::Config(
                "the batch was drawn from another buffer; relabel it with that one".into(),
            ));
        }
        let (config, options) = (memory.config(), memory.options());
        if !options.track_episodes {
            return Err(DqnError::Config(
                "hindsight needs a buffer that tracks episodes; set `ReplayOptions::track_episodes`".into(),
            ));
        }
        if options.n_steps > 1 {
            return Err(DqnError::Config(format!(
                "hindsight relabels single steps, the buffer sums {}; set `ReplayOptions::n_steps` to 1",
                options.n_steps
            )));
        }
        let rules = self.rules(config.state_dim)?;
        self.kernels
            .relabel(memory.memory(), set, batch.len(), rules, &self.state)?;
        if capture_number(&set.stream)?.is_none() {
            set.ready.record(&set.stream)?;
        }
        Ok(())
    }

    /// The settings that it was built with.
    pub fn config(&self) -> &GpuHerConfig {
        &self.config
    }

    /// The options that it was built with.
    pub fn options(&self) -> &HerOptions {
        &self.options
    }

    /// The stream that it was built with.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Counters. Waits for the whole device, as batches are relabelled on the streams of their buffers.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn stats(&self) -> Result<HerStats, DqnError> {
        self.stream.context().synchronize()?;
        let mut state = [HerState::default()];
        self.state.read(&mut state)?;
        let [state] = state;
        Ok(HerStats {
            calls: state.calls,
            relabelled: state.relabelled,
            skipped: state.skipped,
        })
    }

    /// What the kernel needs to know, but for addresses.
    fn rules(&self, state_dim: usize) -> Result<HerBatch, DqnError> {
        let goal_dim = self.config.goal_dim;
        let Some(default_offset) = state_dim.checked_sub(goal_dim) else {
            return Err(DqnError::Config(format!(
                "`goal_dim` is {goal_dim}, and states have {state_dim} components"
            )));
        };
        let goal_offset = self.options.goal_offset.unwrap_or(default_offset);
        for (name, offset) in [
            ("goal_offset", goal_offset),
            ("achieved_offset", self.options.achieved_offset),
        ] {
            if offset > default_offset {
                return Err(DqnError::Config(format!(
                    "`{name}` is {offset}; {goal_dim} components from there are beyond the {state_dim} of a state"
                )));
            }
        }
        Ok(HerBatch {
            k: self.config.k as u32,
            goal_dim: goal_dim as u32,
            achieved_offset: self.options.achieved_offset as u32,
            goal_offset: goal_offset as u32,
            strategy: u32::from(self.options.goal_choice == GoalChoice::Final),
            terminate: u32::from(self.options.terminate_on_success),
            tolerance: self.options.tolerance,
            success_reward: self.options.success_reward,
            step_reward: self.options.step_reward,
            ..HerBatch::default()
        })
    }
}

/// Refuses what makes no sense, naming the field.
fn validate(config: &GpuHerConfig, options: &HerOptions) -> Result<(), DqnError> {
    if config.goal_dim == 0 || config.goal_dim > 1 << 20 {
        return Err(DqnError::Config(format!(
            "`goal_dim` is {}; it must be from 1 to 2^20",
            config.goal_dim
        )));
    }
    if config.k > 1 << 20 {
        return Err(DqnError::Config(format!(
            "`k` is {}; it must be at most 2^20",
            config.k
        )));
    }
    if !(options.tolerance >= 0.0 && options.tolerance.is_finite()) {
        return Err(DqnError::Config(format!(
            "`tolerance` is {}; it must be finite and at least 0",
            options.tolerance
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_crosses_threads() {
        fn shared<T: std::fmt::Debug + Send + Sync + 'static>() {}
        shared::<GpuHer>();
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let options = HerOptions::default();
        let config = GpuHerConfig { k: 4, goal_dim: 0 };
        let error = validate(&config, &options).unwrap_err().to_string();
        assert!(error.starts_with("`goal_dim` is 0"), "{error}");
        let options = HerOptions {
            tolerance: f32::NAN,
            ..options
        };
        let error = validate(&GpuHerConfig::default(), &options).unwrap_err();
        assert!(
            error.to_string().starts_with("`tolerance` is NaN"),
            "{error}"
        );
    }
}
