//! Compiling, caching and loading.

use ml_cuda::kernels::{Cache, KernelSource, compile, load_with};
use ml_cuda::matmul::{Epilogue, Output, Precision, Product, Products};
use ml_cuda::{CudaError, DeviceMemory};

use crate::{CompilerTest, Gpu, Outcome, SOURCE, Test, check};

pub const WITHOUT_GPU: &[CompilerTest] = &[
    ("compiles_for_every_architecture", every_architecture),
    ("headers_are_found_in_memory", headers),
    ("a_compile_error_carries_the_compilers_text", compile_error),
];

pub const TESTS: &[Test] = &[
    (
        "a_cached_kernel_is_loaded_and_a_corrupt_one_compiled_again",
        cached,
    ),
    ("a_missing_kernel_is_named", missing_kernel),
    ("products_are_those_of_a_linear_layer", products),
];

fn every_architecture() -> Outcome {
    for arch in ["sm_80", "sm_90a", "sm_100a"] {
        let compiled = compile(&SOURCE, arch)?;
        check(compiled.binary.starts_with(b"\x7fELF"), || {
            format!("no cubin for {arch}")
        })?;
    }
    // A device that this compiler does not know gets PTX.
    let compiled = compile(&SOURCE, "sm_999a")?;
    let text = String::from_utf8_lossy(&compiled.binary).into_owned();
    check(text.contains(".target sm_") && text.ends_with('\0'), || {
        text
    })
}

fn headers() -> Outcome {
    let source = KernelSource {
        name: "user.cu",
        source: "#include \"number.cuh\"\nextern \"C\" __global__ void f(int* x) { *x = NUMBER; }",
        includes: &[("number.cuh", "#pragma once\n#define NUMBER 42\n")],
        options: &[],
    };
    compile(&source, "sm_90a")?;
    let without = KernelSource {
        includes: &[],
        ..source
    };
    let outcome = compile(&without, "sm_90a");
    check(
        matches!(&outcome, Err(CudaError::Compile { log, .. }) if log.contains("number.cuh")),
        || format!("{outcome:?}"),
    )
}

fn compile_error() -> Outcome {
    let source = KernelSource {
        name: "broken.cu",
        source: "extern \"C\" __global__ void f() {\n  undeclared = 1;\n}",
        includes: &[],
        options: &[],
    };
    let outcome = compile(&source, "sm_90a");
    check(
        matches!(&outcome, Err(CudaError::Compile { name, log, .. })
            if name == "broken.cu" && log.contains("broken.cu(2)") && log.contains("undeclared")),
        || format!("{outcome:?}"),
    )
}

fn cached(gpu: &Gpu) -> Outcome {
    let folder = tempfile::tempdir()?;
    let cache = Cache::at(folder.path());
    load_with(&gpu.context, &SOURCE, &cache)?;
    let entries: Vec<_> = std::fs::read_dir(folder.path())?.collect::<Result<_, _>>()?;
    check(entries.len() == 1, || format!("{entries:?}"))?;
    let path = entries[0].path();
    let whole = std::fs::read(&path)?;
    let written = std::fs::metadata(&path)?.modified()?;
    load_with(&gpu.context, &SOURCE, &cache)?;
    check(std::fs::metadata(&path)?.modified()? == written, || {
        "it was compiled again".into()
    })?;
    std::fs::write(&path, &whole[..whole.len() / 2])?;
    let module = load_with(&gpu.context, &SOURCE, &cache)?;
    check(module.load_function("spin").is_ok(), || {
        "the module is whole".into()
    })?;
    check(std::fs::read(&path)?.len() == whole.len(), || {
        "the entry is whole again".into()
    })
}

fn missing_kernel(gpu: &Gpu) -> Outcome {
    let module = load_with(&gpu.context, &SOURCE, &Cache::off())?;
    let outcome = ml_cuda::kernels::function(&module, &SOURCE, "no_such_kernel");
    check(
        matches!(&outcome, Err(CudaError::NoSuchKernel { function, .. }) if function == "no_such_kernel"),
        || "it was found".into(),
    )
}

/// The three products of a layer, in f32 and TF32, against sums in f64.
fn products(gpu: &Gpu) -> Outcome {
    let (rows, inputs, outputs) = (40, 24, 16);
    let wave = |at: usize, by: f32| (at as f32 * by).sin();
    let x: Vec<f32> = (0..rows * inputs).map(|at| wave(at, 0.3)).collect();
    let w: Vec<f32> = (0..outputs * inputs).map(|at| wave(at, 0.7)).collect();
    let dy: Vec<f32> = (0..rows * outputs).map(|at| wave(at, 1.1)).collect();
    let bias: Vec<f32> = (0..outputs).map(|at| wave(at, 1.7)).collect();
    let dot = |count: usize, a: &dyn Fn(usize) -> f32, b: &dyn Fn(usize) -> f32| -> f64 {
        (0..count)
            .map(|at| f64::from(a(at)) * f64::from(b(at)))
            .sum()
    };
    let expected: [Vec<f64>; 3] = [
        (0..rows * outputs)
            .map(|at| {
                let (row, out) = (at / outputs, at % outputs);
                let sum = dot(inputs, &|k| x[row * inputs + k], &|k| w[out * inputs + k]);
                (sum + f64::from(bias[out])).max(0.0)
            })
            .collect(),
        (0..rows * inputs)
            .map(|at| {
                let (row, column) = (at / inputs, at % inputs);
                dot(outputs, &|k| dy[row * outputs + k], &|k| {
                    w[k * inputs + column]
                })
            })
            .collect(),
        (0..outputs * inputs)
            .map(|at| {
                let (out, column) = (at / inputs, at % inputs);
                dot(rows, &|k| dy[k * outputs + out], &|k| {
                    x[k * inputs + column]
                })
            })
            .collect(),
    ];
    let device = |values: &[f32]| DeviceMemory::from_host(&gpu.stream, values);
    let (x, w, dy, bias) = (device(&x)?, device(&w)?, device(&dy)?, device(&bias)?);
    let products = Products::new(&gpu.stream)?;
    let operands = [
        (Product::Forward, Epilogue::BiasRelu(bias.address()), &w, &x),
        (Product::InputGradient, Epilogue::Nothing, &w, &dy),
        (Product::WeightGradient, Epilogue::Nothing, &x, &dy),
    ];
    for (precision, tolerance) in [(Precision::Fp32, 1e-6), (Precision::Tf32, 2e-3)] {
        for ((product, epilogue, first, second), expected) in operands.iter().zip(&expected) {
            let sizes = (rows, inputs, outputs);
            let plan = products.plan(*product, sizes, precision, Output::AsInputs, *epilogue)?;
            let out = DeviceMemory::<f32>::zeroed(&gpu.stream, expected.len())?;
            check(
                plan.elements() == [first.len(), second.len(), out.len()],
                || format!("{plan:?}"),
            )?;
            // SAFETY: lengths were just compared; all live until the read below has waited.
            unsafe { plan.enqueue(first.address(), second.address(), out.address()) }?;
            let got = out.to_vec()?;
            let difference: f64 = got
                .iter()
                .zip(expected)
                .map(|(a, b)| (f64::from(*a) - b).powi(2))
                .sum();
            let size: f64 = expected.iter().map(|b| b * b).sum();
            let relative = (difference / size).sqrt();
            check(relative < tolerance, || {
                format!("{plan:?}: off by {relative:.1e}")
            })?;
        }
    }
    Ok(())
}
