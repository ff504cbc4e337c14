//! The real migration on small branches under git: what is written, what is said, and with which exit code it ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ran, folder, here, xtask};

const MANIFEST: &str = "[package]\nname = \"desk\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nml-dqn = \"0.1\"\n";
const ROWS: &str = "use ml_dqn::ReplayBufferType;\n\npub fn rows(memory: &ReplayBufferType) -> usize {\n    match memory {\n        ReplayBufferType::GpuPrioritized(gpu) => gpu.len(),\n        _ => 0,\n    }\n}\n";
const ROWS_AFTER: &str = "use ml_dqn::GpuReplayBuffer;\n\npub fn rows(memory: &GpuReplayBuffer) -> usize {\n    memory.len()\n}\n";
const SITE: &str =
    "pub fn reward(batch: &ml_dqn::BatchSample) -> f32 {\n    batch.experiences[0].reward\n}\n";

/// A committed tree, and where the migrations are.
struct Branch {
    folder: tempfile::TempDir,
}

impl Branch {
    fn new(files: &[(&str, &str)]) -> Self {
        let branch = Self { folder: folder() };
        branch.write("Cargo.toml", MANIFEST);
        for (path, text) in files {
            branch.write(path, text);
        }
        branch.git(&["init", "-q"]);
        branch.commit();
        branch
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).expect("a file")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let settings = [
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@localhost",
            "-c",
            "core.autocrlf=false",
        ];
        let done = Command::new("git")
            .args(settings)
            .args(arguments)
            .current_dir(self.root())
            .output()
            .expect("git starts");
        assert!(
            done.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).expect("text")
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "as it is"]);
    }

    /// Every file but git's own, with its permission bits.
    fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, bool)> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                    folders.push(path);
                } else if path.is_file() {
                    let read_only = fs::metadata(&path)
                        .expect("metadata")
                        .permissions()
                        .readonly();
                    files.insert(
                        path.clone(),
                        (fs::read(&path).expect("readable"), read_only),
                    );
                }
            }
        }
        files
    }

    fn migrate(&self, arguments: &[&str]) -> Ran {
        let root = self.root().to_str().expect("UTF-8").to_owned();
        let arguments = [&["migrate", "--root", &root], arguments].concat();
        xtask(here(), &arguments)
    }
}

#[test]
fn done_and_nothing_to_do_are_0() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let ran = branch.migrate(&[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let tally = "1 files changed, 0 deleted, 0 unresolved, 1 unchanged\n";
    assert!(ran.out.ends_with(tally), "{}", ran.out);
    assert_eq!(branch.read("src/lib.rs"), ROWS_AFTER);
    branch.commit();
    let again = branch.migrate(&[]);
    assert_eq!(again.code, Some(0));
    assert!(again.out.contains("nothing to migrate"), "{}", again.out);
    assert_eq!(branch.read("src/lib.rs"), ROWS_AFTER);
}

#[test]
fn check_and_diff_say_what_a_run_would_do() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let before = branch.files();
    let check = branch.migrate(&["--check"]);
    assert_eq!(check.code, Some(1), "{}", check.err);
    let diff = branch.migrate(&["--diff"]);
    assert_eq!(diff.code, Some(0), "{}", diff.err);
    assert!(branch.files() == before, "nothing is written");
    branch.migrate(&[]);
    branch.commit();
    assert_eq!(branch.migrate(&["--check"]).code, Some(0));
}

