//! Types as far as they can be told, and the way from syntax to them.

use super::resolve::Ns;
use super::*;
use crate::syntax::{Bound, TyKind};

/// A type. What is not known is [`Type::Unknown`], and nothing may be concluded from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    Unknown,
    /// To be found out by unification.
    Var(u32),
    Adt(DefId, Vec<Type>),
    /// `true`: `&mut`.
    Ref(bool, Box<Type>),
    Ptr(Box<Type>),
    Tuple(Vec<Type>),
    /// Slices and arrays.
    Slice(Box<Type>),
    Fn(Vec<Type>, Box<Type>),
    /// A generic parameter of the code at hand.
    Param(String),
    Prim(&'static str),
    Never,
    /// A type of a crate that is not in the tree: known to be none of the tree's.
    External(String, Vec<Type>),
    /// `impl Trait` and `dyn Trait`: what its bounds say.
    Opaque(Vec<BoundType>),
}

/// A trait bound with what it says of associated types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundType {
    /// The trait, if it is known.
    pub def: Option<DefId>,
    /// Its last path segment.
    pub name: String,
    pub args: Vec<Type>,
    pub assoc: Vec<(String, Type)>,
    /// `Fn(A) -> B`.
    pub callable: Option<(Vec<Type>, Box<Type>)>,
}

impl Type {
    pub fn unit() -> Type {
        Type::Tuple(vec![])
    }

    pub fn reference(self) -> Type {
        Type::Ref(false, Box::new(self))
    }

    /// Without references around it.
    pub fn peeled(&self) -> &Type {
        match self {
            Type::Ref(_, inner) => inner.peeled(),
            other => other,
        }
    }

    pub fn is_known(&self) -> bool {
        !matches!(self, Type::Unknown | Type::Var(_))
    }

    /// Replaces parameters by what `map` says of them.
    pub fn subst(&self, map: &dyn Fn(&str) -> Option<Type>) -> Type {
        self.replaced(&|ty| match ty {
            Type::Param(name) => map(name),
            _ => None,
        })
    }

    /// Without variables: one that was never found out is unknown.
    pub fn settled(&self) -> Type {
        self.replaced(&|ty| matches!(ty, Type::Var(_)).then_some(Type::Unknown))
    }

    fn replaced(&self, map: &dyn Fn(&Type) -> Option<Type>) -> Type {
        if let Some(other) = map(self) {
            return other;
        }
        let all = |types: &[Type]| types.iter().map(|ty| ty.replaced(map)).collect::<Vec<_>>();
        match self {
            Type::Adt(def, args) => Type::Adt(*def, all(args)),
            Type::External(path, args) => Type::External(path.clone(), all(args)),
            Type::Ref(mutable, inner) => Type::Ref(*mutable, Box::new(inner.replaced(map))),
            Type::Ptr(inner) => Type::Ptr(Box::new(inner.replaced(map))),
            Type::Tuple(types) => Type::Tuple(all(types)),
            Type::Slice(inner) => Type::Slice(Box::new(inner.replaced(map))),
            Type::Fn(params, ret) => Type::Fn(all(params), Box::new(ret.replaced(map))),
            Type::Opaque(bounds) => Type::Opaque(
                bounds
                    .iter()
                    .map(|bound| BoundType {
                        def: bound.def,
                        name: bound.name.clone(),
                        args: all(&bound.args),
                        assoc: bound
                            .assoc
                            .iter()
                            .map(|(name, ty)| (name.clone(), ty.replaced(map)))
                            .collect(),
                        callable: bound
                            .callable
                            .as_ref()
                            .map(|(params, ret)| (all(params), Box::new(ret.replaced(map)))),
                    })
                    .collect(),
            ),
            Type::Unknown | Type::Var(_) | Type::Param(_) | Type::Prim(_) | Type::Never => {
                self.clone()
            }
        }
    }
}

/// Where a type is written.
#[derive(Debug, Clone, Copy)]
pub struct TypeCtx<'a> {
    pub module: ModId,
    pub params: &'a [String],
    pub self_ty: Option<&'a Type>,
    pub scopes: &'a [BlockScope],
}

