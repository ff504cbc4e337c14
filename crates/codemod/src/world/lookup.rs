//! Fields and methods by receiver type, through references and smart pointers.

use std::rc::Rc;

use super::resolve::Ns;
use super::types::{BoundType, match_params};
use super::*;

/// A field that was found.
#[derive(Debug, Clone)]
pub struct FieldHit {
    pub owner: DefId,
    pub ty: Type,
}

/// A method that was found.
#[derive(Debug, Clone)]
pub struct MethodHit {
    pub def: FnDef,
    /// The type whose method it is; none for a trait's own.
    pub owner: Option<DefId>,
    /// The receiver at the step where the method was found, references taken off.
    pub self_ty: Type,
    /// Where the signature stands.
    pub module: ModId,
    /// Parameters of the implementation, and what they stand for here.
    pub bindings: Vec<(String, Type)>,
    pub of_trait: Option<DefId>,
}

impl World {
    /// The receiver itself and what it dereferences to, step by step.
    pub fn autoderef(&self, ty: &Type) -> Vec<Type> {
        let mut steps = vec![ty.clone()];
        while steps.len() < 12 {
            let next = match &steps[steps.len() - 1] {
                Type::Ref(_, inner) => Some((**inner).clone()),
                adt @ Type::Adt(..) => self.assoc_type(adt, "Target"),
                _ => None,
            };
            match next {
                Some(next) => steps.push(next),
                None => break,
            }
        }
        steps
    }

    pub fn field(&self, base: &Type, name: &str) -> Option<FieldHit> {
        for step in self.autoderef(base) {
            match &step {
                Type::Adt(def, args) => {
                    if let DefKind::Struct {
                        generics, fields, ..
                    } = &self.defs[*def].kind
                        && let Some((_, ty)) = fields.iter().find(|(field, _)| field == name)
                    {
                        return Some(FieldHit {
                            owner: *def,
                            ty: self.member_ty(*def, generics, args, ty),
                        });
                    }
                }
                Type::Tuple(types) => {
                    let ty = name
                        .parse::<usize>()
                        .ok()
                        .and_then(|at| types.get(at))
                        .cloned()?;
                    return Some(FieldHit {
                        owner: usize::MAX,
                        ty,
                    });
                }
                _ => {}
            }
        }
        None
    }

    /// The type of a field or of a variant's payload, for these generic arguments.
    pub fn member_ty(&self, def: DefId, generics: &Generics, args: &[Type], ty: &Ty) -> Type {
        let params = generics.names();
        let own = Type::Adt(def, args.to_vec());
        let ctx = TypeCtx {
            module: self.defs[def].module,
            params: &params,
            self_ty: Some(&own),
            scopes: &[],
        };
        self.lower_ty(&ctx, ty).subst(&|name| {
            params
                .iter()
                .position(|param| param == name)
                .and_then(|at| args.get(at).cloned())
        })
    }

