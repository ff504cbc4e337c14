//! Constants that the rewrites brought about, and what follows from them.
//!
//! Only a `true` or `false` that this run wrote is folded: `if true` in somebody's code is theirs.

use super::emit::{Body, Rest};
use super::nodes::{Parent, prec};
use super::*;
use crate::edit::{Edit, EditGroup};
use crate::syntax::trivia::{self, indent_of};
use crate::syntax::{BinOp, BlockFlavour, LitKind, MacroArgs, Name, Stmt, StmtKind};

const RULE: &str = "fold-constant";

impl<'a> Cx<'a> {
    /// The value of a literal that this run wrote.
    pub fn constant(&self, expr: &Expr) -> Option<bool> {
        match &expr.kind {
            ExprKind::Lit(LitKind::Bool(value)) if self.rope.is_inserted(expr.span) => Some(*value),
            ExprKind::Paren(inner) => self.constant(inner),
            ExprKind::Path(_) => self.constant_local(expr),
            _ => None,
        }
    }

    /// The value of a local that this run has given one: `let on_gpu = memory.is_gpu();` before.
    fn constant_local(&self, expr: &Expr) -> Option<bool> {
        let local = &self.an.locals[self.an.local(expr)?];
        let bound = self
            .nodes
            .lets
            .iter()
            .find(|at| at.stmt.span.contains(local.span))?;
        let StmtKind::Let {
            pat,
            init: Some(init),
            diverge: None,
            ..
        } = &bound.stmt.kind
        else {
            return None;
        };
        let is_plain = matches!(&pat.kind, crate::syntax::PatKind::Ident { name, by_ref: false, mutable: false, sub: None } if name.span == local.span);
        match &init.kind {
            ExprKind::Lit(_) if is_plain => self.constant(init),
            _ => None,
        }
    }

