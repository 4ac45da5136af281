//! Text of `perf script`: memory samples with their addresses.

use super::feed::{Batches, Feed, Item};
use super::lines::{self, Lines};
use super::names::{Names, Touch};
use crate::error::TraceError;
use crate::header::{ClockUnit, TraceHeader};
use frostline_core::types::AccessKind;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Names of C++ functions may be long.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// End of the user's half of an address space with five levels of page tables.
const USER_END: u64 = 1 << 56;
const FIELDS: &str = "\nhint: perf script -F comm,pid,tid,time,event,addr";

/// Reads what `perf script` prints while it is consumed.
///
/// A sample is `command pid/tid [cpu] time: period event: address ...`, as printed by default with
/// memory events or by `perf script -F comm,pid,tid,time,event,addr`; command, processor and period
/// may be absent, and what follows the address is not needed. Times become nanoseconds since the
/// first sample. Comments, empty lines, frames of call chains and records that are no samples are
/// passed over. Samples of the kernel's memory and without an address are left out and counted.
pub type PerfSource<R> = Batches<PerfFeed<R>>;

/// The samples of a text of `perf script`.
#[derive(Debug)]
pub struct PerfFeed<R> {
    lines: Lines<R>,
    names: Names,
    /// Time of the first sample.
    origin: Option<u64>,
    clock: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    samples: u64,
    kernel: u64,
    no_address: u64,
    early: u64,
    one_number: u64,
}

impl PerfSource<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// Where it cannot be opened. Its content is looked at when read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        Ok(Self::new(lines::open(path.as_ref())?, path.as_ref()))
    }
}

impl<R: BufRead> PerfSource<R> {
    /// Reads from anything; errors call it `path`.
    pub fn new(reader: R, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let header = TraceHeader {
            clock: ClockUnit::Nanoseconds,
            recorder: concat!("frostline ", env!("CARGO_PKG_VERSION"), " perf-script import")
                .into(),
            ..TraceHeader::named(name)
        };
        let lines = Lines::new(reader, path, MAX_LINE_BYTES);
        let (names, counts) = (Names::default(), Counts::default());
        Self::from_feed(header, PerfFeed { lines, names, origin: None, clock: 0, counts })
    }
}

/// Whether a line has a time as `perf script` prints it, which no simple text has.
pub fn is_perf_script(line: &str) -> bool {
    line.split_ascii_whitespace().any(|word| time(word).is_some())
}

impl<R: BufRead> PerfFeed<R> {
    fn take(&mut self, sample: Sample) -> Result<(), &'static str> {
        self.counts.samples += 1;
        let kept = match sample.address {
            0 => &mut self.counts.no_address,
            1..USER_END => {
                self.counts.one_number += u64::from(!sample.has_both_ids);
                let origin = *self.origin.get_or_insert(sample.time);
                let clock = sample.time.saturating_sub(origin);
                self.counts.early += u64::from(sample.time < origin || clock < self.clock);
                self.clock = self.clock.max(clock);
                let Sample { pid, tid, address, kind, .. } = sample;
                let command = &sample.command;
                return self.names.touch(Touch {
                    clock: self.clock,
                    process: pid.into(),
                    pid,
                    command,
                    tid,
                    address,
                    kind,
                });
            }
            _ => &mut self.counts.kernel,
        };
        *kept += 1;
        Ok(())
    }
}

