//! Deletion as a transaction: a module's file with its `mod` item, a test with the helpers that only it used, a target's
//! file with its entry in the manifest.

mod keep;

use std::collections::{HashMap, HashSet};

use crate::edit::{Edit, EditGroup};
use crate::leftover::Leftover;
use crate::names::item_extent;
use crate::rewrite::Cx;
use crate::rewrite::nodes::Parent;
use crate::session::{Broken, Session};
use crate::syntax::trivia::{line_end, line_start, next_line, starts_line};
use crate::syntax::{ExprKind, ItemKind, MacroArgs, Span};
use crate::tidy::with_comments;
use crate::world::{CrateId, CrateKind, FileId, ModId, Res};

/// A function by the file it stands in and where its item began in the original.
type Key = (FileId, usize);

/// A function that only exists to test, and that uses something without a counterpart.
#[derive(Debug, Clone)]
struct Fact {
    key: Key,
    work: usize,
    name: String,
    is_test: bool,
    /// Makes something dead itself, or asserts what cannot hold.
    dead: bool,
    /// Reads what is gone of a value, which one that stays may have had as well.
    reads: bool,
    /// Makes what stays, or names it.
    makes_new: bool,
    /// Functions that it names.
    names: HashSet<Key>,
    is_main: bool,
    /// Uses what stays as well.
    uses_new: bool,
    /// Its original text names the kind that stays.
    uses_live: bool,
    /// Functions that it calls as a statement or hands on; whether the call needs nothing of what is around it.
    work_names: Vec<(Key, bool)>,
    /// What a `main` does, statement by statement.
    steps: Vec<keep::Step>,
    krate: CrateId,
}

/// What was deleted, for the report.
#[derive(Debug, Clone)]
pub struct Deleted {
    pub path: String,
    /// Position in the original; none for a whole file.
    pub at: Option<usize>,
    pub what: String,
    pub why: String,
    pub rule: String,
}

/// Takes out tests, benches and examples that use something without a counterpart, with the helpers that use it.
///
/// Returns what was deleted; whole files are marked as deleted in the session.
pub fn test_code(session: &mut Session<'_>) -> Result<Vec<Deleted>, Broken> {
    let (mut facts, mentions, benches) = facts(session);
    settle_reads(&mut facts);
    let mut poisoned: HashSet<Key> = facts
        .iter()
        .filter(|fact| fact.dead)
        .map(|fact| fact.key)
        .collect();
    loop {
        let more: Vec<Key> = facts
            .iter()
            .filter(|fact| {
                !poisoned.contains(&fact.key)
                    && fact.names.iter().any(|name| poisoned.contains(name))
            })
            // A table of benches is not a bench: its entry goes, not what walks it.
            .map(|fact| fact.key)
            .collect();
        if more.is_empty() {
            break;
        }
        poisoned.extend(more);
    }
    if poisoned.is_empty() {
        return Ok(vec![]);
    }
    // A `main` that uses both kinds is left to a person, and what it calls with it.
    let spared = keep::spared(session, &facts, &mentions, &benches, &poisoned);
    poisoned.retain(|key| !spared.contains(key));
    let mut out = Vec::new();
    for at in 0..session.works.len() {
        delete_in_file(session, at, &poisoned, &spared, &facts, &mut out)?;
    }
    Ok(out)
}

/// What only reads is dead as well, unless it makes what stays or lets a helper make it: then a person has to look.
fn settle_reads(facts: &mut [Fact]) {
    let mut makes: HashSet<Key> = facts
        .iter()
        .filter(|fact| fact.makes_new)
        .map(|fact| fact.key)
        .collect();
    loop {
        let more: Vec<Key> = facts
            .iter()
            .filter(|fact| !makes.contains(&fact.key) && !makes.is_disjoint(&fact.names))
            .map(|fact| fact.key)
            .collect();
        if more.is_empty() {
            break;
        }
        makes.extend(more);
    }
    for fact in facts {
        fact.dead |= fact.reads && !makes.contains(&fact.key);
    }
}

/// Functions of tests, what unread macros name, and the macros of Criterion by file.
type Facts = (Vec<Fact>, Vec<keep::Mention>, Vec<(usize, keep::Criterion)>);

