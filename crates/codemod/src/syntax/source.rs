//! Text to tree: what `syn` does not see is cut off first and added to every range afterwards.

use std::fmt;

use proc_macro2::TokenStream;

use super::lower::Lower;
use super::tree::{File, Span};

/// Why a text is not Rust that this tool can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseFailure {
    /// Byte in the whole text.
    pub at: usize,
    pub message: String,
}

impl fmt::Display for ParseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParseFailure {}

/// Deeper nesting of delimiters than this is refused: the parser is recursive, and a stack overflow cannot be caught.
pub const MAX_NESTING: usize = 600;

/// The stack that a thread which parses needs: chains of operators and `else if` nest without delimiters.
pub const STACK_BYTES: usize = 1 << 30;

/// Runs something that parses on a thread whose stack it will not reach the end of.
///
/// # Panics
/// Where the system gives no thread, and with the panic of what is run.
pub fn on_big_stack<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, run)
            .expect("the system gives a thread");
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Bytes in front of what `syn` gets to see: byte order mark, `#!` line.
fn prefix_len(text: &str) -> usize {
    let mut cut = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let rest = &text[cut..];
    // `#![…]` is an attribute, also with blanks between.
    if rest.starts_with("#!") && !rest[2..].trim_start().starts_with('[') {
        cut += rest.find('\n').unwrap_or(rest.len());
    }
    cut
}

/// Parses a whole file.
///
/// Runs recursively: call it on a thread with [`STACK_BYTES`] of stack.
///
/// # Errors
/// The first syntax error, or nesting over [`MAX_NESTING`].
pub fn parse(text: &str) -> Result<File, ParseFailure> {
    let cut = prefix_len(text);
    let rest = &text[cut..];
    if let Some(at) = too_deep(rest) {
        return Err(ParseFailure {
            at: cut + at,
            message: format!("delimiters nest more than {MAX_NESTING} deep"),
        });
    }
    // Tokens are wanted by the parser and, as they stand, by whoever looks for a name.
    let parsed = rest
        .parse::<TokenStream>()
        .map_err(syn::Error::from)
        .and_then(|tokens| Ok((syn::parse2::<syn::File>(tokens.clone())?, tokens)));
    let result = match parsed {
        Ok((tree, tokens)) => {
            let mut lower = Lower::new(text, cut);
            let mut file = lower.file(&tree);
            if let Some(at) = lower.take_stray_let() {
                proc_macro2::extra::invalidate_current_thread_spans();
                return Err(ParseFailure {
                    at,
                    message: "expected an expression, found a `let`".into(),
                });
            }
            match lower.take_mismatch() {
                None => {
                    lower.tokens(tokens, &mut file);
                    Ok(file)
                }
                // Never seen; it would mean edits in the wrong place.
                Some(at) => Err(ParseFailure {
                    at,
                    message: "the parser's ranges do not match the text".into(),
                }),
            }
        }
        Err(err) => {
            let at = err.span().byte_range().start;
            Err(ParseFailure {
                at: (cut + at).min(text.len()),
                message: err.to_string(),
            })
        }
    };
    // Ranges restart at 0 with each file, but the thread's table of sources only grows.
    proc_macro2::extra::invalidate_current_thread_spans();
    result
}

/// Where delimiters nest too deeply; counts those in strings and comments too, which can only refuse more.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Some(at);
                }
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Byte offsets to lines and columns, both from 1, columns in characters.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    pub fn new(text: &str) -> Self {
        let starts = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1))
            .collect();
        LineIndex { starts }
    }

    /// Line from 1.
    pub fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at)
    }

    pub fn line_column(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.line(at);
        let start = self.starts[line - 1];
        let mut before = &text[start..at.min(text.len())];
        if start == 0 {
            before = before.strip_prefix('\u{feff}').unwrap_or(before);
        }
        (line, before.chars().count() + 1)
    }

    /// The line's bytes, without its line end.
    pub fn line_span(&self, text: &str, line: usize) -> Span {
        let lo = self.starts[line - 1];
        let hi = self.starts.get(line).copied().unwrap_or(text.len());
        let content = text[lo..hi].trim_end_matches(['\n', '\r']);
        Span::new(lo, lo + content.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_what_the_parser_does_not_see() {
        for prefix in [
            "",
            "\u{feff}",
            "#!/usr/bin/env run\n",
            "\u{feff}#!/bin/x\n",
            "#![allow(dead_code)]\n",
        ] {
            let text = format!("{prefix}fn größe() {{ \"äöü\"; x }}");
            let file = parse(&text).unwrap();
            for ident in &file.idents {
                assert_eq!(ident.span.text(&text), ident.text);
            }
            assert!(file.idents.iter().any(|ident| ident.text == "größe"));
        }
    }

    #[test]
    fn deep_nesting_is_an_error_not_a_crash() {
        let text = format!("fn f() {{ {}1{} }}", "(".repeat(20_000), ")".repeat(20_000));
        assert!(parse(&text).unwrap_err().message.contains("nest"));
    }

    #[test]
    fn columns_count_characters() {
        let text = "\u{feff}ä = b;\nc";
        let index = LineIndex::new(text);
        assert_eq!(index.line_column(text, text.find('b').unwrap()), (1, 5));
        assert_eq!(index.line_column(text, text.find('c').unwrap()), (2, 1));
        assert_eq!(index.line_span(text, 1).text(text), "\u{feff}ä = b;");
    }
}
