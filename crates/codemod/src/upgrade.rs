//! A dependency in a new version: new names and places of its items, methods that went to other traits, calls whose result
//! has another type, and the manifests that ask for it.
//!
//! Old and new items are declared side by side, so each file is looked at once, as it was; every edit stands at a name or
//! right behind a call, so that no two meet. What is not certain is left alone and reported: a method call is ours if its
//! receiver is known to have the trait, or if the trait is in scope and nothing else can be meant.

mod calls;
mod impls;
mod imports;
pub mod manifest;
mod methods;
mod paths;
mod scope;
mod snippets;
mod tokens;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::edit::{Edit, EditGroup};
use crate::leftover::Leftover;
use crate::manifest::version::Side;
use crate::rewrite::Cx;
use crate::rule::{
    DropMethod, Gone, Migration, MoveMethods, NowFallible, NowInfallible, Recast, RenameItem,
    RenameMethods, RuleError, UpgradeDependency, WrapValue,
};
use crate::syntax::Span;
use crate::world::{CrateKind, DefId, ModId, Ns, Res, World};

pub use scope::Scopes;

/// Something that a path can lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    Def(DefId),
    Mod(ModId),
}

impl Place {
    fn of(res: &Res) -> Option<Place> {
        match res {
            Res::Def(def) => Some(Place::Def(*def)),
            Res::Mod(module) => Some(Place::Mod(*module)),
            _ => None,
        }
    }

    /// The module that it stands in.
    fn home(self, world: &World) -> Option<ModId> {
        match self {
            Place::Def(def) => Some(world.defs[def].module),
            Place::Mod(module) => world.mods[module].parent,
        }
    }

    fn name(self, world: &World) -> &str {
        match self {
            Place::Def(def) => &world.defs[def].name,
            Place::Mod(module) => &world.mods[module].name,
        }
    }
}

#[derive(Debug)]
pub struct ItemRule {
    pub spec: RenameItem,
    pub old: Place,
    pub new: Place,
    /// Modules that re-export it no more.
    pub left: Vec<ModId>,
}

/// A rule about members of one type or trait.
#[derive(Debug)]
pub struct OwnerRule<S> {
    pub spec: S,
    pub owner: DefId,
}

#[derive(Debug)]
pub struct MovedRule {
    pub spec: MoveMethods,
    pub owner: DefId,
    /// Method to the trait that has it now.
    pub methods: BTreeMap<String, DefId>,
}

#[derive(Debug)]
pub struct FallibleRule {
    pub spec: NowFallible,
    pub owner: DefId,
    pub error: DefId,
}

#[derive(Debug)]
pub struct RecastRule {
    pub spec: Recast,
    /// A function, or the type or trait with the method's name.
    pub functions: Vec<(DefId, Option<String>)>,
}

#[derive(Debug)]
pub struct WrapRule {
    pub spec: WrapValue,
    pub value: DefId,
    pub lost: Vec<DefId>,
    /// The trait that has the method.
    pub import: DefId,
}

/// The rules of a migration that are about a dependency's new version.
#[derive(Debug, Default)]
pub struct Upgrade {
    pub items: Vec<ItemRule>,
    pub methods: Vec<OwnerRule<RenameMethods>>,
    pub moved: Vec<MovedRule>,
    pub fallible: Vec<FallibleRule>,
    pub infallible: Vec<OwnerRule<NowInfallible>>,
    pub dropped: Vec<OwnerRule<DropMethod>>,
    pub recast: Vec<RecastRule>,
    pub wrapped: Vec<WrapRule>,
    pub gone: Vec<OwnerRule<Gone>>,
    pub dependencies: Vec<UpgradeDependency>,
    /// Which version each package of the tree is written against.
    pub sides: HashMap<String, Side>,
    /// Packages that each package of the tree depends on.
    pub depends_on: HashMap<String, HashSet<String>>,
    by_old: HashMap<Place, usize>,
}

