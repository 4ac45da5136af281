//! Records memory traces of real, unmodified programs.
//!
//! The program runs under a Valgrind tool that models a cache hierarchy and sends what misses it
//! through a pipe; this crate finds or builds the tool ([`Tool`]), starts it, reads the pipe and
//! writes a native trace ([`record`]). The tool is a separate program with a licence of its own
//! (GPL-2.0-or-later); the pipe is documented in `docs/formats/recorder-pipe.md`.
#![forbid(unsafe_code)]

mod address_space;
mod error;
mod packet;
mod program;
mod session;
mod signals;
mod tool;
mod translate;

pub use error::RecordError;
pub use session::{Options, Outcome, Progress, Stop, record};
pub use signals::Forwarder;
pub use tool::Tool;