#[test]
fn what_is_left_is_2_each_time() {
    let branch = Branch::new(&[
        ("src/lib.rs", &format!("pub mod host;\n{ROWS}")),
        ("src/host.rs", SITE),
    ]);
    assert_eq!(
        branch.migrate(&["--check"]).code,
        Some(1),
        "a change comes before a site"
    );
    assert_eq!(branch.migrate(&["--diff"]).code, Some(2));
    let ran = branch.migrate(&[]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.out.contains("src/host.rs:2:5"), "{}", ran.out);
    assert!(branch.read("src/lib.rs").ends_with(ROWS_AFTER));
    branch.commit();
    for arguments in [&[][..], &["--check"], &["--diff"]] {
        let again = branch.migrate(arguments);
        assert_eq!(again.code, Some(2), "{arguments:?}");
        assert!(
            (again.out + &again.err).contains("src/host.rs:2:5"),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_refusal_is_3_and_writes_nothing() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    branch.write("notes.txt", "not committed\n");
    let before = branch.files();
    let dirty = branch.migrate(&[]);
    assert_eq!(dirty.code, Some(3));
    assert!(
        dirty.err.contains("notes.txt") && dirty.err.contains("--allow-dirty"),
        "{}",
        dirty.err
    );
    assert!(branch.files() == before);
    assert_eq!(
        branch.migrate(&["--check"]).code,
        Some(1),
        "looking is allowed"
    );
    assert_eq!(branch.migrate(&["--allow-dirty"]).code, Some(0));
    assert_eq!(branch.read("src/lib.rs"), ROWS_AFTER);

    let strict = Branch::new(&[
        ("src/lib.rs", &format!("pub mod host;\n{ROWS}")),
        ("src/host.rs", SITE),
    ]);
    let before = strict.files();
    let ran = strict.migrate(&["--strict"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.out.contains("src/host.rs:2:5"), "{}", ran.out);
    assert!(strict.files() == before);
}

#[test]
fn git_takes_the_diff_and_comes_to_the_same() {
    let files = [
        ("src/lib.rs", format!("pub mod windows;\npub mod bare;\n{ROWS}")),
        ("src/windows.rs", ROWS.replace('\n', "\r\n")),
        ("src/bare.rs", ROWS.trim_end().to_owned()),
        ("tests/host.rs", "use ml_dqn::{ReplayBuffer, ReplayBufferConfig};\n\n#[test]\nfn starts_empty() {\n    assert!(ReplayBuffer::new(ReplayBufferConfig::default()).is_empty());\n}\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (*path, text.as_str()))
        .collect();
    let by_patch = Branch::new(&files);
    let diff = by_patch.migrate(&["--diff"]);
    assert_eq!(diff.code, Some(0), "{}", diff.err);
    let patch = by_patch.root().join(".git/patch");
    fs::write(&patch, &diff.out).expect("a file");
    by_patch.git(&["apply", "--check", patch.to_str().expect("UTF-8")]);
    by_patch.git(&["apply", patch.to_str().expect("UTF-8")]);

    let by_run = Branch::new(&files);
    assert_eq!(by_run.migrate(&[]).code, Some(0));
    assert!(!by_run.root().join("tests/host.rs").exists());
    for (path, _) in &files[..3] {
        assert_eq!(by_patch.read(path), by_run.read(path), "{path}");
    }
    assert!(!by_patch.root().join("tests/host.rs").exists());
}

#[test]
fn json_lines_are_sorted_and_summed_up() {
    let branch = Branch::new(&[
        ("src/lib.rs", &format!("pub mod host;\n{ROWS}")),
        ("src/host.rs", SITE),
    ]);
    let ran = branch.migrate(&["--check", "--message-format", "json"]);
    let records: Vec<serde_json::Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!(records[0]["schema"], 1);
    let places: Vec<(&str, u64)> = records
        .iter()
        .filter_map(|record| Some((record["file"].as_str()?, record["byte_start"].as_u64()?)))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    let last = records.last().expect("a summary");
    assert_eq!(last["kind"], "summary");
    let site = records
        .iter()
        .find(|record| record["kind"] == "unresolved")
        .expect("one is left");
    assert_eq!(
        (
            site["file"].as_str(),
            site["line"].as_u64(),
            site["source"].as_str()
        ),
        (
            Some("src/host.rs"),
            Some(2),
            Some("    batch.experiences[0].reward")
        )
    );
    assert!(site["suggestion"].is_string(), "{site}");
    let with_jobs = branch.migrate(&["--check", "--message-format", "json", "--jobs", "1"]);
    assert_eq!(with_jobs.out, ran.out, "the same for any number of jobs");
}

/// One file and one folder that cannot be written stop the run before its first byte.
#[cfg(unix)]
#[test]
fn a_locked_file_stops_all_of_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let lock = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let branch = Branch::new(&[
        (
            "src/lib.rs",
            &format!("pub mod locked;\npub mod ro;\n{ROWS}"),
        ),
        ("src/locked.rs", ROWS),
        ("src/ro/mod.rs", ROWS),
    ]);
    lock(&branch.root().join("src/locked.rs"), 0o444);
    lock(&branch.root().join("src/ro"), 0o555);
    let before = branch.files();
    let ran = branch.migrate(&["--allow-dirty"]);
    let after = branch.files();
    lock(&branch.root().join("src/ro"), 0o755);
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    for path in ["src/locked.rs", "src/ro"] {
        assert!(ran.err.contains(path), "{}", ran.err);
    }
    assert!(
        after == before,
        "no byte, no bit, no file that was not there"
    );
}

/// A rule whose replacement is no Rust: the place is named, and files that were sound stay as they were, too.
#[test]
fn a_faulty_rule_writes_nothing() {
    let rules = fs::read_to_string(
        here()
            .parent()
            .expect("the repository")
            .join("migrations/2026-04-10-gpu-replay/migration.toml"),
    )
    .expect("readable");
    let faulty = rules.replace(
        "rename = { gpu_prioritized = \"new\" }",
        "rename = { gpu_prioritized = \"new = =\" }",
    );
    assert_ne!(faulty, rules);
    let migrations = folder();
    let home = migrations.path().join("2026-04-10-gpu-replay");
    fs::create_dir(&home).expect("a folder");
    fs::write(home.join("migration.toml"), faulty).expect("a file");
    let tricky = "pub fn open(config: ml_dqn::GpuReplayBufferConfig, stream: Stream) -> ml_dqn::ReplayBufferType {\n    ml_dqn::ReplayBufferType::gpu_prioritized(config, stream).unwrap()\n}\n";
    let branch = Branch::new(&[
        ("src/lib.rs", &format!("pub mod tricky;\n{ROWS}")),
        ("src/tricky.rs", tricky),
    ]);
    let before = branch.files();
    let ran = branch.migrate(&["--migrations", migrations.path().to_str().expect("UTF-8")]);
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    assert!(ran.err.contains("src/tricky.rs:2: "), "{}", ran.err);
    assert!(branch.files() == before);
}

#[test]
fn a_package_or_a_glob_narrows_a_run() {
    let workspace = "[workspace]\nmembers = [\"one\", \"two\"]\n";
    let member = |name: &str| MANIFEST.replace("desk", name);
    let branch = Branch::new(&[
        ("one/Cargo.toml", &member("one")),
        ("one/src/lib.rs", ROWS),
        ("two/Cargo.toml", &member("two")),
        ("two/src/lib.rs", ROWS),
    ]);
    branch.write("Cargo.toml", workspace);
    branch.commit();
    assert_eq!(branch.migrate(&["--package", "one"]).code, Some(0));
    assert_eq!(branch.read("one/src/lib.rs"), ROWS_AFTER);
    assert_eq!(branch.read("two/src/lib.rs"), ROWS);
    branch.commit();
    assert_eq!(branch.migrate(&["--exclude", "two/**"]).code, Some(0));
    assert_eq!(branch.read("two/src/lib.rs"), ROWS);
    let none = branch.migrate(&["--package", "three"]);
    assert_eq!(none.code, Some(3));
    assert!(none.err.contains("three"), "{}", none.err);
}

/// What the new crates define in one module and re-export from another still goes by the path that the rules give.
#[test]
fn a_branch_that_holds_the_new_crates_is_finished() {
    let workspace = "[workspace]\nmembers = [\"desk\", \"crates/ml-dqn\"]\n";
    let buffer = "mod batch;\n\npub use batch::GpuBatchPtrs;\n\npub struct GpuReplayBuffer(());\n\nimpl GpuReplayBuffer {\n    pub fn len(&self) -> usize {\n        0\n    }\n}\n";
    let batch = "/// Device addresses of one batch.\n#[derive(Debug, Clone, Default)]\npub struct GpuBatchPtrs(());\n\nimpl GpuBatchPtrs {\n    pub fn len(&self) -> usize {\n        0\n    }\n}\n";
    let branch = Branch::new(&[
        (
            "desk/Cargo.toml",
            &MANIFEST.replace("\"0.1\"", "{ path = \"../crates/ml-dqn\" }"),
        ),
        (
            "desk/src/lib.rs",
            "use ml_dqn::{BatchSample, GpuBatchPtrs};\n\npub fn rows(batch: &BatchSample) -> usize {\n    batch.gpu_batch.as_ref().map_or(0, GpuBatchPtrs::len)\n}\n",
        ),
        (
            "crates/ml-dqn/Cargo.toml",
            "[package]\nname = \"ml-dqn\"\nversion = \"0.2.0\"\nedition = \"2024\"\n",
        ),
        (
            "crates/ml-dqn/src/lib.rs",
            "pub mod gpu_replay_buffer;\n\npub use gpu_replay_buffer::{GpuBatchPtrs, GpuReplayBuffer};\n",
        ),
        ("crates/ml-dqn/src/gpu_replay_buffer.rs", buffer),
        ("crates/ml-dqn/src/gpu_replay_buffer/batch.rs", batch),
    ]);
    branch.write("Cargo.toml", workspace);
    branch.commit();
    let ran = branch.migrate(&[]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(
        branch.read("desk/src/lib.rs"),
        "use ml_dqn::GpuBatchPtrs;\n\npub fn rows(batch: &GpuBatchPtrs) -> usize {\n    batch.len()\n}\n"
    );
    assert_eq!(
        branch.read("crates/ml-dqn/src/gpu_replay_buffer/batch.rs"),
        batch
    );
}

/// Items are known by their package's name: with two packages of it, one's would be taken for what has no counterpart.
#[test]
fn two_packages_of_a_name_are_refused() {
    let lay = |root: &str| {
        [
            (
                format!("{root}/Cargo.toml"),
                MANIFEST.replace("\"0.1\"", "{ path = \"ml-dqn\" }"),
            ),
            (format!("{root}/src/lib.rs"), ROWS.to_owned()),
            (
                format!("{root}/ml-dqn/Cargo.toml"),
                "[package]\nname = \"ml-dqn\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"
                    .to_owned(),
            ),
            (
                format!("{root}/ml-dqn/src/lib.rs"),
                "pub mod replay_buffer_type;\npub use replay_buffer_type::ReplayBufferType;\n"
                    .to_owned(),
            ),
            (
                format!("{root}/ml-dqn/src/replay_buffer_type.rs"),
                "pub enum ReplayBufferType {\n    GpuPrioritized(crate::GpuReplayBuffer),\n}\n"
                    .to_owned(),
            ),
        ]
    };
    let files: Vec<(String, String)> = lay("one").into_iter().chain(lay("two")).collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let branch = Branch::new(&files);
    branch.write("Cargo.toml", "[workspace]\n");
    branch.commit();
    let before = branch.files();
    let ran = branch.migrate(&[]);
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    for said in [
        "one/ml-dqn/Cargo.toml",
        "two/ml-dqn/Cargo.toml",
        "--exclude",
    ] {
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    assert!(branch.files() == before);
    let one = branch.migrate(&["--exclude", "/two"]);
    assert_eq!(one.code, Some(0), "{}{}", one.out, one.err);
    assert_eq!(branch.read("one/src/lib.rs"), ROWS_AFTER);
    assert_eq!(branch.read("two/src/lib.rs"), ROWS);
}

/// Nobody answers: nothing is agreed to, which is not to say that nothing is to be done.
#[test]
fn what_is_declined_is_told() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let before = branch.files();
    let ran = branch.migrate(&["--interactive"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("note: src/lib.rs: declined"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("nothing to migrate"), "{}", ran.out);
    assert!(branch.files() == before);
}

#[test]
fn a_part_of_a_package_is_refused_with_the_package() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let source = branch.root().join("src");
    let ran = xtask(
        here(),
        &[
            "migrate",
            "--check",
            "--root",
            source.to_str().expect("UTF-8"),
        ],
    );
    assert_eq!(ran.code, Some(3), "{}", ran.out);
    assert!(ran.err.contains("it is a part of `--root"), "{}", ran.err);
}

/// A page that cannot be written is told before the files are.
#[test]
fn a_page_that_has_no_place_stops_the_run() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let before = branch.files();
    for place in ["no/such/folder/page.html", "src"] {
        let page = branch.root().join(place);
        let ran = branch.migrate(&["--report", page.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, Some(3), "{}", ran.out);
        assert!(ran.err.contains("cannot write the page"), "{}", ran.err);
    }
    assert!(branch.files() == before);
}

/// A full disk behind standard output: the files are written, and the exit code does not say that they are not.
#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_printed_does_not_deny_what_was_written() {
    let branch = Branch::new(&[("src/lib.rs", ROWS)]);
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let ran = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["migrate", "--root"])
        .arg(branch.root())
        .stdout(full)
        .output()
        .expect("it starts");
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8(ran.stderr).expect("text");
    assert!(
        said.contains("cannot print") && said.contains("the files were written"),
        "{said}"
    );
    assert_eq!(branch.read("src/lib.rs"), ROWS_AFTER);
}
