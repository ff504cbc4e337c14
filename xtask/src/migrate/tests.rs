//! Whole runs, on small trees under git, with a planner that is as simple as it can be.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use codemod::record::Record;

use super::*;
use crate::cli::MessageFormat;

/// Writes `New` for `Old`, deletes files named `cpu.rs`, and leaves lines with `raw` to a person.
struct Toy;

impl Planner for Toy {
    fn plan(&self, tree: &Tree, evidence: &[Evidence], _: &Progress) -> Result<Plan, Failure> {
        let proven = evidence
            .iter()
            .flat_map(|round| &round.diagnostics)
            .any(|found| found.message.contains("Later"));
        let mut plan = Plan::default();
        for file in tree
            .files()
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
        {
            let before = fs::read_to_string(&file.absolute).expect("text");
            if file.path.ends_with("cpu.rs") {
                plan.records
                    .push(record(RecordKind::Deleted, &file.path, &before, 0, 0));
                plan.changes.push(Change::Delete {
                    path: file.path.clone(),
                    before: before.into(),
                });
                continue;
            }
            for (at, _) in before.match_indices("Old") {
                plan.records
                    .push(record(RecordKind::Edit, &file.path, &before, at, at + 3));
            }
            for (at, _) in before.match_indices("raw") {
                plan.records.push(record(
                    RecordKind::Unresolved,
                    &file.path,
                    &before,
                    at,
                    at + 3,
                ));
            }
            let mut after = before.replace("Old", "New").replace("BREAK", "fn {");
            if proven {
                after = after.replace("Later", "New");
            }
            if after == before {
                plan.unchanged += 1;
            } else {
                plan.changes.push(Change::Write {
                    path: file.path.clone(),
                    before: before.into(),
                    after: after.into(),
                });
            }
        }
        tidy(&mut plan);
        Ok(plan)
    }
}

fn record(kind: RecordKind, file: &str, text: &str, byte_start: usize, byte_end: usize) -> Record {
    let line_start = text[..byte_start].rfind('\n').map_or(0, |at| at + 1);
    Record {
        kind,
        rule: "toy".to_owned(),
        file: file.to_owned(),
        line: text[..byte_start].matches('\n').count() + 1,
        column: byte_start - line_start + 1,
        line_after: None,
        byte_start,
        byte_end,
        source: text[line_start..]
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        before: None,
        after: None,
        reason: format!("`{}` is dealt with", &text[byte_start..byte_end]),
        suggestion: None,
    }
}

struct World {
    dir: tempfile::TempDir,
}

/// What a run left behind.
struct Ran {
    result: Result<Outcome, String>,
    out: String,
    err: String,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let world = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
        };
        world.write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        );
        for (path, text) in files {
            world.write(path, text);
        }
        world.git(&["init", "-q"]);
        world.git(&["add", "-A"]);
        world.git(&[
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@localhost",
            "commit",
            "-qm",
            "before",
        ]);
        world
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("is there")
    }

    fn git(&self, arguments: &[&str]) {
        let done = Command::new("git")
            .current_dir(self.dir.path())
            .args(arguments)
            .output()
            .expect("git runs");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(path)).ok()
    }

    fn run(&self, arguments: &MigrateArguments, input: &str) -> Ran {
        let migration = Migration {
            id: "toy".into(),
            text: TOY_TOML.into(),
            guide: "".into(),
        };
        let root = self.root();
        let session = Session {
            arguments,
            migrations: &[&migration],
            root: &root,
            working_directory: &root,
            planner: &Toy,
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let result = session
            .run(&mut Output::to(&mut out, &mut err), &mut input.as_bytes())
            .map_err(|failure| failure.to_string());
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ran {
            result,
            out: text(out),
            err: text(err),
        }
    }
}

const TOY_TOML: &str = "title = \"toy\"\n[verify]\nreplace = [\"parts\"]\n";

fn plain() -> MigrateArguments {
    MigrateArguments::default()
}

