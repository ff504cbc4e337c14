//! The field that holds the timer: found or added, made in every literal, shown by an accessor.

use super::scan::{Function, Holds};
use super::{BracketSite, Context, Draft, Names, Tree, literals, name_span};
use crate::syntax::{Field, ImplItem, Item, ItemKind, Span, Vis, trivia};

/// A field of the stream's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamField {
    pub name: String,
    /// The field is a reference already.
    pub is_ref: bool,
}

impl StreamField {
    /// As an argument, from within a method.
    pub fn argument(&self) -> String {
        let and = if self.is_ref { "" } else { "&" };
        format!("{and}self.{}", self.name)
    }
}

/// What brackets are made of.
#[derive(Debug)]
pub(super) struct Timer {
    pub field: String,
    /// None: no field, or several, and no bracket says which; why.
    pub stream: Result<StreamField, String>,
}

/// Adds what the struct lacks of the field.
pub(super) fn plan(
    tree: &Tree<'_>,
    context: &Context<'_>,
    names: &mut Names<'_, '_>,
    draft: &mut Draft,
) -> Result<Timer, BracketSite> {
    let rule = tree.rule;
    let stream = stream_field(tree, context);
    let existing = existing_field(tree, context)?;
    let is_new = existing.is_none();
    let timer = Timer {
        field: existing.unwrap_or_else(|| rule.field.clone()),
        stream,
    };
    if is_new {
        can_have_field(tree, context)?;
        if let Err(reason) = &timer.stream {
            return Err(blocked(tree, context, reason.clone()));
        }
    }
    let outside = literals::plan(tree, context, &timer, names, draft)?;
    if is_new {
        add_field(tree, context, &timer, outside, names, draft)?;
    }
    add_accessor(tree, context, &timer, names, draft)?;
    Ok(timer)
}

/// The struct as a whole cannot be given its timer.
fn blocked(tree: &Tree<'_>, context: &Context<'_>, reason: String) -> BracketSite {
    let rule = tree.rule;
    let suggestion = format!(
        "add the field `{}: {}`, make it with `{}::{}(&stream)?`, and put `{}` and `{}` around the calls of each phase in `{}`",
        rule.field,
        rule.field_type,
        rule.field_type,
        rule.constructor,
        rule.start,
        rule.end,
        rule.method
    );
    tree.site(
        context.body.file,
        name_span(context.item),
        reason,
        suggestion,
    )
}

fn params(context: &Context<'_>) -> Vec<String> {
    context.it.generics.names()
}

/// The field that holds the timer already, under whatever name.
fn existing_field(tree: &Tree<'_>, context: &Context<'_>) -> Result<Option<String>, BracketSite> {
    let params = params(context);
    let rule = tree.rule;
    let mut found: Vec<&Field> = Vec::new();
    for field in &context.it.fields {
        let is_cfg = field.attrs.iter().any(|attr| attr.path == "cfg");
        match tree.holds(context.body, &params, &field.ty) {
            Holds::Directly if is_cfg => {
                return Err(blocked(
                    tree,
                    context,
                    format!(
                        "the field `{}` of `{}` is there under some `cfg` only",
                        field.name, rule.structure
                    ),
                ));
            }
            Holds::Directly => found.push(field),
            Holds::Inside => {
                return Err(blocked(
                    tree,
                    context,
                    format!(
                        "the field `{}` of `{}` may hold a `{}` or not",
                        field.name, rule.structure, rule.field_type
                    ),
                ));
            }
            Holds::Not if field.name == rule.field => {
                let ty = field.ty.span.text(tree.cx(context.body.file).text);
                return Err(blocked(
                    tree,
                    context,
                    format!(
                        "`{}` has a field `{}` of another type, `{ty}`",
                        rule.structure, rule.field
                    ),
                ));
            }
            Holds::Not => {}
        }
    }
    match &found[..] {
        [] => Ok(None),
        [only] => Ok(Some(only.name.clone())),
        several => match several.iter().find(|field| field.name == rule.field) {
            Some(field) => Ok(Some(field.name.clone())),
            None => Err(blocked(
                tree,
                context,
                format!(
                    "`{}` has {} fields of type `{}`",
                    rule.structure,
                    several.len(),
                    rule.field_type
                ),
            )),
        },
    }
}

