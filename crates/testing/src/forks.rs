//! Order between tests that copy their process and tests that take pages of it out of their places.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Pages that a child has, too, cannot be taken out, and a fork has all put back that are out.
static FORKS: RwLock<()> = RwLock::new(());

/// For tests that copy this process: held until the last copy has ended.
pub fn forks() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// For tests that take pages of this process out of their places: alone among them, and no other
/// test copies this process meanwhile.
pub fn takes_pages_out() -> RwLockWriteGuard<'static, ()> {
    FORKS.write().unwrap_or_else(PoisonError::into_inner)
}
