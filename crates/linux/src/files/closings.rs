//! Closings of files, as the kernel tells them for whole file systems.
//!
//! Source: fanotify(7), fanotify_mark(2), `/proc/PID/mountinfo` in proc(5).

use super::{File, regular};
use crate::{LinuxError, Root};
use nix::errno::Errno;
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File systems on disks that have no device of their own: their parts share one, or they lie on others.
/// Those on a network and those of other programs are not among them: opening a file there may take
/// for ever.
const WITHOUT_DEVICE: [&str; 4] = ["bcachefs", "btrfs", "overlay", "zfs"];

/// The closings of files on the file systems that are watched, by whoever.
#[derive(Debug)]
pub struct Closings {
    group: Fanotify,
    /// Devices of file systems that are watched, or cannot be.
    seen: BTreeSet<(u32, u32)>,
    lost: u64,
}

/// Somebody has closed a file. Others may hold it open.
#[derive(Debug)]
pub struct Closing(FanotifyEvent);

impl Closing {
    /// Who did.
    pub fn pid(&self) -> u32 {
        self.0.pid().unsigned_abs()
    }

    /// The file; `None` for what is none, such as a folder or a device.
    pub fn file(&self) -> Option<File> {
        let fd: BorrowedFd<'_> = self.0.fd()?;
        let (id, bytes) = regular(fd, Path::new(""))?;
        // Of this thread, which may have files of its own.
        let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
        let path = rustix::fs::readlink(path, Vec::new()).ok()?;
        Some(File { id, path: OsStr::from_bytes(path.as_bytes()).into(), bytes })
    }
}

impl Closings {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] without the right (`CAP_SYS_ADMIN`), or without fanotify.
    pub fn new() -> Result<Self, LinuxError> {
        let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let files = EventFFlags::O_RDONLY
            | EventFFlags::O_LARGEFILE
            | EventFFlags::O_CLOEXEC
            | EventFFlags::O_NOATIME;
        let group = Fanotify::init(flags, files).map_err(|errno| {
            let hint = match errno {
                Errno::EPERM => "run as root",
                Errno::ENOSYS => "use a kernel with CONFIG_FANOTIFY",
                _ => "see `sysctl fs.fanotify`",
            };
            let what = format!("closed files cannot be followed: fanotify_init: {}", errno.desc());
            LinuxError::Unsupported { what, hint: hint.into() }
        })?;
        Ok(Self { group, seen: BTreeSet::new(), lost: 0 })
    }

    /// Watches all file systems on disks that a process sees, in addition to others. That it has ended is
    /// no error, nor that the kernel cannot watch one of them.
    pub fn watch(&mut self, root: &Root, pid: u32) {
        let Ok(text) = root.read(format!("/proc/{pid}/mountinfo")) else { return };
        for mount in text.lines().filter_map(Mount::parse) {
            if !mount.is_on_disk() || !self.seen.insert(mount.device) {
                continue;
            }
            let below = mount.point.strip_prefix("/").unwrap_or(&mount.point);
            let path = root.path(format!("/proc/{pid}/root")).join(below);
            let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
            // Another mount of the same file system may do.
            if self.group.mark(flags, MaskFlags::FAN_CLOSE, rustix::fs::CWD, Some(&path)).is_err() {
                self.seen.remove(&mount.device);
            }
        }
    }

    /// File systems that are watched.
    pub fn file_systems(&self) -> usize {
        self.seen.len()
    }

    /// Closings that the kernel had no room for, in bursts: each counts once.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Hands over closings since the last time, until `sink` answers false: the rest waits.
    ///
    /// # Errors
    /// Where the kernel tells no more.
    pub fn poll(&mut self, mut sink: impl FnMut(Closing) -> bool) -> Result<(), LinuxError> {
        loop {
            let events = match self.group.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(()),
                // A file that cannot be opened for us, such as one of a server that is gone.
                Err(Errno::EINTR | Errno::EPERM | Errno::EACCES | Errno::ENXIO | Errno::ESTALE) => {
                    continue;
                }
                Err(errno) => return Err(LinuxError::call("read of fanotify", 0, errno as i32)),
            };
            let mut wants_more = true;
            for event in events {
                match event.mask().contains(MaskFlags::FAN_Q_OVERFLOW) {
                    true => self.lost += 1,
                    false => wants_more &= sink(Closing(event)),
                }
            }
            if !wants_more {
                return Ok(());
            }
        }
    }
}

/// A line of `/proc/PID/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: (u32, u32),
    point: PathBuf,
    kind: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (place, rest) = line.split_once(" - ")?;
        let mut words = place.split(' ').skip(2);
        let (major, minor) = words.next()?.split_once(':')?;
        let point = words.nth(1)?.replace("\\040", " ").replace("\\134", "\\");
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(Self { device, point: point.into(), kind: rest.split(' ').next()?.into() })
    }

    fn is_on_disk(&self) -> bool {
        self.device.0 != 0 || WITHOUT_DEVICE.contains(&&*self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_on_disks_are_told_from_others() {
        let text = "\
23 28 0:22 / /proc rw,nosuid - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 28 0:40 /sub /data\\040one rw shared:2 master:3 - btrfs /dev/sda rw
33 28 0:50 / /run rw - tmpfs tmpfs rw
35 28 0:61 / /far rw - nfs4 server:/far rw
36 28 0:62 / /own rw - fuse.sshfs x rw
nonsense
1 2 x:1 / / rw - ext4 a rw
";
        let mounts: Vec<Mount> = text.lines().filter_map(Mount::parse).collect();
        let on_disk = mounts.iter().filter(|mount| mount.is_on_disk());
        let on_disk: Vec<_> = on_disk.map(|mount| (mount.device, &*mount.point)).collect();
        assert_eq!(mounts.len(), 6);
        assert_eq!(on_disk, [((254, 0), Path::new("/")), ((0, 40), Path::new("/data one"))]);
    }
}
