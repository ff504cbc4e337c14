//! Calls whose result, argument or type argument is another one now.

use super::methods::{Verdict, of_call, of_path};
use super::{Found, Scopes, impls, imports};
use crate::analysis::PathUse;
use crate::edit::Edit;
use crate::rewrite::Cx;
use crate::rewrite::nodes::Parent;
use crate::syntax::{Expr, ExprKind, Span, StmtKind, Ty, TyKind};
use crate::world::{DefId, DefKind, Res, Type};

/// Methods that only a `Result` has, as far as callers of a constructor go.
const OF_RESULTS: &[&str] = &[
    "unwrap",
    "expect",
    "ok",
    "err",
    "is_ok",
    "is_err",
    "map_err",
    "unwrap_or",
    "unwrap_or_else",
    "unwrap_or_default",
    "and_then",
    "or_else",
];

pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, found: &mut Found) {
    let bodies = impls::fallible_bodies(cx);
    for expr in &cx.nodes.exprs {
        match &expr.kind {
            ExprKind::Call { callee, args } => {
                let ExprKind::Path(path) = &callee.kind else {
                    continue;
                };
                let Some(at) = cx.an.path(path) else { continue };
                now_fallible(cx, scopes, expr, at, &bodies, found);
                now_infallible(cx, scopes, expr, at, args, found);
                recast(cx, scopes, expr, at, found);
            }
            ExprKind::Path(path) => {
                if let Some(at) = cx.an.path(path) {
                    as_a_value(cx, scopes, expr, at, found);
                    wrapped(cx, scopes, expr, at, found);
                }
            }
            ExprKind::MethodCall { .. } => recast_method(cx, scopes, expr, found),
            _ => {}
        }
    }
}

/// Whether a call is one of a rule's functions that return a `Result` now.
pub fn is_now_fallible(cx: &Cx<'_>, scopes: &Scopes<'_>, expr: &Expr) -> bool {
    let ExprKind::Call { callee, .. } = &expr.kind else {
        return false;
    };
    let ExprKind::Path(path) = &callee.kind else {
        return false;
    };
    cx.an.path(path).is_some_and(|at| {
        cx.rules.upgrade.fallible.iter().any(|rule| {
            let name = &at.path.last().name.text;
            (rule.spec.functions.contains(name) || rule.spec.renamed.contains_key(name))
                && of_path(cx, scopes, at, rule.owner) == Verdict::Ours
        })
    })
}

fn now_fallible(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    expr: &Expr,
    at: &PathUse,
    bodies: &[impls::Body],
    found: &mut Found,
) {
    let name = &at.path.last().name;
    for rule in &cx.rules.upgrade.fallible {
        let renamed = rule.spec.renamed.get(&name.text);
        if renamed.is_none() && !rule.spec.functions.contains(&name.text) {
            continue;
        }
        if of_path(cx, scopes, at, rule.owner) != Verdict::Ours {
            continue;
        }
        let rule_name = &rule.spec.rule;
        let end = Span::new(expr.span.hi, expr.span.hi);
        // In a body that returns such a `Result` from now on.
        if let Some(body) = bodies.iter().find(|body| body.holds(cx, expr)) {
            if !body.values.contains(&expr.id) {
                found.edits.push(Edit::new(end, "?", rule_name));
            }
            return;
        }
        if !cx.rules.upgrade.is_before(cx.world, at.module) {
            return;
        }
        if let Some(new) = renamed {
            let edition = cx.world.crates[cx.world.mods[at.module].krate].edition;
            if edition < 2021 {
                found.leave(
                    expr.span,
                    rule_name,
                    format!("`{}` is `{new}` now, and returns a `Result`", name.text),
                    Some(format!(
                        "write `{new}(..).unwrap()`, and import `std::convert::TryFrom`"
                    )),
                );
                return;
            }
            found.edits.push(Edit::new(name.span, new, rule_name));
        }
        found.edits.push(Edit::new(end, ".unwrap()", rule_name));
        return;
    }
}

