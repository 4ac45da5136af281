//! Period of arming memory for hint faults: long, where faults tell little.
//!
//! Once all memory has been scanned, the first fault that counts sets a new period by what the
//! faults of the pass told. Where there were none in fast memory and none of pages that threads
//! share, or where a promotion failed, the period doubles; where most were of pages that one thread
//! uses, or in fast memory, it grows by 10 to 30 %, and else it shrinks by up to 70 %. In tiering
//! mode only promotions count, and as what one thread uses: the period doubles up to its maximum.
//!
//! Source: `kernel/sched/fair.c` (`task_tick_numa`, `task_scan_min`, `task_scan_max`,
//! `task_numa_fault`, `task_numa_placement`, `update_task_scan_period`), Linux 5.3 to 6.12. Not
//! modelled: that threads have periods of their own time, which groups of threads may make longer;
//! mappings, of which Linux 6.4 passes over those that a thread has not touched.

use crate::params::{Kind, Param};
use crate::policy::contract::MetricSink;
use crate::policy::settings::Settings;
use crate::types::*;

/// How often how much is armed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Pages in one scan (`numa_balancing_scan_size_mb`).
    pub size: u64,
    /// For all memory, at least and at first; a scan's share of it is the period
    /// (`numa_balancing_scan_period_min_ms`).
    pub period: Nanos,
    /// For all memory, at most (`numa_balancing_scan_period_max_ms`).
    pub period_max: Nanos,
    /// Between two scans, at least (`MAX_SCAN_WINDOW`).
    pub floor: Nanos,
    /// What a resident page in a scan takes of the program's time.
    pub cost: Nanos,
    /// Before the first period, and again before the first scan
    /// (`numa_balancing_scan_delay_ms`).
    pub delay: Nanos,
}

/// Parameters of a [`Pace`], as several policies declare them.
pub const PACE: [Param; 6] = [
    Param::scaled("scan-size", Kind::Bytes, "256MiB", "", "armed in one scan"),
    Param::scaled("scan-period", Kind::Duration, "1s", "", "of scans for all memory, at least"),
    Param::scaled("scan-period-max", Kind::Duration, "60s", "", "of scans for all memory, at most"),
    Param::scaled("scan-floor", Kind::Duration, "100ms", "", "least interval of scans"),
    Param::fixed("scan-cost", Kind::Duration, "124ns", "", "program's time for a page of a scan"),
    Param::scaled("scan-delay", Kind::Duration, "1s", "", "twice before the first scan"),
];

impl Pace {
    /// As set by [`PACE`].
    pub fn read(settings: &Settings) -> Self {
        Self {
            size: Bytes(settings.count("scan-size")).pages().0.max(1),
            period: settings.duration("scan-period"),
            period_max: settings.duration("scan-period-max"),
            floor: Nanos(settings.duration("scan-floor").0.max(1)),
            cost: settings.duration("scan-cost"),
            delay: settings.duration("scan-delay"),
        }
    }

    /// The shortest and the longest period where so much is resident.
    fn limits(self, resident: PageCount) -> [Nanos; 2] {
        let scans = resident.0.div_ceil(self.size).max(1);
        let least = self.floor.max(Nanos(self.period.0 / scans));
        [least, least.max(Nanos(self.period_max.0 / scans))]
    }
}

/// Which faults count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// All.
    All,
    /// Those after which the page is in fast memory (`NUMA_BALANCING_MEMORY_TIERING`).
    Fast,
}

/// What a fault led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The page is promoted.
    Promoted,
    /// It was to be promoted and is not, as there was no room.
    Failed,
    /// It stays, as it is not hot or in fast memory.
    Stayed,
}

/// A fault, as far as periods go by it.
#[derive(Clone, Copy, Debug)]
pub struct FaultReport {
    /// Of the folio or the page.
    pub pages: u64,
    /// In fast memory already.
    pub local: bool,
    /// By the thread that the last fault of the page was by.
    pub private: bool,
    /// What it led to.
    pub ending: Ending,
}

/// Parts of a period by which it changes (`NUMA_PERIOD_SLOTS`).
const SLOTS: u64 = 10;
/// Parts of faults that tell nothing from which on the period grows (`NUMA_PERIOD_THRESHOLD`).
const THRESHOLD: u64 = 7;
/// What the next period is longer after a scan: two ticks of 4 ms.
const TICKS: Nanos = Nanos(8_000_000);
/// Times of what a scan takes that a program runs without one, at least.
const SPARED: u64 = 32;
/// Until the kernel looks again, at most (`numa_migrate_preferred`).
const LOOK: Nanos = Nanos(1_000_000_000);

/// The period of a process's scans, and when the next one is due.
#[derive(Clone, Debug)]
pub struct ScanPeriod {
    pace: Pace,
    counts: Counts,
    ticks: Nanos,
    look: Nanos,
    /// Zero before the first one.
    period: Nanos,
    /// When the period under way began.
    began: Nanos,
    /// No scan before (`numa_next_scan`).
    not_before: Nanos,
    /// Passes through all memory that have ended, and those before the last look at the faults.
    passes: u64,
    looked_at: u64,
    /// No look before (`numa_migrate_retry`).
    no_look_before: Nanos,
    /// Whether a look found faults.
    found: bool,
    seen: Seen,
    sums: Sums,
}

