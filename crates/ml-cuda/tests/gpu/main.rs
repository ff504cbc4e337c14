//! What needs an NVIDIA library: the compiler for some tests, a GPU for most.
//!
//! Where it is missing the tests show as ignored, with the reason. `FOXHUNT_REQUIRE_GPU=1` makes that a failure.

mod graphs;
mod kernels;
mod phases;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, PushKernelArg};
use libtest_mimic::{Arguments, Failed, Trial};
use ml_cuda::kernels::{Cache, KernelSource, compiler_version, function, load_with};

fn main() {
    let mut arguments = Arguments::from_args();
    // Times are measured, and tests at once would measure one another.
    arguments.test_threads.get_or_insert(1);
    let required = std::env::var_os("FOXHUNT_REQUIRE_GPU").is_some_and(|value| value == "1");
    let gpu = ml_cuda::open(0).map_err(|error| error.to_string());
    let compiler = compiler_version().map_err(|error| error.to_string());
    let mut trials = Vec::new();
    for (name, test) in kernels::WITHOUT_GPU {
        let missing = compiler.as_ref().err().cloned();
        trials.push(trial(name, "no NVRTC", missing, required, *test));
    }
    for (name, test) in graphs::TESTS
        .iter()
        .chain(kernels::TESTS)
        .chain(phases::TESTS)
    {
        let missing = gpu.as_ref().err().cloned();
        let test = *test;
        let run = move || {
            let (context, stream) = ml_cuda::open(0)?;
            test(&Gpu { context, stream })
        };
        trials.push(trial(name, "no CUDA device", missing, required, run));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A device and a stream of the test's own.
#[derive(Debug)]
pub struct Gpu {
    pub context: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
}

pub type Outcome = Result<(), Failed>;

/// A test of a device, and its name.
pub type Test = (&'static str, fn(&Gpu) -> Outcome);

/// A test of the compiler, and its name.
pub type CompilerTest = (&'static str, fn() -> Outcome);

const SOURCE: KernelSource = KernelSource {
    name: "test_kernels.cu",
    source: include_str!("test_kernels.cu"),
    includes: &[],
    options: &[],
};

impl Gpu {
    /// A kernel of `test_kernels.cu`.
    pub fn kernel(&self, name: &str) -> Result<CudaFunction, Failed> {
        let module = load_with(&self.context, &SOURCE, &Cache::off())?;
        Ok(function(&module, &SOURCE, name)?)
    }

    /// Enqueues a kernel that keeps the stream busy for about so long.
    pub fn spin(&self, kernel: &CudaFunction, milliseconds: f64) -> Result<(), Failed> {
        // 1.98 GHz is the highest clock of an H200; a lower one only spins for longer.
        let cycles = (milliseconds * 1.98e6) as i64;
        self.launch(kernel, cycles)
    }

    pub fn launch(&self, kernel: &CudaFunction, argument: i64) -> Result<(), Failed> {
        let one = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (1, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&argument);
        // SAFETY: every kernel of test_kernels.cu takes one i64, an address only where the caller gives one.
        unsafe { launch.launch(one) }?;
        Ok(())
    }
}

fn trial(
    name: &str,
    why: &str,
    missing: Option<String>,
    required: bool,
    test: impl FnOnce() -> Outcome + Send + 'static,
) -> Trial {
    let ignored = missing.is_some() && !required;
    let run = move || match missing {
        Some(reason) => Err(Failed::from(reason)),
        None => test(),
    };
    let trial = Trial::test(name, run).with_ignored_flag(ignored);
    if ignored {
        trial.with_kind(format!("ignored: {why}"))
    } else {
        trial
    }
}

/// Fails with a message.
pub fn check(holds: bool, message: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(message().into()) }
}
