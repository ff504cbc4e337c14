//! The dependency tables of a package, with what they take from the workspace.

use super::load::{Manifests, join, parent, strings};
use super::{Dependency, DependencyKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use toml::{Table, Value};

/// Both spellings of each kind's table; cargo took the second one until edition 2024.
const TABLES: [(&str, DependencyKind); 5] = [
    ("dependencies", DependencyKind::Normal),
    ("dev-dependencies", DependencyKind::Dev),
    ("dev_dependencies", DependencyKind::Dev),
    ("build-dependencies", DependencyKind::Build),
    ("build_dependencies", DependencyKind::Build),
];

/// Reads all dependencies of the package in `dir`, in the order of their tables, each table sorted by key.
pub(super) fn of(
    dir: &str,
    manifest: &Table,
    workspace: Option<&str>,
    manifests: &mut Manifests,
    report: &mut impl FnMut(String),
) -> Vec<Dependency> {
    let root =
        workspace.and_then(|path| Some((parent(path).to_owned(), manifests.load(path).ok()?)));
    let source = Source {
        dir,
        workspace: root,
        root: manifests.root().to_string_lossy().replace('\\', "/"),
    };
    let mut found = Vec::new();
    source.collect(manifest, None, &mut found, report);
    for (cfg, tables) in manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flatten()
    {
        if let Some(tables) = tables.as_table() {
            source.collect(tables, Some(cfg), &mut found, report);
        }
    }
    source.patch(&mut found);
    found
}

struct Source<'a> {
    /// Folder of the package, from the root of the tree.
    dir: &'a str,
    /// Folder and manifest of the workspace.
    workspace: Option<(String, Rc<Table>)>,
    /// Root of the tree, absolute.
    root: String,
}

impl Source<'_> {
    fn collect(
        &self,
        tables: &Table,
        target: Option<&str>,
        found: &mut Vec<Dependency>,
        report: &mut impl FnMut(String),
    ) {
        for (name, kind) in TABLES {
            for (key, value) in tables
                .get(name)
                .and_then(Value::as_table)
                .into_iter()
                .flatten()
            {
                match self.read(key, value, kind, target) {
                    Ok(dependency) => found.push(dependency),
                    Err(message) => report(message),
                }
            }
        }
    }

    fn read(
        &self,
        key: &str,
        value: &Value,
        kind: DependencyKind,
        target: Option<&str>,
    ) -> Result<Dependency, String> {
        let inherited = flag(value, &["workspace"]) == Some(true);
        let mut features = strings(value.get("features"));
        let (base, spec) = if inherited {
            let (base, spec) = self.of_workspace(key)?;
            features.splice(..0, strings(spec.get("features")));
            features.dedup();
            (base, spec)
        } else {
            (self.dir, value)
        };
        if !matches!(spec, Value::String(_) | Value::Table(_)) {
            return Err(format!(
                "the dependency `{key}` is neither a version nor a table"
            ));
        }
        let text = |name: &str| spec.get(name).and_then(Value::as_str);
        let package = text("package").unwrap_or(key);
        let own_default = flag(value, &["default-features", "default_features"]);
        let default = flag(spec, &["default-features", "default_features"]).unwrap_or(true);
        Ok(Dependency {
            extern_name: key.replace('-', "_"),
            key: key.to_owned(),
            package: package.to_owned(),
            path: text("path").map(|path| self.seen_from_root(base, path)),
            version: spec.as_str().or_else(|| text("version")).map(str::to_owned),
            features,
            // A member can turn the defaults on again, never off.
            default_features: if inherited {
                default || own_default == Some(true)
            } else {
                default
            },
            kind,
            optional: flag(value, &["optional"]) == Some(true),
            target: target.map(str::to_owned),
            inherited,
        })
    }

    fn of_workspace(&self, key: &str) -> Result<(&str, &Value), String> {
        let Some((base, manifest)) = &self.workspace else {
            return Err(format!(
                "the dependency `{key}` says `workspace = true`, and the package is in no workspace"
            ));
        };
        let spec = manifest
            .get("workspace")
            .and_then(|table| table.get("dependencies"))
            .and_then(|table| table.get(key));
        let spec = spec.ok_or_else(|| format!("the dependency `{key}` says `workspace = true`, and `workspace.dependencies` has no `{key}`"))?;
        Ok((base, spec))
    }

    /// Path dependencies that stand in `[patch]` of the workspace (or of the package, where that is the root).
    fn patch(&self, found: &mut [Dependency]) {
        let Some((base, manifest)) = &self.workspace else {
            return;
        };
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for (_, registry) in manifest
            .get("patch")
            .and_then(Value::as_table)
            .into_iter()
            .flatten()
        {
            for (key, spec) in registry.as_table().into_iter().flatten() {
                let package = spec.get("package").and_then(Value::as_str).unwrap_or(key);
                if let Some(path) = spec.get("path").and_then(Value::as_str) {
                    paths.insert(package.to_owned(), self.seen_from_root(base, path));
                }
            }
        }
        for dependency in found
            .iter_mut()
            .filter(|dependency| dependency.path.is_none())
        {
            dependency.path = paths.get(&dependency.package).cloned();
        }
    }

    fn seen_from_root(&self, base: &str, path: &str) -> String {
        let joined = join(base, path);
        match joined.strip_prefix(&self.root) {
            Some("") => String::new(),
            Some(rest) => rest.strip_prefix('/').map_or(joined.clone(), str::to_owned),
            None => joined,
        }
    }
}

fn flag(value: &Value, names: &[&str]) -> Option<bool> {
    names.iter().find_map(|name| value.get(name)?.as_bool())
}
