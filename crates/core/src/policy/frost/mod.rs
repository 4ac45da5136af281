//! `frost`: ours. A page is in fast memory while it is worth the rent, the density at which that is full.
//!
//! Samples are averaged by page and by region, over the `horizon` by which more of them would have been hits
//! (`density`, `hand`). What is denser comes in for what is less so (`exchange`), where the difference pays the
//! moves, chance included, of which earlier exchanges tell how much there is (`margins`). Folios are split, and
//! base pages collapsed, by what that would have saved so far, walks included (`granularity`, `walks`). What is
//! swept comes in ahead (`streams`, `ahead`). New memory is worth the rent until samples say otherwise, and room
//! is kept for it while it earns that (`newborn`). Samples are taken while they tell more than they cost (`thrift`).
//!
//! Not good for: programs too brief to be sampled. Rent is Landlord's (Young, SODA '98), the rest is
//! unpublished and derived in `docs/notes/frost.md`.

mod ahead;
mod balance;
mod costs;
mod density;
mod exchange;
mod granularity;
mod guard;
mod hand;
mod horizon;
mod landing;
mod margins;
mod newborn;
mod ranks;
mod sizes;
mod streams;
mod tally;
mod thrift;
mod walks;

#[cfg(test)]
mod tests;

use super::contract::{Allocation, Home, MetricSink, Policy};
use super::entry::{Entry, Group};
use super::facts::{Facts, Telemetry};
use super::offer::Offer;
use super::settings::Settings;
use super::suited::{Suited, period_of_brief_programs};
use super::telemetry::{Faults, Origin};
use crate::action::{Action, Plan};
use crate::budget::Budget;
use crate::event::{Event, MoveOutcome, Sample, SampleKind};
use crate::params::{Kind, Param};
use crate::placement::View;
use crate::types::*;
use ahead::Ahead;
use alloc::boxed::Box;
use alloc::vec::Vec;
use balance::Balance;
use costs::{Costs, Tariff};
use density::{Densities, Horizon, Spans};
use exchange::{Exchange, Terms};
use granularity::Granularity;
use guard::Guard;
use hand::{Around, Hand, Rent};
use horizon::Choice;
use newborn::Newborn;
use sizes::Sizes;
use streams::Streams;
use thrift::Thrift;
use walks::Walks;

/// `frost`.
pub const ENTRY: Entry = Entry {
    name: "frost",
    group: Group::Principal,
    summary: "pages are in fast memory while they are worth the rent; folios are split by value",
    citation: "this project",
    pages: None,
    params: &[
        Param::fixed(
            "period",
            Kind::Count,
            "200",
            "LLC load misses",
            "per sample; the shortest where one saves 55 ns in fast memory, else in proportion",
        ),
        Param::fixed(
            "stores",
            Kind::Count,
            "5",
            "",
            "period of retired stores over that of loads; 0 none",
        ),
        Param::fixed("horizon", Kind::Float, "16", "samples per resident page", "of averages"),
        Param::fixed(
            "short",
            Kind::Float,
            "0.00390625",
            "samples per resident page",
            "of the short averages; 0 none",
        ),
        Param::fixed(
            "margin-base",
            Kind::Duration,
            "4400ns",
            "",
            "that promoting a base page has to gain",
        ),
        Param::fixed(
            "margin",
            Kind::Float,
            "0.33",
            "",
            "that a folio's move, or a split, has to gain, of what it costs",
        ),
        Param::fixed("split", Kind::Switch, "on", "", "split folios, and collapse pages, by value"),
        Param::scaled("wakeup", Kind::Duration, "40ms", "", "interval of moves"),
        Param::fixed("looks", Kind::Count, "32", "pages", "looked at per sample"),
        Param::fixed("streams", Kind::Switch, "on", "", "bring in ahead what is swept"),
        Param::fixed(
            "thrift",
            Kind::Switch,
            "on",
            "",
            "take fewer samples where these tell nearly as much",
        ),
    ],
    preset: &[],
    suits,
    facts,
    build: |settings, offer| Ok(Box::new(Frost::new(settings, offer))),
};

