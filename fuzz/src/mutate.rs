//! Changes of input by a seeded generator: a test without a fuzzer.

use frostline_core::rng::Rng;

/// Changes bytes in one place, or several.
pub fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        once(bytes, rng);
    }
}

fn once(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, len: usize| rng.below(len as u64 + 1) as usize;
    let len = bytes.len();
    match rng.below(6) {
        0 => bytes.truncate(at(rng, len)),
        1 if len > 0 => {
            let from = at(rng, len - 1);
            let to = (from + at(rng, 40)).min(len);
            let piece = bytes[from..to].to_vec();
            let into = at(rng, len);
            bytes.splice(into..into, piece);
        }
        2 if len > 0 => {
            let from = at(rng, len - 1);
            bytes.drain(from..(from + at(rng, 40)).min(len));
        }
        _ if len > 0 => {
            let place = at(rng, len - 1);
            bytes[place] = match rng.below(3) {
                0 => 0xff,
                1 => bytes[place] ^ 1 << rng.below(8),
                _ => rng.next_u64() as u8,
            };
        }
        _ => bytes.push(rng.next_u64() as u8),
    }
}
