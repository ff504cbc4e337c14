//! Fuzzing with a time limit, on any toolchain.
//!
//! ```sh
//! FUZZ_SECONDS=3600 cargo test --release -p codemod --test engine fuzz -- --ignored --nocapture
//! ```
//!
//! Two oracles take turns. [`holds`] is asked of any mutant: it is the one of the property tests. The compiler is asked of
//! mutants that it took before: what is migrated without a site left must compile against the new surface, with no warning
//! that was not there. Findings are shrunk and written to a folder each; those that are alike are kept three times.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{TestCaseError, TestError};

use crate::fixtures::{SINGLE, all, manifest};
use crate::mutants::{gentle, mutation};
use crate::properties::{CORPUS, holds, mutant, runner, shown};
use crate::support::{Files, in_parallel, read_folder, run, unresolved, write_folder};
use crate::type_check::{self, Family, Surface, Unit, Verdict};

/// Mutants of one round: how many keep the promises is asked one by one, the compiler looks at many at once.
const N_PROMISES: u32 = 128;
const N_COMPILED: usize = 48;
/// Findings that look the same.
const N_ALIKE: usize = 3;

/// The first line without numbers, file names and what is quoted.
fn signature(fault: &str) -> String {
    let line = fault.lines().next().unwrap_or_default();
    let words: String = line.split('`').step_by(2).collect();
    let words = words
        .split_whitespace()
        .filter(|word| !word.contains(".rs"));
    let text = words.collect::<Vec<_>>().join(" ");
    let cut = text.find("parse: ").map_or(text.len(), |at| at + 5);
    text[..cut]
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .collect()
}

struct Findings {
    folder: PathBuf,
    alike: BTreeMap<String, usize>,
}

impl Findings {
    /// There are enough of these: what shrinking costs is spent on others.
    fn knows(&self, fault: &str) -> bool {
        self.alike
            .get(&signature(fault))
            .is_some_and(|n| *n >= N_ALIKE)
    }

    fn add(&mut self, fault: &str, files: &Files) {
        let signature = signature(fault);
        let n = self.alike.entry(signature.clone()).or_default();
        *n += 1;
        if *n > N_ALIKE {
            return;
        }
        let total = self.alike.values().sum::<usize>();
        let folder = self.folder.join(format!("{total:04}"));
        write_folder(&folder.join("before"), files);
        fs::write(folder.join("fault.txt"), fault).expect("writable");
        println!("{}: {}", folder.display(), signature.trim());
    }
}

/// Trees and sources of folders that are named in `FUZZ_CORPUS`, with `:` between them.
fn further() -> Vec<Files> {
    fn find(folder: &Path, out: &mut Vec<Files>) {
        if folder.join("Cargo.toml").is_file() {
            out.push(read_folder(folder));
            return;
        }
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                find(&path, out);
            } else if path.file_name().is_some_and(|name| name == "before.rs")
                && let Ok(source) = fs::read(&path)
            {
                out.push(Files::from([
                    ("Cargo.toml".into(), manifest(&source, "2024", false)),
                    (SINGLE.into(), source),
                ]));
            }
        }
    }
    let mut out = Vec::new();
    for folder in std::env::var("FUZZ_CORPUS")
        .unwrap_or_default()
        .split(':')
        .filter(|path| !path.is_empty())
    {
        find(Path::new(folder), &mut out);
    }
    // What takes a second each time finds little in an hour.
    out.retain(|files| files.len() < 40 && files.values().map(Vec::len).sum::<usize>() < 200_000);
    out
}

#[test]
#[ignore = "runs for FUZZ_SECONDS"]
fn fuzz() {
    let asked = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let limit = Duration::from_secs(asked("FUZZ_SECONDS").unwrap_or(60));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut seed = asked("FUZZ_SEED").unwrap_or(now);
    let folder = std::env::var_os("FUZZ_FINDINGS").map_or_else(
        || {
            Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join("fuzz")
                .join(seed.to_string())
        },
        PathBuf::from,
    );
    let mut findings = Findings {
        folder,
        alike: BTreeMap::new(),
    };
    let corpus: Vec<Files> = CORPUS.iter().cloned().chain(further()).collect();
    let compiling: Vec<Files> = all()
        .into_iter()
        .filter(|case| {
            case.single
                && case.expect.compiles
                && !case.expect.new_before
                && case.expect.fixme.is_none()
                && case.expect.edition == "2024"
        })
        .map(|case| case.before)
        .collect();
    println!("{} trees, seed {seed}", corpus.len());
    let (mut n_mutants, mut n_compiled) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < limit {
        n_mutants += promises(&corpus, seed, &mut findings);
        n_compiled += compiled(&compiling, seed, &mut findings);
        seed += 1;
    }
    let mut told = String::new();
    for (signature, n) in &findings.alike {
        let _ = writeln!(told, "{n} x {signature}");
    }
    println!(
        "{n_mutants} mutants, {n_compiled} of them compiled before and after, {:?}",
        started.elapsed()
    );
    assert!(
        findings.alike.is_empty(),
        "findings in {}:\n{told}",
        findings.folder.display()
    );
}

