//! Knowledge of a daemon: the engine, the ids of its pages, what is to be done, and what came of it.

use crate::accounts::{Account, Accounts};
use crate::address_map::AddressMap;
use crate::ages::Ages;
use crate::exposures::Exposures;
use crate::heat::Heat;
use crate::queue::Queue;
use crate::settings::Settings;
use crate::touches::SlowTouches;
use alloc::vec;
use alloc::vec::Vec;
use frostline_core::Engine;
use frostline_core::event::MoveOutcome;
use frostline_core::types::*;

/// Reason of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The policy wants it.
    Policy,
    /// A limit is exceeded.
    Limit,
    /// It is to be seen whether the page comes back.
    Probe,
    /// Everything goes back to memory, whatever the limits.
    Return,
}

/// See the module.
pub(crate) struct Ledger {
    pub(crate) engine: Engine,
    pub(crate) map: AddressMap,
    pub(crate) queue: Queue,
    pub(crate) accounts: Accounts,
    /// Touches of pages in slower nodes.
    pub(crate) slow_touches: SlowTouches,
    /// Moves towards each tier.
    pub(crate) arrivals: Vec<Account>,
    /// Pages that came back though they seemed to have left for good.
    pub(crate) late_refaults: u64,
    /// Access bits that were cleared and found set again.
    pub(crate) bits: u64,
    /// Sampled loads of fast and of other memory that the policy has not been told of.
    pub(crate) counted: [u64; 2],
    /// Touches by address.
    pub(crate) heat: Heat,
    /// How long pages were not touched, where all are swept for it.
    pub(crate) ages: Option<Ages>,
    /// Pages in swap, where nobody sees at once that a page is touched in memory: who leaves too early comes back soon.
    pub(crate) exposures: Option<Exposures>,
}

impl Ledger {
    /// Nothing is known yet.
    pub(crate) fn new(engine: Engine, settings: &Settings) -> Self {
        let tiers = engine.view().tiers();
        Self {
            engine,
            map: AddressMap::default(),
            queue: Queue::default(),
            accounts: Accounts::default(),
            slow_touches: SlowTouches::default(),
            arrivals: vec![Account::default(); tiers],
            late_refaults: 0,
            bits: 0,
            counted: [0; 2],
            heat: Heat::default(),
            ages: None,
            exposures: settings.probes.then(Exposures::default),
        }
    }

    /// Counts the end of attempts to move so many pages.
    pub(crate) fn count(&mut self, purpose: Purpose, to: TierId, pages: u64, outcome: MoveOutcome) {
        let accounts = &mut self.accounts;
        let account = match purpose {
            Purpose::Return => &mut accounts.promotions,
            Purpose::Policy if to == TierId::FAST => &mut accounts.promotions,
            Purpose::Policy => &mut accounts.demotions,
            Purpose::Limit => &mut accounts.reclaimed,
            Purpose::Probe => &mut accounts.probes,
        };
        account.count(pages, outcome);
        self.arrivals[to.index()].count(pages, outcome);
    }
}
