//! What several policies take from the kernel: its lists of pages, the thread that demotes, and
//! hint faults.

pub mod lru;
