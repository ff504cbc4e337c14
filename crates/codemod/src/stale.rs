//! Comments that may be false now: they stand, word for word, above code that changed, and speak of what is gone.
//!
//! Nobody's sentences are rewritten. A note names those of which it can be said for certain: a comment directly above what
//! this run changed that has a name which is gone; one above what lost a branch, or beside a link with a new name, that has
//! one of the words by which the migration says such things are spoken of.

use std::collections::{BTreeSet, HashSet};

use crate::edit::Hunk;
use crate::leftover::Leftover;
use crate::rewrite::Cx;
use crate::syntax::trivia::{line_end, line_start, next_line};
use crate::syntax::{ExprKind, ItemKind, Span, StmtKind};

pub const RULE: &str = "comments";

/// What the migration says of names and words.
#[derive(Debug)]
pub struct Vocabulary<'a> {
    /// Names of what is gone.
    pub gone: BTreeSet<&'a str>,
    /// Words that speak of it.
    pub terms: &'a [String],
    /// Names that still stand in the code of the file.
    pub named: HashSet<&'a str>,
}

/// A paragraph of a comment.
struct Paragraph {
    span: Span,
    /// Where the comment that it is part of ends.
    end: usize,
    /// Documents what it stands in.
    is_inner: bool,
}

/// Looks at a file as it was, with what has changed in it since.
pub fn comments(before: &Cx<'_>, hunks: &[Hunk], words: &Vocabulary<'_>) -> Vec<Leftover> {
    let text = before.text;
    let mut out = Vec::new();
    for comment in line_comments(before) {
        for paragraph in paragraphs(text, comment) {
            // What was taken out or written anew speaks for itself.
            let is_new = |span: Span| hunks.iter().any(|hunk| hunk.span.overlaps(span));
            let renames = hunks
                .iter()
                .any(|hunk| paragraph.span.contains(hunk.span) && !hunk.span.is_empty());
            let whole = hunks.iter().any(|hunk| hunk.span.contains(paragraph.span));
            if whole {
                continue;
            }
            let below = (!paragraph.is_inner)
                .then(|| below(before, next_line(text, paragraph.end)))
                .flatten();
            let changes = |span: Span| {
                hunks.iter().filter(move |hunk| {
                    hunk.span.overlaps(span) || (hunk.span.is_empty() && span.contains(hunk.span))
                })
            };
            let changed = below.is_some_and(|span| changes(span).next().is_some());
            let lost_a_branch =
                below.is_some_and(|span| changes(span).any(|hunk| is_branch(hunk.span.text(text))));
            let is_free = |span: &Span| !is_new(*span);
            let name = (changed || renames)
                .then(|| {
                    words
                        .gone
                        .iter()
                        .filter(|name| !words.named.contains(**name))
                        .flat_map(|name| whole_words(text, paragraph.span, name))
                        .filter(is_free)
                        .min_by_key(|span| span.lo)
                })
                .flatten();
            let term = (lost_a_branch || renames)
                .then(|| {
                    words
                        .terms
                        .iter()
                        .flat_map(|term| whole_words(text, paragraph.span, term))
                        .filter(is_free)
                        .min_by_key(|span| span.lo)
                })
                .flatten();
            let (span, reason) = match (name, term) {
                (Some(span), _) => (
                    span,
                    format!(
                        "this comment speaks of `{}`, which is gone",
                        span.text(text)
                    ),
                ),
                (None, Some(span)) if lost_a_branch => (
                    span,
                    format!(
                        "this comment speaks of \"{}\", and the code below it lost a branch",
                        span.text(text)
                    ),
                ),
                (None, Some(span)) => (
                    span,
                    format!(
                        "this comment speaks of \"{}\", and a name in it is new",
                        span.text(text)
                    ),
                ),
                (None, None) => continue,
            };
            out.push(Leftover {
                span,
                rule: RULE.into(),
                reason,
                suggestion: Some("read whether it still holds".into()),
                dead: false,
                reads: false,
            });
        }
    }
    out
}

