//! Dense page ids for those of a trace.

use super::survey::{Bits, count};
use crate::event::TraceEvent;
use frostline_core::types::*;
use std::collections::BTreeMap;

/// Regions that ids of 32 bits reach.
const REGIONS: usize = 1 << (32 - 9);
/// Regions that addresses of 64 bits reach.
const HUGE_VPNS: u64 = 1 << (64 - 21);
/// Ids end here: one below 2^32, so that the end of a run is an id.
const LAST: u64 = u32::MAX as u64;

/// Page ids for those that a trace has, in the same order.
///
/// Ids of a dense trace stay as they are. Of a sparse one, the regions that are accessed are numbered in their
/// order; where even these are many, the pages of regions with few of them lie side by side.
#[derive(Debug)]
pub struct Sheet {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Ids stay; what lies beyond this end is left out.
    AsIs {
        end: u32,
    },
    Renumbered(Box<Numbers>),
}

#[derive(Debug)]
struct Numbers {
    /// Regions that are accessed, as bits.
    known: Vec<u64>,
    /// Regions that are known before each word of `known`.
    before: Vec<u32>,
    /// By known region.
    places: Vec<Place>,
    /// Pages of regions that share one.
    shared: Vec<Bits>,
    end: u32,
    /// Regions whose pages were put beside those of others.
    few: u32,
}

/// Where a region's pages are.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: u32,
    /// Index into `shared`; [`WHOLE`] for a region of its own.
    shared: u32,
}

const WHOLE: u32 = u32::MAX;

impl Sheet {
    /// A region with fewer accessed pages than this shares one with others where regions are too many.
    pub(crate) const FEW: u32 = 32;

    /// Leaves ids as they are; runs are cut off at `end`.
    pub(crate) fn as_is(end: u64) -> Self {
        let end = end.min(LAST) as u32;
        Self { kind: Kind::AsIs { end: end - end % HUGE_PAGES } }
    }

    /// Numbers for regions in ascending order with the pages that are accessed. Those with fewer than `few`
    /// of them share.
    pub(crate) fn new<'a>(
        regions: impl ExactSizeIterator<Item = (u32, &'a Bits)> + Clone,
        few: u32,
    ) -> Self {
        let mut known = vec![0u64; REGIONS / 64];
        let mut places = Vec::with_capacity(regions.len());
        let sharing = regions.clone().filter(|(_, bits)| count(bits) < few).count();
        let mut shared = Vec::with_capacity(sharing);
        let mut next = 0u64;
        for (region, bits) in regions {
            known[region as usize / 64] |= 1 << (region % 64);
            let pages = count(bits);
            let place = if pages < few {
                shared.push(*bits);
                let place = Place { first: next as u32, shared: shared.len() as u32 - 1 };
                next += u64::from(pages);
                place
            } else {
                next = next.next_multiple_of(HUGE_PAGES.into());
                let place = Place { first: next as u32, shared: WHOLE };
                next += u64::from(HUGE_PAGES);
                place
            };
            places.push(place);
        }
        let mut before = Vec::with_capacity(known.len());
        let mut seen = 0;
        for word in &known {
            before.push(seen);
            seen += word.count_ones();
        }
        let (end, few) = (next.min(LAST) as u32, shared.len() as u32);
        let numbers = Numbers { known, before, places, shared, end, few };
        Self { kind: Kind::Renumbered(Box::new(numbers)) }
    }

    /// Ids below this are the trace's own, and need not be looked at.
    pub(crate) fn plain(&self) -> u64 {
        match &self.kind {
            Kind::AsIs { end } => (*end).into(),
            Kind::Renumbered(_) => 0,
        }
    }

    /// All ids are below this.
    pub fn end(&self) -> u32 {
        match &self.kind {
            Kind::AsIs { end } => *end,
            Kind::Renumbered(numbers) => numbers.end,
        }
    }

