//! Limit on the memory that a file or a number may make Frostline take: what exists, and little more.
//!
//! Tables are indexed by page, and page numbers come from files and command lines. Before a table grows to
//! a number, [`Limit::check`] compares what the table would take with what is there to fill it.
//! `docs/reference/limits.md` has the rule for each kind of input.

use crate::types::Bytes;

/// What tables of engine, simulator, profile and policy together take of memory for one page id, at most.
pub const BYTES_PER_PAGE: u64 = 64;

/// What every input may take: the tables of 2^20 pages, 4 GiB of a program's memory.
pub const FREE: Bytes = Bytes(64 << 20);

/// A limit on memory in proportion to what exists, with an amount that is allowed in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    allowed: Bytes,
}

impl Default for Limit {
    /// [`FREE`] in any case.
    fn default() -> Self {
        Self { allowed: FREE }
    }
}

/// Something would take more memory than what exists accounts for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} would take {} MiB of memory, and {} MiB are allowed\nhint: \
     if it is meant so, allow it by `--max-memory {}GiB`; else the number is wrong, or the file damaged",
    wanted.0.div_ceil(1 << 20), allowed.0 >> 20, wanted.0.div_ceil(1 << 30)
)]
pub struct LimitError {
    /// What it is that would take it.
    pub what: alloc::string::String,
    /// Bytes that it would take, about.
    pub wanted: Bytes,
    /// Bytes that it may take.
    pub allowed: Bytes,
}

impl Limit {
    /// Allows this much, whatever exists; never less than [`FREE`].
    pub fn allowing(bytes: Bytes) -> Self {
        Self { allowed: bytes.max(FREE) }
    }

    /// Most page ids for which tables may be made of `held` bytes of things that exist.
    pub fn pages(self, held: Bytes) -> u64 {
        self.allowed.saturating_add(held).0 / BYTES_PER_PAGE
    }

    /// Refuses what takes more than is allowed in any case and `held` bytes that are accounted for.
    ///
    /// # Errors
    /// Where `wanted` is more; `what` names it.
    pub fn check(
        self,
        wanted: Bytes,
        held: Bytes,
        what: impl FnOnce() -> alloc::string::String,
    ) -> Result<(), LimitError> {
        let allowed = self.allowed.saturating_add(held);
        match wanted <= allowed {
            true => Ok(()),
            false => Err(LimitError { what: what(), wanted, allowed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_exists_is_allowed_for_and_the_rest_is_named() {
        let limit = Limit::default();
        assert_eq!(limit.pages(Bytes::ZERO), 1 << 20);
        assert_eq!(limit.pages(Bytes::MAX), u64::MAX / BYTES_PER_PAGE);
        let what = || "a page".to_string();
        assert_eq!(limit.check(FREE, Bytes::ZERO, what), Ok(()));
        assert_eq!(limit.check(Bytes(FREE.0 + 1), Bytes(1), what), Ok(()));
        let error = limit.check(Bytes(FREE.0 + 1), Bytes::ZERO, what).unwrap_err().to_string();
        assert_eq!(
            error,
            "a page would take 65 MiB of memory, and 64 MiB are allowed\nhint: if it is meant so, \
             allow it by `--max-memory 1GiB`; else the number is wrong, or the file damaged"
        );
        assert_eq!(Limit::allowing(Bytes::ZERO), limit);
        assert_eq!(
            Limit::allowing(Bytes(1 << 30)).check(Bytes(1 << 30), Bytes::ZERO, what),
            Ok(())
        );
    }
}
