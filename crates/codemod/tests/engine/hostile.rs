//! Trees that break tools: nesting without end, folders that are not ours to touch, rules that are wrong.

use std::fs;

use codemod::plan::{PlanError, PlanOptions, plan};
use codemod::record::RecordKind;
use codemod::rule::Migration;
use codemod::walk::{WalkOptions, read_tree};

use crate::support::{
    Files, GPU_REPLAY, MIGRATION, keeps_its_promises, migration_text, read_folder, run, run_with,
    text, unresolved, write_folder,
};

const MANIFEST: &str = "[package]\nname = \"deep\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nml-dqn = \"0.1\"\n";
const SITE: &str = "pub fn rows(batch: &ml_dqn::BatchSample) -> usize { batch.gpu_batch.as_ref().unwrap().len() }\n";
const DONE: &str = "pub fn rows(batch: &ml_dqn::GpuBatchPtrs) -> usize { batch.len() }\n";

fn package(sources: &[(&str, &str)]) -> Files {
    let mut files = Files::from([("Cargo.toml".into(), MANIFEST.into())]);
    files.extend(
        sources
            .iter()
            .map(|(path, source)| ((*path).to_owned(), source.as_bytes().to_vec())),
    );
    files
}

/// The parser is recursive, and so is the drop of what it returns: neither may end the process.
#[test]
fn deep_nesting_is_survived() {
    let brackets = format!(
        "pub fn one(_memory: &ml_dqn::ReplayBufferType) -> i32 {{ {}1{} }}\n",
        "(".repeat(20_000),
        ")".repeat(20_000)
    );
    let sum = format!(
        "pub fn sum(batch: &ml_dqn::BatchSample) -> usize {{ {}batch.gpu_batch.as_ref().unwrap().len() }}\n",
        "1 + ".repeat(30_000)
    );
    let links: Vec<String> = (0..6_000)
        .map(|n| format!("if k == {n} {{ {n} }}"))
        .collect();
    let ladder = format!(
        "pub fn pick(k: u32) -> u32 {{ {} else {{ 0 }} }}\n// ReplayBufferType\n",
        links.join(" else ")
    );
    let files = package(&[
        (
            "src/lib.rs",
            &format!("pub mod brackets;\npub mod sum;\npub mod ladder;\n{SITE}"),
        ),
        ("src/brackets.rs", &brackets),
        ("src/sum.rs", &sum),
        ("src/ladder.rs", &ladder),
    ]);
    let run = run(&files).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        text(&run.after["src/lib.rs"]).ends_with(DONE),
        "the file beside them is migrated"
    );
    assert!(
        run.after["src/ladder.rs"] == run.before["src/ladder.rs"],
        "a comment is no site"
    );
    for path in ["src/brackets.rs", "src/sum.rs"] {
        let is_done = !["ReplayBufferType", "BatchSample"]
            .iter()
            .any(|name| text(&run.after[path]).contains(name));
        let is_reported = run
            .of_kind(RecordKind::Unresolved)
            .any(|record| record.file == path);
        assert!(
            is_done || is_reported,
            "{path} is neither migrated nor reported"
        );
    }
}

