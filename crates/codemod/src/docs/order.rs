//! Imports of an example in the order that they were in: rustfmt does not look into comments.

use crate::edit::{Edit, EditGroup};
use crate::imports::Order;
use crate::names::scopes;
use crate::rewrite::Cx;
use crate::syntax::{ItemKind, UseKind, UseTree};
use crate::world::ModId;

use super::examples::RULE;

/// Sorts groups that new names have left unsorted.
pub fn sort_imports(cx: &Cx<'_>, module: ModId) -> Vec<EditGroup> {
    let news: Vec<&str> = cx
        .rules
        .retired_types()
        .map(|retired| cx.world.defs[retired.becomes()].name.as_str())
        .collect();
    let mut out = Vec::new();
    for item in scopes(cx, module, cx.text.len())
        .iter()
        .flat_map(|scope| &scope.items)
    {
        if let ItemKind::Use(it) = &item.kind {
            sort(cx, module, &it.tree, &news, &mut out);
        }
    }
    out
}

fn sort(cx: &Cx<'_>, module: ModId, tree: &UseTree, news: &[&str], out: &mut Vec<EditGroup>) {
    let items = match &tree.kind {
        UseKind::Group { items } => items,
        UseKind::Path { rest, .. } => return sort(cx, module, rest, news, out),
        _ => return,
    };
    let n_before = out.len();
    for item in items {
        sort(cx, module, item, news, out);
    }
    // A comment belongs to its neighbour; inner groups are sorted first, this one in the next round.
    let text = cx.src(tree.span);
    if out.len() > n_before || text.contains("//") || text.contains("/*") {
        return;
    }
    let texts: Vec<&str> = items.iter().map(|item| cx.src(item.span)).collect();
    let is_sorted = |texts: &[&str], order: Order| {
        texts
            .windows(2)
            .all(|pair| order.compare(pair[0], pair[1]).is_le())
    };
    let old: Vec<&str> = texts
        .iter()
        .copied()
        .filter(|text| !news.contains(text))
        .collect();
    let edition = cx.world.crates[cx.world.mods[module].krate].edition;
    let orders = match Order::of_edition(edition) {
        Order::Ascii => [Order::Ascii, Order::CaseKinds],
        Order::CaseKinds => [Order::CaseKinds, Order::Ascii],
    };
    let Some(order) = orders.into_iter().find(|&order| is_sorted(&old, order)) else {
        return;
    };
    let mut sorted = texts.clone();
    sorted.sort_by(|a, b| order.compare(a, b));
    let moved = items
        .iter()
        .zip(&texts)
        .zip(&sorted)
        .filter(|((_, old), new)| old != new);
    let edits: Vec<Edit> = moved
        .map(|((item, _), new)| Edit::new(item.span, *new, RULE))
        .collect();
    if !edits.is_empty() && !orders.iter().any(|&order| is_sorted(&texts, order)) {
        out.push(EditGroup { edits });
    }
}
