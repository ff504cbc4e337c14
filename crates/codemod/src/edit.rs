//! Edits as byte ranges, and a text that remembers where each of its bytes came from.

use crate::syntax::Span;

/// One replacement in the current text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub span: Span,
    pub text: String,
    /// Name of the rule that asked for it.
    pub rule: String,
}

impl Edit {
    pub fn new(span: Span, text: impl Into<String>, rule: &str) -> Self {
        Edit {
            span,
            text: text.into(),
            rule: rule.to_owned(),
        }
    }
}

/// Edits that belong together: all of them are made, or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditGroup {
    pub edits: Vec<Edit>,
}

impl EditGroup {
    pub fn one(edit: Edit) -> Self {
        EditGroup { edits: vec![edit] }
    }

    pub fn span(&self) -> Span {
        self.edits
            .iter()
            .map(|edit| edit.span)
            .reduce(Span::to)
            .unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    /// Where it stood in the original; none for inserted text.
    origin: Option<usize>,
    len: usize,
    /// Rule that inserted it, as an index.
    rule: usize,
}

/// A text under edit.
#[derive(Debug, Clone)]
pub struct Rope {
    original: String,
    text: String,
    /// In order, not empty, lengths adding up to the text's.
    pieces: Vec<Piece>,
    rules: Vec<String>,
    /// Deleted or replaced stretches of the original, with the rule that did it first.
    touched: Vec<(Span, usize)>,
}

/// A difference between the original and the text: a stretch of the original and what stands there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub span: Span,
    pub text: String,
    pub rule: String,
}

