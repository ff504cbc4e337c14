//! `rustc` on fixtures, against the stand-ins of the migration: many files as modules of one crate, so that it takes seconds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::support::{migration_folder, write_folder};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surface {
    Old,
    New,
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

/// The stand-ins, compiled once for each run of the tests.
static STAND_INS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let home = tempfile::tempdir().expect("a temporary folder");
    let stubs = migration_folder().join("stubs");
    let compile = |name: &str, source: PathBuf, out: &Path, externs: &[&str]| {
        let mut rustc = rustc(name, "2024", out);
        rustc
            .args(["-A", "warnings"])
            .arg("-L")
            .arg(home.path())
            .arg(source);
        for name in externs {
            rustc.arg("--extern").arg(format!(
                "{name}={}",
                home.path().join(format!("lib{name}.rmeta")).display()
            ));
        }
        let done = rustc.output().expect("rustc starts");
        assert!(
            done.status.success(),
            "stand-in {name}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
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
        check_crate(&units, surface, edition, cfgs, &mut verdicts);
    }
    verdicts
}

fn check_crate(
    units: &[&Unit],
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
    let stand_ins = STAND_INS.path();
    let mut command = rustc("fixtures", edition, folder.path());
    command
        .args(["-A", "unexpected_cfgs"])
        .arg("-L")
        .arg(stand_ins)
        .arg(folder.path().join(root));
    for (name, at) in [
        ("cudarc", "libcudarc.rmeta"),
        ("ml_cuda", "libml_cuda.rmeta"),
        (
            "ml_dqn",
            if surface == Surface::Old {
                "old/libml_dqn.rmeta"
            } else {
                "new/libml_dqn.rmeta"
            },
        ),
    ] {
        command
            .arg("--extern")
            .arg(format!("{name}={}", stand_ins.join(at).display()));
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
        let Some(span) = spans.iter().find(|span| span["is_primary"] == true) else {
            continue;
        };
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
