//! Dense page ids for the address spaces of running programs.

use frostline_core::types::*;
use frostline_linux::span::Span;
use hashbrown::HashMap;

const REGION_PAGES: u64 = HUGE_PAGES as u64;

/// Gives 2 MiB blocks of address space their [`Region`] numbers, and takes them back when nothing
/// of a block is mapped any more: a program that maps and unmaps for ever stays within its tables.
#[derive(Debug, Default)]
pub struct AddressMap {
    regions: HashMap<(ProcessId, u64), Region>,
    /// Process and block by region; the length is the number of regions ever given out.
    places: Vec<Option<(ProcessId, u64)>>,
    unused: Vec<Region>,
}

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
    ///
    /// Returns false, and gives out no more, where the 2^32 ids do not suffice.
    pub fn map(
        &mut self,
        process: ProcessId,
        span: Span,
        mut sink: impl FnMut(Span, PageRun),
    ) -> bool {
        for piece in by_region(span) {
            let block = piece.start.0 / REGION_PAGES;
            let known = self.regions.get(&(process, block)).copied();
            let Some(region) = known.or_else(|| self.fresh(process, block)) else { return false };
            sink(piece, run_of(region, piece));
        }
        true
    }

    /// Calls `sink` with each piece of `span` that has ids.
    pub fn known(&self, process: ProcessId, span: Span, mut sink: impl FnMut(Span, PageRun)) {
        for piece in by_region(span) {
            if let Some(region) = self.regions.get(&(process, piece.start.0 / REGION_PAGES)) {
                sink(piece, run_of(*region, piece));
            }
        }
    }

    /// Takes back the ids of a block of which nothing is mapped.
    pub fn release(&mut self, region: Region) {
        if let Some(place) = self.places.get_mut(region.index()).and_then(Option::take) {
            self.regions.remove(&place);
            self.unused.push(region);
        }
    }

    /// All ids given out are below this.
    pub fn pages(&self) -> u32 {
        self.places.len() as u32 * HUGE_PAGES
    }

    /// Memory held, about.
    pub fn bytes(&self) -> Bytes {
        let entry = size_of::<((ProcessId, u64), Region)>() + 1;
        let place = size_of::<Option<(ProcessId, u64)>>();
        let unused = self.unused.capacity() * size_of::<Region>();
        let bytes = self.regions.capacity() * entry + self.places.capacity() * place + unused;
        Bytes(bytes as u64)
    }

    fn fresh(&mut self, process: ProcessId, block: u64) -> Option<Region> {
        let region = match self.unused.pop() {
            Some(region) => region,
            None => {
                let next = u32::try_from(self.places.len()).ok()?;
                // The last region stays unused: its end is no 32-bit number.
                (next < u32::MAX / HUGE_PAGES).then_some(())?;
                self.places.push(None);
                Region(next)
            }
        };
        self.places[region.index()] = Some((process, block));
        self.regions.insert((process, block), region);
        Some(region)
    }
}

/// The parts of a span by 2 MiB block.
pub(crate) fn by_region(span: Span) -> impl Iterator<Item = Span> {
    let mut at = span.start.0;
    let end = span.end().0;
    std::iter::from_fn(move || {
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
