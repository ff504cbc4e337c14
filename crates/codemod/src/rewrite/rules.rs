//! A migration's rules against a world: names looked up once.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::rule::{BracketCalls, Migration, RetireEnum, RetireWrapper, RuleError};
use crate::upgrade::Upgrade;
use crate::world::{DefId, ModId, Type, World};

#[derive(Debug)]
pub struct EnumRule {
    pub spec: RetireEnum,
    pub def: DefId,
    pub becomes: DefId,
    pub survivor: usize,
}

#[derive(Debug)]
pub struct WrapperRule {
    pub spec: RetireWrapper,
    pub def: DefId,
    pub becomes: DefId,
}

#[derive(Debug)]
pub struct Rules {
    pub enums: Vec<EnumRule>,
    pub wrappers: Vec<WrapperRule>,
    /// Deleted modules with the rule that deletes them.
    pub deleted_mods: HashMap<ModId, String>,
    /// Items of deleted modules that have no successor.
    pub deleted_defs: HashMap<DefId, String>,
    pub kept_mods: HashSet<ModId>,
    pub brackets: Vec<BracketCalls>,
    pub distinctive: BTreeSet<String>,
    /// Words by which comments speak of what is gone.
    pub terms: Vec<String>,
    pub suggest: HashMap<String, String>,
    pub needles: Vec<String>,
    /// Implementations that the new names would make equal to another: file and where the item begins.
    pub conflicting_impls: HashSet<(usize, usize)>,
    /// Rules about a dependency's new version.
    pub upgrade: Upgrade,
    /// Packages that the rules speak of: code that cannot reach one of them is not theirs.
    pub packages: BTreeSet<String>,
}

/// The retired type that a type is, once references and smart pointers are taken off.
#[derive(Debug, Clone, Copy)]
pub enum Retired<'r> {
    Enum(&'r EnumRule),
    Wrapper(&'r WrapperRule),
}

impl<'r> Retired<'r> {
    pub fn def(&self) -> DefId {
        match self {
            Retired::Enum(rule) => rule.def,
            Retired::Wrapper(rule) => rule.def,
        }
    }

    pub fn becomes(&self) -> DefId {
        match self {
            Retired::Enum(rule) => rule.becomes,
            Retired::Wrapper(rule) => rule.becomes,
        }
    }

    pub fn rule(&self) -> &'r str {
        match self {
            Retired::Enum(rule) => &rule.spec.rule,
            Retired::Wrapper(rule) => &rule.spec.rule,
        }
    }

    pub fn why(&self) -> &'r str {
        match self {
            Retired::Enum(rule) => &rule.spec.why,
            Retired::Wrapper(rule) => &rule.spec.why,
        }
    }
}

