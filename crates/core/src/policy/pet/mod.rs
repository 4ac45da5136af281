//! `pet`: PET (Doh et al., EuroSys '25), demotion ahead of need by what programs allocate at once.
//!
//! A large anonymous allocation is a block, however much there is of fast memory. One random page of
//! each is watched; a block that was not accessed for a scan interval is watched by parts, then a tenth
//! of its pages are demoted and fault, and what still was not accessed is cut out and demoted. Such
//! faults bring a block back as a whole, by a worker, where they are more than a tolerable slowdown
//! allows. Files that nobody holds open are demoted as well (`pet-nofile`: they are not).
//!
//! Not good for: heaps that a runtime manages inside one allocation. Departs from its source: a first
//! touch is an access; pages of accessed blocks that lie in slow memory, for want of room when they
//! were allocated or came back, are promoted when there is room.

mod blocks;
mod canaries;
mod oracle;
mod queue;
#[cfg(test)]
mod tests;
mod units;

use super::contract::{MetricSink, PageSize, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::kernel::look;
use super::offer::Offer;
use super::settings::Settings;
use super::suited::{Lack, Suited};
use crate::action::{Action, Lane, Plan};
use crate::budget::Budget;
use crate::event::{AccessBits, Backing, Event, MoveCause};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::rng::Rng;
use crate::types::*;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use blocks::{Block, Blocks, Faults, Part, State, Watch};
use canaries::{Canaries, Touch};
pub use oracle::ENTRY as ORACLE;
use queue::Queue;
use units::units_in;

/// `pet`.
pub const ENTRY: Entry = Entry {
    name: "pet",
    group: Group::Principal,
    summary: "demotes what a program allocated at once and no longer accesses, ahead of need",
    citation: "Doh et al., PET, EuroSys '25",
    pages: Some(PageSize::Base),
    params: &[
        Param::scaled("sampling", Kind::Duration, "500ms", "", "interval of looking at a page"),
        Param::scaled(
            "scan",
            Kind::Duration,
            "10s",
            "",
            "without access after which memory is cold",
        ),
        Param::fixed("least", Kind::Bytes, "128KiB", "", "allocation that is managed"),
        Param::scaled(
            "max-block",
            Kind::Bytes,
            "1GiB",
            "",
            "of an allocation in one block, 32KiB or more",
        ),
        Param::scaled(
            "temporary",
            Kind::Bytes,
            "128MiB",
            "",
            "part of a block that may be cold, 32KiB or more",
        ),
        Param::fixed("canaries", Kind::Ratio, "10%", "", "of a block demoted first, to fault"),
        Param::fixed("slowdown", Kind::Ratio, "3%", "", "that demoted memory may cost"),
        Param::fixed("penalty", Kind::Duration, "8.3us", "", "of an access to a demoted page"),
        Param::fixed("files", Kind::Switch, "on", "", "demote files that nobody holds open"),
    ],
    preset: &[],
    suits,
    facts,
    build: |settings, context| Ok(Box::new(Pet::new(settings, context))),
};

/// Files stay, where nothing tells that they are closed.
fn suits(offer: &Offer) -> Vec<Suited> {
    let stay = Suited::without(Lack::ClosedFiles, "files", "off", "files stay where they are");
    (!offer.telemetry.closed_files).then_some(stay).into_iter().collect()
}

fn facts(settings: &Settings) -> Facts {
    let needs = Telemetry {
        access_bits: true,
        faults: true,
        swap_faults: true,
        allocation_extents: true,
        closed_files: settings.switch("files"),
        ..Telemetry::default()
    };
    Facts { needs, in_kernel: true, ..Facts::default() }
}

/// `pet-nofile`.
pub const NO_FILES: Entry = Entry {
    name: "pet-nofile",
    group: Group::Variants,
    summary: "pet that leaves files alone",
    preset: &[("files", "off")],
    ..ENTRY
};

/// Pages of a block, and of a part, at least: what is known of each takes as much memory as tables of some pages.
const SMALLEST: u32 = 8;
/// Pages tried until one is found that can be watched.
const TRIES: usize = 8;

/// Constants of the rules.
#[derive(Clone, Copy, Debug)]
struct Rules {
    sampling: Nanos,
    scan: Nanos,
    /// Pages of an allocation that is managed, of a block, and of a part, at least and at most.
    least: u32,
    most: u32,
    part: u32,
    /// Faults in a sampling interval that cost the slowdown that is tolerable.
    faults: f64,
    files: bool,
}

impl Rules {
    fn new(settings: &Settings) -> Self {
        let interval = |key| Nanos(settings.duration(key).0.max(1));
        let pages =
            |key| u32::try_from(Bytes(settings.count(key)).pages().0).unwrap_or(u32::MAX).max(1);
        let canaries = settings.number("canaries");
        let per_second =
            settings.number("slowdown") * canaries / (interval("penalty").0 as f64 * 1e-9);
        Self {
            sampling: interval("sampling"),
            scan: interval("scan"),
            least: pages("least"),
            most: pages("max-block").max(SMALLEST),
            part: pages("temporary").max(SMALLEST),
            faults: per_second * interval("sampling").0 as f64 * 1e-9,
            files: settings.switch("files"),
        }
    }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    checked: u64,
    phase1: u64,
    phase2: u64,
    spared: u64,
    cut: u64,
    /// Kept since nothing would have told of accesses.
    unseen: u64,
    faults: u64,
    demoted_blocks: u64,
    promoted_blocks: u64,
    by_total: u64,
    files: u64,
}

/// PET; made by [`ENTRY`].
struct Pet {
    rules: Rules,
    rng: Rng,
    blocks: Blocks,
    canaries: Canaries,
    /// Mappings of files, by number, and files closed since the last scan.
    files: BTreeMap<u32, Vec<PageRun>>,
    closed: BTreeSet<u32>,
    next_sampling: Nanos,
    next_scan: Nanos,
    /// Faults of demoted blocks in this sampling interval, as counted there, and pages of such blocks
    /// at its begin.
    faults: f64,
    demoted: u64,
    /// Pages whose arming is to be taken back, and those on the wrong side.
    disarm: Vec<PageRun>,
    returning: Queue,
    leaving: Queue,
    /// A block came back by faults: no time is to be lost.
    urgent: bool,
    counters: Counters,
}

impl Pet {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let rules = Rules::new(settings);
        Self {
            rng: Rng::new(context.seed),
            blocks: Blocks::default(),
            canaries: Canaries::new(settings.number("canaries"), &context.telemetry),
            files: BTreeMap::new(),
            closed: BTreeSet::new(),
            next_sampling: rules.sampling,
            next_scan: rules.scan,
            faults: 0.0,
            demoted: 0,
            disarm: Vec::new(),
            returning: Queue::new(TierId::FAST, Lane::PROMOTE),
            leaving: Queue::new(TierId::FAST.slower(), Lane::DEMOTE),
            urgent: false,
            counters: Counters::default(),
            rules,
        }
    }

    fn map(&mut self, run: PageRun, backing: Backing) {
        match backing {
            Backing::Anonymous if run.pages >= self.rules.least => {
                self.blocks.allocate(run, self.rules.most);
            }
            Backing::File(file) if self.rules.files => {
                self.closed.remove(&file);
                self.files.entry(file).or_default().push(run);
            }
            _ => {}
        }
    }

    fn unmap(&mut self, run: PageRun) {
        self.blocks.take(run);
        for runs in self.files.values_mut() {
            *runs = runs.iter().flat_map(|mapped| mapped.without(run)).collect();
        }
        self.files.retain(|_, runs| !runs.is_empty());
    }

    /// An access bit has been read, unless it was only cleared.
    fn learn(&mut self, bits: &AccessBits) {
        let page = bits.run.start;
        let Some(block) = self.blocks.of(page) else { return };
        let watch = block.watched().find(|(_, watch)| watch.reading == Some(page));
        if let Some((_, watch)) = watch {
            watch.reading = None;
            watch.accessed |= bits.accessed & 1 == 1;
            watch.heard = true;
            self.counters.checked += 1;
        }
    }

    /// A page was touched and that was noticed.
    fn access(&mut self, page: PageId, touch: Touch) {
        let faulted = u64::from(touch != Touch::First);
        let Some(block) = self.blocks.of(page) else { return };
        let run = block.run;
        if let State::Demoted(faults) = &mut block.state {
            self.faults += self.canaries.count(touch, faults);
            self.counters.faults += faulted;
            let share = f64::from(run.pages) / (self.demoted.max(u64::from(run.pages))) as f64;
            let by_total = self.faults >= self.rules.faults;
            if by_total || faults.counted >= self.rules.faults * share {
                block.state = State::Normal(Watch::of_access());
                self.restore(run);
                self.urgent = true;
                self.counters.promoted_blocks += 1;
                self.counters.by_total += u64::from(by_total);
            }
        } else if let Some((_, watch)) = block.watched().find(|(run, _)| run.contains(page)) {
            watch.accessed = true;
            self.counters.faults += faulted;
        }
    }

    /// Pages of a run are wanted in fast memory, and shall not fault.
    fn restore(&mut self, run: PageRun) {
        self.disarm.push(run);
        self.returning.push(run);
    }

    /// Reads the access bits cleared at the last sampling, and clears those of other pages, unless an answer
    /// is still to come.
    fn sample(&mut self, view: &View<'_>, plan: &mut Plan) {
        for (run, watch) in self.blocks.iter_mut().flat_map(Block::watched) {
            if watch.reading.is_some_and(|page| can_tell(page, run, view)) {
                continue;
            }
            watch.reading = watch.page.take();
            watch.page = pick(run, &mut self.rng, view);
            watch.heard |= watch.page.is_none();
            if let Some(page) = watch.reading.filter(|page| watch.page != Some(*page)) {
                look(view.unit(page), false, plan);
            }
            if let Some(page) = watch.page {
                look(view.unit(page), true, plan);
            }
        }
    }

    /// The end of a scan interval: every block goes a step on, or back.
    fn judge(&mut self, view: &View<'_>, plan: &mut Plan) {
        let blocks = self.blocks.take(PageRun::between(0, u32::MAX));
        self.canaries.share_places(&blocks);
        for mut block in blocks {
            let conclusive =
                block.watched().fold(true, |all, (_, watch)| all & watch.is_conclusive());
            match &mut block.state {
                _ if !conclusive => {}
                State::Normal(watch) if watch.accessed => {
                    watch.forget();
                    if view.first_in(TierId::FAST.slower(), block.run).is_some() {
                        self.returning.push(block.run);
                    }
                }
                State::Normal(_) => {
                    self.counters.phase1 += 1;
                    block.state = State::Phase1(parts(block.run, self.rules.part));
                }
                State::Phase1(parts) if is_cold(parts) => {
                    parts.iter_mut().for_each(|part| part.watch.forget());
                    // Canaries are pages, not folios: the block waits until it has none.
                    if !self.canaries.split(block.run, view, plan) {
                        self.counters.phase2 += 1;
                        for part in parts.iter() {
                            self.canaries.release(part.run, &mut self.rng, view, plan);
                        }
                        block.state = State::Phase2(core::mem::take(parts));
                    }
                }
                State::Phase2(parts) if is_cold(parts) => {
                    let mut parts = core::mem::take(parts);
                    self.keep_unseen(&mut parts, view);
                    self.cut(&parts);
                    continue;
                }
                State::Phase1(_) => {
                    self.counters.spared += 1;
                    block = Block::normal(block.run);
                }
                State::Phase2(_) => {
                    self.counters.spared += 1;
                    self.restore(block.run);
                    block = Block::normal(block.run);
                }
                State::Demoted(faults) => {
                    if self.canaries.renew(block.run, faults, &mut self.rng, view, plan) {
                        self.counters.unseen += 1;
                        self.restore(block.run);
                        block = Block::normal(block.run);
                    }
                }
            }
            self.blocks.put(block);
        }
    }

    /// Parts stay that would be demoted without anything telling of their accesses.
    fn keep_unseen(&mut self, parts: &mut [Part], view: &View<'_>) {
        for part in parts.iter_mut().filter(|part| !part.watch.accessed) {
            let holds_fast = view.first_in(TierId::FAST, part.run).is_some();
            part.watch.accessed = holds_fast && self.canaries.out(part.run, view) == 0;
            self.counters.unseen += u64::from(part.watch.accessed);
        }
    }

    /// Cuts a block by what was accessed of it: neighbours of the same kind become blocks.
    fn cut(&mut self, parts: &[Part]) {
        let mut blocks = 0;
        for same in parts.chunk_by(|a, b| a.watch.accessed == b.watch.accessed) {
            let run = PageRun::between(same[0].run.start.0, same[same.len() - 1].run.end());
            if same[0].watch.accessed {
                self.restore(run);
                self.blocks.put(Block::normal(run));
            } else {
                self.leaving.push(run);
                self.blocks.put(Block { run, state: State::Demoted(Faults::default()) });
                self.counters.demoted_blocks += 1;
            }
            blocks += 1;
        }
        self.counters.cut += blocks - 1;
    }

    /// Demotes files that were closed since the last scan, with what is mapped of them.
    fn demote_files(&mut self, plan: &mut Plan) {
        for file in core::mem::take(&mut self.closed) {
            plan.push(Action::DemoteFile { file, lane: Lane::DEMOTE });
            self.counters.files += 1;
            for run in self.files.get(&file).into_iter().flatten() {
                self.leaving.push(*run);
            }
        }
    }

    fn disarm(&mut self, view: &View<'_>, plan: &mut Plan) {
        for run in self.disarm.drain(..) {
            for unit in units_in(run, view).filter(|unit| view.state(unit.start).is_armed()) {
                plan.push(Action::Disarm { run: unit, lane: Lane::PROMOTE });
            }
        }
    }
}

