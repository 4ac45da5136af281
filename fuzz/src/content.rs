//! Content of a trace, with nothing left of how it was cut into batches.

use frostline_trace::batch::Want;
use frostline_trace::{Batch, MemTrace, TimedEvent, TraceError, TraceSource};

/// Everything that was read.
#[derive(Debug, Default, PartialEq)]
pub struct Content {
    /// With the number of the access that follows.
    pub events: Vec<(usize, TimedEvent)>,
    /// Clock, page, kind, stream, line.
    pub accesses: Vec<(u64, u32, u32, u32, u32)>,
}

/// How reading ended.
#[derive(Debug)]
pub enum End {
    /// Everything was read.
    Whole,
    /// There was more than was asked for.
    More,
    /// What follows cannot be read.
    Damaged(TraceError),
}

/// Reads up to `most` accesses and events.
///
/// # Panics
/// Where a batch contradicts itself, or anything comes after an error.
pub fn drain(source: &mut dyn TraceSource, most: usize) -> (Content, End) {
    source.want(Want { clock_deltas: true, lines: true });
    let (mut content, mut batch) = (Content::default(), Batch::new());
    loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => return (content, End::Whole),
            Err(error) => {
                assert!(!source.next_batch(&mut batch).unwrap(), "an error is the end");
                return (content, End::Damaged(error));
            }
        }
        assert!(!batch.pages.is_empty() || !batch.events.is_empty(), "a batch holds something");
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
        if content.accesses.len() + content.events.len() > most {
            return (content, End::More);
        }
    }
}

/// Reads a foreign format, which `open` opens, by itself and by way of a native trace; both must say the same.
///
/// # Panics
/// Where that is not so.
pub fn check_import<S: TraceSource, E>(open: impl Fn() -> Result<S, E>, most: usize) {
    let Ok(mut source) = open() else { return };
    let (content, end) = drain(&mut source, most);
    let _ = source.warning();
    let Ok(mut again) = open() else { panic!("what was opened once is opened twice") };
    match end {
        End::Whole => {
            let copy = MemTrace::capture(&mut again).expect("it was read whole before");
            let (copied, end) = drain(&mut copy.reader().expect("it was just written"), most);
            assert!(matches!(end, End::Whole), "what we wrote is good: {end:?}");
            assert_eq!(copied.accesses, content.accesses, "a copy is the same");
            assert_eq!(copied.events, content.events, "a copy is the same");
        }
        End::Damaged(_) => {
            MemTrace::capture(&mut again).expect_err("it was damaged before");
        }
        End::More => {}
    }
}
