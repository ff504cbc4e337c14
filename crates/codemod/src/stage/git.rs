//! Where git's data lie, and how git is asked without side effects.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A git work tree, found without starting git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Top of the work tree.
    pub work_tree: PathBuf,
    /// What `git rev-parse --absolute-git-dir` says; each linked work tree has its own.
    pub git_dir: PathBuf,
    /// The folder that all linked work trees share; `info/exclude` lies there.
    pub common_dir: PathBuf,
}

impl Repository {
    /// Looks for the work tree that `directory` (absolute) lies in: `directory` itself or one of the folders above.
    pub fn discover(directory: &Path) -> Option<Self> {
        directory.ancestors().find_map(Self::at)
    }

    /// The work tree whose top is `directory`, if it is one.
    pub fn at(directory: &Path) -> Option<Self> {
        let dot_git = directory.join(".git");
        let git_dir = if dot_git.is_dir() {
            dot_git
        } else {
            // A linked work tree or a submodule: a file with one line, relative to the folder that it lies in.
            let text = fs::read_to_string(&dot_git).ok()?;
            directory.join(text.strip_prefix("gitdir:")?.trim())
        };
        // An empty folder named `.git` is no repository for git either.
        if !git_dir.join("HEAD").exists() && fs::symlink_metadata(git_dir.join("HEAD")).is_err() {
            return None;
        }
        let common_dir = match fs::read_to_string(git_dir.join("commondir")) {
            Ok(text) => git_dir.join(text.trim()),
            Err(_) => git_dir.clone(),
        };
        Some(Self {
            work_tree: directory.to_path_buf(),
            git_dir,
            common_dir,
        })
    }
}

/// A git command in `directory` that takes no optional lock, starts no hook and no file system monitor, and asks nothing.
///
/// Variables that a surrounding git sets for its own hooks are removed, as they would point at another repository.
pub fn quiet_git<I, S>(directory: &Path, arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new("git");
    command.arg("--no-optional-locks");
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.pager=cat",
    ] {
        command.args(["-c", setting]);
    }
    command.arg("-C").arg(directory).args(arguments);
    for variable in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_PREFIX",
    ] {
        command.env_remove(variable);
    }
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C");
    command.stdin(std::process::Stdio::null());
    command
}
