//! Ids for address space that comes, goes and moves, and the events that say so.

use crate::address_map::AddressMap;
use alloc::vec::Vec;
use frostline_core::event::{Backing, Event};
use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::types::*;

/// Gives new address space ids; one event for each run of them.
pub(crate) fn map(
    ids: &mut AddressMap,
    process: ProcessId,
    span: Span,
    backing: Backing,
    events: &mut Vec<Event>,
) {
    let mut whole: Option<PageRun> = None;
    let mut push = |run: PageRun| events.push(Event::Mapped { run, backing, process });
    ids.map(process, span, |_, run| match &mut whole {
        Some(before) if before.end() == run.start.0 => before.pages += run.pages,
        _ => {
            if let Some(before) = whole.replace(run) {
                push(before);
            }
        }
    });
    if let Some(run) = whole {
        push(run);
    }
}

/// Takes address space out of the map; blocks in which nothing of `left`, ascending, lies are
/// given back.
pub(crate) fn unmap(
    ids: &mut AddressMap,
    process: ProcessId,
    spans: &[Span],
    left: &[Span],
    events: &mut Vec<Event>,
) {
    for span in spans {
        ids.known(process, *span, |_, run| events.push(Event::Unmapped { run }));
    }
    release(ids, process, spans, left);
}

/// Gives back the blocks of `spans` in which nothing of `left` lies.
fn release(ids: &mut AddressMap, process: ProcessId, spans: &[Span], left: &[Span]) {
    let mut released = Vec::new();
    for span in spans {
        ids.known(process, *span, |piece, run| {
            let block = Span::region_of(piece.start);
            let next = left.partition_point(|span| span.end() <= block.start);
            if left.get(next).is_none_or(|span| span.start >= block.end()) {
                released.push(run.start.region());
            }
        });
    }
    // Not before all of them have been looked up: several may lie in one block.
    for region in released {
        ids.release(region);
    }
}

/// Moves address space: what is known of its pages goes with them.
pub(crate) fn remap(
    ids: &mut AddressMap,
    process: ProcessId,
    from: Span,
    to: Vpn,
    left: &[Span],
    events: &mut Vec<Event>,
) {
    let in_block = |page: Vpn| REGION_PAGES - page.0 % REGION_PAGES;
    let mut moved = Vec::new();
    ids.known(process, from, |piece, run| moved.push((piece, run)));
    for (piece, old) in moved {
        let target = Span::new(Vpn(to.0 + (piece.start.0 - from.start.0)), piece.pages);
        let mut done = 0;
        while done < piece.pages {
            let new = Vpn(target.start.0 + done);
            let pages = in_block(new).min(piece.pages - done);
            let part = Span::new(new, pages);
            let from = PageRun { start: PageId(old.start.0 + done as u32), pages: pages as u32 };
            done += pages;
            let mut target = None;
            ids.map(process, part, |_, run| target = Some(run));
            events.push(match target {
                Some(run) => Event::Remapped { from, to: run.start },
                // There are no more ids.
                None => Event::Unmapped { run: from },
            });
        }
    }
    release(ids, process, &[from], left);
}
