//! One file in two columns: what was there, what is there now, and within a changed line the words that differ.

use std::ops::Range;

use similar::Algorithm;
use similar::algorithms::{self, Capture};

use super::{escape, push};
use crate::diff::{FileDiff, LineKind};

/// Lines that share less than this part of their words are different lines; to mark words in them would be noise.
const LEAST_SHARED: f64 = 0.3;

/// Appends the hunks of a file as a table.
pub(super) fn table(before: &[u8], after: &[u8], page: &mut String) {
    let diff = FileDiff::new(before, after);
    page.push_str("<table><colgroup><col style=\"width:4.2em\"><col><col style=\"width:4.2em\"><col></colgroup>\n");
    for hunk in 0..diff.n_hunks() {
        let header = diff.hunk_header(hunk);
        push(
            page,
            format_args!(
                "<tr class=\"hunk\"><td colspan=\"4\">{}</td></tr>\n",
                escape(String::from_utf8_lossy(&header).trim_end())
            ),
        );
        let mut rows = Rows {
            page,
            n_old: diff.lines_before(hunk).start,
            n_new: diff.lines_after(hunk).start,
            removed: Vec::new(),
            added: Vec::new(),
        };
        for (kind, line) in diff.hunk_lines(hunk) {
            rows.line(kind, line);
        }
        rows.flush();
    }
    page.push_str("</table>\n");
}

/// Collects removed and added lines until a line of context comes, and sets them beside each other.
struct Rows<'p, 'a> {
    page: &'p mut String,
    /// Lines of both versions that are written already.
    n_old: usize,
    n_new: usize,
    removed: Vec<&'a [u8]>,
    added: Vec<&'a [u8]>,
}

impl<'a> Rows<'_, 'a> {
    fn line(&mut self, kind: LineKind, line: &'a [u8]) {
        match kind {
            LineKind::Removed if self.added.is_empty() => self.removed.push(line),
            LineKind::Removed => {
                self.flush();
                self.removed.push(line);
            }
            LineKind::Added => self.added.push(line),
            LineKind::Context => {
                self.flush();
                let text = Line::new(line).plain();
                self.n_old += 1;
                self.n_new += 1;
                push(
                    self.page,
                    format_args!(
                        "<tr><td class=\"n\">{}</td><td>{text}</td><td class=\"n\">{}</td><td>{text}</td></tr>\n",
                        self.n_old, self.n_new
                    ),
                );
            }
        }
    }

    fn flush(&mut self) {
        let removed = std::mem::take(&mut self.removed);
        let added = std::mem::take(&mut self.added);
        for n in 0..removed.len().max(added.len()) {
            let old = removed.get(n).map(|line| Line::new(line));
            let new = added.get(n).map(|line| Line::new(line));
            let (old_text, new_text) = match (&old, &new) {
                (Some(old), Some(new)) => marked(old, new),
                (old, new) => (
                    old.as_ref().map(Line::plain).unwrap_or_default(),
                    new.as_ref().map(Line::plain).unwrap_or_default(),
                ),
            };
            self.page.push_str("<tr>");
            cell(
                self.page,
                old.is_some().then_some(old_text),
                "removed",
                &mut self.n_old,
            );
            cell(
                self.page,
                new.is_some().then_some(new_text),
                "added",
                &mut self.n_new,
            );
            self.page.push_str("</tr>\n");
        }
    }
}

fn cell(page: &mut String, text: Option<String>, class: &str, n_lines: &mut usize) {
    match text {
        Some(text) => {
            *n_lines += 1;
            push(
                page,
                format_args!("<td class=\"n\">{n_lines}</td><td class=\"{class}\">{text}</td>"),
            );
        }
        None => page.push_str("<td class=\"n none\"></td><td class=\"none\"></td>"),
    }
}

/// A line without its end, and what is to be said about the end.
struct Line {
    text: String,
    end: &'static str,
}

impl Line {
    fn new(line: &[u8]) -> Self {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line.strip_suffix(b"\r").unwrap_or(line), ""),
            None => (
                line,
                "<span class=\"end\"> (no newline at end of file)</span>",
            ),
        };
        Self {
            text: String::from_utf8_lossy(line).into_owned(),
            end,
        }
    }

    fn plain(&self) -> String {
        escape(&self.text) + self.end
    }
}

