//! Footprint of a trace's program.

use crate::address_space::AddressSpace;
use crate::error::SimError;
use crate::machine::Machine;
use frostline_core::types::*;
use frostline_trace::{Batch, TraceEvent, TraceSource};
use serde::{Deserialize, Serialize};

/// What a pass over the whole trace finds, for a machine's rules about page sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Most pages resident at once, untouched parts of huge folios included.
    pub peak_resident_pages: u64,
    /// Pages that are touched at least once.
    pub touched_pages: u64,
    /// Page ids are below this.
    pub page_ids: u32,
    /// Records.
    pub records: u64,
    /// Clock of the trace's end, in its header's unit.
    pub clock_end: u64,
    /// Whether huge folios were allowed.
    pub thp: bool,
    /// Memory of all guests together, which the host may have to hold; 0 without guests.
    #[serde(default)]
    pub guest_pages: u64,
}

impl Footprint {
    /// Peak resident size.
    pub fn bytes(&self) -> u64 {
        self.peak_resident_pages * PAGE_BYTES
    }
}

const TOUCHED: u8 = 1;
const RESIDENT: u8 = 2;
const EVER: u8 = 4;

/// Reads the whole trace and applies allocation, first touches and the machine's page sizes;
/// nothing is timed.
///
/// # Errors
/// A trace that cannot be read, or holds no access.
pub fn measure_footprint(
    source: &mut dyn TraceSource,
    machine: &Machine,
) -> Result<Footprint, SimError> {
    let mut pass = Pass {
        pages: vec![0; source.header().expected_pages.unwrap_or(0) as usize],
        residents: Vec::new(),
        space: AddressSpace::default(),
        resident: 0,
        found: Footprint { thp: machine.os.thp, ..Footprint::default() },
    };
    let mut batch = Batch::new();
    while source.next_batch(&mut batch)? {
        for event in &batch.events {
            pass.event(&event.event);
        }
        pass.found.records += batch.len() as u64;
        pass.found.clock_end = batch.clock_end;
        for &page in &batch.pages {
            if pass.pages.get(page as usize).is_none_or(|p| p & TOUCHED == 0) {
                pass.touch(PageId(page));
            }
        }
    }
    pass.found.page_ids = pass.pages.len() as u32;
    if pass.found.records == 0 { Err(SimError::EmptyTrace) } else { Ok(pass.found) }
}

struct Pass {
    pages: Vec<u8>,
    /// Resident pages by region, up to the last region that ever had any.
    residents: Vec<u16>,
    space: AddressSpace,
    resident: u64,
    found: Footprint,
}

impl Pass {
    #[cold]
    fn touch(&mut self, page: PageId) {
        self.grow(page.region().run().end());
        let state = self.pages[page.index()];
        self.found.touched_pages += u64::from(state & EVER == 0);
        if state & RESIDENT == 0 {
            let region = page.region();
            let empty = || self.pages[region.run().range()].iter().all(|p| p & RESIDENT == 0);
            if self.found.thp && self.space.allows_huge(region) && empty() {
                self.pages[region.run().range()].iter_mut().for_each(|p| *p |= RESIDENT);
                self.arrive(region, HUGE_PAGES as u16);
            } else {
                self.pages[page.index()] |= RESIDENT;
                self.arrive(region, 1);
            }
            self.found.peak_resident_pages = self.found.peak_resident_pages.max(self.resident);
        }
        self.pages[page.index()] |= TOUCHED | EVER;
    }

    fn arrive(&mut self, region: Region, pages: u16) {
        if region.index() >= self.residents.len() {
            self.residents.resize(region.index() + 1, 0);
        }
        self.residents[region.index()] += pages;
        self.resident += u64::from(pages);
    }

    fn grow(&mut self, pages: u32) {
        if pages as usize > self.pages.len() {
            self.pages.resize((pages as usize).next_multiple_of(HUGE_PAGES as usize), 0);
        }
    }

    fn event(&mut self, event: &TraceEvent) {
        self.space.apply(event);
        match event {
            TraceEvent::Unmap { runs, .. } | TraceEvent::Discard { runs, .. } => {
                runs.iter().for_each(|&run| self.free(run));
            }
            TraceEvent::Remap { moves, lost, .. } => {
                for &(from, to) in moves {
                    self.grow(from.end().max(to.0.saturating_add(from.pages)));
                    let old: Vec<u8> = self.pages[from.range()].to_vec();
                    self.free(from);
                    let target = PageRun { start: to, pages: from.pages };
                    self.free(target);
                    for (page, old) in target.iter().zip(old) {
                        self.pages[page.index()] |= old & (RESIDENT | TOUCHED | EVER);
                        if old & RESIDENT != 0 {
                            self.arrive(page.region(), 1);
                        }
                    }
                }
                lost.iter().for_each(|&run| self.free(run));
            }
            _ => {}
        }
    }

    /// Regions without anything resident are passed over.
    fn free(&mut self, run: PageRun) {
        let first = run.start.region().index().min(self.residents.len());
        let end = self.residents.len().min(run.end().div_ceil(HUGE_PAGES) as usize).max(first);
        for (index, residents) in (first..end).zip(&mut self.residents[first..end]) {
            if *residents == 0 {
                continue;
            }
            let part = Region(index as u32).run().intersect(run);
            for page in &mut self.pages[part.range()] {
                let resident = u16::from(*page & RESIDENT != 0);
                *residents -= resident;
                self.resident -= u64::from(resident);
                *page &= EVER;
            }
        }
    }
}
