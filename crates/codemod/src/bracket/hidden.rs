//! Literals of the struct that stand where only tokens are: in bodies of `macro_rules!` and in arguments that cannot be read.

use super::timer::Timer;
use super::{BracketSite, Context, Tree};
use crate::rewrite::Cx;
use crate::syntax::{ExprKind, ItemKind, MacroArgs, Name, Span};
use crate::world::{Ns, Res};

/// The first literal among tokens that lacks the timer: nothing can be written there.
pub(super) fn find(tree: &Tree<'_>, context: &Context<'_>, timer: &Timer) -> Option<BracketSite> {
    let rule = tree.rule;
    for file in 0..tree.files.len() {
        let cx = tree.cx(file);
        for (region, what) in regions(cx) {
            for ident in cx
                .file
                .idents
                .iter()
                .filter(|ident| region.contains(ident.span))
            {
                let Some(span) = literal(tree, context, timer, file, ident) else {
                    continue;
                };
                let reason = format!(
                    "`{}` is built in {what}, where its `{}` cannot be written",
                    rule.structure, timer.field
                );
                let suggestion = format!(
                    "add `{}: {}::{}(&stream)?` to that literal by hand, or build the struct outside of the macro",
                    timer.field, rule.field_type, rule.constructor
                );
                return Some(tree.site(file, span, reason, suggestion));
            }
        }
    }
    None
}

fn regions(cx: &Cx<'_>) -> Vec<(Span, String)> {
    let of_call = |mac: &crate::syntax::MacroCall| {
        (
            mac.inner,
            format!("the arguments of `{}!`", mac.path.last().name.text),
        )
    };
    let items = cx
        .nodes
        .items
        .iter()
        .filter_map(|(item, _)| match &item.kind {
            ItemKind::MacroRules { body } => Some((
                *body,
                match &item.name {
                    Some(name) => format!("the body of `macro_rules! {}`", name.text),
                    None => "the body of a `macro_rules!`".to_owned(),
                },
            )),
            ItemKind::MacroCall(mac) => Some(of_call(mac)),
            _ => None,
        });
    let calls = cx.nodes.exprs.iter().filter_map(|expr| match &expr.kind {
        ExprKind::Macro(mac) if matches!(mac.args, MacroArgs::Opaque) => Some(of_call(mac)),
        _ => None,
    });
    items.chain(calls).collect()
}

/// `Name { field: …, field }` at an identifier, from its name to its brace.
fn literal(
    tree: &Tree<'_>,
    context: &Context<'_>,
    timer: &Timer,
    file: usize,
    ident: &Name,
) -> Option<Span> {
    let text = tree.cx(file).text;
    let rest = &text[ident.span.hi..];
    let open = ident.span.hi + (rest.len() - rest.trim_start().len());
    if !text[open..].starts_with('{') {
        return None;
    }
    let (entries, close) = entries(text, open)?;
    let fields: Vec<&str> = context
        .it
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .filter(|name| *name != timer.field)
        .collect();
    let names: Vec<&str> = entries.iter().filter_map(|entry| field_of(entry)).collect();
    // The timer is there, or comes from a base; a pattern with a rest needs none.
    if names.contains(&timer.field.as_str())
        || entries.iter().any(|entry| entry.trim_start().starts_with(".."))
    {
        return None;
    }
    let all_fields = !names.is_empty() && names.len() == entries.len();
    let is_subset = all_fields && names.iter().all(|name| fields.contains(name));
    let is_whole = is_subset && fields.iter().all(|name| names.contains(name));
    let is_ours = if ident.text == tree.rule.structure {
        // Entries that a macro repeats have no names yet.
        is_subset || entries.iter().any(|entry| entry.trim_start().starts_with("$("))
    } else if ident.text == "Self" {
        let in_impl = context
            .impls
            .iter()
            .any(|at| at.body.file == file && at.it.braces.contains(ident.span));
        is_whole || (in_impl && is_subset)
    } else if text[..ident.span.lo].ends_with('$') {
        is_whole
    } else {
        let res = tree
            .world
            .name_in(tree.files[file].module, &ident.text, Ns::Type, None);
        is_subset && matches!(tree.world.unalias(res), Res::Def(def) if def == context.def)
    };
    is_ours.then(|| Span::new(ident.span.lo, close))
}

/// The name of an entry `name` or `name: value`.
fn field_of(entry: &str) -> Option<&str> {
    let entry = entry.trim();
    let end = entry
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(entry.len());
    let (name, rest) = entry.split_at(end);
    let rest = rest.trim_start();
    let is_entry = rest.is_empty() || (rest.starts_with(':') && !rest.starts_with("::"));
    (!name.is_empty() && is_entry).then_some(name)
}

/// What stands between commas in a pair of braces, comments left out, and where the pair ends.
fn entries(text: &str, open: usize) -> Option<(Vec<String>, usize)> {
    let mut skip = crate::syntax::trivia::skip_scan(&text[open..])
        .into_iter()
        .map(|span| Span::new(open + span.lo, open + span.hi))
        .peekable();
    let mut out = vec![String::new()];
    let mut depth = 0;
    let mut at = open;
    while let Some(c) = text[at..].chars().next() {
        while skip.peek().is_some_and(|span| span.hi <= at) {
            skip.next();
        }
        if let Some(span) = skip.peek()
            && span.lo <= at
        {
            at = span.hi;
            continue;
        }
        if text[at..].starts_with("//") {
            at = crate::syntax::trivia::line_end(text, at);
            continue;
        }
        if text[at..].starts_with("/*") {
            at += text[at..].find("*/")? + 2;
            continue;
        }
        at += c.len_utf8();
        let entry = out.last_mut()?;
        match c {
            '{' | '(' | '[' => {
                if depth > 0 {
                    entry.push(c);
                }
                depth += 1;
            }
            '}' | ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    out.retain(|entry| !entry.trim().is_empty());
                    return Some((out, at));
                }
            }
            ',' if depth == 1 => out.push(String::new()),
            c if depth == 1 => entry.push(c),
            _ => {}
        }
    }
    None
}
