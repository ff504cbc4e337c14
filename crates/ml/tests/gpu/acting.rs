//! Acting by the network that is trained.

use std::sync::Arc;

use ml::oracle::Oracle;
use ml_cuda::Precision;
use ml_dqn::dqn::EpsilonSchedule;

use crate::problem::{Random, close};
use crate::setup::{Setup, small_options};
use crate::{Outcome, Test, check};

pub const TESTS: &[Test] = &[
    (
        "q_values_are_the_oracles_before_and_after_training",
        q_values,
    ),
    ("greedy_actions_are_the_best", greedy),
];

fn q_values() -> Outcome {
    for (precision, tolerance) in [
        (Precision::Fp32, 1e-5),
        (Precision::Tf32, 2e-3),
        (Precision::Bf16, 2e-2),
    ] {
        let mut setup = Setup::new(11, 6, 64, 200)?;
        let mut options = small_options();
        options.precision = precision;
        let mut step = setup.step(&options)?;
        setup.agent.set_network(Arc::new(step.policy()?));
        let shape = setup.shape(&options)?;
        let mut random = Random(5);
        // More rows than at first: planned anew.
        for rows in [1, 3, 100] {
            step.run_full_step(&setup.agent, &setup.sample()?)?;
            let states: Vec<f32> = (0..rows * 11).map(|_| random.signed()).collect();
            let got = setup.agent.q_values(&states)?;
            let oracle = Oracle::new(&shape, &step.parameters()?);
            let expected: Vec<f64> = states
                .chunks_exact(11)
                .flat_map(|state| {
                    let state: Vec<f64> = state.iter().map(|value| f64::from(*value)).collect();
                    oracle.q_values(&state)
                })
                .collect();
            close(
                &format!("{rows} rows, {precision:?}"),
                &got,
                &expected,
                tolerance,
            )?;
            let device = setup.stream.clone_htod(&states)?;
            check(setup.agent.q_values(&device)? == got, || {
                "device states give other values".into()
            })?;
        }
    }
    Ok(())
}

fn greedy() -> Outcome {
    let mut setup = Setup::new(11, 6, 64, 200)?;
    let step = setup.step(&small_options())?;
    setup.agent.set_network(Arc::new(step.policy()?));
    setup
        .agent
        .set_exploration(EpsilonSchedule::constant(0.0), 3);
    let mut random = Random(6);
    let states: Vec<f32> = (0..50 * 11).map(|_| random.signed()).collect();
    let values = setup.agent.q_values(&states)?;
    let actions = setup.agent.select_actions(&states)?;
    for (action, values) in actions.iter().zip(values.chunks_exact(6)) {
        let best = values
            .iter()
            .all(|value| *value <= values[*action as usize]);
        check(best, || format!("{action} of {values:?}"))?;
    }
    Ok(())
}
