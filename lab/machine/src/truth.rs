//! Truth about a run, as the machine has counted it (`docs/reference/formats/lab-memory.md`).

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::{AddAssign, Sub};

/// Nodes that are told apart.
const NODES: usize = 4;

/// Accesses that missed the last-level cache, by node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    /// Loads.
    pub loads: [u64; NODES],
    /// Stores.
    pub stores: [u64; NODES],
}

impl Counts {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.loads.iter().chain(&self.stores).sum()
    }

    /// The share that node 0 served, 0 to 1; 1 where there were none.
    pub fn fast_share(&self) -> f64 {
        match self.all() {
            0 => 1.0,
            all => (self.loads[0] + self.stores[0]) as f64 / all as f64,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for node in 0..NODES {
            self.loads[node] += other.loads[node];
            self.stores[node] += other.stores[node];
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    /// Counts only grow; where the right side is larger, nothing is left.
    fn sub(self, before: Self) -> Self {
        let minus = |now: [u64; NODES], before: [u64; NODES]| {
            std::array::from_fn(|node| now[node].saturating_sub(before[node]))
        };
        Self { loads: minus(self.loads, before.loads), stores: minus(self.stores, before.stores) }
    }
}

/// Why counts were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// The guest asked for it.
    Mark,
    /// An interval is over.
    Interval,
    /// The machine was switched off.
    End,
}

/// A process's counts so far.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// Why it was written.
    pub why: Why,
    /// The last number that the guest gave.
    pub mark: u64,
    /// Time of the machine.
    pub time_ns: u64,
    /// Process.
    pub tgid: u32,
    /// Its name, cut to 15 characters, or that of one of its threads that ran last.
    pub comm: String,
    /// Its accesses.
    #[serde(flatten)]
    pub counts: Counts,
}

/// All that was written.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// In order of time.
    pub lines: Vec<Line>,
}

impl Truth {
    /// Reads it.
    ///
    /// # Errors
    /// Where a line is not as it should be.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().enumerate().map(|(i, line)| {
            serde_json::from_str(line).with_context(|| format!("line {} of the truth", i + 1))
        });
        Ok(Self { lines: lines.collect::<anyhow::Result<_>>()? })
    }

    /// Processes that had this name at any time.
    fn processes(&self, comm: &str) -> BTreeSet<u32> {
        self.lines.iter().filter(|line| line.comm == comm).map(|line| line.tgid).collect()
    }

    /// What processes of this name had done when the guest gave this number.
    pub fn at_mark(&self, comm: &str, mark: u64) -> Counts {
        let processes = self.processes(comm);
        let mut sum = Counts::default();
        for line in &self.lines {
            if line.why == Why::Mark && line.mark == mark && processes.contains(&line.tgid) {
                sum += line.counts;
            }
        }
        sum
    }

    /// The same at the ends of intervals between two numbers: time and counts.
    pub fn between(&self, comm: &str, from: u64, to: u64) -> Vec<(u64, Counts)> {
        let processes = self.processes(comm);
        let mut series: Vec<(u64, Counts)> = Vec::new();
        for line in &self.lines {
            let counts = line.why == Why::Interval && (from..to).contains(&line.mark);
            if counts && processes.contains(&line.tgid) {
                match series.last_mut() {
                    Some((time, counts)) if *time == line.time_ns => *counts += line.counts,
                    _ => series.push((line.time_ns, line.counts)),
                }
            }
        }
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"why":"mark","mark":1,"time_ns":5,"tgid":7,"comm":"a","loads":[1,2,0,0],"stores":[0,1,0,0]}
{"why":"mark","mark":1,"time_ns":5,"tgid":8,"comm":"a","loads":[1,0,0,0],"stores":[0,0,0,0]}
{"why":"interval","mark":1,"time_ns":6,"tgid":7,"comm":"a thread","loads":[3,2,0,0],"stores":[0,1,0,0]}
{"why":"mark","mark":2,"time_ns":9,"tgid":7,"comm":"a thread","loads":[7,3,0,0],"stores":[2,1,0,0]}
{"why":"end","mark":2,"time_ns":9,"tgid":0,"comm":"kernel","loads":[7,3,0,0],"stores":[2,1,0,0]}
"#;

    #[test]
    fn counts_between_marks() {
        let truth = Truth::parse(TEXT).expect("well-formed");
        let before = truth.at_mark("a", 1);
        assert_eq!(before.all(), 5);
        let worked = truth.at_mark("a", 2) - before;
        assert_eq!((worked.loads, worked.stores), ([5, 1, 0, 0], [2, 0, 0, 0]));
        assert!((worked.fast_share() - 7.0 / 8.0).abs() < 1e-12);
        assert_eq!(truth.between("a", 1, 2).len(), 1);
        assert!(Counts::default().fast_share() >= 1.0);
        assert!(Truth::parse("{}").is_err());
    }
}
