//! Progress of a study, and its early end.

use crate::StudyError;

/// Receiver of a study's progress, which may also end it.
///
/// It is called from several threads at once.
pub trait Monitor: Sync {
    /// A pass over `total` units begins (`None` where the number is not known). It lasts until the
    /// returned value is dropped. `what` says what is done; `unit` is the plural of what is counted, or
    /// empty.
    fn pass<'a>(&'a self, what: &str, unit: &str, total: Option<u64>) -> Box<dyn Pass + 'a>;

    /// A fact that the user should know and that is no error.
    fn note(&self, text: &str);

    /// Whether the study is to end. It is asked about once per batch.
    fn stops(&self) -> bool;

    /// Ends the caller where the study is to end.
    ///
    /// # Errors
    /// [`StudyError::Stopped`] there.
    fn check(&self) -> Result<(), StudyError> {
        if self.stops() { Err(StudyError::Stopped { runs: None }) } else { Ok(()) }
    }
}

/// Progress of one pass.
pub trait Pass: Send + Sync {
    /// So many units more are done.
    fn advance(&self, units: u64);
}

/// A monitor that shows nothing and never ends a study.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Monitor for Unwatched {
    fn pass<'a>(&'a self, _: &str, _: &str, _: Option<u64>) -> Box<dyn Pass + 'a> {
        Box::new(Self)
    }
    fn note(&self, _: &str) {}
    fn stops(&self) -> bool {
        false
    }
}

impl Pass for Unwatched {
    fn advance(&self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Guests, Programs, Request, run};
    use frostline_sim::SimOptions;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    #[derive(Default)]
    struct Watcher {
        runs: AtomicU64,
        simulating: AtomicBool,
        stops: bool,
    }

    struct Counted<'a>(Option<&'a AtomicU64>);

    impl Pass for Counted<'_> {
        fn advance(&self, units: u64) {
            if let Some(sum) = self.0 {
                sum.fetch_add(units, Ordering::Relaxed);
            }
        }
    }

    impl Monitor for Watcher {
        fn pass<'a>(&'a self, what: &str, _: &str, _: Option<u64>) -> Box<dyn Pass + 'a> {
            let simulating = what.starts_with("simulating");
            self.simulating.fetch_or(simulating, Ordering::Relaxed);
            Box::new(Counted(simulating.then_some(&self.runs)))
        }
        fn note(&self, _: &str) {}
        fn stops(&self) -> bool {
            self.stops && self.simulating.load(Ordering::Relaxed)
        }
    }

    fn request() -> Request {
        let programs = Programs {
            trace: "synth:uniform:size=4MiB:accesses=400K:init=off".into(),
            copies: 1,
            beside: Vec::new(),
            beside_after: 0.0,
            limit: None,
            guest_memory: None,
            fast: None,
            scale: None,
            machine: None,
        };
        let half = "50%".parse().unwrap();
        Request {
            traces: vec![programs],
            guests: Guests::default().to_vec(),
            sizes: vec![half],
            policies: ["first-touch", "all-slow"].map(str::to_owned).to_vec(),
            seeds: 1,
            bound: false,
            jobs: Some(1),
            options: SimOptions::new(crate::machine("dram-nvm").unwrap(), half),
            every_series: false,
            limit: frostline_core::Limit::default(),
        }
    }

    #[test]
    fn a_monitor_hears_of_every_record_of_every_run() {
        let watcher = Watcher::default();
        run(&request(), &watcher).unwrap();
        assert_eq!(watcher.runs.into_inner(), 2 * 400_000);
    }

    #[test]
    fn a_monitor_ends_a_study() {
        let watcher = Watcher { stops: true, ..Watcher::default() };
        let error = run(&request(), &watcher).err().expect("it was stopped");
        let found = error.chain().find_map(|cause| cause.downcast_ref::<StudyError>());
        assert_eq!(found, Some(&StudyError::Stopped { runs: Some((0, 2)) }));
        assert!(error.chain().any(|e| e.to_string() == "interrupted; 0 of 2 runs had finished"));
    }
}