    pub fn fold(&self, expr: &'a Expr) -> Option<EditGroup> {
        match &expr.kind {
            ExprKind::Not(inner) => {
                let value = self.constant(inner)?;
                self.edit(expr.span, (!value).to_string(), RULE)
            }
            ExprKind::Try(inner) => self.try_of_ok(expr, inner),
            ExprKind::Paren(inner) => {
                let value = self.constant(inner)?;
                self.edit(expr.span, value.to_string(), RULE)
            }
            ExprKind::Binary {
                op: op @ (BinOp::And | BinOp::Or),
                lhs,
                rhs,
                ..
            } => self.fold_logic(expr, *op == BinOp::And, lhs, rhs),
            ExprKind::Binary {
                op: op @ (BinOp::Eq | BinOp::Ne),
                lhs,
                rhs,
                ..
            } => {
                let is_bool = |expr: &Expr| matches!(expr.kind, ExprKind::Lit(LitKind::Bool(_)));
                let literal = |expr: &Expr| match expr.kind {
                    ExprKind::Lit(LitKind::Bool(value)) => Some(value),
                    _ => self.constant(expr),
                };
                let ours = self.constant(lhs).or(self.constant(rhs));
                ours?;
                match (literal(lhs), literal(rhs)) {
                    (Some(a), Some(b)) => self.edit(
                        expr.span,
                        ((a == b) == (*op == BinOp::Eq)).to_string(),
                        RULE,
                    ),
                    (Some(value), None) | (None, Some(value)) => {
                        let other = if is_bool(lhs) || self.constant(lhs).is_some() {
                            rhs
                        } else {
                            lhs
                        };
                        let keep = value == (*op == BinOp::Eq);
                        let text = self.src(other.span);
                        if keep {
                            let text = self.fit(expr, text.to_owned(), prec(other), false);
                            self.edit(expr.span, text, RULE)
                        } else {
                            let text = if prec(other) < Prec::Unary {
                                format!("!({text})")
                            } else {
                                format!("!{text}")
                            };
                            let text = self.fit(expr, text, Prec::Unary, false);
                            self.edit(expr.span, text, RULE)
                        }
                    }
                    (None, None) => None,
                }
            }
            ExprKind::If { .. } if self.asked_in_a_chain(expr).is_some() => {
                self.asked_in_a_chain(expr)
            }
            ExprKind::If {
                cond,
                alt: Some(alt),
                ..
            } if self.constant(cond).is_none() && self.asked(cond).is_none() => self.else_if(alt),
            ExprKind::If {
                cond, then, alt, ..
            } if self.asked(cond).is_some() => {
                let (first, value) = self.asked(cond)?;
                let body = match (value, alt) {
                    (true, _) => self.body_of_block(then, &[]),
                    (false, Some(alt)) => self.body_of(alt, &[]),
                    (false, None) => Body::Nothing,
                };
                self.emit(
                    expr,
                    Rest {
                        lets: vec![first.to_owned()],
                        body,
                        before: vec![],
                        after: None,
                        rule: RULE.into(),
                    },
                )
            }
            ExprKind::If {
                cond, then, alt, ..
            } if self
                .constant(cond)
                .is_some_and(|value| self.loses_to_else(expr, then, alt.as_deref(), value)) =>
            {
                None
            }
            ExprKind::If {
                cond, then, alt, ..
            } => match self.constant(cond)? {
                true => self.emit(
                    expr,
                    Rest {
                        lets: vec![],
                        body: self.body_of_block(then, &[]),
                        before: vec![],
                        after: None,
                        rule: RULE.into(),
                    },
                ),
                false => self.if_false(expr, alt.as_deref(), RULE),
            },
            ExprKind::While {
                cond,
                label: None,
                body,
            } if self.constant(cond).is_none() => {
                let mut edits = self.runs_once(body)?;
                edits.insert(
                    0,
                    Edit::new(Span::new(expr.span.lo, cond.span.lo), "if ", RULE),
                );
                (!self.is_frozen(expr.span)).then_some(EditGroup { edits })
            }
            ExprKind::Loop { label: None, body } => {
                let mut edits = self.runs_once(body)?;
                if edits.is_empty() && self.is_function_tail(expr) {
                    edits = self.values_of_returns(body).unwrap_or_default();
                }
                let edits: Vec<(Span, String)> = edits
                    .into_iter()
                    .map(|edit| (edit.span, edit.text))
                    .collect();
                self.emit(
                    expr,
                    Rest {
                        lets: vec![],
                        body: self.body_of_block(body, &edits),
                        before: vec![],
                        after: None,
                        rule: RULE.into(),
                    },
                )
            }
            ExprKind::For {
                label: None,
                pat,
                iter,
                body,
            } if self.runs_once(body).is_some() => {
                let mut edits = self.runs_once(body)?;
                let ty = self.an.ty(iter);
                let text = self.src(iter.span);
                let text = if prec(iter) < Prec::Tight {
                    format!("({text})")
                } else {
                    text.to_owned()
                };
                let is_slice = |ty: &Type| match ty {
                    Type::Slice(_) => true,
                    Type::Adt(def, _) => Some(*def) == self.world.canonical("std::vec::Vec"),
                    _ => false,
                };
                let next = match self.world.iterator_item(ty, &|_| vec![]) {
                    None if matches!(ty, Type::Ref(false, inner) if is_slice(inner)) => {
                        format!("{}.first()", text.trim_start_matches('&'))
                    }
                    Some(_) => format!("{text}.next()"),
                    None => format!("{text}.into_iter().next()"),
                };
                edits.insert(
                    0,
                    Edit::new(
                        Span::new(expr.span.lo, iter.span.hi),
                        format!("if let Some({}) = {next}", self.src(pat.span)),
                        RULE,
                    ),
                );
                (!self.is_frozen(expr.span)).then_some(EditGroup { edits })
            }
            ExprKind::While { cond, label, body } => match self.constant(cond)? {
                true => {
                    let label = label
                        .as_ref()
                        .map_or(String::new(), |label| format!("{}: ", self.src(label.span)));
                    self.edit(
                        Span::new(expr.span.lo, body.span.lo),
                        format!("{label}loop "),
                        RULE,
                    )
                }
                false => match self.nodes.parent(expr) {
                    Some(Parent::Stmt { stmt, block, at }) => {
                        Some(EditGroup::one(self.delete_stmt(stmt, block, at, RULE)?))
                    }
                    _ => None,
                },
            },
            ExprKind::Match {
                scrutinee, arms, ..
            } if self.constant(scrutinee).is_some() => self.fold_match(expr, scrutinee, arms),
            ExprKind::Match {
                scrutinee,
                arms,
                braces,
            } => (0..arms.len())
                .find_map(|at| match self.constant(arms[at].guard.as_ref()?)? {
                    true => self.drop_guard(arms, at, *braces, RULE),
                    // An arm with a guard never makes a match complete.
                    false if arms.len() > 1 => self.drop_arm(arms, at, *braces, RULE),
                    false => None,
                })
                .or_else(|| self.drop_answers(expr, scrutinee, arms, *braces, RULE)),
            ExprKind::Macro(mac) if matches!(&mac.args, MacroArgs::Matches { guard: Some(guard), .. } if self.constant(guard).is_some()) =>
            {
                let MacroArgs::Matches {
                    pat,
                    guard: Some(guard),
                    value,
                } = &mac.args
                else {
                    return None;
                };
                match self.constant(guard)? {
                    true => self.edit(Span::new(pat.span.hi, guard.span.hi), "", RULE),
                    false if self.is_pure(value) => self.edit(expr.span, "false", RULE),
                    false => None,
                }
            }
            ExprKind::Macro(mac) => self.fold_assert(expr, mac),
            ExprKind::MethodCall { .. } if self.predicate(expr).is_some() => self.predicate(expr),
            ExprKind::MethodCall { .. } if self.only_wraps(expr).is_some() => self.only_wraps(expr),
            ExprKind::Call { callee, args } => self.wrapped_try(expr, callee, args),
            ExprKind::MethodCall {
                recv,
                method,
                args,
                parens,
                ..
            } if method.text == "map" && args.len() == 1 => {
                // `map(|x| x)`, where the closure did something before.
                let ExprKind::Closure { params, body, .. } = &args[0].kind else {
                    return None;
                };
                let [(pat, None)] = &params[..] else {
                    return None;
                };
                let crate::syntax::PatKind::Ident {
                    name,
                    by_ref: false,
                    sub: None,
                    ..
                } = &pat.kind
                else {
                    return None;
                };
                let same =
                    self.an.local(only_value(body)) == Some(*self.an.bound_at.get(&name.span.lo)?);
                let is_bare = trivia::comments(self.text, args[0].span).is_empty();
                (same && is_bare && !self.is_as_it_was(args[0].span))
                    .then(|| self.edit(Span::new(recv.span.hi, parens.hi), "", RULE))
                    .flatten()
            }
            ExprKind::MethodCall {
                recv, method, args, ..
            } if args.len() == 1 => {
                let value = self.constant(recv)?;
                match (method.text.as_str(), value) {
                    ("then", true) => match &args[0].kind {
                        ExprKind::Closure { params, body, .. }
                            if params.is_empty() && !known::leaves_closure(body) =>
                        {
                            self.edit(expr.span, format!("Some({})", self.src(body.span)), RULE)
                        }
                        _ => None,
                    },
                    ("then_some", true) => {
                        self.edit(expr.span, format!("Some({})", self.src(args[0].span)), RULE)
                    }
                    ("then" | "then_some", false) => self.edit(expr.span, "None", RULE),
                    _ => None,
                }
            }
            ExprKind::Lit(LitKind::Bool(_)) => {
                // A statement that only asked: `memory.is_gpu();`
                self.constant(expr)?;
                match self.nodes.parent(expr) {
                    Some(Parent::Stmt { stmt, block, at })
                        if matches!(stmt.kind, StmtKind::Expr { semi: true, .. }) =>
                    {
                        Some(EditGroup::one(self.delete_stmt(stmt, block, at, RULE)?))
                    }
                    _ => None,
                }
            }
            ExprKind::Block {
                label: None,
                flavour: BlockFlavour::Plain,
                block,
            } => self.unwrap_block(expr, block),
            _ => None,
        }
    }

