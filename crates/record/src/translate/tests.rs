use super::*;
use frostline_trace::{Batch, MemTrace, TraceHeader, TraceSource};

/// An event as a packet holds it.
fn event(code: u64, value: u64, body: &[u64]) -> Vec<u64> {
    let first = 1 << 63 | code << 56 | (body.len() as u64) << 44 | value;
    std::iter::once(first).chain(body.iter().copied()).collect()
}

/// The trace of one packet.
fn translated(payload: &[Vec<u64>]) -> MemTrace {
    let payload: Vec<u8> = payload.concat().iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut trace = Vec::new();
    let writer = TraceWriter::new(&mut trace, "t", &TraceHeader::named("t")).unwrap();
    let mut translator = Translator::new(writer);
    let bytes = HEADER_BYTES + payload.len();
    let header = Header {
        bytes,
        pid: 7,
        tid: 7,
        sequence: 0,
        clock_start: 0,
        clock_end: 0,
        is_final: false,
    };
    translator.packet(&header, &payload).unwrap();
    translator.finish(None).unwrap();
    MemTrace::from_bytes(trace, "t")
}

#[test]
fn no_stretch_of_memory_ends_before_it_begins() {
    for start in [0, 1, PAGE - 1, PAGE, u64::MAX - PAGE, u64::MAX - 7, u64::MAX] {
        for len in [0, 1, PAGE, u64::MAX - start, u64::MAX] {
            assert!(page_end(start, len) >= start, "{start} {len}");
        }
    }
}

#[test]
fn moving_reserved_address_space_takes_time_by_what_was_touched_of_it() {
    const OLD: u64 = 1 << 40;
    const NEW: u64 = 1 << 44;
    const LEN: u64 = 1 << 62;
    let touch = |address: u64| vec![(address / PAGE) << 28];
    let trace = translated(&[
        event(18, 0, &[0; 9]),
        event(6, 0, &[OLD, LEN, 3 | 0x22 << 32, 0, 0, 0, 0]),
        touch(OLD + 3 * PAGE),
        touch(OLD + 4 * PAGE),
        touch(OLD + (1 << 30)),
        event(8, 0, &[OLD, LEN, NEW, LEN]),
        touch(NEW + 4 * PAGE),
    ]);
    let (mut reader, mut batch) = (trace.reader().unwrap(), Batch::new());
    let (mut moved, mut pages) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        for event in &batch.events {
            if let TraceEvent::Remap { moves, .. } = &event.event {
                moved.extend(
                    moves
                        .iter()
                        .flat_map(|(run, to)| (0..run.pages).map(|i| (run.start.0 + i, to.0 + i))),
                );
            }
        }
        pages.extend_from_slice(&batch.pages);
    }
    let [third, fourth, far, fourth_moved] = pages[..] else { panic!("{pages:?}") };
    let to = |page| moved.iter().find(|(from, _)| *from == page).map(|(_, to)| *to);
    assert_eq!(to(fourth), Some(fourth_moved));
    assert_eq!(to(third), Some(fourth_moved - 1));
    assert!(to(far).is_some());
}
