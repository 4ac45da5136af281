//! What is printed in the end.

use crate::shared::Findings;
use crate::worker::Done;
use serde::Serialize;
use std::io::{self, Write};

/// Version of the JSON's meaning; raised when a field changes or goes, not when one comes.
const SCHEMA: u32 = 1;

/// What ended the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The time was over.
    Time,
    /// A signal.
    Signal,
    /// Memory that was not as written.
    Mismatch,
}

/// A run in numbers.
#[derive(Debug, Serialize)]
pub struct Summary {
    schema: u32,
    version: &'static str,
    pages: u32,
    hot_pages: u64,
    /// Time of the accesses: without filling the memory and the final check.
    seconds: f64,
    operations_per_second: f64,
    #[serde(flatten)]
    done: Done,
    /// How often the hot set changed.
    shifts: u32,
    mismatches: u64,
    ended_by: End,
    /// Operations of each whole second.
    per_second: Vec<u64>,
}

/// What the summary is made of.
#[derive(Debug)]
pub struct Parts {
    pub pages: u32,
    pub hot_pages: u64,
    pub seconds: f64,
    pub done: Done,
    pub shifts: u32,
    pub signalled: bool,
    pub per_second: Vec<u64>,
}

impl Summary {
    /// Of a run that is over.
    pub fn new(parts: Parts, findings: &Findings) -> Self {
        let ended_by = match (findings.count, parts.signalled) {
            (0, false) => End::Time,
            (0, true) => End::Signal,
            _ => End::Mismatch,
        };
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            pages: parts.pages,
            hot_pages: parts.hot_pages,
            seconds: parts.seconds,
            operations_per_second: parts.done.operations as f64 / parts.seconds.max(1e-9),
            done: parts.done,
            shifts: parts.shifts,
            mismatches: findings.count,
            ended_by,
            per_second: parts.per_second,
        }
    }

    /// Prints to standard output.
    ///
    /// # Errors
    /// Where it cannot be written, or a reader has gone.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut out, self)?;
            writeln!(out)?;
        } else {
            out.write_all(self.text().as_bytes())?;
        }
        Ok(out.flush()?)
    }

    fn text(&self) -> String {
        let Done { operations, writes, cold_accesses, verified_pages, .. } = self.done;
        let mut lines = vec![
            format!("pages           {} ({} hot)", self.pages, self.hot_pages),
            format!("seconds         {:.3}", self.seconds),
            format!(
                "operations      {operations} ({writes} writes, {cold_accesses} to cold pages)"
            ),
            format!("operations/s    {:.0}", self.operations_per_second),
            format!("verified pages  {verified_pages}"),
            format!("mismatches      {}", self.mismatches),
        ];
        for (name, n) in [
            ("forks", self.done.forks),
            ("areas mapped", self.done.areas_mapped),
            ("hot set changes", u64::from(self.shifts)),
        ] {
            if n > 0 {
                lines.push(format!("{name:15} {n}"));
            }
        }
        lines.join("\n") + "\n"
    }
}
