//! The training step on a GPU.
//!
//! Where there is none the tests show as ignored. `FOXHUNT_REQUIRE_GPU=1` makes that a failure.

mod acting;
mod against_oracle;
mod behaviour;
mod by_hand;
mod learning;
#[path = "../shared/problem.rs"]
mod problem;
mod profile;
mod python;
mod setup;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // Times are measured, and tests at once would measure one another.
    arguments.test_threads.get_or_insert(1);
    let required = std::env::var_os("FOXHUNT_REQUIRE_GPU").is_some_and(|value| value == "1");
    let missing = ml_cuda::open(0).err().map(|error| error.to_string());
    let tests = [
        against_oracle::TESTS,
        behaviour::TESTS,
        by_hand::TESTS,
        acting::TESTS,
        learning::TESTS,
        profile::TESTS,
    ];
    let mut trials: Vec<_> = tests
        .into_iter()
        .flatten()
        .map(|(name, test)| {
            let missing = missing.clone();
            let ignored = missing.is_some() && !required;
            let run = move || match missing {
                Some(reason) => Err(Failed::from(reason)),
                None => test(),
            };
            let trial = Trial::test(*name, run).with_ignored_flag(ignored);
            if ignored {
                trial.with_kind("ignored: no CUDA device")
            } else {
                trial
            }
        })
        .collect();
    trials.push(python::trial(missing.clone(), required));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test and its name.
type Test = (&'static str, fn() -> Outcome);

type Outcome = Result<(), Failed>;

/// Fails with a message.
fn check(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}
