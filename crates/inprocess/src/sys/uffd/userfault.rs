//! Pages of this process out of their places, by userfaultfd.

use super::calls::{self, Message, Uffd, feature, mode};
use super::question::Question;
use super::room::Room;
use crate::sys::own_page::move_own_page;
use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::types::{PAGE_BYTES, Vpn};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode as Rights, OFlags};
use rustix::thread::sched_yield;
use std::collections::VecDeque;

/// What makes it safe: whoever ends a mapping, moves it or throws its contents away is told of, and
/// waits until we have heard.
const TOLD: u64 =
    feature::MOVE | feature::EVENT_REMAP | feature::EVENT_REMOVE | feature::EVENT_UNMAP;
/// Room for what is known of mappings and of who waits: nothing is allocated while pages are out.
const MOST_SPANS: usize = 4096;
const MOST_WAITING: usize = 1024;
/// Tries to take a page out while mappings change.
const TRIES: usize = 64;
/// Tries to put one back where the kernel says that there is no such place, until it has told why.
const LATE: usize = 10_000;

/// What becomes of a page that shall be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is out.
    Out,
    /// There was nothing.
    Absent,
    /// Others have it, too, or it is pinned.
    Shared,
    /// Its mapping is of a kind from which nothing can be taken, or not registered (any more).
    Refused,
    /// Mappings change all the time, or it is in use by the kernel.
    Busy,
}

/// What becomes of a page that was out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// It is where it belongs, in the frame that was wanted.
    There,
    /// It is where it belongs, in another frame: rights to it have changed meanwhile.
    Copied,
    /// The program has thrown its contents away, or unmapped it.
    Dropped,
    /// Nothing was in that slot, or nothing any more.
    Nothing,
}

/// What has happened. What it means for pages that are out has been seen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody waits for a page, until it is back or [`Userfault::wake`].
    Touched {
        /// Which.
        page: Vpn,
        /// To write it.
        write: bool,
    },
    /// The process was copied.
    Forked,
    /// Mapped elsewhere.
    Remapped {
        /// From where.
        from: Span,
        /// To where.
        to: Vpn,
    },
    /// Contents are thrown away about now: what is there may be theirs a moment longer.
    Removed(Span),
    /// Unmapped.
    Unmapped(Span),
}

/// A place for a page that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    /// Of this page, wherever it is mapped by now.
    Out(Vpn),
    /// Holds contents that nobody needs.
    Used,
}

/// Takes pages of this process out of their places, and puts them back.
///
/// Whatever its arguments are, contents stay: who touches a page that is out waits until it is
/// back, a copy of the process gets one, and all are put back before the descriptor is closed. It
/// follows that a thread must not take out what it needs itself: it would wait for ever. Whoever
/// unmaps or remaps registered memory waits until [`Self::next_event`] is called: do so until there
/// are none, as long as anything is registered, and drop it soon after.
///
/// Copies of the process that are made past `fork`'s handlers are seen to where
/// [`Self::sees_copies`]. The descriptor must be in a table of files that children do not copy, as
/// that of [`crate::inside::Thread`] is: a copy would keep it open. Nothing is allocated while pages are out.
#[derive(Debug)]
pub struct Userfault {
    // Closed before `room` is unmapped, which would wait for itself otherwise.
    fd: Uffd,
    sees_copies: bool,
    room: Room,
    question: Question,
    slots: Vec<Slot>,
    /// Where faults were to be handed over, ascending and apart, and nothing has happened since.
    /// What was not mapped at that time may be by now, without being registered.
    quiet: Vec<Span>,
    told: VecDeque<Event>,
}

impl Userfault {
    /// A descriptor, and slots for so many pages, at least one.
    ///
    /// # Errors
    /// The kernel's error number: `ENOSYS` or `EINVAL` where it cannot do it (Linux 6.8), `EPERM`
    /// without the right to hand over faults of system calls, too: that takes `CAP_SYS_PTRACE`,
    /// `vm.unprivileged_userfaultfd`, or the right to `/dev/userfaultfd`. `ENOMEM`.
    pub fn open(slots: usize) -> Result<Self, i32> {
        match Self::open_for(slots, true) {
            Err(libc::EPERM) => Self::open_for(slots, false),
            opened => opened,
        }
    }

