//! Whose a method is, and new names for those that have one.

use super::scope::Sight;
use super::{Found, Place, Scopes};
use crate::analysis::{PathRole, PathUse};
use crate::edit::Edit;
use crate::rewrite::Cx;
use crate::syntax::{Expr, ExprKind, Generics, ItemKind, Name};
use crate::world::types::BoundType;
use crate::world::{DefId, DefKind, Ns, Res, Type, TypeCtx};

/// Whether a method or an associated function belongs to a type or trait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Ours,
    Other,
    /// With what cannot be told.
    Unknown(String),
}

pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, found: &mut Found) {
    let upgrade = &cx.rules.upgrade;
    for expr in &cx.nodes.exprs {
        let ExprKind::MethodCall { method, .. } = &expr.kind else {
            continue;
        };
        for rule in &upgrade.methods {
            let Some(new) = rule.spec.methods.get(&method.text) else {
                continue;
            };
            match of_call(cx, scopes, expr, rule.owner, &rule.spec.namesakes) {
                Verdict::Ours => {
                    found
                        .edits
                        .push(Edit::new(method.span, new, &rule.spec.rule));
                    break;
                }
                Verdict::Unknown(why) => found.leave(
                    method.span,
                    &rule.spec.rule,
                    format!("{why}, and `{}()` may be renamed", method.text),
                    Some(format!("write `{new}` if it is")),
                ),
                Verdict::Other => {}
            }
        }
        for rule in &upgrade.gone {
            if rule.spec.method.as_ref() != Some(&method.text) {
                continue;
            }
            if of_call(cx, scopes, expr, rule.owner, &[]) == Verdict::Ours {
                leave_gone(rule, method, found);
            }
        }
    }
    let mut paths: Vec<&PathUse> = cx.an.paths.values().collect();
    paths.sort_by_key(|at| at.path.span.lo);
    for at in paths {
        let Some(name) = member(at) else { continue };
        for rule in &upgrade.methods {
            if let Some(new) = rule.spec.methods.get(&name.text) {
                match of_path(cx, scopes, at, rule.owner) {
                    Verdict::Ours => {
                        found.edits.push(Edit::new(name.span, new, &rule.spec.rule));
                        break;
                    }
                    Verdict::Unknown(why) => found.leave(
                        name.span,
                        &rule.spec.rule,
                        format!("{why}, and `{}` may be renamed", name.text),
                        Some(format!("write `{new}` if it is")),
                    ),
                    Verdict::Other => {}
                }
            }
        }
        for rule in &upgrade.gone {
            // By the owner's new name too, as a first run leaves it.
            if rule.spec.method.as_ref() == Some(&name.text)
                && (of_path(cx, scopes, at, rule.owner) == Verdict::Ours
                    || upgrade.items.iter().any(|item| {
                        item.old == Place::Def(rule.owner) && Place::of(&at.res) == Some(item.new)
                    }))
            {
                leave_gone(rule, name, found);
            }
        }
        for rule in &upgrade.moved {
            if let Some(now) = rule.methods.get(&name.text)
                && matches!(at.res, Res::Def(def) if def == rule.owner)
            {
                let now = &cx.world.defs[*now].name;
                found.leave(
                    name.span,
                    &rule.spec.rule,
                    format!("`{}` went to another trait", name.text),
                    Some(format!("write `{now}::{}`, and import `{now}`", name.text)),
                );
            }
        }
    }
}

pub fn leave_gone(rule: &super::OwnerRule<crate::rule::Gone>, name: &Name, found: &mut Found) {
    found.leave(
        name.span,
        &rule.spec.rule,
        format!("`{}` is gone: {}", name.text, rule.spec.why),
        Some(rule.spec.hint.clone()),
    );
}

/// The associated item that a path ends in.
pub fn member(found: &PathUse) -> Option<&Name> {
    if found.role == PathRole::Macro || found.role == PathRole::Bound {
        return None;
    }
    let n = found.path.segs.len();
    let at_end = if found.path.qself.is_some() {
        found.path.qself_pos + 1 == n
    } else {
        found.taken + 1 == n && found.taken > 0
    };
    at_end.then(|| &found.path.last().name)
}

/// Whether a path's last segment is an associated function of a type or trait.
pub fn of_path(cx: &Cx<'_>, scopes: &Scopes<'_>, found: &PathUse, owner: DefId) -> Verdict {
    let world = cx.world;
    let Some(name) = member(found) else {
        return Verdict::Other;
    };
    let at = found.path.span.lo;
    let is = |ours: bool| if ours { Verdict::Ours } else { Verdict::Other };
    if found.path.qself.is_some() {
        if found.path.qself_pos == 0 {
            return Verdict::Other;
        }
        let names = found.path.names();
        let segs = &names[..found.path.qself_pos];
        let (res, n) = scopes.resolve(cx, at, found.path.leading_colon, segs, Ns::Type);
        return is(n == segs.len() && res == Res::Def(owner));
    }
    let bounds = bounds_at(cx, scopes, at);
    match world.unalias(found.res.clone()) {
        Res::Def(def) if def == owner => Verdict::Ours,
        Res::Def(def) => match &world.defs[def].kind {
            DefKind::Struct { .. } | DefKind::Enum { .. } => {
                is(type_has(cx, def, &name.text, owner))
            }
            _ => Verdict::Other,
        },
        Res::SelfTy => {
            let own = cx
                .an
                .functions
                .iter()
                .filter(|function| function.span.contains(found.path.span))
                .max_by_key(|function| function.span.lo)
                .and_then(|function| function.self_ty.clone());
            match own {
                Some(Type::Adt(def, _)) => is(def == owner || type_has(cx, def, &name.text, owner)),
                Some(ty) => is(world.implements(&ty, owner, &bounds, 0)),
                None => Verdict::Other,
            }
        }
        Res::Param(param) => is(world.implements(&Type::Param(param), owner, &bounds, 0)),
        Res::External(path)
            if cx.rules.distinctive.contains(&name.text)
                && scopes.sees_trait(cx, at, owner) != Sight::No =>
        {
            Verdict::Unknown(format!("`{path}` is not in the tree"))
        }
        _ => Verdict::Other,
    }
}

