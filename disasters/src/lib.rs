//! Seeded disasters for the daemon: its own code against a system that is made up, in which everything
//! goes wrong.
//!
//! A seed makes a world: a policy, tiers, a kernel with processes, and a host that can or cannot tell
//! this and that. Between the steps of the daemon, and in the middle of its calls, processes fork,
//! execute, end and begin again under the same number, map, unmap and move memory; the kernel splits,
//! builds and moves folios; calls fail in every way that they can. After each step, what must hold is
//! looked at: no page is claimed twice, no move comes out of nothing, ends twice or exceeds a limit,
//! nothing grows without bound. From time to time nothing happens for 30 s, and the daemon must know
//! the truth then.
#![forbid(unsafe_code)]

mod disaster;
mod host;
mod kernel;
mod programs;
mod record;
mod shorten;
mod world;

pub use disaster::{Disaster, Tally, Without};
pub use shorten::shorten;
pub use world::{Find, Played, play};
