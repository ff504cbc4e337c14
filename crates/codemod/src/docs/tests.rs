use std::rc::Rc;

use super::{RULE, Said, follow, prepare};
use crate::names;
use crate::rewrite::Rules;
use crate::rule::Migration;
use crate::session::Session;
use crate::syntax::{LineIndex, STACK_BYTES};
use crate::world::{CrateKind, CrateSpec, Loader, World};

const MIGRATION: &str = r#"
id = "stores"
title = "one store is left"

[[delete_module]]
rule = "dead-module"
package = "store"
module = "disk"
why = "nobody writes to disks"

[[delete_module]]
rule = "dead-module"
package = "store"
module = "any"
why = "there is nothing to choose between"

[[retire_enum]]
rule = "any-store"
type = "store::any::AnyStore"
becomes = "store::memory::MemoryStore"
survivor = "Memory"
why = "one store is left"
unwrap = ["from"]
rename = { in_memory = "new" }
always = { is_memory = true }
some = { as_memory = "ref" }

[retire_enum.gone]
on_disk = "build a `MemoryStore::new()`"

[[retire_wrapper]]
rule = "row"
type = "store::any::Row"
becomes = "store::memory::Cells"
payload = "cells"
why = "a row is its cells"
unwrap = ["from_cells"]

[retire_wrapper.gone]
bytes = "ask the cells"

[suggest]
DiskStore = "use `MemoryStore`"

[[surface]]
package = "store"
items = '''
pub mod memory {
    pub struct Cells { a: u64 }
    impl Cells { pub fn len(&self) -> usize {} }
    pub struct MemoryStore { a: u64 }
    impl MemoryStore {
        pub fn new() -> Self {}
        pub fn push(&mut self, cell: u64) {}
        pub fn row(&self) -> Cells {}
        #[pure] pub fn len(&self) -> usize {}
    }
}
pub mod disk {
    pub struct DiskStore { a: u64 }
}
pub mod any {
    use crate::{disk::DiskStore, memory::{Cells, MemoryStore}};
    pub enum AnyStore { Disk(Box<DiskStore>), Memory(MemoryStore) }
    impl AnyStore {
        pub fn in_memory() -> Self {}
        pub fn on_disk(path: &str) -> Self {}
        pub fn push(&mut self, cell: u64) {}
        pub fn row(&self) -> Row {}
        #[pure] pub fn len(&self) -> usize {}
        #[pure] pub fn is_memory(&self) -> bool {}
        #[pure] pub fn as_memory(&self) -> Option<&MemoryStore> {}
    }
    impl From<MemoryStore> for AnyStore { fn from(store: MemoryStore) -> Self {} }
    pub struct Row { pub cells: Option<Cells>, pub bytes: Vec<u8> }
    impl Row { pub fn from_cells(cells: Cells) -> Self {} }
}
pub use any::{AnyStore, Row};
pub use disk::DiskStore;
pub use memory::{Cells, MemoryStore};
'''
"#;

struct One<'t>(&'t str);

impl Loader for One<'_> {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        (path == "src/lib.rs").then(|| Rc::from(self.0))
    }
}

/// Migrates a library named `shop` that depends on `store`: names and imports of its code, then its documentation.
fn migrate(text: &str) -> (String, Said) {
    std::thread::scope(|scope| {
        let run = || {
            let migration = Migration::parse("stores", MIGRATION).unwrap();
            let externs = [("store".to_owned(), "store".to_owned())].into();
            let spec = CrateSpec {
                name: "shop".into(),
                package: "shop".into(),
                kind: CrateKind::Lib,
                edition: 2024,
                root: "src/lib.rs".into(),
                externs,
            };
            let mut world = World::build(&[spec], &migration.surfaces(), &One(text));
            let rules = Rules::compile(&mut world, &[migration]).unwrap();
            prepare(&mut world, &|_| true);
            let mut session = Session::new(&world, &rules);
            let at = session.add(world.file_id("src/lib.rs").unwrap());
            let context = session.works[at].contexts[0];
            let (modules, blocks) = session
                .view_before(at, |cx| names::usage(cx, context))
                .unwrap();
            let groups = session
                .view(at, context, |cx| names::rename_paths(cx, &[]))
                .unwrap();
            session.apply(at, &groups).unwrap();
            let groups = session
                .view(at, context, |cx| {
                    names::edit_imports(cx, context, &modules, &blocks, &|_, _| false)
                })
                .unwrap();
            session.apply(at, &groups).unwrap();
            let said = follow(&mut session, at).unwrap();
            (session.works[at].rope.text().to_owned(), said)
        };
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, run)
            .unwrap()
            .join()
            .unwrap()
    })
}

