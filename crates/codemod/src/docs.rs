//! Documentation: links in it, and the examples that rustdoc compiles.
//!
//! Comments are where a migration usually stops, and where `cargo doc` and `cargo test` then go on to fail. [`prepare`] adds
//! every example to the world as a crate of its own; [`follow`] migrates [`examples`] and [`links`] of one file once its code
//! is done and its imports stand. Words that merely mention a name are nobody's business.

mod comments;
mod examples;
mod extract;
mod included;
mod links;
mod markdown;
mod order;
mod prose;
mod scope;
mod target;
#[cfg(test)]
mod tests;

use crate::leftover::Leftover;
use crate::session::{Broken, Session};
use crate::syntax::Span;

pub use examples::{RULE, examples, prepare};
pub use included::included;
pub use links::{Links, links};

/// What there is to say about a file's documentation, at places in the original file.
#[derive(Debug, Default)]
pub struct Said {
    /// Sites in examples.
    pub unresolved: Vec<Leftover>,
    /// Links that lead nowhere any more.
    pub notes: Vec<Leftover>,
}

/// Migrates the documentation of a file whose code is done.
///
/// # Errors
/// Edits that overlap, or a file that would not parse: an error of this tool.
pub fn follow(session: &mut Session<'_>, at: usize) -> Result<Said, Broken> {
    let unresolved = examples(session, at)?;
    let Some(&context) = session.works[at].contexts.first() else {
        return Ok(Said {
            unresolved,
            notes: vec![],
        });
    };
    let Links { edits, mut notes } = session
        .view(at, context, |cx| links(cx, context))
        .unwrap_or_default();
    let rope = &session.works[at].rope;
    for note in &mut notes {
        let lo = rope.origin(note.span.lo);
        note.span = Span::new(lo, (rope.origin(note.span.hi.max(1) - 1) + 1).max(lo));
    }
    session.apply(at, &edits)?;
    Ok(Said { unresolved, notes })
}