impl<R: BufRead> Feed for PerfFeed<R> {
    fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.names.pop() {
                return Ok(Some(item));
            }
            let Some(line) = self.lines.next_line()? else { return Ok(None) };
            let parsed = parse(&String::from_utf8_lossy(line));
            let Some(sample) = parsed.map_err(|what| self.lines.wrong(what))? else { continue };
            self.take(sample).map_err(|what| self.lines.wrong(what))?;
        }
    }

    fn warning(&self) -> Option<String> {
        let Counts { samples, kernel, no_address, early, one_number } = self.counts;
        let mut text = format!("these are {samples} samples, not all accesses");
        for (count, what) in [
            (kernel, "of the kernel's memory were left out"),
            (no_address, "without an address were left out"),
            (early, "are earlier than the one before and count as simultaneous"),
            (
                one_number,
                "name one number for process and thread, which counts as the process; \
                 print both with `perf script -F +pid,+tid`",
            ),
        ] {
            if count > 0 {
                text += &format!("; {count} {what}");
            }
        }
        Some(text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    command: String,
    pid: u32,
    tid: u32,
    has_both_ids: bool,
    /// Nanoseconds.
    time: u64,
    address: u64,
    kind: AccessKind,
}

/// A sample, nothing where the line is something else that belongs there, or what is wrong.
fn parse(line: &str) -> Result<Option<Sample>, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if words.first().is_none_or(|word| word.starts_with('#')) {
        return Ok(None);
    }
    let found = words.iter().enumerate().find_map(|(at, word)| Some((at, time(word)?)));
    let Some((at, time)) = found else {
        if line.starts_with([' ', '\t']) && u64::from_str_radix(words[0], 16).is_ok() {
            return Ok(None);
        }
        return Err(format!("no sample: there is no time in it, such as `5.123456:`{FIELDS}"));
    };
    let (before, after) = words.split_at(at);
    let mut after = after[1..].iter().copied().peekable();
    if after.peek().is_some_and(|word| word.starts_with("PERF_RECORD_")) {
        return Ok(None);
    }
    if after.peek().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        after.next();
    }
    let event = after.next().and_then(|word| word.strip_suffix(':'));
    let event = event.ok_or_else(|| format!("the event is missing behind the time{FIELDS}"))?;
    if event.starts_with("damon:") {
        let hint = "\nhint: write DAMON's regions as JSON: damo record --output_type json";
        return Err(format!("`{event}` tells of regions, not of accesses{hint}"));
    }
    let word = after.next().ok_or_else(|| format!("the address is missing{FIELDS}"))?;
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let address = match u64::from_str_radix(digits, 16) {
        Ok(address) if !digits.starts_with('+') => address,
        _ => return Err(format!("`{word}` is no hexadecimal address{FIELDS}")),
    };
    let ids = before.iter().enumerate().rev().find_map(|(at, word)| Some((at, ids(word)?)));
    let (command, (pid, tid)) = match ids {
        Some((at, ids)) => (&before[..at], ids),
        None => (before, (0, None)),
    };
    let said = line.split_once("|OP ").map(|(_, said)| said);
    let kind = match said {
        Some(said) if said.starts_with("STORE") => AccessKind::Store,
        Some(said) if said.starts_with("LOAD") => AccessKind::Load,
        _ if is_store(event) => AccessKind::Store,
        _ => AccessKind::Load,
    };
    Ok(Some(Sample {
        command: command.join(" "),
        pid,
        tid: tid.unwrap_or(pid),
        has_both_ids: tid.is_some(),
        time,
        address,
        kind,
    }))
}

/// `5.123456:` in nanoseconds.
fn time(word: &str) -> Option<u64> {
    let (seconds, part) = word.strip_suffix(':')?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(part) || part.len() > 9 {
        return None;
    }
    let nanos = part.parse::<u64>().ok()? * 10_u64.pow(9 - part.len() as u32);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// `123/124`, or one number for both.
fn ids(word: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        // Perf prints -1 where it does not know.
        if text == "-1" { Some(0) } else { digits.then(|| text.parse().ok()).flatten() }
    };
    match word.split_once('/') {
        Some((pid, tid)) => Some((number(pid)?, Some(number(tid)?))),
        None => Some((number(word)?, None)),
    }
}

/// Whether an event counts stores: by its name, or Intel's code for all retired stores.
fn is_store(event: &str) -> bool {
    let event = event.to_ascii_lowercase();
    let raw = ["r82d0", "0x82d0"].iter().any(|code| event.contains(code));
    raw || event.contains("store") || (event.contains("event=0xd0") && event.contains("umask=0x82"))
}

#[cfg(test)]
mod tests {
    use super::super::feed::testing;
    use super::*;
    use crate::batch::{Batch, TraceSource};
    use crate::event::TraceEvent;
    use proptest::prelude::*;

    const GOLDEN: &str = "\
# ========
# captured on    : Thu Jan  1 00:00:00 1970

    redis-server   123/124   [001]     5.123456:          1     cpu/mem-loads,ldlat=30/P:     7f1234567890         5c0168100842 |OP LOAD|LVL LFB hit|SNP None|TLB L1 hit   5 55d0c0 lookup+0x10 (/usr/bin/redis-server)
\t    55d0c01234 lookup+0x10 (/usr/bin/redis-server)
\t    55d0c05678 main+0x20 (/usr/bin/redis-server)

