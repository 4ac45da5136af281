//! The system under test: nothing of a test is left when it is over.

use crate::support::{frostline, only_run, text, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::process::Command;

/// Held for a test. What the test leaves behind is cleaned up when this is dropped.
///
/// Others may use swap and run frostlines of their own all the while: only what processes of this
/// test have changed counts.
pub struct System {
    /// What the kernel's setting is when no frostline runs.
    read_ahead: String,
    /// Zram devices and those on the list of changes, when the test began.
    zram: BTreeSet<String>,
    listed: BTreeSet<String>,
    /// One test at a time of those that look at how full their device is.
    _lock: File,
}

/// So many KiB do not come back by themselves between two looks.
pub const SOME_KIB: u64 = 4096;
const READ_AHEAD: &str = "/proc/sys/vm/page-cluster";

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn zram_devices() -> BTreeSet<String> {
    names("/sys/block").into_iter().filter(|name| name.starts_with("zram")).collect()
}

/// Swap devices in use.
pub fn swaps() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    // From another mount name space, `/dev` looks like the root.
    let device = |line: &str| {
        let name = line.split_ascii_whitespace().next()?;
        Some(if name.starts_with("/zram") { format!("/dev{name}") } else { name.to_owned() })
    };
    text.lines().skip(1).filter_map(device).collect()
}

/// An entry of the list of changes.
struct Listed {
    change: Value,
    /// Those of its owners that run.
    owners: Vec<u32>,
}

impl Listed {
    /// All entries. A process number that runs again is taken for the owner, for a moment.
    fn all() -> Vec<Self> {
        let text = fs::read_to_string("/run/frostline/changes.json").unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        let entry = |change: &Value| {
            let owners = change["owners"].as_array().into_iter().flatten();
            let owners = owners.filter_map(|owner| Some(owner["pid"].as_u64()? as u32));
            let owners = owners.filter(|pid| parent(*pid).is_some()).collect();
            Self { change: change.clone(), owners }
        };
        list["entries"].as_array().into_iter().flatten().map(entry).collect()
    }

    /// Its zram device, such as `zram0`.
    fn zram(&self) -> Option<String> {
        (self.change["kind"] == "zram").then(|| format!("zram{}", self.change["number"]))
    }

    /// What tells it from another one.
    fn identity(&self) -> String {
        format!("{} {} {}", self.change["uuid"], self.change["path"], self.change["pid"])
    }

    fn is_of_others(&self) -> bool {
        self.owners.iter().any(|owner| !is_ours(*owner))
    }
}

/// The process that has started another; `None` where that has ended.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Whether a process is this one, or was started by it, or by one that was.
fn is_ours(pid: u32) -> bool {
    let ours = |pid: &u32| *pid == std::process::id();
    std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| ours(&pid))
}

impl System {
    /// Waits for other tests; `None`, with the reason printed, where nothing can be tested.
    pub fn take() -> Option<Self> {
        if !frostline_testing::zram() {
            return None;
        }
        let lock = frostline_testing::swap_lock();
        frostline().args(["doctor", "--undo"]).output().expect("it runs");
        let listed = Listed::all();
        let set = listed.iter().find(|entry| entry.change["path"] == READ_AHEAD);
        let now = || fs::read_to_string(READ_AHEAD).expect("readable").trim().to_owned();
        let read_ahead = set.map_or_else(now, |set| set.change["old"].as_str().unwrap().to_owned());
        let listed = listed.iter().map(Listed::identity).collect();
        Some(Self { read_ahead, zram: zram_devices(), listed, _lock: lock })
    }

    /// Zram devices of frostlines of this test, killed ones included, with what is on the list of
    /// changes of each.
    fn ours(&self) -> Vec<Listed> {
        let mut all = Listed::all();
        all.retain(|entry| !self.listed.contains(&entry.identity()) && !entry.is_of_others());
        all
    }

    /// Kinds of what frostlines of this test have changed that do not run any more.
    pub fn abandoned(&self) -> Vec<String> {
        let ours = self.ours().into_iter().filter(|entry| entry.owners.is_empty());
        ours.filter_map(|entry| Some(entry.change["kind"].as_str()?.to_owned())).collect()
    }

