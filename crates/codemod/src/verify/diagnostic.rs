//! One run of cargo, and what the compiler said in it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde::Deserialize;

use super::{Scratch, VerifyError};

/// How much of cargo's own words is told; the reason stands at the end.
const CARGO_LINES: usize = 12;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Error,
    Warning,
}

/// One message of the compiler about a place in the tree.
///
/// Positions are those of the file in the copy, with all changes made; lines and columns count from 1, columns in
/// characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// From the root of the tree, with `/`.
    pub file: String,
    pub byte_start: usize,
    pub byte_end: usize,
    pub line: usize,
    pub column: usize,
    pub level: Level,
    /// `E0609`, `unused_imports`.
    pub code: Option<String>,
    pub message: String,
    /// What the label at the place says, as `unknown field`.
    pub label: Option<String>,
    /// As rustc prints it, without color.
    pub rendered: String,
    /// Folder of the package it was found in, from the root; `.` is the root.
    pub package: String,
}

impl Diagnostic {
    /// `error[E0609]: no field …`, in one line.
    pub fn summary(&self) -> String {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        let code = self
            .code
            .as_ref()
            .map(|code| format!("[{code}]"))
            .unwrap_or_default();
        let message = self
            .message
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        format!("{level}{code}: {message}")
    }

    /// What stays the same where lines move.
    pub(super) fn key(&self) -> (String, Option<String>, String) {
        (self.file.clone(), self.code.clone(), self.message.clone())
    }

    /// A library and its unit tests say the same twice.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.byte_start == other.byte_start
            && self.byte_end == other.byte_end
            && self.key() == other.key()
    }
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    manifest_path: Option<String>,
    message: Option<RustcMessage>,
    target: Option<TargetName>,
}

#[derive(Deserialize)]
struct TargetName {
    name: String,
}

#[derive(Deserialize)]
struct RustcMessage {
    message: String,
    code: Option<Code>,
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    line_start: usize,
    column_start: usize,
    is_primary: bool,
    label: Option<String>,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

/// Checks one workspace of the copy: without the network first, as that is quick and the same every time, then with it.
pub(super) fn cargo_check(
    scratch: &Scratch,
    workspace: &str,
    progress: &dyn Fn(&str),
) -> Result<Vec<Diagnostic>, VerifyError> {
    match run(scratch, workspace, true, progress)? {
        Ok(found) => Ok(found),
        Err(offline) => match run(scratch, workspace, false, progress)? {
            Ok(found) => Ok(found),
            Err(online) => {
                let message = if offline == online {
                    online
                } else {
                    format!("{online}\nwithout the network: {offline}")
                };
                Err(VerifyError::Cargo {
                    workspace: workspace.to_owned(),
                    message,
                })
            }
        },
    }
}

/// The outer error is one of ours, the inner one what cargo said when it stopped before the compiler came to speak.
fn run(
    scratch: &Scratch,
    workspace: &str,
    offline: bool,
    progress: &dyn Fn(&str),
) -> Result<Result<Vec<Diagnostic>, String>, VerifyError> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let directory = scratch.root().join(workspace);
    let mut command = Command::new(&program);
    command
        .current_dir(&directory)
        .args([
            "check",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--message-format=json",
            "--target-dir",
        ])
        .arg(scratch.target())
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if offline {
        command.arg("--offline");
    }
    let fail = |source| VerifyError::Start {
        program: program.clone(),
        source,
    };
    let mut child = command.spawn().map_err(fail)?;
    let stdout = child.stdout.take().expect("standard output is piped");
    let mut stderr = child.stderr.take().expect("standard error is piped");
    // Both pipes are read at once: cargo stops when one of them is full.
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        // What could be read until the pipe broke is still the best there is to tell.
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut found = Vec::new();
    let mut n_errors = 0;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(fail)?;
        // Build scripts and procedural macros may print anything between cargo's own lines.
        let Ok(message) = serde_json::from_slice::<CargoMessage>(&line) else {
            continue;
        };
        if let Some(target) = &message.target {
            progress(&target.name);
        }
        if message.reason == "compiler-message" {
            n_errors += usize::from(
                message
                    .message
                    .as_ref()
                    .is_some_and(|said| said.level.starts_with("error")),
            );
            found.extend(diagnostic(scratch, &directory, message));
        }
    }
    let status = child.wait().map_err(fail)?;
    let errors = errors.join().unwrap_or_default();
    if status.success() || n_errors > 0 {
        return Ok(Ok(found));
    }
    let lines: Vec<_> = errors
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    Ok(Err(
        lines[lines.len().saturating_sub(CARGO_LINES)..].join("\n")
    ))
}

/// A message about the tree; what is said about other crates, or about no place at all, is none.
fn diagnostic(scratch: &Scratch, workspace: &Path, message: CargoMessage) -> Option<Diagnostic> {
    let manifest = message.manifest_path?;
    let package = scratch.relative(Path::new(&manifest).parent()?)?;
    let said = message.message?;
    let level = match said.level.as_str() {
        "error" | "error: internal compiler error" => Level::Error,
        "warning" => Level::Warning,
        _ => return None,
    };
    let mut primary: Vec<&Span> = said.spans.iter().filter(|span| span.is_primary).collect();
    primary.sort_by_key(|span| span.byte_start);
    let (file, span) = primary
        .into_iter()
        .find_map(|span| in_tree(scratch, workspace, span))?;
    Some(Diagnostic {
        file,
        byte_start: span.byte_start,
        byte_end: span.byte_end,
        line: span.line_start,
        column: span.column_start,
        level,
        code: said.code.map(|code| code.code),
        message: said.message,
        label: span.label.clone(),
        rendered: said.rendered.unwrap_or_default(),
        package: if package.is_empty() {
            ".".to_owned()
        } else {
            package
        },
    })
}

/// The place in the tree: of a message inside an expansion, the call that a person wrote.
fn in_tree<'s>(
    scratch: &Scratch,
    workspace: &Path,
    mut span: &'s Span,
) -> Option<(String, &'s Span)> {
    loop {
        // Names are relative to where cargo runs rustc: the root of the workspace.
        if let Some(file) = scratch.relative(&workspace.join(&span.file_name)) {
            return Some((file, span));
        }
        span = &span.expansion.as_ref()?.span;
    }
}