fn facts(session: &Session<'_>) -> Facts {
    let mut out = Vec::new();
    let mut mentions = Vec::new();
    let mut benches = Vec::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        let tests = session.world.is_test_code(context) || work.rope.original().contains("test");
        if work.deleted || work.keep || work.refused.is_some() || !tests {
            continue;
        }
        let found = session.view(at, context, |cx| {
            let leftovers = cx.leftovers();
            let (read, _) = keep::criterion(cx);
            if !read.groups.is_empty() {
                benches.push((at, read));
            }
            mentions.extend(keep::mentions(cx, cx.world.mods[context].krate));
            cx.an
                .functions
                .iter()
                .enumerate()
                .filter(|(_, function)| function.in_test_code)
                .map(|(index, function)| {
                    let krate = cx.world.mods[function.module].krate;
                    let dead_here = |reads: bool| leftovers.iter().any(|left| left.dead && left.reads == reads && function.span.contains(left.span) && !in_nested(cx, index, left.span));
                    let fails = cx.nodes.exprs.iter().any(|expr| function.body.contains(expr.span) && folds_to_failure(cx, expr));
                    let mut names: HashSet<Key> = HashSet::new();
                    let mut work_names = Vec::new();
                    for (id, hit) in &cx.an.methods {
                        if cx.an.function_of.get(id) == Some(&index) {
                            names.insert((hit.def.file, hit.def.span.lo));
                        }
                    }
                    for found in cx.an.paths.values().filter(|found| function.span.contains(found.path.span)) {
                        if let Res::Def(def) = found.res {
                            match &cx.world.defs[def].kind {
                                crate::world::DefKind::Fn(f) => {
                                    names.insert((f.file, f.span.lo));
                                    if let Some(alone) = keep::is_work(cx, found.path.span) {
                                        work_names.push(((f.file, f.span.lo), alone));
                                    }
                                }
                                _ => {
                                    // `Type::helper`.
                                    if let Some(seg) = found.path.segs.get(found.taken)
                                        && let Some((f, _)) = cx.world.assoc_fn(def, &seg.name.text)
                                    {
                                        names.insert((f.file, f.span.lo));
                                    }
                                }
                            }
                        }
                    }
                    let uses_new = cx.an.paths.values().any(|found| {
                        function.body.contains(found.path.span)
                            && match found.res {
                                Res::Def(def) => cx.rules.enums.iter().any(|rule| rule.becomes == def) || cx.rules.wrappers.iter().any(|rule| rule.becomes == def) || is_renamed(cx, found),
                                _ => false,
                            }
                    });
                    let is_main = function.name == "main" && cx.world.mods[function.module].parent.is_none() && cx.world.crates[krate].kind.is_test_like();
                    // After a first run nothing but types may tell that the kind that stays is in use.
                    let holds_new = is_main
                        && cx.nodes.exprs.iter().any(|expr| {
                            function.body.contains(expr.span) && cx.rules.enums.iter().any(|rule| matches!(cx.an.ty(expr).peeled(), crate::world::Type::Adt(def, _) if *def == rule.becomes))
                        });
                    let steps = if is_main {
                        keep::steps(cx, function.span, &leftovers)
                    } else {
                        vec![]
                    };
                    Fact {
                        key: (work.id, cx.rope.origin(function.span.lo)),
                        work: at,
                        name: function.name.clone(),
                        is_test: function.is_test,
                        dead: dead_here(false) || fails,
                        reads: dead_here(true),
                        names,
                        is_main,
                        makes_new: uses_new,
                        uses_new: uses_new || holds_new,
                        uses_live: keep::names_live_kind(cx, function.span),
                        work_names,
                        steps,
                        krate,
                    }
                })
                .collect::<Vec<_>>()
        });
        out.extend(found.unwrap_or_default());
    }
    (out, mentions, benches)
}

