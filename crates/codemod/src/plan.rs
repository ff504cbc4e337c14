//! What a run would do, computed without touching the tree.
//!
//! In order: files that hold a name of the rules are found by a search over raw bytes; the packages around them become a
//! [`World`](crate::world); each file goes through rounds of rewrites until nothing more is proposed; tests, modules and
//! targets that are dead are deleted; new names are written; what is left is reported.

mod exhaust;
mod folded;
mod manifests;
mod records;
mod shared;
mod sources;
mod variants;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::bracket::{BracketFile, brackets};
use crate::delete;
use crate::docs;
use crate::edit::{Edit, EditGroup, Rope};
use crate::leftover::Leftover;
use crate::names;
use crate::record::Record;
use crate::rewrite::Rules;
use crate::rule::{Migration, RuleError};
use crate::session::{Broken, Session};
pub use crate::stage::Change;
use crate::stale;
use crate::syntax::{STACK_BYTES, Span};
use crate::tidy;
use crate::upgrade;
use crate::verify::Evidence;
use crate::walk::Tree;
use crate::world::{self, World};

/// The changes of a run and what it has to say about them.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Sorted by path, one for each file.
    pub changes: Vec<Change>,
    /// Sorted by [`Record::sort_key`].
    pub records: Vec<Record>,
    /// Files that were looked at and stay as they are.
    pub unchanged: usize,
    /// With [`PlanOptions::exhaustive`]: what was looked at.
    pub examined: Option<Examined>,
}

#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Only files of these packages; all where it is empty.
    pub packages: Vec<String>,
    /// What the compiler said of earlier plans of the same run.
    pub evidence: Vec<Evidence>,
    /// Parses and resolves every file, also where no name stands and in packages that can name nothing of the rules.
    pub exhaustive: bool,
    /// Threads; one for each core where it is `None`.
    pub jobs: Option<usize>,
}

pub use exhaust::Examined;

/// Why no plan could be made; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error("{path}: {source}")]
    Read {
        path: String,
        source: std::io::Error,
    },
    #[error("there is no package `{0}` in this tree")]
    NoPackage(String),
    /// Its manifests, sorted.
    #[error("{} packages of the tree are named `{name}`, and which one code means cannot be told: {}", manifests.len(), manifests.join(", "))]
    Namesakes {
        name: String,
        manifests: Vec<String>,
    },
    #[error("the planner stopped: {0}")]
    Stopped(String),
}

/// Plans the migrations over a tree.
///
/// # Errors
/// A migration that names what no surface declares, a file that cannot be read, a rewrite whose result does not parse.
pub fn plan(
    tree: &Tree,
    migrations: &[Migration],
    options: &PlanOptions,
) -> Result<Plan, PlanError> {
    // The parser is recursive: it gets a stack that no source reaches the end of.
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("plan".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || run(tree, migrations, options));
        match worker {
            Ok(handle) => handle.join().unwrap_or_else(|panic| {
                let text = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Err(PlanError::Stopped(
                    text.unwrap_or_else(|| "a panic without a message".into()),
                ))
            }),
            Err(err) => Err(PlanError::Stopped(format!("no thread: {err}"))),
        }
    })
}

fn run(tree: &Tree, migrations: &[Migration], options: &PlanOptions) -> Result<Plan, PlanError> {
    let workers = crate::workers(options.jobs)
        .map_err(|err| PlanError::Stopped(format!("no threads: {err}")))?;
    let found = sources::Sources::read(tree, migrations, options, &workers)?;
    let mut plan = if found.hits.is_empty() {
        let mut records: Vec<Record> = found.records.clone();
        let mut changes = Vec::new();
        manifests::upgrade(tree, &found, migrations, &mut changes, &mut records);
        sort(&mut records);
        changes.sort_by(|a, b| a.path().cmp(b.path()));
        let unchanged = found.n_files - changes.len().min(found.n_files);
        Plan {
            changes,
            records,
            unchanged,
            examined: None,
        }
    } else {
        over(&found, migrations, options, &mut |_| {})?
    };
    if options.exhaustive {
        exhaust::rest(migrations, options, &found, &workers, &mut plan)?;
    }
    Ok(plan)
}