    /// What a user should know of it.
    pub(crate) fn note(&self) -> Option<String> {
        match &self.kind {
            Kind::Renumbered(numbers) if numbers.few > 0 => Some(format!(
                "pages of {} regions of 2 MiB with fewer than {} accessed pages are taken as lying side by side",
                numbers.few,
                Self::FEW
            )),
            _ => None,
        }
    }

    /// The page's id; `None` for pages that are not accessed.
    #[inline]
    pub fn page(&self, page: PageId) -> Option<PageId> {
        match &self.kind {
            Kind::AsIs { end } => (page.0 < *end).then_some(page),
            Kind::Renumbered(numbers) => numbers.page(page),
        }
    }

    /// The ids of the pages of a run, which follow each other, too.
    pub fn run(&self, run: PageRun) -> PageRun {
        match &self.kind {
            Kind::AsIs { end } if run.end() <= *end => run,
            Kind::AsIs { end } => run.intersect(PageRun::between(0, *end)),
            Kind::Renumbered(numbers) => {
                PageRun::between(numbers.bound(run.start.0), numbers.bound(run.end()))
            }
        }
    }

    fn runs(&self, runs: &mut Vec<PageRun>) {
        for run in runs.iter_mut() {
            *run = self.run(*run);
        }
        if matches!(self.kind, Kind::Renumbered(_)) {
            runs.retain(|run| run.pages > 0);
        }
    }

    /// The event with these ids; `None` where it names a region that is not accessed, or has no address.
    pub(crate) fn event(&self, mut event: TraceEvent) -> Option<TraceEvent> {
        match &mut event {
            TraceEvent::RegionNamed { huge_vpn: HUGE_VPNS.., .. } => return None,
            TraceEvent::RegionNamed { region, .. } => *region = self.region(*region)?,
            TraceEvent::Map { runs, .. }
            | TraceEvent::Unmap { runs, .. }
            | TraceEvent::Discard { runs, .. } => self.runs(runs),
            TraceEvent::Remap { moves, gained, lost, .. } => {
                self.runs(gained);
                self.runs(lost);
                self.moves(moves, lost);
            }
            TraceEvent::StoreSamples { samples } => {
                let plain = self.plain();
                if samples.iter().all(|(_, page)| u64::from(page.0) < plain) {
                    return Some(event);
                }
                samples.retain_mut(|(_, page)| match self.page(*page) {
                    Some(dense) => {
                        *page = dense;
                        true
                    }
                    None => false,
                });
            }
            TraceEvent::Touched { regions, .. } => self.touched(regions),
            _ => {}
        }
        Some(event)
    }

    /// The number of a region that has one of its own.
    fn region(&self, region: Region) -> Option<Region> {
        match &self.kind {
            Kind::AsIs { end } => (region.first().0 < *end).then_some(region),
            Kind::Renumbered(numbers) => {
                let place = numbers.place(region.0)?;
                (place.shared == WHOLE).then(|| PageId(place.first).region())
            }
        }
    }

    /// Moves, page by page where that has to be, and what is lost since nobody accesses where it goes.
    fn moves(&self, moves: &mut Vec<(PageRun, PageId)>, lost: &mut Vec<PageRun>) {
        let end = self.end();
        let inside = |(from, to): &(PageRun, PageId)| {
            from.end() <= end && u64::from(to.0) + u64::from(from.pages) <= end.into()
        };
        if matches!(self.kind, Kind::AsIs { .. }) && moves.iter().all(inside) {
            return;
        }
        let mut dense: Vec<(PageRun, PageId)> = Vec::new();
        for (from, to) in std::mem::take(moves) {
            let start = from.start.0;
            self.pages_within(from, |old, page| {
                let Some(new) = self.page(PageId(to.0.saturating_add(old.0 - start))) else {
                    return match lost.last_mut() {
                        Some(run) if run.end() == page.0 => run.pages += 1,
                        _ => lost.push(PageRun::single(page)),
                    };
                };
                match dense.last_mut() {
                    Some((run, first)) if run.end() == page.0 && first.0 + run.pages == new.0 => {
                        run.pages += 1;
                    }
                    _ => dense.push((PageRun::single(page), new)),
                }
            });
        }
        *moves = dense;
    }

