//! Round trips, and every way in which a file can be wrong.

use super::*;
use crate::batch::{Batch, TraceSource, Want};
use crate::error::TraceError;
use crate::event::{FileId, MapKind, StreamId, TimedEvent, TraceEvent};
use crate::header::TraceHeader;
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId, Region};
use proptest::prelude::*;

/// One access with everything absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    clock: u64,
    page: u32,
    kind: AccessKind,
    stream: u32,
    line: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Access(Access),
    Event(TimedEvent),
}

const ALL: Want = Want { clock_deltas: true, lines: true };

/// Reads to the end or the error; whatever came is kept.
fn drain(source: &mut dyn TraceSource, items: &mut Vec<Item>) -> Result<(), TraceError> {
    source.want(ALL);
    let mut batch = Batch::new();
    while source.next_batch(&mut batch)? {
        items.extend(batch.events.iter().cloned().map(Item::Event));
        let mut clock = batch.clock_start;
        for i in 0..batch.len() {
            clock += u64::from(batch.clock_deltas.get(i));
            items.push(Item::Access(Access {
                clock,
                page: batch.pages[i],
                kind: batch.kind(i),
                stream: batch.streams.get(i),
                line: batch.lines.get(i) as u8,
            }));
        }
        assert_eq!(clock, batch.clock_end);
        assert!(batch.len() <= 256);
    }
    assert!(batch.is_empty() && batch.events.is_empty());
    assert!(!source.next_batch(&mut batch).unwrap(), "the end is final");
    Ok(())
}

fn put(writer: &mut TraceWriter<&mut Vec<u8>>, items: &[Item]) {
    for item in items {
        match item.clone() {
            Item::Access(a) => {
                writer.access(a.clock, PageId(a.page), a.kind, StreamId(a.stream), a.line).unwrap();
            }
            Item::Event(e) => writer.event(e.clock, e.event).unwrap(),
        }
    }
}

fn write(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "test", &TraceHeader::named("test")).unwrap();
    put(&mut writer, items);
    writer.finish().unwrap();
    bytes
}

fn reader(bytes: &[u8]) -> Result<TraceReader, TraceError> {
    MemTrace::from_bytes(bytes, "test.flt").reader()
}

fn read(bytes: &[u8]) -> (Vec<Item>, Result<(), TraceError>) {
    let mut items = Vec::new();
    let result = reader(bytes).and_then(|mut reader| drain(&mut reader, &mut items));
    (items, result)
}

fn any_run() -> impl Strategy<Value = PageRun> {
    (any::<u32>(), any::<u32>())
        .prop_map(|(start, end)| PageRun::between(start.min(end), start.max(end)))
}

fn any_map_kind() -> impl Strategy<Value = MapKind> {
    (0..6u8, any::<u32>(), any::<u64>()).prop_map(|(kind, file, offset_bytes)| {
        let file = FileId(file);
        match kind {
            0 => MapKind::Anonymous,
            1 => MapKind::SharedAnonymous,
            2 => MapKind::Heap,
            3 => MapKind::Stack,
            4 => MapKind::FilePrivate { file, offset_bytes },
            _ => MapKind::FileShared { file, offset_bytes },
        }
    })
}

