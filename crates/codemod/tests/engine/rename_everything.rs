//! The engine names no item of ours: with every name that the migration declares replaced by another, in the rules and in
//! the fixtures alike, the renamed results come out.
//!
//! Names keep their first letters, their length and the case of each letter, and their order: what is laid out by width or
//! sorted by name is then the same on both sides. Names that Rust's own library has too stay, as `Box::new` is not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use codemod::rule::Migration;

use crate::fixtures::{Case, all, unlike};
use crate::support::{
    Files, GPU_REPLAY, MIGRATION, UPGRADE, folder_of, in_parallel, migration_text, run_with, text,
};

/// Letters that stay, so that names sort among others as before.
const PREFIX: usize = 3;

/// Of Rust and of its library, of cudarc, or a word that is no name.
const NOT_OURS: &str = "as bool break char clone Clone const continue crate debug Debug default Default derive else enum err Err extern f32 f64 false fn \
    for from From if impl in into isize i32 i64 len let loop match mod move mut new None non_exhaustive Ok Option pub pure push ref return self Self Some \
    static std String str struct super sync trait true type u8 u16 u32 u64 unsafe use usize Vec where while Arc Box Result is_empty capacity clear driver";

/// Every identifier of the migration: of its rules and of the surfaces that it declares.
fn declared(document: &toml::Table) -> BTreeSet<String> {
    let not_ours: BTreeSet<&str> = NOT_OURS.split_whitespace().collect();
    let mut names = BTreeSet::new();
    for (key, value) in document {
        match key.as_str() {
            "surface" | "delete_module" | "keep_module" | "retire_enum" | "retire_wrapper"
            | "bracket_calls" | "rename_item" | "rename_methods" | "move_methods"
            | "now_fallible" | "now_infallible" | "drop_method" | "recast" | "wrap_value"
            | "gone" | "distinctive" | "suggest" => {
                strings(value, is_map(key), &mut |text| {
                    names.extend(
                        words(text)
                            .filter(|word| !word.is_empty())
                            .map(str::to_owned),
                    )
                });
            }
            _ => {}
        }
    }
    names.retain(|name| {
        !not_ours.contains(name.as_str())
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.len() > PREFIX
    });
    names
}

/// Whether a table's keys are names, not words of the format.
fn is_map(key: &str) -> bool {
    [
        "rename", "always", "some", "gone", "suggest", "methods", "variants", "renamed",
    ]
    .contains(&key)
}

/// Texts for people, and names of rules.
fn is_prose(key: &str) -> bool {
    ["why", "title", "rule", "id", "accessor_doc"].contains(&key)
}

fn strings(value: &toml::Value, keys_are_names: bool, found: &mut dyn FnMut(&str)) {
    match value {
        toml::Value::String(text) => found(text),
        toml::Value::Array(values) => values
            .iter()
            .for_each(|value| strings(value, keys_are_names, found)),
        toml::Value::Table(table) => {
            for (key, value) in table {
                if keys_are_names {
                    found(key);
                }
                // What is suggested is prose as well, however many names it has.
                let is_name =
                    matches!(value, toml::Value::String(text) if words(text).count() == 1);
                if !is_prose(key) && (!keys_are_names || is_name) {
                    strings(value, is_map(key), found);
                }
            }
        }
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|at: char| !at.is_alphanumeric() && at != '_')
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough for letters, and no dependency.
struct SplitMix(u64);

impl SplitMix {
    fn letter(&mut self, first: u8) -> char {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        char::from(first + ((bits ^ (bits >> 31)) % 26) as u8)
    }
}

/// Another name for each, the same for every run.
fn other_names(names: &BTreeSet<String>, taken: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut random = SplitMix(20_260_410);
    let mut by_prefix: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for name in names {
        by_prefix.entry(&name[..PREFIX]).or_default().push(name);
    }
    let mut map = BTreeMap::new();
    for group in by_prefix.values() {
        // Tried until the order among these is as it was; groups are small.
        loop {
            let others: Vec<String> = group
                .iter()
                .map(|name| other_name(name, &mut random))
                .collect();
            let is_sorted = others.windows(2).all(|pair| pair[0] < pair[1]);
            if is_sorted
                && others.iter().zip(group).all(|(other, name)| {
                    !taken.contains(other) && !names.contains(other) && other != *name
                })
            {
                map.extend(group.iter().map(|name| (*name).clone()).zip(others));
                break;
            }
        }
    }
    map
}

fn other_name(name: &str, random: &mut SplitMix) -> String {
    let tail = name[PREFIX..].chars().map(|letter| match letter {
        'a'..='z' => random.letter(b'a'),
        'A'..='Z' => random.letter(b'A'),
        other => other,
    });
    name[..PREFIX].chars().chain(tail).collect()
}

/// Whole words only; packages, whose names have hyphens, stand in the map by both of their names.
fn renamed(source: &str, map: &BTreeMap<String, String>) -> String {
    let packages = map.iter().filter(|(name, _)| name.contains('-'));
    let source = packages.fold(source.to_owned(), |source, (name, other)| {
        source.replace(name, other)
    });
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(first) = rest.chars().next() {
        let n_bytes = rest
            .find(|at: char| !at.is_alphanumeric() && at != '_')
            .unwrap_or(rest.len());
        if n_bytes == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let word = &rest[..n_bytes];
            // What is not used any more is marked by an underscore in front.
            let bare = word.trim_start_matches('_');
            out.push_str(&word[..word.len() - bare.len()]);
            out.push_str(map.get(bare).map_or(bare, String::as_str));
            rest = &rest[n_bytes..];
        }
    }
    out
}

