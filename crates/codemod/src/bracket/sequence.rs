//! The statements that a bracket is around, and the calls put before and behind them.

use super::layout::Frame;
use super::places::{Kind, Place, path_to};
use super::scan::{MarkKind, PhaseCall};
use super::steps::Step;
use super::{BracketSite, Draft, Names, Tree};
use crate::rewrite::nodes::is_block_like;
use crate::syntax::{Block, Expr, ExprKind, Span, StmtKind};
use crate::world::Type;

/// Calls of one phase that share a bracket.
pub(super) struct Cluster<'a> {
    pub phase: usize,
    pub calls: Vec<PhaseCall<'a>>,
}

/// The statements that a bracket is around.
pub(super) struct Sequence<'a> {
    block: &'a Block,
    lo: usize,
    hi: usize,
    nested: bool,
}

impl Sequence<'_> {
    pub fn span(&self) -> Span {
        self.block.stmts[self.lo]
            .span
            .to(self.block.stmts[self.hi].span)
    }
}

impl<'a> Step<'_, 'a> {
    /// The smallest sequence of statements that holds the calls, and of `others` as little as can be.
    pub(super) fn sequence(&self, cluster: &Cluster<'a>, others: &[Span]) -> Option<Sequence<'a>> {
        let cx = self.tree.cx(self.function.body.file);
        let paths: Vec<Vec<Place<'a>>> = cluster
            .calls
            .iter()
            .map(|call| path_to(self.function.block, call.expr.span))
            .collect();
        let first = paths.first()?;
        let shared = |span: Span| others.iter().any(|other| span.contains(*other));
        let mut best: Option<Sequence<'a>> = None;
        for (depth, here) in first.iter().enumerate() {
            let places: Option<Vec<Place<'a>>> = paths
                .iter()
                .map(|path| {
                    path.get(depth)
                        .copied()
                        .filter(|place| std::ptr::eq(place.block, here.block))
                })
                .collect();
            let Some(places) = places else { break };
            // The statement that this block is in, and what else it holds.
            if let Some(outer) = &best {
                let forced = shared(outer.span());
                let block = here.block;
                let stays_outside = match here.kind {
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
            let (lo, hi) = (
                places.iter().map(|place| place.at).min()?,
                places.iter().map(|place| place.at).max()?,
            );
            let next = Sequence {
                block: here.block,
                lo,
                hi,
                nested: depth > 0,
            };
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
        match ty {
            Type::Tuple(types) => types.is_empty(),
            // What the function itself returns is known.
            Type::Unknown if !sequence.nested => self.function.f.sig.ret.is_none(),
            // A branch of a statement that something follows has no value.
            Type::Unknown => {
                let path = path_to(self.function.block, sequence.block.span);
                let outer = path
                    .iter()
                    .rev()
                    .find(|place| !std::ptr::eq(place.block, sequence.block));
                outer.is_some_and(|place| matches!(&place.stmt().kind, StmtKind::Expr { expr, semi: false } if is_block_like(expr)) && place.at + 1 < place.block.stmts.len())
            }
            _ => false,
        }
    }

    /// Puts the two calls around a sequence.
    pub(super) fn bracket(
        &self,
        cluster: &Cluster<'a>,
        sequence: &Sequence<'a>,
        names: &mut Names<'_, '_>,
        draft: &mut Draft,
    ) -> Result<(), BracketSite> {
        let (tree, rule, file) = (self.tree, self.tree.rule, self.function.body.file);
        let cx = tree.cx(file);
        let (first, last) = (
            &sequence.block.stmts[sequence.lo],
            &sequence.block.stmts[sequence.hi],
        );
        let at = cluster.calls[0].expr.span;
        let stream = self
            .stream(cluster, sequence)
            .map_err(|reason| self.site(at, cluster.phase, reason))?;
        let ending = self
            .ending(sequence)
            .map_err(|reason| self.site(at, cluster.phase, reason))?;
        let Some(prefix) = self.phase_prefix(names) else {
            return Err(self.site(
                at,
                cluster.phase,
                format!(
                    "the package depends on none of the crates that have `{}`: {}",
                    rule.phase_type,
                    rule.import_from.join(", ")
                ),
            ));
        };
        let holder = if self
            .context
            .sees_fields(tree.world, self.function.body.module)
        {
            format!("self.{}", self.timer.field)
        } else {
            format!("self.{}()", rule.accessor)
        };
        let call = |method: &str| {
            format!(
                "{holder}.{method}({prefix}::{}, {stream});",
                rule.phases[cluster.phase].phase
            )
        };
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
            Ending::Bound {
                value,
                before,
                after,
            } => bind(
                draft,
                tree,
                file,
                &frame,
                &Bound {
                    value,
                    before,
                    after,
                    stmt: last.span,
                    code: &end,
                },
            ),
        }
        Ok(())
    }

    /// What to do with the last statement of a sequence, so that something can follow it.
    fn ending(&self, sequence: &Sequence<'a>) -> Result<Ending, String> {
        let cx = self.tree.cx(self.function.body.file);
        let last = &sequence.block.stmts[sequence.hi];
        let StmtKind::Expr { expr, semi } = &last.kind else {
            return Ok(Ending::Statement);
        };
        if let Some(ending) = leaves(cx.text, expr, *semi) {
            return if last.attrs.is_empty() {
                Ok(ending)
            } else {
                Err("this call is in a statement with attributes".into())
            };
        }
        if matches!(cx.an.ty(expr), Type::Never) {
            return Err("nothing can follow the statement of this call: it does not end".into());
        }
        if *semi || sequence.hi + 1 < sequence.block.stmts.len() {
            return Ok(Ending::Statement);
        }
        if self.is_unit(cx.an.ty(expr), sequence) {
            return Ok(if is_block_like(expr) {
                Ending::Statement
            } else {
                Ending::Unit
            });
        }
        if !last.attrs.is_empty() {
            return Err("the value that this call is part of has attributes".into());
        }
        Ok(Ending::Bound {
            value: expr.span,
            before: String::new(),
            after: String::new(),
        })
    }

    /// The stream that a bracket is on, as an argument.
    fn stream(&self, cluster: &Cluster<'a>, sequence: &Sequence<'a>) -> Result<String, String> {
        let cx = self.tree.cx(self.function.body.file);
        let own = || {
            self.timer
                .stream
                .as_ref()
                .map(|stream| stream.argument())
                .map_err(Clone::clone)
        };
        let Some(accessor) = &self.tree.rule.phases[cluster.phase].stream_of_receiver else {
            return own();
        };
        let mut receivers: Vec<String> = Vec::new();
        for call in &cluster.calls {
            let Some(mut recv) = call.recv else {
                return own();
            };
            while let ExprKind::Ref { inner, .. } | ExprKind::Paren(inner) = &recv.kind {
                recv = inner;
            }
            let is_tight = crate::rewrite::nodes::prec(recv) == crate::rewrite::nodes::Prec::Tight;
            // What is bound inside the bracket is not there when it starts.
            let bound_inside = {
                let mut found = false;
                crate::analysis::walk(recv, &mut |expr| {
                    found |= cx
                        .an
                        .local(expr)
                        .is_some_and(|id| sequence.span().contains(cx.an.locals[id].span));
                });
                found
            };
            if !cx.only_looks(recv)
                || !is_tight
                || bound_inside
                || cx.src(recv.span).contains('\n') && !trivial_chain(cx.src(recv.span))
            {
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
        let existing = self
            .marks
            .iter()
            .filter(|mark| mark.kind != MarkKind::End)
            .map(|mark| &mark.prefix)
            .find(|prefix| prefix.contains("::"));
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
    Bound {
        value: Span,
        before: String,
        after: String,
    },
}

/// `return f();` and `break f();`: the value is bound, and left with afterwards.
pub(super) fn leaves(text: &str, expr: &Expr, semi: bool) -> Option<Ending> {
    let (ExprKind::Return(Some(value))
    | ExprKind::Break {
        value: Some(value), ..
    }) = &expr.kind
    else {
        return None;
    };
    let before = text[expr.span.lo..value.span.lo].to_owned();
    Some(Ending::Bound {
        value: value.span,
        before,
        after: if semi { ";".into() } else { String::new() },
    })
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

pub(super) fn bind(
    draft: &mut Draft,
    tree: &Tree<'_>,
    file: usize,
    frame: &Frame,
    bound: &Bound<'_>,
) {
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
    if text.contains('\n') {
        text.split_whitespace().collect::<Vec<_>>().concat()
    } else {
        text.to_owned()
    }
}
