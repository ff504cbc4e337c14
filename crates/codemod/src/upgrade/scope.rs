//! What names mean at a place, imports inside of functions included, and which traits are in scope there.

use crate::names::{UseScope, scopes};
use crate::rewrite::Cx;
use crate::syntax::{ItemKind, Span, UseItem};
use crate::world::{BlockScope, DefId, EntryKind, ModId, Ns, Res, Scope};

/// Whether a trait is in scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Yes,
    /// A glob leads to a crate that is not known.
    Maybe,
    No,
}

/// How a bare name comes into scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An import in a module of the tree, this one or one that a glob takes it from.
    Import(ModId),
    /// A glob over a module that is declared, not in the tree.
    Glob(ModId),
    Other,
}

/// The modules and blocks of a file that have imports.
#[derive(Debug)]
pub struct Scopes<'f> {
    list: Vec<(UseScope<'f>, BlockScope)>,
}

impl<'f> Scopes<'f> {
    pub fn of(cx: &Cx<'f>, module: ModId) -> Self {
        let list = scopes(cx, module, cx.text.len())
            .into_iter()
            .map(|scope| {
                let names = if scope.is_block {
                    cx.world.block_scope(scope.items.iter().copied(), cx.id)
                } else {
                    BlockScope::default()
                };
                (scope, names)
            })
            .collect();
        Scopes { list }
    }

