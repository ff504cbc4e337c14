//! Every fixture of every migration: `fixtures/<rule>/<case>/`, one idea each.
//!
//! `before.rs` and `after.rs` are the only source of a package; `before/` and `after/` are whole trees. `expect.toml` is
//! optional. What a run reports besides its edits is a snapshot, `snapshots/report@<rule>__<case>.snap`.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;

use codemod::plan::PlanError;
use codemod::rule::Migration;

use crate::support::{
    self, Files, Run, blesses, difference, in_parallel, keeps_its_promises, read_folder,
    report_lines, run_with, text,
};
use crate::type_check::{self, Family, Surface, Unit};

/// The fixtures of one migration.
#[derive(Debug)]
pub struct Suite {
    id: &'static str,
    migrations: &'static LazyLock<Vec<Migration>>,
    /// A runner that finds nothing passes as well; this one does not.
    least_cases: usize,
    /// The only manifest of a single file's package, before and after.
    manifest: fn(source: &[u8], edition: &str, after: bool) -> Vec<u8>,
    /// What single files are type-checked against.
    family: Family,
}

pub static GPU: Suite = Suite {
    id: support::MIGRATION,
    migrations: &support::GPU_REPLAY,
    least_cases: 155,
    manifest,
    family: Family::Replay,
};

pub static UPGRADE: Suite = Suite {
    id: support::UPGRADE,
    migrations: &support::RAND,
    least_cases: 30,
    manifest: manifest_of_upgrade,
    family: Family::Rand,
};

#[derive(Debug, Clone)]
pub struct Case {
    pub suite: &'static Suite,
    /// `<rule>/<case>`, with the migration in front where that is not the default one.
    pub name: String,
    pub folder: PathBuf,
    /// Its input is a single file.
    pub single: bool,
    pub before: Files,
    pub expect: Expect,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    pub edition: String,
    /// Type-checked before and after; never where sites are left or the input is a tree.
    pub compiles: bool,
    /// Input is written against the new surface already.
    pub new_before: bool,
    /// What is wrong about what comes out today; a plan, warnings and promises are not asked for then.
    pub fixme: Option<String>,
    /// Further sets of `cfg`s under which it compiles, besides none.
    pub cfg: Vec<Vec<String>>,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            edition: "2024".into(),
            compiles: true,
            new_before: false,
            fixme: None,
            cfg: Vec::new(),
        }
    }
}

impl Case {
    fn read(suite: &'static Suite, rule: &str, folder: PathBuf) -> Self {
        let home = if suite.id == support::MIGRATION {
            String::new()
        } else {
            format!("{}/", suite.id)
        };
        let name = format!(
            "{home}{rule}/{}",
            folder.file_name().expect("named").to_str().expect("UTF-8")
        );
        let expect = fs::read_to_string(folder.join("expect.toml")).map_or_else(
            |_| Expect::default(),
            |text| toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")),
        );
        let single = folder.join("before.rs").exists();
        let before = if single {
            let source = fs::read(folder.join("before.rs")).expect("readable");
            Files::from([
                (
                    "Cargo.toml".into(),
                    (suite.manifest)(&source, &expect.edition, expect.new_before),
                ),
                (SINGLE.into(), source),
            ])
        } else {
            let files = read_folder(&folder.join("before"));
            assert!(
                !files.is_empty(),
                "{name}: there is neither `before.rs` nor `before/`"
            );
            files
        };
        Self {
            suite,
            name,
            folder,
            single,
            before,
            expect,
        }
    }

    /// `None` where there is none.
    pub fn after(&self) -> Option<Files> {
        if self.single {
            let source = fs::read(self.folder.join("after.rs")).ok()?;
            let mut files = self.before.clone();
            let before = &self.before[SINGLE];
            let manifest = (self.suite.manifest)(before, &self.expect.edition, true);
            files.insert("Cargo.toml".into(), manifest);
            files.insert(SINGLE.into(), source);
            Some(files)
        } else {
            self.folder
                .join("after")
                .is_dir()
                .then(|| read_folder(&self.folder.join("after")))
        }
    }

    fn bless(&self, run: &Run) {
        if self.single {
            fs::write(self.folder.join("after.rs"), &run.after[SINGLE]).expect("writable");
        } else {
            let after = self.folder.join("after");
            if after.exists() {
                fs::remove_dir_all(&after).expect("writable");
            }
            support::write_folder(&after, &run.after);
        }
    }

