//! What callers of the method do with the timer: it goes along where they sample, and its epoch ends behind their loop.

use super::layout::Frame;
use super::places::{Kind, path_to};
use super::scan::{Function, is_type};
use super::sequence::{Bound, Ending, bind, leaves};
use super::{BracketSite, Context, Draft, Tree};
use crate::rewrite::Cx;
use crate::rewrite::nodes::is_block_like;
use crate::syntax::{Expr, ExprKind, PatKind, Span, StmtKind, trivia};
use crate::world::{DefId, Res, Type};

/// `callable`: the structs whose accessor is there, or will be.
pub(super) fn plan(
    tree: &Tree<'_>,
    callable: &[DefId],
    contexts: &[Context<'_>],
    draft: &mut Draft,
) {
    let mut callers: Vec<Caller<'_, '_>> = Vec::new();
    for body in &tree.bodies {
        let cx = tree.cx(body.file);
        for (item, _) in &cx.nodes.functions {
            if cx.is_frozen(item.span) {
                continue;
            }
            let Some(function) = Function::of_item(cx, *body, item) else {
                continue;
            };
            if cx.an.functions[function.index].module == body.module {
                callers.push(Caller {
                    tree,
                    cx,
                    function,
                    steps: steps(tree, cx, &function, callable, contexts, draft),
                });
            }
        }
    }
    for caller in &callers {
        caller.plan(draft);
    }
    helpers(&callers, draft);
}

/// Functions that make one step, and the loops that call them: nobody sees there that an epoch ends.
fn helpers(callers: &[Caller<'_, '_>], draft: &mut Draft) {
    let mut queue: Vec<(usize, Option<String>)> = Vec::new();
    for (n, caller) in callers.iter().enumerate() {
        let once = caller
            .steps
            .iter()
            .find(|step| matches!(step.runs, Runs::Once));
        // Where it has a loop as well, that one's epoch is told of.
        if let Some(step) = once
            && caller.loops().is_empty()
        {
            queue.push((n, step.place.clone()));
        }
    }
    let mut seen: Vec<usize> = queue.iter().map(|(n, _)| *n).collect();
    while let Some((n, place)) = queue.pop() {
        let helper = &callers[n];
        let whole = helper.function.block.span;
        if helper.ends_epoch(None, whole.lo, whole.hi) {
            continue;
        }
        for (other, caller) in callers.iter().enumerate() {
            if other == n {
                continue;
            }
            for expr in caller.function.exprs(caller.cx) {
                let Some(recv) = caller.calls(expr, helper) else {
                    continue;
                };
                // The context as the caller sees it.
                let place = match (&place, recv) {
                    (Some(place), Some(recv)) if caller.cx.is_place(recv) => place
                        .strip_prefix("self.")
                        .map(|rest| format!("{}.{rest}", caller.cx.src(recv.span))),
                    (Some(place), None) if !place.starts_with("self.") => Some(place.clone()),
                    _ => None,
                };
                match runs(caller.tree, caller.cx, &caller.function, expr) {
                    Runs::Once => {
                        if !seen.contains(&other) && caller.loops().is_empty() {
                            seen.push(other);
                            queue.push((other, place));
                        }
                    }
                    Runs::Loop(at) | Runs::Untold(at) => {
                        caller.epoch_of_helper(at, helper, place.as_deref(), draft);
                    }
                }
            }
        }
    }
}

/// A call of the method.
#[derive(Debug)]
struct StepCall<'a> {
    expr: &'a Expr,
    /// The context as a path or chain of fields, and where its root is bound.
    place: Option<String>,
    root: Option<Span>,
    /// Its own type, or a reference to it: borrowed in two phases as a receiver.
    is_direct: bool,
    runs: Runs<'a>,
}

/// How often a call runs where its function runs once.
#[derive(Debug, Clone, Copy)]
enum Runs<'a> {
    Once,
    /// The innermost loop around it, or the call that drives a closure as one.
    Loop(&'a Expr),
    /// In a closure that something else calls, once or many times.
    Untold(&'a Expr),
}

impl<'a> Runs<'a> {
    fn in_loop(self) -> Option<&'a Expr> {
        match self {
            Runs::Loop(at) => Some(at),
            _ => None,
        }
    }
}

/// Methods of iterators that call their closure for each item before they return.
const DRIVERS: [&str; 4] = ["for_each", "try_for_each", "fold", "try_fold"];

