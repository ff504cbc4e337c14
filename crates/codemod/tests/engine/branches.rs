//! Whole branches of others, `tests/branches/cases/<name>/`: `before/`, `after/`, and in `expect.toml` what must hold.
//!
//! `after/` is what the migration made of it when it was last reviewed, byte for byte. The expectations are older than any
//! such result and say what a person looks for, so that a new `after/` is not taken for right as it stands.
//! `@CRATES@` in manifests stands for this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use codemod::record::RecordKind;
use regex::bytes::{NoExpand, Regex, RegexBuilder};
use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

use crate::fixtures::unlike;
use crate::support::{
    Files, GPU_REPLAY, Run, blesses, in_parallel, keeps_its_promises, read_folder, report_lines,
    repository, run, snapshot, text, write_folder,
};

const N_CASES: usize = 11;
const CRATES: &str = "@CRATES@";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// What is special about the branch.
    #[serde(rename = "about")]
    _about: String,
    /// Files that go, no others.
    #[serde(default)]
    gone: Vec<String>,
    /// Files that keep every byte.
    #[serde(default)]
    identical: Vec<String>,
    /// What the report has to mention.
    #[serde(default)]
    reported: Vec<String>,
    /// In no Rust file, but for those that are `identical`.
    #[serde(default)]
    nowhere: Vec<String>,
    /// Further arguments of `cargo check --all-targets`.
    #[serde(default)]
    cargo: Vec<String>,
    #[serde(default)]
    file: Vec<FileExpect>,
    /// Sites that are left, no others.
    #[serde(default)]
    unresolved: Vec<Site>,
    /// What a person writes there, after which it compiles.
    #[serde(default)]
    fix: Vec<Fix>,
}

/// Regular expressions are searched in the whole text, `^` and `$` at its lines.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileExpect {
    path: String,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    #[serde(default)]
    count: Vec<(String, usize)>,
    /// Each found behind the one before.
    #[serde(default)]
    order: Vec<String>,
    /// Literal.
    #[serde(default)]
    keeps: Vec<String>,
    max_added: Option<usize>,
    max_removed: Option<usize>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Site {
    file: String,
    /// Part of the source line; empty for a file as a whole.
    #[serde(default)]
    text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fix {
    file: String,
    find: String,
    replace: String,
}

struct Branch {
    name: String,
    folder: PathBuf,
    before: Files,
    expect: Expect,
}

fn all() -> Vec<Branch> {
    let cases = repository().join("tests/branches/cases");
    let only = std::env::var("CASE").unwrap_or_default();
    let mut folders: Vec<PathBuf> = fs::read_dir(cases)
        .expect("readable")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.join("before").is_dir())
        .collect();
    folders.sort();
    assert_eq!(folders.len(), N_CASES);
    let branches = folders.into_iter().map(|folder| {
        let name = folder
            .file_name()
            .expect("named")
            .to_str()
            .expect("UTF-8")
            .to_owned();
        let expect = fs::read_to_string(folder.join("expect.toml")).expect("readable");
        Branch {
            expect: toml::from_str(&expect).unwrap_or_else(|error| panic!("{name}: {error}")),
            before: read_folder(&folder.join("before")),
            name,
            folder,
        }
    });
    branches
        .filter(|branch| branch.name.contains(&only))
        .collect()
}

#[test]
fn every_branch_comes_out_as_it_should() {
    let branches = all();
    let faults: Vec<String> = in_parallel(&branches, |branch| {
        let faults = faults(branch);
        (!faults.is_empty()).then(|| format!("--- {}\n{}", branch.name, faults.join("\n")))
    })
    .into_iter()
    .flatten()
    .collect();
    assert!(
        faults.is_empty(),
        "{} of {} branches\n\n{}",
        faults.len(),
        branches.len(),
        faults.join("\n\n")
    );
}

