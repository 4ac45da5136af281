//! Every rule of how periods change, each shown to have been exercised.

use super::scan_period::{Counts, Ending, FaultReport, Pace, ScanPeriod};
use crate::types::*;

const SECOND: Nanos = Nanos(1_000_000_000);
/// All memory is one scan.
const LITTLE: PageCount = PageCount(25);

/// A fault of a page that stays where it is.
const PRIVATE: FaultReport =
    FaultReport { pages: 1, local: false, private: true, ending: Ending::Stayed };
const SHARED: FaultReport = FaultReport { private: false, ..PRIVATE };
const LOCAL: FaultReport = FaultReport { local: true, ..PRIVATE };
const LOCAL_SHARED: FaultReport = FaultReport { local: true, ..SHARED };
const PROMOTED: FaultReport = FaultReport { ending: Ending::Promoted, ..PRIVATE };
const FAILED: FaultReport = FaultReport { ending: Ending::Failed, ..PRIVATE };

struct Scans {
    period: ScanPeriod,
    resident: PageCount,
}

impl Scans {
    fn new(counts: Counts, resident: PageCount) -> Self {
        let pace = Pace {
            size: 100,
            period: SECOND,
            period_max: Nanos(60 * SECOND.0),
            floor: Nanos(SECOND.0 / 10),
            cost: Nanos(1000),
            delay: SECOND,
        };
        Self { period: ScanPeriod::new(pace, counts, 1.0), resident }
    }

    /// A scan of all memory once it is due, then so many pages with such faults; gives when, in
    /// milliseconds.
    fn pass(&mut self, faults: &[(u64, FaultReport)]) -> u64 {
        let mut now = self.period.due();
        while !self.period.start(now, self.resident) {
            now = self.period.due();
        }
        self.period.passed();
        for (pages, told) in faults {
            self.period.fault(now, FaultReport { pages: *pages, ..*told }, self.resident);
        }
        now.0 / 1_000_000
    }

    fn metric(&self, name: &str) -> f64 {
        let mut found = None;
        self.period.metrics(&mut |key, value| {
            if key == name {
                found = Some(value);
            }
        });
        found.expect("a metric")
    }

    fn ways(&self) -> [f64; 3] {
        ["scan_period_doubled_total", "scan_period_longer_total", "scan_period_shorter_total"]
            .map(|name| self.metric(name))
    }

    fn seconds(&self) -> f64 {
        self.metric("scan_period_ns") / 1e9
    }
}

/// The period that such faults of a pass make of 32 s.
fn of_32_s(counts: Counts, faults: &[(u64, FaultReport)]) -> (f64, [f64; 3]) {
    let mut scans = Scans::new(counts, LITTLE);
    for _ in 0..4 {
        scans.pass(&[(1, PROMOTED)]);
    }
    scans.pass(&[&[(1, PROMOTED)], faults].concat());
    assert_eq!((scans.seconds(), scans.ways()), (32.0, [5.0, 0.0, 0.0]));
    scans.pass(&[(1, PROMOTED)]);
    let ways = scans.ways();
    (scans.seconds(), [ways[0] - 5.0, ways[1], ways[2]])
}

#[test]
fn without_faults_the_period_stays_the_shortest() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    assert_eq!([(); 4].map(|()| scans.pass(&[])), [2000, 3008, 4016, 5024]);
    assert_eq!((scans.ways(), scans.metric("hint_scan_passes_total")), ([0.0; 3], 4.0));
}

#[test]
fn more_memory_has_shorter_periods_but_for_the_floor() {
    let period = |pages| {
        let mut scans = Scans::new(Counts::All, PageCount(pages));
        scans.pass(&[]);
        let shortest = scans.seconds();
        for _ in 0..9 {
            scans.pass(&[(1, PRIVATE)]);
        }
        [shortest, scans.seconds()]
    };
    assert_eq!(period(100), [1.0, 60.0]);
    assert_eq!(period(101), [0.5, 30.0]);
    assert_eq!(period(1_000), [0.1, 6.0]);
    assert_eq!(period(10_000), [0.1, 0.6]);
    assert_eq!(period(100_000), [0.1, 0.1]);
}

#[test]
fn the_first_fault_of_a_pass_sets_the_period_and_the_others_wait_for_the_next_pass() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    let now = Nanos(scans.pass(&[(1, PRIVATE), (1, PRIVATE)]) * 1_000_000);
    assert_eq!((scans.seconds(), scans.ways()), (2.0, [1.0, 0.0, 0.0]));
    scans.period.fault(now.saturating_add(SECOND), PRIVATE, LITTLE);
    assert_eq!(scans.ways(), [1.0, 0.0, 0.0]);
    assert_eq!(scans.period.due(), Nanos(4_008_000_000), "two seconds from the fault on");
}

