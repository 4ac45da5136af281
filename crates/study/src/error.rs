//! Errors of a study.

use frostline_sim::SimError;

/// Reason why there is no study. The text ends with a `hint:` where there is a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// The request cannot be right.
    #[error("{what}\nhint: {hint}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to ask for instead.
        hint: String,
    },
    /// The request cannot be met here.
    #[error("{what}\nhint: {hint}")]
    Failed {
        /// What failed.
        what: String,
        /// What would help.
        hint: String,
    },
    /// The monitor ended it.
    #[error("{}", stopped(*.runs))]
    Stopped {
        /// Runs that had finished, and all of them; none before the first run.
        runs: Option<(usize, usize)>,
    },
}

impl StudyError {
    /// A request that cannot be right.
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    /// A request that cannot be met.
    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: hint.into() }
    }
}

/// A machine that cannot be used is wrong usage.
pub(crate) fn of_machine(error: &SimError) -> StudyError {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((what, hint)) => StudyError::usage(what, hint),
        None => StudyError::usage(text, "`frostline list machines` lists what is known"),
    }
}

fn stopped(runs: Option<(usize, usize)>) -> String {
    match runs {
        None => "interrupted".to_owned(),
        Some((done, all)) => format!("interrupted; {done} of {all} runs had finished"),
    }
}
