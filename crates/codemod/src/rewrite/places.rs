//! What happens to a place between two moments, and what a value keeps alive.
//!
//! A binding may be replaced by the place that it stands for only if that place is the same wherever the binding is used;
//! a scrutinee may become a statement only if what it holds (a lock's guard, say) lives as long as it did.

use super::known::Payload;
use super::*;
use crate::analysis::LocalId;
use crate::syntax::{BinOp, MacroArgs, ReceiverKind, StmtKind};

/// Macros that only look at their arguments.
const READING_MACROS: &[&str] = &[
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "format_args",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "vec",
    "matches",
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "log",
    "anyhow",
    "bail",
    "ensure",
    "concat",
    "stringify",
];

/// Methods of types that are not known which do not change what they are called on.
const READING_METHODS: &[&str] = &[
    "clone",
    "to_owned",
    "to_string",
    "as_ref",
    "as_str",
    "as_slice",
    "len",
    "is_empty",
    "iter",
    "capacity",
    "get",
    "first",
    "last",
    "contains",
    "contains_key",
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "lock",
    "read",
    "write",
    "borrow",
    "borrow_mut",
    "load",
    "store",
];

/// Something that may change a place: from where on, the local's use, and the fields that were gone through.
struct Write {
    from: usize,
    span: Span,
    fields: Vec<String>,
}

impl<'a> Cx<'a> {
    /// Whether what the payload names is the same at each use of the binding as where it was bound.
    pub(super) fn stays_until_used(&self, region: Span, local: LocalId, payload: &Payload) -> bool {
        let uses: Vec<Span> = self.an.locals[local]
            .uses
            .iter()
            .map(|at| at.span)
            .filter(|span| region.contains(*span))
            .collect();
        if uses.is_empty() {
            return true;
        }
        for (id, named) in self.an.locals.iter().enumerate() {
            for at in named
                .uses
                .iter()
                .filter(|at| payload.span.contains(at.span))
            {
                let fields = at
                    .expr
                    .and_then(|id| self.nodes.by_id.get(&id).copied())
                    .map(|expr| self.climb(expr).1)
                    .unwrap_or_default();
                let writes = self.writes_to(id, region);
                let meets = |write: &Write| {
                    let same = write
                        .fields
                        .iter()
                        .zip(&fields)
                        .take_while(|(a, b)| a == b)
                        .count();
                    (same == write.fields.len() || same == fields.len())
                        && uses
                            .iter()
                            .any(|at| self.may_come_before(write, *at, region))
                };
                if writes.iter().any(meets) {
                    return false;
                }
            }
        }
        true
    }

    /// In the order of the text, round a loop, or whenever a closure is called.
    fn may_come_before(&self, write: &Write, used: Span, region: Span) -> bool {
        write.from <= used.lo
            || self.nodes.exprs.iter().any(|outer| {
                region.contains(outer.span)
                    && outer.span.contains(used)
                    && match outer.kind {
                        ExprKind::Closure { .. } => true,
                        ExprKind::Loop { .. } | ExprKind::While { .. } | ExprKind::For { .. } => {
                            outer.span.contains(write.span)
                        }
                        _ => false,
                    }
            })
    }

    fn writes_to(&self, id: LocalId, region: Span) -> Vec<Write> {
        let local = &self.an.locals[id];
        let through = matches!(local.ty, Type::Ref(true, _) | Type::Ptr(_));
        if !local.mutable && !through && local.ty.is_known() {
            return vec![];
        }
        let mut out: Vec<Write> = local
            .uses
            .iter()
            .filter(|at| region.contains(at.span))
            .filter_map(|at| {
                let expr = self.nodes.by_id.get(&at.expr?).copied()?;
                let (top, fields) = self.climb(expr);
                Some(Write {
                    from: self.written_from(top)?,
                    span: at.span,
                    fields,
                })
            })
            .collect();
        out.extend(self.opaque_mentions(&local.name, region).map(|span| Write {
            from: span.lo,
            span,
            fields: vec![],
        }));
        out
    }