/// Plans over files that were read.
fn over(
    found: &sources::Sources<'_>,
    migrations: &[Migration],
    options: &PlanOptions,
    look: &mut dyn FnMut(&World),
) -> Result<Plan, PlanError> {
    let tree = found.tree();
    let mut records: Vec<Record> = found.records.clone();
    let mut surfaces: Vec<_> = migrations.iter().flat_map(Migration::surfaces).collect();
    surfaces.extend(world::usual_surface::of(|package| {
        let mut externs = found.specs.iter().flat_map(|spec| spec.externs.values());
        externs.any(|name| name == package)
            && surfaces.iter().all(|surface| surface.package != package)
    }));
    let mut world = World::build(&found.specs, &surfaces, found);
    look(&world);
    let mut rules = Rules::compile(&mut world, migrations)?;
    rules.upgrade.sides = found.sides.clone();
    rules.upgrade.depends_on = found.depends_on();
    docs::prepare(&mut world, &|file| {
        found.hits.contains(&file.path) || file.is_fragment
    });
    let proven = proven(&world, &rules, &options.evidence);
    records.extend(orphans(&world, &rules, found));
    records.extend(included_examples(&world, &rules, found));
    let mut held = HashSet::new();
    let mut extra: Vec<(usize, Leftover)> = Vec::new();
    // A function that came to nothing stays as it was, and what follows from that is seen by doing it all again.
    let (mut session, mut deleted) = loop {
        let mut session = open(&world, &rules, found);
        session.proven.clone_from(&proven);
        session.held.clone_from(&held);
        let deleted = fold(&mut session)?;
        let hollow = folded::functions(&mut session);
        if hollow.is_subset(&held) {
            break (session, deleted);
        }
        held.extend(hollow);
    };
    let (mods, left) = delete::modules(&mut session)?;
    deleted.extend(mods);
    extra.extend(left);
    let leftovers = collect_leftovers(&mut session)?;
    session.held_aliases = held_aliases(&session);
    let mut kept = kept_on_purpose(&session);
    kept.extend(emptied(&mut session));
    kept.extend(made_empty(&session));
    rename(&mut session, &leftovers)?;
    records.extend(unused_members(&mut session));
    records.extend(variants::unmade(&mut session));
    records.extend(unreached(&session));
    extra.extend(bracket(&mut session)?);
    extra.extend(upgraded(&mut session, &mut deleted)?);
    let mut notes: Vec<(usize, Leftover)> = kept;
    for at in 0..session.works.len() {
        if !takes_part(&session, at) {
            continue;
        }
        let said = docs::follow(&mut session, at)?;
        extra.extend(said.unresolved.into_iter().map(|left| (at, left)));
        notes.extend(said.notes.into_iter().map(|note| (at, note)));
    }
    notes.extend(stale_comments(&mut session));
    records.extend(lay_out(&mut session, found)?);
    records.extend(records::of_session(
        &session, &leftovers, &extra, &notes, &deleted,
    ));
    records::lines_after(&session, &mut records);
    let mut changes = records::changes(&session, found);
    manifests::follow(tree, found, &session, &deleted, &mut changes, &mut records);
    manifests::upgrade(tree, found, migrations, &mut changes, &mut records);
    sort(&mut records);
    changes.sort_by(|a, b| a.path().cmp(b.path()));
    let unchanged = found.n_files - changes.len().min(found.n_files);
    Ok(Plan {
        changes,
        records,
        unchanged,
        examined: None,
    })
}

/// In the order of the report. A fragment is analysed once for each place; the same thing is said once.
fn sort(records: &mut Vec<Record>) {
    records.sort_by(|a, b| {
        a.sort_key()
            .cmp(&b.sort_key())
            .then_with(|| a.reason.cmp(&b.reason))
    });
    records.dedup();
}

/// The files of a run, each with what may be done to it.
fn open<'w>(world: &'w World, rules: &'w Rules, found: &sources::Sources<'_>) -> Session<'w> {
    let mut session = Session::new(world, rules);
    for id in 0..world.files.len() {
        let file = &world.files[id];
        if file.path.starts_with('<') || file.contexts.is_empty() {
            continue;
        }
        let at = session.add(id);
        let work = &mut session.works[at];
        work.hit = found.hits.contains(&work.path) || file.is_fragment;
        work.keep = !found.in_scope(&work.path)
            || work
                .contexts
                .iter()
                .any(|context| rules.kept_mods.contains(context))
            || work
                .contexts
                .iter()
                .any(|context| !found.can_see(world, *context));
        if let Err(err) = &file.parsed
            && found.hits.contains(&file.path)
        {
            work.refused = Some(whole(
                err.at,
                format!("the file does not parse: {}", err.message),
                "repair it, then run again",
            ));
        } else if file.parsed.is_err() {
            work.keep = true;
        } else if found.hits.contains(&file.path) && sources::is_generated(&file.text) && !work.keep
        {
            work.refused = Some(whole(
                0,
                "the file is generated".into(),
                "change what generates it",
            ));
        }
    }
    session
}

