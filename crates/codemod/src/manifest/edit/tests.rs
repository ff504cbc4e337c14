use super::*;
use TargetKind::{Bench, Bin, Example, Test};

#[track_caller]
fn check(kind: TargetKind, name: &str, before: &str, after: &str) {
    let result = remove_target(before, kind, name).expect("the entry is there");
    assert_eq!(result, after);
    assert!(Document::parse(&result).is_ok(), "{result}");
    assert_eq!(
        remove_target(&result, kind, name),
        None,
        "it is gone for good"
    );
    // Line ends are of no consequence, and stay as they are.
    let windows = remove_target(&before.replace('\n', "\r\n"), kind, name).unwrap();
    assert_eq!(windows, after.replace('\n', "\r\n"));
    let marked = remove_target(&format!("\u{feff}{before}"), kind, name).unwrap();
    assert_eq!(marked, format!("\u{feff}{after}"));
}

#[track_caller]
fn check_include(path: &str, before: &str, after: &str) {
    let result = remove_include(before, path).expect("the path is there");
    assert_eq!(result, after);
    assert!(Document::parse(&result).is_ok(), "{result}");
    assert_eq!(remove_include(&result, path), None, "it is gone for good");
    assert_eq!(
        remove_include(&before.replace('\n', "\r\n"), path).unwrap(),
        after.replace('\n', "\r\n")
    );
}

const BY_HAND: &str = "\
[package]
autotests = false

# integration tests are listed by hand
[[test]]
name = \"cpu_replay\"
path = \"tests/cpu/replay.rs\"   # host only

[[test]]
name = \"gpu_replay\"
path = \"tests/gpu_replay.rs\"

[[test]] # inferred path
name = \"hindsight_replay\"
harness = false
";

#[test]
fn a_comment_that_heads_all_tables_stays_with_those_that_are_left() {
    let once = "\
[package]
autotests = false

# integration tests are listed by hand
[[test]]
name = \"gpu_replay\"
path = \"tests/gpu_replay.rs\"

[[test]] # inferred path
name = \"hindsight_replay\"
harness = false
";
    check(Test, "cpu_replay", BY_HAND, once);
    let twice = "\
[package]
autotests = false

# integration tests are listed by hand
[[test]]
name = \"gpu_replay\"
path = \"tests/gpu_replay.rs\"
";
    check(Test, "hindsight_replay", once, twice);
    check(Test, "gpu_replay", twice, "[package]\nautotests = false\n");
}

