//! Items that other modules of a crate see, once nothing in the tree names them any more.
//!
//! A private item is looked for in its own file and below; of these the whole tree is asked, by name: one mention of it
//! anywhere, in a macro's tokens or a string too, and it stays.

use std::collections::{HashMap, HashSet};

use super::{PlanError, is_deleted_module};
use crate::delete::Deleted;
use crate::session::Session;
use crate::syntax::{File, ItemKind, Span, Vis};
use crate::tidy::{self, Before};
use crate::world::CrateKind;

/// Takes them out. Whether there were any.
pub fn items(
    session: &mut Session<'_>,
    befores: &mut HashMap<usize, Before>,
    deleted: &mut Vec<Deleted>,
) -> Result<bool, PlanError> {
    let names = less_used(session);
    if names.is_empty() {
        return Ok(false);
    }
    let mut any = false;
    for at in 0..session.works.len() {
        let work = &session.works[at];
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if work.deleted || work.keep || work.refused.is_some() || is_deleted_module(session, at) {
            continue;
        }
        let is_program = work.contexts.iter().all(|&context| {
            session.world.crates[session.world.mods[context].krate].kind == CrateKind::Bin
        });
        let found = session
            .view(at, context, |cx| tidy::shared(cx, is_program, &names))
            .unwrap_or_default();
        let unused: Vec<tidy::Shared> = found
            .into_iter()
            .filter(|item| {
                was_used(session, at, item) && !is_named(session, at, item.span, &item.name)
            })
            .collect();
        if unused.is_empty() {
            continue;
        }
        if !befores.contains_key(&at)
            && let Some(before) = session.view_before(at, tidy::before)
        {
            befores.insert(at, before);
        }
        // Its imports are looked at like those of any file that changes.
        session.works[at].hit = true;
        for item in &unused {
            deleted.push(Deleted {
                path: session.works[at].path.clone(),
                at: Some(item.origin.lo),
                what: item.goes.1.clone(),
                why: "nothing uses it any more".into(),
                rule: "unused".into(),
            });
        }
        let groups: Vec<_> = unused.into_iter().map(|item| item.goes.0).collect();
        any |= session.apply(at, &groups)?;
    }
    Ok(any)
}

/// Names that this run has left fewer of.
fn less_used(session: &Session<'_>) -> HashSet<String> {
    let count = |file: &File| {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for ident in &file.idents {
            *counts.entry(ident.text.clone()).or_default() += 1;
        }
        counts
    };
    let mut out = HashSet::new();
    for (at, work) in session.works.iter().enumerate() {
        let goes = work.deleted || is_deleted_module(session, at);
        let Ok(before) = &session.world.files[work.id].parsed else {
            continue;
        };
        if !goes && !work.rope.is_changed() {
            continue;
        }
        let now = match work.parsed() {
            Ok(file) if !goes => count(&file),
            _ => HashMap::new(),
        };
        out.extend(
            count(before)
                .into_iter()
                .filter(|(name, n)| now.get(name).is_none_or(|now| now < n))
                .map(|(name, _)| name),
        );
    }
    out
}

fn was_used(session: &Session<'_>, home: usize, item: &tidy::Shared) -> bool {
    session.works.iter().enumerate().any(|(at, work)| {
        session.world.files[work.id]
            .parsed
            .as_ref()
            .is_ok_and(|file| {
                let own = (at == home).then_some(item.origin);
                count_outside(file, &item.name, own) > 0
            })
    })
}

fn count_outside(file: &File, name: &str, own: Option<Span>) -> usize {
    let imports = private_imports(file, name);
    file.idents
        .iter()
        .filter(|ident| {
            ident.text == name
                && !own.is_some_and(|own| own.contains(ident.span))
                && !imports.iter().any(|import| import.contains(ident.span))
        })
        .count()
}

/// Where a file imports a name for itself, as it is: such an import goes with the last use.
fn private_imports(file: &File, name: &str) -> Vec<Span> {
    let mut out = Vec::new();
    let mut todo: Vec<&crate::syntax::Item> = file.items.iter().collect();
    while let Some(item) = todo.pop() {
        match &item.kind {
            ItemKind::Use(it) if item.vis == Vis::Private => out.extend(
                it.tree
                    .leaves()
                    .into_iter()
                    .filter(|leaf| {
                        leaf.name() == Some(name) && leaf.path.last().is_some_and(|own| own == name)
                    })
                    .map(|leaf| leaf.span),
            ),
            ItemKind::Mod(it) => todo.extend(it.items.iter().flatten()),
            _ => {}
        }
    }
    out
}

/// Whether a name stands anywhere but in the item itself and in imports that go with it.
fn is_named(session: &Session<'_>, home: usize, own: Span, name: &str) -> bool {
    let in_works = session.works.iter().enumerate().any(|(at, work)| {
        if work.deleted || is_deleted_module(session, at) || !work.rope.text().contains(name) {
            return false;
        }
        let Ok(file) = work.parsed() else { return true };
        let own = (at == home).then_some(own);
        if file
            .strings
            .iter()
            .any(|string| string.text(work.rope.text()).contains(name))
            || count_outside(&file, name, own) > 0
        {
            return true;
        }
        // An import that was there without a use is theirs, and stays.
        let n_imports = private_imports(&file, name).len();
        n_imports > 0
            && (work.keep
                || work.refused.is_some()
                || !session.world.files[work.id]
                    .parsed
                    .as_ref()
                    .is_ok_and(|before| count_outside(before, name, None) > 0))
    });
    in_works
        || session.world.files.iter().enumerate().any(|(id, file)| {
            !file.path.starts_with('<')
                && session.works.iter().all(|work| work.id != id)
                && file.text.contains(name)
        })
}
