//! The timer where a struct is built, and where it is taken apart.

use super::layout::Frame;
use super::places::path_to;
use super::scan::Function;
use super::timer::{Timer, append};
use super::{BracketSite, Context, Draft, Names, Tree};
use crate::rewrite::Cx;
use crate::rewrite::nodes::Parent;
use crate::syntax::{
    self, Expr, ExprKind, FieldInit, ItemKind, MacroArgs, Pat, PatKind, Span, Stmt, StmtKind,
    trivia,
};
use crate::world::{DefId, DefKind, Type};

/// Makes the timer in every literal of the struct. Whether there is one that does not see private fields.
pub(super) fn plan(
    tree: &Tree<'_>,
    context: &Context<'_>,
    timer: &Timer,
    names: &mut Names<'_, '_>,
    draft: &mut Draft,
) -> Result<bool, BracketSite> {
    if let Some(site) = super::hidden::find(tree, context, timer) {
        return Err(site);
    }
    let mut outside = false;
    for file in 0..tree.files.len() {
        let cx = tree.cx(file);
        for expr in &cx.nodes.exprs {
            let ExprKind::Struct {
                fields,
                rest,
                dots,
                braces,
                ..
            } = &expr.kind
            else {
                continue;
            };
            if !is_context(cx.an.ty(expr), context.def)
                || fields.iter().any(|field| field.name.text == timer.field)
            {
                continue;
            }
            // `..base` brings the timer along.
            if rest.is_some() || *dots {
                continue;
            }
            let literal = Literal {
                tree,
                file,
                expr,
                fields,
                braces: *braces,
            };
            outside |= !context.sees_fields(tree.world, literal.module());
            literal.plan(timer, names, draft)?;
        }
        for pat in patterns(cx) {
            let PatKind::Struct { path, fields, rest } = &pat.kind else {
                continue;
            };
            let is_ours = cx
                .an
                .pattern_types
                .get(&pat.span)
                .is_some_and(|ty| is_context(ty.peeled(), context.def))
                && (path.last().name.text == "Self"
                    || path.last().name.text == tree.rule.structure);
            if !is_ours || *rest || fields.iter().any(|field| field.name.text == timer.field) {
                continue;
            }
            let module = tree.bodies.iter().rfind(|body| {
                body.file == file && body.items.iter().any(|item| item.span.contains(pat.span))
            });
            outside |= module.is_some_and(|body| !context.sees_fields(tree.world, body.module));
            let entries: Vec<Span> = fields.iter().map(|field| field.span).collect();
            let open = path.span.hi + cx.text[path.span.hi..pat.span.hi].find('{').unwrap_or(0);
            append(
                draft,
                tree,
                file,
                cx.text,
                Span::new(open, pat.span.hi),
                &entries,
                &format!("{}: _", timer.field),
            );
        }
    }
    Ok(outside)
}

fn is_context(ty: &Type, def: DefId) -> bool {
    matches!(ty, Type::Adt(found, _) if *found == def)
}

struct Literal<'t, 'a> {
    tree: &'t Tree<'a>,
    file: usize,
    expr: &'a Expr,
    fields: &'a [FieldInit],
    braces: Span,
}

