//! Journals that were cut off or damaged.

use crate::load::Load;
use crate::support::{Running, attach, frostline, only_run, status_of, text, wait_until};
use crate::system::{System, number};
use std::fs;
use std::path::Path;
use std::process::Output;

fn replay(journal: &Path) -> Output {
    frostline().args(["journal", "verify", "--json"]).arg(journal).output().expect("it runs")
}

/// Bytes at which entries begin, read as the format is described.
fn entries(journal: &[u8]) -> Vec<usize> {
    let mut at = journal.iter().position(|&byte| byte == b'\n').expect("the first line") + 1;
    let mut found = Vec::new();
    while at + 8 <= journal.len() {
        found.push(at);
        let length = u32::from_le_bytes(journal[at..at + 4].try_into().expect("4 bytes"));
        at += 8 + length as usize;
    }
    found
}

#[test]
fn a_killed_runs_journal_replays_to_its_last_whole_entry() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let load = Load::start("--size 16MiB --hot 20% --cold-rate 2000/s");
    let options = "--slow zram:size=64MiB --fast 40% --policy memtis:adaptation=20";
    let mut driver = Running::start(attach(load.pid(), options).arg("--journal").arg(&path));
    wait_until("the policy has had pages moved", || {
        load.swapped_kib() > 0
            && status_of(driver.pid()).is_some_and(|status| {
                let of_policy = |what: &str| number(&status["accounts"][what], "attempted_bytes");
                of_policy("promotions") + of_policy("demotions") > 0
            })
    });
    driver.kill();
    load.end();
    let whole = replay(&path);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let done = only_run(&whole.stdout);
    assert!(done["actions"].as_u64() > Some(0), "{done}");

    let journal = fs::read(&path).expect("written");
    let starts = entries(&journal);
    let (setup, second, last) = (starts[0], starts[1], starts[starts.len() - 2]);
    let cut = folder.path().join("cut");
    for length in [second, second + 3, second + 8, last, last + 1, last + 9] {
        fs::write(&cut, &journal[..length]).expect("room");
        let output = replay(&cut);
        assert!(output.status.success(), "{length}: {}", text(&output.stderr));
        let done = only_run(&output.stdout);
        let inside = !starts.contains(&length);
        assert!(done["difference"].is_null() && (!inside || done["cut_off"] == true), "{done}");
    }
    let damages = [
        (0, "hint: "),
        (setup + 9, &*format!("byte {setup}: ")),
        (second + 8, &format!("byte {second}: ")),
        (last + 4, &format!("byte {last}: ")),
        (last + 3, &format!("byte {last}: ")),
    ];
    for (at, expected) in damages {
        let mut damaged = journal.clone();
        damaged[at] ^= 0x40;
        fs::write(&cut, &damaged).expect("room");
        let output = replay(&cut);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("error: ") && told.contains(expected), "byte {at}: {told}");
    }
    fs::write(&cut, &journal[..setup + 5]).expect("room");
    assert_eq!(replay(&cut).status.code(), Some(1), "nothing to replay");
    system.finish();
}
