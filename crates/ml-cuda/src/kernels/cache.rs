//! Compiled kernels on disk, so that only the first start of a program pays for the compiler.
//!
//! An entry is a header, its payload's hash, and the payload. It is written beside its place and
//! renamed into it, so that two processes at once leave a whole entry. Every failure here costs a
//! compilation and nothing else: a read-only home or a corrupt entry never stops a program.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::KernelSource;

/// Sets the folder of the cache; empty switches it off.
pub const CACHE_VARIABLE: &str = "FOXHUNT_KERNEL_CACHE";

/// First bytes of an entry. The digit changes with the layout.
const MAGIC: &[u8; 16] = b"foxhunt-kernel-1";

/// A folder of compiled kernels, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// A cache in `folder`, which is made when the first entry is written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: Some(folder.into()),
        }
    }

    /// No cache: every load compiles.
    pub fn off() -> Self {
        Self { folder: None }
    }

    /// The folder that `FOXHUNT_KERNEL_CACHE` names, else `foxhunt/kernels` in the platform's folder
    /// for caches: `XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`.
    pub fn from_environment() -> Self {
        Self {
            folder: folder(|name| std::env::var_os(name)),
        }
    }

    /// Where entries lie.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The entry of that key, if there is one and it is whole.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.folder.as_ref()?.join(key);
        let entry = std::fs::read(&path).ok()?;
        let payload = unseal(key, &entry);
        if payload.is_none() {
            tracing::warn!(entry = %path.display(), "cached kernel is corrupt; compiling it again");
        }
        payload.map(<[u8]>::to_vec)
    }

    /// Writes an entry, replacing an older one. A failure is logged.
    pub fn put(&self, key: &str, payload: &[u8]) {
        let Some(folder) = &self.folder else {
            return;
        };
        if let Err(error) = write(folder, key, payload) {
            tracing::debug!(
                folder = %folder.display(),
                "compiled kernel is not kept: {error}; set {CACHE_VARIABLE} to a writable folder"
            );
        }
    }
}

/// File name of an entry: all that its bytes depend on, hashed, and readable parts in front.
pub(super) fn key(source: &KernelSource, arch: &str, compiler: (i32, i32)) -> String {
    let mut hash = Hash::new();
    hash.part(source.name.as_bytes());
    hash.part(source.source.as_bytes());
    for (name, text) in source.includes {
        hash.part(name.as_bytes());
        hash.part(text.as_bytes());
    }
    // Else a header could pass for an option.
    hash.part(&[source.includes.len() as u8]);
    for option in source.options {
        hash.part(option.as_bytes());
    }
    let stem = source.name.rsplit('/').next().unwrap_or(source.name);
    let (major, minor) = compiler;
    format!("{stem}-{arch}-nvrtc{major}.{minor}-{:032x}", hash.0)
}

fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(set) = variable(CACHE_VARIABLE) {
        return (!set.is_empty()).then(|| set.into());
    }
    let absolute = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let caches = if cfg!(windows) {
        absolute("LOCALAPPDATA")?
    } else if cfg!(target_os = "macos") {
        absolute("HOME")?.join("Library/Caches")
    } else {
        absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?
    };
    Some(caches.join("foxhunt").join("kernels"))
}

fn write(folder: &Path, key: &str, payload: &[u8]) -> std::io::Result<()> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    std::fs::create_dir_all(folder)?;
    // Of this process and this call alone.
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let beside = folder.join(format!("{key}.{}.{serial}.part", std::process::id()));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(&seal(key, payload)))
        .and_then(|()| std::fs::rename(&beside, folder.join(key)));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn seal(key: &str, payload: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(payload.len() + 40);
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    entry.extend_from_slice(&seal_hash(key, payload).to_le_bytes());
    entry.extend_from_slice(payload);
    entry
}

/// The payload, if length and hash are those of the header and the entry is for this key.
fn unseal<'a>(key: &str, entry: &'a [u8]) -> Option<&'a [u8]> {
    let rest = entry.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_at_checked(8)?;
    let (hash, payload) = rest.split_at_checked(16)?;
    let length = u64::from_le_bytes(length.try_into().ok()?);
    let hash = u128::from_le_bytes(hash.try_into().ok()?);
    (payload.len() as u64 == length && seal_hash(key, payload) == hash).then_some(payload)
}

/// Of the key as well: an entry that was renamed by hand is not taken for another.
fn seal_hash(key: &str, payload: &[u8]) -> u128 {
    let mut hash = Hash::new();
    hash.part(key.as_bytes());
    hash.part(payload);
    hash.0
}

