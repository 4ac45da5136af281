//! Tests of what every generator promises.

use super::*;
use frostline_core::types::{AccessKind, PageId, ProcessId};
use frostline_trace::Batch;
use frostline_trace::batch::BLOCK_RECORDS;
use frostline_trace::batch::Want;
use frostline_trace::event::TraceEvent;
use std::collections::{HashMap, HashSet};

/// A small description of every generator.
fn small(name: &str) -> String {
    let rest = match name {
        "pagerank" | "pagerank-delta" | "bfs" | "cc" | "bc" | "graph500" => {
            "scale=14:accesses=150K"
        }
        "xgboost" => "size=2MiB:features=4:depth=2:accesses=150K:llc=128KiB",
        "xsbench" | "liblinear" => "size=16MiB:accesses=150K:llc=128KiB",
        "stencil" => "size=8MiB:accesses=150K",
        "ocean" => "size=8MiB:accesses=150K:grids=8",
        "btree" | "ycsb-a" | "ycsb-b" | "ycsb-c" => "size=64MiB:accesses=150K:writes=20%",
        "tpcc" => "size=64MiB:items=10K:accesses=150K",
        "scan" => "size=8MiB:accesses=150K:mix=20%:mix-size=2MiB",
        _ => "size=8MiB:accesses=150K",
    };
    format!("synth:{name}:{rest}:epoch=1M:seed=3")
}

fn open(spec: &str) -> Box<dyn TraceSource + Send> {
    let mut source = from_spec(spec).unwrap_or_else(|e| panic!("{spec}: {e}"));
    source.want(Want { clock_deltas: true, lines: true });
    source
}

/// The page of every record.
pub(super) fn pages_of(spec: &str) -> Vec<u32> {
    let (mut source, mut batch, mut pages) = (open(spec), Batch::new(), Vec::new());
    while source.next_batch(&mut batch).expect("generators do not fail") {
        pages.extend_from_slice(&batch.pages);
    }
    pages
}

/// How many marked operations there were of each kind; with `mark=1`, how many operations.
pub(super) fn operations(spec: &str) -> HashMap<u64, u64> {
    let (mut source, mut batch, mut counts) = (open(spec), Batch::new(), HashMap::new());
    while source.next_batch(&mut batch).expect("generators do not fail") {
        for event in &batch.events {
            if let TraceEvent::OpBegin { op, .. } = event.event {
                *counts.entry(op).or_insert(0) += 1;
            }
        }
    }
    counts
}

/// What a trace held.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub records: u64,
    pub by_kind: [u64; 4],
    pub pages: HashMap<u32, u64>,
    pub first_touch: Vec<u32>,
    pub touched_sets: u64,
    pub store_samples: u64,
    pub marks: u64,
    pub unmapped_early: bool,
    pub files_closed: u64,
    pub clock: u64,
}

