//! Small trees without any dependency from a registry, checked by the real cargo.

use std::fs;
use std::path::Path;

use super::*;
use crate::record::{Record, RecordKind};

const OLD_LIB: &str = "pub struct Old;\nimpl Old {\n    pub fn rows(&self) -> usize { 1 }\n}\n";
const NEW_LIB: &str = "pub struct New;\nimpl New {\n    pub fn count(&self) -> usize { 1 }\n}\n";
const APP: &str =
    "use parts::Old;\n\n/// Counts.\npub fn count(old: &Old) -> usize {\n    old.rows()\n}\n";

fn lay_out(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }
}

fn package(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
}

/// `branch/` uses `old/`, both in one folder with `new/`, which is what comes in its place.
fn world() -> tempfile::TempDir {
    let world = tempfile::tempdir().expect("a temporary directory");
    lay_out(
        world.path(),
        &[
            ("old/Cargo.toml", &package("parts", "[workspace]\n")),
            ("old/src/lib.rs", OLD_LIB),
            (
                "new/Cargo.toml",
                &package("parts", "[features]\nfast = []\n[workspace]\n"),
            ),
            ("new/src/lib.rs", NEW_LIB),
            (
                "branch/Cargo.toml",
                "[workspace]\nmembers = [\"app\", \"sick\"]\n[workspace.dependencies]\nparts = { path = \"../old\" }\n",
            ),
            (
                "branch/app/Cargo.toml",
                &package("app", "[dependencies]\nparts = { workspace = true }\n"),
            ),
            ("branch/app/src/lib.rs", APP),
            ("branch/sick/Cargo.toml", &package("sick", "")),
            (
                "branch/sick/src/lib.rs",
                "pub fn broken() -> u8 { \"text\" }\n",
            ),
        ],
    );
    world
}

fn verifier(world: &Path) -> Verifier {
    let replacement = Replacement {
        package: "parts".to_owned(),
        directory: world.join("new"),
        own_stays: false,
    };
    let substitutions = Substitutions {
        replacements: vec![replacement],
        features: Vec::new(),
    };
    Verifier::new(
        &world.join("branch"),
        &world.join("home"),
        substitutions,
        &|_| {},
    )
    .expect("the copy is made")
}

fn write(path: &str, before: &str, after: &str) -> Change {
    Change::Write {
        path: path.to_owned(),
        before: before.into(),
        after: after.into(),
    }
}

#[test]
fn what_is_migrated_passes_and_what_is_not_is_named() {
    let world = world();
    let mut verifier = verifier(world.path());
    assert_eq!(verifier.before().missing, None);
    assert_eq!(
        verifier.before().broken.iter().collect::<Vec<_>>(),
        ["sick"]
    );

    let done = APP.replace("Old", "New").replace("rows", "count");
    let found = verifier
        .check(&[write("app/src/lib.rs", APP, &done)], &|_| {})
        .expect("cargo runs");
    assert_eq!(found, []);
    assert_eq!(verifier.still_broken(), &verifier.before().broken);

    let sick = "pub fn broken() -> u8 { \"text\" }\n";
    let cured = write("sick/src/lib.rs", sick, &sick.replace("\"text\"", "7"));
    let found = verifier
        .check(&[write("app/src/lib.rs", APP, &done), cured], &|_| {})
        .expect("cargo runs");
    assert_eq!(found, []);
    assert!(verifier.still_broken().is_empty());

    let half = format!("// moved\n{}", APP.replace("Old", "New"));
    let changes = [write("app/src/lib.rs", APP, &half)];
    let found = verifier.check(&changes, &|_| {}).expect("cargo runs");
    let [error] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (error.file.as_str(), error.line, error.column),
        ("app/src/lib.rs", 6, 9)
    );
    assert_eq!(&half[error.byte_start..error.byte_end], "rows");
    assert_eq!(
        (error.level, error.code.as_deref(), error.package.as_str()),
        (Level::Error, Some("E0599"), "app")
    );

    let told = records(&changes, &[], &found, |_| None);
    let [record] = &told[..] else {
        panic!("{told:#?}")
    };
    assert_eq!(
        (record.kind, record.line, record.column),
        (RecordKind::Unresolved, 5, 9)
    );
    assert_eq!(&APP[record.byte_start..record.byte_end], "rows");
    assert_eq!(record.source, "    old.rows()");

    let site = Record {
        rule: "host-read".to_owned(),
        reason: "`rows` is gone".to_owned(),
        suggestion: None,
        ..record.clone()
    };
    let told = records(&changes, std::slice::from_ref(&site), &found, |_| None);
    let [note] = &told[..] else {
        panic!("{told:#?}")
    };
    assert_eq!(
        (note.kind, note.byte_start, note.rule.as_str()),
        (RecordKind::Note, site.byte_start, "verify")
    );
    assert!(
        note.reason
            .starts_with("the compiler says: error[E0599]: no method named `rows`"),
        "{}",
        note.reason
    );
}

