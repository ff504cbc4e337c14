use super::disk::{Fault, FaultyDisk};
use super::*;
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

/// Every file below a folder but for git's own, with its bytes; folders have none.
type Snapshot = BTreeMap<String, Option<Vec<u8>>>;

fn snapshot(home: &Path) -> Snapshot {
    let walk = walkdir::WalkDir::new(home)
        .min_depth(1)
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git");
    walk.map(|entry| {
        let entry = entry.unwrap();
        let path = entry
            .path()
            .strip_prefix(home)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (
            path,
            (!entry.file_type().is_dir()).then(|| fs::read(entry.path()).unwrap()),
        )
    })
    .collect()
}

fn tree(files: &[(&str, &str)], with_git: bool) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    if with_git {
        assert!(
            Command::new("git")
                .arg("-C")
                .arg(home.path())
                .args(["init", "-q"])
                .status()
                .unwrap()
                .success()
        );
    }
    home
}

fn write(path: &str, before: &str, after: &str) -> Change {
    Change::Write {
        path: path.to_owned(),
        before: before.into(),
        after: after.into(),
    }
}

fn delete(path: &str, before: &str) -> Change {
    Change::Delete {
        path: path.to_owned(),
        before: before.into(),
    }
}

const FILES: [(&str, &str); 7] = [
    ("a.rs", "old a, rather long"),
    ("b/b.rs", "old b"),
    ("gone/x.rs", "old x"),
    ("gone/deep/y.rs", "old y"),
    ("half/z.rs", "old z"),
    ("half/README.md", "stays"),
    ("same.rs", "same"),
];

fn changes() -> Vec<Change> {
    vec![
        delete("gone/x.rs", "old x"),
        write("a.rs", "old a, rather long", "new a"),
        delete("gone/deep/y.rs", "old y"),
        write("b/b.rs", "old b", "new b, which is longer than before"),
        delete("half/z.rs", "old z"),
    ]
}

/// The tree that all tests of failures use: what it is before, and what it must become.
fn sample(with_git: bool) -> (TempDir, Snapshot, Snapshot) {
    let home = tree(&FILES, with_git);
    let old = snapshot(home.path());
    let mut new = old.clone();
    new.insert("a.rs".to_owned(), Some(b"new a".to_vec()));
    new.insert(
        "b/b.rs".to_owned(),
        Some(b"new b, which is longer than before".to_vec()),
    );
    for gone in [
        "gone",
        "gone/x.rs",
        "gone/deep",
        "gone/deep/y.rs",
        "half/z.rs",
    ] {
        new.remove(gone);
    }
    (home, old, new)
}

#[test]
fn writes_deletes_and_leaves_nothing_else_behind() {
    for with_git in [true, false] {
        let (home, _, new) = sample(with_git);
        let committed = commit(home.path(), &changes()).unwrap();
        assert_eq!(snapshot(home.path()), new);
        assert_eq!(committed.written, ["a.rs", "b/b.rs"]);
        assert_eq!(
            committed.deleted,
            ["gone/deep/y.rs", "gone/x.rs", "half/z.rs"]
        );
        assert_eq!(committed.removed_directories, ["gone", "gone/deep"]);
        assert_eq!(pending(home.path()).unwrap(), None);
        assert!(!home.path().join(".git/migrate-journal").exists());
    }
    let home = tree(&FILES, false);
    assert_eq!(commit(home.path(), &[]).unwrap(), Committed::default());
}

/// How many operations a commit of the sample takes.
fn operations(with_git: bool) -> usize {
    let (home, _, _) = sample(with_git);
    let disk = FaultyDisk::new(Fault::Once, usize::MAX);
    commit_on(&disk, home.path(), &changes()).unwrap();
    disk.calls()
}

#[test]
fn any_operation_may_fail_and_the_tree_is_as_before() {
    for with_git in [true, false] {
        let count = operations(with_git);
        assert!(count > 15, "{count}");
        for at in 0..count {
            let (home, old, new) = sample(with_git);
            match commit_on(&FaultyDisk::new(Fault::Once, at), home.path(), &changes()) {
                // Only for the folder of the journal, whose removal does not matter.
                Ok(_) => {
                    let mut now = snapshot(home.path());
                    now.remove("target");
                    assert_eq!(now, new, "operation {at}");
                    assert!(!with_git && at + 1 == count);
                }
                Err(StageError::Io { aftermath, .. }) => {
                    assert_eq!(aftermath, Aftermath::AsBefore, "operation {at}");
                    assert_eq!(snapshot(home.path()), old, "operation {at}");
                }
                Err(other) => panic!("operation {at}: {other}"),
            }
            assert_eq!(pending(home.path()).unwrap(), None, "operation {at}");
        }
    }
}

