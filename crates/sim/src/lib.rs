//! Simulator: replays of traces of real programs on a modelled machine with tiered memory.
//!
//! [`measure_footprint`] reads a trace once to learn how much memory its program has;
//! [`simulate`] replays it on a [`Machine`] under a placement policy, on a virtual clock. Nothing
//! here reads a real clock but for [`report::Host`]: the same trace, machine, policy and seed give
//! the same report, bit by bit. `docs/reference/machines.md` describes the model and its costs.
#![forbid(unsafe_code)]

mod address_space;
mod clock;
mod costs;
mod error;
mod footprint;
mod frames;
mod guest;
mod heatmap;
mod machine;
mod operations;
mod options;
mod replay;
pub mod report;
mod sampler;
mod series;
mod setting;
mod size;
mod tlb;

pub use costs::Costs;
pub use error::SimError;
pub use footprint::{Footprint, measure_footprint};
pub use guest::{GuestSetup, Together};
pub use heatmap::{Heatmap, Heatmaps};
pub use machine::{CpuModel, Machine, OsModel, SavingModel, TierModel, TlbModel, Workers};
pub use options::{
    FaultInjection, HostedDaemon, Labels, Observer, Progress, REFERENCE_FOOTPRINT_BYTES,
    SERIES_POINTS, Scale, SeriesOptions, SimOptions,
};
pub use replay::{Moment, RunOutcome, simulate, simulate_together, tier_limits};
pub use report::{RunReport, SeriesPoint, TierReport};
pub use setting::Setting;
pub use size::FastSize;