impl<'a> TypeCtx<'a> {
    pub fn scope(&self) -> Scope<'a> {
        Scope {
            module: self.module,
            blocks: self.scopes,
            params: self.params,
        }
    }
}

impl World {
    pub fn lower_ty(&self, ctx: &TypeCtx<'_>, ty: &Ty) -> Type {
        self.lower_ty_depth(ctx, ty, 0)
    }

    fn lower_ty_depth(&self, ctx: &TypeCtx<'_>, ty: &Ty, depth: usize) -> Type {
        if depth > 64 {
            return Type::Unknown;
        }
        let lower = |ty: &Ty| self.lower_ty_depth(ctx, ty, depth + 1);
        match &ty.kind {
            TyKind::Path(path) => self.lower_path_ty(ctx, path, depth),
            TyKind::Ref { mutable, inner } => Type::Ref(*mutable, Box::new(lower(inner))),
            TyKind::Ptr(inner) => Type::Ptr(Box::new(lower(inner))),
            TyKind::Tuple(types) => Type::Tuple(types.iter().map(lower).collect()),
            TyKind::Slice(inner) | TyKind::Array(inner) => Type::Slice(Box::new(lower(inner))),
            TyKind::Fn { params, ret } => Type::Fn(
                params.iter().map(lower).collect(),
                Box::new(ret.as_ref().map_or(Type::unit(), |ret| lower(ret))),
            ),
            TyKind::Impl(bounds) | TyKind::Dyn(bounds) => Type::Opaque(
                bounds
                    .iter()
                    .map(|bound| self.lower_bound(ctx, bound, depth))
                    .collect(),
            ),
            TyKind::Never => Type::Never,
            TyKind::Infer | TyKind::Macro(_) | TyKind::Other => Type::Unknown,
        }
    }

    pub fn lower_bound(&self, ctx: &TypeCtx<'_>, bound: &Bound, depth: usize) -> BoundType {
        let lower = |ty: &Ty| self.lower_ty_depth(ctx, ty, depth + 1);
        let def = match self.resolve_path(ctx.scope(), &bound.path, Ns::Type) {
            (Res::Def(def), n) if n == bound.path.segs.len() => Some(def),
            _ => None,
        };
        let last = bound.path.last();
        let mut out = BoundType {
            def,
            name: last.name.text.clone(),
            args: vec![],
            assoc: vec![],
            callable: None,
        };
        if let Some(args) = &last.args {
            if args.parenthesized {
                let ret = args.output.as_ref().map_or(Type::unit(), |ret| lower(ret));
                out.callable = Some((args.types.iter().map(lower).collect(), Box::new(ret)));
            } else {
                out.args = args.types.iter().map(lower).collect();
                out.assoc = args
                    .assoc
                    .iter()
                    .map(|(name, ty)| (name.text.clone(), lower(ty)))
                    .collect();
            }
        }
        out
    }

    fn lower_path_ty(&self, ctx: &TypeCtx<'_>, path: &Path, depth: usize) -> Type {
        if path.qself.is_some() {
            return Type::Unknown;
        }
        let (res, n) = self.resolve_path(ctx.scope(), path, Ns::Type);
        let args: Vec<Type> = path
            .segs
            .get(n.wrapping_sub(1))
            .and_then(|seg| seg.args.as_ref())
            .map(|args| {
                args.types
                    .iter()
                    .map(|ty| self.lower_ty_depth(ctx, ty, depth + 1))
                    .collect()
            })
            .unwrap_or_default();
        if n < path.segs.len() {
            // `Self::Item`, `T::Item`: an associated type.
            let base = match res {
                Res::SelfTy => ctx.self_ty.cloned().unwrap_or(Type::Unknown),
                Res::Def(def) => self.def_type(def, args, depth),
                _ => return Type::Unknown,
            };
            let name = &path.segs[n].name.text;
            return self.assoc_type(&base, name).unwrap_or(Type::Unknown);
        }
        self.res_type(res, args, ctx, depth)
    }

