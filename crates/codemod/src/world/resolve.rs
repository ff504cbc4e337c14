//! What a path means where it stands.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::*;

/// What a path's leading segments mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Res {
    Def(DefId),
    Mod(ModId),
    /// A variant of an enum, by its place.
    Variant(DefId, usize),
    /// Something of a crate that is not in the tree: its path.
    External(String),
    Prim(&'static str),
    /// A generic parameter in scope.
    Param(String),
    /// `Self`.
    SelfTy,
    /// An item declared inside the function; known not to be anything else.
    LocalItem(String),
    /// A function declared inside the function.
    LocalFn(String),
    /// `cfg` branches disagree, or two globs do.
    Ambiguous,
    /// No such name, or it may come from somewhere that cannot be seen.
    Unknown,
}

/// Which kinds of thing are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ns {
    Type,
    Value,
    Macro,
}

/// Names that the items of a block bring into scope.
#[derive(Debug, Clone, Default)]
pub struct BlockScope {
    pub entries: BTreeMap<String, Vec<Entry>>,
    pub globs: Vec<Glob>,
    pub locals: BTreeSet<String>,
    pub fns: HashMap<String, FnDef>,
    /// Generic parameters of a function declared here hide outer names.
    pub params: Vec<String>,
}

/// Where a path stands.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub module: ModId,
    /// From the outermost block to the innermost.
    pub blocks: &'a [BlockScope],
    pub params: &'a [String],
}

pub const PRIMS: &[&str] = &[
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
    "i128", "isize", "f32", "f64",
];

/// What is being looked up at the moment: asking for it again leads nowhere.
#[derive(Debug, Default)]
struct Guard<'a> {
    names: Vec<(ModId, &'a str, bool)>,
    globs: Vec<GlobAt>,
}

impl Guard<'_> {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }
}

/// A glob, by where it stands; a file may be the body of several modules.
type GlobAt = (FileId, Span, ModId);

/// What names mean in each [`Ns`], as far as it was asked for.
type Meanings = HashMap<String, [Option<Res>; 3]>;

/// Answers of earlier look-ups, thrown away whenever something is added.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By the module that is asked and the one that asks, then by name.
    names: RefCell<HashMap<(ModId, Option<ModId>), Meanings>>,
    globs: RefCell<HashMap<GlobAt, Res>>,
}

impl Answers {
    pub(super) fn clear(&mut self) {
        self.names.get_mut().clear();
        self.globs.get_mut().clear();
    }

    fn name(&self, module: ModId, name: &str, ns: Ns, from: Option<ModId>) -> Option<Res> {
        self.names.borrow().get(&(module, from))?.get(name)?[ns as usize].clone()
    }

    fn keep_name(&self, module: ModId, name: &str, ns: Ns, from: Option<ModId>, found: Res) {
        let mut names = self.names.borrow_mut();
        let of_module = names.entry((module, from)).or_default();
        match of_module.get_mut(name) {
            Some(known) => known[ns as usize] = Some(found),
            None => {
                let mut known = [const { None }; 3];
                known[ns as usize] = Some(found);
                of_module.insert(name.to_owned(), known);
            }
        }
    }
}

impl World {
    /// Resolves as many segments as name modules, items and variants; returns how many that were.
    ///
    /// What is left are associated items of a type.
    pub fn resolve(
        &self,
        scope: Scope<'_>,
        leading_colon: bool,
        segs: &[&str],
        ns: Ns,
    ) -> (Res, usize) {
        self.resolve_guarded(scope, leading_colon, segs, ns, &mut Guard::default())
    }

    pub fn resolve_path(&self, scope: Scope<'_>, path: &Path, ns: Ns) -> (Res, usize) {
        if path.qself.is_some() {
            return (Res::Unknown, 0);
        }
        self.resolve(scope, path.leading_colon, &path.names(), ns)
    }

