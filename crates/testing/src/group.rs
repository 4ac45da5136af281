//! Control groups that limit memory, made for a test.

use crate::{Requirement, met};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static MADE: AtomicU32 = AtomicU32::new(0);

/// A group of this test's own, without limits at first. It is removed when this is dropped, if its programs have
/// ended.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    /// Of the first version of the kernel's interface.
    is_v1: bool,
}

/// A new group; says that the test is skipped where none can be made.
pub fn memory_group() -> Option<MemoryGroup> {
    let made = MemoryGroup::make();
    let found = made.as_ref().map(drop).map_err(Clone::clone);
    met(Requirement::Groups, found).then_some(made.ok()?)
}

impl MemoryGroup {
    fn make() -> Result<Self, String> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let v2 = Path::new("/sys/fs/cgroup");
        let is_v1 = v1.join("memory.memsw.limit_in_bytes").exists();
        let listed = fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
        let top = match is_v1 {
            true => v1,
            false if listed.split_whitespace().any(|name| name == "memory") => v2,
            false => return Err("no control group limits memory and swap here".into()),
        };
        if !is_v1 {
            // It may be so already.
            let _ = fs::write(v2.join("cgroup.subtree_control"), "+memory");
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = top.join(format!("frostline-test-{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let group = Self { folder, is_v1 };
        let name = if is_v1 { "memory.memsw.limit_in_bytes" } else { "memory.swap.max" };
        match group.folder.join(name).exists() {
            true => Ok(group),
            false => Err(format!("{} has no {name}", group.folder.display())),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last part of its name, which nobody else has.
    pub fn name(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Has a process belong to it.
    ///
    /// # Panics
    /// Where it has ended.
    pub fn add(&self, pid: u32) {
        write(&self.folder.join("cgroup.procs"), &pid.to_string());
    }

    /// Has a process belong to the group above instead.
    ///
    /// # Panics
    /// Where it has ended.
    pub fn leave(&self, pid: u32) {
        write(&self.folder.join("../cgroup.procs"), &pid.to_string());
    }

    /// What its programs may have in memory and in swap, in MiB; `None` for no limit.
    ///
    /// # Panics
    /// Where the kernel cannot make room.
    pub fn limit_mib(&self, memory: Option<u64>, swap: Option<u64>) {
        let bytes = |mib: u64| (mib << 20).to_string();
        if self.is_v1 {
            // Swap is limited together with memory, and both not below memory.
            self.set("memory.memsw.limit_in_bytes", "-1");
            self.set("memory.limit_in_bytes", &memory.map_or("-1".into(), bytes));
            if let (Some(memory), Some(swap)) = (memory, swap) {
                self.set("memory.memsw.limit_in_bytes", &bytes(memory + swap));
            }
        } else {
            self.set("memory.swap.max", &swap.map_or("max".into(), bytes));
            self.set("memory.max", &memory.map_or("max".into(), bytes));
        }
    }

    /// How often its limit of memory was hit.
    ///
    /// # Panics
    /// Where the kernel does not say.
    pub fn limit_hits(&self) -> u64 {
        let name = if self.is_v1 { "memory.failcnt" } else { "memory.events" };
        let text = fs::read_to_string(self.folder.join(name)).expect("readable");
        let mut lines = text.lines();
        let line =
            lines.find_map(|line| if self.is_v1 { Some(line) } else { line.strip_prefix("max ") });
        line.and_then(|number| number.trim().parse().ok()).expect("a number")
    }

    fn set(&self, name: &str, value: &str) {
        write(&self.folder.join(name), value);
    }
}

fn write(path: &Path, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("{value} > {}: {error}", path.display()));
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Programs that were killed are gone in a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
