//! Recorder of memory traces of real, unmodified programs.
//!
//! The program runs under a tool for Valgrind or a plugin for QEMU ([`Recorder`]) that models a cache
//! hierarchy and sends what misses it through a pipe; this crate finds or builds it ([`Tool`]), starts
//! it, reads the pipe and writes a native trace ([`record`]). The recorders are separate programs with
//! a licence of their own (GPL-2.0-or-later); the pipe is documented in
//! `docs/reference/formats/recorder-pipe.md`.
#![forbid(unsafe_code)]

mod address_space;
mod error;
mod kit;
mod options;
mod packet;
mod program;
mod qemu;
mod running;
mod session;
mod tool;
mod translate;
pub mod trust;
mod valgrind;

pub use error::RecordError;
pub use options::Options;
pub use running::{CtrlC, Running};
pub use session::{Outcome, Progress, Stop, record, translate_packets};
pub use tool::{Recorder, Tool};
