//! Variants of visible enums that this run took the last construction of: no compiler misses one.

use std::collections::{BTreeSet, HashSet};

use super::{is_deleted_module, records};
use crate::analysis::PathRole;
use crate::record::{Record, RecordKind};
use crate::rewrite::Cx;
use crate::session::Session;
use crate::syntax::{ItemKind, LineIndex, Span, Vis};
use crate::world::{DefId, DefKind, Res};

/// An enum and the place of a variant in it.
type VariantId = (DefId, usize);

/// Derives that make no value out of something else; of any other nobody knows.
const DERIVES: &[&str] = &[
    "Debug",
    "Clone",
    "Copy",
    "PartialEq",
    "Eq",
    "Hash",
    "PartialOrd",
    "Ord",
    "Error",
    "Display",
];

/// Notes on variants that something made before this run and nothing makes now.
pub fn unmade(session: &mut Session<'_>) -> Vec<Record> {
    let mut candidates: BTreeSet<VariantId> = BTreeSet::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        let goes = work.deleted || is_deleted_module(session, at);
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if !goes && !work.rope.is_changed() {
            continue;
        }
        let before = session.view_before(at, made).unwrap_or_default();
        let now = if goes || before.is_empty() {
            HashSet::new()
        } else {
            session.view(at, context, made).unwrap_or_default()
        };
        candidates.extend(before.difference(&now));
    }
    let mut out = Vec::new();
    for (def, nth) in candidates {
        let item = &session.world.defs[def];
        let DefKind::Enum { variants, .. } = &item.kind else {
            continue;
        };
        let name = variants[nth].name.as_str();
        let is_plain = item
            .derives
            .iter()
            .all(|derive| DERIVES.contains(&derive.rsplit("::").next().unwrap_or(derive).trim()));
        if !is_plain || is_made_somewhere(session, (def, nth), name) {
            continue;
        }
        let Some(home) = session.works.iter().position(|work| work.id == item.file) else {
            continue;
        };
        if session.works[home].deleted || is_deleted_module(session, home) {
            continue;
        }
        let place = session.view_before(home, |cx| place_of(cx, item.name_span, name));
        let Some(span) = place.flatten() else {
            continue;
        };
        let work = &session.works[home];
        let text = work.rope.original();
        let mut record = records::located(
            RecordKind::Note,
            &work.path,
            (text, &LineIndex::new(text)),
            span,
            &format!(
                "nothing in this tree makes `{}::{name}` any more",
                item.name
            ),
        );
        record.rule = "unused".into();
        record.suggestion =
            Some("remove it with the arms that match it, unless code elsewhere makes it".into());
        out.push(record);
    }
    out
}

/// The variants that a file makes.
fn made(cx: &Cx<'_>) -> HashSet<VariantId> {
    cx.an
        .paths
        .values()
        .filter(|found| found.role != PathRole::Pattern)
        .filter_map(|found| match found.res {
            Res::Variant(def, nth) => Some((def, nth)),
            _ => None,
        })
        .collect()
}

/// Whether a variant is made, or its name stands where nobody can tell what it does.
fn is_made_somewhere(session: &Session<'_>, variant: VariantId, name: &str) -> bool {
    session.works.iter().enumerate().any(|(at, work)| {
        if work.deleted || is_deleted_module(session, at) || !work.rope.text().contains(name) {
            return false;
        }
        let Some(&context) = work.contexts.first() else {
            return true;
        };
        let found = session.view(at, context, |cx| {
            let patterns: HashSet<usize> = cx
                .an
                .paths
                .values()
                .filter(|found| found.role == PathRole::Pattern)
                .flat_map(|found| &found.path.segs)
                .map(|seg| seg.name.span.lo)
                .collect();
            let declared: HashSet<usize> = cx
                .nodes
                .items
                .iter()
                .filter_map(|(item, _)| match &item.kind {
                    ItemKind::Enum(it) => Some(it),
                    _ => None,
                })
                .flat_map(|it| &it.variants)
                .map(|variant| variant.name.span.lo)
                .collect();
            made(cx).contains(&variant)
                || cx.file.idents.iter().any(|ident| {
                    ident.text == name
                        && !patterns.contains(&ident.span.lo)
                        && !declared.contains(&ident.span.lo)
                        && !names_another(cx, ident.span, variant)
                })
        });
        found.unwrap_or(true)
    })
}

/// Whether an identifier is known to be something else's.
fn names_another(cx: &Cx<'_>, span: Span, variant: VariantId) -> bool {
    cx.an.paths.values().any(|found| {
        found.path.segs.iter().any(|seg| seg.name.span == span)
            && match found.res {
                Res::Variant(def, nth) => (def, nth) != variant,
                Res::Def(_) => true,
                _ => false,
            }
    })
}

/// Where a variant of an enum that others see is declared, where nothing makes it out of something else.
fn place_of(cx: &Cx<'_>, of: Span, name: &str) -> Option<Span> {
    let (item, it) = cx
        .nodes
        .items
        .iter()
        .find_map(|(item, _)| match &item.kind {
            ItemKind::Enum(it) if item.name.as_ref()?.span == of => Some((item, it)),
            _ => None,
        })?;
    let variant = it
        .variants
        .iter()
        .find(|variant| variant.name.text == name)?;
    let text = cx.src(variant.span);
    let is_made_by_an_attribute = text.contains("#[from]") || text.contains("#[default]");
    (item.vis != Vis::Private && !is_made_by_an_attribute).then_some(variant.name.span)
}
