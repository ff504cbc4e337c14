//! The table "Side by side": each measured phase beside its floor and beside what others take for the same work.
//!
//! It is made from figures alone, by their names: `PHASE [N] [x B] [PRECISION] [p99] by WHO`, as
//! `per_scan 24.7M x 16384 by foxhunt` or `learn x 16384 bf16 by JAX`. A figure that leaves a size out stands for all of
//! them. Of `floor` are the rates from which the floors are reckoned: `copy 24.7M by floor = 3450 GB/s` and
//! `product 8192x8192x8192 bf16 by floor = 780 TFLOP/s`; the largest of the run counts.

mod floor;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::report::{Figure, ProgramRun};
use floor::Rates;

/// Who is compared with all others.
const OURS: &str = "foxhunt";
const FLOOR: &str = "floor";
/// Known phases in the order of a step; what is not named here comes behind.
const PHASES: &[&str] = &[
    "per_scan",
    "per_sample",
    "per_update",
    "per",
    "per_without_update",
    "per_rebuild",
    "per_scan_in_step",
    "per_sample_in_step",
    "upload",
    "fwd_bwd",
    "adam",
    "per_update_in_step",
    "learn",
    "step",
    "step_by_parts",
];
const PRECISIONS: &[&str] = &["bf16", "tf32", "fp32"];

/// A number of slots, with the name that the figure gave it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    number: u64,
    name: String,
}

/// What a figure is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    phase: String,
    slots: Option<Size>,
    batch: Option<u64>,
    precision: Option<String>,
    p99: bool,
    who: String,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    rank: usize,
    phase: String,
    precision: Option<(usize, String)>,
    slots: Option<Size>,
    /// The larger batch first: it is the usual one.
    batch: Option<Reverse<u64>>,
}

/// All of it, from the figures of the benches; None where there is nothing to compare.
pub fn render(bench: &[ProgramRun]) -> Option<String> {
    let figures: Vec<&Figure> = bench.iter().flat_map(|run| &run.figures).collect();
    let rates = rates(&figures);
    let times: Vec<(Subject, f64)> = figures
        .iter()
        .filter_map(|figure| Some((subject(&figure.name)?, microseconds(figure)?)))
        .filter(|(subject, _)| subject.who != FLOOR)
        .collect();
    let ours = |subject: &Subject| subject.who == OURS;
    if !times.iter().any(|(subject, _)| ours(subject)) {
        return None;
    }
    let others: BTreeSet<&str> = times
        .iter()
        .filter(|(subject, _)| !ours(subject))
        .map(|(subject, _)| subject.who.as_str())
        .collect();
    let rows = rows(&times);

    let mut table = vec![headings(&others)];
    for row in &rows {
        let find = |who: &str, p99: bool| {
            let mut found = times.iter().filter(|(subject, _)| {
                subject.who == who && subject.p99 == p99 && row.is_of(subject)
            });
            found.next().map(|(_, time)| *time)
        };
        let median = find(OURS, false);
        let floor = floor::floor(
            &row.phase,
            row.slots.as_ref().map(|size| size.number),
            row.batch.map(|Reverse(batch)| batch),
            row.precision.as_ref().map(|(_, name)| name.as_str()),
            &rates,
        );
        let share = floor
            .zip(median)
            .map(|(floor, median)| format!("{:.0} %", 100.0 * floor / median));
        let mut cells = row.name_cells();
        cells.extend([
            time_cell(median),
            time_cell(find(OURS, true)),
            time_cell(floor),
            share.unwrap_or_default(),
        ]);
        for who in &others {
            cells.push(match (find(who, false), median) {
                (Some(theirs), Some(ours)) => {
                    format!("{} ({:.1}×)", time(theirs), theirs / ours)
                }
                (theirs, _) => time_cell(theirs),
            });
        }
        table.push(cells);
    }
    let mut out =
        String::from("Microseconds, or as it says; in brackets, how many times as long as ours.\n");
    out.push_str(&rates.sentence());
    out.push('\n');
    grid(&mut out, &table);
    let growth = growth(&rows, &times);
    if growth.len() > 1 {
        out.push_str("\nHow the cost grows, at the largest of the other size:\n\n");
        grid(&mut out, &growth);
    }
    Some(out)
}

fn headings(others: &BTreeSet<&str>) -> Vec<String> {
    let own = [
        "phase",
        "N",
        "B",
        "precision",
        "median",
        "p99",
        "floor",
        "of it",
    ];
    own.iter()
        .chain(others)
        .map(|name| name.to_string())
        .collect()
}

/// Those of ours, and those of others for which we have none.
fn rows(times: &[(Subject, f64)]) -> BTreeSet<Row> {
    let of = |ours: bool| {
        let subjects = times.iter().map(|(subject, _)| subject);
        subjects.filter(move |subject| (subject.who == OURS) == ours && !subject.p99)
    };
    let mut rows: BTreeSet<Row> = of(true).map(Row::of).collect();
    for subject in of(false) {
        if !rows.iter().any(|row| row.is_of(subject)) {
            rows.insert(Row::of(subject));
        }
    }
    rows
}

