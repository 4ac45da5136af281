//! What a driver moves on its own account: to keep the limits, and to learn who comes back.

use super::moving::{Demoted, Purpose};
use super::{AUDIT_PART, Driver, MOVE_PAGES, Options};
use crate::clock;
use crate::error::DriverError;
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
        for index in (0..self.reclaimers.len()).rev() {
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
        let reclaimer = &mut self.reclaimers[tier.index()];
        if left == 0 || self.options.slow.is_empty() || self.options.dry_run {
            reclaimer.reset();
            return Ok(());
        }
        if !reclaimer.is_due(self.now, grace) {
            return Ok(());
        }
        let to = tier.slower();
        let mut looked_at = 0;
        while left > 0 && self.pacer.allows() && looked_at <= 2 * u64::from(self.map.pages()) {
            let view = self.engine.view();
            let room = view.free(to).0;
            let wanted = left.min(u64::from(MOVE_PAGES)).min(room);
            let mut runs: Vec<PageRun> = Vec::new();
            let reclaimer = &mut self.reclaimers[tier.index()];
            let referenced = &mut self.referenced;
            let pass = reclaimer.pass(&view, tier, (wanted, room), referenced, |unit| {
                match runs.last_mut() {
                    Some(last) if last.end() == unit.start.0 && unit.start.offset() != 0 => {
                        last.pages += unit.pages;
                    }
                    _ => runs.push(unit),
                }
            });
            self.pacer.charge(clock::thread_cpu());
            looked_at += pass.looked_at;
            let done = match pass.taken {
                0 => Demoted { moved: 0, no_space: room == 0 },
                _ => self.demote(&runs, to, Purpose::Limit)?,
            };
            left = left.saturating_sub(done.moved);
            let (reclaimer, pages) =
                (&mut self.reclaimers[tier.index()], u64::from(self.map.pages()));
            if !reclaimer.note(self.now, pages, pass, done.moved, done.no_space) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// For how long fast memory has been exceeded by more than 2 %.
    pub(crate) fn over_limit(&self) -> Nanos {
        self.settling_since.map_or(Nanos::ZERO, |since| self.now.saturating_sub(since))
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
