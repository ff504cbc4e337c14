//! Callers: sampling with the timer, and the end of an epoch.

use super::*;

/// What stands behind the context's own code after a run.
fn with(rest: &str) -> (String, Vec<(String, String)>) {
    let (text, sites) = one(&context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        &format!("// --- callers\n{rest}"),
    ));
    let (_, rest) = text
        .split_once("// --- callers\n")
        .expect("the marker stays");
    (rest.to_owned(), sites)
}

#[track_caller]
fn check(rest: &str, expected: &str) {
    let (text, sites) = with(rest);
    assert_eq!(text, expected);
    assert_eq!(sites, []);
}

#[track_caller]
fn check_left(rest: &str, line: &str, reason: &str) {
    let (text, sites) = with(rest);
    check_site(&sites, line, reason);
    assert_eq!(sites.len(), 1, "{sites:#?}");
    assert!(
        !text.contains("finish_epoch") || !text.contains("sample_profiled"),
        "{text}"
    );
}

#[test]
fn an_epoch() {
    check(
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<f32, TrainError> {
    let mut loss = 0.0;
    for _ in 0..178 {
        let batch = agent.memory().sample(16_384)?;
        loss += ctx.run_full_step(agent, &batch)?;
        stream.synchronize()?;
    }
    stream.synchronize()?; // all is done
    Ok(loss)
}
pub fn elsewhere(agent: &DqnAgent, stream: &CudaStream) -> Result<usize, TrainError> {
    let batch = agent.memory().sample(1)?;
    stream.synchronize()?;
    Ok(batch.len())
}
",
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<f32, TrainError> {
    let mut loss = 0.0;
    for _ in 0..178 {
        let batch = agent.memory().sample_profiled(16_384, ctx.phases())?;
        loss += ctx.run_full_step(agent, &batch)?;
        stream.synchronize()?;
    }
    stream.synchronize()?; // all is done
    ctx.phases().finish_epoch();
    Ok(loss)
}
pub fn elsewhere(agent: &DqnAgent, stream: &CudaStream) -> Result<usize, TrainError> {
    let batch = agent.memory().sample(1)?;
    stream.synchronize()?;
    Ok(batch.len())
}
",
    );
}

#[test]
fn behind_the_inner_of_two_loops_with_fields() {
    check(
        "pub struct Trainer { agent: DqnAgent, ctx: FusedTrainingCtx, n: usize }
impl Trainer {
    pub fn train(&mut self) -> Result<(), TrainError> {
        for _ in 0..3 {
            let mut n = 0;
            while n < 178 {
                let Ok(batch) = self.agent.sample(self.n) else { break };
                self.ctx.run_full_step(&self.agent, &batch)?;
                n += 1;
            }
            self.ctx.stream.synchronize().map_err(TrainError::from)?;
            log(n);
        }
        Ok(())
    }
}
",
        "pub struct Trainer { agent: DqnAgent, ctx: FusedTrainingCtx, n: usize }
impl Trainer {
    pub fn train(&mut self) -> Result<(), TrainError> {
        for _ in 0..3 {
            let mut n = 0;
            while n < 178 {
                let Ok(batch) = self.agent.memory().sample_profiled(self.n, self.ctx.phases()) else { break };
                self.ctx.run_full_step(&self.agent, &batch)?;
                n += 1;
            }
            self.ctx.stream.synchronize().map_err(TrainError::from)?;
            self.ctx.phases().finish_epoch();
            log(n);
        }
        Ok(())
    }
}
",
    );
}

#[test]
fn one_line_chains_and_values() {
    check(
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> { for _ in 0..4 { let b = agent.memory().sample(32)?; ctx.run_full_step(agent, &b)?; } ctx.stream.synchronize()?; Ok(()) }
pub fn chain(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> {
    loop {
        let batch = agent
            .sample(
                32,
            )?;
        if ctx.run_full_step(agent, &batch)? < 0.1 {
            break;
        }
    }
    ctx.stream.synchronize().map_err(TrainError::Driver)
}
",
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> { for _ in 0..4 { let b = agent.memory().sample_profiled(32, ctx.phases())?; ctx.run_full_step(agent, &b)?; } ctx.stream.synchronize()?; ctx.phases().finish_epoch(); Ok(()) }
pub fn chain(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> {
    loop {
        let batch = agent
            .memory()
            .sample_profiled(
                32, ctx.phases(),
            )?;
        if ctx.run_full_step(agent, &batch)? < 0.1 {
            break;
        }
    }
    let result = ctx.stream.synchronize().map_err(TrainError::Driver);
    ctx.phases().finish_epoch();
    result
}
",
    );
}

#[test]
fn other_types_sample_and_synchronize_too() {
    check(
        "pub struct Sim { pub stream: Arc<CudaStream> }
impl Sim {
    pub fn sample(&self, n: usize) -> Result<usize, TrainError> { Ok(n) }
    pub fn synchronize(&self) -> Result<(), TrainError> { Ok(()) }
}
pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, sim: &Sim) -> Result<(), TrainError> {
    for n in 0..sim.sample(178)? {
        ctx.run_full_step(agent, &agent.memory().sample(n)?)?;
    }
    sim.synchronize()?;
    sim.stream.synchronize()?;
    Ok(())
}
",
        "pub struct Sim { pub stream: Arc<CudaStream> }
impl Sim {
    pub fn sample(&self, n: usize) -> Result<usize, TrainError> { Ok(n) }
    pub fn synchronize(&self) -> Result<(), TrainError> { Ok(()) }
}
pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, sim: &Sim) -> Result<(), TrainError> {
    for n in 0..sim.sample(178)? {
        ctx.run_full_step(agent, &agent.memory().sample_profiled(n, ctx.phases())?)?;
    }
    sim.synchronize()?;
    sim.stream.synchronize()?;
    ctx.phases().finish_epoch();
    Ok(())
}
",
    );
}

