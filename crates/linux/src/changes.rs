//! Changes made on the system, written down before they are made, so that they can be undone: by
//! the process that did it, or by a later one where that crashed.
//!
//! The list is `run/frostline/changes.json` below the root. Each entry names the processes that
//! rely on it; the last of them to let go undoes it. A lock beside the list keeps two processes
//! from working on it at the same time.

use crate::own_files::{self, FOLDER, Lock};
use crate::process::Identity;
use crate::{LinuxError, Root, accesses::damon, swap::zram};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

const VERSION: u32 = 1;

/// One change of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Change {
    /// A setting of the kernel was overwritten.
    Setting {
        /// Its file, such as `/proc/sys/vm/page-cluster`.
        path: String,
        /// What it was.
        old: String,
        /// What it was set to.
        new: String,
    },
    /// A zram device was made a swap device.
    Zram(zram::Record),
    /// DAMON was taken, or is about to be.
    Damon {
        /// What tells its kernel thread from that of somebody else: [`damon::make_kdamond`]. `None`
        /// before there is one.
        kdamond: Option<u64>,
    },
}

impl Change {
    /// What there is, before it is undone.
    fn what(&self) -> String {
        match self {
            Self::Setting { path, old, .. } => format!("{path}, which was {old}"),
            Self::Zram(record) => format!("swap on {}", record.device()),
            Self::Damon { .. } => "DAMON".into(),
        }
    }

    /// What undoing it does.
    fn describe(&self) -> String {
        match self {
            Self::Setting { path, old, .. } => format!("{path} back to {old}"),
            Self::Zram(record) => format!("{} taken down", record.device()),
            Self::Damon { .. } => "DAMON given back".into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    change: Change,
    owners: Vec<Identity>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    version: u32,
    /// Changes do not outlive the boot that they were made in.
    boot_id: String,
    entries: Vec<Entry>,
}

/// A change that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// What there still is.
    pub what: String,
    /// Why it was not undone.
    pub why: String,
}

/// What became of changes that nobody relies on any more.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Restored {
    /// What was undone.
    pub undone: Vec<String>,
    /// What could not be. It stays on the list.
    pub kept: Vec<Kept>,
    /// How many changes running processes rely on; they are left alone.
    pub in_use: usize,
}

/// How far undoing may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SwapOff {
    /// A swap device on which there are pages of running processes is left on.
    #[default]
    WhenUnused,
    /// Pages are brought back from it, if there is enough free memory for all of them.
    WhenItFits,
}

/// The changes of one process.
#[derive(Clone, Debug)]
pub struct Changes {
    root: Root,
    owner: Identity,
}

impl Changes {
    /// For changes by this process.
    ///
    /// # Errors
    /// Where `/proc` cannot be read.
    pub fn of_this_process(root: &Root) -> Result<Self, LinuxError> {
        Ok(Self { root: root.clone(), owner: Identity::own(root)? })
    }

    /// Where the changes are made.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Sets the kernel's setting in `path` to `new`, after its old value is written down. Nothing
    /// happens where it has that value.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where another process relies on a different value; without the
    /// right to write the setting or the list.
    pub fn set(&self, path: &str, new: &str) -> Result<(), LinuxError> {
        let mut store = Store::lock(&self.root)?;
        let current = self.root.read(path)?;
        let known = store.list.entries.iter_mut().find_map(|entry| match &entry.change {
            Change::Setting { path: known, new, .. } if known == path => {
                Some((new.clone(), &mut entry.owners))
            }
            _ => None,
        });
        match known {
            Some((set, owners)) if set == new => {
                if !owners.contains(&self.owner) {
                    owners.push(self.owner);
                }
            }
            Some((set, _)) => {
                return Err(LinuxError::Unsupported {
                    what: format!("{path} shall be {new}, but was set to {set} by another run"),
                    hint: "end the other run, or run 'frostline doctor --undo' if there is none"
                        .into(),
                });
            }
            None if current == new => return Ok(()),
            None => store.list.entries.push(Entry {
                change: Change::Setting { path: path.into(), old: current, new: new.into() },
                owners: vec![self.owner],
            }),
        }
        store.save()?;
        let written = self.root.write(path, new);
        if written.is_err() {
            store.list.entries.retain(|entry| {
                !matches!(&entry.change, Change::Setting { path: known, .. } if known == path)
                    || entry.owners != [self.owner]
            });
            store.save()?;
        }
        written
    }

