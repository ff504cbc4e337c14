//! The parts of a run, each by itself: `cargo bench -p codemod`.
//!
//! All of them work on the example branch in `tests/branches/foxhunt`, so that a figure speaks of code as users have it.
//! The search is given that code many times over, with its names taken out: almost all of a tree holds none.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use codemod::analysis::analyze;
use codemod::plan::{PlanOptions, plan};
use codemod::rule::Migration;
use codemod::syntax::{on_big_stack, parse};
use codemod::walk::{FileKind, Tree, WalkOptions, read_tree};
use codemod::world::{CrateKind, CrateSpec, Loader, World};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The copies of the branch that the search goes through.
const COPIES: usize = 40;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tree(root: &Path) -> Tree {
    read_tree(root, &WalkOptions::default()).expect("a tree")
}

fn migrations() -> Vec<Migration> {
    let id = "2026-04-10-gpu-replay";
    let path = repository()
        .join("migrations")
        .join(id)
        .join("migration.toml");
    let text = fs::read_to_string(path).expect("the migration");
    vec![Migration::parse(id, &text).expect("the migration")]
}

/// The Rust files of the branch, by path.
fn sources() -> Vec<(String, String)> {
    let tree = tree(&repository().join("tests/branches/foxhunt"));
    tree.files()
        .iter()
        .filter(|file| file.kind == FileKind::Rust)
        .map(|file| {
            let text = fs::read_to_string(&file.absolute).expect("readable");
            (file.path.clone(), text)
        })
        .collect()
}

fn bytes(sources: &[(String, String)]) -> u64 {
    sources.iter().map(|(_, text)| text.len() as u64).sum()
}

/// Walk and search: a tree in which no name stands.
fn search(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let migrations = migrations();
    let needles: Vec<String> = migrations.iter().flat_map(Migration::needles).collect();
    let sources = sources();
    for copy in 0..COPIES {
        for (path, text) in &sources {
            let mut text = text.clone();
            for needle in &needles {
                // Still a near miss: the search meets it and has to tell.
                text = text.replace(needle.as_str(), &format!("{needle}_"));
            }
            let path = home.path().join(format!("copy{copy}")).join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, text).expect("writable");
        }
    }
    let mut group = criterion.benchmark_group("search");
    group.throughput(Throughput::Bytes(bytes(&sources) * COPIES as u64));
    group.bench_function("walk and search", |bench| {
        bench.iter(|| {
            let plan = plan(&tree(home.path()), &migrations, &PlanOptions::default());
            let plan = plan.expect("a plan");
            assert!(plan.changes.is_empty());
            plan.unchanged
        })
    });
    group.finish();
}

fn parsing(criterion: &mut Criterion) {
    let sources = sources();
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Bytes(bytes(&sources)));
    group.bench_function("the branch", |bench| {
        on_big_stack_of(bench, &sources, |sources| {
            for (path, text) in sources {
                black_box(parse(text).unwrap_or_else(|err| panic!("{path}: {err}")));
            }
        })
    });
    group.finish();
}

/// Measures something that parses, on the stack that parsing needs.
fn on_big_stack_of<T: Sync>(
    bench: &mut criterion::Bencher<'_>,
    input: &T,
    run: impl Fn(&T) + Sync,
) {
    bench.iter_custom(|n| {
        on_big_stack(|| {
            let started = std::time::Instant::now();
            for _ in 0..n {
                run(input);
            }
            started.elapsed()
        })
    });
}

struct Files(HashMap<String, Rc<str>>);

impl Loader for Files {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        self.0.get(path).cloned()
    }
}

/// Modules, names and types of one crate of the branch, parsed anew as a run does.
fn resolve(criterion: &mut Criterion) {
    let root = "crates/ml-dqn/src/lib.rs";
    let sources: Vec<(String, String)> = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/ml-dqn/src/"))
        .collect();
    assert!(sources.iter().any(|(path, _)| path == root));
    let mut group = criterion.benchmark_group("resolve");
    group.throughput(Throughput::Bytes(bytes(&sources)));
    group.bench_function("one crate", |bench| {
        on_big_stack_of(bench, &sources, |sources| {
            let spec = CrateSpec {
                name: "ml_dqn".into(),
                package: "ml-dqn".into(),
                kind: CrateKind::Lib,
                edition: 2021,
                root: root.into(),
                externs: BTreeMap::new(),
            };
            let files = sources
                .iter()
                .map(|(path, text)| (path.clone(), Rc::from(text.as_str())));
            let world = World::build(&[spec], &[], &Files(files.collect()));
            for (id, file) in world.files.iter().enumerate() {
                for &context in &file.contexts {
                    let parsed = file.parsed.as_ref().expect("the branch parses");
                    black_box(analyze(&world, parsed, id, context));
                }
            }
        })
    });
    group.finish();
}

/// The whole of it: a branch where most files are hit.
fn planning(criterion: &mut Criterion) {
    let tree = tree(&repository().join("tests/branches/foxhunt"));
    let migrations = migrations();
    let mut group = criterion.benchmark_group("plan");
    group.throughput(Throughput::Bytes(bytes(&sources())));
    group.bench_function("the branch", |bench| {
        bench.iter(|| {
            let plan = plan(&tree, &migrations, &PlanOptions::default()).expect("a plan");
            assert!(!plan.changes.is_empty());
            plan
        })
    });
    group.finish();
}

criterion_group! {
    name = parts;
    config = Criterion::default().sample_size(10).without_plots();
    targets = search, parsing, resolve, planning
}
criterion_main!(parts);
