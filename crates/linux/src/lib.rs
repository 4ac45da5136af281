//! What Linux tells of processes and memory, and how it is asked to move pages.
//!
//! Readers of `/proc`, `/sys` and cgroupfs take a [`Root`], so that tests hand them a tree of
//! their own. Nothing here decides anything: that is the engine's.
#![deny(unsafe_code)]

pub mod error;
pub mod perf;
pub mod root;
#[cfg(test)]
mod testing;
pub mod topology;

#[allow(unsafe_code)]
mod sys;

pub use error::LinuxError;
pub use root::Root;
pub use sys::fork::in_forked_child;
