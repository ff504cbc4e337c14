//! The manifests of the copy: what leads out of the tree is written out, and packages are taken from elsewhere.
//!
//! These edits are for the compiler alone; the tree's own manifests are never written from here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};
use walkdir::WalkDir;

use super::scratch::{io_error, normalize, write_if_changed};
use super::{Substitutions, VerifyError};

/// Tables that name dependencies, in a package, below `[target.…]` and below `[workspace]`.
const DEPENDENCY_TABLES: [&str; 5] = [
    "dependencies",
    "dev-dependencies",
    "dev_dependencies",
    "build-dependencies",
    "build_dependencies",
];
/// Keys of a dependency that say where it comes from.
const SOURCE_KEYS: [&str; 9] = [
    "path",
    "git",
    "branch",
    "tag",
    "rev",
    "version",
    "registry",
    "registry-index",
    "base",
];

/// All manifests of the copy by their folder from the root, with `/`; the root's own is at `.`.
#[derive(Debug)]
pub(super) struct Manifests {
    documents: BTreeMap<String, DocumentMut>,
}

/// Fails if cargo would look for the workspace of the root above it: the copy does not hold that.
pub(super) fn refuse_outer_workspace(root: &Path) -> Result<(), VerifyError> {
    let path = root.join("Cargo.toml");
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    let document: DocumentMut = parse("Cargo.toml", &text)?;
    if document.contains_key("workspace") {
        return Ok(());
    }
    let inherits = inherits(document.as_item());
    let named = document
        .get("package")
        .and_then(|package| package.get("workspace"))
        .and_then(Item::as_str);
    let outer = match named {
        Some(path) => Some(normalize(&root.join(path))),
        None => root
            .ancestors()
            .skip(1)
            .find(|above| {
                fs::read_to_string(above.join("Cargo.toml")).is_ok_and(|text| {
                    text.parse::<DocumentMut>()
                        .is_ok_and(|manifest| manifest.contains_key("workspace"))
                })
            })
            .map(Path::to_path_buf),
    };
    match outer {
        Some(workspace) if inherits || named.is_some() => Err(VerifyError::OutsideWorkspace {
            package: root.to_path_buf(),
            workspace,
        }),
        _ => Ok(()),
    }
}

impl Manifests {
    pub(super) fn read(root: &Path) -> Result<Self, VerifyError> {
        let mut documents = BTreeMap::new();
        for entry in WalkDir::new(root)
            .sort_by_file_name()
            .into_iter()
            .filter_map(Result::ok)
        {
            if entry.file_name() != "Cargo.toml" || !entry.file_type().is_file() {
                continue;
            }
            let folder = entry
                .path()
                .parent()
                .expect("a file has a folder")
                .strip_prefix(root)
                .expect("walks below the root");
            let Some(folder) = folder.to_str() else {
                continue;
            };
            let folder = if folder.is_empty() {
                ".".to_owned()
            } else {
                folder.replace('\\', "/")
            };
            let text = fs::read_to_string(entry.path()).map_err(io_error("read", entry.path()))?;
            // One that cargo does not read, in a folder of fixtures say, may be as wrong as it likes; cargo tells of others.
            if let Ok(document) = parse(&folder, &text) {
                documents.insert(folder, document);
            }
        }
        Ok(Self { documents })
    }

    pub(super) fn write(&self, root: &Path) -> Result<(), VerifyError> {
        for (folder, document) in &self.documents {
            write_if_changed(
                &root.join(folder).join("Cargo.toml"),
                document.to_string().as_bytes(),
            )?;
        }
        Ok(())
    }

    /// Folders in which cargo has to be run to see every package: the roots of workspaces, and packages in none.
    pub(super) fn workspaces(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .documents
            .iter()
            .filter(|(folder, document)| *folder == "." || document.contains_key("workspace"))
            .map(|(folder, _)| folder.clone())
            .collect();
        found.sort_by_key(|folder| (folder != ".", folder.clone()));
        if !self.documents.contains_key(".") {
            // No manifest at the root: each package below stands for itself.
            let is_inside = |folder: &String| {
                found
                    .iter()
                    .any(|workspace| folder.starts_with(&format!("{workspace}/")))
            };
            let alone: Vec<_> = self
                .documents
                .keys()
                .filter(|folder| !found.contains(folder) && !is_inside(folder))
                .cloned()
                .collect();
            found.extend(alone);
        }
        found
    }

