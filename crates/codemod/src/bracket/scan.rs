//! What stands in a function already: calls of phases, and brackets around them.

use super::places::path_to;
use super::{Body, Tree};
use crate::rewrite::Cx;
use crate::syntax::{
    Block, Expr, ExprKind, FnItem, Item, ItemKind, PatKind, Span, StmtKind, Ty, TyKind,
};
use crate::world::{DefId, Res, Type, World};

/// How a field holds the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// As it is, by reference or behind a smart pointer.
    Directly,
    /// In an `Option` or the like: it may be missing.
    Inside,
    Not,
}

/// A function and what is known about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function<'a> {
    pub body: Body<'a>,
    pub item: &'a Item,
    pub f: &'a FnItem,
    pub block: &'a Block,
    /// Its place in the analysis.
    pub index: usize,
}

impl<'a> Function<'a> {
    pub fn of_item(cx: &'a Cx<'a>, body: Body<'a>, item: &'a Item) -> Option<Self> {
        let ItemKind::Fn(f) = &item.kind else {
            return None;
        };
        let block = f.body.as_ref()?;
        let index = cx
            .an
            .functions
            .iter()
            .position(|known| known.body == block.span)?;
        Some(Function {
            body,
            item,
            f,
            block,
            index,
        })
    }

    pub fn name(&self) -> &'a str {
        self.item
            .name
            .as_ref()
            .map_or("", |name| name.text.as_str())
    }

    /// Expressions of the function, outer before inner, those of functions inside it left out.
    pub fn exprs(&self, cx: &'a Cx<'a>) -> impl Iterator<Item = &'a Expr> {
        let index = self.index;
        cx.nodes
            .exprs
            .iter()
            .copied()
            .filter(move |expr| cx.an.function_of.get(&expr.id) == Some(&index))
    }

    /// The expressions around one, outermost first.
    pub fn around(&self, cx: &'a Cx<'a>, inner: &Expr) -> Vec<&'a Expr> {
        let (span, id) = (inner.span, inner.id);
        self.exprs(cx)
            .filter(|expr| expr.id != id && expr.span.contains(span))
            .collect()
    }
}

/// A call that belongs to a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhaseCall<'a> {
    /// Index of the phase's rule.
    pub phase: usize,
    pub expr: &'a Expr,
    pub recv: Option<&'a Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    Start,
    End,
    Scope,
}

/// One end of a bracket that is there.
#[derive(Debug)]
pub(super) struct Mark<'a> {
    pub kind: MarkKind,
    pub phase: usize,
    pub expr: &'a Expr,
    /// What the phase's name is written behind: `Phase`, `ml_cuda::Phase`.
    pub prefix: String,
    pub stream: Option<&'a Expr>,
}

/// Whether a call is bracketed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    Yes,
    No,
    /// The bracket before it has no end.
    Open,
}

/// Whether a type is that of the definition, behind references and smart pointers, or the retired one that it follows.
pub(super) fn is_type(world: &World, ty: &Type, def: DefId) -> bool {
    world.autoderef(ty).iter().any(|step| matches!(step, Type::Adt(found, _) if *found == def || world.successor(*found) == Some(def)))
}

fn is_unknown(world: &World, ty: &Type) -> bool {
    world
        .autoderef(ty)
        .last()
        .is_none_or(|last| !last.is_known())
}

impl<'a> Tree<'a> {
    pub(super) fn is_stream(&self, ty: &Type) -> bool {
        self.world.autoderef(ty).iter().any(|step| match step {
            Type::External(path, _) => {
                path.rsplit("::").next() == Some(self.rule.stream_type.as_str())
            }
            Type::Adt(def, _) => self.world.defs[*def].name == self.rule.stream_type,
            _ => false,
        })
    }

    /// Whether a written type is the stream's, by what it resolves to or else by its last name.
    pub(super) fn is_stream_ty(&self, body: Body<'_>, params: &[String], ty: &Ty) -> bool {
        let lowered = self.lower(body.module, params, None, ty);
        if !is_unknown(self.world, &lowered) {
            return self.is_stream(&lowered);
        }
        last_name(ty) == Some(self.rule.stream_type.as_str())
    }

