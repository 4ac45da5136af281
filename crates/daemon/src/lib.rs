//! Frostline's daemon, apart from any system.
//!
//! The daemon decides when to look, when to move, and what leaves a tier that holds too much. It does no I/O and reads no
//! clock: time, processor time and what was found are arguments. A host carries out what it decides: the live driver by
//! the kernel, the simulator by a modelled machine. Both run this code.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accounts;
mod address_map;
mod ages;
mod answers;
mod arming;
mod audit;
mod backoff;
mod budget;
mod context;
mod daemon;
mod exposures;
mod folios;
mod goal;
#[cfg(test)]
mod goal_tests;
mod growth;
mod heat;
mod ids;
mod ledger;
mod limit;
mod limits;
mod loss;
mod losses;
mod moving;
mod numbering;
mod observer;
mod pacer;
mod queue;
mod reclaim;
mod reconcile;
mod refreshes;
mod rotation;
mod rounds;
mod rush;
mod scans;
mod settings;
mod space;
mod spaces;
mod system;
mod touches;
mod unit;
mod window;

pub use accounts::{Account, Accounts};
pub use address_map::{AddressMap, by_region};
pub use ages::Cold;
pub use daemon::Daemon;
pub use goal::{Controller, Goal, Memory};
pub use growth::Growth;
pub use heat::Part;
pub use limit::Limit;
pub use loss::{Loss, Lost, Meter, REFAULT, Spent, Stretch};
pub use losses::{BIT, INTERRUPTION};
pub use pacer::Pacer;
pub use queue::Queue;
pub use reclaim::{Pass, Reclaimer};
pub use rounds::Rounds;
pub use settings::{COUNTED, NodeLoads, STEP, Settings, Tier};
pub use space::Space;
pub use spaces::Audits;
pub use system::{
    ArmedTouch, Assignment, Change, Drawn, LogEntry, Refreshed, Sampled, Sampling, Swept, System,
    Touch, TouchKind,
};
pub use unit::{Found, Unit};
