//! The field, its construction, its accessor.

use super::*;

const BODY: &str = "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)";

fn usual() -> String {
    context(BODY, "")
}

#[track_caller]
fn check_blocked(source: &str, line: &str, reason: &str) {
    let (text, sites) = one(source);
    assert_eq!(text, source, "nothing of the group is written");
    check_site(&sites, line, reason);
    assert_eq!(sites.len(), 1, "{sites:#?}");
}

#[test]
fn the_whole_group() {
    let (text, sites) = one(&usual());
    assert_eq!(sites, []);
    assert!(
        text.contains("use ml_dqn::{DqnAgent, DqnConfig, GpuBatchPtrs, Phase, PhaseTimer};\n"),
        "{text}"
    );
    assert!(
        text.contains("    mega: bool,\n    phases: PhaseTimer,\n}\n"),
        "{text}"
    );
    assert!(text.contains("        let phases = PhaseTimer::new(&stream)?;\n        Ok(Self { stream, td_errors, mega: true, phases })\n"), "{text}");
    assert!(text.contains("        Ok(0.0)\n    }\n\n    pub fn phases(&self) -> &PhaseTimer {\n        &self.phases\n    }\n\n    fn upload_batch_gpu"), "{text}");
}

#[test]
fn a_literal_over_several_lines_makes_it_before_the_stream_is_moved() {
    let source = usual().replace(
        "        Ok(Self { stream, td_errors, mega: true })",
        "        Ok(FusedTrainingCtx {\n            td_errors,\n            mega: true,\n            stream, // last\n        })",
    );
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert!(text.contains("            mega: true,\n            phases: PhaseTimer::new(&stream)?,\n            stream, // last\n        })"), "{text}");
}

#[test]
fn fields_on_one_line_and_without_a_last_comma() {
    let source = usual().replace(
        "{\n    stream: Arc<CudaStream>,\n    td_errors: CudaSlice<f32>,\n    mega: bool,\n}",
        "{ stream: Arc<CudaStream>, td_errors: CudaSlice<f32>, mega: bool }",
    );
    assert!(one(&source).0.contains("mega: bool, phases: PhaseTimer }"));
    let source = usual().replace("    mega: bool,\n}", "    mega: bool // graphs\n}");
    assert!(
        one(&source)
            .0
            .contains("    mega: bool, // graphs\n    phases: PhaseTimer,\n}")
    );
}

#[test]
fn a_stream_behind_a_reference() {
    let source = usual()
        .replace(
            "stream: Arc<CudaStream>) -> Result",
            "stream: &Arc<CudaStream>) -> Result",
        )
        .replace("Self { stream,", "Self { stream: Arc::clone(stream),");
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert!(
        text.contains("let phases = PhaseTimer::new(stream)?;"),
        "{text}"
    );
    let source = usual().replace("Self { stream,", "Self { stream: stream.clone(),");
    assert!(
        one(&source)
            .0
            .contains("let phases = PhaseTimer::new(&stream)?;")
    );
}

#[test]
fn a_literal_that_may_not_be_reached_makes_it_in_place() {
    let source = usual().replace("        Ok(Self { stream, td_errors, mega: true })", "        if config.batch_size == 0 { loop {} } else { Ok(Self { stream, td_errors, mega: true }) }");
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    // The block of the branch has a statement of its own.
    assert!(text.contains("else { let phases = PhaseTimer::new(&stream)?; Ok(Self { stream, td_errors, mega: true, phases }) }"), "{text}");
    let source = usual().replace("        Ok(Self { stream, td_errors, mega: true })", "        match config.batch_size { 0 => loop {}, _ => Ok(Self { stream, td_errors, mega: true }) }");
    assert!(
        one(&source).0.contains(
            "Ok(Self { phases: PhaseTimer::new(&stream)?, stream, td_errors, mega: true })"
        )
    );
}

