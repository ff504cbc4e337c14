//! One file in one module: what every path in it means, what type every expression has, where every local is used.
//!
//! Inference is forward, with unification for what is settled later, and runs twice so that a closure written before its
//! argument's type is known still gets it. What stays unknown is [`Type::Unknown`]; nobody may guess from that.

mod expr;
mod pattern;
#[cfg(test)]
mod tests;
mod unify;

use std::collections::HashMap;

use crate::syntax::{
    self, Block, Bound, Expr, ExprId, ExprKind, File, Generics, Item, ItemKind, Name, Path, Span,
    Stmt, StmtKind, Ty, TyKind,
};
use crate::world::types::BoundType;
use crate::world::{BlockScope, FileId, ModId, Res, Scope, Type, TypeCtx, World};

pub use crate::world::MethodHit;

pub type LocalId = usize;

#[derive(Debug, Clone)]
pub struct Local {
    pub name: String,
    /// Of the identifier where it is bound.
    pub span: Span,
    pub mutable: bool,
    pub ty: Type,
    pub uses: Vec<Use>,
    pub kind: LocalKind,
    /// Index of the function that it belongs to.
    pub function: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalKind {
    Param,
    SelfParam,
    ClosureParam,
    Let,
    Pattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub span: Span,
    /// None for a capture in a format string.
    pub expr: Option<ExprId>,
}

/// A function body (or the value of a constant) and what is around it.
#[derive(Debug, Clone)]
pub struct Function {
    pub name: String,
    /// The item, attributes included.
    pub span: Span,
    pub body: Span,
    pub module: ModId,
    /// `#[test]` and its like.
    pub is_test: bool,
    /// Stands in code that only tests, benches or examples build.
    pub in_test_code: bool,
    pub self_ty: Option<Type>,
    pub ret: Type,
}

/// A path where it is written.
#[derive(Debug, Clone)]
pub struct PathUse {
    pub path: Path,
    pub res: Res,
    /// How many segments that took.
    pub taken: usize,
    pub role: PathRole,
    pub module: ModId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRole {
    Type,
    Value,
    Pattern,
    Macro,
    Bound,
}

#[derive(Debug, Default)]
pub struct Analysis {
    pub types: HashMap<ExprId, Type>,
    pub locals: Vec<Local>,
    /// Expressions that are a local.
    pub local_of: HashMap<ExprId, LocalId>,
    /// By where the binding's identifier starts.
    pub bound_at: HashMap<usize, LocalId>,
    /// Types that patterns are matched against, by where they start and end.
    pub pattern_types: HashMap<Span, Type>,
    pub methods: HashMap<ExprId, MethodHit>,
    /// Every path, by where it starts.
    pub paths: HashMap<usize, PathUse>,
    pub functions: Vec<Function>,
    /// Function of every expression.
    pub function_of: HashMap<ExprId, usize>,
}

impl Analysis {
    pub fn ty(&self, expr: &Expr) -> &Type {
        self.types.get(&expr.id).unwrap_or(&Type::Unknown)
    }

    pub fn local(&self, expr: &Expr) -> Option<LocalId> {
        self.local_of.get(&expr.id).copied()
    }

    pub fn path(&self, path: &Path) -> Option<&PathUse> {
        self.paths
            .get(&path.span.lo)
            .filter(|found| found.path.span == path.span)
    }

