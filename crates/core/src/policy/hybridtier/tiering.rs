//! Promotion and demotion, whatever counts the samples.

use super::batch::{Batch, Wanted};
use super::chances::{Chance, Chances, Over};
use super::pace::Pace;
use super::tracker::{Averages, Exact, Seen, Tracker};
use crate::action::{Lane, Plan};
use crate::budget::Budget;
use crate::event::Event;
use crate::hotness::counts::CountHistogram;
use crate::placement::{PageState, View};
use crate::policy::contract::MetricSink;
use crate::policy::runs::Runs;
use crate::types::*;
use alloc::vec::Vec;

/// Samples that are worked on together: for so long memory is on its way.
const CHUNK: usize = 64;
/// Cache lines that are loaded together elsewhere: half of a first-level cache of 32 KiB.
const LINES: usize = 256;

/// Constants of the rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Momentum from which on it is high; `None` where it is ignored.
    pub momentum: Option<u32>,
    /// Samples after which frequency is halved, for each page of fast memory.
    pub cool_frequency: f64,
    /// Samples after which momentum is halved.
    pub cool_momentum: u64,
    /// Samples after which pages are promoted.
    pub batch: u64,
    /// Free share of fast memory below which demotion begins.
    pub begin: f64,
    /// Free share at which it ends.
    pub end: f64,
    /// Time after which a second chance is over.
    pub chance: Nanos,
    /// Interval of looking for free memory.
    pub wakeup: Nanos,
}

/// Averages from which on they are high.
#[derive(Clone, Copy, Debug)]
struct High {
    frequency: u32,
    momentum: u32,
}

impl High {
    #[inline(always)]
    const fn has(self, seen: Seen) -> bool {
        (seen.frequency.to >= self.frequency) | (seen.momentum >= self.momentum)
    }
}

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    lost: u64,
    batches: u64,
    frequency_coolings: u64,
    momentum_coolings: u64,
    by_frequency: u64,
    by_momentum: u64,
    no_room: u64,
    promoted: u64,
    demoted: u64,
    marked: u64,
    kept: u64,
    chances_lost: u64,
    looked_at: u64,
    agreed: u64,
}

/// The part of the policy that a tracker of its kind is compiled into.
pub(super) trait Work: Send {
    fn observe(&mut self, events: &[Event], view: &View<'_>);
    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan);
    /// Whether a batch waits to be promoted.
    fn is_ready(&self) -> bool;
    fn metrics(&self, sink: &mut MetricSink<'_>);
    fn bytes(&self) -> Bytes;
    /// Pages hot by frequency, and others that were sampled.
    fn classes(&self) -> [u64; 2];
}

/// How memory is cut into units.
#[derive(Clone, Copy, Debug)]
struct Units {
    span: u32,
    /// Units may be huge pages among base pages.
    mixed: bool,
}

impl Units {
    #[inline(always)]
    fn unit<const PLAIN: bool>(self, page: PageId, view: &View<'_>) -> u32 {
        if self.span > 1 {
            page.0 / self.span
        } else if !PLAIN && self.mixed {
            view.unit(page).start.0
        } else {
            page.0
        }
    }

    fn first_page(self, unit: u32) -> PageId {
        PageId(unit.saturating_mul(self.span))
    }

    /// All pages of a unit.
    fn run(self, unit: u32, view: &View<'_>) -> PageRun {
        let first = self.first_page(unit);
        if self.mixed { view.unit(first) } else { PageRun { start: first, pages: self.span } }
    }

    /// Units that lie in a run as a whole.
    fn whole(self, run: PageRun) -> core::ops::Range<u32> {
        run.start.0.div_ceil(self.span)..run.end() / self.span
    }

    /// Pages of the largest unit.
    fn largest(self) -> u32 {
        if self.mixed { HUGE_PAGES } else { self.span }
    }

    /// Units of all memory.
    fn count(self, view: &View<'_>) -> u32 {
        view.pages() / self.span
    }

    /// What a unit is in units of the address space: a huge page among base pages is 512.
    fn places(self, unit: u32, view: &View<'_>) -> u32 {
        if self.mixed { self.run(unit, view).pages } else { 1 }
    }

