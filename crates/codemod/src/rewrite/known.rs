//! Options that are known to be `Some`, and what their methods come to.
//!
//! The field that a wrapper holds its payload in, and the accessors of a retired enum, are always `Some` now. A chain of
//! `Option` methods on one of them is reduced by the methods' definitions; what cannot be reduced gets `Some(payload)`.

use super::nodes::{Prec, is_block_like, prec};
use super::*;
use crate::analysis::{LocalId, walk};
use crate::edit::EditGroup;
use crate::rule::Borrow;
use crate::syntax::{MacroArgs, PatKind};
use crate::world::usual_surface;
use crate::world::{DefKind, Res};

/// How a payload is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The place itself: borrowed or moved as the context asks.
    Place,
    Ref,
    Mut,
    Move,
    Clone,
}

/// Rust text with what is needed to put it somewhere.
#[derive(Debug, Clone)]
pub struct Code {
    pub text: String,
    pub prec: Prec,
    pub block_like: bool,
}

impl Code {
    pub fn tight(text: impl Into<String>) -> Self {
        Code {
            text: text.into(),
            prec: Prec::Tight,
            block_like: false,
        }
    }

    pub fn at_least(&self, need: Prec) -> String {
        if self.prec < need || (self.block_like && need > Prec::Loose) {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }
}

/// What stands for the payload.
#[derive(Debug, Clone)]
pub struct Payload {
    /// As it was written.
    pub full: Code,
    /// Without `&`, `*` and parentheses around it.
    pub base: Code,
    /// Type of `base`.
    pub ty: Type,
    pub mode: Mode,
    /// Can be written several times without doing anything several times.
    pub cheap: bool,
    /// A path or chain of fields.
    pub place: bool,
    /// Evaluating it does something besides giving the value.
    pub effects: bool,
    /// The local it begins with.
    pub root: Option<LocalId>,
    pub root_name: Option<String>,
    pub span: Span,
    /// `base`, where it is written in the file.
    pub expr: Option<crate::syntax::ExprId>,
    pub rule: String,
    /// Something was moved out and will be missed: `take()`.
    pub taken: bool,
}

/// What a method of a retired type always gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Always(bool),
    Some(Mode),
}

/// A reduced expression.
#[derive(Debug, Clone)]
pub enum Red {
    Some(Payload),
    /// `Some` of a computed value.
    SomeCode(Code, String),
    Ok(Payload),
    OkCode(Code, String),
    Expr(Code, String),
    Bool(bool, String),
}

pub const OPTION_METHODS: &[&str] = &[
    "unwrap",
    "expect",
    "unwrap_or",
    "unwrap_or_else",
    "unwrap_or_default",
    "unwrap_unchecked",
    "ok_or",
    "ok_or_else",
    "is_some",
    "is_none",
    "is_some_and",
    "is_none_or",
    "map",
    "map_or",
    "map_or_else",
    "and_then",
    "as_ref",
    "as_mut",
    "take",
    "cloned",
    "copied",
    "inspect",
    "or",
    "or_else",
    "filter",
    "iter",
    "into_iter",
    "as_deref",
    "zip",
    "and",
    "xor",
    "flatten",
    "insert",
    "replace",
];

