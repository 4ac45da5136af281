//! Memory that a daemon has not looked at yet.
//!
//! A kernel allocates without telling anybody. Live frostline (`crates/driver`) reads a program's mappings
//! each second and looks through new ones at once; where the pages of the others are, it looks up
//! round and round, by address, within a share of a core, and rests after rounds that found
//! little. Until it comes by, a page counts nowhere, and samples of it mean nothing to it.

use super::{Replay, Wait};
use frostline_core::event::Event;
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_daemon::{Pacer, Rounds};
use frostline_trace::TraceEvent;
use std::collections::{BTreeMap, BTreeSet};

/// Between two looks, and between two readings of the mappings. The first reading finds the program
/// still being loaded; it is repeated once it runs.
const STEP_NS: f64 = 50e6;
const REFRESH_NS: f64 = 1e9;
const FIRST_REFRESH_NS: f64 = 20e6;
/// Regions of consecutive addresses that are looked through in one go.
const REGIONS: usize = 8;
/// A program whose memory has changed by one page in so many is looked at again at once.
const CHANGED: u64 = 256;

/// Whose, and its number of 2 MiB.
type Address = (ProcessId, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Unseen {
    /// Share of a core that goes into looking; 0 where everything is known at once.
    share: f64,
    /// State bytes of pages that the engine does not know of; of others 0.
    states: Vec<u8>,
    pages: [u64; MAX_TIERS],
    regions: BTreeMap<Address, Region>,
    addresses: Vec<Option<Address>>,
    /// Mapped since the mappings were read: whose, first byte, end.
    mapped: Vec<(ProcessId, u64, u64)>,
    /// Regions with pages that lie there.
    fresh: BTreeSet<Region>,
    due_ns: f64,
    refresh_due_ns: f64,
    pacer: Pacer,
    /// Time that looking up where pages are has taken.
    looked: Nanos,
    at: Address,
    rounds: Rounds,
    /// Resident pages when that was last found to have changed.
    resident: u64,
}

impl Unseen {
    /// For a daemon that looks with this share of a core; with 0, nothing stays unseen.
    pub(super) fn new(share: f64) -> Self {
        let mut pacer = Pacer::new(share, Nanos::ZERO);
        pacer.refill(Nanos::ZERO);
        Self {
            share,
            states: Vec::new(),
            pages: [0; MAX_TIERS],
            regions: BTreeMap::new(),
            addresses: Vec::new(),
            mapped: Vec::new(),
            fresh: BTreeSet::new(),
            due_ns: 0.0,
            refresh_due_ns: FIRST_REFRESH_NS,
            pacer,
            looked: Nanos::ZERO,
            at: Address::default(),
            rounds: Rounds::default(),
            resident: 0,
        }
    }

    /// Whether pages stay unseen at first.
    pub(super) fn is_on(&self) -> bool {
        self.share > 0.0
    }

    /// Share of a core that looking takes at this time.
    pub(super) fn share_at(&self, now_ns: f64) -> f64 {
        if self.rounds.allows(Nanos(now_ns as u64)) { self.share } else { 0.0 }
    }

    /// A page's state where the engine does not know it.
    pub(super) fn state(&self, page: PageId) -> Option<PageState> {
        let state = PageState(self.states.get(page.index()).copied().unwrap_or(0));
        state.is_resident().then_some(state)
    }

    /// Pages of a tier that the engine does not know of.
    pub(super) fn used(&self, tier: TierId) -> u64 {
        self.pages[tier.index()]
    }

    /// The kernel has allocated a run.
    pub(super) fn hide(&mut self, run: PageRun, tier: TierId, huge: bool) {
        let end = run.end().next_multiple_of(HUGE_PAGES) as usize;
        if self.states.len() < end {
            self.states.resize(end, 0);
        }
        let flag = if huge { PageState::HUGE } else { 0 };
        self.states[run.range()].fill(PageState::RESIDENT | flag | tier.0);
        self.pages[tier.index()] += u64::from(run.pages);
        // A trace without addresses: ids stand for them.
        let region = run.start.region();
        if self.addresses.get(region.index()).is_none_or(Option::is_none) {
            self.name(region, (ProcessId(0), u64::from(region.0)));
        }
        if self.is_new(run.start) {
            self.fresh.insert(run.start.region());
        }
    }

    /// Whether a page lies in what has been mapped since the mappings were read.
    fn is_new(&self, page: PageId) -> bool {
        let address = self.addresses.get(page.region().index()).copied().flatten();
        address.is_some_and(|(process, huge_vpn)| {
            let vpn = huge_vpn * u64::from(HUGE_PAGES) + u64::from(page.offset());
            let byte = vpn * PAGE_BYTES;
            let covers = |(of, start, end): &(ProcessId, u64, u64)| {
                *of == process && *start < byte + PAGE_BYTES && byte < *end
            };
            self.mapped.iter().any(covers)
        })
    }

    /// The engine knows of a run, or the run is gone. What is left of a folio are base pages.
    pub(super) fn forget(&mut self, run: PageRun) {
        let run = run.intersect(PageRun::between(0, self.states.len() as u32));
        if run.pages == 0 {
            return;
        }
        for edge in [run.start, PageId(run.end() - 1)] {
            if PageState(self.states[edge.index()]).is_huge() {
                let folio = &mut self.states[edge.region().run().range()];
                folio.iter_mut().for_each(|state| *state &= !PageState::HUGE);
            }
        }
        for state in &mut self.states[run.range()] {
            if let Some(tier) = PageState(*state).tier() {
                self.pages[tier.index()] -= 1;
            }
            *state = 0;
        }
    }

    /// A page moves to another address, with its frame.
    pub(super) fn rename(&mut self, from: PageId, to: PageId) {
        if let Some(state) = self.state(from)
            && let Some(tier) = state.tier()
        {
            self.forget(PageRun::single(from));
            self.hide(PageRun::single(to), tier, false);
        }
    }

    /// Takes in what a trace says of addresses.
    pub(super) fn follow(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::RegionNamed { region, process, huge_vpn } => {
                self.name(*region, (*process, *huge_vpn));
            }
            TraceEvent::Map { process, start, len_bytes, .. } => {
                self.mapped.push((*process, *start, start.saturating_add(*len_bytes)));
            }
            TraceEvent::Remap { process, new_start, new_len_bytes, .. } => {
                let end = new_start.saturating_add(*new_len_bytes);
                self.mapped.push((*process, *new_start, end));
            }
            _ => {}
        }
    }

    fn name(&mut self, region: Region, address: Address) {
        if self.addresses.len() <= region.index() {
            self.addresses.resize(region.index() + 1, None);
        }
        self.addresses[region.index()] = Some(address);
        self.regions.insert(address, region);
    }

    /// The next regions of a round, by address; none where it is over.
    fn next_regions(&mut self) -> Vec<Region> {
        let next: Vec<(Address, Region)> =
            self.regions.range(self.at..).take(REGIONS).map(|(a, r)| (*a, *r)).collect();
        self.at = next.last().map_or(Address::default(), |((of, vpn), _)| (*of, vpn + 1));
        next.into_iter().map(|(_, region)| region).collect()
    }

    /// Tells of all that is unseen in a region; of how many pages.
    fn reveal(&mut self, region: Region, events: &mut Vec<Event>) -> u64 {
        let before = events.len();
        for page in region.run().iter() {
            let Some(state) = self.state(page) else { continue };
            let Some(found) = state.tier() else { continue };
            match events[before..].last_mut() {
                Some(Event::Populated { run, tier, huge })
                    if run.end() == page.0 && (*tier, *huge) == (found, state.is_huge()) =>
                {
                    run.pages += 1;
                }
                _ => {
                    let run = PageRun::single(page);
                    events.push(Event::Populated { run, tier: found, huge: state.is_huge() });
                }
            }
        }
        let left: u64 = self.pages.iter().sum();
        self.forget(region.run());
        left - self.pages.iter().sum::<u64>()
    }
}