fn usual() -> World {
    World::new(&[
        ("src/lib.rs", "pub struct Old;\n"),
        ("src/same.rs", "fn f() {}\n"),
        ("tests/cpu.rs", "fn g() {}\n"),
    ])
}

#[test]
fn writes_and_tells() {
    let world = usual();
    let ran = world.run(&plain(), "");
    assert_eq!(ran.result, Ok(Outcome::Done));
    assert_eq!(
        world.read("src/lib.rs").as_deref(),
        Some("pub struct New;\n")
    );
    assert_eq!(world.read("tests/cpu.rs"), None);
    assert_eq!(
        ran.out,
        "edited: src/lib.rs: 1 edit\ndeleted: tests/cpu.rs:1:1: `` is dealt with\n\n1 files changed, 1 deleted, 0 unresolved, 1 unchanged\n"
    );
    assert_eq!(ran.err, "");
    let again = world.run(
        &MigrateArguments {
            allow_dirty: true,
            ..plain()
        },
        "",
    );
    assert_eq!(
        (again.result, again.out.as_str()),
        (
            Ok(Outcome::Done),
            "nothing to migrate\n0 files changed, 0 deleted, 0 unresolved, 2 unchanged\n"
        )
    );
}

#[test]
fn a_tree_that_is_not_clean_is_refused() {
    let world = usual();
    world.write("src/lib.rs", "pub struct Old; // mine\n");
    world.write("notes.txt", "x");
    let ran = world.run(&plain(), "");
    assert_eq!(
        ran.result,
        Err("error: 2 files have uncommitted changes; nothing was written\n  notes.txt (untracked)\n  src/lib.rs (modified)\n  \
             hint: commit them, or pass `--allow-dirty`"
            .to_owned())
    );
    assert!(world.read("src/lib.rs").expect("is there").contains("Old"));
    assert_eq!(
        world
            .run(
                &MigrateArguments {
                    check: true,
                    ..plain()
                },
                ""
            )
            .result,
        Ok(Outcome::WouldChange)
    );
    assert_eq!(
        world
            .run(
                &MigrateArguments {
                    allow_dirty: true,
                    ..plain()
                },
                ""
            )
            .result,
        Ok(Outcome::Done)
    );
}

#[test]
fn outside_of_version_control_is_refused() {
    let world = usual();
    fs::remove_dir_all(world.dir.path().join(".git")).expect("removed");
    let error = world.run(&plain(), "").result.expect_err("refused");
    assert!(
        error.contains("is not under version control; nothing was written"),
        "{error}"
    );
    assert!(world.read("tests/cpu.rs").is_some());
}

#[test]
fn check_and_diff_write_nothing() {
    let world = World::new(&[("src/lib.rs", "struct Old;\nfn raw() {}\n")]);
    let check = world.run(
        &MigrateArguments {
            check: true,
            ..plain()
        },
        "",
    );
    assert_eq!(check.result, Ok(Outcome::WouldChange));
    let diff = world.run(
        &MigrateArguments {
            diff: true,
            ..plain()
        },
        "",
    );
    assert_eq!(diff.result, Ok(Outcome::Unresolved));
    assert!(
        diff.out
            .starts_with("diff --git a/src/lib.rs b/src/lib.rs\n")
            && !diff.out.contains("unresolved"),
        "{}",
        diff.out
    );
    assert!(
        diff.err.contains("unresolved[toy]: `raw` is dealt with")
            && diff
                .err
                .trim_end()
                .ends_with("1 files changed, 0 deleted, 1 unresolved, 0 unchanged")
    );
    assert_eq!(
        world.read("src/lib.rs").as_deref(),
        Some("struct Old;\nfn raw() {}\n")
    );

    world.write(".git/p", &diff.out);
    world.git(&["apply", ".git/p"]);
    assert_eq!(
        world.read("src/lib.rs").as_deref(),
        Some("struct New;\nfn raw() {}\n")
    );
    assert_eq!(
        world
            .run(
                &MigrateArguments {
                    check: true,
                    ..plain()
                },
                ""
            )
            .result,
        Ok(Outcome::Unresolved)
    );
}

