//! `memtis`: MEMTIS (Lee et al., SOSP '23), the whole of it.
//!
//! Samples of accesses give every page a hotness that is halved now and then; a histogram of it
//! with exponential bins says from which bin on pages fit into fast memory (hot), which may stay
//! where they are (warm) and which make room (cold). Where base pages would have hit fast memory
//! more often than huge pages did, the most skewed huge pages are split.
//!
//! Not good for: streams (hotness lags by a cooling interval), working sets that change faster
//! than samples arrive. Deviations: the hot threshold stays at the top bin where not even that
//! fits; subpages of new huge pages start at 0, only the huge page starts at `T_hot`; an estimated
//! hit is counted by the hotness before the sample. `memtis-plus` is ours: it pauses moves that do not
//! pay (`payoff`), and does not split because migration lags behind (`patient`).

mod bounds;
mod calm;
mod cascade;
mod config;
mod counts;
mod lists;
mod payoff;
mod period;
mod split;
mod table;
mod tracker;

#[cfg(test)]
mod tests;

use super::contract::{HotnessBins, MetricSink, Policy};
use super::offer::Offer;
use super::runs::Runs;
use super::settings::Settings;
use crate::action::{Action, Lane, Plan};
use crate::budget::Budget;
use crate::event::{Event, MoveOutcome, Sample, SampleKind};
use crate::hotness::histogram::Binning;
use crate::placement::{TierLimits, View};
use crate::types::*;
use alloc::vec::Vec;
use bounds::Bounds;
use calm::Calm;
use cascade::Cascade;
use config::Config;
use counts::ACCESS;
use lists::{DemotionClock, Demotions, PromotionList, demoted_pages};
use payoff::Payoff;
use period::Period;
use split::{Hits, SkewBuckets, skew};
pub use table::{ARTIFACT, ENTRY, NO_SPLIT, NO_WARM, PLUS};
use tracker::{Refill, Tracker};

/// Samples whose memory is loaded together before they are processed.
const CHUNK: usize = 128;

/// Load periods are this much longer while nothing has been gained for long: samples then serve
/// trials only.
const IDLE_PERIOD_FACTOR: u32 = 4;

/// Longest store period of the published code.
const MOST_STORES: u32 = 1_500_003;

/// What has happened, for reports and tests.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    samples: u64,
    unknown_pages: u64,
    lost: u64,
    adapted: u64,
    cooled: u64,
    promotion_pages: u64,
    cold_pages: u64,
    warm_pages: u64,
    estimated: u64,
    splits: u64,
    collapses: u64,
    settled_pages: u64,
    passed_on_pages: u64,
    split_given_up: bool,
    ehr: f64,
    rhr: f64,
}

/// Known samples until something is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    adaptation: u64,
    cooling: u64,
}

/// Load period as the sampler knows it.
#[derive(Clone, Debug)]
struct Sampling {
    period: Period,
    /// The sampler does not know of the period yet.
    changed: bool,
    /// Factor on the load period that the sampler was told.
    period_factor: u32,
}

/// Estimation of what splitting would gain, and regions whose shape is to change.
#[derive(Clone, Debug, Default)]
struct Shape {
    hits: Hits,
    /// Samples after which the benefit is estimated.
    due: u64,
    skewed: SkewBuckets,
    to_split: Vec<Region>,
    to_collapse: Vec<Region>,
    /// Split since the last wakeup: their base pages have to find their tiers.
    unsettled: Vec<Region>,
    /// Hit ratio at the estimation that last made something split.
    before_split: Option<f64>,
}

/// Memory allocated.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// Pages since the last cooling that growth caused.
    pages: u64,
    /// Whether there was some since the last wakeup.
    lately: bool,
}

