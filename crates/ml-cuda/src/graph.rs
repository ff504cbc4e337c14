//! Capture of a stream's work into a graph.

use std::sync::Arc;

use cudarc::driver::{CudaStream, result, sys};

use crate::error::CudaError;

/// A captured graph, instantiated and uploaded, replayed on the stream that it was captured from.
///
/// It holds the addresses that the captured work used, not the memory behind them: keep buffers,
/// kernels and workspaces for longer than the graph (in a struct, declare the graph first).
#[derive(Debug)]
pub struct CapturedGraph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    stream: Arc<CudaStream>,
}

// SAFETY: the driver asks that calls on one graph are not concurrent; every method that hands the
// graph to the driver takes `&mut self`, and none depends on the thread.
unsafe impl Send for CapturedGraph {}
// SAFETY: as above; nothing reaches the graph through `&self` but the number of its nodes, which is
// read by a call that needs `&mut self`.
unsafe impl Sync for CapturedGraph {}

impl CapturedGraph {
    /// Enqueues one replay. The host returns at once.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn launch(&mut self) -> Result<(), CudaError> {
        make_current(&self.stream)?;
        // SAFETY: the instantiated graph and the stream live as long as `self`.
        unsafe { result::graph::launch(self.exec, self.stream.cu_stream()) }?;
        Ok(())
    }

    /// Number of nodes: kernels, copies, memsets, event records.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn node_count(&mut self) -> Result<usize, CudaError> {
        let mut count = 0;
        // SAFETY: a null array asks for the number alone.
        unsafe { sys::cuGraphGetNodes(self.graph, std::ptr::null_mut(), &mut count) }.result()?;
        Ok(count)
    }

    /// The stream on which it replays.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        // SAFETY: both were made by `capture`, are owned by `self` alone and destroyed once. The
        // driver lets a replay under way finish.
        unsafe {
            let _ = result::graph::exec_destroy(self.exec);
            let _ = result::graph::destroy(self.graph);
        }
    }
}

/// Captures what `work` enqueues on `stream`, without running it.
///
/// The capture ends on every path: after an error in `work` (which is then the one returned), after
/// a panic in it, and after a call that the driver does not allow in a capture. In all of them the
/// stream is left ready for eager work and for the next capture.
///
/// Mode is thread-local: other threads may go on allocating and querying events meanwhile. Inside,
/// neither allocate, synchronize, query events nor load modules; run every path once before.
///
/// # Errors
/// [`CudaError::DefaultStreamCapture`] for the legacy default stream, [`CudaError::CaptureInvalidated`],
/// the error of `work`, or what the driver refused.
pub fn capture<E: From<CudaError>>(
    stream: &Arc<CudaStream>,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<CapturedGraph, E> {
    if stream.cu_stream().is_null() {
        return Err(CudaError::DefaultStreamCapture.into());
    }
    // An error parked by an earlier drop comes out here, not in the middle of the capture.
    let begun = stream
        .context()
        .bind_to_thread()
        .and_then(|()| {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            // SAFETY: the stream is alive and not the default one.
            unsafe { result::stream::begin_capture(stream.cu_stream(), mode) }
        })
        .map_err(CudaError::from);
    begun?;
    let open = OpenCapture {
        stream,
        ended: false,
    };
    let worked = work();
    let graph = open.end();
    // The first error is the telling one: what ends the capture only repeats that it is invalid.
    worked?;
    let graph = graph?;
    if graph.is_null() {
        return Err(CudaError::CaptureInvalidated.into());
    }
    Ok(instantiate(graph, stream)?)
}

/// Ends its capture at the latest when it is dropped.
struct OpenCapture<'a> {
    stream: &'a Arc<CudaStream>,
    ended: bool,
}

impl OpenCapture<'_> {
    /// Through `result`, not through cudarc's stream: that one first returns errors parked in the
    /// context, and would leave the stream capturing.
    fn end(mut self) -> Result<sys::CUgraph, CudaError> {
        self.ended = true;
        // SAFETY: this thread began a capture on the stream, and it is not ended yet.
        unsafe { result::stream::end_capture(self.stream.cu_stream()) }.map_err(|error| match error
            .0
        {
            sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => CudaError::CaptureInvalidated,
            code => CudaError::Driver(code),
        })
    }
}

impl Drop for OpenCapture<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // SAFETY: as in `end`; reached when the captured work panicked. A graph that comes back is
        // destroyed at once.
        unsafe {
            if let Ok(graph) = result::stream::end_capture(self.stream.cu_stream())
                && !graph.is_null()
            {
                let _ = result::graph::destroy(graph);
            }
        }
    }
}

fn instantiate(graph: sys::CUgraph, stream: &Arc<CudaStream>) -> Result<CapturedGraph, CudaError> {
    // SAFETY: the graph was just given by the driver and is owned here.
    let exec = match unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }
    {
        Ok(exec) => exec,
        Err(error) => {
            // SAFETY: as above; without an instance nobody else has it.
            let _ = unsafe { result::graph::destroy(graph) };
            return Err(error.into());
        }
    };
    let captured = CapturedGraph {
        graph,
        exec,
        stream: Arc::clone(stream),
    };
    // SAFETY: both are alive. Without the upload the first replay would pay for it.
    unsafe { sys::cuGraphUpload(captured.exec, stream.cu_stream()) }.result()?;
    Ok(captured)
}

/// Whether the stream is in a capture, which some calls do not bear.
///
/// # Errors
/// What the driver refused.
pub fn is_capturing(stream: &CudaStream) -> Result<bool, CudaError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive, the pointer is to a live enum of the driver's.
    unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) }.result()?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Makes the stream's context current, without picking up errors that others parked in it.
pub(crate) fn make_current(stream: &CudaStream) -> Result<(), cudarc::driver::DriverError> {
    let context = stream.context().cu_ctx();
    if result::ctx::get_current()? != Some(context) {
        // SAFETY: the context lives as long as its stream.
        unsafe { result::ctx::set_current(context) }?;
    }
    Ok(())
}