#[test]
fn a_stream_of_unknown_type_counts_where_it_is_taken_as_one() {
    check(
        "pub fn main(agent: &DqnAgent, config: &DqnConfig) -> Result<(), TrainError> {
    let stream = cudarc::driver::CudaContext::new(0)?.default_stream();
    let mut ctx = FusedTrainingCtx::new(config, stream.clone())?;
    for _ in 0..9 {
        let batch = agent.memory().sample(8)?;
        ctx.run_full_step(agent, &batch)?;
    }
    stream.synchronize()?;
    Ok(())
}
",
        "pub fn main(agent: &DqnAgent, config: &DqnConfig) -> Result<(), TrainError> {
    let stream = cudarc::driver::CudaContext::new(0)?.default_stream();
    let mut ctx = FusedTrainingCtx::new(config, stream.clone())?;
    for _ in 0..9 {
        let batch = agent.memory().sample_profiled(8, ctx.phases())?;
        ctx.run_full_step(agent, &batch)?;
    }
    stream.synchronize()?;
    ctx.phases().finish_epoch();
    Ok(())
}
",
    );
}

#[test]
fn one_wait_for_two_loops_and_one_in_a_loop_behind() {
    check(
        "pub fn two(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, streams: &[Arc<CudaStream>]) -> Result<(), TrainError> {
    for _ in 0..2 {
        ctx.run_full_step(agent, &agent.sample(1)?)?;
    }
    for _ in 0..3 {
        ctx.run_full_step(agent, &agent.sample(2)?)?;
    }
    for stream in streams {
        stream.synchronize()?;
    }
    Ok(())
}
",
        "pub fn two(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, streams: &[Arc<CudaStream>]) -> Result<(), TrainError> {
    for _ in 0..2 {
        ctx.run_full_step(agent, &agent.memory().sample_profiled(1, ctx.phases())?)?;
    }
    for _ in 0..3 {
        ctx.run_full_step(agent, &agent.memory().sample_profiled(2, ctx.phases())?)?;
    }
    for stream in streams {
        stream.synchronize()?;
    }
    ctx.phases().finish_epoch();
    Ok(())
}
",
    );
}

#[test]
fn a_single_step_is_no_epoch() {
    check(
        "pub fn once(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<f32, TrainError> {\n    let batch = agent.sample(1)?;\n    ctx.run_full_step(agent, &batch)\n}\n",
        "pub fn once(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<f32, TrainError> {\n    let batch = agent.memory().sample_profiled(1, ctx.phases())?;\n    ctx.run_full_step(agent, &batch)\n}\n",
    );
}

#[test]
fn no_wait_behind_the_loop() {
    check_left(
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> {
    for _ in 0..9 {
        let batch = agent.memory().sample(8)?;
        ctx.run_full_step(agent, &batch)?;
        ctx.stream.synchronize()?;
    }
    Ok(())
}
",
        "for _ in 0..9 {",
        "no `synchronize` of a `CudaStream` follows the loop",
    );
}

#[test]
fn a_context_that_is_borrowed_mutably_where_it_samples() {
    check_left(
        "fn hand(ctx: &mut FusedTrainingCtx, batch: GpuBatchPtrs) {}
pub fn epoch(mut ctx: FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    for _ in 0..9 {
        hand(&mut ctx, agent.memory().sample(8)?);
        ctx.run_full_step(agent, &GpuBatchPtrs::default())?;
    }
    stream.synchronize()?;
    Ok(())
}
",
        "hand(&mut ctx",
        "has `ctx` borrowed mutably",
    );
}

