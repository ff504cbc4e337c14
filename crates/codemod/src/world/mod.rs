//! The tree as crates, modules and items: what a name means, and what type it has.
//!
//! Built from the sources alone, without cargo, so that it works offline and on trees that do not compile. All `cfg`
//! branches are there at once; where they disagree about a name, the name is ambiguous and nothing is said about it.

mod build;
mod lookup;
mod resolve;
mod std_surface;
pub mod types;
pub mod usual_surface;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::syntax::{self, File, Generics, Item, ParseFailure, Path, Sig, Span, Ty, Vis};

pub use build::{CrateSpec, Loader, Surface};
pub(crate) use build::{join, parent_dir};
pub use lookup::{FieldHit, MethodHit};
pub use resolve::{BlockScope, Ns, Res, Scope};
pub use types::{Type, TypeCtx};

pub type CrateId = usize;
pub type ModId = usize;
pub type DefId = usize;
pub type FileId = usize;
pub type ImplId = usize;

#[derive(Debug, Default)]
pub struct World {
    pub files: Vec<SourceFile>,
    pub crates: Vec<Krate>,
    pub mods: Vec<Module>,
    pub defs: Vec<Def>,
    pub impls: Vec<Impl>,
    file_ids: HashMap<String, FileId>,
    /// Inherent and trait implementations by the definition that their self type heads in.
    impls_of: HashMap<DefId, Vec<ImplId>>,
    /// Implementations for whatever fulfils their bounds, by trait: `impl<T: Bound> Trait for T`.
    blankets_of: HashMap<DefId, Vec<ImplId>>,
    /// Those with a method of a name, each with its trait.
    blankets_with: HashMap<String, Vec<(ImplId, DefId)>>,
    /// Traits that have an associated function of a name without a receiver.
    traits_with: HashMap<String, Vec<DefId>>,
    by_canonical: HashMap<String, DefId>,
    /// Items of surfaces for which the tree has a name in the same module.
    surface_names: Vec<(ModId, String)>,
    std_crate: Option<CrateId>,
    /// A retired type to the one that takes its place: what the old one lacks is looked up there.
    successors: HashMap<DefId, DefId>,
    answers: resolve::Answers,
}

/// A file of the tree, or the text of a surface.
#[derive(Debug)]
pub struct SourceFile {
    /// From the root, with `/`; surfaces have a path in angle brackets.
    pub path: String,
    pub text: Rc<str>,
    pub parsed: Result<Rc<File>, ParseFailure>,
    /// The modules that this file is the body of: several where `#[path]` names it twice or targets share it.
    pub contexts: Vec<ModId>,
    /// Included by `include!` rather than declared by `mod`.
    pub is_fragment: bool,
}

#[derive(Debug)]
pub struct Krate {
    /// As code outside names it, with `_`.
    pub name: String,
    pub package: String,
    pub root: ModId,
    /// What each name of the extern prelude stands for; `None` for a crate that is not in the tree.
    pub externs: BTreeMap<String, Option<CrateId>>,
    pub edition: u16,
    pub kind: CrateKind,
    /// `extern crate a as b;` in the root: `b` is seen in every module, as a dependency's own name is.
    pub(crate) renames: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrateKind {
    Lib,
    Bin,
    Test,
    Bench,
    Example,
    BuildScript,
    /// Declared by a migration or by the engine, not part of the tree.
    Surface,
}

impl CrateKind {
    /// Code that exists only to test or show other code.
    pub fn is_test_like(self) -> bool {
        matches!(
            self,
            CrateKind::Test | CrateKind::Bench | CrateKind::Example
        )
    }
}

#[derive(Debug)]
pub struct Module {
    pub krate: CrateId,
    pub parent: Option<ModId>,
    pub name: String,
    /// The file that its items stand in.
    pub file: FileId,
    /// Braces of an inline module.
    pub braces: Option<Span>,
    /// The `mod` item: file and span, attributes included.
    pub decl: Option<(FileId, Span)>,
    pub is_cfg_test: bool,
    pub has_cfg: bool,
    pub entries: BTreeMap<String, Vec<Entry>>,
    pub globs: Vec<Glob>,
    /// Not in the tree: added from a surface.
    pub synthetic: bool,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub vis: Vis,
    pub kind: EntryKind,
    /// Of the item or the leaf of a `use`.
    pub span: Span,
    pub file: FileId,
}

#[derive(Debug, Clone)]
pub enum EntryKind {
    Def(DefId),
    Mod(ModId),
    Use {
        leading_colon: bool,
        path: Vec<String>,
    },
}

#[derive(Debug, Clone)]
pub struct Glob {
    pub vis: Vis,
    pub leading_colon: bool,
    pub path: Vec<String>,
    pub span: Span,
    pub file: FileId,
}

#[derive(Debug)]
pub struct Def {
    pub name: String,
    /// `package::module::Name`, the package with `_`.
    pub canonical: String,
    pub module: ModId,
    pub file: FileId,
    pub span: Span,
    pub name_span: Span,
    pub vis: Vis,
    pub kind: DefKind,
    pub has_cfg: bool,
    pub derives: Vec<String>,
    /// Fields that only the module itself sees.
    pub private_fields: Vec<String>,
}

#[derive(Debug)]
pub enum DefKind {
    Struct {
        generics: Generics,
        fields: Vec<(String, Ty)>,
        is_tuple: bool,
    },
    Enum {
        generics: Generics,
        variants: Vec<VariantDef>,
    },
    Trait {
        generics: Generics,
        supertraits: Vec<Path>,
        fns: Vec<FnDef>,
        assoc: Vec<String>,
    },
    Alias {
        generics: Generics,
        ty: Ty,
    },
    Fn(FnDef),
    Const {
        ty: Ty,
    },
    Macro {
        exported: bool,
    },
}

#[derive(Debug)]
pub struct VariantDef {
    pub name: String,
    pub fields: Vec<(String, Ty)>,
    pub is_tuple: bool,
}

/// A function's signature where it stands.
#[derive(Debug, Clone)]
pub struct FnDef {
    pub name: String,
    pub sig: Rc<Sig>,
    pub file: FileId,
    pub span: Span,
    /// Has no effect but its value: a call whose value is not wanted may go.
    pub pure: bool,
    /// The methods it calls, where it does nothing else but read.
    hands_on: Option<Vec<String>>,
}

#[derive(Debug)]
pub struct Impl {
    pub module: ModId,
    pub file: FileId,
    pub span: Span,
    pub generics: Rc<Generics>,
    pub of_trait: Option<Path>,
    pub self_ty: Ty,
    pub fns: Vec<FnDef>,
    pub assoc: Vec<(String, Ty)>,
}

impl World {
    pub fn file_id(&self, path: &str) -> Option<FileId> {
        self.file_ids.get(path).copied()
    }