    /// As an identifier.
    fn slug(&self) -> String {
        self.name.replace('/', "__").replace(['-', '.'], "_")
    }

    fn run(&self) -> Result<Run, PlanError> {
        run_with(&self.before, self.suite.migrations)
    }
}

pub const SINGLE: &str = "src/lib.rs";

pub fn manifest(source: &[u8], edition: &str, _after: bool) -> Vec<u8> {
    let ml_cuda = if text(source).contains("ml_cuda") {
        "ml-cuda = \"0.1\"\n"
    } else {
        ""
    };
    format!("[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"{edition}\"\n\n[dependencies]\ncudarc = \"0.19\"\nml-dqn = \"0.1\"\n{ml_cuda}").into_bytes()
}

/// The crates of the family that the source names, and `rand` itself.
fn manifest_of_upgrade(source: &[u8], edition: &str, after: bool) -> Vec<u8> {
    let source = text(source);
    let family = [
        ("rand", "0.8", "0.9"),
        ("rand_core", "0.6", "0.9"),
        ("rand_distr", "0.4", "0.5"),
        ("rand_chacha", "0.3", "0.9"),
        ("quickcheck", "1", "1"),
    ];
    let mut out = format!(
        "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"{edition}\"\n\n[dependencies]\n"
    );
    for (name, old, new) in family {
        if name == "rand" || source.contains(name) {
            let version = if after { new } else { old };
            out += &format!("{name} = \"{version}\"\n");
        }
    }
    out.into_bytes()
}

/// Those of the migration that runs by default, sorted by name.
pub fn all() -> Vec<Case> {
    of_suite(&GPU)
}

fn of_suite(suite: &'static Suite) -> Vec<Case> {
    let mut cases = Vec::new();
    let folders = |folder: PathBuf| {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        entries
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.is_dir())
            .collect::<Vec<_>>()
    };
    for rule in folders(support::folder_of(suite.id).join("fixtures")) {
        let name = rule
            .file_name()
            .expect("named")
            .to_str()
            .expect("UTF-8")
            .to_owned();
        cases.extend(
            folders(rule)
                .into_iter()
                .map(|folder| Case::read(suite, &name, folder)),
        );
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(
        cases.len() >= suite.least_cases,
        "{}: {} cases, of {}",
        suite.id,
        cases.len(),
        suite.least_cases
    );
    cases
}

/// `CASE=name` runs those alone whose name has it.
fn chosen() -> Vec<Case> {
    let only = std::env::var("CASE").unwrap_or_default();
    [&GPU, &UPGRADE]
        .into_iter()
        .flat_map(of_suite)
        .filter(|case| case.name.contains(&only))
        .collect()
}

#[test]
fn every_fixture_comes_out_as_written() {
    let cases = chosen();
    let faults: Vec<String> = in_parallel(&cases, |case| {
        fault(case).map(|fault| format!("--- {}\n{fault}", case.name))
    })
    .into_iter()
    .flatten()
    .collect();
    assert!(
        faults.is_empty(),
        "{} of {} fixtures\n\n{}",
        faults.len(),
        cases.len(),
        faults.join("\n\n")
    );
}

fn fault(case: &Case) -> Option<String> {
    let is_known = case.expect.fixme.is_some();
    let run = match case.run() {
        Ok(run) => run,
        Err(error) => return (!is_known).then(|| format!("no plan: {error}")),
    };
    if blesses() {
        case.bless(&run);
    }
    let mut faults: Vec<String> = keeps_its_promises(&run, case.suite.migrations)
        .err()
        .filter(|_| !is_known)
        .into_iter()
        .collect();
    match case.after() {
        None => faults.push("there is no `after`; `BLESS=1` writes it".into()),
        Some(after) => faults.extend(unlike(&after, &run.after)),
    }
    (!faults.is_empty()).then(|| faults.join("\n"))
}

/// What two trees differ in, file by file.
pub fn unlike(expected: &Files, found: &Files) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, bytes) in expected {
        match found.get(path) {
            None => faults.push(format!("{path} is gone")),
            Some(now) if now != bytes => {
                faults.push(format!("{path}:\n{}", difference(bytes, now)))
            }
            Some(_) => {}
        }
    }
    faults.extend(
        found
            .keys()
            .filter(|path| !expected.contains_key(*path))
            .map(|path| format!("{path} should be gone")),
    );
    faults
}

