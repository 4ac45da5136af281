//! Profiles of small traces by hand, of large ones by what is known about them, and distances.

use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId};
use frostline_profile::{Distance, Profile, RegionUse, Span, curve_shares};
use frostline_trace::{
    BLOCK_RECORDS, Batch, TimedEvent, TraceError, TraceEvent, TraceHeader, TraceSource,
};
use std::collections::VecDeque;

/// Batches that were made before.
struct Given {
    header: TraceHeader,
    batches: VecDeque<Batch>,
}

impl Given {
    fn new(pages: &[u32]) -> Self {
        let batches = pages.chunks(BLOCK_RECORDS).map(|pages| {
            let mut batch = Batch::new();
            batch.pages.extend(pages);
            batch
        });
        Self { header: TraceHeader::named("given"), batches: batches.collect() }
    }

    /// After everything so far: an event, then more accesses.
    fn then(mut self, event: TraceEvent, pages: &[u32]) -> Self {
        let mut batch = Batch::new();
        batch.events.push(TimedEvent { clock: 0, event });
        batch.pages.extend(pages);
        self.batches.push_back(batch);
        self
    }
}

impl TraceSource for Given {
    fn header(&self) -> &TraceHeader {
        &self.header
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let next = self.batches.pop_front();
        let more = next.is_some();
        *batch = next.unwrap_or_default();
        Ok(more)
    }
}

fn of(mut source: impl TraceSource, span: Span) -> Profile {
    Profile::of(&mut source, span, |_| true).unwrap()
}

fn whole(pages: &[u32]) -> Profile {
    of(Given::new(pages), Span::default())
}

fn synth(spec: &str) -> Profile {
    let mut source = frostline_workloads::from_spec(spec).unwrap();
    Profile::of(&mut *source, Span::default(), |_| true).unwrap()
}

#[test]
fn a_trace_by_hand() {
    // Depths: -, -, 2, 2, -, 3, 1, 2.
    let profile = whole(&[0, 1, 0, 1, 600, 0, 0, 600]);
    assert_eq!((profile.records(), profile.pages(), profile.first_touches()), (8, 3, 3));
    let misses = [0, 1, 2, 3, 4].map(|pages| profile.miss_ratio(pages) * 8.0);
    assert_eq!(misses, [8.0, 7.0, 4.0, 3.0, 3.0]);
    assert_eq!(profile.memory_for(0.5), Some(2));
    assert_eq!(profile.memory_for(5.0 / 8.0), Some(3));
    assert_eq!(profile.memory_for(0.9), None, "three of eight are first touches");
    let popularity = [0.0, 1.0 / 3.0, 0.5, 2.0 / 3.0, 1.0].map(|x| profile.popularity(x) * 8.0);
    assert_eq!(popularity, [0.0, 4.0, 5.0, 6.0, 8.0]);
    let regions = [(6, 2, 2), (2, 1, 1)].map(|(accesses, touched_pages, busy_pages)| RegionUse {
        accesses,
        touched_pages,
        busy_pages,
    });
    assert_eq!(profile.regions(), regions);
}

#[test]
fn busy_pages_take_nine_tenths() {
    let mut pages = vec![7; 90];
    pages.extend([8, 8, 8, 8, 8, 9, 9, 9, 9, 10]);
    assert_eq!(whole(&pages).regions()[0].busy_pages, 1, "exactly nine tenths");
    pages.push(10);
    let region = whole(&pages).regions()[0];
    assert_eq!((region.accesses, region.touched_pages, region.busy_pages), (101, 4, 2));
}

#[test]
fn what_is_left_out_is_in_memory_and_does_not_count() {
    let pages: Vec<u32> = (0..300).chain([299, 0, 5000, 5000]).collect();
    let profile = of(Given::new(&pages), Span { skip: 300, records: None });
    assert_eq!((profile.left_out(), profile.records(), profile.pages()), (300, 4, 3));
    assert_eq!(profile.first_touches(), 1, "page 5000");
    assert_eq!(profile.miss_ratio(299), 0.5, "page 0 is at the bottom");
    assert_eq!(profile.miss_ratio(300), 0.25);
    let part = of(Given::new(&pages), Span { skip: 300, records: Some(2) });
    assert_eq!((part.records(), part.pages()), (2, 2));
    let none = of(Given::new(&pages), Span { skip: 1000, records: None });
    assert_eq!((none.left_out(), none.records(), none.pages()), (304, 0, 0));
    assert_eq!(
        (none.miss_ratio(5), none.popularity(0.5), none.memory_for(0.5)),
        (0.0, 0.0, Some(0))
    );
    assert!(none.regions().is_empty());
}