/// Methods that call their closure once at most, whatever they are called on.
const ONCE: [&str; 10] = [
    "and_then",
    "map_err",
    "map_or",
    "map_or_else",
    "or_else",
    "unwrap_or_else",
    "ok_or_else",
    "is_some_and",
    "is_ok_and",
    "get_or_insert_with",
];

/// Methods of iterators whose closure runs as often as somebody asks.
const ADAPTORS: [&str; 13] = [
    "map",
    "flat_map",
    "filter",
    "filter_map",
    "map_while",
    "take_while",
    "scan",
    "inspect",
    "any",
    "all",
    "find",
    "find_map",
    "position",
];

fn runs<'a>(tree: &Tree<'a>, cx: &'a Cx<'a>, function: &Function<'a>, expr: &Expr) -> Runs<'a> {
    let around = function.around(cx, expr);
    let mut untold = None;
    for (n, outer) in around.iter().enumerate().rev() {
        if loop_body(outer).is_some_and(|body| body.contains(expr.span)) {
            return Runs::Loop(outer);
        }
        if !matches!(outer.kind, ExprKind::Closure { .. }) {
            continue;
        }
        let user = around[..n]
            .iter()
            .rev()
            .find(|user| !matches!(user.kind, ExprKind::Paren(_) | ExprKind::Ref { .. }));
        match user.map(|user| (*user, &user.kind)) {
            Some((
                user,
                ExprKind::MethodCall {
                    recv, method, args, ..
                },
            )) if args.iter().any(|arg| arg.span.contains(outer.span)) => {
                let name = method.text.as_str();
                let is_one = ["std::option::Option", "std::result::Result"]
                    .iter()
                    .filter_map(|path| tree.world.canonical(path))
                    .any(|def| matches!(cx.an.ty(recv).peeled(), Type::Adt(found, _) if *found == def));
                if is_one || ONCE.contains(&name) {
                    continue;
                }
                if DRIVERS.contains(&name) {
                    return Runs::Loop(user);
                }
                if ADAPTORS.contains(&name) {
                    return Runs::Untold(outer);
                }
                // `span.in_scope(|| …)`, `retry(|| …)`: has returned when a loop around it ends.
                untold = untold.or(Some(*outer));
            }
            // `(|| …)()`
            Some((_, ExprKind::Call { callee, .. })) if callee.span.contains(outer.span) => {}
            Some((_, ExprKind::Call { .. })) => untold = untold.or(Some(*outer)),
            // Kept: called wherever its name goes.
            _ => return Runs::Untold(outer),
        }
    }
    untold.map_or(Runs::Once, Runs::Untold)
}

fn steps<'a>(
    tree: &Tree<'a>,
    cx: &'a Cx<'a>,
    function: &Function<'a>,
    callable: &[DefId],
    contexts: &[Context<'_>],
    draft: &mut Draft,
) -> Vec<StepCall<'a>> {
    let rule = tree.rule;
    let mut out = Vec::new();
    for expr in function.exprs(cx) {
        let recv: &'a Expr = match &expr.kind {
            ExprKind::MethodCall { recv, method, .. } if method.text == rule.method => recv,
            ExprKind::Call { callee, args } => match (&callee.kind, args.first()) {
                (ExprKind::Path(path), Some(first))
                    if path.last().name.text == rule.method
                        && callable
                            .iter()
                            .any(|def| tree.is_path_on(function, path, *def)) =>
                {
                    first
                }
                _ => continue,
            },
            _ => continue,
        };
        let mut place = recv;
        while let ExprKind::Paren(inner) | ExprKind::Deref(inner) | ExprKind::Ref { inner, .. } =
            &place.kind
        {
            place = inner;
        }
        let ty = cx.an.ty(place);
        let is_ours = callable.iter().any(|def| is_type(tree.world, ty, *def));
        let is_unknown = tree
            .world
            .autoderef(ty)
            .last()
            .is_none_or(|last| !last.is_known());
        if !is_ours {
            // Where the tree has such a context at all.
            if is_unknown
                && !contexts.is_empty()
                && matches!(expr.kind, ExprKind::MethodCall { .. })
            {
                let reason = format!(
                    "the type of `{}` cannot be told, so neither whether this is the `{}` of `{}`",
                    cx.src(recv.span),
                    rule.method,
                    rule.structure
                );
                draft.sites.push(tree.site(
                    function.body.file,
                    expr.span,
                    reason,
                    by_hand(tree, cx.src(place.span)),
                ));
            }
            continue;
        }
        let is_direct = matches!(ty, Type::Adt(..))
            || matches!(ty, Type::Ref(_, inner) if matches!(**inner, Type::Adt(..)));
        let is_direct = is_direct
            && callable
                .iter()
                .any(|def| matches!(ty.peeled(), Type::Adt(found, _) if found == def))
            && matches!(expr.kind, ExprKind::MethodCall { .. });
        let named = cx.is_place(place).then(|| cx.src(place.span).to_owned());
        out.push(StepCall {
            expr,
            place: named,
            root: root_of(cx, place),
            is_direct,
            runs: runs(tree, cx, function, expr),
        });
    }
    out
}

