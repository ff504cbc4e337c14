use ml_dqn::{GpuBatchPtrs, DqnAgent, GpuReplayBuffer as Memory};

pub enum Route<'a> {
    Gpu(&'a ml_dqn::GpuReplayBuffer),
    Small(&'a Memory),
    Empty,
}

/// First that fits.
pub fn route<'a>(main: &'a DqnAgent, spare: Option<&'a Memory>, n: usize) -> Route<'a> {
    if n == 0 {
        Route::Empty
    } else if main.memory().can_sample(n) {
        Route::Gpu(main.memory())
    } else if let Some(spare) = spare
        && spare.len() > n / 2
    {
        Route::Gpu(spare)
    } else if spare.is_some() {
        Route::Empty
    } else {
        Route::Small(main.memory())
    }
}

pub fn rows(batch: &GpuBatchPtrs, fallback: usize) -> usize {
    let rows = if !batch.is_empty() {
        batch.len()
    } else {
        0
    };
    rows + usize::from(false) * fallback
}
