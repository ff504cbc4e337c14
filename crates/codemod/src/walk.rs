//! Reads a tree: which files there are to migrate, and what was left out, and why.
//!
//! Nothing is opened here but manifests at the root and lists of ignore rules; [`read_tree`] looks at names and at
//! metadata. It never follows a link: a file below the root is found under its own path, and a link to it is only
//! remembered, so that [`Tree::get`] finds the file under both names. That makes loops harmless and edits happen once.

mod rules;

use crate::stage::git::Repository;
use rules::{Excludes, GitRules, excludes_of_root_manifest};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};
use walkdir::WalkDir;

/// What to visit beyond the defaults, or less of it.
#[derive(Debug, Clone, Default)]
pub struct WalkOptions {
    /// Visit files that git ignores, too.
    pub include_ignored: bool,
    /// Globs in the syntax of `.gitignore`, relative to the root, of what to leave out.
    pub exclude: Vec<String>,
}

/// The files of a tree, as they were when it was walked.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
    /// Sorted by path, no path twice.
    files: Vec<TreeFile>,
    /// From a link's path to what it points at, both below the root.
    links: BTreeMap<String, String>,
    /// Sorted by path.
    skipped: Vec<Skipped>,
}

/// One file that may be read and written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// From the root, with `/`, no link on the way.
    pub path: String,
    pub absolute: PathBuf,
    /// Bytes.
    pub size: u64,
    /// The owner may not write it; what the user running this may do is not asked, as root may do anything.
    pub read_only: bool,
    pub kind: FileKind,
}

/// What a file is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// `*.rs`.
    Rust,
    /// `Cargo.toml`.
    Manifest,
    /// `Cargo.lock`.
    Lockfile,
    /// A text that may name a target or a type and is never edited: CI files, scripts, build files, Markdown.
    Mention,
    Other,
}

/// Something below the root that is not visited; a folder stands for all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub reason: SkipReason,
    /// From the root, with `/`; bytes that are no UTF-8 are shown as `\u{fffd}`.
    pub path: String,
}

/// Why something is not visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// Git's own folder.
    GitDirectory,
    /// Git ignores it, and it is not under version control.
    GitIgnored,
    /// A folder of build results.
    Target,
    /// A package with a `.cargo-checksum.json`: an edit breaks the build.
    Vendored,
    /// A folder with a repository of its own.
    Submodule,
    /// A glob of the root manifest or of the command line names it.
    Excluded,
    /// A link to something that is visited under its own path, if at all.
    Link,
    /// A link out of the root.
    LinkOutside,
    /// A link to nothing, or to itself.
    LinkBroken,
    /// The name is not UTF-8.
    Name,
    /// A socket, a pipe or a device.
    NotAFile,
    /// The system does not let it be read.
    Unreadable,
}

impl SkipReason {
    /// A few words for a list of what was skipped.
    pub fn describe(self) -> &'static str {
        match self {
            Self::GitDirectory => "git's own folder",
            Self::GitIgnored => "ignored by git",
            Self::Target => "build results",
            Self::Vendored => "vendored (has a checksum file)",
            Self::Submodule => "a repository of its own",
            Self::Excluded => "excluded by a glob",
            Self::Link => "a link to another place in the tree",
            Self::LinkOutside => "a link that leads out of the root",
            Self::LinkBroken => "a link that leads nowhere",
            Self::Name => "its name is not UTF-8",
            Self::NotAFile => "not a regular file",
            Self::Unreadable => "cannot be read",
        }
    }
}

/// Why a tree could not be walked at all.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    #[error("cannot read the root `{}`: {source}", path.display())]
    Root {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the root `{}` is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("cannot use the glob `{glob}` of {origin}: {message}")]
    Glob {
        glob: String,
        origin: String,
        message: String,
    },
    #[error("cannot tell what `{}` leaves out of the migration: {message}", manifest.display())]
    Excludes { manifest: PathBuf, message: String },
}

/// Lists the files below `root`.
///
/// # Errors
///
/// If `root` is not a folder that can be read, a glob cannot be compiled, or the root manifest speaks of `migrate` and
/// cannot be understood. A folder further down that cannot be read is one of [`Tree::skipped`].
pub fn read_tree(root: &Path, options: &WalkOptions) -> Result<Tree, WalkError> {
    let fail = |source| WalkError::Root {
        path: root.to_path_buf(),
        source,
    };
    let canonical = fs::canonicalize(root).map_err(fail)?;
    if !canonical.is_dir() {
        return Err(WalkError::NotAFolder {
            path: root.to_path_buf(),
        });
    }
    fs::read_dir(&canonical).map_err(fail)?;
    let mut globs = excludes_of_root_manifest(&canonical)?;
    globs.extend(
        options
            .exclude
            .iter()
            .map(|glob| (glob.clone(), "`--exclude`".to_owned())),
    );
    let excludes = Excludes::new(&canonical, &globs)?;
    Ok(Walk::new(canonical, excludes, options.include_ignored).run())
}

