//! Tests that what was exported comes back.

use crate::pages::claimed_bytes;
use crate::{ParquetSource, events_path, export};
use frostline_core::rng::Rng;
use frostline_core::types::{AccessKind, PageId, ProcessId, Region};
use frostline_trace::event::{FileId, MapKind, StreamId, TraceEvent};
use frostline_trace::{MemTrace, TraceError, TraceHeader, TraceSource, TraceWriter};
use std::path::Path;

fn trace(records: u32) -> MemTrace {
    let mut bytes = Vec::new();
    let header = TraceHeader { seed: Some(5), ..TraceHeader::named("t") };
    let mut writer = TraceWriter::new(&mut bytes, "t", &header).unwrap();
    let mut rng = Rng::new(9);
    let process = ProcessId(3);
    let named = TraceEvent::RegionNamed { region: Region(1), process, huge_vpn: 77 };
    writer.event(1, named).unwrap();
    writer.event(1, TraceEvent::Thread { stream: StreamId(2), process, tid: 99 }).unwrap();
    let kind = MapKind::FileShared { file: FileId(4), offset_bytes: 4096 };
    let (start, len_bytes, accessible, runs) = (77 << 21, 1 << 20, true, Vec::new());
    writer.event(2, TraceEvent::Map { process, start, len_bytes, kind, accessible, runs }).unwrap();
    let mut clock = 0;
    for i in 0..records {
        clock += rng.below(100);
        if i == 1000 {
            clock += 1 << 40;
        }
        let kind = AccessKind::from_bits(rng.below(4) as u8);
        let stream = StreamId(rng.below(3) as u32);
        writer
            .access(clock, PageId(rng.below(2000) as u32), kind, stream, rng.below(64) as u8)
            .unwrap();
        if i % 300 == 7 {
            writer.event(clock, TraceEvent::OpBegin { stream, op: u64::from(i) }).unwrap();
        }
    }
    writer.event(u64::MAX, TraceEvent::ProcessExit { process, status: -1 }).unwrap();
    writer.finish().unwrap();
    MemTrace::from_bytes(bytes, "t")
}

fn export_to(trace: &MemTrace, path: &Path) {
    let exported = export(&mut trace.reader().unwrap(), path, |_| true).unwrap();
    let totals = trace.reader().unwrap().totals().unwrap();
    assert_eq!((exported.records, exported.events), (totals.records, totals.events));
    assert_eq!(exported.events_path, events_path(path));
}

#[test]
fn import_of_an_export_equals_the_original() {
    let dir = tempfile::tempdir().unwrap();
    // One row group and a half; and nothing at all.
    for records in [(1 << 20) + (1 << 19), 0] {
        let original = trace(records);
        let path = dir.path().join("t.parquet");
        export_to(&original, &path);
        let mut source = ParquetSource::open(&path).unwrap();
        assert_eq!(source.header().seed, Some(5));
        let back = MemTrace::capture(&mut source).unwrap();
        // The same items cut into the same blocks are the same bytes.
        let same = MemTrace::capture(&mut original.reader().unwrap()).unwrap();
        assert!(back.as_bytes() == same.as_bytes(), "{records} records");
        assert_eq!(back.reader().unwrap().totals().unwrap().records, u64::from(records));
    }
}

#[test]
fn a_missing_events_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    export_to(&trace(100), &path);
    std::fs::remove_file(events_path(&path)).unwrap();
    let error = ParquetSource::open(&path).unwrap_err();
    assert!(error.to_string().contains("t.events.parquet: open"), "{error}");
}

#[test]
fn foreign_and_damaged_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    export_to(&trace(100), &path);
    // The events' file is a Parquet file without pages.
    let error = ParquetSource::open(events_path(&path)).unwrap_err();
    assert!(
        matches!(&error, TraceError::Foreign { what, .. } if what.contains("`page`")),
        "{error}"
    );
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 3, 10, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(ParquetSource::open(&path).is_err(), "cut at {cut}");
    }
    std::fs::write(&path, "1 2 r\n").unwrap();
    assert!(ParquetSource::open(&path).is_err());
}

#[test]
fn exports_stop_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let original = trace((1 << 20) + 5000);
    let exported = export(&mut original.reader().unwrap(), &path, |_| false).unwrap();
    assert!(exported.records < (1 << 20) + 5000 && exported.records >= 1 << 20);
    let back = MemTrace::capture(&mut ParquetSource::open(&path).unwrap()).unwrap();
    assert_eq!(back.reader().unwrap().totals().unwrap().records, exported.records);
}