impl<'a> Literal<'_, 'a> {
    fn cx(&self) -> &'a Cx<'a> {
        self.tree.cx(self.file)
    }

    /// Its function and that one's body; none in a constant.
    fn function(&self) -> Option<Function<'a>> {
        let cx = self.cx();
        let index = *cx.an.function_of.get(&self.expr.id)?;
        let known = cx.an.functions.get(index)?;
        let (item, _) = cx
            .nodes
            .functions
            .iter()
            .find(|(_, f)| f.body.as_ref().is_some_and(|body| body.span == known.body))?;
        let body = self
            .tree
            .bodies
            .iter()
            .find(|body| body.file == self.file && body.module == known.module)?;
        Function::of_item(cx, *body, item)
    }

    fn module(&self) -> usize {
        self.function()
            .map_or(self.tree.files[self.file].module, |function| {
                function.body.module
            })
    }

    fn blocked(&self, reason: String) -> BracketSite {
        let rule = self.tree.rule;
        let suggestion = format!(
            "make the timer there with `{}::{}(&stream)`, or build the struct in a function that returns a `Result`",
            rule.field_type, rule.constructor
        );
        self.tree
            .site(self.file, self.expr.span, reason, suggestion)
    }

    fn plan(
        &self,
        timer: &Timer,
        names: &mut Names<'_, '_>,
        draft: &mut Draft,
    ) -> Result<(), BracketSite> {
        let (tree, rule, cx) = (self.tree, self.tree.rule, self.cx());
        let what = format!("`{}` is built", rule.structure);
        if cx.is_frozen(self.expr.span) {
            return Err(self.blocked(format!("{what} in code that is to stay as it is")));
        }
        let stream = timer
            .stream
            .as_ref()
            .map_err(|reason| self.blocked(reason.clone()))?;
        let Some(function) = self.function() else {
            return Err(self.blocked(format!("{what} outside of a function, where no stream is")));
        };
        let Some(init) = self
            .fields
            .iter()
            .find(|field| field.name.text == stream.name)
        else {
            return Err(self.blocked(format!("{what} without its `{}`", stream.name)));
        };
        let Some((argument, root)) = self.stream_argument(init, stream.is_ref) else {
            let value = cx.src(init.value.span);
            return Err(self.blocked(format!(
                "{what} with a stream that has no name there, `{value}`"
            )));
        };
        let propagate = self.propagate(&function)?;
        let Some(name) = names.spell(function.body, &rule.field_type) else {
            return Err(self.blocked(format!(
                "the package depends on none of the crates that have `{}`: {}",
                rule.field_type,
                rule.import_from.join(", ")
            )));
        };
        let make = format!("{name}::{}({argument}){propagate}", rule.constructor);
        let lines =
            self.braces.text(cx.text).contains('\n') && trivia::starts_line(cx.text, init.span.lo);
        if lines {
            // In front of the stream, which may be moved into its field.
            let indent = trivia::indent_of(cx.text, init.span.lo);
            draft.insert(
                self.file,
                init.span.lo,
                format!("{}: {make},{}{indent}", timer.field, trivia::eol(cx.text)),
                rule,
            );
        } else if let Some(stmt) = self.statement_above(&function, timer, root) {
            let frame = Frame::new(cx.text, stmt.span, stmt.span);
            draft.insert(
                self.file,
                stmt.span.lo,
                frame.lead(&format!("let {} = {make};", timer.field)),
                rule,
            );
            let entries: Vec<Span> = self.fields.iter().map(|field| field.span).collect();
            append(
                draft,
                tree,
                self.file,
                cx.text,
                self.braces,
                &entries,
                &timer.field,
            );
        } else {
            draft.insert(
                self.file,
                init.span.lo,
                format!("{}: {make}, ", timer.field),
                rule,
            );
        }
        Ok(())
    }

    /// The stream as an argument of the constructor, and where the local in it is bound.
    fn stream_argument(&self, init: &FieldInit, is_ref: bool) -> Option<(String, Option<Span>)> {
        let cx = self.cx();
        let place = |expr: &'a Expr, by_ref: Option<bool>| {
            if !cx.only_looks(expr)
                || matches!(expr.kind, ExprKind::Lit(_) | ExprKind::Closure { .. })
            {
                return None;
            }
            let by_ref = by_ref.unwrap_or(matches!(cx.an.ty(expr), Type::Ref(..)));
            let and = if by_ref { "" } else { "&" };
            Some((format!("{and}{}", cx.src(expr.span)), self.root_of(expr)))
        };
        let mut value: &'a Expr = self
            .fields
            .iter()
            .find(|field| field.span == init.span)
            .map(|field| &field.value)?;
        while let ExprKind::Paren(inner) = &value.kind {
            value = inner;
        }
        match &value.kind {
            ExprKind::MethodCall {
                recv, method, args, ..
            } if args.is_empty() && method.text == "clone" => place(recv, None),
            ExprKind::Call { callee, args } if args.len() == 1 => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                if path.last().name.text != "clone" {
                    return None;
                }
                match &args[0].kind {
                    ExprKind::Ref { inner, .. } => place(inner, Some(false)),
                    _ => place(&args[0], Some(true)),
                }
            }
            // What goes into the field is of the field's type.
            ExprKind::Path(_) | ExprKind::Field { .. } => place(value, Some(is_ref)),
            _ => None,
        }
    }

    fn root_of(&self, expr: &Expr) -> Option<Span> {
        let cx = self.cx();
        match &expr.kind {
            ExprKind::Path(_) => cx.an.local(expr).map(|id| cx.an.locals[id].span),
            ExprKind::Field { base: inner, .. }
            | ExprKind::Paren(inner)
            | ExprKind::Deref(inner)
            | ExprKind::Ref { inner, .. } => self.root_of(inner),
            ExprKind::MethodCall { recv, .. } => self.root_of(recv),
            _ => None,
        }
    }

    /// How an error of the constructor leaves the function.
    fn propagate(&self, function: &Function<'a>) -> Result<&'static str, BracketSite> {
        let (rule, cx) = (self.tree.rule, self.cx());
        let what = format!("`{}` is built", rule.structure);
        let deferred = function
            .around(cx, self.expr)
            .into_iter()
            .any(|outer| match &outer.kind {
                ExprKind::Closure { .. } => true,
                ExprKind::Block { flavour, .. } => matches!(
                    flavour,
                    syntax::BlockFlavour::Async
                        | syntax::BlockFlavour::Const
                        | syntax::BlockFlavour::Try
                ),
                _ => false,
            });
        let known = &cx.an.functions[function.index];
        let fails = if deferred {
            Err(format!(
                "{what} inside of a closure or an `async` block, which an error would not leave"
            ))
        } else {
            self.tree.error_converts(&known.ret)
        };
        match fails {
            Ok(()) => Ok("?"),
            // A test stops at once, as its other lines do.
            Err(_) if known.in_test_code && !deferred => Ok(".unwrap()"),
            Err(reason) if deferred => Err(self.blocked(reason)),
            Err(reason) => Err(self.blocked(format!("{what} in `{}`, {reason}", function.name()))),
        }
    }

    /// The statement that the literal is part of, if it runs whenever that does and the stream is bound before.
    fn statement_above(
        &self,
        function: &Function<'a>,
        timer: &Timer,
        root: Option<Span>,
    ) -> Option<&'a Stmt> {
        let cx = self.cx();
        if cx
            .an
            .locals
            .iter()
            .any(|local| local.function == function.index && local.name == timer.field)
        {
            return None;
        }
        let mut at = self.expr;
        loop {
            match cx.nodes.parent(at)? {
                Parent::Expr(outer) => match &outer.kind {
                    ExprKind::Call { .. }
                    | ExprKind::MethodCall { .. }
                    | ExprKind::Paren(_)
                    | ExprKind::Ref { .. }
                    | ExprKind::Try(_)
                    | ExprKind::Return(_)
                    | ExprKind::Tuple(_)
                    | ExprKind::Struct { .. } => at = outer,
                    _ => return None,
                },
                Parent::Stmt { stmt, .. } | Parent::Init { stmt, .. } => {
                    let is_bound = root.is_none_or(|span| span.hi <= stmt.span.lo);
                    let in_body = path_to(function.block, stmt.span)
                        .last()
                        .is_some_and(|place| std::ptr::eq(place.stmt(), stmt));
                    return (is_bound && in_body && stmt.attrs.is_empty()).then_some(stmt);
                }
                Parent::Diverge { .. } | Parent::Const => return None,
            }
        }
    }
}