    /// `copies`: told of copies of the process.
    pub(super) fn open_for(slots: usize, copies: bool) -> Result<Self, i32> {
        let fd = match calls::open(false) {
            Err(libc::EPERM) => {
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let device = rustix::fs::open(c"/dev/userfaultfd", flags, Rights::empty());
                calls::open_by(device.map_err(|_| libc::EPERM)?)
            }
            opened => opened,
        }?;
        calls::begin(&fd, if copies { TOLD | feature::EVENT_FORK } else { TOLD })?;
        let (room, question) = (Room::map(slots.max(1), false)?, Question::new()?);
        hand_over(&fd, span_of(&room))?;
        let slots = vec![Slot::Empty; room.pages()];
        let (quiet, told) = (Vec::with_capacity(MOST_SPANS), VecDeque::with_capacity(MOST_WAITING));
        Ok(Self { fd, sees_copies: copies, room, question, slots, quiet, told })
    }

    /// Whether copies of the process that are made past `fork`'s handlers get what is out.
    pub fn sees_copies(&self) -> bool {
        self.sees_copies
    }

    /// The slots, which nobody must take out.
    pub fn own_memory(&self) -> Span {
        span_of(&self.room)
    }

    /// Hands over faults of what is mapped in a range of this process, which should be whole
    /// mappings: others are divided, and `mremap` of all of their memory fails then.
    ///
    /// # Errors
    /// The kernel's error number: `EBUSY` where another descriptor has a part of it, `EINVAL` where
    /// it is not mapped, or memory of another kind.
    pub fn register(&mut self, span: Span) -> Result<(), i32> {
        hand_over(&self.fd, span)?;
        self.disturbed(span);
        self.add_quiet(span);
        Ok(())
    }

    /// Ends that; who waits there tries again.
    ///
    /// # Errors
    /// `EBUSY` where a page of it is out, or the program has mapped such a page there just now; else
    /// the kernel's error number, where it is not mapped.
    pub fn unregister(&mut self, span: Span) -> Result<(), i32> {
        if self.pages_out().any(|page| span.contains(page)) {
            return Err(libc::EBUSY);
        }
        self.disturbed(span);
        calls::unregister(&self.fd, span.address(), span.bytes().0)?;
        // Who has mapped something there before that goes on when we hear of it: not before it is
        // registered again.
        if self.pages_out().next().is_some() && self.are_mappings_changing() {
            let _ = hand_over(&self.fd, span);
            return Err(libc::EBUSY);
        }
        Ok(())
    }

    /// Whether a thread waits until the event of its change is read, or did a moment ago.
    pub(super) fn are_mappings_changing(&self) -> bool {
        self.question.are_mappings_changing(&self.fd)
    }

    /// Takes a page out. Nothing is where it was until then, and who touches it waits. The page
    /// must be registered, and the slot empty.
    pub fn take_out(&mut self, page: Vpn, slot: usize) -> Taken {
        let at = slot % self.slots.len();
        for _ in 0..TRIES {
            if self.slots[at] != Slot::Empty || !self.is_quiet(page) {
                return Taken::Refused;
            }
            // What has come into a range since it was registered can be taken out of it, too: whoever
            // touches it would find zeros.
            let handed_over = self.question.is_there_and_handed_over(&self.fd, address(page));
            let taken = handed_over
                .and_then(|()| calls::move_page(&self.fd, self.room.address(at), address(page)));
            match taken {
                Ok(()) => {
                    self.slots[at] = Slot::Out(page);
                    return Taken::Out;
                }
                Err(libc::EAGAIN) => {
                    self.drain_events();
                    sched_yield();
                }
                Err(libc::ENOENT) => return Taken::Absent,
                Err(libc::EBUSY) => return Taken::Shared,
                Err(_) => return Taken::Refused,
            }
        }
        Taken::Busy
    }

    /// Puts a page back. The slot is empty then, or used.
    pub fn put_back(&mut self, slot: usize) -> Back {
        let at = slot % self.slots.len();
        self.put(at, self.room.address(at), Back::There)
    }

    /// Copies a page that is out to the next unused one of a block, and puts that where it belongs.
    /// Where that cannot be, it is put back as it was. The slot is used then.
    pub fn replace(&mut self, slot: usize, block: &mut Block) -> Back {
        let at = slot % self.slots.len();
        if block.is_full() {
            let back = self.put_back(at);
            return if back == Back::There { Back::Copied } else { back };
        }
        block.room.copy_from(block.filled, &self.room, at);
        let back = self.put(at, block.room.address(block.filled), Back::Copied);
        block.filled += usize::from(back == Back::There);
        back
    }

