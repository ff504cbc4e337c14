//! What compute-sanitizer found, and whether it is ours.

/// One line of its output that says so.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// An error with the kernel that it is in.
    In(String),
    /// An error that names no kernel.
    Unnamed,
    /// How many the tool says it found in all.
    Total(usize),
}

/// `========= Error: Race reported between Read access at KERNEL+0x…`, `========= RACECHECK SUMMARY: 38 hazards displayed …`.
/// A test's own line may stand before it.
pub fn of_line(line: &str) -> Option<Finding> {
    let (_, said) = line.split_once("========= ")?;
    if let Some(error) = said.strip_prefix("Error: ") {
        let kernel = error
            .rsplit_once(" at ")
            .map(|(_, place)| place.split_once("+0x").map_or(place, |(kernel, _)| kernel));
        return Some(kernel.map_or(Finding::Unnamed, |kernel| {
            Finding::In(kernel.trim().to_owned())
        }));
    }
    if said.starts_with("Internal Sanitizer Error") || said.starts_with("Invalid ") {
        return Some(Finding::Unnamed);
    }
    let (_, total) = said.split_once("SUMMARY: ")?;
    let number = total.split(' ').next()?;
    number.parse().ok().map(Finding::Total)
}

/// The number of findings, if every one names a kernel that begins with one of `prefixes`, and they are all that the tool counted.
pub fn only_in(prefixes: &[String], findings: &[Finding]) -> Option<usize> {
    let mut in_libraries = 0;
    let mut total = None;
    for finding in findings {
        match finding {
            Finding::In(kernel) if prefixes.iter().any(|p| kernel.starts_with(p.as_str())) => {
                in_libraries += 1;
            }
            Finding::In(_) | Finding::Unnamed => return None,
            Finding::Total(count) => total = Some(*count),
        }
    }
    (in_libraries > 0 && total == Some(in_libraries)).then_some(in_libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACE: &str = "test the_step ... ========= Error: Race reported between Read access at nvjet_sm90_tst_192x160_TNT+0x9c0";

    fn read(lines: &[&str]) -> Vec<Finding> {
        lines.iter().filter_map(|line| of_line(line)).collect()
    }

    #[test]
    fn a_library_is_forgiven_when_nothing_else_was_found() {
        let prefixes = ["nvjet_".to_owned()];
        let summary = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)";
        let access =
            "=========     and Write access at nvjet_sm90_tst_192x160_TNT+0x61c0 [1416 hazards]";
        assert_eq!(only_in(&prefixes, &read(&[RACE, access, summary])), Some(1));
        assert_eq!(only_in(&[], &read(&[RACE, summary])), None);
        let ours = RACE.replace("nvjet_sm90_tst_192x160_TNT", "fused_step");
        let two = summary.replace("1 hazard", "2 hazards");
        assert_eq!(only_in(&prefixes, &read(&[RACE, &ours, &two])), None);
        // More than was shown.
        assert_eq!(only_in(&prefixes, &read(&[RACE, &two])), None);
        // Cut off before its summary, or broken.
        assert_eq!(only_in(&prefixes, &read(&[RACE])), None);
        let broken = "========= Internal Sanitizer Error: The Sanitizer failed to handle a hardware exception.";
        assert_eq!(only_in(&prefixes, &read(&[RACE, broken, summary])), None);
        let invalid = "========= Invalid __global__ read of size 4 bytes";
        assert_eq!(only_in(&prefixes, &read(&[RACE, invalid, summary])), None);
        assert_eq!(
            only_in(&prefixes, &read(&["========= ERROR SUMMARY: 0 errors"])),
            None
        );
    }
}
