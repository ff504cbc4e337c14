//! Whole steps: loss, gradients and updates of the kernels against those of the oracle.

use ml::NetworkShape;
use ml::oracle::{Gradients, HostAdam};

use crate::Test;
use crate::cuda_on_cpu::Driver;
use crate::problem::{Batch, Networks, close, equal};

pub const TESTS: &[Test] = &[
    ("one_f32_step_is_the_oracles", one_f32_step),
    (
        "one_bf16_step_is_the_oracles_within_its_rounding",
        one_bf16_step,
    ),
    ("odd_sizes_and_rows_behind_the_batch", odd_sizes),
    (
        "several_steps_with_decay_clipping_and_polyak",
        several_steps,
    ),
    (
        "a_periodic_target_is_copied_every_second_update",
        periodic_target,
    ),
    ("learning_rate_warms_up_and_decays", learning_rate),
    ("nan_rewards_change_nothing_and_are_counted", nan_is_skipped),
    ("a_batch_that_was_not_drawn_changes_nothing", not_drawn),
    ("without_double_dqn_the_target_chooses", single_dqn),
    ("the_order_of_threads_and_blocks_does_not_matter", orders),
];

const GAMMA: f32 = 0.97;

/// `StepSettings` of the kernels, as bytes are laid out there.
#[derive(Clone, Copy)]
struct Settings {
    learning_rate: f32,
    final_rate: f32,
    warmup_steps: u64,
    decay_steps: u64,
    weight_decay: f32,
    max_grad_norm: f32,
    tau: f32,
    target_period: u32,
    double_dqn: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            final_rate: 1e-3,
            warmup_steps: 0,
            decay_steps: 0,
            weight_decay: 0.0,
            max_grad_norm: 0.0,
            tau: 0.005,
            target_period: 0,
            double_dqn: 1,
        }
    }
}

impl Settings {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.learning_rate.to_ne_bytes());
        bytes.extend(self.final_rate.to_ne_bytes());
        bytes.extend(self.warmup_steps.to_ne_bytes());
        bytes.extend(self.decay_steps.to_ne_bytes());
        bytes.extend(0.9f64.to_ne_bytes());
        bytes.extend(0.999f64.to_ne_bytes());
        for value in [1e-8, self.weight_decay, self.max_grad_norm, 1.0, self.tau] {
            bytes.extend(value.to_ne_bytes());
        }
        for value in [self.target_period, self.double_dqn, 0] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes
    }
}

/// What a run of the driver leaves.
struct Outcome {
    steps: Vec<StepOutcome>,
    parameters: Vec<f32>,
    target: Vec<f32>,
    bytes: Vec<u8>,
}

struct StepOutcome {
    /// attempts, applied, skipped, skipped in a row.
    counts: [u64; 4],
    loss: f32,
    grad_norm: f32,
    learning_rate: f32,
    rows: u32,
    td: Vec<f32>,
    gradient: Vec<f32>,
}

struct Run<'a> {
    driver: &'a Driver,
    shape: &'a NetworkShape,
    hidden: &'a [usize],
    head: usize,
    capacity: usize,
    kind: &'a str,
    settings: Settings,
    status: u32,
    order: Option<&'a str>,
}

impl Run<'_> {
    fn run(&self, networks: &Networks, batches: &[Batch]) -> Result<Outcome, String> {
        let rows = batches[0].rows();
        let sizes = [
            self.capacity,
            rows,
            self.shape.state_dim(),
            self.shape.num_actions(),
            self.head,
            batches.len(),
        ];
        let mut arguments = vec!["step".to_owned(), self.kind.to_owned()];
        arguments.extend(sizes.iter().chain(self.hidden).map(usize::to_string));
        let mut input = self.settings.bytes();
        let floats = |input: &mut Vec<u8>, values: &[f32]| {
            input.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        };
        floats(&mut input, &[GAMMA]);
        floats(&mut input, &networks.online);
        floats(&mut input, &networks.target);
        for batch in batches {
            input.extend(self.status.to_ne_bytes());
            floats(&mut input, &batch.states);
            floats(&mut input, &batch.next_states);
            input.extend(batch.actions.iter().flat_map(|action| action.to_ne_bytes()));
            floats(&mut input, &batch.rewards);
            floats(&mut input, &batch.weights);
            floats(&mut input, &batch.dones);
            input.extend(
                batch
                    .step_counts
                    .iter()
                    .flat_map(|steps| steps.to_ne_bytes()),
            );
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let bytes = self.driver.run_in_order(self.order, &arguments, &input)?;
        Ok(self.read(bytes, batches.len()))
    }

    fn read(&self, bytes: Vec<u8>, steps: usize) -> Outcome {
        let flat = self.shape.flat_len();
        let mut at = 0;
        let mut take = |count: usize| {
            at += count;
            &bytes[at - count..at]
        };
        let floats = |bytes: &[u8]| -> Vec<f32> {
            let words = bytes.chunks_exact(4);
            words
                .map(|word| f32::from_ne_bytes(word.try_into().unwrap()))
                .collect()
        };
        let steps = (0..steps)
            .map(|_| {
                let state = take(96);
                let count =
                    |at: usize| u64::from_ne_bytes(state[8 * at..8 * at + 8].try_into().unwrap());
                let counts = [count(0), count(1), count(2), count(3)];
                let words = floats(&state[32..]);
                StepOutcome {
                    counts,
                    loss: words[0],
                    grad_norm: words[1],
                    learning_rate: words[2],
                    rows: words[3].to_bits(),
                    td: floats(take(4 * self.capacity)),
                    gradient: floats(take(4 * flat)),
                }
            })
            .collect();
        let parameters = floats(take(4 * flat));
        take(8 * flat);
        let target = floats(take(4 * flat));
        Outcome {
            steps,
            parameters,
            target,
            bytes: bytes.clone(),
        }
    }
}

