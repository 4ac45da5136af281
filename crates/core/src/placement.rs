//! Placement of every page, and use of every tier.

mod pages_that;

use crate::types::*;
use alloc::vec::Vec;
use pages_that::PagesThat;
use prefetch_index::prefetch_index;

/// Most pages that a tier can have: all that 64-bit addresses reach.
pub const MOST_TIER_PAGES: PageCount = PageCount(u64::MAX / PAGE_BYTES);

/// State of a page in one byte: the only per-page memory of the engine, and the only byte that a
/// replay loads per access.
///
/// | bits | meaning |
/// | --- | --- |
/// | 0-2 | tier, meaningful where resident |
/// | 3 | needs attention at the next touch: armed, absent, or in a tier without direct access |
/// | 4 | resident |
/// | 5 | armed: the next touch faults |
/// | 6 | part of a 2 MiB folio |
/// | 7 | a move is in flight |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(pub u8);

impl PageState {
    /// Mask of the tier number.
    pub const TIER: u8 = 0b0000_0111;
    /// The touch cannot be served by a plain access.
    pub const ATTENTION: u8 = 0b0000_1000;
    /// Resident in a tier.
    pub const RESIDENT: u8 = 0b0001_0000;
    /// The next touch faults.
    pub const ARMED: u8 = 0b0010_0000;
    /// Mapped as part of a huge folio.
    pub const HUGE: u8 = 0b0100_0000;
    /// Being moved.
    pub const IN_FLIGHT: u8 = 0b1000_0000;
    /// Not resident.
    pub const ABSENT: Self = Self(Self::ATTENTION);

    /// Tier of a resident page.
    pub const fn tier(self) -> Option<TierId> {
        if self.is_resident() { Some(TierId(self.0 & Self::TIER)) } else { None }
    }
    /// Whether it occupies memory.
    pub const fn is_resident(self) -> bool {
        self.0 & Self::RESIDENT != 0
    }
    /// Whether the next touch faults.
    pub const fn is_armed(self) -> bool {
        self.0 & Self::ARMED != 0
    }
    /// Whether it belongs to a 2 MiB folio.
    pub const fn is_huge(self) -> bool {
        self.0 & Self::HUGE != 0
    }
    /// Whether a move is in flight.
    pub const fn is_in_flight(self) -> bool {
        self.0 & Self::IN_FLIGHT != 0
    }
}

/// Capacity and rules of one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TierLimits {
    /// Pages that may be resident or reserved at once.
    pub capacity: PageCount,
    /// Low watermark: pages that moves leave free for new memory.
    pub keep_free: PageCount,
    /// Whether programs can load and store in it directly; false for swap tiers, where every
    /// touch faults.
    pub direct_access: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Occupancy {
    used: u64,
    reserved: u64,
}

/// A bit in each of eight states.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The truth about placement. Only the engine changes it.
///
/// Invariants: `used` of a tier is the number of resident pages whose state names it; a page has
/// at most one home; pages that the engine placed or moved never exceed a capacity together with
/// the reservations for moves in flight. (What others do to memory is truth too, and may exceed a
/// capacity; the engine then reserves nothing there until there is room.)
#[derive(Clone, Debug)]
pub struct Placement {
    states: Vec<u8>,
    tiers: Vec<TierLimits>,
    occupancy: [Occupancy; MAX_TIERS],
    /// Since the policy was told last.
    freed: Vec<Freed>,
}

/// Neighbouring pages that were freed, and the tier in which they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// The pages.
    pub run: PageRun,
    /// Their tier.
    pub tier: TierId,
}

impl Placement {
    /// No page resident. At least two and at most [`MAX_TIERS`] tiers.
    pub(crate) fn new(tiers: Vec<TierLimits>) -> Self {
        Self { states: Vec::new(), tiers, occupancy: Default::default(), freed: Vec::new() }
    }