/// MEMTIS; made by [`ENTRY`].
pub struct Memtis {
    config: Config,
    tracker: Tracker,
    bounds: Bounds,
    sampling: Sampling,
    due: Due,
    growth: Growth,
    shape: Shape,
    promotions: PromotionList,
    /// Demotes from the fastest tier.
    demotions: Demotions,
    /// Keeps room in tiers between the fastest and the slowest.
    cascade: Cascade,
    payoff: Payoff,
    calm: Calm,
    /// Finds what would be demoted while moves do not pay.
    trial_clock: DemotionClock,
    next_wakeup: Nanos,
    counters: Counters,
}

impl Memtis {
    fn new(settings: &Settings, context: &Offer) -> Self {
        let config = Config::read(settings);
        let binning = match settings.word("bins") {
            "artifact" => Binning::PlusOne,
            _ => Binning::Exact,
        };
        let refill = match settings.word("histogram") {
            "refill" => Refill::Lazy,
            _ => Refill::AtOnce,
        };
        let tracker = Tracker::new(binning, refill, context.table_pages());
        Self {
            bounds: Bounds::new(&tracker),
            tracker,
            sampling: Sampling {
                period: config::period(settings),
                changed: false,
                period_factor: 1,
            },
            due: Due { adaptation: config.adaptation, cooling: config.cooling },
            growth: Growth::default(),
            shape: Shape { due: 1, ..Shape::default() },
            promotions: PromotionList::default(),
            demotions: Demotions::default(),
            cascade: Cascade::default(),
            payoff: Payoff::new(settings.switch("payoff"), config.adaptation),
            calm: Calm::default(),
            trial_clock: DemotionClock::default(),
            next_wakeup: config.wakeup,
            counters: Counters::default(),
            config,
        }
    }

    fn set_estimation_due(&mut self) {
        let due = self.tracker.tracked() as f64 * self.config.estimation;
        self.shape.due = (due as u64).max(1);
    }

    /// Processes samples none of which completes an interval.
    fn samples(&mut self, samples: impl Iterator<Item = Sample>) {
        let (mut count, mut known, mut ideal, mut on_fast, mut hot) = (0, 0, 0, 0, 0);
        for sample in samples {
            count += 1;
            let Some(change) = self.tracker.sample(sample.page) else { continue };
            known += 1;
            ideal += u64::from(change.base_before >= self.bounds.base_hot);
            hot += u64::from(change.unit_before >= self.bounds.hot);
            let fast = sample.tier == TierId::FAST;
            on_fast += u64::from(fast);
            let worth = if change.huge { 1 } else { ACCESS };
            let least = self.bounds.hot.max(self.config.evidence * worth);
            if !fast && change.unit_hotness >= least {
                self.promotions.push(sample.page, change.huge);
            }
        }
        self.counters.samples += count;
        self.counters.unknown_pages += count - known;
        self.shape.hits.samples += known;
        self.shape.hits.ideal += ideal;
        self.shape.hits.fast += on_fast;
        if self.sampling.period_factor > 1 && self.calm.observe(known as u32, on_fast as u32) {
            self.payoff.wake();
        }
        self.shape.hits.hot += hot;
        self.due.adaptation -= known;
        self.due.cooling -= known;
    }

    /// Known samples that can be processed before something is due.
    fn until_due(&self) -> u64 {
        let estimation = self.shape.due.saturating_sub(self.shape.hits.samples);
        self.due.adaptation.min(self.due.cooling).min(estimation)
    }

    /// Does what has become due.
    fn run_intervals(&mut self, view: &View<'_>) {
        if self.due.cooling == 0 {
            self.cool(view);
        }
        if self.due.adaptation == 0 {
            self.due.adaptation = self.config.adaptation;
            self.counters.adapted += 1;
            self.adapt(view, false);
        }
        if self.shape.hits.samples >= self.shape.due {
            self.estimate();
        }
    }

    /// New thresholds from the histograms.
    fn adapt(&mut self, view: &View<'_>, cooling: bool) {
        let before = self.bounds.pages;
        let fast = view.limits(TierId::FAST).capacity;
        self.bounds = self.bounds.adapt(&self.tracker, fast, &self.config, cooling);
        self.cascade.adapt(&self.tracker, view);
        let now = self.bounds.pages;
        if cooling || now.hot > before.hot || now.cold > before.cold {
            self.promotions.prune(&self.tracker, self.bounds.hot);
            self.rearm();
        }
    }