    /// Moves what lies at `from`, which holds the contents, to where the page in a slot belongs.
    fn put(&mut self, at: usize, from: u64, otherwise: Back) -> Back {
        if self.slots[at] == Slot::Empty || self.slots[at] == Slot::Used {
            return Back::Nothing;
        }
        let own = self.room.address(at);
        let (mut source, mut late) = (from, 0);
        let there = |source| if source == own { otherwise } else { Back::There };
        loop {
            let Slot::Out(page) = self.slots[at] else { return Back::Dropped };
            match calls::move_page(&self.fd, address(page), source) {
                Ok(()) => {
                    self.slots[at] = if source == own { Slot::Empty } else { Slot::Used };
                    return if from == own { Back::There } else { there(source) };
                }
                // The program has made a guard page of it.
                Err(libc::EEXIST) => return self.give_up(at),
                Err(libc::EAGAIN | libc::ENOMEM) => {
                    self.drain_events();
                    sched_yield();
                }
                // Not from there.
                Err(_) if source != own => source = own,
                // Rights to it have changed since it was taken out.
                Err(_) => match calls::copy_page(&self.fd, address(page), own) {
                    Ok(()) => {
                        self.slots[at] = Slot::Used;
                        return Back::Copied;
                    }
                    Err(libc::EEXIST) => return self.give_up(at),
                    Err(libc::EAGAIN | libc::ENOMEM) => {
                        self.drain_events();
                        sched_yield();
                    }
                    Err(_) => {
                        late += 1;
                        if late == LATE {
                            return self.give_up(at);
                        }
                        self.drain_events();
                        sched_yield();
                    }
                },
            }
        }
    }

    fn give_up(&mut self, at: usize) -> Back {
        self.slots[at] = Slot::Used;
        Back::Dropped
    }

    /// Puts all pages back.
    pub fn put_all_back(&mut self) {
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot], Slot::Out(_)) {
                self.put_back(slot);
            }
        }
    }

    /// Makes used slots empty.
    ///
    /// # Errors
    /// `EBUSY` where pages are out; else the kernel's error number.
    pub fn empty_slots(&mut self) -> Result<(), i32> {
        if self.slots.iter().any(|slot| matches!(slot, Slot::Out(_))) {
            return Err(libc::EBUSY);
        }
        // Throwing contents away would wait for us, while it is registered.
        let own = self.own_memory();
        calls::unregister(&self.fd, own.address(), own.bytes().0)?;
        self.room.forget_contents();
        self.slots.fill(Slot::Empty);
        hand_over(&self.fd, own)
    }

    /// Puts zeros into a page of registered memory where there is nothing, which is what would be
    /// read there, and wakes who waits for it. Whether there was nothing.
    pub fn zero(&mut self, page: Vpn) -> bool {
        let out = |slot: &Slot| *slot == Slot::Out(page);
        !self.slots.iter().any(out) && calls::zero(&self.fd, address(page), PAGE_BYTES).is_ok()
    }

    /// Has all who wait for these pages try again.
    pub fn wake(&mut self, span: Span) {
        let _ = calls::wake(&self.fd, span.address(), span.bytes().0);
    }

    /// What has happened, in order; `None` where nothing has.
    pub fn next_event(&mut self) -> Option<Event> {
        self.drain_events();
        self.told.pop_front()
    }

    /// Takes in all that the kernel has to say.
    fn drain_events(&mut self) {
        while let Ok(Some(message)) = calls::read(&self.fd) {
            let span = |start: u64, end: u64| Span::of_addresses(start, end);
            let event = match message {
                Message::Other => continue,
                Message::Fault { address, write } => {
                    Event::Touched { page: Vpn(address / PAGE_BYTES), write }
                }
                Message::Fork(child) => {
                    self.give(&child);
                    Event::Forked
                }
                Message::Remap { from, to, len } => {
                    let (from, to) = (span(from, from + len), Vpn(to / PAGE_BYTES));
                    for slot in &mut self.slots {
                        match slot {
                            Slot::Out(page) if from.contains(*page) => {
                                page.0 = page.0 - from.start.0 + to.0;
                            }
                            _ => {}
                        }
                    }
                    self.disturbed(from);
                    Event::Remapped { from, to }
                }
                Message::Remove { start, end } => {
                    self.dropped(span(start, end));
                    Event::Removed(span(start, end))
                }
                Message::Unmap { start, end } => {
                    self.dropped(span(start, end));
                    Event::Unmapped(span(start, end))
                }
            };
            match event {
                // Whoever is not remembered asks again.
                Event::Touched { page, .. } if self.told.len() == MOST_WAITING => {
                    self.wake(Span::single(page));
                }
                _ if self.told.len() == MOST_WAITING => {}
                event => self.told.push_back(event),
            }
        }
    }

    /// Gives a copy of the process what is out. It has all else already.
    fn give(&self, child: &Uffd) {
        // What it has thrown away by now; whoever waits for that waits for us.
        let (mut dropped, mut drops) = ([Span::new(Vpn(0), 0); 8], 0);
        for (at, slot) in self.slots.iter().enumerate() {
            let Slot::Out(page) = slot else { continue };
            while !dropped.iter().any(|span| span.contains(*page))
                && calls::copy_page(child, address(*page), self.room.address(at))
                    == Err(libc::EAGAIN)
            {
                while let Ok(Some(message)) = calls::read(child) {
                    if let Message::Remove { start, end } | Message::Unmap { start, end } = message
                    {
                        dropped[drops % dropped.len()] = Span::of_addresses(start, end);
                        drops += 1;
                    }
                }
                sched_yield();
            }
        }
    }

    fn dropped(&mut self, span: Span) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Out(page) if span.contains(*page)) {
                *slot = Slot::Used;
            }
        }
        self.disturbed(span);
    }

    fn is_quiet(&self, page: Vpn) -> bool {
        let next = self.quiet.partition_point(|span| span.end() <= page);
        self.quiet.get(next).is_some_and(|span| span.contains(page))
    }

    fn add_quiet(&mut self, span: Span) {
        let at = self.quiet.partition_point(|other| other.start < span.start);
        if self.quiet.len() < MOST_SPANS {
            self.quiet.insert(at, span);
        }
    }

    /// From there nothing is taken any more.
    fn disturbed(&mut self, span: Span) {
        while let Some(at) = self.quiet.iter().position(|quiet| !quiet.intersect(span).is_empty()) {
            let quiet = self.quiet.remove(at);
            for rest in [
                Span::between(quiet.start, span.start.min(quiet.end())),
                Span::between(span.end().max(quiet.start), quiet.end()),
            ] {
                if !rest.is_empty() {
                    self.add_quiet(rest);
                }
            }
        }
    }
}

