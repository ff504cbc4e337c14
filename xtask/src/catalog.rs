//! The migrations there are, what `--list` prints of them and what `--explain` says of their rules.
//!
//! The text of a migration is its own documentation: the comments above a rule say why it is right. So `--explain` prints
//! that text, and nothing is told twice.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// A migration that was built in.
#[derive(Debug)]
struct Embedded {
    id: &'static str,
    toml: &'static str,
    guide: &'static str,
}

/// Sorted by id; made by `build.rs` from the folder `migrations`.
const EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// What the engine reports on its own, whatever the migration.
const OF_THE_ENGINE: &[(&str, &str)] = &[
    (
        "verify",
        "`--verify` compiles the result against the new crates. What the compiler says at a site of the report is shown there; an\n\
         error anywhere else is a site of its own. A package that did not compile before is not judged.",
    ),
    (
        "comments",
        "Nobody's sentences are rewritten. A comment above what changed that has a name which is gone, and one above what lost a\n\
         branch, or with a link that has a new name, that has one of the migration's `terms`, is named: it may be false now.",
    ),
];

/// A migration as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Name of its folder.
    pub id: String,
    /// `migration.toml`.
    pub text: Cow<'static, str>,
    /// `GUIDE.md`; empty where there is none.
    pub guide: Cow<'static, str>,
}

/// All migrations, sorted by id: those built in, or those in the folders of `directory`.
pub fn read(directory: Option<&Path>) -> Result<Vec<Migration>, Failure> {
    let Some(directory) = directory else {
        return Ok(EMBEDDED
            .iter()
            .map(|embedded| Migration {
                id: embedded.id.to_owned(),
                text: embedded.toml.into(),
                guide: embedded.guide.into(),
            })
            .collect());
    };
    let fail = |path: &Path, error: std::io::Error| {
        Failure::new(format!("cannot read `{}`: {error}", path.display()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| fail(directory, error))? {
        let folder = entry.map_err(|error| fail(directory, error))?.path();
        let path = folder.join("migration.toml");
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| fail(&path, error))?;
        let guide = folder.join("GUIDE.md");
        let guide = if guide.is_file() {
            fs::read_to_string(&guide).map_err(|error| fail(&guide, error))?
        } else {
            String::new()
        };
        let id = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        found.push(Migration {
            id,
            text: text.into(),
            guide: guide.into(),
        });
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    if found.is_empty() {
        return Err(Failure::new(format!(
            "no folder in `{}` holds a `migration.toml`",
            directory.display()
        ))
        .hint("`--migrations` names the folder that holds the migrations' folders"));
    }
    Ok(found)
}

/// Those that were asked for, or those that run by default.
pub fn select<'m>(all: &'m [Migration], ids: &[String]) -> Result<Vec<&'m Migration>, Failure> {
    if ids.is_empty() {
        let mut selected = Vec::new();
        for migration in all {
            if migration.runs_by_default()? {
                selected.push(migration);
            }
        }
        if selected.is_empty() {
            return Err(Failure::new("no migration runs by default")
                .details(ids_of(all))
                .hint("name one of them"));
        }
        return Ok(selected);
    }
    let mut selected: Vec<&Migration> = Vec::new();
    for id in ids {
        let found = all.iter().find(|migration| migration.id == *id);
        let found = found.ok_or_else(|| {
            Failure::new(format!("there is no migration `{id}`"))
                .details(ids_of(all))
                .hint("`--list` tells of each what it does")
        })?;
        if !selected.contains(&found) {
            selected.push(found);
        }
    }
    Ok(selected)
}

fn ids_of(all: &[Migration]) -> Vec<String> {
    all.iter().map(|migration| migration.id.clone()).collect()
}

