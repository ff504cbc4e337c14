//! The report for people: unresolved sites as rustc shows an error, all else in a line each, the tally last.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::Report;
use crate::record::{Record, RecordKind};

/// Whether escape sequences may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    Never,
    Always,
}

/// The whole report, ending in the tally and a line end.
///
/// Sites that need a person come last, next to the prompt: a long list of edits does not push them out of sight.
pub fn render(report: &Report<'_>, color: Color) -> String {
    let mut text = String::new();
    edits(report, &mut text);
    for record in report.of_kind(RecordKind::Deleted) {
        line(&mut text, "deleted", record);
    }
    for record in report.other_notes() {
        line(&mut text, "note", record);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for record in report.of_kind(RecordKind::Unresolved) {
        text.push_str(&site(report, record, color));
        text.push_str("\n\n");
    }
    let tally = report.tally();
    // What was declined is there to be migrated all the same.
    let declined = report
        .of_kind(RecordKind::Note)
        .any(|note| note.rule == super::DECLINED_RULE);
    if report.changes.is_empty() && tally.unresolved == 0 && !declined {
        text.push_str("nothing to migrate\n");
    }
    writeln!(text, "{tally}").expect("writing to a string");
    text
}

/// Edits are too many to tell one by one: the diff shows them, and the JSON form lists them.
fn edits(report: &Report<'_>, text: &mut String) {
    let mut n_edits: BTreeMap<&str, usize> = BTreeMap::new();
    for record in report.of_kind(RecordKind::Edit) {
        *n_edits.entry(&record.file).or_default() += 1;
    }
    for (file, n) in n_edits {
        let noun = if n == 1 { "edit" } else { "edits" };
        writeln!(text, "edited: {file}: {n} {noun}").expect("writing to a string");
    }
}

fn line(text: &mut String, what: &str, record: &Record) {
    let Record {
        file,
        line,
        column,
        reason,
        ..
    } = record;
    if record.source.is_empty() {
        writeln!(text, "{what}: {file}: {reason}").expect("writing to a string");
    } else {
        let now = record.line_after.map_or(String::new(), |line| {
            format!(" (line {line} after the run)")
        });
        writeln!(text, "{what}: {file}:{line}:{column}: {reason}{now}")
            .expect("writing to a string");
    }
    if let Some(suggestion) = &record.suggestion {
        writeln!(text, "  help: {suggestion}").expect("writing to a string");
    }
}

/// One unresolved site: why, where, its source line, and what to write instead.
fn site(report: &Report<'_>, record: &Record, color: Color) -> String {
    let title = Level::WARNING
        .with_name("unresolved")
        .primary_title(record.reason.as_str())
        .id(record.rule.as_str());
    let mut group = if record.source.is_empty() {
        let origin = Origin::path(record.file.as_str())
            .line(record.line)
            .char_column(record.column);
        Group::with_title(title).element(origin)
    } else {
        let snippet = Snippet::source(record.source.as_str())
            .line_start(record.line)
            .path(record.file.as_str())
            .annotation(AnnotationKind::Primary.span(super::span_in_line(record)));
        Group::with_title(title).element(snippet)
    };
    let now = record
        .line_after
        .map(|line| format!("line {line} after the run"));
    if let Some(now) = &now {
        group = group.element(Level::NOTE.message(now.as_str()));
    }
    for note in report.compiler_notes(record) {
        group = group.element(Level::NOTE.message(note.reason.as_str()));
    }
    if let Some(suggestion) = &record.suggestion {
        group = group.element(Level::HELP.message(suggestion.as_str()));
    }
    let renderer = match color {
        Color::Never => Renderer::plain(),
        Color::Always => Renderer::styled(),
    };
    // The line is shown whole, however wide: a cut one cannot be searched for.
    renderer.term_width(usize::MAX / 4).render(&[group])
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_report_with_one_of_each() {
        insta::assert_snapshot!(render(&Report::from(&samples::plan()), Color::Never));
    }

    #[test]
    fn all_clear() {
        let plan = Plan {
            unchanged: 252,
            ..Plan::default()
        };
        insta::assert_snapshot!(render(&Report::from(&plan), Color::Never), @r"
        nothing to migrate
        0 files changed, 0 deleted, 0 unresolved, 252 unchanged
        ");
    }

    #[test]
    fn color_is_the_only_difference() {
        let plan = samples::plan();
        let styled = render(&Report::from(&plan), Color::Always);
        assert!(styled.contains("\u{1b}["));
        let mut plain = String::new();
        for (at, part) in styled.split("\u{1b}[").enumerate() {
            plain.push_str(if at == 0 {
                part
            } else {
                part.split_once('m').map_or("", |(_, rest)| rest)
            });
        }
        assert_eq!(plain, render(&Report::from(&plan), Color::Never));
    }

    #[test]
    fn a_wide_line_is_shown_whole() {
        let text = format!("let x = [{}];\n", "old_name, ".repeat(200));
        let record = samples::record(
            RecordKind::Unresolved,
            "src/lib.rs",
            &text,
            "old_name",
            "no",
        );
        let plan = Plan {
            records: vec![record],
            ..Plan::default()
        };
        assert!(render(&Report::from(&plan), Color::Never).contains(text.trim_end()));
    }
}
