//! Guard: what costs the program time is earned before it is spent.
//!
//! Charged are samples, page faults of memory that gets base pages on trial, where workers take time from the
//! program every move, split and collapse, and what each of these interrupts the program's other cores for. All
//! is time of the program's cores. Earned is what fast memory serves of the samples beyond what
//! it would serve if pages had stayed where they were touched first. A small share of the time may be spent in
//! advance, half of it on samples where work costs, too. While too much is spent, nothing that costs is done,
//! and samples become fewer. Where samples come from slow memory alone, nobody sees what fast memory serves,
//! so that there is no account.
//!
//! First touch, too, has pages in slow memory once the fast one is full. A page that it would have there leaves
//! for nothing, and pays there and back when it comes. What is above the limit has to leave, whoever decides.

use super::costs::Costs;
use crate::action::{Action, Plan};
use crate::hotness::bitmap::Bitmap;
use crate::placement::View;
use crate::policy::offer::Offer;
use crate::policy::telemetry::Sampling;
use crate::types::*;

/// Share of the time that may be spent in advance.
const ADVANCE: f64 = 0.015;
/// Share of the time that samples leave of it for work, where that takes time from the program.
const FOR_WORK: f64 = ADVANCE / 2.0;

/// What a fault of a base page takes (ns).
const FAULT_NS: f64 = 500.0;

/// Prices of work (ns), 0 for what takes no time from the program.
#[derive(Clone, Copy, Debug)]
struct Prices {
    sample: f64,
    base: f64,
    folio: f64,
    split: f64,
    collapse: f64,
    /// What a stretch of pages, a split or a collapse takes from each of the program's cores but one.
    interruption: f64,
}

/// What was spent and earned, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// None where nobody knows them, or what is earned.
    prices: Option<Prices>,
    /// Pages that would be in fast memory if nothing had been moved.
    first: Bitmap,
    first_pages: u64,
    /// On samples, and on all else.
    sampled: f64,
    worked: f64,
    pub earned: f64,
    /// Pages that had to leave.
    pub forced: u64,
    now: Nanos,
    /// Cores of the program that another one's work interrupts, and time of all of its cores so far.
    others: f64,
    ran: f64,
}

/// What may be spent at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purse {
    left: f64,
    base: f64,
    folio: f64,
    /// Of all cores that are interrupted.
    interruption: f64,
}

impl Purse {
    /// Takes what an exchange for a unit costs, one of so many in `company` that move together; false where
    /// that is more than is left.
    pub(super) fn take(&mut self, run: PageRun, company: u32) -> bool {
        let moved = if run.pages > 1 { self.folio } else { self.base };
        let price = 2.0 * (moved + self.interruption / f64::from(company));
        let enough = price <= 0.0 || price <= self.left;
        if enough {
            self.left -= price;
        }
        enough
    }
}

impl Guard {
    pub(super) fn new(offer: &Offer) -> Self {
        let loads = offer.telemetry.loads.filter(Sampling::counts_accesses);
        // Of a sample, others handle about half where they have a core for it.
        let (of_samples, of_work) = if offer.shares_cores { (1.0, 1.0) } else { (0.5, 0.0) };
        let costs = Costs::of(offer);
        let known = || {
            Some(Prices {
                sample: loads.map(|_| costs.sample_ns)? * of_samples,
                base: offer.costs.base_move_ns? * of_work,
                folio: costs.folio_move_ns * of_work,
                split: costs.split_ns * of_work,
                collapse: costs.collapse_ns * of_work,
                interruption: costs.interruption_ns,
            })
        };
        let prices = known();
        Self { prices, ..Self::default() }
    }

    pub(super) fn spent(&self) -> f64 {
        self.sampled + self.worked
    }

    /// What may be spent. Losses do not count, or what was moved wrongly would stay where it is.
    fn left(&self) -> f64 {
        ADVANCE * self.ran + self.earned.max(0.0) - self.spent()
    }

    /// So many cores run the program.
    pub(super) fn run_on(&mut self, cores: u32) {
        self.others = f64::from(cores.saturating_sub(1));
    }

    fn pass(&mut self, now: Nanos) {
        let before = core::mem::replace(&mut self.now, now);
        self.ran += now.saturating_sub(before).0 as f64 * (1.0 + self.others);
    }