/// Rewrites, then deletes what that leaves without a use. What was deleted.
fn fold(session: &mut Session<'_>) -> Result<Vec<delete::Deleted>, PlanError> {
    let mut befores = rewrite(session)?;
    let mut deleted = Vec::new();
    // Deletions leave things unused, and what is unused may have held up a deletion.
    loop {
        let gone = delete::test_code(session)?;
        let none = gone.is_empty();
        deleted.extend(gone);
        let mods = delete::orphaned_mods(session)?;
        let tidied = tidy_all(session, &befores, &mut deleted)?;
        let shared = shared::items(session, &mut befores, &mut deleted)?;
        if none && !mods && !tidied && !shared {
            break;
        }
    }
    Ok(deleted)
}

/// Members that the compiler misses on a new type: their receivers have that type.
///
/// `no field x on type &New` proves what inference could not tell; whatever else it says is shown and not acted upon.
fn proven(world: &World, rules: &Rules, evidence: &[Evidence]) -> HashMap<(usize, usize), usize> {
    let mut out = HashMap::new();
    for round in evidence {
        for diagnostic in round
            .diagnostics
            .iter()
            .filter(|diagnostic| matches!(diagnostic.code.as_deref(), Some("E0609" | "E0599")))
        {
            let quoted: Vec<&str> = diagnostic.message.split('`').skip(1).step_by(2).collect();
            let [_, ty, ..] = quoted[..] else { continue };
            let name = ty
                .trim_start_matches(['&', '('])
                .trim_start_matches("mut ")
                .rsplit("::")
                .next()
                .unwrap_or(ty);
            let retired = rules
                .retired_types()
                .find(|retired| world.defs[retired.becomes()].name == name)
                .map(|retired| retired.def());
            let (Some(def), Some(file)) = (retired, world.file_id(&diagnostic.file)) else {
                continue;
            };
            // The position is one of the changed file: an edit of all of it knows where each byte came from.
            let change = round.changes.iter().find_map(|change| match change {
                Change::Write {
                    path,
                    before,
                    after,
                } if *path == diagnostic.file => Some((before, after)),
                _ => None,
            });
            let origin = match change {
                Some((before, after)) => {
                    let (Ok(before), Ok(after)) =
                        (std::str::from_utf8(before), std::str::from_utf8(after))
                    else {
                        continue;
                    };
                    let mut rope = Rope::new(before);
                    if rope
                        .apply(&[Edit::new(Span::new(0, before.len()), after, "verify")])
                        .is_err()
                    {
                        continue;
                    }
                    match rope.exact_origin(diagnostic.byte_start) {
                        Some(origin) => origin,
                        None => continue,
                    }
                }
                None => diagnostic.byte_start,
            };
            out.insert((file, origin), def);
        }
    }
    out
}

/// Files that hold a retired name and belong to no target: nobody can say what their names mean.
fn orphans(world: &World, rules: &Rules, found: &sources::Sources<'_>) -> Vec<Record> {
    let names: HashSet<&str> = rules
        .retired_types()
        .map(|retired| world.defs[retired.def()].name.as_str())
        .collect();
    // Names of a dependency's items may be anyone's: a file is concerned if it names the dependency too.
    let upgraded: HashSet<&str> = rules.upgrade.names(world).collect();
    let crates: HashSet<String> = rules
        .upgrade
        .dependencies
        .iter()
        .map(|rule| rule.package.replace('-', "_"))
        .collect();
    let mut out = Vec::new();
    for path in found
        .hits
        .iter()
        .filter(|path| found.in_scope(path) && found.concerns(path))
    {
        if world
            .file_id(path)
            .is_some_and(|id| !world.files[id].contexts.is_empty())
        {
            continue;
        }
        let Some(text) = found.text(path) else {
            continue;
        };
        let names_a_crate = |file: &crate::syntax::File| {
            file.idents
                .iter()
                .any(|ident| crates.contains(ident.text.as_str()))
        };
        let (at, reason, hint) = match crate::syntax::parse(&text) {
            Ok(file) => {
                let with_upgraded = !upgraded.is_empty() && names_a_crate(&file);
                match file.idents.iter().find(|ident| {
                    let name = ident.text.as_str();
                    names.contains(name) || (with_upgraded && upgraded.contains(name))
                }) {
                    Some(ident) => (
                        ident.span.lo,
                        format!(
                            "no target of the tree reaches this file, so what `{}` means here cannot be told",
                            ident.text
                        ),
                        "declare it as a module, or rewrite it by hand",
                    ),
                    None => continue,
                }
            }
            Err(err)
                if names.iter().any(|name| text.contains(name))
                    || (upgraded.iter().any(|name| text.contains(name))
                        && crates.iter().any(|name| text.contains(name.as_str()))) =>
            {
                (
                    err.at,
                    format!("the file does not parse: {}", err.message),
                    "repair it, or rewrite it by hand",
                )
            }
            Err(_) => continue,
        };
        let index = crate::syntax::LineIndex::new(&text);
        let kind = crate::record::RecordKind::Unresolved;
        let mut record = records::located(kind, path, (&text, &index), Span::new(at, at), &reason);
        record.suggestion = Some(hint.to_owned());
        out.push(record);
    }
    out
}

