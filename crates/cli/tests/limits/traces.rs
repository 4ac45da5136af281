//! Traces with numbers far out.

use crate::support::{assert_good, frostline, told};
use frostline_core::types::{AccessKind, PageId, PageRun, ProcessId, Region};
use frostline_trace::event::{FileId, MapKind, StreamId};
use frostline_trace::{TraceEvent, TraceHeader, TraceWriter};
use std::path::Path;

/// Everything that replays a trace `t`.
const READERS: [&str; 8] = [
    "compare t --policies memtis --fast 1:8 --no-bound",
    "compare t --policies hybridtier --fast 1:2 --report r.html --no-bound",
    "compare t --policies pet --fast 1:8",
    "compare t --policies tpp,arc,hotbox --fast 1:2,50%",
    "compare t --policies oracle-epoch,swap-belady --fast 1:1",
    "bound t",
    "trace profile t",
    "compare t --guest gpac --policies memtierd --fast 1:8 --no-bound",
];

/// Whether a trace has its end.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Written,
    Missing,
}

fn write(
    path: &Path,
    header: &TraceHeader,
    end: End,
    fill: impl FnOnce(&mut TraceWriter) -> Result<(), frostline_trace::TraceError>,
) -> u64 {
    let mut writer = TraceWriter::create(path, header).expect("a new file");
    fill(&mut writer).expect("room");
    match end {
        End::Written => drop(writer.finish().expect("room")),
        End::Missing => drop(writer),
    }
    path.metadata().expect("written").len()
}

fn named() -> TraceHeader {
    TraceHeader::named("t")
}

fn access(writer: &mut TraceWriter, page: u32) -> Result<(), frostline_trace::TraceError> {
    writer.access(1, PageId(page), AccessKind::Load, StreamId(0), 0)
}

fn run(start: u32, pages: u32) -> PageRun {
    PageRun { start: PageId(start), pages }
}

fn assert_read_by_all(folder: &Path, what: &str) {
    for reader in READERS {
        let args: Vec<&str> = reader.split(' ').collect();
        let output = frostline(folder, &args);
        assert_good(&output, &format!("{what}: {reader}"));
        assert!(!told(&output).contains("panicked"), "{what}: {reader}: {}", told(&output));
    }
}

#[test]
fn one_access_far_out_costs_little_wherever_traces_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    for (page, end) in [
        (1 << 30, End::Written),
        (u32::MAX, End::Written),
        (u32::MAX, End::Missing),
        (1 << 20, End::Missing),
    ] {
        let bytes = write(&path, &named(), end, |writer| access(writer, page));
        assert!(bytes < 600, "{bytes} bytes");
        assert_read_by_all(folder.path(), &format!("page {page}"));
        for looker in ["trace info t", "trace export t t.parquet", "trace import t.parquet t2"] {
            let args: Vec<&str> = looker.split(' ').collect();
            assert_good(&frostline(folder.path(), &args), &format!("page {page}: {looker}"));
        }
    }
}

#[test]
fn pages_that_a_header_expects_are_not_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    let header =
        TraceHeader { expected_pages: Some(u32::MAX), expected_records: Some(u64::MAX), ..named() };
    for end in [End::Written, End::Missing] {
        write(&path, &header, end, |writer| access(writer, 7));
        assert_read_by_all(folder.path(), "expected pages");
    }
}

#[test]
fn numbers_of_processes_threads_and_files_far_out_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    let far = u32::MAX;
    let (process, file, stream) = (ProcessId(far), FileId(far), StreamId(far));
    write(&path, &named(), End::Written, |writer| {
        let command = "p".to_owned();
        let parent = Some(ProcessId(far - 1));
        writer.event(0, TraceEvent::Process { process, parent, pid: far, command })?;
        writer.event(0, TraceEvent::Thread { stream, process, tid: far })?;
        writer.event(0, TraceEvent::FileOpen { file, process, fd: -1, path: "f".to_owned() })?;
        let kind = MapKind::FileShared { file, offset_bytes: u64::MAX };
        let (start, len_bytes, runs) = (u64::MAX - 9, u64::MAX, vec![run(0, far)]);
        writer.event(
            0,
            TraceEvent::Map { process, start, len_bytes, kind, accessible: true, runs },
        )?;
        writer.event(1, TraceEvent::OpBegin { stream, op: u64::MAX })?;
        writer.access(2, PageId(9), AccessKind::Store, stream, 63)?;
        writer.access(3, PageId(11), AccessKind::Store, StreamId(3), 63)?;
        writer.event(3, TraceEvent::OpEnd { stream, op: u64::MAX })?;
        let (offset_bytes, len_bytes) = (u64::MAX, u64::MAX);
        writer.event(4, TraceEvent::FileRead { file, process, offset_bytes, len_bytes })?;
        writer.event(4, TraceEvent::FileWrite { file, process, offset_bytes, len_bytes })?;
        writer.event(5, TraceEvent::FileClose { file, process, fd: far as i32 })?;
        writer.event(6, TraceEvent::ThreadExit { stream })?;
        writer.event(7, TraceEvent::ProcessExit { process, status: i32::MIN })
    });
    assert_read_by_all(folder.path(), "numbers");
}

