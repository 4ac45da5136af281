//! System calls that no library offers safely: the only unsafe code of this crate.
//!
//! Every function here is safe to call with any argument; what makes it so stands at each block.

pub mod bpf;
pub mod cache;
pub mod file_window;
pub mod fork;
pub mod memory;
pub mod pagemap;
pub mod perf;
pub mod swap;
#[cfg(feature = "lab")]
pub mod words;
