//! The files of one run, between what they were and what they will be.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::analysis::{Analysis, analyze};
use crate::edit::{Edit, EditGroup, Rope};
use crate::leftover::Leftover;
use crate::rewrite::nodes::Nodes;
use crate::rewrite::{Cx, Rules};
use crate::syntax::{self, File, ItemKind, ParseFailure, Span, StmtKind};
use crate::world::{DefId, FileId, ModId, Type, World};

/// A round that goes on for longer than this has a rule that undoes another's work.
const MAX_ROUNDS: usize = 80;

/// One file under edit.
#[derive(Debug)]
pub struct Work {
    pub id: FileId,
    pub path: String,
    pub rope: Rope,
    /// The text as it stands in the rope.
    parsed: Result<Rc<File>, ParseFailure>,
    /// What was found out about that text, for the module that was asked about last.
    analyzed: RefCell<Option<(ModId, Rc<Analysis>)>>,
    pub contexts: Vec<ModId>,
    /// Why the whole file is left as it is.
    pub refused: Option<Leftover>,
    pub deleted: bool,
    /// Must not be edited.
    pub keep: bool,
    /// Holds a name of the rules, or is part of a file that may.
    pub hit: bool,
    /// Where what is left to a person stood in the original, by its span when it was found.
    origins: HashMap<(usize, usize), Span>,
}

impl Work {
    /// The text as it is now; each text is parsed once.
    pub fn parsed(&self) -> Result<Rc<File>, ParseFailure> {
        self.parsed.clone()
    }

    /// Notes where a site stands in the original, before names change around it.
    pub fn keep_origin(&mut self, span: Span) {
        let origin = self.rope.origin_span(span);
        self.origins.insert((span.lo, span.hi), origin);
    }

    /// Where a site stood in the original, by the span that it had when it was found.
    pub fn kept_origin(&self, span: Span) -> Span {
        self.origins
            .get(&(span.lo, span.hi))
            .copied()
            .unwrap_or(span)
    }
}

/// A result that does not parse: an error of this tool or of a rule, never to be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: after `{rule}` the file would not parse: {message}")]
pub struct Broken {
    pub path: String,
    pub line: usize,
    pub rule: String,
    pub message: String,
}

#[derive(Debug)]
pub struct Session<'w> {
    pub world: &'w World,
    pub rules: &'w Rules,
    pub works: Vec<Work>,
    /// Members that the compiler has shown to be of a new type: file, position in the original, canonical name of the type.
    pub proven: HashMap<(FileId, usize), DefId>,
    /// Functions that stay as they were, by file and position in the original.
    pub held: HashSet<(FileId, usize)>,
    /// Type aliases that stay as they were, likewise.
    pub held_aliases: HashSet<(FileId, usize)>,
    /// Original text, parsed, with its analysis: what was used before.
    before: HashMap<usize, (Rc<File>, Rc<Analysis>)>,
}

impl<'w> Session<'w> {
    pub fn new(world: &'w World, rules: &'w Rules) -> Self {
        Session {
            world,
            rules,
            works: vec![],
            proven: HashMap::new(),
            held: HashSet::new(),
            held_aliases: HashSet::new(),
            before: HashMap::new(),
        }
    }

    pub fn add(&mut self, id: FileId) -> usize {
        let file = &self.world.files[id];
        self.works.push(Work {
            id,
            path: file.path.clone(),
            rope: Rope::new(&file.text),
            parsed: file.parsed.clone(),
            analyzed: RefCell::default(),
            contexts: file.contexts.clone(),
            refused: None,
            deleted: false,
            keep: false,
            hit: false,
            origins: HashMap::new(),
        });
        self.works.len() - 1
    }

