//! Errors on their way to the user.

use frostline_core::policy::PolicyError;
use frostline_core::spec::SpecError;
use frostline_core::{EngineError, LimitError};
use frostline_driver::DriverError;
use frostline_sim::SimError;
use frostline_study::StudyError;
use frostline_trace::TraceError;
use std::fmt;
use std::process::ExitCode;

/// Exit code for wrong usage.
pub const USAGE: u8 = 2;
/// Exit code for errors of whoever runs another program, as with `env` and `timeout`.
pub const ENV_FAILED: u8 = 125;

/// An error with a remedy, or with an exit code of its own, or with both.
#[derive(Debug)]
pub struct CliError {
    code: Option<u8>,
    what: String,
    hint: Option<String>,
    source: Option<anyhow::Error>,
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "{HINT}{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CliError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

/// Separates an error's text from its remedy in the libraries' errors too.
const HINT: &str = "\nhint: ";

/// Wrong usage: exit code 2.
pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    CliError { code: Some(USAGE), what: what.into(), hint: Some(hint.into()), source: None }.into()
}

/// A failure with a remedy.
pub fn failure(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    CliError { code: None, what: what.into(), hint: Some(hint.into()), source: None }.into()
}

/// A failure that ends with this exit code.
pub fn with_code(code: u8, what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    CliError { code: Some(code), what: what.into(), hint: Some(hint.into()), source: None }.into()
}

/// The user stopped us by a signal: exit code 128 + its number.
pub fn interrupted(signal: i32, what_is_left: impl Into<String>) -> anyhow::Error {
    let left = what_is_left.into();
    let what = if left.is_empty() { "interrupted".into() } else { format!("interrupted; {left}") };
    CliError { code: Some(stopped_by(signal)), what, hint: None, source: None }.into()
}

/// Exit code after a signal.
fn stopped_by(signal: i32) -> u8 {
    (128 + signal) as u8
}

/// Says what was attempted, and what helps.
pub trait ResultExt<T> {
    /// Adds "what was attempted" in front and a remedy.
    fn or_hint(self, what: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> ResultExt<T> for Result<T, E> {
    fn or_hint(self, what: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            CliError {
                code: None,
                what: what.into(),
                hint: Some(hint.into()),
                source: Some(error.into()),
            }
            .into()
        })
    }
}

/// Prints the error to standard error and gives the code to exit with: `our_failure` where the
/// error does not bring one, or is one of usage and `our_failure` is that of `env(1)`, since a program
/// that was to be run may end with 2 itself.
pub fn report(error: &anyhow::Error, our_failure: u8) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    crate::progress::clear();
    // Whatever failed after the user asked to stop, failed because of it.
    let stopped = (crate::cancel::requested() && code(error).is_none())
        .then(|| crate::cancel::interrupted(""));
    let error = stopped.as_ref().unwrap_or(error);
    let (what, hint) = message(error);
    crate::progress::stderr_line(&format!("error: {what}"));
    if let Some(hint) = hint {
        crate::progress::stderr_line(&format!("hint: {hint}"));
    }
    let code = code(error).filter(|code| *code != USAGE || our_failure < ENV_FAILED);
    ExitCode::from(code.unwrap_or(our_failure))
}

/// What [`report`] prints, for errors that do not end the program.
pub fn text(error: &anyhow::Error) -> String {
    match message(error) {
        (what, Some(hint)) => what + HINT + &hint,
        (what, None) => what,
    }
}

/// "what: why: why", without what an outer error has quoted already, and the outermost remedy.
fn message(error: &anyhow::Error) -> (String, Option<String>) {
    let mut text = String::new();
    let mut hint = None;
    for cause in error.chain() {
        let full = cause.to_string();
        let (what, remedy) = match full.split_once(HINT) {
            Some((what, remedy)) => (what, Some(remedy)),
            None => (full.as_str(), None),
        };
        if text.is_empty() {
            text.push_str(what);
        } else if !text.contains(what) {
            text.push_str(": ");
            text.push_str(what);
        }
        if hint.is_none() {
            hint = remedy.map(str::to_owned);
        }
    }
    (text, hint)
}

fn code(error: &anyhow::Error) -> Option<u8> {
    error.chain().find_map(|cause| {
        if let Some(ours) = cause.downcast_ref::<CliError>() {
            return ours.code;
        }
        if let Some(StudyError::Stopped { .. }) = cause.downcast_ref() {
            return Some(stopped_by(crate::cancel::signal()));
        }
        let usage = cause.is::<SpecError>()
            || cause.is::<PolicyError>()
            || cause.is::<LimitError>()
            || cause.is::<EngineError>()
            || matches!(cause.downcast_ref(), Some(StudyError::Usage { .. }))
            || matches!(
                cause.downcast_ref(),
                Some(
                    TraceError::Spec { .. } | TraceError::Limit { .. } | TraceError::Absurd { .. }
                )
            )
            || matches!(cause.downcast_ref(), Some(SimError::Engine(_) | SimError::Limit(_)))
            || matches!(
                cause.downcast_ref(),
                Some(
                    DriverError::Engine(_)
                        | DriverError::Unbelievable { .. }
                        | DriverError::LeftAlone { .. }
                )
            );
        usage.then_some(USAGE)
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_joined_once_and_the_hint_comes_last() {
        let io = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let error = TraceError::Io { path: "a.flt".into(), doing: "open", source: io };
        let error = Err::<(), _>(error).or_hint("cannot compare", "record it first").unwrap_err();
        let (what, hint) = message(&error);
        assert_eq!(what, "cannot compare: a.flt: open: no such file");
        assert_eq!(hint.as_deref(), Some("record it first"));
        assert_eq!(code(&error), None);
    }

    #[test]
    fn hints_of_libraries_are_found() {
        let error = Err::<(), _>(SpecError::unknown("policy", "memtsi", &["memtis"]))
            .context("--policies")
            .unwrap_err();
        let (what, hint) = message(&error);
        assert_eq!(what, "--policies: unknown policy `memtsi`");
        assert_eq!(hint.as_deref(), Some("did you mean `memtis`? known: memtis"));
        assert_eq!(code(&error), Some(USAGE));
    }
}
