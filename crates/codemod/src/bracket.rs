//! Brackets around calls: a field that a struct gains, and pairs of calls on it around the phases of one of its methods.
//!
//! Everything that belongs to one struct is one group over several files: its field, its construction, its accessor, the
//! brackets, and what its callers do with it. Where field or construction is impossible, nothing of it is proposed and
//! the struct is reported. Proposals look at the texts as they stand, so that code that has some of it already is
//! finished, and a second call proposes nothing.
//!
//! What is not done: calls are never moved, statements never reordered, and no dependency is added.

mod callers;
mod hidden;
mod layout;
mod literals;
mod places;
mod scan;
mod sequence;
mod steps;
mod timer;

use std::collections::BTreeMap;

use crate::edit::{Edit, EditGroup};
use crate::imports;
use crate::rewrite::{Cx, Rules};
use crate::rule::BracketCalls;
use crate::syntax::{ImplItem, Item, ItemKind, Span, StructItem, Ty, UseKind};
use crate::world::{DefId, DefKind, ModId, Type, TypeCtx, World};

/// A file as it stands now.
#[derive(Debug)]
pub struct BracketFile<'a> {
    pub path: &'a str,
    pub cx: &'a Cx<'a>,
    /// The module that the file is the body of.
    pub module: ModId,
}

/// What is proposed, and what is left to a person.
#[derive(Debug, Default)]
pub struct BracketOutcome {
    /// Index of the file and the edits to it, one group for each file. All of them are made, or none.
    pub edits: Vec<(usize, EditGroup)>,
    pub unresolved: Vec<BracketSite>,
}

/// A place that a person has to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BracketSite {
    pub file: usize,
    pub span: Span,
    pub rule: String,
    pub reason: String,
    pub suggestion: Option<String>,
}

/// Proposes everything that the rules of this kind ask of these files.
pub fn brackets(files: &[BracketFile<'_>], world: &World, rules: &Rules) -> BracketOutcome {
    let mut draft = Draft::default();
    for rule in &rules.brackets {
        let tree = Tree::new(files, world, rule);
        let mut names = Names {
            tree: &tree,
            wanted: BTreeMap::new(),
        };
        let mut callable: Vec<DefId> = world
            .defs
            .iter()
            .enumerate()
            // Declared by a migration rather than by the tree: it has its accessor.
            .filter(|(_, def)| {
                def.name == rule.structure && world.files[def.file].path.starts_with('<')
            })
            .map(|(id, _)| id)
            .collect();
        let (contexts, sites) = tree.contexts();
        draft.sites.extend(sites);
        for context in &contexts {
            let mut own = Draft::default();
            let mut own_names = Names {
                tree: &tree,
                wanted: names.wanted.clone(),
            };
            match timer::plan(&tree, context, &mut own_names, &mut own) {
                Ok(timer) => {
                    steps::plan(&tree, context, &timer, &mut own_names, &mut own);
                    names.wanted = own_names.wanted;
                    draft.merge(own);
                    callable.push(context.def);
                }
                Err(site) => draft.sites.push(site),
            }
        }
        callers::plan(&tree, &callable, &contexts, &mut draft);
        for (file, edit) in names.edits() {
            draft.edit(file, edit.span, edit.text, rule);
        }
    }
    draft.finish()
}

/// Edits and sites on their way.
#[derive(Debug, Default)]
struct Draft {
    edits: BTreeMap<usize, Vec<Edit>>,
    sites: Vec<BracketSite>,
}

impl Draft {
    fn edit(&mut self, file: usize, span: Span, text: impl Into<String>, rule: &BracketCalls) {
        let edits = self.edits.entry(file).or_default();
        let text = text.into();
        // What goes to one place goes there in the order of its being asked for.
        match edits
            .iter_mut()
            .find(|edit| edit.span == span && span.is_empty())
        {
            Some(edit) => edit.text.push_str(&text),
            None => edits.push(Edit::new(span, text, &rule.rule)),
        }
    }

    fn insert(&mut self, file: usize, at: usize, text: impl Into<String>, rule: &BracketCalls) {
        self.edit(file, Span::new(at, at), text, rule);
    }

    fn merge(&mut self, other: Draft) {
        for (file, edits) in other.edits {
            self.edits.entry(file).or_default().extend(edits);
        }
        self.sites.extend(other.sites);
    }

    fn finish(mut self) -> BracketOutcome {
        self.sites
            .sort_by(|a, b| (a.file, a.span, &a.reason).cmp(&(b.file, b.span, &b.reason)));
        self.sites.dedup();
        let edits = self
            .edits
            .into_iter()
            .filter(|(_, edits)| !edits.is_empty());
        let edits = edits
            .map(|(file, mut edits)| {
                edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
                (file, EditGroup { edits })
            })
            .collect();
        BracketOutcome {
            edits,
            unresolved: self.sites,
        }
    }
}

/// One module's body in one file.
#[derive(Debug, Clone, Copy)]
struct Body<'a> {
    file: usize,
    module: ModId,
    items: &'a [Item],
}

