//! What happens to a place between two moments, and what a value keeps alive.
//!
//! A binding may be replaced by the place that it stands for only if that place is the same wherever the binding is used;
//! a scrutinee may become a statement only if what it holds (a lock's guard, say) lives as long as it did.

use super::known::Payload;
use super::*;
use crate::analysis::LocalId;
use crate::syntax::{BinOp, MacroArgs, ReceiverKind, StmtKind};

/// Macros that only look at their arguments.
const READING_MACROS: &[&str] = &[
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "format_args",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "vec",
    "matches",
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "log",
    "anyhow",
    "bail",
    "ensure",
    "concat",
    "stringify",
];

/// Methods of types that are not known which do not change what they are called on.
const READING_METHODS: &[&str] = &[
    "clone",
    "to_owned",
    "to_string",
    "as_ref",
    "as_str",
    "as_slice",
    "len",
    "is_empty",
    "iter",
    "capacity",
    "get",
    "first",
    "last",
    "contains",
    "contains_key",
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "lock",
    "read",
    "write",
    "borrow",
    "borrow_mut",
    "load",
    "store",
];

/// Something that may change a place: from where on, the local's use, and the fields that were gone through.
struct Write {
    from: usize,
    span: Span,
    fields: Vec<String>,
}

impl<'a> Cx<'a> {
    /// Whether what the payload names is the same at each use of the binding as where it was bound.
    pub(super) fn stays_until_used(&self, region: Span, local: LocalId, payload: &Payload) -> bool {
        let uses: Vec<Span> = self.an.locals[local]
            .uses
            .iter()
            .map(|at| at.span)
            .filter(|span| region.contains(*span))
            .collect();
        if uses.is_empty() {
            return true;
        }
        for (id, named) in self.an.locals.iter().enumerate() {
            for at in named
                .uses
                .iter()
                .filter(|at| payload.span.contains(at.span))
            {
                let fields = at
                    .expr
                    .and_then(|id| self.nodes.by_id.get(&id).copied())
                    .map(|expr| self.climb(expr).1)
                    .unwrap_or_default();
                let writes = self.writes_to(id, region);
                let meets = |write: &Write| {
                    let same = write
                        .fields
                        .iter()
                        .zip(&fields)
                        .take_while(|(a, b)| a == b)
                        .count();
                    (same == write.fields.len() || same == fields.len())
                        && uses
                            .iter()
                            .any(|at| self.may_come_before(write, *at, region))
                };
                if writes.iter().any(meets) {
                    return false;
                }
            }
        }
        true
    }

    /// In the order of the text, round a loop, or whenever a closure is called.
    fn may_come_before(&self, write: &Write, used: Span, region: Span) -> bool {
        write.from <= used.lo
            || self.nodes.exprs.iter().any(|outer| {
                region.contains(outer.span)
                    && outer.span.contains(used)
                    && match outer.kind {
                        ExprKind::Closure { .. } => true,
                        ExprKind::Loop { .. } | ExprKind::While { .. } | ExprKind::For { .. } => {
                            outer.span.contains(write.span)
                        }
                        _ => false,
                    }
            })
    }

    fn writes_to(&self, id: LocalId, region: Span) -> Vec<Write> {
        let local = &self.an.locals[id];
        let through = matches!(local.ty, Type::Ref(true, _) | Type::Ptr(_));
        if !local.mutable && !through && local.ty.is_known() {
            return vec![];
        }
        let mut out: Vec<Write> = local
            .uses
            .iter()
            .filter(|at| region.contains(at.span))
            .filter_map(|at| {
                let expr = self.nodes.by_id.get(&at.expr?).copied()?;
                let (top, fields) = self.climb(expr);
                Some(Write {
                    from: self.written_from(top)?,
                    span: at.span,
                    fields,
                })
            })
            .collect();
        out.extend(self.opaque_mentions(&local.name, region).map(|span| Write {
            from: span.lo,
            span,
            fields: vec![],
        }));
        out
    }

    /// Tokens that nobody parsed, where they hold a name.
    pub(super) fn opaque_mentions(&self, name: &str, region: Span) -> impl Iterator<Item = Span> {
        self.nodes
            .exprs
            .iter()
            .filter_map(move |expr| match &expr.kind {
                ExprKind::Macro(mac)
                    if matches!(mac.args, MacroArgs::Opaque)
                        && region.contains(expr.span)
                        && self
                            .file
                            .idents
                            .iter()
                            .any(|ident| ident.text == name && mac.inner.contains(ident.span)) =>
                {
                    Some(expr.span)
                }
                _ => None,
            })
    }

