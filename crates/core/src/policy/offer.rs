//! Offer of a world to the policy that is made for it: telemetry, memory, costs.

use super::contract::PolicyError;
use super::oracle::Oracle;
use super::telemetry::Offered;
use crate::placement::MOST_TIER_PAGES;
use crate::spec::SpecError;
use crate::types::PageCount;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Latencies and bandwidths of a tier as the program sees them; `None` is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TierOffer {
    /// A load that missed all caches, where nothing queues.
    pub load_ns: f64,
    /// A store that missed all caches, where nothing queues.
    pub store_ns: Option<f64>,
    /// A load at 80 % of the bandwidth.
    pub loaded_load_ns: Option<f64>,
    /// A store at 80 % of the bandwidth.
    pub loaded_store_ns: Option<f64>,
    /// Bandwidth of reads.
    pub read_bytes_per_second: Option<f64>,
    /// Bandwidth of writes.
    pub write_bytes_per_second: Option<f64>,
}

impl TierOffer {
    /// A tier of which no more is known than how long a load takes.
    pub const fn loads_in(load_ns: f64) -> Self {
        Self {
            load_ns,
            store_ns: None,
            loaded_load_ns: None,
            loaded_store_ns: None,
            read_bytes_per_second: None,
            write_bytes_per_second: None,
        }
    }

    fn numbers(&self) -> [Option<f64>; 6] {
        [
            Some(self.load_ns),
            self.store_ns,
            self.loaded_load_ns,
            self.loaded_store_ns,
            self.read_bytes_per_second,
            self.write_bytes_per_second,
        ]
    }
}

/// Processor time that work of the system takes; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WorkCosts {
    /// A base page moved to the next tier or back.
    pub base_move_ns: Option<f64>,
    /// A folio moved to the next tier or back.
    pub folio_move_ns: Option<f64>,
    /// A folio split.
    pub split_ns: Option<f64>,
    /// 512 base pages coalesced into a folio.
    pub collapse_ns: Option<f64>,
    /// What each core that runs the program loses by a stretch of pages moved, a split or a collapse: it
    /// has to forget their translations. A core that does the work has it in that work's time.
    pub interruption_ns: Option<f64>,
}

/// What translations of addresses cost beyond a hit of the second level.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Translation {
    /// Pages, of either size, that the second level holds.
    pub entries: u32,
    /// A walk to a base page.
    pub base_walk_ns: f64,
    /// A walk to a folio.
    pub folio_walk_ns: f64,
}

/// What a policy is made for: the run, and what its world can give. The default is the simulator on
/// two tiers.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offer {
    /// Seed of its random choices.
    pub seed: u64,
    /// Factor, 1 or more, by which footprint and run length are smaller than those that the
    /// policy's constants were chosen for. Divides intervals in samples and in time; 1 keeps the
    /// constants.
    pub scale: f64,
    /// Capacity of the fastest tier.
    pub fast_pages: PageCount,
    /// Pages that will be resident, where known; to size tables, never to decide.
    pub total_pages_hint: PageCount,
    /// Programs make as many accesses in all their life as others in a second.
    pub brief: bool,
    /// Knowledge of the whole trace, for offline policies. It is not written down.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub oracle: Option<Arc<dyn Oracle>>,
    /// Telemetry.
    pub telemetry: Offered,
    /// Tiers, the fastest first, at least two.
    pub tiers: Vec<TierOffer>,
    /// Accesses that are in flight at once and divide latencies, where known.
    pub parallelism: Option<f64>,
    /// Costs of moves and of what goes with them.
    pub costs: WorkCosts,
    /// Costs of walks; `None` where they take no time.
    pub translation: Option<Translation>,
    /// Work in the background takes time from the program: it runs on the same cores.
    pub shares_cores: bool,
    /// New memory can be given base pages only.
    pub chooses_page_size: bool,
}

/// Most pages that tables are given room for before there are any.
const MOST_ROOM: u64 = 1 << 20;

