//! What an intra-doc link leads to, and what becomes of it.

use super::scope::DocScope;
use crate::rewrite::{Cx, Retired};
use crate::syntax::Vis;
use crate::world::{DefId, DefKind, EntryKind, ModId, Ns, Res, Scope};

/// Words in front of `@` that say which kind of item a link is for.
const KINDS: &[&str] = &[
    "struct",
    "enum",
    "trait",
    "traitalias",
    "union",
    "module",
    "mod",
    "const",
    "constant",
    "static",
    "function",
    "fn",
    "method",
    "derive",
    "type",
    "typealias",
    "value",
    "macro",
    "prim",
    "primitive",
    "tyalias",
    "variant",
    "field",
];

/// A link's target taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'t> {
    pub kind: Option<&'t str>,
    pub leading_colon: bool,
    pub segs: Vec<&'t str>,
    /// `()`, `!` and what stands behind `#`.
    pub suffix: &'t str,
}

impl<'t> Target<'t> {
    /// None for what is no path: an address, a file, words.
    pub fn parse(text: &'t str) -> Option<Self> {
        let text = text.trim();
        let (kind, rest) = match text.split_once('@') {
            Some((kind, rest)) if KINDS.contains(&kind.trim()) => {
                (Some(kind.trim()), rest.trim_start())
            }
            Some(_) => return None,
            None => (None, text),
        };
        let end = rest.find(['(', '!', '#', '{']).unwrap_or(rest.len());
        let (path, suffix) = rest.split_at(end);
        if !matches!(
            suffix.split('#').next(),
            Some("" | "()" | "!" | "!()" | "![]" | "!{}")
        ) {
            return None;
        }
        let leading_colon = path.starts_with("::");
        let segs: Vec<&str> = path.trim_start_matches("::").split("::").collect();
        segs.iter().all(|seg| is_name(seg)).then_some(Target {
            kind,
            leading_colon,
            segs,
            suffix,
        })
    }

    pub fn path(&self) -> String {
        format!(
            "{}{}",
            if self.leading_colon { "::" } else { "" },
            self.segs.join("::")
        )
    }

    /// The same with another path. A kind that may not be that of what takes the place is given anew.
    pub fn with_path(&self, path: &str, kind: Option<&str>) -> String {
        let kind = self
            .kind
            .map(|old| kind.unwrap_or(old))
            .map_or(String::new(), |kind| format!("{kind}@"));
        format!("{kind}{path}{}", self.suffix)
    }
}

