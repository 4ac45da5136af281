//! Sparse traces read with dense numbers, beside a slow way to number them.

use super::Sheet;
use crate::event::{StreamId, TraceEvent};
use crate::{Batch, MemTrace, TraceHeader, TraceSource, TraceWriter};
use frostline_core::Limit;
use frostline_core::types::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Access(u32, u32),
    Unmap(PageRun),
    Samples(Vec<u32>),
    Touched(u32, [u64; 8]),
    Move(PageRun, u32),
}

fn trace(steps: &[Step], finished: bool) -> MemTrace {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "t", &TraceHeader::named("t")).unwrap();
    let process = ProcessId(0);
    for (clock, step) in (0..).zip(steps) {
        match step {
            Step::Access(page, stream) => {
                let (page, stream) = (PageId(*page), StreamId(*stream));
                writer.access(clock, page, AccessKind::Load, stream, 0).unwrap();
            }
            Step::Unmap(run) => {
                let (start, len_bytes, runs) = (0, 1, vec![*run]);
                writer.event(clock, TraceEvent::Unmap { process, start, len_bytes, runs }).unwrap();
            }
            Step::Samples(pages) => {
                let samples = pages.iter().map(|page| (StreamId(9), PageId(*page))).collect();
                writer.event(clock, TraceEvent::StoreSamples { samples }).unwrap();
            }
            Step::Touched(region, bits) => {
                let regions = vec![(Region(*region), *bits)];
                writer.event(clock, TraceEvent::Touched { epoch: 0, regions }).unwrap();
            }
            Step::Move(from, to) => {
                let event = TraceEvent::Remap {
                    process,
                    old_start: 0,
                    old_len_bytes: 0,
                    new_start: 0,
                    new_len_bytes: 0,
                    moves: vec![(*from, PageId(*to))],
                    gained: Vec::new(),
                    lost: Vec::new(),
                };
                writer.event(clock, event).unwrap();
            }
        }
    }
    match finished {
        true => drop(writer.finish().unwrap()),
        false => drop(writer),
    }
    MemTrace::from_bytes(bytes, "t")
}

/// Batches as events and accesses, one after the other.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Access(u32, u32),
    Event(TraceEvent),
}

fn read(source: &mut dyn TraceSource) -> Vec<Seen> {
    let (mut batch, mut seen) = (Batch::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        seen.extend(batch.events.iter().map(|event| Seen::Event(event.event.clone())));
        let accesses = batch.pages.iter().enumerate();
        seen.extend(accesses.map(|(i, page)| Seen::Access(*page, batch.streams.get(i))));
    }
    seen
}

fn bits_of(region: u32, bits: &[u64; 8]) -> impl Iterator<Item = u32> {
    let bits = *bits;
    (0..512)
        .filter(move |i| bits[i / 64] >> (i % 64) & 1 == 1)
        .map(move |i| region * 512 + i as u32)
}

/// Pages that are accessed or moved to after an access, page by page.
fn accessed(steps: &[Step]) -> BTreeSet<u32> {
    let mut pages = BTreeSet::new();
    for step in steps {
        match step {
            Step::Access(page, _) => drop(pages.insert(*page)),
            Step::Samples(samples) => pages.extend(samples),
            Step::Touched(region, bits) => pages.extend(bits_of(*region, bits)),
            Step::Unmap(_) => {}
            Step::Move(from, to) => {
                let moved: Vec<u32> = pages.range(from.start.0..from.end()).copied().collect();
                pages.extend(moved.iter().map(|page| to + (page - from.start.0)));
            }
        }
    }
    pages
}

/// Ids that keep the order: regions that have any page accessed, in their order, or of those with fewer than
/// `few`, pages side by side.
fn slowly(pages: &BTreeSet<u32>, few: u32) -> BTreeMap<u32, u32> {
    let mut by_region: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    pages.iter().for_each(|page| by_region.entry(page / 512).or_default().push(*page));
    let (mut ids, mut next) = (BTreeMap::new(), 0u32);
    for pages in by_region.values() {
        if (pages.len() as u32) < few {
            for page in pages {
                ids.insert(*page, next);
                next += 1;
            }
        } else {
            next = next.next_multiple_of(512);
            ids.extend(pages.iter().map(|page| (*page, next + page % 512)));
            next += 512;
        }
    }
    ids
}

