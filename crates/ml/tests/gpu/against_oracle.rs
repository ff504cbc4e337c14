//! Loss, TD errors, gradients and updates against the f64 oracle, in each precision.

use ml::oracle::{HostAdam, Oracle};
use ml::trainers::dqn::fused_training::{StepOptions, TargetUpdate};
use ml::trainers::dqn::options::LearningRate;
use ml_cuda::Precision;

use crate::problem::{Settle, close};
use crate::setup::{GAMMA, Setup, on_host, small_options};
use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[
    ("fp32_step_is_the_oracles", || small(FP32)),
    ("tf32_step_is_the_oracles", || small(TF32)),
    ("bf16_step_is_the_oracles", || small(BF16)),
    ("the_reference_network_is_the_oracles", reference),
    ("the_fused_passes_are_those_of_the_products", fused),
    ("ten_updates_are_the_oracles", updates),
];

/// A precision; its tolerance; and the one of a gradient where units are near the border of their ReLU.
///
/// There a unit whose sum rounds to the other side of zero gains or loses its whole gradient. A share of
/// 1 in 10,000 of such units is an error of 1 % of the norm, however exact the products are. So the
/// plain tolerance is asked of a network whose units all keep away from the border.
type Bounds = (Precision, f64, f64);
const FP32: Bounds = (Precision::Fp32, 1e-5, 1e-5);
const TF32: Bounds = (Precision::Tf32, 2e-3, 3e-2);
const BF16: Bounds = (Precision::Bf16, 2e-2, 1e-1);

/// One step of a network with odd sizes, also on a batch shorter than the step was made for.
fn small(bounds: Bounds) -> Outcome {
    let setup = Setup::new(11, 6, 300, 1000)?;
    for rows in [300, 77] {
        one_step(&setup, small_options(), rows, bounds)?;
    }
    Ok(())
}

fn reference() -> Outcome {
    let setup = Setup::new(80, 45, 256, 1000)?;
    for bounds in [FP32, TF32, BF16] {
        one_step(&setup, StepOptions::default(), 256, bounds)?;
    }
    // The chain of products, where fused kernels were used above.
    let mut options = StepOptions::default();
    options.fused_kernels = false;
    for bounds in [TF32, BF16] {
        one_step(&setup, options.clone(), 256, bounds)?;
    }
    // A ragged last tile.
    for rows in [1, 129, 300] {
        let setup = Setup::new(80, 45, rows.max(64), 1000)?;
        for bounds in [TF32, BF16] {
            one_step(&setup, StepOptions::default(), rows.max(60), bounds)?;
        }
    }
    Ok(())
}

fn one_step(setup: &Setup, options: StepOptions, rows: usize, bounds: Bounds) -> Outcome {
    let shape = setup.shape(&options)?;
    let (_, tolerance, near_the_border) = bounds;
    // Other target parameters than online ones, as after some training.
    let [online, target] = [1, 1234].map(|seed| shape.initial_parameters(seed));
    compare(
        setup,
        &options,
        rows,
        bounds.0,
        (&online, &target),
        (tolerance, near_the_border),
    )?;
    let [online, target] = [online, target].map(|parameters| shape.settled(parameters));
    compare(
        setup,
        &options,
        rows,
        bounds.0,
        (&online, &target),
        (tolerance, tolerance),
    )
}

fn compare(
    setup: &Setup,
    options: &StepOptions,
    rows: usize,
    precision: Precision,
    (online, target): (&[f32], &[f32]),
    (tolerance, of_gradient): (f64, f64),
) -> Outcome {
    let mut options = options.clone();
    options.precision = precision;
    let mut step = setup.step(&options)?;
    step.set_parameters(online, target)?;
    let shape = setup.shape(&options)?;
    let batch = setup.agent.memory().sample(rows)?;
    let host = on_host(&batch)?.on_host(GAMMA);
    step.run_full_step(&setup.agent, &batch)?;
    let state = step.state_to_host()?;
    let oracle = Oracle::new(&shape, online);
    let expected = oracle.gradients(&Oracle::new(&shape, target), &host, 1.0, true);
    let clipped = expected
        .td_errors
        .iter()
        .filter(|td| td.abs() > 1.0)
        .count();
    check(clipped > 0 && clipped < rows, || {
        "both sides of the Huber border".into()
    })?;
    let mut td = vec![0.0; setup.config.batch_size];
    setup.stream.memcpy_dtoh(step.td_errors(), &mut td)?;
    setup.stream.synchronize()?;
    let label = |what: &str| {
        format!(
            "{what}, {precision:?}, {rows} rows of {}",
            setup.config.batch_size
        )
    };
    close(
        &label("td errors"),
        &td[..rows],
        &expected.td_errors,
        tolerance,
    )?;
    check(td[rows..].iter().all(|td| *td == 0.0), || {
        "td errors behind the batch".into()
    })?;
    close(
        &label("gradient"),
        &step.gradient()?,
        &expected.flat,
        of_gradient,
    )?;
    close(&label("loss"), &[state.loss], &[expected.loss], tolerance)?;
    close(
        &label("norm"),
        &[state.grad_norm],
        &[expected.norm()],
        of_gradient,
    )?;
    check(
        (state.attempts, state.applied, state.skipped) == (1, 1, 0),
        || format!("{state:?}"),
    )
}

