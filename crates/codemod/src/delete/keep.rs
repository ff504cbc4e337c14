//! What must not be deleted although it uses what is gone: a program that also does something live, and whatever a macro
//! that nobody can read names.

use std::collections::HashSet;

use super::{Fact, Key};
use crate::leftover::Leftover;
use crate::rewrite::Cx;
use crate::session::Session;
use crate::syntax::{Block, Expr, ExprKind, ItemKind, MacroArgs, MacroCall, Name, Span, StmtKind};
use crate::world::{CrateId, CrateKind, DefKind, Res};

/// A name among the tokens of a macro.
#[derive(Debug, Clone)]
pub struct Mention {
    krate: CrateId,
    name: String,
    /// The function that the macro is called in.
    owner: Option<Key>,
}

/// `criterion_group!`: its name, then its targets.
#[derive(Debug, Clone)]
pub struct Group {
    pub item: Span,
    pub name: String,
    /// The group's own name first where the list begins with it.
    pub list: Vec<(String, Span)>,
    /// How many elements in front are no targets.
    pub head: usize,
    pub inner: Span,
}

impl Group {
    pub fn targets(&self) -> &[(String, Span)] {
        &self.list[self.head..]
    }
}

/// `criterion_main!` and the groups of one file.
#[derive(Debug, Clone, Default)]
pub struct Criterion {
    pub groups: Vec<Group>,
    pub mains: Vec<(Vec<(String, Span)>, Span)>,
}

impl Criterion {
    /// Groups all of whose targets go.
    pub fn dead_groups(&self, gone: &HashSet<String>) -> HashSet<String> {
        self.groups
            .iter()
            .filter(|group| group.targets().iter().all(|(name, _)| gone.contains(name)))
            .map(|group| group.name.clone())
            .collect()
    }

    /// Whether nothing is left for `criterion_main!` to run.
    pub fn is_dead(&self, gone: &HashSet<String>) -> bool {
        let dead = self.dead_groups(gone);
        !dead.is_empty()
            && !self.mains.is_empty()
            && self
                .mains
                .iter()
                .all(|(names, _)| names.iter().all(|(name, _)| dead.contains(name)))
    }
}

/// Criterion's macros of a file as far as they can be read; the spans of those that cannot.
pub fn criterion(cx: &Cx<'_>) -> (Criterion, Vec<Span>) {
    let mut out = Criterion::default();
    let mut unread = Vec::new();
    for (item, _) in &cx.nodes.items {
        let ItemKind::MacroCall(mac) = &item.kind else {
            continue;
        };
        match mac.path.last().name.text.as_str() {
            "criterion_group" => match group(cx, item.span, mac) {
                Some(group) => out.groups.push(group),
                None => unread.push(mac.inner),
            },
            "criterion_main" => match plain_list(cx, &idents(cx, mac.inner), mac.inner) {
                Some(names) if !names.is_empty() => out.mains.push((names, mac.inner)),
                _ => unread.push(mac.inner),
            },
            _ => {}
        }
    }
    (out, unread)
}

fn idents<'a>(cx: &Cx<'a>, span: Span) -> Vec<&'a Name> {
    cx.file
        .idents
        .iter()
        .filter(|ident| span.contains(ident.span))
        .collect()
}

fn group(cx: &Cx<'_>, item: Span, mac: &MacroCall) -> Option<Group> {
    let names = idents(cx, mac.inner);
    // A keyword of the long form is followed by `=`.
    let key = |word: &str| {
        names.iter().position(|name| {
            let rest = cx.text[name.span.hi..mac.inner.hi].trim_start();
            name.text == word && rest.starts_with('=') && !rest.starts_with("==")
        })
    };
    if let Some(targets) = key("targets") {
        let name = names.get(key("name")? + 1)?.text.clone();
        let eq = names[targets].span.hi + cx.text[names[targets].span.hi..].find('=')? + 1;
        let inner = Span::new(eq, mac.inner.hi);
        let list = plain_list(cx, &names[targets + 1..], inner)?;
        return (!list.is_empty()).then_some(Group {
            item,
            name,
            list,
            head: 0,
            inner,
        });
    }
    let list = plain_list(cx, &names, mac.inner)?;
    (list.len() > 1).then(|| Group {
        item,
        name: list[0].0.clone(),
        list,
        head: 1,
        inner: mac.inner,
    })
}

/// Names with commas between them, and nothing else.
fn plain_list(cx: &Cx<'_>, names: &[&Name], inner: Span) -> Option<Vec<(String, Span)>> {
    let mut at = inner.lo;
    for (n, name) in names.iter().enumerate() {
        let between = without_comments(&cx.text[at..name.span.lo]);
        if between != if n == 0 { "" } else { "," } {
            return None;
        }
        at = name.span.hi;
    }
    let behind = without_comments(&cx.text[at..inner.hi]);
    matches!(behind.as_str(), "" | "," | ";").then(|| {
        names
            .iter()
            .map(|name| (name.text.clone(), name.span))
            .collect()
    })
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or("").trim())
        .collect()
}

