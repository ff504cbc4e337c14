//! New names in `use` items, and the traits that methods went to.

use super::paths::{Spelled, behind, is_taken};
use super::{Aliased, Found, MovedRule, Place, Scopes, full_path, tokens};
use crate::edit::Edit;
use crate::names::UseScope;
use crate::rewrite::Cx;
use crate::syntax::{ExprKind, Item, ItemKind, Span, UseItem, UseKind, UseTree, Vis};
use crate::world::{DefId, DefKind, Ns, Res};

/// The old names that have to go on being imported: tokens that nobody reads use them, or the new name is taken.
pub fn aliases(cx: &Cx<'_>, scopes: &Scopes<'_>) -> Aliased {
    let opaque = tokens::bare_names(cx);
    let mut out = Aliased::new();
    for scope in scopes.all() {
        for (it, leaf) in leaves(scope) {
            let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
            let Some(rule) = item_of_use(cx, scope, it, &segs) else {
                continue;
            };
            let old = rule.old.name(cx.world);
            if leaf.name() != Some(old) || old == rule.new.name(cx.world) {
                continue;
            }
            let has_both = leaves(scope).any(|(other_it, other)| {
                let segs: Vec<&str> = other.path.iter().map(String::as_str).collect();
                other.name() == Some(rule.new.name(cx.world))
                    && both(cx, scope, other_it, &segs)
                        .iter()
                        .any(|res| Place::of(res) == Some(rule.new))
            });
            if opaque.contains(old) || has_both || is_taken(cx, rule, scope.module) {
                out.insert((scope.module, old.to_owned()));
            }
        }
    }
    out
}

/// Takes out the imports that only functions which go have used.
pub fn unused(cx: &Cx<'_>, scopes: &Scopes<'_>, found: &mut Found) {
    if found.deleted.is_empty() {
        return;
    }
    let gone: Vec<Span> = found
        .edits
        .iter()
        .filter(|edit| edit.text.is_empty())
        .map(|edit| edit.span)
        .collect();
    let uses: Vec<Span> = scopes
        .all()
        .flat_map(|scope| scope.items.iter().map(|item| item.span))
        .collect();
    let mut edits = Vec::new();
    for scope in scopes.all() {
        for item in scope.items.iter().filter(|item| item.vis == Vis::Private) {
            let ItemKind::Use(it) = &item.kind else {
                continue;
            };
            let is_unused = |name: &str| {
                let mut named = cx.file.idents.iter().filter(|ident| {
                    ident.text == name
                        && scope.region.contains(ident.span)
                        && !uses.iter().any(|item| item.contains(ident.span))
                });
                let went =
                    |ident: &crate::syntax::Name| gone.iter().any(|gone| gone.contains(ident.span));
                let any = named.clone().any(went);
                any && named.all(went) && !is_taken_elsewhere(cx, scope, name)
            };
            let leaves: Vec<Span> = it
                .tree
                .leaves()
                .into_iter()
                .filter(|leaf| leaf.name().is_some_and(is_unused))
                .map(|leaf| leaf.span)
                .collect();
            if !leaves.is_empty() {
                edits.extend(crate::names::removals(cx, item, &leaves));
            }
        }
    }
    found.edits.extend(edits);
}

/// Whether another file below a module may take a name from it.
fn is_taken_elsewhere(cx: &Cx<'_>, scope: &UseScope<'_>, name: &str) -> bool {
    !scope.is_block
        && cx.world.files.iter().enumerate().any(|(id, file)| {
            id != cx.id
                && file
                    .contexts
                    .iter()
                    .any(|&module| cx.world.is_descendant(module, scope.module))
                && file
                    .parsed
                    .as_ref()
                    .is_ok_and(|file| file.idents.iter().any(|ident| ident.text == name))
        })
}

/// Whether the trait that has a wrapping method is imported where it is called, or will be.
pub fn is_imported(cx: &Cx<'_>, scopes: &Scopes<'_>, at: usize, rule: &super::WrapRule) -> bool {
    if scopes.sees_trait(cx, at, rule.import) == super::scope::Sight::Yes {
        return true;
    }
    scopes.all().any(|scope| {
        scope.region.lo <= at
            && at < scope.region.hi
            && leaves(scope).any(|(it, leaf)| {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                let Res::Def(def) = Scopes::resolve_use(cx, scope, it, &segs, Ns::Type) else {
                    return false;
                };
                let head = &segs[..segs.len() - 1];
                let import = &cx.world.defs[rule.import].name;
                let beside = match Scopes::resolve_use(cx, scope, it, head, Ns::Type) {
                    Res::Mod(module) => {
                        cx.world.name_in(module, import, Ns::Type, None) == Res::Def(rule.import)
                    }
                    _ => false,
                };
                rule.lost.contains(&def) && beside && leaf.name().is_some()
            })
            && scope
                .items
                .iter()
                .all(|item| item.vis == Vis::Private || !matches!(item.kind, ItemKind::Use(_)))
    })
}

