//! Indices: each is checked against the length, and a check that is gone is a panic that is gone.

use super::known::Payload;
use super::*;
use crate::analysis::LocalId;
use crate::syntax::{BinOp, Block, LitKind, MacroArgs, PatKind, StmtKind};

/// Macros that evaluate their arguments first, in their order, whatever is configured.
const EVALUATING_MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "panic",
    "vec",
];

/// What comes first when something is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// What is looked for.
    Found,
    /// Something that does more than give a value, or that may not be evaluated.
    Other,
    /// Neither: what follows it is to be asked.
    Nothing,
}

impl First {
    fn then(self, next: impl FnOnce() -> First) -> First {
        match self {
            First::Nothing => next(),
            first => first,
        }
    }
}

impl<'a> Cx<'a> {
    /// Whether an index is known to be below the length.
    pub(super) fn index_holds(&self, base: &Expr, index: &Expr) -> bool {
        let in_a_row = match self.an.ty(base).peeled() {
            Type::Slice(_) => true,
            Type::Adt(def, _) => Some(*def) == self.world.canonical("std::vec::Vec"),
            _ => false,
        };
        in_a_row && (self.is_counted(base, index) || self.is_compared(base, index))
    }

    /// `memories[i]` in `for i in 0..memories.len()`
    fn is_counted(&self, base: &Expr, index: &Expr) -> bool {
        let (Some(all), Some(at)) = (self.an.local(base), self.an.local(index)) else {
            return false;
        };
        let counter = &self.an.locals[at];
        !counter.mutable
            && self.nodes.exprs.iter().any(|outer| match &outer.kind {
                ExprKind::For {
                    pat, iter, body, ..
                } => {
                    matches!(&pat.kind, PatKind::Ident { name, by_ref: false, sub: None, .. } if name.span == counter.span)
                        && self.is_range_over(iter, all)
                        && self.keeps_its_length(all, body)
                }
                _ => false,
            })
    }

    /// `memories[i]` in `i < memories.len() && memories[i].is_empty()`
    fn is_compared(&self, base: &Expr, index: &Expr) -> bool {
        let same = |a: &Expr, b: &Expr| {
            self.src(a.span) == self.src(b.span) && self.locals_in(a) == self.locals_in(b)
        };
        let is_len = |expr: &Expr| {
            matches!(&expr.kind, ExprKind::MethodCall { recv, method, args, .. }
                if method.text == "len" && args.is_empty() && same(recv, base))
        };
        let tells = |link: &Expr| match &link.kind {
            ExprKind::Binary {
                op: BinOp::Compare,
                op_span,
                lhs,
                rhs,
            } => match self.src(*op_span) {
                "<" => same(lhs, index) && is_len(rhs),
                ">" => is_len(lhs) && same(rhs, index),
                _ => false,
            },
            ExprKind::Not(inner) => {
                self.src(index.span) == "0"
                    && matches!(&inner.kind, ExprKind::MethodCall { recv, method, args, .. }
                        if method.text == "is_empty" && args.is_empty() && same(recv, base))
            }
            _ => false,
        };
        // Up the chain; nothing in it changes anything.
        let mut at = base;
        while let Some(Parent::Expr(outer)) = self.nodes.parent(at) {
            if let ExprKind::Binary {
                op: BinOp::And,
                lhs,
                rhs,
                ..
            } = &outer.kind
                && rhs.id == at.id
            {
                let links = self.nodes.by_id.get(&lhs.id).map(|lhs| self.links(lhs));
                let told = links.is_some_and(|links| {
                    links
                        .iter()
                        .position(|link| tells(link))
                        .is_some_and(|nth| links[nth..].iter().all(|link| self.reads(link)))
                });
                if told {
                    return true;
                }
            }
            let goes_on = match &outer.kind {
                ExprKind::Paren(_)
                | ExprKind::Ref { .. }
                | ExprKind::Deref(_)
                | ExprKind::Not(_)
                | ExprKind::Field { .. }
                | ExprKind::Index { .. }
                | ExprKind::Let { .. }
                | ExprKind::Binary { op: BinOp::And, .. } => true,
                ExprKind::MethodCall { recv, .. } => recv.id == at.id,
                ExprKind::Macro(mac) => matches!(mac.args, MacroArgs::Matches { .. }),
                _ => false,
            };
            if !goes_on {
                return false;
            }
            at = outer;
        }
        false
    }

