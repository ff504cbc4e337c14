//! The record of a commit under way: what was there, what is to be there, and who is at it.
//!
//! One line of JSON, then for each entry its old and its new bytes, then a line with a checksum. A journal without that
//! line was never finished, so nothing had been written yet.

use super::disk::{Attributes, Disk};
use super::git::Repository;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the journal of a tree lies.
#[derive(Debug)]
pub(super) struct Place {
    /// What the journal's paths start from: the top of the work tree, else the root.
    pub(super) base: PathBuf,
    pub(super) journal: PathBuf,
    /// The folder that has to be made for it.
    pub(super) own_directory: Option<PathBuf>,
}

impl Place {
    /// `root` is absolute and without links.
    pub(super) fn of(root: &Path) -> Self {
        const NAME: &str = "migrate-journal";
        if let Some(repository) = Repository::discover(root) {
            return Self {
                base: repository.work_tree,
                journal: repository.git_dir.join(NAME),
                own_directory: None,
            };
        }
        let target = root.join("target");
        let own_directory = (!target.exists()).then(|| target.clone());
        Self {
            base: root.to_path_buf(),
            journal: target.join(NAME),
            own_directory,
        }
    }

    /// Removes the journal, and its folder if that was made for it.
    pub(super) fn remove_journal(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.remove_file(&self.journal)?;
        if let Some(directory) = &self.own_directory {
            let _ = disk.remove_dir(directory);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Journal {
    pub(super) process: u32,
    /// When that process began, in the system's own count; tells it from a later one with the same number.
    pub(super) process_start: Option<String>,
    /// The folder `target` was made for the journal.
    pub(super) made_directory: bool,
    /// What is written comes before what is deleted.
    pub(super) entries: Vec<Entry>,
    /// Folders that become empty, parents before children.
    pub(super) directories: Vec<Directory>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: EntryKind,
    /// From [`Place::base`], with `/`, no link on the way.
    pub(super) path: String,
    /// Where the new file is put first, and the old one while it is put back.
    pub(super) temporary: String,
    pub(super) attributes: Attributes,
    pub(super) before: Vec<u8>,
    /// Empty where the file is deleted.
    pub(super) after: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryKind {
    Write,
    /// The file has several hard links.
    InPlace,
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Directory {
    pub(super) path: String,
    pub(super) attributes: Attributes,
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    process: u32,
    process_start: Option<String>,
    made_directory: bool,
    entries: Vec<HeaderEntry>,
    directories: Vec<Directory>,
}

#[derive(Serialize, Deserialize)]
struct HeaderEntry {
    kind: EntryKind,
    path: String,
    temporary: String,
    attributes: Attributes,
    before_bytes: usize,
    after_bytes: usize,
}

/// What lies where a journal may be.
pub(super) enum Found {
    Nothing,
    /// The run was killed while it wrote the journal itself: the tree is untouched.
    Unfinished,
    Journal(Journal),
}

const VERSION: u32 = 1;

impl Journal {
    pub(super) fn new(
        made_directory: bool,
        entries: Vec<Entry>,
        directories: Vec<Directory>,
    ) -> Self {
        let process = std::process::id();
        Self {
            process,
            process_start: process_start(process),
            made_directory,
            entries,
            directories,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let entries = self.entries.iter().map(|entry| HeaderEntry {
            kind: entry.kind,
            path: entry.path.clone(),
            temporary: entry.temporary.clone(),
            attributes: entry.attributes,
            before_bytes: entry.before.len(),
            after_bytes: entry.after.len(),
        });
        let header = Header {
            version: VERSION,
            process: self.process,
            process_start: self.process_start.clone(),
            made_directory: self.made_directory,
            entries: entries.collect(),
            directories: self.directories.clone(),
        };
        let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
        bytes.push(b'\n');
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.before);
            bytes.extend_from_slice(&entry.after);
        }
        let end = last_line(&bytes);
        bytes.extend_from_slice(end.as_bytes());
        bytes
    }

    /// Reads what lies at `path`; `Err` says why it is no journal of ours.
    pub(super) fn read(path: &Path) -> Result<Found, String> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Found::Nothing);
            }
            Err(error) => return Err(error.to_string()),
        };
        let length = last_line(&[]).len();
        let Some(body) = bytes.len().checked_sub(length).map(|end| &bytes[..end]) else {
            return Ok(Found::Unfinished);
        };
        if last_line(body).as_bytes() != &bytes[body.len()..] {
            return Ok(Found::Unfinished);
        }
        let newline = body
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("it has no first line")?;
        let header: Header =
            serde_json::from_slice(&body[..newline]).map_err(|error| error.to_string())?;
        if header.version != VERSION {
            return Err(format!(
                "it has version {}, this program knows {VERSION}",
                header.version
            ));
        }
        let mut rest = &body[newline + 1..];
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at_checked(count).ok_or("it is too short")?;
            rest = left;
            Ok::<_, String>(taken.to_vec())
        };
        let mut entries = Vec::new();
        for entry in header.entries {
            entries.push(Entry {
                kind: entry.kind,
                path: entry.path,
                temporary: entry.temporary,
                attributes: entry.attributes,
                before: take(entry.before_bytes)?,
                after: take(entry.after_bytes)?,
            });
        }
        Ok(Found::Journal(Self {
            process: header.process,
            process_start: header.process_start,
            made_directory: header.made_directory,
            entries,
            directories: header.directories,
        }))
    }

    /// The process that writes it, if it is another one that still runs.
    pub(super) fn running(&self) -> Option<u32> {
        let is_other = self.process != std::process::id();
        let is_same =
            self.process_start.is_some() && process_start(self.process) == self.process_start;
        (is_other && is_same).then_some(self.process)
    }
}

/// The last line of a journal with this body: 64 bits of FNV-1a.
fn last_line(body: &[u8]) -> String {
    let sum = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\nend {sum:016x}\n")
}

/// Field 22 of Linux's `/proc/PID/stat`: clock ticks from the start of the system to that of the process.
fn process_start(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    stat.rsplit_once(") ")?
        .1
        .split(' ')
        .nth(19)
        .map(str::to_owned)
}
