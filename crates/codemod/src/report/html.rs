//! The report as one page for a reviewer: the tally, the sites that need a person, then every file side by side.
//!
//! The page holds all it needs; it loads nothing, runs no script, and follows the reader's light or dark setting. Text from
//! the tree is escaped, and characters that would change how the rest of a line is read are shown by their number.

mod side_by_side;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Report;
use crate::plan::Change;
use crate::record::{Record, RecordKind};

/// As many files are unfolded at first; a page with hundreds of open tables is slow to draw and hard to find one's way in.
const OPEN_FILES: usize = 20;
const STYLE: &str = include_str!("html.css");

/// The whole page; `title` says what was migrated.
pub fn render(report: &Report<'_>, title: &str) -> String {
    let title = escape(title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    tally(report, &mut page);
    unresolved(report, &mut page);
    list(
        "Deleted",
        "deleted",
        report.of_kind(RecordKind::Deleted),
        &mut page,
    );
    list("Notes", "notes", report.other_notes(), &mut page);
    files(report, &mut page);
    page.push_str("</body>\n</html>\n");
    page
}

fn tally(report: &Report<'_>, page: &mut String) {
    let tally = report.tally();
    let cards = [
        ("", tally.changed, "files changed"),
        ("", tally.deleted, "deleted"),
        (
            if tally.unresolved > 0 { "open" } else { "" },
            tally.unresolved,
            "unresolved",
        ),
        ("", tally.unchanged, "unchanged"),
    ];
    page.push_str("<ul class=\"tally\">\n");
    for (class, n, what) in cards {
        push(
            page,
            format_args!("<li class=\"{class}\"><b>{n}</b> {what}</li>\n"),
        );
    }
    page.push_str("</ul>\n");
}

fn unresolved(report: &Report<'_>, page: &mut String) {
    if report.of_kind(RecordKind::Unresolved).next().is_none() {
        page.push_str("<p>No site is left for a person to decide.</p>\n");
        return;
    }
    page.push_str(
        "<h2 id=\"unresolved\">Unresolved: left as they were, for a person to decide</h2>\n",
    );
    for site in report.of_kind(RecordKind::Unresolved) {
        let (place, rule) = (place(site), escape(&site.rule));
        push(
            page,
            format_args!(
                "<div class=\"site\"><span class=\"rule\">{rule}</span><code class=\"where\">{place}</code>\n"
            ),
        );
        push(page, format_args!("<p>{}</p>\n", prose(&site.reason)));
        if !site.source.is_empty() {
            let span = super::span_in_line(site);
            let (before, marked, after) = (
                &site.source[..span.start],
                &site.source[span.clone()],
                &site.source[span.end..],
            );
            push(
                page,
                format_args!(
                    "<pre>{}<mark>{}</mark>{}</pre>\n",
                    escape(before),
                    escape(marked),
                    escape(after)
                ),
            );
        }
        for note in report.compiler_notes(site) {
            push(
                page,
                format_args!("<p class=\"where\">{}</p>\n", prose(&note.reason)),
            );
        }
        if let Some(suggestion) = &site.suggestion {
            push(
                page,
                format_args!("<p><b>help:</b> {}</p>\n", prose(suggestion)),
            );
        }
        page.push_str("</div>\n");
    }
}

fn list<'a>(heading: &str, id: &str, records: impl Iterator<Item = &'a Record>, page: &mut String) {
    let mut records = records.peekable();
    if records.peek().is_none() {
        return;
    }
    push(
        page,
        format_args!("<h2 id=\"{id}\">{heading}</h2>\n<ul class=\"plain\">\n"),
    );
    for record in records {
        push(
            page,
            format_args!(
                "<li><code>{}</code> {}",
                place(record),
                prose(&record.reason)
            ),
        );
        if let Some(suggestion) = &record.suggestion {
            push(
                page,
                format_args!(" <span class=\"where\">({})</span>", prose(suggestion)),
            );
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ul>\n");
}

fn files(report: &Report<'_>, page: &mut String) {
    if report.changes.is_empty() {
        return;
    }
    let mut n_edits: BTreeMap<&str, usize> = BTreeMap::new();
    for record in report.of_kind(RecordKind::Edit) {
        *n_edits.entry(&record.file).or_default() += 1;
    }
    page.push_str("<h2 id=\"files\">Files</h2>\n");
    let mut n_open = 0;
    for change in report.changes {
        let path = escape(change.path());
        let (before, after, what): (_, &[u8], _) = match change {
            Change::Write {
                before,
                after,
                path,
            } => match n_edits.get(path.as_str()) {
                None => (before, after, String::new()),
                Some(1) => (before, after, "1 edit".to_owned()),
                Some(n) => (before, after, format!("{n} edits")),
            },
            Change::Delete { before, .. } => (before, &[], "deleted".to_owned()),
        };
        let open = matches!(change, Change::Write { .. }) && n_open < OPEN_FILES;
        n_open += usize::from(open);
        let open = if open { " open" } else { "" };
        push(
            page,
            format_args!(
                "<details{open}><summary><code>{path}</code> <span class=\"where\">{what}</span></summary>\n"
            ),
        );
        side_by_side::table(before, after, page);
        page.push_str("</details>\n");
    }
}

fn place(record: &Record) -> String {
    let file = escape(&record.file);
    if record.source.is_empty() {
        file
    } else {
        let now = record.line_after.map_or(String::new(), |line| {
            format!(" (line {line} after the run)")
        });
        format!("{file}:{}:{}{now}", record.line, record.column)
    }
}

/// A sentence of the report, its backticks made code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    let mut parts = text.split('`').peekable();
    let mut in_code = false;
    while let Some(part) = parts.next() {
        match (in_code, parts.peek().is_some()) {
            (true, true) => push(&mut html, format_args!("<code>{}</code>", escape(part))),
            // The backtick that opened this part has no partner.
            (true, false) => push(&mut html, format_args!("`{}", escape(part))),
            (false, _) => html.push_str(&escape(part)),
        }
        in_code = !in_code;
    }
    html
}

/// Text for element content and quoted attributes. Control and bidirectional formatting characters are named, as they would
/// make a line look other than it is.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\t' | '\n' => html.push(character),
            _ if character.is_control() || is_invisible(character) => {
                push(&mut html, format_args!("[U+{:04X}]", u32::from(character)));
            }
            _ => html.push(character),
        }
    }
    html
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn push(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    page.write_fmt(arguments).expect("writing to a string");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::samples;
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn a_page_with_one_of_each() {
        let page = render(&Report::from(&samples::plan()), "migrate: sample");
        let body = page.split_once("</head>").expect("a head").1;
        insta::assert_snapshot!(body);
    }

    #[test]
    fn nothing_is_loaded_and_nothing_runs() {
        let page = render(&Report::from(&samples::plan()), "migrate: sample");
        for forbidden in [
            "<script", "http://", "https://", "url(", "@import", "src=", "href=",
        ] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn text_of_the_tree_cannot_become_markup() {
        let evil = "<script>alert('1')</script>&\"\u{202e}\u{1b}[0m\n";
        let mut record = samples::record(
            RecordKind::Unresolved,
            "a<b>.rs",
            evil,
            "alert",
            "`<i>` and <b>",
        );
        record.suggestion = Some("<img src=x>".to_owned());
        let change = Change::Write {
            path: "a<b>.rs".to_owned(),
            before: evil.into(),
            after: format!("{evil}<x>").into(),
        };
        let plan = Plan {
            changes: vec![change],
            records: vec![record],
            ..Plan::default()
        };
        let page = render(&Report::from(&plan), "</title><script>");
        let body = page.split_once("</head>").expect("a head").1;
        for forbidden in [
            "<script", "<i>", "<img", "<x>", "a<b>", "\u{202e}", "\u{1b}",
        ] {
            assert!(!body.contains(forbidden), "{forbidden}");
        }
        assert!(body.contains("&lt;script&gt;"));
    }

    #[test]
    fn unpaired_backticks_stay_text() {
        assert_eq!(prose("a `b` c `d"), "a <code>b</code> c `d");
        assert_eq!(prose("`"), "`");
    }

    #[test]
    fn five_hundred_files_are_one_page() {
        let before = "fn step(batch: &OldBatch) -> OldBatch { batch.clone() }\n".repeat(400);
        let after = before.replacen("OldBatch", "NewBatch", 300);
        let change = |n| Change::Write {
            path: format!("src/f{n:03}.rs"),
            before: before.clone().into(),
            after: after.clone().into(),
        };
        let plan = Plan {
            changes: (0..500).map(change).collect(),
            ..Plan::default()
        };
        let began = Instant::now();
        let page = render(&Report::from(&plan), "many");
        // An unoptimised build takes two seconds on a laptop; what this guards against is a page that never comes.
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(page.matches("<details").count(), 500);
        assert_eq!(page.matches("<details open>").count(), OPEN_FILES);
        assert_eq!(page.matches("<b>NewBatch</b>").count(), 500 * 300);
    }
}
