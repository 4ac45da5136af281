//! What is touched: sources are asked, told what to look at, and their cost is reported.

use super::Driver;
use crate::error::DriverError;
use crate::groups::Way;
use crate::place::Place;
use crate::source::{Assignment, Touch, TouchKind};
use frostline_core::event::{Event, Fault, MoveCause, Sample, SampleKind};
use frostline_core::types::*;
use frostline_linux::groups::Ceiling;

/// Pages about which a policy is told in one step, at most, where nobody has to look.
const MOST_ANSWERED: usize = 4096;

impl Driver {
    pub(super) fn listen(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let mut touches: Vec<Touch> = Vec::new();
        for source in &mut self.sources {
            source.poll(&self.root, &mut |touch| touches.push(touch))?;
        }
        if let Some(overheard) = &mut self.overheard {
            overheard.extend(touches.iter().map(|touch| touch.page));
        }
        for touch in touches {
            let process = ProcessId(touch.pid);
            let Some(page) = self.map.page(process, touch.page) else { continue };
            self.scans.touched(page);
            let Some(tier) = self.engine.view().state(page).tier() else { continue };
            self.referenced.insert(page.0);
            if let Some(returned) = &mut self.returned {
                returned.insert(page.0);
            }
            let kind = match touch.kind {
                TouchKind::Sample(kind) => {
                    self.accounts.sampled += 1;
                    self.accounts.sampled_fast += u64::from(tier == TierId::FAST);
                    kind
                }
                TouchKind::Fault if tier == TierId::FAST || !self.places.is_direct(tier) => {
                    continue;
                }
                TouchKind::Fault => {
                    self.accounts.hint_faults += 1;
                    SampleKind::LoadMiss
                }
                TouchKind::Refault => {
                    self.accounts.refaults += 1;
                    if !self.places.is_direct(tier) {
                        let run = PageRun::single(page);
                        let fault = Fault { page, tier, write: false, process, thread: 0 };
                        events.push(Event::Fault(fault));
                        let cause = MoveCause::Refault;
                        events.push(Event::Moved { run, to: TierId::FAST, cause });
                    }
                    SampleKind::LoadMiss
                }
            };
            if self.wants_samples {
                events.push(Event::Sample(Sample::new(page, kind, tier, process)));
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

    /// Gives sources that look at a part of the pages other ones.
    pub(super) fn assign(&mut self) -> Result<(), DriverError> {
        if self.scans.is_busy() {
            return self.look();
        }
        if !self.wants_samples {
            return Ok(());
        }
        let only_fast = self.sources.iter().any(|source| source.sees_slower_tiers());
        let view = self.engine.view();
        let counts = |tier: TierId| match only_fast {
            true => tier == TierId::FAST,
            false => self.places.is_direct(tier),
        };
        let tiers = (0..self.places.tiers.len()).map(|tier| TierId(tier as u8));
        let of: u64 = tiers.filter(|tier| counts(*tier)).map(|tier| view.used(tier).0).sum();
        for (source, rotation) in self.sources.iter_mut().zip(&mut self.rotations) {
            let wanted = source.wants_pages(self.now);
            if wanted == 0 || of == 0 {
                continue;
            }
            let pages = rotation.next(self.map.pages().into(), of, wanted, |page| {
                let page = PageId(page as u32);
                let tier = view.state(page).tier()?;
                let (process, vpn) = self.map.place(page)?;
                counts(tier).then_some((process.0, vpn))
            });
            source.watch(self.now, Assignment { pages: &pages, of, only_fast })?;
        }
        Ok(())
    }

    /// Has a source look at pages of which the policy wants to know whether they are used.
    fn look(&mut self) -> Result<(), DriverError> {
        if self.returned.is_some() {
            self.look_who_returned();
            return Ok(());
        }
        for source in &mut self.sources {
            let most = source.wants_pages(self.now);
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
            let of = places.len() as u64;
            source.watch(self.now, Assignment { pages: &places, of, only_fast: false })?;
            break;
        }
        Ok(())
    }

    /// Answers by who has come back, which takes no time.
    fn look_who_returned(&mut self) {
        let (view, map, places) = (self.engine.view(), &self.map, &self.places);
        let Some(returned) = &mut self.returned else { return };
        let owner = |page| {
            let tier = view.state(page).tier().filter(|tier| places.is_direct(*tier));
            tier.and_then(|_| Some(map.place(page)?.0))
        };
        for page in self.scans.next(MOST_ANSWERED, |page| view.state(page), owner) {
            if returned.contains(page.0) {
                returned.remove(page.0);
                self.scans.touched(page);
            }
        }
    }

    /// Sizes of tiers, and what sampling costs.
    pub(super) fn report(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let view = self.engine.view();
        self.footprint = view.resident().bytes();
        let mut fast = self.options.fast.bytes(self.footprint).pages();
        let room = |way| {
            let room = self.groups.as_ref().map(|groups| groups.room(way));
            room.and_then(Ceiling::bytes).unwrap_or(Bytes::MAX).pages()
        };
        if self.places.tiers[0] == Place::Memory {
            // What is brought back counts in its group. Between nodes, that changes nothing.
            fast = fast.min(view.used(TierId::FAST).saturating_add(room(Way::In)));
        }
        let mut usage = |tier: TierId, capacity: PageCount| {
            if view.limits(tier).capacity != capacity {
                events.push(Event::TierUsage { tier, capacity });
            }
        };
        usage(TierId::FAST, fast);
        for tier in (1..self.places.tiers.len()).map(|index| TierId(index as u8)) {
            let free = self.places.free(&self.root, tier, view.used(tier))?.pages();
            let swap = self.places.swap() == Some(tier);
            let free = if swap { free.min(room(Way::Out)) } else { free };
            let limit = self.options.slow.limit(tier).map(|limit| limit.bytes(self.footprint));
            let most = limit.unwrap_or(Bytes::MAX).pages();
            usage(tier, view.used(tier).saturating_add(free).min(most));
        }
        let cpu: Nanos = Nanos(self.sources.iter().map(|source| source.stats().cpu.0).sum());
        let (at, before) = std::mem::replace(&mut self.reported_cpu, (self.now, cpu));
        let (wall, sampler) = (self.now.saturating_sub(at), cpu.saturating_sub(before));
        events.push(Event::CpuUsage { wall, sampler });
        Ok(())
    }
}