#[track_caller]
fn check(before: &str, after: &str) {
    let (text, said) = migrate(before);
    assert_eq!(text, after);
    assert_eq!(said.unresolved, []);
    let (again, said) = migrate(&text);
    assert_eq!(again, after, "a second run changes nothing");
    assert_eq!(said.unresolved, []);
}

#[track_caller]
fn check_untouched(text: &str) {
    let (after, said) = migrate(text);
    assert_eq!(after, text);
    assert_eq!((said.unresolved, said.notes), (vec![], vec![]));
}

/// The lines that are left of examples that stay as they are.
#[track_caller]
fn unresolved(text: &str) -> Vec<String> {
    let (after, said) = migrate(text);
    assert_eq!(after, text);
    let index = LineIndex::new(text);
    said.unresolved
        .iter()
        .map(|left| {
            assert_eq!(left.rule, RULE);
            format!("{}: {}", index.line(left.span.lo), left.span.text(text))
        })
        .collect()
}

const USES: &str = "use store::AnyStore;\npub fn f(_: AnyStore) {}\n";
const USED: &str = "use store::MemoryStore;\npub fn f(_: MemoryStore) {}\n";

#[track_caller]
fn check_link(before: &str, after: &str) {
    check(
        &format!("{USES}/// {before}\npub struct A;\n"),
        &format!("{USED}/// {after}\npub struct A;\n"),
    );
}

#[test]
fn a_link_by_name_gets_the_new_name() {
    check_link(
        "See [`AnyStore`], [AnyStore] and [`AnyStore`][].",
        "See [`MemoryStore`], [MemoryStore] and [`MemoryStore`][].",
    );
    check_link(
        "See [`AnyStore::push`] and [`AnyStore::push()`].",
        "See [`MemoryStore::push`] and [`MemoryStore::push()`].",
    );
    check_link("See [`AnyStore::in_memory`].", "See [`MemoryStore::new`].");
    check_link("See [`enum@AnyStore`].", "See [`struct@MemoryStore`].");
    check_link("See [`store::AnyStore`].", "See [`store::MemoryStore`].");
    check_link(
        "See [`store::any::AnyStore::push`].",
        "See [`store::MemoryStore::push`].",
    );
    check_link(
        "It is an [`AnyStore::Memory`].",
        "It is an [`MemoryStore`].",
    );
}

#[test]
fn a_target_changes_and_the_text_only_if_it_is_the_name() {
    check_link(
        "A [store](AnyStore), [`AnyStore`](store::AnyStore).",
        "A [store](MemoryStore), [`MemoryStore`](store::MemoryStore).",
    );
    check_link(
        "A [`push`](store::AnyStore::push \"adds\").",
        "A [`push`](store::MemoryStore::push \"adds\").",
    );
    check_link(
        "A [`in_memory`](AnyStore::in_memory) one.",
        "A [`new`](MemoryStore::new) one.",
    );
    check_link(
        "A [store][AnyStore], [one][it].\n///\n/// [it]: store::AnyStore",
        "A [store][MemoryStore], [one][it].\n///\n/// [it]: store::MemoryStore",
    );
    check_link(
        "A [`AnyStore`].\n///\n/// [`AnyStore`]: store::AnyStore#fields",
        "A [`MemoryStore`].\n///\n/// [`MemoryStore`]: store::MemoryStore#fields",
    );
    check_link(
        "Split [the\n/// store](AnyStore) here.",
        "Split [the\n/// store](MemoryStore) here.",
    );
}

#[test]
fn a_name_that_is_not_in_scope_gets_a_path() {
    check(
        "/// See [`store::AnyStore`] and [`AnyStore`].\npub mod a {}\n/// Like [`AnyStore::push`].\npub mod b {}\npub mod c {\n    //! Of [`Row`].\n    use store::Row;\n    pub(crate) fn n(row: super::R) -> usize { row.len() }\n    pub type X = Row;\n}\n",
        "/// See [`store::MemoryStore`] and [`AnyStore`].\npub mod a {}\n/// Like [`AnyStore::push`].\npub mod b {}\npub mod c {\n    //! Of [`Cells`].\n    use store::Cells;\n    pub(crate) fn n(row: super::R) -> usize { row.len() }\n    pub type X = Cells;\n}\n",
    );
    // The import goes with its last use in code.
    check(
        "use store::{AnyStore, MemoryStore as Kept};\n/// Makes an [`AnyStore`], [`AnyStore::push`].\npub fn f(a: Kept) -> usize { a.len() }\npub fn g(_: AnyStore) {}\n",
        "use store::MemoryStore as Kept;\n/// Makes an [`MemoryStore`](Kept), [`MemoryStore::push`](Kept::push).\npub fn f(a: Kept) -> usize { a.len() }\npub fn g(_: Kept) {}\n",
    );
    check(
        "/// A row is a [`Row`], a store an [`any::AnyStore`].\npub fn f() {}\nuse store::any::{self, Row};\n",
        "/// A row is a [`Cells`](store::Cells), a store an [`store::MemoryStore`].\npub fn f() {}\n",
    );
}

