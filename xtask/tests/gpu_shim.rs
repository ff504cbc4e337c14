//! The shim under which kernels run on the CPU, tested on the CPU: what it offers works, and faults are found.

#[path = "../../tests/cuda_on_cpu/harness.rs"]
mod cuda_on_cpu;

use cuda_on_cpu::{BuildError, Driver};

/// Builds a driver, or says why the test has nothing to run on this machine.
fn driver(name: &str) -> Option<Driver> {
    match Driver::build(name, &format!("tests/cuda_on_cpu/{name}.cpp")) {
        Ok(driver) => Some(driver),
        Err(BuildError::Unavailable(why)) => {
            eprintln!("not run: {why}");
            None
        }
        Err(BuildError::Failed(log)) => panic!("{log}"),
    }
}

#[test]
fn what_the_shim_offers_works() {
    let Some(driver) = driver("selftest") else {
        return;
    };
    let output = driver.run(&[], b"").unwrap_or_else(|log| panic!("{log}"));
    assert_eq!(
        String::from_utf8_lossy(&output),
        "the shim does what CUDA does\n"
    );
}

/// Each fault, and words that its message must contain: of the shim, or of a sanitizer.
const FAULTS: &[(&str, &[&str])] = &[
    (
        "barrier_for_some",
        &[
            "`barrier_for_some`",
            "every thread of a block must reach the same one",
        ],
    ),
    (
        "warp_operation_for_some",
        &["deadlock", "31 in __ballot_sync", "1 in __syncthreads"],
    ),
    ("mask_without_caller", &["thread 1", "lacks its own lane 1"]),
    (
        "masks_that_never_meet",
        &["deadlock", "32 in __ballot_sync"],
    ),
    ("different_operations", &["__any_sync", "__all_sync"]),
    (
        "write_behind_the_end",
        &[
            "AddressSanitizer: heap-buffer-overflow",
            "write_behind_the_end",
        ],
    ),
    (
        "write_behind_shared",
        &["selftest_faults.cpp", "write_behind_shared"],
    ),
    (
        "write_behind_dynamic_shared",
        &[
            "AddressSanitizer: heap-buffer-overflow",
            "write_behind_dynamic_shared",
        ],
    ),
    ("misaligned_vector", &["which requires 16 byte alignment"]),
    ("endless_recursion", &["AddressSanitizer: stack-overflow"]),
    ("wait_for_another_block", &["still running after 1 s"]),
    ("trap", &["thread 0 called __trap()"]),
    ("too_many_threads", &["1025x1x1 threads a block"]),
    ("empty_grid", &["a grid of 0x1x1 blocks"]),
    (
        "too_much_shared_memory",
        &["233472 bytes of dynamic shared memory"],
    ),
];

#[test]
fn faults_are_found_and_named() {
    let Some(driver) = driver("selftest_faults") else {
        return;
    };
    let mut missed = Vec::new();
    for (fault, words) in FAULTS {
        let log = match driver.run(&[fault], b"") {
            Ok(_) => {
                missed.push(format!("{fault}: not found"));
                continue;
            }
            Err(log) => log,
        };
        for word in *words {
            if !log.contains(word) {
                missed.push(format!("{fault}: no `{word}` in\n{log}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_driver_that_does_not_compile_shows_the_compilers_text() {
    if driver("selftest").is_none() {
        return;
    }
    // The kernel-facing headers are no drivers: this one has no `main`, which the linker says.
    match Driver::build("types", "tests/cuda_on_cpu/types.hpp") {
        Err(BuildError::Failed(log)) => {
            assert!(log.contains("tests/cuda_on_cpu/types.hpp"), "{log}");
            assert!(log.contains("main"), "{log}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_driver_that_does_not_exist_is_named() {
    if driver("selftest").is_none() {
        return;
    }
    match Driver::build("absent", "tests/cuda_on_cpu/absent.cpp") {
        Err(BuildError::Failed(log)) => {
            assert!(log.contains("`tests/cuda_on_cpu/absent.cpp`"), "{log}")
        }
        other => panic!("{other:?}"),
    }
}