#[test]
fn a_kill_at_any_operation_leaves_each_file_old_or_new_and_can_be_undone() {
    for with_git in [true, false] {
        for at in 0..operations(with_git) {
            let (home, old, new) = sample(with_git);
            let disk = FaultyDisk::new(Fault::Kill, at);
            if commit_on(&disk, home.path(), &changes()).is_err() {
                for (path, bytes) in snapshot(home.path()) {
                    let is_ours = path.ends_with(".tmp") || path.starts_with("target");
                    assert!(
                        is_ours || old.get(&path) == Some(&bytes) || new.get(&path) == Some(&bytes),
                        "operation {at}: {path}"
                    );
                }
                let again = commit(home.path(), &changes());
                if pending(home.path()).unwrap().is_some() {
                    assert!(
                        matches!(again, Err(StageError::Pending(_))),
                        "operation {at}"
                    );
                    roll_back(home.path()).unwrap().unwrap();
                    assert_eq!(snapshot(home.path()), old, "operation {at}");
                    assert_eq!(roll_back(home.path()).unwrap(), None);
                    commit(home.path(), &changes()).unwrap();
                }
            }
            let mut now = snapshot(home.path());
            // The last operations: an empty folder of the journal can stay.
            if now.get("target") == Some(&None) {
                now.remove("target");
            }
            assert_eq!(now, new, "operation {at}");
        }
    }
}

#[test]
fn undoing_may_be_killed_at_any_operation_as_well() {
    let count = operations(true);
    // Late enough that everything but the journal is done.
    let killed = |home: &TempDir| {
        commit_on(
            &FaultyDisk::new(Fault::Kill, count - 1),
            home.path(),
            &changes(),
        )
        .unwrap_err()
    };
    let (home, _, _) = sample(true);
    killed(&home);
    let disk = FaultyDisk::new(Fault::Once, usize::MAX);
    roll_back_on(&disk, home.path()).unwrap();
    for fault in [Fault::Kill, Fault::Once, Fault::Full] {
        for at in 0..disk.calls() {
            let (home, old, _) = sample(true);
            killed(&home);
            let first = roll_back_on(&FaultyDisk::new(fault, at), home.path());
            assert!(first.is_err() || fault == Fault::Full, "operation {at}");
            roll_back(home.path()).unwrap();
            assert_eq!(snapshot(home.path()), old, "{fault:?} at operation {at}");
        }
    }
}

#[test]
fn a_full_disk_is_found_before_anything_is_replaced() {
    for at in 0..operations(true) {
        let (home, old, new) = sample(true);
        match commit_on(&FaultyDisk::new(Fault::Full, at), home.path(), &changes()) {
            Ok(_) => assert_eq!(snapshot(home.path()), new),
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        StageError::Io {
                            aftermath: Aftermath::AsBefore,
                            ..
                        }
                    ),
                    "{error}"
                );
                assert_eq!(snapshot(home.path()), old, "operation {at}");
            }
        }
    }
}

#[test]
fn folders_that_turn_out_to_be_locked_are_all_named() {
    let (home, old, _) = sample(true);
    // The journal can be written; the permission bits say nothing.
    let error = commit_on(&FaultyDisk::new(Fault::Denied, 1), home.path(), &changes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 paths cannot be written; nothing was written\n  . (read-only folder)\n  b (read-only folder)"
    );
    assert_eq!(snapshot(home.path()), old);
    assert_eq!(pending(home.path()).unwrap(), None);
}

