//! Writes to the tree, all or nothing.
//!
//! The calls in order: [`guard`] says whether the tree can be put back by version control, [`roll_back`] undoes what a
//! run that was killed left half done, [`commit`] writes. A dry run asks [`pending`] in place of [`roll_back`].
//!
//! [`commit`] first looks whether everything can be written and still is what it was when it was read. Then it puts a
//! journal with all old bytes into git's own folder, all new files beside the old ones, and only then renames, one after
//! the other; the journal goes last. So each file is old or new at any moment, and as long as the journal is there, all
//! of it can be undone. A file with several hard links is written in place instead, so that it stays one file: there a
//! kill can leave a mixture of old and new, which the journal undoes like the rest.

pub mod disk;
pub mod git;
mod guard;
mod journal;
mod plan;
mod undo;

pub use guard::{DirtyFile, DirtyState, GuardError, GuardReport, guard};
pub use undo::{Pending, RolledBack, pending, roll_back, roll_back_on};

use disk::{Disk, LocalDisk};
use journal::{EntryKind, Journal, Place};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One file that is to become another, or to go. Paths are from the root, with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `before` are the bytes that were read, and that must still be there.
    Write {
        path: String,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    /// Folders that become empty by it go as well.
    Delete { path: String, before: Vec<u8> },
}

impl Change {
    /// The path from the root.
    pub fn path(&self) -> &str {
        match self {
            Self::Write { path, .. } | Self::Delete { path, .. } => path,
        }
    }

    fn before(&self) -> &[u8] {
        match self {
            Self::Write { before, .. } | Self::Delete { before, .. } => before,
        }
    }
}

/// What [`commit`] did; paths from the root, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    pub written: Vec<String>,
    pub deleted: Vec<String>,
    /// Folders that were empty then.
    pub removed_directories: Vec<String>,
}

/// Something that lacks the permission to be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedPath {
    /// From the root; `.` is the root itself.
    pub path: String,
    pub is_directory: bool,
}

/// What became of the tree after an error half way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aftermath {
    /// Nothing had been written yet, or it was put back.
    AsBefore,
    /// It could not be put back; the journal is still there for the next run.
    JournalLeft { journal: PathBuf, message: String },
}

impl fmt::Display for Aftermath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsBefore => f.write_str("nothing was written"),
            Self::JournalLeft { journal, message } => {
                write!(
                    f,
                    "and putting the files back failed: {message}; the journal `{}` keeps their old bytes for the next run",
                    journal.display()
                )
            }
        }
    }
}

/// Why nothing was written, or why the tree could not be put back.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("{} cannot be written; nothing was written{}", count(.paths.len(), "path"), list(.paths.iter().map(describe_locked)))]
    Locked { paths: Vec<LockedPath> },
    #[error("{} changed since this run read them; nothing was written{}", count(.paths.len(), "file"), list(.paths.iter().cloned()))]
    Changed {
        paths: Vec<String>,
        aftermath: Aftermath,
    },
    #[error("`{path}` leads out of the root to `{}`; nothing was written", target.display())]
    OutsideRoot { path: String, target: PathBuf },
    #[error(
        "`{first}` and `{second}` are the same file and were to become different ones; nothing was written"
    )]
    Conflict { first: String, second: String },
    #[error("cannot {action} `{}`: {source}; {aftermath}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
        aftermath: Aftermath,
    },
    #[error("a run before this one was killed while it wrote; its journal is `{}`", .0.journal.display())]
    Pending(Box<Pending>),
    #[error("another run (process {process}) is writing to this tree right now; its journal is `{}`", journal.display())]
    Running { process: u32, journal: PathBuf },
    #[error("{} changed since the run that was killed; nothing was put back{}", count(.paths.len(), "file"), list(.paths.iter().cloned()))]
    CannotRollBack {
        journal: PathBuf,
        paths: Vec<String>,
    },
    #[error("the journal `{}` cannot be understood: {message}", journal.display())]
    Journal { journal: PathBuf, message: String },
}

