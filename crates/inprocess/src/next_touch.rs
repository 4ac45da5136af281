//! Pages of this process whose next touch shall be known: they are taken out of their places, and a
//! thread of its own puts each back when it is touched.
//!
//! Nothing but time is lost, whatever happens: who touches a page waits until it is back, in system
//! calls as well; `fork` has all put back first; and all are back before the thread ends. The
//! thread allocates nothing, and neither takes locks nor uses memory that belong to the program.
//!
//! Sources: `mm/userfaultfd.c`, `fs/userfaultfd.c` of the kernel.

use crate::sys::away::{self, Away};
use crate::sys::inside::thread_blocks;
use crate::sys::spin_lock::SpinLock;
use crate::sys::uffd::{Event, Taken, Userfault};
use frostline_core::span::{Span, difference, joined};
use frostline_core::types::{PAGE_BYTES, Vpn};
use frostline_linux::LinuxError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

mod ranges;

use ranges::Ranges;

/// Pages that are out at a time: a fork waits for all of them, some 2 us each.
pub const MOST_PAGES: usize = 8192;
/// Pages that are taken out before others may have the lock.
const PIECE: u64 = 64;
/// Touches that are remembered.
const MOST_TOUCHES: usize = 8192;
/// Room for the thread's stack, and what of it may lie above the place where it is looked for.
const STACK_BYTES: usize = 256 << 10;
const STACK_ABOVE_BYTES: u64 = 64 << 10;

/// A page was touched, and is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The page.
    pub page: Vpn,
    /// It was written.
    pub write: bool,
    /// It went to the node that touched pages go to, before whoever touched it went on.
    pub moved: bool,
}

/// Where touched pages go, as far as there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The node.
    pub node: u32,
    /// So many more pages.
    pub room: u64,
}

/// See the module. Values of this kind belong to one thread, and are not sent to others with it
/// holding what the program needs.
#[derive(Debug)]
pub struct NextTouch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    own: Vec<Span>,
    touches: Vec<Touch>,
}

#[derive(Debug)]
struct Shared {
    state: SpinLock<State>,
    /// Readable when the thread shall end.
    end: OwnedFd,
}

#[derive(Debug)]
struct State {
    userfault: Userfault,
    ranges: Ranges,
    /// There while pages are out.
    away: Option<Away>,
    bell: Span,
    /// Touching the bell makes a fault.
    bell_is_set: bool,
    destination: Option<Destination>,
    touches: Vec<Touch>,
    lost: u64,
    /// Where the next empty slot is looked for.
    slot: usize,
    out: usize,
    ended: bool,
}

