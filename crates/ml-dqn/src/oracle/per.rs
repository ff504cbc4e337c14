//! Prioritized replay as the paper writes it: linear sums, linear search.

use super::philox::{DOMAIN_REPLAY, philox4x32, unit};

/// Inclusive sums of the priorities, compensated (Neumaier 1974): a plain running sum of 100 million values is off by more than the
/// sums by tiles that it is to judge.
pub fn prefix(priorities: &[f32]) -> Vec<f64> {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    let add = |&priority: &f32| {
        let value = f64::from(priority);
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
        // Of an infinite sum the remainder is no number.
        if sum.is_finite() { sum + lost } else { sum }
    };
    priorities.iter().map(add).collect()
}

/// The first slot whose share of the mass ends beyond `target`; the last one with mass where the target lies outside.
/// `None` where there is no mass, or its sum is not finite.
pub fn find(priorities: &[f32], prefix: &[f64], target: f64) -> Option<usize> {
    let total = *prefix.last()?;
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let target = target.max(0.0);
    let found = prefix.partition_point(|&end| end <= target);
    if found < priorities.len() {
        return Some(found);
    }
    priorities.iter().rposition(|&priority| priority > 0.0)
}

/// The targets of one batch: a random place in each of `n` equal shares of the mass.
pub fn targets(seed: u64, call: u64, n: usize, total: f64) -> Vec<f64> {
    let width = total / n as f64;
    let target = |draw: usize| {
        (draw as f64 + unit(philox4x32(seed, draw as u32, call, DOMAIN_REPLAY))) * width
    };
    (0..n).map(target).collect()
}

/// The slots of one batch; `None` where nothing can be drawn.
pub fn sample(priorities: &[f32], seed: u64, call: u64, n: usize) -> Option<Vec<usize>> {
    let prefix = prefix(priorities);
    let total = *prefix.last()?;
    targets(seed, call, n, total)
        .into_iter()
        .map(|target| find(priorities, &prefix, target))
        .collect()
}

/// `(N * P)^-beta` of each drawn priority.
pub fn weights(drawn: &[f32], size: usize, total: f64, beta: f32) -> Vec<f64> {
    let weight =
        |&priority: &f32| (size as f64 * (f64::from(priority) / total)).powf(-f64::from(beta));
    drawn.iter().map(weight).collect()
}

/// Weights divided by the largest of the batch.
pub fn normalized_weights(drawn: &[f32], size: usize, total: f64, beta: f32) -> Vec<f64> {
    let weights = weights(drawn, size, total, beta);
    let largest = weights.iter().copied().fold(0.0, f64::max);
    weights.into_iter().map(|weight| weight / largest).collect()
}

/// What becomes of a TD error that is no finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// The slot keeps its priority.
    Keep,
    /// The slot gets the largest priority so far.
    Maximum,
}

/// `(|td| + eps)^alpha`, or `None` for a TD error that is not finite.
pub fn priority(td_error: f32, alpha: f32, eps: f32) -> Option<f64> {
    let raised = (f64::from(td_error.abs()) + f64::from(eps)).powf(f64::from(alpha));
    (td_error.is_finite() && raised.is_finite()).then_some(raised)
}

/// Priorities after an update, and how many TD errors were bad: the largest of several for one slot, none for slots that
/// were written since the draw.
#[derive(Debug, Clone)]
pub struct Update {
    /// New priorities in f64, by slot; slots that are not in it keep theirs.
    pub changed: Vec<(usize, f64)>,
    /// Bad TD errors.
    pub bad: u64,
    /// Rows whose slot was overwritten since the draw.
    pub stale: u64,
}

