//! The live engine between two nodes: `frostline run` tiers a load whose hot pages are known and
//! whose memory is checked.

mod support;

use frostline_guest::{Guest, Outcome, agent};
use std::sync::LazyLock;
use support::{passed, ran, run_with_frostline};

/// An emulated processor is slow, hence the shares of it. What the kernel counted and what
/// frostline says it moved are compared in the guest, both in pages.
const SCRIPT: &str = r#"
limits="--cpu-limit 30% --settling-cpu-limit 50%"
count() { awk "/^$1 / { print \$2 }" /proc/vmstat; }
migrated() { count pgmigrate_success; }
settings() { cat /proc/sys/kernel/numa_balancing*; }
migrated_since() { [ $(($(migrated) - $1)) -gt $2 ]; }
hot_is_fast() { frostline-load check --truth /tmp/truth | awk '/^hot / { share = $9 } END { exit !(share >= 90) }'; }
tiered() {
    before=$(migrated)
    frostline run --slow node:1 --fast 40% $limits --summary /out/summary --journal /out/journal \
        --extents -- frostline-load --size 128MiB --hot 20% --cold-rate 500/s --seconds 600 --truth /tmp/truth \
        >/tmp/load 2>/tmp/notes &
    run=$!
    # How long it takes depends on how busy the machine is that emulates this one.
    wait_for 120 test -s /tmp/truth
    sleep 2
    wait_for 120 hot_is_fast
    sleep 5
    frostline-load check --truth /tmp/truth
    settings | tr '\n' ' ' && echo while
    kill -INT $(pidof frostline-load)
    wait $run
    code=$?
    cat /tmp/load /tmp/notes
    echo "kernel $(($(migrated) - before))"
    awk '/"accounts"/ { on = 1 } on && /"verified_bytes"/ { sum += $2 } END { print "frostline", sum / 4096 }' /out/summary
    awk -F '[ ":,]+' '$2 == "name" { name = $3 }
        $2 == "touches" || $2 == "lost" || $2 == "cpu_seconds" { print name "-" $2, $3 }' /out/summary
    awk '/"hint_faults"/ { print "seen", int($2) }' /out/summary
    echo "faults $(count numa_hint_faults)"
    echo "promoted by the kernel $(count numa_pages_migrated) $(count pgpromote_success)"
    settings | tr '\n' ' ' && echo after
    return $code
}
counted() {
    frostline status --json | awk -F '[ ":,]+' -v name=$1 '$2 == name { n = $3 } END { print int(n) }'
}
counted_all() {
    for name in $(echo $1 | tr , ' '); do [ "$(counted $name)" -gt 0 ] || return; done
}
counted_and_migrated() { counted_all $1 && migrated_since $2 2048; }
counted_enough() { [ "$(counted $1)" -ge 20 ]; }
# Policies that look at pages in turn, or count samples otherwise; from outside and from inside.
other() {
    before=$(migrated)
    frostline run --policy $1 --slow node:1 --fast 40% $limits --summary /out/$1 $3 -- \
        frostline-load --size 64MiB --hot 20% --cold-rate 500/s --writes 10% --checksums \
        --fork-rate 1/s --churn 4/s --seconds 600 >/tmp/load3 2>/tmp/notes3 &
    run=$!
    sleep 10
    wait_for 120 counted_and_migrated $2 $before
    kill -INT $(pidof frostline-load)
    wait $run
    code=$?
    cat /tmp/load3 /tmp/notes3
    echo "kernel $(($(migrated) - before))"
    awk -F '[ ":,]+' '$2 == "remote_blocks_total" { print "blocks", $3 }
        $2 == "samples_total" { print "counted", $3 }
        $2 == "batches_total" { print "batches", $3 }
        $2 == "armed_touched" { print "touched", $3 }
        $2 == "pid" { print "process" }' /out/$1
    settings | tr '\n' ' ' && echo after
    return $code
}
# Policies that want to know of the next touch, in the program, which forks by all means.
touches="--in-process --slow node:1 --fast 40% --cpu-limit 60% --settling-cpu-limit 80%"
touched() {
    frostline run --policy $1 $touches --summary /out/touched --extents --journal /out/touches-$2 -- \
        frostline-load --size 48MiB --hot 20% \
        --cold-rate 500/s --writes 20% --threads 2 --checksums --fork-rate 0.2/s --churn 4/s --seconds 600 \
        >/tmp/load4 2>/tmp/notes4 &
    run=$!
    wait_for 120 counted_enough $2
    sleep 5
    kill -INT $(pidof frostline-load)
    wait $run
    code=$?
    cat /tmp/load4 /tmp/notes4
    awk -F '[ ":,]+' '/"(armed|armed_touched|moved_at_touch)":/ { print $2, $3 }
        $2 == "canary_faults_total" { print $2, $3 }' /out/touched
    return $code
}
# From outside, hint faults tell of touches: blocks of folios leave that are not in use, and come back when they are.
phases() {
    echo always >/sys/kernel/mm/transparent_hugepage/enabled
    frostline run --policy pet:sampling=200ms:scan=1s:temporary=8MiB:max-block=8MiB --slow node:1 --fast 100% \
        --cpu-limit 60% --settling-cpu-limit 80% --summary /out/phases --extents -- \
        frostline-load --size 96MiB --huge --phases 3 --writes 20% --checksums --fork-rate 0.2/s --seconds 600 \
        >/tmp/load7 2>/tmp/notes7 &
    run=$!
    wait_for 180 counted_all splits,demoted_blocks_total,promoted_blocks_total
    sleep 5
    kill -INT $(pidof frostline-load)
    wait $run
    code=$?
    echo never >/sys/kernel/mm/transparent_hugepage/enabled
    cat /tmp/load7 /tmp/notes7
    awk -F '[ ":,]+' '$2 ~ /^(splits|demoted_blocks_total|promoted_blocks_total|blocks_unseen_total|canary_faults_total)$/ {
        print $2, $3 }' /out/phases
    return $code
}
# Files that are closed go to the slow node, too: on a disk in memory, which is what the guest has.
cached() { awk '/ FilePages:/ { print $4 }' /sys/devices/system/node/node$1/meminfo; }
cached_since() { [ $(($(cached 1) - $1)) -ge 16384 ]; }
files() {
    number=$(cat /sys/class/zram-control/hot_add)
    echo 64M >/sys/block/zram$number/disksize
    mke2fs -b 4096 /dev/zram$number >/dev/null
    mkdir /disk && mount -t ext2 /dev/zram$number /disk || return
    dd if=/dev/urandom of=/disk/input bs=1M count=16 2>/dev/null
    sync
    before=$(cached 1)
    frostline run --policy $1 $touches --summary /out/files -- frostline-load --size 32MiB --checksums \
        --shift 8 --input /disk/input --seconds 600 >/tmp/load6 2>/tmp/notes6 &
    run=$!
    wait_for 120 cached_since $before
    echo "cached $(($(cached 1) - before))"
    kill -INT $(pidof frostline-load)
    wait $run
    code=$?
    cat /tmp/load6 /tmp/notes6
    awk -F '[ ":,]+' '/"files": \{/ { on = 1 } on && $2 == "verified_bytes" { print $2, $3; exit }' /out/files
    umount /disk
    echo $number >/sys/class/zram-control/hot_remove
    return $code
}
# Nobody outside is needed.
orphan() {
    frostline run --policy hotbox $touches -- frostline-load --size 32MiB --writes 20% --checksums \
        --seconds 12 --truth /tmp/truth5 >/tmp/load5 2>/tmp/notes5 &
    wait_for 120 test -s /tmp/truth5 && sleep 4
    kill -9 $!
    while pidof frostline-load >/dev/null; do sleep 0.2; done
    cat /tmp/load5 /tmp/notes5
}
killed() {
    frostline run --slow node:1 --fast 40% $limits -- frostline-load --size 48MiB --seconds 600 \
        --checksums --truth /tmp/truth2 >/tmp/load2 2>/tmp/notes2 &
    run=$!
    before=$(migrated)
    wait_for 120 test -s /tmp/truth2
    wait_for 60 migrated_since $before 3000
    kill -9 $run
    wait $run
    echo "frostline: $?, pages moved: $(($(migrated) - before))"
    sleep 3
    echo "left: $(pidof frostline-load | wc -w)"
    kill -INT $(pidof frostline-load)
    while pidof frostline-load >/dev/null; do sleep 0.2; done
    cat /tmp/load2 /tmp/notes2
    settings | tr '\n' ' ' && echo left
    frostline doctor --undo
    settings | tr '\n' ' ' && echo cleaned
}
# Whose setting it is: one that has the kernel promote is overruled on demand only.
chosen() {
    echo "$1" >/proc/sys/kernel/numa_balancing
    shift
    frostline run --slow node:1 $limits "$@" -- sleep 1
    echo "code $?: $(settings | tr '\n' ' ')"
    echo 0 >/proc/sys/kernel/numa_balancing
}
choices() {
    chosen 1 --samples auto
    chosen 2 --samples auto
    chosen 2 --samples hint-faults
    chosen 0 --samples damon
    chosen 0 --samples refaults
    chosen 0 --samples hint-faults --dry-run
}
section tiered tiered
section replay frostline journal verify /out/journal
section killed killed
section choices choices
section hybridtier other hybridtier samples_total,batches_total
section hotbox other hotbox remote_blocks_total,armed_touched
section inside other hybridtier samples_total --in-process
section touched touched hotbox moved_at_touch
section again frostline journal verify /out/touches-moved_at_touch
section canaries touched pet:sampling=200ms:scan=1s:temporary=8MiB:max-block=32MiB armed_touched
section phases phases
section files files pet:sampling=200ms:scan=1s:temporary=8MiB:max-block=32MiB
section orphan orphan
"#;

