//! One file per kind of input.

mod amounts;
mod config;
mod environment;
mod events;
mod groups;
mod imports;
mod journal;
mod machine;
mod packets;
mod parquet;
mod process;
mod spec;
mod status;
mod system;
mod trace;
mod tree;

use crate::target::Target;

/// All targets, in the order of listings.
pub const ALL: &[Target] = &[
    trace::TARGET,
    parquet::TARGET,
    imports::TEXT,
    imports::PERF,
    imports::DAMO,
    journal::TARGET,
    packets::TARGET,
    config::DAEMON,
    config::EXPERIMENT,
    machine::TARGET,
    spec::TARGET,
    amounts::TARGET,
    environment::TARGET,
    process::TARGET,
    groups::TARGET,
    system::TARGET,
    events::TARGET,
    status::TARGET,
];
