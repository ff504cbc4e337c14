//! Hands the migrations and the options of the command line to the engine.

use codemod::plan::Plan;
use codemod::verify::Evidence;
use codemod::walk::Tree;

use crate::catalog::Migration;
use crate::cli::MigrateArguments;
use crate::failure::Failure;
use crate::migrate::Planner;
use crate::progress::Progress;

/// The engine, ready to plan.
pub struct Engine;

impl Engine {
    pub fn new(_: &[&Migration], _: &MigrateArguments) -> Result<Self, Failure> {
        Ok(Self)
    }
}

impl Planner for Engine {
    // FIXME: calls `codemod::plan::plan` once the engine is there; until then a run says so and fails.
    fn plan(&self, _: &Tree, _: &[Evidence], _: &Progress) -> Result<Plan, Failure> {
        Err(Failure::new(
            "this build has no engine yet; nothing was written",
        ))
    }
}
