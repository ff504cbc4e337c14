//! Batches, parameters and comparisons that the tests on the CPU and on the GPU share.

#![allow(dead_code)]

use ml::NetworkShape;
use ml::oracle::{HostBatch, Oracle};

/// Numbers that repeat from their seed: Marsaglia's xorshift, 2003.
pub struct Random(pub u64);

impl Random {
    /// In [-1, 1).
    pub fn signed(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.signed() + 1.0) * 0.5 * limit as f32) as usize % limit
    }
}

/// A batch in the types of the device.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub states: Vec<f32>,
    pub next_states: Vec<f32>,
    pub actions: Vec<u32>,
    pub rewards: Vec<f32>,
    pub weights: Vec<f32>,
    pub dones: Vec<f32>,
    pub step_counts: Vec<u32>,
}

impl Batch {
    /// Rewards are wide, so that TD errors fall on both sides of the Huber border.
    pub fn random(shape: &NetworkShape, rows: usize, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let numbers = rows * shape.state_dim();
        let mut batch = Self::default();
        for _ in 0..numbers {
            batch.states.push(random.signed());
            batch.next_states.push(random.signed());
        }
        for _ in 0..rows {
            batch.actions.push(random.below(shape.num_actions()) as u32);
            batch.rewards.push(2.0 * random.signed());
            batch.weights.push(0.6 + 0.4 * random.signed());
            batch.dones.push(f32::from(u8::from(random.below(5) == 0)));
            batch.step_counts.push(1 + random.below(3) as u32);
        }
        batch
    }

    pub fn rows(&self) -> usize {
        self.actions.len()
    }

    pub fn on_host(&self, gamma: f32) -> HostBatch {
        let wide = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect();
        let discounts = self
            .dones
            .iter()
            .zip(&self.step_counts)
            .map(|(done, steps)| (1.0 - f64::from(*done)) * f64::from(gamma).powi(*steps as i32));
        HostBatch {
            states: wide(&self.states),
            next_states: wide(&self.next_states),
            actions: self.actions.iter().map(|action| *action as usize).collect(),
            rewards: wide(&self.rewards),
            discounts: discounts.collect(),
            weights: wide(&self.weights),
        }
    }
}

/// Both networks of a problem, as oracles and as flat parameters.
pub struct Networks {
    pub online: Vec<f32>,
    pub target: Vec<f32>,
    pub oracle: Oracle,
    pub target_oracle: Oracle,
}

impl Networks {
    pub fn of(shape: &NetworkShape, seed: u64) -> Self {
        let online = shape.initial_parameters(seed);
        let target = shape.initial_parameters(seed + 1000);
        Self {
            oracle: Oracle::new(shape, &online),
            target_oracle: Oracle::new(shape, &target),
            online,
            target,
        }
    }
}

/// Parameters of which every hidden unit keeps away from the border of its ReLU.
pub trait Settle {
    /// Weights of the hidden layers shrink, and biases become 1 and -1 in turns: sums of inputs of at most
    /// 1 stay well below that.
    fn settled(&self, parameters: Vec<f32>) -> Vec<f32>;
}

impl Settle for NetworkShape {
    fn settled(&self, mut parameters: Vec<f32>) -> Vec<f32> {
        for (name, places) in self.named_places() {
            // The last layers have no ReLU.
            if name.starts_with("value.1") || name.starts_with("advantage.1") {
                continue;
            }
            for (at, place) in places.into_iter().enumerate() {
                if name.ends_with("bias") {
                    parameters[place] = if at % 2 == 0 { 1.0 } else { -1.0 };
                } else {
                    parameters[place] *= 0.3;
                }
            }
        }
        parameters
    }
}

/// `‖got − expected‖ / ‖expected‖`, in words where it is too large.
pub fn close(what: &str, got: &[f32], expected: &[f64], tolerance: f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!(
            "{what}: {} values, {} expected",
            got.len(),
            expected.len()
        ));
    }
    let difference: f64 = got
        .iter()
        .zip(expected)
        .map(|(got, expected)| (f64::from(*got) - expected).powi(2))
        .sum();
    let size: f64 = expected.iter().map(|expected| expected * expected).sum();
    let relative = (difference / size.max(f64::MIN_POSITIVE)).sqrt();
    if relative <= tolerance {
        return Ok(());
    }
    let mismatches: Vec<String> = got
        .iter()
        .zip(expected)
        .enumerate()
        .filter(|(_, (got, expected))| {
            let allowed =
                tolerance * (expected.abs() + (size / expected.abs().max(1.0)).sqrt() * 1e-3);
            (f64::from(**got) - **expected).abs() > allowed || got.is_nan()
        })
        .take(4)
        .map(|(at, (got, expected))| format!("[{at}] {got} and not {expected}"))
        .collect();
    Err(format!(
        "{what}: off by {relative:.2e}, {tolerance:.0e} is allowed; {}",
        mismatches.join(", ")
    ))
}

/// Fails with both numbers.
pub fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    expected: T,
) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} and not {expected:?}"))
    }
}
