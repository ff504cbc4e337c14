//! The few operations that change a disk, so that tests can make each of them fail.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What of a file is kept besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Attributes {
    /// Permission bits; 0 where the system has none.
    pub mode: u32,
    /// User and group.
    pub owner: Option<(u32, u32)>,
}

impl Attributes {
    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            mode: metadata.mode() & 0o7777,
            owner: Some((metadata.uid(), metadata.gid())),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(_metadata: &Metadata) -> Self {
        Self {
            mode: 0,
            owner: None,
        }
    }
}

/// Operations that change a disk. Each either happens or fails, but for what [`Disk::create`] and [`Disk::overwrite`] say.
pub trait Disk {
    /// Writes a file that must not be there yet. A failure can leave a part of it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn create(&self, path: &Path, bytes: &[u8], attributes: Option<&Attributes>) -> io::Result<()>;

    /// Writes into a file that is there. A failure can leave old bytes behind new ones.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until a file's bytes or a folder's entries are on the disk.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Puts a file in another one's place.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder in one that is there.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn create_dir(&self, path: &Path, attributes: Option<&Attributes>) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
}

/// The disk as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create(&self, path: &Path, bytes: &[u8], attributes: Option<&Attributes>) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        attributes.map_or(Ok(()), |attributes| apply(path, attributes))
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        // Elsewhere a folder cannot be opened, and a file only for writing.
        if cfg!(unix) {
            File::open(path)?.sync_all()
        } else {
            Ok(())
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path, attributes: Option<&Attributes>) -> io::Result<()> {
        fs::create_dir(path)?;
        attributes.map_or(Ok(()), |attributes| apply(path, attributes))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

#[cfg(unix)]
fn apply(path: &Path, attributes: &Attributes) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    if let Some((user, group)) = attributes.owner {
        let now = fs::metadata(path)?;
        if (now.uid(), now.gid()) != (user, group) {
            // Only root can give a file away. Where that is refused the file is the caller's, as after any edit; the
            // permission bits come second, as a change of owner clears some.
            let _ =
                chown(path, Some(user), Some(group)).or_else(|_| chown(path, None, Some(group)));
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode))
}

#[cfg(not(unix))]
fn apply(_path: &Path, _attributes: &Attributes) -> io::Result<()> {
    Ok(())
}

/// How a [`FaultyDisk`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One operation fails, the later ones are fine.
    Once,
    /// From there on nothing happens any more, as if the process had been killed.
    Kill,
    /// From there on nothing can be written, while renaming and removing are fine.
    Full,
    /// From there on no file may be made, as in a folder of another user.
    Denied,
}

/// A disk that fails at its n-th operation, for tests. What fails to be written is left half written.
#[derive(Debug)]
pub struct FaultyDisk {
    fault: Fault,
    /// Counts from 0.
    at: usize,
    calls: AtomicUsize,
}

impl FaultyDisk {
    /// Fails at operation `at`, the first being 0.
    pub fn new(fault: Fault, at: usize) -> Self {
        Self {
            fault,
            at,
            calls: AtomicUsize::new(0),
        }
    }

    /// How many operations were asked for.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// `Err` if this operation has to fail; the value inside says whether a part of its bytes is written all the same.
    fn step(&self, writes: bool) -> Result<(), bool> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = match self.fault {
            Fault::Once => call == self.at,
            Fault::Kill => call >= self.at,
            Fault::Full | Fault::Denied => call >= self.at && writes,
        };
        if fails {
            Err(self.fault == Fault::Full || call == self.at && self.fault != Fault::Denied)
        } else {
            Ok(())
        }
    }

    fn error(&self) -> io::Error {
        match self.fault {
            Fault::Denied => io::Error::from(io::ErrorKind::PermissionDenied),
            Fault::Once | Fault::Kill | Fault::Full => io::Error::other("injected fault"),
        }
    }

    fn plain(&self, action: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.step(false).map_err(|_| self.error())?;
        action()
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path, bytes: &[u8], attributes: Option<&Attributes>) -> io::Result<()> {
        self.step(true).map_err(|torn| {
            if torn {
                let _ = LocalDisk.create(path, &bytes[..bytes.len() / 2], attributes);
            }
            self.error()
        })?;
        LocalDisk.create(path, bytes, attributes)
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(true).map_err(|torn| {
            if torn && let Ok(mut file) = OpenOptions::new().write(true).open(path) {
                let _ = file.write_all(&bytes[..bytes.len() / 2]);
            }
            self.error()
        })?;
        LocalDisk.overwrite(path, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.plain(|| LocalDisk.sync(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.plain(|| LocalDisk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.plain(|| LocalDisk.remove_file(path))
    }

    fn create_dir(&self, path: &Path, attributes: Option<&Attributes>) -> io::Result<()> {
        self.plain(|| LocalDisk.create_dir(path, attributes))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.plain(|| LocalDisk.remove_dir(path))
    }
}
