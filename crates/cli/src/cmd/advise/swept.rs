//! Advice on a program that runs, by the access bits of all its pages. Nothing of it is moved.

use super::asked::{Asked, Found, Measured, PLACED, Samples};
use frostline_core::types::{Nanos, PAGE_BYTES};
use frostline_driver::source::sweeps::Sweeps;
use frostline_driver::start::Stopwatch;
use frostline_driver::{
    Cold, Driver, DriverError, Options, REFAULT, Selection, Status, refault, start,
};
use frostline_linux::{LinuxError, Root, Target};
use frostline_report::units::percent;
use frostline_study::advise::swept;
use frostline_terminal::errors::failure;
use frostline_terminal::{cancel, progress};
use std::collections::BTreeMap;
use std::time::Duration;

/// Watches a process.
///
/// # Errors
/// Where page tables cannot be read; and within, where it ends or does nothing.
pub(super) fn watch(
    root: &Root,
    target: &Target,
    asked: &Asked<'_>,
) -> Result<anyhow::Result<Found>, DriverError> {
    let mut options = Options::default();
    for (key, value) in [("slow", "none"), ("samples", Sweeps::NAME)] {
        let set = options.set_words(key, &[value.to_owned()]);
        set.map_err(|error| LinuxError::Unsupported {
            what: error.to_string(),
            hint: String::new(),
        })?;
    }
    let selection = Selection::Process { pid: asked.pid, tree: false };
    let (driver, _) = start(root.clone(), options, selection)?;
    Ok(follow(driver, root, target, asked))
}

fn follow(
    mut driver: Driver,
    root: &Root,
    target: &Target,
    asked: &Asked<'_>,
) -> anyhow::Result<Found> {
    let watch = Stopwatch::start();
    let bar = progress::bar("watching", "seconds", Some(asked.time.0 / 1_000_000_000));
    let before = target.stat()?.cpu();
    // What is told of an age holds until the next time: sweeps are less frequent by and by, and tell no young ages then.
    let mut cold: BTreeMap<Nanos, Cold> = BTreeMap::new();
    while watch.elapsed() < asked.time && !cancel::requested() {
        let next = driver.step(watch.elapsed())?;
        if driver.is_idle() {
            return Err(failure("the process has ended", "ask for less: --for 10s"));
        }
        cold.extend(driver.cold().iter().map(|cold| (cold.age, *cold)));
        bar.set_position(watch.elapsed().0 / 1_000_000_000);
        let pause = Duration::from_nanos(next.saturating_sub(watch.elapsed()).0);
        std::thread::sleep(pause.max(Duration::from_millis(1)));
    }
    bar.finish_and_clear();
    cancel::check()?;
    let seconds = watch.elapsed().as_secs_f64();
    let cores = target.stat()?.cpu().saturating_sub(before).as_secs_f64() / seconds;
    let status = driver.status("advise");
    drop(driver);
    asked.check_work((status.footprint_bytes / PAGE_BYTES) as usize, cores)?;
    if cold.is_empty() {
        let what = format!("nothing is known after {seconds:.0} s: there were too few sweeps");
        return Err(failure(what, "ask for longer: --for 1min"));
    }
    let refault = refault::measure(root, target, asked.seed)?;
    let measured = measured(&status, [seconds, cores], refault);
    let point = |cold: &Cold| swept::Cold {
        pages: cold.pages.0 as f64,
        returns: cold.returns,
        most_returns: cold.most_returns,
    };
    let swept = swept::Swept {
        cold: cold.values().map(point).collect(),
        memory_bytes: status.footprint_bytes,
        refault_seconds: measured.refault_seconds,
    };
    let advice = swept.advise(PLACED, asked.goals);
    Ok(Found { based_on: based_on(&measured), advice, measured })
}

fn measured(status: &Status, [seconds, cores]: [f64; 2], refault: Option<Nanos>) -> Measured {
    let touches = status.sources.iter().map(|source| source.touches).sum();
    Measured {
        by: Samples::PageTables,
        pages: (status.footprint_bytes / PAGE_BYTES) as usize,
        probes: None,
        refaults: None,
        touches: Some(touches),
        seconds,
        refault_seconds: refault.map_or(REFAULT * 1e-9, Nanos::as_secs_f64),
        is_presumed: refault.is_none(),
        cores,
        cost: status.loss.as_ref().map_or(0.0, |loss| loss.whole.share),
    }
}

fn based_on(measured: &Measured) -> String {
    let Measured { pages, seconds, refault_seconds, cores, cost, .. } = measured;
    let told = match measured.is_presumed {
        true => "presumed: too few pages could be copied",
        false => "as measured on copies of its pages",
    };
    format!(
        "The access bits of all {pages} pages were read and cleared, again and again, for {seconds:.0} s, which cost it {}. A \
         refault takes {:.1} us ({told}); the program used {cores:.2} cores. The sizes are those with which the pages that \
         were not touched for longest are in compressed memory: what a daemon takes itself, and what it does not foresee, \
         comes on top. The intervals say how much the sizes vary with the touches that happened to be seen. Of slow nodes \
         nothing is said: how often a page is accessed is not seen, only whether it is.",
        percent(*cost),
        refault_seconds * 1e6,
    )
}