impl AsFd for Userfault {
    /// To wait for events.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        self.put_all_back();
    }
}

fn address(page: Vpn) -> u64 {
    page.0.saturating_mul(PAGE_BYTES)
}

fn span_of(room: &Room) -> Span {
    Span::new(room.first(), room.pages() as u64)
}

fn hand_over(fd: &Uffd, span: Span) -> Result<(), i32> {
    calls::register(fd, span.address(), span.bytes().0, mode::MISSING)
}

/// Frames side by side, from an address on that is a multiple of 2 MiB, to put pages into.
#[derive(Debug)]
pub struct Block {
    room: Room,
    filled: usize,
}

impl Block {
    /// Asks for a huge folio, and fills it with something: what holds zeros alone the kernel gives
    /// back where it divides the folio. Whether it is one is for the caller to see, before any
    /// page is used.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new() -> Result<Self, i32> {
        let mut room = Room::map(REGION_PAGES as usize, true)?;
        (0..room.pages()).for_each(|page| room.mark(page));
        Ok(Self { room, filled: 0 })
    }

    /// Has the kernel not make a huge folio of what is left again.
    pub fn stay_divided(&mut self) {
        self.room.decline_huge();
    }

    /// Where it lies.
    pub fn span(&self) -> Span {
        Span::new(self.room.first(), REGION_PAGES)
    }

    /// Pages used so far; those are somewhere else now.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Whether no page is left.
    pub fn is_full(&self) -> bool {
        self.filled == self.room.pages()
    }
}

/// What who takes out pages for long, and many of them, wants to know.
impl Userfault {
    /// The slot in which a page is.
    pub fn slot_of(&self, page: Vpn) -> Option<usize> {
        self.slots.iter().position(|slot| *slot == Slot::Out(page))
    }

    /// The first empty slot from one on, or else of all.
    pub fn empty_slot(&self, from: usize) -> Option<usize> {
        let is_empty = |slot: &usize| self.slots[*slot] == Slot::Empty;
        (from..self.slots.len()).find(is_empty).or_else(|| (0..from).find(is_empty))
    }

    /// Pages that are out.
    pub fn pages_out(&self) -> impl Iterator<Item = Vpn> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Out(page) => Some(*page),
            _ => None,
        })
    }

    /// Puts back the pages of a span; gives how many those were.
    pub fn put_back_in(&mut self, span: Span) -> usize {
        let mut pages = 0;
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot], Slot::Out(page) if span.contains(page)) {
                self.put_back(slot);
                pages += 1;
            }
        }
        pages
    }

    /// Slots that hold contents which nobody needs.
    pub fn used_slots(&self) -> usize {
        self.slots.iter().filter(|slot| **slot == Slot::Used).count()
    }

    /// Moves the page in a slot to a node, while nobody can touch it; whether it is there now.
    pub fn move_to_node(&mut self, slot: usize, node: u32) -> bool {
        move_own_page(self.room.address(slot % self.slots.len()), node)
    }
}