/// Parts of a block, of so many pages each but the last.
fn parts(run: PageRun, pages: u32) -> Vec<Part> {
    let starts = (run.start.0..run.end()).step_by(pages as usize);
    let part = |start: u32| PageRun::between(start, run.end().min(start.saturating_add(pages)));
    starts.map(|start| Part { run: part(start), watch: Watch::default() }).collect()
}

/// Whether more of the parts' memory was not accessed than was.
fn is_cold(parts: &[Part]) -> bool {
    let pages = |accessed: bool| -> u64 {
        let parts = parts.iter().filter(|part| part.watch.accessed == accessed);
        parts.map(|part| u64::from(part.run.pages)).sum()
    };
    pages(false) > pages(true)
}

/// A random page of a run whose access bit tells something; `None` where none was found quickly.
fn pick(run: PageRun, rng: &mut Rng, view: &View<'_>) -> Option<PageId> {
    // A damaged journal may tell of extents of no pages.
    let tries = if run.pages == 0 { 0 } else { TRIES };
    (0..tries).find_map(|_| {
        let page = PageId(run.start.0 + rng.below(u64::from(run.pages)) as u32);
        Some(view.unit(page).start).filter(|first| can_tell(*first, run, view))
    })
}

/// Whether the access bit of a page, the first of its folio, says something of a run.
fn can_tell(page: PageId, run: PageRun, view: &View<'_>) -> bool {
    let state = view.state(page);
    state.is_resident() && !state.is_armed() && run.contains(page)
}

