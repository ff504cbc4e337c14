//! The result of a run on a GPU machine, as it stands in `report.json` and in `tests/gpu/last-run.json`.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::gpu_status::fingerprint::Fingerprint;

/// Changes with the meaning of a field.
pub const SCHEMA: u32 = 1;

/// A run, or several of the same sources on the same device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    /// UTC, as `2026-11-30T14:42:37Z`.
    pub date: String,
    pub has_gpu: bool,
    pub device: Device,
    /// The options that left something out, such as `--filter scan`; empty for a full run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub restricted_by: String,
    /// The commit that the bundle was built from; ends in `+` where the tree had changes on top.
    pub commit: Option<String>,
    pub fingerprint: Fingerprint,
    #[serde(default)]
    pub tests: Vec<ProgramRun>,
    #[serde(default)]
    pub sanitizer: Vec<ProgramRun>,
    #[serde(default)]
    pub bench: Vec<ProgramRun>,
    #[serde(default)]
    pub train: Vec<ProgramRun>,
}

/// What `nvidia-smi` says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub name: String,
    pub compute_capability: String,
    pub memory: String,
    pub driver: String,
    /// The newest CUDA version that the driver knows.
    pub cuda: String,
}

/// A part of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Tests,
    Sanitizer,
    Bench,
    Train,
}

/// A program that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramRun {
    /// `ml-dqn/test/gpu`
    pub program: String,
    /// The sanitizer's tool, or the arguments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub with: String,
    pub outcome: Outcome,
    pub seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// The last lines of what a bench or an example printed: their tables are not told apart here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    pub outcome: Outcome,
    pub seconds: f64,
    /// Why it was ignored, or what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A measured number that a program printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: String,
    /// Sizes, and how it was measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    Failed,
    Ignored,
    TimedOut,
}

/// How many of a section went how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub ok: usize,
    pub failed: usize,
    pub ignored: usize,
}

impl Report {
    /// # Errors
    /// A sentence with the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        let report: Self = serde_json::from_str(&text)
            .map_err(|e| format!("`{}` is no report: {e}", path.display()))?;
        if report.schema != SCHEMA {
            return Err(format!(
                "`{}` has schema {}, this tree reads {SCHEMA}",
                path.display(),
                report.schema
            ));
        }
        Ok(report)
    }

    /// # Errors
    /// A sentence with the path.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| format!("cannot write the report: {e}"))?;
        fs::write(path, text + "\n").map_err(|e| format!("cannot write `{}`: {e}", path.display()))
    }

    /// The sections that hold something, with their results.
    pub fn tallies(&self) -> Vec<(&'static str, Tally)> {
        let sections = [
            ("tests", &self.tests),
            ("sanitizer", &self.sanitizer),
            ("bench", &self.bench),
            ("train", &self.train),
        ];
        let filled = sections.into_iter().filter(|(_, runs)| !runs.is_empty());
        filled.map(|(name, runs)| (name, Tally::of(runs))).collect()
    }

    pub fn section_mut(&mut self, section: Section) -> &mut Vec<ProgramRun> {
        match section {
            Section::Tests => &mut self.tests,
            Section::Sanitizer => &mut self.sanitizer,
            Section::Bench => &mut self.bench,
            Section::Train => &mut self.train,
        }
    }

    /// Sections that were not run, or not in full: what keeps this from being a full run.
    pub fn missing(&self) -> Vec<String> {
        let sections = [
            ("tests", &self.tests),
            ("sanitizer", &self.sanitizer),
            ("bench", &self.bench),
            ("train", &self.train),
        ];
        let empty = sections.into_iter().filter(|(_, runs)| runs.is_empty());
        let mut missing: Vec<String> = empty.map(|(name, _)| name.to_owned()).collect();
        if !self.restricted_by.is_empty() {
            missing.push(format!("what `{}` left out", self.restricted_by));
        }
        missing
    }

    /// This report and a later one of the same sources: of a program in both, the later run counts.
    ///
    /// # Errors
    /// Where they do not speak for the same sources, or come from different devices.
    pub fn joined_with(mut self, later: Self) -> Result<Self, String> {
        if self.fingerprint != later.fingerprint {
            return Err(format!(
                "this report speaks for other sources ({}) than the one before ({})",
                later.fingerprint.short(),
                self.fingerprint.short()
            ));
        }
        if self.device != later.device {
            return Err(format!(
                "this report is of {}, the one before of {}",
                later.device, self.device
            ));
        }
        let sections = [
            (&mut self.tests, later.tests),
            (&mut self.sanitizer, later.sanitizer),
            (&mut self.bench, later.bench),
            (&mut self.train, later.train),
        ];
        for (before, runs) in sections {
            before.retain(|old| {
                !runs
                    .iter()
                    .any(|new| new.program == old.program && new.with == old.with)
            });
            before.extend(runs);
        }
        self.date = self.date.max(later.date);
        if self.restricted_by.is_empty() {
            self.restricted_by = later.restricted_by;
        }
        Ok(self)
    }

    #[cfg(test)]
    pub fn example() -> Self {
        let test = |name: &str, outcome| TestResult {
            name: name.into(),
            outcome,
            seconds: 0.25,
            message: None,
        };
        Self {
            schema: SCHEMA,
            date: "2026-11-30T14:42:37Z".into(),
            has_gpu: true,
            device: Device {
                name: "NVIDIA H200".into(),
                compute_capability: "9.0".into(),
                memory: "143771 MiB".into(),
                driver: "580.159.03".into(),
                cuda: "13.0".into(),
            },
            tests: vec![ProgramRun {
                program: "ml-dqn/test/gpu".into(),
                with: String::new(),
                outcome: Outcome::Failed,
                seconds: 3.5,
                note: None,
                tests: vec![
                    test("per::a", Outcome::Ok),
                    test("per::b", Outcome::Failed),
                    test("per::c", Outcome::Ignored),
                ],
                figures: vec![],
                output: vec![],
            }],
            ..Self::default()
        }
    }
}