    /// Units that have pages in fast memory, once around as far as the lap goes.
    fn in_fast<'a>(self, lap: &Lap, view: &View<'a>) -> impl Iterator<Item = u32> + use<'a> {
        let units = self.count(view);
        let from = lap.cursor % units.max(1);
        let left = lap.left.min(units);
        let before = left.saturating_sub(units - from);
        let pages = |from: u32, units: u32| {
            let run = PageRun { start: self.first_page(from), pages: units * self.span };
            view.pages_in(TierId::FAST, run)
        };
        let view = *view;
        let mut last = None;
        pages(from, left - before).chain(pages(0, before)).filter_map(move |page| match self.span {
            1 if self.mixed => Some(view.unit(page).start.0),
            1 => Some(page.0),
            // Once, whatever pages of it are found.
            span => Some(page.0 / span).filter(|unit| last.replace(*unit) != Some(*unit)),
        })
    }
}

/// The scan for cold units, once around.
#[derive(Clone, Copy, Debug)]
struct Lap {
    /// Next unit.
    cursor: u32,
    /// Units left of the address space since anything changed that makes units cold.
    left: u32,
}

impl Lap {
    /// Has passed everything before the place `end`, of so many.
    fn pass(&mut self, end: u32, units: u32) {
        let round = if end > self.cursor { 0 } else { units };
        self.left = self.left.saturating_sub(end + round - self.cursor);
        self.cursor = if end < units { end } else { 0 };
    }
}

/// Intervals in samples: of halving frequency, of halving momentum, of a batch.
#[derive(Clone, Copy, Debug)]
struct Intervals {
    /// Samples until each one ends; counted in `since`.
    left: [u64; 3],
    since: u64,
    /// The least of `left`.
    due: u64,
}

impl Intervals {
    fn new(left: [u64; 3]) -> Self {
        Self { left, since: 0, due: left[0].min(left[1]).min(left[2]) }
    }

    /// Which ones have ended, after how many samples. They begin anew, `lengths` being asked for as
    /// much.
    fn end(&mut self, lengths: impl Fn() -> [u64; 3]) -> ([bool; 3], u64) {
        let since = self.since;
        let left = self.left.map(|left| left - since);
        let ended = left.map(|left| left == 0);
        let lengths = lengths();
        let next = |i: usize| if ended[i] { lengths[i] } else { left[i] };
        *self = Self::new([next(0), next(1), next(2)]);
        (ended, since)
    }
}

/// Units are pages, with a huge page's first page for all of it; or, with a `span` of 512, regions.
pub(super) struct Tiering<T> {
    tracker: T,
    rules: Rules,
    pace: Option<Pace>,
    /// Exact counts, to see how often the tracker decides as they would.
    audit: Option<Exact<u32>>,
    units: Units,
    /// Units by frequency, in pages.
    histogram: CountHistogram,
    /// Frequency from which on it is high.
    high: u32,
    intervals: Intervals,
    /// Units to promote.
    batch: Batch,
    ready: bool,
    chances: Chances,
    /// Fast memory is below the lower watermark and not yet above the higher.
    demoting: bool,
    lap: Lap,
    /// Pages at the last decision: all, those counted at least once, those counted to the most.
    /// Later ones may be those of a program that ends.
    pages: [u64; 3],
    counters: Counters,
}

impl Rules {
    /// Samples after which frequency is halved, momentum is halved, a batch ends. The first go by what
    /// fast memory holds now: a program may be given more of it, live.
    fn intervals(&self, view: &View<'_>) -> [u64; 3] {
        let fast = view.limits(TierId::FAST).capacity.0.max(1) as f64;
        [(self.cool_frequency * fast).max(1.0) as u64, self.cool_momentum, self.batch]
    }
}

impl<T: Tracker> Tiering<T> {
    pub(super) fn new(
        tracker: T,
        rules: Rules,
        pace: Option<Pace>,
        span: u32,
        view: &View<'_>,
    ) -> Self {
        let intervals = Intervals::new(rules.intervals(view));
        Self {
            histogram: CountHistogram::new(tracker.most()),
            tracker,
            rules,
            pace,
            audit: None,
            units: Units { span, mixed: false },
            high: 1,
            intervals,
            batch: Batch::new(span),
            ready: false,
            chances: Chances::default(),
            demoting: false,
            lap: Lap { cursor: 0, left: u32::MAX },
            pages: [0; 3],
            counters: Counters::default(),
        }
    }

