use super::*;
use std::process::Command;
use tempfile::TempDir;

fn git(home: &Path, arguments: &[&str]) -> String {
    let identity = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@localhost",
        "-c",
        "commit.gpgsign=false",
    ];
    let done = Command::new("git")
        .arg("-C")
        .arg(home)
        .args(identity)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).unwrap()
}

fn committed(files: &[&str]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for path in files {
        write(home.path(), path, "1");
    }
    git(home.path(), &["init", "-q"]);
    git(home.path(), &["add", "-A"]);
    git(home.path(), &["commit", "-q", "-m", "before"]);
    home
}

fn write(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn seen(report: &GuardReport) -> Vec<(&str, DirtyState, bool)> {
    report
        .dirty
        .iter()
        .map(|file| (file.path.as_str(), file.state, file.touched))
        .collect()
}

#[test]
fn a_committed_tree_is_safe_and_a_bare_folder_is_not() {
    let home = committed(&["a.rs"]);
    assert!(guard(home.path(), &["a.rs"]).unwrap().is_safe());
    let bare = tempfile::tempdir().unwrap();
    assert_eq!(guard(bare.path(), &[]).unwrap(), GuardReport::default());
    assert!(!guard(bare.path(), &[]).unwrap().is_safe());
    assert!(matches!(
        guard(Path::new("/nonexistent/x"), &[]),
        Err(GuardError::Root { .. })
    ));
}

#[test]
fn every_kind_of_dirt_is_named_and_touched_files_come_first() {
    let home = committed(&["a.rs", "b.rs", "c.rs", "d/with space.rs", ".gitignore"]);
    write(home.path(), "a.rs", "2");
    write(home.path(), "b.rs", "2");
    git(home.path(), &["add", "b.rs"]);
    git(home.path(), &["mv", "c.rs", "e.rs"]);
    fs::remove_file(home.path().join("d/with space.rs")).unwrap();
    write(home.path(), "new/x.rs", "");
    let report = guard(home.path(), &["new/x.rs", "b.rs"]).unwrap();
    use DirtyState::{Modified, Staged, Untracked};
    let expected = [
        ("b.rs", Staged, true),
        ("new/", Untracked, true),
        ("a.rs", Modified, false),
        ("c.rs", Staged, false),
        ("d/with space.rs", Modified, false),
        ("e.rs", Staged, false),
    ];
    assert_eq!(seen(&report), expected);
    assert!(report.under_version_control && !report.is_safe());
}

#[test]
fn a_root_below_the_top_sees_its_own_part() {
    let home = committed(&["sub/a.rs", "other/b.rs"]);
    write(home.path(), "other/b.rs", "2");
    let sub = home.path().join("sub");
    assert!(guard(&sub, &["a.rs"]).unwrap().is_safe());
    write(home.path(), "sub/a.rs", "2");
    assert_eq!(
        seen(&guard(&sub, &["a.rs"]).unwrap()),
        [("a.rs", DirtyState::Modified, true)]
    );
}

#[test]
fn an_ignored_root_is_under_no_version_control() {
    let home = committed(&["a.rs"]);
    write(home.path(), ".gitignore", "scratch/\n");
    write(home.path(), "scratch/x/a.rs", "");
    assert!(
        !guard(&home.path().join("scratch/x"), &[])
            .unwrap()
            .under_version_control
    );
}

#[test]
fn ignored_files_that_are_to_be_touched_are_named() {
    let home = committed(&["a.rs"]);
    fs::write(home.path().join(".git/info/exclude"), "*.gen.rs\n").unwrap();
    write(home.path(), "x.gen.rs", "");
    write(home.path(), "y.gen.rs", "");
    assert!(guard(home.path(), &["a.rs"]).unwrap().is_safe());
    assert_eq!(
        seen(&guard(home.path(), &["a.rs", "x.gen.rs"]).unwrap()),
        [("x.gen.rs", DirtyState::Ignored, true)]
    );
}

#[test]
fn build_results_are_no_dirt() {
    let home = committed(&["Cargo.toml", "x/Cargo.toml"]);
    write(home.path(), "target/migrate/a.rs", "");
    write(home.path(), "x/target/a.rs", "");
    assert!(guard(home.path(), &[]).unwrap().is_safe());
    write(home.path(), "src/target/a.rs", "");
    assert!(!guard(home.path(), &[]).unwrap().is_safe());
}

#[test]
fn undecided_merges_are_told() {
    let home = committed(&["a.rs"]);
    git(home.path(), &["checkout", "-q", "-b", "other"]);
    write(home.path(), "a.rs", "2");
    git(home.path(), &["commit", "-q", "-a", "-m", "2"]);
    git(home.path(), &["checkout", "-q", "-"]);
    write(home.path(), "a.rs", "3");
    git(home.path(), &["commit", "-q", "-a", "-m", "3"]);
    let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
    let merge = Command::new("git")
        .arg("-C")
        .arg(home.path())
        .args(identity)
        .args(["merge", "-q", "other"])
        .output()
        .unwrap();
    assert!(!merge.status.success());
    assert_eq!(
        seen(&guard(home.path(), &[]).unwrap()),
        [("a.rs", DirtyState::Unmerged, false)]
    );
}

#[cfg(unix)]
#[test]
fn asking_starts_nothing_and_changes_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let home = committed(&["a.rs"]);
    let witness = home.path().join(".git/witness");
    let script = home.path().join(".git/monitor");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", witness.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    git(
        home.path(),
        &["config", "core.fsmonitor", script.to_str().unwrap()],
    );
    let index = fs::read(home.path().join(".git/index")).unwrap();
    // A file with a new time and the old bytes makes a plain `git status` write the index anew.
    write(home.path(), "a.rs", "1");
    assert!(guard(home.path(), &[]).unwrap().is_safe());
    assert!(!witness.exists());
    assert!(fs::read(home.path().join(".git/index")).unwrap() == index);
}

#[test]
fn a_repository_is_found_where_git_finds_it() {
    let home = committed(&["sub/a.rs"]);
    let root = fs::canonicalize(home.path()).unwrap();
    let says = |folder: &Path, what: &str| {
        PathBuf::from(git(folder, &["rev-parse", "--path-format=absolute", what]).trim_end())
    };
    git(&root, &["worktree", "add", "-q", "linked"]);
    for folder in [
        root.join("sub"),
        root.clone(),
        root.join("linked"),
        root.join("linked/sub"),
    ] {
        let found = Repository::discover(&folder).unwrap();
        assert_eq!(
            fs::canonicalize(&found.git_dir).unwrap(),
            says(&folder, "--git-dir")
        );
        assert_eq!(
            fs::canonicalize(&found.common_dir).unwrap(),
            says(&folder, "--git-common-dir")
        );
        assert_eq!(found.work_tree, says(&folder, "--show-toplevel"));
    }
    assert_eq!(Repository::at(&root.join("sub")), None);
}
