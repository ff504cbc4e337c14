//! Brackets around the phases of the method.
//!
//! Before: `self.upload(batch)?;`
//! After:  `self.timer.start(Phase::Upload, &self.stream); self.upload(batch)?; self.timer.end(Phase::Upload, &self.stream);`
//!
//! A bracket is around the smallest sequence of statements in one block that holds the calls of its phase; an `if` or a
//! `match` is taken as a whole where its arms share a phase, and a loop where it holds nothing of another phase. Calls
//! that another phase comes between are bracketed one by one.

use std::collections::BTreeSet;

use super::layout::Frame;
use super::places::{Kind, Place, path_to};
use super::scan::{Cover, Function, Mark, MarkKind, PhaseCall};
use super::timer::Timer;
use super::{BracketSite, Context, Draft, Names, Tree};
use crate::rewrite::nodes::is_block_like;
use crate::syntax::{Block, BlockFlavour, Expr, ExprKind, MacroArgs, Span, StmtKind};
use crate::world::Type;

pub(super) fn plan(tree: &Tree<'_>, context: &Context<'_>, timer: &Timer, names: &mut Names<'_, '_>, draft: &mut Draft) {
    for at in &context.impls {
        let cx = tree.cx(at.body.file);
        for item in at.it.items.iter().filter(|item| super::is_fn_named(item, &tree.rule.method) && !cx.is_frozen(item.span)) {
            if let Some(function) = Function::of_item(cx, at.body, item) {
                Step { tree, context, timer, function, marks: tree.marks(&function) }.plan(names, draft);
            }
        }
    }
}

struct Step<'t, 'a> {
    tree: &'t Tree<'a>,
    context: &'t Context<'a>,
    timer: &'t Timer,
    function: Function<'a>,
    marks: Vec<Mark<'a>>,
}

/// Calls of one phase that share a bracket.
struct Cluster<'a> {
    phase: usize,
    calls: Vec<PhaseCall<'a>>,
}

/// The statements that a bracket is around.
struct Sequence<'a> {
    block: &'a Block,
    lo: usize,
    hi: usize,
    nested: bool,
}

impl Sequence<'_> {
    fn span(&self) -> Span {
        self.block.stmts[self.lo].span.to(self.block.stmts[self.hi].span)
    }
}