#[test]
fn a_comment_that_names_its_table_goes_and_a_banner_stays() {
    let before = "\
# --- tests ----

# uniform replay: quick, runs everywhere
[[test]]
name = \"cpu_uniform\"

[[test]]
name = \"mixed\"

[[test]]
name = \"soak_tree\"                 # segment tree for an hour
required-features = [\"slow\"]

[[test]]
name   = \"gpu\"   # needs a device

[profile.bench]
debug = true
";
    let without_uniform = before.replace(
        "# uniform replay: quick, runs everywhere\n[[test]]\nname = \"cpu_uniform\"\n\n",
        "",
    );
    check(Test, "cpu_uniform", before, &without_uniform);
    let soak = "[[test]]\nname = \"soak_tree\"                 # segment tree for an hour\nrequired-features = [\"slow\"]\n\n";
    check(Test, "soak_tree", before, &before.replace(soak, ""));
    check(
        Test,
        "gpu",
        before,
        &before.replace("[[test]]\nname   = \"gpu\"   # needs a device\n\n", ""),
    );
    check(
        Test,
        "cpu",
        "# --- tests ---\n[[test]]\nname = \"cpu\"\n\n[lib]\n",
        "# --- tests ---\n[lib]\n",
    );
}

#[test]
fn tables_without_blank_lines_between_them() {
    let before = "[package]\n\n[[bench]]\nname = \"gpu_bench\"    # essential\nharness = false\n[[bench]]\nname = \"replay_bench\"\nharness = false\n";
    check(
        Bench,
        "replay_bench",
        before,
        "[package]\n\n[[bench]]\nname = \"gpu_bench\"    # essential\nharness = false\n",
    );
    check(
        Bench,
        "gpu_bench",
        before,
        "[package]\n\n[[bench]]\nname = \"replay_bench\"\nharness = false\n",
    );
    let glued = "a = 1\n[[bench]]\nname = \"x\"\n\n[[bench]]\nname = \"y\"\n";
    check(Bench, "x", glued, "a = 1\n\n[[bench]]\nname = \"y\"\n");
}

#[test]
fn a_comment_above_a_later_table_goes_unless_it_heads_more() {
    let own = "[[bin]]\nname = \"a\"\n\n# slow, run by hand\n[[bin]]\nname = \"b\"\n\n[[bin]]\nname = \"c\"\n";
    check(
        Bin,
        "b",
        own,
        "[[bin]]\nname = \"a\"\n\n[[bin]]\nname = \"c\"\n",
    );
    let group = "[[bin]]\nname = \"a\"\n\n# slow, run by hand\n[[bin]]\nname = \"b\"\n[[bin]]\nname = \"c\"\n";
    check(
        Bin,
        "b",
        group,
        "[[bin]]\nname = \"a\"\n\n# slow, run by hand\n[[bin]]\nname = \"c\"\n",
    );
    let rest = "[[bin]]\nname = \"a\"\n\n# the rest is slow\n[[bin]]\nname = \"b\"\n\n[[bin]]\nname = \"c\"\n";
    check(
        Bin,
        "b",
        rest,
        "[[bin]]\nname = \"a\"\n\n# the rest is slow\n[[bin]]\nname = \"c\"\n",
    );
    let two = "[[bin]]\nname = \"import\"\n\n# export and verify belong together\n[[bin]]\nname = \"export\"\n\n[[bin]]\nname = \"verify\"\n";
    check(
        Bin,
        "export",
        two,
        "[[bin]]\nname = \"import\"\n\n# export and verify belong together\n[[bin]]\nname = \"verify\"\n",
    );
}

#[test]
fn comments_between_two_tables() {
    let next = "[[bin]]\nname = \"a\"\n# about the next\n[[bin]]\nname = \"b\"\n";
    check(Bin, "a", next, "# about the next\n[[bin]]\nname = \"b\"\n");
    let tail = "[[bin]]\nname = \"a\"\n# doc = false\n\n# about the next\n[[bin]]\nname = \"b\"\n";
    check(Bin, "a", tail, "# about the next\n[[bin]]\nname = \"b\"\n");
    let apart = "[[bin]]\nname = \"a\"\n\n# a word on its own\n\n[[bin]]\nname = \"b\"\n";
    check(
        Bin,
        "a",
        apart,
        "# a word on its own\n\n[[bin]]\nname = \"b\"\n",
    );
    let both = "# all of them\n[[bin]]\nname = \"a\"\n\n# about b\n[[bin]]\nname = \"b\"\n";
    check(
        Bin,
        "a",
        both,
        "# all of them\n\n# about b\n[[bin]]\nname = \"b\"\n",
    );
}

#[test]
fn sub_tables_dotted_keys_and_long_strings_belong_to_the_table() {
    let before = "[[example]]\nname = \"a\"\nx.y = 1 # why\ntext = '''\n[[example]]\nname = \"no\"\n'''\n\n[example.metadata]\nz = [\n  1,\n]\n\n[lib]\npath = \"l.rs\"\n";
    check(Example, "a", before, "[lib]\npath = \"l.rs\"\n");
    let far =
        "[[example]]\nname = \"a\"\n\n[lib]\n\n# deep\n[example.metadata]\nz = 1\n\n[features]\n";
    check(Example, "a", far, "[lib]\n\n[features]\n");
}

#[test]
fn inline_entries() {
    let before = "test = [\n  { name = \"a\" }, # first\n  { name = \"b\", harness = false },\n]\n\n[package]\n";
    check(
        Test,
        "a",
        before,
        "test = [\n  { name = \"b\", harness = false },\n]\n\n[package]\n",
    );
    check(
        Test,
        "b",
        before,
        "test = [\n  { name = \"a\" }, # first\n]\n\n[package]\n",
    );
    check(
        Test,
        "a",
        "test = [{ name = \"a\" }]\n\n[package]\n",
        "[package]\n",
    );
    check(
        Test,
        "b",
        "test = [{ name = \"a\" }, { name = \"b\" }]\n",
        "test = [{ name = \"a\" }]\n",
    );
}

#[test]
fn what_is_not_there_is_none() {
    assert_eq!(remove_target(BY_HAND, Test, "other"), None);
    assert_eq!(remove_target(BY_HAND, Bench, "cpu_replay"), None);
    assert_eq!(remove_target(BY_HAND, TargetKind::Lib, "cpu_replay"), None);
    assert_eq!(remove_target("[[test]\nname = \"a\"", Test, "a"), None);
    assert_eq!(remove_target("[test]\nname = \"a\"\n", Test, "a"), None);
    assert_eq!(
        remove_include("[package]\ninclude = [\"src/**\"]\n", "src/a.rs"),
        None
    );
    assert_eq!(remove_include("[package]\n", "src/a.rs"), None);
}

#[test]
fn a_text_without_a_final_line_end_stays_so() {
    let before = "[package]\nname = \"x\"\n\n[[test]]\nname = \"a\"";
    assert_eq!(
        remove_target(before, Test, "a").unwrap(),
        "[package]\nname = \"x\""
    );
    let before = before.replace('\n', "\r\n");
    assert_eq!(
        remove_target(&before, Test, "a").unwrap(),
        "[package]\r\nname = \"x\""
    );
    let first = "[[test]]\nname = \"a\"\n\n[package]\nname = \"x\"";
    assert_eq!(
        remove_target(first, Test, "a").unwrap(),
        "[package]\nname = \"x\""
    );
}

#[test]
fn an_element_of_include_leaves_its_neighbours_comments() {
    let before = "[package]\ninclude = [\n    \"src/**\", # sources\n    \"benches/replay_bench.rs\", # host bench\n    \"README.md\", # words\n]\n";
    check_include(
        "benches/replay_bench.rs",
        before,
        &before.replace("    \"benches/replay_bench.rs\", # host bench\n", ""),
    );
    check_include(
        "README.md",
        before,
        &before.replace("    \"README.md\", # words\n", ""),
    );
    let last =
        "[package]\ninclude = [\n    \"src/**\", # sources\n    \"benches/a.rs\" # host\n]\n";
    check_include(
        "benches/a.rs",
        last,
        "[package]\ninclude = [\n    \"src/**\" # sources\n]\n",
    );
}

#[test]
fn comments_above_an_element() {
    let named = "[package]\ninclude = [\n  # the soak runs for an hour\n  \"tests/soak.rs\",\n  \"src/**\",\n]\n";
    check_include(
        "tests/soak.rs",
        named,
        "[package]\ninclude = [\n  \"src/**\",\n]\n",
    );
    let heads = "[package]\ninclude = [\n  # code\n  \"tests/soak.rs\",\n  \"src/**\",\n]\n";
    check_include(
        "tests/soak.rs",
        heads,
        "[package]\ninclude = [\n  # code\n  \"src/**\",\n]\n",
    );
    let alone = "[package]\ninclude = [\n  # code\n  \"src/**\",\n\n  # slow ones\n  \"tests/soak.rs\",\n]\n";
    check_include(
        "tests/soak.rs",
        alone,
        "[package]\ninclude = [\n  # code\n  \"src/**\",\n]\n",
    );
}

#[test]
fn elements_on_one_line() {
    let of = |list: &str| format!("[package]\ninclude = {list} # all\n");
    for (before, after) in [
        (r#"["a", "x.rs", "b"]"#, r#"["a", "b"]"#),
        (r#"["x.rs", "b"]"#, r#"["b"]"#),
        (r#"["a", "x.rs"]"#, r#"["a"]"#),
        (r#"[ "a", "x.rs" ]"#, r#"[ "a" ]"#),
        (r#"[ "x.rs", "a" ]"#, r#"[ "a" ]"#),
        (r#"["a", "x.rs",]"#, r#"["a",]"#),
        (r#"["x.rs"]"#, "[]"),
        (r#"[ "x.rs" ]"#, "[]"),
        (r#"["x.rs",]"#, "[]"),
        (r#"["a","x.rs","b"]"#, r#"["a","b"]"#),
        (r#"["/x.rs", "./x.rs", "a"]"#, r#"["a"]"#),
        (
            "[\"a\", \"x.rs\", # why\n  \"b\"]",
            "[\"a\", # why\n  \"b\"]",
        ),
        (
            "[\n  \"a\", \"x.rs\",\n  \"b\", \"c\",\n]",
            "[\n  \"a\",\n  \"b\", \"c\",\n]",
        ),
        (
            "[\n  \"a\",\n  \"x.rs\", \"c\",\n]",
            "[\n  \"a\",\n  \"c\",\n]",
        ),
    ] {
        check_include("x.rs", &of(before), &of(after));
    }
}

#[test]
fn both_lists_are_seen_to() {
    let before = "[package]\ninclude = [\"x.rs\", \"a\"]\nexclude = [\"b\", \"x.rs\"]\n\n[dependencies]\ninclude = [\"x.rs\"]\n";
    check_include(
        "x.rs",
        before,
        "[package]\ninclude = [\"a\"]\nexclude = [\"b\"]\n\n[dependencies]\ninclude = [\"x.rs\"]\n",
    );
    check_include(
        "x.rs",
        "package.include = [\"x.rs\", \"a\"]\n",
        "package.include = [\"a\"]\n",
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// A piece of a manifest that ends in a line end.
    fn piece() -> impl Strategy<Value = String> {
        let comment = prop_oneof![
            Just("# plain words"),
            Just("# t1 is slow"),
            Just("# all of these"),
            Just("# ---- part ----"),
            Just("# [[test]]"),
            Just("\t# indented")
        ];
        let table = (0..4_usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(name, path, tail, sub)| {
                let mut text = format!("[[test]]\nname = \"t{name}\"\n");
                if path {
                    text += &format!("path = \"tests/t{name}.rs\"  # where\n");
                }
                if tail {
                    text += "x.text = \"\"\"\n[[test]]\n\n# no comment\n\"\"\"\n";
                }
                if sub {
                    text += "\n[test.metadata]\nlist = [1,\n 2]\n";
                }
                text
            },
        );
        let other = prop_oneof![
            Just("[[bench]]\nname = \"t1\"\n"),
            Just("[profile.bench]\ndebug = true\n")
        ];
        prop_oneof![
            2 => Just("\n".to_owned()),
            2 => comment.prop_map(|comment| format!("{comment}\n")),
            4 => table,
            1 => other.prop_map(str::to_owned),
        ]
    }

    /// The text's values, without the test of this name.
    fn values(text: &str, without: &str) -> Option<toml::Table> {
        let mut table: toml::Table = text.parse().ok()?;
        if let Some(toml::Value::Array(tests)) = table.get_mut("test") {
            if let Some(at) = tests
                .iter()
                .position(|test| test["name"].as_str() == Some(without))
            {
                tests.remove(at);
            }
            if tests.is_empty() {
                table.remove("test");
            }
        }
        Some(table)
    }

    proptest! {
        #[test]
        fn one_entry_goes_and_every_other_line_stays(
            pieces in prop::collection::vec(piece(), 0..12),
            name in 0..4_usize,
            windows in any::<bool>(),
            ends in any::<bool>(),
        ) {
            let mut text = pieces.concat();
            if windows {
                text = text.replace('\n', "\r\n");
            }
            if !ends {
                text = text.trim_end().to_owned();
            }
            let name = format!("t{name}");
            let Some(expected) = values(&text, &name) else { return Ok(()) };
            let Some(result) = remove_target(&text, Test, &name) else {
                prop_assert_eq!(values(&text, "").unwrap(), expected);
                return Ok(());
            };
            prop_assert_eq!(values(&result, "").unwrap(), expected, "{}", result);
            prop_assert_eq!(result.is_empty() || result.ends_with('\n') == text.ends_with('\n'), true);
            // What is left are lines of before, in their order.
            let mut before = text.lines();
            for line in result.lines() {
                prop_assert!(before.any(|old| old == line), "{:?} of {:?}", line, result);
            }
        }

        #[test]
        fn one_path_goes_from_a_list_in_any_layout(
            elements in prop::collection::vec((0..4_usize, 0..4_usize, 0..5_usize), 1..6),
            trailing in any::<bool>(),
            target in 0..4_usize,
        ) {
            let mut text = "[package]\ninclude = [".to_owned();
            let count = elements.len();
            for (index, (name, above, behind)) in elements.iter().enumerate() {
                text += ["", " ", "\n  ", "\n  # all above\n  "][*above];
                text += &format!("\"p{name}.rs\"");
                text += ["", " ", "", "", ""][*behind];
                if index + 1 < count || trailing {
                    text += ",";
                }
                text += ["", " ", "\n", " # behind\n", "\n\n"][*behind];
            }
            text += "]\n[lib]\n";
            let path = format!("p{target}.rs");
            let list = |text: &str| -> Vec<String> {
                let table: toml::Table = text.parse().unwrap();
                table["package"]["include"].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
            };
            let before = list(&text);
            let expected: Vec<_> = before.iter().filter(|found| **found != path).cloned().collect();
            match remove_include(&text, &path) {
                None => prop_assert_eq!(before, expected),
                Some(result) => {
                    prop_assert_eq!(list(&result), expected, "{}", result);
                    // The comment behind an element that stays, stays.
                    prop_assert!(result.ends_with("]\n[lib]\n"));
                }
            }
        }
    }
}
