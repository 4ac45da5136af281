//! Simple text: one access a line, `time vaddr r|w [tid]`.

use super::feed::{Batches, Feed, Item};
use super::lines::{self, Lines};
use super::names::{Names, Touch};
use crate::error::TraceError;
use crate::header::{ClockUnit, TraceHeader};
use frostline_core::types::AccessKind;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

const MAX_LINE_BYTES: u64 = 4096;

/// Reads a text trace while it is consumed.
///
/// A line holds a time, a virtual address, `r` or `w`, and maybe a thread number, separated by
/// blanks or tabs. Numbers are decimal, or hexadecimal behind `0x`. Times are 64-bit and must not
/// decrease. `#` begins a comment that runs to the end of its line; empty lines are passed over.
/// All accesses belong to one process; its threads are numbered as they appear.
pub type TextSource<R> = Batches<TextFeed<R>>;

/// The lines of a text trace.
#[derive(Debug)]
pub struct TextFeed<R> {
    lines: Lines<R>,
    names: Names,
    command: String,
    clock: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    clock: u64,
    address: u64,
    kind: AccessKind,
    thread: u32,
}

impl TextSource<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be opened. Its content is looked at when read.
    pub fn open(path: impl AsRef<Path>, clock: ClockUnit) -> Result<Self, TraceError> {
        Ok(Self::new(lines::open(path.as_ref())?, path.as_ref(), clock))
    }
}

impl<R: BufRead> TextSource<R> {
    /// Reads from anything; errors call it `path`. `clock` is what the times count.
    pub fn new(reader: R, path: impl Into<PathBuf>, clock: ClockUnit) -> Self {
        let path = path.into();
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let header = TraceHeader {
            clock,
            recorder: concat!("frostline ", env!("CARGO_PKG_VERSION"), " text import").into(),
            ..TraceHeader::named(name.clone())
        };
        let lines = Lines::new(reader, path, MAX_LINE_BYTES);
        let feed = TextFeed { lines, names: Names::default(), command: name, clock: 0 };
        Self::from_feed(header, feed)
    }
}

impl<R: BufRead> Feed for TextFeed<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.names.pop() {
                return Ok(Some(item));
            }
            let Some(line) = self.lines.next_line()? else { return Ok(None) };
            let parsed = match std::str::from_utf8(line) {
                Ok(text) => parse(text.split_once('#').map_or(text, |(text, _)| text)),
                Err(_) => Err("not text; lines are `time vaddr r|w [tid]`".to_owned()),
            };
            let Some(line) = parsed.map_err(|what| self.lines.wrong(what))? else { continue };
            if line.clock < self.clock {
                let (now, before) = (line.clock, self.clock);
                let what = format!("time {now} is before {before}, that of the access before");
                return Err(self.lines.wrong(what + "\nhint: sort the lines by time"));
            }
            self.clock = line.clock;
            let Line { clock, address, kind, thread: tid } = line;
            let touch =
                Touch { clock, process: 0, pid: 0, command: &self.command, tid, address, kind };
            self.names.touch(touch).map_err(|what| self.lines.wrong(what))?;
        }
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
    let thread =
        u32::try_from(thread).map_err(|_| format!("thread {thread} has more than 32 bits"))?;
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
    use crate::batch::{Batch, TraceSource};

    fn source(text: &str) -> TextSource<&[u8]> {
        TextSource::new(text.as_bytes(), "t.txt", ClockUnit::Nanoseconds)
    }

    fn read(text: &str) -> (Vec<String>, Result<(), TraceError>) {
        super::super::feed::testing::read(&mut source(text))
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
    }

    #[test]
    fn empty_files_are_empty_traces() {
        let (found, result) = read("# nothing\n");
        assert!(result.is_ok() && found.is_empty());
    }
}
