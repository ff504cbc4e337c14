//! Brackets in the body of the method.

use super::*;

#[test]
fn each_phase_closely() {
    check_step(
        "        // 1. inputs
        self.upload_batch_gpu(batch)?; // copies
        let n = batch.len();

        match self.mega {
            true => self.replay_graph_mega()?,
            false => {
                self.replay_graph_forward()?;
                if n > 3 {
                    return Err(fail());
                }
                self.replay_graph_backward()?;
            }
        }
        if n % 2 == 0 {
            self.replay_graph_adam()?;
            log();
        }
        Ok(0.0)",
        "// 1. inputs
<Upload
self.upload_batch_gpu(batch)?; // copies
>Upload
let n = batch.len();

<FwdBwd
match self.mega {
    true => self.replay_graph_mega()?,
    false => {
        self.replay_graph_forward()?;
        if n > 3 {
            return Err(fail());
        }
        self.replay_graph_backward()?;
    }
}
>FwdBwd
if n % 2 == 0 {
    <Adam
    self.replay_graph_adam()?;
    >Adam
    log();
}
Ok(0.0)",
    );
}

#[test]
fn statements_in_between_stay_inside() {
    check_step(
        "        self.replay_graph_forward()?;\n        look();\n        self.replay_graph_backward()?;\n        Ok(0.0)",
        "<FwdBwd\nself.replay_graph_forward()?;\nlook();\nself.replay_graph_backward()?;\n>FwdBwd\nOk(0.0)",
    );
}

#[test]
fn a_loop_is_taken_as_a_whole_unless_other_phases_are_in_it() {
    check_step(
        "        for _ in 0..4 {\n            self.replay_graph_mega()?;\n        }\n        Ok(0.0)",
        "<FwdBwd\nfor _ in 0..4 {\n    self.replay_graph_mega()?;\n}\n>FwdBwd\nOk(0.0)",
    );
    check_step(
        "        for _ in 0..4 {
            self.upload_batch_gpu(batch)?;
            self.replay_graph_mega()?;
        }
        Ok(0.0)",
        "for _ in 0..4 {
    <Upload
    self.upload_batch_gpu(batch)?;
    >Upload
    <FwdBwd
    self.replay_graph_mega()?;
    >FwdBwd
}
Ok(0.0)",
    );
}

#[test]
fn phases_that_take_turns_are_bracketed_one_by_one() {
    check_step(
        "        if self.mega {
            self.replay_graph_mega()?;
            self.replay_graph_adam()?;
        } else {
            self.replay_graph_forward()?;
            self.replay_graph_backward()?;
            self.replay_graph_adam()?;
        }
        Ok(0.0)",
        "if self.mega {
    <FwdBwd
    self.replay_graph_mega()?;
    >FwdBwd
    <Adam
    self.replay_graph_adam()?;
    >Adam
} else {
    <FwdBwd
    self.replay_graph_forward()?;
    self.replay_graph_backward()?;
    >FwdBwd
    <Adam
    self.replay_graph_adam()?;
    >Adam
}
Ok(0.0)",
    );
}

#[test]
fn a_value_is_bound_before_the_bracket_ends() {
    check_step(
        "        self.replay_graph_adam().map(|()| 0.0)",
        "<Adam\nlet result = self.replay_graph_adam().map(|()| 0.0);\n>Adam\nresult",
    );
    check_step(
        "        return self.replay_graph_adam().map(|()| 0.0); // done",
        "<Adam\nlet result = self.replay_graph_adam().map(|()| 0.0); // done\n>Adam\nreturn result;",
    );
    check_step(
        "        let ok = if self.mega { self.replay_graph_mega().is_ok() } else { false };\n        Ok(f32::from(ok))",
        "<FwdBwd\nlet ok = if self.mega { self.replay_graph_mega().is_ok() } else { false };\n>FwdBwd\nOk(f32::from(ok))",
    );
    check_step(
        "        loop {
            self.upload_batch_gpu(batch)?;
            break self.replay_graph_adam().map(|()| 1.0);
        }",
        "loop {
    <Upload
    self.upload_batch_gpu(batch)?;
    >Upload
    <Adam
    let result = self.replay_graph_adam().map(|()| 1.0);
    >Adam
    break result;
}",
    );
}

