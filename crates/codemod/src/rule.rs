//! `migration.toml` to typed rules.
//!
//! A rule names items by canonical path, `crate::module::Item`, with the package's name as code writes it. Each table of
//! the file is one kind of rule; [`KINDS`] lists them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::world::Surface;

/// Every kind of rule: its table in `migration.toml`, and what it does.
pub const KINDS: &[(&str, &str)] = &[
    (
        "delete_module",
        "deletes a module: its file, its `mod` item, and every import of what it held",
    ),
    (
        "keep_module",
        "leaves a module untouched, even where it names what is retired",
    ),
    (
        "retire_enum",
        "replaces an enum by what one of its variants holds",
    ),
    (
        "retire_wrapper",
        "replaces a struct by what one of its fields holds",
    ),
    (
        "bracket_calls",
        "brackets calls in a method by a pair of calls on a field that it adds",
    ),
    (
        "rename_item",
        "gives a module, type, trait or function of a dependency its new name or place",
    ),
    (
        "rename_methods",
        "gives methods and associated functions of a type or trait their new names",
    ),
    (
        "move_methods",
        "imports the traits that methods of another one went to",
    ),
    (
        "now_fallible",
        "unwraps what a function returns as a `Result` by now, and returns one where it is implemented",
    ),
    (
        "now_infallible",
        "drops the unwrapping of what is no `Result` any more",
    ),
    (
        "drop_method",
        "deletes the implementation of a method that its trait has no more, where it only forwards",
    ),
    (
        "recast",
        "writes a type argument that is not taken any more as another one, and casts back",
    ),
    (
        "wrap_value",
        "wraps a value that lost a trait, where a method of that trait is called on it",
    ),
    (
        "gone",
        "reports the use of an item or a method that nothing takes the place of",
    ),
    (
        "upgrade_dependency",
        "raises a version requirement, and follows renamed features, in every manifest",
    ),
];

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    pub id: String,
    pub title: String,
    /// Runs when no migration is named.
    #[serde(default)]
    pub default: bool,
    /// Packages and the items of theirs that inference has to know, old and new; Rust, bodies ignored.
    #[serde(default)]
    pub surface: Vec<SurfaceSpec>,
    #[serde(default)]
    pub delete_module: Vec<DeleteModule>,
    #[serde(default)]
    pub keep_module: Vec<KeepModule>,
    #[serde(default)]
    pub retire_enum: Vec<RetireEnum>,
    #[serde(default)]
    pub retire_wrapper: Vec<RetireWrapper>,
    #[serde(default)]
    pub bracket_calls: Vec<BracketCalls>,
    #[serde(default)]
    pub rename_item: Vec<RenameItem>,
    #[serde(default)]
    pub rename_methods: Vec<RenameMethods>,
    #[serde(default)]
    pub move_methods: Vec<MoveMethods>,
    #[serde(default)]
    pub now_fallible: Vec<NowFallible>,
    #[serde(default)]
    pub now_infallible: Vec<NowInfallible>,
    #[serde(default)]
    pub drop_method: Vec<DropMethod>,
    #[serde(default)]
    pub recast: Vec<Recast>,
    #[serde(default)]
    pub wrap_value: Vec<WrapValue>,
    #[serde(default)]
    pub gone: Vec<Gone>,
    #[serde(default)]
    pub upgrade_dependency: Vec<UpgradeDependency>,
    /// Names that nobody else uses: where a receiver's type cannot be told, a use of one is reported.
    #[serde(default)]
    pub distinctive: Vec<String>,
    /// Words by which comments speak of what is gone: one above code that lost a branch is named, for a person to read.
    #[serde(default)]
    pub terms: Vec<String>,
    /// What a check of the result takes from the new crates.
    #[serde(default)]
    pub verify: crate::verify::VerifySpec,
    /// What to write in place of a deleted item, for reports.
    #[serde(default)]
    pub suggest: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SurfaceSpec {
    pub package: String,
    pub items: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteModule {
    pub rule: String,
    pub package: String,
    /// Below the crate's root: `replay_buffer`, `a::b`.
    pub module: String,
    pub why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepModule {
    pub package: String,
    pub module: String,
    pub why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetireEnum {
    pub rule: String,
    #[serde(rename = "type")]
    pub ty: String,
    pub becomes: String,
    /// The variant whose payload stays.
    pub survivor: String,
    /// Associated functions that only wrap: `Type::from(e)` is `e`.
    #[serde(default)]
    pub unwrap: Vec<String>,
    /// Associated functions that the new type has under another name.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// Methods that always give the same answer now.
    #[serde(default)]
    pub always: BTreeMap<String, bool>,
    /// Methods that give `Some` of the receiver: by `ref`, `mut` or `move`.
    #[serde(default)]
    pub some: BTreeMap<String, Borrow>,
    /// Functions, methods without a counterpart, and what to write instead.
    #[serde(default)]
    pub gone: BTreeMap<String, String>,
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Borrow {
    Ref,
    Mut,
    Move,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetireWrapper {
    pub rule: String,
    #[serde(rename = "type")]
    pub ty: String,
    pub becomes: String,
    /// The field that holds `Some` of what stays.
    pub payload: String,
    #[serde(default)]
    pub unwrap: Vec<String>,
    #[serde(default)]
    pub always: BTreeMap<String, bool>,
    /// Fields, functions and methods without a counterpart, and what to write instead.
    #[serde(default)]
    pub gone: BTreeMap<String, String>,
    pub why: String,
}

/// Brackets around calls: a field that is added to a struct, and `start`/`end` calls on it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BracketCalls {
    pub rule: String,
    /// Name of the struct, in any crate of the tree.
    #[serde(rename = "struct")]
    pub structure: String,
    pub method: String,
    /// The field, its type and how it is made.
    pub field: String,
    pub field_type: String,
    /// Where the type and the phases are imported from: the first crate that the package depends on.
    pub import_from: Vec<String>,
    /// The enum of phases.
    pub phase_type: String,
    /// Constructor on the type, given a reference to the stream.
    pub constructor: String,
    /// Last segment of the type that the brackets need one of, as a field.
    pub stream_type: String,
    /// Accessor for the field.
    pub accessor: String,
    /// What it is, where a crate asks for documentation of all that is public.
    #[serde(default)]
    pub accessor_doc: Option<String>,
    /// The pair of methods on the field's type that brackets consist of.
    pub start: String,
    pub end: String,
    /// A method that brackets what follows it, until what it returns is dropped.
    #[serde(default)]
    pub scope: Option<String>,
    /// Traits that the field's type implements: a derive of any other is broken by the field.
    #[serde(default)]
    pub derives: Vec<String>,
    #[serde(default)]
    pub phases: Vec<PhaseRule>,
    /// Calls in a caller of the method that get the field as a further argument.
    pub profiled: Vec<ProfiledCall>,
    /// Called on the field after the stream's own synchronize that follows the loop.
    pub finish: String,
    pub synchronize: String,
    pub why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRule {
    pub phase: String,
    /// Methods whose calls belong to the phase.
    pub calls: Vec<String>,
    /// Type whose methods they are, by canonical path; none: the struct itself.
    #[serde(default)]
    pub receiver: Option<String>,
    /// The stream to bracket on, as an accessor on the receiver of the call; none: the struct's own.
    #[serde(default)]
    pub stream_of_receiver: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledCall {
    /// Type whose method it is, by canonical path.
    pub receiver: String,
    pub method: String,
    pub becomes: String,
    /// Accessor on the receiver that comes in between: `agent.sample(n)` is `agent.memory().sample_profiled(n, …)`.
    #[serde(default)]
    pub through: Option<String>,
}

/// An item of a dependency that has another name, or stands in another module.
///
/// Written at paths and in imports; an import that a macro's tokens still name, or whose new name is taken, becomes
/// `new as old`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameItem {
    pub rule: String,
    /// A module, type, trait or function, by canonical path.
    pub item: String,
    pub becomes: String,
    /// Variants of an enum that have other names now.
    #[serde(default)]
    pub variants: BTreeMap<String, String>,
    /// Modules that do not re-export it any more.
    #[serde(default)]
    pub left: Vec<String>,
    pub why: String,
}

/// Methods and associated functions with new names, the meaning the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenameMethods {
    pub rule: String,
    /// The type or trait that they belong to, by canonical path.
    pub owner: String,
    pub methods: BTreeMap<String, String>,
    /// Packages elsewhere with methods of these names: beside one of them, a receiver of unknown type is reported.
    #[serde(default)]
    pub namesakes: Vec<String>,
    pub why: String,
}

/// Methods that another trait has now, under the same names: that trait has to be imported.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveMethods {
    pub rule: String,
    pub owner: String,
    /// Method to the trait that has it now, by canonical path.
    pub methods: BTreeMap<String, String>,
    pub why: String,
}

/// Functions that return `Result<T, error>` where they returned `T`, and panicked.
///
/// A call is unwrapped, which panics where it did before. An implementation of such a function of a trait returns `Ok`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NowFallible {
    pub rule: String,
    /// The type or trait, by canonical path.
    pub owner: String,
    pub functions: Vec<String>,
    /// Those that have another name as well.
    #[serde(default)]
    pub renamed: BTreeMap<String, String>,
    /// The error, by canonical path.
    pub error: String,
    pub why: String,
}

/// A function that returns `T` where it returned `Result<T, _>`, and may take its argument by `&mut` now.
///
/// `f(x).unwrap()` is `f(&mut x)`, and wherever else the `Result` is wanted stands `otherwise`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NowInfallible {
    pub rule: String,
    pub owner: String,
    pub function: String,
    /// The function that still returns a `Result`.
    pub otherwise: String,
    #[serde(default)]
    pub by_mut: bool,
    pub hint: String,
    pub why: String,
}

/// A required method that its trait has no more.
///
/// An implementation goes if it only forwards to what stays: a call of `forwards_to` on `self`, or of itself on a part of
/// `self` whose `forwards_to` the same implementation calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropMethod {
    pub rule: String,
    pub owner: String,
    pub method: String,
    pub forwards_to: String,
    pub hint: String,
    pub why: String,
}

