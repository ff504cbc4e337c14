//! Asks for each file, and on demand for each hunk, whether it is to change.
//!
//! The questions are those of `git add --patch`, so that nobody has to learn new letters. What is declined is simply not
//! written; another run offers it again.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::ops::Range;

use codemod::diff::{self, FileDiff, LineKind};
use codemod::plan::Change;
use codemod::record::{Record, RecordKind};
use codemod::report::DECLINED_RULE;

/// What was agreed to.
#[derive(Debug)]
pub struct Chosen {
    /// As given, but without what was declined.
    pub changes: Vec<Change>,
    /// Files of which nothing was taken.
    pub n_declined: usize,
    /// Of each file that was taken, the lines before that change, counted from 0; none where all of it was taken.
    taken: BTreeMap<String, Option<Vec<Range<usize>>>>,
}

impl Chosen {
    /// Whether a file is changed as the plan has it.
    pub fn is_whole(&self, file: &str) -> bool {
        matches!(self.taken.get(file), Some(None))
    }

    /// What there is to say of a file of which not all was agreed to.
    pub fn declined(&self, path: &str) -> Option<Record> {
        let reason = match self.taken.get(path) {
            None => "declined; another run offers it again",
            Some(Some(_)) => "declined in part; another run offers the rest",
            Some(None) => return None,
        };
        let note = RecordKind::Note;
        Some(Record::about_file(note, DECLINED_RULE, path, reason))
    }

    /// Whether a record still speaks of something that happens.
    pub fn holds(&self, record: &Record) -> bool {
        match record.kind {
            RecordKind::Unresolved | RecordKind::Note => true,
            RecordKind::Edit | RecordKind::Deleted => match self.taken.get(&record.file) {
                None => false,
                Some(None) => true,
                Some(Some(lines)) => lines.iter().any(|lines| lines.contains(&(record.line - 1))),
            },
        }
    }
}

/// What comes after a question was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    AllFollowing,
    NoneFollowing,
    Split,
    Quit,
}

/// Goes through the changes. The end of the input counts as `q`.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn choose(
    changes: Vec<Change>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    color: bool,
) -> io::Result<Chosen> {
    let n_files = changes.len();
    let mut chosen = Chosen {
        changes: Vec::new(),
        n_declined: 0,
        taken: BTreeMap::new(),
    };
    let mut for_all = None;
    for (n, change) in changes.into_iter().enumerate() {
        let answer = match for_all {
            Some(answer) => answer,
            None => {
                show_patch(
                    &diff::patch(std::slice::from_ref(&change), |_| false),
                    output,
                    color,
                )?;
                let n_hunks = n_hunks(&change);
                let what = if matches!(change, Change::Delete { .. }) {
                    "delete"
                } else {
                    "change"
                };
                let question = format!("({}/{n_files}) {what} `{}`", n + 1, change.path());
                ask(&question, n_hunks > 1, "file", input, output)?
            }
        };
        match answer {
            Answer::AllFollowing => for_all = Some(Answer::Yes),
            Answer::NoneFollowing | Answer::Quit => for_all = Some(Answer::No),
            Answer::Yes | Answer::No | Answer::Split => {}
        }
        match answer {
            Answer::Yes | Answer::AllFollowing => {
                chosen.taken.insert(change.path().to_owned(), None);
                chosen.changes.push(change);
            }
            Answer::No | Answer::NoneFollowing | Answer::Quit => chosen.n_declined += 1,
            Answer::Split => {
                let (part, lines, quits) = split(change, input, output, color)?;
                if quits {
                    for_all = Some(Answer::No);
                }
                match part {
                    Some(part) => {
                        chosen.taken.insert(part.path().to_owned(), lines);
                        chosen.changes.push(part);
                    }
                    None => chosen.n_declined += 1,
                }
            }
        }
    }
    Ok(chosen)
}

fn n_hunks(change: &Change) -> usize {
    match change {
        Change::Write { before, after, .. } => FileDiff::new(before, after).n_hunks(),
        Change::Delete { .. } => 1,
    }
}

/// The part of a change that was agreed to, the lines it covers where it is not all, and whether the user has had enough.
type Part = (Option<Change>, Option<Vec<Range<usize>>>, bool);