#[test]
fn a_link_to_nothing_becomes_code() {
    let text = format!(
        "{USES}/// Not [`AnyStore::on_disk`], [the disk](store::DiskStore) or [DiskStore][d]; nor [`store::disk`].\n///\n/// [d]: store::disk::DiskStore\npub struct A;\n"
    );
    let (after, said) = migrate(&text);
    assert_eq!(
        after,
        format!(
            "{USED}/// Not `AnyStore::on_disk`, the disk or DiskStore; nor `store::disk`.\n///\npub struct A;\n"
        )
    );
    let places: Vec<&str> = said
        .notes
        .iter()
        .map(|note| note.span.text(&text))
        .collect();
    assert_eq!(
        places,
        [
            "[`AnyStore::on_disk`]",
            "[the disk](store::DiskStore)",
            "[DiskStore][d]",
            "[`store::disk`]"
        ]
    );
    assert_eq!(
        said.notes[0].suggestion.as_deref(),
        Some("build a `MemoryStore::new()`")
    );
    assert_eq!(
        said.notes[1].suggestion.as_deref(),
        Some("use `MemoryStore`")
    );
}

#[test]
fn mentions_and_other_items_stay() {
    check_untouched(
        "//! AnyStore, `AnyStore`, \\[AnyStore\\], `[AnyStore]`.\npub struct A; // [`AnyStore`]\n",
    );
    check_untouched("/// See [`AnyStore`], [x](AnyStore::push).\npub enum AnyStore { A }\n");
    check_untouched(
        "use store::MemoryStore;\n/// See [`MemoryStore`], [x](https://a.b/AnyStore), [`Vec<AnyStore>`].\npub fn f(_: MemoryStore) {}\n",
    );
    check_untouched(
        "/// ```text\n/// [`store::AnyStore`] store::AnyStore\n/// ```\npub fn f() {}\n",
    );
    check_untouched(
        "// migrate: keep\n/// See [`store::AnyStore`].\n/// ```\n/// let a = store::AnyStore::in_memory();\n/// ```\npub fn f() {}\n",
    );
}

#[test]
fn every_form_of_comment_is_read() {
    check(
        "/*! See [`store::AnyStore`]. */\n/**\n * See [`store::Row`].\n *\n * ```\n * let a: Option<store::Row> = None;\n * ```\n */\npub fn f() {}\n#[doc = \"See [`store::Row`].\"]\n#[doc(alias = \"Row\")]\npub fn g() {}\n",
        "/*! See [`store::MemoryStore`]. */\n/**\n * See [`store::Cells`].\n *\n * ```\n * let a: Option<store::Cells> = None;\n * ```\n */\npub fn f() {}\n#[doc = \"See [`store::Cells`].\"]\n#[doc(alias = \"Row\")]\npub fn g() {}\n",
    );
}

#[test]
fn examples_are_code() {
    check(
        "//! ```\n//! use store::AnyStore;\n//! let b: Option<AnyStore> = None;\n//! ```\n",
        "//! ```\n//! use store::MemoryStore;\n//! let b: Option<MemoryStore> = None;\n//! ```\n",
    );
    check(
        "/// ```rust,no_run\n/// # use store::{AnyStore, MemoryStore};\n/// # fn demo(g: MemoryStore) {\n/// let b = AnyStore::Memory(g);\n/// assert_eq!(shop::rows(&b), 0); // empty\n/// # }\n/// ```\npub fn rows(b: &store::AnyStore) -> usize { b.len() }\n",
        "/// ```rust,no_run\n/// # use store::MemoryStore;\n/// # fn demo(g: MemoryStore) {\n/// let b = g;\n/// assert_eq!(shop::rows(&b), 0); // empty\n/// # }\n/// ```\npub fn rows(b: &store::MemoryStore) -> usize { b.len() }\n",
    );
}

