//! Acting by the network that the step trains.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaStream;
use ml_dqn::DqnError;
use ml_dqn::dqn::{ActingNetwork, States};

use super::launch::{ActingKernels, NetworkMemory};
use crate::error::TrainError;
use crate::network::NetworkShape;

/// The online network of a step, shared with it; from `FusedTrainingCtx::policy`.
///
/// Its work is enqueued on the step's stream, so it acts by the parameters of the steps enqueued before.
#[derive(Debug)]
pub struct Policy {
    stream: Arc<CudaStream>,
    shape: NetworkShape,
    network: Arc<NetworkMemory>,
    /// Planned for a number of rows, and planned anew when more are asked.
    kernels: Mutex<Option<ActingKernels>>,
}

impl Policy {
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        shape: &NetworkShape,
        network: Arc<NetworkMemory>,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            stream: Arc::clone(stream),
            shape: shape.clone(),
            network,
            kernels: Mutex::new(None),
        })
    }
}

impl ActingNetwork for Policy {
    fn q_values(&self, states: States<'_>, rows: usize) -> Result<Vec<f32>, DqnError> {
        let (dim, held) = (self.shape.state_dim(), states.len());
        if held != rows * dim {
            return Err(DqnError::Config(format!(
                "{held} values are not {rows} states of {dim}"
            )));
        }
        if rows == 0 {
            return Ok(Vec::new());
        }
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if kernels.as_ref().is_none_or(|kernels| kernels.rows() < rows) {
            let rows = rows.next_power_of_two();
            *kernels = Some(ActingKernels::new(
                &self.stream,
                &self.shape,
                &self.network,
                rows,
            )?);
        }
        let Some(kernels) = kernels.as_ref() else {
            return Ok(Vec::new());
        };
        match states {
            States::Host(states) => Ok(kernels.of_host(states)?),
            States::Device(states) => Ok(kernels.of_device(states)?),
            _ => Err(DqnError::Config("states of an unknown kind".into())),
        }
    }
}