fn any_touched() -> impl Strategy<Value = Vec<(Region, [u64; 8])>> {
    let bits = prop_oneof![
        Just([u64::MAX; 8]),
        Just([0; 8]),
        any::<[u64; 8]>(),
        any::<[u8; 5]>().prop_map(|few| {
            few.iter().fold([0; 8], |mut bits, i| {
                bits[usize::from(*i) / 64] |= 1 << (i % 64);
                bits
            })
        }),
    ];
    prop::collection::vec(((0..1u32 << 23).prop_map(Region), bits), 0..4)
}

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let process = || any::<u32>().prop_map(ProcessId);
    let stream = || any::<u32>().prop_map(StreamId);
    let file = || any::<u32>().prop_map(FileId);
    let runs = || prop::collection::vec(any_run(), 0..3);
    let moves = prop::collection::vec(
        (any_run(), any::<u32>()).prop_map(|(run, to)| (run, PageId(to.min(u32::MAX - run.pages)))),
        0..3,
    );
    let samples = prop::collection::vec((stream(), any::<u32>().prop_map(PageId)), 0..5);
    prop_oneof![
        (process(), prop::option::of(process()), any::<u32>(), ".*").prop_map(
            |(process, parent, pid, command)| TraceEvent::Process { process, parent, pid, command }
        ),
        (process(), any::<i32>())
            .prop_map(|(process, status)| TraceEvent::ProcessExit { process, status }),
        (stream(), process(), any::<u32>()).prop_map(|(stream, process, tid)| TraceEvent::Thread {
            stream,
            process,
            tid
        }),
        stream().prop_map(|stream| TraceEvent::ThreadExit { stream }),
        (0..1u32 << 23, process(), any::<u64>()).prop_map(|(region, process, huge_vpn)| {
            TraceEvent::RegionNamed { region: Region(region), process, huge_vpn }
        }),
        (process(), any::<u64>(), any::<u64>(), any_map_kind(), any::<bool>(), runs()).prop_map(
            |(process, start, len_bytes, kind, accessible, runs)| TraceEvent::Map {
                process,
                start,
                len_bytes,
                kind,
                accessible,
                runs
            }
        ),
        (process(), any::<u64>(), any::<u64>(), runs()).prop_map(
            |(process, start, len_bytes, runs)| TraceEvent::Unmap {
                process,
                start,
                len_bytes,
                runs
            }
        ),
        (process(), any::<u64>(), any::<u64>(), runs()).prop_map(
            |(process, start, len_bytes, runs)| TraceEvent::Discard {
                process,
                start,
                len_bytes,
                runs
            }
        ),
        (process(), any::<[u64; 4]>(), moves, runs(), runs()).prop_map(
            |(
                process,
                [old_start, old_len_bytes, new_start, new_len_bytes],
                moves,
                gained,
                lost,
            )| {
                TraceEvent::Remap {
                    process,
                    old_start,
                    old_len_bytes,
                    new_start,
                    new_len_bytes,
                    moves,
                    gained,
                    lost,
                }
            }
        ),
        (file(), process(), any::<i32>(), ".*")
            .prop_map(|(file, process, fd, path)| TraceEvent::FileOpen { file, process, fd, path }),
        (file(), process(), any::<i32>()).prop_map(|(file, process, fd)| TraceEvent::FileClose {
            file,
            process,
            fd
        }),
        (file(), process(), any::<u64>(), any::<u64>()).prop_map(
            |(file, process, offset_bytes, len_bytes)| TraceEvent::FileRead {
                file,
                process,
                offset_bytes,
                len_bytes
            }
        ),
        (file(), process(), any::<u64>(), any::<u64>()).prop_map(
            |(file, process, offset_bytes, len_bytes)| TraceEvent::FileWrite {
                file,
                process,
                offset_bytes,
                len_bytes
            }
        ),
        (stream(), any::<u64>()).prop_map(|(stream, op)| TraceEvent::OpBegin { stream, op }),
        (stream(), any::<u64>()).prop_map(|(stream, op)| TraceEvent::OpEnd { stream, op }),
        samples.prop_map(|samples| TraceEvent::StoreSamples { samples }),
        (any::<u64>(), any_touched())
            .prop_map(|(epoch, regions)| TraceEvent::Touched { epoch, regions }),
    ]
}