fn split(
    change: Change,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    color: bool,
) -> io::Result<Part> {
    let Change::Write {
        path,
        before,
        after,
    } = change
    else {
        unreachable!("only a file with several hunks is split");
    };
    let diff = FileDiff::new(&before, &after);
    let mut taken = vec![false; diff.n_hunks()];
    let mut for_rest = None;
    let mut quits = false;
    for (hunk, taken) in taken.iter_mut().enumerate() {
        let answer = match for_rest {
            Some(answer) => answer,
            None => {
                show_hunk(&diff, hunk, output, color)?;
                let question = format!(
                    "({}/{}) apply this hunk to `{path}`",
                    hunk + 1,
                    diff.n_hunks()
                );
                ask(&question, false, "hunk", input, output)?
            }
        };
        match answer {
            Answer::AllFollowing => for_rest = Some(Answer::Yes),
            Answer::NoneFollowing | Answer::Quit => for_rest = Some(Answer::No),
            Answer::Yes | Answer::No | Answer::Split => {}
        }
        quits |= answer == Answer::Quit;
        *taken = matches!(answer, Answer::Yes | Answer::AllFollowing);
    }
    let result = diff.with_hunks(&taken);
    let lines = (0..taken.len())
        .filter(|hunk| taken[*hunk])
        .map(|hunk| diff.lines_before(hunk))
        .collect();
    let lines = if taken.iter().all(|taken| *taken) {
        None
    } else {
        Some(lines)
    };
    let part = taken.contains(&true).then(|| Change::Write {
        path,
        before: before.clone(),
        after: result,
    });
    Ok((part, lines, quits))
}

fn ask(
    question: &str,
    can_split: bool,
    what: &str,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<Answer> {
    let letters = if can_split {
        "y,n,a,d,s,q,?"
    } else {
        "y,n,a,d,q,?"
    };
    loop {
        write!(output, "{question} [{letters}]? ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            writeln!(output)?;
            return Ok(Answer::Quit);
        }
        match line.trim() {
            "y" => return Ok(Answer::Yes),
            "n" => return Ok(Answer::No),
            "a" => return Ok(Answer::AllFollowing),
            "d" => return Ok(Answer::NoneFollowing),
            "q" => return Ok(Answer::Quit),
            "s" if can_split => return Ok(Answer::Split),
            _ => help(can_split, what, output)?,
        }
    }
}

fn help(can_split: bool, what: &str, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output, "y - yes, this {what}")?;
    writeln!(output, "n - no, not this {what}")?;
    writeln!(output, "a - this {what} and all that follow")?;
    writeln!(output, "d - neither this {what} nor any that follow")?;
    if can_split {
        writeln!(output, "s - decide hunk by hunk")?;
    }
    writeln!(
        output,
        "q - enough: nothing more; what was agreed to is written"
    )?;
    writeln!(output, "? - this list")?;
    writeln!(
        output,
        "Part of a migration may not compile; another run offers the rest."
    )
}

fn show_hunk(
    diff: &FileDiff<'_>,
    hunk: usize,
    output: &mut dyn Write,
    color: bool,
) -> io::Result<()> {
    show_patch(&self::hunk(diff, hunk), output, color)
}

/// One hunk of a patch, with its header.
pub fn hunk(diff: &FileDiff<'_>, hunk: usize) -> Vec<u8> {
    let mut text = diff.hunk_header(hunk);
    for (kind, line) in diff.hunk_lines(hunk) {
        text.push(match kind {
            LineKind::Context => b' ',
            LineKind::Removed => b'-',
            LineKind::Added => b'+',
        });
        text.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        text.push(b'\n');
    }
    text
}

