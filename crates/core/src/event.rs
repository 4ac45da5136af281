//! Events: observations of accesses and of the machine's memory, as the engine is told of them.

use crate::action::MoveId;
use crate::types::*;
use core::num::NonZeroU32;

/// One sampled access, as a PMU or a stand-in reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// The page touched.
    pub page: PageId,
    /// What was sampled.
    pub kind: SampleKind,
    /// Tier that served the access.
    pub tier: TierId,
    /// Process that made the access.
    pub process: ProcessId,
    /// Whether it missed all caches, where that is known.
    pub missed: Option<bool>,
    /// Whether it walked the page table, where that is known.
    pub walked: Option<bool>,
    /// Time from one touch of the page to the next in the mean (ms), where that was measured.
    pub gap_ms: Option<NonZeroU32>,
}

impl Sample {
    /// A sample of which no more is known.
    pub const fn new(page: PageId, kind: SampleKind, tier: TierId, process: ProcessId) -> Self {
        Self { page, kind, tier, process, missed: None, walked: None, gap_ms: None }
    }
}

/// Event that a sampler counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SampleKind {
    /// Load that missed the last-level cache.
    LoadMiss = 0,
    /// Retired store, whether or not it missed a cache.
    Store = 1,
}

/// Page-table level at which access bits were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Level {
    /// One bit per 4 KiB page.
    Base,
    /// One bit per 2 MiB region: a huge folio, or the whole page-table page below it.
    Huge,
}

/// Result of a `Scan` action over at most 64 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AccessBits {
    /// Pages covered; for [`Level::Huge`] a multiple of 512 from a region's first page.
    pub run: PageRun,
    /// Bit `i` is set where unit `i` (page or region) was touched since its bit was last cleared.
    pub accessed: u64,
    /// Level of the units.
    pub level: Level,
}

impl AccessBits {
    /// The units by their first pages, and whether each was touched.
    pub fn units(&self) -> impl Iterator<Item = (PageId, bool)> + use<> {
        let (step, accessed) =
            (if self.level == Level::Huge { HUGE_PAGES } else { 1 }, self.accessed);
        let units = self.run.iter().step_by(step as usize).take(64).enumerate();
        units.map(move |(i, unit)| (unit, accessed >> i & 1 == 1))
    }
}

/// A touch of an armed page, or of a page in a tier without direct access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fault {
    /// The page touched.
    pub page: PageId,
    /// Tier in which it is now.
    pub tier: TierId,
    /// Whether it was a write.
    pub write: bool,
    /// Process that faulted.
    pub process: ProcessId,
    /// Its thread, as the world numbers them; 0 where that is not known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub thread: u32,
}

/// Who moved a page that the engine did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MoveCause {
    /// Brought back by a major fault from a tier without direct access.
    Refault,
    /// Reclaimed or demoted by the kernel (kswapd, direct reclaim).
    Reclaim,
    /// Kernel NUMA balancing.
    NumaBalancing,
    /// Moved in the fault by the decision of [`crate::policy::Policy::on_fault`].
    FaultDecision,
    /// Anything else seen by re-reading the page's place.
    Unknown,
}

/// How the attempt to move a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MoveOutcome {
    /// In the destination tier.
    Moved,
    /// Pinned, under I/O or locked: try again later.
    Busy,
    /// The destination had no free page.
    NoSpace,
    /// No longer mapped.
    Gone,
    /// Mapped by several processes and left alone.
    Shared,
}

impl MoveOutcome {
    /// Number of variants, for tables indexed by outcome.
    pub const COUNT: usize = 5;
}

/// What backs an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Backing {
    /// Anonymous private memory from `mmap`.
    Anonymous,
    /// The `brk` heap.
    Heap,
    /// A thread's stack.
    Stack,
    /// A mapped file, named by its dense file number.
    File(u32),
}