    /// What an interruption takes from all cores.
    fn interruption(&self, prices: Prices) -> f64 {
        prices.interruption * self.others
    }

    fn affords(&self, price: impl Fn(Prices) -> f64) -> bool {
        self.prices.map(price).is_none_or(|price| price <= 0.0 || price <= self.left())
    }

    /// What may be spent on exchanges now.
    pub(super) fn purse(&self) -> Purse {
        match self.prices {
            Some(prices @ Prices { base, folio, .. }) => {
                Purse { left: self.left(), base, folio, interruption: self.interruption(prices) }
            }
            None => Purse { left: 0.0, base: 0.0, folio: 0.0, interruption: 0.0 },
        }
    }

    /// Whether a folio can be exchanged.
    pub(super) fn affords_exchange(&self) -> bool {
        self.affords(|prices| 2.0 * (prices.folio + self.interruption(prices)))
    }

    /// Whether a region can be changed, and changed back.
    pub(super) fn affords_change(&self) -> bool {
        self.affords(|prices| prices.split + prices.collapse + 2.0 * self.interruption(prices))
    }

    /// Whether a region may get base pages on trial, which is charged.
    pub(super) fn begin_trial(&mut self) -> bool {
        let affords = self.affords(|prices| prices.collapse + self.interruption(prices));
        if affords {
            self.worked += f64::from(HUGE_PAGES) * FAULT_NS;
        }
        affords
    }

    /// What may be spent on samples: of the advance what they leave for work, and what work has earned.
    fn left_for_samples(&self) -> f64 {
        let works =
            self.prices.is_some_and(|prices| prices.folio + self.interruption(prices) > 0.0);
        let advance = if works { ADVANCE - FOR_WORK } else { ADVANCE };
        advance * self.ran + (self.earned - self.worked).max(0.0) - self.sampled
    }

