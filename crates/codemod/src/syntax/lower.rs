//! From `syn`'s tree to ours.

use std::collections::HashSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;

use super::tree::*;

/// Macros of the standard library (and of those who write like it) whose arguments are expressions.
///
/// What else is called like one of these takes expressions as well; where it does not, its arguments do not parse.
const EXPR_MACROS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "format_args",
    "write",
    "writeln",
    "panic",
    "unreachable",
    "todo",
    "unimplemented",
    "vec",
    "dbg",
    "matches",
];

/// Macros of the usual libraries for errors and logs, which take what those of the standard library take.
const USUAL_MACROS: &[&str] = &["anyhow", "bail", "ensure", "eyre"];

/// Those that take fields besides: `info!(target: "draw", rows = batch.len(), ?kind, "drawn")`.
const LOG_MACROS: &[&str] = &["trace", "debug", "info", "warn", "error"];

fn takes_exprs(name: &str) -> bool {
    [EXPR_MACROS, USUAL_MACROS, LOG_MACROS]
        .iter()
        .any(|list| list.contains(&name))
}

#[derive(Debug)]
/// Copies a parsed file into [`tree`](super::tree), with ranges that count from the start of the whole text.
pub struct Lower<'t> {
    text: &'t str,
    cut: usize,
    /// Behind the cut.
    line_starts: Vec<usize>,
    is_ascii: bool,
    n_exprs: u32,
    mismatch: Option<usize>,
    /// Where a `let` may stand in an expression: links of a condition's `&&` chain.
    conditions: HashSet<usize>,
    stray_let: Option<usize>,
}

impl<'t> Lower<'t> {
    pub fn new(text: &'t str, cut: usize) -> Self {
        Lower {
            text,
            cut,
            line_starts: std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', &text.as_bytes()[cut..]).map(|at| at + 1))
                .collect(),
            is_ascii: text[cut..].is_ascii(),
            n_exprs: 0,
            mismatch: None,
            conditions: HashSet::new(),
            stray_let: None,
        }
    }

    /// Where a `let` stood as an expression elsewhere: `syn` takes that, no compiler does.
    pub fn take_stray_let(&mut self) -> Option<usize> {
        self.stray_let.take()
    }

    /// A condition or a guard.
    fn condition(&mut self, cond: &syn::Expr) -> Expr {
        let mut at = cond;
        loop {
            let (link, next) = match at {
                syn::Expr::Binary(it) if matches!(it.op, syn::BinOp::And(_)) => {
                    (&*it.right, Some(&*it.left))
                }
                other => (other, None),
            };
            if let syn::Expr::Let(it) = link {
                let span = self.of(&it.let_token);
                self.conditions.insert(span.lo);
            }
            match next {
                Some(next) => at = next,
                None => return self.expr(cond),
            }
        }
    }

    /// Where an identifier's range did not hold its text.
    pub fn take_mismatch(&mut self) -> Option<usize> {
        self.mismatch.take()
    }

    pub fn file(&mut self, file: &syn::File) -> File {
        let inner_attrs = self.attrs(&file.attrs);
        let items = file.items.iter().map(|item| self.item(item)).collect();
        File {
            items,
            n_exprs: self.n_exprs,
            inner_attrs,
            ..File::default()
        }
    }

    /// Fills in the flat lists of tokens.
    pub fn tokens(&mut self, stream: TokenStream, file: &mut File) {
        self.flatten(stream, file);
    }

