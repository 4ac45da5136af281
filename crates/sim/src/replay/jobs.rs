//! Ends of background work: what changes, and what the engine is told.

use super::background::{Job, Work};
use super::kernel::Kernel;
use super::marks;
use super::units::{mapped, regions, units};
use frostline_core::action::{MoveId, Scan};
use frostline_core::event::{AccessBits, Event, Level, MoveOutcome};
use frostline_core::types::*;

/// Everything that has ended by now; the engine is told in the order of the ends.
pub(super) fn finish_jobs(kernel: &mut Kernel<'_>) {
    let now = kernel.time.ns as u64;
    while let Some(Work { job, what, ns }) = kernel.background.pop(now) {
        kernel.time.work(what, ns);
        job.finish(kernel);
        kernel.tell();
        kernel.note_peaks();
    }
    kernel.after_events();
}

impl Job {
    fn finish(self, kernel: &mut Kernel<'_>) {
        match self {
            Self::Migrate { id, run, to } => finish_move(kernel, id, run, to),
            Self::Split(region) => finish_split(kernel, region),
            Self::Collapse(region, to) => finish_collapse(kernel, region, to),
            Self::Scan(scan) => finish_scan(kernel, &scan),
            Self::Arm(run) => {
                let times = kernel.background.interruptions(run.pages, &kernel.setup);
                kernel.shootdown_by_worker(run, times);
            }
        }
    }
}

fn finish_move(kernel: &mut Kernel<'_>, id: MoveId, run: PageRun, to: TierId) {
    let full = kernel.faults.full.strikes();
    let mut moved = PageRun { start: run.start, pages: 0 };
    let mut stretch: Option<(PageRun, MoveOutcome)> = None;
    for unit in units(&kernel.engine, run) {
        let outcome = if full { MoveOutcome::NoSpace } else { move_unit(kernel, unit, to) };
        if outcome == MoveOutcome::Moved {
            moved.pages += unit.pages;
            kernel.translations.forget(unit);
        }
        stretch = match stretch {
            Some((run, same)) if same == outcome => {
                Some((PageRun { start: run.start, pages: run.pages + unit.pages }, same))
            }
            Some((run, other)) => {
                kernel.pending.push(Event::MigrationDone { id, run, outcome: other });
                Some((unit, outcome))
            }
            None => Some((unit, outcome)),
        };
    }
    if let Some((run, outcome)) = stretch {
        kernel.pending.push(Event::MigrationDone { id, run, outcome });
    }
    if moved.pages > 0 {
        kernel.shootdown_by_worker(PageRun { start: run.start, pages: 0 }, 1);
    }
}

fn move_unit(kernel: &mut Kernel<'_>, unit: PageRun, to: TierId) -> MoveOutcome {
    let state = kernel.engine.view().state(unit.start);
    let Some(from) = state.tier().filter(|_| state.is_in_flight()) else {
        return MoveOutcome::Gone;
    };
    if kernel.faults.busy.strikes() {
        return MoveOutcome::Busy;
    }
    if from == to {
        return MoveOutcome::Moved;
    }
    if unit.pages > 1 && !kernel.frames.has_huge(to) {
        kernel.sums.huge_frame_shortages += 1;
        return MoveOutcome::NoSpace;
    }
    kernel.relocate(unit, from, to);
    MoveOutcome::Moved
}

fn finish_split(kernel: &mut Kernel<'_>, region: Region) {
    let huge = kernel.engine.view().state(region.first()).is_huge();
    let split = huge && !kernel.faults.busy.strikes();
    kernel.pending.push(Event::SplitDone { region, split });
    if !split {
        return;
    }
    kernel.shootdown_by_worker(region.run(), 1);
    let used = marks::any(&kernel.marks[region.run().range()], marks::USED);
    for part in untouched_runs(kernel, region) {
        kernel.background.sums.zero_pages_freed += u64::from(part.pages);
        kernel.free_frames(part);
        kernel.pending.push(Event::Freed { run: part });
    }
    if used {
        marks::set(&mut kernel.marks[region.run().range()], marks::USED);
    }
}

