//! `cargo xtask kernel-check`: compiles every kernel for every architecture it names, on a machine without a GPU.
//!
//! The work is done by the package `kernel-check`, which uses the very compiler path that programs take at run time and
//! so depends on `ml-cuda`. This command finds NVRTC, or installs it from PyPI into `target/`, and then builds and runs
//! that package: `xtask` itself stays free of CUDA and of `unsafe`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use crate::gpu_status::workspace_root;

/// The NVRTC of CUDA 13.0, the version that the bindings are made for. A newer one would emit code that a driver of
/// 13.0 does not load.
const NVRTC_PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";
/// Where `ml-cuda` looks for NVIDIA's libraries besides the usual places.
const LIBRARY_FOLDERS: &str = "FOXHUNT_CUDA_LIBS";

/// Compiles every kernel for every architecture that its file names, without a GPU, and prints registers, spills and
/// shared memory.
///
/// Needs NVRTC: from a CUDA toolkit, or from the PyPI package `nvidia-cuda-nvrtc`, which `--install` puts under
/// `target/nvrtc`. Exit codes: 0 all compile, 1 a kernel does not (or breaks what was asked), 3 NVRTC is missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Installs NVRTC from PyPI into `target/nvrtc`, unless it lies there already.
    #[arg(long)]
    install: bool,
    /// Folder that holds `libnvrtc.so.13`.
    #[arg(long, value_name = "DIR")]
    nvrtc: Option<PathBuf>,
    /// Architectures to compile for, instead of those that each file names.
    #[arg(long, value_name = "ARCH")]
    arch: Vec<String>,
    /// Names of the kernels that ran on the CPU, one a line, as tests collect them with `CUDA_ON_CPU_LOG=FILE`. A
    /// kernel that neither ran nor says why in its comment is then a failure.
    #[arg(long, value_name = "FILE")]
    ran: Option<PathBuf>,
    /// Fails where a kernel spills registers to memory.
    #[arg(long)]
    deny_spills: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    match check(args) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(3)
        }
    }
}

fn check(args: &Args) -> Result<u8, String> {
    let root = workspace_root();
    let installed = root.join("target/nvrtc");
    if args.install {
        install(&installed)?;
    }
    // The folder that was asked for comes first, then what was there, then what `--install` left.
    let mut folders: Vec<PathBuf> = args.nvrtc.iter().cloned().collect();
    folders.extend(
        env::var_os(LIBRARY_FOLDERS)
            .iter()
            .flat_map(env::split_paths),
    );
    folders.push(library_folder(&installed));
    let folders = env::join_paths(folders)
        .map_err(|e| format!("a folder of libraries cannot be passed on: {e}"))?;

    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(&cargo);
    command
        .current_dir(&root)
        .args(["run", "--quiet", "--package", "kernel-check", "--"])
        .env(LIBRARY_FOLDERS, folders)
        .arg("--kernels")
        .arg(root.join("kernels"));
    for arch in &args.arch {
        command.arg("--arch").arg(arch);
    }
    if let Some(ran) = &args.ran {
        // The package runs in the workspace's root, the path is meant from here.
        command
            .arg("--ran")
            .arg(std::path::absolute(ran).map_err(|e| format!("`{}`: {e}", ran.display()))?);
    }
    if args.deny_spills {
        command.arg("--deny-spills");
    }
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", cargo.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| format!("kernel-check ended with {status}"))
}

/// Installs the package into `target`, unless the same version lies there.
fn install(target: &Path) -> Result<(), String> {
    let marker = target.join("installed");
    let library = library_folder(target).join("libnvrtc.so.13");
    if library.is_file() && fs::read_to_string(&marker).is_ok_and(|text| text == NVRTC_PACKAGE) {
        return Ok(());
    }
    eprintln!("installing {NVRTC_PACKAGE} into {}", target.display());
    // pip skips what is already in a target folder, with a warning alone.
    if target.exists() {
        fs::remove_dir_all(target)
            .map_err(|e| format!("cannot remove `{}`: {e}", target.display()))?;
    }
    let python = if cfg!(windows) { "python" } else { "python3" };
    let status = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"])
        .args(["--only-binary=:all:", "--no-compile", "--target"])
        .arg(target)
        .arg(NVRTC_PACKAGE)
        // In a container one is root, and nothing outside of the folder is touched.
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .status()
        .map_err(|e| format!("cannot start `{python}`: {e}\nhint: install Python 3 with pip, or a CUDA 13 toolkit"))?;
    if !status.success() || !library.is_file() {
        return Err(format!(
            "`{python} -m pip install {NVRTC_PACKAGE}` ended with {status} and left no `{}`\n\
             hint: install pip (the package python3-pip), or a CUDA 13 toolkit and leave out `--install`",
            library.display()
        ));
    }
    fs::write(&marker, NVRTC_PACKAGE)
        .map_err(|e| format!("cannot write `{}`: {e}", marker.display()))
}

/// Where the package puts its libraries.
fn library_folder(installed: &Path) -> PathBuf {
    installed.join("nvidia/cu13/lib")
}
