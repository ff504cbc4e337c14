//! A step's networks, optimizer and counters as a safetensors file, with PyTorch's names.
//!
//! | tensor | holds |
//! |---|---|
//! | `trunk.0.weight`, `trunk.0.bias`, …, `value.0.…`, `value.1.…`, `advantage.0.…`, `advantage.1.…` | the online network, as `nn.Linear` has it, f32 |
//! | `target.…` | the target network |
//! | `adam.first.…`, `adam.second.…` | Adam's moments |
//! | `step.counts` u64 `[4]` | steps run, updates made, updates skipped, skipped in a row |
//! | `step.powers` f64 `[2]` | β₁ᵗ and β₂ᵗ |
//! | `step.rates` f32 `[2]` | learning rate after the warm-up, and after the decay |
//! | `step.schedule` u64 `[2]` | updates of the warm-up, and of the decay |
//!
//! With these, and otherwise the same [`StepOptions`], a restored step goes on bit for bit. The replay buffer,
//! its β and its random numbers are saved apart, by `GpuReplayBuffer::save`.
//! `crates/ml/python/load_checkpoint.py` reads the file from Python, and computes Q values from it.
//!
//! [`StepOptions`]: super::options::StepOptions

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, View, serialize};

use super::fused_training::{FusedTrainingCtx, StepState};
use super::options::LearningRate;
use crate::error::TrainError;
use crate::network::{NetworkShape, Tensor};

/// Says what a file is, in its metadata.
const FORMAT: &str = "foxhunt-dqn-step-2";

/// What a checkpoint holds, on the host. Parameters are flat and padded, as the step has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    pub online: Vec<f32>,
    pub target: Vec<f32>,
    pub first: Vec<f32>,
    pub second: Vec<f32>,
    pub state: StepState,
    pub learning_rate: LearningRate,
}

impl FusedTrainingCtx {
    /// Writes networks, optimizer, counters and the learning rate's course to a file. Waits for the GPU.
    ///
    /// The file is written beside its place, synced and renamed into it: a fault half way leaves an
    /// older file as it was.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] with the path, or what the driver refused.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let path = path.as_ref();
        let bytes = encode(self.shape(), &self.snapshot()?).map_err(|what| refused(path, what))?;
        write_whole(path, &bytes).map_err(|error| refused(path, error))
    }

    /// Takes networks, optimizer, counters and the learning rate's course from a file. Captured graphs stay as they are.
    /// For another course than the file's call [`set_learning_rate`](Self::set_learning_rate) afterwards.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] where the file cannot be read, is torn, is something else, or is of a
    /// network with other sizes: nothing has changed then. Or what the driver refused.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| refused(path, error))?;
        let snapshot = decode(self.shape(), &bytes).map_err(|what| refused(path, what))?;
        self.apply(&snapshot)
    }
}

fn refused(path: &Path, what: impl ToString) -> TrainError {
    TrainError::Checkpoint {
        path: path.to_owned(),
        what: what.to_string(),
    }
}

