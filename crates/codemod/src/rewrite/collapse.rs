//! `match`, `if let`, `while let`, `let … else` and `matches!` once there is one variant left.
//!
//! A collapse keeps what stays evaluated as often and as long as it was, the names that the kept body needs, and its
//! comments; arms that cannot be taken go with theirs. An arm under `#[cfg]` keeps its match.

use super::emit::{Body, Rest};
use super::known::{Code, Mode, Payload};
use super::nodes::{LetStmt, Parent};
use super::pats::{Bound, Kind, PatOut, Subject};
use super::*;
use crate::analysis::LocalId;
use crate::edit::{Edit, EditGroup};
use crate::syntax::trivia::{self, indent_of, line_end, line_start, next_line, starts_line};
use crate::syntax::{Arm, BinOp, Block, MacroArgs, MacroCall, Pat, StmtKind};

/// Stretches and what takes their place.
type Replacements = Vec<(Span, String)>;

impl<'a> Cx<'a> {
    pub fn collapse(&self, expr: &'a Expr) -> Option<EditGroup> {
        match &expr.kind {
            ExprKind::Match {
                scrutinee,
                arms,
                braces,
            } => self.collapse_match(expr, scrutinee, arms, *braces),
            ExprKind::If {
                cond, then, alt, ..
            } => self.collapse_if(expr, cond, then, alt.as_deref()),
            ExprKind::While { cond, body, label } => {
                self.collapse_while(expr, cond, body, label.as_ref().map(|label| label.span))
            }
            ExprKind::Macro(mac) => self.collapse_matches(expr, mac),
            _ => None,
        }
    }

    // --- bindings

    /// The names that an arm's body needs, as statements in front of it or as replacements in it.
    ///
    /// Returns `let` statements and replacements; `None` where neither is possible.
    fn settle(
        &self,
        bounds: &[Bound],
        subject: &Subject,
        regions: &[Span],
    ) -> Option<(Vec<String>, Replacements)> {
        self.settle_checked(bounds, subject, regions, false)
    }

    /// The same; `checked`: an index in what is matched has been checked by then.
    fn settle_checked(
        &self,
        bounds: &[Bound],
        subject: &Subject,
        regions: &[Span],
        checked: bool,
    ) -> Option<(Vec<String>, Replacements)> {
        let mut lets = Vec::new();
        let mut edits = Vec::new();
        let mut used_subject = false;
        if let Subject::Tuple(_) = subject {
            // Several things are evaluated, in their order: one `let` of the whole does that.
            let doing = effectful(subject);
            let names = |payload: &Payload| {
                let span = payload.span;
                bounds
                    .iter()
                    .filter(move |bound| bound.payload.as_ref().is_some_and(|own| own.span == span))
            };
            let bound = |payload: &Payload| {
                names(payload).any(|bound| !self.an.locals[bound.local].uses.is_empty())
            };
            let is_looked_at = |payload: &&Payload| {
                self.is_check(payload)
                    && (checked
                        || names(payload)
                            .any(|bound| self.check_stays(payload, regions[0], bound.local)))
            };
            match &doing[..] {
                [] => {}
                [one] if bound(one) => {}
                all if all.iter().all(is_looked_at) => {}
                all if bounds.is_empty() && all.iter().all(|one| self.is_check(one)) => {}
                _ => return None,
            }
        }
        for bound in bounds {
            let local = &self.an.locals[bound.local];
            let n_uses = local
                .uses
                .iter()
                .filter(|at| regions.iter().any(|region| region.contains(at.span)))
                .count();
            let Some(payload) = &bound.payload else {
                return None;
            };
            let whole = regions.iter().copied().reduce(Span::to)?;
            let named_in_tokens = self.opaque_mentions(&local.name, whole).next().is_some();
            let is_check = self.is_check(payload);
            if n_uses == 0 && (!payload.effects || (checked && is_check)) && !named_in_tokens {
                continue;
            }
            used_subject = true;
            let one = [(bound.local, payload.clone())];
            let may = !bound.retyped
                && !bound.mutable
                && self.may_substitute(whole, &one)
                && !self.outlives(payload, bound.local, regions)
                && (checked || self.check_stays(payload, regions[0], bound.local))
                && self.holds_no_lock(payload, n_uses, whole, bound.local);
            if may {
                let mut all = Some(Vec::new());
                for region in regions {
                    match (self.substitution_edits(*region, &one), &mut all) {
                        (Some(more), Some(list)) => list.extend(more),
                        _ => all = None,
                    }
                }
                if let Some(more) = all {
                    edits.extend(more);
                    continue;
                }
            }
            let twice = |other: &Bound| {
                other.local != bound.local
                    && other
                        .payload
                        .as_ref()
                        .is_some_and(|it| it.span == payload.span)
            };
            if payload.effects && (!self.can_be_let(payload) || bounds.iter().any(twice)) {
                return None;
            }
            let (text, more) = self.let_for(bound, payload, regions)?;
            lets.push(text);
            edits.extend(more);
        }
        // What is matched and not bound is evaluated all the same, and lives as long.
        let is_done = checked
            && effectful(subject)
                .iter()
                .all(|payload| self.is_check(payload));
        if !used_subject && !is_done {
            lets.extend(self.effects_of(subject, self.is_quiet(regions))?);
        }
        edits.sort_by_key(|(span, _)| span.lo);
        Some((lets, edits))
    }

    /// A temporary that the scrutinee holds (a lock's guard, say) lives as long as the match did.
    fn holds_no_lock(&self, payload: &Payload, n_uses: usize, whole: Span, local: LocalId) -> bool {
        if !self.derefs_temporary(payload) {
            return true;
        }
        // One use at the very start of a lone expression: the guard lives to the end of that statement anyway.
        n_uses == 1
            && self.an.locals[local]
                .uses
                .iter()
                .any(|at| at.span.lo == whole.lo)
    }

    /// The payload lives behind a smart pointer that is itself a temporary.
    fn derefs_temporary(&self, payload: &Payload) -> bool {
        !payload.place
            && matches!(&payload.ty, Type::Adt(def, _) if self.rules.retired_def(*def).is_none())
            && payload.effects
    }

    /// `let g = …;`, and replacements where the name now is something else than it was.
    fn let_for(
        &self,
        bound: &Bound,
        payload: &Payload,
        regions: &[Span],
    ) -> Option<(String, Vec<(Span, String)>)> {
        let local = &self.an.locals[bound.local];
        let name = &self.text[local.span.lo..local.span.hi];
        if self.derefs_temporary(payload) {
            // The guard itself gets the name: methods find their way through it.
            let mutable = if payload.mode == Mode::Mut || bound.mutable {
                "mut "
            } else {
                ""
            };
            let mut edits = Vec::new();
            for at in local
                .uses
                .iter()
                .filter(|at| regions.iter().any(|region| region.contains(at.span)))
            {
                let expr = self.nodes.by_id.get(&at.expr?)?;
                match self.nodes.parent(expr) {
                    Some(Parent::Expr(outer)) => match &outer.kind {
                        ExprKind::MethodCall { recv, .. } if recv.id == expr.id => {}
                        ExprKind::Field { .. } | ExprKind::Deref(_) => {}
                        _ => edits.push((
                            expr.span,
                            format!(
                                "{}{name}",
                                if payload.mode == Mode::Mut {
                                    "&mut "
                                } else {
                                    "&"
                                }
                            ),
                        )),
                    },
                    _ => edits.push((
                        expr.span,
                        format!(
                            "{}{name}",
                            if payload.mode == Mode::Mut {
                                "&mut "
                            } else {
                                "&"
                            }
                        ),
                    )),
                }
            }
            return Some((
                format!("let {mutable}{name} = {};", payload.base.text),
                edits,
            ));
        }
        let mutable = if bound.mutable { "mut " } else { "" };
        let value = self.value_code(payload, true).text;
        if value == name && !bound.mutable {
            return Some((String::new(), vec![]))
                .filter(|_| payload.place)
                .or(None);
        }
        Some((format!("let {mutable}{name} = {value};"), vec![]))
    }

