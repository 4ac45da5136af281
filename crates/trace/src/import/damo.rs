//! Records of damo, DAMON's tool: how often regions were found accessed, snapshot by snapshot.

use super::amount::{Amount, Time};
use super::feed::{Batches, Feed, Item};
use super::names::{Names, Touch};
use crate::error::TraceError;
use crate::header::{ClockUnit, TraceHeader};
use frostline_core::types::{AccessKind, HUGE_PAGES, PAGE_BYTES};
use hashbrown::HashMap;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// Most records made where that is possible by leaving pages out.
const MOST_RECORDS: u128 = 1 << 24;
/// Regions of 2 MiB in which pages are kept, where that is possible by leaving pages out.
const MOST_REGIONS: u64 = 1 << 18;
/// Pages from one that is kept to the next: at most all that 64-bit addresses reach.
const LARGEST_STEP: u64 = 1 << 52;
/// Where only a share is known: sampling intervals in DAMON's usual aggregation interval.
const USUAL_SAMPLES: f64 = 20.0;

/// Turns the JSON of damo into a trace. An approximation: DAMON tells how often a region was found
/// accessed, and nothing of single accesses or of writes.
///
/// In every snapshot, each page of a region has as many loads as its region was found accessed,
/// evenly spread over the snapshot's time. Where that makes more than 2^24 records, only pages
/// whose number is a multiple of a power of two have them, the smallest that suffices, and the
/// first page of regions without such a page. Targets are processes. Times become nanoseconds since
/// the first snapshot began.
pub type DamoSource = Batches<DamoFeed>;

/// The snapshots of a file of damo.
#[derive(Debug)]
pub struct DamoFeed {
    path: PathBuf,
    /// Names of targets.
    targets: Vec<String>,
    numbers: HashMap<Target, usize>,
    snapshots: Vec<Plan>,
    /// For each region, the next round in which its pages are loaded.
    rounds: BinaryHeap<Reverse<Round>>,
    current: Option<At>,
    step: u64,
    names: Names,
}

/// kdamond, context, target.
type Target = (Option<u64>, Option<u64>, Option<u64>);

#[derive(Debug)]
struct Plan {
    target: usize,
    start: u64,
    end: u64,
    /// Most times that one of its regions was found accessed.
    rounds: u64,
    regions: Vec<Found>,
}

/// Pages `[first, end)` were found accessed `times`.
#[derive(Clone, Copy, Debug)]
struct Found {
    first: u64,
    end: u64,
    times: u64,
}

/// A round of a snapshot in which a region's pages are loaded; in the order in which rounds and regions
/// come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Round {
    clock: u64,
    snapshot: usize,
    round: u64,
    region: usize,
    /// Loads of the region's pages so far.
    loads: u64,
}

/// The round under way: the next page.
#[derive(Clone, Copy, Debug)]
struct At {
    clock: u64,
    snapshot: usize,
    page: u64,
    end: u64,
}

impl DamoSource {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it cannot be read or is not what damo writes; the text says in which line.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        match std::fs::read(path) {
            Ok(json) => Self::new(&json, path),
            Err(source) => Err(TraceError::Io { path: path.to_owned(), doing: "read", source }),
        }
    }

    /// Reads JSON; errors call it `path`.
    ///
    /// # Errors
    /// Where it is not what damo writes; the text says in which line.
    pub fn new(json: &[u8], path: impl Into<PathBuf>) -> Result<Self, TraceError> {
        Self::at_most(MOST_RECORDS, json, path.into())
    }

    fn at_most(records: u128, json: &[u8], path: PathBuf) -> Result<Self, TraceError> {
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let feed = DamoFeed::new(records, json, path)?;
        let header = TraceHeader {
            clock: ClockUnit::Nanoseconds,
            recorder: concat!("frostline ", env!("CARGO_PKG_VERSION"), " damo import").into(),
            ..TraceHeader::named(name)
        };
        Ok(Self::from_feed(header, feed))
    }
}

