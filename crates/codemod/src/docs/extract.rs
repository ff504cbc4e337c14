//! The examples of a file as code that can be analysed, line by line.

use super::comments::{Doc, DocLine, docs};
use super::markdown::{Language, blocks, language, quote_len};
use crate::syntax::trivia::{line_end, next_line};
use crate::syntax::{File, ItemKind, LineIndex, Span, StmtKind, parse};

/// A block of Rust in a documentation.
#[derive(Debug, Clone)]
pub struct Example {
    pub language: Language,
    /// Not empty.
    pub lines: Vec<CodeLine>,
}

/// A line of an example, and where it stands.
#[derive(Debug, Clone)]
pub struct CodeLine {
    /// The source line, without its line end.
    pub full: Span,
    /// From the marks of the comment to the end of what belongs to the documentation.
    pub content: Span,
    /// Behind `# `, which rustdoc does not show.
    pub is_hidden: bool,
    pub code: String,
    pub forbidden: &'static [&'static str],
}

impl CodeLine {
    /// Where a byte of the code stands in the file.
    pub fn at(&self, column: usize) -> usize {
        self.content
            .hi
            .saturating_sub(self.code.len().saturating_sub(column))
            .max(self.content.lo)
    }

    /// Other code in the place of this line's, with the same marks around it; none if it cannot stand there.
    pub fn render(&self, text: &str, code: &str) -> Option<String> {
        let content = content_of(code, self.is_hidden);
        if strip(&content) != (self.is_hidden, code.to_owned())
            || self.forbidden.iter().any(|mark| content.contains(mark))
        {
            return None;
        }
        let head = &text[self.full.lo..self.content.lo];
        let tail = &text[self.content.hi..self.full.hi];
        Some(if content.is_empty() && tail.is_empty() {
            head.trim_end().to_owned()
        } else {
            format!("{head}{content}{tail}")
        })
    }

    /// Whether nothing but marks of the documentation stands beside the code.
    pub fn is_alone(&self, text: &str) -> bool {
        // A block quote's marks are the documentation's too.
        let head = text[self.full.lo..self.content.lo]
            .trim_end_matches(['>', ' '])
            .trim();
        let tail = text[self.content.hi..self.full.hi].trim();
        let opens = matches!(head, "" | "*" | "///" | "//!")
            || (head.starts_with('#') && head.contains("doc"));
        opens && (tail.is_empty() || (tail.ends_with(']') && head.starts_with('#')))
    }
}

/// What rustdoc compiles of a line, and whether it hides it.
fn strip(content: &str) -> (bool, String) {
    let trimmed = content.trim();
    if trimmed.starts_with("##") {
        return (false, content.replacen("##", "#", 1));
    }
    match trimmed.strip_prefix("# ") {
        // Blanks at the end are part of neither.
        Some(_) => (true, content.trim_start()[2..].to_owned()),
        None if trimmed == "#" => (true, String::new()),
        None => (false, content.to_owned()),
    }
}

fn content_of(code: &str, is_hidden: bool) -> String {
    match (is_hidden, code.is_empty()) {
        (true, true) => "#".into(),
        (true, false) => format!("# {code}"),
        (false, _) => {
            let trimmed = code.trim();
            let looks_hidden =
                trimmed == "#" || trimmed.starts_with("# ") || trimmed.starts_with("##");
            if looks_hidden {
                code.replacen('#', "##", 1)
            } else {
                code.to_owned()
            }
        }
    }
}

/// The examples of a file, in order.
pub fn examples(file: &File, text: &str) -> Vec<Example> {
    docs(file, text)
        .iter()
        .flat_map(|doc| examples_of(doc, text))
        .collect()
}

/// The examples of a Markdown file, in order.
pub fn examples_in_markdown(text: &str) -> Vec<Example> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let hi = line_end(text, at);
        let content = Span::new(at, at + text[at..hi].trim_end_matches('\r').len());
        lines.push(DocLine {
            content,
            forbidden: &[],
        });
        at = next_line(text, at);
    }
    examples_of(&Doc { at: 0, lines }, text)
}