    /// Statements for what has to be evaluated though nobody wants it; `None` where only a match keeps it long enough.
    fn effects_of(&self, subject: &Subject, quiet: bool) -> Option<Vec<String>> {
        match subject {
            Subject::Plain(payload) | Subject::Known(payload) | Subject::Fine(payload) => {
                if !payload.effects {
                    return Some(vec![]);
                }
                match payload.expr.and_then(|id| self.nodes.by_id.get(&id)) {
                    Some(expr) => Some(vec![self.hold(expr, quiet)?]),
                    None => Some(vec![format!("{};", payload.base.text)]),
                }
            }
            Subject::Tuple(parts) => {
                let mut out = Vec::new();
                for part in parts {
                    out.extend(self.effects_of(part, quiet)?);
                }
                Some(out)
            }
        }
    }

    // --- match

    fn collapse_match(
        &self,
        expr: &'a Expr,
        scrutinee: &'a Expr,
        arms: &'a [Arm],
        braces: Span,
    ) -> Option<EditGroup> {
        let subject = self.subject(scrutinee);
        let outs: Vec<PatOut> = arms
            .iter()
            .map(|arm| self.pat(&arm.pat, Some(&subject)))
            .collect();
        let rule = outs
            .iter()
            .find_map(|out| out.changed.then(|| out.rule.clone()).flatten())?;
        if outs.iter().any(|out| matches!(out.kind, Kind::Blocked)) {
            return None;
        }
        let mut live: Vec<usize> = (0..arms.len())
            .filter(|&at| !matches!(outs[at].kind, Kind::Never))
            .collect();
        let first = *live.first()?;
        let has_cfg = |at: usize| arms[at].attrs.iter().any(|attr| attr.path == "cfg");
        // Behind an arm that is always taken, whatever is configured, nothing is.
        let always = |at: usize| {
            matches!(outs[at].kind, Kind::Always(_)) && arms[at].guard.is_none() && !has_cfg(at)
        };
        if let Some(last) = live.iter().position(|&at| always(at)) {
            live.truncate(last + 1);
        }
        if self.arms_lose_type(expr, arms, &live) {
            return None;
        }
        if live.iter().any(|&at| has_cfg(at)) {
            return self.keep_match(scrutinee, &subject, arms, &outs, &live, braces, &rule);
        }
        // One arm that is always taken.
        if let (Kind::Always(bounds), None) = (&outs[first].kind, &arms[first].guard) {
            let regions = [arms[first].body.span];
            let settled = self.settle(bounds, &subject, &regions);
            // An index is checked, and that is all.
            let doing: Vec<&Payload> = effectful(&subject)
                .into_iter()
                .filter(|payload| !self.is_check(payload))
                .collect();
            // A block of its own would let go of what the match holds before the statement around it ends.
            let held = match &settled {
                Some((lets, _)) => lets.is_empty() || doing.is_empty() || self.ends_here(expr),
                None => {
                    let whole = !bounds.is_empty() || matches!(subject, Subject::Tuple(_));
                    whole && doing.iter().all(|payload| self.can_be_let(payload))
                }
            };
            if !held {
                return self.keep_match(scrutinee, &subject, arms, &outs, &live, braces, &rule);
            }
            if let Some((lets, edits)) = settled {
                let (before, after) = self.arm_comments(arms, first, braces);
                let rest = Rest {
                    lets: lets.into_iter().filter(|text| !text.is_empty()).collect(),
                    body: self.body_of(&arms[first].body, &edits),
                    before,
                    after,
                    rule,
                };
                return self.emit(expr, rest);
            }
            // Part of a larger pattern: it is taken apart by a `let`.
            let value = self.scrutinee_text(scrutinee, &subject);
            let (before, after) = self.arm_comments(arms, first, braces);
            let lets = vec![format!("let {} = {value};", outs[first].text)];
            let rest = Rest {
                lets,
                body: self.body_of(&arms[first].body, &[]),
                before,
                after,
                rule,
            };
            return self.emit(expr, rest);
        }
        // Arms that differ by their guards alone.
        let chain: Vec<usize> = {
            let mut chain = Vec::new();
            for &at in &live {
                if !matches!(outs[at].kind, Kind::Always(_)) {
                    chain.clear();
                    break;
                }
                chain.push(at);
                if arms[at].guard.is_none() {
                    break;
                }
            }
            chain
        };
        if chain.last().is_some_and(|&at| arms[at].guard.is_none())
            && let Some(group) =
                self.guards_to_if(expr, &subject, arms, &outs, &chain, braces, &rule)
        {
            return Some(group);
        }
        self.keep_match(scrutinee, &subject, arms, &outs, &live, braces, &rule)
    }

    #[allow(clippy::too_many_arguments)]
    fn guards_to_if(
        &self,
        expr: &'a Expr,
        subject: &Subject,
        arms: &'a [Arm],
        outs: &[PatOut],
        chain: &[usize],
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        // The first guard is asked in any case; an index that it checks first holds for the rest.
        let checked = effectful(subject).iter().all(|payload| {
            let at = chain[0];
            let (Kind::Always(bounds), Some(guard)) = (&outs[at].kind, &arms[at].guard) else {
                return false;
            };
            self.is_check(payload)
                && bounds
                    .iter()
                    .any(|bound| self.check_stays(payload, guard.span, bound.local))
        });
        if !checked {
            return None;
        }
        let indent = indent_of(self.text, expr.span.lo).to_owned();
        let multi = self.src(expr.span).contains('\n') && !self.all_short(expr, arms, chain);
        let mut text = String::new();
        for (nth, &at) in chain.iter().enumerate() {
            let arm = &arms[at];
            let Kind::Always(bounds) = &outs[at].kind else {
                return None;
            };
            let mut regions = vec![arm.body.span];
            regions.extend(arm.guard.as_ref().map(|guard| guard.span));
            regions.sort();
            let (lets, edits) = self.settle_checked(bounds, subject, &regions, true)?;
            if !lets.iter().all(String::is_empty) {
                return None;
            }
            if nth > 0 {
                text.push_str(" else ");
            }
            if let Some(guard) = &arm.guard {
                let cond = match self.body_of(guard, &edits) {
                    Body::Expr(code) => code.text,
                    _ => return None,
                };
                text.push_str(&format!("if {cond} "));
            }
            let (before, after) = self.arm_comments(arms, at, braces);
            let rest = Rest {
                lets: vec![],
                body: self.body_of(&arm.body, &edits),
                before,
                after,
                rule: rule.to_owned(),
            };
            text.push_str(&self.as_block(&rest, &indent, multi));
        }
        let rest = Rest {
            lets: vec![],
            body: Body::Expr(Code {
                text,
                prec: Prec::Tight,
                block_like: true,
            }),
            before: vec![],
            after: None,
            rule: rule.to_owned(),
        };
        self.emit(expr, rest)
    }

    fn all_short(&self, _expr: &Expr, arms: &[Arm], chain: &[usize]) -> bool {
        let total: usize = chain.iter().map(|&at| arms[at].span.len()).sum();
        total < 40
            && chain
                .iter()
                .all(|&at| !self.src(arms[at].span).contains('\n'))
    }

    /// Comments above an arm, in front of its body, and at the end of its line.
    fn arm_comments(&self, arms: &[Arm], at: usize, braces: Span) -> (Vec<String>, Option<String>) {
        let text = self.text;
        let arm = &arms[at];
        let mut lo = if at == 0 {
            braces.lo + 1
        } else {
            arms[at - 1].span.hi
        };
        // What follows the arm before on its line belongs to that one.
        if at > 0 && !text[lo..arm.span.lo].is_empty() {
            let end = line_end(text, lo);
            if end < arm.span.lo {
                lo = end;
            }
        }
        let mut before = self.comments_in(Span::new(lo, arm.span.lo));
        let guard_end = arm
            .guard
            .as_ref()
            .map_or(arm.pat.span.hi, |guard| guard.span.hi);
        before.extend(self.comments_in(Span::new(guard_end, arm.body.span.lo)));
        let mut end = line_end(text, arm.span.hi);
        if let Some(next) = arms.get(at + 1) {
            end = end.min(next.span.lo);
        }
        end = end.min(braces.hi - 1);
        let trailing = self.comments_in(Span::new(arm.span.hi.min(end), end));
        // A comment between the body and its comma.
        let mut after = self.comments_in(Span::new(arm.body.span.hi, arm.span.hi));
        after.extend(trailing);
        (
            before,
            if after.is_empty() {
                None
            } else {
                Some(after.join(" "))
            },
        )
    }

