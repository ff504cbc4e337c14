//! `cargo xtask gpu-bundle`: everything that a GPU machine without Rust needs, in one folder.

pub mod manifest;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::gpu_run::Plan;
use crate::gpu_status::fingerprint::Fingerprint;
use crate::gpu_status::workspace_root;
use manifest::{Kind, Manifest, Program};

/// The crates whose tests, benches and examples use a GPU.
const PACKAGES: &[&str] = &["ml-cuda", "ml-dqn", "ml"];
/// What an upload to a rented machine may weigh.
const LIMIT_BYTES: u64 = 48 << 20;

/// Builds the tests, benches and examples of the GPU crates into one folder for a machine without Rust.
///
/// Copy the folder there and start `run.sh tests`, `sanitize`, `bench`, `train` or `all`, with `--report DIR`. It needs
/// bash, the NVIDIA driver and the CUDA libraries, nothing else. `cargo xtask gpu-status --record DIR` takes the report
/// back into this tree.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder; what an earlier bundle left there is removed.
    #[arg(long, value_name = "DIR", default_value = "target/gpu-bundle")]
    out: PathBuf,
    /// Packages to build, instead of ml-cuda, ml-dqn and ml.
    #[arg(long, value_name = "NAME")]
    package: Vec<String>,
}

/// Runs the command. Exit codes: 0 done, 3 not.
pub fn run(args: &Args) -> ExitCode {
    match bundle(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(3)
        }
    }
}

fn bundle(args: &Args) -> Result<(), String> {
    let root = workspace_root();
    let plan = Plan::read(&root.join("tests/gpu/plan.json"))?;
    let packages = if args.package.is_empty() {
        PACKAGES.iter().map(|p| p.to_string()).collect()
    } else {
        args.package.clone()
    };
    // Before the build: an edit made during it must not pass for what was built.
    let fingerprint =
        Fingerprint::of(&root).map_err(|e| format!("cannot read the sources: {e}"))?;

    let mut selection: Vec<OsString> = ["--tests", "--benches", "--examples"]
        .map(OsString::from)
        .to_vec();
    selection.extend(
        packages
            .iter()
            .flat_map(|package| ["--package", package])
            .map(OsString::from),
    );
    let mut built: Vec<Built> = build(&root, &selection)?;
    let mut runner = build(
        &root,
        &["--package", "xtask", "--bin", "xtask"].map(OsString::from),
    )?;
    built.retain(|artifact| artifact.kind.is_some());
    let runner = runner.pop().ok_or("cargo built no `xtask`")?;

    clear(&args.out)?;
    let bin = args.out.join("bin");
    fs::create_dir_all(&bin).map_err(|e| format!("cannot make `{}`: {e}", bin.display()))?;
    copy(&runner.executable, &bin.join("xtask"))?;
    let mut programs = Vec::new();
    for artifact in &built {
        let Some(kind) = artifact.kind else { continue };
        let name = format!("{}/{kind}/{}", artifact.package, artifact.target);
        let file = format!("bin/{}", name.replace('/', "-"));
        copy(&artifact.executable, &args.out.join(&file))?;
        programs.push(Program { name, kind, file });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    copy_files(&root.join("tests/gpu/peers"), &args.out.join("peers"))?;
    let names: Vec<String> = programs
        .iter()
        .map(|program| program.name.clone())
        .collect();
    for name in plan.names_without_a_program(&names) {
        eprintln!(
            "warning: tests/gpu/plan.json names `{name}`, which no program of the bundle matches"
        );
    }
    let manifest = Manifest {
        commit: commit(&root),
        fingerprint,
        plan,
        programs,
    };
    manifest.write(&args.out.join("manifest.json"))?;
    let run_sh = args.out.join("run.sh");
    fs::write(&run_sh, include_str!("gpu_bundle/run.sh"))
        .map_err(|e| format!("cannot write `{}`: {e}", run_sh.display()))?;
    make_executable(&run_sh)?;
    report_size(&args.out, &manifest)
}

/// An executable that cargo made.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    package: String,
    target: String,
    /// None for a plain program, such as this one.
    kind: Option<Kind>,
    executable: PathBuf,
}

fn build(root: &Path, selection: &[OsString]) -> Result<Vec<Built>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(&cargo)
        .current_dir(root)
        .args([
            "build",
            "--release",
            "--message-format=json-render-diagnostics",
        ])
        .args(selection)
        // Symbols are half of a binary; panics keep their file and line.
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start `{}`: {e}", cargo.display()))?;
    let mut built = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|e| format!("cannot read cargo's messages: {e}"))?;
            let message: Value =
                serde_json::from_str(&line).map_err(|e| format!("cargo said `{line}`: {e}"))?;
            built.extend(artifact(&message));
        }
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for cargo: {e}"))?;
    if !status.success() {
        return Err(format!(
            "`cargo build --release` ended with {status}; nothing was bundled"
        ));
    }
    Ok(built)
}

