//! A live run's journal as a trace.

use frostline_core::event::{Event, Fault, SampleKind};
use frostline_core::types::*;
use frostline_driver::DriverError;
use frostline_driver::journal::{Entries, Entry};
use frostline_terminal::limit;
use frostline_trace::event::{MapKind, StreamId};
use frostline_trace::header::ClockUnit;
use frostline_trace::import::{Access, Batches, Feed, Item};
use frostline_trace::{TimedEvent, TraceError, TraceEvent, TraceHeader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The samples of a journal with the allocations around them.
///
/// Pages keep their ids. A journal holds no addresses, so the trace has a page's id times 4 KiB
/// instead. Times are nanoseconds since the run began.
pub type JournalSource<R> = Batches<JournalFeed<R>>;

/// Reads a journal for [`JournalSource`].
#[derive(Debug)]
pub struct JournalFeed<R> {
    path: PathBuf,
    entries: Entries<R>,
    items: VecDeque<Item>,
    /// By pid: number in the trace. Its only thread has the same number.
    processes: BTreeMap<ProcessId, ProcessId>,
    /// Processes that the trace has seen.
    seen: u32,
    owners: BTreeMap<Region, ProcessId>,
    sampled: BTreeSet<PageId>,
    populated: BTreeSet<Region>,
    samples: u64,
    lost: u64,
}

/// Opens a file.
///
/// # Errors
/// Where it cannot be read, is no journal, or does not begin with a setup.
pub fn open(path: &Path) -> Result<JournalSource<BufReader<File>>, DriverError> {
    from_entries(path, Entries::open(path)?.within(limit::current()))
}

/// Reads entries from their beginning; `path` is for messages.
///
/// # Errors
/// Where they do not begin with a setup.
pub fn from_entries<R: Read>(
    path: &Path,
    mut entries: Entries<R>,
) -> Result<JournalSource<R>, DriverError> {
    let Some(Entry::Setup(setup)) = entries.next_entry()? else {
        let what = "it does not begin with the engine's setup".to_owned();
        return Err(DriverError::Journal { path: path.into(), what });
    };
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let version = env!("CARGO_PKG_VERSION");
    let header = TraceHeader {
        clock: ClockUnit::Nanoseconds,
        recorder: format!("frostline {version} journal, policy {}", setup.policy).into(),
        ..TraceHeader::named(name)
    };
    let feed = JournalFeed {
        path: path.into(),
        entries,
        items: VecDeque::new(),
        processes: BTreeMap::new(),
        seen: 0,
        owners: BTreeMap::new(),
        sampled: BTreeSet::new(),
        populated: BTreeSet::new(),
        samples: 0,
        lost: 0,
    };
    Ok(Batches::from_feed(header, feed))
}

impl<R: Read> JournalFeed<R> {
    fn take(&mut self, now: Nanos, events: &[Event]) {
        let mut touched: Option<Fault> = None;
        for event in events {
            if let Event::Sample(sample) = event {
                // The touch that brought a page back is told twice: as what it was, and as a sample.
                let same = |f: &Fault| (f.page, f.process) == (sample.page, sample.process);
                touched.take_if(|fault| same(fault));
            }
            if !matches!(event, Event::Moved { .. })
                && let Some(fault) = touched.take()
            {
                self.access(now, fault.page, fault.process, fault.write);
            }
            match *event {
                Event::Sample(sample) => {
                    let is_store = sample.kind == SampleKind::Store;
                    self.access(now, sample.page, sample.process, is_store);
                }
                Event::Fault(fault) => touched = Some(fault),
                _ => self.allocation(now, event),
            }
        }
        if let Some(fault) = touched {
            self.access(now, fault.page, fault.process, fault.write);
        }
    }

    fn access(&mut self, now: Nanos, page: PageId, pid: ProcessId, is_store: bool) {
        let process = self.process(now, pid);
        self.own(now, page.region(), process);
        self.samples += 1;
        self.sampled.insert(page);
        let kind = if is_store { AccessKind::Store } else { AccessKind::Load };
        let stream = StreamId(process.0);
        self.items.push_back(Item::Access(Access { clock: now.0, page, kind, stream, line: 0 }));
    }

    fn allocation(&mut self, now: Nanos, event: &Event) {
        match *event {
            Event::Mapped { run, process: pid, .. } => {
                let process = self.process(now, pid);
                for piece in by_region(run) {
                    self.own(now, piece.start.region(), process);
                    let (start, len_bytes) = place(piece);
                    self.event(
                        now,
                        TraceEvent::Map {
                            process,
                            start,
                            len_bytes,
                            kind: MapKind::Anonymous,
                            accessible: true,
                            runs: vec![piece],
                        },
                    );
                }
            }
            Event::Unmapped { run } => {
                for piece in by_region(run) {
                    let process = self.owner(piece);
                    let (start, len_bytes) = place(piece);
                    let runs = vec![piece];
                    self.event(now, TraceEvent::Unmap { process, start, len_bytes, runs });
                }
            }
            Event::Freed { run } => {
                for piece in by_region(run) {
                    let process = self.owner(piece);
                    let (start, len_bytes) = place(piece);
                    let runs = vec![piece];
                    self.event(now, TraceEvent::Discard { process, start, len_bytes, runs });
                }
            }
            Event::Remapped { from, to } => {
                let from = PageRun::between(from.start.0, from.end());
                let to = PageRun::between(to.0, to.0.saturating_add(from.pages));
                if from.pages == 0 || to.pages != from.pages {
                    return;
                }
                let process = self.owner(from);
                for piece in by_region(to) {
                    self.own(now, piece.start.region(), process);
                }
                let ((old_start, old_len_bytes), (new_start, new_len_bytes)) =
                    (place(from), place(to));
                self.event(
                    now,
                    TraceEvent::Remap {
                        process,
                        old_start,
                        old_len_bytes,
                        new_start,
                        new_len_bytes,
                        moves: vec![(from, to.start)],
                        gained: Vec::new(),
                        lost: Vec::new(),
                    },
                );
            }
            Event::Forked { parent, child } => {
                let parent = self.process(now, parent);
                self.processes.remove(&child);
                self.appear(now, child, Some(parent));
            }
            Event::Exited { process: pid } => {
                if let Some(process) = self.processes.remove(&pid) {
                    self.event(now, TraceEvent::ThreadExit { stream: StreamId(process.0) });
                    self.event(now, TraceEvent::ProcessExit { process, status: 0 });
                }
            }
            Event::Populated { run, .. } => {
                self.populated.extend(by_region(run).map(|piece| piece.start.region()));
            }
            Event::SamplesLost { count } => self.lost = self.lost.saturating_add(count),
            _ => {}
        }
    }

    fn event(&mut self, now: Nanos, event: TraceEvent) {
        self.items.push_back(Item::Event(TimedEvent { clock: now.0, event }));
    }

    /// The process's number in the trace; announces it where it is new.
    fn process(&mut self, now: Nanos, pid: ProcessId) -> ProcessId {
        match self.processes.get(&pid) {
            Some(&process) => process,
            None => self.appear(now, pid, None),
        }
    }

    fn appear(&mut self, now: Nanos, pid: ProcessId, parent: Option<ProcessId>) -> ProcessId {
        let process = ProcessId(self.seen);
        self.seen += 1;
        self.processes.insert(pid, process);
        let (command, pid) = (format!("process {}", pid.0), pid.0);
        self.event(now, TraceEvent::Process { process, parent, pid, command });
        self.event(now, TraceEvent::Thread { stream: StreamId(process.0), process, tid: pid });
        process
    }

    /// Says whose a region is, where that is new: a live run uses the numbers again.
    fn own(&mut self, now: Nanos, region: Region, process: ProcessId) {
        if self.owners.insert(region, process) != Some(process) {
            let huge_vpn = u64::from(region.0);
            self.event(now, TraceEvent::RegionNamed { region, process, huge_vpn });
        }
    }

    fn owner(&self, run: PageRun) -> ProcessId {
        self.owners.get(&run.start.region()).copied().unwrap_or_default()
    }
}

/// Address and length that stand for a run.
fn place(run: PageRun) -> (u64, u64) {
    (u64::from(run.start.0) * PAGE_BYTES, run.bytes().0)
}

/// The parts of a run by region; nothing beyond the last page id.
fn by_region(run: PageRun) -> impl Iterator<Item = PageRun> {
    let mut at = run.start.0;
    let end = run.end();
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let piece = PageRun::between(at, PageId(at).region().run().end().min(end));
            at = piece.end();
            piece
        })
    })
}

