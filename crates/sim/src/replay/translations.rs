//! Translations of pages, where the translation lookaside buffer is modelled.

use super::setup::Setup;
use crate::guest::Together;
use crate::tlb::{Lookup, Tlb};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_trace::Batch;

/// Threads of a trace whose buffer is modelled; more threads share.
const TLBS: u32 = 64;
/// The same of a guest.
const GUEST_TLBS: u32 = 16;

/// Virtual machines, each with a page table of its own.
#[derive(Debug)]
pub(super) struct Guests {
    /// Pages of the batch as the guest that runs knows them.
    pub(super) own_pages: Vec<u32>,
    /// Whether guests map by 2 MiB.
    huge: bool,
    /// Where each one's page ids begin.
    bases: Vec<u32>,
}

impl Guests {
    /// Those of programs that take turns; none where they are in no guests.
    pub(super) fn of(together: &Together) -> Option<Self> {
        let guest = together.programs.first().and_then(|program| program.guest.as_ref())?;
        Some(Self {
            own_pages: Vec::new(),
            huge: guest.map.is_huge(),
            bases: together.programs.iter().map(|program| program.shift.base).collect(),
        })
    }
}

/// Translation buffers of all cores.
#[derive(Debug)]
pub(super) struct Translations {
    tlbs: Vec<Tlb>,
    /// Accesses of the batch that walked the page table, where that is modelled.
    walked: Vec<bool>,
    pub(super) guests: Option<Guests>,
    /// Lookups by what answered.
    pub(super) lookups: [u64; 3],
    pub(super) shootdowns: u64,
}

impl Translations {
    pub(super) fn new(guests: Option<Guests>) -> Self {
        Self { tlbs: Vec::new(), walked: Vec::new(), guests, lookups: [0; 3], shootdowns: 0 }
    }

    /// Whether an access of the batch walked the page table, where that is known.
    pub(super) fn walked(&self, access: usize) -> Option<bool> {
        self.walked.get(access).copied()
    }

    /// Translates every access of the batch of a program, by their states; the time of misses.
    pub(super) fn translate(
        &mut self,
        setup: &Setup<'_>,
        program: usize,
        batch: &Batch,
        states: &[u8],
    ) -> f64 {
        self.walked.clear();
        if self.guests.is_some() {
            return self.translate_nested(setup, program, batch, states);
        }
        let mut found = [0u64; 3];
        let mut base_walks = 0u64;
        let accesses = batch.pages.iter().zip(states);
        let walked = &mut self.walked;
        let mut note = |lookup: Lookup, huge: bool| {
            walked.push(lookup == Lookup::Walk);
            found[lookup as usize] += 1;
            base_walks += u64::from(lookup == Lookup::Walk && !huge);
        };
        if let Some(stream) = batch.streams.constant() {
            let tlb = tlb_of(&mut self.tlbs, setup, stream);
            for (page, state) in accesses {
                let huge = PageState(*state).is_huge();
                note(tlb.translate(*page, huge), huge);
            }
        } else {
            for (i, (page, state)) in accesses.enumerate() {
                let tlb = tlb_of(&mut self.tlbs, setup, batch.streams.get(i));
                let huge = PageState(*state).is_huge();
                note(tlb.translate(*page, huge), huge);
            }
        }
        let [_, l2, walks] = found;
        (0..3).for_each(|i| self.lookups[i] += found[i]);
        let model = &setup.machine.tlb;
        let span_ns = l2 as f64 * model.l2_hit_ns
            + base_walks as f64 * model.walk_base_ns
            + (walks - base_walks) as f64 * model.walk_huge_ns;
        span_ns * f64::from(setup.thinning)
    }

    /// As [`Self::translate`], through both page tables of a guest.
    fn translate_nested(
        &mut self,
        setup: &Setup<'_>,
        program: usize,
        batch: &Batch,
        states: &[u8],
    ) -> f64 {
        let Some(guests) = &self.guests else { return 0.0 };
        let end = (program + 1) * GUEST_TLBS as usize;
        if self.tlbs.len() < end {
            self.tlbs.resize_with(end, || Tlb::new(&setup.machine.tlb));
        }
        let model = &setup.machine.tlb;
        let mut found = [0u64; 3];
        let mut walks = 0.0;
        for (i, (page, state)) in guests.own_pages.iter().zip(states).enumerate() {
            let thread = batch.streams.get(i) / setup.programs % GUEST_TLBS;
            let tlb = &mut self.tlbs[program * GUEST_TLBS as usize + thread as usize];
            let host_huge = PageState(*state).is_huge();
            let lookup = tlb.translate(*page, host_huge && guests.huge);
            found[lookup as usize] += 1;
            if lookup == Lookup::Walk {
                walks += match (guests.huge, host_huge) {
                    (true, true) => 1.0,
                    (false, false) => model.nested_host_base,
                    _ => model.nested_host_huge,
                };
            }
        }
        (0..3).for_each(|i| self.lookups[i] += found[i]);
        let l2 = found[Lookup::L2 as usize] as f64;
        (l2 * model.l2_hit_ns + walks * model.nested_ns) * f64::from(setup.thinning)
    }

    /// Translations of a run are gone from every buffer.
    pub(super) fn forget(&mut self, run: PageRun) {
        if run.pages == 0 {
            return;
        }
        if self.guests.is_some() {
            // The host changed what stands behind a guest's memory: all of its translations go, as `INVEPT`
            // has it.
            return self.of_guest(run.start).iter_mut().for_each(Tlb::flush_all);
        }
        for tlb in &mut self.tlbs {
            run.iter().for_each(|page| tlb.flush_base(page.0));
            for region in run.start.region().0..=PageId(run.end() - 1).region().0 {
                tlb.flush_huge(region);
            }
        }
    }

    /// The guest whose ids begin at `base` flushes one of its own pages.
    pub(super) fn flush_in_guest(&mut self, base: u32, page: PageId) {
        for tlb in self.of_guest(PageId(base)) {
            tlb.flush_base(page.0);
        }
    }

    fn of_guest(&mut self, page: PageId) -> &mut [Tlb] {
        let bases = self.guests.as_ref().map(|guests| guests.bases.as_slice()).unwrap_or_default();
        let program = bases.partition_point(|base| *base <= page.0).saturating_sub(1);
        let (all, tlbs) = (self.tlbs.len(), GUEST_TLBS as usize);
        &mut self.tlbs[(program * tlbs).min(all)..((program + 1) * tlbs).min(all)]
    }
}

fn tlb_of<'t>(tlbs: &'t mut Vec<Tlb>, setup: &Setup<'_>, stream: u32) -> &'t mut Tlb {
    let index = (stream % TLBS) as usize;
    if index >= tlbs.len() {
        tlbs.resize_with(index + 1, || Tlb::new(&setup.machine.tlb));
    }
    &mut tlbs[index]
}
