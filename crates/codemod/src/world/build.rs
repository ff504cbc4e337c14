//! Files to modules: walks `mod` items from each target's root, as rustc does, but over all `cfg` branches.

mod snippet;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::*;
use crate::syntax::{ItemKind, UseItem, UseLeaf, parse};

/// What the world is built from: a target of a package.
#[derive(Debug, Clone)]
pub struct CrateSpec {
    pub name: String,
    pub package: String,
    pub kind: CrateKind,
    pub edition: u16,
    /// Path of the root file.
    pub root: String,
    /// Name in the code to package name, for every dependency (and the package's own library, for its other targets).
    pub externs: BTreeMap<String, String>,
}

/// Items that stand for a crate which may not be in the tree; what the tree lacks is filled in from here.
#[derive(Debug, Clone)]
pub struct Surface {
    pub package: String,
    /// Rust items; bodies are ignored.
    pub text: String,
}

/// Gives the bytes of a file of the tree.
pub trait Loader {
    /// The text of a file, `None` where there is no such file or it is not UTF-8.
    fn read(&self, path: &str) -> Option<Rc<str>>;

    /// Where the file lies that a path through links leads to, if it is another one.
    fn behind_links(&self, _path: &str) -> Option<String> {
        None
    }
}

impl World {
    /// Builds the crates given, and the surfaces, and resolves nothing yet.
    pub fn build(specs: &[CrateSpec], surfaces: &[Surface], loader: &dyn Loader) -> World {
        let mut world = World::default();
        world.add_surface(
            &Surface {
                package: "std".into(),
                text: std_surface::TEXT.into(),
            },
            None,
        );
        world.std_crate = Some(0);
        for spec in specs {
            world.add_crate(spec, loader);
        }
        for surface in surfaces {
            let home = world
                .crates
                .iter()
                .position(|krate| krate.package == surface.package && krate.kind == CrateKind::Lib);
            world.add_surface(surface, home);
        }
        world.link(specs);
        world.name_reexports();
        world.index_impls(0);
        world.settle_purity();
        world
    }

