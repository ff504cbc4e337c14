//! What the rewrites left without a use: locals, `mut`, labels, private items.
//!
//! Only what was used before and is not any more: everything is compared with the file as it was.

use std::collections::{HashMap, HashSet};

use crate::analysis::{LocalKind, walk};
use crate::edit::{Edit, EditGroup};
use crate::names::{count_idents, item_extent};
use crate::rewrite::Cx;
use crate::rewrite::nodes::Parent;
use crate::syntax::{Expr, ExprKind, Item, ItemKind, PatKind, ReceiverKind, Span, StmtKind, Vis};
use crate::world::Type;

const RULE: &str = "unused";

/// What was in use before: by where it stood in the original.
#[derive(Debug, Default)]
pub struct Before {
    locals: HashSet<usize>,
    needed_mut: HashSet<usize>,
    labels: HashSet<usize>,
    /// Private items with a use, by where their name stands.
    items: HashSet<usize>,
}

pub fn before(cx: &Cx<'_>) -> Before {
    let mut out = Before::default();
    for local in &cx.an.locals {
        if !local.uses.is_empty() {
            out.locals.insert(local.span.lo);
        }
    }
    for id in 0..cx.an.locals.len() {
        if cx.an.locals[id].mutable && needs_mut(cx, id) {
            out.needed_mut.insert(cx.an.locals[id].span.lo);
        }
    }
    for (label, used) in labels(cx) {
        if used {
            out.labels.insert(label.lo);
        }
    }
    for (item, _) in &cx.nodes.items {
        if let Some(name) = &item.name
            && private_uses(cx, item) > 0
        {
            out.items.insert(name.span.lo);
        }
    }
    out
}

/// Edits for locals, `mut` and labels that have no use any more.
pub fn locals(cx: &Cx<'_>, before: &Before) -> Vec<EditGroup> {
    let mut out: Vec<EditGroup> = Vec::new();
    let was = |at: usize, set: &HashSet<usize>| {
        cx.rope
            .exact_origin(at)
            .is_some_and(|origin| set.contains(&origin))
    };
    for (id, local) in cx.an.locals.iter().enumerate() {
        if local.kind == LocalKind::SelfParam
            || cx.is_frozen(local.span)
            || local.name.starts_with('_')
        {
            continue;
        }
        if local.uses.is_empty() && was(local.span.lo, &before.locals) && !stands_in_tokens(cx, id)
        {
            if let Some(group) = drop_local(cx, id) {
                out.push(group);
            }
            continue;
        }
        if local.mutable && was(local.span.lo, &before.needed_mut) && !needs_mut(cx, id) {
            // `mut ` in front of the name.
            let head = cx.text[..local.span.lo].trim_end();
            if let Some(head) = head.strip_suffix("mut") {
                out.push(EditGroup::one(Edit::new(
                    Span::new(head.len(), local.span.lo),
                    "",
                    RULE,
                )));
            }
        }
    }
    for (label, used) in labels(cx) {
        if !used && was(label.lo, &before.labels) {
            let rest = &cx.text[label.hi..];
            let colon = rest.find(':').map_or(0, |n| n + 1);
            let blanks = rest[colon..].len() - rest[colon..].trim_start_matches(' ').len();
            out.push(EditGroup::one(Edit::new(
                Span::new(label.lo, label.hi + colon + blanks),
                "",
                RULE,
            )));
        }
    }
    out
}

fn drop_local(cx: &Cx<'_>, id: usize) -> Option<EditGroup> {
    let local = &cx.an.locals[id];
    match local.kind {
        LocalKind::Let => {
            let at = cx.nodes.lets.iter().find(|at| match &at.stmt.kind {
                StmtKind::Let { pat, .. } => pat.span.contains(local.span),
                _ => false,
            })?;
            let StmtKind::Let {
                pat,
                init,
                diverge: None,
                ..
            } = &at.stmt.kind
            else {
                return underscore(cx, local.span, false);
            };
            if !matches!(pat.kind, PatKind::Ident { sub: None, .. }) {
                let shorthand = in_shorthand(cx, local.span);
                // A field that is not bound is dropped with the rest of the value.
                if shorthand && !local.mutable && cx.drop_is_seen(&local.ty) {
                    let name = cx.src(local.span);
                    let kept =
                        cx.free_name(&format!("_{}", name.trim_start_matches("r#")), local.span);
                    return cx.edit(local.span, format!("{name}: {kept}"), RULE);
                }
                return underscore(cx, local.span, shorthand);
            }
            match init {
                None => cx
                    .delete_stmt(at.stmt, at.block, at.at, RULE)
                    .map(EditGroup::one),
                Some(init) if cx.is_pure(init) => cx
                    .delete_stmt(at.stmt, at.block, at.at, RULE)
                    .map(EditGroup::one),
                Some(init) => {
                    // Bound to nothing, it would be let go at once: a lock, or a batch that others wait for.
                    if cx.drop_is_seen(cx.an.ty(init)) {
                        return underscore(cx, local.span, false);
                    }
                    cx.edit(pat.span, "_", RULE)
                }
            }
        }
        LocalKind::Param | LocalKind::ClosureParam | LocalKind::Pattern => {
            underscore(cx, local.span, in_shorthand(cx, local.span))
        }
        LocalKind::SelfParam => None,
    }
}