impl Tree<'_> {
    /// Whether an error of the constructor becomes one of a function that returns this; why not.
    fn error_converts(&self, ret: &Type) -> Result<(), String> {
        let Some(own) = self.constructor_error() else {
            return Err(format!(
                "and the signature of `{}::{}` is not known",
                self.rule.field_type, self.rule.constructor
            ));
        };
        let last = |path: &str| path.rsplit("::").next().unwrap_or(path).to_owned();
        match ret {
            Type::Adt(def, args) if Some(*def) == self.world.canonical("std::result::Result") => {
                match args.get(1) {
                    Some(error) if self.converts(&own, error) => Ok(()),
                    Some(Type::Unknown) | None => Err("whose error type cannot be told".into()),
                    Some(error) => Err(format!(
                        "whose error type {}has no conversion from `{}`",
                        self.name_of(error),
                        self.name_of(&own).trim().trim_matches('`')
                    )),
                }
            }
            // Aliases of crates that take any error.
            Type::External(path, args)
                if last(path) == "Result"
                    && args.len() < 2
                    && matches!(
                        path.split("::").next(),
                        Some("anyhow" | "eyre" | "color_eyre")
                    ) =>
            {
                Ok(())
            }
            Type::External(path, args)
                if last(path) == "Result"
                    && args.get(1).is_some_and(|error| self.converts(&own, error)) =>
            {
                Ok(())
            }
            Type::Unknown => Err("whose result type cannot be told".into()),
            _ => Err("which cannot return an error".into()),
        }
    }

    fn name_of(&self, ty: &Type) -> String {
        match ty {
            Type::Adt(def, _) => format!("`{}` ", self.world.defs[*def].name),
            Type::External(path, _) => format!("`{path}` "),
            _ => String::new(),
        }
    }

    fn constructor_error(&self) -> Option<Type> {
        let (f, id) = self
            .timer_defs
            .iter()
            .find_map(|def| self.world.assoc_fn(*def, &self.rule.constructor))?;
        match self.lower(self.world.impls[id].module, &[], None, f.sig.ret.as_ref()?) {
            Type::Adt(_, args) => args.get(1).cloned(),
            _ => None,
        }
    }

    /// Whether `?` turns the one error into the other.
    fn converts(&self, from: &Type, to: &Type) -> bool {
        if same_error(from, to) {
            return true;
        }
        let Type::Adt(def, args) = to else {
            return false;
        };
        let it = &self.world.defs[*def];
        if it.canonical == "std::boxed::Box" || it.name == "Box" {
            return matches!(args.first(), Some(Type::Opaque(bounds)) if bounds.iter().any(|bound| bound.name == "Error"));
        }
        let by_impl = self.world.impls_for(*def).iter().any(|&id| {
            let found = &self.world.impls[id];
            let Some(path) = found
                .of_trait
                .as_ref()
                .filter(|path| path.last().name.text == "From")
            else {
                return false;
            };
            let params = found.generics.names();
            let arg = path
                .last()
                .args
                .as_ref()
                .and_then(|args| args.types.first())
                .map(|ty| self.lower(found.module, &params, None, ty));
            // `impl<E: Error> From<E>` takes them all.
            arg.is_some_and(|arg| same_error(from, &arg) || matches!(arg, Type::Param(_)))
        });
        by_impl || self.converts_by_derive(from, *def)
    }

    /// `#[from]` on a variant's field, as `thiserror` has it, or a derive of `From`.
    fn converts_by_derive(&self, from: &Type, def: DefId) -> bool {
        let it = &self.world.defs[def];
        let DefKind::Enum { .. } = it.kind else {
            return false;
        };
        let Ok(file) = &self.world.files[it.file].parsed else {
            return false;
        };
        let Some(item) = find_item(&file.items, it.span) else {
            return false;
        };
        let ItemKind::Enum(decl) = &item.kind else {
            return false;
        };
        let all = it.derives.iter().any(|name| name == "From");
        decl.variants.iter().any(|variant| {
            let one = variant.fields.len() == 1;
            variant.fields.iter().any(|field| {
                let marked = field.attrs.iter().any(|attr| attr.path == "from") || (all && one);
                marked && same_error(from, &self.lower(it.module, &[], None, &field.ty))
            })
        })
    }
}