impl Rules {
    /// Looks up what the migrations name.
    ///
    /// # Errors
    /// An item that no surface declares.
    pub fn compile(world: &mut World, migrations: &[Migration]) -> Result<Rules, RuleError> {
        let mut rules = Rules {
            enums: vec![],
            wrappers: vec![],
            deleted_mods: HashMap::new(),
            deleted_defs: HashMap::new(),
            kept_mods: HashSet::new(),
            brackets: vec![],
            distinctive: BTreeSet::new(),
            terms: vec![],
            suggest: HashMap::new(),
            needles: vec![],
            conflicting_impls: HashSet::new(),
            upgrade: Upgrade::compile(world, migrations)?,
            packages: BTreeSet::new(),
        };
        for migration in migrations {
            let find = |world: &World, rule: &str, path: &str| {
                world.canonical(path).ok_or_else(|| RuleError::UnknownItem {
                    id: migration.id.clone(),
                    rule: rule.to_owned(),
                    path: path.to_owned(),
                })
            };
            for spec in &migration.retire_enum {
                let def = find(world, &spec.rule, &spec.ty)?;
                let becomes = find(world, &spec.rule, &spec.becomes)?;
                world.set_successor(def, becomes);
                let crate::world::DefKind::Enum { variants, .. } = &world.defs[def].kind else {
                    return Err(RuleError::UnknownItem {
                        id: migration.id.clone(),
                        rule: spec.rule.clone(),
                        path: spec.ty.clone(),
                    });
                };
                let survivor = variants
                    .iter()
                    .position(|variant| variant.name == spec.survivor)
                    .ok_or_else(|| RuleError::UnknownItem {
                        id: migration.id.clone(),
                        rule: spec.rule.clone(),
                        path: format!("{}::{}", spec.ty, spec.survivor),
                    })?;
                rules.enums.push(EnumRule {
                    spec: spec.clone(),
                    def,
                    becomes,
                    survivor,
                });
            }
            for spec in &migration.retire_wrapper {
                let def = find(world, &spec.rule, &spec.ty)?;
                let becomes = find(world, &spec.rule, &spec.becomes)?;
                world.set_successor(def, becomes);
                rules.wrappers.push(WrapperRule {
                    spec: spec.clone(),
                    def,
                    becomes,
                });
            }
            for spec in &migration.delete_module {
                rules.packages.insert(spec.package.clone());
                for krate in 0..world.crates.len() {
                    if world.crates[krate].package != spec.package
                        || !matches!(
                            world.crates[krate].kind,
                            crate::world::CrateKind::Lib | crate::world::CrateKind::Surface
                        )
                    {
                        continue;
                    }
                    if let Some(module) = world.module_at(krate, spec.module.split("::")) {
                        for id in 0..world.mods.len() {
                            if world.is_descendant(id, module) {
                                rules.deleted_mods.insert(id, spec.rule.clone());
                            }
                        }
                    }
                }
            }
            let retired: HashSet<DefId> = rules.retired_types().map(|it| it.def()).collect();
            for (id, def) in world.defs.iter().enumerate() {
                if let Some(rule) = rules.deleted_mods.get(&def.module)
                    && !retired.contains(&id)
                {
                    rules.deleted_defs.insert(id, rule.clone());
                }
            }
            for spec in &migration.keep_module {
                for krate in 0..world.crates.len() {
                    if world.crates[krate].package == spec.package
                        && let Some(module) = world.module_at(krate, spec.module.split("::"))
                    {
                        rules.kept_mods.insert(module);
                    }
                }
            }
            rules
                .brackets
                .extend(migration.bracket_calls.iter().cloned());
            rules
                .distinctive
                .extend(migration.distinctive.iter().cloned());
            rules.terms.extend(migration.terms.iter().cloned());
            rules.suggest.extend(
                migration
                    .suggest
                    .iter()
                    .map(|(name, text)| (name.clone(), text.clone())),
            );
            rules.needles.extend(migration.needles());
            rules.packages.extend(
                migration
                    .surface
                    .iter()
                    .map(|surface| surface.package.clone()),
            );
        }
        rules.conflicting_impls = conflicts(world, &rules);
        Ok(rules)
    }

    /// The reason that a rule gives for itself.
    pub fn why(&self, rule: &str) -> String {
        if let Some(found) = self.retired_types().find(|found| found.rule() == rule) {
            return found.why().to_owned();
        }
        if let Some(why) = self.upgrade.why(rule) {
            return why.to_owned();
        }
        if let Some(found) = self.brackets.iter().find(|found| found.rule == rule) {
            return found.why.clone();
        }
        match rule {
            "fold-constant" => "a condition that is always the same now".into(),
            "imports" => "imports follow the names".into(),
            "unused" => "nothing uses it any more".into(),
            _ => String::new(),
        }
    }

    /// Names that stand for nothing any more, and for nothing else: those that are words as well are left out.
    pub fn gone_names<'s>(&'s self, world: &'s World) -> BTreeSet<&'s str> {
        let deleted_defs = self
            .deleted_defs
            .keys()
            .map(|&def| world.defs[def].name.as_str());
        let deleted_mods = self
            .deleted_mods
            .keys()
            .map(|&id| world.mods[id].name.as_str());
        let retired = self.retired_types().filter_map(|retired| {
            let name = world.defs[retired.def()].name.as_str();
            (name != world.defs[retired.becomes()].name).then_some(name)
        });
        let distinctive = self.distinctive.iter().map(String::as_str);
        let is_a_name =
            |name: &&str| name.contains('_') || name.chars().skip(1).any(char::is_uppercase);
        deleted_defs
            .chain(deleted_mods)
            .chain(distinctive)
            .filter(is_a_name)
            .chain(retired)
            .collect()
    }