impl Tally {
    /// Tests count one by one; a program without tests, or one that broke off, counts itself.
    pub fn of(runs: &[ProgramRun]) -> Self {
        let mut tally = Self::default();
        for run in runs {
            let before = tally.failed;
            for test in &run.tests {
                tally.add(test.outcome);
            }
            let told = tally.failed > before;
            if run.tests.is_empty() || (run.outcome != Outcome::Ok && !told) {
                tally.add(run.outcome);
            }
        }
        tally
    }

    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Failed | Outcome::TimedOut => self.failed += 1,
            Outcome::Ignored => self.ignored += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ok, {} failed, {} ignored",
            self.ok, self.failed, self.ignored
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Ignored => "ignored",
            Self::TimedOut => "TIMED OUT",
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            return f.write_str("no GPU");
        }
        write!(
            f,
            "{} (compute capability {}, {}, driver {}, CUDA {})",
            self.name, self.compute_capability, self.memory, self.driver, self.cuda
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        Report::example().write(file.path()).unwrap();
        assert_eq!(Report::read(file.path()).unwrap(), Report::example());
    }

    #[test]
    fn a_report_of_another_schema_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let report = Report {
            schema: SCHEMA + 1,
            ..Report::example()
        };
        report.write(file.path()).unwrap();
        assert!(Report::read(file.path()).unwrap_err().contains("schema 2"));
    }

    #[test]
    fn tests_count_one_by_one_and_broken_programs_themselves() {
        let mut report = Report::example();
        assert_eq!(
            report.tallies(),
            [(
                "tests",
                Tally {
                    ok: 1,
                    failed: 1,
                    ignored: 1
                }
            )]
        );
        // It broke off without a test that failed.
        report.tests[0].tests.remove(1);
        assert_eq!(
            report.tallies(),
            [(
                "tests",
                Tally {
                    ok: 1,
                    failed: 1,
                    ignored: 1
                }
            )]
        );
        report.tests[0].tests.clear();
        report.tests[0].outcome = Outcome::Ok;
        assert_eq!(
            report.tallies(),
            [(
                "tests",
                Tally {
                    ok: 1,
                    failed: 0,
                    ignored: 0
                }
            )]
        );
    }

    #[test]
    fn what_a_run_lacks_is_told() {
        let mut report = Report::example();
        assert_eq!(report.missing(), ["sanitizer", "bench", "train"]);
        for section in [Section::Sanitizer, Section::Bench, Section::Train] {
            *report.section_mut(section) = report.tests.clone();
        }
        assert!(report.missing().is_empty());
        report.restricted_by = "--filter scan".into();
        assert_eq!(report.missing(), ["what `--filter scan` left out"]);
    }

    #[test]
    fn of_a_program_in_two_reports_the_later_run_counts() {
        let mut later = Report::example();
        later.date = "2026-12-01T00:00:00Z".into();
        later.tests[0].outcome = Outcome::Ok;
        later.bench = later.tests.clone();
        let joined = Report::example().joined_with(later.clone()).unwrap();
        assert_eq!(joined, later);

        later.device.name = "NVIDIA H100".into();
        assert!(
            Report::example()
                .joined_with(later)
                .unwrap_err()
                .contains("NVIDIA H100")
        );
    }
}
