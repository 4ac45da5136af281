//! Dense page ids for the address spaces of running programs.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::types::*;

/// Gives 2 MiB blocks of address space their [`Region`] numbers, and takes them back: a program that
/// maps and unmaps for ever stays within its tables. What it costs, and what anything costs that is
/// done here, depends on the blocks with numbers, not on the address space between them.
#[derive(Debug, Default)]
pub struct AddressMap {
    regions: BTreeMap<(ProcessId, u64), Region>,
    /// Process and block by region; the length is the number of regions ever given out.
    places: Vec<Option<(ProcessId, u64)>>,
    unused: BTreeSet<u32>,
}

/// The last region stays unused: its end is no 32-bit number.
const MOST_REGIONS: u32 = u32::MAX / HUGE_PAGES;

/// Gaps that are looked into for numbers in a row.
const MOST_GAPS: usize = 64;

impl AddressMap {
    /// The page's id; `None` where its block has none.
    pub fn page(&self, process: ProcessId, vpn: Vpn) -> Option<PageId> {
        let region = self.regions.get(&(process, vpn.0 / REGION_PAGES))?;
        Some(PageId(region.first().0 + (vpn.0 % REGION_PAGES) as u32))
    }

    /// Whose page it is, and where; `None` for ids not in use.
    pub fn place(&self, page: PageId) -> Option<(ProcessId, Vpn)> {
        let (process, block) = (*self.places.get(page.region().index())?)?;
        Some((process, Vpn(block * REGION_PAGES + u64::from(page.offset()))))
    }

    /// Gives every page of `span` an id. Calls `sink` with each piece of it inside one region.
    /// New blocks get numbers in a row where that can be.
    ///
    /// Returns false, and gives out no more, where the 2^32 ids do not suffice.
    pub fn map(
        &mut self,
        process: ProcessId,
        span: Span,
        mut sink: impl FnMut(Span, PageRun),
    ) -> bool {
        let mut row = 0..0;
        let mut before = None;
        for piece in by_region(span) {
            let block = piece.start.0 / REGION_PAGES;
            let region = match self.regions.get(&(process, block)) {
                Some(region) => *region,
                None => {
                    if row.is_empty() {
                        let wanted = self.unknown(process, block, span);
                        let Some(found) = self.row(wanted, before) else { return false };
                        row = found;
                    }
                    let Some(number) = row.next() else { return false };
                    self.take(Region(number), (process, block))
                }
            };
            before = Some(region);
            sink(piece, run_of(region, piece));
        }
        true
    }

    /// Calls `sink` with each piece of `span` that has ids, ascending.
    pub fn known(&self, process: ProcessId, span: Span, mut sink: impl FnMut(Span, PageRun)) {
        let (first, end) = (span.start.0 / REGION_PAGES, span.end().0.div_ceil(REGION_PAGES));
        for ((_, block), region) in self.regions.range((process, first)..(process, end)) {
            let piece = Span::new(Vpn(block * REGION_PAGES), REGION_PAGES).intersect(span);
            if !piece.is_empty() {
                sink(piece, run_of(*region, piece));
            }
        }
    }

    /// Whether a page's block has ids.
    pub fn has(&self, process: ProcessId, page: Vpn) -> bool {
        self.regions.contains_key(&(process, page.0 / REGION_PAGES))
    }

    /// Blocks that have ids.
    pub fn blocks(&self) -> u64 {
        self.regions.len() as u64
    }

    /// The regions of all blocks that have ids, in the order of their addresses.
    pub fn regions(&self) -> impl Iterator<Item = Region> {
        self.regions.values().copied()
    }

    /// Takes back the ids of a block of which nothing is there.
    pub fn release(&mut self, region: Region) {
        if let Some(place) = self.places.get_mut(region.index()).and_then(Option::take) {
            self.regions.remove(&place);
            self.unused.insert(region.0);
        }
    }

    /// All ids given out are below this.
    pub fn pages(&self) -> u32 {
        self.places.len() as u32 * HUGE_PAGES
    }

    /// Memory held, about.
    pub fn bytes(&self) -> Bytes {
        // Nodes of a tree are two thirds full.
        let entry = size_of::<((ProcessId, u64), Region)>() * 3 / 2;
        let place = size_of::<Option<(ProcessId, u64)>>();
        let unused = self.unused.len() * 2 * size_of::<Region>();
        let bytes = self.regions.len() * entry + self.places.capacity() * place + unused;
        Bytes(bytes as u64)
    }

