//! `xtask gpu-run`: what `run.sh` of a GPU bundle starts. Runs the bundle's programs on the machine at hand, and writes
//! `report.json`, `report.md` and `output.log` into one folder.
//!
//! It is hidden from the help: outside of a bundle there is nothing for it to run.

mod findings;
mod machine;
mod markdown;
mod plan;
mod process;
pub mod report;
mod side_by_side;
mod test_lines;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;

use crate::gpu_bundle::manifest::{Kind, Manifest, Program};
pub use plan::Plan;
use plan::{Peer, Sanitize};
use process::Ended;
use report::{Outcome, ProgramRun, Report, Section};

/// Runs the programs of a GPU bundle; `run.sh` starts this.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to run.
    #[arg(value_enum)]
    what: What,
    /// Where to write `report.json`, `report.md` and `output.log`.
    #[arg(long, value_name = "DIR", default_value = "gpu-report")]
    report: PathBuf,
    /// Only programs whose name (`ml-dqn/test/gpu`) holds this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only tests whose name holds this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only this tool of compute-sanitizer, as `racecheck`.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Seconds after which a program is stopped, instead of what the plan says.
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// The bundle.
    #[arg(long, value_name = "DIR", hide = true)]
    bundle: PathBuf,
}

/// What a bundle can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Every test.
    Tests,
    /// The tests again under compute-sanitizer, where it is installed.
    Sanitize,
    /// Every bench, then its peers.
    Bench,
    /// Every example: they train.
    Train,
    /// All of these, in this order.
    All,
}

/// Runs the command. Exit codes: 0 all went well, 1 something failed, 3 nothing could be run.
pub fn run(args: &Args) -> ExitCode {
    match Runner::new(args).and_then(|mut runner| runner.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(3)
        }
    }
}

struct Runner<'a> {
    args: &'a Args,
    manifest: Manifest,
    report: Report,
    log: File,
    /// What a sanitizer said of the program that ran last.
    findings: Vec<findings::Finding>,
    has_gpu: bool,
}

impl<'a> Runner<'a> {
    fn new(args: &'a Args) -> Result<Self, String> {
        let manifest = Manifest::read(&args.bundle.join("manifest.json"))?;
        let at = |what: &str, e: std::io::Error| {
            format!("cannot {what} `{}`: {e}", args.report.display())
        };
        fs::create_dir_all(&args.report).map_err(|e| at("make", e))?;
        let log = File::create(args.report.join("output.log")).map_err(|e| at("write to", e))?;
        let device = machine::device();
        let report = Report {
            schema: report::SCHEMA,
            date: machine::now(),
            commit: manifest.commit.clone(),
            fingerprint: manifest.fingerprint.clone(),
            has_gpu: device.is_some(),
            restricted_by: restrictions(args),
            device: device.unwrap_or_default(),
            ..Report::default()
        };
        Ok(Self {
            args,
            manifest,
            has_gpu: report.has_gpu,
            report,
            log,
            findings: Vec::new(),
        })
    }

    /// True where nothing failed.
    fn run(&mut self) -> Result<bool, String> {
        println!("{}", self.report.device);
        if !self.has_gpu {
            println!("no NVIDIA GPU: tests that need one will show as ignored");
        }
        let all = self.args.what == What::All;
        for what in [What::Tests, What::Sanitize, What::Bench, What::Train] {
            if all || self.args.what == what {
                self.section(what)?;
            }
        }
        self.write()?;
        println!();
        if let Some(table) = side_by_side::render(&self.report.bench) {
            println!("{table}");
        }
        for (section, tally) in self.report.tallies() {
            println!("{section:<10} {tally}");
        }
        println!("report: {}", self.args.report.join("report.md").display());
        Ok(self
            .report
            .tallies()
            .iter()
            .all(|(_, tally)| tally.failed == 0))
    }

    fn section(&mut self, what: What) -> Result<(), String> {
        let plan = self.manifest.plan.clone();
        match what {
            What::Tests => {
                for program in self.programs(Kind::Test) {
                    let mut without = plan.tests.without_gpu.iter();
                    let asked = self.args.only.is_some();
                    if self.has_gpu && !asked && without.any(|part| program.name.contains(part)) {
                        println!(
                            "\n{0}: left out, as it asks for no GPU; `--only {0}` runs it",
                            program.name
                        );
                        continue;
                    }
                    let limit = plan.tests.limit_s;
                    self.program(
                        Section::Tests,
                        &program,
                        "",
                        self.test_command(&program),
                        limit,
                    )?;
                }
            }
            What::Sanitize => self.sanitize(&plan)?,
            What::Bench => {
                for program in self.programs(Kind::Bench) {
                    let mut command = self.command(&program);
                    command.arg("--bench");
                    self.program(Section::Bench, &program, "", command, plan.bench.limit_s)?;
                }
                self.peers(&plan.peers)?;
            }
            What::Train => {
                for program in self.programs(Kind::Example) {
                    for entry in plan.train_runs(&program.name) {
                        let mut command = self.command(&program);
                        let folder = self.folder_of(&program).display().to_string();
                        command.args(
                            entry
                                .arguments
                                .iter()
                                .map(|a| a.replace("{report}", &folder)),
                        );
                        let with = entry.arguments.join(" ");
                        self.program(Section::Train, &program, &with, command, entry.limit_s)?;
                    }
                }
            }
            What::All => {}
        }
        Ok(())
    }

