//! Which files and packages a run has to look at.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::rc::Rc;

use rayon::prelude::*;

use super::{PlanError, PlanOptions};
use crate::manifest::version::{Line, Side, side};
use crate::manifest::{Dependency, Package, TargetKind, read_packages};
use crate::record::{Record, RecordKind};
use crate::rule::Migration;
use crate::walk::{FileKind, SkipReason, Tree, TreeFile};
use crate::world::{CrateKind, CrateSpec, Loader, ModId, World};

pub struct Sources<'t> {
    tree: &'t Tree,
    /// Files that hold a name of the rules, or that are to be looked at all the same.
    pub hits: BTreeSet<String>,
    pub specs: Vec<CrateSpec>,
    pub packages: Vec<Package>,
    /// The packages by their folders.
    dirs: HashMap<String, usize>,
    pub n_files: usize,
    /// What there is to say before anything is parsed.
    pub records: Vec<Record>,
    cache: RefCell<HashMap<String, Option<Rc<str>>>>,
    /// Folders of the packages that are asked for.
    only: Vec<String>,
    /// Packages that can reach one that the rules speak of.
    seeing: HashSet<String>,
    /// Which version of what is upgraded each package is written against.
    pub sides: HashMap<String, Side>,
    /// Package to the lines of versions that it moves between.
    lines: HashMap<String, (Line, Line)>,
}

