//! Several programs, and whose turn it is.

use super::program::Program;
use super::setup::GuestSetup;
use super::shift::Shift;
use super::tally;
use super::virtual_machine::VirtualMachine;
use crate::error::SimError;
use crate::footprint::Footprint;
use crate::machine::{CpuModel, Machine};
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_trace::batch::Want;
use frostline_trace::{TraceHeader, TraceSource};

/// Programs that share a machine: side by side on its kernel, or each in a virtual machine.
///
/// Each has as many cores of its own as the machine model says.
pub struct Together {
    pub(crate) header: TraceHeader,
    pub(crate) programs: Vec<Program>,
    /// The clock of all traces, one behind the other.
    pub(crate) clock: u64,
}

impl Together {
    /// Programs with what was measured of each by [`crate::measure_footprint`], on the machine of
    /// [`Self::inside`]. `scale` divides intervals, `seed` makes guests' memory.
    ///
    /// # Errors
    /// No program, traces whose clocks or thinning differ, or more pages than can be numbered.
    pub fn new(
        programs: Vec<(Box<dyn TraceSource + Send>, Footprint)>,
        guest: Option<&GuestSetup>,
        scale: f64,
        seed: u64,
    ) -> Result<Self, SimError> {
        let Some((first, _)) = programs.first() else { return Err(SimError::EmptyTrace) };
        let header = first.header().clone();
        let mut rng = Rng::new(seed);
        let (mut all, mut base) = (Vec::new(), 0u64);
        let count = programs.len() as u32;
        for (index, (source, footprint)) in (0..).zip(programs) {
            let own = source.header();
            if own.clock != header.clock || own.thinning.max(1) != header.thinning.max(1) {
                return Err(SimError::Unlike { one: header.name.clone(), other: own.name.clone() });
            }
            let pages = Self::pages(guest, &footprint);
            if base + pages > u64::from(u32::MAX / 2) {
                return Err(SimError::TooManyPages);
            }
            let shift = Shift { index, programs: count, base: base as u32 };
            let guest = guest.map(|g| VirtualMachine::new(g, &footprint, scale, &mut rng.fork()));
            all.push(Program::new(source, shift, pages as u32, footprint.records, guest));
            base += pages;
        }
        Ok(Self { header, programs: all, clock: 0 })
    }

    /// Chooses the optional columns of all traces.
    pub(crate) fn want(&mut self, want: Want) {
        self.programs.iter_mut().for_each(|program| program.want(want));
    }

    /// Has programs from one on, not the first, begin once the first one has come to that share of its
    /// records, or to its end; at once without the call.
    pub fn hold_back(&mut self, from: usize, share: f64) {
        self.programs.iter_mut().skip(from.max(1)).for_each(|program| program.hold_back(share));
    }

    /// The machine on which programs' footprints are measured: inside of a guest, unless it maps
    /// memory by 2 MiB, base pages.
    pub fn inside(machine: &Machine, guest: Option<&GuestSetup>) -> Machine {
        let mut machine = machine.clone();
        if let Some(guest) = guest {
            machine.os.thp = guest.huge;
        }
        machine
    }

    /// What they have together. Sizes of fast memory are relative to what the programs have resident,
    /// not to the memory of their guests.
    pub fn footprint(footprints: &[Footprint], guest: Option<&GuestSetup>) -> Footprint {
        let sum = |of: fn(&Footprint) -> u64| footprints.iter().map(of).sum();
        let pages: u64 = footprints.iter().map(|f| Self::pages(guest, f)).sum();
        Footprint {
            peak_resident_pages: sum(|f| f.peak_resident_pages),
            touched_pages: sum(|f| f.touched_pages),
            page_ids: u32::try_from(pages).unwrap_or(u32::MAX),
            records: sum(|f| f.records),
            clock_end: sum(|f| f.clock_end),
            thp: footprints.iter().all(|f| f.thp),
            guest_pages: if guest.is_some() { pages } else { 0 },
        }
    }

    /// Page ids of a program.
    fn pages(guest: Option<&GuestSetup>, footprint: &Footprint) -> u64 {
        let regions = match guest {
            Some(guest) => u64::from(VirtualMachine::regions(guest, footprint)),
            None => u64::from(footprint.page_ids.div_ceil(HUGE_PAGES)),
        };
        regions * u64::from(HUGE_PAGES)
    }

    /// The one that is behind, unless all have ended.
    pub(crate) fn behind(&mut self) -> Option<usize> {
        let (first, others) = self.programs.split_first_mut()?;
        let (share, now_ns) = (first.share_done(), first.time_ns);
        others.iter_mut().for_each(|program| program.begin(share, now_ns));
        let going = self.programs.iter().enumerate().filter(|(_, program)| program.runs());
        going.min_by(|(_, a), (_, b)| a.time_ns.total_cmp(&b.time_ns)).map(|(index, _)| index)
    }

    /// Threads of all that run at the same time, each on a processor of its own; at least 1.
    pub(crate) fn parallel(&self, cpu: &CpuModel) -> f64 {
        self.programs.iter().map(|program| program.parallel(cpu)).sum::<f64>().max(1.0)
    }

    /// Counters of all programs.
    pub(crate) fn report(&self, put: &mut dyn FnMut(&str, f64)) {
        let tallies: Vec<_> = self.programs.iter().map(|program| &program.tally).collect();
        let in_guests = self.programs.iter().any(|program| program.guest.is_some());
        tally::report(&tallies, in_guests, put);
    }
}
