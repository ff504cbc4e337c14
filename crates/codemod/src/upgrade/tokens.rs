//! Names among tokens that nobody parsed: bodies of `macro_rules!`, and arguments of macros that are not of `std`.
//!
//! A whole path that leads to a renamed item means that item whatever the macro makes of it, and is rewritten, unless the
//! macro is for other crates too. Anything else is reported.

use std::collections::{HashMap, HashSet};

use super::paths::{Spelled, behind};
use super::scope::Sight;
use super::snippets::was_read;
use super::{Aliased, Found, Place, Scopes, any_name_in};
use crate::edit::Edit;
use crate::rewrite::Cx;
use crate::syntax::{ExprKind, ItemKind, MacroArgs, Name, Span, trivia};
use crate::world::{ModId, Ns, Res};

/// Tokens that nobody parsed.
#[derive(Debug)]
pub struct Opaque {
    pub span: Span,
    pub kind: Kind,
    place: String,
    /// Code of any crate may end up with them.
    pub is_exported: bool,
}

/// Where such tokens stand.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// The body of a `macro_rules!`.
    Rules { name: String },
    /// Arguments of a macro that is not of `std`.
    Arguments,
    /// Syntax that the parser does not know.
    Unknown,
}

pub fn opaque(cx: &Cx<'_>) -> Vec<Opaque> {
    let mut out = Vec::new();
    let of_call = |path: &crate::syntax::Path, inner: Span| Opaque {
        span: inner,
        kind: Kind::Arguments,
        place: format!(
            "in the arguments of `{}!`, which this tool cannot read",
            path.last().name.text
        ),
        is_exported: false,
    };
    for expr in &cx.nodes.exprs {
        if let ExprKind::Macro(mac) = &expr.kind
            && matches!(mac.args, MacroArgs::Opaque)
            && !matches!(
                mac.path.last().name.text.as_str(),
                "stringify" | "concat" | "include_str" | "include_bytes" | "env"
            )
        {
            out.push(of_call(&mac.path, mac.inner));
        }
    }
    for (item, _) in &cx.nodes.items {
        match &item.kind {
            ItemKind::MacroRules { body } => out.push(Opaque {
                span: *body,
                kind: Kind::Rules {
                    name: item
                        .name
                        .as_ref()
                        .map_or(String::new(), |name| name.text.clone()),
                },
                place: "in the body of a `macro_rules!`".into(),
                is_exported: item.attrs.iter().any(|attr| attr.path == "macro_export"),
            }),
            ItemKind::MacroCall(mac) if mac.path.last().name.text != "include" => {
                out.push(of_call(&mac.path, mac.inner));
            }
            ItemKind::Other => out.push(Opaque {
                span: item.span,
                kind: Kind::Unknown,
                place: "in syntax that the parser does not know".into(),
                is_exported: false,
            }),
            _ => {}
        }
    }
    out
}

/// Identifiers joined by `::`.
#[derive(Debug)]
struct Chain<'f> {
    names: Vec<&'f Name>,
    leading_colon: bool,
    /// What stands right before it.
    before: Option<char>,
}

fn chains<'f>(cx: &Cx<'f>, within: Span) -> Vec<Chain<'f>> {
    let mut out: Vec<Chain<'f>> = Vec::new();
    let mut last_end = usize::MAX;
    let from = cx
        .file
        .idents
        .partition_point(|ident| ident.span.lo < within.lo);
    for ident in cx.file.idents[from..]
        .iter()
        .take_while(|ident| ident.span.hi <= within.hi)
    {
        if let Some(last) = out.last_mut()
            && last_end <= ident.span.lo
            && cx.text[last_end..ident.span.lo].trim() == "::"
        {
            last.names.push(ident);
        } else {
            let head = cx.text[within.lo..ident.span.lo].trim_end();
            let leading_colon = head.ends_with("::");
            out.push(Chain {
                names: vec![ident],
                leading_colon,
                before: head.trim_end_matches(':').chars().next_back(),
            });
        }
        last_end = ident.span.hi;
    }
    out
}

