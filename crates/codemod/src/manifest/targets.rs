//! Which targets a package has: its manifest's entries, and what cargo finds by its place.
//!
//! *Source*: cargo's book, "Cargo Targets", and its `src/cargo/util/toml/targets.rs` for the rules of edition 2015.

use super::load::{join, strings};
use super::{Target, TargetKind};
use crate::walk::Tree;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// What is known of the package so far.
pub(super) struct Context<'a> {
    pub(super) tree: &'a Tree,
    pub(super) dir: &'a str,
    pub(super) name: &'a str,
    pub(super) edition: u16,
    pub(super) manifest: &'a Table,
}

/// A target that was found by its place: name, and path from the package's folder.
type Found = (String, String);

pub(super) fn of(context: &Context<'_>, report: &mut impl FnMut(String)) -> Vec<Target> {
    let mut targets: Vec<Target> = context.library().into_iter().collect();
    let has_library = !targets.is_empty();
    for kind in [
        TargetKind::Bin,
        TargetKind::Example,
        TargetKind::Test,
        TargetKind::Bench,
    ] {
        targets.extend(context.many(kind, has_library, report));
    }
    targets.extend(context.build_scripts());
    targets
}

impl Context<'_> {
    fn package(&self, key: &str) -> Option<&Value> {
        self.manifest
            .get("package")
            .or_else(|| self.manifest.get("project"))?
            .get(key)
    }

    fn exists(&self, path: &str) -> bool {
        self.tree.get(&join(self.dir, path)).is_some()
    }

    fn library(&self) -> Option<Target> {
        let table = self.manifest.get("lib");
        let get = |key: &str| table.and_then(|table| table.get(key));
        let name = get("name")
            .and_then(Value::as_str)
            .map_or_else(|| self.name.replace('-', "_"), str::to_owned);
        let legacy = format!("src/{name}.rs");
        let path = match get("path").and_then(Value::as_str) {
            Some(path) => path,
            None if self.exists("src/lib.rs") => "src/lib.rs",
            None if self.edition == 2015 && table.is_some() && self.exists(&legacy) => &legacy,
            None if table.is_some() => "src/lib.rs",
            None => return None,
        };
        if table.is_none() && self.package("autolib").and_then(Value::as_bool) == Some(false) {
            return None;
        }
        let is_macro = ["proc-macro", "proc_macro"]
            .iter()
            .any(|key| get(key).and_then(Value::as_bool) == Some(true))
            || ["crate-type", "crate_type"]
                .iter()
                .any(|key| strings(get(key)).iter().any(|of| of == "proc-macro"));
        Some(Target {
            kind: if is_macro {
                TargetKind::ProcMacro
            } else {
                TargetKind::Lib
            },
            name,
            path: join(self.dir, path),
            explicit: table.is_some(),
            harness: get("harness").and_then(Value::as_bool).unwrap_or(true),
            required_features: Vec::new(),
        })
    }

    fn many(
        &self,
        kind: TargetKind,
        has_library: bool,
        report: &mut impl FnMut(String),
    ) -> Vec<Target> {
        let Some(key) = kind.key() else {
            return Vec::new();
        };
        let places = self.places(kind);
        let entries = self
            .manifest
            .get(key)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let mut targets = Vec::new();
        for entry in entries {
            let Some(name) = entry.get("name").and_then(Value::as_str) else {
                report(format!("an entry of `{key}` has no name"));
                continue;
            };
            let path = match entry.get("path").and_then(Value::as_str) {
                Some(path) => path.to_owned(),
                None => self.inferred_path(kind, name, &places, has_library),
            };
            targets.push(Target {
                kind,
                name: name.to_owned(),
                path: join(self.dir, &path),
                explicit: true,
                harness: entry
                    .get("harness")
                    .and_then(Value::as_bool)
                    .unwrap_or(true),
                required_features: strings(entry.get("required-features")),
            });
        }
        // Edition 2015 looks for no more targets of a kind once the manifest has an entry of it.
        let automatic = self
            .package(&format!("auto{}", directory_of(kind)))
            .and_then(Value::as_bool);
        if automatic.unwrap_or(self.edition > 2015 || entries.is_empty()) {
            let names: BTreeSet<_> = targets.iter().map(|target| target.name.clone()).collect();
            let paths: BTreeSet<_> = targets.iter().map(|target| target.path.clone()).collect();
            let rest = places
                .into_iter()
                .map(|(name, path)| (name, join(self.dir, &path)));
            targets.extend(
                rest.filter(|(name, path)| !names.contains(name) && !paths.contains(path))
                    .map(|(name, path)| Target {
                        kind,
                        name,
                        path,
                        explicit: false,
                        harness: true,
                        required_features: Vec::new(),
                    }),
            );
        }
        targets
    }

    /// What stands where cargo looks, sorted.
    fn places(&self, kind: TargetKind) -> Vec<Found> {
        let (folder, mut found) = match kind {
            TargetKind::Bin if self.exists("src/main.rs") => (
                "src/bin",
                vec![(self.name.to_owned(), "src/main.rs".to_owned())],
            ),
            TargetKind::Bin => ("src/bin", Vec::new()),
            _ => (directory_of(kind), Vec::new()),
        };
        for (name, is_folder) in self.tree.children(&join(self.dir, folder)) {
            if name.starts_with('.') {
                continue;
            }
            let path = format!("{folder}/{name}");
            if is_folder {
                let main = format!("{path}/main.rs");
                if self.exists(&main) {
                    found.push((name, main));
                }
            } else if let Some(stem) = name.strip_suffix(".rs") {
                found.push((stem.to_owned(), path));
            }
        }
        found
    }

    /// Where the file of an entry without a path is; the usual place if it is nowhere.
    fn inferred_path(
        &self,
        kind: TargetKind,
        name: &str,
        places: &[Found],
        has_library: bool,
    ) -> String {
        if let Some((_, path)) = places.iter().find(|(found, _)| found == name) {
            return path.clone();
        }
        if kind == TargetKind::Bin {
            let legacy = [
                format!("src/{name}.rs"),
                "src/main.rs".to_owned(),
                "src/bin/main.rs".to_owned(),
            ];
            let old = self.edition == 2015;
            let known = legacy
                .iter()
                .enumerate()
                .filter(|(at, _)| old && (*at > 0 || !has_library));
            if let Some((_, path)) = known.into_iter().find(|(_, path)| self.exists(path)) {
                return path.clone();
            }
            return if name == self.name {
                "src/main.rs".to_owned()
            } else {
                format!("src/bin/{name}.rs")
            };
        }
        if kind == TargetKind::Bench
            && self.edition == 2015
            && name == "bench"
            && self.exists("src/bench.rs")
        {
            return "src/bench.rs".to_owned();
        }
        format!("{}/{name}.rs", directory_of(kind))
    }

    fn build_scripts(&self) -> Vec<Target> {
        let named = self.package("build");
        let paths = match named {
            Some(Value::String(path)) => vec![path.clone()],
            Some(Value::Array(_)) => strings(named),
            Some(Value::Boolean(false)) => Vec::new(),
            Some(_) => vec!["build.rs".to_owned()],
            None if self.exists("build.rs") => vec!["build.rs".to_owned()],
            None => Vec::new(),
        };
        let target = |path: String| Target {
            kind: TargetKind::BuildScript,
            name: "build-script-build".to_owned(),
            path: join(self.dir, &path),
            explicit: named.is_some(),
            harness: false,
            required_features: Vec::new(),
        };
        paths.into_iter().map(target).collect()
    }
}

/// The folder where targets of a kind lie; after `auto` it is the switch for looking there.
fn directory_of(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Bin => "bins",
        TargetKind::Example => "examples",
        TargetKind::Test => "tests",
        TargetKind::Bench => "benches",
        TargetKind::Lib | TargetKind::ProcMacro | TargetKind::BuildScript => "",
    }
}
