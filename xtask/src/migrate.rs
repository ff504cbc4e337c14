//! `cargo xtask migrate`: reads a tree, plans, asks, writes, tells.
//!
//! The order is what makes a run safe: everything that can refuse comes before the first byte is written, and the report is
//! printed once it is true.

mod ask_compiler;
mod output;
mod why;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};

use codemod::plan::{Change, Examined, Plan};
use codemod::record::RecordKind;
use codemod::report::Report;
use codemod::verify::Evidence;
use codemod::walk::{self, FileKind, Tree, WalkOptions};
use codemod::{diff, stage, syntax};

use crate::catalog::{self, Migration};
use crate::cli::MigrateArguments;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{engine, interactive, root};
use output::Output;

/// So many files are named of a tree that is not clean; `git status` names them all.
const MOST_DIRTY: usize = 10;

/// What plans a run: the engine, or in tests something smaller.
pub trait Planner {
    /// Computes what would change. `evidence` is what the compiler said of the plans of earlier rounds, oldest first.
    fn plan(
        &self,
        tree: &Tree,
        evidence: &[Evidence],
        progress: &Progress,
    ) -> Result<Plan, Failure>;
}

/// How a run ended that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done = 0,
    WouldChange = 1,
    Unresolved = 2,
}

pub fn run(arguments: &MigrateArguments) -> Result<ExitCode, Failure> {
    let mut output = Output::of_process();
    let all = catalog::read(arguments.migrations.as_deref())?;
    if arguments.list {
        return output
            .print(catalog::list(&all)?)
            .map(|()| ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.explain {
        return output
            .print(catalog::explain(&all, name)?)
            .map(|()| ExitCode::SUCCESS);
    }
    let migrations = catalog::select(&all, &arguments.ids)?;
    let planner = engine::Engine::new(&migrations, arguments)?;
    let working_directory = env::current_dir()
        .map_err(|error| Failure::new(format!("cannot find the working directory: {error}")))?;
    let root = root::find(arguments.root.as_deref(), &working_directory)?;
    let session = Session {
        arguments,
        migrations: &migrations,
        root: &root,
        working_directory: &working_directory,
        planner: &planner,
    };
    let outcome = session.run(&mut output, &mut io::stdin().lock())?;
    Ok(ExitCode::from(outcome as u8))
}

/// One run on one tree.
struct Session<'a> {
    arguments: &'a MigrateArguments,
    migrations: &'a [&'a Migration],
    root: &'a Path,
    working_directory: &'a Path,
    planner: &'a dyn Planner,
}