impl Replay<'_> {
    /// Pages in a tier, whoever knows of them.
    pub(super) fn resident_in(&self, tier: TierId) -> u64 {
        self.engine.view().used(tier).0 + self.unseen.used(tier)
    }

    /// A page's state, whoever knows of it.
    pub(super) fn state_of(&self, page: PageId) -> PageState {
        self.unseen.state(page).unwrap_or_else(|| self.engine.view().state(page))
    }

    /// Looks for what has changed, where it is time to.
    pub(super) fn look_around(&mut self) {
        if !self.unseen.is_on() || self.now_ns < self.unseen.due_ns {
            return;
        }
        self.unseen.due_ns = self.now_ns + STEP_NS;
        if self.now_ns >= self.unseen.refresh_due_ns {
            self.read_mappings();
        }
        self.look_round();
        self.tell();
    }

    /// What is new is looked through at once.
    fn read_mappings(&mut self) {
        let resident = (0..MAX_TIERS as u8).map(|tier| self.resident_in(TierId(tier))).sum::<u64>();
        let unseen = &mut self.unseen;
        unseen.refresh_due_ns = self.now_ns + REFRESH_NS;
        if resident.abs_diff(unseen.resident) > unseen.resident / CHANGED {
            unseen.resident = resident;
            unseen.rounds.wake();
        }
        unseen.mapped.clear();
        let mut fresh = Vec::from_iter(std::mem::take(&mut unseen.fresh));
        fresh.sort_by_key(|region| unseen.addresses[region.index()]);
        let ns = self.look_through(&fresh);
        self.background.spend(self.now_ns, ns);
    }

    /// Goes on with the round, as far as the share of a core allows.
    fn look_round(&mut self) {
        let now = Nanos(self.now_ns as u64);
        self.unseen.pacer.refill(now);
        while self.unseen.pacer.allows() && self.unseen.rounds.allows(now) {
            let mut regions = self.unseen.next_regions();
            if regions.is_empty() {
                self.unseen.rounds.end(now);
                break;
            }
            // Of what has been mapped since, nothing is known yet.
            regions.retain(|region| !self.unseen.fresh.contains(region));
            let ns = self.look_through(&regions);
            self.unseen.looked = self.unseen.looked.saturating_add(Nanos(ns as u64));
            self.unseen.pacer.charge(self.unseen.looked);
        }
    }

    /// Looks up where the pages of regions are; the time that it takes, without what is done with
    /// those that are found.
    fn look_through(&mut self, regions: &[Region]) -> f64 {
        let (mut units, mut found) = (0, 0);
        for region in regions {
            let resident = |page: &PageId| self.state_of(*page).is_resident();
            units += match self.state_of(region.first()).is_huge() {
                true => 1,
                false => region.run().iter().filter(resident).count(),
            };
            found += self.unseen.reveal(*region, &mut self.pending);
        }
        self.unseen.rounds.note(regions.len() as u64 * u64::from(HUGE_PAGES), found);
        let costs = &self.machine.costs;
        let (lookup_ns, found_ns) = (units as f64 * costs.lookup_ns, found as f64 * costs.found_ns);
        self.totals.upkeep += lookup_ns + found_ns;
        self.work(Wait::Scan, lookup_ns + found_ns);
        self.background.spend(self.now_ns, found_ns);
        lookup_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_that_loses_a_part_is_told_as_base_pages() {
        let mut unseen = Unseen::new(0.1);
        unseen.hide(Region(1).run(), TierId(0), true);
        unseen.forget(PageRun::between(512, 600));
        assert_eq!(unseen.used(TierId(0)), 424);
        let mut events = Vec::new();
        assert_eq!(unseen.reveal(Region(1), &mut events), 424);
        let run = PageRun::between(600, 1024);
        assert_eq!(events, [Event::Populated { run, tier: TierId(0), huge: false }]);
        assert!(unseen.state(PageId(700)).is_none() && unseen.used(TierId(0)) == 0);
    }
}
