//! Small trees, run until nothing is proposed, then once more as if they had been found so.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::*;
use crate::analysis::analyze;
use crate::edit::Rope;
use crate::rewrite::nodes::Nodes;
use crate::rule::Migration;
use crate::syntax::parse;
use crate::world::{CrateKind, CrateSpec, Loader};

const MIGRATION: &str = include_str!("../../../../migrations/2026-04-10-gpu-replay/migration.toml");

struct Files(HashMap<String, Rc<str>>);

impl Loader for Files {
    fn read(&self, path: &str) -> Option<Rc<str>> {
        self.0.get(path).cloned()
    }
}

fn spec(root: &str, name: &str, externs: &[(&str, &str)]) -> CrateSpec {
    CrateSpec {
        name: name.into(),
        package: name.into(),
        kind: CrateKind::Lib,
        edition: 2024,
        root: root.into(),
        externs: externs
            .iter()
            .map(|(name, package)| ((*name).to_owned(), (*package).to_owned()))
            .collect(),
    }
}

/// A library that depends on `ml-dqn` and cudarc.
fn lib() -> Vec<CrateSpec> {
    vec![spec(
        "src/lib.rs",
        "app",
        &[("cudarc", "cudarc"), ("ml_dqn", "ml-dqn")],
    )]
}

#[derive(Debug)]
struct Done {
    texts: BTreeMap<String, String>,
    /// The reported line, and why.
    sites: Vec<(String, String)>,
}

/// Edits by path, and sites by line.
type Proposal = (Vec<(String, EditGroup)>, Vec<(String, String)>);

fn found(specs: &[CrateSpec], texts: &BTreeMap<String, String>) -> (World, Rules) {
    let migration = Migration::parse("test", MIGRATION).unwrap();
    let loader = Files(
        texts
            .iter()
            .map(|(path, text)| (path.clone(), Rc::from(text.as_str())))
            .collect(),
    );
    let mut world = World::build(specs, &migration.surfaces(), &loader);
    let rules = Rules::compile(&mut world, &[migration]).unwrap();
    (world, rules)
}

fn propose(world: &World, rules: &Rules, texts: &BTreeMap<String, String>) -> Proposal {
    let mut parts = Vec::new();
    for (path, text) in texts {
        let Some(id) = world.file_id(path) else {
            continue;
        };
        let module = world.files[id].contexts[0];
        let file = parse(text).unwrap_or_else(|err| panic!("{path}: {err}\n{text}"));
        let an = analyze(world, &file, id, module);
        parts.push((path.as_str(), module, file, an, Rope::new(text)));
    }
    let cxs: Vec<Cx<'_>> = parts
        .iter()
        .map(|(path, _, file, an, rope)| Cx {
            world,
            rules,
            id: world.file_id(path).unwrap(),
            file,
            text: rope.text(),
            an,
            nodes: Nodes::new(file),
            rope,
            frozen: &[],
        })
        .collect();
    let files: Vec<BracketFile<'_>> = parts
        .iter()
        .zip(&cxs)
        .map(|((path, module, ..), cx)| BracketFile {
            path,
            cx,
            module: *module,
        })
        .collect();
    let outcome = brackets(&files, world, rules);
    let sites = outcome
        .unresolved
        .iter()
        .map(|site| {
            assert!(
                site.rule == "phase-timing" && site.suggestion.is_some(),
                "{site:?}"
            );
            let text = cxs[site.file].text;
            let lo = crate::syntax::trivia::line_start(text, site.span.lo);
            (
                text[lo..crate::syntax::trivia::line_end(text, lo)]
                    .trim()
                    .to_owned(),
                site.reason.clone(),
            )
        })
        .collect();
    (
        outcome
            .edits
            .into_iter()
            .map(|(file, group)| (parts[file].0.to_owned(), group))
            .collect(),
        sites,
    )
}

