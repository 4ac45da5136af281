//! Moves on the daemon's own account: to keep the limits, and to learn who comes back.

use crate::context::Cx;
use crate::growth::Growth;
use crate::ledger::Purpose;
use crate::moving::Relocated;
use crate::reclaim::Reclaimer;
use crate::settings::{MOVE_PAGES, Settings};
use crate::system::System;
use alloc::vec;
use alloc::vec::Vec;
use frostline_core::View;
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::rng::Rng;
use frostline_core::types::*;

/// Pages paged out at random per second to see who comes back: this share of the fast tier.
const PROBED_SHARE: f64 = 1.0 / 600.0;
/// Fewest and most pages that are paged out at once for that.
const PROBED_PAGES: [f64; 2] = [16.0, 1024.0];
/// Part of a tier between others that is kept free, so that there is room for what comes from
/// above.
const KEPT_PART: u64 = 64;
/// Largest part of it that is made free in advance where a faster tier exceeds its limit.
const COMING_PART: u64 = 16;

/// See the module.
pub(crate) struct Limits {
    /// Pages that were touched since the reclaimer last passed.
    pub(crate) referenced: Bitmap,
    /// Of each tier but the slowest.
    reclaimers: Vec<Reclaimer>,
    growth: Growth,
    rng: Rng,
    /// Pages that may be paged out at random by now.
    probe_credit: f64,
    /// Part of the usual number of those.
    pub(crate) probes: f64,
}

impl Limits {
    /// Nothing was moved yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            referenced: Bitmap::default(),
            reclaimers: vec![Reclaimer::default(); settings.tiers.len() - 1],
            growth: Growth::default(),
            rng: Rng::new(settings.seed),
            probe_credit: 0.0,
            probes: 1.0,
        }
    }

    /// Makes room where the program has outgrown a limit and the policy has not: pages that have
    /// not been seen lately go to the next tier, in turn.
    pub(crate) fn keep<S: System>(&mut self, cx: &mut Cx<'_, S>) -> Result<(), S::Error> {
        let view = cx.ledger.engine.view();
        let grace = self.growth.grace(cx.now, view.resident().0);
        let (used, limit) = (view.used(TierId::FAST), view.limits(TierId::FAST).capacity);
        cx.budget.share(cx.now, cx.settings, used.0, limit.0);
        // The slowest first: what leaves it makes room for what comes from above.
        for index in (0..self.reclaimers.len()).rev() {
            self.keep_limit(cx, TierId(index as u8), grace)?;
        }
        Ok(())
    }

    fn keep_limit<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        tier: TierId,
        grace: Nanos,
    ) -> Result<(), S::Error> {
        let mut left = excess(&cx.ledger.engine.view(), tier);
        let reclaimer = &mut self.reclaimers[tier.index()];
        if left == 0 || !cx.settings.reclaims {
            reclaimer.reset();
            return Ok(());
        }
        let to = tier.slower();
        let next = cx.ledger.engine.view();
        if !reclaimer.is_due(cx.now, grace, (next.free(to).0, next.limits(to).capacity.0)) {
            return Ok(());
        }
        let pages = u64::from(cx.ledger.map.pages());
        let mut looked_at = 0;
        while left > 0 && cx.budget.pacer.allows() && looked_at <= 2 * pages {
            let view = cx.ledger.engine.view();
            let room = view.free(to).0;
            let wanted = left.min(u64::from(MOVE_PAGES)).min(room);
            let mut runs: Vec<PageRun> = Vec::new();
            let referenced = &mut self.referenced;
            let pass = reclaimer.pass(&view, tier, (wanted, room), referenced, |unit| {
                match runs.last_mut() {
                    Some(last) if last.end() == unit.start.0 && unit.start.offset() != 0 => {
                        last.pages += unit.pages;
                    }
                    _ => runs.push(unit),
                }
            });
            cx.charge();
            looked_at += pass.looked_at;
            let done = match pass.taken {
                0 => Relocated { moved: 0, no_space: room == 0 },
                _ => cx.demote(&runs, to, Purpose::Limit)?,
            };
            left = left.saturating_sub(done.moved);
            let full = done.no_space.then(|| cx.ledger.engine.view().free(to).0);
            if !reclaimer.note(cx.now, pages, pass, done.moved, full) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Pages out a few pages at random, `passed` after the last time: who comes back is in use.
    pub(crate) fn probe<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        passed: Nanos,
    ) -> Result<(), S::Error> {
        let wants = cx.settings.probes && cx.settings.reclaims;
        let Some(swap) = cx.settings.swap.filter(|_| wants) else { return Ok(()) };
        let pages = u64::from(cx.ledger.map.pages());
        if pages == 0 {
            return Ok(());
        }
        let view = cx.ledger.engine.view();
        let room = view.free(swap).0 as usize;
        let direct = view.resident().saturating_sub(view.used(swap)).0 as f64;
        let [fewest, most] = PROBED_PAGES;
        self.probe_credit += direct * PROBED_SHARE * self.probes * passed.as_secs_f64();
        self.probe_credit = self.probe_credit.min(most);
        if self.probe_credit < fewest || !cx.budget.pacer.allows() {
            return Ok(());
        }
        let mut runs = Vec::new();
        for _ in 0..self.probe_credit as u64 {
            let page = PageId(self.rng.below(pages) as u32);
            let state = view.state(page);
            let plain = !state.is_in_flight() && !state.is_huge();
            if plain && state.tier().is_some_and(|tier| tier != swap) {
                runs.push(PageRun::single(page));
            }
        }
        self.probe_credit = 0.0;
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup();
        runs.truncate(room);
        cx.demote(&runs, swap, Purpose::Probe)?;
        Ok(())
    }
}

/// Pages that must leave a tier. Where there is a faster one, that shall find room.
fn excess(view: &View<'_>, tier: TierId) -> u64 {
    let Some(faster) = tier.0.checked_sub(1).map(TierId) else {
        let leaving = view.reserved(tier.slower());
        return view.over(tier).saturating_sub(leaving).0;
    };
    let capacity = view.limits(tier).capacity.0;
    let coming = view.over(faster).0.min(capacity / COMING_PART);
    let coming = coming.max(view.reserved(tier).0).max(capacity / KEPT_PART);
    (view.used(tier).0 + coming).saturating_sub(capacity)
}
