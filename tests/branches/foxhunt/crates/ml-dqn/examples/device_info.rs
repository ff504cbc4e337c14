//! Which device the buffer would be on.

use cudarc::driver::CudaContext;

fn main() {
    match std::panic::catch_unwind(|| CudaContext::new(0)) {
        Ok(Ok(context)) => println!("{}", context.name().unwrap_or_else(|err| err.to_string())),
        Ok(Err(err)) => println!("the driver is there, but has no device for us: {err}"),
        Err(_) => println!("no CUDA driver"),
    }
}