/// Samples of loads after which stores are sampled: until then programs fill their memory.
const LOADS_BEFORE_STORES: u64 = 64;
/// Samples of loads between two looks at the periods.
const PERIOD_CHECK: u32 = 1024;
/// The same where samples cost more than they bring.
const LEAST_AT_A_PERIOD: u32 = 128;
/// Samples ahead for which memory is fetched into the cache.
const PREFETCHED: usize = 8;
/// What an access saves that fast memory serves (ns), where samples are as far apart as `period` says.
const COMMON_SAVING: f64 = 55.0;
/// By how much the period is longer or shorter at most where an access saves less or more.
const MOST_PERIODS: f64 = 4.0;
/// Density of a page that is touched every millisecond, where that is measured.
const MEASURED: f32 = 1e6;
/// Shortest interval of moves.
const LEAST_WAKEUP: Nanos = Nanos(40_000);
/// Samples from one plan to the next, at most.
const TICK: u64 = 32;
/// Times as many samples as that for which a plan looks at pages, where the world calls seldom.
const MOST_TICKS: u64 = 4;
/// Times as many pages are looked at where pages have to leave and none is known that may: the limit was lowered.
const HURRY: u64 = 64;
/// Plans in a horizon, at least.
const PLANS_IN_A_HORIZON: f32 = 8.0;
/// Longest time between two plans, where samples are rare.
const PLAN_EVERY: Nanos = Nanos(100_000_000);
/// Least horizon (samples).
const LEAST_HORIZON: f32 = 64.0;

fn facts(settings: &Settings) -> Facts {
    let load_sample_period = settings.period("period");
    let store_sample_period = if settings.count("stores") > 0 { 1_000_000 } else { 0 };
    let needs = Telemetry { load_sample_period, store_sample_period, ..Telemetry::default() };
    Facts { needs, ..Facts::default() }
}

/// Whether all pages in memory are looked at, again and again.
fn is_swept(offer: &Offer) -> bool {
    offer.telemetry.loads.is_some_and(|loads| loads.origin == Origin::Sweeps)
}

/// Whether pages that are touched come to fast memory by themselves.
fn comes_by_touches(offer: &Offer) -> bool {
    offer.telemetry.loads.is_some_and(|loads| loads.comes_by_touches())
        || is_swept(offer) && offer.telemetry.faults == Faults::Swap
}

/// Brief programs are sampled more often; samples that do not come from a sampler tell less.
fn suits(offer: &Offer) -> Vec<Suited> {
    let mut suited = period_of_brief_programs(offer);
    let Some(loads) = offer.telemetry.loads else { return suited };
    if loads.looks_in_turn() {
        // Who looks at pages in turn sees sweeps of its own.
        suited.push(Suited::to("streams", "off"));
    }
    let comes = comes_by_touches(offer);
    if comes || is_swept(offer) {
        // Pages come in the order of their addresses; or how often they are touched is measured, which
        // does not change within few samples.
        suited.push(Suited::to("short", "0"));
    }
    if comes {
        // Of parts of a folio in memory nothing is seen, and what comes back of one are base pages.
        suited.push(Suited::to("split", "off"));
    }
    if loads.per_second.is_some() {
        // Another period would not change how many come.
        suited.push(Suited::to("thrift", "off"));
    }
    suited
}

/// The shortest period where an access saves this much: samples cost a share of what they can save.
fn suited_period(asked: u32, saving: f64) -> u32 {
    let factor = COMMON_SAVING / saving.max(1.0);
    (f64::from(asked) * factor.clamp(1.0 / MOST_PERIODS, MOST_PERIODS)).round().max(1.0) as u32
}

/// What a run goes by.
#[derive(Clone, Copy, Debug)]
struct Rules {
    stores: u32,
    /// Samples per resident page.
    horizons: Spans,
    tariff: Tariff,
    splits: bool,
    wakeup: Nanos,
    looks: u32,
    thrift: bool,
    streams: bool,
    /// What an access saves that fast memory serves (ns).
    saving: f32,
}

/// Samples, and what they are to be.
#[derive(Debug, Default)]
struct Sampling {
    samples: u64,
    stores: u64,
    /// Since the periods were looked at last.
    recent: [u32; 2],
    store_period: u32,
    /// Of loads, of stores: the world is to be told.
    tell: [bool; 2],
}

/// When something is due.
#[derive(Debug, Default)]
struct Due {
    /// Samples at the next plan, or the time.
    plan: (u64, Nanos),
    /// Samples at the last one.
    planned: u64,
    /// Samples at the last look at streams.
    streams: u64,
    wakeup: Nanos,
}