#[test]
fn a_block_without_a_value_gets_its_semicolon() {
    check_step(
        "        if self.mega {\n            self.replay_graph_adam()?\n        }\n        Ok(0.0)",
        "if self.mega {\n    <Adam\n    self.replay_graph_adam()?;\n    >Adam\n}\nOk(0.0)",
    );
}

#[test]
fn arguments_scrutinees_and_closures_that_are_called_at_once() {
    check_step(
        "        keep(self.upload_batch_gpu(batch))?;
        match self.replay_graph_forward() {
            Ok(()) => (0..2).try_for_each(|_| self.replay_graph_backward())?,
            Err(e) => return Err(e),
        }
        Ok(0.0)",
        "<Upload
keep(self.upload_batch_gpu(batch))?;
>Upload
<FwdBwd
match self.replay_graph_forward() {
    Ok(()) => (0..2).try_for_each(|_| self.replay_graph_backward())?,
    Err(e) => return Err(e),
}
>FwdBwd
Ok(0.0)",
    );
}

#[test]
fn bodies_on_one_line_stay_there() {
    let body = "        let n = batch.len(); self.upload_batch_gpu(batch)?; if n > 0 { self.replay_graph_mega()?; } match n { 0 => (), _ => self.replay_graph_adam()?, } Ok(0.0)";
    check_step(
        body,
        "let n = batch.len(); <Upload self.upload_batch_gpu(batch)?; >Upload if n > 0 { <FwdBwd self.replay_graph_mega()?; >FwdBwd } <Adam match n { 0 => (), _ => self.replay_graph_adam()?, } >Adam Ok(0.0)",
    );
}

#[test]
fn tabs_and_line_ends_are_kept() {
    let source = context(
        "        self.upload_batch_gpu(batch)?;\n        self.replay_graph_adam().map(|()| 0.0)",
        "",
    );
    let source = source.replace("    ", "\t").replace('\n', "\r\n");
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(text.contains("\t\tself.phases.start(Phase::Upload, &self.stream);\r\n\t\tself.upload_batch_gpu(batch)?;\r\n\t\tself.phases.end("), "{text}");
    assert!(
        text.contains("\r\n\tpub fn phases(&self) -> &PhaseTimer {\r\n\t\t&self.phases\r\n\t}\r\n"),
        "{text}"
    );
    assert!(
        text.contains("GpuBatchPtrs, Phase, PhaseTimer};\r\n"),
        "{text}"
    );
}

#[test]
fn fully_qualified_calls_count_and_other_types_do_not() {
    let rest = "pub struct Sim;
impl Sim {
    pub fn replay_graph_forward(&self) -> Result<(), TrainError> { Ok(()) }
    pub fn replay_graph_adam() {}
    pub fn run_full_step(&mut self) -> Result<(), TrainError> { self.replay_graph_forward()?; Ok(()) }
}
pub fn upload_batch_gpu(x: usize) -> usize { x }
";
    let body = "        let rows = upload_batch_gpu(batch.len());
        Self::upload_batch_gpu(self, batch)?;
        SIM.replay_graph_forward()?;
        self.
            replay_graph_mega() // split
            ?;
        Sim::replay_graph_adam();
        <FusedTrainingCtx>::replay_graph_adam(self)?;
        Ok(rows as f32)";
    let (text, sites) = one(&context(
        body,
        &format!("pub static SIM: Sim = Sim;\n{rest}"),
    ));
    assert_eq!(sites, []);
    assert_eq!(
        short(&text),
        "let rows = upload_batch_gpu(batch.len());
<Upload
Self::upload_batch_gpu(self, batch)?;
>Upload
SIM.replay_graph_forward()?;
<FwdBwd
self.
    replay_graph_mega() // split
    ?;
>FwdBwd
Sim::replay_graph_adam();
<Adam
<FusedTrainingCtx>::replay_graph_adam(self)?;
>Adam
Ok(rows as f32)"
    );
    assert!(text.contains(rest));
}