    /// Writes down a zram device before it is set up.
    pub(crate) fn add_zram(&self, record: &zram::Record) -> Result<(), LinuxError> {
        let mut store = Store::lock(&self.root)?;
        let change = Change::Zram(record.clone());
        store.list.entries.push(Entry { change, owners: vec![self.owner] });
        store.save()
    }

    /// Takes DAMON, if nobody uses it. Written down before, and again once it is known by what it is told
    /// from that of somebody else. The list stays locked: nobody of ours gets in between.
    ///
    /// # Errors
    /// `EBUSY` where it is in use; without the right to.
    pub(crate) fn take_damon(&self) -> Result<(), LinuxError> {
        let mut store = Store::lock(&self.root)?;
        damon::check_unused(&self.root)?;
        let entry = Entry { change: Change::Damon { kdamond: None }, owners: vec![self.owner] };
        store.list.entries.push(entry);
        store.save()?;
        let made = damon::make_kdamond(&self.root);
        let entry = store.list.entries.pop();
        if let (Ok(inode), Some(entry)) = (&made, entry) {
            let change = Change::Damon { kdamond: Some(*inode) };
            store.list.entries.push(Entry { change, ..entry });
        }
        store.save()?;
        made.map(drop)
    }

    /// Makes a zram device ours that nobody relies on any more, the latest one that `serves`.
    pub(crate) fn take_over_zram(
        &self,
        serves: impl Fn(&zram::Record) -> bool,
    ) -> Result<Option<zram::Record>, LinuxError> {
        let mut store = Store::lock(&self.root)?;
        let abandoned = store.list.entries.iter_mut().rev().find_map(|entry| {
            let Change::Zram(record) = &entry.change else { return None };
            let relied_on = entry.owners.iter().any(|owner| owner.is_alive(&self.root));
            (!relied_on && serves(record)).then(|| (record.clone(), &mut entry.owners))
        });
        let Some((record, owners)) = abandoned else { return Ok(None) };
        *owners = vec![self.owner];
        store.save()?;
        Ok(Some(record))
    }

    /// Strikes a zram device off the list that was not made after all.
    pub(crate) fn forget_zram(&self, record: &zram::Record) -> Result<(), LinuxError> {
        let mut store = Store::lock(&self.root)?;
        let change = Change::Zram(record.clone());
        store.list.entries.retain(|entry| entry.change != change);
        store.save()
    }

    /// Lets go of all that this process relies on, and undoes what nobody else does.
    ///
    /// # Errors
    /// Where the list cannot be read or written. What cannot be undone is reported, not an error.
    pub fn release(&self, swap_off: SwapOff) -> Result<Restored, LinuxError> {
        self.release_where(swap_off, |_| true)
    }

    /// As [`Self::release`], of one zram device.
    pub(crate) fn release_zram(
        &self,
        record: &zram::Record,
        swap_off: SwapOff,
    ) -> Result<Restored, LinuxError> {
        let wanted = Change::Zram(record.clone());
        self.release_where(swap_off, |change| *change == wanted)
    }

    /// As [`Self::release`], of DAMON.
    pub(crate) fn release_damon(&self) -> Result<Restored, LinuxError> {
        self.release_where(SwapOff::WhenUnused, is_damon)
    }

    /// As [`Self::release`], of settings, by their files.
    pub(crate) fn release_settings(&self, paths: &[&str]) -> Result<Restored, LinuxError> {
        self.release_where(SwapOff::WhenUnused, |change| {
            matches!(change, Change::Setting { path, .. } if paths.contains(&path.as_str()))
        })
    }

