//! Documentation as Markdown lines, each of which knows where it stands in the file.
//!
//! An item's documentation is written as `///` and `//!` lines, as `/** */` and `/*! */` blocks, or as `#[doc = "…"]`;
//! rustdoc joins the pieces and cuts off what they are indented by. The same is done here, on byte ranges.

use crate::syntax::trivia::{comments, line_end, line_start};
use crate::syntax::{File, Span};

/// The documentation of one item, or of the module that it stands in.
#[derive(Debug, Clone)]
pub struct Doc {
    /// Where it begins.
    pub at: usize,
    pub lines: Vec<DocLine>,
}

/// One line of Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocLine {
    /// Without the marks of the comment, the indentation that all lines share, and the line end.
    pub content: Span,
    /// What must not stand in the line: the end of the comment or of the string that it is in.
    pub forbidden: &'static [&'static str],
}

impl DocLine {
    /// The source line, marks included, line end left out.
    pub fn full(&self, text: &str) -> Span {
        Span::new(
            line_start(text, self.content.lo),
            line_end(text, self.content.hi),
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Line { is_inner: bool },
    Block { is_inner: bool },
    Attribute { is_inner: bool },
}

impl Form {
    fn is_inner(self) -> bool {
        match self {
            Form::Line { is_inner } | Form::Block { is_inner } | Form::Attribute { is_inner } => {
                is_inner
            }
        }
    }
}

/// All documentation of a file, in order. Strings with escapes are not looked into.
pub fn docs(file: &File, text: &str) -> Vec<Doc> {
    let mut pieces: Vec<(Span, Form, Vec<DocLine>)> = Vec::new();
    for &span in &file.docs {
        let source = span.text(text);
        let form = match source.get(..3) {
            Some("///") => Form::Line { is_inner: false },
            Some("//!") => Form::Line { is_inner: true },
            Some("/**") => Form::Block { is_inner: false },
            Some("/*!") => Form::Block { is_inner: true },
            _ => continue,
        };
        let lines = match form {
            Form::Line { .. } => {
                let hi = span.lo + source.trim_end_matches('\r').len();
                vec![DocLine {
                    content: Span::new(span.lo + 3, hi),
                    forbidden: &[],
                }]
            }
            _ => block_lines(
                text,
                Span::new(span.lo + 3, span.hi.saturating_sub(2).max(span.lo + 3)),
            ),
        };
        pieces.push((span, form, lines));
    }
    for &span in &file.strings {
        if let Some((attribute, is_inner)) = doc_attribute(text, span)
            && let Some((inner, forbidden)) = plain_string(text, span)
        {
            pieces.push((
                attribute,
                Form::Attribute { is_inner },
                split_lines(text, inner, forbidden),
            ));
        }
    }
    pieces.sort_by_key(|(span, ..)| span.lo);
    let mut out: Vec<Doc> = Vec::new();
    let mut last: Option<(usize, Form)> = None;
    let mut forms: Vec<Vec<Form>> = Vec::new();
    for (span, form, lines) in pieces {
        let joins = last.is_some_and(|(hi, of)| {
            of.is_inner() == form.is_inner() && only_attributes(&text[hi..span.lo])
        });
        last = Some((span.hi, form));
        match (out.last_mut(), forms.last_mut()) {
            (Some(doc), Some(of)) if joins => {
                of.extend(lines.iter().map(|_| form));
                doc.lines.extend(lines);
            }
            _ => {
                forms.push(vec![form; lines.len()]);
                out.push(Doc { at: span.lo, lines });
            }
        }
    }
    for (doc, forms) in out.iter_mut().zip(&forms) {
        unindent(text, doc, forms);
    }
    out
}

/// Lines between the marks of a block comment; a column of stars in front of all of them is not theirs.
fn block_lines(text: &str, inner: Span) -> Vec<DocLine> {
    let mut lines = split_lines(text, inner, &["*/", "/*"]);
    let star = |line: &DocLine| {
        let content = line.content.text(text);
        let blanks = content.len() - content.trim_start_matches([' ', '\t']).len();
        content[blanks..].starts_with('*').then_some(blanks)
    };
    let rest = lines.get(1..).unwrap_or_default();
    let is_blank = |line: &&DocLine| line.content.text(text).trim().is_empty();
    let columns: Vec<Option<usize>> = rest
        .iter()
        .filter(|line| !is_blank(line))
        .map(star)
        .collect();
    if let Some(Some(first)) = columns.first().copied()
        && columns.iter().all(|column| *column == Some(first))
    {
        for line in lines.iter_mut().skip(1) {
            if star(line).is_some() {
                line.content.lo += first + 1;
            }
        }
    }
    // What stands in front of the end mark alone is no line.
    if lines.len() > 1
        && lines
            .last()
            .is_some_and(|line| line.content.text(text).trim().is_empty())
    {
        lines.pop();
    }
    lines
}

fn split_lines(text: &str, span: Span, forbidden: &'static [&'static str]) -> Vec<DocLine> {
    let mut out = Vec::new();
    let mut at = span.lo;
    for line in span.text(text).split_inclusive('\n') {
        let len = line.trim_end_matches(['\n', '\r']).len();
        out.push(DocLine {
            content: Span::new(at, at + len),
            forbidden,
        });
        at += line.len();
    }
    if out.is_empty() {
        out.push(DocLine {
            content: span,
            forbidden,
        });
    }
    out
}

/// The attribute whose value the string is, if it is `#[doc = "…"]`, and whether it is `#![…]`.
fn doc_attribute(text: &str, string: Span) -> Option<(Span, bool)> {
    let head = text[..string.lo]
        .trim_end()
        .strip_suffix('=')?
        .trim_end()
        .strip_suffix("doc")?
        .trim_end();
    let head = head.strip_suffix('[')?.trim_end();
    let is_inner = head.ends_with('!');
    let head = head
        .strip_suffix('!')
        .unwrap_or(head)
        .trim_end()
        .strip_suffix('#')?;
    let close = text[string.hi..].trim_start();
    let hi = text.len() - close.strip_prefix(']')?.len();
    Some((Span::new(head.len(), hi), is_inner))
}

/// What is between the quotes of a string without escapes, and what would end it.
fn plain_string(text: &str, string: Span) -> Option<(Span, &'static [&'static str])> {
    let source = string.text(text);
    if let Some(raw) = source.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = Span::new(string.lo + hashes + 2, string.hi - hashes - 1);
        let forbidden: &[&str] = if hashes == 0 { &["\""] } else { &["\"#"] };
        return Some((inner, forbidden));
    }
    let inner = Span::new(string.lo + 1, string.hi - 1);
    (source.starts_with('"') && !inner.text(text).contains('\\')).then_some((inner, &["\"", "\\"]))
}