    /// Lets memory be searched again for pages to demote.
    fn rearm(&mut self) {
        let regions = self.tracker.regions();
        self.demotions.clock.rearm(regions);
        self.trial_clock.rearm(regions);
        self.cascade.rearm(regions);
    }

    /// Halves all hotness, then looks at every region with the new thresholds: huge pages are
    /// filed by skew, base pages that are all hot shall be coalesced.
    fn cool(&mut self, view: &View<'_>) {
        self.due.cooling = self.config.cooling;
        self.counters.cooled += 1;
        self.tracker.cool();
        self.adapt(view, true);
        self.shape.skewed.clear();
        self.shape.to_collapse.clear();
        for region in (0..self.tracker.regions()).map(Region) {
            if self.tracker.is_huge(region) {
                if self.config.split {
                    self.tracker.note_pass(u64::from(HUGE_PAGES));
                    let skew = skew(self.tracker.subpages(region), self.bounds.base_hot);
                    self.shape.skewed.insert(region, skew);
                }
            } else if self.config.collapse && self.all_hot(region) {
                self.shape.to_collapse.push(region);
            }
        }
    }

    /// Whether all 512 base pages of a region are hot.
    fn all_hot(&self, region: Region) -> bool {
        self.tracker.is_whole(region)
            && self.tracker.stored(region).all(|s| s.clipped() >= self.bounds.hot)
    }

    /// Compares the hit ratio with the one that base pages would have had.
    fn estimate(&mut self) {
        let hits = core::mem::take(&mut self.shape.hits);
        self.counters.estimated += 1;
        (self.counters.ehr, self.counters.rhr) = hits.ratios();
        if !self.config.split || self.counters.split_given_up {
            return;
        }
        if let Some(before) = self.shape.before_split.take()
            && self.config.regret > 0.0
            && self.counters.rhr < before * (1.0 + self.config.regret)
        {
            self.counters.split_given_up = true;
            return;
        }
        let count = self.config.rule.count(&hits, self.tracker.sampled_huge_pages());
        let to_split = &mut self.shape.to_split;
        self.shape.skewed.take(count, |region| to_split.push(region));
        if !self.shape.to_split.is_empty() {
            self.shape.before_split = Some(self.counters.rhr);
        }
    }

    fn populate(&mut self, run: PageRun, huge: bool, view: &View<'_>) {
        self.tracker.populate(run, huge, self.bounds.hot);
        self.growth.lately = true;
        self.set_estimation_due();
        if self.config.growth_cooling_pages > 0 {
            self.growth.pages += u64::from(run.pages);
            if self.growth.pages >= self.config.growth_cooling_pages {
                self.growth.pages = 0;
                self.cool(view);
            }
        }
    }

    fn event(&mut self, event: &Event, view: &View<'_>) {
        match event {
            Event::Sample(sample) => {
                self.payoff.observe(core::slice::from_ref(event));
                self.samples(core::iter::once(*sample));
                self.run_intervals(view);
            }
            Event::Populated { run, huge, .. } => self.populate(*run, *huge, view),
            Event::Unmapped { run } | Event::Freed { run } => {
                self.tracker.forget(*run);
                self.set_estimation_due();
            }
            Event::Remapped { from, to } => self.tracker.remap(*from, *to),
            Event::SplitDone { region, split: true } => {
                self.tracker.split(*region);
                self.shape.unsettled.push(*region);
            }
            Event::CollapseDone { region, tier: Some(_) } => self.tracker.collapse(*region),
            Event::MigrationDone { outcome: MoveOutcome::Busy, .. } => {
                self.rearm();
            }
            Event::CpuUsage { wall, sampler } => {
                // As if nothing were paused: the controller knows the period without the factor.
                let sampler =
                    Nanos(sampler.0.saturating_mul(u64::from(self.sampling.period_factor)));
                self.sampling.changed |= self.sampling.period.observe(*wall, sampler);
            }
            Event::SamplesLost { count } => self.counters.lost += count,
            _ => {}
        }
    }