/// A field pattern in its short form: `{ name, .. }`.
fn in_shorthand(cx: &Cx<'_>, span: Span) -> bool {
    let before = cx.text[..span.lo].trim_end();
    let after = cx.text[span.hi..].trim_start();
    (before.ends_with('{') || before.ends_with(','))
        && (after.starts_with(',') || after.starts_with('}'))
        && {
            // Inside of braces rather than of a tuple.
            let mut depth = 0i32;
            let mut brace = false;
            for c in cx.text[..span.lo].chars().rev() {
                match c {
                    ')' | ']' | '}' => depth += 1,
                    '(' | '[' if depth == 0 => break,
                    '{' if depth == 0 => {
                        brace = true;
                        break;
                    }
                    '(' | '[' | '{' => depth -= 1,
                    '|' if depth == 0 => break,
                    _ => {}
                }
            }
            brace
        }
}

fn underscore(cx: &Cx<'_>, span: Span, shorthand: bool) -> Option<EditGroup> {
    let name = cx.src(span);
    let text = if shorthand {
        format!("{name}: _")
    } else {
        cx.free_name(&format!("_{}", name.trim_start_matches("r#")), span)
    };
    // `mut` in front has no purpose either.
    let head = cx.text[..span.lo].trim_end();
    let lo = match head.strip_suffix("mut") {
        Some(rest) if rest.ends_with([' ', '(', ',', '|', '\n']) || rest.is_empty() => rest.len(),
        _ => span.lo,
    };
    cx.edit(Span::new(lo, span.hi), text, RULE)
}

/// Whether anything is done with a local that needs it to be `mut`.
fn needs_mut(cx: &Cx<'_>, id: usize) -> bool {
    let local = &cx.an.locals[id];
    // Tokens that nobody parsed may do anything.
    if stands_in_tokens(cx, id) {
        return true;
    }
    local.uses.iter().any(|at| {
        let Some(expr) = at.expr.and_then(|id| cx.nodes.by_id.get(&id).copied()) else {
            return false;
        };
        changes(cx, expr)
    })
}

