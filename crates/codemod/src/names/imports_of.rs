//! The `use` items of a file, scope by scope.

use std::collections::{HashMap, HashSet};

use super::count_idents;
use crate::edit::{Edit, EditGroup};
use crate::rewrite::{Cx, Retired};
use crate::syntax::trivia::{self, indent_of, line_end, line_start, next_line, starts_line};
use crate::syntax::{Binds, Block, Item, ItemKind, Span, StmtKind, UseKind, UseLeaf, UseTree, Vis};
use crate::world::{DefId, ModId, Ns, Res, Scope};

/// A module or block with imports of its own.
#[derive(Debug)]
pub struct UseScope<'f> {
    pub module: ModId,
    /// Where its names are seen.
    pub region: Span,
    /// Inner modules, where they are not.
    pub holes: Vec<Span>,
    pub items: Vec<&'f Item>,
    /// Everything in the module; nothing for a block.
    pub all: &'f [Item],
    pub is_block: bool,
}

/// The scopes of a file, outermost first.
pub fn scopes<'f>(cx: &Cx<'f>, module: ModId, text_len: usize) -> Vec<UseScope<'f>> {
    let mut out = Vec::new();
    module_scope(cx, &cx.file.items, module, Span::new(0, text_len), &mut out);
    out
}

fn module_scope<'f>(
    cx: &Cx<'f>,
    items: &'f [Item],
    module: ModId,
    region: Span,
    out: &mut Vec<UseScope<'f>>,
) {
    let holes = items
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Mod(it) => it.braces,
            _ => None,
        })
        .collect();
    out.push(UseScope {
        module,
        region,
        holes,
        items: items
            .iter()
            .filter(|item| matches!(item.kind, ItemKind::Use(_)))
            .collect(),
        all: items,
        is_block: false,
    });
    let mut nth: HashMap<&str, usize> = HashMap::new();
    for item in items {
        block_scopes(item, module, out);
        if let (ItemKind::Mod(it), Some(name)) = (&item.kind, &item.name) {
            let n = nth.entry(&name.text).or_default();
            if let (Some(inner), Some(braces), Some(child)) = (
                &it.items,
                it.braces,
                cx.world.nth_child(module, &name.text, *n),
            ) {
                module_scope(cx, inner, child, braces, out);
            }
            *n += 1;
        }
    }
}

fn block_scopes<'f>(item: &'f Item, module: ModId, out: &mut Vec<UseScope<'f>>) {
    match &item.kind {
        ItemKind::Fn(f) => {
            if let Some(body) = &f.body {
                block(body, module, out);
            }
        }
        ItemKind::Impl(it) => it
            .items
            .iter()
            .for_each(|item| block_scopes(item, module, out)),
        ItemKind::Trait(it) => it
            .items
            .iter()
            .for_each(|item| block_scopes(item, module, out)),
        _ => {}
    }
}

fn block<'f>(body: &'f Block, module: ModId, out: &mut Vec<UseScope<'f>>) {
    let items: Vec<&'f Item> = body
        .stmts
        .iter()
        .filter_map(|stmt| match &stmt.kind {
            StmtKind::Item(item) if matches!(item.kind, ItemKind::Use(_)) => Some(&**item),
            _ => None,
        })
        .collect();
    if !items.is_empty() {
        out.push(UseScope {
            module,
            region: body.span,
            holes: vec![],
            items,
            all: &[],
            is_block: true,
        });
    }
    fn inner<'f>(expr: &'f crate::syntax::Expr, module: ModId, out: &mut Vec<UseScope<'f>>) {
        use crate::syntax::ExprKind as E;
        match &expr.kind {
            E::If { then, .. } => block(then, module, out),
            E::Loop { body, .. } | E::While { body, .. } | E::For { body, .. } => {
                block(body, module, out)
            }
            E::Block { block: b, .. } => block(b, module, out),
            _ => {}
        }
        crate::analysis::children(expr, &mut |child| {
            // Statements of a block are walked by the block itself.
            let in_block = match &expr.kind {
                E::If { then, .. } => then.span.contains(child.span),
                E::Loop { body, .. } | E::While { body, .. } | E::For { body, .. } => {
                    body.span.contains(child.span)
                }
                E::Block { block: b, .. } => b.span.contains(child.span),
                _ => false,
            };
            if !in_block {
                inner(child, module, out);
            }
        });
    }
    for stmt in &body.stmts {
        match &stmt.kind {
            StmtKind::Let { init, diverge, .. } => init
                .iter()
                .chain(diverge)
                .for_each(|expr| inner(expr, module, out)),
            StmtKind::Expr { expr, .. } => inner(expr, module, out),
            StmtKind::Item(item) => block_scopes(item, module, out),
        }
    }
}

/// A leaf with what its item says of it.
#[derive(Debug, Clone)]
struct Leaf {
    span: Span,
    /// As the scope sees it; empty for a glob.
    name: String,
    path: Vec<String>,
    has_alias: bool,
    is_self: bool,
    is_glob: bool,
    leading_colon: bool,
    vis: Vis,
    has_cfg: bool,
}

fn leaves(item: &Item) -> Vec<Leaf> {
    let ItemKind::Use(it) = &item.kind else {
        return vec![];
    };
    let has_cfg = item.attrs.iter().any(|attr| attr.path == "cfg");
    let leaf = |leaf: UseLeaf| Leaf {
        span: leaf.span,
        path: leaf.path,
        has_alias: matches!(leaf.binds, Binds::Rename(_)),
        is_self: leaf.is_self,
        is_glob: leaf.binds == Binds::Glob,
        leading_colon: it.leading_colon,
        vis: item.vis.clone(),
        has_cfg,
        name: match leaf.binds {
            Binds::Name(name) | Binds::Rename(name) => name,
            Binds::Glob => String::new(),
        },
    };
    it.tree.leaves().into_iter().map(leaf).collect()
}

/// What becomes of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Keep,
    Remove,
    /// The last name changes, its path stays.
    Rename(String),
    /// Another module of the same crate holds it: module and name, below the crate's root.
    Move {
        module: Vec<String>,
        name: String,
    },
    /// Its path led through a name of a module that is gone: it comes by one of its own, the module's path and the name.
    Elsewhere {
        home: String,
        name: String,
    },
}

/// Edits to the imports of a file.
///
/// `before` holds the file as it was, with its scopes in the same order; `used_elsewhere` says whether another file takes a
/// name from a module of this one.
pub fn edit_imports(
    cx: &Cx<'_>,
    module: ModId,
    before: &HashMap<ModId, HashMap<String, usize>>,
    before_blocks: &[HashMap<String, usize>],
    used_elsewhere: &dyn Fn(ModId, &str) -> bool,
) -> Vec<EditGroup> {
    let mut out = Vec::new();
    let all = scopes(cx, module, cx.text.len());
    // Imports inside of functions count as uses of what they name, unless they will go themselves.
    let going: Vec<Span> = all
        .iter()
        .filter(|scope| scope.is_block)
        .flat_map(|scope| scope.items.iter().map(move |item| (scope, *item)))
        .filter(|(scope, item)| {
            leaves(item)
                .iter()
                .all(|leaf| is_retired_leaf(cx, scope.module, leaf))
        })
        .map(|(_, item)| item.span)
        .collect();
    let quoted = quoted(cx);
    let mut nth_block = 0;
    for scope in &all {
        let spans: Vec<Span> = scope.items.iter().map(|item| item.span).collect();
        let without: Vec<Span> = spans
            .iter()
            .chain(&scope.holes)
            .chain(&going)
            .chain(&quoted)
            .copied()
            .collect();
        let now = count_idents(cx.file, scope.region, &without);
        let was = if scope.is_block {
            let was = before_blocks.get(nth_block).cloned().unwrap_or_default();
            nth_block += 1;
            was
        } else {
            before.get(&scope.module).cloned().unwrap_or_default()
        };
        scope_edits(cx, scope, &was, &now, used_elsewhere, &all, &mut out);
    }
    close_gaps(cx.text, &mut out);
    out
}

