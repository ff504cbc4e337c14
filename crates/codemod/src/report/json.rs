//! The report for programs: one JSON object a line.

use serde::Serialize;

use super::{Report, Tally};
use crate::record::{Record, RecordKind};

/// Version of the shape of the lines; a field that goes or changes its meaning raises it, a new one does not.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Line<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<u32>,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct Summary {
    kind: &'static str,
    changed: usize,
    deleted: usize,
    unresolved: usize,
    unchanged: usize,
    edits: usize,
    notes: usize,
}

/// Every record in the order of the report, then one of kind `summary`; the first line also says `"schema": 1`.
pub fn render(report: &Report<'_>) -> String {
    let mut text = String::new();
    let mut schema = Some(SCHEMA);
    for record in report.records {
        push::<&Record>(&mut text, schema.take(), record);
    }
    let Tally {
        changed,
        deleted,
        unresolved,
        unchanged,
    } = report.tally();
    let edits = report.of_kind(RecordKind::Edit).count();
    let notes = report.of_kind(RecordKind::Note).count();
    push(
        &mut text,
        schema.take(),
        Summary {
            kind: "summary",
            changed,
            deleted,
            unresolved,
            unchanged,
            edits,
            notes,
        },
    );
    text
}

fn push<T: Serialize>(text: &mut String, schema: Option<u32>, content: T) {
    let line =
        serde_json::to_string(&Line { schema, content }).expect("records are maps with text keys");
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn one_object_a_line() {
        insta::assert_snapshot!(render(&Report::from(&samples::plan())));
    }

    #[test]
    fn the_summary_comes_first_where_nothing_else_does() {
        let text = render(&Report::from(&Plan {
            unchanged: 3,
            ..Plan::default()
        }));
        insta::assert_snapshot!(text, @r#"{"schema":1,"kind":"summary","changed":0,"deleted":0,"unresolved":0,"unchanged":3,"edits":0,"notes":0}"#);
    }
}