/// Whether a local's name stands among tokens of its function that nobody parsed, in a format string of theirs, too.
fn stands_in_tokens(cx: &Cx<'_>, id: usize) -> bool {
    let local = &cx.an.locals[id];
    let Some(function) = cx.an.functions.get(local.function) else {
        return false;
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    cx.unread_spans()
        .into_iter()
        .filter(|tokens| function.span.contains(*tokens))
        .any(|tokens| {
            cx.src(tokens)
                .split(|c| !is_word(c))
                .any(|word| word == local.name.trim_start_matches("r#"))
        })
}

fn changes(cx: &Cx<'_>, expr: &Expr) -> bool {
    match cx.nodes.parent(expr) {
        Some(Parent::Expr(outer)) => match &outer.kind {
            ExprKind::Field { .. } | ExprKind::Index { .. } | ExprKind::Paren(_) => {
                if let ExprKind::Index { index, .. } = &outer.kind
                    && index.id == expr.id
                {
                    return false;
                }
                changes(cx, outer)
            }
            // Through a reference the local itself is not changed; through a guard or a box it is.
            ExprKind::Deref(_) => !matches!(cx.an.ty(expr), Type::Ref(..)) && changes(cx, outer),
            ExprKind::Ref { mutable, .. } => *mutable,
            ExprKind::RawRef(_) => true,
            ExprKind::Assign { lhs, .. } => lhs.id == expr.id,
            ExprKind::Binary {
                op: crate::syntax::BinOp::AssignOp,
                lhs,
                ..
            } => lhs.id == expr.id,
            ExprKind::MethodCall { recv, method, .. } if recv.id == expr.id => {
                match cx.an.methods.get(&outer.id) {
                    Some(hit) => {
                        let by_ref_mut = hit
                            .def
                            .sig
                            .receiver
                            .as_ref()
                            .is_some_and(|receiver| receiver.kind == ReceiverKind::RefMut);
                        // Through a `&mut` the local itself is not changed.
                        by_ref_mut && !matches!(cx.an.ty(expr), Type::Ref(true, _))
                    }
                    None => !matches!(
                        method.text.as_str(),
                        "clone"
                            | "to_owned"
                            | "to_string"
                            | "into"
                            | "as_ref"
                            | "len"
                            | "is_empty"
                            | "iter"
                    ),
                }
            }
            // `write!(text, …)` borrows what it writes to; other macros of the library only read.
            ExprKind::Macro(mac) => {
                matches!(mac.path.last().name.text.as_str(), "write" | "writeln")
            }
            ExprKind::Match { scrutinee, .. } => scrutinee.id == expr.id,
            ExprKind::Let { value, .. } => value.id == expr.id,
            ExprKind::For { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// Labels of loops and blocks, and whether anything jumps to them.
fn labels(cx: &Cx<'_>) -> Vec<(Span, bool)> {
    let mut out = Vec::new();
    for expr in &cx.nodes.exprs {
        let label = match &expr.kind {
            ExprKind::Loop { label, .. }
            | ExprKind::While { label, .. }
            | ExprKind::For { label, .. }
            | ExprKind::Block { label, .. } => label,
            _ => continue,
        };
        let Some(label) = label else { continue };
        let mut used = false;
        walk(expr, &mut |inner| {
            if let ExprKind::Break {
                label: Some(to), ..
            }
            | ExprKind::Continue { label: Some(to) } = &inner.kind
            {
                used |= to.text == label.text;
            }
        });
        // Macros may hold jumps that nobody parsed.
        let in_tokens = cx
            .src(expr.span)
            .matches(&format!("'{}", label.text))
            .count()
            > 1;
        out.push((label.span, used || in_tokens));
    }
    out
}

/// Whether an item is of a kind that goes when nothing uses it any more.
fn may_go(item: &Item) -> bool {
    matches!(
        item.kind,
        ItemKind::Fn(_) | ItemKind::Const { .. } | ItemKind::Struct(_) | ItemKind::TypeAlias { .. }
    )
}

/// Uses of a private item within the module that it belongs to, its own body left out.
fn private_uses(cx: &Cx<'_>, item: &Item) -> usize {
    let Some(name) = &item.name else { return 0 };
    if item.vis != Vis::Private || !may_go(item) {
        return 0;
    }
    count_idents(cx.file, Span::new(0, cx.text.len()), &[item.span])
        .get(&name.text)
        .copied()
        .unwrap_or(0)
}

/// An item that may go: the edit, what it is, and where it begins.
pub type Goes = (EditGroup, String, usize);

/// Private items that nothing uses any more; with the names, for the report.
pub fn items(cx: &Cx<'_>, before: &Before, used_in_children: &dyn Fn(&str) -> bool) -> Vec<Goes> {
    let mut out = Vec::new();
    for (item, outer) in &cx.nodes.items {
        let Some(name) = &item.name else { continue };
        if item.vis != Vis::Private || !is_nobodys(cx, item, *outer) {
            continue;
        }
        let was = cx
            .rope
            .exact_origin(name.span.lo)
            .is_some_and(|origin| before.items.contains(&origin));
        if was && private_uses(cx, item) == 0 && !used_in_children(&name.text) {
            out.push(going(cx, item, &name.text));
        }
    }
    out
}

/// An item that other modules of its crate see.
#[derive(Debug)]
pub struct Shared {
    pub name: String,
    /// Now, and as it was.
    pub span: Span,
    pub origin: Span,
    pub goes: Goes,
}

/// Items with one of these names that other modules see and other crates do not: `pub(crate)` and its like.
///
/// `is_program`: of a crate that no other can use, all of them.
pub fn shared(cx: &Cx<'_>, is_program: bool, names: &HashSet<String>) -> Vec<Shared> {
    let mut out = Vec::new();
    for (item, outer) in &cx.nodes.items {
        let Some(name) = &item.name else { continue };
        let is_shared = match &item.vis {
            Vis::Restricted(_) => true,
            Vis::Public => is_program,
            Vis::Private => false,
        };
        if is_shared
            && names.contains(&name.text)
            && is_nobodys(cx, item, *outer)
            && cx.rope.exact_origin(name.span.lo).is_some()
        {
            out.push(Shared {
                name: name.text.clone(),
                span: item.span,
                origin: cx.rope.origin_span(item.span),
                goes: going(cx, item, &name.text),
            });
        }
    }
    out
}

/// Whether an item is only used by its name: nothing calls it on its own.
fn is_nobodys(cx: &Cx<'_>, item: &Item, outer: Option<&Item>) -> bool {
    // Trait methods are called through the trait.
    let of_trait = outer.is_some_and(|outer| match &outer.kind {
        ItemKind::Impl(it) => it.of_trait.is_some(),
        ItemKind::Trait(_) => true,
        _ => false,
    });
    let entry = item.attrs.iter().any(|attr| {
        !attr.is_doc
            && !matches!(
                attr.path.as_str(),
                "inline" | "allow" | "expect" | "must_use" | "cfg" | "derive"
            )
    });
    let is_main = item.name.as_ref().is_some_and(|name| name.text == "main");
    !of_trait && !entry && !is_main && may_go(item) && !cx.is_frozen(item.span)
}

fn going(cx: &Cx<'_>, item: &Item, name: &str) -> Goes {
    let kind = match &item.kind {
        ItemKind::Fn(_) => "function",
        ItemKind::Const { .. } => "constant",
        ItemKind::Struct(_) => "struct",
        _ => "type",
    };
    let span = with_comments(cx.text, item_extent(cx.text, item.span));
    (
        EditGroup::one(Edit::new(span, "", RULE)),
        format!("{kind} `{name}`"),
        item.span.lo,
    )
}

/// An item's lines with the comment lines directly above them.
pub fn with_comments(text: &str, span: Span) -> Span {
    use crate::syntax::trivia::line_start;
    let mut lo = span.lo;
    if !crate::syntax::trivia::starts_line(text, lo) {
        return span;
    }
    while lo > 0 {
        let above = line_start(text, lo - 1);
        let line = text[above..lo].trim();
        if line.starts_with("//") && !line.starts_with("//!") && !line.starts_with("///") {
            lo = above
        } else {
            break;
        }
    }
    // A ruler or a heading stands apart: only a comment with a blank line (or a brace) above is the item's own.
    if lo < span.lo {
        let above = if lo == 0 {
            ""
        } else {
            text[line_start(text, lo - 1)..lo].trim()
        };
        if !(above.is_empty()
            || above.ends_with('{')
            || above.ends_with('}')
            || above.ends_with(';'))
        {
            return span;
        }
        // Blank lines above and below would meet.
        let two = above.is_empty() && lo > 0 && text[span.hi..].starts_with(['\n', '\r']);
        if two {
            return Span::new(lo, crate::syntax::trivia::next_line(text, span.hi));
        }
        // At the end of what holds it, the one above has nothing to set apart.
        let below = text[span.hi..crate::syntax::trivia::line_end(text, span.hi)].trim();
        if above.is_empty() && lo > 0 && (below.starts_with('}') || span.hi >= text.len()) {
            lo = line_start(text, lo - 1);
        }
    }
    Span::new(lo, span.hi)
}

/// How the items of a text are used by name, for comparison.
pub fn ident_counts(cx: &Cx<'_>) -> HashMap<String, usize> {
    count_idents(cx.file, Span::new(0, cx.text.len()), &[])
}

/// Variants of private enums that nothing makes any more, fields of private structs that nothing names.
///
/// `before`: the same of the file as it was.
pub fn member_uses(cx: &Cx<'_>) -> HashMap<String, (usize, usize)> {
    let idents = ident_counts(cx);
    let mut out = HashMap::new();
    for (item, _) in &cx.nodes.items {
        let Some(owner) = item.name.as_ref().filter(|_| item.vis == Vis::Private) else {
            continue;
        };
        match &item.kind {
            ItemKind::Enum(it) => {
                for variant in &it.variants {
                    let made = cx.an.paths.values().filter(|found| {
                        !matches!(found.role, crate::analysis::PathRole::Pattern)
                            && found.path.segs.iter().any(|seg| seg.name.text == variant.name.text)
                            && matches!(found.res, crate::world::Res::Variant(def, _) if cx.world.defs[def].name == owner.text)
                    });
                    out.insert(
                        format!("variant `{}::{}`", owner.text, variant.name.text),
                        (variant.name.span.lo, made.count()),
                    );
                }
            }
            ItemKind::Struct(it) => {
                for field in &it.fields {
                    if let Some(span) = field.name_span
                        && !field.name.starts_with('_')
                    {
                        let n = idents.get(&field.name).copied().unwrap_or(0);
                        out.insert(
                            format!("field `{}` of `{}`", field.name, owner.text),
                            (span.lo, n.saturating_sub(1)),
                        );
                    }
                }
            }
            _ => {}
        }
    }
    out
}