    /// What a path means when all of its segments are taken.
    pub fn res(&self, path: &Path) -> Res {
        match self.path(path) {
            Some(found) if found.taken == path.segs.len() => found.res.clone(),
            _ => Res::Unknown,
        }
    }
}

/// Analyses a file as the body of `module`.
pub fn analyze(world: &World, file: &File, file_id: FileId, module: ModId) -> Analysis {
    let mut seeds = HashMap::new();
    let mut out = Analysis::default();
    for _ in 0..2 {
        let mut cx = Cx::new(world, file_id, &seeds);
        cx.items(&file.items, module);
        out = cx.finish();
        seeds = out
            .locals
            .iter()
            .filter(|local| local.ty.is_known())
            .map(|local| (local.span.lo, local.ty.clone()))
            .collect();
    }
    out
}

/// One analysis on its way.
struct Cx<'w> {
    world: &'w World,
    file: FileId,
    seeds: &'w HashMap<usize, Type>,
    out: Analysis,
    vars: Vec<Option<Type>>,
    module: ModId,
    params: Vec<String>,
    param_bounds: HashMap<String, Vec<BoundType>>,
    self_ty: Option<Type>,
    blocks: Vec<BlockScope>,
    /// Names of locals in scope, innermost last.
    scopes: Vec<Vec<(String, LocalId)>>,
    /// What `return` and `?` leave, innermost last.
    returns: Vec<Type>,
    /// What `break` gives, with the label.
    loops: Vec<(Option<String>, Type)>,
    function: usize,
    depth: usize,
    /// The or-pattern that is being bound.
    or_group: Option<Span>,
}

impl<'w> Cx<'w> {
    fn new(world: &'w World, file: FileId, seeds: &'w HashMap<usize, Type>) -> Self {
        Cx {
            world,
            file,
            seeds,
            out: Analysis::default(),
            vars: vec![],
            module: 0,
            params: vec![],
            param_bounds: HashMap::new(),
            self_ty: None,
            blocks: vec![],
            scopes: vec![],
            returns: vec![],
            loops: vec![],
            function: usize::MAX,
            depth: 0,
            or_group: None,
        }
    }

    /// Variables are those of this pass: none is left in what is found.
    fn finish(mut self) -> Analysis {
        let types = std::mem::take(&mut self.out.types);
        let resolved = types
            .into_iter()
            .map(|(id, ty)| (id, self.resolve(&ty).settled()))
            .collect();
        self.out.types = resolved;
        let patterns = std::mem::take(&mut self.out.pattern_types);
        self.out.pattern_types = patterns
            .into_iter()
            .map(|(span, ty)| (span, self.resolve(&ty).settled()))
            .collect();
        for at in 0..self.out.locals.len() {
            let ty = self.resolve(&self.out.locals[at].ty).settled();
            self.out.locals[at].ty = ty;
        }
        self.out
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            module: self.module,
            blocks: &self.blocks,
            params: &self.params,
        }
    }

    fn lower(&self, ty: &Ty) -> Type {
        let ctx = TypeCtx {
            module: self.module,
            params: &self.params,
            self_ty: self.self_ty.as_ref(),
            scopes: &self.blocks,
        };
        self.world.lower_ty(&ctx, ty)
    }

