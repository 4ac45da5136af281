//! Pages whose next touch a policy wants to know, or to act on: in swap space they fault by
//! themselves, elsewhere [`NextTouch`] takes them out of their places, where the driver lives in
//! the program.

use super::{Driver, MOVE_PAGES, Purpose};
use crate::clock;
use crate::error::DriverError;
use crate::journal::Entry;
use crate::place::Place;
use frostline_core::action::Action;
use frostline_core::event::{Event, Fault, MoveCause, MoveOutcome};
use frostline_core::placement::PageState;
use frostline_core::policy::FaultDecision;
use frostline_core::types::*;
use frostline_linux::next_touch::{Destination, MOST_PAGES, NextTouch};
use frostline_linux::span::{Span, difference};

/// All of an address space.
const EVERYWHERE: Span = Span::between(Vpn(0), Vpn(u64::MAX));

impl Driver {
    /// Takes pages out that the policy has armed, from now on. Its only target is this process.
    pub(crate) fn arm_by(&mut self, next_touch: NextTouch) {
        self.next_touch = Some(next_touch);
    }

    fn this_process() -> ProcessId {
        ProcessId(std::process::id())
    }

    /// Arms what is next in the queue.
    pub(super) fn arm_next(&mut self, first: PageRun) {
        let (mut runs, mut pages) = (vec![first], first.pages);
        while let Some(&Action::Arm { run, .. }) = self.queue.front()
            && pages < MOVE_PAGES
        {
            self.queue.pop();
            pages += run.pages;
            runs.push(run);
        }
        self.arm(&runs);
    }

    /// Takes out those of some pages that the engine has as armed. What is in flight has its time
    /// when it has arrived.
    pub(super) fn arm(&mut self, runs: &[PageRun]) {
        let Some(next_touch) = self.next_touch.as_ref().filter(|_| !runs.is_empty()) else {
            return;
        };
        let view = self.engine.view();
        let (process, watched) = (Self::this_process(), self.watched.get(&std::process::id()));
        // As it is now: who takes out what it needs itself waits for ever.
        let own = self.own_memory();
        let is_theirs = |mapping: &Span| difference(&[*mapping], &own) == [*mapping];
        let mut spans: Vec<(Span, Span)> = Vec::new();
        for page in runs.iter().flat_map(|run| run.iter()) {
            let state = view.state(page);
            let at_rest = state.is_armed() && !state.is_in_flight() && !state.is_huge();
            let direct = state.tier().is_some_and(|tier| self.places.is_direct(tier));
            let place = self.map.place(page).filter(|(id, _)| *id == process && at_rest && direct);
            let Some((_, vpn)) = place else { continue };
            match spans.last_mut() {
                Some((span, mapping)) if span.end() == vpn && mapping.contains(vpn) => {
                    span.pages += 1;
                }
                _ => {
                    let mapping = watched.and_then(|watched| watched.separate_mapping(vpn));
                    let mapping = mapping.filter(is_theirs);
                    spans.extend(mapping.map(|mapping| (Span::single(vpn), mapping)));
                }
            }
        }
        if !spans.is_empty() {
            self.accounts.armed += next_touch.take_out(&spans);
        }
    }

    /// Puts pages back, untouched.
    pub(super) fn disarm(&mut self, run: PageRun) {
        let Some(next_touch) = &self.next_touch else { return };
        let mut next = run.start.0;
        while next < run.end() {
            let part = PageId(next).region().run().intersect(run);
            next = part.end();
            if let Some((process, vpn)) = self.map.place(part.start)
                && process == Self::this_process()
            {
                next_touch.put_back(Span::new(vpn, part.pages.into()));
            }
        }
    }

    /// Pages of a span that are not where page tables are looked into.
    pub(super) fn pages_out(&self, pid: u32, span: Span) -> Vec<Vpn> {
        let next_touch = self.next_touch.as_ref().filter(|_| pid == std::process::id());
        next_touch.map_or_else(Vec::new, |next_touch| next_touch.pages_out(span))
    }

    /// Tells which pages were touched, and moves those that the policy wants elsewhere.
    pub(super) fn hear_touches(&mut self, events: &mut Vec<Event>) -> Result<(), DriverError> {
        let Some(next_touch) = &mut self.next_touch else { return Ok(()) };
        let (touches, lost) = next_touch.touched();
        let touches = touches.to_vec();
        if lost > 0 {
            events.push(Event::SamplesLost { count: lost });
        }
        let (process, mut late) = (Self::this_process(), Vec::new());
        for touch in touches {
            let Some(page) = self.map.page(process, touch.page) else { continue };
            let Some(tier) = self.engine.view().state(page).tier() else { continue };
            self.accounts.armed_touched += 1;
            self.referenced.insert(page.0);
            let fault = Fault { page, tier, write: touch.write, process, thread: 0 };
            let decision = self.engine.on_fault(self.now, &fault);
            if let Some(journal) = &mut self.journal {
                journal.write(&Entry::Fault(self.now, fault))?;
            }
            events.push(Event::Fault(fault));
            let run = PageRun::single(page);
            if touch.moved {
                self.account(Purpose::Policy, TierId::FAST).count(1, MoveOutcome::Moved);
                self.arrivals[TierId::FAST.index()].count(1, MoveOutcome::Moved);
                self.accounts.moved_at_touch += 1;
                let cause = MoveCause::FaultDecision;
                events.push(Event::Moved { run, to: TierId::FAST, cause });
            } else if decision == FaultDecision::MoveHere(TierId::FAST) {
                late.push(run);
            }
        }
        // There was no room when they were touched.
        if !late.is_empty() && self.pacer.allows() {
            late.sort_unstable_by_key(|run| run.start);
            for (run, outcome) in self.migrate(&late, TierId::FAST, Purpose::Policy)? {
                if outcome == MoveOutcome::Moved {
                    let cause = MoveCause::FaultDecision;
                    events.push(Event::Moved { run, to: TierId::FAST, cause });
                }
            }
        }
        self.pacer.charge(clock::thread_cpu());
        Ok(())
    }

    /// Says where touched pages go, and how much room there is.
    pub(super) fn allow_moves_at_touch(&self) {
        let Some(next_touch) = &self.next_touch else { return };
        let view = self.engine.view();
        let to = self.engine.facts().touched_to;
        let destination = to.filter(|_| !self.options.dry_run).and_then(|tier| {
            let Place::Node(node) = self.places.tiers[tier.index()] else { return None };
            let room = view.free(tier).saturating_sub(view.limits(tier).keep_free).0;
            Some(Destination { node, room })
        });
        next_touch.set_destination(destination);
    }

    /// Once a second: takes out what is armed and was put back meanwhile, by a fork for instance.
    pub(super) fn arm_again(&mut self) {
        let Some(next_touch) = &self.next_touch else { return };
        next_touch.tend();
        let out = next_touch.pages_out(EVERYWHERE);
        let process = Self::this_process();
        let is_out = |page: PageId| {
            let place = self.map.place(page).filter(|(id, _)| *id == process);
            place.is_some_and(|(_, vpn)| out.binary_search(&vpn).is_ok())
        };
        let room = MOST_PAGES.saturating_sub(out.len());
        let states = self.engine.view().states().iter().enumerate();
        let armed = states
            .filter(|(_, state)| PageState(**state).is_armed())
            .map(|(page, _)| PageId(page as u32))
            .filter(|page| !is_out(*page));
        let runs: Vec<PageRun> = armed.take(room).map(PageRun::single).collect();
        self.arm(&runs);
        self.pacer.charge(clock::thread_cpu());
    }
}
