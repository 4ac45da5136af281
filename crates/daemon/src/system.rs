//! System on which a daemon runs, as far as the daemon needs it.

use crate::accounts::Account;
use crate::loss::Spent;
use crate::unit::{Found, Unit};
use alloc::vec::Vec;
use frostline_core::action::Action;
use frostline_core::event::{Backing, Event, Fault, MoveOutcome, SampleKind};
use frostline_core::span::{ExtentChange, Span};
use frostline_core::types::*;

/// Change of a process that is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is managed from now on; nothing of it is known yet.
    Began,
    /// It has mapped, unmapped or moved address space.
    Extent(ExtentChange),
    /// It executes another program. That its memory is gone has been told before.
    Executed,
    /// It has ended, or is managed no longer.
    Ended,
}

/// State of all processes that are managed, as a refresh has found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// What they have in memory and in swap, as the system counts it.
    pub resident: PageCount,
    /// Whether that has grown or shrunk noticeably for any of them.
    pub changed: bool,
}

impl Refreshed {
    /// Whether the size of a process's memory has changed noticeably since it was `known`: by more
    /// than one page in 256.
    pub fn is_other_size(known: u64, now: u64) -> bool {
        now.abs_diff(known) > known / 256
    }
}

/// An access that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the process.
    pub pid: u32,
    /// The page.
    pub page: Vpn,
    /// How it was seen.
    pub kind: TouchKind,
}

/// How an access was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchKind {
    /// The page was in a tier without direct access and is back in memory.
    Refault,
    /// It was sampled.
    Sample(Sampled),
    /// Its access bit was found set, which had been cleared this long before.
    Accessed(Nanos),
    /// It made a fault that needed no I/O. Says something of pages in slower tiers only: others
    /// fault when they are mapped for the first time, too.
    Fault,
}

/// What a sampler knows of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// What was sampled.
    pub kind: SampleKind,
    /// Whether it missed all caches, where that is known.
    pub missed: Option<bool>,
    /// Whether it walked the page table, where that is known.
    pub walked: Option<bool>,
}

impl From<SampleKind> for Sampled {
    /// An access of which no more is known.
    fn from(kind: SampleKind) -> Self {
        Self { kind, missed: None, walked: None }
    }
}

/// Pages for a watcher, which looks at some of them at a time.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    /// Numbers of processes, and pages of theirs.
    pub pages: &'a [(u32, Vpn)],
    /// Number of pages from which these were taken.
    pub of: u64,
    /// How they were taken.
    pub drawn: Drawn,
}

impl Assignment<'_> {
    /// Number of all pages in memory, where these stand for them.
    pub fn of_all(&self) -> Option<u64> {
        (self.drawn == Drawn::FromAll).then_some(self.of)
    }
}

/// How pages to look at were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// In turn, from all that are in memory.
    FromAll,
    /// In turn, from those in the fastest tier. Somebody else sees the others all the time.
    FromFast,
    /// The policy has asked for them.
    Asked,
}

/// Costs and losses of sampling since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Processor time.
    pub cpu: Nanos,
    /// Accesses that are known to have been missed.
    pub lost: u64,
    /// Sweeps over the access bits of all memory of all processes, where there are any.
    pub swept: Option<Swept>,
}

/// Sweeps over the access bits of all memory of all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many have ended that told all that was touched since the one before.
    pub times: u64,
    /// Time from the one before to the last.
    pub interval: Nanos,
}

/// A touch of a page that was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmedTouch {
    /// The process.
    pub process: ProcessId,
    /// The page.
    pub page: Vpn,
    /// It was a store.
    pub write: bool,
    /// The page was moved to the [destination](System::set_destination) before the touch went on.
    pub moved: bool,
}

