//! Pages whose next touch the policy wants to know, or to act on.

use crate::context::Cx;
use crate::ledger::Purpose;
use crate::settings::MOVE_PAGES;
use crate::spaces::Spaces;
use crate::system::{ArmedTouch, LogEntry, System};
use alloc::vec;
use alloc::vec::Vec;
use frostline_core::action::Action;
use frostline_core::event::{Event, Fault, MoveCause, MoveOutcome};
use frostline_core::hotness::bitmap::Bitmap;
use frostline_core::placement::PageState;
use frostline_core::policy::FaultDecision;
use frostline_core::span::Span;
use frostline_core::types::*;

/// Arms what is next in the queue.
pub(crate) fn arm_next<S: System>(cx: &mut Cx<'_, S>, spaces: &Spaces, first: PageRun) {
    let (mut runs, mut pages) = (vec![first], first.pages);
    while let Some(&Action::Arm { run, .. }) = cx.ledger.queue.front()
        && pages < MOVE_PAGES
    {
        cx.ledger.queue.pop();
        pages += run.pages;
        runs.push(run);
    }
    arm(cx, spaces, &runs);
}

/// Arms those of some pages that the engine has as armed. What is in flight has its time when
/// it has arrived. What is in swap space faults by itcx.
pub(crate) fn arm<S: System>(cx: &mut Cx<'_, S>, spaces: &Spaces, runs: &[PageRun]) {
    if cx.system.most_armed() == 0 {
        return;
    }
    let view = cx.ledger.engine.view();
    let base = runs.iter().flat_map(|run| run.iter()).filter(|page| !view.state(*page).is_huge());
    let pages: Vec<(ProcessId, Vpn)> = base.filter_map(|page| due(cx, page)).collect();
    for part in pages.chunk_by(|(one, _), (next, _)| one == next) {
        let process = part[0].0;
        let Some(space) = spaces.processes.get(&process) else { continue };
        let pages: Vec<Vpn> = part.iter().map(|(_, page)| *page).collect();
        cx.ledger.accounts.armed += cx.system.arm(process, &pages, space.spans());
    }
}

/// Where a page is that the policy has armed, is not on its way, and is accessed where it is.
fn due<S: System>(cx: &Cx<'_, S>, page: PageId) -> Option<(ProcessId, Vpn)> {
    let state = cx.ledger.engine.view().state(page);
    let direct = state.tier().is_some_and(|tier| cx.settings.is_direct(tier));
    let is_due = state.is_armed() && !state.is_in_flight() && direct;
    if is_due { cx.ledger.map.place(page) } else { None }
}

/// Touches of these pages are told no longer.
pub(crate) fn disarm<S: System>(cx: &mut Cx<'_, S>, run: PageRun) {
    if cx.system.most_armed() == 0 {
        return;
    }
    let mut next = run.start.0;
    while next < run.end() {
        let part = PageId(next).region().run().intersect(run);
        next = part.end();
        if let Some((process, vpn)) = cx.ledger.map.place(part.start) {
            cx.system.disarm(process, Span::new(vpn, part.pages.into()));
        }
    }
}

/// Drains faults of armed pages: reports the touches, and moves the pages that the policy wants elsewhere.
pub(crate) fn drain_faults<S: System>(
    cx: &mut Cx<'_, S>,
    referenced: &mut Bitmap,
    events: &mut Vec<Event>,
) -> Result<(), S::Error> {
    if cx.system.most_armed() == 0 {
        return Ok(());
    }
    let mut touches = Vec::new();
    let lost = cx.system.touched(&mut touches);
    if lost > 0 {
        events.push(Event::SamplesLost { count: lost });
    }
    let mut late = Vec::new();
    for ArmedTouch { process, page, write, moved } in touches {
        let Some(page) = cx.ledger.map.page(process, page) else { continue };
        let Some(tier) = cx.ledger.engine.view().state(page).tier() else { continue };
        cx.ledger.accounts.armed_touched += 1;
        referenced.insert(page.0);
        let fault = Fault { page, tier, write, process, thread: 0 };
        let wanted = ask(cx, fault, events)?;
        if moved {
            let (run, cause) = (PageRun::single(page), MoveCause::FaultDecision);
            cx.ledger.count(Purpose::Policy, TierId::FAST, 1, MoveOutcome::Moved);
            cx.ledger.accounts.moved_at_touch += 1;
            events.push(Event::Moved { run, to: TierId::FAST, cause });
        } else {
            // There was no room when it was touched.
            late.extend(wanted);
        }
    }
    bring_in(cx, late, events)?;
    cx.charge();
    Ok(())
}