/// Where the first lines of a block go together, the blank line behind the last of them goes as well.
fn close_gaps(text: &str, groups: &mut [EditGroup]) {
    let mut gone: Vec<(Span, usize)> = groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| match &group.edits[..] {
            [only] if only.text.is_empty() && starts_line(text, only.span.lo) => {
                Some((only.span, at))
            }
            _ => None,
        })
        .collect();
    gone.sort();
    let mut first = 0;
    while first < gone.len() {
        let mut last = first;
        while last + 1 < gone.len() && gone[last].0.hi == gone[last + 1].0.lo {
            last += 1;
        }
        let (lo, hi) = (gone[first].0.lo, gone[last].0.hi);
        let above = text[..lo].strip_suffix('\n').unwrap_or_default();
        let is_blank = hi < text.len() && text[hi..line_end(text, hi)].trim().is_empty();
        if last > first && is_blank && above.trim_end_matches('\r').ends_with('{') {
            groups[gone[last].1].edits[0].span.hi = next_line(text, hi);
        }
        first = last + 1;
    }
}

fn scope_edits(
    cx: &Cx<'_>,
    scope: &UseScope<'_>,
    was: &HashMap<String, usize>,
    now: &HashMap<String, usize>,
    used_elsewhere: &dyn Fn(ModId, &str) -> bool,
    all: &[UseScope<'_>],
    out: &mut Vec<EditGroup>,
) {
    let world = cx.world;
    let rules = cx.rules;
    let inner_scopes = inner_modules(scope, all);
    let seen_inside = names_seen_inside(cx, scope, all);
    let used_outside = |name: &str| {
        !scope.is_block && (seen_inside.contains(name) || used_elsewhere(scope.module, name))
    };
    let used_now = |name: &str| now.contains_key(name) || used_outside(name);
    // As `was` was counted.
    let mut now_with_inside = now.clone();
    if !scope.is_block {
        add_seen_inside(&mut now_with_inside, &seen_inside);
    }
    let resolve = |leaf: &Leaf, ns: Ns| {
        let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
        let from = Scope {
            module: scope.module,
            blocks: &[],
            params: &[],
        };
        let (res, n) = world.resolve(from, leaf.leading_colon, &segs, ns);
        if n == segs.len() { res } else { Res::Unknown }
    };
    let all_leaves: Vec<(usize, Leaf)> = scope
        .items
        .iter()
        .enumerate()
        .flat_map(|(at, item)| leaves(item).into_iter().map(move |leaf| (at, leaf)))
        .collect();
    // New names that are here already, and stay.
    let mut have: HashSet<(DefId, String)> = HashSet::new();
    for (_, leaf) in &all_leaves {
        if let Res::Def(def) = resolve(leaf, Ns::Type)
            && rules
                .retired_types()
                .any(|retired| retired.becomes() == def)
        {
            have.insert((def, leaf.name.clone()));
        }
    }
    let mut ops: Vec<Vec<(Leaf, Op)>> = vec![vec![]; scope.items.len()];
    let n_out = out.len();
    for (at, leaf) in &all_leaves {
        let res = match resolve(leaf, Ns::Type) {
            Res::Unknown => resolve(leaf, Ns::Value),
            res => res,
        };
        let is_pub = leaf.vis != Vis::Private;
        let op = match &res {
            _ if cx.is_frozen(leaf.span) => Op::Keep,
            Res::Def(def) if rules.retired_def(*def).is_some() && !leaf.is_glob => {
                let retired = rules.retired_def(*def).expect("just found");
                let old_name = &world.defs[*def].name;
                let new = retired.becomes();
                let new_name = world.defs[new].name.clone();
                if leaf.has_alias && named_by_a_site(cx, &leaf.name) {
                    // What is left to a person names it by this alias.
                    Op::Keep
                } else if leaf.has_alias {
                    if !used_now(&leaf.name) && !is_pub {
                        Op::Remove
                    } else {
                        moved(cx, scope.module, leaf, new)
                    }
                } else if leaf.name != *old_name {
                    // Another module's alias: it stays, as that is changed where it is made.
                    if !used_now(&leaf.name) && !is_pub && was.contains_key(&leaf.name) {
                        Op::Remove
                    } else {
                        Op::Keep
                    }
                } else {
                    let keep_old = (now.contains_key(old_name) && bare_uses(cx, scope, old_name))
                        || (!scope.is_block && left_below(cx, &inner_scopes, old_name));
                    let wants_new = is_pub
                        || used_outside(&new_name)
                        || (now.contains_key(&new_name) && bare_uses(cx, scope, &new_name));
                    let taken = is_taken(cx, scope.module, new, scope.module);
                    let has_new = have.contains(&(new, new_name.clone()));
                    if keep_old {
                        if wants_new && !has_new && !taken {
                            have.insert((new, new_name.clone()));
                            add_import(cx, scope, new, out);
                        }
                        Op::Keep
                    } else if has_new || !wants_new || taken {
                        Op::Remove
                    } else {
                        have.insert((new, new_name));
                        let op = moved(cx, scope.module, leaf, new);
                        if op == Op::Remove {
                            add_import(cx, scope, new, out);
                        }
                        op
                    }
                }
            }
            Res::Def(def) if leaf.is_glob && rules.enums.iter().any(|rule| rule.def == *def) => {
                if variants_left(cx, *def, now) {
                    Op::Keep
                } else {
                    Op::Remove
                }
            }
            Res::Variant(def, _) if rules.enums.iter().any(|rule| rule.def == *def) => {
                if used_now(&leaf.name) && !is_pub {
                    Op::Keep
                } else {
                    Op::Remove
                }
            }
            Res::Def(def) if rules.deleted_defs.contains_key(def) => {
                // What is left below sees it through this import.
                let below = !is_pub
                    && !scope.is_block
                    && (left_below(cx, &inner_scopes, &leaf.name)
                        || named_by_super(cx, &inner_scopes, &leaf.name));
                if now.contains_key(&leaf.name) || below {
                    Op::Keep
                } else {
                    Op::Remove
                }
            }
            Res::Mod(target)
                if rules.deleted_mods.contains_key(target)
                    && leaf.is_glob
                    && is_pub
                    && let Some(op) = handed_on_as_a_whole(cx, scope.module, leaf, *target) =>
            {
                op
            }
            Res::Mod(target) if rules.deleted_mods.contains_key(target) && leaf.is_glob => {
                // Names that only this glob brings and that still stand somewhere keep it.
                let needed = world.mods[*target]
                    .entries
                    .iter()
                    .filter(|(_, entries)| {
                        entries
                            .iter()
                            .any(|entry| matches!(entry.kind, crate::world::EntryKind::Def(_)))
                    })
                    .any(|(name, _)| {
                        now.contains_key(name)
                            && !brought_otherwise(cx, scope.module, name, &all_leaves, *target)
                    });
                if needed && !is_pub {
                    Op::Keep
                } else {
                    Op::Remove
                }
            }
            Res::Mod(target) if rules.deleted_mods.contains_key(target) => {
                if now.contains_key(&leaf.name) {
                    Op::Keep
                } else if is_pub
                    && let Some(op) = handed_on(cx, leaf, *target, &all_leaves, &resolve)
                {
                    op
                } else {
                    Op::Remove
                }
            }
            Res::Mod(target) if leaf.is_glob => {
                let is_plain = !is_pub && !leaf.has_cfg && !scope.is_block;
                let lost = is_plain
                    && glob_brings(cx, scope, *target, was)
                    && !glob_brings(cx, scope, *target, &now_with_inside);
                if lost && !used_elsewhere(scope.module, "") {
                    Op::Remove
                } else {
                    Op::Keep
                }
            }
            _ if leaf.is_glob => Op::Keep,
            Res::Def(def) if trait_fns(cx, *def).is_some() => {
                // Through its name, or by one of its methods.
                let fns = trait_fns(cx, *def).unwrap_or_default();
                let uses = |names: &HashMap<String, usize>| {
                    names.contains_key(&leaf.name)
                        || fns.iter().any(|name| names.contains_key(*name))
                };
                let is_plain = !is_pub && !leaf.has_cfg && scope.holes.is_empty();
                let is_taken_from_here = used_elsewhere(scope.module, &leaf.name);
                if is_plain && uses(was) && !uses(&now_with_inside) && !is_taken_from_here {
                    Op::Remove
                } else {
                    Op::Keep
                }
            }
            _ => {
                // Somebody else's import: it goes only if this run took its last use.
                let unused = was.contains_key(&leaf.name) && !used_now(&leaf.name);
                if unused && !is_pub && !leaf.has_cfg && leaf.name != "_" {
                    Op::Remove
                } else {
                    Op::Keep
                }
            }
        };
        ops[*at].push((leaf.clone(), op));
    }
    // One leaf of a module that is gone has to stay beside one that moves: that one gets an import of its own.
    for of_item in &mut ops {
        let kept: HashSet<Vec<String>> = of_item
            .iter()
            .filter(|(leaf, op)| *op == Op::Keep && !leaf.path.is_empty())
            .map(|(leaf, _)| leaf.path[..leaf.path.len() - 1].to_vec())
            .collect();
        for (leaf, op) in of_item.iter_mut() {
            if let Op::Move { .. } | Op::Elsewhere { .. } = op
                && kept.contains(&leaf.path[..leaf.path.len() - 1])
                && let Res::Def(def) = resolve(leaf, Ns::Type)
                && let Some(retired) = rules.retired_def(def)
            {
                let path = cx.full_path(scope.module, retired.becomes());
                let (home, name) = path.rsplit_once("::").unwrap_or(("", &path));
                *op = Op::Elsewhere {
                    home: home.to_owned(),
                    name: name.to_owned(),
                };
            }
        }
    }
    for (at, item) in scope.items.iter().enumerate() {
        if ops[at]
            .iter()
            .any(|(_, op)| matches!(op, Op::Elsewhere { .. }))
            && new_home(item, &ops[at]).is_none()
        {
            part_ways(cx, scope, item, &mut ops[at], out);
        }
    }
    for (at, item) in scope.items.iter().enumerate() {
        if ops[at].iter().all(|(_, op)| *op == Op::Keep) {
            continue;
        }
        // A group that would be left with one name and loses its braces, while another joins it: first the other.
        let n_left = ops[at].iter().filter(|(_, op)| *op != Op::Remove).count();
        let is_joined = out[n_out..]
            .iter()
            .any(|group| group.edits.iter().any(|edit| item.span.contains(edit.span)));
        if n_left == 1 && is_joined {
            continue;
        }
        item_edits(cx, item, &ops[at], out);
    }
    // A new name that came without an old import in this scope: by a glob of a module that is gone, for instance.
    if !scope.is_block {
        for new in rules.retired_types().map(|retired| retired.becomes()) {
            let name = &world.defs[new].name;
            if !now.contains_key(name)
                || have.contains(&(new, name.clone()))
                || was.contains_key(name)
            {
                continue;
            }
            // What an earlier step of this run has imported is not known to the world as it was.
            if all_leaves.iter().any(|(_, leaf)| leaf.name == *name) {
                continue;
            }
            let bare = bare_uses(cx, scope, name) && !includer_brings(cx, scope.module, new);
            if bare
                && world.name_in(scope.module, name, Ns::Type, Some(scope.module)) == Res::Unknown
                && !parent_brings(cx, scope, name, all)
            {
                add_import(cx, scope, new, out);
            }
        }
    }
}

/// The methods of a trait; a trait without any is used by its name alone.
fn trait_fns<'w>(cx: &Cx<'w>, def: DefId) -> Option<Vec<&'w str>> {
    match &cx.world.defs[def].kind {
        crate::world::DefKind::Trait { fns, .. } => {
            Some(fns.iter().map(|f| f.name.as_str()).collect())
        }
        _ => None,
    }
}

