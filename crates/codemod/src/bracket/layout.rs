//! Statements put before and behind others, laid out for their place.

use crate::syntax::{Span, trivia};

/// How a stretch of statements stands in its block.
#[derive(Debug, Clone)]
pub struct Frame {
    pub eol: &'static str,
    pub indent: String,
    /// What is put in front begins a line.
    pub opens_line: bool,
    /// What is put behind gets a line.
    pub closes_line: bool,
}

impl Frame {
    /// `first` and `last`: the statements at both ends.
    pub fn new(text: &str, first: Span, last: Span) -> Frame {
        Frame {
            eol: trivia::eol(text),
            indent: trivia::indent_of(text, first.lo).to_owned(),
            opens_line: trivia::starts_line(text, first.lo),
            closes_line: trivia::starts_line(text, last.lo) && only_comments_follow(text, last.hi),
        }
    }

    /// `code` in front of the first statement, to be inserted where that begins.
    pub fn lead(&self, code: &str) -> String {
        if self.opens_line {
            format!("{code}{}{}", self.eol, self.indent)
        } else {
            format!("{code} ")
        }
    }

    /// Where statements behind the last one go, and their text.
    pub fn follow(&self, text: &str, hi: usize, codes: &[&str]) -> (usize, String) {
        let gap = if self.closes_line {
            format!("{}{}", self.eol, self.indent)
        } else {
            " ".to_owned()
        };
        let code = codes.iter().map(|code| format!("{gap}{code}")).collect();
        (
            if self.closes_line {
                trivia::line_end(text, hi)
            } else {
                hi
            },
            code,
        )
    }
}

/// Whether the rest of the line holds comments at most, and none that goes on below.
pub fn only_comments_follow(text: &str, hi: usize) -> bool {
    let end = trivia::line_end(text, hi);
    let comments = trivia::comments(text, Span::new(hi, text.len().min(end.max(hi))));
    let mut at = hi;
    for comment in &comments {
        let unfinished = !comment.is_line && !comment.span.text(text).ends_with("*/");
        if !text[at..comment.span.lo].trim().is_empty() || unfinished {
            return false;
        }
        at = comment.span.hi;
    }
    text[at..end.max(at)].trim().is_empty()
}