#[test]
fn a_literal_with_a_base_has_the_timer_from_there() {
    let rest = "pub fn small(config: &DqnConfig, stream: Arc<CudaStream>) -> Result<FusedTrainingCtx, TrainError> {\n    Ok(FusedTrainingCtx { mega: false, ..FusedTrainingCtx::new(config, stream)? })\n}\n";
    let (text, sites) = one(&context(BODY, rest));
    assert_eq!(sites, []);
    assert!(text.contains(rest));
}

#[test]
fn literals_in_other_files_and_tests() {
    let source = context(
        BODY,
        "mod build;\n#[cfg(test)]\nmod tests {\n    use super::*;\n    fn ctx(stream: Arc<CudaStream>, td_errors: CudaSlice<f32>) -> FusedTrainingCtx {\n        FusedTrainingCtx { stream, td_errors, mega: false }\n    }\n}\n",
    );
    let build = "use super::*;\n\npub(crate) fn build(s: Arc<CudaStream>, td_errors: CudaSlice<f32>) -> Result<FusedTrainingCtx, Box<dyn std::error::Error>> {\n    Ok(FusedTrainingCtx { stream: s, td_errors, mega: true })\n}\n";
    let done = run(&lib(), &[("src/lib.rs", &source), ("src/build.rs", build)]);
    assert_eq!(done.sites, []);
    let text = &done.texts["src/build.rs"];
    assert!(text.contains("    let phases = PhaseTimer::new(&s)?;\n    Ok(FusedTrainingCtx { stream: s, td_errors, mega: true, phases })"), "{text}");
    let text = &done.texts["src/lib.rs"];
    assert!(text.contains("        let phases = PhaseTimer::new(&stream).unwrap();\n        FusedTrainingCtx { stream, td_errors, mega: false, phases }"), "{text}");
    // `use super::*` brings the parent's import.
    assert_eq!(text.matches("PhaseTimer};").count(), 1, "{text}");
    assert!(!text.contains("use ml_dqn::PhaseTimer"), "{text}");
}

#[test]
fn constructors_that_cannot_fail_block_the_group() {
    let source = context(
        BODY,
        "pub fn plain(stream: Arc<CudaStream>, td_errors: CudaSlice<f32>) -> FusedTrainingCtx {\n    FusedTrainingCtx { stream, td_errors, mega: true }\n}\n",
    );
    check_blocked(
        &source,
        "FusedTrainingCtx { stream, td_errors, mega: true }",
        "in `plain`, which cannot return an error",
    );
    let source = context(
        BODY,
        "pub struct Other;\npub fn other(stream: Arc<CudaStream>, td_errors: CudaSlice<f32>) -> Result<FusedTrainingCtx, Other> {\n    Ok(FusedTrainingCtx { stream, td_errors, mega: true })\n}\n",
    );
    check_blocked(
        &source,
        "Ok(FusedTrainingCtx {",
        "error type `Other` has no conversion",
    );
    let source = context(
        BODY,
        "pub fn all(streams: Vec<Arc<CudaStream>>) -> Vec<FusedTrainingCtx> {\n    streams.into_iter().map(|stream| FusedTrainingCtx { td_errors: zeros(&stream), stream, mega: true }).collect()\n}\n",
    );
    check_blocked(&source, "streams.into_iter()", "inside of a closure");
}

#[test]
fn errors_that_convert() {
    for (error, extra) in [
        ("DriverError", ""),
        ("cudarc::driver::result::DriverError", ""),
        ("Box<dyn std::error::Error + Send + Sync>", ""),
        (
            "Derived",
            "#[derive(Debug, thiserror::Error)]\npub enum Derived {\n    #[error(\"driver\")]\n    Driver(#[from] DriverError),\n}\n",
        ),
        ("ml_dqn::DqnError", ""),
        (
            "Any",
            "pub struct Any;\nimpl<E: std::error::Error> From<E> for Any { fn from(_: E) -> Self { Any } }\n",
        ),
    ] {
        let rest = format!(
            "{extra}pub fn other(stream: Arc<CudaStream>, td_errors: CudaSlice<f32>) -> Result<FusedTrainingCtx, {error}> {{\n    Ok(FusedTrainingCtx {{ stream, td_errors, mega: true }})\n}}\n"
        );
        let (text, sites) = one(&context(BODY, &rest));
        assert_eq!(sites, [], "{error}");
        assert_eq!(
            text.matches("PhaseTimer::new(&stream)?").count(),
            2,
            "{error}"
        );
    }
}

