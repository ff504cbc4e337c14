//! Where the tree is that a command works on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The root that was named, or the workspace that cargo would take for `working_directory`: the nearest manifest above with
/// a `[workspace]`, else the nearest manifest.
pub fn find(named: Option<&Path>, working_directory: &Path) -> Result<PathBuf, Failure> {
    let root = match named {
        Some(root) => working_directory.join(root),
        None => workspace_of(working_directory).ok_or_else(|| {
            Failure::new(format!(
                "there is no `Cargo.toml` in `{}` or above it",
                working_directory.display()
            ))
            .hint("name the tree to migrate with `--root DIR`")
        })?,
    };
    if !root.is_dir() {
        return Err(Failure::new(format!(
            "the root `{}` is not a folder",
            root.display()
        )));
    }
    fs::canonicalize(&root).map_err(|error| {
        Failure::new(format!(
            "cannot find the root `{}`: {error}",
            root.display()
        ))
    })
}

fn workspace_of(directory: &Path) -> Option<PathBuf> {
    let packages = || {
        directory
            .ancestors()
            .filter(|folder| folder.join("Cargo.toml").is_file())
    };
    // A line that opens the table, or one below it: good enough to find a folder, and cheap.
    let is_workspace = |folder: &&Path| {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        text.lines().any(|line| {
            line.trim_start().starts_with("[workspace]")
                || line.trim_start().starts_with("[workspace.")
        })
    };
    packages()
        .find(is_workspace)
        .or_else(|| packages().next())
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_workspace_else_the_nearest_package() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("ws/crates/a/src");
        fs::create_dir_all(&inner).expect("folders");
        fs::write(
            dir.path().join("ws/crates/a/Cargo.toml"),
            "[package]\nname = \"a\"\n",
        )
        .expect("file");
        assert_eq!(workspace_of(&inner), Some(dir.path().join("ws/crates/a")));
        fs::write(
            dir.path().join("ws/Cargo.toml"),
            "[workspace]\nmembers = [\"crates/*\"]\n",
        )
        .expect("file");
        assert_eq!(workspace_of(&inner), Some(dir.path().join("ws")));
        fs::write(
            dir.path().join("Cargo.toml"),
            "[workspace]\nexclude = [\"ws\"]\n",
        )
        .expect("file");
        assert_eq!(workspace_of(&inner), Some(dir.path().join("ws")));
    }
}