    fn bounds_of(&self) -> impl Fn(&str) -> Vec<BoundType> + '_ {
        |name| self.param_bounds.get(name).cloned().unwrap_or_default()
    }

    // --- items

    fn items(&mut self, items: &[Item], module: ModId) {
        let outer = std::mem::replace(&mut self.module, module);
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for item in items {
            if let (ItemKind::Mod(it), Some(name)) = (&item.kind, &item.name) {
                let nth = seen.entry(&name.text).or_default();
                if let Some(inner) = &it.items
                    && let Some(child) = self.world.nth_child(module, &name.text, *nth)
                {
                    self.items(inner, child);
                }
                *nth += 1;
            } else {
                self.item(item);
            }
        }
        self.module = outer;
    }

    fn item(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::Fn(f) => self.function(item, f, None),
            ItemKind::Struct(it) => {
                self.with_generics(&it.generics, |cx| {
                    for field in &it.fields {
                        cx.note_ty(&field.ty);
                    }
                });
            }
            ItemKind::Enum(it) => {
                self.with_generics(&it.generics, |cx| {
                    for field in it.variants.iter().flat_map(|variant| &variant.fields) {
                        cx.note_ty(&field.ty);
                    }
                });
            }
            ItemKind::Trait(it) => {
                let outer = self.self_ty.take();
                self.with_generics(&it.generics, |cx| {
                    cx.note_bounds(&it.supertraits);
                    cx.self_ty = Some(Type::Param("Self".into()));
                    let own = item
                        .name
                        .as_ref()
                        .and_then(|name| cx.world.trait_named(cx.module, &name.text));
                    let bound = BoundType {
                        def: own,
                        name: String::new(),
                        args: vec![],
                        assoc: vec![],
                        callable: None,
                    };
                    cx.param_bounds.insert("Self".into(), vec![bound]);
                    for inner in &it.items {
                        cx.assoc_item(inner);
                    }
                    cx.param_bounds.remove("Self");
                });
                self.self_ty = outer;
            }
            ItemKind::Impl(it) => {
                let outer = self.self_ty.take();
                self.with_generics(&it.generics, |cx| {
                    if let Some(path) = &it.of_trait {
                        cx.note_path(path, PathRole::Bound);
                    }
                    cx.note_ty(&it.self_ty);
                    cx.self_ty = Some(cx.lower(&it.self_ty));
                    for inner in &it.items {
                        cx.assoc_item(inner);
                    }
                });
                self.self_ty = outer;
            }
            ItemKind::TypeAlias {
                generics,
                ty,
                bounds,
            } => {
                self.with_generics(generics, |cx| {
                    cx.note_bounds(bounds);
                    if let Some(ty) = ty {
                        cx.note_ty(ty);
                    }
                });
            }
            ItemKind::Const { ty, value } => {
                self.note_ty(ty);
                if let Some(value) = value {
                    let ty = self.lower(ty);
                    self.constant(item, ty, value);
                }
            }
            ItemKind::Foreign(items) => {
                for item in items {
                    self.item(item);
                }
            }
            ItemKind::MacroCall(mac) => self.note_path(&mac.path, PathRole::Macro),
            // Modules inside of functions: rare, and what they name is not followed.
            ItemKind::Mod(_)
            | ItemKind::Use(_)
            | ItemKind::MacroRules { .. }
            | ItemKind::ExternCrate { .. }
            | ItemKind::Other => {}
        }
    }

    fn assoc_item(&mut self, item: &Item) {
        match &item.kind {
            ItemKind::Fn(f) => self.function(item, f, self.self_ty.clone()),
            _ => self.item(item),
        }
    }

    fn with_generics(&mut self, generics: &Generics, run: impl FnOnce(&mut Self)) {
        let n = self.params.len();
        let saved = self.param_bounds.clone();
        self.params.extend(
            generics
                .params
                .iter()
                .filter(|param| param.is_type)
                .map(|param| param.name.text.clone()),
        );
        for param in &generics.params {
            self.note_bounds(&param.bounds);
            if let Some(ty) = &param.default {
                self.note_ty(ty);
            }
            let bounds = self.lower_bounds(&param.bounds);
            self.param_bounds
                .entry(param.name.text.clone())
                .or_default()
                .extend(bounds);
        }
        for (ty, bounds) in &generics.wheres {
            self.note_ty(ty);
            self.note_bounds(bounds);
            if let TyKind::Path(path) = &ty.kind
                && let Some(name) = path.ident()
            {
                let bounds = self.lower_bounds(bounds);
                self.param_bounds
                    .entry(name.text.clone())
                    .or_default()
                    .extend(bounds);
            }
        }
        run(self);
        self.params.truncate(n);
        self.param_bounds = saved;
    }

    fn lower_bounds(&self, bounds: &[Bound]) -> Vec<BoundType> {
        let ctx = TypeCtx {
            module: self.module,
            params: &self.params,
            self_ty: self.self_ty.as_ref(),
            scopes: &self.blocks,
        };
        bounds
            .iter()
            .map(|bound| self.world.lower_bound(&ctx, bound, 0))
            .collect()
    }

    fn function(&mut self, item: &Item, f: &syntax::FnItem, self_ty: Option<Type>) {
        let outer_scopes = std::mem::take(&mut self.scopes);
        let outer_loops = std::mem::take(&mut self.loops);
        let outer_fn = self.function;
        let outer_self = self.self_ty.clone();
        self.self_ty = self_ty.clone().or(outer_self.clone());
        self.with_generics(&f.sig.generics, |cx| {
            for param in &f.sig.params {
                cx.note_ty(&param.ty);
            }
            if let Some(ty) = f
                .sig
                .receiver
                .as_ref()
                .and_then(|receiver| receiver.ty.as_ref())
            {
                cx.note_ty(ty);
            }
            if let Some(ty) = &f.sig.ret {
                cx.note_ty(ty);
            }
            let ret = f.sig.ret.as_ref().map_or(Type::unit(), |ty| cx.lower(ty));
            let is_test = item.attrs.iter().any(|attr| {
                let last = attr.path.rsplit("::").next().unwrap_or(&attr.path);
                last == "test" || last == "rstest" || last == "test_case" || last == "bench"
            });
            let own_cfg_test = item
                .attrs
                .iter()
                .any(|attr| attr.path == "cfg" && attr.tokens.trim() == "test");
            cx.function = cx.out.functions.len();
            let Some(body) = &f.body else {
                return;
            };
            cx.out.functions.push(Function {
                name: item
                    .name
                    .as_ref()
                    .map_or(String::new(), |name| name.text.clone()),
                span: item.span,
                body: body.span,
                module: cx.module,
                is_test,
                in_test_code: is_test || own_cfg_test || cx.world.is_test_code(cx.module),
                self_ty: self_ty.clone(),
                ret: ret.clone(),
            });
            cx.push_scope();
            if let Some(receiver) = &f.sig.receiver {
                let own = cx.self_ty.clone().unwrap_or(Type::Unknown);
                let ty = match receiver.kind {
                    syntax::ReceiverKind::Value => own,
                    syntax::ReceiverKind::Ref => own.reference(),
                    syntax::ReceiverKind::RefMut => Type::Ref(true, Box::new(own)),
                    syntax::ReceiverKind::Typed => receiver
                        .ty
                        .as_ref()
                        .map_or(Type::Unknown, |ty| cx.lower(ty)),
                };
                let name = Name {
                    text: "self".into(),
                    span: receiver.span,
                };
                cx.declare(&name, ty, false, LocalKind::SelfParam);
            }
            for param in &f.sig.params {
                let ty = cx.lower(&param.ty);
                cx.bind(&param.pat, &ty, LocalKind::Param);
            }
            cx.returns.push(ret.clone());
            let got = cx.block(body, Some(&ret));
            cx.unify(&ret, &got);
            cx.returns.pop();
            cx.pop_scope();
        });
        self.self_ty = outer_self;
        self.function = outer_fn;
        self.scopes = outer_scopes;
        self.loops = outer_loops;
    }

    fn constant(&mut self, item: &Item, ty: Type, value: &Expr) {
        let outer = self.function;
        self.function = self.out.functions.len();
        self.out.functions.push(Function {
            name: item
                .name
                .as_ref()
                .map_or(String::new(), |name| name.text.clone()),
            span: item.span,
            body: value.span,
            module: self.module,
            is_test: false,
            in_test_code: self.world.is_test_code(self.module),
            self_ty: self.self_ty.clone(),
            ret: ty.clone(),
        });
        self.push_scope();
        self.returns.push(Type::Unknown);
        let got = self.expr(value, Some(&ty));
        self.unify(&ty, &got);
        self.returns.pop();
        self.pop_scope();
        self.function = outer;
    }

    // --- paths

    fn note_path(&mut self, path: &Path, role: PathRole) {
        let ns = match role {
            PathRole::Value | PathRole::Pattern => crate::world::Ns::Value,
            PathRole::Macro => crate::world::Ns::Macro,
            PathRole::Type | PathRole::Bound => crate::world::Ns::Type,
        };
        let (res, taken) = match &path.qself {
            Some(ty) => {
                self.note_ty(ty);
                // `<T as a::Trait>::f`: the trait's own path.
                if path.qself_pos > 0 {
                    let trait_path = Path {
                        span: Span::new(
                            path.segs[0].name.span.lo,
                            path.segs[path.qself_pos - 1].name.span.hi,
                        ),
                        leading_colon: false,
                        segs: path.segs[..path.qself_pos].to_vec(),
                        qself: None,
                        qself_pos: 0,
                    };
                    self.note_path(&trait_path, PathRole::Bound);
                }
                (Res::Unknown, 0)
            }
            None => self.world.resolve_path(self.scope(), path, ns),
        };
        for args in path.segs.iter().filter_map(|seg| seg.args.as_ref()) {
            self.note_args(args);
        }
        let found = PathUse {
            path: path.clone(),
            res,
            taken,
            role,
            module: self.module,
        };
        self.out.paths.insert(path.span.lo, found);
    }

    fn note_args(&mut self, args: &syntax::GenericArgs) {
        for ty in args
            .types
            .iter()
            .chain(args.assoc.iter().map(|(_, ty)| ty))
            .chain(args.output.as_deref())
        {
            self.note_ty(ty);
        }
        self.note_bounds(&args.bounds);
    }

    fn note_bounds(&mut self, bounds: &[Bound]) {
        for bound in bounds {
            self.note_path(&bound.path, PathRole::Bound);
        }
    }

    fn note_ty(&mut self, ty: &Ty) {
        match &ty.kind {
            TyKind::Path(path) => self.note_path(path, PathRole::Type),
            TyKind::Ref { inner, .. }
            | TyKind::Ptr(inner)
            | TyKind::Slice(inner)
            | TyKind::Array(inner) => self.note_ty(inner),
            TyKind::Tuple(types) => types.iter().for_each(|ty| self.note_ty(ty)),
            TyKind::Fn { params, ret } => params
                .iter()
                .chain(ret.as_deref())
                .for_each(|ty| self.note_ty(ty)),
            TyKind::Impl(bounds) | TyKind::Dyn(bounds) => self.note_bounds(bounds),
            TyKind::Macro(mac) => self.note_path(&mac.path, PathRole::Macro),
            TyKind::Never | TyKind::Infer | TyKind::Other => {}
        }
    }

    // --- locals and blocks

    fn push_scope(&mut self) {
        self.scopes.push(vec![]);
    }

    fn pop_scope(&mut self) {
        self.scopes.pop();
    }

    fn declare(&mut self, name: &Name, ty: Type, mutable: bool, kind: LocalKind) -> LocalId {
        let ty = match self.resolve(&ty) {
            Type::Unknown => self
                .seeds
                .get(&name.span.lo)
                .cloned()
                .unwrap_or(Type::Unknown),
            known => {
                if let (Type::Var(_), Some(seed)) = (&known, self.seeds.get(&name.span.lo)) {
                    self.unify(&known, seed);
                }
                known
            }
        };
        let id = self.out.locals.len();
        self.out.locals.push(Local {
            name: name.text.clone(),
            span: name.span,
            mutable,
            ty,
            uses: vec![],
            kind,
            function: self.function,
        });
        self.out.bound_at.insert(name.span.lo, id);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name.text.clone(), id));
        }
        id
    }

    fn lookup(&self, name: &str) -> Option<LocalId> {
        self.scopes.iter().rev().find_map(|scope| {
            scope
                .iter()
                .rev()
                .find(|(n, _)| n == name)
                .map(|(_, id)| *id)
        })
    }

    fn block(&mut self, block: &Block, expected: Option<&Type>) -> Type {
        let items = block.stmts.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::Item(item) => Some(&**item),
            _ => None,
        });
        let scope = self.world.block_scope(items, self.file);
        self.blocks.push(scope);
        self.push_scope();
        let mut ty = Type::unit();
        let mut diverges = false;
        for (at, stmt) in block.stmts.iter().enumerate() {
            let last = at + 1 == block.stmts.len();
            let got = self.stmt(stmt, if last { expected } else { None });
            if matches!(got, Type::Never) {
                diverges = true;
            }
            if last && matches!(&stmt.kind, StmtKind::Expr { semi: false, .. }) {
                ty = got;
            }
        }
        self.pop_scope();
        self.blocks.pop();
        if diverges && matches!(&ty, Type::Tuple(types) if types.is_empty()) {
            Type::Never
        } else {
            ty
        }
    }

    fn stmt(&mut self, stmt: &Stmt, expected: Option<&Type>) -> Type {
        match &stmt.kind {
            StmtKind::Let {
                pat,
                ty,
                init,
                diverge,
            } => {
                let declared = ty.as_ref().map(|ty| {
                    self.note_ty(ty);
                    self.lower(ty)
                });
                let mut got = Type::Unknown;
                if let Some(init) = init {
                    got = self.expr(init, declared.as_ref());
                    if let Some(declared) = &declared {
                        self.unify(declared, &got);
                    }
                }
                if let Some(diverge) = diverge {
                    self.expr(diverge, None);
                }
                let ty = match declared {
                    Some(ty) if ty != Type::Unknown => self.fill(&ty, &got),
                    _ if init.is_none() => self.fresh(),
                    _ => got,
                };
                self.bind(pat, &ty, LocalKind::Let);
                Type::unit()
            }
            StmtKind::Expr { expr, .. } => self.expr(expr, expected),
            StmtKind::Item(item) => {
                self.local_item(item);
                Type::unit()
            }
        }
    }

    fn local_item(&mut self, item: &Item) {
        // A nested function sees neither locals nor generics from outside, but the block's items.
        let params = std::mem::take(&mut self.params);
        let scopes = std::mem::take(&mut self.scopes);
        let self_ty = if matches!(item.kind, ItemKind::Fn(_)) {
            self.self_ty.take()
        } else {
            self.self_ty.clone()
        };
        self.item(item);
        self.self_ty = self_ty;
        self.scopes = scopes;
        self.params = params;
    }
}