#[test]
fn a_tree_that_changed_is_refused() {
    let (home, _, _) = sample(true);
    fs::write(home.path().join("a.rs"), "edited").unwrap();
    fs::remove_file(home.path().join("half/z.rs")).unwrap();
    let edited = snapshot(home.path());
    let error = commit(home.path(), &changes()).unwrap_err();
    assert!(
        matches!(&error, StageError::Changed { paths, .. } if paths == &["half/z.rs"]),
        "{error}"
    );
    fs::write(home.path().join("half/z.rs"), "old z").unwrap();
    let error = commit(home.path(), &changes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 file changed since this run read them; nothing was written\n  a.rs"
    );
    fs::remove_file(home.path().join("half/z.rs")).unwrap();
    assert_eq!(snapshot(home.path()), edited);
}

/// Edits a file right before the n-th operation, as another program might.
struct Meddling<'a> {
    path: &'a Path,
    at: usize,
    calls: std::cell::Cell<usize>,
}

impl Meddling<'_> {
    fn step(&self) {
        if self.calls.replace(self.calls.get() + 1) == self.at {
            fs::write(self.path, "meddled").unwrap();
        }
    }
}

impl Disk for Meddling<'_> {
    fn create(
        &self,
        path: &Path,
        bytes: &[u8],
        attributes: Option<&disk::Attributes>,
    ) -> io::Result<()> {
        self.step();
        LocalDisk.create(path, bytes, attributes)
    }
    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step();
        LocalDisk.overwrite(path, bytes)
    }
    fn sync(&self, path: &Path) -> io::Result<()> {
        self.step();
        LocalDisk.sync(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        LocalDisk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step();
        LocalDisk.remove_file(path)
    }
    fn create_dir(&self, path: &Path, attributes: Option<&disk::Attributes>) -> io::Result<()> {
        self.step();
        LocalDisk.create_dir(path, attributes)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step();
        LocalDisk.remove_dir(path)
    }
}

#[test]
fn an_edit_while_files_are_staged_is_kept_and_the_rest_put_back() {
    let (home, old, _) = sample(true);
    let path = home.path().join("b/b.rs");
    // While the new files are being written, before the first is renamed.
    let disk = Meddling {
        path: &path,
        at: 3,
        calls: std::cell::Cell::new(0),
    };
    let error = commit_on(&disk, home.path(), &changes()).unwrap_err();
    assert!(
        matches!(&error, StageError::Changed { paths, aftermath: Aftermath::AsBefore } if paths == &["b/b.rs"]),
        "{error}"
    );
    let mut expected = old;
    expected.insert("b/b.rs".to_owned(), Some(b"meddled".to_vec()));
    assert_eq!(snapshot(home.path()), expected);
}

#[test]
fn an_edit_after_a_kill_is_never_overwritten() {
    let (home, _, _) = sample(true);
    commit_on(
        &FaultyDisk::new(Fault::Kill, operations(true) - 1),
        home.path(),
        &changes(),
    )
    .unwrap_err();
    fs::write(home.path().join("a.rs"), "edited since").unwrap();
    let edited = snapshot(home.path());
    let error = roll_back(home.path()).unwrap_err();
    assert!(
        matches!(&error, StageError::CannotRollBack { paths, .. } if paths == &["a.rs"]),
        "{error}"
    );
    assert!(error.hint().contains("migrate-journal"));
    assert_eq!(snapshot(home.path()), edited);
    let found = pending(home.path()).unwrap().unwrap();
    assert_eq!(
        found.files,
        ["a.rs", "b/b.rs", "gone/deep/y.rs", "gone/x.rs", "half/z.rs"]
    );
    assert_eq!(found.running, None);
}