/// Applies TD errors to drawn slots. `drawn_at` and `written` count rows stored up to the draw and up to now.
#[expect(clippy::too_many_arguments)]
pub fn update(
    slots: &[usize],
    td_errors: &[f32],
    capacity: usize,
    drawn_at: u64,
    written: u64,
    alpha: f32,
    eps: f32,
    largest: f64,
    bad_rule: Bad,
) -> Update {
    let mut update = Update {
        changed: Vec::new(),
        bad: 0,
        stale: 0,
    };
    for (&slot, &td_error) in slots.iter().zip(td_errors) {
        // Plainly: is one of the rows stored since then in this slot?
        let overwritten = (drawn_at..written)
            .take(capacity)
            .any(|row| (row % capacity as u64) as usize == slot);
        if overwritten {
            update.stale += 1;
            continue;
        }
        let new = match priority(td_error, alpha, eps) {
            Some(new) => new,
            None => {
                update.bad += 1;
                if bad_rule == Bad::Keep {
                    continue;
                }
                largest
            }
        };
        match update.changed.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, known)) => *known = known.max(new),
            None => update.changed.push((slot, new)),
        }
    }
    update
}

/// One stored step, as the n-step oracle sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Its environment.
    pub env_id: u32,
    /// Reward of this step.
    pub reward: f32,
    /// The episode ended in a terminal state.
    pub terminated: bool,
    /// The episode was cut off.
    pub truncated: bool,
}

/// The n-step window that begins at row `start` of a log of all rows ever pushed: discounted reward, row of its last step,
/// number of steps, whether it ended in a terminal state.
pub fn window(log: &[Step], start: usize, n_steps: usize, gamma: f32) -> (f64, usize, u32, bool) {
    let mut reward = 0.0;
    let mut factor = 1.0;
    let mut count = 0;
    let mut last = start;
    let of_this_environment = log[start..]
        .iter()
        .enumerate()
        .filter(|(_, step)| step.env_id == log[start].env_id)
        .take(n_steps);
    for (offset, step) in of_this_environment {
        reward += factor * f64::from(step.reward);
        factor *= f64::from(gamma);
        count += 1;
        last = start + offset;
        if step.terminated || step.truncated {
            break;
        }
    }
    (reward, last, count, log[last].terminated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_drift() {
        // 2^24 times 0.1 by halves, which is exact but for the last rounding.
        let priorities = vec![0.1f32; 1 << 24];
        let exact = f64::from(0.1f32) * f64::from(1 << 24);
        assert_eq!(prefix(&priorities).last().copied(), Some(exact));
        assert_eq!(prefix(&[1.0, f32::INFINITY, 1.0])[2], f64::INFINITY);
    }

    #[test]
    fn half_open_shares() {
        let priorities = [1.0, 2.0, 3.0, 4.0, 0.0];
        let prefix = prefix(&priorities);
        let find = |target| find(&priorities, &prefix, target).unwrap();
        let targets = [0.0, 0.999_999_94, 1.0, 9.999_999, 10.0];
        assert_eq!(targets.map(find), [0, 0, 1, 3, 3]);
    }

    #[test]
    fn no_mass_no_draw() {
        assert_eq!(sample(&[0.0; 8], 1, 0, 4), None);
        assert_eq!(sample(&[], 1, 0, 4), None);
    }

    /// takoika/PrioritizedExperienceReplay issue 1: N is what is stored, not what could be.
    #[test]
    fn weights_by_hand() {
        assert_eq!(
            weights(&[1.0, 1.0, 2.0, 4.0], 4, 8.0, 1.0),
            [2.0, 2.0, 1.0, 0.5]
        );
        let normalized = normalized_weights(&[1.0, 4.0], 2, 5.0, 0.4);
        assert!((normalized[1] - 0.574_349).abs() < 1e-6 && normalized[0] == 1.0);
    }

    #[test]
    fn windows_by_hand() {
        let step = |reward, terminated, truncated| Step {
            env_id: 0,
            reward,
            terminated,
            truncated,
        };
        // younggyoseo/FastTD3 issue 6: a window ends with its episode.
        let log = [1.0, 2.0, 4.0, 8.0].map(|r| step(r, r == 2.0, false));
        assert_eq!(window(&log, 0, 3, 0.5), (2.0, 1, 2, true));
        assert_eq!(window(&log, 1, 3, 0.5), (2.0, 1, 1, true));
        // ray issue 4626: two steps were summed, so the bootstrap's factor is gamma^2.
        let cut = [step(1.0, false, false), step(1.0, false, true)];
        let (reward, last, count, terminal) = window(&cut, 0, 3, 0.9);
        assert!((reward - 1.9).abs() < 1e-6);
        assert_eq!((last, count, terminal), (1, 2, false));
    }
}