impl Rope {
    pub fn new(text: &str) -> Self {
        let pieces = if text.is_empty() {
            vec![]
        } else {
            vec![Piece {
                origin: Some(0),
                len: text.len(),
                rule: 0,
            }]
        };
        Rope {
            original: text.to_owned(),
            text: text.to_owned(),
            pieces,
            rules: vec![],
            touched: vec![],
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn original(&self) -> &str {
        &self.original
    }

    pub fn is_changed(&self) -> bool {
        self.text != self.original
    }

    /// Where a byte of the text stood in the original; for inserted text, where it was inserted.
    pub fn origin(&self, at: usize) -> usize {
        let mut start = 0;
        let mut last = 0;
        for piece in &self.pieces {
            if let Some(origin) = piece.origin {
                if at < start + piece.len {
                    return if at >= start {
                        origin + (at - start)
                    } else {
                        last
                    };
                }
                last = origin + piece.len;
            } else if at < start + piece.len {
                return last;
            }
            start += piece.len;
        }
        last.max(if at >= self.text.len() {
            self.original.len()
        } else {
            0
        })
    }

    /// The byte's origin, if it stood in the original at all.
    pub fn exact_origin(&self, at: usize) -> Option<usize> {
        let mut start = 0;
        for piece in &self.pieces {
            if at < start + piece.len {
                return piece.origin.map(|origin| origin + (at - start));
            }
            start += piece.len;
        }
        None
    }

    /// Where a byte of the original stands now, if it still does.
    pub fn now(&self, origin: usize) -> Option<usize> {
        let mut start = 0;
        for piece in &self.pieces {
            if let Some(lo) = piece.origin
                && (lo..lo + piece.len).contains(&origin)
            {
                return Some(start + (origin - lo));
            }
            start += piece.len;
        }
        None
    }

    /// Where a stretch of the text stood in the original, as far as it did.
    pub fn origin_span(&self, span: Span) -> Span {
        let lo = self.origin(span.lo);
        if span.is_empty() {
            return Span::new(lo, lo);
        }
        Span::new(lo, (self.origin(span.hi - 1) + 1).max(lo))
    }

    /// Whether the whole stretch was put there by edits.
    pub fn is_inserted(&self, span: Span) -> bool {
        let mut start = 0;
        for piece in &self.pieces {
            let range = Span::new(start, start + piece.len);
            if piece.origin.is_some() && range.overlaps(span) {
                return false;
            }
            start += piece.len;
        }
        !span.is_empty()
    }

    /// Makes the edits at once. They must be disjoint; they are sorted here.
    ///
    /// # Errors
    /// Two edits that overlap: nothing is changed.
    pub fn apply(&mut self, edits: &[Edit]) -> Result<(), Box<(Edit, Edit)>> {
        let mut edits: Vec<&Edit> = edits.iter().collect();
        edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
        edits.dedup_by(|a, b| a.span == b.span && a.text == b.text);
        for pair in edits.windows(2) {
            if pair[0].span.hi > pair[1].span.lo
                || (pair[0].span == pair[1].span && !pair[0].span.is_empty())
            {
                return Err(Box::new((pair[0].clone(), pair[1].clone())));
            }
        }
        let mut text = String::with_capacity(self.text.len());
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len() + edits.len() * 2);
        let mut at = 0;
        for edit in &edits {
            self.copy(at, edit.span.lo, &mut pieces);
            text.push_str(&self.text[at..edit.span.lo]);
            let rule = self.rule_index(&edit.rule);
            let (lo, hi) = (
                self.origin(edit.span.lo),
                if edit.span.is_empty() {
                    self.origin(edit.span.lo)
                } else {
                    self.origin_end(edit.span.hi)
                },
            );
            self.touched.push((Span::new(lo.min(hi), hi.max(lo)), rule));
            // Text that both sides share keeps its origin, so that what an edit leaves standing is not counted as changed.
            self.replace(edit, rule, &mut pieces);
            text.push_str(&edit.text);
            at = edit.span.hi;
        }
        self.copy(at, self.text.len(), &mut pieces);
        text.push_str(&self.text[at..]);
        self.text = text;
        self.pieces = merge(pieces);
        Ok(())
    }

    fn replace(&mut self, edit: &Edit, rule: usize, pieces: &mut Vec<Piece>) {
        let old = &self.text[edit.span.lo..edit.span.hi];
        let new = edit.text.as_str();
        if new.is_empty() {
            return;
        }
        // Pieces of the old text that stand in the new one, in order: bodies of arms, scrutinees, comments.
        let mut runs: Vec<(usize, usize, usize)> = Vec::new();
        if old.len() < 200_000 && new.len() < 200_000 {
            let ops =
                similar::capture_diff_slices(similar::Algorithm::Myers, &tokens(old), &tokens(new));
            let (old_at, new_at) = (offsets(old), offsets(new));
            for op in ops {
                if let similar::DiffOp::Equal {
                    old_index,
                    new_index,
                    len,
                } = op
                {
                    runs.push((
                        old_at[old_index],
                        new_at[new_index],
                        old_at[old_index + len] - old_at[old_index],
                    ));
                }
            }
        }
        let mut at = 0;
        for (from, to, len) in runs {
            if to > at {
                pieces.push(Piece {
                    origin: None,
                    len: to - at,
                    rule,
                });
            }
            self.copy(edit.span.lo + from, edit.span.lo + from + len, pieces);
            at = to + len;
        }
        if at < new.len() {
            pieces.push(Piece {
                origin: None,
                len: new.len() - at,
                rule,
            });
        }
    }

    fn rule_index(&mut self, rule: &str) -> usize {
        match self.rules.iter().position(|known| known == rule) {
            Some(at) => at,
            None => {
                self.rules.push(rule.to_owned());
                self.rules.len() - 1
            }
        }
    }

    fn origin_end(&self, hi: usize) -> usize {
        if hi == 0 {
            0
        } else {
            self.exact_origin(hi - 1)
                .map_or_else(|| self.origin(hi), |origin| origin + 1)
        }
    }

    fn copy(&self, lo: usize, hi: usize, out: &mut Vec<Piece>) {
        let mut start = 0;
        for piece in &self.pieces {
            let (a, b) = (start.max(lo), (start + piece.len).min(hi));
            if a < b {
                out.push(Piece {
                    origin: piece.origin.map(|origin| origin + (a - start)),
                    len: b - a,
                    rule: piece.rule,
                });
            }
            start += piece.len;
            if start >= hi {
                break;
            }
        }
    }

    /// What differs from the original, in order.
    pub fn hunks(&self) -> Vec<Hunk> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut at = 0; // in the text
        let mut original = 0;
        let mut pending = String::new();
        let mut rule = None;
        let mut flush = |span: Span, text: &mut String, rule: &mut Option<usize>| {
            if span.is_empty() && text.is_empty() {
                return;
            }
            let by = rule.take().or_else(|| {
                self.touched
                    .iter()
                    .find(|(touched, _)| touched.overlaps(span) || touched.contains(span))
                    .map(|(_, by)| *by)
            });
            let rule = by
                .and_then(|by| self.rules.get(by))
                .cloned()
                .unwrap_or_default();
            hunks.push(Hunk {
                span,
                text: std::mem::take(text),
                rule,
            });
        };
        for piece in &self.pieces {
            match piece.origin {
                // A piece out of order was moved; it counts as inserted.
                Some(origin) if origin >= original => {
                    flush(Span::new(original, origin), &mut pending, &mut rule);
                    original = origin + piece.len;
                }
                _ => {
                    pending.push_str(&self.text[at..at + piece.len]);
                    rule.get_or_insert(piece.rule);
                }
            }
            at += piece.len;
        }
        flush(
            Span::new(original, self.original.len()),
            &mut pending,
            &mut rule,
        );
        hunks
    }
}

