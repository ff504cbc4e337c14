//! What follows in manifests, and what to say about files that mention a target which is gone.

use super::sources::{Sources, file_record};
use crate::delete::Deleted;
use crate::manifest::edit::{remove_include, remove_target};
use crate::record::{Record, RecordKind};
use crate::session::Session;
use crate::stage::Change;
use crate::syntax::LineIndex;
use crate::walk::{FileKind, Tree};

pub fn follow(
    tree: &Tree,
    found: &Sources<'_>,
    session: &Session<'_>,
    deleted: &[Deleted],
    changes: &mut Vec<Change>,
    records: &mut Vec<Record>,
) {
    let gone: Vec<&str> = deleted
        .iter()
        .filter(|one| one.at.is_none())
        .map(|one| one.path.as_str())
        .collect();
    if gone.is_empty() {
        return;
    }
    let mut targets: Vec<(String, String)> = Vec::new();
    for package in &found.packages {
        let Some(text) = found.text(&package.manifest_path) else {
            continue;
        };
        let mut now = text.to_string();
        for target in package
            .targets
            .iter()
            .filter(|target| gone.contains(&target.path.as_str()))
        {
            targets.push((target.name.clone(), target.path.clone()));
            if target.explicit
                && let Some(edited) = remove_target(&now, target.kind, &target.name)
            {
                let (line, source) = line_of(&text, &target.name);
                let mut record = file_record(
                    RecordKind::Deleted,
                    &package.manifest_path,
                    &format!("the entry of target `{}`: its file is gone", target.name),
                    None,
                );
                record.rule = "manifest".into();
                record.line = line;
                record.source = source;
                records.push(record);
                now = edited;
            }
        }
        for path in &gone {
            let below = if package.dir.is_empty() {
                Some(*path)
            } else {
                path.strip_prefix(&format!("{}/", package.dir))
            };
            if let Some(below) = below
                && let Some(edited) = remove_include(&now, below)
            {
                let (line, source) = line_of(&text, below);
                let mut record = file_record(
                    RecordKind::Deleted,
                    &package.manifest_path,
                    &format!("`{below}` in the list of packaged files: it is gone"),
                    None,
                );
                record.rule = "manifest".into();
                record.line = line;
                record.source = source;
                records.push(record);
                now = edited;
            }
        }
        if now != *text {
            changes.push(Change::Write {
                path: package.manifest_path.clone(),
                before: text.as_bytes().to_vec(),
                after: now.into_bytes(),
            });
        }
    }
    unused(found, session, records);
    // Continuous integration, scripts and images that name a target.
    for file in tree
        .files()
        .iter()
        .filter(|file| file.kind == FileKind::Mention)
    {
        let Some(text) = found.text(&file.path) else {
            continue;
        };
        for (name, path) in &targets {
            let stem = path.rsplit('/').next().unwrap_or(path);
            for (at, line) in text.lines().enumerate() {
                let names = word(line, name)
                    && ["--test", "--bench", "--example", "--bin"]
                        .iter()
                        .any(|flag| line.contains(flag));
                if names || line.contains(path.as_str()) || (stem.len() > 6 && word(line, stem)) {
                    let mut record = file_record(
                        RecordKind::Note,
                        &file.path,
                        &format!("mentions target `{name}`, which is gone"),
                        None,
                    );
                    record.rule = "mention".into();
                    record.line = at + 1;
                    record.source = line.to_owned();
                    records.push(record);
                    break;
                }
            }
        }
    }
}

fn word(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let is_word =
            |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
        !is_word(line[..at].chars().next_back()) && !is_word(line[at + name.len()..].chars().next())
    })
}

fn line_of(text: &str, needle: &str) -> (usize, String) {
    match text.find(needle) {
        Some(at) => {
            let index = LineIndex::new(text);
            let line = index.line(at);
            (line, index.line_span(text, line).text(text).to_owned())
        }
        None => (1, String::new()),
    }
}

/// Dependencies and features that only deleted code used.
fn unused(found: &Sources<'_>, session: &Session<'_>, records: &mut Vec<Record>) {
    for package in &found.packages {
        let prefix = if package.dir.is_empty() {
            String::new()
        } else {
            format!("{}/", package.dir)
        };
        let own: Vec<_> = session
            .works
            .iter()
            .filter(|work| work.path.starts_with(&prefix))
            .collect();
        if own.is_empty() || !own.iter().any(|work| work.deleted) {
            continue;
        }
        let Some(text) = found.text(&package.manifest_path) else {
            continue;
        };
        for dependency in &package.dependencies {
            let was = own
                .iter()
                .any(|work| word(work.rope.original(), &dependency.extern_name));
            let is = own
                .iter()
                .any(|work| !work.deleted && word(work.rope.text(), &dependency.extern_name));
            if was && !is {
                let (line, source) = line_of(&text, &dependency.key);
                let mut record = file_record(
                    RecordKind::Note,
                    &package.manifest_path,
                    &format!("dependency `{}` has no user left", dependency.key),
                    Some("remove it if nothing else needs it"),
                );
                record.rule = "manifest".into();
                record.line = line;
                record.source = source;
                records.push(record);
            }
        }
        for feature in package.features.keys() {
            let quoted = format!("\"{feature}\"");
            let was = own
                .iter()
                .any(|work| work.rope.original().contains(&quoted));
            let is = own
                .iter()
                .any(|work| !work.deleted && work.rope.text().contains(&quoted));
            if was && !is {
                let (line, source) = line_of(&text, feature);
                let mut record = file_record(
                    RecordKind::Note,
                    &package.manifest_path,
                    &format!("feature `{feature}` guards nothing any more"),
                    Some("features are public: remove it when its users are gone"),
                );
                record.rule = "manifest".into();
                record.line = line;
                record.source = source;
                records.push(record);
            }
        }
    }
}
