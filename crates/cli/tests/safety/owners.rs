//! Two frostlines side by side.

use crate::load::Load;
use crate::support::{Running, attach, status_of, text, wait_until};
use crate::system::System;
use rustix::process::Signal;
use std::process::Stdio;

const TIERING: &str = "--slow zram:size=64MiB --fast 50%";

#[test]
fn a_second_frostline_on_a_target_refuses_and_names_the_first() {
    let Some(system) = System::take() else { return };
    let load = Load::start("--size 16MiB");
    let mut first = Running::start(&mut attach(load.pid(), TIERING));
    wait_until("the first one is on record", || status_of(first.pid()).is_some());
    for options in [TIERING, "--slow none"] {
        let output = attach(load.pid(), options).stderr(Stdio::piped()).output().expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("already managed"), "{told}");
        let owner = format!("frostline, process {}", first.pid());
        assert!(told.contains(&owner) && told.contains("hint: "), "{told}");
    }
    assert!(!first.has_ended(), "the first one goes on");
    let devices = system.swaps_of_mib(64);
    // Unless pages of another frostline's program are on it.
    let taken_down = devices.len() == 1 || system.is_shared();
    assert!(taken_down, "the refused one has taken its device down: {devices:?}");
    // One that was killed holds nothing any more.
    first.kill();
    let mut second = Running::start(&mut attach(load.pid(), TIERING));
    wait_until("the second one manages it", || status_of(second.pid()).is_some());
    second.signal(Signal::INT);
    assert_eq!(second.end().code(), Some(0));
    load.end();
    system.finish();
}

#[test]
fn two_frostlines_on_two_targets_do_not_disturb_each_other() {
    let Some(system) = System::take() else { return };
    let loads = [(); 2].map(|()| Load::start("--size 24MiB --hot 10% --checksums"));
    let mut drivers: Vec<Running> =
        loads.iter().map(|load| Running::start(&mut attach(load.pid(), TIERING))).collect();
    wait_until("pages of both are out", || loads.iter().all(|load| load.swapped_kib() > 4096));
    drivers.remove(0).kill();
    assert!(!drivers[0].has_ended());
    drivers[0].signal(Signal::TERM);
    assert_eq!(drivers[0].end().code(), Some(0));
    loads.into_iter().for_each(|load| drop(load.end()));
    system.finish();
}