#[derive(Deserialize)]
struct Record {
    kdamond_idx: Option<Amount>,
    context_idx: Option<Amount>,
    target_id: Option<Amount>,
    snapshots: Option<Vec<Snapshot>>,
    // A snapshot that stands alone.
    start_time: Option<Time>,
    end_time: Option<Time>,
    regions: Option<Vec<Region>>,
}

#[derive(Deserialize)]
struct Snapshot {
    start_time: Option<Time>,
    end_time: Time,
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    start: Amount,
    end: Amount,
    nr_accesses: Option<Accesses>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "`nr_accesses` is neither a number nor `samples` and `percent`")]
enum Accesses {
    Count(Amount),
    Both { samples: Option<Amount>, percent: Option<Amount> },
}

impl DamoFeed {
    fn new(most_records: u128, json: &[u8], path: PathBuf) -> Result<Self, TraceError> {
        let records = parse(json).map_err(|error| {
            let text = error.to_string();
            let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
            let line = error.line() as u64;
            TraceError::Text { path: path.clone(), line, what: format!("not of damo: {what}") }
        })?;
        let mut feed = Self {
            path,
            targets: Vec::new(),
            numbers: HashMap::new(),
            snapshots: Vec::new(),
            rounds: BinaryHeap::new(),
            current: None,
            step: 1,
            names: Names::default(),
        };
        for (number, record) in records.into_iter().enumerate() {
            feed.add(record).map_err(|what| feed.wrong(&format!("record {number}: {what}")))?;
        }
        feed.choose_step(most_records)?;
        let origin = feed.snapshots.iter().map(|plan| plan.start).min().unwrap_or(0);
        for (snapshot, plan) in feed.snapshots.iter_mut().enumerate() {
            plan.start -= origin;
            plan.end -= origin;
            feed.rounds.extend(
                (0..plan.regions.len()).map(|region| Reverse(plan.round(snapshot, region, 0))),
            );
        }
        Ok(feed)
    }

    fn wrong(&self, what: &str) -> TraceError {
        TraceError::Foreign { path: self.path.clone(), what: what.to_owned() }
    }

    fn add(&mut self, record: Record) -> Result<(), String> {
        let whole = |amount: Option<Amount>| amount.and_then(|Amount(number)| number.whole());
        let [kdamond, context, id] =
            [record.kdamond_idx, record.context_idx, record.target_id].map(whole);
        let target = (kdamond, context, id);
        let snapshots = match (record.snapshots, record.regions, record.end_time) {
            (Some(snapshots), ..) => snapshots,
            (None, Some(regions), Some(end_time)) => {
                vec![Snapshot { start_time: record.start_time, end_time, regions }]
            }
            _ => return Err("it has no `snapshots`".to_owned()),
        };
        let target = *self.numbers.entry(target).or_insert_with(|| {
            self.targets.push(id.map_or_else(String::new, |id| format!("DAMON target {id}")));
            self.targets.len() - 1
        });
        let mut before = None;
        for (number, snapshot) in snapshots.iter().enumerate() {
            let at = |what| format!("snapshot {number}: {what}");
            let end = snapshot.end_time.0;
            let start = snapshot.start_time.map(|time| time.0).or(before).unwrap_or(end);
            if start > end {
                return Err(at("it ends before it begins".to_owned()));
            }
            before = Some(end);
            let mut regions = Vec::new();
            for (number, region) in snapshot.regions.iter().enumerate() {
                let found =
                    region.found().map_err(|what| at(format!("region {number}: {what}")))?;
                regions.extend(found);
            }
            let rounds = regions.iter().map(|found| found.times).max().unwrap_or(0);
            self.snapshots.push(Plan { target, start, end, rounds, regions });
        }
        Ok(())
    }

