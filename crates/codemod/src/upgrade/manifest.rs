//! Requirements and features in manifests.
//!
//! Edits replace strings inside of their quotes, found by the spans that `toml_edit` gives; every other byte stays.

use toml_edit::{Array, Document, Item, TableLike, Value};

use crate::edit::Edit;
use crate::leftover::Leftover;
use crate::manifest::version::{Line, Side, raised, side};
use crate::rule::UpgradeDependency;
use crate::syntax::{Span, trivia};

const TABLES: [&str; 5] = [
    "dependencies",
    "dev-dependencies",
    "dev_dependencies",
    "build-dependencies",
    "build_dependencies",
];

/// What is to be done in a manifest, and what is left.
#[derive(Debug, Default)]
pub struct Upgraded {
    pub edits: Vec<Edit>,
    pub left: Vec<Leftover>,
}

/// Raises what a manifest requires of the packages that the rules speak of.
///
/// `keys` gives the key of each such dependency that the manifest takes from its workspace.
pub fn upgrade(text: &str, rules: &[UpgradeDependency], keys: &[(String, String)]) -> Upgraded {
    let mut out = Upgraded::default();
    let Ok(document) = Document::parse(text) else {
        return out;
    };
    // Key in the manifest, with the rule for its package: features speak of it by that.
    let mut known: Vec<(String, &UpgradeDependency)> = Vec::new();
    let root: &dyn TableLike = document.as_table();
    for rule in rules {
        let inherited = keys
            .iter()
            .filter(|(_, package)| *package == rule.package)
            .map(|(key, _)| (key.clone(), rule));
        known.extend(inherited);
        tables(root, &mut |table| {
            for (key, item) in table.iter() {
                let package = item
                    .as_table_like()
                    .and_then(|spec| spec.get("package")?.as_str())
                    .unwrap_or(key);
                if package == rule.package && dependency(text, item, rule, &mut out) {
                    known.push((key.to_owned(), rule));
                }
            }
        });
    }
    known.sort_by(|a, b| (&a.0, &a.1.package).cmp(&(&b.0, &b.1.package)));
    known.dedup_by(|a, b| a.0 == b.0 && a.1.package == b.1.package);
    if let Some(features) = root.get("features").and_then(Item::as_table_like) {
        for (_, item) in features.iter() {
            if let Some(list) = item.as_array() {
                for (key, rule) in &known {
                    names(text, list, Some(key), rule, true, &mut out);
                }
            }
        }
    }
    out
}

fn tables(root: &dyn TableLike, visit: &mut dyn FnMut(&dyn TableLike)) {
    let mut of = |table: &dyn TableLike| {
        for name in TABLES {
            if let Some(found) = table.get(name).and_then(Item::as_table_like) {
                visit(found);
            }
        }
    };
    of(root);
    if let Some(targets) = root.get("target").and_then(Item::as_table_like) {
        for (_, target) in targets.iter() {
            if let Some(target) = target.as_table_like() {
                of(target);
            }
        }
    }
    if let Some(workspace) = root.get("workspace").and_then(Item::as_table_like) {
        of(workspace);
    }
}

