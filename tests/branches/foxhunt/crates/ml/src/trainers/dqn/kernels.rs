//! The compiled step kernels.

use cudarc::driver::{CudaFunction, CudaStream};

use crate::error::TrainError;

const SOURCE: &str = include_str!("../../../kernels/step_kernels.cu");

pub(super) struct StepKernels {
    pub(super) mega: CudaFunction,
    pub(super) forward: CudaFunction,
    pub(super) backward: CudaFunction,
    pub(super) adam: CudaFunction,
}

impl StepKernels {
    pub(super) fn load(stream: &CudaStream) -> Result<Self, TrainError> {
        let ptx = cudarc::nvrtc::compile_ptx(SOURCE).map_err(|err| TrainError::Kernel(err.to_string()))?;
        let module = stream.context().load_module(ptx)?;
        Ok(Self {
            mega: module.load_function("graph_mega")?,
            forward: module.load_function("graph_forward")?,
            backward: module.load_function("graph_backward")?,
            adam: module.load_function("graph_adam")?,
        })
    }
}