    /// A read-only view for policies.
    pub fn view(&self) -> View<'_> {
        View { placement: self }
    }

    /// State bytes by page id, for a replay's hot loop; pages beyond the end are absent.
    #[inline]
    pub fn states(&self) -> &[u8] {
        &self.states
    }

    /// Makes room for page ids below `pages`.
    pub(crate) fn grow(&mut self, pages: u32) {
        let whole = (pages as usize).next_multiple_of(HUGE_PAGES as usize);
        if whole > self.states.len() {
            self.states.resize(whole, PageState::ABSENT.0);
        }
    }

    pub(crate) fn state(&self, page: PageId) -> PageState {
        PageState(self.states.get(page.index()).copied().unwrap_or(PageState::ABSENT.0))
    }

    pub(crate) fn set_capacity(&mut self, tier: TierId, capacity: PageCount) {
        self.tiers[tier.index()].capacity = capacity;
    }

    pub(crate) fn free(&self, tier: TierId) -> PageCount {
        let occupancy = &self.occupancy[tier.index()];
        self.tiers[tier.index()]
            .capacity
            .saturating_sub(PageCount(occupancy.used + occupancy.reserved))
    }

    pub(crate) fn reserve(&mut self, tier: TierId, pages: u32) {
        self.occupancy[tier.index()].reserved += u64::from(pages);
    }

    pub(crate) fn unreserve(&mut self, tier: TierId, pages: u32) {
        self.occupancy[tier.index()].reserved -= u64::from(pages);
    }

    /// A page was freed in a tier.
    pub(crate) fn note_freed(&mut self, page: PageId, tier: TierId) {
        match self.freed.last_mut() {
            Some(last) if last.tier == tier && last.run.end() == page.0 => last.run.pages += 1,
            _ => self.freed.push(Freed { run: PageRun::single(page), tier }),
        }
    }

    /// The policy has been told of freed pages.
    pub(crate) fn forget_freed(&mut self) {
        self.freed.clear();
    }

    /// Freed pages, to be told of later.
    pub(crate) fn take_freed(&mut self) -> Vec<Freed> {
        core::mem::take(&mut self.freed)
    }

    /// Freed pages that the policy is told of next.
    pub(crate) fn restore_freed(&mut self, freed: Vec<Freed>) {
        self.freed = freed;
    }

    /// Sets where a page is; `None` frees it. Clears what no longer holds (arming, huge, in
    /// flight) when it becomes absent.
    pub(crate) fn put(&mut self, page: PageId, tier: Option<TierId>) {
        let old = self.state(page);
        if let Some(tier) = old.tier() {
            self.occupancy[tier.index()].used -= 1;
        }
        let new = match tier {
            None => PageState::ABSENT.0,
            Some(tier) => {
                self.occupancy[tier.index()].used += 1;
                let kept = if old.is_resident() {
                    old.0 & (PageState::HUGE | PageState::IN_FLIGHT | PageState::ARMED)
                } else {
                    0
                };
                let direct = self.tiers[tier.index()].direct_access;
                let attention =
                    if !direct || kept & PageState::ARMED != 0 { PageState::ATTENTION } else { 0 };
                tier.0 | PageState::RESIDENT | kept | attention
            }
        };
        self.states[page.index()] = new;
    }

    pub(crate) fn set_flag(&mut self, page: PageId, flag: u8, on: bool) {
        let direct = |tier: TierId| self.tiers[tier.index()].direct_access;
        let state = PageState(self.states[page.index()]);
        let mut bits = if on { state.0 | flag } else { state.0 & !flag };
        let attention = match state.tier() {
            None => true,
            Some(tier) => bits & PageState::ARMED != 0 || !direct(tier),
        };
        bits = bits & !PageState::ATTENTION | if attention { PageState::ATTENTION } else { 0 };
        self.states[page.index()] = bits;
    }

    pub(crate) fn metadata_bytes(&self) -> Bytes {
        Bytes(self.states.capacity() as u64)
    }
}

/// What a policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    placement: &'a Placement,
}

