//! System calls that no library offers safely: the only unsafe code of the project.
//!
//! Every function here is safe to call with any argument; what makes it so stands at each block.

pub mod alone;
pub mod arena;
pub mod away;
pub mod fork;
pub mod inside;
pub mod memory;
#[cfg(test)]
mod next_touch_tests;
pub mod pagemap;
pub mod perf;
pub mod swap;
pub mod uffd;
pub mod words;
