//! Patterns once a variant is all that an enum has left, and an option always `Some`.

use super::known::{Mode, Payload, Red};
use super::*;
use crate::analysis::{LocalId, PathRole};
use crate::syntax::{Pat, PatKind, Path};
use crate::world::Res;

/// What is matched.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A value, and what a binding of it would stand for.
    Plain(Payload),
    /// An option that is known to be `Some` of this.
    Known(Payload),
    /// A result that is known to be `Ok` of this.
    Fine(Payload),
    Tuple(Vec<Subject>),
}

/// A name that a pattern binds, and what it stands for, if that is known.
#[derive(Debug, Clone)]
pub struct Bound {
    pub local: LocalId,
    pub payload: Option<Payload>,
    /// The name held an option before; it cannot be replaced where it is used.
    pub retyped: bool,
    pub mutable: bool,
}

#[derive(Debug, Clone)]
pub enum Kind {
    /// Matches nothing that is left.
    Never,
    /// Matches everything, binding these.
    Always(Vec<Bound>),
    Sometimes,
    /// Takes something that has no counterpart.
    Blocked,
}

#[derive(Debug, Clone)]
pub struct PatOut {
    pub kind: Kind,
    pub text: String,
    /// The text is not what it was, or matching it changed.
    pub changed: bool,
    pub rule: Option<String>,
}

impl PatOut {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        PatOut {
            kind,
            text: text.into(),
            changed: false,
            rule: None,
        }
    }

    fn by(mut self, rule: &str) -> Self {
        self.changed = true;
        self.rule.get_or_insert(rule.to_owned());
        self
    }
}

impl<'a> Cx<'a> {
    pub fn subject(&self, expr: &'a Expr) -> Subject {
        match &expr.kind {
            ExprKind::Paren(inner) => return self.subject(inner),
            ExprKind::Tuple(exprs) if !exprs.is_empty() => {
                return Subject::Tuple(exprs.iter().map(|expr| self.subject(expr)).collect());
            }
            _ => {}
        }
        match self.eval(expr) {
            Some(Red::Some(payload)) => return Subject::Known(payload),
            Some(Red::SomeCode(code, rule)) => {
                return Subject::Known(self.computed(expr, code, rule));
            }
            Some(Red::Ok(payload)) => return Subject::Fine(payload),
            Some(Red::OkCode(code, rule)) => return Subject::Fine(self.computed(expr, code, rule)),
            _ => {}
        }
        Subject::Plain(self.subject_payload(expr, ""))
    }

    /// A payload that has no place: what `expr` computes.
    fn computed(&self, expr: &Expr, code: known::Code, rule: String) -> Payload {
        let effects = !self.is_pure(expr);
        Payload {
            full: code.clone(),
            base: code,
            ty: Type::Unknown,
            mode: Mode::Place,
            cheap: false,
            place: false,
            effects,
            root: None,
            root_name: None,
            span: expr.span,
            expr: None,
            rule,
            taken: false,
        }
    }

    /// A payload for the expression as it is matched: by reference where it is one.
    pub fn subject_payload(&self, expr: &'a Expr, rule: &str) -> Payload {
        let mode = match (&expr.kind, self.an.ty(expr)) {
            (ExprKind::Ref { mutable: false, .. }, _) | (_, Type::Ref(false, _)) => Mode::Ref,
            (ExprKind::Ref { mutable: true, .. }, _) | (_, Type::Ref(true, _)) => Mode::Mut,
            _ => Mode::Place,
        };
        self.payload(expr, mode, rule)
    }