fn examples_of(doc: &Doc, text: &str) -> Vec<Example> {
    let mut out = Vec::new();
    for code in blocks(doc, text).code {
        let Some(language) = language(&code.info) else {
            continue;
        };
        let lines: Vec<CodeLine> = doc.lines[code.lines.clone()]
            .iter()
            .map(|line| {
                let mut content = line.content;
                if code.is_quoted {
                    content.lo += quote_len(content.text(text));
                }
                let source = content.text(text);
                let blanks = source.len() - source.trim_start_matches([' ', '\t']).len();
                content.lo += blanks.min(code.indent);
                let (is_hidden, stripped) = strip(content.text(text));
                if is_hidden {
                    let source = content.text(text);
                    content.lo += source.len() - source.trim_start().len();
                }
                CodeLine {
                    full: line.full(text),
                    content,
                    is_hidden,
                    code: stripped,
                    forbidden: line.forbidden,
                }
            })
            .collect();
        if !lines.is_empty() {
            out.push(Example { language, lines });
        }
    }
    out
}

pub const OPEN: &str = "fn main() {";
pub const CLOSE: &str = "}";

/// An example as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    pub text: String,
    /// How many lines stand in front of the `fn main() {` that was put around the rest; none where there is one.
    pub opens_at: Option<usize>,
}

impl Snippet {
    /// Makes a file of an example as rustdoc does: what has no `main` gets one. Imports at its top stay outside.
    ///
    /// None if it does not parse.
    pub fn of(example: &Example) -> Option<Snippet> {
        let lines: Vec<&str> = example
            .lines
            .iter()
            .map(|line| line.code.as_str())
            .collect();
        let bare = format!("{}\n", lines.join("\n"));
        if let Ok(file) = parse(&bare) {
            let has_main = file.items.iter().any(|item| {
                matches!(item.kind, ItemKind::Fn(_))
                    && item.name.as_ref().is_some_and(|name| name.text == "main")
            });
            if has_main || example.language.is_whole {
                return Some(Snippet {
                    text: bare,
                    opens_at: None,
                });
            }
        }
        let wrapped = wrap(&lines, 0);
        let n_imports = leading_imports(&parse(&wrapped).ok()?, &wrapped);
        let text = wrap(&lines, n_imports);
        // An import that ends on a line with something else cannot be parted from it.
        if parse(&text).is_ok() {
            Some(Snippet {
                text,
                opens_at: Some(n_imports),
            })
        } else {
            Some(Snippet {
                text: wrapped,
                opens_at: Some(0),
            })
        }
    }

    /// The example's line that a line of the text is; none for what was put around it.
    pub fn example_line(&self, line: usize) -> Option<usize> {
        match self.opens_at {
            Some(opens_at) if line == opens_at => None,
            Some(opens_at) if line > opens_at => Some(line - 1),
            _ => Some(line),
        }
    }

    /// Names the snippet in the world: it is the same wherever the same text stands in a file.
    pub fn key(&self, host: &str, language: Language) -> String {
        let edition = language
            .edition
            .map_or(String::new(), |year| format!(" in edition {year}"));
        format!("example of {host}{edition}\n{}", self.text)
    }
}

fn wrap(lines: &[&str], n_imports: usize) -> String {
    let (before, inside) = lines.split_at(n_imports);
    before
        .iter()
        .chain([&OPEN])
        .chain(inside)
        .chain([&CLOSE])
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Lines at the top of a wrapped example that hold imports and nothing else.
fn leading_imports(file: &File, wrapped: &str) -> usize {
    let Some(ItemKind::Fn(f)) = file.items.first().map(|item| &item.kind) else {
        return 0;
    };
    let Some(body) = &f.body else { return 0 };
    let index = LineIndex::new(wrapped);
    let mut n_lines = 0;
    for stmt in &body.stmts {
        let is_import = matches!(&stmt.kind, StmtKind::Item(item) if matches!(item.kind, ItemKind::Use(_) | ItemKind::ExternCrate { .. }));
        // Line 1 is the opening one.
        let (first, last) = (
            index.line(stmt.span.lo) - 1,
            index.line(stmt.span.hi.saturating_sub(1)) - 1,
        );
        if !is_import {
            // An import and something else on one line stay together.
            return n_lines.min(first.saturating_sub(1));
        }
        n_lines = last;
    }
    n_lines
}