    /// Tokens that nobody parsed, where they hold a name.
    pub(super) fn opaque_mentions(&self, name: &str, region: Span) -> impl Iterator<Item = Span> {
        self.nodes
            .exprs
            .iter()
            .filter_map(move |expr| match &expr.kind {
                ExprKind::Macro(mac)
                    if matches!(mac.args, MacroArgs::Opaque)
                        && region.contains(expr.span)
                        && self
                            .file
                            .idents
                            .iter()
                            .any(|ident| ident.text == name && mac.inner.contains(ident.span)) =>
                {
                    Some(expr.span)
                }
                _ => None,
            })
    }

    /// From a local's use up to the place that is used, with the fields on the way to the first step of another kind.
    fn climb<'e>(&'e self, expr: &'e Expr) -> (&'e Expr, Vec<String>) {
        let mut at = expr;
        let mut fields = Vec::new();
        let mut known = true;
        while let Some(Parent::Expr(outer)) = self.nodes.parent(at) {
            match &outer.kind {
                ExprKind::Paren(_) | ExprKind::Deref(_) => {}
                ExprKind::Field { member, .. } => {
                    if known {
                        fields.push(member.text.clone());
                    }
                }
                ExprKind::Index { base, .. } if base.id == at.id => known = false,
                _ => break,
            }
            at = outer;
        }
        (at, fields)
    }

    /// If what is done with a place may change it: from where on.
    fn written_from(&self, place: &Expr) -> Option<usize> {
        let is_mut_ref = matches!(self.an.ty(place), Type::Ref(true, _));
        let Some(Parent::Expr(outer)) = self.nodes.parent(place) else {
            // Moved or lent on, where it is a `&mut`.
            return is_mut_ref.then_some(place.span.hi);
        };
        match &outer.kind {
            ExprKind::Assign { lhs, .. }
            | ExprKind::Binary {
                op: BinOp::AssignOp,
                lhs,
                ..
            } if lhs.id == place.id => Some(outer.span.hi),
            ExprKind::Ref { mutable, .. } => mutable.then_some(outer.span.lo),
            ExprKind::RawRef(_) => Some(outer.span.lo),
            ExprKind::MethodCall { recv, method, .. } if recv.id == place.id => {
                let writes = match self.an.methods.get(&outer.id) {
                    Some(hit) => match hit.def.sig.receiver.as_ref().map(|it| it.kind) {
                        Some(ReceiverKind::Ref) => false,
                        Some(ReceiverKind::RefMut) => true,
                        _ => is_mut_ref,
                    },
                    None => {
                        !READING_METHODS.contains(&method.text.as_str())
                            && !matches!(self.an.ty(place), Type::Prim(_))
                    }
                };
                writes.then_some(outer.span.hi)
            }
            ExprKind::Macro(mac) => (!READING_MACROS.contains(&mac.path.last().name.text.as_str()))
                .then_some(outer.span.lo),
            _ => is_mut_ref.then_some(outer.span.hi),
        }
    }

    /// Whether the next thing done with the payload's whole place is to give it a new value.
    pub(super) fn given_anew(&self, payload: &Payload, later: &[Span]) -> bool {
        let Some(first) = later.iter().min_by_key(|span| span.lo) else {
            return false;
        };
        let assign = self.nodes.exprs.iter().find_map(|expr| match &expr.kind {
            ExprKind::Assign { lhs, rhs }
                if lhs.span.lo == first.lo && self.src(lhs.span) == payload.base.text =>
            {
                Some((*expr, rhs))
            }
            _ => None,
        });
        let Some((assign, rhs)) = assign else {
            return false;
        };
        match self.nodes.parent(assign) {
            Some(Parent::Stmt { block, .. }) => {
                let returns = block.stmts.last().is_some_and(|last| {
                    matches!(&last.kind, StmtKind::Expr { expr, .. } if matches!(expr.kind, ExprKind::Return(_)))
                });
                later.iter().all(|span| {
                    (block.span.contains(*span) && !rhs.span.contains(*span))
                        || (returns && span.lo >= block.span.hi)
                })
            }
            _ => false,
        }
    }
}
