//! Tokens of macros that can be read after all.
//!
//! What a `macro_rules!` of this module writes, and the arguments of a macro that is not of `std`, are Rust more often than
//! not, once `$name` is taken for an identifier and a repetition for what it repeats. Both are written over with as many
//! bytes, so that every place in the reading is one in the file.

use std::collections::HashMap;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::tokens::{Kind, Opaque, opaque};
use super::{Aliased, Found, Scopes};
use crate::analysis::analyze;
use crate::edit::{Edit, Rope};
use crate::rewrite::Cx;
use crate::rewrite::nodes::Nodes;
use crate::syntax::{self, ExprKind, ItemKind, Span};
use crate::world::ModId;

/// What there is to do in the tokens of macros that could be read, by where the tokens begin.
pub fn look(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    aliased: &Aliased,
    depth: usize,
) -> HashMap<usize, Found> {
    let mut out = HashMap::new();
    if depth > 4 {
        return out;
    }
    for tokens in opaque(cx) {
        let Some(module) = scopes.module_at(tokens.span.lo) else {
            continue;
        };
        let stretches = match &tokens.kind {
            Kind::Rules { name } if is_of_module(cx, scopes, module, name) => {
                transcribers(cx.text, tokens.span)
            }
            Kind::Arguments => Some(vec![tokens.span]),
            _ => None,
        };
        let Some(stretches) = stretches else { continue };
        let mut all = Found::default();
        let read = stretches.into_iter().all(|span| {
            match readable(cx.text, span).and_then(|text| read(cx, module, aliased, &text, depth)) {
                Some(found) => {
                    shift(&mut all, found, span.lo);
                    true
                }
                None => false,
            }
        });
        // All of it, or the tokens are looked through as such.
        if read && !tokens.is_exported {
            out.insert(tokens.span.lo, all);
        }
    }
    out
}

/// Whether a macro is used in the module alone that declares it: what it writes means the same then wherever it is used.
fn is_of_module(cx: &Cx<'_>, scopes: &Scopes<'_>, module: ModId, name: &str) -> bool {
    // One that is not exported is seen in its own crate alone.
    let krate = cx.world.mods[module].krate;
    let elsewhere = cx.world.files.iter().enumerate().any(|(id, file)| {
        id != cx.id
            && file
                .contexts
                .iter()
                .any(|&other| cx.world.mods[other].krate == krate)
            && file
                .parsed
                .as_ref()
                .is_ok_and(|file| file.idents.iter().any(|ident| ident.text == name))
    });
    if elsewhere {
        return false;
    }
    let calls = cx.nodes.exprs.iter().filter_map(|expr| match &expr.kind {
        ExprKind::Macro(mac) => Some(mac),
        _ => None,
    });
    let of_items = cx
        .nodes
        .items
        .iter()
        .filter_map(|(item, _)| match &item.kind {
            ItemKind::MacroCall(mac) => Some(mac),
            _ => None,
        });
    calls
        .chain(of_items)
        .filter(|mac| mac.path.last().name.text == name)
        .all(|mac| scopes.module_at(mac.span.lo) == Some(module))
}

/// What the arms of a `macro_rules!` write, between their delimiters.
fn transcribers(text: &str, body: Span) -> Option<Vec<Span>> {
    let stream: TokenStream = body.text(text).parse().ok()?;
    let mut out = Vec::new();
    let mut after_arrow = false;
    for tree in stream {
        match tree {
            TokenTree::Group(group) if after_arrow => {
                let open = group.span_open().byte_range();
                let close = group.span_close().byte_range();
                out.push(Span::new(body.lo + open.end, body.lo + close.start));
                after_arrow = false;
            }
            TokenTree::Punct(punct) => after_arrow = punct.as_char() == '>',
            _ => after_arrow = false,
        }
    }
    Some(out)
}

/// A stretch of tokens with `$name` as identifiers and repetitions opened, byte for byte as long.
fn readable(text: &str, span: Span) -> Option<String> {
    let source = span.text(text);
    let stream: TokenStream = source.parse().ok()?;
    let mut bytes = source.as_bytes().to_vec();
    open(stream, &mut bytes)?;
    String::from_utf8(bytes).ok()
}

