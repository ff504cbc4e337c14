use super::*;
use std::process::Command;
use tempfile::TempDir;

fn tree_of(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn git(home: &TempDir, arguments: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(home.path())
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn read(home: &TempDir) -> Tree {
    read_tree(home.path(), &WalkOptions::default()).unwrap()
}

fn paths(tree: &Tree) -> Vec<&str> {
    tree.files().iter().map(|file| file.path.as_str()).collect()
}

fn reason(tree: &Tree, path: &str) -> Option<SkipReason> {
    tree.skipped()
        .iter()
        .find(|skipped| skipped.path == path)
        .map(|skipped| skipped.reason)
}

#[test]
fn lists_files_sorted_by_path_with_their_kinds() {
    let home = tree_of(&[
        ("a/b.rs", "12345"),
        ("a-b.rs", ""),
        ("a/Cargo.toml", ""),
        ("Cargo.lock", ""),
        (".github/workflows/ci.yml", ""),
        ("Dockerfile.gpu", ""),
        ("justfile", ""),
        ("README.md", ""),
        ("a/data.in", ""),
    ]);
    let tree = read(&home);
    let found: Vec<_> = tree
        .files()
        .iter()
        .map(|file| (file.path.as_str(), file.kind))
        .collect();
    use FileKind::{Lockfile, Manifest, Mention, Other, Rust};
    let expected = [
        (".github/workflows/ci.yml", Mention),
        ("Cargo.lock", Lockfile),
        ("Dockerfile.gpu", Mention),
        ("README.md", Mention),
        ("a-b.rs", Rust),
        ("a/Cargo.toml", Manifest),
        ("a/b.rs", Rust),
        ("a/data.in", Other),
        ("justfile", Mention),
    ];
    assert_eq!(found, expected);
    assert!(tree.get("a/../a/./b.rs").is_some());
    assert!(tree.get("../a/b.rs").is_none());
    assert!(tree.get("a").is_none());
    assert_eq!(tree.below("a").len(), 3);
    assert_eq!(
        tree.children("a"),
        [
            ("Cargo.toml".to_owned(), false),
            ("b.rs".to_owned(), false),
            ("data.in".to_owned(), false)
        ]
    );
    assert!(tree.children("").contains(&("a".to_owned(), true)));
}

#[test]
fn git_rules_hold_at_all_levels_and_the_deepest_wins() {
    let home = tree_of(&[
        (".gitignore", "*.gen.rs\n/scratch\nlogs/\n"),
        ("x.gen.rs", ""),
        ("scratch/t.rs", ""),
        ("deep/scratch/t.rs", ""),
        ("deep/logs/t.rs", ""),
        ("keep/.gitignore", "!y.gen.rs\n"),
        ("keep/y.gen.rs", ""),
        ("keep/z.gen.rs", ""),
        ("after/y.gen.rs", ""),
        ("private.rs", ""),
        (".hidden/h.rs", ""),
    ]);
    git(&home, &["init", "-q"]);
    fs::create_dir_all(home.path().join(".git/info")).unwrap();
    fs::write(home.path().join(".git/info/exclude"), "private.rs\n").unwrap();
    let tree = read(&home);
    assert_eq!(
        paths(&tree),
        [
            ".gitignore",
            ".hidden/h.rs",
            "deep/scratch/t.rs",
            "keep/.gitignore",
            "keep/y.gen.rs"
        ]
    );
    assert_eq!(reason(&tree, "scratch"), Some(SkipReason::GitIgnored));
    assert_eq!(reason(&tree, "private.rs"), Some(SkipReason::GitIgnored));
    assert_eq!(reason(&tree, ".git"), Some(SkipReason::GitDirectory));
    assert_eq!(tree.skipped_counts()[&SkipReason::GitIgnored], 6);

    let all = read_tree(
        home.path(),
        &WalkOptions {
            include_ignored: true,
            ..WalkOptions::default()
        },
    )
    .unwrap();
    assert!(all.get("scratch/t.rs").is_some());
    assert_eq!(reason(&all, ".git"), Some(SkipReason::GitDirectory));
}

#[test]
fn ignore_files_mean_nothing_outside_of_git() {
    let home = tree_of(&[(".gitignore", "*.rs\n"), ("a.rs", "")]);
    assert_eq!(paths(&read(&home)), [".gitignore", "a.rs"]);
}

#[test]
fn a_tracked_file_is_visited_whatever_the_rules_say() {
    let home = tree_of(&[
        (".gitignore", "gen/\n*.pb.rs\n"),
        ("gen/deep/a.rs", ""),
        ("gen/b.rs", ""),
        ("gen/other/c.rs", ""),
        ("x.pb.rs", ""),
    ]);
    git(&home, &["init", "-q"]);
    git(&home, &["add", "-f", "gen/deep/a.rs", "x.pb.rs"]);
    let tree = read(&home);
    assert_eq!(paths(&tree), [".gitignore", "gen/deep/a.rs", "x.pb.rs"]);
    assert_eq!(reason(&tree, "gen/b.rs"), Some(SkipReason::GitIgnored));
    assert_eq!(reason(&tree, "gen/other"), Some(SkipReason::GitIgnored));
}

#[test]
fn rules_above_a_root_inside_a_work_tree_hold_below_it() {
    let home = tree_of(&[
        (".gitignore", "*.tmp.rs\n/sub/out\n"),
        ("sub/a.rs", ""),
        ("sub/a.tmp.rs", ""),
        ("sub/out/b.rs", ""),
        ("sub/in/out/c.rs", ""),
    ]);
    git(&home, &["init", "-q"]);
    let tree = read_tree(&home.path().join("sub"), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&tree), ["a.rs", "in/out/c.rs"]);
}

#[test]
fn an_ignored_root_is_walked_as_it_was_asked_for() {
    let home = tree_of(&[(".gitignore", "build/\n"), ("build/copy/a.rs", "")]);
    git(&home, &["init", "-q"]);
    let tree = read_tree(&home.path().join("build/copy"), &WalkOptions::default()).unwrap();
    assert_eq!(paths(&tree), ["a.rs"]);
}

#[test]
fn build_results_are_known_by_tag_or_by_place() {
    let home = tree_of(&[
        ("crate/Cargo.toml", ""),
        ("crate/target/a.rs", ""),
        ("crate/src/target/mod.rs", ""),
        ("target/b.rs", ""),
        (
            "out/CACHEDIR.TAG",
            "Signature: 8a477f597d28d172789f06886806bc55\n",
        ),
        ("out/c.rs", ""),
        ("tagged/CACHEDIR.TAG", "something else"),
        ("tagged/d.rs", ""),
    ]);
    let tree = read_tree(
        home.path(),
        &WalkOptions {
            include_ignored: true,
            ..WalkOptions::default()
        },
    )
    .unwrap();
    assert_eq!(
        paths(&tree),
        [
            "crate/Cargo.toml",
            "crate/src/target/mod.rs",
            "tagged/CACHEDIR.TAG",
            "tagged/d.rs"
        ]
    );
    assert_eq!(tree.skipped_counts()[&SkipReason::Target], 3);
}

#[test]
fn vendored_packages_and_submodules_are_left_alone() {
    let home = tree_of(&[
        ("vendor/dep/.cargo-checksum.json", "{}"),
        ("vendor/dep/src/lib.rs", ""),
        ("vendor/patched/src/lib.rs", ""),
        ("sub/.git", "gitdir: ../.git/modules/sub\n"),
        ("sub/a.rs", ""),
    ]);
    git(&home, &["init", "-q"]);
    git(&home, &["init", "-q", "nested"]);
    fs::write(home.path().join("nested/a.rs"), "").unwrap();
    let tree = read(&home);
    assert_eq!(paths(&tree), ["vendor/patched/src/lib.rs"]);
    assert_eq!(reason(&tree, "vendor/dep"), Some(SkipReason::Vendored));
    assert_eq!(reason(&tree, "sub"), Some(SkipReason::Submodule));
    assert_eq!(reason(&tree, "nested"), Some(SkipReason::Submodule));
}

#[test]
fn globs_of_the_root_manifest_and_of_the_command_line_leave_things_out() {
    let manifest = "[workspace]\n[workspace.metadata.migrate]\nexclude = [\"fixtures/**\", \"*.old.rs\"]\n[package.metadata.migrate]\nexclude = [\"./b\"]\n";
    let home = tree_of(&[
        ("Cargo.toml", manifest),
        ("fixtures/a.rs", ""),
        ("x/a.old.rs", ""),
        ("b/c.rs", ""),
        ("x/b/c.rs", ""),
        ("x/d.rs", ""),
        ("y.rs", ""),
    ]);
    let tree = read_tree(
        home.path(),
        &WalkOptions {
            exclude: vec!["x/d.rs".to_owned()],
            ..WalkOptions::default()
        },
    )
    .unwrap();
    assert_eq!(paths(&tree), ["Cargo.toml", "x/b/c.rs", "y.rs"]);
    assert_eq!(tree.skipped_counts()[&SkipReason::Excluded], 4);
}

#[test]
fn excludes_that_cannot_be_understood_are_errors() {
    let bad_glob = read_tree(
        tree_of(&[]).path(),
        &WalkOptions {
            exclude: vec!["[z-a]".to_owned()],
            ..WalkOptions::default()
        },
    );
    assert!(bad_glob.unwrap_err().to_string().contains("`[z-a]`"));
    for manifest in [
        "[workspace.metadata.migrate]\nexclude = \"a\"",
        "[workspace.metadata.migrate]\nexclude = [1]",
        "[workspace.metadata.migrate",
    ] {
        let home = tree_of(&[("Cargo.toml", manifest)]);
        assert!(
            matches!(
                read_tree(home.path(), &WalkOptions::default()),
                Err(WalkError::Excludes { .. })
            ),
            "{manifest}"
        );
    }
    // A broken manifest that says nothing of the migration is the business of whoever reads manifests.
    assert_eq!(
        paths(&read(&tree_of(&[("Cargo.toml", "[package"), ("a.rs", "")]))),
        ["Cargo.toml", "a.rs"]
    );
    assert!(matches!(
        read_tree(Path::new("/nonexistent/root"), &WalkOptions::default()),
        Err(WalkError::Root { .. })
    ));
}

#[cfg(unix)]
#[test]
fn links_are_remembered_and_never_followed() {
    use std::os::unix::fs::symlink;
    let home = tree_of(&[
        ("src/a.rs", ""),
        ("shared/b.rs", ""),
        ("shared/deep/c.rs", ""),
    ]);
    let outside = tree_of(&[("o.rs", "")]);
    let at = |path: &str| home.path().join(path);
    symlink("../shared/b.rs", at("src/b.rs")).unwrap();
    symlink("../shared", at("src/all")).unwrap();
    symlink("..", at("shared/up")).unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink("nowhere", at("src/gone.rs")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let tree = read(&home);
    assert_eq!(
        paths(&tree),
        ["shared/b.rs", "shared/deep/c.rs", "src/a.rs"]
    );
    assert_eq!(tree.get("src/b.rs").unwrap().path, "shared/b.rs");
    assert_eq!(
        tree.get("src/all/deep/c.rs").unwrap().path,
        "shared/deep/c.rs"
    );
    assert_eq!(
        tree.get("src/all/up/src/all/b.rs").unwrap().path,
        "shared/b.rs"
    );
    assert_eq!(reason(&tree, "src/b.rs"), Some(SkipReason::Link));
    assert_eq!(reason(&tree, "out"), Some(SkipReason::LinkOutside));
    assert_eq!(reason(&tree, "src/gone.rs"), Some(SkipReason::LinkBroken));
    assert_eq!(reason(&tree, "loop"), Some(SkipReason::LinkBroken));
    assert_eq!(
        tree.children("src"),
        [
            ("a.rs".to_owned(), false),
            ("all".to_owned(), true),
            ("b.rs".to_owned(), false)
        ]
    );

    // The root may be reached through a link.
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(home.path(), elsewhere.path().join("root")).unwrap();
    assert_eq!(
        paths(&read_tree(&elsewhere.path().join("root"), &WalkOptions::default()).unwrap()).len(),
        3
    );
}

#[cfg(target_os = "linux")]
#[test]
fn odd_names_and_kinds_are_skipped_with_a_reason() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let home = tree_of(&[("a.rs", ""), ("locked.rs", "")]);
    fs::write(
        home.path().join(std::ffi::OsStr::from_bytes(b"\xff.rs")),
        "",
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(home.path().join("s.rs")).unwrap();
    fs::set_permissions(
        home.path().join("locked.rs"),
        fs::Permissions::from_mode(0o444),
    )
    .unwrap();
    let tree = read(&home);
    assert_eq!(paths(&tree), ["a.rs", "locked.rs"]);
    assert_eq!(reason(&tree, "\u{fffd}.rs"), Some(SkipReason::Name));
    assert_eq!(reason(&tree, "s.rs"), Some(SkipReason::NotAFile));
}

#[test]
fn paths_are_normalized_without_the_disk() {
    assert_eq!(normalize("a/./b/../c").as_deref(), Some("a/c"));
    assert_eq!(normalize("a/..").as_deref(), Some(""));
    assert_eq!(normalize("../a"), None);
    assert_eq!(normalize("/a"), None);
}
