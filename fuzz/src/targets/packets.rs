//! A recorder's packets, turned into a trace. Lengths, numbers and clocks are also made right, so that what
//! lies behind them is reached.

use crate::content::{End, drain};
use crate::target::Target;
use frostline_record::translate_packets;
use frostline_trace::MemTrace;
use std::collections::HashMap;

pub const TARGET: Target = Target { name: "packets", check, seeds, words: &["FLRP"] };

const MAGIC: u64 = 0x5052_4c46;
const VERSION: u64 = 1;
const HEADER_WORDS: usize = 5;

fn check(bytes: &[u8]) {
    check_as_is(bytes);
    check_as_is(&repaired(bytes));
}

fn check_as_is(bytes: &[u8]) {
    let mut trace = Vec::new();
    let result = translate_packets(bytes, &mut trace);
    if trace.is_empty() {
        result.expect_err("a recording has a header");
        return;
    }
    let trace = MemTrace::from_bytes(trace, "output");
    let mut reader = trace.reader().expect("we wrote it");
    let (content, end) = drain(&mut reader, usize::MAX);
    assert!(matches!(end, End::Whole), "what we wrote is good: {end:?}");
    let totals = reader.totals().expect("it was completed");
    assert_eq!(totals.records, content.accesses.len() as u64);
}

/// The same items in packets that are right.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        .collect();
    let mut next: HashMap<u32, u64> = HashMap::new();
    let (mut out, mut rest) = (Vec::new(), &words[..]);
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_WORDS>() {
        let claimed = (header[0] >> 51) as usize & 511;
        let len = claimed.saturating_sub(HEADER_WORDS).min(after.len());
        let (payload, more) = after.split_at(len);
        rest = more;
        let final_flag = header[0] & 1 << 40;
        let sequence = next.entry(header[1] as u32).or_default();
        let start = header[3] & ((1 << 40) - 1);
        let total = (8 * (HEADER_WORDS + len)) as u64;
        out.extend([
            MAGIC | VERSION << 32 | final_flag | total << 48,
            header[1],
            *sequence,
            start,
            start + elapsed(payload),
        ]);
        *sequence += 1;
        out.extend(payload);
    }
    out.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// By how much the items of a payload move the clock.
fn elapsed(payload: &[u64]) -> u64 {
    let (mut at, mut sum) = (0, 0);
    while let Some(word) = payload.get(at) {
        at += 1;
        if word >> 63 == 0 {
            sum += word & 0xf_ffff;
        } else {
            at += (word >> 44) as usize & 0xfff;
            if word >> 56 & 127 == 1 {
                sum += word & ((1 << 44) - 1);
            }
        }
    }
    sum
}

fn event(code: u64, value: u64, body: &[u64]) -> Vec<u64> {
    let first = 1 << 63 | code << 56 | (body.len() as u64) << 44 | value;
    std::iter::once(first).chain(body.iter().copied()).collect()
}

fn text(words: &[u64], text: &str) -> Vec<u64> {
    let mut body = words.to_vec();
    body.push(text.len() as u64);
    body.extend(text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    body
}

fn packet(pid: u64, payload: &[Vec<u64>]) -> Vec<u8> {
    let payload = payload.concat();
    let total = (8 * (HEADER_WORDS + payload.len())) as u64;
    let header = [MAGIC | VERSION << 32 | total << 48, pid | pid << 32, 0, 0, 0];
    header.iter().chain(&payload).flat_map(|word| word.to_le_bytes()).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    const PAGE: u64 = 0x7_f000_0000;
    let start = PAGE << 12;
    let access = |page: u64, kind: u64| vec![(PAGE + page) << 28 | 5 << 22 | kind << 20 | 9];
    let first = packet(
        7,
        &[
            event(18, 0, &text(&[1, 0, 0, 0, 0, 0, 0, 0], "prog a b")),
            event(6, 0, &text(&[start, 0x40_0000, 3 | 0x22 << 32, 0, 0, 0], "")),
            event(6, 0, &text(&[start + 0x80_0000, 0x2000, 1 | 2 << 32, 8, 12, 0], "/lib/x.so")),
            access(0, 0),
            access(600, 1),
            event(1, 1000, &[]),
            event(2, 8, &[]),
            access(1, 2),
            event(3, PAGE << 6, &[]),
            event(4, PAGE >> 9, &[1, 0, 0, 0, 0, 0, 0, 3]),
            event(5, 0, &[0, 0, 1]),
            event(10, 1, &[start, 0x1000]),
            event(11, 4, &[start, 0x1000]),
            event(8, 0, &[start, 0x40_0000, start + 0x100_0000, 0x60_0000]),
            event(12, 3, &text(&[8, 13, 0, 0], "/data")),
            event(14, 0, &[8, 13, 0, 4096]),
            event(15, 0, &[8, 13, 4096, 10]),
            event(13, 3, &[8, 13]),
            event(9, 0, &[0x5000_0000, 0x5002_0000]),
            event(16, 9, &[]),
            event(21, 0, &[77]),
            event(22, 0, &[77]),
            event(17, 9, &[]),
            event(7, 0, &[start + 0x100_0000, 0x60_0000]),
        ],
    );
    let child = packet(
        9,
        &[
            event(18, 1, &text(&[7, 0, 0, 0, 0, 0, 0, 0], "prog a b")),
            access(0, 1),
            event(20, 0, &[]),
        ],
    );
    let last = packet(7, &[event(19, 3, &[0, 1, 1, 1, 0, 1])]);
    vec![repaired(&[first.clone(), child, last].concat()), repaired(&first)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_whole_recording() {
        for (seed, accesses) in seeds().iter().zip([4, 3]) {
            let mut trace = Vec::new();
            translate_packets(seed, &mut trace).expect("the packets are right");
            let trace = MemTrace::from_bytes(trace, "output");
            let (content, _) = drain(&mut trace.reader().expect("we wrote it"), usize::MAX);
            assert_eq!(content.accesses.len(), accesses);
            assert!(content.events.len() > 10, "{:?}", content.events);
        }
    }
}
