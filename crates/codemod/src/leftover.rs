//! What the rewrites would not guess: each place that still uses something retired, with the reason.

use std::collections::HashSet;

use crate::analysis::PathRole;
use crate::rewrite::known::{Mode, Red};
use crate::rewrite::{Cx, Retired};
use crate::syntax::{Expr, ExprKind, FieldInit, ItemKind, MacroArgs, Pat, PatKind, Span};
use crate::world::{DefKind, Res, Type};

/// A place that is left for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub span: Span,
    pub rule: String,
    pub reason: String,
    pub suggestion: Option<String>,
    /// Uses something that has no counterpart at all: a test that does is deleted.
    pub dead: bool,
    /// And only by what it reads of a value, which may be one that stays: a test that makes such a value is not deleted.
    pub reads: bool,
}

impl Leftover {
    fn that_reads(mut self) -> Self {
        self.reads = true;
        self
    }
}

/// Why a branch that is never taken stays, and what to do about it.
const UNTYPED: (&str, &str) = (
    "what stays does not say its type, what would go does",
    "give the value its type, then run again",
);

impl<'a> Cx<'a> {
    /// Every leftover of the file, in order, none inside another.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut out: Vec<Leftover> = Vec::new();
        self.impl_leftovers(&mut out);
        for expr in &self.nodes.exprs {
            if let Some(mut found) = self.expr_leftover(expr) {
                if !found.dead && self.is_held_for_its_type(found.span) {
                    found.reason = UNTYPED.0.into();
                    found.suggestion = Some(UNTYPED.1.into());
                }
                out.push(found);
            }
        }
        self.pattern_leftovers(&mut out);
        self.path_leftovers(&mut out);
        self.token_leftovers(&mut out);
        out.sort_by_key(|found| (found.span.lo, std::cmp::Reverse(found.span.hi)));
        let mut kept: Vec<Leftover> = Vec::new();
        for found in out {
            if let Some(last) = kept.iter_mut().find(|last| last.span.overlaps(found.span)) {
                last.reads = match (last.dead, found.dead) {
                    (true, true) => last.reads && found.reads,
                    (true, false) => last.reads,
                    (false, _) => found.reads,
                };
                last.dead |= found.dead;
                continue;
            }
            kept.push(found);
        }
        kept
    }

    fn leftover(
        &self,
        span: Span,
        rule: &str,
        reason: impl Into<String>,
        suggestion: Option<String>,
        dead: bool,
    ) -> Leftover {
        Leftover {
            span,
            rule: rule.to_owned(),
            reason: reason.into(),
            suggestion,
            dead,
            reads: false,
        }
    }

    // --- implementations

    fn impl_leftovers(&self, out: &mut Vec<Leftover>) {
        for (item, _) in &self.nodes.items {
            let ItemKind::Impl(it) = &item.kind else {
                continue;
            };
            if self
                .rope
                .exact_origin(item.span.lo)
                .is_some_and(|origin| self.rules.conflicting_impls.contains(&(self.id, origin)))
            {
                let reason = match &it.of_trait {
                    Some(of) => format!(
                        "with the new names `{}` would be implemented twice for the same types",
                        of.last().name.text
                    ),
                    None => {
                        "with the new names some of these would be defined twice for the same type"
                            .to_owned()
                    }
                };
                let rule = self
                    .rules
                    .retired_types()
                    .next()
                    .map_or(String::new(), |retired| retired.rule().to_owned());
                let head = Span::new(item.span.lo, it.braces.hi);
                out.push(self.leftover(
                    head,
                    &rule,
                    reason,
                    Some("drop this one, or merge the two".into()),
                    true,
                ));
                continue;
            }
            let crate::syntax::TyKind::Path(path) = &it.self_ty.kind else {
                continue;
            };
            let Some(Retired::Enum(rule)) = self.retired_path(path) else {
                continue;
            };
            if self.module_is_deleted(path) {
                continue;
            }
            let what = match &it.of_trait {
                Some(of) => format!(
                    "`{}` is implemented for `{}`, which is gone",
                    of.last().name.text,
                    path.last().name.text
                ),
                None => format!(
                    "methods are added to `{}`, which is gone",
                    path.last().name.text
                ),
            };
            let new = &self.world.defs[rule.becomes].name;
            let head = Span::new(item.span.lo, it.braces.hi);
            out.push(self.leftover(
                head,
                &rule.spec.rule,
                what,
                Some(format!(
                    "implement it for `{new}`, or drop it where `{new}` has one already"
                )),
                true,
            ));
        }
    }

    /// Aliases through which an implementation that is left to a person names what is retired.
    pub fn aliases_of_left_impls(&self) -> Vec<crate::world::DefId> {
        let mut out = Vec::new();
        for (item, _) in &self.nodes.items {
            let ItemKind::Impl(it) = &item.kind else {
                continue;
            };
            let conflicts = self
                .rope
                .exact_origin(item.span.lo)
                .is_some_and(|origin| self.rules.conflicting_impls.contains(&(self.id, origin)));
            let of_enum = matches!(&it.self_ty.kind, crate::syntax::TyKind::Path(path)
                if matches!(self.retired_path(path), Some(Retired::Enum(_))));
            if !(conflicts || of_enum) {
                continue;
            }
            let head = Span::new(item.span.lo, it.braces.lo);
            let inside = self
                .an
                .paths
                .values()
                .filter(|found| head.contains(found.path.span));
            out.extend(inside.filter_map(|found| match found.res {
                Res::Def(def) => Some(def),
                _ => None,
            }));
        }
        out.retain(|&def| matches!(self.world.defs[def].kind, DefKind::Alias { .. }));
        out
    }

    fn module_is_deleted(&self, path: &crate::syntax::Path) -> bool {
        self.an
            .path(path)
            .is_some_and(|found| self.rules.deleted_mods.contains_key(&found.module))
    }

    // --- expressions

    fn expr_leftover(&self, expr: &'a Expr) -> Option<Leftover> {
        match &expr.kind {
            ExprKind::Field { base, member, .. } => {
                let ty = self.an.ty(base);
                if let Some(Retired::Wrapper(rule)) = self.retired(ty) {
                    if let Some(hint) = rule.spec.gone.get(&member.text) {
                        let reason = format!("`{}` is read on the host", member.text);
                        return Some(
                            self.leftover(
                                expr.span,
                                &rule.spec.rule,
                                reason,
                                Some(hint.clone()),
                                true,
                            )
                            .that_reads(),
                        );
                    }
                    if member.text == rule.spec.payload {
                        let (reason, hint) = self.kept_payload(expr, base, rule);
                        return Some(self.leftover(
                            expr.span,
                            &rule.spec.rule,
                            reason,
                            Some(hint),
                            false,
                        ));
                    }
                    return None;
                }
                // After a first run the receiver has the new type, which has no such field either.
                if let Some(rule) =
                    self.rules.wrappers.iter().find(|rule| {
                        rule.spec.payload == member.text && self.is_type(ty, rule.becomes)
                    })
                    && !self.sees_field(ty, &member.text, expr)
                {
                    let (reason, hint) = self.kept_payload(expr, base, rule);
                    return Some(self.leftover(
                        expr.span,
                        &rule.spec.rule,
                        reason,
                        Some(hint),
                        false,
                    ));
                }
                if let Some(rule) = self
                    .rules
                    .wrappers
                    .iter()
                    .find(|rule| self.is_type(ty, rule.becomes))
                    && let Some(hint) = rule.spec.gone.get(&member.text)
                    && !self.sees_field(ty, &member.text, expr)
                {
                    let reason = format!("`{}` is read on the host", member.text);
                    return Some(
                        self.leftover(expr.span, &rule.spec.rule, reason, Some(hint.clone()), true)
                            .that_reads(),
                    );
                }
                if !ty.peeled().is_known() && self.rules.is_distinctive(&member.text) {
                    let reason = format!(
                        "the type of `{}` cannot be told, and `{}` may be what is retired",
                        self.src(base.span),
                        member.text
                    );
                    let rule = self.rule_of_name(&member.text);
                    return Some(self.leftover(
                        member.span,
                        &rule,
                        reason,
                        Some("give the variable its type, then run again".into()),
                        false,
                    ));
                }
                None
            }
            ExprKind::MethodCall { recv, method, .. } => {
                let ty = self.an.ty(recv);
                if let Some(retired) = self.retired(ty) {
                    let gone = match &retired {
                        Retired::Enum(rule) => &rule.spec.gone,
                        Retired::Wrapper(rule) => &rule.spec.gone,
                    };
                    if let Some(hint) = gone.get(&method.text) {
                        let reason = format!(
                            "`{}` has no counterpart on `{}`",
                            method.text,
                            self.world.defs[retired.becomes()].name
                        );
                        return Some(
                            self.leftover(
                                expr.span,
                                retired.rule(),
                                reason,
                                Some(hint.clone()),
                                true,
                            )
                            .that_reads(),
                        );
                    }
                    if let Retired::Enum(rule) = &retired
                        && (rule.spec.some.contains_key(&method.text)
                            || rule.spec.always.contains_key(&method.text))
                    {
                        let (reason, hint) = self.kept_question(expr, recv, &method.text, rule);
                        return Some(self.leftover(
                            expr.span,
                            &rule.spec.rule,
                            reason,
                            Some(hint),
                            false,
                        ));
                    }
                    return None;
                }
                if let Some(rule) = self
                    .rules
                    .enums
                    .iter()
                    .find(|rule| self.is_type(ty, rule.becomes))
                    && (rule.spec.some.contains_key(&method.text)
                        || rule.spec.always.contains_key(&method.text))
                    && !self.an.methods.contains_key(&expr.id)
                {
                    let (reason, hint) = self.kept_question(expr, recv, &method.text, rule);
                    return Some(self.leftover(
                        expr.span,
                        &rule.spec.rule,
                        reason,
                        Some(hint),
                        false,
                    ));
                }
                if let Some(rule) = self
                    .rules
                    .enums
                    .iter()
                    .find(|rule| self.is_type(ty, rule.becomes))
                    && let Some(hint) = rule.spec.gone.get(&method.text)
                    && !self.an.methods.contains_key(&expr.id)
                {
                    let reason = format!(
                        "`{}` has no counterpart on `{}`",
                        method.text, self.world.defs[rule.becomes].name
                    );
                    return Some(
                        self.leftover(expr.span, &rule.spec.rule, reason, Some(hint.clone()), true)
                            .that_reads(),
                    );
                }
                if !ty.peeled().is_known() && self.rules.is_distinctive(&method.text) {
                    let reason = format!(
                        "the type of `{}` cannot be told, and `{}()` may be what is retired",
                        self.src(recv.span),
                        method.text
                    );
                    let rule = self.rule_of_name(&method.text);
                    return Some(self.leftover(
                        method.span,
                        &rule,
                        reason,
                        Some("give the variable its type, then run again".into()),
                        false,
                    ));
                }
                None
            }
            ExprKind::Call { callee, .. } => {
                let ExprKind::Path(path) = &callee.kind else {
                    return None;
                };
                let mut found = self.value_path_leftover(path)?;
                found.span = expr.span;
                Some(found)
            }
            ExprKind::Path(path) => self.value_path_leftover(path),
            ExprKind::Struct { path, fields, .. } => {
                let Retired::Wrapper(rule) = self.retired_path(path)? else {
                    return None;
                };
                let is_gone = |field: &FieldInit| rule.spec.gone.contains_key(&field.name.text);
                let why = if fields.is_empty() {
                    "is built empty"
                } else if fields.iter().any(is_gone) {
                    "is built from the host"
                } else {
                    "is built from an option"
                };
                let hint = match why {
                    "is built empty" => Some(format!(
                        "write an empty `{0}`, or hold an `Option<{0}>`",
                        self.world.defs[rule.becomes].name
                    )),
                    "is built from an option" => Some(format!(
                        "write the `{}` itself",
                        self.world.defs[rule.becomes].name
                    )),
                    _ => rule.spec.gone.values().next().cloned(),
                };
                Some(self.leftover(
                    expr.span,
                    &rule.spec.rule,
                    format!(
                        "a `{}` that {why} has no counterpart",
                        path.last().name.text
                    ),
                    hint,
                    true,
                ))
            }
            _ => {
                // An option that is known to be `Some` where nothing reduces it.
                match self.eval(expr) {
                    Some(Red::Some(payload))
                        if !matches!(expr.kind, ExprKind::Ref { .. } | ExprKind::Paren(_)) =>
                    {
                        Some(self.leftover(
                            expr.span,
                            &payload.rule,
                            "what this option comes to here could not be told",
                            None,
                            false,
                        ))
                    }
                    _ => None,
                }
            }
        }
    }

    /// Each `take()` on a payload whose place outlives the function: what it left there is not `None` any more.
    pub fn emptied_for_others(&self) -> Vec<Leftover> {
        let taken = self.nodes.exprs.iter().filter_map(|expr| match &expr.kind {
            ExprKind::MethodCall { method, .. } if method.text == "take" => {
                match self.eval(expr)? {
                    Red::Some(payload) if payload.taken && payload.mode == Mode::Clone => {
                        Some((*expr, payload))
                    }
                    _ => None,
                }
            }
            _ => None,
        });
        taken
            .map(|(expr, payload)| {
                self.leftover(
                    Span::new(expr.span.lo, expr.span.hi),
                    &payload.rule,
                    format!(
                        "`{}` is not emptied any more: whoever holds it finds it as it was",
                        payload.base.text
                    ),
                    Some("where somebody asks whether it is empty, hold an `Option` of it".into()),
                    false,
                )
            })
            .collect()
    }

    /// Each place that makes an empty wrapper: what takes its place has a payload, as the payload is all that it is.
    pub fn made_empty(&self) -> Vec<Leftover> {
        let mut out = Vec::new();
        for expr in &self.nodes.exprs {
            let makes = match &expr.kind {
                ExprKind::Call { callee, args } => match &callee.kind {
                    ExprKind::Path(path) => match path.last().name.text.as_str() {
                        "default" => args.is_empty(),
                        "take" => path
                            .segs
                            .iter()
                            .rev()
                            .nth(1)
                            .is_none_or(|seg| seg.name.text == "mem"),
                        _ => false,
                    },
                    _ => false,
                },
                ExprKind::MethodCall { method, .. } => method.text == "unwrap_or_default",
                _ => false,
            };
            if makes
                && let Type::Adt(def, _) = self.an.ty(expr)
                && let Some(rule) = self.rules.wrappers.iter().find(|rule| rule.def == *def)
            {
                out.push(self.empty_note(expr.span, rule));
            }
        }
        for (item, _) in &self.nodes.items {
            let ItemKind::Struct(it) = &item.kind else {
                continue;
            };
            let has_default = item.attrs.iter().any(|attr| {
                attr.path == "derive"
                    && attr
                        .tokens
                        .split(|c: char| !c.is_alphanumeric())
                        .any(|word| word == "Default")
            });
            for field in it.fields.iter().filter(|_| has_default) {
                if let crate::syntax::TyKind::Path(path) = &field.ty.kind
                    && let Some(Retired::Wrapper(rule)) = self.retired_path(path)
                {
                    out.push(self.empty_note(field.ty.span, rule));
                }
            }
        }
        out.retain(|found| {
            !self.an.paths.values().any(|path| {
                found.span.contains(path.path.span) && self.module_is_deleted(&path.path)
            })
        });
        out
    }

    fn empty_note(&self, span: Span, rule: &crate::rewrite::WrapperRule) -> Leftover {
        let old = &self.world.defs[rule.def].name;
        let new = &self.world.defs[rule.becomes].name;
        let payload = &rule.spec.payload;
        self.leftover(
            span,
            &rule.spec.rule,
            format!(
                "an empty `{old}` had no `{payload}`; the empty `{new}` in its place counts as one that has"
            ),
            Some(format!(
                "where somebody asks whether there is one, hold an `Option<{new}>`"
            )),
            false,
        )
    }

    /// Why a question or an accessor stays where it does, and what to write.
    fn kept_question(
        &self,
        expr: &Expr,
        recv: &Expr,
        method: &str,
        rule: &crate::rewrite::EnumRule,
    ) -> (String, String) {
        let asked = self.src(recv.span);
        match rule.spec.always.get(method) {
            Some(answer) if !self.ends_here(expr) => (
                format!("`{asked}` lives on while the rest of the statement is done"),
                format!("bind it by a `let` in front, and write `{answer}` for the question"),
            ),
            _ => (
                format!("what `{method}()` comes to here could not be told"),
                format!("`{asked}` is the buffer itself now"),
            ),
        }
    }

    /// Why the payload's field stays where it does, and what to write.
    fn kept_payload(
        &self,
        expr: &Expr,
        base: &Expr,
        rule: &crate::rewrite::WrapperRule,
    ) -> (String, String) {
        let field = &rule.spec.payload;
        let new = &self.world.defs[rule.becomes].name;
        let place = self.src(base.span);
        let cannot = format!("a `{new}` cannot be empty");
        let done = match self.nodes.outer(expr).map(|outer| &outer.kind) {
            Some(ExprKind::Assign { lhs, .. }) if lhs.id == expr.id => "is set",
            Some(ExprKind::MethodCall { method, .. }) => match method.text.as_str() {
                "take" | "take_if" => "is emptied here and looked at again",
                "replace" | "insert" | "get_or_insert" | "get_or_insert_with" => "is filled",
                _ => "may be empty here, as it is taken or set elsewhere",
            },
            Some(ExprKind::Ref { mutable: true, .. }) => "is lent to be changed",
            _ => "is wanted as an option",
        };
        (
            format!("`{field}` {done}; {cannot}"),
            format!(
                "where it may be empty, hold an `Option<{new}>`; where it is only read, use `{place}` itself"
            ),
        )
    }

    /// Whether the type has a field of this name that can be named here.
    pub(crate) fn sees_field(&self, ty: &Type, name: &str, expr: &Expr) -> bool {
        let Some(hit) = self.world.field(ty, name) else {
            return false;
        };
        let Some(def) = self.world.defs.get(hit.owner) else {
            return true;
        };
        let module = self
            .an
            .function_of
            .get(&expr.id)
            .and_then(|&at| self.an.functions.get(at))
            .map(|function| function.module);
        !def.private_fields.contains(&name.to_owned())
            || module.is_some_and(|module| self.world.is_descendant(module, def.module))
    }

    pub(crate) fn is_type(&self, ty: &Type, def: usize) -> bool {
        self.world
            .autoderef(ty)
            .iter()
            .any(|step| matches!(step, Type::Adt(found, _) if *found == def))
    }

    fn rule_of_name(&self, name: &str) -> String {
        for rule in &self.rules.wrappers {
            if rule.spec.payload == name {
                return rule.spec.rule.clone();
            }
        }
        self.rules
            .enums
            .iter()
            .find(|rule| rule.spec.some.contains_key(name) || rule.spec.always.contains_key(name))
            .map_or(String::new(), |rule| rule.spec.rule.clone())
    }

    /// A function, variant or item without a counterpart, as a value.
    fn value_path_leftover(&self, path: &crate::syntax::Path) -> Option<Leftover> {
        let found = self.an.path(path)?;
        if self.rules.deleted_mods.contains_key(&found.module) {
            return None;
        }
        if let Res::Variant(def, at) = found.res
            && let Some(rule) = self.rules.enums.iter().find(|rule| rule.def == def)
        {
            if at == rule.survivor {
                return Some(self.leftover(
                    path.span,
                    &rule.spec.rule,
                    "the variant is used as a function in a place that is not known",
                    Some("pass the value itself".into()),
                    false,
                ));
            }
            let DefKind::Enum { variants, .. } = &self.world.defs[def].kind else {
                return None;
            };
            let hint = rule.spec.gone.values().next().cloned();
            return Some(self.leftover(
                path.span,
                &rule.spec.rule,
                format!(
                    "variant `{}` is gone, with the buffer that it held",
                    variants[at].name
                ),
                hint,
                true,
            ));
        }
        let retired = self.retired_path(path);
        if let Some(retired) = &retired
            && path.segs.len() == found.taken + 1
        {
            let name = &path.last().name.text;
            let (gone, unwrap) = match retired {
                Retired::Enum(rule) => (&rule.spec.gone, &rule.spec.unwrap),
                Retired::Wrapper(rule) => (&rule.spec.gone, &rule.spec.unwrap),
            };
            if let Some(hint) = gone.get(name) {
                return Some(self.leftover(
                    path.span,
                    retired.rule(),
                    format!("`{name}` makes something that is gone"),
                    Some(hint.clone()),
                    true,
                ));
            }
            if self.method_value(path).is_some() {
                let reason = format!("`{name}` is used as a function in a place that is not known");
                let always = match retired {
                    Retired::Enum(rule) => rule.spec.always.get(name),
                    Retired::Wrapper(rule) => rule.spec.always.get(name),
                };
                let hint = match always {
                    Some(value) => format!("write `|_| {value}`"),
                    None => "write a closure that gives the value itself".into(),
                };
                return Some(self.leftover(path.span, retired.rule(), reason, Some(hint), false));
            }
            if unwrap.contains(name) {
                return Some(self.leftover(
                    path.span,
                    retired.rule(),
                    format!("`{name}` is used as a function in a place that is not known"),
                    Some("pass the value itself".into()),
                    false,
                ));
            }
            return None;
        }
        self.deleted_path(path)
    }

    /// A path to an item of a deleted module.
    fn deleted_path(&self, path: &crate::syntax::Path) -> Option<Leftover> {
        let found = self.an.path(path)?;
        if self.rules.deleted_mods.contains_key(&found.module) {
            return None;
        }
        let (def, rule) = match self.world.unalias(found.res.clone()) {
            Res::Def(def) => (def, self.rules.deleted_defs.get(&def)?),
            Res::Variant(def, _) => (def, self.rules.deleted_defs.get(&def)?),
            _ => return None,
        };
        let name = &self.world.defs[def].name;
        let hint = self.rules.suggest.get(name).cloned();
        Some(self.leftover(
            path.span,
            rule,
            format!("`{name}` is gone with its module"),
            hint,
            true,
        ))
    }

    // --- patterns

    fn pattern_leftovers(&self, out: &mut Vec<Leftover>) {
        let mut paths: Vec<&crate::analysis::PathUse> = self
            .an
            .paths
            .values()
            .filter(|found| found.role == PathRole::Pattern)
            .collect();
        paths.sort_by_key(|found| found.path.span.lo);
        for found in paths {
            if self.rules.deleted_mods.contains_key(&found.module) {
                continue;
            }
            if let Res::Variant(def, _) = found.res
                && let Some(rule) = self.rules.enums.iter().find(|rule| rule.def == def)
            {
                let (reason, hint) = if self.is_held_for_its_type(found.path.span) {
                    UNTYPED
                } else {
                    (
                        "a pattern of an enum that is gone could not be collapsed",
                        "match on the value itself",
                    )
                };
                out.push(self.leftover(
                    found.path.span,
                    &rule.spec.rule,
                    reason,
                    Some(hint.into()),
                    false,
                ));
            } else if let Some(Retired::Wrapper(rule)) = self.retired_path(&found.path) {
                let fields = self.text[found.path.span.hi..]
                    .split('}')
                    .next()
                    .unwrap_or("");
                // `weights: _` takes nothing.
                let takes = |name: &str| {
                    fields.split(',').map(str::trim).any(|field| {
                        let (field, pat) = field.split_once(':').unwrap_or((field, ""));
                        let field = field.rsplit(['{', ' ']).next().unwrap_or_default();
                        field == name && pat.trim() != "_"
                    })
                };
                let gone = rule.spec.gone.iter().find(|(name, _)| takes(name));
                let name = &found.path.last().name.text;
                let (reason, hint) = match gone {
                    Some((_, hint)) => (
                        format!("`{name}` is taken apart into fields that are gone"),
                        hint.clone(),
                    ),
                    None => (
                        format!(
                            "`{}` is taken out of `{name}` and used in a way that is not an option's",
                            rule.spec.payload
                        ),
                        "use the value itself".to_owned(),
                    ),
                };
                out.push(self.leftover(
                    found.path.span,
                    &rule.spec.rule,
                    reason,
                    Some(hint),
                    gone.is_some(),
                ));
            }
        }
    }

    // --- types and bounds

    fn path_leftovers(&self, out: &mut Vec<Leftover>) {
        let mut paths: Vec<&crate::analysis::PathUse> = self.an.paths.values().collect();
        paths.sort_by_key(|found| found.path.span.lo);
        let names: HashSet<&str> = self
            .rules
            .retired_types()
            .map(|retired| self.world.defs[retired.def()].name.as_str())
            .collect();
        for found in paths {
            if self.rules.deleted_mods.contains_key(&found.module) {
                continue;
            }
            if matches!(found.role, PathRole::Type | PathRole::Bound)
                && let Some(leftover) = self.deleted_path(&found.path)
            {
                out.push(leftover);
                continue;
            }
            // A retired name that leads nowhere certain.
            let last = found
                .path
                .segs
                .iter()
                .any(|seg| names.contains(seg.name.text.as_str()));
            if last
                && matches!(found.res, Res::Unknown | Res::Ambiguous)
                && found.path.qself.is_none()
            {
                let why = if found.res == Res::Ambiguous {
                    "means different things under different `cfg`s"
                } else {
                    "cannot be resolved"
                };
                let name = found
                    .path
                    .segs
                    .iter()
                    .find(|seg| names.contains(seg.name.text.as_str()))
                    .map_or("", |seg| seg.name.text.as_str());
                let rule = self.rule_named(name);
                out.push(self.leftover(
                    found.path.span,
                    &rule,
                    format!("`{name}` {why} here"),
                    None,
                    false,
                ));
            }
        }
    }

    fn rule_named(&self, name: &str) -> String {
        self.retired_named(name)
            .map_or(String::new(), |retired| retired.rule().to_owned())
    }

    fn retired_named(&self, name: &str) -> Option<Retired<'_>> {
        self.rules
            .retired_types()
            .find(|retired| self.world.defs[retired.def()].name == name)
    }

    // --- macros and attributes

    pub fn unread_spans(&self) -> Vec<Span> {
        self.unread().into_iter().map(|(span, _)| span).collect()
    }

    /// Stretches of tokens that nobody parsed, each with words for where it is.
    fn unread(&self) -> Vec<(Span, String)> {
        let mut opaque: Vec<(Span, String)> = Vec::new();
        for expr in &self.nodes.exprs {
            if let ExprKind::Macro(mac) = &expr.kind
                && matches!(mac.args, MacroArgs::Opaque)
                && !matches!(
                    mac.path.last().name.text.as_str(),
                    "stringify"
                        | "concat"
                        | "include_str"
                        | "include_bytes"
                        | "env"
                        | "line"
                        | "file"
                        | "module_path"
                )
            {
                opaque.push((
                    mac.inner,
                    format!(
                        "in the arguments of `{}!`, which this tool cannot read",
                        mac.path.last().name.text
                    ),
                ));
            }
        }
        for (item, _) in &self.nodes.items {
            match &item.kind {
                ItemKind::MacroRules { body } => {
                    opaque.push((*body, "in the body of a `macro_rules!`".into()))
                }
                ItemKind::MacroCall(mac) if mac.path.last().name.text != "include" => {
                    opaque.push((
                        mac.inner,
                        format!(
                            "in the arguments of `{}!`, which this tool cannot read",
                            mac.path.last().name.text
                        ),
                    ));
                }
                ItemKind::Other => {
                    opaque.push((item.span, "in syntax that the parser does not know".into()))
                }
                _ => {}
            }
        }
        opaque
    }

    /// Retired names among tokens that nobody parsed.
    fn token_leftovers(&self, out: &mut Vec<Leftover>) {
        let names: HashSet<&str> = self
            .rules
            .retired_types()
            .map(|retired| retired.def())
            .chain(self.rules.deleted_defs.keys().copied())
            .map(|def| self.world.defs[def].name.as_str())
            .collect();
        let opaque = self.unread();
        // Names of imports decide whether a name in a macro may be ours; the distinctive ones stand for themselves.
        for (span, place) in opaque {
            let found: Vec<&crate::syntax::Name> = self
                .file
                .idents
                .iter()
                .filter(|ident| span.contains(ident.span))
                .collect();
            let mut lines: HashSet<usize> = HashSet::new();
            for ident in found {
                let text = ident.text.as_str();
                let retired = names.contains(text) && self.may_mean_ours(text, ident.span);
                let distinctive = self.rules.is_distinctive(text);
                let alias = !names.contains(text) && self.alias_is_ours(text);
                if !(retired || distinctive || alias) {
                    continue;
                }
                let line = crate::syntax::trivia::line_start(self.text, ident.span.lo);
                if !lines.insert(line) {
                    continue;
                }
                let rule = if alias {
                    self.rule_of_alias(text)
                } else if distinctive {
                    self.rule_of_name(text)
                } else {
                    self.rule_named(text)
                };
                let rule = if rule.is_empty() {
                    self.rules
                        .deleted_mods
                        .values()
                        .next()
                        .cloned()
                        .unwrap_or_default()
                } else {
                    rule
                };
                // The line of the site, not the whole macro.
                out.push(self.leftover(
                    ident.span,
                    &rule,
                    format!("`{text}` stands {place}"),
                    Some(self.macro_hint(text, ident.span)),
                    false,
                ));
            }
        }
        // Paths in attribute strings.
        for (item, _) in &self.nodes.items {
            for attr in item
                .attrs
                .iter()
                .filter(|attr| !attr.is_doc && attr.path != "doc")
            {
                for name in &names {
                    let Some(at) = self.src(attr.span).find(name) else {
                        continue;
                    };
                    let span = Span::new(attr.span.lo + at, attr.span.lo + at + name.len());
                    let quoted = self.src(attr.span)[..at].matches('"').count() % 2 == 1;
                    if quoted && self.may_mean_ours(name, span) {
                        let rule = self.rule_named(name);
                        out.push(self.leftover(
                            span,
                            &rule,
                            format!("`{name}` stands in an attribute's string"),
                            Some(self.macro_hint(name, span)),
                            false,
                        ));
                    }
                }
            }
        }
    }

    /// What to write for a name in tokens that stay as they are. What follows it counts: of `Type::Variant` and
    /// `Type::function` the second part has no counterpart, or another name.
    fn macro_hint(&self, name: &str, at: Span) -> String {
        if let Some(retired) = self.retired_named(name) {
            let now = &self.world.defs[retired.becomes()].name;
            let next = segment_behind(&self.text[at.hi..]);
            if let (Retired::Enum(rule), Some(next)) = (retired, next) {
                let spec = &rule.spec;
                if next == spec.survivor {
                    return format!("write it for a `{now}`, which is what `{next}` held");
                }
                if let Some(new) = spec.rename.get(next) {
                    return format!("write `{now}::{new}`");
                }
                if let Some(instead) = spec.gone.get(next) {
                    return instead.clone();
                }
                if next.starts_with(char::is_uppercase) {
                    return format!("take out what is written for `{next}`, which is gone");
                }
            }
            return format!("write `{now}`");
        }
        if self
            .rules
            .wrappers
            .iter()
            .any(|rule| rule.spec.payload == name)
        {
            return "the batch is the payload itself now".into();
        }
        self.rules
            .suggest
            .get(name)
            .cloned()
            .unwrap_or_else(|| "rewrite it by hand".into())
    }

    /// Whether a bare name, where it stands, is one of ours or may be: not if it is known to be something else.
    fn may_mean_ours(&self, name: &str, at: Span) -> bool {
        let module = self
            .an
            .functions
            .iter()
            .filter(|f| f.span.contains(at))
            .max_by_key(|f| f.span.lo)
            .map(|f| f.module)
            .or(self.root_module());
        let Some(module) = module else { return true };
        match self.world.unalias(self.world.name_in(
            module,
            name,
            crate::world::Ns::Type,
            Some(module),
        )) {
            Res::Def(def) => {
                self.rules.retired_def(def).is_some() || self.rules.deleted_defs.contains_key(&def)
            }
            Res::Unknown | Res::Ambiguous => {
                // A path before it may say what it is: `other::Name`.
                let before = self.text[..at.lo].trim_end();
                match before.strip_suffix("::") {
                    Some(head) => {
                        let start = head
                            .rfind(|c: char| {
                                !(c.is_alphanumeric() || c == '_' || c == ':' || c == '$')
                            })
                            .map_or(0, |n| n + 1);
                        let path: Vec<&str> = head[start..]
                            .split("::")
                            .filter(|part| !part.is_empty())
                            .collect();
                        let path: Vec<&str> = path
                            .into_iter()
                            .map(|part| if part == "$crate" { "crate" } else { part })
                            .chain([name])
                            .collect();
                        let scope = crate::world::Scope {
                            module,
                            blocks: &[],
                            params: &[],
                        };
                        match self
                            .world
                            .resolve(scope, false, &path, crate::world::Ns::Type)
                        {
                            (Res::Def(def), _) => {
                                self.rules.retired_def(def).is_some()
                                    || self.rules.deleted_defs.contains_key(&def)
                            }
                            (Res::Unknown | Res::Ambiguous, _) => true,
                            _ => false,
                        }
                    }
                    None => true,
                }
            }
            _ => false,
        }
    }

    fn rule_of_alias(&self, name: &str) -> String {
        let found = self.root_module().map(|module| {
            self.world.unalias(self.world.name_in(
                module,
                name,
                crate::world::Ns::Type,
                Some(module),
            ))
        });
        match found {
            Some(Res::Def(def)) => self
                .rules
                .retired_def(def)
                .map_or(String::new(), |retired| retired.rule().to_owned()),
            _ => String::new(),
        }
    }

    fn alias_is_ours(&self, name: &str) -> bool {
        let Some(module) = self.root_module() else {
            return false;
        };
        if !self.world.mods[module].entries.contains_key(name) {
            return false;
        }
        match self.world.unalias(self.world.name_in(
            module,
            name,
            crate::world::Ns::Type,
            Some(module),
        )) {
            Res::Def(def) => self.rules.retired_def(def).is_some(),
            _ => false,
        }
    }

    fn root_module(&self) -> Option<usize> {
        self.an
            .functions
            .first()
            .map(|f| f.module)
            .or_else(|| self.an.paths.values().next().map(|found| found.module))
    }
}

/// Whether a pattern binds anything.
pub fn binds(pat: &Pat) -> bool {
    match &pat.kind {
        PatKind::Ident { .. } => true,
        PatKind::TupleStruct { elems, .. }
        | PatKind::Tuple(elems)
        | PatKind::Slice(elems)
        | PatKind::Or(elems) => elems.iter().any(binds),
        PatKind::Struct { fields, .. } => fields.iter().any(|field| binds(&field.pat)),
        PatKind::Ref { inner, .. } | PatKind::Paren(inner) | PatKind::Type { inner, .. } => {
            binds(inner)
        }
        _ => false,
    }
}

/// Whether a type is unknown on its surface.
pub fn is_unknown(ty: &Type) -> bool {
    !ty.peeled().is_known()
}
/// The next segment of a path, where one follows: `b` in `::b(c)`.
fn segment_behind(after: &str) -> Option<&str> {
    let rest = after.trim_start().strip_prefix("::")?.trim_start();
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}
