//! Files that targets have closed: once nobody holds one open the policy is told, and what it wants
//! demoted of them leaves fast memory.
//!
//! Where the first slower tier is a node, cached pages go there. Otherwise the kernel forgets them:
//! the slower tier of a file is its disk.

use crate::watched::Watched;
use frostline_core::event::{Event, MoveOutcome};
use frostline_core::types::*;
use frostline_daemon::Account;
use frostline_linux::files::cached::CachedFile;
use frostline_linux::files::closings::{Closing, Closings};
use frostline_linux::files::holders::held_open;
use frostline_linux::files::{File, FileId};
use frostline_linux::process::clock;
use frostline_linux::{LinuxError, Root, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Smaller files are left alone: finding out about one costs more than its pages are worth. As
/// `least` of PET for allocations.
const LEAST: Bytes = Bytes(128 << 10);
/// Files that are kept in mind; what is closed beyond that is overlooked.
const MOST_FILES: usize = 2048;
/// Closings that are looked at in one step.
const MOST_CLOSINGS: u32 = 1024;
/// Pages of a file between two looks at the clock.
const PIECE_PAGES: u64 = 4096;
/// How often a file is tried of which something was being written or used.
const MOST_TRIES: u32 = 3;
/// Part of our share of a core that goes into finding out who holds files open.
const HOLDERS_PART: f64 = 0.1;

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Closed by somebody. Whether others hold it open is to be found out.
    Closed,
    /// Held open or mapped by somebody; when that ends it will be heard.
    Held,
    /// By nobody; the policy was told.
    LogEntry,
}

#[derive(Clone, Debug)]
struct Known {
    file: File,
    state: State,
    tries: u32,
}

/// A file that is being demoted.
#[derive(Debug)]
struct Going {
    number: u32,
    open: CachedFile,
    known: Known,
    next: u64,
    /// Pages that could not leave.
    left: u64,
}

/// Files that are kept in mind, by numbers that are not used again.
#[derive(Debug, Default)]
struct Files {
    known: BTreeMap<u32, Known>,
    numbers: BTreeMap<FileId, u32>,
    next: u32,
}

impl Files {
    /// A file was closed, by a target or by somebody else.
    fn note(&mut self, file: File, target: bool) {
        let known = self.numbers.get(&file.id).and_then(|number| self.known.get_mut(number));
        if let Some(known) = known {
            if known.state == State::Held {
                known.state = State::Closed;
            }
            known.file = file;
        } else if target && file.bytes >= LEAST.0 {
            self.keep(Known { file, state: State::Closed, tries: 0 });
        }
    }

    /// Keeps a file in mind that is not, as long as there is room.
    fn keep(&mut self, known: Known) {
        if self.known.len() < MOST_FILES && !self.numbers.contains_key(&known.file.id) {
            self.numbers.insert(known.file.id, self.next);
            self.known.insert(self.next, known);
            self.next = self.next.wrapping_add(1);
        }
    }

    fn forget(&mut self, number: u32) -> Option<Known> {
        let known = self.known.remove(&number)?;
        self.numbers.remove(&known.file.id);
        Some(known)
    }

    fn is(&self, number: u32, state: State) -> bool {
        self.known.get(&number).is_some_and(|known| known.state == state)
    }

    fn replace(&mut self, from: State, to: State) {
        let all = self.known.values_mut().filter(|known| known.state == from);
        all.for_each(|known| known.state = to);
    }

