//! A text as lines, for deletions that take whole ones.

use std::ops::Range;

/// The lines of a text. Positions are byte offsets; a line includes its line end.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// Start of each line, and the length of the text at the end.
    starts: Vec<usize>,
}

/// What a line holds, as far as deletions care. Inside strings over several lines this is no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Blank,
    Comment,
    Code,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(
            text.match_indices('\n')
                .map(|(at, _)| at + 1)
                .filter(|start| *start < text.len()),
        );
        if !text.is_empty() {
            starts.push(text.len());
        }
        Self { text, starts }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of the line that holds the byte at `offset`, from 0.
    pub(super) fn at(&self, offset: usize) -> usize {
        (self.starts.partition_point(|start| *start <= offset).max(1) - 1)
            .min(self.count().saturating_sub(1))
    }

    pub(super) fn text(&self, line: usize) -> &'a str {
        &self.text[self.starts[line]..self.starts[line + 1]]
    }

    pub(super) fn kind(&self, line: usize) -> Line {
        match self
            .text(line)
            .trim_start_matches('\u{feff}')
            .trim()
            .as_bytes()
        {
            [] => Line::Blank,
            [b'#', ..] => Line::Comment,
            _ => Line::Code,
        }
    }

    /// The kind of the line, `Blank` before the first and behind the last one.
    fn kind_or_blank(&self, line: Option<usize>) -> Line {
        line.filter(|line| *line < self.count())
            .map_or(Line::Blank, |line| self.kind(line))
    }

    /// The lines from the byte at `start` to the byte before `end`.
    pub(super) fn around(&self, start: usize, end: usize) -> Range<usize> {
        self.at(start)..self.at(end.saturating_sub(1).max(start)) + 1
    }

    /// The block of comments right above `line`.
    pub(super) fn comments_above(&self, line: usize) -> Range<usize> {
        let from = (0..line)
            .rev()
            .take_while(|above| self.kind(*above) == Line::Comment)
            .last()
            .unwrap_or(line);
        from..line
    }

    /// The block of comments that begins at `line`.
    pub(super) fn comments_from(&self, line: usize) -> Range<usize> {
        let to = (line..self.count())
            .find(|below| self.kind(*below) != Line::Comment)
            .unwrap_or(self.count());
        line..to
    }

    /// Widens a range of lines by those blank lines that would be too many without it.
    ///
    /// Where blank lines stand on both sides, those below go; at the end of the text, those above. A comment above that
    /// stays moves up to the code below, so that it heads that now.
    pub(super) fn with_blank_lines(&self, lines: Range<usize>) -> Range<usize> {
        let above = lines.start.checked_sub(1);
        let after_blanks = (lines.end..self.count())
            .find(|line| self.kind(*line) != Line::Blank)
            .unwrap_or(self.count());
        if after_blanks == self.count() {
            let from = (0..lines.start)
                .rev()
                .take_while(|line| self.kind(*line) == Line::Blank)
                .last()
                .unwrap_or(lines.start);
            return from..after_blanks;
        }
        match (self.kind_or_blank(above), self.kind(after_blanks)) {
            (Line::Blank, _) | (Line::Comment, Line::Code) => lines.start..after_blanks,
            _ => lines,
        }
    }

    /// The text without these ranges of lines, which are sorted and disjoint; it ends with a line end if it did before.
    pub(super) fn cut(&self, ranges: &[Range<usize>]) -> String {
        let bytes: Vec<_> = ranges
            .iter()
            .map(|lines| self.starts[lines.start]..self.starts[lines.end])
            .collect();
        cut(self.text, &bytes)
    }

    pub(super) fn start(&self, line: usize) -> usize {
        self.starts[line]
    }
}

/// The text without these ranges of bytes, which are sorted and disjoint.
///
/// A byte order mark stays, and a text without a final line end has none afterwards.
pub(super) fn cut(text: &str, ranges: &[Range<usize>]) -> String {
    let mark = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut kept = text[..mark].to_owned();
    let mut at = mark;
    for range in ranges {
        kept.push_str(&text[at..range.start.max(at)]);
        at = range.end.max(at);
    }
    kept.push_str(&text[at..]);
    if !text.ends_with('\n') && kept.ends_with('\n') {
        kept.pop();
        if kept.ends_with('\r') {
            kept.pop();
        }
    }
    kept
}