/// Everything the engine can be told. At most 32 bytes, fed in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// A sampled access.
    Sample(Sample),
    /// Access bits read by a scan.
    AccessBits(AccessBits),
    /// An armed page was touched and [`crate::Engine::on_fault`] has already answered; for
    /// policies that count faults in the background.
    Fault(Fault),
    /// Pages that were armed are so no longer, or never were: the world cannot have their next touch fault.
    Disarmed {
        /// The pages.
        run: PageRun,
    },
    /// Address space was allocated (`mmap`, `brk` growth); no page is resident yet. `run` is the
    /// original extent, before the kernel merges neighbours.
    Mapped {
        /// Pages allocated.
        run: PageRun,
        /// What backs them.
        backing: Backing,
        /// The allocating process.
        process: ProcessId,
    },
    /// Pages became resident at their first touch.
    Populated {
        /// Pages now resident; 512 of one region where `huge`.
        run: PageRun,
        /// Where.
        tier: TierId,
        /// Mapped as one 2 MiB folio.
        huge: bool,
    },
    /// Address space was given back; resident pages of it are free.
    Unmapped {
        /// Pages gone.
        run: PageRun,
    },
    /// Resident pages were freed while their address space stays (`MADV_DONTNEED`, all-zero
    /// subpages dropped by a split).
    Freed {
        /// Pages no longer resident.
        run: PageRun,
    },
    /// `mremap` moved pages: their state goes from one run to another of equal length.
    Remapped {
        /// Old pages.
        from: PageRun,
        /// New first page.
        to: PageId,
    },
    /// A process was forked.
    Forked {
        /// Parent.
        parent: ProcessId,
        /// Child.
        child: ProcessId,
    },
    /// A process has ended; its pages come as `Unmapped`.
    Exited {
        /// The process.
        process: ProcessId,
    },
    /// Part of a `Migrate` action has ended. Every page of the action comes exactly once.
    MigrationDone {
        /// The action.
        id: MoveId,
        /// Pages of equal outcome.
        run: PageRun,
        /// How it ended.
        outcome: MoveOutcome,
    },
    /// A `Split` action has ended.
    SplitDone {
        /// The region.
        region: Region,
        /// False where the folio stayed whole.
        split: bool,
    },
    /// A `Collapse` action has ended.
    CollapseDone {
        /// The region.
        region: Region,
        /// Tier of the new folio, none where nothing was collapsed.
        tier: Option<TierId>,
    },
    /// Somebody else moved pages, at any time, also during a move of ours.
    Moved {
        /// The pages.
        run: PageRun,
        /// Where they are now.
        to: TierId,
        /// Who did it.
        cause: MoveCause,
    },
    /// The sampler dropped samples.
    SamplesLost {
        /// How many.
        count: u64,
    },
    /// A tier's capacity changed or was measured.
    TierUsage {
        /// The tier.
        tier: TierId,
        /// Usable capacity.
        capacity: PageCount,
    },
    /// Accesses served since the last such event, by true counters.
    Counters {
        /// By tier 0.
        fast: u64,
        /// By all other tiers.
        slow: u64,
    },
    /// Processor time that the sampler used since the last such event.
    CpuUsage {
        /// Span observed.
        wall: Nanos,
        /// Time spent in the sampler.
        sampler: Nanos,
    },
    /// So many cores run the program from now on, at least 1; until it is said, 1.
    Running {
        /// The smaller number of its threads and the cores that it has.
        cores: u32,
    },
    /// A tier fell below its low watermark.
    Pressure {
        /// The tier.
        tier: TierId,
    },
    /// A file is no longer open in any process.
    FileClosed {
        /// Dense file number.
        file: u32,
    },
    /// The recording's epoch boundary passed; only offline policies use it.
    Epoch {
        /// Number of the epoch that begins.
        number: u64,
    },
    /// Reads that missed all caches, of one tier, since the last such event of the tier. Their mean
    /// latency under the load that there was is `waited` over `reads`.
    ReadLatency {
        /// The tier that served them.
        tier: TierId,
        /// How many.
        reads: u64,
        /// Sum of their latencies, queues included.
        waited: Nanos,
    },
}