    /// Whether a written type is the timer's.
    pub(super) fn holds(&self, body: Body<'_>, params: &[String], ty: &Ty) -> Holds {
        let lowered = self.lower(body.module, params, None, ty);
        let is_timer = |ty: &Type| matches!(ty, Type::Adt(def, _) if self.timer_defs.contains(def));
        if self.world.autoderef(&lowered).iter().any(is_timer) {
            return Holds::Directly;
        }
        // An import that was added a moment ago is not known to the world.
        let name = last_name(ty);
        let by_name =
            name == Some(self.rule.field_type.as_str()) && is_unknown(self.world, &lowered);
        if by_name {
            return Holds::Directly;
        }
        let mut inside = false;
        visit_ty(ty, &mut |inner| {
            inside |= is_timer(&self.lower(body.module, params, None, inner));
        });
        if inside { Holds::Inside } else { Holds::Not }
    }

    /// The phase that an expression is a call of, and whether the type of its receiver can be told.
    pub(super) fn phase_call(
        &self,
        function: &Function<'a>,
        def: DefId,
        expr: &'a Expr,
    ) -> Option<(PhaseCall<'a>, bool)> {
        let cx = self.cx(function.body.file);
        for (phase, rule) in self.rule.phases.iter().enumerate() {
            let is_called = |name: &str| rule.calls.iter().any(|call| call == name);
            let Some(owner) = (match &rule.receiver {
                Some(path) => self.world.canonical(path),
                None => Some(def),
            }) else {
                continue;
            };
            match &expr.kind {
                ExprKind::MethodCall { recv, method, .. } if is_called(&method.text) => {
                    let ty = cx.an.ty(recv);
                    let call = PhaseCall {
                        phase,
                        expr,
                        recv: Some(recv),
                    };
                    if is_type(self.world, ty, owner) {
                        return Some((call, true));
                    }
                    if is_unknown(self.world, ty) {
                        return Some((call, false));
                    }
                }
                ExprKind::Call { callee, args } => {
                    let ExprKind::Path(path) = &callee.kind else {
                        continue;
                    };
                    if is_called(&path.last().name.text) && self.is_path_on(function, path, owner) {
                        return Some((
                            PhaseCall {
                                phase,
                                expr,
                                recv: args.first(),
                            },
                            true,
                        ));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a path names an associated function of the type: `Self::f`, `Type::f`, `<Type>::f`.
    pub(super) fn is_path_on(
        &self,
        function: &Function<'a>,
        path: &crate::syntax::Path,
        owner: DefId,
    ) -> bool {
        let cx = self.cx(function.body.file);
        let own = cx.an.functions[function.index].self_ty.as_ref();
        if let Some(ty) = &path.qself {
            return is_type(
                self.world,
                &self.lower(function.body.module, &[], own, ty),
                owner,
            );
        }
        let Some(found) = cx.an.path(path) else {
            return false;
        };
        if found.taken + 1 != path.segs.len() {
            return false;
        }
        match self.world.unalias(found.res.clone()) {
            Res::SelfTy => own.is_some_and(|ty| is_type(self.world, ty, owner)),
            Res::Def(def) => def == owner || self.world.successor(def) == Some(owner),
            _ => false,
        }
    }

    /// Brackets of a function, in the order of the text.
    pub(super) fn marks(&self, function: &Function<'a>) -> Vec<Mark<'a>> {
        let cx = self.cx(function.body.file);
        let mut marks: Vec<Mark<'a>> = Vec::new();
        for expr in function.exprs(cx) {
            let ExprKind::MethodCall { method, args, .. } = &expr.kind else {
                continue;
            };
            let kind = if method.text == self.rule.start {
                MarkKind::Start
            } else if method.text == self.rule.end {
                MarkKind::End
            } else if self.rule.scope.as_ref() == Some(&method.text) {
                MarkKind::Scope
            } else {
                continue;
            };
            if let Some((phase, prefix)) = args.first().and_then(|arg| self.phase_named(cx, arg)) {
                marks.push(Mark {
                    kind,
                    phase,
                    expr,
                    prefix,
                    stream: args.get(1),
                });
            }
        }
        marks.sort_by_key(|mark| mark.expr.span.lo);
        marks
    }

    /// The phase that an argument names, and what its name stands behind.
    fn phase_named(&self, cx: &Cx<'_>, arg: &Expr) -> Option<(usize, String)> {
        let ExprKind::Path(path) = &arg.kind else {
            return None;
        };
        let (last, rest) = path.segs.split_last()?;
        let phase = self
            .rule
            .phases
            .iter()
            .position(|rule| rule.phase == last.name.text)?;
        let resolves = matches!(cx.an.path(path), Some(found) if matches!(found.res, Res::Variant(def, _) if self.world.defs[def].name == self.rule.phase_type));
        let is_spelled = rest
            .last()
            .is_some_and(|seg| seg.name.text == self.rule.phase_type);
        (resolves || is_spelled).then(|| {
            let prefix = cx.src(Span::new(path.span.lo, last.name.span.lo));
            (phase, prefix.trim_end().trim_end_matches(':').to_owned())
        })
    }

    /// Whether a bracket of the phase is around a stretch of the function.
    pub(super) fn cover(
        &self,
        function: &Function<'a>,
        marks: &[Mark<'a>],
        phase: usize,
        span: Span,
    ) -> Cover {
        let cx = self.cx(function.body.file);
        let of_phase = || marks.iter().filter(|mark| mark.phase == phase);
        for mark in of_phase().filter(|mark| mark.kind == MarkKind::Scope) {
            let places = path_to(function.block, mark.expr.span);
            let Some(place) = places.last() else { continue };
            let stmt = place.stmt();
            let name = match &stmt.kind {
                StmtKind::Let { pat, .. } => match &pat.kind {
                    PatKind::Ident { name, .. } => Some(name),
                    _ => None,
                },
                _ => None,
            };
            let Some(name) = name else {
                if stmt.span.contains(span) {
                    return Cover::Yes;
                }
                continue;
            };
            let dropped = function
                .exprs(cx)
                .find(|expr| is_drop_of(expr, &name.text) && expr.span.lo >= mark.expr.span.hi);
            let end = dropped.map_or(place.block.span.hi, |expr| {
                expr.span.lo.min(place.block.span.hi)
            });
            if mark.expr.span.hi <= span.lo && span.hi <= end {
                return Cover::Yes;
            }
        }
        let Some(start) =
            of_phase().rfind(|mark| mark.kind == MarkKind::Start && mark.expr.span.hi <= span.lo)
        else {
            return Cover::No;
        };
        let mut ends = of_phase()
            .filter(|mark| mark.kind == MarkKind::End && mark.expr.span.lo >= start.expr.span.hi);
        match ends.next() {
            Some(end) if end.expr.span.lo >= span.hi => Cover::Yes,
            Some(_) => Cover::No,
            None => Cover::Open,
        }
    }
}

fn is_drop_of(expr: &Expr, name: &str) -> bool {
    let ExprKind::Call { callee, args } = &expr.kind else {
        return false;
    };
    let (ExprKind::Path(path), [arg]) = (&callee.kind, &args[..]) else {
        return false;
    };
    path.last().name.text == "drop"
        && matches!(&arg.kind, ExprKind::Path(arg) if arg.ident().is_some_and(|ident| ident.text == name))
}

/// The last name of a type, references and the usual pointers taken off.
pub(super) fn last_name(ty: &Ty) -> Option<&str> {
    match &ty.kind {
        TyKind::Ref { inner, .. } => last_name(inner),
        TyKind::Path(path) => {
            let seg = path.last();
            match (&seg.args, seg.name.text.as_str()) {
                (Some(args), "Arc" | "Rc" | "Box") => args.types.first().and_then(last_name),
                (_, name) => Some(name),
            }
        }
        _ => None,
    }
}

fn visit_ty(ty: &Ty, visit: &mut dyn FnMut(&Ty)) {
    visit(ty);
    match &ty.kind {
        TyKind::Path(path) => {
            for args in path.segs.iter().filter_map(|seg| seg.args.as_ref()) {
                args.types.iter().for_each(|ty| visit_ty(ty, visit));
            }
        }
        TyKind::Ref { inner, .. }
        | TyKind::Slice(inner)
        | TyKind::Array(inner)
        | TyKind::Ptr(inner) => visit_ty(inner, visit),
        TyKind::Tuple(types) => types.iter().for_each(|ty| visit_ty(ty, visit)),
        _ => {}
    }
}