/// Whether two types are the same error: a crate may export it twice.
fn same_error(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::External(a, _), Type::External(b, _)) => {
            a.split("::").next() == b.split("::").next()
                && a.rsplit("::").next() == b.rsplit("::").next()
        }
        (Type::Unknown | Type::Var(_), _) | (_, Type::Unknown | Type::Var(_)) => false,
        (a, b) => a == b,
    }
}

fn find_item(items: &[syntax::Item], span: Span) -> Option<&syntax::Item> {
    let item = items.iter().find(|item| item.span.contains(span))?;
    match &item.kind {
        _ if item.span == span => Some(item),
        ItemKind::Mod(it) => find_item(it.items.as_deref()?, span),
        _ => None,
    }
}

/// Every pattern of a file.
fn patterns<'a>(cx: &'a Cx<'a>) -> Vec<&'a Pat> {
    let mut roots: Vec<&'a Pat> = Vec::new();
    for at in &cx.nodes.lets {
        if let StmtKind::Let { pat, .. } = &at.stmt.kind {
            roots.push(pat);
        }
    }
    for (_, f) in &cx.nodes.functions {
        roots.extend(f.sig.params.iter().map(|param| &param.pat));
    }
    for expr in &cx.nodes.exprs {
        match &expr.kind {
            ExprKind::Let { pat, .. } | ExprKind::For { pat, .. } => roots.push(pat),
            ExprKind::Match { arms, .. } => roots.extend(arms.iter().map(|arm| &arm.pat)),
            ExprKind::Closure { params, .. } => roots.extend(params.iter().map(|(pat, _)| pat)),
            ExprKind::Macro(mac) => {
                if let MacroArgs::Matches { pat, .. } = &mac.args {
                    roots.push(pat);
                }
            }
            _ => {}
        }
    }
    let mut out = Vec::new();
    while let Some(pat) = roots.pop() {
        out.push(pat);
        match &pat.kind {
            PatKind::Ident { sub, .. } => roots.extend(sub.as_deref()),
            PatKind::TupleStruct { elems, .. }
            | PatKind::Tuple(elems)
            | PatKind::Slice(elems)
            | PatKind::Or(elems) => roots.extend(elems),
            PatKind::Struct { fields, .. } => roots.extend(fields.iter().map(|field| &field.pat)),
            PatKind::Ref { inner, .. } | PatKind::Paren(inner) | PatKind::Type { inner, .. } => {
                roots.push(inner)
            }
            _ => {}
        }
    }
    out
}
