//! Says what is being done, on a terminal; elsewhere nothing, as a log is no better for it.

use std::time::Duration;

use indicatif::ProgressBar;

/// A line on standard error that goes away when it is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// indicatif itself stays silent where standard error is no terminal.
    pub fn start(what: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Says something else on the same line.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
