//! The daemon with two targets on one compressed slow tier.

use crate::load::Load;
use crate::support::{Running, frostline, text, wait_until};
use crate::system::{System, number};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const DEVICE_MIB: u64 = 256;
/// A page or two more than a limit may be there for a moment.
const MARGIN: f64 = 1.02;

/// A running daemon, and what it has said.
struct Daemon {
    process: Running,
    notes: PathBuf,
}

impl Daemon {
    fn start(config: &Path) -> Self {
        let notes = config.with_extension("notes");
        let file = File::create(&notes).expect("a file");
        let mut command = frostline();
        command.args(["daemon", "-c"]).arg(config).stderr(file);
        Self { process: Running::start(&mut command), notes }
    }

    fn notes(&self) -> String {
        fs::read_to_string(&self.notes).expect("readable")
    }

    /// What `frostline status` tells of one of its targets.
    fn target(&self, name: &str) -> Option<Value> {
        let output = frostline().args(["status", "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let ours = |run: &&Value| run["pid"] == self.process.pid() && run["name"] == name;
        all["runs"].as_array().expect("an envelope").iter().find(ours).cloned()
    }

    /// Waits until a target has this limit of fast memory, within a page, and is within it, with
    /// pages in swap; what it tells then.
    fn settles(&self, name: &str, fast: u64) -> Value {
        let mut found = Value::Null;
        wait_until(&format!("{name} is within {fast}"), || {
            found = self.target(name).unwrap_or_default();
            let Some(tiers) = found["tiers"].as_array() else { return false };
            let [memory, swap] = tiers.as_slice() else { return false };
            let limit = number(memory, "capacity_bytes");
            limit.abs_diff(fast) <= 8192
                && number(memory, "used_bytes") as f64 <= limit as f64 * MARGIN
                && number(swap, "used_bytes") > 8 * MIB
        });
        found
    }
}

/// Both loads have 64 MiB; the daemon has 48 MiB of fast memory for them.
fn configure(folder: &TempDir, loads: [&Load; 2], fast_of_a: &str) -> PathBuf {
    let target = |name: &str, load: &Load, fast: &str, priority: u8| {
        format!(
            "[[target]]\nname = \"{name}\"\npid = {}\nfast = \"{fast}\"\npriority = {priority}\n\
             slow = \"zram:size={DEVICE_MIB}MiB\"\ncpu_limit = \"20%\"\nsettling_cpu_limit = \"40%\"\n",
            load.pid()
        )
    };
    let [a, b] = loads;
    let text = target("a", a, fast_of_a, 80) + &target("b", b, "60MiB", 20);
    let path = folder.path().join("f.toml");
    fs::write(&path, format!("[daemon]\nfast = \"48MiB\"\n{text}")).expect("writable");
    path
}

#[test]
fn two_targets_share_one_device_and_their_fast_memory() {
    let Some(system) = System::take() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut loads = [1, 2].map(|_| Load::start("--size 64MiB --hot 10% --checksums"));
    let config = configure(&folder, [&loads[0], &loads[1]], "20MiB");

    let mut daemon = Daemon::start(&config);
    // The first has the higher priority and gets all that it wants.
    let first = daemon.settles("a", 20 * MIB);
    daemon.settles("b", 28 * MIB);
    assert_eq!(system.swaps_of_mib(DEVICE_MIB).len(), 1, "one device for both");
    assert!(number(&first, "saved_bytes") > 0, "{first:#}");

    configure(&folder, [&loads[0], &loads[1]], "30MiB");
    daemon.process.signal(Signal::HUP);
    let later = daemon.settles("a", 30 * MIB);
    let other = daemon.settles("b", 18 * MIB);
    assert!(daemon.notes().contains("reloaded: 2 targets"), "{}", daemon.notes());
    for (now, name) in [(&later, "a"), (&other, "b")] {
        let begun = daemon.notes().matches(&format!("{name}: managed")).count();
        assert_eq!(begun, 1, "it is not begun anew: {now:#}");
    }

    daemon.process.signal(Signal::TERM);
    assert_eq!(daemon.process.end().code(), Some(0), "{}", daemon.notes());
    // There is room in memory for all of it, unless somebody else's program is in swap.
    let devices = system.swaps_of_mib(DEVICE_MIB);
    assert!(devices.is_empty() || daemon.notes().contains("left as it is"), "{devices:?}");
    loads.iter_mut().for_each(Load::check_running);

    let mut daemon = Daemon::start(&config);
    daemon.settles("a", 30 * MIB);
    daemon.settles("b", 18 * MIB);
    assert_eq!(daemon.process.kill().signal(), Some(9));
    loads.iter_mut().for_each(Load::check_running);
    system.clean_keeps();
    assert_eq!(system.clean(&["--swap-off"]), [""; 0]);
    assert_eq!(system.swaps_of_mib(DEVICE_MIB), [""; 0]);
    for load in loads {
        load.end();
    }
    system.finish();
}
