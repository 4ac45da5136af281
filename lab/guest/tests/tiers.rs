//! Three tiers: two nodes and compressed memory below them.

mod support;

use frostline_guest::{Guest, Outcome};
use std::sync::LazyLock;
use support::{passed, ran, run_with_frostline};

/// Waits until every limit holds with pages in each tier, has a look from outside, and kills
/// frostline. The load checks its memory when it is interrupted.
const SCRIPT: &str = r#"
tiers() {
    tr -d ' ,"' </tmp/status | awk -F: '
        $1 == "name" { tier = $2 $3 }
        $1 == "used_bytes" { used = $2 }
        $1 == "capacity_bytes" { most = $2 }
        $1 == "capacity_bytes" || $1 == "used_bytes" { all[tier] = used " " most }
        END { for (tier in all) print "tier", tier, all[tier] }'
}
settled() {
    frostline status --json >/tmp/status
    tiers | awk '$2 ~ /^node/ && $3 <= $4 * 1.02 { held++ } $2 == "swap" && $3 > 8 * 1048576 { held++ }
        END { exit held != 3 }'
}
three_tiers() {
    frostline run --slow node:1 --limit node:1=32MiB --slow zram:size=64MiB --fast 30% \
        --cpu-limit 40% --settling-cpu-limit 60% -- \
        frostline-load --size 80MiB --hot 20% --cold-rate 50/s --seconds 3600 --checksums \
        --truth /tmp/truth >/tmp/load 2>/tmp/notes &
    run=$!
    wait_for 180 settled
    tiers
    frostline-load check --truth /tmp/truth
    kill -9 $run
    wait $run
    echo "frostline: $?"
    frostline doctor --undo
    echo "clean: $?"
    kill -INT $(pidof frostline-load)
    while pidof frostline-load >/dev/null; do sleep 0.2; done
    cat /tmp/load /tmp/notes
    frostline doctor --undo
    echo "clean again: $?"
    echo "swaps: $(tail -n +2 /proc/swaps | wc -l)"
}
section three_tiers three_tiers
"#;

static TIERS: LazyLock<Outcome> = LazyLock::new(|| run_with_frostline(Guest::default(), SCRIPT));

fn text() -> Option<&'static str> {
    ran(&TIERS).map(|report| passed(report, "three_tiers"))
}

/// The numbers of the line that begins with `head`.
fn numbers(text: &str, head: &str) -> Vec<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no line '{head}': {text}"));
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn three_tiers_hold_pages_within_their_limits() {
    const MIB: f64 = 1_048_576.0;
    let Some(text) = text() else { return };
    for (name, least) in [("node0", 16.0), ("node1", 16.0), ("swap", 8.0)] {
        let [used, most] = numbers(text, &format!("tier {name}"))[..] else { panic!("{text}") };
        let held = used > least * MIB && used <= most * 1.02;
        assert!(held, "{name}: {used} of {most}: {text}");
        assert!(name != "node1" || most <= 32.0 * MIB, "{most}: {text}");
    }
    // As the kernel has it. Pages, then present, swapped, absent, on node 0 and on node 1 in
    // percent.
    let (mut on_node_1, mut swapped) = (0.0, 0.0);
    for class in ["hot", "cold"] {
        let [pages, _, out, _, _, below] = numbers(text, class)[..] else { panic!("{text}") };
        on_node_1 += pages * below / 100.0 * 4096.0;
        swapped += pages * out / 100.0 * 4096.0;
    }
    assert!(on_node_1 > 14.0 * MIB && on_node_1 <= 33.0 * MIB, "{on_node_1}: {text}");
    assert!(swapped > 6.0 * MIB, "{swapped}: {text}");
}

#[test]
fn killed_with_three_tiers_nothing_is_lost_and_nothing_left_behind() {
    let Some(text) = text() else { return };
    assert_eq!(numbers(text, "frostline:"), [137.0], "{text}");
    assert_eq!(numbers(text, "clean:"), [1.0], "pages of the load are on it: {text}");
    assert_eq!(numbers(text, "mismatches"), [0.0], "{text}");
    assert_eq!(numbers(text, "clean again:"), [0.0], "{text}");
    assert_eq!(numbers(text, "swaps:"), [0.0], "{text}");
}
