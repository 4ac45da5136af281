//! Passes signals on to the recorded program.

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;
use std::io;
use std::thread::JoinHandle;

/// So many Ctrl-C end a program that does not heed them.
const PATIENCE: u32 = 3;

/// Forwards signals until it is dropped.
///
/// A Ctrl-C at the terminal reaches the program without help, since both are in the foreground
/// process group; the recorder merely survives it, to complete the trace. What another process sent
/// to the recorder alone is passed on.
#[derive(Debug)]
pub struct Forwarder {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Forwards to `child`, which must not be reaped before this is dropped.
    ///
    /// # Errors
    /// Where the operating system refuses.
    pub fn start(child: Pid) -> io::Result<Self> {
        let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        let mut signals = SignalsInfo::<WithOrigin>::new(forwarded)?;
        let handle = signals.handle();
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut interrupts = 0;
            for origin in &mut signals {
                if origin.signal == SIGINT {
                    interrupts += 1;
                }
                let signal = if interrupts >= PATIENCE {
                    Some(Signal::KILL)
                } else if matches!(origin.cause, Cause::Sent(_)) {
                    Signal::from_named_raw(origin.signal)
                } else {
                    None
                };
                if let Some(signal) = signal {
                    // A program that has ended meanwhile needs it no more.
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
