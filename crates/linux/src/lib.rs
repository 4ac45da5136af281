//! Linux, as far as tiering needs it: processes, memory, and moves of pages.
//!
//! Readers of `/proc`, `/sys` and cgroupfs take a [`Root`], so that tests hand them a tree of
//! their own. Nothing here decides anything: that is the engine's.
#![deny(unsafe_code)]

pub mod advise;
pub mod balancing;
pub mod changes;
pub mod damon;
pub mod doctor;
pub mod error;
pub mod extents;
pub mod files;
pub mod folio;
pub mod frames;
pub mod groups;
pub mod idle;
pub mod inject;
pub mod inside;
#[cfg(feature = "lab")]
pub mod lab;
pub mod maps;
pub mod migrate;
pub mod next_touch;
pub mod outputs;
pub mod own_files;
pub mod pagemap;
pub mod perf;
pub mod process;
pub mod root;
pub mod soft_dirty;
pub mod swap;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod users;
pub mod zram;

#[allow(unsafe_code)]
mod sys;

pub use error::LinuxError;
pub use process::Target;
pub use root::Root;
pub use sys::fork::in_forked_child;
