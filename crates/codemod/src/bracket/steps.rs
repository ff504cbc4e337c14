//! Brackets around the phases of the method.
//!
//! Before: `self.upload(batch)?;`
//! After:  `self.timer.start(Phase::Upload, &self.stream); self.upload(batch)?; self.timer.end(Phase::Upload, &self.stream);`
//!
//! A bracket is around the smallest sequence of statements in one block that holds the calls of its phase; an `if` or a
//! `match` is taken as a whole where its arms share a phase, and a loop where it holds nothing of another phase. Calls
//! that another phase comes between are bracketed one by one.

use std::collections::BTreeSet;

use super::scan::{Cover, Function, Mark, PhaseCall};
use super::sequence::{Cluster, Sequence};
use super::timer::Timer;
use super::{BracketSite, Context, Draft, Names, Tree};
use crate::syntax::{BlockFlavour, Expr, ExprKind, MacroArgs, Span};

pub(super) fn plan(
    tree: &Tree<'_>,
    context: &Context<'_>,
    timer: &Timer,
    names: &mut Names<'_, '_>,
    draft: &mut Draft,
) {
    for at in &context.impls {
        let cx = tree.cx(at.body.file);
        for item in
            at.it.items.iter().filter(|item| {
                super::is_fn_named(item, &tree.rule.method) && !cx.is_frozen(item.span)
            })
        {
            if let Some(function) = Function::of_item(cx, at.body, item) {
                Step {
                    tree,
                    context,
                    timer,
                    function,
                    marks: tree.marks(&function),
                }
                .plan(names, draft);
            }
        }
    }
}

pub(super) struct Step<'t, 'a> {
    pub tree: &'t Tree<'a>,
    pub context: &'t Context<'a>,
    pub timer: &'t Timer,
    pub function: Function<'a>,
    pub marks: Vec<Mark<'a>>,
}