impl Row {
    fn of(subject: &Subject) -> Self {
        let rank = |names: &[&str], name: &str| {
            let place = names.iter().position(|known| *known == name);
            place.unwrap_or(names.len())
        };
        let precision = subject.precision.clone();
        Self {
            rank: rank(PHASES, &subject.phase),
            phase: subject.phase.clone(),
            precision: precision.map(|name| (rank(PRECISIONS, &name), name)),
            slots: subject.slots.clone(),
            batch: subject.batch.map(Reverse),
        }
    }

    /// A size that the subject leaves out is any size.
    fn is_of(&self, subject: &Subject) -> bool {
        let same_slots = subject.slots.is_none() || subject.slots == self.slots;
        let same_batch = subject.batch.is_none() || subject.batch.map(Reverse) == self.batch;
        let precision = self.precision.as_ref().map(|(_, name)| name);
        subject.phase == self.phase
            && same_slots
            && same_batch
            && subject.precision.as_ref() == precision
    }

    fn name_cells(&self) -> Vec<String> {
        vec![
            self.phase.clone(),
            self.slots
                .as_ref()
                .map_or(String::new(), |size| size.name.clone()),
            self.batch
                .map_or(String::new(), |Reverse(batch)| batch.to_string()),
            self.precision
                .as_ref()
                .map_or(String::new(), |(_, name)| name.clone()),
        ]
    }
}

