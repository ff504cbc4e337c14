//! Imports into small modules.

use std::collections::HashMap;
use std::rc::Rc;

use super::*;
use crate::analysis::analyze;
use crate::edit::Rope;
use crate::rewrite::Rules;
use crate::rewrite::nodes::Nodes;
use crate::syntax::parse;
use crate::world::{CrateKind, CrateSpec, Loader, Surface, World};

struct Files(HashMap<String, Rc<str>>);

impl Loader for Files {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        self.0.get(path).cloned()
    }
}

const SURFACE: &str = "pub mod deep { pub struct Timer; pub struct Buffer; pub struct Zoo; }
pub use deep::{Buffer, Timer};
pub struct Agent;
pub struct Config;
pub enum Phase { Warm }
";

/// The text once `paths` are imported into the module at `at`, how they are written, and again as often as it takes.
fn import_into(edition: u16, text: &str, at: &[&str], paths: &[&str]) -> (String, Vec<Spelling>) {
    let externs = [("kit", "kit"), ("other", "other")]
        .map(|(name, package)| (name.to_owned(), package.to_owned()));
    let spec = CrateSpec {
        name: "app".into(),
        package: "app".into(),
        kind: CrateKind::Lib,
        edition,
        root: "src/lib.rs".into(),
        externs: externs.into(),
    };
    let surface = Surface {
        package: "kit".into(),
        text: SURFACE.into(),
    };
    let loader = Files(HashMap::from([("src/lib.rs".to_owned(), Rc::from(text))]));
    let mut world = World::build(&[spec], &[surface], &loader);
    let rules = Rules::compile(&mut world, &[]).unwrap();
    let id = world.file_id("src/lib.rs").unwrap();
    let root = world.files[id].contexts[0];
    let krate = world.mods[root].krate;
    let module = world.module_at(krate, at.iter().copied()).unwrap();
    let paths: Vec<Vec<String>> = paths
        .iter()
        .map(|path| path.split("::").map(str::to_owned).collect())
        .collect();
    let propose = |text: &str| {
        let file = parse(text).unwrap_or_else(|err| panic!("{err}\n{text}"));
        let an = analyze(&world, &file, id, root);
        let rope = Rope::new(text);
        let cx = Cx {
            world: &world,
            rules: &rules,
            id,
            file: &file,
            text,
            an: &an,
            nodes: Nodes::new(&file),
            rope: &rope,
            frozen: &[],
        };
        let mut items: &[Item] = &file.items;
        for name in at {
            let inner = items.iter().find_map(|item| match &item.kind {
                ItemKind::Mod(it) if item.name.as_ref().is_some_and(|it| it.text == *name) => {
                    it.items.as_deref()
                }
                _ => None,
            });
            items = inner.unwrap();
        }
        add_imports(&cx, items, module, &paths)
    };
    let (spellings, edits) = propose(text);
    let mut rope = Rope::new(text);
    rope.apply(&edits).unwrap();
    let (again, none) = propose(rope.text());
    assert_eq!(none, [], "a second call imports again\n{}", rope.text());
    assert!(
        again
            .iter()
            .zip(&spellings)
            .all(|(a, b)| a.text() == b.text()),
        "{again:?} {spellings:?}"
    );
    (rope.text().to_owned(), spellings)
}

#[track_caller]
fn check(text: &str, paths: &[&str], expected: &str) {
    let (got, spellings) = import_into(2024, text, &[], paths);
    assert_eq!(got, expected);
    assert!(
        spellings
            .iter()
            .all(|spelling| !matches!(spelling, Spelling::FullPath(_))),
        "{spellings:?}"
    );
}

#[track_caller]
fn check_spelled(text: &str, path: &str, expected: Spelling) {
    let (got, spellings) = import_into(2024, text, &[], &[path]);
    assert_eq!((got.as_str(), &spellings[0]), (text, &expected));
}

#[test]
fn what_is_in_scope_is_used_as_it_is() {
    check_spelled(
        "use kit::Timer;\nfn f() {}\n",
        "kit::Timer",
        Spelling::InScope("Timer".into()),
    );
    check_spelled(
        "use kit::Timer as Clock;\nfn f() {}\n",
        "kit::Timer",
        Spelling::InScope("Clock".into()),
    );
    // By another path to the same thing.
    check_spelled(
        "use kit::deep::{Buffer, Timer as T};\nfn f() {}\n",
        "kit::Timer",
        Spelling::InScope("T".into()),
    );
    check_spelled(
        "use kit::*;\nfn f() {}\n",
        "kit::Timer",
        Spelling::InScope("Timer".into()),
    );
    check_spelled(
        "use kit::deep::*;\nfn f() {}\n",
        "kit::Timer",
        Spelling::InScope("Timer".into()),
    );
    check_spelled(
        "pub struct Own;\n",
        "crate::Own",
        Spelling::InScope("Own".into()),
    );
    // A crate that nobody has seen: by the path as written.
    check_spelled(
        "use other::{a, b::C as D};\nfn f() {}\n",
        "other::b::C",
        Spelling::InScope("D".into()),
    );
}