/// Whether a glob may bring something to names that stand in a scope.
///
/// Says yes where it cannot be told: of modules with globs of their own, and of traits whose methods are not known.
fn glob_brings(
    cx: &Cx<'_>,
    scope: &UseScope<'_>,
    target: ModId,
    names: &HashMap<String, usize>,
) -> bool {
    let world = cx.world;
    let module = &world.mods[target];
    let is_opaque = |text: &str| {
        // What a format string captures is no token.
        scope.region.text(cx.text).contains(&format!("{{{text}"))
    };
    !module.globs.is_empty()
        || module.entries.iter().any(|(name, entries)| {
            if names.contains_key(name) || is_opaque(name) {
                return true;
            }
            entries.iter().any(|entry| match &entry.kind {
                crate::world::EntryKind::Mod(_) => false,
                crate::world::EntryKind::Def(def) => trait_fns(cx, *def)
                    .is_some_and(|fns| fns.iter().any(|name| names.contains_key(*name))),
                crate::world::EntryKind::Use { .. } => {
                    match world.name_in(target, name, Ns::Type, Some(scope.module)) {
                        Res::Def(def) => {
                            let renamed = world
                                .successor(def)
                                .is_some_and(|new| names.contains_key(&world.defs[new].name));
                            renamed
                                || trait_fns(cx, def).is_some_and(|fns| {
                                    fns.iter().any(|name| names.contains_key(*name))
                                })
                        }
                        Res::External(_) | Res::Unknown | Res::Ambiguous => {
                            name.starts_with(char::is_uppercase) || name == "_"
                        }
                        _ => false,
                    }
                }
            })
        })
}

/// A leaf that names something retired, or the variants of it.
fn is_retired_leaf(cx: &Cx<'_>, module: ModId, leaf: &Leaf) -> bool {
    let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    let from = Scope {
        module,
        blocks: &[],
        params: &[],
    };
    let (res, n) = cx.world.resolve(from, leaf.leading_colon, &segs, Ns::Type);
    n == segs.len()
        && match res {
            Res::Def(def) | Res::Variant(def, _) => {
                cx.rules.retired_def(def).is_some() || cx.rules.deleted_defs.contains_key(&def)
            }
            Res::Mod(target) => cx.rules.deleted_mods.contains_key(&target),
            _ => false,
        }
}