/// A call of a retired type's function that has a counterpart: it builds what stays.
fn is_renamed(cx: &Cx<'_>, found: &crate::analysis::PathUse) -> bool {
    let Res::Def(def) = found.res else {
        return false;
    };
    let Some(rule) = cx.rules.enums.iter().find(|rule| rule.def == def) else {
        return false;
    };
    found.path.segs.get(found.taken).is_some_and(|seg| {
        rule.spec.rename.values().any(|new| *new == seg.name.text)
            || rule.spec.unwrap.contains(&seg.name.text)
    })
}

fn in_nested(cx: &Cx<'_>, index: usize, span: Span) -> bool {
    let own = &cx.an.functions[index];
    cx.an.functions.iter().enumerate().any(|(other, function)| {
        other != index && own.body.contains(function.span) && function.span.contains(span)
    })
}

/// An assertion that this run has turned into one that cannot hold.
pub fn folds_to_failure(cx: &Cx<'_>, expr: &crate::syntax::Expr) -> bool {
    let ExprKind::Macro(mac) = &expr.kind else {
        return false;
    };
    let MacroArgs::Exprs { args, .. } = &mac.args else {
        return false;
    };
    let literal = |at: usize| {
        args.get(at).and_then(|arg| match arg.value.kind {
            ExprKind::Lit(crate::syntax::LitKind::Bool(value)) => Some(value),
            _ => cx.constant(&arg.value),
        })
    };
    let ours = |at: usize| {
        args.get(at)
            .is_some_and(|arg| cx.constant(&arg.value).is_some())
    };
    match mac.path.last().name.text.as_str() {
        "assert" => ours(0) && literal(0) == Some(false),
        "assert_eq" => {
            (ours(0) || ours(1)) && matches!((literal(0), literal(1)), (Some(a), Some(b)) if a != b)
        }
        "assert_ne" => {
            (ours(0) || ours(1)) && matches!((literal(0), literal(1)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    }
}

fn delete_in_file(
    session: &mut Session<'_>,
    at: usize,
    poisoned: &HashSet<Key>,
    spared: &HashSet<Key>,
    facts: &[Fact],
    out: &mut Vec<Deleted>,
) -> Result<(), Broken> {
    let id = session.works[at].id;
    let Some(&context) = session.works[at].contexts.first() else {
        return Ok(());
    };
    let mine: Vec<&Fact> = facts.iter().filter(|fact| fact.work == at).collect();
    let gone: Vec<&Fact> = mine
        .iter()
        .copied()
        .filter(|fact| poisoned.contains(&fact.key))
        .collect();
    let path = session.works[at].path.clone();
    let rule = "dead-test";
    let why = "it uses what is gone and has no counterpart";
    if !gone.is_empty() {
        // A file that holds nothing else.
        let krate = session.world.mods[context].krate;
        let kind = session.world.crates[krate].kind;
        let is_root = session.world.crates[krate].root == context;
        let tests_left = mine
            .iter()
            .any(|fact| fact.is_test && !poisoned.contains(&fact.key));
        let had_tests = mine.iter().any(|fact| fact.is_test);
        let main_gone = gone.iter().any(|fact| fact.is_main);
        let names: HashSet<String> = gone.iter().map(|fact| fact.name.clone()).collect();
        let (bench_gone, unread) = session
            .view(at, context, |cx| {
                (
                    keep::criterion(cx).0.is_dead(&names),
                    cx.nodes
                        .items
                        .iter()
                        .any(|(item, _)| keep::is_unread_item(item)),
                )
            })
            .unwrap_or((false, true));
        let main_gone = main_gone || (bench_gone && keep::is_bench_root(session, at));
        let held = unread || mine.iter().any(|fact| spared.contains(&fact.key));
        let whole_test = had_tests
            && !tests_left
            && !held
            && session.world.is_test_code(context)
            && session.world.mods[context].braces.is_none();
        if (is_root && kind.is_test_like() && (main_gone || whole_test))
            || (!is_root
                && whole_test
                && nothing_else_is_public(session, at, context, facts, poisoned))
        {
            session.works[at].deleted = true;
            let names = gone
                .iter()
                .filter(|fact| fact.is_test)
                .map(|fact| format!("`{}`", fact.name))
                .collect::<Vec<_>>()
                .join(", ");
            let what = match (kind, names.is_empty()) {
                (_, false) => format!("file, with {names}"),
                (CrateKind::Bench, true) => "bench".to_owned(),
                (CrateKind::Example, true) => "example".to_owned(),
                _ => "file".to_owned(),
            };
            out.push(Deleted {
                path: path.clone(),
                at: None,
                what,
                why: why.into(),
                rule: rule.into(),
            });
            return Ok(());
        }
    }
    let view = session.view(at, context, |cx| {
        let mut groups: Vec<EditGroup> = Vec::new();
        let mut deleted: Vec<Deleted> = Vec::new();
        // Whole test modules first.
        let mut spans: Vec<Span> = Vec::new();
        for (item, _) in &cx.nodes.items {
            let ItemKind::Mod(it) = &item.kind else {
                continue;
            };
            let (Some(braces), Some(name)) = (it.braces, &item.name) else {
                continue;
            };
            let inside: Vec<&&Fact> = mine
                .iter()
                .filter(|fact| origin_in(cx, fact.key.1, braces))
                .collect();
            let had = inside.iter().any(|fact| fact.is_test);
            let any_gone = inside.iter().any(|fact| poisoned.contains(&fact.key));
            let left = inside
                .iter()
                .any(|fact| fact.is_test && !poisoned.contains(&fact.key));
            let held = inside.iter().any(|fact| spared.contains(&fact.key))
                || cx
                    .nodes
                    .items
                    .iter()
                    .any(|(item, _)| braces.contains(item.span) && keep::is_unread_item(item));
            if had
                && any_gone
                && !left
                && !held
                && !spans.iter().any(|span| span.contains(item.span))
            {
                let span = with_comments(cx.text, item_extent(cx.text, item.span));
                spans.push(item.span);
                groups.push(EditGroup::one(Edit::new(span, "", rule)));
                let names = inside
                    .iter()
                    .filter(|fact| fact.is_test)
                    .map(|fact| format!("`{}`", fact.name))
                    .collect::<Vec<_>>()
                    .join(", ");
                deleted.push(Deleted {
                    path: path.clone(),
                    at: Some(cx.rope.origin(item.span.lo)),
                    what: format!("module `{}`, with {names}", name.text),
                    why: why.into(),
                    rule: rule.into(),
                });
            }
        }
        for (item, _) in &cx.nodes.items {
            if !matches!(item.kind, ItemKind::Fn(_))
                || spans.iter().any(|span| span.contains(item.span))
            {
                continue;
            }
            let key = (id, cx.rope.origin(item.span.lo));
            if !poisoned.contains(&key) {
                continue;
            }
            let fact = mine.iter().find(|fact| fact.key == key);
            let name = item.name.as_ref().map_or("", |name| name.text.as_str());
            let span = with_comments(cx.text, item_extent(cx.text, item.span));
            groups.push(EditGroup::one(Edit::new(span, "", rule)));
            spans.push(item.span);
            let kind = if fact.is_some_and(|fact| fact.is_test) {
                "test"
            } else {
                "helper"
            };
            deleted.push(Deleted {
                path: path.clone(),
                at: Some(cx.rope.origin(item.span.lo)),
                what: format!("{kind} `{name}`"),
                why: why.into(),
                rule: rule.into(),
            });
        }
        bench_entries(cx, &gone, &path, &mut groups, &mut deleted);
        // Entries of tables that name a function which is gone.
        for expr in &cx.nodes.exprs {
            let ExprKind::Path(found) = &expr.kind else {
                continue;
            };
            let Res::Def(def) = cx.an.res(found) else {
                continue;
            };
            let crate::world::DefKind::Fn(f) = &cx.world.defs[def].kind else {
                continue;
            };
            if !poisoned.contains(&(f.file, f.span.lo))
                || spans.iter().any(|span| span.contains(expr.span))
            {
                continue;
            }
            if let Some(span) = table_entry(cx, expr) {
                groups.push(EditGroup::one(Edit::new(span, "", rule)));
                deleted.push(Deleted {
                    path: path.clone(),
                    at: Some(cx.rope.origin(expr.span.lo)),
                    what: format!("table entry of `{}`", found.last().name.text),
                    why: "its function is gone".into(),
                    rule: rule.into(),
                });
            }
        }
        (groups, deleted)
    });
    let Ok((groups, deleted)) = view else {
        return Ok(());
    };
    if groups.is_empty() {
        return Ok(());
    }
    session.apply(at, &groups)?;
    out.extend(deleted);
    Ok(())
}

/// Names of deleted functions leave the lists of Criterion's macros, groups that this empties go.
fn bench_entries(
    cx: &Cx<'_>,
    gone: &[&Fact],
    path: &str,
    groups: &mut Vec<EditGroup>,
    deleted: &mut Vec<Deleted>,
) {
    let rule = "dead-test";
    let names: HashSet<String> = gone.iter().map(|fact| fact.name.clone()).collect();
    let (criterion, _) = keep::criterion(cx);
    let dead = criterion.dead_groups(&names);
    let mut tell = |span: Span, what: String| {
        deleted.push(Deleted {
            path: path.to_owned(),
            at: Some(cx.rope.origin(span.lo)),
            what,
            why: "its function is gone".into(),
            rule: rule.into(),
        })
    };
    for group in &criterion.groups {
        if dead.contains(&group.name) {
            groups.push(EditGroup::one(Edit::new(
                with_comments(cx.text, item_extent(cx.text, group.item)),
                "",
                rule,
            )));
            tell(group.item, format!("bench group `{}`", group.name));
            continue;
        }
        let list: Vec<Span> = group.list.iter().map(|(_, span)| *span).collect();
        let is_gone = |at: usize| at >= group.head && names.contains(&group.list[at].0);
        groups.extend(
            keep::cuts(cx.text, &list, &is_gone, group.inner.hi)
                .into_iter()
                .map(|span| EditGroup::one(Edit::new(span, "", rule))),
        );
        for at in (0..list.len()).filter(|&at| is_gone(at)) {
            tell(
                list[at],
                format!("entry of `{}` in `criterion_group!`", group.list[at].0),
            );
        }
    }
    for (listed, inner) in &criterion.mains {
        let list: Vec<Span> = listed.iter().map(|(_, span)| *span).collect();
        groups.extend(
            keep::cuts(cx.text, &list, &|at| dead.contains(&listed[at].0), inner.hi)
                .into_iter()
                .map(|span| EditGroup::one(Edit::new(span, "", rule))),
        );
    }
}

fn origin_in(cx: &Cx<'_>, origin: usize, span: Span) -> bool {
    let (lo, hi) = (cx.rope.origin(span.lo), cx.rope.origin(span.hi));
    lo <= origin && origin < hi
}

/// Whether another file takes something from this module that would stay.
fn nothing_else_is_public(
    session: &Session<'_>,
    at: usize,
    context: ModId,
    facts: &[Fact],
    poisoned: &HashSet<Key>,
) -> bool {
    let id = session.works[at].id;
    !facts.iter().any(|fact| {
        fact.work != at
            && !poisoned.contains(&fact.key)
            && fact.names.iter().any(|(file, _)| *file == id)
    }) && session.world.mods[context].parent.is_some()
}

/// The element of an array that holds an expression, with its comma and line.
fn table_entry(cx: &Cx<'_>, expr: &crate::syntax::Expr) -> Option<Span> {
    let mut child = expr;
    loop {
        let Some(Parent::Expr(outer)) = cx.nodes.parent(child) else {
            return None;
        };
        match &outer.kind {
            ExprKind::Array(elems) => {
                let at = elems.iter().position(|elem| elem.id == child.id)?;
                return Some(list_entry(
                    cx.text,
                    &elems.iter().map(|elem| elem.span).collect::<Vec<_>>(),
                    at,
                    outer.span,
                ));
            }
            ExprKind::Macro(mac) => {
                let MacroArgs::Exprs { args, .. } = &mac.args else {
                    return None;
                };
                let at = args.iter().position(|arg| arg.value.id == child.id)?;
                if mac.path.last().name.text != "vec" {
                    return None;
                }
                return Some(list_entry(
                    cx.text,
                    &args.iter().map(|arg| arg.value.span).collect::<Vec<_>>(),
                    at,
                    outer.span,
                ));
            }
            ExprKind::Tuple(_)
            | ExprKind::Paren(_)
            | ExprKind::Ref { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Struct { .. }
            | ExprKind::Call { .. } => child = outer,
            _ => return None,
        }
    }
}

/// An element of a list with its comma, and its line where it has one of its own.
fn list_entry(text: &str, elems: &[Span], at: usize, list: Span) -> Span {
    let span = elems[at];
    let close = list.hi - 1;
    let rest = &text[span.hi..close];
    let comma = rest.find(',').filter(|&n| rest[..n].trim().is_empty());
    let end = comma.map_or(span.hi, |n| span.hi + n + 1);
    let behind = text[end..line_end(text, end)].trim();
    if starts_line(text, span.lo) && (behind.is_empty() || behind.starts_with("//")) {
        return Span::new(line_start(text, span.lo), next_line(text, end));
    }
    if comma.is_some() {
        let blanks = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        return Span::new(span.lo, end + blanks);
    }
    let lo = if at > 0 { elems[at - 1].hi } else { span.lo };
    Span::new(lo, end)
}

/// What was deleted, and by file what could not be.
pub type Outcome = (Vec<Deleted>, Vec<(usize, Leftover)>);

/// Modules of the tree that the rules delete: the root of each, with its file.
pub fn modules(session: &mut Session<'_>) -> Result<Outcome, Broken> {
    let world = session.world;
    let rules = session.rules;
    let mut out = Vec::new();
    let mut left = Vec::new();
    let roots: Vec<ModId> = rules
        .deleted_mods
        .keys()
        .copied()
        .filter(|&id| !world.mods[id].synthetic && world.mods[id].decl.is_some())
        .filter(|&id| {
            world.mods[id]
                .parent
                .is_none_or(|parent| !rules.deleted_mods.contains_key(&parent))
        })
        .collect();
    let mut roots = roots;
    roots.sort();
    for root in roots {
        let rule = rules.deleted_mods[&root].clone();
        // Child modules that kept code takes something from hold the whole chain.
        let children: HashSet<ModId> = (0..world.mods.len())
            .filter(|&id| id != root && world.is_descendant(id, root) && !world.mods[id].synthetic)
            .collect();
        let users = if children.is_empty() {
            vec![]
        } else {
            users_of(session, &children, root)
        };
        if !users.is_empty() {
            for (at, span, name) in users {
                left.push((
                    at,
                    Leftover {
                        span,
                        rule: rule.clone(),
                        reason: format!("`{name}` is taken from below a module that is to go; the module stays until this is settled"),
                        suggestion: Some("move what is used to a module that stays, then run again".into()),
                        dead: false,
                        reads: false,
                    },
                ));
            }
            continue;
        }
        let (decl_file, decl_span) = world.mods[root].decl.expect("filtered above");
        // Every file that only these modules have.
        let own: HashSet<ModId> = children.iter().copied().chain([root]).collect();
        // What cannot be read stays, as everywhere.
        if own
            .iter()
            .any(|&id| world.files[world.mods[id].file].parsed.is_err())
        {
            if let Some(at) = session.works.iter().position(|work| work.id == decl_file) {
                left.push((
                    at,
                    Leftover {
                        span: decl_span,
                        rule: rule.clone(),
                        reason: format!(
                            "`{}` is retired, but a file of it does not parse",
                            world.mods[root].name
                        ),
                        suggestion: Some("delete it by hand, or repair it and run again".into()),
                        dead: false,
                        reads: false,
                    },
                ));
            }
            continue;
        }
        let files: HashSet<FileId> = own
            .iter()
            .map(|&id| world.mods[id].file)
            .filter(|file| *file != decl_file)
            .collect();
        for at in 0..session.works.len() {
            let work = &mut session.works[at];
            if files.contains(&work.id)
                && work.contexts.iter().all(|context| own.contains(context))
                && !work.deleted
            {
                work.deleted = true;
                out.push(Deleted {
                    path: work.path.clone(),
                    at: None,
                    what: format!("module `{}`", world.mods[root].name),
                    why: "the module is retired".into(),
                    rule: rule.clone(),
                });
            }
        }
        // The `mod` item.
        let Some(at) = session.works.iter().position(|work| work.id == decl_file) else {
            continue;
        };
        let context = session.works[at].contexts.first().copied();
        let Some(context) = context else { continue };
        let name = world.mods[root].name.clone();
        let group = session.view(at, context, |cx| {
            cx.nodes.items.iter().find_map(|(item, _)| {
                let is_it = matches!(&item.kind, ItemKind::Mod(_))
                    && item.name.as_ref().is_some_and(|n| n.text == name)
                    && cx.rope.exact_origin(item.span.lo) == Some(decl_span.lo);
                is_it.then(|| EditGroup::one(Edit::new(item_extent(cx.text, item.span), "", &rule)))
            })
        });
        if let Ok(Some(group)) = group {
            session.apply(at, &[group])?;
        }
    }
    Ok((out, left))
}

/// Where kept code of the same crate takes something from one of these modules.
fn users_of(
    session: &Session<'_>,
    children: &HashSet<ModId>,
    root: ModId,
) -> Vec<(usize, Span, String)> {
    let mut out = Vec::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if work.deleted
            || work
                .contexts
                .iter()
                .any(|&context| session.world.is_descendant(context, root))
        {
            continue;
        }
        let found = session.view(at, context, |cx| {
            let mut found: Vec<(Span, String)> = Vec::new();
            let mut check = |module: ModId, leading: bool, names: &[&str], span: Span| {
                let scope = crate::world::Scope {
                    module,
                    blocks: &[],
                    params: &[],
                };
                for cut in 1..names.len() {
                    if let (Res::Mod(target), n) =
                        cx.world
                            .resolve(scope, leading, &names[..cut], crate::world::Ns::Type)
                        && n == cut
                        && children.contains(&target)
                    {
                        found.push((span, names.join("::")));
                        return;
                    }
                }
            };
            for found in cx.an.paths.values() {
                check(
                    found.module,
                    found.path.leading_colon,
                    &found.path.names(),
                    found.path.span,
                );
            }
            for (item, _) in &cx.nodes.items {
                let ItemKind::Use(it) = &item.kind else {
                    continue;
                };
                for leaf in it.tree.leaves() {
                    let mut names: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
                    if leaf.is_glob() {
                        names.push("*");
                    } else if leaf.is_self {
                        names.push("self");
                    }
                    check(context, it.leading_colon, &names, leaf.span);
                }
            }
            found
        });
        out.extend(
            found
                .unwrap_or_default()
                .into_iter()
                .map(|(span, name)| (at, span, name)),
        );
    }
    out.sort();
    out.dedup();
    out
}

/// `mod x;` items whose file this run deleted, and inline modules that it emptied.
pub fn orphaned_mods(session: &mut Session<'_>) -> Result<bool, Broken> {
    let world = session.world;
    let gone: HashMap<FileId, ()> = session
        .works
        .iter()
        .filter(|work| work.deleted)
        .map(|work| (work.id, ()))
        .collect();
    let mut changed = false;
    for at in 0..session.works.len() {
        let Some(&context) = session.works[at].contexts.first() else {
            continue;
        };
        if session.works[at].deleted || session.works[at].keep {
            continue;
        }
        let id = session.works[at].id;
        let decls: Vec<usize> = world
            .mods
            .iter()
            .filter(|module| gone.contains_key(&module.file) && module.braces.is_none())
            .filter_map(|module| module.decl)
            .filter(|(file, _)| *file == id)
            .map(|(_, span)| span.lo)
            .collect();
        if decls.is_empty() {
            continue;
        }
        let groups = session.view(at, context, |cx| {
            cx.nodes
                .items
                .iter()
                .filter(|(item, _)| {
                    matches!(&item.kind, ItemKind::Mod(it) if it.items.is_none())
                        && cx
                            .rope
                            .exact_origin(item.span.lo)
                            .is_some_and(|origin| decls.contains(&origin))
                })
                .map(|(item, _)| {
                    EditGroup::one(Edit::new(item_extent(cx.text, item.span), "", "dead-test"))
                })
                .collect::<Vec<_>>()
        });
        if let Ok(groups) = groups
            && !groups.is_empty()
        {
            changed |= session.apply(at, &groups)?;
        }
    }
    Ok(changed)
}
