//! Errors that end a driver.

use crate::left_alone::LeftAlone;
use frostline_core::EngineError;
use frostline_core::policy::PolicyError;
use frostline_linux::LinuxError;
use std::path::PathBuf;

/// A driver cannot begin, or cannot go on. The target is unharmed in every case.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The system refused something that nothing else can replace.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The policy does not exist, or not so.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine cannot be as described.
    #[error(
        "{0}\nhint: a journal that says so is damaged; write one with `frostline run --journal FILE`"
    )]
    Engine(#[from] EngineError),
    /// The policy needs to know what nothing here can tell.
    #[error("policy {policy} needs {what}, which this system cannot give\nhint: {hint}")]
    Telemetry {
        /// As the user wrote it.
        policy: String,
        /// What is missing.
        what: &'static str,
        /// What would help.
        hint: String,
    },
    /// The journal cannot be written or read.
    #[error("journal {}: {what}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The journal says what cannot be.
    #[error("journal {}: byte {at}: {what}\nhint: {hint}", path.display())]
    Unbelievable {
        /// The file.
        path: PathBuf,
        /// Where the entry begins.
        at: u64,
        /// What cannot be.
        what: String,
        /// What helps.
        hint: String,
    },
    /// Another frostline has this target.
    #[error(
        "process {pid} is already managed by frostline, process {owner}\nhint: stop that one first; `frostline status` lists what runs"
    )]
    Managed {
        /// The target.
        pid: u32,
        /// The other frostline.
        owner: u32,
    },
    /// The user has named a process that is never managed.
    #[error(
        "process {pid} is left alone: {why}\nhint: name the program whose memory is to be tiered"
    )]
    LeftAlone {
        /// The process.
        pid: u32,
        /// Why.
        why: LeftAlone,
    },
    /// None of the targets runs.
    #[error(
        "no process to manage: {0}\nhint: give the number of a running process, or a cgroup that has some"
    )]
    NoTarget(String),
}
