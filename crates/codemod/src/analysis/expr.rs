//! What expressions are.

use super::*;
use crate::syntax::{BinOp, BlockFlavour, LitKind, MacroArgs};
use crate::world::{DefId, DefKind, FnDef, Ns};

/// Nesting of expressions beyond this is not typed: the stack is finite.
const MAX_DEPTH: usize = 20_000;

impl Cx<'_> {
    pub(super) fn expr(&mut self, expr: &Expr, expected: Option<&Type>) -> Type {
        self.depth += 1;
        let ty = if self.depth > MAX_DEPTH {
            Type::Unknown
        } else {
            self.expr_inner(expr, expected)
        };
        self.depth -= 1;
        self.out.types.insert(expr.id, ty.clone());
        self.out.function_of.insert(expr.id, self.function);
        ty
    }

    fn std(&self, path: &str) -> Option<DefId> {
        self.world.canonical(path)
    }

    fn std_type(&self, path: &str, args: Vec<Type>) -> Type {
        self.std(path)
            .map_or(Type::Unknown, |def| Type::Adt(def, args))
    }

    fn expr_inner(&mut self, expr: &Expr, expected: Option<&Type>) -> Type {
        match &expr.kind {
            ExprKind::Lit(kind) => match kind {
                LitKind::Bool(_) => Type::Prim("bool"),
                LitKind::Str => Type::Prim("str").reference(),
                LitKind::Char => Type::Prim("char"),
                LitKind::Int => match expected.map(|ty| self.resolve(ty)) {
                    Some(Type::Prim(name)) => Type::Prim(name),
                    _ => Type::Prim("usize"),
                },
                LitKind::Float => Type::Prim("f64"),
                LitKind::Other => Type::Unknown,
            },
            ExprKind::Path(path) => self.path_expr(expr, path),
            ExprKind::Call { callee, args } => self.call(callee, args, expected),
            ExprKind::MethodCall {
                recv,
                method,
                turbofish,
                args,
                ..
            } => {
                let recv_ty = self.expr(recv, None);
                if let Some(args) = turbofish {
                    self.note_args(args);
                }
                self.method_call(
                    expr,
                    &recv_ty,
                    &method.text,
                    turbofish.as_ref(),
                    args,
                    expected,
                )
            }
            ExprKind::Field { base, member, .. } => {
                let base_ty = self.expr(base, None);
                let base_ty = self.resolve(&base_ty);
                self.world
                    .field(&base_ty, &member.text)
                    .map_or(Type::Unknown, |hit| hit.ty)
            }
            ExprKind::Index { base, index } => {
                let base_ty = self.expr(base, None);
                self.expr(index, None);
                self.index(&base_ty, index)
            }
            ExprKind::Not(inner) | ExprKind::Neg(inner) => self.expr(inner, expected),
            ExprKind::Deref(inner) => {
                let ty = self.expr(inner, None);
                match self.resolve(&ty) {
                    Type::Ref(_, inner) | Type::Ptr(inner) => *inner,
                    adt @ Type::Adt(..) => self
                        .world
                        .assoc_type(&adt, "Target")
                        .unwrap_or(Type::Unknown),
                    _ => Type::Unknown,
                }
            }
            ExprKind::Binary { .. } => self.binary_chain(expr, expected),
            ExprKind::Assign { lhs, rhs } => {
                let left = self.expr(lhs, None);
                let right = self.expr(rhs, Some(&left));
                self.unify(&left, &right);
                Type::unit()
            }
            ExprKind::Ref { mutable, inner } => {
                let wanted = match expected.map(|ty| self.resolve(ty)) {
                    Some(Type::Ref(_, inner)) => Some(*inner),
                    _ => None,
                };
                let ty = self.expr(inner, wanted.as_ref());
                Type::Ref(*mutable, Box::new(ty))
            }
            ExprKind::RawRef(inner) => {
                let ty = self.expr(inner, None);
                Type::Ptr(Box::new(ty))
            }
            ExprKind::Cast { inner, ty } => {
                self.expr(inner, None);
                self.note_ty(ty);
                self.lower(ty)
            }
            ExprKind::If { .. } => self.if_chain(expr, expected),
            ExprKind::Let { pat, value } => {
                let ty = self.expr(value, None);
                self.bind(pat, &ty, LocalKind::Pattern);
                Type::Prim("bool")
            }
            ExprKind::Match {
                scrutinee, arms, ..
            } => {
                let ty = self.expr(scrutinee, None);
                let mut out = Type::Never;
                for arm in arms {
                    self.push_scope();
                    self.bind(&arm.pat, &ty, LocalKind::Pattern);
                    if let Some(guard) = &arm.guard {
                        self.expr(guard, None);
                    }
                    let got = self.expr(&arm.body, expected);
                    self.pop_scope();
                    out = self.join(out, got);
                }
                out
            }
            ExprKind::Loop { label, body } => {
                let result = self.fresh();
                self.loops.push((
                    label.as_ref().map(|label| label.text.clone()),
                    result.clone(),
                ));
                self.block(body, None);
                self.loops.pop();
                self.resolve(&result)
            }
            ExprKind::While { label, cond, body } => {
                self.loops
                    .push((label.as_ref().map(|label| label.text.clone()), Type::unit()));
                self.push_scope();
                self.expr(cond, None);
                self.block(body, None);
                self.pop_scope();
                self.loops.pop();
                Type::unit()
            }
            ExprKind::For {
                label,
                pat,
                iter,
                body,
            } => {
                let ty = self.expr(iter, None);
                let ty = self.resolve(&ty);
                let item = self
                    .world
                    .into_iter_item(&ty, &self.bounds_of())
                    .unwrap_or(Type::Unknown);
                self.loops
                    .push((label.as_ref().map(|label| label.text.clone()), Type::unit()));
                self.push_scope();
                self.bind(pat, &item, LocalKind::Pattern);
                self.block(body, None);
                self.pop_scope();
                self.loops.pop();
                Type::unit()
            }
            ExprKind::Block {
                label,
                flavour,
                block,
            } => match flavour {
                BlockFlavour::Async => {
                    let result = self.fresh();
                    self.returns.push(result.clone());
                    let got = self.block(block, None);
                    self.returns.pop();
                    let got = self.join(got, result);
                    future(got)
                }
                _ => {
                    if let Some(label) = label {
                        let result = self.fresh();
                        self.loops.push((Some(label.text.clone()), result.clone()));
                        let got = self.block(block, expected);
                        self.loops.pop();
                        return self.join(got, result);
                    }
                    self.block(block, expected)
                }
            },
            ExprKind::Closure {
                params,
                ret,
                body,
                is_async,
                ..
            } => {
                let wanted = expected
                    .map(|ty| self.resolve(ty))
                    .and_then(|ty| callable(&ty));
                let declared_ret = ret.as_ref().map(|ty| {
                    self.note_ty(ty);
                    self.lower(ty)
                });
                self.push_scope();
                let mut types = Vec::new();
                for (at, (pat, ty)) in params.iter().enumerate() {
                    let hint = wanted
                        .as_ref()
                        .and_then(|(params, _)| params.get(at))
                        .cloned();
                    let ty = match ty {
                        Some(ty) => {
                            self.note_ty(ty);
                            let declared = self.lower(ty);
                            if let Some(hint) = &hint {
                                self.unify(hint, &declared);
                                self.fill(&declared, &self.resolve(hint))
                            } else {
                                declared
                            }
                        }
                        None => match hint {
                            Some(hint) => hint,
                            None => match self.closure_seed(pat) {
                                Some(seed) => seed,
                                None => self.fresh(),
                            },
                        },
                    };
                    self.bind(pat, &ty, LocalKind::ClosureParam);
                    types.push(ty);
                }
                let result = declared_ret.unwrap_or_else(|| self.fresh());
                self.returns.push(result.clone());
                let outer_loops = std::mem::take(&mut self.loops);
                let hint = wanted
                    .as_ref()
                    .map(|(_, ret)| ret.clone())
                    .unwrap_or_else(|| result.clone());
                let got = self.expr(body, Some(&hint));
                self.unify(&result, &got);
                self.loops = outer_loops;
                self.returns.pop();
                self.pop_scope();
                let got = self.join(got, result);
                Type::Fn(types, Box::new(if *is_async { future(got) } else { got }))
            }
            ExprKind::Return(value) => {
                if let Some(value) = value {
                    let wanted = self.returns.last().cloned();
                    let got = self.expr(value, wanted.as_ref());
                    if let Some(wanted) = wanted {
                        self.unify(&wanted, &got);
                    }
                }
                Type::Never
            }
            ExprKind::Break { label, value } => {
                if let Some(value) = value {
                    let target = match label {
                        Some(label) => self
                            .loops
                            .iter()
                            .rev()
                            .find(|(name, _)| name.as_deref() == Some(&label.text)),
                        None => self.loops.last(),
                    };
                    let target = target.map(|(_, ty)| ty.clone());
                    let got = self.expr(value, target.as_ref());
                    if let Some(target) = target {
                        self.unify(&target, &got);
                    }
                }
                Type::Never
            }
            ExprKind::Continue { .. } => Type::Never,
            ExprKind::Try(inner) => {
                let ty = self.expr(inner, None);
                let ty = self.resolve(&ty);
                match ty {
                    Type::Adt(def, args)
                        if Some(def) == self.std("std::result::Result")
                            || Some(def) == self.std("std::option::Option") =>
                    {
                        args.first().cloned().unwrap_or(Type::Unknown)
                    }
                    _ => Type::Unknown,
                }
            }
            ExprKind::Await(inner) => {
                let ty = self.expr(inner, None);
                let ty = self.resolve(&ty);
                self.world
                    .assoc_type(&ty, "Output")
                    .unwrap_or(Type::Unknown)
            }
            ExprKind::Tuple(exprs) => {
                let wanted = match expected.map(|ty| self.resolve(ty)) {
                    Some(Type::Tuple(types)) => types,
                    _ => vec![],
                };
                Type::Tuple(
                    exprs
                        .iter()
                        .enumerate()
                        .map(|(at, expr)| self.expr(expr, wanted.get(at)))
                        .collect(),
                )
            }
            ExprKind::Array(exprs) => {
                let mut item = match expected.map(|ty| self.resolve(ty)) {
                    Some(Type::Slice(item)) => *item,
                    _ => Type::Unknown,
                };
                for expr in exprs {
                    let hint = item.clone();
                    let got = self.expr(expr, Some(&hint));
                    item = self.join(item, got);
                }
                Type::Slice(Box::new(item))
            }
            ExprKind::Repeat { value, len } => {
                let item = self.expr(value, None);
                self.expr(len, None);
                Type::Slice(Box::new(item))
            }
            ExprKind::Struct {
                path, fields, rest, ..
            } => self.struct_expr(path, fields, rest.as_deref(), expected),
            ExprKind::Range { start, end } => {
                let mut ty = Type::Prim("usize");
                for part in start.iter().chain(end) {
                    ty = self.expr(part, None);
                }
                self.std_type("std::iter::Iter", vec![ty])
            }
            ExprKind::Paren(inner) => self.expr(inner, expected),
            ExprKind::Macro(mac) => self.macro_call(mac, expected),
            ExprKind::Other => Type::Unknown,
        }
    }

    /// What an earlier pass found for a closure's parameter.
    fn closure_seed(&self, pat: &syntax::Pat) -> Option<Type> {
        match &pat.kind {
            syntax::PatKind::Ident { name, .. } => self.seeds.get(&name.span.lo).cloned(),
            _ => None,
        }
    }

    /// Operators that lean to the left, from the innermost out.
    fn binary_chain(&mut self, last: &Expr, expected: Option<&Type>) -> Type {
        let mut links = vec![last];
        while let ExprKind::Binary { lhs, .. } = &links[links.len() - 1].kind
            && matches!(lhs.kind, ExprKind::Binary { .. })
        {
            links.push(lhs);
        }
        let ExprKind::Binary { op, lhs, .. } = &links[links.len() - 1].kind else {
            return Type::Unknown;
        };
        let mut left = self.expr(lhs, if *op == BinOp::Arith { expected } else { None });
        for link in links.into_iter().rev() {
            let ExprKind::Binary { op, rhs, .. } = &link.kind else {
                continue;
            };
            let hint = matches!(op, BinOp::Eq | BinOp::Ne | BinOp::Compare | BinOp::Arith)
                .then(|| left.clone());
            self.expr(rhs, hint.as_ref());
            left = match op {
                BinOp::And | BinOp::Or | BinOp::Eq | BinOp::Ne | BinOp::Compare => {
                    Type::Prim("bool")
                }
                BinOp::Arith => match self.resolve(&left) {
                    Type::Ref(_, inner) if matches!(*inner, Type::Prim(_)) => *inner,
                    Type::Prim(name) => Type::Prim(name),
                    _ => Type::Unknown,
                },
                BinOp::AssignOp => Type::unit(),
            };
            self.out.types.insert(link.id, left.clone());
            self.out.function_of.insert(link.id, self.function);
        }
        left
    }

    fn if_chain(&mut self, expr: &Expr, expected: Option<&Type>) -> Type {
        // One loop for the whole ladder: links may number thousands.
        let mut out = Type::Never;
        let mut at = expr;
        let mut n_open = 0usize;
        loop {
            let ExprKind::If {
                cond, then, alt, ..
            } = &at.kind
            else {
                let got = self.expr(at, expected);
                out = self.join(out, got);
                break;
            };
            if at.id != expr.id {
                self.out.function_of.insert(at.id, self.function);
            }
            self.push_scope();
            n_open += 1;
            self.expr(cond, None);
            let got = self.block(then, expected);
            out = self.join(out, got);
            // Names of the condition are not seen by `else`.
            self.pop_scope();
            n_open -= 1;
            match alt {
                Some(alt) => at = alt,
                None => {
                    out = Type::unit();
                    break;
                }
            }
        }
        debug_assert_eq!(n_open, 0);
        out
    }

    fn path_expr(&mut self, expr: &Expr, path: &Path) -> Type {
        if let Some(name) = path.ident()
            && let Some(id) = self.lookup(&name.text)
        {
            self.out.local_of.insert(expr.id, id);
            self.out.locals[id].uses.push(Use {
                span: expr.span,
                expr: Some(expr.id),
            });
            return self.out.locals[id].ty.clone();
        }
        self.note_path(path, PathRole::Value);
        self.value_path(path)
    }

    /// The type of a function, constant or constructor that a path names.
    fn value_path(&mut self, path: &Path) -> Type {
        if path.qself.is_some() {
            return Type::Unknown;
        }
        let (mut res, mut taken) = self.world.resolve_path(self.scope(), path, Ns::Value);
        if res == Res::Unknown {
            (res, taken) = self.world.resolve_path(self.scope(), path, Ns::Type);
        }
        let rest: Vec<&str> = path.segs[taken..]
            .iter()
            .map(|seg| seg.name.text.as_str())
            .collect();
        match (&res, &rest[..]) {
            (Res::Variant(def, at), []) => self.variant_type(*def, *at),
            (Res::LocalFn(name), []) => {
                let found = self
                    .blocks
                    .iter()
                    .rev()
                    .find_map(|block| block.fns.get(name))
                    .cloned();
                found.map_or(Type::Unknown, |f| {
                    self.fn_type(&f, self.module, &[], None, path, true)
                })
            }
            (Res::Def(def), []) => {
                let def = *def;
                let world = self.world;
                match &world.defs[def].kind {
                    DefKind::Fn(f) => {
                        self.fn_type(f, world.defs[def].module, &[], None, path, true)
                    }
                    DefKind::Const { ty } => {
                        let ctx = TypeCtx {
                            module: world.defs[def].module,
                            params: &[],
                            self_ty: None,
                            scopes: &[],
                        };
                        world.lower_ty(&ctx, ty)
                    }
                    DefKind::Struct {
                        generics, fields, ..
                    } => {
                        let args: Vec<Type> =
                            generics.params.iter().map(|_| self.fresh()).collect();
                        let whole = Type::Adt(def, args.clone());
                        if fields.is_empty() {
                            return whole;
                        }
                        let params = fields
                            .iter()
                            .map(|(_, ty)| world.member_ty(def, generics, &args, ty))
                            .collect();
                        Type::Fn(params, Box::new(whole))
                    }
                    _ => Type::Unknown,
                }
            }
            (Res::Def(_) | Res::SelfTy, [name]) => {
                let base = match &res {
                    Res::SelfTy => self.self_ty.clone().unwrap_or(Type::Unknown),
                    _ => self.type_of_res(&res, path, taken),
                };
                self.assoc_value(&base, name, path, &res)
            }
            _ => Type::Unknown,
        }
    }

    fn type_of_res(&mut self, res: &Res, path: &Path, taken: usize) -> Type {
        let Res::Def(def) = res else {
            return Type::Unknown;
        };
        let world = self.world;
        let generics = match &world.defs[*def].kind {
            DefKind::Struct { generics, .. } | DefKind::Enum { generics, .. } => generics,
            DefKind::Alias { .. } => {
                // As if it were written as a type.
                let prefix = Path {
                    span: path.span,
                    leading_colon: path.leading_colon,
                    segs: path.segs[..taken].to_vec(),
                    qself: None,
                    qself_pos: 0,
                };
                return self.lower(&Ty {
                    span: path.span,
                    kind: TyKind::Path(prefix),
                });
            }
            _ => return Type::Unknown,
        };
        let written: Vec<Type> = path.segs[taken - 1]
            .args
            .as_ref()
            .map(|args| args.types.iter().map(|ty| self.lower(ty)).collect())
            .unwrap_or_default();
        let args = (0..generics.params.len())
            .map(|at| written.get(at).cloned().unwrap_or_else(|| self.fresh()))
            .collect();
        Type::Adt(*def, args)
    }

    fn assoc_value(&mut self, base: &Type, name: &str, path: &Path, res: &Res) -> Type {
        let base = self.resolve(base);
        let world = self.world;
        // `Trait::method`.
        if let Res::Def(def) = res
            && let DefKind::Trait { fns, .. } = &world.defs[*def].kind
        {
            let Some(f) = fns.iter().find(|f| f.name == name) else {
                return Type::Unknown;
            };
            let own = self.fresh();
            return self.fn_type(f, world.defs[*def].module, &[], Some(own), path, true);
        }
        let Type::Adt(def, _) = &base else {
            return Type::Unknown;
        };
        let def = *def;
        // `Self::Variant`.
        if let DefKind::Enum { variants, .. } = &world.defs[def].kind
            && let Some(at) = variants.iter().position(|variant| variant.name == name)
        {
            let found = PathUse {
                path: path.clone(),
                res: Res::Variant(def, at),
                taken: path.segs.len(),
                role: PathRole::Value,
                module: self.module,
            };
            self.out.paths.insert(path.span.lo, found);
            let ty = self.variant_type(def, at);
            match &ty {
                Type::Fn(_, whole) => self.unify(whole, &base),
                whole => self.unify(whole, &base),
            }
            return ty;
        }
        if let Some((f, id)) = world.assoc_fn(def, name) {
            let generics = world.impl_generics(id);
            let module = world.impls[id].module;
            let params = generics.names();
            let ctx = TypeCtx {
                module,
                params: &params,
                self_ty: None,
                scopes: &[],
            };
            let own = world.lower_ty(&ctx, &world.impls[id].self_ty.clone());
            let fresh: Vec<(String, Type)> = params
                .iter()
                .map(|name| (name.clone(), self.fresh()))
                .collect();
            let own = own.subst(&|name| {
                fresh
                    .iter()
                    .find(|(n, _)| n == name)
                    .map(|(_, ty)| ty.clone())
            });
            self.unify(&own, &base);
            return self.fn_type(&f, module, &fresh, Some(base), path, true);
        }
        // A method that only the successor has.
        if let Some(new) = world.successor(def)
            && let Some((f, id)) = world.assoc_fn(new, name)
        {
            return self.fn_type(
                &f,
                world.impls[id].module,
                &[],
                Some(Type::Adt(new, vec![])),
                path,
                true,
            );
        }
        // What an implemented trait has without a receiver: `Type::from_parts(parts)`.
        let found = world.trait_fn(&base, name, &self.bounds_of());
        if let Some((f, module)) = found {
            return self.fn_type(&f, module, &[], Some(base), path, true);
        }
        // Default methods of implemented traits.
        if let Some(hit) = world.method(&base, name, &|_| vec![]) {
            return self.fn_type(&hit.def, hit.module, &hit.bindings, Some(base), path, true);
        }
        Type::Unknown
    }

    fn variant_type(&mut self, def: DefId, at: usize) -> Type {
        let world = self.world;
        let DefKind::Enum { generics, variants } = &world.defs[def].kind else {
            return Type::Unknown;
        };
        let args: Vec<Type> = generics.params.iter().map(|_| self.fresh()).collect();
        let whole = Type::Adt(def, args.clone());
        let variant = &variants[at];
        if !variant.is_tuple {
            return whole;
        }
        let params = variant
            .fields
            .iter()
            .map(|(_, ty)| world.member_ty(def, generics, &args, ty))
            .collect();
        Type::Fn(params, Box::new(whole))
    }

    /// A signature as a function type, its own generics replaced by fresh variables (or by the path's turbofish).
    fn fn_type(
        &mut self,
        f: &FnDef,
        module: ModId,
        bindings: &[(String, Type)],
        self_ty: Option<Type>,
        path: &Path,
        with_self: bool,
    ) -> Type {
        let turbofish = path.last().args.clone();
        self.instantiate(f, module, bindings, self_ty, turbofish.as_ref(), with_self)
    }

    fn instantiate(
        &mut self,
        f: &FnDef,
        module: ModId,
        bindings: &[(String, Type)],
        self_ty: Option<Type>,
        turbofish: Option<&syntax::GenericArgs>,
        with_self: bool,
    ) -> Type {
        let world = self.world;
        // `T: Source<Item = X>`: what is said of `T` says what `Self::Item` is.
        let self_ty = match self_ty {
            Some(Type::Param(name)) => {
                let bounds = self.bounds_of()(&name);
                Some(if bounds.iter().any(|bound| !bound.assoc.is_empty()) {
                    Type::Opaque(bounds)
                } else {
                    Type::Param(name)
                })
            }
            other => other,
        };
        let generics = &f.sig.generics;
        let mut params: Vec<String> = bindings.iter().map(|(name, _)| name.clone()).collect();
        let own: Vec<String> = generics
            .params
            .iter()
            .filter(|param| param.is_type)
            .map(|param| param.name.text.clone())
            .collect();
        params.extend(own.iter().cloned());
        params.push("Self".into());
        let home = TypeCtx {
            module,
            params: &params,
            self_ty: self_ty.as_ref(),
            scopes: &[],
        };
        let mut map: Vec<(String, Type)> = bindings.to_vec();
        let written: Vec<Type> = turbofish
            .map(|args| args.types.iter().map(|ty| self.lower(ty)).collect())
            .unwrap_or_default();
        for (at, name) in own.iter().enumerate() {
            let ty = match written.get(at) {
                Some(Type::Unknown) | None => self.fresh(),
                Some(ty) => ty.clone(),
            };
            map.push((name.clone(), ty));
        }
        // A parameter bounded by `FnMut(T) -> U` or `IntoIterator<Item = U>` says what its argument has to be.
        let mut bounded: Vec<(String, Vec<BoundType>)> = Vec::new();
        let mut add = |name: &str, bounds: Vec<BoundType>| {
            if bounds
                .iter()
                .any(|bound| bound.callable.is_some() || !bound.assoc.is_empty())
            {
                bounded.push((name.to_owned(), bounds));
            }
        };
        for param in &generics.params {
            add(
                &param.name.text,
                param
                    .bounds
                    .iter()
                    .map(|bound| world.lower_bound(&home, bound, 0))
                    .collect(),
            );
        }
        for (ty, bounds) in &generics.wheres {
            if let TyKind::Path(path) = &ty.kind
                && let Some(name) = path.ident()
            {
                add(
                    &name.text,
                    bounds
                        .iter()
                        .map(|bound| world.lower_bound(&home, bound, 0))
                        .collect(),
                );
            }
        }
        let find = |map: &[(String, Type)], name: &str| {
            map.iter()
                .find(|(n, _)| n == name)
                .map(|(_, ty)| ty.clone())
        };
        let outer = |name: &str| {
            if name == "Self" {
                self_ty.clone()
            } else {
                find(&map, name)
            }
        };
        let lowered: Vec<Type> = f
            .sig
            .params
            .iter()
            .map(|param| {
                let ty = world.lower_ty(&home, &param.ty);
                match &ty {
                    Type::Param(name) => match bounded.iter().find(|(n, _)| n == name) {
                        Some((_, bounds)) => Type::Opaque(bounds.clone()).subst(&outer),
                        None => ty.subst(&outer),
                    },
                    _ => ty.subst(&outer),
                }
            })
            .collect();
        let ret = f
            .sig
            .ret
            .as_ref()
            .map_or(Type::unit(), |ty| world.lower_ty(&home, ty))
            .subst(&outer);
        let ret = if f.sig.is_async { future(ret) } else { ret };
        let mut all = Vec::new();
        if with_self && let Some(receiver) = &f.sig.receiver {
            let own = self_ty.clone().unwrap_or(Type::Unknown);
            all.push(match receiver.kind {
                syntax::ReceiverKind::Value => own,
                syntax::ReceiverKind::Ref => own.reference(),
                syntax::ReceiverKind::RefMut => Type::Ref(true, Box::new(own)),
                syntax::ReceiverKind::Typed => Type::Unknown,
            });
        }
        all.extend(lowered);
        Type::Fn(all, Box::new(ret))
    }

    fn call(&mut self, callee: &Expr, args: &[Expr], expected: Option<&Type>) -> Type {
        let ty = self.expr(callee, None);
        let ty = self.resolve(&ty);
        match callable(&ty) {
            Some((params, ret)) => {
                // What is wanted of the result says something of the arguments: `Ok(x)`.
                if let Some(expected) = expected {
                    let expected = self.resolve(expected);
                    if matches!(expected, Type::Adt(..))
                        && matches!(self.resolve(&ret), Type::Adt(..))
                    {
                        self.unify(&ret, &expected);
                    }
                }
                self.args(args, &params);
                self.resolve(&ret)
            }
            None => {
                self.args(args, &[]);
                Type::Unknown
            }
        }
    }

    /// Closures last: what the other arguments are may settle their parameters.
    fn args(&mut self, args: &[Expr], params: &[Type]) {
        let is_closure = |arg: &Expr| matches!(arg.kind, ExprKind::Closure { .. });
        for closures in [false, true] {
            for (at, arg) in args
                .iter()
                .enumerate()
                .filter(|(_, arg)| is_closure(arg) == closures)
            {
                let wanted = params.get(at).map(|ty| self.resolve(ty));
                let got = self.expr(arg, wanted.as_ref());
                if let Some(wanted) = wanted {
                    self.unify(&wanted, &got);
                }
            }
        }
    }

    fn method_call(
        &mut self,
        expr: &Expr,
        recv: &Type,
        method: &str,
        turbofish: Option<&syntax::GenericArgs>,
        args: &[Expr],
        expected: Option<&Type>,
    ) -> Type {
        let recv = self.resolve(recv);
        // What `Clone` and its like give depends on the receiver alone.
        if args.is_empty() && matches!(method, "clone" | "to_owned") {
            return match recv {
                Type::Ref(_, inner) => match (*inner, method) {
                    (Type::Slice(item), "to_owned") => self.std_type("std::vec::Vec", vec![*item]),
                    (Type::Prim("str"), "to_owned") => self.std_type("std::string::String", vec![]),
                    (inner, _) => inner,
                },
                other => other,
            };
        }
        let hit = self.world.method(&recv, method, &self.bounds_of());
        let Some(hit) = hit else {
            self.args(args, &[]);
            return match method {
                "into" | "try_into" => expected.cloned().unwrap_or(Type::Unknown),
                "to_string" => self.std_type("std::string::String", vec![]),
                "into_iter" | "iter" => match self.world.into_iter_item(&recv, &self.bounds_of()) {
                    Some(item) => self.std_type("std::iter::Iter", vec![item]),
                    None => Type::Unknown,
                },
                "borrow" | "borrow_mut" | "as_ref" | "as_mut" | "by_ref" => Type::Unknown,
                _ => Type::Unknown,
            };
        };
        let ty = self.instantiate(
            &hit.def,
            hit.module,
            &hit.bindings,
            Some(hit.self_ty.clone()),
            turbofish,
            false,
        );
        self.out.methods.insert(expr.id, hit);
        let Type::Fn(params, ret) = ty else {
            return Type::Unknown;
        };
        if let Some(expected) = expected
            && method == "collect"
        {
            self.unify(&ret, expected);
        }
        self.args(args, &params);
        let ret = self.resolve(&ret);
        // `collect` into `Vec<_>` or `Result<Vec<_>, _>`: the item fills the gap.
        if method == "collect" {
            let item = self.world.iterator_item(&recv, &self.bounds_of());
            if let Some(item) = item {
                return self.collected(ret, &item);
            }
        }
        ret
    }

    fn collected(&mut self, target: Type, item: &Type) -> Type {
        match &target {
            Type::Adt(def, args) => {
                let name = self.world.defs[*def].canonical.clone();
                let filled = match (name.as_str(), item) {
                    ("std::result::Result" | "std::option::Option", Type::Adt(d, items))
                        if d == def =>
                    {
                        let inner = args.first().cloned().unwrap_or(Type::Unknown);
                        let item = items.first().cloned().unwrap_or(Type::Unknown);
                        let first = self.collected(inner, &item);
                        let second = match (args.get(1), items.get(1)) {
                            (Some(Type::Unknown | Type::Var(_)), Some(err)) => Some(err.clone()),
                            (other, _) => other.cloned(),
                        };
                        std::iter::once(first).chain(second).collect()
                    }
                    (path, item) if path.starts_with("std::") => match (args.len(), item) {
                        (2, Type::Tuple(pair)) if pair.len() == 2 => args
                            .iter()
                            .zip(pair)
                            .map(|(arg, item)| {
                                if arg.is_known() {
                                    arg.clone()
                                } else {
                                    item.clone()
                                }
                            })
                            .collect(),
                        (1, item) => vec![if args[0].is_known() {
                            args[0].clone()
                        } else {
                            item.clone()
                        }],
                        _ => args.clone(),
                    },
                    _ => args.clone(),
                };
                Type::Adt(*def, filled)
            }
            _ => target,
        }
    }

    fn index(&mut self, base: &Type, index_expr: &Expr) -> Type {
        let base = self.resolve(base);
        let is_range = matches!(index_expr.kind, ExprKind::Range { .. });
        for step in self.world.autoderef(&base) {
            match step {
                Type::Slice(item) => return if is_range { Type::Slice(item) } else { *item },
                Type::Adt(def, args) => match self.world.defs[def].canonical.as_str() {
                    "std::collections::HashMap" | "std::collections::BTreeMap" => {
                        return args.get(1).cloned().unwrap_or(Type::Unknown);
                    }
                    "std::collections::VecDeque" => {
                        return args.first().cloned().unwrap_or(Type::Unknown);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        Type::Unknown
    }

    fn struct_expr(
        &mut self,
        path: &Path,
        fields: &[syntax::FieldInit],
        rest: Option<&Expr>,
        expected: Option<&Type>,
    ) -> Type {
        self.note_path(path, PathRole::Type);
        let world = self.world;
        let (res, taken) = world.resolve_path(self.scope(), path, Ns::Type);
        let mut target = match world.unalias(res.clone()) {
            Res::Def(def) if taken == path.segs.len() => Some((def, None)),
            Res::Def(def) => match (&world.defs[def].kind, path.segs.get(taken)) {
                (DefKind::Enum { variants, .. }, Some(seg)) => variants
                    .iter()
                    .position(|variant| variant.name == seg.name.text)
                    .map(|at| (def, Some(at))),
                _ => None,
            },
            Res::Variant(def, at) => Some((def, Some(at))),
            Res::SelfTy => match (&self.self_ty, path.segs.get(taken)) {
                (Some(Type::Adt(def, _)), None) => Some((*def, None)),
                (Some(Type::Adt(def, _)), Some(seg)) => match &world.defs[*def].kind {
                    DefKind::Enum { variants, .. } => variants
                        .iter()
                        .position(|variant| variant.name == seg.name.text)
                        .map(|at| (*def, Some(at))),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        if target.is_none()
            && let (Res::Variant(def, at), n) = world.resolve_path(self.scope(), path, Ns::Value)
            && n == path.segs.len()
        {
            target = Some((def, Some(at)));
        }
        let mut whole = Type::Unknown;
        let mut types: Vec<(String, Type)> = Vec::new();
        if let Some((def, variant)) = target {
            let (generics, fields) = match (&world.defs[def].kind, variant) {
                (DefKind::Enum { generics, variants }, Some(at)) => {
                    (generics, &variants[at].fields)
                }
                (
                    DefKind::Struct {
                        generics, fields, ..
                    },
                    None,
                ) => (generics, fields),
                _ => {
                    self.struct_fields(fields, &[], rest);
                    return Type::Unknown;
                }
            };
            let args: Vec<Type> = generics.params.iter().map(|_| self.fresh()).collect();
            whole = Type::Adt(def, args.clone());
            if let Some(expected) = expected {
                let expected = self.resolve(expected);
                self.unify(&whole, &expected);
            }
            types = fields
                .iter()
                .map(|(name, ty)| (name.clone(), world.member_ty(def, generics, &args, ty)))
                .collect();
        }
        self.struct_fields(fields, &types, rest);
        self.resolve(&whole)
    }

    fn struct_fields(
        &mut self,
        fields: &[syntax::FieldInit],
        types: &[(String, Type)],
        rest: Option<&Expr>,
    ) {
        for field in fields {
            let wanted = types
                .iter()
                .find(|(name, _)| *name == field.name.text)
                .map(|(_, ty)| ty.clone());
            let got = self.expr(&field.value, wanted.as_ref());
            if let Some(wanted) = wanted {
                self.unify(&wanted, &got);
            }
        }
        if let Some(rest) = rest {
            self.expr(rest, None);
        }
    }

    fn macro_call(&mut self, mac: &syntax::MacroCall, expected: Option<&Type>) -> Type {
        self.note_path(&mac.path, PathRole::Macro);
        let name = mac.path.last().name.text.as_str();
        match &mac.args {
            MacroArgs::Exprs { args, captures } => {
                let mut item = Type::Unknown;
                let wanted = match expected.map(|ty| self.resolve(ty)) {
                    Some(Type::Adt(_, types)) if name == "vec" => types.first().cloned(),
                    _ => None,
                };
                for arg in args {
                    let got = self.expr(&arg.value, wanted.as_ref());
                    item = self.join(item, got);
                }
                for capture in captures {
                    if let Some(id) = self.lookup(&capture.text) {
                        self.out.locals[id].uses.push(Use {
                            span: capture.span,
                            expr: None,
                        });
                    }
                }
                match name {
                    "vec" => self.std_type("std::vec::Vec", vec![item]),
                    "format" => self.std_type("std::string::String", vec![]),
                    "panic" | "unreachable" | "todo" | "unimplemented" | "bail" => Type::Never,
                    "dbg" => item,
                    "write" | "writeln" | "anyhow" | "eyre" => Type::Unknown,
                    _ => Type::unit(),
                }
            }
            MacroArgs::Matches { value, pat, guard } => {
                let ty = self.expr(value, None);
                self.push_scope();
                self.bind(pat, &ty, LocalKind::Pattern);
                if let Some(guard) = guard {
                    self.expr(guard, None);
                }
                self.pop_scope();
                Type::Prim("bool")
            }
            MacroArgs::Repeat { value, len } => {
                let item = self.expr(value, None);
                self.expr(len, None);
                self.std_type("std::vec::Vec", vec![item])
            }
            MacroArgs::Opaque => match name {
                "panic" | "unreachable" | "todo" | "unimplemented" | "bail" => Type::Never,
                _ => Type::Unknown,
            },
        }
    }
}

/// Parameters and result of whatever can be called.
fn callable(ty: &Type) -> Option<(Vec<Type>, Type)> {
    match ty {
        Type::Fn(params, ret) => Some((params.clone(), (**ret).clone())),
        Type::Ref(_, inner) => callable(inner),
        Type::Adt(_, args) if args.len() == 1 => match &args[0] {
            Type::Opaque(_) => callable(&args[0]),
            _ => None,
        },
        Type::Opaque(bounds) => bounds
            .iter()
            .find_map(|bound| bound.callable.as_ref())
            .map(|(params, ret)| (params.clone(), (**ret).clone())),
        _ => None,
    }
}

fn future(output: Type) -> Type {
    Type::Opaque(vec![BoundType {
        def: None,
        name: "Future".into(),
        args: vec![],
        assoc: vec![("Output".into(), output)],
        callable: None,
    }])
}