#[test]
fn a_closure_that_samples() {
    check_left(
        "pub fn once(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<(), TrainError> {
    let draw = |n: usize| agent.memory().sample(n);
    ctx.run_full_step(agent, &draw(8)?)?;
    Ok(())
}
",
        "let draw",
        "in a closure, which would keep `ctx` borrowed",
    );
}

#[test]
fn a_context_without_a_name_or_out_of_scope() {
    check_left(
        "fn get() -> FusedTrainingCtx { loop {} }
pub fn once(agent: &DqnAgent) -> Result<(), TrainError> {
    let batch = agent.memory().sample(8)?;
    get().run_full_step(agent, &batch)?;
    Ok(())
}
",
        "let batch = agent.memory().sample(8)?;",
        "has no name",
    );
    check_left(
        "pub fn late(agent: &DqnAgent, config: &DqnConfig, stream: Arc<CudaStream>) -> Result<(), TrainError> {
    let batch = agent.memory().sample(8)?;
    let mut ctx = FusedTrainingCtx::new(config, stream)?;
    ctx.run_full_step(agent, &batch)?;
    Ok(())
}
",
        "let batch = agent.memory().sample(8)?;",
        "`ctx` is not in scope",
    );
}

#[test]
fn callers_of_a_blocked_context_stay() {
    let source = context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        "pub fn once(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<f32, TrainError> {\n    let batch = agent.sample(1)?;\n    ctx.run_full_step(agent, &batch)\n}\n",
    )
    .replace("pub struct FusedTrainingCtx", "#[derive(Clone)]\npub struct FusedTrainingCtx");
    let (text, sites) = one(&source);
    assert_eq!(text, source);
    assert_eq!(sites.len(), 1, "{sites:#?}");
}

#[test]
fn callers_of_a_context_that_the_tree_does_not_have() {
    let specs = [spec(
        "src/lib.rs",
        "app",
        &[("cudarc", "cudarc"), ("ml_dqn", "ml-dqn"), ("ml", "ml")],
    )];
    let source = "use ml::trainers::dqn::fused_training::FusedTrainingCtx;
use ml_dqn::DqnAgent;

struct Device {
    fused: FusedTrainingCtx,
    stream: std::sync::Arc<cudarc::driver::CudaStream>,
}

pub fn learn(device: &mut Device, agent: &DqnAgent) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..9 {
        let batch = match agent.memory().sample(8) {
            Ok(batch) => batch,
            Err(err) => return Err(err.into()),
        };
        device.fused.run_full_step(agent, &batch)?;
    }
    device.stream.synchronize()?;
    Ok(())
}
";
    let done = run(&specs, &[("src/lib.rs", source)]);
    assert_eq!(done.sites, []);
    let text = &done.texts["src/lib.rs"];
    assert!(
        text.contains("sample_profiled(8, device.fused.phases()) {"),
        "{text}"
    );
    assert!(
        text.contains(
            "    device.stream.synchronize()?;\n    device.fused.phases().finish_epoch();\n"
        ),
        "{text}"
    );
}

#[test]
fn a_closure_that_an_iterator_drives_is_a_loop() {
    check(
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    (0..9).try_for_each(|_| -> Result<(), TrainError> {
        let batch = agent.memory().sample(32)?;
        ctx.run_full_step(agent, &batch)?;
        Ok(())
    })?;
    stream.synchronize()?;
    Ok(())
}
",
        "pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    (0..9).try_for_each(|_| -> Result<(), TrainError> {
        let batch = agent.memory().sample_profiled(32, ctx.phases())?;
        ctx.run_full_step(agent, &batch)?;
        Ok(())
    })?;
    stream.synchronize()?;
    ctx.phases().finish_epoch();
    Ok(())
}
",
    );
}

/// Reported once, and as it was.
#[track_caller]
fn check_stays(rest: &str, line: &str, reason: &str) {
    let (text, sites) = with(rest);
    check_site(&sites, line, reason);
    assert_eq!(sites.len(), 1, "{sites:#?}");
    assert_eq!(text, rest);
}

#[test]
fn closures_that_are_called_nobody_knows_how_often() {
    for (opens, closes) in [
        ("let mut step = |_| {", "}; for n in 0..9 { step(n)?; }"),
        ("for n in (0..9).map(|_| {", "}) { n?; }"),
        ("retry(9, |_| {", "})?;"),
    ] {
        check_stays(
            &format!(
                "fn retry(n: usize, f: impl FnMut(usize) -> Result<(), TrainError>) -> Result<(), TrainError> {{ Ok(()) }}
pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {{
    {opens}
        let batch = agent.memory().sample(32)?;
        ctx.run_full_step(agent, &batch)?;
        Ok(())
    {closes}
    stream.synchronize()?;
    Ok(())
}}
"
            ),
            opens,
            "in a closure",
        );
    }
}

