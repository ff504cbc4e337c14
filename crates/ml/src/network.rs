//! The shape of the network, and where its parameters lie.
//!
//! `state → hidden layers, each with ReLU → {value head, advantage head}`, as in Wang et al. 2016,
//! "Dueling Network Architectures". Each head has one hidden layer. On the device the two heads are
//! one layer side by side, so that the network is a plain chain of products; the zero blocks between
//! a head and the other's outputs are kept at zero by the optimizer.

use std::ops::Range;

use crate::error::TrainError;

/// Widths are padded to multiples of this: 16 bytes of bf16, which the matrix products ask for.
const ALIGNMENT: usize = 8;

/// Widest layer: `relu_backward` takes four columns a thread.
const WIDEST: usize = 4096;

/// Most actions: `td_loss` keeps 16 rows of outputs in 48 KiB of shared memory.
const MOST_ACTIONS: usize = 700;

/// Sizes of a dueling network. `NetworkShape::reference(80, 45)` has 335,662 parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkShape {
    state_dim: usize,
    num_actions: usize,
    hidden: Vec<usize>,
    head: usize,
}

impl NetworkShape {
    /// # Errors
    /// [`TrainError::Config`] for a size of zero, no hidden layer, or a layer wider than 4096.
    pub fn new(
        state_dim: usize,
        num_actions: usize,
        hidden: &[usize],
        head: usize,
    ) -> Result<Self, TrainError> {
        let shape = Self {
            state_dim,
            num_actions,
            hidden: hidden.to_vec(),
            head,
        };
        if state_dim == 0 || num_actions == 0 || head == 0 || hidden.contains(&0) {
            return Err(TrainError::Config(format!(
                "every size of the network must be positive: {shape:?}"
            )));
        }
        if hidden.is_empty() {
            return Err(TrainError::Config(
                "the network needs at least one hidden layer".into(),
            ));
        }
        if num_actions > MOST_ACTIONS {
            return Err(TrainError::Config(format!(
                "{num_actions} actions are more than {MOST_ACTIONS}, the most that the loss takes"
            )));
        }
        let widest = hidden.iter().copied().chain([2 * head, state_dim]);
        if let Some(width) = widest.max().filter(|width| *width > WIDEST) {
            return Err(TrainError::Config(format!(
                "a layer of {width} units is wider than {WIDEST}, the most that the kernels take"
            )));
        }
        Ok(shape)
    }

    /// Two hidden layers of 384 and heads of 192: `state → 384 → 384 → {192 → 1, 192 → actions}`.
    ///
    /// # Errors
    /// [`TrainError::Config`] as for [`new`](Self::new).
    pub fn reference(state_dim: usize, num_actions: usize) -> Result<Self, TrainError> {
        Self::new(state_dim, num_actions, &[384, 384], 192)
    }

    /// Numbers in one state.
    pub fn state_dim(&self) -> usize {
        self.state_dim
    }

    /// Actions to choose from.
    pub fn num_actions(&self) -> usize {
        self.num_actions
    }

    /// Units of each head's hidden layer.
    pub fn head(&self) -> usize {
        self.head
    }

    /// Widths of the hidden layers before the heads.
    pub fn hidden(&self) -> &[usize] {
        &self.hidden
    }

    /// Weights and biases, without padding.
    pub fn num_parameters(&self) -> usize {
        let tensors = self.tensors();
        tensors
            .iter()
            .map(|tensor| tensor.rows * tensor.columns)
            .sum()
    }

    /// The layers as they are computed: both heads in one, widths padded.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        let mut widths = vec![self.state_dim];
        widths.extend(&self.hidden);
        widths.push(2 * self.head);
        widths.push(1 + self.num_actions);
        let padded: Vec<usize> = widths
            .iter()
            .map(|width| width.next_multiple_of(ALIGNMENT))
            .collect();
        let total: usize = padded.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let (mut weight_at, mut bias_at) = (0, total);
        padded
            .windows(2)
            .map(|pair| {
                let (inputs, outputs) = (pair[0], pair[1]);
                let layer = Layer {
                    inputs,
                    outputs,
                    weight: weight_at..weight_at + inputs * outputs,
                    bias: bias_at..bias_at + outputs,
                };
                weight_at = layer.weight.end;
                bias_at = layer.bias.end;
                layer
            })
            .collect()
    }

    /// The parameters by PyTorch's names, with their places in the flat vector of [`layers`](Self::layers).
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        let layers = self.layers();
        let mut tensors = Vec::new();
        let mut add =
            |name: String, layer: &Layer, first_row: usize, rows, first_column, columns| {
                tensors.push(Tensor {
                    name: format!("{name}.weight"),
                    rows,
                    columns,
                    first: layer.weight.start + first_row * layer.inputs + first_column,
                    stride: layer.inputs,
                    vector: false,
                    inputs: columns,
                });
                tensors.push(Tensor {
                    name: format!("{name}.bias"),
                    rows: 1,
                    columns: rows,
                    first: layer.bias.start + first_row,
                    stride: rows,
                    vector: true,
                    inputs: columns,
                });
            };
        let mut inputs = self.state_dim;
        for (at, (units, layer)) in self.hidden.iter().zip(&layers).enumerate() {
            add(format!("trunk.{at}"), layer, 0, *units, 0, inputs);
            inputs = *units;
        }
        let (heads, outputs) = (&layers[layers.len() - 2], &layers[layers.len() - 1]);
        let head = self.head;
        add("value.0".into(), heads, 0, head, 0, inputs);
        add("value.1".into(), outputs, 0, 1, 0, head);
        add("advantage.0".into(), heads, head, head, 0, inputs);
        add(
            "advantage.1".into(),
            outputs,
            1,
            self.num_actions,
            head,
            head,
        );
        tensors
    }

    /// The parameters by PyTorch's names (`trunk.0.weight`, `value.1.bias`, …), each with its places in
    /// the flat vector, row by row.
    pub fn named_places(&self) -> Vec<(String, Vec<usize>)> {
        let named = |tensor: &Tensor| (tensor.name.clone(), tensor.places().collect());
        self.tensors().iter().map(named).collect()
    }

    /// Length of the flat vector: weights and biases with their padding.
    pub fn flat_len(&self) -> usize {
        self.layers().last().map_or(0, |layer| layer.bias.end)
    }

    /// Parameters drawn as PyTorch's `nn.Linear` draws them: uniform in ±1/√inputs, weights and biases.
    pub fn initial_parameters(&self, seed: u64) -> Vec<f32> {
        let mut flat = vec![0.0; self.flat_len()];
        let mut random = SplitMix(seed);
        for tensor in self.tensors() {
            let bound = 1.0 / (tensor.inputs as f64).sqrt();
            for place in tensor.places() {
                flat[place] = (bound * (2.0 * random.unit() - 1.0)) as f32;
            }
        }
        flat
    }
}

