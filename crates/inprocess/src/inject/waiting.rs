//! System calls in which a thread may be made to do something else.
//!
//! Only where it waits for others, in a call that neither an allocator nor the C library makes while
//! it holds a lock, and that can be made again.

use super::frame::CALL;
use crate::sys::ptrace::Registers;

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Sleeps that are shorter may be those of somebody who waits for a lock.
const LEAST_SLEEP_NS: u64 = 10_000_000;

/// What a call gives that a signal, or we, have interrupted, before the kernel has decided what becomes
/// of it: made again, made again unless a handler runs, and so on (`include/linux/errno.h`).
const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
/// Made again, unless a handler runs.
pub const RESTART_WITHOUT_HANDLER: i64 = -514;
const INTERRUPTED: i64 = -(libc::EINTR as i64);

impl Call {
    /// From a thread's `syscall` file, with the address at which it goes on; `None` where it waits for
    /// nothing.
    pub fn parse(text: &str) -> Option<(Self, u64)> {
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = next()?;
        }
        let _stack = next()?;
        Some((Self { number, arguments }, next()?))
    }

    /// The one that registers say was interrupted; `None` where none was.
    pub fn interrupted(registers: &Registers) -> Option<Self> {
        let result = registers.rax as i64;
        let r = registers;
        (RESTARTS.contains(&result) || result == INTERRUPTED).then_some(Self {
            number: r.orig_rax as i64,
            arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
        })
    }

    /// The one that a call goes on with which was interrupted before: the kernel does not tell, but the
    /// instruction before does (`mov $number, %eax`). `code` are the seven bytes up to where it goes on.
    pub fn original(self, code: [u8; 7]) -> Option<Self> {
        if self.number != libc::SYS_restart_syscall {
            return Some(self);
        }
        let [0xb8, a, b, c, d, first, second] = code else { return None };
        let number = i64::from(u32::from_le_bytes([a, b, c, d]));
        ([first, second] == CALL).then_some(Self { number, ..self })
    }

    /// Whether its thread may be made to do something else. `word` reads memory of the program, and
    /// `is_thread` says whether a number is that of one of its threads. To be asked before it is
    /// interrupted: the kernel puts what is left of a sleep where its length may have been.
    pub fn is_fit(
        &self,
        word: impl Fn(u64) -> Option<u64>,
        is_thread: impl Fn(u64) -> bool,
    ) -> bool {
        let [first, second, third, fourth, fifth, sixth] = self.arguments;
        let sleeps = |address| {
            let (seconds, ns) = (word(address), word(address + 8));
            seconds.zip(ns).is_some_and(|(seconds, ns)| seconds > 0 || ns >= LEAST_SLEEP_NS)
        };
        match self.number {
            libc::SYS_read
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_poll
            | libc::SYS_select
            | libc::SYS_pause
            | libc::SYS_epoll_wait
            | libc::SYS_rt_sigtimedwait => true,
            // Not with other signals blocked for as long as it takes.
            libc::SYS_ppoll => fourth == 0,
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => fifth == 0,
            libc::SYS_pselect6 => sixth == 0 || word(sixth) == Some(0),
            libc::SYS_nanosleep => sleeps(first),
            libc::SYS_clock_nanosleep => second != 0 || sleeps(third),
            // For the end of a thread, whose number is in the word that it looks at (pthread_join).
            libc::SYS_futex => {
                const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
                const CLOCK: u64 = libc::FUTEX_CLOCK_REALTIME as u64;
                let waits = [libc::FUTEX_WAIT as u64, libc::FUTEX_WAIT_BITSET as u64];
                second & PRIVATE == 0 && waits.contains(&(second & !CLOCK)) && is_thread(third)
            }
            _ => false,
        }
    }

    /// Whether being interrupted shows: there is no other trace of us where the kernel makes it again.
    pub fn shows(&self) -> bool {
        matches!(
            self.number,
            libc::SYS_epoll_wait
                | libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2
                | libc::SYS_rt_sigtimedwait
        )
    }
}

/// What a stopped thread's registers should be for it to go on as if it had not been stopped: calls that
/// fail when they are interrupted are made again, unless a handler runs.
pub fn undisturbed(registers: &Registers) -> Registers {
    let mut registers = *registers;
    if registers.rax as i64 == INTERRUPTED && registers.orig_rax as i64 >= 0 {
        registers.rax = RESTART_WITHOUT_HANDLER as u64;
    }
    registers
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: u64 = 0x100;

    fn fit(text: &str, value: u64) -> bool {
        let (call, at) = Call::parse(text).expect("a call");
        assert_eq!(at, 0x7f00);
        // Seconds, and what is behind the point; or a set of signals.
        let seconds = if text.starts_with("230 ") { 0 } else { value };
        let words = [(WORD, seconds), (WORD + 8, value)];
        let word = |at| words.iter().find(|(word, _)| *word == at).map(|(_, value)| *value);
        call.is_fit(word, |tid| tid == 42)
    }

    #[test]
    fn threads_that_wait_for_others_are_taken_and_no_others() {
        let rest = "0x7ffd00 0x7f00";
        assert!(fit(&format!("232 0x3 0x100 0x8 0xffffffff 0x0 0x0 {rest}"), 0), "epoll_wait");
        assert!(fit(&format!("281 0x3 0x100 0x8 0x5 0x0 0x8 {rest}"), 0), "epoll_pwait");
        assert!(!fit(&format!("281 0x3 0x100 0x8 0x5 0x100 0x8 {rest}"), 0), "with signals");
        assert!(fit(&format!("270 0x0 0x0 0x0 0x0 0x0 0x100 {rest}"), 0), "select");
        assert!(!fit(&format!("270 0x0 0x0 0x0 0x0 0x0 0x100 {rest}"), 1), "with signals");
        assert!(!fit(&format!("1 0x1 0x100 0x8 0x0 0x0 0x0 {rest}"), 0), "write");
        assert!(!fit(&format!("9 0x0 0x100 0x8 0x0 0x0 0x0 {rest}"), 0), "mmap");
        for (ns, is_fit) in [(2_000_000, false), (10_000_000, true)] {
            assert_eq!(fit(&format!("230 0x0 0x0 0x100 0x0 0x0 0x0 {rest}"), ns), is_fit);
        }
        assert!(!fit(&format!("230 0x0 0x0 0x500 0x0 0x0 0x0 {rest}"), 0), "unreadable");
        assert!(fit(&format!("202 0x100 0x109 0x2a 0x0 0x0 0xffffffff {rest}"), 0), "join");
        assert!(!fit(&format!("202 0x100 0x109 0x2 0x0 0x0 0xffffffff {rest}"), 0), "a lock");
        assert!(!fit(&format!("202 0x100 0x189 0x2a 0x0 0x0 0x0 {rest}"), 0), "a private one");
        for text in ["running", "-1 0x7ffd00 0x7f00", ""] {
            assert_eq!(Call::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_call_goes_on_with_is_told_by_its_code() {
        let again = Call { number: libc::SYS_restart_syscall, arguments: [0; 6] };
        let poll = again.original([0xb8, 7, 0, 0, 0, 0x0f, 0x05]);
        assert_eq!(poll.map(|call| call.number), Some(libc::SYS_poll));
        assert_eq!(again.original([0x89, 7, 0, 0, 0, 0x0f, 0x05]), None);
        let read = Call { number: libc::SYS_read, ..again };
        assert_eq!(read.original([0; 7]), Some(read));
    }
}
