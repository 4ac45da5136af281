//! Load of a library by one thread of a program, which then goes on as before.
//!
//! At every moment the thread, let go, finishes by itself: it returns to a frame like that of a signal
//! handler, which is all that is needed, on its stack. As long as we are there, its registers are set
//! back by us instead, so that the kernel decides what becomes of the system call that was interrupted, and
//! of signals that have come.

use super::frame::{CALL, CODE_SEGMENT, Frame, frame};
use super::program::{Program, thread_is_free};
use super::stack::{holds_signal_frame, used};
use super::waiting::{Call, undisturbed};
use crate::sys::loader;
use crate::sys::ptrace::{Registers, Stop, Tracee, Until, Waited};
use frostline_linux::LinuxError;
use std::time::{Duration, Instant};

/// A thread that waits stops at once.
const STOPS_WITHIN: Duration = Duration::from_secs(2);
/// Loading takes milliseconds, but others may be loading, too.
const LOADS_WITHIN: Duration = Duration::from_secs(30);
/// All signals.
const ALL: u64 = u64::MAX;
/// No system call, which is not to be made again then.
const NO_CALL: u64 = u64::MAX;
/// Direction and single step: functions begin without.
const ODD_FLAGS: u64 = 1 << 10 | 1 << 8;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The library is there.
    Loaded,
    /// It cannot be loaded, for this reason.
    Refused(String),
    /// We have let the thread go before it had finished.
    LetGo,
    /// This thread cannot be taken now, for this reason. It goes on.
    Unfit(&'static str),
}

