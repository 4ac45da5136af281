//! Cache misses of this program, counted by cachegrind as it runs once more.

use std::ffi::OsStr;
use std::process::Command;

/// Misses of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Misses {
    pub first_level: u64,
    pub last_level: u64,
}

impl Misses {
    /// Of the first and of the last level.
    pub fn each(self) -> [f64; 2] {
        [self.first_level as f64, self.last_level as f64]
    }

    /// Those that another run does not have.
    pub fn beyond(self, other: Self) -> Self {
        Self {
            first_level: self.first_level.saturating_sub(other.first_level),
            last_level: self.last_level.saturating_sub(other.last_level),
        }
    }
}

/// Runs this program with these arguments on a first-level data cache and a last-level cache of so
/// many bytes, of 8 and 16 ways.
pub fn measure(caches: [u32; 2], args: &[&OsStr]) -> Result<Misses, String> {
    let [first, last] = caches;
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args([format!("--D1={first},8,64"), format!("--LL={last},16,64")])
        .arg(itself)
        .args(args)
        .output()
        .map_err(|error| format!("valgrind: {error}\nhint: apt-get install valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{args:?} under valgrind: {text}"));
    }
    let count = |what: &str| {
        let line = text.lines().find(|line| line.contains(what));
        let number = line.and_then(|line| line.split(what).nth(1)?.split_whitespace().next());
        let number = number.and_then(|number| number.replace(',', "").parse().ok());
        number.ok_or_else(|| format!("no `{what}` in {text}"))
    };
    Ok(Misses { first_level: count("D1  misses:")?, last_level: count("LLd misses:")? })
}