    /// Base pages, and huge pages where the view has them.
    pub(super) fn mixed(mut self, mixed: bool) -> Self {
        self.units.mixed = mixed && self.units.span == 1;
        self
    }

    /// Keeps exact counts beside the tracker's.
    pub(super) fn audited(mut self, audited: bool) -> Self {
        self.audit = audited.then(Exact::default);
        self
    }

    /// Units whose memory is loaded together.
    fn chunk(&self) -> usize {
        LINES / self.tracker.lines()
    }

    /// Has what the tracker knows of units loaded into the cache.
    #[inline(always)]
    fn prefetch(&self, units: impl Iterator<Item = u32>) {
        units.for_each(|unit| self.tracker.prefetch(self.tracker.key(unit)));
    }

    fn is_momentum_high(&self, momentum: u32) -> bool {
        self.rules.momentum.is_some_and(|high| momentum >= high)
    }

    /// Whether a sample is nothing but two counts more: all units are of a size, and nobody else
    /// looks at samples.
    fn is_plain(&self) -> bool {
        !self.units.mixed && self.audit.is_none() && self.pace.is_none()
    }

    /// Takes in the samples with which the events begin; gives how many. While those of a chunk are
    /// counted, the memory of the next ones is on its way. `PLAIN` is [`Self::is_plain`].
    #[inline(always)]
    fn samples<const PLAIN: bool>(&mut self, events: &[Event], view: &View<'_>) -> usize {
        // What finds the memory of a chunk and of the next one.
        let mut keys = [T::Key::default(); 2 * CHUNK];
        let mut wanted = [(0, 0); CHUNK];
        let mut full = [0; CHUNK];
        let mut grown = [(0, 0); CHUNK];
        let most_frequent = self.tracker.most();
        let mut done = 0;
        self.look_ahead::<PLAIN>(events, &mut keys, 0, view);
        loop {
            if done % CHUNK == 0 {
                self.look_ahead::<PLAIN>(events, &mut keys, done + CHUNK, view);
            }
            let before = done;
            let due = usize::try_from(self.intervals.due - self.intervals.since).unwrap_or(CHUNK);
            let most = due.min(CHUNK - done % CHUNK);
            let high = self.high();
            let [mut wanteds, mut fulls, mut growns] = [0; 3];
            for event in events[done..].iter().take(most) {
                let Event::Sample(sample) = event else { break };
                let key = keys[done % (2 * CHUNK)];
                done += 1;
                let unit = self.units.unit::<PLAIN>(sample.page, view);
                let fast = sample.tier == TierId::FAST;
                let seen = self.tracker.sample(key);
                // Without branches: what a sample leads to is hard to foresee.
                let is_full = seen.frequency.from == most_frequent;
                full[fulls] = unit;
                fulls += usize::from(is_full);
                grown[growns] = (unit, seen.frequency.to);
                growns += usize::from(!is_full);
                wanted[wanteds] = (unit, seen.frequency.to);
                wanteds += usize::from(!fast & high.has(seen));
                if !PLAIN {
                    self.look_beside(unit, fast, seen);
                }
            }
            for &(unit, to) in &grown[..growns] {
                let pages = if PLAIN { self.units.span } else { self.units.run(unit, view).pages };
                self.histogram.step(to - 1, to, u64::from(pages));
            }
            for &(unit, frequency) in &wanted[..wanteds] {
                self.batch.add(Wanted::new(unit, frequency < high.frequency));
            }
            self.chances.sampled(&full[..fulls]);
            self.intervals.since += (done - before) as u64;
            if self.intervals.since == self.intervals.due {
                self.end_intervals(view);
            }
            if done - before < most {
                return done;
            }
        }
    }

    /// Finds the memory of the samples of a chunk, and has it loaded.
    #[inline(always)]
    fn look_ahead<const PLAIN: bool>(
        &self,
        events: &[Event],
        keys: &mut [T::Key; 2 * CHUNK],
        from: usize,
        view: &View<'_>,
    ) {
        let keys = keys[from % (2 * CHUNK)..].iter_mut();
        for (key, event) in keys.zip(events.get(from..).unwrap_or_default()).take(CHUNK) {
            let Event::Sample(sample) = event else { break };
            *key = self.tracker.key(self.units.unit::<PLAIN>(sample.page, view));
            self.tracker.prefetch(*key);
        }
    }

