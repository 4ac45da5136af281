//! Advice on a program that runs.

use super::told::Measured;
use super::{probed, swept};
use crate::live::slow::SlowMemory;
use clap::ValueEnum;
use frostline_core::types::Nanos;
use frostline_driver::DriverError;
use frostline_driver::left_alone::LeftAlone;
use frostline_linux::{Root, Target};
use frostline_report::units::percent;
use frostline_study::advise::Advice;
use frostline_terminal::cancel;
use frostline_terminal::errors::{ResultExt, failure};
use frostline_terminal::progress::note;
use serde::Serialize;

/// Who places pages, as advice has it.
pub(super) const PLACED: &str = "coldest-out";
/// The machine, as advice has it.
pub(super) const MACHINE: &str = "zram";
/// Where probes go: more than all pages that are drawn.
const DEVICE: &str = "zram:size=64MiB";
/// Processor time in a second from which on a program works.
const WORKS: f64 = 0.01;

/// How long a program is watched where nobody says.
pub(super) const TIME: Nanos = Nanos(60_000_000_000);

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

impl Asked<'_> {
    /// Watches the process for so long; its name, and what was found.
    ///
    /// # Errors
    /// Where it cannot be watched, does nothing, or ends.
    pub(super) fn look(&self) -> anyhow::Result<(String, Found)> {
        let (root, pid) = (Root::system(), self.pid);
        let target = Target::open(&root, pid).or_hint(
            format!("cannot watch process {pid}"),
            "`pidof PROGRAM` tells its number; there is no trace of that name either",
        )?;
        let name = self.name(&target)?;
        if let Some(why) = LeftAlone::when_named(&root, pid)? {
            return Err(DriverError::LeftAlone { pid, why }.into());
        }
        cancel::install()?;
        // Pages go to a device of our own: nothing is known of what a refault takes from another one.
        let slow = SlowMemory::set_up(&root, &DEVICE.parse()?)?;
        let found = self.by_samples(&root, &target);
        slow.take_down();
        Ok((name, found?))
    }

    fn by_samples(&self, root: &Root, target: &Target) -> anyhow::Result<Found> {
        if self.samples != Samples::Probes {
            match swept::watch(root, target, self) {
                Ok(found) => return found,
                Err(error) if self.samples == Samples::PageTables => return Err(error.into()),
                Err(error) => note(&format!("pages are paged out to see who comes back: {error}")),
            }
        }
        probed::probe(root, self)
    }

    fn name(&self, target: &Target) -> anyhow::Result<String> {
        Ok(format!("process {} ({})", self.pid, target.comm()?))
    }

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
