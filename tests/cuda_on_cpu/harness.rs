//! Builds C++ drivers that run kernels on the CPU, and runs them. Shared by the test binaries of several crates:
//!
//! ```ignore
//! #[path = "../../../../tests/cuda_on_cpu/harness.rs"]
//! mod cuda_on_cpu;
//!
//! let driver = match cuda_on_cpu::Driver::build("per", "crates/ml-dqn/tests/gpu/per_driver.cpp") {
//!     Ok(driver) => driver,
//!     Err(cuda_on_cpu::BuildError::Unavailable(why)) => return ignored(why),   // no C++ compiler here
//!     Err(cuda_on_cpu::BuildError::Failed(log)) => panic!("{log}"),
//! };
//! let output: Vec<u8> = driver.run(&["per_sample", "1000"], &input).unwrap();
//! ```
//!
//! The driver includes `"cuda_on_cpu.hpp"` and `"kernels/per_kernels.cu"` (both are on its include path), reads its
//! input from `stdin` and writes its output to `stdout`. It is compiled with AddressSanitizer and
//! UndefinedBehaviorSanitizer, once for each content of its sources; several tests, threads and processes may ask for
//! the same one. `FOXHUNT_REQUIRE_CXX=1` turns a missing compiler into [`BuildError::Failed`].

// Each of the test binaries that include this file uses a part of it.
#![allow(dead_code)]

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// A compiled driver.
#[derive(Debug, Clone)]
pub struct Driver {
    executable: PathBuf,
}

/// Why there is no driver.
#[derive(Debug)]
pub enum BuildError {
    /// Nothing is wrong with the sources: this machine has no C++ compiler, or not the source tree.
    Unavailable(String),
    /// The compiler refused the driver, or one was required and is missing.
    Failed(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Unavailable(why) | BuildError::Failed(why) => f.write_str(why),
        }
    }
}

const FLAGS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-g",
    // The GPU fuses a*b+c, this must not: then `__fmul_rn` and the rest mean what they say on every host.
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

impl Driver {
    /// Compiles `source`, a path from the workspace's root. `name` goes into the executable's name.
    ///
    /// # Errors
    /// [`BuildError::Unavailable`] where there is no compiler and none is required, else [`BuildError::Failed`] with the
    /// compiler's text.
    pub fn build(name: &str, source: &str) -> Result<Driver, BuildError> {
        // One compilation at a time in this process: the second one then finds the first one's result.
        static BUILDING: Mutex<()> = Mutex::new(());
        let _building = BUILDING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());

        let required = std::env::var_os("FOXHUNT_REQUIRE_CXX").is_some_and(|v| v == "1");
        let unavailable = |why: String| {
            if required {
                BuildError::Failed(format!("{why}, and FOXHUNT_REQUIRE_CXX=1 asks for one"))
            } else {
                BuildError::Unavailable(why)
            }
        };
        let root = workspace_root()
            .ok_or_else(|| unavailable("the source tree is not on this machine".into()))?;
        let compiler = compiler()
            .ok_or_else(|| unavailable("no C++ compiler (c++, g++, clang++ or $CXX)".into()))?;