static LIVE: LazyLock<Outcome> = LazyLock::new(|| match agent() {
    Ok(path) => run_with_frostline(Guest::default().file(path), SCRIPT),
    Err(error) => Outcome::Failed(error),
});

/// With more than 1 GiB free in fast memory, the kernel promotes whatever is touched, at any rate.
const PLENTY: &str = r#"
mode() { cat /proc/sys/kernel/numa_balancing; }
is_mode() { [ "$(mode)" = "$1" ]; }
mode_after() { wait_for 120 is_mode $1; echo "mode $(mode)"; }
faults() { awk '/^numa_hint_faults / { print $2 }' /proc/vmstat; }
are_faults() { [ "$(faults)" -ge 100 ]; }
plenty() {
    frostline run --slow node:1 --fast 40% --cpu-limit 30% --settling-cpu-limit 50% -- \
        frostline-load --size 32MiB --hot 20% --seconds 600 --truth /tmp/truth >/dev/null 2>/tmp/notes &
    run=$!
    wait_for 120 test -s /tmp/truth
    sleep 3
    echo "free: mode $(mode), faults $(faults)"
    dd if=/dev/zero of=/dev/shm/fill bs=1M count=1000 2>/dev/null
    echo "filled: $(mode_after 2)"
    wait_for 60 are_faults
    echo "faults: $(faults)"
    rm /dev/shm/fill
    echo "freed: $(mode_after 0)"
    kill -INT $(pidof frostline-load)
    wait $run
    cat /tmp/notes
}
section plenty plenty
"#;

