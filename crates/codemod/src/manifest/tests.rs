use super::*;
use crate::walk::{WalkOptions, read_tree};
use std::fs;
use tempfile::TempDir;

/// A tree of these files; a `.rs` file needs no text.
fn tree_of(files: &[(&str, &str)]) -> (TempDir, Tree) {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = read_tree(home.path(), &WalkOptions::default()).unwrap();
    (home, tree)
}

fn read(files: &[(&str, &str)]) -> (Vec<Package>, Vec<ManifestProblem>) {
    let (_home, tree) = tree_of(files);
    read_packages(&tree)
}

#[track_caller]
fn sound(files: &[(&str, &str)]) -> Vec<Package> {
    let (packages, problems) = read(files);
    assert_eq!(problems, []);
    packages
}

fn targets(package: &Package) -> Vec<(TargetKind, &str, &str, bool)> {
    package
        .targets
        .iter()
        .map(|target| {
            (
                target.kind,
                target.name.as_str(),
                target.path.as_str(),
                target.explicit,
            )
        })
        .collect()
}

use TargetKind::{Bench, Bin, BuildScript, Example, Lib, ProcMacro, Test};

#[test]
fn finds_targets_by_their_place() {
    let manifest = "[package]\nname = \"my-app\"\nedition = \"2021\"\n";
    let mut files = vec![("app/Cargo.toml", manifest)];
    files.extend(
        [
            "src/lib.rs",
            "src/main.rs",
            "src/bin/one.rs",
            "src/bin/two/main.rs",
            "src/bin/no/other.rs",
            "tests/t.rs",
            "tests/common/mod.rs",
        ]
        .map(|path| (path, "")),
    );
    files.extend(
        [
            "tests/big/main.rs",
            "tests/.hidden.rs",
            "benches/b.rs",
            "examples/e.rs",
            "examples/data.txt",
            "build.rs",
        ]
        .map(|path| (path, "")),
    );
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| {
            (
                if path.starts_with("app") {
                    (*path).to_owned()
                } else {
                    format!("app/{path}")
                },
                *text,
            )
        })
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    let packages = sound(&files);
    let package = &packages[0];
    assert_eq!(
        (
            package.name.as_str(),
            package.lib_name.as_deref(),
            package.dir.as_str(),
            package.edition
        ),
        ("my-app", Some("my_app"), "app", 2021)
    );
    assert_eq!(package.manifest_path, "app/Cargo.toml");
    let expected = [
        (Lib, "my_app", "app/src/lib.rs", false),
        (Bin, "my-app", "app/src/main.rs", false),
        (Bin, "one", "app/src/bin/one.rs", false),
        (Bin, "two", "app/src/bin/two/main.rs", false),
        (Example, "e", "app/examples/e.rs", false),
        (Test, "big", "app/tests/big/main.rs", false),
        (Test, "t", "app/tests/t.rs", false),
        (Bench, "b", "app/benches/b.rs", false),
        (BuildScript, "build-script-build", "app/build.rs", false),
    ];
    assert_eq!(targets(package), expected);
    assert_eq!(package.target_at("app/tests/t.rs").unwrap().name, "t");
    assert_eq!(package.target_at("app/tests/common/mod.rs"), None);
}

