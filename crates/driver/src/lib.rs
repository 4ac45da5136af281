//! Driver of a live system: one loop that reads which processes exist and which pages they touch,
//! passes this to the engine as events, and carries out its actions.
//!
//! Nothing here waits or owns a thread: [`Driver::step`] does what is due and says when it wants
//! to be called again. However its process ends, the targets go on unharmed: pages stay readable
//! wherever they are.
#![forbid(unsafe_code)]

pub mod closed_files;
pub mod doctor;
mod drawn;
mod driver;
pub mod environment;
pub mod error;
pub mod groups;
mod host;
mod hot_pages;
mod incompressible;
pub mod instances;
mod interruption;
pub mod journal;
pub mod left_alone;
mod losses;
pub mod options;
pub mod owner;
pub mod place;
pub mod probes;
mod rates;
pub mod refault;
pub mod source;
mod spending;
pub mod start;
pub mod status;
mod tier;
pub mod variables;
mod watched;
pub mod wishes;
mod written;

pub use driver::Driver;
pub use error::DriverError;
pub use frostline_daemon::{Account, Accounts, Audits, Cold, Limit, REFAULT};
pub use hot_pages::HotPages;
pub use options::Options;
pub use rates::Rates;
pub use source::choice::Samples;
pub use start::{start, start_inside};
pub use status::Status;
pub use tier::{Slow, SlowLimits, SlowTier, SlowTiers};
pub use watched::Selection;
pub use written::{CpuShare, Policy, Size, Slowdown, Written};