/// The policy; made by [`ENTRY`].
struct Frost {
    rules: Rules,
    sampling: Sampling,
    densities: Densities,
    choice: Choice,
    hand: Hand,
    exchange: Exchange,
    granularity: Granularity,
    walks: Walks,
    newborn: Newborn,
    sizes: Sizes,
    streams: Streams,
    ahead: Ahead,
    thrift: Thrift,
    guard: Guard,
    due: Due,
}

impl Frost {
    fn new(settings: &Settings, offer: &Offer) -> Self {
        let saving = match &*offer.tiers {
            [fast, next, ..] => (next.load_ns - fast.load_ns) / offer.parallelism.unwrap_or(1.0),
            _ => 0.0,
        };
        let asked = settings.period("period");
        // Nobody knows what is saved where nobody knows how many accesses are in flight.
        let period = offer.parallelism.map_or(asked, |_| suited_period(asked, saving));
        let costs = Costs::of(offer);
        let tariff = Tariff::new(settings, &costs, offer.shares_cores);
        Self {
            rules: Rules {
                stores: settings.count_u32("stores"),
                horizons: ["horizon", "short"].map(|key| settings.number(key) as f32),
                tariff,
                splits: settings.switch("split"),
                wakeup: settings.duration("wakeup").max(LEAST_WAKEUP),
                looks: settings.count_u32("looks").max(1),
                thrift: settings.switch("thrift"),
                streams: settings.switch("streams"),
                saving: saving.max(1.0) as f32,
            },
            sampling: Sampling {
                store_period: period.saturating_mul(settings.count_u32("stores")),
                tell: [period != asked, false],
                ..Sampling::default()
            },
            densities: if is_swept(offer) { Densities::of_all_pages() } else { Densities::new() },
            choice: Choice::new([LEAST_HORIZON; 2]),
            hand: Hand::new(),
            exchange: Exchange::new(Balance::new(offer), comes_by_touches(offer)),
            granularity: Granularity::new(tariff.changes()),
            walks: Walks::new(offer.translation),
            newborn: Newborn::default(),
            sizes: Sizes::new(
                offer
                    .translation
                    .is_none_or(|walks| saving > walks.base_walk_ns - walks.folio_walk_ns),
            ),
            streams: Streams::default(),
            ahead: Ahead::default(),
            thrift: Thrift::new(period, costs.sample_ns / 2.0, saving.max(1.0)),
            guard: Guard::new(offer),
            due: Due::default(),
        }
    }

    fn sample(&mut self, sample: &Sample, view: &View<'_>) {
        if self.starts(sample.kind) {
            return;
        }
        let Sample { page, kind, .. } = *sample;
        let state = view.state(page);
        let Some(tier) = state.tier() else { return };
        let (huge, unit) = (state.is_huge(), view.unit(page).start);
        self.sampling.samples += 1;
        self.sampling.recent[kind as usize] += 1;
        self.sampling.stores += u64::from(kind == SampleKind::Store);
        let loads = self.sampling.samples - self.sampling.stores;
        if loads == LOADS_BEFORE_STORES && kind == SampleKind::LoadMiss {
            self.sampling.tell[SampleKind::Store as usize] = true;
        }
        self.newborn.sample(page);
        // A sampled store need not have missed: it earns nothing.
        let worth = if kind == SampleKind::LoadMiss { self.worth() } else { 0.0 };
        self.guard.sample(page, tier, f64::from(worth));
        let in_order = self.rules.streams && self.streams.follow(page, self.sampling.samples);
        if in_order {
            self.ahead.sample(unit);
        }

        if kind == SampleKind::LoadMiss {
            let accesses = f64::from(self.thrift.period());
            self.exchange.balance.sample(unit, tier == TierId::FAST, accesses);
        }

        let rent = self.rent();
        let own = self.densities.own(page);
        let priors = Horizon::ALL.map(|horizon| self.densities.prior_over(page.region(), horizon));
        self.choice.sample(priors.map(|prior| if huge { prior.mean } else { prior.expected(own) }));
        let prior = priors[self.densities.horizon as usize];
        let share = if huge { self.granularity.in_use() } else { 1.0 };
        let (mean, base) = (prior.mean, prior.in_use(share).expected(own));
        let hits = |density: f32| rent.is_paid_by(density);
        if self.rules.splits {
            let moved = f32::from(i8::from(hits(base)) - i8::from(hits(mean)));
            let folio = mean * HUGE_PAGES as f32;
            let (walk_base, walk_folio) = self.walks.cost(sample, huge, (base, folio), in_order);
            let saved = self.rules.saving * moved + walk_folio - walk_base;
            self.granularity.enter(page.region(), saved * self.thrift.period() as f32);
        }
        let density = if huge { mean } else { base };
        self.thrift.sample(page, huge, hits(density), self.choice.spans);
        match sample.gap_ms {
            Some(gap) => self.densities.set(page, MEASURED / gap.get() as f32, self.choice.spans),
            None => self.densities.add(page, self.choice.spans),
        }
        if tier != TierId::FAST && !state.is_in_flight() {
            self.exchange.offer(unit, false, self.densities.density(page, huge), rent.bin);
        }
    }