#[test]
fn a_journal_of_a_living_process_blocks_and_is_not_rolled_back() {
    let (home, _, _) = sample(true);
    commit_on(
        &FaultyDisk::new(Fault::Kill, operations(true) - 1),
        home.path(),
        &changes(),
    )
    .unwrap_err();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let path = home.path().join(".git/migrate-journal");
    let journal::Found::Journal(mut found) = Journal::read(&path).unwrap() else {
        panic!("no journal")
    };
    let mut claim = |process: u32, start: Option<String>| {
        found.process = process;
        found.process_start = start;
        fs::write(&path, found.to_bytes()).unwrap();
    };
    let start = Journal::new(false, Vec::new(), Vec::new()).process_start;
    if start.is_some() {
        let stat = fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
        let own = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .nth(19)
            .unwrap()
            .to_owned();
        claim(other.id(), Some(own));
        assert!(
            matches!(roll_back(home.path()), Err(StageError::Running { process, .. }) if process == other.id())
        );
        assert!(matches!(
            commit(home.path(), &changes()),
            Err(StageError::Running { .. })
        ));
    }
    // The same number, but another process: that one is gone.
    claim(other.id(), Some("0".to_owned()));
    assert!(roll_back(home.path()).unwrap().is_some());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_journal_that_was_not_finished_is_just_removed() {
    let (home, old, _) = sample(true);
    let path = home.path().join(".git/migrate-journal");
    for bytes in [&b""[..], b"{\"version\":1", b"{}\nend 0000000000000000\n"] {
        fs::write(&path, bytes).unwrap();
        assert!(pending(home.path()).unwrap().is_some());
        assert_eq!(roll_back(home.path()).unwrap(), Some(RolledBack::default()));
        assert_eq!(snapshot(home.path()), old);
        assert!(!path.exists());
    }
}

#[test]
fn a_root_below_the_top_finds_the_journal_of_the_whole_work_tree() {
    let (home, old, _) = sample(true);
    commit_on(
        &FaultyDisk::new(Fault::Kill, operations(true) - 1),
        home.path(),
        &changes(),
    )
    .unwrap_err();
    assert!(pending(&home.path().join("b")).unwrap().is_some());
    roll_back(&home.path().join("b")).unwrap();
    assert_eq!(snapshot(home.path()), old);
}

#[cfg(unix)]
mod on_unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn everything_that_is_locked_is_named_before_anything_is_written() {
        let (home, old, _) = sample(true);
        set_mode(&home.path().join("a.rs"), 0o444);
        set_mode(&home.path().join("b"), 0o555);
        let result = commit(home.path(), &changes());
        set_mode(&home.path().join("b"), 0o755);
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "2 paths cannot be written; nothing was written\n  a.rs (read-only file)\n  b (read-only folder)"
        );
        assert_eq!(snapshot(home.path()), old);
        assert_eq!(mode(&home.path().join("a.rs")), 0o444);
        assert_eq!(pending(home.path()).unwrap(), None);
    }

    /// As a copy of a read-only folder is.
    #[test]
    fn bits_that_all_files_share_stop_only_those_whom_the_system_stops() {
        let (home, old, new) = sample(true);
        let all: Vec<_> = walkdir::WalkDir::new(home.path())
            .into_iter()
            .map(|entry| entry.unwrap())
            .collect();
        let ours = || {
            all.iter().filter(|entry| {
                !entry
                    .path()
                    .components()
                    .any(|part| part.as_os_str() == ".git")
            })
        };
        for entry in ours() {
            set_mode(
                entry.path(),
                if entry.file_type().is_dir() {
                    0o555
                } else {
                    0o444
                },
            );
        }
        let is_root = fs::OpenOptions::new()
            .write(true)
            .open(home.path().join("a.rs"))
            .is_ok();
        let result = commit(home.path(), &changes());
        if is_root {
            result.unwrap();
            assert_eq!(snapshot(home.path()), new);
            assert_eq!(
                (
                    mode(&home.path().join("a.rs")),
                    mode(&home.path().join("b"))
                ),
                (0o444, 0o555)
            );
        } else {
            assert!(matches!(result, Err(StageError::Locked { paths }) if paths.len() == 5));
            assert_eq!(snapshot(home.path()), old);
        }
        for entry in ours().filter(|entry| entry.file_type().is_dir() && entry.path().exists()) {
            set_mode(entry.path(), 0o755);
        }
    }

    #[test]
    fn permission_bits_and_owners_stay() {
        let (home, _, _) = sample(true);
        set_mode(&home.path().join("a.rs"), 0o755);
        set_mode(&home.path().join("b/b.rs"), 0o600);
        let owner = fs::metadata(home.path().join("a.rs")).unwrap().uid();
        commit(home.path(), &changes()).unwrap();
        assert_eq!(
            (
                mode(&home.path().join("a.rs")),
                mode(&home.path().join("b/b.rs"))
            ),
            (0o755, 0o600)
        );
        assert_eq!(fs::metadata(home.path().join("a.rs")).unwrap().uid(), owner);
    }

    #[test]
    fn permission_bits_come_back_with_what_is_put_back() {
        let (home, old, _) = sample(true);
        set_mode(&home.path().join("gone/deep"), 0o750);
        set_mode(&home.path().join("gone/deep/y.rs"), 0o640);
        commit_on(
            &FaultyDisk::new(Fault::Kill, operations(true) - 1),
            home.path(),
            &changes(),
        )
        .unwrap_err();
        roll_back(home.path()).unwrap();
        assert_eq!(snapshot(home.path()), old);
        assert_eq!(
            (
                mode(&home.path().join("gone/deep")),
                mode(&home.path().join("gone/deep/y.rs"))
            ),
            (0o750, 0o640)
        );
    }

    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let home = tree(&[("real/a.rs", "old")], true);
        symlink("real/a.rs", home.path().join("link.rs")).unwrap();
        commit(
            home.path(),
            &[
                write("link.rs", "old", "new"),
                write("real/a.rs", "old", "new"),
            ],
        )
        .unwrap();
        assert!(
            fs::symlink_metadata(home.path().join("link.rs"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(fs::read(home.path().join("real/a.rs")).unwrap(), b"new");
        let conflict = commit(
            home.path(),
            &[write("link.rs", "new", "1"), write("real/a.rs", "new", "2")],
        );
        assert!(matches!(conflict, Err(StageError::Conflict { .. })));
    }

    #[test]
    fn a_link_out_of_the_root_is_refused() {
        let outside = tree(&[("o.rs", "old")], false);
        let home = tree(&[("a.rs", "old")], true);
        symlink(outside.path().join("o.rs"), home.path().join("o.rs")).unwrap();
        let error = commit(
            home.path(),
            &[write("a.rs", "old", "new"), write("o.rs", "old", "new")],
        )
        .unwrap_err();
        assert!(matches!(error, StageError::OutsideRoot { .. }), "{error}");
        assert_eq!(fs::read(outside.path().join("o.rs")).unwrap(), b"old");
        assert_eq!(fs::read(home.path().join("a.rs")).unwrap(), b"old");
    }

    /// One file with three names, one of them outside of the root.
    fn linked() -> (TempDir, TempDir) {
        let outside = tempfile::tempdir().unwrap();
        let home = tree(
            &[
                ("a.rs", "old, and rather long"),
                ("c.rs", "old c"),
                ("z.rs", "old z"),
            ],
            true,
        );
        fs::hard_link(home.path().join("a.rs"), home.path().join("b.rs")).unwrap();
        fs::hard_link(home.path().join("a.rs"), outside.path().join("o.rs")).unwrap();
        (home, outside)
    }

    fn linked_changes(after: &str) -> Vec<Change> {
        let before = "old, and rather long";
        vec![
            write("a.rs", before, after),
            write("b.rs", before, after),
            write("c.rs", "old c", "new c"),
            delete("z.rs", "old z"),
        ]
    }

    #[test]
    fn hard_links_stay_one_file_and_any_fault_is_undone() {
        for after in ["new", "new, and even longer than what was there before"] {
            let (home, outside) = linked();
            let counting = FaultyDisk::new(Fault::Once, usize::MAX);
            commit_on(&counting, home.path(), &linked_changes(after)).unwrap();
            for path in [
                home.path().join("a.rs"),
                home.path().join("b.rs"),
                outside.path().join("o.rs"),
            ] {
                assert_eq!(fs::read(&path).unwrap(), after.as_bytes());
                assert_eq!(fs::metadata(&path).unwrap().nlink(), 3);
            }
            for fault in [Fault::Once, Fault::Kill] {
                for at in 0..counting.calls() {
                    let (home, outside) = linked();
                    let old = snapshot(home.path());
                    commit_on(
                        &FaultyDisk::new(fault, at),
                        home.path(),
                        &linked_changes(after),
                    )
                    .unwrap_err();
                    roll_back(home.path()).unwrap();
                    assert_eq!(snapshot(home.path()), old, "{fault:?} at operation {at}");
                    assert_eq!(
                        fs::read(outside.path().join("o.rs")).unwrap(),
                        b"old, and rather long"
                    );
                    assert_eq!(fs::metadata(home.path().join("a.rs")).unwrap().nlink(), 3);
                }
            }
        }
    }
}
