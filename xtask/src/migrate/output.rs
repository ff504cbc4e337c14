//! Where the report goes, and in which form.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use codemod::report::human::Color;
use codemod::report::sarif::Tool;
use codemod::report::{Report, html, human, json, sarif};

use crate::cli::MessageFormat;
use crate::failure::Failure;
use crate::interactive::show_patch;

/// Standard output and standard error, or what tests put in their place.
pub struct Output<'w> {
    out: Box<dyn Write + 'w>,
    err: Box<dyn Write + 'w>,
    /// Whether each of the two may be colored.
    color: (bool, bool),
}

impl Output<'static> {
    pub fn of_process() -> Self {
        // https://no-color.org: any value but an empty one.
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = (
            wanted && io::stdout().is_terminal(),
            wanted && io::stderr().is_terminal(),
        );
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            color,
        }
    }
}

impl<'w> Output<'w> {
    #[cfg(test)]
    pub fn to(out: &'w mut Vec<u8>, err: &'w mut Vec<u8>) -> Self {
        Self {
            out: Box::new(out),
            err: Box::new(err),
            color: (false, false),
        }
    }

    /// Whether standard output, or else standard error, may be colored.
    pub fn color(&self, of_error: bool) -> bool {
        if of_error { self.color.1 } else { self.color.0 }
    }

    /// Prints what was asked for.
    pub fn print(&mut self, text: String) -> Result<(), Failure> {
        let done = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        heard(done)
    }

    pub fn print_patch(&mut self, patch: &[u8]) -> Result<(), Failure> {
        let done = show_patch(patch, &mut self.out, self.color.0).and_then(|()| self.out.flush());
        heard(done)
    }

    /// Says something beside what was asked for.
    pub fn say(&mut self, text: &str) {
        // Nobody reads it, then: no reason to stop.
        let _ = writeln!(self.err, "{text}");
    }

    /// Questions go where the report does not.
    pub fn questions(&mut self) -> &mut dyn Write {
        &mut self.err
    }
}

/// A reader that has had enough, as `head` has, is no failure of ours.
fn heard(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

pub fn render(report: &Report<'_>, format: MessageFormat, color: bool) -> String {
    match format {
        MessageFormat::Human => {
            human::render(report, if color { Color::Always } else { Color::Never })
        }
        MessageFormat::Json => json::render(report),
        MessageFormat::Sarif => sarif::render(
            report,
            Tool {
                name: "migrate",
                version: env!("CARGO_PKG_VERSION"),
            },
        ),
    }
}

/// What would fail once the files are written fails before.
pub fn refuse_page(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| folder.is_dir());
    if folder.is_some() && !path.is_dir() {
        return Ok(());
    }
    let why = if path.is_dir() {
        "it is a folder"
    } else {
        "its folder is not there"
    };
    Err(
        Failure::new(format!("cannot write the page `{}`: {why}", path.display()))
            .hint("name a file in a folder that is there"),
    )
}

pub fn write_page(report: &Report<'_>, title: &str, path: &Path) -> Result<(), Failure> {
    fs::write(path, html::render(report, title)).map_err(|error| {
        Failure::new(format!(
            "cannot write the page `{}`: {error}",
            path.display()
        ))
        .hint("the folder of `--report` has to be there")
    })
}

#[cfg(unix)]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
pub fn is_executable(_: &Path) -> bool {
    false
}
