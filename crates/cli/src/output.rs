//! Standard output: text and the JSON envelope.

use serde::Serialize;
use std::io::{self, Write};

/// Version of the envelope's meaning; raised when a field changes or goes, not when one comes.
pub const SCHEMA: u32 = 1;

/// What `--json` prints, whatever the command: `{schema, version, runs: [...]}`.
#[derive(Serialize)]
struct Envelope<'a, T> {
    schema: u32,
    /// Of this program.
    version: &'static str,
    /// One object per run (or per item listed).
    runs: &'a [T],
}

/// The envelope around `runs`, indented, with a line feed at the end.
///
/// # Errors
/// Where a run cannot be written as JSON.
pub fn envelope<T: Serialize>(runs: &[T]) -> anyhow::Result<String> {
    let envelope = Envelope { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), runs };
    let mut text = serde_json::to_string_pretty(&envelope)?;
    text.push('\n');
    Ok(text)
}

/// Prints the envelope around `runs`.
///
/// # Errors
/// Where standard output cannot be written. A broken pipe ends the program silently in `main`.
pub fn json<T: Serialize>(runs: &[T]) -> anyhow::Result<()> {
    text(&envelope(runs)?)
}

/// Prints text as it is. Use it instead of `print!`, which panics where the reader has gone.
///
/// # Errors
/// As [`json`].
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
