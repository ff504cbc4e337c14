//! Cases that others got wrong, with numbers small enough to be worked out by hand.

use std::sync::Arc;

use libtest_mimic::Failed;
use ml::NetworkShape;
use ml::trainers::dqn::fused_training::{FusedTrainingCtx, StepOptions, StepState, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_cuda::Precision;
use ml_dqn::gpu_replay_buffer::ReplayOptions;
use ml_dqn::{DqnAgent, DqnConfig, Experience, GpuReplayBuffer, GpuReplayBufferConfig};
use safetensors::SafeTensors;

use crate::setup::{Setup, small_options};
use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("double_dqn_chooses_online_and_rates_by_the_target", double),
    ("huber_is_linear_outside_of_its_border", huber),
    ("a_periodic_target_is_a_copy_of_its_own", periodic),
    ("a_polyak_target_goes_half_of_the_way", polyak),
    ("a_new_step_has_changed_nothing", new_step),
];

/// One transition and a network of two actions without weights: its values are its biases.
struct One {
    step: FusedTrainingCtx,
    agent: DqnAgent,
    shape: NetworkShape,
}

impl One {
    fn new(options: &StepOptions, reward: f32, done: bool) -> Result<Self, Failed> {
        let (_context, stream) = ml_cuda::open(0)?;
        let config = DqnConfig {
            state_dim: 3,
            num_actions: 2,
            batch_size: 1,
            gamma: 1.0,
        };
        let memory_config = GpuReplayBufferConfig {
            capacity: 1,
            state_dim: 3,
            ..Default::default()
        };
        let memory = ReplayOptions::default();
        let mut memory = GpuReplayBuffer::with_options(memory_config, memory, Arc::clone(&stream))?;
        memory.push(&Experience {
            state: vec![1.0, -1.0, 0.5],
            action: 0,
            reward,
            next_state: vec![0.5, 1.0, -1.0],
            done,
        })?;
        let shape = NetworkShape::new(3, 2, &options.hidden, options.head)?;
        Ok(Self {
            step: FusedTrainingCtx::with_options(&config, options.clone(), stream)?,
            agent: DqnAgent::new(config, memory)?,
            shape,
        })
    }

    /// Sets the values of both actions, in every state.
    fn set(&mut self, online: [f32; 2], target: [f32; 2]) -> Outcome {
        let (online, target) = (self.biases(online), self.biases(target));
        Ok(self.step.set_parameters(&online, &target)?)
    }

    fn biases(&self, values: [f32; 2]) -> Vec<f32> {
        let mut flat = vec![0.0; self.shape.flat_len()];
        let mean = (values[0] + values[1]) / 2.0;
        for (name, places) in self.shape.named_places() {
            let new = match name.as_str() {
                "value.1.bias" => vec![mean],
                "advantage.1.bias" => values.map(|value| value - mean).to_vec(),
                _ => continue,
            };
            for (place, value) in places.into_iter().zip(new) {
                flat[place] = value;
            }
        }
        flat
    }

    fn run(&mut self) -> Result<f32, Failed> {
        let batch = self.agent.memory().sample(1)?;
        self.step.run_full_step(&self.agent, &batch)?;
        self.step.stream().synchronize()?;
        Ok(self.step.stream().clone_dtoh(self.step.td_errors())?[0])
    }
}

fn exact_options() -> StepOptions {
    let mut options = small_options();
    options.precision = Precision::Fp32;
    options
}

/// https://github.com/facebookresearch/ReAgent/issues/88: one network both chose and rated.
fn double() -> Outcome {
    for (online, target, double_dqn, done, y) in [
        ([1.0, 5.0], [10.0, 2.0], true, false, 2.0),
        ([1.0, 5.0], [10.0, 2.0], false, false, 10.0),
        // Of equals the first.
        ([3.0, 3.0], [7.0, 2.0], true, false, 7.0),
        ([1.0, 5.0], [10.0, 2.0], true, true, 0.0),
    ] {
        let mut options = exact_options();
        options.double_dqn = double_dqn;
        let mut one = One::new(&options, 0.0, done)?;
        one.set(online, target)?;
        let td = one.run()?;
        check(td == y - online[0], || {
            format!("online {online:?}, target {target:?}: {td}, and y should be {y}")
        })?;
    }
    Ok(())
}