#[test]
fn priorities_are_bracketed_on_the_stream_of_their_buffer() {
    let on = |stream: &str, call: &str| {
        format!(
            "self.phases.start(Phase::PerUpdate, {stream});\n{call}\nself.phases.end(Phase::PerUpdate, {stream});"
        )
    };
    check_step(
        "        agent.memory().update_priorities_gpu(batch, &self.td_errors)?;\n        Ok(0.0)",
        &format!(
            "{}\nOk(0.0)",
            on(
                "agent.memory().stream()",
                "agent.memory().update_priorities_gpu(batch, &self.td_errors)?;"
            )
        ),
    );
    check_step(
        "        let memory = agent.memory();\n        Ok(memory.update_priorities_gpu(batch, &self.td_errors).map(|()| 0.0)?)",
        &format!(
            "let memory = agent.memory();\n{}\nresult",
            on(
                "memory.stream()",
                "let result = Ok(memory.update_priorities_gpu(batch, &self.td_errors).map(|()| 0.0)?);"
            )
        ),
    );
    // Over several lines, and by its type.
    check_step(
        "        agent\n            .memory()\n            .update_priorities_gpu(batch, &self.td_errors)?;\n        ml_dqn::GpuReplayBuffer::update_priorities_gpu(agent.memory(), batch, &self.td_errors)?;\n        Ok(0.0)",
        &format!(
            "{}\nOk(0.0)",
            on(
                "agent.memory().stream()",
                "agent\n    .memory()\n    .update_priorities_gpu(batch, &self.td_errors)?;\nml_dqn::GpuReplayBuffer::update_priorities_gpu(agent.memory(), batch, &self.td_errors)?;"
            )
        ),
    );
}

#[test]
fn priorities_of_a_buffer_bound_inside_or_of_two_use_the_own_stream() {
    check_step(
        "        match agent.memory() { memory => memory.update_priorities_gpu(batch, &self.td_errors)?, }\n        Ok(0.0)",
        "<PerUpdate\nmatch agent.memory() { memory => memory.update_priorities_gpu(batch, &self.td_errors)?, }\n>PerUpdate\nOk(0.0)",
    );
    check_step(
        "        let other = agent.memory();
        agent.memory().update_priorities_gpu(batch, &self.td_errors)?;
        other.update_priorities_gpu(batch, &self.td_errors)?;
        Ok(0.0)",
        "let other = agent.memory();
<PerUpdate
agent.memory().update_priorities_gpu(batch, &self.td_errors)?;
other.update_priorities_gpu(batch, &self.td_errors)?;
>PerUpdate
Ok(0.0)",
    );
}

#[test]
fn calls_that_run_later_are_left_to_a_person() {
    let (body, sites) = step(
        "        let later = async { self.upload_batch_gpu(batch) };
        run(later);
        let again = || self.replay_graph_mega();
        again()?;
        pool.spawn(|| self.replay_graph_adam());
        Ok(0.0)",
    );
    assert!(!body.contains('<'), "{body}");
    check_site(&sites, "async {", "`async` block");
    check_site(&sites, "let again", "kept for later");
    check_site(&sites, "pool.spawn", "`spawn` runs elsewhere");
    assert_eq!(sites.len(), 3);
}

#[test]
fn an_async_method_is_left_to_a_person() {
    let source = context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        "",
    )
    .replace("pub fn run_full_step", "pub async fn run_full_step");
    let (text, sites) = one(&source);
    check_site(&sites, "self.upload_batch_gpu(batch)?;", "`async` function");
    assert!(text.contains("phases: PhaseTimer,") && !text.contains("Phase::Upload"));
}

#[test]
fn unknown_macros_and_receivers_are_left_to_a_person() {
    let (body, sites) = step(
        "        timed!(\"up\", self.upload_batch_gpu(batch))?;
        mystery().replay_graph_adam()?;
        Ok(0.0)",
    );
    assert!(!body.contains('<'), "{body}");
    check_site(
        &sites,
        "timed!",
        "`upload_batch_gpu` is named in the arguments of `timed!`",
    );
    check_site(&sites, "mystery()", "cannot be told");
    // The arguments of the standard library's macros are expressions like others.
    check_step(
        "        assert!(self.replay_graph_adam().is_ok());\n        Ok(0.0)",
        "<Adam\nassert!(self.replay_graph_adam().is_ok());\n>Adam\nOk(0.0)",
    );
}

#[test]
fn two_phases_in_one_statement_are_left_to_a_person() {
    let (body, sites) = step(
        "        self.upload_batch_gpu(batch).and_then(|()| self.replay_graph_mega())?;\n        Ok(0.0)",
    );
    assert!(!body.contains('<'), "{body}");
    check_site(
        &sites,
        "and_then",
        "one statement holds calls of `Upload` and of another phase",
    );
}

