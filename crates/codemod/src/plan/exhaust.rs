//! Looks at what a run would leave alone, to show that it is right to.
//!
//! The search over raw bytes and the dependencies of a package keep almost all of a tree away from the parser. With
//! [`PlanOptions::exhaustive`] those filters are off: each remaining package becomes a world of its own, every file in it
//! goes through all rules, and an edit that they propose there ends up in the plan, where it is seen.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::sources::Sources;
use super::{Plan, PlanError, PlanOptions, over};
use crate::manifest::Package;
use crate::rule::Migration;
use crate::walk::{FileKind, Tree};
use crate::world::World;

/// What an exhaustive run looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// Files that were parsed and resolved.
    pub resolved: usize,
    /// Those of them that no target reaches: each was resolved as a target of its own.
    pub without_target: usize,
    /// Files that are not Rust of this parser's grammar, by path, with the reason.
    pub unparsable: Vec<(String, String)>,
    /// Files that are not UTF-8, by path.
    pub not_utf8: Vec<String>,
}

impl Examined {
    fn add(&mut self, other: Examined) {
        self.resolved += other.resolved;
        self.without_target += other.without_target;
        self.unparsable.extend(other.unparsable);
        self.not_utf8.extend(other.not_utf8);
    }

    fn count(&mut self, world: &World, files: &BTreeSet<&str>) {
        for file in &world.files {
            if !files.contains(file.path.as_str()) {
                continue;
            }
            match &file.parsed {
                Ok(_) => self.resolved += 1,
                Err(err) => self
                    .unparsable
                    .push((file.path.clone(), err.message.clone())),
            }
        }
    }
}

/// Plans over every package that the run did not look at, each by itself, and adds what comes out.
pub fn rest(
    migrations: &[Migration],
    options: &PlanOptions,
    found: &Sources<'_>,
    workers: &rayon::ThreadPool,
    plan: &mut Plan,
) -> Result<(), PlanError> {
    let tree = found.tree();
    let mut by_package: BTreeMap<Option<usize>, Vec<&str>> = BTreeMap::new();
    for file in tree.files() {
        if file.kind == FileKind::Rust && found.in_scope(&file.path) {
            by_package
                .entry(found.package_of(&file.path))
                .or_default()
                .push(&file.path);
        }
    }
    // What belongs to no package is a package without a manifest.
    let mut packages = found.packages.clone();
    let nowhere = packages.len();
    packages.push(Package {
        name: "no package".into(),
        lib_name: None,
        manifest_path: "Cargo.toml".into(),
        dir: String::new(),
        edition: 2024,
        targets: vec![],
        dependencies: vec![],
        features: BTreeMap::new(),
        workspace: None,
    });
    let work: Vec<(usize, Vec<&str>)> = by_package
        .into_iter()
        .map(|(at, files)| (at.unwrap_or(nowhere), files))
        .collect();
    let done: Vec<Result<(Plan, Examined), PlanError>> = workers.install(|| {
        work.par_iter()
            .with_max_len(1)
            .map(|(at, files)| one(tree, migrations, options, (&packages, *at), files))
            .collect()
    });
    let mut examined = Examined::default();
    for (one, (at, _)) in done.into_iter().zip(&work) {
        let (more, seen) = one?;
        examined.add(seen);
        // Those were planned with all that they depend on, which says more.
        let planned = *at != nowhere && found.sees(&packages[*at]);
        if planned {
            continue;
        }
        let paths: BTreeSet<&str> = plan.changes.iter().map(super::Change::path).collect();
        let changes: Vec<_> = more
            .changes
            .into_iter()
            .filter(|change| !paths.contains(change.path()))
            .collect();
        plan.unchanged = plan.unchanged.saturating_sub(changes.len());
        // What such a package leaves open is nobody's question: it cannot name anything of the rules.
        let edited: BTreeSet<String> = changes
            .iter()
            .map(|change| change.path().to_owned())
            .collect();
        plan.records.extend(
            more.records
                .into_iter()
                .filter(|record| edited.contains(&record.file)),
        );
        plan.changes.extend(changes);
    }
    plan.changes.sort_by(|a, b| a.path().cmp(b.path()));
    plan.records.sort_by(|a, b| {
        a.sort_key()
            .cmp(&b.sort_key())
            .then_with(|| a.reason.cmp(&b.reason))
    });
    examined.unparsable.sort();
    examined.not_utf8.sort();
    plan.examined = Some(examined);
    Ok(())
}

fn one(
    tree: &Tree,
    migrations: &[Migration],
    options: &PlanOptions,
    (packages, at): (&[Package], usize),
    files: &[&str],
) -> Result<(Plan, Examined), PlanError> {
    let mut examined = Examined::default();
    let mut found = Sources::of_package(tree, packages, at, files);
    for path in files {
        if !found.hits.contains(*path) {
            examined.not_utf8.push((*path).to_owned());
        }
    }
    let mine: BTreeSet<&str> = files.iter().copied().collect();
    // Which files the targets reach is known once they are built; what they miss becomes a target then.
    let missed = {
        let world = World::build(&found.specs, &[], &found);
        let missed: Vec<String> = found
            .hits
            .iter()
            .filter(|path| {
                world
                    .file_id(path)
                    .is_none_or(|id| world.files[id].contexts.is_empty())
            })
            .cloned()
            .collect();
        missed
    };
    examined.without_target = missed.len();
    found.add_targets(&packages[at], &missed);
    let plan = over(&found, migrations, options, &mut |world| {
        examined.count(world, &mine);
    })?;
    Ok((plan, examined))
}
