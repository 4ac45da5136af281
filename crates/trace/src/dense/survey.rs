//! Survey of the pages that a trace accesses, of which a [`Sheet`] is made.

use super::sheet::Sheet;
use crate::batch::Batch;
use crate::event::TraceEvent;
use frostline_core::Limit;
use frostline_core::types::*;
use hashbrown::HashMap;

/// Pages of a region as bits.
pub(super) type Bits = [u64; 8];

/// Bytes of tables that an accessed page accounts for: 16 pages of a table.
const HELD_PER_PAGE: u64 = 16 * frostline_core::limit::BYTES_PER_PAGE;
/// Records that account for one page of tables.
const RECORDS_PER_PAGE: u64 = 16;
/// More records than this do not fit into a byte of a file.
const MOST_RECORDS_PER_BYTE: u64 = 32;
/// Regions whose pages come together in memory.
const CHUNK: usize = 1024;

/// Collects the pages that are accessed, and those that they move to.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Index into the chunks, by region.
    regions: HashMap<u32, u32>,
    chunks: Vec<Vec<Bits>>,
    recent: Option<(u32, u32)>,
}

impl Survey {
    pub(crate) fn add(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.event(&event.event);
        }
        batch.pages.iter().for_each(|&page| self.page(PageId(page)));
    }

    fn event(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::StoreSamples { samples } => {
                samples.iter().for_each(|(_, page)| self.page(*page));
            }
            TraceEvent::Touched { regions, .. } => {
                for (region, bits) in regions {
                    let known = self.bits(region.0);
                    known.iter_mut().zip(bits).for_each(|(known, bits)| *known |= bits);
                }
            }
            TraceEvent::Remap { moves, .. } => {
                moves.iter().for_each(|(from, to)| self.remap(*from, *to));
            }
            _ => {}
        }
    }

    #[inline]
    fn page(&mut self, page: PageId) {
        let (word, bit) = (page.offset() as usize / 64, page.offset() % 64);
        self.bits(page.region().0)[word] |= 1 << bit;
    }

    #[inline]
    fn bits(&mut self, region: u32) -> &mut Bits {
        let index = match self.recent {
            Some((recent, index)) if recent == region => index,
            _ => {
                let next = self.regions.len() as u32;
                let index = *self.regions.entry(region).or_insert(next);
                if index == next {
                    if (next as usize).is_multiple_of(CHUNK) {
                        self.chunks.push(Vec::with_capacity(CHUNK));
                    }
                    self.chunks[next as usize / CHUNK].push([0; 8]);
                }
                self.recent = Some((region, index));
                index
            }
        };
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Pages that have been accessed are accounted for where they move to.
    fn remap(&mut self, from: PageRun, to: PageId) {
        let (first, last) = (from.start.region().0, PageId(from.end().max(1) - 1).region().0);
        let mut regions: Vec<u32> = if u64::from(last - first.min(last)) < self.regions.len() as u64
        {
            (first..=last).filter(|region| self.regions.contains_key(region)).collect()
        } else {
            self.regions.keys().copied().filter(|region| (first..=last).contains(region)).collect()
        };
        regions.sort_unstable();
        // Looked up before any is added: a page does not move on where old and new place overlap.
        let moved: Vec<(u32, Bits)> =
            regions.into_iter().map(|region| (region, *self.bits(region))).collect();
        for (region, bits) in moved {
            for page in pages_of(region, bits).filter(|page| from.contains(*page)) {
                self.page(PageId(to.0.saturating_add(page.0 - from.start.0)));
            }
        }
    }

    /// The numbering that keeps tables in proportion: none where the ids are dense enough as they are, whole
    /// regions in their order where these are, or else pages of regions with few of them side by side.
    pub(crate) fn sheet(self, limit: Limit, records_held: Bytes) -> Sheet {
        let mut regions: Vec<(u32, u32)> = self.regions.into_iter().collect();
        regions.sort_unstable();
        let bits = |index: u32| &self.chunks[index as usize / CHUNK][index as usize % CHUNK];
        let pages = self.chunks.iter().flatten().map(|bits| u64::from(count(bits))).sum::<u64>();
        let held = Bytes(pages.saturating_mul(HELD_PER_PAGE)).max(records_held);
        let allowed = limit.pages(held);
        let end = regions.last().map_or(0, |(region, _)| u64::from(*region) + 1);
        if end * u64::from(HUGE_PAGES) <= allowed {
            Sheet::as_is(allowed)
        } else {
            let whole = regions.len() as u64 * u64::from(HUGE_PAGES) <= allowed;
            let regions = regions.into_iter().map(|(region, index)| (region, bits(index)));
            Sheet::new(regions, if whole { 0 } else { Sheet::FEW })
        }
    }
}

/// Bytes of tables that a trace's records account for: as many as it claims, and fit a file of that length.
pub(crate) fn records_hold(claimed: Option<u64>, len_bytes: Option<u64>) -> Bytes {
    let fit = len_bytes.unwrap_or(0).saturating_mul(MOST_RECORDS_PER_BYTE);
    let records = claimed.map_or(fit, |claimed| claimed.min(fit));
    Bytes(records.saturating_mul(frostline_core::limit::BYTES_PER_PAGE / RECORDS_PER_PAGE))
}

pub(super) fn count(bits: &Bits) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}

/// Pages of a region whose bits are set, ascending.
pub(super) fn pages_of(region: u32, bits: Bits) -> impl Iterator<Item = PageId> {
    let first = Region(region).first().0;
    (0..HUGE_PAGES)
        .filter(move |page| bits[*page as usize / 64] >> (page % 64) & 1 == 1)
        .map(move |page| PageId(first + page))
}
