use std::future::Future;
use std::iter::Peekable;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use ml_dqn::{GpuBatchPtrs, DqnAgent, DqnError};

pub struct Lookahead<I: Iterator<Item = GpuBatchPtrs>> {
    batches: Peekable<I>,
}

impl<I> Iterator for Lookahead<I>
where
    I: Iterator<Item = GpuBatchPtrs>,
{
    type Item = (GpuBatchPtrs, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        let more = self.batches.peek().is_some();
        Some((batch, more))
    }
}

impl<I: Iterator<Item = GpuBatchPtrs>> Lookahead<I> {
    pub fn new(batches: impl IntoIterator<IntoIter = I>) -> Self {
        Lookahead { batches: batches.into_iter().peekable() }
    }
}

pub struct Stage {
    pub from: Receiver<Arc<GpuBatchPtrs>>,
    pub to: Sender<Option<GpuBatchPtrs>>,
    seen: Mutex<Vec<Arc<GpuBatchPtrs>>>,
}

impl Stage {
    pub async fn step(&self, agent: &DqnAgent, n: usize) -> Result<usize, DqnError> {
        let batch = agent.sample(n)?;
        let rows = async { batch.len() }.await;
        wait().await;
        println!("{} rows, {:?}", batch.len(), batch);
        let _ = self.to.send(Some(batch));
        Ok(rows)
    }

    pub fn later(&self, batch: GpuBatchPtrs) -> impl Future<Output = GpuBatchPtrs> + Send + use<> {
        let size = std::mem::size_of::<GpuBatchPtrs>();
        let note = move |batch: &GpuBatchPtrs| {
            let g = batch;
            g.len() * size
        };
        async move {
            wait().await;
            eprintln!("{}", note(&batch));
            identity::<GpuBatchPtrs>(batch)
        }
    }

    pub fn remember(&self) -> usize {
        let mut seen = self.seen.lock().unwrap();
        seen.extend(self.from.try_iter());
        seen.iter().map(|batch| batch.len()).sum::<usize>()
    }
}

async fn wait() {}

fn identity<T>(value: T) -> T {
    value
}