    /// What else is to know of a sample.
    fn look_beside(&mut self, unit: u32, fast: bool, seen: Seen) {
        let high = self.high();
        if let Some(audit) = &mut self.audit {
            let truth = audit.sample(unit);
            self.counters.agreed += u64::from(high.has(seen) == high.has(truth));
        }
        if let Some(pace) = &mut self.pace {
            pace.sample(fast, seen.frequency.from == self.tracker.most());
        }
    }

    fn high(&self) -> High {
        High { frequency: self.high, momentum: self.rules.momentum.unwrap_or(u32::MAX) }
    }

    fn end_intervals(&mut self, view: &View<'_>) {
        let ([frequency, momentum, batch], samples) =
            self.intervals.end(|| self.rules.intervals(view));
        self.counters.samples += samples;
        if frequency {
            self.tracker.cool_frequency();
            if let Some(audit) = &mut self.audit {
                audit.cool_frequency();
            }
            self.histogram.halve();
            self.counters.frequency_coolings += 1;
        }
        if momentum {
            self.tracker.cool_momentum();
            if let Some(audit) = &mut self.audit {
                audit.cool_momentum();
            }
            self.counters.momentum_coolings += 1;
        }
        if batch {
            self.counters.batches += 1;
            self.ready = true;
        }
        let high = self.histogram.threshold(view.limits(TierId::FAST).capacity.0);
        if frequency || momentum || high != self.high {
            self.high = high;
            self.begin_lap(view);
        }
    }

    fn begin_lap(&mut self, view: &View<'_>) {
        self.lap.left = self.units.count(view);
    }

    /// Units that ended or began: their averages are those of nobody.
    fn forget(&mut self, run: PageRun, view: &View<'_>) {
        for unit in self.units.whole(run) {
            if let Some(old) = self.tracker.take(unit) {
                let pages = self.units.run(unit, view).pages;
                self.histogram.leave(old.frequency, u64::from(pages));
            }
        }
    }

    fn remap(&mut self, from: PageRun, to: PageId) {
        let span = self.units.span;
        if span > 1 && from.start.0 % span != to.0 % span {
            return;
        }
        let old: Vec<(u32, Averages)> = self
            .units
            .whole(from)
            .filter_map(|unit| Some((unit, self.tracker.take(unit)?)))
            .collect();
        for (unit, averages) in old {
            let page = to.0 + (self.units.first_page(unit).0 - from.start.0);
            self.tracker.put(page / span, averages);
        }
    }

    /// Any event but a sample.
    fn event(&mut self, event: &Event, view: &View<'_>) {
        match event {
            Event::Populated { run, huge, .. } => {
                self.units.mixed |= *huge && self.units.span == 1;
                self.forget(*run, view);
                self.begin_lap(view);
            }
            Event::Unmapped { run } | Event::Freed { run } => self.forget(*run, view),
            Event::Remapped { from, to } => self.remap(*from, *to),
            Event::SamplesLost { count } => self.counters.lost += count,
            Event::Counters { fast, slow } => {
                if let Some(pace) = &mut self.pace {
                    pace.counted(*fast, *slow);
                }
            }
            _ => {}
        }
    }

    /// Proposes the pages of a unit that are on the wrong side; gives how many. Nothing where they
    /// exceed `room` or `bytes`.
    fn propose(
        &self,
        unit: u32,
        room: u64,
        bytes: &mut Bytes,
        view: &View<'_>,
        runs: &mut Runs,
        plan: &mut Plan,
    ) -> Option<u64> {
        let up = runs.to() == TierId::FAST;
        let moves = |state: PageState| {
            state.is_resident()
                && !state.is_in_flight()
                && (state.tier() == Some(TierId::FAST)) != up
        };
        let run = self.units.run(unit, view);
        // All pages of a folio are where its first one is.
        let first = view.state(run.start);
        let whole = run.pages == 1 || first.is_huge() && run == run.start.region().run();
        let pages = match whole {
            true => u64::from(moves(first)) * u64::from(run.pages),
            false => run.iter().filter(|page| moves(view.state(*page))).count() as u64,
        };
        let size = PageCount(pages).bytes();
        if pages > room || size > *bytes {
            return None;
        }
        *bytes = bytes.saturating_sub(size);
        if whole && pages > 0 {
            runs.push(run, plan);
        } else if pages > 0 {
            for page in run.iter().filter(|page| moves(view.state(*page))) {
                runs.push(PageRun::single(page), plan);
            }
        }
        Some(pages)
    }

