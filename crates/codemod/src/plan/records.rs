//! The session's outcome as records and changes.

use std::collections::BTreeMap;

use super::sources::{Sources, file_record};
use crate::delete::Deleted;
use crate::leftover::Leftover;
use crate::record::{Record, RecordKind};
use crate::session::Session;
use crate::stage::Change;
use crate::syntax::{LineIndex, Span};

pub fn of_session(
    session: &Session<'_>,
    leftovers: &BTreeMap<usize, Vec<Leftover>>,
    extra: &[(usize, Leftover)],
    notes: &[(usize, Leftover)],
    deleted: &[Deleted],
) -> Vec<Record> {
    let mut out = Vec::new();
    for (at, work) in session.works.iter().enumerate() {
        let original = work.rope.original();
        let index = LineIndex::new(original);
        let record =
            |kind: RecordKind, rule: &str, span: Span, reason: &str, suggestion: Option<String>| {
                let mut one = located(kind, &work.path, (original, &index), span, reason);
                one.rule = rule.to_owned();
                one.suggestion = suggestion;
                one
            };
        if let Some(refused) = &work.refused
            && !work.keep
        {
            out.push(record(
                RecordKind::Unresolved,
                &refused.rule,
                refused.span,
                &refused.reason,
                refused.suggestion.clone(),
            ));
        }
        for left in leftovers.get(&at).into_iter().flatten().chain(
            extra
                .iter()
                .filter(|(of, _)| *of == at)
                .map(|(_, left)| left),
        ) {
            let span = work.kept_origin(left.span);
            out.push(record(
                RecordKind::Unresolved,
                &left.rule,
                span,
                &left.reason,
                left.suggestion.clone(),
            ));
        }
        for (_, note) in notes.iter().filter(|(of, _)| *of == at) {
            out.push(record(
                RecordKind::Note,
                &note.rule,
                note.span,
                &note.reason,
                note.suggestion.clone(),
            ));
        }
        for gone in deleted.iter().filter(|gone| gone.path == work.path) {
            let span = gone.at.map_or(Span::default(), |at| Span::new(at, at));
            let mut one = record(
                RecordKind::Deleted,
                &gone.rule,
                span,
                &format!("{}: {}", gone.what, gone.why),
                None,
            );
            if gone.at.is_none() {
                one.source.clear();
            }
            out.push(one);
        }
        if work.deleted {
            continue;
        }
        for hunk in work.rope.hunks() {
            let mut one = record(RecordKind::Edit, &hunk.rule, hunk.span, "", None);
            one.before = Some(hunk.span.text(original).to_owned());
            one.after = Some(hunk.text.clone());
            one.reason = session.rules.why(&hunk.rule);
            out.push(one);
        }
    }
    out
}

/// A record of a place in a text.
pub fn located(
    kind: RecordKind,
    path: &str,
    (text, index): (&str, &LineIndex),
    span: Span,
    reason: &str,
) -> Record {
    let mut one = file_record(kind, path, reason, None);
    (one.line, one.column) = index.line_column(text, span.lo.min(text.len()));
    (one.byte_start, one.byte_end) = (span.lo, span.hi);
    let line = index.line_span(text, one.line).text(text);
    one.source = line.trim_start_matches('\u{feff}').to_owned();
    one
}

/// Says where sites and notes stand after the run, where that is another line.
pub fn lines_after(session: &Session<'_>, records: &mut [Record]) {
    for work in session
        .works
        .iter()
        .filter(|work| !work.deleted && work.rope.is_changed())
    {
        let text = work.rope.text();
        let index = LineIndex::new(text);
        let told = records.iter_mut().filter(|record| {
            matches!(record.kind, RecordKind::Unresolved | RecordKind::Note)
                && record.file == work.path
                && !record.source.is_empty()
        });
        for record in told {
            record.line_after = work
                .rope
                .now(record.byte_start)
                .map(|at| index.line_column(text, at).0)
                .filter(|line| *line != record.line);
        }
    }
}

pub fn changes(session: &Session<'_>, found: &Sources<'_>) -> Vec<Change> {
    let mut out = Vec::new();
    for work in &session.works {
        let path = found
            .tree()
            .get(&work.path)
            .map_or_else(|| work.path.clone(), |file| file.path.clone());
        if work.deleted {
            out.push(Change::Delete {
                path,
                before: work.rope.original().as_bytes().to_vec(),
            });
        } else if work.rope.is_changed() {
            out.push(Change::Write {
                path,
                before: work.rope.original().as_bytes().to_vec(),
                after: work.rope.text().as_bytes().to_vec(),
            });
        }
    }
    out
}