#[test]
fn a_stream_without_a_name_blocks_the_group() {
    let source = usual().replace("Self { stream,", "Self { stream: make_stream()?,");
    check_blocked(&source, "Ok(Self {", "a stream that has no name there");
}

#[test]
fn derives_that_the_timer_lacks_block_the_group() {
    let source = usual().replace(
        "pub struct FusedTrainingCtx",
        "#[derive(Debug, Clone)]\npub struct FusedTrainingCtx",
    );
    check_blocked(&source, "pub struct FusedTrainingCtx", "derives `Clone`");
    let source = usual().replace(
        "pub struct FusedTrainingCtx",
        "#[cfg_attr(test, derive(PartialEq))]\npub struct FusedTrainingCtx",
    );
    check_blocked(
        &source,
        "pub struct FusedTrainingCtx",
        "derives `PartialEq`",
    );
    let source = usual().replace(
        "pub struct FusedTrainingCtx",
        "#[derive(Debug)]\npub struct FusedTrainingCtx",
    );
    assert_eq!(one(&source).1, []);
}

#[test]
fn fields_that_are_there() {
    let there = |field: &str, init: &str| {
        usual()
            .replace(
                "    mega: bool,\n}",
                &format!("    mega: bool,\n    {field},\n}}"),
            )
            .replace("mega: true }", &format!("mega: true, {init} }}"))
    };
    // The timer under another name is used as it is.
    let (text, sites) = one(&there(
        "pub(crate) timer: ml_dqn::PhaseTimer",
        "timer: make()",
    ));
    assert_eq!(sites, []);
    assert!(
        text.contains("self.timer.start(Phase::Upload, &self.stream);")
            && text.contains("        &self.timer\n"),
        "{text}"
    );
    assert_eq!(text.matches("PhaseTimer").count(), 3, "{text}");
    check_blocked(
        &there("phases: Vec<f32>", "phases: vec![]"),
        "pub struct FusedTrainingCtx",
        "of another type, `Vec<f32>`",
    );
    check_blocked(
        &there("timer: Option<ml_dqn::PhaseTimer>", "timer: None"),
        "pub struct FusedTrainingCtx",
        "may hold",
    );
    check_blocked(
        &there(
            "#[cfg(feature = \"p\")]\n    phases: ml_dqn::PhaseTimer",
            "phases: make()",
        ),
        "pub struct FusedTrainingCtx",
        "some `cfg`",
    );
}

#[test]
fn several_streams_or_none() {
    let source = usual()
        .replace(
            "    mega: bool,\n}",
            "    mega: bool,\n    copies: Arc<CudaStream>,\n}",
        )
        .replace("mega: true }", "mega: true, copies: stream.clone() }");
    check_blocked(
        &source,
        "pub struct FusedTrainingCtx",
        "2 fields of type `CudaStream`",
    );
    // Brackets that are there say which.
    let source = source
        .replace("    mega: bool,\n", "    mega: bool,\n    phases: ml_dqn::PhaseTimer,\n")
        .replace("mega: true,", "mega: true, phases: make(),")
        .replace("        Ok(0.0)", "        self.phases.start(ml_dqn::Phase::FwdBwd, &self.copies);\n        self.replay_graph_mega()?;\n        self.phases.end(ml_dqn::Phase::FwdBwd, &self.copies);\n        Ok(0.0)");
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert!(
        text.contains("self.phases.start(ml_dqn::Phase::Upload, &self.copies);"),
        "{text}"
    );
}