    /// Sends the base pages of split huge pages to their tiers: hot ones to the promotion list,
    /// cold ones out of fast memory.
    fn settle(&mut self, view: &View<'_>, plan: &mut Plan) {
        let mut runs = Runs::new(TierId::FAST.slower(), Lane::DEMOTE);
        for region in core::mem::take(&mut self.shape.unsettled) {
            if self.tracker.is_huge(region) {
                continue;
            }
            for (page, stored) in region.run().iter().zip(self.tracker.stored(region)) {
                let state = view.state(page);
                let (Some(tier), true) = (state.tier(), stored.is_tracked()) else { continue };
                let hotness = stored.clipped();
                if tier != TierId::FAST && hotness >= self.bounds.hot {
                    self.promotions.push(page, false);
                } else if tier == TierId::FAST
                    && hotness < self.bounds.cold
                    && !state.is_in_flight()
                {
                    runs.push(PageRun::single(page), plan);
                }
            }
        }
        self.counters.settled_pages += runs.finish(plan);
    }

    fn migrate(&mut self, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        let leaving = self.demotions.leaving.pages(TierId::FAST, view);
        let proposed = plan.len();
        self.settle(view, plan);
        let settling: u64 = demoted_pages(plan, proposed).map(|run| u64::from(run.pages)).sum();

        let limits = view.limits(TierId::FAST);
        let room = view.free(TierId::FAST).saturating_sub(limits.keep_free).0;
        let hot = self.bounds.hot;
        let settled = plan.len();
        let promoted =
            self.promotions.promote(&self.tracker, hot, view, room, budget.remaining, plan);
        self.counters.promotion_pages += promoted;
        let demoted_from = plan.len();

        let free = view.free(TierId::FAST).0.saturating_sub(promoted) + leaving + settling;
        // A live kernel allocates as if there were no limit; pages on their way out still count.
        let over = view.over(TierId::FAST).0.saturating_sub(leaving + settling);
        let wanted = over + self.wanted(limits, free);
        let mut unmet = 0;
        let mut demoted = settling;
        if wanted > 0 {
            // What the engine would turn down must not count as looked at.
            let moved = PageCount(promoted + settling).bytes();
            let affordable = budget.remaining.saturating_sub(moved).pages();
            let next = TierId::FAST.slower();
            let below = view.free(next).saturating_sub(view.limits(next).keep_free);
            let below = below.saturating_sub(PageCount(settling));
            let need = wanted.min(affordable.0).min(below.0);
            let classes = self.classes_to_demote();
            let (cold, warm) =
                self.demotions.clock.demote(need, classes, &self.tracker, view, plan);
            self.counters.cold_pages += cold;
            self.counters.warm_pages += warm;
            unmet = wanted.saturating_sub(cold + warm);
            demoted += cold + warm;
        }
        if self.payoff.wants_pages() {
            self.try_moves(limits.capacity, settled, demoted_from, view, plan);
        }
        if view.tiers() > 2 {
            let moved = PageCount(promoted + demoted).bytes();
            let affordable = budget.remaining.saturating_sub(moved).pages();
            let keep = if self.payoff.is_open() { self.config.free } else { 0.0 };
            self.counters.passed_on_pages +=
                self.cascade.demote(demoted, unmet, keep, affordable, &self.tracker, view, plan);
        }
        self.growth.lately = false;
        self.demotions.leaving.add(plan, proposed);
    }

    /// Pages to demote where `free` are or will be free. While moves do not pay, room is made for
    /// new memory only.
    fn wanted(&self, limits: TierLimits, free: u64) -> u64 {
        let reserve = (limits.capacity.0 as f64 * self.config.free) as u64;
        let reserve = reserve.max(limits.keep_free.0);
        if !self.payoff.is_open() {
            return if self.growth.lately { reserve.saturating_sub(free) } else { 0 };
        }
        // A reserve below one huge page would never let a huge page in.
        let unit = self.promotions.first_pages(&self.tracker) + limits.keep_free.0;
        if free >= reserve.max(unit) {
            return 0;
        }
        let waiting = self.promotions.pages(&self.tracker);
        reserve.max(waiting + limits.keep_free.0) - free
    }

