//! A program that we have started, and pass signals on to.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
/// So many Ctrl-C in a row end a program under [`CtrlC::Insists`].
const PRESSES: usize = 3;
/// They are in a row where no more time than that lies between the first and the last.
const ROW: Duration = Duration::from_secs(2);

/// What Ctrl-C at the terminal does, beside what the program makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtrlC {
    /// Nothing, however often it comes: shells and editors go on after it.
    IsTheirs,
    /// Three within two seconds kill the program.
    Insists,
}

/// A program that was started, and is not waited for yet, so that its number is its own.
///
/// Signals that other processes send to us are passed on to it, one for one. A Ctrl-C at the terminal
/// is not: it reaches the program without help, since both are in the foreground process group, and we
/// merely survive it. What the program itself sends us stays with us, or it would hit itself, as in
/// sudo(8).
#[derive(Debug)]
pub struct Running {
    child: Child,
    forwarder: Forwarder,
}

impl Running {
    /// Starts the program.
    ///
    /// # Errors
    /// As [`Command::spawn`]; where signals cannot be caught, the program does not go on.
    pub fn start(command: &mut Command, ctrl_c: CtrlC) -> io::Result<Self> {
        // Where our parent had SIGCHLD ignored, the kernel would wait for the program in our place:
        // its exit code would be lost, and its number free.
        flag::register(SIGCHLD, Arc::default())?;
        let ignored = ignored();
        let is_ignored = |signal: &i32| ignored >> (signal - 1) & 1 == 1;
        let (later, now): (Vec<i32>, Vec<i32>) = PASSED_ON.into_iter().partition(is_ignored);
        let signals = SignalsInfo::<WithOrigin>::new(now)?;
        let mut child = command.spawn()?;
        // Before that, the program would not ignore them as it does without us (nohup(1)).
        let caught = later.into_iter().try_for_each(|signal| signals.handle().add_signal(signal));
        match caught.and_then(|()| Forwarder::start(signals, Pid::from_child(&child), ctrl_c)) {
            Ok(forwarder) => Ok(Self { child, forwarder }),
            Err(error) => {
                child.kill().and_then(|()| child.wait())?;
                Err(error)
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        !matches!(self.look(WaitIdOptions::NOHANG), Ok(false))
    }

    /// Asks it to end (SIGTERM).
    pub fn end(&self) {
        // As for killing.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    /// Kills it.
    pub fn kill(&self) {
        // One that has ended needs it no more.
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Waits for its end. Signals are passed on until then, and not afterwards: its number may belong
    /// to somebody else.
    ///
    /// # Errors
    /// Those of wait(2).
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        while let Err(Errno::INTR) = self.look(WaitIdOptions::empty()) {}
        drop(self.forwarder);
        self.child.wait()
    }

    /// Whether it has ended. It stays where it is for [`Self::wait`].
    fn look(&self, how: WaitIdOptions) -> rustix::io::Result<bool> {
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
        waitid(id, options).map(|status| status.is_some())
    }
}

/// Passes signals on to a child until it is dropped. The child is to be waited for after that.
#[derive(Debug)]
struct Forwarder {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    fn start(mut signals: SignalsInfo<WithOrigin>, child: Pid, ctrl_c: CtrlC) -> io::Result<Self> {
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut presses = Presses::default();
            for origin in &mut signals {
                let insists = ctrl_c == CtrlC::Insists && is_ctrl_c(&origin);
                let signal = if insists && presses.make_a_row(Instant::now()) {
                    Some(Signal::KILL)
                } else if is_passed_on(&origin, child) {
                    Signal::from_named_raw(origin.signal)
                } else {
                    None
                };
                if let Some(signal) = signal {
                    // It may have ended, but is not waited for.
                    let _ = kill_process(child, signal);
                }
            }
        })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It does nothing that panics.
            let _ = thread.join();
        }
    }
}

/// The signals that this process ignores, the first in the lowest bit; all where that is not told
/// (proc_pid_status(5)).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX)
}

fn is_ctrl_c(origin: &Origin) -> bool {
    origin.signal == SIGINT && matches!(origin.cause, Cause::Kernel)
}

fn is_passed_on(origin: &Origin, child: Pid) -> bool {
    let by_child =
        origin.process.is_some_and(|process| process.pid == child.as_raw_nonzero().get());
    matches!(origin.cause, Cause::Sent(_)) && !by_child
}

/// The latest Ctrl-C.
#[derive(Debug, Default)]
struct Presses([Option<Instant>; PRESSES]);

impl Presses {
    /// Notes one; whether it is the last of a row.
    fn make_a_row(&mut self, now: Instant) -> bool {
        self.0.rotate_left(1);
        self.0[PRESSES - 1] = Some(now);
        self.0[0].is_some_and(|first| now.duration_since(first) <= ROW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ctrl_c_in_a_row_insists() {
        let mut presses = Presses::default();
        let start = Instant::now();
        let mut press = |millis| presses.make_a_row(start + Duration::from_millis(millis));
        let slowly: Vec<bool> = (0..10).map(|nth| press(nth * 1100)).collect();
        assert_eq!(slowly, [false; 10]);
        assert_eq!([20_000, 21_000, 22_000].map(&mut press), [false, false, true]);
        assert_eq!([30_000, 30_500, 32_400, 32_450].map(&mut press), [false, false, false, true]);
    }

    #[test]
    fn a_program_that_has_ended_keeps_its_number_until_it_is_waited_for() {
        let mut command = Command::new("sh");
        let running = Running::start(command.args(["-c", "exit 7"]), CtrlC::IsTheirs).unwrap();
        while !running.has_ended() {
            std::thread::yield_now();
        }
        assert!(std::path::Path::new(&format!("/proc/{}", running.id())).exists());
        running.kill();
        assert_eq!(running.wait().unwrap().code(), Some(7));
    }
}