    /// `Ok(x)?` since this run: it says no type of an error any more, and nothing can fail.
    fn try_of_ok(&self, expr: &'a Expr, inner: &'a Expr) -> Option<EditGroup> {
        let ExprKind::Call { callee, args } = &inner.kind else {
            return None;
        };
        let (ExprKind::Path(path), [arg]) = (&callee.kind, &args[..]) else {
            return None;
        };
        let is_ok = path.segs.len() == 1 && matches!(path.last().name.text.as_str(), "Ok" | "Some");
        let mark = self.rope.exact_origin(expr.span.hi - 1)?;
        let is_theirs = self.rope.original()[..mark].trim_end().ends_with(')')
            && self
                .rope
                .exact_origin(inner.span.hi - 1)
                .is_some_and(|close| {
                    close < mark && self.rope.original()[close + 1..mark].trim().is_empty()
                });
        let room = [
            Span::new(callee.span.hi, arg.span.lo),
            Span::new(arg.span.hi, expr.span.hi),
        ];
        if !is_ok
            || is_theirs
            || room
                .iter()
                .any(|span| !trivia::comments(self.text, *span).is_empty())
        {
            return None;
        }
        let block_like = nodes::is_block_like(arg);
        let text = self.fit(expr, self.src(arg.span).to_owned(), prec(arg), block_like);
        self.edit(expr.span, text, RULE)
    }

    /// `match true { true => a, false => b }`, by the arm that is taken.
    fn fold_match(
        &self,
        expr: &'a Expr,
        scrutinee: &'a Expr,
        arms: &'a [crate::syntax::Arm],
    ) -> Option<EditGroup> {
        let value = self.constant(scrutinee)?.to_string();
        let other = (value != "true").to_string();
        for arm in arms {
            let pat = self.src(arm.pat.span);
            if arm.guard.is_some()
                || arm.attrs.iter().any(|attr| attr.path == "cfg")
                || !(pat == value || pat == other || pat == "_")
            {
                return None;
            }
            if pat != other {
                let before = self.comments_in(Span::new(arm.pat.span.hi, arm.body.span.lo));
                return self.emit(
                    expr,
                    Rest {
                        lets: vec![],
                        body: self.body_of(&arm.body, &[]),
                        before,
                        after: None,
                        rule: RULE.into(),
                    },
                );
            }
        }
        None
    }

    /// `else { if … }` that this run has left is `else if …`.
    fn else_if(&self, alt: &'a Expr) -> Option<EditGroup> {
        let ExprKind::Block {
            label: None,
            flavour: BlockFlavour::Plain,
            block,
        } = &alt.kind
        else {
            return None;
        };
        let [only] = &block.stmts[..] else {
            return None;
        };
        let StmtKind::Expr { expr: inner, .. } = &only.kind else {
            return None;
        };
        let room = [
            Span::new(block.span.lo + 1, only.span.lo),
            Span::new(only.span.hi, block.span.hi - 1),
        ];
        let is_if = matches!(inner.kind, ExprKind::If { .. })
            && only.attrs.is_empty()
            && inner.attrs.is_empty();
        if !is_if
            || self.is_as_it_was(alt.span)
            || room
                .iter()
                .any(|span| !trivia::comments(self.text, *span).is_empty())
        {
            return None;
        }
        // Theirs, if both stood there like this.
        let original = self.rope.original();
        let behind_else = self
            .rope
            .exact_origin(block.span.lo)
            .is_some_and(|at| original[..at].trim_end().ends_with("else"));
        if behind_else
            && self
                .rope
                .exact_origin(inner.span.lo)
                .is_some_and(|at| original[at..].starts_with("if"))
        {
            return None;
        }
        let text = trivia::reindent(
            self.src(inner.span),
            indent_of(self.text, inner.span.lo),
            indent_of(self.text, alt.span.lo),
        );
        self.edit(alt.span, text, RULE)
    }

    /// `let x = x;` since this run.
    pub fn same_again(&self, at: &nodes::LetStmt<'a>) -> Option<EditGroup> {
        let (name, init) = plain_let(at.stmt)?;
        let same = matches!(&init.kind, ExprKind::Path(path) if path.segs.len() == 1 && path.last().name.text == name.text);
        if !same || !at.stmt.attrs.is_empty() || self.is_as_it_was(at.stmt.span) {
            return None;
        }
        Some(EditGroup::one(
            self.delete_stmt(at.stmt, at.block, at.at, RULE)?,
        ))
    }

    /// `{ drop(lock); true }` that this run has left: what is done, and the answer.
    fn asked(&self, cond: &'a Expr) -> Option<(&'a str, bool)> {
        match &cond.kind {
            ExprKind::Paren(inner) => self.asked(inner),
            ExprKind::Block {
                label: None,
                flavour: BlockFlavour::Plain,
                block,
            } => {
                let [first, last] = &block.stmts[..] else {
                    return None;
                };
                let StmtKind::Expr { expr, semi: false } = &last.kind else {
                    return None;
                };
                let ExprKind::Lit(_) = &expr.kind else {
                    return None;
                };
                Some((self.src(first.span), self.constant(expr)?))
            }
            _ => None,
        }
    }

