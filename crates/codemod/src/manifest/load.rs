//! Manifests as parsed tables, each read once, and the way from a package to its workspace.

use super::ManifestProblem;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use toml::{Table, Value};

/// All manifests that were asked for, by their path from the root; those above it begin with `../`.
pub(super) struct Manifests {
    root: PathBuf,
    read: BTreeMap<String, Result<Rc<Table>, ManifestProblem>>,
}

impl Manifests {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            read: BTreeMap::new(),
        }
    }

    pub(super) fn load(&mut self, path: &str) -> Result<Rc<Table>, ManifestProblem> {
        if !self.read.contains_key(path) {
            let read = read(&self.root.join(path), path).map(Rc::new);
            self.read.insert(path.to_owned(), read);
        }
        self.read[path].clone()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The manifest of the workspace that a package belongs to: the one that it names, its own, or the nearest above
    /// that has `[workspace]` and does not exclude it.
    pub(super) fn workspace_of(&mut self, path: &str, manifest: &Table) -> Option<String> {
        if manifest.contains_key("workspace") {
            return Some(path.to_owned());
        }
        let named = manifest
            .get("package")
            .and_then(|package| package.get("workspace"))
            .and_then(Value::as_str);
        if let Some(named) = named {
            return Some(join(&join(parent(path), named), "Cargo.toml"));
        }
        let package = parent(path).to_owned();
        let above = self.root.components().count().saturating_sub(1);
        let mut directory = package.clone();
        // Up through the tree, then on to the root of the disk, as cargo does.
        for _ in 0..=package.split('/').count() + above {
            directory = join(&directory, "..");
            let candidate = join(&directory, "Cargo.toml");
            let Ok(table) = self.load(&candidate) else {
                continue;
            };
            if let Some(workspace) = table.get("workspace") {
                if !excludes(workspace, &directory, &package) {
                    return Some(candidate);
                }
            } else if let Some(named) = table
                .get("package")
                .and_then(|package| package.get("workspace"))
                .and_then(Value::as_str)
            {
                return Some(join(&join(&directory, named), "Cargo.toml"));
            }
        }
        None
    }

    /// A value of `[package]`, taken from `[workspace.package]` where it says `workspace = true`.
    pub(super) fn inherited(
        &mut self,
        package: &Table,
        key: &str,
        workspace: Option<&str>,
    ) -> Option<Value> {
        let value = package.get(key)?;
        if value.get("workspace").and_then(Value::as_bool) != Some(true) {
            return Some(value.clone());
        }
        let table = self.load(workspace?).ok()?;
        table.get("workspace")?.get("package")?.get(key).cloned()
    }
}

/// Cargo's rule: `exclude` names folders, and a folder that `members` names without a glob is in all the same.
fn excludes(workspace: &Value, directory: &str, package: &str) -> bool {
    let names = |key: &str| {
        strings(workspace.get(key))
            .iter()
            .any(|folder| is_below(package, &join(directory, folder)))
    };
    names("exclude") && !names("members")
}

/// Says whether `path` is `folder` or lies in it.
fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read(absolute: &Path, path: &str) -> Result<Table, ManifestProblem> {
    let problem = |line, column, message| ManifestProblem {
        manifest_path: path.to_owned(),
        line,
        column,
        message,
    };
    let bytes =
        fs::read(absolute).map_err(|error| problem(1, 1, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        problem(line, 1, "is not UTF-8".to_owned())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let before = &text.as_bytes()[..at];
        let line_start = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..])
            .chars()
            .count()
            + 1;
        problem(line, column, error.message().to_owned())
    })
}

/// The strings of an array, whatever else is in it.
pub(super) fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// The folder of a path with `/`; empty for the root.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// `path` as seen from `directory`, without `.` and `..` but for those in front. An absolute `path` stays.
pub(super) fn join(directory: &str, path: &str) -> String {
    let path = path.replace('\\', "/");
    if Path::new(&path).is_absolute() {
        return path;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if directory.starts_with('/') {
        format!("/{joined}")
    } else {
        joined
    }
}
