//! Repair of checksums, for tests of what lies behind them.

use super::layout::{FRAME_HEADER_LEN, PREAMBLE_LEN};
use super::wire::u32_at;

/// Recomputes the checksums of all frames that can be found from the start on. A mutated trace
/// then gets past them, so that a fuzzer reaches the decoder. Of no use for real damage: it makes
/// wrong data look right.
pub fn repair_checksums(bytes: &mut [u8]) {
    let put_crc = |bytes: &mut [u8], len: usize| {
        let crc = crc32fast::hash(&bytes[..len]);
        bytes[len..len + 4].copy_from_slice(&crc.to_le_bytes());
    };
    let Some((preamble, mut frames)) = bytes.split_at_mut_checked(PREAMBLE_LEN) else { return };
    put_crc(preamble, PREAMBLE_LEN - 4);
    while let Some((header, rest)) = frames.split_at_mut_checked(FRAME_HEADER_LEN) {
        let len = u32_at(header, 4) as usize;
        let (payload, rest) = rest.split_at_mut(len.min(rest.len()));
        header[24..28].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        put_crc(header, FRAME_HEADER_LEN - 4);
        frames = rest;
    }
}