    /// `let known = { let _ = &rows[0]; true };` that this run has left: what is done stands on its own.
    pub fn asked_by_a_let(&self, at: &nodes::LetStmt<'a>) -> Option<EditGroup> {
        let (_, init) = plain_let(at.stmt)?;
        let (first, value) = self.asked(init)?;
        if !at.stmt.attrs.is_empty() || !trivia::starts_line(self.text, at.stmt.span.lo) {
            return None;
        }
        let eol = trivia::eol(self.text);
        let indent = indent_of(self.text, at.stmt.span.lo);
        let edits = vec![
            Edit::new(
                Span::new(at.stmt.span.lo, at.stmt.span.lo),
                format!("{first}{eol}{indent}"),
                RULE,
            ),
            Edit::new(init.span, value.to_string(), RULE),
        ];
        (!self.is_frozen(at.stmt.span)).then_some(EditGroup { edits })
    }

    /// `if { drop(lock); true } && more { … }` that this run has left: what is done stands in front of the `if`.
    /// As the last link, where there is no `else`, it stands in the block.
    fn asked_in_a_chain(&self, expr: &'a Expr) -> Option<EditGroup> {
        let ExprKind::If {
            cond, then, alt, ..
        } = &expr.kind
        else {
            return None;
        };
        let links = self.links(cond);
        let [first, .., last] = &links[..] else {
            return None;
        };
        let eol = trivia::eol(self.text);
        let edits = if let Some((done, true)) = self.asked(first)
            && let Some(Parent::Stmt { stmt, .. }) = self.nodes.parent(expr)
            && stmt.attrs.is_empty()
            && trivia::starts_line(self.text, stmt.span.lo)
        {
            let indent = indent_of(self.text, stmt.span.lo);
            let start = Span::new(stmt.span.lo, stmt.span.lo);
            vec![
                Edit::new(start, format!("{done}{eol}{indent}"), RULE),
                Edit::new(Span::new(first.span.lo, links[1].span.lo), "", RULE),
            ]
        } else if let Some((done, true)) = self.asked(last)
            && alt.is_none()
            && let Some(stmt) = then.stmts.first()
            && stmt.attrs.is_empty()
            && trivia::starts_line(self.text, stmt.span.lo)
        {
            let indent = indent_of(self.text, stmt.span.lo);
            let start = Span::new(stmt.span.lo, stmt.span.lo);
            vec![
                Edit::new(
                    Span::new(links[links.len() - 2].span.hi, last.span.hi),
                    "",
                    RULE,
                ),
                Edit::new(start, format!("{done}{eol}{indent}"), RULE),
            ]
        } else {
            return None;
        };
        (!self.is_frozen(expr.span)).then_some(EditGroup { edits })
    }

    /// `let _ = &rows[0];` that this run has left, where what follows looks at the same element at once.
    pub fn checked_again(&self, at: &nodes::LetStmt<'a>) -> Option<EditGroup> {
        let StmtKind::Let {
            pat,
            init: Some(init),
            diverge: None,
            ty: None,
        } = &at.stmt.kind
        else {
            return None;
        };
        let ExprKind::Ref {
            inner,
            mutable: false,
        } = &init.kind
        else {
            return None;
        };
        let is_check = matches!(pat.kind, crate::syntax::PatKind::Wild)
            && matches!(inner.kind, ExprKind::Index { .. })
            && self.only_looks(inner);
        if !is_check || self.is_as_it_was(at.stmt.span) {
            return None;
        }
        self.is_checked_next(at.block, at.at, inner)
            .then(|| self.delete_stmt(at.stmt, at.block, at.at, RULE))
            .flatten()
            .map(EditGroup::one)
    }

    /// A loop whose body, since this run changed it, always leaves by its end: it runs once at most.
    ///
    /// What is to be changed in the body for it to stand without the loop.
    fn runs_once(&self, body: &'a crate::syntax::Block) -> Option<Vec<Edit>> {
        let last = body.stmts.last()?;
        let StmtKind::Expr { expr: leaving, .. } = &last.kind else {
            return None;
        };
        let edits = match &leaving.kind {
            ExprKind::Break {
                label: None,
                value: None,
            } => vec![self.delete_stmt(last, body, body.stmts.len() - 1, RULE)?],
            ExprKind::Break {
                label: None,
                value: Some(value),
            } => {
                let room = [
                    Span::new(leaving.span.lo, value.span.lo),
                    Span::new(value.span.hi, last.span.hi),
                ];
                let has_comments = room
                    .iter()
                    .any(|span| !trivia::comments(self.text, *span).is_empty());
                if has_comments || !last.attrs.is_empty() || !self.may_end_a_block(value) {
                    return None;
                }
                vec![Edit::new(last.span, self.src(value.span), RULE)]
            }
            _ if self.always_returns(leaving) => vec![],
            _ => return None,
        };
        // Jumps of loops and closures inside are theirs.
        let inner: Vec<Span> = self
            .nodes
            .exprs
            .iter()
            .filter(|expr| {
                body.span.contains(expr.span)
                    && matches!(
                        expr.kind,
                        ExprKind::Loop { .. }
                            | ExprKind::While { .. }
                            | ExprKind::For { .. }
                            | ExprKind::Closure { .. }
                    )
            })
            .map(|expr| expr.span)
            .collect();
        let jumps = self.nodes.exprs.iter().any(|expr| {
            let label = match &expr.kind {
                ExprKind::Continue { label } | ExprKind::Break { label, .. } => label,
                _ => return false,
            };
            body.span.contains(expr.span)
                && expr.id != leaving.id
                && (label.is_some() || !inner.iter().any(|span| span.contains(expr.span)))
        });
        // As it was, it was theirs: only what this run made unconditional is taken up.
        (!jumps && !self.is_as_it_was(body.span)).then_some(edits)
    }