/// Reads all of a trace and checks the order of its events and the bounds of its records.
pub(super) fn check(spec: &str) -> Summary {
    let mut source = open(spec);
    let header = source.header().clone();
    let mut batch = Batch::new();
    let mut summary = Summary::default();
    let (mut processes, mut streams) = (HashSet::new(), HashSet::new());
    let mut named = HashMap::new();
    let mut mapped: HashSet<u32> = HashSet::new();
    let mut in_operation = HashMap::new();
    let mut open_files = HashSet::new();
    let mut clock = 0;
    let mut exited = false;
    let mut since_touched: HashSet<u32> = HashSet::new();
    let mut next_epoch = 0;
    while source.next_batch(&mut batch).expect("generators do not fail") {
        assert!(!exited, "nothing follows the process's end");
        assert_eq!(batch.clock_start, clock, "batches join");
        assert!(batch.len() <= BLOCK_RECORDS);
        let mut at = clock;
        for event in &batch.events {
            assert!(event.clock >= at, "events in order: {event:?} after {at}");
            at = event.clock;
            match &event.event {
                TraceEvent::Process { process, .. } => assert!(processes.insert(*process)),
                TraceEvent::Thread { stream, process, .. } => {
                    assert!(processes.contains(process) && streams.insert(*stream));
                }
                TraceEvent::RegionNamed { region, process, huge_vpn } => {
                    assert!(processes.contains(process));
                    assert!(named.insert(*region, *huge_vpn).is_none());
                }
                TraceEvent::Map { process, start, len_bytes, runs, .. } => {
                    assert_eq!(*process, ProcessId(0));
                    let pages: u64 = runs.iter().map(|run| u64::from(run.pages)).sum();
                    assert_eq!(pages, len_bytes.div_ceil(4096));
                    for (vpn, page) in (start / 4096..).zip(runs.iter().flat_map(|r| r.iter())) {
                        assert_eq!(named.get(&page.region()), Some(&(vpn / 512)));
                        assert_eq!(u64::from(page.offset()), vpn % 512);
                        assert!(mapped.insert(page.0), "{page:?} mapped twice");
                    }
                }
                TraceEvent::Unmap { runs, .. } => {
                    for page in runs.iter().flat_map(|run| run.iter()) {
                        assert!(mapped.remove(&page.0), "{page:?} was not mapped");
                    }
                    summary.unmapped_early |= !mapped.is_empty();
                }
                TraceEvent::ThreadExit { stream } => assert!(streams.remove(stream)),
                TraceEvent::ProcessExit { .. } => {
                    assert!(mapped.is_empty() && streams.is_empty());
                    exited = true;
                }
                TraceEvent::OpBegin { stream, op } => {
                    assert!(in_operation.insert(*stream, *op).is_none());
                    summary.marks += 1;
                }
                TraceEvent::OpEnd { stream, op } => {
                    assert_eq!(in_operation.remove(stream), Some(*op));
                }
                TraceEvent::StoreSamples { samples } => {
                    assert!(!samples.is_empty());
                    summary.store_samples += samples.len() as u64;
                    for (stream, page) in samples {
                        assert!(streams.contains(stream) && mapped.contains(&page.0));
                    }
                }
                TraceEvent::Touched { epoch, regions } => {
                    assert_eq!(*epoch, next_epoch);
                    next_epoch += 1;
                    summary.touched_sets += 1;
                    let mut set = HashSet::new();
                    for (region, bits) in regions {
                        for page in region.run().iter() {
                            let offset = page.offset() as usize;
                            if bits[offset / 64] >> (offset % 64) & 1 == 1 {
                                set.insert(page.0);
                            }
                        }
                    }
                    let unseen = since_touched.difference(&set).count();
                    assert_eq!(unseen, 0, "records' pages must be in the touched set");
                    since_touched.clear();
                }
                TraceEvent::FileOpen { file, .. } => assert!(open_files.insert(*file)),
                TraceEvent::FileClose { file, .. } => {
                    assert!(open_files.remove(file));
                    summary.files_closed += 1;
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        let mut clocks = batch.clock_start;
        for i in 0..batch.len() {
            let page = batch.pages[i];
            assert!(mapped.contains(&page), "page {page} is not mapped");
            assert!(streams.iter().any(|s| s.0 == batch.streams.get(i)));
            assert!(batch.lines.get(i) < 64);
            clocks += u64::from(batch.clock_deltas.get(i));
            let kind = batch.kind(i);
            summary.by_kind[kind as usize] += 1;
            if kind.is_demand() {
                since_touched.insert(page);
            }
            let times = summary.pages.entry(page).or_insert(0);
            if *times == 0 {
                summary.first_touch.push(page);
            }
            *times += 1;
        }
        if !batch.is_empty() {
            assert!(clocks - u64::from(batch.clock_deltas.get(0)) >= batch.clock_start);
            assert!(batch.clock_start + u64::from(batch.clock_deltas.get(0)) >= at);
            assert_eq!(clocks, batch.clock_end);
        }
        assert!(batch.clock_end >= batch.clock_start);
        clock = batch.clock_end;
        summary.clock = clock;
        summary.records += batch.len() as u64;
    }
    assert!(batch.is_empty() && exited);
    assert!(!source.next_batch(&mut batch).expect("the end stays the end"));
    if let Some(pages) = header.expected_pages {
        assert!(summary.pages.keys().all(|&page| page < pages));
    }
    assert_eq!(header.epoch_length > 0, summary.touched_sets > 0);
    assert!(since_touched.is_empty() || header.epoch_length == 0, "the last epoch has its set");
    summary
}

#[test]
fn operations_take_longer_by_what_they_think() {
    // Not `etc`, whose items have ages.
    for name in ["ycsb-b", "gauss-kv", "btree", "xsbench", "hash", "java-heap"] {
        let [without, with] = ["0", "70K"].map(|think| {
            check(&format!("{name}:size=8MiB:accesses=100K:epoch=1M:mark=1:think={think}"))
        });
        assert!(with.marks > 100 && with.marks == without.marks, "{name}: {}", with.marks);
        assert_eq!(with.clock, without.clock + 70_000 * with.marks, "{name}");
        assert_eq!(with.by_kind, without.by_kind, "{name}: the same accesses");
    }
}

/// A digest of everything that a reader can see.
fn digest(spec: &str, want: Want) -> (u64, u64) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut source = from_spec(spec).expect("a good description");
    source.want(want);
    let (mut pages, mut all) = (DefaultHasher::new(), DefaultHasher::new());
    let mut batch = Batch::new();
    while source.next_batch(&mut batch).expect("no error") {
        batch.pages.hash(&mut pages);
        batch.clock_end.hash(&mut pages);
        format!("{batch:?}").hash(&mut all);
    }
    (pages.finish(), all.finish())
}

#[test]
fn every_generator_keeps_the_rules() {
    for generator in GENERATORS {
        let summary = check(&small(generator.name));
        assert!(summary.records >= 150_000, "{}: {}", generator.name, summary.records);
        assert!(summary.touched_sets > 2, "{}", generator.name);
        assert!(summary.store_samples > 50, "{}: {}", generator.name, summary.store_samples);
    }
}

#[test]
fn the_same_description_gives_the_same_bytes() {
    let all = Want { clock_deltas: true, lines: true };
    for generator in GENERATORS {
        let spec = small(generator.name);
        assert_eq!(digest(&spec, all), digest(&spec, all), "{spec}");
        let plain = digest(&spec, Want::default());
        assert_eq!(digest(&spec, all).0, plain.0, "{spec}: columns asked for change nothing else");
        let other = spec.replace("seed=3", "seed=4");
        if !["scan", "stencil"].contains(&generator.name) {
            assert_ne!(digest(&other, all).0, plain.0, "{other}: the seed must matter");
        }
    }
}

#[test]
fn initialisation_touches_pages_in_the_order_of_allocation() {
    for name in ["zipf", "uniform", "hotcold", "shift", "scan", "masim"] {
        let summary = check(&format!("{name}:size=8MiB:accesses=1000"));
        assert!(summary.first_touch.iter().copied().eq(0..2048), "{name}");
        let bare = check(&format!("{name}:size=8MiB:accesses=1000:init=off"));
        assert_eq!(bare.records, 1000, "{name}");
    }
}

#[test]
fn defaults_can_be_parsed_and_are_documented() {
    for generator in GENERATORS {
        let source = from_spec(generator.name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(source.header().name.raw(), format!("synth:{}", generator.name));
        assert!(!generator.about.is_empty() && !generator.source.is_empty());
        let mut names = HashSet::new();
        for param in generator.params {
            assert!(names.insert(param.name), "{}: {} twice", generator.name, param.name);
            assert!(!param.about.is_empty());
            if !param.default.is_empty() {
                let spec = format!("{}:{}={}", generator.name, param.name, param.default);
                assert!(from_spec(&spec).is_ok(), "{spec}");
            }
        }
        for common in ["size", "pages", "accesses", "seed", "epoch", "init"] {
            assert!(
                names.contains(common) || names.contains("scale"),
                "{}: {common}",
                generator.name
            );
        }
        assert_eq!(names.contains("thin"), generator.unthinnable.is_none());
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_hint() {
    for (spec, words) in [
        ("zip", "did you mean `zipf`"),
        ("synth:", "does not begin with a name"),
        ("zipf:pagse=4M", "did you mean `pages`"),
        ("zipf:pages=4M:size=1GiB", "both given"),
        ("zipf:pages=0", "stands for 0 pages"),
        ("zipf:pages=1T", "1TiB"),
        ("zipf:s=-1", "out of range"),
        ("zipf:s=nan", "s: "),
        ("zipf:layout=round", "scattered"),
        ("zipf:accesses=0", "too small"),
        ("zipf:writes=120%", "writes"),
        ("zipf:epoch=3", "too small"),
        ("zipf:threads=5000", "too large"),
        ("zipf:thin=0", "too small"),
        ("zipf:gap=1M:thin=65536", "exceeds"),
        ("scan:thin=10", "cannot be thinned"),
        ("shift:thin=10", "cannot be thinned"),
        ("masim:thin=10", "cannot be thinned"),
        ("masim:phases=600", "too large"),
        ("shift:hot=90%", "only"),
        ("shift:mode=jump", "replace"),
        ("kronecker-pr:scale=27:degree=64", "4 GiB is the most"),
        ("kronecker-bfs:scale=3", "too small"),
        ("kronecker-bfs:thin=2", "cannot be thinned"),
        ("ycsb-c:thin=10", "cannot be thinned"),
        ("btree:llc=3MiB", "power of two"),
        ("btree:llc=small", "llc"),
        ("btree:bloat=100%", "no pages for nodes"),
        ("ycsb-c:mark=0", "too small"),
        ("ycsb-c:engine=sqlite:writes=5%", "not modelled"),
        ("scan:per-page=65", "too large"),
        ("hotcold:hf=0.95", "give hf up to 0.900"),
        ("hotcold:hot=0", "no page hot"),
        ("hotcold:hot=100%", "no page cold"),
        ("etc:size=64GiB", "above 32 GiB"),
        ("cachelib-cdn:size=64GiB", "above 32 GiB"),
        ("cachelib-graph:keys=5", "too small"),
        ("cachelib-graph:pop=zipf", "normal"),
        ("ycsb-a:size=64GiB", "above 32 GiB"),
        ("gauss-kv:load=sorted", "shuffled"),
        ("gauss-kv:value=1MiB", "give 64 to 64KiB"),
        ("gauss-kv:size=16MiB:value=64KiB", "a larger size"),
        ("gauss-kv:spread=0", "too small"),
        ("hash:readers=0", "too small"),
        ("java-heap:live=90%", "10% to 80%"),
        ("java-heap:size=4MiB:garbage=1MiB:lookups=1000", "does not fit eden"),
        ("tpcc:size=64MiB", "fewer items"),
        ("tpcc:room=90%", "1% to 80%"),
        ("zipf:pages", "is not a parameter"),
        ("zipf:seed=1:seed=2", "given twice"),
    ] {
        match from_spec(spec) {
            Ok(_) => panic!("{spec} was taken"),
            Err(TraceError::Spec { what }) => {
                assert!(what.contains(words), "{spec}: {what}");
                assert!(what.contains("hint: "), "{spec}: {what}");
            }
            Err(other) => panic!("{spec}: {other}"),
        }
    }
}

#[test]
fn zipf_pages_follow_the_law_in_either_layout() {
    for layout in ["scattered", "clustered"] {
        let spec = format!("zipf:pages=300:accesses=2M:init=off:layout={layout}");
        let summary = check(&spec);
        let mut counts: Vec<u64> = summary.pages.values().copied().collect();
        counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        assert_eq!(counts.len(), 300);
        let pmf: Vec<f64> = (1..=300).map(|r| f64::from(r).powf(-0.99)).collect();
        testing::chi_square_ok(&counts, &pmf);
    }
}

#[test]
fn clustered_pages_are_neighbours_and_scattered_ones_are_not() {
    let hot_span = |layout: &str| {
        let spec = format!("zipf:pages=16384:accesses=400K:init=off:s=1.2:layout={layout}");
        let mut pages: Vec<(u64, u32)> =
            check(&spec).pages.iter().map(|(&page, &n)| (n, page)).collect();
        pages.sort_unstable_by_key(|&(n, _)| std::cmp::Reverse(n));
        let regions: HashSet<_> =
            pages[..256].iter().map(|&(_, page)| PageId(page).region()).collect();
        regions.len()
    };
    assert!(hot_span("clustered") <= 2);
    assert!(hot_span("scattered") > 28, "256 pages fall on nearly all of 32 regions");
}

#[test]
fn hot_pages_get_their_share() {
    let summary = check("hotcold:size=64MiB:accesses=1M:init=off:hot=10%:share=90%");
    let mut counts: Vec<u64> = summary.pages.values().copied().collect();
    counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
    let hot: u64 = counts[..1638].iter().sum();
    let share = hot as f64 / summary.records as f64;
    assert!((share - 0.9).abs() < 0.002, "{share}");
}

#[test]
fn writes_and_store_samples_have_their_rates() {
    let summary = check("uniform:size=8MiB:accesses=4M:init=off:writes=25%");
    let stores = summary.by_kind[AccessKind::Store as usize];
    assert!((stores as f64 / 4e6 - 0.25).abs() < 0.002, "{stores}");
    assert_eq!(summary.store_samples, stores / 997);
    let reads = check("uniform:size=8MiB:accesses=100K:init=off:writes=0");
    assert_eq!(reads.by_kind, [100_000, 0, 0, 0]);
}

#[test]
fn thinned_records_stand_for_several_accesses() {
    let mut source = from_spec("zipf:size=8MiB:accesses=1M:thin=10:init=off").expect("fine");
    assert_eq!(source.header().thinning, 10);
    assert_eq!(source.header().expected_records, Some(100_000));
    let (mut batch, mut records) = (Batch::new(), 0);
    while source.next_batch(&mut batch).expect("no error") {
        records += batch.len();
    }
    assert_eq!(records, 100_000);
    assert_eq!(batch.clock_end, 50_000_000, "the clock passes as if nothing had been left out");
}

#[test]
fn a_scan_reads_every_line_in_order() {
    let mut source = open("scan:pages=3:accesses=400:init=off:writes=0");
    let (mut batch, mut seen) = (Batch::new(), Vec::new());
    while source.next_batch(&mut batch).expect("no error") {
        seen.extend((0..batch.len()).map(|i| (batch.pages[i], batch.lines.get(i))));
    }
    let expected = (0..400u32).map(|i| (i / 64 % 3, i % 64));
    assert!(seen.into_iter().eq(expected));
}

#[test]
fn threads_take_turns() {
    let mut source = open("uniform:size=8MiB:accesses=10K:threads=3");
    let (mut batch, mut seen) = (Batch::new(), HashSet::new());
    while source.next_batch(&mut batch).expect("no error") {
        seen.extend((0..batch.len()).map(|i| batch.streams.get(i)));
    }
    assert_eq!(seen, HashSet::from([0, 1, 2]));
}

#[test]
fn footprints_above_a_gibibyte_are_one_run_of_pages() {
    let summary = check("uniform:size=3GiB:accesses=1000:init=off:epoch=off");
    assert_eq!(summary.records, 1000);
}

#[test]
fn what_is_left_after_the_initialisation_is_the_measured_phase() {
    for (spec, accesses) in [
        ("zipf:pages=4K:accesses=50K:thin=2", 25_000),
        ("scan:pages=4K:accesses=50K:init=off", 50_000),
        ("gauss-kv:size=8MiB:accesses=50K", 50_000),
        ("ycsb-a:size=8MiB:accesses=50K", 50_000),
        ("etc:size=8MiB:accesses=50K", 50_000),
        ("liblinear:size=8MiB:accesses=50K", 50_000),
        ("xgboost:size=32MiB:accesses=50K", 50_000),
        ("java-heap:size=16MiB:accesses=50K", 50_000),
        // What comes and goes is filled twice, 1024 pages each time.
        ("phases:size=8MiB:accesses=50K", 52_048),
    ] {
        let before = super::initialisation_records(spec).expect(spec);
        let (mut source, mut batch, mut records) = (open(spec), Batch::new(), 0);
        while source.next_batch(&mut batch).expect("no error") {
            records += batch.len() as u64;
        }
        // An operation that has begun is carried to its end.
        let measured = records - before;
        assert!((accesses..accesses + 1000).contains(&measured), "{spec}: {before}, {records}");
        assert_eq!(before == 0, spec.contains("init=off"), "{spec}");
    }
}
