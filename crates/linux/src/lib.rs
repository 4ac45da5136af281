//! Linux, as far as tiering needs it: processes, memory, and moves of pages.
//!
//! Readers of `/proc`, `/sys` and cgroupfs take a [`Root`], so that tests hand them a tree of
//! their own. Nothing here decides anything: that is the engine's.
#![deny(unsafe_code)]

pub mod accesses;
mod btf;
pub mod changes;
mod error;
pub mod files;
pub mod groups;
pub mod held;
#[cfg(feature = "lab")]
pub mod lab;
pub mod latency;
pub mod moves;
pub mod own_files;
pub mod pages;
pub mod perf;
pub mod pressure;
pub mod process;
mod root;
pub mod swap;
#[cfg(test)]
mod testing;
pub mod topology;

#[allow(unsafe_code)]
mod sys;

pub use error::LinuxError;
pub use process::Target;
pub use root::Root;
pub use sys::fork::in_forked_child;
