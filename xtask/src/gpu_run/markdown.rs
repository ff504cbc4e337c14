//! The report as a person reads it.

use std::fmt::Write;

use super::report::{Outcome, ProgramRun, Report};
use super::side_by_side;

/// Renders the whole report; `files` are what programs left beside it, by path from its folder.
pub fn render(report: &Report, files: &[String]) -> String {
    let mut out = String::from("# GPU run\n\n");
    line(&mut out, &format!("* Device: {}", report.device));
    line(&mut out, &format!("* Date: {}", report.date));
    line(
        &mut out,
        &format!(
            "* Commit: {}",
            report.commit.as_deref().unwrap_or("unknown")
        ),
    );
    let sources = report.fingerprint.files.len();
    line(
        &mut out,
        &format!(
            "* Sources: {sources}, fingerprint `{}`",
            report.fingerprint.sha256
        ),
    );
    out.push_str("\n| section | ok | failed | ignored |\n|---|---:|---:|---:|\n");
    for (section, tally) in report.tallies() {
        line(
            &mut out,
            &format!(
                "| {section} | {} | {} | {} |",
                tally.ok, tally.failed, tally.ignored
            ),
        );
    }
    failures(&mut out, report);
    if let Some(table) = side_by_side::render(&report.bench) {
        line(&mut out, &format!("\n## Side by side\n\n{table}"));
    }
    section(&mut out, "Tests", &report.tests);
    section(&mut out, "compute-sanitizer", &report.sanitizer);
    section(&mut out, "Benches", &report.bench);
    section(&mut out, "Training", &report.train);
    if !files.is_empty() {
        out.push_str("\n## Files\n\n");
        for file in files {
            line(&mut out, &format!("* [{file}]({file})"));
        }
    }
    out
}

/// What a reader looks for first.
fn failures(out: &mut String, report: &Report) {
    let runs = [
        &report.tests,
        &report.sanitizer,
        &report.bench,
        &report.train,
    ]
    .into_iter()
    .flatten();
    let failed: Vec<&ProgramRun> = runs
        .filter(|run| !matches!(run.outcome, Outcome::Ok | Outcome::Ignored))
        .collect();
    if failed.is_empty() {
        return;
    }
    out.push_str("\n## Failures\n");
    for run in failed {
        line(out, &format!("\n### {}: {}\n", title(run), run.outcome));
        for test in run
            .tests
            .iter()
            .filter(|test| test.outcome == Outcome::Failed)
        {
            line(out, &format!("* `{}`", test.name));
            fenced(out, test.message.as_deref().unwrap_or(""));
        }
        fenced(out, run.note.as_deref().unwrap_or(""));
    }
}

fn section(out: &mut String, heading: &str, runs: &[ProgramRun]) {
    if runs.is_empty() {
        return;
    }
    line(out, &format!("\n## {heading}"));
    for run in runs {
        line(
            out,
            &format!(
                "\n### {}\n\n{} in {:.1} s{}",
                title(run),
                run.outcome,
                run.seconds,
                match (run.outcome, &run.note) {
                    (Outcome::Ignored, Some(reason)) => format!(": {reason}"),
                    _ => String::new(),
                }
            ),
        );
        if !run.figures.is_empty() {
            out.push_str("\n| figure | value | unit | detail |\n|---|---:|---|---|\n");
            for figure in &run.figures {
                let cells = [
                    &figure.name,
                    &figure.value.to_string(),
                    &figure.unit,
                    &figure.detail,
                ]
                .map(|c| cell(c));
                line(out, &format!("| {} |", cells.join(" | ")));
            }
        }
        fenced(out, &run.output.join("\n"));
        if !run.tests.is_empty() {
            out.push_str("\n| test | result | seconds |\n|---|---|---:|\n");
            for test in &run.tests {
                let reason = match (&test.outcome, &test.message) {
                    (Outcome::Ignored, Some(reason)) => format!(": {}", cell(reason)),
                    _ => String::new(),
                };
                line(
                    out,
                    &format!(
                        "| `{}` | {}{reason} | {:.2} |",
                        cell(&test.name),
                        test.outcome,
                        test.seconds
                    ),
                );
            }
        }
    }
}

fn title(run: &ProgramRun) -> String {
    if run.with.is_empty() {
        run.program.clone()
    } else {
        format!("{} ({})", run.program, run.with)
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn fenced(out: &mut String, text: &str) {
    if !text.is_empty() {
        line(out, &format!("\n````text\n{text}\n````"));
    }
}

/// A bar would end the cell, a line break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::report::{Figure, TestResult};
    use super::*;

    #[test]
    fn failures_come_first_and_tables_hold_everything() {
        let mut report = Report::example();
        report.tests[0].tests[1] = TestResult {
            name: "per::b".into(),
            outcome: Outcome::Failed,
            seconds: 1.0,
            message: Some("index 3:\n1 is not 2".into()),
        };
        report.tests[0].figures.push(Figure {
            name: "per_sample".into(),
            value: 17.9,
            unit: "us".into(),
            detail: "a | b".into(),
        });
        let text = render(&report, &["ml-example-cartpole/curve.svg".into()]);
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("no `{part}` in\n{text}"))
        };
        assert!(at("## Failures") < at("## Tests"));
        assert!(at("index 3:\n1 is not 2") < at("## Tests"));
        at("NVIDIA H200 (compute capability 9.0, 143771 MiB, driver 580.159.03, CUDA 13.0)");
        at("| tests | 1 | 1 | 1 |");
        at("| per_sample | 17.9 | us | a \\| b |");
        at("| `per::c` | ignored | 0.25 |");
        at("* [ml-example-cartpole/curve.svg](ml-example-cartpole/curve.svg)");
    }
}
