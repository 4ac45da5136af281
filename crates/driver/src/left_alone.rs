//! Processes that are never managed: the system depends on them, or they do the managing.

use frostline_linux::process::{self, Stat};
use frostline_linux::{LinuxError, Root};
use std::fmt;
use std::time::Duration;

/// Longest time from the return of a fork to the end of the child's exec that is waited for. A parent
/// that forked by `CLONE_VFORK` goes on a moment before the child is seen to have its own program.
const EXEC_WAIT: Duration = Duration::from_millis(100);
/// Name of our program's file.
const PROGRAM: &str = "frostline";
/// What the kernel adds to the name of a file that is gone, as that of a program which was replaced.
const DELETED: &str = " (deleted)";

/// Why a process is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// It is this one.
    Own,
    /// The system, or the container, ends with it.
    Init,
    /// It is a thread of the kernel's and has no memory of its own.
    Kernel,
    /// It is a frostline.
    Frostline,
    /// A frostline has started it, and sees to it.
    OfFrostline,
}

impl LeftAlone {
    /// Why the process `pid` is left alone; `None` where it may be managed, or has ended.
    pub fn of(root: &Root, pid: u32) -> Option<Self> {
        let stat = process::stat(root, pid).ok()?;
        let of_frostline = || is_ours(root, stat.parent).then_some(Self::OfFrostline);
        Self::itself(root, pid, &stat).or_else(of_frostline)
    }

    /// As [`Self::of`], where a user names the process: who started it does not matter then. A child
    /// of a frostline that has yet to execute its program is waited for, 100 ms at most.
    ///
    /// # Errors
    /// [`LinuxError::Gone`] where there is none.
    pub fn when_named(root: &Root, pid: u32) -> Result<Option<Self>, LinuxError> {
        let pause = Duration::from_millis(1);
        let mut left = EXEC_WAIT;
        loop {
            let stat = process::stat(root, pid)?;
            let why = Self::itself(root, pid, &stat);
            if why != Some(Self::Frostline) || stat.has_executed || left.is_zero() {
                return Ok(why);
            }
            std::thread::sleep(pause);
            left = left.saturating_sub(pause);
        }
    }

    fn itself(root: &Root, pid: u32, stat: &Stat) -> Option<Self> {
        match pid {
            1 => Some(Self::Init),
            _ if pid == std::process::id() => Some(Self::Own),
            _ if stat.is_kernel => Some(Self::Kernel),
            _ => is_ours(root, pid).then_some(Self::Frostline),
        }
    }
}

/// Whether a process is this one, or another frostline.
fn is_ours(root: &Root, pid: u32) -> bool {
    let program = std::fs::read_link(root.path(format!("/proc/{pid}/exe")));
    let name = program.ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let is_program = |name: String| name.strip_suffix(DELETED).unwrap_or(&name) == PROGRAM;
    pid == std::process::id() || name.is_some_and(is_program)
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "it is this frostline itself",
            Self::Init => "the system ends with it",
            Self::Kernel => "it is a thread of the kernel",
            Self::Frostline => "it is a frostline",
            Self::OfFrostline => "a frostline has started it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;
    use crate::owner::Owner;
    use frostline_linux::groups::GroupName;
    use std::fs;
    use std::os::unix::fs::symlink;

    const KERNEL_FLAGS: u64 = 2_129_984;

    /// A system with a shell (10) from which frostlines (11, 12, this process) and programs were started.
    fn system() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let own = std::process::id();
        for (pid, parent, flags, program) in [
            (1, 0, 0, "/sbin/init"),
            (2, 0, KERNEL_FLAGS, ""),
            (3, 2, KERNEL_FLAGS, ""),
            (10, 1, 0, "/bin/bash"),
            (11, 10, 0, "/usr/bin/frostline"),
            (12, 10, 0, "/opt/frostline (deleted)"),
            (13, 11, 0, "/bin/redis-server"),
            (14, 13, 0, "/bin/sh"),
            (15, 10, 0, "/bin/frostline-load"),
            (16, 15, 0, "/bin/redis-server"),
            (17, own, 0, "/bin/helper"),
            (own, 10, 0, "/bin/other-name"),
        ] {
            let place = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&place).unwrap();
            let stat = format!("{pid} (x) S {parent} 1 1 0 -1 {flags} {}", "0 ".repeat(40));
            fs::write(place.join("stat"), stat).unwrap();
            fs::write(place.join("comm"), "same\n").unwrap();
            if !program.is_empty() {
                symlink(program, place.join("exe")).unwrap();
            }
        }
        let group = folder.path().join("sys/fs/cgroup/g");
        fs::create_dir_all(&group).unwrap();
        let all = [1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, own].map(|pid| format!("{pid}\n"));
        fs::write(group.join("cgroup.procs"), all.concat()).unwrap();
        let mount = "23 31 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        fs::create_dir_all(folder.path().join("proc/self")).unwrap();
        fs::write(folder.path().join("proc/self/mountinfo"), mount).unwrap();
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn no_selection_holds_frostline_nor_what_the_system_depends_on() {
        let (_folder, root) = system();
        let pids = |who: Selection| who.pids(&root).unwrap().into_iter().collect::<Vec<_>>();
        let group = GroupName::parse("g").unwrap();
        // What a frostline has started is in the same group; what that has started is not known as such.
        assert_eq!(pids(Selection::Cgroup(group)), [10, 14, 15, 16]);
        let command =
            |tree| pids(Selection::Command { name: "same".into(), owner: Owner::Anybody, tree });
        assert_eq!(command(false), [10, 14, 15, 16]);
        assert_eq!(command(true), [10, 14, 15, 16]);
        assert_eq!(pids(Selection::Process { pid: 10, tree: true }), [10, 15, 16]);
        assert_eq!(pids(Selection::Process { pid: 13, tree: true }), [13, 14], "it is named");
    }

    #[test]
    fn a_child_that_has_yet_to_execute_is_waited_for() {
        let (folder, root) = system();
        let place = folder.path().join("proc/11");
        let stat = |flags: u64| format!("11 (x) S 10 1 1 0 -1 {flags} {}", "0 ".repeat(40));
        fs::write(place.join("stat"), stat(0x40)).unwrap();
        assert_eq!(LeftAlone::when_named(&root, 11).unwrap(), Some(LeftAlone::Frostline));
        let executes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            symlink("/bin/redis-server", place.join("new")).unwrap();
            fs::rename(place.join("new"), place.join("exe")).unwrap();
        });
        // The process keeps its mark until it has another program, so that no order of reads is wrong.
        assert_eq!(LeftAlone::when_named(&root, 11).unwrap(), None);
        executes.join().unwrap();
    }

    #[test]
    fn each_is_left_alone_for_a_reason() {
        let (_folder, root) = system();
        let why = |pid| LeftAlone::of(&root, pid);
        assert_eq!(why(1), Some(LeftAlone::Init));
        assert_eq!([2, 3].map(why), [Some(LeftAlone::Kernel); 2]);
        assert_eq!([11, 12].map(why), [Some(LeftAlone::Frostline); 2]);
        assert_eq!([13, 17].map(why), [Some(LeftAlone::OfFrostline); 2]);
        assert_eq!(why(std::process::id()), Some(LeftAlone::Own));
        assert_eq!([10, 14, 15, 16, 99].map(why), [None; 5]);
        assert_eq!(LeftAlone::when_named(&root, 13).unwrap(), None);
        assert_eq!(LeftAlone::when_named(&root, 12).unwrap(), Some(LeftAlone::Frostline));
        assert!(LeftAlone::when_named(&root, 99).unwrap_err().is_gone());
    }
}
