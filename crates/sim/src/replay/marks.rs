//! Marks of a page, one byte each.
//!
//! An access stores [`ALL`] blindly, so every mark is a bit that an access sets and somebody else clears.

/// Every mark.
pub(super) const ALL: u8 = u8::MAX;
/// Touched since it became resident; clear for a folio's untouched parts.
pub(super) const TOUCHED: u8 = 1;
/// The access bit, cleared by scans.
pub(super) const ACCESSED: u8 = 2;
/// The access bit as seen by the kernel's own reclaim.
pub(super) const REFERENCED: u8 = 4;
/// Clear from a promotion to the next touch.
pub(super) const USED: u8 = 8;
/// Accessed in the while that is looked at.
pub(super) const COUNTED: u8 = 16;

/// Whether any of these pages has a mark.
pub(super) fn any(marks: &[u8], mark: u8) -> bool {
    marks.iter().any(|m| m & mark != 0)
}

/// Sets a mark of all these pages.
pub(super) fn set(marks: &mut [u8], mark: u8) {
    marks.iter_mut().for_each(|m| *m |= mark);
}

/// Clears a mark of all these pages.
pub(super) fn clear(marks: &mut [u8], mark: u8) {
    marks.iter_mut().for_each(|m| *m &= !mark);
}
