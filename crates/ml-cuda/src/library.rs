//! Opens the NVIDIA libraries before cudarc does, because cudarc panics where one is missing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library as Handle;

use crate::error::CudaError;

/// A library that is opened at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// `libcuda`, the driver.
    Driver,
    /// The run-time compiler.
    Nvrtc,
    /// Matrix products.
    CublasLt,
}

impl Library {
    /// Makes the library loadable, or says why it is not. Asked once per process; later calls are free.
    ///
    /// The loader's own path comes first. After it come the folders of `FOXHUNT_CUDA_LIBS`
    /// (separated as in `PATH`), of the CUDA toolkit, and of the PyPI packages in the active Python
    /// environment. A library found there is opened by its path and kept open: the loader then
    /// matches cudarc's bare name against it.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] for the driver, [`CudaError::MissingLibrary`] for the others.
    pub fn ensure(self) -> Result<(), CudaError> {
        static FOUND: [OnceLock<Result<(), String>>; 3] =
            [OnceLock::new(), OnceLock::new(), OnceLock::new()];
        let found = FOUND[self as usize].get_or_init(|| self.find());
        found.clone().map_err(|detail| match self {
            Self::Driver => CudaError::NoDriver { detail },
            Self::Nvrtc => CudaError::MissingLibrary {
                library: "NVRTC (libnvrtc)",
                package: "nvidia-cuda-nvrtc",
                detail,
            },
            Self::CublasLt => CudaError::MissingLibrary {
                library: "cuBLASLt (libcublasLt)",
                package: "nvidia-cublas",
                detail,
            },
        })
    }

    /// The name between `lib` and `.so`, as cudarc spells it.
    fn stem(self) -> &'static str {
        match self {
            Self::Driver => "cuda",
            Self::Nvrtc => "nvrtc",
            Self::CublasLt => "cublasLt",
        }
    }

    /// Versioned names as the packages install them, newest first.
    fn file_names(self) -> &'static [&'static str] {
        match self {
            Self::Driver => &["libcuda.so.1"],
            Self::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12"],
            Self::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12"],
        }
    }

    fn find(self) -> Result<(), String> {
        let mut names = cudarc::get_lib_name_candidates(self.stem());
        if cfg!(windows) && self == Self::Driver {
            names.insert(0, "nvcuda.dll".into());
        }
        if names.iter().any(|name| keep_open(Path::new(name)).is_ok()) {
            return Ok(());
        }
        let folders = search_folders();
        let mut refusals = Vec::new();
        for file_name in self.file_names() {
            for folder in &folders {
                let path = folder.join(file_name);
                if !path.exists() {
                    continue;
                }
                if self == Self::Nvrtc {
                    // NVRTC opens its built-ins by bare name and has no path of its own to them.
                    for builtins in children(folder, "libnvrtc-builtins.so") {
                        let _ = keep_open(&builtins);
                    }
                }
                match keep_open(&path) {
                    Ok(()) => return Ok(()),
                    Err(refusal) => refusals.push(refusal),
                }
            }
        }
        if refusals.is_empty() {
            let file_name = self.file_names()[0];
            return Err(format!(
                "`{file_name}` is neither on the loader's path nor in the {} folders searched",
                folders.len()
            ));
        }
        Err(refusals.join("; "))
    }
}

/// Opens a library for the rest of the process.
fn keep_open(path: &Path) -> Result<(), String> {
    // SAFETY: the initializers of NVIDIA's libraries have no preconditions, and the handle is never
    // closed, so nothing is unloaded under cudarc.
    match unsafe { Handle::new(path) } {
        Ok(handle) => {
            std::mem::forget(handle);
            Ok(())
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn search_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(listed) = std::env::var_os("FOXHUNT_CUDA_LIBS") {
        folders.extend(std::env::split_paths(&listed).filter(|folder| folder.is_absolute()));
    }
    let mut toolkits: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(|name| std::env::var_os(name).map(PathBuf::from))
        .collect();
    toolkits.push("/usr/local/cuda".into());
    toolkits.extend(children(Path::new("/usr/local"), "cuda-"));
    for toolkit in toolkits {
        folders.push(toolkit.join("lib64"));
        folders.push(toolkit.join("targets/x86_64-linux/lib"));
        folders.push(toolkit.join("targets/sbsa-linux/lib"));
    }
    folders.push("/usr/local/nvidia/lib64".into());
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let Some(environment) = std::env::var_os(name) else {
            continue;
        };
        for python in children(&Path::new(&environment).join("lib"), "python3") {
            for package in children(&python.join("site-packages/nvidia"), "") {
                folders.push(package.join("lib"));
            }
        }
    }
    let mut seen = HashSet::new();
    folders.retain(|folder| folder.is_dir() && seen.insert(folder.clone()));
    folders
}

/// Entries of a folder whose name starts with `prefix`, the highest version first.
fn children(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.reverse();
    found
}