#[test]
fn what_is_not_the_branchs_own_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let git = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(folder.path())
        .status()
        .expect("git starts");
    assert!(git.success());
    let mut files = package(&[
        ("src/lib.rs", SITE),
        (".hidden/h.rs", SITE),
        ("tests/ui/fails.rs", SITE),
    ]);
    files.insert(".gitignore".into(), b"target/\n/scratch\n".to_vec());
    files.insert(
        "vendor/other/.cargo-checksum.json".into(),
        br#"{"files":{}}"#.to_vec(),
    );
    for path in [
        "target/debug/build/out/gen.rs",
        "vendor/other/src/lib.rs",
        "scratch/notes.rs",
    ] {
        files.insert(path.into(), SITE.into());
    }
    // Two submodules, of which one has something to migrate.
    for (path, source) in [
        ("modules/ours/.git", "gitdir: ../../.git/modules/ours\n"),
        ("modules/ours/src/lib.rs", SITE),
        ("modules/ours/target/gen.rs", SITE),
        ("modules/theirs/.git", "gitdir: ../../.git/modules/theirs\n"),
        (
            "modules/theirs/src/lib.rs",
            "pub enum Device { Gpu, Cpu }\n",
        ),
    ] {
        files.insert(path.into(), source.into());
    }
    write_folder(folder.path(), &files);
    let tree = read_tree(folder.path(), &WalkOptions::default()).expect("a tree");
    let plan =
        plan(&tree, &GPU_REPLAY, &PlanOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let about_modules: Vec<_> = plan
        .records
        .iter()
        .filter(|record| record.file.starts_with("modules/"))
        .collect();
    let [note] = about_modules[..] else {
        panic!("{about_modules:?}");
    };
    assert_eq!(
        (note.kind, note.file.as_str()),
        (RecordKind::Note, "modules/ours/src/lib.rs")
    );
    assert!(
        note.reason.contains("one file there names"),
        "{}",
        note.reason
    );
    let touched: Vec<&str> = plan
        .changes
        .iter()
        .map(codemod::plan::Change::path)
        .collect();
    assert!(touched.contains(&"src/lib.rs"), "{touched:?}");
    assert!(
        !touched
            .iter()
            .any(|path| ["target/", "vendor/", "scratch/", "modules/"]
                .iter()
                .any(|out| path.starts_with(out))),
        "{touched:?}"
    );
    // Under version control, but in no target: said, not guessed.
    for path in [".hidden/h.rs", "tests/ui/fails.rs"] {
        let is_reported = plan
            .records
            .iter()
            .any(|record| record.kind == RecordKind::Unresolved && record.file == path);
        assert!(
            touched.contains(&path) || is_reported,
            "{path} is neither migrated nor reported"
        );
    }
}