/// The modules inside of a scope.
fn inner_modules<'s, 'f>(scope: &UseScope<'_>, all: &'s [UseScope<'f>]) -> Vec<&'s UseScope<'f>> {
    all.iter()
        .filter(|inner| {
            scope.region.contains(inner.region) && inner.region != scope.region && !inner.is_block
        })
        .collect()
}

/// Counts what inner modules take from a scope as used there.
fn add_seen_inside(counts: &mut Counts, names: &HashSet<&str>) {
    for name in names {
        *counts.entry((*name).to_owned()).or_insert(0) += 1;
    }
}

/// The names that modules inside of this one take from it, as far as texts tell: all that stand in one with
/// `use super::*`, and what is written behind `super::`.
fn names_seen_inside<'f>(
    cx: &Cx<'f>,
    scope: &UseScope<'_>,
    all: &[UseScope<'_>],
) -> HashSet<&'f str> {
    let inner = inner_modules(scope, all);
    // Of a module further in: what this one says of its own parent is not taken from here.
    let mut names: HashSet<&'f str> = cx
        .text
        .match_indices("super::")
        .filter(|(at, head)| {
            let head = Span::new(*at, at + head.len());
            inner.iter().any(|inner| inner.region.contains(head))
        })
        .map(|(at, head)| {
            let rest = &cx.text[at + head.len()..];
            let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
            &rest[..end.unwrap_or(rest.len())]
        })
        .collect();
    for inner in inner {
        let from_above = inner
            .items
            .iter()
            .flat_map(|item| leaves(item))
            .filter(|leaf| leaf.path.first().is_some_and(|part| part == "super"));
        let mut all_of_it = false;
        let mut taken: HashSet<String> = HashSet::new();
        for leaf in from_above {
            all_of_it |= leaf.is_glob && leaf.path.iter().all(|part| part == "super");
            taken.extend(leaf.path.last().cloned());
        }
        all_of_it &= cx.world.is_descendant(inner.module, scope.module);
        let seen = cx.file.idents.iter().filter(|ident| {
            inner.region.contains(ident.span)
                && (taken.contains(&ident.text)
                    || all_of_it && !inner.holes.iter().any(|hole| hole.contains(ident.span)))
        });
        names.extend(seen.map(|ident| ident.text.as_str()));
    }
    names
}

/// Whether a variant or a function of what is retired is still named through an alias.
fn named_by_a_site(cx: &Cx<'_>, alias: &str) -> bool {
    // Among tokens that nobody parsed, which are reported.
    let in_tokens = cx.file.idents.iter().any(|ident| {
        ident.text == alias
            && cx
                .unread_spans()
                .iter()
                .any(|span| span.contains(ident.span))
    });
    if in_tokens {
        return true;
    }
    cx.an.paths.values().any(|found| {
        let is_left = match found.res {
            Res::Variant(def, _) => cx.rules.retired_def(def).is_some(),
            Res::Def(def) if found.path.segs.len() == found.taken + 1 => {
                let name = &found.path.last().name.text;
                cx.rules
                    .retired_def(def)
                    .is_some_and(|retired| match retired {
                        Retired::Enum(rule) => {
                            let spec = &rule.spec;
                            spec.gone.contains_key(name)
                                || spec.unwrap.contains(name)
                                || spec.some.contains_key(name)
                                || spec.always.contains_key(name)
                        }
                        Retired::Wrapper(rule) => {
                            let spec = &rule.spec;
                            spec.gone.contains_key(name)
                                || spec.unwrap.contains(name)
                                || spec.always.contains_key(name)
                        }
                    })
            }
            _ => false,
        };
        is_left && found.path.segs.len() > 1 && found.path.segs[0].name.text == alias
    })
}

/// Whether a site in a module below sees the old name through `use super::*`.
fn left_below(cx: &Cx<'_>, inner: &[&UseScope<'_>], name: &str) -> bool {
    inner.iter().any(|scope| {
        let by_glob = scope
            .items
            .iter()
            .flat_map(|item| leaves(item))
            .any(|leaf| leaf.is_glob && leaf.path.iter().all(|part| part == "super"));
        by_glob && bare_uses(cx, scope, name)
    })
}

/// Arguments of `stringify!`: text, not uses.
fn quoted(cx: &Cx<'_>) -> Vec<Span> {
    let expressions = cx.nodes.exprs.iter().filter_map(|expr| match &expr.kind {
        crate::syntax::ExprKind::Macro(mac) => Some(mac),
        _ => None,
    });
    expressions
        .filter(|mac| mac.path.last().name.text == "stringify")
        .map(|mac| mac.inner)
        .collect()
}

/// Whether a name is written without a path in front of it.
fn bare_uses(cx: &Cx<'_>, scope: &UseScope<'_>, name: &str) -> bool {
    let without: Vec<Span> = scope
        .items
        .iter()
        .map(|item| item.span)
        .chain(scope.holes.iter().copied())
        .chain(quoted(cx))
        .collect();
    // A comment may stand between the colons and the name.
    let is_behind_colons = |at: usize| {
        let ident = &cx.file.idents[at];
        let lo = at
            .checked_sub(1)
            .map_or(0, |before| cx.file.idents[before].span.hi);
        let room = Span::new(lo, ident.span.lo);
        let has_string = cx.file.strings.iter().any(|string| string.overlaps(room));
        let mut before = &cx.text[lo..room.hi];
        if !has_string {
            for comment in trivia::comments(cx.text, room).iter().rev() {
                if lo + before.trim_end().len() != comment.span.hi {
                    break;
                }
                before = &cx.text[lo..comment.span.lo];
            }
        }
        before.trim_end().ends_with("::")
    };
    cx.file.idents.iter().enumerate().any(|(at, ident)| {
        ident.text == name
            && scope.region.contains(ident.span)
            && !without.iter().any(|span| span.contains(ident.span))
            && !is_behind_colons(at)
    })
}

/// What includes this fragment imports the old name, and so the new one.
fn includer_brings(cx: &Cx<'_>, module: ModId, new: DefId) -> bool {
    let of = |entry: &crate::world::Entry, alias: &str| {
        entry.file != cx.id
            && matches!(entry.kind, crate::world::EntryKind::Use { .. })
            && matches!(cx.world.name_in(module, alias, Ns::Type, Some(module)), Res::Def(def)
                if def == new || cx.rules.retired_def(def).is_some_and(|retired| retired.becomes() == new))
    };
    cx.world.mods[module]
        .entries
        .iter()
        .any(|(alias, entries)| entries.iter().any(|entry| of(entry, alias)))
}

/// `use super::*` brings what the parent will import.
fn parent_brings(cx: &Cx<'_>, scope: &UseScope<'_>, name: &str, all: &[UseScope<'_>]) -> bool {
    let by_glob = scope
        .items
        .iter()
        .flat_map(|item| leaves(item))
        .any(|leaf| leaf.is_glob && leaf.path == ["super"]);
    let Some(parent) = cx.world.mods[scope.module].parent else {
        return false;
    };
    by_glob && all.iter().any(|outer| outer.module == parent && !outer.is_block && {
        let spans: Vec<Span> = outer.items.iter().map(|item| item.span).chain(outer.holes.iter().copied()).collect();
        // The parent imports it if it uses it, or if it imported the old name.
        count_idents(cx.file, outer.region, &spans).contains_key(name)
            || outer.items.iter().flat_map(|item| leaves(item)).any(|leaf| {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                let from = Scope { module: outer.module, blocks: &[], params: &[] };
                matches!(cx.world.resolve(from, leaf.leading_colon, &segs, Ns::Type), (Res::Def(def), n)
                    if n == segs.len() && cx.rules.retired_def(def).is_some_and(|retired| cx.world.defs[retired.becomes()].name == name))
            })
    })
}

/// Whether a module below names it as `super::Name`.
fn named_by_super(cx: &Cx<'_>, inner: &[&UseScope<'_>], name: &str) -> bool {
    cx.file.idents.iter().any(|ident| {
        ident.text == name
            && cx.text[..ident.span.lo].ends_with("super::")
            && inner.iter().any(|scope| scope.region.contains(ident.span))
    })
}

fn variants_left(cx: &Cx<'_>, def: DefId, now: &HashMap<String, usize>) -> bool {
    match &cx.world.defs[def].kind {
        crate::world::DefKind::Enum { variants, .. } => variants
            .iter()
            .any(|variant| now.contains_key(&variant.name)),
        _ => false,
    }
}