    fn res_type(&self, res: Res, args: Vec<Type>, ctx: &TypeCtx<'_>, depth: usize) -> Type {
        match res {
            Res::Def(def) => self.def_type(def, args, depth),
            Res::SelfTy => ctx.self_ty.cloned().unwrap_or(Type::Unknown),
            Res::Prim(name) => Type::Prim(name),
            Res::Param(name) => Type::Param(name),
            Res::External(path) => Type::External(path, args),
            Res::LocalItem(name) => Type::External(format!("<local>::{name}"), args),
            Res::Variant(def, _) => Type::Adt(def, args),
            _ => Type::Unknown,
        }
    }

    fn def_type(&self, def: DefId, mut args: Vec<Type>, depth: usize) -> Type {
        let generics = match &self.defs[def].kind {
            DefKind::Struct { generics, .. }
            | DefKind::Enum { generics, .. }
            | DefKind::Alias { generics, .. } => generics,
            _ => return Type::Unknown,
        };
        let params = generics.names();
        let home = TypeCtx {
            module: self.defs[def].module,
            params: &params,
            self_ty: None,
            scopes: &[],
        };
        // Defaults of parameters that are left out.
        for param in generics.params.iter().skip(args.len()) {
            let ty = match &param.default {
                Some(ty) if depth < 32 => self.lower_ty_depth(&home, ty, depth + 1),
                _ => Type::Unknown,
            };
            args.push(ty);
        }
        match &self.defs[def].kind {
            DefKind::Alias { ty, .. } if depth < 32 => {
                let inner = self.lower_ty_depth(&home, ty, depth + 1);
                inner.subst(&|name| {
                    params
                        .iter()
                        .position(|param| param == name)
                        .and_then(|at| args.get(at).cloned())
                })
            }
            DefKind::Alias { .. } => Type::Unknown,
            _ => Type::Adt(def, args),
        }
    }

    /// `<base as _>::name`, from the implementations for `base`.
    pub fn assoc_type(&self, base: &Type, name: &str) -> Option<Type> {
        match base {
            Type::Adt(def, args) => {
                for &id in self.impls_of.get(def)? {
                    let it = &self.impls[id];
                    if let Some((_, ty)) = it.assoc.iter().find(|(assoc, _)| assoc == name) {
                        let params = it.generics.names();
                        let ctx = TypeCtx {
                            module: it.module,
                            params: &params,
                            self_ty: Some(base),
                            scopes: &[],
                        };
                        let own = self.lower_ty(&ctx, &it.self_ty);
                        let map = match_params(&own, &Type::Adt(*def, args.clone()));
                        return Some(self.lower_ty(&ctx, ty).subst(&|param| {
                            map.iter().find(|(n, _)| n == param).map(|(_, t)| t.clone())
                        }));
                    }
                }
                None
            }
            Type::Opaque(bounds) => bounds
                .iter()
                .flat_map(|bound| &bound.assoc)
                .find(|(assoc, _)| assoc == name)
                .map(|(_, ty)| ty.clone()),
            _ => None,
        }
    }
}

/// What each parameter in `pattern` stands for, given the type it describes.
pub fn match_params(pattern: &Type, ty: &Type) -> Vec<(String, Type)> {
    fn walk(pattern: &Type, ty: &Type, out: &mut Vec<(String, Type)>) {
        match (pattern, ty) {
            (Type::Param(name), ty) => out.push((name.clone(), ty.clone())),
            (Type::Adt(a, xs), Type::Adt(b, ys)) if a == b => {
                xs.iter().zip(ys).for_each(|(x, y)| walk(x, y, out))
            }
            (Type::External(a, xs), Type::External(b, ys)) if a == b => {
                xs.iter().zip(ys).for_each(|(x, y)| walk(x, y, out))
            }
            (Type::Ref(_, x), Type::Ref(_, y))
            | (Type::Slice(x), Type::Slice(y))
            | (Type::Ptr(x), Type::Ptr(y)) => walk(x, y, out),
            (Type::Tuple(xs), Type::Tuple(ys)) => {
                xs.iter().zip(ys).for_each(|(x, y)| walk(x, y, out))
            }
            (Type::Fn(xs, x), Type::Fn(ys, y)) => {
                xs.iter().zip(ys).for_each(|(x, y)| walk(x, y, out));
                walk(x, y, out);
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(pattern, ty, &mut out);
    out
}
