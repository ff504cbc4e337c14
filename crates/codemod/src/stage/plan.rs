//! Looks at everything that is to be written before anything is.

use super::disk::Attributes;
use super::journal::{Directory, Entry, EntryKind, Journal, Place};
use super::{Change, LockedPath, StageError, before_anything};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Makes the journal of a commit, or says why there can be none.
pub(super) fn plan(root: &Path, place: &Place, changes: &[Change]) -> Result<Journal, StageError> {
    let mut files = resolve(root, changes)?;
    // Deletions come last: until then a kill leaves a tree in which every file is there.
    files.sort_by_key(|file| matches!(file.change, Change::Delete { .. }));
    let directories = emptied(root, &files);
    let locked = locked(root, &files, &directories);
    if !locked.is_empty() {
        return Err(StageError::Locked {
            paths: locked.into_iter().collect(),
        });
    }
    let changed: Vec<_> = files
        .iter()
        .filter(|file| !file.is_unchanged())
        .map(|file| shown(root, &file.path))
        .collect();
    if !changed.is_empty() {
        return Err(StageError::Changed {
            paths: changed,
            aftermath: super::Aftermath::AsBefore,
        });
    }
    let entries = entries(place, &files)?;
    let mut recorded = Vec::new();
    for path in &directories {
        let metadata = fs::metadata(path).map_err(|error| before_anything("read", path, error))?;
        recorded.push(Directory {
            path: from_base(place, path)?,
            attributes: Attributes::of(&metadata),
        });
    }
    Ok(Journal::new(
        place.own_directory.is_some(),
        entries,
        recorded,
    ))
}

/// A change with the file that it really means.
struct File<'a> {
    change: &'a Change,
    path: PathBuf,
    metadata: Metadata,
}

impl File<'_> {
    fn is_unchanged(&self) -> bool {
        fs::read(&self.path).is_ok_and(|bytes| bytes == self.change.before())
    }

    fn after(&self) -> Option<&[u8]> {
        match self.change {
            Change::Write { after, .. } => Some(after),
            Change::Delete { .. } => None,
        }
    }
}

/// Follows links, and finds files that are meant twice.
fn resolve<'a>(root: &Path, changes: &'a [Change]) -> Result<Vec<File<'a>>, StageError> {
    let mut files: Vec<File<'a>> = Vec::new();
    let mut by_identity: BTreeMap<Identity, usize> = BTreeMap::new();
    let mut gone = Vec::new();
    for change in changes {
        let named = root.join(change.path());
        let path = match fs::canonicalize(&named) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                gone.push(change.path().to_owned());
                continue;
            }
            Err(error) => return Err(before_anything("find", &named, error)),
        };
        if !path.starts_with(root) {
            return Err(StageError::OutsideRoot {
                path: change.path().to_owned(),
                target: path,
            });
        }
        let metadata =
            fs::metadata(&path).map_err(|error| before_anything("read", &path, error))?;
        let file = File {
            change,
            metadata,
            path,
        };
        if let Some(first) = by_identity
            .insert(identity(&file), files.len())
            .map(|at| &files[at])
        {
            if first.after() != file.after() {
                return Err(StageError::Conflict {
                    first: first.change.path().to_owned(),
                    second: change.path().to_owned(),
                });
            }
            // Another path to the same file is nothing more to do; another name of it is, when it is deleted.
            if first.path == file.path {
                continue;
            }
        }
        files.push(file);
    }
    if gone.is_empty() {
        Ok(files)
    } else {
        Err(StageError::Changed {
            paths: gone,
            aftermath: super::Aftermath::AsBefore,
        })
    }
}

/// Tells files apart whatever their names.
type Identity = (u64, u64, PathBuf);

#[cfg(unix)]
fn identity(file: &File<'_>) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.metadata.dev(), file.metadata.ino(), PathBuf::new())
}

#[cfg(not(unix))]
fn identity(file: &File<'_>) -> Identity {
    (0, 0, file.path.clone())
}

#[cfg(unix)]
fn has_other_names(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.nlink() > 1
}

#[cfg(not(unix))]
fn has_other_names(_metadata: &Metadata) -> bool {
    false
}

