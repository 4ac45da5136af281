//! Published status of this process: for `frostline status`, and as a JSON file.

use crate::variables;
use crate::work::Work;
use frostline_driver::instances::{self, Instance};
use frostline_driver::{Driver, DriverError, Status};
use frostline_linux::Root;
use frostline_linux::process::clock;
use std::path::{Path, PathBuf};

/// Publishes numbers every second, and when the program ends.
pub struct Report {
    name: String,
    /// What `frostline status` sees; nothing without the right to write there.
    instance: Option<Instance>,
    /// A file of this process alone.
    file: Option<PathBuf>,
    last: Status,
}

impl Report {
    /// Begins with the present numbers.
    ///
    /// # Errors
    /// Where somebody else manages this process.
    pub fn begin(root: &Root, name: String, work: &Work) -> Result<Self, DriverError> {
        let status = status(&name, work);
        // Of the program that this process has run before.
        instances::forget(root, status.pid);
        // Whoever tiers nothing leaves that to others.
        let instance = match work.driver.as_ref().map(|_| Instance::claim(root, &status)) {
            Some(Err(error @ DriverError::Managed { .. })) => return Err(error),
            Some(other) => other.ok(),
            None => None,
        };
        let folder = variables::text("status");
        let file = folder.map(|folder| {
            Path::new(&folder).join(format!("{}-{}.json", status.pid, status.start_ticks))
        });
        let report = Self { name, instance, file, last: status };
        report.tell(&report.last);
        Ok(report)
    }

    /// Tells the present numbers.
    pub fn publish(&mut self, work: &Work) {
        self.last = status(&self.name, work);
        self.tell(&self.last);
    }

    /// Tells the last ones: of memory those of the second before, when the program had not given
    /// it back.
    pub fn end(self, work: &Work) {
        let now = status(&self.name, work);
        let Status { accounts, seconds, cpu_seconds, consolidation, .. } = now;
        let last = self.last.clone();
        self.tell(&Status { accounts, seconds, cpu_seconds, consolidation, ..last });
    }

    /// Where that fails, others see older ones.
    fn tell(&self, status: &Status) {
        if let Some(instance) = &self.instance {
            let _ = instance.publish(status);
        }
        if let (Some(file), Ok(text)) = (&self.file, serde_json::to_vec(status)) {
            let next = file.with_extension("next");
            let _ = std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, file));
        }
    }
}

/// Ours are the thread, the arena and what the kernel writes for us; all else is the program's.
fn status(name: &str, work: &Work) -> Status {
    let of_driver = work.driver.as_ref().map(|driver| driver.status(name));
    let buffers = work.driver.as_ref().map_or(0, Driver::buffer_bytes);
    let own = work.own;
    Status {
        pid: own.pid,
        start_ticks: own.start_ticks,
        seconds: work.clock.elapsed().as_secs_f64(),
        name: name.into(),
        consolidation: work.consolidation.numbers().cloned(),
        cpu_seconds: clock::thread_cpu().as_secs_f64(),
        own_rss_bytes: crate::ARENA.touched_bytes() + buffers,
        ..of_driver.unwrap_or_default()
    }
}