/// Writes a patch, for a terminal in git's colors.
pub fn show_patch(patch: &[u8], output: &mut dyn Write, color: bool) -> io::Result<()> {
    if !color {
        return output.write_all(patch);
    }
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        let code: &[u8] = match line {
            _ if line.starts_with(b"diff ")
                || line.starts_with(b"--- ")
                || line.starts_with(b"+++ ") =>
            {
                b"1"
            }
            _ if line.starts_with(b"@@") => b"36",
            _ if line.starts_with(b"-") => b"31",
            _ if line.starts_with(b"+") => b"32",
            _ => {
                output.write_all(line)?;
                continue;
            }
        };
        output.write_all(b"\x1b[")?;
        output.write_all(code)?;
        output.write_all(b"m")?;
        output.write_all(line.strip_suffix(b"\n").unwrap_or(line))?;
        output.write_all(b"\x1b[0m\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(names: &[&str]) -> Vec<u8> {
        (0..40)
            .map(|n| {
                names
                    .get(n / 15)
                    .map_or(String::new(), |name| format!("{name} {n}\n"))
            })
            .collect::<String>()
            .into()
    }

    fn changes() -> Vec<Change> {
        // The changes of `two.rs` lie far enough from each other to be two hunks.
        let before = String::from_utf8(lines(&["a", "b", "c"])).expect("text");
        let after = before.replace("a 2\n", "A 2\n").replace("c 37\n", "C 37\n");
        vec![
            Change::Write {
                path: "one.rs".to_owned(),
                before: b"x\n".to_vec(),
                after: b"y\n".to_vec(),
            },
            Change::Write {
                path: "two.rs".to_owned(),
                before: before.into(),
                after: after.into(),
            },
            Change::Delete {
                path: "zip.rs".to_owned(),
                before: b"z\n".to_vec(),
            },
        ]
    }

    fn answer(answers: &str) -> (Chosen, String) {
        let mut output = Vec::new();
        let chosen = choose(changes(), &mut answers.as_bytes(), &mut output, false)
            .expect("no terminal is in the way");
        (chosen, String::from_utf8(output).expect("text"))
    }

    fn paths(chosen: &Chosen) -> Vec<&str> {
        chosen.changes.iter().map(Change::path).collect()
    }

    #[test]
    fn each_letter() {
        for (answers, taken) in [
            ("y\ny\ny\n", vec!["one.rs", "two.rs", "zip.rs"]),
            ("n\ny\nn\n", vec!["two.rs"]),
            ("a\n", vec!["one.rs", "two.rs", "zip.rs"]),
            ("n\na\n", vec!["two.rs", "zip.rs"]),
            ("y\nd\n", vec!["one.rs"]),
            ("y\nq\n", vec!["one.rs"]),
            ("", vec![]),
            ("y\n", vec!["one.rs"]),
            ("?\nwhat\ny\nd\n", vec!["one.rs"]),
        ] {
            let (chosen, _) = answer(answers);
            assert_eq!(paths(&chosen), taken, "{answers:?}");
            assert_eq!(chosen.n_declined, 3 - taken.len(), "{answers:?}");
        }
    }

    #[test]
    fn some_hunks_of_a_file() {
        let (chosen, _) = answer("n\ns\nn\ny\nn\n");
        let [Change::Write { after, .. }] = &chosen.changes[..] else {
            panic!("{chosen:?}")
        };
        let after = String::from_utf8(after.clone()).expect("text");
        assert!(
            after.contains("a 2\n") && after.contains("C 37\n"),
            "{after}"
        );
        let edit = |file: &str, line| Record {
            line,
            ..Record::about_file(RecordKind::Edit, "", file, "")
        };
        assert!(chosen.holds(&edit("two.rs", 38)));
        assert!(!chosen.holds(&edit("two.rs", 3)));
        assert!(!chosen.holds(&edit("one.rs", 1)));
        assert!(chosen.holds(&Record {
            kind: RecordKind::Unresolved,
            ..edit("one.rs", 1)
        }));
    }

    #[test]
    fn no_hunk_is_no_change_and_quitting_ends_it_all() {
        assert_eq!(paths(&answer("n\ns\nn\nn\ny\n").0), ["zip.rs"]);
        assert_eq!(paths(&answer("n\ns\ny\nq\n").0), ["two.rs"]);
        assert_eq!(paths(&answer("n\ns\na\ny\n").0), ["two.rs", "zip.rs"]);
    }

    #[test]
    fn the_conversation() {
        insta::assert_snapshot!(answer("?\ny\ns\ny\nn\nq\n").1);
    }

    #[test]
    fn colors_are_git_s() {
        let mut output = Vec::new();
        show_patch(
            b"diff --git a/a b/a\n@@ -1 +1 @@\n-x\n+y\n z\n",
            &mut output,
            true,
        )
        .expect("written");
        assert_eq!(
            String::from_utf8(output).expect("text"),
            "\u{1b}[1mdiff --git a/a b/a\u{1b}[0m\n\u{1b}[36m@@ -1 +1 @@\u{1b}[0m\n\u{1b}[31m-x\u{1b}[0m\n\u{1b}[32m+y\u{1b}[0m\n z\n"
        );
    }
}
