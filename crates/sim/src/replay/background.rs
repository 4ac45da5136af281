//! Background work: one worker per lane, each with a queue and a clock of its own.

use super::marks;
use super::setup::Setup;
use super::time::{Time, Wait};
use super::units::{mapped, regions, units};
use crate::machine::{CpuModel, Workers};
use frostline_core::Engine;
use frostline_core::action::{Action, Lane, MAX_LANES, MoveId, Scan};
use frostline_core::event::Level;
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
    pub(super) job: Job,
    pub(super) what: Wait,
    pub(super) ns: f64,
}

/// Sums over the run.
#[derive(Debug, Default)]
pub(super) struct WorkSums {
    pub(super) page_checks: u64,
    /// Nanoseconds of scans, by whether they began in fast memory.
    pub(super) scan_ns: [f64; 2],
    pub(super) armed_pages: u64,
    pub(super) zero_pages_freed: u64,
    pub(super) not_modelled: u64,
}

/// What work is measured by: the memory that it is about.
#[derive(Clone, Copy)]
pub(super) struct Look<'k> {
    pub(super) setup: &'k Setup<'k>,
    pub(super) engine: &'k Engine,
    pub(super) marks: &'k [u8],
}

impl Look<'_> {
    /// Access bits that a scan has to read.
    fn checks(&self, scan: &Scan) -> u64 {
        let mut checks = 0;
        for part in regions(scan.run) {
            let (resident, huge) = mapped(self.engine, part);
            if resident == 0 {
                continue;
            }
            checks += if scan.level == Level::Huge || huge {
                1
            } else if scan.skip_untouched {
                let whole = part.start.region().run();
                1 + if marks::any(&self.marks[whole.range()], marks::ACCESSED) {
                    resident
                } else {
                    0
                }
            } else {
                resident
            };
        }
        checks
    }

    fn known(&self, run: PageRun) -> PageRun {
        run.intersect(PageRun::between(0, self.engine.view().pages()))
    }
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
    pub(super) sums: WorkSums,
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
            sums: WorkSums::default(),
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

    fn schedule_at(&mut self, now_ns: f64, lane: Lane, threads: f64, work: Work) {
        let lane = usize::from(lane.0) % MAX_LANES;
        let stretch = self.stretch(now_ns, lane, threads);
        let worker = &mut self.workers[lane];
        worker.cpu_ns += work.ns;
        worker.busy_until = worker.busy_until.max(now_ns) + work.ns * stretch;
        let end_ns = worker.busy_until;
        self.push(end_ns, work);
    }

    /// Work that has ended by now, in the order of ends.
    pub(super) fn pop(&mut self, now: u64) -> Option<Work> {
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

    /// Begins what the engine wants done.
    pub(super) fn start(&mut self, action: Action, look: Look<'_>, time: &Time) {
        let costs = &look.setup.machine.costs;
        match action {
            Action::Migrate { id, run, to, lane } => {
                self.start_move(id, run, (to, lane), look, time)
            }
            Action::Split { region, lane } => {
                let work =
                    Work { job: Job::Split(region), what: Wait::Migrate, ns: costs.split_ns };
                self.schedule(lane, work, look, time);
            }
            Action::Collapse { region, to, lane } => {
                let ns = if look.setup.machine.os.collapse { costs.collapse_ns } else { 0.0 };
                let work = Work { job: Job::Collapse(region, to), what: Wait::Migrate, ns };
                self.schedule(lane, work, look, time);
            }
            Action::Scan { scan, lane } => self.start_scan(scan, lane, look, time),
            Action::Arm { run, lane } | Action::Disarm { run, lane } => {
                let known = look.known(run);
                let ns = units(look.engine, known).len() as f64 * costs.arm_ns;
                self.sums.armed_pages += u64::from(known.pages);
                let work = Work { job: Job::Arm(known), what: Wait::Scan, ns };
                self.schedule(lane, work, look, time);
            }
            Action::SetSampling { .. } | Action::DemoteFile { .. } => self.sums.not_modelled += 1,
        }
    }

    fn schedule(&mut self, lane: Lane, work: Work, look: Look<'_>, time: &Time) {
        let shared = look.setup.shares_cores();
        let ns = work.ns + if shared { interruption_ns(look.setup, &work.job) } else { 0.0 };
        self.schedule_at(time.now_ns(), lane, time.parallel, Work { ns, ..work });
    }

    fn start_move(
        &mut self,
        id: MoveId,
        run: PageRun,
        (to, lane): (TierId, Lane),
        look: Look<'_>,
        time: &Time,
    ) {
        let mut chunk = PageRun { start: run.start, pages: 0 };
        for unit in units(look.engine, run) {
            if chunk.pages > 0 && chunk.pages + unit.pages > MOVE_CHUNK_PAGES {
                self.start_chunk(Job::Migrate { id, run: chunk, to }, lane, look, time);
                chunk = PageRun { start: unit.start, pages: 0 };
            }
            chunk.pages += unit.pages;
        }
        self.start_chunk(Job::Migrate { id, run: chunk, to }, lane, look, time);
    }

    fn start_chunk(&mut self, job: Job, lane: Lane, look: Look<'_>, time: &Time) {
        let Job::Migrate { run, to, .. } = job else { return };
        if run.pages == 0 {
            return;
        }
        let units = units(look.engine, run);
        let machine = look.setup.machine;
        let view = look.engine.view();
        let direct = |t: TierId| view.limits(t).direct_access;
        let mut ns = 0.0;
        for unit in &units {
            let Some(from) = view.state(unit.start).tier() else { continue };
            let pages = f64::from(unit.pages);
            ns += if !direct(to) || !direct(from) {
                pages * machine.swap_ns(from.index(), to.index())
            } else {
                look.setup.move_ns(*unit, from, to)
            };
        }
        if !look.engine.facts().in_kernel {
            let folios = units.len() as u32;
            let costs = &machine.costs;
            let (per_call, call_ns) = (costs.migrate_call_folios, costs.migrate_call_ns);
            ns += self.call_ns(time.ns, lane, folios, per_call, call_ns);
        }
        self.schedule(lane, Work { job, what: Wait::Migrate, ns }, look, time);
    }

    fn start_scan(&mut self, scan: Scan, lane: Lane, look: Look<'_>, time: &Time) {
        let known = look.known(scan.run);
        let mut start = known.start.0;
        while start < known.end() {
            let end = (start - start % SCAN_CHUNK_PAGES)
                .saturating_add(SCAN_CHUNK_PAGES)
                .min(known.end());
            let part = Scan { run: PageRun::between(start, end), ..scan };
            let checks = look.checks(&part);
            self.sums.page_checks += checks;
            let ns = checks as f64 * look.setup.machine.costs.scan_ns;
            let slow = look.engine.view().state(part.run.start).tier() != Some(TierId::FAST);
            self.sums.scan_ns[usize::from(slow)] += ns;
            self.schedule(lane, Work { job: Job::Scan(part), what: Wait::Scan, ns }, look, time);
            start = end;
        }
    }

    /// Arming gathers its interruptions, wherever the pages are: how many `pages` more make due.
    pub(super) fn interruptions(&mut self, pages: u32, setup: &Setup<'_>) -> u64 {
        let gathered = u64::from(setup.machine.costs.migrate_call_folios);
        let armed = self.armed + u64::from(pages);
        self.armed = armed % gathered;
        armed / gathered
    }
}

/// What a job's shootdowns take.
fn interruption_ns(setup: &Setup<'_>, job: &Job) -> f64 {
    let costs = &setup.machine.costs;
    let times = match job {
        Job::Migrate { .. } | Job::Split(_) | Job::Collapse(..) => 1.0,
        Job::Arm(run) => f64::from(run.pages) / f64::from(costs.migrate_call_folios),
        Job::Scan(_) => 0.0,
    };
    times * costs.shootdown_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of a job of 100 ns in each of two lanes, and of another in the first.
    fn ends(cpu: &CpuModel, threads: f64) -> [u64; 3] {
        let mut background = Background::new(cpu, 1);
        let work = Work { job: Job::Split(Region(0)), what: Wait::Migrate, ns: 100.0 };
        [Lane::PROMOTE, Lane::DEMOTE, Lane::PROMOTE].map(|lane| {
            background.schedule_at(0.0, lane, threads, work);
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