    /// From a local's use up to the place that is used, with the fields on the way to the first step of another kind.
    fn climb<'e>(&'e self, expr: &'e Expr) -> (&'e Expr, Vec<String>) {
        let mut at = expr;
        let mut fields = Vec::new();
        let mut known = true;
        while let Some(Parent::Expr(outer)) = self.nodes.parent(at) {
            match &outer.kind {
                ExprKind::Paren(_) | ExprKind::Deref(_) => {}
                ExprKind::Field { member, .. } => {
                    if known {
                        fields.push(member.text.clone());
                    }
                }
                ExprKind::Index { base, .. } if base.id == at.id => known = false,
                _ => break,
            }
            at = outer;
        }
        (at, fields)
    }

    /// If what is done with a place may change it: from where on.
    fn written_from(&self, place: &Expr) -> Option<usize> {
        let is_mut_ref = matches!(self.an.ty(place), Type::Ref(true, _));
        let Some(Parent::Expr(outer)) = self.nodes.parent(place) else {
            // Moved or lent on, where it is a `&mut`.
            return is_mut_ref.then_some(place.span.hi);
        };
        match &outer.kind {
            ExprKind::Assign { lhs, .. }
            | ExprKind::Binary {
                op: BinOp::AssignOp,
                lhs,
                ..
            } if lhs.id == place.id => Some(outer.span.hi),
            ExprKind::Ref { mutable, .. } => mutable.then_some(outer.span.lo),
            ExprKind::RawRef(_) => Some(outer.span.lo),
            ExprKind::MethodCall { recv, method, .. } if recv.id == place.id => {
                let writes = match self.an.methods.get(&outer.id) {
                    Some(hit) => match hit.def.sig.receiver.as_ref().map(|it| it.kind) {
                        Some(ReceiverKind::Ref) => false,
                        Some(ReceiverKind::RefMut) => true,
                        _ => is_mut_ref,
                    },
                    None => {
                        !READING_METHODS.contains(&method.text.as_str())
                            && !matches!(self.an.ty(place), Type::Prim(_))
                    }
                };
                writes.then_some(outer.span.hi)
            }
            ExprKind::Macro(mac) => (!READING_MACROS.contains(&mac.path.last().name.text.as_str()))
                .then_some(outer.span.lo),
            _ => is_mut_ref.then_some(outer.span.hi),
        }
    }

    /// Whether the next thing done with the payload's whole place is to give it a new value.
    pub(super) fn given_anew(&self, payload: &Payload, later: &[Span]) -> bool {
        let Some(first) = later.iter().min_by_key(|span| span.lo) else {
            return false;
        };
        let assign = self.nodes.exprs.iter().find_map(|expr| match &expr.kind {
            ExprKind::Assign { lhs, rhs }
                if lhs.span.lo == first.lo && self.src(lhs.span) == payload.base.text =>
            {
                Some((*expr, rhs))
            }
            _ => None,
        });
        let Some((assign, rhs)) = assign else {
            return false;
        };
        match self.nodes.parent(assign) {
            Some(Parent::Stmt { block, .. }) => {
                let returns = block.stmts.last().is_some_and(|last| {
                    matches!(&last.kind, StmtKind::Expr { expr, .. } if matches!(expr.kind, ExprKind::Return(_)))
                });
                later.iter().all(|span| {
                    (block.span.contains(*span) && !rhs.span.contains(*span))
                        || (returns && span.lo >= block.span.hi)
                })
            }
            _ => false,
        }
    }
}