    /// Whether a member's name alone tells that it may be one of a retired type; renamed ones are looked after elsewhere.
    pub fn is_distinctive(&self, name: &str) -> bool {
        self.distinctive.contains(name)
            && !self
                .upgrade
                .methods
                .iter()
                .any(|rule| rule.spec.methods.contains_key(name))
    }

    /// Every retired type, enums before wrappers.
    pub fn retired_types(&self) -> impl Iterator<Item = Retired<'_>> {
        let enums = self.enums.iter().map(Retired::Enum);
        enums.chain(self.wrappers.iter().map(Retired::Wrapper))
    }

    pub fn retired_def(&self, def: DefId) -> Option<Retired<'_>> {
        self.retired_types().find(|retired| retired.def() == def)
    }

    /// The retired type behind references and smart pointers.
    pub fn retired(&self, world: &World, ty: &Type) -> Option<Retired<'_>> {
        world.autoderef(ty).iter().find_map(|step| match step {
            Type::Adt(def, _) => self.retired_def(*def),
            _ => None,
        })
    }
}

/// Implementations that differ only by a retired type and its successor.
fn conflicts(world: &World, rules: &Rules) -> HashSet<(usize, usize)> {
    fn follow(rules: &Rules, ty: &Type, touched: &mut bool) -> Type {
        let all = |types: &[Type], touched: &mut bool| {
            types
                .iter()
                .map(|ty| follow(rules, ty, touched))
                .collect::<Vec<_>>()
        };
        match ty {
            Type::Adt(def, args) => {
                let def = match rules.retired_def(*def) {
                    Some(retired) => {
                        *touched = true;
                        retired.becomes()
                    }
                    None => *def,
                };
                Type::Adt(def, all(args, touched))
            }
            Type::Ref(mutable, inner) => {
                Type::Ref(*mutable, Box::new(follow(rules, inner, touched)))
            }
            Type::Tuple(types) => Type::Tuple(all(types, touched)),
            Type::External(name, args) => Type::External(name.clone(), all(args, touched)),
            Type::Slice(inner) => Type::Slice(Box::new(follow(rules, inner, touched))),
            other => other.clone(),
        }
    }
    let mut seen: HashMap<String, Vec<(usize, usize, bool)>> = HashMap::new();
    for it in world.impls.iter().filter(|it| {
        !world.files[it.file].path.starts_with('<') && !rules.deleted_mods.contains_key(&it.module)
    }) {
        let params = it.generics.names();
        let ctx = crate::world::TypeCtx {
            module: it.module,
            params: &params,
            self_ty: None,
            scopes: &[],
        };
        let mut touched = false;
        let own = follow(rules, &world.lower_ty(&ctx, &it.self_ty), &mut touched);
        let last = it
            .of_trait
            .as_ref()
            .and_then(|path| path.last().args.as_ref());
        let args: Vec<Type> = last
            .iter()
            .flat_map(|args| &args.types)
            .map(|ty| follow(rules, &world.lower_ty(&ctx, ty), &mut touched))
            .collect();
        if std::iter::once(&own)
            .chain(&args)
            .any(|ty| !ty.peeled().is_known())
        {
            continue;
        }
        // A trait may be implemented once, and each name of an inherent implementation be defined once.
        let names: Vec<String> = match &it.of_trait {
            Some(path) => vec![world.trait_of(it.module, path).map_or_else(
                || path.last().name.text.clone(),
                |def| world.defs[def].canonical.clone(),
            )],
            None => {
                let functions = it.fns.iter().map(|f| &f.name);
                functions
                    .chain(it.assoc.iter().map(|(name, _)| name))
                    .map(|name| format!("fn {name}"))
                    .collect()
            }
        };
        let krate = world.mods[it.module].krate;
        for name in names {
            seen.entry(format!("{krate} {name} {args:?} {own:?}"))
                .or_default()
                .push((it.file, it.span.lo, touched));
        }
    }
    seen.into_values()
        .filter(|same| same.len() > 1)
        .flatten()
        .filter(|(_, _, touched)| *touched)
        .map(|(file, lo, _)| (file, lo))
        .collect()
}
