//! Standard output: text and the JSON envelope.

use frostline_core::foreign::{Plain, leads};
use serde::Serialize;
use std::io::{self, Write};

/// Version of the envelope's meaning; raised when a field changes or goes, not when one comes.
pub const SCHEMA: u32 = 1;

/// What `--json` prints, whatever the command: `{schema, version, command, runs: [...]}`, and what
/// concerns all runs of some commands.
#[derive(Serialize)]
struct Envelope<'a, A, T> {
    schema: u32,
    /// Of this program.
    version: &'static str,
    /// The command line.
    command: Vec<String>,
    #[serde(flatten)]
    about: Option<A>,
    /// One object per run (or per item listed).
    runs: &'a [T],
}

/// The envelope around `runs`, indented, with a line feed at the end.
///
/// # Errors
/// Where a run cannot be written as JSON.
pub fn envelope<T: Serialize>(runs: &[T]) -> anyhow::Result<String> {
    enveloped(None::<()>, runs)
}

fn enveloped<T: Serialize>(about: Option<impl Serialize>, runs: &[T]) -> anyhow::Result<String> {
    let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let envelope =
        Envelope { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), command, about, runs };
    let mut text = readable(&serde_json::to_string_pretty(&envelope)?);
    text.push('\n');
    Ok(text)
}

/// The same JSON, in which what leads a terminal or a reader is written as `\u009b`. Beside line feeds
/// such characters stand in texts only.
fn readable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if leads(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out += &format!("\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints the envelope around `runs`.
///
/// # Errors
/// Where standard output cannot be written. A broken pipe ends the program silently in `main`.
pub fn json<T: Serialize>(runs: &[T]) -> anyhow::Result<()> {
    text(&envelope(runs)?)
}

/// Prints the envelope around `runs`, with the fields of `about`, which concern all of them.
///
/// # Errors
/// As [`json`].
pub fn json_about<T: Serialize>(about: impl Serialize, runs: &[T]) -> anyhow::Result<()> {
    text(&enveloped(Some(about), runs)?)
}

/// Prints whole lines of text, without what leads a terminal. Use it instead of `print!`, which panics
/// where the reader has gone.
///
/// # Errors
/// As [`json`].
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{}", Plain::lines(text))?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_a_name_as_it_is_and_leads_no_terminal() {
        let name = "\x1b]0;a\x07\n\u{9b}\u{7f}\u{202e}\u{e0041}\"\\ ü";
        let json = envelope(&[name]).unwrap();
        assert!(!json.chars().any(|c| leads(c) && c != '\n'), "{json:?}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["runs"][0], name);
    }
}
