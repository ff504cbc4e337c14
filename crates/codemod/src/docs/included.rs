//! Markdown files that documentation includes: rustdoc compiles their examples like any others.
//!
//! Nothing is written in them; a note names an example that has a name which is gone.

use std::collections::{BTreeMap, HashMap};

use super::extract::{Snippet, examples_in_markdown};
use crate::rewrite::Rules;
use crate::syntax::{Attr, LineIndex, Span, parse};
use crate::world::{CrateKind, SourceFile, World};

/// A name that is gone, in an example of a Markdown file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub path: String,
    pub text: std::rc::Rc<str>,
    pub span: Span,
    pub name: String,
    pub suggestion: Option<String>,
}

impl Site {
    pub fn reason(&self) -> String {
        format!(
            "in an example that documentation includes: `{}` is gone",
            self.name
        )
    }
}

/// The first such name of each example, by file.
pub fn included(
    world: &World,
    rules: &Rules,
    wanted: &dyn Fn(&SourceFile) -> bool,
    read: &dyn Fn(&str) -> Option<std::rc::Rc<str>>,
) -> Vec<Site> {
    let mut gone: HashMap<&str, Option<String>> = HashMap::new();
    for def in rules.deleted_defs.keys() {
        let name = world.defs[*def].name.as_str();
        gone.insert(name, rules.suggest.get(name).cloned());
    }
    for retired in rules.retired_types() {
        let new = &world.defs[retired.becomes()].name;
        let name = world.defs[retired.def()].name.as_str();
        gone.insert(name, Some(format!("write `{new}`")));
    }
    let mut texts = BTreeMap::new();
    for host in &world.files {
        let in_library = host
            .contexts
            .iter()
            .any(|context| world.crates[world.mods[*context].krate].kind == CrateKind::Lib);
        let Ok(file) = &host.parsed else { continue };
        if !in_library || !wanted(host) || !host.text.contains("include_str!") {
            continue;
        }
        let dir = crate::world::parent_dir(&host.path);
        let of_items = file.items.iter().flat_map(|item| &item.attrs);
        for attr in file.inner_attrs.iter().chain(of_items) {
            if let Some(name) = included_by(attr, &host.text) {
                let path = crate::world::join(dir, name);
                if let Some(text) = read(&path) {
                    texts.insert(path, text);
                }
            }
        }
    }
    let mut out = Vec::new();
    for (path, text) in texts {
        for example in examples_in_markdown(&text) {
            if !example.language.is_compiled {
                continue;
            }
            let Some(snippet) = Snippet::of(&example) else {
                continue;
            };
            let Ok(file) = parse(&snippet.text) else {
                continue;
            };
            let Some(name) = file
                .idents
                .iter()
                .find(|name| gone.contains_key(name.text.as_str()))
            else {
                continue;
            };
            let index = LineIndex::new(&snippet.text);
            let line = index.line(name.span.lo);
            let column = name.span.lo - index.line_span(&snippet.text, line).lo;
            let Some(line) = snippet
                .example_line(line - 1)
                .and_then(|at| example.lines.get(at))
            else {
                continue;
            };
            let lo = line.at(column);
            out.push(Site {
                path: path.clone(),
                text: text.clone(),
                span: Span::new(lo, lo + name.text.len()),
                name: name.text.clone(),
                suggestion: gone[name.text.as_str()].clone(),
            });
        }
    }
    out
}

/// The path of `#![doc = include_str!("README.md")]`, under a condition or not.
fn included_by<'t>(attr: &Attr, text: &'t str) -> Option<&'t str> {
    if !matches!(attr.path.as_str(), "doc" | "cfg_attr") {
        return None;
    }
    let (_, rest) = attr.span.text(text).split_once("include_str!")?;
    let rest = rest.trim_start().strip_prefix(['(', '[', '{'])?;
    let (path, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    (!path.contains('\\')).then_some(path)
}
