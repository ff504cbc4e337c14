//! Examples in documentation, migrated like any code.

use std::collections::HashSet;

use super::extract::{CLOSE, CodeLine, Example, OPEN, Snippet, examples as extract};
use super::order::sort_imports;
use crate::edit::{Edit, EditGroup, Rope};
use crate::leftover::Leftover;
use crate::names;
use crate::rewrite::Cx;
use crate::session::{Broken, Session};
use crate::syntax::{LineIndex, Span, trivia};
use crate::upgrade;
use crate::world::{CrateKind, FileId, ModId, Res, SourceFile, World};

/// The rule that sites inside of examples carry.
pub const RULE: &str = "doc-example";

/// Adds the examples of these files to the world, so that they can be analysed.
pub fn prepare(world: &mut World, wanted: &dyn Fn(&SourceFile) -> bool) {
    for id in 0..world.files.len() {
        let host = &world.files[id];
        let Some(&module) = host.contexts.first() else {
            continue;
        };
        let Ok(file) = &host.parsed else { continue };
        if !wanted(host) {
            continue;
        }
        let found: Vec<(String, Snippet, Option<u16>)> = extract(file, &host.text)
            .iter()
            .filter_map(|example| {
                let snippet = Snippet::of(example)?;
                Some((
                    snippet.key(&host.path, example.language),
                    snippet,
                    example.language.edition,
                ))
            })
            .collect();
        for (key, snippet, edition) in found {
            world.add_snippet(module, &key, &snippet.text, edition);
        }
    }
}

/// What became of an example.
enum Outcome {
    Same,
    Rewritten(EditGroup),
    /// Left as it was; the spans are in the host's text.
    Left(Vec<Leftover>),
}

/// Migrates the examples of a file, each of them whole or not at all.
///
/// Gives what is left of them to a person, at its place in the original file.
///
/// # Errors
/// The file would not parse afterwards, or edits overlap: an error of this tool.
pub fn examples(session: &mut Session<'_>, at: usize) -> Result<Vec<Leftover>, Broken> {
    let work = &session.works[at];
    let Some(&context) = work.contexts.first() else {
        return Ok(vec![]);
    };
    let is_library = session.world.crates[session.world.mods[context].krate].kind == CrateKind::Lib;
    let text = work.rope.text().to_owned();
    let Ok(file) = crate::syntax::parse(&text) else {
        return Ok(vec![]);
    };
    let found: Vec<(Example, Snippet, FileId)> = extract(&file, &text)
        .into_iter()
        .filter_map(|example| {
            let snippet = Snippet::of(&example)?;
            let id = session
                .world
                .file_id(&snippet.key(&work.path, example.language))?;
            Some((example, snippet, id))
        })
        .collect();
    if found.is_empty() {
        return Ok(vec![]);
    }
    let frozen = session
        .view(at, context, |cx| cx.frozen.to_vec())
        .unwrap_or_default();
    let mut groups = Vec::new();
    let mut left = Vec::new();
    for (example, snippet, id) in &found {
        let extent = example.lines[0]
            .full
            .to(example.lines[example.lines.len() - 1].full);
        if frozen.iter().any(|span| span.overlaps(extent)) {
            continue;
        }
        let is_compiled = is_library && example.language.is_compiled;
        match migrate(session, &text, example, snippet, *id, is_compiled) {
            Outcome::Same => {}
            Outcome::Rewritten(group) => groups.push(group),
            Outcome::Left(sites) => left.extend(sites),
        }
    }
    let rope = &session.works[at].rope;
    for site in &mut left {
        site.span = rope.origin_span(site.span);
    }
    session.apply(at, &groups)?;
    Ok(left)
}

fn migrate(
    session: &Session<'_>,
    text: &str,
    example: &Example,
    snippet: &Snippet,
    id: FileId,
    is_compiled: bool,
) -> Outcome {
    let Some(module) = session.world.snippet_root(id) else {
        return Outcome::Same;
    };
    let mut inner = Session::new(session.world, session.rules);
    inner.add(id);
    inner.works[0].contexts = vec![module];
    let place = Place {
        text,
        example,
        snippet,
    };
    if let Err(broken) = inner.rounds(0, &|cx| cx.round()) {
        return Outcome::Left(vec![place.whole(&broken.message)]);
    }
    let look = |cx: &Cx<'_>| upgrade::look(cx, module, &upgrade::aliases(cx, module));
    let Ok((sites, is_ours)) = inner.view(0, module, |cx| {
        let mut sites = cx.leftovers();
        sites.extend(look(cx).left);
        (sites, names_ours(cx))
    }) else {
        return Outcome::Same;
    };
    if !sites.is_empty() {
        // What nobody compiles and what leads nowhere is a mention, like any other comment.
        return if is_compiled || is_ours {
            Outcome::Left(
                sites
                    .iter()
                    .map(|site| place.site(site, &inner.works[0].rope))
                    .collect(),
            )
        } else {
            Outcome::Same
        };
    }
    if let Err(broken) = write_names(&mut inner, module) {
        return Outcome::Left(vec![place.whole(&broken.message)]);
    }
    let upgraded = inner.view(0, module, look).unwrap_or_default();
    if let Some(group) = upgraded.group()
        && let Err(broken) = inner.apply(0, &[group])
    {
        return Outcome::Left(vec![place.whole(&broken.message)]);
    }
    let rope = &inner.works[0].rope;
    if !rope.is_changed() {
        return Outcome::Same;
    }
    match place.edits(rope) {
        Some(edits) if edits.is_empty() => Outcome::Same,
        Some(edits) => Outcome::Rewritten(EditGroup { edits }),
        None => Outcome::Left(vec![place.whole("its new code cannot stand where it is")]),
    }
}