    fn choose_step(&mut self, most: u128) -> Result<(), TraceError> {
        let regions = || self.snapshots.iter().flat_map(|plan| &plan.regions);
        let records = |step| -> u128 {
            regions().map(|found| u128::from(found.pages(step)) * u128::from(found.times)).sum()
        };
        let extents = self.extents();
        let spread = |step: u64| -> u64 {
            let of = |(first, end): &(u64, u64)| end.div_ceil(step) - first.div_ceil(step);
            extents.iter().map(|extent| of(extent) / (u64::from(HUGE_PAGES) / step).max(1)).sum()
        };
        while records(self.step) > most || spread(self.step) > MOST_REGIONS {
            if self.step == LARGEST_STEP {
                let what = "it would make more than 16 million records, one page to a region\n\
                            hint: record with a longer aggregation interval, or fewer snapshots";
                return Err(self.wrong(what));
            }
            self.step *= 2;
        }
        Ok(())
    }

    /// Stretches of pages in which regions lie, those that touch or overlap joined.
    fn extents(&self) -> Vec<(u64, u64)> {
        let regions = self.snapshots.iter().flat_map(|plan| &plan.regions);
        let mut all: Vec<(u64, u64)> = regions.map(|found| (found.first, found.end)).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let joined = next.0 <= last.1;
            if joined {
                last.1 = last.1.max(next.1);
            }
            joined
        });
        all
    }

    /// The next page of the round that is under way, or of the one that comes then.
    fn advance(&mut self) -> Option<(At, u64)> {
        loop {
            if let Some(at) = &mut self.current
                && at.page < at.end
            {
                let page = at.page;
                at.page = (page + 1).next_multiple_of(self.step);
                return Some((*at, page));
            }
            let Reverse(Round { clock, snapshot, region, loads, .. }) = self.rounds.pop()?;
            let plan = &self.snapshots[snapshot];
            let found = plan.regions[region];
            if loads + 1 < found.times {
                self.rounds.push(Reverse(plan.round(snapshot, region, loads + 1)));
            }
            let page = found.first_kept(self.step);
            self.current = Some(At { clock, snapshot, page, end: found.end });
        }
    }
}

impl Plan {
    /// The round in which a region's pages are loaded once more. Loads are spread evenly over the rounds.
    fn round(&self, snapshot: usize, region: usize, loads: u64) -> Round {
        let (rounds, times) = (u128::from(self.rounds), u128::from(self.regions[region].times));
        let round = (u128::from(loads + 1) * rounds).div_ceil(times) - 1;
        let passed = u128::from(self.end - self.start) * round / rounds;
        let clock = self.start + passed as u64;
        Round { clock, snapshot, round: round as u64, region, loads }
    }
}

impl Region {
    /// `None` where it was not found accessed or is empty.
    fn found(&self) -> Result<Option<Found>, String> {
        let address = |name, Amount(number): Amount| {
            number.whole().ok_or_else(|| format!("`{name}` is below 0"))
        };
        let (start, end) = (address("start", self.start)?, address("end", self.end)?);
        if end < start {
            return Err(format!("it ends at {end}, before its start {start}"));
        }
        let times = match self.nr_accesses {
            Some(Accesses::Count(count) | Accesses::Both { samples: Some(count), .. }) => {
                // Damo marks snapshots of its own making by -1.
                count.0.whole().unwrap_or(0)
            }
            Some(Accesses::Both { percent: Some(percent), .. }) => {
                (percent.0.real() / 100.0 * USUAL_SAMPLES).ceil().max(0.0) as u64
            }
            Some(Accesses::Both { .. }) | None => 0,
        };
        if times > u64::from(u32::MAX) {
            return Err(format!("`nr_accesses` is {times}, more than DAMON counts to"));
        }
        let (first, end) = (start / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        Ok((times > 0 && first < end).then_some(Found { first, end, times }))
    }
}

impl Found {
    fn first_kept(self, step: u64) -> u64 {
        let page = self.first.next_multiple_of(step);
        if page < self.end { page } else { self.first }
    }

