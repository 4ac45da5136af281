//! Simple text: one access a line, `time vaddr r|w [tid]`.

use crate::batch::{BLOCK_RECORDS, Batch, TraceSource};
use crate::error::TraceError;
use crate::event::{StreamId, TimedEvent, TraceEvent};
use crate::header::{ClockUnit, TraceHeader};
use crate::mapper::PageMapper;
use frostline_core::types::{AccessKind, PAGE_BYTES, ProcessId};
use hashbrown::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line accepted, in bytes; a file without line ends is not read into memory whole.
const MAX_LINE_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 64;
const PROCESS: ProcessId = ProcessId(0);

/// Reads a text trace while it is consumed.
///
/// A line holds a time, a virtual address, `r` or `w`, and maybe a thread number, separated by
/// blanks or tabs. Numbers are decimal, or hexadecimal behind `0x`. Times are 64-bit and must not
/// decrease. `#` begins a comment that runs to the end of its line; empty lines are passed over.
/// All accesses belong to one process; its threads are numbered as they appear.
#[derive(Debug)]
pub struct TextSource<R> {
    reader: R,
    path: PathBuf,
    header: TraceHeader,
    line: Vec<u8>,
    line_number: u64,
    mapper: PageMapper,
    threads: HashMap<u64, StreamId>,
    /// The first line has come: the process was announced.
    started: bool,
    /// Read, but its batch was closed by events that come in front of it.
    waiting: Option<Line>,
    clock: u64,
    done: bool,
    held_back: Option<TraceError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    clock: u64,
    address: u64,
    kind: AccessKind,
    thread: u64,
}

impl TextSource<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be opened. Its content is looked at when read.
    pub fn open(path: impl AsRef<Path>, clock: ClockUnit) -> Result<Self, TraceError> {
        let path = path.as_ref();
        match File::open(path) {
            Ok(file) => Ok(Self::new(BufReader::with_capacity(1 << 18, file), path, clock)),
            Err(source) => Err(TraceError::Io { path: path.to_owned(), doing: "open", source }),
        }
    }
}

impl<R: BufRead> TextSource<R> {
    /// Reads from anything; errors call it `path`. `clock` is what the times count.
    pub fn new(reader: R, path: impl Into<PathBuf>, clock: ClockUnit) -> Self {
        let path = path.into();
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let header = TraceHeader {
            clock,
            recorder: concat!("frostline ", env!("CARGO_PKG_VERSION"), " text import").to_owned(),
            ..TraceHeader::named(name)
        };
        Self {
            reader,
            path,
            header,
            line: Vec::new(),
            line_number: 0,
            mapper: PageMapper::new(),
            threads: HashMap::new(),
            started: false,
            waiting: None,
            clock: 0,
            done: false,
            held_back: None,
        }
    }

    fn wrong(&self, what: impl Into<String>) -> TraceError {
        TraceError::Text { path: self.path.clone(), line: self.line_number, what: what.into() }
    }

