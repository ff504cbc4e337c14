//! Links in Markdown prose, with the bytes that they stand at.

use super::comments::DocLine;
use crate::edit::Edit;
use crate::syntax::Span;
use std::ops::Range;

/// Lines of prose as one text.
#[derive(Debug)]
pub struct Prose {
    pub text: String,
    /// Where each line begins in the text, and what it is in the file.
    lines: Vec<(usize, Span)>,
}

impl Prose {
    pub fn new(lines: &[DocLine], source: &str) -> Self {
        let mut text = String::new();
        let mut starts = Vec::new();
        for line in lines {
            starts.push((text.len(), line.content));
            text.push_str(line.content.text(source));
            text.push('\n');
        }
        Prose {
            text,
            lines: starts,
        }
    }

    /// The stretches of the file that a range of the text is: one for each line that it touches.
    fn spans(&self, range: Range<usize>) -> Vec<Span> {
        let cut = |&(start, span): &(usize, Span)| {
            let lo = range.start.clamp(start, start + span.len());
            let hi = range.end.clamp(start, start + span.len());
            (lo < hi).then(|| Span::new(span.lo + lo - start, span.lo + hi - start))
        };
        self.lines.iter().filter_map(cut).collect()
    }

    /// Where a range begins in the file.
    pub fn span(&self, range: Range<usize>) -> Option<Span> {
        self.spans(range).first().copied()
    }

    /// Other text in the place of a range; the marks of comments between its lines stay.
    pub fn replace(&self, range: Range<usize>, text: &str, rule: &str) -> Vec<Edit> {
        let insert = |at: usize| {
            let found = self.lines.iter().rev().find(|(start, _)| *start <= at);
            found.map(|(start, span)| {
                Edit::new(
                    Span::new(span.lo + at - start, span.lo + at - start),
                    text,
                    rule,
                )
            })
        };
        if range.is_empty() {
            return insert(range.start).into_iter().collect();
        }
        let spans = self.spans(range);
        spans
            .into_iter()
            .enumerate()
            .map(|(at, span)| Edit::new(span, if at == 0 { text } else { "" }, rule))
            .collect()
    }

    /// The whole source line that holds a place of the text.
    pub fn line(&self, at: usize) -> Span {
        self.lines
            .iter()
            .rev()
            .find(|(start, _)| *start <= at)
            .map_or(Span::default(), |(_, span)| *span)
    }
}

/// A link, in ranges of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// From the opening bracket to the end.
    pub whole: Range<usize>,
    /// Between the first brackets.
    pub label: Range<usize>,
    pub kind: LinkKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// `[label]` or `[label][]`.
    Shortcut,
    /// `[label](target)`, the target without title and angle brackets.
    Inline { target: Range<usize> },
    /// `[label][name]`.
    Reference { name: Range<usize> },
    /// `[name]: target`.
    Definition { target: Range<usize> },
}

/// The links of a text, in order. Code spans are skipped, links inside the label of another are not looked for.
pub fn links(text: &str) -> Vec<Link> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'`' => at = code_span_end(text, at),
            b'[' => match link(text, at) {
                Some(found) => {
                    at = found.whole.end;
                    out.push(found);
                }
                None => at += 1,
            },
            _ => at += 1,
        }
    }
    out
}

/// Behind a code span; behind its ticks if it does not end.
fn code_span_end(text: &str, at: usize) -> usize {
    let run = |at: usize| text[at..].bytes().take_while(|&byte| byte == b'`').count();
    let len = run(at);
    let mut end = at + len;
    while let Some(next) = text[end..].find('`') {
        end += next;
        if text[at..end].contains("\n\n") {
            break;
        }
        let found = run(end);
        end += found;
        if found == len {
            return end;
        }
    }
    at + len
}

fn link(text: &str, at: usize) -> Option<Link> {
    let close = closing_bracket(text, at)?;
    let label = at + 1..close;
    if text[label.clone()].trim().is_empty() {
        return None;
    }
    let after = close + 1;
    let rest = &text[after..];
    if rest.starts_with('(')
        && let Some((target, end)) = inline_target(text, after + 1)
    {
        return Some(Link {
            whole: at..end,
            label,
            kind: LinkKind::Inline { target },
        });
    }
    if rest.starts_with('[')
        && let Some(end) = closing_bracket(text, after)
    {
        let name = after + 1..end;
        let kind = if text[name.clone()].trim().is_empty() {
            LinkKind::Shortcut
        } else {
            LinkKind::Reference { name }
        };
        return Some(Link {
            whole: at..end + 1,
            label,
            kind,
        });
    }
    let line = text[..at].rfind('\n').map_or(0, |nl| nl + 1);
    if rest.starts_with(':') && at - line <= 3 && text[line..at].trim().is_empty() {
        let lo = after + 1 + blanks(&text[after + 1..]);
        let end = text[lo..]
            .find(char::is_whitespace)
            .map_or(text.len(), |n| lo + n);
        let target = unquoted(text, lo..end);
        if !target.is_empty() {
            return Some(Link {
                whole: at..end,
                label,
                kind: LinkKind::Definition { target },
            });
        }
    }
    Some(Link {
        whole: at..after,
        label,
        kind: LinkKind::Shortcut,
    })
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches([' ', '\t']).len()
}

fn unquoted(text: &str, range: Range<usize>) -> Range<usize> {
    let inner = &text[range.clone()];
    if inner.starts_with('<') && inner.ends_with('>') && inner.len() > 2 {
        range.start + 1..range.end - 1
    } else {
        range
    }
}

/// The bracket that closes the one at `at`, in the same paragraph.
fn closing_bracket(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut end = at;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 1,
            b'`' => {
                end = code_span_end(text, end);
                continue;
            }
            b'[' => depth += 1,
            b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(end);
                }
            }
            b'\n' if bytes.get(end + 1) == Some(&b'\n') => return None,
            _ => {}
        }
        end += 1;
    }
    None
}

/// The target behind `(`, and the end of the link.
fn inline_target(text: &str, from: usize) -> Option<(Range<usize>, usize)> {
    let lo = from + (text[from..].len() - text[from..].trim_start().len());
    let mut depth = 0usize;
    let mut end = lo;
    for (at, c) in text[lo..].char_indices() {
        end = lo + at;
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => break,
            ')' => depth -= 1,
            c if c.is_whitespace() => break,
            _ => {}
        }
    }
    let target = unquoted(text, lo..end);
    let rest = text[end..].trim_start();
    let title = rest
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\''))
        .map_or(Some(rest), |quote| {
            let close = rest[1..].find(quote)?;
            Some(rest[1 + close + 1..].trim_start())
        })?;
    let close = title.strip_prefix(')')?;
    let end = text.len() - close.len();
    (!target.is_empty() && !text[from..end].contains("\n\n")).then_some((target, end))
}