fn stream_field(tree: &Tree<'_>, context: &Context<'_>) -> Result<StreamField, String> {
    let params = params(context);
    let rule = tree.rule;
    let of = |field: &Field| StreamField {
        name: field.name.clone(),
        is_ref: matches!(field.ty.kind, crate::syntax::TyKind::Ref { .. }),
    };
    let fields: Vec<StreamField> = context
        .it
        .fields
        .iter()
        .filter(|field| tree.is_stream_ty(context.body, &params, &field.ty))
        .map(of)
        .collect();
    if let [only] = &fields[..] {
        return Ok(only.clone());
    }
    // The one that existing brackets use.
    let mut used: Vec<StreamField> = Vec::new();
    for at in &context.impls {
        for item in at
            .it
            .items
            .iter()
            .filter(|item| super::is_fn_named(item, &rule.method))
        {
            let cx = tree.cx(at.body.file);
            let Some(function) = Function::of_item(cx, at.body, item) else {
                continue;
            };
            for mark in tree.marks(&function) {
                if rule.phases[mark.phase].stream_of_receiver.is_some() {
                    continue;
                }
                let text = mark.stream.map_or("", |expr| cx.src(expr.span));
                let is_ref = !text.starts_with('&');
                if let Some(name) = text.trim_start_matches('&').trim().strip_prefix("self.") {
                    let field = StreamField {
                        name: name.to_owned(),
                        is_ref,
                    };
                    if !used.contains(&field) {
                        used.push(field);
                    }
                }
            }
        }
    }
    match (&used[..], fields.len()) {
        ([only], _) => Ok(only.clone()),
        (_, 0) => Err(format!(
            "`{}` has no field of type `{}` to bracket on",
            rule.structure, rule.stream_type
        )),
        (_, n) => Err(format!(
            "`{}` has {n} fields of type `{}`: which one the phases run on cannot be told",
            rule.structure, rule.stream_type
        )),
    }
}

fn can_have_field(tree: &Tree<'_>, context: &Context<'_>) -> Result<(), BracketSite> {
    let rule = tree.rule;
    if context.it.is_tuple || context.it.delimiters.is_none() {
        return Err(blocked(
            tree,
            context,
            format!("`{}` has no named fields", rule.structure),
        ));
    }
    let lists = context
        .item
        .attrs
        .iter()
        .filter_map(|attr| match attr.path.as_str() {
            "derive" => Some(attr.tokens.as_str()),
            // `cfg_attr(test, derive(Clone))`
            "cfg_attr" => attr
                .tokens
                .split_once("derive")
                .and_then(|(_, list)| list.split(['(', ')']).nth(1)),
            _ => None,
        });
    for name in lists
        .flat_map(|list| list.split(','))
        .map(|name| name.rsplit("::").next().unwrap_or(name).trim())
    {
        if !name.is_empty() && !rule.derives.iter().any(|known| known == name) {
            return Err(blocked(
                tree,
                context,
                format!(
                    "`{}` derives `{name}`, which `{}` does not implement",
                    rule.structure, rule.field_type
                ),
            ));
        }
    }
    Ok(())
}

fn add_field(
    tree: &Tree<'_>,
    context: &Context<'_>,
    timer: &Timer,
    outside: bool,
    names: &mut Names<'_, '_>,
    draft: &mut Draft,
) -> Result<(), BracketSite> {
    let Some(name) = names.spell(context.body, &tree.rule.field_type) else {
        return Err(no_crate(tree, context));
    };
    let file = context.body.file;
    let text = tree.cx(file).text;
    // As visible as the stream beside it where the struct is built elsewhere.
    let stream = timer.stream.as_ref().ok().and_then(|stream| {
        context
            .it
            .fields
            .iter()
            .find(|field| field.name == stream.name)
    });
    let vis = match stream.map(|field| &field.vis) {
        Some(Vis::Public) if outside => "pub ".to_owned(),
        Some(Vis::Restricted(vis)) if outside => format!("{vis} "),
        _ => String::new(),
    };
    let Some(braces) = context.it.delimiters else {
        return Err(no_crate(tree, context));
    };
    let fields: Vec<Span> = context.it.fields.iter().map(|field| field.span).collect();
    append(
        draft,
        tree,
        file,
        text,
        braces,
        &fields,
        &format!("{vis}{}: {name}", timer.field),
    );
    Ok(())
}