#[test]
fn row_groups_of_more_rows_than_a_file_accounts_for_are_refused() {
    use parquet::data_type::{Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let write = |times: usize| {
        let text = "message t { required int64 clock; required int64 page; required int32 kind; }";
        let schema = std::sync::Arc::new(parse_message_type(text).unwrap());
        let file = std::fs::File::create(&path).unwrap();
        let mut writer =
            SerializedFileWriter::new(file, schema, std::sync::Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for column in 0..3 {
            let mut out = group.next_column().unwrap().unwrap();
            for _ in 0..times {
                match column {
                    2 => out.typed::<Int32Type>().write_batch(&vec![1; 1 << 18], None, None),
                    _ => out.typed::<Int64Type>().write_batch(&vec![7; 1 << 18], None, None),
                }
                .unwrap();
            }
            out.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    };
    write(4);
    let read = MemTrace::capture(&mut ParquetSource::open(&path).unwrap()).unwrap();
    assert_eq!(read.reader().unwrap().totals().unwrap().records, 1 << 20);
    write(12);
    let len = path.metadata().unwrap().len();
    assert!(len < 1 << 16, "{len} bytes hold three million rows");
    let error = MemTrace::capture(&mut ParquetSource::open(&path).unwrap()).unwrap_err();
    assert!(matches!(&error, TraceError::Absurd { .. }), "{error}");
    assert!(error.to_string().contains("\nhint: "), "{error}");
}

#[test]
fn what_pages_claim_is_what_the_library_decompresses() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    export_to(&trace(1 << 18), &path);
    for path in [path.clone(), events_path(&path)] {
        let file = std::fs::File::open(&path).unwrap();
        let reader = SerializedFileReader::new(file.try_clone().unwrap()).unwrap();
        let (mut pages, mut compressed) = (0, 0);
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).unwrap();
            for (index, column) in group.metadata().columns().iter().enumerate() {
                let read = group.get_column_page_reader(index).unwrap();
                let held: usize = read.map(|page| page.unwrap().buffer().len()).sum();
                let (start, len) = column.byte_range();
                assert_eq!(claimed_bytes(&file, start, len).unwrap(), held as u64);
                assert!(claimed_bytes(&file, start, len - 1).is_err(), "a part of a page");
                pages += held;
                compressed += len;
            }
        }
        assert!(compressed > 0 && pages as u64 > compressed, "something was compressed");
    }
}

#[test]
fn a_footer_whose_lists_are_longer_than_it_is_refused_before_the_library_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    // Field 15: a list of 2^31 - 1 truth values, numbers or structs, of which none is there.
    for kind in [1, 5, 12] {
        let footer = [0xf9, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
        let length = (footer.len() as u32).to_le_bytes();
        std::fs::write(&path, [b"PAR1", &footer[..], &length, b"PAR1"].concat()).unwrap();
        let error = ParquetSource::open(&path).expect_err("it has no schema").to_string();
        let ours = ["the footer is damaged", "failed to fill whole buffer"];
        assert!(ours.iter().any(|words| error.contains(words)), "{kind}: {error}");
    }
    let short = [b"PAR1".as_slice(), &9_u32.to_le_bytes(), b"PAR1"].concat();
    std::fs::write(&path, short).unwrap();
    assert!(ParquetSource::open(&path).is_err(), "a footer longer than the file");
}

#[test]
fn pages_that_claim_much_are_refused_before_they_are_read() {
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let text = "message t { required int64 clock; required int64 page; required binary kind; }";
    let schema = std::sync::Arc::new(parse_message_type(text).unwrap());
    let file = std::fs::File::create(&path).unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap()))
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .set_dictionary_enabled(false);
    let properties = std::sync::Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in 0..3 {
        let mut out = group.next_column().unwrap().unwrap();
        match column {
            2 => {
                let kind = ByteArray::from(vec![b'l'; 40 << 20]);
                out.typed::<ByteArrayType>().write_batch(&[kind], None, None).unwrap()
            }
            _ => out.typed::<Int64Type>().write_batch(&[7], None, None).unwrap(),
        };
        out.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let len = path.metadata().unwrap().len();
    assert!(len < 1 << 16, "{len} bytes hold 40 MiB");
    let error = MemTrace::capture(&mut ParquetSource::open(&path).unwrap()).unwrap_err();
    assert!(matches!(&error, TraceError::Absurd { .. }), "{error}");
    assert!(error.to_string().contains("when it is decompressed"), "{error}");
}