    /// Hotness below which pages are demoted first, and below which at all.
    fn classes_to_demote(&self) -> (u32, u32) {
        (self.bounds.cold, self.bounds.hot)
    }

    /// Gives the trial what moves, or would move if that were known to pay.
    fn try_moves(
        &mut self,
        capacity: PageCount,
        promoted_from: usize,
        demoted_from: usize,
        view: &View<'_>,
        plan: &Plan,
    ) {
        let enough = Payoff::trial_pages(capacity);
        let runs = |action: &Action| match action {
            Action::Migrate { run, .. } => Some(*run),
            _ => None,
        };
        if self.payoff.is_open() {
            let up = plan.iter().take(demoted_from).skip(promoted_from).filter_map(runs);
            let down = plan.iter().skip(demoted_from).filter_map(runs);
            self.payoff.add(up, down, enough);
            return;
        }
        let up = self.promotions.first(enough, &self.tracker, self.bounds.hot, view);
        let pages = up.iter().map(|run| u64::from(run.pages)).sum();
        let mut down = Plan::default();
        let classes = (self.bounds.cold, self.bounds.hot);
        if pages > 0 {
            self.trial_clock.demote(pages, classes, &self.tracker, view, &mut down);
        }
        if !down.is_empty() {
            self.payoff.add(up.into_iter(), down.iter().filter_map(runs), 0);
        }
    }

    /// Whether moves have not paid for long, and splitting would gain nothing either.
    fn is_idle(&self) -> bool {
        let Counters { ehr, rhr, estimated, .. } = self.counters;
        self.payoff.is_idle() && estimated > 0 && ehr - rhr < self.config.rule.least_benefit
    }

    /// Tells the sampler of a new period. Where nothing is to be gained, even sampling costs more
    /// than it brings.
    fn set_sampling(&mut self, plan: &mut Plan) {
        let period_factor = if self.is_idle() { IDLE_PERIOD_FACTOR } else { 1 };
        if !core::mem::take(&mut self.sampling.changed)
            && period_factor == self.sampling.period_factor
        {
            return;
        }
        if period_factor != self.sampling.period_factor {
            self.calm = Calm::default();
        }
        self.sampling.period_factor = period_factor;
        let period = self.sampling.period.period().saturating_mul(period_factor);
        plan.push(Action::SetSampling { kind: SampleKind::LoadMiss, period });
        if self.sampling.period.drives_stores() && self.config.store_period > 0 {
            let period = self.sampling.period.scaled(self.config.store_period, MOST_STORES);
            plan.push(Action::SetSampling { kind: SampleKind::Store, period });
        }
    }

    /// Proposes the splits and coalescings that were decided on.
    fn reshape(&mut self, view: &View<'_>, plan: &mut Plan) {
        for region in self.shape.to_split.drain(..) {
            let state = view.state(region.first());
            if state.is_huge() && !state.is_in_flight() && self.tracker.is_huge(region) {
                self.counters.splits += 1;
                plan.push(Action::Split { region, lane: Lane::SCAN });
            }
        }
        let mut room = view.free(TierId::FAST).0;
        for region in core::mem::take(&mut self.shape.to_collapse) {
            if self.tracker.is_huge(region) || !self.all_hot(region) {
                continue;
            }
            if room < u64::from(HUGE_PAGES) {
                self.shape.to_collapse.push(region);
                continue;
            }
            room -= u64::from(HUGE_PAGES);
            self.counters.collapses += 1;
            plan.push(Action::Collapse { region, to: TierId::FAST, lane: Lane::SCAN });
        }
    }
}