    /// Number of pages that are kept.
    fn pages(self, step: u64) -> u64 {
        (self.end.div_ceil(step) - self.first.div_ceil(step)).max(1)
    }
}

impl Feed for DamoFeed {
    fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.names.pop() {
                return Ok(Some(item));
            }
            let Some((at, page)) = self.advance() else { return Ok(None) };
            let target = self.snapshots[at.snapshot].target;
            let touch = Touch {
                clock: at.clock,
                process: target as u64,
                pid: 0,
                command: &self.targets[target],
                tid: 0,
                address: page * PAGE_BYTES,
                kind: AccessKind::Load,
            };
            let done = self.names.touch(touch);
            done.map_err(|what| self.wrong(what))?;
        }
    }

    fn warning(&self) -> Option<String> {
        let kept = match self.step {
            1 => "each page".to_owned(),
            step => format!("one page in {step}, standing for the others,"),
        };
        Some(format!(
            "an approximation, made of {} snapshots: {kept} has a load for each time that DAMON \
             found its region accessed; single accesses, and writes, are not known",
            self.snapshots.len()
        ))
    }
}

/// A list of records, or a single one.
fn parse(json: &[u8]) -> serde_json::Result<Vec<Record>> {
    match json.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => serde_json::from_slice(json).map(|record| vec![record]),
        _ => serde_json::from_slice(json),
    }
}

#[cfg(test)]
mod tests {
    use super::super::feed::testing;
    use super::*;
    use crate::batch::TraceSource;
    use proptest::prelude::*;

