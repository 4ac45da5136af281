//! Limits of control groups on moves between memory and swap.
//!
//! A page that is paged out counts as its group's swap, one that is brought back as its memory, in every group that
//! the group is in. What there is room for is read once a second, and kept account of in between. Moves between nodes
//! leave both as they are.

use frostline_core::Foreign;
use frostline_core::span::{Span, push_run};
use frostline_core::types::{Bytes, PageCount};
use frostline_daemon::Unit;
use frostline_linux::groups::{Ceiling, Group, Level, Part, Trees};
use frostline_linux::{LinuxError, Root};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A group with less room than that in swap is said to have none: what is moved in one go.
const NEXT_TO_NOTHING: Bytes = Bytes(1 << 20);

/// Which way pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From memory to swap.
    Out,
    /// From swap to memory.
    In,
}

/// A control group with a limit, as others are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its name in its tree.
    pub name: Foreign,
    /// What it may have in memory; `None` for no limit.
    pub memory_limit_bytes: Option<u64>,
    /// What may be brought back into it.
    pub memory_room_bytes: Option<u64>,
    /// What it may have in swap; `None` for no limit.
    pub swap_limit_bytes: Option<u64>,
    /// What may be paged out of it.
    pub swap_room_bytes: Option<u64>,
}

/// One group, as it was last read.
#[derive(Debug)]
struct Known {
    level: Level,
    /// What may still be moved.
    out: Ceiling,
    back: Ceiling,
    /// Whether processes that are managed are in it itself.
    has_members: bool,
}

/// Groups of the processes that are managed.
#[derive(Debug)]
pub struct Groups {
    root: Root,
    trees: Trees,
    /// All groups that matter, those above before those in them.
    known: BTreeMap<Group, Known>,
    /// Of each process; `None` for one whose group is not seen, which has no limit that we know.
    of: BTreeMap<u32, Option<Group>>,
    /// Processes of which nothing is known for certain: nothing of theirs is moved.
    unclear: BTreeSet<u32>,
    said: BTreeSet<String>,
    remarks: Vec<String>,
}

impl Groups {
    /// Of nobody yet.
    ///
    /// # Errors
    /// Where the list of mounts is damaged.
    pub fn new(root: &Root) -> Result<Self, LinuxError> {
        Ok(Self {
            root: root.clone(),
            trees: Trees::read(root)?,
            known: BTreeMap::new(),
            of: BTreeMap::new(),
            unclear: BTreeSet::new(),
            said: BTreeSet::new(),
            remarks: Vec::new(),
        })
    }