#[test]
fn examples_with_a_main_and_windows_line_ends() {
    check(
        "//! Text.\r\n//!\r\n//! ```should_panic\r\n//! use store::{AnyStore, Cells};\r\n//!\r\n//! # fn main() {\r\n//! let a = AnyStore::in_memory();\r\n//! if let AnyStore::Memory(m) = &a {\r\n//!     println!(\"{}\", m.len());\r\n//! }\r\n//! # }\r\n//! # fn f(_: Cells) {}\r\n//! ```\r\n",
        "//! Text.\r\n//!\r\n//! ```should_panic\r\n//! use store::{Cells, MemoryStore};\r\n//!\r\n//! # fn main() {\r\n//! let a = MemoryStore::new();\r\n//! println!(\"{}\", a.len());\r\n//! # }\r\n//! # fn f(_: Cells) {}\r\n//! ```\r\n",
    );
}

#[test]
fn imports_of_an_example_stay_sorted_and_its_lines_hidden() {
    check(
        "/// ```\n/// # use store::{\n/// #     AnyStore,\n/// #     Cells, DiskStore,\n/// # };\n/// # fn f(_: Cells) {}\n/// let n = match &AnyStore::in_memory() {\n///     AnyStore::Memory(m) => m.len(),\n///     AnyStore::Disk(d) => { let _: &DiskStore = d; 0 }\n/// };\n/// ```\npub fn f() {}\n",
        "/// ```\n/// # use store::{\n/// #     Cells,\n/// #     MemoryStore\n/// # };\n/// # fn f(_: Cells) {}\n/// let n = MemoryStore::new().len();\n/// ```\npub fn f() {}\n",
    );
    // Where the others are in no order, nothing is sorted.
    check(
        "/// ```\n/// use store::{Zebra, AnyStore, Apple};\n/// fn f(_: AnyStore, _: Apple, _: Zebra) {}\n/// ```\npub fn f() {}\n",
        "/// ```\n/// use store::{Zebra, MemoryStore, Apple};\n/// fn f(_: MemoryStore, _: Apple, _: Zebra) {}\n/// ```\npub fn f() {}\n",
    );
}

#[test]
fn examples_in_a_list_and_indented_ones() {
    check(
        "/// * Once:\n///\n///   ~~~\n///   let a = store::AnyStore::in_memory();\n///   ~~~\npub fn f() {}\n/// Again:\n///\n///     # #[allow(unused)]\n///     let a = store::AnyStore::in_memory();\n///     ##[allow(unused)]\n///     let b = a.len();\npub fn g() {}\n",
        "/// * Once:\n///\n///   ~~~\n///   let a = store::MemoryStore::new();\n///   ~~~\npub fn f() {}\n/// Again:\n///\n///     # #[allow(unused)]\n///     let a = store::MemoryStore::new();\n///     ##[allow(unused)]\n///     let b = a.len();\npub fn g() {}\n",
    );
}

#[test]
fn examples_see_the_library_that_they_stand_in() {
    check(
        "pub use store::AnyStore as Store;\n/// ```\n/// let a = shop::Store::in_memory();\n/// let n = match &a { shop::Store::Memory(m) => m.len(), shop::Store::Disk(_) => 0 };\n/// ```\npub fn f() {}\n",
        "pub use store::MemoryStore as Store;\n/// ```\n/// let a = shop::Store::new();\n/// let n = a.len();\n/// ```\npub fn f() {}\n",
    );
}

#[test]
fn an_example_that_is_in_doubt_stays_whole() {
    let text = "/// ```\n/// use store::AnyStore;\n/// let a = AnyStore::in_memory();\n/// let d = AnyStore::on_disk(\"x\");\n/// ```\npub fn f() {}\n";
    assert_eq!(unresolved(text), ["4: AnyStore::on_disk(\"x\")"]);
    // Where nobody compiles it and nothing in it leads anywhere, it is a comment like any other.
    check_untouched("/// ```ignore\n/// let a: AnyStore = todo!();\n/// ```\npub fn f() {}\n");
    assert_eq!(
        unresolved("/// ```\n/// let a: AnyStore = todo!();\n/// ```\npub fn f() {}\n"),
        ["2: AnyStore"]
    );
    // It is to be refused by the compiler, or is no Rust.
    check_untouched(
        "/// ```compile_fail\n/// let a = store::AnyStore::in_memory();\n/// ```\npub fn f() {}\n",
    );
    check_untouched("/// ```\n/// store::AnyStore -> (nothing\n/// ```\npub fn f() {}\n");
}