/// Names among the tokens of macros that cannot be read, those of Criterion as far as they are no plain lists.
pub fn mentions(cx: &Cx<'_>, krate: CrateId) -> Vec<Mention> {
    let mut spans: Vec<Span> = Vec::new();
    let (read, unread) = criterion(cx);
    spans.extend(unread);
    for (item, _) in &cx.nodes.items {
        match &item.kind {
            ItemKind::MacroCall(mac) => match mac.path.last().name.text.as_str() {
                "criterion_main" => {}
                "criterion_group" => {
                    if let Some(group) = read.groups.iter().find(|group| group.item == item.span) {
                        spans.push(Span::new(mac.inner.lo, group.inner.lo));
                    }
                }
                _ => spans.push(mac.inner),
            },
            ItemKind::MacroRules { body } => spans.push(*body),
            _ => {}
        }
    }
    for expr in &cx.nodes.exprs {
        if let ExprKind::Macro(mac) = &expr.kind
            && matches!(mac.args, MacroArgs::Opaque)
        {
            spans.push(mac.inner);
        }
    }
    let mut out = Vec::new();
    for span in spans {
        let owner = cx
            .an
            .functions
            .iter()
            .filter(|function| function.span.contains(span))
            .max_by_key(|function| function.span.lo);
        let owner = owner.map(|function| (cx.id, cx.rope.origin(function.span.lo)));
        out.extend(idents(cx, span).into_iter().map(|name| Mention {
            krate,
            name: name.text.clone(),
            owner,
        }));
    }
    out
}

/// Whether an item is a macro call that may stand for tests or for anything else.
pub fn is_unread_item(item: &crate::syntax::Item) -> bool {
    let ItemKind::MacroCall(mac) = &item.kind else {
        return false;
    };
    !matches!(
        mac.path.last().name.text.as_str(),
        "thread_local" | "lazy_static" | "criterion_group" | "criterion_main"
    )
}

/// Whether the original text of a stretch names the kind that stays.
pub fn names_live_kind(cx: &Cx<'_>, span: Span) -> bool {
    let original = cx.rope.original();
    let (lo, hi) = (
        cx.rope.origin(span.lo),
        cx.rope.origin(span.hi.saturating_sub(1)) + 1,
    );
    let Some(text) = original.get(lo..hi.max(lo)) else {
        return true;
    };
    let live = |word: &str| {
        cx.rules.enums.iter().any(|rule| {
            cx.world.defs[rule.becomes].name == word
                || rule.spec.survivor == word
                || rule.spec.rename.contains_key(word)
        }) || cx.rules.wrappers.iter().any(|rule| {
            cx.world.defs[rule.becomes].name == word
                || rule.spec.unwrap.iter().any(|name| name == word)
        })
    };
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(live)
}

/// Whether a name stands for work of its own: a call that is a statement, or a function that is handed on.
pub fn is_work(cx: &Cx<'_>, path: Span) -> Option<bool> {
    let before = cx.text[..path.lo].trim_end();
    let behind = cx.text[path.hi..].trim_start();
    if !behind.starts_with('(') {
        return Some(true);
    }
    before
        .ends_with(['{', '}', ';'])
        .then(|| behind[1..].trim_start().starts_with(')'))
}

/// A statement of a `main` that has no statements inside.
#[derive(Debug, Clone)]
pub struct Step {
    /// Uses something without a counterpart.
    dead: bool,
    /// Calls code of the tree, or changes what is outside of the program.
    acts: bool,
    /// Functions of the tree that it names.
    names: HashSet<Key>,
    defines: HashSet<usize>,
    uses: HashSet<usize>,
}

/// Modules of the standard library whose functions are not called for their value alone.
const ACTING: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::os",
];