impl NextTouch {
    /// Starts the thread. No page is out yet.
    ///
    /// # Errors
    /// [`LinuxError::Unsupported`] where the kernel cannot do it, or does not let us do it without
    /// danger to the program.
    pub fn begin() -> Result<Self, LinuxError> {
        let unsupported = |errno: i32| LinuxError::Unsupported {
            what: match errno {
                libc::EPERM => "no right to userfaultfd with all that it takes".into(),
                _ => "this kernel's userfaultfd does not move pages".into(),
            },
            hint: match errno {
                libc::EPERM => "run as root, or with CAP_SYS_PTRACE".into(),
                _ => "it takes Linux 6.8".into(),
            },
        };
        let mut userfault = Userfault::open(MOST_PAGES).map_err(unsupported)?;
        if !userfault.sees_copies() {
            // A child made by a plain `clone` would find zeros.
            return Err(unsupported(libc::EPERM));
        }
        let call = |errno| LinuxError::call("userfaultfd", 0, errno);
        let bell = away::bell().map_err(call)?;
        userfault.register(bell).map_err(call)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| LinuxError::call("eventfd", 0, errno.raw_os_error()))?;
        let own = userfault.own_memory();
        let state = State {
            userfault,
            ranges: Ranges::new(),
            away: None,
            bell,
            bell_is_set: false,
            destination: None,
            touches: Vec::with_capacity(MOST_TOUCHES),
            lost: 0,
            slot: 0,
            out: 0,
            ended: false,
        };
        let shared = Arc::new(Shared { state: SpinLock::new(state), end });
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("frostline-touch".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = tell.send(own_stack());
                drop(tell);
                serve(&theirs);
            })
            .map_err(|error| LinuxError::io("start", "a thread", &error))?;
        let stack = told.recv().unwrap_or(Span::new(Vpn(0), 0));
        let touches = Vec::with_capacity(MOST_TOUCHES);
        Ok(Self { shared, thread: Some(thread), own: vec![own, bell, stack], touches })
    }

    /// Memory that the thread needs itself, and which must not be taken out.
    pub fn own_memory(&self) -> &[Span] {
        &self.own
    }

    /// Where pages shall go when they are touched; `None`: they stay where they are.
    pub fn set_destination(&self, destination: Option<Destination>) {
        self.shared.state.with(|state| state.destination = destination);
    }

    /// Takes pages out, as far as they can be: present base pages that belong to this process
    /// alone. Each span comes with the mapping that it lies in, in which no memory lies of the
    /// thread that calls. Gives how many are out.
    pub fn take_out(&self, spans: &[(Span, Span)]) -> u64 {
        self.set_bell();
        let threads = thread_pages();
        let mut taken = 0;
        for (span, mapping) in spans {
            for part in difference(&[*span], &threads).into_iter().flat_map(|s| s.pieces(PIECE)) {
                taken += self.shared.state.with(|state| state.take_out(part, *mapping));
            }
        }
        taken
    }

    /// Puts pages back, untouched.
    pub fn put_back(&self, span: Span) {
        self.shared.state.with(|state| state.put_back(span));
    }

    /// Pages of a span that are out, ascending.
    pub fn pages_out(&self, span: Span) -> Vec<Vpn> {
        // Nothing may be allocated while others wait for the lock.
        let mut pages = Vec::with_capacity(MOST_PAGES.min(span.pages as usize));
        self.shared.state.with(|state| {
            if state.out > 0 {
                pages.extend(state.userfault.pages_out().filter(|page| span.contains(*page)));
            }
        });
        pages.sort_unstable();
        pages
    }

    /// What was touched since the last call, and how many more touches were not remembered.
    pub fn touched(&mut self) -> (&[Touch], u64) {
        self.touches.clear();
        let touches = &mut self.touches;
        let lost = self.shared.state.with(|state| {
            std::mem::swap(touches, &mut state.touches);
            std::mem::take(&mut state.lost)
        });
        (&self.touches, lost)
    }

    /// To be called once a second or so: gives back what is not needed.
    pub fn tend(&self) {
        self.shared.state.with(State::tend);
    }

    /// A fork that finds pages out makes a fault of its own, by which it calls for them.
    fn set_bell(&self) {
        let set = |state: &mut State| std::mem::replace(&mut state.bell_is_set, true);
        if !self.shared.state.with(set) {
            // Said before it is done: whoever forks in between finds nothing out.
            away::set_bell();
        }
    }
}

impl Drop for NextTouch {
    fn drop(&mut self) {
        self.shared.state.with(State::end);
        let _ = rustix::io::write(&self.shared.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Pages that the kernel writes when a thread ends, ascending: those of what the C library keeps of
/// it, which is less than a page before and after the address that is known.
fn thread_pages() -> Vec<Span> {
    let around = |address: u64| {
        let page = address / PAGE_BYTES;
        Span::between(Vpn(page.saturating_sub(1)), Vpn(page + 2))
    };
    let mut pages: Vec<Span> = thread_blocks().into_iter().map(around).collect();
    pages.sort_unstable_by_key(|span| span.start);
    joined(pages.into_iter())
}

/// Where the stack of this thread is.
fn own_stack() -> Span {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).addr() as u64;
    Span::of_addresses(here.saturating_sub(STACK_BYTES as u64), here + STACK_ABOVE_BYTES)
}

/// The thread: answers until the end.
fn serve(shared: &Shared) {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let faults = shared.state.with(|state| state.userfault.as_fd().try_clone_to_owned());
        let Ok(faults) = faults else { return };
        while wait(faults.as_fd(), shared.end.as_fd()) {
            shared.state.with(|state| state.serve(true));
        }
    }));
    if done.is_err() {
        shared.state.with(State::end);
    }
}