/// FNV-1a with 128 bits (RFC 9923): stable across releases, unlike the standard library's hashers.
struct Hash(u128);

impl Hash {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    /// Adds bytes and their number, so that parts cannot run into one another.
    fn part(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 ^= u128::from(*byte);
            self.0 = self
                .0
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: KernelSource = KernelSource {
        name: "a.cu",
        source: "int x;",
        includes: &[("h.cuh", "int y;")],
        options: &["--fmad=false"],
    };

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("kernels"));
        (folder, cache)
    }

    #[test]
    fn what_was_put_is_got() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"machine code");
        assert_eq!(cache.get("k").unwrap(), b"machine code");
        cache.put("k", b"newer");
        assert_eq!(cache.get("k").unwrap(), b"newer");
        let names = std::fs::read_dir(cache.folder().unwrap()).unwrap().count();
        assert_eq!(names, 1, "no part is left beside the entry");
    }

    #[test]
    fn every_corruption_is_seen() {
        let (_folder, cache) = cache();
        cache.put("k", b"machine code");
        let path = cache.folder().unwrap().join("k");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            std::fs::write(&path, &torn).unwrap();
            assert_eq!(cache.get("k"), None, "byte {at} flipped");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(cache.get("k"), None, "cut at {at}");
        }
        std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(cache.get("k"), None, "longer");
        std::fs::write(path.with_file_name("other"), &whole).unwrap();
        assert_eq!(cache.get("other"), None, "the entry of another key");
        cache.put("k", b"machine code");
        assert_eq!(cache.get("k").unwrap(), b"machine code", "and is replaced");
    }

    #[test]
    fn the_key_changes_with_all_that_the_code_depends_on() {
        let key_of = |source: KernelSource, arch, compiler| key(&source, arch, compiler);
        let base = key_of(SOURCE, "sm_90a", (13, 0));
        let others = [
            key_of(
                KernelSource {
                    source: "int z;",
                    ..SOURCE
                },
                "sm_90a",
                (13, 0),
            ),
            key_of(
                KernelSource {
                    includes: &[("h.cuh", "int z;")],
                    ..SOURCE
                },
                "sm_90a",
                (13, 0),
            ),
            key_of(
                KernelSource {
                    includes: &[("g.cuh", "int y;")],
                    ..SOURCE
                },
                "sm_90a",
                (13, 0),
            ),
            key_of(
                KernelSource {
                    includes: &[],
                    ..SOURCE
                },
                "sm_90a",
                (13, 0),
            ),
            key_of(
                KernelSource {
                    options: &[],
                    ..SOURCE
                },
                "sm_90a",
                (13, 0),
            ),
            key_of(SOURCE, "sm_80", (13, 0)),
            key_of(SOURCE, "sm_90a", (13, 1)),
        ];
        assert_eq!(base, key_of(SOURCE, "sm_90a", (13, 0)));
        for other in others {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_folder_follows_the_platform_and_can_be_set() {
        let with = |set: &'static [(&'static str, &'static str)]| {
            folder(move |name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            with(&[(CACHE_VARIABLE, "/k"), ("HOME", "/h")]),
            Some("/k".into())
        );
        assert_eq!(with(&[(CACHE_VARIABLE, ""), ("HOME", "/h")]), None);
        assert_eq!(with(&[]), None);
        if cfg!(target_os = "linux") {
            assert_eq!(
                with(&[("HOME", "/h")]),
                Some("/h/.cache/foxhunt/kernels".into())
            );
            assert_eq!(
                with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]),
                Some("/x/foxhunt/kernels".into())
            );
            // The convention says that a relative one is to be ignored.
            assert_eq!(
                with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]),
                Some("/h/.cache/foxhunt/kernels".into())
            );
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::at(file.path().join("below-a-file"));
        cache.put("k", b"machine code");
        assert_eq!(cache.get("k"), None);
        Cache::off().put("k", b"machine code");
        assert_eq!(Cache::off().get("k"), None);
    }

    #[test]
    fn writers_at_once_leave_a_whole_entry() {
        let (_folder, cache) = cache();
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..50 {
                        cache.put("k", &[writer; 4096]);
                        let seen = cache.get("k").expect("whole at any moment");
                        assert!(seen.iter().all(|byte| *byte == seen[0]));
                    }
                });
            }
        });
    }
}