    const GOLDEN: &str = r#"[
    {
        "kdamond_idx": 0, "context_idx": "0", "scheme_idx": null, "target_id": 0,
        "intervals": {"sample_us": "5 ms", "aggr_us": "100 ms", "ops_update_us": "1 s"},
        "scheme_filters": [],
        "snapshots": [
            {
                "start_time": "1 m 40 s", "end_time": "1 m 40 s 100 ms", "total_bytes": "24.000 KiB",
                "regions": [
                    {"start": "2,097,152", "end": "2,105,344",
                     "nr_accesses": {"samples": "4", "percent": "20 %"},
                     "age": {"usec": "100 ms", "aggr_intervals": "1"}},
                    {"start": 4194304, "end": 4198400, "nr_accesses": {"samples": 1, "percent": null}},
                    {"start": "4,198,400", "end": "4,206,592", "nr_accesses": 0, "age": 7},
                    {"start": "8192000", "end": "8196096", "nr_accesses": {"samples": null, "percent": "6"}}
                ]
            },
            {"start_time": 0, "end_time": "0",
             "regions": [{"start": 0, "end": 0, "nr_accesses": {"samples": "-1", "percent": "0"}, "age": null}]}
        ]
    }
]"#;

    fn read(json: &str) -> (Vec<String>, Option<String>) {
        let mut source = DamoSource::new(json.as_bytes(), "d.json").unwrap();
        let (found, result) = testing::read(&mut source);
        result.unwrap();
        (found.into_iter().filter(|f| f.contains(' ')).collect(), source.warning())
    }

    fn one_region(start: u64, end: u64, times: u64) -> String {
        format!(
            r#"{{"target_id": 7, "snapshots": [{{"start_time": 0, "end_time": 100,
                "regions": [{{"start": {start}, "end": {end}, "nr_accesses": {times}}}]}}]}}"#
        )
    }

    #[test]
    fn pages_are_loaded_as_often_as_their_region_was_found_accessed() {
        let (found, warning) =
            read(&GOLDEN.replace("\"1 m 40 s\"", "0").replace("1 m 40 s 100 ms", "400 ns"));
        assert_eq!(
            found,
            [
                "0 0 Load 0 0",
                "0 1 Load 0 0",
                "100 0 Load 0 0",
                "100 1 Load 0 0",
                "100 976 Load 0 0",
                "200 0 Load 0 0",
                "200 1 Load 0 0",
                "300 0 Load 0 0",
                "300 1 Load 0 0",
                "300 1024 Load 0 0",
                "300 976 Load 0 0",
            ]
        );
        assert!(warning.unwrap().contains("approximation, made of 2 snapshots: each page"));
    }

    #[test]
    fn times_begin_with_the_first_snapshot() {
        let json =
            GOLDEN.replace("\"start_time\": 0, \"end_time\": \"0\"", "\"end_time\": \"1 m 41 s\"");
        let (found, _) = read(&json);
        assert_eq!(found.first().unwrap(), "0 0 Load 0 0");
        assert_eq!(found.last().unwrap(), "75000000 976 Load 0 0");
    }

    #[test]
    fn large_regions_keep_evenly_spaced_pages() {
        let kept = |json: &str| {
            let path = PathBuf::from("d.json");
            let mut source = DamoSource::at_most(1000, json.as_bytes(), path).unwrap();
            let (found, result) = testing::read(&mut source);
            result.unwrap();
            let found: Vec<_> = found.into_iter().filter(|f| f.contains(' ')).collect();
            (found, source.warning().unwrap())
        };
        let (found, warning) = kept(&one_region(0, 1024 * 4096, 3));
        assert!(warning.contains("one page in 4, "), "{warning}");
        assert_eq!(found.len(), 3 * 256);
        assert_eq!(found[..2], ["0 0 Load 0 0", "0 4 Load 0 0"]);
        let (found, _) = kept(&one_region(4096, u64::MAX - 4096, 1));
        assert_eq!(found.len(), 511);
        assert_eq!(kept(&one_region(4096, 8192, 1000)).0.len(), 1000);
    }

    /// Rounds, one after the other, and in each the regions whose turn it is.
    fn slowly(rounds: u64, times: &[u64]) -> Vec<(u64, usize)> {
        let turn = |round: u64, times: u64| (round + 1) * times / rounds > round * times / rounds;
        let regions = |round| (0..times.len()).filter(move |region| turn(round, times[*region]));
        (0..rounds).flat_map(|round| regions(round).map(move |region| (round, region))).collect()
    }

    #[test]
    fn rounds_in_which_nothing_is_loaded_cost_nothing() {
        // One region that is loaded in every round, and many that are loaded once.
        let mut regions = vec![r#"{"start": 0, "end": 1, "nr_accesses": 100000}"#.to_owned()];
        regions.extend((1..4000).map(|n| {
            format!(r#"{{"start": {}, "end": {}, "nr_accesses": 1}}"#, n * 4096, n * 4096 + 1)
        }));
        let list = regions.join(",");
        let json = format!(
            r#"{{"target_id": 7, "snapshots": [{{"start_time": 0, "end_time": 100, "regions": [{list}]}}]}}"#
        );
        let mut feed = DamoFeed::new(MOST_RECORDS, json.as_bytes(), "d".into()).unwrap();
        let mut steps = 0;
        while feed.advance().is_some() {
            steps += 1;
            // What is still to come is one round a region, whatever the number of rounds.
            assert!(feed.rounds.len() <= 4000);
        }
        assert_eq!(steps, 100_000 + 3999);
    }

    #[test]
    fn regions_as_large_as_addresses_keep_few_pages_in_few_regions() {
        let json = one_region(0, u64::MAX, 1);
        let mut feed = DamoFeed::new(MOST_RECORDS, json.as_bytes(), "d".into()).unwrap();
        assert!(feed.step > 1 << 20);
        let pages = std::iter::from_fn(|| feed.advance()).count();
        assert!((1 << 16..=1 << 18).contains(&pages), "{pages}");
    }

    #[test]
    fn single_records_and_single_snapshots_are_taken() {
        assert_eq!(read(&one_region(0, 4096, 2)).0, ["0 0 Load 0 0", "50 0 Load 0 0"]);
        let bare = r#"[{"start_time": 5, "end_time": 9, "regions": [{"start": 0, "end": 1, "nr_accesses": 1}]}]"#;
        assert_eq!(read(bare).0, ["0 0 Load 0 0"]);
        assert_eq!(read("[]").0, [""; 0]);
    }

    #[test]
    fn targets_share_the_time() {
        let two = format!(
            "[{}, {}]",
            one_region(0, 4096, 2),
            one_region(0, 4096, 2).replace("7,", "8,").replace("100", "60")
        );
        let expected = ["0 0 Load 0 0", "0 512 Load 1 0", "30 512 Load 1 0", "50 0 Load 0 0"];
        assert_eq!(read(&two).0, expected);
    }

    #[test]
    fn damage_is_named() {
        for (from, to, what) in [
            ("\"2,097,152\"", "\"two\"", "line 10: not of damo: `two` is not a number"),
            ("\"1 m 40 s\"", "\"1 fortnight\"", "line 8: not of damo: `1 fortnight` is not a time"),
            ("\"1 m 40 s\"", "\"2 m\"", "record 0: snapshot 0: it ends before it begins"),
            ("4194304", "4198401", "record 0: snapshot 0: region 1: it ends at 4198400"),
            ("4194304", "-1", "`start` is below 0"),
            ("\"4\"", "\"5,000,000,000\"", "more than DAMON counts"),
            ("\"4\"", "\"4,000,000,000\"", "16 million records"),
            ("\"nr_accesses\": 0", "\"nr_accesses\": []", "neither a number nor"),
            ("\"snapshots\"", "\"shots\"", "record 0: it has no `snapshots`"),
            ("]\n    }\n]", "", "not of damo: EOF"),
        ] {
            let json = GOLDEN.replacen(from, to, 1);
            let (json, what) = if from.starts_with(']') {
                (GOLDEN[..GOLDEN.len() - 9].to_owned(), what)
            } else {
                assert_ne!(json, GOLDEN, "{from}");
                (json, what)
            };
            let error = DamoSource::new(json.as_bytes(), "d.json").unwrap_err().to_string();
            assert!(error.starts_with("d.json: ") && error.contains(what), "{what}: {error}");
        }
    }

    proptest! {
        #[test]
        fn loads_come_in_the_rounds_that_going_through_all_finds(
            times in proptest::collection::vec(1u64..40, 1..8),
        ) {
            let found = |(n, times): (usize, &u64)| {
                let first = 1000 * n as u64;
                Found { first, end: first + 1, times: *times }
            };
            let regions: Vec<Found> = times.iter().enumerate().map(found).collect();
            let rounds = *times.iter().max().unwrap();
            let plan = Plan { target: 0, start: 0, end: 7, rounds, regions };
            let mut ours: Vec<Round> = Vec::new();
            for (region, times) in times.iter().enumerate() {
                ours.extend((0..*times).map(|loads| plan.round(0, region, loads)));
            }
            ours.sort_unstable();
            let ours: Vec<_> = ours.iter().map(|round| (round.round, round.region)).collect();
            prop_assert_eq!(ours, slowly(rounds, &times));
        }

        #[test]
        fn no_input_panics(text in "[\\[\\]{}:,\"a-z0-9 .-]{0,200}", at: usize, byte: u8) {
            let _ = DamoSource::new(text.as_bytes(), "d");
            let mut bytes = GOLDEN.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..at]] {
                if let Ok(mut source) = DamoSource::new(bytes, "d") {
                    let mut batch = crate::Batch::new();
                    let mut batches = 0;
                    while batches < 100 && matches!(source.next_batch(&mut batch), Ok(true)) {
                        batches += 1;
                    }
                }
            }
        }
    }
}