/// Ours by phase and precision: over the sizes of the buffer, and over those of the batch.
fn growth(rows: &BTreeSet<Row>, times: &[(Subject, f64)]) -> Vec<Vec<String>> {
    let mut table = vec![
        ["phase", "precision", "with N", "with B"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut by_phase: BTreeMap<_, Vec<(&Size, u64, f64)>> = BTreeMap::new();
    for row in rows {
        let ours = times
            .iter()
            .find(|(subject, _)| subject.who == OURS && !subject.p99 && row.is_of(subject));
        let (Some(size), Some(Reverse(batch)), Some((_, time))) = (&row.slots, row.batch, ours)
        else {
            continue;
        };
        let key = (row.rank, row.phase.as_str(), row.precision.clone());
        by_phase.entry(key).or_default().push((size, batch, *time));
    }
    for ((_, phase, precision), mut measured) in by_phase {
        measured.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let largest_batch = measured.iter().map(|(_, batch, _)| *batch).max();
        let largest = measured.iter().map(|(size, _, _)| *size).max();
        let over_slots = measured
            .iter()
            .filter(|(_, batch, _)| Some(*batch) == largest_batch)
            .map(|(size, _, time)| (size.name.clone(), *time))
            .collect::<Vec<_>>();
        let over_batches = measured
            .iter()
            .filter(|(size, _, _)| Some(*size) == largest)
            .map(|(_, batch, time)| (batch.to_string(), *time))
            .collect::<Vec<_>>();
        let cells = [series(&over_slots), series(&over_batches)];
        if cells.iter().any(|cell| !cell.is_empty()) {
            let precision = precision.map_or(String::new(), |(_, name)| name);
            table.push([vec![phase.to_owned(), precision], cells.to_vec()].concat());
        }
    }
    table
}

/// `1M: 9.1, 24.7M: 10.4 (1.1×)`; nothing where there is but one.
fn series(points: &[(String, f64)]) -> String {
    let [(_, first), .., (_, last)] = points else {
        return String::new();
    };
    let points: Vec<String> = points
        .iter()
        .map(|(size, value)| format!("{size}: {}", time(*value)))
        .collect();
    format!("{} ({:.1}×)", points.join(", "), last / first)
}

fn rates(figures: &[&Figure]) -> Rates {
    let mut rates = Rates::default();
    for figure in figures {
        let Some(subject) = subject(&figure.name).filter(|subject| subject.who == FLOOR) else {
            continue;
        };
        match (
            subject.phase.as_str(),
            subject.precision,
            figure.unit.as_str(),
        ) {
            ("copy", _, "GB/s") => rates.saw_copy(figure.value),
            ("product", Some(precision), "TFLOP/s") => rates.saw_product(&precision, figure.value),
            _ => {}
        }
    }
    rates
}

/// Reads a figure's name; None where it has another form.
fn subject(name: &str) -> Option<Subject> {
    let (what, who) = name.split_once(" by ")?;
    let mut words = what.split_whitespace().peekable();
    let mut subject = Subject {
        phase: words.next()?.to_owned(),
        slots: None,
        batch: None,
        precision: None,
        p99: false,
        who: who.trim().to_owned(),
    };
    while let Some(word) = words.next() {
        if word == "x" {
            subject.batch = Some(words.next()?.parse().ok()?);
        } else if word == "p99" {
            subject.p99 = true;
        } else if PRECISIONS.contains(&word) {
            subject.precision = Some(word.to_owned());
        } else if subject.phase != "product" {
            subject.slots = Some(size(word)?);
        }
    }
    Some(subject)
}

/// `24.7M`, or a plain number.
fn size(word: &str) -> Option<Size> {
    let number = match word.strip_suffix('M') {
        Some(millions) => (millions.parse::<f64>().ok()? * 1e6).round() as u64,
        None => word.parse().ok()?,
    };
    Some(Size {
        number,
        name: word.to_owned(),
    })
}

fn microseconds(figure: &Figure) -> Option<f64> {
    let factor = match figure.unit.as_str() {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(figure.value * factor)
}

/// Three digits that count, as many as a time is known to.
fn time(microseconds: f64) -> String {
    if microseconds >= 1e5 {
        return format!("{:.2} s", microseconds / 1e6);
    }
    let digits = match microseconds.abs() {
        t if t < 1.0 => 2,
        t if t < 100.0 => 1,
        _ => 0,
    };
    format!("{microseconds:.digits$}")
}

fn time_cell(microseconds: Option<f64>) -> String {
    microseconds.map_or(String::new(), time)
}

/// A table of Markdown whose columns are also aligned as plain text: the console shows it as it is.
fn grid(out: &mut String, table: &[Vec<String>]) {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    // A heading in words stands over words.
    let words = ["phase", "precision", "with N", "with B"];
    let is_number = |column: usize| !words.contains(&table[0][column].as_str());
    for (index, row) in table.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| match is_number(column) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        if index == 0 {
            let lines: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| match is_number(column) {
                    true => format!("{}:", "-".repeat(width - 1)),
                    false => "-".repeat(*width),
                })
                .collect();
            let _ = writeln!(out, "| {} |", lines.join(" | "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome;
    use super::*;

    /// Made up: round numbers, not measured ones.
    fn fixture() -> Vec<ProgramRun> {
        let run = |program: &str, lines: &str| ProgramRun {
            program: program.into(),
            with: String::new(),
            outcome: Outcome::Ok,
            seconds: 1.0,
            note: None,
            tests: vec![],
            figures: lines
                .lines()
                .map(|line| super::super::test_lines::figure(line.trim()).unwrap())
                .collect(),
            output: vec![],
        };
        vec![
            run(
                "ml-dqn/bench/per",
                "figure: per_scan 1M x 16384 by foxhunt = 10 us
                 figure: per_scan 24.7M x 16384 by foxhunt = 20 us | made up
                 figure: per_scan 24.7M x 16384 p99 by foxhunt = 22.25 us
                 figure: per_scan 24.7M x 512 by foxhunt = 5 us
                 figure: per 24.7M x 16384 by foxhunt = 50 us
                 figure: per_rebuild 24.7M by foxhunt = 100 us
                 figure: speed = 3 GB/s",
            ),
            run(
                "ml/bench/step",
                "figure: fwd_bwd 24.7M x 16384 fp32 by foxhunt = 3000 us
                 figure: fwd_bwd 24.7M x 16384 bf16 by foxhunt = 100 us
                 figure: learn 24.7M x 16384 bf16 by foxhunt = 200 us
                 figure: learn 24.7M x 16384 bf16 p99 by foxhunt = 210 us
                 figure: first_step_cold 16384 x 16384 bf16 by foxhunt = 2.5 s",
            ),
            run(
                "peer/floors",
                "figure: copy 1M by floor = 3000 GB/s
                 figure: copy 100M by floor = 4000 GB/s
                 figure: product 16384x384x384 bf16 by floor = 500 TFLOP/s
                 figure: product 8192x8192x8192 bf16 by floor = 800 TFLOP/s",
            ),
            run(
                "peer/others",
                "figure: per_scan 24.7M by CUB = 80 us
                 figure: per 24.7M x 16384 by flashbax = 1.5 ms
                 figure: learn x 16384 bf16 by JAX = 500 us
                 figure: learn x 16384 bf16 by torch compiled = 600 us
                 figure: per 4M x 16384 by cpprb = 35000 us",
            ),
        ]
    }

    #[test]
    fn the_table_of_a_made_up_run() {
        insta::assert_snapshot!(render(&fixture()).unwrap());
    }

    #[test]
    fn without_figures_there_is_no_table() {
        assert_eq!(render(&[]), None);
        assert_eq!(render(&fixture()[2..]), None);
    }

    #[test]
    fn names_of_another_form_are_left_out() {
        assert_eq!(subject("per_sample"), None);
        assert_eq!(subject("speed of light by torch"), None);
        let read = subject("fwd_bwd 24.7M x 512 tf32 p99 by torch compiled").unwrap();
        assert_eq!(read.slots.unwrap().number, 24_700_000);
        assert_eq!(
            (read.batch, read.precision.as_deref(), read.p99),
            (Some(512), Some("tf32"), true)
        );
        assert_eq!(read.who, "torch compiled");
    }
}
