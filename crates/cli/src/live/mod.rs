//! Tiering of running programs: what `run`, `attach` and `daemon` share.

mod board;
pub mod config;
pub mod consolidation;
pub mod fleet;
pub mod gathering;
pub mod inside;
pub mod journal_trace;
pub mod metrics;
pub mod options;
pub mod session;
mod share;
pub mod slow;
pub mod summary;
pub mod top;