    /// How many blocks in a row from `block` on, up to the end of `span`, have no number.
    fn unknown(&self, process: ProcessId, block: u64, span: Span) -> u32 {
        let end = span.end().0.div_ceil(REGION_PAGES);
        let known = self.regions.range((process, block)..(process, end)).next();
        let stop = known.map_or(end, |((_, known), _)| *known);
        u32::try_from(stop - block).unwrap_or(u32::MAX)
    }

    /// `wanted` unused numbers in a row: those after `before`, else among the lowest, else new ones;
    /// one, where more than half of all numbers are unused and scattered.
    fn row(&self, wanted: u32, before: Option<Region>) -> Option<Range<u32>> {
        let end = self.places.len() as u32;
        let is_free = |number: u32| number >= end || self.unused.contains(&number);
        let fits = |first: u32| {
            let last = first.checked_add(wanted)?;
            ((first..last.min(end)).all(is_free) && last <= MOST_REGIONS).then_some(first..last)
        };
        if let Some(row) = before.and_then(|before| fits(before.0 + 1)) {
            return Some(row);
        }
        let mut at = 0;
        for _ in 0..MOST_GAPS {
            let Some(first) = self.unused.range(at..).next().copied() else { break };
            if let Some(row) = fits(first) {
                return Some(row);
            }
            // Behind the number that is in the way.
            at = (first..end).find(|number| !is_free(*number)).map_or(end, |taken| taken + 1);
        }
        let one = || self.unused.first().map(|first| *first..first + 1);
        let scattered = self.unused.len() > self.places.len() / 2;
        if scattered { one() } else { fits(end).or_else(one) }
    }

    fn take(&mut self, region: Region, place: (ProcessId, u64)) -> Region {
        while self.places.len() <= region.index() {
            self.unused.insert(self.places.len() as u32);
            self.places.push(None);
        }
        self.unused.remove(&region.0);
        self.places[region.index()] = Some(place);
        self.regions.insert(place, region);
        region
    }
}

/// The parts of a span by 2 MiB block.
pub fn by_region(span: Span) -> impl Iterator<Item = Span> {
    let mut at = span.start.0;
    let end = span.end().0;
    core::iter::from_fn(move || {
        (at < end).then(|| {
            let stop = ((at / REGION_PAGES + 1) * REGION_PAGES).min(end);
            let piece = Span::between(Vpn(at), Vpn(stop));
            at = stop;
            piece
        })
    })
}

