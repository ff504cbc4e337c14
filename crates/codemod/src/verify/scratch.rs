//! A copy of a tree to compile: kept from run to run, so that only what changed is copied and compiled again.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::manifest::{self, Manifests};
use super::{Substitutions, VerifyError};
use crate::plan::Change;

/// Files from this size on are linked, not copied: weights and recordings, which compiling only reads.
const LINKED_BYTES: u64 = 8 << 20;

/// A copy of a tree.
#[derive(Debug)]
pub struct Scratch {
    /// Root of the tree that is copied.
    original: PathBuf,
    root: PathBuf,
    target: PathBuf,
    /// Folders of workspaces and of packages on their own, from the root with `/`; `.` is the root, and comes first.
    workspaces: Vec<String>,
}

impl Scratch {
    /// Copies `original` to a folder below `home`, or brings the copy there up to date.
    ///
    /// Build results, version control and what other tools download stay out; files that git ignores are copied, as
    /// compiling may need them.
    ///
    /// # Errors
    ///
    /// If something cannot be read or written, or the root is a member of a workspace that lies above it.
    pub fn create(original: &Path, home: &Path) -> Result<Self, VerifyError> {
        let original = fs::canonicalize(original).map_err(io_error("find", original))?;
        fs::create_dir_all(home).map_err(io_error("create the folder", home))?;
        let home = fs::canonicalize(home).map_err(io_error("find", home))?;
        manifest::refuse_outer_workspace(&original)?;
        let mut scratch = Self {
            original,
            root: home.join("tree"),
            target: home.join("target"),
            workspaces: Vec::new(),
        };
        scratch.reset()?;
        Ok(scratch)
    }

