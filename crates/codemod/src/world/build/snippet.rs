//! Code that is no target of its own: an example in a comment.

use super::*;

/// Examples declare no files.
struct Nothing;

impl Loader for Nothing {
    fn read(&self, _path: &str) -> Option<Rc<str>> {
        None
    }
}

impl World {
    /// Adds code that stands in the documentation of `host`, as a crate of its own that sees what `host`'s crate sees, and
    /// that crate itself where it is a library.
    ///
    /// `key` names it from then on: what has that name already is given back. As it is no file of the tree, it is the body
    /// of no module in [`SourceFile::contexts`]; [`snippet_root`](Self::snippet_root) is its module.
    pub fn add_snippet(
        &mut self,
        host: ModId,
        key: &str,
        text: &str,
        edition: Option<u16>,
    ) -> FileId {
        if let Some(&id) = self.file_ids.get(key) {
            return id;
        }
        let beside = self.mods[host].krate;
        let mut externs = self.crates[beside].externs.clone();
        if self.crates[beside].kind == CrateKind::Lib {
            externs.insert(self.crates[beside].name.clone(), Some(beside));
        }
        let spec = CrateSpec {
            name: "example".into(),
            package: self.crates[beside].package.clone(),
            kind: CrateKind::Example,
            edition: edition.unwrap_or(self.crates[beside].edition),
            root: key.to_owned(),
            externs: BTreeMap::new(),
        };
        let id = self.add_file(key, Rc::from(text));
        let (krate, n_impls) = (self.crates.len(), self.impls.len());
        self.add_crate(&spec, &Nothing);
        self.crates[krate].externs = externs;
        self.files[id].contexts.clear();
        self.index_impls(n_impls);
        id
    }

    /// The root module of a snippet.
    pub fn snippet_root(&self, id: FileId) -> Option<ModId> {
        self.mods
            .iter()
            .position(|module| module.file == id && module.parent.is_none())
    }
}
