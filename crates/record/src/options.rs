//! Options of a recording.

use crate::error::RecordError;
use std::path::PathBuf;
/// Line size of the modelled caches in bytes.
pub(crate) const LINE_BYTES: u32 = 64;
/// What the tool can index with its 32-bit tags.
const MIN_SETS: u64 = 128;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// Last-level cache in bytes. Default 2 MiB.
    pub llc_bytes: u64,
    /// Its associativity, 1 to 64. `llc_bytes / (64 * ways)` is a power of two, at least 128.
    /// Default 16.
    pub llc_ways: u32,
    /// Direct-mapped first level, as large for data as for code, in bytes; a power of two, 64 B to
    /// 4 MiB. Default 32 KiB.
    pub l1_bytes: u64,
    /// Instructions between two sets of touched pages, at least 1000. Default 20 million.
    pub epoch: u64,
    /// Model instruction fetches. Default true.
    pub fetch: bool,
    /// Record what the program forks, and (except under QEMU) executes, too. Default false.
    pub follow: bool,
    /// Stop recording at this size of the trace in bytes; the program goes on. Default: never.
    pub max_bytes: Option<u64>,
    /// A file for what the program writes to standard output and standard error; it finds nothing
    /// in standard input then. Default: ours are the program's, too.
    pub output: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            llc_bytes: 2 << 20,
            llc_ways: 16,
            l1_bytes: 32 << 10,
            epoch: 20_000_000,
            fetch: true,
            follow: false,
            max_bytes: None,
            output: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), RecordError> {
        let refuse = |what: String, hint: &str| Err(RecordError::Cache { what, hint: hint.into() });
        if !(1..=64).contains(&self.llc_ways) {
            return refuse(format!("{} ways", self.llc_ways), "1 to 64 ways can be modelled");
        }
        let set_bytes = u64::from(self.llc_ways) * u64::from(LINE_BYTES);
        let sets = self.llc_bytes / set_bytes;
        if !self.llc_bytes.is_multiple_of(set_bytes) || !sets.is_power_of_two() || sets < MIN_SETS {
            let what = format!("{} bytes in {} ways", self.llc_bytes, self.llc_ways);
            return refuse(what, "size / (64 * ways) must be a power of two, at least 128");
        }
        if !self.l1_bytes.is_power_of_two() || !(64..=4 << 20).contains(&self.l1_bytes) {
            return refuse(
                format!("a first level of {} bytes", self.l1_bytes),
                "a power of two from 64 to 4194304 can be modelled",
            );
        }
        if self.epoch < 1000 {
            return refuse(format!("epochs of {}", self.epoch), "1000 instructions at least");
        }
        Ok(())
    }
}
