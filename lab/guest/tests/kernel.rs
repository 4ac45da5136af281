//! The kernel's own tiering of one program within a limit, as a rival of ours, and what is left behind.

mod support;

use frostline_guest::{Guest, Outcome, program};
use std::sync::LazyLock;
use support::{passed, ran, run_with_frostline};

/// The load checks its memory when it ends. A fifth of the pages is hot, and five eighths are to be fast.
const SCRIPT: &str = r#"
load="frostline-load --size 64MiB --hot 20% --cold-rate 20/s --checksums --seconds"
kernel() {
    frostline-repro kernel $1 --fast 40MiB --json -- $load $2 >/tmp/said 2>&1
    echo "code $?"
    tr -d ' ,"' </tmp/said | awk -F: '/^(generations|fast_bytes|slow_bytes|refaults|thread_cpu_seconds):/ { print $1, $2 }'
    grep mismatches /tmp/said || cat /tmp/said
    left
}
# All of it fits at first.
damon() (
    load="frostline-load --size 32MiB --huge --hot 20% --scatter block --cold-rate 0/s --checksums --seconds"
    kernel damon 30
)
left() {
    echo "balancing $(cat /proc/sys/kernel/numa_balancing) $(cat /sys/kernel/mm/numa/demotion_enabled)"
    echo "swaps $(tail -n +2 /proc/swaps | wc -l)"
    echo "kdamonds $(cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds)"
    echo "groups $(ls -d /sys/fs/cgroup/frostline-* 2>/dev/null | wc -l)"
}
is_tiered() { [ "$(cat /proc/sys/kernel/numa_balancing)" = 2 ] && pidof frostline-load; }
killed() {
    frostline-repro kernel numa-balancing --fast 40MiB -- $load 60 >/tmp/said 2>&1 &
    wait_for 60 is_tiered
    kill -9 $!
    kill -INT $(pidof frostline-load)
    while pidof frostline-load; do sleep 0.2; done
    frostline doctor --undo
    echo "undone $?"
    rmdir /sys/fs/cgroup/frostline-kernel-*
    left
}
refused() {
    frostline-repro kernel numa-balancing --fast 40% -- true 2>&1
    frostline-repro kernel mglru-reclaim --fast 40% -- sh -c 'exit 3' 2>&1
    echo "code $?"
    left
}
section reclaim kernel mglru-reclaim 15
section balancing kernel numa-balancing 15
section damon damon
section killed killed
section refused refused
"#;

static KERNEL: LazyLock<Outcome> = LazyLock::new(|| match program("frostline-repro") {
    Ok(repro) => run_with_frostline(Guest::default().file(repro), SCRIPT),
    Err(error) => Outcome::Failed(error),
});

/// What a section has printed, where a guest runs here.
fn section(name: &str) -> Option<&'static str> {
    ran(&KERNEL).map(|report| passed(report, name))
}

/// What stands after a word at the beginning of a line.
fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no '{name}': {text}")).trim()
}

fn number(text: &str, name: &str) -> f64 {
    value(text, name).parse().unwrap_or_else(|_| panic!("'{name}' is no number: {text}"))
}

fn nothing_is_left(text: &str) {
    assert_eq!(value(text, "balancing"), "0 false", "{text}");
    for what in ["swaps", "groups", "kdamonds"] {
        assert_eq!(number(text, what), 0.0, "{what}: {text}");
    }
}

fn ran_whole(text: &str) {
    assert_eq!(number(text, "code"), 0.0, "{text}");
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    nothing_is_left(text);
}

const MIB: f64 = (1 << 20) as f64;

#[test]
fn reclaim_by_generations_keeps_the_limit() {
    let Some(text) = section("reclaim") else { return };
    ran_whole(text);
    assert_eq!(value(text, "generations"), "true");
    assert!(
        number(text, "fast_bytes") < 42.0 * MIB && number(text, "slow_bytes") > 10.0 * MIB,
        "{text}"
    );
    assert!(number(text, "refaults") > 0.0, "{text}");
}

#[test]
fn numa_balancing_has_so_much_of_the_fast_node() {
    let Some(text) = section("balancing") else { return };
    ran_whole(text);
    assert!(
        number(text, "fast_bytes") < 56.0 * MIB && number(text, "slow_bytes") > 8.0 * MIB,
        "{text}"
    );
    assert_eq!(number(text, "refaults"), 0.0, "{text}");
}

#[test]
fn damon_moves_what_is_cold_to_the_slow_node() {
    let Some(text) = section("damon") else { return };
    ran_whole(text);
    assert!(number(text, "slow_bytes") > 8.0 * MIB, "it went there by itself: {text}");
    assert!(number(text, "thread_cpu_seconds") > 0.0, "{text}");
}

#[test]
fn what_a_killed_one_has_changed_is_undone() {
    let Some(text) = section("killed") else { return };
    assert_eq!(number(text, "undone"), 0.0, "{text}");
    nothing_is_left(text);
}

#[test]
fn a_share_of_a_node_is_refused_and_a_failed_program_is_told() {
    let Some(text) = section("refused") else { return };
    assert!(text.contains("cannot be a share") && text.contains("--fast 2GiB"), "{text}");
    assert!(text.contains("the program ended with 3"), "{text}");
    assert_eq!(number(text, "code"), 1.0, "{text}");
    nothing_is_left(text);
}
