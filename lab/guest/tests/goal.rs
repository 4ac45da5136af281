//! A goal between two nodes, where nothing counts loads: memory that is not missed goes to the slow node.

mod support;

use frostline_guest::{Guest, Outcome};
use std::sync::LazyLock;
use support::{passed, ran, run_with_frostline};

/// Waits until a fifth of the memory is slow, of hot pages hardly any, and the loss is known, has a look from outside,
/// and ends the load, which checks its memory then. A busy machine takes some time to see which pages are hot.
const SCRIPT: &str = r#"
figures() {
    frostline status --json | tr -d ' ,"' | awk -F: '
        $1 == "used_bytes" && !used { used = $2 }
        $1 == "footprint_bytes" { all = $2 }
        $1 == "goal" { goal = $2 }
        $1 == "is_estimate" { about = $2 }
        $1 == "slow_loads" && !lost { lost = $2 }
        END { print "fast", all ? used / all : 1; print "goal", goal; print "about", about; print "lost", lost + 0 }'
}
settled() { figures | awk '$1 == "fast" { fast = $2 } $1 == "about" { known = NF == 2 } END { exit !(known && fast < 0.8) }'; }
hot_stays() { frostline-load check --truth /tmp/truth | awk '/^hot / { share = $9 } END { exit !(share > 92) }'; }
settled_and_hot() { settled && hot_stays; }
goal() {
    frostline run --max-slowdown 5% --slow node:1 --cpu-limit 40% --settling-cpu-limit 60% -- \
        frostline-load --size 96MiB --hot 20% --cold-rate 20/s --seconds 3600 --checksums \
        --truth /tmp/truth >/tmp/load 2>/tmp/notes &
    run=$!
    wait_for 240 settled_and_hot
    sleep 3
    figures
    frostline status
    frostline-load check --truth /tmp/truth
    kill -INT $(pidof frostline-load)
    wait $run
    echo "code $?"
    cat /tmp/load /tmp/notes
}
refused() {
    frostline run --max-slowdown 5% --slow node:1 --dry-run -- sleep 1 2>&1
}
section goal goal
section refused refused
"#;

static GOAL: LazyLock<Outcome> = LazyLock::new(|| run_with_frostline(Guest::default(), SCRIPT));

/// The numbers of the line that begins with `head`.
fn numbers(text: &str, head: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no line '{head}': {text}"));
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn cold_memory_goes_to_the_slow_node_and_hot_memory_stays() {
    let Some(report) = ran(&GOAL) else { return };
    let text = passed(report, "goal");
    assert!(numbers(text, "fast")[0] < 0.85, "{text}");
    assert_eq!(numbers(text, "goal"), [0.05], "{text}");
    assert!(text.contains("about true"), "{text}");
    assert!(text.contains("estimated from touches of pages"), "{text}");
    assert!(text.contains("slowed down by about "), "{text}");
    // Pages, then present, swapped, absent, on node 0 and on node 1 in percent.
    let (hot, cold) = (numbers(text, "hot"), numbers(text, "cold"));
    assert!(hot[4] > 90.0, "{text}");
    assert!(cold[5] > 10.0 && cold[5] > 2.0 * hot[5], "{text}");
    assert_eq!(numbers(text, "code"), [0.0], "{text}");
    assert_eq!(numbers(text, "mismatches"), [0.0], "{text}");
}

#[test]
fn where_nothing_is_moved_a_slowdown_is_refused() {
    let Some(report) = ran(&GOAL) else { return };
    let text = passed(report, "refused");
    assert!(text.contains("nothing is moved") && text.contains("hint: give --fast"), "{text}");
}
