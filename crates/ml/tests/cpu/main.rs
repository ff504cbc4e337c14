//! The step's kernels, run as C++ on the CPU under sanitizers, against the f64 oracle. Needs no GPU.

#[path = "../../../../tests/cuda_on_cpu/harness.rs"]
mod cuda_on_cpu;
mod parts;
#[path = "../shared/problem.rs"]
mod problem;
mod step;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let driver = cuda_on_cpu::Driver::build("ml_step", "crates/ml/tests/cpu/step_driver.cpp");
    let driver: Option<&'static cuda_on_cpu::Driver> = match driver {
        Ok(driver) => Some(Box::leak(Box::new(driver))),
        Err(cuda_on_cpu::BuildError::Unavailable(why)) => {
            eprintln!("ignored: {why}");
            None
        }
        Err(cuda_on_cpu::BuildError::Failed(log)) => panic!("{log}"),
    };
    let tests = step::TESTS.iter().chain(parts::TESTS);
    let trials = tests
        .map(|(name, test)| {
            let run = move || {
                let driver = driver.ok_or("no C++ compiler")?;
                test(driver).map_err(Into::into)
            };
            Trial::test(*name, run).with_ignored_flag(driver.is_none())
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test: its name, and what fails says why.
type Test = (&'static str, fn(&cuda_on_cpu::Driver) -> Result<(), String>);