#[test]
fn a_longer_period_that_is_set_late_skips_one() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    let now = Nanos(scans.pass(&[]) * 1_000_000);
    scans.period.fault(now.saturating_add(Nanos(9_000_000)), PRIVATE, LITTLE);
    // 4.008 s is before 4.009 s.
    assert_eq!(scans.period.due(), Nanos(6_008_000_000));
}

#[test]
fn a_scan_takes_three_parts_in_a_hundred_of_the_time() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    scans.pass(&[]);
    scans.period.took(10_000);
    assert_eq!(scans.period.due(), Nanos(3_328_000_000), "10 ms, and 320 ms more");
}

#[test]
fn looks_are_apart() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    for _ in 0..3 {
        scans.pass(&[(1, PRIVATE)]);
    }
    let now = scans.period.due();
    let soon = |ms: u64| now.saturating_add(Nanos(ms * 1_000_000));
    // A look without a new pass, and a pass: the next look is a 16th of 8 s later.
    scans.period.fault(now, PRIVATE, LITTLE);
    scans.period.passed();
    scans.period.fault(soon(499), PRIVATE, LITTLE);
    assert_eq!(scans.ways(), [3.0, 0.0, 0.0]);
    scans.period.fault(soon(500), PRIVATE, LITTLE);
    assert_eq!(scans.ways(), [4.0, 0.0, 0.0]);
}

#[test]
fn faults_of_memory_that_one_thread_uses_double_the_period() {
    assert_eq!(of_32_s(Counts::All, &[(1000, PRIVATE)]), (60.0, [1.0, 0.0, 0.0]));
}

#[test]
fn faults_in_fast_memory_make_the_period_longer() {
    assert_eq!(of_32_s(Counts::All, &[(1000, LOCAL)]), (41.6, [0.0, 1.0, 0.0]));
    // Of the parts in fast memory, that beyond 7 tenths, but one at least.
    assert_eq!(of_32_s(Counts::All, &[(1000, LOCAL_SHARED)]), (38.4, [0.0, 1.0, 0.0]));
    let most = [(710, LOCAL_SHARED), (290, SHARED)];
    assert_eq!(of_32_s(Counts::All, &most), (35.2, [0.0, 1.0, 0.0]));
}

#[test]
fn faults_of_pages_that_threads_share_make_it_shorter() {
    assert_eq!(of_32_s(Counts::All, &[(1000, SHARED)]), (9.6, [0.0, 0.0, 1.0]));
    let some = [(600, SHARED), (400, PRIVATE)];
    assert_eq!(of_32_s(Counts::All, &some), (22.4, [0.0, 0.0, 1.0]));
    let few = [(250, SHARED), (750, PRIVATE)];
    assert_eq!(
        of_32_s(Counts::All, &few),
        (35.2, [0.0, 1.0, 0.0]),
        "longer again from 7 tenths on"
    );
    let mut scans = Scans::new(Counts::All, LITTLE);
    for _ in 0..5 {
        scans.pass(&[(10, SHARED)]);
    }
    assert_eq!((scans.seconds(), scans.ways()), (1.0, [1.0, 0.0, 4.0]), "not below the minimum");
}

#[test]
fn a_failed_promotion_doubles_it_for_good() {
    let mut scans = Scans::new(Counts::All, LITTLE);
    scans.pass(&[(10, SHARED), (1, FAILED)]);
    for _ in 0..4 {
        scans.pass(&[(10, SHARED)]);
    }
    assert_eq!((scans.seconds(), scans.ways()), (32.0, [5.0, 0.0, 0.0]));
    scans.pass(&[(10, SHARED)]);
    assert_eq!(scans.seconds(), 60.0, "the maximum");
}

#[test]
fn in_tiering_mode_only_what_is_in_fast_memory_then_counts() {
    let mut scans = Scans::new(Counts::Fast, LITTLE);
    for _ in 0..3 {
        scans.pass(&[(5, PRIVATE), (5, SHARED), (5, FAILED)]);
    }
    assert_eq!((scans.ways(), scans.metric("hint_faults_counted_pages_total")), ([0.0; 3], 0.0));
    scans.pass(&[(5, PROMOTED), (5, FAILED), (1, PROMOTED)]);
    assert_eq!((scans.ways(), scans.seconds()), ([1.0, 0.0, 0.0], 2.0));
    assert_eq!(scans.metric("hint_faults_counted_pages_total"), 6.0);
    assert_eq!(of_32_s(Counts::Fast, &[(1000, LOCAL)]), (41.6, [0.0, 1.0, 0.0]));
    assert_eq!(of_32_s(Counts::Fast, &[(1000, FAILED)]), (60.0, [1.0, 0.0, 0.0]));
}