/// A line for each migration.
pub fn list(all: &[Migration]) -> Result<String, Failure> {
    let width = all
        .iter()
        .map(|migration| migration.id.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for migration in all {
        let by_default = if migration.runs_by_default()? {
            "default"
        } else {
            ""
        };
        let line = format!(
            "{:width$}  {by_default:7}  {}",
            migration.id,
            migration.title()?
        );
        writeln!(text, "{}", line.trim_end()).expect("writing to a string");
    }
    Ok(text)
}

/// What is written about a rule, or the guide of a migration.
pub fn explain(all: &[Migration], name: &str) -> Result<String, Failure> {
    if let Some(migration) = all.iter().find(|migration| migration.id == name) {
        return if migration.guide.is_empty() {
            Err(Failure::new(format!(
                "the migration `{name}` has no `GUIDE.md`"
            )))
        } else {
            Ok(migration.guide.clone().into_owned())
        };
    }
    let mut text = String::new();
    for migration in all {
        let found: Vec<&str> = rules(&migration.text)
            .into_iter()
            .filter(|rule| rule.name == name)
            .map(|rule| rule.text)
            .collect();
        if !found.is_empty() {
            writeln!(
                text,
                "`{name}`, a rule of {}\n\n{}",
                migration.id,
                found.join("\n\n")
            )
            .expect("writing to a string");
        }
    }
    if let Some((_, what)) = OF_THE_ENGINE.iter().find(|(rule, _)| *rule == name) {
        writeln!(text, "`{name}`, in every migration\n\n{what}").expect("writing to a string");
    }
    if text.is_empty() {
        let mut names: Vec<String> = all
            .iter()
            .flat_map(|migration| rules(&migration.text))
            .map(|rule| rule.name)
            .collect();
        names.extend(OF_THE_ENGINE.iter().map(|(name, _)| (*name).to_owned()));
        names.sort();
        names.dedup();
        return Err(Failure::new(format!("there is no rule `{name}`"))
            .details(names)
            .hint("name one of these, or a migration for its guide"));
    }
    Ok(text)
}

impl Migration {
    fn header(&self, key: &str) -> Result<Option<toml::Value>, Failure> {
        let table: toml::Table = self.text.parse().map_err(|error: toml::de::Error| {
            Failure::new(format!("cannot read the migration `{}`", self.id))
                .details([error.to_string().trim_end().to_owned()])
        })?;
        Ok(table.get(key).cloned())
    }

    fn title(&self) -> Result<String, Failure> {
        Ok(self
            .header("title")?
            .and_then(|title| title.as_str().map(str::to_owned))
            .unwrap_or_default())
    }

    fn runs_by_default(&self) -> Result<bool, Failure> {
        Ok(self
            .header("default")?
            .and_then(|value| value.as_bool())
            .unwrap_or(false))
    }
}

/// A rule as it is written, with the comment above it.
struct Rule<'t> {
    name: String,
    text: &'t str,
}

/// Entries of arrays of tables that have a `rule`, each with the tables that belong to it.
fn rules(text: &str) -> Vec<Rule<'_>> {
    let mut found = Vec::new();
    // Where the entry begins, its array, and its name once that was read.
    let mut entry: Option<(usize, &str, Option<String>)> = None;
    let mut comment = None;
    let mut in_text = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let was_in_text = in_text;
        // A text over several lines may hold what looks like a table or a comment.
        in_text ^= (trimmed.matches("'''").count() + trimmed.matches("\"\"\"").count()) % 2 == 1;
        if !was_in_text {
            if trimmed.starts_with('#') {
                comment.get_or_insert(at);
            } else {
                if trimmed.starts_with('[') {
                    let header = trimmed.trim_matches(['[', ']']);
                    let belongs = entry.as_ref().is_some_and(|(_, array, _)| {
                        header
                            .strip_prefix(array)
                            .is_some_and(|rest| rest.starts_with('.'))
                    });
                    if !belongs {
                        let start = comment.unwrap_or(at);
                        found.extend(entry.take().and_then(|entry| finished(text, entry, start)));
                        entry = trimmed.starts_with("[[").then_some((start, header, None));
                    }
                } else if let Some((_, _, name @ None)) = &mut entry {
                    *name = rule_name(trimmed);
                }
                comment = None;
            }
        }
        at += line.len();
    }
    found.extend(entry.and_then(|entry| finished(text, entry, text.len())));
    found
}