impl Upgrade {
    /// Looks up what the migrations name.
    ///
    /// # Errors
    /// An item that no surface declares.
    pub fn compile(world: &mut World, migrations: &[Migration]) -> Result<Upgrade, RuleError> {
        let mut out = Upgrade::default();
        for migration in migrations {
            let unknown = |rule: &str, path: &str| RuleError::UnknownItem {
                id: migration.id.clone(),
                rule: rule.to_owned(),
                path: path.to_owned(),
            };
            let place = |world: &World, rule: &str, path: &str| {
                place(world, path).ok_or_else(|| unknown(rule, path))
            };
            let def = |world: &World, rule: &str, path: &str| {
                world.canonical(path).ok_or_else(|| unknown(rule, path))
            };
            for spec in &migration.rename_item {
                let old = place(world, &spec.rule, &spec.item)?;
                let new = place(world, &spec.rule, &spec.becomes)?;
                let left = spec
                    .left
                    .iter()
                    .map(|path| match place(world, &spec.rule, path)? {
                        Place::Mod(module) => Ok(module),
                        Place::Def(_) => Err(unknown(&spec.rule, path)),
                    })
                    .collect::<Result<_, _>>()?;
                // What the new module holds is seen through the old one, as that will be it.
                if let (Place::Mod(old), Place::Mod(new)) = (old, new) {
                    world.see_through(old, new);
                }
                out.by_old.insert(old, out.items.len());
                out.items.push(ItemRule {
                    spec: spec.clone(),
                    old,
                    new,
                    left,
                });
            }
            for spec in &migration.rename_methods {
                let owner = def(world, &spec.rule, &spec.owner)?;
                out.methods.push(OwnerRule {
                    spec: spec.clone(),
                    owner,
                });
            }
            for spec in &migration.move_methods {
                let owner = def(world, &spec.rule, &spec.owner)?;
                let methods = spec
                    .methods
                    .iter()
                    .map(|(name, path)| Ok((name.clone(), def(world, &spec.rule, path)?)))
                    .collect::<Result<_, RuleError>>()?;
                out.moved.push(MovedRule {
                    spec: spec.clone(),
                    owner,
                    methods,
                });
            }
            for spec in &migration.now_fallible {
                out.fallible.push(FallibleRule {
                    owner: def(world, &spec.rule, &spec.owner)?,
                    error: def(world, &spec.rule, &spec.error)?,
                    spec: spec.clone(),
                });
            }
            for spec in &migration.now_infallible {
                out.infallible.push(OwnerRule {
                    owner: def(world, &spec.rule, &spec.owner)?,
                    spec: spec.clone(),
                });
            }
            for spec in &migration.drop_method {
                out.dropped.push(OwnerRule {
                    owner: def(world, &spec.rule, &spec.owner)?,
                    spec: spec.clone(),
                });
            }
            for spec in &migration.recast {
                let functions = spec
                    .functions
                    .iter()
                    .map(|path| {
                        if let Some(found) = world.canonical(path) {
                            return Ok((found, None));
                        }
                        let (owner, name) = path
                            .rsplit_once("::")
                            .ok_or_else(|| unknown(&spec.rule, path))?;
                        Ok((def(world, &spec.rule, owner)?, Some(name.to_owned())))
                    })
                    .collect::<Result<_, RuleError>>()?;
                out.recast.push(RecastRule {
                    spec: spec.clone(),
                    functions,
                });
            }
            for spec in &migration.wrap_value {
                out.wrapped.push(WrapRule {
                    value: def(world, &spec.rule, &spec.value)?,
                    lost: spec
                        .lost
                        .iter()
                        .map(|path| def(world, &spec.rule, path))
                        .collect::<Result<_, _>>()?,
                    import: def(world, &spec.rule, &spec.import)?,
                    spec: spec.clone(),
                });
            }
            for spec in &migration.gone {
                out.gone.push(OwnerRule {
                    owner: def(world, &spec.rule, &spec.item)?,
                    spec: spec.clone(),
                });
            }
            out.dependencies
                .extend(migration.upgrade_dependency.iter().cloned());
        }
        Ok(out)
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.methods.is_empty()
            && self.moved.is_empty()
            && self.fallible.is_empty()
            && self.infallible.is_empty()
            && self.dropped.is_empty()
            && self.recast.is_empty()
            && self.wrapped.is_empty()
            && self.gone.is_empty()
    }