    /// Writes out every path that leads from the tree at `original` to the outside, and makes the root a workspace, so that
    /// cargo does not look for one above the copy.
    pub(super) fn point_outside_from(mut self, original: &Path) -> Self {
        for (folder, document) in &mut self.documents {
            let here = original.join(folder);
            let write_out = |path: &str| {
                let meant = normalize(&here.join(path));
                (!meant.starts_with(original)).then(|| meant.to_string_lossy().into_owned())
            };
            each_dependency(document, &mut |_, dependency| {
                if let Some(Item::Value(path)) = dependency.get_mut("path")
                    && let Some(outside) = path.as_str().and_then(write_out)
                {
                    *path = outside.into();
                }
            });
            for patched in patches(document) {
                if let Some(Item::Value(path)) = patched.get_mut("path")
                    && let Some(outside) = path.as_str().and_then(write_out)
                {
                    *path = outside.into();
                }
            }
        }
        if let Some(root) = self.documents.get_mut(".")
            && !root.contains_key("workspace")
        {
            root.insert("workspace", Item::Table(Table::new()));
        }
        self
    }

    /// Takes packages and features from elsewhere; says what was done: file and sentence.
    pub(super) fn substitute(
        mut self,
        substitutions: &Substitutions,
    ) -> (Self, Vec<(String, String)>) {
        let mut notes = Vec::new();
        let own = self.packages();
        let replaced: BTreeMap<&str, &PathBuf> = substitutions
            .replacements
            .iter()
            .filter(|replacement| {
                !(replacement.own_stays && own.contains_key(replacement.package.as_str()))
            })
            .map(|replacement| (replacement.package.as_str(), &replacement.directory))
            .collect();
        let leaving: BTreeSet<&String> = own
            .iter()
            .filter(|(name, _)| replaced.contains_key(name.as_str()))
            .map(|(_, folder)| folder)
            .collect();
        for (folder, document) in &mut self.documents {
            let file = if folder == "." {
                "Cargo.toml".to_owned()
            } else {
                format!("{folder}/Cargo.toml")
            };
            each_dependency(document, &mut |name, dependency| {
                if let Some(directory) = replaced.get(name) {
                    for key in SOURCE_KEYS {
                        dependency.remove(key);
                    }
                    dependency.insert(
                        "path",
                        Item::Value(directory.to_string_lossy().into_owned().into()),
                    );
                }
                for feature in substitutions
                    .features
                    .iter()
                    .filter(|feature| feature.package == name)
                {
                    if let Some(old) = dependency
                        .get_mut("features")
                        .and_then(Item::as_array_mut)
                        .and_then(|list| choose(list, &feature.prefix, &feature.chosen))
                    {
                        notes.push((file.clone(), format!("the check took `{}` of `{name}` for `{old}`: two such features do not compile together", feature.chosen)));
                    }
                }
            });
            forget_patches(document, &replaced);
            leave_members(document, folder, &leaving);
        }
        for (name, folder) in &own {
            if let Some(directory) = replaced.get(name.as_str()) {
                self.documents.remove(folder);
                let file = if folder == "." {
                    "Cargo.toml".to_owned()
                } else {
                    format!("{folder}/Cargo.toml")
                };
                notes.push((
                    file,
                    format!(
                        "the check took `{name}` from `{}`, not from the tree",
                        directory.display()
                    ),
                ));
            }
        }
        notes.sort();
        notes.dedup();
        (self, notes)
    }

    /// Packages of the tree with their folders.
    fn packages(&self) -> BTreeMap<String, String> {
        let name = |document: &DocumentMut| {
            Some(document.get("package")?.get("name")?.as_str()?.to_owned())
        };
        self.documents
            .iter()
            .filter_map(|(folder, document)| Some((name(document)?, folder.clone())))
            .collect()
    }
}

fn parse(name: &str, text: &str) -> Result<DocumentMut, VerifyError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse()
        .map_err(|error: toml_edit::TomlError| VerifyError::Manifest {
            path: name.to_owned(),
            message: error.message().to_owned(),
        })
}

/// Calls `act` with the package's name and the table of each dependency that says where it comes from. Those written as a
/// version alone become a table first; those inherited from the workspace are the workspace's.
fn each_dependency(document: &mut DocumentMut, act: &mut dyn FnMut(&str, &mut dyn TableLike)) {
    let root: &mut Table = document.as_table_mut();
    in_tables(root, act);
    if let Some(workspace) = root.get_mut("workspace").and_then(Item::as_table_like_mut) {
        in_tables(workspace, act);
    }
    if let Some(targets) = root.get_mut("target").and_then(Item::as_table_like_mut) {
        for (_, target) in targets.iter_mut() {
            if let Some(target) = target.as_table_like_mut() {
                in_tables(target, act);
            }
        }
    }
}

fn in_tables(holder: &mut dyn TableLike, act: &mut dyn FnMut(&str, &mut dyn TableLike)) {
    for key in DEPENDENCY_TABLES {
        let Some(table) = holder.get_mut(key).and_then(Item::as_table_like_mut) else {
            continue;
        };
        for (key, item) in table.iter_mut() {
            if let Item::Value(Value::String(version)) = item {
                let mut table = InlineTable::new();
                table.insert("version", version.value().as_str().into());
                *item = Item::Value(Value::InlineTable(table));
            }
            let key = key.get().to_owned();
            let Some(dependency) = item.as_table_like_mut() else {
                continue;
            };
            if dependency.get("workspace").and_then(Item::as_bool) == Some(true) {
                // Its source stands in the workspace; its features stand here.
                if let Some(features) = dependency.get_mut("features").and_then(Item::as_value_mut)
                {
                    let mut only = InlineTable::new();
                    only.insert("features", features.clone());
                    act(&key, &mut only);
                    if let Some(chosen) = only.remove("features") {
                        *features = chosen;
                    }
                }
                continue;
            }
            let name = dependency
                .get("package")
                .and_then(Item::as_str)
                .unwrap_or(&key)
                .to_owned();
            act(&name, dependency);
        }
    }
}

