//! From times to statistics, words, and a verdict; no CUDA in here.

use std::fmt;

use super::Phase;

const PHASES: usize = Phase::ALL.len();

/// Below this share of the wall time the GPU waits for its host more than it works for it, and
/// a faster kernel would not help: the pipeline stalls.
const STALL_BELOW: f64 = 0.7;

/// Below this total, one decimal of a millisecond says too little.
const FINE_BELOW_MS: f64 = 5.0;

/// The times of one epoch, in milliseconds of the GPU's clock.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PhaseReport {
    /// Batches of the epoch, timed or not.
    pub batches: u64,
    /// Batches whose times the statistics hold.
    pub timed: u64,
    /// Batches that should have been timed and were not: every event set was still in the GPU's
    /// queue, or spare pairs ran out, or the GPU had not passed them when the epoch was finished.
    pub not_timed: u64,
    /// Brackets that were no pair: started again while open, never ended, or ended without a start.
    pub dropped: u64,
    /// Every k-th batch was timed, so that events cost less than 1 % of a step; 1 is every batch.
    pub stride: u32,
    /// Per phase, in the order of [`Phase::ALL`]; see [`phase`](Self::phase).
    pub phases: [PhaseStats; PHASES],
    /// Of the sums over the phases of each batch.
    pub total: PhaseStats,
    /// Host time from the first start to `finish_epoch`, divided by the batches.
    pub wall_ms_per_batch: f64,
    /// The newest timed batches, for a timeline.
    pub timeline: Vec<BatchSpans>,
    /// The first driver error since the last report. Times may be missing, none is wrong.
    pub error: Option<String>,
}

/// Statistics over the timed batches. A phase that came several times in a batch counts with its sum,
/// one that did not come with zero.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct PhaseStats {
    pub mean_ms: f64,
    pub min_ms: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// The brackets of one timed batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BatchSpans {
    /// Number of the batch within the epoch, from zero.
    pub batch: u64,
    /// In the order in which they were started.
    pub spans: Vec<Span>,
}

/// One bracket: `start_ms` counts from the first bracket of the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Span {
    pub phase: Phase,
    pub start_ms: f64,
    pub duration_ms: f64,
}

/// What limits the training loop.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// No batch was timed.
    Unknown,
    /// The GPU is idle for much of the wall time: look at the host, at waits between streams, at
    /// synchronous calls.
    Stall { busy_ms: f64, wall_ms: f64 },
    /// The GPU is busy, most of all with this phase.
    Dominated {
        phase: Phase,
        phase_ms: f64,
        busy_ms: f64,
        wall_ms: f64,
    },
}

impl PhaseReport {
    /// Statistics of one phase.
    pub fn phase(&self, phase: Phase) -> &PhaseStats {
        &self.phases[phase as usize]
    }

    /// The line that `finish_epoch` logs:
    /// `GPU phase timing (178 batches avg): per_scan=1.8ms … total=30.1ms`.
    ///
    /// One decimal; three where the total is under 5 ms. Where not every batch was timed, it says
    /// how many were.
    pub fn line(&self) -> String {
        let decimals = if self.total.mean_ms < FINE_BELOW_MS {
            3
        } else {
            1
        };
        let timed = if self.timed == self.batches {
            String::new()
        } else {
            format!(", {} timed,", self.timed)
        };
        let mut line = format!("GPU phase timing ({} batches{timed} avg): ", self.batches);
        for phase in Phase::ALL {
            let ms = self.phase(phase).mean_ms;
            line.push_str(&format!("{phase}={ms:.decimals$}ms "));
        }
        line.push_str(&format!("total={:.decimals$}ms", self.total.mean_ms));
        line
    }

    /// Compares the GPU's busy time with the wall time, and names the phase that dominates.
    pub fn verdict(&self) -> Verdict {
        let (busy_ms, wall_ms) = (self.total.mean_ms, self.wall_ms_per_batch);
        if self.timed == 0 || busy_ms <= 0.0 {
            return Verdict::Unknown;
        }
        if busy_ms < STALL_BELOW * wall_ms {
            return Verdict::Stall { busy_ms, wall_ms };
        }
        let mean = |phase: &Phase| self.phase(*phase).mean_ms;
        let phase = Phase::ALL
            .into_iter()
            .max_by(|one, other| mean(one).total_cmp(&mean(other)))
            .unwrap_or(Phase::FwdBwd);
        Verdict::Dominated {
            phase,
            phase_ms: mean(&phase),
            busy_ms,
            wall_ms,
        }
    }