#[derive(Debug, Clone, Copy)]
struct ImplAt<'a> {
    body: Body<'a>,
    it: &'a ImplItem,
}

/// A struct of the rule's name, where the tree declares it.
#[derive(Debug)]
struct Context<'a> {
    def: DefId,
    body: Body<'a>,
    item: &'a Item,
    it: &'a StructItem,
    impls: Vec<ImplAt<'a>>,
}

impl Context<'_> {
    /// Whether private fields are seen from a module.
    fn sees_fields(&self, world: &World, from: ModId) -> bool {
        world.is_descendant(from, self.body.module)
    }
}

/// The files of a call, by module.
struct Tree<'a> {
    files: &'a [BracketFile<'a>],
    world: &'a World,
    rule: &'a BracketCalls,
    bodies: Vec<Body<'a>>,
    /// The field's type, where surfaces or the tree declare it.
    timer_defs: Vec<DefId>,
}

impl<'a> Tree<'a> {
    fn new(files: &'a [BracketFile<'a>], world: &'a World, rule: &'a BracketCalls) -> Self {
        let mut bodies = Vec::new();
        for (file, it) in files.iter().enumerate() {
            walk_bodies(
                world,
                Body {
                    file,
                    module: it.module,
                    items: &it.cx.file.items,
                },
                &mut bodies,
            );
        }
        let timer_defs = rule
            .import_from
            .iter()
            .flat_map(|name| {
                world
                    .crates
                    .iter()
                    .filter(move |krate| krate.package.replace('-', "_") == *name)
            })
            .filter_map(|krate| {
                match world.name_in(krate.root, &rule.field_type, crate::world::Ns::Type, None) {
                    crate::world::Res::Def(def) => Some(def),
                    _ => None,
                }
            })
            .collect();
        Tree {
            files,
            world,
            rule,
            bodies,
            timer_defs,
        }
    }

    fn cx(&self, file: usize) -> &'a Cx<'a> {
        self.files[file].cx
    }

    fn site(
        &self,
        file: usize,
        span: Span,
        reason: impl Into<String>,
        suggestion: impl Into<Option<String>>,
    ) -> BracketSite {
        BracketSite {
            file,
            span,
            rule: self.rule.rule.clone(),
            reason: reason.into(),
            suggestion: suggestion.into(),
        }
    }

    /// A type as it is written in a module, generics of an item as parameters.
    fn lower(&self, module: ModId, params: &[String], self_ty: Option<&Type>, ty: &Ty) -> Type {
        self.world.lower_ty(
            &TypeCtx {
                module,
                params,
                self_ty,
                scopes: &[],
            },
            ty,
        )
    }

    /// The structs of the rule's name that have its method.
    fn contexts(&self) -> (Vec<Context<'a>>, Vec<BracketSite>) {
        let mut contexts: Vec<Context<'a>> = Vec::new();
        let mut sites = Vec::new();
        for body in &self.bodies {
            let named: Vec<(&'a Item, &'a StructItem)> = body
                .items
                .iter()
                .filter(|item| {
                    item.name
                        .as_ref()
                        .is_some_and(|name| name.text == self.rule.structure)
                })
                .filter_map(|item| match &item.kind {
                    ItemKind::Struct(it) => Some((item, it)),
                    _ => None,
                })
                .collect();
            let Some(&(item, it)) = named.first() else {
                continue;
            };
            if self.cx(body.file).is_frozen(item.span) {
                continue;
            }
            if named.len() > 1 {
                let reason = format!(
                    "`{}` is declared {} times, for different `cfg`",
                    self.rule.structure,
                    named.len()
                );
                sites.push(self.site(
                    body.file,
                    name_span(item),
                    reason,
                    format!(
                        "add the field `{}` and its brackets to each by hand",
                        self.rule.field
                    ),
                ));
                continue;
            }
            let declared = self.world.mods[body.module]
                .entries
                .get(&self.rule.structure)
                .into_iter()
                .flatten()
                .find_map(|entry| match entry.kind {
                    crate::world::EntryKind::Def(def)
                        if matches!(self.world.defs[def].kind, DefKind::Struct { .. }) =>
                    {
                        Some(def)
                    }
                    _ => None,
                });
            let Some(def) = declared else { continue };
            let impls = self.impls_of(def);
            let has_method = impls.iter().any(|at| {
                at.it
                    .items
                    .iter()
                    .any(|item| is_fn_named(item, &self.rule.method))
            });
            // Of the same name, but not what the rule means.
            if has_method {
                contexts.push(Context {
                    def,
                    body: *body,
                    item,
                    it,
                    impls,
                });
            }
        }
        (contexts, sites)
    }

    fn impls_of(&self, def: DefId) -> Vec<ImplAt<'a>> {
        let mut out = Vec::new();
        for body in &self.bodies {
            for item in body.items {
                let ItemKind::Impl(it) = &item.kind else {
                    continue;
                };
                let params = it.generics.names();
                if matches!(self.lower(body.module, &params, None, &it.self_ty).peeled(), Type::Adt(found, _) if *found == def)
                {
                    out.push(ImplAt { body: *body, it });
                }
            }
        }
        out
    }

    /// The names under which a module may reach one of the crates to import from.
    fn import_prefix(&self, module: ModId, items: &[Item]) -> Option<String> {
        let krate = &self.world.crates[self.world.mods[module].krate];
        for wanted in &self.rule.import_from {
            if krate.package.replace('-', "_") == *wanted
                && krate.kind == crate::world::CrateKind::Lib
            {
                return Some("crate".into());
            }
            let is_wanted = |id: &Option<usize>, name: &str| match id {
                Some(id) => self.world.crates[*id].package.replace('-', "_") == *wanted,
                None => name == wanted,
            };
            let names: Vec<&String> = krate
                .externs
                .iter()
                .filter(|(name, id)| is_wanted(id, name))
                .map(|(name, _)| name)
                .collect();
            // A renamed dependency is called as the file calls it.
            let used = names
                .iter()
                .find(|name| items.iter().any(|item| starts_with(item, name)));
            if let Some(name) = used
                .or_else(|| names.iter().find(|name| **name == wanted))
                .or(names.first())
            {
                return Some((**name).clone());
            }
        }
        None
    }
}

