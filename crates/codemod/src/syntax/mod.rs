//! One Rust file as this crate sees it: its text, and a tree whose every node knows its bytes.
//!
//! `syn` parses; [`lower`] copies what matters into the plain types of [`tree`], with byte ranges in place of spans. After
//! that nothing of the parser is kept, so that its span table can be cleared for the next file.

pub mod lower;
pub mod source;
pub mod tree;
pub mod trivia;
mod uses;

pub use source::{LineIndex, ParseFailure, STACK_BYTES, on_big_stack, parse};
pub use tree::*;
pub use uses::{Binds, UseLeaf};