fn by_hand(tree: &Tree<'_>, place: &str) -> String {
    let rule = tree.rule;
    format!(
        "hand `{place}.{}()` to what samples for it, and call `{place}.{}().{}()` behind the loop",
        rule.accessor, rule.accessor, rule.finish
    )
}

fn loop_body(expr: &Expr) -> Option<Span> {
    match &expr.kind {
        ExprKind::Loop { body, .. } | ExprKind::For { body, .. } => Some(body.span),
        // The condition runs as often as the body.
        ExprKind::While { .. } => Some(expr.span),
        _ => None,
    }
}

fn root_of(cx: &Cx<'_>, expr: &Expr) -> Option<Span> {
    match &expr.kind {
        ExprKind::Path(_) => cx.an.local(expr).map(|id| cx.an.locals[id].span),
        ExprKind::Field { base: inner, .. }
        | ExprKind::Paren(inner)
        | ExprKind::Deref(inner)
        | ExprKind::Index { base: inner, .. } => root_of(cx, inner),
        _ => None,
    }
}

struct Caller<'t, 'a> {
    tree: &'t Tree<'a>,
    cx: &'a Cx<'a>,
    function: Function<'a>,
    steps: Vec<StepCall<'a>>,
}

impl<'a> Caller<'_, 'a> {
    fn plan(&self, draft: &mut Draft) {
        if self.steps.is_empty() {
            return;
        }
        if self.is_held(draft) {
            return;
        }
        for expr in self.function.exprs(self.cx) {
            if let Some(through) = self.profiled(expr) {
                self.sample(expr, through, draft);
            }
        }
        let whole = self.loops();
        let spans: Vec<Span> = whole.iter().map(|(at, _)| at.span).collect();
        let mut done: Vec<(Span, Option<String>)> = Vec::new();
        for (n, (at, step)) in whole.iter().enumerate() {
            let next = whole.get(n + 1).map(|(next, _)| next.span);
            self.finish(at, step, next, &spans, &mut done, draft);
        }
    }

    /// The loops that step, those inside of another that does left out, each with its first step.
    fn loops(&self) -> Vec<(&'a Expr, &StepCall<'a>)> {
        let mut loops: Vec<(&'a Expr, &StepCall<'a>)> = Vec::new();
        for step in &self.steps {
            if let Some(outer) = step.runs.in_loop()
                && !loops.iter().any(|(known, _)| known.id == outer.id)
            {
                loops.push((outer, step));
            }
        }
        // A loop inside of another that steps as well ends with that one.
        let inner = |at: &Expr| {
            loops
                .iter()
                .any(|(outer, _)| outer.id != at.id && outer.span.contains(at.span))
        };
        loops.iter().copied().filter(|(at, _)| !inner(at)).collect()
    }

    /// Whether the end of some epoch cannot be told, so that nothing is written in the function.
    fn is_held(&self, draft: &mut Draft) -> bool {
        let (rule, whole) = (self.tree.rule, self.function.block.span);
        let mut held = Vec::new();
        for (at, _) in self.loops() {
            let mut places: Vec<&str> = Vec::new();
            for step in self
                .steps
                .iter()
                .filter(|step| at.span.contains(step.expr.span))
            {
                let place = step.place.as_deref().unwrap_or("context");
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            let missing: Vec<&str> = places
                .iter()
                .copied()
                .filter(|place| !self.ends_epoch(Some(place), at.span.lo, whole.hi))
                .collect();
            if places.len() < 2 || missing.is_empty() {
                continue;
            }
            held.push(at.span);
            let names: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
            let codes: Vec<String> = missing
                .iter()
                .map(|place| format!("`{place}.{}().{}();`", rule.accessor, rule.finish))
                .collect();
            draft.sites.push(self.site(
                self.head(at),
                format!(
                    "this loop calls `{}` of several contexts, {}: which of them a batch is for, and which stream is waited for, cannot be told",
                    rule.method,
                    names.join(" and ")
                ),
                format!(
                    "hand each batch's own context to what samples it, `…, {}.{}())`, and behind the loop, once the stream of each has been waited for: {}",
                    places[0],
                    rule.accessor,
                    codes.join(" ")
                ),
            ));
        }
        for step in &self.steps {
            let Runs::Untold(at) = step.runs else {
                continue;
            };
            if self.ends_epoch(None, whole.lo, whole.hi) || held.contains(&at.span) {
                continue;
            }
            held.push(at.span);
            let place = step.place.as_deref().unwrap_or("context");
            draft.sites.push(self.site(
                self.head(at),
                format!(
                    "`{}` is called in a closure, so neither how often it runs nor where its epoch ends can be told",
                    rule.method
                ),
                format!(
                    "hand `{place}.{}()` to what samples for it, and call `{place}.{}().{}();` where the last of these steps is done and the stream has been waited for",
                    rule.accessor, rule.accessor, rule.finish
                ),
            ));
        }
        !held.is_empty()
    }

    /// The first line of an expression.
    fn head(&self, at: &Expr) -> Span {
        let end = trivia::line_end(self.cx.text, at.span.lo).min(at.span.hi);
        Span::new(at.span.lo, end)
    }

    /// Whether an epoch ends in a stretch of the function: that of a place, where one is given.
    fn ends_epoch(&self, place: Option<&str>, from: usize, to: usize) -> bool {
        let rule = self.tree.rule;
        self.function.exprs(self.cx).any(|expr| {
            let ExprKind::MethodCall {
                recv, method, args, ..
            } = &expr.kind
            else {
                return false;
            };
            if method.text != rule.finish
                || !args.is_empty()
                || expr.span.lo < from
                || to <= expr.span.lo
            {
                return false;
            }
            let own = self.cx.src(recv.span);
            let suffix = format!(".{}()", rule.accessor);
            // Through a name of its own it may be anybody's.
            match (place, own.strip_suffix(&suffix)) {
                (Some(place), Some(own)) => own == place,
                _ => true,
            }
        })
    }

    /// Whether an expression calls another function, and on what.
    fn calls(&self, expr: &'a Expr, helper: &Caller<'_, '_>) -> Option<Option<&'a Expr>> {
        let (tree, cx) = (self.tree, self.cx);
        let known = &helper.cx.an.functions[helper.function.index];
        let owner = known.self_ty.as_ref().map(|ty| ty.peeled());
        match &expr.kind {
            ExprKind::MethodCall { recv, method, .. } if method.text == helper.function.name() => {
                helper.function.f.sig.receiver.as_ref()?;
                let ty = cx.an.ty(recv);
                let is_own = match owner {
                    Some(Type::Adt(def, _)) => is_type(tree.world, ty, *def),
                    _ => false,
                };
                // Through the trait that the helper implements.
                let is_dyn = helper.of_trait().is_some_and(|name| match ty.peeled() {
                    Type::Opaque(bounds) => bounds.iter().any(|bound| bound.name == name),
                    Type::Param(_) => true,
                    _ => false,
                });
                (is_own || is_dyn).then_some(Some(recv))
            }
            ExprKind::Call { callee, args } => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                if path.last().name.text != helper.function.name() {
                    return None;
                }
                if let Some(Type::Adt(def, _)) = owner {
                    let recv = args.first().map(|mut arg| {
                        while let ExprKind::Ref { inner, .. } | ExprKind::Paren(inner) = &arg.kind {
                            arg = inner;
                        }
                        arg
                    });
                    let is_method = helper.function.f.sig.receiver.is_some();
                    return tree
                        .is_path_on(&self.function, path, *def)
                        .then_some(recv.filter(|_| is_method));
                }
                let same = match tree.world.unalias(cx.an.res(path)) {
                    Res::Def(def) => {
                        tree.world.defs[def].module == known.module
                            && tree.world.defs[def].name == helper.function.name()
                    }
                    Res::LocalFn(name) => {
                        self.function.body.file == helper.function.body.file
                            && name == helper.function.name()
                    }
                    _ => false,
                };
                same.then_some(None)
            }
            _ => None,
        }
    }

    /// The trait whose implementation the function belongs to.
    fn of_trait(&self) -> Option<&str> {
        self.cx
            .nodes
            .items
            .iter()
            .find_map(|(item, _)| match &item.kind {
                crate::syntax::ItemKind::Impl(it)
                    if it.braces.contains(self.function.block.span) =>
                {
                    it.of_trait
                        .as_ref()
                        .map(|path| path.last().name.text.as_str())
                }
                _ => None,
            })
    }

    /// A loop that steps through another function.
    fn epoch_of_helper(
        &self,
        at: &'a Expr,
        helper: &Caller<'_, '_>,
        place: Option<&str>,
        draft: &mut Draft,
    ) {
        let (rule, whole) = (self.tree.rule, self.function.block.span);
        let loops = self.loops();
        // A loop that steps itself ends the epoch of all that is in it.
        if loops
            .iter()
            .any(|(known, _)| known.span.contains(at.span) || at.span.contains(known.span))
        {
            return;
        }
        // Of one before it that waits for its stream behind this one, the end is that of both.
        let is_shared = loops.iter().any(|(before, _)| {
            let between = Span::new(before.span.hi, at.span.lo.max(before.span.hi));
            before.span.hi <= at.span.lo
                && !self.function.exprs(self.cx).any(|expr| {
                    between.contains(expr.span) && self.is_wait(expr) && !self.is_deferred(expr)
                })
        });
        if is_shared {
            return;
        }
        let next = loops
            .iter()
            .map(|(next, _)| next.span.lo)
            .filter(|lo| *lo >= at.span.hi)
            .min();
        if self.ends_epoch(None, at.span.lo, next.unwrap_or(whole.hi)) {
            return;
        }
        let place = place.unwrap_or("context");
        let name = helper.function.name();
        let (reason, behind) = match &at.kind {
            ExprKind::Closure { .. } => (
                format!(
                    "a closure calls `{name}`, which calls `{}`: where its epoch ends cannot be told",
                    rule.method
                ),
                "where the last of these steps is done and the stream has been waited for",
            ),
            _ => (
                format!(
                    "this loop calls `{}` through `{name}`, and nothing behind it ends the epoch",
                    rule.method
                ),
                "behind this loop, once the stream has been waited for",
            ),
        };
        draft.sites.push(self.site(
            self.head(at),
            reason,
            format!(
                "{behind}: `{place}.{}().{}();`, and hand `{place}.{}()` to what samples for `{name}`",
                rule.accessor, rule.finish, rule.accessor
            ),
        ));
    }

    fn site(&self, span: Span, reason: String, suggestion: String) -> BracketSite {
        self.tree
            .site(self.function.body.file, span, reason, suggestion)
    }

    /// Which of the rule's calls this is: its place in the list.
    fn profiled(&self, expr: &Expr) -> Option<usize> {
        let ExprKind::MethodCall { recv, method, .. } = &expr.kind else {
            return None;
        };
        let ty = self.cx.an.ty(recv);
        self.tree.rule.profiled.iter().position(|call| {
            call.method == method.text
                && self
                    .tree
                    .world
                    .canonical(&call.receiver)
                    .is_some_and(|def| is_type(self.tree.world, ty, def))
        })
    }

    /// The step that a sample is for; the contexts that it may be for, where there are several.
    fn step_of(&self, expr: &'a Expr) -> Result<Option<&StepCall<'a>>, String> {
        let one = |steps: &[&'_ StepCall<'a>]| {
            steps
                .windows(2)
                .all(|pair| pair[0].place.is_some() && pair[0].place == pair[1].place)
        };
        let all: Vec<&StepCall<'a>> = self.steps.iter().collect();
        let first = |steps: &[&'_ StepCall<'a>]| -> Option<usize> {
            let found = steps.iter().find(|step| step.expr.span.hi > expr.span.lo);
            let id = found.or(steps.last())?.expr.id;
            self.steps.iter().position(|step| step.expr.id == id)
        };
        let pick = |steps: &[&'_ StepCall<'a>]| Ok(first(steps).map(|n| &self.steps[n]));
        if one(&all) {
            return pick(&all);
        }
        // The one that takes what is bound here.
        let bound = self
            .cx
            .nodes
            .lets
            .iter()
            .rev()
            .find_map(|at| match &at.stmt.kind {
                StmtKind::Let {
                    pat,
                    init: Some(init),
                    ..
                } if init.span.contains(expr.span) => Some((pat, init)),
                _ => None,
            });
        let mut taken: Vec<&StepCall<'a>> = Vec::new();
        if let Some((pat, init)) = bound {
            let span = match (&pat.kind, &init.kind) {
                (PatKind::Tuple(elems), ExprKind::Tuple(values)) if elems.len() == values.len() => {
                    let at = values
                        .iter()
                        .position(|value| value.span.contains(expr.span));
                    at.map_or(pat.span, |at| elems[at].span)
                }
                _ => pat.span,
            };
            taken.extend(self.steps.iter().filter(|step| {
                self.function.exprs(self.cx).any(|inner| {
                    step.expr.span.contains(inner.span)
                        && self
                            .cx
                            .an
                            .local(inner)
                            .is_some_and(|id| span.contains(self.cx.an.locals[id].span))
                })
            }));
        }
        // Else the one inside of the same loop, `match` or call.
        if taken.is_empty() {
            for outer in self.function.around(self.cx, expr).into_iter().rev() {
                taken.extend(
                    self.steps
                        .iter()
                        .filter(|step| outer.span.contains(step.expr.span)),
                );
                if !taken.is_empty() {
                    break;
                }
            }
        }
        let taken = if taken.is_empty() { all } else { taken };
        if one(&taken) {
            return pick(&taken);
        }
        let mut places: Vec<String> = Vec::new();
        for step in taken {
            let place = format!(
                "`{}`",
                step.place.as_deref().unwrap_or("a context without a name")
            );
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Err(places.join(" and "))
    }

    /// The sampling call gets the timer.
    fn sample(&self, expr: &'a Expr, which: usize, draft: &mut Draft) {
        let ExprKind::MethodCall {
            dot,
            method,
            args,
            parens,
            ..
        } = &expr.kind
        else {
            return;
        };
        let (rule, file) = (self.tree.rule, self.function.body.file);
        let call = &rule.profiled[which];
        if self.cx.is_frozen(expr.span) {
            return;
        }
        let step = match self.step_of(expr) {
            Ok(Some(step)) => step,
            Ok(None) => return,
            Err(places) => {
                let reason = format!("which of {places} this samples for cannot be told");
                let suggestion = format!(
                    "call `{}(…, context.{}())` with the context whose `{}` takes this batch",
                    call.becomes, rule.accessor, rule.method
                );
                draft.sites.push(self.site(expr.span, reason, suggestion));
                return;
            }
        };
        let fail = |draft: &mut Draft, reason: String, suggestion: String| {
            draft.sites.push(self.site(expr.span, reason, suggestion))
        };
        let through = call
            .through
            .as_ref()
            .map(|name| format!("{name}()."))
            .unwrap_or_default();
        let Some(place) = &step.place else {
            let text = self
                .cx
                .src(step.expr.span)
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned();
            return fail(
                draft,
                format!("the context of `{text}` has no name that could be written here"),
                format!(
                    "bind the context, and call `{through}{}(…, context.{}())`",
                    call.becomes, rule.accessor
                ),
            );
        };
        let timer = format!("{place}.{}()", rule.accessor);
        let hint = format!(
            "bind the batch in a `let` before that call, with `{through}{}(…, {timer})`",
            call.becomes
        );
        if !self.in_scope(step.root, expr.span) {
            return fail(
                draft,
                format!("`{place}` is not in scope where this samples for it"),
                format!("call `{through}{}(…, {timer})` where it is", call.becomes),
            );
        }
        for outer in self.function.around(self.cx, expr) {
            if matches!(outer.kind, ExprKind::Closure { .. })
                && !outer.span.contains(step.expr.span)
            {
                return fail(
                    draft,
                    format!("this is in a closure, which would keep `{place}` borrowed"),
                    format!(
                        "call `{through}{}(…, {timer})` outside of the closure, or hand it the timer",
                        call.becomes
                    ),
                );
            }
            let borrows = match &outer.kind {
                // As a receiver it is borrowed in two phases, and can be looked at until the call is made.
                ExprKind::MethodCall { recv, args, .. } => {
                    let is_arg = args.iter().any(|arg| arg.span.contains(expr.span));
                    let same = is_arg && self.cx.src(recv.span) == place;
                    (same && !(outer.id == step.expr.id && step.is_direct))
                        || (is_arg && args.iter().any(|arg| self.is_mut_of(arg, place)))
                }
                ExprKind::Call { args, .. } => {
                    args.iter().any(|arg| arg.span.contains(expr.span))
                        && args.iter().any(|arg| {
                            self.is_mut_of(arg, place)
                                || (outer.id == step.expr.id && self.cx.src(arg.span) == place)
                        })
                }
                _ => false,
            };
            if borrows {
                return fail(
                    draft,
                    format!("this is inside of a call that has `{place}` borrowed mutably"),
                    hint,
                );
            }
        }
        let eol = trivia::eol(self.cx.text);
        let name = match &call.through {
            Some(through) if trivia::starts_line(self.cx.text, dot.lo) => {
                format!(
                    "{through}(){eol}{}.{}",
                    trivia::indent_of(self.cx.text, dot.lo),
                    call.becomes
                )
            }
            _ => format!("{through}{}", call.becomes),
        };
        draft.edit(file, method.span, name, rule);
        match args.last() {
            Some(last) => draft.insert(file, last.span.hi, format!(", {timer}"), rule),
            None => draft.insert(file, parens.lo + 1, timer, rule),
        }
    }

    /// `&mut place`, or the place itself where it is a reference.
    fn is_mut_of(&self, arg: &Expr, place: &str) -> bool {
        match &arg.kind {
            ExprKind::Ref {
                mutable: true,
                inner,
            } => self.cx.src(inner.span) == place || self.cx.src(inner.span) == format!("*{place}"),
            ExprKind::Path(_) | ExprKind::Field { .. } => {
                self.cx.src(arg.span) == place && matches!(self.cx.an.ty(arg), Type::Ref(true, _))
            }
            _ => false,
        }
    }

    /// Whether what is bound at `root` can be named at `at`.
    fn in_scope(&self, root: Option<Span>, at: Span) -> bool {
        let Some(root) = root else { return true };
        if !self.function.block.span.contains(root) {
            // A parameter.
            return true;
        }
        if at.lo < root.hi {
            return false;
        }
        let block = path_to(self.function.block, root)
            .last()
            .map(|place| place.block.span);
        let binders = self
            .cx
            .nodes
            .exprs
            .iter()
            .filter(|expr| expr.span.contains(root));
        let scopes = binders.flat_map(|expr| match &expr.kind {
            ExprKind::Closure { .. } | ExprKind::For { .. } | ExprKind::While { .. } => {
                vec![expr.span]
            }
            // A name of the condition is not seen by `else`.
            ExprKind::If { cond, then, .. } => vec![cond.span.to(then.span)],
            ExprKind::Match { arms, .. } => arms.iter().map(|arm| arm.span).collect(),
            _ => vec![],
        });
        scopes
            .chain(block)
            .filter(|scope| scope.contains(root))
            .all(|scope| scope.contains(at))
    }

    /// Ends the epoch behind the loop.
    fn finish(
        &self,
        at: &'a Expr,
        step: &StepCall<'a>,
        next: Option<Span>,
        loops: &[Span],
        done: &mut Vec<(Span, Option<String>)>,
        draft: &mut Draft,
    ) {
        let (rule, cx, file) = (self.tree.rule, self.cx, self.function.body.file);
        // With one context, whatever it is called.
        let several = self.steps.iter().any(|other| other.place != step.place);
        let own = step.place.as_deref().filter(|_| several);
        let is_there = |from: usize, to: usize| self.ends_epoch(own, from, to);
        let end_of_function = self.function.block.span.hi;
        let before_next = next.map_or(end_of_function, |next| next.lo);
        // Also inside of the loop: every so many steps, say.
        if is_there(at.span.lo, before_next) {
            return;
        }
        let place = step.place.clone().unwrap_or_else(|| "context".into());
        let code = format!("{place}.{}().{}();", rule.accessor, rule.finish);
        let fail = |draft: &mut Draft, reason: String| {
            let suggestion = format!(
                "behind the loop, once the stream has been waited for: `stream.{}()?; {code}`",
                rule.synchronize
            );
            let head = Span::new(
                at.span.lo,
                trivia::line_end(cx.text, at.span.lo).min(at.span.hi),
            );
            draft.sites.push(self.site(head, reason, suggestion));
        };
        let waits = self
            .function
            .exprs(cx)
            .filter(|expr| self.is_wait(expr) && expr.span.lo >= at.span.hi);
        let outside = |expr: &&'a Expr| {
            !loops.iter().any(|span| span.contains(expr.span)) && !self.is_deferred(expr)
        };
        let Some(wait) = waits.filter(outside).min_by_key(|expr| expr.span.lo) else {
            return fail(
                draft,
                format!(
                    "no `{}` of a `{}` follows the loop that calls `{}`, so the end of its epoch cannot be told",
                    rule.synchronize, rule.stream_type, rule.method
                ),
            );
        };
        let places = path_to(self.function.block, wait.span);
        // Out of loops that come after ours.
        let inner = places
            .iter()
            .position(|place| place.kind != Kind::Plain && !place.block.span.contains(at.span))
            .unwrap_or(places.len());
        let Some(target) = places[..inner].last() else {
            return;
        };
        let stmt = target.stmt();
        let key = (stmt.span, step.place.clone());
        if done.contains(&key) || cx.is_frozen(stmt.span) {
            return;
        }
        let is_shared = done.iter().any(|(span, _)| *span == stmt.span);
        done.push(key);
        let until = loops
            .iter()
            .filter(|span| span.lo >= stmt.span.hi)
            .map(|span| span.lo)
            .min()
            .unwrap_or(end_of_function);
        if is_there(at.span.hi, until) {
            return;
        }
        if step.place.is_none() {
            return fail(
                draft,
                format!(
                    "the context whose `{}` this loop calls has no name that could be written behind it",
                    rule.method
                ),
            );
        }
        if !self.in_scope(step.root, Span::new(stmt.span.hi, stmt.span.hi))
            && !self.in_scope(step.root, stmt.span)
        {
            return fail(
                draft,
                format!(
                    "`{place}` is not in scope any more where `{}` follows the loop",
                    rule.synchronize
                ),
            );
        }
        let is_last = target.at + 1 == target.block.stmts.len();
        let frame = Frame::new(cx.text, stmt.span, stmt.span);
        let ending = match &stmt.kind {
            StmtKind::Expr { expr, semi } => match leaves(cx.text, expr, *semi) {
                Some(ending) => ending,
                None if *semi || !is_last => Ending::Statement,
                None => match cx.an.ty(expr) {
                    Type::Tuple(types) if types.is_empty() => {
                        if is_block_like(expr) {
                            Ending::Statement
                        } else {
                            Ending::Unit
                        }
                    }
                    _ => Ending::Bound {
                        value: expr.span,
                        before: String::new(),
                        after: String::new(),
                    },
                },
            },
            _ => Ending::Statement,
        };
        if is_shared && !matches!(ending, Ending::Statement) {
            return fail(
                draft,
                format!(
                    "the `{}` that follows ends the epoch of another context, and leaves the function",
                    rule.synchronize
                ),
            );
        }
        match ending {
            Ending::Bound {
                value,
                before,
                after,
            } => bind(
                draft,
                self.tree,
                file,
                &frame,
                &Bound {
                    value,
                    before,
                    after,
                    stmt: stmt.span,
                    code: &code,
                },
            ),
            other => {
                if matches!(other, Ending::Unit) {
                    draft.insert(file, stmt.span.hi, ";", rule);
                }
                let (at, text) = frame.follow(cx.text, stmt.span.hi, &[&code]);
                draft.insert(file, at, text, rule);
            }
        }
    }

    fn is_deferred(&self, expr: &Expr) -> bool {
        self.function
            .around(self.cx, expr)
            .iter()
            .any(|outer| matches!(outer.kind, ExprKind::Closure { .. }))
    }

    /// Whether this waits for a stream.
    fn is_wait(&self, expr: &Expr) -> bool {
        let ExprKind::MethodCall {
            recv, method, args, ..
        } = &expr.kind
        else {
            return false;
        };
        if method.text != self.tree.rule.synchronize || !args.is_empty() {
            return false;
        }
        let ty = self.cx.an.ty(recv);
        if self.tree.is_stream(ty) {
            return true;
        }
        let is_unknown = self
            .tree
            .world
            .autoderef(ty)
            .last()
            .is_none_or(|last| !last.is_known());
        is_unknown && self.goes_where_a_stream_is_taken(recv)
    }

    /// A local of unknown type that some call takes as a stream.
    fn goes_where_a_stream_is_taken(&self, recv: &Expr) -> bool {
        let Some(local) = self.cx.an.local(recv) else {
            return false;
        };
        let ids: Vec<u32> = self.cx.an.locals[local]
            .uses
            .iter()
            .filter_map(|found| found.expr)
            .collect();
        ids.iter().filter_map(|id| self.cx.nodes.by_id.get(id)).any(|found| {
            let mut at: &Expr = found;
            // `&stream`, `stream.clone()`, `Arc::clone(&stream)`
            while let Some(outer) = self.cx.nodes.outer(at) {
                match &outer.kind {
                    ExprKind::Ref { .. } => at = outer,
                    ExprKind::MethodCall { recv, method, args, .. } if recv.id == at.id && method.text == "clone" && args.is_empty() => at = outer,
                    ExprKind::Call { callee, args } if args.len() == 1 && matches!(&callee.kind, ExprKind::Path(path) if path.last().name.text == "clone") => at = outer,
                    ExprKind::Call { callee, args } => {
                        let Type::Fn(params, _) = self.cx.an.ty(callee) else { return false };
                        let place = args.iter().position(|arg| arg.span.contains(at.span));
                        return place.and_then(|place| params.get(place)).is_some_and(|ty| self.tree.is_stream(ty));
                    }
                    _ => return false,
                }
            }
            false
        })
    }
}