/// Pages that faulted.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Since the last look.
    private: u64,
    shared: u64,
    /// Since the last look that was not cut short.
    local: u64,
    remote: u64,
    failed: u64,
}

impl Seen {
    fn add(&mut self, told: FaultReport) {
        *(if told.private { &mut self.private } else { &mut self.shared }) += told.pages;
        *(if told.local { &mut self.local } else { &mut self.remote }) += told.pages;
        self.failed += if told.ending == Ending::Failed { told.pages } else { 0 };
    }
}

/// Sums for metrics: pages of faults that counted, and changes of the period.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    counted: u64,
    shared: u64,
    doubled: u64,
    longer: u64,
    shorter: u64,
}

impl ScanPeriod {
    /// The first period begins after the pace's delay; `scale` divides the kernel's constants.
    pub fn new(pace: Pace, counts: Counts, scale: f64) -> Self {
        let scaled = |span: Nanos| Nanos((span.0 as f64 / scale) as u64);
        Self {
            pace,
            counts,
            ticks: scaled(TICKS),
            look: scaled(LOOK),
            period: Nanos::ZERO,
            began: Nanos::ZERO,
            not_before: pace.delay,
            passes: 0,
            looked_at: 0,
            no_look_before: Nanos::ZERO,
            found: false,
            seen: Seen::default(),
            sums: Sums::default(),
        }
    }

    /// When the first period begins or the next scan is due: when a period ends from which on there
    /// may be one.
    pub fn due(&self) -> Nanos {
        if self.period == Nanos::ZERO {
            return self.not_before;
        }
        let wait = self.not_before.saturating_sub(self.began);
        let periods = wait.0.div_ceil(self.period.0).max(1);
        self.began.saturating_add(Nanos(self.period.0.saturating_mul(periods)))
    }

    /// What was due is done, where so much is resident; whether that is a scan.
    pub fn start(&mut self, now: Nanos, resident: PageCount) -> bool {
        let first = self.period == Nanos::ZERO;
        if first {
            // A program that was just executed has none of the kernel's times: it waits again.
            [self.period, _] = self.pace.limits(resident);
            (self.began, self.not_before) = (now, now.saturating_add(self.pace.delay));
        } else {
            self.not_before = now.saturating_add(self.period);
            self.began = now.saturating_add(self.ticks);
        }
        !first
    }

    /// So many resident pages were in the scan: it may take 3 % of the program's time.
    pub fn took(&mut self, pages: u64) {
        let spared = self.pace.cost.0.saturating_mul(SPARED * pages);
        self.began = self.began.saturating_add(Nanos(spared));
    }

    /// A pass through all memory has ended.
    pub fn passed(&mut self) {
        self.passes += 1;
    }

    /// There was a fault, where so much was resident.
    pub fn fault(&mut self, now: Nanos, told: FaultReport, resident: PageCount) {
        let fast = told.local || told.ending == Ending::Promoted;
        if self.counts == Counts::Fast && !fast {
            return;
        }
        if now >= self.no_look_before {
            self.look(now, resident);
            if self.found {
                let pause = self.look.min(Nanos(self.period.0 / 16));
                self.no_look_before = now.saturating_add(pause);
            }
        }
        self.sums.counted += told.pages;
        self.sums.shared += if told.private { 0 } else { told.pages };
        self.seen.add(told);
    }

    /// Sets a new period, once for each pass.
    fn look(&mut self, now: Nanos, resident: PageCount) {
        if self.looked_at == self.passes {
            return;
        }
        self.looked_at = self.passes;
        let [least, most] = self.pace.limits(resident);
        let Seen { private, shared, local, remote, failed } = self.seen;
        (self.seen.private, self.seen.shared) = (0, 0);
        self.found |= private + shared > 0;
        // What was counted stays: after a promotion that failed, the period never shrinks again.
        if local + shared == 0 || failed > 0 {
            self.period = most.min(Nanos(self.period.0.saturating_mul(2)));
            self.not_before = now.saturating_add(self.period);
            self.sums.doubled += 1;
            return;
        }
        let slot = self.period.0.div_ceil(SLOTS);
        let part = |pages: u64, of: u64| pages * SLOTS / of.max(1);
        let local = part(local, local + remote);
        let private = part(private, private + shared);
        let longer = |part: u64| Nanos(self.period.0 + (part - THRESHOLD).max(1) * slot);
        let period = if private >= THRESHOLD {
            longer(private)
        } else if local >= THRESHOLD {
            longer(local)
        } else {
            let slots = THRESHOLD - local.max(private);
            self.period.saturating_sub(Nanos(slots * slot))
        };
        *(if period > self.period { &mut self.sums.longer } else { &mut self.sums.shorter }) += 1;
        self.period = period.clamp(least, most);
        self.seen = Seen::default();
    }

    /// Reports the period, how often it changed which way, and pages of faults that counted.
    pub fn metrics(&self, sink: &mut MetricSink<'_>) {
        for (name, value) in [
            ("hint_scan_passes_total", self.passes),
            ("scan_period_ns", self.period.0),
            ("scan_period_doubled_total", self.sums.doubled),
            ("scan_period_longer_total", self.sums.longer),
            ("scan_period_shorter_total", self.sums.shorter),
            ("hint_faults_counted_pages_total", self.sums.counted),
            ("hint_faults_shared_pages_total", self.sums.shared),
        ] {
            sink(name, value as f64);
        }
    }
}