fn brought_otherwise(
    cx: &Cx<'_>,
    module: ModId,
    name: &str,
    leaves: &[(usize, Leaf)],
    not: ModId,
) -> bool {
    leaves.iter().any(|(_, leaf)| leaf.name == name)
        || cx.world.mods[module].entries.contains_key(name)
        || cx.world.mods[module].globs.iter().any(|glob| {
            let segs: Vec<&str> = glob.path.iter().map(String::as_str).collect();
            let from = Scope {
                module,
                blocks: &[],
                params: &[],
            };
            match cx.world.resolve(from, glob.leading_colon, &segs, Ns::Type) {
                (Res::Mod(target), n) if n == segs.len() && target != not => {
                    cx.world.name_in(target, name, Ns::Type, Some(module)) != Res::Unknown
                }
                _ => false,
            }
        })
}

/// Whether a module, as `from` sees it, has something else of the new name.
fn is_taken(cx: &Cx<'_>, module: ModId, new: DefId, from: ModId) -> bool {
    let name = &cx.world.defs[new].name;
    match cx.world.name_in(module, name, Ns::Type, Some(from)) {
        Res::Unknown => cx.world.declares(module, name),
        found => found != Res::Def(new),
    }
}

/// How a leaf's path changes when its item is replaced by `new`.
fn moved(cx: &Cx<'_>, from: ModId, leaf: &Leaf, new: DefId) -> Op {
    let world = cx.world;
    let name = world.defs[new].name.clone();
    let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    let scope = Scope {
        module: from,
        blocks: &[],
        params: &[],
    };
    let (prefix, n) = world.resolve(scope, leaf.leading_colon, &segs[..segs.len() - 1], Ns::Type);
    if n + 1 != segs.len() {
        return Op::Rename(name);
    }
    match prefix {
        Res::Mod(module) if cx.rules.deleted_mods.contains_key(&module) => {
            let target = world.defs[new].module;
            let path = world.module_path(target);
            let below: Vec<String> = path.split("::").skip(1).map(str::to_owned).collect();
            let (old, around) = segs[..segs.len() - 1].split_last().expect("the module");
            let is_aliased = *old != world.mods[module].name;
            let handed_on = is_handed_on(cx, &scope, leaf.leading_colon, around, old);
            if is_aliased && handed_on {
                return Op::Rename(name);
            }
            let beside: Vec<&str> = around
                .iter()
                .copied()
                .chain(below.last().map(String::as_str))
                .collect();
            let (found, n) = world.resolve(scope, leaf.leading_colon, &beside, Ns::Type);
            let is_beside = !below.is_empty() && n == beside.len() && found == Res::Mod(target);
            if is_beside || handed_on {
                return Op::Move {
                    module: below,
                    name,
                };
            }
            let path = cx.full_path(from, new);
            let (home, name) = path.rsplit_once("::").unwrap_or(("", &path));
            Op::Elsewhere {
                home: home.to_owned(),
                name: name.to_owned(),
            }
        }
        // What it comes from has something else of the new name.
        Res::Mod(module) if !leaf.has_alias && is_taken(cx, module, new, from) => Op::Remove,
        _ => Op::Rename(name),
    }
}

/// Where the types go that a module held which is gone; `None` if it held none that has a successor.
fn successor_of(cx: &Cx<'_>, gone: ModId) -> Option<ModId> {
    let world = cx.world;
    cx.rules
        .retired_types()
        .find(|retired| world.defs[retired.def()].module == gone)
        .map(|retired| world.defs[retired.becomes()].module)
}

/// Whether the name by which a path reaches a module that is gone leads to the module behind it afterwards:
/// [`handed_on`] says which do, and an import of such a name does.
pub(super) fn is_handed_on(
    cx: &Cx<'_>,
    scope: &Scope<'_>,
    leading_colon: bool,
    around: &[&str],
    name: &str,
) -> bool {
    leads_on(cx, scope, leading_colon, around, name, 8)
}

fn leads_on(
    cx: &Cx<'_>,
    scope: &Scope<'_>,
    leading_colon: bool,
    around: &[&str],
    name: &str,
    depth: usize,
) -> bool {
    let world = cx.world;
    let module = match around {
        [] => scope.module,
        _ => match world.resolve(*scope, leading_colon, around, Ns::Type) {
            (Res::Mod(module), n) if n == around.len() => module,
            _ => return false,
        },
    };
    let Some(entries) = world.mods[module].entries.get(name) else {
        return false;
    };
    entries.iter().any(|entry| {
        let crate::world::EntryKind::Use {
            leading_colon,
            path,
        } = &entry.kind
        else {
            return false;
        };
        if entry.vis != Vis::Private {
            return true;
        }
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        let from = Scope {
            module,
            blocks: &[],
            params: &[],
        };
        let Some((last, around)) = segs.split_last() else {
            return false;
        };
        let is_alias = match world.resolve(from, *leading_colon, &segs, Ns::Type) {
            (Res::Mod(gone), n) => n == segs.len() && *last != world.mods[gone].name,
            _ => false,
        };
        depth > 0 && is_alias && leads_on(cx, &from, *leading_colon, around, last, depth - 1)
    })
}

/// What others take names from through this re-export leads to the module that has them now.
fn handed_on(
    cx: &Cx<'_>,
    leaf: &Leaf,
    gone: ModId,
    all: &[(usize, Leaf)],
    resolve: &dyn Fn(&Leaf, Ns) -> Res,
) -> Option<Op> {
    let target = successor_of(cx, gone)?;
    let path = cx.world.module_path(target);
    let below: Vec<String> = path.split("::").skip(1).map(str::to_owned).collect();
    let name = below.last()?.clone();
    let is_there = all.iter().any(|(_, other)| {
        other.vis != Vis::Private
            && other.name == name
            && resolve(other, Ns::Type) == Res::Mod(target)
    });
    if !leaf.has_alias && is_there {
        return None;
    }
    // `old::{self as name}`: the path in front of the braces changes.
    Some(if leaf.is_self {
        Op::Move {
            module: below,
            name: "self".into(),
        }
    } else {
        Op::Rename(name)
    })
}

/// What a glob of a module that is gone hands on comes from the module that has it now, unless it is there already.
fn handed_on_as_a_whole(cx: &Cx<'_>, from: ModId, leaf: &Leaf, gone: ModId) -> Option<Op> {
    let world = cx.world;
    let target = successor_of(cx, gone)?;
    let is_there = cx
        .rules
        .retired_types()
        .filter(|retired| world.defs[retired.def()].module == gone)
        .all(|retired| {
            let new = retired.becomes();
            world.name_in(from, &world.defs[new].name, Ns::Type, Some(from)) == Res::Def(new)
        });
    if is_there {
        return None;
    }
    let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    let (old, around) = segs.split_last()?;
    let scope = Scope {
        module: from,
        blocks: &[],
        params: &[],
    };
    if *old != world.mods[gone].name {
        if is_handed_on(cx, &scope, leaf.leading_colon, around, old) {
            return Some(Op::Keep);
        }
        // The name leads nowhere any more.
        let (here, home) = (world.mods[from].krate, world.mods[target].krate);
        let head = if here == home {
            "crate"
        } else {
            let externs = &world.crates[here].externs;
            externs.iter().find(|(_, krate)| **krate == Some(home))?.0
        };
        let path = world.module_path(target);
        let below = path.split_once("::").map_or("", |(_, below)| below);
        return Some(Op::Elsewhere {
            home: format!("{head}::{below}"),
            name: "*".into(),
        });
    }
    let path = world.module_path(target);
    Some(Op::Move {
        module: path.split("::").skip(1).map(str::to_owned).collect(),
        name: "*".into(),
    })
}

