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
    /// Names that nobody else uses: where a receiver's type cannot be told, a use of one is reported.
    #[serde(default)]
    pub distinctive: Vec<String>,
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
        rules.extend(
            self.delete_module
                .iter()
                .map(|rule| (rule.rule.as_str(), rule.why.as_str())),
        );
        rules.extend(
            self.retire_enum
                .iter()
                .map(|rule| (rule.rule.as_str(), rule.why.as_str())),
        );
        rules.extend(
            self.retire_wrapper
                .iter()
                .map(|rule| (rule.rule.as_str(), rule.why.as_str())),
        );
        rules.extend(
            self.bracket_calls
                .iter()
                .map(|rule| (rule.rule.as_str(), rule.why.as_str())),
        );
        rules.dedup();
        rules
    }
}
