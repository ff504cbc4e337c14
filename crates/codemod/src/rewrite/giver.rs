//! Which branch says what type a value has.
//!
//! `match m { Gpu(_) => Vec::new(), _ => vec![1_u8] }`: the arm that stays leaves the element open, and one that goes said
//! it. Where nothing around the value says it either, what is left would not compile; it stays as it is, and is reported.

use super::nodes::{Owner, Parent};
use super::*;
use crate::syntax::{Arm, Block, MacroArgs, Name, StmtKind};

/// Uses of locals are followed from one `let` to the next so far.
const MAX_LETS: usize = 8;

/// Methods whose result is what somebody asks for.
const ASKED: &[&str] = &[
    "collect", "default", "into", "parse", "product", "sum", "try_into",
];

impl<'a> Cx<'a> {
    /// Whether taking the branches `kept` alone would leave a `match` or an `if` without a type.
    pub fn loses_type(&self, expr: &Expr, kept: &[&Expr], dropped: &[&Expr]) -> bool {
        !kept.is_empty()
            && kept.iter().all(|branch| self.is_open(branch))
            && dropped.iter().any(|branch| {
                let other = kept.iter().any(|kept| is_other_side(kept, branch));
                (other || !self.is_open(branch)) && !self.diverges(branch)
            })
            && !self.is_expected(expr, kept, 0)
    }