/// Examples of Markdown files that the documentation of code that may name what is gone includes.
fn included_examples(world: &World, rules: &Rules, found: &sources::Sources<'_>) -> Vec<Record> {
    let sees = |file: &world::SourceFile| {
        found.in_scope(&file.path)
            && file
                .contexts
                .iter()
                .any(|context| found.can_see(world, *context))
    };
    let read = |path: &str| found.in_scope(path).then(|| found.text(path)).flatten();
    docs::included(world, rules, &sees, &read)
        .into_iter()
        .map(|site| {
            let index = crate::syntax::LineIndex::new(&site.text);
            let kind = crate::record::RecordKind::Note;
            let place = (&*site.text, &index);
            let mut record = records::located(kind, &site.path, place, site.span, &site.reason());
            record.rule = docs::RULE.into();
            record.suggestion = site.suggestion;
            record
        })
        .collect()
}

/// Notes on files of test code that stay, but that only deleted ones declared.
fn unreached(session: &Session<'_>) -> Vec<Record> {
    let world = session.world;
    let works = || session.works.iter();
    let gone: HashSet<usize> = works()
        .filter(|work| work.deleted)
        .map(|work| work.id)
        .collect();
    works()
        .filter(|work| !work.deleted && !work.keep && !work.contexts.is_empty())
        .filter(|work| {
            work.contexts.iter().all(|&context| {
                world.is_test_code(context)
                    && world
                        .ancestors(context)
                        .any(|module| gone.contains(&world.mods[module].file))
            })
        })
        .map(|work| {
            let mut record = sources::file_record(
                crate::record::RecordKind::Note,
                &work.path,
                "no target reaches this file any more: what declared it is deleted",
                Some("delete it if nothing else needs it"),
            );
            record.rule = "dead-test".into();
            record
        })
        .collect()
}

/// Notes on variants and fields that this run took the last use of.
fn unused_members(session: &mut Session<'_>) -> Vec<Record> {
    let mut out = Vec::new();
    for at in 0..session.works.len() {
        let Some(&context) = session.works[at].contexts.first() else {
            continue;
        };
        if session.works[at].deleted || !session.works[at].rope.is_changed() {
            continue;
        }
        let Some(before) = session.view_before(at, tidy::member_uses) else {
            continue;
        };
        let found = session
            .view(at, context, |cx| {
                let mut found: Vec<(usize, String)> = tidy::member_uses(cx)
                    .into_iter()
                    .filter(|(what, (_, now))| {
                        *now == 0 && before.get(what).is_some_and(|(_, was)| *was > 0)
                    })
                    .map(|(what, (at, _))| {
                        (
                            cx.rope.origin(at),
                            format!("{what} has no use left in this file"),
                        )
                    })
                    .collect();
                found.sort();
                found
            })
            .unwrap_or_default();
        let work = &session.works[at];
        let original = work.rope.original();
        let index = crate::syntax::LineIndex::new(original);
        for (origin, text) in found {
            let kind = crate::record::RecordKind::Note;
            let place = Span::new(origin, origin);
            let mut record = records::located(kind, &work.path, (original, &index), place, &text);
            record.rule = "unused".into();
            record.suggestion = Some("remove it if nothing else needs it".to_owned());
            out.push(record);
        }
    }
    out
}

/// Notes on comments that speak of what is gone, above what this run changed.
fn stale_comments(session: &mut Session<'_>) -> Vec<(usize, Leftover)> {
    let gone = session.rules.gone_names(session.world);
    let terms = &session.rules.terms;
    let mut out = Vec::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        if work.deleted || work.keep || !work.rope.is_changed() || is_deleted_module(session, at) {
            continue;
        }
        let (Ok(now), hunks) = (work.parsed(), work.rope.hunks()) else {
            continue;
        };
        // A local of a member's name is not that member.
        let is_used = |ident: &&crate::syntax::Name| {
            !session.rules.distinctive.contains(&ident.text)
                || work.rope.text()[..ident.span.lo].trim_end().ends_with('.')
        };
        let words = stale::Vocabulary {
            gone: gone.clone(),
            terms,
            named: now
                .idents
                .iter()
                .filter(is_used)
                .map(|ident| ident.text.as_str())
                .collect(),
        };
        let found = session.view_before(at, |cx| stale::comments(cx, &hunks, &words));
        out.extend(found.unwrap_or_default().into_iter().map(|note| (at, note)));
    }
    out
}

