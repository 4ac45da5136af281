//! Programs that reserve far more address space than they use: what they cost depends on what is resident.

use crate::load::Load;
use crate::support::{EAGER, Running, moved, status_of, wait_until};
use crate::system::{System, number, status_kib};
use frostline_testing::{Requirement, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};

/// Most memory of frostline itself.
const MOST_KIB: u64 = 32 << 10;
/// Looks into page tables that a round over 16 TiB takes: one for each 4 GiB, and for other memory.
const LOOKS: u64 = 4096 + 1024;

/// Tiers a load of 10 MiB with more of this kind, until pages were moved and all page tables were
/// looked at several times; what frostline tells then, having cost no more than it may.
///
/// `None`, and that is said, where allocations cannot be followed.
fn tiered(policy: &str, reserved: &str) -> Option<Value> {
    let load = Load::start(&format!("--size 10MiB --cold-rate 500/s --checksums {reserved}"));
    // `pet` needs tracefs, which not every system has mounted.
    let mounted = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "--propagation", "private", "sh", "-c", mounted, "sh"])
        .args([env!("CARGO_BIN_EXE_frostline"), "attach", &load.pid().to_string()])
        .args(["--slow", "zram:size=64MiB", "--fast", "50%", "--policy", policy])
        .args(EAGER.split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut driver = Running::start(&mut command);
    let mut last = Value::Null;
    wait_until("memory is tiered, and looked over", || {
        if let Some(status) = status_of(driver.pid()) {
            last = status;
        }
        let rounds = last["audits"]["rounds"].as_u64().unwrap_or(0);
        let is_tiered = rounds >= 3 && moved(&last, "verified") > 2 << 20;
        driver.has_ended() || is_tiered
    });
    let own = status_kib(driver.pid(), "VmHWM");
    let ended = driver.has_ended();
    if !ended {
        driver.signal(Signal::INT);
    }
    let code = driver.end().code();
    let mut told = String::new();
    let stderr = driver.0.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut told).expect("readable");
    load.end();
    if ended && (told.contains("tracefs is not mounted") || told.contains("unshare failed")) {
        skip(Requirement::Tracefs, told);
        return None;
    }
    assert_eq!((ended, code), (false, Some(0)), "{told}");
    assert!(number(&last, "footprint_bytes") > 8 << 20, "{last:#}");
    assert!(own > 0 && own < MOST_KIB, "{own} KiB: {last:#}");
    let audits = &last["audits"];
    let rounds = number(audits, "rounds") + 2;
    assert!(number(audits, "looks") <= rounds * LOOKS, "{audits}");
    let resident = (number(&last, "footprint_bytes") + number(&last, "scattered_bytes")) >> 12;
    assert!(number(audits, "pages") <= rounds * 2 * resident, "{audits}, {resident} pages");
    Some(last)
}

/// Mapped at once, and used here and there.
const SCATTERED: &str = "--reserve 16TiB --reserve-pages 1000";

fn mapped(status: &Value) -> u64 {
    number(&status["targets"][0], "mapped_bytes")
}

#[test]
fn memtis_costs_what_a_program_uses_of_16_tib() {
    let Some(system) = System::take() else { return };
    let status = tiered("memtis", SCATTERED).expect("nothing else is needed");
    assert!(mapped(&status) >= 16 << 40, "{status:#}");
    assert_eq!(number(&status, "scattered_bytes"), 0, "{status:#}");
    system.finish();
}

#[test]
fn hybridtier_costs_what_a_program_uses_of_8_mappings_of_2_tib() {
    let Some(system) = System::take() else { return };
    let reserved = "--reserve 16TiB --reserve-mappings 8 --reserve-pages 1000";
    let status = tiered("hybridtier", reserved).expect("nothing else is needed");
    assert!(mapped(&status) >= 16 << 40, "{status:#}");
    system.finish();
}

#[test]
fn hotbox_costs_what_a_program_uses_of_16_tib() {
    let Some(system) = System::take() else { return };
    let status = tiered("hotbox", SCATTERED).expect("nothing else is needed");
    assert!(mapped(&status) >= 16 << 40, "{status:#}");
    system.finish();
}

#[test]
fn pet_costs_what_a_program_uses_of_16_tib() {
    let Some(system) = System::take() else { return };
    let policy = "pet:sampling=200ms:scan=1s:temporary=8MiB:max-block=32MiB";
    if let Some(status) = tiered(policy, SCATTERED) {
        assert!(mapped(&status) >= 16 << 40, "{status:#}");
    }
    system.finish();
}

#[test]
fn more_scattered_pages_than_tables_have_room_for_are_left_alone_and_told() {
    let Some(system) = System::take() else { return };
    let reserved = "--reserve 16TiB --reserve-pages 4000";
    let status = tiered("memtis", reserved).expect("nothing else is needed");
    assert!(number(&status, "scattered_bytes") > 8 << 20, "{status:#}");
    system.finish();
}

#[test]
fn thousands_of_mappings_cost_what_is_in_them() {
    let Some(system) = System::take() else { return };
    let reserved = "--reserve 4TiB --reserve-mappings 5000 --reserve-pages 500";
    let status = tiered("memtis", reserved).expect("nothing else is needed");
    assert!(mapped(&status) >= 4 << 40, "{status:#}");
    system.finish();
}

#[test]
fn who_maps_unmaps_and_forks_beside_16_tib_costs_no_more() {
    let Some(system) = System::take() else { return };
    let reserved = format!("{SCATTERED} --churn 200/s --fork-rate 5/s --threads 2");
    let status = tiered("memtis", &reserved).expect("nothing else is needed");
    assert!(mapped(&status) >= 16 << 40, "{status:#}");
    system.finish();
}