impl<'a> Step<'_, 'a> {
    fn site(&self, span: Span, phase: usize, reason: String) -> BracketSite {
        let rule = self.tree.rule;
        let stream = match (&rule.phases[phase].stream_of_receiver, &self.timer.stream) {
            (Some(accessor), _) => format!("the receiver's `{accessor}()`"),
            (None, Ok(stream)) => format!("`{}`", stream.argument()),
            (None, Err(_)) => "the stream that it runs on".to_owned(),
        };
        let name = format!("{}::{}", rule.phase_type, rule.phases[phase].phase);
        let suggestion = format!("put `self.{0}.{1}({name}, …)` and `self.{0}.{2}({name}, …)` around it, on {stream}", self.timer.field, rule.start, rule.end);
        self.tree.site(self.function.body.file, span, reason, suggestion)
    }

    fn plan(&self, names: &mut Names<'_, '_>, draft: &mut Draft) {
        let cx = self.tree.cx(self.function.body.file);
        let rule = self.tree.rule;
        // Every call of a phase, in the order of the text; those without a bracket are to get one.
        let mut all: Vec<(PhaseCall<'a>, bool)> = Vec::new();
        for expr in self.function.exprs(cx) {
            let Some((call, is_certain)) = self.tree.phase_call(&self.function, self.context.def, expr) else { continue };
            let name = &rule.phases[call.phase].phase;
            let open = match self.tree.cover(&self.function, &self.marks, call.phase, expr.span) {
                Cover::Yes => false,
                Cover::Open => {
                    draft.sites.push(self.site(expr.span, call.phase, format!("the bracket of `{name}` before this call has no end")));
                    false
                }
                Cover::No if !is_certain => {
                    let recv = call.recv.map_or("", |recv| cx.src(recv.span));
                    draft.sites.push(self.site(expr.span, call.phase, format!("the type of `{recv}` cannot be told, so neither whether this call is the phase `{name}`")));
                    false
                }
                Cover::No => match self.hindrance(expr) {
                    Some(reason) => {
                        draft.sites.push(self.site(expr.span, call.phase, format!("this call of `{name}` {reason}")));
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
                Some(cluster) if *open && last == Some(cluster.phase) && cluster.phase == call.phase => cluster.calls.push(*call),
                _ if *open => clusters.push(Cluster { phase: call.phase, calls: vec![*call] }),
                _ => {}
            }
            last = open.then_some(call.phase);
        }
        let mut sequences: Vec<(Cluster<'a>, Sequence<'a>)> = Vec::new();
        for cluster in clusters {
            let others: Vec<Span> = all.iter().map(|(call, _)| call.expr.span).filter(|span| !cluster.calls.iter().any(|call| call.expr.span == *span)).collect();
            let Some(sequence) = self.sequence(&cluster, &others) else { continue };
            let span = sequence.span();
            if cx.is_frozen(span) {
                continue;
            }
            if others.iter().any(|other| span.contains(*other)) {
                let call = cluster.calls[0].expr.span;
                draft.sites.push(self.site(call, cluster.phase, format!("one statement holds calls of `{}` and of another phase", rule.phases[cluster.phase].phase)));
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
            return Some("is in an `async` function: what runs between its points of waiting cannot be told".into());
        }
        if self.function.f.sig.receiver.is_none() {
            return Some(format!("is in a function without `self`, so the field `{}` has no path there", self.timer.field));
        }
        let around = self.function.around(cx, call);
        for (n, outer) in around.iter().enumerate() {
            match &outer.kind {
                ExprKind::Block { flavour: BlockFlavour::Async, .. } => return Some("is in an `async` block, which runs later".into()),
                ExprKind::Closure { is_async: true, .. } => return Some("is in an `async` closure, which runs later".into()),
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
                        Some(ExprKind::MethodCall { method, args, .. }) if args.iter().any(|arg| arg.span.contains(outer.span)) => method.text.clone(),
                        Some(ExprKind::Call { callee, args }) if args.iter().any(|arg| arg.span.contains(outer.span)) => cx.src(callee.span).to_owned(),
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
            let ExprKind::Macro(mac) = &expr.kind else { continue };
            if !matches!(mac.args, MacroArgs::Opaque) {
                continue;
            }
            let mut seen = BTreeSet::new();
            for ident in cx.file.idents.iter().filter(|ident| mac.inner.contains(ident.span)) {
                let Some(phase) = self.tree.rule.phases.iter().position(|rule| rule.calls.contains(&ident.text)) else { continue };
                if seen.insert(phase) && self.tree.cover(&self.function, &self.marks, phase, expr.span) != Cover::Yes {
                    let reason = format!("`{}` is named in the arguments of `{}!`, which cannot be read", ident.text, mac.path.last().name.text);
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
            known.extend(at.it.items.iter().filter_map(|item| Function::of_item(self.tree.cx(at.body.file), at.body, item)));
        }
        for body in self.tree.bodies.iter().filter(|body| body.file == self.function.body.file) {
            known.extend(body.items.iter().filter_map(|item| Function::of_item(self.tree.cx(body.file), *body, item)));
        }
        let is_phase = |name: &str| rule.phases.iter().any(|phase| phase.calls.iter().any(|call| call == name));
        let mut seen: Vec<Span> = vec![self.function.block.span];
        let mut queue: Vec<(Function<'a>, Vec<usize>)> = vec![(self.function, vec![])];
        while let Some((function, covered)) = queue.pop() {
            let cx = self.tree.cx(function.body.file);
            let marks = self.tree.marks(&function);
            for expr in function.exprs(cx) {
                let name = match &expr.kind {
                    ExprKind::MethodCall { method, recv, .. } if super::scan::is_type(self.tree.world, cx.an.ty(recv), self.context.def) => &method.text,
                    ExprKind::Call { callee, .. } => match &callee.kind {
                        ExprKind::Path(path) => &path.last().name.text,
                        _ => continue,
                    },
                    _ => continue,
                };
                let Some(helper) = known.iter().find(|helper| helper.name() == name) else { continue };
                if is_phase(name) || name == &rule.method || seen.contains(&helper.block.span) {
                    continue;
                }
                seen.push(helper.block.span);
                // A bracket around the helper's call serves what it calls.
                let mut inside = covered.clone();
                inside.extend((0..rule.phases.len()).filter(|phase| self.tree.cover(&function, &marks, *phase, expr.span) == Cover::Yes));
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
            let Some((call, true)) = self.tree.phase_call(helper, self.context.def, expr) else { continue };
            let is_covered = covered.contains(&call.phase) || self.tree.cover(helper, &marks, call.phase, expr.span) == Cover::Yes;
            if is_covered || cx.is_frozen(expr.span) || !seen.insert(call.phase) {
                continue;
            }
            let reason = format!("the phase `{}` runs in `{}`, not in `{}` itself", rule.phases[call.phase].phase, helper.name(), rule.method);
            draft.sites.push(BracketSite { file: helper.body.file, ..self.site(expr.span, call.phase, reason) });
        }
    }

    /// The smallest sequence of statements that holds the calls, and of `others` as little as can be.
    fn sequence(&self, cluster: &Cluster<'a>, others: &[Span]) -> Option<Sequence<'a>> {
        let cx = self.tree.cx(self.function.body.file);
        let paths: Vec<Vec<Place<'a>>> = cluster.calls.iter().map(|call| path_to(self.function.block, call.expr.span)).collect();
        let first = paths.first()?;
        let shared = |span: Span| others.iter().any(|other| span.contains(*other));
        let mut best: Option<Sequence<'a>> = None;
        for depth in 0..first.len() {
            let places: Option<Vec<Place<'a>>> = paths.iter().map(|path| path.get(depth).copied().filter(|place| std::ptr::eq(place.block, first[depth].block))).collect();
            let Some(places) = places else { break };
            // The statement that this block is in, and what else it holds.
            if let Some(outer) = &best {
                let forced = shared(outer.span());
                let block = first[depth].block;
                let stays_outside = match first[depth].kind {
                    Kind::Deferred => true,
                    Kind::Loop => !forced,
                    Kind::Plain => {
                        let value_only = matches!(&block.stmts[..], [only] if matches!(only.kind, StmtKind::Expr { semi: false, .. }));
                        !forced && value_only && !block.span.text(cx.text).contains('\n')
                    }
                };
                if stays_outside {
                    break;
                }
            }
            let (lo, hi) = (places.iter().map(|place| place.at).min()?, places.iter().map(|place| place.at).max()?);
            let next = Sequence { block: first[depth].block, lo, hi, nested: depth > 0 };
            // The value of an inner block is better left as one.
            if let Some(outer) = &best
                && !shared(outer.span())
                && self.is_value(&next)
            {
                break;
            }
            let goes_on = lo == hi;
            best = Some(next);
            if !goes_on {
                break;
            }
        }
        best
    }

    /// Whether the sequence ends in the value of its block, and that is not `()`.
    fn is_value(&self, sequence: &Sequence<'a>) -> bool {
        let cx = self.tree.cx(self.function.body.file);
        if sequence.hi + 1 < sequence.block.stmts.len() {
            return false;
        }
        match &sequence.block.stmts[sequence.hi].kind {
            StmtKind::Expr { expr, semi: false } => !self.is_unit(cx.an.ty(expr), sequence),
            _ => false,
        }
    }

    fn is_unit(&self, ty: &Type, sequence: &Sequence<'a>) -> bool {
        let cx = self.tree.cx(self.function.body.file);
        match ty {
            Type::Tuple(types) => types.is_empty(),
            // What the function itself returns is known.
            Type::Unknown if !sequence.nested => self.function.f.sig.ret.is_none(),
            // A branch of a statement that something follows has no value.
            Type::Unknown => {
                let path = path_to(self.function.block, sequence.block.span);
                let outer = path.iter().rev().find(|place| !std::ptr::eq(place.block, sequence.block));
                let _ = cx;
                outer.is_some_and(|place| matches!(&place.stmt().kind, StmtKind::Expr { expr, semi: false } if is_block_like(expr)) && place.at + 1 < place.block.stmts.len())
            }
            _ => false,
        }
    }

    /// Puts the two calls around a sequence.
    fn bracket(&self, cluster: &Cluster<'a>, sequence: &Sequence<'a>, names: &mut Names<'_, '_>, draft: &mut Draft) -> Result<(), BracketSite> {
        let (tree, rule, file) = (self.tree, self.tree.rule, self.function.body.file);
        let cx = tree.cx(file);
        let (first, last) = (&sequence.block.stmts[sequence.lo], &sequence.block.stmts[sequence.hi]);
        let at = cluster.calls[0].expr.span;
        let stream = self.stream(cluster, sequence).map_err(|reason| self.site(at, cluster.phase, reason))?;
        let ending = self.ending(sequence).map_err(|reason| self.site(at, cluster.phase, reason))?;
        let Some(prefix) = self.phase_prefix(names) else {
            return Err(self.site(at, cluster.phase, format!("the package depends on none of the crates that have `{}`: {}", rule.phase_type, rule.import_from.join(", "))));
        };
        let holder = if self.context.sees_fields(tree.world, self.function.body.module) { format!("self.{}", self.timer.field) } else { format!("self.{}()", rule.accessor) };
        let call = |method: &str| format!("{holder}.{method}({prefix}::{}, {stream});", rule.phases[cluster.phase].phase);
        let frame = Frame::new(cx.text, first.span, last.span);
        draft.insert(file, first.span.lo, frame.lead(&call(&rule.start)), rule);
        let end = call(&rule.end);
        match ending {
            Ending::Statement => {
                let (at, text) = frame.follow(cx.text, last.span.hi, &[&end]);
                draft.insert(file, at, text, rule);
            }
            Ending::Unit => {
                draft.insert(file, last.span.hi, ";", rule);
                let (at, text) = frame.follow(cx.text, last.span.hi, &[&end]);
                draft.insert(file, at, text, rule);
            }
            Ending::Bound { value, before, after } => bind(draft, tree, file, &frame, &Bound { value, before, after, stmt: last.span, code: &end }),
        }
        Ok(())
    }

    /// What to do with the last statement of a sequence, so that something can follow it.
    fn ending(&self, sequence: &Sequence<'a>) -> Result<Ending, String> {
        let cx = self.tree.cx(self.function.body.file);
        let last = &sequence.block.stmts[sequence.hi];
        let StmtKind::Expr { expr, semi } = &last.kind else { return Ok(Ending::Statement) };
        if let Some(ending) = leaves(cx.text, expr, *semi) {
            return if last.attrs.is_empty() { Ok(ending) } else { Err("this call is in a statement with attributes".into()) };
        }
        if matches!(cx.an.ty(expr), Type::Never) {
            return Err("nothing can follow the statement of this call: it does not end".into());
        }
        if *semi || sequence.hi + 1 < sequence.block.stmts.len() {
            return Ok(Ending::Statement);
        }
        if self.is_unit(cx.an.ty(expr), sequence) {
            return Ok(if is_block_like(expr) { Ending::Statement } else { Ending::Unit });
        }
        if !last.attrs.is_empty() {
            return Err("the value that this call is part of has attributes".into());
        }
        Ok(Ending::Bound { value: expr.span, before: String::new(), after: String::new() })
    }

    /// The stream that a bracket is on, as an argument.
    fn stream(&self, cluster: &Cluster<'a>, sequence: &Sequence<'a>) -> Result<String, String> {
        let cx = self.tree.cx(self.function.body.file);
        let own = || self.timer.stream.as_ref().map(|stream| stream.argument()).map_err(Clone::clone);
        let Some(accessor) = &self.tree.rule.phases[cluster.phase].stream_of_receiver else { return own() };
        let mut receivers: Vec<String> = Vec::new();
        for call in &cluster.calls {
            let Some(mut recv) = call.recv else { return own() };
            while let ExprKind::Ref { inner, .. } | ExprKind::Paren(inner) = &recv.kind {
                recv = inner;
            }
            let is_tight = crate::rewrite::nodes::prec(recv) == crate::rewrite::nodes::Prec::Tight;
            // What is bound inside the bracket is not there when it starts.
            let bound_inside = {
                let mut found = false;
                crate::analysis::walk(recv, &mut |expr| {
                    found |= cx.an.local(expr).is_some_and(|id| sequence.span().contains(cx.an.locals[id].span));
                });
                found
            };
            if !cx.is_pure(recv) || !is_tight || bound_inside || cx.src(recv.span).contains('\n') && !trivial_chain(cx.src(recv.span)) {
                return own();
            }
            let text = one_line(cx.src(recv.span));
            if !receivers.contains(&text) {
                receivers.push(text);
            }
        }
        match &receivers[..] {
            [only] => Ok(format!("{only}.{accessor}()")),
            // One bracket, two buffers.
            _ => own(),
        }
    }

    /// What names of phases are written behind: as the brackets that are there, else as can be imported.
    fn phase_prefix(&self, names: &mut Names<'_, '_>) -> Option<String> {
        let existing = self.marks.iter().filter(|mark| mark.kind != MarkKind::End).map(|mark| &mark.prefix).find(|prefix| prefix.contains("::"));
        match existing {
            Some(prefix) => Some(prefix.clone()),
            None => names.spell(self.function.body, &self.tree.rule.phase_type),
        }
    }
}

/// How a sequence ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// A statement: another may follow.
    Statement,
    /// A value of type `()`: it gets a semicolon.
    Unit,
    /// A value that is needed: bound first, and given behind, between these two.
    Bound { value: Span, before: String, after: String },
}

/// `return f();` and `break f();`: the value is bound, and left with afterwards.
pub(super) fn leaves(text: &str, expr: &Expr, semi: bool) -> Option<Ending> {
    let (ExprKind::Return(Some(value)) | ExprKind::Break { value: Some(value), .. }) = &expr.kind else { return None };
    let before = text[expr.span.lo..value.span.lo].to_owned();
    Some(Ending::Bound { value: value.span, before, after: if semi { ";".into() } else { String::new() } })
}

/// A value to be bound before something follows it.
#[derive(Debug)]
pub(super) struct Bound<'c> {
    pub value: Span,
    pub before: String,
    pub after: String,
    pub stmt: Span,
    /// What comes between the value and its being given.
    pub code: &'c str,
}

/// The name of a value that waits for the bracket's end.
const RESULT: &str = "result";

pub(super) fn bind(draft: &mut Draft, tree: &Tree<'_>, file: usize, frame: &Frame, bound: &Bound<'_>) {
    let text = tree.cx(file).text;
    let rule = tree.rule;
    let binding = format!("let {RESULT} = ");
    if bound.before.is_empty() {
        draft.insert(file, bound.value.lo, binding, rule);
    } else {
        let lo = bound.value.lo - bound.before.len();
        draft.edit(file, Span::new(lo, bound.value.lo), binding, rule);
    }
    if bound.after.is_empty() {
        draft.insert(file, bound.value.hi, ";", rule);
    }
    let give = format!("{}{RESULT}{}", bound.before, bound.after);
    let (at, code) = frame.follow(text, bound.stmt.hi, &[bound.code, &give]);
    draft.insert(file, at, code, rule);
}

/// A chain of calls broken into lines, without comments.
fn trivial_chain(text: &str) -> bool {
    !text.contains("//") && !text.contains("/*") && !text.contains('"')
}

fn one_line(text: &str) -> String {
    if text.contains('\n') { text.split_whitespace().collect::<Vec<_>>().concat() } else { text.to_owned() }
}