    /// Finds out who holds files of one state open, by a descriptor or, of our targets, by a
    /// mapping; gives the numbers of those that nobody does.
    fn held_by_nobody(
        &mut self,
        root: &Root,
        targets: &BTreeMap<u32, Watched>,
        of: State,
    ) -> Result<Vec<u32>, LinuxError> {
        let asked = self.known.values().filter(|known| known.state == of);
        let asked: BTreeSet<FileId> = asked.map(|known| known.file.id).collect();
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let is_mapped = |file: &FileId| targets.values().any(|target| target.has_mapped(*file));
        let (mut held, others): (BTreeSet<_>, BTreeSet<_>) = asked.into_iter().partition(is_mapped);
        held.extend(held_open(root, &others)?);
        let mut free = Vec::new();
        for (number, known) in self.known.iter_mut().filter(|(_, known)| known.state == of) {
            match held.contains(&known.file.id) {
                true => known.state = State::Held,
                false => free.push(*number),
            }
        }
        Ok(free)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ClosedFiles {
    closings: Closings,
    files: Files,
    going: Option<Going>,
    /// Those that nobody held open when that was last looked up.
    free: BTreeSet<u32>,
    /// Files that were open for us, whose closings by this process are ours.
    ours: BTreeSet<FileId>,
    holders_due: Nanos,
    /// Part of a core that goes into finding out who holds files open.
    share: f64,
    lost: u64,
}

impl ClosedFiles {
    /// Knows of no file yet, for a driver with this share of a core.
    pub(crate) fn new(closings: Closings, cpu_share: f64) -> Self {
        Self {
            closings,
            files: Files::default(),
            going: None,
            free: BTreeSet::new(),
            ours: BTreeSet::new(),
            holders_due: Nanos::ZERO,
            share: cpu_share * HOLDERS_PART,
            lost: 0,
        }
    }

    /// Hears of files on the disks that a process sees.
    pub(crate) fn attach(&mut self, root: &Root, pid: u32) {
        self.closings.watch(root, pid);
    }

    /// Times that the kernel had no room to tell of closed files.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    fn take_in(&mut self, is_target: impl Fn(u32) -> bool) -> Result<(), LinuxError> {
        let Self { closings, files, ours, .. } = self;
        let own = std::process::id();
        let mut heard = 0;
        closings.poll(|closing: Closing| {
            heard += 1;
            let target = is_target(closing.pid());
            let may_be_ours = closing.pid() == own && !ours.is_empty();
            // Others concern us where they may be the last ones.
            if (target || may_be_ours || !files.known.is_empty())
                && let Some(file) = closing.file()
                && !(may_be_ours && ours.remove(&file.id))
            {
                files.note(file, target);
            }
            heard < MOST_CLOSINGS
        })?;
        if closings.lost() > self.lost {
            self.lost = closings.lost();
            files.replace(State::Held, State::Closed);
        }
        Ok(())
    }

    /// Takes in what was closed since the last time; tells of files that nobody holds open.
    ///
    /// # Errors
    /// Where the kernel does not tell who holds files open.
    pub(crate) fn hear(
        &mut self,
        root: &Root,
        targets: &BTreeMap<u32, Watched>,
        now: Nanos,
        events: &mut Vec<Event>,
    ) -> Result<(), LinuxError> {
        self.take_in(|pid| targets.contains_key(&pid))?;
        if now < self.holders_due {
            return Ok(());
        }
        let before = clock::thread_cpu();
        let free = self.files.held_by_nobody(root, targets, State::Closed)?;
        events.extend(free.into_iter().map(|file| Event::FileClosed { file }));
        self.files.replace(State::Closed, State::LogEntry);
        self.free.clear();
        let cost = clock::thread_cpu().saturating_sub(before).as_secs_f64();
        let rest = (cost / self.share).max(1.0);
        self.holders_due = now.saturating_add(Nanos((rest * 1e9) as u64));
        Ok(())
    }

    /// Demotes a piece of a file that was told of, to a node or out of memory, unless somebody has
    /// opened it since; whether that was the last one.
    ///
    /// # Errors
    /// Where the kernel does not tell who holds files open.
    pub(crate) fn demote(
        &mut self,
        root: &Root,
        targets: &BTreeMap<u32, Watched>,
        number: u32,
        node: Option<u32>,
        account: &mut Account,
    ) -> Result<bool, LinuxError> {
        if self.going.as_ref().is_none_or(|going| going.number != number)
            && !self.begin(root, targets, number)?
        {
            return Ok(true);
        }
        let Some(going) = &mut self.going else { return Ok(true) };
        let piece = going.next..going.open.pages().min(going.next + PIECE_PAGES);
        going.next = piece.end;
        let left = &mut going.left;
        let mut count = |pages, outcome| {
            account.count(pages, outcome);
            *left += if outcome == MoveOutcome::Busy { pages } else { 0 };
        };
        let done = match node {
            _ if piece.is_empty() => Ok(()),
            Some(node) => Target::open(root, std::process::id())
                .and_then(|own| going.open.move_to_node(&own, piece, node, &mut count)),
            None => going.open.drop_cache(piece).map(|dropped| {
                count(dropped.gone, MoveOutcome::Moved);
                count(dropped.kept, MoveOutcome::Busy);
            }),
        };
        // A file system that does not take part is no reason to end.
        if done.is_ok() && going.next < going.open.pages() {
            return Ok(false);
        }
        if let Some(Going { left, mut known, .. }) = self.going.take()
            && left > 0
            && known.tries + 1 < MOST_TRIES
        {
            known.tries += 1;
            known.state = State::Closed;
            self.files.keep(known);
        }
        Ok(true)
    }

    /// Begins to demote a file; false where it is not to be demoted.
    fn begin(
        &mut self,
        root: &Root,
        targets: &BTreeMap<u32, Watched>,
        number: u32,
    ) -> Result<bool, LinuxError> {
        if self.files.is(number, State::LogEntry) && !self.free.contains(&number) {
            // All that were told of: who wants one gone wants others gone, too.
            let free = self.files.held_by_nobody(root, targets, State::LogEntry)?;
            self.free = free.into_iter().collect();
        }
        if !self.free.remove(&number) {
            return Ok(false);
        }
        let Some(known) = self.files.forget(number) else { return Ok(false) };
        let Some(open) = CachedFile::open(&known.file) else { return Ok(false) };
        self.ours.insert(open.id());
        self.going = Some(Going { number, open, known, next: 0, left: 0 });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_in_mind_from_a_closing_by_a_target_until_nobody_holds_them() {
        let mut files = Files::default();
        let file = |inode, bytes| File {
            id: FileId { device: (8, 1), inode },
            path: format!("/{inode}-{bytes}").into(),
            bytes,
        };
        let close = |files: &mut Files, file, target| {
            files.note(file, target);
            let known = files.known.values();
            known.map(|known| (known.file.id.inode, known.state)).collect::<Vec<_>>()
        };
        assert_eq!(close(&mut files, file(1, 1 << 20), false), [], "somebody else's");
        assert_eq!(close(&mut files, file(1, 1000), true), [], "a small one");
        assert_eq!(close(&mut files, file(1, 1 << 20), true), [(1, State::Closed)]);
        for (state, then) in [
            (State::Held, State::Closed),
            (State::Closed, State::Closed),
            // The policy was told, and what is open is found out before anything is done.
            (State::LogEntry, State::LogEntry),
        ] {
            files.replace(State::Closed, state);
            assert_eq!(close(&mut files, file(1, 2 << 20), false), [(1, then)], "{state:?}");
        }
        assert_eq!(files.known[&0].file.path.to_str(), Some("/1-2097152"), "its last name");
        for inode in 2..MOST_FILES as u64 + 10 {
            close(&mut files, file(inode, 1 << 20), true);
        }
        assert_eq!(files.known.len(), MOST_FILES);
        assert_eq!(files.forget(0).map(|known| known.file.id.inode), Some(1));
        assert_eq!(close(&mut files, file(1, 1 << 20), true).len(), MOST_FILES);
        assert!(files.is(MOST_FILES as u32, State::Closed), "by another number");
    }
}
