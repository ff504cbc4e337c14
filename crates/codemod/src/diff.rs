//! Unified diffs that `git apply` takes, and files put together again from some of their hunks.
//!
//! Everything here works on bytes: carriage returns, byte order marks and a missing final newline are part of a line like
//! any other byte, so that applying the patch gives the very file that a writing run would have written.

use std::fmt::Write as _;
use std::ops::Range;

use similar::algorithms::{self, Capture, Replace};
use similar::{Algorithm, DiffOp, DiffTag, group_diff_ops};

use crate::plan::Change;

/// Lines shown around a change, as git does.
const CONTEXT_LINES: usize = 3;
/// Length at which git cuts the line that it shows behind `@@`.
const HEADING_BYTES: usize = 80;

/// What a line of a diff does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Context,
    Removed,
    Added,
}

/// The two versions of a file, compared line by line.
#[derive(Debug)]
pub struct FileDiff<'a> {
    before: Vec<&'a [u8]>,
    after: Vec<&'a [u8]>,
    /// Each hunk is a run of changes with the context around it; sorted, disjoint.
    hunks: Vec<Vec<DiffOp>>,
}

impl<'a> FileDiff<'a> {
    pub fn new(before: &'a [u8], after: &'a [u8]) -> Self {
        let before = lines(before);
        let after = lines(after);
        // Not `capture_diff_slices`: its compaction moves operations without mending the positions of their neighbours
        // (similar 2.7.0), and a patch made of those does not apply.
        let mut capture = Replace::new(Capture::new());
        algorithms::diff_slices(Algorithm::Patience, &mut capture, &before, &after)
            .expect("capturing a diff has no way to fail");
        let ops = capture.into_inner().into_ops();
        Self {
            hunks: group_diff_ops(ops, CONTEXT_LINES),
            before,
            after,
        }
    }

    /// How many hunks there are; none where the two versions are equal.
    pub fn n_hunks(&self) -> usize {
        self.hunks.len()
    }

    /// The lines of a hunk in the version before, counted from 0, context included.
    pub fn lines_before(&self, hunk: usize) -> Range<usize> {
        span(&self.hunks[hunk], DiffOp::old_range)
    }

    /// The same in the version after.
    pub fn lines_after(&self, hunk: usize) -> Range<usize> {
        span(&self.hunks[hunk], DiffOp::new_range)
    }

    /// The line before that a line after comes from, both counted from 0, and whether it is the same line; of an added line
    /// the first that it stands in place of.
    pub fn line_before(&self, line_after: usize) -> (usize, bool) {
        // Outside hunks both versions run in step.
        let (mut old_at, mut new_at) = (0, 0);
        for op in self.hunks.iter().flatten() {
            let (old, new) = (op.old_range(), op.new_range());
            if line_after < new.start {
                break;
            }
            if new.contains(&line_after) {
                let kept = op.tag() == DiffTag::Equal;
                return (
                    if kept {
                        old.start + line_after - new.start
                    } else {
                        old.start
                    },
                    kept,
                );
            }
            (old_at, new_at) = (old.end, new.end);
        }
        (old_at + line_after - new_at, true)
    }

