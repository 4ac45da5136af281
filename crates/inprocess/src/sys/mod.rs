//! Unsafe code of what works inside of other programs: userfaultfd, the arena, threads and forks, ptrace.
//!
//! Every function here is safe to call with any argument; what makes it so stands at each block.

pub mod arena;
pub mod away;
#[cfg(all(test, target_arch = "x86_64"))]
mod inject_calls_tests;
#[cfg(all(test, target_arch = "x86_64"))]
pub mod inject_tests;
pub mod inside;
#[cfg(target_arch = "x86_64")]
pub mod loader;
#[cfg(test)]
mod next_touch_tests;
mod own_page;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod spin_lock;
pub mod uffd;