    /// The reason that a rule gives for itself.
    pub fn why(&self, rule: &str) -> Option<&str> {
        let items = self.items.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let methods = self.methods.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let moved = self.moved.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let fallible = self.fallible.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let infallible = self
            .infallible
            .iter()
            .map(|it| (&it.spec.rule, &it.spec.why));
        let dropped = self.dropped.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let recast = self.recast.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let wrapped = self.wrapped.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let gone = self.gone.iter().map(|it| (&it.spec.rule, &it.spec.why));
        let dependencies = self.dependencies.iter().map(|it| (&it.rule, &it.why));
        items
            .chain(methods)
            .chain(moved)
            .chain(fallible)
            .chain(infallible)
            .chain(dropped)
            .chain(recast)
            .chain(wrapped)
            .chain(gone)
            .chain(dependencies)
            .find(|(name, _)| *name == rule)
            .map(|(_, why)| why.as_str())
    }

    /// Last names of the items that paths are looked at for.
    pub fn names<'a>(&'a self, world: &'a World) -> impl Iterator<Item = &'a str> {
        let items = self.items.iter().map(|rule| rule.old.name(world));
        let gone = self
            .gone
            .iter()
            .filter(|rule| rule.spec.method.is_none())
            .map(|rule| world.defs[rule.owner].name.as_str());
        items.chain(gone)
    }

    fn item(&self, res: &Res) -> Option<&ItemRule> {
        self.by_old.get(&Place::of(res)?).map(|&at| &self.items[at])
    }

    /// What an old module is by its new name, or itself.
    fn successor(&self, module: ModId) -> ModId {
        match self.by_old.get(&Place::Mod(module)) {
            Some(&at) => match self.items[at].new {
                Place::Mod(new) => new,
                Place::Def(_) => module,
            },
            None => module,
        }
    }

    /// Whether a module's code was written against the old version.
    fn is_before(&self, world: &World, module: ModId) -> bool {
        let package = &world.crates[world.mods[module].krate].package;
        match self.sides.get(package) {
            Some(side) => *side == Side::Before,
            None => self.sides.values().any(|side| *side == Side::Before),
        }
    }
}

/// A definition or a module by its canonical path.
fn place(world: &World, path: &str) -> Option<Place> {
    if let Some(def) = world.canonical(path) {
        return Some(Place::Def(def));
    }
    let mut names = path.split("::");
    let package = names.next()?;
    let krate = world.crates.iter().position(|krate| {
        matches!(krate.kind, CrateKind::Lib | CrateKind::Surface)
            && krate.package.replace('-', "_") == package
    })?;
    world.module_at(krate, names).map(Place::Mod)
}

/// What a look at a file gives.
#[derive(Debug, Default)]
pub struct Found {
    pub edits: Vec<Edit>,
    pub left: Vec<Leftover>,
    /// Functions that go: where they begin, what they are, why, and the rule.
    pub deleted: Vec<(usize, String, String, String)>,
}

impl Found {
    fn leave(&mut self, span: Span, rule: &str, reason: String, hint: Option<String>) {
        self.left.push(Leftover {
            span,
            rule: rule.to_owned(),
            reason,
            suggestion: hint,
            dead: false,
            reads: false,
        });
    }

    /// The edits as one group: they were made for the same text.
    pub fn group(&self) -> Option<EditGroup> {
        let mut edits: Vec<Edit> = Vec::new();
        let mut sorted: Vec<&Edit> = self.edits.iter().collect();
        sorted.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        for edit in sorted {
            match edits.last_mut() {
                // Two insertions at one place are one: the later one stands behind.
                Some(last) if last.span == edit.span && edit.span.is_empty() => {
                    last.text.push_str(&edit.text)
                }
                Some(last) if last.span == edit.span || last.span.overlaps(edit.span) => {}
                _ => edits.push(edit.clone()),
            }
        }
        (!edits.is_empty()).then_some(EditGroup { edits })
    }
}