#[test]
fn phases_in_helpers_are_left_to_a_person() {
    let rest = "impl FusedTrainingCtx {
    fn inputs(&mut self, batch: &GpuBatchPtrs) -> Result<(), TrainError> {
        self.upload_batch_gpu(batch)
    }
    fn nobody_calls(&mut self) -> Result<(), TrainError> {
        self.replay_graph_adam()
    }
}
";
    let (text, sites) = one(&context(
        "        self.inputs(batch)?;\n        self.replay_graph_adam()?;\n        Ok(0.0)",
        rest,
    ));
    assert_eq!(
        short(&text),
        "self.inputs(batch)?;\n<Adam\nself.replay_graph_adam()?;\n>Adam\nOk(0.0)"
    );
    check_site(
        &sites,
        "self.upload_batch_gpu(batch)",
        "runs in `inputs`, not in `run_full_step`",
    );
    assert_eq!(sites.len(), 1);
}

#[test]
fn a_statement_that_never_ends_is_left_to_a_person() {
    let (body, sites) = step(
        "        match self.replay_graph_adam() {\n            Ok(()) => return Ok(0.0),\n            Err(e) => return Err(e),\n        }",
    );
    assert!(!body.contains('<'), "{body}");
    check_site(&sites, "match self.replay_graph_adam()", "does not end");
}

const MIGRATED: &str = "use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use ml_cuda::{Phase, PhaseTimer as Timer};
use ml_dqn::{DqnAgent, DqnConfig, DqnError, GpuBatchPtrs};

#[derive(Debug)]
pub enum TrainError { Dqn(DqnError), Driver(DriverError) }
impl From<DqnError> for TrainError { fn from(e: DqnError) -> Self { Self::Dqn(e) } }
impl From<DriverError> for TrainError { fn from(e: DriverError) -> Self { Self::Driver(e) } }

pub struct FusedTrainingCtx { stream: Arc<CudaStream>, td_errors: CudaSlice<f32>, mega: bool, phases: Timer }