/// The executable that a message of cargo tells of, if it does.
fn artifact(message: &Value) -> Option<Built> {
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    // The folder is named like the crate, here as in every message of cargo.
    let package = Path::new(message["manifest_path"].as_str()?)
        .parent()?
        .file_name()?
        .to_string_lossy()
        .into_owned();
    let target = &message["target"];
    let kinds: Vec<&str> = target["kind"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_test = message["profile"]["test"] == true;
    let (kind, target) = if kinds.contains(&"bench") {
        (Some(Kind::Bench), target["name"].as_str()?)
    } else if kinds.contains(&"example") {
        // Under `--tests` an example may come a second time, as a test of itself.
        (
            if is_test { None } else { Some(Kind::Example) },
            target["name"].as_str()?,
        )
    } else if kinds.contains(&"test") {
        (Some(Kind::Test), target["name"].as_str()?)
    } else if is_test {
        (Some(Kind::Test), "unit")
    } else {
        (None, target["name"].as_str()?)
    };
    Some(Built {
        package,
        target: target.to_owned(),
        kind,
        executable,
    })
}

/// Removes what an earlier bundle left; refuses a folder that holds something else.
fn clear(out: &Path) -> Result<(), String> {
    let has_entries = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if has_entries && !out.join("manifest.json").is_file() {
        return Err(format!(
            "`{}` is not empty and holds no bundle; nothing was removed\nhint: name another folder",
            out.display()
        ));
    }
    if out.exists() {
        fs::remove_dir_all(out).map_err(|e| format!("cannot remove `{}`: {e}", out.display()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|e| {
        format!(
            "cannot copy `{}` to `{}`: {e}",
            from.display(),
            to.display()
        )
    })
}

/// The files of a folder, without those below.
fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot read `{}`: {e}", from.display());
    fs::create_dir_all(to).map_err(|e| format!("cannot make `{}`: {e}", to.display()))?;
    for entry in fs::read_dir(from).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.file_type().map_err(cannot)?.is_file() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn make_executable(file: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(file, mode)
            .map_err(|e| format!("cannot make `{}` executable: {e}", file.display()))?;
    }
    Ok(())
}

/// The commit that is checked out, with `+` where files differ from it.
fn commit(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"])?;
    let dirty = git(&["status", "--porcelain", "--", "kernels", "crates"])
        .is_none_or(|changes| !changes.is_empty());
    Some(if dirty { format!("{head}+") } else { head })
}

fn report_size(out: &Path, manifest: &Manifest) -> Result<(), String> {
    let size = |file: &str| fs::metadata(out.join(file)).map_or(0, |meta| meta.len());
    let mut sizes: Vec<(u64, &str)> = manifest
        .programs
        .iter()
        .map(|p| (size(&p.file), p.name.as_str()))
        .collect();
    sizes.push((size("bin/xtask"), "xtask, which runs them"));
    sizes.sort_by(|a, b| b.cmp(a));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for (bytes, name) in &sizes {
        println!("{:6.1} MiB  {name}", mib(*bytes));
    }
    let total: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
    println!(
        "{:6.1} MiB  in {}; start `run.sh all --report DIR` there",
        mib(total),
        out.display()
    );
    if total >= LIMIT_BYTES {
        return Err(format!(
            "the bundle has {:.1} MiB, {:.0} are allowed",
            mib(total),
            mib(LIMIT_BYTES)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, test: bool) -> Value {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/w/crates/ml-dqn/Cargo.toml",
            "target": {"kind": [kind], "name": "gpu"},
            "profile": {"test": test},
            "executable": "/w/target/release/deps/gpu-0123",
        })
    }

    #[test]
    fn cargos_messages_are_told_apart() {
        let of = |kind: &str, test: bool| {
            artifact(&message(kind, test)).map(|built| (built.kind, built.target))
        };
        assert_eq!(of("test", true), Some((Some(Kind::Test), "gpu".into())));
        assert_eq!(of("bench", true), Some((Some(Kind::Bench), "gpu".into())));
        assert_eq!(
            of("example", false),
            Some((Some(Kind::Example), "gpu".into()))
        );
        assert_eq!(of("example", true), Some((None, "gpu".into())));
        assert_eq!(of("lib", true), Some((Some(Kind::Test), "unit".into())));
        assert_eq!(of("bin", false), Some((None, "gpu".into())));
        let mut library = message("lib", false);
        library["executable"] = Value::Null;
        assert_eq!(artifact(&library), None);
    }

    #[test]
    fn the_peers_come_along() {
        let folder = tempfile::tempdir().unwrap();
        let peers = folder.path().join("peers");
        copy_files(&workspace_root().join("tests/gpu/peers"), &peers).unwrap();
        for file in ["common.py", "cub_scan.cu", "floors.py"] {
            assert!(peers.join(file).is_file(), "no {file}");
        }
    }

    #[test]
    fn a_folder_of_something_else_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("thesis.tex");
        fs::write(&file, "years of work").unwrap();
        assert!(
            clear(folder.path())
                .unwrap_err()
                .contains("nothing was removed")
        );
        assert!(file.exists());
        fs::write(folder.path().join("manifest.json"), "{}").unwrap();
        clear(folder.path()).unwrap();
        assert!(!folder.path().exists());
    }
}
