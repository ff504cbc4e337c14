//! What holds for any input.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use codemod::stage::{commit, disk};

use crate::fixtures::all;
use crate::mutants::{Mutation, mutate, mutation};
use crate::support::{Files, GPU_REPLAY, keeps_its_promises, read_folder, run, write_folder};

/// Inputs of fixtures, but for those that come out wrong as they stand.
pub static CORPUS: LazyLock<Vec<Files>> = LazyLock::new(|| {
    all()
        .into_iter()
        .filter(|case| case.expect.fixme.is_none())
        .map(|case| case.before)
        .collect()
});

/// An input: a tree of the corpus, and what is done to which of its files.
#[derive(Debug, Clone)]
pub struct Mutant {
    which: prop::sample::Index,
    mutations: Vec<(prop::sample::Index, Mutation)>,
}

impl Mutant {
    pub fn files(&self, corpus: &[Files]) -> Files {
        let mut files = self.which.get(corpus).clone();
        let others: Vec<&[u8]> = corpus
            .iter()
            .flat_map(|files| files.iter().filter(|(path, _)| path.ends_with(".rs")))
            .map(|(_, bytes)| bytes.as_slice())
            .collect();
        // Manifests are hit seldom: what is below a broken one is nobody's.
        let rust: Vec<String> = files
            .keys()
            .filter(|path| path.ends_with(".rs"))
            .cloned()
            .collect();
        let any: Vec<String> = files.keys().cloned().collect();
        for (at, (file, mutation)) in self.mutations.iter().enumerate() {
            let paths = if rust.is_empty()
                || (at == 2
                    && matches!(mutation, Mutation::DeleteLine(_) | Mutation::InsertByte(..)))
            {
                &any
            } else {
                &rust
            };
            if let Some(bytes) = files.get_mut(file.get(paths)) {
                *bytes = mutate(bytes, mutation, &others);
            }
        }
        files
    }
}

pub fn mutant(
    mutation: impl Strategy<Value = Mutation>,
    most: usize,
) -> impl Strategy<Value = Mutant> {
    let mutations = prop::collection::vec((any::<prop::sample::Index>(), mutation), 1..=most);
    (any::<prop::sample::Index>(), mutations)
        .prop_map(|(which, mutations)| Mutant { which, mutations })
}

pub fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Bytes outside of edits are as before, what parsed parses, a second run is idle and says the same; nothing panics.
pub fn holds(files: &Files) -> Result<(), String> {
    // A panic of the planner is an error of its own kind, and a result that does not parse another.
    let run = run(files).map_err(|error| error.to_string())?;
    keeps_its_promises(&run, &GPU_REPLAY)
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
}

/// The same cases each time; `PROPTEST_CASES` asks for more of them, `MUTANT_SEED` for others.
#[test]
fn any_mutant_keeps_the_promises() {
    let mut runner = runner(
        asked("MUTANT_SEED").unwrap_or(7),
        asked("PROPTEST_CASES").unwrap_or(64) as u32,
    );
    let outcome = runner.run(&mutant(mutation(), 3), |mutant| {
        let files = mutant.files(&CORPUS);
        holds(&files).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(fault, mutant)) => {
            panic!("{fault}\n--- input\n{}", shown(&mutant.files(&CORPUS)))
        }
        Err(error) => panic!("{error}"),
    }
}

/// Files of a tree as one text.
pub fn shown(files: &Files) -> String {
    let mut out = String::new();
    for (path, bytes) in files {
        out += &format!("--- {path}\n{}\n", String::from_utf8_lossy(bytes));
    }
    out
}

/// Whatever operation fails, the tree is as it was; if none does, it is as planned.
#[test]
fn any_plan_is_carried_out_whole_or_not_at_all() {
    let mut runner = runner(
        asked("MUTANT_SEED").unwrap_or(7),
        asked("PROPTEST_CASES").unwrap_or(12) as u32,
    );
    let strategy = (mutant(mutation(), 2), any::<prop::sample::Index>());
    let mut n_written = 0;
    for _ in 0..runner.config().cases {
        let (mutant, at) = strategy
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        let files = mutant.files(&CORPUS);
        let Ok(planned) = run(&files) else { continue };
        let written = |disk: Option<&dyn disk::Disk>| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            write_folder(folder.path(), &files);
            let outcome = match disk {
                Some(disk) => codemod::stage::commit_on(disk, folder.path(), &planned.plan.changes),
                None => commit(folder.path(), &planned.plan.changes),
            };
            (
                outcome.map(|_| ()).map_err(|error| error.to_string()),
                read_folder(folder.path()),
            )
        };
        let (outcome, after) = written(None);
        assert_eq!(outcome, Ok(()), "{}", shown(&files));
        assert!(after == planned.after, "{}", shown(&files));
        if planned.plan.changes.is_empty() {
            continue;
        }
        n_written += 1;
        let counting = disk::FaultyDisk::new(disk::Fault::Once, usize::MAX);
        written(Some(&counting)).0.expect("nothing fails");
        let faulty = disk::FaultyDisk::new(disk::Fault::Once, at.index(counting.calls()));
        let (outcome, after) = written(Some(&faulty));
        assert!(
            if outcome.is_ok() {
                after == planned.after
            } else {
                after == files
            },
            "{outcome:?} after operation {} of {}\n{}",
            faulty.calls(),
            counting.calls(),
            shown(&files)
        );
    }
    assert!(n_written > 0, "no mutant had anything to write");
}
