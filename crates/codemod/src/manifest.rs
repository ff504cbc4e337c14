//! Reads `Cargo.toml` files as cargo does, without cargo: it works offline, and on trees that do not compile.
//!
//! [`read_packages`] gives the packages of a tree with their targets and dependencies; [`edit`] takes entries out of a
//! manifest's text. Nothing here resolves versions or features, and no lock file is read.

mod dependencies;
pub mod edit;
mod load;
pub mod place;
mod targets;
pub mod version;

use crate::walk::{FileKind, Tree};
use load::Manifests;
use std::collections::{BTreeMap, BTreeSet};

/// A package of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// As in the manifest, with `-`.
    pub name: String,
    /// What code calls the library, unless it renames it; `None` where there is no library.
    pub lib_name: Option<String>,
    /// From the root of the tree.
    pub manifest_path: String,
    /// The manifest's folder from the root of the tree; empty for the root itself.
    pub dir: String,
    /// 2015, 2018, 2021, 2024.
    pub edition: u16,
    /// Library, programs, examples, tests, benches, build script, each kind sorted as cargo sees it: entries of the
    /// manifest first, then what was found by its place.
    pub targets: Vec<Target>,
    pub dependencies: Vec<Dependency>,
    /// As written; an optional dependency's own feature is not among them.
    pub features: BTreeMap<String, Vec<String>>,
    /// The manifest of the workspace that the package belongs to (its own, if it is the root), from the root of the tree;
    /// it begins with `../` where it lies above.
    pub workspace: Option<String>,
}

/// Something that cargo compiles on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub kind: TargetKind,
    pub name: String,
    /// From the root of the tree; the file need not exist where the manifest names it. It may be a link, see
    /// [`Tree::get`].
    pub path: String,
    /// It has an entry in the manifest.
    pub explicit: bool,
    /// False where the file has a `main` of its own (`harness = false`).
    pub harness: bool,
    pub required_features: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    Lib,
    ProcMacro,
    Bin,
    Example,
    Test,
    Bench,
    BuildScript,
}

impl TargetKind {
    /// The key of its entries in a manifest, where entries can be many.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Self::Bin => Some("bin"),
            Self::Example => Some("example"),
            Self::Test => Some("test"),
            Self::Bench => Some("bench"),
            Self::Lib | Self::ProcMacro | Self::BuildScript => None,
        }
    }
}

/// A dependency as a package sees it, inherited parts filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// What code calls it.
    pub extern_name: String,
    /// Key in the manifest; `features` speak of it by this name.
    pub key: String,
    /// The package's own name.
    pub package: String,
    /// Folder of a path dependency from the root of the tree; with `../` in front where it lies above, absolute where the
    /// manifest says so and it lies elsewhere.
    pub path: Option<String>,
    pub version: Option<String>,
    pub features: Vec<String>,
    pub default_features: bool,
    pub kind: DependencyKind,
    pub optional: bool,
    /// The text between the quotes of `[target.'…'.dependencies]`.
    pub target: Option<String>,
    /// It has `workspace = true`: the version stands in the workspace's manifest.
    pub inherited: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyKind {
    Normal,
    Dev,
    Build,
}

/// Something in a manifest that could not be understood; the rest of it was read all the same, where possible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{manifest_path}:{line}:{column}: {message}")]
pub struct ManifestProblem {
    /// From the root of the tree.
    pub manifest_path: String,
    /// From 1; 1 where the problem is in no one place.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
}

/// Reads all manifests of `tree`. Packages are sorted by the path of their manifest, problems by place.
///
/// A manifest without `[package]` is no package. One that does not parse is a problem, and the others are read.
pub fn read_packages(tree: &Tree) -> (Vec<Package>, Vec<ManifestProblem>) {
    let mut manifests = Manifests::new(tree.root());
    let mut problems = Vec::new();
    let mut packages = Vec::new();
    for file in tree
        .files()
        .iter()
        .filter(|file| file.kind == FileKind::Manifest)
    {
        packages.extend(read_package(
            tree,
            &file.path,
            &mut manifests,
            &mut problems,
        ));
    }
    name_libraries(&mut packages);
    problems.sort();
    problems.dedup();
    (packages, problems)
}

fn read_package(
    tree: &Tree,
    path: &str,
    manifests: &mut Manifests,
    problems: &mut Vec<ManifestProblem>,
) -> Option<Package> {
    let manifest = match manifests.load(path) {
        Ok(manifest) => manifest,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let table = manifest
        .get("package")
        .or_else(|| manifest.get("project"))?
        .as_table()?;
    let mut report = |message: String| {
        problems.push(ManifestProblem {
            manifest_path: path.to_owned(),
            line: 1,
            column: 1,
            message,
        })
    };
    let Some(name) = table.get("name").and_then(toml::Value::as_str) else {
        report("`package.name` is missing or no string".to_owned());
        return None;
    };
    let dir = load::parent(path).to_owned();
    let workspace = manifests.workspace_of(path, &manifest);
    let edition = manifests.inherited(table, "edition", workspace.as_deref());
    let edition = match edition
        .as_ref()
        .map(|edition| edition.as_str().unwrap_or_default())
    {
        None | Some("2015") => 2015,
        Some("2018") => 2018,
        Some("2021") => 2021,
        Some("2024") => 2024,
        Some(text) => {
            report(format!("the edition `{text}` is unknown; read as 2024"));
            2024
        }
    };
    let targets = targets::of(
        &targets::Context {
            tree,
            dir: &dir,
            name,
            edition,
            manifest: &manifest,
        },
        &mut report,
    );
    let dependencies = dependencies::of(
        &dir,
        &manifest,
        workspace.as_deref(),
        manifests,
        &mut report,
    );
    let library = targets
        .iter()
        .find(|target| matches!(target.kind, TargetKind::Lib | TargetKind::ProcMacro));
    Some(Package {
        name: name.to_owned(),
        lib_name: library.map(|library| library.name.clone()),
        manifest_path: path.to_owned(),
        edition,
        dependencies,
        features: features(&manifest),
        workspace,
        targets,
        dir,
    })
}

fn features(manifest: &toml::Table) -> BTreeMap<String, Vec<String>> {
    let table = manifest
        .get("features")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten();
    table
        .map(|(name, list)| (name.clone(), load::strings(Some(list))))
        .collect()
}

/// A dependency that is not renamed goes by the name of its library, which need not be that of its package.
fn name_libraries(packages: &mut [Package]) {
    let names: BTreeMap<String, String> = packages
        .iter()
        .filter_map(|package| Some((package.dir.clone(), package.lib_name.clone()?)))
        .collect();
    for dependency in packages
        .iter_mut()
        .flat_map(|package| &mut package.dependencies)
    {
        if dependency.key == dependency.package
            && let Some(name) = dependency.path.as_ref().and_then(|path| names.get(path))
        {
            dependency.extern_name.clone_from(name);
        }
    }
}

impl Package {
    /// The features that `default` turns on, directly and through others, `default` itself not among them.
    ///
    /// Entries that speak of a dependency (`dep:x`, `x/y`, `x?/y`) are as written.
    pub fn default_features(&self) -> BTreeSet<String> {
        let mut on = BTreeSet::new();
        let mut open = vec!["default"];
        while let Some(name) = open.pop() {
            for feature in self.features.get(name).into_iter().flatten() {
                if on.insert(feature.clone()) {
                    open.push(feature);
                }
            }
        }
        on.remove("default");
        on
    }

    /// The target whose root file this is, by its path from the root of the tree.
    pub fn target_at(&self, path: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.path == path)
    }
}

#[cfg(test)]
mod tests;