#[test]
fn every_branch_is_reported_as_written() {
    for branch in all() {
        let run = run(&branch.before).unwrap_or_else(|error| panic!("{}: {error}", branch.name));
        snapshot("branch", &branch.name, &report_lines(&run));
    }
}

fn faults(branch: &Branch) -> Vec<String> {
    let run = match run(&branch.before) {
        Ok(run) => run,
        Err(error) => return vec![format!("no plan: {error}")],
    };
    let after = branch.folder.join("after");
    if blesses() {
        if after.exists() {
            fs::remove_dir_all(&after).expect("writable");
        }
        write_folder(&after, &run.after);
    }
    let mut faults: Vec<String> = keeps_its_promises(&run, &GPU_REPLAY)
        .err()
        .into_iter()
        .collect();
    faults.extend(unlike(&read_folder(&after), &run.after));
    let expect = &branch.expect;
    let gone: Vec<&String> = run
        .before
        .keys()
        .filter(|path| !run.after.contains_key(*path))
        .collect();
    let mut expected: Vec<&String> = expect.gone.iter().collect();
    expected.sort();
    if gone != expected {
        faults.push(format!("gone are {gone:?}, not {expected:?}"));
    }
    for path in &expect.identical {
        if run.after.get(path) != Some(&run.before[path]) {
            faults.push(format!("{path} is not identical"));
        }
    }
    let report = report_lines(&run);
    faults.extend(
        expect
            .reported
            .iter()
            .filter(|text| !report.contains(text.as_str()))
            .map(|text| format!("not in the report: {text}")),
    );
    for (path, bytes) in run
        .after
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !expect.identical.contains(path))
    {
        faults.extend(
            expect
                .nowhere
                .iter()
                .filter_map(|pattern| found(path, pattern, bytes)),
        );
    }
    faults.extend(expect.file.iter().flat_map(|file| file_faults(file, &run)));
    faults.extend(site_faults(&expect.unresolved, &run));
    faults
}

