//! Context of one step: time, the system, and what all parts of the daemon share.

use crate::budget::Budget;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::system::{LogEntry, System};
use alloc::vec::Vec;
use frostline_core::action::Action;
use frostline_core::event::Event;
use frostline_core::types::Nanos;

/// See the module.
pub(crate) struct Cx<'a, S> {
    pub(crate) now: Nanos,
    pub(crate) settings: &'a Settings,
    pub(crate) system: &'a mut S,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) budget: &'a mut Budget,
}

impl<S: System> Cx<'_, S> {
    /// Hands events to the engine, lets the policy decide, and queues what it wants.
    pub(crate) fn tell(&mut self, events: Vec<Event>) -> Result<(), S::Error> {
        let engine = &mut self.ledger.engine;
        let due = engine.poll_timeout().is_some_and(|due| due <= self.now);
        if events.is_empty() && !due {
            return Ok(());
        }
        let told = if events.is_empty() {
            engine.handle_timeout(self.now);
            LogEntry::Timeout(self.now)
        } else {
            engine.handle_events(self.now, &events);
            if let (Some(exposures), Some(swap)) = (&mut self.ledger.exposures, self.settings.swap)
            {
                exposures.follow(self.now, &events, &engine.view(), swap);
            }
            if let Some(ages) = &mut self.ledger.ages {
                ages.follow(self.now, &events, engine.view().pages());
            }
            LogEntry::Events(self.now, &events)
        };
        let actions: Vec<Action> = core::iter::from_fn(|| engine.poll_action()).collect();
        actions.iter().for_each(|action| self.ledger.queue.push(*action));
        self.system.record(told)?;
        self.system.record(LogEntry::Actions(&actions))
    }

    /// Charges what hearing and deciding have used of a core since the last time.
    pub(crate) fn charge_hearing(&mut self) {
        self.budget.pacer.charge_besides(self.system.cpu());
    }

    /// Charges what moving has used of a core since the last time.
    pub(crate) fn charge(&mut self) {
        self.budget.pacer.charge(self.system.cpu());
    }
}
