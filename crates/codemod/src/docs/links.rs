//! Links to what is retired, in documentation.

use std::collections::HashMap;
use std::ops::Range;

use super::comments::docs;
use super::markdown::blocks;
use super::prose::{Link, LinkKind, Prose, links as find};
use super::scope::{DocScope, doc_scopes, scope_at};
use super::target::{Fate, Renamed, Target, fate};
use crate::edit::{Edit, EditGroup};
use crate::leftover::Leftover;
use crate::rewrite::Cx;
use crate::syntax::{Span, trivia};
use crate::world::ModId;

/// What is to be done about the links of a file.
#[derive(Debug, Default)]
pub struct Links {
    /// One group for each link.
    pub edits: Vec<EditGroup>,
    /// Links that lead nowhere any more, and are plain text now.
    pub notes: Vec<Leftover>,
}

/// Looks at the links in the documentation of a file that is the body of `module`.
///
/// `` [`Old`] `` becomes `` [`New`] ``, with a path behind it where the module does not know the new name; the text of a link
/// changes where it is the name. A link to what has no counterpart becomes code. Names that are no links stay.
pub fn links(cx: &Cx<'_>, module: ModId) -> Links {
    let scopes = doc_scopes(cx, module);
    let mut out = Links::default();
    for doc in docs(cx.file, cx.text) {
        let Some(scope) = scope_at(&scopes, doc.at) else {
            continue;
        };
        let texts: Vec<Prose> = blocks(&doc, cx.text)
            .prose
            .into_iter()
            .map(|range| Prose::new(&doc.lines[range], cx.text))
            .collect();
        let found: Vec<(&Prose, Link)> = texts
            .iter()
            .flat_map(|prose| find(&prose.text).into_iter().map(move |link| (prose, link)))
            .collect();
        let mut definitions = HashMap::new();
        for (prose, link) in &found {
            if let LinkKind::Definition { target } = &link.kind {
                let fate = Target::parse(&prose.text[target.clone()])
                    .map_or(Fate::Keep, |target| fate(cx, scope, &target));
                definitions
                    .entry(normal(&prose.text[link.label.clone()]))
                    .or_insert(fate);
            }
        }
        for (prose, link) in &found {
            let here = Here {
                cx,
                scope,
                prose,
                definitions: &definitions,
            };
            here.link(link, &mut out);
        }
    }
    out
}