/// The statements of a function, those inside of others in their place.
pub fn steps(cx: &Cx<'_>, function: Span, leftovers: &[Leftover]) -> Vec<Step> {
    fn of_block(block: &Block, out: &mut Vec<Span>) {
        for stmt in &block.stmts {
            match &stmt.kind {
                StmtKind::Expr { expr, .. } => of_expr(expr, stmt.span, out),
                StmtKind::Let { .. } => out.push(stmt.span),
                StmtKind::Item(_) => {}
            }
        }
    }
    fn of_expr(expr: &Expr, whole: Span, out: &mut Vec<Span>) {
        match &expr.kind {
            ExprKind::Block { block, .. } => of_block(block, out),
            ExprKind::If {
                cond, then, alt, ..
            } => {
                out.push(cond.span);
                of_block(then, out);
                if let Some(alt) = alt {
                    of_expr(alt, alt.span, out);
                }
            }
            ExprKind::Loop { body, .. } => of_block(body, out),
            ExprKind::While { cond, body, .. } => {
                out.push(cond.span);
                of_block(body, out);
            }
            ExprKind::For {
                pat, iter, body, ..
            } => {
                out.push(pat.span.to(iter.span));
                of_block(body, out);
            }
            ExprKind::Match {
                scrutinee, arms, ..
            } => {
                out.push(scrutinee.span);
                for arm in arms {
                    of_expr(&arm.body, arm.body.span, out);
                }
            }
            _ => out.push(whole),
        }
    }
    let mut spans = Vec::new();
    for (item, f) in &cx.nodes.functions {
        if item.span == function
            && let Some(body) = &f.body
        {
            of_block(body, &mut spans);
        }
    }
    spans
        .into_iter()
        .map(|span| step(cx, span, leftovers))
        .collect()
}

fn step(cx: &Cx<'_>, span: Span, leftovers: &[Leftover]) -> Step {
    let mut step = Step {
        dead: leftovers
            .iter()
            .any(|left| left.dead && span.contains(left.span)),
        acts: false,
        names: HashSet::new(),
        defines: HashSet::new(),
        uses: HashSet::new(),
    };
    for (id, local) in cx.an.locals.iter().enumerate() {
        if span.contains(local.span) {
            step.defines.insert(id);
        }
        if local.uses.iter().any(|at| span.contains(at.span)) {
            step.uses.insert(id);
        }
    }
    let in_tree = |file: usize| !cx.world.files[file].path.starts_with('<');
    for found in cx
        .an
        .paths
        .values()
        .filter(|found| span.contains(found.path.span))
    {
        match &found.res {
            Res::Def(def) => {
                let function = match &cx.world.defs[*def].kind {
                    DefKind::Fn(f) => Some(f.clone()),
                    // `Type::function`.
                    _ => found
                        .path
                        .segs
                        .get(found.taken)
                        .and_then(|seg| cx.world.assoc_fn(*def, &seg.name.text))
                        .map(|(f, _)| f),
                };
                if let Some(f) = function.filter(|f| in_tree(f.file)) {
                    step.acts |= !f.pure;
                    step.names.insert((f.file, f.span.lo));
                }
            }
            Res::External(path) => {
                step.acts |= ACTING
                    .iter()
                    .any(|module| path.starts_with(&format!("{module}::")));
            }
            _ => {}
        }
    }
    for (id, hit) in &cx.an.methods {
        if cx
            .nodes
            .by_id
            .get(id)
            .is_some_and(|expr| span.contains(expr.span))
            && in_tree(hit.def.file)
        {
            step.acts |= !hit.def.pure;
            step.names.insert((hit.def.file, hit.def.span.lo));
        }
    }
    step
}

