//! Recording of a program while a driver puts load on it.

use super::recipe::{Loading, Plan};
use anyhow::{Context, anyhow, bail};
use frostline_record::{Options, Progress, Stop, Tool, record};
use frostline_terminal::{cancel, errors::failure};
use frostline_trace::{Batch, TraceEvent, TraceSource, event::MapKind};
use frostline_workloads::open;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A run that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(600);
/// Reports of the recorder, five in a second, after which it has caught up with an idle program.
const CATCH_UP: u64 = 4;
const POLL: Duration = Duration::from_millis(20);

/// What a driver and the recorder know of each other.
#[derive(Debug, Default)]
pub struct Meter {
    records: AtomicU64,
    reports: AtomicU64,
    loaded_at: AtomicU64,
    ended: AtomicBool,
    /// The driver gave up.
    failed: AtomicBool,
}

impl Meter {
    pub fn report(&self, records: u64) {
        self.records.store(records, Ordering::Relaxed);
        self.reports.fetch_add(1, Ordering::Release);
    }

    /// The program has ended, or was never there.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Loading is over: waits until the recorder has caught up.
    ///
    /// # Errors
    /// Where the program has ended.
    pub fn loaded(&self) -> anyhow::Result<()> {
        let until = self.reports.load(Ordering::Acquire) + CATCH_UP;
        self.wait(|| self.reports.load(Ordering::Acquire) >= until)?;
        self.loaded_at.store(self.records.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(())
    }

    /// Waits for something.
    ///
    /// # Errors
    /// Where the program has ended.
    pub fn wait(&self, mut there: impl FnMut() -> bool) -> anyhow::Result<()> {
        while !there() {
            if self.ended() {
                bail!("the program has ended");
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Records to `trace`; gives how many records were made while loading.
pub fn run(
    tool: &Tool,
    plan: Plan,
    folder: &Path,
    trace: &Path,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> anyhow::Result<u64> {
    let said = folder.join("said");
    let options = Options { output: Some(said.clone()), ..options };
    let meter = Arc::new(Meter::default());
    let driver = plan.driver.map(|driver| {
        let meter = Arc::clone(&meter);
        std::thread::spawn(move || {
            let done = driver(&meter);
            meter.failed.store(done.is_err(), Ordering::Release);
            done
        })
    });
    let mut late = false;
    let outcome = record(tool, &plan.command, trace, &options, &mut |at, _| {
        meter.report(at.records);
        progress(at);
        late |= at.elapsed > LIMIT;
        if late || meter.failed.load(Ordering::Acquire) || cancel::requested() {
            at.program.kill();
        }
    });
    meter.ended.store(true, Ordering::Release);
    let driven = driver.map_or(Ok(()), |driver| {
        driver.join().unwrap_or_else(|_| Err(anyhow!("the driver failed")))
    });
    cancel::check()?;
    let outcome = outcome?;
    if let Stop::Failed(error) = outcome.stop {
        return Err(error.into());
    }
    if late {
        return Err(failure(format!("no end after {} s", LIMIT.as_secs()), "try it again alone"));
    }
    let said = || last_lines(&std::fs::read(&said).unwrap_or_default());
    driven.with_context(|| format!("putting load on the program failed{}", said()))?;
    if outcome.code != 0 {
        bail!("the program ended with {}{}", outcome.code, said());
    }
    match plan.loading {
        Loading::Driven => Ok(meter.loaded_at.load(Ordering::Relaxed)),
        Loading::File(path) => {
            let source = &mut *open(&trace.display().to_string())?;
            loaded_by(source, &path.display().to_string())
        }
        Loading::LastMapping => mapped_by(&mut *open(&trace.display().to_string())?),
    }
}

fn last_lines(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].iter().map(|line| format!("; it said: {line}")).collect()
}

/// Records in front of the last event that opens or reads the file.
fn loaded_by(source: &mut dyn TraceSource, path: &str) -> anyhow::Result<u64> {
    let mut files = BTreeSet::new();
    let last = before_last(source, |event| match event {
        TraceEvent::FileOpen { file, path: opened, .. } if opened == path => {
            files.insert(*file);
            true
        }
        TraceEvent::FileRead { file, .. } => files.contains(file),
        _ => false,
    })?;
    last.with_context(|| format!("the program never opened {path}"))
}

/// Records in front of the last event that maps anonymous memory.
fn mapped_by(source: &mut dyn TraceSource) -> anyhow::Result<u64> {
    let maps =
        |event: &TraceEvent| matches!(event, TraceEvent::Map { kind: MapKind::Anonymous, .. });
    Ok(before_last(source, maps)?.unwrap_or(0))
}

/// Records in front of the last event of a kind, if there is one.
fn before_last(
    source: &mut dyn TraceSource,
    mut is_one: impl FnMut(&TraceEvent) -> bool,
) -> anyhow::Result<Option<u64>> {
    let (mut records, mut last) = (0, None);
    let mut batch = Batch::new();
    while source.next_batch(&mut batch)? {
        // A batch's events come before its records. All are shown: some depend on earlier ones.
        for timed in &batch.events {
            if is_one(&timed.event) {
                last = Some(records);
            }
        }
        records += batch.len() as u64;
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loading_ends_when_the_recorder_has_caught_up() {
        let meter = Meter::default();
        std::thread::scope(|scope| {
            let driver = scope.spawn(|| meter.loaded());
            let mut reports = 0;
            while !driver.is_finished() {
                reports += 1;
                meter.report(1000 + reports);
                std::thread::sleep(POLL / 4);
            }
            driver.join().expect("no panic").expect("loaded");
            assert!(reports >= CATCH_UP);
            assert!(meter.loaded_at.load(Ordering::Relaxed) > 1000 + CATCH_UP - 1);
        });
    }

    #[test]
    fn a_driver_does_not_wait_for_a_program_that_has_ended() {
        let meter = Meter::default();
        meter.ended.store(true, Ordering::Release);
        assert!(meter.loaded().is_err());
        assert!(meter.wait(|| false).is_err());
        assert!(meter.wait(|| true).is_ok());
    }
}
