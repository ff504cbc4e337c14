//! `--why FILE:LINE`: what was made of one place.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path};

use codemod::diff::{FileDiff, LineKind};
use codemod::plan::{Change, Plan};
use codemod::record::{Record, RecordKind};
use codemod::walk::Tree;

use crate::cli::Place;
use crate::failure::Failure;
use crate::interactive;

/// The file from the root, with `/`, as it was named: from the working directory, or from the root as a report has it.
pub fn file_in_tree(
    place: &Place,
    root: &Path,
    working_directory: &Path,
) -> Result<String, Failure> {
    let here = fs::canonicalize(working_directory.join(&place.file)).ok();
    let there = fs::canonicalize(root.join(&place.file)).ok();
    let inside = [here, there]
        .into_iter()
        .flatten()
        .find_map(|path| path.strip_prefix(root).map(Path::to_path_buf).ok());
    let Some(inside) = inside else {
        return Err(Failure::new(format!(
            "there is no file `{}` in `{}`",
            place.file.display(),
            root.display()
        ))
        .hint("name it from the working directory or from the root"));
    };
    let parts: Vec<_> = inside
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    Ok(parts.join("/"))
}

pub fn explain(plan: &Plan, tree: &Tree, file: &str, line: usize) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(skipped) = tree
        .skipped()
        .iter()
        .find(|skipped| file == skipped.path || file.starts_with(&format!("{}/", skipped.path)))
    {
        writeln!(
            text,
            "{file} is not looked at: `{}` is {}",
            skipped.path,
            skipped.reason.describe()
        )
        .expect("writing to a string");
        return Ok(text);
    }
    let bytes = fs::read(tree.root().join(file))
        .map_err(|error| Failure::new(format!("cannot read `{file}`: {error}")))?;
    let content = String::from_utf8_lossy(&bytes);
    let Some(source) = content.lines().nth(line - 1) else {
        return Err(Failure::new(format!(
            "`{file}` has {} lines; there is no line {line}",
            content.lines().count()
        )));
    };
    writeln!(text, "{file}:{line}: {}", source.trim()).expect("writing to a string");
    let here: Vec<&Record> = plan
        .records
        .iter()
        .filter(|record| record.file == file && covers(record, line, &bytes))
        .collect();
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    for record in &here {
        // An edit is a stretch of bytes; what became of the line is shown below.
        if record.kind != RecordKind::Edit || told.insert((&record.rule, &record.reason)) {
            tell(record, &mut text);
        }
    }
    if here.is_empty() {
        text.push_str("  left alone: no rule is about anything on this line\n");
    }
    let change = plan.changes.iter().find_map(|change| match change {
        Change::Write {
            path,
            before,
            after,
        } if path == file => Some((before, after)),
        _ => None,
    });
    if let Some((before, after)) = change {
        let diff = FileDiff::new(before, after);
        for hunk in 0..diff.n_hunks() {
            if removes(&diff, hunk, line - 1) {
                text.push_str(&String::from_utf8_lossy(&interactive::hunk(&diff, hunk)));
            }
        }
    }
    Ok(text)
}

/// Whether a line, counted from 0, is one that a hunk takes out.
fn removes(diff: &FileDiff<'_>, hunk: usize, line: usize) -> bool {
    let mut at = diff.lines_before(hunk).start;
    for (kind, _) in diff.hunk_lines(hunk) {
        match kind {
            LineKind::Added => continue,
            LineKind::Removed if at == line => return true,
            LineKind::Removed | LineKind::Context => at += 1,
        }
    }
    false
}

/// Whether the site touches the line; a record of a whole file touches every line.
fn covers(record: &Record, line: usize, content: &[u8]) -> bool {
    if record.source.is_empty() {
        return true;
    }
    let end = record.byte_end.min(content.len());
    let start = record.byte_start.min(end);
    let n_breaks = content[start..end]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count();
    (record.line..=record.line + n_breaks).contains(&line)
}

fn tell(record: &Record, text: &mut String) {
    let what = match record.kind {
        RecordKind::Edit => "rewritten",
        RecordKind::Unresolved => "unresolved",
        RecordKind::Deleted => "deleted",
        RecordKind::Note => "note",
    };
    let at = if record.kind == RecordKind::Edit {
        String::new()
    } else {
        format!(" at column {}", record.column)
    };
    writeln!(text, "  {what} by `{}`{at}: {}", record.rule, record.reason)
        .expect("writing to a string");
    if let Some(suggestion) = &record.suggestion {
        writeln!(text, "  help: {suggestion}").expect("writing to a string");
    }
}
