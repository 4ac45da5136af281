//! Header of a trace.

use frostline_core::Foreign;
use serde::{Deserialize, Serialize};

/// Geometry of a modelled cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheModel {
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Line size in bytes.
    pub line_bytes: u32,
}

/// What the clock of a trace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockUnit {
    /// Guest instructions retired, over all threads of the trace.
    Instructions,
    /// Nanoseconds of real time.
    Nanoseconds,
}

/// Describes a whole trace. Stored as JSON in the header of the native format, so that fields can
/// be added without a new version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Program and what made the trace, for people: `redis-server`, `synth:zipf:...`.
    pub name: Foreign,
    /// Program and its arguments; empty for synthetic traces.
    #[serde(default)]
    pub command: Vec<Foreign>,
    /// Who wrote it: `frostline 0.1.0 valgrind 3.19.0`.
    #[serde(default)]
    pub recorder: Foreign,
    /// CPU model that the program saw.
    #[serde(default)]
    pub cpu_model: Foreign,
    /// First-level data cache in front of the touched-page sets, where modelled.
    #[serde(default)]
    pub l1: Option<CacheModel>,
    /// Last-level cache in front of the records, where modelled.
    #[serde(default)]
    pub llc: Option<CacheModel>,
    /// Unit of all clocks.
    pub clock: ClockUnit,
    /// Clock units between touched-page sets; 0 where there are none.
    #[serde(default)]
    pub epoch_length: u64,
    /// One record stands for this many accesses; 1 unless thinned.
    #[serde(default = "one")]
    pub thinning: u32,
    /// Seed of a synthetic trace.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Number of records, where known beforehand (progress display).
    #[serde(default)]
    pub expected_records: Option<u64>,
    /// Page ids to be expected, where known beforehand: all ids are below it.
    #[serde(default)]
    pub expected_pages: Option<u32>,
}

fn one() -> u32 {
    1
}

impl TraceHeader {
    /// A header with a name and everything else unknown; clock in instructions.
    pub fn named(name: impl Into<Foreign>) -> Self {
        Self {
            name: name.into(),
            command: Vec::new(),
            recorder: Foreign::default(),
            cpu_model: Foreign::default(),
            l1: None,
            llc: None,
            clock: ClockUnit::Instructions,
            epoch_length: 0,
            thinning: 1,
            seed: None,
            expected_records: None,
            expected_pages: None,
        }
    }
}
