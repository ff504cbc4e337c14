//! The training step in f64 on the host: plainer and more exact than the kernels that it checks.
//!
//! Tests compare the GPU's step with it, and it with finite differences. It is public so that a
//! branch with an own network can check it the same way. It is slow: for small sizes.

use crate::network::NetworkShape;

/// A batch on the host. States are row-major `[rows][state_dim]`.
#[derive(Debug, Clone, Default)]
pub struct HostBatch {
    pub states: Vec<f64>,
    pub next_states: Vec<f64>,
    pub actions: Vec<usize>,
    pub rewards: Vec<f64>,
    /// γⁿ, zero where the transition terminates.
    pub discounts: Vec<f64>,
    /// Importance weights.
    pub weights: Vec<f64>,
}

/// What one forward and backward pass gives.
#[derive(Debug, Clone)]
pub struct Gradients {
    pub loss: f64,
    /// `y − Q(s, a)`, one a row.
    pub td_errors: Vec<f64>,
    /// In the layout of the flat parameter vector; zero in padding and zero blocks.
    pub flat: Vec<f64>,
}

impl Gradients {
    /// Euclidean norm of the whole gradient.
    pub fn norm(&self) -> f64 {
        self.flat
            .iter()
            .map(|value| value * value)
            .sum::<f64>()
            .sqrt()
    }
}

/// A dueling network with f64 parameters.
#[derive(Debug, Clone)]
pub struct Oracle {
    shape: NetworkShape,
    parameters: Vec<f64>,
}

/// Activations of one row: the input, then each layer's output.
type Activations = Vec<Vec<f64>>;

impl Oracle {
    /// Parameters in the padded flat layout, as [`FusedTrainingCtx::parameters`] gives them.
    ///
    /// [`FusedTrainingCtx::parameters`]: crate::trainers::dqn::fused_training::FusedTrainingCtx::parameters
    ///
    /// # Panics
    /// Where the length is not that of the shape.
    pub fn new(shape: &NetworkShape, parameters: &[f32]) -> Self {
        assert_eq!(
            parameters.len(),
            shape.flat_len(),
            "parameters of this shape"
        );
        Self {
            shape: shape.clone(),
            parameters: parameters.iter().map(|value| f64::from(*value)).collect(),
        }
    }

    /// The parameters, to be changed for finite differences.
    pub fn parameters_mut(&mut self) -> &mut [f64] {
        &mut self.parameters
    }

    /// Places of the flat vector that are parameters, not padding.
    pub fn places(&self) -> Vec<usize> {
        let named = self.shape.named_places();
        named.into_iter().flat_map(|(_, places)| places).collect()
    }

    /// Q values of one state: `V + A − mean A`.
    pub fn q_values(&self, state: &[f64]) -> Vec<f64> {
        dueling(&self.outputs(state), self.shape.num_actions())
    }

    /// Loss of a batch and its gradient. `target` is the network of the bootstrap value.
    pub fn gradients(
        &self,
        target: &Self,
        batch: &HostBatch,
        huber_delta: f64,
        double_dqn: bool,
    ) -> Gradients {
        let layers = self.shape.layers();
        let (dim, actions) = (self.shape.state_dim(), self.shape.num_actions());
        let rows = batch.actions.len();
        let mut flat = vec![0.0; self.parameters.len()];
        let mut td_errors = Vec::with_capacity(rows);
        let mut loss = 0.0;
        for row in 0..rows {
            let state = &batch.states[row * dim..(row + 1) * dim];
            let next = &batch.next_states[row * dim..(row + 1) * dim];
            let later = target.q_values(next);
            let chooser = if double_dqn {
                self.q_values(next)
            } else {
                later.clone()
            };
            let y = batch.rewards[row] + batch.discounts[row] * later[argmax(&chooser)];
            let activations = self.activations(state);
            let q = dueling(&activations[layers.len()], actions)[batch.actions[row]];
            let error = q - y;
            td_errors.push(-error);
            loss += batch.weights[row] * huber(error, huber_delta) / rows as f64;
            let slope = batch.weights[row] * error.clamp(-huber_delta, huber_delta) / rows as f64;
            let mut gradient = vec![0.0; layers[layers.len() - 1].outputs];
            gradient[0] = slope;
            for action in 0..actions {
                let taken = f64::from(u8::from(action == batch.actions[row]));
                gradient[1 + action] = slope * (taken - 1.0 / actions as f64);
            }
            self.backward(&activations, gradient, &mut flat);
        }
        // What the zero blocks would get is no gradient: they are not parameters.
        let mut kept = vec![0.0; flat.len()];
        for place in self.places() {
            kept[place] = flat[place];
        }
        Gradients {
            loss,
            td_errors,
            flat: kept,
        }
    }

    fn outputs(&self, state: &[f64]) -> Vec<f64> {
        self.activations(state).pop().unwrap_or_default()
    }

    fn activations(&self, state: &[f64]) -> Activations {
        let layers = self.shape.layers();
        let mut input = state.to_vec();
        input.resize(layers[0].inputs, 0.0);
        let mut all = vec![input];
        for (at, layer) in layers.iter().enumerate() {
            let weights = &self.parameters[layer.weight.clone()];
            let biases = &self.parameters[layer.bias.clone()];
            let output = (0..layer.outputs)
                .map(|unit| {
                    let row = &weights[unit * layer.inputs..(unit + 1) * layer.inputs];
                    let product: f64 = row.iter().zip(&all[at]).map(|(w, x)| w * x).sum();
                    let sum = product + biases[unit];
                    if at + 1 < layers.len() {
                        sum.max(0.0)
                    } else {
                        sum
                    }
                })
                .collect();
            all.push(output);
        }
        all
    }