fn plain<'a>(
    driver: &'a Driver,
    shape: &'a NetworkShape,
    hidden: &'a [usize],
    head: usize,
) -> Run<'a> {
    Run {
        driver,
        shape,
        hidden,
        head,
        capacity: 70,
        kind: "f32",
        settings: Settings::default(),
        status: 0,
        order: None,
    }
}

const HIDDEN: [usize; 2] = [24, 16];

fn shape() -> NetworkShape {
    NetworkShape::new(8, 5, &HIDDEN, 12).unwrap()
}

/// Compares one step's outcome with the oracle's.
fn compare(outcome: &StepOutcome, expected: &Gradients, tolerance: f64) -> Result<(), String> {
    let rows = expected.td_errors.len();
    close(
        "td errors",
        &outcome.td[..rows],
        &expected.td_errors,
        tolerance,
    )?;
    equal(
        "td errors behind the batch",
        outcome.td[rows..].iter().all(|td| *td == 0.0),
        true,
    )?;
    close("gradient", &outcome.gradient, &expected.flat, tolerance)?;
    close("loss", &[outcome.loss], &[expected.loss], tolerance)?;
    close("norm", &[outcome.grad_norm], &[expected.norm()], tolerance)?;
    equal("rows", outcome.rows as usize, rows)
}

fn check_one(run: &Run, rows: usize, tolerance: f64) -> Result<(), String> {
    let networks = Networks::of(run.shape, 1);
    let batch = Batch::random(run.shape, rows, 7);
    let double = run.settings.double_dqn == 1;
    let expected =
        networks
            .oracle
            .gradients(&networks.target_oracle, &batch.on_host(GAMMA), 1.0, double);
    let clipped = expected
        .td_errors
        .iter()
        .filter(|td| td.abs() > 1.0)
        .count();
    if clipped == 0 || clipped == rows {
        return Err("the batch does not reach both sides of the Huber border".into());
    }
    let outcome = run.run(&networks, &[batch])?;
    compare(&outcome.steps[0], &expected, tolerance)?;
    equal("counts", outcome.steps[0].counts, [1, 1, 0, 0])
}

// f32 sums of 70 rows and 24 columns, f64 elsewhere: a few roundings of 6e-8.
const F32: f64 = 2e-6;

fn one_f32_step(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    check_one(&plain(driver, &shape, &HIDDEN, 12), 70, F32)
}

fn one_bf16_step(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let run = Run {
        kind: "bf16",
        ..plain(driver, &shape, &HIDDEN, 12)
    };
    // Values are rounded to 8 bits five times on the way.
    check_one(&run, 70, 2e-2)
}

fn odd_sizes(driver: &Driver) -> Result<(), String> {
    for (state, actions, hidden, head, capacity, rows) in [
        (3, 2, &[5, 9, 11][..], 3, 65, 13),
        (1, 1, &[1][..], 1, 64, 9),
        (6, 40, &[8][..], 7, 129, 128),
        // More outputs than two a lane.
        (5, 100, &[8][..], 4, 20, 17),
    ] {
        let shape = NetworkShape::new(state, actions, hidden, head).unwrap();
        let run = Run {
            capacity,
            ..plain(driver, &shape, hidden, head)
        };
        check_one(&run, rows, F32)
            .map_err(|why| format!("{shape:?}, {rows} of {capacity} rows: {why}"))?;
    }
    Ok(())
}