    /// The report as JSON: counts, statistics per phase, verdict, without the timeline.
    pub fn to_json(&self) -> serde_json::Value {
        let stats = |stats: &PhaseStats| {
            serde_json::json!({
                "mean_ms": stats.mean_ms,
                "min_ms": stats.min_ms,
                "median_ms": stats.median_ms,
                "p99_ms": stats.p99_ms,
                "max_ms": stats.max_ms,
            })
        };
        let phases: serde_json::Map<_, _> = Phase::ALL
            .iter()
            .map(|phase| (phase.name().to_owned(), stats(self.phase(*phase))))
            .collect();
        serde_json::json!({
            "batches": self.batches,
            "timed": self.timed,
            "not_timed": self.not_timed,
            "dropped": self.dropped,
            "stride": self.stride,
            "phases": phases,
            "total": stats(&self.total),
            "wall_ms_per_batch": self.wall_ms_per_batch,
            "clock": "CUDA events",
            "verdict": self.verdict().to_string(),
            "error": self.error,
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: f64, whole: f64| {
            if whole > 0.0 {
                100.0 * part / whole
            } else {
                100.0
            }
        };
        match *self {
            Self::Unknown => write!(f, "unknown: no batch was timed"),
            Self::Stall { busy_ms, wall_ms } => write!(
                f,
                "pipeline stall: the GPU is busy for {busy_ms:.3} of {wall_ms:.3} ms a batch ({:.0} %)",
                percent(busy_ms, wall_ms)
            ),
            Self::Dominated {
                phase,
                phase_ms,
                busy_ms,
                wall_ms,
            } => write!(
                f,
                "{phase} dominates: {phase_ms:.3} of {busy_ms:.3} ms on the GPU ({:.0} %), which is busy for {:.0} % of the wall time",
                percent(phase_ms, busy_ms),
                percent(busy_ms, wall_ms).min(100.0)
            ),
        }
    }
}

/// Times as they come in.
#[derive(Debug, Default)]
pub(super) struct Samples {
    count: u64,
    /// One more than there are phases: the last column is the total.
    sums: [f64; PHASES + 1],
    lows: [f64; PHASES + 1],
    highs: [f64; PHASES + 1],
    /// For median and p99, of the newest batches.
    kept: Vec<[f32; PHASES + 1]>,
}

/// Batches kept for median and p99: an epoch that nobody finishes must not eat the memory.
const KEPT: usize = 1 << 16;

impl Samples {
    /// Adds one batch.
    pub fn add(&mut self, phases_ms: &[f64; PHASES]) {
        let mut row = [0.0; PHASES + 1];
        row[..PHASES].copy_from_slice(phases_ms);
        row[PHASES] = phases_ms.iter().sum();
        for (column, ms) in row.iter().copied().enumerate() {
            self.sums[column] += ms;
            let first = self.count == 0;
            self.lows[column] = if first { ms } else { self.lows[column].min(ms) };
            self.highs[column] = self.highs[column].max(ms);
        }
        let row = row.map(|ms| ms as f32);
        let at = (self.count % KEPT as u64) as usize;
        match self.kept.get_mut(at) {
            Some(oldest) => *oldest = row,
            None => self.kept.push(row),
        }
        self.count += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Statistics of one column: a phase, or the total behind them.
    pub fn stats(&self, column: usize) -> PhaseStats {
        if self.count == 0 {
            return PhaseStats::default();
        }
        let mut sorted: Vec<f32> = self.kept.iter().map(|row| row[column]).collect();
        sorted.sort_by(f32::total_cmp);
        PhaseStats {
            mean_ms: self.sums[column] / self.count as f64,
            min_ms: self.lows[column],
            median_ms: quantile(&sorted, 0.5),
            p99_ms: quantile(&sorted, 0.99),
            max_ms: self.highs[column],
        }
    }

    /// Column of the totals.
    pub const TOTAL: usize = PHASES;
}

/// Nearest rank: the least value that has at least `share` of all at or below it.
fn quantile(sorted: &[f32], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.clamp(1, sorted.len().max(1)) - 1)
        .copied()
        .map_or(0.0, f64::from)
}

/// Every how many batches to time, so that what the events cost stays under 1 % of what they measure.
pub(super) fn stride_for(event_cost_ms: f64, busy_ms: f64) -> u32 {
    const SHARE: f64 = 0.01;
    if busy_ms <= 0.0 {
        return 1;
    }
    // A cap, so that an absurd time does not switch the timing off for good.
    (event_cost_ms / (SHARE * busy_ms))
        .ceil()
        .clamp(1.0, 1000.0) as u32
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn report(
        phases_ms: [f64; 6],
        batches: u64,
        timed: u64,
        wall: f64,
    ) -> PhaseReport {
        let mut samples = Samples::default();
        for _ in 0..timed {
            samples.add(&phases_ms);
        }
        PhaseReport {
            batches,
            timed,
            stride: 1,
            phases: std::array::from_fn(|column| samples.stats(column)),
            total: samples.stats(Samples::TOTAL),
            wall_ms_per_batch: wall,
            ..PhaseReport::default()
        }
    }

    #[test]
    fn the_line_is_the_specifications() {
        let report = report([1.8, 3.2, 0.9, 22.1, 1.8, 0.3], 178, 178, 31.0);
        assert_eq!(
            report.line(),
            "GPU phase timing (178 batches avg): per_scan=1.8ms per_sample=3.2ms upload=0.9ms fwd_bwd=22.1ms adam=1.8ms per_update=0.3ms total=30.1ms"
        );
    }

    #[test]
    fn a_short_step_gets_three_decimals_and_the_timed_share_is_told() {
        let report = report([0.008, 0.018, 0.0, 0.115, 0.008, 0.004], 178, 12, 0.2);
        assert_eq!(
            report.line(),
            "GPU phase timing (178 batches, 12 timed, avg): per_scan=0.008ms per_sample=0.018ms upload=0.000ms fwd_bwd=0.115ms adam=0.008ms per_update=0.004ms total=0.153ms"
        );
    }

    #[test]
    fn both_cases_of_the_specification_get_their_verdict() {
        let stall = report([1.8, 3.2, 0.9, 25.0, 1.8, 0.3], 178, 178, 329.0);
        assert!(matches!(stall.verdict(), Verdict::Stall { .. }));
        assert_eq!(
            stall.verdict().to_string(),
            "pipeline stall: the GPU is busy for 33.000 of 329.000 ms a batch (10 %)"
        );
        let kernel = report([1.8, 3.2, 0.9, 280.0, 1.8, 0.3], 178, 178, 329.0);
        assert!(matches!(
            kernel.verdict(),
            Verdict::Dominated {
                phase: Phase::FwdBwd,
                ..
            }
        ));
        assert_eq!(
            kernel.verdict().to_string(),
            "fwd_bwd dominates: 280.000 of 288.000 ms on the GPU (97 %), which is busy for 88 % of the wall time"
        );
        assert_eq!(report([0.0; 6], 3, 0, 1.0).verdict(), Verdict::Unknown);
    }

    #[test]
    fn statistics_are_those_of_the_numbers() {
        let mut samples = Samples::default();
        // 1 to 200 in an order that is not sorted.
        for at in 0..200u32 {
            let ms = f64::from(at * 77 % 200 + 1);
            samples.add(&[ms, 0.0, 0.0, 2.0 * ms, 0.0, 0.0]);
        }
        let scan = samples.stats(0);
        assert_eq!(
            scan,
            PhaseStats {
                mean_ms: 100.5,
                min_ms: 1.0,
                median_ms: 100.0,
                p99_ms: 198.0,
                max_ms: 200.0
            }
        );
        assert_eq!(samples.stats(Samples::TOTAL).mean_ms, 301.5);
        assert_eq!(samples.stats(1), PhaseStats::default());
    }

    #[test]
    fn one_batch_is_its_own_median() {
        let mut samples = Samples::default();
        samples.add(&[0.5; 6]);
        assert_eq!(samples.stats(3).median_ms, 0.5);
        assert_eq!(samples.stats(3).p99_ms, 0.5);
        assert_eq!(Samples::default().stats(3), PhaseStats::default());
    }

    #[test]
    fn the_stride_keeps_the_cost_under_one_percent() {
        assert_eq!(stride_for(0.024, 30.0), 1);
        assert_eq!(stride_for(0.024, 0.25), 10);
        assert_eq!(stride_for(0.024, 0.0), 1);
        for busy in [0.01, 0.17, 1.0, 2.4, 2.5, 100.0] {
            let stride = f64::from(stride_for(0.024, busy));
            assert!(0.024 / stride <= 0.01 * busy + 1e-12, "{busy} ms");
            assert!(
                stride == 1.0 || 0.024 / (stride - 1.0) > 0.01 * busy,
                "no higher than needed"
            );
        }
    }

    #[test]
    fn json_says_what_the_report_says() {
        let json = report([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 7, 7, 22.0).to_json();
        assert_eq!(json["batches"], 7);
        assert_eq!(json["phases"]["adam"]["median_ms"], 5.0);
        assert_eq!(json["total"]["mean_ms"], 21.0);
        assert!(json["error"].is_null());
    }
}
