//! `cargo xtask new-migration NAME`: a folder to start from, with one rule and its fixture.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::NewMigrationArguments;
use crate::failure::Failure;

/// What is laid out: the path in the new folder, and its content with `{id}` and `{title}` for what they are here.
const FILES: [(&str, &str); 4] = [
    ("migration.toml", include_str!("template/migration.toml")),
    ("GUIDE.md", include_str!("template/GUIDE.md")),
    (
        "fixtures/storage/match/before.rs",
        include_str!("template/before.rs"),
    ),
    (
        "fixtures/storage/match/after.rs",
        include_str!("template/after.rs"),
    ),
];

pub fn run(arguments: &NewMigrationArguments) -> Result<ExitCode, Failure> {
    let migrations = match &arguments.migrations {
        Some(directory) => directory.clone(),
        None => crate::repository()?.join("migrations"),
    };
    let folder = lay_out(&migrations, &arguments.name, today())?;
    println!("laid out `{}`; next:", folder.display());
    println!("  1. write down in `fixtures/` what is to become of what, a case for each idea");
    let until = if arguments.migrations.is_none() {
        "until `cargo test -p codemod --test engine fixtures` finds each case as you wrote it, once its suite stands in \
         `crates/codemod/tests/engine/fixtures.rs`"
    } else {
        "until `cargo xtask migrate ID --migrations DIR --root TREE --diff` makes of a tree what you wrote down; tests run the \
         fixtures of this repository alone"
    };
    println!("  2. describe the old and the new in `migration.toml`, {until}");
    println!("  3. tell in `GUIDE.md` what happens, and what is left to a person");
    Ok(ExitCode::SUCCESS)
}

fn lay_out(migrations: &Path, name: &str, date: (i64, u32, u32)) -> Result<PathBuf, Failure> {
    let is_plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    };
    if name.is_empty() || !name.bytes().all(is_plain) || !name.as_bytes()[0].is_ascii_alphanumeric()
    {
        return Err(
            Failure::new(format!("`{name}` cannot be the name of a migration"))
                .hint("small letters, digits, `-` and `.`, as in `retire-cpu-buffers`"),
        );
    }
    let (year, month, day) = date;
    let id = format!("{year:04}-{month:02}-{day:02}-{name}");
    let folder = migrations.join(&id);
    if folder.exists() {
        return Err(
            Failure::new(format!("`{}` is there already", folder.display()))
                .hint("take another name"),
        );
    }
    for (path, template) in FILES {
        let path = folder.join(path);
        let fail = |error: std::io::Error| {
            Failure::new(format!("cannot write `{}`: {error}", path.display()))
        };
        fs::create_dir_all(path.parent().expect("a file has a folder")).map_err(fail)?;
        fs::write(
            &path,
            template
                .replace("{id}", &id)
                .replace("{title}", &name.replace('-', " ")),
        )
        .map_err(fail)?;
    }
    Ok(folder)
}

/// Year, month and day in UTC.
fn today() -> (i64, u32, u32) {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    date(i64::try_from(seconds / 86_400).unwrap_or(0))
}

/// The date of a day counted from 1970-01-01, by walking whole years and months: a task that runs once a month need not be
/// clever.
fn date(mut days: i64) -> (i64, u32, u32) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let mut month = 1;
    for n_days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < n_days {
            break;
        }
        days -= n_days;
        month += 1;
    }
    (
        year,
        month,
        u32::try_from(days + 1).expect("a day of a month"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_553), (2026, 4, 10));
        assert_eq!(date(20_818), (2026, 12, 31));
    }

    #[test]
    fn a_folder_to_start_from_and_never_over_another() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let folder = lay_out(dir.path(), "retire-cpu", (2026, 4, 10)).expect("laid out");
        assert_eq!(folder, dir.path().join("2026-04-10-retire-cpu"));
        for (path, _) in FILES {
            let text = fs::read_to_string(folder.join(path)).expect("is there");
            assert!(
                !text.contains("{id}") && !text.contains("{title}"),
                "{path}"
            );
        }
        let all = crate::catalog::read(Some(dir.path())).expect("can be read");
        assert_eq!(
            crate::catalog::list(&all).expect("lists"),
            "2026-04-10-retire-cpu           retire cpu\n"
        );
        assert!(crate::catalog::explain(&all, "storage").is_ok());
        let again = lay_out(dir.path(), "retire-cpu", (2026, 4, 10))
            .expect_err("it is there")
            .to_string();
        assert!(again.contains("is there already"), "{again}");
        for wrong in ["", "Retire", "a b", "../x", "-x", ".."] {
            assert!(
                lay_out(dir.path(), wrong, (2026, 4, 10)).is_err(),
                "{wrong}"
            );
        }
    }
}
