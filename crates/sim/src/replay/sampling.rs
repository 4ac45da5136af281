//! Samples of accesses, and what they cost.

use super::{EVENT_BATCH, Replay, Wait, events};
use frostline_core::event::{Event, Sample, SampleKind};
use frostline_core::placement::PageState;
use frostline_core::types::*;
use frostline_daemon::TouchKind;
use frostline_trace::Batch;

impl Replay<'_> {
    /// `loads` is the number of loads in the batch.
    pub(super) fn sample_loads(&mut self, batch: &Batch, loads: u64) {
        if !self.load_sampler.is_on() {
            return;
        }
        let Self {
            load_sampler, states, pending, totals, dice, process_of, hosted, walked, ..
        } = self;
        let (unsaid_lost, space) = (&mut self.unsaid_lost, &self.space);
        let lost_share = self.options.faults.lost_samples;
        let mut taken = 0;
        let mut take = |i: usize| {
            taken += 1;
            let Some(tier) = PageState(states[i]).tier() else { return };
            if lost_share > 0.0 && dice.lost.unit_f64() < lost_share {
                totals.samples_lost += 1;
                match hosted {
                    Some(hosted) => hosted.lose(),
                    None => *unsaid_lost += 1,
                }
                return;
            }
            if let Some(hosted) = hosted {
                let kind = TouchKind::Sample(SampleKind::LoadMiss);
                return hosted.see(space.address(PageId(batch.pages[i])), kind);
            }
            let stream = batch.streams.get(i) as usize;
            pending.push(Event::Sample(Sample {
                page: PageId(batch.pages[i]),
                kind: SampleKind::LoadMiss,
                tier,
                process: process_of.get(stream).copied().unwrap_or_default(),
                missed: Some(true),
                walked: walked.get(i).copied(),
            }));
        };
        match batch.kinds.constant() {
            _ if self.careful => {
                for i in (0..batch.len()).filter(|&i| batch.kind(i) == AccessKind::Load) {
                    load_sampler.count(1, |_| take(i));
                }
            }
            Some(kind) if kind == AccessKind::Load as u32 => {
                load_sampler.count(batch.len() as u64, |at| take(at as usize));
            }
            Some(_) => {}
            None => {
                let kinds = batch.kinds.values();
                let is_load = |kind: &u32| AccessKind::from_bits(*kind as u8) == AccessKind::Load;
                let (mut seen, mut next) = (0, 0);
                load_sampler.count(loads, |at| {
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
        if taken > 0 {
            self.charge_samples(taken);
        }
    }

    pub(super) fn charge_samples(&mut self, taken: u64) {
        let costs = &self.machine.costs;
        let (assist_ns, cpu_ns) =
            (taken as f64 * costs.sample_assist_ns, taken as f64 * costs.sample_cpu_ns);
        self.totals.samples += taken;
        self.totals.sampling_assist += assist_ns;
        self.wait(Wait::Sampling, assist_ns);
        if self.hosted.is_some() {
            return;
        }
        let costs = &self.machine.costs;
        self.totals.sampler_cpu += cpu_ns;
        self.usage_sampler_ns += cpu_ns;
        let policy_ns = taken as f64 * costs.sample_policy_ns;
        self.totals.policy_cpu += policy_ns;
        self.work(Wait::Sampling, cpu_ns + policy_ns);
        if self.pending.len() >= EVENT_BATCH {
            self.tell();
        }
    }

    pub(super) fn set_sampling(&mut self, kind: SampleKind, period: u32) {
        let events = match kind {
            SampleKind::LoadMiss => u64::from(self.thinning),
            // What the trace holds are every 997th retired stores.
            SampleKind::Store => events::STORES_PER_SAMPLE,
        };
        let period = u64::from(period);
        let records = if period == 0 { 0 } else { ((period + events / 2) / events).max(1) };
        match kind {
            SampleKind::LoadMiss => self.load_sampler.set_period(records),
            SampleKind::Store => self.store_sampler.set_period(records),
        }
    }
}
