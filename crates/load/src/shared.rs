//! State that the threads share.

use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Findings that are kept in full; more are only counted.
const KEPT_FINDINGS: usize = 10;

/// State of a run.
#[derive(Debug)]
pub struct Shared {
    stop: AtomicBool,
    generation: AtomicU32,
    /// Workers that have ended their accesses, and when the last one did, in ns.
    ended: AtomicUsize,
    ended_ns: AtomicU64,
    /// By worker: accesses so far.
    operations: Vec<AtomicU64>,
    findings: Mutex<Findings>,
}

/// What was wrong with memory.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// How many there were.
    pub count: u64,
    /// The first of them.
    pub first: Vec<String>,
}

impl Shared {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            stop: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            ended: AtomicUsize::new(0),
            ended_ns: AtomicU64::new(0),
            operations: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            findings: Mutex::default(),
        }
    }

    /// Ends the accesses; what follows is the final check.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether accesses shall end.
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Notes that a worker has ended its accesses, so long after the start. True for the last one.
    pub fn worker_ended(&self, after: Duration) -> bool {
        self.ended_ns.fetch_max(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.ended.fetch_add(1, Relaxed) + 1 == self.operations.len()
    }

    /// Whether all workers have, or shall.
    pub fn ended(&self) -> bool {
        self.stopping() || self.ended.load(Relaxed) == self.operations.len()
    }

    /// How long the last of them took.
    pub fn worked(&self) -> Duration {
        Duration::from_nanos(self.ended_ns.load(Relaxed))
    }

    /// Which hot set is in use.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Has the workers use the next hot set; gives its generation.
    pub fn next_generation(&self) -> u32 {
        self.generation.fetch_add(1, Relaxed) + 1
    }

    /// Publishes how many accesses a worker has made.
    #[inline]
    pub fn set_operations(&self, worker: usize, operations: u64) {
        self.operations[worker].store(operations, Relaxed);
    }

    /// Accesses of all workers so far.
    pub fn operations(&self) -> u64 {
        self.operations.iter().map(|n| n.load(Relaxed)).sum()
    }

    /// Notes that memory is not what it ought to be, and ends the accesses.
    pub fn found(&self, what: impl Display) {
        self.stop();
        let mut findings = self.findings.lock().unwrap_or_else(|error| error.into_inner());
        findings.count += 1;
        if findings.first.len() < KEPT_FINDINGS {
            findings.first.push(what.to_string());
        }
    }

    /// What was found so far.
    pub fn findings(&self) -> Findings {
        self.findings.lock().unwrap_or_else(|error| error.into_inner()).clone()
    }
}
