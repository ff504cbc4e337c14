//! New names for old: paths first, then the imports that brought the old names.
//!
//! Runs when the rewrites are done, in two steps over each file: [`rename_paths`] writes the new name wherever the old
//! type still stands, [`edit_imports`] then looks at which names each scope uses by now. An import goes only if this run
//! made it unused, and one that an unresolved site still names stays.

mod imports_of;

use std::collections::{HashMap, HashSet};

use crate::analysis::PathRole;
use crate::edit::{Edit, EditGroup};
use crate::imports::Spelling;
use crate::rewrite::{Cx, Retired};
use crate::syntax::{ItemKind, Span};
use crate::world::{DefId, ModId, Ns, Res, Scope};

pub use imports_of::{UseScope, edit_imports, item_extent, removals, scopes, taken_from, usage};

impl<'a> Cx<'a> {
    /// How a definition can be named from a module once the migration is done.
    pub fn name_for(&self, module: ModId, new: DefId) -> Spelling {
        let name = &self.world.defs[new].name;
        // Already there under some name.
        for (alias, entries) in &self.world.mods[module].entries {
            if entries
                .iter()
                .any(|entry| matches!(entry.kind, crate::world::EntryKind::Use { .. }))
                && self.world.name_in(module, alias, Ns::Type, Some(module)) == Res::Def(new)
            {
                return Spelling::InScope(alias.clone());
            }
        }
        match self.world.name_in(module, name, Ns::Type, Some(module)) {
            Res::Def(def) if def == new => Spelling::InScope(name.clone()),
            Res::Unknown if !self.world.declares(module, name) => Spelling::Imported(name.clone()),
            _ => Spelling::FullPath(self.full_path(module, new)),
        }
    }

    /// A path that works anywhere in the module: through the root's re-export where there is one.
    pub fn full_path(&self, module: ModId, def: DefId) -> String {
        let target = &self.world.defs[def];
        let home = self.world.mods[target.module].krate;
        let here = self.world.mods[module].krate;
        let root = self.world.crates[home].root;
        let externs = &self.world.crates[here].externs;
        let head = if here == home {
            "crate".to_owned()
        } else if let Some((name, _)) = externs.iter().find(|(_, krate)| **krate == Some(home)) {
            name.clone()
        } else {
            // Through a crate that has it at its root, or will.
            let retired = self.rules.retired_types();
            let olds = retired.filter(|retired| retired.becomes() == def);
            let all: Vec<DefId> = olds.map(|retired| retired.def()).chain([def]).collect();
            let through = externs.iter().find(|(_, krate)| {
                krate.is_some_and(|krate| {
                    let root = self.world.crates[krate].root;
                    all.iter().any(|one| {
                        let name = &self.world.defs[*one].name;
                        self.world.name_in(root, name, Ns::Type, Some(module)) == Res::Def(*one)
                    })
                })
            });
            if let Some((name, _)) = through {
                return format!("{name}::{}", target.name);
            }
            self.world.crates[home].name.clone()
        };
        if self
            .world
            .name_in(root, &target.name, Ns::Type, Some(module))
            == Res::Def(def)
        {
            format!("{head}::{}", target.name)
        } else {
            let path = self.world.module_path(target.module);
            let below = path.split_once("::").map_or("", |(_, below)| below);
            if below.is_empty() {
                format!("{head}::{}", target.name)
            } else {
                format!("{head}::{below}::{}", target.name)
            }
        }
    }
}

/// Writes new names in place of old ones, everywhere but in imports and in what is left to a person.
pub fn rename_paths(cx: &Cx<'_>, left: &[Span]) -> Vec<EditGroup> {
    let mut out: Vec<EditGroup> = Vec::new();
    let mut done: HashSet<usize> = HashSet::new();
    let mut uses: Vec<_> = cx.an.paths.values().collect();
    uses.sort_by_key(|found| found.path.span.lo);
    for found in uses {
        if found.taken == 0
            || !matches!(
                found.role,
                PathRole::Type | PathRole::Value | PathRole::Pattern | PathRole::Bound
            )
        {
            continue;
        }
        if left.iter().any(|span| span.overlaps(found.path.span))
            || cx.is_frozen(found.path.span)
            || cx.rules.deleted_mods.contains_key(&found.module)
        {
            continue;
        }
        let Res::Def(def) = found.res else { continue };
        let Some(retired) = cx.rules.retired_def(def) else {
            continue;
        };
        let seg = &found.path.segs[found.taken - 1];
        // An alias stays: what it stands for is changed where it is declared.
        if seg.name.text != cx.world.defs[def].name || !done.insert(seg.name.span.lo) {
            continue;
        }
        let Some(edit) = rename_one(cx, &found.path, found.taken, found.module, &retired) else {
            continue;
        };
        if !cx.is_frozen(edit.span) {
            out.push(EditGroup::one(edit));
        }
    }
    out
}

