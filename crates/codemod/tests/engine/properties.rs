//! What holds for any input: fixtures with lines, words and bytes thrown about.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::fixtures::{SINGLE, all};
use crate::support::{Files, GPU_REPLAY, keeps_its_promises, run};

/// Inputs of fixtures that are one file, but for those that come out wrong as they stand.
static SOURCES: LazyLock<Vec<Files>> = LazyLock::new(|| {
    all()
        .into_iter()
        .filter(|case| case.single && case.expect.fixme.is_none())
        .map(|case| case.before)
        .collect()
});

#[derive(Debug, Clone)]
enum Mutation {
    DeleteLine(usize),
    RepeatLine(usize),
    SwapWords(usize, usize),
    Truncate(usize),
    Insert(usize, &'static str),
    /// A byte as it comes; the result need not be UTF-8.
    Byte(usize, u8),
    Crlf,
    NoFinalNewline,
    ByteOrderMark,
}

const TOKENS: &[&str] = &[
    " ",
    "\n",
    "\r\n",
    "(",
    ")",
    "{",
    "}",
    ";",
    "::",
    "&",
    "mut ",
    "ref ",
    "match ",
    "if let ",
    "else ",
    "| ",
    "=> ",
    "_ ",
    "'a ",
    "r#",
    "\"",
    "// ",
    "/* ",
    "#[cfg(test)] ",
    "pub ",
    "async ",
    "move |x| ",
    "unsafe ",
    "?",
    ".await",
    "🦀",
    "é",
    "\t",
    "ReplayBufferType",
    "BatchSample",
    "gpu_batch",
    "GpuPrioritized(g)",
    "Uniform(_)",
    ".as_gpu()",
    ".is_gpu()",
    "use ml_dqn::*;",
    "GpuReplayBuffer",
    "return;",
    "loop {",
    "macro_rules! m ",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    let word = at.clone();
    prop_oneof![
        3 => at.clone().prop_map(Mutation::DeleteLine),
        2 => at.clone().prop_map(Mutation::RepeatLine),
        3 => (at.clone(), word).prop_map(|(a, b)| Mutation::SwapWords(a, b)),
        1 => at.clone().prop_map(Mutation::Truncate),
        5 => (at.clone(), prop::sample::select(TOKENS)).prop_map(|(at, token)| Mutation::Insert(at, token)),
        1 => (at, any::<u8>()).prop_map(|(at, byte)| Mutation::Byte(at, byte)),
        1 => Just(Mutation::Crlf),
        1 => Just(Mutation::NoFinalNewline),
        1 => Just(Mutation::ByteOrderMark),
    ]
}

fn mutate(source: &[u8], mutation: &Mutation) -> Vec<u8> {
    let text = String::from_utf8_lossy(source).into_owned();
    // The nearest place that is not within a character.
    let boundary = |at: usize| {
        (at % (text.len() + 1)..=text.len())
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(text.len())
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    match mutation {
        Mutation::DeleteLine(at) if !lines.is_empty() => {
            let at = at % lines.len();
            [&lines[..at], &lines[at + 1..]]
                .concat()
                .concat()
                .into_bytes()
        }
        Mutation::RepeatLine(at) if !lines.is_empty() => {
            let at = at % lines.len();
            [&lines[..=at], &lines[at..]].concat().concat().into_bytes()
        }
        Mutation::DeleteLine(_) | Mutation::RepeatLine(_) => text.into_bytes(),
        Mutation::SwapWords(a, b) => swap_words(&text, *a, *b).into_bytes(),
        Mutation::Truncate(at) => text.as_bytes()[..boundary(*at)].to_vec(),
        Mutation::Insert(at, token) => {
            let at = boundary(*at);
            format!("{}{token}{}", &text[..at], &text[at..]).into_bytes()
        }
        Mutation::Byte(at, byte) => {
            let mut bytes = source.to_vec();
            bytes.insert(at % (bytes.len() + 1), *byte);
            bytes
        }
        Mutation::Crlf => text
            .replace("\r\n", "\n")
            .replace('\n', "\r\n")
            .into_bytes(),
        Mutation::NoFinalNewline => text.trim_end().as_bytes().to_vec(),
        Mutation::ByteOrderMark => {
            format!("\u{feff}{}", text.trim_start_matches('\u{feff}')).into_bytes()
        }
    }
}

/// Two identifiers change places.
fn swap_words(text: &str, a: usize, b: usize) -> String {
    let is_word = |at: char| at.is_alphanumeric() || at == '_';
    let mut words = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (is_word(character), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if words.is_empty() {
        return text.to_owned();
    }
    let (first, second) = (a % words.len(), b % words.len());
    let (first, second) = (
        words[first.min(second)].clone(),
        words[first.max(second)].clone(),
    );
    if first == second {
        return text.to_owned();
    }
    [
        &text[..first.start],
        &text[second.clone()],
        &text[first.end..second.start],
        &text[first.clone()],
        &text[second.end..],
    ]
    .concat()
}

/// The same cases each time; `PROPTEST_CASES` asks for more of them, `MUTANT_SEED` for others.
#[test]
fn any_mutant_keeps_the_promises() {
    let asked = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.parse().ok())
    };
    let cases = asked("PROPTEST_CASES").unwrap_or(64);
    let seed = asked("MUTANT_SEED").unwrap_or(7) as u8;
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]),
    );
    let inputs = (
        any::<prop::sample::Index>(),
        prop::collection::vec(mutation(), 1..4),
    );
    let outcome = runner.run(&inputs, |(which, mutations)| {
        let mut files = which.get(&SOURCES).clone();
        let source = mutations
            .iter()
            .fold(files[SINGLE].clone(), |source, mutation| {
                mutate(&source, mutation)
            });
        files.insert(SINGLE.into(), source.clone());
        let shown = String::from_utf8_lossy(&source).into_owned();
        // A panic of the planner is an error of its own kind, and a result that does not parse another.
        let run = run(&files).map_err(|error| TestCaseError::fail(format!("{error}\n{shown}")))?;
        keeps_its_promises(&run, &GPU_REPLAY)
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n--- input\n{shown}")))
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
