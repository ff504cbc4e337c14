//! Removes one element of an array.

use super::lines::{Line, Lines, cut};
use super::prose::{Subject, is_banner};
use std::ops::Range;
use toml_edit::{Array, Value};

/// The text without the element at index `at` of `array`, without its comma and without what speaks of it alone.
pub(super) fn remove(text: &str, array: &Array, at: usize, subject: &Subject) -> Option<String> {
    let brackets = array.span()?;
    let spans: Vec<Range<usize>> = array.iter().map(Value::span).collect::<Option<_>>()?;
    let element = spans[at].clone();
    let next = spans
        .get(at + 1)
        .map_or(brackets.end - 1, |next| next.start);
    let comma_behind = comma(text, element.end..next);
    let comma_before = at
        .checked_sub(1)
        .and_then(|before| comma(text, spans[before].end..element.start));
    let end = comma_behind.map_or(element.end, |comma| comma + 1);

    let lines = Lines::of(text);
    let own_lines = lines.around(element.start, end);
    let before = &text[lines.start(own_lines.start)..element.start];
    let behind = text[end..].split('\n').next().unwrap_or_default().trim();
    let stands_alone = before.trim().is_empty() && (behind.is_empty() || behind.starts_with('#'));
    let mut ranges = Vec::new();
    // Without a comma behind the last element there was none behind the one before it either, once that is the last.
    if comma_behind.is_none()
        && let Some(comma) = comma_before
    {
        ranges.push(comma..comma + 1);
    }
    if stands_alone {
        let mut range = own_lines;
        let above = lines.comments_above(range.start);
        let comment: String = above.clone().map(|line| lines.text(line)).collect();
        if comment_goes(&comment, subject, &lines, range.end) {
            range.start = above.start;
        }
        let mut range = lines.with_blank_lines(range);
        // A blank line that set the element off would stand before the bracket.
        if range.end < lines.count() && lines.text(range.end).trim_start().starts_with(']') {
            while range.start > 0 && lines.kind(range.start - 1) == Line::Blank {
                range.start -= 1;
            }
        }
        let end = if range.end < lines.count() {
            lines.start(range.end)
        } else {
            text.len()
        };
        ranges.push(lines.start(range.start)..end);
    } else {
        let blank_before = before.len() - before.trim_end_matches([' ', '\t']).len();
        let blank_behind = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        let ends_line = text[end + blank_behind..].starts_with(['\n', '\r', '#', ']']);
        let from = if array.len() == 1 || at > 0 && ends_line {
            element.start - blank_before
        } else {
            element.start
        };
        // The blank before a bracket or a comment stays.
        let to = if array.len() == 1 || !ends_line {
            end + blank_behind
        } else {
            end
        };
        ranges.push(from..to);
    }
    Some(cut(text, &ranges))
}

/// A comment above an element goes if it names it, or if nothing else stands below it.
fn comment_goes(comment: &str, subject: &Subject, lines: &Lines<'_>, below: usize) -> bool {
    if comment.is_empty() || is_banner(comment) {
        return false;
    }
    if subject.is_named_in(comment) {
        return true;
    }
    let heads_nothing_else = below >= lines.count()
        || lines.kind(below) != Line::Code
        || lines.text(below).trim_start().starts_with(']');
    heads_nothing_else && !subject.is_about_others(comment)
}

/// The comma in a gap between two elements, which holds blanks and comments besides.
fn comma(text: &str, gap: Range<usize>) -> Option<usize> {
    let mut in_comment = false;
    for (at, byte) in text[gap.clone()].bytes().enumerate() {
        match byte {
            b'#' => in_comment = true,
            b'\n' => in_comment = false,
            b',' if !in_comment => return Some(gap.start + at),
            _ => {}
        }
    }
    None
}