/// Names that stand alone in such tokens.
pub fn bare_names(cx: &Cx<'_>) -> HashSet<String> {
    opaque(cx)
        .iter()
        .flat_map(|opaque| chains(cx, opaque.span))
        .filter(|chain| !chain.leading_colon && !matches!(chain.before, Some('.' | '$')))
        .map(|chain| chain.names[0].text.clone())
        .collect()
}

/// Names behind a dot in such tokens.
pub fn called<'f>(cx: &Cx<'f>) -> Vec<&'f str> {
    opaque(cx)
        .iter()
        .flat_map(|opaque| chains(cx, opaque.span))
        .filter(|chain| chain.before == Some('.'))
        .map(|chain| chain.names[0].text.as_str())
        .collect()
}

/// `read`: what was found in those tokens that could be read.
pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, read: &HashMap<usize, Found>, found: &mut Found) {
    let mut lines: HashSet<usize> = HashSet::new();
    for opaque in opaque(cx) {
        let Some(module) = scopes.module_at(opaque.span.lo) else {
            continue;
        };
        let all = chains(cx, opaque.span);
        for chain in &all {
            let mut report = |name: &Name, rule: &str, what: String, hint: String| {
                if lines.insert(trivia::line_start(cx.text, name.span.lo)) {
                    found.left.push(crate::leftover::Leftover {
                        span: name.span,
                        rule: rule.to_owned(),
                        reason: format!("{what} {}", opaque.place),
                        suggestion: Some(hint),
                        dead: false,
                        reads: false,
                    });
                }
            };
            let first = chain.names[0];
            if was_read(read, &opaque) {
                if chain.names.len() == 1 && !matches!(chain.before, Some('.' | '$')) {
                    bare(cx, module, first, &mut report);
                }
                continue;
            }
            if chain.before == Some('.') {
                for rule in &cx.rules.upgrade.methods {
                    if let Some(new) = rule.spec.methods.get(&first.text)
                        && cx.rules.distinctive.contains(&first.text)
                        && scopes.sees_trait(cx, first.span.lo, rule.owner) != Sight::No
                    {
                        report(
                            first,
                            &rule.spec.rule,
                            format!("`.{}` stands", first.text),
                            format!("write `{new}`"),
                        );
                    }
                }
                continue;
            }
            if chain.before == Some('$') && first.text != "crate" {
                continue;
            }
            let mut names: Vec<&str> = chain.names.iter().map(|name| name.text.as_str()).collect();
            if chain.before == Some('$') {
                names[0] = "crate";
            }
            let steps = steps(cx, scopes, chain, &names);
            members(cx, &opaque, chain, &steps, &all, &mut report);
            if let [_] = names[..] {
                bare(cx, module, first, &mut report);
                continue;
            }
            let edits = path(cx, chain, module, &steps);
            if edits.is_empty() {
                continue;
            }
            if opaque.is_exported {
                let rule = edits[0].rule.clone();
                report(
                    first,
                    &rule,
                    format!("`{}` stands", names.join("::")),
                    "rewrite it by hand: the macro is exported".into(),
                );
            } else {
                found.edits.extend(edits);
            }
        }
    }
}

/// What each beginning of a chain leads to.
fn steps(cx: &Cx<'_>, scopes: &Scopes<'_>, chain: &Chain<'_>, names: &[&str]) -> Vec<Res> {
    let at = chain.names[0].span.lo;
    (1..=names.len())
        .map(|k| {
            let resolve =
                |ns: Ns| match scopes.resolve(cx, at, chain.leading_colon, &names[..k], ns) {
                    (res, n) if n == k => res,
                    _ => Res::Unknown,
                };
            match resolve(Ns::Type) {
                Res::Unknown if k == names.len() => resolve(Ns::Value),
                res => res,
            }
        })
        .collect()
}