fn is_name(text: &str) -> bool {
    let text = text.strip_prefix("r#").unwrap_or(text);
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

/// What becomes of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Renamed(Renamed),
    /// Nothing that rustdoc could lead to is left.
    Gone {
        rule: String,
        hint: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// The new target's path.
    pub path: String,
    /// The old names from the type on, and the new ones, for what the reader sees.
    pub old_tail: Vec<String>,
    pub new_tail: Vec<String>,
    /// The kind of the new item, for links that say one.
    pub kind: Option<&'static str>,
    pub rule: String,
}

/// What becomes of a link to `target` in the documentation of an item of `scope`'s module.
pub fn fate(cx: &Cx<'_>, scope: &DocScope, target: &Target<'_>) -> Fate {
    let from = Scope {
        module: scope.module,
        blocks: &[],
        params: &[],
    };
    for ns in [Ns::Type, Ns::Value, Ns::Macro] {
        let (res, taken) = cx
            .world
            .resolve(from, target.leading_colon, &target.segs, ns);
        let found = match cx.world.unalias(res) {
            Res::Def(def) if cx.rules.deleted_defs.contains_key(&def) => gone(
                cx,
                cx.rules.deleted_defs[&def].clone(),
                &cx.world.defs[def].name,
            ),
            Res::Def(def) => match cx.rules.retired_def(def) {
                Some(retired) => of_retired(cx, scope, target, taken, &retired),
                None => Fate::Keep,
            },
            Res::Variant(def, at) => match cx.rules.retired_def(def) {
                Some(retired) if taken >= 2 => of_variant(cx, scope, target, taken, at, &retired),
                Some(retired) => gone(cx, retired.rule().to_owned(), ""),
                None => match cx.rules.deleted_defs.get(&def) {
                    Some(rule) => gone(cx, rule.clone(), &cx.world.defs[def].name),
                    None => Fate::Keep,
                },
            },
            Res::Mod(module) => match cx.rules.deleted_mods.get(&module) {
                Some(rule) if taken == target.segs.len() => gone(cx, rule.clone(), ""),
                _ => Fate::Keep,
            },
            _ => Fate::Keep,
        };
        if found != Fate::Keep {
            return found;
        }
    }
    Fate::Keep
}

fn gone(cx: &Cx<'_>, rule: String, name: &str) -> Fate {
    Fate::Gone {
        rule,
        hint: cx.rules.suggest.get(name).cloned(),
    }
}

fn of_variant(
    cx: &Cx<'_>,
    scope: &DocScope,
    target: &Target<'_>,
    taken: usize,
    at: usize,
    retired: &Retired<'_>,
) -> Fate {
    match retired {
        Retired::Enum(rule) if rule.survivor == at && taken == target.segs.len() => {
            renamed(cx, scope, target, taken - 1, None, retired)
        }
        _ => gone(cx, retired.rule().to_owned(), ""),
    }
}

fn of_retired(
    cx: &Cx<'_>,
    scope: &DocScope,
    target: &Target<'_>,
    taken: usize,
    retired: &Retired<'_>,
) -> Fate {
    let (rename, gone_members) = match retired {
        Retired::Enum(rule) => (rule.spec.rename.clone(), &rule.spec.gone),
        Retired::Wrapper(rule) => (Default::default(), &rule.spec.gone),
    };
    match &target.segs[taken..] {
        [] => renamed(cx, scope, target, taken, None, retired),
        [member] => {
            let name = rename.get(*member).map_or(*member, String::as_str);
            if has_member(cx, retired.becomes(), name) && !gone_members.contains_key(*member) {
                renamed(cx, scope, target, taken, Some(name), retired)
            } else {
                Fate::Gone {
                    rule: retired.rule().to_owned(),
                    hint: gone_members.get(*member).cloned(),
                }
            }
        }
        _ => Fate::Keep,
    }
}

fn has_member(cx: &Cx<'_>, def: DefId, name: &str) -> bool {
    cx.world.assoc_fn(def, name).is_some()
        || matches!(&cx.world.defs[def].kind, DefKind::Struct { fields, .. } if fields.iter().any(|(field, _)| field == name))
}

/// The link with the new type's name in the place of the old one's, which is the last of the first `taken` segments.
fn renamed(
    cx: &Cx<'_>,
    scope: &DocScope,
    target: &Target<'_>,
    taken: usize,
    member: Option<&str>,
    retired: &Retired<'_>,
) -> Fate {
    let new = retired.becomes();
    let new_name = cx.world.defs[new].name.clone();
    let old_name = target.segs[taken - 1];
    // An alias stays: what it stands for is changed where it is declared.
    let is_alias = old_name != cx.world.defs[retired.def()].name;
    let mut path = if is_alias {
        Target {
            segs: target.segs[..taken].to_vec(),
            ..target.clone()
        }
        .path()
    } else {
        new_path(cx, scope, target, taken, retired)
    };
    let mut new_tail = vec![if is_alias {
        old_name.to_owned()
    } else {
        new_name
    }];
    if let Some(member) = member {
        path = format!("{path}::{member}");
        new_tail.push(member.to_owned());
    }
    if path == target.path() {
        return Fate::Keep;
    }
    let kind = match (&cx.world.defs[new].kind, member, is_alias) {
        (_, None, true) | (_, Some(_), _) => None,
        (DefKind::Struct { .. }, ..) => Some("struct"),
        (DefKind::Enum { .. }, ..) => Some("enum"),
        (DefKind::Trait { .. }, ..) => Some("trait"),
        _ => Some("type"),
    };
    let old_tail = target.segs[taken - 1..]
        .iter()
        .map(|&seg| seg.to_owned())
        .collect();
    Fate::Renamed(Renamed {
        path,
        old_tail,
        new_tail,
        kind,
        rule: retired.rule().to_owned(),
    })
}

fn new_path(
    cx: &Cx<'_>,
    scope: &DocScope,
    target: &Target<'_>,
    taken: usize,
    retired: &Retired<'_>,
) -> String {
    let new = retired.becomes();
    let full = || cx.full_path(scope.module, new);
    if taken == 1 {
        return scope.spelling(cx, retired).unwrap_or_else(full);
    }
    let from = Scope {
        module: scope.module,
        blocks: &[],
        params: &[],
    };
    let head = &target.segs[..taken - 1];
    match cx.world.resolve(from, target.leading_colon, head, Ns::Type) {
        (Res::Mod(module), n)
            if n == head.len()
                && !cx.rules.deleted_mods.contains_key(&module)
                && will_hold(cx, scope, module, retired) =>
        {
            format!(
                "{}{}::{}",
                if target.leading_colon { "::" } else { "" },
                head.join("::"),
                cx.world.defs[new].name
            )
        }
        _ => full(),
    }
}

/// Whether a module has the new name where it has the old one now.
fn will_hold(cx: &Cx<'_>, scope: &DocScope, module: ModId, retired: &Retired<'_>) -> bool {
    let new_name = &cx.world.defs[retired.becomes()].name;
    if module == scope.module {
        return scope.spelling(cx, retired).as_ref() == Some(new_name);
    }
    match cx
        .world
        .name_in(module, new_name, Ns::Type, Some(scope.module))
    {
        Res::Def(def) if def == retired.becomes() => true,
        Res::Unknown => {
            // A re-export of the old name becomes one of the new; a private import may go.
            let old_name = &cx.world.defs[retired.def()].name;
            let entries = cx.world.mods[module].entries.get(old_name);
            entries.is_none_or(|entries| {
                entries.iter().any(|entry| {
                    entry.vis != Vis::Private && matches!(entry.kind, EntryKind::Use { .. })
                })
            })
        }
        _ => false,
    }
}
