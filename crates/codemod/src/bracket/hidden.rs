//! Literals of the struct that stand where only tokens are: in bodies of `macro_rules!` and in arguments that cannot be read.
//!
//! Which struct such a literal means is decided where its tokens end up: names in a body are looked up in the modules that
//! call the macro. Where that cannot be told, it may mean every struct of the rule's name in the crate.

use std::collections::BTreeSet;

use super::timer::Timer;
use super::{BracketSite, Context, Tree, name_span};
use crate::rewrite::Cx;
use crate::syntax::{ExprKind, ItemKind, MacroArgs, MacroCall, Name, Span};
use crate::world::{CrateId, DefId, ModId, Ns, Res, Scope};

/// The first literal among tokens that lacks the timer: nothing can be written there.
pub(super) fn find(tree: &Tree<'_>, context: &Context<'_>, timer: &Timer) -> Option<BracketSite> {
    let rule = tree.rule;
    let mut contexts = None;
    for file in 0..tree.files.len() {
        let cx = tree.cx(file);
        for region in regions(cx) {
            for ident in &cx.file.idents {
                if !region.span.contains(ident.span) {
                    continue;
                }
                let Some(literal) = literal(cx.text, ident) else {
                    continue;
                };
                if !literal.fits(context, timer) {
                    continue;
                }
                let contexts = contexts.get_or_insert_with(|| tree.contexts().0);
                let meant = Search { tree, contexts }.meant(file, &region, ident, &literal);
                if !meant.contains(&context.def) {
                    continue;
                }
                let what = &region.what;
                let field = &timer.field;
                let suggestion = format!(
                    "add `{field}: {}::{}(&stream)?` to that literal by hand, or build the struct outside of the macro",
                    rule.field_type, rule.constructor
                );
                // One literal that may mean several structs is told at each of them.
                if meant.len() > 1 {
                    let line = cx.text[..ident.span.lo].matches('\n').count() + 1;
                    let reason = format!(
                        "`{}` is built in {what} ({}:{line}), which may mean this struct, and its `{field}` cannot be written there",
                        rule.structure, tree.files[file].path
                    );
                    let at = name_span(context.item);
                    return Some(tree.site(context.body.file, at, reason, suggestion));
                }
                let reason = format!(
                    "`{}` is built in {what}, where its `{field}` cannot be written",
                    rule.structure
                );
                let span = Span::new(ident.span.lo, literal.close);
                return Some(tree.site(file, span, reason, suggestion));
            }
        }
    }
    None
}

/// Tokens that are not read as code.
struct Region<'a> {
    span: Span,
    what: String,
    /// The `macro_rules!` that they are the body of.
    rules: Option<&'a str>,
}

fn regions<'a>(cx: &Cx<'a>) -> Vec<Region<'a>> {
    let of_call = |mac: &MacroCall| Region {
        span: mac.inner,
        what: format!("the arguments of `{}!`", mac.path.last().name.text),
        rules: None,
    };
    let items = cx
        .nodes
        .items
        .iter()
        .filter_map(|(item, _)| match &item.kind {
            ItemKind::MacroRules { body } => {
                let rules = item.name.as_ref().map(|name| name.text.as_str());
                let what = rules.map_or_else(
                    || "the body of a `macro_rules!`".to_owned(),
                    |name| format!("the body of `macro_rules! {name}`"),
                );
                Some(Region {
                    span: *body,
                    what,
                    rules,
                })
            }
            ItemKind::MacroCall(mac) => Some(of_call(mac)),
            _ => None,
        });
    let calls = cx.nodes.exprs.iter().filter_map(|expr| match &expr.kind {
        ExprKind::Macro(mac) if matches!(mac.args, MacroArgs::Opaque) => Some(of_call(mac)),
        _ => None,
    });
    items.chain(calls).collect()
}

/// `path::Name { field: …, field }` among tokens.
struct Literal<'a> {
    /// From the first segment to the name; none where one of them is not a plain name.
    path: Option<Vec<&'a str>>,
    /// `$Name`.
    is_variable: bool,
    entries: Vec<String>,
    close: usize,
}