    fn resolve_guarded<'a>(
        &'a self,
        scope: Scope<'a>,
        leading_colon: bool,
        segs: &[&'a str],
        ns: Ns,
        guard: &mut Guard<'a>,
    ) -> (Res, usize) {
        let Some(&first) = segs.first() else {
            return (Res::Unknown, 0);
        };
        let ns_of = |at: usize| if at + 1 == segs.len() { ns } else { Ns::Type };
        let mut at = 0;
        let mut res = if leading_colon && self.crates[self.mods[scope.module].krate].edition >= 2018
        {
            at = 1;
            self.extern_crate(scope.module, first)
        } else {
            match first {
                "crate" | "$crate" => {
                    at = 1;
                    Res::Mod(self.crates[self.mods[scope.module].krate].root)
                }
                "self" | "super" => {
                    let mut module = scope.module;
                    if first == "self" {
                        at = 1;
                    }
                    while segs.get(at) == Some(&"super") {
                        let Some(parent) = self.mods[module].parent else {
                            return (Res::Unknown, at);
                        };
                        module = parent;
                        at += 1;
                    }
                    Res::Mod(module)
                }
                "Self" => {
                    at = 1;
                    Res::SelfTy
                }
                name => {
                    at = 1;
                    self.first_name(scope, name, ns_of(0), guard)
                }
            }
        };
        while at < segs.len() {
            let name = segs[at];
            let next = match &res {
                Res::Mod(module) => {
                    self.in_module(*module, name, ns_of(at), Some(scope.module), guard)
                }
                Res::Def(def) => match &self.defs[*def].kind {
                    DefKind::Enum { variants, .. } => {
                        match variants.iter().position(|variant| variant.name == name) {
                            Some(n) => Res::Variant(*def, n),
                            None => return (res, at),
                        }
                    }
                    // `type Memory = Buffer; Memory::Gpu(_)`
                    DefKind::Alias { .. } => match self.unalias(res.clone()) {
                        Res::Def(inner) if inner != *def => match &self.defs[inner].kind {
                            DefKind::Enum { variants, .. } => {
                                match variants.iter().position(|variant| variant.name == name) {
                                    Some(n) => Res::Variant(inner, n),
                                    None => return (res, at),
                                }
                            }
                            _ => return (res, at),
                        },
                        _ => return (res, at),
                    },
                    _ => return (res, at),
                },
                Res::External(path) => Res::External(format!("{path}::{name}")),
                _ => return (res, at),
            };
            if next == Res::Unknown {
                return (Res::Unknown, at);
            }
            res = next;
            at += 1;
        }
        (res, at)
    }