fn regex(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .multi_line(true)
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn found(path: &str, pattern: &str, bytes: &[u8]) -> Option<String> {
    let found = regex(pattern).find(bytes)?;
    let line = bytes[..found.start()]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1;
    Some(format!("{path}:{line}: matches `{pattern}`"))
}

fn file_faults(expect: &FileExpect, run: &Run) -> Vec<String> {
    let path = &expect.path;
    let Some(bytes) = run.after.get(path) else {
        return vec![format!("{path} is missing")];
    };
    let mut faults = Vec::new();
    faults.extend(
        expect
            .has
            .iter()
            .filter(|pattern| !regex(pattern).is_match(bytes))
            .map(|pattern| format!("{path}: nothing matches `{pattern}`")),
    );
    faults.extend(
        expect
            .lacks
            .iter()
            .filter_map(|pattern| found(path, pattern, bytes)),
    );
    for (pattern, n) in &expect.count {
        let n_found = regex(pattern).find_iter(bytes).count();
        if n_found != *n {
            faults.push(format!(
                "{path}: `{pattern}` matches {n_found} times, not {n}"
            ));
        }
    }
    let mut at = 0;
    for pattern in &expect.order {
        match regex(pattern).find_at(bytes, at) {
            Some(found) => at = found.end(),
            None => {
                faults.push(format!("{path}: `{pattern}` does not follow"));
                break;
            }
        }
    }
    faults.extend(
        expect
            .keeps
            .iter()
            .filter(|literal| !text(bytes).contains(literal.as_str()))
            .map(|literal| format!("{path}: lost {literal:?}")),
    );
    let (before, after) = (text(&run.before[path]), text(bytes));
    let diff = TextDiff::from_lines(&before, &after);
    let n_lines = |tag| {
        diff.iter_all_changes()
            .filter(|change| change.tag() == tag)
            .count()
    };
    for (limit, tag, what) in [
        (expect.max_added, ChangeTag::Insert, "added"),
        (expect.max_removed, ChangeTag::Delete, "removed"),
    ] {
        if limit.is_some_and(|limit| n_lines(tag) > limit) {
            faults.push(format!("{path}: {} lines {what}", n_lines(tag)));
        }
    }
    faults
}

/// The sites that are left are these and no others.
fn site_faults(expected: &[Site], run: &Run) -> Vec<String> {
    let mut left: Vec<(&str, &str)> = run
        .of_kind(RecordKind::Unresolved)
        .map(|record| (record.file.as_str(), record.source.as_str()))
        .collect();
    let mut faults = Vec::new();
    for site in expected {
        match left
            .iter()
            .position(|(file, source)| *file == site.file && source.contains(&site.text))
        {
            Some(at) => drop(left.remove(at)),
            None => faults.push(format!("not reported: {}: {}", site.file, site.text)),
        }
    }
    faults.extend(
        left.iter()
            .map(|(file, source)| format!("reported, but not expected: {file}: {source}")),
    );
    faults
}

/// All branches, after the fixes of a person, against this repository's crates: neither an error nor a warning.
///
/// One target folder serves all, kept from run to run; each branch has a place of its own, so that cargo can tell them apart.
#[test]
fn every_branch_compiles_against_the_new_crates() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("branches");
    let mut faults = Vec::new();
    for branch in all() {
        let mut files = match run(&branch.before) {
            Ok(run) => run.after,
            Err(error) => {
                faults.push(format!("{}: no plan: {error}", branch.name));
                continue;
            }
        };
        faults.extend(
            branch
                .expect
                .fix
                .iter()
                .filter_map(|fix| apply(fix, &mut files))
                .map(|fault| format!("{}: {fault}", branch.name)),
        );
        if !branch.expect.fix.is_empty() {
            // Imports that only the sites still named go in the run behind them.
            files = run(&files).map_or(files, |run| run.after);
        }
        let folder = home.join(&branch.name);
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("writable");
        }
        for (path, bytes) in &mut files {
            if path.ends_with(".toml") {
                *bytes = text(bytes)
                    .replace(CRATES, repository().to_str().expect("UTF-8"))
                    .into_bytes();
            }
        }
        // What this repository was locked to is what there is without a network.
        files.insert(
            "Cargo.lock".into(),
            fs::read(repository().join("Cargo.lock")).expect("readable"),
        );
        write_folder(&folder, &files);
        faults.extend(
            cargo_check(&folder, &home.join("target"), &branch.expect.cargo)
                .into_iter()
                .map(|fault| format!("{}: {fault}", branch.name)),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn apply(fix: &Fix, files: &mut Files) -> Option<String> {
    let bytes = files
        .get_mut(&fix.file)
        .unwrap_or_else(|| panic!("{} is missing", fix.file));
    let pattern = regex(&fix.find);
    if !pattern.is_match(bytes) {
        return Some(format!("{}: the fix finds nothing: {}", fix.file, fix.find));
    }
    *bytes = pattern
        .replace_all(bytes, NoExpand(fix.replace.as_bytes()))
        .into_owned();
    None
}

fn cargo_check(folder: &Path, target: &Path, arguments: &[String]) -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "check",
            "--offline",
            "--all-targets",
            "--message-format=json",
        ])
        .args(arguments)
        .current_dir(folder);
    // The lints of whoever runs the tests are not the branch's.
    cargo
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let done = cargo.output().expect("cargo starts");
    let own = folder.canonicalize().expect("is there");
    let mut said = Vec::new();
    for line in text(&done.stdout).lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let is_own = message["manifest_path"]
            .as_str()
            .is_some_and(|path| Path::new(path).starts_with(&own));
        if message["reason"] == "compiler-message" && is_own {
            said.push(
                message["message"]["rendered"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
    }
    said.sort();
    said.dedup();
    if said.is_empty() && !done.status.success() {
        said.push(text(&done.stderr));
    }
    said
}
