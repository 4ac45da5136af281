//! Background work: one worker per lane, each with a queue and a clock of its own.

use super::{Replay, Wait, marks};
use crate::machine::{CpuModel, Workers};
use frostline_core::action::{Action, Lane, MAX_LANES, MoveId, Scan};
use frostline_core::event::{AccessBits, Event, Level, MoveOutcome};
use frostline_core::types::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pages of a move, and base units of a scan, that are reported at once.
const MOVE_CHUNK_PAGES: u32 = 512;
const SCAN_CHUNK_PAGES: u32 = 8192;

/// Work that ends at a known time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scheduled {
    end: u64,
    sequence: u64,
    slot: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Migrate {
        id: MoveId,
        run: PageRun,
        to: TierId,
    },
    Split(Region),
    Collapse(Region, TierId),
    Scan(Scan),
    /// Arming: the engine has set the marks already; this is the end of the work.
    Arm(PageRun),
}

/// A job, and the time that it takes of a processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    job: Job,
    what: Wait,
    pub(super) ns: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    busy_until: f64,
    /// Folios that still fit into the system call under way.
    call_room: u32,
    cpu_ns: f64,
}

/// Queues of all lanes.
#[derive(Debug)]
pub(super) struct Background {
    workers: [Worker; MAX_LANES],
    /// Cores that the workers share with the program; none where they have cores of their own.
    shared_cores: Option<f64>,
    /// Pages armed of which the program's cores have not been told yet.
    armed: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    jobs: Vec<Work>,
    free_slots: Vec<usize>,
    sequence: u64,
}

impl Background {
    /// Nothing is to be done yet. Each of the programs has cores of its own.
    pub(super) fn new(cpu: &CpuModel, programs: u32) -> Self {
        Self {
            workers: [Worker::default(); MAX_LANES],
            shared_cores: (cpu.workers == Workers::Shared)
                .then(|| f64::from(cpu.cores) * f64::from(programs)),
            armed: 0,
            queue: BinaryHeap::new(),
            jobs: Vec::new(),
            free_slots: Vec::new(),
            sequence: 0,
        }
    }

    fn push(&mut self, end_ns: f64, work: Work) {
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.jobs[slot] = work;
                slot
            }
            None => {
                self.jobs.push(work);
                self.jobs.len() - 1
            }
        };
        self.sequence += 1;
        let end = end_ns.ceil() as u64;
        self.queue.push(Reverse(Scheduled { end, sequence: self.sequence, slot }));
    }

    /// When the next job ends; never where there is none.
    pub(super) fn next_end(&self) -> u64 {
        self.queue.peek().map_or(u64::MAX, |Reverse(next)| next.end)
    }

    /// Processor time of all workers.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.workers.iter().map(|w| w.cpu_ns).sum()
    }

    /// How much longer a worker takes than it computes: cores go to all who want them alike, the
    /// program's `threads` among them.
    fn stretch(&self, now_ns: f64, lane: usize, threads: f64) -> f64 {
        let Some(cores) = self.shared_cores else { return 1.0 };
        let busy = |(i, w): &(usize, &Worker)| *i == lane || w.busy_until > now_ns;
        let busy = self.workers.iter().enumerate().filter(busy).count();
        ((threads + busy as f64) / cores).max(1.0)
    }

    fn schedule(&mut self, now_ns: f64, lane: Lane, threads: f64, work: Work) {
        let lane = usize::from(lane.0) % MAX_LANES;
        let stretch = self.stretch(now_ns, lane, threads);
        let worker = &mut self.workers[lane];
        worker.cpu_ns += work.ns;
        worker.busy_until = worker.busy_until.max(now_ns) + work.ns * stretch;
        let end_ns = worker.busy_until;
        self.push(end_ns, work);
    }

    fn pop(&mut self, now: u64) -> Option<Work> {
        let Reverse(next) = self.queue.peek()?;
        if next.end > now {
            return None;
        }
        let slot = next.slot;
        self.queue.pop();
        self.free_slots.push(slot);
        Some(self.jobs[slot])
    }

    /// Fixed cost of the system calls that `folios` more addresses need.
    fn call_ns(
        &mut self,
        now_ns: f64,
        lane: Lane,
        folios: u32,
        per_call: u32,
        call_ns: f64,
    ) -> f64 {
        let worker = &mut self.workers[usize::from(lane.0) % MAX_LANES];
        if worker.busy_until <= now_ns {
            worker.call_room = 0;
        }
        let fresh = folios.saturating_sub(worker.call_room);
        let calls = fresh.div_ceil(per_call);
        worker.call_room = worker.call_room + calls * per_call - folios;
        f64::from(calls) * call_ns
    }
}

