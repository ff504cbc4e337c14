use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::{Analysis, analyze};
use crate::world::{CrateKind, CrateSpec, Loader, Ns, Res, Type, World};

struct Files(HashMap<String, Rc<str>>);

impl Loader for Files {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        self.0.get(path).cloned()
    }
}

fn analysis(text: &str) -> (World, Analysis) {
    let spec = CrateSpec {
        name: "app".into(),
        package: "app".into(),
        kind: CrateKind::Lib,
        edition: 2024,
        root: "src/lib.rs".into(),
        externs: BTreeMap::new(),
    };
    let loader = Files(HashMap::from([("src/lib.rs".to_owned(), Rc::from(text))]));
    let world = World::build(&[spec], &[], &loader);
    let file = Rc::clone(
        world.files[world.file_id("src/lib.rs").unwrap()]
            .parsed
            .as_ref()
            .unwrap(),
    );
    let id = world.file_id("src/lib.rs").unwrap();
    let root = world.files[id].contexts[0];
    let analysis = analyze(&world, &file, id, root);
    (world, analysis)
}

fn has_variable(ty: &Type) -> bool {
    ty.settled() != *ty
}

/// Seen in published crates: a type of the first pass held a variable that the second pass had not made yet, or had made
/// for something else.
#[test]
fn variables_do_not_outlive_their_pass() {
    let (_, analysis) = analysis(
        "struct Row { cells: Vec<u8> }
         fn f(rows: Vec<Row>) {
             let open = Vec::new();
             let pair = (None, Vec::new());
             let late = |row| { let copy = row; let held = (copy, Vec::new()); held };
             let done: Vec<_> = rows.into_iter().map(late).collect();
         }",
    );
    assert!(!analysis.locals.is_empty() && !analysis.types.is_empty());
    for local in &analysis.locals {
        assert!(!has_variable(&local.ty), "{}: {:?}", local.name, local.ty);
    }
    for ty in analysis
        .types
        .values()
        .chain(analysis.pattern_types.values())
    {
        assert!(!has_variable(ty), "{ty:?}");
    }
}

/// The second pass still gains from the first, with the holes of its types open.
#[test]
fn a_seed_with_a_hole_is_filled_by_the_second_pass() {
    let (world, analysis) = analysis(
        "pub struct Row;
         fn f() {
             let mut rows = Vec::new();
             rows.push(Row);
             let first = rows.pop();
         }",
    );
    let row = world.canonical("app::Row").unwrap();
    let first = analysis
        .locals
        .iter()
        .find(|local| local.name == "first")
        .unwrap();
    let Type::Adt(_, args) = &first.ty else {
        panic!("{:?}", first.ty)
    };
    assert_eq!(args[..], [Type::Adt(row, vec![])]);
}

/// Fourteen modules that take everything from each other: there are more orders of them than a run has time for.
#[test]
fn globs_in_circles_are_looked_through_once() {
    let mut text = String::from("pub mod m0 { pub struct Here; pub struct Twice; }\n");
    for at in 1..14 {
        let globs: String = (0..14)
            .filter(|other| *other != at)
            .map(|other| format!("pub use super::m{other}::*; "))
            .collect();
        text.push_str(&format!("pub mod m{at} {{ {globs} }}\n"));
    }
    text.push_str("pub mod own { pub struct Twice; }\n");
    text.push_str("pub mod both { pub use super::m7::*; pub use super::own::*; }\n");
    let (world, _) = analysis(&text);
    let module = |name: &str| {
        world
            .module_at(world.lib_of("app").unwrap(), [name])
            .unwrap()
    };
    let name = |at: &str, name: &str| world.name_in(module(at), name, Ns::Type, None);
    let here = world.canonical("app::m0::Here").unwrap();
    for at in 1..14 {
        assert_eq!(name(&format!("m{at}"), "Here"), Res::Def(here));
        assert_eq!(name(&format!("m{at}"), "Nowhere"), Res::Unknown);
    }
    assert_eq!(name("both", "Here"), Res::Def(here));
    assert_eq!(name("both", "Twice"), Res::Ambiguous);
}

/// An answer that was given before something was added is not given again.
#[test]
fn what_is_added_is_found() {
    let (mut world, _) = analysis("pub mod a { pub struct One; }");
    let root = world.crates[world.lib_of("app").unwrap()].root;
    let one = |world: &World, at| world.name_in(at, "One", Ns::Type, Some(at));
    assert_eq!(one(&world, root), Res::Unknown);
    let id = world.add_snippet(root, "<example>", "pub use app::a::One;", None);
    let example = world.snippet_root(id).unwrap();
    assert_eq!(
        one(&world, example),
        Res::Def(world.canonical("app::a::One").unwrap())
    );
    assert_eq!(one(&world, root), Res::Unknown);
}
