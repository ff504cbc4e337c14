//! A file that was laid out by rustfmt is laid out by it afterwards; any other keeps its layout outside of the edits.
//!
//! `rustfmt` is the judge of both, with the configuration that it finds for the file. It reads from standard input, so that
//! it looks at this file alone and not at the modules below it.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rayon::prelude::*;

/// A file to look at.
#[derive(Debug)]
pub struct Laid<'a> {
    /// Its folder, where the search for a configuration begins.
    pub directory: &'a Path,
    pub edition: u16,
    pub before: &'a str,
    pub after: &'a str,
}

/// What there was to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was not laid out by rustfmt, or still is.
    AsItIs,
    Formatted(String),
    /// There is no rustfmt, or it does not take the file.
    Unknown,
}

/// Lays out again what was laid out before, each file on its own, several at a time.
pub fn lay_out(files: &[Laid<'_>]) -> Vec<Outcome> {
    files
        .par_iter()
        .zip(programs(files))
        .map(|(file, program)| {
            let program = program.as_path();
            let Some(after) = rustfmt(program, file, file.after) else {
                return Outcome::Unknown;
            };
            // Most edits leave the layout as it was, and then it does not matter what it was.
            if after == file.after {
                return Outcome::AsItIs;
            }
            match rustfmt(program, file, file.before) {
                Some(before) if before == file.before => Outcome::Formatted(after),
                Some(_) => Outcome::AsItIs,
                None => Outcome::Unknown,
            }
        })
        .collect()
}

const ON_THE_PATH: &str = "rustfmt";

/// Which rustfmt to start for each file: rustup's stand-in takes as long to find the toolchain as that rustfmt takes for a file, so
/// rustup is asked once for all files below one toolchain file.
fn programs(files: &[Laid<'_>]) -> Vec<PathBuf> {
    let Some(rustup) = stand_in() else {
        return vec![ON_THE_PATH.into(); files.len()];
    };
    let mut known = HashMap::new();
    let of_file = |file: &Laid<'_>| {
        known
            .entry(chosen_by(file.directory))
            // Where rustup does not say, its stand-in has the last word.
            .or_insert_with(|| own_rustfmt(&rustup, file.directory).unwrap_or(ON_THE_PATH.into()))
            .clone()
    };
    files.iter().map(of_file).collect()
}

/// The rustup that stands behind the `rustfmt` on the path, if one does: both lie in one folder.
fn stand_in() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let named = |name: &str| format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let folder =
        std::env::split_paths(&path).find(|folder| folder.join(named(ON_THE_PATH)).is_file())?;
    let rustup = folder.join(named("rustup"));
    rustup.is_file().then_some(rustup)
}

/// The toolchain file that chooses for a folder.
fn chosen_by(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find_map(|folder| {
        ["rust-toolchain.toml", "rust-toolchain"]
            .map(|name| folder.join(name))
            .into_iter()
            .find(|file| file.is_file())
    })
}

fn own_rustfmt(rustup: &Path, directory: &Path) -> Option<PathBuf> {
    let output = Command::new(rustup)
        .args(["which", ON_THE_PATH])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let program = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (output.status.success() && program.is_file()).then_some(program)
}

/// Line ends are CR LF again where all of them were: from standard input rustfmt writes LF alone.
fn rustfmt(program: &Path, file: &Laid<'_>, text: &str) -> Option<String> {
    let n_crlf = text.matches("\r\n").count();
    if n_crlf > 0 && n_crlf == text.matches('\n').count() {
        let laid = run(program, file, &text.replace("\r\n", "\n"))?;
        return Some(laid.replace('\n', "\r\n"));
    }
    run(program, file, text)
}

fn run(program: &Path, file: &Laid<'_>, text: &str) -> Option<String> {
    let mut child = Command::new(program)
        .args([
            "--quiet",
            "--emit",
            "stdout",
            "--edition",
            &file.edition.to_string(),
        ])
        .current_dir(file.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let text = text.to_owned();
    // A pipe holds less than a file: one side writes while the other reads.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(before: &str, after: &str) -> Outcome {
        let directory = tempfile::tempdir().unwrap();
        lay_out(&[Laid {
            directory: directory.path(),
            edition: 2024,
            before,
            after,
        }])
        .remove(0)
    }

    #[test]
    fn what_was_clean_is_clean_again() {
        let clean = "fn f() {\n    g(1);\n}\n";
        match one(clean, "fn f() {\n  g( 1 );\n}\n") {
            Outcome::Formatted(text) => assert_eq!(text, clean),
            // A machine without rustfmt says so and nothing else.
            other => assert_eq!(other, Outcome::Unknown),
        }
    }

    #[test]
    fn line_ends_are_kept() {
        let clean = "fn f() {\r\n    g(1);\r\n}\r\n";
        match one(clean, "fn f() {\r\n  g( 1 );\r\n}\r\n") {
            Outcome::Formatted(text) => assert_eq!(text, clean),
            other => assert_eq!(other, Outcome::Unknown),
        }
    }

    #[test]
    fn a_toolchain_file_further_in_chooses() {
        let tree = tempfile::tempdir().unwrap();
        let (outer, inner) = (tree.path(), tree.path().join("a/b"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(outer.join("rust-toolchain"), "stable").unwrap();
        assert_eq!(chosen_by(&inner), Some(outer.join("rust-toolchain")));
        let chosen = tree.path().join("a/rust-toolchain.toml");
        std::fs::write(&chosen, "").unwrap();
        assert_eq!(chosen_by(&inner), Some(chosen));
        assert_eq!(chosen_by(outer), Some(outer.join("rust-toolchain")));
    }

    #[test]
    fn what_was_not_clean_stays_as_it_is() {
        let outcome = one("fn f() { g( 1 ); }\n", "fn f() { g( 2 ); }\n");
        assert!(
            matches!(outcome, Outcome::AsItIs | Outcome::Unknown),
            "{outcome:?}"
        );
    }
}