/// Entry of the log of an engine: its input, or the actions that followed.
#[derive(Clone, Copy, Debug)]
pub enum LogEntry<'a> {
    /// A batch of events.
    Events(Nanos, &'a [Event]),
    /// The time.
    Timeout(Nanos),
    /// What it wanted done after that.
    Actions(&'a [Action]),
    /// A question about a touch of an armed page.
    Fault(Nanos, Fault),
}

/// Everything outside of a daemon: the kernel of a live machine, or a modelled one.
///
/// A process that ends at any moment is no error of any method: it is told as [`Change::Ended`],
/// as `None`, or as [`MoveOutcome::Gone`].
pub trait System {
    /// Reason why going on makes no sense, such as lost rights.
    type Error;

    /// Processor time that has gone into the daemon, and into what it has had done in its place.
    fn cpu(&self) -> Nanos;

    /// Time that the targets have spent; `None` where nobody counts it.
    ///
    /// # Errors
    /// Where going on makes no sense.
    fn spent(&mut self) -> Result<Option<Spent>, Self::Error> {
        Ok(None)
    }

    /// What processes have done to their address space since the last call, the oldest first, where
    /// that is told at once.
    ///
    /// # Errors
    /// Those of the system.
    fn follow(&mut self, changes: &mut Vec<(ProcessId, Change)>) -> Result<(), Self::Error>;

    /// Finds out who is to be managed. Tells who has come and who has gone.
    ///
    /// # Errors
    /// Those of the system; nobody can be managed for lack of rights.
    fn refresh(&mut self, changes: &mut Vec<(ProcessId, Change)>)
    -> Result<Refreshed, Self::Error>;

    /// Address space in which nothing may be looked at or moved, ascending and apart: what the
    /// daemon needs itself where it lives in a program.
    fn left_out(&self) -> Vec<Span> {
        Vec::new()
    }

    /// How the mappings of a process differ from `known`, ascending and apart. Whether it is still
    /// managed.
    ///
    /// # Errors
    /// Those of the system.
    fn mappings(
        &mut self,
        process: ProcessId,
        known: &[Span],
        left_out: &[Span],
        changes: &mut Vec<ExtentChange>,
    ) -> Result<bool, Self::Error>;

    /// What backs `parts` of the address space of a process: pieces of them, ascending, none left
    /// out.
    fn backing(&self, process: ProcessId, parts: &[Span]) -> Vec<(Span, Backing)>;

    /// The page table of a process is gone: it executes another program or has ended. Whether it is
    /// still managed.
    fn reopen(&mut self, process: ProcessId) -> bool;

    /// Where the pages at the beginning of `span` are, until `most` pages are found: runs in
    /// ascending order, pages in no tier left out. Gives what was looked at, at least one page of a
    /// span that is not empty; `None` where the page table is gone.
    ///
    /// # Errors
    /// Those of the system.
    fn find(
        &mut self,
        process: ProcessId,
        span: Span,
        most: u64,
        runs: &mut Vec<(Span, Found)>,
    ) -> Result<Option<Span>, Self::Error>;

    /// Pages of a span that are in their tier although [`Self::find`] does not see them, ascending.
    fn pages_out(&self, process: ProcessId, span: Span) -> Vec<Vpn> {
        let _ = (process, span);
        Vec::new()
    }

    /// Moves pages of a process to a tier, which holds `taken` pages of all. Tells every page once,
    /// in any order. Pages that are told as moved were found there.
    ///
    /// # Errors
    /// Those of the system.
    fn move_to(
        &mut self,
        process: ProcessId,
        units: &[Unit],
        to: TierId,
        taken: PageCount,
        outcomes: &mut Vec<(Span, MoveOutcome)>,
    ) -> Result<(), Self::Error>;

    /// Splits the folio of the region of `page`, or builds one there; whether that was found done
    /// afterwards.
    ///
    /// # Errors
    /// Those of the system.
    fn reshape(&mut self, process: ProcessId, page: Vpn, split: bool) -> Result<bool, Self::Error>;

    /// Pages that may still come into a tier, which holds `used` of all.
    ///
    /// # Errors
    /// Those of the system.
    fn free(&self, tier: TierId, used: PageCount) -> Result<PageCount, Self::Error>;

    /// Free memory of the whole system.
    ///
    /// # Errors
    /// Those of the system.
    fn available(&mut self) -> Result<Bytes, Self::Error>;

    /// Accesses that were seen since the last call.
    ///
    /// # Errors
    /// Those of the system.
    fn poll(&mut self, touches: &mut Vec<Touch>) -> Result<(), Self::Error>;

    /// Costs and losses of sampling.
    fn sampling(&self) -> Sampling;

    /// Samples wanted, one per so many accesses; 0 for none.
    fn set_period(&mut self, kind: SampleKind, period: u32);

    /// Number of those who look at pages that they are given.
    fn watchers(&self) -> usize;

    /// Pages that a watcher wants to be given now; 0 for none.
    fn wants_pages(&self, watcher: usize, now: Nanos) -> usize;

    /// Has a watcher look at these pages from now on, and at no others.
    ///
    /// # Errors
    /// Those of the system.
    fn watch(
        &mut self,
        watcher: usize,
        now: Nanos,
        assigned: Assignment<'_>,
    ) -> Result<(), Self::Error>;

    /// Whether all that is touched in slower tiers is seen, so that watchers need to look at the
    /// fastest only.
    fn sees_slower_tiers(&self) -> bool {
        false
    }

    /// Events that concern no pages, such as closed files.
    ///
    /// # Errors
    /// Those of the system.
    fn hear(&mut self, now: Nanos, events: &mut Vec<Event>) -> Result<(), Self::Error> {
        let _ = (now, events);
        Ok(())
    }

    /// Demotes a piece of a file that was told of; whether that was the last one.
    ///
    /// # Errors
    /// Those of the system.
    fn demote_file(&mut self, file: u32, account: &mut Account) -> Result<bool, Self::Error> {
        let _ = (file, account);
        Ok(true)
    }

    /// Pages whose next touch can be told at a time, beyond those that fault by themselves.
    fn most_armed(&self) -> usize {
        0
    }

    /// Has the next touch of each of these pages told, ascending, as far as that does no harm.
    /// `known` is what the process has mapped. Gives the number of pages.
    fn arm(&mut self, process: ProcessId, pages: &[Vpn], known: &[Span]) -> u64 {
        let _ = (process, pages, known);
        0
    }

    /// Touches of these pages are told no longer.
    fn disarm(&mut self, process: ProcessId, span: Span) {
        let _ = (process, span);
    }

    /// Does once a second what arming needs. Gives all pages that are armed, ascending.
    fn tend(&mut self) -> Vec<(ProcessId, Vpn)> {
        Vec::new()
    }

    /// Touches of armed pages since the last call. Gives the number of those that were lost.
    fn touched(&mut self, touches: &mut Vec<ArmedTouch>) -> u64 {
        let _ = touches;
        0
    }

    /// Tier to which armed pages are moved as soon as they are touched, as far as there is room for
    /// so many pages; `None` for none.
    fn set_destination(&mut self, to: Option<(TierId, PageCount)>) {
        let _ = to;
    }

    /// Writes down what the engine was told.
    ///
    /// # Errors
    /// Those of the system, such as a full disk.
    fn record(&mut self, told: LogEntry<'_>) -> Result<(), Self::Error> {
        let _ = told;
        Ok(())
    }
}