/// Brackets around calls, over all files at once: what belongs to one struct is one group.
fn bracket(session: &mut Session<'_>) -> Result<Vec<(usize, Leftover)>, PlanError> {
    if session.rules.brackets.is_empty() {
        return Ok(vec![]);
    }
    let which: Vec<usize> = (0..session.works.len())
        .filter(|&at| {
            let work = &session.works[at];
            work.hit
                && !work.keep
                && !work.deleted
                && work.refused.is_none()
                && !is_deleted_module(session, at)
        })
        .collect();
    for _ in 0..10 {
        let outcome = session.view_all(&which, |views| {
            let files: Vec<BracketFile<'_>> = views
                .iter()
                .map(|(at, module, cx)| BracketFile {
                    path: &session.works[*at].path,
                    cx,
                    module: *module,
                })
                .collect();
            let outcome = brackets(&files, session.world, session.rules);
            let works: Vec<usize> = views.iter().map(|(at, _, _)| *at).collect();
            (outcome, works)
        });
        let Ok((outcome, works)) = outcome else {
            return Ok(vec![]);
        };
        let mut changed = false;
        for (file, group) in &outcome.edits {
            changed |= session.apply(works[*file], std::slice::from_ref(group))?;
        }
        if !changed {
            let mut out = Vec::new();
            for site in outcome.unresolved {
                let at = works[site.file];
                session.works[at].keep_origin(site.span);
                out.push((
                    at,
                    Leftover {
                        span: site.span,
                        rule: site.rule,
                        reason: site.reason,
                        suggestion: site.suggestion,
                        dead: false,
                        reads: false,
                    },
                ));
            }
            return Ok(out);
        }
    }
    Ok(vec![])
}

/// New names, places and results of a dependency's items.
fn upgraded(
    session: &mut Session<'_>,
    deleted: &mut Vec<delete::Deleted>,
) -> Result<Vec<(usize, Leftover)>, PlanError> {
    if session.rules.upgrade.is_empty() {
        return Ok(vec![]);
    }
    let which: Vec<(usize, usize)> = (0..session.works.len())
        .filter_map(|at| {
            let work = &session.works[at];
            let looked_at = work.hit
                && !work.keep
                && !work.deleted
                && work.refused.is_none()
                && !is_deleted_module(session, at);
            Some((at, *work.contexts.first()?)).filter(|_| looked_at)
        })
        .collect();
    // First which imports keep their old names: other files take those names from them.
    let mut aliased = upgrade::Aliased::new();
    for &(at, context) in &which {
        aliased.extend(
            session
                .view(at, context, |cx| upgrade::aliases(cx, context))
                .unwrap_or_default(),
        );
    }
    let mut out = Vec::new();
    for (at, context) in which {
        let found = session
            .view(at, context, |cx| upgrade::look(cx, context, &aliased))
            .unwrap_or_default();
        let group = found.group();
        for left in found.left {
            session.works[at].keep_origin(left.span);
            out.push((at, left));
        }
        for (lo, what, why, rule) in found.deleted {
            deleted.push(delete::Deleted {
                path: session.works[at].path.clone(),
                at: Some(session.works[at].rope.origin(lo)),
                what,
                why,
                rule,
            });
        }
        if let Some(group) = group {
            session.apply(at, &[group])?;
        }
    }
    Ok(out)
}

/// Files that rustfmt had laid out are laid out by it again.
fn lay_out(
    session: &mut Session<'_>,
    found: &sources::Sources<'_>,
) -> Result<Vec<Record>, PlanError> {
    let changed: Vec<usize> = (0..session.works.len())
        .filter(|&at| {
            !session.works[at].deleted
                && session.works[at].rope.is_changed()
                && session.works[at].path.ends_with(".rs")
        })
        .collect();
    let root = found.tree().root();
    let directories: Vec<std::path::PathBuf> = changed
        .iter()
        .map(|&at| root.join(world::parent_dir(&session.works[at].path)))
        .collect();
    let outcomes = {
        let files: Vec<crate::layout::Laid<'_>> = changed
            .iter()
            .zip(&directories)
            .map(|(&at, directory)| {
                let work = &session.works[at];
                let edition = work.contexts.first().map_or(2024, |&context| {
                    session.world.crates[session.world.mods[context].krate].edition
                });
                crate::layout::Laid {
                    directory,
                    edition,
                    before: work.rope.original(),
                    after: work.rope.text(),
                }
            })
            .collect();
        crate::layout::lay_out(&files)
    };
    let mut unknown: Vec<usize> = Vec::new();
    for (&at, outcome) in changed.iter().zip(outcomes) {
        match outcome {
            crate::layout::Outcome::AsItIs => {}
            crate::layout::Outcome::Unknown => unknown.push(at),
            crate::layout::Outcome::Formatted(text) => {
                let whole = Span::new(0, session.works[at].rope.text().len());
                session.apply(at, &[EditGroup::one(Edit::new(whole, text, "layout"))])?;
            }
        }
    }
    let mut records = Vec::new();
    if let Some(&first) = unknown.first() {
        let mut record = sources::file_record(
            crate::record::RecordKind::Note,
            &session.works[first].path,
            &format!(
                "the layout of {} changed files could not be checked by rustfmt",
                unknown.len()
            ),
            Some("run `cargo fmt` where the tree is kept formatted"),
        );
        record.rule = "layout".into();
        records.push(record);
    }
    Ok(records)
}

