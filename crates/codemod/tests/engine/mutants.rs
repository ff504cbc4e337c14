//! Inputs that nobody wrote: fixtures with tokens, lines and bytes thrown about.
//!
//! A mutation is a value, so that proptest can shrink a list of them. Places are drawn from a large range and taken modulo
//! what there is, so that each mutation applies to any text.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use proptest::prelude::*;

/// One change of a text.
#[derive(Debug, Clone)]
pub enum Mutation {
    DeleteLine(usize),
    RepeatLine(usize),
    SwapLines(usize, usize),
    DeleteToken(usize),
    RepeatToken(usize),
    /// A token gets the text of another.
    CopyToken(usize, usize),
    SwapTokens(usize, usize),
    ReplaceToken(usize, &'static str),
    InsertBeforeToken(usize, &'static str),
    /// All of one identifier get another name.
    Rename(usize, &'static str),
    /// What is inside of a pair of delimiters is put into something.
    Wrap(usize, (&'static str, &'static str)),
    /// The delimiters of a pair go.
    Unwrap(usize),
    Empty(usize),
    /// A group gets the text of another of the same delimiters.
    CopyGroup(usize, usize),
    /// A statement is moved to the front of another.
    MoveStatement(usize, usize),
    /// An item of another text is put behind this one.
    Borrow(usize, usize),
    /// All of the text in a module.
    Nest,
    Truncate(usize),
    InsertByte(usize, u8),
    DeleteByte(usize),
    FlipBit(usize, u8),
    Crlf,
    Tabs,
    NoFinalNewline,
    ByteOrderMark,
}

/// Words and marks that matter to the engine, or to the parser.
const TOKENS: &[&str] = &[
    " ",
    "\n",
    "\r\n",
    "(",
    ")",
    "{",
    "}",
    ";",
    "::",
    "&",
    "mut ",
    "ref ",
    "match ",
    "if let ",
    "else ",
    "| ",
    "=> ",
    "_ ",
    "'a ",
    "r#",
    "\"",
    "// ",
    "/* ",
    "#[cfg(test)] ",
    "#[cfg(feature = \"x\")] ",
    "pub ",
    "async ",
    "move |x| ",
    "unsafe ",
    "?",
    ".await",
    "🦀",
    "é",
    "\t",
    "ReplayBufferType",
    "BatchSample",
    "gpu_batch",
    "GpuPrioritized(g)",
    "Uniform(_)",
    ".as_gpu()",
    ".is_gpu()",
    ".clone()",
    ".unwrap()",
    "use ml_dqn::*;",
    "GpuReplayBuffer",
    "return;",
    "return ",
    "break ",
    "continue;",
    "loop {",
    "macro_rules! m ",
    "box_it!(",
    "dyn ",
    "impl ",
    "where ",
    "!",
    "true ",
    "false ",
    "&& ",
    "|| ",
    "..",
    "@ ",
    "as ",
    "const X: usize = 1;",
    "let _ = ",
    "drop(",
    "Some(",
    "None ",
    "Ok(",
    "crate::",
    "self::",
    "super::",
    "extern crate ml_dqn as lib;",
    "#![allow(unused)]",
    "\u{feff}",
    "'\\''",
    "b\"\\xff\"",
    "r##\"a\"##",
    "1_u8",
    "1.",
    "..=",
    "<",
    ">",
    "->",
];

/// Between two tokens any of these changes no meaning.
const TRIVIA: &[&str] = &[
    " ",
    "\n",
    "\n\n",
    "\t",
    " /* in between */ ",
    " // to the end\n",
    "\n    // on its own line\n",
    " /* over\n two */ ",
    "\r\n",
    "/**/",
];

const NAMES: &[&str] = &[
    "memory", "gpu", "g", "batch", "buffer", "b", "x", "r#type", "sample", "it", "payload",
    "_unused", "ring",
];

/// What a body may be put into; the first kind compiles wherever the body did, mostly.
const WRAPS: &[(&str, &str)] = &[
    ("{ ", " }"),
    ("if true { ", " }"),
    ("unsafe { ", " }"),
    ("(", ")"),
    ("(|| { ", " })()"),
    ("async { ", " };"),
    ("'l: { ", " }"),
    ("loop { ", "; }"),
    ("match () { () => { ", " } }"),
    ("#[cfg(unix)] { ", " }"),
    ("let _ = { ", " };"),
    ("macro_rules! m { () => { ", " } }"),
    ("dbg!(", ")"),
    ("Some(", ")"),
    ("return ", ""),
    ("if let Some(_) = Some(1) { ", " } else { todo!() }"),
    ("/* ", " */"),
    ("// migrate: keep\n", ""),
];

fn place() -> impl Strategy<Value = usize> + Clone {
    any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20))
}

/// Any mutation.
pub fn mutation() -> impl Strategy<Value = Mutation> {
    let two = || (place(), place());
    let token = || prop::sample::select(TOKENS);
    prop_oneof![
        8 => gentle(),
        2 => place().prop_map(Mutation::DeleteLine),
        2 => place().prop_map(Mutation::DeleteToken),
        2 => place().prop_map(Mutation::RepeatToken),
        2 => two().prop_map(|(a, b)| Mutation::CopyToken(a, b)),
        2 => two().prop_map(|(a, b)| Mutation::SwapTokens(a, b)),
        2 => (place(), token()).prop_map(|(at, token)| Mutation::ReplaceToken(at, token)),
        4 => (place(), token()).prop_map(|(at, token)| Mutation::InsertBeforeToken(at, token)),
        1 => place().prop_map(Mutation::Unwrap),
        1 => place().prop_map(Mutation::Empty),
        1 => place().prop_map(Mutation::Truncate),
        1 => (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::InsertByte(at, byte)),
        1 => place().prop_map(Mutation::DeleteByte),
        1 => (place(), 0..8_u8).prop_map(|(at, bit)| Mutation::FlipBit(at, bit)),
    ]
}

/// Mutations after which a text often still compiles.
pub fn gentle() -> impl Strategy<Value = Mutation> {
    let two = || (place(), place());
    prop_oneof![
        6 => (place(), prop::sample::select(TRIVIA)).prop_map(|(at, text)| Mutation::InsertBeforeToken(at, text)),
        4 => (place(), prop::sample::select(WRAPS)).prop_map(|(at, pair)| Mutation::Wrap(at, pair)),
        4 => (place(), prop::sample::select(NAMES)).prop_map(|(at, name)| Mutation::Rename(at, name)),
        2 => two().prop_map(|(a, b)| Mutation::CopyGroup(a, b)),
        2 => two().prop_map(|(a, b)| Mutation::MoveStatement(a, b)),
        2 => two().prop_map(|(a, b)| Mutation::SwapLines(a, b)),
        2 => place().prop_map(Mutation::RepeatLine),
        3 => two().prop_map(|(a, b)| Mutation::Borrow(a, b)),
        1 => Just(Mutation::Nest),
        1 => Just(Mutation::Crlf),
        1 => Just(Mutation::Tabs),
        1 => Just(Mutation::NoFinalNewline),
        1 => Just(Mutation::ByteOrderMark),
    ]
}

/// The text after one mutation; `others` are what it may borrow from.
pub fn mutate(source: &[u8], mutation: &Mutation, others: &[&[u8]]) -> Vec<u8> {
    match bytes_mutated(source, mutation) {
        Some(bytes) => bytes,
        None => text_mutated(&String::from_utf8_lossy(source), mutation, others).into_bytes(),
    }
}

fn bytes_mutated(source: &[u8], mutation: &Mutation) -> Option<Vec<u8>> {
    let mut bytes = source.to_vec();
    match mutation {
        Mutation::InsertByte(at, byte) => bytes.insert(at % (bytes.len() + 1), *byte),
        Mutation::DeleteByte(at) if !bytes.is_empty() => {
            bytes.remove(at % source.len());
        }
        Mutation::FlipBit(at, bit) if !bytes.is_empty() => bytes[at % source.len()] ^= 1 << bit,
        Mutation::DeleteByte(_) | Mutation::FlipBit(..) => {}
        _ => return None,
    }
    Some(bytes)
}

fn text_mutated(text: &str, mutation: &Mutation, others: &[&[u8]]) -> String {
    let changed = match mutation {
        Mutation::DeleteLine(at) => on_lines(text, |lines| {
            lines.remove(at % lines.len());
        }),
        Mutation::RepeatLine(at) => on_lines(text, |lines| {
            let at = at % lines.len();
            lines.insert(at, lines[at]);
        }),
        Mutation::SwapLines(a, b) => on_lines(text, |lines| {
            let n = lines.len();
            lines.swap(a % n, b % n);
        }),
        Mutation::Truncate(at) => Some(text[..boundary(text, *at)].to_owned()),
        Mutation::Crlf => Some(text.replace("\r\n", "\n").replace('\n', "\r\n")),
        Mutation::Tabs => Some(text.replace("    ", "\t")),
        Mutation::NoFinalNewline => Some(text.trim_end().to_owned()),
        Mutation::ByteOrderMark => Some(format!("\u{feff}{}", text.trim_start_matches('\u{feff}'))),
        Mutation::Nest => Some(format!("mod nested {{\n{text}\n}}\n")),
        Mutation::Borrow(which, at) => {
            borrowed(others, *which, *at).map(|item| format!("{text}\n{item}\n"))
        }
        _ => tokens_mutated(text, mutation),
    };
    changed.unwrap_or_else(|| text.to_owned())
}

fn on_lines(text: &str, change: impl FnOnce(&mut Vec<&str>)) -> Option<String> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    (!lines.is_empty()).then(|| {
        change(&mut lines);
        lines.concat()
    })
}

