//! Telemetry that a world offers: kinds of knowledge about accesses, their rates and costs.

use crate::types::PageCount;

/// How samples of accesses come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Origin {
    /// A sampler counts accesses; its period can be chosen.
    Hardware,
    /// Pages of slower tiers fault, one after the other.
    HintFaults,
    /// Access bits of some pages at a time are read in turn.
    InTurn,
    /// Access bits of all pages in memory are read, again and again.
    Sweeps,
    /// Pages come back from swap space.
    Refaults,
}

/// Samples of accesses: how, how many, at what cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sampling {
    /// How they come about.
    pub origin: Origin,
    /// About how many come in a second, whatever the size of the program; `None` where the period
    /// decides.
    pub per_second: Option<f64>,
    /// Processor time of one, where known.
    pub cost_ns: Option<f64>,
}

/// Samples a second that intervals in publications presume, which are those of hardware samplers.
const PUBLISHED_PER_SECOND: f64 = 50_000.0;

impl Sampling {
    /// Of a hardware sampler.
    pub const HARDWARE: Self = Self { origin: Origin::Hardware, per_second: None, cost_ns: None };

    /// How many times fewer samples come than publications presume; `None` where the period decides.
    pub fn rarity(&self) -> Option<f64> {
        self.per_second.map(|rate| PUBLISHED_PER_SECOND / rate)
    }

    /// Whether a page is looked at only now and then, so that what was moved is not seen again soon
    /// enough to judge by it whether that has paid.
    pub fn looks_in_turn(&self) -> bool {
        matches!(self.origin, Origin::HintFaults | Origin::InTurn | Origin::Sweeps)
    }

    /// Whether pages are seen as they come to fast memory by a touch, and only then.
    pub fn comes_by_touches(&self) -> bool {
        self.origin == Origin::Refaults
    }

    /// Whether a sample stands for as many accesses as the period says, whichever tier served them.
    pub fn counts_accesses(&self) -> bool {
        self.origin == Origin::Hardware
    }
}

/// Answers to `Scan` actions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bits {
    /// Pages whose bits can be read in a second, where that is limited.
    pub pages_per_second: Option<f64>,
    /// Processor time of one page, where known.
    pub cost_ns: Option<f64>,
    /// Some pages at a time are looked at in turn, whatever is asked for.
    pub in_turn: bool,
}

/// Faults of touched pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Faults {
    /// Any page can be armed.
    #[default]
    Any,
    /// Pages of slower tiers can be armed; the program goes on, and they are reported a moment later.
    Slower,
    /// Pages of slower tiers fault at a touch, each once in a while and whether armed or not; they are reported a
    /// moment later.
    Hints,
    /// Pages in swap space fault by themselves, and all slower tiers are such.
    Swap,
    /// None.
    Never,
}

/// Kinds of telemetry that a world offers. The default is the simulator, which offers all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offered {
    /// Samples of loads that missed the last-level cache, or of what stands for them.
    pub loads: Option<Sampling>,
    /// Samples of stores.
    pub stores: Option<Sampling>,
    /// Access bits of pages that the policy asks about.
    pub access_bits: Option<Bits>,
    /// Faults of touched pages.
    pub faults: Faults,
    /// Pages that can be armed at a time, where that is limited.
    #[cfg_attr(feature = "serde", serde(default))]
    pub most_armed: Option<PageCount>,
    /// Original extents of allocations.
    pub allocation_extents: bool,
    /// Files that nobody holds open any more.
    pub closed_files: bool,
    /// Counters of accesses by tier.
    pub counters: bool,
    /// Latencies of reads by tier, as loaded as the tiers are.
    pub read_latencies: bool,
    /// Ends of epochs, and knowledge of the whole trace.
    pub epochs: bool,
}

impl Default for Offered {
    fn default() -> Self {
        Self {
            loads: Some(Sampling::HARDWARE),
            stores: Some(Sampling::HARDWARE),
            access_bits: Some(Bits::default()),
            faults: Faults::default(),
            most_armed: None,
            allocation_extents: true,
            closed_files: true,
            counters: true,
            read_latencies: true,
            epochs: true,
        }
    }
}