    fn flatten(&mut self, stream: TokenStream, file: &mut File) {
        for tree in stream {
            match tree {
                TokenTree::Ident(ident) => {
                    let span = self.span(ident.span());
                    let text = ident.to_string();
                    let text = text.strip_prefix("r#").unwrap_or(&text).to_owned();
                    let source = span.text(self.text);
                    // The `doc` of a doc comment spans the whole comment.
                    if source.strip_prefix("r#").unwrap_or(source) == text {
                        file.idents.push(Name { text, span });
                    }
                }
                TokenTree::Literal(literal) => {
                    let span = self.span(literal.span());
                    if span.text(self.text).ends_with(['"', '#']) {
                        file.strings.push(span);
                    }
                }
                TokenTree::Group(group) => {
                    let span = self.span(group.span());
                    let source = span.text(self.text);
                    // A doc comment: its tokens all stand for the whole of it.
                    if group.delimiter() == Delimiter::Bracket && !source.starts_with('[') {
                        file.docs.push(span);
                    } else {
                        self.flatten(group.stream(), file);
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }

    /// By line and column: `byte_range` searches a tree that it fills as it is asked, and is asked for every node.
    fn span(&self, span: proc_macro2::Span) -> Span {
        Span::new(self.byte(span.start()), self.byte(span.end()))
    }

    fn byte(&self, place: proc_macro2::LineColumn) -> usize {
        let start = self.cut + self.line_starts[place.line - 1];
        if self.is_ascii {
            return start + place.column;
        }
        let rest = &self.text[start..];
        rest.char_indices()
            .nth(place.column)
            .map_or(self.text.len(), |(at, _)| start + at)
    }

    /// `syn` prints a node to find its first and its last token, which for items with bodies below each other is most of what
    /// parsing takes: those are told by their parts.
    fn of(&self, node: &impl Spanned) -> Span {
        self.span(node.span())
    }

    /// `rest`, with what may stand in front of it: the first of what is there begins it.
    fn behind(
        &self,
        attrs: &[syn::Attribute],
        vis: &syn::Visibility,
        modifiers: impl IntoIterator<Item = Option<proc_macro2::Span>>,
        rest: Span,
    ) -> Span {
        let attr = attrs
            .iter()
            .find(|attr| matches!(attr.style, syn::AttrStyle::Outer))
            .map(|attr| attr.pound_token.span);
        let vis = match vis {
            syn::Visibility::Public(token) => Some(token.span),
            syn::Visibility::Restricted(vis) => Some(vis.pub_token.span),
            syn::Visibility::Inherited => None,
        };
        [attr, vis]
            .into_iter()
            .chain(modifiers)
            .flatten()
            .next()
            .map_or(rest, |first| self.span(first).to(rest))
    }

    fn braces(&self, brace: &syn::token::Brace) -> Span {
        self.span(brace.span.open())
            .to(self.span(brace.span.close()))
    }

    fn item_span(&self, item: &syn::Item) -> Span {
        let span = match item {
            syn::Item::Fn(it) => {
                let modifier = it.modifiers.defaultness.map(|token| token.span);
                let rest = self.of(&it.sig).to(self.braces(&it.block.brace_token));
                self.behind(&it.attrs, &it.vis, [modifier], rest)
            }
            syn::Item::Impl(it) => {
                let modifiers = [
                    it.modifiers.defaultness.map(|token| token.span),
                    it.unsafety.map(|token| token.span),
                ];
                let rest = self.of(&it.impl_token).to(self.braces(&it.brace_token));
                self.behind(&it.attrs, &syn::Visibility::Inherited, modifiers, rest)
            }
            syn::Item::Mod(it) => {
                let unsafety = it.unsafety.map(|token| token.span);
                let end = match (&it.content, &it.semi) {
                    (Some((brace, _)), _) => self.braces(brace),
                    (None, Some(semi)) => self.of(semi),
                    (None, None) => return self.of(item),
                };
                let rest = self.of(&it.mod_token).to(end);
                self.behind(&it.attrs, &it.vis, [unsafety], rest)
            }
            syn::Item::Trait(it) => {
                let modifiers = [
                    it.unsafety.map(|token| token.span),
                    it.modifiers.auto_token.map(|token| token.span),
                ];
                let rest = self.of(&it.trait_token).to(self.braces(&it.brace_token));
                self.behind(&it.attrs, &it.vis, modifiers, rest)
            }
            _ => return self.of(item),
        };
        debug_assert_eq!(span, self.of(item));
        span
    }

    fn trait_item_span(&self, item: &syn::TraitItem) -> Span {
        let syn::TraitItem::Fn(it) = item else {
            return self.of(item);
        };
        let Some(body) = &it.default else {
            return self.of(item);
        };
        let rest = self.of(&it.sig).to(self.braces(&body.brace_token));
        let span = self.behind(&it.attrs, &syn::Visibility::Inherited, [], rest);
        debug_assert_eq!(span, self.of(item));
        span
    }

    fn impl_item_span(&self, item: &syn::ImplItem) -> Span {
        let syn::ImplItem::Fn(it) = item else {
            return self.of(item);
        };
        let modifier = it.modifiers.defaultness.map(|token| token.span);
        let rest = self.of(&it.sig).to(self.braces(&it.block.brace_token));
        let span = self.behind(&it.attrs, &it.vis, [modifier], rest);
        debug_assert_eq!(span, self.of(item));
        span
    }

    fn name(&mut self, ident: &proc_macro2::Ident) -> Name {
        let span = self.span(ident.span());
        let text = ident.to_string();
        let text = text.strip_prefix("r#").unwrap_or(&text).to_owned();
        let source = self.text.get(span.lo..span.hi).unwrap_or("");
        if source.strip_prefix("r#").unwrap_or(source) != text {
            self.mismatch.get_or_insert(span.lo);
        }
        Name { text, span }
    }

    fn lifetime(&mut self, label: &syn::Lifetime) -> Name {
        Name {
            text: label.ident.to_string(),
            span: self.span(label.span()),
        }
    }

    fn attrs(&mut self, attrs: &[syn::Attribute]) -> Vec<Attr> {
        attrs.iter().map(|attr| self.attr(attr)).collect()
    }

    fn attr(&mut self, attr: &syn::Attribute) -> Attr {
        let span = self
            .span(attr.pound_token.span)
            .to(self.span(attr.bracket_token.span.close()));
        let path = path_text(attr.path());
        let tokens = match &attr.meta {
            syn::Meta::Path(_) => String::new(),
            syn::Meta::List(list) => list.tokens.to_string(),
            syn::Meta::NameValue(pair) => quote::ToTokens::to_token_stream(&pair.value).to_string(),
        };
        let is_doc = path == "doc" && !span.text(self.text).starts_with("#");
        Attr {
            path,
            span,
            is_doc,
            tokens,
        }
    }

    fn vis(&mut self, vis: &syn::Visibility) -> Vis {
        match vis {
            syn::Visibility::Public(_) => Vis::Public,
            syn::Visibility::Restricted(_) => {
                Vis::Restricted(self.of(vis).text(self.text).to_owned())
            }
            syn::Visibility::Inherited => Vis::Private,
        }
    }

    // --- items

    fn item(&mut self, item: &syn::Item) -> Item {
        use syn::Item as I;
        let span = self.item_span(item);
        let private = Vis::Private;
        let (attrs, vis, name, kind) = match item {
            I::Use(it) => {
                let tree = UseItem {
                    leading_colon: it.leading_colon.is_some(),
                    tree: self.use_tree(&it.tree),
                };
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    None,
                    ItemKind::Use(tree),
                )
            }
            I::Mod(it) => {
                let attrs = self.attrs(&it.attrs);
                let path_attr = it
                    .attrs
                    .iter()
                    .find(|attr| attr.path().is_ident("path"))
                    .and_then(|attr| match &attr.meta {
                        syn::Meta::NameValue(syn::MetaNameValue {
                            value: syn::Expr::Lit(lit),
                            ..
                        }) => match &lit.lit {
                            syn::Lit::Str(text) => Some(text.value()),
                            _ => None,
                        },
                        _ => None,
                    });
                let braces = it.content.as_ref().map(|(brace, _)| self.braces(brace));
                let items = it
                    .content
                    .as_ref()
                    .map(|(_, items)| items.iter().map(|item| self.item(item)).collect());
                (
                    attrs,
                    self.vis(&it.vis),
                    Some(self.name(&it.ident)),
                    ItemKind::Mod(ModItem {
                        items,
                        braces,
                        path_attr,
                    }),
                )
            }
            I::Fn(it) => {
                let name = self.name(&it.sig.ident);
                let sig = self.sig(&it.sig);
                let body = Some(self.block(&it.block));
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Fn(Box::new(FnItem { sig, body })),
                )
            }
            I::Struct(it) => {
                let name = self.name(&it.ident);
                let kind = StructItem {
                    generics: self.generics(&it.generics),
                    is_tuple: matches!(it.fields, syn::Fields::Unnamed(_)),
                    delimiters: self.delimiters(&it.fields),
                    fields: self.fields(&it.fields),
                };
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Struct(kind),
                )
            }
            I::Union(it) => {
                let name = self.name(&it.ident);
                let fields = syn::Fields::Named(it.fields.clone());
                let kind = StructItem {
                    generics: self.generics(&it.generics),
                    is_tuple: false,
                    delimiters: self.delimiters(&fields),
                    fields: self.fields(&fields),
                };
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Struct(kind),
                )
            }
            I::Enum(it) => {
                let name = self.name(&it.ident);
                let variants = it
                    .variants
                    .iter()
                    .map(|variant| self.variant(variant))
                    .collect();
                let kind = EnumItem {
                    generics: self.generics(&it.generics),
                    variants,
                };
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Enum(kind),
                )
            }
            I::Trait(it) => {
                let name = self.name(&it.ident);
                let kind = TraitItem {
                    generics: self.generics(&it.generics),
                    supertraits: self.bounds(&it.supertraits),
                    items: it.items.iter().map(|item| self.trait_item(item)).collect(),
                };
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Trait(kind),
                )
            }
            I::Impl(it) => {
                let kind = ImplItem {
                    generics: self.generics(&it.generics),
                    of_trait: it.trait_.as_ref().map(|(path, _)| self.path(path, None)),
                    self_ty: self.ty(&it.self_ty),
                    items: it.items.iter().map(|item| self.impl_item(item)).collect(),
                    braces: self.braces(&it.brace_token),
                };
                (self.attrs(&it.attrs), private, None, ItemKind::Impl(kind))
            }
            I::Type(it) => {
                let name = self.name(&it.ident);
                let kind = ItemKind::TypeAlias {
                    generics: self.generics(&it.generics),
                    ty: Some(self.ty(&it.ty)),
                    bounds: vec![],
                };
                (self.attrs(&it.attrs), self.vis(&it.vis), Some(name), kind)
            }
            I::Const(it) => {
                let name = self.name(&it.ident);
                let kind = ItemKind::Const {
                    ty: self.ty(&it.ty),
                    value: Some(self.expr(&it.expr)),
                };
                (self.attrs(&it.attrs), self.vis(&it.vis), Some(name), kind)
            }
            I::Static(it) => {
                let name = self.name(&it.ident);
                let kind = ItemKind::Const {
                    ty: self.ty(&it.ty),
                    value: Some(self.expr(&it.expr)),
                };
                (self.attrs(&it.attrs), self.vis(&it.vis), Some(name), kind)
            }
            I::Macro(it) => {
                let mac = self.mac(&it.mac);
                if it.mac.path.is_ident("macro_rules") {
                    let name = it.ident.as_ref().map(|ident| self.name(ident));
                    (
                        self.attrs(&it.attrs),
                        private,
                        name,
                        ItemKind::MacroRules { body: mac.inner },
                    )
                } else {
                    (
                        self.attrs(&it.attrs),
                        private,
                        None,
                        ItemKind::MacroCall(mac),
                    )
                }
            }
            I::ExternCrate(it) => {
                let krate = self.name(&it.ident);
                let rename = it.rename.as_ref().map(|(_, ident)| self.name(ident));
                let name = rename.clone().unwrap_or_else(|| krate.clone());
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::ExternCrate { krate, rename },
                )
            }
            I::ForeignMod(it) => {
                let items = it
                    .items
                    .iter()
                    .filter_map(|item| self.foreign_item(item))
                    .collect();
                (
                    self.attrs(&it.attrs),
                    private,
                    None,
                    ItemKind::Foreign(items),
                )
            }
            _ => (vec![], private, None, ItemKind::Other),
        };
        Item {
            span,
            attrs,
            vis,
            name,
            kind,
        }
    }

    fn foreign_item(&mut self, item: &syn::ForeignItem) -> Option<Item> {
        let span = self.of(item);
        match item {
            syn::ForeignItem::Fn(it) => {
                let name = self.name(&it.sig.ident);
                let sig = self.sig(&it.sig);
                let kind = ItemKind::Fn(Box::new(FnItem { sig, body: None }));
                Some(Item {
                    span,
                    attrs: self.attrs(&it.attrs),
                    vis: self.vis(&it.vis),
                    name: Some(name),
                    kind,
                })
            }
            _ => None,
        }
    }

    fn trait_item(&mut self, item: &syn::TraitItem) -> Item {
        use syn::TraitItem as T;
        let span = self.trait_item_span(item);
        let vis = Vis::Public;
        let (attrs, name, kind) = match item {
            T::Fn(it) => {
                let name = self.name(&it.sig.ident);
                let sig = self.sig(&it.sig);
                let body = it.default.as_ref().map(|block| self.block(block));
                (
                    self.attrs(&it.attrs),
                    Some(name),
                    ItemKind::Fn(Box::new(FnItem { sig, body })),
                )
            }
            T::Type(it) => {
                let name = self.name(&it.ident);
                let ty = it.default.as_ref().map(|(_, ty)| self.ty(ty));
                let kind = ItemKind::TypeAlias {
                    generics: self.generics(&it.generics),
                    ty,
                    bounds: self.bounds(&it.bounds),
                };
                (self.attrs(&it.attrs), Some(name), kind)
            }
            T::Const(it) => {
                let name = self.name(&it.ident);
                let value = it.default.as_ref().map(|(_, value)| self.expr(value));
                (
                    self.attrs(&it.attrs),
                    Some(name),
                    ItemKind::Const {
                        ty: self.ty(&it.ty),
                        value,
                    },
                )
            }
            T::Macro(it) => (
                self.attrs(&it.attrs),
                None,
                ItemKind::MacroCall(self.mac(&it.mac)),
            ),
            _ => (vec![], None, ItemKind::Other),
        };
        Item {
            span,
            attrs,
            vis,
            name,
            kind,
        }
    }

    fn impl_item(&mut self, item: &syn::ImplItem) -> Item {
        use syn::ImplItem as T;
        let span = self.impl_item_span(item);
        let (attrs, vis, name, kind) = match item {
            T::Fn(it) => {
                let name = self.name(&it.sig.ident);
                let sig = self.sig(&it.sig);
                let body = Some(self.block(&it.block));
                (
                    self.attrs(&it.attrs),
                    self.vis(&it.vis),
                    Some(name),
                    ItemKind::Fn(Box::new(FnItem { sig, body })),
                )
            }
            T::Type(it) => {
                let name = self.name(&it.ident);
                let kind = ItemKind::TypeAlias {
                    generics: self.generics(&it.generics),
                    ty: Some(self.ty(&it.ty)),
                    bounds: vec![],
                };
                (self.attrs(&it.attrs), self.vis(&it.vis), Some(name), kind)
            }
            T::Const(it) => {
                let name = self.name(&it.ident);
                let kind = ItemKind::Const {
                    ty: self.ty(&it.ty),
                    value: Some(self.expr(&it.expr)),
                };
                (self.attrs(&it.attrs), self.vis(&it.vis), Some(name), kind)
            }
            T::Macro(it) => (
                self.attrs(&it.attrs),
                Vis::Private,
                None,
                ItemKind::MacroCall(self.mac(&it.mac)),
            ),
            _ => (vec![], Vis::Private, None, ItemKind::Other),
        };
        Item {
            span,
            attrs,
            vis,
            name,
            kind,
        }
    }

    fn use_tree(&mut self, tree: &syn::UseTree) -> UseTree {
        let span = self.of(tree);
        let kind = match tree {
            syn::UseTree::Path(it) => UseKind::Path {
                name: self.name(&it.ident),
                rest: Box::new(self.use_tree(&it.tree)),
            },
            syn::UseTree::Name(it) => UseKind::Name(self.name(&it.ident)),
            syn::UseTree::Rename(it) => UseKind::Rename {
                name: self.name(&it.ident),
                rename: self.name(&it.rename),
            },
            syn::UseTree::Glob(_) => UseKind::Glob,
            syn::UseTree::Group(it) => UseKind::Group {
                items: it.items.iter().map(|tree| self.use_tree(tree)).collect(),
            },
        };
        UseTree { span, kind }
    }

    fn variant(&mut self, variant: &syn::Variant) -> Variant {
        Variant {
            span: self.of(variant),
            name: self.name(&variant.ident),
            is_tuple: matches!(variant.fields, syn::Fields::Unnamed(_)),
            is_unit: matches!(variant.fields, syn::Fields::Unit),
            fields: self.fields(&variant.fields),
        }
    }

    fn delimiters(&mut self, fields: &syn::Fields) -> Option<Span> {
        match fields {
            syn::Fields::Named(it) => Some(self.braces(&it.brace_token)),
            syn::Fields::Unnamed(it) => Some(
                self.span(it.paren_token.span.open())
                    .to(self.span(it.paren_token.span.close())),
            ),
            syn::Fields::Unit => None,
        }
    }

    fn fields(&mut self, fields: &syn::Fields) -> Vec<Field> {
        fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                let name = field.ident.as_ref().map(|ident| self.name(ident));
                Field {
                    span: self.of(field),
                    attrs: self.attrs(&field.attrs),
                    vis: self.vis(&field.vis),
                    name_span: name.as_ref().map(|name| name.span),
                    name: name.map_or_else(|| at.to_string(), |name| name.text),
                    ty: self.ty(&field.ty),
                }
            })
            .collect()
    }

    fn sig(&mut self, sig: &syn::Signature) -> Sig {
        let mut receiver = None;
        let mut params = Vec::new();
        for input in &sig.inputs {
            match input {
                syn::FnArg::Receiver(it) => {
                    let (kind, ty) = match &it.kind {
                        syn::ReceiverKind::Value => (ReceiverKind::Value, None),
                        syn::ReceiverKind::Reference(_, _, None) => (ReceiverKind::Ref, None),
                        syn::ReceiverKind::Reference(_, _, Some(_)) => (ReceiverKind::RefMut, None),
                        syn::ReceiverKind::Typed(_, ty) => (ReceiverKind::Typed, Some(self.ty(ty))),
                        _ => (ReceiverKind::Typed, None),
                    };
                    receiver = Some(Receiver {
                        span: self.of(it),
                        kind,
                        ty,
                    });
                }
                syn::FnArg::Typed(it) => {
                    params.push(Param {
                        span: self.of(it),
                        pat: self.pat(&it.pat),
                        ty: self.ty(&it.ty),
                    });
                }
            }
        }
        Sig {
            span: self.of(sig),
            is_async: sig.asyncness.is_some(),
            generics: self.generics(&sig.generics),
            receiver,
            params,
            ret: self.ret(&sig.output),
            parens: self
                .span(sig.paren_token.span.open())
                .to(self.span(sig.paren_token.span.close())),
        }
    }

    fn ret(&mut self, output: &syn::ReturnType) -> Option<Ty> {
        match output {
            syn::ReturnType::Default => None,
            syn::ReturnType::Type(_, ty) => Some(self.ty(ty)),
        }
    }

    fn generics(&mut self, generics: &syn::Generics) -> Generics {
        let params = generics
            .params
            .iter()
            .filter_map(|param| match param {
                syn::GenericParam::Type(it) => Some(GenericParam {
                    name: self.name(&it.ident),
                    bounds: self.bounds(&it.bounds),
                    default: it.default.as_ref().map(|(_, ty)| self.ty(ty)),
                    is_type: true,
                }),
                syn::GenericParam::Const(it) => Some(GenericParam {
                    name: self.name(&it.ident),
                    bounds: vec![],
                    default: None,
                    is_type: false,
                }),
                syn::GenericParam::Lifetime(_) => None,
            })
            .collect();
        let mut wheres = Vec::new();
        for predicate in generics
            .where_clause
            .iter()
            .flat_map(|clause| &clause.predicates)
        {
            if let syn::WherePredicate::Type(it) = predicate {
                wheres.push((self.ty(&it.bounded_ty), self.bounds(&it.bounds)));
            }
        }
        Generics { params, wheres }
    }

    fn bounds<P>(
        &mut self,
        bounds: &syn::punctuated::Punctuated<syn::TypeParamBound, P>,
    ) -> Vec<Bound> {
        bounds
            .iter()
            .filter_map(|bound| match bound {
                syn::TypeParamBound::Trait(it) => Some(Bound {
                    path: self.path(&it.path, None),
                }),
                _ => None,
            })
            .collect()
    }

    // --- paths and types

    fn path(&mut self, path: &syn::Path, qself: Option<&syn::QSelf>) -> Path {
        let segs: Vec<Seg> = path
            .segments
            .iter()
            .map(|seg| Seg {
                name: self.name(&seg.ident),
                args: self.args(&seg.arguments),
            })
            .collect();
        let last = segs.last().map_or(Span::default(), |seg| match &seg.args {
            Some(args) => seg.name.span.to(args.span),
            None => seg.name.span,
        });
        let mut span = segs.first().map_or(last, |seg| seg.name.span).to(last);
        if let Some(colon) = path.leading_colon
            && qself.is_none()
        {
            span = span.to(self.of(&colon));
        }
        let (qself, qself_pos) = match qself {
            Some(it) => {
                span = span.to(self.span(it.lt_token.span()));
                (Some(Box::new(self.ty(&it.ty))), it.position)
            }
            None => (None, 0),
        };
        Path {
            span,
            leading_colon: path.leading_colon.is_some() && qself.is_none(),
            segs,
            qself,
            qself_pos,
        }
    }

    fn args(&mut self, args: &syn::PathArguments) -> Option<GenericArgs> {
        match args {
            syn::PathArguments::None => None,
            syn::PathArguments::AngleBracketed(it) => Some(self.angle_args(it)),
            syn::PathArguments::Parenthesized(it) => Some(GenericArgs {
                span: self.of(it),
                types: it
                    .inputs
                    .iter()
                    .map(|arg| self.ty(named_arg_ty(arg)))
                    .collect(),
                parenthesized: true,
                output: self.ret(&it.output).map(Box::new),
                ..GenericArgs::default()
            }),
        }
    }

    fn angle_args(&mut self, args: &syn::AngleBracketedGenericArguments) -> GenericArgs {
        let mut out = GenericArgs {
            span: self.of(args),
            ..GenericArgs::default()
        };
        for arg in &args.args {
            match arg {
                syn::GenericArgument::Type(ty) => out.types.push(self.ty(ty)),
                syn::GenericArgument::AssocType(it) => {
                    let name = self.name(&it.ident);
                    out.assoc.push((name, self.ty(&it.ty)));
                }
                syn::GenericArgument::Constraint(it) => out.bounds.extend(self.bounds(&it.bounds)),
                _ => {}
            }
        }
        out
    }

    fn ty(&mut self, ty: &syn::Type) -> Ty {
        use syn::Type as T;
        let span = self.of(ty);
        let kind = match ty {
            T::Path(it) => TyKind::Path(self.path(&it.path, it.qself.as_ref())),
            T::Reference(it) => TyKind::Ref {
                mutable: it.mutability.is_some(),
                inner: Box::new(self.ty(&it.elem)),
            },
            T::Ptr(it) => TyKind::Ptr(Box::new(self.ty(&it.elem))),
            T::Tuple(it) => TyKind::Tuple(it.elems.iter().map(|ty| self.ty(ty)).collect()),
            T::Slice(it) => TyKind::Slice(Box::new(self.ty(&it.elem))),
            T::Array(it) => TyKind::Array(Box::new(self.ty(&it.elem))),
            T::FnPtr(it) => TyKind::Fn {
                params: it
                    .inputs
                    .iter()
                    .map(|arg| self.ty(named_arg_ty(arg)))
                    .collect(),
                ret: self.ret(&it.output).map(Box::new),
            },
            T::ImplTrait(it) => TyKind::Impl(self.bounds(&it.bounds)),
            T::TraitObject(it) => TyKind::Dyn(self.bounds(&it.bounds)),
            T::Never(_) => TyKind::Never,
            T::Infer(_) => TyKind::Infer,
            T::Paren(it) => {
                return Ty {
                    span,
                    kind: self.ty(&it.elem).kind,
                };
            }
            T::Group(it) => {
                return Ty {
                    span,
                    kind: self.ty(&it.elem).kind,
                };
            }
            T::Macro(it) => TyKind::Macro(self.mac(&it.mac)),
            _ => TyKind::Other,
        };
        Ty { span, kind }
    }

    // --- patterns

    fn pats<'a>(&mut self, pats: impl IntoIterator<Item = &'a syn::Pat>) -> Vec<Pat> {
        pats.into_iter().map(|pat| self.pat(pat)).collect()
    }

    fn pat(&mut self, pat: &syn::Pat) -> Pat {
        use syn::Pat as P;
        let span = self.of(pat);
        let kind = match pat {
            P::Wild(_) => PatKind::Wild,
            P::Rest(_) => PatKind::Rest,
            P::Ident(it) => PatKind::Ident {
                name: self.name(&it.ident),
                by_ref: it.by_ref.is_some(),
                mutable: it.mutability.is_some(),
                sub: it.subpat.as_ref().map(|(_, pat)| Box::new(self.pat(pat))),
            },
            P::Path(it) => PatKind::Path(self.path(&it.path, it.qself.as_ref())),
            P::TupleStruct(it) => PatKind::TupleStruct {
                path: self.path(&it.path, it.qself.as_ref()),
                elems: self.pats(&it.elems),
            },
            P::Struct(it) => {
                let fields = it
                    .fields
                    .iter()
                    .map(|field| FieldPat {
                        span: self.of(field),
                        name: self.member(&field.member),
                        shorthand: field.colon_token.is_none(),
                        pat: self.pat(&field.pat),
                    })
                    .collect();
                PatKind::Struct {
                    path: self.path(&it.path, it.qself.as_ref()),
                    fields,
                    rest: it.rest.is_some(),
                }
            }
            P::Tuple(it) => PatKind::Tuple(self.pats(&it.elems)),
            P::Slice(it) => PatKind::Slice(self.pats(&it.elems)),
            P::Reference(it) => PatKind::Ref {
                mutable: it.mutability.is_some(),
                inner: Box::new(self.pat(&it.pat)),
            },
            P::Or(it) => PatKind::Or(self.pats(&it.cases)),
            P::Paren(it) => PatKind::Paren(Box::new(self.pat(&it.pat))),
            P::Type(it) => PatKind::Type {
                inner: Box::new(self.pat(&it.pat)),
                ty: self.ty(&it.ty),
            },
            P::Guard(it) => return self.pat(&it.pat),
            P::Lit(_) => PatKind::Lit,
            P::Range(_) => PatKind::Range,
            P::Macro(it) => PatKind::Macro(self.mac(&it.mac)),
            _ => PatKind::Other,
        };
        Pat { span, kind }
    }

    fn member(&mut self, member: &syn::Member) -> Name {
        match member {
            syn::Member::Named(ident) => self.name(ident),
            syn::Member::Unnamed(index) => Name {
                text: index.index.to_string(),
                span: self.span(index.span),
            },
        }
    }

    // --- statements and expressions

    fn block(&mut self, block: &syn::Block) -> Block {
        let span = self.braces(&block.brace_token);
        let stmts = block
            .stmts
            .iter()
            .filter_map(|stmt| self.stmt(stmt))
            .collect();
        Block { span, stmts }
    }

    fn stmt(&mut self, stmt: &syn::Stmt) -> Option<Stmt> {
        let stmt = match stmt {
            syn::Stmt::Local(it) => {
                let attrs = self.attrs(&it.attrs);
                let first = attrs
                    .first()
                    .map_or(self.of(&it.let_token), |attr| attr.span);
                let span = first.to(self.of(&it.semi_token));
                let (pat, ty) = match &it.pat {
                    syn::Pat::Type(typed) => (self.pat(&typed.pat), Some(self.ty(&typed.ty))),
                    pat => (self.pat(pat), None),
                };
                let init = it.init.as_ref().map(|init| self.expr(&init.expr));
                let diverge = it
                    .init
                    .as_ref()
                    .and_then(|init| init.diverge.as_ref())
                    .map(|(_, expr)| self.expr(expr));
                Stmt {
                    span,
                    attrs,
                    kind: StmtKind::Let {
                        pat,
                        ty,
                        init,
                        diverge,
                    },
                }
            }
            syn::Stmt::Item(item) => {
                let item = self.item(item);
                Stmt {
                    span: item.span,
                    attrs: vec![],
                    kind: StmtKind::Item(Box::new(item)),
                }
            }
            syn::Stmt::Expr(expr, semi) => {
                let expr = self.expr(expr);
                let mut span = expr
                    .attrs
                    .first()
                    .map_or(expr.span, |attr| attr.span.to(expr.span));
                if let Some(semi) = semi {
                    span = span.to(self.of(semi));
                }
                Stmt {
                    span,
                    attrs: expr.attrs.clone(),
                    kind: StmtKind::Expr {
                        expr,
                        semi: semi.is_some(),
                    },
                }
            }
            syn::Stmt::Macro(it) => {
                let attrs = self.attrs(&it.attrs);
                let mac = self.mac(&it.mac);
                let mut span = attrs
                    .first()
                    .map_or(mac.span, |attr| attr.span.to(mac.span));
                if let Some(semi) = &it.semi_token {
                    span = span.to(self.of(semi));
                }
                // `m! {}` needs no semicolon to be a statement.
                let semi = it.semi_token.is_some();
                let expr = self.new_expr(mac.span, vec![], ExprKind::Macro(mac));
                Stmt {
                    span,
                    attrs,
                    kind: StmtKind::Expr { expr, semi },
                }
            }
        };
        Some(stmt)
    }

    fn new_expr(&mut self, span: Span, attrs: Vec<Attr>, kind: ExprKind) -> Expr {
        let id = self.n_exprs;
        self.n_exprs += 1;
        Expr {
            id,
            span,
            attrs,
            kind,
        }
    }

    fn boxed(&mut self, expr: &syn::Expr) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn opt(&mut self, expr: &Option<Box<syn::Expr>>) -> Option<Box<Expr>> {
        expr.as_ref().map(|expr| self.boxed(expr))
    }

    fn exprs<'a>(&mut self, exprs: impl IntoIterator<Item = &'a syn::Expr>) -> Vec<Expr> {
        exprs.into_iter().map(|expr| self.expr(expr)).collect()
    }

    fn label(&mut self, label: &Option<syn::Label>) -> Option<Name> {
        label.as_ref().map(|label| self.lifetime(&label.name))
    }

    fn pair(&self, open_close: proc_macro2::extra::DelimSpan) -> Span {
        self.span(open_close.open())
            .to(self.span(open_close.close()))
    }

    // Spans are put together from those of the parts: asking each node for its own would be quadratic in the depth.
    fn expr(&mut self, expr: &syn::Expr) -> Expr {
        use syn::Expr as E;
        let mut attrs: &[syn::Attribute] = &[];
        let (span, kind) = match expr {
            E::Lit(it) => {
                attrs = &it.attrs;
                let kind = match &it.lit {
                    syn::Lit::Bool(lit) => LitKind::Bool(lit.value),
                    syn::Lit::Int(_) => LitKind::Int,
                    syn::Lit::Float(_) => LitKind::Float,
                    syn::Lit::Str(_) => LitKind::Str,
                    syn::Lit::Char(_) => LitKind::Char,
                    _ => LitKind::Other,
                };
                (self.span(it.lit.span()), ExprKind::Lit(kind))
            }
            E::Path(it) => {
                attrs = &it.attrs;
                let path = self.path(&it.path, it.qself.as_ref());
                (path.span, ExprKind::Path(path))
            }
            E::Call(it) => {
                attrs = &it.attrs;
                let callee = self.boxed(&it.func);
                let args = self.exprs(&it.args);
                (
                    callee.span.to(self.pair(it.paren_token.span)),
                    ExprKind::Call { callee, args },
                )
            }
            E::MethodCall(it) => {
                attrs = &it.attrs;
                let recv = self.boxed(&it.receiver);
                let parens = self.pair(it.paren_token.span);
                let kind = ExprKind::MethodCall {
                    dot: self.of(&it.dot_token),
                    method: self.name(&it.method),
                    turbofish: it.turbofish.as_ref().map(|args| self.angle_args(args)),
                    args: self.exprs(&it.args),
                    parens,
                    recv,
                };
                let ExprKind::MethodCall { recv, .. } = &kind else {
                    unreachable!()
                };
                (recv.span.to(parens), kind)
            }
            E::Field(it) => {
                attrs = &it.attrs;
                let base = self.boxed(&it.base);
                let member = self.member(&it.member);
                (
                    base.span.to(member.span),
                    ExprKind::Field {
                        base,
                        dot: self.of(&it.dot_token),
                        member,
                    },
                )
            }
            E::Index(it) => {
                attrs = &it.attrs;
                let base = self.boxed(&it.expr);
                let index = self.boxed(&it.index);
                (
                    base.span.to(self.pair(it.bracket_token.span)),
                    ExprKind::Index { base, index },
                )
            }
            E::Unary(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                let span = self.of(&it.op).to(inner.span);
                let kind = match it.op {
                    syn::UnOp::Not(_) => ExprKind::Not(inner),
                    syn::UnOp::Deref(_) => ExprKind::Deref(inner),
                    _ => ExprKind::Neg(inner),
                };
                (span, kind)
            }
            E::Binary(it) => return self.binary_chain(it),
            E::Assign(it) => {
                attrs = &it.attrs;
                let lhs = self.boxed(&it.left);
                let rhs = self.boxed(&it.right);
                (lhs.span.to(rhs.span), ExprKind::Assign { lhs, rhs })
            }
            E::Reference(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                (
                    self.of(&it.and_token).to(inner.span),
                    ExprKind::Ref {
                        mutable: it.mutability.is_some(),
                        inner,
                    },
                )
            }
            E::RawAddr(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                (
                    self.of(&it.and_token).to(inner.span),
                    ExprKind::RawRef(inner),
                )
            }
            E::Cast(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                let ty = self.ty(&it.ty);
                (inner.span.to(ty.span), ExprKind::Cast { inner, ty })
            }
            E::If(it) => return self.if_chain(it),
            E::Let(it) => {
                attrs = &it.attrs;
                let at = self.of(&it.let_token).lo;
                if !self.conditions.contains(&at) {
                    self.stray_let.get_or_insert(at);
                }
                let value = self.boxed(&it.expr);
                let pat = self.pat(&it.pat);
                (
                    self.of(&it.let_token).to(value.span),
                    ExprKind::Let { pat, value },
                )
            }
            E::Match(it) => {
                attrs = &it.attrs;
                let scrutinee = self.boxed(&it.expr);
                let braces = self.pair(it.brace_token.span);
                let arms = it.arms.iter().map(|arm| self.arm(arm)).collect();
                (
                    self.of(&it.match_token).to(braces),
                    ExprKind::Match {
                        scrutinee,
                        arms,
                        braces,
                    },
                )
            }
            E::Loop(it) => {
                attrs = &it.attrs;
                let label = self.label(&it.label);
                let body = self.block(&it.body);
                let first = label
                    .as_ref()
                    .map_or(self.of(&it.loop_token), |label| label.span);
                (first.to(body.span), ExprKind::Loop { label, body })
            }
            E::While(it) => {
                attrs = &it.attrs;
                let label = self.label(&it.label);
                let cond = Box::new(self.condition(&it.cond));
                let body = self.block(&it.body);
                let first = label
                    .as_ref()
                    .map_or(self.of(&it.while_token), |label| label.span);
                (first.to(body.span), ExprKind::While { label, cond, body })
            }
            E::ForLoop(it) => {
                attrs = &it.attrs;
                let label = self.label(&it.label);
                let pat = self.pat(&it.pat);
                let iter = self.boxed(&it.expr);
                let body = self.block(&it.body);
                let first = label
                    .as_ref()
                    .map_or(self.of(&it.for_token), |label| label.span);
                (
                    first.to(body.span),
                    ExprKind::For {
                        label,
                        pat,
                        iter,
                        body,
                    },
                )
            }
            E::Block(it) => {
                attrs = &it.attrs;
                let label = self.label(&it.label);
                let block = self.block(&it.block);
                let first = label.as_ref().map_or(block.span, |label| label.span);
                (
                    first.to(block.span),
                    ExprKind::Block {
                        label,
                        flavour: BlockFlavour::Plain,
                        block,
                    },
                )
            }
            E::Unsafe(it) => {
                attrs = &it.attrs;
                let block = self.block(&it.block);
                let span = self.of(&it.unsafe_token).to(block.span);
                (
                    span,
                    ExprKind::Block {
                        label: None,
                        flavour: BlockFlavour::Unsafe,
                        block,
                    },
                )
            }
            E::Async(it) => {
                attrs = &it.attrs;
                let block = self.block(&it.block);
                let span = self.of(&it.async_token).to(block.span);
                (
                    span,
                    ExprKind::Block {
                        label: None,
                        flavour: BlockFlavour::Async,
                        block,
                    },
                )
            }
            E::Const(it) => {
                attrs = &it.attrs;
                let block = self.block(&it.block);
                let span = self.of(&it.const_token).to(block.span);
                (
                    span,
                    ExprKind::Block {
                        label: None,
                        flavour: BlockFlavour::Const,
                        block,
                    },
                )
            }
            E::TryBlock(it) => {
                attrs = &it.attrs;
                let block = self.block(&it.block);
                let span = self.of(&it.try_token).to(block.span);
                (
                    span,
                    ExprKind::Block {
                        label: None,
                        flavour: BlockFlavour::Try,
                        block,
                    },
                )
            }
            E::Closure(it) => {
                attrs = &it.attrs;
                let mut first = self.of(&it.inputs_begin);
                for span in [
                    it.capture.as_ref().map(|t| self.of(t)),
                    it.asyncness.as_ref().map(|t| self.of(t)),
                    it.constness.as_ref().map(|t| self.of(t)),
                ] {
                    first = span.map_or(first, |span| first.to(span));
                }
                let params = it
                    .inputs
                    .iter()
                    .map(|pat| match pat {
                        syn::Pat::Type(typed) => (self.pat(&typed.pat), Some(self.ty(&typed.ty))),
                        pat => (self.pat(pat), None),
                    })
                    .collect();
                let ret = self.ret(&it.output);
                let body = self.boxed(&it.body);
                let kind = ExprKind::Closure {
                    params,
                    ret,
                    is_async: it.asyncness.is_some(),
                    is_move: it.capture.is_some(),
                    body,
                };
                let ExprKind::Closure { body, .. } = &kind else {
                    unreachable!()
                };
                (first.to(body.span), kind)
            }
            E::Return(it) => {
                attrs = &it.attrs;
                let value = self.opt(&it.expr);
                let first = self.of(&it.return_token);
                (
                    value.as_ref().map_or(first, |value| first.to(value.span)),
                    ExprKind::Return(value),
                )
            }
            E::Break(it) => {
                attrs = &it.attrs;
                let label = it.label.as_ref().map(|label| self.lifetime(label));
                let value = self.opt(&it.expr);
                let mut span = self.of(&it.break_token);
                span = label.as_ref().map_or(span, |label| span.to(label.span));
                span = value.as_ref().map_or(span, |value| span.to(value.span));
                (span, ExprKind::Break { label, value })
            }
            E::Continue(it) => {
                attrs = &it.attrs;
                let label = it.label.as_ref().map(|label| self.lifetime(label));
                let first = self.of(&it.continue_token);
                (
                    label.as_ref().map_or(first, |label| first.to(label.span)),
                    ExprKind::Continue { label },
                )
            }
            E::Try(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                (
                    inner.span.to(self.of(&it.question_token)),
                    ExprKind::Try(inner),
                )
            }
            E::Await(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.base);
                (
                    inner.span.to(self.of(&it.await_token)),
                    ExprKind::Await(inner),
                )
            }
            E::Tuple(it) => {
                attrs = &it.attrs;
                let elems = self.exprs(&it.elems);
                (self.pair(it.paren_token.span), ExprKind::Tuple(elems))
            }
            E::Array(it) => {
                attrs = &it.attrs;
                let elems = self.exprs(&it.elems);
                (self.pair(it.bracket_token.span), ExprKind::Array(elems))
            }
            E::Repeat(it) => {
                attrs = &it.attrs;
                let value = self.boxed(&it.expr);
                let len = self.boxed(&it.len);
                (
                    self.pair(it.bracket_token.span),
                    ExprKind::Repeat { value, len },
                )
            }
            E::Struct(it) => {
                attrs = &it.attrs;
                let path = self.path(&it.path, it.qself.as_ref());
                let braces = self.pair(it.brace_token.span);
                let fields = it
                    .fields
                    .iter()
                    .map(|field| {
                        let name = self.member(&field.member);
                        let value = self.expr(&field.expr);
                        let first = field.attrs.first().map_or(name.span, |attr| self.of(attr));
                        FieldInit {
                            span: first.to(value.span),
                            shorthand: field.colon_token.is_none(),
                            name,
                            value,
                        }
                    })
                    .collect();
                let rest = self.opt(&it.rest);
                (
                    path.span.to(braces),
                    ExprKind::Struct {
                        path,
                        fields,
                        rest,
                        dots: it.dot2_token.is_some(),
                        braces,
                    },
                )
            }
            E::Range(it) => {
                attrs = &it.attrs;
                let start = self.opt(&it.start);
                let end = self.opt(&it.end);
                let mut span = self.of(&it.limits);
                for part in [&start, &end].into_iter().flatten() {
                    span = span.to(part.span);
                }
                (span, ExprKind::Range { start, end })
            }
            E::Paren(it) => {
                attrs = &it.attrs;
                let inner = self.boxed(&it.expr);
                (self.pair(it.paren_token.span), ExprKind::Paren(inner))
            }
            E::Group(it) => return self.expr(&it.expr),
            E::Macro(it) => {
                attrs = &it.attrs;
                let mac = self.mac(&it.mac);
                (mac.span, ExprKind::Macro(mac))
            }
            other => (self.of(other), ExprKind::Other),
        };
        let attrs = self.attrs(attrs);
        self.new_expr(span, attrs, kind)
    }

    /// Operators that lean to the left, from the innermost out: a sum of thousands of terms is one loop.
    fn binary_chain(&mut self, last: &syn::ExprBinary) -> Expr {
        let mut links = vec![last];
        while let syn::Expr::Binary(inner) = &*links[links.len() - 1].left {
            links.push(inner);
        }
        let mut lhs = self.expr(&links[links.len() - 1].left);
        for link in links.into_iter().rev() {
            let rhs = self.boxed(&link.right);
            let op = binary_op(&link.op);
            let span = lhs.span.to(rhs.span);
            let op_span = self.of(&link.op);
            let attrs = self.attrs(&link.attrs);
            lhs = self.new_expr(
                span,
                attrs,
                ExprKind::Binary {
                    op,
                    op_span,
                    lhs: Box::new(lhs),
                    rhs,
                },
            );
        }
        lhs
    }

    /// An `if` and its `else if`s, from the last to the first: thousands of links are one loop, not one stack frame each.
    fn if_chain(&mut self, first: &syn::ExprIf) -> Expr {
        let mut links = vec![first];
        let mut last_else = None;
        loop {
            let link = links[links.len() - 1];
            match &link.else_branch {
                Some((_, expr)) => match &**expr {
                    syn::Expr::If(next) => links.push(next),
                    other => {
                        last_else = Some(other);
                        break;
                    }
                },
                None => break,
            }
        }
        let mut alt = last_else.map(|expr| self.boxed(expr));
        for link in links.into_iter().rev() {
            let else_span = link
                .else_branch
                .as_ref()
                .map_or(Span::default(), |(token, _)| self.of(token));
            let cond = Box::new(self.condition(&link.cond));
            let then = self.block(&link.then_branch);
            let mut span = self.of(&link.if_token).to(then.span);
            span = alt.as_ref().map_or(span, |alt| span.to(alt.span));
            let attrs = self.attrs(&link.attrs);
            alt = Some(Box::new(self.new_expr(
                span,
                attrs,
                ExprKind::If {
                    cond,
                    then,
                    alt: alt.take(),
                    else_span,
                },
            )));
        }
        *alt.expect("a chain has a link")
    }

    fn arm(&mut self, arm: &syn::Arm) -> Arm {
        let attrs = self.attrs(&arm.attrs);
        let (pat, guard) = match &arm.pat {
            syn::Pat::Guard(it) => (self.pat(&it.pat), Some(self.condition(&it.guard))),
            pat => (self.pat(pat), None),
        };
        let body = self.expr(&arm.body);
        let comma = arm.comma.as_ref().map(|comma| self.of(comma));
        let first = attrs.first().map_or(pat.span, |attr| attr.span);
        let span = first.to(comma.unwrap_or(body.span));
        Arm {
            span,
            attrs,
            pat,
            guard,
            body,
            comma,
        }
    }

    // --- macros

    fn mac(&mut self, mac: &syn::Macro) -> MacroCall {
        let path = self.path(&mac.path, None);
        let delimiters = match &mac.delimiter {
            syn::MacroDelimiter::Paren(it) => it.span,
            syn::MacroDelimiter::Brace(it) => it.span,
            syn::MacroDelimiter::Bracket(it) => it.span,
        };
        let pair = self.pair(delimiters);
        let inner = Span::new(
            self.span(delimiters.open()).hi,
            self.span(delimiters.close()).lo,
        );
        let name = path.last().name.text.clone();
        let args = if takes_exprs(&name) {
            let outside = self.stray_let.take();
            let args = self.mac_args(&name, mac.tokens.clone());
            let inside = std::mem::replace(&mut self.stray_let, outside);
            if inside.is_none() {
                args
            } else {
                MacroArgs::Opaque
            }
        } else {
            MacroArgs::Opaque
        };
        MacroCall {
            span: path.span.to(pair),
            path,
            inner,
            args,
        }
    }

    fn mac_args(&mut self, name: &str, tokens: TokenStream) -> MacroArgs {
        use syn::parse::Parser;
        if name == "matches" {
            let parser = |input: syn::parse::ParseStream<'_>| {
                let value: syn::Expr = input.parse()?;
                input.parse::<syn::Token![,]>()?;
                let pat = syn::Pat::parse_multi_with_leading_vert(input)?;
                let guard: Option<syn::Expr> = if input.peek(syn::Token![if]) {
                    input.parse::<syn::Token![if]>()?;
                    Some(input.parse()?)
                } else {
                    None
                };
                input.parse::<Option<syn::Token![,]>>()?;
                Ok((value, pat, guard))
            };
            return match parser.parse2(tokens) {
                Ok((value, pat, guard)) => MacroArgs::Matches {
                    value: self.boxed(&value),
                    pat: Box::new(self.pat(&pat)),
                    guard: guard.as_ref().map(|guard| Box::new(self.condition(guard))),
                },
                Err(_) => MacroArgs::Opaque,
            };
        }
        if name == "vec" {
            let parser = |input: syn::parse::ParseStream<'_>| {
                let value: syn::Expr = input.parse()?;
                input.parse::<syn::Token![;]>()?;
                let len: syn::Expr = input.parse()?;
                Ok((value, len))
            };
            if let Ok((value, len)) = parser.parse2(tokens.clone()) {
                return MacroArgs::Repeat {
                    value: self.boxed(&value),
                    len: self.boxed(&len),
                };
            }
        }
        let is_log = LOG_MACROS.contains(&name);
        let parser = |input: syn::parse::ParseStream<'_>| {
            let mut args = Vec::new();
            while !input.is_empty() {
                let dotted = if is_log { log_field(input)? } else { None };
                let name: Option<syn::Ident> = if dotted.is_some() {
                    dotted
                } else if input.peek(syn::Ident)
                    && input.peek2(syn::Token![=])
                    && !input.peek2(syn::Token![==])
                {
                    let ident = input.parse()?;
                    input.parse::<syn::Token![=]>()?;
                    if is_log {
                        log_sigil(input)?;
                    }
                    Some(ident)
                } else {
                    None
                };
                args.push((name, input.parse::<syn::Expr>()?));
                if input.is_empty() {
                    break;
                }
                input.parse::<syn::Token![,]>()?;
            }
            Ok(args)
        };
        let Ok(parsed) = parser.parse2(tokens) else {
            return MacroArgs::Opaque;
        };
        let mut captures = Vec::new();
        let mut seen_format = name == "vec" || name == "dbg";
        let mut args = Vec::new();
        for (arg_name, value) in &parsed {
            // A name alone in front of the text is a field of that name: nothing else may stand in its place.
            if is_log && !seen_format && arg_name.is_none() && !matches!(value, syn::Expr::Lit(_)) {
                match value {
                    syn::Expr::Path(path) if path.path.get_ident().is_some() => {
                        let name = path.path.get_ident().map(|ident| self.name(ident));
                        captures.extend(name);
                        continue;
                    }
                    _ => return MacroArgs::Opaque,
                }
            }
            let lowered = self.expr(value);
            if !seen_format
                && let syn::Expr::Lit(syn::ExprLit {
                    lit: syn::Lit::Str(text),
                    ..
                }) = value
            {
                // `name = "text"` is a field, not the text.
                if is_log && arg_name.is_some() {
                    args.push(MacroArg {
                        name: arg_name.as_ref().map(|ident| self.name(ident)),
                        value: lowered,
                    });
                    continue;
                }
                seen_format = true;
                let span = self.span(text.span());
                captures.extend(format_captures(span.text(self.text), span.lo));
            }
            args.push(MacroArg {
                name: arg_name.as_ref().map(|ident| self.name(ident)),
                value: lowered,
            });
        }
        // What an argument names is not captured.
        captures.retain(|capture| {
            !args.iter().any(|arg| {
                arg.name
                    .as_ref()
                    .is_some_and(|name| name.text == capture.text)
            })
        });
        MacroArgs::Exprs { args, captures }
    }
}

