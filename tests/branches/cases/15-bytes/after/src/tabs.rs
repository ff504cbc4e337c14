//	tabs, and no newline at the end
use ml_dqn::gpu_replay_buffer::GpuBatchPtrs;

/// Rows		and columns.
pub fn shape(batch: &GpuBatchPtrs, strategy: Option<()>) -> (usize, usize) {
	let	ptrs = batch;	// never CPU
	if strategy.is_none() {
		return (ptrs.len(), 0);
	}
	(ptrs.len(),	ptrs.state_dim())
}

pub fn keep(batch: GpuBatchPtrs) -> GpuBatchPtrs {
	#[rustfmt::skip]
	let kept =   batch;
	kept
}