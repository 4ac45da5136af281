//! The system under test: one test at a time, and as it was before when the test is over.

use crate::support::{frostline, only_run, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Held for a test. What the test leaves behind is cleaned up when this is dropped.
pub struct System {
    before: State,
    /// Shared with every other test that sets up a swap device: pages go to whichever was set up
    /// last.
    _lock: File,
}

/// What frostline changes.
#[derive(Debug, PartialEq, Eq)]
struct State {
    read_ahead: String,
    swaps: BTreeSet<String>,
    zram: BTreeSet<String>,
    /// A list of changes that have to be undone.
    changes: bool,
    /// Frostlines that say to run.
    instances: BTreeSet<String>,
}

impl State {
    fn now() -> Self {
        Self {
            read_ahead: fs::read_to_string("/proc/sys/vm/page-cluster").unwrap_or_default(),
            swaps: swaps(),
            zram: names("/sys/block").into_iter().filter(|n| n.starts_with("zram")).collect(),
            changes: Path::new("/run/frostline/changes.json").exists(),
            instances: names("/run/frostline/instances"),
        }
    }
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Swap devices in use.
pub fn swaps() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let device = |line: &str| Some(line.split_ascii_whitespace().next()?.to_owned());
    text.lines().skip(1).filter_map(device).collect()
}

/// What `frostline clean` did.
#[derive(Debug)]
pub struct Cleaned {
    pub code: Option<i32>,
    pub kept: usize,
    in_use: u64,
}

pub fn clean(options: &[&str]) -> Cleaned {
    let output = frostline().args(["clean", "--json"]).args(options).output().expect("it runs");
    let done = only_run(&output.stdout);
    let kept = done["kept"].as_array().map_or(0, Vec::len);
    Cleaned { code: output.status.code(), kept, in_use: done["in_use"].as_u64().unwrap_or(0) }
}

impl System {
    /// Waits for other tests; `None`, with the reason printed, where nothing can be tested.
    pub fn take() -> Option<Self> {
        let path = std::env::temp_dir().join("frostline-swap-tests.lock");
        let lock = match File::create(&path).and_then(|file| file.lock().map(|()| file)) {
            Ok(lock) => lock,
            Err(error) => {
                println!("skipped: {}: {error}", path.display());
                return None;
            }
        };
        clean(&[]);
        // Forgets those that were killed.
        frostline().arg("status").output().expect("it runs");
        let system = Self { before: State::now(), _lock: lock };
        let output = frostline()
            .args(["run", "--slow", "zram:size=16MiB", "--", "true"])
            .output()
            .expect("it runs");
        let told = text(&output.stderr);
        if let Some(why) = told.lines().find(|line| line.contains("without tiering")) {
            println!("skipped: a compressed slow tier cannot be set up here: {why}");
            return None;
        }
        Some(system)
    }

    /// Swap devices that were not there before.
    pub fn new_swaps(&self) -> Vec<String> {
        swaps().difference(&self.before.swaps).cloned().collect()
    }

    /// Checks that nothing is left behind, once `frostline clean` has run.
    pub fn finish(self) {
        let cleaned = clean(&[]);
        assert_eq!((cleaned.code, cleaned.kept), (Some(0), 0), "{cleaned:?}");
        assert_eq!(frostline().arg("status").output().expect("it runs").status.code(), Some(0));
        // Somebody else's frostline may run meanwhile.
        if cleaned.in_use == 0 {
            assert_eq!(State::now(), self.before);
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = frostline().args(["clean", "--swap-off"]).output();
    }
}

/// A number of `/proc/PID/status`, in KiB.
pub fn status_kib(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs a program of the system; whether it is there and succeeded.
pub fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// A number anywhere in a JSON value.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}
