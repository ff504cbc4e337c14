//! Where in the text a new import goes, in the manner of rustfmt.

use std::cmp::Ordering;

use super::{RULE, alone_on_line};
use crate::edit::Edit;
use crate::syntax::{Item, ItemKind, Span, UseKind, UseTree, trivia};

/// Lines longer than this are broken up; rustfmt's own default.
const MAX_WIDTH: usize = 100;

/// How names in braces are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Modules before types before constants: up to the 2021 edition.
    CaseKinds,
    /// By character, since the 2024 edition.
    Ascii,
}

impl Order {
    pub fn of_edition(edition: u16) -> Order {
        if edition >= 2024 {
            Order::Ascii
        } else {
            Order::CaseKinds
        }
    }

    fn other(self) -> Order {
        match self {
            Order::CaseKinds => Order::Ascii,
            Order::Ascii => Order::CaseKinds,
        }
    }

    /// Compares two paths as written behind `use`.
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        let (mut left, mut right) = (segments(a), segments(b));
        loop {
            match (left.next(), right.next()) {
                (Some(a), Some(b)) => {
                    let ordering = self.segment(a, b);
                    if ordering != Ordering::Equal {
                        return ordering;
                    }
                }
                (None, None) => return Ordering::Equal,
                (None, _) => return Ordering::Less,
                (_, None) => return Ordering::Greater,
            }
        }
    }

    fn segment(self, a: &str, b: &str) -> Ordering {
        let rank = |seg: &str| match seg {
            "self" => 0,
            "super" => 1,
            "crate" => 2,
            _ if seg.starts_with('*') => 4,
            _ if seg.starts_with('{') => 5,
            _ => 3,
        };
        let case = |seg: &str| {
            let name = seg.trim_start_matches("r#");
            if self == Order::Ascii {
                0
            } else if name.chars().next().is_some_and(char::is_lowercase) {
                1
            } else if name.len() > 1 && !name.chars().any(char::is_lowercase) {
                3
            } else {
                2
            }
        };
        (rank(a), case(a)).cmp(&(rank(b), case(b))).then_with(|| {
            if rank(a) == 3 {
                a.cmp(b)
            } else {
                Ordering::Equal
            }
        })
    }
}

/// The parts between `::`, a group as one.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let group = path.find('{').unwrap_or(path.len());
    let (plain, rest) = path.split_at(group);
    plain
        .split("::")
        .map(str::trim)
        .filter(|seg| !seg.is_empty())
        .chain((!rest.is_empty()).then_some(rest))
}

fn is_sorted(texts: &[&str], order: Order) -> bool {
    texts
        .windows(2)
        .all(|pair| order.compare(pair[0], pair[1]) != Ordering::Greater)
}

/// Adds names to the braces of a `use` tree.
pub fn into_group(
    text: &str,
    item: &Item,
    tree: &UseTree,
    names: &[String],
    order: Order,
) -> Vec<Edit> {
    let UseKind::Group { items } = &tree.kind else {
        return vec![];
    };
    let braces = tree.span;
    let old: Vec<&str> = items.iter().map(|inner| inner.span.text(text)).collect();
    let order = if is_sorted(&old, order) || !is_sorted(&old, order.other()) {
        order
    } else {
        order.other()
    };
    let sorted = is_sorted(&old, order);
    let mut all: Vec<&str> = old.clone();
    for name in names {
        // Behind the last that comes before it, so that equal neighbours keep their order.
        let at = if sorted {
            all.partition_point(|known| order.compare(known, name) != Ordering::Greater)
        } else {
            all.len()
        };
        all.insert(at, name);
    }
    let inside = Span::new(braces.lo + 1, braces.hi - 1);
    let has_comments = gaps(inside, items)
        .iter()
        .any(|gap| !trivia::comments(text, *gap).is_empty());
    let is_multiline = braces.text(text).contains('\n');
    if !is_multiline {
        let line = trivia::line_end(text, braces.hi) - trivia::line_start(text, braces.lo);
        let longer: usize = names.iter().map(|name| name.len() + 2).sum();
        let nested = tree_is_nested(item, tree);
        if line + longer <= MAX_WIDTH || has_comments || nested || !alone_on_line(text, item) {
            return insertions(text, items, braces, &all, names);
        }
    } else {
        let width = text.get(braces.lo..braces.hi).map_or(MAX_WIDTH, |group| {
            group
                .lines()
                .map(|line| line.trim_end().chars().count())
                .max()
                .unwrap_or(0)
                .max(MAX_WIDTH)
        });
        let usual = !has_comments && broken(text, item, tree, &old, width) == braces.text(text);
        if !usual {
            return own_lines(text, items, braces, &all, names);
        }
        return vec![Edit::new(
            braces,
            broken(text, item, tree, &all, width),
            RULE,
        )];
    }
    vec![Edit::new(
        braces,
        broken(text, item, tree, &all, MAX_WIDTH),
        RULE,
    )]
}