    pub fn all(&self) -> impl Iterator<Item = &UseScope<'f>> {
        self.list.iter().map(|(scope, _)| scope)
    }

    /// The module around a place.
    pub fn module_at(&self, at: usize) -> Option<ModId> {
        self.around(at)
            .filter(|(scope, _)| !scope.is_block)
            .min_by_key(|(scope, _)| scope.region.len())
            .map(|(scope, _)| scope.module)
    }

    fn around(&self, at: usize) -> impl Iterator<Item = &(UseScope<'f>, BlockScope)> {
        self.list
            .iter()
            .filter(move |(scope, _)| scope.region.lo <= at && at < scope.region.hi.max(1))
    }

    fn blocks(&self, at: usize) -> Vec<&(UseScope<'f>, BlockScope)> {
        let mut blocks: Vec<_> = self
            .around(at)
            .filter(|(scope, _)| scope.is_block)
            .collect();
        blocks.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.region.len()));
        blocks
    }

    /// What leading segments mean at a place.
    pub fn resolve(
        &self,
        cx: &Cx<'_>,
        at: usize,
        leading_colon: bool,
        segs: &[&str],
        ns: Ns,
    ) -> (Res, usize) {
        let Some(module) = self.module_at(at) else {
            return (Res::Unknown, 0);
        };
        let blocks: Vec<BlockScope> = self
            .blocks(at)
            .into_iter()
            .map(|(_, names)| names.clone())
            .collect();
        let scope = Scope {
            module,
            blocks: &blocks,
            params: &[],
        };
        cx.world.resolve(scope, leading_colon, segs, ns)
    }

    /// What a path of a `use` in this scope leads to.
    pub fn resolve_use(
        cx: &Cx<'_>,
        scope: &UseScope<'_>,
        it: &UseItem,
        segs: &[&str],
        ns: Ns,
    ) -> Res {
        let krate = &cx.world.crates[cx.world.mods[scope.module].krate];
        // In the 2015 edition such paths count from the crate's root.
        let from_root =
            krate.edition < 2018 && !matches!(segs.first(), Some(&("crate" | "self" | "super")));
        let from = Scope {
            module: if from_root { krate.root } else { scope.module },
            blocks: &[],
            params: &[],
        };
        let leading = it.leading_colon && !from_root;
        match cx.world.resolve(from, leading, segs, ns) {
            (res, n) if n == segs.len() => res,
            _ => Res::Unknown,
        }
    }

    /// Whether methods of a trait can be called at a place.
    pub fn sees_trait(&self, cx: &Cx<'_>, at: usize, of_trait: DefId) -> Sight {
        let mut sight = Sight::No;
        for (scope, _) in self.blocks(at) {
            sight = best(sight, self.scope_sees(cx, scope, of_trait, 0));
        }
        match self.module_at(at) {
            Some(module) => best(sight, self.module_sees(cx, module, of_trait, 0)),
            None => sight,
        }
    }

    fn module_sees(&self, cx: &Cx<'_>, module: ModId, of_trait: DefId, depth: usize) -> Sight {
        if cx.world.defs[of_trait].module == module {
            return Sight::Yes;
        }
        let mut sight = Sight::No;
        if let Some((scope, _)) = self
            .list
            .iter()
            .find(|(scope, _)| !scope.is_block && scope.module == module)
        {
            sight = self.scope_sees(cx, scope, of_trait, depth);
        }
        if sight != Sight::No {
            return sight;
        }
        // By its names alone: the module of another file, or of the macro whose tokens are read.
        let name = &cx.world.defs[of_trait].name;
        if cx.world.name_in(module, name, Ns::Type, Some(module)) == Res::Def(of_trait) {
            return Sight::Yes;
        }
        for (alias, entries) in &cx.world.mods[module].entries {
            let is_use = entries
                .iter()
                .any(|entry| matches!(entry.kind, EntryKind::Use { .. }));
            if is_use
                && cx.world.name_in(module, alias, Ns::Type, Some(module)) == Res::Def(of_trait)
            {
                sight = Sight::Yes;
            }
        }
        sight
    }

    fn scope_sees(
        &self,
        cx: &Cx<'_>,
        scope: &UseScope<'_>,
        of_trait: DefId,
        depth: usize,
    ) -> Sight {
        let mut sight = Sight::No;
        for item in &scope.items {
            let ItemKind::Use(it) = &item.kind else {
                continue;
            };
            for leaf in it.tree.leaves() {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                let res = Self::resolve_use(cx, scope, it, &segs, Ns::Type);
                sight = best(
                    sight,
                    match res {
                        Res::Def(def) if def == of_trait => Sight::Yes,
                        Res::Mod(target) if leaf.is_glob() => {
                            self.glob_sees(cx, scope.module, target, of_trait, depth)
                        }
                        Res::External(path) if leaf.is_glob() => match path.split("::").next() {
                            Some("std" | "core" | "alloc") => Sight::No,
                            _ => Sight::Maybe,
                        },
                        Res::Unknown | Res::Ambiguous if leaf.is_glob() => Sight::Maybe,
                        _ => Sight::No,
                    },
                );
            }
        }
        sight
    }

    fn glob_sees(
        &self,
        cx: &Cx<'_>,
        from: ModId,
        target: ModId,
        of_trait: DefId,
        depth: usize,
    ) -> Sight {
        let name = &cx.world.defs[of_trait].name;
        if cx.world.name_in(target, name, Ns::Type, Some(from)) == Res::Def(of_trait) {
            return Sight::Yes;
        }
        if depth > 8 || cx.world.mods[target].synthetic {
            return Sight::No;
        }
        self.module_sees(cx, target, of_trait, depth + 1)
    }

    /// How a bare name that means an old item comes to a place.
    pub fn source(&self, cx: &Cx<'_>, at: usize, name: &str) -> Source {
        let Some(module) = self.module_at(at) else {
            return Source::Other;
        };
        for (_, names) in self.blocks(at).into_iter().rev() {
            if names.entries.contains_key(name) {
                return Source::Import(module);
            }
            for glob in &names.globs {
                let path: Vec<&str> = glob.path.iter().map(String::as_str).collect();
                if let (Res::Mod(target), n) =
                    self.resolve(cx, at, glob.leading_colon, &path, Ns::Type)
                    && n == path.len()
                    && super::any_name_in(cx.world, target, name, Some(module)) != Res::Unknown
                {
                    return source_in(cx, target, name, 0);
                }
            }
        }
        source_in(cx, module, name, 0)
    }

    /// Whether a local or a parameter of this name can be seen at a place.
    pub fn is_shadowed(&self, cx: &Cx<'_>, name: &str, at: Span) -> bool {
        cx.an.locals.iter().any(|local| {
            if local.name != name || local.span.lo >= at.lo {
                return false;
            }
            // In its own initializer it is not there yet.
            let in_its_let =
                cx.nodes.lets.iter().any(|found| {
                    found.stmt.span.contains(local.span) && found.stmt.span.contains(at)
                });
            if in_its_let {
                return false;
            }
            let block = cx
                .nodes
                .blocks
                .iter()
                .map(|block| block.span)
                .filter(|span| span.contains(local.span))
                .min_by_key(|span| span.len());
            // A parameter stands before the body that it is seen in.
            block.is_none_or(|span| span.contains(at))
                && cx
                    .an
                    .functions
                    .get(local.function)
                    .is_none_or(|function| function.span.contains(at))
        })
    }
}

fn best(a: Sight, b: Sight) -> Sight {
    match (a, b) {
        (Sight::Yes, _) | (_, Sight::Yes) => Sight::Yes,
        (Sight::Maybe, _) | (_, Sight::Maybe) => Sight::Maybe,
        _ => Sight::No,
    }
}

fn source_in(cx: &Cx<'_>, module: ModId, name: &str, depth: usize) -> Source {
    let world = cx.world;
    if depth > 8 {
        return Source::Other;
    }
    if world.mods[module].synthetic {
        return Source::Glob(module);
    }
    let is_import = world.mods[module].entries.get(name).is_some_and(|entries| {
        entries
            .iter()
            .any(|entry| matches!(entry.kind, EntryKind::Use { .. }))
    });
    if is_import {
        return Source::Import(module);
    }
    for glob in &world.mods[module].globs {
        let path: Vec<&str> = glob.path.iter().map(String::as_str).collect();
        let from = Scope {
            module,
            blocks: &[],
            params: &[],
        };
        if let (Res::Mod(target), n) = world.resolve(from, glob.leading_colon, &path, Ns::Type)
            && n == path.len()
            && target != module
            && super::any_name_in(world, target, name, Some(module)) != Res::Unknown
        {
            return source_in(cx, target, name, depth + 1);
        }
    }
    Source::Other
}
