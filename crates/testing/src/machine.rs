//! A machine's rights and kernel, as the kernel itself tells them.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Numbers of capabilities (capabilities(7), `include/uapi/linux/capability.h`).
const NET_ADMIN: u32 = 12;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
/// The first kernel that moves pages within a process (`UFFDIO_MOVE`).
const MOVES_PAGES: (u32, u32) = (6, 8);

/// The machine whose files lie below a root, as this process is allowed to use it.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The one that this runs on.
    pub fn this() -> Self {
        Self { root: "/".into() }
    }

    /// Whether swap on zram devices may be set up.
    ///
    /// # Errors
    /// What is missing.
    pub fn zram(&self) -> Result<(), String> {
        let hot_add = "sys/class/zram-control/hot_add";
        let metadata = fs::metadata(self.root.join(hot_add))
            .map_err(|error| format!("/{hot_add}: {error} (modprobe zram)"))?;
        if metadata.permissions().mode() & 0o400 == 0 {
            return Err(format!("/{hot_add} makes no devices"));
        }
        if !self.root.join("proc/swaps").exists() {
            return Err("this kernel has no swap".into());
        }
        if self.text("proc/self/mounts").lines().any(is_read_only_sysfs) {
            return Err("/sys is mounted for reading only".into());
        }
        if self.status("Uid", 1, 10) != Some(0) {
            return Err("zram devices are the superuser's".into());
        }
        self.has(SYS_ADMIN).then_some(()).ok_or_else(|| "swapon takes CAP_SYS_ADMIN".into())
    }

    /// Whether faults may be handed over, those of system calls included, and pages moved.
    ///
    /// # Errors
    /// What is missing.
    pub fn userfaultfd(&self) -> Result<(), String> {
        let release = self.text("proc/sys/kernel/osrelease");
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        if (next(), next()) < MOVES_PAGES {
            return Err(format!("Linux {} does not move pages within a process", release.trim()));
        }
        let setting = "proc/sys/vm/unprivileged_userfaultfd";
        if !self.root.join(setting).exists() {
            return Err("this kernel has no userfaultfd".into());
        }
        let device = self.root.join("dev/userfaultfd");
        let opens = || File::options().read(true).write(true).open(device).is_ok();
        let may = self.text(setting).trim() == "1" || self.has(SYS_PTRACE) || opens();
        may.then_some(()).ok_or_else(|| "userfaultfd takes CAP_SYS_PTRACE".into())
    }

    /// Whether frames of pages may be seen.
    ///
    /// # Errors
    /// What is missing.
    pub fn frames(&self) -> Result<(), String> {
        self.has(SYS_ADMIN).then_some(()).ok_or_else(|| "frames take CAP_SYS_ADMIN".into())
    }

    /// Whether delays of processes are counted, and told.
    ///
    /// # Errors
    /// What is missing.
    pub fn delays(&self) -> Result<(), String> {
        let setting = "proc/sys/kernel/task_delayacct";
        if !self.root.join(setting).exists() {
            return Err(format!("there is no /{setting} in this kernel"));
        }
        self.has(NET_ADMIN).then_some(()).ok_or_else(|| "delays take CAP_NET_ADMIN".into())
    }

    fn has(&self, capability: u32) -> bool {
        self.status("CapEff", 0, 16).is_some_and(|all| all >> capability & 1 == 1)
    }

    /// A number of `/proc/self/status`.
    fn status(&self, name: &str, word: usize, radix: u32) -> Option<u64> {
        let text = self.text("proc/self/status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        u64::from_str_radix(line.split_ascii_whitespace().nth(word)?, radix).ok()
    }

    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

/// Whether a line of `/proc/self/mounts` tells of that.
fn is_read_only_sysfs(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(&*words, [_, "/sys", "sysfs", options, ..] if options.split(',').any(|o| o == "ro"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";

    /// A machine with everything, but for one file that is another one.
    fn machine(changed: &str, text: Option<&str>) -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, usual) in [
            ("sys/class/zram-control/hot_add", "0"),
            ("proc/swaps", "Filename\n"),
            ("proc/self/mounts", "sysfs /sys sysfs rw,nosuid 0 0\n"),
            ("proc/self/status", ALL),
            ("proc/sys/kernel/osrelease", "6.8.0-x\n"),
            ("proc/sys/vm/unprivileged_userfaultfd", "0\n"),
            ("proc/sys/kernel/task_delayacct", "0\n"),
        ] {
            let Some(text) = (if path == changed { text } else { Some(usual) }) else { continue };
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("room");
            fs::write(path, text).expect("room");
        }
        let root = folder.path().into();
        (folder, Machine { root })
    }

    #[test]
    fn a_machine_with_everything_skips_nothing() {
        let (_folder, machine) = machine("", None);
        assert_eq!(
            (machine.zram(), machine.userfaultfd(), machine.frames(), machine.delays()),
            (Ok(()), Ok(()), Ok(()), Ok(()))
        );
    }

    #[test]
    fn what_zram_lacks_is_named() {
        let user = "Uid:\t1\t1\t1\t1\nCapEff:\t0\n";
        let contained = "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n";
        for (path, text, why) in [
            ("sys/class/zram-control/hot_add", None, "modprobe"),
            ("proc/swaps", None, "no swap"),
            ("proc/self/mounts", Some("sysfs /sys sysfs ro 0 0\n"), "reading only"),
            ("proc/self/status", Some(user), "superuser"),
            ("proc/self/status", Some(contained), "CAP_SYS_ADMIN"),
        ] {
            let (_folder, machine) = machine(path, text);
            let lacks = machine.zram().expect_err(why);
            assert!(lacks.contains(why), "{lacks}");
        }
    }

    #[test]
    fn what_delays_lack_is_named() {
        let user = "Uid:\t1\t1\t1\t1\nCapEff:\t0\n";
        for (path, text, why) in [
            ("proc/sys/kernel/task_delayacct", None, "no /proc/sys"),
            ("proc/self/status", Some(user), "CAP_NET_ADMIN"),
        ] {
            let (_folder, machine) = machine(path, text);
            let lacks = machine.delays().expect_err(why);
            assert!(lacks.contains(why), "{lacks}");
        }
    }

    #[test]
    fn what_userfaultfd_lacks_is_named() {
        for (path, text, why) in [
            ("proc/sys/kernel/osrelease", Some("6.7.12\n"), "6.7.12"),
            ("proc/sys/vm/unprivileged_userfaultfd", None, "no userfaultfd"),
            ("proc/self/status", Some("Uid:\t1\nCapEff:\t0\n"), "CAP_SYS_PTRACE"),
        ] {
            let (_folder, machine) = machine(path, text);
            let lacks = machine.userfaultfd().expect_err(why);
            assert!(lacks.contains(why), "{lacks}");
        }
        let (_folder, machine) = machine("proc/sys/vm/unprivileged_userfaultfd", Some("1\n"));
        assert_eq!(machine.userfaultfd(), Ok(()));
    }
}