#[test]
fn freed_and_moved_pages() {
    let run = |start, pages| PageRun { start: PageId(start), pages };
    let process = ProcessId(0);
    let freed = TraceEvent::Unmap { process, start: 0, len_bytes: 8192, runs: vec![run(0, 2)] };
    let profile = of(Given::new(&[0, 1, 2]).then(freed, &[0, 2]), Span { skip: 3, records: None });
    assert_eq!(profile.first_touches(), 1, "page 0 was given back");
    // Two pages up by one: they overlap with where they were.
    let moved = TraceEvent::Remap {
        process,
        old_start: 0,
        old_len_bytes: 8192,
        new_start: 4096,
        new_len_bytes: 8192,
        moves: vec![(run(0, 2), PageId(1))],
        gained: vec![],
        lost: vec![],
    };
    let profile =
        of(Given::new(&[0, 1, 9]).then(moved, &[2, 1, 0]), Span { skip: 3, records: None });
    assert_eq!(profile.first_touches(), 1, "page 0 has gone, 1 and 2 are what 0 and 1 were");
    assert_eq!([1, 2, 3].map(|c| profile.miss_ratio(c) * 3.0), [3.0, 2.0, 1.0].map(|m: f64| m));
}

#[test]
fn writes_are_told_apart() {
    let mut given = Given::new(&[1, 2, 3, 4]);
    let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::WriteBack, AccessKind::Fetch];
    given.batches[0].kinds.values_mut().extend(kinds.map(|kind| kind as u32));
    let profile = of(given, Span { skip: 1, records: None });
    assert_eq!((profile.of_kind(AccessKind::Load), profile.of_kind(AccessKind::Fetch)), (0, 1));
    assert!((profile.written() - 2.0 / 3.0).abs() < 1e-12);
}

#[test]
fn a_sweep_misses_until_everything_fits() {
    let profile = synth("scan:pages=4K:accesses=1M:init=off");
    assert_eq!(profile.pages(), 4000);
    let misses = [2, 3999, 4000].map(|pages| profile.miss_ratio(pages));
    assert!(misses[0] > 0.01 && misses[0] - misses[1] < 1e-3, "{misses:?}");
    assert!(
        (misses[2] - profile.pages() as f64 / 1e6).abs() < 1e-9,
        "first touches only: {misses:?}"
    );
    assert!((profile.popularity(0.25) - 0.25).abs() < 0.01);
}

#[test]
fn distances_by_hand() {
    // One page; two pages in turn.
    let (one, two) = (whole(&[0; 1000]), whole(&[0, 600].repeat(500)));
    let distance = Distance::between(&one, &two);
    // Both curves have one page below a share of 3/4; there all but one access hits, or none.
    let below = curve_shares().filter(|share| *share < 0.75).count() as f64;
    let expected = (below * (1.0 - 0.001) + (65.0 - below) * 0.001) / 65.0;
    assert!((distance.miss_curve - expected).abs() < 1e-9, "{distance:?}");
    assert!((distance.miss_curve_max - 0.999).abs() < 1e-9);
    assert!(distance.popularity < 1e-9, "both are straight");
    assert_eq!((distance.utilisation, distance.touched_largest), (0.0, 0.0));

    // All of 512 pages alike; one of 512 takes nine tenths.
    let even: Vec<u32> = (0..5120).map(|i| i % 512).collect();
    let odd: Vec<u32> = (0..512).chain(std::iter::repeat_n(0, 4608)).collect();
    let distance = Distance::between(&whole(&even), &whole(&odd));
    assert_eq!((distance.touched, distance.touched_largest), (0.0, 0.0));
    // Busy pages: 461 of 512 and 1 of 512.
    assert!((distance.busy - 460.0 / 512.0).abs() < 1e-9, "{distance:?}");
    assert_eq!(distance.busy_largest, 1.0);
    assert_eq!(distance.utilisation, distance.busy);
    // After the first page: 4609 of 5120 accesses against 10.
    assert!((distance.popularity - (4609.0 - 10.0) / 5120.0).abs() < 1e-9, "{distance:?}");
}

#[test]
fn distances_tell_workloads_apart_and_not_seeds() {
    let spec = "zipf:pages=16K:accesses=500K:s=";
    let reference = synth(&format!("{spec}0.9"));
    assert_eq!(Distance::between(&reference, &reference), Distance::default());
    let seed = synth(&format!("{spec}0.9:seed=77"));
    let same = Distance::between(&reference, &seed);
    assert!(same.miss_curve < 0.005 && same.popularity < 0.005, "{same:?}");
    assert!(same.utilisation < 0.03, "of 32 regions, some have a very hot page: {same:?}");
    let uniform = synth("uniform:pages=16K:accesses=500K");
    let other = Distance::between(&reference, &uniform);
    assert!(other.miss_curve > 0.15 && other.popularity > 0.3, "{other:?}");
    let back = Distance::between(&uniform, &reference);
    assert!((back.miss_curve - other.miss_curve).abs() < 1e-12);
    assert!((back.popularity - other.popularity).abs() < 1e-12);
    // The same pages are popular, in the order of rank instead of scattered.
    let clustered = synth(&format!("{spec}0.9:layout=clustered"));
    let layout = Distance::between(&reference, &clustered);
    assert!(layout.popularity < 0.01 && layout.miss_curve < 0.01, "{layout:?}");
    assert!(layout.utilisation > 0.1, "{layout:?}");
}
