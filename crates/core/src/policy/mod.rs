//! Placement policies, one file each, and their contract with the engine.

#[cfg(test)]
mod absurd_tests;
pub mod arms;
pub mod autonuma;
pub mod autotiering;
pub mod cache;
pub mod colloid;
pub mod contract;
pub mod damon;
pub mod entry;
pub mod example;
#[cfg(test)]
mod example_tests;
pub mod facts;
mod frost;
pub mod hemem;
pub mod hotbox;
pub mod hybridtier;
pub mod interleave;
pub mod kernel;
pub mod memtierd;
pub mod memtis;
pub mod mglru_pd;
pub mod multi_clock;
pub mod nimble;
pub mod offer;
pub mod offline;
pub mod oracle;
pub mod pages;
pub mod pet;
pub mod registry;
mod runs;
pub mod settings;
pub mod simple;
pub mod suited;
pub mod swap_belady;
pub mod swap_lru;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod thermostat;
pub mod tmts;
pub mod tpp;

pub use contract::{
    Allocation, BoxedPolicy, FaultDecision, Home, HotnessBins, MetricSink, PageSize, Placed,
    Policy, PolicyError,
};
pub use entry::{Entry, Group, Made, Terms};
pub use facts::{Facts, Telemetry};
pub use offer::{Offer, TierOffer, Translation, WorkCosts};
pub use oracle::{AccessReader, EpochReader, KnownAccess, Oracle, PageSaving};
pub use registry::make;
pub use settings::Settings;
pub use simple::untiered;
pub use suited::{Lack, Suited};
pub use telemetry::{Bits, Faults, Offered, Origin, Sampling};