#[test]
fn the_tree_itself_is_not_touched() {
    let world = world();
    let before = listing(&world.path().join("branch"));
    let mut verifier = verifier(world.path());
    verifier
        .check(
            &[Change::Delete {
                path: "app/src/lib.rs".to_owned(),
                before: APP.into(),
            }],
            &|_| {},
        )
        .ok();
    assert_eq!(listing(&world.path().join("branch")), before);
}

fn listing(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let walk = walkdir::WalkDir::new(root)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.expect("readable"));
    walk.filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            (
                entry.path().to_owned(),
                fs::read(entry.path()).expect("readable"),
            )
        })
        .collect()
}

#[test]
fn a_branch_whose_old_crates_are_gone_is_not_judged_by_how_it_was() {
    let world = world();
    fs::remove_dir_all(world.path().join("old")).expect("removed");
    let mut verifier = verifier(world.path());
    let missing = verifier
        .before()
        .missing
        .clone()
        .expect("it cannot be checked");
    assert!(
        missing.starts_with("cargo could not check `.`: "),
        "{missing}"
    );
    assert!(missing.contains("parts"), "{missing}");
    let done = APP.replace("Old", "New").replace("rows", "count");
    let found = verifier
        .check(&[write("app/src/lib.rs", APP, &done)], &|_| {})
        .expect("the new crates are there");
    // `sick` was sick before, but nobody could see it.
    assert_eq!(
        found
            .iter()
            .map(|found| found.package.as_str())
            .collect::<Vec<_>>(),
        ["sick"]
    );
}

#[test]
fn own_members_leave_or_stay() {
    let world = world();
    lay_out(
        world.path(),
        &[
            (
                "branch/Cargo.toml",
                "[workspace]\nmembers = [\"app\", \"parts\"]\n[workspace.dependencies]\nparts = { path = \"parts\" }\n",
            ),
            ("branch/parts/Cargo.toml", &package("parts", "")),
            ("branch/parts/src/lib.rs", OLD_LIB),
        ],
    );
    let done = APP.replace("Old", "New").replace("rows", "count");
    let changes = [write("app/src/lib.rs", APP, &done)];
    let mut leaves = verifier(world.path());
    assert_eq!(leaves.check(&changes, &|_| {}).expect("cargo runs"), []);
    assert_eq!(leaves.replaced().len(), 1, "{:?}", leaves.replaced());

    let mut stays = verifier(world.path());
    stays.substitutions.replacements[0].own_stays = true;
    let found = stays.check(&changes, &|_| {}).expect("cargo runs");
    assert!(
        found
            .iter()
            .any(|found| found.code.as_deref() == Some("E0432")),
        "{found:#?}"
    );
}