    /// `return`, or a choice of which each way ends in one.
    fn always_returns(&self, expr: &Expr) -> bool {
        let ends = |block: &crate::syntax::Block| {
            matches!(block.stmts.last().map(|stmt| &stmt.kind),
                Some(StmtKind::Expr { expr, .. }) if self.always_returns(expr))
        };
        match &expr.kind {
            ExprKind::Return(_) => true,
            ExprKind::If {
                then,
                alt: Some(alt),
                ..
            } => ends(then) && self.always_returns(alt),
            ExprKind::Block {
                label: None,
                flavour: BlockFlavour::Plain,
                block,
            } => ends(block),
            ExprKind::Match { arms, .. } => {
                !arms.is_empty() && arms.iter().all(|arm| self.always_returns(&arm.body))
            }
            _ => false,
        }
    }

    /// Before the 2024 edition, temporaries of a block's last expression outlive what is declared in the block.
    fn may_end_a_block(&self, value: &Expr) -> bool {
        self.else_is_outside() || self.leaves_only_itself(value)
    }

    /// What a function gives where each way through a block ends in a `return`: the values, in the place of those.
    fn values_of_returns(&self, block: &crate::syntax::Block) -> Option<Vec<Edit>> {
        let last = block.stmts.last()?;
        let StmtKind::Expr { expr, .. } = &last.kind else {
            return None;
        };
        self.value_of_return(expr, last.span)
    }

    fn value_of_return(&self, expr: &Expr, whole: Span) -> Option<Vec<Edit>> {
        match &expr.kind {
            ExprKind::Return(Some(value)) => {
                let room = [
                    Span::new(whole.lo, value.span.lo),
                    Span::new(value.span.hi, whole.hi),
                ];
                let is_bare = room
                    .iter()
                    .all(|span| trivia::comments(self.text, *span).is_empty());
                (is_bare && self.may_end_a_block(value))
                    .then(|| vec![Edit::new(whole, self.src(value.span), RULE)])
            }
            ExprKind::If {
                then,
                alt: Some(alt),
                ..
            } => {
                let mut edits = self.values_of_returns(then)?;
                edits.extend(self.value_of_return(alt, alt.span)?);
                Some(edits)
            }
            ExprKind::Block { block, .. } => self.values_of_returns(block),
            ExprKind::Match { arms, .. } => {
                let mut edits = Vec::new();
                for arm in arms {
                    edits.extend(self.value_of_return(&arm.body, arm.body.span)?);
                }
                Some(edits)
            }
            _ => None,
        }
    }

    /// Whether a stretch stands in the original just so.
    fn is_as_it_was(&self, span: Span) -> bool {
        let lo = self.rope.origin(span.lo);
        self.rope.original().get(lo..lo + span.len()) == Some(self.src(span))
    }

    /// `filter_map(|x| Some(e))` is `map(|x| e)`, where the closure did something else before.
    fn only_wraps(&self, call: &'a Expr) -> Option<EditGroup> {
        let ExprKind::MethodCall { args, .. } = &call.kind else {
            return None;
        };
        let [closure] = &args[..] else { return None };
        let ExprKind::Closure {
            params,
            body,
            is_async: false,
            ..
        } = &closure.kind
        else {
            return None;
        };
        if params.len() != 1 || self.is_as_it_was(closure.span) || known::leaves_closure(body) {
            return None;
        }
        let value = only_value(body);
        let ExprKind::Call { callee, args } = &value.kind else {
            return None;
        };
        let (ExprKind::Path(path), [inner]) = (&callee.kind, &args[..]) else {
            return None;
        };
        let wraps = path.last().name.text.as_str();
        if path.segs.len() != 1
            || !matches!(wraps, "Some" | "Ok")
            || !trivia::comments(self.text, closure.span).is_empty()
        {
            return None;
        }
        let inner = self.src(inner.span);
        self.adapter(call, closure, body, (wraps, inner), RULE)
    }

    /// `Some(x?)`, with a `Some` of this run, as what a function or a closure gives: `x`.
    fn wrapped_try(&self, expr: &'a Expr, callee: &'a Expr, args: &'a [Expr]) -> Option<EditGroup> {
        let (ExprKind::Path(path), [arg]) = (&callee.kind, args) else {
            return None;
        };
        let ExprKind::Try(inner) = &arg.kind else {
            return None;
        };
        let wraps = path.last().name.text.as_str();
        let name = match wraps {
            "Some" => "std::option::Option",
            "Ok" => "std::result::Result",
            _ => return None,
        };
        let ty = self.an.ty(inner);
        let is_it = matches!(ty, Type::Adt(def, _) if Some(*def) == self.world.canonical(name));
        if path.segs.len() != 1
            || !is_it
            || !self.rope.is_inserted(callee.span)
            || !trivia::comments(self.text, expr.span).is_empty()
        {
            return None;
        }
        let gives = if self.is_function_tail(expr) {
            let function = *self.an.function_of.get(&expr.id)?;
            self.is_same_afterwards(&self.an.functions[function].ret, ty)
        } else {
            // A closure's type follows from its body; an error's would follow from the `?`s in it.
            wraps == "Some"
                && matches!(self.nodes.parent(expr), Some(Parent::Expr(outer))
                    if matches!(&outer.kind, ExprKind::Closure { body, is_async: false, .. } if body.id == expr.id))
        };
        gives
            .then(|| self.edit(expr.span, self.src(inner.span), RULE))
            .flatten()
    }