/// The nearest place that is not within a character.
fn boundary(text: &str, at: usize) -> usize {
    (at % (text.len() + 1)..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

/// Where the tokens of a text are, and its pairs of delimiters.
#[derive(Debug, Default)]
struct Lexed {
    tokens: Vec<(Range<usize>, bool)>,
    /// What is inside, and between which delimiters.
    groups: Vec<(Range<usize>, Delimiter)>,
    /// Statements of a body, with their semicolons.
    statements: Vec<Range<usize>>,
}

fn lex(text: &str) -> Option<Lexed> {
    let tree = TokenStream::from_str(text.trim_start_matches('\u{feff}'));
    let cut = text.len() - text.trim_start_matches('\u{feff}').len();
    let lexed = tree.ok().map(|tree| {
        let mut lexed = Lexed::default();
        collect(tree, cut, &mut lexed);
        lexed.tokens.retain(|(range, _)| {
            text.get(range.clone())
                .is_some_and(|token| !token.is_empty())
        });
        lexed.tokens.sort_by_key(|(range, _)| range.start);
        lexed.tokens.dedup();
        lexed
    });
    proc_macro2::extra::invalidate_current_thread_spans();
    lexed
}

fn collect(tree: TokenStream, cut: usize, lexed: &mut Lexed) {
    let shift = |range: Range<usize>| range.start + cut..range.end + cut;
    let mut start = None;
    for token in tree {
        let whole = shift(token.span().byte_range());
        let from = *start.get_or_insert(whole.start);
        match token {
            TokenTree::Group(group) => {
                let (open, close) = (
                    shift(group.span_open().byte_range()),
                    shift(group.span_close().byte_range()),
                );
                if group.delimiter() != Delimiter::None && open.end <= close.start {
                    lexed.tokens.push((open.clone(), false));
                    lexed.tokens.push((close.clone(), false));
                    lexed
                        .groups
                        .push((open.end..close.start, group.delimiter()));
                }
                collect(group.stream(), cut, lexed);
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => {
                lexed.tokens.push((whole.clone(), false));
                lexed.statements.push(from..whole.end);
                start = None;
            }
            TokenTree::Ident(_) => lexed.tokens.push((whole, true)),
            TokenTree::Punct(_) | TokenTree::Literal(_) => lexed.tokens.push((whole, false)),
        }
    }
}

fn tokens_mutated(text: &str, mutation: &Mutation) -> Option<String> {
    let lexed = lex(text)?;
    let splice = |range: Range<usize>, new: &str| {
        Some(format!(
            "{}{new}{}",
            text.get(..range.start)?,
            text.get(range.end..)?
        ))
    };
    let token = |at: &usize| {
        lexed
            .tokens
            .get(at % lexed.tokens.len().max(1))
            .map(|(range, _)| range.clone())
    };
    let group = |at: &usize| lexed.groups.get(at % lexed.groups.len().max(1)).cloned();
    let swap = |a: Range<usize>, b: Range<usize>| {
        let (a, b) = if a.start <= b.start { (a, b) } else { (b, a) };
        (a.end <= b.start).then(|| {
            [
                &text[..a.start],
                &text[b.clone()],
                &text[a.end..b.start],
                &text[a.clone()],
                &text[b.end..],
            ]
            .concat()
        })
    };
    match mutation {
        Mutation::DeleteToken(at) => splice(token(at)?, ""),
        Mutation::RepeatToken(at) => {
            let range = token(at)?;
            splice(range.end..range.end, &format!(" {}", &text[range]))
        }
        Mutation::CopyToken(from, to) => splice(token(to)?, &text[token(from)?]),
        Mutation::SwapTokens(a, b) => swap(token(a)?, token(b)?),
        Mutation::ReplaceToken(at, new) => splice(token(at)?, new),
        Mutation::InsertBeforeToken(at, new) => {
            let at = token(at)?.start;
            splice(at..at, new)
        }
        Mutation::Rename(at, name) => {
            let names: Vec<&str> = lexed
                .tokens
                .iter()
                .filter(|(range, is_name)| {
                    *is_name && text[range.clone()].starts_with(|first: char| first.is_lowercase())
                })
                .map(|(range, _)| &text[range.clone()])
                .filter(|name| syn::parse_str::<syn::Ident>(name).is_ok())
                .collect();
            let old = *names.get(at % names.len().max(1))?;
            let mut out = String::new();
            let mut done = 0;
            for (range, _) in lexed
                .tokens
                .iter()
                .filter(|(range, is_name)| *is_name && &text[range.clone()] == old)
            {
                out += text.get(done..range.start)?;
                out += name;
                done = range.end;
            }
            Some(out + &text[done..])
        }
        Mutation::Wrap(at, (before, behind)) => {
            let (range, _) = group(at)?;
            let inner = &text[range.clone()];
            splice(range, &format!(" {before}{inner}{behind} "))
        }
        Mutation::Unwrap(at) => {
            let (range, _) = group(at)?;
            let inner = &text[range.clone()];
            splice(range.start.checked_sub(1)?..range.end + 1, inner)
        }
        Mutation::Empty(at) => splice(group(at)?.0, ""),
        Mutation::CopyGroup(from, to) => {
            let (from, delimiter) = group(from)?;
            let same: Vec<&Range<usize>> = lexed
                .groups
                .iter()
                .filter(|(_, other)| *other == delimiter)
                .map(|(range, _)| range)
                .collect();
            splice(
                same.get(to % same.len().max(1))
                    .map(|range| (*range).clone())?,
                &text[from],
            )
        }
        Mutation::MoveStatement(from, to) => {
            let at = |at: &usize| {
                lexed
                    .statements
                    .get(at % lexed.statements.len().max(1))
                    .cloned()
            };
            let (from, to) = (at(from)?, at(to)?);
            if from.end <= to.start {
                Some(
                    [
                        &text[..from.start],
                        &text[from.end..to.start],
                        &text[from.clone()],
                        " ",
                        &text[to.start..],
                    ]
                    .concat(),
                )
            } else if to.start < from.start {
                Some(
                    [
                        &text[..to.start],
                        &text[from.clone()],
                        " ",
                        &text[to.start..from.start],
                        &text[from.end..],
                    ]
                    .concat(),
                )
            } else {
                None
            }
        }
        _ => None,
    }
}

/// An item of another text.
fn borrowed(others: &[&[u8]], which: usize, at: usize) -> Option<String> {
    let text = std::str::from_utf8(others.get(which % others.len().max(1))?).ok()?;
    let ranges: Vec<Range<usize>> = {
        use syn::spanned::Spanned as _;
        let file = syn::parse_file(text.trim_start_matches('\u{feff}')).ok();
        let ranges = file.map(|file| {
            file.items
                .iter()
                .map(|item| item.span().byte_range())
                .collect()
        });
        proc_macro2::extra::invalidate_current_thread_spans();
        ranges?
    };
    text.get(ranges.get(at % ranges.len().max(1))?.clone())
        .map(str::to_owned)
}
