//! Accesses to pages, as the kernel notes them: access bits in page tables, idle bits, soft-dirty
//! bits, NUMA hint faults, DAMON.

pub mod balancing;
pub mod damon;
pub mod idle;
pub mod page_tables;
pub mod soft_dirty;
