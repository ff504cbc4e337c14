//! Which folders and files git ignores, and which the root manifest or the command line leaves out.

use super::WalkError;
use crate::stage::git::{Repository, quiet_git};
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Git's ignore rules, as far as they have been read on the way down to a folder; a clone goes further down by itself.
#[derive(Debug, Clone, Default)]
pub(super) struct GitRules {
    nearest: Option<Arc<Level>>,
    /// The folder is ignored, and was entered for a file in it that is under version control.
    in_ignored: bool,
    exceptions: Arc<Exceptions>,
}

/// One list of rules, and those of the folders above, which it overrules.
#[derive(Debug)]
struct Level {
    rules: Gitignore,
    above: Option<Arc<Level>>,
}

/// Files that match a rule and are under version control all the same: git does not ignore those.
#[derive(Debug, Default)]
struct Exceptions {
    root: PathBuf,
    /// Absolute paths, and every folder above such a file; git is asked once a rule matches anything.
    paths: OnceLock<BTreeSet<PathBuf>>,
}

impl GitRules {
    /// Rules that hold at `directory`, from the user's own list down to the `.gitignore` files of the folders above it.
    ///
    /// The `.gitignore` of `directory` itself is not read: `enter` does so.
    pub(super) fn above(directory: &Path, repository: &Repository) -> Self {
        let mut rules = Self {
            exceptions: Arc::new(Exceptions {
                root: directory.to_path_buf(),
                paths: OnceLock::new(),
            }),
            ..Self::default()
        };
        for file in [
            gitconfig_excludes_path(),
            Some(repository.common_dir.join("info/exclude")),
        ]
        .into_iter()
        .flatten()
        {
            rules.read(&file, &repository.work_tree);
        }
        if let Ok(below) = directory.strip_prefix(&repository.work_tree) {
            let mut folder = repository.work_tree.clone();
            for component in below.components() {
                rules.read(&folder.join(".gitignore"), &folder);
                folder.push(component);
            }
        }
        rules
    }

    /// Takes up the `.gitignore` of `directory`.
    pub(super) fn enter(&mut self, directory: &Path) {
        self.read(&directory.join(".gitignore"), directory);
    }

    /// Says whether git ignores `path`; the folders above it were asked before, as git does not look into ignored ones.
    ///
    /// Where the walk is in an ignored folder, because git tracks some file in it, the other files there are ignored.
    /// These rules are then those that hold in `path`.
    pub(super) fn ignores(&mut self, path: &Path, is_directory: bool) -> bool {
        if !self.in_ignored && !self.matches(path, is_directory) {
            return false;
        }
        self.in_ignored = true;
        let exceptions = self
            .exceptions
            .paths
            .get_or_init(|| tracked_though_ignored(&self.exceptions.root));
        !exceptions.contains(path)
    }

    fn matches(&self, path: &Path, is_directory: bool) -> bool {
        let levels = std::iter::successors(self.nearest.as_ref(), |level| level.above.as_ref());
        let mut said = levels.map(|level| level.rules.matched(path, is_directory));
        said.find(|said| !said.is_none())
            .is_some_and(|said| said.is_ignore())
    }

    fn read(&mut self, file: &Path, folder: &Path) {
        if !file.is_file() {
            return;
        }
        let mut builder = GitignoreBuilder::new(folder);
        // A line that is no glob is skipped, as git does.
        let _ = builder.add(file);
        if let Ok(rules) = builder.build()
            && !rules.is_empty()
        {
            let above = self.nearest.take();
            self.nearest = Some(Arc::new(Level { rules, above }));
        }
    }
}

/// Asks git for files that were added in spite of a rule. Without a git to ask, the rules alone decide.
fn tracked_though_ignored(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let listing = quiet_git(
        directory,
        [
            "ls-files",
            "-z",
            "--cached",
            "--ignored",
            "--exclude-standard",
        ],
    )
    .output();
    let Ok(listing) = listing else { return found };
    if !listing.status.success() {
        return found;
    }
    for name in listing
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let file = directory.join(name);
        for path in file.ancestors().take_while(|path| *path != directory) {
            if !found.insert(path.to_path_buf()) {
                break;
            }
        }
    }
    found
}

/// Globs that leave parts of the tree out, in the syntax of `.gitignore`, relative to the root.
#[derive(Debug)]
pub(super) struct Excludes(Gitignore);

impl Excludes {
    /// Compiles globs, each with a word on where it was written.
    pub(super) fn new(root: &Path, globs: &[(String, String)]) -> Result<Self, WalkError> {
        let mut builder = GitignoreBuilder::new(root);
        let fail = |glob: &str, origin: &str, error: ignore::Error| WalkError::Glob {
            glob: glob.to_owned(),
            origin: origin.to_owned(),
            message: error.to_string(),
        };
        for (glob, origin) in globs {
            // `./a` is what a shell completes to; for git it would match nothing.
            let plain = glob
                .strip_prefix("./")
                .map_or_else(|| glob.clone(), |rest| format!("/{rest}"));
            builder
                .add_line(None, &plain)
                .map_err(|error| fail(glob, origin, error))?;
        }
        builder
            .build()
            .map(Self)
            .map_err(|error| fail("", "all globs together", error))
    }

    pub(super) fn names(&self, path: &Path, is_directory: bool) -> bool {
        !self.0.is_empty() && self.0.matched(path, is_directory).is_ignore()
    }
}

/// The globs of `[workspace.metadata.migrate] exclude` and `[package.metadata.migrate] exclude` of the manifest at the root.
///
/// A manifest that cannot be read and does not speak of `migrate` gives none: it becomes a problem of its own later on.
/// One that does is an error, as the folders that its author wanted left alone are not known.
pub(super) fn excludes_of_root_manifest(root: &Path) -> Result<Vec<(String, String)>, WalkError> {
    let manifest = root.join("Cargo.toml");
    let Ok(bytes) = std::fs::read(&manifest) else {
        return Ok(Vec::new());
    };
    let text = String::from_utf8_lossy(&bytes);
    let fail = |message: String| WalkError::Excludes {
        manifest: manifest.clone(),
        message,
    };
    let table: toml::Table = match text.trim_start_matches('\u{feff}').parse() {
        Ok(table) => table,
        Err(error) if text.contains("migrate") => return Err(fail(error.message().to_owned())),
        Err(_) => return Ok(Vec::new()),
    };
    let mut globs = Vec::new();
    for kind in ["workspace", "package"] {
        let migrate = table
            .get(kind)
            .and_then(|of| of.get("metadata"))
            .and_then(|of| of.get("migrate"));
        let Some(exclude) = migrate.and_then(|of| of.get("exclude")) else {
            continue;
        };
        let origin = format!("`{kind}.metadata.migrate.exclude` in Cargo.toml");
        let list = exclude.as_array().ok_or_else(|| {
            fail(format!(
                "`{kind}.metadata.migrate.exclude` is no array of strings"
            ))
        })?;
        for glob in list {
            let glob = glob.as_str().ok_or_else(|| {
                fail(format!(
                    "`{kind}.metadata.migrate.exclude` holds `{glob}`, which is no string"
                ))
            })?;
            globs.push((glob.to_owned(), origin.clone()));
        }
    }
    Ok(globs)
}