#[test]
fn strict_holds_everything_back() {
    let world = World::new(&[("src/lib.rs", "struct Old;\nfn raw() {}\n")]);
    let ran = world.run(
        &MigrateArguments {
            strict: true,
            ..plain()
        },
        "",
    );
    let error = ran.result.expect_err("refused");
    assert!(
        error.starts_with(
            "error: 1 site is left to you; nothing was written, as `--strict` asks for\n"
        ),
        "{error}"
    );
    assert!(ran.out.contains("src/lib.rs:2:4"), "{}", ran.out);
    assert_eq!(
        world.read("src/lib.rs").as_deref(),
        Some("struct Old;\nfn raw() {}\n")
    );
    assert_eq!(world.run(&plain(), "").result, Ok(Outcome::Unresolved));
}

#[test]
fn a_result_that_does_not_parse_is_never_written() {
    let world = World::new(&[
        ("src/lib.rs", "struct Old;\n"),
        ("src/tricky.rs", "const A: u8 = 0;\nBREAK!();\n"),
    ]);
    let error = world.run(&plain(), "").result.expect_err("refused");
    assert!(
        error.starts_with(
            "error: 1 file would not parse afterwards; nothing was written\n  src/tricky.rs:2:"
        ),
        "{error}"
    );
    assert!(world.read("src/lib.rs").expect("is there").contains("Old"));
}

#[test]
fn interactive_takes_what_is_agreed_to() {
    let world = usual();
    let ran = world.run(
        &MigrateArguments {
            interactive: true,
            ..plain()
        },
        "n\ny\n",
    );
    assert_eq!(ran.result, Ok(Outcome::Done));
    assert!(world.read("src/lib.rs").expect("is there").contains("Old"));
    assert_eq!(world.read("tests/cpu.rs"), None);
    assert!(
        ran.err
            .contains("(1/2) change `src/lib.rs` [y,n,a,d,q,?]? "),
        "{}",
        ran.err
    );
    assert_eq!(
        ran.out,
        "deleted: tests/cpu.rs:1:1: `` is dealt with\nnote: src/lib.rs: declined; another run offers it again\n\n0 files changed, 1 deleted, 0 unresolved, 2 unchanged\n"
    );
}

#[test]
fn a_run_that_was_killed_is_undone_first_and_only_by_a_run_that_writes() {
    let world = usual();
    // What a kill leaves behind before the first file is written.
    world.write(".git/migrate-journal", "");
    let error = world
        .run(
            &MigrateArguments {
                check: true,
                ..plain()
            },
            "",
        )
        .result
        .expect_err("refused");
    assert!(
        error.starts_with("error: a run before this one did not come to its end"),
        "{error}"
    );
    assert_eq!(world.run(&plain(), "").result, Ok(Outcome::Done));
    assert_eq!(world.read(".git/migrate-journal"), None);
}

#[test]
fn every_form_and_the_page() {
    let world = World::new(&[("src/lib.rs", "struct Old;\nfn raw() {}\n")]);
    let check = |message_format| {
        world
            .run(
                &MigrateArguments {
                    check: true,
                    message_format,
                    ..plain()
                },
                "",
            )
            .out
    };
    let first = check(MessageFormat::Json);
    assert!(
        first.starts_with("{\"schema\":1,\"kind\":\"edit\""),
        "{first}"
    );
    assert!(check(MessageFormat::Sarif).contains("\"version\": \"2.1.0\""));
    let page = world.dir.path().join("page.html");
    let arguments = MigrateArguments {
        check: true,
        report: Some("page.html".into()),
        ..plain()
    };
    assert_eq!(world.run(&arguments, "").result, Ok(Outcome::WouldChange));
    assert!(
        fs::read_to_string(page)
            .expect("is there")
            .contains("<b>New</b>")
    );
}