    /// A name with nothing in front of it.
    fn first_name<'a>(
        &'a self,
        scope: Scope<'a>,
        name: &'a str,
        ns: Ns,
        guard: &mut Guard<'a>,
    ) -> Res {
        for block in scope.blocks.iter().rev() {
            if block.params.iter().any(|param| param == name) {
                return Res::Param(name.to_owned());
            }
            if block.locals.contains(name) {
                return Res::LocalItem(name.to_owned());
            }
            if ns == Ns::Value && block.fns.contains_key(name) {
                return Res::LocalFn(name.to_owned());
            }
            if let Some(entries) = block.entries.get(name) {
                let found = self.pick(scope.module, entries.iter(), ns, guard);
                if found != Res::Unknown {
                    return found;
                }
            }
            let found = self.through_globs(scope.module, &block.globs, name, ns, None, guard);
            if found != Res::Unknown {
                return found;
            }
        }
        if scope.params.iter().any(|param| param == name) {
            return Res::Param(name.to_owned());
        }
        let found = self.in_module(scope.module, name, ns, Some(scope.module), guard);
        if found != Res::Unknown {
            return found;
        }
        if ns == Ns::Type {
            let found = self.extern_crate(scope.module, name);
            if found != Res::Unknown {
                return found;
            }
            if let Some(prim) = PRIMS.iter().find(|prim| **prim == name) {
                return Res::Prim(prim);
            }
        }
        self.prelude(name, ns, guard)
    }

    fn prelude<'a>(&'a self, name: &'a str, ns: Ns, guard: &mut Guard<'a>) -> Res {
        let Some(std) = self.std_crate else {
            return Res::Unknown;
        };
        match self.module_at(std, ["prelude"]) {
            Some(prelude) => self.in_module(prelude, name, ns, None, guard),
            None => Res::Unknown,
        }
    }

    fn extern_crate(&self, module: ModId, name: &str) -> Res {
        if let Some(std) = self.std_crate
            && matches!(name, "std" | "core" | "alloc")
        {
            return Res::Mod(self.crates[std].root);
        }
        match self.crates[self.mods[module].krate].externs.get(name) {
            Some(Some(krate)) => Res::Mod(self.crates[*krate].root),
            Some(None) => Res::External(name.to_owned()),
            None => Res::Unknown,
        }
    }

    /// A name inside a module, seen from `from`.
    fn in_module<'a>(
        &'a self,
        module: ModId,
        name: &'a str,
        ns: Ns,
        from: Option<ModId>,
        guard: &mut Guard<'a>,
    ) -> Res {
        // What is found on the way to something else may have been cut short by the guard, so only whole answers are kept.
        let is_whole = guard.is_empty();
        if is_whole && let Some(known) = self.answers.name(module, name, ns, from) {
            return known;
        }
        let key = (module, name, ns == Ns::Type);
        if guard.names.contains(&key) || guard.names.len() > 64 {
            return Res::Unknown;
        }
        guard.names.push(key);
        let mut found = self.own_name(module, name, ns, from, guard);
        if found == Res::Unknown {
            found = self.through_globs(module, &self.mods[module].globs, name, ns, from, guard);
        }
        guard.names.pop();
        // std is declared in part only: what it lacks is std's all the same.
        if found == Res::Unknown
            && Some(self.mods[module].krate) == self.std_crate
            && self.mods[module].name != "prelude"
        {
            found = Res::External(format!("{}::{name}", self.module_path(module)));
        }
        if is_whole {
            self.answers
                .keep_name(module, name, ns, from, found.clone());
        }
        found
    }

    /// A name that a module declares or imports by itself.
    fn own_name<'a>(
        &'a self,
        module: ModId,
        name: &'a str,
        ns: Ns,
        from: Option<ModId>,
        guard: &mut Guard<'a>,
    ) -> Res {
        let Some(entries) = self.mods[module].entries.get(name) else {
            return Res::Unknown;
        };
        let visible = entries
            .iter()
            .filter(|entry| self.sees(from, module, &entry.vis));
        self.pick(module, visible, ns, guard)
    }

    fn sees(&self, from: Option<ModId>, module: ModId, vis: &Vis) -> bool {
        match (vis, from) {
            (Vis::Public, _) => true,
            (_, None) => false,
            (Vis::Private, Some(from)) => self.is_descendant(from, module),
            (Vis::Restricted(_), Some(from)) => self.mods[from].krate == self.mods[module].krate,
        }
    }

    fn pick<'a>(
        &'a self,
        module: ModId,
        entries: impl Iterator<Item = &'a Entry>,
        ns: Ns,
        guard: &mut Guard<'a>,
    ) -> Res {
        let mut found = Res::Unknown;
        for entry in entries {
            let res = match &entry.kind {
                EntryKind::Mod(id) if ns == Ns::Type => Res::Mod(*id),
                EntryKind::Mod(_) => Res::Unknown,
                EntryKind::Def(id) if self.in_ns(*id, ns) => Res::Def(*id),
                EntryKind::Def(_) => Res::Unknown,
                EntryKind::Use {
                    leading_colon,
                    path,
                } => self.follow(module, *leading_colon, path, ns, guard),
            };
            if res == Res::Unknown || res == found {
                continue;
            }
            if found != Res::Unknown {
                return Res::Ambiguous;
            }
            found = res;
        }
        found
    }

    /// Where a `use` leads.
    fn follow<'a>(
        &'a self,
        module: ModId,
        leading_colon: bool,
        path: &'a [String],
        ns: Ns,
        guard: &mut Guard<'a>,
    ) -> Res {
        let segs: Vec<&str> = path.iter().map(String::as_str).collect();
        let edition = self.crates[self.mods[module].krate].edition;
        let scope = Scope {
            module,
            blocks: &[],
            params: &[],
        };
        // In the 2015 edition paths of `use` count from the crate's root.
        if edition < 2018 && !matches!(segs.first(), Some(&("crate" | "self" | "super"))) {
            let root = Scope {
                module: self.crates[self.mods[module].krate].root,
                blocks: &[],
                params: &[],
            };
            let (res, n) = self.resolve_guarded(root, false, &segs, ns, guard);
            return if n == segs.len() { res } else { Res::Unknown };
        }
        let (res, n) = self.resolve_guarded(scope, leading_colon, &segs, ns, guard);
        if n == segs.len() { res } else { Res::Unknown }
    }

    /// A name that globs bring: all that they reach, each module once, as globs go in circles.
    fn through_globs<'a>(
        &'a self,
        module: ModId,
        globs: &'a [Glob],
        name: &'a str,
        ns: Ns,
        from: Option<ModId>,
        guard: &mut Guard<'a>,
    ) -> Res {
        // Where one glob leads may hang on a second one, but not on a third: that would be every order of all globs.
        if guard.globs.len() > 1 {
            return Res::Unknown;
        }
        let mut found = Res::Unknown;
        let mut seen: HashSet<(ModId, ModId)> = HashSet::new();
        let mut open: Vec<(ModId, &'a [Glob], Option<ModId>)> = vec![(module, globs, from)];
        while let Some((module, globs, from)) = open.pop() {
            for glob in globs {
                if from.is_some() && !self.sees(from, module, &glob.vis) {
                    continue;
                }
                let res = match self.glob_target(module, glob, guard) {
                    // A glob brings what is visible from where it stands.
                    Res::Mod(target) if target != module => {
                        if !seen.insert((target, module)) {
                            continue;
                        }
                        let own = match guard.names.contains(&(target, name, ns == Ns::Type)) {
                            true => continue,
                            false => self.own_name(target, name, ns, Some(module), guard),
                        };
                        if own == Res::Unknown {
                            open.push((target, &self.mods[target].globs, Some(module)));
                        }
                        own
                    }
                    Res::Def(def) => match &self.defs[def].kind {
                        DefKind::Enum { variants, .. } => variants
                            .iter()
                            .position(|variant| variant.name == name)
                            .map_or(Res::Unknown, |n| Res::Variant(def, n)),
                        _ => Res::Unknown,
                    },
                    _ => Res::Unknown,
                };
                if res == Res::Unknown || res == found {
                    continue;
                }
                if found != Res::Unknown {
                    return Res::Ambiguous;
                }
                found = res;
            }
        }
        found
    }

    /// What a glob takes everything from.
    fn glob_target<'a>(&'a self, module: ModId, glob: &'a Glob, guard: &mut Guard<'a>) -> Res {
        let at = (glob.file, glob.span, module);
        // It may be reached by a name that the same glob would have to bring.
        if guard.globs.contains(&at) {
            return Res::Unknown;
        }
        let is_whole = guard.globs.is_empty();
        if is_whole && let Some(known) = self.answers.globs.borrow().get(&at) {
            return known.clone();
        }
        guard.globs.push(at);
        let found = if is_whole {
            // Names that are looked up around this say nothing of where the glob leads.
            let mut own = Guard {
                names: vec![],
                globs: std::mem::take(&mut guard.globs),
            };
            let found = self.follow(module, glob.leading_colon, &glob.path, Ns::Type, &mut own);
            guard.globs = own.globs;
            found
        } else {
            self.follow(module, glob.leading_colon, &glob.path, Ns::Type, guard)
        };
        guard.globs.pop();
        if is_whole {
            self.answers.globs.borrow_mut().insert(at, found.clone());
        }
        found
    }

    fn in_ns(&self, def: DefId, ns: Ns) -> bool {
        match &self.defs[def].kind {
            DefKind::Struct {
                is_tuple, fields, ..
            } => match ns {
                Ns::Type => true,
                Ns::Value => *is_tuple || fields.is_empty(),
                Ns::Macro => false,
            },
            DefKind::Enum { .. } | DefKind::Trait { .. } | DefKind::Alias { .. } => ns == Ns::Type,
            DefKind::Fn(_) | DefKind::Const { .. } => ns == Ns::Value,
            DefKind::Macro { .. } => ns == Ns::Macro,
        }
    }

    /// A name in a module as code elsewhere would see it.
    pub fn name_in(&self, module: ModId, name: &str, ns: Ns, from: Option<ModId>) -> Res {
        self.in_module(module, name, ns, from, &mut Guard::default())
    }

    /// Whether a module itself brings a name into scope, be it known what that is or not.
    pub fn declares(&self, module: ModId, name: &str) -> bool {
        let entries = self.mods[module].entries.get(name);
        entries.is_some_and(|entries| {
            entries
                .iter()
                .any(|entry| matches!(entry.kind, EntryKind::Use { .. }))
        })
    }

    /// Follows aliases of types down to what they name, as far as they are plain.
    pub fn unalias(&self, res: Res) -> Res {
        let mut res = res;
        for _ in 0..16 {
            let Res::Def(def) = res else { return res };
            let DefKind::Alias { ty, .. } = &self.defs[def].kind else {
                return res;
            };
            let syntax::TyKind::Path(path) = &ty.kind else {
                return res;
            };
            let scope = Scope {
                module: self.defs[def].module,
                blocks: &[],
                params: &[],
            };
            let (next, n) = self.resolve_path(scope, path, Ns::Type);
            if n != path.segs.len() {
                return res;
            }
            res = next;
        }
        res
    }

    /// The aliases that an alias is written with.
    pub fn aliases_in(&self, alias: DefId) -> Vec<DefId> {
        fn walk(world: &World, scope: Scope<'_>, ty: &Ty, out: &mut Vec<DefId>) {
            match &ty.kind {
                syntax::TyKind::Path(path) => {
                    if let (Res::Def(def), _) = world.resolve_path(scope, path, Ns::Type)
                        && matches!(world.defs[def].kind, DefKind::Alias { .. })
                    {
                        out.push(def);
                    }
                    let args = path.segs.iter().filter_map(|seg| seg.args.as_ref());
                    args.flat_map(|args| &args.types)
                        .for_each(|ty| walk(world, scope, ty, out));
                }
                syntax::TyKind::Ref { inner, .. }
                | syntax::TyKind::Ptr(inner)
                | syntax::TyKind::Slice(inner)
                | syntax::TyKind::Array(inner) => walk(world, scope, inner, out),
                syntax::TyKind::Tuple(types) => {
                    types.iter().for_each(|ty| walk(world, scope, ty, out))
                }
                _ => {}
            }
        }
        let mut out = Vec::new();
        if let DefKind::Alias { ty, .. } = &self.defs[alias].kind {
            let scope = Scope {
                module: self.defs[alias].module,
                blocks: &[],
                params: &[],
            };
            walk(self, scope, ty, &mut out);
        }
        out
    }

    pub fn block_scope<'a>(
        &self,
        items: impl Iterator<Item = &'a Item>,
        file: FileId,
    ) -> BlockScope {
        build::block_scope(items, file)
    }
}
