//! The strategy itself: bars in, positions out.

use ml_dqn::{Experience, replay_buffer_type as rbt};

use crate::config::StrategyConfig;
use crate::error::StrategyError;
use crate::features::Window;
use crate::journal::Journal;
use crate::market::Bar;
use crate::online::{LearnReport, OnlineTrainer};
use crate::risk::RiskGate;

/// The decision that waits for its outcome.
struct Open {
    state: Vec<f32>,
    action: usize,
    close: f32,
}

pub struct MeanReversion {
    config: StrategyConfig,
    trainer: OnlineTrainer,
    window: Window,
    gate: RiskGate,
    open: Option<Open>,
    position: f32,
    n_bars: usize,
    n_trades: usize,
    dice: u64,
    journal: Journal,
}

impl MeanReversion {
    pub fn new(config: StrategyConfig, trainer: OnlineTrainer) -> Self {
        Self {
            window: Window::new(config.window),
            gate: RiskGate::new(config.limits),
            trainer,
            open: None,
            position: 0.0,
            n_bars: 0,
            n_trades: 0,
            dice: 0x2545_F491_4F6C_DD1D,
            journal: Journal::default(),
            config,
        }
    }

    /// Takes one bar; returns the position to hold until the next.
    pub fn on_bar(&mut self, bar: Bar) -> Result<f32, StrategyError> {
        self.n_bars += 1;
        let Some(state) = self.window.push(bar, self.position) else { return Ok(0.0) };
        self.settle(&state, bar.close)?;
        if self.n_bars.is_multiple_of(self.config.update_every) {
            self.update()?;
        }

        let action = self.choose(&state);
        let asked = (action as f32 - 1.0) * self.config.limits.max_position;
        let target = self.gate.check(asked).target();
        self.n_trades += usize::from(target != self.position);
        self.position = target;
        self.open = Some(Open { state, action, close: bar.close });
        Ok(target)
    }

    /// Books what the last decision earned and remembers it.
    fn settle(&mut self, state: &[f32], close: f32) -> Result<(), StrategyError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let gain = self.position * (close - open.close);
        self.gate.book(gain);
        self.trainer.remember(&Experience {
            state: open.state,
            action: open.action as u32,
            reward: gain,
            next_state: state.to_vec(),
            done: self.gate.is_halted(),
        })
    }

    fn update(&mut self) -> Result<LearnReport, StrategyError> {
        let report = self.trainer.learn()?;
        self.journal.note(self.n_bars, self.trainer.memory(), &report);
        Ok(report)
    }

    /// The policy's choice; before it has learned anything, against the deviation; sometimes by chance.
    fn choose(&mut self, state: &[f32]) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let chance = (self.dice >> 40) as f32 / (1u64 << 24) as f32;
        if chance < self.config.epsilon {
            return (self.dice % 3) as usize;
        }
        if self.trainer.memory().len() < self.config.batch_size {
            return match state[0] {
                z if z > self.config.entry_z => 0,
                z if z < -self.config.entry_z => 2,
                _ => 1,
            };
        }
        self.trainer.policy().best(state)
    }

    pub fn n_trades(&self) -> usize {
        self.n_trades
    }

    pub fn result(&self) -> f32 {
        self.gate.result()
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn memory(&self) -> &rbt::ReplayBufferType {
        self.trainer.memory()
    }

    /// Whether what is learned is learned on the device.
    pub fn learns_on_device(&self) -> bool {
        self.memory().is_gpu() && self.config.steps_per_update > 0
    }
}

/// A batch by hand, for replays of single decisions.
pub fn replayed(batch: ml_dqn::GpuBatchPtrs) -> rbt::BatchSample {
    rbt::BatchSample { gpu_batch: Some(batch), ..Default::default() }
}