fn rename_one(
    cx: &Cx<'_>,
    path: &crate::syntax::Path,
    taken: usize,
    module: ModId,
    retired: &Retired<'_>,
) -> Option<Edit> {
    let new = retired.becomes();
    let new_name = cx.world.defs[new].name.clone();
    let rule = retired.rule();
    let last = &path.segs[taken - 1].name;
    if taken == 1 {
        let text = match cx.name_for(module, new) {
            Spelling::InScope(name) | Spelling::Imported(name)
                if shadowed(cx, &name, path.span) =>
            {
                cx.full_path(module, new)
            }
            Spelling::InScope(name) | Spelling::Imported(name) => name,
            Spelling::FullPath(path) => path,
        };
        return Some(Edit::new(last.span, text, rule));
    }
    // The module that the name is taken from.
    let names = path.names();
    let scope = Scope {
        module,
        blocks: &[],
        params: &[],
    };
    let (prefix, n) = cx
        .world
        .resolve(scope, path.leading_colon, &names[..taken - 1], Ns::Type);
    if n != taken - 1 {
        return Some(Edit::new(
            Span::new(path.span.lo, last.span.hi),
            cx.full_path(module, new),
            rule,
        ));
    }
    match prefix {
        Res::Mod(from) if cx.rules.deleted_mods.contains_key(&from) => {
            let seg = &path.segs[taken - 2].name;
            let parent = cx.world.mods[from].parent;
            let target = cx.world.defs[new].module;
            let around = &names[..taken - 2];
            let handed_on =
                || imports_of::is_handed_on(cx, &scope, path.leading_colon, around, &seg.text);
            let is_its_name = seg.text == cx.world.mods[from].name;
            if !is_its_name && handed_on() {
                return Some(Edit::new(last.span, new_name, rule));
            }
            // `….old_module::Old` beside a module that holds the new one.
            let is_beside = || {
                let beside: Vec<&str> = around
                    .iter()
                    .copied()
                    .chain([cx.world.mods[target].name.as_str()])
                    .collect();
                let found = cx
                    .world
                    .resolve(scope, path.leading_colon, &beside, Ns::Type);
                found == (Res::Mod(target), beside.len())
            };
            if is_its_name
                && parent.is_some()
                && cx.world.mods[target].parent == parent
                && taken > 2
                && (is_beside() || handed_on())
            {
                let text = format!("{}::{new_name}", cx.world.mods[target].name);
                return Some(Edit::new(Span::new(seg.span.lo, last.span.hi), text, rule));
            }
            let text = match cx.name_for(module, new) {
                Spelling::InScope(name) => name,
                _ => cx.full_path(module, new),
            };
            Some(Edit::new(Span::new(path.span.lo, last.span.hi), text, rule))
        }
        Res::Mod(from) => {
            // A module that re-exports the old name will re-export the new one, unless that is something else there.
            match cx.world.name_in(from, &new_name, Ns::Type, Some(module)) {
                Res::Def(def) if def == new => Some(Edit::new(last.span, new_name, rule)),
                Res::Unknown => Some(Edit::new(last.span, new_name, rule)),
                _ => Some(Edit::new(
                    Span::new(path.span.lo, last.span.hi),
                    cx.full_path(module, new),
                    rule,
                )),
            }
        }
        _ => Some(Edit::new(last.span, new_name, rule)),
    }
}

/// A generic parameter or an item of a function's body has the name where it would stand.
fn shadowed(cx: &Cx<'_>, name: &str, at: Span) -> bool {
    cx.nodes.items.iter().any(|(item, _)| {
        let params = match &item.kind {
            ItemKind::Fn(it) => Some(&it.sig.generics),
            ItemKind::Impl(it) => Some(&it.generics),
            ItemKind::Struct(it) => Some(&it.generics),
            ItemKind::Enum(it) => Some(&it.generics),
            ItemKind::Trait(it) => Some(&it.generics),
            ItemKind::TypeAlias { generics, .. } => Some(generics),
            _ => None,
        };
        let param = item.span.contains(at)
            && params.is_some_and(|generics| {
                generics.params.iter().any(|param| param.name.text == name)
            });
        let local = item.name.as_ref().is_some_and(|own| own.text == name)
            && cx.nodes.functions.iter().any(|(around, _)| {
                around.span != item.span
                    && around.span.contains(item.span)
                    && around.span.contains(at)
            });
        param || local
    })
}

/// How often each identifier stands in a stretch.
pub fn count_idents(
    file: &crate::syntax::File,
    within: Span,
    without: &[Span],
) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for ident in file.idents.iter().filter(|ident| {
        within.contains(ident.span) && !without.iter().any(|span| span.contains(ident.span))
    }) {
        *counts.entry(ident.text.clone()).or_insert(0) += 1;
    }
    counts
}