/// Pages near each other in a few places all over the ids.
fn page() -> impl Strategy<Value = u32> {
    let place = prop_oneof![Just(0u32), Just(7 << 20), Just(u32::MAX - 5000), 0..u32::MAX - 5000];
    (place, prop_oneof![0u32..40, 0u32..3000]).prop_map(|(place, offset)| place + offset)
}

fn run() -> impl Strategy<Value = PageRun> {
    let pages = prop_oneof![0u32..700, 0..u32::MAX];
    (page(), pages).prop_map(|(start, pages)| PageRun {
        start: PageId(start),
        pages: pages.min(u32::MAX - start),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let stream = prop_oneof![0u32..3, Just(u32::MAX), 1u32 << 16..1 << 20];
    let bits = proptest::collection::vec(0usize..512, 1..50);
    let moved = (page(), 1u32..1500, page());
    prop_oneof![
        8 => (page(), stream).prop_map(|(page, stream)| Step::Access(page, stream)),
        1 => run().prop_map(Step::Unmap),
        1 => proptest::collection::vec(page(), 1..4).prop_map(Step::Samples),
        1 => (page(), bits).prop_map(|(page, set)| {
            let mut bits = [0; 8];
            set.into_iter().for_each(|bit| bits[bit / 64] |= 1 << (bit % 64));
            Step::Touched(page / 512, bits)
        }),
        1 => moved.prop_map(|(from, pages, to)| {
            let pages = pages.min(u32::MAX - from.max(to));
            Step::Move(PageRun { start: PageId(from), pages }, to)
        }),
    ]
}

/// What reading gives, in the trace's own page ids: by a page-by-page look at what both say.
fn check(steps: &[Step], seen: &[Seen], ids: &BTreeMap<u32, u32>) -> Result<(), TestCaseError> {
    let mut streams: BTreeMap<u32, u32> = BTreeMap::new();
    let ids_within = |run: &PageRun| -> Vec<u32> {
        ids.range(run.start.0..run.end()).map(|(_, id)| *id).collect()
    };
    let known: BTreeSet<u32> = ids.values().copied().collect();
    prop_assert_eq!(steps.len(), seen.len());
    for (step, seen) in steps.iter().zip(seen) {
        match (step, seen) {
            (Step::Access(page, stream), Seen::Access(id, dense)) => {
                prop_assert_eq!(ids[page], *id);
                prop_assert!(*dense < (1 << 16) + 1000, "{}", dense);
                prop_assert_eq!(*streams.entry(*stream).or_insert(*dense), *dense);
            }
            (Step::Unmap(run), Seen::Event(TraceEvent::Unmap { runs, .. })) => {
                let told = runs.iter().flat_map(|run| known.range(run.start.0..run.end()));
                prop_assert_eq!(ids_within(run), told.copied().collect::<Vec<_>>());
            }
            (Step::Samples(pages), Seen::Event(TraceEvent::StoreSamples { samples })) => {
                let told: Vec<u32> = samples.iter().map(|(_, page)| page.0).collect();
                prop_assert_eq!(pages.iter().map(|page| ids[page]).collect::<Vec<_>>(), told);
            }
            (Step::Touched(region, bits), Seen::Event(TraceEvent::Touched { regions, .. })) => {
                let mut told: Vec<u32> =
                    regions.iter().flat_map(|(region, bits)| bits_of(region.0, bits)).collect();
                told.sort_unstable();
                let wanted: Vec<u32> = bits_of(*region, bits).map(|page| ids[&page]).collect();
                prop_assert_eq!(wanted, told);
            }
            (Step::Move(from, to), Seen::Event(TraceEvent::Remap { moves, .. })) => {
                let mut told: BTreeMap<u32, u32> = BTreeMap::new();
                for (run, to) in moves {
                    told.extend(run.iter().map(|page| (page.0, to.0 + (page.0 - run.start.0))));
                }
                for (page, id) in ids.range(from.start.0..from.end()) {
                    let target = ids.get(&(to + (page - from.start.0)));
                    if let Some(target) = target {
                        prop_assert_eq!(told.get(id), Some(target));
                    }
                }
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
    Ok(())
}

fn streams_of(seen: &[Seen]) -> BTreeSet<u32> {
    let stream = |seen: &Seen| match seen {
        Seen::Access(_, stream) => Some(*stream),
        Seen::Event(_) => None,
    };
    seen.iter().filter_map(stream).collect()
}

proptest! {
    #[test]
    fn sparse_traces_are_numbered_as_going_through_all_pages_does(
        mut steps in proptest::collection::vec(step(), 1..60),
        finished: bool,
    ) {
        // Something far out, so that ids do not stay.
        steps.insert(0, Step::Access(u32::MAX - 1, 0));
        let reader = trace(&steps, finished).reader().unwrap();
        let mut reader = reader.dense(Limit::default()).unwrap();
        let ids = slowly(&accessed(&steps), 0);
        let sheet = reader.sheet().unwrap();
        prop_assert!(ids.values().all(|id| *id < sheet.end()));
        prop_assert_eq!(u64::from(sheet.end()), 512 * ids.values().map(|id| id / 512).collect::<BTreeSet<_>>().len() as u64);
        prop_assert_eq!(reader.header().expected_pages, Some(sheet.end()));
        let seen = read(&mut reader);
        check(&steps, &seen, &ids)?;
        prop_assert!(streams_of(&seen).iter().all(|stream| *stream < (1 << 16) + 60));
    }

    #[test]
    fn pages_of_regions_with_few_lie_side_by_side(
        steps in proptest::collection::vec(step(), 1..60),
        few in 1u32..40,
    ) {
        let pages = accessed(&steps);
        let ids = slowly(&pages, few);
        let mut regions: BTreeMap<u32, [u64; 8]> = BTreeMap::new();
        for page in &pages {
            let bits = regions.entry(page / 512).or_default();
            bits[*page as usize % 512 / 64] |= 1 << (page % 64);
        }
        let list: Vec<_> = regions.iter().map(|(region, bits)| (*region, bits)).collect();
        let sheet = Sheet::new(list.iter().copied(), few);
        for (page, id) in &ids {
            prop_assert_eq!(sheet.page(PageId(*page)), Some(PageId(*id)));
        }
        let reader = trace(&steps, true).reader().unwrap();
        let seen = read(&mut reader.with_sheet(std::sync::Arc::new(sheet)));
        check(&steps, &seen, &ids)?;
    }

    #[test]
    fn dense_traces_stay_as_they_are(
        pages in proptest::collection::vec((0u32..1 << 20, 0u32..3), 1..600),
        finished: bool,
    ) {
        let steps: Vec<Step> = pages.iter().map(|(page, stream)| Step::Access(*page, *stream)).collect();
        let trace = trace(&steps, finished);
        let dense = read(&mut trace.reader().unwrap().dense(Limit::default()).unwrap());
        prop_assert_eq!(read(&mut trace.reader().unwrap()), dense);
    }
}

#[test]
fn scattered_pages_take_memory_in_proportion() {
    let steps: Vec<Step> =
        (0..20_000u32).map(|n| Step::Access(n * 65_537 % (1 << 31), 0)).collect();
    let reader = trace(&steps, false).reader().unwrap().dense(Limit::default()).unwrap();
    let sheet = reader.sheet().unwrap();
    assert_eq!(sheet.end(), 20_000, "one id for each page");
    assert!(sheet.note().is_some());
    let few: Vec<Step> = steps.into_iter().take(1000).collect();
    let reader = trace(&few, false).reader().unwrap().dense(Limit::default()).unwrap();
    let sheet = reader.sheet().unwrap();
    assert_eq!(sheet.end(), 512_000, "one region for each page, where that is little");
    assert!(sheet.note().is_none());
}

#[test]
fn a_page_moves_once_where_old_and_new_place_overlap() {
    // Page 320 goes to 681, which lies in the old place, too, and would go on to 1042.
    let moved = PageRun { start: PageId(155), pages: 600 };
    let far = Step::Access(u32::MAX - 1, 0);
    let steps = [Step::Access(320, 0), Step::Access(512, 0), Step::Move(moved, 516), far];
    let reader = trace(&steps, true).reader().unwrap().dense(Limit::default()).unwrap();
    let sheet = reader.sheet().unwrap();
    assert_eq!(sheet.page(PageId(681)), Some(PageId(681)));
    assert_eq!(sheet.end(), 3 * 512, "the regions of 320, of 681, and the last");
}