impl Session<'_> {
    fn run(
        &self,
        output: &mut Output<'_>,
        input: &mut dyn io::BufRead,
    ) -> Result<Outcome, Failure> {
        if let Some(page) = &self.arguments.report {
            output::refuse_page(&self.working_directory.join(page))?;
        }
        let writes = !(self.arguments.check || self.arguments.diff || self.arguments.why.is_some());
        self.settle_earlier_run(writes, output)?;
        if writes {
            // Once more below, with what is to be written; but nobody wants to wait for a plan to hear of this.
            self.refuse_dirty(&[])?;
        }
        let progress = Progress::start("reading");
        let tree = self.read_tree()?;
        progress.say("planning");
        let mut plan = self.planner.plan(&tree, &[], &progress)?;
        if let Some(place) = &self.arguments.why {
            drop(progress);
            let file = why::file_in_tree(place, self.root, self.working_directory)?;
            output.print(why::explain(&plan, &tree, &file, place.line)?)?;
            return Ok(Outcome::Done);
        }
        if self.arguments.verify {
            ask_compiler::verify(self, &tree, &mut plan, &progress)?;
        }
        drop(progress);
        refuse_unparsable(&plan.changes)?;
        if self.arguments.interactive {
            ask_person(&mut plan, output, input)?;
            refuse_unparsable(&plan.changes)?;
        }
        let n_unresolved = Report::from(&plan).tally().unresolved;
        let refused = self.arguments.strict && n_unresolved > 0;
        if writes && !refused {
            self.refuse_dirty(&plan.changes)?;
            let _progress = Progress::start("writing");
            stage::commit(self.root, &plan.changes)
                .map_err(|error| Failure::new(error.to_string()).hint(error.hint()))?;
        }
        match self.tell(&plan, output) {
            // The files are what they are to be; only nobody knows.
            Err(failure) if writes && !refused => {
                output.say(&failure.hint("the files were written").to_string());
                return Ok(Outcome::Unresolved);
            }
            told => told?,
        }
        if refused {
            let sites = if n_unresolved == 1 {
                "1 site is".to_owned()
            } else {
                format!("{n_unresolved} sites are")
            };
            return Err(Failure::new(format!(
                "{sites} left to you; nothing was written, as `--strict` asks for"
            ))
            .hint("see to them, or run without `--strict`"));
        }
        Ok(
            match (
                self.arguments.check && !plan.changes.is_empty(),
                n_unresolved,
            ) {
                (true, _) => Outcome::WouldChange,
                (false, 0) => Outcome::Done,
                (false, _) => Outcome::Unresolved,
            },
        )
    }

    /// A run that was killed is undone before another one writes; until then nobody can say what the tree is.
    fn settle_earlier_run(&self, writes: bool, output: &mut Output<'_>) -> Result<(), Failure> {
        let fail = |error: stage::StageError| Failure::new(error.to_string()).hint(error.hint());
        if !writes {
            return match stage::pending(self.root).map_err(fail)? {
                Some(pending) => Err(Failure::new(format!(
                    "a run before this one did not come to its end; its journal is `{}`",
                    pending.journal.display()
                ))
                .details(pending.files)
                .hint(
                    "run without `--check`, `--diff` and `--why`; that puts the files back first",
                )),
                None => Ok(()),
            };
        }
        if let Some(rolled_back) = stage::roll_back(self.root).map_err(fail)? {
            let n_files = rolled_back.restored.len();
            output.say(&format!(
                "put back {n_files} files of a run that did not come to its end"
            ));
        }
        Ok(())
    }

    fn refuse_dirty(&self, changes: &[Change]) -> Result<(), Failure> {
        if self.arguments.allow_dirty {
            return Ok(());
        }
        let touched: Vec<&str> = changes.iter().map(Change::path).collect();
        let found =
            stage::guard(self.root, &touched).map_err(|error| Failure::new(error.to_string()))?;
        if !found.under_version_control {
            return Err(Failure::new(format!(
                "`{}` is not under version control; nothing was written",
                self.root.display()
            ))
            .hint("commit it first, so that everything can be undone, or pass `--allow-dirty`"));
        }
        if found.dirty.is_empty() {
            return Ok(());
        }
        let files = if found.dirty.len() == 1 {
            "1 file has".to_owned()
        } else {
            format!("{} files have", found.dirty.len())
        };
        let shown = found
            .dirty
            .iter()
            .take(MOST_DIRTY)
            .map(|file| format!("{} ({})", file.path, file.state.describe()));
        let more = found.dirty.len().saturating_sub(MOST_DIRTY);
        Err(
            Failure::new(format!("{files} uncommitted changes; nothing was written"))
                .details(shown)
                .details((more > 0).then(|| format!("… and {more} more")))
                .hint("commit them, or pass `--allow-dirty`"),
        )
    }

    fn read_tree(&self) -> Result<Tree, Failure> {
        let options = WalkOptions {
            include_ignored: self.arguments.include_ignored,
            exclude: self.arguments.exclude.clone(),
            jobs: self.arguments.jobs,
        };
        let tree = walk::read_tree(self.root, &options)
            .map_err(|error| Failure::new(error.to_string()))?;
        self.refuse_part_of_package(&tree)?;
        Ok(tree)
    }

    /// Below a package's folder nothing says what its files belong to.
    fn refuse_part_of_package(&self, tree: &Tree) -> Result<(), Failure> {
        let has_manifest = tree
            .files()
            .iter()
            .any(|file| file.kind == FileKind::Manifest);
        let package = self
            .root
            .ancestors()
            .skip(1)
            .find(|folder| folder.join("Cargo.toml").is_file());
        match package {
            Some(package) if !has_manifest => Err(Failure::new(format!(
                "there is no `Cargo.toml` in `{}` or below it",
                self.root.display()
            ))
            .hint(format!("it is a part of `--root {}`", package.display()))),
            _ => Ok(()),
        }
    }

    fn tell(&self, plan: &Plan, output: &mut Output<'_>) -> Result<(), Failure> {
        let report = Report::from(plan);
        if let Some(examined) = &plan.examined {
            output.say(&describe(examined));
        }
        if let Some(path) = &self.arguments.report {
            output::write_page(&report, &self.title(), &self.working_directory.join(path))?;
        }
        let text = output::render(
            &report,
            self.arguments.message_format,
            output.color(self.arguments.diff),
        );
        if !self.arguments.diff {
            return output.print(text);
        }
        // Standard output is the patch and nothing else, so that it can be piped into git.
        let patch = diff::patch(&plan.changes, |path| {
            output::is_executable(&self.root.join(path))
        });
        output.print_patch(&patch)?;
        output.say(text.trim_end());
        Ok(())
    }

    fn title(&self) -> String {
        let ids: Vec<&str> = self
            .migrations
            .iter()
            .map(|migration| migration.id.as_str())
            .collect();
        let name = self
            .root
            .file_name()
            .unwrap_or(self.root.as_os_str())
            .to_string_lossy();
        format!("{name}: {}", ids.join(", "))
    }
}

