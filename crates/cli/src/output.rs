//! Standard output: text and the JSON envelope.

use serde::Serialize;
use std::io::{self, Write};

/// Version of the envelope's meaning; raised when a field changes or goes, not when one comes.
pub const SCHEMA: u32 = 1;

/// What `--json` prints, whatever the command: `{schema, version, runs: [...]}`.
#[derive(Serialize)]
pub struct Envelope<'a, T> {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of this program.
    pub version: &'static str,
    /// One object per run (or per item listed).
    pub runs: &'a [T],
}

/// Prints the envelope around `runs`, indented, with a line feed at the end.
///
/// # Errors
/// Where standard output cannot be written. A broken pipe ends the program silently in `main`.
pub fn json<T: Serialize>(runs: &[T]) -> anyhow::Result<()> {
    let envelope = Envelope { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), runs };
    let mut text = serde_json::to_string_pretty(&envelope)?;
    text.push('\n');
    self::text(&text)
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