#[test]
fn every_report_is_as_written() {
    let mut n_missing = Vec::new();
    for case in chosen() {
        let run = match case.run() {
            Ok(run) => run,
            Err(_) if case.expect.fixme.is_some() => continue,
            Err(error) => panic!("{}: {error}", case.name),
        };
        let report = report_lines(&run);
        if report.is_empty() {
            let stale = migration_snapshot(&case);
            assert!(
                !stale.exists(),
                "{}: nothing is reported any more, but {} is there",
                case.name,
                stale.display()
            );
            continue;
        }
        // All of them are compared before the test fails.
        if std::panic::catch_unwind(|| support::snapshot("report", &case.slug(), &report)).is_err()
        {
            n_missing.push(case.name);
        }
    }
    assert!(n_missing.is_empty(), "reports of {n_missing:#?}");
}

fn migration_snapshot(case: &Case) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/engine/snapshots")
        .join(format!("report@{}.snap", case.slug()))
}

/// A file that was type-checked before the migration is so after it, with no warning that was not there.
#[test]
fn every_fixture_compiles() {
    let cases: Vec<Case> = chosen()
        .into_iter()
        .filter(|case| case.single && case.expect.compiles)
        .collect();
    let mut sets: Vec<(&'static str, String, Vec<String>)> = cases
        .iter()
        .flat_map(|case| {
            case.expect
                .cfg
                .iter()
                .cloned()
                .chain([Vec::new()])
                .map(|cfg| (case.suite.id, case.expect.edition.clone(), cfg))
        })
        .collect();
    sets.sort();
    sets.dedup();
    let faults: Vec<String> = sets
        .iter()
        .flat_map(|(suite, edition, cfgs)| {
            let of_suite: Vec<Case> = cases
                .iter()
                .filter(|case| case.suite.id == *suite)
                .cloned()
                .collect();
            compile_faults(&of_suite, edition, cfgs)
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn compile_faults(cases: &[Case], edition: &str, cfgs: &[String]) -> Vec<String> {
    let concerned: Vec<&Case> = cases
        .iter()
        .filter(|case| {
            case.expect.edition == edition
                && (cfgs.is_empty() || case.expect.cfg.iter().any(|set| set == cfgs))
        })
        .collect();
    let Some(family) = concerned.first().map(|case| case.suite.family) else {
        return Vec::new();
    };
    let unit = |case: &Case, files: &Files| Unit {
        name: case.slug(),
        source: files[SINGLE].clone(),
    };
    let (new, old): (Vec<&&Case>, Vec<&&Case>) =
        concerned.iter().partition(|case| case.expect.new_before);
    let mut before = type_check::check(
        &old.iter()
            .map(|case| unit(case, &case.before))
            .collect::<Vec<_>>(),
        family,
        Surface::Old,
        edition,
        cfgs,
    );
    before.extend(type_check::check(
        &new.iter()
            .map(|case| unit(case, &case.before))
            .collect::<Vec<_>>(),
        family,
        Surface::New,
        edition,
        cfgs,
    ));
    let runs: Vec<(&Case, Run)> = in_parallel(&concerned, |case| Some((*case, case.run().ok()?)))
        .into_iter()
        .flatten()
        .collect();
    let done: Vec<Unit> = runs
        .iter()
        .filter(|(_, run)| support::unresolved(run).is_empty())
        .map(|(case, run)| unit(case, &run.after))
        .collect();
    let after = type_check::check(&done, family, Surface::New, edition, cfgs);
    let mut faults = Vec::new();
    for (name, verdict) in &before {
        faults.extend(
            verdict
                .errors
                .iter()
                .map(|error| format!("{name} before, {cfgs:?}: {error}")),
        );
    }
    for (name, verdict) in &after {
        faults.extend(
            verdict
                .errors
                .iter()
                .map(|error| format!("{name} after, {cfgs:?}: {error}")),
        );
        let is_known = concerned
            .iter()
            .any(|case| case.slug() == *name && case.expect.fixme.is_some());
        let n_before = |code: &String| before.get(name)?.warnings.get(code).copied();
        for (code, n) in &verdict.warnings {
            if *n > n_before(code).unwrap_or(0) && !is_known {
                faults.push(format!("{name} after, {cfgs:?}: a new warning, `{code}`"));
            }
        }
    }
    faults
}