    /// Whether a condition changes nothing: comparisons of what is there, and questions.
    fn reads(&self, link: &Expr) -> bool {
        match &link.kind {
            ExprKind::Lit(_) | ExprKind::Path(_) => true,
            ExprKind::Paren(inner) | ExprKind::Not(inner) | ExprKind::Field { base: inner, .. } => {
                self.reads(inner)
            }
            ExprKind::Binary { op, lhs, rhs, .. } => {
                *op != BinOp::AssignOp && self.reads(lhs) && self.reads(rhs)
            }
            ExprKind::MethodCall {
                recv, method, args, ..
            } => {
                matches!(method.text.as_str(), "len" | "is_empty")
                    && args.is_empty()
                    && self.reads(recv)
            }
            _ => false,
        }
    }

    /// `0..all.len()`
    fn is_range_over(&self, iter: &Expr, all: LocalId) -> bool {
        match &iter.kind {
            ExprKind::Paren(inner) => self.is_range_over(inner, all),
            ExprKind::Range {
                start: Some(start),
                end: Some(end),
            } => {
                let between = self.src(Span::new(start.span.hi, end.span.lo)).trim();
                matches!(start.kind, ExprKind::Lit(LitKind::Int))
                    && between == ".."
                    && matches!(&end.kind, ExprKind::MethodCall { recv, method, args, .. }
                        if method.text == "len" && args.is_empty() && self.an.local(recv) == Some(all))
            }
            _ => false,
        }
    }

    /// Whether nothing in a block can change how many there are: elements are looked at and written, no more.
    fn keeps_its_length(&self, all: LocalId, block: &Block) -> bool {
        let local = &self.an.locals[all];
        let fixed = !local.mutable && !matches!(local.ty, Type::Ref(true, _));
        let unread = || self.opaque_mentions(&local.name, block.span).next();
        fixed
            || unread().is_none()
                && local
                    .uses
                    .iter()
                    .filter(|at| block.span.contains(at.span))
                    .all(|at| {
                        let expr = at.expr.and_then(|id| self.nodes.by_id.get(&id).copied());
                        let outer = expr.and_then(|expr| Some((expr, self.nodes.outer(expr)?)));
                        outer.is_some_and(|(expr, outer)| match &outer.kind {
                            ExprKind::Index { base, .. } => base.id == expr.id,
                            ExprKind::MethodCall { recv, method, .. } => {
                                recv.id == expr.id
                                    && matches!(
                                        method.text.as_str(),
                                        "len" | "is_empty" | "iter" | "iter_mut" | "first" | "last"
                                    )
                            }
                            _ => false,
                        })
                    })
    }

    /// Whether nothing is done to evaluate a payload but to check an index.
    pub(super) fn is_check(&self, payload: &Payload) -> bool {
        payload.effects
            && payload
                .expr
                .and_then(|id| self.nodes.by_id.get(&id))
                .is_some_and(|expr| self.only_looks(expr))
    }

    /// Whether the check of a payload's index, if there is one, stays where it was once a binding is replaced by the place.
    pub(super) fn check_stays(&self, payload: &Payload, region: Span, local: LocalId) -> bool {
        !self.is_check(payload) || self.is_checked_by_a_use(region, local)
    }

    /// Whether an index is checked before anything else is done: where a binding is first used, in the stretch that sees it.
    fn is_checked_by_a_use(&self, region: Span, local: LocalId) -> bool {
        let is_use = |expr: &Expr| self.an.local(expr) == Some(local);
        let block = self
            .nodes
            .blocks
            .iter()
            .find(|block| block.span == region)
            .map(|block| self.first_of_stmts(&block.stmts, &is_use));
        let first = block.or_else(|| {
            let expr = self.nodes.exprs.iter().find(|expr| expr.span == region)?;
            Some(self.first(expr, &is_use))
        });
        first == Some(First::Found)
    }

    /// Whether the statements that follow one look at the same element before they do anything else.
    pub(super) fn is_checked_next(&self, block: &'a Block, at: usize, place: &Expr) -> bool {
        let same = |expr: &Expr| {
            matches!(expr.kind, ExprKind::Index { .. })
                && self.src(expr.span) == self.src(place.span)
                && self.locals_in(expr) == self.locals_in(place)
        };
        self.first_of_stmts(&block.stmts[at + 1..], &same) == First::Found
    }

    fn locals_in(&self, expr: &Expr) -> Vec<LocalId> {
        let mut found = Vec::new();
        crate::analysis::walk(expr, &mut |inner| found.extend(self.an.local(inner)));
        found
    }