fn section(name: &str) -> Option<&'static str> {
    ran(&LIVE).map(|report| passed(report, name))
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
    assert!(hot_share >= 0.9, "{text}");
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
}

/// Pages of the chain by which latencies are measured at the start, there and back.
const MEASURED: f64 = 256.0;

#[test]
fn what_we_count_the_kernel_counts() {
    let Some(text) = section("tiered") else { return };
    let (kernel, ours) = (number(text, "kernel") - MEASURED, number(text, "frostline"));
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
fn hint_faults_are_seen_and_the_kernel_does_not_act_on_them() {
    let Some(text) = section("tiered") else { return };
    assert!(text.contains("samples come from hint faults"), "{text}");
    let (faults, seen) = (number(text, "faults"), number(text, "seen"));
    assert!(faults > 3000.0 && seen > 3000.0, "{text}");
    assert_eq!(words(text, "promoted by the kernel"), ["0", "0"], "{text}");
    assert!(text.contains("\n2 0 while\n"), "{text}");
}

#[test]
fn settings_are_restored_in_the_end_and_after_a_crash() {
    let (Some(tiered), Some(killed)) = (section("tiered"), section("killed")) else { return };
    assert!(tiered.ends_with("\n0 65536 after"), "{tiered}");
    assert!(killed.contains("\n2 0 left\n"), "{killed}");
    assert!(killed.ends_with("\n0 65536 cleaned"), "{killed}");
}

#[test]
fn who_has_the_kernel_promote_is_overruled_on_demand_only() {
    let Some(text) = section("choices") else { return };
    let parts: Vec<&str> = text.split_inclusive("code ").collect();
    let [balancing, promoting, insisting, damon, refaults, dry, _] = parts[..] else {
        panic!("six runs: {text}")
    };
    assert!(balancing.contains("samples come from hint faults"), "{text}");
    assert!(promoting.contains("samples come from access bits in page tables"), "{text}");
    assert!(promoting.contains("kernel.numa_balancing=2"), "{text}");
    assert!(insisting.contains("samples come from hint faults"), "{text}");
    assert!(damon.contains("samples come from DAMON, which"), "{text}");
    assert!(refaults.contains("hint: "), "{text}");
    assert!(dry.contains("a dry run"), "{text}");
    for mode in [1, 2, 2, 0, 0, 0] {
        assert!(text.contains(&format!("{mode} 65536")), "{text}");
    }
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

#[test]
fn hybridtier_and_hotbox_leave_memory_whole() {
    let (Some(hybridtier), Some(hotbox)) = (section("hybridtier"), section("hotbox")) else {
        return;
    };
    for text in [hybridtier, hotbox] {
        assert_eq!(number(text, "mismatches"), 0.0, "{text}");
        assert!(number(text, "kernel") > 1000.0, "{text}");
    }
    assert!(number(hybridtier, "counted") > 0.0, "{hybridtier}");
    let suited = [":momentum-cooling=", ":batch=2000"];
    assert!(suited.iter().all(|part| hybridtier.contains(part)), "{hybridtier}");
    assert!(number(hybridtier, "batches") > 0.0, "{hybridtier}");
    assert!(!hotbox.contains("eager=on"), "{hotbox}");
    assert!(hotbox.contains("never pauses") && hotbox.contains("hint faults"), "{hotbox}");
    assert!(number(hotbox, "blocks") > 0.0, "{hotbox}");
    assert!(number(hotbox, "touched") > 0.0, "pages that were found hot and are touched: {hotbox}");
}

#[test]
fn blocks_of_folios_leave_and_come_back_by_hint_faults() {
    let Some(text) = section("phases") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    assert!(text.contains("hint faults") && !text.contains("without tiering"), "{text}");
    for counter in ["splits", "demoted_blocks_total", "promoted_blocks_total"] {
        assert!(number(text, counter) > 0.0, "{counter}: {text}");
    }
}

#[test]
fn a_program_moves_its_own_pages_between_nodes() {
    let Some(text) = section("inside") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    assert!(number(text, "kernel") > 1000.0 && number(text, "counted") > 0.0, "{text}");
    assert!(text.contains("\nprocess\n") && !text.contains("without tiering"), "{text}");
    assert!(text.ends_with("\n0 65536 after"), "what the agent has set is undone: {text}");
}

#[test]
fn pages_move_at_their_next_touch() {
    let Some(text) = section("touched") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    assert!(number(text, "armed") > 0.0 && number(text, "armed_touched") > 0.0, "{text}");
    assert!(number(text, "moved_at_touch") > 0.0, "{text}");
    assert!(!text.contains("without tiering"), "{text}");
}

#[test]
fn touches_are_in_the_journal() {
    let Some(text) = section("again") else { return };
    assert!(text.starts_with("identical: "), "{text}");
}

#[test]
fn canaries_between_nodes_fault() {
    let Some(text) = section("canaries") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    assert!(number(text, "armed") > 0.0 && number(text, "canary_faults_total") > 0.0, "{text}");
    assert_eq!(number(text, "moved_at_touch"), 0.0, "blocks come back by a worker: {text}");
    assert!(!text.contains("without tiering"), "{text}");
}

#[test]
fn closed_files_go_to_the_slow_node() {
    let Some(text) = section("files") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
    assert!(number(text, "cached") >= 16384.0, "{text}");
    assert!(number(text, "verified_bytes") >= f64::from(16 << 20), "{text}");
}

#[test]
fn a_program_whose_pages_are_out_needs_nobody_outside() {
    let Some(text) = section("orphan") else { return };
    assert_eq!(number(text, "mismatches"), 0.0, "{text}");
}

#[test]
fn hint_faults_wait_until_less_fast_memory_is_free() {
    let outcome = run_with_frostline(Guest::default().memory_mib(2048, 512), PLENTY);
    let Some(report) = ran(&outcome) else { return };
    let text = passed(report, "plenty");
    assert!(text.contains("as soon as less fast memory is free"), "{text}");
    assert!(text.contains("free: mode 0, faults 0\nfilled: mode 2\n"), "{text}");
    assert!(number(text, "faults:") >= 100.0, "{text}");
    assert!(text.contains("\nfreed: mode 0\n"), "{text}");
}