    /// The same for the arms of a match.
    pub fn arms_lose_type(&self, expr: &Expr, arms: &[Arm], live: &[usize]) -> bool {
        let (kept, dropped): (Vec<_>, Vec<_>) = arms
            .iter()
            .enumerate()
            .partition(|(at, _)| live.contains(at));
        let bodies = |arms: &[(usize, &'_ Arm)]| -> Vec<Expr> {
            arms.iter().map(|(_, arm)| arm.body.clone()).collect()
        };
        let (kept, dropped) = (bodies(&kept), bodies(&dropped));
        self.loses_type(
            expr,
            &kept.iter().collect::<Vec<_>>(),
            &dropped.iter().collect::<Vec<_>>(),
        )
    }

    /// The same for an `if`, of which the first branch is kept or the other.
    pub fn loses_to_else(
        &self,
        expr: &Expr,
        then: &Block,
        alt: Option<&Expr>,
        first: bool,
    ) -> bool {
        let (Some(then), Some(alt)) = (Self::tail(then), alt) else {
            return false;
        };
        let (kept, dropped) = if first { (then, alt) } else { (alt, then) };
        self.loses_type(expr, &[kept], &[dropped])
    }

    /// Whether a place belongs to the patterns or the scrutinee of something that [`Cx::loses_type`] holds back.
    pub fn is_held_for_its_type(&self, place: Span) -> bool {
        self.nodes.exprs.iter().any(|outer| match &outer.kind {
            ExprKind::Match {
                arms, scrutinee, ..
            } => {
                let in_head = scrutinee.span.contains(place)
                    || arms.iter().any(|arm| arm.pat.span.contains(place));
                in_head && (0..arms.len()).any(|at| self.arms_lose_type(outer, arms, &[at]))
            }
            ExprKind::If {
                cond, then, alt, ..
            } => {
                cond.span.contains(place)
                    && [true, false]
                        .into_iter()
                        .any(|first| self.loses_to_else(outer, then, alt.as_deref(), first))
            }
            _ => false,
        })
    }

    fn tail(block: &Block) -> Option<&Expr> {
        match &block.stmts.last()?.kind {
            StmtKind::Expr { expr, semi: false } => Some(expr),
            _ => None,
        }
    }

    fn open_block(&self, block: &Block) -> bool {
        Self::tail(block).is_some_and(|tail| self.is_open(tail))
    }

    /// Whether the type of an expression has a part that it does not say itself.
    fn is_open(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Path(path) => {
                path.last().name.text == "None" && path.segs.iter().all(|seg| seg.args.is_none())
            }
            ExprKind::Call { callee, args } => {
                let ExprKind::Path(path) = &callee.kind else {
                    return false;
                };
                if path.qself.is_some() || path.segs.iter().any(|seg| seg.args.is_some()) {
                    return false;
                }
                match path.last().name.text.as_str() {
                    "Ok" | "Err" => true,
                    "Some" => args.iter().all(|arg| self.is_open(arg)),
                    name => {
                        let says_nothing = args
                            .iter()
                            .all(|arg| matches!(arg.kind, ExprKind::Lit(_)) || self.is_open(arg));
                        let generic =
                            matches!(self.an.ty(expr), Type::Adt(_, params) if !params.is_empty());
                        let of_trait = name == "default"
                            && path.segs.len() == 2
                            && path.segs[0].name.text == "Default";
                        says_nothing && (generic || of_trait)
                    }
                }
            }
            ExprKind::MethodCall {
                recv,
                method,
                turbofish: None,
                ..
            } => match method.text.as_str() {
                "unwrap" | "expect" | "unwrap_or_default" => self.is_open(recv),
                name => ASKED.contains(&name),
            },
            ExprKind::Try(inner) | ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } => {
                self.is_open(inner)
            }
            ExprKind::Array(elems) => elems.is_empty(),
            ExprKind::Tuple(parts) => parts.iter().any(|part| self.is_open(part)),
            ExprKind::Macro(mac) => {
                mac.path.last().name.text == "vec"
                    && matches!(&mac.args, MacroArgs::Exprs { args, .. } if args.is_empty())
            }
            ExprKind::Block { block, .. } => self.open_block(block),
            ExprKind::If {
                then,
                alt: Some(alt),
                ..
            } => self.open_block(then) && self.is_open(alt),
            ExprKind::Match { arms, .. } => {
                !arms.is_empty() && arms.iter().all(|arm| self.is_open(&arm.body))
            }
            _ => false,
        }
    }

    /// Gives no value at all.
    fn diverges(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Return(_) | ExprKind::Break { .. } | ExprKind::Continue { .. } => true,
            ExprKind::Macro(mac) => matches!(
                mac.path.last().name.text.as_str(),
                "panic" | "unreachable" | "todo" | "unimplemented" | "bail"
            ),
            ExprKind::Paren(inner) => self.diverges(inner),
            ExprKind::Block { block, .. } => {
                block.stmts.last().is_some_and(|last| match &last.kind {
                    StmtKind::Expr { expr, .. } => self.diverges(expr),
                    _ => false,
                })
            }
            _ => *self.an.ty(expr) == Type::Never,
        }
    }

    /// Whether what stands around a value says its type.
    fn is_expected(&self, expr: &Expr, kept: &[&Expr], depth: usize) -> bool {
        if depth > 64 {
            return false;
        }
        let up = |outer: &Expr| self.is_expected(outer, kept, depth + 1);
        // `Ok(x)?` and its like are folded.
        let folds = kept.iter().all(|branch| is_ok(branch));
        match self.nodes.parent(expr) {
            None | Some(Parent::Const | Parent::Diverge { .. }) => true,
            Some(Parent::Init { stmt, .. }) => match &stmt.kind {
                StmtKind::Let { ty: Some(_), .. } => true,
                StmtKind::Let { pat, .. } => match &pat.kind {
                    crate::syntax::PatKind::Ident {
                        name, sub: None, ..
                    } => self.uses_say(name, depth),
                    _ => false,
                },
                _ => false,
            },
            Some(Parent::Stmt { stmt, block, at }) => {
                let is_tail = at + 1 == block.stmts.len()
                    && matches!(stmt.kind, StmtKind::Expr { semi: false, .. });
                is_tail
                    && match self.nodes.owners.get(&block.span.lo) {
                        Some(Owner::Function(_)) => true,
                        Some(Owner::Expr(outer)) => match &outer.kind {
                            ExprKind::If { .. } | ExprKind::Block { .. } => up(outer),
                            _ => true,
                        },
                        None => false,
                    }
            }
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::Paren(_)
                | ExprKind::Block { .. }
                | ExprKind::Ref { .. }
                | ExprKind::Tuple(_) => up(outer),
                ExprKind::Try(_) => folds || up(outer),
                ExprKind::Array(elems) => elems.len() > 1 || up(outer),
                ExprKind::Match { scrutinee, .. } => scrutinee.id != expr.id && up(outer),
                ExprKind::If { cond, .. } => cond.id == expr.id || up(outer),
                ExprKind::Closure { ret, .. } => ret.is_some(),
                ExprKind::Call { callee, .. } => match &callee.kind {
                    ExprKind::Path(path) => match path.last().name.text.as_str() {
                        "Some" | "Ok" | "Err" | "new" | "from" => up(outer),
                        _ => true,
                    },
                    _ => true,
                },
                ExprKind::MethodCall { recv, .. } => recv.id != expr.id || folds,
                ExprKind::Return(_)
                | ExprKind::Struct { .. }
                | ExprKind::Binary { .. }
                | ExprKind::Cast { .. }
                | ExprKind::Range { .. }
                | ExprKind::Not(_)
                | ExprKind::Neg(_)
                | ExprKind::Deref(_)
                | ExprKind::While { .. } => true,
                ExprKind::Assign { rhs, .. } => rhs.id == expr.id,
                ExprKind::Index { index, .. } => index.id == expr.id,
                ExprKind::Macro(mac) => matches!(
                    mac.path.last().name.text.as_str(),
                    "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne"
                ),
                _ => false,
            },
        }
    }

    /// Whether a use of a local says its type.
    fn uses_say(&self, name: &Name, depth: usize) -> bool {
        let Some(&local) = self.an.bound_at.get(&name.span.lo) else {
            return false;
        };
        depth < MAX_LETS
            && self.an.locals[local].uses.iter().any(|at| {
                let Some(used) = at.expr.and_then(|id| self.nodes.by_id.get(&id)) else {
                    return false;
                };
                match self.nodes.parent(used) {
                    // What is pushed or compared says what is held.
                    Some(Parent::Expr(Expr {
                        kind: ExprKind::MethodCall { recv, args, .. },
                        ..
                    })) if recv.id == used.id => !args.is_empty(),
                    Some(Parent::Expr(Expr {
                        kind: ExprKind::Assign { lhs, .. },
                        ..
                    })) if lhs.id == used.id => true,
                    _ => self.is_expected(used, &[used], depth + 1),
                }
            })
    }
}

fn is_ok(expr: &Expr) -> bool {
    matches!(constructor(expr), Some("Ok" | "Some"))
}

/// `Ok(_)` and `Err(_)` each say half of a type.
fn is_other_side(one: &Expr, other: &Expr) -> bool {
    matches!(
        (constructor(one), constructor(other)),
        (Some("Ok"), Some("Err")) | (Some("Err"), Some("Ok"))
    )
}

/// The name that is called where a branch gives its value.
fn constructor(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Call { callee, .. } => match &callee.kind {
            ExprKind::Path(path) => Some(path.last().name.text.as_str()),
            _ => None,
        },
        ExprKind::Paren(inner) => constructor(inner),
        ExprKind::Block { block, .. } => match &block.stmts.last()?.kind {
            StmtKind::Expr { expr, semi: false } => constructor(expr),
            _ => None,
        },
        _ => None,
    }
}
