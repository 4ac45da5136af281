//! Stopping one thread of another process, and exchanging what is in its registers.
//!
//! Source: ptrace(2), `kernel/ptrace.c`. All calls must come from the thread that has seized.

use libc::{c_long, c_uint, c_void, pid_t};
use std::ptr;
use std::time::{Duration, Instant};

/// General registers.
pub use libc::user_regs_struct as Registers;

/// x87, SSE, AVX and what else XSAVE saves, in the format of memory (`include/uapi/linux/elf.h`).
const NT_X86_XSTATE: usize = 0x202;
/// More than any processor has, tiles of 8 KiB among it.
const MOST_EXTENDED_BYTES: usize = 64 << 10;
/// `PTRACE_EVENT_STOP`.
const EVENT_STOP: i32 = 128;
/// Size of the kernel's set of signals.
const MASK_BYTES: usize = 8;
/// What tells a system call's stop from a signal's (`PTRACE_O_TRACESYSGOOD`).
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
/// So often is asked without waiting.
const EAGER_LOOKS: u32 = 50;
/// Between two looks after that.
const LOOK: Duration = Duration::from_micros(100);

/// A thread that we can stop. It goes on when this is dropped, or when we end.
#[derive(Debug)]
pub struct Tracee {
    tid: pid_t,
    seized: bool,
}

/// Why it has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// [`Tracee::interrupt`].
    Interrupted,
    /// It begins or ends a system call.
    Call,
    /// It is about to get this signal, which [`Tracee::resume`] has to hand on.
    Signal(i32),
    /// It was stopped as a whole process is, by this signal, or its process executes another program.
    Other,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It has stopped.
    Stopped(Stop),
    /// It is gone.
    Ended,
    /// It has not stopped in time.
    Late,
}

/// How far it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// To the beginning or end of its next system call.
    Call,
    /// Until it is interrupted.
    Interrupted,
}

fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

impl Tracee {
    /// Takes a thread, without stopping it.
    ///
    /// # Errors
    /// The kernel's error number: `EPERM` without the right, or where somebody else has it.
    pub fn seize(tid: u32) -> Result<Self, i32> {
        let mut tracee = Self { tid: tid as pid_t, seized: false };
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
        tracee.ask(libc::PTRACE_SEIZE, 0, ptr::without_provenance_mut(options as usize))?;
        tracee.seized = true;
        Ok(tracee)
    }

    /// One request, of those by which the kernel writes nothing into our memory but where `data` leads.
    fn ask(&self, request: c_uint, address: usize, data: *mut c_void) -> Result<c_long, i32> {
        #[cfg(test)]
        frostline_testing::death::come_closer();
        let address: *mut c_void = ptr::without_provenance_mut(address);
        // SAFETY: the callers below hand over a number, or memory of their own that is as large as
        // the request says; what changes is the state of another process.
        let result = unsafe { libc::ptrace(request, self.tid, address, data) };
        if result == -1 { Err(last()) } else { Ok(result) }
    }

