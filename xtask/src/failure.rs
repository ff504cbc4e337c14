//! Why a command did not do what it was asked to, in the words that the user reads.

use std::fmt;

/// What was tried and what went wrong, the places concerned, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    /// Shown one a line below the message.
    details: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: Vec::new(),
            hint: None,
        }
    }

    pub fn details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "error: {}",
            self.message.trim_end().replace('\n', "\n  ")
        )?;
        for detail in &self.details {
            write!(f, "\n  {}", detail.replace('\n', "\n  "))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}
