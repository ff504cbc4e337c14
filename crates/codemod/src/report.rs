//! What a run says, in each of its forms.
//!
//! Every form is a pure function of a [`Report`]: the same plan gives the same bytes, whoever asks and however many threads
//! computed it. Which form goes where, and when, is the caller's business.

pub mod html;
pub mod human;
pub mod json;
pub mod sarif;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::plan::{Change, Plan};
use crate::record::{Record, RecordKind};

/// Name of the rule under which the compiler's findings are told.
pub const VERIFY_RULE: &str = "verify";

/// Name of the rule under which it is told what a person declined.
pub const DECLINED_RULE: &str = "interactive";

/// What there is to tell.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// Sorted by path, one for each file.
    pub changes: &'a [Change],
    /// Sorted by [`Record::sort_key`].
    pub records: &'a [Record],
    /// Files that were looked at and stay as they are.
    pub unchanged: usize,
}

impl<'a> From<&'a Plan> for Report<'a> {
    fn from(plan: &'a Plan) -> Self {
        Self {
            changes: &plan.changes,
            records: &plan.records,
            unchanged: plan.unchanged,
        }
    }
}

impl<'a> Report<'a> {
    pub fn tally(&self) -> Tally {
        let deleted = self
            .changes
            .iter()
            .filter(|change| matches!(change, Change::Delete { .. }))
            .count();
        Tally {
            changed: self.changes.len() - deleted,
            deleted,
            unresolved: self.of_kind(RecordKind::Unresolved).count(),
            unchanged: self.unchanged,
        }
    }

    pub fn of_kind(&self, kind: RecordKind) -> impl Iterator<Item = &'a Record> + use<'a> {
        self.records
            .iter()
            .filter(move |record| record.kind == kind)
    }

    /// What the compiler says about a site that is unresolved anyway: its notes stand at the same place.
    fn compiler_notes(&self, site: &Record) -> impl Iterator<Item = &'a Record> + use<'a> {
        let place = (site.file.clone(), site.byte_start);
        self.of_kind(RecordKind::Note).filter(move |note| {
            note.rule == VERIFY_RULE && note.file == place.0 && note.byte_start == place.1
        })
    }

    /// Notes that are not shown under a site.
    fn other_notes(&self) -> impl Iterator<Item = &'a Record> + use<'a> {
        let sites: BTreeSet<_> = self
            .of_kind(RecordKind::Unresolved)
            .map(|site| (&site.file, site.byte_start))
            .collect();
        self.of_kind(RecordKind::Note).filter(move |note| {
            note.rule != VERIFY_RULE || !sites.contains(&(&note.file, note.byte_start))
        })
    }
}

/// The four numbers that end a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Files with new content.
    pub changed: usize,
    /// Files that go.
    pub deleted: usize,
    /// Sites that were left as they are.
    pub unresolved: usize,
    /// Files that were looked at and stay as they are.
    pub unchanged: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            changed,
            deleted,
            unresolved,
            unchanged,
        } = self;
        write!(
            f,
            "{changed} files changed, {deleted} deleted, {unresolved} unresolved, {unchanged} unchanged"
        )
    }
}

/// The bytes of the source line that belong to the site; a site over several lines ends with its first.
fn span_in_line(record: &Record) -> Range<usize> {
    let source = &record.source;
    let start = source
        .char_indices()
        .nth(record.column.saturating_sub(1))
        .map_or(source.len(), |(at, _)| at);
    let mut end = (start + record.byte_end.saturating_sub(record.byte_start)).min(source.len());
    while !source.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// Records for the tests of all forms: one of each kind, in awkward shapes.
#[cfg(test)]
mod samples {
    use super::*;

    pub fn record(kind: RecordKind, file: &str, text: &str, site: &str, reason: &str) -> Record {
        let byte_start = text.find(site).expect("the site is in the text");
        let line_start = text[..byte_start].rfind('\n').map_or(0, |at| at + 1);
        Record {
            kind,
            rule: "host-read".to_owned(),
            file: file.to_owned(),
            line: text[..byte_start].matches('\n').count() + 1,
            column: text[line_start..byte_start].chars().count() + 1,
            line_after: None,
            byte_start,
            byte_end: byte_start + site.len(),
            source: text[line_start..]
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            before: None,
            after: None,
            reason: reason.to_owned(),
            suggestion: None,
        }
    }

    pub const TRAIN: &str = "//! Trains.\n\nfn step(batch: &OldBatch) {\n\tlet grün = batch.rows.len();\n    old(\n        1,\n    );\n}\n";

    pub fn plan() -> Plan {
        let after = TRAIN.replace("OldBatch", "NewBatch");
        let mut edit = record(
            RecordKind::Edit,
            "src/train.rs",
            TRAIN,
            "OldBatch",
            "`OldBatch` is `NewBatch` now",
        );
        edit.rule = "rename-batch".to_owned();
        edit.before = Some("OldBatch".to_owned());
        edit.after = Some("NewBatch".to_owned());
        let mut read = record(
            RecordKind::Unresolved,
            "src/train.rs",
            TRAIN,
            "rows",
            "`rows` is read on the host",
        );
        read.suggestion =
            Some("write `batch.rows_to_host()?`; it synchronizes the stream".to_owned());
        let mut says = read.clone();
        says.kind = RecordKind::Note;
        says.rule = VERIFY_RULE.to_owned();
        says.reason =
            "the compiler says: error[E0609]: no field `rows` on type `&NewBatch`".to_owned();
        says.suggestion = None;
        let mut several = record(
            RecordKind::Unresolved,
            "src/train.rs",
            TRAIN,
            "old(\n        1,\n    )",
            "`old` is gone",
        );
        several.line_after = Some(4);
        let gone_text = "#[test]\nfn cpu() {}\n";
        let mut gone = record(
            RecordKind::Deleted,
            "tests/cpu.rs",
            gone_text,
            "#[test]",
            "`cpu` builds the old buffer",
        );
        gone.rule = "delete-tests".to_owned();
        let mut note = record(
            RecordKind::Note,
            "Cargo.toml",
            "[features]\ncpu = []\n",
            "cpu = []",
            "feature `cpu` has no user any more",
        );
        note.rule = "manifest".to_owned();
        let reason = "the file does not parse";
        let whole = Record::about_file(read.kind, &read.rule, "src/broken.rs", reason);
        let mut records = vec![edit, read, says, several, gone, note, whole];
        records.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Plan {
            changes: vec![
                Change::Write {
                    path: "src/train.rs".to_owned(),
                    before: TRAIN.into(),
                    after: after.into(),
                },
                Change::Delete {
                    path: "tests/cpu.rs".to_owned(),
                    before: gone_text.into(),
                },
            ],
            records,
            unchanged: 40,
            examined: None,
        }
    }
}