fn merge(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces.into_iter().filter(|piece| piece.len > 0) {
        if let Some(last) = out.last_mut() {
            let joins = match (last.origin, piece.origin) {
                (Some(a), Some(b)) => a + last.len == b,
                (None, None) => last.rule == piece.rule,
                _ => false,
            };
            if joins {
                last.len += piece.len;
                continue;
            }
        }
        out.push(piece);
    }
    out
}

/// Words, single marks and runs of blanks.
fn tokens(text: &str) -> Vec<&str> {
    let at = offsets(text);
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn offsets(text: &str) -> Vec<usize> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Word,
        Blank,
        Mark,
    }
    let kind = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            Kind::Word
        } else if c.is_whitespace() {
            Kind::Blank
        } else {
            Kind::Mark
        }
    };
    let mut out = vec![];
    let mut last = None;
    for (at, c) in text.char_indices() {
        let this = kind(c);
        if last != Some(this) || this == Kind::Mark {
            out.push(at);
        }
        last = Some(this);
    }
    out.push(text.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edit(lo: usize, hi: usize, text: &str) -> Edit {
        Edit::new(Span::new(lo, hi), text, "r")
    }

    #[test]
    fn origins_survive_rounds() {
        let mut rope = Rope::new("let a = match b { X => c };");
        rope.apply(&[edit(8, 26, "c")]).unwrap();
        assert_eq!(rope.text(), "let a = c;");
        assert_eq!(rope.exact_origin(8), Some(23));
        assert_eq!(rope.exact_origin(9), Some(26));
        assert_eq!(
            (rope.now(23), rope.now(26), rope.now(9)),
            (Some(8), Some(9), None)
        );
        rope.apply(&[edit(0, 3, "const")]).unwrap();
        assert_eq!(rope.text(), "const a = c;");
        assert!(rope.is_inserted(Span::new(0, 5)));
        assert!(!rope.is_inserted(Span::new(0, 6)));
    }

    #[test]
    fn overlapping_edits_are_refused() {
        let mut rope = Rope::new("abcdef");
        assert!(rope.apply(&[edit(0, 3, "x"), edit(2, 4, "y")]).is_err());
        assert_eq!(rope.text(), "abcdef");
        // Touching is fine.
        rope.apply(&[edit(0, 3, "x"), edit(3, 3, "-"), edit(3, 4, "y")])
            .unwrap();
        assert_eq!(rope.text(), "x-yef");
    }

    proptest! {
        /// Hunks put into the original give the text, and bytes outside of edits stay.
        #[test]
        fn hunks_rebuild_the_text(
            text in "[a-cäß \n{}]{0,60}",
            rounds in proptest::collection::vec(proptest::collection::vec((0usize..70, 0usize..9, "[a-dü ]{0,6}"), 0..4), 1..4),
        ) {
            let mut rope = Rope::new(&text);
            for round in rounds {
                let mut edits: Vec<Edit> = Vec::new();
                let mut naive = rope.text().to_owned();
                for (lo, len, new) in round {
                    let snap = |at: usize| (0..=at.min(rope.text().len())).rev().find(|&at| rope.text().is_char_boundary(at)).unwrap();
                    let (lo, hi) = (snap(lo), snap(lo + len));
                    let span = Span::new(lo, hi);
                    if edits.iter().all(|e| e.span.hi < lo || hi < e.span.lo) {
                        edits.push(Edit::new(span, new, "r"));
                    }
                }
                edits.sort_by_key(|e| e.span.lo);
                for e in edits.iter().rev() {
                    naive.replace_range(e.span.lo..e.span.hi, &e.text);
                }
                rope.apply(&edits).unwrap();
                prop_assert_eq!(rope.text(), naive);
            }
            let mut rebuilt = rope.original().to_owned();
            for hunk in rope.hunks().iter().rev() {
                rebuilt.replace_range(hunk.span.lo..hunk.span.hi, &hunk.text);
            }
            prop_assert_eq!(rebuilt, rope.text());
        }
    }
}
