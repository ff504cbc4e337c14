//! The compiler as second witness: `cargo check` on a copy of the tree, with the new crates in place of the old.
//!
//! A [`Verifier`] copies the tree once, asks the compiler about it as it was, and then, as often as the engine likes, about
//! what a list of changes would make of it. Packages that did not compile before are not judged. The tree itself is only
//! read; everything is written below the folder that the caller names.

pub mod diagnostic;
pub mod judge;
pub mod manifest;
pub mod scratch;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use diagnostic::{Diagnostic, Level};
pub use judge::records;
pub use scratch::Scratch;

use crate::plan::Change;

/// A package that the copy takes from another place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub package: String,
    /// Folder of its manifest.
    pub directory: PathBuf,
    /// A package of this name in the tree itself stays in use; otherwise it gives way, too.
    pub own_stays: bool,
}

/// Features of a package of which exactly one may be chosen, as two do not compile together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExclusiveFeature {
    pub package: String,
    /// What the names of all of these features begin with.
    pub prefix: String,
    /// The one that stands for all others in the copy.
    pub chosen: String,
}

/// The table `[verify]` of a migration: what the copy takes from the new crates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifySpec {
    /// Packages that are taken from there, also where the tree has one of its own.
    #[serde(default)]
    pub replace: Vec<String>,
    /// Packages that are taken from there unless the tree has one of its own.
    #[serde(default)]
    pub replace_unless_own: Vec<String>,
    #[serde(default)]
    pub exclusive_features: Vec<FeatureFamily>,
}

/// Features of one package of which only one may be chosen; the new crates say which.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureFamily {
    pub package: String,
    /// What the names of all of these features begin with.
    pub prefix: String,
}

/// What of the copy is other than in the tree.
#[derive(Debug, Clone, Default)]
pub struct Substitutions {
    pub replacements: Vec<Replacement>,
    pub features: Vec<ExclusiveFeature>,
}

/// What the compiler said of one plan. Positions are those of the files as these changes make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub changes: Vec<Change>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Why the compiler could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("cannot {what} `{}`: {source}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot read the manifest `{path}`: {message}")]
    Manifest { path: String, message: String },
    #[error("`{}` belongs to the workspace at `{}`, which is not part of the tree", package.display(), workspace.display())]
    OutsideWorkspace {
        package: PathBuf,
        workspace: PathBuf,
    },
    #[error("cannot run `{program}`: {source}")]
    Start { program: String, source: io::Error },
    /// Cargo stopped before it asked the compiler, with and without the network.
    #[error("cargo could not check `{workspace}`: {message}")]
    Cargo {
        /// Folder of the workspace from the root of the tree; `.` is the root.
        workspace: String,
        message: String,
    },
}

/// What the compiler said of the tree as it was.
#[derive(Debug, Default)]
pub struct Before {
    /// Folders of packages with an error of their own, which are not judged.
    pub broken: BTreeSet<String>,
    /// Why the tree could not be checked at all, as where the old crates cannot be had any more.
    pub missing: Option<String>,
    /// How often a warning was given: file, code and message.
    warnings: BTreeMap<(String, Option<String>, String), usize>,
}

/// The copy of one tree, and what was found out about it.
#[derive(Debug)]
pub struct Verifier {
    scratch: Scratch,
    substitutions: Substitutions,
    before: Before,
    /// Of the packages that did not compile before, those that do not compile with the last changes either.
    still_broken: BTreeSet<String>,
    /// What was replaced in the manifests of the copy, for the notes of the report: file and sentence.
    replaced: Vec<(String, String)>,
}

impl Verifier {
    /// Copies the tree below `home` and checks it as it is. `progress` is told what cargo works on.
    ///
    /// # Errors
    ///
    /// If the copy cannot be made or cargo cannot be started. That the tree does not compile is no error: [`Before`] says so.
    pub fn new(
        root: &Path,
        home: &Path,
        substitutions: Substitutions,
        progress: &dyn Fn(&str),
    ) -> Result<Self, VerifyError> {
        let scratch = Scratch::create(root, home)?;
        let before = match check(&scratch, progress) {
            Ok(found) => Before::new(&found),
            Err(error @ VerifyError::Cargo { .. }) => Before {
                missing: Some(error.to_string()),
                ..Before::default()
            },
            Err(error) => return Err(error),
        };
        Ok(Self {
            scratch,
            substitutions,
            before,
            still_broken: BTreeSet::new(),
            replaced: Vec::new(),
        })
    }

    /// What the compiler says of the tree with these changes made, but for packages that did not compile before and for
    /// warnings that were there before.
    ///
    /// # Errors
    ///
    /// If the copy cannot be written, a manifest in it cannot be understood, or cargo cannot do its work, for instance as
    /// a dependency is not there and no network is either.
    pub fn check(
        &mut self,
        changes: &[Change],
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Diagnostic>, VerifyError> {
        self.scratch.reset()?;
        self.scratch.apply(changes)?;
        self.replaced = self.scratch.substitute(&self.substitutions)?;
        let found = check(&self.scratch, progress)?;
        self.still_broken = found
            .iter()
            .filter(|diagnostic| diagnostic.level == Level::Error)
            .map(|diagnostic| diagnostic.package.clone())
            .filter(|package| self.before.broken.contains(package))
            .collect();
        Ok(self.before.judged(found))
    }

    /// Of the packages that did not compile before, those that do not compile with the changes checked last either.
    pub fn still_broken(&self) -> &BTreeSet<String> {
        &self.still_broken
    }

    pub fn before(&self) -> &Before {
        &self.before
    }

    /// What was replaced in manifests of the copy: file and sentence.
    pub fn replaced(&self) -> &[(String, String)] {
        &self.replaced
    }
}

impl Before {
    fn new(found: &[Diagnostic]) -> Self {
        let mut before = Self::default();
        for diagnostic in found {
            if diagnostic.level == Level::Error {
                before.broken.insert(diagnostic.package.clone());
            } else {
                *before.warnings.entry(diagnostic.key()).or_default() += 1;
            }
        }
        before
    }

    /// Leaves out what says nothing about the changes.
    fn judged(&self, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        if self.missing.is_some() {
            return found;
        }
        let mut warnings = self.warnings.clone();
        let mut is_new = |diagnostic: &Diagnostic| {
            if self.broken.contains(&diagnostic.package) {
                return false;
            }
            match warnings.get_mut(&diagnostic.key()) {
                Some(n_left @ 1..) if diagnostic.level == Level::Warning => {
                    *n_left -= 1;
                    false
                }
                _ => true,
            }
        };
        found
            .into_iter()
            .filter(|diagnostic| is_new(diagnostic))
            .collect()
    }
}

/// Runs `cargo check --all-targets` in every workspace of the copy; sorted, each message once.
///
/// # Errors
///
/// [`VerifyError::Start`] if there is no cargo, [`VerifyError::Cargo`] if it stops for another reason than what the compiler
/// says: a manifest, a dependency that cannot be had.
pub fn check(scratch: &Scratch, progress: &dyn Fn(&str)) -> Result<Vec<Diagnostic>, VerifyError> {
    let mut found = Vec::new();
    for workspace in scratch.workspaces() {
        found.extend(diagnostic::cargo_check(scratch, workspace, progress)?);
    }
    found.sort();
    found.dedup_by(|a, b| a.same_as(b));
    Ok(found)
}