    fn release_where(
        &self,
        swap_off: SwapOff,
        concerns: impl Fn(&Change) -> bool,
    ) -> Result<Restored, LinuxError> {
        // Who has changed nothing needs no rights to let go of it. What nobody owns any more could
        // not be undone before.
        let ours = |owners: &[Identity]| owners.is_empty() || owners.contains(&self.owner);
        if !load(&self.root)?.entries.iter().any(|entry| ours(&entry.owners)) {
            return Ok(Restored::default());
        }
        let mut store = Store::lock(&self.root)?;
        for entry in &mut store.list.entries {
            if concerns(&entry.change) {
                entry.owners.retain(|owner| *owner != self.owner);
            }
        }
        store.undo(swap_off, concerns)
    }
}

/// Undoes what ended processes have left behind; what running ones rely on is left alone. Does
/// nothing, and needs no rights, where nothing was changed.
///
/// # Errors
/// Where the list cannot be read or written. What cannot be undone is reported, not an error.
pub fn restore(root: &Root, swap_off: SwapOff) -> Result<Restored, LinuxError> {
    if !list_path(root).exists() {
        return Ok(Restored::default());
    }
    Store::lock(root)?.undo(swap_off, |_| true)
}

/// As [`restore`], of DAMON.
pub(crate) fn restore_damon(root: &Root) -> Result<(), LinuxError> {
    let left = |entry: &Entry| {
        is_damon(&entry.change) && !entry.owners.iter().any(|owner| owner.is_alive(root))
    };
    if load(root)?.entries.iter().any(left) {
        Store::lock(root)?.undo(SwapOff::WhenUnused, is_damon)?;
    }
    Ok(())
}

fn is_damon(change: &Change) -> bool {
    matches!(change, Change::Damon { .. })
}

/// Whether this setting was changed by a process of ours, one that was killed included.
///
/// # Errors
/// Where the list cannot be read.
pub(crate) fn is_set(root: &Root, setting: &str) -> Result<bool, LinuxError> {
    let ours =
        |entry: &Entry| matches!(&entry.change, Change::Setting { path, .. } if path == setting);
    Ok(load(root)?.entries.iter().any(ours))
}

fn list_path(root: &Root) -> PathBuf {
    root.path(FOLDER).join("changes.json")
}

/// The list, locked until it is dropped.
struct Store {
    root: Root,
    list: List,
    _lock: Lock,
}

impl Store {
    fn lock(root: &Root) -> Result<Self, LinuxError> {
        let lock = Lock::take(root, "changes")?;
        Ok(Self { root: root.clone(), list: load(root)?, _lock: lock })
    }

    /// Replaces the file in one step: a crash leaves the old list or the new one.
    fn save(&self) -> Result<(), LinuxError> {
        #[cfg(test)]
        frostline_testing::death::come_closer();
        let path = list_path(&self.root);
        let failed = |error: &std::io::Error| LinuxError::io("write", &path, error);
        if self.list.entries.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&error)),
                _ => Ok(()),
            };
        }
        let text =
            serde_json::to_string_pretty(&self.list).map_err(|error| failed(&error.into()))?;
        let new = path.with_extension("new");
        let write = || {
            let mut file = own_files::options().write(true).truncate(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(self.root.path(FOLDER))?.sync_all()
        };
        write().map_err(|error| failed(&error))
    }

    /// Undoes entries without a running owner, the latest first.
    fn undo(
        &mut self,
        swap_off: SwapOff,
        concerns: impl Fn(&Change) -> bool,
    ) -> Result<Restored, LinuxError> {
        let mut restored = Restored::default();
        let mut remaining = Vec::new();
        for mut entry in std::mem::take(&mut self.list.entries).into_iter().rev() {
            entry.owners.retain(|owner| owner.is_alive(&self.root));
            if !concerns(&entry.change) {
                remaining.push(entry);
                continue;
            }
            if !entry.owners.is_empty() {
                restored.in_use += 1;
                remaining.push(entry);
                continue;
            }
            match undo(&self.root, &entry.change, swap_off) {
                Ok(()) => restored.undone.push(entry.change.describe()),
                Err(why) => {
                    restored.kept.push(Kept { what: entry.change.what(), why });
                    remaining.push(entry);
                }
            }
        }
        remaining.reverse();
        self.list.entries = remaining;
        self.save()?;
        Ok(restored)
    }
}

