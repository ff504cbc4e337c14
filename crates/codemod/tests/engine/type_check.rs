//! `rustc` on fixtures, against the stand-ins of their migration: many files as modules of one crate, so that it takes seconds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::support::{UPGRADE, folder_of, migration_folder, write_folder};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surface {
    Old,
    New,
}

/// Whose stand-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    Replay,
    Rand,
}

/// One file to check; `name` is an identifier.
#[derive(Debug, Clone)]
pub struct Unit {
    pub name: String,
    pub source: Vec<u8>,
}

/// What the compiler said of one file: errors as they are, and how often each warning was given.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    pub errors: Vec<String>,
    pub warnings: BTreeMap<String, usize>,
}

/// Compiles a stand-in that sees those beside it in `home`, and in `out`.
fn compile(home: &Path, name: &str, source: PathBuf, out: &Path, externs: &[&str]) {
    let mut rustc = rustc(name, "2024", out);
    rustc
        .args(["-A", "warnings"])
        .arg("-L")
        .arg(home)
        .arg("-L")
        .arg(out)
        .arg(source);
    for name in externs {
        let file = format!("lib{name}.rmeta");
        let found = [out, home]
            .map(|folder| folder.join(&file))
            .into_iter()
            .find(|path| path.exists())
            .expect("compiled before");
        rustc
            .arg("--extern")
            .arg(format!("{name}={}", found.display()));
    }
    let done = rustc.output().expect("rustc starts");
    assert!(
        done.status.success(),
        "stand-in {name}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

static RAND_STAND_INS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a temporary folder");
    for surface in ["old", "new"] {
        let stubs = folder_of(UPGRADE).join("stubs").join(surface);
        let out = home.path().join(surface);
        std::fs::create_dir(&out).expect("writable");
        compile(
            home.path(),
            "rand_core",
            stubs.join("rand_core.rs"),
            &out,
            &[],
        );
        compile(
            home.path(),
            "rand",
            stubs.join("rand.rs"),
            &out,
            &["rand_core"],
        );
    }
    home
});

/// The stand-ins, compiled once for each run of the tests.
static STAND_INS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a temporary folder");
    let stubs = migration_folder().join("stubs");
    let compile = |name: &str, source: PathBuf, out: &Path, externs: &[&str]| {
        compile(home.path(), name, source, out, externs);
    };
    compile("cudarc", stubs.join("cudarc.rs"), home.path(), &[]);
    compile(
        "ml_cuda",
        stubs.join("ml_cuda.rs"),
        home.path(),
        &["cudarc"],
    );
    for surface in ["old", "new"] {
        let out = home.path().join(surface);
        std::fs::create_dir(&out).expect("writable");
        compile(
            "ml_dqn",
            stubs.join(surface).join("ml_dqn.rs"),
            &out,
            &["cudarc", "ml_cuda"],
        );
    }
    home
});

fn rustc(name: &str, edition: &str, out: &Path) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args([
            "--crate-name",
            name,
            "--crate-type",
            "lib",
            "--emit=metadata",
            "--error-format=json",
            "--edition",
            edition,
        ])
        .arg("--out-dir")
        .arg(out);
    rustc
}

/// Checks files of one edition under one set of `cfg`s.
pub fn check(
    units: &[Unit],
    family: Family,
    surface: Surface,
    edition: &str,
    cfgs: &[String],
) -> BTreeMap<String, Verdict> {
    let mut verdicts: BTreeMap<String, Verdict> = units
        .iter()
        .map(|unit| (unit.name.clone(), Verdict::default()))
        .collect();
    // A file that names its crate's root or has attributes of a crate is one on its own.
    let alone = |unit: &Unit| {
        ["crate::", "#![", "extern crate"]
            .iter()
            .any(|needle| String::from_utf8_lossy(&unit.source).contains(needle))
    };
    let (alone, together): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(|unit| alone(unit));
    let crates = alone
        .into_iter()
        .map(|unit| vec![unit])
        .chain((!together.is_empty()).then_some(together));
    for units in crates {
        check_crate(&units, family, surface, edition, cfgs, &mut verdicts);
    }
    verdicts
}

fn check_crate(
    units: &[&Unit],
    family: Family,
    surface: Surface,
    edition: &str,
    cfgs: &[String],
    verdicts: &mut BTreeMap<String, Verdict>,
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut files: BTreeMap<String, Vec<u8>> = units
        .iter()
        .map(|unit| (format!("{}.rs", unit.name), unit.source.clone()))
        .collect();
    // Fixtures may show another text to rustdoc.
    files.insert("README.md".into(), Vec::new());
    let root = if let [unit] = units {
        format!("{}.rs", unit.name)
    } else {
        let modules: String = units
            .iter()
            .map(|unit| format!("pub mod {};\n", unit.name))
            .collect();
        files.insert("src/lib.rs".into(), modules.into_bytes());
        for unit in units {
            let source = files
                .remove(&format!("{}.rs", unit.name))
                .expect("inserted above");
            files.insert(format!("src/{}.rs", unit.name), source);
        }
        "src/lib.rs".into()
    };
    write_folder(folder.path(), &files);
    let stand_ins = match family {
        Family::Replay => STAND_INS.path(),
        Family::Rand => RAND_STAND_INS.path(),
    };
    let side = match surface {
        Surface::Old => "old",
        Surface::New => "new",
    };
    let externs: Vec<(&str, PathBuf)> = match family {
        Family::Replay => vec![
            ("cudarc", PathBuf::new()),
            ("ml_cuda", PathBuf::new()),
            ("ml_dqn", side.into()),
        ],
        Family::Rand => vec![("rand", side.into()), ("rand_core", side.into())],
    };
    let mut command = rustc("fixtures", edition, folder.path());
    command
        .args(["-A", "unexpected_cfgs"])
        .arg("-L")
        .arg(stand_ins)
        .arg("-L")
        .arg(stand_ins.join(side))
        .arg(folder.path().join(root));
    for (name, folder) in externs {
        let at = stand_ins.join(folder).join(format!("lib{name}.rmeta"));
        command
            .arg("--extern")
            .arg(format!("{name}={}", at.display()));
    }
    for cfg in cfgs {
        // Alone, `--cfg test` would leave helpers in and the tests that call them out.
        if cfg == "test" {
            command.arg("--test")
        } else {
            command.arg("--cfg").arg(cfg)
        };
    }
    let done = command.output().expect("rustc starts");
    for message in String::from_utf8_lossy(&done.stderr)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let spans = message["spans"].as_array().cloned().unwrap_or_default();
        let Some(mut span) = spans.iter().find(|span| span["is_primary"] == true) else {
            continue;
        };
        // What stands inside of a macro of the library is told where that is called.
        while span["expansion"].is_object() {
            span = &span["expansion"]["span"];
        }
        let file = Path::new(span["file_name"].as_str().unwrap_or_default())
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
            .to_owned();
        let verdict = verdicts.entry(file).or_default();
        let text = format!(
            "{}: {}",
            span["line_start"],
            message["message"].as_str().unwrap_or_default()
        );
        match (message["level"].as_str(), message["code"]["code"].as_str()) {
            (Some("error"), _) => verdict.errors.push(text),
            (Some("warning"), Some(code)) => {
                *verdict.warnings.entry(code.to_owned()).or_default() += 1
            }
            _ => {}
        }
    }
    assert!(
        done.status.success() || verdicts.values().any(|verdict| !verdict.errors.is_empty()),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