impl FusedTrainingCtx {
    pub fn new(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<Self, TrainError> {
        let td_errors = stream.alloc_zeros::<f32>(config.batch_size)?;
        let phases = Timer::new(&stream)?;
        Ok(Self { stream, td_errors, mega: true, phases })
    }
    pub fn phases(&self) -> &Timer { &self.phases }
    fn upload_batch_gpu(&mut self, _b: &GpuBatchPtrs) -> Result<(), TrainError> { Ok(()) }
    fn replay_graph_mega(&mut self) -> Result<(), TrainError> { self.replay_graph_forward()?; self.replay_graph_backward() }
    fn replay_graph_forward(&mut self) -> Result<(), TrainError> { Ok(()) }
    fn replay_graph_backward(&mut self) -> Result<(), TrainError> { Ok(()) }
    fn replay_graph_adam(&mut self) -> Result<(), TrainError> { Ok(()) }
}

impl FusedTrainingCtx {
    pub fn run_full_step(&mut self, agent: &DqnAgent, batch: &GpuBatchPtrs) -> Result<f32, TrainError> {
        self.phases.start(Phase::Upload, &self.stream);
        let copied = self.upload_batch_gpu(batch);
        self.phases.end(Phase::Upload, &self.stream);
        copied?;

        self.phases.start(Phase::FwdBwd, &self.stream);
        for _ in 0..4 {
            if self.mega { self.replay_graph_mega()?; continue; }
            self.replay_graph_forward()?;
            self.replay_graph_backward()?;
        }
        self.phases.end(Phase::FwdBwd, &self.stream);

        self.phases().start(ml_cuda::Phase::Adam, &self.stream);
        // between start and call
        self.replay_graph_adam()?;
        self.phases().end(ml_cuda::Phase::Adam, &self.stream);

        let timer = &self.phases;
        timer.start(Phase::PerUpdate, &self.stream);
        let updated = agent.memory().update_priorities_gpu(batch, &self.td_errors);
        timer.end(Phase::PerUpdate, &self.stream);
        updated?;
        Ok(0.0)
    }
}

pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<f32, TrainError> {
    let mut loss = 0.0;
    for _ in 0..178 {
        let batch = agent.memory().sample_profiled(16_384, ctx.phases())?;
        loss += ctx.run_full_step(agent, &batch)?;
    }
    stream.synchronize()?;
    let report = ctx.phases().finish_epoch();
    println!(\"{} batches\", report.batches);
    Ok(loss)
}
";

fn with_cuda() -> Vec<CrateSpec> {
    vec![spec(
        "src/lib.rs",
        "app",
        &[
            ("cudarc", "cudarc"),
            ("ml_dqn", "ml-dqn"),
            ("ml_cuda", "ml-cuda"),
        ],
    )]
}

#[test]
fn what_is_migrated_stays() {
    let done = run(&with_cuda(), &[("src/lib.rs", MIGRATED)]);
    assert_eq!(done.texts["src/lib.rs"], MIGRATED);
    assert_eq!(done.sites, []);
}

#[test]
fn what_is_half_migrated_is_finished() {
    let gone = "        self.phases().start(ml_cuda::Phase::Adam, &self.stream);\n        // between start and call\n        self.replay_graph_adam()?;\n        self.phases().end(ml_cuda::Phase::Adam, &self.stream);\n";
    let source = MIGRATED.replace(gone, "        self.replay_graph_adam()?;\n").replace("    let report = ctx.phases().finish_epoch();\n    println!(\"{} batches\", report.batches);\n", "");
    let done = run(&with_cuda(), &[("src/lib.rs", &source)]);
    let text = &done.texts["src/lib.rs"];
    let adam = "        self.phases.start(Phase::Adam, &self.stream);\n        self.replay_graph_adam()?;\n        self.phases.end(Phase::Adam, &self.stream);\n";
    assert!(text.contains(adam), "{text}");
    assert!(
        text.contains("    stream.synchronize()?;\n    ctx.phases().finish_epoch();\n    Ok(loss)"),
        "{text}"
    );
    assert_eq!(done.sites, []);
}

#[test]
fn scopes_count_until_they_are_dropped() {
    let body = "        let upload = self.phases.scope(Phase::Upload, &self.stream);
        self.upload_batch_gpu(batch)?;
        drop(upload);
        {
            let _forward = self.phases.scope(Phase::FwdBwd, &self.stream);
            self.replay_graph_mega()?;
        }
        self.replay_graph_mega()?;
        Ok(0.0)";
    let source = context(body, "")
        .replace("GpuBatchPtrs};", "GpuBatchPtrs, Phase, PhaseTimer};")
        .replace(
            "    mega: bool,\n",
            "    mega: bool,\n    phases: PhaseTimer,\n",
        )
        .replace(
            "mega: true }",
            "mega: true, phases: PhaseTimer::new(&stream)? }",
        );
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert!(short(&text).ends_with("    self.replay_graph_mega()?;\n}\n<FwdBwd\nself.replay_graph_mega()?;\n>FwdBwd\nOk(0.0)"), "{text}");
    assert!(!short(&text).contains("<Upload"));
}

#[test]
fn a_bracket_without_an_end_is_reported() {
    let body = "        self.phases.start(Phase::Upload, &self.stream);\n        self.upload_batch_gpu(batch)?;\n        Ok(0.0)";
    let source = context(body, "")
        .replace("GpuBatchPtrs};", "GpuBatchPtrs, Phase, PhaseTimer};")
        .replace(
            "    mega: bool,\n",
            "    mega: bool,\n    phases: PhaseTimer,\n",
        )
        .replace(
            "stream, td_errors, mega: true }",
            "phases: PhaseTimer::new(&stream)?, stream, td_errors, mega: true }",
        );
    let (text, sites) = one(&source);
    check_site(&sites, "self.upload_batch_gpu(batch)?;", "has no end");
    assert_eq!(text.matches("Phase::Upload").count(), 1);
}

#[test]
fn twins_under_cfg_are_both_bracketed() {
    let rest = "";
    let source = context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        rest,
    )
    .replace(
        "    pub fn run_full_step",
        "    #[cfg(feature = \"quiet\")]
    pub fn run_full_step(&mut self, _agent: &DqnAgent, batch: &GpuBatchPtrs) -> f32 {
        let _ = self.upload_batch_gpu(batch);
        if self.mega { 0.0 } else { f32::NAN }
    }

    #[cfg(not(feature = \"quiet\"))]
    pub fn run_full_step",
    );
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert_eq!(text.matches("start(Phase::Upload").count(), 2);
    assert!(text.contains("        let _ = self.upload_batch_gpu(batch);\n        self.phases.end(Phase::Upload, &self.stream);\n        if self.mega"));
    assert_eq!(text.matches("pub fn phases(&self)").count(), 1);
}