impl Offer {
    /// The same with this latency gap: how much slower the second tier is than the first.
    #[must_use]
    pub fn with_latency_gap(self, gap: f64) -> Self {
        let fast = 80.0;
        let tiers = Vec::from([fast, fast * (1.0 + gap)].map(TierOffer::loads_in));
        Self { tiers, ..self }
    }

    /// How much slower the second tier is: the difference of latencies over that of the fastest; 0
    /// without a second one.
    pub fn latency_gap(&self) -> f64 {
        match &*self.tiers {
            [fast, next, ..] => (next.load_ns - fast.load_ns) / fast.load_ns,
            _ => 0.0,
        }
    }

    /// Pages that tables are given room for at once: the hint, up to 4 GiB of pages. Tables grow beyond
    /// it as pages appear.
    pub fn table_pages(&self) -> PageCount {
        PageCount(self.total_pages_hint.0.min(MOST_ROOM))
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// A scale below 1, a latency gap below 0, more pages than addresses reach, numbers that are
    /// none.
    pub fn check(&self) -> Result<(), PolicyError> {
        if !(self.scale >= 1.0 && self.scale.is_finite()) {
            let error = SpecError::new(
                alloc::format!("the scale {} is not a finite number of at least 1", self.scale),
                "1 keeps the constants of the policy's source",
            );
            return Err(error.into());
        }
        let gap = self.latency_gap();
        if !(gap >= 0.0 && gap.is_finite()) {
            let error = SpecError::new(
                alloc::format!("the latency gap {gap} is not a number of at least 0"),
                "it is how much slower the slow tier is: 2.75 for 80 and 300 ns",
            );
            return Err(error.into());
        }
        for (what, pages) in [("fast", self.fast_pages), ("expected", self.total_pages_hint)] {
            if pages > MOST_TIER_PAGES {
                let error = SpecError::new(
                    alloc::format!("{} {what} pages are more than addresses reach", pages.0),
                    alloc::format!("the most is {}", MOST_TIER_PAGES.0),
                );
                return Err(error.into());
            }
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), PolicyError> {
        let Offered { loads, stores, access_bits, .. } = self.telemetry;
        let samples = [loads, stores].into_iter().flatten();
        let bits = access_bits.map(|bits| [bits.pages_per_second, bits.cost_ns]);
        let WorkCosts { base_move_ns, folio_move_ns, split_ns, collapse_ns, interruption_ns } =
            self.costs;
        let walks =
            self.translation.map(|walks| [walks.base_walk_ns, walks.folio_walk_ns].map(Some));
        let moves = [base_move_ns, folio_move_ns, split_ns, collapse_ns, interruption_ns];
        let numbers = moves
            .into_iter()
            .chain([self.parallelism])
            .chain(self.tiers.iter().flat_map(TierOffer::numbers))
            .chain(samples.flat_map(|samples| [samples.per_second, samples.cost_ns]))
            .chain(bits.into_iter().chain(walks).flatten());
        match numbers.flatten().find(|number| !(*number >= 0.0 && number.is_finite())) {
            None => Ok(()),
            Some(number) => {
                let what = alloc::format!("{number} is no latency, cost, rate or bandwidth");
                Err(SpecError::new(what, "they are finite and at least 0").into())
            }
        }
    }
}

impl Default for Offer {
    /// Seed 0, constants unscaled, 80 and 300 ns, no oracle, all telemetry.
    fn default() -> Self {
        Self {
            seed: 0,
            scale: 1.0,
            fast_pages: PageCount::ZERO,
            total_pages_hint: PageCount::ZERO,
            brief: false,
            oracle: None,
            telemetry: Offered::default(),
            tiers: Vec::from([80.0, 300.0].map(TierOffer::loads_in)),
            parallelism: None,
            costs: WorkCosts::default(),
            translation: None,
            shares_cores: false,
            chooses_page_size: true,
        }
    }
}
