//! Compiles every `kernels/*.cu` with NVRTC for every architecture that the file names, without a GPU, and prints
//! registers, spills and shared memory per kernel; beside them, whether the kernel ran on the CPU.
//!
//! `cargo xtask kernel-check` finds or installs NVRTC and then runs this. It is a package of its own because it needs
//! `ml-cuda`, which `xtask` must not: everyone who migrates a branch waits for `xtask` to build.

#![forbid(unsafe_code)]

mod source;
mod table;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::Parser;
use ml_cuda::kernels::{KernelSource, compile, compiler_version};

use source::KernelFile;
use usage::Usage;

/// Compiles every kernel for every architecture that its file names, without a GPU.
#[derive(Debug, Parser)]
struct Args {
    /// Folder of the `.cu` files.
    #[arg(long, value_name = "DIR", default_value = "kernels")]
    kernels: PathBuf,
    /// Architectures to compile for, instead of those that each file names.
    #[arg(long, value_name = "ARCH")]
    arch: Vec<String>,
    /// Names of the kernels that ran on the CPU, one a line (what `CUDA_ON_CPU_LOG` collects). With it, a kernel that
    /// neither ran nor says why is a failure.
    #[arg(long, value_name = "FILE")]
    ran: Option<PathBuf>,
    /// Fails where a kernel spills registers to memory.
    #[arg(long)]
    deny_spills: bool,
}

/// One file for one architecture.
#[derive(Debug)]
struct Built {
    arch: String,
    took: Duration,
    /// Per entry point, or what the compiler said.
    outcome: Result<BTreeMap<String, Usage>, String>,
    warnings: Vec<String>,
}

impl Built {
    fn entries(&self) -> impl Iterator<Item = &String> {
        self.outcome.iter().flat_map(BTreeMap::keys)
    }
}

fn main() -> ExitCode {
    match check(&Args::parse()) {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            for complaint in complaints {
                eprintln!("error: {complaint}");
            }
            ExitCode::from(1)
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(3)
        }
    }
}

/// Prints the tables; gives back what is wrong with the kernels.
fn check(args: &Args) -> Result<Vec<String>, String> {
    let (major, minor) = compiler_version().map_err(|error| error.to_string())?;
    let headers = headers(&args.kernels)
        .map_err(|e| format!("cannot read `{}`: {e}", args.kernels.display()))?;
    let mut files = kernel_files(&args.kernels)
        .map_err(|e| format!("cannot read `{}`: {e}", args.kernels.display()))?;
    if files.is_empty() {
        return Err(format!("no `.cu` file in `{}`", args.kernels.display()));
    }
    let ran = match &args.ran {
        Some(path) => Some(names_that_ran(path)?),
        None => None,
    };
    let started = Instant::now();
    let built = build_all(&files, headers, &args.arch);

    for (file, builds) in files.iter_mut().zip(&built) {
        for entry in builds.iter().flat_map(Built::entries) {
            file.add_compiled(usage::base_name(entry));
        }
    }

    println!(
        "NVRTC {major}.{minor}, no GPU needed; registers per thread, then what does not fit into them"
    );
    let mut complaints = Vec::new();
    for (file, builds) in files.iter().zip(&built) {
        println!();
        table::print(file, builds, ran.as_ref());
        complaints.extend(complaints_about(
            file,
            builds,
            ran.as_ref(),
            args.deny_spills,
        ));
    }
    let kernels: usize = files.iter().map(|file| file.kernels.len()).sum();
    let compilations: Vec<&Built> = built.iter().flatten().collect();
    let usages = compilations
        .iter()
        .flat_map(|built| built.outcome.iter().flat_map(BTreeMap::values));
    println!(
        "\n{kernels} kernels in {} files, {} compilations in {:.1} s; {} of the kernels' builds spill",
        files.len(),
        compilations.len(),
        started.elapsed().as_secs_f64(),
        usages.filter(|usage| usage.spills()).count()
    );
    Ok(complaints)
}

