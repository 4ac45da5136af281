//! Native traces. Checksums are also made right, so that what lies behind them is reached.

use crate::content::{Content, End, drain};
use crate::target::Target;
use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId, Region};
use frostline_trace::event::{MapKind, StreamId};
use frostline_trace::native::repair_checksums;
use frostline_trace::{
    MemTrace, TraceError, TraceEvent, TraceHeader, TraceReader, TraceSource, TraceWriter,
};

pub const TARGET: Target = Target { name: "trace", check, seeds, words: &[] };

/// More than a small file holds: a block has 256 accesses and takes some bytes.
const MOST: usize = usize::MAX;

fn check(bytes: &[u8]) {
    let _ = check_as_is(bytes);
    let mut repaired = bytes.to_vec();
    repair_checksums(&mut repaired);
    let _ = check_as_is(&repaired);
}

fn read(reader: &mut TraceReader) -> (Content, Result<(), TraceError>) {
    let (content, end) = drain(reader, MOST);
    match end {
        End::Damaged(error) => (content, Err(error)),
        _ => (content, Ok(())),
    }
}

fn check_as_is(bytes: &[u8]) -> Result<Content, TraceError> {
    let trace = MemTrace::from_bytes(bytes, "input");
    let (content, result) = read(&mut trace.reader()?);
    let mut prefix = trace.reader()?.prefix(true);
    let (again, ended) = read(&mut prefix);
    ended.expect("prefix mode has no damage");
    assert_eq!(again, content, "prefix mode gives the same");
    assert_eq!(prefix.warning().is_some(), result.is_err() || prefix.totals().is_none());

    let copy = MemTrace::capture(&mut trace.reader()?.prefix(true)).expect("it was just read");
    let (copied, ended) = read(&mut copy.reader().expect("we wrote it"));
    ended.expect("what we wrote is good");
    assert_eq!(copied, content, "a copy is the same");

    let mut seeking = trace.reader()?;
    if let Ok(start) = seeking.seek_record(content.accesses.len() as u64 / 2) {
        assert!(start <= content.accesses.len() as u64);
        let _ = read(&mut seeking);
    }
    result.map(|()| content)
}

/// Every kind of event, and accesses of a few blocks.
pub fn example() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        TraceWriter::new(&mut bytes, "seed", &TraceHeader::named("seed")).expect("memory is there");
    let (process, stream) = (ProcessId(0), StreamId(0));
    let run = PageRun { start: PageId(3), pages: 100 };
    let (start, len_bytes) = (0x7f00_0000_3000, run.bytes().0);
    let events = [
        TraceEvent::Process { process, parent: None, pid: 7, command: "a b".into() },
        TraceEvent::Thread { stream, process, tid: 7 },
        TraceEvent::RegionNamed { region: Region(0), process, huge_vpn: 0x3_f800 },
        TraceEvent::Map {
            process,
            start,
            len_bytes,
            kind: MapKind::Anonymous,
            accessible: true,
            runs: vec![run],
        },
        TraceEvent::Discard { process, start, len_bytes, runs: vec![run] },
        TraceEvent::Unmap { process, start, len_bytes, runs: vec![run] },
        TraceEvent::ThreadExit { stream },
        TraceEvent::ProcessExit { process, status: 0 },
    ];
    for (number, event) in (0_u64..).zip(events) {
        writer.event(100 * number, event).expect("memory is there");
        for i in 0..40 * number {
            let page = PageId((i * 7 % 500) as u32);
            let kind = AccessKind::from_bits((i % 4) as u8);
            let clock = 100 * number + i;
            writer.access(clock, page, kind, stream, (i % 64) as u8).expect("memory is there");
        }
    }
    writer.finish().expect("memory is there");
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    vec![example()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_files_of_the_corpus_are_read_and_others_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/trace");
        let mut good = 0;
        for entry in std::fs::read_dir(folder).expect("the corpus is part of the repository") {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let result = check_as_is(&std::fs::read(&path).expect("it can be read"));
            match (result, name.split('-').next()) {
                (Ok(content), Some("good")) => good += usize::from(!content.accesses.is_empty()),
                (Err(error), Some("good")) => panic!("{name}: {error}"),
                (Ok(_), Some("bad")) => panic!("{name}: was damaged, and is read as good"),
                _ => {}
            }
        }
        assert!(good >= 3, "the corpus has good traces");
        assert!(check_as_is(&example()).is_ok_and(|content| content.accesses.len() > 1000));
    }

    #[test]
    fn repaired_checksums_lead_behind_them() {
        let mut damaged = example();
        let last = damaged.len() / 2;
        damaged[last] ^= 1;
        assert!(check_as_is(&damaged).is_err());
        repair_checksums(&mut damaged);
        let (content, _) = read(&mut MemTrace::from_bytes(damaged, "x").reader().expect("whole"));
        assert!(!content.accesses.is_empty());
    }
}
