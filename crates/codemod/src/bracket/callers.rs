//! What callers of the method do with the timer: it goes along where they sample, and its epoch ends behind their loop.

use super::layout::Frame;
use super::places::{Kind, path_to};
use super::scan::{Function, is_type};
use super::sequence::{Bound, Ending, bind, leaves};
use super::{BracketSite, Context, Draft, Tree};
use crate::rewrite::Cx;
use crate::rewrite::nodes::is_block_like;
use crate::syntax::{Expr, ExprKind, Span, StmtKind, trivia};
use crate::world::{DefId, Type};

/// `callable`: the structs whose accessor is there, or will be.
pub(super) fn plan(
    tree: &Tree<'_>,
    callable: &[DefId],
    contexts: &[Context<'_>],
    draft: &mut Draft,
) {
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
                Caller {
                    tree,
                    cx,
                    function,
                    steps: steps(tree, cx, &function, callable, contexts, draft),
                }
                .plan(draft);
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
    /// The innermost loop around the call.
    in_loop: Option<&'a Expr>,
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
        let in_loop = function
            .around(cx, expr)
            .into_iter()
            .rev()
            .find(|outer| loop_body(outer).is_some_and(|body| body.contains(expr.span)));
        let named = cx.is_place(place).then(|| cx.src(place.span).to_owned());
        out.push(StepCall {
            expr,
            place: named,
            root: root_of(cx, place),
            is_direct,
            in_loop,
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
        for expr in self.function.exprs(self.cx) {
            if let Some(through) = self.profiled(expr) {
                self.sample(expr, through, draft);
            }
        }
        let mut loops: Vec<(&'a Expr, &StepCall<'a>)> = Vec::new();
        for step in &self.steps {
            if let Some(outer) = step.in_loop
                && !loops.iter().any(|(known, _)| known.id == outer.id)
            {
                loops.push((outer, step));
            }
        }
        // A loop inside of another that steps as well ends with that one.
        let whole: Vec<_> = loops
            .iter()
            .filter(|(at, _)| {
                !loops
                    .iter()
                    .any(|(outer, _)| outer.id != at.id && outer.span.contains(at.span))
            })
            .collect();
        let mut done: Vec<Span> = Vec::new();
        for (n, (at, step)) in whole.iter().enumerate() {
            let next = whole.get(n + 1).map(|(next, _)| next.span);
            self.finish(
                at,
                step,
                next,
                &whole.iter().map(|(at, _)| at.span).collect::<Vec<_>>(),
                &mut done,
                draft,
            );
        }
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
        // The step that the sample is for.
        let Some(step) = self
            .steps
            .iter()
            .find(|step| step.expr.span.hi > expr.span.lo)
            .or(self.steps.last())
        else {
            return;
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
        done: &mut Vec<Span>,
        draft: &mut Draft,
    ) {
        let (rule, cx, file) = (self.tree.rule, self.cx, self.function.body.file);
        let is_there = |from: usize, to: usize| {
            self.function.exprs(cx).any(|expr| {
                matches!(&expr.kind, ExprKind::MethodCall { method, args, .. } if method.text == rule.finish && args.is_empty() && from <= expr.span.lo && expr.span.lo < to)
            })
        };
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
        if done.contains(&stmt.span) || cx.is_frozen(stmt.span) {
            return;
        }
        done.push(stmt.span);
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
