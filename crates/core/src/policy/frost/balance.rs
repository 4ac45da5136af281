//! Balance of loads: the share of accesses that fast memory is to serve.
//!
//! Memory is slower the busier it is. Accesses are shared best where one more costs as much in fast memory as
//! in the next tier: what it waits, and what it makes all others wait. As long as fast memory is idle, it is to
//! serve all. Rates come from samples, and waiting from what the world offers: M/D/1, by its latencies with
//! and without load.

use crate::policy::offer::{Offer, TierOffer};
use crate::types::*;
use alloc::vec::Vec;

/// Load at which loaded latencies are offered, and how many service times are waited for at it.
const SERVICES_WAITED: f64 = 2.0;
/// Utilisation from which on one more access is taken to wait no longer, in proportion.
const MOST_USED: f64 = 0.98;
const LINE_BYTES: f64 = 64.0;
/// Least time, and least samples, from one look at rates to the next.
const LOOK: (Nanos, u32) = (Nanos(2_000_000), 1024);
/// Part of a difference that is made up for at once.
const STEP: f64 = 0.5;
/// Difference of shares that is left alone.
const CLOSE: f64 = 0.03;
/// Units of fast memory that were sampled last.
const RECENT: usize = 64;

/// A tier under load.
#[derive(Clone, Copy, Debug)]
struct Tier {
    load_ns: f64,
    service_ns: f64,
    lines_per_ns: f64,
}

impl Tier {
    fn new(offer: &TierOffer) -> Option<Self> {
        let waited = offer.loaded_load_ns? - offer.load_ns;
        Some(Self {
            load_ns: offer.load_ns,
            service_ns: waited / SERVICES_WAITED,
            lines_per_ns: offer.read_bytes_per_second? / LINE_BYTES / 1e9,
        })
    }

    /// What one more access costs all (ns), where there are so many in a nanosecond.
    fn marginal_ns(self, rate: f64) -> f64 {
        let used = rate / self.lines_per_ns;
        let (u, beyond) = (used.min(MOST_USED), (used / MOST_USED).max(1.0));
        let idle = 1.0 - u;
        self.load_ns + self.service_ns * beyond * (u / (2.0 * idle) + u / (2.0 * idle * idle))
    }
}