fn leaves<'s>(
    scope: &'s UseScope<'_>,
) -> impl Iterator<Item = (&'s UseItem, crate::syntax::UseLeaf)> {
    scope.items.iter().flat_map(|item| {
        let it = match &item.kind {
            ItemKind::Use(it) => Some(it),
            _ => None,
        };
        it.into_iter()
            .flat_map(|it| it.tree.leaves().into_iter().map(move |leaf| (it, leaf)))
    })
}

/// What a path of a `use` leads to, as a type and as a value.
fn both(cx: &Cx<'_>, scope: &UseScope<'_>, it: &UseItem, segs: &[&str]) -> [Res; 2] {
    [Ns::Type, Ns::Value].map(|ns| Scopes::resolve_use(cx, scope, it, segs, ns))
}

fn item_of_use<'c>(
    cx: &Cx<'c>,
    scope: &UseScope<'_>,
    it: &UseItem,
    segs: &[&str],
) -> Option<&'c super::ItemRule> {
    let upgrade = &cx.rules.upgrade;
    both(cx, scope, it, segs)
        .iter()
        .find_map(|res| upgrade.item(res))
}

pub fn look(cx: &Cx<'_>, scopes: &Scopes<'_>, aliased: &Aliased, found: &mut Found) {
    for scope in scopes.all() {
        for item in &scope.items {
            let ItemKind::Use(it) = &item.kind else {
                continue;
            };
            let mut walk = Walk {
                cx,
                scopes,
                aliased,
                scope,
                item,
                it,
                found,
            };
            walk.tree(&it.tree, &mut Vec::new(), true, false);
        }
    }
}

struct Walk<'a, 'f> {
    cx: &'a Cx<'f>,
    scopes: &'a Scopes<'f>,
    aliased: &'a Aliased,
    scope: &'a UseScope<'f>,
    item: &'a Item,
    it: &'a UseItem,
    found: &'a mut Found,
}

