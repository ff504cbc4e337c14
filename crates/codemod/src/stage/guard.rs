//! Whether version control can put the tree back.

use super::git::{Repository, quiet_git};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// What git says of a tree before it is written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuardReport {
    /// The tree lies in a git work tree, and not in an ignored folder of one.
    pub under_version_control: bool,
    /// Everything below the root that is not as in the last commit, and files of ours that git does not know; files that
    /// are to be touched first, then by path.
    pub dirty: Vec<DirtyFile>,
}

impl GuardReport {
    /// Whether `git checkout` would bring everything back.
    pub fn is_safe(&self) -> bool {
        self.under_version_control && self.dirty.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirtyFile {
    /// From the root, with `/`; an untracked folder ends in `/`.
    pub path: String,
    pub state: DirtyState,
    /// The run is going to change it.
    pub touched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DirtyState {
    Modified,
    /// Differs from the last commit and is as in the index.
    Staged,
    Untracked,
    /// A merge left it undecided.
    Unmerged,
    /// Git ignores it: it is in no commit.
    Ignored,
}

impl DirtyState {
    /// The word for a list of files.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Modified => "modified",
            Self::Staged => "staged",
            Self::Untracked => "untracked",
            Self::Unmerged => "unmerged",
            Self::Ignored => "ignored by git",
        }
    }
}

/// Why git could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("cannot find the root `{}`: {source}", root.display())]
    Root { root: PathBuf, source: io::Error },
    #[error("cannot run git in `{}`: {source}", root.display())]
    Run { root: PathBuf, source: io::Error },
    #[error("git cannot tell the state of `{}`: {message}", root.display())]
    Git { root: PathBuf, message: String },
}

/// Asks git for the state of the tree below `root`; `touched` are the paths (from the root) that are to be changed.
///
/// # Errors
///
/// If the root is a work tree and git cannot be run or fails.
pub fn guard(root: &Path, touched: &[&str]) -> Result<GuardReport, GuardError> {
    let root = fs::canonicalize(root).map_err(|source| GuardError::Root {
        root: root.to_path_buf(),
        source,
    })?;
    let Some(repository) = Repository::discover(&root) else {
        return Ok(GuardReport::default());
    };
    let git = Git { root: &root };
    if root != repository.work_tree
        && git
            .ignores(&[root.to_string_lossy().as_ref()])?
            .next()
            .is_some()
    {
        return Ok(GuardReport::default());
    }
    let arguments = [
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        "--",
        ".",
    ];
    let status = git.output(quiet_git(&root, arguments), &[])?;
    if !status.status.success() {
        return Err(git.failure(&status));
    }
    let prefix = root
        .strip_prefix(&repository.work_tree)
        .unwrap_or(Path::new(""))
        .to_string_lossy()
        .replace('\\', "/");
    let touched: BTreeSet<&str> = touched.iter().copied().collect();
    let mut dirty: Vec<DirtyFile> = Vec::new();
    for entry in String::from_utf8_lossy(&status.stdout).split('\0') {
        let Some((code, path)) = entry.split_at_checked(3) else {
            continue;
        };
        let path = path
            .strip_prefix(&prefix)
            .unwrap_or(path)
            .trim_start_matches('/');
        let state = state(code);
        if state == DirtyState::Untracked && is_build_folder(&root, path) {
            continue;
        }
        let touched = touched.contains(path)
            || path.ends_with('/') && touched.iter().any(|file| file.starts_with(path));
        dirty.push(DirtyFile {
            path: path.to_owned(),
            state,
            touched,
        });
    }
    let touched: Vec<_> = touched.into_iter().collect();
    for path in git.ignores(&touched)? {
        dirty.push(DirtyFile {
            path,
            state: DirtyState::Ignored,
            touched: true,
        });
    }
    dirty.sort_by(|a, b| (!a.touched, &a.path).cmp(&(!b.touched, &b.path)));
    Ok(GuardReport {
        under_version_control: true,
        dirty,
    })
}

/// The two letters of git-status(1), then a blank: the index against the last commit, the files against the index.
fn state(code: &str) -> DirtyState {
    match code.as_bytes() {
        b"?? " => DirtyState::Untracked,
        b"DD " | b"AA " | [b'U', _, _] | [_, b'U', _] => DirtyState::Unmerged,
        [_, b' ', _] => DirtyState::Staged,
        _ => DirtyState::Modified,
    }
}

/// Build results that no `.gitignore` names are nobody's work; the tool's own scratch copies lie there as well.
fn is_build_folder(root: &Path, path: &str) -> bool {
    let folder = path.trim_end_matches('/');
    let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
    let is_named = folder.rsplit('/').next() == Some("target");
    path.ends_with('/')
        && is_named
        && (parent.is_empty() || root.join(parent).join("Cargo.toml").is_file())
}

struct Git<'a> {
    root: &'a Path,
}

impl Git<'_> {
    fn output(
        &self,
        mut command: std::process::Command,
        input: &[u8],
    ) -> Result<Output, GuardError> {
        let fail = |source| GuardError::Run {
            root: self.root.to_path_buf(),
            source,
        };
        if input.is_empty() {
            return command.output().map_err(fail);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let mut pipe = child.stdin.take();
        std::thread::scope(|scope| {
            // Git answers while it reads; writing all first could fill both pipes.
            scope.spawn(move || pipe.take().map(|mut pipe| pipe.write_all(input)));
            child.wait_with_output()
        })
        .map_err(fail)
    }

    /// Those of `paths` that git ignores and does not track.
    fn ignores(&self, paths: &[&str]) -> Result<impl Iterator<Item = String> + use<>, GuardError> {
        let input: Vec<u8> = paths
            .iter()
            .flat_map(|path| path.bytes().chain([0]))
            .collect();
        let mut found = Vec::new();
        if !input.is_empty() {
            let output = self.output(
                quiet_git(self.root, ["check-ignore", "-z", "--stdin"]),
                &input,
            )?;
            // 1 says that it ignores none.
            if !matches!(output.status.code(), Some(0 | 1)) {
                return Err(self.failure(&output));
            }
            found = output
                .stdout
                .split(|byte| *byte == 0)
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect();
            found.retain(|path: &String| !path.is_empty());
        }
        Ok(found.into_iter())
    }

    fn failure(&self, output: &Output) -> GuardError {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = if message.is_empty() {
            output.status.to_string()
        } else {
            message
        };
        GuardError::Git {
            root: self.root.to_path_buf(),
            message,
        }
    }
}

#[cfg(test)]
mod tests;