/// The path that leaves of a `use` have in common, if all of them come from elsewhere now: what it replaces, and it.
fn new_home(item: &Item, ops: &[(Leaf, Op)]) -> Option<(Span, String)> {
    let ItemKind::Use(it) = &item.kind else {
        return None;
    };
    let mut homes = ops.iter().filter(|(_, op)| *op != Op::Remove);
    let Some((_, Op::Elsewhere { home: first, .. })) = homes.next() else {
        return None;
    };
    if !homes.all(|(_, op)| matches!(op, Op::Elsewhere { home, .. } if home == first)) {
        return None;
    }
    let mut at = &it.tree;
    loop {
        let UseKind::Path { name, rest } = &at.kind else {
            return None;
        };
        match &rest.kind {
            UseKind::Path { .. } => at = rest,
            _ if is_direct(rest) => {
                return Some((Span::new(it.tree.span.lo, name.span.hi), first.clone()));
            }
            _ => return None,
        }
    }
}

/// Leaves of a `use` that come from elsewhere now, beside others that stay: each gets an import of its own.
fn part_ways(
    cx: &Cx<'_>,
    scope: &UseScope<'_>,
    item: &Item,
    ops: &mut [(Leaf, Op)],
    out: &mut Vec<EditGroup>,
) {
    let ItemKind::Use(it) = &item.kind else {
        return;
    };
    let (eol, indent) = (trivia::eol(cx.text), indent_of(cx.text, item.span.lo));
    let head = cx.src(Span::new(item.span.lo, it.tree.span.lo));
    let mut own = String::new();
    let mut rule = String::new();
    for (leaf, op) in ops.iter_mut() {
        let Op::Elsewhere { home, name } = op else {
            continue;
        };
        let new = cx
            .rules
            .retired_types()
            .map(|retired| retired.becomes())
            .find(|new| cx.world.defs[*new].name == *name);
        match new {
            Some(new) if !leaf.has_alias && leaf.vis == Vis::Private => {
                add_import(cx, scope, new, out)
            }
            _ => {
                let alias = if leaf.has_alias {
                    format!(" as {}", leaf.name)
                } else {
                    String::new()
                };
                own.push_str(&format!("{eol}{indent}{head}{home}::{name}{alias};"));
                rule = new.map_or(String::new(), |new| rule_for(cx, new));
            }
        }
        *op = Op::Remove;
    }
    if !own.is_empty() {
        let at = Span::new(item.span.hi, item.span.hi);
        out.push(EditGroup::one(Edit::new(at, own, &rule)));
    }
}

fn add_import(cx: &Cx<'_>, scope: &UseScope<'_>, new: DefId, out: &mut Vec<EditGroup>) {
    let path = cx.full_path(scope.module, new);
    let rule = rule_for(cx, new);
    if scope.is_block {
        // Behind the import of the old name, which a block has.
        if let Some(last) = scope.items.last() {
            let (eol, indent) = (trivia::eol(cx.text), indent_of(cx.text, last.span.lo));
            let at = Span::new(last.span.hi, last.span.hi);
            out.push(EditGroup::one(Edit::new(
                at,
                format!("{eol}{indent}use {path};"),
                &rule,
            )));
        }
        return;
    }
    let segs: Vec<&str> = path.split("::").collect();
    let mut edits = crate::imports::import_written(cx, scope.all, scope.module, &segs);
    if !edits.is_empty() {
        edits
            .iter_mut()
            .for_each(|edit| edit.rule.clone_from(&rule));
        out.push(EditGroup { edits });
    }
}

fn rule_for(cx: &Cx<'_>, new: DefId) -> String {
    cx.rules
        .retired_types()
        .find(|retired| retired.becomes() == new)
        .map_or(String::new(), |retired| retired.rule().to_owned())
}

// --- edits of one item

fn item_edits(cx: &Cx<'_>, item: &Item, ops: &[(Leaf, Op)], out: &mut Vec<EditGroup>) {
    let ItemKind::Use(it) = &item.kind else {
        return;
    };
    let rule = "imports";
    let op_of = |span: Span| {
        ops.iter()
            .find(|(leaf, _)| leaf.span == span)
            .map_or(&Op::Keep, |(_, op)| op)
    };
    let mut edits: Vec<Edit> = Vec::new();
    if let Some((span, home)) = new_home(item, ops) {
        edits.push(Edit::new(span, home, rule));
    }
    let gone = tree_edits(cx, &it.tree, &op_of, None, rule, &mut edits);
    if gone {
        out.push(EditGroup::one(Edit::new(
            item_extent(cx.text, item.span),
            "",
            rule,
        )));
        return;
    }
    edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
    if !edits.is_empty() {
        out.push(EditGroup { edits });
    }
}

/// Edits that take leaves out of a `use`, by their spans; the whole item if none is left.
pub fn removals(cx: &Cx<'_>, item: &Item, gone: &[Span]) -> Vec<Edit> {
    let ops: Vec<(Leaf, Op)> = leaves(item)
        .into_iter()
        .map(|leaf| {
            let op = if gone.contains(&leaf.span) {
                Op::Remove
            } else {
                Op::Keep
            };
            (leaf, op)
        })
        .collect();
    let mut out = Vec::new();
    item_edits(cx, item, &ops, &mut out);
    out.into_iter().flat_map(|group| group.edits).collect()
}

/// Whether nothing of the tree is left; else its edits.
fn tree_edits<'o>(
    cx: &Cx<'_>,
    tree: &UseTree,
    op_of: &dyn Fn(Span) -> &'o Op,
    parent: Option<&UseTree>,
    rule: &str,
    edits: &mut Vec<Edit>,
) -> bool {
    match &tree.kind {
        UseKind::Name(_) | UseKind::Rename { .. } | UseKind::Glob => match op_of(tree.span) {
            Op::Keep => false,
            Op::Remove => true,
            // The path of what moves is the parent's.
            Op::Rename(name) | Op::Move { name, .. } | Op::Elsewhere { name, .. } => {
                let ident = match &tree.kind {
                    UseKind::Name(ident) | UseKind::Rename { name: ident, .. } => ident.span,
                    _ => tree.span,
                };
                if ident.text(cx.text) != name {
                    edits.push(Edit::new(ident, name.clone(), rule));
                }
                false
            }
        },
        UseKind::Path { name, rest }
            if self_leaf(rest).is_some_and(|leaf| new_self(leaf, op_of).is_some()) =>
        {
            let leaf = self_leaf(rest).expect("just found");
            let new = new_self(leaf, op_of).expect("just found");
            let others = match &rest.kind {
                UseKind::Group { items } => &items[..],
                _ => &[],
            };
            let mut inner = Vec::new();
            let mut gone = Vec::new();
            for item in others {
                gone.push(
                    item.span == leaf.span
                        || tree_edits(cx, item, op_of, Some(tree), rule, &mut inner),
                );
            }
            if gone.iter().all(|gone| *gone) {
                edits.push(Edit::new(Span::new(name.span.lo, rest.span.hi), new, rule));
                return false;
            }
            // What stays below the old name gets a path of its own beside the new one.
            let in_group =
                parent.is_some_and(|parent| matches!(parent.kind, UseKind::Group { .. }));
            let (open, close) = if in_group { ("", "") } else { ("{", "}") };
            edits.push(Edit::new(
                Span::new(name.span.lo, name.span.lo),
                format!("{open}{new}, "),
                rule,
            ));
            edits.extend(inner);
            group_deletions(cx.text, rest, others, &gone, rule, edits);
            if !close.is_empty() {
                edits.push(Edit::new(
                    Span::new(rest.span.hi, rest.span.hi),
                    close,
                    rule,
                ));
            }
            false
        }
        UseKind::Path { name, rest } => {
            let mut inner = Vec::new();
            if tree_edits(cx, rest, op_of, Some(tree), rule, &mut inner) {
                return true;
            }
            // The module that the leaves came from is gone: they come from another now.
            let mut targets: Vec<&Vec<String>> = Vec::new();
            collect_targets(rest, op_of, &mut targets);
            if let Some(target) = targets.first()
                && targets.iter().all(|other| other == target)
                && is_direct(rest)
                && let Some(last) = target.last()
            {
                edits.push(Edit::new(name.span, last.clone(), rule));
            }
            edits.extend(inner);
            false
        }
        UseKind::Group { items } => {
            let mut gone: Vec<bool> = Vec::new();
            let mut inner: Vec<Vec<Edit>> = Vec::new();
            for item in items {
                let mut own = Vec::new();
                gone.push(tree_edits(cx, item, op_of, Some(tree), rule, &mut own));
                inner.push(own);
            }
            // What moves to a module that the group already names goes to the names from there.
            for (at, item) in items.iter().enumerate() {
                let UseKind::Path { rest, .. } = &item.kind else {
                    continue;
                };
                let mut targets: Vec<&Vec<String>> = Vec::new();
                collect_targets(rest, op_of, &mut targets);
                let Some([module]) = targets.first().map(|target| &target[..]) else {
                    continue;
                };
                if gone[at] || !targets.iter().all(|target| *target == targets[0]) {
                    continue;
                }
                let home = items.iter().position(|other| matches!(&other.kind, UseKind::Path { name, .. } if name.text == *module));
                let Some(home) = home.filter(|&home| home != at && !gone[home]) else {
                    continue;
                };
                let UseKind::Path {
                    rest: home_rest, ..
                } = &items[home].kind
                else {
                    continue;
                };
                let names = moved_names(rest, op_of);
                match &home_rest.kind {
                    UseKind::Group { items: inside } if !inside.is_empty() => {
                        for name in &names {
                            insert_name(inside, name, rule, &mut inner[home]);
                        }
                    }
                    UseKind::Name(_) | UseKind::Rename { .. } => {
                        let mut all = vec![home_rest.span.text(cx.text).to_owned()];
                        all.extend(names);
                        all.sort();
                        inner[home] = vec![Edit::new(
                            home_rest.span,
                            format!("{{{}}}", all.join(", ")),
                            rule,
                        )];
                    }
                    _ => continue,
                }
                gone[at] = true;
            }
            if !items.is_empty() && gone.iter().all(|gone| *gone) {
                return true;
            }
            for own in inner
                .into_iter()
                .zip(&gone)
                .filter(|(_, gone)| !**gone)
                .map(|(own, _)| own)
            {
                edits.extend(own);
            }
            group_deletions(cx.text, tree, items, &gone, rule, edits);
            false
        }
    }
}