    /// A function that only hands on what pure ones give is pure itself.
    fn settle_purity(&mut self) {
        // What a surface declares as pure is so in the tree's own copy of the crate.
        let mut declared: Vec<(DefId, String)> = Vec::new();
        for (def, ids) in &self.impls_of {
            for &id in ids {
                let it = &self.impls[id];
                if self.files[it.file].path.starts_with('<') {
                    declared.extend(
                        it.fns
                            .iter()
                            .filter(|f| f.pure)
                            .map(|f| (*def, f.name.clone())),
                    );
                }
            }
        }
        for (def, name) in declared {
            for id in self.impls_of[&def].clone() {
                for f in self.impls[id].fns.iter_mut().filter(|f| f.name == name) {
                    f.pure = true;
                }
            }
        }
        let mut names: HashMap<String, bool> = HashMap::new();
        loop {
            names.clear();
            let all = self
                .impls
                .iter()
                .flat_map(|it| &it.fns)
                .chain(self.defs.iter().flat_map(|def| match &def.kind {
                    DefKind::Trait { fns, .. } => &fns[..],
                    DefKind::Fn(f) => std::slice::from_ref(f),
                    _ => &[],
                }));
            for f in all {
                names
                    .entry(f.name.clone())
                    .and_modify(|pure| *pure &= f.pure)
                    .or_insert(f.pure);
            }
            let settled = |f: &FnDef| {
                !f.pure
                    && f.hands_on.as_ref().is_some_and(|calls| {
                        calls.iter().all(|name| names.get(name) == Some(&true))
                    })
            };
            let mut changed = false;
            for it in &mut self.impls {
                for f in &mut it.fns {
                    if settled(f) {
                        f.pure = true;
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn link(&mut self, specs: &[CrateSpec]) {
        self.answers.clear();
        let libs: HashMap<String, CrateId> = self
            .crates
            .iter()
            .enumerate()
            .filter(|(_, krate)| matches!(krate.kind, CrateKind::Lib | CrateKind::Surface))
            .map(|(id, krate)| (krate.package.clone(), id))
            .rev()
            .collect();
        // Crates that the tree depends on but does not hold: a surface may name those too.
        let elsewhere: BTreeMap<String, Option<CrateId>> = specs
            .iter()
            .flat_map(|spec| &spec.externs)
            .filter(|(name, package)| {
                !libs.contains_key(*package) && **name == package.replace('-', "_")
            })
            .map(|(name, _)| (name.clone(), None))
            .collect();
        let mut n = 0;
        for id in 0..self.crates.len() {
            if self.crates[id].kind == CrateKind::Surface {
                // A surface names other surfaces and libraries by their usual names.
                let mut externs = elsewhere.clone();
                externs.extend(
                    libs.iter()
                        .map(|(package, &id)| (package.replace('-', "_"), Some(id))),
                );
                self.crates[id].externs = externs;
                continue;
            }
            let externs = specs[n]
                .externs
                .iter()
                .map(|(name, package)| (name.clone(), libs.get(package).copied()))
                .collect();
            let mut externs: BTreeMap<String, Option<CrateId>> = externs;
            for (alias, krate) in self.crates[id].renames.clone() {
                let target = match krate.as_str() {
                    "self" => Some(Some(id)),
                    krate => externs.get(krate).copied(),
                };
                if let Some(target) = target {
                    externs.entry(alias).or_insert(target);
                }
            }
            self.crates[id].externs = externs;
            n += 1;
        }
    }

    fn add_file(&mut self, path: &str, text: Rc<str>) -> FileId {
        if let Some(&id) = self.file_ids.get(path) {
            return id;
        }
        let parsed = parse(&text).map(Rc::new);
        let id = self.files.len();
        self.files.push(SourceFile {
            path: path.to_owned(),
            text,
            parsed,
            contexts: vec![],
            is_fragment: false,
        });
        self.file_ids.insert(path.to_owned(), id);
        id
    }

    /// A file under its own path, by whatever link it was reached.
    fn add_real_file(&mut self, path: &str, text: Rc<str>, loader: &dyn Loader) -> FileId {
        let real = loader.behind_links(path);
        self.add_file(real.as_deref().unwrap_or(path), text)
    }

    /// A file that no target reaches: parsed all the same, so that it can be reported.
    pub fn add_orphan(&mut self, path: &str, text: Rc<str>) -> FileId {
        self.add_file(path, text)
    }

    fn new_module(&mut self, module: Module) -> ModId {
        self.answers.clear();
        self.mods.push(module);
        self.mods.len() - 1
    }

    fn add_crate(&mut self, spec: &CrateSpec, loader: &dyn Loader) {
        let krate = self.crates.len();
        let text = loader.read(&spec.root).unwrap_or_else(|| Rc::from(""));
        let file = self.add_real_file(&spec.root, text, loader);
        let root = self.new_module(Module {
            krate,
            parent: None,
            name: spec.name.clone(),
            file,
            braces: None,
            decl: None,
            is_cfg_test: false,
            has_cfg: false,
            entries: BTreeMap::new(),
            globs: vec![],
            synthetic: false,
        });
        self.files[file].contexts.push(root);
        self.crates.push(Krate {
            name: spec.name.clone(),
            package: spec.package.clone(),
            root,
            externs: BTreeMap::new(),
            edition: spec.edition,
            kind: spec.kind,
            renames: vec![],
        });
        let dir = parent_dir(&spec.root).to_owned();
        if let Ok(parsed) = &self.files[file].parsed {
            let parsed = Rc::clone(parsed);
            self.add_items(root, file, &parsed.items, &dir, &dir, loader);
        }
    }

    /// Adds a surface: on its own, or what `home` lacks of it.
    fn add_surface(&mut self, surface: &Surface, home: Option<CrateId>) {
        let path = format!("<{}>", surface.package);
        let file = self.add_file(&path, Rc::from(surface.text.as_str()));
        let name = surface.package.replace('-', "_");
        let root = match home {
            Some(krate) => self.crates[krate].root,
            None => {
                let krate = self.crates.len();
                let root = self.new_module(Module {
                    krate,
                    parent: None,
                    name: name.clone(),
                    file,
                    braces: None,
                    decl: None,
                    is_cfg_test: false,
                    has_cfg: false,
                    entries: BTreeMap::new(),
                    globs: vec![],
                    synthetic: true,
                });
                self.crates.push(Krate {
                    name,
                    package: surface.package.clone(),
                    root,
                    externs: BTreeMap::new(),
                    edition: 2024,
                    kind: CrateKind::Surface,
                    renames: vec![],
                });
                root
            }
        };
        match &self.files[file].parsed {
            Ok(parsed) => {
                let parsed = Rc::clone(parsed);
                self.merge_items(root, file, &parsed.items);
            }
            Err(err) => panic!(
                "surface of `{}` does not parse: {err} at byte {}",
                surface.package, err.at
            ),
        }
    }

    /// Adds items of a surface that the module does not have.
    fn merge_items(&mut self, module: ModId, file: FileId, items: &[Item]) {
        let present: Vec<String> = self.mods[module].entries.keys().cloned().collect();
        for item in items {
            match (&item.kind, item_name(item)) {
                (ItemKind::Mod(it), Some((name, _))) => {
                    let child = match self.child(module, name) {
                        Some(child) => child,
                        None => {
                            let child = self.new_module(Module {
                                krate: self.mods[module].krate,
                                parent: Some(module),
                                name: name.to_owned(),
                                file,
                                braces: it.braces,
                                decl: None,
                                is_cfg_test: false,
                                has_cfg: false,
                                entries: BTreeMap::new(),
                                globs: vec![],
                                synthetic: true,
                            });
                            let entry = Entry {
                                vis: Vis::Public,
                                kind: EntryKind::Mod(child),
                                span: item.span,
                                file,
                            };
                            self.mods[module]
                                .entries
                                .entry(name.to_owned())
                                .or_default()
                                .push(entry);
                            child
                        }
                    };
                    self.merge_items(child, file, it.items.as_deref().unwrap_or(&[]));
                }
                (ItemKind::Use(it), _) => {
                    self.add_use(module, it, &item.vis, file, &|name| {
                        !present.iter().any(|known| known == name)
                    });
                }
                (ItemKind::Impl(_), _) => self.add_item(module, file, item, "", "", None),
                (_, Some((name, _))) if !present.contains(&name.to_owned()) => {
                    self.add_item(module, file, item, "", "", None)
                }
                (_, Some((name, _))) => self.surface_names.push((module, name.to_owned())),
                _ => {}
            }
        }
    }

    /// What a surface declares in one module the tree may define in another, and re-export from there: it goes by both
    /// paths.
    fn name_reexports(&mut self) {
        for (module, name) in std::mem::take(&mut self.surface_names) {
            let path = format!("{}::{name}", self.module_path(module));
            if self.by_canonical.contains_key(&path) {
                continue;
            }
            let found = [Ns::Type, Ns::Value].into_iter().find_map(|ns| {
                match self.name_in(module, &name, ns, Some(module)) {
                    Res::Def(def) => Some(def),
                    _ => None,
                }
            });
            if let Some(def) = found {
                self.by_canonical.insert(path, def);
            }
        }
    }

    /// Enters what a `use` brings, but for names that are not wanted.
    fn add_use(
        &mut self,
        module: ModId,
        it: &UseItem,
        vis: &Vis,
        file: FileId,
        is_wanted: &dyn Fn(&str) -> bool,
    ) {
        let (names, globs) = brought(it, vis, file);
        let module = &mut self.mods[module];
        for (name, entry) in names.into_iter().filter(|(name, _)| is_wanted(name)) {
            module.entries.entry(name).or_default().push(entry);
        }
        module.globs.extend(globs);
    }

    fn add_items(
        &mut self,
        module: ModId,
        file: FileId,
        items: &[Item],
        dir: &str,
        path_dir: &str,
        loader: &dyn Loader,
    ) {
        for item in items {
            self.add_item(module, file, item, dir, path_dir, Some(loader));
        }
    }

    /// `dir`: where child modules of this module's file live; `path_dir`: what `#[path]` counts from.
    fn add_item(
        &mut self,
        module: ModId,
        file: FileId,
        item: &Item,
        dir: &str,
        path_dir: &str,
        loader: Option<&dyn Loader>,
    ) {
        let (has_cfg, is_test) = cfgs(&item.attrs);
        let span = item.span;
        match &item.kind {
            ItemKind::Use(it) => {
                self.add_use(module, it, &item.vis, file, &|_| true);
            }
            ItemKind::ExternCrate { krate, .. } => {
                let Some((name, _)) = item_name(item) else {
                    return;
                };
                let path = if krate.text == "self" {
                    vec!["crate".into()]
                } else {
                    vec![krate.text.clone()]
                };
                if self.mods[module].parent.is_none() {
                    let home = self.mods[module].krate;
                    if let Some(home) = self.crates.get_mut(home) {
                        home.renames.push((name.to_owned(), krate.text.clone()));
                    }
                }
                let entry = Entry {
                    vis: item.vis.clone(),
                    kind: EntryKind::Use {
                        leading_colon: krate.text != "self",
                        path,
                    },
                    span,
                    file,
                };
                self.mods[module]
                    .entries
                    .entry(name.to_owned())
                    .or_default()
                    .push(entry);
            }
            ItemKind::Mod(it) => {
                let Some((name, _)) = item_name(item) else {
                    return;
                };
                let (child_file, braces, items, child_dir, child_path_dir) =
                    match (&it.items, loader) {
                        (Some(items), _) => {
                            let sub = match &it.path_attr {
                                Some(path) => join(path_dir, path),
                                None => join(dir, name),
                            };
                            (file, it.braces, Some(items.clone()), sub.clone(), sub)
                        }
                        (None, Some(loader)) => match find_module_file(
                            it.path_attr.as_deref(),
                            name,
                            dir,
                            path_dir,
                            loader,
                        ) {
                            Some((path, is_mod_rs, text)) => {
                                let id = self.add_real_file(&path, text, loader);
                                let here = parent_dir(&path).to_owned();
                                let stem = path
                                    .rsplit('/')
                                    .next()
                                    .unwrap_or(&path)
                                    .trim_end_matches(".rs");
                                let sub = if is_mod_rs {
                                    here.clone()
                                } else {
                                    join(&here, stem)
                                };
                                let items = self.files[id]
                                    .parsed
                                    .as_ref()
                                    .ok()
                                    .map(|parsed| parsed.items.clone());
                                (id, None, items, sub, here)
                            }
                            None => (file, None, None, String::new(), String::new()),
                        },
                        (None, None) => (file, None, None, String::new(), String::new()),
                    };
                let child = self.new_module(Module {
                    krate: self.mods[module].krate,
                    parent: Some(module),
                    name: name.to_owned(),
                    file: child_file,
                    braces,
                    decl: Some((file, span)),
                    is_cfg_test: is_test,
                    has_cfg,
                    entries: BTreeMap::new(),
                    globs: vec![],
                    synthetic: false,
                });
                let entry = Entry {
                    vis: item.vis.clone(),
                    kind: EntryKind::Mod(child),
                    span,
                    file,
                };
                self.mods[module]
                    .entries
                    .entry(name.to_owned())
                    .or_default()
                    .push(entry);
                // A module that includes itself by `#[path]` would never end.
                let depth = self.ancestors(child).count();
                if child_file != file {
                    self.files[child_file].contexts.push(child);
                }
                if let (Some(items), true) = (items, depth < 64) {
                    match loader {
                        Some(loader) => self.add_items(
                            child,
                            child_file,
                            &items,
                            &child_dir,
                            &child_path_dir,
                            loader,
                        ),
                        None => self.merge_items(child, child_file, &items),
                    }
                }
            }
            ItemKind::MacroCall(mac) if mac.path.last().name.text == "include" => {
                let Some(loader) = loader else { return };
                let text = Rc::clone(&self.files[file].text);
                let Some(path) = include_path(mac.inner.text(&text), &self.files[file].path) else {
                    return;
                };
                let Some(text) = loader.read(&path) else {
                    return;
                };
                let id = self.add_real_file(&path, text, loader);
                if !self.files[id].contexts.contains(&module) {
                    self.files[id].contexts.push(module);
                }
                self.files[id].is_fragment = true;
                if id != file
                    && let Ok(parsed) = &self.files[id].parsed
                {
                    let parsed = Rc::clone(parsed);
                    self.add_items(module, id, &parsed.items, dir, path_dir, loader);
                }
            }
            ItemKind::Impl(it) => {
                let mut fns = Vec::new();
                let mut assoc = Vec::new();
                for inner in &it.items {
                    match (&inner.kind, item_name(inner)) {
                        (ItemKind::Fn(f), Some((name, _))) => {
                            fns.push(fn_def(name, f, inner, file))
                        }
                        (ItemKind::TypeAlias { ty: Some(ty), .. }, Some((name, _))) => {
                            assoc.push((name.to_owned(), ty.clone()))
                        }
                        (ItemKind::Const { ty, .. }, Some((name, _))) => {
                            assoc.push((name.to_owned(), ty.clone()))
                        }
                        _ => {}
                    }
                }
                self.impls.push(Impl {
                    module,
                    file,
                    span,
                    generics: Rc::new(it.generics.clone()),
                    of_trait: it.of_trait.clone(),
                    self_ty: it.self_ty.clone(),
                    fns,
                    assoc,
                });
            }
            ItemKind::Foreign(items) => {
                for item in items {
                    self.add_item(module, file, item, dir, path_dir, loader);
                }
            }
            _ => {
                let Some((name, name_span)) = item_name(item) else {
                    return;
                };
                let Some(kind) = def_kind(item, name, file) else {
                    return;
                };
                let krate = self.mods[module].krate;
                let canonical = {
                    let mut path = self.module_path(module);
                    // Binaries and tests are crates of their own.
                    if !matches!(
                        self.crates.get(krate).map(|krate| krate.kind),
                        Some(CrateKind::Lib | CrateKind::Surface)
                    ) {
                        path = format!("{path}#{krate}");
                    }
                    format!("{path}::{name}")
                };
                let id = self.defs.len();
                let exported = matches!(kind, DefKind::Macro { exported: true });
                self.defs.push(Def {
                    name: name.to_owned(),
                    canonical: canonical.clone(),
                    module,
                    file,
                    span,
                    name_span,
                    vis: item.vis.clone(),
                    kind,
                    has_cfg,
                    derives: derives(item),
                    private_fields: match &item.kind {
                        ItemKind::Struct(it) => it
                            .fields
                            .iter()
                            .filter(|field| field.vis == Vis::Private)
                            .map(|field| field.name.clone())
                            .collect(),
                        _ => vec![],
                    },
                });
                self.by_canonical.entry(canonical).or_insert(id);
                let entry = Entry {
                    vis: item.vis.clone(),
                    kind: EntryKind::Def(id),
                    span,
                    file,
                };
                let home = if exported {
                    self.crates[krate].root
                } else {
                    module
                };
                self.mods[home]
                    .entries
                    .entry(name.to_owned())
                    .or_default()
                    .push(entry);
            }
        }
    }

    /// Sorts implementations, from this one on, by the type that they are for.
    fn index_impls(&mut self, from: usize) {
        self.answers.clear();
        for id in from..self.impls.len() {
            let it = &self.impls[id];
            let params = it.generics.names();
            let ctx = TypeCtx {
                module: it.module,
                params: &params,
                self_ty: None,
                scopes: &[],
            };
            let mut ty = self.lower_ty(&ctx, &it.self_ty);
            while let Type::Ref(_, inner) = ty {
                ty = *inner;
            }
            match ty {
                Type::Adt(def, _) => self.impls_of.entry(def).or_default().push(id),
                Type::Param(_) => self.index_blanket(id),
                _ => {}
            }
        }
        if from == 0 {
            for (id, def) in self.defs.iter().enumerate() {
                let DefKind::Trait { fns, .. } = &def.kind else {
                    continue;
                };
                for f in fns.iter().filter(|f| f.sig.receiver.is_none()) {
                    self.traits_with.entry(f.name.clone()).or_default().push(id);
                }
            }
        }
    }
}

impl World {
    /// Sorts an implementation for a parameter by its trait, and by the methods that it gives.
    fn index_blanket(&mut self, id: ImplId) {
        let it = &self.impls[id];
        let Some(def) = it
            .of_trait
            .as_ref()
            .and_then(|path| self.trait_of(it.module, path))
        else {
            return;
        };
        let DefKind::Trait { fns, .. } = &self.defs[def].kind else {
            return;
        };
        let mut names: Vec<String> = it
            .fns
            .iter()
            .chain(fns)
            .filter(|f| f.sig.receiver.is_some())
            .map(|f| f.name.clone())
            .collect();
        names.sort();
        names.dedup();
        self.blankets_of.entry(def).or_default().push(id);
        for name in names {
            self.blankets_with.entry(name).or_default().push((id, def));
        }
    }
}

fn derives(item: &Item) -> Vec<String> {
    item.attrs
        .iter()
        .filter(|attr| attr.path == "derive")
        .flat_map(|attr| attr.tokens.split(','))
        .map(|name| name.rsplit("::").next().unwrap_or(name).trim().to_owned())
        .collect()
}

fn def_kind(item: &Item, name: &str, file: FileId) -> Option<DefKind> {
    let fields = |fields: &[syntax::Field]| {
        fields
            .iter()
            .map(|field| (field.name.clone(), field.ty.clone()))
            .collect::<Vec<_>>()
    };
    Some(match &item.kind {
        ItemKind::Struct(it) => DefKind::Struct {
            generics: it.generics.clone(),
            fields: fields(&it.fields),
            is_tuple: it.is_tuple,
        },
        ItemKind::Enum(it) => DefKind::Enum {
            generics: it.generics.clone(),
            variants: it
                .variants
                .iter()
                .map(|variant| VariantDef {
                    name: variant.name.text.clone(),
                    fields: fields(&variant.fields),
                    is_tuple: variant.is_tuple,
                })
                .collect(),
        },
        ItemKind::Trait(it) => DefKind::Trait {
            generics: it.generics.clone(),
            supertraits: it
                .supertraits
                .iter()
                .map(|bound| bound.path.clone())
                .collect(),
            fns: it
                .items
                .iter()
                .filter_map(|inner| match (&inner.kind, item_name(inner)) {
                    (ItemKind::Fn(f), Some((name, _))) => Some(fn_def(name, f, inner, file)),
                    _ => None,
                })
                .collect(),
            assoc: it
                .items
                .iter()
                .filter_map(|inner| match (&inner.kind, item_name(inner)) {
                    (ItemKind::TypeAlias { .. }, Some((name, _))) => Some(name.to_owned()),
                    _ => None,
                })
                .collect(),
        },
        ItemKind::TypeAlias {
            generics,
            ty: Some(ty),
            ..
        } => DefKind::Alias {
            generics: generics.clone(),
            ty: ty.clone(),
        },
        ItemKind::Fn(f) => DefKind::Fn(fn_def(name, f, item, file)),
        ItemKind::Const { ty, .. } => DefKind::Const { ty: ty.clone() },
        ItemKind::MacroRules { .. } => DefKind::Macro {
            exported: item.attrs.iter().any(|attr| attr.path == "macro_export"),
        },
        _ => return None,
    })
}

fn fn_def(name: &str, f: &syntax::FnItem, item: &Item, file: FileId) -> FnDef {
    let declared = item.attrs.iter().any(|attr| attr.path == "pure");
    let calls = f.body.as_ref().and_then(getter_calls);
    let pure = declared || calls.as_ref().is_some_and(Vec::is_empty);
    FnDef {
        name: name.to_owned(),
        sig: Rc::new(f.sig.clone()),
        file,
        span: item.span,
        pure,
        hands_on: calls,
    }
}

/// The methods that a body calls which otherwise only reads: a path or field of `self`, borrowed or dereferenced.
fn getter_calls(body: &syntax::Block) -> Option<Vec<String>> {
    use crate::syntax::{ExprKind, StmtKind};
    fn reads(expr: &syntax::Expr, calls: &mut Vec<String>) -> bool {
        match &expr.kind {
            ExprKind::Path(_) | ExprKind::Lit(_) => true,
            ExprKind::Field { base, .. } => reads(base, calls),
            ExprKind::Ref { inner, .. } | ExprKind::Deref(inner) | ExprKind::Paren(inner) => {
                reads(inner, calls)
            }
            ExprKind::MethodCall {
                recv, method, args, ..
            } if args.is_empty() => {
                calls.push(method.text.clone());
                reads(recv, calls)
            }
            _ => false,
        }
    }
    let [only] = &body.stmts[..] else { return None };
    let StmtKind::Expr { expr, semi: false } = &only.kind else {
        return None;
    };
    let mut calls = Vec::new();
    reads(expr, &mut calls).then_some(calls)
}

/// The names and globs that a `use` brings.
fn brought(it: &UseItem, vis: &Vis, file: FileId) -> (Vec<(String, Entry)>, Vec<Glob>) {
    let (globs, names): (Vec<_>, Vec<_>) = it.tree.leaves().into_iter().partition(UseLeaf::is_glob);
    let globs = globs.into_iter().map(|leaf| Glob {
        vis: vis.clone(),
        leading_colon: it.leading_colon,
        path: leaf.path,
        span: leaf.span,
        file,
    });
    let names = names.into_iter().filter_map(|leaf| {
        let name = leaf.name()?.to_owned();
        let kind = EntryKind::Use {
            leading_colon: it.leading_colon,
            path: leaf.path,
        };
        let entry = Entry {
            vis: vis.clone(),
            kind,
            span: leaf.span,
            file,
        };
        Some((name, entry))
    });
    (names.collect(), globs.collect())
}

/// What the items of a block bring into scope.
pub(super) fn block_scope<'a>(items: impl Iterator<Item = &'a Item>, file: FileId) -> BlockScope {
    let mut scope = BlockScope::default();
    for item in items {
        match (&item.kind, item_name(item)) {
            (ItemKind::Use(it), _) => {
                let (names, globs) = brought(it, &Vis::Private, file);
                for (name, entry) in names {
                    scope.entries.entry(name).or_default().push(entry);
                }
                scope.globs.extend(globs);
            }
            (ItemKind::Fn(f), Some((name, _))) => {
                scope
                    .fns
                    .insert(name.to_owned(), fn_def(name, f, item, file));
            }
            (_, Some((name, _))) => {
                scope.locals.insert(name.to_owned());
            }
            _ => {}
        }
    }
    scope
}

/// The file of `mod name;`, whether its children live beside it, and its text.
fn find_module_file(
    path_attr: Option<&str>,
    name: &str,
    dir: &str,
    path_dir: &str,
    loader: &dyn Loader,
) -> Option<(String, bool, Rc<str>)> {
    if let Some(attr) = path_attr {
        let path = join(path_dir, attr);
        let text = loader.read(&path)?;
        // Children of a module with `#[path]` live beside the file, as those of `mod.rs` do.
        return Some((path, true, text));
    }
    let flat = join(dir, &format!("{name}.rs"));
    if let Some(text) = loader.read(&flat) {
        return Some((flat, false, text));
    }
    let nested = join(dir, &format!("{name}/mod.rs"));
    loader.read(&nested).map(|text| (nested, true, text))
}

/// The path that `include!` names, if it is a plain literal.
fn include_path(args: &str, from: &str) -> Option<String> {
    let literal = args.trim().trim_end_matches(',').trim();
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains(['"', '\\'])).then(|| join(parent_dir(from), inner))
}

pub(crate) fn parent_dir(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

/// Joins and tidies `.` and `..`.
pub(crate) fn join(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = if path.starts_with('/') {
        vec![]
    } else {
        dir.split('/').filter(|part| !part.is_empty()).collect()
    };
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