fn no_crate(tree: &Tree<'_>, context: &Context<'_>) -> BracketSite {
    let reason = format!(
        "the package depends on none of the crates that have `{}`: {}",
        tree.rule.field_type,
        tree.rule.import_from.join(", ")
    );
    blocked(tree, context, reason)
}

/// Adds one more entry to a list in braces, in the manner of those that are there.
pub(super) fn append(
    draft: &mut Draft,
    tree: &Tree<'_>,
    file: usize,
    text: &str,
    braces: Span,
    entries: &[Span],
    entry: &str,
) {
    let rule = tree.rule;
    let Some(last) = entries.last() else {
        draft.insert(file, braces.lo + 1, format!(" {entry} "), rule);
        return;
    };
    let eol = trivia::eol(text);
    let has_comma = comma_behind(text, last.hi, braces.hi);
    if trivia::starts_line(text, last.lo) && braces.text(text).contains('\n') {
        let indent = trivia::indent_of(text, last.lo).to_owned();
        let line_end = trivia::line_end(text, last.hi);
        let closes_here = text[last.hi..line_end].contains('}') && braces.hi <= line_end;
        if closes_here {
            draft.insert(file, last.hi, format!(",{eol}{indent}{entry}"), rule);
        } else {
            if has_comma.is_none() {
                draft.insert(file, last.hi, ",", rule);
            }
            draft.insert(file, line_end, format!("{eol}{indent}{entry},"), rule);
        }
    } else if let Some(comma) = has_comma {
        draft.insert(file, comma + 1, format!(" {entry},"), rule);
    } else {
        draft.insert(file, last.hi, format!(", {entry}"), rule);
    }
}

/// The comma behind an entry, comments skipped.
fn comma_behind(text: &str, lo: usize, hi: usize) -> Option<usize> {
    let comments = trivia::comments(text, Span::new(lo, hi));
    text[lo..hi]
        .char_indices()
        .map(|(at, c)| (lo + at, c))
        .find(|(at, c)| {
            *c == ','
                && !comments
                    .iter()
                    .any(|comment| comment.span.lo <= *at && *at < comment.span.hi)
        })
        .map(|(at, _)| at)
}

