//! A checkpoint in Python: `python/load_checkpoint.py` computes the Q values that the GPU did.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::Trial;
use ml_cuda::Precision;
use safetensors::tensor::{Dtype, TensorView, serialize};

use crate::problem::Random;
use crate::setup::{Setup, small_options};
use crate::{Outcome, check};

const SCRIPT: &str = include_str!("../../python/load_checkpoint.py");

/// The test, ignored where the GPU is missing or Python has no `safetensors` and `numpy`.
/// `FOXHUNT_REQUIRE_PYTHON=1` makes the latter a failure.
pub fn trial(missing_gpu: Option<String>, gpu_required: bool) -> Trial {
    let found = Command::new("python3")
        .args(["-c", "import numpy, safetensors"])
        .output();
    let without_python = !found.is_ok_and(|output| output.status.success());
    let required = std::env::var_os("FOXHUNT_REQUIRE_PYTHON").is_some_and(|value| value == "1");
    let kind = match (&missing_gpu, without_python) {
        (Some(_), _) if !gpu_required => "ignored: no CUDA device",
        (None, true) if !required => "ignored: no python3 with safetensors and numpy",
        _ => "",
    };
    let run = move || match missing_gpu {
        Some(reason) => Err(reason.into()),
        None => same_q_values(),
    };
    Trial::test("python_computes_the_same_q_values", run)
        .with_ignored_flag(!kind.is_empty())
        .with_kind(kind)
}

fn same_q_values() -> Outcome {
    let folder = tempfile::tempdir()?;
    let checkpoint = folder.path().join("step.safetensors");
    let examples = folder.path().join("examples.safetensors");
    let script = folder.path().join("load_checkpoint.py");
    std::fs::write(&script, SCRIPT)?;

    let mut setup = Setup::new(11, 6, 64, 200)?;
    let mut options = small_options();
    options.precision = Precision::Fp32;
    let mut step = setup.step(&options)?;
    setup.agent.set_network(Arc::new(step.policy()?));
    for _ in 0..5 {
        step.run_full_step(&setup.agent, &setup.sample()?)?;
    }
    step.save(&checkpoint)?;
    let mut random = Random(8);
    let states: Vec<f32> = (0..50 * 11).map(|_| random.signed()).collect();
    let mut values = setup.agent.q_values(&states)?;
    write(&examples, &states, 11, &values, 6)?;
    let run = || {
        Command::new("python3")
            .args([&script, &checkpoint, &examples])
            .args(["--tolerance", "1e-5"])
            .output()
    };
    let output = run()?;
    check(output.status.success(), || {
        let (out, err) = (&output.stdout, &output.stderr);
        format!(
            "{}{}",
            String::from_utf8_lossy(out),
            String::from_utf8_lossy(err)
        )
    })?;
    // And it would tell.
    values[17] += 0.01;
    write(&examples, &states, 11, &values, 6)?;
    let output = run()?;
    check(output.status.code() == Some(1), || {
        format!("a wrong value was not told: {output:?}")
    })
}

fn write(
    path: &Path,
    states: &[f32],
    state_dim: usize,
    values: &[f32],
    num_actions: usize,
) -> Outcome {
    let bytes = |values: &[f32]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let (state_bytes, value_bytes) = (bytes(states), bytes(values));
    let rows = states.len() / state_dim;
    let tensors = HashMap::from([
        (
            "states",
            TensorView::new(Dtype::F32, vec![rows, state_dim], &state_bytes)?,
        ),
        (
            "q_values",
            TensorView::new(Dtype::F32, vec![rows, num_actions], &value_bytes)?,
        ),
    ]);
    std::fs::write(path, serialize(tensors, None)?)?;
    Ok(())
}