    /// The match stays: dead arms go, patterns shrink.
    #[allow(clippy::too_many_arguments)]
    fn keep_match(
        &self,
        scrutinee: &'a Expr,
        subject: &Subject,
        arms: &'a [Arm],
        outs: &[PatOut],
        live: &[usize],
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        if let Some(group) = self.drop_parts(scrutinee, subject, arms, outs, live, braces, rule) {
            return Some(group);
        }
        let mut edits: Vec<Edit> = Vec::new();
        let mut dead: Vec<usize> = (0..arms.len()).filter(|at| !live.contains(at)).collect();
        // Behind an arm that is always taken nothing is reached, unless that arm may be configured away.
        let cfg_of = |at: usize| {
            arms[at]
                .attrs
                .iter()
                .find(|attr| attr.path == "cfg")
                .map(|attr| attr.tokens.clone())
        };
        let mut not_cfgs: Vec<String> = Vec::new();
        let mut behind = false;
        for &at in live {
            if behind {
                dead.push(at);
                continue;
            }
            let allows = arms[at]
                .attrs
                .iter()
                .any(|attr| attr.path == "allow" && attr.tokens.contains("unreachable_patterns"));
            if !not_cfgs.is_empty() && !allows && cfg_of(at).is_none() {
                let cond = if not_cfgs.len() == 1 {
                    format!("not({})", not_cfgs[0])
                } else {
                    format!("not(any({}))", not_cfgs.join(", "))
                };
                let cond = cond
                    .strip_prefix("not(not(")
                    .and_then(|inner| inner.strip_suffix("))"))
                    .map_or(cond.clone(), str::to_owned);
                let indent = indent_of(self.text, arms[at].span.lo);
                let eol = trivia::eol(self.text);
                let text = if starts_line(self.text, arms[at].span.lo) {
                    format!("#[cfg({cond})]{eol}{indent}")
                } else {
                    format!("#[cfg({cond})] ")
                };
                edits.push(Edit::new(
                    Span::new(arms[at].span.lo, arms[at].span.lo),
                    text,
                    rule,
                ));
            }
            if matches!(outs[at].kind, Kind::Always(_)) && arms[at].guard.is_none() {
                match cfg_of(at) {
                    Some(cfg) => not_cfgs.push(tidy_tokens(&cfg)),
                    None => behind = true,
                }
            }
        }
        // Where patterns are more than one name, what earlier arms cover has to be reckoned.
        let len = self.fixed_length(scrutinee);
        let before: Vec<usize> = unreachable(self, arms, None, len);
        for at in unreachable(self, arms, Some(outs), len) {
            if !before.contains(&at)
                && !dead.contains(&at)
                && cfg_of(at).is_none()
                && not_cfgs.is_empty()
            {
                dead.push(at);
            }
        }
        // One arm is left that takes an array of its length apart: a `let` does that.
        let left: Vec<usize> = (0..arms.len()).filter(|at| !dead.contains(at)).collect();
        if let ([only], Some(_)) = (&left[..], len)
            && arms.len() > 1
            && arms[*only].guard.is_none()
            && arms[*only].attrs.is_empty()
            && effectful(subject).is_empty()
            && matches!(arms[*only].pat.kind, crate::syntax::PatKind::Slice(_))
            && let Some(Parent::Expr(expr)) = self.nodes.parent(scrutinee)
        {
            let (before, after) = self.arm_comments(arms, *only, braces);
            let value = self.scrutinee_text(scrutinee, subject);
            let rest = Rest {
                lets: vec![format!("let {} = {value};", outs[*only].text)],
                body: self.body_of(&arms[*only].body, &[]),
                before,
                after,
                rule: rule.to_owned(),
            };
            return self.emit(expr, rest);
        }
        let cases_before = unreachable_cases(self, arms, None, len);
        let cases: Vec<(usize, usize)> = if not_cfgs.is_empty() {
            unreachable_cases(self, arms, Some(outs), len)
                .into_iter()
                .filter(|case| !cases_before.contains(case))
                .collect()
        } else {
            vec![]
        };
        for at in 0..arms.len() {
            if dead.contains(&at) {
                edits.push(Edit::new(self.arm_extent(arms, at, braces), "", rule));
            } else if cases.iter().any(|(arm, _)| *arm == at) {
                let crate::syntax::PatKind::Or(all) = &arms[at].pat.kind else {
                    continue;
                };
                let left: Vec<String> = all
                    .iter()
                    .enumerate()
                    .filter(|(nth, _)| !cases.contains(&(at, *nth)))
                    .map(|(_, case)| self.pat(case, Some(subject)))
                    .filter(|out| !matches!(out.kind, Kind::Never))
                    .map(|out| out.text)
                    .collect();
                if !left.is_empty() {
                    edits.push(Edit::new(arms[at].pat.span, left.join(" | "), rule));
                }
            } else if outs[at].changed && outs[at].text != self.src(arms[at].pat.span) {
                edits.push(Edit::new(arms[at].pat.span, outs[at].text.clone(), rule));
            }
        }
        // The option that was matched is its payload now.
        self.scrutinee_edits(scrutinee, subject, rule, &mut edits);
        // Neighbouring extents may touch.
        edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        if edits.is_empty() || edits.iter().any(|edit| self.is_frozen(edit.span)) {
            return None;
        }
        Some(EditGroup { edits })
    }