fn rule_name(line: &str) -> Option<String> {
    let value = line
        .strip_prefix("rule")?
        .trim_start()
        .strip_prefix('=')?
        .trim();
    Some(value.strip_prefix('"')?.split('"').next()?.to_owned())
}

fn finished<'t>(
    text: &'t str,
    (start, _, name): (usize, &str, Option<String>),
    end: usize,
) -> Option<Rule<'t>> {
    let mut text = &text[start..end];
    // A heading for what follows stands apart from it, at the end of what is here.
    while let Some(last) = text.trim_end().lines().next_back()
        && last.trim_start().starts_with('#')
    {
        text = &text[..text.trim_end().len() - last.len()];
    }
    Some(Rule {
        name: name?,
        text: text.trim_end(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# About it all.\nid = \"x\"\ntitle = \"Retires the old\"\ndefault = true\n\n# --- goes ---\n\n# Why it is\n# right.\n\
        [[delete]]\nrule = \"first\"\nmodule = \"a\"\n\n[[delete]]\nmodule = \"b\"\nrule = \"first\"\n\n# --- stays ---\n\n\
        [[retire]]\nrule = \"second\"\n\n[retire.gone]\nrule = \"not a name\"\n\n\
        [[surface]]\nitems = '''\n#[derive(Debug)]\n[[odd]]\nrule = \"none\"\n'''\n";

    fn two() -> Vec<Migration> {
        vec![
            Migration {
                id: "2026-01-02-old".into(),
                text: TEXT.into(),
                guide: "# Guide\n".into(),
            },
            Migration {
                id: "rand-9".into(),
                text: "title = \"Bumps\"\n".into(),
                guide: "".into(),
            },
        ]
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_line_each() {
        assert_eq!(
            list(&two()).expect("lists"),
            "2026-01-02-old  default  Retires the old\nrand-9                   Bumps\n"
        );
    }

    #[test]
    fn rules_come_with_their_comments() {
        let all = two();
        assert_eq!(
            explain(&all, "first").expect("is there"),
            "`first`, a rule of 2026-01-02-old\n\n# Why it is\n# right.\n[[delete]]\nrule = \"first\"\nmodule = \"a\"\n\n\
             [[delete]]\nmodule = \"b\"\nrule = \"first\"\n"
        );
        assert_eq!(
            explain(&all, "second").expect("is there"),
            "`second`, a rule of 2026-01-02-old\n\n[[retire]]\nrule = \"second\"\n\n[retire.gone]\nrule = \"not a name\"\n"
        );
        assert_eq!(
            explain(&all, "2026-01-02-old").expect("is there"),
            "# Guide\n"
        );
        let none = explain(&all, "none").expect_err("it is text").to_string();
        assert_eq!(
            none,
            "error: there is no rule `none`\n  comments\n  first\n  second\n  verify\n  hint: name one of these, or a migration for its guide"
        );
    }

    #[test]
    fn by_default_or_by_name() {
        let all = two();
        let selected = |names: &[&str]| {
            select(&all, &ids(names)).map(|found| {
                found
                    .iter()
                    .map(|found| found.id.clone())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(selected(&[]).expect("selects"), ["2026-01-02-old"]);
        assert_eq!(
            selected(&["rand-9", "rand-9"]).expect("selects"),
            ["rand-9"]
        );
        assert!(
            selected(&["rand"])
                .expect_err("not there")
                .to_string()
                .starts_with("error: there is no migration `rand`\n  2026-01-02-old\n  rand-9")
        );
    }

    #[test]
    fn built_in_migrations_can_be_listed() {
        let all = read(None).expect("built in");
        assert_eq!(list(&all).expect("lists").lines().count(), all.len());
        assert!(all.is_sorted_by(|a, b| a.id < b.id));
    }
}
