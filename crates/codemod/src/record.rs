//! What a run has to say: every edit, deletion, unresolved site and note, in one shape for every output.

use serde::Serialize;

/// What became of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Rewritten in place.
    Edit,
    /// Left byte for byte as it was, with the reason and what to write instead.
    Unresolved,
    /// A file, an item or a manifest entry that is gone.
    Deleted,
    /// Something to know; never a reason for an exit code.
    Note,
}

/// One line of the report.
///
/// Lines and columns count from 1 and speak of the file as it was before the run, columns in characters. Byte offsets are
/// offsets into that file, byte order mark included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    pub kind: RecordKind,
    /// Name of the rule, as `--explain` takes it.
    pub rule: String,
    /// Path from the root of the tree, with `/`.
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// The line of a site or note after the run, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_after: Option<usize>,
    pub byte_start: usize,
    pub byte_end: usize,
    /// The source line at `line`, without its line end; empty where the record speaks of a file as a whole.
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Why: for a person to read, lower case, no full stop.
    pub reason: String,
    /// What to write instead, or to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Record {
    /// What is said of a file as a whole.
    pub fn about_file(kind: RecordKind, rule: &str, file: &str, reason: impl Into<String>) -> Self {
        Record {
            kind,
            rule: rule.to_owned(),
            file: file.to_owned(),
            line: 1,
            column: 1,
            line_after: None,
            byte_start: 0,
            byte_end: 0,
            source: String::new(),
            before: None,
            after: None,
            reason: reason.into(),
            suggestion: None,
        }
    }

    /// Order of the report: by path, then by position, then by what it is.
    pub fn sort_key(&self) -> (&str, usize, usize, RecordKind, &str) {
        (
            &self.file,
            self.byte_start,
            self.byte_end,
            self.kind,
            &self.rule,
        )
    }
}