fn bare(
    cx: &Cx<'_>,
    module: ModId,
    name: &Name,
    report: &mut impl FnMut(&Name, &str, String, String),
) {
    let upgrade = &cx.rules.upgrade;
    let res = any_name_in(cx.world, module, &name.text, Some(module));
    let Some(place) = Place::of(&res) else { return };
    // The old item, or the new one by its old name.
    let rule = upgrade.items.iter().find(|rule| {
        let (old, new) = (rule.old.name(cx.world), rule.new.name(cx.world));
        old == name.text && old != new && (place == rule.old || place == rule.new)
    });
    if let Some(rule) = rule {
        let new = rule.new.name(cx.world);
        report(
            name,
            &rule.spec.rule,
            format!("`{}` stands", name.text),
            format!("write `{new}`, and drop the `as` from its import"),
        );
    }
    if let Some(gone) = upgrade
        .gone
        .iter()
        .find(|rule| rule.spec.method.is_none() && res == Res::Def(rule.owner))
    {
        report(
            name,
            &gone.spec.rule,
            format!("`{}`, which is gone, stands", name.text),
            gone.spec.hint.clone(),
        );
    }
}

fn path(cx: &Cx<'_>, chain: &Chain<'_>, module: ModId, steps: &[Res]) -> Vec<Edit> {
    let upgrade = &cx.rules.upgrade;
    let none = Aliased::new();
    let mut edits: Vec<Edit> = Vec::new();
    for (at, res) in steps.iter().enumerate() {
        let name = chain.names[at];
        let Some(rule) = upgrade.item(res) else {
            continue;
        };
        if at == 0 || name.text != rule.old.name(cx.world) {
            continue;
        }
        let Res::Mod(prefix) = &steps[at - 1] else {
            continue;
        };
        match behind(cx, &none, rule, *prefix, module) {
            Spelled::Same => {}
            Spelled::Segment(text) => edits.push(Edit::new(name.span, text, &rule.spec.rule)),
            Spelled::Whole(text) => {
                edits.clear();
                let span = Span::new(chain.names[0].span.lo, name.span.hi);
                edits.push(Edit::new(span, text, &rule.spec.rule));
            }
        }
    }
    edits
}

/// Calls and implementations of what changed its result.
fn members(
    cx: &Cx<'_>,
    opaque: &Opaque,
    chain: &Chain<'_>,
    steps: &[Res],
    all: &[Chain<'_>],
    report: &mut impl FnMut(&Name, &str, String, String),
) {
    let upgrade = &cx.rules.upgrade;
    let last = chain.names[chain.names.len() - 1];
    let owner = chain.names.len().checked_sub(2).map(|at| &steps[at]);
    let has_name = |name: &String| {
        all.iter()
            .any(|chain| chain.names.len() == 1 && chain.names[0].text == *name)
    };
    let is_result = cx.src(opaque.span).contains("Result<");
    for rule in &upgrade.fallible {
        let is_call = rule.spec.functions.contains(&last.text)
            && owner == Some(&Res::Def(rule.owner))
            && !unwraps(&cx.text[last.span.hi..opaque.span.hi]);
        let is_impl = steps.last() == Some(&Res::Def(rule.owner))
            && matches!(
                cx.world.defs[rule.owner].kind,
                crate::world::DefKind::Trait { .. }
            )
            && !is_result
            && rule.spec.functions.iter().any(has_name);
        if is_call || is_impl {
            report(
                last,
                &rule.spec.rule,
                format!("`{}` stands", last.text),
                format!("it returns a `Result` now: {}", rule.spec.why),
            );
        }
    }
    for rule in &upgrade.dropped {
        if steps.last() == Some(&Res::Def(rule.owner)) && has_name(&rule.spec.method) {
            report(
                last,
                &rule.spec.rule,
                format!("`{}` stands", last.text),
                rule.spec.hint.clone(),
            );
        }
    }
    for rule in &upgrade.methods {
        if let Some(new) = rule.spec.methods.get(&last.text)
            && owner == Some(&Res::Def(rule.owner))
        {
            report(
                last,
                &rule.spec.rule,
                format!("`{}` stands", last.text),
                format!("write `{new}`"),
            );
        }
    }
}

/// Whether the call that begins a text is followed by what a `Result` is asked for.
fn unwraps(text: &str) -> bool {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let rest = text[at + 1..].trim_start();
                    return rest.starts_with('?')
                        || rest.starts_with(".unwrap")
                        || rest.starts_with(".expect")
                        || rest.starts_with(".map_err");
                }
            }
            _ if depth == 0 && !c.is_whitespace() && !matches!(c, ':' | '<' | '>') => return false,
            _ => {}
        }
    }
    false
}