/// Asks the policy about a touch of an armed page, and reports it; gives what it wants in the fastest tier now.
fn ask<S: System>(
    cx: &mut Cx<'_, S>,
    fault: Fault,
    events: &mut Vec<Event>,
) -> Result<Option<PageRun>, S::Error> {
    let decision = cx.ledger.engine.on_fault(cx.now, &fault);
    cx.system.record(LogEntry::Fault(cx.now, fault))?;
    events.push(Event::Fault(fault));
    let wanted = decision == FaultDecision::MoveHere(TierId::FAST);
    Ok(wanted.then(|| cx.ledger.engine.view().unit(fault.page)))
}

/// Reports faults of pages in slower tiers which they have now and then, armed or not, and moves those that the policy
/// wants elsewhere at their touch.
pub(crate) fn hinted<S: System>(
    cx: &mut Cx<'_, S>,
    faults: Vec<Fault>,
    events: &mut Vec<Event>,
) -> Result<(), S::Error> {
    let mut wanted = Vec::new();
    for fault in faults {
        if cx.ledger.engine.view().state(fault.page).is_armed() {
            cx.ledger.accounts.armed_touched += 1;
            wanted.extend(ask(cx, fault, events)?);
        } else {
            events.push(Event::Fault(fault));
        }
    }
    bring_in(cx, wanted, events)
}

/// Moves touched pages to the fastest tier.
fn bring_in<S: System>(
    cx: &mut Cx<'_, S>,
    mut wanted: Vec<PageRun>,
    events: &mut Vec<Event>,
) -> Result<(), S::Error> {
    if wanted.is_empty() || !cx.budget.pacer.allows() {
        return Ok(());
    }
    wanted.sort_unstable_by_key(|run| run.start);
    // Threads that touch a page at the same time are told of one by one.
    wanted.dedup();
    for (run, outcome) in cx.migrate(&wanted, TierId::FAST, Purpose::Policy)? {
        if outcome == MoveOutcome::Moved {
            let cause = MoveCause::FaultDecision;
            events.push(Event::Moved { run, to: TierId::FAST, cause });
        }
    }
    Ok(())
}

/// Says where touched pages go, and how much room there is.
pub(crate) fn allow_moves_at_touch<S: System>(cx: &mut Cx<'_, S>) {
    if cx.system.most_armed() == 0 {
        return;
    }
    let view = cx.ledger.engine.view();
    let to = cx.ledger.engine.facts().touched_to;
    let to = to
        .filter(|_| !cx.settings.dry_run)
        .map(|tier| (tier, view.free(tier).saturating_sub(view.limits(tier).keep_free)));
    cx.system.set_destination(to);
}

/// Once a second: arms what is to be armed and is not, because of a fork for instance. Reports what cannot be.
pub(crate) fn arm_again<S: System>(cx: &mut Cx<'_, S>, spaces: &Spaces, events: &mut Vec<Event>) {
    if cx.settings.hinted && !cx.system.sees_slower_tiers() {
        events.extend(armed_but(cx, &[]).into_iter().map(|run| Event::Disarmed { run }));
    }
    if cx.system.most_armed() == 0 {
        return;
    }
    let out = cx.system.tend();
    let missing = armed_but(cx, &out);
    if !missing.is_empty() {
        arm(cx, spaces, &missing);
        let out = cx.system.tend();
        events.extend(armed_but(cx, &out).into_iter().map(|run| Event::Disarmed { run }));
    }
    cx.charge();
}

/// Pages that are [due], but for these, ascending.
fn armed_but<S: System>(cx: &Cx<'_, S>, out: &[(ProcessId, Vpn)]) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for (page, state) in (0..).map(PageId).zip(cx.ledger.engine.view().states()) {
        // Most are not, and a look at the state is all that these take.
        if !PageState(*state).is_armed()
            || due(cx, page).is_none_or(|place| out.binary_search(&place).is_ok())
        {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end() == page.0 => run.pages += 1,
            _ => runs.push(PageRun::single(page)),
        }
    }
    runs
}