impl StageError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Locked { .. } => {
                "give write permission (`chmod u+w`), or leave the paths out with `--exclude`"
                    .to_owned()
            }
            Self::Changed { .. } => "run again once nothing else writes to the tree".to_owned(),
            Self::OutsideRoot { .. } => "name the folder that holds both as `--root`".to_owned(),
            Self::Conflict { .. } => "leave one of the two out with `--exclude`".to_owned(),
            Self::Io {
                aftermath: Aftermath::JournalLeft { .. },
                ..
            } => "see to the cause and run again; that puts the files back first".to_owned(),
            Self::Io { .. } => "see to the cause and run again".to_owned(),
            Self::Pending(_) => {
                "run without `--check` and `--diff`; that puts the files back first".to_owned()
            }
            Self::Running { .. } => "wait for it to end".to_owned(),
            Self::CannotRollBack { journal, .. } => {
                format!(
                    "put these files back (`git checkout`), or delete `{}` to keep the tree as it is",
                    journal.display()
                )
            }
            Self::Journal { journal, .. } => format!(
                "look at the tree with `git status`, then delete `{}`",
                journal.display()
            ),
        }
    }
}

/// Writes all changes, or none of them.
///
/// # Errors
///
/// Everything that [`StageError`] names; but for [`Aftermath::JournalLeft`] the tree is then as it was.
pub fn commit(root: &Path, changes: &[Change]) -> Result<Committed, StageError> {
    commit_on(&LocalDisk, root, changes)
}

/// [`commit`] on a disk of the caller's choice, which is how tests make the n-th operation fail.
///
/// # Errors
///
/// As [`commit`].
pub fn commit_on(
    disk: &dyn Disk,
    root: &Path,
    changes: &[Change],
) -> Result<Committed, StageError> {
    let root = fs::canonicalize(root).map_err(|source| before_anything("find", root, source))?;
    let place = Place::of(&root);
    if pending(&root)?.is_some() {
        return Err(blocked(&root, &place));
    }
    if changes.is_empty() {
        return Ok(Committed::default());
    }
    let journal = plan::plan(&root, &place, changes)?;
    let mut run = Run {
        disk,
        place: &place,
        journal: &journal,
        applied: 0,
    };
    // Whoever makes the journal may write, and no one else; one that is there already is not ours to remove.
    let done = match run.write_journal() {
        Err(Failure::Io(_, _, error)) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(blocked(&root, &place));
        }
        Err(failure) => Err(failure),
        Ok(()) => run.all(),
    };
    match done {
        Ok(()) => Ok(run.committed(&root)),
        Err(failure) => Err(run.undo(&root, failure)),
    }
}