impl<'t> Sources<'t> {
    pub fn read(
        tree: &'t Tree,
        migrations: &[Migration],
        options: &PlanOptions,
        workers: &rayon::ThreadPool,
    ) -> Result<Self, PlanError> {
        let needles: BTreeSet<String> = migrations.iter().flat_map(Migration::needles).collect();
        let names = Names::new(&needles)?;
        let rust: Vec<&TreeFile> = tree
            .files()
            .iter()
            .filter(|file| file.kind == FileKind::Rust)
            .collect();
        let search = |bytes: &mut Vec<u8>, file: &&TreeFile| {
            let bytes = read_into(&file.absolute, bytes).map_err(|source| PlanError::Read {
                path: file.path.clone(),
                source,
            })?;
            let hit = names.stand_in(bytes);
            Ok(hit.then(|| (file.path.clone(), std::str::from_utf8(bytes).is_ok())))
        };
        let found: Vec<Result<Option<(String, bool)>, PlanError>> =
            workers.install(|| rust.par_iter().map_init(Vec::new, search).collect());
        let mut hits = BTreeSet::new();
        let mut records = Vec::new();
        for one in found {
            match one? {
                Some((path, true)) => {
                    hits.insert(path);
                }
                Some((path, false)) => records.push(file_record(
                    RecordKind::Unresolved,
                    &path,
                    "the file is not UTF-8, and holds a name that is retired",
                    Some("re-encode it, then run again"),
                )),
                None => {}
            }
        }
        records.extend(left_outside(tree, migrations)?);
        let (packages, problems) = read_packages(tree);
        for problem in problems {
            let mut record = file_record(
                RecordKind::Note,
                &problem.manifest_path,
                &format!("the manifest could not be understood: {}", problem.message),
                None,
            );
            record.line = problem.line;
            record.column = problem.column;
            records.push(record);
        }
        let only = options
            .packages
            .iter()
            .map(|name| {
                packages
                    .iter()
                    .find(|package| package.name == *name)
                    .map(|package| package.dir.clone())
                    .ok_or_else(|| PlanError::NoPackage(name.clone()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let n_files = tree
            .files()
            .iter()
            .filter(|file| matches!(file.kind, FileKind::Rust | FileKind::Manifest))
            .count();
        let rule_packages: BTreeSet<String> = migrations
            .iter()
            .flat_map(|migration| {
                migration
                    .surface
                    .iter()
                    .map(|surface| surface.package.clone())
            })
            .collect();
        let mut out = Sources {
            tree,
            hits,
            specs: vec![],
            dirs: dirs_of(&packages),
            packages,
            n_files,
            records,
            cache: RefCell::default(),
            only,
            seeing: HashSet::new(),
            sides: HashMap::new(),
            lines: migrations
                .iter()
                .flat_map(|migration| &migration.upgrade_dependency)
                .filter_map(|rule| {
                    let lines = (Line::parse(&rule.from)?, Line::parse(&rule.to)?);
                    Some((rule.package.clone(), lines))
                })
                .collect(),
        };
        out.take_sides();
        if !out.hits.is_empty() || options.exhaustive {
            refuse_namesakes(&out.packages, migrations)?;
            out.see(&rule_packages);
            if options.exhaustive {
                let files = rust
                    .iter()
                    .filter(|file| out.concerns(&file.path))
                    .filter(|file| out.read_text(&file.path).is_some())
                    .map(|file| file.path.clone());
                let files: Vec<String> = files.collect();
                out.hits.extend(files);
            }
            out.pick();
        }
        Ok(out)
    }

    /// One package by itself, with what it depends on by path: every file of it is looked at, as if it could name
    /// anything. Files that no target reaches become targets.
    pub fn of_package(tree: &'t Tree, packages: &[Package], at: usize, files: &[&str]) -> Self {
        let mut wanted = BTreeSet::from([at]);
        let mut queue = vec![at];
        while let Some(at) = queue.pop() {
            for dependency in &packages[at].dependencies {
                let next = packages
                    .iter()
                    .position(|package| dependency.path.as_ref() == Some(&package.dir));
                if let Some(next) = next
                    && wanted.insert(next)
                {
                    queue.push(next);
                }
            }
        }
        let packages: Vec<Package> = wanted.iter().map(|&at| packages[at].clone()).collect();
        let mut out = Sources {
            tree,
            hits: BTreeSet::new(),
            specs: vec![],
            seeing: packages
                .iter()
                .map(|package| package.name.clone())
                .collect(),
            dirs: dirs_of(&packages),
            packages,
            n_files: files.len(),
            records: vec![],
            cache: RefCell::default(),
            only: vec![],
            sides: HashMap::new(),
            lines: HashMap::new(),
        };
        let texts = files
            .iter()
            .filter(|path| out.read_text(path).is_some())
            .map(|path| (*path).to_owned());
        out.hits = texts.collect();
        let all: BTreeSet<usize> = (0..out.packages.len()).collect();
        out.specs = out.specs_of(&all);
        out
    }

    /// Makes a target of each of these files.
    pub fn add_targets(&mut self, package: &Package, files: &[String]) {
        let externs: BTreeMap<String, String> = package
            .dependencies
            .iter()
            .map(|dependency| (dependency.extern_name.clone(), dependency.package.clone()))
            .chain(
                package
                    .lib_name
                    .iter()
                    .map(|lib| (lib.clone(), package.name.clone())),
            )
            .collect();
        self.specs
            .extend(files.iter().enumerate().map(|(n, path)| CrateSpec {
                name: format!("file{n}"),
                package: package.name.clone(),
                kind: CrateKind::Example,
                edition: package.edition,
                root: path.clone(),
                externs: externs.clone(),
            }));
    }

    /// Who can name what is retired: through whatever chain of dependencies.
    fn see(&mut self, rule_packages: &BTreeSet<String>) {
        let mut seeing: HashSet<String> = rule_packages.iter().cloned().collect();
        loop {
            let n = seeing.len();
            for package in &self.packages {
                if package
                    .dependencies
                    .iter()
                    .filter(|dependency| self.side_of(dependency) != Some(Side::Elsewhere))
                    .any(|dependency| seeing.contains(&dependency.package))
                {
                    seeing.insert(package.name.clone());
                }
            }
            if seeing.len() == n {
                break;
            }
        }
        self.seeing = seeing;
    }

    fn by_name(&self) -> HashMap<&str, usize> {
        self.packages
            .iter()
            .enumerate()
            .map(|(at, package)| (package.name.as_str(), at))
            .collect()
    }

    /// The packages that hold a hit, and all of the tree that they depend on.
    fn pick(&mut self) {
        let by_name = self.by_name();
        let mut wanted: BTreeSet<usize> = BTreeSet::new();
        for path in &self.hits {
            if let Some(at) = self.package_of(path)
                && self.seeing.contains(&self.packages[at].name)
            {
                wanted.insert(at);
            }
        }
        let mut queue: Vec<usize> = wanted.iter().copied().collect();
        while let Some(at) = queue.pop() {
            for dependency in &self.packages[at].dependencies {
                if let Some(&next) = by_name.get(dependency.package.as_str())
                    && wanted.insert(next)
                {
                    queue.push(next);
                }
            }
        }
        self.specs = self.specs_of(&wanted);
    }

    /// The targets of packages, libraries first.
    fn specs_of(&self, which: &BTreeSet<usize>) -> Vec<CrateSpec> {
        let by_name = self.by_name();
        let mut specs = Vec::new();
        for &at in which {
            let package = &self.packages[at];
            let mut externs: BTreeMap<String, String> = package
                .dependencies
                .iter()
                .map(|dependency| {
                    let package = match self.side_of(dependency) {
                        // Another version is another crate.
                        Some(Side::Elsewhere) => format!("{} of another line", dependency.package),
                        _ => dependency.package.clone(),
                    };
                    (dependency.extern_name.clone(), package)
                })
                .collect();
            // The lib_name of a dependency in the tree, where code uses that.
            for dependency in &package.dependencies {
                if dependency.extern_name == dependency.package.replace('-', "_")
                    && let Some(&other) = by_name.get(dependency.package.as_str())
                    && let Some(lib) = &self.packages[other].lib_name
                {
                    externs
                        .entry(lib.clone())
                        .or_insert_with(|| dependency.package.clone());
                }
            }
            for target in &package.targets {
                let kind = match target.kind {
                    TargetKind::Lib | TargetKind::ProcMacro => CrateKind::Lib,
                    TargetKind::Bin => CrateKind::Bin,
                    TargetKind::Test => CrateKind::Test,
                    TargetKind::Bench => CrateKind::Bench,
                    TargetKind::Example => CrateKind::Example,
                    TargetKind::BuildScript => CrateKind::BuildScript,
                };
                if self.tree.get(&target.path).is_none() {
                    continue;
                }
                let mut externs = externs.clone();
                if kind != CrateKind::Lib
                    && let Some(lib) = &package.lib_name
                {
                    externs.insert(lib.clone(), package.name.clone());
                }
                let name = match kind {
                    CrateKind::Lib => package
                        .lib_name
                        .clone()
                        .unwrap_or_else(|| package.name.replace('-', "_")),
                    _ => target.name.replace('-', "_"),
                };
                specs.push(CrateSpec {
                    name,
                    package: package.name.clone(),
                    kind,
                    edition: package.edition,
                    root: target.path.clone(),
                    externs,
                });
            }
        }
        // Libraries first: other targets of a package refer to them.
        specs.sort_by_key(|spec| (spec.kind != CrateKind::Lib, spec.root.clone()));
        specs
    }

    /// Which side of an upgrade a dependency is on; none where it is not upgraded.
    fn side_of(&self, dependency: &Dependency) -> Option<Side> {
        let (from, to) = self.lines.get(&dependency.package)?;
        Some(side(dependency.version.as_deref(), *from, *to))
    }

    fn take_sides(&mut self) {
        let mut sides = HashMap::new();
        for package in &self.packages {
            let all: Vec<Side> = package
                .dependencies
                .iter()
                .filter_map(|dependency| self.side_of(dependency))
                .collect();
            let found = [Side::Before, Side::After, Side::Unknown]
                .into_iter()
                .find(|side| all.contains(side));
            if let Some(side) = found {
                sides.insert(package.name.clone(), side);
            }
        }
        self.sides = sides;
    }

    /// What each package depends on, by the packages' names.
    pub fn depends_on(&self) -> HashMap<String, HashSet<String>> {
        self.packages
            .iter()
            .map(|package| {
                let all = package
                    .dependencies
                    .iter()
                    .map(|dependency| dependency.package.clone());
                (package.name.clone(), all.collect())
            })
            .collect()
    }

    /// Whether a file belongs to no package, or to one that can name what is retired.
    pub fn concerns(&self, path: &str) -> bool {
        self.package_of(path)
            .is_none_or(|at| self.seeing.contains(&self.packages[at].name))
    }

    /// The package whose folder is nearest above a file.
    pub fn package_of(&self, path: &str) -> Option<usize> {
        let mut dir = crate::world::parent_dir(path);
        loop {
            if let Some(&at) = self.dirs.get(dir) {
                return Some(at);
            }
            if dir.is_empty() {
                return None;
            }
            dir = crate::world::parent_dir(dir);
        }
    }

    /// Whether a file may be changed, as far as `--package` goes.
    pub fn in_scope(&self, path: &str) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|dir| dir.is_empty() || path.starts_with(&format!("{dir}/")))
    }

    /// Whether a package can name what is retired.
    pub fn sees(&self, package: &Package) -> bool {
        self.seeing.contains(&package.name)
    }

    /// Whether a module's crate can name what is retired at all.
    pub fn can_see(&self, world: &World, module: ModId) -> bool {
        let krate = &world.crates[world.mods[module].krate];
        self.seeing.contains(&krate.package)
    }

    pub fn text(&self, path: &str) -> Option<Rc<str>> {
        self.read_text(path)
    }

    pub fn tree(&self) -> &Tree {
        self.tree
    }

    fn read_text(&self, path: &str) -> Option<Rc<str>> {
        if let Some(text) = self.cache.borrow().get(path) {
            return text.clone();
        }
        let text = self
            .tree
            .get(path)
            .and_then(|file| std::fs::read(&file.absolute).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .map(Rc::from);
        self.cache
            .borrow_mut()
            .insert(path.to_owned(), text.clone());
        text
    }
}

impl Loader for Sources<'_> {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        self.read_text(path)
    }

    fn behind_links(&self, path: &str) -> Option<String> {
        let real = &self.tree.get(path)?.path;
        (real != path).then(|| real.clone())
    }
}

fn dirs_of(packages: &[Package]) -> HashMap<String, usize> {
    packages
        .iter()
        .enumerate()
        .map(|(at, package)| (package.dir.clone(), at))
        .collect()
}

/// Items are known by the names of their packages, so there may be one package of a name that the rules retire items of.
fn refuse_namesakes(packages: &[Package], migrations: &[Migration]) -> Result<(), PlanError> {
    let retired: BTreeSet<&str> = migrations
        .iter()
        .flat_map(|migration| {
            let enums = migration.retire_enum.iter().map(|rule| rule.ty.as_str());
            let wrappers = migration.retire_wrapper.iter().map(|rule| rule.ty.as_str());
            enums.chain(wrappers)
        })
        .filter_map(|path| path.split("::").next())
        .collect();
    let mut manifests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in packages {
        if package.lib_name.is_some() && retired.contains(package.name.replace('-', "_").as_str()) {
            manifests
                .entry(&package.name)
                .or_default()
                .push(format!("`{}`", package.manifest_path));
        }
    }
    match manifests.into_iter().find(|(_, paths)| paths.len() > 1) {
        Some((name, manifests)) => Err(PlanError::Namesakes {
            name: name.to_owned(),
            manifests,
        }),
        None => Ok(()),
    }
}

/// The names of the rules, for a search over raw bytes.
#[derive(Debug)]
pub struct Names(aho_corasick::AhoCorasick);

impl Names {
    fn new(names: &BTreeSet<String>) -> Result<Self, PlanError> {
        // Names hold no byte that ends a word, so no match can reach over the edge of one that is a whole word: of several
        // that begin at one place the longest is enough.
        aho_corasick::AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostLongest)
            .build(names)
            .map(Self)
            .map_err(|err| PlanError::Stopped(err.to_string()))
    }