/// One layer on the device: `outputs × inputs` weights, row-major, and as many biases as outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    /// Places in the flat vector.
    pub weight: Range<usize>,
    pub bias: Range<usize>,
}

/// One named parameter inside the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub name: String,
    pub rows: usize,
    pub columns: usize,
    first: usize,
    stride: usize,
    vector: bool,
    /// Inputs of the layer that it belongs to.
    inputs: usize,
}

impl Tensor {
    /// Its shape as PyTorch has it: `[outputs, inputs]`, or `[outputs]` for a bias.
    pub fn shape(&self) -> Vec<usize> {
        if self.vector {
            vec![self.columns]
        } else {
            vec![self.rows, self.columns]
        }
    }

    /// Its places in the flat vector, row by row.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows).flat_map(move |row| {
            let begin = self.first + row * self.stride;
            begin..begin + self.columns
        })
    }
}

/// Steele, Lea and Flood 2014; Sebastiano Vigna's constants. For initial weights only.
struct SplitMix(u64);

impl SplitMix {
    /// In [0, 1), from 53 bits.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_network_has_the_specifications_size() {
        let shape = NetworkShape::reference(80, 45).unwrap();
        assert_eq!(shape.num_parameters(), 335_662);
        let sizes: Vec<_> = shape
            .layers()
            .iter()
            .map(|layer| (layer.inputs, layer.outputs))
            .collect();
        assert_eq!(sizes, [(80, 384), (384, 384), (384, 384), (384, 48)]);
    }

    #[test]
    fn tensors_are_disjoint_and_lie_outside_of_the_zero_blocks() {
        let shape = NetworkShape::new(3, 5, &[7, 10], 6).unwrap();
        let mut owner = vec![None; shape.flat_len()];
        for tensor in shape.tensors() {
            assert_eq!(
                tensor.places().count(),
                tensor.shape().iter().product::<usize>()
            );
            for place in tensor.places() {
                assert_eq!(
                    owner[place].replace(tensor.name.clone()),
                    None,
                    "{}",
                    tensor.name
                );
            }
        }
        let last = &shape.layers()[3];
        for row in 0..last.outputs {
            for column in 0..last.inputs {
                let owner = owner[last.weight.start + row * last.inputs + column].as_deref();
                let expected = match (row, column) {
                    (0, 0..6) => Some("value.1.weight"),
                    (1..6, 6..12) => Some("advantage.1.weight"),
                    _ => None,
                };
                assert_eq!(owner, expected, "row {row}, column {column}");
            }
        }
    }

    #[test]
    fn initial_parameters_are_those_of_the_seed_and_bounded_by_the_fan_in() {
        let shape = NetworkShape::reference(80, 45).unwrap();
        let parameters = shape.initial_parameters(7);
        assert_eq!(parameters, shape.initial_parameters(7));
        assert_ne!(parameters, shape.initial_parameters(8));
        let first: Vec<f32> = shape.tensors()[0]
            .places()
            .map(|place| parameters[place])
            .collect();
        let bound = 1.0 / 80f32.sqrt();
        assert!(first.iter().all(|value| value.abs() <= bound));
        assert!(first.iter().any(|value| value.abs() > 0.99 * bound));
        let mean = first.iter().sum::<f32>() / first.len() as f32;
        assert!(mean.abs() < 0.02 * bound, "{mean}");
    }

    #[test]
    fn sizes_that_cannot_be_are_named() {
        let refused = |state, actions, hidden: &[usize], head| {
            NetworkShape::new(state, actions, hidden, head)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(0, 2, &[8], 8).contains("positive"));
        assert!(refused(4, 2, &[], 8).contains("at least one hidden layer"));
        assert!(refused(4, 2, &[5000], 8).contains("5000"));
        assert!(refused(4, 2000, &[8], 8).contains("2000 actions"));
    }
}