    /// A guard that always holds goes, and with it the arms behind that it leaves nothing for.
    pub(super) fn drop_guard(
        &self,
        arms: &'a [Arm],
        at: usize,
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        let guard = arms[at].guard.as_ref()?;
        let before = unreachable(self, arms, None, None);
        let mut unguarded = arms.to_vec();
        unguarded[at].guard = None;
        let mut edits = vec![Edit::new(
            Span::new(arms[at].pat.span.hi, guard.span.hi),
            "",
            rule,
        )];
        edits.extend(
            unreachable(self, &unguarded, None, None)
                .into_iter()
                .filter(|gone| !before.contains(gone))
                .map(|gone| Edit::new(self.arm_extent(arms, gone, braces), "", rule)),
        );
        (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
    }

    pub(super) fn drop_arm(
        &self,
        arms: &'a [Arm],
        at: usize,
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        self.edit(self.arm_extent(arms, at, braces), "", rule)
    }

    /// A tuple of which all but one part always matches: that part is matched alone.
    #[allow(clippy::too_many_arguments)]
    fn drop_parts(
        &self,
        scrutinee: &'a Expr,
        subject: &Subject,
        arms: &'a [Arm],
        outs: &[PatOut],
        live: &[usize],
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        use crate::syntax::PatKind;
        let (Subject::Tuple(parts), ExprKind::Tuple(exprs)) = (subject, &scrutinee.kind) else {
            return None;
        };
        if arms.iter().any(|arm| !arm.attrs.is_empty()) {
            return None;
        }
        // Part by part; a `_` for the whole stands for each.
        let before = unreachable(self, arms, None, None);
        let gone = unreachable(self, arms, Some(outs), None);
        let live: Vec<usize> = live
            .iter()
            .copied()
            .filter(|at| !gone.contains(at) || before.contains(at))
            .collect();
        let mut split: Vec<Vec<Option<PatOut>>> = Vec::new();
        for &at in &live {
            match &arms[at].pat.kind {
                PatKind::Tuple(elems) if elems.len() == parts.len() => {
                    split.push(
                        elems
                            .iter()
                            .zip(parts)
                            .map(|(elem, part)| Some(self.pat(elem, Some(part))))
                            .collect(),
                    );
                }
                PatKind::Wild => split.push(vec![None; parts.len()]),
                _ => return None,
            }
        }
        let always = |column: usize| {
            split.iter().all(|row| {
                row[column]
                    .as_ref()
                    .is_none_or(|out| matches!(out.kind, Kind::Always(_)))
            })
        };
        let ours = |column: usize| {
            split
                .iter()
                .any(|row| row[column].as_ref().is_some_and(|out| out.changed))
        };
        let kept: Vec<usize> = (0..parts.len()).filter(|&column| !always(column)).collect();
        let [kept] = kept[..] else { return None };
        if !(0..parts.len()).any(|column| column != kept && ours(column))
            || (0..parts.len())
                .any(|column| column != kept && !effectful(&parts[column]).is_empty())
        {
            return None;
        }
        let mut edits: Vec<Edit> = Vec::new();
        for (row, &at) in split.iter().zip(&live) {
            let arm = &arms[at];
            let mut regions = vec![arm.body.span];
            regions.extend(arm.guard.as_ref().map(|guard| guard.span));
            regions.sort();
            for (column, out) in row.iter().enumerate() {
                let (Some(out), true) = (out, column != kept) else {
                    continue;
                };
                let Kind::Always(bounds) = &out.kind else {
                    return None;
                };
                let (lets, more) = self.settle(bounds, &parts[column], &regions)?;
                if !lets.iter().all(String::is_empty) {
                    return None;
                }
                edits.extend(
                    more.into_iter()
                        .map(|(span, text)| Edit::new(span, text, rule)),
                );
            }
            let text = row[kept]
                .as_ref()
                .map_or("_".to_owned(), |out| out.text.clone());
            if text != self.src(arm.pat.span) {
                edits.push(Edit::new(arm.pat.span, text, rule));
            }
        }
        for at in (0..arms.len()).filter(|at| !live.contains(at)) {
            edits.push(Edit::new(self.arm_extent(arms, at, braces), "", rule));
        }
        let mut value = self.scrutinee_text(&exprs[kept], &parts[kept]);
        if matches!(exprs[kept].kind, ExprKind::Struct { .. }) {
            value = format!("({value})");
        }
        edits.push(Edit::new(scrutinee.span, value, rule));
        edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
    }

    /// `match (true, n) { (true, 0) => …, (false, _) => … }` since this run: the rest is matched alone.
    pub(super) fn drop_answers(
        &self,
        expr: &'a Expr,
        scrutinee: &'a Expr,
        arms: &'a [Arm],
        braces: Span,
        rule: &str,
    ) -> Option<EditGroup> {
        use crate::syntax::PatKind;
        let ExprKind::Tuple(exprs) = &scrutinee.kind else {
            return None;
        };
        let kept: Vec<usize> = (0..exprs.len())
            .filter(|&at| self.constant(&exprs[at]).is_none())
            .collect();
        // A place stays where it is if it is matched alone; in a tuple it was moved, and dropped behind the match.
        let is_moved = |expr: &Expr| self.is_place(expr) && self.drop_is_seen(self.an.ty(expr));
        if kept.is_empty()
            || kept.len() == exprs.len()
            || kept.iter().any(|&at| is_moved(&exprs[at]))
            || arms.iter().any(|arm| !arm.attrs.is_empty())
            || !trivia::comments(self.text, scrutinee.span).is_empty()
        {
            return None;
        }
        // The alternatives of each arm that may be taken, each as what is left of it.
        let mut left: Vec<Vec<Vec<&Pat>>> = Vec::new();
        let wild = |pat: &Pat| matches!(pat.kind, PatKind::Wild);
        for arm in arms {
            let cases: &[Pat] = match &arm.pat.kind {
                PatKind::Or(cases) => cases,
                _ => std::slice::from_ref(&arm.pat),
            };
            let mut live = Vec::new();
            for case in cases {
                let elems = match &case.kind {
                    PatKind::Tuple(elems) if elems.len() == exprs.len() => elems,
                    PatKind::Wild => {
                        live.push(vec![case; kept.len()]);
                        continue;
                    }
                    _ => return None,
                };
                if elems.iter().any(|elem| matches!(elem.kind, PatKind::Rest)) {
                    return None;
                }
                let mut holds = true;
                for (elem, expr) in elems.iter().zip(exprs) {
                    let Some(value) = self.constant(expr) else {
                        continue;
                    };
                    match self.src(elem.span) {
                        "_" => {}
                        text if text == value.to_string() => {}
                        "true" | "false" => holds = false,
                        _ => return None,
                    }
                }
                if holds {
                    live.push(kept.iter().map(|&at| &elems[at]).collect());
                }
            }
            if !trivia::comments(self.text, arm.pat.span).is_empty() {
                return None;
            }
            left.push(live);
        }
        let before = unreachable(self, arms, None, None);
        // Whatever is there, the first arm that may be taken is.
        if let Some(first) = left.iter().position(|cases| !cases.is_empty())
            && arms[first].guard.is_none()
            && left[first]
                .iter()
                .any(|case| case.iter().all(|pat| wild(pat)))
            && kept.iter().all(|&at| self.is_pure(&exprs[at]))
        {
            let (before, after) = self.arm_comments(arms, first, braces);
            let rest = Rest {
                lets: vec![],
                body: self.body_of(&arms[first].body, &[]),
                before,
                after,
                rule: rule.to_owned(),
            };
            return self.emit(expr, rest);
        }
        let mut seen: Vec<Vec<Simple>> = Vec::new();
        let mut edits: Vec<Edit> = Vec::new();
        for (at, (arm, cases)) in arms.iter().zip(&left).enumerate() {
            let rows: Vec<Vec<Simple>> = cases
                .iter()
                .map(|case| case.iter().map(|pat| simplify(self, pat, false)).collect())
                .collect();
            let is_reached = before.contains(&at) || rows.iter().any(|row| useful(&seen, row));
            if cases.is_empty() || !is_reached {
                edits.push(Edit::new(self.arm_extent(arms, at, braces), "", rule));
                continue;
            }
            let texts: Vec<String> = cases
                .iter()
                .map(|case| match &case[..] {
                    [one] => self.src(one.span).to_owned(),
                    all if all.iter().all(|pat| wild(pat)) => "_".to_owned(),
                    all => {
                        let parts: Vec<&str> = all.iter().map(|pat| self.src(pat.span)).collect();
                        format!("({})", parts.join(", "))
                    }
                })
                .collect();
            edits.push(Edit::new(arm.pat.span, texts.join(" | "), rule));
            if arm.guard.is_none() {
                seen.extend(rows);
            }
        }
        let value = match &kept[..] {
            [one] if matches!(exprs[*one].kind, ExprKind::Struct { .. }) => {
                format!("({})", self.src(exprs[*one].span))
            }
            [one] => self.src(exprs[*one].span).to_owned(),
            all => {
                let parts: Vec<&str> = all.iter().map(|&at| self.src(exprs[at].span)).collect();
                format!("({})", parts.join(", "))
            }
        };
        edits.push(Edit::new(scrutinee.span, value, rule));
        edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
    }

    /// The scrutinee with options replaced by what they hold.
    fn scrutinee_text(&self, scrutinee: &'a Expr, subject: &Subject) -> String {
        let mut edits = Vec::new();
        self.scrutinee_edits(scrutinee, subject, "", &mut edits);
        let mut text = self.src(scrutinee.span).to_owned();
        edits.sort_by_key(|edit| edit.span.lo);
        for edit in edits.iter().rev() {
            text.replace_range(
                edit.span.lo - scrutinee.span.lo..edit.span.hi - scrutinee.span.lo,
                &edit.text,
            );
        }
        text
    }

    fn scrutinee_edits(
        &self,
        scrutinee: &'a Expr,
        subject: &Subject,
        rule: &str,
        edits: &mut Vec<Edit>,
    ) {
        match (subject, &scrutinee.kind) {
            (_, ExprKind::Paren(inner)) => self.scrutinee_edits(inner, subject, rule, edits),
            (Subject::Known(payload) | Subject::Fine(payload), _) => edits.push(Edit::new(
                scrutinee.span,
                self.value_code(payload, true).text,
                rule,
            )),
            (Subject::Tuple(parts), ExprKind::Tuple(exprs)) => {
                for (part, expr) in parts.iter().zip(exprs) {
                    self.scrutinee_edits(expr, part, rule, edits);
                }
            }
            _ => {}
        }
    }

    /// An arm with its comments and its line.
    fn arm_extent(&self, arms: &[Arm], at: usize, braces: Span) -> Span {
        let text = self.text;
        let arm = &arms[at];
        let mut lo = arm.span.lo;
        let mut hi = arm.span.hi;
        let floor = if at == 0 {
            braces.lo + 1
        } else {
            arms[at - 1].span.hi
        };
        let ceiling = arms.get(at + 1).map_or(braces.hi - 1, |next| next.span.lo);
        let behind = text[hi..line_end(text, hi).min(ceiling)].trim_start();
        let whole_line = starts_line(text, lo)
            && line_end(text, hi) <= ceiling
            && (behind.is_empty() || behind.starts_with("//") || behind.starts_with("/*"));
        if whole_line {
            hi = next_line(text, hi).min(text.len());
            lo = line_start(text, lo);
            // Comments on lines of their own above it.
            while lo > floor {
                let above = line_start(text, lo - 1);
                let line = text[above..lo].trim();
                if above >= floor
                    && (line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/")))
                {
                    lo = above
                } else {
                    break;
                }
            }
            if hi > ceiling && at + 1 < arms.len() {
                hi = hi.min(line_start(text, ceiling).max(arm.span.hi));
            }
            return Span::new(lo.max(floor), hi);
        }
        let rest = &text[hi..ceiling];
        hi += rest.len() - rest.trim_start_matches([' ', '\t']).len();
        Span::new(lo, hi)
    }

    // --- if and while

    /// The links of a chain of `&&`, in order.
    pub(super) fn links(&self, cond: &'a Expr) -> Vec<&'a Expr> {
        let mut out = Vec::new();
        let mut at = cond;
        while let ExprKind::Binary {
            op: BinOp::And,
            lhs,
            rhs,
            ..
        } = &at.kind
        {
            out.push(&**rhs);
            at = lhs;
        }
        out.push(at);
        out.reverse();
        out
    }

    fn collapse_if(
        &self,
        expr: &'a Expr,
        cond: &'a Expr,
        then: &'a Block,
        alt: Option<&'a Expr>,
    ) -> Option<EditGroup> {
        let links = self.links(cond);
        // What the first link checks may be checked in front of the `if`.
        let own_line = match self.nodes.parent(expr) {
            Some(Parent::Stmt { stmt, .. })
                if stmt.attrs.is_empty() && starts_line(self.text, stmt.span.lo) =>
            {
                Some(stmt)
            }
            _ => None,
        };
        let (mut edits, lets, rule, n_left) = match self.chain(&links, then, own_line.is_some())? {
            Chain::Never(rule) => {
                if self.loses_to_else(expr, then, alt, false) {
                    return None;
                }
                return self.if_false(expr, alt, &rule);
            }
            Chain::NeverAfter(value, rule) => {
                if self.loses_to_else(expr, then, alt, false) {
                    return None;
                }
                return self.else_after(expr, value, alt, &rule);
            }
            Chain::Held { head, rule } => {
                let eol = trivia::eol(self.text);
                let indent = indent_of(self.text, expr.span.lo).to_owned();
                let unit = if indent.contains('\t') { "\t" } else { "    " };
                let inner = format!("{indent}{unit}");
                let body = trivia::reindent(
                    self.src(then.span),
                    indent_of(self.text, then.span.lo),
                    &inner,
                );
                let rest = Rest {
                    lets: vec![],
                    body: Body::Expr(Code {
                        text: format!("match {head} => {body}{eol}{indent}}}").replacen(
                            " {\n",
                            &format!(" {{{eol}{inner}"),
                            1,
                        ),
                        prec: Prec::Tight,
                        block_like: true,
                    }),
                    before: vec![],
                    after: None,
                    rule,
                };
                return self.emit(expr, rest);
            }
            Chain::Changed {
                edits,
                lets,
                rule,
                n_left,
            } => (edits, lets, rule, n_left),
        };
        if n_left == 0 {
            if self.loses_to_else(expr, then, alt, true) {
                return None;
            }
            let pairs: Vec<(Span, String)> = edits
                .into_iter()
                .map(|edit| (edit.span, edit.text))
                .collect();
            // Comments in the condition speak of what is gone, but for those behind the brace.
            let before = Vec::new();
            let rest = Rest {
                lets,
                body: self.body_of_block(then, &pairs),
                before,
                after: None,
                rule,
            };
            return self.emit(expr, rest);
        }
        if !lets.is_empty() {
            let at = own_line?.span.lo;
            let between = format!("{}{}", trivia::eol(self.text), indent_of(self.text, at));
            let text: String = lets.iter().map(|text| format!("{text}{between}")).collect();
            edits.insert(0, Edit::new(Span::new(at, at), text, &rule));
        }
        (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
    }

    fn collapse_while(
        &self,
        expr: &'a Expr,
        cond: &'a Expr,
        body: &'a Block,
        label: Option<Span>,
    ) -> Option<EditGroup> {
        let links = self.links(cond);
        match self.chain(&links, body, false)? {
            Chain::Never(rule) => match self.nodes.parent(expr) {
                Some(Parent::Stmt { stmt, block, at }) => {
                    Some(EditGroup::one(self.delete_stmt(stmt, block, at, &rule)?))
                }
                _ => None,
            },
            Chain::NeverAfter(value, rule) => self.else_after(expr, value, None, &rule),
            Chain::Held { head, rule } => {
                let lo = label.map_or(expr.span.lo, |label| label.hi);
                let loop_text = if label.is_some() { ": loop" } else { "loop" };
                let head = head.replacen(" {\n", " { ", 1);
                let edits = vec![
                    Edit::new(
                        Span::new(lo, body.span.lo),
                        format!("{loop_text} {{ match {head} => "),
                        &rule,
                    ),
                    Edit::new(Span::new(body.span.hi, body.span.hi), " } }", &rule),
                ];
                (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
            }
            Chain::Changed {
                mut edits,
                lets,
                rule,
                n_left,
            } => {
                if n_left == 0 {
                    let head = label.map_or(expr.span.lo, |label| label.hi);
                    let loop_text = if label.is_some() {
                        ": loop ".to_owned()
                    } else {
                        "loop ".to_owned()
                    };
                    edits.retain(|edit| body.span.contains(edit.span));
                    edits.push(Edit::new(Span::new(head, body.span.lo), loop_text, &rule));
                    if !lets.is_empty() {
                        let eol = trivia::eol(self.text);
                        let indent = indent_of(
                            self.text,
                            body.stmts.first().map_or(body.span.lo, |stmt| stmt.span.lo),
                        );
                        edits.push(Edit::new(
                            Span::new(body.span.lo + 1, body.span.lo + 1),
                            lets.iter()
                                .map(|text| format!("{eol}{indent}{text}"))
                                .collect::<String>(),
                            &rule,
                        ));
                    }
                } else if !lets.is_empty() {
                    return None;
                }
                edits.sort_by_key(|edit| edit.span.lo);
                (!edits.iter().any(|edit| self.is_frozen(edit.span))).then_some(EditGroup { edits })
            }
        }
    }

    /// What a chain of conditions comes to, over the block that sees its names.
    ///
    /// `in_front`: a statement may stand in front of the whole.
    fn chain(&self, links: &[&'a Expr], then: &'a Block, in_front: bool) -> Option<Chain<'a>> {
        struct Link<'a> {
            expr: &'a Expr,
            out: PatOut,
            subject: Subject,
            value: &'a Expr,
            pat: &'a Pat,
        }
        let mut ours: Vec<(usize, Link<'a>)> = Vec::new();
        for (at, link) in links.iter().enumerate() {
            let ExprKind::Let { pat, value } = &link.kind else {
                continue;
            };
            let subject = self.subject(value);
            let out = self.pat(pat, Some(&subject));
            if matches!(out.kind, Kind::Blocked) {
                return None;
            }
            if out.changed {
                ours.push((
                    at,
                    Link {
                        expr: link,
                        out,
                        subject,
                        value,
                        pat,
                    },
                ));
            }
        }
        if ours.is_empty() {
            return None;
        }
        let rule = ours
            .iter()
            .find_map(|(_, link)| link.out.rule.clone())
            .unwrap_or_default();
        if let Some((at, never)) = ours
            .iter()
            .find(|(_, link)| matches!(link.out.kind, Kind::Never))
        {
            // What is asked before the answer is known is asked all the same.
            return if links[..=*at].iter().all(|link| self.is_pure(link)) {
                Some(Chain::Never(rule))
            } else if *at == 0 {
                Some(Chain::NeverAfter(never.value, rule))
            } else {
                None
            };
        }
        let mut edits: Vec<Edit> = Vec::new();
        let mut lets = Vec::new();
        let mut dropped: Vec<usize> = Vec::new();
        for (at, link) in &ours {
            match &link.out.kind {
                Kind::Always(bounds) => {
                    let mut regions: Vec<Span> =
                        links[at + 1..].iter().map(|link| link.span).collect();
                    regions.push(then.span);
                    let settled = self.settle(bounds, &link.subject, &regions);
                    match settled {
                        Some((texts, more)) if texts.iter().all(String::is_empty) => {
                            edits.extend(
                                more.into_iter()
                                    .map(|(span, text)| Edit::new(span, text, &rule)),
                            );
                            dropped.push(*at);
                        }
                        Some((texts, more)) if links.len() == 1 => {
                            edits.extend(
                                more.into_iter()
                                    .map(|(span, text)| Edit::new(span, text, &rule)),
                            );
                            lets.extend(texts);
                            dropped.push(*at);
                        }
                        None if links.len() == 1 => {
                            // A match always holds what it matches, and may have one arm.
                            let value = self.scrutinee_text(link.value, &link.subject);
                            return Some(Chain::Held {
                                head: format!("{value} {{\n{}", link.out.text),
                                rule,
                            });
                        }
                        Some(_)
                            if in_front
                                && *at == 0
                                && let Some((texts, more)) =
                                    self.settle_checked(bounds, &link.subject, &regions, true)
                                && texts.is_empty()
                                && !effectful(&link.subject).is_empty() =>
                        {
                            edits.extend(
                                more.into_iter()
                                    .map(|(span, text)| Edit::new(span, text, &rule)),
                            );
                            lets.extend(self.effects_of(&link.subject, true)?);
                            dropped.push(*at);
                        }
                        _ => {
                            // It stays as a link that always holds.
                            let value = match &link.subject {
                                Subject::Known(payload) | Subject::Fine(payload) => {
                                    self.value_code(payload, true).text
                                }
                                _ => self.src(link.value.span).to_owned(),
                            };
                            edits.push(Edit::new(
                                link.expr.span,
                                format!("let {} = {value}", link.out.text),
                                &rule,
                            ));
                        }
                    }
                }
                _ => {
                    edits.push(Edit::new(link.pat.span, link.out.text.clone(), &rule));
                    self.scrutinee_edits(link.value, &link.subject, &rule, &mut edits);
                }
            }
        }
        let n_left = links.len() - dropped.len();
        if n_left > 0 {
            // The operator and the room next to a link go with it.
            for &at in &dropped {
                let next_left = (at + 1..links.len()).find(|next| !dropped.contains(next));
                let prev_left = (0..at).rev().find(|prev| !dropped.contains(prev));
                let span = match (prev_left, next_left) {
                    (None, Some(next)) => {
                        // Once for the whole run of dropped links at the front.
                        if at > 0 {
                            continue;
                        }
                        Span::new(links[at].span.lo, links[next].span.lo)
                    }
                    _ => Span::new(links[at - 1].span.hi, links[at].span.hi),
                };
                edits.retain(|edit| !span.contains(edit.span));
                edits.push(Edit::new(span, "", &rule));
            }
        }
        edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        Some(Chain::Changed {
            edits,
            lets,
            rule,
            n_left,
        })
    }

    /// What is left of an `if` that is never taken, once its scrutinee is evaluated.
    fn else_after(
        &self,
        expr: &'a Expr,
        value: &'a Expr,
        alt: Option<&'a Expr>,
        rule: &str,
    ) -> Option<EditGroup> {
        let quiet = self.else_is_outside() || alt.is_none_or(|alt| self.is_quiet(&[alt.span]));
        let first = self.hold(value, quiet)?;
        if !self.only_looks(value) && !self.ends_here(expr) {
            return None;
        }
        let rest = Rest {
            lets: vec![first],
            body: alt.map_or(Body::Nothing, |alt| self.body_of(alt, &[])),
            before: vec![],
            after: None,
            rule: rule.to_owned(),
        };
        self.emit(expr, rest)
    }

    // --- matches!

    fn collapse_matches(&self, expr: &'a Expr, mac: &'a MacroCall) -> Option<EditGroup> {
        let MacroArgs::Matches { value, pat, guard } = &mac.args else {
            return None;
        };
        let subject = self.subject(value);
        let out = self.pat(pat, Some(&subject));
        let rule = out.changed.then(|| out.rule.clone()).flatten()?;
        match (&out.kind, guard) {
            (Kind::Blocked, _) => None,
            (Kind::Never, _) if effectful(&subject).is_empty() => {
                self.edit(expr.span, "false", &rule)
            }
            (Kind::Always(_), None) if effectful(&subject).is_empty() => {
                self.edit(expr.span, "true", &rule)
            }
            (Kind::Never, _) | (Kind::Always(_), None) if !matches!(subject, Subject::Tuple(_)) => {
                let answer = matches!(out.kind, Kind::Always(_)).to_string();
                if !self.only_looks(value) && !self.ends_here(expr) {
                    return None;
                }
                self.first_then(expr, &self.evaluate(value), &answer, &rule)
            }
            (Kind::Always(bounds), Some(guard)) => {
                let (lets, edits) = self.settle(bounds, &subject, &[guard.span])?;
                if !lets.iter().all(String::is_empty) {
                    return None;
                }
                let Body::Expr(code) = self.body_of(guard, &edits) else {
                    return None;
                };
                let text = self.fit(expr, code.text, nodes::prec(guard), code.block_like);
                self.edit(expr.span, text, &rule)
            }
            (Kind::Sometimes, _) => {
                let mut edits = vec![Edit::new(pat.span, out.text.clone(), &rule)];
                self.scrutinee_edits(value, &subject, &rule, &mut edits);
                (!self.is_frozen(expr.span)).then_some(EditGroup { edits })
            }
            _ => None,
        }
    }

    // --- let

    pub fn collapse_let(&self, at: &LetStmt<'a>) -> Option<EditGroup> {
        let StmtKind::Let {
            pat,
            init: Some(init),
            diverge,
            ty,
        } = &at.stmt.kind
        else {
            return None;
        };
        let subject = self.subject(init);
        let out = self.pat(pat, Some(&subject));
        let rule = out.changed.then(|| out.rule.clone()).flatten()?;
        if ty.is_some() {
            return None;
        }
        match &out.kind {
            Kind::Blocked | Kind::Never => None,
            Kind::Sometimes => {
                diverge.as_ref()?;
                let mut edits = vec![Edit::new(pat.span, out.text.clone(), &rule)];
                self.scrutinee_edits(init, &subject, &rule, &mut edits);
                (!self.is_frozen(at.stmt.span)).then_some(EditGroup { edits })
            }
            Kind::Always(bounds) => {
                // The whole value under one name, or nothing at all.
                if let [bound] = &bounds[..]
                    && let Some(payload) = &bound.payload
                    && matches!(
                        subject,
                        Subject::Plain(_) | Subject::Known(_) | Subject::Fine(_)
                    )
                    && !matches!(pat.kind, crate::syntax::PatKind::Tuple(_))
                {
                    let (text, _) = self.let_for(
                        bound,
                        payload,
                        &[Span::new(at.stmt.span.hi, at.block.span.hi)],
                    )?;
                    if text.is_empty() {
                        return Some(EditGroup::one(
                            self.delete_stmt(at.stmt, at.block, at.at, &rule)?,
                        ));
                    }
                    let lo = at.stmt.attrs.last().map_or(at.stmt.span.lo, |attr| {
                        let rest = &self.text[attr.span.hi..];
                        attr.span.hi + (rest.len() - rest.trim_start().len())
                    });
                    return self.edit(Span::new(lo, at.stmt.span.hi), text, &rule);
                }
                if bounds.is_empty() && !matches!(subject, Subject::Tuple(_)) {
                    if effectful(&subject).is_empty() {
                        return Some(EditGroup::one(
                            self.delete_stmt(at.stmt, at.block, at.at, &rule)?,
                        ));
                    }
                    // A borrow is kept to the end of the block, anything else to the end of the statement.
                    let borrows = matches!(&init.kind, ExprKind::Ref { .. });
                    let text = match (&subject, borrows) {
                        (Subject::Plain(_), true) => self
                            .hold(init, false)
                            .unwrap_or_else(|| format!("let _ = {};", self.src(init.span))),
                        _ => self.evaluate(init),
                    };
                    return self.edit(at.stmt.span, text, &rule);
                }
                // Part of a larger pattern: only that part changes.
                let mut edits = vec![Edit::new(pat.span, out.text.clone(), &rule)];
                self.scrutinee_edits(init, &subject, &rule, &mut edits);
                if diverge.is_some() {
                    edits.push(Edit::new(
                        Span::new(init.span.hi, at.stmt.span.hi),
                        ";",
                        &rule,
                    ));
                }
                (!self.is_frozen(at.stmt.span)).then_some(EditGroup { edits })
            }
        }
    }
}

enum Chain<'a> {
    Never(String),
    /// Never, but this is evaluated.
    NeverAfter(&'a Expr, String),
    /// A single link that always holds, and keeps alive what no `let` would: a match's head, up to its arrow.
    Held {
        head: String,
        rule: String,
    },
    Changed {
        edits: Vec<Edit>,
        lets: Vec<String>,
        rule: String,
        n_left: usize,
    },
}

/// The parts of what is matched whose evaluation does something.
fn effectful(subject: &Subject) -> Vec<&Payload> {
    match subject {
        Subject::Plain(payload) | Subject::Known(payload) | Subject::Fine(payload) => {
            if payload.effects {
                vec![payload]
            } else {
                vec![]
            }
        }
        Subject::Tuple(parts) => parts.iter().flat_map(effectful).collect(),
    }
}

/// `feature = "x"` as the tokens print it, without the blanks that printing adds.
fn tidy_tokens(tokens: &str) -> String {
    tokens
        .replace(" (", "(")
        .replace("( ", "(")
        .replace(" )", ")")
        .replace(" ,", ",")
}

/// Arms that earlier ones leave nothing for. With `outs`, patterns as they are rewritten; `Never` arms are left out.
///
/// `len`: how many elements an array that is matched has.
fn unreachable(
    cx: &Cx<'_>,
    arms: &[Arm],
    outs: Option<&[PatOut]>,
    len: Option<usize>,
) -> Vec<usize> {
    let mut seen: Vec<Vec<Simple>> = Vec::new();
    let mut out = Vec::new();
    for (at, arm) in arms.iter().enumerate() {
        if outs.is_some_and(|outs| matches!(outs[at].kind, Kind::Never)) {
            continue;
        }
        let simple = simplify(cx, &arm.pat, outs.is_some()).of_length(len);
        if !useful(&seen, std::slice::from_ref(&simple)) {
            out.push(at);
        }
        let has_cfg = arm.attrs.iter().any(|attr| attr.path == "cfg");
        if arm.guard.is_none() && !has_cfg {
            seen.push(vec![simple]);
        }
    }
    out
}

/// Alternatives of an arm's pattern that earlier arms and alternatives leave nothing for: arm and place in it.
fn unreachable_cases(
    cx: &Cx<'_>,
    arms: &[Arm],
    outs: Option<&[PatOut]>,
    len: Option<usize>,
) -> Vec<(usize, usize)> {
    let mut seen: Vec<Vec<Simple>> = Vec::new();
    let mut out = Vec::new();
    for (at, arm) in arms.iter().enumerate() {
        if outs.is_some_and(|outs| matches!(outs[at].kind, Kind::Never)) {
            continue;
        }
        let has_cfg = arm.attrs.iter().any(|attr| attr.path == "cfg");
        let counts = arm.guard.is_none() && !has_cfg;
        let crate::syntax::PatKind::Or(cases) = &arm.pat.kind else {
            if counts {
                seen.push(vec![simplify(cx, &arm.pat, outs.is_some()).of_length(len)]);
            }
            continue;
        };
        let mut inside = seen.clone();
        for (nth, case) in cases.iter().enumerate() {
            if outs.is_some() && matches!(cx.pat_kind(case), Kind::Never) {
                continue;
            }
            let simple = simplify(cx, case, outs.is_some()).of_length(len);
            if useful(&inside, std::slice::from_ref(&simple)) {
                inside.push(vec![simple]);
            } else {
                out.push((at, nth));
            }
        }
        if counts {
            seen = inside;
        }
    }
    out
}

/// A pattern reduced to constructors; Maranget, "Warnings for pattern matching" (2007).
#[derive(Debug, Clone)]
enum Simple {
    Wild,
    /// Name, how many siblings there are in all (none: unknown), parts.
    Ctor {
        name: String,
        siblings: Option<Vec<(String, usize)>>,
        parts: Vec<Simple>,
    },
    Or(Vec<Simple>),
    /// Something that covers no more than itself.
    Opaque(String),
}

impl Simple {
    /// A slice's pattern where it is known how many elements there are: `[a, ..]` stands for the rest as well then.
    fn of_length(self, len: Option<usize>) -> Simple {
        let Some(len) = len else { return self };
        match self {
            Simple::Or(cases) => Simple::Or(
                cases
                    .into_iter()
                    .map(|case| case.of_length(Some(len)))
                    .collect(),
            ),
            Simple::Ctor {
                name,
                siblings: None,
                parts,
            } if name.starts_with('[') => {
                let shape = name.trim_matches(['[', ']']);
                let n_first = match shape.split_once("..") {
                    Some((first, _)) => first.parse().unwrap_or(parts.len()),
                    None => parts.len(),
                };
                if parts.len() > len {
                    return Simple::Ctor {
                        name,
                        siblings: None,
                        parts,
                    };
                }
                let mut all = parts;
                let last = all.split_off(n_first.min(all.len()));
                all.resize(len - last.len(), Simple::Wild);
                all.extend(last);
                let name = format!("[{len}]");
                Simple::Ctor {
                    siblings: Some(vec![(name.clone(), len)]),
                    name,
                    parts: all,
                }
            }
            other => other,
        }
    }
}

fn simplify(cx: &Cx<'_>, pat: &Pat, rewritten: bool) -> Simple {
    use crate::syntax::PatKind;
    use crate::world::{DefKind, Res};
    let text = cx.src(pat.span);
    let ctor = |path: &crate::syntax::Path, parts: Vec<Simple>| -> Simple {
        let (def, at) = match cx.an.path(path).map(|found| found.res.clone()) {
            Some(Res::Variant(def, at)) => (def, at),
            Some(Res::Def(def)) if matches!(cx.world.defs[def].kind, DefKind::Struct { .. }) => {
                let name = cx.world.defs[def].name.clone();
                let n_fields = match &cx.world.defs[def].kind {
                    DefKind::Struct { fields, .. } => fields.len().max(parts.len()),
                    _ => parts.len(),
                };
                let mut parts = parts;
                parts.resize(n_fields, Simple::Wild);
                return Simple::Ctor {
                    siblings: Some(vec![(name.clone(), parts.len())]),
                    name,
                    parts,
                };
            }
            // Of an enum that is not known: what has the same path and as many parts is the same variant.
            _ if !parts.is_empty() => {
                return Simple::Ctor {
                    name: format!("{}/{}", cx.src(path.span), parts.len()),
                    siblings: None,
                    parts,
                };
            }
            _ => return Simple::Opaque(text.to_owned()),
        };
        if rewritten
            && cx
                .rules
                .enums
                .iter()
                .any(|rule| rule.def == def && rule.survivor == at)
        {
            return parts.into_iter().next().unwrap_or(Simple::Wild);
        }
        let DefKind::Enum { variants, .. } = &cx.world.defs[def].kind else {
            return Simple::Opaque(text.to_owned());
        };
        let arity = variants[at].fields.len();
        let mut parts = parts;
        parts.resize(arity, Simple::Wild);
        let siblings = variants
            .iter()
            .map(|variant| (variant.name.clone(), variant.fields.len()))
            .collect();
        Simple::Ctor {
            name: variants[at].name.clone(),
            siblings: Some(siblings),
            parts,
        }
    };
    match &pat.kind {
        PatKind::Wild | PatKind::Rest => Simple::Wild,
        PatKind::Ident { name, sub, .. } => match cx
            .an
            .paths
            .get(&name.span.lo)
            .filter(|found| found.path.span == name.span)
        {
            Some(found) => ctor(&found.path.clone(), vec![]),
            None => sub
                .as_ref()
                .map_or(Simple::Wild, |sub| simplify(cx, sub, rewritten)),
        },
        PatKind::Path(path) => ctor(path, vec![]),
        PatKind::TupleStruct { path, elems } => {
            if elems.iter().any(|elem| matches!(elem.kind, PatKind::Rest)) {
                return if elems.len() == 1 {
                    ctor(path, vec![])
                } else {
                    Simple::Opaque(text.to_owned())
                };
            }
            ctor(
                path,
                elems
                    .iter()
                    .map(|elem| simplify(cx, elem, rewritten))
                    .collect(),
            )
        }
        PatKind::Tuple(elems) => {
            if elems.iter().any(|elem| matches!(elem.kind, PatKind::Rest)) {
                return Simple::Opaque(text.to_owned());
            }
            let parts: Vec<Simple> = elems
                .iter()
                .map(|elem| simplify(cx, elem, rewritten))
                .collect();
            Simple::Ctor {
                name: "()".into(),
                siblings: Some(vec![("()".into(), parts.len())]),
                parts,
            }
        }
        PatKind::Struct { path, fields, .. } => {
            // A wrapper that is gone is its payload.
            if rewritten && let Some(Retired::Wrapper(rule)) = cx.retired_path(path) {
                return fields
                    .iter()
                    .find(|field| field.name.text == rule.spec.payload)
                    .map_or(Simple::Wild, |field| match &field.pat.kind {
                        PatKind::TupleStruct { elems, .. } if elems.len() == 1 => {
                            simplify(cx, &elems[0], rewritten)
                        }
                        _ => Simple::Wild,
                    });
            }
            let (name, members, siblings) = match cx.an.path(path).map(|found| found.res.clone()) {
                Some(Res::Variant(def, at)) => match &cx.world.defs[def].kind {
                    DefKind::Enum { variants, .. } => {
                        let siblings = variants
                            .iter()
                            .map(|variant| (variant.name.clone(), variant.fields.len()))
                            .collect();
                        (variants[at].name.clone(), &variants[at].fields, siblings)
                    }
                    _ => return Simple::Opaque(text.to_owned()),
                },
                Some(Res::Def(def)) => match &cx.world.defs[def].kind {
                    DefKind::Struct { fields, .. } => (
                        cx.world.defs[def].name.clone(),
                        fields,
                        vec![(cx.world.defs[def].name.clone(), fields.len())],
                    ),
                    _ => return Simple::Opaque(text.to_owned()),
                },
                _ => return Simple::Opaque(text.to_owned()),
            };
            let parts = members
                .iter()
                .map(|(member, _)| {
                    fields
                        .iter()
                        .find(|field| field.name.text == *member)
                        .map_or(Simple::Wild, |field| simplify(cx, &field.pat, rewritten))
                })
                .collect();
            Simple::Ctor {
                name,
                siblings: Some(siblings),
                parts,
            }
        }
        PatKind::Slice(elems) => {
            // Slices of the same shape are compared part by part; how long a slice may be is not known.
            let is_rest = |elem: &Pat| {
                matches!(&elem.kind, PatKind::Rest)
                    || matches!(&elem.kind, PatKind::Ident { sub: Some(sub), .. } if matches!(sub.kind, PatKind::Rest))
            };
            let rest = elems.iter().position(is_rest);
            let parts: Vec<Simple> = elems
                .iter()
                .filter(|elem| !is_rest(elem))
                .map(|elem| simplify(cx, elem, rewritten))
                .collect();
            let name = match rest {
                Some(at) => format!("[{at}..{}]", elems.len() - at - 1),
                None => format!("[{}]", elems.len()),
            };
            Simple::Ctor {
                name,
                siblings: None,
                parts,
            }
        }
        PatKind::Or(cases) => {
            let live = cases
                .iter()
                .filter(|case| !(rewritten && matches!(cx.pat_kind(case), Kind::Never)));
            Simple::Or(live.map(|case| simplify(cx, case, rewritten)).collect())
        }
        PatKind::Paren(inner) | PatKind::Ref { inner, .. } | PatKind::Type { inner, .. } => {
            simplify(cx, inner, rewritten)
        }
        _ => Simple::Opaque(text.to_owned()),
    }
}

impl<'a> Cx<'a> {
    /// How many elements an array has: it is written there, or its type is.
    fn fixed_length(&self, array: &Expr) -> Option<usize> {
        match &array.kind {
            ExprKind::Paren(inner) | ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) => {
                self.fixed_length(inner)
            }
            ExprKind::Array(elems) => Some(elems.len()),
            ExprKind::Path(_) => {
                let local = &self.an.locals[self.an.local(array)?];
                let is_it = |pat: &Pat| matches!(&pat.kind, crate::syntax::PatKind::Ident { name, by_ref: false, sub: None, .. } if name.span == local.span);
                let of_params = self
                    .nodes
                    .functions
                    .iter()
                    .flat_map(|(_, f)| &f.sig.params)
                    .find(|param| is_it(&param.pat))
                    .map(|param| &param.ty);
                let of_lets = || {
                    self.nodes.lets.iter().find_map(|at| match &at.stmt.kind {
                        StmtKind::Let { pat, ty, .. } if is_it(pat) => ty.as_ref(),
                        _ => None,
                    })
                };
                let mut ty = of_params.or_else(of_lets)?;
                while let crate::syntax::TyKind::Ref { inner, .. } = &ty.kind {
                    ty = inner;
                }
                let crate::syntax::TyKind::Array(_) = &ty.kind else {
                    return None;
                };
                let (_, len) = self.src(ty.span).strip_suffix(']')?.rsplit_once(';')?;
                len.trim().parse().ok()
            }
            _ => None,
        }
    }

    fn pat_kind(&self, pat: &Pat) -> Kind {
        // Only whether a variant is gone is asked.
        match &pat.kind {
            crate::syntax::PatKind::Path(path)
            | crate::syntax::PatKind::Struct { path, .. }
            | crate::syntax::PatKind::TupleStruct { path, .. } => {
                match self.an.path(path).map(|found| found.res.clone()) {
                    Some(crate::world::Res::Variant(def, at))
                        if self
                            .rules
                            .enums
                            .iter()
                            .any(|rule| rule.def == def && rule.survivor != at) =>
                    {
                        Kind::Never
                    }
                    _ => Kind::Sometimes,
                }
            }
            _ => Kind::Sometimes,
        }
    }
}

/// Whether a row matches something that the rows above do not.
fn useful(rows: &[Vec<Simple>], row: &[Simple]) -> bool {
    let Some((head, tail)) = row.split_first() else {
        return rows.is_empty();
    };
    // Or-patterns in earlier rows count as several rows.
    let mut expanded: Vec<Vec<Simple>> = Vec::new();
    for row in rows {
        expand(row, &mut expanded);
    }
    match head {
        Simple::Or(cases) => cases.iter().any(|case| {
            let mut row = vec![case.clone()];
            row.extend(tail.iter().cloned());
            useful(&expanded, &row)
        }),
        Simple::Opaque(text) => {
            let rows: Vec<Vec<Simple>> = expanded
                .iter()
                .filter(|row| match &row[0] {
                    Simple::Wild => true,
                    Simple::Opaque(other) => other == text,
                    _ => false,
                })
                .map(|row| row[1..].to_vec())
                .collect();
            useful(&rows, tail)
        }
        Simple::Ctor { name, parts, .. } => {
            let rows = specialize(&expanded, name, parts.len());
            let mut row = parts.clone();
            row.extend(tail.iter().cloned());
            useful(&rows, &row)
        }
        Simple::Wild => {
            let siblings = expanded.iter().find_map(|row| match &row[0] {
                Simple::Ctor { siblings, .. } => siblings.clone(),
                _ => None,
            });
            let present = |name: &str| {
                expanded
                    .iter()
                    .any(|row| matches!(&row[0], Simple::Ctor { name: other, .. } if other == name))
            };
            match siblings {
                Some(siblings) if siblings.iter().all(|(name, _)| present(name)) => {
                    siblings.iter().any(|(name, arity)| {
                        let rows = specialize(&expanded, name, *arity);
                        let mut row = vec![Simple::Wild; *arity];
                        row.extend(tail.iter().cloned());
                        useful(&rows, &row)
                    })
                }
                _ => {
                    let rows: Vec<Vec<Simple>> = expanded
                        .iter()
                        .filter(|row| matches!(row[0], Simple::Wild))
                        .map(|row| row[1..].to_vec())
                        .collect();
                    useful(&rows, tail)
                }
            }
        }
    }
}

fn expand(row: &[Simple], out: &mut Vec<Vec<Simple>>) {
    match row.first() {
        Some(Simple::Or(cases)) => {
            for case in cases {
                let mut one = vec![case.clone()];
                one.extend(row[1..].iter().cloned());
                expand(&one, out);
            }
        }
        _ => out.push(row.to_vec()),
    }
}

fn specialize(rows: &[Vec<Simple>], name: &str, arity: usize) -> Vec<Vec<Simple>> {
    rows.iter()
        .filter_map(|row| match &row[0] {
            Simple::Wild => {
                let mut out = vec![Simple::Wild; arity];
                out.extend(row[1..].iter().cloned());
                Some(out)
            }
            Simple::Ctor {
                name: other, parts, ..
            } if other == name => {
                let mut out = parts.clone();
                out.extend(row[1..].iter().cloned());
                Some(out)
            }
            _ => None,
        })
        .collect()
}
