//! Observer of touches: assigns spans to watchers, and reports to the engine what they saw.

use crate::ages::Ages;
use crate::answers::Answers;
use crate::arming;
use crate::context::Cx;
use crate::rotation::Rotation;
use crate::scans::Scans;
use crate::settings::Settings;
use crate::system::{Assignment, Drawn, Sampled, System, Touch, TouchKind};
use alloc::vec;
use alloc::vec::Vec;
use frostline_core::event::{Event, Fault, MoveCause, Sample, SampleKind};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::types::*;

/// Pages about which a policy is told in one step, at most, where nobody has to look.
const MOST_ANSWERED: usize = 4096;

/// Pages that are out for so long have left for good, as it seemed.
const SETTLED: Nanos = Nanos(5_000_000_000);

/// See the module.
pub(crate) struct Observer {
    pub(crate) scans: Scans,
    /// What each watcher has looked at.
    rotations: Vec<Rotation>,
    /// Where touches that are seen anyway stand for access bits.
    answers: Option<Answers>,
    /// Pages that came back since the last sweep over access bits, which it finds set.
    fresh: Bitmap,
    /// Faults that the policy wants to know of, and is not told yet.
    hinted: Vec<Fault>,
    /// Samples that were lost, as was told.
    lost: u64,
    /// When costs were told, and of what processor time.
    told_cpu: (Nanos, Nanos),
    /// Pages that were touched, for others who want to know.
    touch_log: Option<Vec<Vpn>>,
}

impl Observer {
    /// Nothing was seen yet.
    pub(crate) fn new(settings: &Settings, watchers: usize) -> Self {
        Self {
            scans: Scans::default(),
            rotations: vec![Rotation::default(); watchers],
            answers: settings.answers.then(Answers::default),
            fresh: Bitmap::default(),
            hinted: Vec::new(),
            lost: 0,
            told_cpu: (Nanos::ZERO, Nanos::ZERO),
            touch_log: None,
        }
    }

    /// Whether what is seen is kept until it is taken.
    pub(crate) fn set_touch_log(&mut self, on: bool) {
        match on {
            true => drop(self.touch_log.get_or_insert_default()),
            false => self.touch_log = None,
        }
    }

    /// Pages that were touched since the last time.
    pub(crate) fn take_touch_log(&mut self) -> Vec<Vpn> {
        self.touch_log.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Takes in what was touched.
    pub(crate) fn listen<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        referenced: &mut Bitmap,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        let mut touches = Vec::new();
        cx.system.poll(&mut touches)?;
        if let Some(touch_log) = &mut self.touch_log {
            touch_log.extend(touches.iter().map(|touch| touch.page));
        }
        for touch in touches {
            self.hear(cx, touch, referenced, events);
        }
        arming::hinted(cx, core::mem::take(&mut self.hinted), events)?;
        let view = cx.ledger.engine.view();
        self.scans.tell(|page| view.state(page), events);
        let lost = cx.system.sampling().lost;
        if lost > self.lost {
            events.push(Event::SamplesLost { count: lost - self.lost });
            self.lost = lost;
        }
        Ok(())
    }