impl Replay<'_> {
    /// Takes over what the engine wants done.
    pub(super) fn collect_actions(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            self.start(action);
        }
        self.after_events();
    }

    fn start(&mut self, action: Action) {
        let costs = &self.machine.costs;
        match action {
            Action::Migrate { id, run, to, lane } => self.start_move(id, run, to, lane),
            Action::Split { region, lane } => {
                let ns = costs.split_ns;
                self.schedule(lane, Wait::Migrate, ns, Job::Split(region));
            }
            Action::Collapse { region, to, lane } => {
                let ns = if self.machine.os.collapse { costs.collapse_ns } else { 0.0 };
                self.schedule(lane, Wait::Migrate, ns, Job::Collapse(region, to));
            }
            Action::Scan { scan, lane } => self.start_scan(scan, lane),
            Action::Arm { run, lane } | Action::Disarm { run, lane } => {
                let known = run.intersect(PageRun::between(0, self.engine.view().pages()));
                let ns = self.units(known).len() as f64 * costs.arm_ns;
                self.totals.armed_pages += u64::from(known.pages);
                self.schedule(lane, Wait::Scan, ns, Job::Arm(known));
            }
            Action::SetSampling { kind, period } => self.set_sampling(kind, period),
            Action::DemoteFile { .. } => self.totals.not_modelled += 1,
        }
    }

    pub(super) fn schedule(&mut self, lane: Lane, what: Wait, ns: f64, job: Job) {
        let now_ns = self.now_ns + self.waiting_ns;
        let ns = ns + if self.shares_cores() { self.interruption_ns(&job) } else { 0.0 };
        self.background.schedule(now_ns, lane, self.parallel, Work { job, what, ns });
    }

    fn start_move(&mut self, id: MoveId, run: PageRun, to: TierId, lane: Lane) {
        let mut chunk = PageRun { start: run.start, pages: 0 };
        for unit in self.units(run) {
            if chunk.pages > 0 && chunk.pages + unit.pages > MOVE_CHUNK_PAGES {
                self.start_chunk(id, chunk, to, lane);
                chunk = PageRun { start: unit.start, pages: 0 };
            }
            chunk.pages += unit.pages;
        }
        self.start_chunk(id, chunk, to, lane);
    }

    /// Base pages and folios of a run, in order; a folio cut by the run's ends counts as pages.
    fn units(&self, run: PageRun) -> Vec<PageRun> {
        let mut units = Vec::new();
        let mut next = run.start.0;
        while next < run.end() {
            let unit = self.unit(PageId(next));
            let unit =
                if unit.intersect(run) == unit { unit } else { PageRun::single(PageId(next)) };
            next = unit.end();
            units.push(unit);
        }
        units
    }

    fn start_chunk(&mut self, id: MoveId, chunk: PageRun, to: TierId, lane: Lane) {
        if chunk.pages == 0 {
            return;
        }
        let units = self.units(chunk);
        let costs = &self.machine.costs;
        let view = self.engine.view();
        let direct = |t: TierId| view.limits(t).direct_access;
        let mut ns = 0.0;
        for unit in &units {
            let Some(from) = view.state(unit.start).tier() else { continue };
            let pages = f64::from(unit.pages);
            ns += if !direct(to) || !direct(from) {
                pages * self.machine.swap_ns(from.index(), to.index())
            } else {
                self.move_ns(*unit, from, to)
            };
        }
        if !self.engine.facts().in_kernel {
            let folios = units.len() as u32;
            let (per_call, call_ns) = (costs.migrate_call_folios, costs.migrate_call_ns);
            ns += self.background.call_ns(self.now_ns, lane, folios, per_call, call_ns);
        }
        self.schedule(lane, Wait::Migrate, ns, Job::Migrate { id, run: chunk, to });
    }

    /// What it takes to move a unit between tiers with direct access.
    pub(super) fn move_ns(&self, unit: PageRun, from: TierId, to: TierId) -> f64 {
        let costs = &self.machine.costs;
        let fixed = if unit.pages > 1 { costs.migrate_huge_ns } else { costs.migrate_base_ns };
        fixed + f64::from(unit.pages) * self.machine.move_page_ns(from.index(), to.index())
    }

    fn start_scan(&mut self, scan: Scan, lane: Lane) {
        let known = scan.run.intersect(PageRun::between(0, self.engine.view().pages()));
        let mut start = known.start.0;
        while start < known.end() {
            let end = (start - start % SCAN_CHUNK_PAGES)
                .saturating_add(SCAN_CHUNK_PAGES)
                .min(known.end());
            let part = Scan { run: PageRun::between(start, end), ..scan };
            let checks = self.checks(&part);
            self.totals.page_checks += checks;
            let ns = checks as f64 * self.machine.costs.scan_ns;
            let slow = self.engine.view().state(part.run.start).tier() != Some(TierId::FAST);
            self.totals.scan[usize::from(slow)] += ns;
            self.schedule(lane, Wait::Scan, ns, Job::Scan(part));
            start = end;
        }
    }

    /// Access bits that a scan has to read.
    fn checks(&self, scan: &Scan) -> u64 {
        let mut checks = 0;
        for part in regions(scan.run) {
            let region = part.start.region();
            let (resident, huge) = self.mapped(part);
            if resident == 0 {
                continue;
            }
            checks += if scan.level == Level::Huge || huge {
                1
            } else if scan.skip_untouched {
                1 + if self.accessed(region.run()) { resident } else { 0 }
            } else {
                resident
            };
        }
        checks
    }

    /// Resident pages of a run inside one region, and whether they belong to a folio.
    fn mapped(&self, part: PageRun) -> (u64, bool) {
        let view = self.engine.view();
        let resident = part.iter().filter(|p| view.state(*p).is_resident()).count() as u64;
        (resident, view.state(part.start).is_huge())
    }

    fn accessed(&self, run: PageRun) -> bool {
        self.marks[run.range()].iter().any(|m| m & marks::ACCESSED != 0)
    }

    /// Everything that has ended by now; the engine is told in the order of the ends.
    pub(super) fn finish_jobs(&mut self) {
        let now = self.now_ns as u64;
        while let Some(Work { job, what, ns }) = self.background.pop(now) {
            self.work(what, ns);
            match job {
                Job::Migrate { id, run, to } => self.finish_move(id, run, to),
                Job::Split(region) => self.finish_split(region),
                Job::Collapse(region, to) => self.finish_collapse(region, to),
                Job::Scan(scan) => self.finish_scan(&scan),
                Job::Arm(run) => self.finish_arming(run),
            }
            self.tell();
            self.note_peaks();
        }
        self.after_events();
    }

    /// Whether workers run where the program does.
    pub(super) fn shares_cores(&self) -> bool {
        self.machine.cpu.workers == Workers::Shared
    }

    /// What a job's shootdowns take.
    fn interruption_ns(&self, job: &Job) -> f64 {
        let costs = &self.machine.costs;
        let times = match job {
            Job::Migrate { .. } | Job::Split(_) | Job::Collapse(..) => 1.0,
            Job::Arm(run) => f64::from(run.pages) / f64::from(costs.migrate_call_folios),
            Job::Scan(_) => 0.0,
        };
        times * costs.shootdown_ns
    }

    /// The end of a worker's change to page tables. Where it runs on the program's cores, it is the
    /// program's turn to wait anyway, and the shootdown is part of the job.
    pub(super) fn shootdown_by_worker(&mut self, run: PageRun, times: u64) {
        if self.shares_cores() {
            self.totals.shootdowns += times;
            self.forget_translations(run);
        } else {
            self.shootdown(run, times);
        }
    }

    /// Arming gathers its interruptions, wherever the pages are.
    fn finish_arming(&mut self, run: PageRun) {
        let gathered = u64::from(self.machine.costs.migrate_call_folios);
        let armed = self.background.armed + u64::from(run.pages);
        self.background.armed = armed % gathered;
        self.shootdown_by_worker(run, armed / gathered);
    }

    pub(super) fn is_busy(&mut self) -> bool {
        let share = self.options.faults.busy_pages;
        let busy = share > 0.0 && self.dice.busy.unit_f64() < share;
        self.totals.injected_busy += u64::from(busy);
        busy
    }

    pub(super) fn finds_node_full(&mut self) -> bool {
        let share = self.options.faults.full_node;
        let full = share > 0.0 && self.dice.full.unit_f64() < share;
        self.totals.injected_full += u64::from(full);
        full
    }

    fn finish_move(&mut self, id: MoveId, run: PageRun, to: TierId) {
        let full = self.finds_node_full();
        let mut moved = PageRun { start: run.start, pages: 0 };
        let mut stretch: Option<(PageRun, MoveOutcome)> = None;
        for unit in self.units(run) {
            let outcome = if full { MoveOutcome::NoSpace } else { self.move_unit(unit, to) };
            if outcome == MoveOutcome::Moved {
                moved.pages += unit.pages;
                self.forget_translations(unit);
            }
            stretch = match stretch {
                Some((run, same)) if same == outcome => {
                    Some((PageRun { start: run.start, pages: run.pages + unit.pages }, same))
                }
                Some((run, other)) => {
                    self.pending.push(Event::MigrationDone { id, run, outcome: other });
                    Some((unit, outcome))
                }
                None => Some((unit, outcome)),
            };
        }
        if let Some((run, outcome)) = stretch {
            self.pending.push(Event::MigrationDone { id, run, outcome });
        }
        if moved.pages > 0 {
            self.shootdown_by_worker(PageRun { start: run.start, pages: 0 }, 1);
        }
    }

    fn move_unit(&mut self, unit: PageRun, to: TierId) -> MoveOutcome {
        let state = self.engine.view().state(unit.start);
        let Some(from) = state.tier().filter(|_| state.is_in_flight()) else {
            return MoveOutcome::Gone;
        };
        if self.is_busy() {
            return MoveOutcome::Busy;
        }
        if from == to {
            return MoveOutcome::Moved;
        }
        if unit.pages > 1 && !self.frames.has_huge(to) {
            self.totals.huge_frame_shortages += 1;
            return MoveOutcome::NoSpace;
        }
        self.relocate(unit, from, to);
        MoveOutcome::Moved
    }

    fn finish_split(&mut self, region: Region) {
        let huge = self.engine.view().state(region.first()).is_huge();
        let split = huge && !self.is_busy();
        self.pending.push(Event::SplitDone { region, split });
        if !split {
            return;
        }
        self.shootdown_by_worker(region.run(), 1);
        let used = self.marks[region.run().range()].iter().any(|m| m & marks::USED != 0);
        for part in self.untouched_runs(region) {
            self.totals.zero_pages_freed += u64::from(part.pages);
            self.free_frames(part);
            self.pending.push(Event::Freed { run: part });
        }
        if used {
            self.marks[region.run().range()].iter_mut().for_each(|m| *m |= marks::USED);
        }
    }

    /// All-zero parts of a folio: what has not been touched since it was mapped.
    fn untouched_runs(&self, region: Region) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        for page in region.run().iter() {
            if self.marks[page.index()] & marks::TOUCHED == 0 {
                match runs.last_mut() {
                    Some(run) if run.end() == page.0 => run.pages += 1,
                    _ => runs.push(PageRun::single(page)),
                }
            }
        }
        runs
    }

    fn finish_collapse(&mut self, region: Region, to: TierId) {
        let run = region.run();
        let view = self.engine.view();
        let allowed = self.machine.os.collapse;
        let whole = allowed
            && run.iter().all(|p| view.state(p).is_resident() && view.state(p).is_in_flight());
        let tier = if whole && !self.is_busy() && self.frames.has_huge(to) {
            let from: Vec<TierId> = run.iter().filter_map(|p| view_tier(self, p)).collect();
            if self.take_huge_frame(region, to) {
                for (page, from) in run.iter().zip(from) {
                    if from != to {
                        self.account_move(PageRun::single(page), from, to);
                    }
                }
                // The copy wrote every page: none is known to be zero any more.
                self.marks[run.range()].iter_mut().for_each(|m| *m |= marks::TOUCHED);
                self.shootdown_by_worker(run, 1);
                Some(to)
            } else {
                None
            }
        } else {
            None
        };
        self.pending.push(Event::CollapseDone { region, tier });
    }

    fn finish_scan(&mut self, scan: &Scan) {
        match scan.level {
            Level::Huge => self.scan_regions(scan),
            Level::Base => {
                for part in regions(scan.run) {
                    self.scan_pages(part, scan);
                }
            }
        }
    }

    fn scan_regions(&mut self, scan: &Scan) {
        let mut group: Option<(PageRun, u64)> = None;
        for part in regions(scan.run) {
            let run = part.start.region().run();
            if self.mapped(run).0 == 0 {
                continue;
            }
            let bit = u64::from(self.accessed(run));
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
                    self.push_bits(other, Level::Huge);
                    Some((run, bit))
                }
            };
            if scan.clear {
                self.clear_accessed(run);
            }
        }
        self.push_bits(group, Level::Huge);
    }

    fn push_bits(&mut self, group: Option<(PageRun, u64)>, level: Level) {
        if let Some((run, accessed)) = group {
            self.pending.push(Event::AccessBits(AccessBits { run, accessed, level }));
        }
    }

    /// A part of one region. A folio has one access bit: all its pages report it.
    fn scan_pages(&mut self, part: PageRun, scan: &Scan) {
        let region = part.start.region();
        let (resident, huge) = self.mapped(part);
        if resident == 0 {
            return;
        }
        let any = self.accessed(region.run());
        let mut start = part.start.0;
        while start < part.end() {
            let end = (start - start % 64 + 64).min(part.end());
            let run = PageRun::between(start, end);
            let mut bits = 0u64;
            let mut mapped = false;
            for (i, page) in run.iter().enumerate() {
                let resident = self.engine.view().state(page).is_resident();
                mapped |= resident;
                let set = if huge { any } else { self.marks[page.index()] & marks::ACCESSED != 0 };
                bits |= u64::from(resident && set) << i;
            }
            if mapped {
                self.push_bits(Some((run, bits)), Level::Base);
            }
            start = end;
        }
        if scan.clear {
            self.clear_accessed(if huge { region.run() } else { part });
        }
    }

    fn clear_accessed(&mut self, run: PageRun) {
        self.marks[run.range()].iter_mut().for_each(|m| *m &= !marks::ACCESSED);
    }
}

