//! What lies between tokens: comments, blanks, line ends.

use super::tree::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comment {
    pub span: Span,
    /// `//` rather than `/* */`.
    pub is_line: bool,
}

/// The comments within a stretch of text that holds no tokens but punctuation.
///
/// `text[span]` must not cut a string literal: call it for the room between two neighbouring nodes.
pub fn comments(text: &str, span: Span) -> Vec<Comment> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = span.lo;
    while at < span.hi {
        let rest = &bytes[at..span.hi];
        if rest.starts_with(b"//") {
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let len = if len > 0 && rest.get(len - 1) == Some(&b'\r') {
                len - 1
            } else {
                len
            };
            found.push(Comment {
                span: Span::new(at, at + len),
                is_line: true,
            });
            at += len.max(2);
        } else if rest.starts_with(b"/*") {
            let mut depth = 0usize;
            let mut len = 0;
            while len < rest.len() {
                if rest[len..].starts_with(b"/*") {
                    depth += 1;
                    len += 2;
                } else if rest[len..].starts_with(b"*/") {
                    depth -= 1;
                    len += 2;
                    if depth == 0 {
                        break;
                    }
                } else {
                    len += 1;
                }
            }
            found.push(Comment {
                span: Span::new(at, at + len.min(rest.len())),
                is_line: false,
            });
            at += len;
        } else {
            at += 1;
        }
    }
    found
}

/// Start of the line that `at` is in.
pub fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |nl| nl + 1)
}

/// End of the line that `at` is in, before its line end.
pub fn line_end(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |nl| at + nl);
    if end > at && text.as_bytes()[end - 1] == b'\r' {
        end - 1
    } else {
        end
    }
}

/// The start of the next line, or the end of the text.
pub fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |nl| at + nl + 1)
}

/// The blanks at the start of the line that `at` is in.
pub fn indent_of(text: &str, at: usize) -> &str {
    let start = line_start(text, at);
    let line = &text[start..];
    let line = if start == 0 {
        line.strip_prefix('\u{feff}').unwrap_or(line)
    } else {
        line
    };
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Whether nothing but blanks stands between the start of the line and `at`.
pub fn starts_line(text: &str, at: usize) -> bool {
    text[line_start(text, at)..at]
        .trim_start_matches('\u{feff}')
        .chars()
        .all(|c| c == ' ' || c == '\t')
}

/// Whether nothing but blanks stands between `at` and the end of the line.
pub fn ends_line(text: &str, at: usize) -> bool {
    text[at..line_end(text, at)]
        .chars()
        .all(|c| c == ' ' || c == '\t')
}

/// The file's line end: that of its first line.
pub fn eol(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// `text` with every line after the first moved from indentation `from` to `to`; lines inside string literals stay.
pub fn reindent(text: &str, from: &str, to: &str) -> String {
    if from == to {
        return text.to_owned();
    }
    let strings = multiline_strings(text);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let inside = strings.iter().any(|s| s.lo < at && at < s.hi);
        if at == 0 || inside || line.trim().is_empty() {
            out.push_str(line);
        } else if let Some(rest) = line.strip_prefix(from) {
            out.push_str(to);
            out.push_str(rest);
        } else {
            // Less indented than its block: as far left as it stood.
            out.push_str(line);
        }
        at += line.len();
    }
    out
}

/// String literals that span lines.
fn multiline_strings(text: &str) -> Vec<Span> {
    skip_scan(text)
        .into_iter()
        .filter(|span| span.text(text).contains('\n'))
        .collect()
}

/// String literals in a piece of Rust text, found by a small scanner that knows comments, chars and raw strings.
pub fn skip_scan(text: &str) -> Vec<Span> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                at = next_line(text, at);
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                let comment = comments(text, Span::new(at, text.len()));
                at = comment.first().map_or(bytes.len(), |c| c.span.hi);
            }
            b'"' => {
                let lo = at;
                let hashes = bytes[..lo].iter().rev().take_while(|&&b| b == b'#').count();
                let is_raw = bytes[..lo - hashes].last() == Some(&b'r');
                at += 1;
                if is_raw {
                    let close = format!("\"{}", "#".repeat(hashes));
                    at = text[at..]
                        .find(&close)
                        .map_or(bytes.len(), |n| at + n + close.len());
                } else {
                    while at < bytes.len() && bytes[at] != b'"' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at = (at + 1).min(bytes.len());
                }
                found.push(Span::new(lo, at));
            }
            b'\'' => {
                // A char literal, or a lifetime.
                let rest = &text[at + 1..];
                let mut chars = rest.char_indices();
                match chars.next() {
                    Some((_, '\\')) => {
                        at += 1 + rest[2.min(rest.len())..].find('\'').map_or(1, |n| n + 3)
                    }
                    Some((_, _)) if chars.next().is_some_and(|(_, c)| c == '\'') => {
                        at += 1 + rest.char_indices().nth(1).map_or(0, |(n, _)| n) + 1;
                    }
                    _ => at += 1,
                }
            }
            _ => at += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_nest() {
        let text = " /* a /* b */ c */ , // d\n";
        let found = comments(text, Span::new(0, text.len()));
        assert_eq!(
            found.iter().map(|c| c.span.text(text)).collect::<Vec<_>>(),
            ["/* a /* b */ c */", "// d"]
        );
    }

    #[test]
    fn strings_keep_their_lines() {
        let text = "{\n        let s = \"a\n        b\";\n        c\n    }";
        assert_eq!(
            reindent(text, "    ", ""),
            "{\n    let s = \"a\n        b\";\n    c\n}"
        );
        assert_eq!(skip_scan("'\"' '\\'' \"x\" r#\"a\"b\"# 'a").len(), 2);
    }
}
