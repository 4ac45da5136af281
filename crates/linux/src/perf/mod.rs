//! Records of the kernel's performance events: page faults, tracepoints, hardware samples.
//!
//! Events are opened on each thread of a program and each processor, and are inherited by what
//! these threads start. That costs a file descriptor for each thread that is there at first, and a
//! little time for each thread that is started later, both times the number of processors. Where
//! there are more threads than descriptors, the whole system is watched instead, and what others
//! do is dropped.

mod collector;
pub mod faults;
pub mod pmu;
pub mod record;
pub mod tracefs;
pub mod tracepoints;

pub(crate) use collector::{Collector, Spec};

use rustix::time::{ClockId, clock_gettime};

/// Bytes of a processor's ring, unless asked for otherwise: what a user without rights may lock
/// for one collector (`/proc/sys/kernel/perf_event_mlock_kb`, 516 KiB with the header page).
pub const RING_BYTES: usize = 512 << 10;
/// A record may reach its ring this long after the time that it carries; those of different
/// processors are put in order only when they are older.
pub(crate) const SETTLE_NS: u64 = 1_000_000;

/// When watching starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When the process executes another program: for a child that waits to become it.
    OnExec,
}

/// A process started, changed its program or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// A watched process started another one, which is watched, too.
    Forked {
        /// Parent.
        parent: u32,
        /// Child.
        child: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
    /// The process executes another program: its mappings are gone.
    Executed {
        /// The process.
        pid: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
    /// The process's main thread has ended. Other threads may go on for a while.
    Exited {
        /// The process.
        pid: u32,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
}

/// What collecting has cost us so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls of `poll`.
    pub polls: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Events opened.
    pub opened: u64,
    /// Bytes of records read.
    pub bytes: u64,
    /// Nanoseconds of processor time spent inside `poll`, the receiver's part included.
    pub busy_ns: u64,
    /// Records that made no sense; 0 unless something is broken.
    pub malformed: u64,
}

/// Now, in nanoseconds of `CLOCK_MONOTONIC`: the clock of all records.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Processor time that the calling thread has used, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests;
