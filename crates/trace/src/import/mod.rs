//! Traces in other formats.

mod addresses;
mod amount;
mod damo;
mod feed;
mod lines;
mod names;
mod perf;
mod text;

pub use addresses::{Accessed, AddressWriter};
pub use damo::{DamoFeed, DamoSource};
pub use feed::{Access, Batches, Feed, Item};
pub use perf::{PerfFeed, PerfSource, is_perf_script};
pub use text::{TextFeed, TextSource};
