//! Accesses to pages, as the kernel notes them: idle bits, soft-dirty bits, NUMA hint faults,
//! DAMON.

pub mod balancing;
pub mod damon;
pub mod idle;
pub mod soft_dirty;
