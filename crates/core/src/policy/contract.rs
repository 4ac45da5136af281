//! The contract between a policy and the engine.

use crate::action::Plan;
use crate::budget::Budget;
use crate::event::{Event, Fault};
use crate::hotness::histogram::BINS;
use crate::placement::View;
use crate::spec::SpecError;
use crate::types::*;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Answer to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDecision {
    /// Serve the access where the page is (a tier without direct access cannot: it must move).
    Stay,
    /// Move the page now, before the access continues; falls back to staying where full.
    MoveHere(TierId),
    /// Swap places with this page now.
    Exchange(PageId),
}

/// Memory that a page fault is about to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The page, or the 512 of its region where `huge`.
    pub run: PageRun,
    /// The world is about to map a 2 MiB folio.
    pub huge: bool,
    /// It is about to map a base page, and can map a folio of its region instead.
    pub may_be_huge: bool,
    /// The faulting process.
    pub process: ProcessId,
}

/// Where new memory shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Home {
    /// The tier; the next slower one with room where it has none.
    pub tier: TierId,
    /// Share of the fastest tier, `[0, 1)`, that stays free there: the memory goes to a slower tier
    /// sooner than below it.
    pub leave_free: f64,
    /// Size of its pages; `None` leaves it to the world, as do worlds that cannot choose.
    pub size: Option<PageSize>,
}

/// Size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    Base,
    /// 2 MiB.
    Folio,
}

/// Where new memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The tier.
    pub tier: TierId,
    /// A folio of the page's region, else the pages that were asked for as they were.
    pub huge: bool,
}

impl From<TierId> for Home {
    fn from(tier: TierId) -> Self {
        Self { tier, leave_free: 0.0, size: None }
    }
}

impl Default for Home {
    /// The fastest tier, down to its last page.
    fn default() -> Self {
        TierId::FAST.into()
    }
}

/// Receives a policy's counters: name (`snake_case`, unit last) and value.
pub type MetricSink<'a> = dyn FnMut(&str, f64) + 'a;

/// Decides where pages ought to be. It proposes; the engine checks and decides.
///
/// Object safe, deterministic: the same calls give the same proposals. A policy may hold a seeded
/// [`crate::rng::Rng`], never a clock.
pub trait Policy: Send {
    /// Takes in a batch of events, oldest first. The engine has applied them already: `view` is
    /// the state after the batch. The default takes in nothing.
    fn observe(&mut self, now: Nanos, events: &[Event], view: &View<'_>) {
        let _ = (now, events, view);
    }

    /// Proposes actions. Called when [`Self::next_wakeup`] has come. The default proposes nothing.
    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        let _ = (now, view, budget, plan);
    }

    /// When `decide` shall run next; `None`, the default, never. A time that has passed means at
    /// once.
    fn next_wakeup(&self) -> Option<Nanos> {
        None
    }

    /// Answers a touch of an armed page, or of a page in a tier without direct access, while the
    /// program waits. The default stays.
    fn on_fault(&mut self, now: Nanos, fault: &Fault, view: &View<'_>) -> FaultDecision {
        let _ = (now, fault, view);
        FaultDecision::Stay
    }

    /// Names pages that shall leave the fastest tier at once, since memory is needed there and none is
    /// free: about `wanted` of them, the first one first. A folio is named by any of its pages. The
    /// program waits. The world chooses itself where these do not suffice, as it does by default.
    fn victims(&mut self, now: Nanos, wanted: PageCount, view: &View<'_>, out: &mut Vec<PageId>) {
        let _ = (now, wanted, view, out);
    }

    /// Where new memory shall be allocated, where the world can choose (the simulator). The default is
    /// the fastest tier. A policy that names another one says so by
    /// [`Facts::starts_slow`](super::facts::Facts::starts_slow), unless it runs in simulations only.
    fn place(&mut self, now: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        let _ = (now, allocation, view);
        Home::default()
    }

    /// Entries of its tables that it has gone over since the last call, beside what events brought: a
    /// world that models costs charges them. The default is none.
    fn take_entries(&mut self) -> u64 {
        0
    }

    /// Reports counters and gauges.
    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let _ = sink;
    }

    /// Bytes of all per-page and other growing state.
    fn metadata_bytes(&self) -> Bytes;

    /// Sizes of its page classes in pages `[hot, warm, cold]`, where it has such classes.
    fn classes(&self) -> Option<[u64; 3]> {
        None
    }

    /// Pages by hotness, where it keeps such a histogram.
    fn hotness(&self) -> Option<HotnessBins> {
        None
    }

    /// Bin of [`Self::hotness`] in which a page is counted; `None` for pages that it does not know.
    fn bin_of(&self, page: PageId) -> Option<usize> {
        let _ = page;
        None
    }
}

/// A histogram of hotness, and where its classes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotnessBins {
    /// Least hotness of each bin, in the policy's own unit.
    pub least: [u32; BINS],
    /// Pages in each bin.
    pub pages: [u64; BINS],
    /// Least bin of hot pages.
    pub hot: i8,
    /// Least bin of warm pages; the same where there are none.
    pub warm: i8,
}

/// A policy cannot be made as described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PolicyError {
    /// What is wrong, and a hint.
    pub what: String,
}

/// A policy ready for an engine.
pub type BoxedPolicy = Box<dyn Policy>;

impl From<SpecError> for PolicyError {
    fn from(error: SpecError) -> Self {
        Self { what: error.to_string() }
    }
}
