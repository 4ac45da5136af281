//! Frostline's daemon, apart from any system.
//!
//! The daemon decides when to look, when to move, and what leaves a tier that holds too much. It does no I/O and reads no
//! clock: time, processor time and what was found are arguments. A host carries out what it decides: the live driver by
//! the kernel, the simulator by a modelled machine. Both run this code.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod backoff;
mod growth;
mod pacer;
mod queue;
mod reclaim;
mod rounds;

pub use backoff::Backoff;
pub use growth::Growth;
pub use pacer::Pacer;
pub use queue::Queue;
pub use reclaim::{Pass, Reclaimer};
pub use rounds::Rounds;