/// Comments of whole lines, those that follow each other as one.
fn line_comments(cx: &Cx<'_>) -> Vec<Span> {
    let text = cx.text;
    let is_comment = |at: usize| {
        let line = text[at..line_end(text, at)].trim_start();
        line.starts_with("//")
            && !cx
                .file
                .strings
                .iter()
                .any(|string| string.contains(Span::new(at, at)))
    };
    let kind = |at: usize| {
        let line = text[at..line_end(text, at)].trim_start();
        ["//!", "///", "//"]
            .iter()
            .position(|mark| line.starts_with(mark))
    };
    let mut out: Vec<Span> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let next = next_line(text, at);
        if is_comment(at) {
            let span = Span::new(at, line_end(text, at));
            match out.last_mut() {
                Some(last) if next_line(text, last.hi) == at && kind(last.lo) == kind(at) => {
                    last.hi = span.hi
                }
                _ => out.push(span),
            }
        }
        at = next;
    }
    out
}

fn paragraphs(text: &str, comment: Span) -> Vec<Paragraph> {
    let is_inner = text[comment.lo..].trim_start().starts_with("//!");
    let mut out: Vec<Paragraph> = Vec::new();
    let mut open = false;
    let mut at = comment.lo;
    while at < comment.hi {
        let hi = line_end(text, at);
        let said = text[at..hi].trim().trim_start_matches(['/', '!']).trim();
        match out.last_mut() {
            _ if said.is_empty() => open = false,
            Some(last) if open => last.span.hi = hi,
            _ => {
                out.push(Paragraph {
                    span: Span::new(at, hi),
                    end: comment.hi,
                    is_inner,
                });
                open = true;
            }
        }
        at = next_line(text, at);
    }
    out
}

/// The statement, arm or item that begins with the line at `at`.
fn below(cx: &Cx<'_>, at: usize) -> Option<Span> {
    let text = cx.text;
    let starts = |lo: usize| lo >= at && line_start(text, lo) == at;
    // Documentation and attributes are part of an item.
    for (item, _) in &cx.nodes.items {
        let lo = item
            .attrs
            .iter()
            .filter(|attr| attr.span.hi <= at)
            .map(|attr| attr.span.hi)
            .max()
            .map_or(item.span.lo, |hi| {
                hi + (text[hi..].len() - text[hi..].trim_start().len())
            });
        if !starts(lo) {
            continue;
        }
        let hi = match &item.kind {
            // What is in it has comments of its own.
            ItemKind::Impl(it) => it.braces.lo,
            ItemKind::Mod(_) | ItemKind::Trait(_) | ItemKind::Use(_) => return None,
            _ => item.span.hi,
        };
        return Some(Span::new(lo, hi));
    }
    let stmts = cx.nodes.blocks.iter().flat_map(|block| &block.stmts);
    for stmt in stmts {
        if starts(stmt.span.lo) && !matches!(stmt.kind, StmtKind::Item(_)) {
            return Some(stmt.span);
        }
    }
    cx.nodes.exprs.iter().find_map(|expr| match &expr.kind {
        ExprKind::Match { arms, .. } => arms
            .iter()
            .find(|arm| starts(arm.span.lo))
            .map(|arm| arm.span),
        _ => None,
    })
}

/// Whether a stretch that went held an arm or another way to go.
fn is_branch(gone: &str) -> bool {
    gone.contains("=>")
        || gone
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .any(|word| matches!(word, "if" | "else" | "match" | "matches"))
}

/// Where a word or several stand in a stretch, whatever their case, not as part of a longer word.
fn whole_words(text: &str, span: Span, wanted: &str) -> Vec<Span> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // A name is one in its own case; what people call a thing is not.
    let same = |found: &str| {
        if wanted.contains('_') || wanted.chars().skip(1).any(char::is_uppercase) {
            found == wanted
                || (wanted == wanted.to_uppercase() && found.eq_ignore_ascii_case(wanted))
        } else {
            found.eq_ignore_ascii_case(wanted)
        }
    };
    let mut out = Vec::new();
    for (at, _) in span.text(text).char_indices() {
        let lo = span.lo + at;
        let Some(found) = text.get(lo..lo + wanted.len()) else {
            continue;
        };
        if lo + wanted.len() <= span.hi
            && same(found)
            && !text[..lo].chars().next_back().is_some_and(is_word)
            && !text[lo + wanted.len()..]
                .chars()
                .next()
                .is_some_and(is_word)
        {
            out.push(Span::new(lo, lo + wanted.len()));
        }
    }
    out
}
