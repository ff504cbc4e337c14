//! What a `use` brings, name by name.

use super::{Span, UseKind, UseTree};

/// A name, a renaming or a glob of a `use`, with its whole path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseLeaf {
    pub span: Span,
    /// Up to what is imported; of a glob, up to the module.
    pub path: Vec<String>,
    /// `self` in a group: the path is that of what is around it.
    pub is_self: bool,
    pub binds: Binds,
}

/// Under which name a leaf is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binds {
    /// Its own.
    Name(String),
    /// The one behind `as`, which may be `_`.
    Rename(String),
    /// Whatever is there.
    Glob,
}

impl UseLeaf {
    pub fn is_glob(&self) -> bool {
        self.binds == Binds::Glob
    }

    /// The name that code can write; none for a glob and for `as _`.
    pub fn name(&self) -> Option<&str> {
        match &self.binds {
            Binds::Name(name) | Binds::Rename(name) if name != "_" => Some(name),
            _ => None,
        }
    }
}

impl UseTree {
    /// Every leaf, in the order of the text.
    pub fn leaves(&self) -> Vec<UseLeaf> {
        let mut out = Vec::new();
        self.walk(&mut vec![], &mut out);
        out
    }

    fn walk(&self, prefix: &mut Vec<String>, out: &mut Vec<UseLeaf>) {
        let mut push = |own: Option<&str>, is_self: bool, binds: Binds| {
            let path = prefix.iter().map(String::as_str).chain(own);
            out.push(UseLeaf {
                span: self.span,
                path: path.map(str::to_owned).collect(),
                is_self,
                binds,
            });
        };
        match &self.kind {
            UseKind::Path { name, rest } => {
                prefix.push(name.text.clone());
                rest.walk(prefix, out);
                prefix.pop();
            }
            UseKind::Name(name) => match prefix.last().cloned() {
                Some(around) if name.text == "self" => push(None, true, Binds::Name(around)),
                _ => push(Some(&name.text), false, Binds::Name(name.text.clone())),
            },
            UseKind::Rename { name, rename } => {
                let is_self = name.text == "self" && !prefix.is_empty();
                let own = (!is_self).then_some(name.text.as_str());
                push(own, is_self, Binds::Rename(rename.text.clone()));
            }
            UseKind::Glob => push(None, false, Binds::Glob),
            UseKind::Group { items } => items.iter().for_each(|tree| tree.walk(prefix, out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::{ItemKind, parse};

    #[test]
    fn every_form_has_its_path_and_its_name() {
        let file = parse("use a::{self, b as c, d::{self as e, *}, f as _};\nuse g;\n").unwrap();
        let found: Vec<String> = file
            .items
            .iter()
            .filter_map(|item| match &item.kind {
                ItemKind::Use(it) => Some(it.tree.leaves()),
                _ => None,
            })
            .flatten()
            .map(|leaf| {
                format!(
                    "{} {:?} {}",
                    leaf.path.join("::"),
                    leaf.name(),
                    leaf.is_self
                )
            })
            .collect();
        let expected = [
            "a Some(\"a\") true",
            "a::b Some(\"c\") false",
            "a::d Some(\"e\") true",
            "a::d None false",
            "a::f None false",
            "g Some(\"g\") false",
        ];
        assert_eq!(found, expected);
    }
}
