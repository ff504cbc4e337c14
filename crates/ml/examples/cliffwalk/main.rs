//! Blind Cliffwalk: how many updates uniform, prioritized and oracle replay need. Schaul et al. 2016, figure 1.
//!
//! `cliffwalk [--largest N] [--seeds N] [--most UPDATES] [--network N] [--out DIR]`
//!
//! n states in a row; in each, one of two actions goes on and the other ends the episode with nothing.
//! Going on from the last state gives 1. The memory holds what all 2ⁿ sequences of actions meet, so the
//! one transition with a reward is one of 2ⁿ⁺¹ − 2. Counted are the updates until the mean squared error
//! of all values is below 10⁻³; the median over the seeds is given.
//!
//! First as in the paper (`table`): single updates of a table by what the replay buffer draws, up to `--largest`
//! states. Then (`network`) whole training steps of a small network, 32 transitions each, up to `--network` states.
//! Into DIR go `cliffwalk.json` and, on logarithmic axes as in the paper, `cliffwalk.svg`.

mod network;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};

/// How strongly priorities count, as in the paper's proportional variant.
const ALPHA: f32 = 0.7;

/// Median updates for one number of states; `None` where most seeds did not learn.
struct Row {
    states: usize,
    uniform: Option<usize>,
    prioritized: Option<usize>,
    /// Of the table alone.
    oracle: Option<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let known = ["--largest", "--seeds", "--most", "--network", "--out"];
    let mut given = support::arguments(&known)?;
    let mut take = |name: &str, otherwise: &str| given.remove(name).unwrap_or(otherwise.into());
    let largest: usize = take("--largest", "16").parse()?;
    let seeds: u64 = take("--seeds", "5").parse()?;
    let most: usize = take("--most", "10000000").parse()?;
    let network: usize = take("--network", "12").parse()?;
    let out = PathBuf::from(take("--out", "cliffwalk"));
    std::fs::create_dir_all(&out)?;

    let sizes = || (2..=largest).step_by(2);
    let bar = ProgressBar::new(((sizes().count() + network / 2) as u64) * seeds);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}")?);
    let mut table_rows = Vec::new();
    for states in sizes() {
        bar.set_message(format!("table, {states} states"));
        let (mut uniform, mut prioritized, mut oracle) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..seeds {
            uniform.push(table::replayed(states, 0.0, seed, most)?);
            prioritized.push(table::replayed(states, ALPHA, seed, most)?);
            oracle.push(table::oracle(states, seed, most));
            bar.inc(1);
        }
        table_rows.push(Row {
            states,
            uniform: median(uniform),
            prioritized: median(prioritized),
            oracle: median(oracle),
        });
    }
    bar.suspend(|| print_rows("table, single updates", &table_rows));
    let mut network_rows = Vec::new();
    for states in (2..=network).step_by(2) {
        bar.set_message(format!("network, {states} states"));
        let (mut uniform, mut prioritized) = (Vec::new(), Vec::new());
        for seed in 0..seeds {
            uniform.push(network::updates(states, 0.0, seed, most.min(100_000))?);
            prioritized.push(network::updates(states, ALPHA, seed, most.min(100_000))?);
            bar.inc(1);
        }
        network_rows.push(Row {
            states,
            uniform: median(uniform),
            prioritized: median(prioritized),
            oracle: None,
        });
    }
    bar.finish_and_clear();
    if !network_rows.is_empty() {
        print_rows("network, updates of 32 transitions", &network_rows);
    }
    std::fs::write(
        out.join("cliffwalk.json"),
        format!(
            "{{\n  \"environment\": \"Blind Cliffwalk\",\n  \"seeds\": {seeds},\n  \"table\": [\n{}\n  ],\n  \"network\": [\n{}\n  ]\n}}\n",
            json(&table_rows),
            json(&network_rows)
        ),
    )?;
    std::fs::write(out.join("cliffwalk.svg"), picture(&table_rows))?;
    // The figure's statement: the lead of priorities grows with the memory.
    let factors: Vec<f64> = table_rows.iter().filter_map(factor).collect();
    if factors.len() < table_rows.len() {
        return Err("some number of states was not learned".into());
    }
    if let [first, .., last] = factors[..] {
        println!(
            "figure: cliffwalk, lead of priorities = {last:.1} | {first:.1} at 2 states, {last:.1} at {largest}, {seeds} seeds"
        );
        if last < 3.0 * first {
            return Err(format!("the lead grew from {first:.1} to {last:.1} only").into());
        }
    }
    Ok(())
}

/// One that was not learned counts as more than any that was.
fn median(mut counts: Vec<Option<usize>>) -> Option<usize> {
    counts.sort_by_key(|count| count.unwrap_or(usize::MAX));
    counts.get(counts.len() / 2).copied().flatten()
}

/// How many times the updates of prioritized replay uniform replay needs.
fn factor(row: &Row) -> Option<f64> {
    Some(row.uniform? as f64 / row.prioritized? as f64)
}

fn transitions(states: usize) -> usize {
    (2 << states) - 2
}

fn print_rows(title: &str, rows: &[Row]) {
    println!("{title}\nstates  transitions   uniform  prioritized  oracle  factor");
    let text = |count: Option<usize>| count.map_or("-".to_owned(), |count| count.to_string());
    for row in rows {
        println!(
            "{:6}  {:11}  {:>8}  {:>11}  {:>6}  {:>6}",
            row.states,
            transitions(row.states),
            text(row.uniform),
            text(row.prioritized),
            text(row.oracle),
            factor(row).map_or("-".to_owned(), |factor| format!("{factor:.1}"))
        );
    }
}

fn json(rows: &[Row]) -> String {
    let number = |count: Option<usize>| count.map_or("null".into(), |count| count.to_string());
    let rows = rows.iter().map(|row| {
        format!(
            "    {{ \"states\": {}, \"transitions\": {}, \"uniform\": {}, \"prioritized\": {}, \"oracle\": {} }}",
            row.states,
            transitions(row.states),
            number(row.uniform),
            number(row.prioritized),
            number(row.oracle)
        )
    });
    rows.collect::<Vec<_>>().join(",\n")
}

/// Transitions in the memory to the right, updates upwards, both logarithmic.
fn picture(rows: &[Row]) -> String {
    let (left, right, top, bottom) = (60.0, 560.0, 20.0, 330.0);
    let most = rows.last().map_or(2, |row| transitions(row.states)) as f64;
    let x = |count: f64| left + (right - left) * count.log10() / most.log10();
    let y = |updates: f64| bottom - (bottom - top) * updates.log10() / 7.0;
    let mut svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"380\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        .to_owned();
    for power in 0..=7 {
        let at = y(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n<text x=\"8\" y=\"{:.1}\">10^{power}</text>",
            at + 4.0
        );
    }
    type Of = fn(&Row) -> Option<usize>;
    let lines: [(&str, &str, Of); 3] = [
        ("uniform", "#000", |row| row.uniform),
        ("prioritized", "#0072b2", |row| row.prioritized),
        ("oracle", "#009e73", |row| row.oracle),
    ];
    for (at, (name, colour, of)) in lines.into_iter().enumerate() {
        let points: Vec<String> = rows
            .iter()
            .filter_map(|row| {
                let place = x(transitions(row.states) as f64);
                Some(format!("{place:.1},{:.1}", y(of(row)? as f64)))
            })
            .collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n<text x=\"580\" y=\"{}\" fill=\"{colour}\">{name}</text>",
            points.join(" "),
            30 + 16 * at
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"368\">Blind Cliffwalk: updates until learned, by transitions in the memory (to {most:.0})</text>\n</svg>"
    );
    svg
}