/// Visits an expression's direct children.
pub fn children<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    let block = |block: &'e Block, visit: &mut dyn FnMut(&'e Expr)| {
        for stmt in &block.stmts {
            match &stmt.kind {
                StmtKind::Let { init, diverge, .. } => {
                    init.iter().chain(diverge).for_each(&mut *visit)
                }
                StmtKind::Expr { expr, .. } => visit(expr),
                StmtKind::Item(_) => {}
            }
        }
    };
    match &expr.kind {
        ExprKind::Lit(_) | ExprKind::Path(_) | ExprKind::Continue { .. } | ExprKind::Other => {}
        ExprKind::Call { callee, args } => {
            visit(callee);
            args.iter().for_each(visit);
        }
        ExprKind::MethodCall { recv, args, .. } => {
            visit(recv);
            args.iter().for_each(visit);
        }
        ExprKind::Field { base, .. } => visit(base),
        ExprKind::Index { base, index } => {
            visit(base);
            visit(index);
        }
        ExprKind::Not(inner)
        | ExprKind::Neg(inner)
        | ExprKind::Deref(inner)
        | ExprKind::Ref { inner, .. }
        | ExprKind::RawRef(inner)
        | ExprKind::Cast { inner, .. }
        | ExprKind::Try(inner)
        | ExprKind::Await(inner)
        | ExprKind::Paren(inner) => visit(inner),
        ExprKind::Binary { lhs, rhs, .. } | ExprKind::Assign { lhs, rhs } => {
            visit(lhs);
            visit(rhs);
        }
        ExprKind::If {
            cond, then, alt, ..
        } => {
            visit(cond);
            block(then, visit);
            if let Some(alt) = alt {
                visit(alt);
            }
        }
        ExprKind::Let { value, .. } => visit(value),
        ExprKind::Match {
            scrutinee, arms, ..
        } => {
            visit(scrutinee);
            for arm in arms {
                arm.guard.iter().for_each(&mut *visit);
                visit(&arm.body);
            }
        }
        ExprKind::Loop { body, .. } => block(body, visit),
        ExprKind::While { cond, body, .. } => {
            visit(cond);
            block(body, visit);
        }
        ExprKind::For { iter, body, .. } => {
            visit(iter);
            block(body, visit);
        }
        ExprKind::Block { block: inner, .. } => block(inner, visit),
        ExprKind::Closure { body, .. } => visit(body),
        ExprKind::Return(value) | ExprKind::Break { value, .. } => {
            value.iter().for_each(|value| visit(value))
        }
        ExprKind::Tuple(exprs) | ExprKind::Array(exprs) => exprs.iter().for_each(visit),
        ExprKind::Repeat { value, len } => {
            visit(value);
            visit(len);
        }
        ExprKind::Struct { fields, rest, .. } => {
            fields.iter().for_each(|field| visit(&field.value));
            if let Some(rest) = rest {
                visit(rest);
            }
        }
        ExprKind::Range { start, end } => start.iter().chain(end).for_each(|part| visit(part)),
        ExprKind::Macro(mac) => match &mac.args {
            syntax::MacroArgs::Exprs { args, .. } => args.iter().for_each(|arg| visit(&arg.value)),
            syntax::MacroArgs::Matches { value, guard, .. } => {
                visit(value);
                if let Some(guard) = guard {
                    visit(guard);
                }
            }
            syntax::MacroArgs::Repeat { value, len } => {
                visit(value);
                visit(len);
            }
            syntax::MacroArgs::Opaque => {}
        },
    }
}

/// Visits an expression and all below it, functions declared inside excepted.
pub fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(expr);
    children(expr, &mut |child| walk(child, visit));
}