    /// Calls `sink` with each page of a run that has an id, and the id.
    fn pages_within(&self, run: PageRun, mut sink: impl FnMut(PageId, PageId)) {
        match &self.kind {
            Kind::AsIs { end } => {
                run.intersect(PageRun::between(0, *end)).iter().for_each(|page| sink(page, page));
            }
            Kind::Renumbered(numbers) => {
                let mut region = numbers.next_known(run.start.region().0);
                while let Some(known) = region.filter(|known| Region(*known).first().0 < run.end())
                {
                    for page in Region(known).run().intersect(run).iter() {
                        if let Some(id) = numbers.page(page) {
                            sink(page, id);
                        }
                    }
                    region = numbers.next_known(known + 1);
                }
            }
        }
    }

    fn touched(&self, regions: &mut Vec<(Region, Bits)>) {
        let Kind::Renumbered(numbers) = &self.kind else {
            let end = self.end();
            return regions.retain(|(region, _)| region.first().0 < end);
        };
        let mut dense: BTreeMap<Region, Bits> = BTreeMap::new();
        for (region, bits) in regions.drain(..) {
            for page in super::survey::pages_of(region.0, bits) {
                let Some(id) = numbers.page(page) else { continue };
                let bits = dense.entry(id.region()).or_default();
                bits[id.offset() as usize / 64] |= 1 << (id.offset() % 64);
            }
        }
        regions.extend(dense);
    }
}

impl Numbers {
    /// Known regions below this one.
    fn rank(&self, region: u32) -> usize {
        let word = region as usize / 64;
        let below = self.known[word] & ((1 << (region % 64)) - 1);
        (self.before[word] + below.count_ones()) as usize
    }

    fn is_known(&self, region: u32) -> bool {
        self.known[region as usize / 64] >> (region % 64) & 1 == 1
    }

    #[inline]
    fn place(&self, region: u32) -> Option<Place> {
        self.is_known(region).then(|| self.places[self.rank(region)])
    }

    /// The first known region from this one on.
    fn next_known(&self, region: u32) -> Option<u32> {
        let mut word = region as usize / 64;
        let mut left = *self.known.get(word)? & (u64::MAX << (region % 64));
        while left == 0 {
            word += 1;
            left = *self.known.get(word)?;
        }
        Some(word as u32 * 64 + left.trailing_zeros())
    }

    #[inline]
    fn page(&self, page: PageId) -> Option<PageId> {
        let place = self.place(page.region().0)?;
        if place.shared == WHOLE {
            return Some(PageId(place.first + page.offset()));
        }
        let bits = &self.shared[place.shared as usize];
        let (word, bit) = (page.offset() as usize / 64, page.offset() % 64);
        (bits[word] >> bit & 1 == 1).then(|| PageId(place.first + below(bits, page.offset())))
    }

    /// The least id of a page from this one on.
    fn bound(&self, page: u32) -> u32 {
        let page = PageId(page);
        let rank = self.rank(page.region().0);
        let Some(place) = self.places.get(rank) else { return self.end };
        match (self.is_known(page.region().0), place.shared) {
            (false, _) => place.first,
            (true, WHOLE) => place.first + page.offset(),
            (true, shared) => place.first + below(&self.shared[shared as usize], page.offset()),
        }
    }
}

/// Bits set below this one.
fn below(bits: &Bits, bit: u32) -> u32 {
    let word = bit as usize / 64;
    let whole: u32 = bits[..word].iter().map(|word| word.count_ones()).sum();
    whole + (bits[word] & ((1 << (bit % 64)) - 1)).count_ones()
}
