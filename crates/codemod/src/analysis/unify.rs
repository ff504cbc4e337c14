//! Making types agree.

use super::*;

impl Cx<'_> {
    pub(super) fn fresh(&mut self) -> Type {
        self.vars.push(None);
        Type::Var(self.vars.len() as u32 - 1)
    }

    /// With variables replaced by what they stand for, as far as that is known.
    pub(super) fn resolve(&self, ty: &Type) -> Type {
        self.resolve_depth(ty, 0)
    }

    fn resolve_depth(&self, ty: &Type, depth: usize) -> Type {
        if depth > 48 {
            return Type::Unknown;
        }
        let go = |ty: &Type| self.resolve_depth(ty, depth + 1);
        let all = |types: &[Type]| types.iter().map(go).collect::<Vec<_>>();
        match ty {
            Type::Var(at) => match &self.vars[*at as usize] {
                Some(inner) => go(inner),
                None => ty.clone(),
            },
            Type::Adt(def, args) => Type::Adt(*def, all(args)),
            Type::External(path, args) => Type::External(path.clone(), all(args)),
            Type::Ref(mutable, inner) => Type::Ref(*mutable, Box::new(go(inner))),
            Type::Ptr(inner) => Type::Ptr(Box::new(go(inner))),
            Type::Slice(inner) => Type::Slice(Box::new(go(inner))),
            Type::Tuple(types) => Type::Tuple(all(types)),
            Type::Fn(params, ret) => Type::Fn(all(params), Box::new(go(ret))),
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
                            .map(|(name, ty)| (name.clone(), go(ty)))
                            .collect(),
                        callable: bound
                            .callable
                            .as_ref()
                            .map(|(params, ret)| (all(params), Box::new(go(ret)))),
                    })
                    .collect(),
            ),
            Type::Unknown | Type::Param(_) | Type::Prim(_) | Type::Never => ty.clone(),
        }
    }

    /// Lets variables on either side stand for the other; a conflict changes nothing.
    pub(super) fn unify(&mut self, expected: &Type, got: &Type) {
        self.unify_depth(expected, got, 0);
    }

    fn unify_depth(&mut self, expected: &Type, got: &Type, depth: usize) {
        if depth > 32 {
            return;
        }
        let a = self.shallow(expected);
        let b = self.shallow(got);
        match (&a, &b) {
            (Type::Var(x), Type::Var(y)) if x == y => {}
            (Type::Var(_), Type::Unknown | Type::Never)
            | (Type::Unknown | Type::Never, Type::Var(_)) => {}
            (Type::Var(x), other) | (other, Type::Var(x)) if !mentions(other, *x) => {
                self.vars[*x as usize] = Some(other.clone());
            }
            (Type::Adt(d, xs), Type::Adt(e, ys)) if d == e => {
                for (x, y) in xs.clone().iter().zip(&ys.clone()) {
                    self.unify_depth(x, y, depth + 1);
                }
            }
            (Type::External(d, xs), Type::External(e, ys)) if d == e => {
                for (x, y) in xs.clone().iter().zip(&ys.clone()) {
                    self.unify_depth(x, y, depth + 1);
                }
            }
            (Type::Ref(_, x), Type::Ref(_, y)) => {
                let (x, y) = (self.shallow(x), self.shallow(y));
                // `&Box<T>` where `&T` is wanted.
                if let (Type::Adt(d, _), Type::Adt(e, _)) = (&x, &y)
                    && d != e
                    && let Some(target) = self.world.assoc_type(&y, "Target")
                {
                    self.unify_depth(&x, &target, depth + 1);
                    return;
                }
                if let (Type::Slice(_), Type::Adt(..)) = (&x, &y)
                    && let Some(target) = self.world.assoc_type(&y, "Target")
                {
                    self.unify_depth(&x, &target, depth + 1);
                    return;
                }
                self.unify_depth(&x, &y, depth + 1);
            }
            (Type::Slice(x), Type::Slice(y)) | (Type::Ptr(x), Type::Ptr(y)) => {
                self.unify_depth(&x.clone(), &y.clone(), depth + 1)
            }
            (Type::Tuple(xs), Type::Tuple(ys)) if xs.len() == ys.len() => {
                for (x, y) in xs.clone().iter().zip(&ys.clone()) {
                    self.unify_depth(x, y, depth + 1);
                }
            }
            (Type::Fn(xs, x), Type::Fn(ys, y)) => {
                for (x, y) in xs.clone().iter().zip(&ys.clone()) {
                    self.unify_depth(x, y, depth + 1);
                }
                self.unify_depth(&x.clone(), &y.clone(), depth + 1);
            }
            (Type::Opaque(bounds), other) => {
                for bound in bounds.clone() {
                    self.unify_bound(&bound, other, depth);
                }
            }
            _ => {}
        }
    }

    fn unify_bound(&mut self, bound: &BoundType, got: &Type, depth: usize) {
        if let (Some((params, ret)), Type::Fn(got_params, got_ret)) = (&bound.callable, got) {
            for (x, y) in params.iter().zip(got_params) {
                self.unify_depth(x, y, depth + 1);
            }
            self.unify_depth(ret, got_ret, depth + 1);
        }
        let got = self.resolve(got);
        for (name, ty) in &bound.assoc {
            let found = match name.as_str() {
                "Item" => self.world.into_iter_item(&got, &self.bounds_of()),
                other => self.world.assoc_type(&got, other),
            };
            if let Some(found) = found {
                self.unify_depth(ty, &found, depth + 1);
            }
        }
    }

    fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        let mut n = 0;
        while let Type::Var(at) = ty {
            match &self.vars[at as usize] {
                Some(inner) if n < 64 => ty = inner.clone(),
                _ => return Type::Var(at),
            }
            n += 1;
        }
        ty
    }

    /// A declared type with its `_` filled in from what the value turned out to be.
    pub(super) fn fill(&self, declared: &Type, got: &Type) -> Type {
        match (declared, got) {
            (Type::Unknown, got) => got.clone(),
            (Type::Adt(d, xs), Type::Adt(e, ys)) if d == e => Type::Adt(
                *d,
                xs.iter().zip(ys).map(|(x, y)| self.fill(x, y)).collect(),
            ),
            (Type::Tuple(xs), Type::Tuple(ys)) if xs.len() == ys.len() => {
                Type::Tuple(xs.iter().zip(ys).map(|(x, y)| self.fill(x, y)).collect())
            }
            (Type::Ref(m, x), Type::Ref(_, y)) => Type::Ref(*m, Box::new(self.fill(x, y))),
            _ => declared.clone(),
        }
    }

    /// The branches' common type: the first that says something.
    pub(super) fn join(&mut self, a: Type, b: Type) -> Type {
        match (&a, &b) {
            (Type::Never | Type::Unknown, _) => b,
            (_, Type::Never | Type::Unknown) => a,
            _ => {
                self.unify(&a, &b);
                a
            }
        }
    }
}

fn mentions(ty: &Type, var: u32) -> bool {
    match ty {
        Type::Var(at) => *at == var,
        Type::Adt(_, types) | Type::External(_, types) | Type::Tuple(types) => {
            types.iter().any(|ty| mentions(ty, var))
        }
        Type::Ref(_, inner) | Type::Ptr(inner) | Type::Slice(inner) => mentions(inner, var),
        Type::Fn(params, ret) => params.iter().any(|ty| mentions(ty, var)) || mentions(ret, var),
        Type::Opaque(bounds) => bounds.iter().any(|bound| {
            bound.args.iter().any(|ty| mentions(ty, var))
                || bound.assoc.iter().any(|(_, ty)| mentions(ty, var))
                || bound.callable.as_ref().is_some_and(|(params, ret)| {
                    params.iter().any(|ty| mentions(ty, var)) || mentions(ret, var)
                })
        }),
        _ => false,
    }
}