#[test]
fn a_closure_of_an_option_or_in_a_loop_runs_with_it() {
    let (text, sites) = with(
        "pub fn once(ctx: &mut FusedTrainingCtx, agent: &DqnAgent) -> Result<Option<f32>, TrainError> {
    let batch: Option<GpuBatchPtrs> = agent.sample(1).ok();
    batch.map(|batch| ctx.run_full_step(agent, &batch)).transpose()
}
fn retry(f: impl FnMut() -> Result<f32, TrainError>) -> Result<f32, TrainError> { loop {} }
pub fn epoch(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    for _ in 0..9 {
        let batch = agent.sample(1)?;
        retry(|| ctx.run_full_step(agent, &batch))?;
    }
    stream.synchronize()?;
    Ok(())
}
",
    );
    assert_eq!(sites, []);
    assert_eq!(text.matches("sample_profiled").count(), 2, "{text}");
    assert_eq!(text.matches("finish_epoch").count(), 1, "{text}");
}

#[test]
fn a_step_in_a_helper_and_the_loop_in_its_caller() {
    let source =
        "pub struct Trainer { agent: DqnAgent, ctx: FusedTrainingCtx, stream: Arc<CudaStream> }
impl Trainer {
    fn draw(&self) -> Result<GpuBatchPtrs, TrainError> { Ok(self.agent.memory().sample(32)?) }
    fn step(&mut self) -> Result<f32, TrainError> {
        let batch = self.draw()?;
        self.ctx.run_full_step(&self.agent, &batch)
    }
    fn logged(&mut self) -> Result<f32, TrainError> { self.step() }
    pub fn train(&mut self) -> Result<(), TrainError> {
        for _ in 0..9 {
            self.logged()?;
        }
        self.stream.synchronize()?;
        Ok(())
    }
}
";
    check_stays(
        source,
        "for _ in 0..9 {",
        "calls `run_full_step` through `logged`",
    );
    check_stays(
        "fn step(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, batch: &GpuBatchPtrs) -> Result<f32, TrainError> { ctx.run_full_step(agent, batch) }
pub fn train(ctx: &mut FusedTrainingCtx, agent: &DqnAgent, batch: &GpuBatchPtrs, stream: &CudaStream) -> Result<(), TrainError> {
    while step(ctx, agent, batch)? > 0.1 {}
    stream.synchronize()?;
    Ok(())
}
",
        "while step(",
        "through `step`",
    );
    let done = source.replace(
        "self.stream.synchronize()?;",
        "self.stream.synchronize()?;\n        self.ctx.phases().finish_epoch();",
    );
    check(&done, &done);
}

#[test]
fn two_contexts_in_one_loop() {
    check_stays(
        "pub fn both(ca: &mut FusedTrainingCtx, cb: &mut FusedTrainingCtx, a: &DqnAgent, b: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    for _ in 0..9 {
        let (x, y) = (a.sample(32)?, b.sample(32)?);
        ca.run_full_step(a, &x)?;
        cb.run_full_step(b, &y)?;
    }
    stream.synchronize()?;
    Ok(())
}
",
        "for _ in 0..9 {",
        "several contexts, `ca` and `cb`",
    );
}

#[test]
fn two_contexts_each_with_its_own() {
    let (text, sites) = with(
        "pub fn both(ca: &mut FusedTrainingCtx, cb: &mut FusedTrainingCtx, a: &DqnAgent, b: &DqnAgent, stream: &CudaStream) -> Result<(), TrainError> {
    for _ in 0..9 {
        ca.run_full_step(a, &a.sample(1)?)?;
    }
    for _ in 0..9 {
        let batch = b.sample(2)?;
        cb.run_full_step(b, &batch)?;
    }
    stream.synchronize()?;
    Ok(())
}
pub fn once(ca: &mut FusedTrainingCtx, cb: &mut FusedTrainingCtx, a: &DqnAgent, b: &DqnAgent) -> Result<(), TrainError> {
    let (x, y) = (a.sample(3)?, b.sample(4)?);
    ca.run_full_step(a, &x)?;
    cb.run_full_step(b, &y)?;
    Ok(())
}
",
    );
    assert_eq!(sites, []);
    for code in [
        "sample_profiled(1, ca.phases())",
        "sample_profiled(2, cb.phases())",
        "sample_profiled(3, ca.phases())",
        "sample_profiled(4, cb.phases())",
        "    stream.synchronize()?;\n    ca.phases().finish_epoch();\n    cb.phases().finish_epoch();\n    Ok(())",
    ] {
        assert!(text.contains(code), "{code}\n{text}");
    }
}