#[test]
fn names_that_mean_something_else_are_left_to_it() {
    let path = || Spelling::FullPath("kit::Timer".into());
    check_spelled("pub struct Timer;\n", "kit::Timer", path());
    check_spelled("use other::Timer;\nfn f() {}\n", "kit::Timer", path());
    check_spelled("fn f() {\n    struct Timer;\n}\n", "kit::Timer", path());
    check_spelled("fn f<Timer>(t: Timer) {}\n", "kit::Timer", path());
    check_spelled(
        "mod m {\n    pub struct Timer;\n}\nuse m::*;\n",
        "kit::Timer",
        path(),
    );
    check_spelled(
        "mod kit {}\nstruct Timer;\n",
        "kit::Timer",
        Spelling::FullPath("::kit::Timer".into()),
    );
    // In one configuration only.
    check_spelled(
        "#[cfg(unix)]\nuse kit::Timer;\nfn f() {}\n",
        "kit::Timer",
        path(),
    );
    // The prelude's.
    check_spelled(
        "fn f() {}\n",
        "kit::Option",
        Spelling::FullPath("kit::Option".into()),
    );
}

#[test]
fn groups_of_the_same_crate_take_names_in_order() {
    check(
        "use kit::{Agent, Config};\n",
        &["kit::Timer", "kit::Phase"],
        "use kit::{Agent, Config, Phase, Timer};\n",
    );
    check(
        "use kit::{Agent, Timer};\n",
        &["kit::Buffer"],
        "use kit::{Agent, Buffer, Timer};\n",
    );
    check(
        "use kit::{Timer, Agent};\n",
        &["kit::Buffer"],
        "use kit::{Timer, Agent, Buffer};\n",
    );
    check(
        "use kit::{};\nfn f() {}\n",
        &["kit::Buffer", "kit::Phase"],
        "use kit::{Buffer, Phase, };\nfn f() {}\n",
    );
}

#[test]
fn groups_over_several_lines_are_filled() {
    let (text, _) = import_into(
        2021,
        "use kit::{\n    deep::{Buffer, Zoo},\n    other::Thing,\n};\n",
        &[],
        &["kit::Phase", "kit::Agent"],
    );
    assert_eq!(
        text,
        "use kit::{\n    deep::{Buffer, Zoo},\n    other::Thing,\n    Agent, Phase,\n};\n"
    );
    check(
        "use kit::{\n    Agent, // acts\n    Config,\n};\n",
        &["kit::Buffer", "kit::Phase"],
        "use kit::{\n    Agent, // acts\n    Buffer,\n    Config,\n    Phase,\n};\n",
    );
    check(
        "use kit::{\n    Agent,\n    Config // last\n};\n",
        &["kit::Phase"],
        "use kit::{\n    Agent,\n    Config, // last\n    Phase,\n};\n",
    );
}

#[test]
fn a_line_that_grows_too_long_is_broken() {
    let names: Vec<String> = (0..9).map(|n| format!("AgentNumber{n}")).collect();
    let line = format!("use kit::{{{}}};\n", names[..6].join(", "));
    assert!(line.len() <= 101, "{}", line.len());
    let (text, _) = import_into(2024, &line, &[], &["kit::Phase", "kit::Timer"]);
    assert_eq!(
        text,
        format!(
            "use kit::{{\n    {}, Phase,\n    Timer,\n}};\n",
            names[..6].join(", ")
        )
    );
    assert!(text.lines().all(|line| line.len() <= 100));
}

#[test]
fn a_path_joins_what_shares_most_of_it() {
    check(
        "use kit::{Agent, deep::{Timer, Zoo}};\n",
        &["kit::deep::Buffer"],
        "use kit::{Agent, deep::{Buffer, Timer, Zoo}};\n",
    );
    check(
        "use kit::{Agent, deep::Zoo};\n",
        &["kit::deep::Buffer"],
        "use kit::{Agent, deep::{Buffer, Zoo}};\n",
    );
    check(
        "use kit::{Agent};\n",
        &["kit::deep::Zoo"],
        "use kit::{Agent, deep::Zoo};\n",
    );
    // A single name becomes a group where the file has groups.
    check(
        "use kit::Agent;\nuse other::{a, b};\n",
        &["kit::Phase", "kit::Timer"],
        "use kit::{Agent, Phase, Timer};\nuse other::{a, b};\n",
    );
}