/// One error in the middle of it.
enum Failed {
    /// Of the kernel.
    Errno(&'static str, i32),
    Other(LinuxError),
    Ended,
    LetGo,
}

impl From<LinuxError> for Failed {
    fn from(error: LinuxError) -> Self {
        Self::Other(error)
    }
}

fn call(name: &'static str) -> impl Fn(i32) -> Failed {
    move |errno| if errno == libc::ESRCH { Failed::Ended } else { Failed::Errno(name, errno) }
}

/// Has thread `tid` of the program load the library, if it still waits in the system call that was seen.
///
/// # Errors
/// Without the right to; [`LinuxError::Gone`] where the thread ends.
pub fn load(program: &Program<'_>, tid: u32, seen: Call) -> Result<Done, LinuxError> {
    if let Err(why) = thread_is_free(program.target, tid) {
        return Ok(Done::Unfit(why));
    }
    // The kernel lets go of all that a thread traces when that thread ends, stopped or not: nothing that
    // we return from leaves somebody traced.
    let attempt = || attempt(program, tid, seen);
    let done = std::thread::scope(|scope| scope.spawn(attempt).join());
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    done.or_else(|failed| match failed {
        Failed::LetGo => Ok(Done::LetGo),
        Failed::Ended => {
            program.target.check_alive()?;
            Ok(Done::Unfit("it has ended"))
        }
        Failed::Errno(name, errno) => {
            // Of what ends at this moment the kernel says that it may not be traced.
            program.target.check_alive()?;
            if errno == libc::EPERM && !program.target.threads()?.contains(&tid) {
                return Ok(Done::Unfit("it has ended"));
            }
            Err(LinuxError::call(name, program.target.pid(), errno))
        }
        Failed::Other(error) => Err(error),
    })
}

fn attempt(program: &Program<'_>, tid: u32, seen: Call) -> Result<Done, Failed> {
    let tracee = Tracee::seize(tid).map_err(call("ptrace"))?;
    // Until it was seized, its number could become that of a thread elsewhere. From here on it cannot.
    if !program.target.threads()?.contains(&tid) {
        return Ok(Done::Unfit("it has ended, and another process has its number"));
    }
    if !stop(&tracee, Instant::now() + STOPS_WITHIN)? {
        // A group of threads that was stopped stays so.
        let _ = tracee.detach(0);
        return Ok(Done::Unfit("its process is stopped"));
    }
    let before = tracee.registers().map_err(call("ptrace"))?;
    match prepare(program, &tracee, &before, seen) {
        Ok(frame) => go(program, tracee, &before, &frame),
        Err(why) => {
            tracee.set_registers(&undisturbed(&before)).map_err(call("ptrace"))?;
            tracee.detach(0).map_err(call("ptrace"))?;
            why.map(Done::Unfit)
        }
    }
}

/// Stops a thread; false where its process is stopped as a whole.
fn stop(tracee: &Tracee, until: Instant) -> Result<bool, Failed> {
    tracee.interrupt().map_err(call("ptrace"))?;
    loop {
        match tracee.wait(until) {
            Waited::Stopped(Stop::Interrupted) => return Ok(true),
            Waited::Stopped(Stop::Signal(signal)) => {
                tracee.resume(Until::Interrupted, signal).map_err(call("ptrace"))?;
            }
            Waited::Stopped(Stop::Call) => {
                tracee.resume(Until::Interrupted, 0).map_err(call("ptrace"))?;
            }
            Waited::Stopped(Stop::Other) => return Ok(false),
            Waited::Late => return Err(Failed::Errno("ptrace", libc::ETIMEDOUT)),
            Waited::Ended => return Err(Failed::Ended),
        }
    }
}

type Why = Result<&'static str, Failed>;

/// Checks what the stopped thread is doing, and puts a frame on its stack, below all that is in use.
fn prepare(
    program: &Program<'_>,
    tracee: &Tracee,
    before: &Registers,
    seen: Call,
) -> Result<Frame, Why> {
    if interrupted(program, before) != Some(seen) {
        return Err(Ok("it went on before it was stopped"));
    }
    let Some(stack) = used(&program.mappings, before, program.stack_limit) else {
        return Err(Ok("its stack is not of the C library's making, or has no room"));
    };
    if holds_signal_frame(&program.memory, &program.mappings, stack) {
        return Err(Ok("it runs a signal handler"));
    }
    let read = || Ok((tracee.mask()?, tracee.extended()?));
    let (mask, extended) = read().map_err(|errno| Err(self::call("ptrace")(errno)))?;
    let functions = (program.functions.getpid, program.functions.sigreturn);
    let frame = frame(before, seen.number as u64, &extended, mask, functions);
    let frame = frame.ok_or(Ok("its registers are of a kind that we do not know"))?;
    program.memory.write(frame.at, &frame.bytes).map_err(|error| Err(error.into()))?;
    Ok(frame)
}

/// The system call in which it was interrupted.
fn interrupted(program: &Program<'_>, before: &Registers) -> Option<Call> {
    let call = Call::interrupted(before).filter(|_| before.cs == CODE_SEGMENT)?;
    call_at(program, call, before.rip)
}

/// A system call that goes on at this address, as it was made.
pub fn call_at(program: &Program<'_>, call: Call, at: u64) -> Option<Call> {
    let mut code = [0; 7];
    program.memory.read(at.checked_sub(7)?, &mut code).ok()?;
    call.original(code).filter(|_| code[5..] == CALL)
}

/// The thread calls functions, then it is as before.
fn go(
    program: &Program<'_>,
    tracee: Tracee,
    before: &Registers,
    frame: &Frame,
) -> Result<Done, Failed> {
    let ptrace = call("ptrace");
    let mask = tracee.mask().map_err(&ptrace)?;
    let extended = tracee.extended().map_err(&ptrace)?;
    let begin =
        Registers { rax: 0, orig_rax: NO_CALL, eflags: before.eflags & !ODD_FLAGS, ..*before };
    let map = Registers {
        rip: program.functions.mmap,
        rsp: frame.returns(),
        rdi: 0,
        rsi: loader::BYTES as u64,
        rdx: (libc::PROT_READ | libc::PROT_EXEC) as u64,
        rcx: (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
        r8: u64::MAX,
        r9: 0,
        ..begin
    };
    tracee.set_registers(&map).map_err(&ptrace)?;
    // Not before: with its registers as they were, nobody would give it back its signals.
    tracee.set_mask(ALL).map_err(&ptrace)?;
    let until = Instant::now() + LOADS_WITHIN;
    let mapped = loop {
        let at_call = next_call(&tracee, until)?;
        if !tracee.begins_call().map_err(&ptrace)? {
            break at_call.rax;
        }
    };
    if mapped as i64 <= 0 {
        // It returns to the frame.
        tracee.detach(0).map_err(&ptrace)?;
        return Err(Failed::Errno("mmap", -(mapped as i64) as i32));
    }
    program.memory.write(mapped, &program.loader(mapped))?;
    let load = Registers {
        rip: mapped,
        rbx: mapped + loader::TABLE as u64,
        rsp: frame.at,
        r12: frame.at,
        ..begin
    };
    tracee.set_registers(&load).map_err(&ptrace)?;
    let at_end = loop {
        let at_call = next_call(&tracee, until)?;
        let last = at_call.orig_rax == libc::SYS_getpid as u64 && at_call.rsp == frame.returns();
        if last && tracee.begins_call().map_err(&ptrace)? {
            break at_call;
        }
    };
    let done = match at_end.r14 {
        0 => Done::Refused(program.memory.text(at_end.r13)),
        _ => Done::Loaded,
    };
    // Behind that call, where it may be stopped for signals, and is about to return to the frame.
    tracee.interrupt().map_err(&ptrace)?;
    tracee.resume(Until::Interrupted, 0).map_err(&ptrace)?;
    if !stop(&tracee, until)? {
        tracee.detach(0).map_err(&ptrace)?;
        return Ok(done);
    }
    tracee.set_mask(mask).map_err(&ptrace)?;
    tracee.set_extended(&extended).map_err(&ptrace)?;
    tracee.set_registers(&undisturbed(before)).map_err(&ptrace)?;
    tracee.detach(0).map_err(&ptrace)?;
    Ok(done)
}

/// Goes on to the next beginning or end of a system call.
fn next_call(tracee: &Tracee, until: Instant) -> Result<Registers, Failed> {
    let ptrace = call("ptrace");
    let mut signal = 0;
    loop {
        tracee.resume(Until::Call, signal).map_err(&ptrace)?;
        match tracee.wait(until) {
            Waited::Stopped(Stop::Call) => return tracee.registers().map_err(&ptrace),
            Waited::Stopped(Stop::Signal(other)) => signal = other,
            Waited::Stopped(_) => return Err(Failed::LetGo),
            Waited::Ended => return Err(Failed::Ended),
            Waited::Late => {
                // What it waits for there is not ours to know; it goes on by itself.
                stop(tracee, Instant::now() + STOPS_WITHIN)?;
                return Err(Failed::LetGo);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::inject_tests::{Program as Other, careful_turns, possible};
    use frostline_linux::Root;
    use frostline_linux::process::field;

    #[test]
    fn a_thread_that_has_become_another_process_s_is_left_alone() {
        let _forks = frostline_testing::forks();
        let Some(library) = possible() else { return };
        // Copies of one process: what fits one of them fits the other.
        let [ours, others] = [Other::start(careful_turns()), Other::start(careful_turns())];
        ours.wait_until_taken(&library);
        others.wait_until_taken(&library);
        let target = ours.target();
        let program = Program::open(&target, &library).expect("it is fit");
        let (root, pid) = (Root::system(), others.pid);
        let waits = || root.read(format!("/proc/{pid}/syscall")).expect("it runs");
        let before = waits();
        let call = Call::parse(&before).and_then(|(call, at)| call_at(&program, call, at));
        let done = load(&program, pid, call.expect("it waits")).expect("no error");
        assert!(matches!(done, Done::Unfit(why) if why.contains("another process")), "{done:?}");
        let until = Instant::now() + STOPS_WITHIN;
        let is_traced = || {
            let status = root.read(format!("/proc/{pid}/status")).expect("it runs");
            field(&status, "TracerPid") != Some("0")
        };
        while is_traced() {
            assert!(Instant::now() < until, "it is let go");
            std::thread::sleep(LOOK);
        }
        assert_eq!(waits(), before, "it was not interrupted");
        assert!(!others.has(&library));
        assert!(others.turn() && ours.turn());
    }

    #[test]
    fn a_program_that_ends_is_not_one_that_may_not_be_traced() {
        let _forks = frostline_testing::forks();
        let Some(library) = possible() else { return };
        let other = Other::start(careful_turns());
        other.wait_until_taken(&library);
        let target = other.target();
        let program = Program::open(&target, &library).expect("it is fit");
        let (root, pid) = (Root::system(), other.pid);
        let text = root.read(format!("/proc/{pid}/syscall")).expect("it runs");
        let call = Call::parse(&text).and_then(|(call, at)| call_at(&program, call, at));
        let number = rustix::process::Pid::from_raw(pid as i32).expect("one");
        rustix::process::kill_process(number, rustix::process::Signal::KILL).expect("ours");
        // It is there until it is waited for, and the kernel says EPERM of it.
        while frostline_linux::process::stat(&root, pid).expect("not reaped").state != 'Z' {
            std::thread::sleep(LOOK);
        }
        let done = load(&program, pid, call.expect("it waits"));
        assert!(matches!(done, Err(LinuxError::Gone { pid: gone }) if gone == pid), "{done:?}");
    }

    /// Between two looks.
    const LOOK: Duration = Duration::from_millis(1);
}
