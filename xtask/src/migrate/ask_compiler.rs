//! `--verify`: what the migrations say about the copy that is compiled, and the rounds of planning and compiling.

use std::fs;
use std::path::{Path, PathBuf};

use codemod::plan::Plan;
use codemod::record::{Record, RecordKind};
use codemod::report::VERIFY_RULE;
use codemod::verify::manifest::chosen_feature;
use codemod::verify::{
    self, Evidence, ExclusiveFeature, Replacement, Substitutions, Verifier, VerifyError, VerifySpec,
};
use codemod::walk::Tree;
use serde::Deserialize;

use super::Session;
use crate::catalog::Migration;
use crate::failure::Failure;
use crate::progress::Progress;

/// More rounds than that are no progress: each has to settle a site, and few depend on one another.
const MOST_ROUNDS: usize = 8;

/// Of a `migration.toml`, what is read here.
#[derive(Debug, Deserialize)]
struct Header {
    #[serde(default)]
    verify: VerifySpec,
}

/// Compiles what the plan makes of the tree, plans again with what that proves, until nothing changes; what is left to say
/// goes into the plan's records.
pub fn verify(
    session: &Session<'_>,
    tree: &Tree,
    plan: &mut Plan,
    progress: &Progress,
) -> Result<(), Failure> {
    let substitutions = substitutions(session.migrations, session.arguments.crates.as_deref())?;
    let home = super::scratch_home(session.root);
    let fail = |error: VerifyError| {
        Failure::new(format!("{error}; nothing was written"))
            .hint("without `--verify` the compiler is not asked")
    };
    progress.say("compiling the tree as it is");
    let say = |crate_name: &str| progress.say(format!("compiling {crate_name}"));
    let mut verifier = Verifier::new(session.root, &home, substitutions, &say).map_err(fail)?;
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut was_asked = true;
    let left = loop {
        progress.say("compiling the result");
        let diagnostics = match verifier.check(&plan.changes, &say) {
            Ok(diagnostics) => diagnostics,
            // The network, or a dependency: no word against the result, but none for it either.
            Err(error @ VerifyError::Cargo { .. }) => {
                plan.records.push(about_manifest(
                    RecordKind::Unresolved,
                    "Cargo.toml",
                    format!("the compiler could not be asked about the result: {error}"),
                    Some("run `--verify` again where the dependencies can be had, or `cargo check` once they are in place"),
                ));
                was_asked = false;
                break Vec::new();
            }
            Err(error) => return Err(fail(error)),
        };
        if diagnostics.is_empty() || evidence.len() == MOST_ROUNDS {
            break diagnostics;
        }
        evidence.push(Evidence {
            changes: plan.changes.clone(),
            diagnostics: diagnostics.clone(),
        });
        let next = session.planner.plan(tree, &evidence, progress)?;
        if next.changes == plan.changes {
            break diagnostics;
        }
        *plan = next;
    };
    let content = |path: &str| fs::read(session.root.join(path)).ok();
    let found = verify::records(&plan.changes, &plan.records, &left, content);
    plan.records.extend(found);
    plan.records.extend(notes(&verifier));
    if was_asked && left.is_empty() && verifier.still_broken().is_empty() {
        let reason =
            "the result compiles, without an error and without a warning that was not there";
        plan.records.push(about_manifest(
            RecordKind::Note,
            "Cargo.toml",
            reason.to_owned(),
            None,
        ));
    }
    super::tidy(plan);
    Ok(())
}

fn notes(verifier: &Verifier) -> Vec<Record> {
    let note = |file: &str, reason: String| about_manifest(RecordKind::Note, file, reason, None);
    let mut notes: Vec<Record> = verifier
        .replaced()
        .iter()
        .map(|(file, reason)| note(file, reason.clone()))
        .collect();
    let before = verifier.before();
    if let Some(missing) = &before.missing {
        let reason = format!(
            "the tree could not be compiled as it was, so that old faults cannot be told from new ones: {missing}"
        );
        notes.push(note("Cargo.toml", reason));
    }
    for package in &before.broken {
        let file = if package == "." {
            "Cargo.toml".to_owned()
        } else {
            format!("{package}/Cargo.toml")
        };
        let reason = if verifier.still_broken().contains(package) {
            "the package did not compile before the migration, so the compiler does not judge it"
        } else {
            "the package did not compile before the migration, and does now"
        };
        notes.push(note(&file, reason.to_owned()));
    }
    notes
}

