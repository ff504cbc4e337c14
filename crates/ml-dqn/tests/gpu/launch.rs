//! Runs the programs of the cases on the GPU: the second backend.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaModule, CudaStream, result};
use ml_cuda::DeviceMemory;
use ml_cuda::kernels::{function, load};
use ml_dqn::launch::{her, per};

use crate::cases::{Backend, Program};

pub struct Gpu {
    pub stream: Arc<CudaStream>,
    per: Arc<CudaModule>,
    her: Arc<CudaModule>,
}

impl Gpu {
    pub fn new(stream: &Arc<CudaStream>) -> Self {
        let module = |source| load(stream.context(), source).unwrap_or_else(|why| panic!("{why}"));
        Self {
            stream: Arc::clone(stream),
            per: module(&per::SOURCE),
            her: module(&her::SOURCE),
        }
    }
}

impl Backend for Gpu {
    fn run(&self, program: &mut Program) {
        let upload = |bytes: &Vec<u8>| {
            let memory = DeviceMemory::zeroed(&self.stream, bytes.len()).unwrap();
            memory.write(bytes).unwrap();
            memory
        };
        let buffers: Vec<DeviceMemory<u8>> = program.buffers.iter().map(upload).collect();
        for launch in &program.launches {
            let (module, source) = if launch.kernel.starts_with("her_") {
                (&self.her, &her::SOURCE)
            } else {
                (&self.per, &per::SOURCE)
            };
            let kernel = function(module, source, launch.kernel).unwrap();
            let mut arguments: Vec<Vec<u64>> = launch
                .arguments
                .iter()
                .map(|argument| {
                    let mut bytes = argument.bytes.clone();
                    for &(place, buffer) in &argument.addresses {
                        let address = buffers[buffer].address();
                        bytes[place..place + 8].copy_from_slice(&address.to_ne_bytes());
                    }
                    // Words, so that the driver reads them aligned.
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                    bytes
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|word| u64::from_ne_bytes(*word))
                        .collect()
                })
                .collect();
            let mut pointers: Vec<*mut c_void> = arguments
                .iter_mut()
                .map(|words| words.as_mut_ptr().cast())
                .collect();
            // SAFETY: the cases give each kernel the arguments of its signature (on the CPU, the C++ driver checks their
            // number and sizes); the buffers live until the wait below.
            unsafe {
                result::launch_kernel(
                    kernel.cu_function(),
                    (launch.shape.grid, 1, 1),
                    (launch.shape.block, 1, 1),
                    0,
                    self.stream.cu_stream(),
                    &mut pointers,
                )
            }
            .unwrap_or_else(|error| panic!("{}: {:?}", launch.kernel, error.0));
        }
        for (buffer, memory) in program.buffers.iter_mut().zip(&buffers) {
            memory.read(buffer).unwrap();
        }
        self.stream.synchronize().unwrap();
    }
}