fn whole(at: usize, reason: String, hint: &str) -> Leftover {
    Leftover {
        span: Span::new(at, at),
        rule: "file".into(),
        reason,
        suggestion: Some(hint.to_owned()),
        dead: false,
        reads: false,
    }
}

/// Rounds of rewrites over every file.
fn rewrite(session: &mut Session<'_>) -> Result<HashMap<usize, tidy::Before>, PlanError> {
    let mut befores = HashMap::new();
    for at in 0..session.works.len() {
        if session.works[at].keep
            || !session.works[at].hit
            || session.works[at].refused.is_some()
            || is_deleted_module(session, at)
        {
            continue;
        }
        if let Some(before) = session.view_before(at, tidy::before) {
            befores.insert(at, before);
        }
        session.rounds(at, &|cx| cx.round())?;
    }
    Ok(befores)
}

/// Whether a file is one that this run changes, and still there.
fn takes_part(session: &Session<'_>, at: usize) -> bool {
    let work = &session.works[at];
    work.hit
        && !work.deleted
        && !work.keep
        && work.refused.is_none()
        && !is_deleted_module(session, at)
}

fn is_deleted_module(session: &Session<'_>, at: usize) -> bool {
    let work = &session.works[at];
    !work.contexts.is_empty()
        && work
            .contexts
            .iter()
            .all(|context| session.rules.deleted_mods.contains_key(context))
}

