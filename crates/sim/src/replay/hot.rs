//! The two passes over every access: state bytes, and counts.
//!
//! Both are written for independent loads and for vectors: nothing in them depends on the access
//! before, and no branch depends on data.

use super::marks;
use crate::clock::Counts;
use frostline_core::placement::PageState;
use frostline_trace::{Batch, Column};

/// Looks up the state byte of every access and marks its page as touched. True where one of them
/// cannot be served by a plain access.
///
/// Almost every page has all its marks already, so that they are read first and written only
/// where one is missing: stores to lines that are not in the cache are what would take longest.
pub(super) fn gather(states: &[u8], marks: &mut [u8], pages: &[u32], out: &mut Vec<u8>) -> bool {
    out.resize(pages.len(), 0);
    let read = &marks[..states.len()];
    let (mut any, mut all) = (0, marks::ALL);
    for (slot, &page) in out.iter_mut().zip(pages) {
        let state = match states.get(page as usize) {
            Some(&state) => {
                all &= read[page as usize];
                state
            }
            None => PageState::ABSENT.0,
        };
        *slot = state;
        any |= state;
    }
    if all != marks::ALL {
        mark(&mut marks[..states.len()], pages);
    }
    any & PageState::ATTENTION != 0
}

/// Marks all pages that are below the slice's end.
fn mark(marks: &mut [u8], pages: &[u32]) {
    for &page in pages {
        if let Some(mark) = marks.get_mut(page as usize)
            && *mark != marks::ALL
        {
            *mark = marks::ALL;
        }
    }
}

/// Codes looked at in one go: few enough that a byte can count them.
const CHUNK: usize = 128;

/// Number of codes that equal `code`, at most [`CHUNK`] of them.
#[inline]
fn equal(codes: &[u8], code: u8) -> u32 {
    u32::from(codes.iter().fold(0u8, |sum, &c| sum + u8::from(c == code)))
}

/// Accesses by tier and kind, times `thinning`.
pub(super) fn count(states: &[u8], kinds: &Column, tiers: usize, thinning: u32) -> Counts {
    let mut counts = Counts::default();
    let values = kinds.values();
    let constant = (kinds.constant().unwrap_or(0) & 3) as usize;
    let mut codes = [0u8; CHUNK];
    for (c, states) in states.chunks(CHUNK).enumerate() {
        let codes = &mut codes[..states.len()];
        if values.is_empty() {
            for (code, state) in codes.iter_mut().zip(states) {
                *code = state & PageState::TIER;
            }
            let mut left = states.len() as u32;
            for (t, counts) in counts.iter_mut().enumerate().take(tiers).skip(1) {
                let n = equal(codes, t as u8);
                counts[constant] += n;
                left -= n;
            }
            counts[0][constant] += left;
        } else {
            for ((code, state), kind) in codes.iter_mut().zip(states).zip(&values[c * CHUNK..]) {
                *code = state & PageState::TIER | (*kind as u8 & 3) << 3;
            }
            for (t, counts) in counts.iter_mut().enumerate().take(tiers) {
                for (kind, count) in counts.iter_mut().enumerate() {
                    *count += equal(codes, t as u8 | (kind as u8) << 3);
                }
            }
        }
    }
    if thinning > 1 {
        counts.iter_mut().flatten().for_each(|n| *n *= thinning);
    }
    counts
}

/// The same as [`count`], the plain way.
pub(super) fn count_one_by_one(states: &[u8], batch: &Batch, thinning: u32) -> Counts {
    let mut counts = Counts::default();
    for (i, state) in states.iter().enumerate() {
        counts[usize::from(state & PageState::TIER)][batch.kind(i) as usize] += thinning;
    }
    counts
}