    /// Whether two types are the same, and known, once the retired ones have their new names.
    fn is_same_afterwards(&self, a: &Type, b: &Type) -> bool {
        let becomes = |def: usize| self.rules.retired_def(def).map_or(def, |it| it.becomes());
        match (a, b) {
            (Type::Adt(a, of_a), Type::Adt(b, of_b)) => {
                becomes(*a) == becomes(*b)
                    && of_a.len() == of_b.len()
                    && of_a
                        .iter()
                        .zip(of_b)
                        .all(|(a, b)| self.is_same_afterwards(a, b))
            }
            (Type::Ref(is_mut, a), Type::Ref(also, b)) => {
                is_mut == also && self.is_same_afterwards(a, b)
            }
            _ => a.is_known() && a == b,
        }
    }

    /// A closure that answers the same whatever it is given: `is_some_and(|x| true)` is `is_some()`.
    fn predicate(&self, expr: &'a Expr) -> Option<EditGroup> {
        let ExprKind::MethodCall {
            recv,
            method,
            args,
            parens,
            ..
        } = &expr.kind
        else {
            return None;
        };
        let ExprKind::Closure {
            params,
            body,
            is_async: false,
            ..
        } = &args.last()?.kind
        else {
            return None;
        };
        let value = self.constant(body)?;
        if params.len() != 1 {
            return None;
        }
        let call = Span::new(method.span.lo, parens.hi);
        let is_option = matches!(self.an.ty(recv).peeled(), Type::Adt(def, _) if Some(*def) == self.world.canonical("std::option::Option"));
        match (method.text.as_str(), value, args.len()) {
            ("is_some_and", true, 1) if is_option => self.edit(call, "is_some()", RULE),
            ("is_some_and", false, 1) if self.is_pure(recv) => self.edit(expr.span, "false", RULE),
            ("is_none_or", true, 1) if self.is_pure(recv) => self.edit(expr.span, "true", RULE),
            ("is_none_or", false, 1) if is_option => self.edit(call, "is_none()", RULE),
            ("all", true, 1) if self.is_pure(recv) => self.edit(expr.span, "true", RULE),
            ("any", false, 1) if self.is_pure(recv) => self.edit(expr.span, "false", RULE),
            // What lets everything through is not there.
            ("filter", true, 1) => self.edit(Span::new(recv.span.hi, parens.hi), "", RULE),
            ("map_or", true, 2)
                if is_option && matches!(args[0].kind, ExprKind::Lit(LitKind::Bool(false))) =>
            {
                self.edit(call, "is_some()", RULE)
            }
            _ => None,
        }
    }

    /// `let mut n = 0; n = value;` where the assignment was conditional before: it is the first value now.
    pub fn assigned_at_once(&self, at: &nodes::LetStmt<'a>) -> Option<EditGroup> {
        let StmtKind::Let {
            pat,
            init: Some(init),
            diverge: None,
            ty,
        } = &at.stmt.kind
        else {
            return None;
        };
        let crate::syntax::PatKind::Ident {
            name,
            by_ref: false,
            mutable: true,
            sub: None,
        } = &pat.kind
        else {
            return None;
        };
        let next = at.block.stmts.get(at.at + 1)?;
        let StmtKind::Expr { expr, semi: true } = &next.kind else {
            return None;
        };
        let ExprKind::Assign { lhs, rhs } = &expr.kind else {
            return None;
        };
        let local = *self.an.bound_at.get(&name.span.lo)?;
        if self.an.local(lhs) != Some(local)
            || !self.is_pure(init)
            || known::mentions_local(self, rhs, local)
            || !at.stmt.attrs.is_empty()
            || !next.attrs.is_empty()
        {
            return None;
        }
        // Side by side since this run, not before.
        if self.is_as_it_was(at.stmt.span.to(next.span))
            || !trivia::comments(self.text, Span::new(at.stmt.span.hi, next.span.lo)).is_empty()
        {
            return None;
        }
        let ty = ty
            .as_ref()
            .map_or(String::new(), |ty| format!(": {}", self.src(ty.span)));
        let text = format!(
            "let mut {}{ty} = {};",
            self.src(name.span),
            self.src(rhs.span)
        );
        self.edit(Span::new(at.stmt.span.lo, next.span.hi), text, RULE)
    }

    /// `let x = value; x` as a block's end, where the `let` is of this run's making.
    pub fn let_and_return(&self, at: &nodes::LetStmt<'a>) -> Option<EditGroup> {
        let (name, init) = plain_let(at.stmt)?;
        let last = at.block.stmts.get(at.at + 1)?;
        if at.at + 2 != at.block.stmts.len() || !at.stmt.attrs.is_empty() {
            return None;
        }
        let StmtKind::Expr { expr, semi: false } = &last.kind else {
            return None;
        };
        let local = *self.an.bound_at.get(&name.span.lo)?;
        if self.an.local(expr) != Some(local) || self.an.locals[local].uses.len() != 1 {
            return None;
        }
        // Theirs stays as they wrote it.
        let is_theirs = self.is_as_it_was(at.stmt.span);
        if is_theirs
            && (self.is_as_it_was(at.stmt.span.to(last.span)) || !self.leaves_only_itself(init))
        {
            return None;
        }
        let between = Span::new(at.stmt.span.hi, last.span.lo);
        if !trivia::comments(self.text, between).is_empty() {
            return None;
        }
        self.edit(
            Span::new(at.stmt.span.lo, last.span.hi),
            self.src(init.span),
            RULE,
        )
    }