/// Types that calls cannot be asked for any more: `f::<usize>()` is `f::<u64>() as usize`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recast {
    pub rule: String,
    /// Functions and methods with one type argument, by canonical path; of a method, below its type or trait.
    pub functions: Vec<String>,
    /// Primitive type to the one that is asked for instead.
    pub types: BTreeMap<String, String>,
    pub why: String,
}

/// A unit struct that has a trait no more, and a method that gives something that has it.
///
/// `Value.f()` is `Value.method().f()` where `f` is a method of the lost traits; the value passed on is reported.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrapValue {
    pub rule: String,
    /// The struct, by canonical path.
    pub value: String,
    /// The traits that it lost.
    pub lost: Vec<String>,
    /// The method, and the trait that has it.
    pub method: String,
    pub import: String,
    pub hint: String,
    pub why: String,
}

/// An item, or a method of one, without a successor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    pub rule: String,
    /// By canonical path.
    pub item: String,
    /// A method of it; the item itself stays then.
    #[serde(default)]
    pub method: Option<String>,
    pub hint: String,
    pub why: String,
}

/// A dependency that moves to another version.
///
/// Code of a package whose requirement is neither of the two is not ours. Where calls change their meaning, and not only
/// their names, only code written against `from` is touched.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpgradeDependency {
    pub rule: String,
    pub package: String,
    /// `0.8`: every requirement that asks for a version of that line, and of no other.
    pub from: String,
    /// What is written in its place.
    pub to: String,
    /// Features with new names.
    #[serde(default)]
    pub features: BTreeMap<String, String>,
    /// Features that are nothing of their own any more.
    #[serde(default)]
    pub gone_features: Vec<String>,
    /// Features that others brought with them, and do no more.
    #[serde(default)]
    pub implied: Vec<ImpliedFeatures>,
    pub why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpliedFeatures {
    pub when: Vec<String>,
    pub add: Vec<String>,
}