#[test]
fn an_accessor_of_another_meaning_blocks_the_group() {
    let source = usual().replace(
        "    fn upload_batch_gpu",
        "    pub fn phases(&self) -> usize {\n        4\n    }\n\n    fn upload_batch_gpu",
    );
    check_blocked(&source, "pub fn phases(&self) -> usize", "does not give");
}

#[test]
fn patterns_without_rest_name_the_field() {
    let (text, sites) = one(&context(
        BODY,
        "pub fn parts(ctx: FusedTrainingCtx) -> Arc<CudaStream> {\n    let FusedTrainingCtx { stream, td_errors: _, mega: _ } = ctx;\n    stream\n}\n",
    ));
    assert_eq!(sites, []);
    assert!(
        text.contains("let FusedTrainingCtx { stream, td_errors: _, mega: _, phases: _ } = ctx;"),
        "{text}"
    );
}

#[test]
fn names_that_are_taken_are_written_as_paths() {
    let (text, sites) = one(&context(BODY, "pub enum Phase { Warm }\n"));
    assert_eq!(sites, []);
    assert!(
        text.contains("self.phases.start(ml_dqn::Phase::Upload, &self.stream);"),
        "{text}"
    );
    assert!(text.contains("GpuBatchPtrs, PhaseTimer};"));
}

#[test]
fn imports_come_from_the_first_crate_there_is() {
    let specs = [spec(
        "src/lib.rs",
        "app",
        &[
            ("cudarc", "cudarc"),
            ("dqn", "ml-dqn"),
            ("ml_cuda", "ml-cuda"),
        ],
    )];
    let source = usual().replace("ml_dqn::", "dqn::");
    let done = run(&specs, &[("src/lib.rs", &source)]);
    assert!(
        done.texts["src/lib.rs"].contains("use ml_cuda::{Phase, PhaseTimer};\n"),
        "{}",
        done.texts["src/lib.rs"]
    );
    let specs = [spec(
        "src/lib.rs",
        "app",
        &[("cudarc", "cudarc"), ("dqn", "ml-dqn")],
    )];
    let done = run(&specs, &[("src/lib.rs", &source)]);
    assert!(
        done.texts["src/lib.rs"]
            .contains("use dqn::{DqnAgent, DqnConfig, GpuBatchPtrs, Phase, PhaseTimer};")
    );
}

#[test]
fn a_struct_without_the_method_is_somebody_elses() {
    let source = "pub struct FusedTrainingCtx { stream: std::sync::Arc<cudarc::driver::CudaStream> }\nimpl FusedTrainingCtx { pub fn step(&self) {} }\n";
    assert_eq!(one(source), (source.to_owned(), vec![]));
}

#[test]
fn structs_of_the_same_name_are_each_handled() {
    let inner: String = usual()
        .lines()
        .map(|line| {
            if line.is_empty() {
                "\n".to_owned()
            } else {
                format!("    {line}\n")
            }
        })
        .collect();
    let blocked = inner.replace(
        "pub struct FusedTrainingCtx",
        "#[derive(Clone)]\n    pub struct FusedTrainingCtx",
    );
    let (text, sites) = one(&format!(
        "pub mod a {{\n{inner}}}\npub mod b {{\n{blocked}}}\n"
    ));
    check_site(&sites, "pub struct FusedTrainingCtx", "derives `Clone`");
    let (a, b) = text.split_once("pub mod b {").unwrap();
    assert!(
        a.contains("        phases: PhaseTimer,\n") && a.contains("Phase, PhaseTimer};"),
        "{a}"
    );
    assert!(!b.contains("PhaseTimer"), "{b}");
}

#[test]
fn documented_crates_get_documentation() {
    let (text, _) = one(&format!("#![warn(missing_docs)]\n{}", usual()));
    assert!(
        text.contains("    /// GPU time of each phase of the step.\n    pub fn phases(&self)"),
        "{text}"
    );
}