/// Accesses in stretches of like records, with events between.
fn any_items() -> impl Strategy<Value = Vec<Item>> {
    let elapsed = prop_oneof![
        10 => Just(0u64),
        10 => 0..100u64,
        3 => 0..1u64 << 33,
        1 => 0..1u64 << 60,
    ];
    let stretch = (1..600usize, any::<u64>(), 0..33u32, 0..4u32, 0..33u32, 0..2u64, elapsed)
        .prop_map(|(len, seed, page_bits, kinds, stream_bits, lines, elapsed)| {
            let mut rng = Rng::new(seed);
            let low = rng.next_u64() as u32;
            let mut bits = |bits: u32| rng.below(1 << bits) as u32;
            let accesses: Vec<_> = (0..len)
                .map(|i| {
                    let page = bits(page_bits).saturating_add(low);
                    let kind = AccessKind::from_bits(bits(kinds.min(2)) as u8);
                    let line = bits(6) as u8 * lines as u8;
                    let since = if i % 97 == 0 { elapsed } else { u64::from(bits(8)) & elapsed };
                    (since, Access { clock: 0, page, kind, stream: bits(stream_bits), line })
                })
                .collect();
            accesses
        });
    let part = (prop::collection::vec((any::<u64>(), any_event()), 0..4), stretch);
    prop::collection::vec(part, 0..5).prop_map(|parts| {
        let mut clock = 0u64;
        let mut items = Vec::new();
        for (events, stretch) in parts {
            for (clock, event) in events {
                items.push(Item::Event(TimedEvent { clock, event }));
            }
            for (elapsed, access) in stretch {
                clock = clock.saturating_add(elapsed);
                items.push(Item::Access(Access { clock, ..access }));
            }
        }
        items
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_comes_back(items in any_items()) {
        let (back, result) = read(&write(&items));
        result.unwrap();
        prop_assert_eq!(back, items);
    }

    #[test]
    fn events_come_back_one_by_one(event in any_event()) {
        let mut bytes = Vec::new();
        encode_event(&mut bytes, &event);
        prop_assert_eq!(decode_event(&bytes), Ok(event));
        for cut in 0..bytes.len() {
            prop_assert!(decode_event(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn a_copy_equals_its_original(items in any_items()) {
        let trace = MemTrace::from_bytes(write(&items), "test");
        let copy = MemTrace::capture(&mut trace.reader().unwrap()).unwrap();
        prop_assert_eq!(read(copy.as_bytes()).0, items);
    }

    #[test]
    fn seeking_continues_where_asked(items in any_items(), place in 0.0..1.1f64) {
        let bytes = write(&items);
        let accesses: Vec<_> = items.iter().filter(|item| matches!(item, Item::Access(_))).collect();
        let wanted = (accesses.len() as f64 * place) as u64;
        let mut finished = reader(&bytes).unwrap();
        // Without the end frame there is no index to be found.
        let mut unfinished = reader(&bytes[..bytes.len() - layout::END_FRAME_LEN]).unwrap();
        for reader in [&mut finished, &mut unfinished] {
            let mut first_items = Vec::new();
            drain(reader, &mut first_items).unwrap();
            let start = reader.seek_record(wanted).unwrap();
            let mut rest = Vec::new();
            drain(reader, &mut rest).unwrap();
            rest.retain(|item| matches!(item, Item::Access(_)));
            prop_assert!(start <= wanted.min(accesses.len() as u64));
            prop_assert!(wanted - start < 256 || start == accesses.len() as u64);
            prop_assert_eq!(rest.iter().collect::<Vec<_>>(), accesses[start as usize..].to_vec());
        }
    }
}

/// A small trace with several frames, all columns and events of several kinds.
fn small() -> (Vec<Item>, Vec<u8>) {
    let mut rng = Rng::new(3);
    let mut items = vec![Item::Event(TimedEvent {
        clock: 0,
        event: TraceEvent::Process {
            process: ProcessId(0),
            parent: None,
            pid: 7,
            command: "a b".into(),
        },
    })];
    let mut clock = 0;
    for i in 0..70u32 {
        clock += rng.below(9);
        items.push(Item::Access(Access {
            clock,
            page: rng.below(1 << 10) as u32,
            kind: AccessKind::from_bits(rng.below(4) as u8),
            stream: rng.below(3) as u32,
            line: rng.below(64) as u8,
        }));
        if i % 20 == 5 {
            let event = TraceEvent::OpBegin { stream: StreamId(1), op: 300 };
            items.push(Item::Event(TimedEvent { clock, event }));
        }
    }
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "test", &TraceHeader::named("test")).unwrap();
    for part in items.chunks(25) {
        put(&mut writer, part);
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    (items, bytes)
}

#[test]
fn cut_at_every_byte_it_gives_a_prefix_and_says_so() {
    let (items, bytes) = small();
    let (mut clean, mut short) = (0, 0);
    for cut in 0..bytes.len() {
        let (found, result) = read(&bytes[..cut]);
        assert_eq!(found, items[..found.len()], "cut at {cut}");
        let Ok(mut prefix) = reader(&bytes[..cut]).map(|reader| reader.prefix(true)) else {
            assert!(result.is_err() && found.is_empty());
            continue;
        };
        let mut again = Vec::new();
        drain(&mut prefix, &mut again).unwrap();
        assert_eq!(again, found);
        assert!(prefix.warning().is_some());
        match (result, prefix.ending().unwrap()) {
            (Ok(()), Ending::Unfinished) => clean += 1,
            (Err(TraceError::Truncated { offset: at, .. }), Ending::Lost { offset, bytes, .. }) => {
                assert_eq!((at, Some(cut as u64 - at)), (*offset, *bytes));
                short += 1;
            }
            (result, ending) => panic!("cut at {cut}: {result:?}, {ending:?}"),
        }
    }
    // Behind the header, the data frames and the index: 3 flushed parts and the rest.
    assert_eq!(clean, 5);
    assert!(short > 500);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (items, bytes) = small();
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut wrong = bytes.clone();
            wrong[at] ^= flip;
            let (found, result) = read(&wrong);
            assert!(result.is_err(), "byte {at} ^ {flip}");
            assert_eq!(found, items[..found.len()], "byte {at} ^ {flip}");
        }
    }
}

#[test]
fn frames_lost_swapped_or_doubled_are_noticed() {
    let (_, bytes) = small();
    let mut frames = Vec::new();
    let mut at = layout::PREAMBLE_LEN;
    while at < bytes.len() {
        let header =
            layout::FrameHeader::decode(&bytes[at..at + layout::FRAME_HEADER_LEN]).unwrap();
        let end = at + layout::FRAME_HEADER_LEN + header.payload_len as usize;
        frames.push(&bytes[at..end]);
        at = end;
    }
    assert_eq!(frames.len(), 6, "header, 3 of data, index, end");
    let build = |order: &[usize]| {
        let frames = order.iter().flat_map(|i| frames[*i].iter().copied());
        bytes[..layout::PREAMBLE_LEN].iter().copied().chain(frames).collect::<Vec<u8>>()
    };
    read(&build(&[0, 1, 2, 3, 4, 5])).1.unwrap();
    for order in [
        &[0, 2, 3, 4, 5][..],
        &[0, 1, 3, 4, 5],
        &[0, 1, 2, 4, 5],
        &[0, 1, 2, 3, 5],
        &[0, 2, 1, 3, 4, 5],
        &[0, 1, 1, 2, 3, 4, 5],
        &[0, 0, 1, 2, 3, 4, 5],
        &[1, 2, 3, 4, 5],
        &[0, 1, 2, 3, 4, 5, 5],
    ] {
        let error = read(&build(order)).1.unwrap_err();
        assert!(matches!(error, TraceError::Damaged { .. }), "{order:?}: {error}");
    }
}

#[test]
fn foreign_files_are_named() {
    let what = |bytes: &[u8]| match read(bytes).1.unwrap_err() {
        TraceError::Foreign { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(b""), "the file is empty");
    assert!(what(b"PAR1\x15\0\0\0\0\0\0\0\0\0\0\0\0\0").contains("trace import"));
    assert!(what(b"0 0x1000 r\n1 0x2000 w\n").contains("text"));
    assert!(what(b"1 2 r\n").contains("text"));
    assert!(what(&[0x1f, 0x8b, 8, 0]).contains("compressed"));
    assert!(what(&[0x7f, b'E', b'L', b'F', 2, 1, 1]).contains("frostline record"));
}

#[test]
fn newer_versions_are_named() {
    let (_, mut bytes) = small();
    bytes[8..12].copy_from_slice(&7u32.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    match read(&bytes).1.unwrap_err() {
        TraceError::Version { found: 7, supported: VERSION, .. } => {}
        other => panic!("{other}"),
    }
}

#[test]
fn dropped_writers_leave_what_they_had() {
    let (items, _) = small();
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "test", &TraceHeader::named("test")).unwrap();
    put(&mut writer, &items);
    drop(writer);
    let mut found = Vec::new();
    let mut reader = reader(&bytes).unwrap();
    assert_eq!(reader.totals(), None);
    drain(&mut reader, &mut found).unwrap();
    assert_eq!(found, items);
    assert_eq!(reader.ending(), Some(&Ending::Unfinished));
    assert!(reader.warning().unwrap().contains("stopped"));
}

#[test]
fn totals_and_sizes_are_known() {
    let (items, bytes) = small();
    let mut reader = reader(&bytes).unwrap();
    let totals = reader.totals().unwrap();
    let accesses = items.iter().filter_map(|item| match item {
        Item::Access(access) => Some(access),
        Item::Event(_) => None,
    });
    assert_eq!(totals.records, 70);
    assert_eq!(totals.events as usize, items.len() - 70);
    assert_eq!(totals.pages, accesses.clone().map(|a| u64::from(a.page) + 1).max().unwrap());
    assert_eq!(totals.clock_end, accesses.clone().next_back().unwrap().clock);
    assert_eq!(totals.by_kind.iter().sum::<u64>(), 70);
    assert_eq!(reader.header().expected_records, Some(70));
    drain(&mut reader, &mut Vec::new()).unwrap();
    assert_eq!(reader.ending(), Some(&Ending::Finished));
    assert_eq!(reader.warning(), None);
}

#[test]
fn long_traces_span_many_frames_and_stay_small() {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, "test", &TraceHeader::named("test")).unwrap();
    let mut rng = Rng::new(1);
    let records = 100_000;
    for _ in 0..records {
        let page = PageId(rng.below(1 << 22) as u32);
        writer.access(0, page, AccessKind::Load, StreamId(0), 0).unwrap();
    }
    assert_eq!(writer.records(), records);
    writer.finish().unwrap();
    let bytes_per_record = bytes.len() as f64 / records as f64;
    assert!((2.75..2.85).contains(&bytes_per_record), "22 bits: {bytes_per_record}");
    let mut reader = reader(&bytes).unwrap();
    let mut items = Vec::new();
    drain(&mut reader, &mut items).unwrap();
    assert_eq!(items.len() as u64, records);
}

#[test]
fn floods_of_events_come_in_bounded_batches() {
    let event = TraceEvent::OpEnd { stream: StreamId(0), op: 1 };
    let items: Vec<_> =
        (0..10_000).map(|clock| Item::Event(TimedEvent { clock, event: event.clone() })).collect();
    let bytes = write(&items);
    assert_eq!(read(&bytes).0, items);
    let mut reader = reader(&bytes).unwrap();
    let mut batch = Batch::new();
    assert!(reader.next_batch(&mut batch).unwrap());
    assert_eq!((batch.events.len(), batch.len()), (4096, 0));
}

#[test]
fn clocks_never_go_back() {
    let access = |clock| {
        Item::Access(Access { clock, page: 1, kind: AccessKind::Store, stream: 0, line: 0 })
    };
    let (found, result) = read(&write(&[access(10), access(5), access(u64::MAX), access(11)]));
    result.unwrap();
    assert_eq!(found, [access(10), access(10), access(u64::MAX), access(u64::MAX)]);
}

#[test]
fn columns_not_wanted_are_zero() {
    let (_, bytes) = small();
    let mut reader = reader(&bytes).unwrap();
    let mut batch = Batch::new();
    let mut clocks = 0;
    while reader.next_batch(&mut batch).unwrap() {
        assert_eq!((batch.clock_deltas.constant(), batch.lines.constant()), (Some(0), Some(0)));
        clocks += batch.clock_end - batch.clock_start;
    }
    assert_eq!(clocks, reader.totals().unwrap().clock_end);
}

/// Output that takes so many bytes and no more.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_stays_one() {
    let mut writer = TraceWriter::new(Full(2000), "out.flt", &TraceHeader::named("x")).unwrap();
    let mut rng = Rng::new(1);
    let mut push = |writer: &mut TraceWriter<Full>| {
        let page = PageId(rng.next_u64() as u32);
        writer.access(0, page, AccessKind::Load, StreamId(0), 0)
    };
    let error =
        (0..20_000).find_map(|_| push(&mut writer).err()).expect("2000 bytes are not enough");
    assert!(error.to_string().starts_with("out.flt: write: "), "{error}");
    assert!(push(&mut writer).is_err());
    assert!(writer.finish().is_err());
}

#[test]
fn files_are_read_like_memory() {
    let (items, bytes) = small();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.flt");
    std::fs::write(&path, &bytes).unwrap();
    let mut found = Vec::new();
    let mut reader = TraceReader::open(&path).unwrap();
    drain(&mut reader, &mut found).unwrap();
    assert_eq!(found, items);
    assert_eq!(reader.progress_bytes(), (bytes.len() as u64, Some(bytes.len() as u64)));
    assert!(matches!(TraceReader::open(dir.path()), Err(TraceError::Io { doing: "open", .. })));
    assert!(matches!(TraceReader::open(dir.path().join("no")), Err(TraceError::Io { .. })));
}
