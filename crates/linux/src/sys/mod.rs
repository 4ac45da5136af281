//! System calls that no library offers safely: the only unsafe code of the project.
//!
//! Every function here is safe to call with any argument; what makes it so stands at each block.

pub mod arena;
pub mod away;
pub mod file_window;
pub mod fork;
#[cfg(all(test, target_arch = "x86_64"))]
mod inject_calls_tests;
#[cfg(all(test, target_arch = "x86_64"))]
pub mod inject_tests;
pub mod inside;
#[cfg(target_arch = "x86_64")]
pub mod loader;
pub mod memory;
#[cfg(test)]
mod next_touch_tests;
pub mod pagemap;
pub mod perf;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod spin_lock;
pub mod swap;
pub mod uffd;
#[cfg(feature = "lab")]
pub mod words;