    /// The root of the copy.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> &Path {
        &self.target
    }

    pub(super) fn workspaces(&self) -> impl Iterator<Item = &str> {
        self.workspaces.iter().map(String::as_str)
    }

    /// The path from the root with `/`, if it lies in the copy.
    pub(super) fn relative(&self, path: &Path) -> Option<String> {
        let path = normalize(path);
        let relative = path.strip_prefix(&self.root).ok()?;
        Some(relative.to_str()?.replace('\\', "/"))
    }

    /// Makes the copy equal to the tree again, but for what lets it be compiled elsewhere: paths in manifests that lead out
    /// of the tree are written out.
    ///
    /// # Errors
    ///
    /// If something cannot be read or written.
    pub fn reset(&mut self) -> Result<(), VerifyError> {
        let mut wanted = BTreeMap::new();
        for entry in WalkDir::new(&self.original)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| self.is_copied(entry))
        {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(&self.original).to_path_buf();
                VerifyError::Io {
                    what: "read",
                    path,
                    source: error.into(),
                }
            })?;
            let relative = entry
                .path()
                .strip_prefix(&self.original)
                .expect("walks below the root")
                .to_path_buf();
            wanted.insert(relative, entry.file_type());
        }
        self.remove_others(&wanted)?;
        for (relative, kind) in &wanted {
            let (from, to) = (self.original.join(relative), self.root.join(relative));
            if kind.is_dir() {
                fs::create_dir_all(&to).map_err(io_error("create the folder", &to))?;
            } else if kind.is_symlink() {
                self.copy_link(&from, &to)?;
            } else if kind.is_file() {
                self.copy_file(&from, &to)?;
            }
        }
        let manifests = Manifests::read(&self.root)?;
        self.workspaces = manifests.workspaces();
        manifests
            .point_outside_from(&self.original)
            .write(&self.root)
    }

    /// Writes the changes into the copy.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), VerifyError> {
        for change in changes {
            let path = self.root.join(change.path());
            match change {
                // Manifests in the copy are not quite those of the tree.
                Change::Write {
                    after, path: name, ..
                } if name == "Cargo.toml" || name.ends_with("/Cargo.toml") => {
                    write_if_changed(&path, after)?;
                    Manifests::read(&self.root)?
                        .point_outside_from(&self.original)
                        .write(&self.root)?;
                }
                Change::Write { after, .. } => write_if_changed(&path, after)?,
                Change::Delete { .. } => remove(&path)?,
            }
        }
        Ok(())
    }

    /// Puts other packages and features in place; returns what was done: file and sentence.
    ///
    /// # Errors
    ///
    /// If a manifest cannot be understood or written.
    pub fn substitute(
        &mut self,
        substitutions: &Substitutions,
    ) -> Result<Vec<(String, String)>, VerifyError> {
        let (manifests, notes) = Manifests::read(&self.root)?.substitute(substitutions);
        self.workspaces = manifests.workspaces();
        manifests.write(&self.root)?;
        Ok(notes)
    }

    fn is_copied(&self, entry: &DirEntry) -> bool {
        if entry.depth() == 0 || !entry.file_type().is_dir() {
            return true;
        }
        let name = entry.file_name();
        let is_build = name == "target"
            && (entry.path().join("CACHEDIR.TAG").exists()
                || entry.path().with_file_name("Cargo.toml").exists());
        name != ".git"
            && name != ".hg"
            && name != ".jj"
            && name != "node_modules"
            && !is_build
            && !self.root.starts_with(entry.path())
    }

    /// Removes from the copy what the tree does not hold, or holds as something else.
    fn remove_others(&self, wanted: &BTreeMap<PathBuf, fs::FileType>) -> Result<(), VerifyError> {
        if !self.root.exists() {
            return Ok(());
        }
        let mut walk = WalkDir::new(&self.root).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            let entry = entry.map_err(|error| VerifyError::Io {
                what: "read",
                path: self.root.clone(),
                source: error.into(),
            })?;
            let relative = entry
                .path()
                .strip_prefix(&self.root)
                .expect("walks below the root");
            let is_dir = entry.file_type().is_dir();
            match wanted.get(relative) {
                Some(kind) if kind.is_dir() == is_dir => {}
                // A lock file that cargo wrote spares the next run from resolving again.
                None if relative
                    .file_name()
                    .is_some_and(|name| name == "Cargo.lock")
                    && !is_dir => {}
                _ if is_dir => {
                    walk.skip_current_dir();
                    fs::remove_dir_all(entry.path()).map_err(io_error("remove", entry.path()))?;
                }
                _ => remove(entry.path())?,
            }
        }
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<(), VerifyError> {
        let metadata = fs::metadata(from).map_err(io_error("read", from))?;
        if cfg!(unix) && metadata.len() >= LINKED_BYTES {
            return link(from, to);
        }
        let content = fs::read(from).map_err(io_error("read", from))?;
        write_if_changed(to, &content)?;
        copy_mode(&metadata, to)
    }

    fn copy_link(&self, from: &Path, to: &Path) -> Result<(), VerifyError> {
        let Ok(target) = fs::canonicalize(from) else {
            // A link to nothing is not read by what compiles in the tree.
            return Ok(());
        };
        match target.strip_prefix(&self.original) {
            Ok(inside) => link(&self.root.join(inside), to),
            Err(_) => link(&target, to),
        }
    }
}

/// Keeps the old file, and with it its time, where the content is the same: cargo compiles again what is newer.
pub(super) fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), VerifyError> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file && fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    // Not over a link: that would write what it points at.
    remove(path)?;
    fs::write(path, content).map_err(io_error("write", path))
}

#[cfg(unix)]
fn copy_mode(metadata: &Metadata, to: &Path) -> Result<(), VerifyError> {
    use std::os::unix::fs::PermissionsExt;
    // Scripts stay executable; the copy is always writable, as it is brought up to date later.
    let mode = metadata.permissions().mode() & 0o777 | 0o600;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
        .map_err(io_error("set the mode of", to))
}

#[cfg(not(unix))]
fn copy_mode(_: &Metadata, _: &Path) -> Result<(), VerifyError> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> Result<(), VerifyError> {
    if fs::read_link(at).is_ok_and(|old| old == target) {
        return Ok(());
    }
    remove(at)?;
    std::os::unix::fs::symlink(target, at).map_err(io_error("link", at))
}

/// Links need a privilege on some systems; a copy of a file serves as well, and folders are left out.
#[cfg(not(unix))]
fn link(target: &Path, at: &Path) -> Result<(), VerifyError> {
    if target.is_file() {
        fs::copy(target, at)
            .map(|_| ())
            .map_err(io_error("copy", target))
    } else {
        Ok(())
    }
}

fn remove(path: &Path) -> Result<(), VerifyError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path)(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VerifyError {
    move |source| VerifyError::Io {
        what,
        path: path.to_path_buf(),
        source,
    }
}

/// Takes `.` and `..` out by the names alone; the copy's own links are all absolute.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