/// Why a `migration.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    #[error("migration `{id}`: {source}")]
    Syntax {
        id: String,
        source: Box<toml::de::Error>,
    },
    #[error("migration `{id}`: surface of `{package}` is not Rust: {message}")]
    Surface {
        id: String,
        package: String,
        message: String,
    },
    #[error("migration `{id}`: rule `{rule}` names `{path}`, which no surface declares")]
    UnknownItem {
        id: String,
        rule: String,
        path: String,
    },
}

impl Migration {
    /// Reads a migration.
    ///
    /// # Errors
    /// A syntax error, an unknown key, or a surface that is not Rust.
    pub fn parse(id: &str, text: &str) -> Result<Migration, RuleError> {
        let migration: Migration = toml::from_str(text).map_err(|err| RuleError::Syntax {
            id: id.to_owned(),
            source: Box::new(err),
        })?;
        for surface in &migration.surface {
            crate::syntax::parse(&surface.items).map_err(|err| RuleError::Surface {
                id: id.to_owned(),
                package: surface.package.clone(),
                message: err.to_string(),
            })?;
        }
        Ok(migration)
    }

    pub fn surfaces(&self) -> Vec<Surface> {
        self.surface
            .iter()
            .map(|spec| Surface {
                package: spec.package.clone(),
                text: spec.items.clone(),
            })
            .collect()
    }