/// Whether a `main` does something besides what it does with what is gone.
///
/// Dead is a statement that uses what is gone or a value made of it, and one that only makes values for those.
fn has_live_step(main: &Fact, poisoned: &HashSet<Key>) -> bool {
    let steps = &main.steps;
    let mut dead: Vec<bool> = steps
        .iter()
        .map(|step| step.dead || step.names.iter().any(|name| poisoned.contains(name)))
        .collect();
    loop {
        let mut changed = false;
        for at in 0..steps.len() {
            if dead[at] {
                continue;
            }
            let tainted = steps[at].uses.iter().any(|local| {
                (0..steps.len())
                    .any(|other| other != at && dead[other] && steps[other].defines.contains(local))
            });
            let users: Vec<usize> = (0..steps.len())
                .filter(|&other| other != at && !steps[other].uses.is_disjoint(&steps[at].defines))
                .collect();
            let serves = !users.is_empty() && users.iter().all(|&user| dead[user]);
            if tainted || serves {
                dead[at] = true;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    (0..steps.len()).any(|at| !dead[at] && steps[at].acts)
}

/// What is left to a person, of all that uses what is gone.
pub fn spared(
    session: &Session<'_>,
    facts: &[Fact],
    mentions: &[Mention],
    benches: &[(usize, Criterion)],
    poisoned: &HashSet<Key>,
) -> HashSet<Key> {
    let mut spared: HashSet<Key> = facts
        .iter()
        .filter(|fact| {
            fact.is_main && poisoned.contains(&fact.key) && is_live(fact, facts, poisoned)
        })
        .map(|fact| fact.key)
        .collect();
    loop {
        let goes =
            |key: &Key, spared: &HashSet<Key>| poisoned.contains(key) && !spared.contains(key);
        let mut more: HashSet<Key> = facts
            .iter()
            .filter(|fact| spared.contains(&fact.key))
            .flat_map(|fact| fact.names.iter().copied())
            .collect();
        for mention in mentions
            .iter()
            .filter(|mention| mention.owner.is_none_or(|owner| !goes(&owner, &spared)))
        {
            more.extend(
                facts
                    .iter()
                    .filter(|fact| {
                        !fact.is_test && fact.name == mention.name && fact.krate == mention.krate
                    })
                    .map(|fact| fact.key),
            );
        }
        for (work, criterion) in benches {
            more.extend(held_benches(session, *work, criterion, facts, &|key| {
                goes(key, &spared)
            }));
        }
        more.retain(|key| goes(key, &spared));
        if more.is_empty() {
            return spared;
        }
        spared.extend(more);
    }
}

/// Whether a `main` also does something that goes on working.
fn is_live(main: &Fact, facts: &[Fact], poisoned: &HashSet<Key>) -> bool {
    if main.uses_new
        || main.uses_live
        || has_live_step(main, poisoned)
        || facts
            .iter()
            .any(|fact| fact.is_test && fact.work == main.work && !poisoned.contains(&fact.key))
    {
        return true;
    }
    let mut seen: HashSet<Key> = HashSet::from([main.key]);
    let mut todo = vec![main];
    while let Some(fact) = todo.pop() {
        for next in facts.iter().filter(|next| fact.names.contains(&next.key)) {
            if next.uses_live {
                return true;
            }
            let works = fact
                .work_names
                .iter()
                .any(|(key, alone)| *key == next.key && (*alone || !fact.dead));
            if works && !poisoned.contains(&next.key) && (fact.is_main || !fact.dead) {
                return true;
            }
            if seen.insert(next.key) {
                todo.push(next);
            }
        }
    }
    false
}

/// Bench functions whose names cannot be taken out of the macros that list them.
fn held_benches(
    session: &Session<'_>,
    work: usize,
    criterion: &Criterion,
    facts: &[Fact],
    goes: &dyn Fn(&Key) -> bool,
) -> Vec<Key> {
    let named = |name: &str| {
        facts
            .iter()
            .filter(|fact| fact.work == work && fact.name == name)
            .collect::<Vec<_>>()
    };
    let mut held: Vec<Key> = Vec::new();
    let mut gone: HashSet<String> = HashSet::new();
    for (name, _) in criterion.groups.iter().flat_map(Group::targets) {
        match named(name)[..] {
            [one] if goes(&one.key) => {
                gone.insert(name.clone());
            }
            [] | [_] => {}
            ref several => held.extend(several.iter().map(|fact| fact.key)),
        }
    }
    let dead = criterion.dead_groups(&gone);
    let all = |group: &&Group| dead.contains(&group.name);
    let listed = |name: &String| {
        criterion.mains.len() == 1
            && criterion.mains[0]
                .0
                .iter()
                .filter(|(group, _)| group == name)
                .count()
                == 1
    };
    let twice = criterion.groups.iter().any(|group| {
        criterion
            .groups
            .iter()
            .filter(|other| other.name == group.name)
            .count()
            > 1
    });
    let whole = criterion.is_dead(&gone);
    let safe = !twice
        && dead.iter().all(listed)
        && (!whole
            || (is_bench_root(session, work)
                && !facts
                    .iter()
                    .any(|fact| fact.work == work && fact.is_test && !goes(&fact.key))));
    if !safe {
        held.extend(
            criterion
                .groups
                .iter()
                .filter(all)
                .flat_map(Group::targets)
                .flat_map(|(name, _)| named(name))
                .map(|fact| fact.key),
        );
    }
    held
}

pub fn is_bench_root(session: &Session<'_>, work: usize) -> bool {
    session.works[work]
        .contexts
        .first()
        .is_some_and(|&context| {
            let krate = &session.world.crates[session.world.mods[context].krate];
            krate.root == context && krate.kind == CrateKind::Bench
        })
}

/// What to cut so that a list loses some of its elements; at least one stays.
pub fn cuts(text: &str, list: &[Span], gone: &dyn Fn(usize) -> bool, hi: usize) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < list.len() {
        if !gone(at) {
            at += 1;
            continue;
        }
        let from = at;
        while at < list.len() && gone(at) {
            at += 1;
        }
        if let Some(next) = list.get(at) {
            out.push(Span::new(list[from].lo, next.lo));
        } else if let Some(last) = from.checked_sub(1) {
            // The comma behind the last stays where there was one.
            let behind = &text[list[at - 1].hi..hi];
            let own = text[list[last].hi..list[from].lo].contains('\n')
                && behind.trim_start().starts_with(',');
            if own {
                let comma = list[at - 1].hi + behind.find(',').unwrap_or(0) + 1;
                let kept = text[list[last].hi..list[from].lo].trim_end().len() + list[last].hi;
                out.push(Span::new(kept, comma));
            } else {
                out.push(Span::new(list[last].hi, list[at - 1].hi));
            }
        }
    }
    out
}
