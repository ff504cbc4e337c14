//! `manifest.json` of a bundle: what it holds, and which sources it speaks for.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::gpu_run::Plan;
use crate::gpu_status::fingerprint::Fingerprint;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Ends in `+` where the tree had changes on top.
    pub commit: Option<String>,
    pub fingerprint: Fingerprint,
    pub plan: Plan,
    /// Sorted by name.
    pub programs: Vec<Program>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// `ml-dqn/test/gpu`; a crate's unit tests are `ml-dqn/test/unit`.
    pub name: String,
    pub kind: Kind,
    /// From the bundle's folder.
    pub file: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Test,
    Bench,
    Example,
}

impl Manifest {
    /// # Errors
    /// A sentence with the path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|e| format!("`{}` is no manifest of a bundle: {e}", path.display()))
    }

    /// # Errors
    /// A sentence with the path.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| format!("cannot write the manifest: {e}"))?;
        fs::write(path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Test => "test",
            Self::Bench => "bench",
            Self::Example => "example",
        })
    }
}