    /// The next access; `None` at the end.
    fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        loop {
            self.line.clear();
            self.line_number += 1;
            let got = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
            let got = got.map_err(|source| TraceError::Io {
                path: self.path.clone(),
                doing: "read",
                source,
            })?;
            if got == 0 {
                return Ok(None);
            }
            if got as u64 == MAX_LINE_BYTES && !self.line.ends_with(b"\n") {
                return Err(self.wrong("longer than 4096 bytes; is this a text trace?"));
            }
            let text = std::str::from_utf8(&self.line)
                .map_err(|_| self.wrong("not text; lines are `time vaddr r|w [tid]`"))?;
            let text = text.split_once('#').map_or(text, |(text, _)| text);
            match parse(text) {
                Ok(None) => {}
                Ok(Some(line)) if line.clock < self.clock => {
                    let (now, before) = (line.clock, self.clock);
                    let what = format!("time {now} is before {before}, that of the access before");
                    return Err(self.wrong(format!("{what}\nhint: sort the lines by time")));
                }
                Ok(Some(line)) => return Ok(Some(line)),
                Err(what) => return Err(self.wrong(what)),
            }
        }
    }

    /// Events that must come in front of this access.
    fn announce(&mut self, line: Line, events: &mut Vec<TimedEvent>) {
        let mut add = |event| events.push(TimedEvent { clock: line.clock, event });
        if !std::mem::replace(&mut self.started, true) {
            let command = self.header.name.clone();
            add(TraceEvent::Process { process: PROCESS, parent: None, pid: 0, command });
        }
        let streams = self.threads.len() as u32;
        if let hashbrown::hash_map::Entry::Vacant(entry) = self.threads.entry(line.thread) {
            let stream = *entry.insert(StreamId(streams));
            let tid = line.thread as u32;
            add(TraceEvent::Thread { stream, process: PROCESS, tid });
        }
        self.mapper.page(PROCESS, line.address / PAGE_BYTES);
        for (region, process, huge_vpn) in self.mapper.take_fresh() {
            add(TraceEvent::RegionNamed { region, process, huge_vpn });
        }
    }

    /// Whether the access needs no event in front of it.
    fn is_known(&self, line: Line) -> bool {
        self.threads.contains_key(&line.thread)
            && self.mapper.lookup(PROCESS, line.address / PAGE_BYTES).is_some()
    }

    fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        let mut columns = [const { Vec::<u32>::new() }; 4];
        let mut result = Ok(());
        while batch.pages.len() < BLOCK_RECORDS {
            let line = match self.waiting.take().map_or_else(|| self.next_line(), |l| Ok(Some(l))) {
                Ok(Some(line)) => line,
                Ok(None) => {
                    self.done = true;
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let elapsed = u32::try_from(line.clock - self.clock);
            if batch.pages.is_empty() {
                self.announce(line, &mut batch.events);
                if elapsed.is_err() {
                    self.clock = line.clock;
                }
                batch.clock_start = self.clock;
            } else if elapsed.is_err() || !self.is_known(line) {
                self.waiting = Some(line);
                break;
            }
            let delta = line.clock - self.clock;
            self.clock = line.clock;
            batch.pages.push(self.mapper.page(PROCESS, line.address / PAGE_BYTES).0);
            let in_page = (line.address % PAGE_BYTES / LINE_BYTES) as u32;
            let stream = self.threads.get(&line.thread).map_or(0, |stream| stream.0);
            let values = [line.kind as u32, stream, delta as u32, in_page];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        let [kinds, streams, clock_deltas, lines] = columns;
        *batch.kinds.values_mut() = kinds;
        *batch.streams.values_mut() = streams;
        *batch.clock_deltas.values_mut() = clock_deltas;
        *batch.lines.values_mut() = lines;
        batch.clock_end = self.clock;
        result
    }
}

impl<R: BufRead> TraceSource for TextSource<R> {
    fn header(&self) -> &TraceHeader {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        batch.clock_start = self.clock;
        batch.clock_end = self.clock;
        if let Some(error) = self.held_back.take() {
            return Err(error);
        }
        if self.done {
            return Ok(false);
        }
        match self.fill(batch) {
            Ok(()) => {}
            Err(error) => {
                self.done = true;
                if batch.is_empty() {
                    return Err(error);
                }
                // What stands in front of the line is good.
                self.held_back = Some(error);
            }
        }
        Ok(!batch.is_empty())
    }
}

fn parse(text: &str) -> Result<Option<Line>, String> {
    let mut words = text.split_ascii_whitespace();
    let Some(clock) = words.next() else { return Ok(None) };
    let clock = number("time", clock)?;
    let address = number("address", words.next().ok_or("the address is missing")?)?;
    let kind = match words.next() {
        Some("r" | "R") => AccessKind::Load,
        Some("w" | "W") => AccessKind::Store,
        Some(other) => return Err(format!("`{other}` is neither `r` nor `w`")),
        None => return Err("`r` or `w` is missing".to_owned()),
    };
    let thread = words.next().map_or(Ok(0), |word| number("thread", word))?;
    if thread > u64::from(u32::MAX) {
        return Err(format!("thread {thread} has more than 32 bits"));
    }
    match words.next() {
        Some(more) => Err(format!("`{more}` behind the thread")),
        None => Ok(Some(Line { clock, address, kind, thread })),
    }
}

fn number(what: &str, word: &str) -> Result<u64, String> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((word, 10), |digits| (digits, 16));
    match u64::from_str_radix(digits, radix) {
        // `from_str_radix` takes a plus sign as well.
        Ok(value) if !digits.starts_with('+') => Ok(value),
        _ => Err(format!(
            "{what} `{word}` is not a 64-bit number (decimal, or hexadecimal behind 0x)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frostline_core::types::PageId;

    fn source(text: &str) -> TextSource<&[u8]> {
        TextSource::new(text.as_bytes(), "t.txt", ClockUnit::Nanoseconds)
    }

    /// Events by name, accesses as `clock page kind stream line`.
    fn read(text: &str) -> (Vec<String>, Result<(), TraceError>) {
        let (mut source, mut batch, mut found) = (source(text), Batch::new(), Vec::new());
        loop {
            match source.next_batch(&mut batch) {
                Ok(true) => {}
                Ok(false) => return (found, Ok(())),
                Err(error) => return (found, Err(error)),
            }
            found.extend(batch.events.iter().map(|e| e.event.name().to_owned()));
            let mut clock = batch.clock_start;
            for (i, page) in batch.pages.iter().enumerate() {
                clock += u64::from(batch.clock_deltas.get(i));
                let (kind, stream) = (batch.kind(i), batch.streams.get(i));
                found.push(format!("{clock} {page} {kind:?} {stream} {}", batch.lines.get(i)));
            }
            assert_eq!(clock, batch.clock_end);
        }
    }

    #[test]
    fn lines_become_accesses() {
        let text = "# a comment\n\n10 0x200040 r\n11\t2097152 W 7 # more\r\n9000000000000 0x1000 r 7\n9000000000000 0x200fff w";
        let (found, result) = read(text);
        result.unwrap();
        assert_eq!(
            found,
            [
                "process",
                "thread",
                "region_named",
                "10 0 Load 0 1",
                "thread",
                "11 0 Store 1 0",
                "region_named",
                "9000000000000 513 Load 1 0",
                "9000000000000 0 Store 0 63",
            ]
        );
    }

    #[test]
    fn wrong_lines_are_named_after_all_good_ones() {
        for (line, what) in [
            ("x 1 r", "time `x`"),
            ("1", "address is missing"),
            ("1 0x r", "address `0x`"),
            ("1 +5 r", "address `+5`"),
            ("1 99999999999999999999 r", "64-bit"),
            ("1 2", "`r` or `w` is missing"),
            ("1 2 x", "neither"),
            ("1 2 r 3 4", "`4` behind"),
            ("1 2 r 4294967296", "32 bits"),
            ("0 2 r", "sort the lines"),
            ("\u{fffd} ", "not a 64-bit number"),
        ] {
            let (found, result) = read(&format!("1 0 r\n1 64 w\n{line}\n5 0 r\n"));
            assert_eq!(found.last().unwrap(), "1 0 Store 0 1", "{line}");
            let text = result.unwrap_err().to_string();
            assert!(text.starts_with("t.txt: line 3: ") && text.contains(what), "{text}");
        }
        let mut binary = TextSource::new(&b"\xff\xfe 1 r\n"[..], "t", ClockUnit::Instructions);
        let error = binary.next_batch(&mut Batch::new()).unwrap_err();
        assert!(error.to_string().contains("not text"), "{error}");
        let endless = "1".repeat(10_000);
        assert!(read(&endless).1.unwrap_err().to_string().contains("longer"));
    }

    #[test]
    fn many_lines_make_full_batches() {
        let text: String = (0..1000).map(|i| format!("{i} {} r\n", i * 64)).collect();
        let (mut source, mut batch, mut lens) = (source(&text), Batch::new(), Vec::new());
        while source.next_batch(&mut batch).unwrap() {
            lens.push(batch.len());
        }
        assert_eq!(lens, [256, 256, 256, 232]);
        assert_eq!(source.mapper.lookup(PROCESS, 0), Some(PageId(0)));
    }

    #[test]
    fn empty_files_are_empty_traces() {
        let (found, result) = read("# nothing\n");
        assert!(result.is_ok() && found.is_empty());
    }
}
