//! The limit of what a target may allocate.

use cap::Cap;
use frostline_core::limit;
use std::alloc::System;

/// What a process may have at all, so that absurd requests fail instead of stopping the machine. Never changed:
/// other threads allocate meanwhile.
const MOST: usize = 4 << 30;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MOST);

/// What any input may take: tables of pages within their own limit, and as much again for buffers.
const FIXED: usize = 2 * limit::FREE.0 as usize;
/// What each byte of input may take.
const PER_BYTE: usize = 64;
/// Runs `check` on input of this length.
///
/// # Panics
/// Where `check` had more allocated at a time than it may. Where a process would have more
/// than 4 GiB, it is aborted.
pub fn limited(input_bytes: usize, check: impl FnOnce()) {
    let limit = FIXED + PER_BYTE * input_bytes;
    let (before, most_before) = (ALLOCATOR.allocated(), ALLOCATOR.max_allocated());
    check();
    let most = ALLOCATOR.max_allocated();
    assert!(
        most == most_before || most - before <= limit,
        "{} MiB were allocated for {input_bytes} bytes of input",
        (most - before) >> 20,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_much_is_noticed_and_refused() {
        limited(10, || drop(std::hint::black_box(vec![1_u8; FIXED / 2])));
        let too_much = || limited(10, || drop(std::hint::black_box(vec![1_u8; 2 * FIXED])));
        assert!(std::panic::catch_unwind(too_much).is_err());
        limited(10, || {
            let mut absurd: Vec<u8> = Vec::new();
            assert!(absurd.try_reserve_exact(1 << 40).is_err(), "it is refused");
        });
    }
}
