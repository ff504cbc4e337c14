//! Reads a tree: which files there are to migrate, and what was left out, and why.
//!
//! Nothing is opened here but folders, the manifest at the root and lists of ignore rules; [`read_tree`] looks at names.
//! It never follows a link: a file below the root is found under its own path, and a link to it is only
//! remembered, so that [`Tree::get`] finds the file under both names. That makes loops harmless and edits happen once.

mod rules;

use crate::stage::git::Repository;
use rules::{Excludes, GitRules, excludes_of_root_manifest};
use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What to visit beyond the defaults, or less of it.
#[derive(Debug, Clone, Default)]
pub struct WalkOptions {
    /// Visit files that git ignores, too.
    pub include_ignored: bool,
    /// Globs in the syntax of `.gitignore`, relative to the root, of what to leave out.
    pub exclude: Vec<String>,
    /// Threads; one for each core where it is `None`.
    pub jobs: Option<usize>,
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
    #[error("the system gives no threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
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
    let workers = crate::workers(options.jobs)?;
    let walk = Walk::new(canonical, excludes, options.include_ignored);
    Ok(workers.install(|| walk.run()))
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

/// One walk: each folder is a task, from the top.
struct Walk {
    root: PathBuf,
    excludes: Excludes,
    include_ignored: bool,
    inside_git: bool,
    rules: GitRules,
    found: Mutex<Found>,
}

/// What one or more folders hold.
#[derive(Debug, Default)]
struct Found {
    files: Vec<TreeFile>,
    links: Vec<(String, String)>,
    skipped: Vec<Skipped>,
}

/// A folder that is to be read.
struct Folder {
    absolute: PathBuf,
    /// From the root, with `/` at its end; empty for the root.
    relative: String,
    /// What holds for it and below, its own `.gitignore` not yet read.
    rules: GitRules,
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
            found: Mutex::default(),
        }
    }

    fn run(self) -> Tree {
        let top = Folder {
            absolute: self.root.clone(),
            relative: String::new(),
            rules: self.rules.clone(),
        };
        rayon::scope(|scope| self.read(top, scope));
        let mut found = self
            .found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        // In whatever order the tasks were done.
        found.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        found.skipped.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Tree {
            root: self.root,
            files: found.files,
            links: found.links.into_iter().collect(),
            skipped: found.skipped,
        }
    }

    fn read<'s>(&'s self, folder: Folder, scope: &rayon::Scope<'s>) {
        let mut found = Found::default();
        self.look(folder, &mut found, scope);
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.files.append(&mut found.files);
        all.links.append(&mut found.links);
        all.skipped.append(&mut found.skipped);
    }

    fn look<'s>(&'s self, mut folder: Folder, found: &mut Found, scope: &rayon::Scope<'s>) {
        let skip = |found: &mut Found, reason: SkipReason, relative: &str| {
            found.skipped.push(Skipped {
                reason,
                path: relative.trim_end_matches('/').to_owned(),
            });
        };
        let Ok(listing) = fs::read_dir(&folder.absolute) else {
            skip(found, SkipReason::Unreadable, &folder.relative);
            return;
        };
        let mut entries: Vec<(String, FileType)> = Vec::new();
        for entry in listing {
            let Ok((entry, kind)) = entry.and_then(|entry| {
                let kind = entry.file_type()?;
                Ok((entry, kind))
            }) else {
                skip(found, SkipReason::Unreadable, &folder.relative);
                continue;
            };
            match entry.file_name().into_string() {
                Ok(name) => entries.push((name, kind)),
                Err(name) => {
                    let path = format!("{}{}", folder.relative, name.to_string_lossy());
                    skip(found, SkipReason::Name, &path);
                }
            }
        }
        let holds = |name: &str| entries.iter().any(|(entry, _)| entry == name);
        if !folder.relative.is_empty()
            && let Some(reason) = self.whole_folder(&folder.absolute, &holds)
        {
            *found = Found::default();
            skip(found, reason, &folder.relative);
            return;
        }
        if self.inside_git && holds(".gitignore") {
            folder.rules.enter(&folder.absolute);
        }
        // Cargo's default place, and so that of a package which is not built with the others.
        let has_target = folder.relative.is_empty() || holds("Cargo.toml");
        for (name, kind) in entries {
            let absolute = folder.absolute.join(&name);
            let relative = format!("{}{name}", folder.relative);
            let mut rules = folder.rules.clone();
            let reason = if name == ".git" {
                Some(SkipReason::GitDirectory)
            } else if kind.is_dir() && name == "target" && has_target {
                Some(SkipReason::Target)
            } else if self.excludes.names(&absolute, kind.is_dir()) {
                Some(SkipReason::Excluded)
            } else if !self.include_ignored && rules.ignores(&absolute, kind.is_dir()) {
                Some(SkipReason::GitIgnored)
            } else {
                None
            };
            if let Some(reason) = reason {
                skip(found, reason, &relative);
            } else if kind.is_dir() {
                let folder = Folder {
                    absolute,
                    relative: relative + "/",
                    rules,
                };
                scope.spawn(move |scope| self.read(folder, scope));
            } else if kind.is_symlink() {
                self.take_link(&absolute, relative, found);
            } else if !kind.is_file() {
                skip(found, SkipReason::NotAFile, &relative);
            } else {
                found.files.push(TreeFile {
                    kind: FileKind::of(&relative),
                    path: relative,
                    absolute,
                });
            }
        }
    }

    /// Why a folder is left out for what it holds.
    fn whole_folder(&self, folder: &Path, holds: &dyn Fn(&str) -> bool) -> Option<SkipReason> {
        if holds(".cargo-checksum.json") && folder.join(".cargo-checksum.json").is_file() {
            return Some(SkipReason::Vendored);
        }
        if holds("CACHEDIR.TAG") && is_tagged(folder) {
            return Some(SkipReason::Target);
        }
        // A folder of several projects that is no repository itself: the projects are what the user means.
        let is_repository = holds(".git")
            && (folder.join(".git").is_file()
                || (self.inside_git && Repository::at(folder).is_some()));
        is_repository.then_some(SkipReason::Submodule)
    }

    fn take_link(&self, path: &Path, relative: String, found: &mut Found) {
        let target = fs::canonicalize(path).ok();
        let inside = target
            .as_ref()
            .map(|target| target.strip_prefix(&self.root).ok());
        let reason = match inside {
            None => SkipReason::LinkBroken,
            Some(None) => SkipReason::LinkOutside,
            Some(Some(inside)) => {
                if let Some(inside) = inside.to_str() {
                    let inside = inside.replace(std::path::MAIN_SEPARATOR, "/");
                    found.links.push((relative.clone(), inside));
                }
                SkipReason::Link
            }
        };
        found.skipped.push(Skipped {
            reason,
            path: relative,
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

/// A folder of build results, as cargo marks its own.
fn is_tagged(folder: &Path) -> bool {
    // https://bford.info/cachedir/: the file begins with this line.
    const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
    let tag = folder.join("CACHEDIR.TAG");
    tag.is_file() && fs::read(tag).is_ok_and(|bytes| bytes.starts_with(SIGNATURE))
}

#[cfg(test)]
mod tests;