/// Whether a `use` begins with this name.
fn starts_with(item: &Item, name: &str) -> bool {
    match &item.kind {
        ItemKind::Use(it) => {
            matches!(&it.tree.kind, UseKind::Path { name: first, .. } if first.text == name)
        }
        _ => false,
    }
}

fn walk_bodies<'a>(world: &World, body: Body<'a>, out: &mut Vec<Body<'a>>) {
    out.push(body);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for item in body.items {
        if let (ItemKind::Mod(it), Some(name)) = (&item.kind, &item.name) {
            let nth = seen.entry(&name.text).or_default();
            if let Some(items) = &it.items
                && let Some(module) = world.nth_child(body.module, &name.text, *nth)
            {
                walk_bodies(
                    world,
                    Body {
                        file: body.file,
                        module,
                        items,
                    },
                    out,
                );
            }
            *nth += 1;
        }
    }
}

fn is_fn_named(item: &Item, name: &str) -> bool {
    matches!(item.kind, ItemKind::Fn(_)) && item.name.as_ref().is_some_and(|it| it.text == name)
}

fn name_span(item: &Item) -> Span {
    item.name.as_ref().map_or(item.span, |name| name.span)
}

/// Names that the inserted code needs, and the imports for them.
struct Names<'t, 'a> {
    tree: &'t Tree<'a>,
    wanted: BTreeMap<(usize, ModId), Vec<Vec<String>>>,
}

impl Names<'_, '_> {
    /// How to write an item of the crates to import from; none where the package depends on none of them.
    fn spell(&mut self, body: Body<'_>, name: &str) -> Option<String> {
        let path = vec![
            self.tree.import_prefix(body.module, body.items)?,
            name.to_owned(),
        ];
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        let plan = imports::add_import(self.tree.cx(body.file), body.items, body.module, &segs);
        if !plan.edits.is_empty() {
            let paths = self.wanted.entry((body.file, body.module)).or_default();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Some(plan.name().to_owned())
    }

    /// Whether the module has `use super::*` and its parent is about to import this.
    fn parent_brings(&self, body: &Body<'_>, path: &[String]) -> bool {
        let has_glob = body.items.iter().any(|item| {
            matches!(&item.kind, ItemKind::Use(it) if matches!(&it.tree.kind, UseKind::Path { name, rest } if name.text == "super" && matches!(rest.kind, UseKind::Glob)))
        });
        let Some(parent) = self.tree.world.mods[body.module]
            .parent
            .filter(|_| has_glob)
        else {
            return false;
        };
        let imports = self.wanted.iter().any(|((_, module), paths)| {
            *module == parent && paths.iter().any(|known| known == path)
        });
        imports
            || self
                .tree
                .bodies
                .iter()
                .any(|body| body.module == parent && self.parent_brings(body, path))
    }

    fn edits(&self) -> Vec<(usize, Edit)> {
        let mut out = Vec::new();
        for ((file, module), paths) in &self.wanted {
            let Some(body) = self
                .tree
                .bodies
                .iter()
                .find(|body| body.file == *file && body.module == *module)
            else {
                continue;
            };
            let missing: Vec<Vec<String>> = paths
                .iter()
                .filter(|path| !self.parent_brings(body, path))
                .cloned()
                .collect();
            let (_, edits) =
                imports::add_imports(self.tree.cx(*file), body.items, *module, &missing);
            out.extend(edits.into_iter().map(|edit| (*file, edit)));
        }
        out
    }
}

#[cfg(test)]
mod tests;
