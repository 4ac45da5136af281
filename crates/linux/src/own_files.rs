//! Frostline's own files below `/run/frostline`: read by everybody, written by their owner alone, and
//! locked by nobody else.
//!
//! Whoever can open a file can lock it, flock(2), for reading, too. Locks therefore lie in a folder that
//! nobody else can enter.

pub mod outputs;

use crate::error::LinuxError;
use crate::root::Root;
use rustix::fs::{
    FlockOperation, Mode, OFlags, Stat, fchmod, flock, fstat, major, minor, mkdir, open, openat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where they are.
pub const FOLDER: &str = "/run/frostline";
const LOCKS: &str = "/run/frostline/locks";
/// How long a lock is waited for: taking down a large swap device needs a while.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two attempts to take it.
const LOOK: Duration = Duration::from_millis(5);
/// Others may list the folder and read its files.
const READABLE: Mode = Mode::from_raw_mode(0o755);
/// Nobody else may enter it.
const PRIVATE: Mode = Mode::from_raw_mode(0o700);

/// The folder `path`, which is [`FOLDER`] or one right below it; both are made where they are missing.
///
/// # Errors
/// [`LinuxError::Unsupported`] where others can write to it; without the right to make it.
pub fn folder(root: &Root, path: &str) -> Result<PathBuf, LinuxError> {
    let whole = root.path(path);
    own_folder(&root.path(FOLDER), READABLE)?;
    if path != FOLDER {
        own_folder(&whole, READABLE)?;
    }
    Ok(whole)
}

/// How a file of ours is opened to be written, made where it is missing: nobody else may write to it, whatever
/// the process's mask.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).mode(0o644);
    options
}

/// Replaces a file of ours in one step: others see the old contents or the new ones.
///
/// # Errors
/// Where it cannot be written.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    options().write(true).truncate(true).open(&next)?.write_all(contents)?;
    fs::rename(&next, path)
}

/// A lock that is held until this is dropped, or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: OwnedFd,
}

impl Lock {
    /// Takes the lock `name`, at most [`TIMEOUT`] after it was asked for.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`], which names who holds it, where it was not free in all that time;
    /// without the right to take it.
    pub fn take(root: &Root, name: &str) -> Result<Self, LinuxError> {
        Self::take_within(root, name, TIMEOUT)
    }