#[test]
fn events_of_huge_ranges_and_times_cost_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    let process = ProcessId(0);
    let all = || vec![run(0, u32::MAX)];
    let (start, len_bytes) = (0, u64::MAX);
    write(&path, &named(), End::Written, |writer| {
        for huge_vpn in [0, (1 << 43) - 1] {
            let region = Region(u32::MAX / 512);
            writer.event(0, TraceEvent::RegionNamed { region, process, huge_vpn })?;
        }
        for clock in 0..25u32 {
            let kind = MapKind::Anonymous;
            let runs = all();
            let map = TraceEvent::Map { process, start, len_bytes, kind, accessible: true, runs };
            writer.event(0, map)?;
            access(writer, 1000 * clock)?;
            access(writer, u32::MAX - 1 - 4000 * clock)?;
            let moves = vec![(run(0, 1 << 31), PageId(1 << 30))];
            let (gained, lost) = (all(), vec![run(7, 1 << 30)]);
            writer.event(
                0,
                TraceEvent::Remap {
                    process,
                    old_start: 0,
                    old_len_bytes: 1 << 43,
                    new_start: 1 << 42,
                    new_len_bytes: u64::MAX,
                    moves,
                    gained,
                    lost,
                },
            )?;
            let regions = vec![(Region(0), [1; 8]), (Region(u32::MAX / 512), [u64::MAX; 8])];
            writer.event(0, TraceEvent::Touched { epoch: u64::MAX, regions })?;
            let samples = vec![(StreamId(0), PageId(u32::MAX)), (StreamId(u32::MAX), PageId(3))];
            writer.event(0, TraceEvent::StoreSamples { samples })?;
            writer.event(0, TraceEvent::Discard { process, start, len_bytes, runs: all() })?;
            writer.event(0, TraceEvent::Unmap { process, start, len_bytes, runs: all() })?;
        }
        writer.event(u64::MAX, TraceEvent::OpBegin { stream: StreamId(0), op: 1 })?;
        writer.access(u64::MAX, PageId(5), AccessKind::Load, StreamId(0), 0)?;
        access(writer, 6)
    });
    assert_read_by_all(folder.path(), "huge ranges");
}

#[test]
fn many_scattered_pages_cost_in_proportion() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t");
    let bytes = write(&path, &named(), End::Written, |writer| {
        (0..100_000u32).try_for_each(|n| access(writer, n * 30_011 % (1 << 31)))
    });
    assert!(bytes < 4 << 20, "{bytes} bytes");
    for reader in
        ["compare t --policies memtis --fast 1:8 --no-bound", "bound t", "trace profile t"]
    {
        let args: Vec<&str> = reader.split(' ').collect();
        let output = frostline(folder.path(), &args);
        assert_good(&output, reader);
        assert!(told(&output).contains("side by side"), "{reader}: {}", told(&output));
    }
}

#[test]
fn pages_beyond_what_a_pipe_accounts_for_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("t"), &named(), End::Written, |writer| {
        (0..2000u32).try_for_each(|n| access(writer, n))?;
        access(writer, 1 << 30)
    });
    // Totals that claim fewer page ids than there are.
    let mut bytes = std::fs::read(folder.path().join("t")).expect("written");
    let far = (1u64 << 30) + 1;
    let at = bytes.windows(8).rposition(|window| window == far.to_le_bytes());
    let at = at.expect("the totals hold the end of the page ids");
    bytes[at..at + 8].copy_from_slice(&2000u64.to_le_bytes());
    frostline_trace::native::repair_checksums(&mut bytes);
    std::fs::write(folder.path().join("t"), &bytes).expect("room");
    for reader in READERS {
        let args: Vec<&str> = reader.split(' ').collect();
        crate::support::assert_refused(&frostline(folder.path(), &args), reader);
    }
}
