//! One table per file: a row for each kernel, a column for each architecture.

use std::collections::BTreeSet;

use crate::Built;
use crate::source::KernelFile;
use crate::usage::{Usage, base_name};

/// Prints the table of `file`. `ran` names the kernels that ran on the CPU, where that is known.
pub fn print(file: &KernelFile, builds: &[Built], ran: Option<&BTreeSet<String>>) {
    let mut rows = vec![header(file, builds, ran.is_some())];
    let entries = entries(file, builds);
    for entry in &entries {
        // Several instances of one template are told apart by what the compiler made of their names.
        let name = base_name(entry);
        let alone = entries
            .iter()
            .filter(|other| base_name(other) == name)
            .count()
            == 1;
        let mut row = vec![if alone { name } else { entry }.to_owned()];
        for build in builds {
            row.push(match &build.outcome {
                Err(_) => "does not compile".to_owned(),
                Ok(usages) => usages.get(entry).map_or_else(|| "-".to_owned(), figures),
            });
        }
        if let Some(ran) = ran {
            row.push(on_the_cpu(file, name, ran));
        }
        rows.push(row);
    }
    print_aligned(&rows);
    let mut warnings: Vec<&String> = builds.iter().flat_map(|build| &build.warnings).collect();
    warnings.dedup();
    for warning in warnings {
        println!("  {warning}");
    }
}

fn header(file: &KernelFile, builds: &[Built], with_cpu: bool) -> Vec<String> {
    let mut row = vec![file.name.clone()];
    row.extend(
        builds
            .iter()
            .map(|build| format!("{} ({:.1} s)", build.arch, build.took.as_secs_f64())),
    );
    if with_cpu {
        row.push("on the CPU".to_owned());
    }
    row
}

/// Entry points in the order of the file; the bare name of a kernel that compiled nowhere.
fn entries(file: &KernelFile, builds: &[Built]) -> Vec<String> {
    let compiled: BTreeSet<&String> = builds.iter().flat_map(Built::entries).collect();
    let mut all = Vec::new();
    for kernel in &file.kernels {
        let before = all.len();
        let instances = compiled
            .iter()
            .filter(|entry| base_name(entry) == kernel.name);
        all.extend(instances.map(|entry| entry.to_string()));
        if all.len() == before {
            all.push(kernel.name.clone());
        }
    }
    all
}

fn figures(usage: &Usage) -> String {
    let mut text = usage.registers.to_string();
    if usage.spills() {
        text.push_str(&format!(
            ", SPILLS {}+{} B",
            usage.spill_store_bytes, usage.spill_load_bytes
        ));
    }
    if usage.stack_bytes > 0 {
        text.push_str(&format!(", {} B local", usage.stack_bytes));
    }
    if usage.shared_bytes > 0 {
        text.push_str(&format!(", {} B shared", usage.shared_bytes));
    }
    text
}

fn on_the_cpu(file: &KernelFile, name: &str, ran: &BTreeSet<String>) -> String {
    if ran.contains(name) {
        return "ran".to_owned();
    }
    let reason = file
        .kernels
        .iter()
        .find(|kernel| kernel.name == name)
        .and_then(|kernel| kernel.not_on_the_cpu.as_deref());
    reason.map_or_else(
        || "DID NOT RUN".to_owned(),
        |reason| format!("excluded: {reason}"),
    )
}

fn print_aligned(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
}