    fn sanitize(&mut self, plan: &Plan) -> Result<(), String> {
        if !self.has_gpu {
            println!("\ncompute-sanitizer: not run, as there is no GPU");
            return Ok(());
        }
        let Some(sanitizer) = machine::compute_sanitizer() else {
            println!(
                "\ncompute-sanitizer: not installed (it comes with the CUDA toolkit); not run"
            );
            return Ok(());
        };
        let wanted = |entry: &&Sanitize| {
            let tool = self.args.tool.as_ref();
            tool.is_none_or(|tool| *tool == entry.tool)
        };
        for entry in plan.sanitize.iter().filter(wanted) {
            for program in self
                .programs(Kind::Test)
                .into_iter()
                .filter(|p| entry.covers(&p.name))
            {
                let tests = self.test_command(&program);
                let mut command = Command::new(&sanitizer);
                command
                    .args(["--tool", &entry.tool, "--error-exitcode", "99"])
                    .args(&entry.options);
                command.arg(tests.get_program()).args(tests.get_args());
                command.args(entry.skip.iter().flat_map(|test| ["--skip", test]));
                for (name, value) in tests
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?)))
                {
                    command.env(name, value);
                }
                command
                    .envs(&entry.environment)
                    .current_dir(&self.args.bundle);
                self.program(
                    Section::Sanitizer,
                    &program,
                    &entry.tool,
                    command,
                    entry.limit_s,
                )?;
                self.judge(entry)?;
            }
        }
        Ok(())
    }

    /// Findings in the kernels of NVIDIA's libraries alone are told, and are no failure of ours.
    fn judge(&mut self, entry: &Sanitize) -> Result<(), String> {
        let Some(run) = self.report.section_mut(Section::Sanitizer).last_mut() else {
            return Ok(());
        };
        let tests_pass = run.tests.iter().all(|test| test.outcome != Outcome::Failed);
        let forgiven = findings::only_in(&entry.library_kernels, &self.findings);
        if let (Outcome::Failed, true, Some(count)) = (run.outcome, tests_pass, forgiven) {
            run.outcome = Outcome::Ok;
            run.note = Some(format!(
                "{count} findings, all in kernels of NVIDIA's libraries ({}*)",
                entry.library_kernels.join("*, ")
            ));
            println!("  ok: {}", run.note.as_deref().unwrap_or_default());
            self.write()?;
        }
        Ok(())
    }

    /// After ours, on the same machine in the same state.
    fn peers(&mut self, peers: &[Peer]) -> Result<(), String> {
        if peers.is_empty() {
            return Ok(());
        }
        if !self.has_gpu {
            println!("\npeers: not run, as there is no GPU");
            return Ok(());
        }
        let Some(python) = machine::python() else {
            println!("\npeers: not run, as there is no python3 (`FOXHUNT_PYTHON` may name one)");
            return Ok(());
        };
        for peer in peers {
            let script = Program {
                name: peer.name(),
                kind: Kind::Bench,
                file: format!("peers/{}", peer.script),
            };
            if !self.wants(&script.name) {
                continue;
            }
            let mut command = Command::new(&python);
            command
                // Unbuffered: of a script that is stopped, what it had is kept. No folder of bytecode in the bundle.
                .args(["-u", "-B"])
                .arg(self.args.bundle.join(&script.file))
                .args(&peer.arguments)
                .current_dir(&self.args.bundle)
                .env("FOXHUNT_REPORT_DIR", self.folder_of(&script));
            let with = peer.arguments.join(" ");
            self.program(Section::Bench, &script, &with, command, peer.limit_s)?;
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        let only = self.args.only.as_ref();
        only.is_none_or(|only| name.contains(only))
    }

    fn programs(&self, kind: Kind) -> Vec<Program> {
        let wanted = |program: &&Program| self.wants(&program.name);
        self.manifest
            .programs
            .iter()
            .filter(|p| p.kind == kind)
            .filter(wanted)
            .cloned()
            .collect()
    }

    fn command(&self, program: &Program) -> Command {
        let mut command = Command::new(self.args.bundle.join(&program.file));
        command
            .current_dir(&self.args.bundle)
            .env("FOXHUNT_REPORT_DIR", self.folder_of(program));
        // With a GPU at hand, "ignored" would be a wrong answer.
        if self.has_gpu && std::env::var_os("FOXHUNT_REQUIRE_GPU").is_none() {
            command.env("FOXHUNT_REQUIRE_GPU", "1");
        }
        command
    }

    /// One after another: each may fill the GPU's memory, and the times mean something.
    fn test_command(&self, program: &Program) -> Command {
        let mut command = self.command(program);
        command
            .args(["--test-threads=1", "--color=never"])
            .args(&self.args.filter);
        command
    }

    /// Where a program may leave files of its own.
    fn folder_of(&self, program: &Program) -> PathBuf {
        let folder = self.args.report.join(program.name.replace('/', "-"));
        std::path::absolute(&folder).unwrap_or(folder)
    }

    /// Runs one program, prints what its lines say, and adds the result to the report, which is written at once: a run
    /// that is cut off leaves what it had.
    fn program(
        &mut self,
        section: Section,
        program: &Program,
        with: &str,
        mut command: Command,
        limit_s: u64,
    ) -> Result<(), String> {
        let title = if with.is_empty() {
            program.name.clone()
        } else {
            format!("{} ({with})", program.name)
        };
        println!("\n{title}");
        let cannot_log = |e: std::io::Error| format!("cannot write the log of {title}: {e}");
        writeln!(self.log, "==== {title}").map_err(cannot_log)?;
        // Empty folders are removed below; a program need not make its own.
        let folder = self.folder_of(program);
        fs::create_dir_all(&folder)
            .map_err(|e| format!("cannot make `{}`: {e}", folder.display()))?;

        let mut lines = test_lines::TestLines::new();
        let limit = Duration::from_secs(self.args.limit.unwrap_or(limit_s));
        let log = &mut self.log;
        let findings = &mut self.findings;
        findings.clear();
        let ended = process::run(&mut command, limit, |line| {
            findings.extend(findings::of_line(line));
            // A log that cannot be written any more does not stop the run; the report says what happened.
            let _ = writeln!(log, "{line}");
            if let Some(progress) = lines.line(line) {
                println!("  {progress}");
            }
        })
        .map_err(|e| format!("cannot run `{}`: {e}", command.get_program().display()))?;
        let _ = fs::remove_dir(&folder);

        let result = program_run(&program.name, with, section, &ended, lines, limit);
        println!(
            "  {} in {:.1} s{}",
            result.outcome,
            result.seconds,
            result
                .note
                .as_ref()
                .map_or(String::new(), |n| format!(": {n}"))
        );
        self.report.section_mut(section).push(result);
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        self.report.write(&self.args.report.join("report.json"))?;
        let text = markdown::render(&self.report, &files_left(&self.args.report));
        let path = self.args.report.join("report.md");
        fs::write(&path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
    }
}

/// The options that leave something out.
fn restrictions(args: &Args) -> String {
    let only = args.only.as_ref().map(|only| format!("--only {only}"));
    let filter = args
        .filter
        .as_ref()
        .map(|filter| format!("--filter {filter}"));
    Vec::from_iter(only.into_iter().chain(filter)).join(" ")
}

fn program_run(
    name: &str,
    with: &str,
    section: Section,
    ended: &Ended,
    lines: test_lines::TestLines,
    limit: Duration,
) -> ProgramRun {
    let told = lines.finish();
    let (outcome, note) = match ended.exit {
        None => (
            Outcome::TimedOut,
            Some(format!("stopped after {} s", limit.as_secs())),
        ),
        // It could measure nothing; where it measured a part, the reason stays in its output.
        Some(status) if status.success() && told.figures.is_empty() && told.skipped.is_some() => {
            (Outcome::Ignored, told.skipped.clone())
        }
        Some(status) if status.success() => (Outcome::Ok, None),
        Some(status) => {
            // Failing tests say what is wrong; a program that broke off has its last words instead.
            let named = told
                .tests
                .iter()
                .any(|test| test.outcome == Outcome::Failed);
            let note = if named {
                status.to_string()
            } else {
                format!("{status}: {}", told.last_words())
            };
            (Outcome::Failed, Some(note))
        }
    };
    let output = if matches!(section, Section::Bench | Section::Train) {
        told.output
    } else {
        Vec::new()
    };
    ProgramRun {
        program: name.into(),
        with: with.into(),
        outcome,
        seconds: ended.seconds,
        note,
        tests: told.tests,
        figures: told.figures,
        output,
    }
}

/// What programs left in their folders, by path from the report's.
fn files_left(report: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let folders = fs::read_dir(report)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_dir());
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            files.push(format!("{name}/{}", file.file_name().to_string_lossy()));
        }
    }
    files.sort();
    files
}
