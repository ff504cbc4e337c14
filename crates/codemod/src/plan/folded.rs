//! Functions that a fold leaves nothing of, or nothing but a panic or an early return.
//!
//! Such a function served only what is gone. What its callers are to do instead is not for a tool to say: it stays as it
//! was, and is reported.

use std::collections::HashSet;

use crate::leftover::Leftover;
use crate::rewrite::{Cx, Retired};
use crate::session::Session;
use crate::syntax::{Block, Expr, ExprKind, FnItem, ItemKind, Span, StmtKind};

/// The functions of all files, by file and position in the original, that came to nothing in this run.
pub(super) fn functions(session: &mut Session<'_>) -> HashSet<(usize, usize)> {
    let mut out = HashSet::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if work.deleted || !work.hit || !work.rope.is_changed() {
            continue;
        }
        let id = work.id;
        let after = session.view(at, context, |cx| {
            bodies(cx)
                .into_iter()
                .filter_map(|(lo, body)| Some((cx.rope.exact_origin(lo)?, body)))
                .collect::<Vec<_>>()
        });
        let hollow: HashSet<usize> = after
            .unwrap_or_default()
            .into_iter()
            .filter(|(_, body)| *body == Body::Hollow)
            .map(|(lo, _)| lo)
            .collect();
        if hollow.is_empty() {
            continue;
        }
        let whole = session.view_before(at, |cx| {
            bodies(cx)
                .into_iter()
                .filter(|(_, body)| *body == Body::Whole)
                .map(|(lo, _)| lo)
                .collect::<Vec<_>>()
        });
        out.extend(
            whole
                .unwrap_or_default()
                .into_iter()
                .filter(|lo| hollow.contains(lo))
                .map(|lo| (id, lo)),
        );
    }
    out
}

/// What is said of a function that is held.
pub(super) fn leftovers(cx: &Cx<'_>, held: &HashSet<(usize, usize)>) -> Vec<Leftover> {
    let is_held = |lo: usize| {
        cx.rope
            .exact_origin(lo)
            .is_some_and(|origin| held.contains(&(cx.id, origin)))
    };
    let items = cx
        .nodes
        .items
        .iter()
        .filter(|(item, _)| matches!(item.kind, ItemKind::Fn(_)) && is_held(item.span.lo));
    items
        .map(|(item, _)| {
            let inside = cx.an.paths.values().filter(|found| item.span.contains(found.path.span)).find_map(|found| cx.retired_path(&found.path));
            let rule = inside.as_ref().map(Retired::rule).or_else(|| cx.rules.enums.first().map(|rule| rule.spec.rule.as_str())).unwrap_or_default();
            let name = item.name.as_ref().map_or("", |name| name.text.as_str());
            Leftover {
                span: item.span,
                rule: rule.to_owned(),
                reason: format!("nothing of `{name}` would be left, or nothing but a panic or an early return"),
                suggestion: Some("delete it with its callers, or write what it is to do with the buffer that is left".into()),
                dead: false,
                reads: false,
            }
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Does nothing at all, or nothing but give up.
    Hollow,
    Whole,
}

/// Functions that are not tests, by where they begin.
fn bodies(cx: &Cx<'_>) -> Vec<(usize, Body)> {
    let mut out = Vec::new();
    for (item, _) in &cx.nodes.items {
        let ItemKind::Fn(function) = &item.kind else {
            continue;
        };
        let FnItem {
            body: Some(body), ..
        } = &**function
        else {
            continue;
        };
        let in_tests = cx
            .an
            .functions
            .iter()
            .any(|found| found.span == item.span && found.in_test_code);
        if !in_tests {
            out.push((
                item.span.lo,
                if is_hollow(cx, body) {
                    Body::Hollow
                } else {
                    Body::Whole
                },
            ));
        }
    }
    out
}

fn is_hollow(cx: &Cx<'_>, body: &Block) -> bool {
    let [stmt] = &body.stmts[..] else {
        return body.stmts.is_empty();
    };
    let StmtKind::Expr { expr, .. } = &stmt.kind else {
        return false;
    };
    gives_up(expr) || (is_constant(expr) && was_returned(cx, expr.span))
}

fn gives_up(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Return(value) => value
            .as_ref()
            .is_none_or(|value| is_constant(value) || gives_up(value)),
        ExprKind::Macro(mac) => matches!(
            mac.path.last().name.text.as_str(),
            "panic" | "unreachable" | "todo" | "unimplemented" | "bail"
        ),
        ExprKind::Call { callee, .. } => {
            matches!(&callee.kind, ExprKind::Path(path) if path.last().name.text == "Err")
        }
        ExprKind::Block { block, .. } => match &block.stmts[..] {
            [stmt] => matches!(&stmt.kind, StmtKind::Expr { expr, .. } if gives_up(expr)),
            _ => false,
        },
        _ => false,
    }
}

/// Says nothing of the buffer: `None`, a literal, `()`.
fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Lit(_) => true,
        ExprKind::Path(path) => path.last().name.text.starts_with(char::is_uppercase),
        ExprKind::Tuple(parts) => parts.is_empty(),
        ExprKind::Call { callee, args } => is_constant(callee) && args.iter().all(is_constant),
        _ => false,
    }
}

/// The value of a `return` that has become the function's own.
fn was_returned(cx: &Cx<'_>, span: Span) -> bool {
    let Some(origin) = cx.rope.exact_origin(span.lo) else {
        return false;
    };
    cx.rope.is_changed() && cx.rope.original()[..origin].trim_end().ends_with("return")
}
