//! The kernels as C++ on the CPU, against the same cases as on the GPU, under sanitizers, in three orders of threads.
//!
//! Without a C++ compiler the cases show as ignored; `FOXHUNT_REQUIRE_CXX=1` makes that a failure.

#[path = "../cases/mod.rs"]
mod cases;
#[path = "../../../../tests/cuda_on_cpu/harness.rs"]
mod cuda_on_cpu;

use cases::{Backend, Program};
use cuda_on_cpu::{BuildError, Driver};
use libtest_mimic::{Arguments, Failed, Trial};

/// Orders in which threads and blocks take turns: a result that changes with it misses a barrier.
const ORDERS: [&str; 3] = ["forward", "reverse", "shuffled:7"];

struct Cpu {
    driver: Driver,
    order: &'static str,
}

impl Backend for Cpu {
    fn run(&self, program: &mut Program) {
        let output = self
            .driver
            .run_in_order(Some(self.order), &[], &encode(program))
            .unwrap_or_else(|why| panic!("{why}"));
        let mut rest = output.as_slice();
        for buffer in &mut program.buffers {
            let (bytes, after) = rest.split_at(buffer.len());
            buffer.copy_from_slice(bytes);
            rest = after;
        }
        assert!(rest.is_empty(), "the driver wrote more than the buffers");
    }
}

/// As the head of `driver.cpp` says.
fn encode(program: &Program) -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, n: usize| bytes.extend((n as u64).to_le_bytes());
    let counted = |bytes: &mut Vec<u8>, value: &[u8]| {
        number(bytes, value.len());
        bytes.extend(value);
    };
    number(&mut bytes, program.buffers.len());
    for buffer in &program.buffers {
        counted(&mut bytes, buffer);
    }
    number(&mut bytes, program.launches.len());
    for launch in &program.launches {
        counted(&mut bytes, launch.kernel.as_bytes());
        number(&mut bytes, launch.shape.grid as usize);
        number(&mut bytes, launch.shape.block as usize);
        number(&mut bytes, launch.arguments.len());
        for argument in &launch.arguments {
            counted(&mut bytes, &argument.bytes);
            number(&mut bytes, argument.addresses.len());
            for &(place, buffer) in &argument.addresses {
                number(&mut bytes, place);
                number(&mut bytes, buffer);
            }
        }
    }
    bytes
}

fn main() {
    let arguments = Arguments::from_args();
    // Listing must not compile anything.
    let built =
        (!arguments.list).then(|| Driver::build("ml-dqn", "crates/ml-dqn/tests/cpu/driver.cpp"));
    let mut trials = Vec::new();
    for (name, case) in cases::all() {
        for order in ORDERS {
            let trial_name = format!("{name}/{order}");
            let trial = match &built {
                Some(Ok(driver)) => {
                    let driver = driver.clone();
                    Trial::test(trial_name, move || {
                        case(&Cpu { driver, order });
                        Ok(())
                    })
                }
                Some(Err(BuildError::Failed(why))) => {
                    let why = why.clone();
                    Trial::test(trial_name, move || Err(Failed::from(why)))
                }
                Some(Err(BuildError::Unavailable(why))) => Trial::test(trial_name, || Ok(()))
                    .with_kind(why)
                    .with_ignored_flag(true),
                None => Trial::test(trial_name, || Ok(())),
            };
            trials.push(trial);
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
