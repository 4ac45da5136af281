//! Ctrl-C: asks long loops to stop; a second one stops at once.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

struct State {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// Takes over SIGINT, SIGTERM and SIGHUP. Commands that run long call it first; without it the
/// signals end the program as usual. May be called more than once.
///
/// # Errors
/// Where the operating system refuses.
pub fn install() -> anyhow::Result<()> {
    install_for(&[SIGINT, SIGTERM, SIGHUP])
}

/// As [`install`], for programs that SIGHUP tells to read their configuration again: the flag is
/// set then.
///
/// # Errors
/// As [`install`].
pub fn install_with_reload() -> anyhow::Result<Arc<AtomicBool>> {
    install_for(&[SIGINT, SIGTERM])?;
    let reload = Arc::default();
    flag::register(SIGHUP, Arc::clone(&reload))?;
    Ok(reload)
}

fn install_for(signals: &[i32]) -> anyhow::Result<()> {
    if STATE.get().is_some() {
        return Ok(());
    }
    let state = State { asked: Arc::default(), signal: Arc::default() };
    for &signal in signals {
        // Order matters: the second signal finds the flag set and ends the program.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&state.asked))?;
        flag::register_usize(signal, Arc::clone(&state.signal), signal as usize)?;
        flag::register(signal, Arc::clone(&state.asked))?;
    }
    let _ = STATE.set(state);
    Ok(())
}

/// Whether the user has asked to stop. Cheap enough for once per batch.
pub fn requested() -> bool {
    STATE.get().is_some_and(|state| state.asked.load(Ordering::Relaxed))
}

/// An error that ends the program with 128 + signal, where a stop was asked for.
///
/// # Errors
/// Where the user has asked to stop.
pub fn check() -> anyhow::Result<()> {
    if requested() { Err(interrupted("")) } else { Ok(()) }
}

/// The error to return after stopping early; says what is left behind, if anything.
pub fn interrupted(what_is_left: &str) -> anyhow::Error {
    crate::errors::interrupted(signal(), what_is_left)
}

/// The signal that asked to stop; SIGINT where none has come.
pub fn signal() -> i32 {
    let signal = STATE.get().map_or(0, |state| state.signal.load(Ordering::Relaxed));
    if signal == 0 { SIGINT } else { signal as i32 }
}