    /// Proposes the batch for fast memory. What finds no room is forgotten until it is sampled
    /// again.
    fn promote(&mut self, bytes: &mut Bytes, view: &View<'_>, plan: &mut Plan) {
        let keep_free = view.limits(TierId::FAST).keep_free;
        let mut room = view.free(TierId::FAST).saturating_sub(keep_free).0;
        let batch = self.batch.take();
        let mut runs = Runs::new(TierId::FAST, Lane::PROMOTE);
        for some in batch.chunks(LINES) {
            some.iter().for_each(|wanted| view.prefetch(self.units.first_page(wanted.unit())));
            for wanted in some {
                let by_momentum = u64::from(wanted.by_momentum());
                self.counters.by_momentum += by_momentum;
                self.counters.by_frequency += 1 - by_momentum;
                match self.propose(wanted.unit(), room, bytes, view, &mut runs, plan) {
                    Some(pages) => room -= pages,
                    None => self.counters.no_room += 1,
                }
            }
        }
        self.batch.give_back(batch);
        self.counters.promoted += runs.finish(plan);
    }

    /// What a look at a unit in fast memory leads to, by the table of the rules: true where it is
    /// to leave at once.
    fn is_cold(&mut self, unit: u32, now: Nanos) -> bool {
        let Averages { frequency, momentum } = self.tracker.averages(self.tracker.key(unit));
        if self.is_momentum_high(momentum) {
            return false;
        }
        if frequency < self.high {
            return true;
        }
        let end = now.saturating_add(self.rules.chance);
        self.counters.marked += u64::from(self.chances.give(Chance { unit, frequency }, end));
        false
    }

    /// Whether a unit whose second chance is over has not grown in frequency, nor would have if it
    /// could.
    fn has_lost(&mut self, &Over { chance, sampled }: &Over) -> bool {
        let key = self.tracker.key(chance.unit);
        let Averages { frequency, momentum } = self.tracker.averages(key);
        let grown = frequency > chance.frequency || sampled;
        let kept = grown || self.is_momentum_high(momentum);
        self.counters.kept += u64::from(kept);
        !kept
    }

    /// Pages that fast memory lacks to the higher watermark, once it has fallen below the lower.
    /// Neither is less than a unit, or a small fast memory would be full for ever.
    fn lacking(&mut self, view: &View<'_>) -> u64 {
        let next = TierId::FAST.slower();
        let unit = self.units.largest();
        let capacity = view.limits(TierId::FAST).capacity.0 as f64;
        let mark = |share: f64| (libm::ceil(capacity * share) as u64).max(u64::from(unit));
        let leaving = view.reserved(next).0;
        let coming = view.free(TierId::FAST).0 + leaving;
        let over = view.over(TierId::FAST).0.saturating_sub(leaving);
        self.demoting |= over > 0 || coming < mark(self.rules.begin);
        self.demoting &= over > 0 || coming < mark(self.rules.end);
        if self.demoting { mark(self.rules.end).saturating_sub(coming) + over } else { 0 }
    }

