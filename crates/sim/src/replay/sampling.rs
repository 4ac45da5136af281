//! Sampling of accesses, and what it costs.

use super::injection::Chance;
use super::setup::Setup;
use super::time::{Time, Wait};
use crate::sampler::Countdown;
use frostline_core::event::{Event, SampleKind};
use frostline_core::rng::Rng;
use frostline_core::types::*;
use frostline_daemon::{Touch, TouchKind};
use frostline_trace::Column;

/// A trace holds every 997th retired store.
const STORES_PER_SAMPLE: u64 = 997;

/// Sums over the run, times in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct SamplingSums {
    pub(super) samples: u64,
    /// Samples of pages that are not there.
    pub(super) absent: u64,
    pub(super) sampler_cpu: f64,
    pub(super) policy_cpu: f64,
    pub(super) assist: f64,
}

/// The samplers, and what they found that nobody has been told of.
#[derive(Debug)]
pub(super) struct Sampling {
    pub(super) loads: Countdown,
    pub(super) stores: Countdown,
    thinning: u32,
    /// Share of its first period that a sampler has behind it when it is switched on. Seed 1 has none;
    /// others differ by it, so that repetitions of a recorded trace are not one and the same run.
    phase: f64,
    lost: Chance,
    /// Lost samples that the engine has not been told of.
    unsaid_lost: u64,
    /// Where a daemon takes the samples: those that it has not asked for yet, and lost ones.
    daemon: Option<(Vec<Touch>, u64)>,
    /// The sampler's processor time since it was last reported.
    usage_ns: f64,
    usage_since_ns: f64,
    pub(super) sums: SamplingSums,
}

impl Sampling {
    pub(super) fn new(setup: &Setup<'_>, lost: Rng) -> Self {
        let seed = setup.options.seed;
        let mut dice = Rng::new(seed);
        let phase = if seed == 1 { 0.0 } else { dice.unit_f64() };
        let many = setup.machine.cpu.lanes > 1;
        let mut counters = || Countdown::new(many.then(|| dice.fork()));
        Self {
            loads: counters(),
            stores: counters(),
            thinning: setup.thinning,
            phase,
            lost: Chance::new(setup.options.faults.lost_samples, lost),
            unsaid_lost: 0,
            daemon: setup.is_hosted().then(|| (Vec::new(), 0)),
            usage_ns: 0.0,
            usage_since_ns: 0.0,
            sums: SamplingSums::default(),
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.struck
    }

    /// Takes every `period`-th event of a kind; 0 takes none.
    pub(super) fn set_period(&mut self, kind: SampleKind, period: u32) {
        let events = match kind {
            SampleKind::LoadMiss => u64::from(self.thinning),
            SampleKind::Store => STORES_PER_SAMPLE,
        };
        let period = u64::from(period);
        let records = if period == 0 { 0 } else { ((period + events / 2) / events).max(1) };
        let sampler = match kind {
            SampleKind::LoadMiss => &mut self.loads,
            SampleKind::Store => &mut self.stores,
        };
        let begins = !sampler.is_on();
        sampler.set_period(records);
        if begins {
            sampler.skip(self.phase);
        }
    }

    /// Whether the sample that has just been taken is lost.
    pub(super) fn is_lost(&mut self) -> bool {
        let lost = self.lost.strikes();
        match &mut self.daemon {
            Some((_, unasked)) => *unasked += u64::from(lost),
            None => self.unsaid_lost += u64::from(lost),
        }
        lost
    }

    /// Hands a touch of a page to the daemon; false where there is none.
    pub(super) fn see(
        &mut self,
        kind: TouchKind,
        address: impl FnOnce() -> (ProcessId, Vpn),
    ) -> bool {
        let Some((touches, _)) = &mut self.daemon else { return false };
        let (process, page) = address();
        touches.push(Touch { pid: process.0, page, kind });
        true
    }

    /// Touches that the daemon has not asked for yet.
    pub(super) fn take_touches(&mut self) -> Vec<Touch> {
        self.daemon.as_mut().map(|(touches, _)| std::mem::take(touches)).unwrap_or_default()
    }

    /// Samples that a daemon has lost so far.
    pub(super) fn lost_by_daemon(&self) -> u64 {
        self.daemon.as_ref().map_or(0, |(_, lost)| *lost)
    }

    /// What is to be said of lost samples.
    pub(super) fn take_lost(&mut self) -> Option<Event> {
        let count = std::mem::take(&mut self.unsaid_lost);
        (count > 0).then_some(Event::SamplesLost { count })
    }

    /// Charges samples that were taken.
    pub(super) fn charge(&mut self, taken: u64, setup: &Setup<'_>, time: &mut Time) {
        let costs = &setup.machine.costs;
        let (assist_ns, cpu_ns) =
            (taken as f64 * costs.sample_assist_ns, taken as f64 * costs.sample_cpu_ns);
        self.sums.samples += taken;
        self.sums.assist += assist_ns;
        time.wait(Wait::Sampling, assist_ns);
        if self.daemon.is_some() {
            return;
        }
        self.sums.sampler_cpu += cpu_ns;
        self.usage_ns += cpu_ns;
        let policy_ns = taken as f64 * costs.sample_policy_ns;
        self.sums.policy_cpu += policy_ns;
        time.work(Wait::Sampling, cpu_ns + policy_ns);
    }

    /// Charges work on the policy's tables.
    pub(super) fn work(&mut self, ns: f64, time: &mut Time) {
        self.sums.policy_cpu += ns;
        time.work(Wait::Sampling, ns);
    }

    /// The sampler's processor time since the last report, where there is a sampler.
    pub(super) fn take_usage(&mut self, now_ns: f64) -> Option<Event> {
        let wall = Nanos((now_ns - self.usage_since_ns) as u64);
        let sampler = Nanos(self.usage_ns as u64);
        self.usage_since_ns = now_ns;
        self.usage_ns = 0.0;
        let on = self.loads.is_on() || self.stores.is_on();
        on.then_some(Event::CpuUsage { wall, sampler })
    }
}

/// Calls `take` with the index of each load of a batch, by the kinds of its `len` records, that a sampler
/// takes, of `loads` altogether.
/// `careful` counts one after the other.
pub(super) fn pick_loads(
    sampler: &mut Countdown,
    (kinds, len): (&Column, usize),
    loads: u64,
    careful: bool,
    mut take: impl FnMut(usize),
) {
    match kinds.constant() {
        _ if careful => {
            for i in (0..len).filter(|&i| kinds.get(i) == AccessKind::Load as u32) {
                sampler.count(1, |_| take(i));
            }
        }
        Some(kind) if kind == AccessKind::Load as u32 => {
            sampler.count(len as u64, |at| take(at as usize));
        }
        Some(_) => {}
        None => {
            let kinds = kinds.values();
            let is_load = |kind: &u32| AccessKind::from_bits(*kind as u8) == AccessKind::Load;
            let (mut seen, mut next) = (0, 0);
            sampler.count(loads, |at| {
                let more = (at + 1 - seen) as usize;
                let rest = kinds[next..].iter().enumerate().filter(|(_, k)| is_load(k));
                if let Some((ahead, _)) = rest.take(more).last() {
                    take(next + ahead);
                    next += ahead + 1;
                }
                seen = at + 1;
            });
        }
    }
}
