//! Sources of knowledge about accesses.

pub mod allocations;
pub mod choice;
pub mod damon;
mod faults;
pub mod hint_faults;
pub mod idle;
#[cfg(feature = "lab")]
pub mod lab_pmu;
mod looks;
pub mod pmu;
pub mod refaults;
pub mod sweeps;
#[cfg(test)]
mod testing;
pub mod writes;

use frostline_core::event::SampleKind;
use frostline_core::types::Nanos;
use frostline_linux::{LinuxError, Root};
use serde::{Deserialize, Serialize};

pub use frostline_daemon::{Assignment, Sampled, Swept, Touch, TouchKind};

/// Name of the lab's source, which only builds with the feature `lab` have.
const LAB_PMU: &str = "lab-pmu";
/// Polls between two looks for threads that nobody watches.
const RESCAN_POLLS: u32 = 16;

/// When a source that watches threads has to look for new ones.
#[derive(Clone, Copy, Debug, Default)]
struct Rescan {
    polls: u32,
}

impl Rescan {
    /// One more poll: looks where it is time to. That a process has ended is no error.
    fn poll(&mut self, look: impl FnOnce() -> Result<usize, LinuxError>) -> Result<(), LinuxError> {
        self.polls += 1;
        if !self.polls.is_multiple_of(RESCAN_POLLS) {
            return Ok(());
        }
        match look() {
            Err(error) if !error.is_gone() => Err(error),
            _ => Ok(()),
        }
    }
}

/// What a source reports about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Accesses reported.
    pub touches: u64,
    /// Accesses that it knows to have missed.
    pub lost: u64,
    /// Processor time that it has taken, in our process or in the kernel's thread for us.
    pub cpu: Nanos,
}

/// Memory that was in use of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Touched within the time (bytes).
    pub touched_bytes: u64,
    /// All that was in memory (bytes).
    pub resident_bytes: u64,
    /// The time.
    pub within: Nanos,
}

/// A source of knowledge about accesses.
pub trait Source {
    /// As users see it, such as `refaults`.
    fn name(&self) -> &'static str;

    /// Watches another process; `child` where a watched one has started it.
    ///
    /// # Errors
    /// Where rights are missing or the process has ended.
    fn attach(&mut self, root: &Root, pid: u32, child: bool) -> Result<(), LinuxError>;

    /// Watches a process no longer that runs on, as far as it can: what is still seen of it is of no use.
    fn detach(&mut self, root: &Root, pid: u32) {
        let _ = (root, pid);
    }

    /// Hands over what has been seen since the last call.
    ///
    /// # Errors
    /// Where the source has broken down for good.
    fn poll(&mut self, root: &Root, sink: &mut dyn FnMut(Touch)) -> Result<(), LinuxError>;

    /// How many pages it wants to be given to watch now; 0 for a source that sees all.
    fn wants_pages(&self, now: Nanos) -> usize {
        let _ = now;
        0
    }

    /// Watches these pages from now on, and no others.
    ///
    /// # Errors
    /// Where the source has broken down for good.
    fn watch(&mut self, now: Nanos, assigned: Assignment<'_>) -> Result<(), LinuxError> {
        let _ = (now, assigned);
        Ok(())
    }

    /// Whether it sees all that is touched in slower tiers, so that others need to look at the
    /// fastest only.
    fn sees_slower_tiers(&self) -> bool {
        false
    }

    /// Samples wanted, one per so many accesses; 0 for none. A source that cannot count accesses
    /// takes no notice.
    fn set_period(&mut self, kind: SampleKind, period: u32) {
        let _ = (kind, period);
    }

    /// Itself, where it follows allocations.
    fn allocations(&mut self) -> Option<&mut allocations::Allocations> {
        None
    }

    /// Pages that it has looked at so far, to know what one costs; 0 for a source that is told.
    fn pages_looked_at(&self) -> u64 {
        0
    }

    /// Memory that was in use of late, where it looks at all that there is, or at some of it in turn.
    fn working_set(&self) -> Option<WorkingSet> {
        None
    }

    /// Sweeps over all memory of all processes that it watches, where it makes any.
    fn swept(&self) -> Option<Swept> {
        None
    }

    /// Memory that it shares with the kernel, beside what it allocates.
    fn buffer_bytes(&self) -> u64 {
        0
    }

    /// Is content with less memory from now on, where it can be.
    fn save_memory(&mut self) {}

    /// What it has done so far.
    fn stats(&self) -> SourceStats;
}
