//! What the assembler says of each kernel, read from its log.
//!
//! With `--ptxas-options=-v` NVRTC's log of a successful compilation holds, per entry point,
//!
//! ```text
//! ptxas info    : Compiling entry function 'per_sample' for 'sm_90a'
//! ptxas info    : Function properties for per_sample
//! ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//! ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
//! ```

use std::collections::BTreeMap;

/// The cost of a kernel on one architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Per thread.
    pub registers: u32,
    /// Local memory per thread, for arrays that are indexed at run time and for spills.
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    /// Static shared memory per block.
    pub shared_bytes: u32,
}

impl Usage {
    pub fn spills(&self) -> bool {
        self.spill_store_bytes > 0 || self.spill_load_bytes > 0
    }
}

/// Per entry point, by the name in the machine code.
pub fn parse(log: &str) -> BTreeMap<String, Usage> {
    let mut found: BTreeMap<String, Usage> = BTreeMap::new();
    let mut entry: Option<&str> = None;
    // Device functions that are not inlined have properties of their own, which are not the kernel's.
    let mut properties_of = "";
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next();
            if let Some(name) = entry {
                found.insert(name.to_owned(), Usage::default());
            }
        }
        if let Some((_, name)) = line.split_once("Function properties for ") {
            properties_of = name.trim();
        }
        let Some(usage) = entry.and_then(|name| found.get_mut(name)) else {
            continue;
        };
        if line.contains("bytes stack frame") && entry == Some(properties_of) {
            usage.stack_bytes = number_before(line, " bytes stack frame");
            usage.spill_store_bytes = number_before(line, " bytes spill stores");
            usage.spill_load_bytes = number_before(line, " bytes spill loads");
        }
        if line.contains("Used ") && line.contains(" registers") {
            usage.registers = number_before(line, " registers");
            usage.shared_bytes = number_before(line, " bytes smem");
        }
    }
    found
}

/// The lines of the log that are not the assembler's figures.
pub fn warnings(log: &str) -> Vec<String> {
    let figures =
        |line: &&str| !line.starts_with("ptxas info") && !line.starts_with("ptxas         .");
    log.lines()
        .filter(figures)
        .filter(|line| !line.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

/// The name in the source of an entry point: `gather` of `_Z6gatherIfLi4EEvPKfPf`.
pub fn base_name(entry: &str) -> &str {
    let Some(mangled) = entry.strip_prefix("_Z") else {
        return entry;
    };
    let digits = mangled.len()
        - mangled
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    let length: usize = mangled[..digits].parse().unwrap_or(0);
    mangled
        .get(digits..digits + length)
        .filter(|name| !name.is_empty())
        .unwrap_or(entry)
}

fn number_before(line: &str, unit: &str) -> u32 {
    let Some((before, _)) = line.split_once(unit) else {
        return 0;
    };
    let start = before
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |i| i + 1);
    before[start..].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 13.0.88 writes it.
    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1cILi3EEvPf' for 'sm_90a'
ptxas info    : Function properties for _Z1cILi3EEvPf
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 2.561 ms
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for helper
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for b
ptxas         .     400 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 400 bytes cumulative stack size, 1024 bytes smem
k.cu(3): warning #177-D: variable \"x\" was declared but never referenced
";

    #[test]
    fn figures_are_read_per_kernel() {
        let found = parse(LOG);
        assert_eq!(found.len(), 2);
        let b = Usage {
            registers: 64,
            stack_bytes: 400,
            spill_store_bytes: 16,
            spill_load_bytes: 24,
            shared_bytes: 1024,
        };
        assert_eq!(found["b"], b);
        assert!(b.spills());
        assert_eq!(
            found["_Z1cILi3EEvPf"],
            Usage {
                registers: 8,
                ..Usage::default()
            }
        );
    }

    #[test]
    fn what_is_no_figure_is_a_warning() {
        let found = warnings(LOG);
        assert_eq!(
            found,
            ["k.cu(3): warning #177-D: variable \"x\" was declared but never referenced"]
        );
    }

    #[test]
    fn mangled_names_are_read() {
        assert_eq!(base_name("_Z6gatherIfLi4EEvPKfPf"), "gather");
        assert_eq!(base_name("per_sample"), "per_sample");
        assert_eq!(base_name("_Z"), "_Z");
        assert_eq!(base_name("_Z99short"), "_Z99short");
    }
}