#[test]
fn literals_among_tokens_block_the_group() {
    let literal = "Ok(Self { stream, td_errors, mega: true })";
    for (instead, rest, line) in [
        (
            "make!(stream, td_errors)",
            "macro_rules! make {
    ($stream:expr, $td:expr) => {
        Ok(FusedTrainingCtx { stream: $stream, td_errors: $td, mega: true })
    };
}
",
            "Ok(FusedTrainingCtx {",
        ),
        (
            "make!(Self, stream, td_errors)",
            "macro_rules! make {
    ($ty:ident, $stream:expr, $td:expr) => { Ok($ty { stream: $stream, td_errors: $td, mega: true }) };
}
",
            "Ok($ty {",
        ),
        (
            "build!(=> Self { stream, td_errors, mega: true })",
            "",
            "build!(=>",
        ),
    ] {
        let source = context("        self.upload_batch_gpu(batch)?;\n        Ok(0.0)", rest)
            .replace(literal, instead);
        let (text, sites) = one(&source);
        check_site(&sites, line, "is built in the ");
        assert_eq!(sites.len(), 1, "{sites:#?}");
        assert_eq!(text, source);
    }
}

#[test]
fn tokens_that_build_nothing_without_the_timer() {
    let source = context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        "macro_rules! more {
    ($name:ident) => {
        impl FusedTrainingCtx { fn $name(&self) -> &Self { self } }
        fn other(base: FusedTrainingCtx) -> FusedTrainingCtx { FusedTrainingCtx { mega: false, ..base } }
        fn full() { Other { stream, td_errors, mega: true }; }
    };
}
",
    );
    let (text, sites) = one(&source);
    assert_eq!(sites, []);
    assert!(text.contains("phases: PhaseTimer"), "{text}");
}

/// Two structs of one name, each in a module, and a macro.
fn two_with(rest: &str) -> (String, Vec<(String, String)>) {
    let inner = context(
        "        self.upload_batch_gpu(batch)?;\n        Ok(0.0)",
        "",
    );
    one(&format!(
        "pub mod a {{\n{inner}}}\npub mod b {{\n{inner}}}\n{rest}"
    ))
}

const HIDDEN: &str = "macro_rules! ctx {
    ($s:expr, $t:expr) => { FusedTrainingCtx { stream: $s, td_errors: $t, mega: true } };
}
";

#[test]
fn a_hidden_literal_turns_off_only_what_it_means() {
    let (text, sites) = two_with(&format!(
        "pub mod c {{\nuse super::b::FusedTrainingCtx;\n{HIDDEN}}}\n"
    ));
    check_site(&sites, "FusedTrainingCtx {", "`macro_rules! ctx`, where");
    assert_eq!(sites.len(), 1, "{sites:#?}");
    let (a, b) = text.split_once("pub mod b {").unwrap();
    assert!(
        a.contains("phases: PhaseTimer") && !b.contains("PhaseTimer"),
        "{text}"
    );
    // By where it is called.
    let (text, sites) = two_with(&format!(
        "{HIDDEN}pub mod c {{\nuse super::a::FusedTrainingCtx;\nfn f(s: S, t: T) -> FusedTrainingCtx {{ ctx!(s, t) }}\n}}\n"
    ));
    assert_eq!(sites.len(), 1, "{sites:#?}");
    let (a, b) = text.split_once("pub mod b {").unwrap();
    assert!(
        b.contains("phases: PhaseTimer") && !a.contains("PhaseTimer"),
        "{text}"
    );
}

#[test]
fn a_hidden_literal_that_may_mean_each_is_told_at_each() {
    let (text, sites) = two_with(HIDDEN);
    assert!(!text.contains("PhaseTimer"), "{text}");
    assert_eq!(sites.len(), 2, "{sites:#?}");
    assert!(
        sites
            .iter()
            .all(|(line, why)| line == "pub struct FusedTrainingCtx {"
                && why.contains("may mean this struct")),
        "{sites:#?}"
    );
}