    /// `{ x }` that this run has left where a value alone can stand; as all that a block ends in, also `{ let x = …; x }`.
    fn unwrap_block(&self, expr: &'a Expr, block: &'a crate::syntax::Block) -> Option<EditGroup> {
        let (stands_alone, ends_a_block) = match self.nodes.parent(expr)? {
            Parent::Stmt {
                stmt,
                block: outer,
                at,
            } => {
                let is_end = at + 1 == outer.stmts.len()
                    && matches!(stmt.kind, StmtKind::Expr { semi: false, .. })
                    && stmt.attrs.is_empty();
                // It stood behind the same statement, whatever is said in between.
                let behind = match at.checked_sub(1) {
                    Some(before) => outer.stmts[before].span.hi - 1,
                    None => outer.span.lo,
                };
                if self.is_as_it_was(Span::new(behind, expr.span.lo + 1)) {
                    return None;
                }
                (
                    is_end,
                    is_end && trivia::starts_line(self.text, stmt.span.lo),
                )
            }
            Parent::Init { .. } => (true, false),
            _ => return None,
        };
        // Theirs stays: a block stood there.
        if !stands_alone || !expr.attrs.is_empty() || self.is_their_block(expr) {
            return None;
        }
        let inside = Span::new(block.span.lo + 1, block.span.hi - 1);
        if let [only] = &block.stmts[..]
            && let StmtKind::Expr {
                expr: inner,
                semi: false,
            } = &only.kind
            && [
                Span::new(inside.lo, only.span.lo),
                Span::new(only.span.hi, inside.hi),
            ]
            .iter()
            .all(|room| trivia::comments(self.text, *room).is_empty())
        {
            return self.edit(
                expr.span,
                trivia::reindent(
                    self.src(inner.span),
                    indent_of(self.text, inner.span.lo),
                    indent_of(self.text, expr.span.lo),
                ),
                RULE,
            );
        }
        // Items are seen in all of a block, in front of them too.
        let text = self.block_text(block, &[]);
        let swallows = text
            .inner
            .lines()
            .last()
            .is_some_and(|line| line.contains("//"))
            && !trivia::ends_line(self.text, expr.span.hi);
        if !ends_a_block || text.has_items || block.stmts.is_empty() || swallows {
            return None;
        }
        self.edit(
            expr.span,
            trivia::reindent(
                &text.inner,
                &text.indent,
                indent_of(self.text, expr.span.lo),
            ),
            RULE,
        )
    }

    /// Whether a block stood there as a statement or value before this run: what now begins with the brace of an arm, a
    /// branch or a loop is new.
    fn is_their_block(&self, expr: &Expr) -> bool {
        let Some(lo) = self.rope.exact_origin(expr.span.lo) else {
            return false;
        };
        let mut before = self.rope.original()[..lo].trim_end();
        // Comments above a block say nothing of what it is.
        while let Some(line) = before.lines().last()
            && line.trim_start().starts_with("//")
        {
            before = before[..before.len() - line.len()].trim_end();
        }
        !before.ends_with("=>") && before.ends_with(['{', '}', ';', '=', '(', ',', '|', '/'])
    }