impl Tree {
    /// Builds a tree from files that are known already.
    pub fn from_files(root: PathBuf, mut files: Vec<TreeFile>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Self {
            root,
            files,
            links: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    /// The root, absolute and without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All files, sorted by path.
    pub fn files(&self) -> &[TreeFile] {
        &self.files
    }

    /// What was left out, sorted by path.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// How often each reason occurs among [`Tree::skipped`].
    pub fn skipped_counts(&self) -> BTreeMap<SkipReason, usize> {
        let mut counts = BTreeMap::new();
        for skipped in &self.skipped {
            *counts.entry(skipped.reason).or_insert(0) += 1;
        }
        counts
    }

    /// Finds a visited file by its path from the root, which may hold `.` and `..` and go through links below the root.
    pub fn get(&self, path: &str) -> Option<&TreeFile> {
        let path = self.real_path(path)?;
        let at = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(&path))
            .ok()?;
        Some(&self.files[at])
    }

    /// Files and links directly in a folder, and folders there: their names, sorted; the second value is true for folders
    /// (links to folders included).
    pub fn children(&self, directory: &str) -> Vec<(String, bool)> {
        let Some(directory) = self.real_path(directory) else {
            return Vec::new();
        };
        let prefix = if directory.is_empty() {
            String::new()
        } else {
            format!("{directory}/")
        };
        let mut found: BTreeMap<String, bool> = BTreeMap::new();
        for file in self.below(&directory) {
            match file.path[prefix.len()..].split_once('/') {
                Some((folder, _)) => found.insert(folder.to_owned(), true),
                None => found.insert(file.path[prefix.len()..].to_owned(), false),
            };
        }
        for (link, to) in self
            .links
            .range(prefix.clone()..)
            .take_while(|(link, _)| link.starts_with(&prefix))
        {
            let name = &link[prefix.len()..];
            if !name.contains('/') {
                let is_file = self
                    .files
                    .binary_search_by(|file| file.path.as_str().cmp(to))
                    .is_ok();
                found.insert(name.to_owned(), !is_file);
            }
        }
        found.into_iter().collect()
    }

    /// All files in a folder and in the folders in it; `""` is the root.
    pub fn below(&self, directory: &str) -> &[TreeFile] {
        if directory.is_empty() {
            return &self.files;
        }
        let prefix = format!("{directory}/");
        let from = self.files.partition_point(|file| file.path < prefix);
        let to = from + self.files[from..].partition_point(|file| file.path.starts_with(&prefix));
        &self.files[from..to]
    }

    /// The path without `.`, `..` and links that are known here; `None` if it leaves the root or goes in circles.
    fn real_path(&self, path: &str) -> Option<String> {
        let mut path = normalize(path)?;
        // As many links as Linux follows before it says ELOOP.
        for _ in 0..40 {
            let Some((link, to)) = self.first_link(&path) else {
                return Some(path);
            };
            path = normalize(format!("{to}{}", &path[link.len()..]).trim_start_matches('/'))?;
        }
        None
    }

    fn first_link(&self, path: &str) -> Option<(&String, &String)> {
        if self.links.is_empty() {
            return None;
        }
        let ends = path
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()]);
        ends.into_iter()
            .find_map(|end| self.links.get_key_value(&path[..end]))
    }
}

