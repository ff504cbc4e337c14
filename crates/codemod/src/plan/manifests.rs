//! What follows in manifests, and what to say about files that mention a target which is gone.

use super::sources::{Sources, file_record};
use crate::delete::Deleted;
use crate::edit::Rope;
use crate::manifest::edit::{remove_include, remove_target};
use crate::manifest::place::{Named, place};
use crate::record::{Record, RecordKind};
use crate::rule::Migration;
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
                let (line, source) = line_of(&text, Named::Target(target.kind, &target.name));
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
                let (line, source) = line_of(&text, Named::Packaged(below));
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

/// Requirements and features of what is upgraded, in every manifest of the tree.
pub fn upgrade(
    tree: &Tree,
    found: &Sources<'_>,
    migrations: &[Migration],
    changes: &mut Vec<Change>,
    records: &mut Vec<Record>,
) {
    let rules: Vec<_> = migrations
        .iter()
        .flat_map(|migration| migration.upgrade_dependency.iter().cloned())
        .collect();
    if rules.is_empty() {
        return;
    }
    let mut changed = false;
    for file in tree
        .files()
        .iter()
        .filter(|file| file.kind == FileKind::Manifest && found.in_scope(&file.path))
    {
        let Some(text) = found.text(&file.path) else {
            continue;
        };
        let keys: Vec<(String, String)> = found
            .packages
            .iter()
            .filter(|package| package.manifest_path == file.path)
            .flat_map(|package| &package.dependencies)
            .filter(|dependency| dependency.inherited)
            .map(|dependency| (dependency.key.clone(), dependency.package.clone()))
            .collect();
        let done = crate::upgrade::manifest::upgrade(&text, &rules, &keys);
        let index = LineIndex::new(&text);
        for left in &done.left {
            let mut record = super::records::located(
                RecordKind::Unresolved,
                &file.path,
                (&text, &index),
                left.span,
                &left.reason,
            );
            record.rule.clone_from(&left.rule);
            record.suggestion.clone_from(&left.suggestion);
            records.push(record);
        }
        for edit in &done.edits {
            let mut record = super::records::located(
                RecordKind::Edit,
                &file.path,
                (&text, &index),
                edit.span,
                "",
            );
            record.rule.clone_from(&edit.rule);
            record.before = Some(edit.span.text(&text).to_owned());
            record.after = Some(edit.text.clone());
            let rule = rules.iter().find(|rule| rule.rule == edit.rule);
            record.reason = rule.map_or(String::new(), |rule| rule.why.clone());
            records.push(record);
        }
        if done.edits.is_empty() {
            continue;
        }
        changed = true;
        // Another migration of the same run may have taken entries out: what stands then is looked at anew.
        let earlier = changes
            .iter()
            .position(|change| change.path() == file.path)
            .map(|at| changes.remove(at));
        let now = match &earlier {
            Some(Change::Write { after, .. }) => String::from_utf8_lossy(after).into_owned(),
            _ => text.to_string(),
        };
        let mut rope = Rope::new(&now);
        let again = crate::upgrade::manifest::upgrade(&now, &rules, &keys);
        if rope.apply(&again.edits).is_err() {
            changes.extend(earlier);
            continue;
        }
        changes.push(Change::Write {
            path: file.path.clone(),
            before: text.as_bytes().to_vec(),
            after: rope.text().as_bytes().to_vec(),
        });
    }
    if changed {
        for file in tree
            .files()
            .iter()
            .filter(|file| file.kind == FileKind::Lockfile)
        {
            let mut record = file_record(
                RecordKind::Note,
                &file.path,
                "the lock file holds the old versions",
                Some("run `cargo update` for the packages whose requirements changed"),
            );
            record.rule = "manifest".into();
            records.push(record);
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

fn line_of(text: &str, named: Named<'_>) -> (usize, String) {
    match place(text, named) {
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
                let (line, source) = line_of(&text, Named::Dependency(&dependency.key));
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
                let (line, source) = line_of(&text, Named::Feature(feature));
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
