//! Frostline killed at random moments between two nodes, while it watches by hint faults and by DAMON.
//!
//! `FROSTLINE_GUEST_KILLS=300` is a campaign (docs/notes/reliability.md); without it, the same runs short.

mod support;

use frostline_core::rng::Rng;
use frostline_guest::Guest;
use std::fmt::Write;
use support::{passed, ran, run_with_frostline};

const KILLS: u64 = 8;
const KILLS_VARIABLE: &str = "FROSTLINE_GUEST_KILLS";
const SEED: u64 = 1;
const SEED_VARIABLE: &str = "FROSTLINE_SEED";
/// Moments after the start: an emulated processor is slow.
const LATEST_MS: u64 = 4000;
/// Kills beside one program, before it looks at all of its memory.
const PER_PROGRAM: u64 = 20;
/// What a boot, and a kill, may take on a busy machine.
const BOOT_S: u64 = 300;
const KILL_S: u64 = 20;

/// Reads `milliseconds policy samples clean?` of each kill from `/job/kills`, and sums up.
const SCRIPT: &str = r#"
limits="--cpu-limit 30% --settling-cpu-limit 50%"
migrated() { awk '/^pgmigrate_success / { print $2 }' /proc/vmstat; }
# 256 pages are moved to measure what nodes are like, before anything is watched.
moved_since() { [ $(($(migrated) - $1)) -gt 300 ]; }
settings() { echo $(cat /proc/sys/kernel/numa_balancing*); }
kdamonds() { cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds; }
begin() {
    rm -f /tmp/truth
    frostline-load --size 32MiB --hot 20% --cold-rate 500/s --writes 20% --threads 2 --checksums \
        --fork-rate 1/s --churn 4/s --seconds 36000 --truth /tmp/truth >/tmp/load 2>/tmp/notes &
    load=$!
    wait_for 240 test -s /tmp/truth
}
end() {
    [ -n "$load" ] || return 0
    kill -INT $load
    wait $load || { cat /tmp/load /tmp/notes; return 1; }
    programs=$((programs + 1))
    verified=$((verified + $(awk '/^verified pages/ { print $3 }' /tmp/load)))
}
kills() {
    was=$(settings)
    load='' programs=0 verified=0 all=0 killed=0 moved=0 settings_left=0 damon_left=0
    while read -r ms policy samples clean last; do
        [ $((all % PER_PROGRAM)) != 0 ] || { end && begin; } || return 1
        all=$((all + 1))
        before=$(migrated)
        frostline attach $load --policy $policy --samples $samples --slow node:1 --fast 40% $limits \
            >/dev/null 2>/tmp/told &
        driver=$!
        sleep $ms
        # What it is for has to happen at least once.
        [ $last != last ] || wait_for 120 moved_since $before
        kill -9 $driver 2>/dev/null
        code=0
        wait $driver 2>/dev/null || code=$?
        [ $code != 137 ] || killed=$((killed + 1))
        ! moved_since $before || moved=$((moved + 1))
        [ "$(settings)" = "$was" ] || settings_left=$((settings_left + 1))
        [ $(kdamonds) = 0 ] || damon_left=$((damon_left + 1))
        kill -0 $load || { cat /tmp/load /tmp/notes; return 1; }
        if [ $clean = clean ]; then
            frostline doctor --undo >/dev/null || return 1
            [ "$(settings), $(kdamonds)" = "$was, 0" ] || { echo "left: $(settings), $(kdamonds)"; return 1; }
        fi
    done </job/kills
    end || return 1
    frostline doctor --undo >/dev/null
    echo "killed $killed of $all"
    echo "programs $programs"
    echo "verified $verified"
    echo "moved $moved"
    echo "settings_left $settings_left"
    echo "damon_left $damon_left"
    echo "after $(settings), $(kdamonds), was $was, 0"
    # Whoever looks removes what is left of those that do not run.
    frostline status
    ls /run/frostline/instances | wc -l
}
section kills kills
"#;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[test]
fn killed_at_random_moments_nothing_is_lost_between_nodes() {
    let (kills, seed) = (variable(KILLS_VARIABLE, KILLS), variable(SEED_VARIABLE, SEED));
    let mut rng = Rng::new(seed);
    let mut list = String::new();
    for kill in 0..kills {
        let ms = rng.below(LATEST_MS);
        let policy = ["memtis-plus", "hybridtier"][kill as usize / 2 % 2];
        let samples = ["auto", "damon"][kill as usize % 2];
        let last = kill + 2 >= kills;
        let clean = if last || rng.below(3) == 0 { "clean" } else { "keep" };
        let last = if last { "last" } else { "-" };
        writeln!(list, "{}.{:03} {policy} {samples} {clean} {last}", ms / 1000, ms % 1000)
            .expect("room");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kills");
    std::fs::write(&file, list).expect("room");
    let guest = Guest::default().timeout_s(BOOT_S + KILL_S * kills).file(file);
    let script = SCRIPT.replace("PER_PROGRAM", &PER_PROGRAM.to_string());
    let outcome = run_with_frostline(guest, &script);
    let Some(report) = ran(&outcome) else { return };
    let told = passed(report, "kills");
    println!("seed {seed}\n{told}");
    let number = |head: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(' '));
        let word = line.and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
        word.unwrap_or_else(|| panic!("no {head}: {told}"))
    };
    assert!(number("killed") * 2 > kills && number("moved") > 0, "{told}");
    assert!(number("settings_left") > 0 && number("damon_left") > 0, "{told}");
    assert_eq!(number("programs"), kills.div_ceil(PER_PROGRAM), "{told}");
    assert!(told.contains("after 0 65536, 0, was 0 65536, 0\n"), "{told}");
    assert!(told.trim_end().ends_with("\n0"), "nothing runs: {told}");
}
