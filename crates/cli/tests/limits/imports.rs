//! Foreign formats with absurd numbers.

use crate::support::{assert_good, frostline, told};
use std::fmt::Write;

#[test]
fn sparse_imports_of_a_million_pages_are_read_and_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = String::new();
    for n in 0..100_000u64 {
        writeln!(text, "{n} {:#x} r", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17).expect("memory");
    }
    std::fs::write(folder.path().join("in"), text).expect("room");
    assert_good(&frostline(folder.path(), &["trace", "import", "in", "t"]), "import");
    let simulated = frostline(
        folder.path(),
        &["compare", "t", "--policies", "memtis", "--fast", "1:8", "--no-bound"],
    );
    assert_good(&simulated, "sim");
    assert!(told(&simulated).contains("side by side"), "{}", told(&simulated));
}

#[test]
fn absurd_addresses_times_and_lines_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = u64::MAX;
    let samples = format!(
        "a 4294967295/4294967295 [001] 0.000000001: 18446744073709551615 loads: 7fffffffff\n\
         b 1/2 [001] 18446744073.709551615: 1 loads: fffffffffffff\n\
         c 1/2 [001] 18446744073.709551615: 1 loads: {far:x}\n"
    );
    let region = |start: u64, end: u64, times: u64| {
        format!(r#"{{"start": {start}, "end": {end}, "nr_accesses": {times}}}"#)
    };
    let snapshot = |end: u64, regions: &str| {
        format!(
            r#"[{{"target_id": 1, "snapshots": [{{"start_time": 0, "end_time": {end}, "regions": [{regions}]}}]}}]"#
        )
    };
    let cases = [
        ("text", format!("0 0x0 r 0\n{far} {far:#x} w 4294967295\n{far} 0 r 4294967294\n"), true),
        ("text", "1".repeat(1 << 20), false),
        ("text", format!("{far}0 0 r\n"), false),
        ("perf-script", samples, true),
        ("perf-script", format!("{}\n", "x ".repeat(1 << 20)), false),
        ("damo", snapshot(far, &region(0, far, 1)), true),
        ("damo", snapshot(far, &region(0, 4096, 1 << 20)), true),
        ("damo", snapshot(1, &region(0, 4096, u64::from(u32::MAX))), false),
        ("damo", snapshot(1, &region(5, 4, 1)), false),
    ];
    for (format, text, good) in cases {
        let what = format!("{format}: {:.60}", text);
        std::fs::write(folder.path().join("in"), text).expect("room");
        let args = ["trace", "import", "--format", format, "in", "t"];
        let output = frostline(folder.path(), &args);
        assert_eq!(output.status.success(), good, "{what}: {}", told(&output));
        assert!(matches!(output.status.code(), Some(0..=2)), "{what}: {output:?}");
        assert!(!told(&output).contains("panicked"), "{what}: {}", told(&output));
        if good {
            assert_good(
                &frostline(
                    folder.path(),
                    &["compare", "t", "--policies", "tpp", "--fast", "1:8", "--no-bound"],
                ),
                &what,
            );
        }
    }
}