fn run_of(region: Region, piece: Span) -> PageRun {
    let offset = (piece.start.0 % REGION_PAGES) as u32;
    PageRun { start: PageId(region.first().0 + offset), pages: piece.pages as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_are_those_of_a_plain_table_and_no_more_than_were_needed_at_once(
            steps in proptest::collection::vec((any::<bool>(), 7u32..9, 0u64..4000, 1u64..3000), 1..60),
        ) {
            let mut ids = AddressMap::default();
            let mut table: BTreeMap<(ProcessId, u64), Region> = BTreeMap::new();
            let mut most = 0;
            for (maps, process, start, pages) in steps {
                // Far apart, as in address space that is reserved.
                let (process, span) = (ProcessId(process), Span::new(Vpn(start << 30), pages));
                let mut told = Vec::new();
                if maps {
                    prop_assert!(ids.map(process, span, |piece, run| told.push((piece, run))));
                    for (piece, run) in &told {
                        let block = (process, piece.start.0 / REGION_PAGES);
                        let region = *table.entry(block).or_insert(run.start.region());
                        prop_assert_eq!(region, run.start.region());
                    }
                    prop_assert_eq!(told.iter().map(|(piece, _)| piece.pages).sum::<u64>(), pages);
                } else {
                    ids.known(process, span, |piece, run| told.push((piece, run)));
                    let known = by_region(span).filter(|piece| ids.has(process, piece.start));
                    prop_assert_eq!(told.iter().map(|(piece, _)| *piece).collect::<Vec<_>>(), known.collect::<Vec<_>>());
                    for (piece, run) in &told {
                        prop_assert_eq!(table.remove(&(process, piece.start.0 / REGION_PAGES)), Some(run.start.region()));
                        ids.release(run.start.region());
                    }
                }
                most = most.max(table.len());
                prop_assert_eq!(ids.blocks(), table.len() as u64);
                prop_assert_eq!(ids.regions().collect::<Vec<_>>(), table.values().copied().collect::<Vec<_>>());
                for ((process, block), region) in &table {
                    let vpn = Vpn(block * REGION_PAGES + 5);
                    prop_assert_eq!(ids.page(*process, vpn), Some(PageId(region.first().0 + 5)));
                    prop_assert_eq!(ids.place(PageId(region.first().0 + 5)), Some((*process, vpn)));
                }
                // Numbers in a row are looked for until half of all are unused.
                prop_assert!(ids.places.len() <= 2 * most + 7, "{} of {most}", ids.places.len());
            }
        }
    }

    const P: ProcessId = ProcessId(7);

    fn map(map: &mut AddressMap, start: u64, pages: u64) -> Vec<PageRun> {
        let mut runs = Vec::new();
        assert!(map.map(P, Span::new(Vpn(start), pages), |_, run| runs.push(run)));
        runs
    }

    #[test]
    fn pages_keep_their_place_in_their_block() {
        let mut ids = AddressMap::default();
        let runs = map(&mut ids, 1000, 600);
        assert_eq!(runs.iter().map(|r| r.pages).collect::<Vec<_>>(), [24, 512, 64]);
        assert_eq!(runs[0].start.offset(), 1000 % 512);
        let page = ids.page(P, Vpn(1024)).unwrap();
        assert_eq!(ids.place(page), Some((P, Vpn(1024))));
        assert_eq!(ids.page(ProcessId(8), Vpn(1024)), None);
        assert_eq!(map(&mut ids, 1000, 600), runs, "the same address has the same id");
    }

    #[test]
    fn pieces_stay_in_their_block() {
        let pieces: Vec<u64> = by_region(Span::new(Vpn(500), 1000)).map(|s| s.pages).collect();
        assert_eq!(pieces, [12, 512, 476]);
    }

    #[test]
    fn an_extent_has_numbers_in_a_row_where_that_can_be() {
        let mut ids = AddressMap::default();
        let regions = |ids: &mut AddressMap, block: u64, blocks: u64| -> Vec<u32> {
            let runs = map(ids, block * 512, blocks * 512);
            runs.iter().map(|run| run.start.region().0).collect()
        };
        assert_eq!(regions(&mut ids, 0, 4), [0, 1, 2, 3]);
        assert_eq!(regions(&mut ids, 100, 1), [4]);
        ids.release(Region(1));
        ids.release(Region(3));
        assert_eq!(regions(&mut ids, 200, 2), [5, 6], "no two in a row are unused");
        assert_eq!(regions(&mut ids, 300, 1), [1]);
        ids.release(Region(4));
        assert_eq!(regions(&mut ids, 400, 2), [3, 4]);
        assert_eq!(regions(&mut ids, 200, 4), [5, 6, 7, 8], "goes on behind what is there");
        ids.release(Region(8));
        assert_eq!(regions(&mut ids, 500, 3), [8, 9, 10], "new ones join unused ones at the end");
        let places = (0..11).map(|number| ids.places[number].is_some());
        assert_eq!((places.filter(|taken| *taken).count(), ids.unused.len()), (11, 0));
    }

    #[test]
    fn scattered_numbers_are_used_before_there_are_twice_as_many() {
        let mut ids = AddressMap::default();
        map(&mut ids, 0, 1000 * 512);
        for region in (0..1000).filter(|region| region % 4 != 0) {
            ids.release(Region(region));
        }
        // Nowhere are 4 in a row; 750 of 1000 are unused.
        for round in 1..=60 {
            let runs = map(&mut ids, round * 10_000 * 512, 4 * 512);
            assert_eq!(runs.len(), 4);
        }
        assert_eq!(ids.pages(), 1000 * 512);
        let taken = ids.places.iter().flatten().count();
        assert_eq!((taken, taken + ids.unused.len()), (250 + 60 * 4, ids.places.len()));
    }

    #[test]
    fn blocks_are_used_again() {
        let mut ids = AddressMap::default();
        for round in 0..1000 {
            let run = map(&mut ids, round * 512, 512)[0];
            ids.release(run.start.region());
            assert_eq!(ids.place(run.start), None);
        }
        assert_eq!((ids.pages(), ids.regions.len()), (512, 0));
    }
}
