//! A codemod engine for Rust trees.
//!
//! A migration is data: [`rule`] reads it, [`plan`] applies it to a tree that [`walk`] has read, and nothing is written
//! until [`stage`] does so, all or nothing. The engine knows Rust and its standard library; what is being retired, and by
//! what it is replaced, it learns from the migration alone.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bracket;
pub mod delete;
pub mod diff;
pub mod docs;
pub mod edit;
pub mod imports;
pub mod layout;
pub mod leftover;
pub mod manifest;
pub mod names;
pub mod plan;
pub mod record;
pub mod report;
pub mod rewrite;
pub mod rule;
pub mod session;
pub mod stage;
pub mod stale;
pub mod syntax;
pub mod tidy;
pub mod upgrade;
pub mod verify;
pub mod walk;
pub mod world;

/// Threads for work that may parse.
///
/// # Errors
/// The system gives none.
pub fn workers(jobs: Option<usize>) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.unwrap_or(0))
        .thread_name(|n| format!("worker {n}"))
        .stack_size(syntax::STACK_BYTES)
        .build()
}