fn complaints_about(
    file: &KernelFile,
    builds: &[Built],
    ran: Option<&BTreeSet<String>>,
    deny_spills: bool,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for build in builds {
        match &build.outcome {
            Err(log) => complaints.push(format!(
                "{} does not compile for {}:\n{log}",
                file.name, build.arch
            )),
            Ok(entries) => {
                for kernel in &file.kernels {
                    if !entries
                        .keys()
                        .any(|entry| usage::base_name(entry) == kernel.name)
                    {
                        complaints.push(format!(
                            "{}:{}: kernel `{}` is not in the machine code for {}; a template needs an explicit instantiation",
                            file.name, kernel.line, kernel.name, build.arch
                        ));
                    }
                }
                for (entry, usage) in entries {
                    if deny_spills && usage.spills() {
                        let (stores, loads) = (usage.spill_store_bytes, usage.spill_load_bytes);
                        complaints.push(format!(
                            "{}: kernel `{entry}` spills for {}: {stores} bytes stored, {loads} bytes loaded",
                            file.name, build.arch
                        ));
                    }
                }
            }
        }
    }
    if let Some(ran) = ran {
        for kernel in &file.kernels {
            match (&kernel.not_on_the_cpu, ran.contains(&kernel.name)) {
                (None, false) => complaints.push(format!(
                    "{}:{}: kernel `{}` did not run on the CPU and does not say why; test it through \
                     tests/cuda_on_cpu, or write `// Not on the CPU: <reason>` above it",
                    file.name, kernel.line, kernel.name
                )),
                (Some(reason), true) => complaints.push(format!(
                    "{}:{}: kernel `{}` ran on the CPU, though its comment says that it cannot ({reason})",
                    file.name, kernel.line, kernel.name
                )),
                _ => {}
            }
        }
    }
    complaints
}

fn kernel_files(folder: &Path) -> io::Result<Vec<KernelFile>> {
    let mut files = Vec::new();
    for (name, text) in texts(folder, "cu")? {
        files.push(KernelFile::parse(name, text));
    }
    Ok(files)
}

/// Headers by the name under which kernels include them. They live as long as the program, as the compiler asks.
fn headers(folder: &Path) -> io::Result<&'static [(&'static str, &'static str)]> {
    let texts = texts(folder, "cuh")?;
    let leaked: Vec<(&'static str, &'static str)> =
        texts.into_iter().map(|(n, t)| (leak(n), leak(t))).collect();
    Ok(Box::leak(leaked.into_boxed_slice()))
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// File names and contents, sorted.
fn texts(folder: &Path, extension: &str) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            found.push((name, fs::read_to_string(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

fn names_that_ran(path: &Path) -> Result<BTreeSet<String>, String> {
    let text =
        fs::read_to_string(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
    Ok(text
        .lines()
        .map(|line| source::launched_name(line).to_owned())
        .collect())
}

/// Compiles on all cores; results in the order of the files and their architectures.
fn build_all(
    files: &[KernelFile],
    headers: &'static [(&'static str, &'static str)],
    asked_for: &[String],
) -> Vec<Vec<Built>> {
    let jobs: Vec<(usize, String)> = files
        .iter()
        .enumerate()
        .flat_map(|(i, file)| {
            let archs = if asked_for.is_empty() {
                file.architectures.clone()
            } else {
                asked_for.to_vec()
            };
            archs.into_iter().map(move |arch| (i, arch))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Built)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism()
            .map_or(1, usize::from)
            .min(jobs.len())
        {
            scope.spawn(|| {
                while let Some((file, arch)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let built = build(&files[*file], headers, arch);
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((*file, built));
                }
            });
        }
    });
    let mut per_file: Vec<Vec<Built>> = files.iter().map(|_| Vec::new()).collect();
    for (file, built) in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        per_file[file].push(built);
    }
    for (i, builds) in per_file.iter_mut().enumerate() {
        builds.sort_by_key(|built| {
            jobs.iter()
                .position(|(file, arch)| *file == i && *arch == built.arch)
        });
    }
    per_file
}

fn build(file: &KernelFile, headers: &'static [(&'static str, &'static str)], arch: &str) -> Built {
    let started = Instant::now();
    let source = KernelSource {
        name: leak(file.name.clone()),
        source: leak(file.text.clone()),
        includes: headers,
        // Asks the assembler for registers and spills, which come back in the log.
        options: &["--ptxas-options=-v"],
    };
    let (outcome, warnings) = match compile(&source, arch) {
        Ok(compiled) => (
            Ok(usage::parse(&compiled.log)),
            usage::warnings(&compiled.log),
        ),
        Err(error) => (Err(error.to_string()), Vec::new()),
    };
    Built {
        arch: arch.to_owned(),
        took: started.elapsed(),
        outcome,
        warnings,
    }
}