/// All-zero parts of a folio: what has not been touched since it was mapped.
fn untouched_runs(kernel: &Kernel<'_>, region: Region) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for page in region.run().iter() {
        if kernel.marks[page.index()] & marks::TOUCHED == 0 {
            match runs.last_mut() {
                Some(run) if run.end() == page.0 => run.pages += 1,
                _ => runs.push(PageRun::single(page)),
            }
        }
    }
    runs
}

fn finish_collapse(kernel: &mut Kernel<'_>, region: Region, to: TierId) {
    let run = region.run();
    let view = kernel.engine.view();
    let allowed = kernel.setup.machine.os.collapse;
    let whole =
        allowed && run.iter().all(|p| view.state(p).is_resident() && view.state(p).is_in_flight());
    let tier = if whole && !kernel.faults.busy.strikes() && kernel.frames.has_huge(to) {
        let from: Vec<TierId> = run.iter().filter_map(|p| view.state(p).tier()).collect();
        if kernel.take_huge_frame(region, to) {
            for (page, from) in run.iter().zip(from) {
                if from != to {
                    kernel.account_move(PageRun::single(page), from, to);
                }
            }
            // The copy wrote every page: none is known to be zero any more.
            marks::set(&mut kernel.marks[run.range()], marks::TOUCHED);
            kernel.shootdown_by_worker(run, 1);
            Some(to)
        } else {
            None
        }
    } else {
        None
    };
    kernel.pending.push(Event::CollapseDone { region, tier });
}

fn finish_scan(kernel: &mut Kernel<'_>, scan: &Scan) {
    match scan.level {
        Level::Huge => scan_regions(kernel, scan),
        Level::Base => {
            for part in regions(scan.run) {
                scan_pages(kernel, part, scan);
            }
        }
    }
}

fn scan_regions(kernel: &mut Kernel<'_>, scan: &Scan) {
    let mut group: Option<(PageRun, u64)> = None;
    for part in regions(scan.run) {
        let run = part.start.region().run();
        if mapped(&kernel.engine, run).0 == 0 {
            continue;
        }
        let bit = u64::from(accessed(kernel, run));
        group = match group {
            Some((so_far, bits))
                if so_far.end() == run.start.0 && so_far.pages / HUGE_PAGES < 64 =>
            {
                let unit = so_far.pages / HUGE_PAGES;
                Some((
                    PageRun { start: so_far.start, pages: so_far.pages + HUGE_PAGES },
                    bits | bit << unit,
                ))
            }
            other => {
                push_bits(kernel, other, Level::Huge);
                Some((run, bit))
            }
        };
        if scan.clear {
            clear_accessed(kernel, run);
        }
    }
    push_bits(kernel, group, Level::Huge);
}

fn push_bits(kernel: &mut Kernel<'_>, group: Option<(PageRun, u64)>, level: Level) {
    if let Some((run, accessed)) = group {
        kernel.pending.push(Event::AccessBits(AccessBits { run, accessed, level }));
    }
}

/// A part of one region. A folio has one access bit: all its pages report it.
fn scan_pages(kernel: &mut Kernel<'_>, part: PageRun, scan: &Scan) {
    let region = part.start.region();
    let (resident, huge) = mapped(&kernel.engine, part);
    if resident == 0 {
        return;
    }
    let any = accessed(kernel, region.run());
    let mut start = part.start.0;
    while start < part.end() {
        let end = (start - start % 64 + 64).min(part.end());
        let run = PageRun::between(start, end);
        let mut bits = 0u64;
        let mut mapped = false;
        for (i, page) in run.iter().enumerate() {
            let resident = kernel.engine.view().state(page).is_resident();
            mapped |= resident;
            let set = if huge { any } else { kernel.marks[page.index()] & marks::ACCESSED != 0 };
            bits |= u64::from(resident && set) << i;
        }
        if mapped {
            push_bits(kernel, Some((run, bits)), Level::Base);
        }
        start = end;
    }
    if scan.clear {
        clear_accessed(kernel, if huge { region.run() } else { part });
    }
}

fn clear_accessed(kernel: &mut Kernel<'_>, run: PageRun) {
    marks::clear(&mut kernel.marks[run.range()], marks::ACCESSED);
}

fn accessed(kernel: &Kernel<'_>, run: PageRun) -> bool {
    marks::any(&kernel.marks[run.range()], marks::ACCESSED)
}