    fn first_of_stmts(
        &self,
        stmts: &[crate::syntax::Stmt],
        wanted: &dyn Fn(&Expr) -> bool,
    ) -> First {
        let mut first = First::Nothing;
        for stmt in stmts {
            first = first.then(|| match &stmt.kind {
                _ if !stmt.attrs.is_empty() => First::Other,
                StmtKind::Let { init, diverge, .. } => init
                    .as_ref()
                    .map_or(First::Nothing, |init| self.first(init, wanted))
                    .then(|| match diverge {
                        Some(_) => First::Other,
                        None => First::Nothing,
                    }),
                StmtKind::Expr { expr, .. } => self.first(expr, wanted),
                StmtKind::Item(_) => First::Nothing,
            });
        }
        first
    }

    /// In the order of evaluation.
    fn first(&self, expr: &Expr, wanted: &dyn Fn(&Expr) -> bool) -> First {
        if wanted(expr) {
            return First::Found;
        }
        let one = |expr: &Expr| self.first(expr, wanted);
        let all = |exprs: &[Expr]| {
            exprs
                .iter()
                .fold(First::Nothing, |first, expr| first.then(|| one(expr)))
        };
        let unless_pure = || {
            if self.only_looks(expr) {
                First::Nothing
            } else {
                First::Other
            }
        };
        match &expr.kind {
            _ if !expr.attrs.is_empty() => First::Other,
            ExprKind::Lit(_) | ExprKind::Path(_) | ExprKind::Closure { .. } => First::Nothing,
            ExprKind::Paren(inner)
            | ExprKind::Ref { inner, .. }
            | ExprKind::Deref(inner)
            | ExprKind::Not(inner)
            | ExprKind::Neg(inner)
            | ExprKind::Cast { inner, .. }
            | ExprKind::Field { base: inner, .. } => one(inner),
            ExprKind::Try(inner) | ExprKind::Await(inner) => one(inner).then(|| First::Other),
            ExprKind::Index { base, index } => one(base).then(|| one(index)).then(unless_pure),
            ExprKind::Tuple(exprs) | ExprKind::Array(exprs) => all(exprs),
            ExprKind::Struct { fields, rest, .. } => fields
                .iter()
                .fold(First::Nothing, |first, field| {
                    first.then(|| one(&field.value))
                })
                .then(|| rest.as_ref().map_or(First::Nothing, |rest| one(rest))),
            ExprKind::Call { callee, args } => one(callee).then(|| all(args)).then(|| First::Other),
            ExprKind::MethodCall { recv, args, .. } => {
                one(recv).then(|| all(args)).then(unless_pure)
            }
            ExprKind::Binary { op, lhs, rhs, .. } => match op {
                BinOp::And | BinOp::Or => one(lhs).then(unless_pure),
                BinOp::AssignOp => First::Other,
                _ => one(lhs).then(|| one(rhs)),
            },
            ExprKind::Assign { rhs, .. } => one(rhs).then(|| First::Other),
            ExprKind::Let { value, .. } => one(value).then(|| First::Other),
            ExprKind::If { cond, .. } | ExprKind::While { cond, .. } => {
                one(cond).then(|| First::Other)
            }
            ExprKind::Match { scrutinee, .. } => one(scrutinee).then(|| First::Other),
            ExprKind::For { iter, .. } => one(iter).then(|| First::Other),
            ExprKind::Loop { body, .. } => self
                .first_of_stmts(&body.stmts, wanted)
                .then(|| First::Other),
            ExprKind::Block {
                block,
                flavour: crate::syntax::BlockFlavour::Plain,
                ..
            } => self.first_of_stmts(&block.stmts, wanted),
            ExprKind::Return(Some(value)) => one(value).then(|| First::Other),
            ExprKind::Macro(mac) => {
                let name = mac.path.last().name.text.as_str();
                match &mac.args {
                    MacroArgs::Exprs { args, .. } if EVALUATING_MACROS.contains(&name) => {
                        let n = match name {
                            "assert" => 1,
                            "assert_eq" | "assert_ne" => 2,
                            _ => args.len(),
                        };
                        args.iter()
                            .take(n)
                            .fold(First::Nothing, |first, arg| first.then(|| one(&arg.value)))
                            .then(|| First::Other)
                    }
                    MacroArgs::Matches { value, .. } => one(value).then(|| First::Other),
                    _ => First::Other,
                }
            }
            _ => First::Other,
        }
    }
}
