//! What a driver moves on its own account: to keep the limit, and to learn who comes back.

use super::moving::{Demoted, Purpose};
use super::{AUDIT_PART, Driver, MOVE_PAGES, Options};
use crate::SlowTier;
use crate::clock;
use crate::error::DriverError;
use crate::pacer::Patience;
use crate::place::Place;
use frostline_core::types::*;

/// How long the policy is given to make room before the driver does.
const GRACE: Nanos = Nanos(600_000_000);
/// Pages paged out at random per second to see who comes back: this share of the fast tier.
const PROBED_SHARE: f64 = 1.0 / 600.0;
/// A footprint that exceeds its limit by this share is still settling.
const SETTLING: f64 = 1.02;
/// For so long, the larger share of a core is ours: what has not settled by then does not.
const SETTLES: Nanos = Nanos(60_000_000_000);

impl Driver {
    /// Makes room where the program has outgrown its limit and the policy has not: pages that have
    /// not come back lately go, in turn.
    pub(super) fn keep_limit(&mut self) -> Result<(), DriverError> {
        let view = self.engine.view();
        let over = view.over(TierId::FAST).0;
        let limit = view.limits(TierId::FAST).capacity.0;
        let settled = view.used(TierId::FAST).0 as f64 <= limit as f64 * SETTLING;
        self.settling_since = if settled { None } else { self.settling_since.or(Some(self.now)) };
        let settling = self.settling_since.is_some() && self.over_limit() < SETTLES;
        let Options { cpu_share, settling_cpu_share, .. } = self.options;
        let share = if settling { settling_cpu_share.max(cpu_share) } else { cpu_share };
        self.pacer.set_share(share - cpu_share * AUDIT_PART);
        if over == 0 || self.options.slow == SlowTier::Observe || self.options.dry_run {
            self.over_since = None;
            self.patience = Patience::default();
            return Ok(());
        }
        let since = *self.over_since.get_or_insert(self.now);
        if self.now.saturating_sub(since) < GRACE || !self.patience.allows(self.now) {
            return Ok(());
        }
        let leaving = self.engine.view().reserved(TierId::FAST.slower()).0;
        let mut left = over.saturating_sub(leaving);
        let mut looked_at = 0;
        while left > 0 && self.pacer.allows() && looked_at <= 2 * u64::from(self.map.pages()) {
            let mut runs = Vec::new();
            let wanted = left.min(u64::from(MOVE_PAGES));
            let passed = self.pick_victims(wanted, &mut runs);
            self.pacer.charge(clock::thread_cpu());
            looked_at += passed;
            let tried: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
            let done =
                if tried > 0 { self.demote(&runs, Purpose::Limit)? } else { Demoted::default() };
            left = left.saturating_sub(done.moved);
            self.patience.note(tried, done.moved);
            // A round over all pages, or a full tier, shows that it is in vain.
            self.passed += passed;
            if done.no_space || self.passed > u64::from(self.map.pages()) {
                self.passed = 0;
                if !self.patience.conclude(self.now) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// For how long fast memory has been exceeded by more than 2 %.
    pub(crate) fn over_limit(&self) -> Nanos {
        self.settling_since.map_or(Nanos::ZERO, |since| self.now.saturating_sub(since))
    }

    /// Goes round over all pages from the hand on until enough are found or a region's worth has
    /// been looked at; pages that came back since the hand last passed get another round. Returns
    /// how many pages were looked at.
    fn pick_victims(&mut self, wanted: u64, runs: &mut Vec<PageRun>) -> u64 {
        let pages = self.map.pages();
        let (mut found, mut looked_at) = (0, 0);
        while found < wanted && looked_at < 8 * u64::from(HUGE_PAGES) && pages > 0 {
            if self.hand >= pages {
                self.hand = 0;
            }
            let page = PageId(self.hand);
            let state = self.engine.view().state(page);
            let run = if state.is_huge() { page.region().run() } else { PageRun::single(page) };
            self.hand = run.end();
            looked_at += u64::from(run.pages);
            if state.tier() != Some(TierId::FAST) || state.is_in_flight() {
                continue;
            }
            if self.spared.contains(page.0) {
                self.spared.remove(page.0);
                continue;
            }
            found += u64::from(run.pages);
            match runs.last_mut() {
                Some(last) if last.end() == run.start.0 && page.offset() != 0 => {
                    last.pages += run.pages;
                }
                _ => runs.push(run),
            }
        }
        looked_at
    }

    /// Pages out a few pages at random: who comes back is in use.
    pub(super) fn probe(&mut self, passed: Nanos) -> Result<(), DriverError> {
        let swap = self.places.0.get(1) == Some(&Place::Swap);
        if !self.wants_samples || !swap || self.options.dry_run || self.map.pages() == 0 {
            return Ok(());
        }
        let fast = self.engine.view().used(TierId::FAST).0 as f64;
        self.probe_credit += fast * PROBED_SHARE * passed.as_secs_f64();
        self.probe_credit = self.probe_credit.min(1024.0);
        if self.probe_credit < 16.0 || !self.pacer.allows() {
            return Ok(());
        }
        let mut runs = Vec::new();
        for _ in 0..self.probe_credit as u64 {
            let page = PageId(self.rng.below(u64::from(self.map.pages())) as u32);
            let state = self.engine.view().state(page);
            let plain = !state.is_in_flight() && !state.is_huge();
            if plain && state.tier() == Some(TierId::FAST) {
                runs.push(PageRun::single(page));
            }
        }
        self.probe_credit = 0.0;
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup();
        self.demote(&runs, Purpose::Probe)?;
        Ok(())
    }
}