impl Literal<'_> {
    /// Whether these may be the entries of a literal of the struct that lacks the timer.
    fn fits(&self, context: &Context<'_>, timer: &Timer) -> bool {
        let names: Vec<&str> = self
            .entries
            .iter()
            .filter_map(|entry| field_of(entry))
            .collect();
        // The timer is there, or comes from a base; a pattern with a rest needs none.
        if names.contains(&timer.field.as_str())
            || self
                .entries
                .iter()
                .any(|entry| entry.trim_start().starts_with(".."))
        {
            return false;
        }
        let mut fields = context
            .it
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .filter(|name| *name != timer.field);
        // What a macro puts in has no name yet.
        let is_put_in = |entry: &String| entry.trim_start().starts_with('$');
        let has_put_in = self.entries.iter().any(is_put_in);
        let is_subset = !self.entries.is_empty()
            && self.entries.iter().all(|entry| {
                is_put_in(entry)
                    || field_of(entry).is_some_and(|name| {
                        context
                            .it
                            .fields
                            .iter()
                            .any(|field| field.name.as_str() == name)
                    })
            });
        if self.is_variable {
            return is_subset && (has_put_in || fields.all(|name| names.contains(&name)));
        }
        is_subset
            || self
                .entries
                .iter()
                .any(|entry| entry.trim_start().starts_with("$("))
    }
}

fn literal<'a>(text: &'a str, ident: &Name) -> Option<Literal<'a>> {
    let rest = &text[ident.span.hi..];
    let open = ident.span.hi + (rest.len() - rest.trim_start().len());
    if !text[open..].starts_with('{') {
        return None;
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut path = Some(vec![&text[ident.span.lo..ident.span.hi]]);
    let mut lo = ident.span.lo;
    let mut is_variable = false;
    if text[..lo].ends_with('$') {
        is_variable = true;
        lo -= 1;
    }
    while let Some(before) = text[..lo].trim_end().strip_suffix("::") {
        let before = before.trim_end();
        let name = &before[before.trim_end_matches(is_word).len()..];
        lo = before.len() - name.len();
        if name.is_empty() {
            // `::name`, `<T>::name`
            path = None;
            break;
        }
        if text[..lo].ends_with('$') {
            lo -= 1;
            if name != "crate" {
                path = None;
            }
        }
        if let Some(path) = &mut path {
            let name = if text[lo..].starts_with('$') {
                "$crate"
            } else {
                name
            };
            path.insert(0, name);
        }
    }
    // Declarations, implementations, and bodies of functions that return it.
    let before = text[..lo].trim_end();
    let word = &before[before.trim_end_matches(is_word).len()..];
    let is_other = before.ends_with("->")
        || ["for", "impl", "struct", "enum", "union", "trait", "mod"].contains(&word);
    if is_other {
        return None;
    }
    let (entries, close) = entries(text, open)?;
    Some(Literal {
        path,
        is_variable,
        entries,
        close,
    })
}

/// Where tokens end up.
#[derive(Clone, Copy)]
struct Place {
    file: Option<usize>,
    module: ModId,
    at: usize,
    /// The call's arguments; empty where there is no call.
    args: Span,
}

struct Search<'t, 'a> {
    tree: &'t Tree<'a>,
    contexts: &'t [Context<'a>],
}

impl Search<'_, '_> {
    /// The structs that a literal may be of.
    fn meant(
        &self,
        file: usize,
        region: &Region<'_>,
        ident: &Name,
        literal: &Literal<'_>,
    ) -> BTreeSet<DefId> {
        let tree = self.tree;
        let here = Place {
            file: Some(file),
            module: self.module_at(file, ident.span),
            at: ident.span.lo,
            args: Span::new(0, 0),
        };
        let calls = region
            .rules
            .map_or_else(Vec::new, |name| self.calls(name, here.module));
        let mut out = BTreeSet::new();
        if literal.is_variable {
            for call in &calls {
                out.extend(self.named_in_args(call));
            }
            if calls.is_empty() {
                out.extend(self.near(here.module));
            }
            return out;
        }
        if ident.text == "Self" {
            let places = calls.iter().chain([&here]);
            out.extend(places.filter_map(|place| self.self_at(place)));
            // A macro that nobody is seen to call.
            if calls.is_empty() && region.rules.is_some() {
                out.extend(self.near(here.module));
            }
            return out;
        }
        let is_by_name = ident.text == tree.rule.structure;
        let from_crate = literal
            .path
            .as_ref()
            .is_some_and(|path| path[0] == "$crate");
        if let Found::Def(def) = self.look(here.module, literal) {
            out.insert(def);
        }
        let places = if calls.is_empty() || from_crate {
            vec![here]
        } else {
            calls
        };
        for place in &places {
            match self.look(place.module, literal) {
                Found::Def(def) => {
                    out.insert(def);
                }
                Found::Unclear if is_by_name => out.extend(self.near(place.module)),
                Found::Unclear | Found::Other => {}
            }
        }
        out
    }

