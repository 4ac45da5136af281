//! What must hold for any bytes. Shared by the fuzz target and the corpus test.

use frostline_trace::batch::Want;
use frostline_trace::native::repair_checksums;
use frostline_trace::{Batch, MemTrace, TimedEvent, TraceError, TraceReader, TraceSource};

/// Everything that a batch says, with nothing left of how it was cut.
#[derive(Debug, Default, PartialEq)]
pub struct Content {
    /// With the number of the access that follows.
    pub events: Vec<(usize, TimedEvent)>,
    /// Clock, page, kind, stream, line.
    pub accesses: Vec<(u64, u32, u32, u32, u32)>,
}

fn drain(reader: &mut TraceReader) -> (Content, Result<(), TraceError>) {
    reader.want(Want { clock_deltas: true, lines: true });
    let (mut content, mut batch) = (Content::default(), Batch::new());
    loop {
        match reader.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => return (content, Ok(())),
            Err(error) => {
                assert!(!reader.next_batch(&mut batch).unwrap(), "an error is the end");
                return (content, Err(error));
            }
        }
        let at = content.accesses.len();
        content.events.extend(batch.events.drain(..).map(|event| (at, event)));
        let mut clock = batch.clock_start;
        for (i, page) in batch.pages.iter().enumerate() {
            clock += u64::from(batch.clock_deltas.get(i));
            let (kind, line) = (batch.kinds.get(i), batch.lines.get(i));
            assert!(kind < 4 && line < 64);
            content.accesses.push((clock, *page, kind, batch.streams.get(i), line));
        }
        assert_eq!(clock, batch.clock_end);
    }
}

fn check_as_is(bytes: &[u8]) -> Result<Content, TraceError> {
    let trace = MemTrace::from_bytes(bytes, "corpus");
    let (content, result) = drain(&mut trace.reader()?);
    let mut prefix = trace.reader()?.prefix(true);
    let (again, ended) = drain(&mut prefix);
    ended.expect("prefix mode has no damage");
    assert_eq!(again, content, "prefix mode gives the same");
    assert_eq!(prefix.warning().is_some(), result.is_err() || prefix.totals().is_none());

    let copy = MemTrace::capture(&mut trace.reader()?.prefix(true)).unwrap();
    let (copied, ended) = drain(&mut copy.reader().unwrap());
    ended.expect("what we wrote is good");
    assert_eq!(copied, content, "a copy is the same");

    let mut seeking = trace.reader()?;
    if let Ok(start) = seeking.seek_record(content.accesses.len() as u64 / 2) {
        assert!(start <= content.accesses.len() as u64);
        let _ = drain(&mut seeking);
    }
    result.map(|()| content)
}

/// Decodes, and decodes again with checksums made right, so that what lies behind them is reached.
/// Panics where anything that must hold does not. Tells for both whether the trace was good.
pub fn check(bytes: &[u8]) -> [Result<Content, TraceError>; 2] {
    let mut repaired = bytes.to_vec();
    repair_checksums(&mut repaired);
    [check_as_is(bytes), check_as_is(&repaired)]
}
