//! How to write a name that a module may not know yet.
//!
//! Looks at the imports as they stand in the text now, which may be newer than the world: a name that is there already is
//! used as it is there, also under an alias; else it joins a `use` of the same crate, as the file imports; else it gets
//! a `use` of its own; and where something else has the name, the path is written out. Deletes nothing.

mod layout;

use crate::edit::Edit;
use crate::rewrite::Cx;
use crate::syntax::{Item, ItemKind, Span, UseKind, UseLeaf, UseTree, Vis, trivia};
use crate::world::{ModId, Ns, Res, Scope};

pub use layout::Order;

/// The rule that edits of imports carry.
pub const RULE: &str = "imports";

/// How a name is written in a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spelling {
    /// It is in scope under this name.
    InScope(String),
    /// It is in scope under this name once it is imported.
    Imported(String),
    /// Something else has the name: the whole path.
    FullPath(String),
}

impl Spelling {
    pub fn text(&self) -> &str {
        match self {
            Spelling::InScope(text) | Spelling::Imported(text) | Spelling::FullPath(text) => text,
        }
    }
}

/// How one name is written, and the edits that bring it into scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportPlan {
    pub spelling: Spelling,
    /// None unless it has to be imported.
    pub edits: Vec<Edit>,
}

impl ImportPlan {
    pub fn name(&self) -> &str {
        self.spelling.text()
    }
}

/// How `path` is written in the module with these items.
pub fn add_import(cx: &Cx<'_>, items: &[Item], module: ModId, path: &[&str]) -> ImportPlan {
    let path: Vec<String> = path.iter().map(|&seg| seg.to_owned()).collect();
    let (mut spellings, edits) = add_imports(cx, items, module, std::slice::from_ref(&path));
    ImportPlan {
        spelling: spellings.remove(0),
        edits,
    }
}

/// Several paths at once, so that what goes to the same place does not get in each other's way.
pub fn add_imports(
    cx: &Cx<'_>,
    items: &[Item],
    module: ModId,
    paths: &[Vec<String>],
) -> (Vec<Spelling>, Vec<Edit>) {
    let scope = ModuleImports { cx, items, module };
    let mut missing: Vec<&Vec<String>> = Vec::new();
    let spellings = paths
        .iter()
        .map(|path| {
            let spelling = scope.spelling(path);
            if matches!(spelling, Spelling::Imported(_)) && !missing.contains(&path) {
                missing.push(path);
            }
            spelling
        })
        .collect();
    (spellings, scope.place(&missing))
}

/// The edits that import a name which is already written in the module without a path; none if it is in scope.
pub fn import_written(cx: &Cx<'_>, items: &[Item], module: ModId, path: &[&str]) -> Vec<Edit> {
    let path: Vec<String> = path.iter().map(|&seg| seg.to_owned()).collect();
    let scope = ModuleImports { cx, items, module };
    if scope.in_scope(&path).is_some() || !scope.has_room() {
        return vec![];
    }
    scope.place(&[&path])
}

/// A leaf of a `use` with its item.
#[derive(Debug)]
struct Leaf<'a> {
    item: &'a Item,
    leading_colon: bool,
    leaf: UseLeaf,
}

struct ModuleImports<'c, 'a> {
    cx: &'c Cx<'a>,
    items: &'c [Item],
    module: ModId,
}

/// Where new leaves go.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    item: &'a Item,
    /// The group that they join, or the leaf that becomes one.
    tree: &'a UseTree,
    /// How many segments lead to it.
    depth: usize,
}