/// Names that keep their old spelling in a module, as tokens that nobody reads name them, or the new one is taken.
pub type Aliased = HashSet<(ModId, String)>;

/// The old names that imports of a file have to go on bringing.
pub fn aliases(cx: &Cx<'_>, module: ModId) -> Aliased {
    let scopes = Scopes::of(cx, module);
    imports::aliases(cx, &scopes)
}

/// What is to be done in a file, and what is left.
pub fn look(cx: &Cx<'_>, module: ModId, aliased: &Aliased) -> Found {
    let scopes = Scopes::of(cx, module);
    look_in(cx, &scopes, aliased, 0)
}

/// `depth`: how many macros stand around.
fn look_in(cx: &Cx<'_>, scopes: &Scopes<'_>, aliased: &Aliased, depth: usize) -> Found {
    let mut found = Found::default();
    paths::look(cx, scopes, aliased, &mut found);
    imports::look(cx, scopes, aliased, &mut found);
    methods::look(cx, scopes, &mut found);
    calls::look(cx, scopes, &mut found);
    impls::look(cx, scopes, &mut found);
    let read = snippets::look(cx, scopes, aliased, depth);
    tokens::look(cx, scopes, &read, &mut found);
    for inner in read.into_values() {
        found.edits.extend(inner.edits);
        found.left.extend(inner.left);
        found.deleted.extend(inner.deleted);
    }
    imports::unused(cx, scopes, &mut found);
    found.edits.retain(|edit| !cx.is_frozen(edit.span));
    // A stretch that goes takes the edits inside of it along.
    let gone: Vec<Span> = found
        .edits
        .iter()
        .filter(|edit| edit.text.is_empty())
        .map(|edit| edit.span)
        .collect();
    let inside = |span: Span| gone.iter().any(|gone| gone.contains(span) && *gone != span);
    found.edits.retain(|edit| !inside(edit.span));
    found
        .left
        .retain(|left| !inside(left.span) && !cx.is_frozen(left.span));
    found
        .left
        .sort_by_key(|left| (left.span.lo, std::cmp::Reverse(left.span.hi)));
    let mut kept: Vec<Leftover> = Vec::new();
    for left in std::mem::take(&mut found.left) {
        if !kept
            .iter()
            .any(|other| other.span.overlaps(left.span) || (other.span == left.span))
        {
            kept.push(left);
        }
    }
    found.left = kept;
    found
}

/// A path to an item from a module, by the name that its crate has there.
fn full_path(cx: &Cx<'_>, module: ModId, place: Place) -> String {
    let world = cx.world;
    let home = match place {
        Place::Def(def) => world.defs[def].module,
        Place::Mod(module) => module,
    };
    let there = world.mods[home].krate;
    let here = world.mods[module].krate;
    let head = world.crates[here]
        .externs
        .iter()
        .find(|(_, krate)| **krate == Some(there))
        .map_or_else(
            || world.crates[there].name.clone(),
            |(name, _)| name.clone(),
        );
    let path = world.module_path(home);
    let below = path.split_once("::").map_or("", |(_, below)| below);
    let mut parts = vec![head.as_str()];
    parts.extend(below.split("::").filter(|part| !part.is_empty()));
    if let Place::Def(def) = place {
        parts.push(&world.defs[def].name);
    }
    parts.join("::")
}

/// What a name means in a module, as a type or as a value.
fn any_name_in(world: &World, module: ModId, name: &str, from: Option<ModId>) -> Res {
    match world.name_in(module, name, Ns::Type, from) {
        Res::Unknown => world.name_in(module, name, Ns::Value, from),
        res => res,
    }
}