    /// The lines of a hunk with what becomes of them, each with its line end.
    pub fn hunk_lines(&self, hunk: usize) -> impl Iterator<Item = (LineKind, &'a [u8])> + '_ {
        self.hunks[hunk].iter().flat_map(|op| {
            let removed = if op.tag() == DiffTag::Equal {
                LineKind::Context
            } else {
                LineKind::Removed
            };
            let added = if op.tag() == DiffTag::Equal {
                0..0
            } else {
                op.new_range()
            };
            self.before[op.old_range()]
                .iter()
                .map(move |line| (removed, *line))
                .chain(
                    self.after[added]
                        .iter()
                        .map(|line| (LineKind::Added, *line)),
                )
        })
    }

    /// Line that opens a hunk: where it stands in both versions, and the item it is in.
    pub fn hunk_header(&self, hunk: usize) -> Vec<u8> {
        let old = span(&self.hunks[hunk], DiffOp::old_range);
        let new = span(&self.hunks[hunk], DiffOp::new_range);
        let mut header =
            format!("@@ -{} +{} @@", header_range(&old), header_range(&new)).into_bytes();
        // The same rule as git's default: the nearest line above that starts with a letter, `_` or `$`.
        let heading = self.before[..old.start].iter().rev().find(|line| {
            line.first()
                .is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
        });
        if let Some(heading) = heading {
            let heading = heading.trim_ascii_end();
            header.push(b' ');
            header.extend_from_slice(&heading[..cut(heading, HEADING_BYTES)]);
        }
        header.push(b'\n');
        header
    }

    /// The file in which the hunks that `taken` marks are applied and the others are not.
    ///
    /// # Panics
    ///
    /// If `taken` has not one entry for each hunk.
    pub fn with_hunks(&self, taken: &[bool]) -> Vec<u8> {
        assert_eq!(taken.len(), self.hunks.len(), "one answer for each hunk");
        let mut result = Vec::new();
        let mut at = 0;
        for (ops, taken) in self.hunks.iter().zip(taken) {
            for op in ops.iter().filter(|op| op.tag() != DiffTag::Equal) {
                let old = op.old_range();
                result.extend(self.before[at..old.start].concat());
                result.extend(if *taken {
                    self.after[op.new_range()].concat()
                } else {
                    self.before[old.clone()].concat()
                });
                at = old.end;
            }
        }
        result.extend(self.before[at..].concat());
        result
    }

    fn write_hunks(&self, patch: &mut Vec<u8>) {
        for hunk in 0..self.hunks.len() {
            patch.extend(self.hunk_header(hunk));
            for (kind, line) in self.hunk_lines(hunk) {
                patch.push(match kind {
                    LineKind::Context => b' ',
                    LineKind::Removed => b'-',
                    LineKind::Added => b'+',
                });
                patch.extend_from_slice(line);
                if !line.ends_with(b"\n") {
                    patch.extend_from_slice(b"\n\\ No newline at end of file\n");
                }
            }
        }
    }
}

/// One patch of all changes, in the order given.
///
/// `is_executable` tells the mode of a file by its path; git warns about a deletion that names the wrong one.
pub fn patch(changes: &[Change], is_executable: impl Fn(&str) -> bool) -> Vec<u8> {
    let mut patch = Vec::new();
    for change in changes {
        let (path, before, after): (_, _, &[u8]) = match change {
            Change::Write {
                path,
                before,
                after,
            } => (path, before, after),
            Change::Delete { path, before } => (path, before, &[]),
        };
        let deleted = matches!(change, Change::Delete { .. });
        let diff = FileDiff::new(before, after);
        if diff.n_hunks() == 0 && !deleted {
            continue;
        }
        let mut header = format!("diff --git {} {}\n", quoted("a/", path), quoted("b/", path));
        if deleted {
            let mode = if is_executable(path) {
                "100755"
            } else {
                "100644"
            };
            writeln!(header, "deleted file mode {mode}").expect("writing to a string");
        }
        // git writes neither names nor hunks for a file without content.
        if diff.n_hunks() > 0 {
            writeln!(header, "--- {}", name_line("a/", path)).expect("writing to a string");
            let new = if deleted {
                "/dev/null".to_owned()
            } else {
                name_line("b/", path)
            };
            writeln!(header, "+++ {new}").expect("writing to a string");
        } else {
            header.push_str("index e69de29..0000000\n");
        }
        patch.extend(header.into_bytes());
        diff.write_hunks(&mut patch);
    }
    patch
}

/// Lines with their ends; only `\n` ends one, as for git.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn span(ops: &[DiffOp], range: impl Fn(&DiffOp) -> Range<usize>) -> Range<usize> {
    let first = ops.first().map_or(0, |op| range(op).start);
    let last = ops.last().map_or(0, |op| range(op).end);
    first..last
}

