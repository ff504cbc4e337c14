//! Values that a match moves into a binding: they are dropped at the end of its arm.
//!
//! Where the place that they came from stands for the binding, they live as long as that place. Where somebody may tell
//! (a batch of a pool, memory of a device, a lock), the binding stays.

use super::known::{Mode, Payload};
use super::*;
use crate::analysis::{LocalId, LocalKind};
use crate::syntax::{MacroArgs, ReceiverKind};

/// Methods of options and results that call nothing.
const OPENING_METHODS: &[&str] = &[
    "unwrap",
    "expect",
    "unwrap_or",
    "unwrap_or_default",
    "ok_or",
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "copied",
];

impl<'a> Cx<'a> {
    /// Whether what a binding owns would be seen to live longer were the binding replaced by its place in these regions.
    pub(super) fn outlives(&self, payload: &Payload, local: LocalId, regions: &[Span]) -> bool {
        let is_moved = payload.place
            && matches!(payload.mode, Mode::Place | Mode::Move)
            && self.drop_is_seen(&payload.ty);
        let (true, Some(root), Some(whole)) = (
            is_moved,
            payload.root,
            regions.iter().copied().reduce(Span::to),
        ) else {
            return false;
        };
        let Some(construct) = self.smallest_around(payload.span.to(whole)) else {
            return false;
        };
        let Some(scope) = self.scope_of(root, construct) else {
            return false;
        };
        if self.is_moved_on(local, whole) || !scope.contains(construct.span) {
            return false;
        }
        let behind = Span::new(construct.span.hi, scope.hi);
        let told = self.nodes.exprs.iter().any(|expr| {
            let around = scope.contains(expr.span)
                && expr.span.contains(construct.span)
                && expr.id != construct.id
                && expr.span != scope;
            (around || behind.contains(expr.span)) && !self.tells_nothing(expr)
        });
        told || self.is_dropped_after_others(root, construct)
    }

    fn smallest_around(&self, span: Span) -> Option<&'a Expr> {
        self.nodes
            .exprs
            .iter()
            .filter(|expr| expr.span.contains(span))
            .min_by_key(|expr| expr.span.len())
            .copied()
    }

    /// From where a local is bound to where it is dropped, as far as `at` is in it.
    fn scope_of(&self, local: LocalId, at: &Expr) -> Option<Span> {
        let local = &self.an.locals[local];
        match local.kind {
            LocalKind::Let => self
                .nodes
                .lets
                .iter()
                .find(|bound| bound.stmt.span.contains(local.span))
                .map(|bound| Span::new(bound.stmt.span.hi, bound.block.span.hi)),
            LocalKind::Param | LocalKind::SelfParam => self
                .an
                .functions
                .get(local.function)
                .map(|function| function.span),
            LocalKind::ClosureParam | LocalKind::Pattern => {
                let outer = self.smallest_around(local.span.to(at.span))?;
                let arm = match &outer.kind {
                    ExprKind::Match { arms, .. } => arms
                        .iter()
                        .find(|arm| arm.span.contains(at.span))
                        .map(|arm| arm.span),
                    _ => None,
                };
                Some(arm.unwrap_or(outer.span))
            }
        }
    }

    /// Whether the value goes elsewhere in any case: given to a call, returned, put into something.
    fn is_moved_on(&self, local: LocalId, region: Span) -> bool {
        self.an.locals[local]
            .uses
            .iter()
            .filter(|at| region.contains(at.span))
            .filter_map(|at| self.nodes.by_id.get(&at.expr?).copied())
            .any(|expr| self.takes_the_value(expr) && self.is_unconditional(expr, region))
    }

    fn takes_the_value(&self, expr: &Expr) -> bool {
        match self.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::Paren(_) => self.takes_the_value(outer),
                ExprKind::Call { .. }
                | ExprKind::Struct { .. }
                | ExprKind::Tuple(_)
                | ExprKind::Array(_)
                | ExprKind::Return(_)
                | ExprKind::Break { .. } => true,
                ExprKind::Assign { rhs, .. } => rhs.id == expr.id,
                ExprKind::MethodCall { recv, .. } => {
                    recv.id != expr.id
                        || self.an.methods.get(&outer.id).is_some_and(|hit| {
                            matches!(
                                hit.def.sig.receiver.as_ref().map(|it| it.kind),
                                Some(ReceiverKind::Value)
                            )
                        })
                }
                // The arm's value.
                ExprKind::Match { scrutinee, .. } => scrutinee.id != expr.id,
                _ => false,
            },
            Some(Parent::Stmt { stmt, .. }) => {
                matches!(stmt.kind, crate::syntax::StmtKind::Expr { semi: false, .. })
            }
            Some(Parent::Init { stmt, .. }) => {
                !matches!(&stmt.kind, crate::syntax::StmtKind::Let { pat, .. } if matches!(pat.kind, crate::syntax::PatKind::Wild))
            }
            _ => false,
        }
    }

    fn is_unconditional(&self, expr: &Expr, region: Span) -> bool {
        !self.nodes.exprs.iter().any(|outer| {
            region.contains(outer.span)
                && outer.span.contains(expr.span)
                && matches!(
                    outer.kind,
                    ExprKind::If { .. }
                        | ExprKind::Match { .. }
                        | ExprKind::While { .. }
                        | ExprKind::For { .. }
                        | ExprKind::Loop { .. }
                        | ExprKind::Closure { .. }
                        | ExprKind::Binary {
                            op: crate::syntax::BinOp::And | crate::syntax::BinOp::Or,
                            ..
                        }
                )
        })
    }

    /// Whether an expression does nothing, apart from what is in it, by which a value could be seen to be there still.
    fn tells_nothing(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call { callee, .. } => {
                matches!(&callee.kind, ExprKind::Path(path) if path.last().name.text.starts_with(char::is_uppercase))
            }
            ExprKind::MethodCall { method, .. } => {
                OPENING_METHODS.contains(&method.text.as_str())
                    || self
                        .an
                        .methods
                        .get(&expr.id)
                        .is_some_and(|hit| hit.def.pure)
            }
            ExprKind::Macro(mac) => {
                matches!(mac.args, MacroArgs::Matches { .. }) || mac.path.last().name.text == "vec"
            }
            ExprKind::Assign { lhs, .. } => {
                self.is_place(lhs) && !self.drop_is_seen(self.an.ty(lhs))
            }
            ExprKind::Await(_)
            | ExprKind::Loop { .. }
            | ExprKind::While { .. }
            | ExprKind::For { .. }
            | ExprKind::Other => false,
            ExprKind::Block { flavour, .. } => {
                matches!(flavour, crate::syntax::BlockFlavour::Plain)
            }
            _ => true,
        }
    }

    /// Whether something that was made later, and dropped later than the binding, would be dropped before its place.
    fn is_dropped_after_others(&self, root: LocalId, construct: &Expr) -> bool {
        let owner = &self.an.locals[root];
        self.an.locals.iter().any(|other| {
            other.function == owner.function
                && matches!(other.kind, LocalKind::Let)
                && other.span.lo > owner.span.lo
                && other.span.hi < construct.span.lo
                && other.ty.is_known()
                && self.drop_is_seen(&other.ty)
        })
    }
}
