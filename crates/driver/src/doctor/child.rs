//! A process to try things on: it has some memory, and does to it what it is told.

use frostline_core::span::{REGION_PAGES, Span};
use frostline_core::{PAGE_BYTES, Vpn};
use frostline_linux::LinuxError;
use frostline_linux::Root;
use frostline_linux::in_forked_child;
use frostline_linux::process::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, pidfd_send_signal, set_parent_process_death_signal,
    waitpid,
};

const PAGE: usize = PAGE_BYTES as usize;
/// Regions of 2 MiB that the child has.
const REGIONS: usize = 2;
/// Pages that [`Order::Touch`] touches.
pub const TOUCHED_PAGES: usize = 64;
/// Bytes that [`Order::Allocate`] asks for: more than C libraries ever keep for later.
pub const ALLOCATED_BYTES: usize = 40 << 20;
/// An answer that takes longer than this will not come.
const TIMEOUT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// What the child can be told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Touch [`TOUCHED_PAGES`] pages of other memory. Answers with their address.
    Touch = 1,
    /// Map and unmap [`ALLOCATED_BYTES`]. Answers with their address.
    Allocate = 2,
    /// Read every page of its memory.
    Read = 3,
}

/// The process. It ends when this is dropped, and with the thread that started it.
#[derive(Debug)]
pub struct Child {
    target: Target,
    memory: Span,
    orders: OwnedFd,
    answers: OwnedFd,
}

impl Child {
    /// Starts it and waits until its memory is there.
    pub fn start(root: &Root) -> Result<Self, LinuxError> {
        let (inbox, orders) = pipe()?;
        let (answers, outbox) = pipe()?;
        let parent = Some(getpid());
        let pid = in_forked_child(|| {
            // The copy holds both ends of both pipes, so it would not see ours closed.
            let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
            if bound && getppid() == parent { serve(&inbox, &outbox) } else { 1 }
        })?;
        drop((inbox, outbox));
        let target = match Target::open(root, pid) {
            Ok(target) => target,
            Err(error) => {
                // Without anybody to answer to it ends by itself.
                drop((orders, answers));
                wait_for(pid);
                return Err(error);
            }
        };
        let mut child = Self { target, memory: Span::new(Vpn(0), 0), orders, answers };
        let address = child.answer()?;
        child.memory = Span::new(Vpn(address / PAGE_BYTES), REGIONS as u64 * REGION_PAGES);
        Ok(child)
    }

    /// The process.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its memory: two regions of 2 MiB, aligned, every page written.
    pub fn memory(&self) -> Span {
        self.memory
    }

    /// Lets it do something, and waits until it is done.
    pub fn tell(&mut self, order: Order) -> Result<u64, LinuxError> {
        rustix::io::write(&self.orders, &[order as u8]).map_err(|error| failed("write", error))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<u64, LinuxError> {
        let mut ready = [PollFd::new(&self.answers, PollFlags::IN)];
        let count = poll(&mut ready, Some(&TIMEOUT)).map_err(|error| failed("poll", error))?;
        let mut bytes = [0; 8];
        let read = if count == 0 {
            0
        } else {
            rustix::io::read(&self.answers, &mut bytes).map_err(|error| failed("read", error))?
        };
        if read < bytes.len() {
            return Err(LinuxError::Gone { pid: self.target.pid() });
        }
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself already, and where SIGCHLD is ignored its number be another's.
        let _ = pidfd_send_signal(&self.target, Signal::KILL);
        wait_for(self.target.pid());
    }
}

fn wait_for(pid: u32) {
    let _ = waitpid(Pid::from_raw(pid as i32), WaitOptions::empty());
}

fn pipe() -> Result<(OwnedFd, OwnedFd), LinuxError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed("pipe2", error))
}

fn failed(call: &'static str, error: rustix::io::Errno) -> LinuxError {
    LinuxError::call(call, 0, error.raw_os_error())
}

/// The child's life: memory first, then orders until nobody gives any.
fn serve(inbox: &OwnedFd, outbox: &OwnedFd) -> u8 {
    let region = REGION_PAGES as usize * PAGE;
    let mut space = vec![0u8; (REGIONS + 1) * region];
    let start = space.as_ptr().align_offset(region).min(region);
    let memory = &mut space[start..start + REGIONS * region];
    write_pages(memory);
    let mut others = Vec::new();
    let mut answer = memory.as_ptr() as u64;
    let mut order = [0];
    while rustix::io::write(outbox, &answer.to_ne_bytes()).is_ok()
        && rustix::io::read(inbox, &mut order) == Ok(1)
    {
        answer = match order[0] {
            x if x == Order::Touch as u8 => {
                let mut fresh = vec![0u8; TOUCHED_PAGES * PAGE];
                write_pages(&mut fresh);
                let address = fresh.as_ptr() as u64;
                others.push(fresh);
                address
            }
            x if x == Order::Allocate as u8 => {
                let memory = std::hint::black_box(Vec::<u8>::with_capacity(ALLOCATED_BYTES));
                memory.as_ptr() as u64
            }
            _ => memory.chunks(PAGE).map(|page| u64::from(std::hint::black_box(page)[1])).sum(),
        };
    }
    0
}

/// Different non-zero contents in every page: pages of zeros are a case of their own.
fn write_pages(memory: &mut [u8]) {
    for (i, page) in memory.chunks_mut(PAGE).enumerate() {
        for (j, byte) in page.iter_mut().enumerate() {
            *byte = (i * 31 + j * 7) as u8 | 1;
        }
    }
    std::hint::black_box(memory);
}