     Web Content   200/201   5.123457: cpu/mem-stores/P: 7f1234567040
tmux: server 300 [000] 5.123458123: 7 mem_inst_retired.all_stores: 0x1000
redis-server 123/123 [001] 5.2: 1 cpu/mem-loads/P: ffff888100000000
redis-server 123/123 5.2: r82d0:pp: 0
redis-server 123/123 5.2: PERF_RECORD_MMAP2 123/123: [0x1(0x2) @ 0]: r-xp /x
redis-server 123/123 [001] d..2. 5.1: 1 ibs_op//: 7f1234568000 4 |OP STORE|LVL N/A|
9.000000: r82d0: 7f1234569fff
";

    fn source(text: &str) -> PerfSource<&[u8]> {
        PerfSource::new(text.as_bytes(), "p.txt")
    }

    #[test]
    fn samples_become_accesses() {
        let mut read = source(GOLDEN);
        let (found, result) = testing::read(&mut read);
        result.unwrap();
        let accesses: Vec<_> = found.iter().filter(|f| f.contains(' ')).collect();
        assert_eq!(
            accesses,
            [
                "0 359 Load 0 34",
                "1000 871 Store 1 1",
                "2123 1025 Store 2 0",
                "2123 360 Store 3 0",
                "3876544000 1897 Store 4 63",
            ]
        );
        let warning = read.warning().unwrap();
        for part in [
            "7 samples, not all",
            "1 of the kernel's",
            "1 without an address",
            "1 are earlier",
            "2 name one number",
        ] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
    }

    #[test]
    fn processes_and_threads_keep_their_numbers() {
        let (mut read, mut batch) = (source(GOLDEN), Batch::new());
        let (mut processes, mut threads) = (Vec::new(), Vec::new());
        while read.next_batch(&mut batch).unwrap() {
            for event in &batch.events {
                match &event.event {
                    TraceEvent::Process { pid, command, .. } => {
                        processes.push((*pid, command.clone()));
                    }
                    TraceEvent::Thread { process, tid, .. } => threads.push((process.0, *tid)),
                    _ => {}
                }
            }
        }
        let named = |pid, command: &str| (pid, command.to_owned());
        assert_eq!(
            processes,
            [
                named(123, "redis-server"),
                named(200, "Web Content"),
                named(300, "tmux: server"),
                named(0, "")
            ]
        );
        assert_eq!(threads, [(0, 124), (1, 201), (2, 300), (0, 123), (3, 0)]);
    }

    #[test]
    fn wrong_lines_are_named_after_all_good_ones() {
        for (line, what) in [
            ("10 0x1000 r", "no time"),
            ("a 1/1 5.1:", "event is missing"),
            ("a 1/1 5.1: 3", "event is missing"),
            ("a 1/1 5.1: mem-loads:", "address is missing"),
            ("a 1/1 5.1: mem-loads: main+0x10", "no hexadecimal address"),
            ("a 1/1 5.1: mem-loads: 12345678901234567", "no hexadecimal address"),
            ("k 4452 [000] 8.3: damon:damon_aggregated: target_id=1 nr_regions=2 1-2: 0 3", "damo"),
            ("a 1/1 99999999999999999999.1: e: 1", "no time"),
        ] {
            let text = format!("a 1/1 5.0: mem-loads: 1000\n{line}\na 1/1 5.0: mem-loads: 1000\n");
            let (found, result) = testing::read(&mut source(&text));
            assert_eq!(found.last().unwrap(), "0 1 Load 0 0", "{line}");
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("p.txt: line 2: ") && error.contains(what), "{error}");
            assert!(error.contains("\nhint: "), "{error}");
        }
    }

    #[test]
    fn it_is_told_from_simple_text() {
        for line in GOLDEN.lines().filter(|line| line.contains("mem-") || line.contains("PERF")) {
            assert!(is_perf_script(line), "{line}");
        }
        for line in ["10 0x1000 r", "10 4096 w 7", "", "# comment", "{\"a\": 1.5}"] {
            assert!(!is_perf_script(line), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(text in "[a-z0-9:./ \t\n|\\[\\]#x]{0,300}", at in 0usize..1200, byte: u8) {
            let _ = testing::read(&mut source(&text));
            let mut bytes = GOLDEN.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = testing::read(&mut PerfSource::new(&bytes[..], "p"));
            let _ = testing::read(&mut PerfSource::new(&bytes[..at], "p"));
        }
    }
}