impl Policy for Pet {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for event in events {
            match event {
                Event::Mapped { run, backing, .. } => self.map(*run, *backing),
                Event::Unmapped { run } => self.unmap(*run),
                Event::Remapped { from, to } => self.blocks.remap(*from, *to),
                Event::AccessBits(bits) => self.learn(bits),
                Event::Populated { run, .. } => self.access(run.start, Touch::First),
                // One in a tier without direct access also comes as a move.
                Event::Fault(fault) if view.limits(fault.tier).direct_access => {
                    self.access(fault.page, Touch::Fault);
                }
                Event::Moved { run, cause: MoveCause::Refault, .. } => {
                    self.access(run.start, Touch::Swap);
                }
                Event::FileClosed { file } if self.rules.files => {
                    self.closed.insert(*file);
                }
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, mut budget: Budget, plan: &mut Plan) {
        self.urgent = false;
        if now >= self.next_sampling {
            self.next_sampling = now.saturating_add(self.rules.sampling);
            if now >= self.next_scan {
                self.next_scan = now.saturating_add(self.rules.scan);
                self.judge(view, plan);
                self.demote_files(plan);
            }
            self.sample(view, plan);
            self.faults = 0.0;
            self.demoted = self.blocks.demoted_pages();
            for block in self.blocks.iter_mut() {
                if let State::Demoted(faults) = &mut block.state {
                    faults.counted = 0.0;
                }
            }
        }
        self.disarm(view, plan);
        let blocks = &mut self.blocks;
        let mut is_demoted = |page| blocks.of(page).map(|block| block.is_demoted());
        self.returning.run(&mut budget, view, plan, |page| is_demoted(page) == Some(false));
        self.leaving.run(&mut budget, view, plan, |page| is_demoted(page) != Some(false));
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(if self.urgent { Nanos::ZERO } else { self.next_sampling })
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        let blocks = self.blocks.count() as u64;
        for (name, value) in [
            ("blocks", blocks),
            ("demoted_blocks", self.blocks.iter().filter(|b| b.is_demoted()).count() as u64),
            ("block_metadata_bytes", self.blocks.bytes().0 / blocks.max(1)),
            ("checked_pages_total", c.checked),
            ("blocks_in_first_phase_total", c.phase1),
            ("blocks_in_second_phase_total", c.phase2),
            ("blocks_spared_total", c.spared),
            ("blocks_cut_total", c.cut),
            ("blocks_unseen_total", c.unseen),
            ("canary_pages_total", self.canaries.released),
            ("canary_faults_total", c.faults),
            ("demoted_blocks_total", c.demoted_blocks),
            ("promoted_blocks_total", c.promoted_blocks),
            ("promoted_by_all_faults_blocks_total", c.by_total),
            ("closed_files_demoted_total", c.files),
            ("promotions_proposed_pages_total", self.returning.proposed()),
            ("demotions_proposed_pages_total", self.canaries.released + self.leaving.proposed()),
        ] {
            sink(name, value as f64);
        }
    }

    fn metadata_bytes(&self) -> Bytes {
        let runs = self.disarm.capacity() + self.files.values().map(Vec::capacity).sum::<usize>();
        let lists = Bytes((runs * size_of::<PageRun>()) as u64);
        self.blocks.bytes() + self.returning.bytes() + self.leaving.bytes() + lists
    }
}