        let sources = Sources::of(&root, source).map_err(|e| BuildError::Failed(e.to_string()))?;
        let executable = scratch().join(format!("{name}-{:016x}", sources.hash(&compiler)));
        if executable.exists() {
            return Ok(Driver { executable });
        }
        // Another process may do the same at the same time: each writes a file of its own and the rename decides.
        let unfinished = executable.with_extension(format!("{}.tmp", std::process::id()));
        let output = Command::new(&compiler)
            .args(FLAGS)
            .arg("-I")
            .arg(root.join("tests/cuda_on_cpu"))
            .arg("-I")
            .arg(&root)
            .arg("-I")
            .arg(root.join("kernels"))
            .arg(root.join(source))
            .arg("-o")
            .arg(&unfinished)
            .output()
            .map_err(|e| BuildError::Failed(format!("cannot start `{compiler}`: {e}")))?;
        if !output.status.success() {
            return Err(BuildError::Failed(format!(
                "`{compiler}` refused {source}:\n{}\nhint: the sanitizers' runtime is in the package of the compiler \
                 (libasan with g++, compiler-rt with clang++)",
                String::from_utf8_lossy(&output.stderr)
            )));
        }
        fs::rename(&unfinished, &executable).map_err(|e| {
            BuildError::Failed(format!("cannot rename `{}`: {e}", unfinished.display()))
        })?;
        Ok(Driver { executable })
    }

    /// Runs the driver with `arguments` and `input` on its standard input; gives back its standard output.
    ///
    /// # Errors
    /// What the driver, the shim or a sanitizer wrote to standard error, where the exit code is not 0.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        self.run_in_order(None, arguments, input)
    }

    /// [`Driver::run`] with the threads and blocks taking turns in another order: `"reverse"`, `"shuffled:7"`.
    pub fn run_in_order(
        &self,
        order: Option<&str>,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.executable);
        command
            .args(arguments)
            // The leak checker needs ptrace, which containers often forbid; drivers end at once anyway.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("UBSAN_OPTIONS", "print_stacktrace=1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(order) = order {
            command.env("CUDA_ON_CPU_ORDER", order);
        }
        let mut child = command
            .spawn()
            .map_err(|e| format!("cannot start `{}`: {e}", self.executable.display()))?;
        let mut stdin = child
            .stdin
            .take()
            .ok_or("the driver has no standard input")?;
        let output = thread::scope(|scope| {
            // A driver that ends early closes the pipe; its exit code and its last words say why.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output()
        })
        .map_err(|e| format!("waiting for `{}`: {e}", self.executable.display()))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!(
                "`{} {}` ended with {}:\n{}",
                self.executable.display(),
                arguments.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    }
}

/// The folder that holds `tests/cuda_on_cpu`, from the manifest of the crate that includes this file upwards.
fn workspace_root() -> Option<PathBuf> {
    let start = Path::new(env!("CARGO_MANIFEST_DIR"));
    start
        .ancestors()
        .find(|dir| dir.join("tests/cuda_on_cpu/cuda_on_cpu.hpp").is_file())
        .map(Path::to_owned)
}

fn compiler() -> Option<String> {
    let asked_for = std::env::var("CXX").ok().filter(|c| !c.is_empty());
    let candidates = asked_for
        .into_iter()
        .chain(["c++", "g++", "clang++"].map(String::from));
    candidates.into_iter().find(|c| {
        let answer = Command::new(c)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        answer.is_ok_and(|status| status.success())
    })
}

/// Cargo's own folder for what tests leave behind, which unit tests do not have.
fn scratch() -> PathBuf {
    let base = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join("cuda_on_cpu");
    // Where this fails, so does the compiler, with a message that names the path.
    let _ = fs::create_dir_all(&dir);
    dir
}

/// Everything that a driver may include.
struct Sources {
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Sources {
    fn of(root: &Path, source: &str) -> io::Result<Sources> {
        let mut files = Vec::new();
        let driver = root.join(source);
        let beside_driver = driver.parent().unwrap_or(root).to_owned();
        for dir in [
            root.join("tests/cuda_on_cpu"),
            root.join("kernels"),
            beside_driver,
        ] {
            let Ok(entries) = fs::read_dir(&dir) else {
                continue;
            };
            for entry in entries {
                let path = entry?.path();
                let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
                if ["cu", "cuh", "cpp", "hpp", "h"].contains(&extension) {
                    files.push((path.clone(), fs::read(&path)?));
                }
            }
        }
        if !files.iter().any(|(path, _)| *path == driver) {
            let what = format!("no driver `{source}` in `{}`", root.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        files.sort();
        files.dedup();
        Ok(Sources { files })
    }

    fn hash(&self, compiler: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.files, compiler, FLAGS).hash(&mut hasher);
        hasher.finish()
    }
}
