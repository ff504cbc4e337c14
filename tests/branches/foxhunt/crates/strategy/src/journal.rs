//! What was learned when. Kept narrow on purpose: it is printed beside the orders.
use ml_dqn::{BatchSample as Batch, ReplayBufferType as Memory,DqnError};
use crate::online::LearnReport;
#[derive(Clone,Debug,Default)]
pub struct Journal { lines: Vec<String>, n_draws: usize }

// one line for each round:   bar | where | fill | loss
impl Journal {
    pub fn note(&mut self, bar: usize, memory: &Memory, report: &LearnReport) {
        let place = if memory.is_gpu() { "dev" } else if memory.is_prioritized() { "tree" } else { "host" };
        let fill  = 100*memory.len() / memory.capacity();
        self.lines.push( format!("{bar:>6} | {place:<4} | {fill:>3}% | {:.4}", report.loss) );
    }

    /// Draws `n` rows for a look, and counts them.   [`Batch::len`] is what is counted.
    pub fn look( &mut self, memory: &Memory, n: usize ) -> Result<usize, DqnError> {
        let batch: Batch = memory.sample(n)?;
        self.n_draws+=1;
        match batch.gpu_batch { Some(ref drawn) => Ok( drawn.len() ), None => Ok(batch.experiences.len()) }
    }

    pub fn lines(&self) -> &[String] { &self.lines }
    pub fn n_draws(&self) -> usize { self.n_draws }   // of `look` alone

    /// Where everything was noted: "dev", "tree" or "host" ("BatchSample" in old files).
    pub fn places(&self) -> Vec<&str> {
        self.lines.iter().filter_map( |line| line.split(" | ").nth(1) ).map(str::trim).collect()
    }
}

pub type Seen = Vec<( usize,Option<Batch> )>;

/// Rows of those that were kept.
pub fn rows(seen: &Seen) -> usize { seen.iter().map( |(_, batch)| batch.as_ref().map_or(0, |b| b.gpu_batch.as_ref().unwrap().len()) ).sum::<usize>() }