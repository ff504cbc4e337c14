//! Writes to the tree, all or nothing.

pub mod git;
