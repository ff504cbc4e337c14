//! Puts the tree back to what a journal says it was.

use super::disk::{Disk, LocalDisk};
use super::journal::{Entry, EntryKind, Found, Journal, Place};
use super::{StageError, before_anything};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A commit that did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub journal: PathBuf,
    /// Files that it may have changed, from the top of the work tree (from the root where there is none), sorted.
    pub files: Vec<String>,
    /// The process that writes right now; `None` if it is no more.
    pub running: Option<u32>,
}

/// What [`roll_back`] put back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// From the top of the work tree (from the root where there is none), sorted.
    pub restored: Vec<String>,
}

/// Looks for the journal of a run that was killed. Changes nothing.
///
/// # Errors
///
/// If the root cannot be found or the journal not be read.
pub fn pending(root: &Path) -> Result<Option<Pending>, StageError> {
    let (place, found) = find(root)?;
    let (files, running) = match found {
        Found::Nothing => return Ok(None),
        Found::Unfinished => (Vec::new(), None),
        Found::Journal(journal) => {
            let mut files: Vec<_> = journal
                .entries
                .iter()
                .map(|entry| entry.path.clone())
                .collect();
            files.sort();
            (files, journal.running())
        }
    };
    Ok(Some(Pending {
        journal: place.journal,
        files,
        running,
    }))
}

/// Puts back what a run that was killed left half done; `None` if there was no such run.
///
/// # Errors
///
/// If that run is still alive, a file is neither what it was nor what it was to become (nothing is put back then), or the
/// disk fails; the journal stays in each of these cases.
pub fn roll_back(root: &Path) -> Result<Option<RolledBack>, StageError> {
    roll_back_on(&LocalDisk, root)
}

/// [`roll_back`] on a disk of the caller's choice.
///
/// # Errors
///
/// As [`roll_back`].
pub fn roll_back_on(disk: &dyn Disk, root: &Path) -> Result<Option<RolledBack>, StageError> {
    let (place, found) = find(root)?;
    match found {
        Found::Nothing => Ok(None),
        Found::Unfinished => {
            place
                .remove_journal(disk)
                .map_err(|source| before_anything("remove", &place.journal, source))?;
            Ok(Some(RolledBack::default()))
        }
        Found::Journal(journal) => {
            if let Some(process) = journal.running() {
                return Err(StageError::Running {
                    process,
                    journal: place.journal,
                });
            }
            restore(disk, &place, &journal, None).map(Some)
        }
    }
}

fn find(root: &Path) -> Result<(Place, Found), StageError> {
    let root = fs::canonicalize(root).map_err(|source| before_anything("find", root, source))?;
    let mut place = Place::of(&root);
    let found = Journal::read(&place.journal).map_err(|message| StageError::Journal {
        journal: place.journal.clone(),
        message,
    })?;
    place.own_directory = match &found {
        Found::Journal(journal) if journal.made_directory => {
            place.journal.parent().map(Path::to_path_buf)
        }
        // It does not say; a folder is only ever removed if it is empty.
        Found::Unfinished => place
            .journal
            .parent()
            .filter(|folder| **folder == root.join("target"))
            .map(Path::to_path_buf),
        _ => None,
    };
    Ok((place, found))
}

/// What is to be done for one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Old,
    New,
    /// Neither: someone else was at it.
    Other,
}

/// Puts all entries back and removes the journal.
///
/// `applied` is how many entries the run itself had come to, where it is still there to say so: the others were not
/// touched, whatever they hold by now.
pub(super) fn restore(
    disk: &dyn Disk,
    place: &Place,
    journal: &Journal,
    applied: Option<usize>,
) -> Result<RolledBack, StageError> {
    let mine = &journal.entries[..applied.unwrap_or(journal.entries.len())];
    let states: Vec<_> = mine
        .iter()
        .map(|entry| state(&place.base.join(&entry.path), entry))
        .collect::<io::Result<_>>()
        .map_err(|source| StageError::Journal {
            journal: place.journal.clone(),
            message: source.to_string(),
        })?;
    let others: Vec<_> = mine
        .iter()
        .zip(&states)
        .filter(|(_, state)| **state == State::Other)
        .map(|(entry, _)| entry.path.clone())
        .collect();
    if !others.is_empty() && applied.is_none() {
        return Err(StageError::CannotRollBack {
            journal: place.journal.clone(),
            paths: others,
        });
    }
    // First, as that makes room on a full disk.
    for entry in &journal.entries {
        let temporary = place.base.join(&entry.temporary);
        remove_if_there(disk, &temporary)?;
    }
    for directory in &journal.directories {
        let path = place.base.join(&directory.path);
        if !path.is_dir() {
            disk.create_dir(&path, Some(&directory.attributes))
                .map_err(|source| before_anything("make the folder", &path, source))?;
        }
    }
    let mut restored = Vec::new();
    for (entry, state) in mine.iter().zip(&states) {
        if *state == State::New {
            put_back(disk, place, entry)?;
            restored.push(entry.path.clone());
        }
    }
    if !others.is_empty() {
        return Err(StageError::CannotRollBack {
            journal: place.journal.clone(),
            paths: others,
        });
    }
    if place.journal.exists() {
        place
            .remove_journal(disk)
            .map_err(|source| before_anything("remove", &place.journal, source))?;
    } else if let Some(directory) = &place.own_directory
        && directory.is_dir()
    {
        let _ = disk.remove_dir(directory);
    }
    restored.sort();
    Ok(RolledBack { restored })
}

fn state(path: &Path, entry: &Entry) -> io::Result<State> {
    let now = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(if entry.kind == EntryKind::Delete {
                State::New
            } else {
                State::Other
            });
        }
        Err(error) => return Err(error),
    };
    Ok(if now == entry.before {
        State::Old
    } else if entry.kind == EntryKind::Write && now == entry.after
        || entry.kind == EntryKind::InPlace && is_mixture(&now, entry)
    {
        State::New
    } else {
        State::Other
    })
}

/// The file is what a write in place leaves, wherever it was stopped: new bytes, then old ones. Putting it back is such a
/// write, too, the other way round.
fn is_mixture(now: &[u8], entry: &Entry) -> bool {
    is_half_written(now, &entry.before, &entry.after)
        || is_half_written(now, &entry.after, &entry.before)
}

fn is_half_written(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let done = now
        .iter()
        .zip(new)
        .take_while(|(now, new)| now == new)
        .count();
    let is_all = done == now.len() && (done == new.len() || done >= old.len());
    is_all || now.get(done..) == old.get(done..)
}

fn put_back(disk: &dyn Disk, place: &Place, entry: &Entry) -> Result<(), StageError> {
    let path = place.base.join(&entry.path);
    let fail = |source| before_anything("put back", &path, source);
    if entry.kind == EntryKind::InPlace {
        return disk.overwrite(&path, &entry.before).map_err(fail);
    }
    let temporary = place.base.join(&entry.temporary);
    disk.create(&temporary, &entry.before, Some(&entry.attributes))
        .map_err(fail)?;
    disk.sync(&temporary).map_err(fail)?;
    disk.rename(&temporary, &path).map_err(fail)
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), StageError> {
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    disk.remove_file(path)
        .map_err(|source| before_anything("remove", path, source))
}