impl<'a> Step<'_, 'a> {
    pub(super) fn site(&self, span: Span, phase: usize, reason: String) -> BracketSite {
        let rule = self.tree.rule;
        let stream = match (&rule.phases[phase].stream_of_receiver, &self.timer.stream) {
            (Some(accessor), _) => format!("the receiver's `{accessor}()`"),
            (None, Ok(stream)) => format!("`{}`", stream.argument()),
            (None, Err(_)) => "the stream that it runs on".to_owned(),
        };
        let name = format!("{}::{}", rule.phase_type, rule.phases[phase].phase);
        let suggestion = format!(
            "put `self.{0}.{1}({name}, …)` and `self.{0}.{2}({name}, …)` around it, on {stream}",
            self.timer.field, rule.start, rule.end
        );
        self.tree
            .site(self.function.body.file, span, reason, suggestion)
    }

    fn plan(&self, names: &mut Names<'_, '_>, draft: &mut Draft) {
        let cx = self.tree.cx(self.function.body.file);
        let rule = self.tree.rule;
        // Every call of a phase, in the order of the text; those without a bracket are to get one.
        let mut all: Vec<(PhaseCall<'a>, bool)> = Vec::new();
        for expr in self.function.exprs(cx) {
            let Some((call, is_certain)) =
                self.tree.phase_call(&self.function, self.context.def, expr)
            else {
                continue;
            };
            let name = &rule.phases[call.phase].phase;
            let open = match self
                .tree
                .cover(&self.function, &self.marks, call.phase, expr.span)
            {
                Cover::Yes => false,
                Cover::Open => {
                    draft.sites.push(self.site(
                        expr.span,
                        call.phase,
                        format!("the bracket of `{name}` before this call has no end"),
                    ));
                    false
                }
                Cover::No if !is_certain => {
                    let recv = call.recv.map_or("", |recv| cx.src(recv.span));
                    draft.sites.push(self.site(expr.span, call.phase, format!("the type of `{recv}` cannot be told, so neither whether this call is the phase `{name}`")));
                    false
                }
                Cover::No => match self.hindrance(expr) {
                    Some(reason) => {
                        draft.sites.push(self.site(
                            expr.span,
                            call.phase,
                            format!("this call of `{name}` {reason}"),
                        ));
                        false
                    }
                    None => true,
                },
            };
            all.push((call, open));
        }
        all.sort_by_key(|(call, _)| (call.expr.span.hi, call.expr.span.lo));
        self.macros(draft);
        self.helpers(draft);
        let mut clusters: Vec<Cluster<'a>> = Vec::new();
        let mut last = None;
        for (call, open) in &all {
            match clusters.last_mut() {
                Some(cluster)
                    if *open && last == Some(cluster.phase) && cluster.phase == call.phase =>
                {
                    cluster.calls.push(*call)
                }
                _ if *open => clusters.push(Cluster {
                    phase: call.phase,
                    calls: vec![*call],
                }),
                _ => {}
            }
            last = open.then_some(call.phase);
        }
        let mut sequences: Vec<(Cluster<'a>, Sequence<'a>)> = Vec::new();
        for cluster in clusters {
            let others: Vec<Span> = all
                .iter()
                .map(|(call, _)| call.expr.span)
                .filter(|span| !cluster.calls.iter().any(|call| call.expr.span == *span))
                .collect();
            let Some(sequence) = self.sequence(&cluster, &others) else {
                continue;
            };
            let span = sequence.span();
            if cx.is_frozen(span) {
                continue;
            }
            if others.iter().any(|other| span.contains(*other)) {
                let call = cluster.calls[0].expr.span;
                draft.sites.push(self.site(
                    call,
                    cluster.phase,
                    format!(
                        "one statement holds calls of `{}` and of another phase",
                        rule.phases[cluster.phase].phase
                    ),
                ));
                continue;
            }
            sequences.push((cluster, sequence));
        }
        sequences.sort_by_key(|(_, sequence)| sequence.span());
        for (cluster, sequence) in &sequences {
            if let Err(site) = self.bracket(cluster, sequence, names, draft) {
                draft.sites.push(site);
            }
        }
    }

    /// Why statements around a call would not time it.
    fn hindrance(&self, call: &Expr) -> Option<String> {
        let cx = self.tree.cx(self.function.body.file);
        if self.function.f.sig.is_async {
            return Some(
                "is in an `async` function: what runs between its points of waiting cannot be told"
                    .into(),
            );
        }
        if self.function.f.sig.receiver.is_none() {
            return Some(format!(
                "is in a function without `self`, so the field `{}` has no path there",
                self.timer.field
            ));
        }
        let around = self.function.around(cx, call);
        for (n, outer) in around.iter().enumerate() {
            match &outer.kind {
                ExprKind::Block {
                    flavour: BlockFlavour::Async,
                    ..
                } => return Some("is in an `async` block, which runs later".into()),
                ExprKind::Closure { is_async: true, .. } => {
                    return Some("is in an `async` closure, which runs later".into());
                }
                ExprKind::Closure { .. } => {
                    // Called at once where it is an argument; whatever else holds it may call it whenever it likes.
                    let mut user = None;
                    for holder in around[..n].iter().rev() {
                        if !matches!(holder.kind, ExprKind::Paren(_) | ExprKind::Ref { .. }) {
                            user = Some(holder);
                            break;
                        }
                    }
                    let name = match user.map(|user| &user.kind) {
                        Some(ExprKind::MethodCall { method, args, .. })
                            if args.iter().any(|arg| arg.span.contains(outer.span)) =>
                        {
                            method.text.clone()
                        }
                        Some(ExprKind::Call { callee, args })
                            if args.iter().any(|arg| arg.span.contains(outer.span)) =>
                        {
                            cx.src(callee.span).to_owned()
                        }
                        Some(ExprKind::Call { .. }) => continue,
                        _ => return Some("is in a closure that is kept for later".into()),
                    };
                    if name.contains("spawn") {
                        return Some(format!("is in a closure that `{name}` runs elsewhere"));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Macros whose arguments cannot be read, but name a call of a phase.
    fn macros(&self, draft: &mut Draft) {
        let cx = self.tree.cx(self.function.body.file);
        for expr in self.function.exprs(cx) {
            let ExprKind::Macro(mac) = &expr.kind else {
                continue;
            };
            if !matches!(mac.args, MacroArgs::Opaque) {
                continue;
            }
            let mut seen = BTreeSet::new();
            for ident in cx
                .file
                .idents
                .iter()
                .filter(|ident| mac.inner.contains(ident.span))
            {
                let Some(phase) = self
                    .tree
                    .rule
                    .phases
                    .iter()
                    .position(|rule| rule.calls.contains(&ident.text))
                else {
                    continue;
                };
                if seen.insert(phase)
                    && self
                        .tree
                        .cover(&self.function, &self.marks, phase, expr.span)
                        != Cover::Yes
                {
                    let reason = format!(
                        "`{}` is named in the arguments of `{}!`, which cannot be read",
                        ident.text,
                        mac.path.last().name.text
                    );
                    draft.sites.push(self.site(expr.span, phase, reason));
                }
            }
        }
    }

    /// Phases whose calls were moved to other functions.
    fn helpers(&self, draft: &mut Draft) {
        let rule = self.tree.rule;
        let mut known: Vec<Function<'a>> = Vec::new();
        for at in &self.context.impls {
            known.extend(
                at.it.items.iter().filter_map(|item| {
                    Function::of_item(self.tree.cx(at.body.file), at.body, item)
                }),
            );
        }
        for body in self
            .tree
            .bodies
            .iter()
            .filter(|body| body.file == self.function.body.file)
        {
            known.extend(
                body.items
                    .iter()
                    .filter_map(|item| Function::of_item(self.tree.cx(body.file), *body, item)),
            );
        }
        let is_phase = |name: &str| {
            rule.phases
                .iter()
                .any(|phase| phase.calls.iter().any(|call| call == name))
        };
        let mut seen: Vec<Span> = vec![self.function.block.span];
        let mut queue: Vec<(Function<'a>, Vec<usize>)> = vec![(self.function, vec![])];
        while let Some((function, covered)) = queue.pop() {
            let cx = self.tree.cx(function.body.file);
            let marks = self.tree.marks(&function);
            for expr in function.exprs(cx) {
                let name = match &expr.kind {
                    ExprKind::MethodCall { method, recv, .. }
                        if super::scan::is_type(
                            self.tree.world,
                            cx.an.ty(recv),
                            self.context.def,
                        ) =>
                    {
                        &method.text
                    }
                    ExprKind::Call { callee, .. } => match &callee.kind {
                        ExprKind::Path(path) => &path.last().name.text,
                        _ => continue,
                    },
                    _ => continue,
                };
                let Some(helper) = known.iter().find(|helper| helper.name() == name) else {
                    continue;
                };
                if is_phase(name) || name == &rule.method || seen.contains(&helper.block.span) {
                    continue;
                }
                seen.push(helper.block.span);
                // A bracket around the helper's call serves what it calls.
                let mut inside = covered.clone();
                inside.extend((0..rule.phases.len()).filter(|phase| {
                    self.tree.cover(&function, &marks, *phase, expr.span) == Cover::Yes
                }));
                self.helper(helper, &inside, draft);
                queue.push((*helper, inside));
            }
        }
    }

    fn helper(&self, helper: &Function<'a>, covered: &[usize], draft: &mut Draft) {
        let rule = self.tree.rule;
        let cx = self.tree.cx(helper.body.file);
        let marks = self.tree.marks(helper);
        let mut seen = BTreeSet::new();
        for expr in helper.exprs(cx) {
            let Some((call, true)) = self.tree.phase_call(helper, self.context.def, expr) else {
                continue;
            };
            let is_covered = covered.contains(&call.phase)
                || self.tree.cover(helper, &marks, call.phase, expr.span) == Cover::Yes;
            if is_covered || cx.is_frozen(expr.span) || !seen.insert(call.phase) {
                continue;
            }
            let reason = format!(
                "the phase `{}` runs in `{}`, not in `{}` itself",
                rule.phases[call.phase].phase,
                helper.name(),
                rule.method
            );
            draft.sites.push(BracketSite {
                file: helper.body.file,
                ..self.site(expr.span, call.phase, reason)
            });
        }
    }
}