/// Whether anything in an example is known to be what the rules retire.
fn names_ours(cx: &Cx<'_>) -> bool {
    let is_ours =
        |def| cx.rules.retired_def(def).is_some() || cx.rules.deleted_defs.contains_key(&def);
    let named = cx
        .an
        .paths
        .values()
        .any(|found| match cx.world.unalias(found.res.clone()) {
            Res::Def(def) | Res::Variant(def, _) => is_ours(def),
            _ => false,
        });
    named || cx.an.types.values().any(|ty| cx.retired(ty).is_some())
}

/// New names and imports, as for a file.
fn write_names(inner: &mut Session<'_>, module: ModId) -> Result<(), Broken> {
    let Some((modules, blocks)) = inner.view_before(0, |cx| names::usage(cx, module)) else {
        return Ok(());
    };
    let groups = inner
        .view(0, module, |cx| names::rename_paths(cx, &[]))
        .unwrap_or_default();
    inner.apply(0, &groups)?;
    let groups = inner
        .view(0, module, |cx| {
            names::edit_imports(cx, module, &modules, &blocks, &|_, _| false)
        })
        .unwrap_or_default();
    inner.apply(0, &groups)?;
    if inner.works[0].rope.is_changed() {
        let groups = inner
            .view(0, module, |cx| sort_imports(cx, module))
            .unwrap_or_default();
        inner.apply(0, &groups)?;
    }
    Ok(())
}

/// An example between the file that it stands in and the file that it became.
struct Place<'a> {
    text: &'a str,
    example: &'a Example,
    snippet: &'a Snippet,
}