    /// Whether one of the names stands there as a whole word.
    fn stand_in(&self, bytes: &[u8]) -> bool {
        let is_word = |byte: Option<&u8>| {
            byte.is_some_and(|&byte| byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80)
        };
        self.0.find_iter(bytes).any(|found| {
            let before = found.start().checked_sub(1).and_then(|at| bytes.get(at));
            !is_word(before) && !is_word(bytes.get(found.end()))
        })
    }
}

/// A note on each repository of its own, and each link out of the root, behind which code names one of the items: no run touches
/// that, and what is around it may not compile until somebody has migrated it too.
fn left_outside(tree: &Tree, migrations: &[Migration]) -> Result<Vec<Record>, PlanError> {
    /// A link may lead to a whole disk.
    const MOST_ENTRIES: usize = 50_000;
    let names = migrations.iter().flat_map(Migration::names_of_items);
    let names = Names::new(&names.collect())?;
    let mut bytes = Vec::new();
    let mut out = Vec::new();
    for skipped in tree.skipped() {
        let (what, help) = match skipped.reason {
            SkipReason::Submodule => (
                "a repository of its own, which a run from outside does not touch",
                "run the migration there as well",
            ),
            SkipReason::LinkOutside => (
                "a link out of the root, which is not followed",
                "run the migration where it leads as well",
            ),
            _ => continue,
        };
        let Ok(behind) = std::fs::canonicalize(tree.root().join(&skipped.path)) else {
            continue;
        };
        let is_rust = |path: &std::path::Path| path.extension().is_some_and(|end| end == "rs");
        let hits: Vec<String> = walkdir::WalkDir::new(&behind)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| entry.file_name() != ".git" && entry.file_name() != "target")
            .take(MOST_ENTRIES)
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_file() && is_rust(entry.path()))
            .filter(|entry| {
                read_into(entry.path(), &mut bytes).is_ok_and(|bytes| names.stand_in(bytes))
            })
            .filter_map(|entry| {
                let below = entry.path().strip_prefix(&behind).ok()?;
                let parts = below
                    .components()
                    .map(|part| part.as_os_str().to_string_lossy());
                let all: Vec<_> = [skipped.path.as_str().into()]
                    .into_iter()
                    .chain(parts)
                    .collect();
                Some(all.join("/"))
            })
            .collect();
        let Some(first) = hits.first() else { continue };
        let files = match hits.len() {
            1 => "one file there names".to_owned(),
            n => format!("{n} files there name"),
        };
        let reason = format!(
            "`{}` is {what}; {files} what the migration changes",
            skipped.path
        );
        out.push(file_record(RecordKind::Note, first, &reason, Some(help)));
    }
    Ok(out)
}

/// Reads a file into a buffer that was used before, and only grows.
fn read_into<'b>(path: &std::path::Path, bytes: &'b mut Vec<u8>) -> std::io::Result<&'b [u8]> {
    // Most files fit at once, so that their size need not be asked for.
    const AT_ONCE: usize = 1 << 16;
    let mut file = std::fs::File::open(path)?;
    let mut len = 0;
    loop {
        if bytes.len() < len + AT_ONCE {
            bytes.resize(len + AT_ONCE, 0);
        }
        match file.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(&bytes[..len])
}

pub fn file_record(kind: RecordKind, path: &str, reason: &str, suggestion: Option<&str>) -> Record {
    Record {
        suggestion: suggestion.map(str::to_owned),
        ..Record::about_file(kind, "file", path, reason)
    }
}

/// A file that a program wrote: the mark stands in a comment near its top.
pub fn is_generated(text: &str) -> bool {
    text.lines().take(20).any(|line| {
        let line = line.trim_start();
        line.starts_with("//") && line.contains("@generated")
    })
}