/// Puts a name among those of a group, where the order asks for it.
fn insert_name(items: &[UseTree], name: &str, rule: &str, edits: &mut Vec<Edit>) {
    let next = items.iter().find(|tree| match &tree.kind {
        UseKind::Name(other) => other.text != "self" && other.text.as_str() > name,
        UseKind::Rename { name: other, .. } => other.text.as_str() > name,
        _ => false,
    });
    let edit = match (next, items.last()) {
        (Some(next), _) => Edit::new(
            Span::new(next.span.lo, next.span.lo),
            format!("{name}, "),
            rule,
        ),
        (None, Some(last)) => Edit::new(
            Span::new(last.span.hi, last.span.hi),
            format!(", {name}"),
            rule,
        ),
        (None, None) => return,
    };
    // Two names for one place become one insertion.
    match edits.iter_mut().find(|other| other.span == edit.span) {
        Some(other) => other.text.push_str(&edit.text),
        None => edits.push(edit),
    }
}

/// `self` in the group behind a name.
fn self_leaf(rest: &UseTree) -> Option<&UseTree> {
    let UseKind::Group { items } = &rest.kind else {
        return None;
    };
    items.iter().find(|item| matches!(&item.kind, UseKind::Name(name) | UseKind::Rename { name, .. } if name.text == "self"))
}

/// What stands for `self` once the item has its new name.
fn new_self<'o>(leaf: &UseTree, op_of: &dyn Fn(Span) -> &'o Op) -> Option<String> {
    let (Op::Rename(new) | Op::Move { name: new, .. }) = op_of(leaf.span) else {
        return None;
    };
    if new == "self" {
        return None;
    }
    match &leaf.kind {
        UseKind::Rename { rename, .. } => Some(format!("{new} as {}", rename.text)),
        _ => Some(new.clone()),
    }
}

fn is_direct(tree: &UseTree) -> bool {
    match &tree.kind {
        UseKind::Path { rest, .. } => self_leaf(rest).is_some(),
        UseKind::Name(_) | UseKind::Rename { .. } => true,
        UseKind::Group { items } => items.iter().all(|item| {
            matches!(
                item.kind,
                UseKind::Name(_) | UseKind::Rename { .. } | UseKind::Glob
            )
        }),
        UseKind::Glob => true,
    }
}

fn collect_targets<'o>(
    tree: &UseTree,
    op_of: &dyn Fn(Span) -> &'o Op,
    out: &mut Vec<&'o Vec<String>>,
) {
    match &tree.kind {
        UseKind::Group { items } => items
            .iter()
            .for_each(|item| collect_targets(item, op_of, out)),
        UseKind::Path { rest, .. } => {
            // `self` of the module that moved is its own name's affair.
            if let Some(leaf) = self_leaf(rest)
                && let Op::Move { module, name } = op_of(leaf.span)
                && name != "self"
            {
                out.push(module);
            }
        }
        _ => {
            if let Op::Move { module, .. } = op_of(tree.span) {
                out.push(module);
            }
        }
    }
}

fn moved_names<'o>(tree: &UseTree, op_of: &dyn Fn(Span) -> &'o Op) -> Vec<String> {
    match &tree.kind {
        UseKind::Group { items } => items
            .iter()
            .flat_map(|item| moved_names(item, op_of))
            .collect(),
        UseKind::Rename { rename, .. } => match op_of(tree.span) {
            Op::Move { name, .. } => vec![format!("{name} as {}", rename.text)],
            _ => vec![],
        },
        _ => match op_of(tree.span) {
            Op::Move { name, .. } => vec![name.clone()],
            _ => vec![],
        },
    }
}