/// A value that lost a trait.
fn wrapped(cx: &Cx<'_>, scopes: &Scopes<'_>, expr: &Expr, at: &PathUse, found: &mut Found) {
    let Some(rule) = cx
        .rules
        .upgrade
        .wrapped
        .iter()
        .find(|rule| at.res == Res::Def(rule.value) && at.taken == at.path.segs.len())
    else {
        return;
    };
    let name = &rule.spec.rule;
    match receiver_of(cx, expr, rule) {
        Some(true) if imports::is_imported(cx, scopes, expr.span.lo, rule) => {
            let end = Span::new(expr.span.hi, expr.span.hi);
            let text = format!(".{}()", rule.spec.method);
            found.edits.push(Edit::new(end, text, name));
        }
        Some(false) => {}
        // The trait with the method would have to be imported where nothing is beside it, or the value is passed on.
        _ => {
            let hands_on = cx.nodes.ancestors(expr).iter().any(|outer| {
                matches!(&outer.kind, ExprKind::Call { callee, .. } if cx
                    .rules
                    .upgrade
                    .infallible
                    .iter()
                    .any(|rule| cx.src(callee.span).ends_with(&format!("::{}", rule.spec.otherwise))))
            });
            if !hands_on {
                found.leave(
                    at.path.span,
                    name,
                    format!(
                        "`{}` has a trait less: {}",
                        cx.src(at.path.span),
                        rule.spec.why
                    ),
                    Some(rule.spec.hint.clone()),
                );
            }
        }
    }
}

/// Whether a method of a lost trait is called on a value; none where it is no receiver.
pub fn receiver_of(cx: &Cx<'_>, expr: &Expr, rule: &super::WrapRule) -> Option<bool> {
    let Some(Parent::Expr(outer)) = cx.nodes.parent(expr) else {
        return None;
    };
    match &outer.kind {
        ExprKind::MethodCall { recv, method, .. } if recv.id == expr.id => {
            let has = |def: &DefId| matches!(&cx.world.defs[*def].kind, DefKind::Trait { fns, .. } if fns.iter().any(|f| f.name == method.text));
            let went = cx
                .rules
                .upgrade
                .moved
                .iter()
                .any(|moved| moved.methods.get(&method.text) == Some(&rule.import));
            Some(rule.lost.iter().any(has) && !has(&rule.import) && !went)
        }
        _ => None,
    }
}

/// A function whose result is another one now, passed on without being called.
fn as_a_value(cx: &Cx<'_>, scopes: &Scopes<'_>, expr: &Expr, at: &PathUse, found: &mut Found) {
    if let Some(Parent::Expr(outer)) = cx.nodes.parent(expr)
        && matches!(&outer.kind, ExprKind::Call { callee, .. } if callee.id == expr.id)
    {
        return;
    }
    let name = &at.path.last().name.text;
    let upgrade = &cx.rules.upgrade;
    let fallible = upgrade.fallible.iter().find(|rule| {
        rule.spec.functions.contains(name) && of_path(cx, scopes, at, rule.owner) == Verdict::Ours
    });
    if let Some(rule) = fallible {
        found.leave(
            at.path.span,
            &rule.spec.rule,
            format!("`{name}` is passed on as a function, and returns a `Result` now"),
            Some("call it in a closure, and unwrap there".into()),
        );
    }
    let infallible = upgrade.infallible.iter().find(|rule| {
        rule.spec.function == *name && of_path(cx, scopes, at, rule.owner) == Verdict::Ours
    });
    if let Some(rule) = infallible {
        found.leave(
            at.path.span,
            &rule.spec.rule,
            format!("`{name}` is passed on as a function, and returns no `Result` now"),
            Some(rule.spec.hint.clone()),
        );
    }
}

