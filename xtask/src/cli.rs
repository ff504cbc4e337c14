//! What the command line takes. The comments here are the help text.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Development commands of this workspace.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    version,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Migrate(Box<MigrateArguments>),
    NewMigration(NewMigrationArguments),
    GpuBundle(crate::gpu_bundle::Args),
    /// Runs what a bundle holds; `run.sh` of a bundle calls it where there is no Rust.
    #[command(hide = true)]
    GpuRun(crate::gpu_run::Args),
    GpuStatus(crate::gpu_status::Args),
    KernelCheck(crate::kernel_check::Args),
}

/// Brings a branch to the new crates.
///
/// Every place that needs a change is rewritten, deleted, or named with its source line and the reason why it was left to
/// you. Files are written all together or not at all, and only in a clean working tree: `git diff` shows what was done,
/// `git checkout` undoes it.
///
/// Never touched: build results, files that git ignores, vendored packages, submodules, what the root manifest lists in
/// `[workspace.metadata.migrate] exclude`, and what stands under a `// migrate: keep` comment.
///
/// Exit codes: 0 done, or nothing to do; 1 something would change (`--check`); 2 done, but sites are left for you; 3 refused
/// or failed, nothing was written.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask migrate --root ../branch --diff     see what would change\n  \
    cargo xtask migrate --root ../branch            change it\n  \
    cargo xtask migrate --root ../branch --verify   change it, and ask the compiler first")]
pub struct MigrateArguments {
    /// Migrations to run; without any, those that run by default.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// The tree to migrate; without it, the workspace that holds the working directory.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Write nothing; say by the exit code whether something would change.
    #[arg(long, group = "mode", help_heading = "Mode")]
    pub check: bool,

    /// Write nothing; print a patch that `git apply` takes, and the report to standard error.
    #[arg(long, group = "mode", help_heading = "Mode")]
    pub diff: bool,

    /// Ask for each file, or each hunk of it, as `git add --patch` does.
    #[arg(long, group = "mode", help_heading = "Mode")]
    pub interactive: bool,

    /// List the migrations.
    #[arg(long, group = "mode", help_heading = "Mode")]
    pub list: bool,

    /// Say what a rule does, and why; of a migration, print its guide.
    #[arg(long, value_name = "RULE", group = "mode", help_heading = "Mode")]
    pub explain: Option<String>,

    /// Say what was made of one place, and why, also where it was left alone.
    #[arg(long, value_name = "FILE:LINE", group = "mode", help_heading = "Mode", value_parser = Place::parse)]
    pub why: Option<Place>,

    /// Compile the result in a copy below `target/migrate/` before anything is written; what the compiler proves is used,
    /// what it still says is shown at the sites of the report.
    #[arg(long, conflicts_with_all = ["list", "explain", "why"], help_heading = "Check by the compiler")]
    pub verify: bool,

    /// Where the new crates are; without it, this repository.
    #[arg(
        long,
        value_name = "DIR",
        requires = "verify",
        help_heading = "Check by the compiler"
    )]
    pub crates: Option<PathBuf>,

    /// Only these packages of the tree.
    #[arg(
        long = "package",
        short,
        value_name = "NAME",
        help_heading = "What is looked at"
    )]
    pub packages: Vec<String>,

    /// Leave out what matches, as a line of `.gitignore` would.
    #[arg(long, value_name = "GLOB", help_heading = "What is looked at")]
    pub exclude: Vec<String>,

    /// Look at files that git ignores, too.
    #[arg(long, help_heading = "What is looked at")]
    pub include_ignored: bool,

    /// Parse and resolve every file, also where no retired name stands. The result is the same; it takes minutes where
    /// seconds do, and is for trying the tool on code that it has never seen.
    #[arg(long, help_heading = "What is looked at")]
    pub exhaustive: bool,

    /// Read migrations from the folders in DIR, in place of those that were built in.
    #[arg(long, value_name = "DIR", help_heading = "What is looked at")]
    pub migrations: Option<PathBuf>,

    /// Write nothing while a single site is unresolved.
    #[arg(long, help_heading = "What is allowed")]
    pub strict: bool,

    /// Write to a tree with uncommitted changes, or outside of version control.
    #[arg(long, help_heading = "What is allowed")]
    pub allow_dirty: bool,

    /// Form of the report.
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value_t,
        help_heading = "Output"
    )]
    pub message_format: MessageFormat,

    /// Write one HTML page with the sites and every file side by side.
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,

    /// Threads; without it, one for each core. The result is the same.
    #[arg(long, short, value_name = "N", value_parser = parse_jobs, help_heading = "Output")]
    pub jobs: Option<usize>,
}

/// Lays out a new migration, with a rule and its before/after fixture to start from.
#[derive(Debug, Args)]
pub struct NewMigrationArguments {
    /// What it is called, as `retire-cpu-buffers`; today's date comes before it.
    pub name: String,

    /// Where it is laid out; without it, in the folder `migrations` of this repository.
    #[arg(long, value_name = "DIR")]
    pub migrations: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MessageFormat {
    /// For people: sites as rustc shows errors, and a tally.
    #[default]
    Human,
    /// One JSON object a line; the first one says `"schema": 1`.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
}

impl Place {
    /// Takes `FILE:LINE` and, as it stands in a report, `FILE:LINE:COLUMN`.
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let (rest, last) = text
            .rsplit_once(':')
            .ok_or("a place is FILE:LINE, with lines counted from 1")?;
        let place = match rest.rsplit_once(':') {
            Some((file, line)) if number(line).is_some() && number(last).is_some() => {
                number(line).map(|line| (file, line))
            }
            _ => number(last).map(|line| (rest, line)),
        };
        let (file, line) = place
            .filter(|(file, _)| !file.is_empty())
            .ok_or("a place is FILE:LINE, with lines counted from 1")?;
        Ok(Self {
            file: file.into(),
            line,
        })
    }
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|jobs| (1..=1024).contains(jobs))
        .ok_or_else(|| "a number from 1 to 1024".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn places() {
        let place = |file: &str, line| {
            Ok(Place {
                file: file.into(),
                line,
            })
        };
        assert_eq!(Place::parse("src/lib.rs:7"), place("src/lib.rs", 7));
        assert_eq!(Place::parse("src/lib.rs:7:12"), place("src/lib.rs", 7));
        assert_eq!(Place::parse("C:\\b\\lib.rs:7"), place("C:\\b\\lib.rs", 7));
        for wrong in ["src/lib.rs", "src/lib.rs:0", ":3", "src/lib.rs:x", ""] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }
}
