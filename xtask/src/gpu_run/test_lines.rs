//! Reads what test programs print, line by line: libtest's lines, libtest-mimic's (which are the same), and figures.
//!
//! A figure is a line `figure: NAME = VALUE UNIT`, with ` | DETAIL` behind it if need be, from a test, a bench or an
//! example:
//!
//! ```text
//! figure: per_sample = 17.9 us | 24,700,000 priorities, batch 16,384, median of 200
//! ```
//!
//! A line `skipped: REASON` says what was not measured, as where a package is not installed.

use std::collections::VecDeque;
use std::time::Instant;

use super::report::{Figure, Outcome, TestResult};

/// Last lines that are shown of a program that breaks off.
const LAST_LINES: usize = 12;
/// Last lines that are kept of what a program printed besides results.
const KEPT_LINES: usize = 300;
/// Of a failure's message, this many characters are kept; `output.log` has the rest.
const MESSAGE_CHARS: usize = 4000;

/// Collects the results of one program.
#[derive(Debug)]
pub struct TestLines {
    tests: Vec<TestResult>,
    figures: Vec<Figure>,
    /// A test whose name was printed and whose outcome was not: its own output came in between.
    pending: Option<String>,
    /// The failed test whose message the next lines are.
    telling: Option<usize>,
    since: Instant,
    skipped: Option<String>,
    last: VecDeque<String>,
}

/// What a program's lines came to.
#[derive(Debug)]
pub struct Told {
    pub tests: Vec<TestResult>,
    pub figures: Vec<Figure>,
    /// The reason of the first part that was skipped.
    pub skipped: Option<String>,
    /// The last lines that it printed, whatever they are.
    pub output: Vec<String>,
}

impl Told {
    /// For a program that broke off.
    pub fn last_words(&self) -> String {
        self.output[self.output.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl TestLines {
    pub fn new() -> Self {
        Self {
            tests: Vec::new(),
            figures: Vec::new(),
            pending: None,
            telling: None,
            since: Instant::now(),
            skipped: None,
            last: VecDeque::new(),
        }
    }

    /// Takes a line; gives back what is worth showing while the program runs.
    pub fn line(&mut self, line: &str) -> Option<String> {
        let line = line.trim_end();
        if !line.is_empty() {
            self.last.push_back(line.to_owned());
            if self.last.len() > KEPT_LINES {
                self.last.pop_front();
            }
        }
        if let Some(figure) = figure(line) {
            let shown = format!("{} = {} {}", figure.name, figure.value, figure.unit);
            self.figures.push(figure);
            return Some(shown);
        }
        if let Some(reason) = line.strip_prefix("skipped: ") {
            self.skipped.get_or_insert_with(|| reason.to_owned());
            return Some(line.to_owned());
        }
        if self.told(line) {
            return None;
        }
        let (name, rest) = match line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            Some((name, rest)) => (name.trim().to_owned(), rest),
            // `test x ...` with a trailing space, which was trimmed.
            None if line.starts_with("test ") && line.ends_with(" ...") => {
                (line[5..line.len() - 4].trim().to_owned(), "")
            }
            None => (self.pending.clone()?, line),
        };
        let Some((outcome, message)) = outcome(rest) else {
            self.pending = Some(name);
            return None;
        };
        self.pending = None;
        // libtest-mimic has no room for a reason but the kind: `test [no CUDA device] scan ... ignored`.
        let (name, message) = match name
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
        {
            Some((kind, name)) if outcome == Outcome::Ignored && message.is_none() => {
                let reason = kind.strip_prefix("ignored: ").unwrap_or(kind);
                (name.trim().to_owned(), Some(reason.to_owned()))
            }
            _ => (name, message),
        };
        // Tests run one after another, so the time since the last outcome is this test's.
        let seconds = self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        let shown = format!(
            "{name} ... {outcome}{}",
            message.as_ref().map_or(String::new(), |m| format!(", {m}"))
        );
        self.tests.push(TestResult {
            name,
            outcome,
            seconds: (seconds * 1000.0).round() / 1000.0,
            message,
        });
        Some(shown)
    }

    /// All of it.
    pub fn finish(mut self) -> Told {
        if let Some(name) = self.pending.take() {
            let message = Some("the program ended in this test".to_owned());
            let seconds = self.since.elapsed().as_secs_f64();
            self.tests.push(TestResult {
                name,
                outcome: Outcome::Failed,
                seconds,
                message,
            });
        }
        for message in self
            .tests
            .iter_mut()
            .filter_map(|test| test.message.as_mut())
        {
            *message = message.trim().to_owned();
        }
        Told {
            tests: self.tests,
            figures: self.figures,
            skipped: self.skipped,
            output: self.last.into(),
        }
    }

    /// Lines between `---- name ----` and the next such line or heading belong to that test's message.
    fn told(&mut self, line: &str) -> bool {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" ----"))
        {
            let name = name.strip_suffix(" stdout").unwrap_or(name);
            // The heading has no `[kind]`, and no ` - should panic`.
            let is_it =
                |test: &TestResult| test.outcome == Outcome::Failed && test.name.contains(name);
            self.telling = self.tests.iter().position(is_it);
            return true;
        }
        let Some(test) = self.telling else {
            return false;
        };
        if line == "failures:" || line == "successes:" || line.starts_with("test result:") {
            self.telling = None;
            return true;
        }
        let message = self.tests[test].message.get_or_insert_default();
        if message.chars().count() < MESSAGE_CHARS {
            message.push_str(line);
            message.push('\n');
        }
        true
    }
}