fn several_steps(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let settings = Settings {
        weight_decay: 0.01,
        max_grad_norm: 0.05,
        tau: 0.1,
        ..Settings::default()
    };
    let run = Run {
        settings,
        ..plain(driver, &shape, &HIDDEN, 12)
    };
    let mut networks = Networks::of(&shape, 3);
    let batches: Vec<Batch> = (0..5).map(|seed| Batch::random(&shape, 33, seed)).collect();
    let outcome = run.run(&networks, &batches)?;
    let mut adam = HostAdam::default();
    let mut clipped = 0;
    for (batch, step) in batches.iter().zip(&outcome.steps) {
        let expected =
            networks
                .oracle
                .gradients(&networks.target_oracle, &batch.on_host(GAMMA), 1.0, true);
        clipped += usize::from(expected.norm() > 0.05);
        compare(step, &expected, 1e-4)?;
        let (rate, decay, most) = (1e-3f32.into(), 0.01f32.into(), 0.05f32.into());
        let online = networks.oracle.parameters_mut();
        adam.step(
            online,
            &expected,
            (rate, decay, most),
            (0.9, 0.999, 1e-8f32.into()),
        );
        let online = online.to_vec();
        for (target, online) in networks
            .target_oracle
            .parameters_mut()
            .iter_mut()
            .zip(online)
        {
            *target += f64::from(0.1f32) * (online - *target);
        }
    }
    equal("every step is clipped", clipped, 5)?;
    // Adam divides by the root of a sum of squares: where a gradient is nearly zero, its rounding decides.
    close(
        "parameters",
        &outcome.parameters,
        networks.oracle.parameters_mut(),
        1e-4,
    )?;
    close(
        "target",
        &outcome.target,
        networks.target_oracle.parameters_mut(),
        1e-4,
    )?;
    equal("updates", outcome.steps[4].counts, [5, 5, 0, 0])
}

fn periodic_target(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let settings = Settings {
        tau: 0.0,
        target_period: 2,
        ..Settings::default()
    };
    let run = Run {
        settings,
        ..plain(driver, &shape, &HIDDEN, 12)
    };
    let networks = Networks::of(&shape, 4);
    let batches: Vec<Batch> = (0..4).map(|seed| Batch::random(&shape, 20, seed)).collect();
    let one = run.run(&networks, &batches[..1])?;
    equal("target after 1", one.target == networks.target, true)?;
    let two = run.run(&networks, &batches[..2])?;
    equal("target after 2", two.target == two.parameters, true)?;
    let three = run.run(&networks, &batches[..3])?;
    equal("target after 3", three.target == two.parameters, true)?;
    let four = run.run(&networks, &batches)?;
    equal("target after 4", four.target == four.parameters, true)
}

fn learning_rate(driver: &Driver) -> Result<(), String> {
    let shape = NetworkShape::new(3, 2, &[8], 4).unwrap();
    let settings = Settings {
        learning_rate: 1.0,
        final_rate: 0.5,
        warmup_steps: 2,
        decay_steps: 4,
        ..Settings::default()
    };
    let run = Run {
        settings,
        ..plain(driver, &shape, &[8], 4)
    };
    let networks = Networks::of(&shape, 4);
    let batches: Vec<Batch> = (0..8).map(|seed| Batch::random(&shape, 4, seed)).collect();
    let outcome = run.run(&networks, &batches)?;
    let rates: Vec<f32> = outcome
        .steps
        .iter()
        .map(|step| step.learning_rate)
        .collect();
    equal(
        "rates",
        rates,
        vec![0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.5, 0.5],
    )
}

fn nan_is_skipped(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let run = plain(driver, &shape, &HIDDEN, 12);
    let networks = Networks::of(&shape, 5);
    let good = Batch::random(&shape, 20, 1);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut spoiled = good.clone();
        spoiled.rewards[3] = bad;
        let outcome = run.run(&networks, &[spoiled.clone(), spoiled, good.clone()])?;
        equal("counts", outcome.steps[1].counts, [2, 0, 2, 2])?;
        equal("then", outcome.steps[2].counts, [3, 1, 2, 0])?;
        let alone = run.run(&networks, std::slice::from_ref(&good))?;
        equal(
            "parameters are those without the bad steps",
            outcome.parameters == alone.parameters,
            true,
        )?;
        equal("target likewise", outcome.target == alone.target, true)?;
    }
    Ok(())
}

fn not_drawn(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let run = Run {
        status: 1,
        ..plain(driver, &shape, &HIDDEN, 12)
    };
    let networks = Networks::of(&shape, 5);
    let outcome = run.run(&networks, &[Batch::random(&shape, 20, 1)])?;
    equal("counts", outcome.steps[0].counts, [1, 0, 0, 0])?;
    equal(
        "td errors",
        outcome.steps[0].td.iter().all(|td| *td == 0.0),
        true,
    )?;
    equal("parameters", outcome.parameters == networks.online, true)
}

fn single_dqn(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let settings = Settings {
        double_dqn: 0,
        ..Settings::default()
    };
    check_one(
        &Run {
            settings,
            ..plain(driver, &shape, &HIDDEN, 12)
        },
        70,
        F32,
    )
}

fn orders(driver: &Driver) -> Result<(), String> {
    let shape = shape();
    let networks = Networks::of(&shape, 6);
    let batches = [Batch::random(&shape, 70, 1), Batch::random(&shape, 70, 2)];
    let expected = plain(driver, &shape, &HIDDEN, 12).run(&networks, &batches)?;
    for order in ["reverse", "shuffled:7", "shuffled:8"] {
        let run = Run {
            order: Some(order),
            ..plain(driver, &shape, &HIDDEN, 12)
        };
        equal(
            order,
            run.run(&networks, &batches)?.bytes == expected.bytes,
            true,
        )?;
    }
    Ok(())
}