/// Takes leaves out of a group, with their commas and their own comments; braces around a single name go too.
fn group_deletions(
    text: &str,
    group: &UseTree,
    items: &[UseTree],
    gone: &[bool],
    rule: &str,
    edits: &mut Vec<Edit>,
) {
    let close = group.span.hi - 1;
    let kept: Vec<usize> = (0..items.len()).filter(|&at| !gone[at]).collect();
    let one_line = !group.span.text(text).contains('\n');
    let any_gone = gone.iter().any(|gone| *gone);
    if !any_gone {
        return;
    }
    if one_line && let [only] = kept[..] {
        let lone_self = matches!(&items[only].kind, UseKind::Name(name) if name.text == "self");
        let is_rename_self =
            matches!(&items[only].kind, UseKind::Rename { name, .. } if name.text == "self");
        if !lone_self && !is_rename_self {
            edits.push(Edit::new(
                Span::new(group.span.lo, items[only].span.lo),
                "",
                rule,
            ));
            edits.push(Edit::new(
                Span::new(items[only].span.hi, group.span.hi),
                "",
                rule,
            ));
            return;
        }
        // `path::{self}` is `path`.
        if lone_self && text[..group.span.lo].ends_with("::") {
            let whole = Span::new(group.span.lo - 2, group.span.hi);
            edits.push(Edit::new(whole, "", rule));
            return;
        }
    }
    let mut at = 0;
    while at < items.len() {
        if !gone[at] {
            at += 1;
            continue;
        }
        if let Some((line, next)) = line_of_gone(text, items, gone, at, close) {
            edits.push(Edit::new(line, "", rule));
            at = next;
            continue;
        }
        // All that is left of a line: the comma in front of it goes, too.
        if one_line && at > 0 && gone[at..].iter().all(|gone| *gone) {
            let behind = &text[items[items.len() - 1].span.hi..close];
            let tail = &text[items[at - 1].span.hi..close];
            if !tail.contains("//") && !tail.contains("/*") {
                let comma = behind.find(',').map_or(0, |n| n + 1);
                let end = items[items.len() - 1].span.hi + comma;
                edits.push(Edit::new(Span::new(items[at - 1].span.hi, end), "", rule));
                return;
            }
        }
        let item = &items[at];
        let comma = text[item.span.hi..close].find(',').filter(|n| {
            // The comma behind this item, not one in a comment further on.
            text[item.span.hi..item.span.hi + n].trim().is_empty()
                || text[item.span.hi..item.span.hi + n]
                    .trim()
                    .starts_with("/*")
        });
        let end = comma.map_or(item.span.hi, |n| item.span.hi + n + 1);
        let next = items.get(at + 1).map_or(close, |next| next.span.lo);
        let line_rest = text[end..line_end(text, end).min(close.max(end))].trim();
        let own_line = starts_line(text, item.span.lo)
            && line_end(text, end) <= next
            && (line_rest.is_empty() || line_rest.starts_with("//") || line_rest.starts_with("/*"));
        if own_line {
            let lo = line_start(text, item.span.lo);
            let hi = next_line(text, end).min(line_start(text, close).max(end));
            edits.push(Edit::new(Span::new(lo, hi.max(end)), "", rule));
        } else if at + 1 < items.len() && comma.is_some() {
            let rest = &text[end..next];
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let ends_line = rest[blanks..].starts_with(['\n', '\r']);
            // Starting its line with a neighbour behind it: the indentation stays for that one.
            let head = &text[line_start(text, item.span.lo)..item.span.lo];
            let lo = if ends_line && !head.trim().is_empty() {
                item.span.lo - (head.len() - head.trim_end().len())
            } else {
                item.span.lo
            };
            edits.push(Edit::new(Span::new(lo, end + blanks), "", rule));
        } else {
            // The last one: what stood in front of it goes with it, unless that goes by itself.
            let prev = (0..at).rev().find(|&prev| !gone[prev]);
            let lo = match prev {
                Some(prev) if (prev + 1..at).all(|between| gone[between]) && prev + 1 == at => {
                    items[prev].span.hi
                }
                _ => item.span.lo,
            };
            let lo =
                if text[lo..item.span.lo].contains("//") || text[lo..item.span.lo].contains('\n') {
                    item.span.lo
                } else {
                    lo
                };
            edits.push(Edit::new(Span::new(lo, end), "", rule));
        }
        at += 1;
    }
}

/// A line of several leaves that all go: its extent, and the leaf behind it.
fn line_of_gone(
    text: &str,
    items: &[UseTree],
    gone: &[bool],
    first: usize,
    close: usize,
) -> Option<(Span, usize)> {
    let lo = items[first].span.lo;
    if !starts_line(text, lo) {
        return None;
    }
    let end = line_end(text, lo);
    let next = (first..items.len())
        .find(|&at| items[at].span.lo >= end)
        .unwrap_or(items.len());
    let last = &items[next - 1];
    let whole =
        next > first + 1 && last.span.hi <= end && end <= close && (first..next).all(|at| gone[at]);
    let rest = text[last.span.hi..end.max(last.span.hi)].trim();
    (whole && matches!(rest, "" | ",")).then(|| {
        (
            Span::new(
                line_start(text, lo),
                next_line(text, lo).min(line_start(text, close)),
            ),
            next,
        )
    })
}

/// An item with its line, a comment at its end, and one blank line where two would meet.
pub fn item_extent(text: &str, span: Span) -> Span {
    // Behind a byte order mark.
    let top = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    let mut lo = span.lo;
    let mut hi = span.hi;
    let rest = text[hi..line_end(text, hi)].trim_start();
    if starts_line(text, lo)
        && (rest.is_empty()
            || rest.starts_with("//")
            || (rest.starts_with("/*") && rest.trim_end().ends_with("*/")))
    {
        lo = line_start(text, lo).max(top);
        hi = next_line(text, hi);
        let above_blank = lo == top
            || text[..lo].trim_end_matches(['\r', '\n']).len() + 1
                < lo.saturating_sub(text[..lo].ends_with("\r\n") as usize)
            || text[line_start(text, lo - 1)..lo].trim().is_empty();
        let below = text[hi..line_end(text, hi)].trim();
        let opens = lo > top && text[line_start(text, lo - 1)..lo].trim_end().ends_with('{');
        if below.is_empty() && hi < text.len() && (above_blank || opens) {
            hi = next_line(text, hi);
        } else if above_blank && lo > top && (below.starts_with('}') || hi >= text.len()) {
            lo = line_start(text, lo - 1).max(top);
        }
    }
    Span::new(lo, hi)
}

/// How often each identifier stands in a scope.
pub type Counts = HashMap<String, usize>;

/// Identifier counts of every module scope of a file, imports left out, and of its block scopes in order.
///
/// What inner modules take from a scope counts as used there, by the same measure that [`edit_imports`] applies: the two
/// are compared, and what only one of them sees would look like a use that this run took away.
pub fn usage(cx: &Cx<'_>, module: ModId) -> (HashMap<ModId, Counts>, Vec<Counts>) {
    let mut modules = HashMap::new();
    let mut blocks = Vec::new();
    let quoted = quoted(cx);
    let all = scopes(cx, module, cx.text.len());
    for scope in &all {
        let without: Vec<Span> = scope
            .items
            .iter()
            .map(|item| item.span)
            .chain(scope.holes.iter().copied())
            .chain(quoted.iter().copied())
            .collect();
        let mut counts = count_idents(cx.file, scope.region, &without);
        if !scope.is_block {
            add_seen_inside(&mut counts, &names_seen_inside(cx, scope, &all));
        }
        if scope.is_block {
            blocks.push(counts);
        } else {
            modules.insert(scope.module, counts);
        }
    }
    (modules, blocks)
}

/// Names that a file's modules take from other modules: `(module, name)`, with an empty name for all of them.
pub fn taken_from(cx: &Cx<'_>, module: ModId) -> Vec<(ModId, String)> {
    let mut out = Vec::new();
    for scope in scopes(cx, module, cx.text.len()) {
        for leaf in scope.items.iter().flat_map(|item| leaves(item)) {
            let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
            let from = Scope {
                module: scope.module,
                blocks: &[],
                params: &[],
            };
            let head = if leaf.is_glob {
                &segs[..]
            } else {
                &segs[..segs.len().saturating_sub(1)]
            };
            if let (Res::Mod(target), n) =
                cx.world.resolve(from, leaf.leading_colon, head, Ns::Type)
                && n == head.len()
            {
                let name = if leaf.is_glob {
                    String::new()
                } else {
                    segs.last().copied().unwrap_or_default().to_owned()
                };
                out.push((target, name));
            }
        }
    }
    // Paths written out: `super::Name`, `crate::a::Name`.
    for found in cx.an.paths.values() {
        if found.path.segs.len() < 2 {
            continue;
        }
        let names = found.path.names();
        let from = Scope {
            module: found.module,
            blocks: &[],
            params: &[],
        };
        for cut in 1..names.len() {
            if let (Res::Mod(target), n) =
                cx.world
                    .resolve(from, found.path.leading_colon, &names[..cut], Ns::Type)
                && n == cut
            {
                out.push((target, names[cut].to_owned()));
            }
        }
    }
    out
}