    /// Whether the program still fills its memory: stores do not count until loads were sampled.
    fn starts(&self, kind: SampleKind) -> bool {
        let loads = self.sampling.samples - self.sampling.stores;
        kind == SampleKind::Store && loads < LOADS_BEFORE_STORES
    }

    /// Looks at the periods of sampling.
    fn check_periods(&mut self, view: &View<'_>) {
        let [loads, stores] = self.sampling.recent;
        if self.rules.thrift && loads >= LEAST_AT_A_PERIOD && self.follow_guard() {
            return;
        }
        if loads < PERIOD_CHECK {
            return;
        }
        self.sampling.recent = [0; 2];
        let before = self.thrift.period();
        if self.rules.thrift
            && let Some(new) = self.thrift.adapt(self.knows(view))
        {
            self.set_period(before, new);
        }
        if stores > loads {
            self.sampling.store_period = self.sampling.store_period.saturating_mul(2);
            self.sampling.tell[SampleKind::Store as usize] = true;
        }
    }

    /// Takes fewer samples while they cost more than they bring; whether the period is another now.
    fn follow_guard(&mut self) -> bool {
        let before = self.thrift.period();
        let new = match self.guard.is_overdrawn() {
            true => self.thrift.lengthen(),
            false if self.guard.is_at_ease() => self.thrift.shorten(),
            false => None,
        };
        if let Some(new) = new {
            self.sampling.recent = [0; 2];
            self.set_period(before, new);
        }
        new.is_some()
    }

    fn set_period(&mut self, before: u32, new: u32) {
        let store = u64::from(self.sampling.store_period) * u64::from(new) / u64::from(before);
        self.sampling.store_period = u32::try_from(store).unwrap_or(u32::MAX);
        self.sampling.tell = [true; 2];
    }

    /// All that there is fits into fast memory, half of what chance would leave in slow memory is hit, or there was time
    /// to learn.
    fn knows(&self, view: &View<'_>) -> bool {
        let resident = view.resident().0;
        let share = view.limits(TierId::FAST).capacity.0 as f64 / resident.max(1) as f64;
        share >= 1.0
            || self.thrift.hit_share() - share >= 0.5 * (1.0 - share)
            || self.sampling.samples > 8 * resident
    }

    /// The density at which fast memory is full.
    fn rent(&self) -> Rent {
        self.choice.rent(self.densities.horizon)
    }

    /// What fast memory saves of the accesses that a sample stands for (ns).
    fn worth(&self) -> f32 {
        self.thrift.period() as f32 * self.rules.saving
    }

    fn choose_horizon(&mut self) {
        let best = self.choice.best(self.densities.horizon);
        if best != self.densities.horizon && self.rules.horizons[1] > 0.0 {
            self.densities.horizon = best;
            self.thrift.go_by(best);
            self.exchange.forget();
        }
    }

    /// Samples of which averages are made: the horizon, or all so far.
    fn span(&self) -> f64 {
        let horizon = self.choice.spans[self.densities.horizon as usize];
        f64::from(horizon).min(self.sampling.samples as f64).max(f64::from(LEAST_HORIZON))
    }

    /// Samples from one plan to the next.
    fn tick(&self) -> u64 {
        let horizon = self.choice.spans[self.densities.horizon as usize];
        let tick = ((horizon / PLANS_IN_A_HORIZON) as u64).clamp(1, TICK);
        tick.max(self.exchange.least_tick())
    }