/// What may stand in front of a field or an argument of a macro that logs: `target: "draw",`, a name with dots and `=`, a
/// sigil. Gives the name's last part.
fn log_field(input: syn::parse::ParseStream<'_>) -> syn::Result<Option<syn::Ident>> {
    use syn::ext::IdentExt;
    while input.peek(syn::Ident) && input.peek2(syn::Token![:]) && !input.peek2(syn::Token![::]) {
        let key = input.call(syn::Ident::parse_any)?;
        if !["target", "parent", "name", "logger"].contains(&key.to_string().as_str()) {
            return Err(input.error("a key that is not known"));
        }
        input.parse::<syn::Token![:]>()?;
        // Where a span or a target is told is nothing that a rule is about.
        input.parse::<syn::Lit>()?;
        input.parse::<syn::Token![,]>()?;
    }
    let ahead = input.fork();
    let dotted = || {
        let mut last: syn::Ident;
        ahead.call(syn::Ident::parse_any)?;
        ahead.parse::<syn::Token![.]>()?;
        loop {
            last = ahead.call(syn::Ident::parse_any)?;
            if ahead.parse::<Option<syn::Token![.]>>()?.is_none() {
                break;
            }
        }
        ahead.parse::<syn::Token![=]>()?;
        Ok::<_, syn::Error>(last)
    };
    let name = dotted().ok().filter(|_| !ahead.peek(syn::Token![=]));
    if name.is_some() {
        use syn::parse::discouraged::Speculative;
        input.advance_to(&ahead);
    }
    log_sigil(input)?;
    Ok(name)
}