fn add_accessor(
    tree: &Tree<'_>,
    context: &Context<'_>,
    timer: &Timer,
    names: &mut Names<'_, '_>,
    draft: &mut Draft,
) -> Result<(), BracketSite> {
    let rule = tree.rule;
    let inherent: Vec<_> = context
        .impls
        .iter()
        .filter(|at| at.it.of_trait.is_none())
        .collect();
    for at in &inherent {
        for item in at
            .it
            .items
            .iter()
            .filter(|item| super::is_fn_named(item, &rule.accessor))
        {
            let ItemKind::Fn(f) = &item.kind else {
                continue;
            };
            let gives = f
                .sig
                .ret
                .as_ref()
                .is_some_and(|ty| tree.holds(at.body, &[], ty) == Holds::Directly);
            if f.sig.receiver.is_some() && f.sig.params.is_empty() && gives {
                return Ok(());
            }
            let reason = format!(
                "`{}` has a method `{}` that does not give its `{}`",
                rule.structure, rule.accessor, rule.field_type
            );
            return Err(BracketSite {
                file: at.body.file,
                span: name_span(item),
                ..blocked(tree, context, reason)
            });
        }
    }
    let with_method = |at: &&&super::ImplAt<'_>| {
        at.it
            .items
            .iter()
            .any(|item| super::is_fn_named(item, &rule.method))
    };
    let home = inherent.iter().find(with_method).or_else(|| {
        inherent
            .iter()
            .find(|at| context.sees_fields(tree.world, at.body.module))
    });
    let Some(at) = home else {
        return Err(blocked(
            tree,
            context,
            format!(
                "`{}` has no `impl` of its own for the accessor `{}`",
                rule.structure, rule.accessor
            ),
        ));
    };
    let cx = tree.cx(at.body.file);
    let behind = at
        .it
        .items
        .iter()
        .rev()
        .find(|item| super::is_fn_named(item, &rule.method))
        .or(at.it.items.last());
    if cx.is_frozen(behind.map_or(at.it.braces, |item| item.span)) {
        return Err(blocked(
            tree,
            context,
            format!("the `impl` of `{}` is to stay as it is", rule.structure),
        ));
    }
    let Some(name) = names.spell(at.body, &rule.field_type) else {
        return Err(no_crate(tree, context));
    };
    let holder = if is_reference(context, &timer.field) {
        ""
    } else {
        "&"
    };
    let eol = trivia::eol(cx.text);
    let indent = behind.map_or_else(
        || format!("{}    ", trivia::indent_of(cx.text, at.it.braces.lo)),
        |item| trivia::indent_of(cx.text, item.span.lo).to_owned(),
    );
    let step = if indent.contains('\t') { "\t" } else { "    " };
    let head = format!("pub fn {}(&self) -> &{name}", rule.accessor);
    let body = format!("{holder}self.{}", timer.field);
    let code = if is_compact(cx.text, at.it) {
        format!("{indent}{head} {{ {body} }}")
    } else {
        format!("{indent}{head} {{{eol}{indent}{step}{body}{eol}{indent}}}")
    };
    let doc = match &rule.accessor_doc {
        Some(doc) if wants_docs(tree, at.body.module) => format!("{indent}/// {doc}{eol}"),
        _ => String::new(),
    };
    match behind {
        Some(item)
            if trivia::starts_line(cx.text, item.span.lo)
                && super::layout::only_comments_follow(cx.text, item.span.hi) =>
        {
            let gap = if has_blank_lines(cx.text, &at.it.items) {
                eol
            } else {
                ""
            };
            draft.insert(
                at.body.file,
                trivia::line_end(cx.text, item.span.hi),
                format!("{eol}{gap}{doc}{code}"),
                rule,
            );
        }
        Some(item) => draft.insert(
            at.body.file,
            item.span.hi,
            format!("{eol}{doc}{code}"),
            rule,
        ),
        None => draft.insert(
            at.body.file,
            at.it.braces.lo + 1,
            format!("{eol}{doc}{code}{eol}"),
            rule,
        ),
    }
    Ok(())
}

fn is_reference(context: &Context<'_>, field: &str) -> bool {
    context.it.fields.iter().any(|known| {
        known.name == field && matches!(known.ty.kind, crate::syntax::TyKind::Ref { .. })
    })
}

/// Whether functions of the implementation stand on one line.
fn is_compact(text: &str, it: &ImplItem) -> bool {
    it.items.iter().any(|item| matches!(&item.kind, ItemKind::Fn(f) if f.body.as_ref().is_some_and(|body| !body.stmts.is_empty() && !body.span.text(text).contains('\n'))))
}

/// Whether items are kept apart by blank lines.
fn has_blank_lines(text: &str, items: &[Item]) -> bool {
    items.len() < 2
        || items
            .windows(2)
            .any(|pair| text[pair[0].span.hi..pair[1].span.lo].matches('\n').count() > 1)
}

/// Whether the crate asks for documentation.
fn wants_docs(tree: &Tree<'_>, module: crate::world::ModId) -> bool {
    let world = tree.world;
    let root = &world.mods[world.crates[world.mods[module].krate].root];
    world.files[root.file].parsed.as_ref().is_ok_and(|file| {
        file.inner_attrs
            .iter()
            .any(|attr| attr.tokens.contains("missing_docs"))
    })
}
