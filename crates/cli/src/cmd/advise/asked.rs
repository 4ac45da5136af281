//! Question about a running program, and what was found.

use clap::ValueEnum;
use frostline_core::types::Nanos;
use frostline_report::units::percent;
use frostline_study::advise::Advice;
use frostline_terminal::errors::failure;
use serde::Serialize;

/// Who places pages, as advice has it.
pub(super) const PLACED: &str = "coldest-out";
/// The machine, as advice has it.
pub(super) const MACHINE: &str = "zram";
/// Processor time in a second from which on a program works.
const WORKS: f64 = 0.01;

/// What sees touches of a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Samples {
    /// Page tables where they can be read, else probes.
    Auto,
    /// Access bits of all pages.
    PageTables,
    /// Pages that are paged out, and come back.
    Probes,
}

/// What is asked of a running program.
pub(super) struct Asked<'a> {
    pub(super) pid: u32,
    pub(super) samples: Samples,
    pub(super) time: Nanos,
    pub(super) goals: &'a [f64],
    pub(super) seed: u64,
}

/// Advice, and what it is based on.
pub(super) struct Found {
    pub(super) advice: Advice,
    pub(super) measured: Measured,
    pub(super) based_on: String,
}

/// What was measured of a running program.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    /// What has seen touches.
    pub(super) by: Samples,
    /// Pages that were looked at.
    pub(super) pages: usize,
    /// How often one was paged out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probes: Option<u64>,
    /// How often one came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refaults: Option<u64>,
    /// Touches that were seen of pages in memory, one for each sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) touches: Option<u64>,
    /// For so long.
    pub(super) seconds: f64,
    /// What a refault took, or was presumed to.
    pub(super) refault_seconds: f64,
    /// The kernel did not tell.
    pub(super) is_presumed: bool,
    /// Cores that the program used, without what follows.
    pub(super) cores: f64,
    /// Part of its processor time that being looked at took.
    pub(super) cost: f64,
}

impl Asked<'_> {
    /// Whether the program has done anything.
    ///
    /// # Errors
    /// Where it has not: nothing follows.
    pub(super) fn check_work(&self, pages: usize, cores: f64) -> anyhow::Result<()> {
        if pages > 0 && cores >= WORKS {
            return Ok(());
        }
        let what = format!(
            "process {} has worked {} of the time: nothing is slowed down",
            self.pid,
            percent(cores)
        );
        Err(failure(what, "ask while it works, or for longer: --for 10min"))
    }
}
