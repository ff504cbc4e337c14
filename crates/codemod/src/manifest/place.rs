//! Where a manifest names something, for what is said about it.

use toml_edit::{Document, Item, Key, Table, Value};

use super::TargetKind;

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub enum Named<'a> {
    Target(TargetKind, &'a str),
    /// A path in `package.include` or `package.exclude`.
    Packaged(&'a str),
    /// A dependency by its key, of any kind and for any platform.
    Dependency(&'a str),
    Feature(&'a str),
}

/// The byte at which the entry's name stands. `None` if the text does not parse or has no such entry.
pub fn place(text: &str, named: Named<'_>) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let root: &Table = document.as_table();
    match named {
        Named::Target(kind, name) => match root.get(kind.key()?)? {
            Item::ArrayOfTables(tables) => tables
                .iter()
                .filter_map(|table| table.get("name"))
                .find(|item| item.as_str() == Some(name))?
                .span(),
            Item::Value(list) => list
                .as_array()?
                .iter()
                .filter_map(|value| value.as_inline_table()?.get("name"))
                .find(|value| value.as_str() == Some(name))?
                .span(),
            _ => None,
        },
        Named::Packaged(path) => {
            let package = root.get("package").or_else(|| root.get("project"))?;
            ["include", "exclude"]
                .iter()
                .filter_map(|key| package.get(key)?.as_array())
                .flatten()
                .find(|value| value.as_str().is_some_and(|found| same_path(found, path)))
                .and_then(Value::span)
        }
        Named::Dependency(name) => {
            let platforms = root.get("target").and_then(Item::as_table_like);
            let tables = platforms
                .into_iter()
                .flat_map(|platforms| platforms.iter())
                .map(|(_, of_platform)| of_platform);
            dependency(document.as_item(), name)
                .or_else(|| tables.filter_map(|item| dependency(item, name)).next())
        }
        Named::Feature(name) => key_of(root.get("features")?, name),
    }
    .map(|span| span.start)
}

fn dependency(tables: &Item, name: &str) -> Option<std::ops::Range<usize>> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| key_of(tables.get(kind)?, name))
        .next()
}

/// Where a key of a table stands: by itself, in a header, or where only its value has a place, that one.
fn key_of(table: &Item, name: &str) -> Option<std::ops::Range<usize>> {
    let (key, item): (&Key, &Item) = match table {
        Item::Table(table) => table.get_key_value(name)?,
        Item::Value(Value::InlineTable(table)) => {
            let (key, item) = table.get_key_value(name)?;
            (key, item)
        }
        _ => return None,
    };
    key.span().or_else(|| item.span())
}

/// `./a` and `/a` are `a`.
pub(super) fn same_path(one: &str, other: &str) -> bool {
    let plain = |path: &str| {
        path.strip_prefix("./")
            .or_else(|| path.strip_prefix('/'))
            .unwrap_or(path)
            .to_owned()
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# her, everywhere, cpu
[package]
name = "cpu"
include = ["src/cpu.rs", "./tests/cpu.rs"]

[features]
everywhere = []
her = ["everywhere"]

[dependencies]
cpu-time = "1"
cpu = { path = "../cpu" }

[target.'cfg(unix)'.dev-dependencies.old]
path = "../old"

[[test]]
name = "cpu_slow"

[[test]]
# the other one
name = "cpu"
"#;

    #[test]
    fn the_entry_itself_is_found_not_a_word_like_it() {
        let line = |named| {
            let at = place(TEXT, named)?;
            let start = TEXT[..at].rfind('\n').map_or(0, |end| end + 1);
            TEXT[start..].lines().next()
        };
        assert_eq!(
            line(Named::Target(TargetKind::Test, "cpu")),
            Some("name = \"cpu\"")
        );
        assert!(place(TEXT, Named::Target(TargetKind::Test, "cpu")) > TEXT.find("the other one"));
        assert_eq!(line(Named::Target(TargetKind::Bench, "cpu")), None);
        let list = line(Named::Packaged("tests/cpu.rs"));
        assert!(list.is_some_and(|line| line.starts_with("include")));
        assert_eq!(line(Named::Packaged("cpu.rs")), None);
        assert_eq!(line(Named::Feature("her")), Some("her = [\"everywhere\"]"));
        assert_eq!(
            line(Named::Dependency("cpu")),
            Some("cpu = { path = \"../cpu\" }")
        );
        assert!(line(Named::Dependency("old")).is_some_and(|line| line.contains("old")));
        assert_eq!(line(Named::Dependency("her")), None);
    }
}
