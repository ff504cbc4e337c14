//! Which line of versions a requirement asks for.

use semver::{Comparator, Op, Version, VersionReq};

/// Patch or minor versions that a line is taken to have: far more than any crate ever published.
const PROBES: u64 = 500;

/// Versions that are compatible with each other, as cargo sees it: `1`, `0.8`, `0.0.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    major: u64,
    minor: Option<u64>,
}

/// What a requirement is with regard to an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Cargo takes a version of the old line.
    Before,
    /// Cargo takes a version of the new line.
    After,
    /// There is no requirement: a path, or a repository.
    Unknown,
    /// Neither: another crate, as far as code goes.
    Elsewhere,
}

impl Line {
    /// Reads `1` or `0.8`.
    pub fn parse(text: &str) -> Option<Line> {
        let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
        let major = parts.next()??;
        let minor = match parts.next() {
            Some(minor) => Some(minor?),
            None => None,
        };
        (parts.next().is_none() && (major > 0 || minor.is_some())).then_some(Line {
            major,
            minor: if major == 0 { minor } else { None },
        })
    }

    fn versions(self) -> impl Iterator<Item = Version> {
        (0..PROBES).map(move |n| match self.minor {
            Some(minor) => Version::new(self.major, minor, n),
            None => Version::new(self.major, n, 0),
        })
    }

    fn is_met(self, requirement: &VersionReq) -> bool {
        self.versions().any(|version| requirement.matches(&version))
    }

    fn holds(self, comparator: &Comparator) -> bool {
        comparator.major == self.major && (self.minor.is_none() || comparator.minor == self.minor)
    }
}

/// Which side of an upgrade the newest version is on that a requirement allows.
pub fn side(requirement: Option<&str>, from: Line, to: Line) -> Side {
    let Some(text) = requirement else {
        return Side::Unknown;
    };
    let Ok(requirement) = VersionReq::parse(text) else {
        return Side::Elsewhere;
    };
    if to.is_met(&requirement) {
        Side::After
    } else if from.is_met(&requirement) {
        Side::Before
    } else {
        Side::Elsewhere
    }
}

/// The requirement with the new line in place of the old: `^0.8.3` is `^0.9`.
///
/// None where it asks for more than a minimum of the old line: `=0.8.5`, `~0.8`, `>=0.7, <0.9`.
pub fn raised(requirement: &str, from: Line, to: &str) -> Option<String> {
    let parsed = VersionReq::parse(requirement).ok()?;
    let [only] = &parsed.comparators[..] else {
        return None;
    };
    if !from.holds(only) || !only.pre.is_empty() {
        return None;
    }
    let text = requirement.trim();
    match only.op {
        Op::Caret if text.starts_with('^') => Some(format!("^{to}")),
        Op::Caret => Some(to.to_owned()),
        Op::Wildcard => Some(format!("{to}.*")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::parse(text).expect("a line")
    }

    #[test]
    fn requirements_are_raised_or_left() {
        let cases = [
            ("0.8", Some("0.9")),
            ("0.8.5", Some("0.9")),
            ("^0.8.5", Some("^0.9")),
            (" 0.8 ", Some("0.9")),
            ("0.8.*", Some("0.9.*")),
            ("=0.8.5", None),
            ("~0.8", None),
            (">=0.7, <0.9", None),
            (">=0.8", None),
            ("0.7", None),
            ("0.80", None),
            ("8", None),
            ("*", None),
        ];
        for (requirement, expected) in cases {
            assert_eq!(
                raised(requirement, line("0.8"), "0.9").as_deref(),
                expected,
                "{requirement}"
            );
        }
        assert_eq!(raised("1.2", line("1"), "2").as_deref(), Some("2"));
    }

    #[test]
    fn the_newest_allowed_version_decides() {
        let side = |requirement| side(requirement, line("0.8"), line("0.9"));
        assert_eq!(side(Some("0.8.3")), Side::Before);
        assert_eq!(side(Some("=0.8.5")), Side::Before);
        assert_eq!(side(Some(">=0.7, <0.9")), Side::Before);
        assert_eq!(side(Some(">=0.8, <0.10")), Side::After);
        assert_eq!(side(Some("*")), Side::After);
        assert_eq!(side(Some("0.7")), Side::Elsewhere);
        assert_eq!(side(Some("0.10")), Side::Elsewhere);
        assert_eq!(side(Some("not one")), Side::Elsewhere);
        assert_eq!(side(None), Side::Unknown);
    }

    #[test]
    fn lines() {
        assert_eq!(line("1.4"), line("1"));
        assert_ne!(line("0.8"), line("0.9"));
        for wrong in ["", "0", "0.8.1", "x", "1.x"] {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
    }
}