    /// Names of items that get another: few others will have chosen them.
    pub fn names_of_items(&self) -> impl Iterator<Item = String> {
        let enums = self.retire_enum.iter().map(|rule| &rule.ty);
        let wrappers = self.retire_wrapper.iter().map(|rule| &rule.ty);
        let renamed = self.rename_item.iter().map(|rule| &rule.item);
        let last = |path: &String| path.rsplit("::").next().unwrap_or(path).to_owned();
        enums.chain(wrappers).chain(renamed).map(last)
    }

    /// Names that a file has to hold for any rule to concern it, for the search over raw bytes.
    pub fn needles(&self) -> Vec<String> {
        let mut needles: Vec<String> = Vec::new();
        let last = |path: &str| path.rsplit("::").next().unwrap_or(path).to_owned();
        for rule in &self.retire_enum {
            needles.push(last(&rule.ty));
            // Through an alias of the enum, a variant's name is all there is.
            needles.extend(self.variants(&last(&rule.ty)));
            needles.extend(
                rule.some
                    .keys()
                    .chain(rule.always.keys())
                    .chain(rule.gone.keys())
                    .cloned(),
            );
        }
        for rule in &self.retire_wrapper {
            needles.push(last(&rule.ty));
            needles.push(rule.payload.clone());
            needles.extend(rule.gone.keys().cloned());
        }
        for rule in &self.delete_module {
            needles.push(last(&rule.module));
        }
        for rule in &self.bracket_calls {
            needles.push(rule.structure.clone());
            needles.push(rule.method.clone());
        }
        for rule in &self.rename_item {
            needles.push(last(&rule.item));
        }
        for rule in &self.rename_methods {
            needles.extend(rule.methods.keys().cloned());
        }
        for rule in &self.move_methods {
            needles.push(last(&rule.owner));
        }
        for rule in &self.now_fallible {
            needles.push(last(&rule.owner));
        }
        for rule in &self.now_infallible {
            needles.push(rule.function.clone());
        }
        for rule in &self.drop_method {
            needles.push(rule.method.clone());
        }
        for rule in &self.recast {
            needles.extend(rule.functions.iter().map(|path| last(path)));
        }
        for rule in &self.wrap_value {
            needles.push(last(&rule.value));
        }
        for rule in &self.gone {
            needles.push(rule.method.clone().unwrap_or_else(|| last(&rule.item)));
        }
        needles.extend(self.suggest.keys().cloned());
        needles.extend(self.distinctive.iter().cloned());
        needles.sort();
        needles.dedup();
        needles
    }

    /// Names of the variants of an enum that a surface declares.
    fn variants(&self, name: &str) -> Vec<String> {
        fn find(items: &[crate::syntax::Item], name: &str, out: &mut Vec<String>) {
            for item in items {
                match &item.kind {
                    crate::syntax::ItemKind::Mod(it) => {
                        find(it.items.as_deref().unwrap_or(&[]), name, out)
                    }
                    crate::syntax::ItemKind::Enum(it)
                        if item.name.as_ref().is_some_and(|n| n.text == name) =>
                    {
                        out.extend(it.variants.iter().map(|variant| variant.name.text.clone()));
                    }
                    _ => {}
                }
            }
        }
        let mut out = Vec::new();
        for surface in &self.surface {
            if let Ok(file) = crate::syntax::parse(&surface.items) {
                find(&file.items, name, &mut out);
            }
        }
        out
    }

    /// Every rule's name with the reason that it gives.
    pub fn rules(&self) -> Vec<(&str, &str)> {
        let mut rules: Vec<(&str, &str)> = Vec::new();
        macro_rules! of {
            ($($kind:ident),+) => {
                $(rules.extend(self.$kind.iter().map(|rule| (rule.rule.as_str(), rule.why.as_str())));)+
            };
        }
        of!(
            delete_module,
            retire_enum,
            retire_wrapper,
            bracket_calls,
            rename_item,
            rename_methods,
            move_methods,
            now_fallible,
            now_infallible,
            drop_method,
            recast,
            wrap_value,
            gone,
            upgrade_dependency
        );
        rules.dedup();
        rules
    }
}
