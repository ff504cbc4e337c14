//! Takes entries out of a manifest's text; every other byte stays.
//!
//! The edits are deletions of byte ranges of the original text, found by the spans that `toml_edit` gives. Its own way of
//! deleting stores a comment behind an array element with the element after it, and so takes the wrong one away.
//!
//! Comments go with what they speak of:
//!
//! * what stands behind an entry on its line, between its lines, or right below its last line with a blank line after it;
//! * a block right above an entry, unless it is a banner (`# --- tests ---`), or heads more than the entry: it speaks of
//!   another entry by name, of "these", "all", "below", entries without a blank line between them follow, or it stands
//!   above the first of several and has no word of the entry's name.

mod array;
mod lines;
mod prose;
mod table;

use super::TargetKind;
use super::place::same_path;
use lines::Lines;
use toml_edit::{Document, Item, Table};

/// Removes the entry of a target: a `[[test]]` table with its sub-tables, or an element of `test = [{ … }]`.
///
/// `None` if the text does not parse or has no such entry; libraries and build scripts have none.
pub fn remove_target(text: &str, kind: TargetKind, name: &str) -> Option<String> {
    let key = kind.key()?;
    let document = Document::parse(text).ok()?;
    let (key_name, item) = document.as_table().get_key_value(key)?;
    let is_named = |found: Option<&Item>| found.and_then(Item::as_str) == Some(name);
    match item {
        Item::ArrayOfTables(tables) => {
            let at = tables
                .iter()
                .position(|table| is_named(table.get("name")))?;
            table::remove(text, &document, tables, at)
        }
        Item::Value(value) => {
            let list = value.as_array()?;
            let named = |value: &toml_edit::Value| {
                value
                    .as_inline_table()
                    .and_then(|table| table.get("name")?.as_str())
                    == Some(name)
            };
            let at = list.iter().position(named)?;
            if list.len() == 1 {
                // `test = []` would say nothing; nobody writes it.
                let lines = Lines::of(text);
                let range = lines.around(key_name.span()?.start, value.span()?.end);
                return Some(lines.cut(&[lines.with_blank_lines(range)]));
            }
            let words = prose::Subject::new(
                name,
                list.iter()
                    .filter_map(|value| value.as_inline_table()?.get("name")?.as_str()),
            );
            array::remove(text, list, at, &words)
        }
        _ => None,
    }
}

/// Removes a path from `package.include` and `package.exclude`.
///
/// An element counts if it is that path itself (`/` or `./` in front make no difference), not if it is a glob that
/// matches it. `None` if the text does not parse or neither list names the path.
pub fn remove_include(text: &str, path: &str) -> Option<String> {
    let mut edited: Option<String> = None;
    for key in ["include", "exclude"] {
        // Both could name it, and so could one of them twice.
        while let Some(next) = remove_from(edited.as_deref().unwrap_or(text), key, path) {
            edited = Some(next);
        }
    }
    edited
}

fn remove_from(text: &str, key: &str, path: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let table: &Table = document.as_table();
    let package = table.get("package").or_else(|| table.get("project"))?;
    let list = package.get(key)?.as_array()?;
    let at = list
        .iter()
        .position(|value| value.as_str().is_some_and(|found| same_path(found, path)))?;
    let words = prose::Subject::new(path, list.iter().filter_map(toml_edit::Value::as_str));
    array::remove(text, list, at, &words)
}

#[cfg(test)]
mod tests;