/// Whether nothing but blanks, comments and attributes stands between two pieces: they document the same item.
fn only_attributes(between: &str) -> bool {
    let mut bare = String::new();
    let mut at = 0;
    for comment in comments(between, Span::new(0, between.len())) {
        bare.push_str(&between[at..comment.span.lo]);
        at = comment.span.hi;
    }
    bare.push_str(&between[at..]);
    let mut rest = bare.trim_start();
    while let Some(open) = rest.strip_prefix('#') {
        let open = open
            .trim_start()
            .strip_prefix('!')
            .unwrap_or(open)
            .trim_start();
        let Some(end) = matching_bracket(open) else {
            return false;
        };
        rest = open[end..].trim_start();
    }
    rest.is_empty()
}

fn matching_bracket(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return Some(at + 1),
            b']' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Cuts off the indentation that all lines of a form share.
fn unindent(text: &str, doc: &mut Doc, forms: &[Form]) {
    let blanks = |line: &DocLine| {
        let content = line.content.text(text);
        content.len() - content.trim_start_matches([' ', '\t']).len()
    };
    let is_attribute = |form: &Form| matches!(form, Form::Attribute { .. });
    for attributes in [false, true] {
        let own = |at: &usize| is_attribute(&forms[*at]) == attributes;
        let shared = (0..doc.lines.len())
            .filter(own)
            .filter(|&at| !doc.lines[at].content.text(text).trim().is_empty())
            .map(|at| blanks(&doc.lines[at]))
            .min();
        for at in (0..doc.lines.len()).filter(own) {
            let cut = shared.unwrap_or(0).min(blanks(&doc.lines[at]));
            doc.lines[at].content.lo += cut;
        }
    }
}
