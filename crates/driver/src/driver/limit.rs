//! What a driver moves on its own account: to keep the limits, and to learn who comes back.

use super::moving::{Demoted, Purpose};
use super::{AUDIT_PART, Driver, MOVE_PAGES, Options};
use crate::clock;
use crate::error::DriverError;
use frostline_core::daemon::Patience;
use frostline_core::types::*;

/// Pages paged out at random per second to see who comes back: this share of the fast tier.
const PROBED_SHARE: f64 = 1.0 / 600.0;
/// A footprint that exceeds its limit by this share is still settling.
const SETTLING: f64 = 1.02;
/// For so long, the larger share of a core is ours: what has not settled by then does not.
const SETTLES: Nanos = Nanos(60_000_000_000);
/// Part of a tier between others that is kept free, so that there is room for what comes from
/// above.
const KEPT_PART: u64 = 64;
/// Largest part of it that is made free in advance where a faster tier exceeds its limit.
const COMING_PART: u64 = 16;

/// What is known about keeping one tier within its limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keeper {
    hand: u32,
    patience: Patience,
    /// Pages that the hand has passed since the patience was last put to the test.
    passed: u64,
    over_since: Option<Nanos>,
}

impl Driver {
    /// Makes room where the program has outgrown a limit and the policy has not: pages that have
    /// not been seen lately go to the next tier, in turn.
    pub(super) fn keep_limits(&mut self) -> Result<(), DriverError> {
        let view = self.engine.view();
        let grace = self.growth.grace(self.now, view.resident().0);
        let limit = view.limits(TierId::FAST).capacity.0;
        let settled = view.used(TierId::FAST).0 as f64 <= limit as f64 * SETTLING;
        self.settling_since = if settled { None } else { self.settling_since.or(Some(self.now)) };
        let settling = !settled && self.over_limit() < SETTLES;
        let Options { cpu_share, settling_cpu_share, .. } = self.options;
        let share = if settling { settling_cpu_share.max(cpu_share) } else { cpu_share };
        // The audit's part is everybody's while it rests.
        let audit = if self.rounds.allows(self.now) { cpu_share * AUDIT_PART } else { 0.0 };
        self.pacer.set_share(share - audit);
        // The slowest first: what leaves it makes room for what comes from above.
        for index in (0..self.keepers.len()).rev() {
            self.keep_limit(TierId(index as u8), grace)?;
        }
        Ok(())
    }

    /// Pages that must leave a tier. Where there is a faster one, that shall find room.
    fn excess(&self, tier: TierId) -> u64 {
        let view = self.engine.view();
        let Some(faster) = tier.0.checked_sub(1).map(TierId) else {
            let leaving = view.reserved(tier.slower());
            return view.over(tier).saturating_sub(leaving).0;
        };
        let capacity = view.limits(tier).capacity.0;
        let coming = view.over(faster).0.min(capacity / COMING_PART);
        let coming = coming.max(view.reserved(tier).0).max(capacity / KEPT_PART);
        (view.used(tier).0 + coming).saturating_sub(capacity)
    }

    fn keep_limit(&mut self, tier: TierId, grace: Nanos) -> Result<(), DriverError> {
        let mut left = self.excess(tier);
        let keeper = &mut self.keepers[tier.index()];
        if left == 0 || self.options.slow.is_empty() || self.options.dry_run {
            (keeper.over_since, keeper.patience) = (None, Patience::default());
            return Ok(());
        }
        let since = *keeper.over_since.get_or_insert(self.now);
        if self.now.saturating_sub(since) < grace || !keeper.patience.allows(self.now) {
            return Ok(());
        }
        let to = tier.slower();
        let mut looked_at = 0;
        while left > 0 && self.pacer.allows() && looked_at <= 2 * u64::from(self.map.pages()) {
            let room = self.engine.view().free(to).0;
            let mut runs = Vec::new();
            let wanted = left.min(u64::from(MOVE_PAGES)).min(room);
            let passed = self.pick_victims(tier, wanted, room, &mut runs);
            self.pacer.charge(clock::thread_cpu());
            looked_at += passed;
            let tried: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
            let done = match tried {
                0 => Demoted { moved: 0, no_space: room == 0 },
                _ => self.demote(&runs, to, Purpose::Limit)?,
            };
            left = left.saturating_sub(done.moved);
            let keeper = &mut self.keepers[tier.index()];
            // A full tier is in vain, whether the kernel was asked or not.
            keeper.patience.note(tried.max(u64::from(room == 0)), done.moved);
            // A round over all pages, or a full tier, shows that it is in vain.
            keeper.passed += passed;
            if done.no_space || keeper.passed > u64::from(self.map.pages()) {
                keeper.passed = 0;
                if !keeper.patience.conclude(self.now) {
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

    /// Goes round over all pages from the tier's hand on until enough are found or eight regions'
    /// worth has been looked at; pages that were seen since the hand last passed get another
    /// round. No more than `room` pages. Returns how many pages were looked at.
    fn pick_victims(
        &mut self,
        tier: TierId,
        wanted: u64,
        room: u64,
        runs: &mut Vec<PageRun>,
    ) -> u64 {
        let pages = self.map.pages();
        let hand = &mut self.keepers[tier.index()].hand;
        let (mut found, mut looked_at) = (0, 0);
        while found < wanted && looked_at < 8 * u64::from(HUGE_PAGES) && pages > 0 {
            if *hand >= pages {
                *hand = 0;
            }
            let page = PageId(*hand);
            let state = self.engine.view().state(page);
            let run = if state.is_huge() { page.region().run() } else { PageRun::single(page) };
            *hand = run.end();
            looked_at += u64::from(run.pages);
            let fits = found + u64::from(run.pages) <= room;
            if state.tier() != Some(tier) || state.is_in_flight() || !fits {
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
        let Some(swap) = self.places.swap().filter(|_| self.probes) else { return Ok(()) };
        if self.options.slow.is_empty() || self.options.dry_run || self.map.pages() == 0 {
            return Ok(());
        }
        let view = self.engine.view();
        let room = view.free(swap).0 as usize;
        let direct = view.resident().saturating_sub(view.used(swap)).0 as f64;
        self.probe_credit += direct * PROBED_SHARE * passed.as_secs_f64();
        self.probe_credit = self.probe_credit.min(1024.0);
        if self.probe_credit < 16.0 || !self.pacer.allows() {
            return Ok(());
        }
        let mut runs = Vec::new();
        for _ in 0..self.probe_credit as u64 {
            let page = PageId(self.rng.below(u64::from(self.map.pages())) as u32);
            let state = self.engine.view().state(page);
            let plain = !state.is_in_flight() && !state.is_huge();
            if plain && state.tier().is_some_and(|tier| tier != swap) {
                runs.push(PageRun::single(page));
            }
        }
        self.probe_credit = 0.0;
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup();
        runs.truncate(room);
        self.demote(&runs, swap, Purpose::Probe)?;
        Ok(())
    }
}
