//! The live engine between two nodes: `frostline run` tiers a load whose hot pages are known and
//! whose memory is checked.

use frostline_guest::{Guest, Outcome, Report, program};
use std::sync::LazyLock;

/// An emulated processor is slow, hence the shares of it. What the kernel counted and what
/// frostline says it moved are compared in the guest, both in pages.
const SCRIPT: &str = r#"
limits="--cpu-limit 50% --settling-cpu-limit 50%"
migrated() { awk '/^pgmigrate_success / { print $2 }' /proc/vmstat; }
until_ready() {
    tries=0
    while [ ! -s "$1" ] && [ $tries -lt 120 ]; do sleep 0.5 && tries=$((tries + 1)); done
    test -s "$1"
}
tiered() {
    before=$(migrated)
    frostline run --slow node:1 --fast 40% $limits --summary /out/summary --journal /out/journal \
        --extents -- frostline-load --size 96MiB --hot 20% --seconds 45 --truth /tmp/truth >/tmp/load 2>/tmp/notes &
    run=$!
    until_ready /tmp/truth && sleep 40
    frostline-load check --truth /tmp/truth
    wait $run
    code=$?
    cat /tmp/load /tmp/notes
    echo "kernel $(($(migrated) - before))"
    awk '/"verified_bytes"/ { sum += $2 } END { print "frostline", sum / 4096 }' /out/summary
    awk -F '[ ":,]+' '$2 == "name" { name = $3 }
        $2 == "touches" || $2 == "lost" || $2 == "cpu_seconds" { print name "-" $2, $3 }' /out/summary
    return $code
}
killed() {
    frostline run --slow node:1 --fast 40% $limits -- frostline-load --size 48MiB --seconds 15 \
        --checksums --truth /tmp/truth2 >/tmp/load2 2>/tmp/notes2 &
    run=$!
    before=$(migrated)
    until_ready /tmp/truth2 && sleep 6
    kill -9 $run
    wait $run
    echo "frostline: $?, pages moved: $(($(migrated) - before))"
    echo "left: $(pidof frostline-load | wc -w)"
    while pidof frostline-load >/dev/null; do sleep 0.2; done
    cat /tmp/load2 /tmp/notes2
    frostline clean
}
section tiered tiered
section replay frostline replay /out/journal
section killed killed
"#;

static LIVE: LazyLock<Outcome> = LazyLock::new(|| {
    let mut guest = Guest::default();
    for name in ["frostline", "frostline-load"] {
        match program(name) {
            Ok(path) => guest = guest.file(path),
            Err(error) => return Outcome::Failed(error),
        }
    }
    guest.run(SCRIPT)
});

/// The text of a section that passed; `None`, with the reason printed, where this machine cannot
/// run a guest.
fn section(name: &str) -> Option<&'static str> {
    match &*LIVE {
        Outcome::Ran(report) => Some(passed(report, name)),
        Outcome::Impossible(reason) => {
            println!("skipped: {reason}");
            None
        }
        Outcome::Failed(reason) => panic!("{reason}"),
    }
}

fn passed<'a>(report: &'a Report, name: &str) -> &'a str {
    report.passed(name).unwrap_or_else(|problem| panic!("{problem}"))
}

/// The words of the line that begins with `head`, after it.
fn words<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no line '{head}': {text}")).split_whitespace().collect()
}

fn number(text: &str, head: &str) -> f64 {
    words(text, head)[0].parse().expect("a number")
}

/// Pages of a class and the share of them on node 0, of what `frostline-load check` printed.
fn on_node_0(text: &str, class: &str) -> (f64, f64) {
    let words = words(text, class);
    let numbers: Vec<f64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [pages, _present, _swapped, _absent, node_0, _node_1] = numbers[..] else {
        panic!("six numbers: {words:?}")
    };
    (pages, node_0 / 100.0)
}

#[test]
fn the_limit_holds_and_hot_pages_are_on_the_fast_node() {
    let Some(text) = section("tiered") else { return };
    let (hot, hot_share) = on_node_0(text, "hot");
    let (cold, cold_share) = on_node_0(text, "cold");
    let fast = (hot * hot_share + cold * cold_share) / (hot + cold);
    assert!(fast < 0.42, "of the load's memory {fast} is fast: {text}");
    assert!(hot_share > cold_share, "{text}");
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
}

#[test]
fn what_we_count_the_kernel_counts() {
    let Some(text) = section("tiered") else { return };
    let (kernel, ours) = (number(text, "kernel"), number(text, "frostline"));
    assert!(ours > 10_000.0, "{text}");
    assert!((kernel - ours).abs() < ours / 50.0, "kernel {kernel}, we {ours}: {text}");
}

#[test]
fn writes_and_allocations_are_seen() {
    let Some(text) = section("tiered") else { return };
    assert!(number(text, "soft-dirty-touches") > 1000.0, "{text}");
    assert!(number(text, "soft-dirty-cpu_seconds") > 0.0, "{text}");
    assert!(number(text, "allocations-touches") > 0.0, "{text}");
    assert_eq!(number(text, "allocations-lost"), 0.0, "{text}");
    assert!(text.contains("stores come from soft-dirty bits"), "{text}");
}

#[test]
fn the_journal_replays_to_the_same_actions() {
    let Some(text) = section("replay") else { return };
    assert!(text.starts_with("identical: "), "{text}");
}

#[test]
fn a_program_goes_on_when_frostline_is_killed() {
    let Some(text) = section("killed") else { return };
    assert!(number(text, "frostline: 137, pages moved:") > 1000.0, "{text}");
    assert_eq!(number(text, "left:"), 1.0, "{text}");
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
}
