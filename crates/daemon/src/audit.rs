//! Audit of where pages are: page tables, read round and round.

use crate::context::Cx;
use crate::spaces::Spaces;
use crate::system::System;
use crate::window::window;
use alloc::vec::Vec;
use frostline_core::event::Event;
use frostline_core::span::Span;
use frostline_core::types::*;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Where it goes on.
    at: (ProcessId, Vpn),
}

impl Audit {
    /// Goes on looking up where pages are, round and round, within its share of a core, and rests
    /// after rounds that found nothing.
    pub(crate) fn go_on<S: System>(
        &mut self,
        cx: &mut Cx<'_, S>,
        spaces: &mut Spaces,
        events: &mut Vec<Event>,
    ) -> Result<(), S::Error> {
        cx.charge_hearing();
        if !cx.budget.rounds.allows(cx.now) {
            return Ok(());
        }
        while cx.budget.auditor.allows() {
            cx.budget.auditor.skip(cx.system.cpu());
            let Some((process, span)) = self.next(spaces) else {
                self.at = Default::default();
                cx.budget.rounds.end(cx.now);
                spaces.audits.rounds += 1;
                spaces.numbering.end_round();
                spaces.give_back(cx, events)?;
                cx.budget.auditor.charge(cx.system.cpu());
                break;
            };
            match spaces.look(cx, process, span, events)? {
                None => {
                    self.at = (process, span.end());
                    spaces.reopen(cx, process, events);
                    // Ids that were given back are used again only once the engine knows.
                    cx.tell(core::mem::take(events))?;
                }
                Some(looked) => {
                    self.at = (process, looked.span.end());
                    cx.budget.rounds.note(looked.pages, looked.changed);
                }
            }
            cx.budget.auditor.charge(cx.system.cpu());
        }
        cx.budget.pacer.skip(cx.system.cpu());
        Ok(())
    }

    /// What to look at next, at most.
    fn next(&self, spaces: &Spaces) -> Option<(ProcessId, Span)> {
        let (process, at) = self.at;
        spaces.processes.range(process..).find_map(|(&other, space)| {
            let at = if other == process { at } else { Vpn(0) };
            Some((other, window(space.spans(), at)?))
        })
    }
}