impl Place<'_> {
    fn whole(&self, why: &str) -> Leftover {
        let line = &self.example.lines[0];
        Leftover {
            span: Span::new(line.at(0), line.content.hi),
            rule: RULE.into(),
            reason: format!("the example could not be rewritten: {why}"),
            suggestion: Some("rewrite it by hand".into()),
            dead: false,
            reads: false,
        }
    }

    /// A site of the snippet, at its place in the host.
    fn site(&self, site: &Leftover, rope: &Rope) -> Leftover {
        let old = rope.original();
        let origin = rope.origin(site.span.lo).min(old.len().saturating_sub(1));
        let index = LineIndex::new(old);
        let line = index.line(origin);
        let start = index.line_span(old, line).lo;
        let found = self
            .snippet
            .example_line(line - 1)
            .and_then(|at| self.example.lines.get(at));
        let span = match found {
            Some(line) => {
                let lo = line.at(origin - start);
                let len = if site.span.is_empty() {
                    0
                } else {
                    (rope.origin(site.span.hi - 1) + 1).saturating_sub(origin)
                };
                Span::new(lo, (lo + len).min(line.content.hi).max(lo))
            }
            None => Span::new(
                self.example.lines[0].at(0),
                self.example.lines[0].content.hi,
            ),
        };
        Leftover {
            span,
            rule: RULE.into(),
            reason: format!("in an example: {}", site.reason),
            suggestion: site.suggestion.clone(),
            dead: false,
            reads: false,
        }
    }

    /// The changed lines, with their marks; none where they cannot be written.
    fn edits(&self, rope: &Rope) -> Option<Vec<Edit>> {
        let new = self.rendered(rope)?;
        let lines = &self.example.lines;
        let old: Vec<&str> = lines.iter().map(|line| line.full.text(self.text)).collect();
        let fresh: Vec<&str> = new.iter().map(String::as_str).collect();
        let eol = trivia::eol(self.text);
        let mut edits = Vec::new();
        for op in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &fresh) {
            let (_, from, to) = op.as_tag_tuple();
            if matches!(op, similar::DiffOp::Equal { .. }) {
                continue;
            }
            self.is_one_stretch(&lines[from.clone()])?;
            let text = fresh[to.clone()].join(eol);
            let rule = self.rule_at(rope, from.start);
            if from.is_empty() {
                let beside = lines.get(from.start).or(lines.last())?;
                self.is_one_stretch(std::slice::from_ref(beside))?;
                edits.push(match lines.get(from.start) {
                    Some(next) => {
                        Edit::new(Span::new(next.full.lo, next.full.lo), text + eol, &rule)
                    }
                    None => {
                        let end = lines[from.start - 1].full.hi;
                        Edit::new(Span::new(end, end), format!("{eol}{text}"), &rule)
                    }
                });
                continue;
            }
            let (first, last) = (lines[from.start].full, lines[from.end - 1].full);
            edits.push(if to.is_empty() {
                Edit::new(
                    Span::new(first.lo, trivia::next_line(self.text, last.hi)),
                    "",
                    &rule,
                )
            } else {
                Edit::new(first.to(last), text, &rule)
            });
        }
        Some(edits)
    }

    fn is_one_stretch(&self, lines: &[CodeLine]) -> Option<()> {
        let alone = lines.iter().all(|line| line.is_alone(self.text));
        let joined = lines
            .windows(2)
            .all(|pair| trivia::next_line(self.text, pair[0].full.hi) == pair[1].full.lo);
        (alone && joined).then_some(())
    }

    /// All lines of the new example as they stand in the file.
    fn rendered(&self, rope: &Rope) -> Option<Vec<String>> {
        let old = rope.original();
        let index = LineIndex::new(old);
        let mut new: Vec<(usize, &str)> = Vec::new();
        let mut start = 0;
        for line in rope.text().lines() {
            new.push((start, line));
            start = trivia::next_line(rope.text(), start);
        }
        // Which line of the snippet each line comes from: words tell it better than brackets, which stand everywhere.
        let line_of = |at: usize| rope.exact_origin(at).map(|origin| index.line(origin) - 1);
        let source_of = |(start, line): &(usize, &str)| {
            if line.trim().is_empty() {
                return line_of(start + line.len());
            }
            let from = |wanted: fn(char) -> bool| {
                line.char_indices()
                    .filter(|(_, c)| wanted(*c))
                    .find_map(|(at, _)| line_of(start + at))
            };
            from(|c| c.is_alphanumeric() || c == '_').or_else(|| from(|c| !c.is_whitespace()))
        };
        let mut sources: Vec<Option<usize>> = new.iter().map(source_of).collect();
        if let Some(opens_at) = self.snippet.opens_at {
            let close = new
                .iter()
                .rposition(|(_, line)| *line == CLOSE)
                .filter(|&at| new[at + 1..].iter().all(|(_, line)| line.trim().is_empty()))?;
            new.truncate(close);
            sources.truncate(close);
            let open = new
                .iter()
                .zip(&sources)
                .position(|((_, line), source)| *line == OPEN && *source == Some(opens_at))?;
            new.remove(open);
            sources.remove(open);
            if sources.contains(&Some(opens_at)) {
                return None;
            }
        }
        let lines = &self.example.lines;
        let sources: Vec<Option<usize>> = sources
            .into_iter()
            .map(|line| {
                line.and_then(|line| self.snippet.example_line(line))
                    .filter(|&line| line < lines.len())
            })
            .collect();
        let is_blank = |at: usize| lines[at].code.trim().is_empty();
        let mut out = Vec::new();
        for (at, (_, code)) in new.iter().enumerate() {
            // A new line goes with the one before it.
            let near = || {
                sources[..at]
                    .iter()
                    .rev()
                    .chain(&sources[at..])
                    .flatten()
                    .copied()
                    .find(|&line| !is_blank(line))
            };
            let source = sources[at].or_else(near)?;
            // A line that stays as it is keeps its blanks too.
            out.push(match &lines[source] {
                line if line.code == *code => line.full.text(self.text).to_owned(),
                line => line.render(self.text, code)?,
            });
        }
        let kept: HashSet<usize> = sources.iter().flatten().copied().collect();
        // Nothing but hidden lines left: there was a reader to show something to.
        let shows = |at: &usize| !lines[*at].is_hidden && !is_blank(*at);
        let showed = (0..lines.len()).any(|at| shows(&at));
        (!showed || kept.iter().any(shows)).then_some(out)
    }

    /// The rule that changed a line first.
    fn rule_at(&self, rope: &Rope, line: usize) -> String {
        let index = LineIndex::new(rope.original());
        let hunks = rope.hunks();
        let here = hunks.iter().find(|hunk| {
            self.snippet
                .example_line(index.line(hunk.span.lo) - 1)
                .is_some_and(|at| at >= line)
        });
        here.or(hunks.last())
            .map_or_else(|| RULE.to_owned(), |hunk| hunk.rule.clone())
    }
}