fn now_infallible(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    expr: &Expr,
    at: &PathUse,
    args: &[Expr],
    found: &mut Found,
) {
    let name = &at.path.last().name;
    for rule in &cx.rules.upgrade.infallible {
        if rule.spec.function != name.text || of_path(cx, scopes, at, rule.owner) != Verdict::Ours {
            continue;
        }
        let rule_name = &rule.spec.rule;
        let mut edits: Vec<Edit> = Vec::new();
        let mut passes = true;
        if rule.spec.by_mut {
            match args {
                [arg] => match by_mut(cx, arg) {
                    Some(true) => {}
                    Some(false) => edits.push(Edit::new(
                        Span::new(arg.span.lo, arg.span.lo),
                        "&mut ",
                        rule_name,
                    )),
                    None => passes = false,
                },
                _ => passes = false,
            }
        }
        let unwrapped = match cx.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::MethodCall { recv, method, .. } if recv.id == expr.id => {
                    Some((outer, method.text.as_str()))
                }
                ExprKind::Try(_) => Some((outer, "?")),
                _ => None,
            },
            _ => None,
        };
        let as_result = unwrapped.is_some_and(|(_, how)| how == "?" || OF_RESULTS.contains(&how));
        let is_before = cx.rules.upgrade.is_before(cx.world, at.module);
        if !is_before && !as_result && edits.is_empty() && passes {
            // Written for the new version.
            return;
        }
        if !is_before || !passes {
            found.leave(
                expr.span,
                rule_name,
                format!("`{}` returns no `Result` now", name.text)
                    + if rule.spec.by_mut {
                        ", and takes its argument by `&mut`"
                    } else {
                        ""
                    },
                Some(rule.spec.hint.clone()),
            );
            return;
        }
        match unwrapped {
            Some((outer, "unwrap" | "expect")) => {
                let rest = Span::new(expr.span.hi, outer.span.hi);
                edits.push(Edit::new(rest, "", rule_name));
            }
            _ => edits.push(Edit::new(name.span, &rule.spec.otherwise, rule_name)),
        }
        found.edits.extend(edits);
        return;
    }
}

/// Whether an argument is a `&mut` already, or can be made one; none where that cannot be told.
fn by_mut(cx: &Cx<'_>, arg: &Expr) -> Option<bool> {
    if let ExprKind::Ref { mutable, .. } = &arg.kind {
        return mutable.then_some(true);
    }
    match cx.an.ty(arg) {
        Type::Ref(true, _) => return Some(true),
        Type::Ref(false, _) | Type::Unknown | Type::Var(_) => return None,
        _ => {}
    }
    match &arg.kind {
        ExprKind::Call { .. } | ExprKind::MethodCall { .. } => Some(false),
        ExprKind::Path(_) => {
            let local = &cx.an.locals[cx.an.local(arg)?];
            local.mutable.then_some(false)
        }
        _ => None,
    }
}

fn recast(cx: &Cx<'_>, _scopes: &Scopes<'_>, expr: &Expr, at: &PathUse, found: &mut Found) {
    let Res::Def(def) = at.res else { return };
    if at.taken != at.path.segs.len() {
        return;
    }
    for rule in &cx.rules.upgrade.recast {
        if !rule
            .functions
            .iter()
            .any(|(function, name)| *function == def && name.is_none())
        {
            continue;
        }
        let last = at.path.last();
        let args = last.args.as_ref().map_or(&[][..], |args| &args.types);
        change_type(cx, expr, rule, args, last.name.span.hi, found);
    }
}

fn recast_method(cx: &Cx<'_>, scopes: &Scopes<'_>, expr: &Expr, found: &mut Found) {
    let ExprKind::MethodCall {
        method, turbofish, ..
    } = &expr.kind
    else {
        return;
    };
    for rule in &cx.rules.upgrade.recast {
        let owner = rule
            .functions
            .iter()
            .find(|(_, name)| name.as_ref() == Some(&method.text));
        let Some((owner, _)) = owner else { continue };
        let args = turbofish.as_ref().map_or(&[][..], |args| &args.types);
        if of_call(cx, scopes, expr, *owner, &[]) == Verdict::Ours {
            change_type(cx, expr, rule, args, method.span.hi, found);
        }
    }
}

