//! Huge pages: split, and built again.

use crate::arming;
use crate::context::Cx;
use crate::spaces::Spaces;
use crate::system::System;
use alloc::vec;
use alloc::vec::Vec;
use frostline_core::event::Event;
use frostline_core::span::Span;
use frostline_core::types::*;

/// Splits a folio.
pub(crate) fn split<S: System>(
    cx: &mut Cx<'_, S>,
    spaces: &mut Spaces,
    region: Region,
) -> Result<Vec<Event>, S::Error> {
    let split = reshape(cx, region, true)?;
    cx.ledger.accounts.splits += u64::from(split);
    cx.ledger.accounts.failed_splits += u64::from(!split);
    let mut events = vec![Event::SplitDone { region, split }];
    if split && let Some((process, vpn)) = cx.ledger.map.place(region.first()) {
        // All-zero pages are freed by the split.
        cx.tell(core::mem::take(&mut events))?;
        spaces.look(cx, process, Span::region_of(vpn), &mut events)?;
    }
    Ok(events)
}

/// Builds a folio.
pub(crate) fn collapse<S: System>(
    cx: &mut Cx<'_, S>,
    region: Region,
    to: TierId,
) -> Result<Vec<Event>, S::Error> {
    let built = reshape(cx, region, false)?;
    cx.ledger.accounts.collapses += u64::from(built);
    cx.ledger.accounts.failed_collapses += u64::from(!built);
    let tier = built.then_some(to);
    Ok(vec![Event::CollapseDone { region, tier }])
}

/// Splits or builds one folio; whether that was found done.
fn reshape<S: System>(cx: &mut Cx<'_, S>, region: Region, split: bool) -> Result<bool, S::Error> {
    arming::disarm(cx, region.run());
    let place = cx.ledger.map.place(region.first());
    match place.filter(|_| !cx.settings.dry_run) {
        Some((process, vpn)) => cx.system.reshape(process, vpn, split),
        None => Ok(false),
    }
}