/// Whether the group stands inside of another.
fn tree_is_nested(item: &Item, tree: &UseTree) -> bool {
    let ItemKind::Use(it) = &item.kind else {
        return false;
    };
    let mut at = &it.tree;
    while let UseKind::Path { rest, .. } = &at.kind {
        at = rest;
    }
    at.span != tree.span
}

/// The room between and around the names of a group.
fn gaps(inside: Span, items: &[UseTree]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut at = inside.lo;
    for item in items {
        out.push(Span::new(at, item.span.lo));
        at = item.span.hi;
    }
    out.push(Span::new(at, inside.hi));
    out
}

/// New names between the old ones, on their lines.
fn insertions(
    text: &str,
    items: &[UseTree],
    braces: Span,
    all: &[&str],
    names: &[String],
) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut n_old = 0;
    let mut add = |at: usize, text: String| match edits.iter_mut().find(|edit| edit.span.lo == at) {
        Some(edit) => edit.text.push_str(&text),
        None => edits.push(Edit::new(Span::new(at, at), text, RULE)),
    };
    let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in all {
        let is_new = left.iter().position(|new| new == name).filter(|_| {
            items
                .get(n_old)
                .is_none_or(|item| item.span.text(text) != *name)
        });
        let Some(at) = is_new else {
            n_old += 1;
            continue;
        };
        left.remove(at);
        match (items.get(n_old), items.last()) {
            (Some(next), _) => add(next.span.lo, format!("{name}, ")),
            (None, Some(last)) => add(last.span.hi, format!(", {name}")),
            (None, None) if n_old == 0 => add(
                braces.lo + 1,
                if names.len() > 1 {
                    format!("{name}, ")
                } else {
                    (*name).to_owned()
                },
            ),
            (None, None) => {}
        }
    }
    edits
}

/// New names on lines of their own: the group is laid out by hand, or holds comments.
fn own_lines(
    text: &str,
    items: &[UseTree],
    braces: Span,
    all: &[&str],
    names: &[String],
) -> Vec<Edit> {
    let eol = trivia::eol(text);
    let Some(last) = items.last() else {
        return insertions(text, items, braces, all, names);
    };
    let mut edits: Vec<Edit> = Vec::new();
    let mut add = |at: usize, text: String| match edits.iter_mut().find(|edit| edit.span.lo == at) {
        Some(edit) => edit.text.push_str(&text),
        None => edits.push(Edit::new(Span::new(at, at), text, RULE)),
    };
    let mut n_old = 0;
    let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut has_comma = text[last.span.hi..braces.hi].trim_start().starts_with(',');
    for name in all {
        let is_new = left.iter().position(|new| new == name).filter(|_| {
            items
                .get(n_old)
                .is_none_or(|item| item.span.text(text) != *name)
        });
        let Some(at) = is_new else {
            n_old += 1;
            continue;
        };
        left.remove(at);
        match items.get(n_old) {
            Some(next) if trivia::starts_line(text, next.span.lo) => {
                let indent = trivia::indent_of(text, next.span.lo);
                add(next.span.lo, format!("{name},{eol}{indent}"));
            }
            Some(next) => add(next.span.lo, format!("{name}, ")),
            None => {
                let indent = trivia::indent_of(text, last.span.lo).to_owned();
                if !has_comma {
                    add(last.span.hi, ",".to_owned());
                    has_comma = true;
                }
                // Behind the last name's own comment.
                add(
                    trivia::line_end(text, last.span.hi),
                    format!("{eol}{indent}{name},"),
                );
            }
        }
    }
    edits
}

/// A group over several lines: lines are filled, and names with paths of their own stand alone once one of them has braces.
fn broken(text: &str, item: &Item, tree: &UseTree, all: &[&str], width: usize) -> String {
    let eol = trivia::eol(text);
    let outer = trivia::indent_of(
        text,
        if tree_is_nested(item, tree) {
            tree.span.lo
        } else {
            item.span.lo
        },
    );
    let step = if outer.contains('\t') || (outer.is_empty() && text.contains("\n\t")) {
        "\t"
    } else {
        "    "
    };
    let indent = format!("{outer}{step}");
    let has_nested = all.iter().any(|name| name.contains('{'));
    let mut out = format!("{{{eol}{indent}");
    let mut column = indent.chars().count();
    let start = column;
    let mut after_nested = false;
    for (n, name) in all.iter().enumerate() {
        let len = name.chars().count() + 1;
        let alone = has_nested && (after_nested || (n > 0 && name.contains("::")));
        if column > start && (column + 1 + len > width || alone) {
            out.push_str(eol);
            out.push_str(&indent);
            column = start;
        } else if column > start {
            out.push(' ');
            column += 1;
        }
        out.push_str(name);
        out.push(',');
        column += len;
        after_nested = name.contains("::");
    }
    format!("{out}{eol}{outer}}}")
}

