//! Implementations of traits that changed: methods that are gone, have a new name, or return a `Result`.

use super::calls::is_now_fallible;
use super::{Found, Place, Scopes, full_path};
use crate::edit::Edit;
use crate::names::item_extent;
use crate::rewrite::Cx;
use crate::syntax::{
    Block, Expr, ExprId, ExprKind, FnItem, ImplItem, Item, ItemKind, Span, StmtKind, TyKind,
};
use crate::world::{DefId, Res};

/// The body of a function that returns a `Result` from now on.
#[derive(Debug)]
pub struct Body {
    span: Span,
    /// The expressions that are its value.
    pub values: Vec<ExprId>,
}

impl Body {
    /// Whether `?` in the place of an expression would leave this body, and not a closure in it.
    pub fn holds(&self, cx: &Cx<'_>, expr: &Expr) -> bool {
        self.span.contains(expr.span)
            && !cx.nodes.ancestors(expr).iter().any(|outer| {
                self.span.contains(outer.span)
                    && matches!(
                        outer.kind,
                        ExprKind::Closure { .. }
                            | ExprKind::Block {
                                flavour: crate::syntax::BlockFlavour::Async,
                                ..
                            }
                    )
            })
    }
}

fn trait_of(cx: &Cx<'_>, it: &ImplItem) -> Option<DefId> {
    match cx.an.res(it.of_trait.as_ref()?) {
        Res::Def(def) => Some(def),
        _ => None,
    }
}

/// Functions of implementations, with the trait that they are for.
fn functions<'a>(
    cx: &'a Cx<'_>,
) -> impl Iterator<Item = (&'a ImplItem, DefId, &'a Item, &'a FnItem)> {
    cx.nodes.items.iter().flat_map(move |(item, _)| {
        let found = match &item.kind {
            ItemKind::Impl(it) => trait_of(cx, it).map(|def| (it, def)),
            _ => None,
        };
        found.into_iter().flat_map(|(it, def)| {
            it.items.iter().filter_map(move |inner| match &inner.kind {
                ItemKind::Fn(f) => Some((it, def, inner, &**f)),
                _ => None,
            })
        })
    })
}

/// Whether a place stands in the implementation of a method that its trait has no more.
pub fn in_dropped(cx: &Cx<'_>, span: Span) -> bool {
    functions(cx).any(|(_, def, item, _)| {
        item.span.contains(span)
            && cx.rules.upgrade.dropped.iter().any(|rule| {
                rule.owner == def
                    && item
                        .name
                        .as_ref()
                        .is_some_and(|name| name.text == rule.spec.method)
            })
    })
}

fn fallible<'c>(
    cx: &Cx<'c>,
    def: DefId,
    item: &Item,
    f: &FnItem,
) -> Option<&'c super::FallibleRule> {
    let name = &item.name.as_ref()?.text;
    let is_result = f.sig.ret.as_ref().is_some_and(|ty| {
        matches!(&ty.kind, TyKind::Path(path) if path.segs.iter().any(|seg| seg.name.text == "Result"))
    });
    cx.rules
        .upgrade
        .fallible
        .iter()
        .find(|rule| rule.owner == def && rule.spec.functions.contains(name) && !is_result)
}

/// The bodies of all implemented functions that return a `Result` from now on.
pub fn fallible_bodies(cx: &Cx<'_>) -> Vec<Body> {
    functions(cx)
        .filter(|(_, def, item, f)| fallible(cx, *def, item, f).is_some())
        .filter_map(|(_, _, _, f)| {
            let body = f.body.as_ref()?;
            Some(Body {
                span: body.span,
                values: values(cx, body).iter().map(|expr| expr.id).collect(),
            })
        })
        .collect()
}

/// The value at a body's end, and those of its `return`s.
fn values<'a>(cx: &Cx<'a>, body: &'a Block) -> Vec<&'a Expr> {
    let mut out: Vec<&'a Expr> = Vec::new();
    if let Some(last) = body.stmts.last()
        && let StmtKind::Expr { expr, semi: false } = &last.kind
        && !matches!(expr.kind, ExprKind::Return(_))
    {
        out.push(expr);
    }
    for expr in &cx.nodes.exprs {
        if let ExprKind::Return(Some(value)) = &expr.kind
            && body.span.contains(expr.span)
            && !cx.nodes.ancestors(expr).iter().any(|outer| {
                body.span.contains(outer.span) && matches!(outer.kind, ExprKind::Closure { .. })
            })
        {
            out.push(value);
        }
    }
    out
}

pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, found: &mut Found) {
    for (it, def, item, f) in functions(cx) {
        let Some(name) = &item.name else { continue };
        for rule in &cx.rules.upgrade.methods {
            if rule.owner == def
                && let Some(new) = rule.spec.methods.get(&name.text)
            {
                found.edits.push(Edit::new(name.span, new, &rule.spec.rule));
            }
        }
        for rule in &cx.rules.upgrade.infallible {
            if rule.owner == def && rule.spec.function == name.text && rule.spec.by_mut {
                found.leave(
                    f.sig.span,
                    &rule.spec.rule,
                    format!("`{}` has another signature now", name.text),
                    Some(rule.spec.hint.clone()),
                );
            }
        }
        for rule in &cx.rules.upgrade.dropped {
            if rule.owner != def || rule.spec.method != name.text {
                continue;
            }
            if forwards(cx, it, f, &rule.spec.method, &rule.spec.forwards_to) {
                let span = item_extent(cx.text, item.span);
                found.edits.push(Edit::new(span, "", &rule.spec.rule));
                found.deleted.push((
                    item.span.lo,
                    format!("method `{}`", name.text),
                    format!("{}, and it only forwarded", rule.spec.why),
                    rule.spec.rule.clone(),
                ));
            } else {
                found.leave(
                    f.sig.span,
                    &rule.spec.rule,
                    format!("the trait has no `{}` any more", name.text),
                    Some(rule.spec.hint.clone()),
                );
            }
        }
        if let Some(rule) = fallible(cx, def, item, f) {
            returns_result(cx, scopes, it, f, rule, found);
        }
    }
}

