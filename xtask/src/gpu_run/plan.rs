//! `tests/gpu/plan.json`: limits, sanitizer runs and training runs. Data, so that whoever adds a test or an example
//! need not touch this command. It travels in the bundle's manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// What a bundle runs beyond "every program once".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub tests: Tests,
    pub bench: Limit,
    /// What others take for the same work, and how fast the device is: after the benches.
    #[serde(default)]
    pub peers: Vec<Peer>,
    pub sanitize: Vec<Sanitize>,
    /// Of an example that is not named here: once, without arguments, under `tests.limit_s`.
    pub train: Vec<Train>,
}

/// Test programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tests {
    /// For each program.
    pub limit_s: u64,
    /// Programs whose name holds one of these ask for no GPU, and take longer than those that do. Where there is a GPU they
    /// run only if `--only` names them.
    #[serde(default)]
    pub without_gpu: Vec<String>,
}

/// For each program of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub limit_s: u64,
}

/// A Python script of `tests/gpu/peers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// `per_torch.py`
    pub script: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    pub limit_s: u64,
}

/// A tool of compute-sanitizer over some test programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sanitize {
    /// `memcheck`, `racecheck`, `initcheck`, `synccheck`
    pub tool: String,
    /// Programs whose name holds one of these.
    pub programs: Vec<String>,
    /// More of the tool's options.
    #[serde(default)]
    pub options: Vec<String>,
    /// Tests whose name holds one of these are left out.
    #[serde(default)]
    pub skip: Vec<String>,
    /// How the names of library kernels begin: findings in these alone are told, and are no failure.
    #[serde(default)]
    pub library_kernels: Vec<String>,
    /// Variables for the program, as those that bound its sizes.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    pub limit_s: u64,
}

/// A run of an example. One that is named several times runs several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// `ml/example/cartpole`
    pub program: String,
    /// `{report}` stands for the folder into which the run may write.
    #[serde(default)]
    pub arguments: Vec<String>,
    pub limit_s: u64,
}

impl Plan {
    /// # Errors
    /// A sentence with the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        serde_json::from_str(&text).map_err(|e| format!("`{}` is no plan: {e}", path.display()))
    }

    /// The runs of an example.
    pub fn train_runs(&self, program: &str) -> Vec<Train> {
        let named: Vec<Train> = self
            .train
            .iter()
            .filter(|entry| entry.program == program)
            .cloned()
            .collect();
        if named.is_empty() {
            return vec![Train {
                program: program.into(),
                arguments: Vec::new(),
                limit_s: self.tests.limit_s,
            }];
        }
        named
    }

    /// Names that match no program of the bundle: most likely misspelt, or left behind.
    pub fn names_without_a_program<'a>(&'a self, programs: &[String]) -> BTreeSet<&'a str> {
        let parts = self
            .sanitize
            .iter()
            .flat_map(|entry| &entry.programs)
            .map(String::as_str);
        let unmatched_parts =
            parts.filter(|part| !programs.iter().any(|program| program.contains(part)));
        let examples = self.train.iter().map(|entry| entry.program.as_str());
        let unmatched_examples =
            examples.filter(|example| !programs.iter().any(|program| program == example));
        unmatched_parts.chain(unmatched_examples).collect()
    }
}

impl Peer {
    /// `peer/per_torch`
    pub fn name(&self) -> String {
        let stem = self.script.strip_suffix(".py").unwrap_or(&self.script);
        format!("peer/{stem}")
    }
}

impl Sanitize {
    pub fn covers(&self, program: &str) -> bool {
        self.programs
            .iter()
            .any(|part| program.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one in the tree, which every bundle takes along.
    #[test]
    fn the_trees_plan_is_one() {
        let root = crate::gpu_status::workspace_root();
        let plan = Plan::read(&root.join("tests/gpu/plan.json")).unwrap();
        let tools: Vec<&str> = plan
            .sanitize
            .iter()
            .map(|entry| entry.tool.as_str())
            .collect();
        for tool in ["memcheck", "racecheck", "initcheck"] {
            assert!(tools.contains(&tool), "no {tool} in {tools:?}");
        }
        for peer in &plan.peers {
            let script = root.join("tests/gpu/peers").join(&peer.script);
            assert!(script.is_file(), "no {}", script.display());
        }
    }

    #[test]
    fn an_example_runs_as_often_as_it_is_named_and_at_least_once() {
        let plan: Plan = serde_json::from_str(
            r#"{"tests": {"limit_s": 5}, "bench": {"limit_s": 6}, "sanitize": [], "train": [
                {"program": "ml/example/a", "arguments": ["--seed", "1"], "limit_s": 7},
                {"program": "ml/example/a", "limit_s": 8}]}"#,
        )
        .unwrap();
        let limits = |program: &str| {
            plan.train_runs(program)
                .iter()
                .map(|run| run.limit_s)
                .collect::<Vec<_>>()
        };
        assert_eq!(limits("ml/example/a"), [7, 8]);
        assert_eq!(limits("ml/example/b"), [5]);
        let unmatched = plan.names_without_a_program(&["ml/example/b".into()]);
        assert_eq!(Vec::from_iter(unmatched), ["ml/example/a"]);
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), r#"{"tests": {"limit": 5}}"#).unwrap();
        let error = Plan::read(file.path()).unwrap_err();
        assert!(error.contains("unknown field `limit`"), "{error}");
    }
}