/// The share of all accesses that fast memory serves best.
fn best_share(tiers: [Tier; 2], rate: f64) -> f64 {
    let more = |share: f64| {
        tiers[0].marginal_ns(share * rate) > tiers[1].marginal_ns((1.0 - share) * rate)
    };
    if !more(1.0) {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..16 {
        let middle = f64::midpoint(low, high);
        if more(middle) { high = middle } else { low = middle }
    }
    low
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// None where nobody knows how they are under load.
    tiers: Option<[Tier; 2]>,
    /// Since the last look: accesses, and samples.
    accesses: [f64; 2],
    samples: u32,
    looked: Nanos,
    /// Accesses in a nanosecond, averaged.
    rates: Option<[f64; 2]>,
    /// Share of accesses that may still come to fast memory, or is to leave it where negative.
    left: Option<f64>,
    recent: Vec<PageId>,
    next: usize,
    pub shed: u64,
}

impl Balance {
    pub(super) fn new(offer: &Offer) -> Self {
        let tiers = match &*offer.tiers {
            [fast, next, ..] => {
                Tier::new(fast).zip(Tier::new(next)).map(|(one, other)| [one, other])
            }
            _ => None,
        };
        Self { tiers, ..Self::default() }
    }

    /// Takes in a sample of a unit, which stands for so many accesses.
    #[inline]
    pub(super) fn sample(&mut self, unit: PageId, fast: bool, accesses: f64) {
        self.accesses[usize::from(!fast)] += accesses;
        self.samples += 1;
        if fast && self.left.is_some_and(|left| left < 0.0) {
            if self.recent.len() < RECENT {
                self.recent.push(unit);
            } else {
                self.recent[self.next] = unit;
                self.next = (self.next + 1) % RECENT;
            }
        }
    }

    /// Looks at rates where it is time to.
    pub(super) fn look(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.looked);
        let Some(tiers) = self.tiers else { return };
        if elapsed < LOOK.0 || self.samples < LOOK.1 {
            return;
        }
        let new = self.accesses.map(|accesses| accesses / elapsed.0 as f64);
        let old = self.rates.unwrap_or(new);
        let rates = [0, 1].map(|at| f64::midpoint(old[at], new[at]));
        (self.accesses, self.samples, self.looked) = ([0.0; 2], 0, now);
        self.rates = Some(rates);
        let rate = rates[0] + rates[1];
        let (best, is) = (best_share(tiers, rate), rates[0] / rate);
        self.left = (best < 1.0).then_some(match best - is {
            close if close.abs() < CLOSE => 0.0,
            difference => STEP * difference,
        });
        if self.left.is_none_or(|left| left >= 0.0) {
            self.recent.clear();
        }
    }

    /// Whether more accesses may come to fast memory.
    pub(super) fn has_room(&self) -> bool {
        self.left.is_none_or(|left| left > 0.0)
    }

    /// Share of accesses that may come to fast memory, at least 0.
    pub(super) fn may_come(&self) -> f64 {
        self.left.map_or(f64::INFINITY, |left| left.max(0.0))
    }

    /// Accesses of this share will be served by fast memory, or no more where negative.
    pub(super) fn moved(&mut self, share: f64) {
        if let Some(left) = &mut self.left {
            *left -= share;
        }
    }

    /// A unit of fast memory whose accesses may leave it, sampled lately, and the share that is to leave.
    pub(super) fn next_to_shed(&mut self) -> Option<(PageId, f64)> {
        let left = self.left.filter(|left| *left < -CLOSE / 2.0)?;
        Some((self.recent.pop()?, -left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HBM: Tier = Tier { load_ns: 100.0, service_ns: 100.0, lines_per_ns: 8.0 };
    const DRAM: Tier = Tier { load_ns: 130.0, service_ns: 130.0, lines_per_ns: 1.6 };

    #[test]
    fn an_idle_tier_serves_all_and_a_busy_one_shares() {
        assert_eq!(best_share([HBM, DRAM], 0.1), 1.0);
        let shares = [4.0, 6.0, 8.0, 9.0].map(|rate| best_share([HBM, DRAM], rate));
        assert!(shares.is_sorted_by(|one, other| one > other), "{shares:?}");
        // Together they have no more than their bandwidths.
        assert!((shares[3] - 8.0 / 9.6).abs() < 0.03, "{shares:?}");
    }

    #[test]
    fn one_more_access_costs_as_much_in_either() {
        let share = best_share([HBM, DRAM], 6.0);
        let costs = [HBM.marginal_ns(6.0 * share), DRAM.marginal_ns(6.0 * (1.0 - share))];
        assert!((costs[0] / costs[1] - 1.0).abs() < 0.01, "{costs:?}");
        // Against brute force over the time that all accesses take together.
        let waits = |tier: Tier, rate: f64| {
            let u = rate / tier.lines_per_ns;
            rate * (tier.load_ns + tier.service_ns * u / (2.0 * (1.0 - u)))
        };
        let time = |share: f64| waits(HBM, 6.0 * share) + waits(DRAM, 6.0 * (1.0 - share));
        let best = (740..1000)
            .map(|i| f64::from(i) / 1000.0)
            .min_by(|one, other| time(*one).total_cmp(&time(*other)));
        assert!((best.unwrap() - share).abs() < 0.005, "{best:?} {share}");
    }

    fn busy(share: f64) -> Balance {
        let mut balance = Balance { tiers: Some([HBM, DRAM]), ..Balance::default() };
        for look in 1..=8 {
            for i in 0..1000 {
                let fast = f64::from(i) < 1000.0 * share;
                balance.sample(PageId(i), fast, 9.0 * 2000.0);
            }
            balance.look(Nanos(look * 2_000_000));
        }
        balance
    }

    #[test]
    fn a_tier_that_is_too_busy_sheds_and_one_that_is_not_takes_more() {
        let mut balance = busy(0.95);
        assert!(!balance.has_room() && balance.may_come() == 0.0);
        let (unit, share) = balance.next_to_shed().expect("too busy");
        assert!(unit.0 < 950 && (0.02..0.1).contains(&share), "{share}");
        balance.moved(-share);
        assert_eq!(balance.next_to_shed(), None);
        let mut balance = busy(0.7);
        assert!(balance.has_room() && (0.03..0.1).contains(&balance.may_come()));
        assert_eq!(balance.next_to_shed(), None);
    }

    #[test]
    fn nothing_is_limited_where_nobody_knows_of_loads() {
        let mut balance = Balance::default();
        balance.sample(PageId(0), true, 1e12);
        balance.look(Nanos(1 << 40));
        assert!(balance.has_room() && balance.may_come() == f64::INFINITY);
    }
}