impl<'a> Cx<'a> {
    /// Parentheses, `&` and `*` taken off.
    pub fn strip<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match &expr.kind {
            // A raw pointer is not followed by itself.
            ExprKind::Deref(inner) if matches!(self.an.ty(inner), Type::Ptr(_)) => expr,
            ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) => {
                self.strip(inner)
            }
            _ => expr,
        }
    }

    pub fn payload(&self, expr: &Expr, mode: Mode, rule: &str) -> Payload {
        let inner = self.strip(expr);
        let root = self.root(inner);
        let place = self.is_place(inner);
        Payload {
            full: self.code(expr),
            base: self.code(inner),
            ty: self.an.ty(inner).clone(),
            mode,
            cheap: place || self.is_pure(inner),
            place,
            effects: !self.is_pure(inner),
            root_name: root.map(|id| self.an.locals[id].name.clone()),
            root,
            span: expr.span,
            expr: Some(inner.id),
            rule: rule.to_owned(),
            taken: false,
        }
    }

    pub fn code(&self, expr: &Expr) -> Code {
        Code {
            text: self.src(expr.span).to_owned(),
            prec: prec(expr),
            block_like: is_block_like(expr),
        }
    }

    /// The local that a chain begins with.
    pub fn root(&self, expr: &Expr) -> Option<LocalId> {
        match &expr.kind {
            ExprKind::Path(_) => self.an.local(expr),
            ExprKind::Field { base, .. } | ExprKind::Index { base, .. } => self.root(base),
            ExprKind::MethodCall { recv, .. } => self.root(recv),
            ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) => {
                self.root(inner)
            }
            _ => None,
        }
    }

    /// What an expression comes to, if it is an option that is known to be `Some` or a method of one.
    pub fn eval(&self, expr: &'a Expr) -> Option<Red> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.eval(inner),
            ExprKind::Field { base, member, .. } => {
                let ty = self.an.ty(base);
                let found = self
                    .retired(ty)
                    .or_else(|| self.lost_field(expr, ty, &member.text));
                let Retired::Wrapper(rule) = found? else {
                    return None;
                };
                if member.text == rule.spec.payload && self.taken_before(expr) {
                    return None;
                }
                (member.text == rule.spec.payload)
                    .then(|| Red::Some(self.payload(base, Mode::Place, &rule.spec.rule)))
            }
            ExprKind::Ref { mutable, inner } => match self.eval(inner)? {
                Red::Some(mut payload) => {
                    if payload.mode == Mode::Place {
                        payload.mode = if *mutable { Mode::Mut } else { Mode::Ref };
                    }
                    Some(Red::Some(payload))
                }
                _ => None,
            },
            ExprKind::MethodCall {
                recv, method, args, ..
            } => self.eval_method(expr, recv, &method.text, args),
            // `Enum::method(&value)`
            ExprKind::Call { callee, args } if args.len() == 1 => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                let (retired, answer) = self.method_value(path)?;
                let rule = retired.rule().to_owned();
                match answer {
                    Answer::Always(value) if self.is_pure(&args[0]) => Some(Red::Bool(value, rule)),
                    Answer::Always(value) => Some(Red::Expr(
                        self.effect_then(&args[0], expr, &value.to_string())?,
                        rule,
                    )),
                    Answer::Some(mode) => Some(Red::Some(self.payload(&args[0], mode, &rule))),
                }
            }
            ExprKind::Try(inner) => match self.eval(inner)? {
                Red::Some(payload) | Red::Ok(payload) => Some(self.payload_value(payload)),
                Red::SomeCode(code, rule) | Red::OkCode(code, rule) => Some(Red::Expr(code, rule)),
                _ => None,
            },
            _ => None,
        }
    }

    /// In a branch that is half migrated the old type's field may be named on a value that has the new type already.
    fn lost_field(&self, expr: &Expr, ty: &Type, name: &str) -> Option<Retired<'a>> {
        let mut wrappers = self.rules.wrappers.iter();
        let rule =
            wrappers.find(|rule| rule.spec.payload == name && self.is_type(ty, rule.becomes))?;
        (!self.sees_field(ty, name, expr)).then_some(Retired::Wrapper(rule))
    }

    /// The same for a method.
    fn lost_method(&self, expr: &Expr, ty: &Type, name: &str) -> Option<Retired<'a>> {
        if self.an.methods.contains_key(&expr.id) {
            return None;
        }
        let found = self.rules.retired_types().find(|retired| {
            let (always, some) = match retired {
                Retired::Enum(rule) => (&rule.spec.always, Some(&rule.spec.some)),
                Retired::Wrapper(rule) => (&rule.spec.always, None),
            };
            (always.contains_key(name) || some.is_some_and(|some| some.contains_key(name)))
                && self.is_type(ty, retired.becomes())
        })?;
        Some(found)
    }

    /// A method of a retired type, named by path: what it answers.
    pub fn method_value(&self, path: &crate::syntax::Path) -> Option<(Retired<'a>, Answer)> {
        let found = self.an.path(path)?;
        if path.segs.len() != found.taken + 1 {
            return None;
        }
        let retired = self.retired_path(path)?;
        let name = &path.last().name.text;
        let (always, some) = match &retired {
            Retired::Enum(rule) => (&rule.spec.always, Some(&rule.spec.some)),
            Retired::Wrapper(rule) => (&rule.spec.always, None),
        };
        if let Some(&value) = always.get(name) {
            return Some((retired, Answer::Always(value)));
        }
        let mode = match some?.get(name)? {
            Borrow::Ref => Mode::Ref,
            Borrow::Mut => Mode::Mut,
            Borrow::Move => Mode::Move,
        };
        Some((retired, Answer::Some(mode)))
    }

    /// The standard library's method that does to what is there as this one does: `context` of an error library makes an
    /// `Ok` of what an option holds, and leaves an `Ok` as it is.
    fn plain_method<'m>(&self, expr: &'a Expr, recv: &'a Expr, method: &'m str) -> Option<&'m str> {
        let lazy = match method {
            "context" | "wrap_err" | "ok_or_eyre" => false,
            "with_context" | "wrap_err_with" => true,
            _ => return Some(method),
        };
        let of_trait = self.an.methods.get(&expr.id)?.of_trait?;
        let home = self.world.mods[self.world.defs[of_trait].module].krate;
        if !usual_surface::is_one(&self.world.crates[home].package) {
            return Some(method);
        }
        Some(match self.eval(recv)? {
            Red::Some(_) | Red::SomeCode(..) if lazy => "ok_or_else",
            Red::Some(_) | Red::SomeCode(..) => "ok_or",
            Red::Ok(_) | Red::OkCode(..) if lazy => "or_else",
            Red::Ok(_) => "or",
            _ => method,
        })
    }

    fn payload_value(&self, payload: Payload) -> Red {
        let rule = payload.rule.clone();
        Red::Expr(self.value_code(&payload, true), rule)
    }

    fn eval_method(
        &self,
        expr: &'a Expr,
        recv: &'a Expr,
        method: &str,
        args: &'a [Expr],
    ) -> Option<Red> {
        // Accessors and answers of the retired types themselves.
        let recv_ty = self.an.ty(recv);
        let lost = || self.lost_method(expr, recv_ty, method);
        if let Some(retired) = self.retired(recv_ty).or_else(lost) {
            let (always, some) = match &retired {
                Retired::Enum(rule) => (&rule.spec.always, Some(&rule.spec.some)),
                Retired::Wrapper(rule) => (&rule.spec.always, None),
            };
            if let Some(&value) = always.get(method)
                && args.is_empty()
            {
                let rule = retired.rule().to_owned();
                if self.is_pure(self.strip(recv)) {
                    return Some(Red::Bool(value, rule));
                }
                // What the receiver does besides giving the value is done all the same.
                return Some(Red::Expr(
                    self.effect_then(recv, expr, &value.to_string())?,
                    rule,
                ));
            }
            if let Some(borrow) = some.and_then(|some| some.get(method))
                && args.is_empty()
            {
                let mode = match borrow {
                    Borrow::Ref => Mode::Ref,
                    Borrow::Mut => Mode::Mut,
                    Borrow::Move => Mode::Move,
                };
                return Some(Red::Some(self.payload(recv, mode, retired.rule())));
            }
            // A value of the new type in an old option's place, left by an earlier edit of ours.
            let drops_nothing = !matches!(method, "unwrap_or" | "ok_or" | "or" | "xor" | "map_or")
                || args.first().is_none_or(|eager| self.may_be_dropped(eager));
            if OPTION_METHODS.contains(&method)
                && drops_nothing
                && !self.has_own_method(&retired, method)
                && self.eval(recv).is_none()
            {
                let payload = self.payload(recv, Mode::Place, retired.rule());
                return self.option_method(expr, payload, method, args);
            }
        }
        let method = self.plain_method(expr, recv, method)?;
        // What is evaluated whether it is needed or not may do something.
        if let ("unwrap_or" | "ok_or" | "or" | "xor" | "map_or", Some(eager)) =
            (method, args.first())
            && !self.may_be_dropped(eager)
        {
            return None;
        }
        match self.eval(recv)? {
            Red::Some(payload) => self.option_method(expr, payload, method, args),
            Red::Ok(payload) => match method {
                "unwrap" | "expect" | "unwrap_or_default" | "unwrap_or" | "unwrap_or_else" => {
                    Some(self.payload_value(payload))
                }
                "map_err" | "or_else" | "or" => Some(Red::Ok(payload)),
                "is_ok" if !payload.effects => Some(Red::Bool(true, payload.rule)),
                "is_err" if !payload.effects => Some(Red::Bool(false, payload.rule)),
                "ok" => Some(Red::Some(payload)),
                "map" | "and_then" => {
                    let code = self.apply(args.first()?, &payload)?;
                    Some(if method == "map" {
                        Red::OkCode(code, payload.rule)
                    } else {
                        Red::Expr(code, payload.rule)
                    })
                }
                _ => None,
            },
            Red::SomeCode(code, rule) => match method {
                "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" => {
                    Some(Red::Expr(code, rule))
                }
                "ok_or" | "ok_or_else" => Some(Red::OkCode(code, rule)),
                "or" | "or_else" => Some(Red::SomeCode(code, rule)),
                "map" => {
                    let applied = self.apply_code(args.first()?, &code)?;
                    Some(Red::SomeCode(applied, rule))
                }
                _ => None,
            },
            Red::OkCode(code, rule) => match method {
                "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" => {
                    Some(Red::Expr(code, rule))
                }
                "map_err" | "or_else" => Some(Red::OkCode(code, rule)),
                _ => None,
            },
            Red::Expr(..) | Red::Bool(..) => None,
        }
    }

    /// `{ let _ = first; value }`, where what `first` keeps alive is let go before anything else is done.
    pub(super) fn effect_then(&self, first: &Expr, of: &Expr, value: &str) -> Option<Code> {
        (self.only_looks(first) || self.ends_here(of)).then(|| Code {
            text: format!("{{ {} {value} }}", self.evaluate(first)),
            prec: Prec::Tight,
            block_like: true,
        })
    }

    fn has_own_method(&self, retired: &Retired<'_>, method: &str) -> bool {
        let own = |def| {
            self.world.impls_for(def).iter().any(|&id| {
                self.world.impls[id].of_trait.is_none()
                    && self.world.impls[id].fns.iter().any(|f| f.name == method)
            })
        };
        own(retired.def()) || own(retired.becomes())
    }

    fn option_method(
        &self,
        expr: &'a Expr,
        mut payload: Payload,
        method: &str,
        args: &'a [Expr],
    ) -> Option<Red> {
        let rule = payload.rule.clone();
        Some(match method {
            "as_ref" | "as_deref" => {
                if payload.mode == Mode::Place {
                    payload.mode = Mode::Ref;
                }
                Red::Some(payload)
            }
            "as_mut" | "as_deref_mut" => {
                payload.mode = Mode::Mut;
                Red::Some(payload)
            }
            "take" => {
                // What is taken out is missed by a later read.
                let place = self.src(payload.span).to_owned();
                let later = self.later_reads(expr, &payload);
                if later {
                    return None;
                }
                let owned = payload
                    .expr
                    .and_then(|id| self.nodes.by_id.get(&id).copied())
                    .is_some_and(|place| self.dies_here(place))
                    && !place.starts_with('*');
                payload.mode = if owned { Mode::Move } else { Mode::Clone };
                payload.taken = true;
                Red::Some(payload)
            }
            "clone" | "cloned" | "copied" => {
                payload.mode = Mode::Clone;
                Red::Some(payload)
            }
            "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default"
            | "unwrap_unchecked" => self.payload_value(payload),
            "ok_or" | "ok_or_else" => Red::Ok(payload),
            "or" | "or_else" | "xor" => Red::Some(payload),
            "is_some" if !payload.effects => Red::Bool(true, rule),
            "is_none" if !payload.effects => Red::Bool(false, rule),
            "is_some" | "is_none" => {
                let value = method == "is_some";
                let first = self.nodes.by_id.get(&payload.expr?).copied()?;
                Red::Expr(self.effect_then(first, expr, &value.to_string())?, rule)
            }
            "iter" | "iter_mut" | "into_iter" => {
                let mode = match (method, payload.mode) {
                    ("iter", _) => Mode::Ref,
                    ("iter_mut", _) => Mode::Mut,
                    (_, mode) => mode,
                };
                let value = self
                    .value_code(
                        &Payload {
                            mode,
                            ..payload.clone()
                        },
                        true,
                    )
                    .text;
                Red::Expr(Code::tight(format!("std::iter::once({value})")), rule)
            }
            "as_slice" => {
                let value = self
                    .value_code(
                        &Payload {
                            mode: Mode::Ref,
                            ..payload.clone()
                        },
                        true,
                    )
                    .text;
                Red::Expr(Code::tight(format!("std::slice::from_ref({value})")), rule)
            }
            "is_some_and" | "is_none_or" | "and_then" => {
                Red::Expr(self.apply(args.first()?, &payload)?, rule)
            }
            "map" => Red::SomeCode(self.apply(args.first()?, &payload)?, rule),
            "map_or" | "map_or_else" => Red::Expr(self.apply(args.get(1)?, &payload)?, rule),
            _ => return None,
        })
    }

    /// The beginning of a chain that is matched on as a whole.
    fn feeds_scrutinee(&self, expr: &'a Expr) -> bool {
        let Some(Parent::Expr(outer)) = self.nodes.parent(expr) else {
            return false;
        };
        let ExprKind::MethodCall { recv, .. } = &outer.kind else {
            return false;
        };
        recv.id == expr.id
            && matches!(
                self.eval(outer),
                Some(Red::Some(_) | Red::SomeCode(..) | Red::Ok(_) | Red::OkCode(..))
            )
            && (self.in_scrutinee(outer) || self.feeds_scrutinee(outer))
    }

    fn lacks_error_type(&self, expr: &Expr) -> bool {
        match self.nodes.parent(expr) {
            Some(Parent::Init { stmt, .. }) => {
                matches!(&stmt.kind, crate::syntax::StmtKind::Let { ty: None, .. })
            }
            Some(Parent::Expr(outer)) => {
                matches!(&outer.kind, ExprKind::MethodCall { recv, .. } if recv.id == expr.id)
            }
            _ => false,
        }
    }

    /// Whether nobody notices that an expression is not evaluated any more: it makes a value and does nothing else.
    fn may_be_dropped(&self, expr: &Expr) -> bool {
        let all = |exprs: &[Expr]| exprs.iter().all(|expr| self.may_be_dropped(expr));
        match &expr.kind {
            ExprKind::Ref { inner, .. }
            | ExprKind::Deref(inner)
            | ExprKind::Paren(inner)
            | ExprKind::Not(inner)
            | ExprKind::Neg(inner) => self.may_be_dropped(inner),
            ExprKind::Cast { inner, .. } => self.may_be_dropped(inner),
            ExprKind::Field { base, .. } => self.may_be_dropped(base),
            ExprKind::Binary { lhs, rhs, op, .. } => {
                *op != crate::syntax::BinOp::AssignOp
                    && self.may_be_dropped(lhs)
                    && self.may_be_dropped(rhs)
            }
            ExprKind::Tuple(exprs) | ExprKind::Array(exprs) => all(exprs),
            ExprKind::Struct { fields, .. } => {
                fields.iter().all(|field| self.may_be_dropped(&field.value))
            }
            // Variants, tuple structs, and the constructors of `std`'s conventions.
            ExprKind::Call { callee, args } => {
                let ExprKind::Path(path) = &callee.kind else {
                    return false;
                };
                let name = path.last().name.text.as_str();
                let makes = name.starts_with(char::is_uppercase)
                    || (path.segs.len() > 1
                        && matches!(name, "new" | "default" | "from" | "with_capacity" | "msg"));
                makes && all(args)
            }
            ExprKind::MethodCall {
                recv, method, args, ..
            } => {
                let only_looks = matches!(
                    method.text.as_str(),
                    "into"
                        | "to_string"
                        | "to_owned"
                        | "clone"
                        | "len"
                        | "is_empty"
                        | "as_str"
                        | "as_ref"
                        | "to_vec"
                        | "cloned"
                        | "copied"
                        | "capacity"
                        | "min"
                        | "max"
                ) || self
                    .an
                    .methods
                    .get(&expr.id)
                    .is_some_and(|hit| hit.def.pure);
                only_looks && self.may_be_dropped(recv) && all(args)
            }
            ExprKind::Macro(mac) => {
                let makes = matches!(
                    mac.path.last().name.text.as_str(),
                    "format" | "vec" | "anyhow" | "eyre" | "concat" | "stringify" | "file" | "line"
                );
                match &mac.args {
                    MacroArgs::Exprs { args, .. } => {
                        makes && args.iter().all(|arg| self.may_be_dropped(&arg.value))
                    }
                    _ => makes && self.is_pure(expr),
                }
            }
            _ => self.is_pure(expr),
        }
    }

    /// Whether the same place has been emptied by a `take()` further up: what is there now is not known.
    fn taken_before(&self, expr: &Expr) -> bool {
        let root = self.root(expr);
        let place = self.src(expr.span);
        root.is_some()
            && self.nodes.exprs.iter().any(|other| match &other.kind {
                ExprKind::MethodCall { recv, method, .. } => {
                    method.text == "take"
                        && other.span.hi <= expr.span.lo
                        && self.src(recv.span) == place
                        && self.root(recv) == root
                }
                _ => false,
            })
    }

    /// Whether the same place is looked at again behind a `take()`: what it left there was `None`.
    fn later_reads(&self, expr: &Expr, payload: &Payload) -> bool {
        let Some(root) = payload.root else {
            return true;
        };
        let local = &self.an.locals[root];
        let text = payload.base.text.as_str();
        // The place itself, a part of it, or what it is a part of.
        let same_place = |at: usize| {
            let rest = &self.text[at..];
            let name_end = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len());
            let named = rest[..name_end].trim_end_matches('.');
            rest.starts_with(text)
                || (text.starts_with(named) && text[named.len()..].starts_with('.'))
        };
        if local.kind == crate::analysis::LocalKind::SelfParam {
            // It outlives the function: any other look at it counts.
            let other = format!("{text}.");
            return self
                .text
                .match_indices(&other)
                .any(|(at, _)| !expr.span.contains(Span::new(at, at + other.len())));
        }
        // Round a loop again.
        let loops = self.nodes.exprs.iter().any(|outer| {
            matches!(
                outer.kind,
                ExprKind::Loop { .. }
                    | ExprKind::While { .. }
                    | ExprKind::For { .. }
                    | ExprKind::Closure { .. }
            ) && outer.span.contains(expr.span)
                && outer.span != expr.span
                && !outer.span.contains(local.span)
        });
        loops
            || local
                .uses
                .iter()
                .any(|at| at.span.lo >= expr.span.hi && same_place(at.span.lo))
    }

    // --- payloads as text

    /// The payload where a method is called on it or a field read.
    pub fn receiver_text(&self, payload: &Payload) -> String {
        payload.base.at_least(Prec::Tight)
    }

    /// The receiver of a method of what the payload holds: where a type on the way to that has one of the same name, as
    /// wrappers do that hand it on, the way has to be written.
    fn receiver_for(&self, payload: &Payload, method: &str) -> String {
        let steps = self.world.autoderef(&payload.ty);
        let depth = steps
            .iter()
            .position(|step| self.is_retired_itself(step))
            .unwrap_or(0);
        let is_theirs = |step: &Type| match step {
            Type::Adt(def, _) => {
                let is_of_std = self.world.defs[*def].canonical.starts_with("std::");
                !is_of_std && self.world.has_method(*def, method)
            }
            _ => false,
        };
        if steps[..depth].iter().any(is_theirs) {
            format!(
                "({}{})",
                "*".repeat(depth),
                payload.base.at_least(Prec::Unary)
            )
        } else {
            self.receiver_text(payload)
        }
    }

    /// The payload as a value. `free`: nothing is known of where it goes, so that a reborrow has to be spelled out.
    pub fn value_code(&self, payload: &Payload, free: bool) -> Code {
        let base = &payload.base;
        let unary = |sigil: &str, of: &Code| Code {
            text: format!("{sigil}{}", of.at_least(Prec::Unary)),
            prec: Prec::Unary,
            block_like: false,
        };
        match payload.mode {
            Mode::Ref => match &payload.ty {
                Type::Ref(false, inner) if !matches!(**inner, Type::Ref(..)) => {
                    self.through(payload, inner, base.clone(), false)
                }
                Type::Ref(true, inner) if payload.place && free => {
                    match self.is_retired_itself(inner) {
                        true => unary("&*", base),
                        false => unary("&**", base),
                    }
                }
                // A pattern looks through all references but one.
                Type::Ref(false, inner) if free => {
                    let mut more = 0;
                    let mut at = &**inner;
                    while let Type::Ref(false, next) = at {
                        more += 1;
                        at = next;
                    }
                    match self.is_retired_itself(at) {
                        true => unary(&"*".repeat(more), base),
                        false => base.clone(),
                    }
                }
                Type::Ref(..) => base.clone(),
                Type::Unknown | Type::Var(_) => payload.full.clone(),
                ty if self.is_retired_itself(ty) => unary("&", base),
                _ => unary(if free { "&*" } else { "&" }, base),
            },
            Mode::Mut => match &payload.ty {
                Type::Ref(true, inner) if self.is_retired_itself(inner) => {
                    if payload.place && free && self.used_later(payload) {
                        unary("&mut *", base)
                    } else {
                        base.clone()
                    }
                }
                Type::Ref(..) => unary("&mut **", base),
                Type::Unknown | Type::Var(_) => payload.full.clone(),
                ty if self.is_retired_itself(ty) => unary("&mut ", base),
                _ => unary(if free { "&mut *" } else { "&mut " }, base),
            },
            Mode::Place | Mode::Move => {
                if matches!(payload.ty, Type::Ref(..)) && payload.mode == Mode::Place {
                    return payload.full.clone();
                }
                if payload.place && self.used_later(payload) && self.is_retired_itself(&payload.ty)
                {
                    return Code::tight(format!("{}.clone()", base.at_least(Prec::Tight)));
                }
                // Out of its box.
                if matches!(&payload.ty, Type::Adt(..))
                    && !self.is_retired_itself(&payload.ty)
                    && payload.full.text == base.text
                {
                    return unary("*", base);
                }
                payload.full.clone()
            }
            Mode::Clone => {
                // Through smart pointers and references of references it has to be said what is cloned.
                let steps = self.world.autoderef(&payload.ty);
                let depth = steps
                    .iter()
                    .position(|step| self.is_retired_itself(step))
                    .unwrap_or(0);
                let plain = depth == 0 || (depth == 1 && matches!(payload.ty, Type::Ref(..)));
                if plain {
                    Code::tight(format!("{}.clone()", base.at_least(Prec::Tight)))
                } else {
                    Code::tight(format!(
                        "({}{}).clone()",
                        "*".repeat(depth),
                        base.at_least(Prec::Unary)
                    ))
                }
            }
        }
    }

    fn through(&self, payload: &Payload, inner: &Type, base: Code, _mutable: bool) -> Code {
        // `&Box<T>`, `&Arc<T>`: a `&T` is asked for.
        if self.is_retired_itself(inner) || !payload.place {
            base
        } else {
            Code {
                text: format!("&**{}", base.at_least(Prec::Unary)),
                prec: Prec::Unary,
                block_like: false,
            }
        }
    }

    pub(super) fn is_retired_itself(&self, ty: &Type) -> bool {
        match ty {
            Type::Adt(def, _) => {
                self.rules.retired_def(*def).is_some()
                    || self.rules.enums.iter().any(|rule| rule.becomes == *def)
                    || self.rules.wrappers.iter().any(|rule| rule.becomes == *def)
            }
            _ => false,
        }
    }

    /// Whether the payload's place is named again behind it.
    fn used_later(&self, payload: &Payload) -> bool {
        let Some(root) = payload.root else {
            return false;
        };
        let local = &self.an.locals[root];
        let text = payload.base.text.as_str();
        // The other way of a `let … else` is gone by then.
        let dead = self.nodes.lets.iter().find_map(|at| match &at.stmt.kind {
            crate::syntax::StmtKind::Let {
                init: Some(init),
                diverge: Some(diverge),
                ..
            } if init.span.contains(payload.span) => Some(diverge.span),
            _ => None,
        });
        let later: Vec<Span> = local
            .uses
            .iter()
            .map(|at| at.span)
            .filter(|span| {
                span.lo >= payload.span.hi && !dead.is_some_and(|dead| dead.contains(*span)) && {
                    // Another field of the same root is another place.
                    let rest = &self.text[span.lo..];
                    !payload.place || rest.starts_with(text) || !text.contains('.')
                }
            })
            .collect();
        !later.is_empty() && !self.given_anew(payload, &later)
    }

    // --- applying functions

    /// `f(payload)`, with a closure's body put in its place.
    pub fn apply(&self, f: &'a Expr, payload: &Payload) -> Option<Code> {
        match &f.kind {
            ExprKind::Closure {
                params,
                body,
                is_async: false,
                ..
            } if params.len() == 1 => {
                if leaves_closure(body) {
                    return None;
                }
                let (pat, _) = &params[0];
                match &pat.kind {
                    PatKind::Wild if !payload.effects => Some(self.code(body)),
                    PatKind::Ident {
                        name,
                        by_ref: false,
                        mutable: false,
                        sub: None,
                    } => {
                        let local = *self.an.bound_at.get(&name.span.lo)?;
                        let region = self.inner_of(body);
                        let bindings = [(local, payload.clone())];
                        if self.may_substitute(region, &bindings)
                            && self.check_stays(payload, region, local)
                            && !self.outlives(payload, local, &[region])
                            && let Some(text) = self.substitute(region, &bindings)
                        {
                            return Some(Code {
                                text,
                                prec: self.prec_after(body, local, payload),
                                block_like: is_block_like(body),
                            });
                        }
                        let value = self.value_code(payload, true).text;
                        let inner = self.block_inner(body);
                        Some(Code {
                            text: format!("{{ let {} = {value}; {inner} }}", self.src(pat.span)),
                            prec: Prec::Tight,
                            block_like: true,
                        })
                    }
                    _ => None,
                }
            }
            ExprKind::Closure { .. } => None,
            ExprKind::Path(path) => {
                let names: Vec<&str> = path.names();
                let found = self.an.path(path)?;
                // `Type::method`: as a method call.
                if let (Res::Def(def), [method]) = (&found.res, &names[found.taken..])
                    && self.is_ours(*def)
                    && self
                        .world
                        .assoc_fn(*def, method)
                        .is_some_and(|(f, _)| f.sig.receiver.is_some())
                {
                    return Some(Code::tight(format!(
                        "{}.{method}()",
                        self.receiver_for(payload, method)
                    )));
                }
                let value = self.value_code(payload, false).text;
                Some(Code::tight(format!("{}({value})", self.src(path.span))))
            }
            _ => None,
        }
    }

    fn is_ours(&self, def: usize) -> bool {
        self.rules.retired_def(def).is_some()
            || self.rules.enums.iter().any(|rule| rule.becomes == def)
            || self.rules.wrappers.iter().any(|rule| rule.becomes == def)
    }

    fn apply_code(&self, f: &'a Expr, code: &Code) -> Option<Code> {
        match &f.kind {
            ExprKind::Path(path) => Some(Code::tight(format!(
                "{}({})",
                self.src(path.span),
                code.text
            ))),
            ExprKind::Closure {
                params,
                body,
                is_async: false,
                ..
            } if params.len() == 1 && !leaves_closure(body) => {
                let inner = self.block_inner(body);
                Some(Code {
                    text: format!(
                        "{{ let {} = {}; {inner} }}",
                        self.src(params[0].0.span),
                        code.text
                    ),
                    prec: Prec::Tight,
                    block_like: true,
                })
            }
            _ => None,
        }
    }

    fn prec_after(&self, body: &Expr, local: LocalId, payload: &Payload) -> Prec {
        // The body is the binding alone: as tight as what takes its place.
        if self.an.local(body) == Some(local) {
            self.value_code(payload, true).prec
        } else {
            prec(body)
        }
    }

    pub fn inner_of(&self, body: &Expr) -> Span {
        body.span
    }

    /// What stands between a block's braces, or the expression itself.
    pub fn block_inner(&self, body: &Expr) -> String {
        match &body.kind {
            ExprKind::Block {
                label: None,
                flavour: crate::syntax::BlockFlavour::Plain,
                block,
            } => self
                .src(Span::new(block.span.lo + 1, block.span.hi - 1))
                .trim()
                .to_owned(),
            _ => self.src(body.span).to_owned(),
        }
    }

    // --- substitution

    /// Whether the bindings may be replaced by what they stand for in this stretch, as far as meaning and taste go.
    pub fn may_substitute(&self, region: Span, bindings: &[(LocalId, Payload)]) -> bool {
        bindings.iter().all(|(id, payload)| {
            let local = &self.an.locals[*id];
            let uses: Vec<_> = local
                .uses
                .iter()
                .filter(|at| region.contains(at.span))
                .collect();
            if local.mutable
                || !self.stays_until_used(region, *id, payload)
                || self.opaque_mentions(&local.name, region).next().is_some()
            {
                return false;
            }
            match uses.len() {
                0 => !payload.effects,
                1 if payload.cheap => true,
                1 => uses[0].span.lo == region.lo,
                _ if payload.place => true,
                2 => payload.cheap,
                _ => false,
            }
        })
    }

    /// The stretch with the bindings replaced; `None` where that cannot be done.
    pub fn substitute(&self, region: Span, bindings: &[(LocalId, Payload)]) -> Option<String> {
        let edits = self.substitution_edits(region, bindings)?;
        let mut out = String::new();
        let mut at = region.lo;
        for (span, text) in edits {
            if span.lo < at {
                return None;
            }
            out.push_str(&self.text[at..span.lo]);
            out.push_str(&text);
            at = span.hi;
        }
        out.push_str(&self.text[at..region.hi]);
        Some(out)
    }

    /// The replacements, in order; `None` where a use cannot be replaced.
    pub fn substitution_edits(
        &self,
        region: Span,
        bindings: &[(LocalId, Payload)],
    ) -> Option<Vec<(Span, String)>> {
        let mut edits: Vec<(Span, String)> = Vec::new();
        for (id, payload) in bindings {
            let local = &self.an.locals[*id];
            // A name that the payload uses must mean the same inside.
            if let Some(root) = &payload.root_name {
                let hidden = self.an.locals.iter().enumerate().any(|(other, l)| {
                    l.name == *root
                        && Some(other) != payload.root
                        && region.contains(l.span)
                        && !bindings.iter().any(|(b, _)| *b == other)
                });
                if hidden {
                    return None;
                }
            }
            for at in local.uses.iter().filter(|at| region.contains(at.span)) {
                let Some(expr) = at.expr.and_then(|id| self.nodes.by_id.get(&id).copied()) else {
                    // Captured by a format string: only a plain name fits in.
                    let plain = payload.place
                        && payload
                            .base
                            .text
                            .chars()
                            .all(|c| c.is_alphanumeric() || c == '_');
                    if !plain || payload.base.text == "self" {
                        return None;
                    }
                    edits.push((at.span, payload.base.text.clone()));
                    continue;
                };
                let outer = match self.nodes.parent(expr) {
                    Some(Parent::Expr(outer)) => Some(outer),
                    _ => None,
                };
                match outer.map(|outer| (&outer.kind, outer)) {
                    Some((ExprKind::MethodCall { recv, method, .. }, _)) if recv.id == expr.id => {
                        edits.push((expr.span, self.receiver_for(payload, &method.text)))
                    }
                    Some((ExprKind::Field { .. }, _)) => {
                        edits.push((expr.span, self.receiver_text(payload)))
                    }
                    Some((ExprKind::Deref(_), outer))
                        if payload.mode != Mode::Clone && payload.mode != Mode::Move =>
                    {
                        let text = match &payload.ty {
                            Type::Adt(..) if self.is_retired_itself(&payload.ty) => {
                                payload.base.text.clone()
                            }
                            _ => format!("*{}", payload.base.at_least(Prec::Unary)),
                        };
                        edits.push((outer.span, text));
                    }
                    Some((ExprKind::Struct { fields, .. }, _))
                        if fields
                            .iter()
                            .any(|field| field.shorthand && field.value.id == expr.id) =>
                    {
                        edits.push((
                            expr.span,
                            format!("{}: {}", local.name, self.value_code(payload, true).text),
                        ));
                    }
                    _ => {
                        let is_arg = matches!(outer.map(|outer| &outer.kind), Some(ExprKind::Call { callee, .. }) if callee.id != expr.id && !self.is_constructor(callee))
                            || matches!(
                                outer.map(|outer| &outer.kind),
                                Some(ExprKind::MethodCall { .. })
                            );
                        let code = self.value_code(payload, !is_arg);
                        let text = match outer {
                            Some(outer) => code.at_least(needed(outer, expr)),
                            None => code.text,
                        };
                        edits.push((expr.span, text));
                    }
                }
            }
        }
        edits.sort_by_key(|(span, _)| span.lo);
        Some(edits)
    }

    fn is_constructor(&self, callee: &Expr) -> bool {
        match &callee.kind {
            ExprKind::Path(path) => match self.an.res(path) {
                Res::Variant(..) => true,
                Res::Def(def) => matches!(self.world.defs[def].kind, DefKind::Struct { .. }),
                _ => false,
            },
            _ => false,
        }
    }

    // --- the edits

    /// Replaces an expression by what it comes to.
    pub fn reduce(&self, expr: &'a Expr) -> Option<EditGroup> {
        if let Some(group) = self.construct(expr) {
            return Some(group);
        }
        if let Some(group) = self.function_value(expr) {
            return Some(group);
        }
        let red = self.eval(expr)?;
        let (code, rule) = match red {
            Red::Some(payload) => {
                // Scrutinees are somebody else's.
                if self.in_scrutinee(expr) || self.feeds_scrutinee(expr) {
                    return None;
                }
                let mut payload = payload;
                // The option as a place: nothing stands for that.
                if let Some(Parent::Expr(outer)) = self.nodes.parent(expr) {
                    match &outer.kind {
                        ExprKind::Ref { .. } | ExprKind::RawRef(_) => return None,
                        ExprKind::Assign { lhs, .. } if lhs.id == expr.id => return None,
                        ExprKind::MethodCall { recv, method, .. }
                            if recv.id == expr.id
                                && payload.mode == Mode::Place
                                && matches!(
                                    method.text.as_str(),
                                    "insert"
                                        | "replace"
                                        | "get_or_insert"
                                        | "get_or_insert_with"
                                        | "get_or_insert_default"
                                        | "take_if"
                                        | "take"
                                        | "as_mut_slice"
                                ) =>
                        {
                            return None;
                        }
                        // Formatting only looks.
                        ExprKind::Macro(mac)
                            if payload.mode == Mode::Place
                                && mac.path.last().name.text != "vec"
                                && mac.path.last().name.text != "dbg" =>
                        {
                            payload.mode = Mode::Ref
                        }
                        _ => {}
                    }
                }
                if matches!(expr.kind, ExprKind::Ref { .. }) {
                    return None;
                }
                // `self.last?.payload` as what a function gives: the option itself.
                let rule = payload.rule.clone();
                if let ExprKind::Field { base, .. } = &expr.kind
                    && let ExprKind::Try(inner) = &base.kind
                    && self.is_function_tail(expr)
                    && matches!(self.an.ty(inner), Type::Adt(def, _) if Some(*def) == self.world.canonical("std::option::Option"))
                {
                    return self.edit(expr.span, self.src(inner.span), &rule);
                }
                let value = match &payload.ty {
                    // The accessor looked through one reference more.
                    Type::Ref(false, inner)
                        if payload.mode == Mode::Ref
                            && matches!(&**inner, Type::Ref(false, inner) if self.is_retired_itself(inner)) =>
                    {
                        format!("*{}", payload.base.at_least(Prec::Unary))
                    }
                    _ => self.value_code(&payload, true).text,
                };
                (Code::tight(format!("Some({value})")), rule)
            }
            Red::SomeCode(..) | Red::Ok(_) | Red::OkCode(..)
                if self.in_scrutinee(expr) || self.feeds_scrutinee(expr) =>
            {
                return None;
            }
            // Alone, `Ok` does not say which error it might have been.
            Red::Ok(_) | Red::OkCode(..) if self.lacks_error_type(expr) => return None,
            Red::SomeCode(code, rule) => (Code::tight(format!("Some({})", code.text)), rule),
            Red::Ok(payload) => {
                let rule = payload.rule.clone();
                (
                    Code::tight(format!("Ok({})", self.value_code(&payload, true).text)),
                    rule,
                )
            }
            Red::OkCode(code, rule) => (Code::tight(format!("Ok({})", code.text)), rule),
            Red::Bool(value, rule) => (Code::tight(value.to_string()), rule),
            Red::Expr(code, rule) => {
                // Where a method is called on it, a reference need not be taken.
                if let Some(Parent::Expr(outer)) = self.nodes.parent(expr)
                    && needed(outer, expr) == Prec::Tight
                    && !matches!(
                        outer.kind,
                        ExprKind::Try(_) | ExprKind::Await(_) | ExprKind::Call { .. }
                    )
                    && let Some(payload) = self.as_payload(expr)
                {
                    let text = match &outer.kind {
                        ExprKind::MethodCall { method, .. } => {
                            self.receiver_for(&payload, &method.text)
                        }
                        _ => self.receiver_text(&payload),
                    };
                    return self.edit(expr.span, text, &rule);
                }
                (code, rule)
            }
        };
        // As the end of a function's body the block's two statements stand on their own.
        if let Some(Parent::Stmt { stmt, block, at }) = self.nodes.parent(expr)
            && code.block_like
            && at + 1 == block.stmts.len()
            && matches!(stmt.kind, crate::syntax::StmtKind::Expr { semi: false, .. })
            && let Some(inner) = code
                .text
                .strip_prefix("{ ")
                .and_then(|text| text.strip_suffix(" }"))
            && let Some((first, value)) = inner.rsplit_once("; ")
            && crate::syntax::trivia::starts_line(self.text, stmt.span.lo)
        {
            let indent = crate::syntax::trivia::indent_of(self.text, stmt.span.lo);
            let eol = crate::syntax::trivia::eol(self.text);
            return self.edit(expr.span, format!("{first};{eol}{indent}{value}"), &rule);
        }
        // A closure that gives `Some(x)` to `filter_map` or `and_then` gives `x` to `map`.
        if let Some(group) = self.in_closure(expr, &code, &rule) {
            return Some(group);
        }
        let text = self.fit(expr, code.text, code.prec, code.block_like);
        self.edit(expr.span, text, &rule)
    }

    /// Whether an expression is the value that its function gives.
    pub(super) fn is_function_tail(&self, expr: &Expr) -> bool {
        match self.nodes.parent(expr) {
            Some(Parent::Stmt { stmt, block, at }) => {
                at + 1 == block.stmts.len()
                    && matches!(stmt.kind, crate::syntax::StmtKind::Expr { semi: false, .. })
                    && matches!(
                        self.nodes.owners.get(&block.span.lo),
                        Some(nodes::Owner::Function(_))
                    )
            }
            _ => false,
        }
    }

    /// The payload that an expression unwraps to, if it is just that.
    fn as_payload(&self, expr: &'a Expr) -> Option<Payload> {
        match &expr.kind {
            ExprKind::Paren(inner) => self.as_payload(inner),
            ExprKind::MethodCall { recv, method, .. } => {
                match (self.eval(recv), method.text.as_str()) {
                    (
                        Some(Red::Some(payload) | Red::Ok(payload)),
                        "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default",
                    ) => Some(payload),
                    (None, "unwrap" | "expect") => {
                        let retired = self.retired(self.an.ty(recv))?;
                        (!self.has_own_method(&retired, &method.text))
                            .then(|| self.payload(recv, Mode::Place, retired.rule()))
                    }
                    _ => None,
                }
            }
            ExprKind::Try(inner) => match self.eval(inner)? {
                Red::Some(payload) | Red::Ok(payload) => Some(payload),
                _ => None,
            },
            _ => None,
        }
        .filter(|payload| payload.mode != Mode::Clone)
    }

    /// A scrutinee, or the beginning of the chain that is one.
    fn in_scrutinee(&self, expr: &Expr) -> bool {
        let mut at = expr;
        loop {
            if self.is_scrutinee(at) {
                return true;
            }
            match self.nodes.parent(at) {
                Some(Parent::Expr(outer)) => match &outer.kind {
                    ExprKind::MethodCall { recv, method, .. }
                        if recv.id == at.id
                            && matches!(
                                method.text.as_str(),
                                "as_ref" | "as_mut" | "clone" | "cloned" | "take"
                            ) =>
                    {
                        at = outer
                    }
                    ExprKind::Paren(_) | ExprKind::Ref { .. } => at = outer,
                    _ => return false,
                },
                _ => return false,
            }
        }
    }

    fn is_scrutinee(&self, expr: &Expr) -> bool {
        match self.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::Paren(_) | ExprKind::Ref { .. } => self.is_scrutinee(outer),
                ExprKind::Tuple(exprs) => match self.nodes.parent(outer) {
                    // Part of a tuple that a `let` takes apart: matched if that part of the pattern does.
                    Some(Parent::Init { stmt, .. }) => match &stmt.kind {
                        crate::syntax::StmtKind::Let { pat, .. } => match &pat.kind {
                            PatKind::Tuple(parts) if parts.len() == exprs.len() => {
                                let at = exprs.iter().position(|part| part.id == expr.id);
                                at.is_some_and(|at| {
                                    !matches!(parts[at].kind, PatKind::Ident { .. } | PatKind::Wild)
                                })
                            }
                            _ => false,
                        },
                        _ => false,
                    },
                    _ => self.is_scrutinee(outer),
                },
                ExprKind::Match { scrutinee, .. } => scrutinee.id == expr.id,
                ExprKind::Let { value, .. } => value.id == expr.id,
                ExprKind::Macro(mac) => {
                    matches!(&mac.args, MacroArgs::Matches { value, .. } if value.id == expr.id)
                }
                _ => false,
            },
            Some(Parent::Init { stmt, .. }) => {
                matches!(&stmt.kind, crate::syntax::StmtKind::Let { pat, .. } if !matches!(pat.kind, PatKind::Ident { .. } | PatKind::Wild | PatKind::Tuple(_)))
            }
            _ => false,
        }
    }

    /// `filter_map(|x| Some(e))` is `map(|x| e)`; where `e` is `x`, the adapter goes.
    fn in_closure(&self, expr: &'a Expr, code: &Code, rule: &str) -> Option<EditGroup> {
        let (wraps, inner) = match (
            code.text.strip_prefix("Some("),
            code.text.strip_prefix("Ok("),
        ) {
            (Some(rest), _) => ("Some", rest.strip_suffix(')')?),
            (_, Some(rest)) => ("Ok", rest.strip_suffix(')')?),
            _ => return None,
        };
        let Some(Parent::Expr(closure)) = self.nodes.parent(expr) else {
            return None;
        };
        let ExprKind::Closure { params, body, .. } = &closure.kind else {
            return None;
        };
        if body.id != expr.id || params.len() != 1 || leaves_closure(body) {
            return None;
        }
        let Some(Parent::Expr(call)) = self.nodes.parent(closure) else {
            return None;
        };
        self.adapter(call, closure, expr, (wraps, inner), rule)
    }

    /// The call of an adapter whose closure gives `wraps(inner)` in the place of `value`.
    pub(super) fn adapter(
        &self,
        call: &'a Expr,
        closure: &'a Expr,
        value: &'a Expr,
        (wraps, inner): (&str, &str),
        rule: &str,
    ) -> Option<EditGroup> {
        let (
            ExprKind::MethodCall {
                recv,
                method,
                args,
                parens,
                ..
            },
            ExprKind::Closure { params, .. },
        ) = (&call.kind, &closure.kind)
        else {
            return None;
        };
        let (pat, _) = params.first()?;
        let is_identity =
            matches!(&pat.kind, PatKind::Ident { name, by_ref: false, .. } if name.text == inner);
        // `|x| Some(x)` is `Some`.
        if args.len() == 1
            && is_identity
            && wraps == "Some"
            && matches!(method.text.as_str(), "map" | "flat_map")
        {
            return self.edit(closure.span, "Some", rule);
        }
        if args.len() != 1
            || !matches!(
                method.text.as_str(),
                "filter_map" | "and_then" | "map_while" | "find_map"
            )
            || (wraps == "Ok" && method.text != "and_then")
        {
            return None;
        }
        let recv_ty = self.an.ty(recv);
        if wraps == "Ok" {
            // `and_then(|x| Ok(x))` hands on what is there.
            let is_result = matches!(recv_ty, Type::Adt(def, _) if Some(*def) == self.world.canonical("std::result::Result"));
            return match (is_result, is_identity) {
                (true, true) => self.edit(Span::new(recv.span.hi, parens.hi), "", rule),
                (true, false) => {
                    let edits = vec![
                        Edit::new(method.span, "map", rule),
                        Edit::new(value.span, inner.to_owned(), rule),
                    ];
                    (!self.is_frozen(call.span)).then_some(EditGroup { edits })
                }
                _ => None,
            };
        }
        let is_option = matches!(recv_ty, Type::Adt(def, _) if Some(*def) == self.world.canonical("std::option::Option"));
        if method.text == "and_then" && !is_option {
            return None;
        }
        // `filter_map(|x| Some(x.clone()))`
        let clones = matches!(&pat.kind, PatKind::Ident { name, by_ref: false, .. } if inner == format!("{}.clone()", name.text));
        // `filter_map(|x| Some(*x))`
        let copies = matches!(&pat.kind, PatKind::Ident { name, by_ref: false, .. } if inner == format!("*{}", name.text));
        // The first of them, whatever it is.
        if method.text == "find_map" {
            let then = match (is_identity, clones, copies) {
                (true, ..) => "",
                (_, true, _) => ".cloned()",
                (.., true) => ".copied()",
                _ => return None,
            };
            let (from, first) = self.first_of(recv, method.span.lo);
            return self.edit(Span::new(from, parens.hi), format!("{first}{then}"), rule);
        }
        if clones && method.text == "filter_map" {
            return self.edit(Span::new(method.span.lo, parens.hi), "cloned()", rule);
        }
        if copies {
            return self.edit(Span::new(method.span.lo, parens.hi), "copied()", rule);
        }
        if is_identity {
            // From the receiver's end, so that a line of its own goes whole.
            return self.edit(Span::new(recv.span.hi, parens.hi), "", rule);
        }
        let edits = vec![
            Edit::new(method.span, "map", rule),
            Edit::new(value.span, inner.to_owned(), rule),
        ];
        (!self.is_frozen(call.span)).then_some(EditGroup { edits })
    }

    /// What asks an iterator for its first element, and from where that is written.
    fn first_of(&self, iterator: &'a Expr, behind: usize) -> (usize, &'static str) {
        let is_slice = |ty: &Type| match ty.peeled() {
            Type::Slice(_) => true,
            Type::Adt(def, _) => Some(*def) == self.world.canonical("std::vec::Vec"),
            _ => false,
        };
        let plain = (behind, "next()");
        let ExprKind::MethodCall {
            recv, method, args, ..
        } = &iterator.kind
        else {
            return plain;
        };
        let between = Span::new(recv.span.hi, behind);
        if !args.is_empty() || !crate::syntax::trivia::comments(self.text, between).is_empty() {
            return plain;
        }
        match method.text.as_str() {
            "rev" => (method.span.lo, "next_back()"),
            "iter" if is_slice(self.an.ty(recv)) => (method.span.lo, "first()"),
            _ => plain,
        }
    }

    /// Constructors of the retired types: `Enum::Survivor(e)`, `Wrapper { payload: Some(e), .. }`.
    fn construct(&self, expr: &'a Expr) -> Option<EditGroup> {
        match &expr.kind {
            ExprKind::Call { callee, args } if args.len() == 1 => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                let rule = self.wrapping_path(path)?;
                let arg = &args[0];
                let text = self.fit(
                    expr,
                    self.src(arg.span).to_owned(),
                    prec(arg),
                    is_block_like(arg),
                );
                self.edit(expr.span, text, &rule)
            }
            ExprKind::Call { callee, .. } => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                self.rename_fn(path)
            }
            ExprKind::Path(path) => self.rename_fn(path),
            ExprKind::Struct { path, fields, .. } => {
                let Retired::Wrapper(rule) = self.retired_path(path)? else {
                    return None;
                };
                let field = fields
                    .iter()
                    .find(|field| field.name.text == rule.spec.payload)?;
                let others = fields.iter().any(|other| {
                    rule.spec.gone.contains_key(&other.name.text)
                        && !self.is_empty_value(&other.value)
                });
                if others {
                    return None;
                }
                let value = match &field.value.kind {
                    ExprKind::Call { callee, args }
                        if args.len() == 1 && self.is_some_path(callee) =>
                    {
                        &args[0]
                    }
                    _ => return None,
                };
                let text = self.fit(
                    expr,
                    self.src(value.span).to_owned(),
                    prec(value),
                    is_block_like(value),
                );
                self.edit(expr.span, text, &rule.spec.rule)
            }
            ExprKind::Assign { lhs, rhs } => {
                // `batch.payload = Some(x)`
                let ExprKind::Field { base, member, .. } = &lhs.kind else {
                    return None;
                };
                let Retired::Wrapper(rule) = self.retired(self.an.ty(base))? else {
                    return None;
                };
                let ExprKind::Call { callee, args } = &rhs.kind else {
                    return None;
                };
                if member.text != rule.spec.payload || args.len() != 1 || !self.is_some_path(callee)
                {
                    return None;
                }
                let sigil = if matches!(self.an.ty(base), Type::Ref(..)) {
                    "*"
                } else {
                    ""
                };
                let text = format!(
                    "{sigil}{} = {}",
                    self.src(base.span),
                    self.src(args[0].span)
                );
                self.edit(expr.span, text, &rule.spec.rule)
            }
            ExprKind::MethodCall {
                recv,
                method,
                args,
                parens,
                ..
            } if method.text == "into" && args.is_empty() => {
                // A conversion of the survivor into the enum.
                let Type::Adt(def, _) = self.an.ty(recv) else {
                    return None;
                };
                let rule = self.rules.enums.iter().find(|rule| rule.becomes == *def)?;
                let Retired::Enum(target) = self.retired(self.an.ty(expr))? else {
                    return None;
                };
                if target.def != rule.def {
                    return None;
                }
                self.edit(Span::new(recv.span.hi, parens.hi), "", &rule.spec.rule)
            }
            _ => None,
        }
    }

    fn is_empty_value(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call { callee, args } => {
                args.is_empty()
                    && matches!(&callee.kind, ExprKind::Path(path) if matches!(path.last().name.text.as_str(), "new" | "default"))
            }
            ExprKind::Macro(mac) => {
                mac.path.last().name.text == "vec" && self.src(mac.inner).trim().is_empty()
            }
            _ => false,
        }
    }

    pub fn is_some_path(&self, callee: &Expr) -> bool {
        match &callee.kind {
            ExprKind::Path(path) => match self.an.res(path) {
                Res::Variant(def, at) => {
                    Some(def) == self.world.canonical("std::option::Option") && at == 1
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// The retired type that a path names as a whole.
    pub fn retired_path(&self, path: &crate::syntax::Path) -> Option<Retired<'a>> {
        let found = self.an.path(path)?;
        let res = match &found.res {
            Res::SelfTy => {
                let function = self
                    .an
                    .functions
                    .iter()
                    .filter(|f| f.span.contains(path.span))
                    .max_by_key(|f| f.span.lo)?;
                return self.retired(function.self_ty.as_ref()?);
            }
            res => self.world.unalias(res.clone()),
        };
        match res {
            Res::Def(def) => self.rules.retired_def(def),
            _ => None,
        }
    }

    /// Whether a path is a function (or variant) that only wraps: the rule that says so.
    fn wrapping_path(&self, path: &crate::syntax::Path) -> Option<String> {
        let found = self.an.path(path)?;
        if let Res::Variant(def, at) = found.res {
            let rule = self.rules.enums.iter().find(|rule| rule.def == def)?;
            return (found.taken == path.segs.len() && at == rule.survivor)
                .then(|| rule.spec.rule.clone());
        }
        let retired = self.retired_path(path)?;
        if path.segs.len() != found.taken + 1 {
            return None;
        }
        let name = &path.last().name.text;
        let unwrap = match &retired {
            Retired::Enum(rule) => &rule.spec.unwrap,
            Retired::Wrapper(rule) => &rule.spec.unwrap,
        };
        unwrap.contains(name).then(|| retired.rule().to_owned())
    }

    /// `Enum::old_name(…)` is `New::new_name(…)`: the function's name now, the type's later.
    fn rename_fn(&self, path: &crate::syntax::Path) -> Option<EditGroup> {
        let found = self.an.path(path)?;
        if path.segs.len() != found.taken + 1 {
            return None;
        }
        let Retired::Enum(rule) = self.retired_path(path)? else {
            return None;
        };
        let seg = path.last();
        let new = rule.spec.rename.get(&seg.name.text)?;
        self.edit(seg.name.span, new.clone(), &rule.spec.rule)
    }

    /// A wrapping function as a value: `.map(Enum::Survivor)` goes.
    fn function_value(&self, expr: &'a Expr) -> Option<EditGroup> {
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
        // A method as a value: `.filter_map(Enum::into_inner)` goes, `.all(Enum::is_that)` answers by itself.
        for arg in args {
            let ExprKind::Path(path) = &arg.kind else {
                continue;
            };
            let Some((retired, answer)) = self.method_value(path) else {
                continue;
            };
            return match answer {
                Answer::Always(value) => {
                    self.edit(arg.span, format!("|_| {value}"), retired.rule())
                }
                Answer::Some(_)
                    if args.len() == 1
                        && matches!(method.text.as_str(), "filter_map" | "and_then") =>
                {
                    self.edit(Span::new(recv.span.hi, parens.hi), "", retired.rule())
                }
                Answer::Some(_) if method.text == "map" && args.len() == 1 => {
                    self.edit(arg.span, "Some", retired.rule())
                }
                Answer::Some(_) => None,
            };
        }
        if args.len() != 1 || !matches!(method.text.as_str(), "map" | "and_then" | "map_ok") {
            return None;
        }
        match &args[0].kind {
            ExprKind::Path(path) => {
                let rule = self.wrapping_path(path)?;
                self.edit(Span::new(recv.span.hi, parens.hi), "", &rule)
            }
            // `|b| Enum::Survivor(b)` has become `|b| b` by an edit of ours.
            ExprKind::Closure { params, body, .. } if params.len() == 1 && method.text == "map" => {
                let PatKind::Ident {
                    name,
                    by_ref: false,
                    ..
                } = &params[0].0.kind
                else {
                    return None;
                };
                let ExprKind::Path(path) = &body.kind else {
                    return None;
                };
                let same = path.ident().is_some_and(|ident| ident.text == name.text);
                let ours = self.rope.hunks().iter().any(|hunk| {
                    let (lo, hi) = (
                        self.rope.origin(expr.span.lo),
                        self.rope.origin(expr.span.hi),
                    );
                    hunk.span.lo >= lo && hunk.span.hi <= hi
                });
                let retired = self.retired(self.an.ty(body))?;
                (same && ours)
                    .then(|| self.edit(Span::new(recv.span.hi, parens.hi), "", retired.rule()))
                    .flatten()
            }
            _ => None,
        }
    }
}

/// Whether a closure's body has a `return` or `?` of its own: put elsewhere, it would leave more than the closure.
pub fn leaves_closure(body: &Expr) -> bool {
    let mut found = false;
    fn go(expr: &Expr, found: &mut bool) {
        match &expr.kind {
            ExprKind::Return(_) | ExprKind::Try(_) => *found = true,
            ExprKind::Closure { .. } => {}
            ExprKind::Block {
                flavour: crate::syntax::BlockFlavour::Async,
                ..
            } => {}
            _ => crate::analysis::children(expr, &mut |child| go(child, found)),
        }
    }
    go(body, &mut found);
    found
}

/// Whether an expression names a local anywhere.
pub fn mentions_local(cx: &Cx<'_>, expr: &Expr, local: LocalId) -> bool {
    let mut found = false;
    walk(expr, &mut |inner| {
        found |= cx.an.local(inner) == Some(local)
    });
    found
}