    /// As [`Self::take`], with another time to wait.
    ///
    /// # Errors
    /// The same.
    pub fn take_within(root: &Root, name: &str, patience: Duration) -> Result<Self, LinuxError> {
        let path = root.path(LOCKS).join(name);
        let failed = |errno: Errno| LinuxError::io("lock", &path, &errno.into());
        let until = Instant::now() + patience;
        loop {
            own_folder(&root.path(FOLDER), READABLE)?;
            let locks = own_folder(&root.path(LOCKS), PRIVATE)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = match openat(&locks, name, flags, mode) {
                // The folder was removed after it was opened.
                Err(Errno::NOENT) if Instant::now() < until => continue,
                other => other.map_err(failed)?,
            };
            let stat = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Read again: a file that was removed meanwhile locks nobody out.
                Ok(()) if fstat(&file).map_err(failed)?.st_nlink > 0 => {
                    return Ok(Self { _file: file });
                }
                Ok(()) | Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => fstat(&file).map_err(failed)?,
                Err(errno) => return Err(failed(errno)),
            };
            if Instant::now() >= until {
                return Err(held(root, &path, &stat, patience));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Opens a folder, made where it is missing, that has at most the rights `mode`.
fn own_folder(path: &Path, mode: Mode) -> Result<OwnedFd, LinuxError> {
    let failed = |errno: Errno| LinuxError::io("make", path, &errno.into());
    let make = || mkdir(path, mode);
    let made = match make() {
        Err(Errno::NOENT) => {
            let parent = path.parent().unwrap_or(path);
            fs::create_dir_all(parent).map_err(|error| LinuxError::io("make", parent, &error))?;
            make()
        }
        other => other,
    };
    let is_new = match made {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(failed(errno)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match open(path, flags, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(not_ours(path, "is no folder")),
        other => other.map_err(failed)?,
    };
    let stat = fstat(&folder).map_err(failed)?;
    let own = geteuid();
    if stat.st_uid != own.as_raw() && stat.st_uid != 0 {
        return Err(not_ours(path, &format!("belongs to user {}", stat.st_uid)));
    }
    if is_new && stat.st_uid == own.as_raw() {
        // Whatever the process's mask.
        fchmod(&folder, mode).map_err(failed)?;
    } else if !mode.contains(Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o777)) {
        return Err(not_ours(path, "can be changed by other users"));
    }
    Ok(folder)
}

fn not_ours(path: &Path, why: &str) -> LinuxError {
    LinuxError::Unsupported {
        what: format!("{} {why}", path.display()),
        hint: format!("when no frostline runs, remove it: rm -r {}", path.display()),
    }
}

fn held(root: &Root, path: &Path, stat: &Stat, patience: Duration) -> LinuxError {
    let (who, hint) = match holder(root, stat) {
        Some(pid) => (
            format!("process {pid}"),
            format!("see what process {pid} is doing; if it hangs, end it: kill {pid}"),
        ),
        None => ("another process".into(), format!("fuser {} tells which one", path.display())),
    };
    LinuxError::Unsupported {
        what: format!("{} has been locked by {who} for {} s", path.display(), patience.as_secs()),
        hint,
    }
}

/// Who has locked a file (proc_locks(5)).
fn holder(root: &Root, stat: &Stat) -> Option<u32> {
    let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
    let file = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    root.read("/proc/locks").ok()?.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // A line of somebody who waits has an arrow in the second place.
        let [_, "FLOCK", _, _, pid, id, ..] = words[..] else { return None };
        if id == file { pid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use frostline_testing::{Requirement, skip};
    use std::os::unix::fs::PermissionsExt;

    const SOON: Duration = Duration::from_millis(30);

    fn mode(tree: &Tree, path: &str) -> u32 {
        let metadata = fs::metadata(tree.root().path(path)).expect("it is there");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn locks_cannot_be_opened_by_others() {
        let tree = Tree::new();
        let _lock = Lock::take(tree.root(), "x").expect("it is free");
        assert_eq!(mode(&tree, FOLDER), 0o755);
        assert_eq!(mode(&tree, LOCKS), 0o700);
        assert_eq!(mode(&tree, "/run/frostline/locks/x"), 0o600);
    }

    #[test]
    fn files_are_written_by_us_alone_whatever_the_mask() {
        let _forks = frostline_testing::forks();
        let tree = Tree::new();
        let path = folder(tree.root(), FOLDER).expect("made").join("x.json");
        // The mask is the whole process's.
        let pid = crate::in_forked_child(|| {
            rustix::process::umask(Mode::empty());
            let made = folder(tree.root(), "/run/frostline/y").is_ok();
            u8::from(!made || replace(&path, b"text").is_err())
        });
        let pid = rustix::process::Pid::from_raw(pid.expect("another process") as i32);
        let ended = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
        let (_, status) = ended.expect("ours").expect("it has ended");
        assert_eq!(status.exit_status(), Some(0));
        assert_eq!(mode(&tree, "/run/frostline/x.json"), 0o644);
        assert_eq!(mode(&tree, "/run/frostline/y"), 0o755);
        assert_eq!(fs::read(&path).expect("readable"), b"text");
        assert!(!path.with_extension("next").exists());
    }

    #[test]
    fn a_lock_is_waited_for_and_its_holder_named() {
        let tree = Tree::new();
        let lock = Lock::take(tree.root(), "x").expect("it is free");
        Lock::take(tree.root(), "y").expect("another one");
        tree.file("proc/locks", fs::read("/proc/locks").expect("readable"));
        let error = Lock::take_within(tree.root(), "x", SOON).expect_err("it is held").to_string();
        let own = std::process::id();
        assert!(error.contains(&format!("locked by process {own} for")), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
        let root = tree.root().clone();
        let waits = std::thread::spawn(move || Lock::take(&root, "x").map(drop));
        std::thread::sleep(SOON);
        assert!(!waits.is_finished());
        drop(lock);
        waits.join().expect("no panic").expect("it is free by then");
    }

    #[test]
    fn a_lock_whose_file_is_removed_keeps_nobody_waiting() {
        let tree = Tree::new();
        let _gone = Lock::take(tree.root(), "x").expect("it is free");
        fs::remove_dir_all(tree.root().path(FOLDER)).expect("removed");
        let _lock = Lock::take(tree.root(), "x").expect("a new file");
        Lock::take_within(tree.root(), "x", SOON).expect_err("held, by the new file");
    }

    #[test]
    fn one_at_a_time_has_it_while_files_are_removed() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let tree = Tree::new();
        let inside = AtomicU32::new(0);
        let path = tree.root().path(LOCKS).join("x");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let lock = Lock::take(tree.root(), "x").expect("free in a moment");
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        // The last thing its holder does: those who wait must notice.
                        fs::remove_file(&path).expect("ours");
                        drop(lock);
                    }
                });
            }
        });
    }

    #[test]
    fn folders_that_others_can_write_are_refused() {
        let refused = |path: &str, mode: u32| {
            let tree = Tree::new();
            drop(Lock::take(tree.root(), "x").expect("free"));
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(tree.root().path(path), mode).expect("ours");
            let error = Lock::take(tree.root(), "x").expect_err("others can get at it").to_string();
            assert!(error.contains("other users\nhint: "), "{error}");
            folder(tree.root(), "/run/frostline/x").is_err()
        };
        assert!(refused(FOLDER, 0o777));
        assert!(refused(FOLDER, 0o775));
        assert!(!refused(LOCKS, 0o755), "what is not locked lies elsewhere");
        let tree = Tree::new();
        tree.file("elsewhere/x", "");
        tree.file("run/x", "");
        let link = tree.root().path(FOLDER);
        std::os::unix::fs::symlink(tree.root().path("elsewhere"), link).expect("a link");
        let error = folder(tree.root(), FOLDER).expect_err("a link").to_string();
        assert!(error.contains("is no folder"), "{error}");
    }

    #[test]
    fn folders_of_other_users_are_refused() {
        if !geteuid().is_root() {
            return skip(Requirement::Root, "only root can give folders to others");
        }
        let tree = Tree::new();
        drop(Lock::take(tree.root(), "x").expect("free"));
        std::os::unix::fs::chown(tree.root().path(FOLDER), Some(1), None).expect("we are root");
        let error = Lock::take(tree.root(), "x").expect_err("not ours").to_string();
        assert!(error.contains("belongs to user 1\nhint: "), "{error}");
    }
}