/// A single leaf becomes a group of itself and the new names.
pub fn into_leaf(
    text: &str,
    item: &Item,
    leaf: &UseTree,
    names: &[String],
    order: Order,
) -> Vec<Edit> {
    let mut all: Vec<&str> = std::iter::once(leaf.span.text(text))
        .chain(names.iter().map(String::as_str))
        .collect();
    all.sort_by(|a, b| order.compare(a, b));
    let line = format!("{{{}}}", all.join(", "));
    let n_chars = trivia::line_end(text, leaf.span.hi) - trivia::line_start(text, leaf.span.lo)
        + line.len()
        - leaf.span.len();
    let ItemKind::Use(it) = &item.kind else {
        return vec![];
    };
    let mut at = &it.tree;
    while let UseKind::Path { rest, .. } = &at.kind {
        at = rest;
    }
    if n_chars <= MAX_WIDTH || at.span != leaf.span {
        return vec![Edit::new(leaf.span, line, RULE)];
    }
    vec![Edit::new(
        leaf.span,
        broken(text, item, leaf, &all, MAX_WIDTH),
        RULE,
    )]
}

/// What a `use` imports, as written, without `pub use` and the semicolon.
fn path_of<'t>(text: &'t str, item: &Item) -> Option<&'t str> {
    match &item.kind {
        ItemKind::Use(it) => Some(it.tree.span.text(text)),
        _ => None,
    }
}

fn first_of(path: &str) -> &str {
    path.split("::").next().unwrap_or(path).trim()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Std,
    Extern,
    Own,
}

fn origin_of(first: &str) -> Origin {
    match first {
        "std" | "core" | "alloc" => Origin::Std,
        "crate" | "self" | "super" => Origin::Own,
        _ => Origin::Extern,
    }
}

/// Where a new `use path;` goes, and the text for it.
pub fn new_use(
    text: &str,
    items: &[Item],
    first: &str,
    path: &str,
    order: Order,
) -> Option<(usize, String)> {
    let eol = trivia::eol(text);
    let uses: Vec<(&Item, &str)> = items
        .iter()
        .filter(|item| alone_on_line(text, item))
        .filter_map(|item| path_of(text, item).map(|path| (item, path)))
        .collect();
    let kin: Vec<&(&Item, &str)> = uses
        .iter()
        .filter(|(item, known)| first_of(known) == first && item.vis == crate::syntax::Vis::Private)
        .collect();
    let same_origin: Vec<&(&Item, &str)> = uses
        .iter()
        .filter(|(_, known)| origin_of(first_of(known)) == origin_of(first))
        .collect();
    let near = if kin.is_empty() { same_origin } else { kin };
    if let Some((last, _)) = near.last() {
        let indent = trivia::indent_of(text, last.span.lo);
        return Some(
            match near
                .iter()
                .rev()
                .find(|(_, known)| order.compare(known, path) != Ordering::Greater)
            {
                Some((before, _)) => (
                    after_line(text, before.span.hi),
                    after(text, before.span.hi, &format!("{indent}use {path};"), eol),
                ),
                None => {
                    let (next, _) = near[0];
                    (
                        line_start_of(text, next.span.lo),
                        format!("{indent}use {path};{eol}"),
                    )
                }
            },
        );
    }
    if let Some((last, _)) = uses
        .iter()
        .rev()
        .find(|(_, known)| origin_of(first_of(known)) == Origin::Std)
    {
        let indent = trivia::indent_of(text, last.span.lo);
        return Some((
            after_line(text, last.span.hi),
            after(
                text,
                last.span.hi,
                &format!("{eol}{indent}use {path};"),
                eol,
            ),
        ));
    }
    if let Some((next, _)) = uses.first() {
        let indent = trivia::indent_of(text, next.span.lo);
        return Some((
            line_start_of(text, next.span.lo),
            format!("{indent}use {path};{eol}{eol}"),
        ));
    }
    let next = items.first()?;
    let indent = trivia::indent_of(text, next.span.lo);
    if trivia::starts_line(text, next.span.lo) {
        Some((
            line_start_of(text, next.span.lo),
            format!("{indent}use {path};{eol}{eol}"),
        ))
    } else {
        Some((next.span.lo, format!("use {path}; ")))
    }
}

/// One more `use` behind those of an insertion that is already made.
pub fn append_line(text: &str, insertion: &mut String, path: &str) {
    let eol = trivia::eol(text);
    let lead = insertion.len() - insertion.trim_start_matches(['\r', '\n']).len();
    let indent: String = insertion[lead..]
        .chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .collect();
    let at = insertion.rfind(';').map_or(insertion.len(), |at| at + 1);
    insertion.insert_str(at, &format!("{eol}{indent}use {path};"));
}

/// Start of the line behind `hi`, or the end of a text that has no such line.
fn after_line(text: &str, hi: usize) -> usize {
    trivia::next_line(text, hi)
}

fn after(text: &str, hi: usize, line: &str, eol: &str) -> String {
    let at = after_line(text, hi);
    // The last line may lack its line end.
    if text[..at].ends_with('\n') {
        format!("{line}{eol}")
    } else {
        format!("{eol}{line}")
    }
}

/// Start of the line that `at` is in, behind a byte order mark.
fn line_start_of(text: &str, at: usize) -> usize {
    let start = trivia::line_start(text, at);
    if start == 0 && text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        start
    }
}
