//! Records of damo, DAMON's tool: how often regions were found accessed, snapshot by snapshot.

use super::amount::{Amount, Time};
use super::feed::{Batches, Feed, Item};
use super::names::{Names, Touch};
use crate::error::TraceError;
use crate::header::{ClockUnit, TraceHeader};
use frostline_core::types::{AccessKind, PAGE_BYTES};
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// Most records made where that is possible by leaving pages out.
const MOST_RECORDS: u128 = 1 << 24;
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
    targets: Vec<(Target, String)>,
    snapshots: Vec<Plan>,
    /// Rounds to come: time, snapshot, number in it.
    rounds: BinaryHeap<Reverse<(u64, usize, u64)>>,
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

/// A round of a snapshot: the next page of the next region.
#[derive(Clone, Copy, Debug)]
struct At {
    clock: u64,
    snapshot: usize,
    round: u64,
    region: usize,
    page: Option<u64>,
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
        for (number, plan) in feed.snapshots.iter_mut().enumerate() {
            plan.start -= origin;
            plan.end -= origin;
            if plan.rounds > 0 {
                feed.rounds.push(Reverse((plan.start, number, 0)));
            }
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
        let known = self.targets.iter().position(|(known, _)| *known == target);
        let target = known.unwrap_or_else(|| {
            let name = id.map_or_else(String::new, |id| format!("DAMON target {id}"));
            self.targets.push((target, name));
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
        while records(self.step) > most {
            if self.step == LARGEST_STEP {
                let what = "it would make more than 16 million records, one page to a region\n\
                            hint: record with a longer aggregation interval, or fewer snapshots";
                return Err(self.wrong(what));
            }
            self.step *= 2;
        }
        Ok(())
    }

    /// The next page of the round that is under way, or of the one that comes then.
    fn advance(&mut self) -> Option<(At, u64)> {
        loop {
            let Some(mut at) = self.current else {
                let Reverse((clock, snapshot, round)) = self.rounds.pop()?;
                let plan = &self.snapshots[snapshot];
                if round + 1 < plan.rounds {
                    let span = u128::from(plan.end - plan.start);
                    let passed = span * u128::from(round + 1) / u128::from(plan.rounds);
                    let next = plan.start + passed as u64;
                    self.rounds.push(Reverse((next, snapshot, round + 1)));
                }
                self.current = Some(At { clock, snapshot, round, region: 0, page: None });
                continue;
            };
            let plan = &self.snapshots[at.snapshot];
            let Some(found) = plan.regions.get(at.region) else {
                self.current = None;
                continue;
            };
            let done = |round: u64| round * found.times / plan.rounds;
            let page = match at.page {
                None if done(at.round + 1) == done(at.round) => found.end,
                None => found.first_kept(self.step),
                Some(page) => (page + 1).next_multiple_of(self.step),
            };
            if page >= found.end {
                (at.region, at.page) = (at.region + 1, None);
                self.current = Some(at);
                continue;
            }
            at.page = Some(page);
            self.current = Some(at);
            return Some((at, page));
        }
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
                command: &self.targets[target].1,
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
