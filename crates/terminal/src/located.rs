//! Errors of a TOML file, with the file's name, the line, and a remedy.

use crate::errors::usage;
use frostline_core::spec::SpecError;

/// Number of the line in which a byte stands, from 1.
pub fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// What the user is told: `file:line: what`, and a hint.
/// `otherwise` is the hint where no better one is known.
pub fn error(name: &str, text: &str, error: &toml::de::Error, otherwise: &str) -> anyhow::Error {
    let (what, hint) = explained(error.message(), otherwise);
    let place = match error.span() {
        Some(span) => format!("{name}:{}", line(text, span.start)),
        None => name.to_owned(),
    };
    usage(format!("{place}: {what}"), hint)
}

/// What is wrong and what helps. Messages of ours bring the latter; in those of the library the
/// words in backticks are what it was given and what it knows.
fn explained(message: &str, otherwise: &str) -> (String, String) {
    if let Some((what, hint)) = message.split_once("\nhint: ") {
        return (what.to_owned(), hint.to_owned());
    }
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let hint = match words.split_first() {
        Some((given, known)) if message.starts_with("unknown field") => {
            let SpecError { what, hint } = SpecError::unknown("key", given, known);
            return (what, hint.unwrap_or_default());
        }
        Some((missing, _)) if message.starts_with("missing field") => {
            format!("add {missing} = ...")
        }
        _ if message.contains("expected a string") => "write the value in quotes".into(),
        _ => otherwise.into(),
    };
    (message.replace('\n', ", "), hint)
}
