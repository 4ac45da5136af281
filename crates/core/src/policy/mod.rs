//! Placement policies, one file each.

#[cfg(test)]
mod absurd_tests;
pub mod autonuma;
pub mod autotiering;
pub mod cache;
pub mod damon;
pub mod hemem;
pub mod hotbox;
pub mod hybridtier;
pub mod interleave;
pub mod kernel;
pub mod memtierd;
pub mod memtis;
pub mod mglru_pd;
pub mod multi_clock;
pub mod nimble;
pub mod offline;
pub mod pet;
pub mod registry;
mod runs;
pub mod settings;
pub mod simple;
pub mod swap_belady;
pub mod swap_lru;
#[cfg(test)]
mod testing;
pub mod thermostat;
pub mod tmts;
pub mod tpp;

pub use offline::{AccessReader, EpochReader, KnownAccess, Oracle, PageSaving};
pub use registry::{Group, PolicyContext, make};
pub use settings::{Param, Settings};

use crate::action::Plan;
use crate::budget::Budget;
use crate::event::{Event, Fault};
use crate::hotness::histogram::BINS;
use crate::placement::View;
use crate::types::*;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Sources of knowledge about accesses that a policy can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// `Sample` events of loads that missed the last-level cache; the period at the start, 0 none.
    pub load_sample_period: u32,
    /// `Sample` events of retired stores; the period at the start, 0 none.
    pub store_sample_period: u32,
    /// `Scan` actions are answered.
    pub access_bits: bool,
    /// `Arm` actions work, and [`Policy::on_fault`] is called.
    pub faults: bool,
    /// Where `faults` are needed: those that pages in swap space have by themselves will do, where
    /// all slower tiers are swap space.
    pub swap_faults: bool,
    /// `Mapped` and `Unmapped` carry original allocation extents.
    pub allocation_extents: bool,
    /// `FileClosed` events come, and `DemoteFile` actions are carried out.
    pub closed_files: bool,
    /// `Counters` events.
    pub counters: bool,
    /// `Epoch` events and knowledge of the whole trace: simulator only.
    pub offline: bool,
}

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
    /// A 2 MiB folio is wanted.
    pub huge: bool,
    /// The faulting process.
    pub process: ProcessId,
}

/// Receives a policy's counters: name (`snake_case`, unit last) and value.
pub type MetricSink<'a> = dyn FnMut(&str, f64) + 'a;

/// Receives a policy's parameters: key and effective value.
pub type ConfigSink<'a> = dyn FnMut(&str, &str) + 'a;

/// Decides where pages ought to be. It proposes; the engine checks and decides.
///
/// Object safe, deterministic: the same calls give the same proposals. A policy may hold a seeded
/// [`crate::rng::Rng`], never a clock.
pub trait Policy: Send {
    /// Name with parameters that differ from their defaults, as a user would write it.
    fn name(&self) -> &str;

    /// What it must be told. The default is nothing.
    fn needs(&self) -> Telemetry {
        Telemetry::default()
    }

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

    /// Tier that touched pages shall go to as far as there is room, for worlds that cannot ask
    /// [`Self::on_fault`] before whoever touches a page goes on, and do so a moment later. The
    /// default leaves them where they are.
    fn touched_pages_go_to(&self) -> Option<TierId> {
        None
    }

    /// Names pages that shall leave the fastest tier at once, since memory is needed there and none is
    /// free: about `wanted` of them, the first one first. A folio is named by any of its pages. The
    /// program waits. The world chooses itself where these do not suffice, as it does by default.
    fn victims(&mut self, now: Nanos, wanted: PageCount, view: &View<'_>, out: &mut Vec<PageId>) {
        let _ = (now, wanted, view, out);
    }

    /// Tier in which new memory shall be allocated, where the world can choose (the simulator). Falls
    /// to the next slower tier with room. The default is the fastest. A policy that names another one
    /// says so by [`Self::starts_slow`], unless it runs in simulations only.
    fn place(&mut self, now: Nanos, allocation: &Allocation, view: &View<'_>) -> TierId {
        let _ = (now, allocation, view);
        TierId::FAST
    }

    /// Whether new memory, or some of it, shall begin in a slower tier though the fastest has room. A
    /// world that cannot choose tells its user that it does not. The default is no.
    fn starts_slow(&self) -> bool {
        false
    }

    /// Share of the fastest tier that allocations shall leave free for it, `[0, 1)`: the engine
    /// places new memory in a slower tier below it. The default is 0.
    fn allocation_headroom(&self) -> f64 {
        0.0
    }

    /// Reports counters and gauges.
    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let _ = sink;
    }

    /// Bytes of all per-page and other growing state.
    fn metadata_bytes(&self) -> Bytes;

    /// Reports every parameter with its effective value (after scaling), as a user would write it.
    fn config(&self, sink: &mut ConfigSink<'_>) {
        let _ = sink;
    }

    /// Whether it describes a machine whose fastest tier holds everything: the world gives that
    /// tier room for all memory. True of the reference `all-fast` only.
    fn unlimited_fast(&self) -> bool {
        false
    }

    /// Whether memory outside the fastest tier is a swap device to it: no access is served there, every
    /// touch faults and brings the page in. A world that can forbid direct access does so; others
    /// refuse the policy unless all slower tiers are without it anyway. The default is to leave
    /// access as it is.
    fn swaps(&self) -> bool {
        false
    }

    /// Whether new memory shall be mapped by base pages only, where the world can choose. The default
    /// leaves it to the world.
    fn base_pages(&self) -> bool {
        false
    }

    /// Whether it stands for code of a kernel, whose moves need no system calls: a world that models
    /// costs charges none for them. The default is a program outside.
    fn in_kernel(&self) -> bool {
        false
    }

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