    /// A pattern against what it is matched with.
    pub fn pat(&self, pat: &'a Pat, subject: Option<&Subject>) -> PatOut {
        let text = self.src(pat.span);
        match &pat.kind {
            PatKind::Wild | PatKind::Rest => PatOut::new(Kind::Always(vec![]), text),
            PatKind::Ident {
                name,
                by_ref,
                mutable,
                sub,
            } => {
                if let Some(found) =
                    self.an.paths.get(&name.span.lo).filter(|found| {
                        found.role == PathRole::Pattern && found.path.span == name.span
                    })
                {
                    return self.path_pat(&found.path.clone(), &[], text, subject);
                }
                let Some(&local) = self.an.bound_at.get(&name.span.lo) else {
                    return PatOut::new(Kind::Sometimes, text);
                };
                let payload = match subject {
                    Some(Subject::Plain(payload)) => {
                        Some(self.bound_payload(payload, *by_ref, *mutable))
                    }
                    // The option itself is wanted.
                    Some(Subject::Known(_) | Subject::Fine(_)) if sub.is_none() => {
                        return PatOut::new(Kind::Blocked, text);
                    }
                    _ => None,
                };
                let own = Bound {
                    local,
                    payload,
                    retyped: false,
                    mutable: *mutable && !*by_ref,
                };
                match sub {
                    None => PatOut::new(Kind::Always(vec![own]), text),
                    Some(sub) => {
                        let inner = self.pat(sub, subject);
                        let PatOut {
                            kind,
                            text: inner_text,
                            changed,
                            rule,
                        } = inner;
                        let head = self.src(Span::new(pat.span.lo, name.span.hi));
                        let (kind, text) = match kind {
                            Kind::Always(mut bound) => {
                                let text = if inner_text == "_" {
                                    head.to_owned()
                                } else {
                                    format!("{head} @ {inner_text}")
                                };
                                bound.insert(0, own);
                                (Kind::Always(bound), text)
                            }
                            kind => (kind, format!("{head} @ {inner_text}")),
                        };
                        PatOut {
                            kind,
                            text,
                            changed,
                            rule,
                        }
                    }
                }
            }
            PatKind::Path(path) => self.path_pat(path, &[], text, subject),
            PatKind::TupleStruct { path, elems } => self.path_pat(path, elems, text, subject),
            // `Variant { .. }` and `Variant { 0: name }`.
            PatKind::Struct { path, fields, .. } if self.is_enums_variant(path) => {
                let elems: Option<&'a [Pat]> = match &fields[..] {
                    [] => Some(&[]),
                    [only] if only.name.text == "0" => Some(std::slice::from_ref(&only.pat)),
                    _ => None,
                };
                match elems {
                    Some(elems) => self.path_pat(path, elems, text, subject),
                    None => PatOut::new(Kind::Blocked, text),
                }
            }
            PatKind::Struct { path, fields, .. } => {
                let own = match self.struct_rule(path) {
                    Some(rule) => rule,
                    None => {
                        let outs: Vec<(Span, PatOut)> = fields
                            .iter()
                            .map(|field| (field.pat.span, self.pat(&field.pat, None)))
                            .collect();
                        return self.rebuild(pat, outs, self.is_struct(path));
                    }
                };
                let mut out = PatOut::new(Kind::Always(vec![]), "_").by(&own.spec.rule);
                // What cannot match takes nothing apart.
                if let Some(field) = fields
                    .iter()
                    .find(|field| field.name.text == own.spec.payload)
                    && matches!(self.payload_pat(&field.pat, None).kind, Kind::Never)
                {
                    return PatOut::new(Kind::Never, text).by(&own.spec.rule);
                }
                for field in fields {
                    if field.name.text == own.spec.payload {
                        let payload = match subject {
                            Some(Subject::Plain(payload)) => Some(Payload {
                                rule: own.spec.rule.clone(),
                                ..payload.clone()
                            }),
                            _ => None,
                        };
                        out = self.payload_pat(&field.pat, payload).by(&own.spec.rule);
                    } else if own.spec.gone.contains_key(&field.name.text)
                        && !matches!(field.pat.kind, PatKind::Wild)
                        && self.is_used(&field.pat)
                    {
                        return PatOut::new(Kind::Blocked, text);
                    }
                }
                out
            }
            PatKind::Tuple(elems) => {
                let parts = match subject {
                    Some(Subject::Tuple(parts)) if parts.len() == elems.len() => Some(parts),
                    _ => None,
                };
                let outs: Vec<(Span, PatOut)> = elems
                    .iter()
                    .enumerate()
                    .map(|(at, elem)| (elem.span, self.pat(elem, parts.map(|parts| &parts[at]))))
                    .collect();
                self.rebuild(pat, outs, true)
            }
            PatKind::Slice(elems) => {
                let outs = elems
                    .iter()
                    .map(|elem| (elem.span, self.pat(elem, None)))
                    .collect();
                self.rebuild(pat, outs, false)
            }
            PatKind::Ref { inner, .. } => {
                let through = match subject {
                    Some(Subject::Plain(payload)) if matches!(payload.ty, Type::Ref(..)) => {
                        Some(Subject::Plain(Payload {
                            mode: Mode::Place,
                            ..payload.clone()
                        }))
                    }
                    _ => None,
                };
                let outs = vec![(inner.span, self.pat(inner, through.as_ref()))];
                let mut out = self.rebuild(pat, outs, true);
                if out.text.ends_with("&_") {
                    out.text = "_".into();
                }
                out
            }
            PatKind::Or(cases) => self.or_pat(pat, cases, subject),
            PatKind::Paren(inner) => {
                let out = self.pat(inner, subject);
                if out.changed {
                    out
                } else {
                    PatOut {
                        text: text.to_owned(),
                        ..out
                    }
                }
            }
            PatKind::Type { inner, .. } => {
                let outs = vec![(inner.span, self.pat(inner, subject))];
                self.rebuild(pat, outs, true)
            }
            PatKind::Lit | PatKind::Range | PatKind::Macro(_) | PatKind::Other => {
                PatOut::new(Kind::Sometimes, text)
            }
        }
    }

    fn bound_payload(&self, payload: &Payload, by_ref: bool, mutable: bool) -> Payload {
        let mut payload = payload.clone();
        if by_ref {
            payload.mode = if mutable { Mode::Mut } else { Mode::Ref };
        }
        payload
    }

    /// Whether a field that is taken out is then read at all.
    fn is_used(&self, pat: &Pat) -> bool {
        match &pat.kind {
            PatKind::Ident { name, .. } => self
                .an
                .bound_at
                .get(&name.span.lo)
                .is_none_or(|&local| !self.an.locals[local].uses.is_empty()),
            _ => true,
        }
    }

    /// The wrapper that a struct pattern takes apart.
    fn struct_rule(&self, path: &Path) -> Option<&'a WrapperRule> {
        match self.retired_path(path)? {
            Retired::Wrapper(rule) => Some(rule),
            Retired::Enum(_) => None,
        }
    }

    /// Whether a use only asks an option for what is in it; handed on, it has to stay one.
    fn asks_an_option(&self, used: Option<crate::syntax::ExprId>) -> bool {
        let Some(expr) = used.and_then(|id| self.nodes.by_id.get(&id)) else {
            return false;
        };
        match self.nodes.parent(expr) {
            Some(Parent::Expr(outer)) => match &outer.kind {
                ExprKind::Paren(_) | ExprKind::Ref { .. } => self.asks_an_option(Some(outer.id)),
                ExprKind::MethodCall { recv, method, .. } => {
                    recv.id == expr.id && known::OPTION_METHODS.contains(&method.text.as_str())
                }
                ExprKind::Match { scrutinee, .. } => scrutinee.id == expr.id,
                ExprKind::Let { .. } | ExprKind::Try(_) => true,
                ExprKind::Macro(mac) => {
                    matches!(mac.args, crate::syntax::MacroArgs::Matches { .. })
                }
                _ => false,
            },
            // `let Some(gpu) = gpu_batch else { … }`
            Some(Parent::Init { stmt, .. }) => {
                !matches!(&stmt.kind, crate::syntax::StmtKind::Let { pat, .. }
                if matches!(pat.kind, PatKind::Ident { .. }))
            }
            _ => false,
        }
    }

    /// What stands for the wrapper's payload field: `Some(g)`, `g`, `None`.
    fn payload_pat(&self, pat: &'a Pat, payload: Option<Payload>) -> PatOut {
        match &pat.kind {
            PatKind::Ident {
                name,
                by_ref,
                mutable,
                sub: None,
            } if !self.an.paths.contains_key(&name.span.lo) => {
                let Some(&local) = self.an.bound_at.get(&name.span.lo) else {
                    return PatOut::new(Kind::Blocked, "");
                };
                let uses = &self.an.locals[local].uses;
                if !uses.iter().all(|at| self.asks_an_option(at.expr)) {
                    return PatOut::new(Kind::Blocked, "");
                }
                let text = if *by_ref {
                    format!("ref {}", name.text)
                } else {
                    self.src(pat.span).to_owned()
                };
                PatOut::new(
                    Kind::Always(vec![Bound {
                        local,
                        payload,
                        retyped: true,
                        mutable: *mutable,
                    }]),
                    text,
                )
            }
            _ => match payload {
                Some(payload) => self.pat(pat, Some(&Subject::Known(payload))),
                None => self.known_pat(pat),
            },
        }
    }

    /// A pattern against an option that is known to be `Some` of something that has no name here.
    fn known_pat(&self, pat: &'a Pat) -> PatOut {
        let text = self.src(pat.span);
        match &pat.kind {
            PatKind::TupleStruct { path, elems }
                if elems.len() == 1 && self.is_option_variant(path, 1) =>
            {
                self.pat(&elems[0], None)
            }
            PatKind::Ident { name, .. } if self.an.paths.contains_key(&name.span.lo) => {
                PatOut::new(Kind::Never, text)
            }
            PatKind::Path(path) if self.is_option_variant(path, 0) => {
                PatOut::new(Kind::Never, text)
            }
            PatKind::Wild => PatOut::new(Kind::Always(vec![]), "_"),
            PatKind::Ref { inner, .. } | PatKind::Paren(inner) => self.known_pat(inner),
            _ => PatOut::new(Kind::Blocked, text),
        }
    }

    fn is_option_variant(&self, path: &Path, at: usize) -> bool {
        self.an.path(path).is_some_and(|found| match found.res {
            Res::Variant(def, n) => {
                n == at && Some(def) == self.world.canonical("std::option::Option")
            }
            _ => false,
        })
    }

    /// Whether a path names a variant of an enum that is gone.
    fn is_enums_variant(&self, path: &Path) -> bool {
        self.an.path(path).is_some_and(|found| match found.res {
            Res::Variant(def, _) => self.rules.enums.iter().any(|rule| rule.def == def),
            _ => false,
        })
    }

    fn path_pat(
        &self,
        path: &Path,
        elems: &'a [Pat],
        text: &str,
        subject: Option<&Subject>,
    ) -> PatOut {
        let res = self
            .an
            .path(path)
            .map_or(Res::Unknown, |found| found.res.clone());
        if let Res::Variant(def, at) = res {
            if let Some(rule) = self.rules.enums.iter().find(|rule| rule.def == def) {
                if at != rule.survivor {
                    return PatOut::new(Kind::Never, text).by(&rule.spec.rule);
                }
                let subject = match subject {
                    Some(Subject::Plain(payload)) => Some(Subject::Plain(Payload {
                        rule: rule.spec.rule.clone(),
                        ..payload.clone()
                    })),
                    _ => None,
                };
                return match elems {
                    [only] if !matches!(only.kind, PatKind::Rest) => {
                        self.pat(only, subject.as_ref())
                    }
                    _ => PatOut::new(Kind::Always(vec![]), "_"),
                }
                .by(&rule.spec.rule);
            }
            if let Some(Subject::Fine(payload)) = subject
                && Some(def) == self.world.canonical("std::result::Result")
            {
                let rule = payload.rule.clone();
                return match elems {
                    _ if at != 0 => PatOut::new(Kind::Never, text).by(&rule),
                    [only] if !matches!(only.kind, PatKind::Rest) => self
                        .pat(only, Some(&Subject::Plain(payload.clone())))
                        .by(&rule),
                    _ => PatOut::new(Kind::Always(vec![]), "_").by(&rule),
                };
            }
            if Some(def) == self.world.canonical("std::option::Option") {
                // A value of the new type in an old option's place counts as known too.
                let known = match subject {
                    Some(Subject::Known(payload)) => Some(payload.clone()),
                    Some(Subject::Plain(payload)) => {
                        self.retired(&payload.ty).map(|retired| Payload {
                            rule: retired.rule().to_owned(),
                            ..payload.clone()
                        })
                    }
                    _ => None,
                };
                if let Some(payload) = known {
                    let rule = payload.rule.clone();
                    return match elems {
                        [] => PatOut::new(Kind::Never, text).by(&rule),
                        [only] if !matches!(only.kind, PatKind::Rest) => {
                            let mut payload = payload;
                            if payload.mode == Mode::Place && matches!(payload.ty, Type::Ref(..)) {
                                payload.mode = Mode::Place;
                            }
                            self.pat(only, Some(&Subject::Plain(payload))).by(&rule)
                        }
                        _ => PatOut::new(Kind::Always(vec![]), "_").by(&rule),
                    };
                }
            }
        }
        if elems.is_empty() {
            return PatOut::new(Kind::Sometimes, text);
        }
        let outs: Vec<(Span, PatOut)> = elems
            .iter()
            .map(|elem| (elem.span, self.pat(elem, None)))
            .collect();
        let whole = Span::new(path.span.lo, path.span.lo + text.len());
        self.rebuild_span(whole, outs, self.is_struct(path))
    }

    /// A struct's pattern matches whenever its parts do.
    fn is_struct(&self, path: &Path) -> bool {
        match self
            .an
            .path(path)
            .map(|found| self.world.unalias(found.res.clone()))
        {
            Some(Res::Def(def)) => matches!(
                self.world.defs[def].kind,
                crate::world::DefKind::Struct { .. }
            ),
            Some(Res::SelfTy) => path.segs.len() == 1,
            _ => false,
        }
    }

    fn or_pat(&self, pat: &'a Pat, cases: &'a [Pat], subject: Option<&Subject>) -> PatOut {
        let outs: Vec<PatOut> = cases.iter().map(|case| self.pat(case, subject)).collect();
        let rule = outs.iter().find_map(|out| out.rule.clone());
        let changed = outs.iter().any(|out| out.changed);
        if outs.iter().any(|out| matches!(out.kind, Kind::Blocked)) {
            return PatOut {
                kind: Kind::Blocked,
                text: String::new(),
                changed,
                rule,
            };
        }
        if !changed {
            return PatOut::new(Kind::Sometimes, self.src(pat.span));
        }
        let mut live: Vec<PatOut> = outs
            .into_iter()
            .filter(|out| !matches!(out.kind, Kind::Never))
            .collect();
        if let Some(at) = live
            .iter()
            .position(|out| matches!(out.kind, Kind::Always(_)))
        {
            let only = live.swap_remove(at);
            return PatOut {
                changed,
                rule,
                ..only
            };
        }
        match live.len() {
            0 => PatOut {
                kind: Kind::Never,
                text: self.src(pat.span).to_owned(),
                changed,
                rule,
            },
            1 => PatOut {
                changed,
                rule,
                ..live.remove(0)
            },
            _ => {
                let text = live
                    .iter()
                    .map(|out| out.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" | ");
                PatOut {
                    kind: Kind::Sometimes,
                    text,
                    changed,
                    rule,
                }
            }
        }
    }

    fn rebuild(&self, pat: &Pat, parts: Vec<(Span, PatOut)>, total: bool) -> PatOut {
        self.rebuild_span(pat.span, parts, total)
    }

    /// A pattern put together again from its parts. `total`: it matches whenever its parts do.
    fn rebuild_span(&self, span: Span, parts: Vec<(Span, PatOut)>, total: bool) -> PatOut {
        let changed = parts.iter().any(|(_, out)| out.changed);
        let rule = parts.iter().find_map(|(_, out)| out.rule.clone());
        let mut text = String::new();
        let mut at = span.lo;
        let mut kind = if total {
            Kind::Always(vec![])
        } else {
            Kind::Sometimes
        };
        for (part, out) in &parts {
            text.push_str(&self.text[at..part.lo]);
            text.push_str(&out.text);
            at = part.hi;
            kind = match (kind, &out.kind) {
                (_, Kind::Blocked) | (Kind::Blocked, _) => Kind::Blocked,
                (_, Kind::Never) | (Kind::Never, _) => Kind::Never,
                (Kind::Always(mut bound), Kind::Always(more)) => {
                    bound.extend(more.iter().cloned());
                    Kind::Always(bound)
                }
                _ => Kind::Sometimes,
            };
        }
        text.push_str(&self.text[at..span.hi]);
        PatOut {
            kind,
            text: if changed {
                text
            } else {
                self.src(span).to_owned()
            },
            changed,
            rule,
        }
    }

    /// A pattern in a function's parameters: a wrapper taken apart there.
    pub fn rewrite_param(&self, pat: &'a Pat) -> Option<EditGroup> {
        let out = self.pat(pat, None);
        let rule = out.rule.clone()?;
        match out.kind {
            Kind::Always(_) if out.changed => self.edit(pat.span, out.text, &rule),
            _ => None,
        }
    }
}
