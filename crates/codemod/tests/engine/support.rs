//! Trees in memory, a run on one, and what must hold for every run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use codemod::plan::{Change, Plan, PlanError, PlanOptions, plan};
use codemod::record::{Record, RecordKind};
use codemod::rule::Migration;
use codemod::syntax;
use codemod::walk::{WalkOptions, read_tree};
use walkdir::WalkDir;

pub const MIGRATION: &str = "2026-04-10-gpu-replay";

/// From the path, with `/`, to the bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The migration that nearly all tests run, read once.
pub static GPU_REPLAY: LazyLock<Vec<Migration>> = LazyLock::new(|| {
    vec![Migration::parse(MIGRATION, &migration_text()).expect("the migration is well formed")]
});

pub const UPGRADE: &str = "rand-0.9";

/// The migration that is written against a public crate.
pub static RAND: LazyLock<Vec<Migration>> = LazyLock::new(|| {
    let text = fs::read_to_string(folder_of(UPGRADE).join("migration.toml")).expect("readable");
    vec![Migration::parse(UPGRADE, &text).expect("the migration is well formed")]
});

pub fn folder_of(migration: &str) -> PathBuf {
    repository().join("migrations").join(migration)
}

pub fn repository() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/codemod");
    crates.parent().expect("crates").to_path_buf()
}

pub fn migration_folder() -> PathBuf {
    folder_of(MIGRATION)
}

pub fn migration_text() -> String {
    fs::read_to_string(migration_folder().join("migration.toml")).expect("readable")
}

/// Whether expected texts are to be written, not compared.
pub fn blesses() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// All files below a folder, but for build results.
pub fn read_folder(folder: &Path) -> Files {
    let entries = WalkDir::new(folder)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != "target" && entry.file_name() != ".git");
    let mut files = Files::new();
    for entry in entries {
        let entry = entry.expect("readable");
        if entry.file_type().is_file() {
            let path = entry
                .path()
                .strip_prefix(folder)
                .expect("walks below the folder");
            files.insert(
                path.to_str().expect("UTF-8").replace('\\', "/"),
                fs::read(entry.path()).expect("readable"),
            );
        }
    }
    files
}

pub fn write_folder(folder: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("writable");
        fs::write(path, bytes).expect("writable");
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What became of a tree.
#[derive(Debug)]
pub struct Run {
    pub before: Files,
    pub after: Files,
    pub plan: Plan,
}

impl Run {
    pub fn of_kind(&self, kind: RecordKind) -> impl Iterator<Item = &Record> {
        self.plan
            .records
            .iter()
            .filter(move |record| record.kind == kind)
    }
}

pub fn run(files: &Files) -> Result<Run, PlanError> {
    run_with(files, &GPU_REPLAY)
}

pub fn run_with(files: &Files, migrations: &[Migration]) -> Result<Run, PlanError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_folder(folder.path(), files);
    let tree = read_tree(folder.path(), &WalkOptions::default()).expect("a tree");
    let plan = plan(&tree, migrations, &PlanOptions::default())?;
    assert!(
        read_folder(folder.path()) == *files,
        "planning wrote something"
    );
    let mut after = files.clone();
    for change in &plan.changes {
        let path = change.path();
        match change {
            Change::Write {
                before,
                after: bytes,
                ..
            } => {
                assert!(
                    files.get(path) == Some(before),
                    "{path}: the plan speaks of other bytes than those of the file"
                );
                after.insert(path.to_owned(), bytes.clone());
            }
            Change::Delete { before, .. } => {
                assert!(
                    files.get(path) == Some(before),
                    "{path}: the plan speaks of other bytes than those of the file"
                );
                after.remove(path);
            }
        }
    }
    Ok(Run {
        before: files.clone(),
        after,
        plan,
    })
}

/// Sites that are left to a person, without their lines: those may move from run to run.
pub fn unresolved(run: &Run) -> Vec<(String, String, String)> {
    let mut sites: Vec<_> = run
        .of_kind(RecordKind::Unresolved)
        .map(|record| {
            (
                record.file.clone(),
                record.source.trim().to_owned(),
                record.reason.clone(),
            )
        })
        .collect();
    sites.sort();
    sites
}