/// Locals, labels and private items that this run made unused.
fn tidy_all(
    session: &mut Session<'_>,
    befores: &HashMap<usize, tidy::Before>,
    deleted: &mut Vec<delete::Deleted>,
) -> Result<bool, PlanError> {
    let mut any = false;
    for at in 0..session.works.len() {
        let Some(before) = befores.get(&at) else {
            continue;
        };
        if session.works[at].deleted || !session.works[at].rope.is_changed() {
            continue;
        }
        for _ in 0..20 {
            let mut changed = session.rounds(at, &|cx| tidy::locals(cx, before))?;
            // A label or a `mut` less may let a block or a `let` go.
            if changed {
                session.rounds(at, &|cx| cx.round())?;
            }
            let Some(&context) = session.works[at].contexts.first() else {
                break;
            };
            // What is below is looked at only where there is something to delete.
            let any_item = session
                .view(at, context, |cx| {
                    !tidy::items(cx, before, &|_| false).is_empty()
                })
                .unwrap_or(false);
            let children = if any_item {
                child_text(session, at)
            } else {
                HashSet::new()
            };
            let items = session
                .view(at, context, |cx| {
                    if !any_item {
                        return vec![];
                    }
                    tidy::items(cx, before, &|name| children.contains(name))
                        .into_iter()
                        .map(|(group, what, span)| (group, what, cx.rope.origin(span)))
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default();
            if !items.is_empty() {
                let path = session.works[at].path.clone();
                for (_, what, origin) in &items {
                    deleted.push(delete::Deleted {
                        path: path.clone(),
                        at: Some(*origin),
                        what: what.clone(),
                        why: "nothing uses it any more".into(),
                        rule: "unused".into(),
                    });
                }
                let groups: Vec<_> = items.into_iter().map(|(group, _, _)| group).collect();
                changed |= session.apply(at, &groups)?;
                changed |= session.rounds(at, &|cx| cx.round())?;
            }
            any |= changed;
            if !changed {
                break;
            }
        }
    }
    Ok(any)
}

/// Identifiers of the files below a file's modules: private items are seen there.
fn child_text(session: &Session<'_>, at: usize) -> HashSet<String> {
    let contexts = &session.works[at].contexts;
    let mut out = HashSet::new();
    for (other, work) in session.works.iter().enumerate() {
        if other == at || work.deleted {
            continue;
        }
        let below = work.contexts.iter().any(|&context| {
            contexts
                .iter()
                .any(|&outer| session.world.is_descendant(context, outer))
        });
        let fragment = work
            .contexts
            .iter()
            .any(|context| contexts.contains(context));
        if (below || fragment)
            && let Ok(file) = work.parsed()
        {
            out.extend(file.idents.iter().map(|ident| ident.text.clone()));
        }
    }
    out
}

fn collect_leftovers(
    session: &mut Session<'_>,
) -> Result<BTreeMap<usize, Vec<Leftover>>, PlanError> {
    let mut out = BTreeMap::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        if work.deleted || work.refused.is_some() || is_deleted_module(session, at) {
            continue;
        }
        if !work.hit {
            continue;
        }
        let sees = work
            .contexts
            .iter()
            .any(|context| session.rules.kept_mods.contains(context));
        if work.keep && !sees {
            continue;
        }
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        let kept = sees;
        let found = session
            .view(at, context, |cx| {
                let mut found = cx.leftovers();
                let hollow = folded::leftovers(cx, &session.held);
                found.retain(|left| !hollow.iter().any(|held| held.span.overlaps(left.span)));
                found.extend(hollow);
                found.sort_by_key(|left| left.span.lo);
                // A module that is kept as it is may name what is retired anywhere.
                if kept {
                    found.extend(kept_names(cx));
                }
                found
            })
            .unwrap_or_default();
        if !found.is_empty() {
            for left in &found {
                session.works[at].keep_origin(left.span);
            }
            out.insert(at, found);
        }
    }
    Ok(out)
}

/// Aliases that an implementation which is left to a person goes through: under a new name the next run would not know it.
fn held_aliases(session: &Session<'_>) -> HashSet<(usize, usize)> {
    let world = session.world;
    let mut todo = Vec::new();
    for (at, work) in session.works.iter().enumerate() {
        if let Some(&context) = work.contexts.first()
            && work.hit
            && !work.deleted
            && work.refused.is_none()
            && !is_deleted_module(session, at)
        {
            todo.extend(
                session
                    .view(at, context, |cx| cx.aliases_of_left_impls())
                    .unwrap_or_default(),
            );
        }
    }
    let mut out = HashSet::new();
    while let Some(alias) = todo.pop() {
        let def = &world.defs[alias];
        if out.insert((def.file, def.span.lo)) {
            todo.extend(world.aliases_in(alias));
        }
    }
    out
}

/// Places that were emptied for somebody else to see, and are copied from now.
fn emptied(session: &mut Session<'_>) -> Vec<(usize, Leftover)> {
    let mut out = Vec::new();
    for at in 0..session.works.len() {
        let work = &session.works[at];
        if work.deleted || !work.hit || !work.rope.is_changed() {
            continue;
        }
        let found = session.view_before(at, |cx| cx.emptied_for_others());
        let work = &session.works[at];
        let rewritten = |span: Span| {
            work.rope
                .hunks()
                .iter()
                .any(|hunk| hunk.span.overlaps(span))
        };
        out.extend(
            found
                .unwrap_or_default()
                .into_iter()
                .filter(|note| rewritten(note.span))
                .map(|note| (at, note)),
        );
    }
    out
}

/// Places that make what is empty, and count as full from now.
fn made_empty(session: &Session<'_>) -> Vec<(usize, Leftover)> {
    let mut out = Vec::new();
    for (at, work) in session.works.iter().enumerate() {
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if !takes_part(session, at) {
            continue;
        }
        let found = session.view(at, context, |cx| {
            let mut found = cx.made_empty();
            for note in &mut found {
                note.span = cx.rope.origin_span(note.span);
            }
            found
        });
        out.extend(found.unwrap_or_default().into_iter().map(|note| (at, note)));
    }
    out
}

/// Notes on what a `migrate: keep` comment holds back.
fn kept_on_purpose(session: &Session<'_>) -> Vec<(usize, Leftover)> {
    let mut out = Vec::new();
    for (at, work) in session.works.iter().enumerate() {
        let Some(&context) = work.contexts.first() else {
            continue;
        };
        if !takes_part(session, at) || !work.rope.text().contains("migrate: keep") {
            continue;
        }
        let found = session.view(at, context, |cx| {
            let spans = crate::session::kept_by_comment(cx.text, &cx.nodes);
            let mut found: Vec<Leftover> = Vec::new();
            for span in spans {
                let mut paths = cx
                    .an
                    .paths
                    .values()
                    .filter(|path| span.contains(path.path.span));
                let Some(retired) = paths.find_map(|path| cx.retired_path(&path.path)) else {
                    continue;
                };
                found.push(Leftover {
                    span: cx.rope.origin_span(span),
                    rule: retired.rule().to_owned(),
                    reason: format!(
                        "`{}` stays here, as `migrate: keep` asks",
                        cx.world.defs[retired.def()].name
                    ),
                    suggestion: None,
                    dead: false,
                    reads: false,
                });
            }
            found
        });
        out.extend(found.unwrap_or_default().into_iter().map(|note| (at, note)));
    }
    out
}

fn kept_names(cx: &crate::rewrite::Cx<'_>) -> Vec<Leftover> {
    let mut out: Vec<Leftover> = Vec::new();
    for found in cx.an.paths.values() {
        if let Some(retired) = cx.retired_path(&found.path) {
            out.push(Leftover {
                span: found.path.span,
                rule: retired.rule().to_owned(),
                reason: format!(
                    "`{}` is named in a file that this migration does not touch",
                    found.path.last().name.text
                ),
                suggestion: Some(format!("write `{}`", cx.world.defs[retired.becomes()].name)),
                dead: false,
                reads: false,
            });
        }
    }
    out.sort_by_key(|left| left.span.lo);
    out
}

/// New names, then imports.
fn rename(
    session: &mut Session<'_>,
    leftovers: &BTreeMap<usize, Vec<Leftover>>,
) -> Result<(), PlanError> {
    let mut usage: HashMap<usize, _> = HashMap::new();
    for at in 0..session.works.len() {
        if session.works[at].keep
            || !session.works[at].hit
            || session.works[at].refused.is_some()
            || session.works[at].deleted
        {
            continue;
        }
        let context = session.works[at].contexts.first().copied();
        if let Some(context) = context
            && let Some(counts) = session.view_before(at, |cx| names::usage(cx, context))
        {
            usage.insert(at, counts);
        }
        let none = Vec::new();
        // Positions of what is left, kept in step with the edits by their origin.
        let left: Vec<Span> = leftovers
            .get(&at)
            .unwrap_or(&none)
            .iter()
            .map(|left| left.span)
            .collect();
        let Some(context) = context else { continue };
        let groups = session
            .view(at, context, |cx| names::rename_paths(cx, &left))
            .unwrap_or_default();
        session.apply(at, &groups)?;
    }
    // Which names other files take from each module, as the texts stand now.
    let mut taken: HashSet<(usize, String)> = HashSet::new();
    let crates: HashSet<usize> = usage
        .keys()
        .flat_map(|&at| session.works[at].contexts.iter())
        .map(|&context| session.world.mods[context].krate)
        .collect();
    for at in 0..session.works.len() {
        let Some(&context) = session.works[at].contexts.first() else {
            continue;
        };
        if session.works[at].deleted || !crates.contains(&session.world.mods[context].krate) {
            continue;
        }
        let found = session
            .view(at, context, |cx| {
                let takes = names::taken_from(cx, context);
                let idents: HashSet<String> = cx
                    .file
                    .idents
                    .iter()
                    .map(|ident| ident.text.clone())
                    .collect();
                (takes, idents)
            })
            .ok();
        let Some((takes, idents)) = found else {
            continue;
        };
        for (module, name) in takes {
            if name.is_empty() {
                // Everything: what stands in the file may come from there.
                taken.extend(idents.iter().map(|ident| (module, ident.clone())));
            } else {
                // An old name that will be a new one.
                if let world::Res::Def(def) =
                    session.world.name_in(module, &name, world::Ns::Type, None)
                    && let Some(new) = session.world.successor(def)
                {
                    taken.insert((module, session.world.defs[new].name.clone()));
                }
                taken.insert((module, name));
            }
        }
        // Fragments share the scope of what includes them.
        if session.world.files[session.works[at].id].is_fragment {
            for &module in &session.works[at].contexts {
                taken.extend(idents.iter().map(|ident| (module, ident.clone())));
            }
        }
    }
    for at in 0..session.works.len() {
        let Some((modules, blocks)) = usage.get(&at) else {
            continue;
        };
        let Some(&context) = session.works[at].contexts.first() else {
            continue;
        };
        if session.works[at].deleted {
            continue;
        }
        // Edits of neighbouring items may have to wait for each other.
        for _ in 0..8 {
            let groups = session
                .view(at, context, |cx| {
                    names::edit_imports(cx, context, modules, blocks, &|module, name| {
                        taken.contains(&(module, name.to_owned()))
                    })
                })
                .unwrap_or_default();
            if groups.is_empty() || !session.apply(at, &groups)? {
                break;
            }
        }
    }
    Ok(())
}
