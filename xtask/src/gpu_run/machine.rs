//! The machine at hand: its GPU, its clock, NVIDIA's tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use super::report::Device;

/// The first GPU, as `nvidia-smi` describes it; None where there is none.
pub fn device() -> Option<Device> {
    let smi = tool("nvidia-smi", &["/usr/local/nvidia/bin", "/usr/lib/wsl/lib"])?;
    let fields = "name,compute_cap,memory.total,driver_version";
    let answer = stdout(
        Command::new(&smi).args([&format!("--query-gpu={fields}"), "--format=csv,noheader"]),
    )?;
    let mut values = answer
        .lines()
        .next()?
        .split(',')
        .map(|value| value.trim().to_owned());
    let mut next = || values.next().filter(|value| !value.is_empty());
    let (name, compute_capability, memory, driver) = (next()?, next()?, next()?, next()?);
    // The table is the one place where it says the CUDA version.
    let table = stdout(&mut Command::new(&smi)).unwrap_or_default();
    Some(Device {
        name,
        compute_capability,
        memory,
        driver,
        cuda: cuda_version(&table).unwrap_or_default(),
    })
}

fn cuda_version(table: &str) -> Option<String> {
    let (_, rest) = table.split_once("CUDA Version:")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// `compute-sanitizer`, from the path or a toolkit.
pub fn compute_sanitizer() -> Option<PathBuf> {
    let toolkit = env::var("CUDA_HOME").unwrap_or_else(|_| "/usr/local/cuda".into());
    tool(
        "compute-sanitizer",
        &[
            &format!("{toolkit}/bin"),
            &format!("{toolkit}/compute-sanitizer"),
        ],
    )
}

/// The Python that `FOXHUNT_PYTHON` names, else `python3` from the path.
pub fn python() -> Option<PathBuf> {
    match env::var_os("FOXHUNT_PYTHON").filter(|set| !set.is_empty()) {
        Some(set) => Some(set.into()),
        None => tool("python3", &[]),
    }
}

fn tool(name: &str, more_folders: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(more_folders.iter().map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    #[cfg(unix)]
    let may_run = |meta: &fs::Metadata| {
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0
    };
    #[cfg(not(unix))]
    let may_run = |_: &fs::Metadata| true;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && may_run(&meta))
}

fn stdout(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The time in UTC, as `2026-11-30T14:42:37Z`.
pub fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    utc(seconds)
}

/// Years of the Gregorian calendar begin in March here, so that the leap day comes last (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let since_era = days + 719_468; // from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_the_calendar_has_them() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_796_049_757), "2026-11-30T14:42:37Z");
        assert_eq!(utc(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_cuda_version_is_found_in_the_table() {
        let table =
            "| NVIDIA-SMI 580.159.03   Driver Version: 580.159.03   CUDA Version: 13.0     |";
        assert_eq!(cuda_version(table).as_deref(), Some("13.0"));
        assert_eq!(cuda_version("no such table"), None);
    }
}
