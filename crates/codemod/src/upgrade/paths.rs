//! New names and places in paths.

use super::scope::Source;
use super::{Aliased, Found, ItemRule, Place, Scopes, any_name_in, full_path};
use crate::analysis::{PathRole, PathUse};
use crate::edit::Edit;
use crate::rewrite::Cx;
use crate::syntax::Span;
use crate::world::{ModId, Ns, Res};

/// How the new name is written behind a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelled {
    /// As it stands.
    Same,
    /// In place of the one segment.
    Segment(String),
    /// In place of the whole path up to it.
    Whole(String),
}

pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, aliased: &Aliased, found: &mut Found) {
    let mut uses: Vec<&PathUse> = cx
        .an
        .paths
        .values()
        .filter(|at| at.role != PathRole::Macro && at.path.qself.is_none())
        .collect();
    uses.sort_by_key(|at| at.path.span.lo);
    for at in uses {
        path(cx, scopes, aliased, at, found);
    }
}

fn path(cx: &Cx<'_>, scopes: &Scopes<'_>, aliased: &Aliased, found: &PathUse, out: &mut Found) {
    let upgrade = &cx.rules.upgrade;
    let names = found.path.names();
    let mut edits: Vec<Edit> = Vec::new();
    let mut around: Option<Res> = None;
    for k in 1..=found.taken.min(names.len()) {
        let res = if k == found.taken {
            found.res.clone()
        } else {
            match scopes.resolve(
                cx,
                found.path.span.lo,
                found.path.leading_colon,
                &names[..k],
                Ns::Type,
            ) {
                (res, n) if n == k => res,
                _ => Res::Unknown,
            }
        };
        let seg = &found.path.segs[k - 1].name;
        if let Res::Variant(def, _) = &res
            && let Some(rule) = upgrade.item(&Res::Def(*def))
        {
            if let Some(new) = rule.spec.variants.get(&seg.text) {
                edits.push(Edit::new(seg.span, new, &rule.spec.rule));
            }
            let gone = upgrade
                .gone
                .iter()
                .find(|gone| gone.owner == *def && gone.spec.method.as_ref() == Some(&seg.text));
            if let Some(gone) = gone {
                super::methods::leave_gone(gone, seg, out);
            }
        } else if let Some(rule) = upgrade.item(&res)
            && seg.text == rule.old.name(cx.world)
        {
            let spelled = if k == 1 {
                bare(cx, scopes, aliased, rule, found, seg.span)
            } else {
                match &around {
                    Some(Res::Mod(prefix)) => behind(cx, aliased, rule, *prefix, found.module),
                    _ => Spelled::Segment(rule.new.name(cx.world).to_owned()),
                }
            };
            match spelled {
                Spelled::Same => {}
                Spelled::Segment(text) => edits.push(Edit::new(seg.span, text, &rule.spec.rule)),
                Spelled::Whole(text) => {
                    edits.clear();
                    let span = Span::new(found.path.span.lo, seg.span.hi);
                    edits.push(Edit::new(span, text, &rule.spec.rule));
                }
            }
        }
        // What is gone, wherever its path leads through.
        if let Some(gone) = upgrade
            .gone
            .iter()
            .find(|rule| rule.spec.method.is_none() && res == Res::Def(rule.owner))
        {
            out.leave(
                Span::new(found.path.span.lo, seg.span.hi),
                &gone.spec.rule,
                format!("`{}` is gone: {}", seg.text, gone.spec.why),
                Some(gone.spec.hint.clone()),
            );
        }
        around = Some(res);
    }
    out.edits.extend(edits);
}

/// A renamed item behind a module that it is named through.
pub fn behind(
    cx: &Cx<'_>,
    aliased: &Aliased,
    rule: &ItemRule,
    prefix: ModId,
    here: ModId,
) -> Spelled {
    let world = cx.world;
    let upgrade = &cx.rules.upgrade;
    let (old_name, new_name) = (rule.old.name(world), rule.new.name(world));
    if !world.mods[prefix].synthetic {
        // A module of the tree re-exports it under the new name, unless it has to keep the old one.
        return if aliased.contains(&(prefix, old_name.to_owned())) || old_name == new_name {
            Spelled::Same
        } else {
            Spelled::Segment(new_name.to_owned())
        };
    }
    if rule.left.contains(&prefix) {
        return Spelled::Whole(full_path(cx, here, rule.new));
    }
    let prefix = upgrade.successor(prefix);
    if Place::of(&any_name_in(world, prefix, new_name, None)) == Some(rule.new) {
        return if old_name == new_name {
            Spelled::Same
        } else {
            Spelled::Segment(new_name.to_owned())
        };
    }
    let Some(home) = rule.new.home(world) else {
        return Spelled::Same;
    };
    if world.is_descendant(home, prefix) {
        let mut parts: Vec<&str> = world
            .ancestors(home)
            .take_while(|&at| at != prefix)
            .map(|at| world.mods[at].name.as_str())
            .collect();
        parts.reverse();
        parts.push(new_name);
        return Spelled::Segment(parts.join("::"));
    }
    Spelled::Whole(full_path(cx, here, rule.new))
}

/// A renamed item with nothing in front of it.
fn bare(
    cx: &Cx<'_>,
    scopes: &Scopes<'_>,
    aliased: &Aliased,
    rule: &ItemRule,
    found: &PathUse,
    at: Span,
) -> Spelled {
    let world = cx.world;
    let (old_name, new_name) = (rule.old.name(world), rule.new.name(world));
    let full = || Spelled::Whole(full_path(cx, found.module, rule.new));
    match scopes.source(cx, at.lo, old_name) {
        Source::Import(module) => {
            if old_name == new_name || aliased.contains(&(module, old_name.to_owned())) {
                return Spelled::Same;
            }
        }
        Source::Glob(target) => {
            let after = cx.rules.upgrade.successor(target);
            let is_there = Place::of(&any_name_in(world, after, new_name, None)) == Some(rule.new);
            if rule.left.contains(&target) || !is_there || is_taken(cx, rule, found.module) {
                return full();
            }
            if old_name == new_name {
                return Spelled::Same;
            }
        }
        // A crate's own name, or a name that nobody can follow.
        Source::Other => return Spelled::Same,
    }
    if scopes.is_shadowed(cx, new_name, at) {
        return full();
    }
    Spelled::Segment(new_name.to_owned())
}

/// Whether the new name means something else in a module.
pub fn is_taken(cx: &Cx<'_>, rule: &ItemRule, module: ModId) -> bool {
    let new_name = rule.new.name(cx.world);
    if rule.old.name(cx.world) == new_name {
        return false;
    }
    let own = cx.world.mods[module].entries.contains_key(new_name);
    let is_type = match rule.old {
        Place::Def(def) => !matches!(cx.world.defs[def].kind, crate::world::DefKind::Fn(_)),
        Place::Mod(_) => true,
    };
    let spaces: &[Ns] = if is_type {
        &[Ns::Type, Ns::Value]
    } else {
        &[Ns::Value]
    };
    spaces.iter().any(|&ns| {
        let res = cx.world.name_in(module, new_name, ns, Some(module));
        match Place::of(&res) {
            Some(place) => place != rule.new,
            // Of std's prelude: hidden by an import, but a reader would be misled.
            None => own && res != Res::Unknown,
        }
    })
}
