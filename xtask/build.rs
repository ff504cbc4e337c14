//! Lists the migrations of this repository, so that they are built in: the program works wherever it is put.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let migrations = manifest_dir
        .parent()
        .expect("the package lies in the workspace")
        .join("migrations");
    println!("cargo::rerun-if-changed={}", migrations.display());
    let mut folders: Vec<PathBuf> = fs::read_dir(&migrations)
        .map(|entries| {
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect()
        })
        .unwrap_or_default();
    folders.sort();
    let mut list = String::from("&[\n");
    for folder in folders
        .iter()
        .filter(|folder| folder.join("migration.toml").is_file())
    {
        let id = folder
            .file_name()
            .and_then(|name| name.to_str())
            .expect("migrations have plain names");
        writeln!(
            list,
            "    Embedded {{ id: {id:?}, toml: {}, guide: {} }},",
            include(folder, "migration.toml"),
            include(folder, "GUIDE.md")
        )
        .expect("writing to a string");
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("migrations.rs");
    fs::write(&out, list)
        .unwrap_or_else(|error| panic!("cannot write `{}`: {error}", out.display()));
}

fn include(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    if path.is_file() {
        format!("include_str!({path:?})")
    } else {
        "\"\"".to_owned()
    }
}
