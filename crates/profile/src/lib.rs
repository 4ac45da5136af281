//! Use of memory by a trace, in three curves: how often pages come back after how much else
//! ([`Profile::miss_ratio`]), how unequal they are ([`Profile::popularity`]), and how much of
//! each 2 MiB they use ([`Profile::regions`]).
//!
//! [`Profile::of`] reads a trace once. Its memory grows with the pages touched (about 40 bytes
//! each), not with the number of accesses. [`Distance::between`] says how far two profiles are
//! apart: that is how synthetic workloads are held against the programs they stand for.
#![forbid(unsafe_code)]

mod builder;
mod distance;
mod profile;
mod stack;

pub use builder::Span;
pub use distance::{Distance, curve_shares};
pub use profile::{BUSY_SHARE, CurvePoint, Profile, RegionUse, Summary};
pub use stack::LruStack;