fn promises(corpus: &[Files], seed: u64, findings: &mut Findings) -> usize {
    let mut runner = runner(seed, N_PROMISES);
    let n = std::cell::Cell::new(0);
    let outcome = runner.run(&mutant(mutation(), 4), |mutant| {
        n.set(n.get() + 1);
        match holds(&mutant.files(corpus)) {
            Err(fault) if !findings.knows(&fault) => Err(TestCaseError::fail(fault)),
            _ => Ok(()),
        }
    });
    if let Err(TestError::Fail(fault, mutant)) = outcome {
        let files = mutant.files(corpus);
        findings.add(&format!("{}\n{}", fault.message(), shown(&files)), &files);
    }
    n.get()
}

/// How many mutants compiled before, and were migrated without a site left.
fn compiled(corpus: &[Files], seed: u64, findings: &mut Findings) -> usize {
    let mut runner = runner(seed, 1);
    let strategy = mutant(gentle(), 3);
    let mut trees: Vec<_> = (0..N_COMPILED)
        .map(|_| strategy.new_tree(&mut runner).expect("nothing is rejected"))
        .collect();
    let sources: Vec<Files> = trees
        .iter()
        .map(|tree| tree.current().files(corpus))
        .collect();
    let (n, faults) = compile_faults(&sources);
    for (at, fault) in faults
        .into_iter()
        .filter(|(_, fault)| !findings.knows(fault))
        .collect::<Vec<_>>()
    {
        // The smallest that still has the fault, by as many questions as take half a minute.
        let (mut files, mut fault) = (sources[at].clone(), fault);
        let tree = &mut trees[at];
        let mut more = tree.simplify();
        for _ in 0..40 {
            if !more {
                break;
            }
            let simpler = tree.current().files(corpus);
            let found = compile_faults(std::slice::from_ref(&simpler)).1;
            more = match found.into_iter().next() {
                Some((_, still)) => {
                    (files, fault) = (simpler, still);
                    tree.simplify()
                }
                None => tree.complicate(),
            };
        }
        findings.add(&fault, &files);
    }
    n
}

/// How many could be compared, and what is worse after the migration.
fn compile_faults(sources: &[Files]) -> (usize, Vec<(usize, String)>) {
    let unit = |at: usize, files: &Files| Unit {
        name: format!("m{at}"),
        source: files[SINGLE].clone(),
    };
    let good = |surface: Surface, mut units: Vec<Unit>| -> BTreeMap<String, Verdict> {
        // One that does not parse hides the others.
        units.retain(|unit| syn::parse_file(&String::from_utf8_lossy(&unit.source)).is_ok());
        // Errors of one stage of the compiler hide those of the next, and all lints.
        let mut out: BTreeMap<String, Verdict> = BTreeMap::new();
        while !units.is_empty() {
            let verdicts = type_check::check(&units, Family::Replay, surface, "2024", &[]);
            let is_clean = verdicts.values().all(|verdict| verdict.errors.is_empty());
            let n = units.len();
            units.retain(|unit| {
                let verdict = &verdicts[&unit.name];
                if !verdict.errors.is_empty() || is_clean {
                    out.insert(unit.name.clone(), verdict.clone());
                }
                verdict.errors.is_empty()
            });
            // Clean, or it cannot be told whose the error is.
            if units.len() == n {
                break;
            }
        }
        out
    };
    let before = good(
        Surface::Old,
        sources
            .iter()
            .enumerate()
            .map(|(at, files)| unit(at, files))
            .collect(),
    );
    let numbered: Vec<(usize, &Files)> = sources.iter().enumerate().collect();
    let after: Vec<(usize, Files)> = in_parallel(&numbered, |(at, files)| {
        let before = before.get(&format!("m{at}"))?;
        let run = run(files)
            .ok()
            .filter(|run| before.errors.is_empty() && unresolved(run).is_empty())?;
        Some((*at, run.after))
    })
    .into_iter()
    .flatten()
    .filter(|(_, files)| files.contains_key(SINGLE))
    .collect();
    let verdicts = good(
        Surface::New,
        after.iter().map(|(at, files)| unit(*at, files)).collect(),
    );
    let mut faults = Vec::new();
    for (at, files) in &after {
        let name = format!("m{at}");
        let Some(verdict) = verdicts.get(&name) else {
            continue;
        };
        let told = |what: String| {
            format!(
                "{what}\n--- before\n{}\n--- after\n{}",
                shown(&sources[*at]),
                shown(files)
            )
        };
        if let Some(error) = verdict.errors.first() {
            faults.push((*at, told(format!("after the migration: {error}"))));
            continue;
        }
        let worse = verdict
            .warnings
            .iter()
            .find(|(code, n)| **n > before[&name].warnings.get(*code).copied().unwrap_or(0));
        if let Some((code, _)) = worse {
            faults.push((
                *at,
                told(format!("a new warning after the migration: {code}")),
            ));
        }
    }
    (after.len(), faults)
}
