//! Results of a tournament: a file with a line of JSON for each case, so that what is interrupted goes on.

use super::matrix::Unit;
use anyhow::Context;
use frostline_terminal::progress::note;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What a policy has reached in a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// Modelled run time.
    pub seconds: f64,
    /// Of what no placement can beat; none where there is no bound.
    pub share_of_bound: Option<f64>,
}

/// A trace with a size of fast memory on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Family that the trace is of.
    pub family: String,
    /// The trace.
    pub trace: String,
    /// The machine model.
    pub machine: String,
    /// Size of fast memory.
    pub fast: String,
    /// Version of the program; results of another one are not gone on with.
    pub version: String,
    /// By policy.
    pub policies: BTreeMap<String, Reached>,
}

/// Cases that were played, and the file that they are noted in.
#[derive(Debug)]
pub struct Results {
    cases: Vec<Case>,
    file: File,
}

impl Results {
    /// Reads what is there. A line that is not whole, as the last one after a kill, is cut off.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that has something else in it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            other => other.with_context(named)?,
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let read = |(number, line): (usize, &str)| {
            let at = || format!("{}:{}", path.display(), number + 1);
            serde_json::from_str(line).with_context(at)
        };
        let cases = text[..whole].lines().enumerate().map(read).collect::<anyhow::Result<_>>()?;
        let options = OpenOptions::new().create(true).append(true).open(path);
        let file = options.with_context(named)?;
        if whole < text.len() {
            file.set_len(whole as u64).with_context(named)?;
            note(&format!("{}: the last line is not whole, and played again", path.display()));
        }
        Ok(Self { cases, file })
    }

    /// Whether a case was played with all these policies, by this version.
    pub fn has(&self, unit: &Unit<'_>, fast: &str, policies: &[String]) -> bool {
        self.cases.iter().any(|case| {
            is_of(case, unit)
                && case.fast == fast
                && case.version == env!("CARGO_PKG_VERSION")
                && policies.iter().all(|policy| case.policies.contains_key(policy))
        })
    }

    /// Notes a case, on the disk as well; it takes the place of an older one.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn add(&mut self, case: Case) -> anyhow::Result<()> {
        let line = serde_json::to_string(&case)? + "\n";
        self.file.write_all(line.as_bytes()).context("cannot note a result")?;
        self.cases.push(case);
        Ok(())
    }

    /// The last result of each case of `units`.
    pub fn of(&self, units: &[Unit<'_>]) -> Vec<&Case> {
        let mut last = BTreeMap::new();
        for case in self.cases.iter().filter(|case| units.iter().any(|unit| is_of(case, unit))) {
            last.insert((&case.family, &case.trace, &case.machine, &case.fast), case);
        }
        last.into_values().collect()
    }
}

fn is_of(case: &Case, unit: &Unit<'_>) -> bool {
    (&*case.family, &*case.trace, &*case.machine) == (unit.family, unit.trace, unit.machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_interrupted_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results");
        let unit = Unit { family: "f", trace: "t", machine: "m" };
        let case = |fast: &str, seconds| Case {
            family: "f".into(),
            trace: "t".into(),
            machine: "m".into(),
            fast: fast.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            policies: [("lru".into(), Reached { seconds, share_of_bound: None })].into(),
        };
        let mut results = Results::open(&path).expect("new");
        results.add(case("1:2", 1.0)).expect("written");
        results.add(case("1:8", 2.0)).expect("written");
        results.add(case("1:8", 3.0)).expect("written");
        drop(results);
        // Killed while it wrote.
        let whole = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(&path, whole.clone() + "{\"family\":").expect("written");
        let results = Results::open(&path).expect("there");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), whole, "cut off");
        let lru = ["lru".to_owned()];
        assert!(results.has(&unit, "1:2", &lru) && !results.has(&unit, "1:16", &lru));
        assert!(!results.has(&unit, "1:2", &["lru".to_owned(), "fifo".to_owned()]));
        let last: Vec<f64> =
            results.of(&[unit]).iter().map(|case| case.policies["lru"].seconds).collect();
        assert_eq!(last, [1.0, 3.0]);
        std::fs::write(&path, "no result\n").expect("written");
        assert!(Results::open(&path).is_err());
    }
}