/// A rule whose replacement is no Rust: the run stops, says where, and changes no file, the sound ones included.
#[test]
fn a_result_that_does_not_parse_is_never_written() {
    let faulty = migration_text().replace(
        "rename = { gpu_prioritized = \"new\" }",
        "rename = { gpu_prioritized = \"new = =\" }",
    );
    assert_ne!(faulty, migration_text(), "the rule is there to be broken");
    let faulty = [Migration::parse(MIGRATION, &faulty).expect("well formed TOML")];
    let tricky = "use ml_dqn::ReplayBufferType;\n\npub fn open(config: ml_dqn::GpuReplayBufferConfig, stream: std::sync::Arc<cudarc::driver::CudaStream>) -> ReplayBufferType {\n    ReplayBufferType::gpu_prioritized(config, stream).unwrap()\n}\n";
    let files = package(&[
        ("src/lib.rs", &format!("pub mod tricky;\n{SITE}")),
        ("src/tricky.rs", tricky),
    ]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_folder(folder.path(), &files);
    let tree = read_tree(folder.path(), &WalkOptions::default()).expect("a tree");
    match plan(&tree, &faulty, &PlanOptions::default()) {
        Err(PlanError::Broken(broken)) => {
            assert_eq!(
                (broken.path.as_str(), broken.line),
                ("src/tricky.rs", 4),
                "{broken}"
            );
            assert!(
                broken.to_string().starts_with("src/tricky.rs:4: "),
                "{broken}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(read_folder(folder.path()) == files);
}

#[test]
fn a_rule_about_what_no_surface_declares_is_refused() {
    let faulty = migration_text().replace(
        "type = \"ml_dqn::replay_buffer_type::ReplayBufferType\"",
        "type = \"ml_dqn::replay_buffer_type::NoSuchType\"",
    );
    let faulty = [Migration::parse(MIGRATION, &faulty).expect("well formed TOML")];
    let error = run_with(
        &package(&[("src/lib.rs", "use ml_dqn::NoSuchType;\n")]),
        &faulty,
    )
    .map(|_| ())
    .expect_err("nothing declares it")
    .to_string();
    assert!(
        error.contains("NoSuchType") && error.contains(MIGRATION),
        "{error}"
    );
}

/// Bytes that are no text, half a character, a file that is empty or a folder with the name of one.
#[test]
fn odd_files_neither_stop_a_run_nor_change() {
    let mut files = package(&[
        (
            "src/lib.rs",
            &format!("pub mod latin;\npub mod empty;\n{SITE}"),
        ),
        ("src/empty.rs", ""),
    ]);
    files.insert(
        "src/latin.rs".into(),
        b"// f\xfcr ReplayBufferType\npub fn f(_: &ml_dqn::ReplayBufferType) {}\n".to_vec(),
    );
    let run = run(&files).unwrap_or_else(|error| panic!("{error}"));
    assert!(text(&run.after["src/lib.rs"]).ends_with(DONE));
    assert!(run.after["src/latin.rs"] == files["src/latin.rs"]);
    let left = unresolved(&run);
    assert!(
        left.iter()
            .any(|(file, _, reason)| file == "src/latin.rs" && reason.contains("UTF-8")),
        "{left:?}"
    );
    keeps_its_promises(&run, &GPU_REPLAY).unwrap_or_else(|fault| panic!("{fault}"));
}

/// Where `fs` says no, nothing is half done: the plan is made of bytes that were read, or not at all.
#[test]
fn a_file_that_goes_away_stops_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_folder(folder.path(), &package(&[("src/lib.rs", SITE)]));
    let tree = read_tree(folder.path(), &WalkOptions::default()).expect("a tree");
    fs::remove_file(folder.path().join("src/lib.rs")).expect("writable");
    let error = plan(&tree, &GPU_REPLAY, &PlanOptions::default())
        .map(|_| ())
        .expect_err("the file is gone")
        .to_string();
    assert!(error.contains("src/lib.rs"), "{error}");
}

/// A module behind a link is the file behind it, under its own path: it is migrated once, however often it is declared.
#[cfg(unix)]
#[test]
fn modules_behind_links_are_migrated() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for (path, text) in [
        ("Cargo.toml", MANIFEST),
        (
            "src/lib.rs",
            "pub type Memory = ml_dqn::ReplayBufferType;\npub mod all;\npub mod rows;\npub mod again {\n    #[path = \"../../shared/rows.rs\"]\n    pub mod rows;\n}\n",
        ),
        (
            "shared/rows.rs",
            "pub fn on_gpu(memory: &crate::Memory) -> bool {\n    memory.is_gpu()\n}\n",
        ),
        ("shared/all/mod.rs", "pub mod deep;\n"),
        ("shared/all/deep.rs", SITE),
    ] {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), text).unwrap();
    }
    symlink("../shared/rows.rs", at("src/rows.rs")).unwrap();
    symlink("../shared/all", at("src/all")).unwrap();
    let tree = read_tree(folder.path(), &WalkOptions::default()).unwrap();
    let migration = Migration::parse(MIGRATION, &migration_text()).unwrap();
    let plan = plan(&tree, &[migration], &PlanOptions::default()).unwrap();
    let paths: Vec<&str> = plan.changes.iter().map(|change| change.path()).collect();
    assert_eq!(
        paths,
        ["shared/all/deep.rs", "shared/rows.rs", "src/lib.rs"]
    );
    assert_eq!(
        plan.records
            .iter()
            .filter(|record| record.kind == RecordKind::Unresolved)
            .count(),
        0
    );
}

#[cfg(unix)]
#[test]
fn links_out_of_the_root_are_told_of_where_something_behind_them_is_to_change() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    for (path, text) in [
        ("root/Cargo.toml", MANIFEST),
        ("root/src/lib.rs", "pub mod shared;\npub mod other;\n"),
        ("shared/a.rs", SITE),
        ("shared/b.rs", SITE),
        ("one.rs", SITE),
        ("other.rs", "pub enum Device { Gpu, Cpu }\n"),
    ] {
        let at = folder.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
    symlink("../../shared", root.join("src/shared")).unwrap();
    symlink("../../one.rs", root.join("src/one.rs")).unwrap();
    symlink("../../other.rs", root.join("src/other.rs")).unwrap();
    let tree = read_tree(&root, &WalkOptions::default()).unwrap();
    let plan = plan(&tree, &GPU_REPLAY, &PlanOptions::default()).unwrap();
    let told: Vec<_> = plan
        .records
        .iter()
        .filter(|record| record.reason.contains("a link out of the root"))
        .map(|record| (record.file.as_str(), record.kind))
        .collect();
    assert_eq!(
        told,
        [
            ("src/one.rs", RecordKind::Note),
            ("src/shared/a.rs", RecordKind::Note)
        ]
    );
    assert!(plan.changes.is_empty());
}
