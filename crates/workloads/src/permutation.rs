//! A seeded bijection of `0..n`, computed instead of stored.

use frostline_core::rng::Rng;

/// A four-round Feistel network (Luby and Rackoff 1988) over the smallest power of two that holds
/// `n`, walked along its cycle until it falls below `n` (Black and Rogaway 2002), less than two
/// steps on average. Its round function is the high half of a product with a random odd number.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    n: u32,
    low_bits: u32,
    low_mask: u32,
    high_mask: u32,
    keys: [(u64, u64); 4],
}

impl Permutation {
    /// `n` within `1..=2^31`.
    pub(super) fn new(n: u32, rng: &mut Rng) -> Self {
        let bits = n.next_power_of_two().trailing_zeros().max(2);
        let low_bits = bits / 2;
        Self {
            n,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|_| (rng.next_u64(), rng.next_u64() | 1)),
        }
    }

    /// Where `x` goes; `x` must be below `n`.
    #[inline]
    pub(super) fn apply(&self, mut x: u32) -> u32 {
        debug_assert!(x < self.n);
        loop {
            let (mut low, mut high) = (x & self.low_mask, x >> self.low_bits);
            for pair in self.keys.chunks_exact(2) {
                low ^= round(high, pair[0]) & self.low_mask;
                high ^= round(low, pair[1]) & self.high_mask;
            }
            x = high << self.low_bits | low;
            if x < self.n {
                return x;
            }
        }
    }
}

#[inline]
fn round(half: u32, (add, multiply): (u64, u64)) -> u32 {
    (add.wrapping_add(u64::from(half)).wrapping_mul(multiply) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_ok;

    #[test]
    fn is_a_bijection() {
        for n in [1u32, 2, 3, 4, 5, 100, 512, 1000, 65_537] {
            for seed in 0..5 {
                let permutation = Permutation::new(n, &mut Rng::new(seed));
                let mut seen = vec![false; n as usize];
                for x in 0..n {
                    let y = permutation.apply(x) as usize;
                    assert!(!std::mem::replace(&mut seen[y], true), "n {n} seed {seed}: {y} twice");
                }
            }
        }
    }

    #[test]
    fn scatters_neighbours_over_regions() {
        // The first 1 % must fall on 128 equal parts as balls fall into boxes.
        let n = 1 << 16;
        let permutation = Permutation::new(n, &mut Rng::new(3));
        let mut parts = vec![0u64; 128];
        for x in 0..8192 {
            parts[(permutation.apply(x) / (n / 128)) as usize] += 1;
        }
        chi_square_ok(&parts, &vec![1.0; 128]);
        let spread = parts.iter().max().unwrap() - parts.iter().min().unwrap();
        assert!(spread > 10, "too even to be random: {spread}");
    }
}