/// Whether the dependency is one of the old version, or was.
fn dependency(text: &str, item: &Item, rule: &UpgradeDependency, out: &mut Upgraded) -> bool {
    let (Some(from), Some(to)) = (Line::parse(&rule.from), Line::parse(&rule.to)) else {
        return false;
    };
    let version = match item.as_value().filter(|value| value.is_str()) {
        Some(value) => Some(value),
        None => item
            .as_table_like()
            .and_then(|spec| spec.get("version")?.as_value()),
    };
    // What comes from the workspace, or from elsewhere, has features of its own all the same.
    let mut is_ours = true;
    if let Some(value) = version
        && let (Some(requirement), Some(span)) = (value.as_str(), value.span())
    {
        match side(Some(requirement), from, to) {
            Side::Elsewhere => return false,
            Side::After | Side::Unknown => {}
            Side::Before => {
                is_ours = true;
                match raised(requirement, from, &rule.to) {
                    Some(now) => out.edits.push(inside_quotes(text, span, &now, &rule.rule)),
                    None => out.left.push(Leftover {
                        span: Span::new(span.start, span.end),
                        rule: rule.rule.clone(),
                        reason: format!(
                            "`{requirement}` asks for more than a version of `{}` {}",
                            rule.package, rule.from
                        ),
                        suggestion: Some(format!("ask for `{}`", rule.to)),
                        dead: false,
                        reads: false,
                    }),
                }
            }
        }
    }
    if let Some(spec) = item.as_table_like()
        && let Some(list) = spec.get("features").and_then(Item::as_array)
    {
        let default = ["default-features", "default_features"]
            .iter()
            .find_map(|key| spec.get(key)?.as_bool())
            .unwrap_or(true);
        names(text, list, None, rule, !default, out);
    }
    is_ours
}

/// Features in a list: bare, or behind the dependency's key.
fn names(
    text: &str,
    list: &Array,
    key: Option<&str>,
    rule: &UpgradeDependency,
    completes: bool,
    out: &mut Upgraded,
) {
    let split = |value: &Value| -> Option<(String, String, Span)> {
        let whole = value.as_str()?;
        let span = value.span()?;
        let span = Span::new(span.start, span.end);
        match key {
            None => Some((String::new(), whole.to_owned(), span)),
            Some(key) => {
                let (head, feature) = whole.split_once('/')?;
                (head.strip_suffix('?').unwrap_or(head) == key)
                    .then(|| (format!("{head}/"), feature.to_owned(), span))
            }
        }
    };
    let all: Vec<(String, String, Span)> = list.iter().filter_map(split).collect();
    let after = |feature: &str| {
        rule.features
            .get(feature)
            .cloned()
            .unwrap_or_else(|| feature.to_owned())
    };
    for (head, feature, span) in &all {
        if let Some(new) = rule.features.get(feature) {
            let range = span.lo..span.hi;
            let now = format!("{head}{new}");
            out.edits.push(inside_quotes(text, range, &now, &rule.rule));
        } else if rule.gone_features.contains(feature) {
            out.left.push(Leftover {
                span: *span,
                rule: rule.rule.clone(),
                reason: format!("`{}` {} has no feature `{feature}`", rule.package, rule.to),
                suggestion: Some("take it out of the list".into()),
                dead: false,
                reads: false,
            });
        }
    }
    if !completes {
        return;
    }
    let mut present: Vec<String> = all.iter().map(|(_, feature, _)| after(feature)).collect();
    for implied in &rule.implied {
        let given = implied
            .when
            .iter()
            .all(|wanted| all.iter().any(|(_, feature, _)| feature == wanted));
        let Some((head, _, span)) = all
            .iter()
            .rfind(|(_, feature, _)| implied.when.contains(feature))
            .filter(|_| given)
        else {
            continue;
        };
        for add in &implied.add {
            if present.contains(add) {
                continue;
            }
            present.push(add.clone());
            let quote = &text[span.lo..span.lo + 1];
            let at = Span::new(span.hi, span.hi);
            // On a line of its own where its neighbour has one.
            let gap = if trivia::starts_line(text, span.lo) {
                format!("{}{}", trivia::eol(text), trivia::indent_of(text, span.lo))
            } else {
                " ".to_owned()
            };
            let now = format!(",{gap}{quote}{head}{add}{quote}");
            match out.edits.iter_mut().find(|edit| edit.span == at) {
                Some(edit) => edit.text.push_str(&now),
                None => out.edits.push(Edit::new(at, now, &rule.rule)),
            }
        }
    }
}