/// https://github.com/devsisters/DQN-tensorflow/issues/16: a clipped error has no gradient outside of its range.
fn huber() -> Outcome {
    for (delta, kappa, loss, slope) in [
        (3.0, 1.0, 2.5, 1.0),
        (3.0, 2.0, 4.0, 2.0),
        (-0.5, 1.0, 0.125, -0.5),
        (0.0, 1.0, 0.0, 0.0),
    ] {
        let mut options = exact_options();
        options.huber_delta = kappa;
        // Q is 0 and the episode ends, so the TD error is the reward.
        let mut one = One::new(&options, delta, true)?;
        one.set([0.0; 2], [0.0; 2])?;
        let td = one.run()?;
        let state = one.step.state_to_host()?;
        check(td == delta && state.loss == loss, || {
            format!("{delta} at {kappa}: TD error {td}, {state:?}")
        })?;
        let gradient = one.step.gradient()?;
        for (name, places) in one.shape.named_places() {
            // Down the loss is up in Q. The advantages' mean of two actions takes half of it away.
            let expected = match name.as_str() {
                "value.1.bias" => vec![-slope],
                "advantage.1.bias" => vec![-slope / 2.0, slope / 2.0],
                _ => continue,
            };
            let got: Vec<f32> = places.into_iter().map(|place| gradient[place]).collect();
            check(got == expected, || {
                format!("{delta} at {kappa}: `{name}` has {got:?}, not {expected:?}")
            })?;
        }
    }
    Ok(())
}

/// https://github.com/datawhalechina/easy-rl/issues/140: a target that is the online network itself never lags.
fn periodic() -> Outcome {
    let mut options = small_options();
    options.target = TargetUpdate::Periodic { every: 3 };
    options.learning_rate = LearningRate::constant(1e-3);
    let setup = Setup::new(11, 6, 64, 200)?;
    let mut step = setup.step(&options)?;
    let mut expected = step.target_parameters()?;
    for number in 1..=6 {
        step.run_full_step(&setup.agent, &setup.sample()?)?;
        let (online, target) = (step.parameters()?, step.target_parameters()?);
        if number % 3 == 0 {
            expected = online;
        } else {
            check(target != online, || format!("step {number}: no lag"))?;
        }
        check(target == expected, || {
            format!("the target after step {number}")
        })?;
    }
    Ok(())
}

fn polyak() -> Outcome {
    let mut options = small_options();
    options.target = TargetUpdate::Polyak { tau: 0.5 };
    // Parameters stay, so that the way is known: 0, 0.5, 0.75.
    options.learning_rate = LearningRate::constant(0.0);
    let setup = Setup::new(11, 6, 64, 200)?;
    let mut step = setup.step(&options)?;
    let shape = setup.shape(&options)?;
    let mut ones = vec![0.0; shape.flat_len()];
    for (_, places) in shape.named_places() {
        for place in places {
            ones[place] = 1.0;
        }
    }
    step.set_parameters(&ones, &vec![0.0; shape.flat_len()])?;
    for share in [0.5, 0.75] {
        step.run_full_step(&setup.agent, &setup.sample()?)?;
        let target = step.target_parameters()?;
        let right = target
            .iter()
            .zip(&ones)
            .all(|(target, one)| *target == share * one);
        check(right, || format!("not all of the target is {share}"))?;
    }
    Ok(())
}

/// https://github.com/microsoft/onnxruntime/issues/32243: runs that only warm up must not train.
fn new_step() -> Outcome {
    let setup = Setup::new(11, 6, 64, 200)?;
    let options = small_options();
    let step = setup.step(&options)?;
    let initial = setup.shape(&options)?.initial_parameters(options.seed);
    check(
        step.parameters()? == initial && step.target_parameters()? == initial,
        || "the capture changed a parameter".into(),
    )?;
    let state = step.state_to_host()?;
    check(state == StepState::default() && step.steps() == 0, || {
        format!("{state:?}")
    })?;
    let stats = setup.agent.memory().stats()?;
    check(stats.draws == 0, || format!("{stats:?}"))?;
    // Adam's moments, as the checkpoint has them.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("new.safetensors");
    step.save(&path)?;
    let bytes = std::fs::read(&path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    let moments = file.tensors();
    let mut moments = moments.iter().filter(|(name, _)| name.starts_with("adam."));
    check(
        moments.clone().count() > 0
            && moments.all(|(_, tensor)| tensor.data().iter().all(|byte| *byte == 0)),
        || "a moment is not zero".into(),
    )
}