    fn plan(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        let resident = view.resident().0 as f32;
        self.choice.spans = self.rules.horizons.map(|pages| (pages * resident).max(LEAST_HORIZON));
        self.choose_horizon();
        self.exchange.balance.look(now);
        let worth = self.worth();
        let span = self.span();
        let tick = self.tick();
        // A world that calls seldom has more samples for a plan.
        let came = self.sampling.samples
            - core::mem::replace(&mut self.due.planned, self.sampling.samples);
        let ticks = came.clamp(tick, tick * MOST_TICKS);
        let hurry = if self.exchange.lacks { HURRY } else { 1 };
        let looks = self.rules.looks.saturating_mul((ticks * hurry).min(1 << 20) as u32);
        let mut around = Around {
            view,
            densities: &mut self.densities,
            thrift: &mut self.thrift,
            exchange: &mut self.exchange,
            granularity: &mut self.granularity,
            walks: &mut self.walks,
            choice: &mut self.choice,
            price: worth / span as f32,
            samples: self.sampling.samples,
        };
        self.hand.go(looks, &mut around);
        let rent = self.rent();
        let may = self.guard.affords_exchange();
        let most = if may { view.limits(TierId::FAST).capacity.0 / 8 } else { 0 };
        let rent_per_sample = f64::from(rent.density) / span;
        self.newborn.keep_room(self.sampling.samples, rent_per_sample, most);
        plan.keep_for_newborn(PageCount(self.newborn.room));
        let margin = self.rules.tariff.margin(worth);
        self.ahead.pass(ticks);
        let soon = self.ahead.wanted(view);
        let now = self.sampling.samples;
        let terms = Terms {
            rent: rent.bin,
            margin,
            room: self.newborn.room + soon,
            budget,
            purse: self.guard.purse(),
            span: span as f32,
            now,
            watch: now + self.choice.spans[Horizon::Short as usize] as u64,
        };
        self.exchange.plan(view, &self.densities, self.streams.sweeps(), terms, plan);
    }

    /// Brings in what streams reach next.
    fn bring_ahead(&mut self, view: &View<'_>, plan: &mut Plan) {
        let price = self.rules.tariff.ahead(self.worth());
        let keep = (price, self.newborn.room, self.rent().bin);
        let sweeps = self.streams.look(self.sampling.samples);
        self.ahead.plan(view, &self.densities, &mut self.exchange, sweeps, keep, plan);
    }

    fn born(&mut self, run: PageRun, tier: TierId, now: Nanos, view: &View<'_>) {
        self.sizes.born(run, now);
        self.guard.born(run, tier, view.limits(TierId::FAST).capacity);
        if self.sampling.samples > LOADS_BEFORE_STORES {
            self.newborn.born(run, self.sampling.samples);
        }
        self.densities.presume(run, self.choice.rents.map(|rent| rent.density));
        self.thrift.presume(run);
    }

    /// A move has ended: of folios that were to come, it is told whether they did.
    fn moved(&mut self, run: PageRun, outcome: MoveOutcome, view: &View<'_>) {
        if outcome != MoveOutcome::Moved {
            self.guard.refund(run, view);
        }
        let state = view.state(run.start);
        if !state.is_huge() {
            return;
        }
        let fast = state.tier() == Some(TierId::FAST);
        let has_room = view.free(TierId::FAST).0 >= u64::from(HUGE_PAGES);
        match outcome {
            MoveOutcome::Moved if fast => self.exchange.landed(true),
            MoveOutcome::NoSpace if !fast && has_room => {
                self.exchange.landed(false);
                self.granularity.refused(run.start.region());
            }
            _ => {}
        }
    }

    /// So many cores run the program, each of which is interrupted by what is changed.
    fn run_on(&mut self, cores: u32) {
        self.rules.tariff.run_on(cores);
        self.granularity.set_prices(self.rules.tariff.changes());
        self.guard.run_on(cores);
    }

    fn forget(&mut self, run: PageRun) {
        self.sizes.forget(run);
        self.guard.forget(run);
        self.densities.forget(run);
        self.thrift.forget(run);
    }

    fn grow(&mut self, view: &View<'_>) {
        self.densities.grow(view.pages());
        self.thrift.grow(view.pages());
        self.granularity.grow(view.pages());
    }

    fn tell_periods(&mut self, plan: &mut Plan) {
        let periods = [self.thrift.period(), self.sampling.store_period];
        for (kind, period) in [SampleKind::LoadMiss, SampleKind::Store].into_iter().zip(periods) {
            let tell = &mut self.sampling.tell[kind as usize];
            if core::mem::take(tell) && (kind == SampleKind::LoadMiss || self.rules.stores > 0) {
                plan.push(Action::SetSampling { kind, period });
            }
        }
    }
}

