//! What is touched: sources are asked, told what to look at, and their cost is reported.

use super::Driver;
use crate::error::DriverError;
use crate::source::{Touch, TouchKind};
use frostline_core::event::{Event, Fault, MoveCause, Sample, SampleKind};
use frostline_core::types::*;

impl Driver {
    pub(super) fn listen(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let mut touches: Vec<Touch> = Vec::new();
        for source in &mut self.sources {
            source.poll(&self.root, &mut |touch| touches.push(touch))?;
        }
        for touch in touches {
            let process = ProcessId(touch.pid);
            let Some(page) = self.map.page(process, touch.page) else { continue };
            self.scans.touched(page);
            let Some(tier) = self.engine.view().state(page).tier() else { continue };
            let kind = match touch.kind {
                TouchKind::Sample(kind) => kind,
                TouchKind::Refault => {
                    self.spared.insert(page.0);
                    self.accounts.refaults += 1;
                    if !self.places.is_direct(tier) {
                        let run = PageRun::single(page);
                        events.push(Event::Fault(Fault { page, tier, write: false, process }));
                        let cause = MoveCause::Refault;
                        events.push(Event::Moved { run, to: TierId::FAST, cause });
                    }
                    SampleKind::LoadMiss
                }
            };
            if self.wants_samples {
                events.push(Event::Sample(Sample { page, kind, tier, process }));
            }
        }
        let view = self.engine.view();
        self.scans.tell(|page| view.state(page), events);
        let lost: u64 = self.sources.iter().map(|source| source.stats().lost).sum();
        if lost > self.lost {
            events.push(Event::SamplesLost { count: lost - self.lost });
            self.lost = lost;
        }
        Ok(())
    }

    /// Gives sources that look at a part of the pages another part: evenly spread, from another
    /// page on each time.
    pub(super) fn assign(&mut self) -> Result<(), DriverError> {
        if self.scans.is_busy() {
            return self.look();
        }
        if !self.wants_samples {
            return Ok(());
        }
        let pages = u64::from(self.map.pages());
        for source in &mut self.sources {
            let wanted = source.wants_pages(self.now) as u64;
            if wanted == 0 || pages == 0 {
                continue;
            }
            let step = pages.div_ceil(wanted).max(2);
            let first = self.rng.below(step);
            let view = self.engine.view();
            let chosen = (0..pages / step).filter_map(|i| {
                let page = PageId((first + i * step) as u32);
                let tier = view.state(page).tier()?;
                let (process, vpn) = self.map.place(page)?;
                self.places.is_direct(tier).then_some((process.0, vpn))
            });
            let chosen: Vec<(u32, Vpn)> = chosen.collect();
            source.watch(self.now, &chosen)?;
        }
        Ok(())
    }

    /// Has a source look at pages of which the policy wants to know whether they are used.
    fn look(&mut self) -> Result<(), DriverError> {
        for source in &mut self.sources {
            // A source asks for some more than it looks at.
            let most = source.wants_pages(self.now) * 4 / 5;
            if most == 0 {
                continue;
            }
            let (view, map, places) = (self.engine.view(), &self.map, &self.places);
            let owner = |page| {
                let tier = view.state(page).tier().filter(|tier| places.is_direct(*tier));
                tier.and_then(|_| Some(map.place(page)?.0))
            };
            let pages = self.scans.next(most, |page| view.state(page), owner);
            let places = pages.iter().filter_map(|page| map.place(*page));
            let places: Vec<(u32, Vpn)> = places.map(|(process, vpn)| (process.0, vpn)).collect();
            source.watch(self.now, &places)?;
            break;
        }
        Ok(())
    }

    /// Sizes of tiers, and what sampling costs.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let view = self.engine.view();
        self.footprint = view.resident().bytes();
        let fast = self.options.fast.bytes(self.footprint).pages();
        let mut usage = |tier: TierId, capacity: PageCount| {
            if view.limits(tier).capacity != capacity {
                events.push(Event::TierUsage { tier, capacity });
            }
        };
        usage(TierId::FAST, fast);
        for (index, place) in self.places.0.iter().enumerate().skip(1) {
            let tier = TierId(index as u8);
            let free = crate::place::free(&self.root, *place)?.pages();
            usage(tier, view.used(tier).saturating_add(free));
        }
        let cpu: Nanos = Nanos(self.sources.iter().map(|source| source.stats().cpu.0).sum());
        let (at, before) = std::mem::replace(&mut self.reported_cpu, (self.now, cpu));
        let (wall, sampler) = (self.now.saturating_sub(at), cpu.saturating_sub(before));
        events.push(Event::CpuUsage { wall, sampler });
        Ok(())
    }
}