fn outcome(text: &str) -> Option<(Outcome, Option<String>)> {
    // libtest's `--report-time` adds ` <0.012s>`.
    let word = text.split(" <").next().unwrap_or(text).trim();
    match word {
        "ok" => Some((Outcome::Ok, None)),
        "FAILED" => Some((Outcome::Failed, None)),
        "ignored" => Some((Outcome::Ignored, None)),
        _ => word
            .strip_prefix("ignored, ")
            .map(|reason| (Outcome::Ignored, Some(reason.to_owned()))),
    }
}

pub fn figure(line: &str) -> Option<Figure> {
    let (name, rest) = line
        .trim_start()
        .strip_prefix("figure: ")?
        .split_once('=')?;
    let (measured, detail) = rest.split_once('|').unwrap_or((rest, ""));
    let (value, unit) = measured
        .trim()
        .split_once(' ')
        .unwrap_or((measured.trim(), ""));
    Some(Figure {
        name: name.trim().to_owned(),
        value: value.parse().ok()?,
        unit: unit.trim().to_owned(),
        detail: detail.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Test = (String, Outcome, Option<String>);

    fn read(text: &str) -> (Vec<Test>, Vec<Figure>) {
        let mut lines = TestLines::new();
        for line in text.lines() {
            lines.line(line);
        }
        let told = lines.finish();
        (
            told.tests
                .into_iter()
                .map(|t| (t.name, t.outcome, t.message))
                .collect(),
            told.figures,
        )
    }

    #[test]
    fn lines_of_both_harnesses_are_read() {
        let (tests, _) = read(
            "\nrunning 5 tests\ntest per::a           ... ok\ntest [gpu] per::b     ... ok\n\
             test [ignored: no CUDA device] per::d ... ignored\ntest per::e ... ignored, needs 8 GPUs\n\
             test plain ... ignored\ntest dies - should panic ... ok\ntest per::c ... FAILED\n\nfailures:\n\n\
             ---- per::c ----\nindex 3: 1 is not 2\n  seed 7\n\n\nfailures:\n    per::c\n\n\
             test result: FAILED. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        let expected = [
            ("per::a", Outcome::Ok, None),
            ("[gpu] per::b", Outcome::Ok, None),
            ("per::d", Outcome::Ignored, Some("no CUDA device")),
            ("per::e", Outcome::Ignored, Some("needs 8 GPUs")),
            ("plain", Outcome::Ignored, None),
            ("dies - should panic", Outcome::Ok, None),
            (
                "per::c",
                Outcome::Failed,
                Some("index 3: 1 is not 2\n  seed 7"),
            ),
        ];
        let expected = expected
            .map(|(name, outcome, message)| (name.to_owned(), outcome, message.map(str::to_owned)));
        assert_eq!(tests, expected);
    }

    #[test]
    fn output_between_name_and_outcome_does_not_hide_the_result() {
        let (tests, figures) = read(
            "test a ... hello\nfigure: speed = 3.5 GB/s | on paper\nok\ntest b ... \nFAILED\n",
        );
        assert_eq!(
            tests,
            [
                ("a".to_owned(), Outcome::Ok, None),
                ("b".to_owned(), Outcome::Failed, None)
            ]
        );
        let figure = Figure {
            name: "speed".into(),
            value: 3.5,
            unit: "GB/s".into(),
            detail: "on paper".into(),
        };
        assert_eq!(figures, [figure]);
    }

    #[test]
    fn a_program_that_breaks_off_leaves_its_last_words() {
        let mut lines = TestLines::new();
        for i in 0..40 {
            lines.line(&format!("line {i}"));
        }
        let told = lines.finish();
        assert!(told.tests.is_empty());
        let last = told.last_words();
        assert!(
            last.starts_with("line 28\n") && last.ends_with("line 39"),
            "{last}"
        );
    }

    #[test]
    fn a_test_that_takes_the_program_down_is_named() {
        let (tests, _) = read("test a ... ok\ntest b ... Segmentation fault\n");
        assert_eq!(
            tests[1],
            (
                "b".to_owned(),
                Outcome::Failed,
                Some("the program ended in this test".to_owned())
            )
        );
    }

    #[test]
    fn the_first_reason_to_skip_is_kept() {
        let mut lines = TestLines::new();
        let shown = lines.line("skipped: jax is not installed");
        assert_eq!(shown.as_deref(), Some("skipped: jax is not installed"));
        lines.line("skipped: and more");
        assert_eq!(
            lines.finish().skipped.as_deref(),
            Some("jax is not installed")
        );
    }

    #[test]
    fn what_is_no_number_is_no_figure() {
        assert_eq!(figure("figure: speed = fast"), None);
        assert_eq!(figure("a figure: speed = 1 s"), None);
        assert_eq!(
            figure("figure: ratio = 0.97").map(|f| (f.value, f.unit)),
            Some((0.97, String::new()))
        );
    }
}
