//! From what is there to what a person would have written: the rewrites of expressions, patterns and statements.
//!
//! One round looks at a file from the outside in and proposes edits that do not overlap; what they leave to be done is
//! seen in the next round, on the new text. Old types stand until the end, so that inference goes on working; their names
//! are replaced last, by [`names`](crate::names).

pub mod collapse;
pub mod emit;
pub mod fold;
pub mod giver;
mod indices;
pub mod known;
mod moved;
pub mod nodes;
pub mod pats;
mod places;
pub mod rules;

use crate::analysis::Analysis;
use crate::edit::{Edit, EditGroup, Rope};
use crate::syntax::{Expr, ExprKind, File, Span};
use crate::world::{Type, World};

use nodes::{Nodes, Parent, Prec, needed};
pub use rules::{EnumRule, Retired, Rules, WrapperRule};

/// All that a round over one file looks at.
#[derive(Debug)]
pub struct Cx<'a> {
    pub world: &'a World,
    pub rules: &'a Rules,
    pub id: crate::world::FileId,
    pub file: &'a File,
    pub text: &'a str,
    pub an: &'a Analysis,
    pub nodes: Nodes<'a>,
    pub rope: &'a Rope,
    /// Stretches that must stay as they are.
    pub frozen: &'a [Span],
}

impl<'a> Cx<'a> {
    pub fn src(&self, span: Span) -> &'a str {
        span.text(self.text)
    }

    pub fn is_frozen(&self, span: Span) -> bool {
        self.frozen.iter().any(|frozen| frozen.overlaps(span))
    }

    /// Whether evaluating the expression does nothing but give its value, so that it may go.
    ///
    /// An index is checked, which somebody may notice, unless it is known to hold.
    pub fn is_pure(&self, expr: &Expr) -> bool {
        self.does_nothing(expr, false)
    }

    /// Whether evaluating the expression gives its value and may panic over an index: it may be repeated.
    pub fn only_looks(&self, expr: &Expr) -> bool {
        self.does_nothing(expr, true)
    }

    fn does_nothing(&self, expr: &Expr, checks: bool) -> bool {
        let pure = |expr: &Expr| self.does_nothing(expr, checks);
        match &expr.kind {
            ExprKind::Lit(_) | ExprKind::Path(_) => true,
            ExprKind::Field { base, .. } => pure(base),
            ExprKind::Index { base, index } => {
                self.is_place(expr) && pure(base) && (checks || self.index_holds(base, index))
            }
            ExprKind::Ref { inner, .. }
            | ExprKind::Deref(inner)
            | ExprKind::Paren(inner)
            | ExprKind::Not(inner)
            | ExprKind::Neg(inner) => pure(inner),
            ExprKind::Cast { inner, .. } => pure(inner),
            ExprKind::Let { value, .. } => pure(value),
            ExprKind::Binary { lhs, rhs, op, .. } => {
                *op != crate::syntax::BinOp::AssignOp && pure(lhs) && pure(rhs)
            }
            ExprKind::Tuple(exprs) => exprs.iter().all(pure),
            ExprKind::MethodCall { recv, args, .. } => {
                self.an
                    .methods
                    .get(&expr.id)
                    .is_some_and(|hit| hit.def.pure)
                    && pure(recv)
                    && args.iter().all(pure)
            }
            ExprKind::Macro(mac) => match &mac.args {
                crate::syntax::MacroArgs::Matches { value, guard, .. } => {
                    pure(value) && guard.as_ref().is_none_or(|guard| pure(guard))
                }
                _ => false,
            },
            ExprKind::Closure { .. } => true,
            _ => false,
        }
    }

    /// A path or a chain of fields: as good as a name.
    pub fn is_place(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Path(_) => true,
            ExprKind::Field { base, .. } => self.is_place(base),
            ExprKind::Paren(inner) | ExprKind::Deref(inner) => self.is_place(inner),
            ExprKind::Index { base, index } => {
                self.is_place(base) && matches!(index.kind, ExprKind::Lit(_) | ExprKind::Path(_))
            }
            _ => false,
        }
    }

    pub fn retired(&self, ty: &Type) -> Option<Retired<'a>> {
        self.rules.retired(self.world, ty)
    }

    /// `text` in the place of `expr`, in parentheses where its surroundings hold tighter.
    pub fn fit(&self, expr: &Expr, text: String, prec: Prec, block_like: bool) -> String {
        let need = match self.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => needed(outer, expr),
            _ => Prec::Loose,
        };
        if prec < need || (block_like && need > Prec::Loose) {
            format!("({text})")
        } else {
            text
        }
    }

    /// Whether a stretch of text may be replaced: not frozen.
    pub fn edit(&self, span: Span, text: impl Into<String>, rule: &str) -> Option<EditGroup> {
        (!self.is_frozen(span)).then(|| EditGroup::one(Edit::new(span, text, rule)))
    }

    /// The proposals of one round.
    pub fn round(&self) -> Vec<EditGroup> {
        let mut taken: Vec<Span> = Vec::new();
        let mut groups = Vec::new();
        let mut offer = |group: Option<EditGroup>, groups: &mut Vec<EditGroup>| {
            let Some(group) = group else { return };
            if group.edits.iter().any(|edit| {
                taken.iter().any(|span| {
                    span.overlaps(edit.span) || (edit.span.is_empty() && span.contains(edit.span))
                })
            }) {
                return;
            }
            // A group that spans much may hold what another would edit in between: it takes all of its room.
            taken.push(group.span());
            groups.push(group);
        };
        for at in &self.nodes.lets {
            offer(
                self.collapse_let(at)
                    .or_else(|| self.assigned_at_once(at))
                    .or_else(|| self.let_and_return(at))
                    .or_else(|| self.same_again(at))
                    .or_else(|| self.asked_by_a_let(at))
                    .or_else(|| self.checked_again(at)),
                &mut groups,
            );
        }
        // Patterns of parameters.
        for (_, f) in &self.nodes.functions {
            for param in &f.sig.params {
                offer(self.rewrite_param(&param.pat), &mut groups);
            }
        }
        for expr in &self.nodes.exprs {
            offer(self.rewrite_expr(expr), &mut groups);
        }
        for block in &self.nodes.blocks {
            offer(self.behind_a_jump(block), &mut groups);
        }
        groups
    }

    fn rewrite_expr(&self, expr: &'a Expr) -> Option<EditGroup> {
        let bound = match &expr.kind {
            ExprKind::Closure { params, .. } => {
                params.iter().find_map(|(pat, _)| self.rewrite_param(pat))
            }
            ExprKind::For { pat, .. } => self.rewrite_param(pat),
            _ => None,
        };
        if bound.is_some() {
            return bound;
        }
        self.fold(expr)
            .or_else(|| self.reduce(expr))
            .or_else(|| self.collapse(expr))
    }
}