#[test]
fn why_speaks_of_one_line() {
    let world = World::new(&[
        ("src/lib.rs", "struct Old;\nfn raw() {}\nfn f() {}\n"),
        (".gitignore", "gen\n"),
        ("gen/a.rs", "struct Old;\n"),
    ]);
    let why = |file: &str, line| {
        let place = Some(crate::cli::Place {
            file: file.into(),
            line,
        });
        let ran = world.run(
            &MigrateArguments {
                why: place,
                ..plain()
            },
            "",
        );
        ran.result.map(|_| ran.out)
    };
    assert_eq!(
        why("src/lib.rs", 1).expect("told"),
        "src/lib.rs:1: struct Old;\n  rewritten by `toy`: `Old` is dealt with\n@@ -1,3 +1,3 @@\n-struct Old;\n+struct New;\n fn raw() {}\n fn f() {}\n"
    );
    assert!(
        why("src/lib.rs", 2)
            .expect("told")
            .contains("unresolved by `toy` at column 4")
    );
    assert!(why("src/lib.rs", 3).expect("told").contains("left alone"));
    assert_eq!(
        why("gen/a.rs", 1).expect("told"),
        "gen/a.rs is not looked at: `gen` is ignored by git\n"
    );
    assert!(
        why("src/lib.rs", 9)
            .expect_err("no such line")
            .contains("has 3 lines")
    );
    assert!(
        why("src/none.rs", 1)
            .expect_err("no such file")
            .contains("there is no file `src/none.rs`")
    );
}

#[test]
fn the_compiler_settles_what_it_can_and_what_it_cannot_is_told() {
    let world = World::new(&[("app/src/lib.rs", "use parts::Old;\npub fn f(_: Old) {}\n")]);
    let package = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
    };
    let outside = tempfile::tempdir().expect("a temporary directory");
    let lay_out = |path: &str, text: &str| {
        let path = outside.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
        fs::write(path, text).expect("file");
    };
    lay_out("old/Cargo.toml", &package("parts", "[workspace]\n"));
    lay_out("old/src/lib.rs", "pub struct Old;\npub struct Later;\n");
    lay_out(
        "new/crates/parts/Cargo.toml",
        &package("parts", "[workspace]\n"),
    );
    lay_out("new/crates/parts/src/lib.rs", "pub struct New;\n");
    world.write("Cargo.toml", "[workspace]\nmembers = [\"app\"]\n");
    let dependency = format!(
        "[dependencies]\nparts = {{ path = {:?} }}\n",
        outside.path().join("old")
    );
    world.write("app/Cargo.toml", &package("app", &dependency));
    let arguments = MigrateArguments {
        verify: true,
        allow_dirty: true,
        crates: Some(outside.path().join("new")),
        ..plain()
    };

    // The planner does not know what `Later` is until the compiler has said that it is gone.
    world.write(
        "app/src/lib.rs",
        "use parts::Old;\nuse parts::Later as L;\npub fn f(_: Old, _: L) {}\n",
    );
    let ran = world.run(&arguments, "");
    assert_eq!(ran.result, Ok(Outcome::Done), "{}", ran.out);
    assert_eq!(
        world.read("app/src/lib.rs").as_deref(),
        Some("use parts::New;\nuse parts::New as L;\npub fn f(_: New, _: L) {}\n")
    );

    world.write(
        "app/src/lib.rs",
        "use parts::Old;\npub fn f(_: Old) -> u8 { 1 }\npub fn g() { parts::gone(); }\n",
    );
    lay_out("old/src/lib.rs", "pub struct Old;\npub fn gone() {}\n");
    let ran = world.run(&arguments, "");
    assert_eq!(ran.result, Ok(Outcome::Unresolved), "{}", ran.out);
    assert!(
        ran.out
            .contains("unresolved[verify]: the compiler says: error[E0425]"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("app/src/lib.rs:3:21"), "{}", ran.out);
    fs::remove_dir_all(scratch_home(&world.root())).expect("the copy is where it was said to be");
}
