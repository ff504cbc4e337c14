//! The example branch, `tests/branches/foxhunt`: what its table promises, what comes out, and that it compiles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use codemod::plan::Change;
use codemod::record::RecordKind;
use codemod::report::Report;
use codemod::report::human::{Color, render};
use codemod::verify::manifest::chosen_feature;
use codemod::verify::{ExclusiveFeature, Replacement, Scratch, Substitutions, check};
use serde::Deserialize;

use crate::support::{
    Files, GPU_REPLAY, Run, keeps_its_promises, read_folder, repository, run, snapshot, text,
    write_folder,
};

#[derive(Debug, Deserialize)]
struct Table {
    row: Vec<Row>,
    unresolved: Vec<Unresolved>,
    files: Outcome,
    deleted_items: Vec<DeletedItems>,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    sites: Vec<Site>,
}

#[derive(Debug, Deserialize)]
struct Site {
    file: String,
    text: String,
    form: String,
}

#[derive(Debug, Deserialize)]
struct Unresolved {
    file: String,
    text: String,
    fix: Fix,
    #[serde(default)]
    more: Vec<FixElsewhere>,
}

#[derive(Debug, Deserialize)]
struct Fix {
    find: String,
    replace: String,
}

#[derive(Debug, Deserialize)]
struct FixElsewhere {
    file: String,
    find: String,
    replace: String,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    deleted: BTreeSet<String>,
    identical: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct DeletedItems {
    file: String,
    items: Vec<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text =
        std::fs::read_to_string(repository().join("tests/branches/foxhunt/migration-table.toml"))
            .expect("readable");
    toml::from_str(&text).expect("the table is well formed")
});

static BRANCH: LazyLock<Files> =
    LazyLock::new(|| read_folder(&repository().join("tests/branches/foxhunt")));

/// FIXME: a table that loses all of its entries should go, with the test that loops over it.
const STILL_THERE: &[&str] = &[
    "still in crates/strategy/tests/mixed.rs: type Opener",
    "still in crates/strategy/tests/mixed.rs: const KINDS:",
    "still in crates/strategy/tests/mixed.rs: fn host_kinds_are_described()",
];

/// One run for all tests.
static RUN: LazyLock<Run> =
    LazyLock::new(|| run(&BRANCH).unwrap_or_else(|error| panic!("no plan: {error}")));

#[test]
fn the_table_speaks_of_the_branch() {
    let mut faults = Vec::new();
    let mut holds = |file: &str, part: &str| {
        if !BRANCH
            .get(file)
            .is_some_and(|bytes| text(bytes).contains(part))
        {
            faults.push(format!("{file} has no `{part}`"));
        }
    };
    for row in &TABLE.row {
        for site in &row.sites {
            holds(&site.file, &site.text);
        }
        let forms: BTreeSet<&str> = row.sites.iter().map(|site| site.form.as_str()).collect();
        assert!(
            forms.len() >= 2,
            "row `{}` has {} forms",
            row.id,
            forms.len()
        );
    }
    for site in &TABLE.unresolved {
        holds(&site.file, &site.text);
    }
    for items in &TABLE.deleted_items {
        for item in &items.items {
            holds(&items.file, item);
        }
    }
    for path in TABLE.files.deleted.iter().chain(&TABLE.files.identical) {
        holds(path, "");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let lines: usize = BRANCH
        .iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(_, bytes)| text(bytes).lines().count())
        .sum();
    assert!(lines >= 2_500, "{lines} lines of Rust");
}