/// What an exhaustive run looked at, for people.
fn describe(examined: &Examined) -> String {
    let Examined {
        resolved,
        without_target,
        unparsable,
        not_utf8,
    } = examined;
    let mut text = format!(
        "{resolved} files parsed and resolved, {without_target} of them in no target; {} do not parse, {} are not UTF-8",
        unparsable.len(),
        not_utf8.len()
    );
    for (path, reason) in unparsable {
        text.push_str(&format!("\n  {path}: {reason}"));
    }
    for path in not_utf8 {
        text.push_str(&format!("\n  {path}: not UTF-8"));
    }
    text
}

/// Takes out of the plan what is declined.
fn ask_person(
    plan: &mut Plan,
    output: &mut Output<'_>,
    input: &mut dyn io::BufRead,
) -> Result<(), Failure> {
    let color = output.color(true);
    let changes = std::mem::take(&mut plan.changes);
    let paths: Vec<String> = changes
        .iter()
        .map(|change| change.path().to_owned())
        .collect();
    let chosen = interactive::choose(changes, input, output.questions(), color)
        .map_err(|error| Failure::new(format!("cannot ask: {error}; nothing was written")))?;
    plan.records.retain(|record| chosen.holds(record));
    plan.records
        .extend(paths.iter().filter_map(|path| chosen.declined(path)));
    tidy(plan);
    // Where a part of a file is declined, its lines end up elsewhere.
    for record in &mut plan.records {
        if !chosen.is_whole(&record.file) {
            record.line_after = None;
        }
    }
    plan.unchanged += chosen.n_declined;
    plan.changes = chosen.changes;
    Ok(())
}

/// No file that could be parsed becomes one that cannot: that would be a fault of the migration, and is found here.
fn refuse_unparsable(changes: &[Change]) -> Result<(), Failure> {
    // The parser is recursive, and a stack that overflows takes the process with it.
    syntax::on_big_stack(|| parse_results(changes))
}

fn parse_results(changes: &[Change]) -> Result<(), Failure> {
    let mut broken = Vec::new();
    for change in changes {
        let Change::Write {
            path,
            before,
            after,
        } = change
        else {
            continue;
        };
        if !path.ends_with(".rs") {
            continue;
        }
        let parse = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => syntax::parse(text).map(|_| ()).map_err(|error| {
                let (line, column) = syntax::LineIndex::new(text).line_column(text, error.at);
                format!("{path}:{line}:{column}: {}", error.message)
            }),
            Err(error) => Err(format!("{path}: not UTF-8 at byte {}", error.valid_up_to())),
        };
        if let Err(message) = parse(after)
            && parse(before).is_ok()
        {
            broken.push(message);
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let files = if broken.len() == 1 {
        "1 file".to_owned()
    } else {
        format!("{} files", broken.len())
    };
    Err(Failure::new(format!("{files} would not parse afterwards; nothing was written"))
        .details(broken)
        .hint("this is a fault of the migration: please report it, and leave the file out with `--exclude` until then"))
}

/// Where the copy for the compiler is kept: below this repository's build folder, which the tree does not see.
fn scratch_home(root: &Path) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    let name = root
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let target = match (env::var_os("CARGO_TARGET_DIR"), crate::repository()) {
        (Some(target), _) => PathBuf::from(target),
        (None, Ok(repository)) => repository.join("target"),
        (None, Err(_)) => root.join("target"),
    };
    target
        .join("migrate")
        .join(format!("{name}-{:016x}", hasher.finish()))
}

/// Sorts the records as the report wants them, each once.
fn tidy(plan: &mut Plan) {
    plan.records
        .sort_by(|a, b| (a.sort_key(), &a.reason).cmp(&(b.sort_key(), &b.reason)));
    plan.records.dedup();
    debug_assert!(
        plan.records
            .iter()
            .all(|record| record.kind != RecordKind::Edit || !record.file.is_empty())
    );
}

#[cfg(test)]
mod tests;