/// What holds for every run on any tree, whatever the migration; the fault in words otherwise.
pub fn keeps_its_promises(run: &Run, migrations: &[Migration]) -> Result<(), String> {
    syntax::on_big_stack(|| {
        records_fit(run)?;
        edits_rebuild(run)?;
        still_parses(run)
    })?;
    second_run_is_idle(run, migrations)
}

/// Records speak of places that exist, in the file as it was.
fn records_fit(run: &Run) -> Result<(), String> {
    for record in &run.plan.records {
        let at = format!(
            "{}:{}:{} ({})",
            record.file, record.line, record.column, record.rule
        );
        let Some(bytes) = run.before.get(&record.file) else {
            return Err(format!("{at}: there is no such file"));
        };
        if record.byte_start > record.byte_end || record.byte_end > bytes.len() {
            return Err(format!(
                "{at}: bytes {}..{} of {}",
                record.byte_start,
                record.byte_end,
                bytes.len()
            ));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            continue;
        };
        let (line, column) = syntax::LineIndex::new(text).line_column(text, record.byte_start);
        if record.kind != RecordKind::Note
            && !record.file.ends_with(".toml")
            && (line, column) != (record.line, record.column)
        {
            return Err(format!(
                "{at}: byte {} is {line}:{column}",
                record.byte_start
            ));
        }
        after_fits(run, record, text).map_err(|error| format!("{at}: {error}"))?;
        // A byte order mark is shown nowhere.
        let source = text
            .lines()
            .nth(record.line.saturating_sub(1))
            .unwrap_or_default()
            .trim_start_matches('\u{feff}');
        if !record.source.is_empty() && record.source != source {
            return Err(format!(
                "{at}: the line is `{source}`, not `{}`",
                record.source
            ));
        }
    }
    let sorted = run
        .plan
        .records
        .windows(2)
        .all(|pair| pair[0].sort_key() <= pair[1].sort_key());
    if sorted {
        Ok(())
    } else {
        Err("records are not sorted".into())
    }
}

/// A site's first word stands where the report says that it stands after the run.
fn after_fits(run: &Run, record: &Record, before: &str) -> Result<(), String> {
    let Some(after) = run.after.get(&record.file) else {
        return Ok(());
    };
    if record.kind != RecordKind::Unresolved || record.source.is_empty() {
        return match record.line_after {
            Some(line) if line > text(after).lines().count() => Err(format!("no line {line}")),
            _ => Ok(()),
        };
    }
    let line = record.line_after.unwrap_or(record.line);
    let found = text(after)
        .lines()
        .nth(line - 1)
        .unwrap_or_default()
        .to_owned();
    let word: String = before[record.byte_start..record.byte_end]
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    if found.contains(&word) {
        Ok(())
    } else {
        Err(format!(
            "line {line} after the run is `{found}`, without `{word}`"
        ))
    }
}

/// Bytes outside of edits are those of the input: the edits alone make the output.
fn edits_rebuild(run: &Run) -> Result<(), String> {
    let mut edits: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in run.of_kind(RecordKind::Edit) {
        edits.entry(&record.file).or_default().push(record);
    }
    for (path, before) in &run.before {
        let Some(after) = run.after.get(path) else {
            continue;
        };
        let mut rebuilt = Vec::new();
        let mut done = 0;
        for edit in edits.get(path.as_str()).into_iter().flatten() {
            if edit.byte_start < done {
                return Err(format!("{path}: two edits at byte {}", edit.byte_start));
            }
            let old = &before[edit.byte_start..edit.byte_end];
            if edit.before.as_deref().map(str::as_bytes) != Some(old) {
                return Err(format!(
                    "{path}:{}: `before` is {:?}, the file has {:?}",
                    edit.line,
                    edit.before,
                    text(old)
                ));
            }
            rebuilt.extend_from_slice(&before[done..edit.byte_start]);
            rebuilt.extend_from_slice(edit.after.as_deref().unwrap_or_default().as_bytes());
            done = edit.byte_end;
        }
        rebuilt.extend_from_slice(&before[done..]);
        // Manifests change by deletions, which name the entry and not its bytes.
        if rebuilt != *after && !path.ends_with(".toml") {
            return Err(format!(
                "{path}: the edits of the report make another file than the one that is written"
            ));
        }
    }
    Ok(())
}