/// What stopped a commit half way.
enum Failure {
    Io(&'static str, PathBuf, io::Error),
    Locked(Vec<PathBuf>),
    Changed(PathBuf),
}

/// A commit under way.
struct Run<'a> {
    disk: &'a dyn Disk,
    place: &'a Place,
    journal: &'a Journal,
    /// So many entries may have been written already.
    applied: usize,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        self.stage()?;
        for (index, entry) in self.journal.entries.iter().enumerate() {
            let path = self.place.base.join(&entry.path);
            let now = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(Failure::Changed(path));
                }
                other => other.map_err(|error| Failure::Io("read", path.clone(), error))?,
            };
            if now != entry.before {
                // A second name of a file that has been written already shows its new bytes.
                if entry.kind == EntryKind::InPlace && now == entry.after {
                    continue;
                }
                return Err(Failure::Changed(path));
            }
            self.applied = index + 1;
            self.apply(entry, &path)?;
        }
        for directory in self.journal.directories.iter().rev() {
            let path = self.place.base.join(&directory.path);
            match self.disk.remove_dir(&path) {
                // Something was put into it in the meantime.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                other => other.map_err(|error| Failure::Io("remove the folder", path, error))?,
            }
        }
        for directory in self.folders() {
            if directory.is_dir() {
                self.disk
                    .sync(&directory)
                    .map_err(|error| Failure::Io("flush the folder", directory, error))?;
            }
        }
        let journal = &self.place.journal;
        self.place
            .remove_journal(self.disk)
            .map_err(|error| Failure::Io("remove the journal", journal.clone(), error))
    }

    fn write_journal(&self) -> Result<(), Failure> {
        let path = &self.place.journal;
        let fail = |error| Failure::Io("write the journal", path.clone(), error);
        if let Some(directory) = &self.place.own_directory {
            match self.disk.create_dir(directory, None) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.map_err(fail)?,
            }
        }
        self.disk
            .create(path, &self.journal.to_bytes(), None)
            .map_err(fail)?;
        self.disk.sync(path).map_err(fail)?;
        path.parent()
            .map_or(Ok(()), |directory| self.disk.sync(directory))
            .map_err(fail)
    }

    /// Puts all new files beside the old ones and waits until the disk has them.
    fn stage(&self) -> Result<(), Failure> {
        let mut locked = BTreeSet::new();
        let written = || {
            self.journal
                .entries
                .iter()
                .filter(|entry| entry.kind == EntryKind::Write)
        };
        for entry in written() {
            let temporary = self.place.base.join(&entry.temporary);
            match self
                .disk
                .create(&temporary, &entry.after, Some(&entry.attributes))
            {
                Err(error) if plan::is_refusal(&error) => {
                    locked.insert(temporary.parent().unwrap_or(&temporary).to_path_buf());
                }
                other => other.map_err(|error| Failure::Io("write", temporary, error))?,
            }
        }
        if !locked.is_empty() {
            return Err(Failure::Locked(locked.into_iter().collect()));
        }
        for entry in written() {
            let temporary = self.place.base.join(&entry.temporary);
            self.disk
                .sync(&temporary)
                .map_err(|error| Failure::Io("flush", temporary, error))?;
        }
        Ok(())
    }

    fn apply(&self, entry: &journal::Entry, path: &Path) -> Result<(), Failure> {
        let temporary = self.place.base.join(&entry.temporary);
        let (action, done) = match entry.kind {
            EntryKind::Write => ("replace", self.disk.rename(&temporary, path)),
            EntryKind::InPlace => ("write", self.disk.overwrite(path, &entry.after)),
            EntryKind::Delete => ("delete", self.disk.remove_file(path)),
        };
        done.map_err(|error| Failure::Io(action, path.to_path_buf(), error))
    }

    /// The folders in which something was renamed or deleted.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let paths = self
            .journal
            .entries
            .iter()
            .map(|entry| self.place.base.join(&entry.path));
        paths
            .filter_map(|path| path.parent().map(Path::to_path_buf))
            .collect()
    }

    fn committed(&self, root: &Path) -> Committed {
        let from_root = |path: &str| plan::shown(root, &self.place.base.join(path));
        let of = |delete: bool| {
            self.journal
                .entries
                .iter()
                .filter(move |entry| (entry.kind == EntryKind::Delete) == delete)
        };
        let mut committed = Committed {
            written: of(false).map(|entry| from_root(&entry.path)).collect(),
            deleted: of(true).map(|entry| from_root(&entry.path)).collect(),
            removed_directories: self
                .journal
                .directories
                .iter()
                .map(|directory| from_root(&directory.path))
                .collect(),
        };
        committed
            .removed_directories
            .retain(|directory| !root.join(directory).exists());
        for list in [
            &mut committed.written,
            &mut committed.deleted,
            &mut committed.removed_directories,
        ] {
            list.sort();
        }
        committed
    }

    /// Puts everything back and says what happened.
    fn undo(&self, root: &Path, failure: Failure) -> StageError {
        let aftermath = match undo::restore(self.disk, self.place, self.journal, Some(self.applied))
        {
            Ok(_) => Aftermath::AsBefore,
            Err(error) => Aftermath::JournalLeft {
                journal: self.place.journal.clone(),
                message: error.to_string(),
            },
        };
        match failure {
            Failure::Io(action, path, source) => StageError::Io {
                action,
                path,
                source,
                aftermath,
            },
            Failure::Changed(path) => StageError::Changed {
                paths: vec![plan::shown(root, &path)],
                aftermath,
            },
            Failure::Locked(directories) => StageError::Locked {
                paths: directories
                    .iter()
                    .map(|path| LockedPath {
                        path: plan::shown(root, path),
                        is_directory: true,
                    })
                    .collect(),
            },
        }
    }
}

/// A journal is in the way.
fn blocked(root: &Path, place: &Place) -> StageError {
    match pending(root) {
        Err(error) => error,
        Ok(Some(Pending {
            journal,
            running: Some(process),
            ..
        })) => StageError::Running { process, journal },
        Ok(Some(found)) => StageError::Pending(Box::new(found)),
        // It has just gone.
        Ok(None) => StageError::Pending(Box::new(Pending {
            journal: place.journal.clone(),
            files: Vec::new(),
            running: None,
        })),
    }
}

fn before_anything(action: &'static str, path: &Path, source: io::Error) -> StageError {
    StageError::Io {
        action,
        path: path.to_path_buf(),
        source,
        aftermath: Aftermath::AsBefore,
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 {
        format!("1 {what}")
    } else {
        format!("{number} {what}s")
    }
}

fn list(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| format!("\n  {line}")).collect()
}

fn describe_locked(locked: &LockedPath) -> String {
    format!(
        "{} ({})",
        locked.path,
        if locked.is_directory {
            "read-only folder"
        } else {
            "read-only file"
        }
    )
}

#[cfg(test)]
mod tests;
