//! What a run would do, computed without touching the tree.

use crate::record::Record;
pub use crate::stage::Change;

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
