//! Traces made of other formats.

use assert_cmd::Command;
use std::path::Path;

fn frostline(args: &[&str], folder: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frostline"));
    let output = command.args(args).current_dir(folder).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(told).unwrap())
}

const PERF: &str = "\
# captured on: some day
redis-server 123/124 [001] 5.123456: 1 cpu/mem-loads/P: 7f1234567890 5c01 |OP LOAD|LVL LFB hit
redis-server 123/124 [001] 5.123457: 1 cpu/mem-stores/P: 7f1234567990
redis-server 123/125 [001] 5.223457: 1 cpu/mem-loads/P: ffff888100000000
";
const DAMO: &str = r#"[{"target_id": "0", "snapshots": [{"start_time": "1.2 s", "end_time": "1.3 s",
    "regions": [{"start": "2,097,152", "end": "4,194,304", "nr_accesses": {"samples": "3"}}]}]}]"#;
const TEXT: &str = "10 0x1000 r\n11 4096 w\n";

#[test]
fn formats_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    for (content, records, note) in [
        (PERF, 2, "3 samples, not all accesses; 1 of the kernel's"),
        (DAMO, 1536, "an approximation, made of 1 snapshots: each page"),
        (TEXT, 2, ""),
    ] {
        std::fs::write(folder.path().join("in"), content).unwrap();
        let (good, told) = frostline(&["trace", "import", "in", "out.flt"], folder.path());
        assert!(good && told.contains(note), "{told}");
        assert!(told.contains(&format!("out.flt: {records} records, 3 events")), "{told}");
        let (good, told) = frostline(&["trace", "verify", "out.flt"], folder.path());
        assert!(good, "{told}");
    }
}

#[test]
fn what_cannot_be_read_leaves_no_trace_behind() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), TEXT).unwrap();
    std::fs::write(folder.path().join("old"), b"frostline journal 2\nxyz").unwrap();
    std::fs::write(folder.path().join("packed"), b"\x78\x9cxyz").unwrap();
    for (args, what) in [
        ("trace import --format perf-script in out", "in: line 1: no sample"),
        ("trace import --format damo in out", "in: line 1: not of damo"),
        ("trace import --format journal in out", "in: this is no journal"),
        ("trace import old out", "old: this journal is of version 2"),
        ("trace import packed out", "damo record --output_type json"),
        ("trace import /dev/null out", "say what it is with --format"),
        ("record --from live=in -o out", "in: this is no journal"),
        ("record --from live=in -o in", "both what to read and what to write"),
        ("record --from else -o out -- true", "write valgrind or qemu"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let (good, told) = frostline(&args, folder.path());
        assert!(!good && told.contains(what), "{args:?}: {told}");
        assert!(!folder.path().join("out").exists(), "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("in")).unwrap(), TEXT);
}

/// Files on which the library that reads Parquet panics: a length of 4 bytes, and the two files of a trace.
#[test]
fn damaged_parquet_is_an_error_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/parquet");
    for find in ["column-before-the-file", "delta-of-nothing"] {
        let bytes = std::fs::read(corpus.join(find)).unwrap();
        let (head, files) = bytes.split_first_chunk::<4>().unwrap();
        let (accesses, events) = files.split_at(u32::from_le_bytes(*head) as usize);
        std::fs::write(folder.path().join("in.parquet"), accesses).unwrap();
        std::fs::write(folder.path().join("in.events.parquet"), events).unwrap();
        let (good, told) = frostline(&["trace", "import", "in.parquet", "out"], folder.path());
        assert!(!good && told.contains("damaged: it says what cannot be"), "{find}: {told}");
        assert!(!told.contains("panicked"), "{find}: {told}");
    }
}
