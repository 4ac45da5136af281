//! Arguments that several subcommands share.

use crate::experiment::Effort;
use crate::parallel;
use std::num::NonZeroUsize;

/// How much work an experiment is given.
#[derive(clap::Args)]
pub struct EffortArgs {
    /// Smaller workloads and fewer seeds
    #[arg(long)]
    pub quick: bool,
    /// How many seeds [default: as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl EffortArgs {
    /// In the experiment's terms.
    pub fn effort(&self, charts: bool) -> Effort {
        let jobs = parallel::jobs(self.jobs);
        Effort { quick: self.quick, seeds: self.seeds, jobs, charts }
    }
}