/// Entries of `[patch.*]`.
fn patches(document: &mut DocumentMut) -> impl Iterator<Item = &mut dyn TableLike> {
    let sources = document.get_mut("patch").and_then(Item::as_table_like_mut);
    let tables = sources.into_iter().flat_map(|sources| {
        sources
            .iter_mut()
            .filter_map(|(_, table)| table.as_table_like_mut())
    });
    tables.flat_map(|table| {
        table
            .iter_mut()
            .filter_map(|(_, patched)| patched.as_table_like_mut())
    })
}

/// A patch for a package that comes from elsewhere has nothing to patch, of which cargo would warn.
fn forget_patches(document: &mut DocumentMut, replaced: &BTreeMap<&str, &PathBuf>) {
    let Some(sources) = document.get_mut("patch").and_then(Item::as_table_like_mut) else {
        return;
    };
    for (_, table) in sources.iter_mut() {
        let Some(table) = table.as_table_like_mut() else {
            continue;
        };
        let gone: Vec<String> = table
            .iter()
            .filter(|(key, item)| {
                replaced.contains_key(item.get("package").and_then(Item::as_str).unwrap_or(key))
            })
            .map(|(key, _)| key.to_owned())
            .collect();
        for key in gone {
            table.remove(&key);
        }
    }
}

/// Takes folders out of `members` and `default-members`; `exclude` keeps globs from finding them again.
fn leave_members(document: &mut DocumentMut, workspace: &str, leaving: &BTreeSet<&String>) {
    let Some(table) = document
        .get_mut("workspace")
        .and_then(Item::as_table_like_mut)
    else {
        return;
    };
    let below: Vec<String> = leaving
        .iter()
        .filter_map(|folder| {
            if workspace == "." {
                Some((**folder).clone())
            } else {
                folder
                    .strip_prefix(&format!("{workspace}/"))
                    .map(str::to_owned)
            }
        })
        .filter(|folder| folder != ".")
        .collect();
    if below.is_empty() {
        return;
    }
    for key in ["members", "default-members"] {
        if let Some(list) = table.get_mut(key).and_then(Item::as_array_mut) {
            list.retain(|entry| {
                !entry.as_str().is_some_and(|entry| {
                    below
                        .iter()
                        .any(|folder| normalize(Path::new(entry)) == Path::new(folder))
                })
            });
        }
    }
    let excluded = table
        .entry("exclude")
        .or_insert_with(|| Item::Value(Value::Array(Array::new())));
    if let Some(list) = excluded.as_array_mut() {
        for folder in below {
            list.push(folder);
        }
    }
}

/// Puts one feature in place of its rivals; gives back the first of those.
fn choose(list: &mut Array, prefix: &str, chosen: &str) -> Option<String> {
    let rivals: Vec<String> = list
        .iter()
        .filter_map(Value::as_str)
        .filter(|name| name.starts_with(prefix) && *name != chosen)
        .map(str::to_owned)
        .collect();
    let first = rivals.first()?.clone();
    list.retain(|entry| {
        !entry
            .as_str()
            .is_some_and(|name| rivals.iter().any(|rival| rival == name))
    });
    if !list.iter().any(|entry| entry.as_str() == Some(chosen)) {
        list.push(chosen);
    }
    Some(first)
}

/// Whether anything in the manifest says `workspace = true`.
fn inherits(item: &Item) -> bool {
    item.as_table_like().is_some_and(|table| {
        table.get("workspace").and_then(Item::as_bool) == Some(true)
            || table.iter().any(|(_, item)| inherits(item))
    })
}

/// The one feature with this prefix that the manifest at `directory` asks of `package`, inherited or not.
pub fn chosen_feature(directory: &Path, package: &str, prefix: &str) -> Option<String> {
    let find = |path: PathBuf| {
        let mut document: DocumentMut = fs::read_to_string(path).ok()?.parse().ok()?;
        let mut found = None;
        each_dependency(&mut document, &mut |name, dependency| {
            if name == package && found.is_none() {
                let list = dependency.get("features").and_then(Item::as_array);
                found = list.and_then(|list| {
                    list.iter()
                        .filter_map(Value::as_str)
                        .find(|feature| feature.starts_with(prefix))
                        .map(str::to_owned)
                });
            }
        });
        found
    };
    directory
        .ancestors()
        .map(|folder| folder.join("Cargo.toml"))
        .find_map(find)
}