fn renamed_files(files: &Files, map: &BTreeMap<String, String>) -> Files {
    let bytes = |bytes: &Vec<u8>| {
        std::str::from_utf8(bytes)
            .map_or_else(|_| bytes.clone(), |text| renamed(text, map).into_bytes())
    };
    files
        .iter()
        .map(|(path, content)| (renamed(path, map), bytes(content)))
        .collect()
}

/// The rules, renamed value by value: words of the format that are names as well stay what they are.
fn renamed_rules(
    value: toml::Value,
    keys_are_names: bool,
    map: &BTreeMap<String, String>,
) -> toml::Value {
    match value {
        toml::Value::String(text) => toml::Value::String(renamed(&text, map)),
        toml::Value::Array(values) => toml::Value::Array(
            values
                .into_iter()
                .map(|value| renamed_rules(value, keys_are_names, map))
                .collect(),
        ),
        toml::Value::Table(table) => {
            let pairs = table.into_iter().map(|(key, value)| {
                let value = if is_prose(&key) {
                    value
                } else {
                    renamed_rules(value, is_map(&key), map)
                };
                (
                    if keys_are_names {
                        renamed(&key, map)
                    } else {
                        key
                    },
                    value,
                )
            });
            toml::Value::Table(pairs.collect())
        }
        other => other,
    }
}

#[test]
fn other_names_come_out_alike() {
    let document: toml::Table = toml::from_str(&migration_text()).expect("well formed");
    let names = declared(&document);
    let cases: Vec<Case> = all();
    let taken: BTreeSet<String> = cases
        .iter()
        .flat_map(|case| case.before.values())
        .flat_map(|bytes| words(&text(bytes)).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut map = other_names(&names, &taken);
    for spec in &GPU_REPLAY[0].surface {
        if let Some(other) = map.get(&spec.package.replace('-', "_")) {
            map.insert(spec.package.clone(), other.replace('_', "-"));
        }
    }
    let map = map;
    for name in [
        "ReplayBufferType",
        "BatchSample",
        "GpuReplayBuffer",
        "GpuPrioritized",
        "gpu_batch",
        "as_gpu",
        "FusedTrainingCtx",
        "run_full_step",
        "replay_buffer_type",
        "sample_profiled",
    ] {
        assert!(map.contains_key(name), "{name} keeps its name: {map:#?}");
    }
    let rules =
        toml::to_string(&renamed_rules(toml::Value::Table(document), false, &map)).expect("TOML");
    let migrations =
        [Migration::parse(MIGRATION, &rules).expect("renaming keeps the rules well formed")];
    let faults = in_parallel(&cases, |case| {
        // What comes out under our names, not what is written down: that is another test's.
        let expected = renamed_files(&run_with(&case.before, &GPU_REPLAY).ok()?.after, &map);
        let faults = match run_with(&renamed_files(&case.before, &map), &migrations) {
            Ok(run) => unlike(&expected, &run.after),
            Err(error) => vec![error.to_string()],
        };
        (!faults.is_empty()).then(|| format!("--- {}\n{}", case.name, faults.join("\n")))
    });
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    assert!(
        faults.is_empty(),
        "{} of {} fixtures\n\n{}",
        faults.len(),
        cases.len(),
        faults.join("\n\n")
    );
}

/// What the sources say outside of comments, doc comments and tests.
#[test]
fn no_source_of_the_engine_has_a_name_of_ours() {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for text in [
        migration_text(),
        std::fs::read_to_string(folder_of(UPGRADE).join("migration.toml")).expect("readable"),
    ] {
        let document: toml::Table = toml::from_str(&text).expect("well formed");
        // Long enough to be nobody's by chance.
        names.extend(declared(&document).into_iter().filter(|name| {
            name.len() >= 8
                && (name.contains('_')
                    || name.chars().filter(char::is_ascii_uppercase).count() >= 2)
        }));
    }
    // A method of `Result` too.
    names.remove("unwrap_err");
    for name in [
        "gen_range",
        "thread_rng",
        "StandardUniform",
        "UniformSampler",
    ] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["ReplayBufferType", "BatchSample", "gpu_batch", "PhaseTimer"] {
        assert!(names.contains(name), "{name}");
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    for (path, bytes) in crate::support::read_folder(&sources) {
        let is_test =
            path.ends_with("tests.rs") || path.contains("/tests/") || path.contains("snapshots/");
        if !path.ends_with(".rs") || is_test {
            continue;
        }
        let source = text(&bytes);
        let code = source
            .split("#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            let code = line.split(" // ").next().unwrap_or_default();
            faults.extend(
                words(code)
                    .filter(|word| names.contains(*word))
                    .map(|word| format!("src/{path}:{}: {word}", number + 1)),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