    /// Stops it as soon as may be; a system call that waits is interrupted.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn interrupt(&self) -> Result<(), i32> {
        self.ask(libc::PTRACE_INTERRUPT, 0, ptr::null_mut()).map(drop)
    }

    /// Waits until it stops.
    pub fn wait(&self, until: Instant) -> Waited {
        let mut looks = 0;
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes a number, for which there is room.
            let tid =
                unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if tid == self.tid {
                return Self::stop(status);
            }
            if tid < 0 && last() != libc::EINTR {
                return Waited::Ended;
            }
            if Instant::now() >= until {
                return Waited::Late;
            }
            looks += 1;
            if looks < EAGER_LOOKS {
                rustix::thread::sched_yield();
            } else {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn stop(status: i32) -> Waited {
        if !libc::WIFSTOPPED(status) {
            return Waited::Ended;
        }
        Waited::Stopped(match (status >> 16, libc::WSTOPSIG(status)) {
            (EVENT_STOP, libc::SIGTRAP) => Stop::Interrupted,
            (0, CALL_STOP) => Stop::Call,
            (0, signal) => Stop::Signal(signal),
            _ => Stop::Other,
        })
    }

    /// Has it go on; `signal` is what it was about to get, or 0.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped.
    pub fn resume(&self, until: Until, signal: i32) -> Result<(), i32> {
        let request = match until {
            Until::Call => libc::PTRACE_SYSCALL,
            Until::Interrupted => libc::PTRACE_CONT,
        };
        self.ask(request, 0, ptr::without_provenance_mut(signal as usize)).map(drop)
    }

    /// Lets a stopped thread go for good.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped; it goes on when we end.
    pub fn detach(mut self, signal: i32) -> Result<(), i32> {
        self.seized = false;
        self.ask(libc::PTRACE_DETACH, 0, ptr::without_provenance_mut(signal as usize)).map(drop)
    }

    /// General registers of a stopped thread.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped.
    pub fn registers(&self) -> Result<Registers, i32> {
        // SAFETY: numbers, which may all be zero.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.ask(libc::PTRACE_GETREGS, 0, (&raw mut registers).cast())?;
        Ok(registers)
    }

    /// Sets them.
    ///
    /// # Errors
    /// Where it has ended, is not stopped, or no program may have such registers.
    pub fn set_registers(&self, registers: &Registers) -> Result<(), i32> {
        let mut registers = *registers;
        self.ask(libc::PTRACE_SETREGS, 0, (&raw mut registers).cast()).map(drop)
    }

    /// All other registers of a stopped thread, as XSAVE writes them.
    ///
    /// # Errors
    /// Where it has ended, is not stopped, or the processor has no XSAVE.
    pub fn extended(&self) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; MOST_EXTENDED_BYTES];
        let mut place = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.ask(libc::PTRACE_GETREGSET, NT_X86_XSTATE, (&raw mut place).cast())?;
        bytes.truncate(place.iov_len);
        Ok(bytes)
    }

    /// Sets them.
    ///
    /// # Errors
    /// As for [`Self::set_registers`].
    pub fn set_extended(&self, bytes: &[u8]) -> Result<(), i32> {
        let mut bytes = bytes.to_vec();
        let mut place = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.ask(libc::PTRACE_SETREGSET, NT_X86_XSTATE, (&raw mut place).cast()).map(drop)
    }

    /// Signals that a stopped thread blocks: bit 0 is signal 1.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped.
    pub fn mask(&self) -> Result<u64, i32> {
        let mut mask = 0_u64;
        self.ask(libc::PTRACE_GETSIGMASK, MASK_BYTES, (&raw mut mask).cast())?;
        Ok(mask)
    }

    /// Sets them; those that nobody can block stay unblocked.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped.
    pub fn set_mask(&self, mask: u64) -> Result<(), i32> {
        let mut mask = mask;
        self.ask(libc::PTRACE_SETSIGMASK, MASK_BYTES, (&raw mut mask).cast()).map(drop)
    }

    /// Whether a thread that has stopped for a system call is at its beginning.
    ///
    /// # Errors
    /// Where it has ended, or is not stopped.
    pub fn begins_call(&self) -> Result<bool, i32> {
        const ENTRY: u8 = 1;
        let mut info = [0_u8; 128];
        self.ask(libc::PTRACE_GET_SYSCALL_INFO, info.len(), info.as_mut_ptr().cast())?;
        Ok(info[0] == ENTRY)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.seized {
            // Where it runs now, it goes on when we end.
            let _ = self.ask(libc::PTRACE_DETACH, 0, ptr::null_mut());
        }
    }
}

/// What a kept part of the extended registers needs: its size and where it begins, in bytes.
///
/// Source: Intel SDM volume 1, 13.2: `CPUID` leaf 0xD.
pub fn extended_component(number: u32) -> (usize, usize) {
    #[allow(unused_unsafe, reason = "safe since some version of Rust")]
    // SAFETY: every 64-bit processor has this instruction; leaves that it does not know are zero or
    // those of another one, and numbers in any case.
    let leaf = unsafe { std::arch::x86_64::__cpuid_count(0xD, number) };
    (leaf.eax as usize, leaf.ebx as usize)
}

/// All of them zero.
#[cfg(test)]
pub fn no_registers() -> Registers {
    // SAFETY: numbers, which may all be zero.
    unsafe { std::mem::zeroed() }
}
