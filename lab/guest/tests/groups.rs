//! Control groups of the second version: what a group may have of memory and swap is kept to.

mod support;

use frostline_guest::{Guest, Outcome};
use std::sync::LazyLock;
use support::{passed, ran, run_with_frostline};

/// What the kernel refused to a group is counted by the kernel.
const SCRIPT: &str = r#"
group=/sys/fs/cgroup/test.slice
tiering="--slow zram:size=256MiB --fast 10% --cpu-limit 40% --settling-cpu-limit 60%"
begin() {
    mkdir $group && echo "$1" >$group/memory.swap.max || return
    sh -c "echo \$\$ >$group/cgroup.procs && exec frostline-load --size 64MiB --hot 5% --checksums --seconds 3600 \
        --truth /tmp/truth-$2" >/tmp/load-$2 2>/tmp/notes-$2 &
    wait_for 120 test -s /tmp/truth-$2
    load=$(cat $group/cgroup.procs)
    kill -STOP $load
    frostline attach --cgroup test.slice $tiering >/tmp/frostline-$2 2>&1 &
    driver=$!
}
are_swapped() { [ "$(cat $group/memory.swap.current)" -ge $(($1 << 20)) ]; }
# Waits until so many MiB are in swap.
swapped() {
    wait_for 120 are_swapped $1
    echo "swapped $(cat $group/memory.swap.current)"
}
count() { awk -v name="$3" '$1 == name { print "'$1'", $2 }' $group/memory.$2; }
end() {
    echo max >$group/memory.max && echo max >$group/memory.high
    kill -CONT $load && kill -INT $load
    while kill -0 $load 2>/dev/null; do sleep 0.2; done
    cat /tmp/load-$1 /tmp/notes-$1 /tmp/frostline-$1
    rmdir $group
}
swap_max() {
    begin 16M swap
    swapped 12
    wait_for 120 grep -q 'may have' /tmp/frostline-swap
    sleep 5
    swapped 0
    count refused swap.events max
    kill -INT $driver && wait $driver
    echo "frostline $?"
    end swap
}
high() {
    begin max high
    swapped 40
    sleep 5
    echo 32M >$group/memory.high && sleep 3
    swapped 0
    count before events high
    kill -INT $driver && wait $driver
    swapped 0
    count after events high
    end high
}
swap_off() {
    begin max off
    swapped 40
    kill -9 $driver
    wait $driver
    echo 16M >$group/memory.max
    frostline doctor --undo --swap-off
    echo "clean $?"
    count killed events oom_kill
    swapped 0
    echo max >$group/memory.max
    frostline doctor --undo --swap-off
    echo "again $?"
    end off
}
section swap_max swap_max
section high high
section swap_off swap_off
"#;

static GROUPS: LazyLock<Outcome> = LazyLock::new(|| run_with_frostline(Guest::default(), SCRIPT));

fn section(name: &str) -> Option<&'static str> {
    ran(&GROUPS).map(|report| passed(report, name))
}

/// The last numbers of all lines that begin with `head`.
fn numbers(text: &str, head: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(head)?.strip_prefix(' '));
    lines.filter_map(|line| line.split_whitespace().last()?.parse().ok()).collect()
}

const MIB: u64 = 1 << 20;

#[test]
fn a_group_is_asked_for_no_more_swap_than_it_may_have() {
    let Some(text) = section("swap_max") else { return };
    let [reached, after] = numbers(text, "swapped")[..] else { panic!("{text}") };
    assert!(reached >= 12 * MIB && after <= 16 * MIB, "{text}");
    assert_eq!(numbers(text, "refused"), [0], "the kernel never had to refuse: {text}");
    assert!(text.contains("control group /test.slice may have 16 MiB in swap"), "{text}");
    assert_eq!(numbers(text, "frostline"), [0], "{text}");
    assert_eq!(numbers(text, "mismatches"), [0], "{text}");
}

#[test]
fn what_is_brought_back_stays_below_what_throttles_the_group() {
    let Some(text) = section("high") else { return };
    let [_, before, after] = numbers(text, "swapped")[..] else { panic!("{text}") };
    assert!(after < before && after > 20 * MIB, "a part came back: {text}");
    assert_eq!(numbers(text, "before"), numbers(text, "after"), "{text}");
    assert_eq!(numbers(text, "mismatches"), [0], "{text}");
}

#[test]
fn swap_off_kills_nobody_of_a_group_without_room() {
    let Some(text) = section("swap_off") else { return };
    assert_eq!(numbers(text, "clean"), [1], "{text}");
    assert!(text.contains("control group /test.slice has"), "{text}");
    assert_eq!(numbers(text, "killed"), [0], "{text}");
    let [.., left] = numbers(text, "swapped")[..] else { panic!("{text}") };
    assert!(left >= 40 * MIB, "{text}");
    assert_eq!(numbers(text, "again"), [0], "there is room now: {text}");
    assert_eq!(numbers(text, "mismatches"), [0], "{text}");
}
