//! The command as a user meets it: the built program, its help, its exit codes, its words.

mod on_a_branch;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn xtask(working_directory: &Path, arguments: &[&str]) -> Ran {
    let done = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .current_dir(working_directory)
        .args(arguments)
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        code: done.status.code(),
        out: text(done.stdout),
        err: text(done.stderr),
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// A snapshot named after the test, beside this file.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn help_of_migrate() {
    let ran = xtask(here(), &["migrate", "--help"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    snapshot("help_of_migrate", &ran.out);
}

#[test]
fn help_in_short() {
    snapshot("help_in_short", &xtask(here(), &["migrate", "-h"]).out);
}

#[test]
fn help_of_all() {
    let ran = xtask(here(), &["--help"]);
    assert_eq!(ran.code, Some(0));
    snapshot("help_of_all", &ran.out);
}

#[test]
fn a_wrong_command_line_is_a_refusal() {
    // 2 would say that sites are left.
    for arguments in [
        &["migrate", "--chekc"][..],
        &["migrate", "--check", "--diff"],
        &["migrate", "--check", "--interactive"],
        &["migrate", "--crates", "x"],
        &["migrate", "--why", "src/lib.rs"],
        &["migrate", "--jobs", "0"],
        &["migrate", "--message-format", "xml"],
        &["nonsense"],
        &[],
    ] {
        let ran = xtask(here(), arguments);
        let is_help = arguments.is_empty();
        assert_eq!(ran.code, Some(3), "{arguments:?}");
        assert!(
            is_help || ran.err.starts_with("error: "),
            "{arguments:?}: {}",
            ran.err
        );
        assert_eq!(ran.out, "", "{arguments:?}");
    }
}

#[test]
fn the_list_is_quick() {
    let ran = xtask(here(), &["migrate", "--list"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    // The best of five: the machine may be busy with other tests.
    let best = (0..5)
        .map(|_| {
            let began = Instant::now();
            xtask(here(), &["migrate", "--list"]);
            began.elapsed()
        })
        .min();
    assert!(best < Some(Duration::from_millis(50)), "{best:?}");
}

#[test]
fn migrations_from_a_folder() {
    let dir = folder();
    let ran = xtask(
        dir.path(),
        &["new-migration", "retire-cpu", "--migrations", "m"],
    );
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let id = fs::read_dir(dir.path().join("m"))
        .expect("is there")
        .next()
        .expect("one")
        .expect("readable")
        .file_name();
    let id = id.to_str().expect("text");
    assert!(
        id.len() == "2026-04-10-retire-cpu".len() && id.ends_with("-retire-cpu"),
        "{id}"
    );
    let list = xtask(dir.path(), &["migrate", "--list", "--migrations", "m"]);
    assert_eq!(
        (list.code, list.out),
        (Some(0), format!("{id}           retire cpu\n"))
    );
    let rule = xtask(
        dir.path(),
        &["migrate", "--explain", "storage", "--migrations", "m"],
    );
    assert_eq!(rule.code, Some(0), "{}", rule.err);
    snapshot("explain_a_rule", &rule.out.replace(id, "[id]"));
    let guide = xtask(
        dir.path(),
        &["migrate", "--explain", id, "--migrations", "m"],
    );
    assert!(guide.out.starts_with("# retire cpu\n"), "{}", guide.out);
    let none = xtask(
        dir.path(),
        &["migrate", "--explain", "nothing", "--migrations", "m"],
    );
    assert_eq!(none.code, Some(3));
    assert_eq!(
        none.err,
        "error: there is no rule `nothing`\n  comments\n  storage\n  verify\n  hint: name one of these, or a migration for its guide\n"
    );
    let unasked = xtask(dir.path(), &["migrate", "--migrations", "m"]);
    assert_eq!(unasked.code, Some(3));
    assert_eq!(
        unasked.err,
        format!("error: no migration runs by default\n  {id}\n  hint: name one of them\n")
    );
    let again = xtask(
        dir.path(),
        &["new-migration", "retire-cpu", "--migrations", "m"],
    );
    assert!(
        again.code == Some(3) && again.err.contains("is there already"),
        "{}",
        again.err
    );
}

#[test]
fn a_migration_that_cannot_be_read_is_named() {
    let dir = folder();
    fs::create_dir_all(dir.path().join("m/broken")).expect("folder");
    fs::write(dir.path().join("m/broken/migration.toml"), "title = \n").expect("file");
    let ran = xtask(dir.path(), &["migrate", "--list", "--migrations", "m"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.err
            .starts_with("error: cannot read the migration `broken`\n"),
        "{}",
        ran.err
    );
    let ran = xtask(
        dir.path(),
        &["migrate", "--list", "--migrations", "nowhere"],
    );
    assert!(
        ran.code == Some(3) && ran.err.starts_with("error: cannot read `nowhere`: "),
        "{}",
        ran.err
    );
}