    fn hear<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        touch: Touch,
        referenced: &mut Bitmap,
        events: &mut Vec<Event>,
    ) {
        let process = ProcessId(touch.pid);
        let Some(page) = cx.ledger.map.page(process, touch.page) else { return };
        self.scans.touched(page);
        cx.ledger.heat.touched(page);
        if let Some(ages) = &mut cx.ledger.ages
            && matches!(touch.kind, TouchKind::Accessed(_) | TouchKind::Refault)
        {
            ages.touched(cx.now, page, touch.kind != TouchKind::Refault);
        }
        let Some(tier) = cx.ledger.engine.view().state(page).tier() else { return };
        referenced.insert(page.0);
        if let Some(answers) = &mut self.answers {
            answers.touched(page);
            if let TouchKind::Accessed(interval) = touch.kind {
                answers.found(cx.now, page, interval);
            }
        }
        let is_huge = cx.ledger.engine.view().state(page).is_huge();
        let (accounts, slow) = (&mut cx.ledger.accounts, &mut cx.ledger.slow_touches);
        let direct = cx.settings.is_direct(tier);
        let mut gap_ms = None;
        let Sampled { kind, missed, walked } = match touch.kind {
            TouchKind::Sample(sampled) => {
                accounts.sampled += 1;
                accounts.sampled_fast += u64::from(tier == TierId::FAST);
                if tier != TierId::FAST && direct {
                    slow.bit();
                }
                if sampled.kind == SampleKind::LoadMiss && sampled.missed != Some(false) {
                    cx.ledger.counted[usize::from(tier != TierId::FAST)] += 1;
                }
                sampled
            }
            TouchKind::Accessed(before) => {
                cx.ledger.bits += 1;
                if cx.settings.swap.is_some() {
                    cx.ledger.exposures.get_or_insert_default();
                }
                if tier != TierId::FAST && direct {
                    if cx.system.sees_slower_tiers() {
                        return;
                    }
                    slow.swept(page, before);
                }
                if self.fresh.contains(page.0) {
                    self.fresh.remove(page.0);
                    return;
                }
                accounts.sampled += 1;
                accounts.sampled_fast += u64::from(tier == TierId::FAST);
                SampleKind::LoadMiss.into()
            }
            TouchKind::Fault if tier == TierId::FAST || !direct => return,
            TouchKind::Fault => {
                accounts.hint_faults += 1;
                slow.fault(page, is_huge);
                if cx.settings.hinted {
                    self.hinted.push(Fault { page, tier, write: false, process, thread: 0 });
                }
                SampleKind::LoadMiss.into()
            }
            TouchKind::Refault => {
                accounts.refaults += 1;
                self.fresh.insert(page.0);
                if !direct {
                    let exposures = cx.ledger.exposures.as_mut();
                    let touched = exposures.and_then(|exposures| exposures.touched(cx.now, page));
                    // Whose touches are seen in memory as well are counted.
                    gap_ms = touched.map(|touched| touched.gap_ms).filter(|_| cx.settings.probes);
                    let is_late = touched.is_none_or(|touched| touched.after >= SETTLED);
                    cx.ledger.late_refaults += u64::from(is_late);
                    let run = PageRun::single(page);
                    let fault = Fault { page, tier, write: false, process, thread: 0 };
                    events.push(Event::Fault(fault));
                    let cause = MoveCause::Refault;
                    events.push(Event::Moved { run, to: TierId::FAST, cause });
                }
                SampleKind::LoadMiss.into()
            }
        };
        if cx.settings.wants_samples {
            events.push(Event::Sample(Sample {
                page,
                kind,
                tier,
                process,
                missed,
                walked,
                gap_ms,
            }));
        }
    }

    /// Gives watchers other pages.
    pub(crate) fn assign<S: System>(&mut self, cx: &mut Cx<'_, S>) -> Result<(), S::Error> {
        if self.scans.is_busy() {
            return self.look(cx);
        }
        if !cx.settings.wants_samples {
            return Ok(());
        }
        let only_fast = cx.system.sees_slower_tiers();
        let view = cx.ledger.engine.view();
        let drawn = if only_fast { Drawn::FromFast } else { Drawn::FromAll };
        let counts = |tier: TierId| match only_fast {
            true => tier == TierId::FAST,
            false => cx.settings.is_direct(tier),
        };
        let tiers = (0..cx.settings.tiers.len()).map(|tier| TierId(tier as u8));
        let of: u64 = tiers.filter(|tier| counts(*tier)).map(|tier| view.used(tier).0).sum();
        for (watcher, rotation) in self.rotations.iter_mut().enumerate() {
            let wanted = cx.system.wants_pages(watcher, cx.now);
            if wanted == 0 || of == 0 {
                continue;
            }
            let pages = rotation.next(cx.ledger.map.pages().into(), of, wanted, |page| {
                let page = PageId(page as u32);
                let tier = view.state(page).tier()?;
                let (process, vpn) = cx.ledger.map.place(page)?;
                counts(tier).then_some((process.0, vpn))
            });
            cx.ledger.slow_touches.assign(cx.now, pages.len() as u64, of);
            cx.system.watch(watcher, cx.now, Assignment { pages: &pages, of, drawn })?;
        }
        Ok(())
    }

    /// Has a watcher look at pages of which the policy wants to know whether they are used.
    fn look<S: System>(&mut self, cx: &mut Cx<'_, S>) -> Result<(), S::Error> {
        if self.answers.is_some() {
            self.answer(cx);
            return Ok(());
        }
        for watcher in 0..self.rotations.len() {
            let most = cx.system.wants_pages(watcher, cx.now);
            if most == 0 {
                continue;
            }
            let pages = self.asked(cx, most);
            let places = pages.iter().filter_map(|page| cx.ledger.map.place(*page));
            let places: Vec<(u32, Vpn)> = places.map(|(process, vpn)| (process.0, vpn)).collect();
            let of = places.len() as u64;
            let assigned = Assignment { pages: &places, of, drawn: Drawn::Asked };
            return cx.system.watch(watcher, cx.now, assigned);
        }
        Ok(())
    }

    /// Answers by what was seen, which takes no time.
    fn answer<S: System>(&mut self, cx: &Cx<'_, S>) {
        let asked = self.asked(cx, MOST_ANSWERED);
        let Some(answers) = &mut self.answers else { return };
        for page in asked {
            if answers.is_accessed(cx.now, page) {
                self.scans.touched(page);
            }
        }
    }

    /// Pages about which the policy asks next, at most so many.
    fn asked<S: System>(&mut self, cx: &Cx<'_, S>, most: usize) -> Vec<PageId> {
        let (view, map) = (cx.ledger.engine.view(), &cx.ledger.map);
        let owner = |page| {
            let tier = view.state(page).tier().filter(|tier| cx.settings.is_direct(*tier));
            tier.and_then(|_| Some(map.place(page)?.0))
        };
        self.scans.next(most, |page| view.state(page), owner)
    }

    /// What sampling costs, and what it has counted.
    pub(crate) fn report<S: System>(&mut self, cx: &mut Cx<'_, S>, events: &mut Vec<Event>) {
        cx.ledger.heat.second();
        let sampling = cx.system.sampling();
        let (at, before) = core::mem::replace(&mut self.told_cpu, (cx.now, sampling.cpu));
        if cx.ledger.ages.is_none()
            && let Some(swept) = sampling.swept.filter(|swept| swept.times > 0)
        {
            cx.ledger.ages = Some(Ages::new(cx.now, &cx.ledger.engine.view(), swept));
        }
        let (wall, sampler) = (cx.now.saturating_sub(at), sampling.cpu.saturating_sub(before));
        events.push(Event::CpuUsage { wall, sampler });
        if cx.settings.counts {
            let [fast, slow] = core::mem::take(&mut cx.ledger.counted);
            events.push(Event::Counters { fast, slow });
        }
    }
}
