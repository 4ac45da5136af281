//! Settings of the kernel that this process as a whole keeps changed.

use crate::changes::Changes;
use crate::error::LinuxError;
use crate::process::in_another_program;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A file below `/proc/sys`, and its value.
type Setting = (&'static str, String);

/// Settings that stay changed until all of these are dropped.
#[derive(Debug)]
pub struct Held {
    changes: Changes,
    paths: Vec<&'static str>,
}

/// One for each system and first setting: settings are the same for all drivers of a process.
static HELD: Mutex<BTreeMap<Key, Weak<Held>>> = Mutex::new(BTreeMap::new());

type Key = (PathBuf, &'static str);

impl Held {
    /// Makes settings, after it is written down what was set before. Who holds them already is joined;
    /// `settings` is not asked then.
    ///
    /// # Errors
    /// Those of `settings`; [`LinuxError::Unsupported`] where another run has other wishes; without the
    /// right to change settings. Nothing is changed then.
    pub fn make(
        changes: &Changes,
        first: &'static str,
        settings: impl FnOnce() -> Result<Vec<Setting>, LinuxError>,
    ) -> Result<Arc<Self>, LinuxError> {
        // An agent drives its own process alone, and its children do not have its memory.
        if in_another_program() {
            return Self::change(changes, settings()?).map(Arc::new);
        }
        let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (changes.root().path("/"), first);
        if let Some(held) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(held);
        }
        let held = Arc::new(Self::change(changes, settings()?)?);
        all.insert(key, Arc::downgrade(&held));
        Ok(held)
    }

    fn change(changes: &Changes, settings: Vec<Setting>) -> Result<Self, LinuxError> {
        let paths: Vec<_> = settings.iter().map(|(path, _)| *path).collect();
        let set = settings.iter().try_for_each(|(path, value)| changes.set(path, value));
        if let Err(error) = set {
            let _ = changes.release_settings(&paths);
            return Err(error);
        }
        Ok(Self { changes: changes.clone(), paths })
    }

    /// By whom they are made.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    fn undo(&self) {
        // What stays on the list is undone by whoever cleans up next.
        let _ = self.changes.release_settings(&self.paths);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if in_another_program() {
            return self.undo();
        }
        let all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let root = self.changes.root().path("/");
        let is_ours = |(of, first): &Key| *of == root && self.paths.contains(first);
        let mut others = all.iter().filter(|(key, _)| is_ours(key));
        let next = others.find_map(|(_, held)| held.upgrade());
        if next.is_none() {
            self.undo();
        }
        drop(all);
        // With the lock held, its end would wait for the lock for ever.
        drop(next);
    }
}