/// The fused kernels against the chain of products: the same TD errors and gradients, but for the rounding.
/// 157 tiles are more than there are multiprocessors.
fn fused() -> Outcome {
    let setup = Setup::new(80, 45, 20_000, 24_000)?;
    for (precision, tolerance) in [(Precision::Bf16, 1e-2), (Precision::Tf32, 1e-3)] {
        fused_in(&setup, precision, tolerance)?;
    }
    Ok(())
}

/// Two of the same precision differ by less than either does from f64.
fn fused_in(setup: &Setup, precision: Precision, tolerance: f64) -> Outcome {
    let shape = setup.shape(&StepOptions::default())?;
    let [online, target] = [1, 1234].map(|seed| shape.settled(shape.initial_parameters(seed)));
    let batch = setup.sample()?;
    let mut outcomes = Vec::new();
    for fused in [true, false] {
        let mut options = StepOptions::default();
        options.precision = precision;
        options.fused_kernels = fused;
        let mut step = setup.step(&options)?;
        let hopper = setup.stream.context().compute_capability()? == (9, 0);
        check(step.is_fused() == (fused && hopper), || {
            "the other way was taken".into()
        })?;
        step.set_parameters(&online, &target)?;
        step.run_full_step(&setup.agent, &batch)?;
        let td = setup.stream.clone_dtoh(step.td_errors())?;
        outcomes.push((td, step.gradient()?, step.state_to_host()?));
    }
    let wide = |values: &[f32]| {
        values
            .iter()
            .map(|value| f64::from(*value))
            .collect::<Vec<_>>()
    };
    let [of_kernels, of_products] = &outcomes[..] else {
        unreachable!("two outcomes");
    };
    close(
        &format!("td errors, {precision:?}"),
        &of_kernels.0,
        &wide(&of_products.0),
        tolerance,
    )?;
    let loss = f64::from(of_products.2.loss);
    close("loss", &[of_kernels.2.loss], &[loss], tolerance)?;
    for (name, places) in shape.named_places() {
        let of = |gradient: &[f32]| places.iter().map(|at| gradient[*at]).collect::<Vec<_>>();
        close(
            &format!("gradient of {name}, {precision:?}"),
            &of(&of_kernels.1),
            &wide(&of(&of_products.1)),
            tolerance,
        )?;
    }
    Ok(())
}

/// Updates with everything on: warm-up, clipping, weight decay, Polyak.
fn updates() -> Outcome {
    let setup = Setup::new(11, 6, 200, 1000)?;
    let mut options = small_options();
    options.precision = Precision::Fp32;
    options.learning_rate = LearningRate::constant(1e-2).with_warmup(4);
    options.weight_decay = 0.1;
    options.max_grad_norm = 0.02;
    options.target = TargetUpdate::Polyak { tau: 0.2 };
    let mut step = setup.step(&options)?;
    let shape = setup.shape(&options)?;
    let mut online = Oracle::new(&shape, &step.parameters()?);
    let mut target = online.clone();
    let mut adam = HostAdam::default();
    for number in 1..=10u32 {
        let batch = setup.sample()?;
        let host = on_host(&batch)?.on_host(GAMMA);
        step.run_full_step(&setup.agent, &batch)?;
        let expected = online.gradients(&target, &host, 1.0, true);
        check(expected.norm() > 0.02, || "every step is clipped".into())?;
        let rate = f64::from(1e-2f32) * (f64::from(number) / 4.0).min(1.0);
        let decay = (rate, f64::from(0.1f32), f64::from(0.02f32));
        adam.step(
            online.parameters_mut(),
            &expected,
            decay,
            (0.9, 0.999, f64::from(1e-8f32)),
        );
        let after = online.parameters_mut().to_vec();
        for (target, online) in target.parameters_mut().iter_mut().zip(after) {
            *target += f64::from(0.2f32) * (online - *target);
        }
    }
    // Where a gradient is nearly zero Adam divides rounding by rounding; the rest follows the oracle.
    close(
        "parameters",
        &step.parameters()?,
        online.parameters_mut(),
        1e-3,
    )?;
    close(
        "target",
        &step.target_parameters()?,
        target.parameters_mut(),
        1e-3,
    )?;
    Ok(())
}