/// Whether a body does nothing but what another method does.
fn forwards(cx: &Cx<'_>, it: &ImplItem, f: &FnItem, method: &str, to: &str) -> bool {
    let Some(body) = &f.body else { return false };
    let is_ok = |expr: &Expr| matches!(&expr.kind, ExprKind::Call { callee, args } if cx.src(callee.span) == "Ok" && args.len() == 1);
    let params: Vec<&str> = f
        .sig
        .params
        .iter()
        .map(|param| cx.src(param.pat.span))
        .collect();
    // A call of `name` with the parameters as they are; its receiver.
    let call = |expr: &Expr, name: &str| -> Option<String> {
        let ExprKind::MethodCall {
            recv,
            method,
            args,
            turbofish: None,
            ..
        } = &expr.kind
        else {
            return None;
        };
        let same = args.len() == params.len()
            && args
                .iter()
                .zip(&params)
                .all(|(arg, param)| cx.src(arg.span) == *param);
        (method.text == name && same).then(|| cx.src(recv.span).to_owned())
    };
    // The same implementation's own `to`, where it is one call on a part.
    let part = || -> Option<String> {
        let other = it.items.iter().find_map(|item| match &item.kind {
            ItemKind::Fn(other) if item.name.as_ref().is_some_and(|name| name.text == to) => {
                Some(other)
            }
            _ => None,
        })?;
        let [only] = &other.body.as_ref()?.stmts[..] else {
            return None;
        };
        let StmtKind::Expr { expr, .. } = &only.kind else {
            return None;
        };
        match &expr.kind {
            ExprKind::MethodCall { recv, method, .. } if method.text == to => {
                Some(cx.src(recv.span).to_owned())
            }
            _ => None,
        }
    };
    match &body.stmts[..] {
        [first, last] => {
            let (
                StmtKind::Expr { expr, semi: true },
                StmtKind::Expr {
                    expr: end,
                    semi: false,
                },
            ) = (&first.kind, &last.kind)
            else {
                return false;
            };
            call(expr, to).as_deref() == Some("self") && is_ok(end) && cx.src(end.span) == "Ok(())"
        }
        [only] => {
            let StmtKind::Expr { expr, semi: false } = &only.kind else {
                return false;
            };
            if let ExprKind::Call { args, .. } = &expr.kind
                && is_ok(expr)
            {
                return call(&args[0], to).as_deref() == Some("self");
            }
            call(expr, method).is_some_and(|recv| part() == Some(recv))
        }
        _ => false,
    }
}

fn returns_result(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    it: &ImplItem,
    f: &FnItem,
    rule: &super::FallibleRule,
    found: &mut Found,
) {
    let name = &rule.spec.rule;
    let (Some(ret), Some(body), Some(module)) =
        (&f.sig.ret, &f.body, scopes.module_at(f.sig.span.lo))
    else {
        return;
    };
    let all = values(cx, body);
    let ends = body
        .stmts
        .last()
        .is_some_and(|stmt| matches!(&stmt.kind, StmtKind::Expr { expr, .. } if all.iter().any(|value| value.id == expr.id) || matches!(expr.kind, ExprKind::Return(_))));
    if !ends {
        found.leave(
            f.sig.span,
            name,
            "the trait's method returns a `Result` now".into(),
            Some(format!("return `Result<_, {}>`", rule.spec.error)),
        );
        return;
    }
    // By a crate that this one depends on: the error's own, or the one that the trait is named through.
    let world = cx.world;
    let home = world.mods[world.defs[rule.error].module].krate;
    let here = &world.crates[world.mods[module].krate];
    let reaches = here.externs.values().any(|krate| *krate == Some(home));
    let error = match &it.of_trait {
        Some(path) if !reaches && path.segs.len() > 1 => {
            let head = Span::new(path.span.lo, path.segs[path.segs.len() - 2].name.span.hi);
            format!("{}::{}", cx.src(head), world.defs[rule.error].name)
        }
        _ => full_path(cx, module, Place::Def(rule.error)),
    };
    let at = |at: usize| Span::new(at, at);
    found
        .edits
        .push(Edit::new(at(ret.span.lo), "Result<", name));
    found
        .edits
        .push(Edit::new(at(ret.span.hi), format!(", {error}>"), name));
    for value in all {
        // What is such a `Result` already is handed on.
        if !is_now_fallible(cx, scopes, value) {
            found.edits.push(Edit::new(at(value.span.lo), "Ok(", name));
            found.edits.push(Edit::new(at(value.span.hi), ")", name));
        }
    }
}
