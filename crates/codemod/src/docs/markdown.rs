//! Which lines of a documentation are code, and which of that code rustdoc compiles.

use super::comments::Doc;
use std::ops::Range;

/// A block of code: fenced, or indented by four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// What stands behind the opening fence.
    pub info: String,
    /// Its lines, without the fences.
    pub lines: Range<usize>,
    /// Blanks in front of the fence, which are not part of the code.
    pub indent: usize,
    /// Stands in a block quote: each line begins with its marks, see [`quote_len`].
    pub is_quoted: bool,
}

/// The blocks of code of a documentation, and the runs of lines between them.
#[derive(Debug, Default)]
pub struct Blocks {
    pub code: Vec<Code>,
    pub prose: Vec<Range<usize>>,
}

pub fn blocks(doc: &Doc, text: &str) -> Blocks {
    let line = |at: usize| doc.lines[at].content.text(text);
    let n = doc.lines.len();
    let mut out = Blocks::default();
    let mut prose_from = 0;
    let mut in_list = false;
    let mut after_blank = true;
    let mut at = 0;
    while at < n {
        let content = line(at);
        let trimmed = content.trim_start();
        let indent = content.len() - trimmed.len();
        if let Some((mark, len, info)) = fence(trimmed) {
            let close = (at + 1..n).find(|&end| closes(line(end), mark, len));
            let end = close.unwrap_or(n);
            out.prose.push(prose_from..at);
            out.code.push(Code {
                info: info.to_owned(),
                lines: at + 1..end,
                indent,
                is_quoted: false,
            });
            at = (end + 1).min(n);
            prose_from = at;
            after_blank = true;
            continue;
        }
        let quote = quote_len(content);
        if quote > 0
            && let Some((mark, len, info)) = fence(content[quote..].trim_start())
        {
            // The quote's end is the block's end.
            let inside = (at + 1..n).take_while(|&end| quote_len(line(end)) > 0);
            let close = inside
                .clone()
                .find(|&end| closes(&line(end)[quote_len(line(end))..], mark, len));
            let end = close.unwrap_or(at + 1 + inside.count());
            out.prose.push(prose_from..at);
            let fenced = &content[quote..];
            out.code.push(Code {
                info: info.to_owned(),
                lines: at + 1..end,
                indent: fenced.len() - fenced.trim_start().len(),
                is_quoted: true,
            });
            at = end + usize::from(close.is_some());
            prose_from = at;
            after_blank = true;
            continue;
        }
        if trimmed.is_empty() {
            after_blank = true;
            at += 1;
            continue;
        }
        if indent >= 4 && after_blank && !in_list {
            let mut end = at + 1;
            while end < n && (line(end).trim().is_empty() || line(end).starts_with("    ")) {
                end += 1;
            }
            while line(end - 1).trim().is_empty() {
                end -= 1;
            }
            out.prose.push(prose_from..at);
            out.code.push(Code {
                info: String::new(),
                lines: at..end,
                indent: 4,
                is_quoted: false,
            });
            at = end;
            prose_from = end;
            continue;
        }
        if is_list_item(trimmed) {
            in_list = true;
        } else if after_blank && indent == 0 {
            in_list = false;
        }
        after_blank = false;
        at += 1;
    }
    out.prose.push(prose_from..n);
    out.prose.retain(|range| !range.is_empty());
    out
}

/// How long the marks of a block quote at the start of a line are, with the blank that belongs to each.
pub fn quote_len(line: &str) -> usize {
    let mut len = 0;
    loop {
        let rest = &line[len..];
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        if blanks > 3 || !rest[blanks..].starts_with('>') {
            return len;
        }
        len += blanks + 1;
        len += usize::from(line[len..].starts_with(' '));
    }
}

/// The mark of an opening fence, how often it stands there, and what follows.
fn fence(trimmed: &str) -> Option<(char, usize, &str)> {
    let mark = trimmed
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = trimmed.trim_start_matches(mark);
    let len = trimmed.len() - rest.len();
    (len >= 3 && !(mark == '`' && rest.contains('`'))).then(|| (mark, len, rest.trim()))
}

fn closes(line: &str, mark: char, len: usize) -> bool {
    let line = line.trim();
    line.len() >= len && line.chars().all(|c| c == mark)
}

fn is_list_item(trimmed: &str) -> bool {
    let digits = trimmed.trim_start_matches(|c: char| c.is_ascii_digit());
    let ordered =
        digits.len() < trimmed.len() && (digits.starts_with(". ") || digits.starts_with(") "));
    ordered
        || ["- ", "* ", "+ "]
            .iter()
            .any(|mark| trimmed.starts_with(mark))
}

/// What rustdoc makes of a block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// Compiled where its crate is a library.
    pub is_compiled: bool,
    /// Not put into a `main`.
    pub is_whole: bool,
    pub edition: Option<u16>,
}

/// Reads what stands behind a fence; none for what is not Rust, or is there to be refused by the compiler.
///
/// Words and their meaning: the rustdoc book, "Documentation tests: Attributes".
pub fn language(info: &str) -> Option<Language> {
    let mut language = Language {
        is_compiled: true,
        is_whole: false,
        edition: None,
    };
    let mut is_rust = false;
    let mut is_other = false;
    // `{.class}` and comments in parentheses say nothing about the language.
    let bare: String = info
        .split('{')
        .enumerate()
        .map(|(at, part)| {
            if at == 0 {
                part
            } else {
                part.split_once('}').map_or("", |(_, rest)| rest)
            }
        })
        .collect();
    for word in bare.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
        match word {
            "rust" => is_rust = true,
            "should_panic" | "no_run" | "standalone_crate" | "standalone" => {}
            "test_harness" => language.is_whole = true,
            "compile_fail" => return None,
            "custom" => is_other = true,
            _ if word == "ignore" || word.starts_with("ignore-") => language.is_compiled = false,
            _ => match word
                .strip_prefix("edition")
                .and_then(|year| year.parse().ok())
            {
                Some(year) => language.edition = Some(year),
                None if is_error_code(word) => {}
                None => is_other = true,
            },
        }
    }
    (is_rust || !is_other).then_some(language)
}

fn is_error_code(word: &str) -> bool {
    word.len() == 5
        && word
            .strip_prefix('E')
            .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}