    /// Whether samples cost more than they may.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.prices.is_some() && self.left_for_samples() < 0.0
    }

    /// Whether there is so much left that samples may become more again.
    pub(super) fn is_at_ease(&self) -> bool {
        self.left_for_samples() > FOR_WORK / 2.0 * self.ran
    }

    /// Memory was touched first. `capacity` is what fast memory holds.
    pub(super) fn born(&mut self, run: PageRun, tier: TierId, capacity: PageCount) {
        let pages = u64::from(run.pages);
        if self.prices.is_some() && tier == TierId::FAST && self.first_pages + pages <= capacity.0 {
            self.first_pages += pages;
            run.iter().for_each(|page| self.first.insert(page.0));
        }
    }

    /// Memory is not there any more.
    pub(super) fn forget(&mut self, run: PageRun) {
        for page in run.iter().filter(|_| self.prices.is_some()) {
            if self.first.contains(page.0) {
                self.first.remove(page.0);
                self.first_pages -= 1;
            }
        }
    }

    /// Takes in a sample. What it stands for saves `worth` (ns) where fast memory serves it.
    pub(super) fn sample(&mut self, page: PageId, tier: TierId, worth: f64) {
        if let Some(prices) = self.prices {
            let [is, was] = [tier == TierId::FAST, self.first.contains(page.0)].map(f64::from);
            self.earned += worth * (is - was);
            self.sampled += prices.sample;
        }
    }

    /// Charges what a plan proposes.
    pub(super) fn charge(&mut self, now: Nanos, plan: &Plan, view: &View<'_>) {
        self.pass(now);
        let Some(prices) = self.prices else { return };
        let fast = view.limits(TierId::FAST);
        let mut above =
            (view.used(TierId::FAST).0 + fast.keep_free.0).saturating_sub(fast.capacity.0);
        for action in plan.iter() {
            self.worked += match *action {
                Action::Migrate { run, to, .. } if to != TierId::FAST && above > 0 => {
                    above = above.saturating_sub(u64::from(run.pages));
                    self.forced += u64::from(run.pages);
                    0.0
                }
                Action::Migrate { run, to, .. } => self.price(prices, run, to, view),
                Action::Split { .. } => prices.split + self.interruption(prices),
                Action::Collapse { .. } => prices.collapse + self.interruption(prices),
                _ => 0.0,
            };
        }
    }

    /// Gives back what a move was charged that has not come about.
    pub(super) fn refund(&mut self, run: PageRun, view: &View<'_>) {
        let (Some(prices), Some(tier)) = (self.prices, view.state(run.start).tier()) else {
            return;
        };
        let to = if tier == TierId::FAST { TierId::FAST.slower() } else { TierId::FAST };
        self.worked -= self.price(prices, run, to, view);
    }

    /// Price of a move (ns).
    fn price(&self, prices: Prices, run: PageRun, to: TierId, view: &View<'_>) -> f64 {
        let page = match view.state(run.start).is_huge() {
            true => prices.folio / f64::from(HUGE_PAGES),
            false => prices.base,
        };
        let stretches = f64::from(run.pages.div_ceil(HUGE_PAGES)) * self.interruption(prices);
        let page = page + stretches / f64::from(run.pages.max(1));
        if page <= 0.0 {
            return 0.0;
        }
        let first = run.iter().filter(|page| self.first.contains(page.0)).count() as f64;
        page * if to == TierId::FAST { 2.0 * f64::from(run.pages) - first } else { first }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.first.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Lane;
    use crate::event::Event;
    use crate::policy::WorkCosts;
    use crate::policy::telemetry::Origin;
    use crate::policy::testing::World;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn guard(shares_cores: bool) -> Guard {
        guard_by(Origin::Hardware, shares_cores)
    }

    fn guard_by(origin: Origin, shares_cores: bool) -> Guard {
        let costs = WorkCosts {
            base_move_ns: Some(2000.0),
            folio_move_ns: Some(200_000.0),
            split_ns: Some(100_000.0),
            collapse_ns: Some(1e6),
            interruption_ns: Some(1000.0),
        };
        let mut offer = Offer { costs, shares_cores, ..Offer::default() };
        offer.telemetry.loads = Some(Sampling { origin, cost_ns: Some(500.0), per_second: None });
        Guard::new(&offer)
    }

    #[test]
    fn work_is_paid_from_time_and_from_what_it_has_earned() {
        let mut guard = guard(true);
        let folio = Region(0).run();
        assert!(!guard.affords_exchange() && !guard.purse().take(folio, 1));
        guard.pass(SECOND);
        let mut purse = guard.purse();
        // 15 ms in advance for 0.4 ms each.
        assert_eq!((0..100).filter(|_| purse.take(folio, 1)).count(), 37);
        guard.sampled = 8e6;
        assert!(guard.is_overdrawn() && guard.affords_exchange(), "samples leave half to moves");
        (guard.sampled, guard.worked) = (7e6, 14e6);
        assert!(!guard.is_overdrawn() && !guard.affords_exchange(), "moves leave half to samples");
        (guard.sampled, guard.worked) = (8e6, 17e6);
        assert!(!guard.affords_exchange() && !guard.affords_change() && guard.is_overdrawn());
        for _ in 0..1000 {
            guard.sample(PageId(7), TierId::FAST, 11_000.0);
        }
        assert_eq!((guard.earned, guard.spent()), (11e6, 25.5e6));
        assert!(guard.affords_exchange() && !guard.affords_change());
    }

    #[test]
    fn only_what_first_touch_would_not_have_is_earned() {
        let mut guard = guard(true);
        let (capacity, slow) = (PageCount(2), TierId::FAST.slower());
        for page in 0..4 {
            guard.born(PageRun::single(PageId(page)), TierId::FAST, capacity);
        }
        guard.born(PageRun::single(PageId(4)), slow, capacity);
        // Two of them fill fast memory.
        guard.sample(PageId(0), TierId::FAST, 1.0);
        assert_eq!(guard.earned, 0.0);
        guard.sample(PageId(1), slow, 1.0);
        assert_eq!(guard.earned, -1.0);
        guard.sample(PageId(2), TierId::FAST, 5.0);
        assert_eq!(guard.earned, 4.0);
        guard.forget(PageRun::between(0, 2));
        guard.born(PageRun::single(PageId(9)), TierId::FAST, capacity);
        guard.sample(PageId(9), slow, 1.0);
        assert_eq!((guard.earned, guard.first_pages), (3.0, 1));
    }

    #[test]
    fn pages_that_first_touch_would_not_have_leave_for_nothing_and_pay_when_they_come() {
        let mut world = World::new(4, "first-touch");
        world.populate(PageRun::between(0, 8), false);
        let view = &world.engine.view();
        let mut guard = guard(true);
        for page in 0..4 {
            guard.born(PageRun::single(PageId(page)), TierId::FAST, PageCount(2));
        }
        let mut spend = |pages: PageRun, to| {
            let mut plan = Plan::default();
            plan.migrate(pages, to, Lane::DEMOTE);
            let before = guard.spent();
            guard.charge(Nanos(1), &plan, view);
            let spent = guard.spent() - before;
            // It goes back only if the pages are where they were.
            if view.state(pages.start).tier() != Some(to) {
                guard.refund(pages, view);
                assert_eq!(guard.spent(), before);
            }
            spent
        };
        // Pages 0 and 1 are those of first touch, 2 and 3 beyond what it has room for, 4 and 5 in slow memory.
        let slow = TierId::FAST.slower();
        assert_eq!(spend(PageRun::between(0, 4), slow), 2.0 * 2000.0);
        assert_eq!(spend(PageRun::between(2, 4), slow), 0.0);
        assert_eq!(spend(PageRun::between(4, 6), TierId::FAST), 4.0 * 2000.0);
    }

    #[test]
    fn what_is_above_the_limit_leaves_for_nothing() {
        let mut world = World::new(4, "first-touch");
        world.populate(PageRun::between(0, 4), false);
        let usage = Event::TierUsage { tier: TierId::FAST, capacity: PageCount(3) };
        world.feed(&[usage]);
        let mut guard = guard(true);
        guard.born(PageRun::between(0, 4), TierId::FAST, PageCount(4));
        let mut plan = Plan::default();
        plan.migrate(PageRun::single(PageId(0)), TierId::FAST.slower(), Lane::DEMOTE);
        plan.migrate(PageRun::single(PageId(1)), TierId::FAST.slower(), Lane::DEMOTE);
        guard.charge(Nanos(1), &plan, &world.engine.view());
        assert_eq!((guard.spent(), guard.forced), (2000.0, 1));
    }

    #[test]
    fn samples_alone_cost_where_workers_have_cores_of_their_own() {
        let mut guard = guard(false);
        guard.sampled = 1e12;
        assert!(guard.affords_exchange() && guard.affords_change() && guard.is_overdrawn());
        assert!(guard.purse().take(Region(0).run(), 1));
        assert!(!Guard::new(&Offer::default()).is_overdrawn());
    }

    #[test]
    fn all_cores_of_the_program_earn_and_are_interrupted() {
        let mut world = World::new(8, "first-touch");
        world.populate(PageRun::between(0, 8), false);
        let view = &world.engine.view();
        for (shares_cores, moved_ns) in [(false, 0.0), (true, 2000.0)] {
            let mut guard = guard(shares_cores);
            guard.run_on(1);
            assert_eq!(guard.affords_exchange(), !shares_cores, "one core is not interrupted");
            guard.run_on(21);
            assert!(!guard.affords_exchange());
            guard.pass(SECOND);
            // 1.5 % of the time of 21 cores.
            assert_eq!(guard.left(), 0.015 * 21e9);
            // 20 us for each stretch there and back, which four pages share.
            let mut plan = Plan::default();
            plan.migrate(PageRun::between(0, 4), TierId::FAST, Lane::PROMOTE);
            guard.charge(SECOND, &plan, view);
            assert_eq!(guard.spent(), 2.0 * (20_000.0 + 4.0 * moved_ns));
            let mut purse = guard.purse();
            let before = purse.left;
            assert!(purse.take(PageRun::single(PageId(0)), 4));
            assert_eq!(before - purse.left, 2.0 * (5000.0 + moved_ns));
        }
    }

    #[test]
    fn samples_that_do_not_count_accesses_keep_no_account() {
        for (origin, keeps) in [
            (Origin::Hardware, true),
            (Origin::InTurn, false),
            (Origin::HintFaults, false),
            (Origin::Refaults, false),
        ] {
            let mut guard = guard_by(origin, true);
            guard.born(PageRun::single(PageId(0)), TierId::FAST, PageCount(1));
            guard.sample(PageId(0), TierId::FAST.slower(), 1e6);
            assert_eq!((guard.earned, guard.spent()) != (0.0, 0.0), keeps, "{origin:?}");
            assert_eq!(guard.is_overdrawn(), keeps, "{origin:?}");
            assert_eq!(guard.affords_exchange(), !keeps, "{origin:?}");
        }
    }
}