fn open(stream: TokenStream, bytes: &mut [u8]) -> Option<()> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        match (&trees[at], trees.get(at + 1)) {
            (TokenTree::Punct(dollar), Some(TokenTree::Ident(_))) if dollar.as_char() == '$' => {
                bytes[dollar.span().byte_range().start] = b'_';
                at += 2;
            }
            (TokenTree::Punct(dollar), Some(TokenTree::Group(group)))
                if dollar.as_char() == '$' && group.delimiter() == Delimiter::Parenthesis =>
            {
                blank(bytes, dollar.span().byte_range());
                blank(bytes, group.span_open().byte_range());
                blank(bytes, group.span_close().byte_range());
                open(group.stream(), bytes)?;
                at += 2;
                // A separator, and how often.
                for _ in 0..2 {
                    let Some(TokenTree::Punct(punct)) = trees.get(at) else {
                        return None;
                    };
                    blank(bytes, punct.span().byte_range());
                    at += 1;
                    if matches!(punct.as_char(), '*' | '+' | '?') {
                        break;
                    }
                }
            }
            (TokenTree::Punct(dollar), _) if dollar.as_char() == '$' => return None,
            (TokenTree::Group(group), _) => {
                open(group.stream(), bytes)?;
                at += 1;
            }
            _ => at += 1,
        }
    }
    Some(())
}

fn blank(bytes: &mut [u8], range: std::ops::Range<usize>) {
    bytes[range].fill(b' ');
}

/// Reads tokens as items, statements or arguments, whichever they are.
fn read(
    cx: &Cx<'_>,
    module: ModId,
    aliased: &Aliased,
    tokens: &str,
    depth: usize,
) -> Option<Found> {
    const FORMS: [(&str, &str); 3] = [
        ("", ""),
        ("fn _read() {", "\n}"),
        ("fn _read() { _of(", "\n); }"),
    ];
    FORMS.iter().find_map(|(head, tail)| {
        let text = format!("{head}{tokens}{tail}");
        let file = syntax::parse(&text).ok()?;
        let an = analyze(cx.world, &file, cx.id, module);
        let rope = Rope::new(&text);
        let inner = Cx {
            world: cx.world,
            rules: cx.rules,
            id: cx.id,
            file: &file,
            text: &text,
            an: &an,
            nodes: Nodes::new(&file),
            rope: &rope,
            frozen: &[],
        };
        let scopes = Scopes::of(&inner, module);
        let mut found = super::look_in(&inner, &scopes, aliased, depth + 1);
        let within = Span::new(head.len(), head.len() + tokens.len());
        let is_inside = |span: Span| within.contains(span);
        // What was copied from the tokens may hold a `$name` that is none any more.
        let certain = found
            .edits
            .iter()
            .all(|edit| is_inside(edit.span) && !holds_placeholder(&edit.text))
            && found.left.iter().all(|left| is_inside(left.span));
        if !certain {
            return None;
        }
        for edit in &mut found.edits {
            edit.span = back(edit.span, head.len());
        }
        for left in &mut found.left {
            left.span = back(left.span, head.len());
        }
        for (lo, ..) in &mut found.deleted {
            *lo -= head.len();
        }
        Some(found)
    })
}

fn holds_placeholder(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word.starts_with('_') && word.len() > 1)
}

fn back(span: Span, by: usize) -> Span {
    Span::new(span.lo - by, span.hi - by)
}

fn shift(all: &mut Found, found: Found, by: usize) {
    let moved = |span: Span| Span::new(span.lo + by, span.hi + by);
    all.edits.extend(found.edits.into_iter().map(|edit| Edit {
        span: moved(edit.span),
        ..edit
    }));
    all.left.extend(found.left.into_iter().map(|mut left| {
        left.span = moved(left.span);
        left
    }));
    all.deleted.extend(
        found
            .deleted
            .into_iter()
            .map(|(lo, what, why, rule)| (lo + by, what, why, rule)),
    );
}

/// Whether tokens were read, so that nothing but bare names has to be said of them.
pub fn was_read(read: &HashMap<usize, Found>, tokens: &Opaque) -> bool {
    read.contains_key(&tokens.span.lo)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(text: &str) -> Option<String> {
        readable(text, Span::new(0, text.len()))
    }

    #[test]
    fn placeholders_are_as_long_as_what_they_stand_for() {
        let text = "impl A for $ty { $(fn $name() -> $crate::B { $e })* }";
        let expected = "impl A for _ty {   fn _name() -> _crate::B { _e }   }";
        assert_eq!(opened(text).as_deref(), Some(expected));
        assert_eq!(text.len(), expected.len());
        assert_eq!(opened("f($($x),*)").as_deref(), Some("f(  _x   )"));
        assert_eq!(opened("$$x"), None);
    }

    #[test]
    fn arms() {
        let text = "($a:expr) => { one($a) };\n    () => [two()]";
        let spans = transcribers(text, Span::new(0, text.len())).expect("it is a list of arms");
        let found: Vec<&str> = spans.into_iter().map(|span| span.text(text)).collect();
        assert_eq!(found, [" one($a) ", "two()"]);
    }
}