impl Policy for Memtis {
    fn observe(&mut self, _: Nanos, events: &[Event], view: &View<'_>) {
        for chunk in events.chunks(CHUNK) {
            let mut samples = 0;
            for event in chunk {
                if let Event::Sample(sample) = event {
                    samples += 1;
                    self.tracker.prefetch(sample.page);
                }
            }
            if samples == chunk.len() && (samples as u64) < self.until_due() {
                self.payoff.observe(chunk);
                self.samples(chunk.iter().filter_map(|event| match event {
                    Event::Sample(sample) => Some(*sample),
                    _ => None,
                }));
            } else {
                chunk.iter().for_each(|event| self.event(event, view));
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.set_sampling(plan);
        if now < self.next_wakeup {
            return;
        }
        self.next_wakeup = now.saturating_add(self.config.wakeup);
        self.tracker.refresh();
        self.migrate(view, budget, plan);
        self.reshape(view, plan);
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        // The sampling thread does not wait for the one that migrates.
        Some(if self.sampling.changed { Nanos::ZERO } else { self.next_wakeup })
    }

    fn take_entries(&mut self) -> u64 {
        self.tracker.take_passed()
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        let c = &self.counters;
        for (name, value) in [
            ("samples_total", c.samples),
            ("samples_unknown_page_total", c.unknown_pages),
            ("samples_lost_total", c.lost),
            ("adaptations_total", c.adapted),
            ("coolings_total", c.cooled),
            ("promotions_proposed_pages_total", c.promotion_pages),
            ("cold_demotions_proposed_pages_total", c.cold_pages),
            ("warm_demotions_proposed_pages_total", c.warm_pages),
            ("split_demotions_proposed_pages_total", c.settled_pages),
            ("lower_demotions_proposed_pages_total", c.passed_on_pages),
            ("estimations_total", c.estimated),
            ("splits_proposed_total", c.splits),
            ("collapses_proposed_total", c.collapses),
            ("split_given_up", u64::from(c.split_given_up)),
            ("load_period_events", u64::from(self.sampling.period.period())),
            ("load_period_changes_total", self.sampling.period.changes),
            (
                "regions_looked_at_total",
                self.demotions.clock.looked_at + self.trial_clock.looked_at,
            ),
            ("trials_total", self.payoff.trials),
            ("trials_failed_total", self.payoff.failed),
            ("paused", u64::from(!self.payoff.is_open())),
        ] {
            sink(name, value as f64);
        }
        sink("sampler_core_ratio", self.sampling.period.share());
        sink("estimated_hit_ratio", c.ehr);
        sink("real_hit_ratio", c.rhr);
        sink("hot_threshold_bin", f64::from(self.bounds.pages.hot));
        sink("warm_threshold_bin", f64::from(self.bounds.pages.warm));
        sink("cold_threshold_bin", f64::from(self.bounds.pages.cold));
        sink("base_hot_threshold_bin", f64::from(self.bounds.base_pages.hot));
    }

    fn metadata_bytes(&self) -> Bytes {
        let lists = (self.shape.to_split.capacity() + self.shape.to_collapse.capacity())
            * size_of::<Region>()
            + self.shape.unsettled.capacity() * size_of::<Region>()
            + self.demotions.leaving.bytes();
        let lists = Bytes((lists + self.payoff.bytes()) as u64);
        self.tracker.bytes() + self.promotions.bytes() + self.shape.skewed.bytes() + lists
    }

    fn classes(&self) -> Option<[u64; 3]> {
        Some(self.bounds.pages.sizes(&self.tracker.pages()))
    }

    fn hotness(&self) -> Option<HotnessBins> {
        let floor = |bin| self.tracker.binning().floor(bin);
        Some(HotnessBins {
            least: core::array::from_fn(floor),
            pages: *self.tracker.pages().bins(),
            hot: self.bounds.pages.hot,
            warm: self.bounds.pages.warm,
        })
    }

    fn bin_of(&self, page: PageId) -> Option<usize> {
        self.tracker.unit_hotness(page).map(|hotness| self.tracker.binning().bin(hotness))
    }
}
