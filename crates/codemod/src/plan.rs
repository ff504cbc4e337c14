//! What a run would do, computed without touching the tree.

use crate::record::Record;

/// One file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A file with new content.
    Write {
        /// Path from the root of the tree, with `/`.
        path: String,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    /// A file that goes.
    Delete {
        /// Path from the root of the tree, with `/`.
        path: String,
        before: Vec<u8>,
    },
}

impl Change {
    /// Path from the root of the tree, with `/`.
    pub fn path(&self) -> &str {
        match self {
            Self::Write { path, .. } | Self::Delete { path, .. } => path,
        }
    }
}

/// The changes of a run and what it has to say about them.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Sorted by path, one for each file.
    pub changes: Vec<Change>,
    /// Sorted by [`Record::sort_key`].
    pub records: Vec<Record>,
    /// Files that were looked at and stay as they are.
    pub unchanged: usize,
}