    fn backward(&self, activations: &Activations, mut gradient: Vec<f64>, flat: &mut [f64]) {
        for (at, layer) in self.shape.layers().iter().enumerate().rev() {
            let input = &activations[at];
            let mut before = vec![0.0; layer.inputs];
            for (unit, slope) in gradient.iter().enumerate() {
                flat[layer.bias.start + unit] += slope;
                for column in 0..layer.inputs {
                    let place = layer.weight.start + unit * layer.inputs + column;
                    flat[place] += slope * input[column];
                    before[column] += slope * self.parameters[place];
                }
            }
            for (slope, activation) in before.iter_mut().zip(input) {
                if at > 0 && *activation <= 0.0 {
                    *slope = 0.0;
                }
            }
            gradient = before;
        }
    }
}

/// AdamW's state on the host, as `torch.optim.AdamW` defines it.
#[derive(Debug, Clone, Default)]
pub struct HostAdam {
    first: Vec<f64>,
    second: Vec<f64>,
    step: i32,
}

impl HostAdam {
    /// One update of `parameters`, with the gradient clipped to `max_norm` (0: not).
    pub fn step(
        &mut self,
        parameters: &mut [f64],
        gradients: &Gradients,
        (rate, decay, max_norm): (f64, f64, f64),
        (beta1, beta2, epsilon): (f64, f64, f64),
    ) {
        self.first.resize(parameters.len(), 0.0);
        self.second.resize(parameters.len(), 0.0);
        self.step += 1;
        let norm = gradients.norm();
        let scale = if max_norm > 0.0 && norm > max_norm {
            max_norm / norm
        } else {
            1.0
        };
        let correction1 = 1.0 - beta1.powi(self.step);
        let correction2 = 1.0 - beta2.powi(self.step);
        for (at, parameter) in parameters.iter_mut().enumerate() {
            let gradient = gradients.flat[at] * scale;
            self.first[at] = beta1 * self.first[at] + (1.0 - beta1) * gradient;
            self.second[at] = beta2 * self.second[at] + (1.0 - beta2) * gradient * gradient;
            let denominator = (self.second[at] / correction2).sqrt() + epsilon;
            *parameter -= rate * decay * *parameter;
            *parameter -= rate * (self.first[at] / correction1) / denominator;
        }
    }
}

fn dueling(outputs: &[f64], actions: usize) -> Vec<f64> {
    let advantages = &outputs[1..=actions];
    let mean = advantages.iter().sum::<f64>() / actions as f64;
    advantages
        .iter()
        .map(|advantage| outputs[0] + advantage - mean)
        .collect()
}

/// The lowest of the best, as the kernels choose.
fn argmax(values: &[f64]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}

fn huber(error: f64, delta: f64) -> f64 {
    if error.abs() <= delta {
        0.5 * error * error
    } else {
        delta * (error.abs() - 0.5 * delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch whose errors fall on both sides of the Huber border.
    fn batch(shape: &NetworkShape, rows: usize) -> HostBatch {
        let wave = |at: usize, by: f64| ((at as f64 + 1.0) * by).sin();
        let numbers = rows * shape.state_dim();
        HostBatch {
            states: (0..numbers).map(|at| wave(at, 0.7)).collect(),
            next_states: (0..numbers).map(|at| wave(at, 1.3)).collect(),
            actions: (0..rows).map(|row| row * 5 % shape.num_actions()).collect(),
            rewards: (0..rows).map(|row| 3.0 * wave(row, 2.1)).collect(),
            discounts: (0..rows)
                .map(|row| if row % 4 == 3 { 0.0 } else { 0.97 })
                .collect(),
            weights: (0..rows).map(|row| 0.2 + 0.1 * row as f64).collect(),
        }
    }

    #[test]
    fn gradients_are_the_differences() {
        let shape = NetworkShape::new(3, 5, &[7, 10], 6).unwrap();
        let online = Oracle::new(&shape, &shape.initial_parameters(1));
        let target = Oracle::new(&shape, &shape.initial_parameters(2));
        let batch = batch(&shape, 9);
        for double in [true, false] {
            let gradients = online.gradients(&target, &batch, 1.0, double);
            let clipped = gradients
                .td_errors
                .iter()
                .filter(|error| error.abs() > 1.0)
                .count();
            assert!(
                clipped > 0 && clipped < 9,
                "both sides of the border: {clipped}"
            );
            let step = 1e-6;
            for place in online.places() {
                let at = |by: f64| {
                    let mut moved = online.clone();
                    moved.parameters_mut()[place] += by;
                    moved.gradients(&target, &batch, 1.0, double).loss
                };
                let difference = (at(step) - at(-step)) / (2.0 * step);
                // Central differences of a loss of order 1 in f64: 1e-16 / 1e-6, and step² beside it.
                assert!(
                    (difference - gradients.flat[place]).abs() < 1e-8,
                    "place {place}: {difference} and {}",
                    gradients.flat[place]
                );
            }
        }
    }

    #[test]
    fn adam_takes_the_papers_first_step() {
        let gradients = Gradients {
            loss: 0.0,
            td_errors: Vec::new(),
            flat: vec![0.5, -4.0, 0.0],
        };
        let mut parameters = [1.0, 1.0, 1.0];
        HostAdam::default().step(
            &mut parameters,
            &gradients,
            (0.1, 0.0, 0.0),
            (0.9, 0.999, 1e-8),
        );
        // The first step is the rate in the direction of the sign, whatever the size.
        for (parameter, expected) in parameters.iter().zip([0.9, 1.1, 1.0]) {
            assert!((parameter - expected).abs() < 1e-8);
        }
    }
}