/// `?` and `%`, which say how a value is shown.
fn log_sigil(input: syn::parse::ParseStream<'_>) -> syn::Result<()> {
    if input.peek(syn::Token![?]) {
        input.parse::<syn::Token![?]>()?;
    } else if input.peek(syn::Token![%]) {
        input.parse::<syn::Token![%]>()?;
    }
    Ok(())
}

fn binary_op(op: &syn::BinOp) -> BinOp {
    use syn::BinOp as B;
    match op {
        B::And(_) => BinOp::And,
        B::Or(_) => BinOp::Or,
        B::Eq(_) => BinOp::Eq,
        B::Ne(_) => BinOp::Ne,
        B::Lt(_) | B::Le(_) | B::Gt(_) | B::Ge(_) => BinOp::Compare,
        B::AddAssign(_) | B::SubAssign(_) | B::MulAssign(_) | B::DivAssign(_) | B::RemAssign(_) => {
            BinOp::AssignOp
        }
        B::BitXorAssign(_)
        | B::BitAndAssign(_)
        | B::BitOrAssign(_)
        | B::ShlAssign(_)
        | B::ShrAssign(_) => BinOp::AssignOp,
        _ => BinOp::Arith,
    }
}

fn named_arg_ty(arg: &syn::NamedArg) -> &syn::Type {
    &arg.ty
}

