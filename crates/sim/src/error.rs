//! Errors of a simulation.

use frostline_core::spec::SpecError;
use frostline_core::{EngineError, Foreign, LimitError};
use frostline_trace::TraceError;
use std::path::PathBuf;

/// Errors of describing a machine and of replaying a trace on it.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A description (machine, fast size) cannot be understood; carries its hint.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A machine file cannot be read.
    #[error("machine file {path}: {source}\nhint: name a preset ({presets}) or a TOML file", path = path.display())]
    MachineFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
        /// Names that would be known.
        presets: String,
    },
    /// A machine description contradicts itself or has unknown keys.
    #[error("machine `{name}`: {what}\nhint: {hint}")]
    Machine {
        /// The machine as named.
        name: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        hint: String,
    },
    /// Tiers that no engine can have.
    #[error("{0}\nhint: `frostline list machines` shows what machines are made of")]
    Engine(#[from] EngineError),
    /// More memory than what exists accounts for.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The trace touches no memory.
    #[error("the trace holds no access\nhint: `frostline trace info` shows what it holds")]
    EmptyTrace,
    /// All tiers together are too small for the program.
    #[error(
        "all tiers are full after {resident_bytes} bytes: no room for another {wanted_bytes} bytes\n\
         hint: leave the slowest tier's capacity out (it then takes whatever is needed), or raise it"
    )]
    OutOfMemory {
        /// Resident when it happened.
        resident_bytes: u64,
        /// What was to be allocated.
        wanted_bytes: u64,
    },
    /// A guest has no free frame left.
    #[error(
        "a guest's memory is full with {mapped_bytes} bytes in use\n\
         hint: give it more: --guest NAME:memory=200%"
    )]
    GuestOutOfMemory {
        /// In use when it happened.
        mapped_bytes: u64,
    },
    /// Traces that cannot run side by side.
    #[error(
        "{one} and {other} do not fit together: their clocks or their thinning differ\n\
         hint: generate both with the same thin=, or record both"
    )]
    Unlike {
        /// The first.
        one: Foreign,
        /// One with another clock or thinning.
        other: Foreign,
    },
    /// More memory in all than pages can be numbered.
    #[error("the programs have more than 8 TiB together\nhint: take fewer")]
    TooManyPages,
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
}