impl<'a> View<'a> {
    /// Number of tiers, at least 2.
    pub fn tiers(&self) -> usize {
        self.placement.tiers.len()
    }
    /// The slowest tier.
    pub fn slowest(&self) -> TierId {
        TierId(self.placement.tiers.len() as u8 - 1)
    }
    /// Capacity and rules of a tier.
    pub fn limits(&self, tier: TierId) -> TierLimits {
        self.placement.tiers[tier.index()]
    }
    /// Pages resident in a tier.
    pub fn used(&self, tier: TierId) -> PageCount {
        PageCount(self.placement.occupancy[tier.index()].used)
    }
    /// Pages reserved in a tier for moves in flight.
    pub fn reserved(&self, tier: TierId) -> PageCount {
        PageCount(self.placement.occupancy[tier.index()].reserved)
    }
    /// Pages neither used nor reserved; 0 where others have overfilled the tier.
    pub fn free(&self, tier: TierId) -> PageCount {
        self.placement.free(tier)
    }
    /// Pages that the events just handed over have freed or moved to other ids, where they were, in
    /// the order of events.
    pub fn freed(&self) -> &'a [Freed] {
        &self.placement.freed
    }
    /// Pages by which others have overfilled a tier.
    pub fn over(&self, tier: TierId) -> PageCount {
        self.used(tier).saturating_sub(self.limits(tier).capacity)
    }
    /// Resident pages in all tiers.
    pub fn resident(&self) -> PageCount {
        PageCount((0..self.tiers()).map(|t| self.placement.occupancy[t].used).sum())
    }
    /// State of a page; absent for ids never seen.
    #[inline]
    pub fn state(&self, page: PageId) -> PageState {
        self.placement.state(page)
    }
    /// Has the state of a page loaded into the cache, without waiting for it.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        prefetch_index(&self.placement.states, page.index());
    }
    /// The page, or the whole folio that holds it: what moves together.
    #[inline]
    pub fn unit(&self, page: PageId) -> PageRun {
        if self.state(page).is_huge() { page.region().run() } else { PageRun::single(page) }
    }
    /// Pages of a run that are resident in a tier, in order; of a folio the first one in the run
    /// stands for all.
    pub fn pages_in(&self, tier: TierId, run: PageRun) -> impl Iterator<Item = PageId> + use<'a> {
        let wanted = EACH * u64::from(PageState::RESIDENT | tier.0);
        PagesThat::new(self.states(), run, move |states| {
            let differs =
                states & (EACH * u64::from(PageState::RESIDENT | PageState::TIER)) ^ wanted;
            // The highest bit of each byte that does not differ; no carry leaves a byte.
            let carried = (differs & !(EACH << 7)) + EACH * 0x7f;
            !(carried | differs) & (EACH << 7)
        })
    }

    /// The first page of a run that is resident in a tier.
    pub fn first_in(&self, tier: TierId, run: PageRun) -> Option<PageId> {
        self.pages_in(tier, run).next()
    }

    /// The first page of a run that is resident outside the fastest tier.
    pub fn first_slow(&self, run: PageRun) -> Option<PageId> {
        let that = |states: u64| {
            // A tier's number that is not 0 carries into the bit above, which goes where `RESIDENT` is.
            let tiers = states & (EACH * u64::from(PageState::TIER));
            let slow = (tiers + EACH * u64::from(PageState::TIER)) << 1;
            (states & slow & (EACH * u64::from(PageState::RESIDENT))) << 3
        };
        PagesThat::new(self.states(), run, that).next()
    }

    /// State bytes of all pages by id, to be read through [`PageState`].
    #[inline]
    pub fn states(&self) -> &'a [u8] {
        &self.placement.states
    }
    /// All page ids known are below this; a multiple of 512.
    pub fn pages(&self) -> u32 {
        self.placement.states.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_in_a_tier_are_those_that_looking_at_each_finds(
            // Of each region: the state of its pages where they are a folio, else those of some.
            regions in proptest::collection::vec(
                (any::<bool>(), any::<u8>(), proptest::collection::vec((0usize..512, any::<u8>()), 0..5)),
                0..4,
            ),
            from in 0u32..2100,
            pages in 0u32..2100,
            tier in 0u8..4,
        ) {
            let mut placement = Placement::new(Vec::new());
            for (huge, state, others) in regions {
                let base = state & !PageState::HUGE;
                let state = if huge { base | PageState::HUGE | PageState::RESIDENT } else { base };
                let first = placement.states.len();
                placement.states.resize(first + HUGE_PAGES as usize, state);
                for (at, other) in others.into_iter().filter(|_| !huge) {
                    placement.states[first + at] = other & !PageState::HUGE;
                }
            }
            let view = placement.view();
            let run = PageRun { start: PageId(from), pages };
            let tier = TierId(tier);
            let first = |found: fn(TierId, TierId) -> bool| {
                run.iter().find(|page| view.state(*page).tier().is_some_and(|its| found(its, tier)))
            };
            prop_assert_eq!(view.first_in(tier, run), first(|its, tier| its == tier));
            prop_assert_eq!(view.first_slow(run), first(|its, _| its != TierId::FAST));
            let stands_for_others = |page: PageId| page == run.start || page.offset() == 0;
            let expected = run.iter().filter(|page| {
                let state = view.state(*page);
                state.tier() == Some(tier) && (!state.is_huge() || stands_for_others(*page))
            });
            prop_assert_eq!(
                view.pages_in(tier, run).collect::<Vec<_>>(),
                expected.collect::<Vec<_>>()
            );
        }
    }
}