fn path_text(path: &syn::Path) -> String {
    let names: Vec<String> = path
        .segments
        .iter()
        .map(|seg| seg.ident.to_string())
        .collect();
    names.join("::")
}

/// Variables that a format string captures: `{x}`, `{x:?}`, `{:>width$}`, `{:.prec$}`.
fn format_captures(literal: &str, lo: usize) -> Vec<Name> {
    let bytes = literal.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' if bytes.get(at + 1) == Some(&b'{') => at += 2,
            b'{' => {
                let end = literal[at..].find('}').map_or(bytes.len(), |n| at + n);
                let inner = &literal[at + 1..end];
                let (name, spec) = inner.split_once(':').unwrap_or((inner, ""));
                let mut add = |word: &str, offset: usize| {
                    if word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                        let start = lo + offset;
                        found.push(Name {
                            text: word.to_owned(),
                            span: Span::new(start, start + word.len()),
                        });
                    }
                };
                add(name.trim(), at + 1 + (name.len() - name.trim_start().len()));
                let spec_at = at + 1 + name.len() + 1;
                for (dollar, _) in spec.match_indices('$') {
                    let head = &spec[..dollar];
                    let start = head
                        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
                        .map_or(0, |n| n + 1);
                    add(&head[start..], spec_at + start);
                }
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    found
}