    /// The definition with this canonical path: `ml_dqn::replay_buffer::ReplayBuffer`.
    pub fn canonical(&self, path: &str) -> Option<DefId> {
        self.by_canonical.get(path).copied()
    }

    pub fn set_successor(&mut self, old: DefId, new: DefId) {
        self.successors.insert(old, new);
    }

    pub fn successor(&self, old: DefId) -> Option<DefId> {
        self.successors.get(&old).copied()
    }

    /// Whether code of this module is only built for tests, benches or examples.
    pub fn is_test_code(&self, module: ModId) -> bool {
        let krate = self.mods[module].krate;
        self.crates[krate].kind.is_test_like()
            || self.ancestors(module).any(|at| self.mods[at].is_cfg_test)
    }

    /// The module and those around it, innermost first.
    pub fn ancestors(&self, module: ModId) -> impl Iterator<Item = ModId> + '_ {
        std::iter::successors(Some(module), |&at| self.mods[at].parent)
    }

    /// `crate::a::b`, with the crate's name in front.
    pub fn module_path(&self, module: ModId) -> String {
        let mut names: Vec<&str> = self
            .ancestors(module)
            .map(|at| self.mods[at].name.as_str())
            .collect();
        names.reverse();
        names.join("::")
    }

    pub fn is_descendant(&self, module: ModId, of: ModId) -> bool {
        self.ancestors(module).any(|at| at == of)
    }

    /// The `nth` module of this name that stands in the tree: `cfg` branches may declare several.
    pub fn nth_child(&self, module: ModId, name: &str, nth: usize) -> Option<ModId> {
        let mods = self.mods[module]
            .entries
            .get(name)?
            .iter()
            .filter_map(|entry| match entry.kind {
                EntryKind::Mod(id) => Some(id),
                _ => None,
            });
        let all: Vec<ModId> = mods.collect();
        all.get(nth).or(all.first()).copied()
    }

    pub fn trait_named(&self, module: ModId, name: &str) -> Option<DefId> {
        self.mods[module]
            .entries
            .get(name)?
            .iter()
            .find_map(|entry| match entry.kind {
                EntryKind::Def(def) if matches!(self.defs[def].kind, DefKind::Trait { .. }) => {
                    Some(def)
                }
                _ => None,
            })
    }

    /// Lets a module show what another one holds, where it has nothing of that name itself.
    pub fn see_through(&mut self, module: ModId, other: ModId) {
        let path: Vec<String> = self
            .module_path(other)
            .split("::")
            .skip(1)
            .map(str::to_owned)
            .collect();
        let glob = Glob {
            vis: Vis::Public,
            leading_colon: false,
            path: std::iter::once("crate".to_owned()).chain(path).collect(),
            span: Span::default(),
            file: self.mods[module].file,
        };
        self.mods[module].globs.push(glob);
    }

    pub fn std_path(&self, path: &str) -> Option<DefId> {
        self.canonical(path)
    }

    /// The crate of a package's library, if it is in the tree.
    pub fn lib_of(&self, package: &str) -> Option<CrateId> {
        self.crates
            .iter()
            .position(|krate| krate.package == package && krate.kind == CrateKind::Lib)
            .or_else(|| {
                self.crates
                    .iter()
                    .position(|krate| krate.package == package && krate.kind == CrateKind::Surface)
            })
    }

    /// A module of a crate by its path below the root.
    pub fn module_at<'a>(
        &self,
        krate: CrateId,
        path: impl IntoIterator<Item = &'a str>,
    ) -> Option<ModId> {
        let mut at = self.crates[krate].root;
        for name in path {
            at = self.child(at, name)?;
        }
        Some(at)
    }

    pub fn child(&self, module: ModId, name: &str) -> Option<ModId> {
        self.mods[module]
            .entries
            .get(name)?
            .iter()
            .find_map(|entry| match entry.kind {
                EntryKind::Mod(id) => Some(id),
                _ => None,
            })
    }
}

/// Whether attributes hold a `cfg`, and whether that is `cfg(test)`.
fn cfgs(attrs: &[syntax::Attr]) -> (bool, bool) {
    let mut has = false;
    let mut test = false;
    for attr in attrs.iter().filter(|attr| attr.path == "cfg") {
        has = true;
        test |= attr.tokens.trim() == "test";
    }
    (has, test)
}

fn item_name(item: &Item) -> Option<(&str, Span)> {
    item.name
        .as_ref()
        .map(|name| (name.text.as_str(), name.span))
}