    fn demote(&mut self, now: Nanos, bytes: &mut Bytes, view: &View<'_>, plan: &mut Plan) {
        let next = TierId::FAST.slower();
        let mut below = view.free(next).saturating_sub(view.limits(next).keep_free).0;
        let mut runs = Runs::new(next, Lane::DEMOTE);
        let mut lacking = self.lacking(view);
        let mut over = Vec::with_capacity(self.chunk());
        while self.chances.over(now, &mut over) {
            self.prefetch(over.iter().map(|over| over.chance.unit));
            for over in &over {
                if self.has_lost(over)
                    && let Some(pages) =
                        self.propose(over.chance.unit, below, bytes, view, &mut runs, plan)
                {
                    below -= pages;
                    lacking = lacking.saturating_sub(pages);
                    self.counters.chances_lost += 1;
                }
            }
        }
        let units = self.units.count(view);
        self.lap.left = self.lap.left.min(units);
        let mut found = self.units.in_fast(&self.lap, view);
        let mut ahead = Vec::with_capacity(self.chunk());
        'scan: while lacking > 0 && self.lap.left > 0 {
            ahead.clear();
            // The iterator goes on by itself here: to be asked for each unit takes it longer.
            found.by_ref().take(self.chunk()).for_each(|unit| ahead.push(unit));
            self.prefetch(ahead.iter().copied());
            for unit in ahead.iter().copied() {
                if lacking == 0 {
                    break 'scan;
                }
                if self.is_cold(unit, now) {
                    match self.propose(unit, below, bytes, view, &mut runs, plan) {
                        None => break 'scan,
                        Some(pages) => {
                            below -= pages;
                            lacking = lacking.saturating_sub(pages);
                        }
                    }
                }
                self.lap.pass(unit + self.units.places(unit, view), units);
                self.counters.looked_at += 1;
            }
            if ahead.len() < self.chunk() {
                self.lap.left = 0;
            }
        }
        self.counters.demoted += runs.finish(plan);
    }
}

impl<T: Tracker> Work for Tiering<T> {
    fn observe(&mut self, events: &[Event], view: &View<'_>) {
        let mut rest = events;
        while let Some(first) = rest.first() {
            let done = match first {
                Event::Sample(_) if self.is_plain() => self.samples::<true>(rest, view),
                Event::Sample(_) => self.samples::<false>(rest, view),
                other => {
                    self.event(other, view);
                    1
                }
            };
            rest = &rest[done..];
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        let full = self.histogram.at_least(self.tracker.most());
        self.pages = [view.resident().0, self.histogram.counted(), full];
        let mut bytes = budget.remaining;
        if core::mem::take(&mut self.ready) {
            let allowed = self.pace.as_mut().map(|pace| pace.allowance(now));
            let mut most = allowed.map_or(bytes, |allowed| allowed.min(bytes));
            let before = (most, self.counters.promoted);
            self.promote(&mut most, view, plan);
            bytes = bytes.saturating_sub(before.0.saturating_sub(most));
            if let Some(pace) = &mut self.pace {
                let promoted = PageCount(self.counters.promoted - before.1);
                let fast = view.limits(TierId::FAST).capacity;
                pace.batch(promoted, fast, plan);
            }
        }
        if let Some(pace) = &mut self.pace {
            pace.resume(plan);
        }
        self.demote(now, &mut bytes, view, plan);
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("samples_total", c.samples + self.intervals.since),
            ("samples_lost_total", c.lost),
            ("batches_total", c.batches),
            ("frequency_coolings_total", c.frequency_coolings),
            ("momentum_coolings_total", c.momentum_coolings),
            ("wanted_by_frequency_total", c.by_frequency),
            ("wanted_by_momentum_total", c.by_momentum),
            ("wanted_without_room_total", c.no_room),
            ("promotions_proposed_pages_total", c.promoted),
            ("demotions_proposed_pages_total", c.demoted),
            ("second_chances_total", c.marked),
            ("second_chances_kept_total", c.kept),
            ("second_chances_lost_total", c.chances_lost),
            ("looked_at_total", c.looked_at),
            ("frequency_threshold", u64::from(self.high)),
            ("unit_pages", u64::from(self.units.span)),
        ] {
            sink(name, value as f64);
        }
        let [pages, counted, full] = self.pages.map(|pages| pages as f64);
        sink("counted_pages_ratio", (counted / pages.max(1.0)).min(1.0));
        sink("full_pages_ratio", (full / pages.max(1.0)).min(1.0));
        if let Some(pace) = &self.pace {
            pace.metrics(sink);
        }
        if self.audit.is_some() {
            sink(
                "agreement_ratio",
                c.agreed as f64 / (c.samples + self.intervals.since).max(1) as f64,
            );
        }
    }

    fn bytes(&self) -> Bytes {
        self.tracker.bytes() + self.batch.bytes() + self.chances.bytes()
    }

    fn classes(&self) -> [u64; 2] {
        let hot = self.histogram.at_least(self.high);
        [hot, self.histogram.counted() - hot]
    }
}
