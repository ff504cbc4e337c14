//! What a GPU run speaks for: the kernels, and the sources and manifests of the crates that face CUDA.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::sha256::hex_digest;

/// Folders that count, from the workspace's root.
const FOLDERS: &[&str] = &["kernels", "crates/ml-cuda", "crates/ml-dqn", "crates/ml"];
/// Of these, files with such an ending: text about them does not make a run stale.
const ENDINGS: &[&str] = &["cu", "cuh", "rs", "cpp", "hpp", "toml"];

/// A hash for each file, by path from the root with `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// SHA-256 over all paths and contents, sorted by path.
    pub sha256: String,
    /// The first 16 digits of each file's own SHA-256: enough to say which changed.
    pub files: BTreeMap<String, String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Edited,
    New,
    Gone,
}

impl Fingerprint {
    /// Reads the sources below `root`. Folders that do not exist count as empty.
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut contents: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for folder in FOLDERS {
            collect(root, folder, &mut contents)?;
        }
        let mut all = Vec::new();
        let mut files = BTreeMap::new();
        for (path, bytes) in &contents {
            // Lengths, so that no content can pass for the next path.
            all.extend_from_slice(format!("{path}\0{}\0", bytes.len()).as_bytes());
            all.extend_from_slice(bytes);
            files.insert(path.clone(), hex_digest(bytes)[..16].to_owned());
        }
        Ok(Self {
            sha256: hex_digest(&all),
            files,
        })
    }

    /// For a person to compare.
    pub fn short(&self) -> &str {
        self.sha256.get(..12).unwrap_or(&self.sha256)
    }

    /// What happened between this state and `now`.
    pub fn changes_to(&self, now: &Self) -> Vec<(String, Change)> {
        let mut changes = Vec::new();
        for (path, hash) in &self.files {
            match now.files.get(path) {
                None => changes.push((path.clone(), Change::Gone)),
                Some(other) if other != hash => changes.push((path.clone(), Change::Edited)),
                Some(_) => {}
            }
        }
        let new = now
            .files
            .keys()
            .filter(|path| !self.files.contains_key(*path));
        changes.extend(new.map(|path| (path.clone(), Change::New)));
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes
    }
}

fn collect(root: &Path, folder: &str, contents: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(folder)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(root, &path, contents)?;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if kind.is_file() && ENDINGS.contains(&ending) {
            contents.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn every_change_of_a_source_is_seen_and_named() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path();
        write(root, "kernels/a.cu", "a");
        write(root, "crates/ml/src/deep/b.rs", "b");
        write(root, "crates/ml/Cargo.toml", "c");
        let before = Fingerprint::of(root).unwrap();
        assert_eq!(before.files.len(), 3);
        assert_eq!(before, Fingerprint::of(root).unwrap());

        write(root, "kernels/a.cu", "A");
        write(root, "kernels/new.cuh", "");
        fs::remove_file(root.join("crates/ml/Cargo.toml")).unwrap();
        let after = Fingerprint::of(root).unwrap();
        assert_ne!(before.sha256, after.sha256);
        let changes = before.changes_to(&after);
        let expected = [
            ("crates/ml/Cargo.toml".to_owned(), Change::Gone),
            ("kernels/a.cu".to_owned(), Change::Edited),
            ("kernels/new.cuh".to_owned(), Change::New),
        ];
        assert_eq!(changes, expected);
    }

    #[test]
    fn text_build_results_and_other_crates_do_not_count() {
        let tree = tempfile::tempdir().unwrap();
        let before = Fingerprint::of(tree.path()).unwrap();
        write(tree.path(), "kernels/README.md", "about");
        write(tree.path(), "crates/ml/target/debug/x.rs", "built");
        write(tree.path(), "crates/codemod/src/lib.rs", "not CUDA");
        assert_eq!(before, Fingerprint::of(tree.path()).unwrap());
    }

    #[test]
    fn moving_a_byte_from_one_file_to_the_next_changes_the_whole() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), "kernels/a.cu", "xy");
        write(tree.path(), "kernels/b.cu", "z");
        let before = Fingerprint::of(tree.path()).unwrap();
        write(tree.path(), "kernels/a.cu", "x");
        write(tree.path(), "kernels/b.cu", "yz");
        assert_ne!(before.sha256, Fingerprint::of(tree.path()).unwrap().sha256);
    }
}