/// `first,count` as a hunk header has it: an empty range names the line before it, and a count of one is left out.
fn header_range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        n_lines => format!("{},{n_lines}", lines.start + 1),
    }
}

/// The greatest length up to `limit` that does not cut a character.
fn cut(text: &[u8], limit: usize) -> usize {
    let mut end = text.len().min(limit);
    while end < text.len() && end > 0 && text[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    end
}

/// A name for a `---` or `+++` line: git ends it with a tab where it holds a space, so that no tool takes the rest for a date.
fn name_line(prefix: &str, path: &str) -> String {
    let name = quoted(prefix, path);
    if name.contains(' ') && !name.starts_with('"') {
        name + "\t"
    } else {
        name
    }
}

/// A path as git writes it: in C's quotes where it holds a quote, a backslash, a control character or anything beyond ASCII.
fn quoted(prefix: &str, path: &str) -> String {
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if path.bytes().all(is_plain) {
        return format!("{prefix}{path}");
    }
    let mut name = format!("\"{prefix}");
    for byte in path.bytes() {
        match byte {
            b'"' => name.push_str("\\\""),
            b'\\' => name.push_str("\\\\"),
            b'\n' => name.push_str("\\n"),
            b'\r' => name.push_str("\\r"),
            b'\t' => name.push_str("\\t"),
            byte if is_plain(byte) => name.push(char::from(byte)),
            byte => write!(name, "\\{byte:03o}").expect("writing to a string"),
        }
    }
    name + "\""
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn write(path: &str, before: &[u8], after: &[u8]) -> Change {
        Change::Write {
            path: path.to_owned(),
            before: before.to_vec(),
            after: after.to_vec(),
        }
    }

    fn delete(path: &str, before: &[u8]) -> Change {
        Change::Delete {
            path: path.to_owned(),
            before: before.to_vec(),
        }
    }

    /// Lays the files out as they were, lets git apply the patch, and compares every byte.
    fn check_applies(changes: &[Change]) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command
                .current_dir(dir.path())
                .args(["-c", "core.autocrlf=false"])
                .args(args)
                .stdin(Stdio::piped());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        assert!(git(&["init", "-q"]).status().expect("git runs").success());
        for change in changes {
            let (Change::Write { path, before, .. } | Change::Delete { path, before }) = change;
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder");
            fs::write(path, before).expect("file");
        }
        let patch = patch(changes, |_| false);
        let patch_path = dir.path().join(".git/patch");
        fs::write(&patch_path, &patch).expect("patch");
        let shown = String::from_utf8_lossy(&patch).into_owned();
        let done = git(&["apply", "--whitespace=nowarn", ".git/patch"])
            .output()
            .expect("git runs");
        assert!(
            done.status.success(),
            "{}\n{shown}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert!(
            done.stderr.is_empty(),
            "{}\n{shown}",
            String::from_utf8_lossy(&done.stderr)
        );
        for change in changes {
            check_file(dir.path(), change, &shown);
        }
    }

    fn check_file(root: &Path, change: &Change, shown: &str) {
        match change {
            Change::Write { path, after, .. } => assert_eq!(
                &fs::read(root.join(path)).expect("file"),
                after,
                "{path}\n{shown}"
            ),
            Change::Delete { path, .. } => assert!(!root.join(path).exists(), "{path}\n{shown}"),
        }
    }

    #[test]
    fn git_applies_every_kind_of_file() {
        check_applies(&[
            write("src/lib.rs", b"mod a;\nmod b;\n", b"mod a;\n"),
            write(
                "src/crlf.rs",
                b"one\r\ntwo\r\nthree\r\n",
                b"one\r\n2\r\nthree\r\n",
            ),
            write(
                "src/bom.rs",
                b"\xef\xbb\xbfone\ntwo\n",
                b"\xef\xbb\xbfone\n2\n",
            ),
            write("src/no_end.rs", b"one\ntwo", b"one\n2"),
            write("src/gains_end.rs", b"one\ntwo", b"one\ntwo\n"),
            write("src/loses_end.rs", b"one\ntwo\n", b"one\ntwo"),
            write("src/filled.rs", b"", b"one\n"),
            write("src/emptied.rs", b"one\n", b""),
            write("src/latin1.rs", b"// caf\xe9\none\n", b"// caf\xe9\n1\n"),
            write("src/bare_cr.rs", b"one\rtwo\nthree\n", b"one\rtwo\n3\n"),
            delete("src/gone.rs", b"one\ntwo\n"),
            delete("src/gone_no_end.rs", b"one"),
            delete("src/gone_empty.rs", b""),
            write("src/with space.rs", b"one\n", b"1\n"),
            write("src/gr\u{fc}n.rs", b"one\n", b"1\n"),
            delete("src/gr\u{fc}n too.rs", b"one\n"),
            write("src/quo\"te\\and\ttab.rs", b"one\n", b"1\n"),
        ]);
    }

    #[test]
    fn equal_versions_leave_no_trace() {
        assert_eq!(patch(&[write("a.rs", b"one\n", b"one\n")], |_| false), b"");
    }

    #[test]
    fn a_deletion_names_the_mode() {
        let text = patch(&[delete("run.rs", b"#!/bin/sh\n")], |_| true);
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "diff --git a/run.rs b/run.rs\ndeleted file mode 100755\n--- a/run.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-#!/bin/sh\n"
        );
    }

    #[test]
    fn lines_are_found_again() {
        let before: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let after = before
            .replace("line 3\n", "")
            .replace("line 20\n", "new a\nnew b\n");
        let diff = FileDiff::new(before.as_bytes(), after.as_bytes());
        let after: Vec<_> = after.lines().collect();
        for (n, line) in after.iter().enumerate() {
            let (old, kept) = diff.line_before(n);
            match line.strip_prefix("line ") {
                Some(number) => assert_eq!((old, kept), (number.parse().expect("a number"), true)),
                None => assert_eq!((old, kept), (20, false)),
            }
        }
    }

    #[test]
    fn a_hunk_names_the_item_it_is_in() {
        let before: String = (0..12)
            .map(|n| {
                if n == 1 {
                    "fn first() {\n".to_owned()
                } else {
                    format!("    let x{n} = 0;\n")
                }
            })
            .collect();
        let after = before.replace("x9 = 0", "x9 = 1");
        let diff = FileDiff::new(before.as_bytes(), after.as_bytes());
        assert_eq!(diff.hunk_header(0), b"@@ -7,6 +7,6 @@ fn first() {\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Any two versions, any choice of hunks: git gets from one to the other, and the choice lies between them.
        #[test]
        fn any_patch_applies(before in text(), after in text()) {
            prop_assume!(before != after);
            check_applies(&[write("a.rs", before.as_bytes(), after.as_bytes())]);
        }

        #[test]
        fn all_hunks_or_none(before in text(), after in text()) {
            let diff = FileDiff::new(before.as_bytes(), after.as_bytes());
            prop_assert_eq!(diff.with_hunks(&vec![true; diff.n_hunks()]), after.as_bytes());
            prop_assert_eq!(diff.with_hunks(&vec![false; diff.n_hunks()]), before.as_bytes());
        }
    }

    /// Few different lines, so that versions share some; line ends of all kinds.
    fn text() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            "[ab]",
            Just("fn f() {".to_owned()),
            Just(String::new()),
            Just("\\ No newline".to_owned())
        ];
        let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n")];
        (prop::collection::vec((line, end), 0..30), any::<bool>()).prop_map(|(lines, ends)| {
            let text: String = lines.into_iter().map(|(line, end)| line + end).collect();
            if ends {
                text
            } else {
                text.trim_end().to_owned()
            }
        })
    }
}
