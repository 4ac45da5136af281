//! Memory that files and numbers may make this process take: `--max-memory`.

use frostline_core::{Bytes, Limit};
use std::sync::OnceLock;

static GIVEN: OnceLock<Limit> = OnceLock::new();

/// Takes the option's value over, once, before anything is read.
pub fn set(max_memory: Option<Bytes>) {
    if let Some(bytes) = max_memory {
        let _ = GIVEN.set(Limit::allowing(bytes));
    }
}

/// The limit for all that is read.
pub fn current() -> Limit {
    GIVEN.get().copied().unwrap_or_default()
}
