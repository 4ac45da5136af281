//! Tiering of running programs: what `run`, `attach` and `daemon` share.

pub mod options;
pub mod session;
pub mod slow;
pub mod summary;