fn load(root: &Root) -> Result<List, LinuxError> {
    let boot_id = root.read_optional("/proc/sys/kernel/random/boot_id")?.unwrap_or_default();
    let empty = List { version: VERSION, boot_id: boot_id.clone(), entries: Vec::new() };
    let path = list_path(root);
    let Some(text) = root.read_optional(FOLDER.to_owned() + "/changes.json")? else {
        return Ok(empty);
    };
    let malformed = |what: String| LinuxError::Malformed { path: path.clone(), what };
    let list: List = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    if list.version != VERSION {
        return Err(malformed(format!("version {}; this program knows {VERSION}", list.version)));
    }
    Ok(if list.boot_id == boot_id { list } else { empty })
}

fn undo(root: &Root, change: &Change, swap_off: SwapOff) -> Result<(), String> {
    match change {
        Change::Setting { path, old, new } => {
            let current = root.read(path).map_err(|error| error.to_string())?;
            // Whoever has set it since knows better.
            if current != *new {
                return Ok(());
            }
            root.write(path, old).map_err(|error| error.to_string())
        }
        Change::Zram(record) => record.undo(root, swap_off),
        Change::Damon { kdamond } => {
            damon::give_back(root, *kdamond).map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::PAGE_CLUSTER;
    use crate::testing::Tree;

    /// A tree in which this process and number 70, started at 5, run.
    fn tree() -> Tree {
        let tree = Tree::new();
        for (pid, start) in [(std::process::id(), 1), (70, 5)] {
            let zeros = "0 ".repeat(18);
            tree.file(format!("proc/{pid}/stat"), format!("{pid} (x) S {zeros}{start} 0 0"));
        }
        tree.file("proc/sys/kernel/random/boot_id", "first\n");
        tree.file(PAGE_CLUSTER, "3\n");
        tree
    }

    fn changes(tree: &Tree, pid: u32, start_ticks: u64) -> Changes {
        Changes { root: tree.root().clone(), owner: Identity { pid, start_ticks } }
    }

    fn undone(restored: &Restored) -> usize {
        assert_eq!(restored.kept, []);
        restored.undone.len()
    }

    #[test]
    fn a_setting_is_set_and_restored() {
        let tree = tree();
        let own = Changes::of_this_process(tree.root()).expect("runs");
        assert_eq!(own.owner, Identity { pid: std::process::id(), start_ticks: 1 });
        own.set(PAGE_CLUSTER, "0").expect("set");
        assert_eq!(tree.text(PAGE_CLUSTER), "0");
        assert!(tree.text("/run/frostline/changes.json").contains("\"old\": \"3\""));
        let restored = restore(tree.root(), SwapOff::WhenUnused).expect("read");
        assert_eq!((undone(&restored), restored.in_use), (0, 1), "its owner runs");
        assert_eq!(undone(&own.release(SwapOff::WhenUnused).expect("written")), 1);
        assert_eq!(tree.text(PAGE_CLUSTER), "3");
        assert!(!list_path(tree.root()).exists());
    }

    #[test]
    fn what_is_as_wanted_is_not_written_down() {
        let tree = tree();
        changes(&tree, 70, 5).set(PAGE_CLUSTER, "3").expect("nothing to do");
        assert!(!list_path(tree.root()).exists());
        assert_eq!(
            restore(tree.root(), SwapOff::WhenUnused).expect("nothing"),
            Restored::default()
        );
    }

    #[test]
    fn the_last_owner_restores() {
        let tree = tree();
        let (one, two) = (changes(&tree, std::process::id(), 1), changes(&tree, 70, 5));
        one.set(PAGE_CLUSTER, "0").expect("set");
        two.set(PAGE_CLUSTER, "0").expect("set already");
        let error = two.set(PAGE_CLUSTER, "1").expect_err("another one relies on 0");
        assert!(error.to_string().contains("hint:"), "{error}");
        assert_eq!(undone(&one.release(SwapOff::WhenUnused).expect("written")), 0);
        assert_eq!(tree.text(PAGE_CLUSTER), "0");
        assert_eq!(undone(&two.release(SwapOff::WhenUnused).expect("written")), 1);
        assert_eq!(tree.text(PAGE_CLUSTER), "3");
    }

    #[test]
    fn what_a_crash_left_is_restored() {
        let tree = tree();
        // The number runs again, as another process.
        changes(&tree, 70, 4).set(PAGE_CLUSTER, "0").expect("set");
        changes(&tree, 99, 1).set(PAGE_CLUSTER, "0").expect("set already");
        let restored = restore(tree.root(), SwapOff::WhenUnused).expect("written");
        assert_eq!((undone(&restored), restored.in_use), (1, 0));
        assert_eq!(tree.text(PAGE_CLUSTER), "3");
    }

    #[test]
    fn a_later_value_of_somebody_else_stays() {
        let tree = tree();
        changes(&tree, 99, 1).set(PAGE_CLUSTER, "0").expect("set");
        tree.file(PAGE_CLUSTER, "5\n");
        assert_eq!(undone(&restore(tree.root(), SwapOff::WhenUnused).expect("written")), 1);
        assert_eq!(tree.text(PAGE_CLUSTER), "5");
    }

    #[test]
    fn a_list_of_an_earlier_boot_says_nothing() {
        let tree = tree();
        changes(&tree, 99, 1).set(PAGE_CLUSTER, "0").expect("set");
        tree.file("proc/sys/kernel/random/boot_id", "second\n");
        assert_eq!(undone(&restore(tree.root(), SwapOff::WhenUnused).expect("read")), 0);
        assert_eq!(tree.text(PAGE_CLUSTER), "0");
        assert!(!list_path(tree.root()).exists());
    }

    #[test]
    fn a_setting_that_cannot_be_written_is_not_on_the_list() {
        let tree = tree();
        let path = "/proc/sys/vm/none";
        assert!(changes(&tree, 70, 5).set(path, "0").expect_err("no such setting").is_not_found());
        assert!(!list_path(tree.root()).exists());
    }

    #[test]
    fn a_setting_that_cannot_be_restored_stays_on_the_list() {
        let tree = tree();
        changes(&tree, 99, 1).set(PAGE_CLUSTER, "0").expect("set");
        fs::remove_file(tree.root().path(PAGE_CLUSTER)).expect("removed");
        let restored = restore(tree.root(), SwapOff::WhenUnused).expect("written");
        assert_eq!((restored.undone.len(), restored.kept.len()), (0, 1));
        assert!(list_path(tree.root()).exists());
    }

    #[test]
    fn who_changed_nothing_leaves_no_trace() {
        let tree = tree();
        let nothing = changes(&tree, 70, 5).release(SwapOff::WhenUnused).expect("nothing to do");
        assert_eq!(nothing, Restored::default());
        assert!(!tree.root().path(FOLDER).exists());
    }

    #[test]
    fn nobody_else_can_keep_the_list_locked() {
        let tree = tree();
        changes(&tree, 70, 5).set(PAGE_CLUSTER, "0").expect("set");
        let locked = crate::testing::lock_what_others_can_open(&tree.root().path(FOLDER));
        assert!(!locked.is_empty(), "the list itself can be read");
        let other = changes(&tree, std::process::id(), 1);
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(other.set(PAGE_CLUSTER, "0")));
        let result = ended.recv_timeout(std::time::Duration::from_secs(10));
        result.expect("it does not wait for others").expect("set already");
    }

    #[test]
    fn a_damaged_list_is_reported() {
        let tree = tree();
        for text in ["", "{", "{\"version\":2,\"boot_id\":\"first\",\"entries\":[]}"] {
            tree.file("run/frostline/changes.json", text);
            let error = restore(tree.root(), SwapOff::WhenUnused).expect_err("damaged");
            assert!(matches!(error, LinuxError::Malformed { .. }), "{error}");
        }
    }
}