fn run(specs: &[CrateSpec], sources: &[(&str, &str)]) -> Done {
    let original: BTreeMap<String, String> = sources
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let mut texts = original.clone();
    let (world, rules) = found(specs, &original);
    let (edits, sites) = propose(&world, &rules, &texts);
    for (path, group) in edits {
        let mut rope = Rope::new(&texts[&path]);
        rope.apply(&group.edits).unwrap();
        texts.insert(path, rope.text().to_owned());
    }
    // Against the world as it was, and as a later run finds it: the same sites, nothing else.
    let later = found(specs, &texts);
    for (world, rules) in [(&world, &rules), (&later.0, &later.1)] {
        let (edits, again) = propose(world, rules, &texts);
        assert!(
            edits.is_empty(),
            "a second call proposes {edits:?}\n{}",
            texts.values().cloned().collect::<Vec<_>>().join("\n----\n")
        );
        assert_eq!(sites, again);
    }
    Done { texts, sites }
}

/// One file as the library's root.
fn one(source: &str) -> (String, Vec<(String, String)>) {
    let done = run(&lib(), &[("src/lib.rs", source)]);
    (done.texts["src/lib.rs"].clone(), done.sites)
}

/// The usual context around a step's body and what else is given.
fn context(body: &str, rest: &str) -> String {
    format!(
        "use std::sync::Arc;

use cudarc::driver::{{CudaSlice, CudaStream, DriverError}};
use ml_dqn::{{DqnAgent, DqnConfig, GpuBatchPtrs}};

#[derive(Debug)]
pub enum TrainError {{ Driver(DriverError) }}
impl From<DriverError> for TrainError {{ fn from(e: DriverError) -> Self {{ Self::Driver(e) }} }}
impl From<ml_dqn::DqnError> for TrainError {{ fn from(_: ml_dqn::DqnError) -> Self {{ loop {{}} }} }}

pub struct FusedTrainingCtx {{
    stream: Arc<CudaStream>,
    td_errors: CudaSlice<f32>,
    mega: bool,
}}

impl FusedTrainingCtx {{
    pub fn new(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<Self, TrainError> {{
        let td_errors = stream.alloc_zeros::<f32>(config.batch_size)?;
        Ok(Self {{ stream, td_errors, mega: true }})
    }}

    pub fn run_full_step(&mut self, agent: &DqnAgent, batch: &GpuBatchPtrs) -> Result<f32, TrainError> {{
{body}
    }}

    fn upload_batch_gpu(&mut self, _b: &GpuBatchPtrs) -> Result<(), TrainError> {{
        Ok(())
    }}

    fn replay_graph_mega(&mut self) -> Result<(), TrainError> {{
        self.replay_graph_forward()?;
        self.replay_graph_backward()
    }}

    fn replay_graph_forward(&mut self) -> Result<(), TrainError> {{
        Ok(())
    }}

    fn replay_graph_backward(&mut self) -> Result<(), TrainError> {{
        Ok(())
    }}

    fn replay_graph_adam(&mut self) -> Result<(), TrainError> {{
        Ok(())
    }}
}}
{rest}"
    )
}

/// The step's body after a run, marks shortened: `<Upload` and `>Upload` on the own stream.
fn step(body: &str) -> (String, Vec<(String, String)>) {
    let (text, sites) = one(&context(body, ""));
    (short(&text), sites)
}

fn short(text: &str) -> String {
    let from = text.find("pub fn run_full_step").unwrap();
    let from = from + text[from..].find('\n').unwrap() + 1;
    let to = from + text[from..].find("\n    }\n").unwrap();
    let mut body = text[from..to].to_owned();
    for phase in ["Upload", "FwdBwd", "Adam", "PerUpdate"] {
        body = body.replace(
            &format!("self.phases.start(Phase::{phase}, &self.stream);"),
            &format!("<{phase}"),
        );
        body = body.replace(
            &format!("self.phases.end(Phase::{phase}, &self.stream);"),
            &format!(">{phase}"),
        );
    }
    body.lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

#[track_caller]
fn check_step(body: &str, expected: &str) {
    let (got, sites) = step(body);
    assert_eq!(got, expected);
    assert_eq!(sites, []);
}

#[track_caller]
fn check_site(sites: &[(String, String)], line: &str, reason: &str) {
    assert!(
        sites
            .iter()
            .any(|(at, why)| at.contains(line) && why.contains(reason)),
        "{sites:#?}"
    );
}

mod calling;
mod fields;
mod stepping;