impl<'c> ModuleImports<'c, '_> {
    fn spelling(&self, path: &[String]) -> Spelling {
        let last = path.last().map_or("", String::as_str);
        if let Some(name) = self.in_scope(path) {
            return Spelling::InScope(name);
        }
        if self.is_taken(path, last) || !self.has_room() {
            return Spelling::FullPath(self.full_path(path));
        }
        Spelling::Imported(last.to_owned())
    }

    fn resolve(&self, leading_colon: bool, path: &[String]) -> Res {
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        let scope = Scope {
            module: self.module,
            blocks: &[],
            params: &[],
        };
        match self.cx.world.resolve(scope, leading_colon, &segs, Ns::Type) {
            (res, n) if n == segs.len() => res,
            _ => Res::Unknown,
        }
    }

    fn same(&self, leaf: &Leaf<'_>, path: &[String], target: &Res) -> bool {
        if leaf.leaf.path == path {
            return true;
        }
        // `ml_dqn::Phase` and `ml_cuda::Phase` are one.
        matches!(target, Res::Def(_))
            && self.resolve(leaf.leading_colon, &leaf.leaf.path) == *target
    }

    fn in_scope(&self, path: &[String]) -> Option<String> {
        let target = self.resolve(false, path);
        let last = path.last()?;
        if let Res::Def(def) = target
            && self.cx.world.defs[def].module == self.module
        {
            return Some(last.clone());
        }
        let leaves = leaves(self.items);
        let named = leaves
            .iter()
            .filter(|leaf| !has_cfg(leaf.item) && !leaf.leaf.is_glob());
        let mut found = named
            .filter(|leaf| self.same(leaf, path, &target))
            .filter_map(|leaf| leaf.leaf.name().map(str::to_owned));
        if let Some(name) = found.next() {
            return Some(name);
        }
        let hidden = self.own_names().iter().any(|name| name == last);
        if hidden {
            return None;
        }
        for leaf in leaves
            .iter()
            .filter(|leaf| leaf.leaf.is_glob() && !has_cfg(leaf.item))
        {
            if leaf.leaf.path == path[..path.len() - 1] {
                return Some(last.clone());
            }
            let Res::Mod(inner) = self.resolve(leaf.leading_colon, &leaf.leaf.path) else {
                continue;
            };
            if matches!(target, Res::Def(_))
                && self
                    .cx
                    .world
                    .name_in(inner, last, Ns::Type, Some(self.module))
                    == target
            {
                return Some(last.clone());
            }
            // `use super::*` brings what the parent imports by now.
            if let Some(items) = self.items_in_file(inner)
                && self.cx.world.is_descendant(self.module, inner)
            {
                let outer = ModuleImports {
                    cx: self.cx,
                    items,
                    module: inner,
                };
                if let Some(name) = outer.in_scope(path) {
                    return Some(name);
                }
            }
        }
        None
    }

    /// The items of a module that this file holds as well.
    fn items_in_file(&self, module: ModId) -> Option<&'c [Item]> {
        let world = self.cx.world;
        let mut chain: Vec<ModId> = Vec::new();
        let mut root = module;
        // Up to the module that the file is the body of.
        while world.mods[root].braces.is_some() {
            chain.push(root);
            root = world.mods[root].parent?;
        }
        if world.mods[root].file != world.mods[self.module].file
            || root == self.module && chain.is_empty()
        {
            return None;
        }
        let mut items: &'c [Item] = &self.cx.file.items;
        for module in chain.iter().rev() {
            items = items.iter().find_map(|item| match &item.kind {
                ItemKind::Mod(it)
                    if item
                        .name
                        .as_ref()
                        .is_some_and(|name| name.text == world.mods[*module].name) =>
                {
                    it.items.as_deref()
                }
                _ => None,
            })?;
        }
        Some(items)
    }

    /// Names of types and modules that the module's own items and named imports take.
    fn own_names(&self) -> Vec<String> {
        let declared = self
            .items
            .iter()
            .filter(|item| is_type_like(item))
            .filter_map(|item| item.name.as_ref().map(|name| name.text.clone()));
        declared
            .chain(
                leaves(self.items)
                    .into_iter()
                    .filter_map(|leaf| leaf.leaf.name().map(str::to_owned)),
            )
            .collect()
    }

    fn is_taken(&self, path: &[String], last: &str) -> bool {
        if self.own_names().iter().any(|name| name == last) {
            return true;
        }
        // Inside of a function the name may mean something else again.
        let top: Vec<Span> = self.cx.file.items.iter().map(|item| item.span).collect();
        let local = self.cx.nodes.items.iter().any(|(item, outer)| {
            outer.is_none()
                && is_type_like(item)
                && item.name.as_ref().is_some_and(|name| name.text == last)
                && !top.contains(&item.span)
        });
        let generic = self.cx.nodes.functions.iter().any(|(_, f)| {
            f.sig
                .generics
                .params
                .iter()
                .any(|param| param.name.text == last)
        });
        if local || generic {
            return true;
        }
        // An explicit import would hide what a glob or the prelude brings. Named entries of the world may be gone by now.
        if self.cx.world.mods[self.module].entries.contains_key(last) {
            return false;
        }
        let res = self.resolve(false, std::slice::from_ref(&last.to_owned()));
        res != Res::Unknown && res != self.resolve(false, path)
    }

    /// An inline module without items has no line to put a `use` on.
    fn has_room(&self) -> bool {
        !self.items.is_empty()
    }

    fn full_path(&self, path: &[String]) -> String {
        let text = path.join("::");
        let first = path.first().map_or("", String::as_str);
        let shadowed = self.own_names().iter().any(|name| name == first);
        if shadowed && !matches!(first, "crate" | "self" | "super") {
            format!("::{text}")
        } else {
            text
        }
    }

    /// Edits that import what is missing.
    fn place(&self, missing: &[&Vec<String>]) -> Vec<Edit> {
        let mut homes: Vec<(Place<'_>, Vec<String>)> = Vec::new();
        let mut fresh: Vec<&Vec<String>> = Vec::new();
        for path in missing {
            match self.best_place(path) {
                Some(place) => {
                    let text = path[place.depth..].join("::");
                    match homes
                        .iter_mut()
                        .find(|(known, _)| known.tree.span == place.tree.span)
                    {
                        Some((_, texts)) => texts.push(text),
                        None => homes.push((place, vec![text])),
                    }
                }
                None => fresh.push(path),
            }
        }
        let order =
            Order::of_edition(self.cx.world.crates[self.cx.world.mods[self.module].krate].edition);
        let mut edits: Vec<Edit> = Vec::new();
        for (place, texts) in homes {
            edits.extend(match place.tree.kind {
                UseKind::Group { .. } => {
                    layout::into_group(self.cx.text, place.item, place.tree, &texts, order)
                }
                _ => layout::into_leaf(self.cx.text, place.item, place.tree, &texts, order),
            });
        }
        // One `use` for each prefix, unless the file has a line for each name.
        let mut lines: Vec<(Vec<String>, Vec<String>)> = Vec::new();
        for path in fresh {
            let (prefix, last) = path.split_at(path.len() - 1);
            let single = self.one_per_line(&path[0]);
            match lines
                .iter_mut()
                .find(|(known, _)| known == prefix && !single)
            {
                Some((_, names)) => names.extend(last.iter().cloned()),
                None => lines.push((prefix.to_vec(), last.to_vec())),
            }
        }
        edits.extend(self.new_lines(&lines, order));
        edits
    }

    /// The `use` that the path joins: the one that shares most of it.
    fn best_place(&self, path: &[String]) -> Option<Place<'c>> {
        let mut best: Option<(usize, Place<'c>)> = None;
        for item in self.items.iter().filter(|item| {
            item.vis == Vis::Private && item.attrs.is_empty() && !self.cx.is_frozen(item.span)
        }) {
            let ItemKind::Use(it) = &item.kind else {
                continue;
            };
            if it.leading_colon {
                continue;
            }
            self.search(item, &it.tree, path, 0, false, &mut best);
        }
        best.map(|(_, place)| place)
    }

    fn search(
        &self,
        item: &'c Item,
        tree: &'c UseTree,
        path: &[String],
        depth: usize,
        in_group: bool,
        best: &mut Option<(usize, Place<'c>)>,
    ) {
        let mut offer = |depth: usize, place: Place<'c>| {
            if best.as_ref().is_none_or(|(known, _)| depth > *known) {
                *best = Some((depth, place));
            }
        };
        match &tree.kind {
            UseKind::Path { name, rest }
                if path.get(depth).is_some_and(|seg| *seg == name.text) =>
            {
                self.search(item, rest, path, depth + 1, in_group, best);
            }
            UseKind::Group { items } if depth > 0 && depth < path.len() => {
                offer(depth, Place { item, tree, depth });
                for inner in items {
                    self.search(item, inner, path, depth, true, best);
                }
            }
            // `use a::X;` takes another name in only where that is how the file imports.
            UseKind::Name(name)
                if depth > 0
                    && depth + 1 == path.len()
                    && name.text != "self"
                    && (in_group || self.uses_groups()) =>
            {
                offer(depth, Place { item, tree, depth });
            }
            _ => {}
        }
    }

    fn uses_groups(&self) -> bool {
        fn has_group(tree: &UseTree) -> bool {
            match &tree.kind {
                UseKind::Group { .. } => true,
                UseKind::Path { rest, .. } => has_group(rest),
                _ => false,
            }
        }
        self.items
            .iter()
            .any(|item| matches!(&item.kind, ItemKind::Use(it) if has_group(&it.tree)))
    }

    /// Whether the file imports from this crate by one `use` for each name.
    fn one_per_line(&self, first: &str) -> bool {
        let singles = leaves(self.items)
            .into_iter()
            .filter(|leaf| leaf.leaf.path.first().is_some_and(|seg| seg == first))
            .count();
        !self.uses_groups() && singles > 1
    }

    fn new_lines(&self, lines: &[(Vec<String>, Vec<String>)], order: Order) -> Vec<Edit> {
        let mut edits: Vec<Edit> = Vec::new();
        let mut lines: Vec<(String, String)> = lines
            .iter()
            .map(|(prefix, names)| {
                let mut names = names.clone();
                names.sort_by(|a, b| order.compare(a, b));
                let text = match &names[..] {
                    [only] => only.clone(),
                    _ => format!("{{{}}}", names.join(", ")),
                };
                let path = prefix
                    .iter()
                    .cloned()
                    .chain(std::iter::once(text))
                    .collect::<Vec<_>>()
                    .join("::");
                (prefix.first().cloned().unwrap_or_default(), path)
            })
            .collect();
        lines.sort_by(|a, b| order.compare(&a.1, &b.1));
        for (first, path) in &lines {
            if let Some((at, text)) = layout::new_use(self.cx.text, self.items, first, path, order)
            {
                match edits.iter_mut().find(|edit| edit.span == Span::new(at, at)) {
                    // The second of two has its room already.
                    Some(edit) => layout::append_line(self.cx.text, &mut edit.text, path),
                    None => edits.push(Edit::new(Span::new(at, at), text, RULE)),
                }
            }
        }
        edits
    }
}

fn has_cfg(item: &Item) -> bool {
    item.attrs
        .iter()
        .any(|attr| attr.path == "cfg" || attr.path == "cfg_attr")
}

fn is_type_like(item: &Item) -> bool {
    matches!(
        item.kind,
        ItemKind::Struct(_)
            | ItemKind::Enum(_)
            | ItemKind::Trait(_)
            | ItemKind::TypeAlias { .. }
            | ItemKind::Mod(_)
            | ItemKind::ExternCrate { .. }
    )
}

fn leaves(items: &[Item]) -> Vec<Leaf<'_>> {
    let mut out = Vec::new();
    for item in items {
        if let ItemKind::Use(it) = &item.kind {
            let leading_colon = it.leading_colon;
            out.extend(it.tree.leaves().into_iter().map(|leaf| Leaf {
                item,
                leading_colon,
                leaf,
            }));
        }
    }
    out
}

/// Whether nothing but imports and blanks stands on the line of an item.
fn alone_on_line(text: &str, item: &Item) -> bool {
    trivia::starts_line(text, item.span.lo)
}

#[cfg(test)]
mod tests;
