//! A report as files to look at: a Chrome trace, and a timeline as SVG; no CUDA in here.

use std::fmt::Write as _;

use super::{Phase, PhaseReport};

/// One colour a phase, distinguishable for colour-blind readers (Okabe and Ito 2008).
const COLOURS: [&str; 6] = [
    "#0072b2", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#cc79a7",
];

impl PhaseReport {
    /// The timeline in the trace-event format that `chrome://tracing` and Perfetto open: one complete
    /// event (`ph` X, times in microseconds) for each bracket.
    pub fn to_chrome_trace(&self) -> serde_json::Value {
        let mut events = vec![serde_json::json!({
            "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "GPU" }
        })];
        for phase in Phase::ALL {
            events.push(serde_json::json!({
                "name": "thread_name", "ph": "M", "pid": 1, "tid": phase as u32 + 1,
                "args": { "name": phase.name() }
            }));
        }
        for batch in &self.timeline {
            for span in &batch.spans {
                events.push(serde_json::json!({
                    "name": span.phase.name(), "cat": "phase", "ph": "X", "pid": 1,
                    "tid": span.phase as u32 + 1,
                    "ts": span.start_ms * 1e3, "dur": span.duration_ms * 1e3,
                    "args": { "batch": batch.batch }
                }));
            }
        }
        serde_json::json!({ "displayTimeUnit": "ms", "traceEvents": events })
    }

    /// The newest timed batches as a picture: one row a batch, time to the right from the batch's own
    /// first bracket, gaps left white. Means, verdict and the line stand around it.
    pub fn to_svg(&self) -> String {
        const WIDTH: f64 = 960.0;
        const LEFT: f64 = 70.0;
        const ROW: f64 = 18.0;
        const TOP: f64 = 84.0;
        const ROWS: usize = 24;
        let newest = &self.timeline[self.timeline.len().saturating_sub(ROWS)..];
        let extent = |spans: &[super::Span]| {
            let begin = spans
                .iter()
                .map(|span| span.start_ms)
                .fold(f64::MAX, f64::min);
            let end = spans
                .iter()
                .map(|span| span.start_ms + span.duration_ms)
                .fold(f64::MIN, f64::max);
            (begin, (end - begin).max(0.0))
        };
        let longest = newest
            .iter()
            .map(|batch| extent(&batch.spans).1)
            .fold(0.0, f64::max);
        let scale = if longest > 0.0 {
            (WIDTH - LEFT - 20.0) / longest
        } else {
            0.0
        };
        let height = TOP + ROW * newest.len() as f64 + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        let mut text = |x: f64, y: f64, content: &str| {
            let content = content.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{content}</text>");
        };
        text(10.0, 20.0, &self.line());
        text(10.0, 38.0, &self.verdict().to_string());
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            let ms = self.phase(phase).mean_ms;
            text(
                26.0 + 155.0 * at as f64,
                62.0,
                &format!("{phase} {ms:.3} ms"),
            );
        }
        for (row, batch) in newest.iter().enumerate() {
            let y = TOP + ROW * row as f64;
            text(10.0, y + 12.0, &format!("#{}", batch.batch));
        }
        text(LEFT, height - 12.0, "0");
        text(WIDTH - 90.0, height - 12.0, &format!("{longest:.3} ms"));
        for (at, colour) in COLOURS.iter().enumerate() {
            let x = 10.0 + 155.0 * at as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"52\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
            );
        }
        for (row, batch) in newest.iter().enumerate() {
            let y = TOP + ROW * row as f64;
            let (begin, _) = extent(&batch.spans);
            for span in &batch.spans {
                let x = LEFT + (span.start_ms - begin) * scale;
                // Thin ones stay visible.
                let width = (span.duration_ms * scale).max(0.5);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{:.1}\" fill=\"{}\">\
                     <title>{} {:.4} ms</title></rect>",
                    ROW - 4.0,
                    COLOURS[span.phase as usize],
                    span.phase,
                    span.duration_ms
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::super::{BatchSpans, Span};
    use super::*;

    fn drawn() -> PhaseReport {
        let mut report = report([1.0, 0.0, 0.0, 2.0, 0.0, 0.0], 30, 30, 3.5);
        let span = |phase, start_ms, duration_ms| Span {
            phase,
            start_ms,
            duration_ms,
        };
        report.timeline = (0..30)
            .map(|batch| BatchSpans {
                batch,
                spans: vec![
                    span(Phase::PerScan, 4.0 * batch as f64, 1.0),
                    span(Phase::FwdBwd, 4.0 * batch as f64 + 1.5, 2.0),
                ],
            })
            .collect();
        report
    }

    #[test]
    fn the_trace_holds_every_bracket_in_microseconds() {
        let trace = drawn().to_chrome_trace();
        let events = trace["traceEvents"].as_array().unwrap();
        let complete: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(complete.len(), 60);
        assert_eq!(complete[3]["name"], "fwd_bwd");
        assert_eq!(complete[3]["ts"], 5500.0);
        assert_eq!(complete[3]["dur"], 2000.0);
        assert_eq!(complete[3]["args"]["batch"], 1);
    }

    #[test]
    fn the_picture_shows_the_newest_batches_to_scale() {
        let svg = drawn().to_svg();
        // 24 rows of two brackets, six squares of the legend, one background.
        assert_eq!(svg.matches("<rect").count(), 24 * 2 + 6 + 1);
        assert!(!svg.contains("#5<"), "an older batch is not drawn");
        assert!(svg.contains("#6<") && svg.contains("#29<"));
        // 3.5 ms fill 870 points: the longer bracket begins at 1.5 ms and lasts 2.
        assert!(
            svg.contains("x=\"442.86\" y=\"84.0\" width=\"497.14\""),
            "{svg}"
        );
    }

    #[test]
    fn an_empty_report_draws_without_numbers_that_are_none() {
        let svg = PhaseReport::default().to_svg();
        assert!(svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
