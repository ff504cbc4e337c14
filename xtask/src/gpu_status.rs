//! `cargo xtask gpu-status`: does the recorded GPU run still speak for the sources of this tree?

pub mod fingerprint;
mod sha256;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::gpu_run::report::{Report, Tally};
use fingerprint::{Change, Fingerprint};

/// The recorded run, from the workspace's root.
const LAST_RUN: &str = "tests/gpu/last-run.json";

/// Says whether the recorded GPU run speaks for the present sources, *current* or *stale*.
///
/// The run is recorded in `tests/gpu/last-run.json`, with a fingerprint of the kernels and of the CUDA-facing crates.
/// Exit codes: 0 said, 1 stale (with `--check`), 3 the record or a report cannot be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Turns the reports in these folders (what `run.sh --report DIR` wrote) into the recorded run. Several reports of
    /// one bundle are joined, for instance of `tests`, `sanitize` and `bench`.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    record: Vec<PathBuf>,
    /// Ends with 1 where the recorded run is stale.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    let root = workspace_root();
    let outcome = if args.record.is_empty() {
        Ok(())
    } else {
        record(&root, &args.record)
    };
    match outcome.and_then(|()| status(&root)) {
        Ok(current) => ExitCode::from(u8::from(args.check && !current)),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(3)
        }
    }
}

/// The workspace that this command was built from.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Prints the status; true where the run is current.
fn status(root: &Path) -> Result<bool, String> {
    let path = root.join(LAST_RUN);
    if !path.exists() {
        println!("stale: no GPU run is recorded; `{LAST_RUN}` does not exist\n{HOW_TO_RECORD}");
        return Ok(false);
    }
    let report = Report::read(&path)?;
    let now = Fingerprint::of(root)
        .map_err(|e| format!("cannot read the sources in `{}`: {e}", root.display()))?;
    println!("GPU run of {} on {}", report.date, report.device);
    for (section, tally) in report.tallies() {
        println!("  {section:<10} {tally}");
    }
    if !report.missing().is_empty() {
        println!("  not run: {}", report.missing().join(", "));
    }
    let changes = report.fingerprint.changes_to(&now);
    if changes.is_empty() {
        println!(
            "current: {} sources as they were ({})",
            now.files.len(),
            now.short()
        );
        return Ok(true);
    }
    let count = changes.len();
    println!(
        "stale: {count} source{} changed since",
        if count == 1 { "" } else { "s" }
    );
    for (path, change) in changes {
        let word = match change {
            Change::Edited => "edited",
            Change::New => "new",
            Change::Gone => "gone",
        };
        println!("  {word:<7} {path}");
    }
    println!("{HOW_TO_RECORD}");
    Ok(false)
}

const HOW_TO_RECORD: &str = "hint: `cargo xtask gpu-bundle`, then on a GPU machine `run.sh all --report DIR`, \
                             then here `cargo xtask gpu-status --record DIR`";

fn record(root: &Path, folders: &[PathBuf]) -> Result<(), String> {
    let mut joined: Option<Report> = None;
    for folder in folders {
        let report = Report::read(&folder.join("report.json"))?;
        joined = Some(match joined {
            None => report,
            Some(before) => before
                .joined_with(report)
                .map_err(|e| format!("{}: {e}", folder.display()))?,
        });
    }
    let Some(report) = joined else { return Ok(()) };
    if !report.has_gpu {
        return Err("the reports come from a machine without a GPU; nothing was recorded".into());
    }
    if report
        .tallies()
        .iter()
        .all(|(_, tally)| *tally == Tally::default())
    {
        return Err("the reports hold no result; nothing was recorded".into());
    }
    let path = root.join(LAST_RUN);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .map_err(|e| format!("cannot make `{}`: {e}", folder.display()))?;
    }
    report.write(&path)?;
    println!("recorded in {LAST_RUN}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_a_run_is_stale_and_says_so() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(status(tree.path()), Ok(false));
    }

    #[test]
    fn a_recorded_run_is_current_until_a_source_changes() {
        let tree = tempfile::tempdir().unwrap();
        let kernel = tree.path().join("kernels/a.cu");
        fs::create_dir_all(kernel.parent().unwrap()).unwrap();
        fs::write(&kernel, "__global__ void a() {}").unwrap();

        let report = tempfile::tempdir().unwrap();
        let mut run = Report::example();
        run.fingerprint = Fingerprint::of(tree.path()).unwrap();
        run.write(&report.path().join("report.json")).unwrap();
        record(tree.path(), &[report.path().to_owned()]).unwrap();
        assert_eq!(status(tree.path()), Ok(true));

        fs::write(&kernel, "__global__ void b() {}").unwrap();
        assert_eq!(status(tree.path()), Ok(false));
    }

    #[test]
    fn a_run_without_a_gpu_is_not_recorded() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut run = Report::example();
        run.has_gpu = false;
        run.write(&folder.path().join("report.json")).unwrap();
        let refusal = record(tree.path(), &[folder.path().to_owned()]).unwrap_err();
        assert!(refusal.contains("without a GPU"), "{refusal}");
        assert!(!tree.path().join(LAST_RUN).exists());
    }

    #[test]
    fn reports_of_different_sources_are_not_joined() {
        let tree = tempfile::tempdir().unwrap();
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut run = Report::example();
        run.write(&a.path().join("report.json")).unwrap();
        run.fingerprint
            .files
            .insert("kernels/new.cu".into(), "0".into());
        run.write(&b.path().join("report.json")).unwrap();
        let refusal = record(tree.path(), &[a.path().to_owned(), b.path().to_owned()]).unwrap_err();
        assert!(refusal.contains("other sources"), "{refusal}");
        assert!(!tree.path().join(LAST_RUN).exists());
    }
}
