//! Summary that is printed at the end.

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
    /// For every hot set that has one of its own for so long, the whole seconds until there is a
    /// second of [`RECOVERED`] of the most operations under it.
    reaction_seconds: Vec<usize>,
}

/// Share of the best throughput at which a program has recovered from a change (PET, section 5.2.3).
const RECOVERED: f64 = 0.95;

/// What the summary is made of.
#[derive(Debug)]
pub struct Parts {
    pub pages: u32,
    pub hot_pages: u64,
    pub seconds: f64,
    pub done: Done,
    pub shifts: u32,
    /// Seconds from change to change, where time says when.
    pub shift: Option<f64>,
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
            reaction_seconds: reactions(&parts.per_second, parts.shift),
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
        if !self.reaction_seconds.is_empty() {
            let seconds: Vec<String> = self.reaction_seconds.iter().map(usize::to_string).collect();
            lines.push(format!("seconds to 95 % {} (after each change)", seconds.join(" ")));
        }
        lines.join("\n") + "\n"
    }
}

/// Whole seconds after each change until the operations of one have recovered; none where changes
/// do not come by time, or so often that a second sees several.
fn reactions(per_second: &[u64], shift: Option<f64>) -> Vec<usize> {
    let Some(shift) = shift.filter(|shift| *shift >= 2.0) else { return Vec::new() };
    let at = |change: usize| ((change as f64 * shift).ceil() as usize).min(per_second.len());
    let under = (1..).map(|change| &per_second[at(change)..at(change + 1)]);
    under
        .take_while(|operations| !operations.is_empty())
        .map(|operations| {
            let most = operations.iter().copied().max().unwrap_or(0) as f64;
            let recovered = |n: &u64| *n as f64 >= most * RECOVERED;
            operations.iter().position(recovered).unwrap_or(operations.len())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_is_the_time_until_the_best_is_nearly_reached_again() {
        let log = [100, 99, 98, 10, 50, 96, 100, 40, 97, 99];
        assert_eq!(reactions(&log, Some(3.0)), [2, 0, 0]);
        assert_eq!(reactions(&log, Some(3.5)), [1, 1]);
        assert_eq!(reactions(&log[..3], Some(3.0)), [0; 0], "nothing changed");
        assert_eq!(reactions(&log, Some(0.3)), [0; 0]);
        assert_eq!(reactions(&log, None), [0; 0]);
    }
}