impl Policy for Frost {
    fn observe(&mut self, now: Nanos, events: &[Event], view: &View<'_>) {
        self.grow(view);
        for (at, event) in events.iter().enumerate() {
            if let Some(Event::Sample(next)) = events.get(at + PREFETCHED) {
                view.prefetch(next.page);
                self.densities.prefetch(next.page);
            }
            match event {
                Event::Sample(sample) => self.sample(sample, view),
                Event::Populated { run, tier, .. } => self.born(*run, *tier, now, view),
                Event::Unmapped { run } => self.forget(*run),
                Event::Freed { run } => {
                    self.granularity.freed(*run);
                    self.forget(*run);
                }
                Event::Remapped { from, .. } => self.forget(*from),
                Event::SplitDone { region, split } => {
                    self.granularity.ended(*region, false, *split)
                }
                Event::CollapseDone { region, tier } => {
                    self.granularity.ended(*region, true, tier.is_some());
                }
                Event::Running { cores } => self.run_on(*cores),
                Event::MigrationDone { run, outcome, .. } => self.moved(*run, *outcome, view),
                _ => {}
            }
        }
    }

    fn decide(&mut self, now: Nanos, view: &View<'_>, budget: Budget, plan: &mut Plan) {
        self.due.wakeup = now.saturating_add(self.rules.wakeup);
        self.grow(view);
        self.check_periods(view);
        self.tell_periods(plan);
        let affords_changes = self.guard.affords_change();
        for region in self.sizes.take_full() {
            let fast = view.state(region.first()).tier() == Some(TierId::FAST);
            self.granularity.collapse(region, fast);
        }
        self.granularity.propose(affords_changes, view, plan);
        let sweeps =
            self.rules.streams && self.guard.affords_exchange() && self.exchange.balance.has_room();
        if sweeps && self.sampling.samples > self.due.streams {
            self.due.streams = self.sampling.samples;
            self.bring_ahead(view, plan);
        }
        if self.sampling.samples >= self.due.plan.0 || now >= self.due.plan.1 {
            let samples = self.sampling.samples + self.tick();
            self.due.plan = (samples, now.saturating_add(PLAN_EVERY));
            self.plan(now, view, budget, plan);
        }
        self.ahead.land(view, self.newborn.room, plan);
        let room = self.newborn.room + self.ahead.wanted(view);
        self.exchange.land(view, room, plan);
        self.guard.charge(now, plan, view);
    }

    fn place(&mut self, _: Nanos, allocation: &Allocation, view: &View<'_>) -> Home {
        let fits = view.limits(TierId::FAST).capacity.0 >= u64::from(HUGE_PAGES);
        let size = self.sizes.choose(allocation, fits, || self.guard.begin_trial());
        Home { size, ..Home::default() }
    }

    fn next_wakeup(&self) -> Option<Nanos> {
        Some(self.due.wakeup)
    }

    fn metrics(&self, sink: &mut MetricSink<'_>) {
        for (name, value) in [
            ("samples_total", self.sampling.samples),
            ("store_samples_total", self.sampling.stores),
            ("promotions_proposed_pages_total", self.exchange.promoted),
            ("demotions_proposed_pages_total", self.exchange.demoted),
            ("splits_total", self.granularity.splits),
            ("collapses_total", self.granularity.collapses),
            ("brought_ahead_pages_total", self.ahead.brought),
            ("samples_in_order_total", self.streams.in_order),
            ("horizon_is_short", u64::from(self.densities.horizon == Horizon::Short)),
            ("page_size_trials_total", u64::from(self.sizes.judged)),
            ("unused_subpages_total", self.granularity.unused),
            ("rounds_total", self.hand.rounds),
            ("exchanges_judged_total", self.exchange.margins.judged),
            ("load_period_accesses", u64::from(self.thrift.period())),
            ("newborn_room_pages", self.newborn.room),
            ("shed_pages_total", self.exchange.balance.shed),
            ("guard_forced_pages_total", self.guard.forced),
        ] {
            sink(name, value as f64);
        }
        sink("ahead_return_samples_per_page", f64::from(self.ahead.return_of()));
        sink("margin_scale", f64::from(self.exchange.margins.scale()));
        sink("guard_spent_seconds", self.guard.spent() / 1e9);
        sink("guard_earned_seconds", self.guard.earned / 1e9);
        sink("rent_samples_per_page", f64::from(self.rent().density));
    }

    fn metadata_bytes(&self) -> Bytes {
        self.densities.bytes()
            + self.exchange.bytes()
            + self.granularity.bytes()
            + self.newborn.bytes()
            + self.ahead.bytes()
            + self.thrift.bytes()
            + self.guard.bytes()
    }
}
