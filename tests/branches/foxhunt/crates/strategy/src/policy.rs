//! A linear policy on the host: what the strategy acts with, whoever trained it.

/// Short, flat, long.
pub const N_ACTIONS: usize = 3;

/// `q(s, a) = <params[a], s>`, as on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearPolicy {
    params: Vec<f32>,
    state_dim: usize,
}

impl LinearPolicy {
    pub fn new(state_dim: usize) -> Self {
        Self { params: vec![0.0; N_ACTIONS * state_dim], state_dim }
    }

    /// Takes over what was trained elsewhere, `[N_ACTIONS][state_dim]`.
    pub fn set_params(&mut self, params: Vec<f32>) {
        assert_eq!(params.len(), self.params.len(), "one row for each action");
        self.params = params;
    }

    pub fn value(&self, state: &[f32], action: usize) -> f32 {
        self.row(action).iter().zip(state).map(|(param, value)| param * value).sum()
    }

    pub fn best(&self, state: &[f32]) -> usize {
        (0..N_ACTIONS).max_by(|&a, &b| self.value(state, a).total_cmp(&self.value(state, b))).unwrap_or(0)
    }

    /// Moves the value of `action` in `state` by `rate * error`.
    pub fn nudge(&mut self, state: &[f32], action: usize, rate: f32, error: f32) {
        let row = action * self.state_dim;
        for (param, value) in self.params[row..row + self.state_dim].iter_mut().zip(state) {
            *param += rate * error * value;
        }
    }

    fn row(&self, action: usize) -> &[f32] {
        &self.params[action * self.state_dim..][..self.state_dim]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nudges_until_it_prefers() {
        let mut policy = LinearPolicy::new(2);
        let state = [1.0, 0.5];
        for _ in 0..50 {
            let error = 1.0 - policy.value(&state, 1);
            policy.nudge(&state, 1, 0.1, error);
        }
        assert_eq!(policy.best(&state), 1);
        assert!((policy.value(&state, 1) - 1.0).abs() < 0.01);
    }
}
