//! Watches replay memories and scores runs.
//!
//! * [`metrics`] scores results,
//! * [`replay`] draws from a memory and counts what comes,
//! * [`health`] says whether a memory can be learned from,
//! * [`service`] does all of it on a thread, with the memory in an `Arc<Mutex<…>>`,
//! * [`report`] writes it down,
//! * [`dry_run`] times the host's side of a training step.

pub mod dry_run;
pub mod error;
pub mod health;
pub mod metrics;
pub mod replay;
pub mod report;
pub mod service;

pub use error::EvalError;
pub use health::MemoryHealth;
pub use service::EvalService;

/// What this crate means by a batch.
pub type Batch = ml_dqn::BatchSample;
