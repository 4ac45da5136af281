//! The two passes over every access: state bytes, and counts.
//!
//! Both are written for independent loads and for vectors: nothing in them depends on the access
//! before, and no branch depends on data.

use super::marks;
use crate::clock::Counts;
use frostline_core::placement::PageState;
use frostline_core::types::MAX_TIERS;
use frostline_trace::Column;

/// Looks up the state byte of every access and marks its page as touched. True where one of them
/// cannot be served by a plain access.
pub(super) fn gather(states: &[u8], marks: &mut [u8], pages: &[u32], out: &mut Vec<u8>) -> bool {
    let marks = &mut marks[..states.len()];
    out.resize(pages.len(), 0);
    let mut any = 0;
    for (slot, &page) in out.iter_mut().zip(pages) {
        let state = match states.get(page as usize) {
            Some(&state) => {
                marks[page as usize] = marks::ALL;
                state
            }
            None => PageState::ABSENT.0,
        };
        *slot = state;
        any |= state;
    }
    any & PageState::ATTENTION != 0
}

/// Bytes of `codes` that equal `code`.
fn equal(codes: &[u8], code: u8) -> u32 {
    let chunk_sum =
        |chunk: &[u8]| chunk.iter().map(|&c| u8::from(c == code)).fold(0u8, |a, b| a + b);
    codes.chunks(128).map(|chunk| u32::from(chunk_sum(chunk))).sum()
}

/// Accesses by tier and kind, times `thinning`.
pub(super) fn count(states: &[u8], kinds: &Column, tiers: usize, thinning: u32) -> Counts {
    let mut counts = Counts::default();
    match kinds.constant() {
        Some(kind) => {
            let kind = (kind & 3) as usize;
            if tiers == 2 {
                let slow: u32 = states
                    .chunks(128)
                    .map(|c| u32::from(c.iter().fold(0u8, |a, s| a + (s & 1))))
                    .sum();
                counts[0][kind] = (states.len() as u32 - slow) * thinning;
                counts[1][kind] = slow * thinning;
            } else {
                let mut left = states.len() as u32;
                let mut codes = [0u8; 256];
                for states in states.chunks(256) {
                    for (code, state) in codes.iter_mut().zip(states) {
                        *code = state & PageState::TIER;
                    }
                    for (t, counts) in counts.iter_mut().enumerate().take(tiers).skip(1) {
                        let n = equal(&codes[..states.len()], t as u8);
                        counts[kind] += n * thinning;
                        left -= n;
                    }
                }
                counts[0][kind] = left * thinning;
            }
        }
        None => {
            let mut codes = [0u8; 256];
            for (start, states) in (0..).step_by(256).zip(states.chunks(256)) {
                for (i, (code, state)) in codes.iter_mut().zip(states).enumerate() {
                    *code = state & PageState::TIER | (kinds.get(start + i) as u8 & 3) << 3;
                }
                let codes = &codes[..states.len()];
                for (t, counts) in counts.iter_mut().enumerate().take(tiers.min(MAX_TIERS)) {
                    for (kind, count) in counts.iter_mut().enumerate() {
                        *count += equal(codes, t as u8 | (kind as u8) << 3) * thinning;
                    }
                }
            }
        }
    }
    counts
}
