//! What the compiler said, told as part of the report: under the site it belongs to, or as a site of its own.

use super::{Diagnostic, Level};
use crate::diff::FileDiff;
use crate::plan::Change;
use crate::record::{Record, RecordKind};
use crate::report::VERIFY_RULE;

/// So many lines may lie between a site and what the compiler says of it; a statement is rarely longer.
const NEAR_LINES: usize = 3;

/// Turns diagnostics into records, sorted.
///
/// One that stands at an unresolved site becomes a note at that site. An error anywhere else is unresolved itself, a
/// warning a note. Positions are those of the file before the changes; `content` gives that file where no change holds it.
pub fn records(
    changes: &[Change],
    sites: &[Record],
    diagnostics: &[Diagnostic],
    content: impl Fn(&str) -> Option<Vec<u8>>,
) -> Vec<Record> {
    let mut found: Vec<Record> = diagnostics
        .iter()
        .filter_map(|diagnostic| record(changes, sites, diagnostic, &content))
        .collect();
    found.sort_by(|a, b| (a.sort_key(), &a.reason).cmp(&(b.sort_key(), &b.reason)));
    found.dedup();
    found
}

fn record(
    changes: &[Change],
    sites: &[Record],
    diagnostic: &Diagnostic,
    content: &impl Fn(&str) -> Option<Vec<u8>>,
) -> Option<Record> {
    let place = Place::before(changes, diagnostic, content)?;
    let said = format!("the compiler says: {}", diagnostic.summary());
    let site = sites
        .iter()
        .filter(|site| {
            site.kind == RecordKind::Unresolved
                && site.rule != VERIFY_RULE
                && site.file == diagnostic.file
        })
        .map(|site| (distance(site, place.line), site))
        .filter(|(lines, _)| *lines <= NEAR_LINES)
        .min_by_key(|(lines, site)| (*lines, site.byte_start));
    if let Some((_, site)) = site {
        return Some(Record {
            kind: RecordKind::Note,
            rule: VERIFY_RULE.to_owned(),
            before: None,
            after: None,
            reason: said,
            suggestion: None,
            ..site.clone()
        });
    }
    let is_error = diagnostic.level == Level::Error;
    Some(Record {
        kind: if is_error {
            RecordKind::Unresolved
        } else {
            RecordKind::Note
        },
        rule: VERIFY_RULE.to_owned(),
        file: diagnostic.file.clone(),
        line: place.line,
        column: place.column,
        line_after: None,
        byte_start: place.byte_start,
        byte_end: place.byte_end,
        source: place.source,
        before: None,
        after: None,
        reason: said,
        suggestion: diagnostic
            .label
            .as_ref()
            .map(|label| format!("at this place: {label}")),
    })
}

/// Lines between a line and a site; none where it lies inside.
fn distance(site: &Record, line: usize) -> usize {
    let n_lines = site
        .before
        .as_deref()
        .map_or(0, |before| before.matches('\n').count());
    if line < site.line {
        site.line - line
    } else {
        line.saturating_sub(site.line + n_lines)
    }
}

/// Where the compiler's place was before the changes.
struct Place {
    line: usize,
    column: usize,
    byte_start: usize,
    byte_end: usize,
    source: String,
}

impl Place {
    fn before(
        changes: &[Change],
        diagnostic: &Diagnostic,
        content: &impl Fn(&str) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let change = changes
            .iter()
            .find(|change| change.path() == diagnostic.file);
        let (old, line, kept): (Vec<u8>, _, _) = match change {
            Some(Change::Write { before, after, .. }) => {
                let (line, kept) = FileDiff::new(before, after).line_before(diagnostic.line - 1);
                (before.clone(), line, kept)
            }
            Some(Change::Delete { before, .. }) => (before.clone(), 0, false),
            None => (content(&diagnostic.file)?, diagnostic.line - 1, true),
        };
        let lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        let line = line.min(lines.len().saturating_sub(1));
        let line_start: usize = lines[..line].iter().map(|line| line.len()).sum();
        let bytes = lines.get(line).copied().unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        let source = text.trim_end_matches(['\n', '\r']);
        // A line that the run has changed is shown from its first word on: columns inside it have moved.
        let indent = source
            .chars()
            .take_while(|character| character.is_whitespace())
            .count();
        let column = if kept { diagnostic.column } else { indent + 1 };
        let offset = source
            .char_indices()
            .nth(column - 1)
            .map_or(source.len(), |(at, _)| at);
        let length = if kept {
            diagnostic.byte_end - diagnostic.byte_start
        } else {
            source.len() - offset
        };
        let byte_start = line_start + offset;
        Some(Self {
            line: line + 1,
            column,
            byte_start,
            byte_end: (byte_start + length).min(old.len()),
            source: source.to_owned(),
        })
    }
}