/// Takes `.` and `..` out of a path with `/`, without looking at the disk; `None` if it leads out of the root or is absolute.
pub fn normalize(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if path.starts_with('/') {
        return None;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// One walk, folder by folder from the top.
struct Walk {
    root: PathBuf,
    excludes: Excludes,
    include_ignored: bool,
    inside_git: bool,
    rules: GitRules,
    files: Vec<TreeFile>,
    links: BTreeMap<String, String>,
    skipped: Vec<Skipped>,
}

impl Walk {
    fn new(root: PathBuf, excludes: Excludes, include_ignored: bool) -> Self {
        let repository = Repository::discover(&root);
        let rules = repository
            .as_ref()
            .map(|repository| GitRules::above(&root, repository))
            .unwrap_or_default();
        Self {
            inside_git: repository.is_some(),
            root,
            excludes,
            include_ignored,
            rules,
            files: Vec::new(),
            links: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    fn run(mut self) -> Tree {
        let mut entries = WalkDir::new(&self.root).follow_links(false).into_iter();
        // Rules of a folder that the walk has left must not hold any more; the depth of an entry tells.
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    if let Some(path) = error.path() {
                        let path = path.to_path_buf();
                        self.skip(SkipReason::Unreadable, &path);
                    }
                    continue;
                }
            };
            self.rules.leave(entry.depth());
            if entry.depth() == 0 {
                if self.inside_git {
                    self.rules.enter(entry.path(), 1);
                }
                continue;
            }
            let is_directory = entry.file_type().is_dir();
            if let Some(reason) = self.reason_to_skip(entry.path(), is_directory) {
                self.skip(reason, entry.path());
                if is_directory {
                    entries.skip_current_dir();
                }
            } else if is_directory {
                if self.inside_git {
                    self.rules.enter(entry.path(), entry.depth() + 1);
                }
            } else if entry.file_type().is_symlink() {
                self.take_link(entry.path());
            } else if !entry.file_type().is_file() {
                self.skip(SkipReason::NotAFile, entry.path());
            } else {
                match entry.metadata() {
                    Ok(metadata) => self.take_file(entry.path(), &metadata),
                    Err(_) => self.skip(SkipReason::Unreadable, entry.path()),
                }
            }
        }
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Tree {
            root: self.root,
            files: self.files,
            links: self.links,
            skipped: self.skipped,
        }
    }

    fn reason_to_skip(&self, path: &Path, is_directory: bool) -> Option<SkipReason> {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Some(SkipReason::Name);
        };
        if name == ".git" {
            return Some(SkipReason::GitDirectory);
        }
        if is_directory {
            if path.join(".cargo-checksum.json").is_file() {
                return Some(SkipReason::Vendored);
            }
            if is_target(path, name, &self.root) {
                return Some(SkipReason::Target);
            }
            if self.is_other_repository(path) {
                return Some(SkipReason::Submodule);
            }
        }
        if self.excludes.names(path, is_directory) {
            return Some(SkipReason::Excluded);
        }
        let is_ignored =
            !self.include_ignored && self.rules.ignores(path, is_directory, &self.root);
        is_ignored.then_some(SkipReason::GitIgnored)
    }

    fn is_other_repository(&self, path: &Path) -> bool {
        let dot_git = path.join(".git");
        // A folder of several projects that is no repository itself: the projects are what the user means.
        dot_git.is_file() || (self.inside_git && Repository::at(path).is_some())
    }

    fn take_file(&mut self, path: &Path, metadata: &Metadata) {
        let Some(relative) = relative_path(&self.root, path) else {
            self.skip(SkipReason::Name, path);
            return;
        };
        let kind = FileKind::of(&relative);
        self.files.push(TreeFile {
            path: relative,
            absolute: path.to_path_buf(),
            size: metadata.len(),
            read_only: owner_cannot_write(metadata),
            kind,
        });
    }

    fn take_link(&mut self, path: &Path) {
        let Ok(target) = fs::canonicalize(path) else {
            self.skip(SkipReason::LinkBroken, path);
            return;
        };
        if !target.starts_with(&self.root) {
            self.skip(SkipReason::LinkOutside, path);
            return;
        }
        self.skip(SkipReason::Link, path);
        if let (Some(link), Some(target)) = (
            relative_path(&self.root, path),
            relative_path(&self.root, &target),
        ) {
            self.links.insert(link, target);
        }
    }

    fn skip(&mut self, reason: SkipReason, path: &Path) {
        let shown = path
            .strip_prefix(&self.root)
            .unwrap_or(path)
            .to_string_lossy();
        self.skipped.push(Skipped {
            reason,
            path: shown.replace(std::path::MAIN_SEPARATOR, "/"),
        });
    }
}

impl FileKind {
    /// Tells the kind from a path with `/`.
    pub fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let lower = name.to_ascii_lowercase();
        let extension = lower
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension);
        match name {
            "Cargo.toml" => return Self::Manifest,
            "Cargo.lock" => return Self::Lockfile,
            _ => {}
        }
        let is_mention = matches!(
            extension,
            "yml"
                | "yaml"
                | "sh"
                | "bash"
                | "zsh"
                | "fish"
                | "ps1"
                | "bat"
                | "md"
                | "mk"
                | "nix"
                | "py"
        ) || matches!(
            lower.as_str(),
            "makefile"
                | "gnumakefile"
                | "justfile"
                | ".justfile"
                | "jenkinsfile"
                | "procfile"
                | "makefile.toml"
        ) || lower.starts_with("dockerfile")
            || lower.starts_with("containerfile")
            || extension == "dockerfile"
            || path.starts_with(".ci/")
            || (path.starts_with(".cargo/") || path.contains("/.cargo/"))
                && lower.starts_with("config");
        match extension {
            "rs" => Self::Rust,
            _ if is_mention => Self::Mention,
            _ => Self::Other,
        }
    }
}

/// A folder of build results: cargo marks its own, and older ones are known by name and place.
fn is_target(path: &Path, name: &str, root: &Path) -> bool {
    // https://bford.info/cachedir/: the file begins with this line.
    const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
    let parent = path.parent();
    if name == "target"
        && (parent == Some(root)
            || parent.is_some_and(|parent| parent.join("Cargo.toml").is_file()))
    {
        return true;
    }
    let tag = path.join("CACHEDIR.TAG");
    tag.is_file() && fs::read(tag).is_ok_and(|bytes| bytes.starts_with(SIGNATURE))
}

/// `path` from `root`, with `/`; `None` if it is not below `root` or not UTF-8.
fn relative_path(root: &Path, path: &Path) -> Option<String> {
    let mut joined = String::new();
    for component in path.strip_prefix(root).ok()?.components() {
        let Component::Normal(part) = component else {
            return None;
        };
        if !joined.is_empty() {
            joined.push('/');
        }
        joined.push_str(part.to_str()?);
    }
    Some(joined)
}

#[cfg(unix)]
fn owner_cannot_write(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o200 == 0
}

#[cfg(not(unix))]
fn owner_cannot_write(metadata: &Metadata) -> bool {
    metadata.permissions().readonly()
}

#[cfg(test)]
mod tests;