#[test]
fn entries_of_the_manifest_come_first_and_take_their_files() {
    let manifest = "\
[package]
name = \"p\"
edition = \"2021\"
build = \"make.rs\"
[lib]
name = \"other\"
path = \"code/lib.rs\"
proc-macro = true
[[test]]
name = \"listed\"
harness = false
required-features = [\"slow\"]
[[test]]
name = \"elsewhere\"
path = \"tests/sub/../renamed.rs\"
[[test]]
name = \"missing\"
";
    let files = [
        ("Cargo.toml", manifest),
        ("tests/listed/main.rs", ""),
        ("tests/renamed.rs", ""),
        ("tests/found.rs", ""),
    ];
    let packages = sound(&files);
    let expected = [
        (ProcMacro, "other", "code/lib.rs", true),
        (Test, "listed", "tests/listed/main.rs", true),
        (Test, "elsewhere", "tests/renamed.rs", true),
        (Test, "missing", "tests/missing.rs", true),
        (Test, "found", "tests/found.rs", false),
        (BuildScript, "build-script-build", "make.rs", true),
    ];
    assert_eq!(targets(&packages[0]), expected);
    let listed = &packages[0].targets[1];
    assert_eq!(
        (listed.harness, &listed.required_features[..]),
        (false, &["slow".to_owned()][..])
    );
    assert_eq!(packages[0].lib_name.as_deref(), Some("other"));
}

#[test]
fn automatic_targets_can_be_turned_off() {
    let manifest = "[package]\nname = \"p\"\nedition = \"2024\"\nautotests = false\nautobins = false\nautolib = false\nbuild = false\n[[bench]]\nname = \"a\"\n";
    let files = [
        ("Cargo.toml", manifest),
        ("src/lib.rs", ""),
        ("src/main.rs", ""),
        ("tests/t.rs", ""),
        ("benches/a.rs", ""),
        ("benches/b.rs", ""),
        ("build.rs", ""),
    ];
    let packages = sound(&files);
    assert_eq!(
        targets(&packages[0]),
        [
            (Bench, "a", "benches/a.rs", true),
            (Bench, "b", "benches/b.rs", false)
        ]
    );
    assert_eq!(packages[0].lib_name, None);
}

#[test]
fn edition_2015_stops_looking_once_a_kind_is_listed() {
    let manifest = "[package]\nname = \"p\"\n[[bin]]\nname = \"tool\"\n[[test]]\nname = \"a\"\n";
    let mut files = vec![("Cargo.toml", manifest)];
    files.extend(
        [
            "src/tool.rs",
            "src/bin/b.rs",
            "tests/a.rs",
            "tests/b.rs",
            "examples/e.rs",
        ]
        .map(|path| (path, "")),
    );
    let packages = sound(&files);
    assert_eq!(packages[0].edition, 2015);
    assert_eq!(
        targets(&packages[0]),
        [
            (Bin, "tool", "src/tool.rs", true),
            (Example, "e", "examples/e.rs", false),
            (Test, "a", "tests/a.rs", true)
        ]
    );
    let on = manifest.replace("\"p\"\n", "\"p\"\nautotests = true\n");
    files[0].1 = &on;
    assert!(
        sound(&files)[0]
            .targets
            .iter()
            .any(|target| target.name == "b")
    );
}

#[test]
fn dependencies_are_read_from_all_tables() {
    let manifest = "\
[package]
name = \"p\"
edition = \"2024\"
[features]
default = [\"std\", \"fast\"]
std = []
fast = [\"dep:rand-core\", \"std\"]
[dependencies]
plain-one = \"1.2\"
dqn = { package = \"ml-dqn\", version = \"0.3\", optional = true, default-features = false, features = [\"her\"] }
dotted.path = \"../sibling\"
[dev-dependencies]
testing = { git = \"https://example.org/x\" }
[target.'cfg(unix)'.build-dependencies]
cc = \"1\"
";
    let package = &sound(&[("a/Cargo.toml", manifest)])[0];
    let seen: Vec<_> = package
        .dependencies
        .iter()
        .map(|of| {
            (
                of.extern_name.as_str(),
                of.package.as_str(),
                of.kind,
                of.path.as_deref(),
                of.target.as_deref(),
            )
        })
        .collect();
    use DependencyKind::{Build, Dev, Normal};
    let expected = [
        ("dotted", "dotted", Normal, Some("sibling"), None),
        ("dqn", "ml-dqn", Normal, None, None),
        ("plain_one", "plain-one", Normal, None, None),
        ("testing", "testing", Dev, None, None),
        ("cc", "cc", Build, None, Some("cfg(unix)")),
    ];
    let mut seen_sorted = seen.clone();
    seen_sorted[..3].sort();
    assert_eq!(seen_sorted, expected);
    let dqn = package
        .dependencies
        .iter()
        .find(|of| of.extern_name == "dqn")
        .unwrap();
    assert!(dqn.optional && !dqn.default_features && !dqn.inherited);
    assert_eq!(
        (dqn.version.as_deref(), &dqn.features[..]),
        (Some("0.3"), &["her".to_owned()][..])
    );
    let on: Vec<_> = package.default_features().into_iter().collect();
    assert_eq!(on, ["dep:rand-core", "fast", "std"]);
    assert_eq!(package.features["fast"], ["dep:rand-core", "std"]);
}

#[test]
fn members_inherit_from_the_workspace_that_is_theirs() {
    let root = "\
[workspace]
members = [\"crates/*\", \"tools/in\"]
exclude = [\"tools\"]
[workspace.package]
edition = \"2021\"
[workspace.dependencies]
dqn = { package = \"ml-dqn\", path = \"crates/ml-dqn\", features = [\"her\"] }
cudarc = \"0.19\"
";
    let member = |name: &str, dependencies: &str| {
        format!(
            "[package]\nname = \"{name}\"\nedition.workspace = true\n[dependencies]\n{dependencies}"
        )
    };
    let eval = member(
        "eval",
        "dqn = { workspace = true, optional = true, features = [\"x\"] }\ncudarc.workspace = true\n",
    );
    let nested = "[workspace]\n[package]\nname = \"fuzz\"\nedition = \"2018\"\n[workspace.dependencies]\ndqn = { package = \"other-dqn\", path = \"../ml\" }\n[dependencies]\ndqn.workspace = true\n";
    let tool_in = member("in", "");
    let packages = sound(&[
        ("Cargo.toml", root),
        (
            "crates/ml-dqn/Cargo.toml",
            "[package]\nname = \"ml-dqn\"\nedition.workspace = true\n[lib]\nname = \"replay\"\n",
        ),
        ("crates/eval/Cargo.toml", &eval),
        ("crates/eval/fuzz/Cargo.toml", nested),
        ("tools/in/Cargo.toml", &tool_in),
        (
            "tools/out/Cargo.toml",
            "[package]\nname = \"out\"\nedition = \"2018\"\n",
        ),
    ]);
    let by_name: BTreeMap<&str, &Package> = packages
        .iter()
        .map(|package| (package.name.as_str(), package))
        .collect();
    let workspace = |name: &str| by_name[name].workspace.as_deref();
    assert_eq!(workspace("eval"), Some("Cargo.toml"));
    assert_eq!(workspace("in"), Some("Cargo.toml"));
    assert_eq!(workspace("out"), None);
    assert_eq!(workspace("fuzz"), Some("crates/eval/fuzz/Cargo.toml"));
    assert_eq!(by_name["in"].edition, 2021);
    let dqn = by_name["eval"]
        .dependencies
        .iter()
        .find(|of| of.key == "dqn")
        .unwrap();
    assert_eq!(
        (
            dqn.package.as_str(),
            dqn.path.as_deref(),
            dqn.optional,
            dqn.inherited
        ),
        ("ml-dqn", Some("crates/ml-dqn"), true, true)
    );
    assert_eq!(
        dqn.extern_name, "dqn",
        "a renamed dependency goes by its key, whatever the library is called"
    );
    assert_eq!(dqn.features, ["her", "x"]);
    let fuzz = &by_name["fuzz"].dependencies[0];
    assert_eq!(
        (fuzz.package.as_str(), fuzz.path.as_deref()),
        ("other-dqn", Some("crates/eval/ml"))
    );
}

#[test]
fn a_dependency_goes_by_the_name_of_its_library() {
    let packages = sound(&[
        (
            "a/Cargo.toml",
            "[package]\nname = \"ml-dqn\"\nedition = \"2024\"\n[lib]\nname = \"replay\"\n",
        ),
        (
            "b/Cargo.toml",
            "[package]\nname = \"b\"\nedition = \"2024\"\n[dependencies]\nml-dqn = { path = \"../a\" }\n",
        ),
        (
            "c/Cargo.toml",
            "[workspace]\n[package]\nname = \"c\"\nedition = \"2024\"\n[dependencies]\nml-dqn = \"1\"\n[patch.crates-io]\nml-dqn = { path = \"../a/\" }\n",
        ),
    ]);
    for package in &packages[1..] {
        let dependency = &package.dependencies[0];
        assert_eq!(
            (dependency.extern_name.as_str(), dependency.path.as_deref()),
            ("replay", Some("a")),
            "{}",
            package.name
        );
    }
}

#[test]
fn a_workspace_above_the_root_is_found() {
    let (home, _) = tree_of(&[
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"m\"]\n[workspace.package]\nedition = \"2021\"\n[workspace.dependencies]\nx = { path = \"x\" }\n",
        ),
        (
            "m/Cargo.toml",
            "[package]\nname = \"m\"\nedition.workspace = true\n[dependencies]\nx.workspace = true\n",
        ),
        ("m/src/lib.rs", ""),
    ]);
    let tree = read_tree(&home.path().join("m"), &WalkOptions::default()).unwrap();
    let (packages, problems) = read_packages(&tree);
    assert_eq!(problems, []);
    assert_eq!(packages[0].workspace.as_deref(), Some("../Cargo.toml"));
    assert_eq!(packages[0].edition, 2021);
    assert_eq!(packages[0].dependencies[0].path.as_deref(), Some("../x"));
}

#[test]
fn absolute_paths_are_told_from_the_root() {
    let (home, _) = tree_of(&[("dep/Cargo.toml", "[package]\nname = \"dep\"\n")]);
    let root = fs::canonicalize(home.path()).unwrap();
    let manifest = format!(
        "[package]\nname = \"p\"\n[dependencies]\ninside = {{ path = {:?} }}\noutside = {{ path = \"/nowhere/x\" }}\n",
        root.join("dep")
    );
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    let (packages, _) = read_packages(&read_tree(&root, &WalkOptions::default()).unwrap());
    let paths: Vec<_> = packages[0]
        .dependencies
        .iter()
        .map(|of| of.path.as_deref())
        .collect();
    assert_eq!(paths, [Some("dep"), Some("/nowhere/x")]);
}

#[test]
fn broken_manifests_are_problems_and_the_rest_is_read() {
    let (packages, problems) = read(&[
        ("a/Cargo.toml", "[package]\nname = \"a\"\n\n<<<<<<< HEAD\n"),
        ("b/Cargo.toml", "[package]\nversion = \"1\"\n"),
        (
            "c/Cargo.toml",
            "[package]\nname = \"c\"\nedition = \"2031\"\n[dependencies]\nx.workspace = true\ny = 1\nz = \"1\"\n[[test]]\npath = \"t.rs\"\n",
        ),
        ("d/Cargo.toml", "[package]\nname = \"d\"\n"),
        ("virtual/Cargo.toml", "[workspace]\n"),
    ]);
    let names: Vec<_> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(
        packages[0]
            .dependencies
            .iter()
            .map(|of| of.key.as_str())
            .collect::<Vec<_>>(),
        ["z"]
    );
    let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 6, "{shown:#?}");
    assert!(shown[0].starts_with("a/Cargo.toml:4:"), "{}", shown[0]);
    assert!(shown[1].contains("`package.name`"));
    for part in [
        "`test` has no name",
        "`2031`",
        "`x` says `workspace = true`",
        "`y` is neither",
    ] {
        assert!(
            shown
                .iter()
                .any(|problem| problem.starts_with("c/Cargo.toml") && problem.contains(part)),
            "{part}: {shown:#?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_a_target_too() {
    let (home, _) = tree_of(&[
        (
            "Cargo.toml",
            "[package]\nname = \"p\"\nedition = \"2024\"\n",
        ),
        ("shared/t.rs", ""),
        ("tests/a.rs", ""),
    ]);
    std::os::unix::fs::symlink("../shared/t.rs", home.path().join("tests/b.rs")).unwrap();
    let tree = read_tree(home.path(), &WalkOptions::default()).unwrap();
    let (packages, _) = read_packages(&tree);
    assert_eq!(
        targets(&packages[0]),
        [
            (Test, "a", "tests/a.rs", false),
            (Test, "b", "tests/b.rs", false)
        ]
    );
    assert_eq!(tree.get("tests/b.rs").unwrap().path, "shared/t.rs");
}
