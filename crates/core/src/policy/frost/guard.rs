//! Guard: what costs the program time is earned before it is spent.
//!
//! Charged are samples, page faults of memory that gets base pages on trial, and, where workers take time from
//! the program, every move, split and collapse. Earned is what fast memory serves of the samples beyond what
//! it would serve if pages had stayed where they were touched first. A small share of the time may be spent in
//! advance, half of it on samples where work costs, too. While too much is spent, nothing that costs is done,
//! and samples become fewer. Where samples come from slow memory alone, nobody sees what fast memory serves,
//! so that there is no account.

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
}

/// What was spent and earned, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// None where nobody knows them, or what is earned.
    prices: Option<Prices>,
    /// Pages that would be in fast memory if nothing had been moved.
    first: Bitmap,
    first_pages: u64,
    pub spent: f64,
    pub earned: f64,
    now: Nanos,
}

/// What may be spent at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purse {
    left: f64,
    base: f64,
    folio: f64,
}

impl Purse {
    /// Takes what an exchange for a unit costs; false where that is more than is left.
    pub(super) fn take(&mut self, run: PageRun) -> bool {
        let huge = run.pages > 1;
        let price = 2.0 * if huge { self.folio } else { self.base };
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
                sample: loads?.cost_ns? * of_samples,
                base: offer.costs.base_move_ns? * of_work,
                folio: costs.folio_move_ns * of_work,
                split: costs.split_ns * of_work,
                collapse: costs.collapse_ns * of_work,
            })
        };
        let prices = known();
        Self { prices, ..Self::default() }
    }

    /// What may be spent. Losses do not count, or what was moved wrongly would stay where it is.
    fn left(&self) -> f64 {
        ADVANCE * self.now.0 as f64 + self.earned.max(0.0) - self.spent
    }

    fn affords(&self, price: impl Fn(Prices) -> f64) -> bool {
        self.prices.map(price).is_none_or(|price| price <= 0.0 || price <= self.left())
    }

    /// What may be spent on exchanges now.
    pub(super) fn purse(&self) -> Purse {
        match self.prices {
            Some(Prices { base, folio, .. }) => Purse { left: self.left(), base, folio },
            None => Purse { left: 0.0, base: 0.0, folio: 0.0 },
        }
    }

    /// Whether a folio can be exchanged.
    pub(super) fn affords_exchange(&self) -> bool {
        self.affords(|prices| 2.0 * prices.folio)
    }

    /// Whether a region can be changed, and changed back.
    pub(super) fn affords_change(&self) -> bool {
        self.affords(|prices| prices.split + prices.collapse)
    }

    /// Whether a region may get base pages on trial, which is charged.
    pub(super) fn begin_trial(&mut self) -> bool {
        let affords = self.affords(|prices| prices.collapse);
        if affords {
            self.spent += f64::from(HUGE_PAGES) * FAULT_NS;
        }
        affords
    }

    /// What samples leave for work, if that costs anything.
    fn kept_for_work(&self) -> f64 {
        let costs = self.prices.is_some_and(|prices| prices.folio > 0.0);
        if costs { FOR_WORK * self.now.0 as f64 } else { 0.0 }
    }

    /// Whether samples cost more than they may.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.prices.is_some() && self.left() < self.kept_for_work()
    }

    /// Whether there is so much left that samples may become more again.
    pub(super) fn is_at_ease(&self) -> bool {
        let most = ADVANCE * self.now.0 as f64;
        self.left() > f64::midpoint(self.kept_for_work(), most)
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
            self.spent += prices.sample;
        }
    }

    /// Charges what a plan proposes.
    pub(super) fn charge(&mut self, now: Nanos, plan: &Plan, view: &View<'_>) {
        self.now = now;
        let Some(prices) = self.prices else { return };
        for action in plan.iter() {
            self.spent += match action {
                Action::Migrate { run, .. } if view.state(run.start).is_huge() => {
                    prices.folio * f64::from(run.pages) / f64::from(HUGE_PAGES)
                }
                Action::Migrate { run, .. } => prices.base * f64::from(run.pages),
                Action::Split { .. } => prices.split,
                Action::Collapse { .. } => prices.collapse,
                _ => 0.0,
            };
        }
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.first.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WorkCosts;
    use crate::policy::telemetry::Origin;

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
        };
        let mut offer = Offer { costs, shares_cores, ..Offer::default() };
        offer.telemetry.loads = Some(Sampling { origin, cost_ns: Some(500.0), per_second: None });
        Guard::new(&offer)
    }

    #[test]
    fn work_is_paid_from_time_and_from_what_it_has_earned() {
        let mut guard = guard(true);
        let folio = Region(0).run();
        assert!(!guard.affords_exchange() && !guard.purse().take(folio));
        guard.now = SECOND;
        let mut purse = guard.purse();
        // 15 ms in advance for 0.4 ms each.
        assert_eq!((0..100).filter(|_| purse.take(folio)).count(), 37);
        guard.spent = 8e6;
        assert!(guard.is_overdrawn() && guard.affords_exchange(), "samples leave half to moves");
        guard.spent = 25e6;
        assert!(!guard.affords_exchange() && !guard.affords_change() && guard.is_overdrawn());
        for _ in 0..1000 {
            guard.sample(PageId(7), TierId::FAST, 11_000.0);
        }
        assert_eq!((guard.earned, guard.spent), (11e6, 25.5e6));
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
    fn samples_alone_cost_where_workers_have_cores_of_their_own() {
        let mut guard = guard(false);
        guard.spent = 1e12;
        assert!(guard.affords_exchange() && guard.affords_change() && guard.is_overdrawn());
        assert!(guard.purse().take(Region(0).run()));
        assert!(!Guard::new(&Offer::default()).is_overdrawn());
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
            assert_eq!((guard.earned, guard.spent) != (0.0, 0.0), keeps, "{origin:?}");
            assert_eq!(guard.is_overdrawn(), keeps, "{origin:?}");
            assert_eq!(guard.affords_exchange(), !keeps, "{origin:?}");
        }
    }
}