    fn look(&self, module: ModId, literal: &Literal<'_>) -> Found {
        let Some(path) = &literal.path else {
            return Found::Unclear;
        };
        let scope = Scope {
            module,
            blocks: &[],
            params: &[],
        };
        let (res, n) = self.tree.world.resolve(scope, false, path, Ns::Type);
        if n != path.len() {
            return Found::Unclear;
        }
        self.found(res)
    }

    fn found(&self, res: Res) -> Found {
        match self.tree.world.unalias(res) {
            Res::Def(def) if self.contexts.iter().any(|it| it.def == def) => Found::Def(def),
            Res::Ambiguous | Res::Unknown => Found::Unclear,
            _ => Found::Other,
        }
    }

    /// The structs that are the likeliest where a name is not found: those of the crate, or else of what it depends on.
    fn near(&self, module: ModId) -> Vec<DefId> {
        let world = self.tree.world;
        let krate = world.mods[module].krate;
        let among = |is_near: &dyn Fn(CrateId) -> bool| -> Vec<DefId> {
            self.contexts
                .iter()
                .filter(|it| is_near(world.mods[it.body.module].krate))
                .map(|it| it.def)
                .collect()
        };
        let own = among(&|other| other == krate);
        if own.is_empty() {
            among(&|other| self.reaches(krate, other))
        } else {
            own
        }
    }

    fn reaches(&self, from: CrateId, to: CrateId) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut todo = vec![from];
        while let Some(krate) = todo.pop() {
            if krate == to {
                return true;
            }
            let externs = self.tree.world.crates[krate].externs.values().flatten();
            todo.extend(externs.copied().filter(|it| seen.insert(*it)));
        }
        false
    }

    fn module_at(&self, file: usize, span: Span) -> ModId {
        let body = self.tree.bodies.iter().rfind(|body| {
            body.file == file && body.items.iter().any(|item| item.span.contains(span))
        });
        body.map_or(self.tree.files[file].module, |body| body.module)
    }

    /// The struct whose implementation a place is in.
    fn self_at(&self, place: &Place) -> Option<DefId> {
        let span = Span::new(place.at, place.at);
        let is_in = |context: &&Context<'_>| {
            context
                .impls
                .iter()
                .any(|at| Some(at.body.file) == place.file && at.it.braces.contains(span))
        };
        self.contexts.iter().find(is_in).map(|context| context.def)
    }

    fn named_in_args(&self, call: &Place) -> Vec<DefId> {
        let Some(file) = call.file else {
            return self.near(call.module);
        };
        let cx = self.tree.cx(file);
        let mut out = Vec::new();
        for ident in cx
            .file
            .idents
            .iter()
            .filter(|it| call.args.contains(it.span))
        {
            if ident.text == "Self" {
                out.extend(self.self_at(call));
                continue;
            }
            let res = self
                .tree
                .world
                .name_in(call.module, &ident.text, Ns::Type, None);
            match self.found(res) {
                Found::Def(def) => out.push(def),
                Found::Unclear if ident.text == self.tree.rule.structure => {
                    out.extend(self.near(call.module))
                }
                Found::Unclear | Found::Other => {}
            }
        }
        out
    }

    /// The calls of a macro, and of those in whose bodies it is called.
    fn calls(&self, name: &str, defined_in: ModId) -> Vec<Place> {
        let tree = self.tree;
        let world = tree.world;
        let mut out = Vec::new();
        let mut names = vec![(name.to_owned(), defined_in)];
        let mut next = 0;
        while next < names.len() {
            let (name, module) = names[next].clone();
            next += 1;
            let krate = world.mods[module].krate;
            for file in 0..tree.files.len() {
                if !self.reaches(world.mods[tree.files[file].module].krate, krate) {
                    continue;
                }
                let cx = tree.cx(file);
                let regions = regions(cx);
                for ident in cx.file.idents.iter().filter(|it| it.text == name) {
                    let Some(args) = args_of(cx.text, ident.span.hi) else {
                        continue;
                    };
                    let module = self.module_at(file, ident.span);
                    let within = regions
                        .iter()
                        .find(|it| it.rules.is_some() && it.span.contains(ident.span));
                    if let Some(outer) = within.and_then(|it| it.rules) {
                        if names.iter().all(|(known, _)| known != outer) {
                            names.push((outer.to_owned(), module));
                        }
                        continue;
                    }
                    let file = Some(file);
                    out.push(Place {
                        file,
                        module,
                        at: ident.span.lo,
                        args,
                    });
                }
            }
            // Files that hold nothing else of interest are not among those of a call.
            for known in &world.files {
                let Some(&module) = known.contexts.first() else {
                    continue;
                };
                let is_open = tree.files.iter().any(|it| it.path == known.path);
                if is_open || !self.reaches(world.mods[module].krate, krate) {
                    continue;
                }
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let is_call = |(at, _): (usize, &str)| {
                    !known.text[..at].ends_with(is_word)
                        && args_of(&known.text, at + name.len()).is_some()
                };
                if known.text.match_indices(&name).any(is_call) {
                    out.push(Place {
                        file: None,
                        module,
                        at: 0,
                        args: Span::new(0, 0),
                    });
                }
            }
        }
        out
    }
}