/// The type that a function returns, where an expression is its value.
fn returned<'a>(cx: &'a Cx<'_>, expr: &Expr) -> Option<&'a Type> {
    let function = &cx.an.functions[*cx.an.function_of.get(&expr.id)?];
    let (_, item) = cx.nodes.functions.iter().find(|(_, item)| {
        item.body
            .as_ref()
            .is_some_and(|body| body.span == function.body)
    })?;
    let last = item.body.as_ref()?.stmts.last()?;
    let is_value = match (&last.kind, cx.nodes.parent(expr)) {
        (
            StmtKind::Expr {
                expr: value,
                semi: false,
            },
            _,
        ) if value.id == expr.id => true,
        (_, Some(Parent::Expr(outer))) => {
            matches!(outer.kind, ExprKind::Return(_))
                && !cx
                    .nodes
                    .ancestors(expr)
                    .iter()
                    .any(|outer| matches!(outer.kind, ExprKind::Closure { .. }))
        }
        _ => false,
    };
    is_value.then_some(&function.ret)
}

fn change_type(
    cx: &Cx<'_>,
    expr: &Expr,
    rule: &super::RecastRule,
    args: &[Ty],
    name_end: usize,
    found: &mut Found,
) {
    let prim = |ty: &Ty| match &ty.kind {
        TyKind::Path(path) => path.ident().map(|name| name.text.clone()),
        _ => None,
    };
    let declared = match cx.nodes.parent(expr) {
        Some(Parent::Init { stmt, .. }) => match &stmt.kind {
            StmtKind::Let { ty: Some(ty), .. } => Some(ty),
            _ => None,
        },
        _ => None,
    };
    let rule_name = &rule.spec.rule;
    let asked = args.first().or(declared);
    let Some(asked) = asked else {
        // What the function returns says it too.
        if let Some(Type::Prim(old)) = returned(cx, expr)
            && let Some(new) = rule.spec.types.get(*old)
        {
            let at = Span::new(name_end, name_end);
            let end = Span::new(expr.span.hi, expr.span.hi);
            found
                .edits
                .push(Edit::new(at, format!("::<{new}>"), rule_name));
            found
                .edits
                .push(Edit::new(end, format!(" as {old}"), rule_name));
        }
        return;
    };
    let Some(old) = prim(asked) else {
        // Arrays and tuples of it cannot be cast.
        let inner = cx.src(asked.span);
        let holds = |old: &&String| {
            cx.file
                .idents
                .iter()
                .any(|ident| asked.span.contains(ident.span) && ident.text == **old)
        };
        if let Some(old) = rule.spec.types.keys().find(holds) {
            found.leave(
                asked.span,
                rule_name,
                format!("`{inner}` holds `{old}`, which cannot be asked for any more"),
                Some("ask for another type, and convert".into()),
            );
        }
        return;
    };
    let Some(new) = rule.spec.types.get(&old) else {
        return;
    };
    let start = Span::new(expr.span.lo, expr.span.lo);
    let end = Span::new(expr.span.hi, expr.span.hi);
    if args.is_empty() {
        let at = Span::new(name_end, name_end);
        found
            .edits
            .push(Edit::new(at, format!("::<{new}>"), rule_name));
    } else {
        found.edits.push(Edit::new(asked.span, new, rule_name));
    }
    let holds_tight = matches!(
        cx.nodes.parent(expr),
        Some(Parent::Expr(outer))
            if !matches!(
                outer.kind,
                ExprKind::Paren(_)
                    | ExprKind::Array(_)
                    | ExprKind::Tuple(_)
                    | ExprKind::Struct { .. }
                    | ExprKind::Assign { .. }
                    | ExprKind::Macro(_)
            ) && !matches!(&outer.kind, ExprKind::Call { callee, .. } if callee.id != expr.id)
                && !matches!(&outer.kind, ExprKind::MethodCall { recv, .. } if recv.id != expr.id)
    );
    if holds_tight {
        found.edits.push(Edit::new(start, "(", rule_name));
        found
            .edits
            .push(Edit::new(end, format!(" as {old})"), rule_name));
    } else {
        found
            .edits
            .push(Edit::new(end, format!(" as {old}"), rule_name));
    }
}