#[test]
fn exactly_the_listed_sites_are_left() {
    let left: BTreeSet<(&str, &str)> = RUN
        .of_kind(RecordKind::Unresolved)
        .map(|record| (record.file.as_str(), record.source.trim()))
        .collect();
    assert_eq!(
        left.len(),
        RUN.of_kind(RecordKind::Unresolved).count(),
        "a site is reported twice"
    );
    let mut faults = Vec::new();
    let mut rest = left.clone();
    for site in &TABLE.unresolved {
        let found = left.iter().find(|(file, source)| {
            *file == site.file && (source.contains(site.text.trim()) || site.text.contains(source))
        });
        match found {
            Some(found) => drop(rest.remove(found)),
            None => faults.push(format!("not reported: {}: {}", site.file, site.text)),
        }
    }
    faults.extend(
        rest.iter()
            .map(|(file, source)| format!("reported, but not in the table: {file}: {source}")),
    );
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn exactly_the_listed_files_and_items_go() {
    let gone: BTreeSet<&str> = RUN
        .before
        .keys()
        .filter(|path| !RUN.after.contains_key(*path))
        .map(String::as_str)
        .collect();
    let listed: BTreeSet<&str> = TABLE.files.deleted.iter().map(String::as_str).collect();
    assert_eq!(gone, listed);
    // A record for each file.
    let told: BTreeSet<&str> = RUN
        .of_kind(RecordKind::Deleted)
        .filter(|record| record.source.is_empty())
        .map(|record| record.file.as_str())
        .collect();
    assert_eq!(told, listed, "files that the report calls deleted");
    let mut faults = Vec::new();
    for items in &TABLE.deleted_items {
        let after = text(&RUN.after[&items.file]);
        faults.extend(
            items
                .items
                .iter()
                .filter(|item| after.contains(item.as_str()))
                .map(|item| format!("still in {}: {item}", items.file)),
        );
    }
    // Nothing else that has a name went.
    for (path, before) in RUN.before.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let Some(after) = RUN.after.get(path) else {
            continue;
        };
        let listed: Vec<&String> = TABLE
            .deleted_items
            .iter()
            .filter(|items| items.file == *path)
            .flat_map(|items| &items.items)
            .collect();
        let left = item_names(after);
        for (name, head) in item_names(before) {
            if !left.contains_key(&name)
                && !listed.iter().any(|item| {
                    head.contains(item.as_str())
                        || item.contains(&format!("fn {name}("))
                        || item.contains(&format!("mod {name} "))
                })
            {
                faults.push(format!("gone from {path}, but not in the table: {head}"));
            }
        }
    }
    assert_eq!(faults, STILL_THERE);
}

/// Names of functions, constants and modules, with the line that they stand on. What is in a module `tests` that goes as a
/// whole is looked for in its parent.
fn item_names(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in text(bytes).lines() {
        let words: Vec<&str> = line
            .split(|at: char| !at.is_alphanumeric() && at != '_')
            .filter(|word| !word.is_empty())
            .collect();
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        for pair in words.windows(2) {
            if ["fn", "const", "mod", "struct", "enum", "trait", "static"].contains(&pair[0]) {
                names.insert(pair[1].to_owned(), code.to_owned());
            }
        }
    }
    names
}