    /// Looks at the current text of a file, as the body of one of its modules.
    pub fn view<R>(
        &self,
        at: usize,
        context: ModId,
        look: impl FnOnce(&Cx<'_>) -> R,
    ) -> Result<R, ParseFailure> {
        let work = &self.works[at];
        let file = work.parsed()?;
        let analysis = self.analysis(work, &file, context);
        Ok(self.look_at(work.id, &file, &work.rope, &analysis, look))
    }

    /// The analysis of a file as it is now: many look at the same text.
    fn analysis(&self, work: &Work, file: &File, context: ModId) -> Rc<Analysis> {
        if let Some((module, known)) = &*work.analyzed.borrow()
            && *module == context
        {
            return Rc::clone(known);
        }
        let mut analysis = analyze(self.world, file, work.id, context);
        self.believe(work, file, &mut analysis);
        let analysis = Rc::new(analysis);
        *work.analyzed.borrow_mut() = Some((context, Rc::clone(&analysis)));
        analysis
    }

    /// Gives receivers the types that the compiler has shown them to have, where inference found none.
    fn believe(&self, work: &Work, file: &File, analysis: &mut Analysis) {
        if self.proven.is_empty() {
            return;
        }
        for expr in Nodes::new(file).exprs {
            let (base, member) = match &expr.kind {
                syntax::ExprKind::Field { base, member, .. } => (base, member),
                syntax::ExprKind::MethodCall { recv, method, .. } => (recv, method),
                _ => continue,
            };
            if analysis.ty(base).peeled().is_known() {
                continue;
            }
            let Some(origin) = work.rope.exact_origin(member.span.lo) else {
                continue;
            };
            if let Some(&def) = self.proven.get(&(work.id, origin)) {
                analysis
                    .types
                    .insert(base.id, Type::Ref(false, Box::new(Type::Adt(def, vec![]))));
            }
        }
    }

    /// Looks at several files at once, each as the body of its first module.
    pub fn view_all<R>(
        &self,
        which: &[usize],
        look: impl FnOnce(&[(usize, ModId, Cx<'_>)]) -> R,
    ) -> Result<R, ParseFailure> {
        let mut parsed = Vec::new();
        for &at in which {
            let work = &self.works[at];
            let Some(&context) = work.contexts.first() else {
                continue;
            };
            let file = work.parsed()?;
            let analysis = self.analysis(work, &file, context);
            let frozen = self.frozen(&work.rope, work.id, &Nodes::new(&file), &analysis);
            parsed.push((at, context, file, analysis, frozen));
        }
        let views: Vec<(usize, ModId, Cx<'_>)> = parsed
            .iter()
            .map(|(at, context, file, analysis, frozen)| {
                let rope = &self.works[*at].rope;
                let cx = Cx {
                    world: self.world,
                    rules: self.rules,
                    id: self.works[*at].id,
                    file,
                    text: rope.text(),
                    an: analysis,
                    nodes: Nodes::new(file),
                    rope,
                    frozen,
                };
                (*at, *context, cx)
            })
            .collect();
        Ok(look(&views))
    }

    /// Looks at a file as it was.
    pub fn view_before<R>(&mut self, at: usize, look: impl FnOnce(&Cx<'_>) -> R) -> Option<R> {
        let work = &self.works[at];
        let context = *work.contexts.first()?;
        if !self.before.contains_key(&at) {
            let file = Rc::clone(self.world.files[work.id].parsed.as_ref().ok()?);
            // What the compiler has proven changes nothing about what was used.
            let analysis = if work.rope.is_changed() {
                Rc::new(analyze(self.world, &file, work.id, context))
            } else {
                self.analysis(work, &file, context)
            };
            self.before.insert(at, (file, analysis));
        }
        let (file, analysis) = &self.before[&at];
        let rope = Rope::new(work.rope.original());
        Some(self.look_at(work.id, file, &rope, analysis, look))
    }

    /// Makes edits, and sees to it that the file still parses.
    pub fn apply(&mut self, at: usize, groups: &[EditGroup]) -> Result<bool, Broken> {
        let work = &mut self.works[at];
        let mut edits: Vec<Edit> = Vec::new();
        // Neighbours that both go may both want the blank line between them: together they take it once.
        let (lone, rest): (Vec<&EditGroup>, Vec<&EditGroup>) = groups
            .iter()
            .partition(|group| matches!(&group.edits[..], [only] if only.text.is_empty()));
        let mut deletions: Vec<Edit> = lone.iter().map(|group| group.edits[0].clone()).collect();
        deletions.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        for edit in deletions {
            match edits.last_mut() {
                Some(last) if last.span.hi > edit.span.lo => {
                    last.span.hi = last.span.hi.max(edit.span.hi)
                }
                _ => edits.push(edit),
            }
        }
        for group in rest {
            // A group that would meet an earlier one waits for the next round.
            let clash = group.edits.iter().any(|edit| {
                edits.iter().any(|other| {
                    other.span.overlaps(edit.span)
                        || (other.span == edit.span && other.text != edit.text)
                })
            });
            if !clash {
                edits.extend(group.edits.iter().cloned());
            }
        }
        if edits.is_empty() {
            return Ok(false);
        }
        let before = work.rope.text().to_owned();
        let rule = edits[0].rule.clone();
        if let Err(overlap) = work.rope.apply(&edits) {
            let (first, second) = *overlap;
            return Err(Broken {
                path: work.path.clone(),
                line: syntax::LineIndex::new(&before).line(first.span.lo),
                rule,
                message: format!("two edits overlap, `{}` and `{}`", first.text, second.text),
            });
        }
        if work.rope.text() == before {
            return Ok(false);
        }
        work.parsed = syntax::parse(work.rope.text()).map(Rc::new);
        work.analyzed.take();
        if let Err(err) = &work.parsed {
            let line = syntax::LineIndex::new(work.rope.text()).line(err.at);
            let shown = work
                .rope
                .text()
                .lines()
                .nth(line.saturating_sub(1))
                .unwrap_or_default()
                .trim()
                .to_owned();
            return Err(Broken {
                path: work.path.clone(),
                line,
                rule,
                message: format!("{err}, at `{shown}`"),
            });
        }
        Ok(true)
    }

    /// Runs one kind of round over a file until it proposes nothing more. Whether anything changed.
    pub fn rounds(
        &mut self,
        at: usize,
        propose: &dyn Fn(&Cx<'_>) -> Vec<EditGroup>,
    ) -> Result<bool, Broken> {
        let Some(&context) = self.works[at].contexts.first() else {
            return Ok(false);
        };
        let mut changed = false;
        for _ in 0..MAX_ROUNDS {
            if self.works[at].deleted || self.works[at].keep || self.works[at].refused.is_some() {
                return Ok(changed);
            }
            let groups = match self.view(at, context, |cx| propose(cx)) {
                Ok(groups) => groups,
                Err(err) => {
                    return Err(Broken {
                        path: self.works[at].path.clone(),
                        line: 0,
                        rule: String::new(),
                        message: err.to_string(),
                    });
                }
            };
            if groups.is_empty() || !self.apply(at, &groups)? {
                return Ok(changed);
            }
            changed = true;
        }
        Err(Broken {
            path: self.works[at].path.clone(),
            line: 0,
            rule: "rounds".into(),
            message: "the rewrites do not come to an end".into(),
        })
    }

    fn look_at<R>(
        &self,
        id: FileId,
        file: &File,
        rope: &Rope,
        analysis: &Analysis,
        look: impl FnOnce(&Cx<'_>) -> R,
    ) -> R {
        let nodes = Nodes::new(file);
        let frozen = self.frozen(rope, id, &nodes, analysis);
        let cx = Cx {
            world: self.world,
            rules: self.rules,
            id,
            file,
            text: rope.text(),
            an: analysis,
            nodes,
            rope,
            frozen: &frozen,
        };
        look(&cx)
    }

    /// What must not be touched: items and statements under a `migrate: keep` comment, and implementations for a retired enum.
    fn frozen(&self, rope: &Rope, id: FileId, nodes: &Nodes<'_>, analysis: &Analysis) -> Vec<Span> {
        let (rules, world) = (self.rules, self.world);
        let mut out = kept_by_comment(rope.text(), nodes);
        for (item, _) in &nodes.items {
            if matches!(item.kind, ItemKind::Fn(_))
                && rope
                    .exact_origin(item.span.lo)
                    .is_some_and(|origin| self.held.contains(&(id, origin)))
            {
                out.push(item.span);
                continue;
            }
            if matches!(item.kind, ItemKind::TypeAlias { .. })
                && rope
                    .exact_origin(item.span.lo)
                    .is_some_and(|origin| self.held_aliases.contains(&(id, origin)))
            {
                out.push(item.span);
                continue;
            }
            let ItemKind::Impl(it) = &item.kind else {
                continue;
            };
            if rope
                .exact_origin(item.span.lo)
                .is_some_and(|origin| rules.conflicting_impls.contains(&(id, origin)))
            {
                out.push(item.span);
                continue;
            }
            let syntax::TyKind::Path(path) = &it.self_ty.kind else {
                continue;
            };
            let Some(found) = analysis.path(path) else {
                continue;
            };
            if rules.deleted_mods.contains_key(&found.module) {
                continue;
            }
            if let crate::world::Res::Def(def) = world.unalias(found.res.clone())
                && rules.enums.iter().any(|rule| rule.def == def)
            {
                out.push(item.span);
            }
        }
        out
    }
}

/// Items and statements under a `migrate: keep` comment.
pub fn kept_by_comment(text: &str, nodes: &Nodes<'_>) -> Vec<Span> {
    let mut out = Vec::new();
    for (at, _) in text.match_indices("migrate: keep") {
        let line = syntax::trivia::line_start(text, at);
        if !text[line..at].trim_start().starts_with("//") {
            continue;
        }
        let next = syntax::trivia::next_line(text, at);
        let items = nodes
            .items
            .iter()
            .map(|(item, _)| item.span)
            .filter(|span| span.lo >= next);
        let first_item = items.min_by_key(|span| span.lo);
        let first_stmt = all_statements(nodes)
            .into_iter()
            .filter(|span| span.lo >= next)
            .min_by_key(|span| span.lo);
        let found = [first_item, first_stmt]
            .into_iter()
            .flatten()
            .min_by_key(|span| span.lo);
        out.extend(found);
    }
    out
}

fn all_statements(nodes: &Nodes<'_>) -> Vec<Span> {
    let mut out: Vec<Span> = nodes.lets.iter().map(|at| at.stmt.span).collect();
    for expr in &nodes.exprs {
        if let Some(crate::rewrite::nodes::Parent::Stmt { stmt, .. }) = nodes.parent(expr)
            && matches!(stmt.kind, StmtKind::Expr { .. })
        {
            out.push(stmt.span);
        }
    }
    out
}
