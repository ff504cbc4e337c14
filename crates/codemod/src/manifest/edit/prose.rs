//! What a comment speaks of.

use std::collections::BTreeSet;

/// An entry among its neighbours, as a comment may name it.
#[derive(Debug)]
pub(super) struct Subject {
    name: String,
    /// Words of the name that no neighbour has, lower case.
    own_words: BTreeSet<String>,
    /// Names of the neighbours.
    others: Vec<String>,
    /// Words of the neighbours' names that this one does not have, lower case.
    other_words: BTreeSet<String>,
}

/// Words that say that more than one entry is meant.
const MANY: [&str; 9] = [
    "these",
    "those",
    "all",
    "below",
    "following",
    "each",
    "both",
    "every",
    "rest",
];

impl Subject {
    /// `all` are the names of all entries of the list, this one among them.
    pub(super) fn new<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Self {
        let others: Vec<String> = all
            .filter(|other| *other != name)
            .map(str::to_owned)
            .collect();
        let own = words(name);
        let theirs: BTreeSet<String> = others.iter().flat_map(|other| words(other)).collect();
        Self {
            name: name.to_owned(),
            own_words: own.difference(&theirs).cloned().collect(),
            other_words: theirs.difference(&own).cloned().collect(),
            others,
        }
    }

    /// The comment names this entry, in full or by a word of its name, and no other one.
    pub(super) fn is_named_in(&self, comment: &str) -> bool {
        let said = words(comment);
        let names_it = names(comment, &self.name) || !said.is_disjoint(&self.own_words);
        names_it && !self.is_about_others(comment)
    }

    /// The comment names another entry, or says that it means several.
    pub(super) fn is_about_others(&self, comment: &str) -> bool {
        let said = words(comment);
        self.others.iter().any(|other| names(comment, other))
            || !said.is_disjoint(&self.other_words)
            || MANY.iter().any(|word| said.contains(*word))
    }

    pub(super) fn has_neighbours(&self) -> bool {
        !self.others.is_empty()
    }
}

/// Says whether `name` stands in the comment on its own, not as a part of a longer name.
fn names(comment: &str, name: &str) -> bool {
    let goes_on =
        |character: char| character.is_alphanumeric() || character == '_' || character == '-';
    let mut found = comment.match_indices(name);
    found.any(|(at, _)| {
        !comment[..at].ends_with(goes_on) && !comment[at + name.len()..].starts_with(goes_on)
    })
}

/// The comment draws a line: `# --- tests ---`, `#########`.
pub(super) fn is_banner(comment: &str) -> bool {
    comment.lines().any(|line| {
        ["---", "===", "***", "###", "~~~", "───", "═══"]
            .iter()
            .any(|rule| line.contains(rule))
    })
}

/// The words of a text in lower case: runs of letters and digits of three characters or more, but for those that any
/// target's name or path may hold.
fn words(text: &str) -> BTreeSet<String> {
    const COMMON: [&str; 13] = [
        "test", "tests", "bench", "benches", "example", "examples", "bin", "src", "the", "and",
        "for", "mod", "main",
    ];
    let split = text
        .split(|character: char| !character.is_alphanumeric())
        .map(str::to_lowercase);
    split
        .filter(|word| word.chars().count() >= 3 && !COMMON.contains(&word.as_str()))
        .collect()
}
