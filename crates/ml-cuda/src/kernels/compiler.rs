//! NVRTC: text in, machine code out.

use std::ffi::{CStr, CString, c_char, c_int};

use cudarc::nvrtc::{result, sys};

use super::KernelSource;
use crate::error::CudaError;
use crate::library::Library;

/// What the compiler made of a source.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// A cubin; where NVRTC does not know the device yet, PTX (ending in a NUL) for the newest it knows.
    pub binary: Vec<u8>,
    /// Warnings, and what options such as `--ptxas-options=-v` print.
    pub log: String,
}

/// Version of the NVRTC library found, such as `(13, 0)`.
///
/// # Errors
/// [`CudaError::MissingLibrary`], or [`CudaError::Nvrtc`].
pub fn compiler_version() -> Result<(i32, i32), CudaError> {
    Library::Nvrtc.ensure()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to live integers.
    checked("tell its version", unsafe {
        sys::nvrtcVersion(&mut major, &mut minor)
    })?;
    Ok((major, minor))
}

/// Compiles `source` for `arch`, such as `sm_90a`. Needs NVRTC, no GPU and no driver.
///
/// # Errors
/// [`CudaError::MissingLibrary`], [`CudaError::Compile`] with the compiler's text, [`CudaError::Nvrtc`].
pub fn compile(source: &KernelSource, arch: &str) -> Result<Compiled, CudaError> {
    Library::Nvrtc.ensure()?;
    let target = target(arch)?;
    let text = text(source.name, source.source)?;
    let name = self::text(source.name, source.name)?;
    let mut headers = Vec::new();
    let mut header_names = Vec::new();
    for (header_name, header) in source.includes {
        headers.push(self::text(header_name, header)?);
        header_names.push(self::text(header_name, header_name)?);
    }
    let header_pointers: Vec<*const c_char> =
        headers.iter().map(|header| header.as_ptr()).collect();
    let name_pointers: Vec<*const c_char> = header_names.iter().map(|name| name.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: every string is NUL-terminated and outlives the program, which is destroyed below.
    checked("create a program", unsafe {
        sys::nvrtcCreateProgram(
            &mut program,
            text.as_ptr(),
            name.as_ptr(),
            headers.len() as c_int,
            header_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
    })?;
    let program = Program(program);
    let mut options = vec![
        format!("--gpu-architecture={target}"),
        "--std=c++17".to_owned(),
        "-lineinfo".to_owned(),
    ];
    options.extend(source.options.iter().map(|&option| option.to_owned()));
    // SAFETY: the program is alive; options hold no NUL, as they are options.
    let outcome = unsafe { result::compile_program(program.0, &options) };
    let log = program.log();
    match outcome {
        Ok(()) => Ok(Compiled {
            binary: program.binary(target.starts_with("compute"))?,
            log,
        }),
        Err(error) if error.0 == sys::nvrtcResult::NVRTC_ERROR_COMPILATION => {
            Err(CudaError::Compile {
                name: source.name.to_owned(),
                arch: target,
                log,
            })
        }
        Err(error) => Err(CudaError::Nvrtc {
            doing: "compile",
            code: error.0,
        }),
    }
}

/// A device newer than the compiler gets PTX of the newest architecture known, which its driver translates.
fn target(arch: &str) -> Result<String, CudaError> {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    let Ok(wanted) = digits.parse::<i32>() else {
        return Ok(arch.to_owned());
    };
    let mut count = 0;
    // SAFETY: a live integer; then an array of the length that the library asked for.
    checked("count its architectures", unsafe {
        sys::nvrtcGetNumSupportedArchs(&mut count)
    })?;
    let mut known = vec![0; count.max(0) as usize];
    // SAFETY: as above.
    checked("list its architectures", unsafe {
        sys::nvrtcGetSupportedArchs(known.as_mut_ptr())
    })?;
    let newest = known.iter().copied().max().unwrap_or(wanted);
    Ok(if known.contains(&wanted) || wanted < newest {
        arch.to_owned()
    } else {
        format!("compute_{newest}")
    })
}

fn text(name: &str, text: &str) -> Result<CString, CudaError> {
    CString::new(text).map_err(|error| CudaError::Compile {
        name: name.to_owned(),
        arch: "any architecture".to_owned(),
        log: format!("the text holds a NUL byte at {}", error.nul_position()),
    })
}

fn checked(doing: &'static str, code: sys::nvrtcResult) -> Result<(), CudaError> {
    match code {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        code => Err(CudaError::Nvrtc { doing, code }),
    }
}

struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        match unsafe { result::get_program_log(self.0) } {
            // SAFETY: the library ends its log with a NUL.
            Ok(log) if !log.is_empty() => unsafe { CStr::from_ptr(log.as_ptr()) }
                .to_string_lossy()
                .trim()
                .to_owned(),
            _ => String::new(),
        }
    }

    fn binary(&self, ptx: bool) -> Result<Vec<u8>, CudaError> {
        let mut size = 0usize;
        // SAFETY: the program is alive and compiled; the arrays have the lengths asked for.
        unsafe {
            if ptx {
                checked(
                    "give the size of the PTX",
                    sys::nvrtcGetPTXSize(self.0, &mut size),
                )?;
            } else {
                checked(
                    "give the size of the cubin",
                    sys::nvrtcGetCUBINSize(self.0, &mut size),
                )?;
            }
            let mut binary = vec![0u8; size];
            let to = binary.as_mut_ptr().cast::<c_char>();
            if ptx {
                checked("give the PTX", sys::nvrtcGetPTX(self.0, to))?;
            } else {
                checked("give the cubin", sys::nvrtcGetCUBIN(self.0, to))?;
            }
            Ok(binary)
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made in `compile`, destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}