/// One tensor on its way into a file.
struct Stored {
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Stored {
    fn dtype(&self) -> Dtype {
        self.kind
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn encode(shape: &NetworkShape, snapshot: &Snapshot) -> Result<Vec<u8>, String> {
    let mut stored = Vec::new();
    for (prefix, flat) in parts(snapshot) {
        for tensor in shape.tensors() {
            let values = tensor.places().map(|place| flat[place].to_le_bytes());
            stored.push((
                format!("{prefix}{}", tensor.name),
                Stored {
                    kind: Dtype::F32,
                    shape: tensor.shape(),
                    bytes: values.flatten().collect(),
                },
            ));
        }
    }
    let state = &snapshot.state;
    let counts = [
        state.attempts,
        state.applied,
        state.skipped,
        state.skipped_in_row,
    ];
    let rate = &snapshot.learning_rate;
    stored.extend([
        numbers("step.counts", Dtype::U64, &counts.map(u64::to_le_bytes)),
        numbers(
            "step.powers",
            Dtype::F64,
            &[state.power1, state.power2].map(f64::to_le_bytes),
        ),
        numbers(
            "step.rates",
            Dtype::F32,
            &[rate.base, rate.last].map(f32::to_le_bytes),
        ),
        numbers(
            "step.schedule",
            Dtype::U64,
            &[rate.warmup_steps, rate.decay_steps].map(u64::to_le_bytes),
        ),
    ]);
    let metadata = HashMap::from([
        ("format".to_owned(), FORMAT.to_owned()),
        ("network".to_owned(), sizes(shape)),
    ]);
    let views = stored.iter().map(|(name, stored)| (name.as_str(), stored));
    serialize(views, Some(metadata)).map_err(|error| error.to_string())
}

/// A vector of numbers under a name.
fn numbers<const SIZE: usize>(name: &str, kind: Dtype, values: &[[u8; SIZE]]) -> (String, Stored) {
    let stored = Stored {
        kind,
        shape: vec![values.len()],
        bytes: values.concat(),
    };
    (name.to_owned(), stored)
}

fn decode(shape: &NetworkShape, bytes: &[u8]) -> Result<Snapshot, String> {
    let torn = |error| format!("it is torn, or no safetensors file ({error})");
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(torn)?;
    let metadata = header.metadata().clone().unwrap_or_default();
    if metadata.get("format").map(String::as_str) != Some(FORMAT) {
        return Err(format!(
            "it is no checkpoint of this step: its `format` is {:?}, and `{FORMAT}` is expected",
            metadata.get("format")
        ));
    }
    let here = sizes(shape);
    match metadata.get("network") {
        Some(saved) if *saved == here => {}
        saved => {
            return Err(format!(
                "its network is {}, and the one here is {here}",
                saved.map_or("not described", String::as_str)
            ));
        }
    }
    let file = SafeTensors::deserialize(bytes).map_err(torn)?;
    let read = |name: &str, kind: Dtype, shape: &[usize]| {
        let view = file.tensor(name).map_err(|error| error.to_string())?;
        if view.dtype() != kind || view.shape() != shape {
            return Err(format!(
                "`{name}` is {:?} {:?}, and {kind:?} {shape:?} is expected",
                view.dtype(),
                view.shape()
            ));
        }
        Ok(view.data().to_vec())
    };
    let flat = |prefix: &str| {
        let mut flat = vec![0.0; shape.flat_len()];
        for tensor in shape.tensors() {
            let Tensor { name, .. } = &tensor;
            let bytes = read(&format!("{prefix}{name}"), Dtype::F32, &tensor.shape())?;
            for (place, value) in tensor.places().zip(bytes.as_chunks::<4>().0) {
                flat[place] = f32::from_le_bytes(*value);
            }
        }
        Ok::<_, String>(flat)
    };
    let u64s = |name: &str, count: usize| {
        let bytes = read(name, Dtype::U64, &[count])?;
        let values = bytes.as_chunks::<8>().0.iter();
        Ok::<Vec<u64>, String>(values.map(|value| u64::from_le_bytes(*value)).collect())
    };
    let counts = u64s("step.counts", 4)?;
    let schedule = u64s("step.schedule", 2)?;
    let powers = read("step.powers", Dtype::F64, &[2])?;
    let power = |at: usize| f64::from_le_bytes(powers.as_chunks::<8>().0[at]);
    let rates = read("step.rates", Dtype::F32, &[2])?;
    let rate = |at: usize| f32::from_le_bytes(rates.as_chunks::<4>().0[at]);
    let learning_rate = LearningRate {
        base: rate(0),
        last: rate(1),
        warmup_steps: schedule[0],
        decay_steps: schedule[1],
    };
    if ![rate(0), rate(1)]
        .iter()
        .all(|rate| (0.0..f32::INFINITY).contains(rate))
    {
        return Err(format!("its learning rate cannot be: {learning_rate:?}"));
    }
    Ok(Snapshot {
        online: flat("")?,
        target: flat("target.")?,
        first: flat("adam.first.")?,
        second: flat("adam.second.")?,
        state: StepState {
            attempts: counts[0],
            applied: counts[1],
            skipped: counts[2],
            skipped_in_row: counts[3],
            power1: power(0),
            power2: power(1),
            ..StepState::default()
        },
        learning_rate,
    })
}

fn parts(snapshot: &Snapshot) -> [(&'static str, &[f32]); 4] {
    [
        ("", &snapshot.online),
        ("target.", &snapshot.target),
        ("adam.first.", &snapshot.first),
        ("adam.second.", &snapshot.second),
    ]
}

/// The sizes of a network in words, such as `80 -> 384 -> 384 -> {192 -> 1, 192 -> 45}`.
fn sizes(shape: &NetworkShape) -> String {
    let widths = [shape.state_dim()]
        .into_iter()
        .chain(shape.hidden().iter().copied());
    let trunk: String = widths.map(|width| format!("{width} -> ")).collect();
    let (head, actions) = (shape.head(), shape.num_actions());
    format!("{trunk}{{{head} -> 1, {head} -> {actions}}}")
}

fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(name);
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            // Else a power cut could leave the new name with old or no contents.
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> NetworkShape {
        NetworkShape::new(3, 5, &[7, 10], 6).unwrap()
    }

    fn snapshot(shape: &NetworkShape) -> Snapshot {
        Snapshot {
            online: shape.initial_parameters(1),
            target: shape.initial_parameters(2),
            first: shape.initial_parameters(3),
            second: shape.initial_parameters(4),
            state: StepState {
                attempts: 12,
                applied: 10,
                skipped: 2,
                skipped_in_row: 1,
                power1: 0.9f64.powi(10),
                power2: 0.999f64.powi(10),
                ..StepState::default()
            },
            learning_rate: LearningRate::linear(3e-4, 1e-6, 5000).with_warmup(100),
        }
    }

    #[test]
    fn what_is_written_is_read_to_the_bit() {
        let shape = shape();
        let snapshot = snapshot(&shape);
        let bytes = encode(&shape, &snapshot).unwrap();
        assert_eq!(decode(&shape, &bytes).unwrap(), snapshot);
    }

    #[test]
    fn a_learning_rate_that_cannot_be_is_refused() {
        let shape = shape();
        let mut snapshot = snapshot(&shape);
        snapshot.learning_rate.base = f32::NAN;
        let bytes = encode(&shape, &snapshot).unwrap();
        let message = decode(&shape, &bytes).unwrap_err();
        assert!(message.contains("learning rate"), "{message}");
    }

    #[test]
    fn names_and_shapes_are_pytorchs() {
        let shape = shape();
        let bytes = encode(&shape, &snapshot(&shape)).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        for (name, expected) in [
            ("trunk.0.weight", &[7, 3][..]),
            ("trunk.1.bias", &[10]),
            ("value.0.weight", &[6, 10]),
            ("value.1.weight", &[1, 6]),
            ("advantage.1.weight", &[5, 6]),
            ("target.advantage.1.bias", &[5]),
            ("adam.second.trunk.0.weight", &[7, 3]),
        ] {
            assert_eq!(file.tensor(name).unwrap().shape(), expected, "{name}");
        }
    }

    #[test]
    fn every_torn_file_is_refused() {
        let shape = shape();
        let bytes = encode(&shape, &snapshot(&shape)).unwrap();
        for length in (0..bytes.len()).step_by(7) {
            assert!(decode(&shape, &bytes[..length]).is_err(), "cut at {length}");
        }
        assert!(
            decode(&shape, &[&bytes[..], b"x"].concat()).is_err(),
            "longer"
        );
        assert!(
            decode(&shape, b"PK\x03\x04 some other file")
                .unwrap_err()
                .contains("no safetensors")
        );
    }

    #[test]
    fn a_foreign_file_and_another_network_are_told_apart() {
        let shape = shape();
        let foreign: Vec<(&str, &Stored)> = Vec::new();
        let foreign = serialize(foreign, None).unwrap();
        assert!(
            decode(&shape, &foreign)
                .unwrap_err()
                .contains("no checkpoint of this step")
        );
        let other = NetworkShape::new(3, 4, &[7, 10], 6).unwrap();
        let bytes = encode(&other, &snapshot(&other)).unwrap();
        let message = decode(&shape, &bytes).unwrap_err();
        assert!(
            message.contains("{6 -> 1, 6 -> 4}") && message.contains("{6 -> 1, 6 -> 5}"),
            "{message}"
        );
    }

    #[test]
    fn a_fault_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing is left beside"
        );
        // A folder in its place cannot be replaced by a file.
        let taken = folder.path().join("b");
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(taken.join("inside"), b"").unwrap();
        assert!(write_whole(&taken, b"new").is_err());
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2,
            "nothing is left beside"
        );
    }
}