/// Whether `Type::name` is the trait's: nothing of the type itself hides it.
fn type_has(cx: &Cx<'_>, def: DefId, name: &str, owner: DefId) -> bool {
    let world = cx.world;
    match world.assoc_fn(def, name) {
        Some((_, id)) => {
            let it = &world.impls[id];
            it.of_trait
                .as_ref()
                .and_then(|path| world.trait_of(it.module, path))
                == Some(owner)
        }
        None => {
            let args = vec![];
            world.implements(&Type::Adt(def, args), owner, &|_| vec![], 0)
        }
    }
}

/// Whether a method call is one of a type or trait.
///
/// Where the receiver's type cannot be told, it is if the trait is in scope, and no type or trait of the tree, nor one of
/// `namesakes`, has such a method.
pub fn of_call(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    expr: &Expr,
    owner: DefId,
    namesakes: &[String],
) -> Verdict {
    let world = cx.world;
    let ExprKind::MethodCall {
        recv, method, args, ..
    } = &expr.kind
    else {
        return Verdict::Other;
    };
    if let DefKind::Trait { fns, .. } = &world.defs[owner].kind
        && let Some(f) = fns.iter().find(|f| f.name == method.text)
        && f.sig.params.len() != args.len()
    {
        return Verdict::Other;
    }
    if let Some(hit) = cx.an.methods.get(&expr.id) {
        return if hit.of_trait == Some(owner) || hit.owner == Some(owner) {
            Verdict::Ours
        } else {
            Verdict::Other
        };
    }
    let sight = scopes.sees_trait(cx, expr.span.lo, owner);
    if sight == Sight::No {
        return Verdict::Other;
    }
    let shown = cx.src(recv.span);
    let shown = if shown.contains('\n') {
        "the receiver"
    } else {
        &format!("`{shown}`")
    };
    let unknown = format!("the type of {shown} cannot be told");
    match cx.an.ty(recv).peeled() {
        Type::Unknown | Type::Var(_) => {
            if sight == Sight::Maybe {
                return if cx.rules.distinctive.contains(&method.text) {
                    Verdict::Unknown(unknown)
                } else {
                    Verdict::Other
                };
            }
            if world.methods_named(&method.text).next().is_some() {
                return Verdict::Unknown(format!(
                    "{unknown}, the tree has a `{}()` of its own",
                    method.text
                ));
            }
            let krate = scopes
                .module_at(expr.span.lo)
                .map(|module| &world.crates[world.mods[module].krate]);
            let beside = krate.and_then(|krate| {
                let all = cx.rules.upgrade.depends_on.get(&krate.package)?;
                namesakes.iter().find(|name| all.contains(*name))
            });
            match beside {
                Some(package) => Verdict::Unknown(format!(
                    "{unknown}, `{package}` has a `{}()` too",
                    method.text
                )),
                None => Verdict::Ours,
            }
        }
        Type::External(path, _) => {
            Verdict::Unknown(format!("{shown} is a `{path}`, which is not in the tree"))
        }
        // A type that is known, and not known to have the trait: a macro or a derive may have given it.
        _ => Verdict::Unknown(format!("{shown} is not known to have the trait")),
    }
}

/// What is asked of each generic parameter at a place.
pub fn bounds_at(cx: &Cx<'_>, scopes: &Scopes<'_>, at: usize) -> impl Fn(&str) -> Vec<BoundType> {
    let all: Vec<&Generics> = cx
        .nodes
        .items
        .iter()
        .filter(|(item, _)| item.span.lo <= at && at < item.span.hi)
        .filter_map(|(item, _)| match &item.kind {
            ItemKind::Fn(it) => Some(&it.sig.generics),
            ItemKind::Impl(it) => Some(&it.generics),
            ItemKind::Trait(it) => Some(&it.generics),
            _ => None,
        })
        .collect();
    let params: Vec<String> = all
        .iter()
        .flat_map(|generics| &generics.params)
        .map(|param| param.name.text.clone())
        .collect();
    let mut out: Vec<(String, BoundType)> = Vec::new();
    if let Some(module) = scopes.module_at(at) {
        let ctx = TypeCtx {
            module,
            params: &params,
            self_ty: None,
            scopes: &[],
        };
        for generics in all {
            for param in &generics.params {
                for bound in &param.bounds {
                    let bound = cx.world.lower_bound(&ctx, bound, 0);
                    out.push((param.name.text.clone(), bound));
                }
            }
            for (ty, bounds) in &generics.wheres {
                if let crate::syntax::TyKind::Path(path) = &ty.kind
                    && let Some(name) = path.ident()
                {
                    for bound in bounds {
                        let bound = cx.world.lower_bound(&ctx, bound, 0);
                        out.push((name.text.clone(), bound));
                    }
                }
            }
        }
    }
    move |name| {
        out.iter()
            .filter(|(param, _)| param == name)
            .map(|(_, bound)| bound.clone())
            .collect()
    }
}