/// Folders below the root that hold nothing but what is deleted, parents before children.
fn emptied(root: &Path, files: &[File<'_>]) -> Vec<PathBuf> {
    let mut going: BTreeSet<PathBuf> = files
        .iter()
        .filter(|file| file.after().is_none())
        .map(|file| file.path.clone())
        .collect();
    let mut candidates: Vec<PathBuf> = going
        .iter()
        .flat_map(|file| {
            file.ancestors()
                .skip(1)
                .take_while(|folder| *folder != root)
        })
        .map(Path::to_path_buf)
        .collect();
    candidates.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    candidates.dedup();
    let mut emptied = Vec::new();
    for folder in candidates {
        let holds_nothing_else = fs::read_dir(&folder).is_ok_and(|entries| {
            entries
                .into_iter()
                .all(|entry| entry.is_ok_and(|entry| going.contains(&entry.path())))
        });
        if holds_nothing_else && going.insert(folder.clone()) {
            emptied.push(folder);
        }
    }
    emptied.sort();
    emptied
}

/// Everything that may not be written, files and folders, by trying and by permission bits.
///
/// The system lets root write anything, so that for root the bits alone say what someone wanted left alone. They say
/// nothing where they do not tell one file from another: a copy of a read-only folder is read-only throughout.
fn locked(root: &Path, files: &[File<'_>], emptied: &[PathBuf]) -> BTreeSet<LockedPath> {
    let is_marked =
        |path: &Path| fs::metadata(path).is_ok_and(|metadata| owner_may_not_write(&metadata));
    let is_file_marked = |file: &File<'_>| {
        owner_may_not_write(&file.metadata) || file.path.parent().is_some_and(is_marked)
    };
    let bits_count = !is_marked(root) && !files.iter().all(is_file_marked);
    let mut locked = BTreeSet::new();
    let mut folders: BTreeSet<&Path> = emptied
        .iter()
        .filter_map(|folder| folder.parent())
        .collect();
    for file in files {
        let in_place = file.after().is_some() && has_other_names(&file.metadata);
        if !in_place {
            folders.extend(file.path.parent());
        }
        let refused = OpenOptions::new()
            .write(true)
            .open(&file.path)
            .is_err_and(|error| is_refusal(&error));
        if refused || bits_count && owner_may_not_write(&file.metadata) {
            locked.insert(LockedPath {
                path: shown(root, &file.path),
                is_directory: false,
            });
        }
    }
    // Whether the system lets a file be made in a folder shows when the first one is, before anything is replaced.
    for folder in folders
        .into_iter()
        .filter(|folder| bits_count && is_marked(folder))
    {
        locked.insert(LockedPath {
            path: shown(root, folder),
            is_directory: true,
        });
    }
    locked
}

/// The owner's bit, whoever asks.
#[cfg(unix)]
fn owner_may_not_write(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o200 == 0
}

#[cfg(not(unix))]
fn owner_may_not_write(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().readonly()
}

/// The system says that this may not be written, rather than that it did not work out.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn entries(place: &Place, files: &[File<'_>]) -> Result<Vec<Entry>, StageError> {
    let since_1970 = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let tag = format!("{:x}-{:x}", std::process::id(), since_1970.as_nanos());
    let mut entries = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let path = from_base(place, &file.path)?;
        // In the same folder, as a rename must not cross file systems; no `.rs`, so that nothing takes it for a module.
        let name = format!(".migrate-{tag}-{index}.tmp");
        let temporary = path
            .rsplit_once('/')
            .map_or(name.clone(), |(folder, _)| format!("{folder}/{name}"));
        let (kind, after) = match file.after() {
            None => (EntryKind::Delete, &[][..]),
            Some(after) if has_other_names(&file.metadata) => (EntryKind::InPlace, after),
            Some(after) => (EntryKind::Write, after),
        };
        entries.push(Entry {
            kind,
            path,
            temporary,
            attributes: Attributes::of(&file.metadata),
            before: file.change.before().to_vec(),
            after: after.to_vec(),
        });
    }
    Ok(entries)
}

fn from_base(place: &Place, path: &Path) -> Result<String, StageError> {
    let relative = path.strip_prefix(&place.base).ok().and_then(Path::to_str);
    let fail = || {
        before_anything(
            "name",
            path,
            io::Error::new(io::ErrorKind::InvalidFilename, "the path is not UTF-8"),
        )
    };
    Ok(relative
        .ok_or_else(fail)?
        .replace(std::path::MAIN_SEPARATOR, "/"))
}

/// A path as a message shows it: from the root, with `/`.
pub(super) fn shown(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    if relative.is_empty() {
        ".".to_owned()
    } else {
        relative.replace(std::path::MAIN_SEPARATOR, "/")
    }
}