    /// Reads limits and usage of all groups of these processes.
    pub fn refresh(&mut self, pids: impl Iterator<Item = u32>) {
        self.known.clear();
        self.of.clear();
        self.unclear.clear();
        for pid in pids {
            match self.read(pid) {
                Ok(group) => drop(self.of.insert(pid, group)),
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    self.unclear.insert(pid);
                    let what = "what its control group allows is not known, so nothing of it goes to swap or back";
                    self.say(format!("process {pid}: {what}: {error}"));
                }
            }
        }
        let full = |known: &&Known| {
            let swap = &known.level.swap;
            swap.room() < Ceiling::At(NEXT_TO_NOTHING)
        };
        let full: Vec<String> = self.known.values().filter(full).map(full_of).collect();
        full.into_iter().for_each(|text| self.say(text));
    }

    fn read(&mut self, pid: u32) -> Result<Option<Group>, LinuxError> {
        let Some(own) = self.trees.memory_group_of(&self.root, pid)? else { return Ok(None) };
        for group in own.chain() {
            let has_members = group == own;
            if let Some(known) = self.known.get_mut(&group) {
                known.has_members |= has_members;
                continue;
            }
            let level = Level::read(&self.root, &group)?;
            let (out, back) = (level.swap.room(), level.memory.spare());
            self.known.insert(group, Known { level, out, back, has_members });
        }
        Ok(Some(own))
    }

    /// Nothing is said twice.
    fn say(&mut self, text: String) {
        if self.said.insert(text.clone()) {
            self.remarks.push(text);
        }
    }

    /// What users should know, and have not been told.
    pub fn take_remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// Limits that there are.
    pub fn status(&self) -> Vec<GroupStatus> {
        let limited = |known: &&Known| {
            let Level { memory, swap, .. } = &known.level;
            memory.ceiling.min(swap.ceiling) != Ceiling::Unlimited
        };
        let status = |known: &Known| {
            let number = |ceiling: Ceiling| ceiling.bytes().map(|bytes| bytes.0);
            GroupStatus {
                name: known.level.name.clone(),
                memory_limit_bytes: number(known.level.memory.ceiling),
                memory_room_bytes: number(known.back),
                swap_limit_bytes: number(known.level.swap.ceiling),
                swap_room_bytes: number(known.out),
            }
        };
        self.known.values().filter(limited).map(status).collect()
    }

    /// What all processes together may move. A group's room is not above what those in it have.
    pub fn room(&self, way: Way) -> Ceiling {
        let nobody = Ceiling::At(Bytes::ZERO);
        if self.of.values().any(Option::is_none) {
            return Ceiling::Unlimited;
        }
        let mut inside: BTreeMap<Group, Ceiling> = BTreeMap::new();
        let mut all = nobody;
        // Those in a group before the group itself.
        for (group, known) in self.known.iter().rev() {
            let below = inside.remove(group).unwrap_or(nobody);
            let room = known.room(way);
            let room = if known.has_members { room } else { room.min(below) };
            let sum = match group.parent() {
                Some(parent) => inside.entry(parent).or_insert(nobody),
                None => &mut all,
            };
            *sum = sum.plus(room);
        }
        all
    }

    /// What one process may move.
    fn room_of(&self, pid: u32, way: Way) -> Ceiling {
        match self.of.get(&pid) {
            _ if self.unclear.contains(&pid) => Ceiling::At(Bytes::ZERO),
            None | Some(None) => Ceiling::Unlimited,
            Some(Some(group)) => {
                let rooms =
                    group.chain().filter_map(|group| Some(self.known.get(&group)?.room(way)));
                rooms.min().unwrap_or(Ceiling::Unlimited)
            }
        }
    }

    /// Whether so many pages of a process may be moved.
    pub fn allows(&self, pid: u32, way: Way, pages: PageCount) -> bool {
        self.room_of(pid, way) >= Ceiling::At(pages.bytes())
    }

    /// What of `units` may be moved, in their order, and what not. Units that are not `counted` may all be: they are no
    /// swap, and do not become any.
    pub fn admit(
        &self,
        pid: u32,
        way: Way,
        units: &[Unit],
        counted: impl Fn(&Unit) -> bool,
    ) -> (Vec<Unit>, Vec<Span>) {
        let Ceiling::At(room) = self.room_of(pid, way) else { return (units.to_vec(), Vec::new()) };
        let mut left = room.0 / PageCount(1).bytes().0;
        let (mut admitted, mut held): (Vec<Unit>, Vec<(Span, ())>) = (Vec::new(), Vec::new());
        for unit in units {
            // A folio goes as a whole.
            let step = if unit.huge { unit.span.pages } else { 1 };
            for span in unit.span.pieces(step) {
                let pages = if counted(unit) { span.pages } else { 0 };
                if pages > left {
                    push_run(&mut held, span, ());
                    continue;
                }
                left -= pages;
                let part = Unit { span, ..*unit };
                match admitted.last_mut() {
                    Some(last) if last.is_followed_by(&part) => last.span.pages += span.pages,
                    _ => admitted.push(part),
                }
            }
        }
        (admitted, held.into_iter().map(|(span, ())| span).collect())
    }

    /// Takes note that so many pages of a process have moved.
    pub fn moved(&mut self, pid: u32, way: Way, pages: u64) {
        let Some(Some(own)) = self.of.get(&pid) else { return };
        let bytes = PageCount(pages).bytes();
        for group in own.chain() {
            let Some(known) = self.known.get_mut(&group) else { continue };
            let (less, more) = match way {
                Way::Out => (&mut known.out, &mut known.back),
                Way::In => (&mut known.back, &mut known.out),
            };
            *less = less.left(bytes);
            *more = more.plus(Ceiling::At(bytes));
        }
    }
}

impl Known {
    fn room(&self, way: Way) -> Ceiling {
        match way {
            Way::Out => self.out,
            Way::In => self.back,
        }
    }
}

/// That a group may have no more in swap.
fn full_of(known: &Known) -> String {
    let Level { name, swap: Part { ceiling, file, .. }, .. } = &known.level;
    let mib = ceiling.bytes().map_or(0, |bytes| bytes.0 >> 20);
    format!(
        "control group {name} may have {mib} MiB in swap ({file}), and has it: no more of its pages are paged out"
    )
}

#[cfg(test)]
mod tests;