    /// Swap devices of this test, such as `/dev/zram0`, of which each has this size.
    pub fn swaps_of_mib(&self, mib: u64) -> Vec<String> {
        let swaps = swaps();
        let ours = self.ours();
        let of_size = ours.iter().filter(|entry| entry.change["size_bytes"] == mib << 20);
        let devices = of_size.filter_map(Listed::zram).map(|name| format!("/dev/{name}"));
        devices.filter(|device| swaps.contains(device)).collect()
    }

    /// Runs `frostline doctor --undo`; what it says of our own devices that were left as they are.
    pub fn clean(&self, options: &[&str]) -> Vec<String> {
        let ours: Vec<String> = self.ours().iter().filter_map(Listed::zram).collect();
        let output = frostline()
            .args(["doctor", "--undo", "--json"])
            .args(options)
            .output()
            .expect("it runs");
        let done = only_run(&output.stdout);
        let kept = done["kept"].as_array().into_iter().flatten().map(Value::to_string);
        let is_ours = |what: &String| ours.iter().any(|name| what.contains(&format!("/{name}\"")));
        let (kept, others): (Vec<_>, Vec<_>) = kept.partition(is_ours);
        let code = i32::from(!kept.is_empty() || !others.is_empty());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        kept
    }

    /// Checks that `frostline doctor --undo` leaves the device alone on which there are pages of a program,
    /// and whether it did. They are elsewhere where another frostline has set up its own later.
    pub fn clean_keeps(&self) -> bool {
        let shared = self.is_shared();
        let kept = self.clean(&[]);
        assert!(kept.len() == 1 || shared || self.is_shared(), "{kept:?}");
        !kept.is_empty()
    }

    /// Whether another frostline has a device, on which our pages may be, and its own on ours.
    pub fn is_shared(&self) -> bool {
        Listed::all().iter().any(|entry| entry.zram().is_some() && entry.is_of_others())
    }

    /// Checks that nothing is left behind, once `frostline doctor --undo` has run.
    pub fn finish(self) {
        for kept in self.clean(&[]) {
            // Pages of others may be on our device.
            let numbers = kept.split(['(', ')']).filter_map(|word| word.parse().ok());
            let numbers: Vec<u32> = numbers.collect();
            assert!(!numbers.is_empty() && !numbers.into_iter().any(is_ours), "{kept}");
        }
        wait_until(&format!("nothing is left of {:?}", self.left()), || {
            self.clean(&["--swap-off"]);
            let status = frostline().arg("status").output().expect("it runs");
            assert_eq!(status.status.code(), Some(0), "{}", text(&status.stderr));
            self.left().is_empty()
        });
    }

    /// What there is that was not there before, and that no frostline of others needs.
    fn left(&self) -> Vec<String> {
        let listed = Listed::all();
        let mut left: Vec<String> =
            self.ours().iter().map(|left| left.change.to_string()).collect();
        let reads_ahead = fs::read_to_string(READ_AHEAD).expect("readable");
        if reads_ahead.trim() != self.read_ahead
            && !listed.iter().any(|entry| entry.change["path"] == READ_AHEAD)
        {
            left.push(format!("{READ_AHEAD} is {reads_ahead}"));
        }
        let known: BTreeSet<String> = listed.iter().filter_map(Listed::zram).collect();
        let forgotten = zram_devices().into_iter().filter(|name| {
            !self.zram.contains(name) && !known.contains(name) && is_made_by_frostline(name)
        });
        left.extend(forgotten);
        let instances = names("/run/frostline/instances").into_iter();
        left.extend(instances.filter(|name| {
            let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
            pid.is_some_and(|pid| is_ours(pid) || parent(pid).is_none())
        }));
        left
    }
}

/// Whether a zram device has the name in its swap header that frostline gives, or no size yet.
fn is_made_by_frostline(name: &str) -> bool {
    let size = fs::read_to_string(format!("/sys/block/{name}/disksize")).unwrap_or_default();
    let mut header = [0; 4096];
    let read = File::open(format!("/dev/{name}")).and_then(|mut file| file.read_exact(&mut header));
    size.trim() == "0" || read.is_ok() && header[1052..].starts_with(b"frostline")
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = frostline().args(["doctor", "--undo", "--swap-off"]).output();
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