enum Found {
    Def(DefId),
    /// Something that is known not to be meant.
    Other,
    Unclear,
}

/// What stands between the delimiters of a macro's call, after its name.
fn args_of(text: &str, after: usize) -> Option<Span> {
    let rest = text[after..].trim_start().strip_prefix('!')?.trim_start();
    let open = text.len() - rest.len();
    if !rest.starts_with(['(', '[', '{']) {
        return None;
    }
    let (_, close) = entries(text, open)?;
    Some(Span::new(open, close))
}

/// The name of an entry `name` or `name: value`.
fn field_of(entry: &str) -> Option<&str> {
    let entry = entry.trim();
    let end = entry
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(entry.len());
    let (name, rest) = entry.split_at(end);
    let rest = rest.trim_start();
    let is_entry = rest.is_empty() || (rest.starts_with(':') && !rest.starts_with("::"));
    (!name.is_empty() && is_entry).then_some(name)
}

/// What stands between commas in a pair of braces, comments left out, and where the pair ends.
fn entries(text: &str, open: usize) -> Option<(Vec<String>, usize)> {
    let mut skip = crate::syntax::trivia::skip_scan(&text[open..])
        .into_iter()
        .map(|span| Span::new(open + span.lo, open + span.hi))
        .peekable();
    let mut out = vec![String::new()];
    let mut depth = 0;
    let mut at = open;
    while let Some(c) = text[at..].chars().next() {
        while skip.peek().is_some_and(|span| span.hi <= at) {
            skip.next();
        }
        if let Some(span) = skip.peek()
            && span.lo <= at
        {
            at = span.hi;
            continue;
        }
        if text[at..].starts_with("//") {
            at = crate::syntax::trivia::line_end(text, at);
            continue;
        }
        if text[at..].starts_with("/*") {
            at += text[at..].find("*/")? + 2;
            continue;
        }
        at += c.len_utf8();
        let entry = out.last_mut()?;
        match c {
            '{' | '(' | '[' => {
                if depth > 0 {
                    entry.push(c);
                }
                depth += 1;
            }
            '}' | ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    out.retain(|entry| !entry.trim().is_empty());
                    return Some((out, at));
                }
            }
            ',' if depth == 1 => out.push(String::new()),
            c if depth == 1 => entry.push(c),
            _ => {}
        }
    }
    None
}