    /// Statements behind one that leaves, where it did so only under a condition before this run.
    pub fn behind_a_jump(&self, block: &'a crate::syntax::Block) -> Option<EditGroup> {
        let leaves = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Expr { expr, .. } => {
                matches!(
                    expr.kind,
                    ExprKind::Return(_) | ExprKind::Break { .. } | ExprKind::Continue { .. }
                ) && stmt.attrs.is_empty()
            }
            _ => false,
        };
        let at = block.stmts.iter().position(leaves)?;
        let stmt = &block.stmts[at];
        let StmtKind::Expr { expr, .. } = &stmt.kind else {
            return None;
        };
        let is_body = matches!(
            self.nodes.owners.get(&block.span.lo),
            Some(nodes::Owner::Function(_))
        );
        let original = self.rope.original();
        let value = match &expr.kind {
            ExprKind::Return(Some(value)) if is_body => Some(self.src(value.span).to_owned()),
            _ => None,
        };
        match block.stmts[at + 1..].last() {
            Some(last) => {
                // Side by side since this run, not before.
                if self.is_as_it_was(stmt.span.to(block.stmts[at + 1].span))
                    || block.stmts[at + 1..]
                        .iter()
                        .any(|stmt| matches!(stmt.kind, StmtKind::Item(_)))
                {
                    return None;
                }
                match value {
                    Some(value) => self.edit(Span::new(stmt.span.lo, last.span.hi), value, RULE),
                    None => self.edit(Span::new(stmt.span.hi, last.span.hi), "", RULE),
                }
            }
            None => {
                // `return x;` as a function's end, since this run.
                let value = value?;
                let lo = self.rope.origin(stmt.span.hi - 1) + 1;
                let rest = original
                    .get(lo..self.rope.origin(block.span.hi - 1))
                    .unwrap_or("");
                (rest.contains('}') || rest.contains(';'))
                    .then(|| self.edit(stmt.span, value, RULE))
                    .flatten()
            }
        }
    }

    fn fold_logic(
        &self,
        expr: &'a Expr,
        is_and: bool,
        lhs: &'a Expr,
        rhs: &'a Expr,
    ) -> Option<EditGroup> {
        // The link that goes takes the operator and the room next to it; the rest keeps its line breaks and comments.
        let drop_left = |cx: &Self| {
            let need = matches!(cx.nodes.parent(expr), Some(Parent::Expr(outer)) if prec(rhs) < needed(outer, expr));
            if need {
                let text = format!("({})", cx.src(rhs.span));
                return cx.edit(expr.span, text, RULE);
            }
            cx.edit(Span::new(expr.span.lo, rhs.span.lo), "", RULE)
        };
        let drop_right = |cx: &Self| {
            let need = matches!(cx.nodes.parent(expr), Some(Parent::Expr(outer)) if prec(lhs) < needed(outer, expr));
            if need {
                let text = format!("({})", cx.src(lhs.span));
                return cx.edit(expr.span, text, RULE);
            }
            cx.edit(Span::new(lhs.span.hi, expr.span.hi), "", RULE)
        };
        let bare = |cx: &Self, side: &'a Expr| -> Option<EditGroup> {
            // `(a && b)` alone needs no parentheses any more.
            let inner = match &side.kind {
                ExprKind::Paren(inner) => &**inner,
                _ => return None,
            };
            let fits = match cx.nodes.parent(expr) {
                Some(Parent::Expr(outer)) => prec(inner) >= needed(outer, expr),
                _ => true,
            };
            fits.then(|| cx.edit(expr.span, cx.src(inner.span), RULE))
                .flatten()
        };
        if let Some(value) = self.constant(lhs) {
            return match value == is_and {
                // true && x, false || x
                true => bare(self, rhs).or_else(|| drop_left(self)),
                // false && x, true || x
                false => self.edit(expr.span, value.to_string(), RULE),
            };
        }
        let value = self.constant(rhs)?;
        if value == is_and {
            // x && true, x || false
            return bare(self, lhs).or_else(|| drop_right(self));
        }
        // x && false, x || true: x is evaluated all the same.
        if self.is_pure(lhs) {
            return self.edit(expr.span, value.to_string(), RULE);
        }
        if !self.ends_here(expr) {
            return None;
        }
        let first = format!("let _ = {};", self.src(lhs.span));
        self.first_then(expr, &first, &value.to_string(), RULE)
    }

    /// An `if` whose condition never holds.
    pub fn if_false(&self, expr: &'a Expr, alt: Option<&'a Expr>, rule: &str) -> Option<EditGroup> {
        let parent = self.nodes.parent(expr);
        let as_else = match parent {
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::If {
                    alt: Some(outer_alt),
                    then,
                    ..
                } if outer_alt.id == expr.id => Some(then),
                _ => None,
            },
            _ => None,
        };
        match alt {
            None => match (as_else, parent) {
                (Some(then), _) => self.edit(Span::new(then.span.hi, expr.span.hi), "", rule),
                (None, Some(Parent::Stmt { stmt, block, at })) => {
                    Some(EditGroup::one(self.delete_stmt(stmt, block, at, rule)?))
                }
                _ => self.edit(expr.span, "{}", rule),
            },
            Some(alt) => match &alt.kind {
                ExprKind::If { .. } => self.edit(Span::new(expr.span.lo, alt.span.lo), "", rule),
                ExprKind::Block { block, .. } => {
                    if as_else.is_some() {
                        return self.edit(Span::new(expr.span.lo, alt.span.lo), "", rule);
                    }
                    self.emit(
                        expr,
                        Rest {
                            lets: vec![],
                            body: self.body_of_block(block, &[]),
                            before: vec![],
                            after: None,
                            rule: rule.into(),
                        },
                    )
                }
                _ => None,
            },
        }
    }

    fn fold_assert(&self, expr: &'a Expr, mac: &'a crate::syntax::MacroCall) -> Option<EditGroup> {
        let MacroArgs::Exprs { args, .. } = &mac.args else {
            return None;
        };
        let name = mac.path.last().name.text.as_str();
        if let ("assert" | "debug_assert", Some((first, true))) =
            (name, self.asked(&args.first()?.value))
            && let Some(Parent::Stmt { stmt, .. }) = self.nodes.parent(expr)
        {
            // A debug build alone asked.
            let text = match name {
                "assert" => first.to_owned(),
                _ => format!("if cfg!(debug_assertions) {{ {first} }}"),
            };
            return self.edit(stmt.span, text, RULE);
        }
        let holds = match name {
            "assert" | "debug_assert" | "ensure" => self.constant(&args.first()?.value)?,
            "assert_eq" | "debug_assert_eq" | "assert_ne" | "debug_assert_ne" => {
                let literal = |expr: &Expr| match expr.kind {
                    ExprKind::Lit(LitKind::Bool(value)) => Some(value),
                    _ => self.constant(expr),
                };
                let (a, b) = (&args.first()?.value, &args.get(1)?.value);
                self.constant(a).or(self.constant(b))?;
                let (a, b) = (literal(a)?, literal(b)?);
                (a == b) == name.ends_with("_eq")
            }
            _ => return None,
        };
        if !holds {
            return None;
        }
        match self.nodes.parent(expr) {
            Some(Parent::Stmt { stmt, block, at }) => {
                if at + 1 == block.stmts.len()
                    && matches!(stmt.kind, StmtKind::Expr { semi: false, .. })
                    && block.stmts.len() == 1
                {
                    return self.edit(stmt.span, "", RULE);
                }
                Some(EditGroup::one(self.delete_stmt(stmt, block, at, RULE)?))
            }
            _ => self.edit(expr.span, "()", RULE),
        }
    }

    /// The comments that stand in a stretch between two nodes, each on its own.
    pub fn comments_in(&self, span: Span) -> Vec<String> {
        trivia::comments(self.text, span)
            .into_iter()
            .map(|comment| {
                let text = self.src(comment.span);
                trivia::reindent(text, indent_of(self.text, comment.span.lo), "")
            })
            .collect()
    }
}

/// The name and the value of `let name = value;`, without a type.
/// What a block gives that holds nothing else; the expression itself if it is no such block.
fn only_value(body: &Expr) -> &Expr {
    match &body.kind {
        ExprKind::Block {
            label: None,
            flavour: BlockFlavour::Plain,
            block,
        } => match &block.stmts[..] {
            [only] => match &only.kind {
                StmtKind::Expr { expr, semi: false } => expr,
                _ => body,
            },
            _ => body,
        },
        _ => body,
    }
}

fn plain_let(stmt: &Stmt) -> Option<(&Name, &Expr)> {
    let StmtKind::Let {
        pat,
        init: Some(init),
        diverge: None,
        ty: None,
    } = &stmt.kind
    else {
        return None;
    };
    let crate::syntax::PatKind::Ident {
        name,
        by_ref: false,
        mutable: false,
        sub: None,
    } = &pat.kind
    else {
        return None;
    };
    Some((name, init))
}
