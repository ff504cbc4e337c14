//! What patterns bind.

use super::*;
use crate::syntax::{Pat, PatKind};
use crate::world::{DefId, DefKind, Ns};

impl Cx<'_> {
    pub(super) fn bind(&mut self, pat: &Pat, ty: &Type, kind: LocalKind) {
        self.bind_mode(pat, ty, None, kind);
    }

    /// `mode`: bindings take a reference because a reference was matched by a pattern that is none.
    fn bind_mode(&mut self, pat: &Pat, ty: &Type, mode: Option<bool>, kind: LocalKind) {
        let mut ty = self.resolve(ty);
        self.out
            .pattern_types
            .insert(pat.span, wrap(ty.clone(), mode));
        let mut mode = mode;
        // Default binding modes: a constructor pattern looks through references.
        if matches!(
            pat.kind,
            PatKind::Path(_)
                | PatKind::TupleStruct { .. }
                | PatKind::Struct { .. }
                | PatKind::Tuple(_)
                | PatKind::Slice(_)
        ) {
            while let Type::Ref(mutable, inner) = ty {
                mode = Some(mode.unwrap_or(true) && mutable);
                ty = *inner;
            }
        }
        match &pat.kind {
            PatKind::Wild | PatKind::Rest | PatKind::Lit | PatKind::Range | PatKind::Other => {}
            PatKind::Ident {
                name,
                by_ref,
                mutable,
                sub,
            } => {
                // A name may be a constant or a variant rather than a binding.
                if !by_ref && !mutable && sub.is_none() && self.is_constant(name) {
                    let path = Path {
                        span: name.span,
                        leading_colon: false,
                        segs: vec![syntax::Seg {
                            name: name.clone(),
                            args: None,
                        }],
                        qself: None,
                        qself_pos: 0,
                    };
                    self.note_path(&path, PathRole::Pattern);
                    return;
                }
                let bound = match (by_ref, mode) {
                    (true, _) => Type::Ref(*mutable, Box::new(ty.clone())),
                    (false, mode) => wrap(ty.clone(), mode),
                };
                let existing = self.lookup_in_pattern(&name.text, pat);
                match existing {
                    Some(id) => {
                        self.out.bound_at.insert(name.span.lo, id);
                    }
                    None => {
                        self.declare(name, bound, *mutable && !by_ref, kind);
                    }
                }
                if let Some(sub) = sub {
                    self.bind_mode(sub, &ty, mode, kind);
                }
            }
            PatKind::Path(path) => self.note_path(path, PathRole::Pattern),
            PatKind::TupleStruct { path, elems } => {
                self.note_path(path, PathRole::Pattern);
                let types = self.payload(path, &ty);
                self.bind_list(
                    elems,
                    &types.into_iter().map(|(_, ty)| ty).collect::<Vec<_>>(),
                    mode,
                    kind,
                );
            }
            PatKind::Struct { path, fields, .. } => {
                self.note_path(path, PathRole::Pattern);
                // A struct's name is a type's name.
                let (res, taken) = self.world.resolve_path(self.scope(), path, Ns::Type);
                if taken == path.segs.len() && res != Res::Unknown {
                    let found = PathUse {
                        path: path.clone(),
                        res,
                        taken,
                        role: PathRole::Pattern,
                        module: self.module,
                    };
                    self.out.paths.insert(path.span.lo, found);
                }
                let types = self.payload(path, &ty);
                for field in fields {
                    let field_ty = types
                        .iter()
                        .find(|(name, _)| *name == field.name.text)
                        .map_or(Type::Unknown, |(_, ty)| ty.clone());
                    self.bind_mode(&field.pat, &field_ty, mode, kind);
                }
            }
            PatKind::Tuple(elems) => {
                let types = match ty {
                    Type::Tuple(types) => types,
                    _ => vec![],
                };
                self.bind_list(elems, &types, mode, kind);
            }
            PatKind::Slice(elems) => {
                let item = match ty {
                    Type::Slice(item) => *item,
                    _ => Type::Unknown,
                };
                for elem in elems {
                    let rest = matches!(&elem.kind, PatKind::Ident { sub: Some(sub), .. } if matches!(sub.kind, PatKind::Rest));
                    let ty = if rest {
                        Type::Slice(Box::new(item.clone()))
                    } else {
                        item.clone()
                    };
                    self.bind_mode(elem, &ty, mode, kind);
                }
            }
            PatKind::Ref { inner, .. } => {
                let inner_ty = match ty {
                    Type::Ref(_, inner) => *inner,
                    _ => Type::Unknown,
                };
                self.bind_mode(inner, &inner_ty, None, kind);
            }
            PatKind::Or(cases) => {
                let outer = self.or_group;
                self.or_group = outer.or(Some(pat.span));
                for case in cases {
                    self.bind_mode(case, &ty, mode, kind);
                }
                self.or_group = outer;
            }
            PatKind::Paren(inner) => self.bind_mode(inner, &ty, mode, kind),
            PatKind::Type {
                inner,
                ty: declared,
            } => {
                self.note_ty(declared);
                let declared = self.lower(declared);
                self.unify(&declared, &ty);
                self.bind_mode(inner, &declared, mode, kind);
            }
            PatKind::Macro(mac) => self.note_path(&mac.path, PathRole::Macro),
        }
    }

    /// Alternatives of an or-pattern bind the same names: the second finds the first's local.
    fn lookup_in_pattern(&self, name: &str, pat: &Pat) -> Option<LocalId> {
        let scope = self.scopes.last()?;
        let (_, id) = scope.iter().rev().find(|(n, _)| n == name)?;
        let earlier = &self.out.locals[*id];
        // Bound in the same pattern if nothing was evaluated since: a `let` in between starts a pattern of its own.
        (self
            .or_group
            .is_some_and(|group| group.contains(earlier.span) && group.contains(pat.span))
            && earlier.span != pat.span)
            .then_some(*id)
    }

    fn bind_list(&mut self, elems: &[Pat], types: &[Type], mode: Option<bool>, kind: LocalKind) {
        let rest = elems.iter().position(|elem| {
            matches!(elem.kind, PatKind::Rest) || matches!(&elem.kind, PatKind::Ident { sub: Some(sub), .. } if matches!(sub.kind, PatKind::Rest))
        });
        for (at, elem) in elems.iter().enumerate() {
            let ty = match rest {
                Some(rest) if at > rest => types
                    .len()
                    .checked_sub(elems.len() - at)
                    .and_then(|at| types.get(at)),
                Some(rest) if at == rest => None,
                _ => types.get(at),
            };
            self.bind_mode(elem, ty.unwrap_or(&Type::Unknown), mode, kind);
        }
    }

    fn is_constant(&self, name: &Name) -> bool {
        match self
            .world
            .resolve(self.scope(), false, &[&name.text], Ns::Value)
            .0
        {
            Res::Variant(..) => true,
            Res::Def(def) => match &self.world.defs[def].kind {
                DefKind::Const { .. } => true,
                DefKind::Struct { fields, .. } => fields.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Names and types of what a constructor holds, for a value of this type.
    fn payload(&mut self, path: &Path, ty: &Type) -> Vec<(String, Type)> {
        let (res, taken) = self.world.resolve_path(self.scope(), path, Ns::Value);
        let (res, taken) = match res {
            Res::Unknown | Res::SelfTy => {
                let found = self.world.resolve_path(self.scope(), path, Ns::Type);
                if found.0 == Res::Unknown {
                    (res, taken)
                } else {
                    found
                }
            }
            _ => (res, taken),
        };
        let (def, variant): (DefId, Option<usize>) = match self.world.unalias(res) {
            Res::Def(def) => match (&self.world.defs[def].kind, path.segs.get(taken)) {
                // Through an alias of the enum.
                (DefKind::Enum { variants, .. }, Some(seg)) => match variants
                    .iter()
                    .position(|variant| variant.name == seg.name.text)
                {
                    Some(at) => (def, Some(at)),
                    None => return vec![],
                },
                _ => (def, None),
            },
            Res::Variant(def, at) => (def, Some(at)),
            Res::SelfTy => {
                let Some(Type::Adt(def, _)) = &self.self_ty else {
                    return vec![];
                };
                let def = *def;
                match (&self.world.defs[def].kind, path.segs.get(taken)) {
                    (DefKind::Enum { variants, .. }, Some(seg)) => {
                        let Some(at) = variants
                            .iter()
                            .position(|variant| variant.name == seg.name.text)
                        else {
                            return vec![];
                        };
                        // So that patterns of `Self::Variant` are seen for what they are.
                        let found = PathUse {
                            path: path.clone(),
                            res: Res::Variant(def, at),
                            taken: path.segs.len(),
                            role: PathRole::Pattern,
                            module: self.module,
                        };
                        self.out.paths.insert(path.span.lo, found);
                        (def, Some(at))
                    }
                    _ => (def, None),
                }
            }
            _ => return vec![],
        };
        let world = self.world;
        let (generics, fields) = match (&world.defs[def].kind, variant) {
            (DefKind::Enum { generics, variants }, Some(at)) => (generics, &variants[at].fields),
            (
                DefKind::Struct {
                    generics, fields, ..
                },
                None,
            ) => (generics, fields),
            _ => return vec![],
        };
        let args: Vec<Type> = match ty {
            Type::Adt(d, args) if *d == def => args.clone(),
            _ => generics.params.iter().map(|_| self.fresh()).collect(),
        };
        let whole = Type::Adt(def, args.clone());
        self.unify(&whole, ty);
        fields
            .iter()
            .map(|(name, ty)| (name.clone(), world.member_ty(def, generics, &args, ty)))
            .collect()
    }
}

fn wrap(ty: Type, mode: Option<bool>) -> Type {
    match mode {
        Some(mutable) => Type::Ref(mutable, Box::new(ty)),
        None => ty,
    }
}
