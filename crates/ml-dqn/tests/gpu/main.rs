//! Tests that need a GPU: the kernel cases, and the buffer as a user meets it.
//!
//! Without a device every test shows as *ignored: no CUDA device*; `FOXHUNT_REQUIRE_GPU=1` makes that a failure.

mod buffer;
#[path = "../cases/mod.rs"]
mod cases;
mod full_size;
mod graph;
mod her;
mod launch;
mod streams;

use std::sync::Arc;

use cudarc::driver::CudaStream;
use libtest_mimic::{Arguments, Failed, Trial};

/// A test on a stream of its own.
type Test = (&'static str, fn(&Arc<CudaStream>));
/// Any test, the kernel cases among them.
type Boxed = Box<dyn FnOnce(&Arc<CudaStream>) + Send>;

fn main() {
    let arguments = Arguments::from_args();
    let device = ml_cuda::device_count().map_err(|why| why.to_string());
    let required = std::env::var_os("FOXHUNT_REQUIRE_GPU").is_some_and(|v| v == "1");
    let mut tests: Vec<(String, Boxed)> = Vec::new();
    for (name, case) in cases::all() {
        let run = move |stream: &Arc<CudaStream>| case(&launch::Gpu::new(stream));
        tests.push((format!("kernel/{name}"), Box::new(run)));
    }
    let of_the_buffer = [
        buffer::tests(),
        graph::tests(),
        streams::tests(),
        her::tests(),
        full_size::tests(),
    ];
    for (name, test) in of_the_buffer.concat() {
        tests.push((name.to_owned(), Box::new(test)));
    }
    let trial = |(name, test): (String, Boxed)| match &device {
        Ok(_) => Trial::test(name, move || {
            let (_context, stream) =
                ml_cuda::open(0).map_err(|why| Failed::from(why.to_string()))?;
            test(&stream);
            // A fault of a kernel comes out here at the latest, and in the test that caused it.
            stream
                .synchronize()
                .map_err(|e| Failed::from(ml_cuda::driver_error_name(&e)))?;
            Ok(())
        }),
        Err(why) if required => {
            let why = format!("FOXHUNT_REQUIRE_GPU=1, but {why}");
            Trial::test(name, move || Err(Failed::from(why)))
        }
        Err(_) => Trial::test(name, || Ok(()))
            .with_kind("no CUDA device")
            .with_ignored_flag(true),
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit();
}
