//! Reports, as text and as JSON. The tools that read them run on Windows: hence the line ends.

use std::fmt::Write as _;

use ml_dqn::replay_buffer_type::ReplayBufferType;
use ml_dqn::{BatchSample, GpuBatchPtrs};

use crate::health;
use crate::metrics::RunMetrics;

/// One evaluated run.
pub struct Report<'a> {
    pub name: &'a str,
    pub metrics: &'a RunMetrics,
    /// `None` where the run kept nothing.
    pub memory: Option<&'a ReplayBufferType>,
    pub last: Option<BatchSample>,
}

impl Report<'_> {
    pub fn text(&self) -> String {
        let mut text = format!("{}: result {:.2}\n", self.name, self.metrics.total());
        // writing to a String does not fail
        let _ = writeln!(
            text,
            "  Sharpe {:.3}, drawdown {:.2}",
            self.metrics.sharpe(),
            self.metrics.max_drawdown()
        );
        if let Some(memory) = self.memory {
            let _ = writeln!(text, "  memory: {}", health::line(memory));
            if !memory.is_gpu() {
                text.push_str("  the memory is on the host\n");
            }
        }
        if let Some(batch) = &self.last {
            let _ = writeln!(text, "  last batch: {} rows", rows_on_device(batch).unwrap_or(0));
        }
        text
    }

    /// By hand: four values are no reason for a dependency.
    pub fn json(&self) -> String {
        let kind = match self.memory {
            Some(ReplayBufferType::GpuPrioritized(_)) => "\"device\"",
            Some(ReplayBufferType::Uniform(_) | ReplayBufferType::Prioritized(_)) => "\"host\"",
            None => "null",
        };
        format!(
            r#"{{"name":"{}","result":{:.4},"memory":{kind},"gpu_batch":{}}}"#,
            self.name,
            self.metrics.total(),
            self.last.as_ref().map_or(0, |batch| batch.gpu_batch.as_ref().unwrap().len()),
        )
    }

    /// Hands the addresses on; the report has them no longer.
    pub fn into_ptrs(self) -> Option<GpuBatchPtrs> {
        self.last?.gpu_batch
    }
}

fn rows_on_device(batch: &BatchSample) -> Option<usize> {
    let ptrs = batch.gpu_batch.as_ref()?;
    Some(ptrs.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ml_dqn::ReplayBufferConfig;

    #[test]
    fn a_run_without_a_memory() {
        let metrics: RunMetrics = [1.0, 2.0].into_iter().collect();
        let report = Report { name: "flat", metrics: &metrics, memory: None, last: None };
        assert!(report.text().starts_with("flat: result 3.00\n"));
        assert_eq!(report.json(), r#"{"name":"flat","result":3.0000,"memory":null,"gpu_batch":0}"#);
        assert!(report.into_ptrs().is_none());
    }

    #[test]
    fn a_host_memory_is_mentioned() {
        let memory = ReplayBufferType::uniform(ReplayBufferConfig::default());
        let metrics = RunMetrics::default();
        let report = Report { name: "old", metrics: &metrics, memory: Some(&memory), last: None };
        assert!(report.text().contains("on the host") && report.json().contains("\"host\""));
    }
}