/// Waits for something to answer; false where that is over.
fn wait(faults: BorrowedFd<'_>, end: BorrowedFd<'_>) -> bool {
    let mut both = [PollFd::new(&faults, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
    // Whatever ends the wait, all is looked at.
    let _ = poll(&mut both, None);
    !both[1].revents().contains(PollFlags::IN)
}

impl State {
    /// Answers all who wait. With `moves`, touched pages go where they shall.
    fn serve(&mut self, moves: bool) {
        while let Some(event) = self.userfault.next_event() {
            match event {
                Event::Touched { page, .. } if self.bell.contains(page) => self.ring(page),
                Event::Touched { page, write, .. } => self.touched(page, write, moves),
                // Contents may be there a moment longer, although they are thrown away.
                Event::Removed(span) => self.ranges.avoid_long(span),
                Event::Unmapped(span) => self.ranges.avoid(span),
                Event::Remapped { from, .. } => self.ranges.avoid(from),
                Event::Forked => {}
            }
        }
    }

    /// Somebody forks.
    fn ring(&mut self, page: Vpn) {
        self.all_back();
        self.bell_is_set = false;
        if !self.userfault.zero(page) {
            self.userfault.wake(Span::single(page));
        }
    }

    fn all_back(&mut self) {
        self.userfault.put_all_back();
        self.out = 0;
        self.away = None;
    }

    fn touched(&mut self, page: Vpn, write: bool, moves: bool) {
        let Some(slot) = self.userfault.slot_of(page) else {
            return self.fill(page);
        };
        let mut moved = false;
        if let Some(to) = self.destination.as_mut().filter(|to| moves && to.room > 0) {
            moved = self.userfault.move_to_node(slot, to.node);
            to.room -= u64::from(moved);
        }
        self.userfault.put_back(slot);
        self.userfault.wake(Span::single(page));
        self.out = self.out.saturating_sub(1);
        if self.touches.len() < MOST_TOUCHES {
            self.touches.push(Touch { page, write, moved });
        } else {
            self.lost += 1;
        }
    }

    fn take_out(&mut self, span: Span, mapping: Span) -> u64 {
        self.serve(false);
        if self.ended || !self.bell_is_set {
            return 0;
        }
        if self.away.is_none() {
            self.away = Away::begin();
        }
        let mut taken = 0;
        for page in span.iter() {
            if self.away.is_none() || self.out >= MOST_PAGES || !self.has(page, mapping) {
                break;
            }
            let Some(slot) = self.userfault.empty_slot(self.slot) else { break };
            match self.userfault.take_out(page, slot) {
                Taken::Out => {
                    self.slot = slot + 1;
                    self.out += 1;
                    taken += 1;
                }
                Taken::Absent | Taken::Shared => {}
                Taken::Refused | Taken::Busy => break,
            }
        }
        taken
    }

    /// Whether faults around a page are handed over. Mappings are taken as a whole: a part of one
    /// is a mapping by itself while it is registered, and `mremap` moves one at a time.
    fn has(&mut self, page: Vpn, mapping: Span) -> bool {
        let userfault = &mut self.userfault;
        self.ranges.has(page, mapping, |span| userfault.register(span).is_ok())
    }

    /// Memory is used for the first time, or somebody else has waited for this page.
    fn fill(&mut self, page: Vpn) {
        if !self.userfault.zero(page) {
            self.userfault.wake(Span::single(page));
        } else if let Some(span) = self.ranges.used_first(page) {
            self.out = self.out.saturating_sub(self.userfault.put_back_in(span));
            let _ = self.userfault.unregister(span);
        }
    }

    fn put_back(&mut self, span: Span) {
        if self.out > 0 {
            self.out = self.out.saturating_sub(self.userfault.put_back_in(span));
            self.serve(false);
        }
    }

    fn tend(&mut self) {
        self.serve(false);
        self.out = self.userfault.pages_out().count();
        if self.out > 0 && self.userfault.used_slots() > MOST_PAGES / 4 {
            self.all_back();
        }
        if self.out == 0 {
            self.away = None;
            if self.userfault.used_slots() > 0 {
                let _ = self.userfault.empty_slots();
            }
        }
        let userfault = &mut self.userfault;
        self.ranges.tend(|span| {
            // Where it is not mapped any more, there is nothing to end.
            userfault.unregister(span) != Err(libc::EBUSY)
        });
    }

    fn end(&mut self) {
        self.ended = true;
        self.all_back();
        let userfault = &mut self.userfault;
        self.ranges.clear(|span| {
            let _ = userfault.unregister(span);
        });
        let _ = userfault.unregister(self.bell);
    }
}
