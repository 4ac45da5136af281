//! Frostlines that run here, and what each of them manages.
//!
//! Every driver keeps a file with its [`Status`] in `/run/frostline/instances`, replaced as a whole
//! about once a second; a process may have several. A file whose writer has ended counts for nothing and is removed by the
//! next one to look. Without the right to write there, a frostline runs unseen.

use crate::error::DriverError;
use crate::status::Status;
use crate::wishes;
use crate::written::Written;
use frostline_daemon::Limit;
use frostline_linux::own_files::{self, Lock};
use frostline_linux::process::Identity;
use frostline_linux::{LinuxError, Root};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places taken by this process so far.
static TAKEN: AtomicU32 = AtomicU32::new(0);

const FOLDER: &str = "/run/frostline/instances";

/// This process's place among those that run.
#[derive(Debug)]
pub struct Instance {
    root: Root,
    file: PathBuf,
    key: String,
}

impl Instance {
    /// Takes a place and writes `status` there, unless one of its targets is already managed.
    ///
    /// # Errors
    /// [`DriverError::Managed`] where that is so; where the folder cannot be written.
    pub fn claim(root: &Root, status: &Status) -> Result<Self, DriverError> {
        let folder = own_files::folder(root, FOLDER)?;
        let _lock = Lock::take(root, "instances")?;
        check_free(root, status.targets.iter().map(|target| target.pid))?;
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        let file = folder.join(format!("{}-{number}.json", status.pid));
        let instance = Self { root: root.clone(), file, key: status.key() };
        instance.publish(status)?;
        Ok(instance)
    }

    /// Replaces what others see.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn publish(&self, status: &Status) -> Result<(), DriverError> {
        let failed = |error: std::io::Error| LinuxError::io("write", &self.file, &error);
        let text = serde_json::to_vec(status).map_err(|error| failed(error.into()))?;
        Ok(own_files::replace(&self.file, &text).map_err(failed)?)
    }

    /// How much memory shall be fast, where somebody wishes for something else than it was begun with.
    pub fn wish(&self) -> Option<Written<Limit>> {
        wishes::of(&self.root, &self.key)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whoever looks next removes it otherwise.
        let _ = fs::remove_file(&self.file);
        let _ = wishes::clear(&self.root, &self.key);
    }
}

/// Removes what process `pid` has left there, for a program that has no place itself: one that the
/// process has executed keeps its number and its start.
pub fn forget(root: &Root, pid: u32) {
    for name in root.list(FOLDER).unwrap_or_default() {
        if name.split('-').next().is_some_and(|number| number.parse() == Ok(pid)) {
            let _ = fs::remove_file(root.path(format!("{FOLDER}/{name}")));
        }
    }
}

/// Whether nobody manages any of these processes. Who wants to [claims](Instance::claim) them, too: somebody else
/// may be faster.
///
/// # Errors
/// [`DriverError::Managed`] where somebody does; where the folder cannot be read.
pub fn check_free(root: &Root, pids: impl IntoIterator<Item = u32>) -> Result<(), DriverError> {
    let others = list(root)?;
    for pid in pids {
        let manages = |other: &&Status| other.targets.iter().any(|target| target.pid == pid);
        if let Some(other) = others.iter().find(manages) {
            return Err(DriverError::Managed { pid, owner: other.pid });
        }
    }
    Ok(())
}