fn about_manifest(
    kind: RecordKind,
    file: &str,
    reason: String,
    suggestion: Option<&str>,
) -> Record {
    Record {
        suggestion: suggestion.map(str::to_owned),
        ..Record::about_file(kind, VERIFY_RULE, file, reason)
    }
}

/// What the migrations want the copy to take from elsewhere.
fn substitutions(
    migrations: &[&Migration],
    crates: Option<&Path>,
) -> Result<Substitutions, Failure> {
    let mut substitutions = Substitutions::default();
    for migration in migrations {
        let header: Header = toml::from_str(&migration.text).map_err(|error| {
            Failure::new(format!(
                "cannot read `[verify]` of the migration `{}`",
                migration.id
            ))
            .details([error.to_string().trim_end().to_owned()])
        })?;
        let table = header.verify;
        if table.replace.is_empty()
            && table.replace_unless_own.is_empty()
            && table.exclusive_features.is_empty()
        {
            continue;
        }
        let crates = match crates {
            Some(crates) => crates.to_path_buf(),
            None => crate::repository()?,
        };
        let named = table.replace.iter().map(|package| (package, false)).chain(
            table
                .replace_unless_own
                .iter()
                .map(|package| (package, true)),
        );
        for (package, own_stays) in named {
            let directory = directory_of(&crates, package)?;
            substitutions.replacements.push(Replacement {
                package: package.clone(),
                directory,
                own_stays,
            });
        }
        for family in table.exclusive_features {
            let mut directories = substitutions
                .replacements
                .iter()
                .map(|replacement| &replacement.directory);
            if let Some(chosen) = directories
                .find_map(|directory| chosen_feature(directory, &family.package, &family.prefix))
            {
                substitutions.features.push(ExclusiveFeature {
                    package: family.package,
                    prefix: family.prefix,
                    chosen,
                });
            }
        }
    }
    Ok(substitutions)
}

/// The package's folder: named like the package, in the folder given or in its `crates`.
fn directory_of(crates: &Path, package: &str) -> Result<PathBuf, Failure> {
    let candidates = [crates.join("crates").join(package), crates.join(package)];
    let found = candidates
        .iter()
        .find(|directory| directory.join("Cargo.toml").is_file());
    let found = found.ok_or_else(|| {
        Failure::new(format!(
            "the new `{package}` is neither `{}` nor `{}`",
            candidates[0].display(),
            candidates[1].display()
        ))
        .hint("name the folder that holds the new crates with `--crates DIR`")
    })?;
    fs::canonicalize(found)
        .map_err(|error| Failure::new(format!("cannot find `{}`: {error}", found.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_names_what_is_replaced() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let lay_out = |package: &str, text: &str| {
            let folder = dir.path().join("crates").join(package);
            fs::create_dir_all(&folder).expect("folder");
            fs::write(folder.join("Cargo.toml"), text).expect("file");
        };
        lay_out(
            "parts",
            "[package]\nname = \"parts\"\n[dependencies]\ngpu.workspace = true\n",
        );
        fs::write(dir.path().join("Cargo.toml"), "[workspace.dependencies]\ngpu = { version = \"1\", features = [\"driver\", \"cuda-13\"] }\n").expect("file");
        let text = "title = \"x\"\n[verify]\nreplace = [\"parts\"]\nexclusive_features = [{ package = \"gpu\", prefix = \"cuda-\" }]\n";
        let migration = Migration {
            id: "x".into(),
            text: text.into(),
            guide: "".into(),
        };
        let found = substitutions(&[&migration], Some(dir.path())).expect("all is there");
        assert_eq!(found.replacements.len(), 1);
        assert!(
            found.replacements[0].directory.ends_with("crates/parts")
                && !found.replacements[0].own_stays
        );
        assert_eq!(
            found.features,
            [ExclusiveFeature {
                package: "gpu".into(),
                prefix: "cuda-".into(),
                chosen: "cuda-13".into()
            }]
        );

        let missing = Migration {
            text: text.replace("parts", "pieces").into(),
            ..migration
        };
        let error = substitutions(&[&missing], Some(dir.path()))
            .expect_err("not there")
            .to_string();
        assert!(
            error.contains("the new `pieces` is neither") && error.contains("--crates DIR"),
            "{error}"
        );
    }
}