    pub fn method(
        &self,
        recv: &Type,
        name: &str,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<MethodHit> {
        let steps = self.autoderef(recv);
        for step in &steps {
            if let Some(hit) = self.method_at(step, name, bounds) {
                return Some(hit);
            }
        }
        // What is implemented for everything that has certain traits.
        for step in &steps {
            if let Some(hit) = self.blanket_method(step, name, bounds) {
                return Some(hit);
            }
        }
        // What a retired type lacks, its successor may have.
        for step in &steps {
            if let Type::Adt(def, _) = step
                && let Some(new) = self.successor(*def)
                && let Some(hit) = self.method_at(&Type::Adt(new, vec![]), name, bounds)
            {
                return Some(hit);
            }
        }
        None
    }

    fn method_at(
        &self,
        step: &Type,
        name: &str,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<MethodHit> {
        match step {
            Type::Adt(def, _) => {
                if let Some(hit) = self.adt_method(*def, step, name) {
                    return Some(hit);
                }
            }
            Type::Slice(item) => {
                let slice = self.canonical("std::slice::Slice")?;
                return self
                    .adt_method(slice, &Type::Adt(slice, vec![(**item).clone()]), name)
                    .or_else(|| self.iter_method(step, name, bounds));
            }
            Type::Param(param) => {
                if let Some(hit) = self.bound_method(&bounds(param), step, name) {
                    return Some(hit);
                }
            }
            Type::Opaque(own) => {
                if let Some(hit) = self.bound_method(own, step, name) {
                    return Some(hit);
                }
            }
            _ => {}
        }
        self.iter_method(step, name, bounds)
    }

    fn adt_method(&self, def: DefId, step: &Type, name: &str) -> Option<MethodHit> {
        let ids = self.impls_of.get(&def)?;
        // Inherent methods come before those of traits.
        let (inherent, of_traits): (Vec<&ImplId>, Vec<&ImplId>) = ids
            .iter()
            .partition(|&&id| self.impls[id].of_trait.is_none());
        for &&id in inherent.iter().chain(&of_traits) {
            let it = &self.impls[id];
            let of_trait = it
                .of_trait
                .as_ref()
                .and_then(|path| self.trait_of(it.module, path));
            let found = it
                .fns
                .iter()
                .find(|f| f.name == name && f.sig.receiver.is_some())
                .cloned()
                .or_else(|| {
                    // A default method of the trait.
                    let DefKind::Trait { fns, .. } = &self.defs[of_trait?].kind else {
                        return None;
                    };
                    fns.iter()
                        .find(|f| f.name == name && f.sig.receiver.is_some())
                        .cloned()
                });
            let Some(f) = found else { continue };
            let params = it.generics.names();
            let ctx = TypeCtx {
                module: it.module,
                params: &params,
                self_ty: None,
                scopes: &[],
            };
            let own = self.lower_ty(&ctx, &it.self_ty);
            let own = own.peeled().clone();
            // `impl Foo<Bar>` is not for `Foo<Baz>`.
            if !may_be(&own, step) {
                continue;
            }
            let module = if f.file == it.file {
                it.module
            } else {
                of_trait.map_or(it.module, |def| self.defs[def].module)
            };
            return Some(MethodHit {
                bindings: match_params(&own, step),
                def: f,
                owner: Some(def),
                self_ty: step.clone(),
                module,
                of_trait,
            });
        }
        None
    }

    fn blanket_method(
        &self,
        step: &Type,
        name: &str,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<MethodHit> {
        for &(id, of_trait) in self.blankets_with.get(name)? {
            let it = &self.impls[id];
            let DefKind::Trait { fns, .. } = &self.defs[of_trait].kind else {
                continue;
            };
            let is_it = |f: &&FnDef| f.name == name && f.sig.receiver.is_some();
            let Some(f) = it.fns.iter().find(is_it).or(fns.iter().find(is_it)) else {
                continue;
            };
            let Some(param) = self.fulfils(id, step, bounds, 0) else {
                continue;
            };
            return Some(MethodHit {
                def: f.clone(),
                owner: None,
                self_ty: step.clone(),
                module: if f.file == it.file {
                    it.module
                } else {
                    self.defs[of_trait].module
                },
                bindings: vec![(param, step.clone())],
                of_trait: Some(of_trait),
            });
        }
        None
    }

    /// Whether a type has all that a blanket implementation asks for; the parameter that stands for it then.
    fn fulfils(
        &self,
        id: ImplId,
        ty: &Type,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
        depth: usize,
    ) -> Option<String> {
        let it = &self.impls[id];
        let syntax::TyKind::Path(path) = &it.self_ty.kind else {
            return None;
        };
        let param = path.ident()?.text.clone();
        let own = it
            .generics
            .params
            .iter()
            .filter(|other| other.name.text == param)
            .flat_map(|other| &other.bounds);
        let wheres = it
            .generics
            .wheres
            .iter()
            .filter(|(ty, _)| {
                matches!(&ty.kind, syntax::TyKind::Path(path) if path.ident().is_some_and(|name| name.text == param))
            })
            .flat_map(|(_, bounds)| bounds);
        let all: Vec<&syntax::Bound> = own.chain(wheres).collect();
        // Everything has what asks for nothing; that says nothing of a type that is not known.
        if all.is_empty() && !ty.is_known() {
            return None;
        }
        let has_all = all.into_iter().all(|bound| {
            bound.path.last().name.text == "Sized"
                || self
                    .trait_of(it.module, &bound.path)
                    .is_some_and(|def| self.implements(ty, def, bounds, depth + 1))
        });
        has_all.then_some(param)
    }

    /// Whether a type is known to implement a trait.
    pub fn implements(
        &self,
        ty: &Type,
        of_trait: DefId,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
        depth: usize,
    ) -> bool {
        if depth > 8 {
            return false;
        }
        let asks = |own: &[BoundType]| {
            own.iter()
                .filter_map(|bound| bound.def)
                .any(|def| self.is_subtrait(def, of_trait))
        };
        let direct = match ty {
            Type::Adt(def, _) => self.impls_of.get(def).is_some_and(|ids| {
                ids.iter().any(|&id| {
                    let it = &self.impls[id];
                    it.of_trait
                        .as_ref()
                        .and_then(|path| self.trait_of(it.module, path))
                        == Some(of_trait)
                })
            }),
            Type::Param(name) => asks(&bounds(name)),
            Type::Opaque(own) => asks(own),
            _ => false,
        };
        direct
            || self.blankets_of.get(&of_trait).is_some_and(|ids| {
                ids.iter()
                    .any(|&id| self.fulfils(id, ty, bounds, depth + 1).is_some())
            })
    }

    /// Whether a trait is another one, or has it above it.
    pub fn is_subtrait(&self, def: DefId, of: DefId) -> bool {
        let mut queue = vec![def];
        let mut seen = Vec::new();
        while let Some(at) = queue.pop() {
            if at == of {
                return true;
            }
            if seen.contains(&at) {
                continue;
            }
            seen.push(at);
            if let DefKind::Trait { supertraits, .. } = &self.defs[at].kind {
                queue.extend(
                    supertraits
                        .iter()
                        .filter_map(|path| self.trait_of(self.defs[at].module, path)),
                );
            }
        }
        false
    }

    fn bound_method(&self, bounds: &[BoundType], step: &Type, name: &str) -> Option<MethodHit> {
        for bound in bounds {
            let mut queue = bound
                .def
                .map(|def| (def, bound.args.clone()))
                .into_iter()
                .collect::<Vec<_>>();
            let mut seen = Vec::new();
            while let Some((def, args)) = queue.pop() {
                if seen.contains(&def) {
                    continue;
                }
                seen.push(def);
                let DefKind::Trait {
                    fns,
                    supertraits,
                    generics,
                    ..
                } = &self.defs[def].kind
                else {
                    continue;
                };
                if let Some(f) = fns
                    .iter()
                    .find(|f| f.name == name && f.sig.receiver.is_some())
                {
                    let bindings = generics
                        .params
                        .iter()
                        .zip(&args)
                        .map(|(param, ty)| (param.name.text.clone(), ty.clone()))
                        .collect();
                    return Some(MethodHit {
                        def: f.clone(),
                        owner: None,
                        self_ty: step.clone(),
                        module: self.defs[def].module,
                        bindings,
                        of_trait: Some(def),
                    });
                }
                queue.extend(
                    supertraits
                        .iter()
                        .filter_map(|path| self.trait_of(self.defs[def].module, path))
                        .map(|def| (def, vec![])),
                );
            }
        }
        None
    }

    /// The trait that a path names.
    pub fn trait_of(&self, module: ModId, path: &Path) -> Option<DefId> {
        match self.resolve_path(
            Scope {
                module,
                blocks: &[],
                params: &[],
            },
            path,
            Ns::Type,
        ) {
            (Res::Def(def), n) if n == path.segs.len() => Some(def),
            _ => None,
        }
    }

    /// Methods of `Iterator` on whatever iterates.
    fn iter_method(
        &self,
        step: &Type,
        name: &str,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<MethodHit> {
        let item = self.iterator_item(step, bounds)?;
        let iter = self.canonical("std::iter::Iter")?;
        self.adt_method(iter, &Type::Adt(iter, vec![item]), name)
    }

    /// What `next()` gives, where the type is an iterator.
    pub fn iterator_item(
        &self,
        ty: &Type,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<Type> {
        let of_bounds = |bounds: &[BoundType]| {
            bounds
                .iter()
                .filter(|bound| bound.name.ends_with("Iterator") && bound.name != "IntoIterator")
                .flat_map(|bound| &bound.assoc)
                .find(|(name, _)| name == "Item")
                .map(|(_, ty)| ty.clone())
        };
        match ty {
            Type::Adt(def, args) => {
                if Some(*def) == self.canonical("std::iter::Iter") {
                    return args.first().cloned();
                }
                // Adapters that give what they are made of.
                let name = self.defs[*def].canonical.as_str();
                if let Some(adapter) = name.strip_prefix("std::iter::")
                    && matches!(
                        adapter,
                        "Peekable" | "Fuse" | "Rev" | "Skip" | "Take" | "StepBy" | "Cycle"
                    )
                {
                    return self.iterator_item(args.first()?, bounds);
                }
                let is_iterator = self.impls_of.get(def).is_some_and(|ids| {
                    ids.iter().any(|&id| {
                        self.impls[id]
                            .of_trait
                            .as_ref()
                            .is_some_and(|path| path.last().name.text == "Iterator")
                    })
                });
                if is_iterator {
                    self.assoc_type(ty, "Item")
                } else {
                    None
                }
            }
            Type::Ref(true, inner) => self.iterator_item(inner, bounds),
            Type::Opaque(own) => of_bounds(own),
            Type::Param(param) => of_bounds(&bounds(param)),
            _ => None,
        }
    }

    /// Whether a type has a method of that name, of its own or of a trait that is implemented for it.
    pub fn has_method(&self, def: DefId, name: &str) -> bool {
        let of_trait = |path: &Path, module: ModId| {
            self.trait_of(module, path)
                .is_some_and(|of| match &self.defs[of].kind {
                    DefKind::Trait { fns, .. } => fns.iter().any(|f| f.name == name),
                    _ => false,
                })
        };
        self.impls_of.get(&def).is_some_and(|ids| {
            ids.iter().any(|&id| {
                let one = &self.impls[id];
                one.fns.iter().any(|f| f.name == name)
                    || one
                        .of_trait
                        .as_ref()
                        .is_some_and(|path| of_trait(path, one.module))
            })
        })
    }

    /// What a `for` loop over the type binds.
    pub fn into_iter_item(
        &self,
        ty: &Type,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<Type> {
        if let Some(item) = self.iterator_item(ty, bounds) {
            return Some(item);
        }
        let wrap = |item: Type, by: Option<bool>| match by {
            Some(mutable) => Type::Ref(mutable, Box::new(item)),
            None => item,
        };
        let (inner, by) = match ty {
            Type::Ref(mutable, inner) => (&**inner, Some(*mutable)),
            other => (other, None),
        };
        match inner {
            Type::Slice(item) => Some(wrap((**item).clone(), by)),
            Type::Adt(def, args) => {
                let name = self.defs[*def].canonical.as_str();
                match name.rsplit("::").next().unwrap_or(name) {
                    _ if !name.starts_with("std::") => {
                        let has = self.impls_of.get(def).is_some_and(|ids| {
                            ids.iter().any(|&id| {
                                self.impls[id]
                                    .of_trait
                                    .as_ref()
                                    .is_some_and(|path| path.last().name.text == "IntoIterator")
                            })
                        });
                        if has && by.is_none() {
                            self.assoc_type(inner, "Item")
                        } else {
                            None
                        }
                    }
                    "HashMap" | "BTreeMap" => {
                        let key = args.first().cloned()?;
                        let value = args.get(1).cloned()?;
                        Some(Type::Tuple(vec![
                            wrap(key, by.map(|_| false)),
                            wrap(value, by),
                        ]))
                    }
                    _ => args.first().cloned().map(|item| wrap(item, by)),
                }
            }
            Type::Opaque(own) => own
                .iter()
                .flat_map(|bound| &bound.assoc)
                .find(|(name, _)| name == "Item")
                .map(|(_, ty)| ty.clone()),
            Type::Param(param) => bounds(param)
                .iter()
                .flat_map(|bound| &bound.assoc)
                .find(|(name, _)| name == "Item")
                .map(|(_, ty)| ty.clone()),
            _ => None,
        }
    }

    /// An associated function of a type: `Type::name`.
    pub fn assoc_fn(&self, def: DefId, name: &str) -> Option<(FnDef, ImplId)> {
        self.impls_of.get(&def)?.iter().find_map(|&id| {
            self.impls[id]
                .fns
                .iter()
                .find(|f| f.name == name)
                .map(|f| (f.clone(), id))
        })
    }

    /// An associated function without a receiver, of a trait that a type is known to have.
    pub fn trait_fn(
        &self,
        ty: &Type,
        name: &str,
        bounds: &dyn Fn(&str) -> Vec<BoundType>,
    ) -> Option<(FnDef, ModId)> {
        self.traits_with.get(name)?.iter().find_map(|&id| {
            let def = &self.defs[id];
            let DefKind::Trait { fns, .. } = &def.kind else {
                return None;
            };
            let f = fns
                .iter()
                .find(|f| f.name == name && f.sig.receiver.is_none())?;
            self.implements(ty, id, bounds, 0)
                .then(|| (f.clone(), def.module))
        })
    }

    /// Every implementation that is for this type.
    pub fn impls_for(&self, def: DefId) -> &[ImplId] {
        self.impls_of.get(&def).map_or(&[], Vec::as_slice)
    }

    /// Functions with a receiver and this name that code of the tree has, in types and in traits.
    pub fn methods_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a FnDef> {
        let of_traits = self.defs.iter().flat_map(|def| match &def.kind {
            DefKind::Trait { fns, .. } => &fns[..],
            _ => &[],
        });
        self.impls
            .iter()
            .flat_map(|it| &it.fns)
            .chain(of_traits)
            .filter(move |f| {
                f.name == name
                    && f.sig.receiver.is_some()
                    && !self.files[f.file].path.starts_with('<')
            })
    }

    pub fn impl_generics(&self, id: ImplId) -> Rc<Generics> {
        Rc::clone(&self.impls[id].generics)
    }
}

/// Whether an implementation's self type can be this type: parameters and unknowns fit all.
fn may_be(pattern: &Type, ty: &Type) -> bool {
    match (pattern, ty) {
        (Type::Param(_) | Type::Unknown | Type::Var(_), _)
        | (_, Type::Unknown | Type::Var(_) | Type::Param(_)) => true,
        (Type::Adt(a, xs), Type::Adt(b, ys)) => {
            a == b && xs.iter().zip(ys).all(|(x, y)| may_be(x, y))
        }
        (Type::Ref(_, x), Type::Ref(_, y)) | (Type::Slice(x), Type::Slice(y)) => may_be(x, y),
        (Type::Tuple(xs), Type::Tuple(ys)) => {
            xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| may_be(x, y))
        }
        (Type::Opaque(_), _) | (_, Type::Opaque(_)) | (Type::Fn(..), _) | (_, Type::Fn(..)) => true,
        (a, b) => a == b,
    }
}