impl Walk<'_, '_> {
    /// `straight`: no group stands around it, so that the whole path can be written anew.
    /// `in_group`: it is one of a group itself, so that a neighbour needs no braces.
    fn tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>, straight: bool, in_group: bool) {
        match &tree.kind {
            UseKind::Path { name, rest } => {
                self.segment(&name.text, name.span, prefix, straight, None);
                prefix.push(name.text.clone());
                self.tree(rest, prefix, straight, false);
                prefix.pop();
            }
            UseKind::Group { items } => {
                for item in items {
                    self.tree(item, prefix, false, true);
                }
            }
            UseKind::Name(name) if name.text == "self" => {
                // The module's new name is written before it: the old one is kept by an alias.
                if let Some(around) = prefix.last()
                    && self.aliased.contains(&(self.scope.module, around.clone()))
                    && let Some(rule) = self.rule(prefix)
                {
                    let text = format!("self as {around}");
                    self.found
                        .edits
                        .push(Edit::new(name.span, text, &rule.spec.rule));
                }
            }
            UseKind::Name(name) => {
                if self.brings_a_wrapper(&name.text, name.span, prefix, in_group) {
                    return;
                }
                if self.moved(&name.text, name.span, prefix, in_group, "") {
                    return;
                }
                let alias = self
                    .aliased
                    .contains(&(self.scope.module, name.text.clone()))
                    .then(|| name.text.clone());
                self.segment(&name.text, name.span, prefix, straight, alias.as_deref());
            }
            UseKind::Rename { name, rename } => {
                let suffix = format!(" as {}", rename.text);
                if rename.text == "_"
                    && self.moved(&name.text, tree.span, prefix, in_group, &suffix)
                {
                    return;
                }
                self.segment(&name.text, name.span, prefix, straight, None);
            }
            UseKind::Glob => {}
        }
    }

    /// A trait that a value lost, beside whose import stands the one that has the method for it. Whether that was added.
    fn brings_a_wrapper(
        &mut self,
        name: &str,
        span: Span,
        prefix: &[String],
        in_group: bool,
    ) -> bool {
        let (cx, scope) = (self.cx, self.scope);
        for rule in &cx.rules.upgrade.wrapped {
            let lost = |it: &UseItem, path: &[&str]| match Scopes::resolve_use(
                cx,
                scope,
                it,
                path,
                Ns::Type,
            ) {
                Res::Def(def) => rule.lost.contains(&def),
                _ => false,
            };
            let path: Vec<&str> = prefix.iter().map(String::as_str).chain([name]).collect();
            let first = leaves(scope).find(|(it, leaf)| {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                lost(it, &segs)
            });
            let is_first = lost(self.it, &path) && first.is_some_and(|(_, leaf)| leaf.span == span);
            let has = leaves(scope).any(|(it, leaf)| {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                Scopes::resolve_use(cx, scope, it, &segs, Ns::Type) == Res::Def(rule.import)
            });
            let import = &cx.world.defs[rule.import].name;
            let beside =
                match Scopes::resolve_use(cx, scope, self.it, &path[..path.len() - 1], Ns::Type) {
                    Res::Mod(module) => {
                        cx.world.name_in(module, import, Ns::Type, None) == Res::Def(rule.import)
                    }
                    _ => false,
                };
            let wanted = cx.nodes.exprs.iter().any(|expr| {
                matches!(&expr.kind, ExprKind::Path(path) if cx.an.res(path) == Res::Def(rule.value))
                    && scope.region.contains(expr.span)
                    && super::calls::receiver_of(cx, expr, rule) == Some(true)
            });
            if is_first && !has && beside && wanted && self.item.vis == Vis::Private {
                let mut names = [name.to_owned(), import.clone()];
                names.sort();
                let names = names.join(", ");
                let text = if in_group {
                    names
                } else {
                    format!("{{{names}}}")
                };
                self.found
                    .edits
                    .push(Edit::new(span, text, &rule.spec.rule));
                return true;
            }
        }
        false
    }

    fn rule(&self, path: &[String]) -> Option<&'_ super::ItemRule> {
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        item_of_use(self.cx, self.scope, self.it, &segs)
    }

    fn segment(
        &mut self,
        name: &str,
        span: Span,
        prefix: &[String],
        straight: bool,
        alias: Option<&str>,
    ) {
        let (cx, scope) = (self.cx, self.scope);
        let path: Vec<&str> = prefix.iter().map(String::as_str).chain([name]).collect();
        let all = both(cx, scope, self.it, &path);
        if let Some(gone) = cx
            .rules
            .upgrade
            .gone
            .iter()
            .find(|rule| rule.spec.method.is_none() && all.contains(&Res::Def(rule.owner)))
        {
            self.found.leave(
                span,
                &gone.spec.rule,
                format!("`{name}` is gone: {}", gone.spec.why),
                Some(gone.spec.hint.clone()),
            );
            return;
        }
        let Some(rule) = all.iter().find_map(|res| cx.rules.upgrade.item(res)) else {
            return;
        };
        if name != rule.old.name(cx.world) {
            return;
        }
        let around = match &path[..path.len() - 1] {
            [] => Res::Unknown,
            head => Scopes::resolve_use(cx, scope, self.it, head, Ns::Type),
        };
        let spelled = match around {
            Res::Mod(module) => behind(cx, self.aliased, rule, module, scope.module),
            _ => Spelled::Segment(rule.new.name(cx.world).to_owned()),
        };
        let alias = alias.map_or(String::new(), |old| format!(" as {old}"));
        let name_of_rule = &rule.spec.rule;
        match spelled {
            Spelled::Same => {}
            Spelled::Segment(text) => {
                self.found
                    .edits
                    .push(Edit::new(span, text + &alias, name_of_rule));
            }
            Spelled::Whole(_) if !straight => self.found.leave(
                span,
                name_of_rule,
                format!("`{name}` is no longer where this group takes it from"),
                Some(format!(
                    "import `{}` on its own",
                    full_path(cx, scope.module, rule.new)
                )),
            ),
            Spelled::Whole(text) => {
                let whole = Span::new(self.it.tree.span.lo, span.hi);
                self.found.edits.retain(|edit| !whole.contains(edit.span));
                self.found
                    .edits
                    .push(Edit::new(whole, text + &alias, name_of_rule));
            }
        }
    }

    /// A trait some of whose methods went elsewhere: what its calls need is imported. Whether it was one.
    fn moved(
        &mut self,
        name: &str,
        span: Span,
        prefix: &[String],
        in_group: bool,
        suffix: &str,
    ) -> bool {
        let (cx, scope) = (self.cx, self.scope);
        let path: Vec<&str> = prefix.iter().map(String::as_str).chain([name]).collect();
        let res = Scopes::resolve_use(cx, scope, self.it, &path, Ns::Type);
        let Some(rule) = cx
            .rules
            .upgrade
            .moved
            .iter()
            .find(|rule| res == Res::Def(rule.owner))
        else {
            return false;
        };
        let (needed, stays) = self.uses(rule, name);
        let have: Vec<DefId> = leaves(scope)
            .filter_map(|(it, leaf)| {
                let segs: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                match Scopes::resolve_use(cx, scope, it, &segs, Ns::Type) {
                    Res::Def(def) => Some(def),
                    _ => None,
                }
            })
            .collect();
        let fresh: Vec<DefId> = needed
            .iter()
            .copied()
            .filter(|def| !have.contains(def))
            .collect();
        let rule_name = &rule.spec.rule;
        if self.item.vis != Vis::Private {
            let is_called = cx.world.files.iter().any(|file| {
                file.parsed.as_ref().is_ok_and(|file| {
                    file.idents
                        .iter()
                        .any(|ident| rule.methods.contains_key(&ident.text))
                }) && !file.path.starts_with('<')
            });
            if is_called && !rule.methods.values().all(|def| have.contains(def)) {
                self.found.leave(
                    span,
                    rule_name,
                    format!("`{name}` is re-exported, and methods of it went to other traits"),
                    Some("re-export those too, where their methods are called".into()),
                );
            }
            return true;
        }
        if fresh.is_empty() {
            return true;
        }
        // All of them have to be where this one is taken from.
        let around = match &path[..path.len() - 1] {
            [] => Res::Unknown,
            head => Scopes::resolve_use(cx, scope, self.it, head, Ns::Type),
        };
        let is_there = |def: &DefId| match around {
            Res::Mod(module) => {
                let module = cx.rules.upgrade.successor(module);
                let name = &cx.world.defs[*def].name;
                cx.world.name_in(module, name, Ns::Type, None) == Res::Def(*def)
            }
            _ => false,
        };
        if !fresh.iter().all(is_there) {
            self.found.leave(
                span,
                rule_name,
                format!("methods of `{name}` went to traits that are not beside it here"),
                Some(format!(
                    "import {}",
                    fresh
                        .iter()
                        .map(|def| format!("`{}`", cx.world.defs[*def].name))
                        .collect::<Vec<_>>()
                        .join(" and ")
                )),
            );
            return true;
        }
        let mut names: Vec<String> = fresh
            .iter()
            .map(|def| format!("{}{suffix}", cx.world.defs[*def].name))
            .collect();
        if stays {
            names.push(format!("{name}{suffix}"));
        }
        names.sort();
        let text = match &names[..] {
            [only] => only.clone(),
            all if in_group => all.join(", "),
            all => format!("{{{}}}", all.join(", ")),
        };
        self.found.edits.push(Edit::new(span, text, rule_name));
        true
    }

    /// The traits whose methods are called where the import is seen, and whether the old one is still used there.
    fn uses(&self, rule: &MovedRule, name: &str) -> (Vec<DefId>, bool) {
        let (cx, scope) = (self.cx, self.scope);
        // Inner modules see it only if they take everything from here.
        let closed: Vec<Span> = scope
            .holes
            .iter()
            .copied()
            .filter(|hole| !hole.text(cx.text).contains("super::*"))
            .collect();
        let is_seen = |span: Span| {
            scope.region.contains(span) && !closed.iter().any(|hole| hole.contains(span))
        };
        let DefKind::Trait { fns, .. } = &cx.world.defs[rule.owner].kind else {
            return (vec![], true);
        };
        let mut needed: Vec<DefId> = Vec::new();
        let mut stays = false;
        for expr in &cx.nodes.exprs {
            let ExprKind::MethodCall {
                recv, method, args, ..
            } = &expr.kind
            else {
                continue;
            };
            // What is dropped, or left to a person, calls what it forwards to.
            let is_dropped = super::impls::in_dropped(cx, expr.span);
            if is_dropped || !is_seen(expr.span) || !fns.iter().any(|f| f.name == method.text) {
                continue;
            }
            let takes = fns
                .iter()
                .any(|f| f.name == method.text && f.sig.params.len() == args.len());
            let is_other = match cx.an.methods.get(&expr.id) {
                Some(hit) => hit.of_trait != Some(rule.owner),
                None => {
                    let ty = cx.an.ty(recv).peeled();
                    cx.world.iterator_item(ty, &|_| vec![]).is_some()
                }
            };
            if !takes || is_other {
                continue;
            }
            match rule.methods.get(&method.text) {
                Some(now) if !needed.contains(now) => needed.push(*now),
                Some(_) => {}
                None => stays = true,
            }
        }
        let uses: Vec<Span> = self
            .scopes
            .all()
            .flat_map(|scope| scope.items.iter().map(|item| item.span))
            .collect();
        stays |= cx.file.idents.iter().any(|ident| {
            ident.text == name
                && is_seen(ident.span)
                && !uses.iter().any(|item| item.contains(ident.span))
        });
        // Tokens that nobody reads may call what their names say.
        for method in tokens::called(cx) {
            match rule.methods.get(method) {
                Some(now) if !needed.contains(now) => needed.push(*now),
                Some(_) => {}
                None => stays |= fns.iter().any(|f| f.name == method),
            }
        }
        stays |= needed.is_empty();
        (needed, stays)
    }
}