/// Both lines with the words that differ in `<b>`, if enough of them is shared.
fn marked(old: &Line, new: &Line) -> (String, String) {
    let old_words = words(&old.text);
    let new_words = words(&new.text);
    let mut capture = Capture::new();
    algorithms::diff_slices(Algorithm::Myers, &mut capture, &old_words, &new_words)
        .expect("capturing a diff has no way to fail");
    let mut old_changed = vec![true; old_words.len()];
    let mut new_changed = vec![true; new_words.len()];
    let mut n_shared = 0;
    for op in capture
        .into_ops()
        .iter()
        .filter(|op| op.tag() == similar::DiffTag::Equal)
    {
        old_changed[op.old_range()].fill(false);
        new_changed[op.new_range()].fill(false);
        n_shared += old_words[op.old_range()]
            .iter()
            .map(|word| word.len())
            .sum::<usize>();
    }
    let longest = old.text.len().max(new.text.len()).max(1);
    #[expect(clippy::cast_precision_loss, reason = "lengths of lines")]
    let shared = n_shared as f64 / longest as f64;
    if shared < LEAST_SHARED {
        return (old.plain(), new.plain());
    }
    (
        with_marks(&old_words, &old_changed) + old.end,
        with_marks(&new_words, &new_changed) + new.end,
    )
}

fn with_marks(words: &[&str], changed: &[bool]) -> String {
    let mut html = String::new();
    for (n, word) in words.iter().enumerate() {
        let follows = n > 0 && changed[n - 1];
        match (changed[n], follows) {
            (true, false) => html.push_str("<b>"),
            (false, true) => html.push_str("</b>"),
            _ => {}
        }
        html.push_str(&escape(word));
    }
    if changed.last() == Some(&true) {
        html.push_str("</b>");
    }
    html
}

/// Words, runs of spaces, and every other character by itself; joined they are the text.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut current: Option<(Range<usize>, u8)> = None;
    for (at, character) in text.char_indices() {
        let class = match character {
            _ if character.is_alphanumeric() || character == '_' => 0,
            _ if character.is_whitespace() => 1,
            _ => 2,
        };
        let end = at + character.len_utf8();
        match &mut current {
            Some((range, of)) if *of == class && class != 2 => range.end = end,
            _ => {
                words.extend(current.take().map(|(range, _)| &text[range]));
                current = Some((at..end, class));
            }
        }
    }
    words.extend(current.map(|(range, _)| &text[range]));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_marked() {
        let (old, new) = marked(
            &Line::new(b"let a: Vec<Old> = f(x);\n"),
            &Line::new(b"let a: Vec<New> = f(&x);"),
        );
        assert_eq!(old, "let a: Vec&lt;<b>Old</b>&gt; = f(x);");
        assert_eq!(
            new,
            "let a: Vec&lt;<b>New</b>&gt; = f(<b>&amp;</b>x);<span class=\"end\"> (no newline at end of file)</span>"
        );
    }

    #[test]
    fn lines_that_share_nothing_are_not() {
        let (old, new) = marked(&Line::new(b"match x {\n"), &Line::new(b"other.call()?;\n"));
        assert_eq!(
            (old.as_str(), new.as_str()),
            ("match x {", "other.call()?;")
        );
    }

    #[test]
    fn words_lose_nothing() {
        for text in ["", " ", "let gr\u{fc}n\t= \u{1f600}\u{1f600};", "a  b::c"] {
            assert_eq!(words(text).concat(), text);
        }
        assert_eq!(words("a  b::c_1"), ["a", "  ", "b", ":", ":", "c_1"]);
    }

    #[test]
    fn both_sides_count_their_lines() {
        let mut page = String::new();
        table(b"a\nb\nc\n", b"a\nc\nd\n", &mut page);
        let cells: Vec<_> = page
            .match_indices("<td class=\"n\">")
            .map(|(at, tag)| &page[at + tag.len()..at + tag.len() + 1])
            .collect();
        assert_eq!(cells, ["1", "1", "2", "3", "2", "3"], "{page}");
    }
}