/// What a scrutinee keeps alive.
impl<'a> Cx<'a> {
    /// What has to be evaluated of an expression whose value nobody wants: all that only looks at a value is taken off.
    pub(super) fn core<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match &expr.kind {
            ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) => {
                self.core(inner)
            }
            ExprKind::Field { base, .. } => self.core(base),
            ExprKind::Index { base, index }
                if self.is_pure(index) && self.index_holds(base, index) =>
            {
                self.core(base)
            }
            ExprKind::MethodCall { recv, args, .. }
                if self
                    .an
                    .methods
                    .get(&expr.id)
                    .is_some_and(|hit| hit.def.pure)
                    && args.iter().all(|arg| self.is_pure(arg)) =>
            {
                self.core(recv)
            }
            _ => expr,
        }
    }

    /// The place that a `let` would extend the life of: fields, indices and dereferences taken off, but no calls.
    fn extended<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match &expr.kind {
            ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) => {
                self.extended(inner)
            }
            ExprKind::Field { base, .. } => self.extended(base),
            ExprKind::Index { base, index } if self.is_pure(index) => self.extended(base),
            _ => expr,
        }
    }

    /// Whether evaluating an expression leaves no temporary behind but its own value.
    pub(super) fn leaves_only_itself(&self, expr: &Expr) -> bool {
        if self.only_looks(expr) {
            return true;
        }
        let all = |exprs: &[Expr]| exprs.iter().all(|expr| self.leaves_only_itself(expr));
        match &expr.kind {
            ExprKind::Paren(inner) | ExprKind::Try(inner) | ExprKind::Await(inner) => {
                self.leaves_only_itself(inner)
            }
            ExprKind::MethodCall {
                recv, method, args, ..
            } => {
                let takes_it = match self.an.methods.get(&expr.id) {
                    Some(hit) => matches!(
                        hit.def.sig.receiver.as_ref().map(|it| it.kind),
                        Some(ReceiverKind::Value | ReceiverKind::Typed)
                    ),
                    None => matches!(
                        method.text.as_str(),
                        "unwrap" | "expect" | "unwrap_or_else" | "unwrap_or_default"
                    ),
                };
                (self.only_looks(recv) || (takes_it && self.leaves_only_itself(recv))) && all(args)
            }
            ExprKind::Call { callee, args } => self.only_looks(callee) && all(args),
            ExprKind::Index { base, index } => {
                self.only_looks(base) && self.leaves_only_itself(index)
            }
            _ => false,
        }
    }

    /// Whether somebody may notice when a value of the type is dropped.
    pub fn drop_is_seen(&self, ty: &Type) -> bool {
        match ty {
            Type::Ref(..) | Type::Ptr(_) | Type::Prim(_) | Type::Never => false,
            Type::Tuple(types) => types.iter().any(|ty| self.drop_is_seen(ty)),
            Type::Slice(inner) => self.drop_is_seen(inner),
            Type::Adt(def, args) => {
                let only_holds = [
                    "std::option::Option",
                    "std::result::Result",
                    "std::vec::Vec",
                    "std::boxed::Box",
                    "std::string::String",
                ];
                !only_holds
                    .iter()
                    .any(|path| self.world.canonical(path) == Some(*def))
                    || args.iter().any(|ty| self.drop_is_seen(ty))
            }
            _ => true,
        }
    }

    /// A value whose end lets something go: a lock that is bound to nothing the compiler would refuse.
    pub fn is_lock(&self, ty: &Type) -> bool {
        matches!(ty, Type::Adt(def, _) if matches!(
            self.world.defs[*def].name.as_str(),
            "MutexGuard" | "RwLockReadGuard" | "RwLockWriteGuard"
        ))
    }

    /// A name that the function around `at` does not use.
    pub fn free_name(&self, base: &str, at: Span) -> String {
        let function = self
            .an
            .functions
            .iter()
            .map(|function| function.span)
            .filter(|span| span.contains(at))
            .max_by_key(|span| span.lo)
            .unwrap_or(Span::new(0, self.text.len()));
        let taken = |name: &str| {
            self.file
                .idents
                .iter()
                .any(|ident| ident.text == name && function.contains(ident.span))
        };
        let mut name = base.to_owned();
        let mut n = 2;
        while taken(&name) {
            name = format!("{base}_{n}");
            n += 1;
        }
        name
    }

    /// A statement that evaluates an expression and lets go of its value.
    pub(super) fn evaluate(&self, expr: &Expr) -> String {
        let core = self.core(expr);
        let text = self.src(core.span);
        let ty = self.an.ty(core);
        if matches!(core.kind, ExprKind::Index { .. }) {
            // A place: only a borrow of it is a value.
            format!("let _ = &{text};")
        } else if self.is_lock(ty) {
            format!("drop({text});")
        } else if self.is_retired_itself(ty) {
            format!("{text};")
        } else {
            format!("let _ = {text};")
        }
    }

    /// Statements that evaluate an expression and keep its value to the end of the block.
    ///
    /// `quiet`: nothing that happens meanwhile could tell. `None`: a statement would let go of something too early.
    pub(super) fn hold(&self, expr: &Expr, quiet: bool) -> Option<String> {
        let core = self.core(expr);
        if quiet {
            return Some(self.evaluate(expr));
        }
        if !self.leaves_only_itself(core) {
            return None;
        }
        let ty = self.an.ty(core);
        if matches!(core.kind, ExprKind::Index { .. }) || !self.drop_is_seen(ty) {
            return Some(self.evaluate(expr));
        }
        let base = match self.world.autoderef(ty).len() {
            1 if ty.is_known() => "_held",
            _ => "_guard",
        };
        let name = self.free_name(base, core.span);
        Some(format!("let {name} = {};", self.src(core.span)))
    }

    /// Whether `let` keeps all that a match on the payload would.
    pub(super) fn can_be_let(&self, payload: &Payload) -> bool {
        !payload.effects
            || payload
                .expr
                .and_then(|id| self.nodes.by_id.get(&id).copied())
                .is_none_or(|expr| self.leaves_only_itself(self.extended(expr)))
    }

    /// Whether nothing in these stretches does anything but give a value or leave.
    pub(super) fn is_quiet(&self, regions: &[Span]) -> bool {
        let inside = |span: Span| regions.iter().any(|region| region.contains(span));
        self.nodes
            .exprs
            .iter()
            .filter(|expr| inside(expr.span))
            .all(|expr| {
                matches!(
                    expr.kind,
                    ExprKind::Block { .. }
                        | ExprKind::Return(_)
                        | ExprKind::Break { .. }
                        | ExprKind::Continue { .. }
                ) || self.is_pure(expr)
            })
    }

    /// Whether temporaries of an expression live no longer than the expression, as far as anybody can tell.
    ///
    /// See "Temporary scopes" in the Rust reference.
    pub fn ends_here(&self, expr: &Expr) -> bool {
        let outer = match self.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => outer,
            Some(_) => return true,
            None => return true,
        };
        match &outer.kind {
            ExprKind::Closure { .. } | ExprKind::If { .. } | ExprKind::While { .. } => true,
            ExprKind::Match { scrutinee, .. } => scrutinee.id != expr.id,
            ExprKind::Paren(_)
            | ExprKind::Not(_)
            | ExprKind::Neg(_)
            | ExprKind::Cast { .. }
            | ExprKind::Try(_)
            | ExprKind::Return(_)
            | ExprKind::Break { .. }
            | ExprKind::Macro(_) => self.ends_here(outer),
            ExprKind::Assign { lhs, .. } => lhs.id != expr.id && self.ends_here(outer),
            ExprKind::Binary { lhs, rhs, .. } => {
                (rhs.id == expr.id || self.is_pure(rhs) || lhs.id != expr.id)
                    && self.ends_here(outer)
            }
            // `Some(…)`, `Ok(…)`, a variant: nothing is called.
            ExprKind::Call { callee, args } => {
                let makes = matches!(&callee.kind, ExprKind::Path(path) if path.last().name.text.starts_with(char::is_uppercase));
                makes && args.len() == 1 && self.ends_here(outer)
            }
            _ => false,
        }
    }

    /// Whether the temporaries of an `if let` are gone in its `else`: since the 2024 edition.
    pub(super) fn else_is_outside(&self) -> bool {
        self.world.files[self.id]
            .contexts
            .first()
            .is_some_and(|&at| self.world.crates[self.world.mods[at].krate].edition >= 2024)
    }

    /// A statement, then a value, where an expression stood: on lines of their own at the end of a block.
    pub(super) fn first_then(
        &self,
        expr: &'a Expr,
        first: &str,
        value: &str,
        rule: &str,
    ) -> Option<EditGroup> {
        use crate::syntax::trivia;
        if let Some(Parent::Stmt { stmt, block, at }) = self.nodes.parent(expr)
            && at + 1 == block.stmts.len()
            && matches!(stmt.kind, StmtKind::Expr { semi: false, .. })
            && trivia::starts_line(self.text, stmt.span.lo)
        {
            let indent = trivia::indent_of(self.text, stmt.span.lo);
            let eol = trivia::eol(self.text);
            return self.edit(expr.span, format!("{first}{eol}{indent}{value}"), rule);
        }
        let text = self.fit(expr, format!("{{ {first} {value} }}"), Prec::Tight, true);
        self.edit(expr.span, text, rule)
    }

    /// Whether a place is the function's own and ends with it: nobody else sees what is taken out of it.
    pub(super) fn dies_here(&self, place: &Expr) -> bool {
        let is_plain = |ty: &Type| ty.is_known() && self.world.autoderef(ty).len() == 1;
        match &place.kind {
            ExprKind::Paren(inner) => self.dies_here(inner),
            ExprKind::Field { base, .. } => is_plain(self.an.ty(base)) && self.dies_here(base),
            ExprKind::Path(_) => self
                .an
                .local(place)
                .is_some_and(|local| is_plain(&self.an.locals[local].ty)),
            _ => false,
        }
    }
}
