//! Tally of a campaign of kills.

use super::rounds::Way;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::AddAssign;

/// Of one way.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Frostlines that were killed, and those that had ended before the signal came.
    pub killed: u64,
    pub ended: u64,
    /// Kills after which pages were in swap, or the library in the program.
    pub out: u64,
    /// Pages of which programs have checked every byte.
    pub verified: u64,
    /// Entries of the list of changes that kills have left, by kind.
    pub left: BTreeMap<String, u64>,
    /// Kills after which nothing was left.
    pub nothing_left: u64,
    /// How often `clean` has kept a device on which there were pages.
    pub kept: u64,
    /// Journals that could be replayed, and the actions in them.
    pub journals: u64,
    pub actions: u64,
    /// Whether there was another frostline's device, on which pages may have been instead.
    pub shared: bool,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.killed += other.killed;
        self.ended += other.ended;
        self.out += other.out;
        self.verified += other.verified;
        self.nothing_left += other.nothing_left;
        self.kept += other.kept;
        self.journals += other.journals;
        self.actions += other.actions;
        self.shared |= other.shared;
        for (kind, count) in other.left {
            *self.left.entry(kind).or_default() += count;
        }
    }
}

impl Tally {
    pub fn line(&self, way: Way) -> String {
        let left: Vec<String> = self.left.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let left = if left.is_empty() { "nothing".into() } else { left.join(", ") };
        format!(
            "{way:?}: {} killed, {} with pages out, {} pages verified, left and cleaned up: {left}",
            self.killed, self.out, self.verified
        )
    }

    /// Checks that it was what it is for.
    pub fn check(&self, way: Way) {
        let rounds = self.killed + self.ended;
        if rounds == 0 {
            // Skipped, which was said.
            return;
        }
        assert!(
            self.killed * 2 > self.ended && self.out > 0 && self.verified > 0,
            "{way:?} {self:?}"
        );
        if way.takes_swap() {
            assert!(self.left.contains_key("zram") || way == Way::Swap, "{way:?} {self:?}");
        }
        if way == Way::Zram {
            assert!(self.journals > 0 && (self.kept > 0 || self.shared), "{self:?}");
        }
    }
}

/// Tells who watches, although the output of tests that pass is kept back.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn print(seed: u64, tallies: &[(Way, Tally)]) {
    println!("seed {seed}");
    for (way, tally) in tallies {
        println!("{}; in full: {tally:?}", tally.line(*way));
    }
}
