//! Hands the migrations and the options of the command line to the engine.

use codemod::plan::{Plan, PlanError, PlanOptions, plan};
use codemod::rule;
use codemod::verify::Evidence;
use codemod::walk::Tree;

use crate::catalog::Migration;
use crate::cli::MigrateArguments;
use crate::failure::Failure;
use crate::migrate::Planner;
use crate::progress::Progress;

/// The engine, ready to plan.
pub struct Engine {
    migrations: Vec<rule::Migration>,
    options: PlanOptions,
}

impl Engine {
    pub fn new(migrations: &[&Migration], arguments: &MigrateArguments) -> Result<Self, Failure> {
        let migrations = migrations
            .iter()
            .map(|migration| {
                rule::Migration::parse(&migration.id, &migration.text)
                    .map_err(|error| Failure::new(error.to_string()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let options = PlanOptions {
            packages: arguments.packages.clone(),
            exhaustive: arguments.exhaustive,
            jobs: arguments.jobs,
            ..PlanOptions::default()
        };
        Ok(Self {
            migrations,
            options,
        })
    }
}

impl Planner for Engine {
    fn plan(&self, tree: &Tree, evidence: &[Evidence], _: &Progress) -> Result<Plan, Failure> {
        let options = PlanOptions {
            evidence: evidence.to_vec(),
            ..self.options.clone()
        };
        plan(tree, &self.migrations, &options).map_err(|error| {
            let hint = match error {
                PlanError::Namesakes { .. } => {
                    "nothing was written; run it on each by itself with `--root`, or leave the others out with `--exclude`"
                }
                _ => "nothing was written",
            };
            Failure::new(error.to_string()).hint(hint)
        })
    }
}