fn inside_quotes(text: &str, span: std::ops::Range<usize>, now: &str, rule: &str) -> Edit {
    let shown = &text[span.clone()];
    let quote = if shown.starts_with("'''") || shown.starts_with("\"\"\"") {
        3
    } else {
        1
    };
    let inner = Span::new(span.start + quote, span.end - quote);
    Edit::new(inner, now, rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Rope;
    use crate::rule::ImpliedFeatures;

    fn rule() -> UpgradeDependency {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        UpgradeDependency {
            rule: "upgrade".into(),
            package: "dice".into(),
            from: "0.8".into(),
            to: "0.9".into(),
            features: [("os".to_owned(), "system".to_owned())].into(),
            gone_features: all(&["tiny"]),
            implied: vec![ImpliedFeatures {
                when: all(&["std", "threads"]),
                add: all(&["local"]),
            }],
            why: String::new(),
        }
    }

    fn after(text: &str) -> (String, Vec<String>) {
        let done = upgrade(text, &[rule()], &[]);
        let mut rope = Rope::new(text);
        rope.apply(&done.edits).expect("edits are disjoint");
        let left = done.left.into_iter().map(|left| left.reason).collect();
        (rope.text().to_owned(), left)
    }

    #[test]
    fn every_form_of_a_requirement() {
        let before = "[dependencies]\ndice = \"0.8.5\" # as it was\nother = \"0.8\"\ncubes = { package = 'dice', version = '^0.8' }\n\n\
            [dev-dependencies.dice]\nversion = \"0.8\"\n\n[target.'cfg(unix)'.build-dependencies]\ndice = { version = \"0.8\" }\n\n\
            [workspace.dependencies]\ndice = \"0.8\"\n";
        let expected = "[dependencies]\ndice = \"0.9\" # as it was\nother = \"0.8\"\ncubes = { package = 'dice', version = '^0.9' }\n\n\
            [dev-dependencies.dice]\nversion = \"0.9\"\n\n[target.'cfg(unix)'.build-dependencies]\ndice = { version = \"0.9\" }\n\n\
            [workspace.dependencies]\ndice = \"0.9\"\n";
        assert_eq!(after(before), (expected.to_owned(), vec![]));
        assert_eq!(after(expected), (expected.to_owned(), vec![]));
    }

    #[test]
    fn features_follow_by_every_spelling() {
        let before = "[dependencies]\ndice = { version = \"0.8\", default-features = false, features = [\"std\", \"os\", \"threads\"] }\n\n\
            [features]\nall = [\"dice/os\", \"dice?/std\", \"dice/threads\", \"os\", \"other/os\"]\nlist = [\"dice\"]\nlong = [\n    \"dice/std\",\n    \"dice/threads\",\n]\n";
        let expected = "[dependencies]\ndice = { version = \"0.9\", default-features = false, features = [\"std\", \"system\", \"threads\", \"local\"] }\n\n\
            [features]\nall = [\"dice/system\", \"dice?/std\", \"dice/threads\", \"dice/local\", \"os\", \"other/os\"]\nlist = [\"dice\"]\nlong = [\n    \"dice/std\",\n    \"dice/threads\",\n    \"dice/local\",\n]\n";
        assert_eq!(after(before), (expected.to_owned(), vec![]));
        assert_eq!(after(expected), (expected.to_owned(), vec![]));
    }

    #[test]
    fn what_is_not_certain_is_left() {
        for requirement in ["=0.8.5", ">=0.7, <0.9", "~0.8.1"] {
            let text = format!("[dependencies]\ndice = \"{requirement}\"\n");
            let (same, left) = after(&text);
            assert_eq!(same, text);
            assert_eq!(left.len(), 1, "{requirement}");
        }
        for elsewhere in ["0.7", "1.0"] {
            let text = format!(
                "[dependencies]\ndice = {{ version = \"{elsewhere}\", features = [\"os\", \"tiny\"] }}\n"
            );
            assert_eq!(after(&text), (text, vec![]));
        }
        let (_, left) =
            after("[dependencies]\ndice = { version = \"0.8\", features = [\"tiny\"] }\n");
        assert_eq!(left, ["`dice` 0.9 has no feature `tiny`"]);
    }
}