fn view_tier(replay: &Replay<'_>, page: PageId) -> Option<TierId> {
    replay.engine.view().state(page).tier()
}

/// The parts of a run that lie in different regions.
fn regions(run: PageRun) -> impl Iterator<Item = PageRun> {
    let last = if run.pages == 0 { 0 } else { PageId(run.end() - 1).region().0 + 1 };
    (run.start.region().0..last).map(move |r| run.intersect(Region(r).run()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of a job of 100 ns in each of two lanes, and of another in the first.
    fn ends(cpu: &CpuModel, threads: f64) -> [u64; 3] {
        let mut background = Background::new(cpu, 1);
        let work = Work { job: Job::Split(Region(0)), what: Wait::Migrate, ns: 100.0 };
        [Lane::PROMOTE, Lane::DEMOTE, Lane::PROMOTE].map(|lane| {
            background.schedule(0.0, lane, threads, work);
            let ends = background.queue.iter().map(|Reverse(job)| (job.sequence, job.end));
            ends.max().unwrap().1
        })
    }

    #[test]
    fn workers_get_no_more_of_shared_cores_than_the_program() {
        let own = CpuModel::default();
        assert_eq!(ends(&own, 1.0), [100, 100, 200]);
        let shared = CpuModel { workers: Workers::Shared, ..own };
        assert_eq!(ends(&shared, 1.0), [200, 300, 500], "two, then three, want the one core");
        let four = CpuModel { cores: 4, ..shared };
        assert_eq!(ends(&four, 2.0), [100, 100, 200], "there is a core for everybody");
        assert_eq!(ends(&four, 4.0), [125, 150, 275]);
    }
}