/// All that run, by number of their process and by name.
///
/// # Errors
/// Where the folder exists and cannot be read.
pub fn list(root: &Root) -> Result<Vec<Status>, LinuxError> {
    let mut found = Vec::new();
    for name in root.list(FOLDER)? {
        let path = format!("{FOLDER}/{name}");
        if let Some(writer) = name.strip_suffix(".next") {
            // Being written, or left by one that was killed while it wrote.
            let pid = writer.split('-').next().unwrap_or_default();
            if !root.path(format!("/proc/{pid}/stat")).exists() {
                let _ = fs::remove_file(root.path(&path));
            }
            continue;
        }
        let Some(text) = root.read_optional(&path)? else { continue };
        // One of another version, or cut off by a full disk, tells nothing.
        let Ok(status) = serde_json::from_str::<Status>(&text) else { continue };
        if !status.can_be() {
            continue;
        }
        let writer = Identity { pid: status.pid, start_ticks: status.start_ticks };
        if writer.is_alive(root) {
            found.push(status);
        } else {
            let _ = fs::remove_file(root.path(&path));
            let _ = wishes::clear(root, &status.key());
        }
    }
    found.sort_by(|a, b| (a.pid, &a.name).cmp(&(b.pid, &b.name)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::TargetStatus;

    fn status(pid: u32, start_ticks: u64, target: u32) -> Status {
        let target = TargetStatus { pid: target, ..TargetStatus::default() };
        Status { pid, start_ticks, targets: vec![target], ..Status::default() }
    }

    /// A tree in which the processes 7 and 8 run since the tick 1000.
    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for pid in [7, 8] {
            let folder = dir.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            let zeros = "0 ".repeat(30);
            let stat = format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1000 {zeros}");
            fs::write(folder.join("stat"), stat).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn a_target_is_managed_once() {
        let (_dir, root) = tree();
        let first = Instance::claim(&root, &status(7, 1000, 42)).unwrap();
        let refused = Instance::claim(&root, &status(8, 1000, 42));
        assert!(matches!(refused, Err(DriverError::Managed { pid: 42, owner: 7 })), "{refused:?}");
        let _other = Instance::claim(&root, &status(8, 1000, 43)).unwrap();
        let again = Instance::claim(&root, &status(7, 1000, 42));
        assert!(again.is_err(), "not by the same process either");
        let _third = Instance::claim(&root, &status(7, 1000, 44)).unwrap();
        assert_eq!(list(&root).unwrap().len(), 3);
        drop(first);
        let left: Vec<u32> = list(&root).unwrap().iter().map(|s| s.targets[0].pid).collect();
        assert_eq!(left, [44, 43]);
    }

    #[test]
    fn nobody_else_can_keep_a_place_from_being_taken() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, root) = tree();
        let _first = Instance::claim(&root, &status(7, 1000, 42)).unwrap();
        // Others have read everything that they may, and locked it.
        let mut locked = Vec::new();
        for folder in ["run/frostline", "run/frostline/instances"] {
            for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() && path.metadata().unwrap().permissions().mode() & 0o4 != 0 {
                    let file = fs::File::open(&path).unwrap();
                    file.try_lock().unwrap();
                    locked.push(file);
                }
            }
        }
        assert!(!locked.is_empty(), "what it publishes can be read");
        let (done, ended) = std::sync::mpsc::channel();
        let claimed = root.clone();
        std::thread::spawn(move || done.send(Instance::claim(&claimed, &status(8, 1000, 43))));
        let result = ended.recv_timeout(std::time::Duration::from_secs(10));
        result.expect("it does not wait for others").unwrap();
    }

    #[test]
    fn those_that_were_killed_are_forgotten() {
        let (_dir, root) = tree();
        // The number 7 belongs to another process by now.
        std::mem::forget(Instance::claim(&root, &status(7, 999, 42)).unwrap());
        assert!(list(&root).unwrap().is_empty());
        Instance::claim(&root, &status(8, 1000, 42)).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        let (dir, root) = tree();
        let folder = dir.path().join("run/frostline/instances");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("9.json"), "{\"pid\":").unwrap();
        let writing = [folder.join("7.next"), folder.join("9.next")];
        let mut absurd = status(8, 1000, 42);
        absurd.accounts.refaults = u64::MAX;
        fs::write(folder.join("8.json"), serde_json::to_vec(&absurd).unwrap()).unwrap();
        let text = serde_json::to_vec(&status(7, 1000, 42)).unwrap();
        writing.iter().for_each(|path| fs::write(path, &text).unwrap());
        assert!(list(&root).unwrap().is_empty());
        assert_eq!(writing.map(|path| path.exists()), [true, false]);
    }
}