fn still_parses(run: &Run) -> Result<(), String> {
    for (path, after) in &run.after {
        let before = &run.before[path];
        if before == after || !path.ends_with(".rs") {
            continue;
        }
        let parses = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .map_err(|error| error.to_string())
                .and_then(|text| syn::parse_file(text).map_err(|error| error.to_string()))
        };
        if let Err(error) = parses(after)
            && parses(before).is_ok()
        {
            return Err(format!(
                "{path}: no longer parses: {error}\n{}",
                text(after)
            ));
        }
    }
    Ok(())
}

fn second_run_is_idle(first: &Run, migrations: &[Migration]) -> Result<(), String> {
    let second =
        run_with(&first.after, migrations).map_err(|error| format!("the second run: {error}"))?;
    records_fit(&second).map_err(|fault| format!("the second run: {fault}"))?;
    let changed: Vec<String> = second
        .plan
        .changes
        .iter()
        .map(|change| {
            format!(
                "{}:\n{}",
                change.path(),
                text(&codemod::diff::patch(std::slice::from_ref(change), |_| {
                    false
                }))
            )
        })
        .collect();
    if !changed.is_empty() {
        return Err(format!("the second run changes {}", changed.join("\n")));
    }
    let (once, twice) = (unresolved(first), unresolved(&second));
    // An edit elsewhere on the line changes what the line reads.
    let places = |sites: &[(String, String, String)]| {
        let mut places: Vec<_> = sites
            .iter()
            .map(|(file, _, reason)| (file.clone(), reason.clone()))
            .collect();
        places.sort();
        places
    };
    let (first_places, second_places) = (places(&once), places(&twice));
    if first_places != second_places {
        let (lost, new) = (
            first_places
                .iter()
                .find(|site| !second_places.contains(site)),
            second_places
                .iter()
                .find(|site| !first_places.contains(site)),
        );
        return Err(format!(
            "the second run no longer reports {lost:?}, and reports {new:?}\n{twice:#?}\nafter\n{once:#?}"
        ));
    }
    Ok(())
}

/// Two texts as a diff, for a message.
pub fn difference(expected: &[u8], found: &[u8]) -> String {
    let (expected, found) = (text(expected), text(found));
    similar::TextDiff::from_lines(&expected, &found)
        .unified_diff()
        .context_radius(3)
        .header("expected", "found")
        .to_string()
}

/// A report as lines for a snapshot: what is left, what went and what is to be known; edits are seen in the result.
pub fn report_lines(run: &Run) -> String {
    let mut out = String::new();
    for record in run
        .plan
        .records
        .iter()
        .filter(|record| record.kind != RecordKind::Edit)
    {
        let kind = match record.kind {
            RecordKind::Unresolved => "unresolved",
            RecordKind::Deleted => "deleted",
            RecordKind::Note => "note",
            RecordKind::Edit => "edit",
        };
        out += &format!(
            "{kind}: {}:{}:{}: {} [{}]\n",
            record.file, record.line, record.column, record.reason, record.rule
        );
        if let Some(line) = record.line_after {
            out += &format!("    line {line} after the run\n");
        }
        if !record.source.is_empty() {
            out += &format!("    | {}\n", record.source.trim());
        }
        if let Some(suggestion) = &record.suggestion {
            out += &format!("    = {suggestion}\n");
        }
    }
    out
}

/// Compares with a snapshot beside this file, named without the module.
pub fn snapshot(name: &str, suffix: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    if !suffix.is_empty() {
        settings.set_snapshot_suffix(suffix);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Does something to each on a few threads, results in order.
///
/// Threads of their own, as planning waits for the pool of `rayon`, and must not be what the pool waits for.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let n_threads = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .min(items.len().max(1));
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else {
                    return done;
                };
                done.push((at, work(item)));
            }
        };
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
