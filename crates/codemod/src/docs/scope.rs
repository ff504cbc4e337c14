//! What the names of a module mean once the migration is done, read off its imports as they stand by now.

use crate::names::scopes;
use crate::rewrite::{Cx, Retired};
use crate::syntax::{ItemKind, Span};
use crate::world::{BlockScope, DefId, EntryKind, ModId, Ns, Res, Scope};

/// A module that documentation stands in.
#[derive(Debug)]
pub struct DocScope {
    pub module: ModId,
    region: Span,
    imports: BlockScope,
}

/// The modules of a file, outermost first.
pub fn doc_scopes(cx: &Cx<'_>, module: ModId) -> Vec<DocScope> {
    scopes(cx, module, cx.text.len())
        .into_iter()
        .filter(|scope| !scope.is_block)
        .map(|scope| {
            // An import under a condition may not be there.
            let items = scope.items.iter().copied().filter(|item| {
                matches!(item.kind, ItemKind::Use(_))
                    && !item.attrs.iter().any(|attr| attr.path == "cfg")
            });
            DocScope {
                module: scope.module,
                region: scope.region,
                imports: cx.world.block_scope(items, 0),
            }
        })
        .collect()
}

/// The innermost module that holds a place.
pub fn scope_at(scopes: &[DocScope], at: usize) -> Option<&DocScope> {
    scopes
        .iter()
        .rev()
        .find(|scope| scope.region.lo <= at && at < scope.region.hi)
}

impl DocScope {
    /// The name that the successor of a retired type has here, if it has one.
    pub fn spelling(&self, cx: &Cx<'_>, retired: &Retired<'_>) -> Option<String> {
        let new = retired.becomes();
        let name = &cx.world.defs[new].name;
        if cx.world.defs[new].module == self.module {
            return Some(name.clone());
        }
        let brings = |alias: &String| {
            self.imports.entries.get(alias).is_some_and(|entries| {
                entries.iter().any(|entry| match &entry.kind {
                    EntryKind::Use {
                        leading_colon,
                        path,
                    } => self.will_be(cx, *leading_colon, path) == Some(new),
                    _ => false,
                })
            })
        };
        if brings(name) {
            return Some(name.clone());
        }
        let is_taken = matches!(cx.world.name_in(self.module, name, Ns::Type, Some(self.module)), Res::Def(def) if def != new);
        if !is_taken && !self.imports.entries.contains_key(name) && self.comes_by_glob(cx, retired)
        {
            return Some(name.clone());
        }
        self.imports
            .entries
            .keys()
            .find(|alias| brings(alias))
            .cloned()
    }

    /// What a path means afterwards: the text may name already what the world does not know yet.
    fn will_be(&self, cx: &Cx<'_>, leading_colon: bool, path: &[String]) -> Option<DefId> {
        let from = Scope {
            module: self.module,
            blocks: &[],
            params: &[],
        };
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        let resolve = |segs: &[&str]| match cx.world.resolve(from, leading_colon, segs, Ns::Type) {
            (Res::Def(def), n) if n == segs.len() => Some(def),
            _ => None,
        };
        if let Some(def) = resolve(&segs) {
            return Some(cx.world.successor(def).unwrap_or(def));
        }
        let (last, head) = segs.split_last()?;
        let all = cx.rules.retired_types();
        all.map(|retired| (retired.def(), retired.becomes()))
            .filter(|(_, new)| cx.world.defs[*new].name == **last)
            .find(|(old, _)| {
                let as_it_was: Vec<&str> = head
                    .iter()
                    .copied()
                    .chain([cx.world.defs[*old].name.as_str()])
                    .collect();
                resolve(&as_it_was) == Some(*old)
            })
            .map(|(_, new)| new)
    }

    fn comes_by_glob(&self, cx: &Cx<'_>, retired: &Retired<'_>) -> bool {
        let from = Scope {
            module: self.module,
            blocks: &[],
            params: &[],
        };
        self.imports.globs.iter().any(|glob| {
            let segs: Vec<&str> = glob.path.iter().map(String::as_str).collect();
            match cx.world.resolve(from, glob.leading_colon, &segs, Ns::Type) {
                (Res::Mod(target), n)
                    if n == segs.len() && !cx.rules.deleted_mods.contains_key(&target) =>
                {
                    let holds = |def: DefId| {
                        cx.world.name_in(
                            target,
                            &cx.world.defs[def].name,
                            Ns::Type,
                            Some(self.module),
                        ) == Res::Def(def)
                    };
                    holds(retired.becomes()) || holds(retired.def())
                }
                _ => false,
            }
        })
    }
}