#[test]
fn a_warning_counts_only_where_it_is_new() {
    let world = world();
    let noisy = APP.replace("old.rows()", "let unused = 1;\n    old.rows()");
    lay_out(world.path(), &[("branch/app/src/lib.rs", &noisy)]);
    let mut verifier = verifier(world.path());
    let done = noisy.replace("Old", "New").replace("rows", "count");
    assert_eq!(
        verifier
            .check(&[write("app/src/lib.rs", &noisy, &done)], &|_| {})
            .expect("cargo runs"),
        []
    );
    let worse = done.replace("use parts::New;", "use parts::New;\nuse std::fmt;");
    let found = verifier
        .check(&[write("app/src/lib.rs", &noisy, &worse)], &|_| {})
        .expect("cargo runs");
    let [warning] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (warning.level, warning.code.as_deref()),
        (Level::Warning, Some("unused_imports"))
    );
    let told = records(
        &[write("app/src/lib.rs", &noisy, &worse)],
        &[],
        &found,
        |_| None,
    );
    assert_eq!(told[0].kind, RecordKind::Note);
}

#[test]
fn a_member_of_an_outer_workspace_is_refused() {
    let world = world();
    lay_out(
        world.path(),
        &[(
            "branch/app/Cargo.toml",
            &package("app", "").replace("version = \"0.1.0\"", "version.workspace = true"),
        )],
    );
    let root = world.path().join("branch/app");
    let error = Verifier::new(
        &root,
        &world.path().join("home"),
        Substitutions::default(),
        &|_| {},
    )
    .expect_err("refused");
    assert!(
        matches!(error, VerifyError::OutsideWorkspace { .. }),
        "{error}"
    );
}

/// The manifests of a copy after substitution.
fn substituted(
    files: &[(&str, &str)],
    substitutions: &Substitutions,
) -> (Vec<String>, Vec<(String, String)>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    lay_out(dir.path(), files);
    let (manifests, notes) = manifest::Manifests::read(dir.path())
        .expect("manifests")
        .substitute(substitutions);
    manifests.write(dir.path()).expect("written");
    (
        files
            .iter()
            .map(|(path, _)| fs::read_to_string(dir.path().join(path)).expect("a manifest"))
            .collect(),
        notes,
    )
}

#[test]
fn every_form_of_a_dependency_is_replaced() {
    let manifest = r#"
[dependencies]
parts = "1"
renamed = { package = "parts", git = "https://localhost/x", tag = "v1", features = ["fast"], optional = true }
bystander = "1"
gpu = { version = "1", features = ["driver", "cuda-12"] }
[dev-dependencies.parts]
version = "1"
registry = "here"
[target.'cfg(unix)'.build-dependencies]
parts = { path = "../parts" }
[workspace]
members = ["a", "own/parts", "globs/*"]
[workspace.dependencies]
parts = { git = "https://localhost/x", branch = "main" }
[patch.crates-io]
parts = { path = "../parts" }
other = { path = "../other" }
"#;
    let own = package("parts", "");
    let inheriting = package(
        "app",
        "[dependencies]\ngpu = { workspace = true, features = [\"cuda-11\"] }\nparts.workspace = true\n",
    );
    let files = [
        ("Cargo.toml", manifest),
        ("own/parts/Cargo.toml", own.as_str()),
        ("a/Cargo.toml", inheriting.as_str()),
    ];
    let substitutions = Substitutions {
        replacements: vec![Replacement {
            package: "parts".to_owned(),
            directory: "/new/parts".into(),
            own_stays: false,
        }],
        features: vec![ExclusiveFeature {
            package: "gpu".to_owned(),
            prefix: "cuda-".to_owned(),
            chosen: "cuda-13".to_owned(),
        }],
    };
    let (texts, notes) = substituted(&files, &substitutions);
    insta::assert_snapshot!(texts[0]);
    assert!(
        texts[2].contains(
            "gpu = { workspace = true, features = [\"cuda-13\"] }\nparts.workspace = true\n"
        ),
        "{}",
        texts[2]
    );
    let notes: Vec<_> = notes
        .iter()
        .map(|(file, note)| format!("{file}: {note}"))
        .collect();
    assert_eq!(
        notes,
        [
            "Cargo.toml: the check took `cuda-13` of `gpu` for `cuda-12`: two such features do not compile together",
            "a/Cargo.toml: the check took `cuda-13` of `gpu` for `cuda-11`: two such features do not compile together",
            "own/parts/Cargo.toml: the check took `parts` from `/new/parts`, not from the tree",
        ]
    );
}
