//! Pages as the host finds them, and as it is asked to move them.

use frostline_core::span::Span;
use frostline_core::types::TierId;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its tier.
    pub tier: TierId,
    /// Mapped as part of a 2 MiB folio.
    pub huge: bool,
}

/// Pages of one process that are moved in one go: consecutive base pages, or one whole folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The pages.
    pub span: Span,
    /// One folio of 2 MiB.
    pub huge: bool,
    /// Tier in which they were when that was looked up last; `None` for none.
    pub from: Option<TierId>,
}

impl Unit {
    /// Whether another unit goes on where this one ends, and both are one.
    pub fn is_followed_by(&self, other: &Self) -> bool {
        !self.huge && !other.huge && self.from == other.from && self.span.end() == other.span.start
    }
}
