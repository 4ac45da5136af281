//! Advice on a program that runs.

use super::asked::{Asked, Found, Samples};
use super::{probed, swept};
use crate::live::slow::SlowMemory;
use frostline_core::types::Nanos;
use frostline_driver::DriverError;
use frostline_driver::left_alone::LeftAlone;
use frostline_linux::{Root, Target};
use frostline_terminal::cancel;
use frostline_terminal::errors::ResultExt;
use frostline_terminal::progress::note;

/// Where probes go: more than all pages that are drawn.
const DEVICE: &str = "zram:size=64MiB";
/// How long a program is watched where nobody says.
pub(super) const TIME: Nanos = Nanos(60_000_000_000);

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
}