impl<R: Read> Feed for JournalFeed<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            match self.entries.next_entry() {
                Ok(Some(Entry::Events(now, events))) => self.take(now, &events),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(DriverError::Unbelievable { at, what, hint, .. }) => {
                    let (path, what) = (self.path.clone(), format!("byte {at}: {what}"));
                    return Err(TraceError::Absurd { path, what, hint });
                }
                Err(error) => {
                    let what = match error {
                        DriverError::Journal { what, .. } => what,
                        other => other.to_string(),
                    };
                    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
                    return Err(TraceError::Io { path: self.path.clone(), doing: "read", source });
                }
            }
        }
    }

    fn warning(&self) -> Option<String> {
        let sampled: BTreeSet<Region> = self.sampled.iter().map(|page| page.region()).collect();
        let never = self.populated.difference(&sampled).count();
        let mut text = format!(
            "these are {} samples of {} pages, not all accesses",
            self.samples,
            self.sampled.len()
        );
        if never > 0 {
            text += &format!("; {never} regions of 2 MiB were in memory and never sampled");
        }
        if self.lost > 0 {
            text += &format!("; {} more samples were lost", self.lost);
        }
        if self.entries.is_cut_off() {
            text += "; the journal's end is cut off";
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::engine::EngineConfig;
    use frostline_core::event::{Backing, MoveCause, Sample};
    use frostline_core::policy::Offer;
    use frostline_driver::journal::{Journal, Setup};
    use frostline_trace::{Batch, TraceInfo, TraceReader, TraceSource, TraceWriter, verify};

    const PID: ProcessId = ProcessId(4711);
    const OTHER: ProcessId = ProcessId(12);

    fn setup() -> Setup {
        Setup {
            policy: "memtis".to_owned(),
            offer: Offer::default(),
            config: EngineConfig::two_tiers(PageCount(64), PageCount(1024)),
        }
    }

    fn run(start: u32, pages: u32) -> PageRun {
        PageRun { start: PageId(start), pages }
    }

    fn sample(page: u32, kind: SampleKind, process: ProcessId) -> Event {
        Event::Sample(Sample::new(PageId(page), kind, TierId::FAST, process))
    }

    fn mapped(run: PageRun, process: ProcessId) -> Event {
        Event::Mapped { run, backing: Backing::Anonymous, process }
    }

    fn refault(page: u32) -> [Event; 2] {
        let (page, tier) = (PageId(page), TierId(1));
        let (run, to, cause) = (PageRun::single(page), TierId::FAST, MoveCause::Refault);
        let fault = Event::Fault(Fault { page, tier, write: false, process: PID, thread: 0 });
        [fault, Event::Moved { run, to, cause }]
    }

    fn entries() -> Vec<Entry> {
        let [fault, back] = refault(7);
        let [lone, lone_back] = refault(8);
        vec![
            Entry::Events(
                Nanos(10),
                vec![
                    mapped(run(0, 512), PID),
                    mapped(run(600, 1000), PID),
                    Event::Populated { run: run(0, 512), tier: TierId::FAST, huge: false },
                    Event::Populated { run: run(1024, 2), tier: TierId::FAST, huge: false },
                    sample(3, SampleKind::LoadMiss, PID),
                ],
            ),
            Entry::Timeout(Nanos(15)),
            Entry::Actions(Vec::new()),
            Entry::Events(
                Nanos(5_000_000_000),
                vec![
                    fault,
                    back,
                    sample(7, SampleKind::LoadMiss, PID),
                    lone,
                    lone_back,
                    sample(3, SampleKind::Store, PID),
                    Event::SamplesLost { count: 2 },
                    Event::Unmapped { run: run(0, 512) },
                    mapped(run(0, 512), OTHER),
                    sample(3, SampleKind::Store, OTHER),
                    Event::Freed { run: run(3, 1) },
                    Event::Forked { parent: OTHER, child: ProcessId(13) },
                    Event::Exited { process: PID },
                ],
            ),
        ]
    }

    fn journal(entries: &[Entry]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut journal = Journal::create(&path, &setup()).unwrap();
        entries.iter().for_each(|entry| journal.write(entry).unwrap());
        journal.flush().unwrap();
        std::fs::read(&path).unwrap()
    }

    fn source(bytes: &[u8]) -> JournalSource<&[u8]> {
        let path = Path::new("j");
        from_entries(path, Entries::new(path, bytes).unwrap()).unwrap()
    }

    /// Events and accesses in words, in their order, and how it ended.
    fn read(bytes: &[u8]) -> (Vec<String>, Option<String>, Result<(), TraceError>) {
        let (mut source, mut batch, mut found) = (source(bytes), Batch::new(), Vec::new());
        let result = loop {
            match source.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            found.extend(batch.events.iter().map(|event| event.event.name().to_owned()));
            let mut clock = batch.clock_start;
            for (i, page) in batch.pages.iter().enumerate() {
                clock += u64::from(batch.clock_deltas.get(i));
                let (kind, stream) = (batch.kind(i), batch.streams.get(i));
                found.push(format!("{clock} p{page} {kind:?} by {stream}"));
            }
        };
        (found, source.warning(), result)
    }

    #[test]
    fn samples_become_accesses_among_their_allocations() {
        let (found, warning, result) = read(&journal(&entries()));
        result.unwrap();
        assert_eq!(
            found,
            [
                "process",
                "thread",
                "region_named",
                "map",
                "region_named",
                "map",
                "region_named",
                "map",
                "region_named",
                "map",
                "10 p3 Load by 0",
                "5000000000 p7 Load by 0",
                "5000000000 p8 Load by 0",
                "5000000000 p3 Store by 0",
                "unmap",
                "process",
                "thread",
                "region_named",
                "map",
                "5000000000 p3 Store by 1",
                "discard",
                "process",
                "thread",
                "thread_exit",
                "process_exit",
            ]
        );
        let warning = warning.unwrap();
        for part in ["5 samples of 3 pages, not all", "1 regions", "2 more samples were lost"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }

    #[test]
    fn the_trace_is_sound() {
        let bytes = journal(&entries());
        let mut source = source(&bytes);
        let mut writer = TraceWriter::new(Vec::new(), "t", &source.header().clone()).unwrap();
        writer.copy(&mut source).unwrap();
        assert_eq!(writer.finish().unwrap().records, 5);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.flt");
        let mut source = self::source(&bytes);
        let mut writer = TraceWriter::create(&path, &source.header().clone()).unwrap();
        writer.copy(&mut source).unwrap();
        writer.finish().unwrap();
        let info: TraceInfo = verify(&mut TraceReader::open(&path).unwrap(), |_| true).unwrap();
        assert_eq!((info.records, info.processes, info.threads), (5, 3, 3));
    }

    #[test]
    fn a_cut_off_end_is_told_and_damage_is_an_error() {
        let bytes = journal(&entries());
        let (found, warning, result) = read(&bytes[..bytes.len() - 1]);
        result.unwrap();
        assert_eq!(found.last().unwrap(), "10 p3 Load by 0");
        assert!(warning.unwrap().ends_with("the journal's end is cut off"));

        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let (found, _, result) = read(&damaged);
        assert_eq!(found.last().unwrap(), "10 p3 Load by 0");
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("j: read: byte ") && error.contains("checksum"), "{error}");
    }

    #[test]
    fn a_journal_without_setup_is_refused() {
        let bytes = journal(&entries());
        let start = frostline_driver::journal::MAGIC.len();
        let path = Path::new("j");
        let error = from_entries(path, Entries::new(path, &bytes[..start]).unwrap()).unwrap_err();
        assert!(error.to_string().contains("setup"), "{error}");
    }

    #[test]
    fn runs_that_cannot_be_are_refused() {
        for event in [
            mapped(run(u32::MAX - 3, 100), PID),
            Event::Remapped { from: run(u32::MAX - 1, 50), to: PageId(0) },
            Event::Remapped { from: run(0, 600), to: PageId(u32::MAX - 3) },
            Event::Unmapped { run: run(u32::MAX, u32::MAX) },
            sample(u32::MAX, SampleKind::Store, OTHER),
        ] {
            let bytes = journal(&[
                Entry::Events(Nanos(1), entries_of_one()),
                Entry::Events(Nanos(2), vec![event]),
            ]);
            let (found, _, result) = read(&bytes);
            assert_eq!(found.last().map(String::as_str), Some("1 p4 Load by 0"), "{event:?}");
            let error = result.unwrap_err().to_string();
            assert!(error.contains("hint: "), "{event:?}: {error}");
        }
        let bytes = journal(&[Entry::Events(Nanos(1), vec![mapped(run(5, 0), PID)])]);
        let (_, _, result) = read(&bytes);
        result.unwrap();
    }

    fn entries_of_one() -> Vec<Event> {
        vec![sample(4, SampleKind::LoadMiss, PID)]
    }
}