#[test]
fn lines_of_their_own() {
    // One import for each name, as the file has it.
    check(
        "use kit::Agent;\nuse kit::Config;\n\nfn f() {}\n",
        &["kit::Timer", "kit::Buffer"],
        "use kit::Agent;\nuse kit::Buffer;\nuse kit::Config;\nuse kit::Timer;\n\nfn f() {}\n",
    );
    check(
        "use kit::deep::Zoo;\nuse kit::deep::{self as d};\n\nuse crate::x;\n",
        &["kit::Phase", "kit::Config"],
        "use kit::deep::Zoo;\nuse kit::deep::{self as d};\nuse kit::{Config, Phase};\n\nuse crate::x;\n",
    );
    check(
        "use aaa::X;\nuse other::{a, b};\n",
        &["kit::Phase"],
        "use aaa::X;\nuse kit::Phase;\nuse other::{a, b};\n",
    );
    check(
        "use std::fmt;\n\nfn f() {}\n",
        &["kit::Phase"],
        "use std::fmt;\n\nuse kit::Phase;\n\nfn f() {}\n",
    );
    check(
        "use crate::x;\n",
        &["kit::Phase"],
        "use kit::Phase;\n\nuse crate::x;\n",
    );
    check(
        "//! Docs.\n\n// Why.\nfn f() {}\n",
        &["kit::Phase", "kit::Timer"],
        "//! Docs.\n\n// Why.\nuse kit::{Phase, Timer};\n\nfn f() {}\n",
    );
    // Re-exports and imports under an attribute are no place to put it.
    check(
        "pub use kit::{Agent};\nfn f() {}\n",
        &["kit::Phase"],
        "use kit::Phase;\npub use kit::{Agent};\nfn f() {}\n",
    );
    check(
        "#[cfg(unix)]\nuse kit::{Agent};\nfn f() {}\n",
        &["kit::Phase"],
        "use kit::Phase;\n#[cfg(unix)]\nuse kit::{Agent};\nfn f() {}\n",
    );
}

#[test]
fn line_ends_marks_and_missing_last_lines() {
    check(
        "use kit::{\r\n\tAgent,\r\n};\r\nfn f() {}\r\n",
        &["kit::Phase"],
        "use kit::{\r\n\tAgent, Phase,\r\n};\r\nfn f() {}\r\n",
    );
    check(
        "\u{feff}fn f() {}\r\n",
        &["kit::Phase"],
        "\u{feff}use kit::Phase;\r\n\r\nfn f() {}\r\n",
    );
    check(
        "use kit::deep::Zoo;",
        &["kit::Phase"],
        "use kit::Phase;\nuse kit::deep::Zoo;",
    );
    check(
        "use kit::Agent;",
        &["kit::Phase"],
        "use kit::Agent;\nuse kit::Phase;",
    );
}

#[test]
fn modules_in_a_file() {
    let text = "use kit::{Agent};\n\nmod tests {\n    use super::*;\n\n    fn f() {}\n}\nmod own {\n    use kit::{Config};\n}\nmod empty {}\n";
    let (got, spellings) = import_into(2024, text, &["own"], &["kit::Phase"]);
    assert!(got.contains("    use kit::{Config, Phase};\n"), "{got}");
    assert_eq!(spellings, [Spelling::Imported("Phase".into())]);
    // What the parent imports, a glob of the parent brings.
    let (got, spellings) = import_into(2024, text, &["tests"], &["kit::Agent"]);
    assert_eq!(
        (got.as_str(), &spellings[0]),
        (text, &Spelling::InScope("Agent".into()))
    );
    let (got, _) = import_into(2024, text, &["tests"], &["kit::Phase"]);
    assert!(
        got.contains("    use super::*;\n\n    use kit::Phase;\n")
            || got.contains("    use kit::Phase;\n\n    use super::*;\n"),
        "{got}"
    );
    let (_, spellings) = import_into(2024, text, &["empty"], &["kit::Phase"]);
    assert_eq!(spellings, [Spelling::FullPath("kit::Phase".into())]);
}

#[test]
fn editions_sort_differently() {
    let order = |order: Order, names: &[&str]| {
        let mut names = names.to_vec();
        names.sort_by(|a, b| order.compare(a, b));
        names.join(" ")
    };
    let names = ["deep::X", "self", "Zoo", "MAX", "*", "Agent", "{a, b}"];
    assert_eq!(
        order(Order::CaseKinds, &names),
        "self deep::X Agent Zoo MAX * {a, b}"
    );
    assert_eq!(
        order(Order::Ascii, &names),
        "self Agent MAX Zoo deep::X * {a, b}"
    );
}
