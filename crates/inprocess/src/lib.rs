//! Code that lives in the process of another program: its injection, memory and a thread that the
//! program has nothing to do with, pages that are taken out of their places, and what is built on them.
//!
//! Everything here may run in a program that was written without us in mind. A fault here is that
//! program's fault: what can lose a byte of it is in this crate alone, its unsafe code in `sys`.
#![deny(unsafe_code)]

pub mod consolidate;
pub mod inject;
pub mod inside;
pub mod next_touch;

#[allow(unsafe_code)]
mod sys;
