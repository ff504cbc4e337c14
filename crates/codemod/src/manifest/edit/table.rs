//! Removes one table of an array of tables.

use super::lines::{Line, Lines};
use super::prose::{Subject, is_banner};
use std::ops::Range;
use toml_edit::{ArrayOfTables, Document, Item, Table, Value};

/// The text without the table at index `at` of `tables`, without its sub-tables and without what speaks of it alone.
pub(super) fn remove(
    text: &str,
    document: &Document<&str>,
    tables: &ArrayOfTables,
    at: usize,
) -> Option<String> {
    let lines = Lines::of(text);
    let table = tables.get(at)?;
    let mut headers = Vec::new();
    collect_sections(document.as_table(), &mut headers);
    headers.sort_by_key(|section| section.start);
    let mut own = Vec::new();
    push_section(table, &mut own);
    own.sort_by_key(|section| section.start);
    let names = tables
        .iter()
        .filter_map(|table| table.get("name")?.as_str());
    let subject = Subject::new(table.get("name")?.as_str()?, names);
    let is_first = at == 0;
    let mut ranges = Vec::new();
    for (index, section) in own.iter().enumerate() {
        let mut range = lines.around(section.start, section.end);
        let below = lines.comments_from(range.end);
        let is_own_tail = below.end == lines.count() || lines.kind(below.end) == Line::Blank;
        if is_own_tail {
            range.end = below.end;
        }
        let above = lines.comments_above(range.start);
        // Comments above a sub-table can only be about the entry.
        let goes = index > 0 || {
            let comment: String = above.clone().map(|line| lines.text(line)).collect();
            let heads_a_group = heads_more(&lines, &headers, own.last()?);
            comment_goes(&comment, &subject, is_first, heads_a_group)
        };
        if goes {
            range.start = above.start;
        }
        ranges.push(range);
    }
    // Neighbouring ranges become one before blank lines are weighed, or the same ones would be taken twice.
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if (last.end..range.start).all(|line| lines.kind(line) == Line::Blank) => {
                last.end = range.end
            }
            _ => merged.push(range),
        }
    }
    let widened: Vec<_> = merged
        .into_iter()
        .map(|range| lines.with_blank_lines(range))
        .collect();
    Some(lines.cut(&widened))
}

fn comment_goes(comment: &str, subject: &Subject, is_first: bool, heads_a_group: bool) -> bool {
    if comment.is_empty() || is_banner(comment) {
        return false;
    }
    if subject.is_named_in(comment) {
        return true;
    }
    if subject.is_about_others(comment) || heads_a_group {
        return false;
    }
    !is_first || !subject.has_neighbours()
}

/// Says whether a table of any kind follows with neither a blank line nor a comment between: one comment heads both.
fn heads_more(lines: &Lines<'_>, headers: &[Range<usize>], last: &Range<usize>) -> bool {
    let next = headers.iter().find(|section| section.start >= last.end);
    next.is_some_and(|next| lines.at(next.start) == lines.around(last.start, last.end).end)
}

/// The sections of a table and of all tables in it: from the bracket of the header to the end of the last value.
fn collect_sections(table: &Table, sections: &mut Vec<Range<usize>>) {
    for (_, item) in table.iter() {
        match item {
            Item::Table(table) => push_section(table, sections),
            Item::ArrayOfTables(tables) => tables
                .iter()
                .for_each(|table| push_section(table, sections)),
            Item::None | Item::Value(_) => {}
        }
    }
}

fn push_section(table: &Table, sections: &mut Vec<Range<usize>>) {
    if !table.is_dotted()
        && let Some(header) = table.span()
        && !table.is_implicit()
    {
        sections.push(header.start..end_of_values(table).unwrap_or(header.end).max(header.end));
    }
    collect_sections(table, sections);
}

/// Where the last value ends that stands under the header of `table` itself, also behind a dotted key.
fn end_of_values(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => Value::span(value).map(|span| span.end),
        Item::Table(dotted) if dotted.is_dotted() => end_of_values(dotted),
        _ => None,
    });
    ends.max()
}