/// Names of definitions are compared without regard to case and blanks.
fn normal(name: &str) -> String {
    name.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// Without the ticks of a code span.
fn unticked(label: &str) -> &str {
    let label = label.trim();
    label
        .strip_prefix('`')
        .and_then(|inner| inner.strip_suffix('`'))
        .unwrap_or(label)
}

fn is_ticked(label: &str) -> bool {
    unticked(label).len() < label.trim().len()
}

/// A link's label once what it names has another name; none where it says something else.
fn relabelled(label: &str, renamed: &Renamed) -> Option<String> {
    let old = Target::parse(unticked(label))?;
    let (n, tail) = (old.segs.len(), &renamed.old_tail);
    let path = if n <= tail.len() {
        let same = old
            .segs
            .iter()
            .zip(&tail[tail.len() - n..])
            .all(|(a, b)| a == b);
        let new = &renamed.new_tail[renamed.new_tail.len() - n.min(renamed.new_tail.len())..];
        same.then(|| new.join("::"))
    } else {
        let same = old.segs[n - tail.len()..]
            .iter()
            .zip(tail)
            .all(|(a, b)| a == b);
        same.then(|| renamed.path.clone())
    }?;
    let text = old.with_path(&path, renamed.kind);
    Some(if is_ticked(label) {
        format!("`{text}`")
    } else {
        text
    })
}

struct Here<'c, 'a> {
    cx: &'c Cx<'a>,
    scope: &'c DocScope,
    prose: &'c Prose,
    definitions: &'c HashMap<String, Fate>,
}

impl Here<'_, '_> {
    fn text(&self, range: &Range<usize>) -> &str {
        &self.prose.text[range.clone()]
    }

    fn link(&self, link: &Link, out: &mut Links) {
        let Some(place) = self.prose.span(link.whole.clone()) else {
            return;
        };
        if self.cx.is_frozen(place) {
            return;
        }
        let label = self.text(&link.label);
        // What the link leads to, and where that is written.
        let written = match &link.kind {
            LinkKind::Inline { target } | LinkKind::Definition { target } => target,
            LinkKind::Reference { name } => name,
            LinkKind::Shortcut => &link.label,
        };
        let defined = match &link.kind {
            LinkKind::Shortcut | LinkKind::Reference { .. } => {
                self.definitions.get(&normal(self.text(written)))
            }
            _ => None,
        };
        let target = Target::parse(unticked(self.text(written)));
        let fate = match (defined, &target) {
            (Some(fate), _) => fate.clone(),
            (None, Some(target)) => fate(self.cx, self.scope, target),
            (None, None) => {
                let mut edits = self.rename_arguments(&link.label);
                if written != &link.label {
                    edits.extend(self.rename_arguments(written));
                }
                if !edits.is_empty() {
                    out.edits.push(EditGroup { edits });
                }
                Fate::Keep
            }
        };
        match fate {
            Fate::Keep => {}
            Fate::Renamed(renamed) => {
                let mut edits = Vec::new();
                match (&link.kind, defined.is_some(), &target) {
                    (LinkKind::Shortcut, false, Some(target)) => {
                        self.rename_shortcut(link, target, &renamed, &mut edits)
                    }
                    (LinkKind::Shortcut, ..) => self.relabel(&link.label, &renamed, &mut edits),
                    (LinkKind::Reference { name }, true, _) => {
                        self.relabel(&link.label, &renamed, &mut edits);
                        self.relabel(name, &renamed, &mut edits);
                    }
                    (_, _, Some(target)) => {
                        self.relabel(&link.label, &renamed, &mut edits);
                        let text = target.with_path(&renamed.path, renamed.kind);
                        let text = if is_ticked(self.text(written)) {
                            format!("`{text}`")
                        } else {
                            text
                        };
                        self.replace(written, &text, &renamed.rule, &mut edits);
                    }
                    _ => {}
                }
                if !edits.is_empty() {
                    out.edits.push(EditGroup { edits });
                }
            }
            Fate::Gone { rule, hint } => {
                let edits = match &link.kind {
                    LinkKind::Definition { .. } => vec![self.delete_line(link, &rule)],
                    LinkKind::Shortcut if defined.is_none() => {
                        self.to_code(link, target.as_ref(), &rule)
                    }
                    _ => self.to_text(link, &rule),
                };
                out.edits.push(EditGroup { edits });
                if !matches!(link.kind, LinkKind::Definition { .. }) {
                    let reason = format!(
                        "the link `{}` led to what is gone: it is plain text now",
                        label.trim().trim_matches('`')
                    );
                    out.notes.push(Leftover {
                        span: place,
                        rule,
                        reason,
                        suggestion: hint,
                        dead: false,
                        reads: false,
                    });
                }
            }
        }
    }

    fn replace(&self, range: &Range<usize>, text: &str, rule: &str, edits: &mut Vec<Edit>) {
        if self.text(range) != text {
            edits.extend(self.prose.replace(range.clone(), text, rule));
        }
    }

    fn relabel(&self, label: &Range<usize>, renamed: &Renamed, edits: &mut Vec<Edit>) {
        if let Some(text) = relabelled(self.text(label), renamed) {
            self.replace(label, &text, &renamed.rule, edits);
        }
    }

    /// `` [`Old`] ``: what the reader sees is the target, unless the new one needs a path.
    fn rename_shortcut(
        &self,
        link: &Link,
        target: &Target<'_>,
        renamed: &Renamed,
        edits: &mut Vec<Edit>,
    ) {
        let label = self.text(&link.label);
        let Some(text) = relabelled(label, renamed) else {
            return;
        };
        let leads_there =
            Target::parse(unticked(&text)).is_some_and(|shown| shown.path() == renamed.path);
        if leads_there {
            return self.replace(&link.label, &text, &renamed.rule, edits);
        }
        // Only a target says its kind.
        let shown = unticked(&text)
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .to_owned();
        let shown = if is_ticked(label) {
            format!("`{shown}`")
        } else {
            shown
        };
        self.replace(&link.label, &shown, &renamed.rule, edits);
        let dest = format!("({})", target.with_path(&renamed.path, renamed.kind));
        edits.extend(
            self.prose
                .replace(link.label.end + 1..link.whole.end, &dest, &renamed.rule),
        );
    }

    /// `` [`Vec<Old>`] ``: rustdoc follows the name in front; what stands between the angle brackets is for the reader.
    fn rename_arguments(&self, label: &Range<usize>) -> Vec<Edit> {
        let text = self.text(label);
        let Some(open) = text.find('<').filter(|_| text.contains('>')) else {
            return vec![];
        };
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let mut edits = Vec::new();
        let mut at = open;
        while let Some(start) = text[at..].find(is_path).map(|n| at + n) {
            let end = text[start..]
                .find(|c| !is_path(c))
                .map_or(text.len(), |n| start + n);
            at = end;
            let Some(target) = Target::parse(&text[start..end]) else {
                continue;
            };
            if let Fate::Renamed(renamed) = fate(self.cx, self.scope, &target)
                && let Some(new) = relabelled(&text[start..end], &renamed)
            {
                self.replace(
                    &(label.start + start..label.start + end),
                    &new,
                    &renamed.rule,
                    &mut edits,
                );
            }
        }
        edits
    }

    fn to_code(&self, link: &Link, target: Option<&Target<'_>>, rule: &str) -> Vec<Edit> {
        match target {
            Some(target) => self.prose.replace(
                link.whole.clone(),
                &format!("`{}{}`", target.path(), target.suffix),
                rule,
            ),
            None => self.to_text(link, rule),
        }
    }

    fn to_text(&self, link: &Link, rule: &str) -> Vec<Edit> {
        let mut edits = self
            .prose
            .replace(link.whole.start..link.label.start, "", rule);
        edits.extend(self.prose.replace(link.label.end..link.whole.end, "", rule));
        edits
    }

    fn delete_line(&self, link: &Link, rule: &str) -> Edit {
        let content = self.prose.line(link.whole.start);
        let text = self.cx.text;
        let (lo, hi) = (
            trivia::line_start(text, content.lo),
            trivia::next_line(text, content.hi),
        );
        let marks = text[lo..content.lo].trim();
        // The first line of a block comment, say, has more on it than the definition.
        let alone =
            matches!(marks, "" | "*" | "///" | "//!") && text[content.hi..hi].trim().is_empty();
        Edit::new(if alone { Span::new(lo, hi) } else { content }, "", rule)
    }
}