#[test]
fn what_is_not_meant_keeps_every_byte() {
    let mut faults = Vec::new();
    for path in &TABLE.files.identical {
        if RUN.after.get(path) != Some(&BRANCH[path]) {
            faults.push(format!("{path} is not identical"));
        }
    }
    let told: BTreeSet<&str> = RUN
        .plan
        .records
        .iter()
        .filter(|record| matches!(record.kind, RecordKind::Edit | RecordKind::Deleted))
        .map(|record| record.file.as_str())
        .collect();
    for (path, before) in BRANCH.iter() {
        if RUN.after.get(path) != Some(before) && !told.contains(path.as_str()) {
            faults.push(format!("{path} changes, and no record says so"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_promises_hold() {
    keeps_its_promises(&RUN, &GPU_REPLAY).unwrap_or_else(|fault| panic!("{fault}"));
}

/// Files that rustfmt had laid out, by the branch's own settings, are so afterwards.
#[test]
fn what_was_formatted_still_is() {
    let clean = |files: &Files, path: &str| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings: Files = files
            .iter()
            .filter(|(path, _)| path.ends_with("rustfmt.toml"))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        write_folder(folder.path(), &settings);
        write_folder(
            folder.path(),
            &Files::from([(path.to_owned(), files[path].clone())]),
        );
        let edition = if path.starts_with("tools/") {
            "2021"
        } else {
            "2024"
        };
        let mut rustfmt = std::process::Command::new("rustfmt");
        rustfmt
            .args(["--check", "--edition", edition])
            .arg(folder.path().join(path));
        let done = rustfmt.output().expect("rustfmt starts");
        (
            done.status.success(),
            text(&done.stdout) + &text(&done.stderr),
        )
    };
    // It would follow these into files that are not there.
    let has_child = |path: &str| {
        text(&RUN.before[path]).lines().any(|line| {
            line.trim_start_matches("pub ").starts_with("mod ") && line.trim_end().ends_with(';')
        })
    };
    let mut faults = Vec::new();
    let mut n_looked_at = 0;
    for path in RUN.after.keys().filter(|path| {
        path.ends_with(".rs") && RUN.after[*path] != RUN.before[*path] && !has_child(path)
    }) {
        if clean(&RUN.before, path).0 {
            n_looked_at += 1;
            let (is_clean, said) = clean(&RUN.after, path);
            if !is_clean {
                println!("{path} was formatted:\n{said}");
                faults.push(path.as_str());
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(n_looked_at >= 15, "{n_looked_at} files");
}

#[test]
fn every_diff_is_as_written() {
    for change in &RUN.plan.changes {
        let patch = match change {
            Change::Delete { path, .. } => format!("{path}: deleted\n"),
            Change::Write { .. } => {
                text(&codemod::diff::patch(std::slice::from_ref(change), |_| {
                    false
                }))
            }
        };
        // A snapshot has line ends of one kind.
        snapshot(
            "foxhunt",
            &change.path().replace('/', "__"),
            &patch.replace('\r', "␍"),
        );
    }
}

#[test]
fn the_report_is_as_written() {
    snapshot(
        "foxhunt_report",
        "",
        &render(&Report::from(&RUN.plan), Color::Never),
    );
}

/// With the new crates in place of the branch's own `ml-dqn`, and what a person writes at the sites that are left.
#[test]
fn the_result_compiles_without_a_warning() {
    let mut files = RUN.after.clone();
    for site in &TABLE.unresolved {
        replace(&mut files, &site.file, &site.fix.find, &site.fix.replace);
        for more in &site.more {
            replace(&mut files, &more.file, &more.find, &more.replace);
        }
    }
    let again = run(&files).unwrap_or_else(|error| panic!("no plan: {error}"));
    assert!(
        again.plan.changes.is_empty(),
        "the migration has something to do in what a person wrote: {:#?}",
        again.plan.changes
    );
    assert_eq!(
        again.of_kind(RecordKind::Unresolved).count(),
        0,
        "a site is left behind the fixes"
    );

    let folder = tempfile::tempdir().expect("a temporary folder");
    write_folder(folder.path(), &files);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foxhunt");
    let mut scratch = Scratch::create(folder.path(), &home).expect("a copy");
    scratch
        .substitute(&substitutions())
        .expect("manifests can be read");
    let said = check(&scratch, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let lines: Vec<String> = said
        .iter()
        .map(|diagnostic| format!("{diagnostic:#?}"))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

fn replace(files: &mut Files, path: &str, find: &str, replacement: &str) {
    let before = text(&files[path]);
    assert_eq!(before.matches(find).count(), 1, "{path}: {find}");
    files.insert(
        path.to_owned(),
        before.replace(find, replacement).into_bytes(),
    );
}

/// What `[verify]` of the migration says, with this repository's crates.
fn substitutions() -> Substitutions {
    let spec = &GPU_REPLAY[0].verify;
    let crates = repository().join("crates");
    let replacement = |package: &String, own_stays| Replacement {
        package: package.clone(),
        directory: crates.join(package),
        own_stays,
    };
    let features = spec
        .exclusive_features
        .iter()
        .map(|family| ExclusiveFeature {
            package: family.package.clone(),
            prefix: family.prefix.clone(),
            chosen: chosen_feature(&crates.join("ml-dqn"), &family.package, &family.prefix)
                .expect("the new crates choose one"),
        });
    Substitutions {
        replacements: spec
            .replace
            .iter()
            .map(|package| replacement(package, false))
            .chain(
                spec.replace_unless_own
                    .iter()
                    .map(|package| replacement(package, true)),
            )
            .collect(),
        features: features.collect(),
    }
}
